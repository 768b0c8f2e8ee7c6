//! Planning a run: its items are frozen in the store, and what a person should know before is said.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::RunPlanner;
use super::letters::{Batch, Letter, Letters};
use super::order::{Order, OrderKind, Selection, WINDOW};
use super::outgoing::marks_a_death;
use super::receivers::WaysBack;
use crate::ambient::{self, HashMap, HashSet};
use crate::broker::{BrokerError, Look};
use crate::domain::dead_letter::Home;
use crate::domain::endpoint::EndpointState;
use crate::domain::id::QueueName;
use crate::domain::naming::hex;
use crate::domain::run::{ItemState, RunCounts, Target, eta};
use crate::domain::time::Timestamp;
use crate::domain::words::{count, lasts, plural};
use crate::engine::EngineError;
use crate::engine::command::{Command, Danger, Done, Plan, PlanLine, RunPlan, WriteGrant, at_most};
use crate::engine::dead::{DeadTarget, Exchanges, SEARCHED, Way, searched};
use crate::engine::operation::{About, Friction, Operation, Subject};
use crate::engine::room::{Load, warn_of_room};
use crate::engine::view::Unread;
use crate::store::{Frozen, NewItem, NewRun};

/// Items of one run, at most.
const ITEMS_MAX: u64 = 1_000_000;
/// How long a canary is watched, at most.
const WATCH_MAX: Duration = Duration::from_hours(24);
/// How many times what is done a part goes to.
const RAMP: std::ops::RangeInclusive<u32> = 2..=100;
/// Lines that a plan shows; the rest is counted.
const LINES_MAX: usize = 200;
/// Targets whose endpoints are looked at.
const TARGETS_LOOKED_AT: usize = 20;
/// Messages that a plan shows.
const SAMPLES_MAX: usize = 5;
/// Items that are written at once.
const CHUNK: usize = 2_000;
/// As fast as a window after the other goes, for an estimate.
const UNPACED: u32 = 5_000;

/// What a run needs to know beside its items; kept with it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Document {
    pub(super) kind: OrderKind,
    /// To the head of delivery queues.
    pub(super) head: bool,
    /// Seconds of watching after the canary.
    #[serde(default)]
    pub(super) canary_watch_s: Option<u64>,
    /// How many times what is done each part goes to that is watched.
    #[serde(default)]
    pub(super) ramp: Option<u32>,
    /// The targets, and whether each exists.
    pub(super) targets: BTreeMap<String, bool>,
    /// Who is bound where they go through an exchange: exchange, key, and the queues where those are known.
    #[serde(default)]
    pub(super) receivers: Vec<(String, String, Option<BTreeSet<String>>)>,
    /// The queues that its messages are in.
    #[serde(default)]
    pub(super) sources: BTreeSet<String>,
    pub(super) title: String,
    pub(super) bytes: u64,
    pub(super) refused: u64,
    pub(super) warnings: Vec<String>,
}

impl Document {
    pub(super) fn read(text: &str) -> Result<Self, String> {
        serde_json::from_str(text).map_err(|error| format!("its plan cannot be read: {error}"))
    }
}

/// What is gathered while items are frozen.
#[derive(Default)]
pub(super) struct Gathered {
    ordinal: u64,
    counts: RunCounts,
    bytes: u64,
    oldest: Option<Timestamp>,
    newest: Option<Timestamp>,
    /// By source and target, or why there is none.
    pairs: BTreeMap<(String, Result<String, String>), Load>,
    /// Existing or not.
    pub(super) targets: BTreeMap<Target, bool>,
    pub(super) ways: WaysBack,
    dropped: BTreeSet<String>,
    samples: Vec<String>,
    redriven: u64,
    /// What is in several queues: the queue that it was met in first.
    contents: HashMap<[u8; 16], QueueName>,
    /// How many were met in another queue already, and in which queues.
    twice: u64,
    twice_in: BTreeSet<QueueName>,
    edited: u64,
    left_out: u64,
    /// The ids of all of them, where they are named one by one.
    found: HashSet<String>,
    /// What a person should know of the queues that they are in.
    noted: Vec<String>,
    /// Some of them could not be looked at.
    lacks_some: bool,
    /// Why there may be queues of dead letters besides those that were looked at.
    unread: Option<Unread>,
    digest: Sha256,
}

