//! Working on a run: its lease, its sources one after the other, and what becomes of it in the end.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::Runs;
use super::flight::Flight;
use super::order::{OrderKind, WINDOW};
use super::plan::Document;
use super::uncertain::Uncertain;
use super::window::Outcomes;
use crate::ambient::{self, HashMap, HashSet};
use crate::broker::{BrokerError, DeliveryTag};
use crate::domain::dead_letter::DeadLetterId;
use crate::domain::id::QueueName;
use crate::domain::message::Message;
use crate::domain::queue::QueueRecord;
use crate::domain::run::{ItemState, Pace, RunCounts, RunState, Target};
use crate::engine::EngineError;
use crate::engine::error::chain;
use crate::engine::manage::Manager;
use crate::store::{ItemMark, ItemQuery, Lease, NewAudit, RunRecord, RunStop, RunTaken, StoreError};

/// Queues of which it is said that what is known of them is old, at most.
const STALE_MAX: usize = 100;
/// Items that are read and recorded at once.
pub(super) const PAGE: u32 = 5_000;
/// Between two looks at what a run waits for.
pub(super) const PAUSE: Duration = Duration::from_secs(1);

/// Why a run is not worked on any more, for now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Halt {
    /// Somebody else holds it.
    Lost,
    /// A person paused or cancelled it.
    Asked(RunState),
    /// This process stops.
    Stopped,
    /// Its canary is done.
    Canary,
    /// It is time to look what became of those that were sent.
    Look,
    /// What was sent comes to grief while it is watched.
    Trouble(String),
    /// Something that passes.
    Waits(String),
    /// Something that a person has to mend.
    Broken(String),
}

impl From<BrokerError> for Halt {
    fn from(error: BrokerError) -> Self {
        match error {
            BrokerError::Unreachable { .. }
            | BrokerError::Unknown { .. }
            | BrokerError::Blocked { .. }
            | BrokerError::Limit { .. }
            | BrokerError::Management { .. }
            // What a lost channel answers, too: a person sees the reason and may cancel.
            | BrokerError::Failed { .. } => Self::Waits(chain(&error)),
            BrokerError::Login { .. }
            | BrokerError::Rights { .. }
            | BrokerError::Vhost { .. }
            | BrokerError::OtherArguments { .. }
            | BrokerError::NoExchange { .. }
            | BrokerError::Undecodable { .. } => Self::Broken(chain(&error)),
        }
    }
}

impl From<StoreError> for Halt {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Unreachable { .. } | StoreError::NotWritable { .. } => Self::Waits(chain(&error)),
            StoreError::Schema(_) | StoreError::Failed { .. } | StoreError::Unusable { .. } => {
                Self::Broken(chain(&error))
            }
        }
    }
}

impl From<EngineError> for Halt {
    fn from(error: EngineError) -> Self {
        match error {
            EngineError::Broker(error) => error.into(),
            EngineError::Store(error) => error.into(),
            EngineError::Unconfirmed { .. }
            | EngineError::Refused { .. }
            | EngineError::Busy { .. }
            | EngineError::Unread(_) => Self::Waits(chain(&error)),
            EngineError::Invalid { .. }
            | EngineError::InvalidPolicy(_)
            | EngineError::RefusedUrl { .. }
            | EngineError::TooLarge { .. }
            | EngineError::OtherOwner { .. }
            | EngineError::Expired { .. }
            | EngineError::NotFound { .. } => Self::Broken(chain(&error)),
        }
    }
}

/// An item without an outcome.
#[derive(Clone, Debug)]
pub(super) struct Open {
    pub(super) ordinal: u64,
    pub(super) letter: String,
    /// Shared by all that go there: a run may have a million items.
    pub(super) target: Option<Arc<Target>>,
    pub(super) state: ItemState,
}

/// Open items of one source, by what equal messages have in common.
pub(super) type OpenItems = HashMap<String, Vec<Open>>;

/// A message in hand with the item that it is.
#[derive(Clone, Debug)]
pub(super) struct InHand {
    pub(super) ordinal: u64,
    pub(super) letter: String,
    pub(super) source: QueueName,
    pub(super) target: Target,
    pub(super) message: Message,
    pub(super) tag: DeliveryTag,
    pub(super) state: ItemState,
}

