//! What was answered with a 2xx of late, and may come again although it was acked (PROTOCOLS.md 6).
//!
//! An ack can be lost with its connection: that is at most `prefetch` messages. And RabbitMQ keeps the acks
//! of a classic queue in a journal in memory, under steady traffic for seconds: one that is killed forgets
//! them (measured on 3.10.8: up to 31 messages a queue came again, flagged redelivered, in order). So the
//! last ones of a queue are remembered, over its workers, in memory alone: what a crash of this process
//! forgets, and what is older than the list, is sent again.
//!
//! Nothing is taken for settled by its id alone: headers and body must be the same. And the first redelivered
//! one after an attach that is none of them forgets them: they were before it in the queue, so the broker has
//! their acks, and an equal message that comes later was published again. Only behind a list that is full it may
//! be older than all of them.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use sha2::{Digest, Sha256};

use crate::domain::id::QueueName;
use crate::domain::message::{HeaderValue, Message, encode_headers};

/// Remembered of one queue, at most.
const QUEUE_MAX: usize = 2_048;
/// Remembered of queues that no worker is on, at most.
const RESTING_MAX: usize = 500_000;
/// Deliveries that are none of the list before its first one comes: as many acks fit into the journal.
const OLDER_MAX: usize = 32_768;

/// Half of a SHA-256 over id, headers and body.
type Mark = [u8; 16];

/// The last settled notifications of one queue, oldest first.
#[derive(Debug, Default)]
pub(super) struct LastSettled {
    settled: VecDeque<Mark>,
    /// Older ones were pushed out of it.
    is_full: bool,
    /// While set, all that came since the channel was opened was redelivered.
    again: Option<Again>,
}

/// How far into the list what comes again has come.
#[derive(Debug, Default)]
struct Again {
    from: usize,
    /// Deliveries older than the list.
    older: usize,
}

impl LastSettled {
    /// A channel was opened: what was settled may come once more.
    pub(super) fn expect_again(&mut self) {
        self.again = Some(Again::default());
    }

    /// Takes in what was answered with a 2xx; nothing that came without an id.
    pub(super) fn push(&mut self, message: &Message) {
        let Some(mark) = mark(message) else { return };
        self.settled.push_back(mark);
        // What is sent again does not push out of the list what may come next.
        let most = if self.again.is_some() { QUEUE_MAX * 2 } else { QUEUE_MAX };
        while self.settled.len() > most {
            self.settled.pop_front();
            self.is_full = true;
        }
    }

    /// Whether this delivery is one of the first after the attach and was settled before. They come in
    /// their order.
    pub(super) fn came_again(&mut self, message: &Message, redelivered: bool) -> bool {
        let Some(again) = self.again.take().filter(|_| redelivered) else {
            return false;
        };
        let found = mark(message).and_then(|mark| {
            let mut ahead = self.settled.iter().skip(again.from);
            ahead.position(|settled| *settled == mark)
        });
        self.again = match found {
            Some(at) => Some(Again {
                from: again.from + at + 1,
                ..again
            }),
            None if self.is_full && again.from == 0 && again.older < OLDER_MAX => Some(Again {
                older: again.older + 1,
                ..again
            }),
            None => {
                self.settled.clear();
                self.is_full = false;
                None
            }
        };
        found.is_some()
    }
}

fn mark(message: &Message) -> Option<Mark> {
    let mut digest = Sha256::new();
    part(&mut digest, message.message_id.as_deref()?.as_bytes());
    headers_and_body(&mut digest, message);
    let mut mark = Mark::default();
    mark.copy_from_slice(&digest.finalize()[..16]);
    Some(mark)
}

/// Lists of queues that no worker of this process is on.
#[derive(Debug, Default)]
pub(super) struct Resting(Mutex<Lists>);

#[derive(Debug, Default)]
struct Lists {
    by_queue: HashMap<QueueName, LastSettled>,
    settled: usize,
}

impl Resting {
    /// The list of a queue that a worker begins on.
    pub(super) fn take(&self, queue: &QueueName) -> LastSettled {
        let mut lists = self.lock();
        let list = lists.by_queue.remove(queue).unwrap_or_default();
        lists.settled -= list.settled.len();
        list
    }

