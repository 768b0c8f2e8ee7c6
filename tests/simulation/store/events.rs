//! The event table: what is pushed, taken, finished and handed to subscribers. No type has metadata of its own here, and
//! nobody pulls.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use redrive::internals::ambient;
use redrive::internals::domain::event::{
    Event, EventLease, EventState, EventType, EventUid, HandlingRules, LeaseKey, NewEvent, Reference,
};
use redrive::internals::domain::time::Timestamp;
use redrive::internals::store::{
    EventBatch, EventClaim, Finish, Finished, NamedLease, NewOutboxRow, NewSubscription, OutboxRow, OutboxWaiting,
    PushOutcome, Pushed, PushedHow, Reaped, Subscription, Verdict,
};

use super::Rows;

/// The event table and its outbox.
#[derive(Clone, Debug, Default)]
pub(super) struct Table {
    pub(super) events: BTreeMap<i64, Event>,
    /// What was handled, and under which revision.
    pub(super) handled: Vec<(i64, Reference, i64)>,
    /// The type of each row that there ever was.
    pub(super) types: BTreeMap<i64, EventType>,
    pub(super) outbox: BTreeMap<i64, Waiting>,
    /// Notifications that never can be published.
    pub(super) buried: Vec<String>,
    subscriptions: Vec<Subscription>,
    last_event: i64,
    last_token: i64,
    last_row: i64,
}

/// A row of the outbox, and until when its queue waits.
#[derive(Clone, Debug)]
pub(super) struct Waiting {
    row: OutboxRow,
    next_at: Option<Timestamp>,
    error: Option<String>,
}

/// The row of a lease, while it is held.
fn held<'a>(events: &'a mut BTreeMap<i64, Event>, key: &LeaseKey) -> Option<&'a mut Event> {
    let is_its = |event: &&mut Event| event.lease.as_ref().is_some_and(|lease| lease.token == key.token);
    events.get_mut(&key.id).filter(is_its)
}

impl Rows {
    fn is_guarded(&self, guard: &NamedLease) -> bool {
        let known = self.named.get(&guard.name);
        known.is_some_and(|(owner, epoch)| owner.is_some() && *epoch == guard.epoch)
    }

    pub(super) fn events_push(&mut self, now: Timestamp, batch: &EventBatch) -> PushOutcome {
        if batch.guard.as_ref().is_some_and(|guard| !self.is_guarded(guard)) {
            return PushOutcome::Fenced;
        }
        let pushed = batch.events.iter().map(|event| self.event_push(now, event));
        PushOutcome::Pushed(pushed.collect())
    }

    fn event_push(&mut self, now: Timestamp, new: &NewEvent) -> Pushed {
        let is_its_key = |event: &&mut Event| {
            event.event_type == new.event_type && event.reference == new.reference && event.dated == new.nbf
        };
        let nbf = new.nbf.unwrap_or(now);
        let uid = EventUid::of(ambient::new_id());
        let expires_at = new.lifetime.map(|lifetime| now.plus(lifetime));
        if let Some(event) = self.table.events.values_mut().find(is_its_key) {
            let was_dead = event.state == EventState::Dead;
            let is_in_hand = event
                .lease
                .as_ref()
                .is_some_and(|lease| lease.revision == event.revision);
            if was_dead || is_in_hand {
                event.first_at = now;
            }
            event.payload.clone_from(&new.payload);
            event.reason.clone_from(&new.reason);
            (event.created_at, event.nbf, event.expires_at) = (now, nbf, expires_at);
            (event.attempts, event.claim_count, event.claim_history) = (0, 0, None);
            (event.first_failed_at, event.last_failed_at) = (None, None);
            event.revision += 1;
            event.merged = if was_dead { 0 } else { event.merged + 1 };
            if was_dead {
                event.state = EventState::Ready;
            }
            event.uid = uid;
            let how = if was_dead {
                PushedHow::Revived
            } else {
                PushedHow::Coalesced
            };
            let (id, revision) = (event.id, event.revision);
            return Pushed { id, revision, how };
        }
        self.table.last_event += 1;
        let id = self.table.last_event;
        let event = Event {
            id,
            event_type: new.event_type.clone(),
            subtype: new.subtype(),
            reference: new.reference.clone(),
            nbf,
            dated: new.nbf,
            created_at: now,
            first_at: now,
            attempts: 0,
            reason: new.reason.clone(),
            state: EventState::Ready,
            revision: 1,
            merged: 0,
            payload: new.payload.clone(),
            properties: None,
            expires_at,
            claim_count: 0,
            claim_history: None,
            origin: None,
            first_failed_at: None,
            last_failed_at: None,
            lease: None,
            uid,
            trace: new.trace.clone(),
        };
        self.table.types.insert(id, event.event_type.clone());
        self.table.events.insert(id, event);
        let (revision, how) = (1, PushedHow::New);
        Pushed { id, revision, how }
    }

