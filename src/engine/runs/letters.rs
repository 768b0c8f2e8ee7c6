//! The messages that an order selects, batch by batch: dead letters from their queues, discarded ones from the
//! store, everything of a queue that is moved.

use std::collections::VecDeque;
use std::time::Duration;

use sha2::{Digest, Sha256};

use super::RunPlanner;
use super::belonging::Bound;
use super::limited::Room;
use super::order::{Order, OrderKind, Selection};
use super::outgoing::{WRAPPER, dropped_names, redriven};
use crate::ambient::{Clock, HashMap, HashSet};
use crate::broker::{BrokerError, Walk, WalkOptions, Walked};
use crate::domain::dead_letter::{self, DeadLetter, Found, likeness};
use crate::domain::error_queue::unwrapped;
use crate::domain::filter::{Condition, Filter};
use crate::domain::id::QueueName;
use crate::domain::message::{Message, decode};
use crate::domain::naming::{QueueType, hex};
use crate::domain::queue::QueueRecord;
use crate::domain::run::Target;
use crate::domain::time::Timestamp;
use crate::engine::EngineError;
use crate::engine::dead::{Horizon, Targets, dead_filter};
use crate::engine::error::chain;
use crate::engine::fields::DeadFields;
use crate::engine::looks::{Charge, Cost, returns_of};
use crate::engine::room::Load;
use crate::engine::sieve::{Question, Sieve};
use crate::engine::sources::{CUT, cut_off};
use crate::engine::view::{Source, Unread};
use crate::store::{KeptKind, KeptMessage, KeptPlace, KeptQuery};

/// Messages of one batch.
const BATCH: usize = 2_000;
/// Messages that come before they are asked for.
const WINDOW: u32 = 2_000;
/// A plan that does not go on for so long has lost its claim on a queue.
pub(super) const CLAIM: Duration = Duration::from_secs(15);
/// How long somebody else's claim is waited for.
const CLAIM_PATIENCE: Duration = Duration::from_secs(30);
/// Characters of a body that a sample shows.
const SAMPLE_MAX: usize = 60;

/// One selected message.
#[derive(Clone, Debug)]
pub(super) struct Letter {
    pub(super) id: String,
    pub(super) source: QueueName,
    /// Where it came from, or what is known of it.
    pub(super) target: Result<Target, String>,
    /// The queue that it died in, where its headers say so.
    pub(super) died_in: Option<QueueName>,
    /// Why it is not sent anywhere, whatever its target: its queue could drop it, or another one.
    pub(super) refused: Option<String>,
    /// Some of its headers could not be read whole: what is kept or sent of it would be another message.
    pub(super) is_cut: bool,
    /// Why it would not be delivered from where it goes.
    pub(super) misplaced: Option<String>,
    pub(super) bytes: u64,
    pub(super) at: Option<Timestamp>,
    pub(super) redriven: u64,
    /// What is taken off it.
    pub(super) dropped: Vec<String>,
    /// What the same message in another queue has in common with it, where others get its dead letters too.
    pub(super) content: Option<[u8; 16]>,
    /// The message for people (from outside).
    pub(super) sample: String,
}

impl Letter {
    pub(super) const fn load(&self) -> Load {
        Load {
            messages: 1,
            bytes: self.bytes,
        }
    }
}

/// Some selected messages.
#[derive(Debug, Default)]
pub(super) struct Batch {
    pub(super) letters: Vec<Letter>,
    /// Not selected because they died again after a redrive.
    pub(super) left_out: u64,
    /// What a person should know of where they are.
    pub(super) warnings: Vec<String>,
    /// Some of a queue, or all of it, could not be looked at.
    pub(super) lacks_some: bool,
    /// Why there may be queues of dead letters besides those that were looked at.
    pub(super) unread: Option<Unread>,
}

/// What equal messages of a queue have in common.
pub(super) fn identity(queue: &QueueName, message: &Message) -> (String, bool) {
    let like = likeness(queue.as_str(), message);
    (hex(&like.digest), like.collapses)
}

