//! Working on a run: its lease, its sources one after the other, and what becomes of it in the end.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::order::OrderKind;
use super::plan::Document;
use super::window::mark;
use crate::ambient;
use crate::broker::{BrokerError, DeliveryTag, Walk, WalkOptions};
use crate::domain::id::{IncarnationId, QueueName};
use crate::domain::message::{Message, decode};
use crate::domain::queue::QueueRecord;
use crate::domain::run::{ItemState, Pace, RunCounts, RunState, Target};
use crate::engine::error::chain;
use crate::engine::incarnation::Part;
use crate::engine::{EngineError, Inner};
use crate::store::{
    ItemMark, ItemQuery, KeptKind, KeptQuery, NewAudit, QueueMark, RunRecord, RunStop, RunTaken, SourceTaken,
    StoreError,
};

/// Messages of one window where there is no rate.
const WINDOW: usize = 1000;
/// Bytes of one window.
const WINDOW_BYTES: usize = 8 << 20;
/// Items that are read and recorded at once.
const PAGE: u32 = 5_000;
/// A paced walk is begun anew after this time: what it holds would outlive the broker's patience.
const WALK_MAX: Duration = Duration::from_mins(10);
/// Between two looks at what a run waits for.
const PAUSE: Duration = Duration::from_secs(1);

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
            | BrokerError::Management { .. } => Self::Waits(chain(&error)),
            _ => Self::Broken(chain(&error)),
        }
    }
}

impl From<StoreError> for Halt {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Unreachable { .. } => Self::Waits(chain(&error)),
            StoreError::Newer { .. } | StoreError::Failed { .. } | StoreError::Unusable { .. } => {
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
            EngineError::Unconfirmed { .. } | EngineError::Refused { .. } => Self::Waits(chain(&error)),
            EngineError::Invalid { .. } | EngineError::InvalidPolicy(_) | EngineError::Expired { .. } | EngineError::NotFound { .. } => Self::Broken(chain(&error)),
        }
    }
}

/// An item without an outcome.
#[derive(Clone, Debug)]
pub(super) struct Open {
    ordinal: u64,
    letter: String,
    target: Option<Target>,
    state: ItemState,
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
    state: ItemState,
}

/// Who works on a run.
pub(super) struct Driver<'a> {
    pub(super) engine: &'a Arc<Inner>,
    pub(super) run: RunRecord,
    pub(super) document: Document,
    pub(super) me: IncarnationId,
    pub(super) name: &'a str,
    stop: &'a CancellationToken,
    pub(super) counts: RunCounts,
    pace: Option<Pace>,
    /// Settled at their source, not yet recorded so.
    pub(super) pending: Vec<ItemMark>,
    /// Recorded as settled a moment ago: the broker may not have heard of the last ones.
    pub(super) uncertain: Vec<u64>,
    /// The row of the delivery queue that is walked.
    pub(super) row: Option<QueueRecord>,
    /// Whether anybody edited anything.
    pub(super) edits: bool,
    /// Dead letters that were met of which there may be copies, and the copies that were.
    met: HashSet<String>,
    copies: Vec<DeliveryTag>,
    /// One message at a time: a window failed, and nobody knows which of its messages is to blame.
    careful: usize,
}

impl Inner {
    /// Works on a run until it is over, a person stops it, somebody else has it, or `stop`.
    pub(super) async fn drive_run(self: Arc<Self>, id: String, stop: CancellationToken) {
        let name = format!("run-{}-{:08x}", std::process::id(), ambient::random() & 0xffff_ffff);
        let me = match self.begin_incarnation(&name, Part::Manages).await {
            Ok(me) => me,
            Err(error) => {
                tracing::warn!(run = ?id, error = ?error, "a run cannot be worked on yet");
                return;
            }
        };
        let done = CancellationToken::new();
        let beats = self.beat_until(me, done.clone());
        match self.store.run_take(&id, me).await {
            Ok(RunTaken::Taken(run)) => self.drive_taken(*run, me, &name, &stop).await,
            Ok(other) => tracing::debug!(run = ?id, ?other, "a run is not to be had"),
            Err(error) => tracing::warn!(run = ?id, error = ?error, "a run cannot be taken yet"),
        }
        done.cancel();
        let _ = beats.await;
        if let Err(error) = self.store.incarnation_end(me).await {
            tracing::debug!(error = ?error, "a run's incarnation is found dead later");
        }
        self.moved.send_replace(());
    }

