//! A store whose answers are lost or late, over a real one: what a network does between a call and its answer,
//! and no server can be made to do at a chosen call.

use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::wait::at_moment;
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
    EventOutbox, EventQuery, EventSearch, EventSignals, EventTypeRecord, EventTypes, Events, EventsChange,
    EventsChanged, EventsFound, Evidence, Expired, Failure, FailureRecorded, Finish, Finished, Frozen, Guarded,
    HandledEvent, HeadMove, HeadScope, HeldLease, Incarnation, Incarnations, ItemQuery, ItemRecord, KeptKind,
    KeptMessage, KeptMessages, KeptPolicies, KeptQuery, LearnedQueue, LeaseOutcome, LifetimeQuery, LifetimeRecord,
    Lifetimes, LifetimesSweep, NamedLease, NewAudit, NewClaim, NewEventType, NewIncarnation, NewItem, NewPause,
    NewPolicy, NewRun, NewSave, NewStoredLetter, NewSubscription, OutboxRow, OutboxWaiting, PaceChanged, Policies,
    PolicyChange, PolicyChanged, PolicyScope, PolicyVersion, ProbeNext, ProbeOutcome, Purpose, PushOutcome, QueueMark,
    QueueQuery, QueueUrl, Queues, Reaped, Records, RescuedMessage, RescuedRow, RowsLocked, RunQuery, RunRecord,
    RunStop, RunTaken, Runs, SaveBegun, SaveQuery, SaveRecord, SaveTaken, SaveWindow, SavedMessage, Saves, SourceTaken,
    Store, StoreError, StoreHandle, StoreVersion, StoredLetter, StoredLetters, Subscription, Success, Tally, Trim,
    Trimming, TypePut, WaitingHead, WaitingQuery,
};

/// What happens to one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It does not arrive: nothing is done, and the caller gets an error.
    Unheard,
    /// Another session has locked what it needs: nothing is done.
    Locked,
    /// It is done, and the caller gets an error.
    Unanswered,
    /// It is done, and the caller is told after this time.
    Late(Duration),
}

/// Decides over the call with this name.
type Plan = Box<dyn FnMut(&'static str) -> Option<Fault> + Send>;

/// The store.
pub struct FaultyStore {
    inner: StoreHandle,
    plan: Mutex<Plan>,
}

impl FaultyStore {
    /// Without faults, at first.
    pub fn over(inner: StoreHandle) -> Self {
        Self {
            inner,
            plan: Mutex::new(Box::new(|_| None)),
        }
    }

    /// From now on.
    pub fn plan(&self, plan: impl FnMut(&'static str) -> Option<Fault> + Send + 'static) {
        *self.plan.lock().unwrap_or_else(PoisonError::into_inner) = Box::new(plan);
    }

    async fn answer<T>(
        &self,
        operation: &'static str,
        call: impl Future<Output = Result<T, StoreError>> + Send,
    ) -> Result<T, StoreError> {
        let fault = self.plan.lock().unwrap_or_else(PoisonError::into_inner)(operation);
        let unreachable = || {
            Err(StoreError::Unreachable {
                operation,
                source: "the answer was lost".into(),
            })
        };
        match fault {
            None => call.await,
            Some(Fault::Unheard) => unreachable(),
            Some(Fault::Locked) => Err(StoreError::Unreachable {
                operation,
                source: RowsLocked.into(),
            }),
            Some(Fault::Unanswered) => {
                let _ = call.await;
                unreachable()
            }
            Some(Fault::Late(delay)) => {
                let answer = call.await;
                at_moment(delay).await;
                answer
            }
        }
    }
}

impl fmt::Debug for FaultyStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("FaultyStore").field(&self.inner).finish()
    }
}

/// Passes every method on, through [`FaultyStore::answer`].
macro_rules! passed_on {
    ($($seam:ident { $($name:ident($($argument:ident: $kind:ty),*) -> $answer:ty;)+ $(=> { $($rest:tt)* })? })+) => {
        $(#[async_trait]
        impl $seam for FaultyStore {
            $(async fn $name(&self, $($argument: $kind),*) -> Result<$answer, StoreError> {
                self.answer(stringify!($name), self.inner.$name($($argument),*)).await
            })+
            $($($rest)*)?
        })+
    };
}