/// Who works on a run.
pub(super) struct Driver<'a> {
    pub(super) engine: &'a Arc<Runs>,
    pub(super) run: RunRecord,
    pub(super) document: Document,
    pub(super) manager: &'a Manager,
    pub(super) stop: &'a CancellationToken,
    pub(super) counts: RunCounts,
    pub(super) pace: Option<Pace>,
    /// Settled at their source, not yet recorded so.
    pub(super) pending: Vec<ItemMark>,
    /// Recorded as settled a moment ago: the broker may not have heard of the last ones.
    pub(super) uncertain: Uncertain,
    /// The row of the delivery queue that is walked.
    pub(super) row: Option<QueueRecord>,
    /// Taken out of a dead-letter queue, not yet out of the index.
    pub(super) taken_out: Vec<DeadLetterId>,
    /// When the claim was kept last (uptime).
    pub(super) held_at: Duration,
    /// Of the claim on the dead-letter queue that is walked.
    pub(super) generation: Option<i64>,
    /// Whether anybody edited anything.
    pub(super) edits: bool,
    /// Dead letters that were met of which there may be copies, and the copies that were.
    pub(super) met: HashSet<String>,
    pub(super) copies: Vec<DeliveryTag>,
    /// When the endpoints, and when the dead letters were looked at last (uptime), where the run watches itself.
    pub(super) looked_at: (Duration, Duration),
    /// Sent and not confirmed yet.
    pub(super) flight: Option<Flight>,
    /// Confirmed, and neither recorded nor settled at its source yet.
    pub(super) landed: Outcomes,
    /// The first one of those that were met again after they were journalled.
    pub(super) met_journalled: Option<u64>,
    /// Until when a process that stops waits for what is in hand (uptime).
    gives_up_at: OnceLock<Duration>,
    /// Outcomes when a window failed last.
    stuck_at: Option<u64>,
    /// One message at a time: a window failed, and nobody knows which of its messages is to blame.
    pub(super) careful: usize,
}

impl Runs {
    /// Works on a run until it is over, a person stops it, somebody else has it, or `stop`.
    pub(super) async fn drive_run(self: Arc<Self>, id: String, stop: CancellationToken) {
        let manager = match self.begin_managing("run").await {
            Ok(manager) => manager,
            Err(error) => {
                tracing::warn!(run = ?id, error = ?error, "a run cannot be worked on yet");
                return;
            }
        };
        let engine = Arc::clone(&self);
        // Work that panicked is over as well: the run is free with its incarnation, and whoever looks goes on with it.
        let work = ambient::spawn("work on a run", async move {
            engine.take_and_drive(id, &manager, stop).await;
            manager.end().await;
        });
        let _ = work.await;
        self.news.moved.send_replace(());
    }

    async fn take_and_drive(self: &Arc<Self>, id: String, manager: &Manager, stop: CancellationToken) {
        match self.store.run_take(&id, manager.id()).await {
            Ok(RunTaken::Taken(run)) => self.drive_taken(*run, manager, &stop).await,
            Ok(other) => tracing::debug!(run = ?id, ?other, "a run is not to be had"),
            Err(error) => tracing::warn!(run = ?id, error = ?error, "a run cannot be taken yet"),
        }
    }

    async fn drive_taken(self: &Arc<Self>, run: RunRecord, manager: &Manager, stop: &CancellationToken) {
        tracing::info!(run = ?run.id, command = ?run.command, "working on a run");
        if self.events.drive_events(&run, stop).await {
            return;
        }
        let document = match Document::read(&run.plan) {
            Ok(document) => document,
            Err(reason) => {
                let stop = ended(RunState::Failed, run.counts, Some(reason));
                let _ = self.store.run_stop(&run.id, run.epoch, &stop).await;
                return;
            }
        };
        let now = self.clock.uptime();
        let mut driver = Driver {
            engine: self,
            pace: run.rate.map(|rate| Pace::new(rate, now)),
            counts: run.counts,
            run,
            document,
            manager,
            stop,
            pending: Vec::new(),
            uncertain: Uncertain::default(),
            row: None,
            taken_out: Vec::new(),
            held_at: Duration::ZERO,
            generation: None,
            edits: false,
            met: HashSet::default(),
            copies: Vec::new(),
            looked_at: (now, now),
            flight: None,
            landed: Outcomes::default(),
            met_journalled: None,
            gives_up_at: OnceLock::new(),
            stuck_at: None,
            careful: 0,
        };
        driver.run_to_end().await;
    }
}

