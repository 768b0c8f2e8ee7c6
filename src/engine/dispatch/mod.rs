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
mod later;
mod leasing;
mod letting_go;
mod outside;
mod probing;
mod rooms;
mod timers;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;

use self::bounds::Bounds;
use self::later::Later;
use self::outside::Outside;
use self::rooms::Rooms;
use self::timers::Timers;
use super::candidates::Candidates;
use super::holdings::{Holding, Holdings, Places};
use super::tell::{Asked, Ending, Left, Tell};
use super::worker::Stops;
use crate::ambient;
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

/// The dispatcher of one incarnation.
pub(super) struct Dispatcher {
    outside: Outside,
    candidates: Candidates,
    holdings: Holdings,
    later: Later,
    bounds: Bounds,
    /// Whose turn it is among the lines.
    order: usize,
    asked: Questions,
    /// Who waits for memory, and what is known of the sizes.
    rooms: Rooms,
    looks: Looks,
}

/// What was asked and is not answered.
#[derive(Debug, Default)]
struct Questions {
    /// Requests for leases under way.
    leases: usize,
    /// The store is being asked whose queues some are.
    whose: bool,
    /// When it may be asked again.
    whose_at: u64,
}

/// When the workers and the URLs that stand aside are looked at; in microseconds of uptime.
#[derive(Debug)]
struct Looks {
    last: u64,
    next: u64,
    soon: bool,
    /// When the turn of a URL with a rate is near.
    turns: Timers<EndpointUrl>,
    recall_all_at: u64,
}

impl Dispatcher {
    pub(super) fn new(
        engine: Arc<Delivery>,
        incarnation: IncarnationId,
        stops: Stops,
        tell: mpsc::Sender<Tell>,
    ) -> Self {
        let settings = &engine.settings;
        Self {
            candidates: Candidates::default(),
            holdings: Holdings::default(),
            later: Later::new(engine.clock.clone()),
            bounds: Bounds::new(settings.workers, settings.slow_requests),
            order: 0,
            asked: Questions::default(),
            rooms: Rooms::new(settings.memory.clone(), tell.clone(), stops.drain.clone()),
            looks: Looks {
                last: 0,
                next: 0,
                soon: false,
                turns: Timers::new(),
                recall_all_at: 0,
            },
            outside: Outside {
                engine,
                incarnation,
                stops,
                tell,
            },
        }
    }

    /// Dispatches until the stop, then until every worker has ended.
    pub(super) async fn run(mut self, mut told: mpsc::Receiver<Tell>) {
        loop {
            if self.outside.is_stopping() && self.holdings.is_empty() {
                return;
            }
            let wait = self.next_wait();
            let engine = Arc::clone(&self.outside.engine);
            // Each branch is a wake-up only: timers and stops are looked at after all of them, so that no order starves one.
            tokio::select! {
                biased;
                () = self.outside.stops.drain.cancelled(), if !self.outside.stops.drain.is_cancelled() => {}
                () = self.outside.stops.generation.cancelled(), if !self.outside.stops.generation.is_cancelled() => {}
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
            if !self.outside.is_stopping() {
                self.fire_timers();
                self.recall();
                self.probe();
                self.pump();
                self.ask_whose();
                self.look_at_workers();
            }
        }
    }

    /// Until the next timer or look, and at most half a second: probes become due by the clock. While it stops nobody
    /// looks at timers, and one that is due must not wake it over and over.
    fn next_wait(&self) -> Duration {
        let now = self.outside.uptime();
        let longest = Duration::from_millis(500);
        if self.outside.is_stopping() {
            return longest;
        }
        let times = [self.later.next_at(), self.looks.turns.next_at(), Some(self.looks.next)];
        let next = times.into_iter().flatten().min();
        next.map_or(longest, |at| Duration::from_micros(at.saturating_sub(now)).min(longest))
    }

    fn told(&mut self, tell: Tell) {
        match tell {
            Tell::Candidate(queue) => {
                self.later.may_probe_again(&queue);
                self.candidate(queue);
            }
            Tell::Listed(queue) => {
                if !self.later.rests(&queue) {
                    self.candidate(queue);
                }
            }
            Tell::WakeAll => self.later.wake_all(),
            Tell::Due(record) => self.due(*record),
            Tell::LetGo(queue) => {
                if let Some(Holding::Working { control, .. }) = self.holdings.get(&queue) {
                    control.let_go();
                }
            }
            Tell::Gone(queue) => self.forget(&queue),
            Tell::Room { queue, share } => self.rooms.came(queue, share),
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
            Tell::Released { asked, left } => self.released(asked, left),
            Tell::Closed { asked, ending } => self.closed(asked, ending),
        }
    }

    fn released(&mut self, asked: Asked, left: Left) {
        if self.holdings.end(&asked.queue, asked.claim).is_none() {
            return;
        }
        if self.holdings.take_again(&asked.queue) || left == Left::More {
            self.candidate(asked.queue);
        }
    }

    fn closed(&mut self, asked: Asked, ending: Ending) {
        if self.holdings.end(&asked.queue, asked.claim).is_none() {
            return;
        }
        let again = self.holdings.take_again(&asked.queue);
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
            Ending::Lost => self.later.wake_in(asked.queue, ASK_AGAIN),
        }
    }

