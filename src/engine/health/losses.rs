//! Queues of ours that the broker does not have any more though nothing of ours deleted them, or has again without what
//! was in them: what is known of that, and telling of it (docs/protocols.md 36).

use std::fmt::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::ambient::{self, HashMap};
use crate::domain::id::QueueName;
use crate::domain::queue::QueueRecord;
use crate::domain::time::Timestamp;
use crate::domain::turn::DELIVERY_QUEUES;
use crate::domain::words::{about, plural, plural_of};
use crate::engine::process::host;
use crate::store::{AuditEntry, NewAudit, StoreHandle};

/// Queues with something in them whose last known number is kept.
const DEPTHS_MAX: usize = 200_000;
/// The same of queues that are not listed any more, and how long that is kept: their loss is told by then.
const UNLISTED_MAX: usize = 10_000;
const UNLISTED_FOR: Duration = Duration::from_hours(1);
/// How long it is kept what was in a queue that had fewer messages when it was listed again: whether it was emptied by
/// somebody else is asked a moment later.
const FELL_FOR: Duration = Duration::from_mins(2);
/// The numbers of a listing are at most so old: the broker counts every few seconds.
const LAG: Duration = Duration::from_secs(10);
/// Losses that are kept until they are told.
const LOSSES_MAX: usize = 10_000;
/// Losses that one line of the audit names.
const NAMED_MAX: usize = 50;
/// The newest lines of the audit that may have told of a loss.
const LINES: u32 = 100;
/// How long a publish waits until a loss is in the audit.
const AUDIT: Duration = Duration::from_secs(2);
/// The name of what is audited here.
pub(crate) const COMMAND: &str = "heal";
/// What an incident of them is about, and what became of that.
pub(super) const QUEUES: &str = DELIVERY_QUEUES;
pub(super) const GONE: &str = "gone";
pub(super) const EMPTIED: &str = "emptied";

/// What was in which queue, and which of them are gone and not told of yet.
#[derive(Debug, Default)]
pub(in crate::engine) struct Losses {
    depths: Mutex<Depths>,
    /// Something of ours was gone, and queues may be gone with it, or be there again with nothing in them.
    was_gone: AtomicBool,
    looking: Arc<AtomicBool>,
    untold: Mutex<Vec<Loss>>,
}

/// Messages that queues had when they were listed last; of empty ones nothing is kept.
#[derive(Debug, Default)]
struct Depths {
    listed: HashMap<QueueName, Depth>,
    taken_at: Timestamp,
    /// Of those that the last listing lacks.
    unlisted: HashMap<QueueName, (Depth, Timestamp)>,
    /// Of those that had fewer in a listing of late.
    fell: HashMap<QueueName, (u64, Timestamp)>,
    /// Of those that somebody deleted of late, with what was in them.
    deleted: HashMap<QueueName, (u64, Timestamp)>,
}

/// What was in a queue when it was listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::engine) struct Depth {
    pub(in crate::engine) messages: u64,
    /// Nobody took anything out of it.
    pub(in crate::engine) is_unused: bool,
}

/// A queue of ours that the broker does not have any more, or has again without what was in it.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::engine) struct Loss {
    pub(super) queue: QueueName,
    /// The message at its head, where one failed.
    head: Option<String>,
    /// Messages when it was listed last, and when that was.
    pub(super) last_known: Option<(u64, Timestamp)>,
    /// Nothing of ours can have taken any of them since.
    is_untouched: bool,
    /// The last sign of life of it.
    pub(super) active_at: Timestamp,
    /// Messages in the queue that is there now; `None`: there is none.
    pub(super) left: Option<u64>,
}

/// Somebody looks for losses.
pub(super) struct Looking(Arc<AtomicBool>);

impl Drop for Looking {
    fn drop(&mut self) {
        self.0.store(false, Ordering::SeqCst);
    }
}

impl Loss {
    /// Whether the row is as it was when the messages were missed: nothing of what is there now has failed.
    pub(super) fn is_about(&self, row: &QueueRecord) -> bool {
        self.head.as_deref() == row.head.as_ref().map(|head| head.message.as_str())
    }