impl Operation<RunPlanner> for Order {
    fn about(&self) -> About {
        About {
            name: self.kind.command(),
            subject: match &self.selection {
                Selection::Head(queue) => Subject::Name(queue.as_str().to_owned()),
                Selection::Ids(_)
                | Selection::Group(_)
                | Selection::Filter(_)
                | Selection::All
                | Selection::Run(_)
                | Selection::Queue(_) => Subject::Words(self.kind.command()),
            },
            friction: Friction::Messages(match self.kind {
                OrderKind::Redrive | OrderKind::Discard | OrderKind::Restore => "number of dead letters",
                OrderKind::Move | OrderKind::Skip => "number of messages",
            }),
            undo: Err(if self.kind == OrderKind::Skip {
                "the message is a dead letter now: R sends it back from there"
            } else {
                "open its run in Runs: R restores what was discarded, X stops what is not sent yet"
            }),
        }
    }

    async fn plan(&self, planner: &Arc<RunPlanner>) -> Result<Plan, EngineError> {
        planner.plan_run(self).await
    }

    async fn perform(&self, _: &Arc<RunPlanner>, _: &Plan, _: &WriteGrant) -> Result<Done, EngineError> {
        // A plan that has its run is carried out by that.
        Err(EngineError::Refused {
            why: "the plan is stale: its run is not there".to_owned(),
        })
    }
}

impl RunPlanner {
    async fn freeze(
        &self,
        id: &str,
        order: &Order,
        letters: &mut Letters,
        gathered: &mut Gathered,
    ) -> Result<(), EngineError> {
        while let Some(batch) = letters.next(self).await? {
            self.freeze_batch(id, order, batch, gathered).await?;
        }
        Ok(())
    }

    /// What the order would do at present; its items are frozen in the store.
    async fn plan_run(&self, order: &Order) -> Result<Plan, EngineError> {
        check(order)?;
        self.check_to(order).await?;
        self.check_run(order).await?;
        self.refuse_events(order).await?;
        let id = ambient::new_id();
        let new = NewRun {
            id: id.clone(),
            command: order.kind.command().to_owned(),
            rate: order.rate,
            canary: order.canary,
        };
        self.store.run_create(&new).await?;
        let mut gathered = Gathered::default();
        let mut letters = self.letters(order).await?;
        let frozen = self.freeze(&id, order, &mut letters, &mut gathered).await;
        if let Err(error) = frozen {
            letters.close(self).await?;
            return Err(error);
        }
        if gathered.ordinal == 0 {
            return Err(nothing(order, &gathered, self.warn_of_events(order).await?));
        }
        gathered.all_that_are_named(order)?;
        let mut plan = self.draft(order, &id, &gathered).await?;
        let document = Document {
            kind: order.kind,
            head: order.head,
            canary_watch_s: order.canary_watch.map(|watch| watch.as_secs()),
            ramp: order.ramp,
            sources: gathered.pairs.keys().map(|(source, _)| source.clone()).collect(),
            targets: gathered
                .targets
                .iter()
                .map(|(target, exists)| (target.encode(), *exists))
                .collect(),
            receivers: gathered.ways.frozen(),
            title: plan.title.clone(),
            bytes: gathered.bytes,
            refused: gathered.counts.failed,
            warnings: plan.warnings.clone(),
        };
        plan.hash = hash(&gathered, &document, order);
        let frozen = Frozen {
            total: gathered.ordinal,
            counts: gathered.counts,
            plan: serde_json::to_string(&document).map_err(|error| EngineError::Refused {
                why: format!("the plan cannot be kept: {error}"),
            })?,
            hash: plan.hash.clone(),
        };
        if !self.store.run_freeze(&id, &frozen).await? {
            return Err(EngineError::Refused {
                why: "planning took so long that the plan is over: narrow the selection".to_owned(),
            });
        }
        Ok(plan)
    }

