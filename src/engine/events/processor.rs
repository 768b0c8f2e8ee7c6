//! The processor: takes events of a type that are due and hands them to their handler, under leases that are
//! prolonged while it works and lost when this process is.
//!
//! In the daemon it runs until the incarnation ends; `process --once` runs it until nothing is due. It sleeps until
//! something is pushed, here or by another process, or until the next event is due.
//!
//! Taking, handling and finishing go on side by side. A program is only given what it can begin at once; for a
//! handler in this process some more is taken ahead, as much as it handles in a short time, so that a fast one does
//! not wait for the database with every event.

use std::collections::VecDeque;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::EventTable;
use super::handler::{Action, Times, failed, panicked, run_command, verdict_of, verdict_of_handled};
use super::hands::{FINISHES, Hands, Held, Workers};
use crate::ambient;
use crate::domain::event::{Event, EventType, HandlingRules};
use crate::domain::id::IncarnationId;
use crate::domain::time::Timestamp;
use crate::engine::EngineError;
use crate::store::{EventClaim, Finish, Finished, References, Verdict};
use crate::telemetry::LoggedAt;

/// How long a lease holds without being prolonged; a handler may take longer.
const LEASE: Duration = Duration::from_secs(60);
/// Between two prolongations, and after one that the store did not answer.
const RENEW: Duration = Duration::from_secs(15);
const RENEW_AGAIN: Duration = Duration::from_secs(1);
/// So long before others may have what is in hand its handlers are ended: a program is killed some seconds after it was
/// asked to end.
const ENDING: Duration = Duration::from_secs(10);
/// So long after it was asked for, a lease is held for handlers.
const HELD: Duration = LEASE.checked_sub(ENDING).expect("a lease is longer");
/// Between two looks whether that is over.
const WATCH: Duration = Duration::from_millis(500);
/// After something was said of the type: one of what is in hand may have been cancelled. Much may be said at once.
const TOLD: Duration = Duration::from_millis(500);
/// Between two looks at events that are due and cannot be taken: others of their reference are in hand.
const BLOCKED: Duration = Duration::from_millis(500);
/// The longest sleep: what others said may have been lost.
const IDLE_MAX: Duration = Duration::from_secs(5);
/// How long taking goes on behind what was taken last, at most.
const MARK_FOR: Duration = Duration::from_secs(1);
/// Events without a program of their own that are taken at once.
const BATCH: usize = 500;
/// How long the rules of a type are used before they are read again.
const RULES_FOR: Duration = Duration::from_secs(10);

/// Calls of the store at once that may wait for rows which others have locked.
const APART: usize = 2;

/// What came of a group of finishes.
enum Insisted {
    /// In the order of the group.
    Ended(Vec<Finished>),
    /// Somebody keeps the row of one of them locked.
    Locked,
    /// The store was away for too long.
    GivenUp,
}

fn not_finished(events: usize) {
    tracing::error!(events, "handled events were not finished: their leases will end");
}

/// How events ended, by how.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Processed {
    /// How many, by how they ended.
    pub ended: Vec<(Finished, u64)>,
}

/// The events of one type in one process.
pub(super) struct Processor {
    pub(super) engine: Arc<EventTable>,
    pub(super) incarnation: IncarnationId,
    pub(super) event_type: EventType,
    pub(super) action: Action,
    /// Ends when nothing more is to be taken.
    pub(super) stop: CancellationToken,
    /// Ends when what is in hand is to be given up.
    pub(super) abandon: CancellationToken,
    /// Ends when nothing is due, instead of waiting.
    pub(super) once: bool,
    /// When it was said last that nobody subscribes.
    pub(super) unheard: LoggedAt,
}

/// How events are taken at present.
#[derive(Clone, Copy)]
struct Taking {
    rules: HandlingRules,
    /// When they were read (uptime).
    rules_at: Duration,
    /// What was taken last, while there is plenty: the next ones come after it.
    mark: Option<Mark>,
    /// Since when it is used (uptime).
    mark_at: Duration,
}