/// Another id for a letter, of its own in each run: messages of others that are equal have one id, one after another.
pub(super) fn name_in_run(letter: &str, run: &str) -> String {
    let digest = Sha256::new()
        .chain_update(run)
        .chain_update([0])
        .chain_update(letter)
        .finalize();
    hex(&digest[..16])
}

/// What equal messages have in common, of an id.
pub(super) fn common(letter: &str) -> &str {
    letter.split_once('.').map_or(letter, |(common, _)| common)
}

/// The selected messages that are still to come.
pub(super) struct Letters {
    from: From,
    /// What a person should know before the first of them.
    told: Option<Batch>,
    selection: Selection,
    bound: Bound,
    sieve: Sieve,
    others: Others,
}

/// What others may do with the queues meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Others {
    /// Nobody else looks at them.
    Wait,
    MayLook,
}

enum From {
    Queues {
        left: VecDeque<Left>,
        walking: Option<Box<Walking>>,
    },
    Kept {
        after: Option<KeptPlace>,
        over: bool,
    },
    /// Read already, under the lease of a delivery queue.
    Read(Batch),
}

/// A queue that was not begun.
struct Left {
    queue: QueueName,
    /// Whether it is a dead-letter queue that counts looks.
    counts_looks: bool,
}

struct Walking {
    queue: QueueName,
    walk: Box<dyn Walk>,
    horizon: Horizon,
    /// Whether what was there when it began is seen.
    is_over: bool,
    /// How many alike were met.
    alike: HashMap<[u8; 16], u32>,
    /// Of the claim on the queue.
    claim: Option<i64>,
    /// Where each look counts.
    counts: Option<Counts>,
}

/// A queue that counts the look at it.
struct Counts {
    charge: Charge,
    /// What the messages had before it.
    returns: Vec<u64>,
    room: Room,
    is_told: bool,
}

/// What came of beginning a walk.
enum Begun {
    Walking(Box<Walking>),
    /// There is no such queue.
    Missing,
    /// Somebody consumes it, and nothing was taken.
    Consumed(String),
}

impl RunPlanner {
    pub(super) async fn letters(&self, order: &Order) -> Result<Letters, EngineError> {
        let mut bound = Bound::of(order, &self.settings.naming);
        let mut told = None;
        let filter = match order.selection.expression() {
            Some(expression) => Some(dead_filter(expression)?),
            None => None,
        };
        let from = match (order.kind, &order.selection) {
            (OrderKind::Restore, Selection::Ids(_) | Selection::All | Selection::Run(_)) => From::Kept {
                after: None,
                over: false,
            },
            (OrderKind::Restore, _) => {
                return Err(EngineError::Invalid {
                    field: "ids".to_owned(),
                    message: "discarded messages are restored by ids, by the run that discarded them, or all of them"
                        .to_owned(),
                });
            }
            (_, Selection::Head(queue)) => From::Read(self.read_ours(queue, &bound, 1).await?),
            (_, Selection::Queue(queue)) if self.settings.naming.is_delivery_queue(queue.as_str()) => {
                From::Read(self.read_ours(queue, &bound, usize::MAX).await?)
            }
            (_, Selection::Queue(queue)) => From::Queues {
                left: VecDeque::from([Left {
                    queue: queue.clone(),
                    counts_looks: self.limited_target(queue).await?.is_some(),
                }]),
                walking: None,
            },
            (_, _) => {
                let targets = self.dead_targets.dead_targets_asked_for().await?;
                bound.doubled = targets.doubled();
                let (left, batch) = self.left_of(targets, &order.selection, filter.as_ref());
                told = Some(batch).filter(|batch| !batch.warnings.is_empty());
                From::Queues { left, walking: None }
            }
        };
        Ok(Letters {
            from,
            told,
            selection: order.selection.clone(),
            bound,
            sieve: self.sieve(filter),
            others: match order.kind {
                OrderKind::Redrive | OrderKind::Discard => Others::Wait,
                OrderKind::Restore | OrderKind::Move | OrderKind::Skip => Others::MayLook,
            },
        })
    }
}

