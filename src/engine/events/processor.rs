//! The processor: takes events of a type that are due and hands them to their handler, under leases that are
//! prolonged while it works and lost when this process is.
//!
//! In the daemon it runs until the incarnation ends; `process --once` runs it until nothing is due. It sleeps until
//! something is pushed, here or by another process, or until the next event is due.
//!
//! Taking, handling and finishing go on side by side. A program is only given what it can begin at once; for a
//! handler in this process some more is taken ahead, as much as it handles in a short time, so that a fast one does
//! not wait for the database with every event.

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::FutureExt;
use tokio::sync::{Semaphore, mpsc};
use tokio_util::sync::CancellationToken;

use super::handler::{Action, failed, panicked, run_command, verdict_of, verdict_of_handled};
use super::meters::TypeMeters;
use crate::ambient;
use crate::domain::event::{Event, EventType, HandlingRules, LeaseKey};
use crate::domain::id::IncarnationId;
use crate::domain::time::Timestamp;
use crate::engine::{EngineError, Inner};
use crate::store::{EventClaim, Finish, Finished, Verdict};

/// How long a lease holds without being prolonged; a handler may take longer.
const LEASE: Duration = Duration::from_secs(60);
/// Between two prolongations.
const RENEW: Duration = Duration::from_secs(15);
/// Between two looks at events that are due and cannot be taken: others of their reference are in hand.
const BLOCKED: Duration = Duration::from_millis(500);
/// The longest sleep: what others said may have been lost.
const IDLE_MAX: Duration = Duration::from_secs(5);
/// How long taking goes on behind what was taken last, at most.
const MARK_FOR: Duration = Duration::from_secs(1);
/// Events without a program of their own that are taken at once.
const BATCH: usize = 500;
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
struct Hands {
    leases: Mutex<HashMap<LeaseKey, CancellationToken>>,
    tally: [AtomicU64; Finished::ALL.len()],
    meters: Arc<TypeMeters>,
    /// How long a handler takes, in microseconds, the last ones counting most; zero when nobody knows.
    handling: AtomicU64,
}

impl Hands {
    fn new(meters: Arc<TypeMeters>) -> Self {
        Self {
            leases: Mutex::default(),
            tally: Default::default(),
            meters,
            handling: AtomicU64::new(0),
        }
    }

    /// A handler took so long.
    fn took(&self, span: Duration) {
        let span = u64::try_from(span.as_micros()).unwrap_or(u64::MAX).max(1);
        let before = self.handling.load(Ordering::Relaxed);
        let average = if before == 0 {
            span
        } else {
            (before.saturating_mul(7).saturating_add(span) / 8).max(1)
        };
        self.handling.store(average, Ordering::Relaxed);
    }

