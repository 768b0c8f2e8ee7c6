//! The only place that reads time or randomness, or spawns a task; a manual clock for tests.
//!
//! Two clocks: `now` is the calendar (may jump), `uptime` never goes back and counts suspension
//! (`CLOCK_BOOTTIME`), which is what a fence needs: a process that was frozen must notice.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::domain::time::Timestamp;

/// A clock, real or turned by hand.
#[derive(Clone, Debug, Default)]
pub struct Clock(Option<Arc<AtomicI64>>);

impl Clock {
    /// The machine's clock.
    #[must_use]
    pub const fn system() -> Self {
        Self(None)
    }

    /// A clock that stands still until it is turned.
    #[must_use]
    pub fn manual(start: Timestamp) -> Self {
        Self(Some(Arc::new(AtomicI64::new(start.micros()))))
    }

    /// Turns a manual clock; the machine's clock is not touched.
    pub fn advance(&self, span: Duration) {
        if let Some(micros) = &self.0 {
            micros.fetch_add(i64::try_from(span.as_micros()).unwrap_or(i64::MAX), Ordering::SeqCst);
        }
    }

    /// Steps a manual clock to a time, back too; the machine's clock is not touched.
    pub fn set(&self, now: Timestamp) {
        if let Some(micros) = &self.0 {
            micros.store(now.micros(), Ordering::SeqCst);
        }
    }

    /// The time of day.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        match &self.0 {
            Some(micros) => Timestamp::from_micros(micros.load(Ordering::SeqCst)),
            None => system_now(),
        }
    }

    /// Time since boot, suspension included.
    #[must_use]
    pub fn uptime(&self) -> Duration {
        if let Some(micros) = &self.0 {
            return Duration::from_micros(u64::try_from(micros.load(Ordering::SeqCst)).unwrap_or(0));
        }
        let spec = clock_gettime(ClockId::Boottime);
        Duration::new(
            u64::try_from(spec.tv_sec).unwrap_or(0),
            u32::try_from(spec.tv_nsec).unwrap_or(0),
        )
    }
}

#[expect(clippy::disallowed_methods, reason = "this is the home of the calendar clock")]
fn system_now() -> Timestamp {
    let elapsed = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap_or_default();
    Timestamp::EPOCH.plus(elapsed)
}

/// A random share, 0 up to but not including 1.
#[must_use]
#[expect(clippy::disallowed_methods, reason = "this is the home of randomness")]
pub fn roll() -> f64 {
    fastrand::f64()
}

/// A random number.
#[must_use]
#[expect(clippy::disallowed_methods, reason = "this is the home of randomness")]
pub fn random() -> u64 {
    fastrand::u64(..)
}

/// A new id that sorts by time (UUID version 7).
#[must_use]
#[expect(clippy::disallowed_methods, reason = "this is the home of ids")]
pub fn new_id() -> String {
    uuid::Uuid::now_v7().to_string()
}

/// Waits for `span`, or until `stop`.
pub async fn wait(stop: &CancellationToken, span: Duration) {
    stop.run_until_cancelled(tokio::time::sleep(span)).await;
}

/// Runs a task that has a name in the log; its panic is logged with that name and reaches whoever joins it.
#[expect(clippy::disallowed_methods, reason = "this is the home of spawning")]
pub fn spawn<F>(name: &'static str, future: F) -> JoinHandle<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    let task = PanicNote(name);
    tokio::spawn(async move {
        let output = future.await;
        std::mem::forget(task);
        output
    })
}

/// Notes in the log that a task ended by a panic: dropped only when its future did not finish.
struct PanicNote(&'static str);

impl Drop for PanicNote {
    fn drop(&mut self) {
        if std::thread::panicking() {
            tracing::error!(task = self.0, "task panicked");
        }
    }
}
