//! The real engine in a simulated world: one thread, no socket, no file, and no time but that of the timers. One seed
//! decides who is there, what is published, which faults come, and every interleaving.
//!
//! ```text
//! tests/simulate --seeds 1000              many seeds, from a random one on
//! tests/simulate --seeds 1000 --from 1     the same ones each time
//! tests/simulate --seed 7                  one seed, with its trace
//! tests/simulate --scenario orders …       one scenario of those there are
//! ```
//!
//! There are four scenarios, each with worlds and promises of its own: deliveries (`plan.rs`, `judge.rs`), runs over dead letters
//! (`orders.rs`) and policies that change while messages wait (`policies.rs`), and events with
//! their handlers and subscribers (`events.rs`).
//!
//! A seed that fails is shrunk: faults are taken out one by one while it still fails.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a test that cannot go on says why by panicking, and what it found by printing"
)]
#![allow(
    clippy::disallowed_methods,
    reason = "the world is outside the program under test: its tasks and its stop watch are its own"
)]
#![allow(
    unreachable_pub,
    reason = "what a module offers to the others of this program is `pub`"
)]

#[allow(dead_code, reason = "the contract suite uses all of it")]
mod broker;
#[path = "../suite/support/checker/mod.rs"]
#[allow(dead_code, reason = "the suite uses all of it")]
mod checker;
mod events;
mod judge;
mod orders;
mod plan;
mod policies;
mod receivers;
mod seeds;
#[allow(dead_code, reason = "the contract suite uses all of it")]
mod store;
mod trace;
mod world;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use plan::Scenario;

/// A number from the environment.
fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// What the program logs, where `REDRIVE_SIMULATE_LOG` says of what: `redrive=debug`.
fn show_log() {
    if let Ok(filter) = std::env::var("REDRIVE_SIMULATE_LOG") {
        tracing_subscriber::fmt().with_env_filter(filter).without_time().init();
    }
}

/// Those that are asked for: all of them, where none is named.
fn scenarios() -> Vec<Scenario> {
    let named = std::env::var("REDRIVE_SIMULATE_SCENARIO").unwrap_or_default();
    let mut scenarios = Scenario::ALL.to_vec();
    scenarios.retain(|scenario| named.is_empty() || scenario.name() == named);
    assert!(!scenarios.is_empty(), "there is no scenario {named:?}");
    scenarios
}

#[test]
fn a_seed_is_the_same_run_twice() {
    for scenario in Scenario::ALL {
        let [once, again, other] = thread::scope(|threads| {
            let runs = [1, 1, 2].map(|seed| threads.spawn(move || world::run(&scenario.plan(seed), true)));
            runs.map(|run| run.join().unwrap())
        });
        for (at, line) in once.lines.iter().enumerate() {
            assert_eq!(again.lines.get(at), Some(line), "the runs differ at line {at}");
        }
        assert_eq!(once.hash, again.hash);
        assert_ne!(once.hash, other.hash, "another seed is another run");
    }
}

/// Seeds that broke a promise once, each with what it was.
const FOUND: [(Scenario, u64, &str); 5] = [
    (
        Scenario::Deliveries,
        2_637,
        "a worker that waited for the broker went on under a lease that a failover had given to another one",
    ),
    (
        Scenario::Deliveries,
        3_783,
        "a store that failed over had forgotten the URL of a queue, and a redelivery of the URL did not find the queue",
    ),
    (
        Scenario::Deliveries,
        423_669_504,
        "a store that failed over twice remembered a lease again that the first time had given to another worker",
    ),
    (
        Scenario::Orders,
        10,
        "a paced run counted a message as redriven whose publish had no answer, and which another run discarded",
    ),
    (
        Scenario::Orders,
        747,
        "two runs that restored the same discarded messages at the same time put one of them back twice",
    ),
];

#[test]
fn no_seed_fails_that_failed_once() {
    for (scenario, seed, what) in FOUND {
        if let Err(failure) = seeds::shown(scenario, seed) {
            panic!("{what}:\n{failure}");
        }
    }
}

#[test]
fn no_seed_breaks_a_promise() {
    let scenarios = scenarios();
    if let Some(seed) = number("REDRIVE_SIMULATE_SEED") {
        show_log();
        match seeds::shown(scenarios[0], seed) {
            Ok(trace) => println!("{trace}"),
            Err(failure) => panic!("{failure}"),
        }
        return;
    }
    let from = number("REDRIVE_SIMULATE_FROM").unwrap_or(1);
    let count = number("REDRIVE_SIMULATE_SEEDS").unwrap_or(u64::MAX >> 1);
    let within = Duration::from_secs(number("REDRIVE_SIMULATE_SECONDS").unwrap_or(20));
    let shares: u32 = scenarios.iter().map(|scenario| scenario.share()).sum();
    for scenario in scenarios {
        search(scenario, (from, count), within * scenario.share() / shares);
    }
}

fn search(scenario: Scenario, (from, count): (u64, u64), within: Duration) {
    let began = Instant::now();
    let tally = seeds::many(scenario, from, count, within);
    let seconds = began.elapsed().as_secs_f64();
    #[expect(clippy::cast_precision_loss, reason = "numbers for people")]
    let rate = tally.seeds as f64 / seconds;
    println!(
        "{}: {} seeds in {seconds:.1} s ({rate:.1} a second), {} hours of simulated time, {} faults, {} requests",
        scenario.name(),
        tally.seeds,
        tally.simulated.as_secs() / 3600,
        tally.faults,
        tally.deliveries,
    );
    if let Some(seed) = tally.failed {
        panic!("{}", seeds::shown(scenario, seed).unwrap_or_else(|failure| failure));
    }
}

/// In a copy of the tree that a patch was applied to (`tests/simulate --planted`); elsewhere there is none.
#[test]
fn a_planted_bug_is_found() {
    let Ok(name) = std::env::var("REDRIVE_SIMULATE_PLANTED") else {
        return;
    };
    let (began, count) = (Instant::now(), number("REDRIVE_SIMULATE_SEEDS").unwrap_or(2_000));
    for scenario in scenarios() {
        let tally = seeds::many(scenario, 1, count, Duration::from_mins(10));
        if let Some(seed) = tally.failed {
            println!(
                "planted: {name} is found by seed {seed} of {}, in {:.0} s: {}",
                scenario.name(),
                began.elapsed().as_secs_f64(),
                seeds::reason(scenario, seed),
            );
            return;
        }
    }
    panic!("{name} is not found in {count} seeds");
}

/// What `tests/simulate --planted` applies is a change of the code as it is now.
#[test]
fn every_planted_bug_is_a_patch_of_this_code() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = fs::read_dir(root.join("tests/simulation/planted")).unwrap();
    let patches: Vec<PathBuf> = folder.map(|entry| entry.unwrap().path()).collect();
    assert!(patches.len() >= 12, "{patches:?}");
    for patch in patches {
        let mut tried = Command::new("patch");
        tried
            .args(["--dry-run", "--force", "--quiet", "-p1", "-d"])
            .arg(root)
            .arg("-i")
            .arg(&patch);
        let output = tried.output().expect("the program `patch`");
        assert!(
            output.status.success(),
            "{}: {}",
            patch.display(),
            String::from_utf8_lossy(&output.stdout)
        );
    }
}
