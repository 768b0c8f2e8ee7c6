//! Faults on the real servers, with the built program: what was published arrives, in order, with no
//! more repeats than the faults explain, and nobody has to lend a hand.
//!
//! Each test publishes through the library in this process, which goes on while a daemon is dead, lets
//! the daemon deliver to a real receiver, and leaves the judgement to the one history checker.
#![allow(
    clippy::disallowed_methods,
    reason = "the test's own clock and tasks, outside the program under test"
)]

mod brokers;
mod certificates;
mod commands;
mod disowned;
mod foreign;
mod healing;
mod identity;
mod killed;
mod lost;
mod poison;
mod proxy;
mod readiness;
mod receivers;
pub(crate) mod scene;
mod split;
mod start;
mod stopped;
mod stores;
mod two_daemons;
mod unconfirmed;
mod unread;
mod vhost;