impl RunPlanner {
    /// The queues that are walked, and what is said of the others. Those that the filter leaves out by their names are
    /// not touched.
    fn left_of(&self, targets: Targets, selection: &Selection, filter: Option<&Filter>) -> (VecDeque<Left>, Batch) {
        let mut told = Batch::default();
        if let Some(unread) = targets.unread {
            told.warnings.push(format!("left out: {}", unread.reason));
            told.unread = Some(unread);
        }
        let mut left = VecDeque::new();
        let conditions = filter.map(Filter::conditions).unwrap_or_default();
        let is_meant = |name: &str| {
            conditions.iter().all(|condition| match condition {
                Condition::Is("queue", queue) => *queue == name,
                Condition::Is(..)
                | Condition::Contains(..)
                | Condition::Holds(_)
                | Condition::AtLeast(..)
                | Condition::Longer(..) => true,
            })
        };
        let takes_no_work = matches!(selection, Selection::All | Selection::Filter(_));
        let names = |name: &str| conditions.contains(&Condition::Is("queue", name));
        for target in targets.queues.iter().filter(|target| is_meant(target.name.as_str())) {
            let name = target.name.as_str();
            if let Some(why) = target.not_taken() {
                told.warnings.push(format!("left out: {name} ({why})"));
                told.unread.get_or_insert_with(|| Unread {
                    source: Source::Queue(target.name.clone()),
                    reason: why.to_owned(),
                    since: self.clock.now(),
                });
            } else if takes_no_work && !names(name) && target.may_be_work && target.ready != Some(0) {
                told.warnings.push(format!(
                    "left out: {name}, which may be a queue of work: it gets its messages from queues that keep them for a \
                     time; --filter 'queue = \"{name}\"' or dead.queues takes it in"
                ));
            } else {
                left.push_back(Left {
                    queue: target.name.clone(),
                    counts_looks: target.delivery_limit.is_some(),
                });
            }
        }
        told.lacks_some = !told.warnings.is_empty();
        (left, told)
    }
}

impl Letters {
    /// No more of them: gives back what is in hand.
    pub(super) async fn close(self, planner: &RunPlanner) -> Result<(), EngineError> {
        if let From::Queues {
            walking: Some(walking), ..
        } = self.from
        {
            walking.break_off(planner).await?;
        }
        Ok(())
    }

