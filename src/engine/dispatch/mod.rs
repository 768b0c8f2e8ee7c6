//! Who works on what: gives queues that have something to do to workers, first a slot of their
//! endpoint, then a place, then the lease and a worker (docs/protocols.md 16, 35).
//!
//! One task owns all of it; others speak to it through one bounded channel, and a message that does
//! not fit is found again by the sweep. It never waits for a store or a broker: what takes time runs
//! in tasks that answer through the same channel.
//!
//! Promises: no queue is left behind. Every question is answered once and in bounded time, by its task or for
//! it; an answer counts only for the holding that it was asked for; slots, places and probes in use are
//! counted from what is held; and what the store says is held here without a worker is freed and looked at
//! again a second later.

mod admitting;
mod bounds;
mod leasing;
mod letting_go;
mod probing;
mod rooms;
mod timers;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;

use self::bounds::Bounds;
use self::rooms::Rooms;
use self::timers::Timers;
use super::candidates::Candidates;
use super::holdings::{Holding, Holdings};
use super::tell::{Asked, Ending, Tell};
use super::worker::Stops;
use crate::ambient::{self, HashMap, HashSet};
use crate::domain::id::{IncarnationId, QueueName};
use crate::domain::queue::QueueRecord;
use crate::domain::url::EndpointUrl;
use crate::engine::delivery::Delivery;
use crate::telemetry::names;

/// Leases asked for at once.
const LEASES_AT_ONCE: usize = 64;
/// Requests for leases under way at once.
const ASKING_MAX: usize = 4;
/// What the store or the broker is asked for a queue takes no longer than this, their own bounds included;
/// what has no answer by then is taken for lost.
const ANSWER_MAX: Duration = Duration::from_mins(1);
/// Before a lease is asked for again when the store was away, or says that it is held here: the comparison,
/// once a second, frees it meanwhile.
const ASK_AGAIN: Duration = Duration::from_secs(1);
/// A queue that another process holds rests for this long.
const REST_HELD: Duration = Duration::from_secs(5);
/// A queue that somebody wants for a moment (to browse it, say) rests for this long.
const REST_WANTED: Duration = Duration::from_secs(1);
/// A queue that waits for a time or a person rests for at most this long.
const REST_STOPPED: Duration = Duration::from_mins(1);
/// How often everything that rests is woken for the sake of one change, in the long run.
const WAKE_ALL: Duration = Duration::from_secs(10);
/// So many of these may come at once.
const WAKE_ALL_AT_ONCE: u64 = 5;
/// Queues that rest, at most.
const RESTING_MAX: usize = 200_000;
/// The dispatcher of one incarnation.
pub(super) struct Dispatcher {
    engine: Arc<Delivery>,
    incarnation: IncarnationId,
    stops: Stops,
    tell: mpsc::Sender<Tell>,
    candidates: Candidates,
    holdings: Holdings,
    /// Told again while held: look at once more after the release.
    again: HashSet<QueueName>,
    /// Queues that a listing alone does not wake before this uptime in microseconds: their head waits, or
    /// somebody else has them. A nudge, a due row or a person does.
    resting: HashMap<QueueName, u64>,
    /// Everything that rests is to be woken.
    wake_all: bool,
    /// Uptime up to which wakings of everything are used up.
    wake_all_used: u64,
    bounds: Bounds,
    /// Whose turn it is among the lines.
    order: usize,
    /// Requests for leases under way.
    asking: usize,
    /// Local timers of queues.
    timers: Timers<QueueName>,
    /// When the turn of a URL with a rate is near.
    turns: Timers<EndpointUrl>,
    /// Who waits for memory, and what is known of the sizes.
    rooms: Rooms,
    /// Bytes that requests which hang hold.
    slow_bytes: usize,
    /// The last look at the workers, and the next (uptime in microseconds).
    looked_at: u64,
    look_at: u64,
    look_soon: bool,
    recall_all_at: u64,
    /// The store is being asked whose queues some are, and when it may be asked again.
    asking_whose: bool,
    ask_whose_at: u64,
}

impl Dispatcher {
    pub(super) fn new(
        engine: Arc<Delivery>,
        incarnation: IncarnationId,
        stops: Stops,
        tell: mpsc::Sender<Tell>,
    ) -> Self {
        let bounds = Bounds {
            workers: engine.settings.workers,
            slow_requests: engine.settings.slow_requests,
        };
        Self {
            engine,
            incarnation,
            stops,
            tell,
            candidates: Candidates::default(),
            holdings: Holdings::default(),
            again: HashSet::default(),
            resting: HashMap::default(),
            wake_all: false,
            wake_all_used: 0,
            bounds,
            order: 0,
            asking: 0,
            timers: Timers::new(),
            turns: Timers::new(),
            rooms: Rooms::default(),
            slow_bytes: 0,
            looked_at: 0,
            look_at: 0,
            look_soon: false,
            recall_all_at: 0,
            asking_whose: false,
            ask_whose_at: 0,
        }
    }

