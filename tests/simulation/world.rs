//! One run: daemons on one broker and one store, publishers, receivers, an operator, and the faults of a plan, all on
//! one thread and in simulated time.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use redrive::internals::ambient::{self, Clock, Process};
use redrive::internals::broker::{BrokerHandle, Publishing};
use redrive::internals::budget::Budget;
use redrive::internals::certificates::Certificates;
use redrive::internals::domain::id::{ExecutionId, NotificationId, QueueName};
use redrive::internals::domain::mask::MaskRules;
use redrive::internals::domain::message::Message;
use redrive::internals::domain::naming::Naming;
use redrive::internals::domain::retention::Retention;
use redrive::internals::domain::time::Timestamp;
use redrive::internals::domain::url::EndpointUrl;
use redrive::internals::engine::events::EventSettings;
use redrive::internals::engine::{
    Access, Command, Engine, EngineError, EngineSettings, NewNotification, RedeliverTarget, leftovers, query,
};
use redrive::internals::store::Evidence;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::broker::{Client, Model, Rules, Step};
use super::events::{self, Service};
use super::judge::{self, Wrong};
use super::orders::{self, Books};
use super::plan::{Fault, Manner, Plan, Planned, REQUEST_TIMEOUT, Scenario, Stream, TAKE_OVER};
use super::policies;
use super::receivers::{Line, Receivers};
use super::store::{self, Database, Handle, Trouble};
use super::trace::Trace;

/// When every run begins.
const START: Timestamp = Timestamp::from_seconds(1_700_000_000);
/// All that was published is settled so long after the last fault, or something is stuck.
const BOUND: Duration = Duration::from_mins(15);
/// How often a person looks whether an endpoint waits for one.
const OPERATOR: Duration = Duration::from_secs(20);
/// The same where policies let messages wait for long.
const PATIENT: Duration = Duration::from_secs(150);

/// What came of a run.
#[derive(Debug)]
pub struct Outcome {
    pub hash: u64,
    pub lines: Vec<String>,
    pub wrong: Vec<Wrong>,
    pub faults: usize,
    pub simulated: Duration,
    pub deliveries: usize,
}

/// Runs a plan. The same plan is the same run.
pub fn run(plan: &Plan, keeps_lines: bool) -> Outcome {
    let simulated = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime");
    simulated.block_on(async {
        let clock = Clock::of_runtime(START);
        let _seed = ambient::seed(plan.seed, clock.clone());
        World::new(plan.clone(), clock, keeps_lines).play().await
    })
}

/// A process that delivers.
struct Daemon {
    process: Process,
    client: Arc<Client>,
    store: Handle,
    stop: CancellationToken,
    running: JoinHandle<()>,
}

/// What the producers know, and what the broker did.
#[derive(Debug, Default)]
pub struct Ledger {
    /// In the order in which they were published, with what the producer was told.
    pub published: Vec<(String, String, Vec<u8>, bool)>,
    /// How often each was stored.
    pub stored: HashMap<String, u32>,
    /// Notifications that are in the dead-letter queue, or were.
    pub dead: HashSet<String>,
    pub wrong: Vec<Wrong>,
}

/// Everything of one run.
pub struct World {
    plan: Plan,
    clock: Clock,
    settings: EngineSettings,
    trace: Trace,
    model: Model,
    database: Database,
    receivers: Arc<Receivers>,
    ledger: Arc<Mutex<Ledger>>,
    daemons: Vec<Option<Daemon>>,
    /// What the operator's commands run in.
    operator: Engine,
    /// The connections of the service that publishes.
    publishers: Arc<Client>,
    /// Somebody else's.
    stranger: Client,
    /// How often a person redelivered, and tried to.
    redelivered: u32,
    /// Times between which nothing may be sent from a queue.
    pauses: Vec<(String, Instant, Instant)>,
    /// What the broker did with messages, where that is told.
    books: Books,
    /// Of events.
    service: Service,
    done: usize,
}

/// What is due at a time.
enum Due {
    Fault(Fault),
    Start(usize),
    Lift,
    Cut(usize),
    Resume(usize),
    TakeOver(Box<store::Copy>),
}

fn naming(plan: &Plan) -> Naming {
    Naming {
        prefix: "redrive.".to_owned(),
        vhost: "simulated".to_owned(),
        url_hash_key: "a test's key".to_owned(),
        queue_type: plan.queue_type,
    }
}