    /// The next ones; `None` at the end.
    pub(super) async fn next(&mut self, planner: &RunPlanner) -> Result<Option<Batch>, EngineError> {
        if let Some(told) = self.told.take() {
            return Ok(Some(told));
        }
        match &mut self.from {
            From::Read(batch) => {
                let batch = std::mem::take(batch);
                Ok((!batch.letters.is_empty()).then_some(batch))
            }
            From::Kept { over: true, .. } => Ok(None),
            From::Kept { after, over } => {
                let kept = kept_behind(planner, &self.selection, after.clone()).await?;
                *over = kept.len() < BATCH;
                *after = kept.last().map(KeptMessage::place);
                Ok(Some(Batch {
                    letters: kept.into_iter().map(discarded).collect(),
                    ..Batch::default()
                }))
            }
            From::Queues { left, walking } => loop {
                if walking.is_none() {
                    let Some(Left { queue, counts_looks }) = left.pop_front() else {
                        return Ok(None);
                    };
                    // Asked again: each look since the run began counts too.
                    if counts_looks && let Some(limited) = planner.limited_target(&queue).await? {
                        let wanted = (&self.selection, &self.bound);
                        let batch = planner.indexed_batch(&limited, wanted, &mut self.sieve).await;
                        return or_left_out(batch, &queue, &self.selection).map(Some);
                    }
                    match begin(planner, queue.clone(), self.others, walk_over).await {
                        Ok(Begun::Walking(begun)) => *walking = Some(begun),
                        Ok(Begun::Missing) => continue,
                        Ok(Begun::Consumed(why)) if is_of_several(&self.selection) => return Ok(Some(left_out(&why))),
                        Ok(Begun::Consumed(why)) => return Err(EngineError::Refused { why }),
                        Err(error) => return or_left_out(Err(error), &queue, &self.selection).map(Some),
                    }
                }
                let Some(current) = walking else { continue };
                let walked = match current.next(&planner.clock).await {
                    Ok(walked) => walked,
                    Err(error) => {
                        let queue = current.queue.clone();
                        // The broker closed the channel of it: only the claim is left to be freed.
                        if let Some(broken) = walking.take()
                            && let Err(error @ EngineError::Store(_)) = broken.break_off(planner).await
                        {
                            return Err(error);
                        }
                        return or_left_out(Err(error.into()), &queue, &self.selection).map(Some);
                    }
                };
                if walked.is_empty() {
                    if let Some(done) = walking.take()
                        && let Some(cut) = done.no_more(planner).await?
                    {
                        return Ok(Some(cut));
                    }
                    continue;
                }
                if let Some(generation) = current.claim {
                    let queue = current.queue.clone();
                    planner.store.dead_write(&queue, generation, &[], CLAIM).await?;
                }
                let wanted = (&self.selection, &self.bound);
                let batch = choose(current, &walked, wanted, &mut self.sieve, planner.clock.now()).await?;
                return Ok(Some(batch));
            },
        }
    }
}

/// The next discarded messages that are selected.
async fn kept_behind(
    planner: &RunPlanner,
    selection: &Selection,
    after: Option<KeptPlace>,
) -> Result<Vec<KeptMessage>, EngineError> {
    let query = KeptQuery {
        kind: KeptKind::Discarded,
        run: selection.run().map(ToOwned::to_owned),
        letters: selection.ids().to_vec(),
        after,
        limit: u32::try_from(BATCH).unwrap_or(u32::MAX),
    };
    Ok(planner.store.kept_list(&query).await?)
}

/// What is said of a queue that was looked at in part.
fn in_part(queue: &QueueName, now: Timestamp) -> Batch {
    Batch {
        warnings: vec![format!("queue {}: {CUT}; {BEHIND}", queue.as_str())],
        unread: Some(cut_off(queue, now)),
        lacks_some: true,
        ..Batch::default()
    }
}

/// A queue of several whose messages are not taken.
fn left_out(why: &str) -> Batch {
    Batch {
        warnings: vec![format!("left out: {why}")],
        lacks_some: true,
        ..Batch::default()
    }
}

/// Whether the selection is over several queues, so that one of them stops nothing.
const fn is_of_several(selection: &Selection) -> bool {
    match selection {
        Selection::Ids(_) | Selection::Group(_) | Selection::Filter(_) | Selection::All | Selection::Run(_) => true,
        Selection::Queue(_) | Selection::Head(_) => false,
    }
}

/// One queue of several that cannot be read is a line of the plan, unless nothing can be read at all.
fn or_left_out(batch: Result<Batch, EngineError>, queue: &QueueName, of: &Selection) -> Result<Batch, EngineError> {
    let error = match batch {
        Err(EngineError::Broker(error)) if is_of_several(of) => error,
        Err(EngineError::Refused { why }) if is_of_several(of) => return Ok(left_out(&why)),
        other => return other,
    };
    if matches!(
        error,
        BrokerError::Unreachable { .. } | BrokerError::Login { .. } | BrokerError::Blocked { .. }
    ) {
        return Err(error.into());
    }
    let is_right = matches!(&error, BrokerError::Rights { right, .. } if right.contains("queue"));
    let why = if is_right {
        "the user lacks read".to_owned()
    } else {
        chain(&error)
    };
    Ok(Batch {
        warnings: vec![format!("not readable: {} ({why})", queue.as_str())],
        lacks_some: true,
        ..Batch::default()
    })
}

