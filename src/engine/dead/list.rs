//! Lists, groups and single dead letters, from the index; looks are begun where it may be old.

use std::cmp::Reverse;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;

use super::events;
use super::look::{Horizon, Reader};
use super::outlet::Outlet;
use super::sum::was_claimed;
use super::targets::Targets;
use super::{
    DeadDetail, DeadGroup, DeadLetters, DeadListQuery, DeadPage, DeadPages, DeadQueueView, DeadSelection, DeadSort,
    DeadTarget, Instead, searched,
};
use crate::ambient::{self, HashMap};
use crate::broker::{BrokerError, Walk};
use crate::budget::{Share, Use};
use crate::domain::broker_rules::Looks;
use crate::domain::dead_letter::{self, DeadLetter, DeadLetterId, EVENT_TABLE, Home};
use crate::domain::death;
use crate::domain::filter::{Condition, Filter};
use crate::domain::id::QueueName;
use crate::domain::message::{self, Message};
use crate::domain::time::Timestamp;
use crate::domain::words::plural;
use crate::engine::fields::{DEAD_FIELDS, DeadFields};
use crate::engine::looks::returns_of;
use crate::engine::paging::offset_of;
use crate::engine::sieve::{self, Question, Sieve};
use crate::engine::sources::cut_off;
use crate::engine::view::{Page, Source, Unread};
use crate::engine::{Engine, EngineError};
use crate::store::{DeadGroupQuery, DeadQuery, DeadQueue, DeadText, KeptKind};

/// Rows of one read while a filter is applied.
const READ: u32 = 1000;
/// Groups that are told apart, at most.
const GROUPS_MAX: usize = 10_000;
/// What is new, for a trend, and what it is compared with.
const RECENT: Duration = Duration::from_hours(1);
/// Messages on their way to whoever exports.
const EXPORTED_AHEAD: usize = 64;

/// How the dead-letter queues stand after a look.
pub(super) struct Looked {
    pub(super) views: Vec<DeadQueueView>,
    pub(super) problems: Vec<Unread>,
    pub(super) now: Timestamp,
}

impl Looked {
    /// As of when the list of a queue, or of all, is: that of its oldest look.
    pub(super) fn as_of(&self, queue: Option<&QueueName>) -> Option<Timestamp> {
        let asked = self
            .views
            .iter()
            .filter(|view| queue.is_none_or(|queue| *queue == view.name));
        let filled = asked.filter(|view| view.ready != Some(0) || view.messages.is_some_and(|messages| messages > 0));
        let mut oldest = self.now;
        for view in filled {
            oldest = oldest.min(view.looked_at?);
        }
        Some(oldest)
    }

    /// Where no queue was read, that there is no dead letter is what nobody could see.
    pub(super) fn must_be_read(&self) -> Result<(), EngineError> {
        let is_read = |view: &DeadQueueView| view.ready.is_some() || view.messages.is_some();
        match self.problems.first() {
            Some(unread) if !self.views.iter().any(is_read) => Err(EngineError::Unread(Box::new(unread.clone()))),
            Some(_) | None => Ok(()),
        }
    }
}

/// How the letters of a queue were read for an export.
enum Exporting {
    Whole,
    /// What others have in hand is missing.
    Part(Unread),
    /// Nobody listens any more.
    Left,
}

/// A letter that is handed out, with the memory that its message takes; or why there is no more.
pub type Exported = Result<(DeadDetail, Option<Share>), EngineError>;

impl DeadLetters {
    pub(super) fn detailed(&self, mut letter: DeadLetter, message: Message) -> DeadDetail {
        letter.begins = self.settings.masks.begins(&message.body);
        let naming = &self.settings.naming;
        DeadDetail {
            history: death::history(&message),
            target: dead_letter::target(letter.queue.as_str(), &message, naming).map_err(|error| error.to_string()),
            letter,
            message,
            edited: None,
        }
    }
}