fn settings(plan: &Plan) -> EngineSettings {
    EngineSettings {
        naming: naming(plan),
        workers: 8,
        slow_requests: 8,
        job_queue_ttl: redrive::internals::domain::job::JOB_QUEUE_TTL,
        dead_queues: vec![orders::SOURCE.to_owned()],
        leftover_pattern: leftovers(),
        save_before_expiry: false,
        prefetch: plan.prefetch,
        memory: Budget::default(),
        request_timeout: REQUEST_TIMEOUT,
        linger: Duration::from_millis(500),
        in_flight_per_endpoint: 4,
        idle_queue_ttl: Duration::from_secs(3600),
        retry_after_cap: Duration::from_secs(3600),
        default_policy: plan.policy.clone(),
        take_over: TAKE_OVER,
        drain: Duration::from_secs(5),
        export_time: redrive::internals::engine::dead::EXPORT_TIME,
        discard_keep: Duration::from_hours(7 * 24),
        retention: Retention::default(),
        rates: ambient::HashMap::default(),
        events: match plan.scenario {
            Scenario::Events => events::settings(),
            Scenario::Deliveries | Scenario::Orders | Scenario::Policies => EventSettings::default(),
        },
        masks: Arc::new(MaskRules::usual()),
        alerts: Vec::new(),
        certificates: Certificates::default(),
    }
}

fn url_of(manner: Manner) -> EndpointUrl {
    EndpointUrl::parse(&format!("http://receiver.example/{}", manner.path())).expect("a URL")
}

impl Stream {
    fn url(&self) -> EndpointUrl {
        url_of(self.manner)
    }

    fn execution(&self) -> ExecutionId {
        ExecutionId::parse(&self.execution).expect("an execution")
    }

    pub fn queue(&self, naming: &Naming) -> QueueName {
        naming.delivery_queue(&self.execution(), &self.url())
    }
}

fn engine(
    (settings, clock): (&EngineSettings, &Clock),
    receivers: &Arc<Receivers>,
    client: &Arc<Client>,
    store: &Handle,
) -> Engine {
    let broker: BrokerHandle = Arc::<Client>::clone(client);
    let sender = Arc::new(Line(Arc::clone(receivers)));
    Engine::new(Arc::new(store.clone()), broker, sender, settings.clone(), clock.clone())
}

impl World {
    fn new(plan: Plan, clock: Clock, keeps_lines: bool) -> Self {
        let trace = Trace::new(clock.clone(), keeps_lines);
        let receivers = Arc::new(Receivers::new(trace.clone()));
        let ledger: Arc<Mutex<Ledger>> = Arc::default();
        let (settings, books) = (settings(&plan), Books::default());
        let model = {
            let (trace, ledger, receivers) = (trace.clone(), Arc::clone(&ledger), Arc::clone(&receivers));
            let orders = matches!(plan.scenario, Scenario::Orders | Scenario::Events).then(|| books.clone());
            Model::recorded(
                settings.naming.clone(),
                Rules {
                    delivery_limit: plan.delivery_limit,
                    ..Rules::default()
                },
                move |step, queue, message| {
                    let id = message.message_id.clone().unwrap_or_default();
                    let body = String::from_utf8_lossy(&message.body).into_owned();
                    trace.note(&format!("{step:?} {id} {body}"));
                    if let Some(books) = &orders {
                        books.note(step, queue, message);
                    }
                    let mut ledger = ledger.lock().unwrap_or_else(PoisonError::into_inner);
                    judge::step(&mut ledger, &receivers, step, (queue, &id, &body));
                    match step {
                        Step::Stored => *ledger.stored.entry(id).or_default() += 1,
                        Step::Dead => drop(ledger.dead.insert(id)),
                        Step::Settled | Step::Destroyed => {}
                    }
                },
            )
        };
        let living = if plan.sessions {
            Evidence::Connected
        } else {
            Evidence::Alive
        };
        let database = Database::with_evidence(clock.clone(), living);
        let service = Service::new(&database, &trace);
        let operator = engine(
            (&settings, &clock),
            &receivers,
            &Arc::new(model.client()),
            &database.handle(),
        );
        Self {
            database,
            daemons: (0..plan.daemons).map(|_| None).collect(),
            plan,
            clock,
            settings,
            trace,
            receivers,
            ledger,
            operator,
            publishers: Arc::new(model.client()),
            stranger: model.client(),
            redelivered: 0,
            model,
            pauses: Vec::new(),
            books,
            service,
            done: 0,
        }
    }

