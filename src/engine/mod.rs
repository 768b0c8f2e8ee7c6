//! The one API that console, command line, HTTP API and daemon call: commands, queries, events.
//!
//! An [`Engine`] is a cheap handle. A process that only looks or publishes never calls
//! [`Engine::run`]; the daemon does, and delivers.

pub mod alerts;
mod alone;
pub mod attempts;
pub mod audit;
pub mod calls;
mod candidates;
pub mod command;
mod confirmation;
mod core;
mod daemon;
pub mod dead;
mod dead_letter;
mod death;
mod delivery;
mod discovery;
mod dispatch;
pub mod doctor;
mod ending;
mod endpoints;
pub mod error;
pub mod event;
pub mod events;
pub mod expiring;
mod failing;
mod fence;
mod fields;
pub mod handle;
mod handover;
mod health;
mod holdings;
mod incarnation;
mod insist;
pub mod jobs;
mod kept;
mod looks;
mod manage;
mod meters;
pub mod notification;
pub mod observe;
mod operation;
mod operations;
mod others;
mod pacing;
mod paging;
mod parts;
mod permits;
mod places;
mod plans;
pub mod policies;
mod presence;
mod process;
mod published;
mod publisher;
pub mod query;
mod queue_pages;
mod queues;
mod recorder;
mod refused;
mod retention;
pub mod reveal;
mod room;
mod row;
mod rules;
pub mod runs;
mod series;
mod settled;
mod shown;
mod sieve;
pub mod sight;
pub mod snapshot;
mod sources;
mod store_time;
mod tell;
mod traces;
mod turns;
mod unattached;
mod unwritten;
pub mod usage;
pub mod view;
mod walking;
mod why;
mod worker;
mod worst;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{broadcast, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

pub use command::{
    Access, Command, Danger, Done, PaceWish, Plan, PlanLine, Receivers, RedeliverTarget, Redelivered, RunPlan, Tested,
    WriteGrant,
};
pub use confirmation::{Caution, Confirmation, confirmation};
pub use error::EngineError;
pub use event::Event;
pub use handle::{EngineHandle, RemoteEngine};
pub use handover::{Handover, HandoverPart};
pub(crate) use health::{COMMAND as INCIDENT, WENT_BACK};
pub use operation::Subject;
pub use query::{Query, QueuesQuery};

use self::alerts::Alerts;
use self::core::{Core, over_core};
use self::daemon::Daemon;
use self::dead::{DeadIndex, DeadLetters, DeadTargets};
use self::delivery::Delivery;
use self::doctor::Doctor;
use self::endpoints::Endpoints;
use self::events::{EventOperations, EventTable};
use self::expiring::{Expiring, Janitor};
use self::health::{Healing, Ownership};
use self::looks::LookCosts;
use self::observe::Observation;
use self::policies::Policies;
use self::publisher::Publisher;
use self::queues::Queues;
use self::rules::PolicyGuard;
use self::runs::{RunPlanner, RunReader, Runs};
use crate::ambient::{self, Clock, HashMap};
use crate::broker::BrokerHandle;
use crate::budget::Budget;
use crate::certificates::Certificates;
use crate::delivery::SenderHandle;
use crate::domain::id::{ExecutionId, NotificationId, QueueName};
use crate::domain::mask::MaskRules;
use crate::domain::naming::Naming;
use crate::domain::policy::RetryPolicy;
use crate::domain::retention::Retention;
use crate::domain::url::EndpointUrl;
use crate::store::StoreHandle;

/// What the engine needs to know; always valid.
#[derive(Clone, Debug)]
pub struct EngineSettings {
    /// The names on the broker.
    pub naming: Naming,
    /// Queues worked on at once whose attempts can still proceed.
    pub workers: usize,
    /// Requests at once that have waited for an answer for long: at this bound nothing is begun that is known to hang.
    pub slow_requests: usize,
    /// How long the queues of a job live unused when nothing else is said.
    pub job_queue_ttl: Duration,
    /// Patterns of names of queues with dead letters that no argument, policy or framework names.
    pub dead_queues: Vec<String>,
    /// Names of queues that should not live for ever.
    pub leftover_pattern: regex::Regex,
    /// Whether the messages of a queue are saved before it expires.
    pub save_before_expiry: bool,
    /// Messages in hand per queue.
    pub prefetch: u16,
    /// What messages may take of the memory.
    pub memory: Budget,
    /// Deadline of one request.
    pub request_timeout: Duration,
    /// How long a worker waits on an empty queue.
    pub linger: Duration,
    /// Requests in flight to one URL at once.
    pub in_flight_per_endpoint: usize,
    /// An empty queue without an end mark is deleted after this idle time.
    pub idle_queue_ttl: Duration,
    /// The most that a `Retry-After` counts for.
    pub retry_after_cap: Duration,
    /// Applies where no other policy does.
    pub default_policy: RetryPolicy,
    /// Silence of a daemon that counts as death.
    pub take_over: Duration,
    /// How long a stop waits for what is in flight.
    pub drain: Duration,
    /// How long an export of dead letters may take.
    pub export_time: Duration,
    /// How long a discarded message can be restored.
    pub discard_keep: Duration,
    /// How long what grows in the store is kept.
    pub retention: Retention,
    /// Requests a second, at most, per URL.
    pub rates: HashMap<EndpointUrl, u32>,
    /// The event table.
    pub events: events::EventSettings,
    /// What is not shown to those who may only look, and not lost when it comes back from them.
    pub masks: Arc<MaskRules>,
    /// Who is told of bad turns.
    pub alerts: Vec<alerts::AlertSettings>,
    /// Those that this process shows of itself.
    pub certificates: Certificates,
}

/// Names of queues that should not live for ever, when nothing else is configured: those of jobs.
#[must_use]
#[expect(clippy::expect_used, reason = "a constant pattern")]
#[expect(clippy::missing_panics_doc, reason = "a constant pattern")]
pub fn leftovers() -> regex::Regex {
    regex::Regex::new(crate::domain::job::LEFTOVER_PATTERN).expect("a pattern that compiles")
}

/// What a service asks to publish.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct NewNotification {
    /// Generated when absent.
    pub id: Option<NotificationId>,
    /// The sequence.
    pub execution: ExecutionId,
    /// Where to.
    pub url: EndpointUrl,
    /// Request headers.
    pub headers: Vec<(String, String)>,
    /// Content type of the body.
    pub content_type: Option<String>,
    /// The body, byte for byte.
    #[serde(with = "crate::domain::as_text::bytes")]
    pub body: Bytes,
    /// Override: seconds between retries.
    pub polling_time_s: Option<u32>,
    /// Override: number of retries.
    pub restart_count: Option<u32>,
}