    /// The queue that all go to is another one and is there, or is made like a delivery queue.
    async fn check_to(&self, order: &Order) -> Result<(), EngineError> {
        let Some(to) = &order.to else { return Ok(()) };
        if matches!(&order.selection, Selection::Queue(queue) if queue == to) {
            return Err(EngineError::Invalid {
                field: "to".to_owned(),
                message: format!(
                    "to is {:?}, where the messages are already: name another queue",
                    to.as_str()
                ),
            });
        }
        if let Some(why) = self.settings.naming.keeps_nothing(to) {
            return Err(EngineError::Invalid {
                field: "to".to_owned(),
                message: format!("to {why}"),
            });
        }
        let target = Target::Queue(to.clone());
        if self.is_ours(&target) || self.target_exists(&target).await? {
            return Ok(());
        }
        Err(EngineError::NotFound {
            what: format!("target queue {:?}", to.as_str()),
        })
    }

    /// The run whose messages are restored is there, and discarded them.
    async fn check_run(&self, order: &Order) -> Result<(), EngineError> {
        let Some(id) = order.selection.run() else {
            return Ok(());
        };
        match self.store.run_get(id).await? {
            None => Err(EngineError::unknown_id("run", id, "run list")),
            Some(run) if run.command != OrderKind::Discard.command() => Err(EngineError::Refused {
                why: format!("run {id} is a {}, and discarded nothing", run.command),
            }),
            Some(_) => Ok(()),
        }
    }

    async fn freeze_batch(
        &self,
        id: &str,
        order: &Order,
        batch: Batch,
        gathered: &mut Gathered,
    ) -> Result<(), EngineError> {
        gathered.left_out += batch.left_out;
        gathered.noted.extend(batch.warnings);
        gathered.lacks_some |= batch.lacks_some;
        gathered.unread = gathered.unread.take().or(batch.unread);
        let mut letters = batch.letters;
        if order.kind == OrderKind::Redrive {
            gathered.edited += self.as_edited(&mut letters, order).await?;
        }
        let mut items = Vec::with_capacity(letters.len());
        for letter in letters {
            if let Selection::Ids(_) = order.selection {
                gathered.found.insert(letter.id.clone());
            }
            let target = self.target_of(order, &letter, gathered).await?;
            items.push(gathered.take(letter, target));
        }
        if gathered.ordinal > ITEMS_MAX {
            return Err(EngineError::Refused {
                why: format!("more than {ITEMS_MAX} messages: narrow the selection"),
            });
        }
        for chunk in items.chunks(CHUNK) {
            self.store.run_items_add(id, chunk).await?;
        }
        Ok(())
    }

    /// Where a message goes, or why it goes nowhere. Each target is looked at once.
    async fn target_of(
        &self,
        order: &Order,
        letter: &Letter,
        gathered: &mut Gathered,
    ) -> Result<Result<Target, String>, EngineError> {
        if letter.is_cut {
            let why = "its headers are nested too deeply to be kept or sent on as they are";
            return Ok(Err(why.to_owned()));
        }
        if let Some(why) = letter.refused.as_ref().filter(|_| order.kind != OrderKind::Discard) {
            return Ok(Err(why.clone()));
        }
        let target = match (&order.to, order.kind) {
            (_, OrderKind::Discard) => return Ok(Ok(Target::Queue(letter.source.clone()))),
            (Some(to), _) => Target::Queue(to.clone()),
            (None, OrderKind::Restore | OrderKind::Skip) => Target::Queue(letter.source.clone()),
            (None, OrderKind::Redrive | OrderKind::Move) => match &letter.target {
                Ok(Target::Queue(queue)) => Target::Queue(queue.clone()),
                Ok(Target::Exchange { exchange, routing_key }) => {
                    let published = (exchange.as_str(), routing_key.as_str());
                    match self.way_back(order, letter, published, &mut gathered.ways).await? {
                        Ok(target) => target,
                        Err(why) => return Ok(Err(why)),
                    }
                }
                Err(why) => return Ok(Err(why.clone())),
            },
        };
        if target == Target::Queue(letter.source.clone()) && !matches!(order.kind, OrderKind::Restore | OrderKind::Skip)
        {
            return Ok(Err("it is in that queue already".to_owned()));
        }
        if let Some(why) = &letter.misplaced {
            return Ok(Err(why.clone()));
        }
        if is_store(&target) {
            return Ok(if order.kind == OrderKind::Restore {
                Ok(target)
            } else {
                Err("the store takes only what no queue takes: name a queue with --to".to_owned())
            });
        }
        let exists = if let Some(exists) = gathered.targets.get(&target) {
            *exists
        } else {
            let exists = match self.takes(&target, gathered.ways.exchanges()).await {
                // Another connection's own: it goes with that, and with all that is in it.
                Err(error) if error.is_exclusive() => false,
                taken => taken?,
            };
            gathered.targets.insert(target.clone(), exists);
            exists
        };
        if order.head && !self.is_ours(&target) {
            return Ok(Err(format!(
                "{target} is no delivery queue: nothing can be put at its head"
            )));
        }
        if exists || self.is_ours(&target) {
            return Ok(Ok(target));
        }
        Ok(Err(match order.kind {
            OrderKind::Restore | OrderKind::Skip => {
                format!("{target} does not exist: declare it again first")
            }
            OrderKind::Redrive | OrderKind::Move | OrderKind::Discard => {
                format!("{target} does not exist, or takes nothing: name a queue with --to")
            }
        }))
    }