    /// A process of its own, which does not deliver yet.
    fn engine(&self, client: &Arc<Client>, store: &Handle) -> Engine {
        engine((&self.settings, &self.clock), &self.receivers, client, store)
    }

    fn start(&mut self, number: usize) {
        if self.daemons[number].is_some() {
            return;
        }
        self.trace.note(&format!("daemon {number} starts"));
        let (process, stop) = (Process::default(), CancellationToken::new());
        let (client, store) = (Arc::new(self.model.client()), self.database.handle());
        let engine = self.engine(&client, &store);
        if self.plan.scenario == Scenario::Events {
            engine.handle_events(Service::event_type(), Arc::new(self.service.clone()));
        }
        let (until, trace) = (stop.clone(), self.trace.clone());
        let running = process.spawn("simulated daemon", async move {
            if let Err(error) = engine.run(until).await {
                trace.note(&format!("daemon {number} ends: {error:?}"));
            }
            engine.close().await;
        });
        self.daemons[number] = Some(Daemon {
            process,
            client,
            store,
            stop,
            running,
        });
    }

    fn kill(&mut self, number: usize, noticed: Duration, acks_are_lost: bool) {
        if let Some(daemon) = self.daemons[number].take() {
            daemon.process.kill();
            daemon.client.kill(noticed, acks_are_lost);
            daemon.store.kill();
        }
    }

    async fn play(mut self) -> Outcome {
        for number in 0..self.plan.daemons {
            self.start(number);
        }
        match self.plan.scenario {
            Scenario::Deliveries => {
                self.deliver().await;
                self.settle(OPERATOR, BOUND).await;
                self.end()
            }
            Scenario::Orders => self.play_orders().await,
            Scenario::Policies => self.play_policies().await,
            Scenario::Events => self.play_events().await,
        }
    }

    /// Publishes everything, while faults come.
    async fn deliver(&mut self) {
        let producers = self.producers();
        self.faults().await;
        self.published(producers).await;
    }

    fn producers(&self) -> Vec<JoinHandle<()>> {
        let service = self.engine(&self.publishers, &self.database.handle());
        let streams = self.plan.streams.iter();
        streams.map(|stream| self.produce(&service, stream)).collect()
    }

    async fn published(&self, producers: Vec<JoinHandle<()>>) {
        for producer in producers {
            if ambient::timeout(BOUND, producer).await.is_err() {
                self.wrong(Wrong::Stuck("a publisher got no confirm".to_owned()));
            }
        }
    }

    /// The engine of a process that only carries out commands.
    fn command_engine(&self) -> Engine {
        self.engine(&Arc::new(self.model.client()), &self.database.handle())
    }

    async fn play_orders(mut self) -> Outcome {
        let people = self.plan.orders.people.clone();
        let of_others = self.plan.orders.letters > 0;
        let source = if of_others {
            orders::SOURCE.to_owned()
        } else {
            self.settings.naming.dead_letter_queue()
        };
        let person = orders::Person {
            engine: self.command_engine(),
            model: self.model.clone(),
            database: self.database.clone(),
            trace: self.trace.clone(),
            books: self.books.clone(),
            source,
            of_others,
            is_alone: people.len() == 1,
            repeats: judge::repeats(&self.plan),
            store_fails: judge::store_fails(&self.plan),
        };
        if of_others {
            person.fill(self.plan.orders.letters);
        } else {
            self.published(self.producers()).await;
            self.drain(OPERATOR, BOUND).await;
        }
        self.receivers.mend();
        person.begin();
        let working = people.into_iter().map(|wanted| {
            let engine = self.command_engine();
            let person = orders::Person {
                engine,
                ..person.clone()
            };
            tokio::spawn(async move { person.orders(&wanted).await })
        });
        let working: Vec<JoinHandle<()>> = working.collect();
        self.faults().await;
        for one in working {
            let _ = one.await;
        }
        person.clear().await;
        self.drain(OPERATOR, BOUND).await;
        ambient::sleep(Duration::from_secs(1)).await;
        let wrong = person.judge_all(|id| self.receivers.taken(id));
        let mut wrong: Vec<Wrong> = wrong.into_iter().map(Wrong::Orders).collect();
        wrong.extend(self.ledger.lock().unwrap_or_else(PoisonError::into_inner).wrong.clone());
        self.ends(wrong)
    }