    /// Nothing is kept of a queue that is gone.
    fn forget(&mut self, queue: &QueueName) {
        self.candidates.forget(queue);
        self.rooms.forget(queue);
        self.later.forget(queue);
    }

    fn candidate(&mut self, queue: QueueName) {
        // Anybody may name one in the wake queue, and rows may be older than this rule: nothing else is delivered from.
        if !self.outside.engine.settings.naming.is_delivery_queue(queue.as_str()) {
            return;
        }
        self.later.wake(&queue);
        match self.holdings.get(&queue) {
            None => self.wait(queue),
            // Its worker has it, or will: after the release there is one more look.
            Some(Holding::Asking { .. } | Holding::Working { .. }) => {}
            Some(Holding::Closing) => {
                self.holdings.look_again(queue);
            }
        }
    }

    fn wait(&mut self, queue: QueueName) {
        if let Some(url) = self.candidates.url_of(&queue) {
            let endpoints = &self.outside.engine.endpoints;
            if self.later.is_probeless(&queue) && !endpoints.get(url).is_available() {
                return;
            }
            endpoints.queue_waits(url, self.outside.engine.store_time.now());
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
                .is_some_and(|url| self.candidates.waits(url) && !self.outside.engine.endpoints.get(url).is_available())
    }

    fn due(&mut self, record: QueueRecord) {
        if let Some(url) = &record.url {
            self.candidates.learn(&record.name, url);
        }
        self.later.may_probe_again(&record.name);
        self.candidate(record.name);
    }

    fn fire_timers(&mut self) {
        let now = self.outside.uptime();
        while let Some(queue) = self.later.take_due(now) {
            self.candidate(queue);
        }
        self.later.wake_what_rests(now);
    }

    /// Starts what there is room for.
    fn pump(&mut self) {
        let mut batch = Vec::new();
        while self.asked.leases < ASKING_MAX {
            let Some(queue) = self.next_candidate() else { break };
            batch.push(queue);
            if batch.len() >= LEASES_AT_ONCE {
                self.ask(std::mem::take(&mut batch));
            }
        }
        if !batch.is_empty() {
            self.ask(batch);
        }
        meter(self.holdings.places());
    }
}

#[expect(clippy::cast_precision_loss, reason = "numbers of workers")]
fn meter(places: Places) {
    metrics::gauge!(names::WORKERS_BUSY).set(places.workers() as f64);
    metrics::gauge!(names::REQUESTS_SLOW).set(places.slow as f64);
}

/// In microseconds.
fn micros(span: Duration) -> u64 {
    u64::try_from(span.as_micros()).unwrap_or(u64::MAX)
}
