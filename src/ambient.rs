//! The only place that reads time or randomness, waits for a time, or spawns a task. For tests a clock that is turned by
//! hand, one that follows the runtime's time, and randomness from a seed.
//!
//! Two clocks: `now` is the calendar (may jump), `uptime` never goes back and counts suspension
//! (`CLOCK_BOOTTIME`), which is what a fence needs: a process that was frozen must notice.
//!
//! A run is a function of its seed where all of this holds: one thread ([`seed`] is the thread's), a runtime of tokio for
//! that thread with its time paused, [`Clock::of_runtime`], maps from here, and `biased` in every `select!`.

use std::cell::RefCell;
use std::future::Future;
use std::hash::{BuildHasher, DefaultHasher, Hasher as _, RandomState};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::BoxFuture;
use rustix::time::{ClockId, clock_gettime};
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::task::{AbortHandle, JoinHandle};
use tokio_util::sync::CancellationToken;

use crate::domain::time::Timestamp;

pub use tokio::time::{Sleep, Timeout};

/// A clock: the machine's, one that is turned by hand, or the runtime's.
#[derive(Clone, Debug)]
pub struct Clock(Source);

#[derive(Clone, Debug)]
enum Source {
    /// The machine's; its calendar is taken for so many seconds ahead.
    System {
        ahead_s: i64,
    },
    Manual(Arc<Manual>),
    /// So late it was when the runtime's time was that.
    Runtime {
        start: Timestamp,
        began: tokio::time::Instant,
    },
}

impl Default for Clock {
    fn default() -> Self {
        Self::system()
    }
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
        Self(Source::System { ahead_s: seconds })
    }

    /// A clock that stands still until it is turned.
    #[must_use]
    pub fn manual(start: Timestamp) -> Self {
        Self(Source::Manual(Arc::new(Manual {
            now: AtomicI64::new(start.micros()),
            uptime: AtomicI64::new(start.micros()),
        })))
    }

    /// A clock that shows `start` now and goes with the time of the calling task's runtime, which a test pauses: then
    /// it moves with the timers. It is read in that runtime only.
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "this is the home of clocks")]
    pub fn of_runtime(start: Timestamp) -> Self {
        Self(Source::Runtime {
            start,
            began: tokio::time::Instant::now(),
        })
    }

    /// Turns a manual clock; another one is not touched.
    pub fn advance(&self, span: Duration) {
        if let Source::Manual(manual) = &self.0 {
            let micros = i64::try_from(span.as_micros()).unwrap_or(i64::MAX);
            manual.now.fetch_add(micros, Ordering::SeqCst);
            manual.uptime.fetch_add(micros, Ordering::SeqCst);
        }
    }

    /// Steps the calendar of a manual clock to a time, back too: somebody set it, and no time went by. Another clock
    /// is not touched.
    pub fn set(&self, now: Timestamp) {
        if let Source::Manual(manual) = &self.0 {
            manual.now.store(now.micros(), Ordering::SeqCst);
        }
    }

    /// The time of day.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        match &self.0 {
            Source::System { ahead_s } => Timestamp::from_micros(system_now().micros() + ahead_s * 1_000_000),
            Source::Manual(manual) => Timestamp::from_micros(manual.now.load(Ordering::SeqCst)),
            Source::Runtime { start, began } => start.plus(began.elapsed()),
        }
    }

    /// Time since boot, suspension included.
    #[must_use]
    pub fn uptime(&self) -> Duration {
        match &self.0 {
            Source::System { .. } => {
                let spec = clock_gettime(ClockId::Boottime);
                Duration::new(
                    u64::try_from(spec.tv_sec).unwrap_or(0),
                    u32::try_from(spec.tv_nsec).unwrap_or(0),
                )
            }
            Source::Manual(manual) => {
                Duration::from_micros(u64::try_from(manual.uptime.load(Ordering::SeqCst)).unwrap_or(0))
            }
            // A process that begins is no first second of its machine.
            Source::Runtime { began, .. } => UPTIME_AT_START + began.elapsed(),
        }
    }
}