    /// Whether a target takes messages: the queue is there, or some queue that the exchange routes to.
    pub(super) async fn target_exists(&self, target: &Target) -> Result<bool, BrokerError> {
        self.takes(target, &mut Exchanges::new()).await
    }

    /// The same, with exchanges that are asked once for many targets.
    pub(super) async fn takes(&self, target: &Target, exchanges: &mut Exchanges) -> Result<bool, BrokerError> {
        let (exchange, key) = match target {
            Target::Queue(_) if is_store(target) => return Ok(true),
            Target::Queue(queue) if self.settings.naming.keeps_nothing(queue).is_some() => return Ok(false),
            Target::Queue(queue) => return Ok(self.broker.look(queue).await? != Look::Missing),
            Target::Exchange { exchange, routing_key } => (exchange, routing_key),
        };
        let way = Way {
            exchange: exchange.clone(),
            key: Some(key.clone()),
        };
        let reached = self.dead_targets.follow_among(VecDeque::from([way]), exchanges).await?;
        for queue in &reached.queues {
            if let Ok(queue) = QueueName::parse(queue)
                && self.settings.naming.keeps_nothing(&queue).is_none()
                && self.broker.look(&queue).await? != Look::Missing
            {
                return Ok(true);
            }
        }
        Ok(!reached.doubts.is_empty() && reached.queues.is_empty())
    }

    /// Whether it is a delivery queue of ours.
    pub(super) fn is_ours(&self, target: &Target) -> bool {
        match target {
            Target::Queue(queue) => self.settings.naming.is_delivery_queue(queue.as_str()),
            Target::Exchange { .. } => false,
        }
    }

    async fn draft(&self, order: &Order, id: &str, gathered: &Gathered) -> Result<Plan, EngineError> {
        let doable = gathered.ordinal - gathered.counts.failed;
        let duration = eta(doable, order.rate.or(Some(UNPACED)), 0, Duration::ZERO);
        let mut warnings = gathered.warnings(order);
        warnings.extend(gathered.ways.warnings());
        self.warn_of_targets(order, gathered, &mut warnings).await?;
        if matches!(order.kind, OrderKind::Redrive | OrderKind::Move | OrderKind::Restore) {
            warnings.extend(warn_of_room(self, &self.sent_to_others(gathered)).await?);
        }
        warnings.extend(self.warn_of_events(order).await?);
        warnings.extend(self.warn_of_work(order, gathered).await?);
        warnings.extend(self.warn_of_restored(order, gathered.ordinal).await?);
        let sources = gathered.pairs.keys().map(|(source, _)| source.as_str()).collect();
        warnings.splice(0..0, self.run_reader.others_at(id, &sources).await?);
        Ok(Plan {
            command: Command::Run(order.clone()),
            title: title(order, doable),
            lines: lines(order, gathered, self.settings.discard_keep),
            warnings,
            messages: Some(gathered.ordinal),
            danger: Danger::Reversible,
            hash: String::new(),
            run: Some(RunPlan {
                id: id.to_owned(),
                total: gathered.ordinal,
                refused: gathered.counts.failed,
                bytes: gathered.bytes,
                oldest: gathered.oldest,
                newest: gathered.newest,
                dropped: taken_off(order.kind, &gathered.dropped),
                samples: gathered.samples.clone(),
                estimated: duration,
                receivers: gathered.ways.receivers(),
            }),
            ends_reason: None,
            names: Vec::new(),
        })
    }

