//! Looks at everything that can turn bad and can be read again, by one daemon at a time.
//!
//! Promises: a twentieth of its time is spent looking, at most; what could not be read is not taken for gone, and the
//! numbers of it are no numbers (NaN) until it can be read.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::ambient;
use crate::domain::endpoint::{Endpoint, EndpointState};
use crate::domain::id::{IncarnationId, QueueName};
use crate::domain::queue::{QueueKind, QueueState};
use crate::domain::run::RunState;
use crate::domain::text::show;
use crate::domain::time::Timestamp;
use crate::domain::turn::{Condition, Standing, TurnKind, Watch};
use crate::domain::url::EndpointUrl;
use crate::engine::answers::listing::{Oldest, Seen};
use crate::engine::answers::world::World;
use crate::engine::snapshot::QUEUE_STATES;
use crate::engine::view::QueueView;
use crate::engine::{EngineError, Inner};
use crate::store::{NamedLease, RunQuery, RunRecord, StoreError};
use crate::telemetry::names;

/// The lease of whoever watches.
const LEASE: &str = "alerts";
/// Between two looks.
const LOOK: Duration = Duration::from_secs(5);
/// A look is followed by a pause of so many times as long.
const PAUSE: u32 = 19;
/// Conditions that are told apart in one part, at most.
const CONDITIONS_MAX: usize = 1_000;
/// Runs looked at, the newest.
const RUNS_MAX: u32 = 100;
/// A name or a reason is at most this wide.
const NAME_WIDTH_MAX: usize = 200;

/// Where runs stand, with a sentence about each.
type Runs = BTreeMap<String, (RunState, String)>;

/// What one look counted; `None` could not be read.
#[derive(Clone, Copy, Debug, Default)]
struct Numbers {
    waiting: Option<u64>,
    oldest: Option<Duration>,
    dead: Option<u64>,
    queues: Option<[u64; QUEUE_STATES.len()]>,
}

/// What is summed up while the queues pass by.
#[derive(Default)]
struct Sums {
    waiting: Option<u64>,
    oldest_at: Option<Timestamp>,
    queues: [u64; QUEUE_STATES.len()],
    bad: BTreeMap<String, Condition>,
    of_urls: HashMap<EndpointUrl, u64>,
}

impl Inner {
    /// Watches while this process holds the lease, until `generation` ends.
    pub(super) async fn watch_turns(self: Arc<Self>, me: IncarnationId, generation: CancellationToken) {
        let mut held: Option<NamedLease> = None;
        let (mut watch, mut running) = (Watch::default(), BTreeSet::new());
        show_numbers(&Numbers::default());
        while !generation.is_cancelled() {
            if held.is_none() {
                held = self.take_watch(me).await;
                (watch, running) = (Watch::default(), BTreeSet::new());
            }
            let began = self.clock.uptime();
            if held.is_some() && self.fence.permits(me) {
                let (standing, numbers) = self.look_at_everything(&mut running).await;
                show_numbers(&numbers);
                for turn in watch.look(standing, self.clock.now()) {
                    self.tell_turn(turn);
                }
            }
            let took = self.clock.uptime().saturating_sub(began);
            ambient::wait(&generation, LOOK.max(took * PAUSE)).await;
        }
        // Another daemon counts from now on.
        show_numbers(&Numbers::default());
        if let Some(held) = held {
            // Else it is free with the incarnation.
            let _ = self.store.named_lease_free(&held.name, held.epoch).await;
        }
    }

    async fn take_watch(&self, me: IncarnationId) -> Option<NamedLease> {
        let epoch = self.store.named_lease_take(LEASE, me).await.unwrap_or_else(|error| {
            tracing::debug!(error = ?error, "the watch waits for the store");
            None
        });
        epoch.map(|epoch| NamedLease {
            name: LEASE.to_owned(),
            epoch,
        })
    }