    pub(super) fn events_claim(&mut self, now: Timestamp, claim: &EventClaim) -> Vec<Event> {
        let of_type = |event: &&Event| event.event_type == claim.event_type;
        let events = self.table.events.values().filter(of_type);
        let taken: BTreeSet<Reference> = events
            .clone()
            .filter(|event| event.state == EventState::Leased)
            .map(|event| event.reference.clone())
            .collect();
        let due = events.filter(|event| {
            event.state == EventState::Ready
                && event.nbf <= now
                && event.attempts < claim.cutoff
                && claim.after.is_none_or(|after| (event.nbf, event.id) > after)
                && !taken.contains(&event.reference)
        });
        let mut due: Vec<(Timestamp, i64, Reference)> = due
            .map(|event| (event.nbf, event.id, event.reference.clone()))
            .collect();
        due.sort();
        due.truncate(claim.limit as usize);
        let (mut references, mut claimed) = (BTreeSet::new(), Vec::new());
        for (_, id, reference) in due {
            if !references.insert(reference) {
                continue;
            }
            self.table.last_token += 1;
            let token = self.table.last_token + now.micros();
            if let Some(event) = self.table.events.get_mut(&id) {
                event.state = EventState::Leased;
                event.lease = Some(EventLease {
                    token,
                    revision: event.revision,
                    owner: Some(claim.owner),
                    claim: None,
                    until: now.plus(claim.span),
                });
                claimed.push(event.clone());
            }
        }
        claimed
    }

    pub(super) fn events_finish(&mut self, now: Timestamp, finishes: &[Finish]) -> Vec<Finished> {
        finishes.iter().map(|finish| self.event_finish(now, finish)).collect()
    }

    fn event_finish(&mut self, now: Timestamp, finish: &Finish) -> Finished {
        let key = finish.lease;
        let is_there = self.table.events.contains_key(&key.id);
        let Some(event) = held(&mut self.table.events, &key) else {
            return if is_there { Finished::Stale } else { Finished::Gone };
        };
        if event.revision != key.revision {
            (event.state, event.lease) = (EventState::Ready, None);
            return Finished::Superseded;
        }
        match &finish.verdict {
            Verdict::Done(notifications) => {
                let handled = (event.id, event.reference.clone(), event.revision);
                self.table.events.remove(&key.id);
                self.table.handled.push(handled);
                for row in notifications {
                    self.outbox_put(now, row);
                }
                Finished::Done
            }
            Verdict::Requeue { at, reason } => {
                (event.state, event.lease, event.nbf) = (EventState::Ready, None, *at);
                event.reason = Some(reason.clone());
                Finished::Requeued
            }
            Verdict::Retry {
                attempts,
                delay,
                reason,
            } => {
                fails(event, now, *attempts, reason);
                (event.state, event.nbf) = (EventState::Ready, now.plus(*delay));
                Finished::Retried
            }
            Verdict::Dead { attempts, reason } => {
                fails(event, now, *attempts, reason);
                event.state = EventState::Dead;
                Finished::Dead
            }
            Verdict::Release => {
                (event.state, event.lease) = (EventState::Ready, None);
                Finished::Released
            }
        }
    }

    pub(super) fn events_renew(&mut self, now: Timestamp, leases: &[LeaseKey], span: Duration) -> Vec<LeaseKey> {
        let mut renewed = Vec::new();
        for key in leases {
            let event = held(&mut self.table.events, key).filter(|event| event.state == EventState::Leased);
            if let Some(lease) = event.and_then(|event| event.lease.as_mut()) {
                lease.until = now.plus(span);
                renewed.push(*key);
            }
        }
        renewed
    }

    pub(super) fn events_next_due(&mut self, now: Timestamp, event_type: &EventType) -> Option<Duration> {
        let waiting = self
            .table
            .events
            .values()
            .filter(|event| event.state == EventState::Ready && event.event_type == *event_type);
        waiting.map(|event| event.nbf.since(now)).min()
    }

    pub(super) fn events_reap(&mut self, now: Timestamp, limit: u32, rules: HandlingRules) -> Vec<Reaped> {
        let is_lost = |event: &&Event| {
            let lease = event.lease.as_ref();
            lease.is_some_and(|lease| lease.until <= now || !lease.owner.is_some_and(|owner| self.is_alive(owner)))
        };
        let lost: Vec<Event> = self.table.events.values().filter(is_lost).cloned().collect();
        let reaped = lost.iter().take(limit as usize).filter_map(|event| {
            let (lease, owner) = (event.lease_key()?, event.lease.as_ref()?.owner?);
            let error = format!("lost: the lease of incarnation {owner} ended");
            let verdict = rules.after_failure(event.attempts, &error, now).into();
            let how = self.event_finish(now, &Finish { lease, verdict });
            Some(Reaped {
                id: event.id,
                event_type: event.event_type.clone(),
                attempts: self.table.events.get(&event.id).map_or(0, |event| event.attempts),
                how,
                claimed: false,
            })
        });
        reaped.collect()
    }

