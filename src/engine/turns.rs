//! Whose turn it is to publish in each delivery queue, and which publishes are not settled (docs/protocols.md 10).
//!
//! Promises: in one queue one publish is under way; one whose confirm never came holds the next ones back until it is
//! settled under the same id, so that n+1 never overtakes n. It is not held back for a time: a caller that does not
//! come back must not block its queue for ever, and after any time that somebody chose n may still be repeated behind
//! n+1. So the publisher settles it itself: it publishes the message again, under its id, until the broker answers. At
//! worst that is a second copy with the same id, which an unknown confirm always allows. A caller that repeats it
//! afterwards is told that it is stored, and no further copy is made.
//!
//! Who waited for his turn while the publish that had it did not reach the broker is told the same, and does not wait
//! for the broker once more: n publishes to one queue would take n times as long.
//!
//! A turn is remembered while somebody has or wants it and while a publish of it is unsettled; those are bounded in
//! number and bytes: beyond that nothing new is begun until the broker confirms again.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{OwnedMutexGuard, Semaphore, SemaphorePermit};

use crate::ambient::HashMap;
use crate::broker::BrokerError;
use crate::domain::fingerprint::content_digest;
use crate::domain::id::{NotificationId, QueueName};
use crate::domain::message::Message;

/// Publishes without a confirm, at most, and their bytes.
const UNSETTLED_MAX: usize = 10_000;
const UNSETTLED_BYTES_MAX: usize = 256 * 1024 * 1024;
/// Settled publishes whose caller may not know yet.
const TOLD_MAX: usize = 10_000;

/// Publishes that are settled at once, at most.
const SETTLING_MAX: usize = 8;

/// The turns of all queues.
#[derive(Debug)]
pub(super) struct Turns {
    state: Mutex<State>,
    /// Has a permit for each publish that may be settled at present.
    settling: Semaphore,
}

impl Default for Turns {
    fn default() -> Self {
        Self {
            state: Mutex::default(),
            settling: Semaphore::new(SETTLING_MAX),
        }
    }
}

#[derive(Debug, Default)]
struct State {
    turns: HashMap<QueueName, Turn>,
    unsettled: usize,
    bytes: usize,
    /// Settled without their callers, the last of each queue, and the queues in the order in which that was.
    told: HashMap<QueueName, Repeat>,
    told_order: VecDeque<QueueName>,
}

/// The turn of one queue.
#[derive(Debug, Default)]
struct Turn {
    lock: Arc<tokio::sync::Mutex<()>>,
    /// Who has it or waits for it.
    users: usize,
    /// Places that were given out.
    places: u64,
    /// The last publish that did not reach the broker, and the last place that was given out before it ended.
    unreached: Option<(u64, BrokerError)>,
    unsettled: Option<Unsettled>,
}

/// A publish without a confirm.
#[derive(Debug)]
struct Unsettled {
    repeat: Repeat,
    bytes: usize,
}

/// What a repeated publish is known by: when it was made it says anew each time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Repeat {
    pub(super) id: NotificationId,
    content: [u8; 32],
}

impl Repeat {
    pub(super) fn of(id: &NotificationId, message: &Message) -> Self {
        Self {
            id: id.clone(),
            // Without its time: whoever repeats it says another one.
            content: content_digest(message),
        }
    }
}

/// Why a publish does not get its turn.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Wait {
    /// Another one of this queue is not settled.
    Behind(NotificationId),
    /// Too many are not settled.
    Full(usize),
}

/// A place in the line of one queue; leaves it when it is dropped.
#[derive(Debug)]
pub(super) struct Place {
    turns: Arc<Turns>,
    queue: QueueName,
    number: u64,
}

impl Turns {
    /// Whether a publish with this id may wait for its turn at present.
    pub(super) fn admits(&self, queue: &QueueName, id: &NotificationId) -> Result<(), Wait> {
        let state = self.lock();
        match state.turns.get(queue).and_then(|turn| turn.unsettled.as_ref()) {
            Some(unsettled) if unsettled.repeat.id == *id => Ok(()),
            Some(unsettled) => Err(Wait::Behind(unsettled.repeat.id.clone())),
            None if state.unsettled >= UNSETTLED_MAX || state.bytes >= UNSETTLED_BYTES_MAX => {
                Err(Wait::Full(state.unsettled))
            }
            None => Ok(()),
        }
    }

