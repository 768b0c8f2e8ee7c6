//! The processor: takes events of a type that are due and hands them to their handler, under leases that are
//! prolonged while it works and lost when this process is.
//!
//! In the daemon it runs until the incarnation ends; `process --once` runs it until nothing is due.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use metrics::{counter, histogram};
use tokio::sync::{Semaphore, mpsc};
use tokio_util::sync::CancellationToken;

use super::handler::{Action, failed, run_command, verdict_of, verdict_of_handled};
use crate::ambient;
use crate::domain::event::{Event, EventType, HandlingRules, LeaseKey};
use crate::domain::id::IncarnationId;
use crate::engine::{EngineError, Inner};
use crate::store::{EventClaim, Finish, Finished, Verdict};
use crate::telemetry::names;

/// How long a lease holds without being prolonged; a handler may take longer.
const LEASE: Duration = Duration::from_secs(60);
/// Between two prolongations.
const RENEW: Duration = Duration::from_secs(15);
/// Between two looks at a table in which nothing was pushed by this process.
const IDLE: Duration = Duration::from_millis(500);
/// Events without a program of their own that are taken at once.
const BATCH: usize = 200;
/// Finishes in one call of the store.
const FINISHES: usize = 500;
/// How long the rules of a type are used before they are read again.
const RULES_FOR: Duration = Duration::from_secs(10);

/// How events ended, by how.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Processed {
    /// How many, by how they ended.
    pub ended: Vec<(Finished, u64)>,
}

/// The events of one type in one process.
pub(super) struct Processor {
    pub(super) engine: Arc<Inner>,
    pub(super) incarnation: IncarnationId,
    pub(super) event_type: EventType,
    pub(super) action: Action,
    /// Ends when this process may not go on.
    pub(super) stop: CancellationToken,
    /// Ends when nothing is due, instead of waiting.
    pub(super) once: bool,
}

/// What is in hand.
#[derive(Default)]
struct Hands {
    leases: Mutex<HashMap<LeaseKey, CancellationToken>>,
    tally: [AtomicU64; 8],
}

const HOWS: [Finished; 8] = [
    Finished::Done,
    Finished::Requeued,
    Finished::Retried,
    Finished::Dead,
    Finished::Released,
    Finished::Superseded,
    Finished::Gone,
    Finished::Stale,
];

impl Hands {
    fn take(&self, key: LeaseKey, stop: &CancellationToken) -> CancellationToken {
        let lost = stop.child_token();
        self.locked().insert(key, lost.clone());
        lost
    }

    fn put_down(&self, key: LeaseKey) {
        self.locked().remove(&key);
    }

    fn held(&self) -> Vec<LeaseKey> {
        self.locked().keys().copied().collect()
    }

    /// Those that somebody else has now, or nobody, are given up.
    fn lost(&self, asked: &[LeaseKey], held: &[i64]) {
        let leases = self.locked();
        for key in asked.iter().filter(|key| !held.contains(&key.id)) {
            if let Some(lost) = leases.get(key) {
                lost.cancel();
            }
        }
    }

