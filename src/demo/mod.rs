//! The demo: everything embedded in a directory, with its own traffic, events and jobs, and six endpoints that
//! behave differently, so that the first minute shows what the program is for.
//!
//! [`Demo`] is the parts at work: an engine for a console or an API to look at. [`run`] plays it without
//! a screen, tells what happens to a writer and answers with the report. Whether order was kept and
//! nothing lost is judged from outside the engine, by what receivers got. Left out on purpose: printing
//! and signals, which belong to the caller.

mod events;
mod ledger;
mod observer;
mod plan;
mod play;
mod receivers;
mod report;
mod scratch;
mod server;
mod traffic;

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

pub use plan::DemoPlan;
pub use play::run;
pub use receivers::{Behaviour, DemoEndpoint};
pub use report::{DemoReport, EndpointReport};
pub use scratch::ScratchDirectory;

use self::ledger::{Found, Ledger};
use self::observer::Observer;
use self::receivers::Receivers;
use self::traffic::Traffic;
use crate::ambient::{self, Clock};
use crate::broker::embedded::Embedded;
use crate::broker::{BrokerHandle, Look};
use crate::delivery::http::{HttpSender, SenderSettings};
use crate::domain::egress::AddressRules;
use crate::domain::endpoint::EndpointState;
use crate::domain::id::QueueName;
use crate::domain::naming::{Naming, QueueType};
use crate::domain::policy::{PolicyOwner, RetryPolicy};
use crate::domain::retention::Retention;
use crate::domain::value::Value;
use crate::engine::query;
use crate::engine::{Engine, EngineError, EngineSettings};
use crate::sqlite::SqliteFile;
use crate::store::sqlite::SqliteStore;
use crate::store::{NewPolicy, PolicyScope, StoreHandle};

/// More than can wait in one queue, or die in a demo.
const BROWSE_MAX: u32 = 10_000;

/// The parts at work.
#[derive(Debug)]
pub struct Demo {
    engine: Engine,
    broker: BrokerHandle,
    plan: DemoPlan,
    clock: Clock,
    /// Uptime at the start.
    begun: Duration,
    ledger: Ledger,
    observer: Observer,
    receivers: Receivers,
    traffic: Traffic,
    tasks: Tasks,
}

impl Demo {
    /// Starts an engine over a new file in `directory`, the endpoints and the traffic.
    ///
    /// # Errors
    /// No port, or a directory in which nothing can be stored.
    pub async fn start(directory: &Path, plan: &DemoPlan, clock: Clock) -> anyhow::Result<Self> {
        let ledger = Ledger::default();
        let receivers = Receivers::start(plan, &ledger)
            .await
            .context("cannot start the demo's endpoints")?;
        let settings = settings(plan);
        let file = SqliteFile::open(&directory.join("redrive.db")).await?;
        let store: StoreHandle = Arc::new(SqliteStore::open(file.clone(), clock.clone()).await?);
        let broker = Embedded::open(file, settings.naming.clone(), clock.clone()).await?;
        broker.prepare().await?;
        save_policies(&store, &receivers.endpoints, plan).await?;
        let sender = HttpSender::new(sender_settings(plan, &settings), clock.clone())?;
        let engine = Engine::new(store, Arc::clone(&broker), sender, settings, clock.clone());
        events::handle(&engine, &clock)?;
        events::prepare(&engine).await?;
        let observer = Observer::default();
        let tasks = Tasks::start(&engine, &observer, &clock);
        Ok(Self {
            traffic: Traffic::start(&engine, &clock, &ledger, &receivers.endpoints, plan)?,
            begun: clock.uptime(),
            plan: plan.clone(),
            engine,
            broker,
            clock,
            ledger,
            observer,
            receivers,
            tasks,
        })
    }

    /// The engine: to look at, and to act on.
    #[must_use]
    pub const fn engine(&self) -> &Engine {
        &self.engine
    }

    /// The six endpoints.
    #[must_use]
    pub fn endpoints(&self) -> &[DemoEndpoint] {
        &self.receivers.endpoints
    }