    /// What is taken out of queues whose messages may only wait for their consumers.
    async fn warn_of_work(&self, order: &Order, gathered: &Gathered) -> Result<Vec<String>, EngineError> {
        if !matches!(order.kind, OrderKind::Redrive | OrderKind::Discard | OrderKind::Move) {
            return Ok(Vec::new());
        }
        let targets = self.dead_targets.dead_targets().await?;
        let taken_from = |name: &str| {
            gathered
                .pairs
                .iter()
                .any(|((source, to), _)| source == name && to.is_ok())
        };
        let work = targets
            .iter()
            .filter(|target| target.may_be_work && taken_from(target.name.as_str()));
        let warning = |target: &DeadTarget| {
            format!(
                "{} may be a queue of work whose consumers are away: it gets its messages from queues that keep them for a time",
                target.name.as_str()
            )
        };
        Ok(work.map(warning).collect())
    }

    /// Where a run is asked for of whose messages not all are kept any more.
    async fn warn_of_restored(&self, order: &Order, kept: u64) -> Result<Option<String>, EngineError> {
        let Some(run) = order.selection.run() else {
            return Ok(None);
        };
        let discarded = self.store.run_get(run).await?.map_or(kept, |run| run.counts.done);
        let gone = discarded.saturating_sub(kept);
        Ok((gone > 0).then(|| {
            let are = if gone == 1 {
                "is not kept any more: it was"
            } else {
                "are not kept any more: they were"
            };
            format!("{gone} of the {discarded} that the run discarded {are} put back already, or their time is over")
        }))
    }

    /// What goes to queues of others.
    fn sent_to_others(&self, gathered: &Gathered) -> BTreeMap<QueueName, Load> {
        let mut sent = gathered.ways.sent();
        for target in gathered.targets.keys() {
            if let Target::Queue(queue) = target {
                *sent.entry(queue.clone()).or_default() += gathered.sent_to(target);
            }
        }
        sent.retain(|queue, _| !self.settings.naming.is_delivery_queue(queue.as_str()));
        sent
    }

    async fn warn_of_targets(
        &self,
        order: &Order,
        gathered: &Gathered,
        warnings: &mut Vec<String>,
    ) -> Result<(), EngineError> {
        if !matches!(order.kind, OrderKind::Redrive | OrderKind::Move) {
            return Ok(());
        }
        let ours = gathered.targets.iter().filter(|(target, _)| self.is_ours(target));
        let (exist, ended): (Vec<_>, Vec<_>) = ours.partition(|(_, exists)| **exists || order.head);
        let of = |some: &[(&Target, &bool)], [one, many]: [&str; 2]| match some {
            [] => None,
            [(only, _)] => Some(format!("queue {only}{one}")),
            several => Some(format!("{} queues{many}", several.len())),
        };
        let waits = if order.head {
            [
                ": these are delivered before everything that waits in it now",
                ": these are delivered before everything that waits in them now",
            ]
        } else {
            [
                " is ordered: these are appended behind newer ones",
                " are ordered: these are appended behind newer ones",
            ]
        };
        warnings.extend(of(&exist, waits));
        warnings.extend(of(
            &ended,
            [" ended: it is created again", " ended: they are created again"],
        ));
        let names = exist.iter().chain(&ended).map(|(target, _)| *target);
        self.warn_of_endpoints(names, warnings).await
    }

