//! Who works on what: gives queues that have something to do to workers, first a slot of their
//! endpoint, then the lease, then a worker (PROTOCOLS.md 16).
//!
//! One task owns all of it; others speak to it through one bounded channel, and a message that does
//! not fit is found again by the sweep. It never waits for a store or a broker: what takes time runs
//! in tasks that answer through the same channel.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};

use super::Inner;
use super::candidates::Candidates;
use super::ending::{Ending, Held};
use super::endpoints::LiveEndpoint;
use super::worker::{Control, End, Stops, Worker, WorkerEnd};
use crate::ambient;
use crate::broker::Look;
use crate::domain::endpoint::EndpointState;
use crate::domain::id::{IncarnationId, QueueName};
use crate::domain::queue::QueueRecord;
use crate::domain::url::EndpointUrl;
use crate::store::{HeldLease, Lease, LeaseOutcome, ProbeNext, ProbeOutcome, Purpose};
use crate::telemetry::names;

/// Leases asked for at once.
const LEASES_AT_ONCE: usize = 64;
/// Requests for leases under way at once.
const ASKING_MAX: usize = 4;
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
    Leases(Vec<(QueueName, LeaseOutcome)>),
    /// The answer to a claim of a probe.
    Probe {
        url: EndpointUrl,
        queue: QueueName,
        claimed: Option<i64>,
    },
    /// A worker ended.
    Ended(Box<WorkerEnd>),
    /// A queue was released after its worker ended; `more`: it is not empty.
    Released { queue: QueueName, more: bool },
    /// A queue that was to be deleted.
    Closed { queue: QueueName, ending: Ending },
}

/// A queue that this process holds, or asks for.
enum Holding {
    /// The lease is asked for; a slot of the URL is reserved when it is known.
    Asking {
        url: Option<EndpointUrl>,
        probe: Option<i64>,
    },
    /// A worker is on it.
    Working {
        url: Option<EndpointUrl>,
        control: Arc<Control>,
        probes: bool,
    },
    /// It is being deleted or released; no worker is on it.
    Closing,
}

/// Slots of one URL in use.
#[derive(Default)]
struct Slots {
    used: usize,
}

