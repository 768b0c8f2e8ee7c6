//! A process that delivers: start, run, drain; and start again as a new incarnation when the present
//! one is disowned. Nobody has to restart it.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::EngineError;
use super::alerts::Alerts;
use super::core::{Core, over_core};
use super::delivery::Delivery;
use super::dispatch::Dispatcher;
use super::events::EventTable;
use super::expiring::Janitor;
use super::health::{Healing, Ownership};
use super::process::Part;
use super::retention::keep_bounds;
use super::rules::PolicyGuard;
use super::runs::Runs;
use super::tell::{CHANNEL, Tell};
use super::worker::Stops;
use crate::ambient;
use crate::broker::BrokerError;
use crate::domain::id::IncarnationId;
use crate::store::{QueuesOnly, StoreError};

/// Between two rounds of housekeeping.
const HOUSEKEEPING: Duration = Duration::from_secs(30);

/// What no waiting mends.
const fn is_final(error: &EngineError) -> bool {
    matches!(error, EngineError::Refused { .. } | EngineError::OtherOwner { .. })
}

/// Ends with the one that ends first.
fn first_of(generation: &CancellationToken, other: &CancellationToken) -> CancellationToken {
    let (ends, generation, other) = (generation.child_token(), generation.clone(), other.clone());
    let either = ends.clone();
    ambient::spawn("first of two ends", async move {
        generation.run_until_cancelled(other.cancelled()).await;
        either.cancel();
    });
    ends
}

/// The work of a process that delivers.
#[derive(Debug)]
pub(super) struct Daemon {
    core: Arc<Core>,
    pub(super) delivery: Arc<Delivery>,
    pub(super) healing: Arc<Healing>,
    pub(super) alerts: Arc<Alerts>,
    ownership: Arc<Ownership>,
    policy_guard: Arc<PolicyGuard>,
    event_table: Arc<EventTable>,
    janitor: Arc<Janitor>,
    runs: Arc<Runs>,
}

over_core!(Daemon);

impl Daemon {
    pub(super) fn new(
        core: &Arc<Core>,
        delivery: &Arc<Delivery>,
        alerts: Alerts,
        event_table: &Arc<EventTable>,
        janitor: Janitor,
        runs: &Arc<Runs>,
    ) -> Self {
        Self {
            core: Arc::clone(core),
            delivery: Arc::clone(delivery),
            healing: Arc::clone(&delivery.healing),
            alerts: Arc::new(alerts),
            ownership: Arc::clone(&delivery.healing.ownership),
            policy_guard: Arc::clone(&delivery.policy_guard),
            event_table: Arc::clone(event_table),
            janitor: Arc::new(janitor),
            runs: Arc::clone(runs),
        }
    }

    /// Delivers until `stop`, then drains.
    pub(super) async fn run(self: &Arc<Self>, stop: CancellationToken) -> Result<(), EngineError> {
        self.healing.watch_health();
        self.healing.watch_unbound();
        self.prepare(&stop).await?;
        let abandon = CancellationToken::new();
        let deadline = self.watch_stop(stop.clone(), abandon.clone());
        let mut part = Part::Delivers;
        while !stop.is_cancelled() {
            match self.live_once(&stop, &abandon, part).await {
                Ok(()) => part = Part::DeliversAgain,
                // What the store refuses to this program or its settings, no waiting mends.
                Err(error) if error.is_unreachable() || (part == Part::DeliversAgain && !is_final(&error)) => {
                    tracing::warn!(error = ?error, "cannot begin to deliver yet");
                    self.healing.health.waits_for(&error, self.clock.now());
                    ambient::wait(&stop, Duration::from_secs(1)).await;
                }
                Err(error) => {
                    deadline.abort();
                    return Err(error);
                }
            }
        }
        deadline.abort();
        Ok(())
    }

    /// Gives up what is in flight when draining takes too long.
    fn watch_stop(self: &Arc<Self>, stop: CancellationToken, abandon: CancellationToken) -> JoinHandle<()> {
        let drain = self.settings.drain;
        ambient::spawn("drain deadline", async move {
            stop.cancelled().await;
            ambient::sleep(drain).await;
            abandon.cancel();
        })
    }