/// What of these messages is meant.
async fn choose(
    current: &mut Walking,
    walked: &[Walked],
    (selection, bound): (&Selection, &Bound),
    sieve: &mut Sieve,
    now: Timestamp,
) -> Result<Batch, EngineError> {
    let mut batch = Batch::default();
    let mut letters: Vec<(DeadLetter, &Message)> = Vec::with_capacity(walked.len());
    for one in walked {
        letters.extend(
            current
                .read(&one.message, one.position)
                .map(|letter| (letter, &one.message)),
        );
    }
    let choices = chosen(
        (selection, bound),
        sieve,
        &letters,
        |(letter, message)| (letter, Some(*message)),
        now,
    )
    .await?;
    for ((letter, message), choice) in letters.iter().zip(choices) {
        match choice {
            Chosen::Yes => batch
                .letters
                .push(current.judged(selected(letter, message, bound), message)),
            Chosen::LeftOut => batch.left_out += 1,
            Chosen::No => {}
        }
    }
    current.tell(&mut batch);
    Ok(batch)
}

/// Walks a queue from its head on.
fn walk_over(cost: &Cost) -> WalkOptions {
    WalkOptions {
        window_messages: WINDOW,
        ..cost.walk()
    }
}

/// Begins to walk a queue, as far as that costs nothing that it may not cost.
async fn begin(
    planner: &RunPlanner,
    queue: QueueName,
    others: Others,
    walk: fn(&Cost) -> WalkOptions,
) -> Result<Begun, EngineError> {
    let cost = planner.looks.cost_of(&queue).await?;
    let claim = match others {
        Others::Wait => Some(planner.dead_index.claim_dead(&queue, "plan", CLAIM_PATIENCE).await?),
        Others::MayLook => None,
    };
    let begun = begin_claimed(planner, &queue, (&cost, walk), claim).await;
    if let (Ok(Begun::Missing | Begun::Consumed(_)) | Err(_), Some(generation)) = (&begun, claim) {
        planner.store.dead_free(&queue, generation).await?;
    }
    begun
}

async fn begin_claimed(
    planner: &RunPlanner,
    queue: &QueueName,
    (cost, walk): (&Cost, fn(&Cost) -> WalkOptions),
    claim: Option<i64>,
) -> Result<Begun, EngineError> {
    let ready = match planner.looks.unconsumed(queue).await {
        Ok(ready) => ready,
        Err(EngineError::Refused { why }) => return Ok(Begun::Consumed(why)),
        Err(error) => return Err(error),
    };
    let known = planner.store.dead_queues().await?.into_iter();
    let known = known
        .filter(|known| known.name == *queue)
        .find_map(|known| known.messages);
    let known = known.unwrap_or_default();
    let charge = planner.looks.look_begins(queue, cost, Some(ready)).await?;
    let options = WalkOptions {
        whole: claim.is_some(),
        ..walk(cost)
    };
    let Some(walk) = planner.walk_letters(queue, options).await? else {
        return Ok(Begun::Missing);
    };
    let counts = charge.zip(cost.limit()).map(|(charge, limit)| Counts {
        charge,
        returns: Vec::new(),
        room: Room::of(queue.clone(), limit, 0),
        is_told: false,
    });
    Ok(Begun::Walking(Box::new(Walking {
        queue: queue.clone(),
        walk,
        horizon: Horizon::of(Some(ready.max(known))),
        is_over: false,
        alike: HashMap::default(),
        claim,
        counts,
    })))
}

impl Walking {
    /// The next messages of those that were there when it began.
    async fn next(&mut self, clock: &Clock) -> Result<Vec<Walked>, BrokerError> {
        if self.is_over {
            return Ok(Vec::new());
        }
        let walked = self.walk.next(BATCH).await?;
        self.is_over = self.horizon.saw(walked.len(), clock.uptime());
        Ok(walked)
    }

