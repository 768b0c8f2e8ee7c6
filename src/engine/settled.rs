//! What was acked of late, and may come again although it was (docs/protocols.md 6 and 31).
//!
//! An ack can be lost with its connection: that is at most `prefetch` messages. And RabbitMQ keeps the acks
//! of a classic queue in a journal in memory, under steady traffic for seconds: one that is killed forgets
//! them (measured on 3.10.8: up to 31 messages a queue came again, flagged redelivered, in order). So what was
//! acked last is remembered of each queue, over its workers, in memory alone: a 2xx, a dead letter, an end mark,
//! whatever it was. What a crash of this process forgets, and what is older than the list, is sent again.
//!
//! A message that comes again must be told from an equal one that was **published again**, which has to be sent:
//! nothing is deduplicated at publish. What separates them:
//!
//! 1. *Nothing was lost.* A channel that was closed in order had its acks taken, and a broker that was killed takes
//!    its connections with it. So nothing is expected to come again unless the last channel was lost, or a
//!    connection since. Messages that were read ahead or looked at come redelivered, too, and are sent. (Where one
//!    node of a cluster is killed that nobody here was connected to, what its queues forgot is sent again.)
//! 2. *The fingerprint*, with the publisher's timestamp in it: one that is published again a second later is another.
//! 3. *The flag.* What was never delivered is not flagged redelivered, and everything behind it is later still.
//! 4. *The order.* What comes again comes in the order in which it was acked, and before all else. What this process
//!    had in hand and did not settle is behind everything that it acked: with it the question is over. An attempt
//!    that was not a 2xx takes its mark out besides.
//!
//! A message that is none of the list and was not in hand here (a *stranger*) is unknown: another process may have
//! acked it between two of ours, or it is older than the list, or new. It is sent. Behind it a mark still counts if
//! its message has a timestamp; one without could as well be published again, unless the list is full and strangers
//! are likely to be older than it.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::ambient::HashMap;
use crate::broker::Delivery;
use crate::domain::fingerprint::Fingerprint;
use crate::domain::id::QueueName;

/// Remembered of one queue, at most.
const QUEUE_MAX: usize = 2_048;
/// Weight of the lists of queues that no worker is on, at most.
const RESTING_MAX: usize = 1_000_000;
/// What a list weighs beside its marks: its queue's name, and its place among the others.
const LIST_WEIGHT: usize = 16;
/// Deliveries that are none of the list: as many acks fit into the journal.
const STRANGERS_MAX: usize = 32_768;

/// What was acked last of one queue, oldest first.
#[derive(Debug, Default)]
pub(super) struct LastSettled {
    settled: VecDeque<Fingerprint>,
    /// Older ones were pushed out of it.
    is_full: bool,
    /// What was in hand last, if it was not settled.
    in_hand: Option<Fingerprint>,
    /// The channel before was closed in order, and so many connections had been lost when it was opened.
    closed_after: Option<u64>,
    /// While set, all that came since the channel was opened was redelivered.
    again: Option<Again>,
}

/// How far into the list what comes again has come.
#[derive(Debug)]
struct Again {
    from: usize,
    /// The end of what may come again: what is acked meanwhile is behind it.
    until: usize,
    strangers: usize,
}

impl LastSettled {
    /// A channel was opened; so many connections to the broker were lost by now. What was acked may come once more
    /// if the channel before was lost, or a connection since; else the question stands as that channel left it.
    pub(super) fn expect_again(&mut self, losses: u64) {
        if self.closed_after.take() == Some(losses) {
            return;
        }
        self.again = (!self.settled.is_empty()).then_some(Again {
            from: 0,
            until: self.settled.len(),
            strangers: 0,
        });
    }

    /// Whether something may still come again.
    pub(super) const fn is_asking(&self) -> bool {
        self.again.is_some()
    }

    /// The queue is empty: nothing comes again any more.
    pub(super) fn nothing_waits(&mut self) {
        self.again = None;
    }

