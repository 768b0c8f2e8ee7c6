//! Who works on what: gives queues that have something to do to workers, first a slot of their
//! endpoint, then the lease, then a worker (PROTOCOLS.md 16).
//!
//! One task owns all of it; others speak to it through one bounded channel, and a message that does
//! not fit is found again by the sweep. It never waits for a store or a broker: what takes time runs
//! in tasks that answer through the same channel.
//!
//! Promises: no queue is left behind. Every question is answered once and in bounded time, by its task or for
//! it; an answer counts only for the holding that it was asked for; slots, workers and probes in use are
//! counted from what is held; and what the store says is held here without a worker is freed and looked at
//! again a second later.

mod leasing;
mod letting_go;
mod probing;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};

use super::Inner;
use super::candidates::Candidates;
use super::ending::Ending;
use super::endpoints::LiveEndpoint;
use super::holdings::{Claim, Holding, Holdings, Probe};
use super::worker::{Stops, WorkerEnd};
use crate::ambient;
use crate::domain::endpoint::EndpointState;
use crate::domain::id::{IncarnationId, QueueName};
use crate::domain::queue::QueueRecord;
use crate::domain::url::EndpointUrl;
use crate::store::{HeldLease, LeaseOutcome};
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
/// Queues that rest, at most.
const RESTING_MAX: usize = 200_000;
/// Messages to the dispatcher that wait, at most.
pub(super) const CHANNEL: usize = 65_536;

/// What the dispatcher is told.
#[derive(Debug)]
pub(super) enum Tell {
    /// This queue may have something to do.
    Candidate(QueueName),
    /// The broker lists this queue with something in it: nothing new, unless nobody knew of it.
    Listed(QueueName),
    /// A person changed something: whatever rests is looked at again.
    WakeAll,
    /// A row whose own schedule is due, or whose deletion or decision a crash left open.
    Due(Box<QueueRecord>),
    /// Somebody paused it, or wants its lease.
    LetGo(QueueName),
    /// The queue was deleted.
    Gone(QueueName),
    /// The leases that the store says are held here.
    Compare(Vec<HeldLease>),
    /// Names and URLs read from the store.
    Learned(Vec<(QueueName, EndpointUrl)>),
    /// A worker on a queue whose URL was not known learned it, and asks for a slot of it.
    Slot {
        queue: QueueName,
        url: EndpointUrl,
        granted: oneshot::Sender<bool>,
    },
    /// The answer to a request for leases.
    Leases(Vec<(Asked, LeaseOutcome)>),
    /// The answer to a claim of a probe.
    Probe {
        url: EndpointUrl,
        asked: Asked,
        claimed: Option<i64>,
    },
    /// A worker ended.
    Ended { claim: Claim, end: Box<WorkerEnd> },
    /// A queue was released after its worker ended; `more`: it is not empty.
    Released { asked: Asked, more: bool },
    /// A queue that was to be deleted.
    Closed { asked: Asked, ending: Ending },
}

/// A queue that something is asked for, and the holding that the answer is for.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    queue: QueueName,
    claim: Claim,
}

/// The dispatcher of one incarnation.
pub(super) struct Dispatcher {
    engine: Arc<Inner>,
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
    unknown_first: bool,
    /// Requests for leases under way.
    asking: usize,
    /// Local timers: uptime in microseconds.
    timers: BinaryHeap<Reverse<(u64, QueueName)>>,
}

impl Dispatcher {
    pub(super) fn new(engine: Arc<Inner>, incarnation: IncarnationId, stops: Stops, tell: mpsc::Sender<Tell>) -> Self {
        Self {
            engine,
            incarnation,
            stops,
            tell,
            candidates: Candidates::default(),
            holdings: Holdings::default(),
            again: HashSet::new(),
            resting: HashMap::new(),
            unknown_first: false,
            asking: 0,
            timers: BinaryHeap::new(),
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
            tokio::select! {
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
                () = tokio::time::sleep(wait) => {}
                () = engine.endpoints_moved.notified() => {}
                () = self.stops.drain.cancelled(), if !self.stops.drain.is_cancelled() => {}
                () = self.stops.generation.cancelled(), if !self.stops.generation.is_cancelled() => {}
            }
            if !self.is_stopping() {
                self.fire_timers();
                self.probe();
                self.pump();
            }
        }
    }

    fn is_stopping(&self) -> bool {
        self.stops.drain.is_cancelled() || self.stops.generation.is_cancelled()
    }

    /// Until the next timer, and at most half a second: probes become due by the clock.
    fn next_wait(&self) -> Duration {
        let now = self.uptime();
        let longest = Duration::from_millis(500);
        self.timers.peek().map_or(longest, |Reverse((at, _))| {
            Duration::from_micros(at.saturating_sub(now)).min(longest)
        })
    }

    fn uptime(&self) -> u64 {
        u64::try_from(self.engine.clock.uptime().as_micros()).unwrap_or(u64::MAX)
    }

