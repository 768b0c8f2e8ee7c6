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
use crate::store::{NewAudit, StoreHandle};

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
    untold: Mutex<Vec<Loss>>,
}

/// Messages that queues had when they were listed last; of empty ones nothing is kept.
#[derive(Debug, Default)]
struct Depths {
    ready: HashMap<QueueName, u64>,
    taken_at: Timestamp,
    /// Of those that the last listing lacks.
    unlisted: HashMap<QueueName, (u64, Timestamp)>,
    /// Of those that had fewer in a listing of late.
    fell: HashMap<QueueName, (u64, Timestamp)>,
}

/// A queue of ours that the broker does not have any more, or has again without what was in it.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::engine) struct Loss {
    pub(super) queue: QueueName,
    /// The message at its head, where one failed.
    head: Option<String>,
    /// Messages when it was listed last, and when that was.
    pub(super) last_known: Option<(u64, Timestamp)>,
    /// The last sign of life of it.
    pub(super) active_at: Timestamp,
    /// Messages in the queue that is there now; `None`: there is none.
    pub(super) left: Option<u64>,
}

impl Loss {
    /// So many messages are lost at least; `None`: nobody knows.
    fn messages(&self) -> Option<u64> {
        let (messages, _) = self.last_known?;
        Some(messages.saturating_sub(self.left.unwrap_or(0)))
    }
}

