//! What came before: which messages, how far each queue is. Bounded: what is oldest is forgotten first.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fmt;
use std::hash::Hash;

use crate::domain::id::{NotificationId, QueueName};

use super::answers::Answer;

/// Messages that are remembered.
const MESSAGES_MAX: usize = 100_000;
/// Queues that are remembered.
const QUEUES_MAX: usize = 10_000;

/// Where in its delivery queue a request says that it stands (`Redrive-Queue`, `-Epoch`, `-Sequence`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) queue: QueueName,
    pub(super) epoch: u64,
    pub(super) sequence: u64,
}

/// How a request stands to those of its queue that came before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// The first that is known.
    First,
    /// A new message behind the one before.
    Next,
    /// The message before, once more.
    Again,
    /// An older message, and newer ones came since: somebody sent it back.
    Returned,
    /// Its sender no longer holds the queue: a receiver refuses it.
    Stale {
        /// The epoch that came already.
        newest: u64,
    },
    /// What came already was sent after it.
    Overtaken {
        /// The sequence that came already.
        newest: u64,
    },
}

impl Order {
    pub(super) const fn is_kept(self) -> bool {
        !matches!(self, Self::Stale { .. } | Self::Overtaken { .. })
    }

    /// For programs.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::First => "first",
            Self::Next => "next",
            Self::Again => "again",
            Self::Returned => "returned",
            Self::Stale { .. } => "stale",
            Self::Overtaken { .. } => "overtaken",
        }
    }
}

/// What is known of a request by those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Noted {
    /// Which request this is, from 1.
    pub(super) number: u64,
    /// Which attempt of its message, from 1; `None`: it has no id that can be remembered.
    pub(super) attempt: Option<u32>,
    /// Whether an attempt before was answered with success.
    pub(super) was_accepted: bool,
    /// None: it names no place in a queue.
    pub(super) order: Option<Order>,
}

/// Everything that came.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    messages: Recent<NotificationId, Message>,
    queues: Recent<QueueName, Head>,
    summary: Summary,
}

#[derive(Debug, Default)]
struct Message {
    attempts: u32,
    accepted: bool,
}

#[derive(Debug)]
struct Head {
    epoch: u64,
    sequence: u64,
    id: Option<NotificationId>,
}

impl Ledger {
    /// How many requests came.
    pub(super) const fn requests(&self) -> u64 {
        self.summary.requests
    }

    /// Another request came.
    pub(super) fn note(&mut self, id: Option<&NotificationId>, place: Option<&Place>) -> Noted {
        self.summary.requests += 1;
        let known = id.map(|id| self.messages.get_or_insert(id, MESSAGES_MAX, Message::default));
        let (attempt, was_accepted) = match known {
            None => (None, false),
            Some(message) => {
                message.attempts = message.attempts.saturating_add(1);
                (Some(message.attempts), message.accepted)
            }
        };
        let order = place.map(|place| self.order(id, place, attempt));
        self.summary.messages += u64::from(attempt == Some(1));
        self.summary.repeated += u64::from(attempt > Some(1));
        self.summary.accepted_again += u64::from(was_accepted);
        self.summary.out_of_order += u64::from(order.is_some_and(|order| !order.is_kept()));
        Noted {
            number: self.summary.requests,
            attempt,
            was_accepted,
            order,
        }
    }

    fn order(&mut self, id: Option<&NotificationId>, place: &Place, attempt: Option<u32>) -> Order {
        let mut is_new = false;
        let head = self.queues.get_or_insert(&place.queue, QUEUES_MAX, || {
            is_new = true;
            Head {
                epoch: place.epoch,
                sequence: place.sequence,
                id: id.cloned(),
            }
        });
        if is_new {
            return Order::First;
        }
        if place.epoch < head.epoch {
            return Order::Stale { newest: head.epoch };
        }
        if place.epoch == head.epoch && place.sequence <= head.sequence {
            return Order::Overtaken { newest: head.sequence };
        }
        let is_same = id.is_some() && head.id.as_ref() == id;
        *head = Head {
            epoch: place.epoch,
            sequence: place.sequence,
            id: id.cloned(),
        };
        match attempt {
            _ if is_same => Order::Again,
            Some(2..) => Order::Returned,
            Some(_) | None => Order::Next,
        }
    }

    /// How one was answered, and whether its signature was wrong.
    pub(super) fn answered(&mut self, id: Option<&NotificationId>, answer: Answer, is_forged: bool) {
        *self.summary.answers.entry(answer.status).or_default() += 1;
        self.summary.forged += u64::from(is_forged);
        if let Some(message) = id.and_then(|id| self.messages.get_mut(id)) {
            message.accepted |= answer.accepts();
        }
    }