    /// Goes into the line of a queue.
    pub(super) fn line_up(self: &Arc<Self>, queue: &QueueName) -> Place {
        let mut state = self.lock();
        let turn = state.turns.entry(queue.clone()).or_default();
        turn.users += 1;
        turn.places += 1;
        Place {
            turns: Arc::clone(self),
            queue: queue.clone(),
            number: turn.places,
        }
    }

    /// Whether a publish was settled that this one repeats.
    pub(super) fn was_settled(&self, queue: &QueueName, id: &NotificationId, message: &Message) -> bool {
        let known = self.lock().told.get(queue).cloned();
        known.is_some_and(|repeat| repeat.id == *id && repeat == Repeat::of(id, message))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[cfg(test)]
    fn remembered(&self) -> usize {
        self.lock().turns.len()
    }
}

impl Place {
    /// Waits for the turn.
    pub(super) async fn turn(&self) -> OwnedMutexGuard<()> {
        let lock = {
            let mut state = self.turns.lock();
            Arc::clone(&state.turns.entry(self.queue.clone()).or_default().lock)
        };
        lock.lock_owned().await
    }

    /// Waits until its publish may be settled: not all are published again at once.
    pub(super) async fn settling(&self) -> Option<SemaphorePermit<'_>> {
        self.turns.settling.acquire().await.ok()
    }

    /// The publish that has the turn did not reach the broker.
    pub(super) fn unreached(&self, error: &BrokerError) {
        let mut state = self.turns.lock();
        let turn = state.turns.entry(self.queue.clone()).or_default();
        turn.unreached = Some((turn.places, error.clone()));
    }

    /// Why the broker was not reached while this one waited for its turn.
    pub(super) fn was_unreached(&self) -> Option<BrokerError> {
        let state = self.turns.lock();
        let (last, error) = state.turns.get(&self.queue)?.unreached.as_ref()?;
        (self.number <= *last).then(|| error.clone())
    }

    /// The publish that has the turn got no answer. True when nobody settles it yet.
    pub(super) fn unsettled(&self, id: &NotificationId, message: &Message) -> bool {
        let repeat = Repeat::of(id, message);
        let bytes = message.body.len();
        let mut state = self.turns.lock();
        let turn = state.turns.entry(self.queue.clone()).or_default();
        if turn.unsettled.as_ref().is_some_and(|known| known.repeat.id == *id) {
            return false;
        }
        turn.unsettled = Some(Unsettled { repeat, bytes });
        state.unsettled += 1;
        state.bytes += bytes;
        true
    }

    /// The publish that has the turn was answered, or is given up.
    pub(super) fn settled(&self) {
        drop(self.take_unsettled());
    }

    /// The same, and its caller does not know: who repeats it is told.
    pub(super) fn settled_alone(&self) {
        let Some(unsettled) = self.take_unsettled() else { return };
        let mut state = self.turns.lock();
        while state.told_order.len() >= TOLD_MAX {
            if let Some(oldest) = state.told_order.pop_front() {
                state.told.remove(&oldest);
            }
        }
        state.told_order.push_back(self.queue.clone());
        state.told.insert(self.queue.clone(), unsettled.repeat);
    }

    /// Whether this one is still the unsettled one.
    pub(super) fn is_unsettled(&self, id: &NotificationId) -> bool {
        let state = self.turns.lock();
        let turn = state.turns.get(&self.queue);
        turn.and_then(|turn| turn.unsettled.as_ref())
            .is_some_and(|unsettled| unsettled.repeat.id == *id)
    }