passed_on! {
    Incarnations {
        incarnation_begin(new: NewIncarnation) -> Begun;
        heartbeat(id: IncarnationId) -> Beat;
        incarnation_end(id: IncarnationId) -> ();
        incarnations_living() -> Vec<Incarnation>;
        incarnations() -> Vec<Incarnation>;
        fingerprint() -> Option<String>;
        evidence(id: IncarnationId) -> Evidence;
        incarnation_mark_dead(id: IncarnationId, counter: i64) -> bool;
    }
    Queues {
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
    Deliveries {
        failure_record(failure: &Failure) -> FailureRecorded;
        successes_record(successes: &[Success]) -> ();
        attempt_record(attempt: &Attempt) -> ();
        heads_failing(url: &EndpointUrl, since: Option<Timestamp>, but: &QueueName) -> Tally;
        decision_open(queue: &QueueName, decision: &Decision) -> bool;
        decision_close(queue: &QueueName, epoch: Epoch, decision: &str) -> bool;
        attempts(query: &AttemptQuery) -> Vec<Attempt>;
    }
    Endpoints {
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
    Records {
        audit_append(entry: &NewAudit) -> i64;
        audit_list(before: Option<i64>, limit: u32) -> Vec<AuditEntry>;
        policy_put(new: &NewPolicy) -> i64;
        policy_get(scope: &PolicyScope) -> Option<PolicyVersion>;
        policies(limit: u32) -> Vec<PolicyVersion>;
        policy_history(scope: &PolicyScope) -> Vec<PolicyVersion>;
        rescued_insert(message: &RescuedMessage) -> i64;
        rescued_list(queue: Option<&QueueName>, before: Option<i64>, limit: u32) -> Vec<RescuedRow>;
        rescued_get(id: i64) -> Option<RescuedMessage>;
    }
    Events {
        events_push(batch: &EventBatch) -> PushOutcome;
        event_ids_raise() -> ();
        events_claim(claim: &EventClaim) -> Vec<Event>;
        events_finish(finishes: &[Finish]) -> Vec<Finished>;
        events_renew(leases: &[LeaseKey], span: Duration) -> Vec<LeaseKey>;
        events_next_due(event_type: &EventType) -> Option<Duration>;
        events_reap(limit: u32, configured: HandlingRules) -> Vec<Reaped>;
        events_give_up(event_type: &EventType, cutoff: u32) -> u64;
        events_expire(limit: u32) -> Expired;
        event_get(id: i64) -> Option<Event>;
        events_of(event_type: &EventType, reference: &Reference) -> Vec<Event>;
        events_page(query: &EventQuery) -> Vec<Event>;
        events_search(search: &EventSearch) -> EventsFound;
        events_counts() -> Vec<EventCount>;
        event_act(id: i64, revision: i64, act: EventAct) -> Acted;
        events_change(change: &EventsChange) -> EventsChanged;
        event_history(event_type: &EventType, limit: u32) -> Vec<HandledEvent>;
        => {
            fn event_signals(&self) -> Box<dyn EventSignals> {
                self.inner.event_signals()
            }
        }
    }
    EventTypes {
        event_type_get(event_type: &EventType) -> Option<EventTypeRecord>;
        event_types() -> Vec<EventTypeRecord>;
        event_type_put(new: &NewEventType) -> TypePut;
        subscriptions(event_type: &EventType) -> Vec<Subscription>;
        ended_subscriptions(event_type: &EventType) -> Vec<Subscription>;
        subscription_put(new: &NewSubscription) -> Option<Subscription>;
        subscription_remove(event_type: &EventType, id: i64) -> bool;
        named_lease_take(name: &str, incarnation: IncarnationId) -> Option<Epoch>;
        named_lease_free(name: &str, epoch: Epoch) -> bool;
    }
    EventClaims {
        claim_create(new: &NewClaim) -> ClaimOutcome;
        claim_get(event_type: &EventType, claim: &str) -> Option<Claim>;
        claim_renew(event_type: &EventType, claim: &str, span: ClaimSpan) -> Option<Claim>;
        claim_release(event_type: &EventType, claim: &str) -> u64;
        claim_done(event_type: &EventType, reference: &Reference, claim: &str) -> Finished;
    }
    EventOutbox {
        outbox_page(limit: u32) -> Vec<OutboxRow>;
        outbox_published(guard: &NamedLease, rows: &[i64]) -> bool;
        outbox_postpone(row: i64, delay: Duration, error: &str) -> ();
        outbox_bury(guard: &NamedLease, row: i64, reason: &str) -> bool;
        outbox_waiting() -> OutboxWaiting;
    }
    Runs {
        run_create(new: &NewRun) -> ();
        run_items_add(run: &str, items: &[NewItem]) -> ();
        run_freeze(run: &str, frozen: &Frozen) -> bool;
        run_start(run: &str, hash: &str, actor: &str, reason: Option<&str>) -> bool;
        run_get(run: &str) -> Option<RunRecord>;
        runs(query: &RunQuery) -> Vec<RunRecord>;
        runs_open(limit: u32) -> Vec<RunRecord>;
        run_take(run: &str, incarnation: IncarnationId) -> RunTaken;
        run_free(run: &str, epoch: Epoch) -> bool;
        run_change(run: &str, from: &[RunState], to: RunState, note: Option<&str>) -> bool;
        run_stage(run: &str, epoch: Epoch, canary: u64) -> bool;
        run_advance(run: &str, epoch: Epoch, advance: &Advance) -> Guarded;
        run_stop(run: &str, epoch: Epoch, stop: &RunStop) -> bool;
        run_counts(run: &str) -> RunCounts;
        run_in_hand(run: &str) -> u64;
        run_items(query: &ItemQuery) -> Vec<ItemRecord>;
        source_take(queue: &QueueName, run: &str, epoch: Epoch) -> SourceTaken;
        source_free(queue: &QueueName, run: &str) -> ();
    }
    KeptMessages {
        kept_put(kept: &[KeptMessage]) -> ();
        kept_get(letter: &str, kind: KeptKind) -> Option<KeptMessage>;
        kept_list(query: &KeptQuery) -> Vec<KeptMessage>;
        kept_drop(letter: &str, kind: KeptKind) -> bool;
    }
    StoredLetters {
        stored_letter_put(letter: &NewStoredLetter) -> bool;
        stored_letters(after: Option<u64>, limit: u32) -> Vec<StoredLetter>;
        stored_letter(id: &DeadLetterId) -> Option<StoredLetter>;
        stored_letter_body(place: u64) -> Option<bytes::Bytes>;
        stored_letters_count() -> u64;
        stored_letters_drop(places: &[u64]) -> u64;
    }
    Saves {
        save_begin(new: &NewSave) -> SaveBegun;
        save_keep(save: &str, owner: IncarnationId, window: &SaveWindow) -> bool;
        save_end(save: &str, owner: IncarnationId) -> bool;
        save_take(save: &str, owner: IncarnationId) -> SaveTaken;
        save_free(save: &str, owner: IncarnationId) -> ();
        save_get(save: &str) -> Option<SaveRecord>;
        saves(query: &SaveQuery) -> Vec<SaveRecord>;
        saves_left(limit: u32) -> Vec<SaveRecord>;
        saved_messages(save: &str, after: Option<u64>, limit: u32) -> Vec<SavedMessage>;
        saved_last(save: &str) -> Vec<SavedMessage>;
        saved_drop(save: &str, owner: IncarnationId, places: &[u64]) -> bool;
    }
    Trimming {
        trim(trim: &Trim, rows: u32) -> u64;
        ages() -> Ages;
        audit_chain() -> AuditChain;
        audit_from(after: i64, limit: u32) -> Vec<AuditEntry>;
    }
    BrokerFacts {
        broker_name() -> Option<String>;
        broker_name_keep(name: &str) -> ();
        broker_policies_keep(document: &str) -> ();
        broker_policies_kept() -> Option<KeptPolicies>;
        looks_keep(queue: &QueueName, before: Option<&str>, seen: &str) -> bool;
        looks_kept(queue: &QueueName) -> Option<String>;
    }
    Lifetimes {
        janitor_take(incarnation: IncarnationId) -> Option<i64>;
        lifetimes_note(sweep: i64, seen: &[LifetimeRecord]) -> ();
        lifetimes_swept(sweep: i64) -> Vec<LifetimeRecord>;
        lifetimes_sweep() -> Option<LifetimesSweep>;
        lifetimes(query: &LifetimeQuery) -> Vec<LifetimeRecord>;
        lifetime_get(queue: &QueueName) -> Option<LifetimeRecord>;
        lifetime_forget(queue: &QueueName) -> Option<LifetimeRecord>;
        unbinding_note(queue: &QueueName, owner: IncarnationId) -> ();
        unbinding_holds(queue: &QueueName, owner: IncarnationId) -> bool;
        unbinding_forget(queue: &QueueName) -> ();
        unbinding_take(owner: IncarnationId, limit: u32) -> Vec<QueueName>;
    }
    Policies {
        policies_newest(scopes: &[PolicyScope]) -> Vec<PolicyVersion>;
        policy_version(scope: &PolicyScope, version: i64) -> Option<PolicyVersion>;
        heads_waiting(query: &WaitingQuery) -> Vec<WaitingHead>;
        policy_change(change: &PolicyChange) -> PolicyChanged;
        heads_move(moves: &[HeadMove]) -> u64;
    }
    DeadLetters {
        dead_claim(queue: &QueueName, who: &str, expected: Option<u64>, hold: Duration) -> DeadClaim;
        dead_write(queue: &QueueName, generation: i64, rows: &[DeadRow], hold: Duration) -> bool;
        dead_finish(queue: &QueueName, generation: i64, looked: &DeadLooked) -> bool;
        dead_free(queue: &QueueName, generation: i64) -> bool;
        dead_stale(queue: &QueueName) -> ();
        dead_queues() -> Vec<DeadQueue>;
        dead_queue_forget(queue: &QueueName) -> bool;
        dead_letters(query: &DeadQuery) -> Vec<DeadLetter>;
        dead_groups(query: &DeadGroupQuery) -> Vec<DeadGroup>;
        dead_spans() -> Vec<DeadSpan>;
        dead_origins(limit: u32) -> Vec<DeadOrigin>;
        dead_letter(id: &DeadLetterId) -> Option<DeadRow>;
        dead_letters_remove(ids: &[DeadLetterId]) -> u64;
    }
}

#[async_trait]
impl Store for FaultyStore {
    fn kind(&self) -> &'static str {
        self.inner.kind()
    }

    async fn version(&self) -> Result<StoreVersion, StoreError> {
        self.answer("version", self.inner.version()).await
    }

    async fn now(&self) -> Result<Timestamp, StoreError> {
        self.answer("now", self.inner.now()).await
    }

    async fn identity(&self) -> Result<StoreId, StoreError> {
        self.answer("identity", self.inner.identity()).await
    }

    async fn close(&self) {
        self.inner.close().await;
    }
}