    /// Makes the broker ready, and the store's own; waits for one that is away, and reports what waiting does not mend.
    async fn prepare(self: &Arc<Self>, stop: &CancellationToken) -> Result<(), EngineError> {
        while !stop.is_cancelled() {
            match self.prepare_once().await {
                Ok(()) => return Ok(()),
                Err(
                    error @ (EngineError::Broker(
                        BrokerError::Unreachable { .. } | BrokerError::Unknown { .. } | BrokerError::Limit { .. },
                    )
                    | EngineError::Store(StoreError::Unreachable { .. } | StoreError::NotWritable { .. })),
                ) => {
                    tracing::warn!(error = ?error, "waiting for broker and store");
                    self.healing.health.waits_for(&error, self.clock.now());
                    ambient::wait(stop, Duration::from_secs(1)).await;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// The store is asked anew each time: another one may be at its address.
    async fn prepare_once(self: &Arc<Self>) -> Result<(), EngineError> {
        let store = self.store.identity().await?;
        self.healing.health.set_store(store.clone());
        // Before anything is made there; what cannot be looked at yet is looked at when it is there.
        if let Err(error @ EngineError::OtherOwner { .. }) = self.ownership.refuse_another_broker(&store).await {
            return Err(error);
        }
        self.broker.prepare().await?;
        self.healing.own_broker(&store).await?;
        self.healing.compare_with_broker(&store).await?;
        self.healing.bind_before_delivery(&store).await;
        Ok(())
    }

    /// One incarnation, from its begin to its end.
    async fn live_once(
        self: &Arc<Self>,
        stop: &CancellationToken,
        abandon: &CancellationToken,
        part: Part,
    ) -> Result<(), EngineError> {
        if part == Part::DeliversAgain {
            self.prepare(stop).await?;
        }
        let name = format!("redrive-{}-{:08x}", std::process::id(), ambient::random() & 0xffff_ffff);
        let sent = self.clock.uptime();
        if part == Part::Delivers {
            // Before it takes leases, which would raise what fell.
            self.healing.look_at_numbers().await?;
        }
        let id = self.begin_incarnation(&name, part).await?;
        self.broker.set_name(&name);
        let generation = self.fence.begin(id, sent);
        tracing::info!(incarnation = id.0, name = ?name, "delivering");
        let (tell, told) = mpsc::channel(CHANNEL);
        let stops = Stops {
            drain: stop.clone(),
            abandon: abandon.clone(),
            generation: generation.clone(),
        };
        let mut tasks = self.start_tasks(id, &tell, &generation);
        let (no_more, given_up) = (first_of(&generation, stop), first_of(&generation, abandon));
        let handling = Arc::clone(&self.event_table).process_events(id, no_more, given_up);
        let handling = ambient::spawn("event processors", handling);
        if part == Part::Delivers {
            let looking = Arc::clone(&self.delivery).probe_what_was_refused(generation.clone());
            tasks.push(ambient::spawn("refused endpoints", looking));
        }
        self.healing.health.waits_no_more();
        self.news.delivering.send_replace(true);
        self.healing.health.look_now();
        let dispatcher = Dispatcher::new(Arc::clone(&self.delivery), id, stops, tell);
        dispatcher.run(told).await;
        // What handlers have in hand is given the same time as requests in flight, under leases that hold.
        let _ = handling.await;
        self.news.delivering.send_replace(false);
        self.fence.close();
        for task in tasks {
            let _ = task.await;
        }
        self.delivery.flush().await;
        self.leave(id, stop).await;
        self.healing.keep_numbers_once().await;
        tracing::info!(incarnation = id.0, "no longer delivering");
        Ok(())
    }

    /// Ends an incarnation whose work has ended: its leases are free for the next one, of this process
    /// too. A store that is away is waited for, unless the process stops: then others find it dead.
    async fn leave(&self, id: IncarnationId, stop: &CancellationToken) {
        while let Err(error) = self.store.incarnation_end(id).await {
            tracing::warn!(error = ?error, "an incarnation that ended is not yet known to have");
            if stop.is_cancelled() {
                return;
            }
            ambient::wait(stop, Duration::from_secs(1)).await;
        }
    }

    fn start_tasks(
        self: &Arc<Self>,
        id: IncarnationId,
        tell: &mpsc::Sender<Tell>,
        generation: &CancellationToken,
    ) -> Vec<JoinHandle<()>> {
        let (me, delivery) = (|| Arc::clone(self), || Arc::clone(&self.delivery));
        let mut tasks = self.event_table.start_events(id, generation);
        tasks.extend(self.alerts.start_alerts(id, generation));
        tasks.extend([
            ambient::spawn("heartbeat", delivery().beat(id, generation.clone())),
            ambient::spawn("poll", delivery().poll(id, tell.clone(), generation.clone())),
            ambient::spawn(
                "watch others",
                delivery().watch_others(id, tell.clone(), generation.clone()),
            ),
            ambient::spawn("paces", delivery().tend_paces(generation.clone())),
            ambient::spawn("signals", delivery().follow_signals(tell.clone(), generation.clone())),
            ambient::spawn(
                "rules",
                Arc::clone(&self.policy_guard).watch(tell.clone(), generation.clone()),
            ),
            ambient::spawn("sweep", me().start_sweep(tell.clone(), generation.clone())),
            ambient::spawn(
                "janitor",
                Arc::clone(&self.janitor).keep_lifetimes(id, generation.clone()),
            ),
            ambient::spawn("runs", Arc::clone(&self.runs).tend_runs(generation.clone())),
            ambient::spawn("numbers", Arc::clone(&self.healing).keep_numbers(generation.clone())),
            ambient::spawn("retention", keep_bounds(Arc::clone(&self.core), generation.clone())),
            ambient::spawn("housekeeping", me().keep_house(tell.clone(), generation.clone())),
            ambient::spawn("recorder", delivery().record(generation.clone())),
        ]);
        tasks
    }

    async fn start_sweep(self: Arc<Self>, tell: mpsc::Sender<Tell>, generation: CancellationToken) {
        if let Err(error) = self.delivery.learn_known(&tell).await {
            tracing::debug!(error = ?error, "known queues are learned as they are met");
        }
        Arc::clone(&self.delivery).sweep(tell, generation).await;
    }

    async fn keep_house(self: Arc<Self>, tell: mpsc::Sender<Tell>, generation: CancellationToken) {
        loop {
            ambient::wait(&generation, HOUSEKEEPING).await;
            if generation.is_cancelled() {
                return;
            }
            if let Err(error) = self.offer_idle_queues(&tell).await {
                tracing::debug!(error = ?error, "housekeeping waits for the store");
            }
        }
    }

    /// Queues that nobody used for long are taken once; a worker that finds one empty ends it.
    async fn offer_idle_queues(&self, tell: &mpsc::Sender<Tell>) -> Result<(), StoreError> {
        let since = self.store.now().await?.minus(self.settings.idle_queue_ttl);
        let mut pages = self.queue_pages(QueuesOnly::UnusedSince(since));
        while let Some(rows) = pages.next().await? {
            for row in rows {
                let _ = tell.send(Tell::Candidate(row.name)).await;
            }
        }
        Ok(())
    }
}
