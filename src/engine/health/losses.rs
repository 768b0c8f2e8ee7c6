//! Queues of ours that the broker does not have any more though nothing of ours deleted them: what is known of what was
//! in them, and telling of it (docs/protocols.md 36).

use std::fmt::Write as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::ambient::{self, HashMap};
use crate::domain::id::QueueName;
use crate::domain::queue::QueueRecord;
use crate::domain::time::Timestamp;
use crate::domain::words::{about, plural, plural_of};
use crate::engine::process::host;
use crate::store::{NewAudit, StoreHandle};

/// Queues with something in them whose last known number is kept.
const DEPTHS_MAX: usize = 200_000;
/// The same of queues that are not listed any more, and how long that is kept: their loss is told by then.
const UNLISTED_MAX: usize = 10_000;
const UNLISTED_FOR: Duration = Duration::from_hours(1);
/// Losses that are kept until they are told.
const LOSSES_MAX: usize = 10_000;
/// Losses that one line of the audit names.
const NAMED_MAX: usize = 50;
/// How long a publish waits until a loss is in the audit.
const AUDIT: Duration = Duration::from_secs(2);
/// The name of what is audited here.
pub(in crate::engine) const COMMAND: &str = "heal";
/// What an incident of them is about, and what became of that.
pub(super) const QUEUES: &str = "delivery queues";
pub(super) const GONE: &str = "gone";

/// What was in which queue, and which of them are gone and not told of yet.
#[derive(Debug, Default)]
pub(in crate::engine) struct Losses {
    depths: Mutex<Depths>,
    untold: Mutex<Vec<Loss>>,
}

/// Messages that queues had when they were listed last; of empty ones nothing is kept.
#[derive(Debug, Default)]
struct Depths {
    ready: HashMap<QueueName, u64>,
    taken_at: Timestamp,
    /// Of those that the last listing lacks.
    unlisted: HashMap<QueueName, (u64, Timestamp)>,
}

/// A queue of ours that the broker does not have any more.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::engine) struct Loss {
    pub(super) queue: QueueName,
    /// The message at its head, where one failed.
    head: Option<String>,
    /// Messages when it was listed last, and when that was.
    pub(super) last_known: Option<(u64, Timestamp)>,
    /// The last sign of life of it.
    pub(super) active_at: Timestamp,
}

impl Losses {
    /// Takes in a listing: what is in which queue.
    pub(in crate::engine) fn listed(&self, ready: impl Iterator<Item = (QueueName, u64)>, taken_at: Timestamp) {
        let mut depths = self.depths.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut before, before_at) = (std::mem::take(&mut depths.ready), depths.taken_at);
        for (queue, ready) in ready {
            before.remove(&queue);
            depths.unlisted.remove(&queue);
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

    fn of(&self, row: &QueueRecord) -> Loss {
        let loss = Loss {
            queue: row.name.clone(),
            head: row.head.as_ref().map(|head| head.message.as_str().to_owned()),
            last_known: self.last_known(&row.name),
            active_at: row.active_at,
        };
        let messages = loss.last_known.map(|(messages, _)| messages);
        tracing::error!(queue = ?loss.queue, messages = ?messages, head = ?loss.head, "a delivery queue is gone from the broker");
        loss
    }

    /// To be told by the daemon that this process is.
    pub(in crate::engine) fn note(&self, row: &QueueRecord) {
        let loss = self.of(row);
        let mut untold = self.untold();
        if untold.len() < LOSSES_MAX {
            untold.push(loss);
        }
    }

    /// Tells at once, of a process that delivers nothing and may end soon. It is not waited for longer than [`AUDIT`].
    pub(in crate::engine) async fn tell(&self, store: &StoreHandle, row: &QueueRecord, now: Timestamp) {
        let (store, detail) = (Arc::clone(store), listed(&[self.of(row)], now));
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
    let known: u64 = losses.iter().filter_map(|loss| Some(loss.last_known?.0)).sum();
    let with = match known {
        0 => "with an unknown number of messages".to_owned(),
        _ => format!("with at least {} as listed last", plural(known, "message", "messages")),
    };
    let mut text = format!("{} gone, {with}: ", plural_of(losses.len(), "queue is", "queues are"));
    for loss in losses.iter().take(NAMED_MAX) {
        text.push_str(loss.queue.as_str());
        if let Some((messages, at)) = loss.last_known {
            let (messages, age) = (plural(messages, "message", "messages"), about(now.since(at)));
            let _ = write!(text, " ({messages}, {age} before)");
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
}
