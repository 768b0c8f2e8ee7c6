//! Which queues of a listing have dead letters in them, found now and then, so that each look can sum them up: one
//! place for whoever looks again and again, whether for a screen or for alerts.

use std::collections::BTreeMap;
use std::time::Duration;

use super::sum::{Place, was_claimed};
use super::ways::Exchanges;
use super::{DeadSum, DeadTargets};
use crate::ambient::{HashMap, HashSet};
use crate::broker::ListedQueue;
use crate::domain::dead_letter::{EVENT_TABLE, STORE};
use crate::domain::event::EventState;
use crate::domain::id::QueueName;
use crate::engine::EngineError;
use crate::engine::core::Core;
use crate::engine::error::chain;
use crate::engine::queues::seen::Seen;
use crate::engine::rules::compiled;

/// How long what was found is good for.
const GOOD: Duration = Duration::from_secs(10);
/// Queues that are asked for their consumers, at most.
const ASKED_MAX: usize = 100;
/// Of the time, one part in so many at most is spent on finding.
const SHARE: u32 = 20;

/// Where dead letters are, as found last.
#[derive(Debug, Default)]
pub(super) struct DeadPlaces {
    /// Names of dead-letter queues, whether they are there or not.
    targets: HashSet<QueueName>,
    /// Those that somebody consumes, or may consume again: what is in them is being worked on, and no dead letter.
    consumed: HashSet<QueueName>,
    /// When (uptime) they are found again.
    next_at: Duration,
    /// Why they could not be found the last time.
    unread: Option<String>,
    is_found: bool,
    /// Dead events, as counted last.
    events: Option<u64>,
    events_next_at: Duration,
}

/// How many dead letters a look counted.
#[derive(Clone, Debug, Default)]
pub(in crate::engine) struct DeadCounts {
    pub(in crate::engine) sum: DeadSum,
    /// Of each place that could be counted; `None`: it is not known which places there are.
    pub(in crate::engine) places: Option<BTreeMap<String, u64>>,
    /// Why they are not known.
    pub(in crate::engine) unread: Option<String>,
}

/// For how long what was read is not read again. What failed only waited for a broker or store that does not answer, and
/// says nothing of what reading costs.
fn good_for<T, E>(read: &Result<T, E>, took: Duration) -> Duration {
    match read {
        Ok(_) => GOOD.max(took * SHARE),
        Err(_) => GOOD,
    }
}

impl DeadPlaces {
    /// Finds them in a listing, unless that was done a moment ago.
    pub(super) async fn find(&mut self, engine: &DeadTargets, listed: &[ListedQueue]) {
        let begun = engine.clock.uptime();
        if begun < self.next_at {
            return;
        }
        let found = self.found(engine, listed).await;
        let ended = engine.clock.uptime();
        self.next_at = ended + good_for(&found, ended.saturating_sub(begun));
        match found {
            Ok(()) => (self.unread, self.is_found) = (None, true),
            Err(error) => self.unread = Some(chain(&error)),
        }
    }

    async fn found(&mut self, engine: &DeadTargets, listed: &[ListedQueue]) -> Result<(), EngineError> {
        let policies = compiled(&engine.broker.policies().await?);
        let fed = engine.fed_among(listed, &policies, &mut Exchanges::new()).await?;
        let work = engine.possible_work(listed, &policies, &fed);
        let before = engine.store.dead_queues().await?;
        let known: HashMap<_, _> = before.iter().map(|known| (&known.name, known)).collect();
        let is_target = |queue: &&ListedQueue| fed.contains_key(queue.name.as_str());
        let targets: Vec<&ListedQueue> = listed.iter().filter(is_target).collect();
        let mut consumed = HashSet::default();
        let has_some = |queue: &&&ListedQueue| queue.ready.zip(queue.unacked) != Some((0, 0));
        let others = |queue: &&&ListedQueue| {
            has_some(queue) && engine.is_worked_on(&queue.name, known.get(&queue.name).copied(), 1)
        };
        let version = engine.broker.version().await;
        for queue in targets.iter().filter(others).take(ASKED_MAX) {
            let Some(detail) = engine.broker.queue_detail(&queue.name).await? else {
                continue;
            };
            let listed = engine.target(queue, &detail, Vec::new(), &policies, version);
            // The statistics lag: for seconds they count the consumer of a look or a run of ours that is over.
            if listed.consumers > 0 && engine.counted(listed).await?.is_some_and(|exact| exact.consumers > 0) {
                consumed.insert(queue.name.clone());
            }
        }
        if !consumed.is_empty() {
            let now = engine.store.dead_queues().await?;
            consumed.retain(|name| !was_claimed(name, &before, &now));
        }
        consumed.extend(work.iter().filter_map(|name| QueueName::parse(name).ok()));
        self.targets = targets.into_iter().map(|queue| queue.name.clone()).collect();
        self.consumed = consumed;
        Ok(())
    }