    /// Endpoints of the first targets at which what is sent waits, those of one state in one sentence.
    async fn warn_of_endpoints(
        &self,
        targets: impl Iterator<Item = &Target>,
        warnings: &mut Vec<String>,
    ) -> Result<(), EngineError> {
        let mut waiting: BTreeMap<&'static str, BTreeSet<String>> = BTreeMap::new();
        for target in targets.take(TARGETS_LOOKED_AT) {
            let Target::Queue(queue) = target else { continue };
            let row = self.store.queue_get(queue).await?;
            if let Some(url) = row.and_then(|row| row.url)
                && let Some(endpoint) = self.store.endpoint_get(&url).await?
                && endpoint.state != EndpointState::Available
            {
                waiting
                    .entry(endpoint.state.as_str())
                    .or_default()
                    .insert(url.redacted());
            }
        }
        for (state, urls) in waiting {
            warnings.push(match urls.first() {
                Some(only) if urls.len() == 1 => format!("endpoint {only} is {state}: what is sent waits there"),
                _ => format!("{} endpoints are {state}: what is sent waits there", urls.len()),
            });
        }
        Ok(())
    }
}

/// What an order of this kind takes off its messages, of what a redrive would.
fn taken_off(kind: OrderKind, names: &BTreeSet<String>) -> Vec<String> {
    let goes = |name: &&String| match kind {
        OrderKind::Redrive => true,
        OrderKind::Move | OrderKind::Skip | OrderKind::Restore => !marks_a_death(name),
        OrderKind::Discard => false,
    };
    names.iter().filter(goes).cloned().collect()
}

/// Whether it is where dead letters are that no queue takes.
pub(super) fn is_store(target: &Target) -> bool {
    match target {
        Target::Queue(queue) => Home::of(queue) == Home::Store,
        Target::Exchange { .. } => false,
    }
}

impl Gathered {
    /// What goes to a target.
    fn sent_to(&self, target: &Target) -> Load {
        let named = target.to_string();
        let mut sent = Load::default();
        for (_, load) in self.pairs.iter().filter(|((_, to), _)| to.as_ref() == Ok(&named)) {
            sent += *load;
        }
        sent
    }

    /// Where some that are named are not there, nothing is done to the others: who named them knows less than there is.
    fn all_that_are_named(&mut self, order: &Order) -> Result<(), EngineError> {
        let Selection::Ids(ids) = &order.selection else {
            return Ok(());
        };
        let missing: Vec<&str> = ids
            .iter()
            .map(String::as_str)
            .filter(|id| !self.found.contains(*id))
            .collect();
        let Some(first) = missing.first() else {
            return Ok(());
        };
        // Some may be where nobody could look.
        if self.lacks_some {
            let count = u64::try_from(missing.len()).unwrap_or(u64::MAX);
            let missing = plural(count, "letter that is named was", "letters that are named were");
            self.noted
                .push(format!("{missing} not found in what could be looked at"));
            return Ok(());
        }
        let others = match missing.len() {
            1 => String::new(),
            several => format!(" and {} more that are named", several - 1),
        };
        Err(EngineError::NotFound {
            what: match order.kind {
                OrderKind::Restore => format!("discarded message {first:?}{others}"),
                OrderKind::Redrive | OrderKind::Discard | OrderKind::Move | OrderKind::Skip => {
                    format!("dead letter {first:?}{others} ({})", searched(first))
                }
            },
        })
    }

    fn take(&mut self, letter: Letter, target: Result<Target, String>) -> NewItem {
        let load = letter.load();
        self.bytes += letter.bytes;
        self.redriven += u64::from(letter.redriven > 0);
        if target.is_ok()
            && let Some(content) = letter.content
        {
            self.meet(content, &letter.source);
        }
        self.oldest = self.oldest.into_iter().chain(letter.at).min();
        self.newest = self.newest.into_iter().chain(letter.at).max();
        self.dropped.extend(letter.dropped);
        self.digest.update(letter.id.as_bytes());
        self.digest.update([0]);
        if self.samples.len() < SAMPLES_MAX {
            self.samples.push(letter.sample);
        }
        let key = target.as_ref().map(ToString::to_string).map_err(Clone::clone);
        *self.pairs.entry((letter.source.as_str().to_owned(), key)).or_default() += load;
        let ordinal = self.ordinal;
        self.ordinal += 1;
        let (target, reason) = match target {
            Ok(target) => (Some(target), None),
            Err(why) => (None, Some(why)),
        };
        let state = if reason.is_some() {
            ItemState::Failed
        } else {
            ItemState::Planned
        };
        self.counts.count(state);
        NewItem {
            ordinal,
            letter: letter.id,
            source: letter.source,
            target,
            bytes: letter.bytes,
            state,
            reason,
        }
    }