    async fn play_policies(mut self) -> Outcome {
        let person = policies::Person {
            engine: self.command_engine(),
            database: self.database.clone(),
            trace: self.trace.clone(),
            default: self.settings.default_policy.clone(),
            wrong: Arc::default(),
        };
        let watching = tokio::spawn(person.clone().watch());
        let changes = self.plan.policies.clone().into_iter().map(|change| {
            let (person, url) = (person.clone(), url_of(change.manner));
            tokio::spawn(async move { person.change(change, url).await })
        });
        let changes: Vec<JoinHandle<()>> = changes.collect();
        self.deliver().await;
        for change in changes {
            let _ = change.await;
        }
        self.settle(PATIENT, 8 * BOUND).await;
        watching.abort();
        let broken = person.wrong.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let wrong = broken.into_iter().map(Wrong::Policies).collect::<Vec<_>>();
        let wrong = wrong.into_iter().chain(self.judged()).collect();
        self.ends(wrong)
    }

    fn wrong(&self, wrong: Wrong) {
        self.trace.note(&format!("WRONG: {wrong}"));
        self.ledger
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .wrong
            .push(wrong);
    }

    /// One producer for each queue; all of them are one service.
    fn produce(&self, service: &Engine, stream: &Stream) -> JoinHandle<()> {
        let (engine, stream, ledger) = (service.clone(), stream.clone(), Arc::clone(&self.ledger));
        let queue = stream.queue(&self.settings.naming).as_str().to_owned();
        tokio::spawn(async move {
            for number in 1..=stream.messages {
                let pause = Duration::from_millis(ambient::random() % (stream.pause_ms + 1));
                ambient::sleep(pause).await;
                let id = format!("{}-{}-{number}", stream.execution, stream.manner.path());
                let body = format!("{} {} {number}", stream.execution, stream.manner.path());
                let new = NewNotification {
                    id: Some(NotificationId::parse(&id).expect("an id")),
                    execution: stream.execution(),
                    url: stream.url(),
                    headers: Vec::new(),
                    content_type: Some("text/plain".to_owned()),
                    body: Bytes::from(body.clone()),
                    polling_time_s: None,
                    restart_count: None,
                };
                let at = {
                    let mut ledger = ledger.lock().unwrap_or_else(PoisonError::into_inner);
                    ledger.published.push((queue.clone(), id, body.into_bytes(), false));
                    ledger.published.len() - 1
                };
                // Again, under its id, until it is confirmed.
                while engine.publish(new.clone()).await.is_err() {
                    ambient::sleep(Duration::from_millis(50 + ambient::random() % 200)).await;
                }
                ledger.lock().unwrap_or_else(PoisonError::into_inner).published[at].3 = true;
                if stream.end_after == Some(number) {
                    while engine.end(stream.execution(), stream.url()).await.is_err() {
                        ambient::sleep(Duration::from_millis(50 + ambient::random() % 200)).await;
                    }
                }
            }
        })
    }

    async fn faults(&mut self) {
        let mut due: BTreeMap<(Duration, usize), Due> = BTreeMap::new();
        for (at, planned) in self.plan.faults.iter().enumerate() {
            due.insert((planned.at, at), Due::Fault(planned.fault.clone()));
        }
        let (began, mut last) = (Instant::now(), due.len());
        while let Some(((at, _), one)) = due.pop_first() {
            ambient::sleep((began + at).saturating_duration_since(Instant::now())).await;
            for (after, next) in self.happens(one).await {
                last += 1;
                due.insert((began.elapsed() + after, last), next);
            }
        }
    }