/// A place in the order of handling.
type Mark = (Timestamp, i64);

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
        let hands = Arc::new(Hands::new(me.engine.meters.of(&me.event_type)));
        let (report, finishes) = mpsc::channel(FINISHES);
        let ended = CancellationToken::new();
        let renewing = ambient::spawn("event leases", Arc::clone(&me).renew(Arc::clone(&hands), ended.clone()));
        let watching = ambient::spawn(
            "events in hand",
            Arc::clone(&me).watch(Arc::clone(&hands), ended.clone()),
        );
        let finishing = ambient::spawn("event finishes", Arc::clone(&me).finish(Arc::clone(&hands), finishes));
        let result = me.take_and_handle(&hands, report).await;
        let _ = finishing.await;
        ended.cancel();
        let _ = renewing.await;
        let _ = watching.await;
        result.map(|()| hands.processed())
    }

    async fn take_and_handle(
        self: &Arc<Self>,
        hands: &Arc<Hands>,
        finished: mpsc::Sender<Finish>,
    ) -> Result<(), EngineError> {
        let workers = Arc::new(Workers::new(self.at_once(), Arc::clone(hands), finished));
        let wake = self.engine.wakes.of(&self.event_type);
        let mut taking = Taking::with(self.rules().await?, self.engine.clock.uptime());
        self.give_up(taking.rules).await?;
        while !self.stop.is_cancelled() {
            self.refresh(&mut taking).await;
            let woken = wake.notified();
            tokio::pin!(woken);
            woken.as_mut().enable();
            match self.take(&workers, &mut taking).await {
                Ok(held) if !held.is_empty() => {
                    self.hand_out_and_take(held, &workers, &mut taking).await;
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
                if workers.is_clear().await {
                    break;
                }
                continue;
            }
            let sleep = self.until_due().await;
            tokio::select! {
                biased;
                () = self.stop.cancelled() => {}
                () = woken => {}
                () = ambient::sleep(sleep) => {}
            }
        }
        // Handlers in hand end, or are given up.
        workers.all_free().await;
        Ok(())
    }

    /// Handlers at once.
    fn at_once(&self) -> usize {
        self.engine.settings.events.workers.max(1)
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

    /// What has as many attempts as the cutoff allows, or more, is never taken.
    async fn give_up(&self, rules: HandlingRules) -> Result<(), EngineError> {
        self.engine.store.events_give_up(&self.event_type, rules.cutoff).await?;
        Ok(())
    }

    async fn learn_rules(&self, taking: &mut Taking) -> Result<(), EngineError> {
        let rules = self.rules().await?;
        if rules.cutoff != taking.rules.cutoff {
            self.give_up(rules).await?;
        }
        taking.rules = rules;
        Ok(())
    }

    /// What is used for a while only.
    async fn refresh(&self, taking: &mut Taking) {
        let now = self.engine.clock.uptime();
        if now.saturating_sub(taking.rules_at) > RULES_FOR {
            taking.rules_at = now;
            if let Err(error) = self.learn_rules(taking).await {
                tracing::warn!(error = ?error, event_type = ?self.event_type, "events are handled by the rules as last read");
            }
        }
        if now.saturating_sub(taking.mark_at) > MARK_FOR {
            taking.mark = None;
            taking.mark_at = now;
        }
    }

    /// How many are taken beyond those that can begin at once. They come in two lots: one is handed out while the
    /// next is taken.
    fn ahead(&self, hands: &Hands) -> usize {
        match self.action {
            Action::Webhook => BATCH,
            Action::Command(_) => 0,
            Action::Embedded(_) => hands.ahead(self.engine.settings.events.ahead / 2, self.at_once()),
        }
    }

    /// What is due, in hand from now on and prolonged until it is put down.
    async fn take(&self, workers: &Workers, taking: &mut Taking) -> Result<Vec<Held>, EngineError> {
        self.take_of(References::All, workers, taking).await
    }

    /// The same, of a part of the references.
    async fn take_of(
        &self,
        references: References,
        workers: &Workers,
        taking: &mut Taking,
    ) -> Result<Vec<Held>, EngineError> {
        if !matches!(self.action, Action::Webhook) {
            // Waits until there is a place at all.
            let place = self.stop.run_until_cancelled(workers.places.acquire()).await;
            if place.is_none() {
                return Ok(Vec::new());
            }
        }
        let ahead = self.ahead(&workers.hands);
        let limit = workers.places.available_permits().max(ahead).clamp(1, BATCH);
        if !self.once && !self.engine.fence.permits(self.incarnation) {
            return Ok(Vec::new());
        }
        let claim = EventClaim {
            event_type: self.event_type.clone(),
            references,
            limit: u32::try_from(limit).unwrap_or(1),
            cutoff: taking.rules.cutoff,
            owner: self.incarnation,
            span: LEASE,
            after: taking.mark,
        };
        let sent = self.engine.clock.uptime();
        let events = self.engine.store.events_claim(&claim).await?;
        let last = events.last().map(|event| (event.nbf, event.id));
        taking.mark = last.filter(|_| events.len() == limit);
        let held = events.into_iter().filter_map(|event| {
            let lease = event.lease_key()?;
            let lost = workers.hands.take(lease, sent + HELD, &self.abandon);
            Some(Held { event, lease, lost })
        });
        Ok(held.collect())
    }

    /// Hands out what was taken; meanwhile takes more, as long as there is plenty and something may be taken ahead. A
    /// fast handler handles more than one statement takes: for it two take side by side.
    async fn hand_out_and_take(self: &Arc<Self>, held: Vec<Held>, workers: &Arc<Workers>, taking: &mut Taking) {
        let parts: &[References] = match self.ahead(&workers.hands) {
            ahead if taking.mark.is_none() || ahead == 0 => return self.hand_out(held, workers, taking.rules).await,
            ahead if ahead < 2 * BATCH => &[References::All],
            _ => &[References::FirstHalf, References::SecondHalf],
        };
        let (lots, mut taken) = mpsc::channel(parts.len());
        let take_ahead = |part: &References| {
            let taking = Arc::clone(self).take_ahead(*part, *taking, Arc::clone(workers), lots.clone());
            ambient::spawn("events ahead", taking)
        };
        let takers: Vec<_> = parts.iter().map(take_ahead).collect();
        drop(lots);
        self.hand_out(held, workers, taking.rules).await;
        while let Some(held) = taken.recv().await {
            self.hand_out(held, workers, taking.rules).await;
        }
        let mut marks = Vec::with_capacity(takers.len());
        for taker in takers {
            marks.extend(taker.await.ok().flatten());
        }
        taking.mark = marks.into_iter().min();
    }

    /// Takes while there is plenty, one lot while the last one is handed out, until the mark is to be forgotten. Answers
    /// what was taken last, where there may be more. A store that is away is met again, and told of, by the next taking.
    async fn take_ahead(
        self: Arc<Self>,
        part: References,
        mut taking: Taking,
        workers: Arc<Workers>,
        lots: mpsc::Sender<Vec<Held>>,
    ) -> Option<Mark> {
        let until = taking.mark_at + MARK_FOR;
        while let Ok(place) = lots.reserve().await {
            let may_take = taking.mark.is_some() && self.ahead(&workers.hands) > 0 && !self.stop.is_cancelled();
            if !may_take || self.engine.clock.uptime() > until {
                break;
            }
            match self.take_of(part, &workers, &mut taking).await {
                Ok(held) if !held.is_empty() => place.send(held),
                Ok(_) | Err(_) => break,
            }
        }
        taking.mark
    }

    async fn hand_out(self: &Arc<Self>, held: Vec<Held>, workers: &Workers, rules: HandlingRules) {
        let now = self.engine.clock.now();
        for Held { event, .. } in &held {
            workers.hands.meters.begun(now.since(event.nbf));
        }
        if let Action::Webhook = self.action {
            self.notify(held, &rules, workers).await;
            return;
        }
        for Held { event, lease, lost } in held {
            let Ok(place) = Arc::clone(&workers.places).acquire_owned().await else {
                return;
            };
            let (me, hands, finished) = (Arc::clone(self), Arc::clone(&workers.hands), workers.finished.clone());
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
        let begun = self.engine.clock.now();
        let times = || Times {
            begun,
            ended: self.engine.clock.now(),
        };
        match &self.action {
            Action::Command(command) => {
                let ran = run_command(command, event, time, lost).await;
                verdict_of(&ran, event, rules, times())
            }
            Action::Embedded(embedded) => {
                // Its lease would be prolonged for ever if nobody heard of the end.
                let handling = AssertUnwindSafe(embedded.handle(event)).catch_unwind();
                let outcome = tokio::select! {
                    biased;
                    outcome = ambient::timeout(time, handling) => outcome,
                    () = lost.cancelled() => return Verdict::Release,
                };
                let times = times();
                match outcome {
                    Ok(Ok(handled)) => verdict_of_handled(handled, event, rules, times),
                    Ok(Err(said)) => failed(&panicked(&*said), event, rules, times.ended),
                    Err(_) => failed("timeout", event, rules, times.ended),
                }
            }
            Action::Webhook => Verdict::Release,
        }
    }

    /// The notifications of a batch are stored with the finishes of their events.
    async fn notify(&self, held: Vec<Held>, rules: &HandlingRules, workers: &Workers) {
        let subscriptions = self.engine.store.subscriptions(&self.event_type).await;
        if subscriptions.as_ref().is_ok_and(Vec::is_empty) && self.unheard.is_due(self.engine.clock.uptime()) {
            tracing::warn!(
                event_type = ?self.event_type, events = held.len(),
                "nobody subscribes to the events of this type: they are done, and nobody is notified"
            );
        }
        for Held { event, lease, .. } in held {
            let now = self.engine.clock.now();
            let verdict = match &subscriptions {
                Ok(subscriptions) => match self.engine.notifications(&event, subscriptions) {
                    Ok(rows) => Verdict::Done(rows),
                    Err(error) => failed(&error, &event, rules, now),
                },
                Err(_) => Verdict::Release,
            };
            workers.hands.put_down(lease);
            let _ = workers.finished.send(Finish { lease, verdict }).await;
        }
    }

    async fn rules(&self) -> Result<HandlingRules, EngineError> {
        self.engine.handling_rules(&self.event_type).await
    }

    /// Prolongs what is in hand, and gives up what is not to be prolonged, or could not be for so long that others may have
    /// it soon. A program may be at it for long: what was cancelled is told of at once.
    async fn renew(self: Arc<Self>, hands: Arc<Hands>, ended: CancellationToken) {
        let wake = self.engine.wakes.of(&self.event_type);
        let mut told = Box::pin(wake.notified());
        let mut rest = RENEW;
        loop {
            tokio::select! {
                biased;
                () = ended.cancelled() => return,
                () = &mut told, if matches!(self.action, Action::Command(_)) => {
                    told.set(wake.notified());
                    told.as_mut().enable();
                    ambient::wait(&ended, TOLD).await;
                }
                () = ambient::sleep(rest) => {}
            }
            rest = RENEW;
            let asked = hands.held();
            if asked.is_empty() {
                continue;
            }
            let sent = self.engine.clock.uptime();
            match self.engine.store.events_renew(&asked, LEASE).await {
                Ok(held) => hands.prolonged(&asked, &held, sent + HELD),
                Err(error) => {
                    tracing::warn!(error = ?error, "leases on events are not prolonged");
                    rest = RENEW_AGAIN;
                }
            }
        }
    }

    /// Gives up what others may have soon, also while the store does not answer.
    async fn watch(self: Arc<Self>, hands: Arc<Hands>, ended: CancellationToken) {
        let ending = ENDING.min(self.engine.settings.request_timeout);
        loop {
            ambient::wait(&ended, WATCH).await;
            if ended.is_cancelled() {
                return;
            }
            let lives_until = self.engine.fence.lives_until(self.incarnation).saturating_sub(ending);
            let events = hands.give_up(self.engine.clock.uptime(), lives_until);
            if events > 0 {
                tracing::warn!(
                    events, event_type = ?self.event_type,
                    "handlers are ended: the store did not answer for so long that others may take their events; they are handled again"
                );
            }
        }
    }

    /// Finishes in the order in which handlers ended, as many at once as there are.
    async fn finish(self: Arc<Self>, hands: Arc<Hands>, mut finishes: mpsc::Receiver<Finish>) {
        let mut group = Vec::with_capacity(FINISHES);
        let mut apart = Vec::new();
        let places = Arc::new(Semaphore::new(APART));
        while finishes.recv_many(&mut group, FINISHES).await > 0 {
            match self.insist(&group).await {
                Insisted::Ended(ends) => self.ended(&hands, &group, ends),
                Insisted::GivenUp => not_finished(group.len()),
                Insisted::Locked => {
                    let (me, hands, places) = (Arc::clone(&self), Arc::clone(&hands), Arc::clone(&places));
                    let group = std::mem::take(&mut group).into();
                    apart.retain(|task: &JoinHandle<()>| !task.is_finished());
                    apart.push(ambient::spawn("locked events", async move {
                        me.finish_apart(&hands, &places, group).await;
                    }));
                }
            }
            group.clear();
        }
        for task in apart {
            let _ = task.await;
        }
    }

    fn ended(&self, hands: &Hands, group: &[Finish], ends: Vec<Finished>) {
        let now = self.engine.clock.now();
        let again = ends
            .iter()
            .any(|how| matches!(how, Finished::Superseded | Finished::Released))
            || group.iter().any(|finish| is_soon(&finish.verdict, now));
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
    }

    /// Some of these have rows that another session keeps locked: each is finished by itself, so that the others do not
    /// wait for them. What is locked comes again behind the rest.
    async fn finish_apart(&self, hands: &Hands, places: &Semaphore, mut left: VecDeque<Finish>) {
        let deadline = self.engine.clock.uptime() + LEASE;
        while let Some(finish) = left.pop_front() {
            let one = std::slice::from_ref(&finish);
            let place = places.acquire().await;
            match self.engine.store.events_finish(one).await {
                Ok(ends) => self.ended(hands, one, ends),
                Err(error) if self.engine.clock.uptime() > deadline => {
                    tracing::error!(error = ?error, event = finish.lease.id, "an event cannot be finished");
                    not_finished(1);
                }
                Err(error) => {
                    tracing::warn!(error = ?error, event = finish.lease.id, "the finish of an event waits");
                    drop(place);
                    ambient::sleep(Duration::from_millis(500)).await;
                    left.push_back(finish);
                }
            }
        }
    }

    /// A store that is away is waited for as long as the leases may hold.
    async fn insist(&self, group: &[Finish]) -> Insisted {
        let deadline = self.engine.clock.uptime() + LEASE;
        loop {
            match self.engine.store.events_finish(group).await {
                Ok(ends) => return Insisted::Ended(ends),
                Err(error) if error.is_locked() => return Insisted::Locked,
                Err(error) if self.engine.clock.uptime() > deadline => {
                    tracing::error!(error = ?error, "events cannot be finished");
                    return Insisted::GivenUp;
                }
                Err(error) => {
                    tracing::warn!(error = ?error, "finishes wait for the store");
                    ambient::sleep(Duration::from_millis(500)).await;
                }
            }
        }
    }
}

/// Whether it is due again before a processor that sleeps looks again anyway.
fn is_soon(verdict: &Verdict, now: Timestamp) -> bool {
    match verdict {
        Verdict::Requeue { at, .. } => at.since(now) < IDLE_MAX,
        Verdict::Retry { delay, .. } => *delay < IDLE_MAX,
        Verdict::Done(_) | Verdict::Dead { .. } | Verdict::Release => false,
    }
}