    /// A message that a dead-letter exchange put into several queues is sent once for each.
    fn meet(&mut self, content: [u8; 16], source: &QueueName) {
        let first = self.contents.entry(content).or_insert_with(|| source.clone());
        if *first != *source {
            self.twice += 1;
            self.twice_in.extend([first.clone(), source.clone()]);
        }
    }

    fn warn_of_doubles(&self) -> Option<String> {
        let mut names = self.twice_in.iter().map(QueueName::as_str);
        let first = names.next()?;
        let others: Vec<&str> = names.collect();
        Some(format!(
            "{} in queue {first} and in {} too: what is in several queues goes back once for each; --filter 'queue = \"{first}\"' \
             takes those of one",
            plural(self.twice, "message is", "messages are"),
            others.join(", ")
        ))
    }

    fn warnings(&self, order: &Order) -> Vec<String> {
        let mut warnings = self.noted.clone();
        if order.kind == OrderKind::Redrive {
            warnings.extend(self.warn_of_doubles());
        }
        if self.counts.failed > 0 {
            warnings.push(format!(
                "{} cannot go anywhere: they stay where they are",
                self.counts.failed
            ));
        }
        if self.left_out > 0 {
            warnings.push(format!(
                "{} died again after a redrive and are left out: name them to redrive them once more",
                self.left_out
            ));
        }
        if self.redriven > 0 && order.kind == OrderKind::Redrive {
            warnings.push(format!("{} were redriven before and died again", self.redriven));
        }
        if self.edited > 0 {
            warnings.push(format!(
                "{} edited: what is sent is the edited message, and the original is kept",
                plural(self.edited, "message was", "messages were")
            ));
        }
        if order.kind == OrderKind::Restore {
            warnings.push(
                "they come behind the dead letters that are there now: a redrive of all sends those first".to_owned(),
            );
        }
        if order.kind == OrderKind::Skip {
            let place = if order.to.is_some() {
                "the dead letters"
            } else {
                "the end of its queue"
            };
            warnings.push(format!("it goes to {place}: later messages overtake it"));
        }
        let sent = self.ordinal - self.counts.failed;
        if matches!(order.kind, OrderKind::Redrive | OrderKind::Move) && sent > 0 {
            let window = if order.rate.is_some() || sent == 1 {
                "the one in flight".to_owned()
            } else {
                format!("up to {} messages", count(sent.min(WINDOW as u64)))
            };
            warnings.push(format!("if redrive crashes, {window} may be sent twice"));
        }
        warnings
    }
}