    /// Answers what follows, and when.
    async fn happens(&mut self, due: Due) -> Vec<(Duration, Due)> {
        match due {
            Due::Fault(fault) => {
                self.done += 1;
                self.trace.note(&format!("FAULT {fault:?}"));
                self.strikes(fault).await
            }
            Due::Start(number) => {
                self.start(number);
                Vec::new()
            }
            Due::Lift => {
                self.trace.note("the alarm is lifted");
                self.model.alarm(None);
                Vec::new()
            }
            Due::Cut(number) => {
                self.trace.note(&format!("daemon {number} is cut off the broker"));
                self.with(number, |one| one.client.cut(Duration::ZERO, true));
                Vec::new()
            }
            Due::TakeOver(copy) => {
                self.trace.note("the standby takes over");
                self.database.fail_over(*copy);
                Vec::new()
            }
            Due::Resume(queue) => {
                self.resume(queue).await;
                Vec::new()
            }
        }
    }

    async fn strikes(&mut self, fault: Fault) -> Vec<(Duration, Due)> {
        let ms = Duration::from_millis;
        match fault {
            Fault::Kill {
                daemon,
                noticed_ms,
                acks_are_lost,
                back_after_ms,
            } => {
                self.kill(daemon, ms(noticed_ms), acks_are_lost);
                return vec![(ms(back_after_ms), Due::Start(daemon))];
            }
            Fault::Restart { daemon, back_after_ms } => {
                self.stop(daemon).await;
                return vec![(ms(back_after_ms), Due::Start(daemon))];
            }
            Fault::Cut {
                daemon,
                noticed_ms,
                acks_are_lost,
            } => self.with(daemon, |one| one.client.cut(ms(noticed_ms), acks_are_lost)),
            Fault::CloseChannel { daemon, which } => self.with(daemon, |one| one.client.close_channel(which)),
            Fault::BrokerStops { span_ms } => self.stop_broker(ms(span_ms)),
            Fault::CutPublish { after_it } => self.publishers.cut_at_publish(after_it),
            Fault::CutLetter { daemon, after_it } => self.with(daemon, |one| one.client.cut_at_publish(after_it)),
            Fault::Isolated {
                daemon,
                cut_after_ms,
                span_ms,
            } => {
                self.with(daemon, |one| one.store.trouble(Trouble::Unheard, ms(span_ms)));
                return vec![(ms(cut_after_ms), Due::Cut(daemon))];
            }
            Fault::Alarm { span_ms } => {
                self.model.alarm(Some("memory"));
                return vec![(ms(span_ms), Due::Lift)];
            }
            Fault::StoreAway { daemon, span_ms } => {
                self.with(daemon, |one| one.store.trouble(Trouble::Unheard, ms(span_ms)));
            }
            Fault::StoreSilent { daemon, span_ms } => {
                self.with(daemon, |one| one.store.trouble(Trouble::Unanswered, ms(span_ms)));
            }
            Fault::StoreSlow { span_ms } => self.database.slow_for(ms(span_ms)),
            Fault::FailsOver { lost_ms } => return vec![(ms(lost_ms), Due::TakeOver(Box::new(self.database.copy())))],
            Fault::Foreign { queue } => self.publish_foreign(queue).await,
            Fault::FilesGone => self.database.files_gone(),
            Fault::ReceiverDown { manner, span_ms } => self.receivers.down(manner.path(), ms(span_ms)),
            Fault::Pause { queue, span_ms } => return self.pause(queue, ms(span_ms)).await,
            Fault::Browse { queue } => self.browse(queue).await,
            Fault::Redeliver => self.redeliver().await,
        }
        Vec::new()
    }

    /// In order, and then its process is gone.
    async fn stop(&mut self, number: usize) {
        if let Some(stopped) = self.daemons[number].take() {
            stopped.stop.cancel();
            let _ = ambient::timeout(Duration::from_secs(30), stopped.running).await;
            stopped.process.kill();
            stopped.client.kill(Duration::ZERO, false);
            stopped.store.kill();
        }
    }

    /// With every connection.
    fn stop_broker(&self, span: Duration) {
        self.model.stop_for(span);
        for daemon in self.daemons.iter().flatten() {
            daemon.client.cut(Duration::ZERO, true);
        }
        self.publishers.cut(Duration::ZERO, true);
    }

    fn with(&self, daemon: usize, act: impl FnOnce(&Daemon)) {
        if let Some(daemon) = &self.daemons[daemon] {
            act(daemon);
        }
    }