    /// When what is missing was there.
    fn was_there_at(&self) -> Timestamp {
        self.last_known.map_or(self.active_at, |(_, at)| at)
    }

    /// Whether a line of the audit that was written since tells that it is gone: a publisher may have told so.
    fn is_told_by(&self, line: &AuditEntry) -> bool {
        let is_loss = line.entry.command == COMMAND && [GONE, EMPTIED].contains(&line.entry.result.as_str());
        let mut words = line.entry.detail.split([' ', ',']);
        is_loss && line.at > self.was_there_at() && words.any(|word| word == self.queue.as_str())
    }

    /// So many messages are lost at least; `None`: nobody knows.
    fn messages(&self) -> Option<u64> {
        let (messages, _) = self.last_known.filter(|_| self.is_untouched)?;
        Some(messages.saturating_sub(self.left.unwrap_or(0)))
    }
}

impl Losses {
    /// Takes in a listing: what is in which queue.
    pub(in crate::engine) fn listed(&self, queues: impl Iterator<Item = (QueueName, Depth)>, taken_at: Timestamp) {
        let mut depths = self.depths.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut before, before_at) = (std::mem::take(&mut depths.listed), depths.taken_at);
        depths.fell.retain(|_, (_, at)| taken_at.since(*at) < FELL_FOR);
        depths.deleted.retain(|_, (_, at)| taken_at.since(*at) < FELL_FOR);
        for (queue, now) in queues {
            // It may have been away for a listing or two.
            let unlisted = depths.unlisted.remove(&queue);
            let had = before.remove(&queue).map(|had| (had, before_at)).or(unlisted);
            let fell = had.filter(|(had, _)| had.is_unused && had.messages > now.messages);
            if let Some((had, at)) = fell.filter(|_| depths.fell.len() < UNLISTED_MAX) {
                depths.fell.entry(queue.clone()).or_insert((had.messages, at));
            }
            if now.messages > 0 && depths.listed.len() < DEPTHS_MAX {
                depths.listed.insert(queue, now);
            }
        }
        depths.unlisted.retain(|_, (_, at)| taken_at.since(*at) < UNLISTED_FOR);
        let room = UNLISTED_MAX.saturating_sub(depths.unlisted.len());
        let gone = before.into_iter().take(room);
        depths
            .unlisted
            .extend(gone.map(|(queue, depth)| (queue, (depth, before_at))));
        depths.taken_at = taken_at;
    }

    /// The last known number of messages, and when it was read; `None`: it was not listed with any.
    fn last_known(&self, queue: &QueueName) -> Option<(u64, Timestamp)> {
        self.last_listed(queue).map(|(depth, at)| (depth.messages, at))
    }

    fn last_listed(&self, queue: &QueueName) -> Option<(Depth, Timestamp)> {
        let depths = self.depths.lock().unwrap_or_else(PoisonError::into_inner);
        let listed = depths.listed.get(queue).map(|depth| (*depth, depths.taken_at));
        listed.or_else(|| depths.unlisted.get(queue).copied())
    }

    /// A queue that lost its binding, or was made again by somebody else, and had `ready` messages before `row` was read:
    /// the loss where it had more, and nothing of ours can have taken them.
    pub(super) fn compare(&self, row: &QueueRecord, ready: u64) -> Option<Loss> {
        let had = self.that_we_did_not_take(row);
        tracing::debug!(queue = ?row.name, ready, had = ?had, epoch = row.epoch.0, "compared with what was in it");
        let last_known = had.filter(|(had, _)| *had > ready)?;
        let loss = Loss {
            last_known: Some(last_known),
            is_untouched: true,
            left: Some(ready),
            ..self.of(row)
        };
        tracing::error!(queue = ?loss.queue, messages = ?loss.messages(), head = ?loss.head, "a delivery queue is there without what was in it");
        Some(loss)
    }

    /// The broker says that somebody deleted the queue of this row, which was read before anybody leased it for that.
    pub(super) fn deleted(&self, row: &QueueRecord) {
        let had = self.untouched(row);
        let mut depths = self.depths.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(had) = had.filter(|_| depths.deleted.len() < UNLISTED_MAX) {
            depths.deleted.insert(row.name.clone(), had);
        }
    }

    /// What was in it when somebody deleted it.
    fn was_deleted_with(&self, row: &QueueRecord) -> Option<(u64, Timestamp)> {
        let depths = self.depths.lock().unwrap_or_else(PoisonError::into_inner);
        let had = depths.deleted.get(&row.name).copied();
        had.filter(|(_, at)| row.created_at < *at)
    }

    /// Whether somebody deleted it of late with something in it.
    pub(super) fn is_deleted(&self, queue: &QueueName) -> bool {
        let depths = self.depths.lock().unwrap_or_else(PoisonError::into_inner);
        depths.deleted.contains_key(queue)
    }

    /// Whether something is known of what is in it.
    pub(super) fn knows(&self, queue: &QueueName) -> bool {
        self.had(queue).is_some()
    }

    /// Queues may be gone, or be there again with nothing in them.
    pub(in crate::engine) fn something_was_gone(&self) {
        self.was_gone.store(true, Ordering::SeqCst);
    }

    /// Whether that was said since this was asked last.
    pub(super) fn take_was_gone(&self) -> bool {
        self.was_gone.swap(false, Ordering::SeqCst)
    }

    /// Whoever gets it looks for losses until it is dropped; nobody else does meanwhile.
    pub(super) fn begin_looking(&self) -> Option<Looking> {
        let is_free = !self.looking.swap(true, Ordering::SeqCst);
        is_free.then(|| Looking(Arc::clone(&self.looking)))
    }

    pub(super) fn is_looking(&self) -> bool {
        self.looking.load(Ordering::SeqCst)
    }

    /// Whether there is anything to compare a queue with.
    pub(super) fn may_lack(&self, row: &QueueRecord) -> bool {
        self.that_we_did_not_take(row).is_some()
    }

    /// What was in it when it was listed or deleted, if nothing of ours can have taken any of that.
    fn that_we_did_not_take(&self, row: &QueueRecord) -> Option<(u64, Timestamp)> {
        self.was_deleted_with(row).or_else(|| self.untouched(row))
    }

    fn untouched(&self, row: &QueueRecord) -> Option<(u64, Timestamp)> {
        self.had(&row.name).filter(|(_, at)| is_untouched_since(row, *at))
    }

    /// The most that was in it of late while nobody used it.
    fn had(&self, queue: &QueueName) -> Option<(u64, Timestamp)> {
        let depths = self.depths.lock().unwrap_or_else(PoisonError::into_inner);
        let fell = depths.fell.get(queue).copied();
        drop(depths);
        let unused = |(depth, at): (Depth, Timestamp)| depth.is_unused.then_some((depth.messages, at));
        fell.or_else(|| self.last_listed(queue).and_then(unused))
    }

    fn of(&self, row: &QueueRecord) -> Loss {
        let deleted = self.was_deleted_with(row);
        let last_known = deleted.or_else(|| self.last_known(&row.name));
        Loss {
            queue: row.name.clone(),
            head: row.head.as_ref().map(|head| head.message.as_str().to_owned()),
            last_known,
            is_untouched: deleted.is_some() || last_known.is_some_and(|(_, at)| is_untouched_since(row, at)),
            active_at: row.active_at,
            left: None,
        }
    }

    /// One that is gone.
    fn gone(&self, row: &QueueRecord) -> Loss {
        let loss = self.of(row);
        tracing::error!(queue = ?loss.queue, messages = ?loss.messages(), head = ?loss.head, "a delivery queue is gone from the broker");
        loss
    }

    /// To be told by the daemon that this process is.
    pub(in crate::engine) fn note(&self, row: &QueueRecord) {
        self.keep(self.gone(row));
    }

    /// A loss is told once.
    pub(super) fn told(&self, queue: &QueueName) {
        let mut depths = self.depths.lock().unwrap_or_else(PoisonError::into_inner);
        depths.fell.remove(queue);
        depths.listed.remove(queue);
        depths.unlisted.remove(queue);
        depths.deleted.remove(queue);
    }

    fn keep(&self, loss: Loss) {
        self.told(&loss.queue);
        let mut untold = self.untold();
        if untold.len() < LOSSES_MAX {
            untold.push(loss);
        }
    }

    /// Tells at once, of a process that delivers nothing and may end soon. It is not waited for longer than [`AUDIT`].
    pub(in crate::engine) async fn tell(&self, store: &StoreHandle, row: &QueueRecord, now: Timestamp) {
        let (store, detail) = (Arc::clone(store), listed(&[self.gone(row)], now));
        let telling = ambient::spawn("tell of a loss", async move {
            incident(&store, "publisher", (QUEUES, GONE), detail).await;
        });
        if ambient::timeout(AUDIT, telling).await.is_err() {
            tracing::warn!(queue = ?row.name, "that a queue is gone is not in the audit yet");
        }
    }

    /// Those that nobody told of yet: whoever takes them does.
    pub(super) fn take(&self) -> Vec<Loss> {
        std::mem::take(&mut *self.untold())
    }

    fn untold(&self) -> MutexGuard<'_, Vec<Loss>> {
        self.untold.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Which queues are gone, and what is known of what was in them.
