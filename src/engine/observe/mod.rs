//! Looks again and again, and shares what it saw: one reader for every screen of a process.
//!
//! Promises: never more than a tenth of its time is spent looking, but where a person asks; a part that
//! cannot be read keeps its last content and time, and says why; rows that did not change are the same
//! allocation. A look that has begun is brought to its end, whatever stops the observer.

mod intern;
mod kept;
mod look;
mod rows;
mod sample;
mod totals;

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use self::look::Looker;
use super::Engine;
use super::core::{Core, over_core};
use super::dead::DeadLetters;
use super::doctor::Doctor;
use super::queues::Queues;
use super::runs::RunReader;
use super::snapshot::Snapshot;
use crate::ambient::{self, Clock};

/// Between two looks, also where a person asks.
const BETWEEN_MIN: Duration = Duration::from_millis(250);
/// Between two looks while something cannot be read: the time that a failure took says nothing.
const BETWEEN_FAILURES_MIN: Duration = Duration::from_secs(1);

/// A running look.
#[derive(Clone, Debug)]
pub struct Observer {
    snapshots: watch::Receiver<Arc<Snapshot>>,
    look_now: Arc<Notify>,
    refresh: Arc<watch::Sender<Duration>>,
}

/// What a look that is made elsewhere is told through.
#[derive(Debug)]
pub struct Feed {
    /// Takes each snapshot.
    pub snapshots: watch::Sender<Arc<Snapshot>>,
    /// Woken when the next one is wanted at once.
    pub look_now: Arc<Notify>,
}

impl Observer {
    /// One that is told what others see.
    #[must_use]
    pub fn fed() -> (Self, Feed) {
        let (sender, snapshots) = watch::channel(Arc::new(Snapshot::default()));
        let look_now = Arc::new(Notify::new());
        let observer = Self {
            snapshots,
            look_now: Arc::clone(&look_now),
            refresh: Arc::new(watch::channel(Duration::ZERO).0),
        };
        let feed = Feed {
            snapshots: sender,
            look_now,
        };
        (observer, feed)
    }

    /// The newest snapshot, and a wake for each newer one. The first has generation 0 and is empty.
    #[must_use]
    pub fn snapshots(&self) -> watch::Receiver<Arc<Snapshot>> {
        self.snapshots.clone()
    }

    /// Makes the next snapshot at once, not at its time.
    pub fn look_now(&self) {
        self.look_now.notify_one();
    }

    /// Looks as often as this from the next snapshot on, which is made at once.
    pub fn set_refresh(&self, refresh: Duration) {
        self.refresh.send_replace(refresh);
        self.look_now();
    }
}

impl Engine {
    /// Looks every `refresh` (more slowly where looking itself takes long) until `stop`, or until nobody
    /// has an [`Observer`] of it any more.
    #[must_use]
    pub fn observe(&self, refresh: Duration, stop: CancellationToken) -> Observer {
        let (sender, snapshots) = watch::channel(Arc::new(Snapshot::default()));
        let look_now = Arc::new(Notify::new());
        let (refresh, refreshed) = watch::channel(refresh);
        let pace = Pace {
            refresh: refreshed,
            clock: self.0.clock.clone(),
            moved: self.0.news.moved.subscribe(),
            look_now: Arc::clone(&look_now),
            stop,
        };
        ambient::spawn(
            "observer",
            run(Looker::new(Arc::clone(&self.0.observation)), pace, sender),
        );
        Observer {
            snapshots,
            look_now,
            refresh: Arc::new(refresh),
        }
    }
}

/// Looks at everything, for screens and for alerts.
#[derive(Debug)]
pub(super) struct Observation {
    core: Arc<Core>,
    queues: Arc<Queues>,
    dead_letters: Arc<DeadLetters>,
    run_reader: Arc<RunReader>,
    pub(super) doctor: Arc<Doctor>,
    /// The last snapshot of whoever observes in this process, as long as that one has it.
    observed: Mutex<Weak<Snapshot>>,
}

over_core!(Observation);