impl DeadLetters {
    pub(in crate::engine) async fn dead_list(
        self: &Arc<Self>,
        query: &DeadListQuery,
    ) -> Result<DeadPage<DeadLetter>, EngineError> {
        let (mut sieve, sort) = (self.sieve(filter(&query.selection)?), sort(query.sort.as_deref())?);
        let exactly = exactly(&sieve);
        let mut after = query.cursor.as_deref().map(cursor).transpose()?;
        let mut looked = self.dead_looks(query.patience).await?;
        let now = self.clock.now();
        let limit = query.limit.clamp(1, READ) as usize;
        if sieve.asks_for_places() || self.is_of_another_queue(&query.selection, &looked.views).await? {
            let found = self.sought(&query.selection, sieve, &mut looked).await?;
            if found.is_empty() {
                looked.must_be_read()?;
            }
            return Ok(page_of(&found, sort, after, limit, now, looked, &query.selection));
        }
        let mut items: Vec<DeadLetter> = Vec::new();
        let mut last = false;
        while items.len() <= limit && !last {
            let read = DeadQuery {
                queue: query.selection.queue.clone(),
                fingerprint: query.selection.group.clone(),
                exactly: exactly.clone(),
                sort,
                after: after.clone(),
                limit: if sieve.filter().is_some() {
                    READ
                } else {
                    query.limit.clamp(1, READ) + 1
                },
            };
            let rows = self.store.dead_letters(&read).await?;
            last = rows.len() < read.limit as usize;
            after = rows.last().map(|row| (sort.value(row), row.id.clone()));
            items.extend(
                sieve
                    .keep(rows, |filter, letter| {
                        filter.matches(&DeadFields::of(letter, None, filter.rules, now))
                    })
                    .await?,
            );
        }
        if items.is_empty() {
            looked.must_be_read()?;
        }
        let more = items.len() > limit;
        items.truncate(limit);
        let broker = self.ownership.broker_label().await?;
        for item in &mut items {
            item.broker.clone_from(&broker);
        }
        let next = items.last().filter(|_| more);
        Ok(DeadPage {
            page: Page {
                problems: Vec::new(),
                next_cursor: next.map(|row| format!("{}_{}", sort.value(row), row.id.as_str())),
                items,
                taken_at: now,
            },
            as_of: looked.as_of(query.selection.queue.as_ref()),
            queues: looked.views,
            problems: looked.problems,
        })
    }

    pub(in crate::engine) async fn dead_groups(
        self: &Arc<Self>,
        query: &DeadListQuery,
    ) -> Result<DeadPage<DeadGroup>, EngineError> {
        let sieve = self.sieve(filter(&query.selection)?);
        let first = offset_of(query.cursor.as_deref())?.min(GROUPS_MAX);
        let behind = first + query.limit.clamp(1, READ) as usize;
        let mut looked = self.dead_looks(query.patience).await?;
        let now = self.store.now().await?;
        let asked = DeadGroupQuery {
            queue: query.selection.queue.clone(),
            recent_since: now.minus(RECENT),
            before_since: now.minus(RECENT * 2),
            // One more says that there is another page.
            limit: u32::try_from((behind + 1).min(GROUPS_MAX)).unwrap_or(u32::MAX),
        };
        let another = self.is_of_another_queue(&query.selection, &looked.views).await?;
        let items = if another {
            let found = self.sought(&query.selection, sieve, &mut looked).await?;
            let mut groups = HashMap::default();
            found.iter().for_each(|letter| join(&mut groups, letter, &asked));
            largest(groups, asked.limit)
        } else if sieve.filter().is_none() && query.selection.group.is_none() {
            self.store.dead_groups(&asked).await?
        } else {
            self.filtered_groups(query, sieve, &asked, now, &mut looked).await?
        };
        if items.is_empty() {
            looked.must_be_read()?;
        }
        Ok(DeadPage {
            page: Page {
                problems: Vec::new(),
                next_cursor: (items.len() > behind).then(|| behind.to_string()),
                items: items.into_iter().take(behind).skip(first).collect(),
                taken_at: now,
            },
            as_of: looked.as_of(query.selection.queue.as_ref()),
            queues: looked.views,
            problems: looked.problems,
        })
    }