    /// Cancelled when the engine no longer runs, whatever the cause.
    #[must_use]
    pub fn over(&self) -> CancellationToken {
        self.tasks.over.clone()
    }

    /// How long it runs.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.clock.uptime().saturating_sub(self.begun)
    }

    /// Publishes nothing new from now on.
    pub fn quieten(&self) {
        self.traffic.quieten();
    }

    /// Whether everything was delivered that can be.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.ledger.is_settled()
    }

    /// Stops traffic, engine and endpoints, in this order, and counts.
    ///
    /// # Errors
    /// The engine could not run, or what is left cannot be counted.
    pub async fn stop(self) -> anyhow::Result<DemoReport> {
        let elapsed = self.elapsed();
        let ended = self.traffic.stop().await;
        self.tasks.stop.cancel();
        let ran = self.tasks.engine.await;
        let mut endpoints = Vec::new();
        for endpoint in &self.receivers.endpoints {
            endpoints.push((endpoint.clone(), state_of(&self.engine, endpoint).await));
        }
        self.receivers.stop().await;
        let found = found(&self.engine, &self.broker, &self.ledger).await;
        self.engine.close().await;
        self.tasks.observer.abort();
        ran??;
        let found = found.context("cannot count what is left")?;
        let judgement = self.ledger.judge(&found);
        Ok(DemoReport {
            elapsed,
            endpoints: endpoints
                .iter()
                .map(|(endpoint, state)| EndpointReport {
                    state: state.unwrap_or_else(|| self.observer.seen(&endpoint.url).state()),
                    ..endpoint_report(endpoint, &self.plan, &self.ledger, &self.observer, &found)
                })
                .collect(),
            queues: judgement.queues,
            ended,
            duplicates: judgement.duplicates,
            violations: judgement.violations,
            lost: judgement.lost,
            events_missed: self.observer.missed(),
        })
    }
}

/// What runs beside the endpoints and the traffic.
#[derive(Debug)]
struct Tasks {
    engine: JoinHandle<Result<(), EngineError>>,
    /// Stops the engine.
    stop: CancellationToken,
    /// Cancelled when the engine no longer runs, whatever the cause.
    over: CancellationToken,
    observer: JoinHandle<()>,
}

impl Tasks {
    fn start(engine: &Engine, observer: &Observer, clock: &Clock) -> Self {
        let observing = observer.clone().run(engine.events(), clock.clone());
        let observer = ambient::spawn("demo observer", observing);
        let (stop, over) = (CancellationToken::new(), CancellationToken::new());
        let engine = ambient::spawn("demo engine", {
            let (engine, stop, over) = (engine.clone(), stop.clone(), over.clone().drop_guard());
            async move {
                let _over = over;
                engine.run(stop).await
            }
        });
        Self {
            engine,
            stop,
            over,
            observer,
        }
    }
}

fn endpoint_report(
    endpoint: &DemoEndpoint,
    plan: &DemoPlan,
    ledger: &Ledger,
    observer: &Observer,
    found: &Found,
) -> EndpointReport {
    let tally = ledger.final_tally(endpoint.behaviour, found);
    let seen = observer.seen(&endpoint.url);
    EndpointReport {
        behaviour: endpoint.behaviour,
        description: endpoint.behaviour.description(plan),
        published: tally.published,
        delivered: tally.delivered,
        waiting: tally.waiting,
        dead: tally.dead,
        attempts: seen.attempts,
        state: seen.state(),
        last_answer: seen.last_answer,
        changes: seen.changes,
    }
}

/// Its state in the store, where it has a row.
async fn state_of(engine: &Engine, endpoint: &DemoEndpoint) -> Option<EndpointState> {
    let Ok(view) = engine.query(query::Endpoint(endpoint.url.clone())).await else {
        return None;
    };
    Some(view.endpoint.state)
}