impl Losses {
    /// Takes in a listing: what is in which queue.
    pub(in crate::engine) fn listed(&self, ready: impl Iterator<Item = (QueueName, u64)>, taken_at: Timestamp) {
        let mut depths = self.depths.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut before, before_at) = (std::mem::take(&mut depths.ready), depths.taken_at);
        depths.fell.retain(|_, (_, at)| taken_at.since(*at) < FELL_FOR);
        for (queue, ready) in ready {
            // It may have been away for a listing or two.
            let unlisted = depths.unlisted.remove(&queue);
            let had = before.remove(&queue).map(|had| (had, before_at)).or(unlisted);
            if let Some(had) = had.filter(|(had, _)| *had > ready && depths.fell.len() < UNLISTED_MAX) {
                depths.fell.entry(queue.clone()).or_insert(had);
            }
            if ready > 0 && depths.ready.len() < DEPTHS_MAX {
                depths.ready.insert(queue, ready);
            }
        }
        depths.unlisted.retain(|_, (_, at)| taken_at.since(*at) < UNLISTED_FOR);
        let room = UNLISTED_MAX.saturating_sub(depths.unlisted.len());
        let gone = before.into_iter().take(room);
        depths
            .unlisted
            .extend(gone.map(|(queue, ready)| (queue, (ready, before_at))));
        depths.taken_at = taken_at;
    }

    /// The last known number of messages, and when it was read; `None`: it was not listed with any.
    fn last_known(&self, queue: &QueueName) -> Option<(u64, Timestamp)> {
        let depths = self.depths.lock().unwrap_or_else(PoisonError::into_inner);
        let listed = depths.ready.get(queue).map(|ready| (*ready, depths.taken_at));
        listed.or_else(|| depths.unlisted.get(queue).copied())
    }

    /// A queue that lost its binding, or was made again by somebody else, and has `ready` messages: tells of a loss where
    /// it has fewer than it had, and nothing of ours took them. A head that failed is no evidence: it may be acked, and its
    /// daemon have ended before that was recorded.
    pub(in crate::engine) fn compare(&self, row: &QueueRecord, ready: u64) {
        let had = self.had(&row.name);
        let Some(last_known) = had.filter(|(had, at)| *had > ready && took_nothing_since(row, *at)) else {
            return;
        };
        let loss = Loss {
            last_known: Some(last_known),
            left: Some(ready),
            ..self.of(row)
        };
        tracing::error!(queue = ?loss.queue, messages = ?loss.messages(), head = ?loss.head, "a delivery queue is there without what was in it");
        self.keep(loss);
    }

    /// Queues may be gone, or be there again with nothing in them.
    pub(in crate::engine) fn something_was_gone(&self) {
        self.was_gone.store(true, Ordering::SeqCst);
    }

    /// Whether that was said since this was asked last.
    pub(super) fn take_was_gone(&self) -> bool {
        self.was_gone.swap(false, Ordering::SeqCst)
    }

    /// Whether there is anything to compare a queue with.
    pub(super) fn may_lack(&self, row: &QueueRecord) -> bool {
        self.had(&row.name).is_some()
    }

    /// The most that was in it of late, as far as that is known.
    fn had(&self, queue: &QueueName) -> Option<(u64, Timestamp)> {
        let depths = self.depths.lock().unwrap_or_else(PoisonError::into_inner);
        let fell = depths.fell.get(queue).copied();
        drop(depths);
        fell.or_else(|| self.last_known(queue))
    }

    fn of(&self, row: &QueueRecord) -> Loss {
        Loss {
            queue: row.name.clone(),
            head: row.head.as_ref().map(|head| head.message.as_str().to_owned()),
            last_known: self.last_known(&row.name),
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

    fn keep(&self, loss: Loss) {
        // It is told once.
        let mut depths = self.depths.lock().unwrap_or_else(PoisonError::into_inner);
        depths.fell.remove(&loss.queue);
        depths.ready.remove(&loss.queue);
        depths.unlisted.remove(&loss.queue);
        drop(depths);
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

/// Whether nothing of ours took anything from the queue since it was listed `at` that time with what was in it then: its
/// head waits since before, or nothing was delivered or refused. One that ended and began again since then is another one.
fn took_nothing_since(row: &QueueRecord, at: Timestamp) -> bool {
    if row.created_at >= at {
        return false;
    }
    let at = at.minus(LAG);
    let waits = row.head.as_ref().is_some_and(|head| head.first_failed_at <= at);
    waits || (row.refusals_in_row == 0 && row.last_delivered_at.is_none_or(|delivered| delivered < at))
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

    fn queue(name: &str) -> QueueName {
        QueueName::parse(name).unwrap()
    }

    fn loss(name: &str, last_known: Option<(u64, Timestamp)>) -> Loss {
        Loss {
            queue: queue(name),
            head: None,
            last_known,
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
        let text = listed(&[loss("q", None)], Timestamp::from_seconds(100));
        assert_eq!(text, "1 queue is gone, with an unknown number of messages: q");
    }

    #[test]
    fn what_was_in_a_queue_is_known_after_a_listing_that_lacks_it() {
        let losses = Losses::default();
        let at = Timestamp::from_seconds;
        losses.listed([(queue("gone"), 7), (queue("drained"), 2)].into_iter(), at(100));
        for second in [101, 102] {
            losses.listed([(queue("drained"), 0)].into_iter(), at(second));
        }
        assert_eq!(losses.last_known(&queue("gone")), Some((7, at(100))));
        assert_eq!(losses.last_known(&queue("drained")), None);
        // One that is there again has its own number, and what nobody asks for is not kept for ever.
        losses.listed([(queue("gone"), 0)].into_iter(), at(103));
        assert_eq!(losses.last_known(&queue("gone")), None);
        losses.listed([(queue("old"), 1)].into_iter(), at(200));
        losses.listed([].into_iter(), at(201));
        losses.listed([].into_iter(), at(200 + 2 * 3_600));
        assert_eq!(losses.last_known(&queue("old")), None);
    }

    #[test]
    fn a_queue_with_fewer_messages_than_before_is_told_unless_something_of_ours_took_them() {
        let at = Timestamp::from_seconds;
        let compared = |row: &QueueRecord, ready: u64| {
            let losses = Losses::default();
            losses.listed([(queue("q"), 3)].into_iter(), at(100));
            // The next listings are quicker than whoever compares.
            losses.listed([].into_iter(), at(101));
            losses.listed([(queue("q"), 0)].into_iter(), at(101));
            losses.compare(row, ready);
            losses.compare(row, ready);
            losses.take()
        };
        let mut row = QueueRecord::new(&queue("q"), at(1));
        let told = compared(&row, 1);
        assert_eq!(told.len(), 1, "once: {told:?}");
        assert_eq!((told[0].messages(), told[0].left), (Some(2), Some(1)));
        let text = emptied(&told, at(107));
        let expected = "messages are missing in 1 queue, at least 2 messages, and redrive took none of them: \
                        q (3 messages, 7 s before, 1 now)";
        assert_eq!(text, expected);
        assert_eq!(compared(&row, 3), []);
        // The broker may have counted a few seconds before it was listed.
        for (delivered_at, losses) in [(80, 1), (95, 0), (101, 0)] {
            row.last_delivered_at = Some(at(delivered_at));
            assert_eq!(compared(&row, 0).len(), losses, "delivered at {delivered_at}");
        }
        (row.last_delivered_at, row.refusals_in_row) = (None, 1);
        assert_eq!(compared(&row, 0), []);
        (row.refusals_in_row, row.created_at) = (0, at(100));
        assert_eq!(compared(&row, 0), [], "the one that was listed has ended");
    }

    #[test]
    fn a_queue_that_the_last_listing_lacks_and_that_is_there_again_is_compared_with_the_one_before() {
        let at = Timestamp::from_seconds;
        let losses = Losses::default();
        losses.listed([(queue("q"), 3)].into_iter(), at(100));
        losses.listed([].into_iter(), at(101));
        let row = QueueRecord::new(&queue("q"), at(1));
        assert!(losses.may_lack(&row));
        losses.compare(&row, 0);
        losses.compare(&row, 0);
        let told = losses.take();
        assert_eq!(told.len(), 1, "once: {told:?}");
        assert_eq!(told[0].last_known, Some((3, at(100))));
    }
}
