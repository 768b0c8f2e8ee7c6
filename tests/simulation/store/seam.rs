//! The seam itself: what the model does, what it has none of, and what nothing in a simulated run asks for.

use std::sync::PoisonError;
use std::time::Duration;

use async_trait::async_trait;
use redrive::internals::domain::attempt::Attempt;
use redrive::internals::domain::dead_letter::{DeadLetter, DeadLetterId};
use redrive::internals::domain::endpoint::{Endpoint, EndpointChange};
use redrive::internals::domain::event::{Event, EventType, HandlingRules, LeaseKey, Reference};
use redrive::internals::domain::id::{EndpointEpoch, Epoch, IncarnationId, QueueName, StoreId};
use redrive::internals::domain::pace::PaceChange;
use redrive::internals::domain::queue::{Decision, QueueRecord};
use redrive::internals::domain::retention::Ages;
use redrive::internals::domain::run::{RunCounts, RunState};
use redrive::internals::domain::time::Timestamp;
use redrive::internals::domain::url::EndpointUrl;
use redrive::internals::store::Numbers;
use redrive::internals::store::{
    Acted, Advance, AttemptQuery, AuditChain, AuditEntry, Beat, Begun, BrokerFacts, Changed, Claim, ClaimOutcome,
    ClaimSpan, DeadClaim, DeadGroup, DeadGroupQuery, DeadLetters, DeadLooked, DeadOrigin, DeadQuery, DeadQueue,
    DeadRow, DeadSpan, Deliveries, EndpointQuery, Endpoints, EventAct, EventBatch, EventClaim, EventClaims, EventCount,
    EventOutbox, EventQuery, EventSearch, EventSignal, EventSignals, EventTypeRecord, EventTypes, Events, EventsChange,
    EventsChanged, EventsFound, Evidence, Expired, Failure, FailureRecorded, Finish, Finished, Frozen, Guarded,
    HandledEvent, HeadMove, HeadScope, HeldLease, Incarnation, Incarnations, ItemQuery, ItemRecord, KeptKind,
    KeptMessage, KeptMessages, KeptPolicies, KeptQuery, LearnedQueue, LeaseOutcome, LifetimeQuery, LifetimeRecord,
    Lifetimes, LifetimesSweep, NamedLease, NewAudit, NewClaim, NewEventType, NewIncarnation, NewItem, NewPause,
    NewPolicy, NewRun, NewSave, NewStoredLetter, NewSubscription, OutboxRow, OutboxWaiting, PaceChanged, Policies,
    PolicyChange, PolicyChanged, PolicyScope, PolicyVersion, ProbeNext, ProbeOutcome, Purpose, PushOutcome, QueueMark,
    QueueQuery, QueueUrl, Queues, Reaped, Records, RescuedMessage, RescuedRow, RunQuery, RunRecord, RunStop, RunTaken,
    Runs, SaveBegun, SaveQuery, SaveRecord, SaveTaken, SaveWindow, SavedMessage, Saves, SourceTaken, Store, StoreError,
    StoreVersion, StoredLetter, StoredLetters, Subscription, Success, Tally, Trim, Trimming, TypePut, WaitingHead,
    WaitingQuery,
};

use super::{Handle, absent};

/// Nobody else works with the events of a simulated run.
struct Silent;

#[async_trait]
impl EventSignals for Silent {
    async fn next(&mut self) -> EventSignal {
        std::future::pending().await
    }
}