/// A confirmed publish.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Receipt {
    /// The notification's id.
    pub id: NotificationId,
    /// The delivery queue that has it.
    pub queue: QueueName,
    /// What its publisher should know all the same.
    pub warning: Option<String>,
}

/// The result of an end mark.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Ended {
    /// The mark is in the queue.
    Marked(Receipt),
    /// There is no such queue: nothing to end.
    NoQueue(QueueName),
}

/// The engine.
#[derive(Clone, Debug)]
pub struct Engine(Arc<Inner>);

/// The services that fronts call.
#[derive(Debug)]
struct Inner {
    core: Arc<Core>,
    publisher: Arc<Publisher>,
    events: Arc<EventOperations>,
    policies: Arc<Policies>,
    queues: Arc<Queues>,
    endpoints: Arc<Endpoints>,
    dead_letters: Arc<DeadLetters>,
    runs: Arc<Runs>,
    observation: Arc<Observation>,
    daemon: Arc<Daemon>,
}

over_core!(Inner);

impl Engine {
    /// An engine over its three seams. Nothing is contacted yet.
    #[must_use]
    pub fn new(
        store: StoreHandle,
        broker: BrokerHandle,
        sender: SenderHandle,
        settings: EngineSettings,
        clock: Clock,
    ) -> Self {
        let core = Arc::new(Core::new(store, broker, settings, clock));
        let policy_guard = Arc::new(PolicyGuard::new(&core));
        let publisher = Arc::new(Publisher::new(&core, &sender, &policy_guard));
        let policies = Arc::new(Policies::new(&core));
        let event_table = Arc::new(EventTable::new(&core, &publisher, &policy_guard));
        let events = Arc::new(EventOperations::new(&core, &policies, &event_table));
        let ownership = Arc::new(Ownership::new(&core));
        let healing = Arc::new(Healing::new(&core, &ownership, &publisher, &policy_guard));
        let delivery = Delivery::new(&core, SenderHandle::clone(&sender), &publisher, &healing, &event_table);
        let delivery = Arc::new(delivery);
        let looks = Arc::new(LookCosts::new(&core));
        let expiring = Arc::new(Expiring::new(&core, &looks));
        let dead_targets = Arc::new(DeadTargets::new(&core, &looks));
        let run_reader = Arc::new(RunReader::new(&core));
        let dead_index = Arc::new(DeadIndex::new(&core, &dead_targets, &run_reader));
        let dead_letters = Arc::new(DeadLetters::new(&core, &ownership, &dead_targets, &dead_index));
        let planner = Arc::new(RunPlanner::new(&core, &run_reader, &dead_targets, &dead_index));
        let runs = Runs::new(&core, &planner, &dead_letters, &publisher, &policy_guard, &events);
        let runs = Arc::new(runs);
        let queues = Arc::new(Queues::new(&core, &expiring, &delivery, &dead_targets));
        let doctor = Doctor::new(&core, &queues, &healing);
        let observation = Observation::new(&core, &queues, &dead_letters, &run_reader, doctor);
        let observation = Arc::new(observation);
        let alerts = Alerts::new(&core, &observation, &dead_index, &sender);
        let daemon = Daemon::new(&core, &delivery, alerts, &event_table, Janitor::new(&expiring), &runs);
        Self(Arc::new(Inner {
            endpoints: Arc::new(Endpoints::new(&core, &queues, sender)),
            daemon: Arc::new(daemon),
            core,
            publisher,
            events,
            policies,
            queues,
            dead_letters,
            runs,
            observation,
        }))
    }