    fn count(&self, how: Finished) {
        counter!(names::EVENTS_HANDLED, "how" => how.as_str()).increment(1);
        for (known, count) in HOWS.iter().zip(&self.tally) {
            if *known == how {
                count.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    fn processed(&self) -> Processed {
        let counts = HOWS.iter().zip(&self.tally);
        let counts = counts.map(|(how, count)| (*how, count.load(Ordering::Relaxed)));
        Processed {
            ended: counts.filter(|(_, count)| *count > 0).collect(),
        }
    }

    fn locked(&self) -> std::sync::MutexGuard<'_, HashMap<LeaseKey, CancellationToken>> {
        self.leases.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Processor {
    /// Runs until it is stopped, or until nothing is due.
    pub(super) async fn run(self) -> Result<Processed, EngineError> {
        let me = Arc::new(self);
        let hands = Arc::new(Hands::default());
        let (report, finishes) = mpsc::channel(FINISHES);
        let ended = CancellationToken::new();
        let renewing = ambient::spawn("event leases", Arc::clone(&me).renew(Arc::clone(&hands), ended.clone()));
        let finishing = ambient::spawn("event finishes", Arc::clone(&me).finish(Arc::clone(&hands), finishes));
        let result = me.take_and_handle(&hands, report).await;
        let _ = finishing.await;
        ended.cancel();
        let _ = renewing.await;
        result.map(|()| hands.processed())
    }

    async fn take_and_handle(
        self: &Arc<Self>,
        hands: &Arc<Hands>,
        finished: mpsc::Sender<Finish>,
    ) -> Result<(), EngineError> {
        let workers = u32::try_from(self.engine.settings.events.workers).unwrap_or(1).max(1);
        let places = Arc::new(Semaphore::new(workers as usize));
        let mut rules = self.rules().await?;
        let mut rules_at = self.engine.clock.uptime();
        self.engine.store.events_give_up(&self.event_type, rules.cutoff).await?;
        while !self.stop.is_cancelled() {
            if self.engine.clock.uptime().saturating_sub(rules_at) > RULES_FOR {
                rules = self.rules().await.unwrap_or(rules);
                rules_at = self.engine.clock.uptime();
            }
            let pushed = self.engine.events_pushed.notified();
            tokio::pin!(pushed);
            pushed.as_mut().enable();
            let taken = self.take(&places, &rules).await;
            let idle = match taken {
                Ok(events) if events.is_empty() => true,
                Ok(events) => {
                    self.hand_out(events, hands, &places, rules, &finished).await;
                    false
                }
                Err(error) if self.once => return Err(error),
                Err(error) => {
                    tracing::warn!(error = ?error, event_type = ?self.event_type, "events wait for the store");
                    true
                }
            };
            if idle && self.once && self.is_over(&places, workers, &finished).await {
                break;
            }
            if idle && !self.once {
                tokio::select! {
                    () = pushed => {}
                    () = tokio::time::sleep(IDLE) => {}
                    () = self.stop.cancelled() => {}
                }
            }
        }
        // Handlers in hand end, or are ended with the stop.
        let _ = places.acquire_many(workers).await;
        Ok(())
    }

    /// Nothing was due; what was in hand may have made something due meanwhile.
    async fn is_over(&self, places: &Semaphore, workers: u32, finished: &mpsc::Sender<Finish>) -> bool {
        let busy = places.available_permits() < workers as usize || finished.capacity() < FINISHES;
        if busy {
            let _ = places.acquire_many(workers).await;
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        !busy
    }

    async fn take(&self, places: &Semaphore, rules: &HandlingRules) -> Result<Vec<Event>, EngineError> {
        let limit = match self.action {
            Action::Webhook => BATCH,
            Action::Command(_) | Action::Embedded(_) => {
                // Waits until there is a place at all.
                drop(places.acquire().await);
                places.available_permits().min(BATCH)
            }
        };
        if !self.once && !self.engine.fence.permits(self.incarnation) {
            return Ok(Vec::new());
        }
        let claim = EventClaim {
            event_type: self.event_type.clone(),
            limit: u32::try_from(limit).unwrap_or(1).max(1),
            cutoff: rules.cutoff,
            owner: self.incarnation,
            span: LEASE,
            after: None,
        };
        Ok(self.engine.store.events_claim(&claim).await?)
    }

    async fn hand_out(
        self: &Arc<Self>,
        events: Vec<Event>,
        hands: &Arc<Hands>,
        places: &Arc<Semaphore>,
        rules: HandlingRules,
        finished: &mpsc::Sender<Finish>,
    ) {
        let now = self.engine.clock.now();
        for event in &events {
            histogram!(names::EVENT_LAG).record(now.since(event.nbf).as_secs_f64());
        }
        if let Action::Webhook = self.action {
            self.notify(events, &rules, finished).await;
            return;
        }
        for event in events {
            let Ok(place) = Arc::clone(places).acquire_owned().await else {
                return;
            };
            let Some(lease) = event.lease_key() else { continue };
            let lost = hands.take(lease, &self.stop);
            let (me, hands, finished) = (Arc::clone(self), Arc::clone(hands), finished.clone());
            ambient::spawn("event handler", async move {
                let verdict = me.handle(&event, &rules, &lost).await;
                hands.put_down(lease);
                let _ = finished.send(Finish { lease, verdict }).await;
                drop(place);
            });
        }
    }

    async fn handle(&self, event: &Event, rules: &HandlingRules, lost: &CancellationToken) -> Verdict {
        let time = self.engine.settings.events.lease;
        match &self.action {
            Action::Command(command) => {
                let ran = run_command(command, event, time, lost).await;
                verdict_of(&ran, event, rules, self.engine.clock.now())
            }
            Action::Embedded(embedded) => {
                let outcome = tokio::select! {
                    outcome = tokio::time::timeout(time, embedded.handle(event)) => outcome,
                    () = lost.cancelled() => return Verdict::Release,
                };
                let now = self.engine.clock.now();
                match outcome {
                    Ok(handled) => verdict_of_handled(handled, event, rules, now),
                    Err(_) => failed("timeout", event, rules, now),
                }
            }
            Action::Webhook => Verdict::Release,
        }
    }

    /// The notifications of a batch are stored with the finishes of their events.
    async fn notify(&self, events: Vec<Event>, rules: &HandlingRules, finished: &mpsc::Sender<Finish>) {
        let subscriptions = self.engine.store.subscriptions(&self.event_type).await;
        for event in events {
            let Some(lease) = event.lease_key() else { continue };
            let now = self.engine.clock.now();
            let verdict = match &subscriptions {
                Ok(subscriptions) => match self.engine.notifications(&event, subscriptions) {
                    Ok(rows) => Verdict::Done(rows),
                    Err(error) => failed(&error, &event, rules, now),
                },
                Err(_) => Verdict::Release,
            };
            let _ = finished.send(Finish { lease, verdict }).await;
        }
    }

    async fn rules(&self) -> Result<HandlingRules, EngineError> {
        self.engine.handling_rules(&self.event_type).await
    }

    /// Prolongs what is in hand.
    async fn renew(self: Arc<Self>, hands: Arc<Hands>, ended: CancellationToken) {
        loop {
            tokio::select! {
                () = tokio::time::sleep(RENEW) => {}
                () = ended.cancelled() => return,
            }
            let asked = hands.held();
            if asked.is_empty() {
                continue;
            }
            match self.engine.store.events_renew(&asked, LEASE).await {
                Ok(held) => hands.lost(&asked, &held),
                Err(error) => tracing::warn!(error = ?error, "leases on events are not prolonged"),
            }
        }
    }

    /// Finishes in the order in which handlers ended, as many at once as there are.
    async fn finish(self: Arc<Self>, hands: Arc<Hands>, mut finishes: mpsc::Receiver<Finish>) {
        let mut group = Vec::with_capacity(FINISHES);
        while finishes.recv_many(&mut group, FINISHES).await > 0 {
            let Some(ends) = self.insist(&group).await else {
                tracing::error!(
                    events = group.len(),
                    "handled events were not finished: their leases will end"
                );
                group.clear();
                continue;
            };
            for how in ends {
                hands.count(how);
            }
            let notifies = group
                .iter()
                .any(|finish| matches!(&finish.verdict, Verdict::Done(rows) if !rows.is_empty()));
            if notifies {
                self.engine.outbox_filled.notify_one();
            }
            group.clear();
        }
    }

    /// A store that is away is waited for as long as the leases may hold.
    async fn insist(&self, group: &[Finish]) -> Option<Vec<Finished>> {
        let deadline = self.engine.clock.uptime() + LEASE;
        loop {
            match self.engine.store.events_finish(group).await {
                Ok(ends) => return Some(ends),
                Err(error) if self.engine.clock.uptime() > deadline => {
                    tracing::error!(error = ?error, "events cannot be finished");
                    return None;
                }
                Err(error) => {
                    tracing::warn!(error = ?error, "finishes wait for the store");
                    tokio::time::sleep(Duration::from_millis(500)).await;
                }
            }
        }
    }
}