/// Makes each method of the seam one call: to a method of the rows, to nothing at all, or to an error.
macro_rules! modelled {
    ($($seam:ident {
        does { $($does:ident($($does_argument:ident: $does_kind:ty),*) -> $does_answer:ty;)* }
        lacks { $($lacks:ident($($lacks_argument:ident: $lacks_kind:ty),*) -> $lacks_answer:ty;)* }
        cannot { $($cannot:ident($($cannot_argument:ident: $cannot_kind:ty),*) -> $cannot_answer:ty;)* }
        $(=> { $($rest:tt)* })?
    })+) => {
        $(#[async_trait]
        impl $seam for Handle {
            $(async fn $does(&self, $($does_argument: $does_kind),*) -> Result<$does_answer, StoreError> {
                self.answer(stringify!($does), |rows, now| rows.$does(now, $($does_argument),*)).await
            })*
            $(async fn $lacks(&self, $($lacks_argument: $lacks_kind),*) -> Result<$lacks_answer, StoreError> {
                $(let _ = $lacks_argument;)*
                self.answer(stringify!($lacks), |_, _| Default::default()).await
            })*
            $(async fn $cannot(&self, $($cannot_argument: $cannot_kind),*) -> Result<$cannot_answer, StoreError> {
                $(let _ = $cannot_argument;)*
                absent(stringify!($cannot))
            })*
            $($($rest)*)?
        })+
    };
}