/// The dispatcher of one incarnation.
pub(super) struct Dispatcher {
    engine: Arc<Inner>,
    incarnation: IncarnationId,
    stops: Stops,
    tell: mpsc::Sender<Tell>,
    candidates: Candidates,
    holdings: HashMap<QueueName, Holding>,
    /// Told again while held: look at once more after the release.
    again: HashSet<QueueName>,
    /// Queues that a listing alone does not wake before this uptime in microseconds: their head waits, or
    /// somebody else has them. A nudge, a due row or a person does.
    resting: HashMap<QueueName, u64>,
    slots: HashMap<EndpointUrl, Slots>,
    probing: HashSet<EndpointUrl>,
    unknown_first: bool,
    workers: usize,
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
            holdings: HashMap::new(),
            again: HashSet::new(),
            resting: HashMap::new(),
            slots: HashMap::new(),
            probing: HashSet::new(),
            unknown_first: false,
            workers: 0,
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
            Tell::Probe { url, queue, claimed } => self.probe_claimed(&url, queue, claimed),
            Tell::Ended(end) => self.worker_ended(*end),
            Tell::Released { queue, more } => {
                self.holdings.remove(&queue);
                let again = self.again.remove(&queue);
                if more || again {
                    self.candidate(queue);
                }
            }
            Tell::Closed { queue, ending } => {
                self.holdings.remove(&queue);
                let again = self.again.remove(&queue);
                match ending {
                    Ending::Deleted => {
                        self.candidates.forget(&queue);
                        // Told of meanwhile: it may exist again.
                        if again {
                            self.candidate(queue);
                        }
                    }
                    Ending::GoesOn => self.candidate(queue),
                    Ending::Lost => {}
                }
            }
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
        metrics::gauge!(names::WORKERS_BUSY).set(self.workers as f64);
    }

    fn has_room(&self) -> bool {
        self.workers < self.engine.settings.workers
    }

    fn next_candidate(&mut self) -> Option<QueueName> {
        let troubled = self.troubled_workers();
        let (engine, slots) = (&self.engine, &self.slots);
        let admits = |url: &EndpointUrl| has_slot(engine, slots, troubled, url);
        // Queues whose URL is known and those where it is not take turns: neither starves the other.
        self.unknown_first = !self.unknown_first;
        let unknown = self.unknown_first.then(|| self.candidates.next_unknown()).flatten();
        let (queue, url) = match unknown {
            Some(queue) => (queue, None),
            None => match self.candidates.next(admits) {
                Some((queue, url)) => (queue, Some(url)),
                None => (self.candidates.next_unknown()?, None),
            },
        };
        if let Some(url) = &url {
            self.slots.entry(url.clone()).or_default().used += 1;
        }
        self.workers += 1;
        self.holdings
            .insert(queue.clone(), Holding::Asking { url, probe: None });
        Some(queue)
    }

    /// A slot for a worker that holds a queue of `url` and had none; without one it lets go.
    fn grant_slot(&mut self, queue: &QueueName, url: &EndpointUrl) -> bool {
        self.candidates.learn(queue, url);
        if !has_slot(&self.engine, &self.slots, self.troubled_workers(), url) {
            return false;
        }
        match self.holdings.get_mut(queue) {
            Some(Holding::Working { url: known, .. }) if known.is_none() => *known = Some(url.clone()),
            Some(Holding::Working { .. } | Holding::Asking { .. } | Holding::Closing) | None => return false,
        }
        self.slots.entry(url.clone()).or_default().used += 1;
        true
    }

    /// Workers on endpoints that did not answer last time (or never were asked).
    fn troubled_workers(&self) -> usize {
        self.slots
            .iter()
            .filter(|(url, _)| !self.engine.endpoints.get(url).is_proven())
            .map(|(_, slots)| slots.used)
            .sum()
    }

    /// Those who linger, or had their turn, make room when somebody waits.
    fn hurry(&mut self) {
        if self.candidates.len() == 0 {
            return;
        }
        let no_room = !self.has_room();
        let contended: HashSet<&EndpointUrl> = self.candidates.urls_waiting().collect();
        for holding in self.holdings.values() {
            let Holding::Working { url, control, .. } = holding else {
                continue;
            };
            if no_room || url.as_ref().is_some_and(|url| contended.contains(url)) {
                control.others_wait();
            }
        }
    }

    fn ask(&mut self, queues: Vec<QueueName>) {
        self.asking += 1;
        let (engine, incarnation, tell) = (Arc::clone(&self.engine), self.incarnation, self.tell.clone());
        drop(ambient::spawn("leases", async move {
            let outcomes = match engine.store.leases_take(incarnation, Purpose::Deliver, &queues).await {
                Ok(outcomes) => queues.into_iter().zip(outcomes).collect(),
                Err(error) => {
                    tracing::warn!(error = ?error, "leases wait for the store");
                    tokio::time::sleep(Duration::from_millis(500)).await;
                    queues
                        .into_iter()
                        .map(|queue| (queue, LeaseOutcome::Held(IncarnationId(0))))
                        .collect()
                }
            };
            let _ = tell.send(Tell::Leases(outcomes)).await;
        }));
    }

    fn leases(&mut self, outcomes: Vec<(QueueName, LeaseOutcome)>) {
        self.asking = self.asking.saturating_sub(1);
        for (queue, outcome) in outcomes {
            match outcome {
                LeaseOutcome::Taken(lease) => self.taken(queue, *lease),
                // Incarnation 0 is nobody: the store was away.
                LeaseOutcome::Held(IncarnationId(0)) => {
                    self.give_up(&queue, ProbeNext::Same);
                    self.wake_in(queue, Duration::from_secs(1));
                }
                LeaseOutcome::Held(owner) => {
                    self.rest(&queue, REST_HELD);
                    self.give_up(&queue, ProbeNext::AnyQueue);
                    if owner == self.incarnation {
                        self.compare_soon();
                    }
                }
                LeaseOutcome::Reserved(record) => {
                    if let Some(url) = &record.url {
                        self.candidates.learn(&queue, url);
                    }
                    let rest = if record.pause.is_some() {
                        REST_STOPPED
                    } else {
                        REST_WANTED
                    };
                    self.rest(&queue, rest);
                    self.give_up(&queue, ProbeNext::AnyQueue);
                }
                LeaseOutcome::Disowned => {
                    self.give_up(&queue, ProbeNext::Same);
                    self.engine.fence.close();
                }
            }
        }
    }

    /// Nothing came of asking: free slot and worker, and the probe.
    fn give_up(&mut self, queue: &QueueName, next: ProbeNext) {
        if let Some(Holding::Asking { url, probe }) = self.holdings.remove(queue) {
            self.free_slot(url.as_ref());
            if let (Some(url), Some(token)) = (url, probe) {
                self.release_probe(&url, token, next);
            }
        }
        self.again.remove(queue);
    }

    fn free_slot(&mut self, url: Option<&EndpointUrl>) {
        self.workers = self.workers.saturating_sub(1);
        let Some(url) = url else { return };
        if let Some(slots) = self.slots.get_mut(url) {
            slots.used = slots.used.saturating_sub(1);
            if slots.used == 0 {
                self.slots.remove(url);
            }
        }
    }

    fn taken(&mut self, queue: QueueName, lease: Lease) {
        let Some(Holding::Asking { url: reserved, probe }) = self.holdings.remove(&queue) else {
            return;
        };
        metrics::counter!(names::LEASES, "event" => "taken").increment(1);
        if let Some(from) = &lease.taken_from {
            metrics::counter!(names::LEASES, "event" => "taken_over").increment(1);
            tracing::info!(queue = ?queue, from = ?from, "took over a queue of a dead incarnation");
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
            self.candidates.learn(&queue, url);
        }
        if probe.is_none() && !self.may_work(&lease.record, endpoint.as_deref(), reserved.as_ref()) {
            self.free_slot(reserved.as_ref());
            self.holdings.insert(queue.clone(), Holding::Closing);
            self.release(queue, lease.epoch, Release::Wait);
            return;
        }
        if reserved.is_none()
            && let Some(endpoint) = &endpoint
        {
            self.slots.entry(endpoint.url.clone()).or_default().used += 1;
        }
        let url = endpoint.as_ref().map(|endpoint| endpoint.url.clone()).or(reserved);
        let control = Arc::new(Control::new(self.tell.clone()));
        self.holdings.insert(
            queue,
            Holding::Working {
                url,
                control: Arc::clone(&control),
                probes: probe.is_some(),
            },
        );
        let worker = Worker::new(
            Arc::clone(&self.engine),
            lease,
            self.incarnation,
            endpoint,
            probe,
            control,
            self.stops.for_worker(),
        );
        self.start(worker);
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
        let used = self.slots.get(&endpoint.url).map_or(0, |slots| slots.used);
        if reserved.is_none() && used >= slots_of(&self.engine, endpoint) {
            self.again.insert(record.name.clone());
            return false;
        }
        true
    }

    fn start(&self, worker: Worker) {
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
            let _ = tell.send(Tell::Ended(Box::new(end))).await;
        }));
    }

    fn worker_ended(&mut self, end: WorkerEnd) {
        let queue = end.queue;
        if let Some(Holding::Working { url, probes, .. }) = self.holdings.insert(queue.clone(), Holding::Closing) {
            self.free_slot(url.as_ref());
            if let (Some(url), true) = (&url, probes) {
                self.probing.remove(url);
            }
        }
        if let Some(endpoint) = &end.endpoint {
            self.candidates.learn(&queue, &endpoint.url);
        }
        match end.end {
            End::Ended => self.close(queue, end.epoch),
            End::Idle => self.release(queue, end.epoch, Release::Look),
            End::Yielded | End::Stopping => self.release(queue, end.epoch, Release::More),
            End::Waits(delay) | End::Trouble(delay) => {
                self.rest(&queue, delay.min(REST_STOPPED));
                self.wake_in(queue.clone(), delay);
                self.release(queue, end.epoch, Release::Wait);
            }
            End::EndpointClosed => {
                self.again.insert(queue.clone());
                self.release(queue, end.epoch, Release::Wait);
            }
            stopped @ (End::Parked | End::LetGo | End::Refused) => {
                // Whoever asked for it may be done soon, or a changed policy asks for a new look.
                if stopped == End::LetGo {
                    self.rest(&queue, REST_WANTED);
                    self.wake_in(queue.clone(), REST_WANTED);
                } else {
                    self.rest(&queue, REST_STOPPED);
                }
                self.again.remove(&queue);
                self.release(queue, end.epoch, Release::Wait);
            }
            End::Gone => self.gone(queue, end.epoch),
            // The lease alone is lost, or the store failed: freeing it is guarded by the epoch.
            End::Fenced if self.engine.fence.permits(self.incarnation) => {
                metrics::counter!(names::LEASES, "event" => "lost").increment(1);
                self.wake_in(queue.clone(), Duration::from_secs(1));
                self.release(queue, end.epoch, Release::Wait);
            }
            // PROTOCOLS.md 4: nothing goes on under this incarnation, even if the fence opened again.
            End::Fenced => {
                metrics::counter!(names::LEASES, "event" => "lost").increment(1);
                self.holdings.remove(&queue);
                self.again.remove(&queue);
                self.engine.fence.close();
            }
        }
    }

    /// PROTOCOLS.md 24: free the lease, *then* read the exact depth once more.
    fn release(&self, queue: QueueName, epoch: crate::domain::id::Epoch, release: Release) {
        let (engine, tell) = (Arc::clone(&self.engine), self.tell.clone());
        drop(ambient::spawn("release", async move {
            if let Err(error) = engine.store.lease_free(&queue, epoch).await {
                tracing::warn!(queue = ?queue, error = ?error, "lease is freed by the next comparison only");
            }
            let more = match release {
                Release::More => true,
                Release::Wait => false,
                Release::Look => match engine.broker.look(&queue).await {
                    Ok(Look::Present { ready, .. }) => ready > 0,
                    Ok(Look::Missing) => false,
                    Err(_) => true,
                },
            };
            let _ = tell.send(Tell::Released { queue, more }).await;
        }));
    }

    fn close(&self, queue: QueueName, epoch: crate::domain::id::Epoch) {
        let (engine, tell, incarnation) = (Arc::clone(&self.engine), self.tell.clone(), self.incarnation);
        drop(ambient::spawn("end queue", async move {
            let ending = engine
                .end_queue(&Held {
                    queue: queue.clone(),
                    epoch,
                    incarnation,
                })
                .await;
            let _ = tell.send(Tell::Closed { queue, ending }).await;
        }));
    }

    /// The store says that a queue is held here, and nothing here knows of it (an answer was lost): the
    /// comparison of housekeeping comes at once.
    fn compare_soon(&self) {
        let (engine, tell, incarnation) = (Arc::clone(&self.engine), self.tell.clone(), self.incarnation);
        drop(ambient::spawn("compare leases", async move {
            if let Ok(held) = engine.store.leases_held(incarnation).await {
                let _ = tell.send(Tell::Compare(held)).await;
            }
        }));
    }

    /// A lease that nothing here knows of is freed (a task that held it panicked).
    fn compare(&self, held: Vec<HeldLease>) {
        for lease in held
            .into_iter()
            .filter(|lease| !self.holdings.contains_key(&lease.queue))
        {
            tracing::warn!(queue = ?lease.queue, "a lease without a worker is freed");
            self.release(lease.queue, lease.epoch, Release::Look);
        }
    }

    /// The broker has no such queue: forget its row.
    fn gone(&self, queue: QueueName, epoch: crate::domain::id::Epoch) {
        let (engine, tell) = (Arc::clone(&self.engine), self.tell.clone());
        drop(ambient::spawn("forget queue", async move {
            if let Err(error) = engine.store.queue_forget(&queue, epoch).await {
                tracing::warn!(queue = ?queue, error = ?error, "a deleted queue is still in the store");
            }
            engine.publisher.forget(&queue);
            engine.rules.forget(&queue);
            let _ = tell
                .send(Tell::Closed {
                    queue,
                    ending: Ending::Deleted,
                })
                .await;
        }));
    }

    /// PROTOCOLS.md 14: claims the probes that are due.
    fn probe(&mut self) {
        for (url, queue) in self.engine.endpoints.probes_due(self.engine.clock.now()) {
            if !self.has_room() || self.probing.contains(&url) {
                continue;
            }
            let Some(queue) = queue.or_else(|| self.candidates.first_of(&url).cloned()) else {
                continue;
            };
            if self.holdings.contains_key(&queue) {
                continue;
            }
            self.candidates.take(&queue);
            self.workers += 1;
            self.slots.entry(url.clone()).or_default().used += 1;
            self.holdings.insert(
                queue.clone(),
                Holding::Asking {
                    url: Some(url.clone()),
                    probe: None,
                },
            );
            self.probing.insert(url.clone());
            self.claim(url, queue);
        }
    }

    fn claim(&self, url: EndpointUrl, queue: QueueName) {
        let (engine, tell) = (Arc::clone(&self.engine), self.tell.clone());
        let hold = engine.settings.request_timeout * 2;
        drop(ambient::spawn("probe", async move {
            let claimed = match engine.store.probe_claim(&url, &queue, hold).await {
                Ok(ProbeOutcome::Claimed { token, endpoint }) => {
                    engine.endpoints.update(&endpoint);
                    Some(token)
                }
                Ok(ProbeOutcome::NotYours(endpoint)) => {
                    engine.endpoints.update(&endpoint);
                    tokio::time::sleep(Duration::from_millis(250)).await;
                    None
                }
                Ok(ProbeOutcome::NotNeeded) => {
                    if let Ok(Some(now)) = engine.store.endpoint_get(&url).await {
                        engine.endpoint_moved(&now);
                    }
                    None
                }
                Err(error) => {
                    tracing::warn!(error = ?error, "a probe waits for the store");
                    tokio::time::sleep(Duration::from_millis(500)).await;
                    None
                }
            };
            let _ = tell.send(Tell::Probe { url, queue, claimed }).await;
        }));
    }

    fn probe_claimed(&mut self, url: &EndpointUrl, queue: QueueName, claimed: Option<i64>) {
        let Some(token) = claimed else {
            self.probing.remove(url);
            self.give_up(&queue, ProbeNext::Same);
            self.candidate(queue);
            return;
        };
        self.holdings.insert(
            queue.clone(),
            Holding::Asking {
                url: Some(url.clone()),
                probe: Some(token),
            },
        );
        self.ask(vec![queue]);
    }

    fn release_probe(&mut self, url: &EndpointUrl, token: i64, next: ProbeNext) {
        self.probing.remove(url);
        let engine = Arc::clone(&self.engine);
        let live = engine.endpoints.get(url);
        drop(ambient::spawn("probe release", async move {
            Worker::release_probe(&engine, &live, token, next).await;
        }));
    }
}

/// What a released queue is looked at for.
#[derive(Clone, Copy)]
enum Release {
    /// It was empty: look once more.
    Look,
    /// It has more.
    More,
    /// It waits for something that is told in another way.
    Wait,
}

/// Whether one more worker may be on a queue of `url`.
fn has_slot(engine: &Inner, slots: &HashMap<EndpointUrl, Slots>, troubled: usize, url: &EndpointUrl) -> bool {
    let live = engine.endpoints.get(url);
    if !live.is_available() {
        return false;
    }
    let used = slots.get(url).map_or(0, |slots| slots.used);
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