/// What is in the queues and among the dead letters, once nobody takes from them.
async fn found(engine: &Engine, broker: &BrokerHandle, ledger: &Ledger) -> anyhow::Result<Found> {
    let mut found = Found::default();
    for queue in ledger.queues() {
        if broker.look(&queue).await? != Look::Missing {
            found.waiting.extend(ids(broker, &queue).await?);
        }
    }
    let dead = QueueName::parse(&engine.naming().dead_letter_queue())?;
    found.dead.extend(ids(broker, &dead).await?);
    Ok(found)
}

async fn ids(broker: &BrokerHandle, queue: &QueueName) -> anyhow::Result<Vec<String>> {
    let messages = broker.browse(queue, BROWSE_MAX).await?;
    Ok(messages
        .into_iter()
        .filter_map(|seen| seen.message.message_id)
        .collect())
}

fn settings(plan: &DemoPlan) -> EngineSettings {
    EngineSettings {
        naming: Naming {
            prefix: "redrive.".to_owned(),
            vhost: "redrive".to_owned(),
            url_hash_key: format!("{:016x}", ambient::random()),
            queue_type: QueueType::Classic,
        },
        workers: 64,
        slow_requests: 64,
        job_queue_ttl: crate::domain::job::JOB_QUEUE_TTL,
        dead_queues: Vec::new(),
        leftover_pattern: crate::engine::leftovers(),
        save_before_expiry: false,
        prefetch: 1,
        memory: crate::budget::Budget::default(),
        request_timeout: Duration::from_secs(5),
        linger: Duration::from_secs(1),
        in_flight_per_endpoint: 16,
        idle_queue_ttl: Duration::from_hours(1),
        retry_after_cap: Duration::from_mins(1),
        default_policy: plan.policy(),
        take_over: Duration::from_mins(1),
        drain: Duration::from_secs(5),
        export_time: crate::engine::dead::EXPORT_TIME,
        discard_keep: Duration::from_hours(7 * 24),
        retention: Retention::default(),
        rates: HashMap::default(),
        events: crate::engine::events::EventSettings::default(),
        masks: std::sync::Arc::new(crate::domain::mask::MaskRules::usual()),
        alerts: Vec::new(),
        certificates: crate::certificates::Certificates::default(),
    }
}

/// Loopback is what the demo delivers to, and all that it delivers to.
fn sender_settings(plan: &DemoPlan, settings: &EngineSettings) -> SenderSettings {
    let _ = rustls::crypto::ring::default_provider().install_default();
    SenderSettings {
        timeout: settings.request_timeout,
        response_snippet_bytes: 2048,
        rules: AddressRules {
            allow: vec![ipnet::IpNet::new_assert(std::net::Ipv4Addr::LOCALHOST.into(), 8).into()],
            own: plan.own_sockets.clone(),
            ..AddressRules::default()
        },
        endpoints: HashMap::new(),
    }
}

/// The endpoint that always fails has a policy of its own: dead letters instead of waiting for long.
async fn save_policies(store: &StoreHandle, endpoints: &[DemoEndpoint], plan: &DemoPlan) -> anyhow::Result<()> {
    for endpoint in endpoints
        .iter()
        .filter(|endpoint| endpoint.behaviour == Behaviour::Failing)
    {
        let policy = NewPolicy {
            scope: PolicyScope {
                event_type: None,
                url: Some(endpoint.url.clone()),
            },
            document: Some(document(&plan.short_policy())),
            author: "demo".to_owned(),
        };
        store.policy_put(&policy).await?;
    }
    Ok(())
}

fn document(policy: &RetryPolicy) -> String {
    json(&policy.to_value(PolicyOwner::Subscription)).to_string()
}

fn json(value: &Value) -> serde_json::Value {
    match value {
        Value::Null => serde_json::Value::Null,
        Value::Bool(truth) => (*truth).into(),
        Value::Integer(number) => i64::try_from(*number).unwrap_or(i64::MAX).into(),
        Value::Number(number) => (*number).into(),
        Value::Text(text) => text.as_str().into(),
        Value::List(items) => items.iter().map(json).collect(),
        Value::Table(entries) => entries.iter().map(|(key, value)| (key.clone(), json(value))).collect(),
    }
}