pub(super) fn listed(losses: &[Loss], now: Timestamp) -> String {
    if losses.is_empty() {
        return "none is gone".to_owned();
    }
    let with = match messages(losses) {
        None => "with an unknown number of messages".to_owned(),
        Some(known) => format!("with at least {} as listed last", plural(known, "message", "messages")),
    };
    let gone = plural_of(losses.len(), "queue is", "queues are");
    named(format!("{gone} gone, {with}: "), losses, now)
}

/// Which queues are there without what was in them.
pub(super) fn emptied(losses: &[Loss], now: Timestamp) -> String {
    let lost = plural(messages(losses).unwrap_or(0), "message", "messages");
    let queues = plural_of(losses.len(), "queue", "queues");
    let text = format!("messages are missing in {queues}, at least {lost}, and redrive took none of them: ");
    named(text, losses, now)
}

/// How many messages are lost at least, as far as that is known.
pub(super) fn messages(losses: &[Loss]) -> Option<u64> {
    let known: u64 = losses.iter().filter_map(Loss::messages).sum();
    (known > 0).then_some(known)
}

/// Whether nothing of ours took anything from the queue since it was listed `at` that time: whatever takes something has a
/// lease, whose epoch is no earlier than the store's clock then (docs/protocols.md 5). One that ended and began again
/// since then is another one.
fn is_untouched_since(row: &QueueRecord, at: Timestamp) -> bool {
    let leased_at = Timestamp::from_micros(row.epoch.0.saturating_mul(1_000));
    let before = at.minus(LAG);
    let is_older = |time: Timestamp| time < before;
    row.owner.is_none() && is_older(row.created_at) && is_older(leased_at) && row.last_delivered_at.is_none_or(is_older)
}