    /// Gives everything back when nothing more comes; answers what is to be said where there is more.
    async fn no_more(self, planner: &RunPlanner) -> Result<Option<Batch>, EngineError> {
        if !self.walk.is_cut() {
            self.end(planner).await?;
            return Ok(None);
        }
        let queue = self.queue.clone();
        self.break_off(planner).await?;
        Ok(Some(in_part(&queue, planner.clock.now())))
    }

    /// Gives everything back, at the end of the queue.
    async fn end(self, planner: &RunPlanner) -> Result<(), EngineError> {
        let (counts, again) = self.give_back(planner).await?;
        if let Some(counts) = counts {
            planner.looks.look_ended(counts.charge, counts.returns, again).await;
        }
        Ok(())
    }

    /// The same before its end.
    async fn break_off(self, planner: &RunPlanner) -> Result<(), EngineError> {
        let (counts, again) = self.give_back(planner).await?;
        if let Some(counts) = counts {
            planner.looks.look_broke_off(counts.charge, again).await;
        }
        Ok(())
    }

    /// Answers also how many of its messages were delivered before.
    async fn give_back(self, planner: &RunPlanner) -> Result<(Option<Counts>, u64), EngineError> {
        let closed = self.walk.close().await;
        if let Some(generation) = self.claim {
            planner.store.dead_free(&self.queue, generation).await?;
        }
        Ok((self.counts, closed?))
    }

    /// The letter, refused where its queue could drop it.
    fn judged(&self, letter: Letter, message: &Message) -> Letter {
        match &self.counts {
            Some(counts) => counts.room.take(letter, message),
            None => letter,
        }
    }

    /// Says once what the look and the run cost.
    fn tell(&mut self, batch: &mut Batch) {
        let counts = self.counts.as_mut().filter(|counts| !counts.is_told);
        if let Some(counts) = counts {
            counts.room.judge(batch, "this plan took one of each message");
            counts.is_told = !batch.warnings.is_empty();
        }
    }

    /// The dead letter, unless it is a copy of one that was met.
    fn read(&mut self, message: &Message, position: u64) -> Option<DeadLetter> {
        if let Some(counts) = &mut self.counts {
            counts.returns.push(returns_of(message));
        }
        let like = likeness(self.queue.as_str(), message);
        let ordinal = self.alike.entry(like.digest).or_default();
        *ordinal += 1;
        if like.collapses && *ordinal > 1 {
            return None;
        }
        let found = Found {
            queue: &self.queue,
            position,
            redelivered: false,
            message_ttl_ms: None,
            queue_expires_at: None,
        };
        Some(dead_letter::read(message, &like, *ordinal, &found))
    }
}

pub(super) enum Chosen {
    Yes,
    No,
    LeftOut,
}

/// What is meant of these, one choice a row.
pub(super) async fn chosen<T: Sync>(
    (selection, bound): (&Selection, &Bound),
    sieve: &mut Sieve,
    rows: &[T],
    letter_of: impl for<'r> Fn(&'r T) -> (&'r DeadLetter, Option<&'r Message>) + Sync,
    now: Timestamp,
) -> Result<Vec<Chosen>, EngineError> {
    let taken = |row: &T| {
        if bound.without_redriven && letter_of(row).0.redriven > 0 {
            Chosen::LeftOut
        } else {
            Chosen::Yes
        }
    };
    if let Selection::Filter(_) = selection {
        let is_in = |filter: &Question<'_>, row: &T| {
            let (letter, message) = letter_of(row);
            filter.matches(&DeadFields::of(letter, message, filter.rules, now))
        };
        let marks = sieve.ask(rows, is_in).await?;
        let choices = marks
            .into_iter()
            .zip(rows)
            .map(|(is_in, row)| if is_in { taken(row) } else { Chosen::No });
        return Ok(choices.collect());
    }
    let mut named: HashSet<&str> = HashSet::default();
    if let Selection::Ids(ids) = selection {
        named.extend(ids.iter().map(String::as_str));
    }
    let choose = |row: &T| {
        let (letter, _) = letter_of(row);
        match selection {
            Selection::Ids(_) if !named.contains(letter.id.as_str()) => Chosen::No,
            Selection::Group(fingerprint) if *fingerprint != letter.fingerprint => Chosen::No,
            Selection::Ids(_)
            | Selection::Queue(_)
            | Selection::Head(_)
            | Selection::Group(_)
            | Selection::Filter(_)
            | Selection::All
            | Selection::Run(_) => taken(row),
        }
    };
    Ok(rows.iter().map(choose).collect())
}