    pub(super) fn events_give_up(&mut self, now: Timestamp, event_type: &EventType, cutoff: u32) -> u64 {
        let events = self.table.events.values_mut();
        let over = events.filter(|event| {
            event.state == EventState::Ready
                && event.event_type == *event_type
                && event.attempts > 0
                && event.attempts >= cutoff
        });
        over.map(|event| {
            event.state = EventState::Dead;
            event.last_failed_at.get_or_insert(now);
        })
        .count() as u64
    }

    pub(super) fn event_get(&mut self, _: Timestamp, id: i64) -> Option<Event> {
        self.table.events.get(&id).cloned()
    }

    #[expect(clippy::unnecessary_wraps, reason = "the seam has types that are not known")]
    pub(super) fn subscription_put(&mut self, now: Timestamp, new: &NewSubscription) -> Option<Subscription> {
        let subscription = Subscription {
            id: self.table.subscriptions.last().map_or(1, |last| last.id + 1),
            event_type: new.event_type.clone(),
            url: new.url.clone(),
            options: new.options.clone(),
            created_at: now,
        };
        self.table.subscriptions.push(subscription.clone());
        Some(subscription)
    }

    pub(super) fn subscriptions(&mut self, _: Timestamp, event_type: &EventType) -> Vec<Subscription> {
        let of_type = |subscription: &&Subscription| subscription.event_type == *event_type;
        self.table.subscriptions.iter().filter(of_type).cloned().collect()
    }

    fn outbox_put(&mut self, now: Timestamp, new: &NewOutboxRow) {
        let mut waiting = self.table.outbox.values();
        if waiting.any(|waiting| waiting.row.notification == new.notification) {
            return;
        }
        self.table.last_row += 1;
        let row = OutboxRow {
            id: self.table.last_row,
            notification: new.notification.clone(),
            queue: new.queue.clone(),
            message: new.message.clone(),
            attempts: 0,
            created_at: now,
        };
        let waiting = Waiting {
            row,
            next_at: None,
            error: None,
        };
        self.table.outbox.insert(self.table.last_row, waiting);
    }

    pub(super) fn outbox_page(&mut self, now: Timestamp, limit: u32) -> Vec<OutboxRow> {
        let mut held_back: BTreeSet<&str> = BTreeSet::new();
        let mut page = Vec::new();
        for waiting in self.table.outbox.values() {
            if waiting.next_at.is_some_and(|at| at > now) {
                held_back.insert(&waiting.row.queue);
            }
            if !held_back.contains(waiting.row.queue.as_str()) && page.len() < limit as usize {
                page.push(waiting.row.clone());
            }
        }
        page
    }

    pub(super) fn outbox_published(&mut self, _: Timestamp, guard: &NamedLease, rows: &[i64]) -> bool {
        if !self.is_guarded(guard) {
            return false;
        }
        self.table.outbox.retain(|id, _| !rows.contains(id));
        true
    }

    pub(super) fn outbox_postpone(&mut self, now: Timestamp, row: i64, delay: Duration, error: &str) {
        if let Some(waiting) = self.table.outbox.get_mut(&row) {
            waiting.row.attempts += 1;
            waiting.next_at = Some(now.plus(delay));
            waiting.error = Some(error.to_owned());
        }
    }

    pub(super) fn outbox_bury(&mut self, _: Timestamp, guard: &NamedLease, row: i64, _: &str) -> bool {
        if !self.is_guarded(guard) {
            return false;
        }
        let buried = self.table.outbox.remove(&row).map(|waiting| waiting.row.notification);
        let is_there = buried.is_some();
        self.table.buried.extend(buried);
        is_there
    }

    pub(super) fn outbox_waiting(&mut self, _: Timestamp) -> OutboxWaiting {
        OutboxWaiting {
            count: self.table.outbox.len() as u64,
            oldest: self.table.outbox.values().map(|waiting| waiting.row.created_at).min(),
            error: self.table.outbox.values().find_map(|waiting| waiting.error.clone()),
        }
    }
}

fn fails(event: &mut Event, now: Timestamp, attempts: u32, reason: &str) {
    event.lease = None;
    event.attempts = attempts;
    event.reason = Some(reason.to_owned());
    event.first_failed_at.get_or_insert(now);
    event.last_failed_at = Some(now);
}