    /// Counts the dead events, unless that was done a moment ago.
    pub(super) async fn count_events(&mut self, engine: &Core) {
        let begun = engine.clock.uptime();
        if begun < self.events_next_at {
            return;
        }
        let counts = engine.store.events_counts().await;
        let ended = engine.clock.uptime();
        self.events_next_at = ended + good_for(&counts, ended.saturating_sub(begun));
        self.events = counts.ok().map(|counts| {
            let dead = counts.iter().filter(|count| count.state == EventState::Dead);
            dead.map(|count| count.count).sum()
        });
    }

    /// What is in them by this listing, with what is `stored`; unknown where something of it was not read.
    pub(super) fn count(&self, seen: Option<&[Seen]>, stored: Option<u64>) -> DeadCounts {
        let targets = seen.unwrap_or_default().iter();
        let listed = targets.filter(|queue| self.targets.contains(&queue.name)).map(|queue| {
            let place = Place {
                letters: queue.ready.map(|ready| ready + queue.unacked.unwrap_or(0)),
                consumed: self.consumed.contains(&queue.name),
            };
            (queue.name.as_str(), place)
        });
        let stored = Place {
            letters: stored,
            consumed: false,
        };
        let places: Vec<(&str, Place)> = listed.chain([(STORE, stored)]).collect();
        let sum = DeadSum::of(places.iter().map(|(_, place)| *place), self.events);
        let is_known = seen.is_some() && self.is_found;
        // Dead events are told of as dead letters are, and have a number of their own.
        let events = (
            EVENT_TABLE,
            Place {
                letters: self.events,
                consumed: false,
            },
        );
        let counted = places
            .iter()
            .chain(std::iter::once(&events))
            .filter(|(_, place)| !place.consumed)
            .filter_map(|(name, place)| Some(((*name).to_owned(), place.letters?)));
        DeadCounts {
            sum: DeadSum {
                letters: sum.letters.filter(|_| is_known && self.unread.is_none()),
                ..sum
            },
            places: is_known.then(|| counted.collect()),
            unread: self.unread.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dead_events_are_a_place_of_their_own_and_no_letters() {
        let places = DeadPlaces {
            events: Some(3),
            is_found: true,
            ..DeadPlaces::default()
        };
        let counts = places.count(Some(&[]), Some(1));
        assert_eq!((counts.sum.letters, counts.sum.events), (Some(1), Some(3)));
        let expected = [(EVENT_TABLE.to_owned(), 3), (STORE.to_owned(), 1)];
        assert_eq!(counts.places, Some(expected.into()));
    }

    #[test]
    fn what_could_not_be_read_is_read_again_soon_however_long_the_failure_took() {
        let (short, long) = (Duration::from_millis(20), Duration::from_secs(5));
        assert_eq!(good_for(&Ok::<(), ()>(()), short), GOOD);
        assert_eq!(good_for(&Ok::<(), ()>(()), long), Duration::from_secs(100));
        assert_eq!(good_for(&Err::<(), ()>(()), long), GOOD);
    }
}