pub(super) fn selected(letter: &DeadLetter, message: &Message, bound: &Bound) -> Letter {
    let target = match dead_letter::target(letter.queue.as_str(), message, &bound.naming) {
        Ok(dead_letter::Target::Delivery(queue)) => Ok(Target::Queue(queue)),
        Ok(dead_letter::Target::Exchange { exchange, routing_key }) => {
            Target::of(exchange, routing_key).ok_or_else(|| "its origin has no name".to_owned())
        }
        Err(unknown) => Err(unknown.to_string()),
    };
    Letter {
        id: letter.id.as_str().to_owned(),
        source: letter.queue.clone(),
        misplaced: bound.misplaced(letter, target.as_ref().ok(), message),
        target,
        died_in: letter.origin.as_deref().and_then(|name| QueueName::parse(name).ok()),
        is_cut: !message.is_whole(),
        refused: None,
        bytes: letter.size_bytes,
        at: letter.last_failed_at.or(letter.first_failed_at),
        redriven: redriven(message),
        dropped: dropped(letter.queue.as_str(), message),
        content: bound
            .doubled
            .contains(&letter.queue)
            .then(|| likeness("", message).digest),
        sample: sample(letter.id.as_str(), message),
    }
}

fn dropped(queue: &str, message: &Message) -> Vec<String> {
    let names = dropped_names(message);
    let wrapper = unwrapped(queue, message).map(|_| WRAPPER);
    wrapper.into_iter().chain(names).map(ToOwned::to_owned).collect()
}

fn discarded(kept: KeptMessage) -> Letter {
    let message = decode(&kept.message);
    Letter {
        target: message
            .as_ref()
            .map(|_| Target::Queue(kept.queue.clone()))
            .ok_or_else(|| "it cannot be read any more".to_owned()),
        died_in: None,
        is_cut: false,
        refused: None,
        misplaced: None,
        bytes: message.as_ref().map_or(0, |message| message.body.len() as u64),
        at: Some(kept.at),
        redriven: 0,
        dropped: message
            .as_ref()
            .map_or_else(Vec::new, |message| dropped(kept.queue.as_str(), message)),
        content: None,
        sample: message.map_or_else(String::new, |message| sample(&kept.letter, &message)),
        source: kept.queue,
        id: kept.letter,
    }
}

pub(super) fn sample(id: &str, message: &Message) -> String {
    let body = &message.body;
    let end = body.len().min(SAMPLE_MAX);
    // A character has at most four bytes, and all but its first look like this.
    let is_inside = |end: &usize| body.get(*end).is_some_and(|byte| byte & 0xC0 == 0x80);
    let whole = (end.saturating_sub(3)..=end).rev().find(|end| !is_inside(end));
    let text = String::from_utf8_lossy(&body[..whole.unwrap_or(end)]);
    let more = if body.len() > SAMPLE_MAX { "…" } else { "" };
    format!("{id}: {text}{more}")
}

/// What is told of messages that a plan could not look at.
const BEHIND: &str = "those behind are not in this plan: plan again when these are gone";

/// What is told of a plan for a quorum delivery queue.
const ORDER_LOST: &str = "what stays in this quorum queue may be delivered out of order later: RabbitMQ puts a message that \
                          comes back behind those that were looked at";

