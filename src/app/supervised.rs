//! What a service manager hears of a daemon that it started (`sd_notify(3)`): that it listens, what it waits for, that it
//! still turns, that it stops. Without `NOTIFY_SOCKET` nobody listens, and nothing is said.
//!
//! A daemon is ready once it listens, and not when broker and store answer: what is away at its start is waited for,
//! and no manager should kill a daemon that waits.

use std::time::Duration;

use sd_notify::NotifyState;
use tokio_util::sync::CancellationToken;

use crate::ambient;

/// Says that it listens, and goes on saying that it turns where the manager wants to hear that, until `over`.
pub(super) fn begins(over: &CancellationToken) {
    say(&[NotifyState::Ready, NotifyState::Status("waiting for store and broker")]);
    // Twice in the time that it is given.
    if let Some(pause) = sd_notify::watchdog_enabled().map(|within| within / 2) {
        ambient::spawn("watchdog", turn(pause.max(Duration::from_millis(1)), over.clone()));
    }
}

async fn turn(pause: Duration, over: CancellationToken) {
    loop {
        say(&[NotifyState::Watchdog]);
        tokio::select! {
            biased;
            () = over.cancelled() => return,
            () = ambient::sleep(pause) => {}
        }
    }
}

/// What it does now, in a few words that are fit to be shown: a line break would end the field.
pub(super) fn does(what: &str) {
    say(&[NotifyState::Status(what)]);
}

/// That it stops in order, and may need so long for it: a manager that gives it less would cut off requests in flight, which
/// are then sent twice.
pub(super) fn stops(within: Duration) {
    let within_us = u32::try_from(within.as_micros()).unwrap_or(u32::MAX);
    say(&[
        NotifyState::Stopping,
        NotifyState::ExtendTimeoutUsec(within_us),
        NotifyState::Status("finishing what is in flight"),
    ]);
}

fn say(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::debug!(error = ?error, "the service manager was not told");
    }
}