/// What a clock of a runtime shows as uptime at first: more than anything that is looked back for.
const UPTIME_AT_START: Duration = Duration::from_hours(24);

#[expect(clippy::disallowed_methods, reason = "this is the home of the calendar clock")]
fn system_now() -> Timestamp {
    let elapsed = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap_or_default();
    Timestamp::EPOCH.plus(elapsed)
}

thread_local! {
    static SEEDED: RefCell<Option<Seeded>> = const { RefCell::new(None) };
}

/// What a thread draws from in a run that has a seed.
struct Seeded {
    random: fastrand::Rng,
    clock: Clock,
}

/// Until it is dropped, the thread's randomness, ids and order of maps follow from its seed.
#[cfg_attr(not(feature = "internals"), allow(dead_code, reason = "a test gives a seed"))]
#[must_use = "the seed holds until this is dropped"]
pub struct SeedHeld(());

impl Drop for SeedHeld {
    fn drop(&mut self) {
        SEEDED.set(None);
    }
}

/// From now on all that is random on this thread follows from `seed`: for a run that is to be repeated. The time in
/// ids is that of `clock`.
#[cfg_attr(not(feature = "internals"), allow(dead_code, reason = "a test gives a seed"))]
pub fn seed(seed: u64, clock: Clock) -> SeedHeld {
    SEEDED.set(Some(Seeded {
        random: fastrand::Rng::with_seed(seed),
        clock,
    }));
    SeedHeld(())
}

/// `seeded` in a run that has a seed, `free` in every other one.
fn drawn<T>(seeded: impl FnOnce(&mut Seeded) -> T, free: impl FnOnce() -> T) -> T {
    SEEDED.with_borrow_mut(|held| match held {
        Some(held) => seeded(held),
        None => free(),
    })
}

/// A random share, 0 up to but not including 1.
#[must_use]
#[expect(clippy::disallowed_methods, reason = "this is the home of randomness")]
pub fn roll() -> f64 {
    drawn(|seeded| seeded.random.f64(), fastrand::f64)
}

/// A random number.
#[must_use]
#[expect(clippy::disallowed_methods, reason = "this is the home of randomness")]
pub fn random() -> u64 {
    drawn(|seeded| seeded.random.u64(..), || fastrand::u64(..))
}

/// A new id that sorts by time (UUID version 7).
#[must_use]
#[expect(clippy::disallowed_methods, reason = "this is the home of ids")]
pub fn new_id() -> String {
    drawn(Seeded::id, uuid::Uuid::now_v7).to_string()
}

impl Seeded {
    fn id(&mut self) -> uuid::Uuid {
        let mut rest = [0; 10];
        self.random.fill(&mut rest);
        let millis = u64::try_from(self.clock.now().micros() / 1000).unwrap_or(0);
        uuid::Builder::from_unix_timestamp_millis(millis, &rest).into_uuid()
    }
}

/// A map without order, for what people outside choose the keys of. Its order of iteration is random, and follows
/// from the seed in a run that has one.
pub type HashMap<K, V> = std::collections::HashMap<K, V, Hashing>;
/// The same for a set.
pub type HashSet<T> = std::collections::HashSet<T, Hashing>;

/// Hashes under keys that nobody outside knows, so that nobody can choose names that collide.
#[derive(Clone, Debug)]
pub enum Hashing {
    /// The keys are those of the standard library.
    Free(RandomState),
    /// The run has a seed, and this number follows from it.
    Seeded(u64),
}

impl Default for Hashing {
    fn default() -> Self {
        drawn(
            |seeded| Self::Seeded(seeded.random.u64(..)),
            || Self::Free(RandomState::new()),
        )
    }
}

impl BuildHasher for Hashing {
    type Hasher = DefaultHasher;

