//! A run that this process took: what is to be done, its items that have no outcome yet, and why it is not worked on any
//! more.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::Runs;
use super::order::OrderKind;
use super::plan::Document;
use super::source::AHEAD;
use crate::ambient::HashMap;
use crate::broker::{BrokerError, DeliveryTag, WalkOptions};
use crate::domain::id::QueueName;
use crate::domain::message::Message;
use crate::domain::run::{ItemState, RunState, Target};
use crate::engine::EngineError;
use crate::engine::error::chain;
use crate::engine::looks::Cost;
use crate::engine::manage::Manager;
use crate::store::{ItemQuery, Lease, RunRecord, StoreError};

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
    /// What was sent fails while it is watched.
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
    /// It is recorded that the broker did not confirm it.
    pub(super) is_unanswered: bool,
}

impl Open {
    /// With its message, taken out of `source`; an item without a target goes back there.
    pub(super) fn with(self, source: &QueueName, message: Message, tag: DeliveryTag) -> InHand {
        let target = self
            .target
            .as_deref()
            .map_or_else(|| Target::Queue(source.clone()), Target::clone);
        InHand {
            ordinal: self.ordinal,
            letter: self.letter,
            source: source.clone(),
            target,
            message,
            tag,
            state: self.state,
        }
    }
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

/// What is to be done, and by whom. Who works on it changes nothing of it but the size of the next stage.
pub(super) struct TakenRun<'a> {
    pub(super) engine: &'a Arc<Runs>,
    pub(super) record: RunRecord,
    pub(super) document: Document,
    pub(super) manager: &'a Manager,
    pub(super) stop: &'a CancellationToken,
    /// Whether anybody edited anything.
    pub(super) has_edits: bool,
    /// Until when a process that stops waits for what is in hand (uptime).
    gives_up_at: OnceLock<Duration>,
}

impl<'a> TakenRun<'a> {
    pub(super) fn new(
        engine: &'a Arc<Runs>,
        (record, document): (RunRecord, Document),
        manager: &'a Manager,
        stop: &'a CancellationToken,
    ) -> Self {
        Self {
            engine,
            record,
            document,
            manager,
            stop,
            has_edits: false,
            gives_up_at: OnceLock::new(),
        }
    }

    /// Whether this process stops and has waited for long enough: what is in hand is left as after a crash then.
    pub(super) fn gives_up(&self) -> bool {
        let now = self.engine.clock.uptime();
        let until = || *self.gives_up_at.get_or_init(|| now + self.engine.settings.drain);
        self.stop.is_cancelled() && now >= until()
    }

    /// What is known of the queues that this run took from, or put into, is old.
    pub(super) async fn index_is_old(&self) {
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

    pub(super) async fn give_back(&self) {
        self.index_is_old().await;
        if let Err(error) = self.engine.store.run_free(&self.record.id, self.record.epoch).await {
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

    pub(super) async fn open_items(&self) -> Result<BTreeMap<QueueName, OpenItems>, Halt> {
        let mut sources: BTreeMap<QueueName, OpenItems> = BTreeMap::new();
        let mut query = ItemQuery {
            run: self.record.id.clone(),
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
                    is_unanswered: record.item.reason.is_some(),
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

    pub(super) fn walk_options(&self, cost: &Cost) -> WalkOptions {
        // The others stay where they are: a quorum queue might bring them out of order.
        if self.document.kind == OrderKind::Skip {
            return cost.walk_head();
        }
        let rate = self.record.rate;
        WalkOptions {
            window_messages: rate.map_or(AHEAD, |rate| rate.saturating_mul(30).clamp(1, AHEAD)),
            ..cost.walk()
        }
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