    fn take_unsettled(&self) -> Option<Unsettled> {
        let mut state = self.turns.lock();
        let unsettled = state.turns.get_mut(&self.queue)?.unsettled.take()?;
        state.unsettled -= 1;
        state.bytes -= unsettled.bytes;
        Some(unsettled)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut state = self.turns.lock();
        let Some(turn) = state.turns.get_mut(&self.queue) else {
            return;
        };
        turn.users -= 1;
        if turn.users == 0 && turn.unsettled.is_none() {
            state.turns.remove(&self.queue);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(name: &str) -> QueueName {
        QueueName::parse(name).unwrap()
    }

    fn id(text: &str) -> NotificationId {
        NotificationId::parse(text).unwrap()
    }

    fn message(body: &str) -> Message {
        Message {
            body: body.to_owned().into(),
            timestamp_s: Some(7),
            ..Message::default()
        }
    }

    #[test]
    fn a_turn_is_remembered_while_somebody_has_it_or_its_publish_is_unsettled() {
        let turns = Arc::new(Turns::default());
        let (one, two) = (turns.line_up(&queue("q")), turns.line_up(&queue("q")));
        drop(one);
        assert_eq!(turns.remembered(), 1);
        assert!(two.unsettled(&id("n"), &message("x")));
        drop(two);
        assert_eq!(turns.remembered(), 1);
        let settles = turns.line_up(&queue("q"));
        settles.settled();
        drop(settles);
        assert_eq!(turns.remembered(), 0);
    }

    #[test]
    fn the_next_one_waits_for_the_unsettled_one_and_the_same_one_does_not() {
        let turns = Arc::new(Turns::default());
        let place = turns.line_up(&queue("q"));
        assert!(place.unsettled(&id("n"), &message("x")));
        assert!(!place.unsettled(&id("n"), &message("x")), "one settles it");
        assert_eq!(turns.admits(&queue("q"), &id("n+1")), Err(Wait::Behind(id("n"))));
        assert_eq!(turns.admits(&queue("q"), &id("n")), Ok(()));
        assert_eq!(turns.admits(&queue("other"), &id("n+1")), Ok(()));
        place.settled();
        assert_eq!(turns.admits(&queue("q"), &id("n+1")), Ok(()));
    }

    #[test]
    fn who_waited_while_the_broker_was_not_reached_is_told_and_who_comes_later_tries() {
        let turns = Arc::new(Turns::default());
        let (first, waits) = (turns.line_up(&queue("q")), turns.line_up(&queue("q")));
        assert!(waits.was_unreached().is_none());
        first.unreached(&BrokerError::Unreachable {
            operation: "connect",
            detail: "no answer within 10 s".to_owned(),
        });
        let later = turns.line_up(&queue("q"));
        assert!(waits.was_unreached().is_some() && later.was_unreached().is_none());
        assert!(turns.line_up(&queue("other")).was_unreached().is_none());
        drop((first, waits, later));
        assert_eq!(turns.remembered(), 0);
    }

    #[test]
    fn who_repeats_what_was_settled_alone_is_told_and_who_publishes_something_else_is_not() {
        let turns = Arc::new(Turns::default());
        let place = turns.line_up(&queue("q"));
        place.unsettled(&id("n"), &message("x"));
        place.settled_alone();
        let later = Message {
            timestamp_s: Some(8),
            ..message("x")
        };
        assert!(turns.was_settled(&queue("q"), &id("n"), &later));
        assert!(!turns.was_settled(&queue("q"), &id("n"), &message("y")));
        assert!(!turns.was_settled(&queue("q"), &id("m"), &later));
        assert!(!turns.was_settled(&queue("other"), &id("n"), &later));
    }

    #[test]
    fn beyond_so_many_unsettled_ones_or_their_bytes_nothing_is_begun() {
        let turns = Arc::new(Turns::default());
        for number in 0..UNSETTLED_MAX {
            let place = turns.line_up(&queue(&format!("q{number}")));
            assert!(place.unsettled(&id("n"), &message("x")));
        }
        assert_eq!(turns.admits(&queue("new"), &id("n")), Err(Wait::Full(UNSETTLED_MAX)));
        assert_eq!(turns.admits(&queue("q0"), &id("n")), Ok(()), "a repeat settles");
        turns.line_up(&queue("q0")).settled();
        assert_eq!(turns.admits(&queue("new"), &id("n")), Ok(()));
        turns.line_up(&queue("q1")).settled();
        turns.lock().bytes = UNSETTLED_BYTES_MAX;
        assert!(matches!(turns.admits(&queue("new"), &id("n")), Err(Wait::Full(_))));
    }
}