    async fn filtered_groups(
        &self,
        query: &DeadListQuery,
        mut sieve: Sieve,
        asked: &DeadGroupQuery,
        now: Timestamp,
        looked: &mut Looked,
    ) -> Result<Vec<DeadGroup>, EngineError> {
        let turn = self.whole_list().await?;
        let mut groups: HashMap<String, DeadGroup> = HashMap::default();
        if sieve.asks_for_places() {
            let found = self.sought(&query.selection, sieve, looked).await?;
            ambient::beside(|| found.iter().for_each(|letter| join(&mut groups, letter, asked)));
            drop(turn);
            return Ok(largest(groups, asked.limit));
        }
        let DeadSelection { queue, group, .. } = &query.selection;
        let exactly = exactly(&sieve);
        let mut pages = DeadPages::of(queue.clone(), group.clone(), DeadSort::LastFailed).exactly(exactly);
        while let Some(rows) = pages.next(self).await? {
            let letters = sieve
                .keep(rows, |filter, letter| {
                    filter.matches(&DeadFields::of(letter, None, filter.rules, now))
                })
                .await?;
            ambient::beside(|| {
                for letter in &letters {
                    if groups.len() < GROUPS_MAX || groups.contains_key(&letter.fingerprint) {
                        join(&mut groups, letter, asked);
                    }
                }
            });
        }
        drop(turn);
        Ok(largest(groups, asked.limit))
    }

    pub(in crate::engine) async fn dead_detail(
        self: &Arc<Self>,
        id: &str,
        patience: Duration,
    ) -> Result<DeadDetail, EngineError> {
        let mut detail = self.find_detail(id, patience).await?;
        detail.letter.broker = self.ownership.broker_label().await?;
        let kept = self.store.kept_get(id, KeptKind::Edited).await?;
        detail.edited = kept.and_then(|kept| {
            Some(Box::new(Instead {
                message: message::decode(&kept.message)?,
                actor: kept.actor,
                at: kept.at,
            }))
        });
        Ok(detail)
    }

    async fn find_detail(self: &Arc<Self>, id: &str, patience: Duration) -> Result<DeadDetail, EngineError> {
        let unknown = || EngineError::NotFound {
            what: format!("dead letter {id:?} ({})", searched(id)),
        };
        let parsed = DeadLetterId::parse(id).ok_or_else(unknown)?;
        let mut row = self.store.dead_letter(&parsed).await?;
        let mut problems = Vec::new();
        if row.is_none() {
            problems = self.dead_looks(patience).await?.problems;
            row = self.store.dead_letter(&parsed).await?;
        }
        let row = match (row, problems.into_iter().next()) {
            (Some(row), _) => row,
            // It may be where nobody could look.
            (None, Some(unread)) => return Err(EngineError::Unread(Box::new(unread))),
            (None, None) => return Err(unknown()),
        };
        match row.letter.home {
            Home::Event => return self.dead_event(row.letter).await?.ok_or_else(unknown),
            Home::Store => return self.dead_stored(row.letter).await?.ok_or_else(unknown),
            Home::Broker => {}
        }
        let message = match row.copy.as_deref().and_then(message::decode) {
            Some(message) => message,
            None => self.dead_message(&row.letter, patience).await?.ok_or_else(unknown)?,
        };
        Ok(self.detailed(row.letter, message))
    }

    /// The message in its queue.
    async fn dead_message(&self, letter: &DeadLetter, patience: Duration) -> Result<Option<Message>, EngineError> {
        let Targets { queues, unread } = self.targets.dead_targets_asked_for().await?;
        let Some(target) = queues.iter().find(|target| target.name == letter.queue) else {
            // It may be where nobody could look.
            return unread.map_or(Ok(None), |unread| Err(EngineError::Unread(Box::new(unread))));
        };
        self.index.find_letter(target, letter, patience).await
    }