    /// The channel was closed in order; so many connections had been lost when it was opened.
    pub(super) fn closed_in_order(&mut self, losses: u64) {
        self.closed_after = Some(losses);
    }

    /// Takes in what is acked now, whatever came of it.
    pub(super) fn push(&mut self, acked: Fingerprint) {
        self.in_hand = None;
        self.settled.push_back(acked);
        // What is sent again does not push out of the list what may come next.
        let most = match &self.again {
            Some(_) => QUEUE_MAX + STRANGERS_MAX,
            None => QUEUE_MAX,
        };
        while self.settled.len() > most {
            self.settled.pop_front();
            self.is_full = true;
            if let Some(again) = &mut self.again {
                again.from = again.from.saturating_sub(1);
                again.until = again.until.saturating_sub(1);
            }
        }
    }

    /// An attempt that was not a 2xx: this message is not settled, whatever was before.
    pub(super) fn take_out(&mut self, fingerprint: Fingerprint) {
        self.again = None;
        self.settled.retain(|settled| *settled != fingerprint);
    }

    /// Whether this delivery was acked before and came again. They come in their order, before all else.
    pub(super) fn came_again(&mut self, delivery: &Delivery, fingerprint: Fingerprint) -> bool {
        let was_in_hand = self.in_hand == Some(fingerprint);
        let asked = self.again.take().filter(|_| delivery.redelivered && !was_in_hand);
        let Some(mut again) = asked else {
            self.in_hand = Some(fingerprint);
            return false;
        };
        let ahead = self.settled.iter().take(again.until).skip(again.from);
        let found = ahead.enumerate().find(|(_, settled)| **settled == fingerprint);
        let is_older = self.is_full && again.from == 0;
        let is_certain = again.strangers == 0 || delivery.message.timestamp_s.is_some() || is_older;
        if let Some((at, _)) = found.filter(|_| is_certain) {
            again.from += at + 1;
            if is_older {
                // They were older than the list.
                again.strangers = 0;
            }
            self.again = (again.from < again.until).then_some(again);
            return true;
        }
        again.strangers += 1;
        self.again = (again.strangers < STRANGERS_MAX).then_some(again);
        self.in_hand = Some(fingerprint);
        false
    }

    fn weight(&self) -> usize {
        self.settled.len() + LIST_WEIGHT
    }
}

/// Lists of queues that no worker of this process is on. When they weigh too much, the half that rests longest goes.
#[derive(Debug, Default)]
pub(super) struct Resting(Mutex<Lists>);

#[derive(Debug, Default)]
struct Lists {
    young: Half,
    old: Half,
}

#[derive(Debug, Default)]
struct Half {
    by_queue: HashMap<QueueName, LastSettled>,
    weight: usize,
}

impl Half {
    fn take(&mut self, queue: &QueueName) -> Option<LastSettled> {
        let list = self.by_queue.remove(queue)?;
        self.weight -= list.weight();
        Some(list)
    }
}

impl Resting {
    /// The list of a queue that a worker begins on.
    pub(super) fn take(&self, queue: &QueueName) -> LastSettled {
        let mut lists = self.lock();
        let young = lists.young.take(queue);
        young.or_else(|| lists.old.take(queue)).unwrap_or_default()
    }

    /// The list of a queue whose worker ends; an empty one tells nothing.
    pub(super) fn put(&self, queue: &QueueName, mut list: LastSettled) {
        let mut lists = self.lock();
        lists.young.take(queue);
        lists.old.take(queue);
        if list.settled.is_empty() {
            return;
        }
        list.settled.shrink_to_fit();
        if lists.young.weight + list.weight() > RESTING_MAX / 2 {
            lists.old = std::mem::take(&mut lists.young);
        }
        lists.young.weight += list.weight();
        lists.young.by_queue.insert(queue.clone(), list);
    }

    /// The queue is gone, and nothing of it can come again.
    pub(super) fn forget(&self, queue: &QueueName) {
        drop(self.take(queue));
    }

    fn lock(&self) -> MutexGuard<'_, Lists> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