    async fn look_at_everything(&self, running: &mut BTreeSet<String>) -> (Standing, Numbers) {
        let (endpoints, seen, alarm, runs) = tokio::join!(
            self.store.endpoints_not_available(),
            self.seen(Oldest::OnePage),
            self.broker.blocked(),
            self.look_at_runs(running),
        );
        let (endpoints, is_listed) = (endpoints.ok(), seen.is_ok());
        // What cannot be listed is not asked for queue by queue.
        let dead = match &seen {
            Ok(_) => self.dead_counts().await.ok(),
            Err(_) => None,
        };
        let sums = match (&endpoints, seen) {
            (Some(endpoints), Ok(seen)) => self.sum_up(endpoints, &seen, alarm.clone()).await.ok(),
            _ => None,
        };
        if is_listed || alarm.is_some() {
            metrics::gauge!(names::BROKER_BLOCKED).set(if alarm.is_some() { 1.0 } else { 0.0 });
        }
        let waits = |url: &EndpointUrl| sums.as_ref()?.of_urls.get(url).copied();
        let broker = alarm.map(|why| {
            let condition = Condition {
                kind: TurnKind::BrokerAlarm,
                text: format!("the broker takes no publishes: {}", show(&why, NAME_WIDTH_MAX)),
                count: None,
            };
            ("broker".to_owned(), condition)
        });
        let standing = Standing {
            endpoints: endpoints.map(|all| {
                let worst = all.iter().take(CONDITIONS_MAX);
                worst.filter_map(|one| condition(one, waits(&one.url))).collect()
            }),
            // Without the management API only an alarm that this process met is known.
            broker: (is_listed || broker.is_some()).then(|| broker.into_iter().collect()),
            dead: dead.as_ref().map(|(counts, _)| counts.clone()),
            runs: runs.ok(),
            queues: sums.as_ref().map(|sums| sums.bad.clone()),
        };
        let dead = dead
            .filter(|(_, whole)| *whole)
            .map(|(counts, _)| counts.values().sum());
        (standing, numbers(sums.as_ref(), dead, self.clock.now()))
    }

    /// The runs that are not over, and those that were `running` at the look before, which may be over now.
    async fn look_at_runs(&self, running: &mut BTreeSet<String>) -> Result<Runs, StoreError> {
        let query = RunQuery {
            open: true,
            limit: RUNS_MAX,
            ..RunQuery::default()
        };
        let mut runs: Runs = self.store.runs(&query).await?.iter().map(run).collect();
        let open: BTreeSet<String> = runs.keys().cloned().collect();
        for id in running.difference(&open) {
            runs.extend(self.store.run_get(id).await?.as_ref().map(run));
        }
        *running = open;
        Ok(runs)
    }

    async fn sum_up(&self, endpoints: &[Endpoint], seen: &[Seen], alarm: Option<String>) -> Result<Sums, EngineError> {
        let incarnations = self.store.incarnations().await?;
        let rates = &self.settings.rates;
        let world = World::new(&incarnations, endpoints.iter().cloned(), alarm, rates, self.clock.now());
        let uncounted: HashSet<&QueueName> = seen
            .iter()
            .filter(|one| one.ready.is_none())
            .map(|one| &one.name)
            .collect();
        let oldest: HashMap<&QueueName, Timestamp> = seen
            .iter()
            .filter_map(|one| Some((&one.name, one.oldest_at?)))
            .collect();
        let mut sums = Sums {
            waiting: Some(0),
            of_urls: endpoints.iter().map(|one| (one.url.clone(), 0)).collect(),
            ..Sums::default()
        };
        self.join(&world, seen, |view| {
            let known = view.ready.is_some() || uncounted.contains(&view.name);
            let oldest_at = oldest.get(&view.name).copied();
            sums.add(&view, known, oldest_at);
        })
        .await?;
        Ok(sums)
    }
}

impl Sums {
    /// `known`: the broker lists it; else nothing is in it.
    fn add(&mut self, view: &QueueView, known: bool, oldest_at: Option<Timestamp>) {
        if view.kind != QueueKind::Delivery {
            return;
        }
        if let Some(place) = QUEUE_STATES.iter().position(|state| view.state == Some(*state)) {
            self.queues[place] += 1;
        }
        if let Some(condition) = bad(view)
            && self.bad.len() < CONDITIONS_MAX
        {
            self.bad.insert(view.name.as_str().to_owned(), condition);
        }
        if !known {
            return;
        }
        self.waiting = self.waiting.zip(view.depth()).map(|(sum, depth)| sum + depth);
        let depth = view.depth().unwrap_or(0);
        if depth == 0 {
            return;
        }
        self.oldest_at = match (self.oldest_at, oldest_at) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
        if let Some(sum) = view.url.as_ref().and_then(|url| self.of_urls.get_mut(url)) {
            *sum += depth;
        }
    }
}