    /// Begins the looks that are due and waits for them, at most for `patience`; answers how every queue
    /// stands then. Queues that are gone are forgotten; those that nobody could look for are not gone.
    pub(super) async fn dead_looks(self: &Arc<Self>, patience: Duration) -> Result<Looked, EngineError> {
        let before = self.store.dead_queues().await?;
        let Targets { queues, unread } = self.targets.dead_targets_asked_for().await?;
        let (known, now) = (self.store.dead_queues().await?, self.store.now().await?);
        let mut targets = queues.as_ref().clone();
        let mut looks = Vec::new();
        for target in &targets {
            let known = known.iter().find(|known| known.name == target.name);
            let cost = self.index.looks_of(target).await?;
            // A look that is under way has messages in hand, and is a consumer: the numbers say less than that.
            let is_due = target.out_of_bounds(known, &cost).is_none() && target.is_due(known, now);
            if is_due || self.index.is_looked_at(&target.name) {
                let look = Arc::clone(&self.index).look_when_free(target.clone());
                looks.push(ambient::spawn("look at dead letters", look));
            }
        }
        // A look of ours does not work on these letters. Beside it there may be a consumer that does: what is looked at was
        // chosen before.
        let ours = |target: &&mut DeadTarget| was_claimed(&target.name, &before, &known);
        targets.iter_mut().filter(ours).for_each(|target| target.consumers = 0);
        let table = known.iter().find(|known| known.name.as_str() == EVENT_TABLE);
        if events::is_due(table, now) {
            let look = Arc::clone(&self.index).look_at_events();
            looks.push(ambient::spawn("look at dead events", look));
        }
        let is_gone = |known: &&DeadQueue| {
            known.name.as_str() != EVENT_TABLE && !targets.iter().any(|target| target.name == known.name)
        };
        if unread.is_none() {
            for gone in known.iter().filter(is_gone) {
                self.store.dead_queue_forget(&gone.name).await?;
            }
        }
        let waiting = async {
            for look in looks {
                let _ = look.await;
            }
        };
        // What takes longer goes on by itself.
        let _ = ambient::timeout(patience, waiting).await;
        let known = self.store.dead_queues().await?;
        let mut views = Vec::with_capacity(targets.len());
        for target in &targets {
            let known = known.iter().find(|known| known.name == target.name);
            views.push(self.queue_view(target, known, &self.index.looks_of(target).await?));
        }
        if let Some(why) = &unread {
            let hidden = known.iter().filter(is_gone);
            views.extend(hidden.map(|known| unread_view(known, &why.reason)));
        }
        views.extend(events::event_table_view(&known));
        // One of which only the number is known has letters that are not in the list.
        let of_queues = targets.iter().filter_map(|target| {
            let seen = known.iter().find(|known| known.name == target.name);
            Some(Unread {
                source: Source::Queue(target.name.clone()),
                reason: target.unread.clone().or_else(|| seen?.problem.clone())?,
                since: now,
            })
        });
        let problems = unread.clone().into_iter().chain(of_queues).collect();
        let now = self.store.now().await?;
        Ok(Looked { views, problems, now })
    }

    /// Sends every selected dead letter with its message, queue by queue in order, until the receiver goes or its time
    /// is over.
    async fn dead_export(self: Arc<Self>, selection: DeadSelection, mut sieve: Sieve, outlet: Outlet) {
        if let Err(error) = self.export_queues(&selection, &mut sieve, &outlet).await {
            outlet.end(error).await;
        }
    }