fn check(order: &Order) -> Result<(), EngineError> {
    let invalid = |field: &str, message: &str| {
        Err(EngineError::Invalid {
            field: field.to_owned(),
            message: message.to_owned(),
        })
    };
    if let Selection::Ids(ids) = &order.selection {
        at_most(ids.len(), "ids", "use a filter for more")?;
    }
    if order.selection.run().is_some() && order.kind != OrderKind::Restore {
        let why = "a run says only what is restored: name dead letters by ids, a group or a filter";
        return invalid("run", why);
    }
    if order.rate == Some(0) {
        return invalid("rate", "rate is 0; possible are 1 and more messages a second");
    }
    if order.canary == Some(0) {
        return invalid("canary", "canary is 0; possible are 1 and more messages");
    }
    if order.canary_watch.is_some() && order.canary.is_none() {
        return invalid("canary_watch_s", "canary_watch_s needs a canary to be watched");
    }
    if order.canary_watch.is_some_and(|watch| watch > WATCH_MAX) {
        return invalid("canary_watch_s", "canary_watch_s is at most 86400, a day");
    }
    if order.ramp.is_some() && order.canary_watch.is_none() {
        return invalid(
            "ramp",
            "ramp needs canary and canary_watch_s: each part is watched before the next",
        );
    }
    if order.ramp.is_some_and(|ramp| !RAMP.contains(&ramp)) {
        return invalid(
            "ramp",
            "ramp is from 2 to 100: how many times what is done the next part goes to",
        );
    }
    if order.head && order.kind != OrderKind::Redrive {
        return invalid("head", "head is for redrive");
    }
    if order.via.is_some() && order.kind != OrderKind::Redrive {
        return invalid("via", "via is for redrive");
    }
    if order.via.is_some() && order.to.is_some() {
        return invalid(
            "via",
            "via says how messages go back to their origin, and to sends them elsewhere: choose one",
        );
    }
    if order.to.is_some() && matches!(order.kind, OrderKind::Discard | OrderKind::Restore) {
        return invalid("to", "to is for redrive and move");
    }
    Ok(())
}

/// `events` says what is left out though it is dead.
fn nothing(order: &Order, gathered: &Gathered, events: Option<String>) -> EngineError {
    if let Some(unread) = &gathered.unread {
        return EngineError::Unread(Box::new(unread.clone()));
    }
    if gathered.lacks_some {
        return EngineError::Refused {
            why: gathered.noted.join("; "),
        };
    }
    if order.selection.run().is_some() {
        return EngineError::Refused {
            why: "what the run discarded was put back already, or is not kept any more".to_owned(),
        };
    }
    let (verb, left_out) = (order.kind.verb(), gathered.left_out);
    let what = if left_out > 0 {
        format!(
            "{left_out} died again after a redrive and are only taken by name or group; anything else to {verb} was"
        )
    } else {
        match order.kind {
            OrderKind::Redrive | OrderKind::Discard => {
                let why = order.selection.ids().first().map_or(SEARCHED, |id| searched(id));
                let events = events.map(|events| format!("; {events}")).unwrap_or_default();
                format!("a message to {verb} ({why}{events})")
            }
            OrderKind::Restore | OrderKind::Move | OrderKind::Skip => format!("a message to {verb}"),
        }
    };
    EngineError::NotFound { what }
}

fn title(order: &Order, count: u64) -> String {
    let what = match order.kind {
        OrderKind::Redrive | OrderKind::Discard => "dead letter",
        OrderKind::Restore => "discarded message",
        OrderKind::Move | OrderKind::Skip => "message",
    };
    let what = plural(count, what, &format!("{what}s"));
    if let (OrderKind::Skip, Selection::Head(queue), Some(to)) = (order.kind, &order.selection, &order.to) {
        return format!("move the first message of {} to {}", queue.as_str(), to.as_str());
    }
    let to = order
        .to
        .as_ref()
        .map_or_else(String::new, |to| format!(" to queue {}", to.as_str()));
    let rate = order.rate.map_or_else(String::new, |rate| format!(", {rate} a second"));
    format!("{} {what}{to}{rate}", order.kind.verb())
}

fn lines(order: &Order, gathered: &Gathered, discard_keep: Duration) -> Vec<PlanLine> {
    let kept = format!(
        "taken out, and kept for {}: `dead restore` puts it back",
        lasts(discard_keep)
    );
    let line = |((source, target), load): (&(String, Result<String, String>), &Load)| PlanLine {
        target: source.clone(),
        now: plural(load.messages, "message", "messages"),
        effect: match (target, order.kind) {
            (Err(why), _) => format!("refused: {why}"),
            (Ok(_), OrderKind::Discard) => kept.clone(),
            (Ok(to), _) => format!("sent to {to}"),
        },
    };
    gathered.pairs.iter().take(LINES_MAX).map(line).collect()
}

fn hash(gathered: &Gathered, document: &Document, order: &Order) -> String {
    let mut digest = gathered.digest.clone();
    digest.update(format!("{:?}\n{:?}\n{:?}", order, document.targets, gathered.pairs));
    hex(&digest.finalize())
}
