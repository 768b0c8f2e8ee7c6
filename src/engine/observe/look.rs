//! One look: store and broker are read at the same time, and what cannot be read keeps what it had.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use super::Observation;
use super::intern::Interner;
use super::kept;
use super::rows::{Moves, Rows, recounted, seen_before};
use super::sample::Sample;
use super::totals::{Listed, endpoint_rows, totals};
use crate::ambient::{self, HashMap};
use crate::broker::{BrokerError, VhostFound};
use crate::domain::endpoint::{Endpoint, EndpointState};
use crate::domain::id::QueueName;
use crate::domain::queue::QueueRecord;
use crate::domain::time::Timestamp;
use crate::engine::death::as_evident;
use crate::engine::endpoints::retries;
use crate::engine::error::chain;
use crate::engine::process::host;
use crate::engine::queues::listing::Oldest;
use crate::engine::queues::seen::Seen;
use crate::engine::queues::world::{Absence, World};
use crate::engine::row::{QueueFacts, QueueRow};
use crate::engine::runs::RunView;
use crate::engine::snapshot::{EndpointRow, Part, Silent, Snapshot, Worst};
use crate::engine::view::Retry;
use crate::store::{EndpointQuery, Incarnation, RunQuery, StoreError};

/// Endpoints read at once.
const ENDPOINTS: u32 = 1_000;
/// Retries shown at most.
const RETRIES_MAX: u32 = 1_000;

/// How long AMQP may take to answer before it is taken for away.
const ANSWERS: Duration = Duration::from_secs(5);

/// Runs looked through at most, the newest.
const RUNS_MAX: u32 = 100;

/// Who looks, and what it saw last.
#[derive(Debug)]
pub(super) struct Looker {
    engine: Arc<Observation>,
    pub(super) last: Arc<Snapshot>,
    texts: Interner,
    sample: Sample,
}

/// What is read before the rows of queues.
struct Known {
    incarnations: Vec<Incarnation>,
    endpoints: Vec<(Endpoint, u64)>,
    waiting: Vec<QueueRecord>,
    /// Dead letters in the store.
    stored: u64,
}

impl Known {
    /// The endpoints that something waits for; of many that are available and not paced none is copied.
    fn special(&self) -> impl Iterator<Item = Endpoint> {
        self.endpoints
            .iter()
            .filter(|(endpoint, _)| endpoint.state != EndpointState::Available || endpoint.pace.is_some())
            .map(|(endpoint, _)| endpoint.clone())
    }
}

/// What the store and the broker together say.
struct Content {
    queues: Arc<Vec<Arc<QueueRow>>>,
    endpoints: Arc<Vec<Arc<EndpointRow>>>,
    retries: Arc<Vec<Arc<Retry>>>,
    incarnations: Arc<Vec<Incarnation>>,
    /// Since the last look.
    delivered: u64,
}

/// How everything moves, at present.
fn moves(engine: &Observation) -> Moves<'_> {
    Moves {
        series: &engine.seen.series,
        naming: &engine.settings.naming,
        uptime: engine.clock.uptime(),
        only_looks: !*engine.news.delivering.borrow(),
    }
}

impl Looker {
    pub(super) fn new(engine: Arc<Observation>) -> Self {
        Self {
            texts: Interner::default(),
            sample: Sample::default(),
            last: Arc::default(),
            engine,
        }
    }

    /// From now on others of this process need not look themselves.
    pub(super) fn show(&self, snapshot: &Arc<Snapshot>) {
        *self.engine.observed.lock().unwrap_or_else(PoisonError::into_inner) = Arc::downgrade(snapshot);
    }

