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

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};

use super::Inner;
use super::candidates::Candidates;
use super::ending::{Ending, Held};
use super::endpoints::LiveEndpoint;
use super::holdings::{Claim, Holding, Holdings, Probe};
use super::worker::{Control, End, Stops, Worker, WorkerEnd};
use crate::ambient;
use crate::broker::Look;
use crate::domain::endpoint::EndpointState;
use crate::domain::id::{Epoch, IncarnationId, QueueName};
use crate::domain::queue::QueueRecord;
use crate::domain::url::EndpointUrl;
use crate::store::{HeldLease, Lease, LeaseOutcome, ProbeNext, ProbeOutcome, Purpose};
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
        if unknown.is_some() {
            return Some((unknown?, None));
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

    fn ask(&mut self, asked: Vec<Asked>) {
        self.asking += 1;
        let (engine, incarnation) = (Arc::clone(&self.engine), self.incarnation);
        let without = Tell::Leases(unanswered(asked.clone()));
        let asking = async move {
            let queues: Vec<QueueName> = asked.iter().map(|asked| asked.queue.clone()).collect();
            match engine.store.leases_take(incarnation, Purpose::Deliver, &queues).await {
                Ok(outcomes) => Tell::Leases(asked.into_iter().zip(outcomes).collect()),
                Err(error) => {
                    tracing::warn!(error = ?error, "leases wait for the store");
                    tokio::time::sleep(Duration::from_millis(500)).await;
                    Tell::Leases(unanswered(asked))
                }
            }
        };
        self.have_answered("leases", ANSWER_MAX, asking, without);
    }

    fn leases(&mut self, outcomes: Vec<(Asked, LeaseOutcome)>) {
        self.asking = self.asking.saturating_sub(1);
        for (asked, outcome) in outcomes {
            match outcome {
                LeaseOutcome::Taken(lease) => self.taken(asked, *lease),
                // Incarnation 0 is nobody: the store was away.
                LeaseOutcome::Held(IncarnationId(0)) => {
                    self.give_up(&asked, ProbeNext::Same);
                    self.wake_in(asked.queue, ASK_AGAIN);
                }
                // An answer was lost: nothing here holds it.
                LeaseOutcome::Held(owner) if owner == self.incarnation => {
                    self.give_up(&asked, ProbeNext::AnyQueue);
                    self.wake_in(asked.queue, ASK_AGAIN);
                }
                LeaseOutcome::Held(_) => {
                    self.rest(&asked.queue, REST_HELD);
                    self.give_up(&asked, ProbeNext::AnyQueue);
                }
                LeaseOutcome::Reserved(record) => self.reserved(&asked, &record),
                LeaseOutcome::Disowned => {
                    self.give_up(&asked, ProbeNext::Same);
                    self.engine.fence.close();
                }
            }
        }
    }

    fn reserved(&mut self, asked: &Asked, record: &QueueRecord) {
        if let Some(url) = &record.url {
            self.candidates.learn(&asked.queue, url);
        }
        let rest = if record.pause.is_some() {
            REST_STOPPED
        } else {
            REST_WANTED
        };
        self.rest(&asked.queue, rest);
        self.give_up(asked, ProbeNext::AnyQueue);
    }

    /// Nothing came of asking: its slot is free, and so is the probe.
    fn give_up(&mut self, asked: &Asked, next: ProbeNext) {
        let given_up = self.holdings.end(&asked.queue, asked.claim);
        if let Some(Holding::Asking { url: Some(url), probe }) = given_up
            && let Some(token) = probe.token()
        {
            self.release_probe(&url, token, next);
        }
        self.again.remove(&asked.queue);
    }

    fn taken(&mut self, asked: Asked, lease: Lease) {
        let Some(Holding::Asking { url: reserved, probe }) = self.holdings.claimed(&asked.queue, asked.claim) else {
            return;
        };
        let (reserved, probe) = (reserved.clone(), probe.token());
        metrics::counter!(names::LEASES, "event" => "taken").increment(1);
        if let Some(from) = &lease.taken_from {
            metrics::counter!(names::LEASES, "event" => "taken_over").increment(1);
            tracing::info!(queue = ?asked.queue, from = ?from, "took over a queue of a dead incarnation");
        }
        let endpoint = lease
            .endpoint
            .as_ref()
            .map(|endpoint| self.engine.endpoints.update(endpoint))
            // A probe is given back to its endpoint even when the queue's row is gone.
            .or_else(|| {
                let url = reserved.as_ref().filter(|_| probe.is_some())?;
                Some(self.engine.endpoints.get(url))
            });
        if let Some(url) = &lease.record.url {
            self.candidates.learn(&asked.queue, url);
        }
        if probe.is_none() && !self.may_work(&lease.record, endpoint.as_deref(), reserved.as_ref()) {
            self.holdings.turn(&asked.queue, asked.claim, Holding::Closing);
            self.release(asked, lease.epoch, Release::Wait);
            return;
        }
        let url = endpoint.as_ref().map(|endpoint| endpoint.url.clone()).or(reserved);
        let control = Arc::new(Control::new(self.tell.clone()));
        let working = Holding::Working {
            url,
            control: Arc::clone(&control),
            probes: probe.is_some(),
        };
        self.holdings.turn(&asked.queue, asked.claim, working);
        let worker = Worker::new(
            Arc::clone(&self.engine),
            lease,
            self.incarnation,
            endpoint,
            probe,
            control,
            self.stops.for_worker(),
        );
        self.start(asked.claim, worker);
    }

    /// Whether a lease that was just taken may be worked on: now the row and the endpoint are known.
    fn may_work(
        &mut self,
        record: &QueueRecord,
        endpoint: Option<&LiveEndpoint>,
        reserved: Option<&EndpointUrl>,
    ) -> bool {
        let unfinished = record.decision.is_some();
        if let Some(head) = &record.head
            && !unfinished
        {
            if head.parked {
                self.rest(&record.name, REST_STOPPED);
                return false;
            }
            if let Some(at) = head.next_attempt_at {
                let wait = at.since(self.engine.clock.now());
                if !wait.is_zero() {
                    // The poll tells when it is due; a timer is more exact, and there is one a rest.
                    self.rest(&record.name, wait.min(REST_STOPPED));
                    if wait <= REST_STOPPED {
                        self.wake_in(record.name.clone(), wait);
                    }
                    return false;
                }
            }
        }
        let Some(endpoint) = endpoint else { return true };
        if !endpoint.is_available() && !unfinished {
            self.again.insert(record.name.clone());
            return false;
        }
        if reserved.is_none() && self.holdings.slots(&endpoint.url) >= slots_of(&self.engine, endpoint) {
            self.again.insert(record.name.clone());
            return false;
        }
        true
    }

    fn start(&self, claim: Claim, worker: Worker) {
        let (engine, tell) = (Arc::clone(&self.engine), self.tell.clone());
        let (queue, epoch, probe) = (worker.queue.clone(), worker.epoch, worker.probe);
        let endpoint = worker.endpoint.clone();
        let task = ambient::spawn("worker", worker.run());
        drop(ambient::spawn("worker end", async move {
            let end = task.await.unwrap_or(WorkerEnd {
                queue,
                epoch,
                endpoint,
                end: End::Trouble(Duration::from_secs(5)),
                unused_probe: probe,
            });
            if let (Some(endpoint), Some(token)) = (&end.endpoint, end.unused_probe) {
                let next = if matches!(end.end, End::Stopping | End::Fenced) {
                    ProbeNext::Same
                } else {
                    ProbeNext::AnyQueue
                };
                Worker::release_probe(&engine, endpoint, token, next).await;
            }
            let end = Box::new(end);
            let _ = tell.send(Tell::Ended { claim, end }).await;
        }));
    }

    fn worker_ended(&mut self, claim: Claim, end: WorkerEnd) {
        let (queue, epoch) = (end.queue, end.epoch);
        if !self.holdings.turn(&queue, claim, Holding::Closing) {
            return;
        }
        if let Some(endpoint) = &end.endpoint {
            self.candidates.learn(&queue, &endpoint.url);
        }
        let asked = Asked {
            queue: queue.clone(),
            claim,
        };
        match end.end {
            End::Ended => self.close(asked, epoch),
            End::Idle => self.release(asked, epoch, Release::Look),
            End::Yielded | End::Stopping => self.release(asked, epoch, Release::More),
            End::Waits(delay) | End::Trouble(delay) => {
                self.rest(&queue, delay.min(REST_STOPPED));
                self.wake_in(queue, delay);
                self.release(asked, epoch, Release::Wait);
            }
            End::EndpointClosed => {
                self.again.insert(queue);
                self.release(asked, epoch, Release::Wait);
            }
            // Whoever asked for it may be done soon, or a changed policy asks for a new look.
            End::LetGo => {
                self.rest(&queue, REST_WANTED);
                self.again.remove(&queue);
                self.wake_in(queue, REST_WANTED);
                self.release(asked, epoch, Release::Wait);
            }
            End::Parked | End::Refused => {
                self.rest(&queue, REST_STOPPED);
                self.again.remove(&queue);
                self.release(asked, epoch, Release::Wait);
            }
            End::Gone => self.gone(asked, epoch),
            End::Fenced => self.fenced(asked, epoch),
        }
    }

    fn fenced(&mut self, asked: Asked, epoch: Epoch) {
        metrics::counter!(names::LEASES, "event" => "lost").increment(1);
        // The lease alone is lost, or the store failed: freeing it is guarded by the epoch.
        if self.engine.fence.permits(self.incarnation) {
            self.wake_in(asked.queue.clone(), ASK_AGAIN);
            self.release(asked, epoch, Release::Wait);
            return;
        }
        // PROTOCOLS.md 4: nothing goes on under this incarnation, even if the fence opened again.
        self.holdings.end(&asked.queue, asked.claim);
        self.again.remove(&asked.queue);
        self.engine.fence.close();
    }

    /// PROTOCOLS.md 24: free the lease, *then* read the exact depth once more.
    fn release(&self, asked: Asked, epoch: Epoch, release: Release) {
        let engine = Arc::clone(&self.engine);
        let without = Tell::Released {
            asked: asked.clone(),
            more: true,
        };
        let releasing = async move {
            match engine.store.lease_free(&asked.queue, epoch).await {
                Ok(true) if release == Release::Stray => {
                    tracing::warn!(queue = ?asked.queue, "a lease without a worker was freed");
                }
                Ok(_) => {}
                Err(error) => {
                    tracing::warn!(queue = ?asked.queue, error = ?error, "lease is freed by the next comparison only");
                }
            }
            let more = match release {
                Release::More => true,
                Release::Wait => false,
                Release::Look | Release::Stray => match engine.broker.look(&asked.queue).await {
                    Ok(Look::Present { ready, .. }) => ready > 0,
                    Ok(Look::Missing) => false,
                    Err(_) => true,
                },
            };
            Tell::Released { asked, more }
        };
        self.have_answered("release", ANSWER_MAX, releasing, without);
    }

    /// Deletes a queue: that ends with the fence at the latest, and waits for a broker that is away until then.
    fn close(&self, asked: Asked, epoch: Epoch) {
        let (engine, incarnation) = (Arc::clone(&self.engine), self.incarnation);
        let without = Tell::Closed {
            asked: asked.clone(),
            ending: Ending::Lost,
        };
        let closing = async move {
            let held = Held {
                queue: asked.queue.clone(),
                epoch,
                incarnation,
            };
            let ending = engine.end_queue(&held).await;
            Tell::Closed { asked, ending }
        };
        self.have_answered("end queue", Duration::MAX, closing, without);
    }

    /// A lease that nothing here knows of is freed: an answer was lost, or a task that held it panicked. The list
    /// may be older than what was released since, which the epoch guards.
    fn compare(&mut self, held: Vec<HeldLease>) {
        if self.is_stopping() {
            return;
        }
        for lease in held {
            let Some(claim) = self.holdings.begin(&lease.queue, Holding::Closing) else {
                continue;
            };
            if self.candidates.take(&lease.queue) {
                self.again.insert(lease.queue.clone());
            }
            let asked = Asked {
                queue: lease.queue,
                claim,
            };
            self.release(asked, lease.epoch, Release::Stray);
        }
    }

    /// The broker has no such queue: forget its row.
    fn gone(&self, asked: Asked, epoch: Epoch) {
        let engine = Arc::clone(&self.engine);
        let answer = Tell::Closed {
            asked: asked.clone(),
            ending: Ending::Deleted,
        };
        let without = Tell::Closed {
            asked: asked.clone(),
            ending: Ending::Lost,
        };
        let forgetting = async move {
            if let Err(error) = engine.store.queue_forget(&asked.queue, epoch).await {
                tracing::warn!(queue = ?asked.queue, error = ?error, "a deleted queue is still in the store");
            }
            engine.publisher.forget(&asked.queue);
            engine.rules.forget(&asked.queue);
            answer
        };
        self.have_answered("forget queue", ANSWER_MAX, forgetting, without);
    }

    /// PROTOCOLS.md 14: claims the probes that are due.
    fn probe(&mut self) {
        for (url, queue) in self.engine.endpoints.probes_due(self.engine.clock.now()) {
            if !self.has_room() || self.holdings.is_probing(&url) {
                continue;
            }
            let Some(queue) = queue.or_else(|| self.candidates.first_of(&url).cloned()) else {
                continue;
            };
            let asking = Holding::Asking {
                url: Some(url.clone()),
                probe: Probe::Claiming,
            };
            if let Some(claim) = self.holdings.begin(&queue, asking) {
                self.candidates.take(&queue);
                self.claim(url, Asked { queue, claim });
            }
        }
    }

    fn claim(&self, url: EndpointUrl, asked: Asked) {
        let engine = Arc::clone(&self.engine);
        let without = Tell::Probe {
            url: url.clone(),
            asked: asked.clone(),
            claimed: None,
        };
        let claiming = async move {
            let claimed = claim_probe(&engine, &url, &asked.queue).await;
            Tell::Probe { url, asked, claimed }
        };
        self.have_answered("probe", ANSWER_MAX, claiming, without);
    }

    fn probe_claimed(&mut self, url: &EndpointUrl, asked: Asked, claimed: Option<i64>) {
        let Some(token) = claimed else {
            self.give_up(&asked, ProbeNext::Same);
            self.candidate(asked.queue);
            return;
        };
        let asking = Holding::Asking {
            url: Some(url.clone()),
            probe: Probe::Claimed(token),
        };
        if self.holdings.turn(&asked.queue, asked.claim, asking) {
            self.ask(vec![asked]);
        } else {
            self.release_probe(url, token, ProbeNext::AnyQueue);
        }
    }

    fn release_probe(&self, url: &EndpointUrl, token: i64, next: ProbeNext) {
        let engine = Arc::clone(&self.engine);
        let live = engine.endpoints.get(url);
        drop(ambient::spawn("probe release", async move {
            Worker::release_probe(&engine, &live, token, next).await;
        }));
    }
}