    /// How many events `workers` handle in `span`; none when nobody knows.
    fn ahead(&self, span: Duration, workers: usize) -> usize {
        let each = u128::from(self.handling.load(Ordering::Relaxed));
        if each == 0 {
            return 0;
        }
        usize::try_from(span.as_micros() / each)
            .unwrap_or(BATCH)
            .saturating_mul(workers)
            .min(BATCH)
    }

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
        self.meters.ended(how);
        for (known, count) in Finished::ALL.iter().zip(&self.tally) {
            if *known == how {
                count.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    fn processed(&self) -> Processed {
        let counts = Finished::ALL.iter().zip(&self.tally);
        let counts = counts.map(|(how, count)| (*how, count.load(Ordering::Relaxed)));
        Processed {
            ended: counts.filter(|(_, count)| *count > 0).collect(),
        }
    }

    fn locked(&self) -> std::sync::MutexGuard<'_, HashMap<LeaseKey, CancellationToken>> {
        self.leases.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How events are taken at present.
struct Taking {
    rules: HandlingRules,
    /// When they were read (uptime).
    rules_at: Duration,
    /// What was taken last, while there is plenty: the next ones come after it.
    mark: Option<(Timestamp, i64)>,
    /// Since when it is used (uptime).
    mark_at: Duration,
}

impl Taking {
    const fn with(rules: HandlingRules, now: Duration) -> Self {
        Self {
            rules,
            rules_at: now,
            mark: None,
            mark_at: now,
        }
    }
}

impl Processor {
    /// Runs until it is stopped, or until nothing is due.
    pub(super) async fn run(self) -> Result<Processed, EngineError> {
        let me = Arc::new(self);
        let hands = Arc::new(Hands::new(me.engine.event_meters.of(&me.event_type)));
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
        let workers = self.engine.settings.events.workers.max(1);
        let all = u32::try_from(workers).unwrap_or(u32::MAX);
        let places = Arc::new(Semaphore::new(workers));
        let wake = self.engine.wakes.of(&self.event_type);
        let mut taking = Taking::with(self.rules().await?, self.engine.clock.uptime());
        self.engine
            .store
            .events_give_up(&self.event_type, taking.rules.cutoff)
            .await?;
        while !self.stop.is_cancelled() {
            self.refresh(&mut taking).await;
            let woken = wake.notified();
            tokio::pin!(woken);
            woken.as_mut().enable();
            match self.take(&places, hands, &mut taking).await {
                Ok(events) if !events.is_empty() => {
                    self.hand_out(events, hands, &places, taking.rules, &finished).await;
                    continue;
                }
                // What came before the mark may be due by now.
                Ok(_) if taking.mark.take().is_some() => continue,
                Ok(_) => {}
                Err(error) if self.once => return Err(error),
                Err(error) => {
                    tracing::warn!(error = ?error, event_type = ?self.event_type, "events wait for the store");
                }
            }
            if self.once {
                if self.is_over(&places, all, &finished).await {
                    break;
                }
                continue;
            }
            let sleep = self.until_due().await;
            tokio::select! {
                () = woken => {}
                () = tokio::time::sleep(sleep) => {}
                () = self.stop.cancelled() => {}
            }
        }
        // Handlers in hand end, or are ended with the stop.
        let _ = places.acquire_many(all).await;
        Ok(())
    }

    /// How long nothing is due, as far as one can tell.
    async fn until_due(&self) -> Duration {
        match self.engine.store.events_next_due(&self.event_type).await {
            Ok(None) => IDLE_MAX,
            Ok(Some(left)) if left.is_zero() => BLOCKED,
            // A moment more: no clock is asked twice for the same instant.
            Ok(Some(left)) => (left + Duration::from_millis(1)).min(IDLE_MAX),
            Err(_) => BLOCKED,
        }
    }

    /// What is used for a while only.
    async fn refresh(&self, taking: &mut Taking) {
        let now = self.engine.clock.uptime();
        if now.saturating_sub(taking.rules_at) > RULES_FOR {
            taking.rules = self.rules().await.unwrap_or(taking.rules);
            taking.rules_at = now;
        }
        if now.saturating_sub(taking.mark_at) > MARK_FOR {
            taking.mark = None;
            taking.mark_at = now;
        }
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

    async fn take(&self, places: &Semaphore, hands: &Hands, taking: &mut Taking) -> Result<Vec<Event>, EngineError> {
        let settings = &self.engine.settings.events;
        let ahead = match self.action {
            Action::Webhook => BATCH,
            Action::Command(_) => 0,
            Action::Embedded(_) => hands.ahead(settings.ahead, settings.workers.max(1)),
        };
        if !matches!(self.action, Action::Webhook) {
            // Waits until there is a place at all.
            drop(places.acquire().await);
        }
        let limit = places.available_permits().max(ahead).clamp(1, BATCH);
        if !self.once && !self.engine.fence.permits(self.incarnation) {
            return Ok(Vec::new());
        }
        let claim = EventClaim {
            event_type: self.event_type.clone(),
            limit: u32::try_from(limit).unwrap_or(1),
            cutoff: taking.rules.cutoff,
            owner: self.incarnation,
            span: LEASE,
            after: taking.mark,
        };
        let events = self.engine.store.events_claim(&claim).await?;
        let last = events.last().map(|event| (event.nbf, event.id));
        taking.mark = last.filter(|_| events.len() == limit);
        Ok(events)
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
            hands.meters.begun(now.since(event.nbf));
        }
        if let Action::Webhook = self.action {
            self.notify(events, &rules, finished).await;
            return;
        }
        // All of them are prolonged from now on, those that wait for a place too.
        let held = events
            .into_iter()
            .filter_map(|event| event.lease_key().map(|lease| (event, lease)))
            .map(|(event, lease)| (event, lease, hands.take(lease, &self.stop)));
        for (event, lease, lost) in held.collect::<Vec<_>>() {
            let Ok(place) = Arc::clone(places).acquire_owned().await else {
                return;
            };
            let (me, hands, finished) = (Arc::clone(self), Arc::clone(hands), finished.clone());
            ambient::spawn("event handler", async move {
                let begun = me.engine.clock.uptime();
                let verdict = me.handle(&event, &rules, &lost).await;
                hands.took(me.engine.clock.uptime().saturating_sub(begun));
                hands.put_down(lease);
                let _ = finished.send(Finish { lease, verdict }).await;
                drop(place);
            });
        }
    }

    async fn handle(&self, event: &Event, rules: &HandlingRules, lost: &CancellationToken) -> Verdict {
        if lost.is_cancelled() {
            return Verdict::Release;
        }
        let time = self.engine.settings.events.lease;
        match &self.action {
            Action::Command(command) => {
                let ran = run_command(command, event, time, lost).await;
                verdict_of(&ran, event, rules, self.engine.clock.now())
            }
            Action::Embedded(embedded) => {
                // Its lease would be prolonged for ever if nobody heard of the end.
                let handling = AssertUnwindSafe(embedded.handle(event)).catch_unwind();
                let outcome = tokio::select! {
                    outcome = tokio::time::timeout(time, handling) => outcome,
                    () = lost.cancelled() => return Verdict::Release,
                };
                let now = self.engine.clock.now();
                match outcome {
                    Ok(Ok(handled)) => verdict_of_handled(handled, event, rules, now),
                    Ok(Err(said)) => failed(&panicked(&*said), event, rules, now),
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
            let again = ends
                .iter()
                .any(|how| matches!(how, Finished::Superseded | Finished::Released));
            for how in ends {
                hands.count(how);
            }
            if again {
                self.engine.wakes.wake(std::iter::once(&self.event_type));
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