    /// The names in use.
    #[must_use]
    pub fn naming(&self) -> &Naming {
        &self.0.settings.naming
    }

    /// What happens, from now on; a slow receiver misses some.
    #[must_use]
    pub fn events(&self) -> broadcast::Receiver<Event> {
        self.0.news.events.subscribe()
    }

    /// Publishes a notification; answers only after the broker's confirm.
    pub async fn publish(&self, new: NewNotification) -> Result<Receipt, EngineError> {
        self.0.daemon.healing.watch_unbound();
        self.0.publisher.publish(new).await
    }

    /// Refuses a URL to which this process would never send anything, as far as the URL alone says it.
    pub fn check_url(&self, url: &EndpointUrl) -> Result<(), EngineError> {
        self.0.publisher.check_url(url)
    }

    /// Publishes an end mark; nothing to end is success.
    pub async fn end(&self, execution: ExecutionId, url: EndpointUrl) -> Result<Ended, EngineError> {
        self.0.daemon.healing.watch_unbound();
        self.0.publisher.publish_end(execution, url).await
    }

    /// What a command would do at present.
    pub async fn plan(&self, command: Command) -> Result<Plan, EngineError> {
        self.0.plan(command).await
    }

    /// Does what was planned, if the world is still as it was planned for.
    ///
    /// Runs to its end also when the caller goes away in the middle (an HTTP client that hangs up).
    pub async fn execute(&self, plan: &Plan, grant: &WriteGrant) -> Result<Done, EngineError> {
        let (engine, plan, grant) = (Arc::clone(&self.0), plan.clone(), grant.clone());
        finish(ambient::spawn("execute", async move {
            let done = engine.carry_out_plan(&plan, &grant).await;
            engine.news.moved.send_replace(());
            done
        }))
        .await
    }

    /// Answers a query; changes nothing. One that takes a lease gives it back also when the caller goes
    /// away in the middle; a list that nobody waits for any more is given up.
    pub async fn query<Q: Query>(&self, query: Q) -> Result<Q::Answer, EngineError> {
        let engine = self.clone();
        let answer = sight::Sight::present().during(async move { query.answer(&engine).await });
        let task = ambient::spawn("query", answer);
        if Q::ONLY_READS {
            finish(AbortOnDropHandle::new(task)).await
        } else {
            finish(task).await
        }
    }

    /// Follows a run until nothing more happens to it by itself; tells `on` of its progress. Works on it here when
    /// nobody else alive does.
    pub async fn follow_run(&self, id: &str, on: impl FnMut(&runs::RunView)) -> Result<runs::RunView, EngineError> {
        self.0.runs.follow_run(id, on).await
    }

    /// Refuses to look at, or to work on, a broker that is delivered by the daemons of another store
    /// ([`EngineError::OtherOwner`]). Writes nothing; what cannot be looked at is not refused.
    pub async fn compare_owner(&self) -> Result<(), EngineError> {
        self.0.daemon.healing.compare_owner().await
    }

    /// Delivers until `stop` is cancelled, then drains. `Err` only when it cannot begin at all;
    /// a broker or store that goes away later is waited for.
    pub async fn run(&self, stop: CancellationToken) -> Result<(), EngineError> {
        self.0.daemon.run(stop).await
    }

    /// Delivers while no other living process does, and stands by otherwise, until `stop`.
    /// [`Engine::delivering`] tells which. `Err` as with [`Engine::run`].
    pub async fn run_when_alone(&self, stop: CancellationToken) -> Result<(), EngineError> {
        self.0.daemon.run_when_alone(stop).await
    }

    /// Whether this process delivers at present, and each change of it.
    #[must_use]
    pub fn delivering(&self) -> watch::Receiver<bool> {
        self.0.news.delivering.subscribe()
    }

    /// Closes connections in order; for a process that ends.
    pub async fn close(&self) {
        self.0.daemon.healing.health.end();
        self.0.broker.close().await;
        self.0.store.close().await;
    }
}

/// A task's result; a panic in it is a refusal here and an error in the log.
async fn finish<T>(
    task: impl Future<Output = Result<Result<T, EngineError>, tokio::task::JoinError>>,
) -> Result<T, EngineError> {
    match task.await {
        Ok(result) => result,
        Err(error) => Err(EngineError::Refused {
            why: format!("the operation broke off: {error}"),
        }),
    }
}
