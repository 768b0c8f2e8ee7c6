//! Many seeds: as many as are asked for, or as fit into a time; and what is made of one that fails.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::plan::{Plan, Scenario};
use super::world::{Outcome, run};

/// What many runs came to.
#[derive(Debug, Default)]
pub struct Tally {
    pub seeds: u64,
    pub faults: u64,
    pub deliveries: u64,
    pub simulated: Duration,
    /// The first seed that failed.
    pub failed: Option<u64>,
}

/// Runs seeds from `from` on, until `count` are done, `within` is over, or one fails.
pub fn many(scenario: Scenario, from: u64, count: u64, within: Duration) -> Tally {
    let (began, next, tally) = (Instant::now(), AtomicU64::new(from), Mutex::new(Tally::default()));
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while began.elapsed() < within && tally.lock().unwrap().failed.is_none() {
                    let seed = next.fetch_add(1, Ordering::SeqCst);
                    if seed >= from + count {
                        break;
                    }
                    let outcome = caught(&scenario.plan(seed), false);
                    let mut tally = tally.lock().unwrap();
                    tally.count(seed, outcome.as_ref());
                }
            });
        }
    });
    tally.into_inner().unwrap()
}

impl Tally {
    fn count(&mut self, seed: u64, outcome: Option<&Outcome>) {
        self.seeds += 1;
        if let Some(outcome) = outcome {
            self.faults += outcome.faults as u64;
            self.deliveries += outcome.deliveries as u64;
            self.simulated += outcome.simulated;
        }
        if outcome.is_none_or(|outcome| !outcome.wrong.is_empty()) {
            self.failed = Some(self.failed.map_or(seed, |failed| failed.min(seed)));
        }
    }
}

/// A run; `None`: it panicked.
fn caught(plan: &Plan, keeps_lines: bool) -> Option<Outcome> {
    std::panic::catch_unwind(|| run(plan, keeps_lines)).ok()
}

fn fails(plan: &Plan) -> bool {
    caught(plan, false).is_none_or(|outcome| !outcome.wrong.is_empty())
}

/// The same failure with fewer faults: drops one after the other while it still fails.
pub fn shrunk(plan: Plan) -> Plan {
    let mut plan = plan;
    let mut at = 0;
    while at < plan.faults.len() {
        let smaller = plan.without(at);
        if fails(&smaller) {
            plan = smaller;
        } else {
            at += 1;
        }
    }
    plan
}

/// What a person needs of a seed, shrunk where it fails; `Err`: it does.
pub fn shown(scenario: Scenario, seed: u64) -> Result<String, String> {
    let (plan, name) = (scenario.plan(seed), scenario.name());
    if let Some(outcome) = caught(&plan, true).filter(|outcome| outcome.wrong.is_empty()) {
        let trace = outcome.lines.join("\n");
        return Ok(format!(
            "{trace}\nseed {seed} of {name} keeps every promise: trace {:016x}",
            outcome.hash
        ));
    }
    let plan = shrunk(plan);
    let Some(outcome) = caught(&plan, true) else {
        return Err(format!("seed {seed} of {name} panics; with {:#?}", plan.faults));
    };
    Err(format!(
        "{}\n{:#?}\n{:?}\n{:?}\n{:?}\nseed {seed} of {name} fails with {} faults:\n{:#?}\n{:#?}",
        outcome.lines.join("\n"),
        plan.streams,
        plan.orders,
        plan.policies,
        plan.events,
        plan.faults.len(),
        plan.faults,
        outcome.wrong,
    ))
}

/// The first promise that a seed breaks.
pub fn reason(scenario: Scenario, seed: u64) -> String {
    match caught(&scenario.plan(seed), false) {
        Some(outcome) => outcome
            .wrong
            .first()
            .map_or_else(|| "nothing".to_owned(), ToString::to_string),
        None => "a panic".to_owned(),
    }
}
