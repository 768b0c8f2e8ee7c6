//! Queries: what can be asked without changing anything, each with what it is answered with.

use std::future::Future;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::audit::AuditVerified;
use super::dead::{
    DeadCompareQuery, DeadComparison, DeadDetail, DeadGroup, DeadListQuery, DeadPage, DeadQueueRow, DeadQueuesQuery,
    QueueStep,
};
use super::death::Watched;
use super::error;
use super::events::{self, Claim, EventCount, EventTypeRecord, EventsQuery, HandledEvent, Subscription};
use super::expiring::{ExpiringPage, ExpiringQuery, SaveRecord};
use super::jobs::{Job, JobListed};
use super::notification::{self, NotificationView};
use super::policies::{PolicyPreview, PolicyView};
use super::queues::rescued;
use super::runs::{Edit, EditedLetter, RunDetail, RunView};
use super::view::{self, AttemptView, BrowsedMessage, Check, EndpointView, Page, QueueView, RateRow, Readiness, Retry};
pub use super::view::{EndpointsQuery, QueuesQuery};
use super::{Engine, EngineError, handover};
use crate::ambient;
use crate::domain::dead_letter::DeadLetter;
use crate::domain::event::{Event, EventType, Reference};
use crate::domain::id::{ExecutionId, NotificationId, QueueName};
use crate::domain::job::{JobId, Lifetime};
use crate::domain::naming::Address;
use crate::domain::series::Span;
use crate::domain::url::EndpointUrl;
pub use crate::store::{
    AttemptQuery, AuditEntry, Incarnation, PolicyScope, PolicyVersion, RescuedMessage, RescuedRow, SaveQuery,
};

/// What can be asked.
pub trait Query: Serialize + DeserializeOwned + Send + 'static {
    /// What it is answered with.
    type Answer: Serialize + DeserializeOwned + Send + 'static;

    /// Its name, by which an attached process asks it.
    const NAME: &'static str;

    /// Whether it is a list that is read, and nothing is held meanwhile.
    const ONLY_READS: bool = false;

    /// The answer, by the engine's services: whoever asks does so through [`Engine::query`].
    #[doc(hidden)]
    fn answer(self, engine: &Engine) -> impl Future<Output = Result<Self::Answer, EngineError>> + Send;
}

/// The answer to a query that was sent by its name; both are JSON. `None`: there is no such query.
pub async fn named(engine: &Engine, name: &str, given: &[u8]) -> Option<Result<Vec<u8>, EngineError>> {
    match of_lists(engine, name, given).await {
        Some(answer) => Some(answer),
        None => of_others(engine, name, given).await,
    }
}

async fn answered<Q: Query>(engine: &Engine, given: &[u8]) -> Result<Vec<u8>, EngineError> {
    let answer = engine.query(error::understood::<Q>(Q::NAME, given)?).await?;
    ambient::beside(|| serde_json::to_vec(&answer)).map_err(|error| EngineError::Refused {
        why: format!("the answer to {} cannot be written: {error}", Q::NAME),
    })
}