    async fn drive_taken(self: &Arc<Self>, run: RunRecord, me: IncarnationId, name: &str, stop: &CancellationToken) {
        tracing::info!(run = ?run.id, command = ?run.command, "working on a run");
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
            me,
            name,
            stop,
            pending: Vec::new(),
            uncertain: Vec::new(),
            row: None,
            edits: false,
            met: HashSet::new(),
            copies: Vec::new(),
            careful: 0,
        };
        driver.to_its_end().await;
    }
}

fn ended(state: RunState, counts: RunCounts, note: Option<String>) -> RunStop {
    RunStop { state, counts, note }
}

impl Driver<'_> {
    async fn to_its_end(&mut self) {
        loop {
            let halt = match self.work().await {
                Ok(()) => return self.end(RunState::Done, None).await,
                Err(halt) => halt,
            };
            tracing::info!(run = ?self.run.id, ?halt, "a run halts");
            match halt {
                Halt::Waits(why) => {
                    if let Err(halt) = self.wait(why).await {
                        tracing::debug!(run = ?self.run.id, ?halt, "a run is given back");
                        return self.give_back().await;
                    }
                }
                Halt::Canary => {
                    let note = format!(
                        "{} are done: look at them, then `run resume` or `run cancel`",
                        self.counts.done
                    );
                    return self.end(RunState::Canary, Some(note)).await;
                }
                Halt::Broken(why) => return self.end(RunState::Failed, Some(why)).await,
                Halt::Lost | Halt::Asked(_) | Halt::Stopped => return self.give_back().await,
            }
        }
    }

    async fn give_back(&self) {
        if let Err(error) = self.engine.store.run_free(&self.run.id, self.run.epoch).await {
            tracing::debug!(error = ?error, "a run is free with the end of its incarnation");
        }
    }

    /// Says what it waits for and waits a moment; `Err` when it is not to go on.
    async fn wait(&mut self, why: String) -> Result<(), Halt> {
        self.careful = if self.pace.is_none() { WINDOW } else { 0 };
        if let Some(state) = self.say(Some(why)).await
            && state != RunState::Running
        {
            return Err(Halt::Asked(state));
        }
        tokio::select! {
            () = tokio::time::sleep(PAUSE) => Ok(()),
            () = self.stop.cancelled() => Err(Halt::Stopped),
        }
    }

    async fn end(&mut self, state: RunState, note: Option<String>) {
        let stop = ended(state, self.counts, note.clone());
        let store = &self.engine.store;
        let stopped = loop {
            match store.run_stop(&self.run.id, self.run.epoch, &stop).await {
                Err(StoreError::Unreachable { .. }) if !self.stop.is_cancelled() => tokio::time::sleep(PAUSE).await,
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
        self.edits = self.has_edits().await?;
        self.met.clear();
        self.copies.clear();
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
        loop {
            let page = self.engine.store.run_items(&query).await?;
            let Some(last) = page.last() else { break };
            query.after = Some(last.item.ordinal);
            for record in page {
                let open = Open {
                    ordinal: record.item.ordinal,
                    target: record.item.target,
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

    /// One source queue, which is this run's alone meanwhile, under its lease where it is a delivery queue.
    async fn take_source(&mut self, source: &QueueName, mut open: OpenItems) -> Result<(), Halt> {
        self.claim(source).await?;
        let ours = self.engine.settings.naming.is_delivery_queue(source.as_str());
        let lease = if ours {
            Some(self.engine.wait_for_lease(self.me, source, self.name).await?)
        } else {
            None
        };
        self.row = lease.as_ref().map(|lease| lease.record.clone());
        let walked = self.walk(source, &mut open).await;
        if let Some(lease) = lease {
            if self.document.kind == OrderKind::Skip && walked.is_ok() {
                let gone = QueueMark::HeadGone;
                self.engine.store.queue_mark(source, lease.epoch, gone).await?;
            }
            let _ = self.engine.store.lease_free(source, lease.epoch).await;
            let _ = self.engine.store.queue_want(source, None).await;
            self.engine.broker.nudge(source).await;
        }
        let left = match walked {
            Ok(()) => self.leave_behind(open).await,
            Err(halt) => Err(halt),
        };
        self.engine.store.source_free(source, &self.run.id).await?;
        left
    }

    async fn claim(&mut self, source: &QueueName) -> Result<(), Halt> {
        loop {
            let (run, epoch) = (self.run.id.clone(), self.run.epoch);
            match self.engine.store.source_take(source, &run, epoch).await? {
                SourceTaken::Taken => return Ok(()),
                SourceTaken::Lost => return Err(Halt::Lost),
                SourceTaken::Other(other) => {
                    self.wait(format!("run {other} works on queue {:?}", source.as_str()))
                        .await?;
                }
            }
        }
    }

    /// Until nothing is left, or two passes in a row met nothing of what is: whoever looked at the queue meanwhile
    /// had it in hand.
    async fn walk(&mut self, source: &QueueName, open: &mut OpenItems) -> Result<(), Halt> {
        let mut in_vain = 0;
        loop {
            let before = open.len();
            let options = self.walk_options(source).await?;
            let Some(mut walk) = self.engine.broker.walk(source, options).await? else {
                return Ok(());
            };
            let gone = self.go(&mut *walk, source, open).await;
            match walk.close().await {
                Ok(()) => self.flush().await?,
                Err(error) => {
                    self.doubt().await;
                    gone?;
                    return Err(error.into());
                }
            }
            let whole = gone?;
            in_vain = if open.len() == before { in_vain + 1 } else { 0 };
            if open.is_empty() || (whole && in_vain == 2) {
                return Ok(());
            }
            if whole {
                tokio::time::sleep(PAUSE).await;
            }
        }
    }

    async fn walk_options(&self, source: &QueueName) -> Result<WalkOptions, Halt> {
        let detail = self.engine.broker.queue_detail(source).await;
        let quorum = detail
            .ok()
            .flatten()
            .and_then(|queue| queue.queue_type)
            .is_some_and(|kind| kind == "quorum");
        let window_messages = self
            .run
            .rate
            .map_or(2_000, |rate| rate.saturating_mul(30).clamp(1, 2_000));
        Ok(WalkOptions {
            window_messages,
            quorum,
            ..WalkOptions::default()
        })
    }

    /// Walks from the head on and takes what is of this run; false when it has to be walked anew.
    async fn go(&mut self, walk: &mut dyn Walk, source: &QueueName, open: &mut OpenItems) -> Result<bool, Halt> {
        let began = self.engine.clock.uptime();
        let mut window: Vec<InHand> = Vec::new();
        let mut bytes = 0;
        while !open.is_empty() {
            let walked = walk.next(WINDOW).await?;
            if walked.is_empty() {
                if window.is_empty() && walk.is_cut() {
                    return Err(Halt::Broken(format!(
                        "queue {:?} has more in front of what is left than can be held without disturbing its order",
                        source.as_str()
                    )));
                }
                if window.is_empty() {
                    return Ok(true);
                }
                self.process(walk, std::mem::take(&mut window)).await?;
                bytes = 0;
                continue;
            }
            for one in walked {
                let (key, collapses) = super::letters::identity(source, &one.message);
                let Some(item) = take_open(open, &key) else {
                    if collapses && self.met.contains(&key) {
                        self.copies.push(one.tag);
                    }
                    continue;
                };
                if collapses {
                    self.met.insert(key);
                }
                bytes += one.message.body.len();
                window.push(InHand {
                    ordinal: item.ordinal,
                    letter: item.letter,
                    source: source.clone(),
                    target: item.target.unwrap_or_else(|| Target::Queue(source.clone())),
                    message: one.message,
                    tag: one.tag,
                    state: item.state,
                });
                if window.len() >= self.window() || bytes >= WINDOW_BYTES {
                    self.process(walk, std::mem::take(&mut window)).await?;
                    bytes = 0;
                }
            }
            if self.engine.clock.uptime().saturating_sub(began) > WALK_MAX {
                self.process(walk, window).await?;
                return Ok(open.is_empty());
            }
        }
        self.process(walk, window).await?;
        Ok(true)
    }

    /// Messages of the next window: it is the bound of what is sent twice after a crash.
    fn window(&self) -> usize {
        let canary = self.run.canary.map_or(usize::MAX, |canary| {
            usize::try_from(canary.saturating_sub(self.counts.done)).unwrap_or(usize::MAX)
        });
        let size = match self.run.rate {
            _ if self.careful > 0 => 1,
            None => WINDOW,
            Some(rate) => usize::try_from(rate / 100).unwrap_or(1),
        };
        size.min(canary).max(1)
    }

    async fn process(&mut self, walk: &mut dyn Walk, window: Vec<InHand>) -> Result<(), Halt> {
        if window.is_empty() {
            return Ok(());
        }
        self.keep_pace(window.len()).await?;
        self.careful = self.careful.saturating_sub(window.len());
        let (mut settle, fresh): (Vec<InHand>, Vec<InHand>) =
            window.into_iter().partition(|hand| hand.state == ItemState::Published);
        let mut halt = None;
        if !fresh.is_empty() {
            let (sent, stopped) = self.send(fresh).await?;
            settle.extend(sent);
            halt = stopped;
        }
        let mut tags: Vec<DeliveryTag> = settle.iter().map(|hand| hand.tag).collect();
        tags.append(&mut self.copies);
        tags.sort_unstable();
        walk.settle(&tags).await?;
        self.forget_edits(&settle).await?;
        for hand in settle {
            self.counts.count(ItemState::Settled);
            self.pending.push(mark(hand.ordinal, ItemState::Settled, None));
        }
        match halt {
            Some(halt) => Err(halt),
            None if self.run.canary.is_some_and(|canary| self.counts.done >= canary)
                && self.counts.settled() < self.run.total =>
            {
                Err(Halt::Canary)
            }
            None => Ok(()),
        }
    }

    /// Waits until the window is due.
    async fn keep_pace(&mut self, items: usize) -> Result<(), Halt> {
        if self.stop.is_cancelled() {
            return Err(Halt::Stopped);
        }
        let Some(mut pace) = self.pace else { return Ok(()) };
        let mut left = pace.wait(self.engine.clock.uptime());
        while !left.is_zero() {
            tokio::select! {
                () = tokio::time::sleep(left.min(PAUSE)) => {}
                () = self.stop.cancelled() => return Err(Halt::Stopped),
            }
            left = pace.wait(self.engine.clock.uptime());
        }
        for _ in 0..items {
            pace.take(self.engine.clock.uptime());
        }
        self.pace = Some(pace);
        Ok(())
    }

    /// A walk that ended badly: what was settled last may come again, and is settled again then.
    async fn doubt(&mut self) {
        let marks: Vec<ItemMark> = self
            .uncertain
            .drain(..)
            .chain(self.pending.drain(..).map(|mark| mark.ordinal))
            .map(|ordinal| mark(ordinal, ItemState::Published, None))
            .collect();
        if let Err(halt) = self.advance(marks, Vec::new(), Vec::new()).await {
            tracing::debug!(?halt, "a run's last window is as it was recorded");
        }
    }

    /// Records what is settled for certain.
    async fn flush(&mut self) -> Result<(), Halt> {
        let state = self.advance(Vec::new(), Vec::new(), Vec::new()).await?;
        self.uncertain.clear();
        match state {
            RunState::Running => Ok(()),
            other => Err(Halt::Asked(other)),
        }
    }

    /// What the whole walk did not meet.
    async fn leave_behind(&mut self, open: OpenItems) -> Result<(), Halt> {
        let mut marks: Vec<ItemMark> = open.into_values().flatten().map(|item| absent(&item)).collect();
        marks.sort_unstable_by_key(|mark| mark.ordinal);
        for chunk in marks.chunks(1_000) {
            for mark in chunk {
                self.counts.count(mark.state);
            }
            self.advance(chunk.to_vec(), Vec::new(), Vec::new()).await?;
        }
        Ok(())
    }

    /// Puts discarded messages back where they were.
    async fn restore(&mut self, source: &QueueName, open: OpenItems) -> Result<(), Halt> {
        let mut items: Vec<Open> = open.into_values().flatten().collect();
        items.sort_unstable_by_key(|item| item.ordinal);
        let size = self.window().min(500);
        for chunk in items.chunks(size) {
            self.keep_pace(chunk.len()).await?;
            let query = KeptQuery {
                kind: KeptKind::Discarded,
                run: None,
                letters: chunk.iter().map(|item| item.letter.clone()).collect(),
                after: None,
                limit: PAGE,
            };
            let kept = self.engine.store.kept_list(&query).await?;
            let kept: HashMap<String, Vec<u8>> = kept.into_iter().map(|kept| (kept.letter, kept.message)).collect();
            self.put_back(source, chunk, &kept).await?;
        }
        self.flush().await
    }

    async fn put_back(
        &mut self,
        source: &QueueName,
        chunk: &[Open],
        kept: &HashMap<String, Vec<u8>>,
    ) -> Result<(), Halt> {
        let mut window = Vec::new();
        let mut absent = Vec::new();
        for item in chunk {
            match kept.get(&item.letter).and_then(|bytes| decode(bytes)) {
                Some(message) => window.push(InHand {
                    ordinal: item.ordinal,
                    letter: item.letter.clone(),
                    source: source.clone(),
                    target: item.target.clone().unwrap_or_else(|| Target::Queue(source.clone())),
                    message,
                    tag: DeliveryTag(0),
                    state: item.state,
                }),
                None => {
                    let state = if item.state == ItemState::Published {
                        ItemState::Settled
                    } else {
                        ItemState::Skipped
                    };
                    self.counts.count(state);
                    absent.push(mark(item.ordinal, state, Some("it is not kept any more".to_owned())));
                }
            }
        }
        self.advance(absent, Vec::new(), Vec::new()).await?;
        if window.is_empty() {
            return Ok(());
        }
        let (sent, halt) = self.send(window).await?;
        let forget = sent
            .iter()
            .map(|hand| (hand.letter.clone(), KeptKind::Discarded))
            .collect();
        let marks = sent
            .iter()
            .map(|hand| mark(hand.ordinal, ItemState::Settled, None))
            .collect();
        for _ in &sent {
            self.counts.count(ItemState::Settled);
        }
        self.advance(marks, Vec::new(), forget).await?;
        halt.map_or(Ok(()), Err)
    }
}

fn take_open(open: &mut OpenItems, key: &str) -> Option<Open> {
    let items = open.get_mut(key)?;
    let item = items.pop();
    if items.is_empty() {
        open.remove(key);
    }
    item
}

/// The outcome of an item whose message is not there any more.
fn absent(item: &Open) -> ItemMark {
    let (state, reason) = match item.state {
        ItemState::Published => (ItemState::Settled, None),
        ItemState::Journalled => (
            ItemState::Skipped,
            Some("somebody else took it while it was sent: it may be at its target too".to_owned()),
        ),
        _ => (
            ItemState::Skipped,
            Some("gone: somebody else took it, or holds it".to_owned()),
        ),
    };
    mark(item.ordinal, state, reason)
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