    /// The next snapshot.
    pub(super) async fn look(&mut self) -> Arc<Snapshot> {
        let began = self.engine.clock.uptime();
        let engine = Arc::clone(&self.engine);
        let (known, runs, seen, blocked, incident, letters_wait) = tokio::join!(
            known(&engine),
            open_runs(&engine),
            seen(&engine),
            self.engine.broker.blocked(),
            self.engine.doctor.incident(),
            self.engine.doctor.letters_wait()
        );
        let now = self.engine.clock.now();
        let last = Arc::clone(&self.last);
        let absence = seen.as_ref().err().map(|error| Absence::Unread(chain(error)));
        let silent = match &seen {
            Ok(_) => None,
            Err(error) => silent(&self.engine, error).await,
        };
        let broker = part(&last.broker, seen.as_ref().err().map(|error| chain(error)), now);
        let is_listed = seen.is_ok();
        let stored = known.as_ref().ok().map(|known| known.stored);
        // What was listed before is no count of today.
        let dead = engine.dead_letters.count(seen.as_deref().ok(), stored).await;
        let seen = seen.unwrap_or_else(|_| seen_before(&last.queues, last.broker.taken_at.unwrap_or(now)));
        let listed = Listed::of(&seen, broker.taken_at);
        let content = match known {
            Ok(known) => {
                let rates = &engine.settings.rates;
                let world = World::new(&known.incarnations, known.special(), blocked.clone(), rates, now)
                    .where_absent(absence)
                    .where_letters_wait(letters_wait)
                    .known_to(&engine);
                self.content(known, &world, &seen, &listed).await
            }
            Err(error) => Err(error),
        };
        let store = part(&last.store, content.as_ref().err().map(|error| chain(error)), now);
        let content = content.unwrap_or_else(|_| self.content_without_store(is_listed.then_some(seen), &listed));
        let dead_letter_queue = self.engine.settings.naming.dead_letter_queue();
        let mut totals = totals(&content.queues, &content.endpoints, &listed, &dead_letter_queue);
        totals.dead_own = totals.dead_own.zip(stored).map(|(own, stored)| own + stored);
        totals.dead = dead.sum;
        totals.delivered = delivered_since(&last, content.delivered);
        self.last = Arc::new(Snapshot {
            generation: last.generation + 1,
            taken_at: self.engine.clock.now(),
            took: self.engine.clock.uptime().saturating_sub(began),
            latency: None,
            broker,
            store,
            silent,
            dead_unread: dead.unread,
            dead_places: dead.places.map(Arc::new),
            alarm: blocked,
            incident,
            dead_letter_queue: QueueName::parse(&dead_letter_queue).ok(),
            worst: Worst::of(&content.queues, &content.endpoints),
            queues: content.queues,
            endpoints: content.endpoints,
            retries: content.retries,
            incarnations: content.incarnations,
            runs: runs.unwrap_or_else(|| Arc::clone(&last.runs)),
            totals,
        });
        drop(last);
        self.texts.forget_unused();
        Arc::clone(&self.last)
    }

    async fn content(
        &mut self,
        known: Known,
        world: &World,
        seen: &[Seen],
        listed: &Listed,
    ) -> Result<Content, StoreError> {
        let last = Arc::clone(&self.last);
        let mut items = retries::arrange(known.special(), &known.waiting);
        items.truncate(RETRIES_MAX as usize);
        let engine = Arc::clone(&self.engine);
        let moves = moves(&engine);
        if moves.only_looks {
            let waiting = |seen: &Seen| Some(seen.ready? + seen.unacked.unwrap_or(0));
            engine
                .seen
                .series
                .listed(seen.iter().map(|seen| (&seen.name, waiting(seen))));
            self.sample.take(&engine).await;
        }
        engine.seen.series.roll(moves.uptime);
        let probing = retries::unfilled(&items);
        let mut rows = Rows::new(&last.queues, &mut self.texts, seen, probing, moves);
        self.engine.queues.join(world, seen, |view| rows.push(view)).await?;
        retries::fill(&mut items, &rows.heads);
        let delivered = rows.delivered;
        let mut delivered_to = std::mem::take(&mut rows.delivered_to);
        if last.store.taken_at.is_none() {
            delivered_to.clear();
        }
        let queues = rows.finish(&last.queues);
        Ok(Content {
            endpoints: endpoint_rows(
                known.endpoints,
                &queues,
                listed,
                &last.endpoints,
                &delivered_to,
                (engine.clock.now(), moves),
            ),
            retries: shared(items, &last.retries),
            incarnations: Arc::new(known.incarnations),
            queues,
            delivered,
        })
    }