/// Each query is one entry: what is given with it, its answer, and which service has that.
macro_rules! queries {
    ($named:ident, $engine:ident, $only_reads:expr; $($(#[$doc:meta])* $query:ident $given:tt -> $answer:ty { $by:expr })+) => {
        $(
            queries!(@struct [$(#[$doc])*] $query $given);

            impl Query for $query {
                type Answer = $answer;

                const NAME: &'static str = stringify!($query);
                const ONLY_READS: bool = $only_reads;

                async fn answer(self, $engine: &Engine) -> Result<$answer, EngineError> {
                    queries!(@given self $given);
                    $by.await
                }
            }
        )+

        async fn $named(engine: &Engine, name: &str, given: &[u8]) -> Option<Result<Vec<u8>, EngineError>> {
            match name {
                $(<$query as Query>::NAME => Some(answered::<$query>(engine, given).await),)+
                _ => None,
            }
        }
    };
    (@struct [$($doc:tt)*] $query:ident ($($given:ident: $type:ty),*)) => {
        $($doc)*
        #[derive(Clone, Debug, Serialize, Deserialize)]
        pub struct $query($(pub $type),*);
    };
    (@struct [$($doc:tt)*] $query:ident { $($(#[$of:meta])* $given:ident: $type:ty,)* }) => {
        $($doc)*
        #[derive(Clone, Debug, Serialize, Deserialize)]
        pub struct $query {
            $($(#[$of])* pub $given: $type,)*
        }
    };
    (@given $query:ident ($($given:ident: $type:ty),*)) => {
        let Self($($given),*) = $query;
    };
    (@given $query:ident { $($(#[$of:meta])* $given:ident: $type:ty,)* }) => {
        let Self { $($given),* } = $query;
    };
}

// Lists: nothing is held while they are read.
queries! { of_lists, engine, true;
    /// Queues, filtered, sorted, a page.
    Queues(query: QueuesQuery) -> Page<QueueView> { engine.0.queues.queues(&query) }
    /// Endpoints, those that are not available first.
    Endpoints(query: EndpointsQuery) -> Page<EndpointView> { engine.0.endpoints.endpoint_views(&query) }
    /// Dead letters of every home, a page.
    Dead(query: DeadListQuery) -> DeadPage<DeadLetter> { engine.0.dead_letters.dead_list(&query) }
    /// The same in groups of those that failed alike (sort and cursor do not apply).
    DeadGroups(query: DeadListQuery) -> DeadPage<DeadGroup> { engine.0.dead_letters.dead_groups(&query) }
    /// The queues that dead letters are in, with the queues that those come from.
    DeadQueues(query: DeadQueuesQuery) -> DeadPage<DeadQueueRow> { engine.0.dead_letters.dead_queue_page(&query) }
    /// Whether there is an alert of this name: an error names those that there are.
    Alert(name: String) -> () { async { engine.0.settings.alert(&name).map(|_| ()) } }
    /// What the next shift has to know, with what was done in so long a time.
    Handover(span: Duration) -> handover::Handover { engine.handover(span) }
    /// Events, newest first. A page may be short, or empty, with a cursor: then that much was looked through without a
    /// find.
    Events(query: EventsQuery) -> Page<Event> { engine.0.events.events_list(&query) }
    /// The same events in groups of those that are there for the same reason (limit and cursor do not count).
    EventGroups(query: EventsQuery) -> events::EventGroups { engine.0.events.event_groups(&query) }
    /// One event.
    OneEvent(id: i64) -> Event { engine.0.events.event(id) }
    /// The events of a reference, at least one.
    EventsOf(event_type: EventType, reference: Reference) -> Vec<Event> {
        engine.0.events.events_of(&event_type, &reference)
    }
    /// How many events there are, by type and state.
    EventCounts() -> Vec<EventCount> { engine.0.events.event_counts() }
    /// All types of events.
    EventTypes() -> Vec<EventTypeRecord> { engine.0.events.event_types() }
    /// One type of events.
    OneEventType(name: EventType) -> EventTypeRecord { engine.0.events.event_type(&name) }
    /// The subscriptions of a type.
    Subscriptions(name: EventType) -> Vec<Subscription> { engine.0.events.subscriptions_of(&name) }
    /// A claim on events.
    OneClaim(event_type: EventType, claim: String) -> Claim { engine.0.events.claim(&event_type, &claim) }
    /// What was handled lately.
    EventHistory {
        /// Of which type.
        event_type: EventType,
        /// At most this many.
        limit: u32,
    } -> Vec<HandledEvent> { engine.0.events.event_history(&event_type, limit) }
}

queries! { of_others, engine, false;
    /// One queue, with a fresh look.
    Queue(name: QueueName) -> QueueView { engine.0.queues.queue(&name) }
    /// What brings messages into a queue, and where those go that die in it, queue by queue.
    QueueMap(name: QueueName) -> Vec<QueueStep> { engine.0.dead_letters.targets.map(&name) }
    /// The head of a delivery queue; takes its lease, never reorders.
    Browse {
        /// Which queue.
        queue: QueueName,
        /// At most this many messages (1 to 500).
        limit: u32,
    } -> Vec<BrowsedMessage> { engine.0.queues.browse(&queue, limit) }
    /// One endpoint.
    Endpoint(url: EndpointUrl) -> EndpointView {
        async {
            let url = engine.0.endpoints.meant(url).await?;
            engine.0.endpoints.endpoint_view(&url).await
        }
    }
    /// Messages that were taken out of quarantined queues, newest first, without their bytes.
    Rescued {
        /// Out of this queue.
        queue: Option<QueueName>,
        /// Before this id.
        before: Option<i64>,
        /// At most this many.
        limit: u32,
    } -> Page<RescuedRow> { rescued::rescued(&engine.0, queue.as_ref(), before, limit) }
    /// One of them, byte for byte.
    OneRescued(id: i64) -> RescuedMessage { rescued::rescued_one(&engine.0, id) }
    /// What is tried when.
    Retries {
        /// Only what is due within this time.
        within: Option<Duration>,
        /// At most this many.
        limit: u32,
    } -> Page<Retry> { engine.0.endpoints.retries(within, limit) }
    /// How queues or endpoints move, the busiest first.
    Rates {
        /// Endpoints instead of queues.
        of_endpoints: bool,
        /// At most this many.
        limit: u32,
    } -> Page<RateRow> {
        async {
            if of_endpoints {
                engine.0.endpoints.endpoint_rates(limit).await
            } else {
                engine.0.endpoints.queue_rates(limit).await
            }
        }
    }
    /// How a queue or an endpoint moved over the last hour, or the last week.
    RateSeries {
        /// Which queue.
        queue: Option<QueueName>,
        /// Or which endpoint.
        url: Option<EndpointUrl>,
        /// A week by four hours instead of an hour by the minute.
        week: bool,
    } -> view::RateSeries {
        async {
            let span = if week { Span::Week } else { Span::Hour };
            let url = engine.0.endpoints.meant_of(url).await?;
            engine.0.endpoints.rate_series(queue.as_ref(), url.as_ref(), span)
        }
    }
    /// What became of a notification.
    Notification {
        /// Its id.
        id: NotificationId,
        /// The queue that it was published to: then what is there is part of the answer, where nothing else is known.
        queue: Option<QueueName>,
    } -> NotificationView { notification::notification(engine, &id, queue.as_ref()) }
    /// The attempt log, newest first.
    Attempts(query: AttemptQuery) -> Page<AttemptView> {
        async {
            let url = engine.0.endpoints.meant_of(query.url).await?;
            engine.0.daemon.delivery.attempts(AttemptQuery { url, ..query }).await
        }
    }
    /// The audit, newest first.
    Audit {
        /// Before this id.
        before: Option<i64>,
        /// At most this many.
        limit: u32,
    } -> Page<AuditEntry> { engine.0.audit_page(before, limit) }
    /// Whether the audit is what was written.
    AuditVerify() -> AuditVerified { engine.0.audit_verify() }
    /// Runs, newest first.
    Runs {
        /// Before this id.
        before: Option<String>,
        /// At most this many.
        limit: u32,
    } -> Page<RunView> { engine.0.runs.run_reader.run_page(before, limit) }
    /// One run with a page of its items.
    Run {
        /// Which.
        id: String,
        /// Items after this place.
        after: Option<u64>,
        /// At most this many items.
        limit: u32,
    } -> RunDetail { engine.0.runs.run_reader.run_detail(&id, after, limit) }
    /// Every retry policy that is set.
    Policies() -> Page<PolicyView> { engine.0.policies.policy_views() }
    /// What is saved for a scope, and what applies there.
    Policy(scope: PolicyScope) -> PolicyView {
        async {
            let scope = engine.0.endpoints.meant_scope(scope).await?;
            engine.0.policies.policy_view(&scope).await
        }
    }
    /// All versions of a policy, newest first.
    PolicyHistory(scope: PolicyScope) -> Page<PolicyVersion> {
        async {
            let scope = engine.0.endpoints.meant_scope(scope).await?;
            engine.0.policies.policy_versions(&scope).await
        }
    }
    /// What a policy would do.
    PreviewPolicy {
        /// The policy as JSON text.
        document: String,
        /// Where it would be saved: then what waits there is part of the answer.
        scope: Option<PolicyScope>,
    } -> PolicyPreview { engine.0.policies.policy_preview(&document, scope.as_ref()) }
    /// One dead letter with headers, death history and body.
    OneDeadLetter {
        /// Its id.
        id: String,
        /// How long to wait for a look, where it was not seen yet.
        patience: Duration,
    } -> DeadDetail { engine.0.dead_letters.dead_detail(&id, patience) }
    /// What is alike in dead letters, and what is not.
    CompareDead(query: DeadCompareQuery) -> DeadComparison { engine.0.dead_letters.dead_compare(&query) }
    /// A dead letter as it would be sent at present, with its message.
    DeadLetterAsSent(id: String) -> EditedLetter { engine.0.runs.edited_letter(&id, &Edit::default()) }
    /// Whether a job is there, with this lifetime where one is given; nothing of its queues is used by that.
    OneJob(id: JobId, lifetime: Option<Lifetime>) -> Job { engine.job_check(&id, lifetime) }
    /// How long the queues of a job live unused where nobody says.
    JobLifetime() -> Lifetime { async { Ok(engine.job_lifetime()) } }
    /// Every job that has a queue, by id.
    Jobs() -> Vec<JobListed> { engine.0.queues.jobs() }
    /// Whether another living process delivers, and so works on runs.
    OthersDeliver() -> bool { async { Ok(engine.0.others_deliver(&mut Watched::default()).await) } }
    /// Daemons and other processes that take messages.
    #[cfg_attr(not(feature = "internals"), allow(dead_code, reason = "asked by tests"))]
    Incarnations() -> Vec<Incarnation> { async { Ok(engine.0.store.incarnations().await?) } }
    /// Queues with a lifetime and leftovers, what is lost first in front.
    Expiring(query: ExpiringQuery) -> ExpiringPage { engine.0.queues.expiring_page(&query) }
    /// Messages that were saved from such queues, newest save first.
    Saves(query: SaveQuery) -> Page<SaveRecord> { engine.0.queues.expiring.lifetimes.saves(&query) }
    /// Broker, rights, plugins, store, clock, with mends.
    Doctor() -> Vec<Check> { async { Ok(engine.0.observation.doctor.checks().await) } }
    /// The name of a delivery queue, whether or not it is there.
    DeliveryQueue(execution: ExecutionId, url: EndpointUrl) -> QueueName {
        async {
            let url = engine.0.endpoints.meant(url).await?;
            Ok(engine.naming().delivery_queue(&execution, &url))
        }
    }
    /// Where any AMQP client publishes for an execution and URL.
    DeliveryAddress(execution: ExecutionId, url: EndpointUrl) -> Address {
        async { Ok(engine.naming().address(&execution, &url)) }
    }
    /// Whether broker and store can be reached.
    IsReady() -> Readiness { async { Ok(engine.0.daemon.healing.readiness()) } }
}