    /// The list of a queue whose worker ends.
    pub(super) fn put(&self, queue: &QueueName, list: LastSettled) {
        let mut lists = self.lock();
        if lists.settled + list.settled.len() > RESTING_MAX {
            *lists = Lists::default();
        }
        lists.settled += list.settled.len();
        if let Some(before) = lists.by_queue.insert(queue.clone(), list) {
            lists.settled -= before.settled.len();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Lists> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// SHA-256 over headers and body.
pub(super) fn fingerprint(message: &Message) -> [u8; 32] {
    let mut digest = Sha256::new();
    headers_and_body(&mut digest, message);
    digest.finalize().into()
}

fn headers_and_body(digest: &mut Sha256, message: &Message) {
    part(digest, message.kind.as_deref().unwrap_or_default().as_bytes());
    part(digest, message.content_type.as_deref().unwrap_or_default().as_bytes());
    for (name, value) in &message.headers {
        part(digest, name.as_bytes());
        match value {
            HeaderValue::Text(bytes) => part(digest, bytes),
            HeaderValue::Bool(truth) => part(digest, &[u8::from(*truth)]),
            HeaderValue::Other(text) => part(digest, text.as_bytes()),
            HeaderValue::Integer(_)
            | HeaderValue::I8(_)
            | HeaderValue::U8(_)
            | HeaderValue::I16(_)
            | HeaderValue::U16(_)
            | HeaderValue::I32(_)
            | HeaderValue::U32(_) => part(digest, &value.as_integer().unwrap_or_default().to_be_bytes()),
            HeaderValue::Float(_)
            | HeaderValue::Double(_)
            | HeaderValue::Decimal { .. }
            | HeaderValue::Timestamp(_)
            | HeaderValue::Bytes(_)
            | HeaderValue::Array(_)
            | HeaderValue::Table(_)
            | HeaderValue::Void => {
                let encoded = encode_headers(&[(String::new(), value.clone())]);
                part(digest, &encoded.unwrap_or_default());
            }
        }
    }
    part(digest, &message.body);
}

/// Bytes with their length before them, so that no two lists of parts read alike.
fn part(digest: &mut Sha256, bytes: &[u8]) {
    digest.update(bytes.len().to_be_bytes());
    digest.update(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(n: u32) -> Message {
        Message {
            message_id: Some(format!("n-{n}")),
            body: bytes::Bytes::from(format!("body {n}")),
            ..Message::default()
        }
    }

    fn settled(count: u32) -> LastSettled {
        let mut list = LastSettled::default();
        for n in 1..=count {
            list.push(&message(n));
        }
        list
    }

    #[test]
    fn what_comes_again_after_an_attach_is_known_in_its_order_and_once() {
        let mut list = settled(5);
        assert!(!list.came_again(&message(3), true), "nobody attached");
        list.expect_again();
        assert!(list.came_again(&message(3), true));
        assert!(list.came_again(&message(4), true));
        list.expect_again();
        assert!(list.came_again(&message(5), true));
        assert!(!list.came_again(&message(5), true), "once");
    }

    /// `first` came again after an attach, and is none of the list.
    fn check_forgotten(first: &Message) {
        let mut list = settled(5);
        list.expect_again();
        assert!(!list.came_again(first, true));
        assert!(!list.came_again(&message(5), true), "the question is over");
        list.expect_again();
        assert!(
            !list.came_again(&message(5), true),
            "published again, with the same id and body"
        );
        list.push(&message(6));
        list.expect_again();
        assert!(
            list.came_again(&message(6), true),
            "what is settled from then on is remembered"
        );
    }

    #[test]
    fn the_first_redelivered_message_that_is_another_forgets_the_list() {
        check_forgotten(&message(6));
        let other = Message {
            body: bytes::Bytes::from_static(b"other"),
            ..message(1)
        };
        check_forgotten(&other);
        let unnamed = Message {
            message_id: None,
            ..message(1)
        };
        check_forgotten(&unnamed);
    }

    #[test]
    fn a_delivery_that_is_not_flagged_is_sent_and_ends_the_question() {
        let mut list = settled(5);
        list.expect_again();
        assert!(!list.came_again(&message(1), false));
        assert!(!list.came_again(&message(5), true), "it is over");
        list.expect_again();
        assert!(
            list.came_again(&message(5), true),
            "a broker that is killed later may have lost its ack"
        );
    }

    #[test]
    fn the_first_that_is_another_behind_known_ones_forgets_the_list() {
        let mut list = settled(5);
        list.expect_again();
        assert!(list.came_again(&message(4), true));
        assert!(!list.came_again(&message(6), true));
        list.expect_again();
        assert!(!list.came_again(&message(5), true));
    }

    #[test]
    fn what_is_older_than_the_list_is_sent_and_pushes_nothing_out_of_it() {
        let count = u32::try_from(QUEUE_MAX).unwrap() + 100;
        let mut list = settled(count);
        list.expect_again();
        for n in 1..=100 {
            assert!(!list.came_again(&message(n), true));
            list.push(&message(n));
        }
        assert!((101..=count).all(|n| list.came_again(&message(n), true)));
    }

    #[test]
    fn a_list_rests_between_two_workers() {
        let (resting, queue) = (Resting::default(), QueueName::parse("q").unwrap());
        resting.put(&queue, settled(2));
        resting.put(&queue, settled(3));
        assert_eq!(resting.lock().settled, 3);
        let mut list = resting.take(&queue);
        list.expect_again();
        assert!(list.came_again(&message(3), true));
        assert_eq!(resting.lock().settled, 0);
    }
}