    /// Dispatches until the stop, then until every worker has ended.
    pub(super) async fn run(mut self, mut told: mpsc::Receiver<Tell>) {
        loop {
            if self.is_stopping() && self.holdings.is_empty() {
                return;
            }
            let wait = self.next_wait();
            let engine = Arc::clone(&self.engine);
            // Each branch is a wake-up only: timers and stops are looked at after all of them, so that no order starves one.
            tokio::select! {
                biased;
                () = self.stops.drain.cancelled(), if !self.stops.drain.is_cancelled() => {}
                () = self.stops.generation.cancelled(), if !self.stops.generation.is_cancelled() => {}
                tell = told.recv() => {
                    let Some(tell) = tell else { return };
                    self.told(tell);
                    // Whatever else is there already costs no further wake-up.
                    for _ in 0..1024 {
                        match told.try_recv() {
                            Ok(tell) => self.told(tell),
                            Err(_) => break,
                        }
                    }
                }
                () = engine.endpoints.changed.notified() => {}
                () = ambient::sleep(wait) => {}
            }
            if !self.is_stopping() {
                self.fire_timers();
                self.recall();
                self.probe();
                self.pump();
                self.ask_whose();
                self.look_at_workers();
            }
        }
    }

    fn is_stopping(&self) -> bool {
        self.stops.drain.is_cancelled() || self.stops.generation.is_cancelled()
    }

    /// Until the next timer or look, and at most half a second: probes become due by the clock. While it stops nobody
    /// looks at timers, and one that is due must not wake it over and over.
    fn next_wait(&self) -> Duration {
        let now = self.uptime();
        let longest = Duration::from_millis(500);
        if self.is_stopping() {
            return longest;
        }
        let times = [self.timers.next_at(), self.turns.next_at(), Some(self.look_at)];
        let next = times.into_iter().flatten().min();
        next.map_or(longest, |at| Duration::from_micros(at.saturating_sub(now)).min(longest))
    }

    fn uptime(&self) -> u64 {
        micros(self.engine.clock.uptime())
    }

    fn told(&mut self, tell: Tell) {
        match tell {
            Tell::Candidate(queue) => self.candidate(queue),
            Tell::Listed(queue) => {
                if !self.rests(&queue) {
                    self.candidate(queue);
                }
            }
            Tell::WakeAll => self.wake_all = true,
            Tell::Due(record) => self.due(*record),
            Tell::LetGo(queue) => {
                if let Some(Holding::Working { control, .. }) = self.holdings.get(&queue) {
                    control.let_go();
                }
            }
            Tell::Gone(queue) => self.forget(&queue),
            Tell::Room { queue, share } => self.room_came(queue, share),
            Tell::Compare(held) => self.compare(held),
            Tell::Learned(rows) => rows.iter().for_each(|(queue, url)| self.candidates.learn(queue, url)),
            Tell::Whose(found) => self.whose(found),
            Tell::Slot { queue, url, granted } => {
                // A worker that is gone needs no answer; its end frees the slot.
                let _ = granted.send(self.grant_slot(&queue, &url));
            }
            Tell::Leases(outcomes) => self.leases(outcomes),
            Tell::Probe { url, asked, claimed } => self.probe_claimed(&url, asked, claimed),
            Tell::Ended { claim, end } => self.worker_ended(claim, *end),
            Tell::Released { asked, more } => self.released(asked, more),
            Tell::Closed { asked, ending } => self.closed(asked, ending),
        }
    }

    fn released(&mut self, asked: Asked, more: bool) {
        if self.holdings.end(&asked.queue, asked.claim).is_none() {
            return;
        }
        if self.again.remove(&asked.queue) || more {
            self.candidate(asked.queue);
        }
    }

    fn closed(&mut self, asked: Asked, ending: Ending) {
        if self.holdings.end(&asked.queue, asked.claim).is_none() {
            return;
        }
        let again = self.again.remove(&asked.queue);
        match ending {
            Ending::Deleted => {
                self.forget(&asked.queue);
                // Told of meanwhile: it may exist again.
                if again {
                    self.candidate(asked.queue);
                }
            }
            Ending::GoesOn => self.candidate(asked.queue),
            // Whoever takes it next starts again at the unbind.
            Ending::Lost => self.wake_in(asked.queue, ASK_AGAIN),
        }
    }