    fn build_hasher(&self) -> DefaultHasher {
        match self {
            Self::Free(keys) => keys.build_hasher(),
            Self::Seeded(number) => {
                let mut hasher = DefaultHasher::new();
                hasher.write_u64(*number);
                hasher
            }
        }
    }
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
#[expect(clippy::disallowed_methods, reason = "this is the home of tasks")]
pub fn beside<T>(work: impl FnOnce() -> T) -> T {
    let is_shared = Handle::try_current().is_ok_and(|runtime| runtime.runtime_flavor() == RuntimeFlavor::MultiThread);
    if is_shared {
        tokio::task::block_in_place(work)
    } else {
        work()
    }
}

/// Waits for `span`.
#[expect(clippy::disallowed_methods, reason = "this is the home of timers")]
pub fn sleep(span: Duration) -> Sleep {
    tokio::time::sleep(span)
}

/// Waits for `span`, or until `stop`.
pub async fn wait(stop: &CancellationToken, span: Duration) {
    stop.run_until_cancelled(sleep(span)).await;
}

/// What `future` comes to within `span`; it is dropped after that.
#[expect(clippy::disallowed_methods, reason = "this is the home of timers")]
pub fn timeout<F: IntoFuture>(span: Duration, future: F) -> Timeout<F::IntoFuture> {
    tokio::time::timeout(span, future)
}

/// Every `span` from now on; a tick that is late puts off those after it.
#[must_use]
#[expect(clippy::disallowed_methods, reason = "this is the home of timers")]
pub fn interval(span: Duration) -> tokio::time::Interval {
    let mut interval = tokio::time::interval(span);
    interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    interval
}

/// Runs a task that has a name in the log; its panic is logged with that name and reaches whoever joins it.
///
/// The future is boxed: what the runtime does with a task is compiled once for each kind of output, not for each future.
pub fn spawn<F>(name: &'static str, future: F) -> JoinHandle<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    start(name, Box::pin(future))
}

#[expect(clippy::disallowed_methods, reason = "this is the home of spawning")]
fn start<T: Send + 'static>(name: &'static str, future: BoxFuture<'static, T>) -> JoinHandle<T> {
    let task = PanicNote(name);
    let process = Process::present();
    let task = tokio::spawn(PROCESS.scope(process.clone(), async move {
        let output = future.await;
        std::mem::forget(task);
        output
    }));
    if let Some(process) = process {
        process.has(task.abort_handle());
    }
    task
}

tokio::task_local! {
    /// Whose a task is, where a test runs several processes in one.
    static PROCESS: Option<Process>;
}

/// The tasks of one process of several that a test runs on one thread: those that are spawned in it, and by them.
#[derive(Clone, Debug, Default)]
pub struct Process(Arc<Mutex<Tasks>>);

#[derive(Debug, Default)]
struct Tasks {
    running: Vec<AbortHandle>,
    is_over: bool,
}

impl Process {
    /// That of the calling task.
    fn present() -> Option<Self> {
        PROCESS.try_with(Clone::clone).ok().flatten()
    }

    /// Runs a task in it.
    #[cfg_attr(
        not(feature = "internals"),
        allow(dead_code, reason = "a test has several processes")
    )]
    pub fn spawn<F>(&self, name: &'static str, future: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        PROCESS.sync_scope(Some(self.clone()), || spawn(name, future))
    }

    /// Ends it wherever it is: none of its tasks goes on, and what they would spawn while they are dropped does not run.
    #[cfg_attr(
        not(feature = "internals"),
        allow(dead_code, reason = "a test has several processes")
    )]
    pub fn kill(&self) {
        let running = {
            let mut tasks = self.tasks();
            tasks.is_over = true;
            std::mem::take(&mut tasks.running)
        };
        for task in running {
            task.abort();
        }
    }

    fn has(&self, task: AbortHandle) {
        let mut tasks = self.tasks();
        if tasks.is_over {
            task.abort();
            return;
        }
        if tasks.running.len() == tasks.running.capacity() {
            tasks.running.retain(|task| !task.is_finished());
        }
        tasks.running.push(task);
    }

    fn tasks(&self) -> std::sync::MutexGuard<'_, Tasks> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
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