    /// What the store said last, with what the broker says now.
    fn content_without_store(&self, seen: Option<Vec<Seen>>, listed: &Listed) -> Content {
        let last = &self.last;
        let queues = match seen {
            Some(seen) => recounted(&last.queues, seen, |seen| {
                QueueFacts::unknown(seen.name.clone(), self.engine.kind_in(&seen.name, Some(seen)))
            }),
            None => Arc::clone(&last.queues),
        };
        let endpoints = last.endpoints.iter().map(|row| (row.endpoint.clone(), row.queues));
        Content {
            endpoints: endpoint_rows(
                endpoints.collect(),
                &queues,
                listed,
                &last.endpoints,
                &HashMap::default(),
                (self.engine.clock.now(), moves(&self.engine)),
            ),
            retries: Arc::clone(&last.retries),
            incarnations: Arc::clone(&last.incarnations),
            queues,
            delivered: 0,
        }
    }
}

/// What the broker lists, and where in it dead letters are.
async fn seen(engine: &Arc<Observation>) -> Result<Vec<Seen>, BrokerError> {
    engine.dead_letters.count_events().await;
    let listed = engine.broker.queues_all().await?.queues;
    engine.dead_letters.find_places(&listed).await;
    Ok(engine.queues.seen_in(listed, Oldest::OnePage).await)
}

/// How much of the broker is away when its queues could not be listed: whether AMQP answers says it.
async fn silent(engine: &Observation, error: &BrokerError) -> Option<Silent> {
    if matches!(error, BrokerError::Vhost { .. }) {
        return Some(Silent::Vhost);
    }
    match ambient::timeout(ANSWERS, engine.broker.vhost()).await {
        Ok(Ok(VhostFound::There)) => Some(Silent::Management),
        Ok(Ok(VhostFound::Missing { .. })) => Some(Silent::Vhost),
        Ok(Err(BrokerError::Unreachable { .. })) | Err(_) => Some(Silent::Broker),
        Ok(Err(_)) => None,
    }
}

/// Runs that are not over; `None`: they cannot be read at present.
async fn open_runs(engine: &Arc<Observation>) -> Option<Arc<Vec<RunView>>> {
    let query = RunQuery {
        open: true,
        limit: RUNS_MAX,
        ..RunQuery::default()
    };
    Some(Arc::new(engine.run_reader.run_views(&query).await.ok()?))
}

async fn known(engine: &Observation) -> Result<Known, StoreError> {
    let store = &engine.store;
    let mut endpoints = Vec::new();
    loop {
        let page = store
            .endpoints_page(&EndpointQuery {
                not_available: false,
                offset: endpoints.len() as u64,
                limit: ENDPOINTS,
            })
            .await?;
        let full = page.len() == ENDPOINTS as usize;
        endpoints.extend(page);
        if !full {
            break;
        }
    }
    Ok(Known {
        incarnations: others(as_evident(store, store.incarnations().await?).await?),
        waiting: store.queues_waiting(RETRIES_MAX).await?,
        stored: store.stored_letters_count().await?,
        endpoints,
    })
}

/// Without what this very process is beside delivering: its own operator. Who is attached to it is somebody else.
fn others(mut all: Vec<Incarnation>) -> Vec<Incarnation> {
    let (host, pid) = (host(), std::process::id());
    all.retain(|one| one.delivers || one.pid != pid || one.host != host || one.attached().is_some());
    all
}

fn part(last: &Part, problem: Option<String>, now: Timestamp) -> Part {
    Part {
        taken_at: if problem.is_none() { Some(now) } else { last.taken_at },
        problem,
    }
}

/// Retries that did not change are the last snapshot's.
fn shared(items: Vec<Retry>, last: &Arc<Vec<Arc<Retry>>>) -> Arc<Vec<Arc<Retry>>> {
    let known: HashMap<_, &Arc<Retry>> = last.iter().map(|retry| ((&retry.queue, &retry.url), retry)).collect();
    let items = items.into_iter().map(|retry| {
        let before = known.get(&(&retry.queue, &retry.url)).copied();
        kept::item(retry, before)
    });
    kept::list(items.collect(), last)
}

/// With this look's; what was delivered before the first look is not counted.
fn delivered_since(last: &Snapshot, delivered: u64) -> u64 {
    let counted = last.store.taken_at.map_or(0, |_| delivered);
    last.totals.delivered.saturating_add(counted)
}