    async fn execute(&self, command: Command) -> Result<(), EngineError> {
        let grant = Access::Operator.grant("operator", None).expect("a grant");
        let plan = self.operator.plan(command).await?;
        self.operator.execute(&plan, &grant).await.map(drop)
    }

    async fn pause(&mut self, queue: usize, span: Duration) -> Vec<(Duration, Due)> {
        let Some(stream) = self.plan.streams.get(queue) else {
            return Vec::new();
        };
        let name = stream.queue(&self.settings.naming);
        let paused = self.execute(Command::PauseQueue(name.clone())).await;
        self.trace.note(&format!("paused {queue}: {}", paused.is_ok()));
        // A queue that ends takes its pause with it: the next one of its name is not paused.
        let ends = self
            .plan
            .streams
            .iter()
            .any(|other| other.end_after.is_some() && other.queue(&self.settings.naming) == name);
        if paused.is_ok() && !ends {
            // The daemon reads it once a second, and ends the attempt in hand.
            let from = Instant::now() + Duration::from_secs(2);
            self.pauses
                .push((name.as_str().to_owned(), from, Instant::now() + span));
        }
        vec![(span, Due::Resume(queue))]
    }

    async fn resume(&mut self, queue: usize) {
        let name = self.plan.streams[queue].queue(&self.settings.naming);
        let now = Instant::now();
        for pause in self.pauses.iter_mut().filter(|pause| pause.0 == name.as_str()) {
            pause.2 = pause.2.min(now);
        }
        for _ in 0..50 {
            match self.execute(Command::ResumeQueue(name.clone())).await {
                Ok(()) => break,
                Err(error) => self.trace.note(&format!("not resumed: {error}")),
            }
            ambient::sleep(Duration::from_millis(500)).await;
        }
    }

    /// What is looked at goes back to its place. Its worker has to let go of the queue, whatever it waits for.
    async fn browse(&self, queue: usize) {
        let Some(stream) = self.plan.streams.get(queue) else {
            return;
        };
        let name = stream.queue(&self.settings.naming);
        let query = query::Browse {
            queue: name.clone(),
            limit: 10,
        };
        let seen = self.operator.query(query).await;
        self.trace
            .note(&format!("looked at {queue}: {:?}", seen.as_ref().map(Vec::len)));
        let keeps = |planned: &Planned| planned.fault.keeps_leases();
        // What a limit counts may forbid the look itself.
        if let Err(EngineError::Refused { why }) = seen
            && self.plan.delivery_limit.is_none()
            && !self.plan.faults.iter().any(keeps)
        {
            self.wrong(Wrong::NotGiven {
                queue: name.as_str().to_owned(),
                why,
            });
        }
    }

    /// A store that failed over may have forgotten that a queue was resumed: a person sees that it is paused.
    async fn resume_forgotten(&self) {
        let paused = self.plan.faults.iter().filter_map(|planned| {
            let Fault::Pause { queue, .. } = planned.fault else {
                return None;
            };
            self.plan.streams.get(queue)
        });
        for stream in paused {
            let resume = Command::ResumeQueue(stream.queue(&self.settings.naming));
            if let Err(error) = self.execute(resume).await {
                self.trace.note(&format!("not resumed: {error}"));
            }
        }
    }

    /// With a body, and nothing of what says where a notification goes.
    async fn publish_foreign(&self, queue: usize) {
        let Some(stream) = self.plan.streams.get(queue) else {
            return;
        };
        let name = stream.queue(&self.settings.naming);
        let message = Message {
            body: Bytes::from_static(b"from elsewhere"),
            ..Message::default()
        };
        let published = self.stranger.publish(&name, &message).await;
        self.trace.note(&format!("published from elsewhere: {published:?}"));
    }

    /// Every URL: also one that is available and has a queue whose head waits alone.
    async fn redeliver(&mut self) {
        self.redelivered += 1;
        let mut urls: Vec<EndpointUrl> = self.plan.streams.iter().map(Stream::url).collect();
        urls.sort();
        urls.dedup();
        for url in urls {
            let target = RedeliverTarget::Urls(vec![url]);
            if let Err(error) = self.execute(Command::Redeliver(target)).await {
                self.trace.note(&format!("not redelivered: {error}"));
            }
        }
    }