modelled! {
    Incarnations {
        does {
        heartbeat(id: IncarnationId) -> Beat;
        incarnations_living() -> Vec<Incarnation>;
        incarnations() -> Vec<Incarnation>;
        fingerprint() -> Option<String>;
        incarnation_mark_dead(id: IncarnationId, counter: i64) -> bool;
        }
        lacks {
        }
        cannot {
        }
        => {
            async fn incarnation_begin(&self, new: NewIncarnation) -> Result<Begun, StoreError> {
                let begun = self.answer("incarnation_begin", |rows, now| {
                    let begun = rows.incarnation_begin(now, new);
                    if let Begun::Alive(id) = begun {
                        self.database.evidence().insert(id, self.database.0.living);
                        self.own.lock().unwrap_or_else(PoisonError::into_inner).push(id);
                    }
                    begun
                });
                begun.await
            }

            async fn incarnation_end(&self, id: IncarnationId) -> Result<(), StoreError> {
                let ended = self.answer("incarnation_end", |rows, now| rows.incarnation_end(now, id)).await;
                let left = if ended.is_ok() { Evidence::Missing } else { Evidence::Dead };
                self.database.evidence().insert(id, left);
                ended
            }

            async fn evidence(&self, id: IncarnationId) -> Result<Evidence, StoreError> {
                let seen = self.database.evidence().get(&id).copied();
                self.answer("evidence", |_, _| seen.unwrap_or(Evidence::Missing)).await
            }
        }
    }
    Queues {
        does {
        leases_take(incarnation: IncarnationId, purpose: Purpose, queues: &[QueueName]) -> Vec<LeaseOutcome>;
        lease_free(queue: &QueueName, epoch: Epoch) -> bool;
        leases_held(incarnation: IncarnationId) -> Vec<HeldLease>;
        queues_learn(learned: &[LearnedQueue]) -> ();
        queue_get(queue: &QueueName) -> Option<QueueRecord>;
        queue_urls(queues: &[QueueName]) -> Vec<QueueUrl>;
        queues_get(queues: &[QueueName]) -> Vec<QueueRecord>;
        queues_page(query: &QueueQuery) -> Vec<QueueRecord>;
        queues_due(limit: u32) -> Vec<QueueRecord>;
        queues_waiting(limit: u32) -> Vec<QueueRecord>;
        queue_pause(queue: &QueueName, pause: Option<NewPause>) -> Option<QueueRecord>;
        queue_want(queue: &QueueName, incarnation: IncarnationId) -> ();
        queue_unwant(queue: &QueueName, incarnation: IncarnationId) -> ();
        queue_mark(queue: &QueueName, epoch: Epoch, mark: QueueMark) -> bool;
        heads_reset(scope: &HeadScope) -> Vec<QueueName>;
        queue_forget(queue: &QueueName, epoch: Epoch) -> bool;
        }
        lacks {
        }
        cannot {
        }
    }
    Deliveries {
        does {
        failure_record(failure: &Failure) -> FailureRecorded;
        successes_record(successes: &[Success]) -> ();
        attempt_record(attempt: &Attempt) -> ();
        heads_failing(url: &EndpointUrl, since: Option<Timestamp>, but: &QueueName) -> Tally;
        decision_open(queue: &QueueName, decision: &Decision) -> bool;
        decision_close(queue: &QueueName, epoch: Epoch, decision: &str) -> bool;
        attempts(query: &AttemptQuery) -> Vec<Attempt>;
        }
        lacks {
        }
        cannot {
        }
    }
    Endpoints {
        does {
        numbers() -> Numbers;
        numbers_raise(above: Numbers) -> ();
        generation_raise() -> ();
        endpoints_not_available() -> Vec<Endpoint>;
        endpoints_answered(limit: u32) -> Vec<EndpointUrl>;
        endpoints_paced(limit: u32) -> Vec<Endpoint>;
        endpoint_pace(url: &EndpointUrl, expected: Option<i64>, change: &PaceChange) -> PaceChanged;
        endpoint_get(url: &EndpointUrl) -> Option<Endpoint>;
        endpoints_page(query: &EndpointQuery) -> Vec<(Endpoint, u64)>;
        endpoint_change(url: &EndpointUrl, expected: Option<EndpointEpoch>, change: &EndpointChange) -> Changed;
        probe_claim(url: &EndpointUrl, queue: &QueueName, hold: Duration) -> ProbeOutcome;
        probe_release(url: &EndpointUrl, token: i64, next: ProbeNext) -> ();
        }
        lacks {
        }
        cannot {
        }
    }
    Records {
        does {
        policy_get(scope: &PolicyScope) -> Option<PolicyVersion>;
        policy_history(scope: &PolicyScope) -> Vec<PolicyVersion>;
        policy_put(new: &NewPolicy) -> i64;
        audit_append(entry: &NewAudit) -> i64;
        }
        lacks {
        audit_list(before: Option<i64>, limit: u32) -> Vec<AuditEntry>;
        policies(limit: u32) -> Vec<PolicyVersion>;
        rescued_list(queue: Option<&QueueName>, before: Option<i64>, limit: u32) -> Vec<RescuedRow>;
        rescued_get(id: i64) -> Option<RescuedMessage>;
        }
        cannot {
        rescued_insert(message: &RescuedMessage) -> i64;
        }
    }
    Events {
        does {
        events_claim(claim: &EventClaim) -> Vec<Event>;
        events_finish(finishes: &[Finish]) -> Vec<Finished>;
        events_renew(leases: &[LeaseKey], span: Duration) -> Vec<LeaseKey>;
        events_next_due(event_type: &EventType) -> Option<Duration>;
        events_reap(limit: u32, configured: HandlingRules) -> Vec<Reaped>;
        events_give_up(event_type: &EventType, cutoff: u32) -> u64;
        event_get(id: i64) -> Option<Event>;
        events_push(batch: &EventBatch) -> PushOutcome;
        }
        lacks {
        event_ids_raise() -> ();
        events_expire(limit: u32) -> Expired;
        events_of(event_type: &EventType, reference: &Reference) -> Vec<Event>;
        events_page(query: &EventQuery) -> Vec<Event>;
        events_counts() -> Vec<EventCount>;
        event_history(event_type: &EventType, limit: u32) -> Vec<HandledEvent>;
        }
        cannot {
        events_search(search: &EventSearch) -> EventsFound;
        event_act(id: i64, revision: i64, act: EventAct) -> Acted;
        events_change(change: &EventsChange) -> EventsChanged;
        }
        => {
            fn event_signals(&self) -> Box<dyn EventSignals> {
                Box::new(Silent)
            }
        }
    }
    EventTypes {
        does {
        subscriptions(event_type: &EventType) -> Vec<Subscription>;
        subscription_put(new: &NewSubscription) -> Option<Subscription>;
        named_lease_take(name: &str, incarnation: IncarnationId) -> Option<Epoch>;
        named_lease_free(name: &str, epoch: Epoch) -> bool;
        }
        lacks {
        event_type_get(event_type: &EventType) -> Option<EventTypeRecord>;
        event_types() -> Vec<EventTypeRecord>;
        ended_subscriptions(event_type: &EventType) -> Vec<Subscription>;
        }
        cannot {
        event_type_put(new: &NewEventType) -> TypePut;
        subscription_remove(event_type: &EventType, id: i64) -> bool;
        }
    }
    EventClaims {
        does {
        }
        lacks {
        }
        cannot {
        claim_create(new: &NewClaim) -> ClaimOutcome;
        claim_get(event_type: &EventType, claim: &str) -> Option<Claim>;
        claim_renew(event_type: &EventType, claim: &str, span: ClaimSpan) -> Option<Claim>;
        claim_release(event_type: &EventType, claim: &str) -> u64;
        claim_done(event_type: &EventType, reference: &Reference, claim: &str) -> Finished;
        }
    }
    EventOutbox {
        does {
        outbox_page(limit: u32) -> Vec<OutboxRow>;
        outbox_published(guard: &NamedLease, rows: &[i64]) -> bool;
        outbox_postpone(row: i64, delay: Duration, error: &str) -> ();
        outbox_waiting() -> OutboxWaiting;
        outbox_bury(guard: &NamedLease, row: i64, reason: &str) -> bool;
        }
        lacks {
        }
        cannot {
        }
    }
    Runs {
        does {
        run_get(run: &str) -> Option<RunRecord>;
        runs(query: &RunQuery) -> Vec<RunRecord>;
        runs_open(limit: u32) -> Vec<RunRecord>;
        run_items(query: &ItemQuery) -> Vec<ItemRecord>;
        run_create(new: &NewRun) -> ();
        run_items_add(run: &str, items: &[NewItem]) -> ();
        run_freeze(run: &str, frozen: &Frozen) -> bool;
        run_start(run: &str, hash: &str, actor: &str, reason: Option<&str>) -> bool;
        run_take(run: &str, incarnation: IncarnationId) -> RunTaken;
        run_free(run: &str, epoch: Epoch) -> bool;
        run_change(run: &str, from: &[RunState], to: RunState, note: Option<&str>) -> bool;
        run_stage(run: &str, epoch: Epoch, canary: u64) -> bool;
        run_advance(run: &str, epoch: Epoch, advance: &Advance) -> Guarded;
        run_stop(run: &str, epoch: Epoch, stop: &RunStop) -> bool;
        run_counts(run: &str) -> RunCounts;
        run_in_hand(run: &str) -> u64;
        source_take(queue: &QueueName, run: &str, epoch: Epoch) -> SourceTaken;
        source_free(queue: &QueueName, run: &str) -> ();
        }
        lacks {
        }
        cannot {
        }
    }
    KeptMessages {
        does {
        kept_get(letter: &str, kind: KeptKind) -> Option<KeptMessage>;
        kept_list(query: &KeptQuery) -> Vec<KeptMessage>;
        kept_put(kept: &[KeptMessage]) -> ();
        kept_drop(letter: &str, kind: KeptKind) -> bool;
        }
        lacks {
        }
        cannot {
        }
    }
    StoredLetters {
        does {
        stored_letter_put(letter: &NewStoredLetter) -> bool;
        }
        lacks {
        stored_letters(after: Option<u64>, limit: u32) -> Vec<StoredLetter>;
        stored_letter(id: &DeadLetterId) -> Option<StoredLetter>;
        stored_letter_body(place: u64) -> Option<bytes::Bytes>;
        stored_letters_count() -> u64;
        stored_letters_drop(places: &[u64]) -> u64;
        }
        cannot {
        }
    }
    Saves {
        does {
        }
        lacks {
        save_get(save: &str) -> Option<SaveRecord>;
        saves(query: &SaveQuery) -> Vec<SaveRecord>;
        saves_left(limit: u32) -> Vec<SaveRecord>;
        }
        cannot {
        save_begin(new: &NewSave) -> SaveBegun;
        save_keep(save: &str, owner: IncarnationId, window: &SaveWindow) -> bool;
        save_end(save: &str, owner: IncarnationId) -> bool;
        save_take(save: &str, owner: IncarnationId) -> SaveTaken;
        save_free(save: &str, owner: IncarnationId) -> ();
        saved_messages(save: &str, after: Option<u64>, limit: u32) -> Vec<SavedMessage>;
        saved_last(save: &str) -> Vec<SavedMessage>;
        saved_drop(save: &str, owner: IncarnationId, places: &[u64]) -> bool;
        }
    }
    Trimming {
        does {
        }
        lacks {
        trim(trim: &Trim, rows: u32) -> u64;
        ages() -> Ages;
        }
        cannot {
        audit_chain() -> AuditChain;
        audit_from(after: i64, limit: u32) -> Vec<AuditEntry>;
        }
    }
    BrokerFacts {
        does {
        broker_name() -> Option<String>;
        broker_name_keep(name: &str) -> ();
        }
        lacks {
        broker_policies_keep(document: &str) -> ();
        broker_policies_kept() -> Option<KeptPolicies>;
        looks_kept(queue: &QueueName) -> Option<String>;
        }
        cannot {
        looks_keep(queue: &QueueName, before: Option<&str>, seen: &str) -> bool;
        }
    }
    Lifetimes {
        does {
        }
        lacks {
        janitor_take(incarnation: IncarnationId) -> Option<i64>;
        lifetimes_swept(sweep: i64) -> Vec<LifetimeRecord>;
        lifetimes_sweep() -> Option<LifetimesSweep>;
        lifetimes(query: &LifetimeQuery) -> Vec<LifetimeRecord>;
        lifetime_get(queue: &QueueName) -> Option<LifetimeRecord>;
        unbinding_holds(queue: &QueueName, owner: IncarnationId) -> bool;
        unbinding_forget(queue: &QueueName) -> ();
        unbinding_take(owner: IncarnationId, limit: u32) -> Vec<QueueName>;
        }
        cannot {
        lifetimes_note(sweep: i64, seen: &[LifetimeRecord]) -> ();
        lifetime_forget(queue: &QueueName) -> Option<LifetimeRecord>;
        unbinding_note(queue: &QueueName, owner: IncarnationId) -> ();
        }
    }
    Policies {
        does {
        policies_newest(scopes: &[PolicyScope]) -> Vec<PolicyVersion>;
        heads_waiting(query: &WaitingQuery) -> Vec<WaitingHead>;
        policy_version(scope: &PolicyScope, version: i64) -> Option<PolicyVersion>;
        policy_change(change: &PolicyChange) -> PolicyChanged;
        heads_move(moves: &[HeadMove]) -> u64;
        }
        lacks {
        }
        cannot {
        }
    }
    DeadLetters {
        does {
        dead_stale(queue: &QueueName) -> ();
        dead_queues() -> Vec<DeadQueue>;
        dead_claim(queue: &QueueName, who: &str, expected: Option<u64>, hold: Duration) -> DeadClaim;
        dead_write(queue: &QueueName, generation: i64, rows: &[DeadRow], hold: Duration) -> bool;
        dead_finish(queue: &QueueName, generation: i64, looked: &DeadLooked) -> bool;
        dead_free(queue: &QueueName, generation: i64) -> bool;
        }
        lacks {
        dead_letters_remove(ids: &[DeadLetterId]) -> u64;
        dead_letters(query: &DeadQuery) -> Vec<DeadLetter>;
        dead_groups(query: &DeadGroupQuery) -> Vec<DeadGroup>;
        dead_spans() -> Vec<DeadSpan>;
        dead_origins(limit: u32) -> Vec<DeadOrigin>;
        dead_letter(id: &DeadLetterId) -> Option<DeadRow>;
        }
        cannot {
        dead_queue_forget(queue: &QueueName) -> bool;
        }
    }
}

#[async_trait]
impl Store for Handle {
    fn kind(&self) -> &'static str {
        "model"
    }

    async fn version(&self) -> Result<StoreVersion, StoreError> {
        Ok(StoreVersion {
            text: "model".to_owned(),
            warning: None,
        })
    }

    async fn now(&self) -> Result<Timestamp, StoreError> {
        self.answer("now", |_, now| now).await
    }

    async fn identity(&self) -> Result<StoreId, StoreError> {
        let id = self.database.0.id.clone();
        self.answer("identity", |_, _| id).await
    }

    async fn close(&self) {}
}