    pub(super) async fn export_queues(
        &self,
        selection: &DeadSelection,
        sieve: &mut Sieve,
        outlet: &Outlet,
    ) -> Result<(), EngineError> {
        let Targets { queues, mut unread } = self.targets.dead_targets_asked_for().await?;
        let wanted = |target: &DeadTarget| selection.queue.as_ref().is_none_or(|queue| *queue == target.name);
        let mut targets: Vec<DeadTarget> = queues.iter().filter(|target| wanted(target)).cloned().collect();
        if let Some(queue) = &selection.queue {
            if targets.is_empty() {
                targets.extend(self.another_target(queue).await?);
            }
            if !targets.is_empty() {
                // Whichever others there are is not asked.
                unread = None;
            }
        }
        for target in &targets {
            if let Some(reason) = &target.unread {
                unread.get_or_insert_with(|| self.not_read(&target.name, reason.clone()));
                continue;
            }
            let is_known = queues.iter().any(|known| known.name == target.name);
            let read = if is_known && (target.consumers > 0 || target.delivery_limit.is_some()) {
                self.export_copies(target, selection, sieve, outlet).await
            } else {
                self.export_walk(target, selection, sieve, outlet).await
            };
            match read {
                Ok(Exporting::Whole) => {}
                Ok(Exporting::Part(why)) => drop(unread.get_or_insert(why)),
                Ok(Exporting::Left) => return outlet.ended(&target.name),
                // One queue that cannot be read hides no other.
                Err(EngineError::Broker(error)) if !matches!(error, BrokerError::Unreachable { .. }) => {
                    let source = Source::Queue(target.name.clone());
                    unread.get_or_insert_with(|| self.unread(source, &error));
                }
                Err(EngineError::Refused { why }) if is_known => {
                    unread.get_or_insert_with(|| self.not_read(&target.name, why));
                }
                Err(error) => return Err(error),
            }
        }
        self.export_events(selection, sieve, outlet).await?;
        // What could be read is out; that it is not all is the last that is said.
        unread.map_or(Ok(()), |unread| Err(EngineError::Unread(Box::new(unread))))
    }

    /// From the queue itself, as far as it can be looked at in one go.
    async fn export_walk(
        &self,
        target: &DeadTarget,
        selection: &DeadSelection,
        sieve: &mut Sieve,
        outlet: &Outlet,
    ) -> Result<Exporting, EngineError> {
        let before = self.before_reading(&target.name).await?;
        let charge = self.index.charge_look(target).await?;
        let Some(mut walk) = self.walk_letters(&target.name, target.walk()).await? else {
            return Ok(Exporting::Whole);
        };
        let (horizon, mut returns) = (Horizon::of(target.ready.and(before.letters(target))), Vec::new());
        let read = self
            .export_walked(
                target,
                (walk.as_mut(), horizon, &mut returns),
                (selection, sieve),
                outlet,
            )
            .await;
        let is_cut = walk.is_cut();
        let closed = walk.close().await;
        if let Ok(again) = &closed {
            let returns = (matches!(read, Ok(Some(_))) && !is_cut).then_some(returns);
            self.index.looks.look_is_over(charge, returns, *again).await;
        }
        let Some(count) = read? else {
            return Ok(Exporting::Left);
        };
        closed?;
        if is_cut {
            return Ok(Exporting::Part(cut_off(&target.name, self.clock.now())));
        }
        let missing = self.missing(target, &before, count).await?;
        Ok(missing.map_or(Exporting::Whole, Exporting::Part))
    }

    /// How many letters there were; `None` when nobody listens any more.
    async fn export_walked(
        &self,
        target: &DeadTarget,
        (walk, mut horizon, returns): (&mut dyn Walk, Horizon, &mut Vec<u64>),
        (selection, sieve): (&DeadSelection, &mut Sieve),
        outlet: &Outlet,
    ) -> Result<Option<u64>, EngineError> {
        let (mut reader, mut count, mut is_over) = (Reader::default(), 0, false);
        while !is_over {
            let walked = walk.next(READ as usize).await?;
            is_over = horizon.saw(walked.len(), self.clock.uptime());
            count += walked.len() as u64;
            if target.delivery_limit.is_some() {
                returns.extend(walked.iter().map(|one| returns_of(&one.message)));
            }
            if outlet.has_ended() {
                return Ok(None);
            }
            let read = walked.into_iter().map(|one| (reader.read(target, &one), one.message));
            let read = self
                .sifted(
                    read.collect(),
                    |(letter, message)| (letter, Some(message)),
                    selection,
                    sieve,
                )
                .await?;
            for (letter, message) in read {
                if !self.exported(self.detailed(letter, message), outlet).await {
                    return Ok(None);
                }
            }
        }
        Ok(Some(count))
    }