fn bad(view: &QueueView) -> Option<Condition> {
    let (kind, what) = match view.state? {
        QueueState::Quarantined => (TurnKind::QueueQuarantined, "is set aside"),
        QueueState::Refused => (TurnKind::QueueRefused, "is not delivered"),
        QueueState::Delivering
        | QueueState::Empty
        | QueueState::WaitingRetry
        | QueueState::EndpointUnavailable
        | QueueState::Parked
        | QueueState::EndpointDisabled
        | QueueState::Paused
        | QueueState::RateLimited
        | QueueState::Unowned
        | QueueState::BrokerBlocked
        | QueueState::Ended => return None,
    };
    let why = view.why.as_ref().map_or("", |why| why.text.as_str());
    Some(Condition {
        kind,
        text: format!("queue {} {what}: {}", view.name.as_str(), show(why, NAME_WIDTH_MAX)),
        count: view.depth(),
    })
}

fn condition(endpoint: &Endpoint, waiting: Option<u64>) -> Option<(String, Condition)> {
    let (kind, what) = match endpoint.state {
        EndpointState::Available => return None,
        EndpointState::Unavailable => (TurnKind::EndpointUnavailable, "is unavailable"),
        EndpointState::Parked => (TurnKind::EndpointParked, "is parked and waits for a person"),
        EndpointState::Disabled => (TurnKind::EndpointDisabled, "is disabled and waits for a person"),
    };
    let subject = show(&endpoint.url.redacted(), NAME_WIDTH_MAX);
    let status = endpoint.last_status.map(|status| status.to_string());
    let why = endpoint.last_error.as_deref().map(|error| show(error, NAME_WIDTH_MAX));
    let why = why.or(status).map_or_else(String::new, |why| format!(": {why}"));
    let waits = waiting.map_or_else(String::new, |count| format!(", {count} messages wait"));
    let text = format!("{subject} {what} after {} attempts{waits}{why}", endpoint.attempts);
    let condition = Condition {
        kind,
        text,
        count: waiting,
    };
    Some((subject, condition))
}

fn run(run: &RunRecord) -> (String, (RunState, String)) {
    let counts = &run.counts;
    let note = run
        .note
        .as_deref()
        .map_or_else(String::new, |note| format!(": {}", show(note, NAME_WIDTH_MAX)));
    let what = match run.state {
        RunState::Canary => "stopped and asks",
        RunState::Failed => "stopped before its end",
        RunState::Done => "is done",
        RunState::Cancelled => "was ended by a person",
        RunState::Planned | RunState::Running | RunState::Paused => "goes on",
    };
    let text = format!(
        "run {} ({}) {what} with {} of {} items done{note}",
        run.id,
        run.command,
        counts.settled(),
        run.total
    );
    (run.id.clone(), (run.state, text))
}

fn numbers(sums: Option<&Sums>, dead: Option<u64>, now: Timestamp) -> Numbers {
    let waiting = sums.and_then(|sums| sums.waiting);
    let oldest = match (waiting, sums.and_then(|sums| sums.oldest_at)) {
        (Some(0), _) => Some(Duration::ZERO),
        (_, oldest) => oldest.map(|at| now.since(at)),
    };
    Numbers {
        waiting,
        oldest,
        dead,
        queues: sums.map(|sums| sums.queues),
    }
}

/// What is not known is no number.
fn show_numbers(numbers: &Numbers) {
    #[expect(clippy::cast_precision_loss, reason = "a number of messages")]
    let count = |count: Option<u64>| count.map_or(f64::NAN, |count| count as f64);
    metrics::gauge!(names::WAITING).set(count(numbers.waiting));
    metrics::gauge!(names::OLDEST_WAITING).set(numbers.oldest.map_or(f64::NAN, |age| age.as_secs_f64()));
    metrics::gauge!(names::DEAD_LETTERS_NOW).set(count(numbers.dead));
    for (place, state) in QUEUE_STATES.iter().enumerate() {
        let number = numbers.queues.map(|queues| queues[place]);
        metrics::gauge!(names::QUEUES, "state" => state.as_str()).set(count(number));
    }
}