    fn told(&mut self, tell: Tell) {
        match tell {
            Tell::Candidate(queue) => self.candidate(queue),
            Tell::Listed(queue) => {
                if !self.rests(&queue) {
                    self.candidate(queue);
                }
            }
            Tell::WakeAll => self.resting.clear(),
            Tell::Due(record) => self.due(*record),
            Tell::LetGo(queue) => {
                if let Some(Holding::Working { control, .. }) = self.holdings.get(&queue) {
                    control.let_go();
                }
            }
            Tell::Gone(queue) => self.candidates.forget(&queue),
            Tell::Compare(held) => self.compare(held),
            Tell::Learned(rows) => rows.iter().for_each(|(queue, url)| self.candidates.learn(queue, url)),
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
                self.candidates.forget(&asked.queue);
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

    fn candidate(&mut self, queue: QueueName) {
        self.resting.remove(&queue);
        match self.holdings.get(&queue) {
            None => self.candidates.add(queue),
            // Its worker has it, or will: after the release there is one more look.
            Some(Holding::Asking { .. } | Holding::Working { .. }) => {}
            Some(Holding::Closing) => {
                self.again.insert(queue);
            }
        }
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
        let until = self
            .uptime()
            .saturating_add(u64::try_from(span.as_micros()).unwrap_or(u64::MAX));
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
        while self.timers.peek().is_some_and(|Reverse((at, _))| *at <= now) {
            if let Some(Reverse((_, queue))) = self.timers.pop() {
                self.candidate(queue);
            }
        }
    }

    fn wake_in(&mut self, queue: QueueName, delay: Duration) {
        let at = self
            .uptime()
            .saturating_add(u64::try_from(delay.as_micros()).unwrap_or(u64::MAX));
        self.timers.push(Reverse((at, queue)));
    }

    /// Starts what there is room for.
    fn pump(&mut self) {
        let mut batch = Vec::new();
        while self.has_room() && self.asking < ASKING_MAX {
            let Some(queue) = self.next_candidate() else { break };
            batch.push(queue);
            if batch.len() >= LEASES_AT_ONCE {
                self.ask(std::mem::take(&mut batch));
            }
        }
        if !batch.is_empty() {
            self.ask(batch);
        }
        self.hurry();
        #[expect(clippy::cast_precision_loss, reason = "a number of workers")]
        metrics::gauge!(names::WORKERS_BUSY).set(self.holdings.workers() as f64);
    }

    fn has_room(&self) -> bool {
        self.holdings.workers() < self.engine.settings.workers
    }

    fn next_candidate(&mut self) -> Option<Asked> {
        loop {
            let (queue, url) = self.first_waiting()?;
            let asking = Holding::Asking { url, probe: Probe::No };
            match self.holdings.begin(&queue, asking) {
                Some(claim) => return Some(Asked { queue, claim }),
                None => drop(self.again.insert(queue)),
            }
        }
    }

    fn first_waiting(&mut self) -> Option<(QueueName, Option<EndpointUrl>)> {
        let troubled = self.troubled_workers();
        let (engine, holdings) = (&self.engine, &self.holdings);
        let admits = |url: &EndpointUrl| has_slot(engine, holdings, troubled, url);
        // Queues whose URL is known and those where it is not take turns: neither starves the other.
        self.unknown_first = !self.unknown_first;
        let unknown = self.unknown_first.then(|| self.candidates.next_unknown()).flatten();
        if let Some(queue) = unknown {
            return Some((queue, None));
        }
        match self.candidates.next(admits) {
            Some((queue, url)) => Some((queue, Some(url))),
            None => Some((self.candidates.next_unknown()?, None)),
        }
    }

    /// A slot for a worker that holds a queue of `url` and had none; without one it lets go.
    fn grant_slot(&mut self, queue: &QueueName, url: &EndpointUrl) -> bool {
        self.candidates.learn(queue, url);
        has_slot(&self.engine, &self.holdings, self.troubled_workers(), url) && self.holdings.give_slot(queue, url)
    }

    /// Workers on endpoints that did not answer last time (or never were asked).
    fn troubled_workers(&self) -> usize {
        self.holdings
            .slots_in_use()
            .filter(|(url, _)| !self.engine.endpoints.get(url).is_proven())
            .map(|(_, slots)| slots)
            .sum()
    }

    /// Those who linger, or had their turn, make room when somebody waits.
    fn hurry(&mut self) {
        if self.candidates.len() == 0 {
            return;
        }
        let no_room = !self.has_room();
        let contended: HashSet<&EndpointUrl> = self.candidates.urls_waiting().collect();
        for holding in self.holdings.iter() {
            let Holding::Working { url, control, .. } = holding else {
                continue;
            };
            if no_room || url.as_ref().is_some_and(|url| contended.contains(url)) {
                control.others_wait();
            }
        }
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
            let answer = if let Ok(Ok(answer)) = tokio::time::timeout(within, task).await {
                answer
            } else {
                tracing::error!(question = name, "no answer: going on without");
                without
            };
            let _ = tell.send(answer).await;
        }));
    }
}

/// Whether one more worker may be on a queue of `url`.
fn has_slot(engine: &Inner, holdings: &Holdings, troubled: usize, url: &EndpointUrl) -> bool {
    let live = engine.endpoints.get(url);
    if !live.is_available() || !live.turn_is_near(engine.clock.now()) {
        return false;
    }
    let used = holdings.slots(url);
    let half = (engine.settings.workers / 2).max(1);
    used < slots_of(engine, &live) && (live.is_proven() || troubled < half)
}

/// How many workers may be on queues of one URL.
fn slots_of(engine: &Inner, live: &LiveEndpoint) -> usize {
    let unavailable = live
        .detail()
        .is_some_and(|detail| detail.state != EndpointState::Available);
    if unavailable || !live.is_proven() || live.is_paced() {
        1
    } else {
        engine.settings.in_flight_per_endpoint.max(1)
    }
}