/// Why more than the head of a quorum delivery queue is not looked at while it is delivered from: what the broker gets
/// back lines up behind what it got back before, so that the next head that fails would be overtaken.
fn may_lose_its_order(record: &QueueRecord) -> Result<(), EngineError> {
    if record.pause.is_some() {
        return Ok(());
    }
    Err(EngineError::Refused {
        why: format!(
            "queue {:?} is a quorum queue, and a look at more than its first message would bring its deliveries out of \
             order: pause it first with `redrive queue pause`, and move all of it",
            record.name.as_str()
        ),
    })
}

impl RunPlanner {
    /// The first messages of a delivery queue, under its lease.
    async fn read_ours(&self, queue: &QueueName, bound: &Bound, limit: usize) -> Result<Batch, EngineError> {
        if self
            .store
            .queue_get(queue)
            .await?
            .is_some_and(|row| row.decision.is_some())
        {
            return Err(EngineError::Refused {
                why: "a decision about its head is being carried out: try again in a moment".to_owned(),
            });
        }
        // Of a quorum queue no more than is asked for may be in hand: what is given back may change places with it later.
        let walk = if limit == 1 { Cost::walk_head } else { walk_over };
        let is_looked_over = limit > 1 && self.settings.naming.queue_type == QueueType::Quorum;
        self.under_lease(queue, "plan", |lease| async move {
            let mut batch = Batch::default();
            if is_looked_over {
                may_lose_its_order(&lease.record)?;
                batch.warnings.push(ORDER_LOST.to_owned());
            }
            let (mut alike, mut exists) = (HashMap::default(), false);
            for part in self.parts(&lease.record) {
                if batch.letters.len() >= limit {
                    break;
                }
                let mut walking = match begin(self, part, Others::MayLook, walk).await? {
                    Begun::Walking(walking) => walking,
                    Begun::Missing => continue,
                    Begun::Consumed(why) => return Err(EngineError::Refused { why }),
                };
                exists = true;
                // A message is known by the queue that it belongs to, in whichever part it is.
                walking.queue = queue.clone();
                walking.alike = alike;
                let (mut whole, mut cut) = (false, false);
                while batch.letters.len() < limit && !whole && !cut {
                    let walked = walking.walk.next(BATCH.min(limit)).await?;
                    cut = walking.walk.is_cut();
                    whole = walked.is_empty() && !cut;
                    for one in walked.iter().take(limit - batch.letters.len()) {
                        if let Some(letter) = walking.read(&one.message, one.position) {
                            let letter = selected(&letter, &one.message, bound);
                            batch.letters.push(walking.judged(letter, &one.message));
                        }
                    }
                }
                walking.tell(&mut batch);
                alike = std::mem::take(&mut walking.alike);
                if whole {
                    walking.end(self).await?;
                } else {
                    walking.break_off(self).await?;
                }
                if cut {
                    // What is in a later part comes behind the rest of this one.
                    batch.warnings.push(format!("{CUT}; {BEHIND}"));
                    break;
                }
            }
            if !exists {
                return Err(EngineError::NotFound {
                    what: format!("queue {:?}", queue.as_str()),
                });
            }
            Ok(batch)
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_ends_between_characters_and_says_that_more_follows() {
        let of = |body: &str| {
            let message = Message {
                body: body.to_owned().into(),
                ..Message::default()
            };
            sample("a", &message)
        };
        assert_eq!(of("{}"), "a: {}");
        let long = of(&format!("{}é and more", "x".repeat(SAMPLE_MAX - 1)));
        assert_eq!(long, format!("a: {}…", "x".repeat(SAMPLE_MAX - 1)));
        let binary = Message {
            body: vec![0x80; SAMPLE_MAX + 1].into(),
            ..Message::default()
        };
        assert!(sample("a", &binary).ends_with('…'));
    }
}