    /// Nothing is kept of a queue that is gone.
    fn forget(&mut self, queue: &QueueName) {
        self.candidates.forget(queue);
        self.rooms.forget(queue);
        self.resting.remove(queue);
        self.timers.forget(queue);
    }

    fn candidate(&mut self, queue: QueueName) {
        self.resting.remove(&queue);
        match self.holdings.get(&queue) {
            None => self.wait(queue),
            // Its worker has it, or will: after the release there is one more look.
            Some(Holding::Asking { .. } | Holding::Working { .. }) => {}
            Some(Holding::Closing) => {
                self.again.insert(queue);
            }
        }
    }

    fn wait(&mut self, queue: QueueName) {
        if let Some(url) = self.candidates.url_of(&queue) {
            self.engine.endpoints.queue_waits(url, self.engine.store_time.now());
        }
        if !self.is_dead_and_many_wait(&queue) {
            let line = self.line_of(&queue);
            self.candidates.add(queue, line);
        }
    }

    /// One queue of a URL that takes nothing is enough to probe it when very many wait: the sweep finds the others
    /// again, and those of other URLs must find room.
    fn is_dead_and_many_wait(&self, queue: &QueueName) -> bool {
        self.candidates.many_wait()
            && self
                .candidates
                .url_of(queue)
                .is_some_and(|url| self.candidates.waits(url) && !self.engine.endpoints.get(url).is_available())
    }

    fn rests(&mut self, queue: &QueueName) -> bool {
        let Some(until) = self.resting.get(queue).copied() else {
            return false;
        };
        let rests = self.uptime() < until;
        if !rests {
            self.resting.remove(queue);
        }
        rests
    }

    fn rest(&mut self, queue: &QueueName, span: Duration) {
        if self.resting.len() >= RESTING_MAX {
            self.resting.clear();
        }
        let until = self.uptime().saturating_add(micros(span));
        self.resting.insert(queue.clone(), until);
    }

    fn due(&mut self, record: QueueRecord) {
        if let Some(url) = &record.url {
            self.candidates.learn(&record.name, url);
        }
        self.candidate(record.name);
    }

    fn fire_timers(&mut self) {
        let now = self.uptime();
        while let Some(queue) = self.timers.take_due(now) {
            self.candidate(queue);
        }
        if self.wake_all {
            self.wake_all_that_rests(now);
        }
    }

    /// A URL that flaps changes something each second: what rests is not looked at again as often.
    fn wake_all_that_rests(&mut self, now: u64) {
        let span = micros(WAKE_ALL);
        if self.wake_all_used > now.saturating_add(span * (WAKE_ALL_AT_ONCE - 1)) {
            return;
        }
        self.wake_all_used = self.wake_all_used.max(now).saturating_add(span);
        self.wake_all = false;
        self.resting.clear();
    }

    fn wake_in(&mut self, queue: QueueName, delay: Duration) {
        let at = self.uptime().saturating_add(micros(delay));
        self.timers.set(queue, at);
    }

    /// Starts what there is room for.
    fn pump(&mut self) {
        let mut batch = Vec::new();
        while self.asking < ASKING_MAX {
            let Some(queue) = self.next_candidate() else { break };
            batch.push(queue);
            if batch.len() >= LEASES_AT_ONCE {
                self.ask(std::mem::take(&mut batch));
            }
        }
        if !batch.is_empty() {
            self.ask(batch);
        }
        self.meter();
    }

    #[expect(clippy::cast_precision_loss, reason = "numbers of workers")]
    fn meter(&self) {
        let places = self.holdings.places();
        metrics::gauge!(names::WORKERS_BUSY).set(places.workers() as f64);
        metrics::gauge!(names::REQUESTS_SLOW).set(places.slow as f64);
    }

    /// Has `task` answer, once. One that breaks off, or says nothing for too long, is answered for, and left to
    /// end by itself: a lease that it may still take is found by the comparison, and what it frees is guarded
    /// by the epoch.
    fn have_answered(
        &self,
        name: &'static str,
        within: Duration,
        task: impl Future<Output = Tell> + Send + 'static,
        without: Tell,
    ) {
        let (tell, task) = (self.tell.clone(), ambient::spawn(name, task));
        drop(ambient::spawn("answer", async move {
            let answer = if let Ok(Ok(answer)) = ambient::timeout(within, task).await {
                answer
            } else {
                tracing::error!(question = name, "no answer: going on without");
                without
            };
            let _ = tell.send(answer).await;
        }));
    }
}

/// In microseconds.
fn micros(span: Duration) -> u64 {
    u64::try_from(span.as_micros()).unwrap_or(u64::MAX)
}
