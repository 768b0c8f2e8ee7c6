//! How many dead letters there are, wherever they are: one sum for every place that shows it.

use super::{DeadPage, DeadQueueView, DeadTargets};
use crate::domain::dead_letter::EVENT_TABLE;
use crate::domain::id::QueueName;
use crate::engine::view::Source;
use crate::store::DeadQueue;

/// The dead letters of a vhost, and the dead events of the table beside them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct DeadSum {
    /// In dead-letter queues that nobody consumes and that are no queue of work, and in the store. One that could not be read makes it unknown, not
    /// smaller.
    pub letters: Option<u64>,
    /// How many of these places have some.
    pub queues: u64,
    /// Dead events of the event table, where that was read.
    pub events: Option<u64>,
}

/// Where dead letters may be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Place {
    /// How many, where that was read.
    pub(super) letters: Option<u64>,
    /// Somebody works on them, or may only be away.
    pub(super) consumed: bool,
}

impl DeadSum {
    /// The sum of what each place has that nobody works on.
    pub(super) fn of(places: impl IntoIterator<Item = Place>, events: Option<u64>) -> Self {
        let none = Self {
            letters: Some(0),
            queues: 0,
            events,
        };
        let waiting = places.into_iter().filter(|place| !place.consumed);
        waiting.fold(none, |sum, Place { letters, .. }| Self {
            letters: sum
                .letters
                .zip(letters)
                .map(|(sum, letters)| sum.saturating_add(letters)),
            queues: sum.queues + u64::from(letters.is_some_and(|letters| letters > 0)),
            events,
        })
    }

    /// It was read, and there is nothing.
    #[must_use]
    pub fn is_nothing(&self) -> bool {
        self.letters == Some(0) && self.events == Some(0)
    }
}

/// Whether a look or a run of ours had a queue at any time between two readings of the index: a consumer that was counted
/// then may be ours.
pub(super) fn was_claimed(queue: &QueueName, before: &[DeadQueue], after: &[DeadQueue]) -> bool {
    let found = |known: &[DeadQueue]| {
        let known = known.iter().find(|known| known.name == *queue)?;
        Some((known.generation, known.claimed_by.is_some()))
    };
    let (before, after) = (found(before), found(after));
    before != after || before.is_some_and(|(_, is_claimed)| is_claimed)
}

impl DeadTargets {
    /// Whether what is in a dead-letter queue is in the hands of those who consume it, and no dead letter that waits:
    /// not where it is we who look at it. Our own queue has no other consumers.
    pub(super) fn is_worked_on(&self, queue: &QueueName, known: Option<&DeadQueue>, consumers: u64) -> bool {
        let is_looked_at = known.is_some_and(|known| known.claimed_by.is_some());
        consumers > 0 && !is_looked_at && queue.as_str() != self.settings.naming.dead_letter_queue()
    }
}

impl<T> DeadPage<T> {
    /// How many there are in all, whatever the page shows of them.
    #[must_use]
    pub fn sum(&self) -> DeadSum {
        let is_events = |view: &&DeadQueueView| view.name.as_str() == EVENT_TABLE;
        let places = self.queues.iter().filter(|view| !is_events(view)).map(|view| Place {
            letters: letters(view),
            consumed: view.consumed || view.may_be_work,
        });
        let events = self.queues.iter().find(is_events).map_or(Some(0), |view| view.messages);
        let sum = DeadSum::of(places, events);
        // A queue without its number is a place without one.
        let are_all = self
            .problems
            .iter()
            .all(|unread| matches!(unread.source, Source::Queue(_)));
        DeadSum {
            letters: sum.letters.filter(|_| are_all),
            ..sum
        }
    }
}

/// How many are in a queue: while somebody looks, they are in that one's hand.
pub(super) fn letters(view: &DeadQueueView) -> Option<u64> {
    match view.looking {
        Some((_, expected)) => expected.or(view.messages).or(view.ready),
        None => view.ready,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_place_that_is_not_read_makes_the_sum_unknown_and_not_smaller() {
        let place = |letters| Place {
            letters,
            consumed: false,
        };
        let worked_on = Place {
            letters: Some(9),
            consumed: true,
        };
        let sum = DeadSum::of([place(Some(3)), place(Some(0)), worked_on, place(Some(4))], Some(1));
        assert_eq!((sum.letters, sum.queues, sum.events), (Some(7), 2, Some(1)));
        let sum = DeadSum::of([place(Some(3)), place(None)], None);
        assert_eq!((sum.letters, sum.queues, sum.is_nothing()), (None, 1, false));
        assert!(DeadSum::of([], Some(0)).is_nothing());
    }

    #[test]
    fn a_consumer_may_be_ours_where_a_claim_was_there_at_any_time_between_two_readings() {
        let known = |generation, claimed_by: Option<&str>| DeadQueue {
            name: QueueName::parse("dead").unwrap(),
            generation,
            claimed_by: claimed_by.map(str::to_owned),
            seen: 0,
            expected: None,
            looked_at: None,
            messages: None,
            looks: 0,
            problem: None,
        };
        let queue = QueueName::parse("dead").unwrap();
        let [free, held, later] = [known(3, None), known(3, Some("look-1")), known(4, None)].map(|known| [known]);
        assert!(!was_claimed(&queue, &[], &[]) && !was_claimed(&queue, &free, &free));
        for (before, after) in [(&held, &free), (&free, &held), (&held, &held), (&free, &later)] {
            assert!(was_claimed(&queue, before, after), "{before:?} {after:?}");
        }
        assert!(was_claimed(&queue, &[], &free), "its first look");
    }
}