    /// Until nothing waits, with a person who makes what parked available now and then; false where something is stuck.
    async fn drain(&mut self, now_and_then: Duration, bound: Duration) -> bool {
        let began = Instant::now();
        let mut looked = began;
        while self.model.waiting().iter().any(|(_, messages)| !messages.is_empty()) {
            if began.elapsed() > bound {
                let left = self.model.waiting();
                let left: Vec<String> = left
                    .iter()
                    .filter(|(_, messages)| !messages.is_empty())
                    .map(|(queue, messages)| format!("{queue}: {}", messages.len()))
                    .collect();
                self.wrong(Wrong::Stuck(left.join(", ")));
                return false;
            }
            if looked.elapsed() > now_and_then {
                looked = Instant::now();
                self.redeliver().await;
                self.resume_forgotten().await;
            }
            ambient::sleep(Duration::from_millis(250)).await;
        }
        true
    }

    /// Until nothing waits, and what ended is gone.
    async fn settle(&mut self, now_and_then: Duration, bound: Duration) {
        if !self.drain(now_and_then, bound).await {
            return;
        }
        let naming = &self.settings.naming;
        // What comes behind an end mark is a rerun, whatever it is; a store that failed over may have forgotten the end; a
        // delivery limit may take the mark itself. Such a queue goes when it was idle for long.
        let goes_on = |at: usize| {
            let mut faults = self.plan.faults.iter();
            self.plan.delivery_limit.is_some()
                || faults.any(|planned| {
                    matches!(planned.fault, Fault::FailsOver { .. })
                        || matches!(planned.fault, Fault::Foreign { queue } if queue == at)
                })
        };
        let ended = self
            .plan
            .streams
            .iter()
            .enumerate()
            .filter(|(at, stream)| stream.end_after == Some(stream.messages) && !goes_on(*at))
            .map(|(_, stream)| stream);
        let mut ended: Vec<String> = ended.map(|stream| stream.queue(naming).as_str().to_owned()).collect();
        let began = Instant::now();
        while !ended.is_empty() {
            ambient::sleep(Duration::from_millis(250)).await;
            let there = self.model.waiting();
            ended.retain(|queue| there.iter().any(|(name, _)| name == queue));
            if began.elapsed() > BOUND {
                self.wrong(Wrong::Stuck(format!("ended, and still there: {}", ended.join(", "))));
                return;
            }
        }
        // What is on its way arrives.
        ambient::sleep(Duration::from_secs(1)).await;
    }

    async fn play_events(mut self) -> Outcome {
        let subscribed = [Manner::Takes, Manner::Flaky];
        for manner in subscribed {
            self.service.subscribe(&url_of(manner)).await;
        }
        let (service, pushes) = (self.service.clone(), self.plan.events.clone());
        let pushing = tokio::spawn(async move { service.push(&pushes).await });
        self.faults().await;
        let _ = pushing.await;
        self.service.settle().await;
        self.drain(OPERATOR, BOUND).await;
        ambient::sleep(Duration::from_secs(1)).await;
        let repeats = judge::repeats(&self.plan);
        let broken = self
            .service
            .judge(&self.books, &self.receivers, subscribed.len(), repeats);
        let mut wrong: Vec<Wrong> = broken.into_iter().map(Wrong::Events).collect();
        wrong.extend(self.ledger.lock().unwrap_or_else(PoisonError::into_inner).wrong.clone());
        self.ends(wrong)
    }

    /// What the checker finds in all that was published.
    fn judged(&self) -> Vec<Wrong> {
        let faults = judge::Faults::of(&self.plan, self.redelivered);
        judge::judge(&self.ledger, &self.model, &self.receivers, &faults, &self.pauses)
    }

    fn end(self) -> Outcome {
        let wrong = self.judged();
        self.ends(wrong)
    }

    fn ends(self, wrong: Vec<Wrong>) -> Outcome {
        for daemon in self.daemons.iter().flatten() {
            daemon.process.kill();
        }
        for one in &wrong {
            self.trace.note(&format!("WRONG: {one}"));
        }
        Outcome {
            hash: self.trace.hash(),
            lines: self.trace.lines(),
            wrong,
            faults: self.done,
            simulated: Duration::from_micros(self.trace.now().micros().abs_diff(START.micros())),
            deliveries: self.receivers.seen().len(),
        }
    }
}
