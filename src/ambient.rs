//! The only place that reads time or randomness, or spawns a task; a manual clock for tests.
//!
//! Two clocks: `now` is the calendar (may jump), `uptime` never goes back and counts suspension
//! (`CLOCK_BOOTTIME`), which is what a fence needs: a process that was frozen must notice.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::domain::time::Timestamp;

/// A clock, real or turned by hand.
#[derive(Clone, Debug, Default)]
pub struct Clock {
    manual: Option<Arc<Manual>>,
    /// By how many seconds the machine's calendar is taken for ahead.
    off_by_s: i64,
}

/// What a clock that is turned by hand shows, in microseconds.
#[derive(Debug, Default)]
struct Manual {
    now: AtomicI64,
    uptime: AtomicI64,
}

impl Clock {
    /// The machine's clock.
    #[must_use]
    pub const fn system() -> Self {
        Self::system_off_by(0)
    }

    /// The machine's clock with a calendar that is so many seconds ahead; behind, when negative. Uptime is right.
    #[must_use]
    pub const fn system_off_by(seconds: i64) -> Self {
        Self {
            manual: None,
            off_by_s: seconds,
        }
    }

    /// A clock that stands still until it is turned.
    #[must_use]
    pub fn manual(start: Timestamp) -> Self {
        let manual = Manual {
            now: AtomicI64::new(start.micros()),
            uptime: AtomicI64::new(start.micros()),
        };
        Self {
            manual: Some(Arc::new(manual)),
            off_by_s: 0,
        }
    }

    /// Turns a manual clock; the machine's clock is not touched.
    pub fn advance(&self, span: Duration) {
        if let Some(manual) = &self.manual {
            let micros = i64::try_from(span.as_micros()).unwrap_or(i64::MAX);
            manual.now.fetch_add(micros, Ordering::SeqCst);
            manual.uptime.fetch_add(micros, Ordering::SeqCst);
        }
    }

    /// Steps the calendar of a manual clock to a time, back too: somebody set it, and no time went by. The
    /// machine's clock is not touched.
    pub fn set(&self, now: Timestamp) {
        if let Some(manual) = &self.manual {
            manual.now.store(now.micros(), Ordering::SeqCst);
        }
    }

    /// The time of day.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        match &self.manual {
            Some(manual) => Timestamp::from_micros(manual.now.load(Ordering::SeqCst)),
            None => Timestamp::from_micros(system_now().micros() + self.off_by_s * 1_000_000),
        }
    }

    /// Time since boot, suspension included.
    #[must_use]
    pub fn uptime(&self) -> Duration {
        if let Some(manual) = &self.manual {
            return Duration::from_micros(u64::try_from(manual.uptime.load(Ordering::SeqCst)).unwrap_or(0));
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

/// What the calling thread has had of a processor: other work on the machine does not count.
#[must_use]
pub fn processor_time() -> Duration {
    let spec = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(
        u64::try_from(spec.tv_sec).unwrap_or(0),
        u32::try_from(spec.tv_nsec).unwrap_or(0),
    )
}

/// Computes beside the runtime's other tasks: they go on meanwhile. What the calling task waits for besides waits.
pub fn beside<T>(work: impl FnOnce() -> T) -> T {
    let is_shared = Handle::try_current().is_ok_and(|runtime| runtime.runtime_flavor() == RuntimeFlavor::MultiThread);
    if is_shared {
        tokio::task::block_in_place(work)
    } else {
        work()
    }
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