    /// From the store, where a look would cost, or would take letters out of the hands of those who consume them. Where looks
    /// cost, there is one first if the store does not know what is there.
    async fn export_copies(
        &self,
        target: &DeadTarget,
        selection: &DeadSelection,
        sieve: &mut Sieve,
        outlet: &Outlet,
    ) -> Result<Exporting, EngineError> {
        let mut lacks = None;
        if target.consumers == 0 {
            let (_, why) = self.index.indexed(target).await?;
            lacks = why.map(|why| self.not_read(&target.name, why));
        }
        let mut pages = DeadPages::of(Some(target.name.clone()), selection.group.clone(), DeadSort::Position);
        let mut without_copy = 0;
        while let Some(rows) = pages.next(self).await? {
            if outlet.has_ended() {
                return Ok(Exporting::Left);
            }
            // What a filter asks of the message is asked once that is read.
            let first = if sieve.asks_for_places() {
                rows
            } else {
                self.sifted(rows, |letter| (letter, None), selection, sieve).await?
            };
            for letter in first {
                let row = self.store.dead_letter(&letter.id).await?;
                let copy = row.and_then(|row| row.copy).as_deref().and_then(message::decode);
                let Some(message) = copy else {
                    without_copy += 1;
                    continue;
                };
                if !self
                    .handed_on(self.detailed(letter, message), selection, sieve, outlet)
                    .await?
                {
                    return Ok(Exporting::Left);
                }
            }
        }
        if target.consumers > 0 {
            let known = self.store.dead_queues().await?;
            let row = known.iter().find(|known| known.name == target.name);
            let is_free = row.is_none_or(|row| row.claimed_by.is_none());
            let is_empty = (target.ready, target.unacked) == (Some(0), Some(0)) && is_free;
            let is_seen = row.is_some_and(|row| row.looked_at.is_some() && !target.differs(row));
            if without_copy > 0 || !(is_empty || is_seen) {
                lacks = Some(self.held(&target.name, &known).await);
            }
        } else if without_copy > 0 {
            lacks.get_or_insert_with(|| self.not_read(&target.name, uncopied(without_copy)));
        }
        Ok(lacks.map_or(Exporting::Whole, Exporting::Part))
    }

    /// Hands a dead letter on with its share of the memory, once there is one; false means that nobody listens.
    pub(super) async fn exported(&self, detail: DeadDetail, outlet: &Outlet) -> bool {
        let share = self.settings.memory.take(Use::InHand, detail.message.body.len()).await;
        outlet.put(Ok((detail, Some(share)))).await
    }

    /// Hands on what a filter about messages was not asked of yet; false means that nobody listens.
    pub(super) async fn handed_on(
        &self,
        detail: DeadDetail,
        selection: &DeadSelection,
        sieve: &mut Sieve,
        outlet: &Outlet,
    ) -> Result<bool, EngineError> {
        let mut left = vec![detail];
        if sieve.asks_for_places() {
            left = self
                .sifted(left, |detail| (&detail.letter, Some(&detail.message)), selection, sieve)
                .await?;
        }
        match left.pop() {
            Some(detail) => Ok(self.exported(detail, outlet).await),
            None => Ok(true),
        }
    }