impl Observation {
    pub(super) fn new(
        core: &Arc<Core>,
        queues: &Arc<Queues>,
        dead_letters: &Arc<DeadLetters>,
        run_reader: &Arc<RunReader>,
        doctor: Doctor,
    ) -> Self {
        Self {
            core: Arc::clone(core),
            queues: Arc::clone(queues),
            dead_letters: Arc::clone(dead_letters),
            run_reader: Arc::clone(run_reader),
            doctor: Arc::new(doctor),
            observed: Mutex::default(),
        }
    }

    /// What an observer of this process saw within `age`, or as far back as it looks where looking takes long; where
    /// there is none, a look of which nothing is kept.
    pub(super) async fn look_once(self: &Arc<Self>, age: Duration) -> Arc<Snapshot> {
        let observed = self.observed.lock().unwrap_or_else(PoisonError::into_inner).upgrade();
        let now = self.clock.now();
        match observed.filter(|last| now.since(last.taken_at) <= age.max(last.took * 10)) {
            Some(snapshot) => snapshot,
            None => Looker::new(Arc::clone(self)).look().await,
        }
    }
}

async fn run(mut looker: Looker, mut pace: Pace, sender: watch::Sender<Arc<Snapshot>>) {
    loop {
        pace.moved.mark_unchanged();
        let snapshot = looker.look().await;
        let refresh = *pace.refresh.borrow();
        let breaks = Breaks::after(&snapshot, refresh);
        looker.show(&snapshot);
        sender.send_replace(snapshot);
        if pace.rest(&breaks, &sender).await.is_over() {
            return;
        }
    }
}

/// When it looks again, counted from the end of the last look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Breaks {
    /// By itself.
    usual: Duration,
    /// After something happened in this process.
    moved: Duration,
}

impl Breaks {
    fn after(snapshot: &Snapshot, refresh: Duration) -> Self {
        if snapshot.broker.problem.is_some() || snapshot.store.problem.is_some() {
            let pause = refresh.max(BETWEEN_FAILURES_MIN);
            return Self {
                usual: pause,
                moved: pause.min(BETWEEN_FAILURES_MIN),
            };
        }
        let nine_tenths = snapshot.took * 9;
        Self {
            usual: refresh.saturating_sub(snapshot.took).max(nine_tenths),
            moved: BETWEEN_MIN.max(nine_tenths),
        }
    }
}

/// What makes it look again, or ends it.
struct Pace {
    refresh: watch::Receiver<Duration>,
    clock: Clock,
    moved: watch::Receiver<()>,
    look_now: Arc<Notify>,
    stop: CancellationToken,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rested {
    Enough,
    Over,
}

impl Rested {
    const fn is_over(self) -> bool {
        matches!(self, Self::Over)
    }
}

impl Pace {
    async fn rest(&mut self, breaks: &Breaks, sender: &watch::Sender<Arc<Snapshot>>) -> Rested {
        let began = self.clock.uptime();
        let mut pause = breaks.usual;
        let mut follows = true;
        loop {
            let left = pause.saturating_sub(self.clock.uptime().saturating_sub(began));
            tokio::select! {
                biased;
                () = self.stop.cancelled() => return Rested::Over,
                () = sender.closed() => return Rested::Over,
                () = ambient::sleep(left) => return Rested::Enough,
                () = self.look_now.notified() => pause = pause.min(BETWEEN_MIN),
                moved = self.moved.changed(), if follows => {
                    follows = moved.is_ok();
                    pause = pause.min(breaks.moved);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::snapshot::Part;

    #[test]
    fn looking_takes_a_tenth_of_the_time_at_most_and_failures_are_tried_again_soon() {
        let after = |took_ms, problem: Option<&str>| {
            let snapshot = Snapshot {
                took: Duration::from_millis(took_ms),
                broker: Part {
                    problem: problem.map(str::to_owned),
                    taken_at: None,
                },
                ..Snapshot::default()
            };
            let breaks = Breaks::after(&snapshot, Duration::from_secs(2));
            (breaks.usual.as_millis(), breaks.moved.as_millis())
        };
        assert_eq!(after(10, None), (1_990, 250));
        assert_eq!(after(100, None), (1_900, 900));
        assert_eq!(after(8_000, None), (72_000, 72_000));
        assert_eq!(after(30_000, Some("away")), (2_000, 1_000));
    }
}
