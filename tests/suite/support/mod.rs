//! What the suites share: the wait helper, a receiver of notifications, the history checker,
//! servers, and the built program.
#![allow(
    clippy::disallowed_methods,
    reason = "the test's own clock and tasks, outside the program under test"
)]
#![allow(
    dead_code,
    reason = "an instrument is complete before every suite that reads it exists"
)]

pub mod certificates;
pub mod checker;
pub mod closing_broker;
pub mod daemon;
pub mod described;
pub mod faulty_store;
pub mod http;
pub mod management;
pub mod pooler;
pub mod receiver;
pub mod relay;
pub mod servers;
pub mod statsd;
pub mod wait;

/// A test that needs what this machine has not says so and proves nothing; a run that has to test everything fails.
pub fn not_run(lacks: &str) {
    use std::io::Write as _;

    let must_run = std::env::var_os("REDRIVE_TEST_NEEDS_ALL").is_some();
    assert!(!must_run, "there is no {lacks}");
    let _ = writeln!(std::io::stderr(), "not run: there is no {lacks}");
}