    /// Those of the group and the filter.
    pub(super) async fn sifted<T: Send + Sync>(
        &self,
        mut rows: Vec<T>,
        fields_of: impl for<'r> Fn(&'r T) -> (&'r DeadLetter, Option<&'r Message>) + Sync,
        selection: &DeadSelection,
        sieve: &mut Sieve,
    ) -> Result<Vec<T>, EngineError> {
        let now = self.clock.now();
        if let Some(group) = &selection.group {
            rows.retain(|row| fields_of(row).0.fingerprint == *group);
        }
        let is_in = |filter: &Question<'_>, row: &T| {
            let (letter, message) = fields_of(row);
            filter.matches(&DeadFields::of(letter, message, filter.rules, now))
        };
        sieve.keep(rows, is_in).await
    }
}

impl DeadLetters {
    /// The selected dead letters with their messages, while they are read.
    pub(in crate::engine) fn read(
        self: &Arc<Self>,
        selection: DeadSelection,
    ) -> Result<mpsc::Receiver<Exported>, EngineError> {
        let sieve = self.sieve(filter(&selection)?);
        let (sender, receiver) = mpsc::channel(EXPORTED_AHEAD);
        let outlet = Outlet::of(sender, &self.clock, self.settings.export_time);
        let exporting = Arc::clone(self).dead_export(selection, sieve, outlet);
        ambient::spawn("export dead letters", exporting);
        Ok(receiver)
    }
}

impl Engine {
    /// Every selected dead letter with its message, in the order of their queues. Dropping the receiver ends it; after
    /// the time that an export may take, the last item says so.
    ///
    /// # Errors
    /// A filter that cannot be read; what fails later comes as the last item.
    pub fn export_dead(&self, selection: DeadSelection) -> Result<mpsc::Receiver<Exported>, EngineError> {
        self.0.dead_letters.read(selection)
    }
}

/// Why letters of a queue that counts looks are missing.
fn uncopied(count: u64) -> String {
    let letters = plural(count, "dead letter has", "dead letters have");
    format!("{letters} no copy in the store, and reading them again would count as a delivery")
}

fn largest(groups: HashMap<String, DeadGroup>, limit: u32) -> Vec<DeadGroup> {
    let mut groups: Vec<DeadGroup> = groups.into_values().collect();
    groups.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.fingerprint.cmp(&b.fingerprint)));
    groups.truncate(limit as usize);
    groups
}

/// A page of letters that are all at hand.
fn page_of(
    found: &[DeadLetter],
    sort: DeadSort,
    after: Option<(i64, DeadLetterId)>,
    limit: usize,
    now: Timestamp,
    looked: Looked,
    selection: &DeadSelection,
) -> DeadPage<DeadLetter> {
    let place = |letter: &DeadLetter| (Reverse(sort.value(letter)), letter.id.clone());
    let mut items: Vec<DeadLetter> = found.to_vec();
    items.sort_by_key(place);
    if let Some((value, id)) = after {
        let after = (Reverse(value), id);
        items.retain(|letter| place(letter) > after);
    }
    let more = items.len() > limit;
    items.truncate(limit);
    let next = items.last().filter(|_| more);
    DeadPage {
        page: Page {
            next_cursor: next.map(|row| format!("{}_{}", sort.value(row), row.id.as_str())),
            items,
            taken_at: now,
            problems: Vec::new(),
        },
        as_of: looked.as_of(selection.queue.as_ref()),
        queues: looked.views,
        problems: looked.problems,
    }
}

fn join(groups: &mut HashMap<String, DeadGroup>, letter: &DeadLetter, asked: &DeadGroupQuery) {
    let group = groups.entry(letter.fingerprint.clone()).or_insert_with(|| DeadGroup {
        fingerprint: letter.fingerprint.clone(),
        place: letter.place.clone(),
        what: letter.what.clone(),
        count: 0,
        first_failed_at: None,
        last_failed_at: None,
        recent: 0,
        before: 0,
    });
    group.count += 1;
    group.first_failed_at = group.first_failed_at.into_iter().chain(letter.first_failed_at).min();
    group.last_failed_at = group.last_failed_at.max(letter.last_failed_at);
    match letter.last_failed_at {
        Some(at) if at >= asked.recent_since => group.recent += 1,
        Some(at) if at >= asked.before_since => group.before += 1,
        Some(_) | None => {}
    }
}