    pub(super) fn summary(&self) -> Summary {
        self.summary.clone()
    }
}

/// A map that forgets what was put in first.
#[derive(Debug)]
struct Recent<K, V> {
    all: HashMap<K, V>,
    oldest: VecDeque<K>,
}

impl<K, V> Default for Recent<K, V> {
    fn default() -> Self {
        Self {
            all: HashMap::new(),
            oldest: VecDeque::new(),
        }
    }
}

impl<K: Clone + Eq + Hash, V> Recent<K, V> {
    fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        self.all.get_mut(key)
    }

    fn get_or_insert(&mut self, key: &K, max: usize, new: impl FnOnce() -> V) -> &mut V {
        if !self.all.contains_key(key) {
            while self.all.len() >= max
                && let Some(oldest) = self.oldest.pop_front()
            {
                self.all.remove(&oldest);
            }
            self.oldest.push_back(key.clone());
        }
        self.all.entry(key.clone()).or_insert_with(new)
    }
}

/// What came altogether.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Requests.
    pub requests: u64,
    /// Different messages among them.
    pub messages: u64,
    /// Requests for a message that had come before.
    pub repeated: u64,
    /// Of these, those whose message had been accepted.
    pub accepted_again: u64,
    /// Requests that came after what was sent after them.
    pub out_of_order: u64,
    /// Signatures that are missing or wrong, where one was expected.
    pub forged: u64,
    /// How often each status was answered.
    pub answers: BTreeMap<u16, u64>,
}

impl fmt::Display for Summary {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} requests, {} messages", self.requests, self.messages)?;
        for (count, what) in [
            (self.repeated, "repeated"),
            (self.accepted_again, "repeated after they were accepted"),
            (self.out_of_order, "out of order"),
            (self.forged, "without a valid signature"),
        ] {
            if count > 0 {
                write!(formatter, ", {count} {what}")?;
            }
        }
        for (index, (status, count)) in self.answers.iter().enumerate() {
            let before = if index == 0 { "; answered" } else { "," };
            write!(formatter, "{before} {status}: {count}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn place(epoch: u64, sequence: u64) -> Place {
        Place {
            queue: QueueName::parse("q").unwrap(),
            epoch,
            sequence,
        }
    }

    fn id(text: &str) -> NotificationId {
        NotificationId::parse(text).unwrap()
    }

    #[test]
    fn a_queue_is_in_order_while_epoch_and_sequence_go_on() {
        let mut ledger = Ledger::default();
        let mut order = |text: &str, epoch, sequence| ledger.note(Some(&id(text)), Some(&place(epoch, sequence))).order;
        assert_eq!(order("a", 5, 1), Some(Order::First));
        assert_eq!(order("a", 5, 2), Some(Order::Again));
        assert_eq!(order("b", 5, 3), Some(Order::Next));
        assert_eq!(order("a", 7, 1), Some(Order::Returned));
        assert_eq!(order("c", 5, 4), Some(Order::Stale { newest: 7 }));
        assert_eq!(order("c", 7, 1), Some(Order::Overtaken { newest: 1 }));
        assert_eq!(order("c", 7, 2), Some(Order::Returned));
        assert_eq!(ledger.summary().out_of_order, 2);
        assert_eq!(ledger.note(Some(&id("c")), None).order, None);
    }

    #[test]
    fn a_message_is_repeated_when_its_id_came_before_and_it_is_known_whether_it_was_accepted() {
        let mut ledger = Ledger::default();
        let answer = |status| Answer {
            status,
            delay: Duration::ZERO,
        };
        let a = id("a");
        assert_eq!(ledger.note(Some(&a), None).attempt, Some(1));
        ledger.answered(Some(&a), answer(503), false);
        let again = ledger.note(Some(&a), None);
        assert_eq!((again.attempt, again.was_accepted), (Some(2), false));
        ledger.answered(Some(&a), answer(204), true);
        let again = ledger.note(Some(&a), None);
        assert_eq!((again.attempt, again.was_accepted), (Some(3), true));
        assert_eq!(ledger.note(None, None).attempt, None);
        let said = ledger.summary().to_string();
        assert_eq!(
            said,
            "4 requests, 1 messages, 2 repeated, 1 repeated after they were accepted, 1 without a valid signature; \
             answered 204: 1, 503: 1"
        );
    }

    #[test]
    fn the_oldest_is_forgotten_first() {
        let mut recent = Recent::default();
        for key in ["a", "b", "a", "c"] {
            *recent.get_or_insert(&key, 2, || 0) += 1;
        }
        assert_eq!(recent.get_mut(&"a"), None);
        assert_eq!(recent.get_mut(&"c"), Some(&mut 1));
        assert_eq!(recent.oldest.len(), 2);
    }
}