fn ended(state: RunState, counts: RunCounts, note: Option<String>) -> RunStop {
    RunStop { state, counts, note }
}

impl Driver<'_> {
    async fn run_to_end(&mut self) {
        loop {
            let halt = match self.work().await {
                Ok(()) => return self.end(RunState::Done, None).await,
                Err(halt) => halt,
            };
            tracing::info!(run = ?self.run.id, ?halt, "a run halts");
            match halt {
                Halt::Waits(why) => {
                    self.take_care();
                    if let Err(halt) = self.wait(why).await {
                        tracing::debug!(run = ?self.run.id, ?halt, "a run is given back");
                        return self.give_back().await;
                    }
                }
                Halt::Canary | Halt::Look => match self.looked(&halt).await {
                    Ok(None) => {}
                    Ok(Some(note)) => return self.end(RunState::Canary, Some(note)).await,
                    Err(halt) => {
                        tracing::debug!(run = ?self.run.id, ?halt, "a run is given back");
                        return self.give_back().await;
                    }
                },
                Halt::Trouble(note) => return self.end(RunState::Canary, Some(note)).await,
                Halt::Broken(why) => return self.end(RunState::Failed, Some(why)).await,
                Halt::Lost | Halt::Asked(_) | Halt::Stopped => return self.give_back().await,
            }
        }
    }

    /// Where two windows in a row came to nothing, one of their messages may be to blame: each goes alone then.
    fn take_care(&mut self) {
        let done = self.counts.settled();
        if self.stuck_at == Some(done) {
            self.careful = WINDOW;
        }
        self.stuck_at = Some(done);
    }

    /// Whether this process stops and has waited for long enough: what is in hand is left as after a crash then.
    pub(super) fn gives_up(&self) -> bool {
        let now = self.engine.clock.uptime();
        let until = || *self.gives_up_at.get_or_init(|| now + self.engine.settings.drain);
        self.stop.is_cancelled() && now >= until()
    }

    /// What is known of the queues that this run took from, or put into, is old.
    async fn index_is_old(&self) {
        let sources = self
            .document
            .sources
            .iter()
            .filter_map(|name| QueueName::parse(name).ok());
        let targets = self
            .document
            .targets
            .keys()
            .filter_map(|target| match Target::decode(target) {
                Some(Target::Queue(queue)) => Some(queue),
                Some(Target::Exchange { .. }) | None => None,
            });
        let touched: BTreeSet<QueueName> = sources.chain(targets.take(STALE_MAX)).collect();
        for queue in touched {
            if let Err(error) = self.engine.store.dead_stale(&queue).await {
                tracing::debug!(queue = ?queue, error = ?error, "that a look is old is found by its age");
            }
        }
    }

    async fn give_back(&self) {
        self.index_is_old().await;
        if let Err(error) = self.engine.store.run_free(&self.run.id, self.run.epoch).await {
            tracing::debug!(error = ?error, "a run is free with the end of its incarnation");
        }
    }

    /// The lease of a delivery queue, which nothing of this run works on.
    pub(super) async fn lease(&self, queue: &QueueName) -> Result<Lease, Halt> {
        self.manager.lease(queue).await.map_err(|error| {
            if self.manager.is_disowned() {
                Halt::Lost
            } else {
                Halt::from(error)
            }
        })
    }

    /// Says what it waits for and waits a moment; `Err` when it is not to go on.
    pub(super) async fn wait(&mut self, why: String) -> Result<(), Halt> {
        if self.manager.is_disowned() {
            return Err(Halt::Lost);
        }
        if let Some(state) = self.say(Some(why)).await
            && state != RunState::Running
        {
            return Err(Halt::Asked(state));
        }
        let waited = self.stop.run_until_cancelled(ambient::sleep(PAUSE)).await;
        waited.ok_or(Halt::Stopped)
    }

    async fn end(&mut self, state: RunState, note: Option<String>) {
        self.index_is_old().await;
        let stop = ended(state, self.counts, note.clone());
        let store = &self.engine.store;
        let stopped = loop {
            match store.run_stop(&self.run.id, self.run.epoch, &stop).await {
                Err(StoreError::Unreachable { .. } | StoreError::NotWritable { .. }) if !self.stop.is_cancelled() => {
                    ambient::sleep(PAUSE).await;
                }
                other => break other,
            }
        };
        if !matches!(stopped, Ok(true)) {
            return self.give_back().await;
        }
        if state.is_over() {
            let entry = NewAudit {
                actor: self.run.actor.clone(),
                command: self.run.command.clone(),
                target: format!("run {}", self.run.id),
                reason: self.run.reason.clone(),
                plan: Some(self.run.hash.clone()),
                result: state.as_str().to_owned(),
                detail: outcome(self.counts, self.run.total, note.as_deref()),
            };
            if let Err(error) = store.audit_append(&entry).await {
                tracing::warn!(error = ?error, "the end of a run is not in the audit");
            }
        }
        tracing::info!(run = ?self.run.id, state = state.as_str(), done = self.counts.done, failed = self.counts.failed, skipped = self.counts.skipped, "a run stopped");
    }

    /// One pass over everything that has no outcome yet.
    async fn work(&mut self) -> Result<(), Halt> {
        self.counts = self.engine.store.run_counts(&self.run.id).await?;
        if self.is_canary_done() {
            return Err(Halt::Canary);
        }
        self.edits = self.has_edits().await?;
        self.met.clear();
        self.copies.clear();
        self.met_journalled = None;
        for (source, open) in self.open_items().await? {
            if self.document.kind == OrderKind::Restore {
                self.restore(&source, open).await?;
            } else {
                self.take_source(&source, open).await?;
            }
        }
        Ok(())
    }

    async fn open_items(&self) -> Result<BTreeMap<QueueName, OpenItems>, Halt> {
        let mut sources: BTreeMap<QueueName, OpenItems> = BTreeMap::new();
        let mut query = ItemQuery {
            run: self.run.id.clone(),
            open: true,
            limit: PAGE,
            ..ItemQuery::default()
        };
        let mut targets: BTreeSet<Arc<Target>> = BTreeSet::new();
        loop {
            let page = self.engine.store.run_items(&query).await?;
            let Some(last) = page.last() else { break };
            query.after = Some(last.item.ordinal);
            for record in page {
                let open = Open {
                    ordinal: record.item.ordinal,
                    target: record.item.target.map(|target| shared(&mut targets, target)),
                    state: record.item.state,
                    letter: record.item.letter,
                };
                let key = super::letters::common(&open.letter).to_owned();
                sources
                    .entry(record.item.source)
                    .or_default()
                    .entry(key)
                    .or_default()
                    .push(open);
            }
        }
        for open in sources.values_mut().flat_map(HashMap::values_mut) {
            // The last one is taken first.
            open.reverse();
        }
        Ok(sources)
    }
}

/// The one of `targets` that is equal to `target`.
fn shared(targets: &mut BTreeSet<Arc<Target>>, target: Target) -> Arc<Target> {
    if let Some(known) = targets.get(&target) {
        return Arc::clone(known);
    }
    let new = Arc::new(target);
    targets.insert(Arc::clone(&new));
    new
}

/// One line about what came of it.
fn outcome(counts: RunCounts, total: u64, note: Option<&str>) -> String {
    let mut text = format!(
        "{} of {total} done, {} failed, {} skipped",
        counts.done, counts.failed, counts.skipped
    );
    if let Some(note) = note {
        text.push_str("; ");
        text.push_str(note);
    }
    text
}