impl DeadLetters {
    fn queue_view(&self, target: &DeadTarget, known: Option<&DeadQueue>, looks: &Looks) -> DeadQueueView {
        let looking = known.filter(|known| known.claimed_by.is_some());
        DeadQueueView {
            name: target.name.clone(),
            kind: Some(target.kind),
            fed_by: Arc::clone(&target.fed_by),
            ready: target.ready,
            messages: known.and_then(|known| known.messages),
            looked_at: known.and_then(|known| known.looked_at),
            looking: looking.map(|known| (known.seen, known.expected)),
            consumed: self.targets.is_worked_on(&target.name, known, target.consumers),
            may_be_work: target.may_be_work,
            problem: target
                .out_of_bounds(known, looks)
                .or_else(|| known.and_then(|known| known.problem.clone())),
        }
    }
}

/// A queue that is in the index while nobody can say whether it is still there.
fn unread_view(known: &DeadQueue, why: &str) -> DeadQueueView {
    DeadQueueView {
        name: known.name.clone(),
        kind: None,
        fed_by: Arc::default(),
        ready: None,
        messages: known.messages,
        looked_at: known.looked_at,
        looking: None,
        consumed: false,
        may_be_work: false,
        problem: Some(format!("it could not be looked for: {why}")),
    }
}

/// What of a filter the index can look up; the filter itself decides all the same.
fn exactly(sieve: &Sieve) -> Vec<(DeadText, String)> {
    let conditions = sieve.conditions().into_iter();
    let exact = conditions.filter_map(|condition| match condition {
        Condition::Is(field, text) => Some((text_of(field)?, text.to_owned())),
        Condition::Contains(..) | Condition::Holds(_) | Condition::AtLeast(..) | Condition::Longer(..) => None,
    });
    exact.collect()
}

/// The column of a field of [`DeadFields`].
fn text_of(field: &str) -> Option<DeadText> {
    Some(match field {
        "origin" => DeadText::Origin,
        "message_id" | "message" => DeadText::MessageId,
        "endpoint" | "url" => DeadText::Url,
        "execution" => DeadText::Execution,
        "reason" => DeadText::Reason,
        "class" => DeadText::Class,
        "place" => DeadText::Place,
        "what" => DeadText::What,
        _ => return None,
    })
}

fn filter(selection: &DeadSelection) -> Result<Option<Filter>, EngineError> {
    selection.filter.as_deref().map(dead_filter).transpose()
}

/// An expression over dead letters.
pub(in crate::engine) fn dead_filter(text: &str) -> Result<Filter, EngineError> {
    sieve::read(text, DEAD_FIELDS)
}

fn sort(column: Option<&str>) -> Result<DeadSort, EngineError> {
    Ok(match column.map(|column| column.trim_start_matches('-')) {
        None | Some("last_failed_at") => DeadSort::LastFailed,
        Some("first_failed_at") => DeadSort::FirstFailed,
        Some("attempts") => DeadSort::Attempts,
        Some("redriven") => DeadSort::Redriven,
        Some("size_bytes") => DeadSort::Size,
        Some("position") => DeadSort::Position,
        Some(other) => {
            return Err(EngineError::Invalid {
                field: "sort".to_owned(),
                message: format!(
                    "sort {other:?} is unknown; possible are last_failed_at, first_failed_at, attempts, redriven, size_bytes, position"
                ),
            });
        }
    })
}

fn cursor(text: &str) -> Result<(i64, DeadLetterId), EngineError> {
    let parts = text.rsplit_once('_');
    let parsed = parts.and_then(|(value, id)| Some((value.parse().ok()?, DeadLetterId::parse(id)?)));
    parsed.ok_or_else(EngineError::unknown_cursor)
}