/// What a released queue is looked at for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Release {
    /// It was empty: look once more.
    Look,
    /// Nobody knows what is in it.
    Stray,
    /// It has more.
    More,
    /// It waits for something that is told in another way.
    Wait,
}

/// The outcomes of a request without an answer: held by nobody who is known.
fn unanswered(asked: Vec<Asked>) -> Vec<(Asked, LeaseOutcome)> {
    asked
        .into_iter()
        .map(|asked| (asked, LeaseOutcome::Held(IncarnationId(0))))
        .collect()
}

/// Claims a probe; its token, or `None` when it is not ours.
async fn claim_probe(engine: &Inner, url: &EndpointUrl, queue: &QueueName) -> Option<i64> {
    let hold = engine.settings.request_timeout * 2;
    match engine.store.probe_claim(url, queue, hold).await {
        Ok(ProbeOutcome::Claimed { token, endpoint }) => {
            engine.endpoints.update(&endpoint);
            return Some(token);
        }
        Ok(ProbeOutcome::NotYours(endpoint)) => {
            engine.endpoints.update(&endpoint);
            tokio::time::sleep(Duration::from_millis(250)).await;
        }
        Ok(ProbeOutcome::NotNeeded) => {
            if let Ok(Some(now)) = engine.store.endpoint_get(url).await {
                engine.endpoint_moved(&now);
            }
        }
        Err(error) => {
            tracing::warn!(error = ?error, "a probe waits for the store");
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    }
    None
}

/// Whether one more worker may be on a queue of `url`.
fn has_slot(engine: &Inner, holdings: &Holdings, troubled: usize, url: &EndpointUrl) -> bool {
    let live = engine.endpoints.get(url);
    if !live.is_available() {
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