fn named(mut text: String, losses: &[Loss], now: Timestamp) -> String {
    for loss in losses.iter().take(NAMED_MAX) {
        text.push_str(loss.queue.as_str());
        if let Some((messages, at)) = loss.last_known {
            let (messages, age) = (plural(messages, "message", "messages"), about(now.since(at)));
            let left = loss.left.map_or_else(String::new, |left| format!(", {left} now"));
            let _ = write!(text, " ({messages}, {age} before{left})");
        }
        if let Some(head) = &loss.head {
            let _ = write!(text, " (head {head})");
        }
        text.push_str(", ");
    }
    text.truncate(text.len().saturating_sub(2));
    if losses.len() > NAMED_MAX {
        let _ = write!(text, ", and {} more", losses.len() - NAMED_MAX);
    }
    text
}

/// Leaves out what somebody else told of meanwhile, as far as the audit can be read.
pub(super) async fn untold(store: &StoreHandle, mut losses: Vec<Loss>) -> Vec<Loss> {
    if !losses.is_empty()
        && let Ok(lines) = store.audit_list(None, LINES).await
    {
        losses.retain(|loss| !lines.iter().any(|line| loss.is_told_by(line)));
    }
    losses
}

/// Writes into the audit what `who` found gone: `of` what, and what came of it.
pub(super) async fn incident(store: &StoreHandle, who: &str, (of, result): (&str, &str), detail: String) {
    let entry = NewAudit {
        actor: format!("{who}:{}", host()),
        command: COMMAND.to_owned(),
        target: of.to_owned(),
        reason: None,
        plan: None,
        result: result.to_owned(),
        detail,
    };
    if let Err(error) = store.audit_append(&entry).await {
        tracing::warn!(error = ?error, entry = ?entry, "an incident is not in the audit");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::id::{Epoch, IncarnationId};

    fn queue(name: &str) -> QueueName {
        QueueName::parse(name).unwrap()
    }

    fn loss(name: &str, last_known: Option<(u64, Timestamp)>) -> Loss {
        Loss {
            queue: queue(name),
            head: None,
            last_known,
            is_untouched: true,
            active_at: Timestamp::from_seconds(1),
            left: None,
        }
    }

    #[test]
    fn a_long_list_of_losses_names_some_and_counts_the_rest() {
        let at = Timestamp::from_seconds(100);
        let losses: Vec<Loss> = (0..60)
            .map(|n| Loss {
                head: (n == 0).then(|| "m".to_owned()),
                ..loss(&format!("q{n}"), (n < 2).then_some((3, at)))
            })
            .collect();
        let text = listed(&losses, at.plus(Duration::from_secs(7)));
        assert!(
            text.starts_with(
                "60 queues are gone, with at least 6 messages as listed last: q0 (3 messages, 7 s before) (head m), q1"
            ),
            "{text}"
        );
        assert!(text.ends_with("q49, and 10 more"), "{text}");
        assert_eq!(listed(&[], at), "none is gone");
    }

    #[test]
    fn where_no_number_is_known_none_is_told() {
        let at = Timestamp::from_seconds;
        let text = listed(&[loss("q", None)], at(100));
        assert_eq!(text, "1 queue is gone, with an unknown number of messages: q");
        let losses = Losses::default();
        losses.listed([(queue("q"), with(3))].into_iter(), at(100));
        let untouched = listed(&[losses.of(&leased(80))], at(107));
        assert!(untouched.contains("with at least 3 messages"), "{untouched}");
        let used = listed(&[losses.of(&leased(105))], at(107));
        assert!(
            used.contains("an unknown number of messages: q (3 messages, 7 s before)"),
            "{used}"
        );
    }

    fn with(messages: u64) -> Depth {
        Depth {
            messages,
            is_unused: true,
        }
    }

    /// A row of the queue `q`, leased last at this second.
    fn leased(second: i64) -> QueueRecord {
        QueueRecord {
            epoch: Epoch(second * 1_000),
            ..QueueRecord::new(&queue("q"), Timestamp::from_seconds(1))
        }
    }

    #[test]
    fn what_was_in_a_queue_is_known_after_a_listing_that_lacks_it() {
        let losses = Losses::default();
        let at = Timestamp::from_seconds;
        losses.listed(
            [(queue("gone"), with(7)), (queue("drained"), with(2))].into_iter(),
            at(100),
        );
        for second in [101, 102] {
            losses.listed([(queue("drained"), with(0))].into_iter(), at(second));
        }
        assert_eq!(losses.last_known(&queue("gone")), Some((7, at(100))));
        assert_eq!(losses.last_known(&queue("drained")), None);
        // One that is there again has its own number, and what nobody asks for is not kept for ever.
        losses.listed([(queue("gone"), with(0))].into_iter(), at(103));
        assert_eq!(losses.last_known(&queue("gone")), None);
        losses.listed([(queue("old"), with(1))].into_iter(), at(200));
        losses.listed([].into_iter(), at(201));
        losses.listed([].into_iter(), at(200 + 2 * 3_600));
        assert_eq!(losses.last_known(&queue("old")), None);
    }

    #[test]
    fn a_queue_with_fewer_messages_than_before_is_told_unless_something_of_ours_can_have_taken_them() {
        let at = Timestamp::from_seconds;
        let compared = |row: &QueueRecord, before: Depth, ready: u64| {
            let losses = Losses::default();
            losses.listed([(queue("q"), before)].into_iter(), at(100));
            // The next listings are quicker than the comparison.
            losses.listed([].into_iter(), at(101));
            losses.listed([(queue("q"), with(0))].into_iter(), at(101));
            let found = losses.compare(row, ready);
            if let Some(loss) = found {
                losses.keep(loss);
            }
            assert_eq!(losses.compare(row, ready), None, "once");
            losses.take()
        };
        let told = compared(&leased(80), with(3), 1);
        assert_eq!((told[0].messages(), told[0].left), (Some(2), Some(1)));
        let text = emptied(&told, at(107));
        let expected = "messages are missing in 1 queue, at least 2 messages, and redrive took none of them: \
                        q (3 messages, 7 s before, 1 now)";
        assert_eq!(text, expected);
        assert_eq!(compared(&leased(80), with(3), 3), []);
        // The broker may have counted a few seconds before it was listed.
        assert_eq!(compared(&leased(95), with(3), 0), [], "leased about when it was listed");
        assert_eq!(compared(&leased(105), with(3), 0), [], "leased since");
        let delivered = QueueRecord {
            last_delivered_at: Some(at(101)),
            ..leased(80)
        };
        assert_eq!(compared(&delivered, with(3), 0), [], "delivered since");
        let held = QueueRecord {
            owner: Some(IncarnationId(1)),
            ..leased(80)
        };
        assert_eq!(compared(&held, with(3), 0), [], "somebody works on it");
        let used = Depth {
            messages: 3,
            is_unused: false,
        };
        assert_eq!(compared(&leased(80), used, 0), [], "somebody consumed it");
        let another = QueueRecord {
            created_at: at(100),
            ..leased(80)
        };
        assert_eq!(compared(&another, with(3), 0), [], "the one that was listed has ended");
    }

    #[test]
    fn what_was_in_a_queue_that_somebody_deleted_is_missing_whoever_leases_it_then() {
        let at = Timestamp::from_seconds;
        let losses = Losses::default();
        losses.listed([(queue("q"), with(3))].into_iter(), at(100));
        losses.deleted(&leased(80));
        let found = losses.compare(&leased(101), 0).unwrap();
        assert_eq!(found.messages(), Some(3));
        losses.keep(found);
        assert_eq!(losses.compare(&leased(101), 0), None, "once");
        losses.listed([(queue("q"), with(3))].into_iter(), at(200));
        losses.deleted(&leased(195));
        assert_eq!(losses.compare(&leased(201), 0), None, "leased before that");
    }

    #[test]
    fn a_loss_that_a_publisher_told_of_is_not_told_again() {
        let at = Timestamp::from_seconds;
        let loss = loss("q", Some((3, at(100))));
        let line = |second, result: &str, detail: &str| AuditEntry {
            id: 1,
            at: at(second),
            entry: NewAudit {
                actor: "publisher:h".to_owned(),
                command: COMMAND.to_owned(),
                target: QUEUES.to_owned(),
                reason: None,
                plan: None,
                result: result.to_owned(),
                detail: detail.to_owned(),
            },
            broker: None,
            hash: String::new(),
        };
        let gone = "1 queue is gone, with at least 3 messages as listed last: q (3 messages, 7 s before)";
        assert!(loss.is_told_by(&line(101, GONE, gone)));
        assert!(!loss.is_told_by(&line(99, GONE, gone)), "another one, before");
        assert!(!loss.is_told_by(&line(101, "bound", "q")));
        assert!(!loss.is_told_by(&line(101, GONE, &gone.replace(": q ", ": qq "))));
    }

    #[test]
    fn a_queue_that_the_last_listing_lacks_and_that_is_there_again_is_compared_with_the_one_before() {
        let at = Timestamp::from_seconds;
        let losses = Losses::default();
        losses.listed([(queue("q"), with(3))].into_iter(), at(100));
        losses.listed([].into_iter(), at(101));
        let row = leased(80);
        assert!(losses.may_lack(&row));
        let found = losses.compare(&row, 0).unwrap();
        assert_eq!(found.last_known, Some((3, at(100))));
        losses.keep(found);
        assert_eq!(losses.compare(&row, 0), None, "once");
    }
}
