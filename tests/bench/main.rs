//! Measurements of delivery on real servers, as ratios within one run; `tests/bench/run` brings the servers.
//!
//! Sections, by argument (all of them without one, but `quick`): `quick` (a minute, beside `reference.txt`), `throughput`,
//! `one`, `publish`, `scale` (or `scale:N`, with N queues), `daemons`, `latency` (or `latency:N`), `isolation`, `outage` (or one part of it:
//! `outage:30`, `outage:60`, `outage:90`, percent that hang, `outage:dead`), `redrive`, `dead`, `expiring`, `intake`, `events` (or one part of it: `events:drain`, `events:push`,
//! `events:wake`, `events:search`), `growth` (or `growth:N`, with so many executions), `console`, `attach`, `memory`, `filters`.
//! Each side (receiver, bare loop, engine) is a process of its own, started by this one from its own program; both sides
//! of a ratio do the same work on the same broker with the same receiver, by turns. What a number means, and from when to
//! when it is taken, stands in the module of its section.
//!
//! Prints the rows of the README's table; single rounds go to the standard error stream.
//! `REDRIVE_BENCH_ROUNDS` sets how often each side runs (5).
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a measurement that cannot go on says why by panicking, and its result is what it prints"
)]
#![allow(
    clippy::disallowed_methods,
    clippy::cast_precision_loss,
    reason = "the measurement's own clock and tasks, outside the program under test; its numbers are small"
)]
#![allow(
    unreachable_pub,
    reason = "what a module offers to the others of this program is `pub`"
)]

mod attach;
mod bare;
mod console;
mod daemons;
mod dead;
mod delivering;
mod events;
mod expiring;
mod filters;
mod ground;
mod growth;
mod intake;
mod isolation;
mod latency;
mod memory;
mod numbers;
mod outage;
mod process;
mod program;
mod publish;
mod receiver;
mod redrive;
mod reference;
mod scale;
mod support;
mod terminal;
mod throughput;

const SECTIONS: [&str; 27] = [
    "quick",
    "throughput",
    "one",
    "publish",
    "scale",
    "daemons",
    "latency",
    "isolation",
    "outage",
    "outage:30",
    "outage:60",
    "outage:90",
    "outage:dead",
    "redrive",
    "dead",
    "expiring",
    "intake",
    "events",
    "events:drain",
    "events:push",
    "events:wake",
    "events:search",
    "growth",
    "console",
    "attach",
    "memory",
    "filters",
];

fn main() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    // `cargo bench` says `--bench` to every benchmark.
    let arguments: Vec<String> = std::env::args()
        .skip(1)
        .filter(|argument| argument != "--bench")
        .collect();
    if let [first, side, rest @ ..] = arguments.as_slice()
        && first == process::SIDE
    {
        return run_side(side, rest);
    }
    let is_known = |name: &str| {
        SECTIONS.contains(&name)
            || ["growth:", "scale:", "latency:"]
                .iter()
                .any(|prefix| name.starts_with(prefix))
    };
    if let Some(unknown) = arguments.iter().find(|name| !is_known(name)) {
        eprintln!("no section {unknown:?}: possible are {SECTIONS:?}");
        std::process::exit(2);
    }
    runtime().block_on(async {
        numbers::print_machine();
        delivery(&arguments).await;
        rest(&arguments).await;
    });
}

/// The parts of a section that are asked for, none for all of them; `None`: the section is not asked for.
fn asked(arguments: &[String], section: &str) -> Option<Vec<String>> {
    let part = |argument: &String| Some(argument.strip_prefix(section)?.strip_prefix(':')?.to_owned());
    let parts: Vec<String> = arguments.iter().filter_map(part).collect();
    let is_named = arguments.is_empty() || arguments.iter().any(|argument| argument == section);
    (is_named || !parts.is_empty()).then_some(parts)
}

/// The sections about delivery.
async fn delivery(arguments: &[String]) {
    let wanted = |section: &str| asked(arguments, section).is_some();
    // Only where it is asked for: its parts are in the others.
    if arguments.iter().any(|argument| argument == "quick") {
        throughput::quick().await;
    }
    if wanted("throughput") {
        throughput::many_queues().await;
    }
    if wanted("one") {
        throughput::one_queue().await;
    }
    if wanted("publish") {
        publish::run().await;
    }
    if let Some(parts) = asked(arguments, "scale") {
        scale::run(&parts).await;
    }
    if wanted("daemons") {
        daemons::run().await;
    }
    if let Some(parts) = asked(arguments, "latency") {
        latency::run(&parts).await;
    }
    if wanted("isolation") {
        isolation::run().await;
    }
    if let Some(parts) = asked(arguments, "outage") {
        outage::run(&parts).await;
    }
}

/// All other sections.
async fn rest(arguments: &[String]) {
    let wanted = |section: &str| asked(arguments, section).is_some();
    if wanted("redrive") {
        redrive::run().await;
    }
    if wanted("dead") {
        dead::run().await;
    }
    if wanted("expiring") {
        expiring::run().await;
    }
    if wanted("intake") {
        intake::run().await;
    }
    if let Some(parts) = asked(arguments, "events") {
        events::run(&parts).await;
    }
    if let Some(parts) = asked(arguments, "growth") {
        growth::run(parts.first().map(String::as_str)).await;
    }
    if wanted("console") {
        console::run().await;
    }
    if wanted("attach") {
        attach::run();
    }
    if wanted("memory") {
        memory::run().await;
    }
    if wanted("filters") {
        filters::run().await;
    }
}

fn run_side(side: &str, arguments: &[String]) {
    match side {
        "receiver" => receiver::run(),
        "console" => runtime().block_on(console::hold_rows()),
        "dead" => runtime().block_on(dead::fill(arguments)),
        "bare" => runtime().block_on(bare::run(arguments)),
        "light" => runtime().block_on(bare::run_light(arguments)),
        "events" => runtime().block_on(events::run_side(arguments)),
        "growth" => runtime().block_on(growth::run_side(arguments)),
        "publisher" => runtime().block_on(publish::run_side(arguments)),
        "engine" => runtime().block_on(delivering::run(arguments)),
        other => panic!("no side {other:?}"),
    }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap()
}
