//! Which consuming connection a queue is read on, and the hunt for the queue that kills connections.
//!
//! A message that cannot be decoded convicts its own queue: it is told once, and no other queue is disturbed. What ends
//! the whole connection, with every queue on it, at every delivery, is hunted: queues are spread over groups of a bounded
//! size, one connection each. When a group dies of something undecodable, all its queues become suspects and are only read on probe groups of at
//! most half that many suspects, until a suspect dies alone, for half a minute: that queue is convicted, once. A queue
//! that delivers, or lives for five seconds, is no suspect any more. What lies between may have garbled the bytes, once or
//! for a while: where a connection without deliveries ended on something undecodable, the half minute begins again.
//!
//! A broker that gives its user no more channels ends the connection that asks for one more, with every queue on it. From then on no
//! more queues are read than were read then; now and then one more is tried, on a connection of its own.
//!
//! Pure bookkeeping under one lock; the connections are opened and watched by `attach`.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::OnceCell;

use super::failure::Ended;
use super::feed::Feed;
use crate::ambient::Clock;

/// Dead groups that are remembered, in case their cause becomes known a moment later.
const DEAD_MAX: usize = 64;
/// Suspects and convictions that are remembered.
const SUSPECTS_MAX: usize = 100_000;
/// A suspect that ends its connection alone for so long is convicted.
const CONVICTED_AFTER: Duration = Duration::from_secs(30);

/// Between two attempts to read one queue more than the broker gave channels for.
const FULL: Duration = Duration::from_mins(1);

/// The groups, the suspects and the convicted.
#[derive(Debug)]
pub(super) struct Pool {
    state: Mutex<State>,
    queues_per_connection: usize,
    clock: Clock,
    /// Connections without deliveries that ended on something undecodable.
    garbled: Arc<AtomicU64>,
}

/// A queue that may be what ends connections.
#[derive(Clone, Copy, Debug)]
struct Suspect {
    /// How many suspects may share a connection with it.
    limit: usize,
    /// Since when (uptime) it ends connections alone, and how many others were garbled by then.
    alone: Option<(Duration, u64)>,
}

impl Suspect {
    const fn new(limit: usize) -> Self {
        Self { limit, alone: None }
    }

    /// It ended a connection alone: whether it did so for long enough, with nothing else to blame.
    fn is_convicted(&mut self, uptime: Duration, garbled: u64) -> bool {
        self.limit = 1;
        let first = self.alone.filter(|(_, before)| *before == garbled);
        let (since, _) = *self.alone.insert(first.unwrap_or((uptime, garbled)));
        uptime.saturating_sub(since) >= CONVICTED_AFTER
    }
}

/// Why there is no place for a queue.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum NoPlace {
    /// It is convicted.
    Convicted(String),
    /// The broker gives no more channels: its own sentence.
    Full(String),
}

/// So many queues may be read, and one more from then on, by uptime.
#[derive(Debug)]
struct Full {
    most: usize,
    until: Duration,
    said: String,
}

#[derive(Debug, Default)]
struct State {
    next: u64,
    groups: BTreeMap<u64, Group>,
    dead: BTreeMap<u64, Group>,
    suspects: HashMap<String, Suspect>,
    convicted: HashMap<String, String>,
    full: Option<Full>,
}

#[derive(Debug)]
struct Group {
    feed: Arc<OnceCell<Arc<Feed>>>,
    members: HashMap<u64, String>,
    /// Those of them that have a channel.
    opened: HashSet<u64>,
    /// Room of its connection.
    capacity: usize,
    /// Whether its members were already made suspects.
    judged: bool,
}

impl Group {
    fn queues(&self) -> HashSet<&str> {
        self.members.values().map(String::as_str).collect()
    }
}

/// A queue's place in a group; leaving is dropping it.
#[derive(Debug)]
pub(super) struct Place {
    pool: Arc<Pool>,
    group: u64,
    member: u64,
    queue: String,
    feed: Arc<OnceCell<Arc<Feed>>>,
    /// Whether the queue was a suspect when it came, and whether no other suspect may share its connection.
    pub(super) suspect: bool,
    pub(super) is_apart: bool,
    /// Whether it is one more than the broker gave channels for.
    is_one_more: bool,
}

impl Place {
    /// The group's connection, to be opened by whoever comes first.
    pub(super) fn feed(&self) -> &OnceCell<Arc<Feed>> {
        &self.feed
    }

    /// The queue has a channel.
    pub(super) fn opened(&self) {
        let mut state = self.pool.lock();
        if let Some(group) = state.groups.get_mut(&self.group) {
            group.opened.insert(self.member);
        }
        if let Some(full) = state.full.as_mut().filter(|_| self.is_one_more) {
            // The broker may give yet another.
            full.until = Duration::ZERO;
        }
    }

    /// The group's connection ended.
    pub(super) fn died(&self, ended: &Ended) {
        self.pool.died(self.group, ended);
    }

    /// Whether the group's connection is known to have ended.
    pub(super) fn is_dead(&self) -> bool {
        !self.pool.lock().groups.contains_key(&self.group)
    }

    /// The queue proved that it can be read.
    pub(super) fn cleared(&self) {
        self.pool.lock().suspects.remove(&self.queue);
    }

    /// The queue's head cannot be decoded: no other queue is to blame, and none is disturbed.
    pub(super) fn convict(&self, reason: &str) {
        self.pool.lock().convict(&self.queue, reason);
    }

    /// The connection takes no more than this.
    pub(super) fn limit(&self, capacity: usize) {
        if let Some(group) = self.pool.lock().groups.get_mut(&self.group) {
            group.capacity = group.capacity.min(capacity.max(1));
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut state = self.pool.lock();
        let others = state.groups.keys().any(|id| *id != self.group);
        // The members of a dead group stand: they are its evidence.
        let Some(group) = state.groups.get_mut(&self.group) else {
            return;
        };
        group.members.remove(&self.member);
        group.opened.remove(&self.member);
        // One connection stays open for who comes next.
        if group.members.is_empty() && others {
            state.groups.remove(&self.group);
        }
    }
}

impl Pool {
    pub(super) fn new(queues_per_connection: usize, clock: Clock, garbled: Arc<AtomicU64>) -> Self {
        Self {
            state: Mutex::default(),
            queues_per_connection: queues_per_connection.max(1),
            clock,
            garbled,
        }
    }

    /// A place for `queue`, or why there is none: its conviction is told once; then it may try again, alone.
    pub(super) fn reserve(self: &Arc<Self>, queue: &str) -> Result<Place, NoPlace> {
        let mut state = self.lock();
        if let Some(reason) = state.convicted.remove(queue) {
            state.suspects.insert(queue.to_owned(), Suspect::new(1));
            return Err(NoPlace::Convicted(reason));
        }
        let uptime = self.clock.uptime();
        state.bury(uptime, self.garbled());
        let is_one_more = state.is_one_more(uptime)?;
        let limit = state.suspects.get(queue).map(|suspect| suspect.limit);
        let found = state
            .groups
            .iter()
            .find(|(_, group)| !is_one_more && state.takes(group, limit))
            .map(|(id, _)| *id);
        let member = state.id();
        let id = match found {
            Some(id) => id,
            None if is_one_more => state.open(1),
            None => state.open(self.queues_per_connection),
        };
        let feed = state.groups.get_mut(&id).map(|group| {
            group.members.insert(member, queue.to_owned());
            Arc::clone(&group.feed)
        });
        Ok(Place {
            pool: Arc::clone(self),
            group: id,
            member,
            queue: queue.to_owned(),
            feed: feed.unwrap_or_default(),
            suspect: limit.is_some(),
            is_apart: limit == Some(1),
            is_one_more,
        })
    }

    /// Every open connection, for an orderly close.
    pub(super) fn feeds(&self) -> Vec<Arc<Feed>> {
        self.lock()
            .groups
            .values()
            .filter_map(|group| group.feed.get().cloned())
            .collect()
    }

    fn died(&self, id: u64, ended: &Ended) {
        let mut state = self.lock();
        state.lay_out(id, Some(ended), self.clock.uptime(), self.garbled());
    }

    fn garbled(&self) -> u64 {
        self.garbled.load(Ordering::SeqCst)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn id(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn open(&mut self, capacity: usize) -> u64 {
        let id = self.id();
        let group = Group {
            feed: Arc::default(),
            members: HashMap::new(),
            opened: HashSet::new(),
            capacity,
            judged: false,
        };
        self.groups.insert(id, group);
        id
    }

    /// Whether the next queue is one more than the broker gave channels for; the error says that it is too soon for that.
    fn is_one_more(&mut self, uptime: Duration) -> Result<bool, NoPlace> {
        let members: usize = self.groups.values().map(|group| group.members.len()).sum();
        let Some(full) = self.full.as_mut().filter(|full| members >= full.most) else {
            return Ok(false);
        };
        if uptime < full.until {
            return Err(NoPlace::Full(full.said.clone()));
        }
        (full.most, full.until) = (members + 1, uptime + FULL);
        Ok(true)
    }

    /// Whether a queue with this limit (a suspect's) may join: suspects only meet suspects.
    fn takes(&self, group: &Group, limit: Option<usize>) -> bool {
        let limits: Vec<_> = group
            .members
            .values()
            .map(|queue| self.suspects.get(queue).map(|suspect| suspect.limit))
            .collect();
        let room = group.members.len() < group.capacity;
        match limit {
            None => room && limits.iter().all(Option::is_none),
            Some(limit) => {
                let smallest = limits.iter().flatten().copied().fold(limit, usize::min);
                room && limits.iter().all(Option::is_some) && group.members.len() < smallest
            }
        }
    }

    /// Moves groups whose connection is visibly closed out of the way.
    fn bury(&mut self, uptime: Duration, garbled: u64) {
        let closed = |group: &Group| group.feed.get().is_some_and(|feed| !feed.is_open());
        let ids: Vec<u64> = self
            .groups
            .iter()
            .filter(|(_, group)| closed(group))
            .map(|(id, _)| *id)
            .collect();
        for id in ids {
            let feed = self.groups.get(&id).and_then(|group| group.feed.get());
            let ended = feed.and_then(|feed| feed.ended());
            self.lay_out(id, ended.as_ref(), uptime, garbled);
        }
    }

    /// Takes a group for dead, with what it died of, and forgets the oldest of too many: those are judged.
    fn lay_out(&mut self, id: u64, ended: Option<&Ended>, uptime: Duration, garbled: u64) {
        let opened: usize = self.groups.values().map(|group| group.opened.len()).sum();
        if let Some(group) = self.groups.remove(&id) {
            if let Some(said) = ended.and_then(Ended::channel_limit) {
                tracing::warn!(queues = opened, ?said, "no more queues are read at the same time");
                self.full = Some(Full {
                    most: opened.max(1),
                    until: uptime + FULL,
                    said: said.to_owned(),
                });
            }
            self.dead.insert(id, group);
        }
        if let Some(Ended::Undecodable(reason)) = ended {
            self.judge(id, reason, (uptime, garbled));
        }
        while self.dead.len() > DEAD_MAX {
            self.dead.pop_first();
        }
    }

    fn convict(&mut self, queue: &str, reason: &str) {
        self.suspects.insert(queue.to_owned(), Suspect::new(1));
        self.convicted.insert(queue.to_owned(), reason.to_owned());
    }

    /// Makes suspects of the members of a group that died of something undecodable; convicts a suspect that does so alone.
    fn judge(&mut self, id: u64, reason: &str, (uptime, garbled): (Duration, u64)) {
        let Some(group) = self.dead.get_mut(&id) else { return };
        if std::mem::replace(&mut group.judged, true) {
            return;
        }
        let queues: Vec<String> = group.queues().into_iter().map(str::to_owned).collect();
        tracing::warn!(
            queues = queues.len(),
            ?reason,
            "a consuming connection ended on something undecodable"
        );
        if let [queue] = queues.as_slice()
            && let Some(suspect) = self.suspects.get_mut(queue)
        {
            if suspect.is_convicted(uptime, garbled) {
                self.convict(queue, reason);
            }
            return;
        }
        let half = (queues.len() / 2).max(1);
        for queue in queues {
            if self.suspects.len() < SUSPECTS_MAX {
                self.suspects.insert(queue, Suspect::new(half));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::time::Timestamp;

    fn pool(queues_per_connection: usize) -> Arc<Pool> {
        let clock = Clock::manual(Timestamp::from_seconds(1_000_000));
        Arc::new(Pool::new(queues_per_connection, clock, Arc::default()))
    }

    /// Ends connections alone until it would be convicted.
    fn dies_alone(pool: &Arc<Pool>, queue: &str) {
        for _ in 0..3 {
            pool.reserve(queue).unwrap().died(&undecodable());
            pool.clock.advance(CONVICTED_AFTER / 2 + Duration::from_secs(1));
        }
        pool.reserve(queue).unwrap().died(&undecodable());
    }

    fn undecodable() -> Ended {
        Ended::Undecodable("failed to parse".to_owned())
    }

    /// Plays the hunt: every place is taken in turn, and a group with `poison` in it dies when it is full.
    fn rounds(pool: &Arc<Pool>, queues: &[String], poison: &str) -> usize {
        for round in 1..20 {
            pool.clock.advance(CONVICTED_AFTER / 2);
            let mut places = Vec::new();
            for queue in queues {
                let Ok(place) = pool.reserve(queue) else {
                    assert_eq!(queue, poison, "an innocent queue was convicted");
                    return round;
                };
                places.push(place);
            }
            let bad = places.iter().find(|place| place.queue == poison).unwrap().group;
            for place in &places {
                if place.group == bad {
                    place.died(&undecodable());
                } else {
                    place.cleared();
                }
            }
        }
        panic!("the hunt did not end");
    }

    #[test]
    fn the_culprit_among_fifty_is_found_in_halves() {
        let pool = pool(64);
        let queues: Vec<String> = (0..50).map(|n| format!("q{n}")).collect();
        assert!(rounds(&pool, &queues, "q37") <= 10);
    }

    #[test]
    fn a_conviction_is_told_once_and_then_tried_alone() {
        let pool = pool(64);
        dies_alone(&pool, "bad");
        assert!(pool.reserve("bad").is_err());
        let again = pool.reserve("bad").unwrap();
        assert!(again.suspect);
        let other = pool.reserve("good").unwrap();
        assert_ne!(again.group, other.group);
    }

    #[test]
    fn a_queue_that_was_alone_when_bytes_were_garbled_once_is_not_convicted() {
        let pool = pool(64);
        pool.reserve("good").unwrap().died(&undecodable());
        let again = pool.reserve("good").unwrap();
        assert!(again.suspect);
        again.cleared();
        drop(again);
        pool.reserve("good").unwrap().died(&undecodable());
        assert!(pool.reserve("good").is_ok(), "it could be read in between");
    }

    /// Two queues were quarantined by a path that garbled everything for some seconds.
    #[test]
    fn no_queue_is_convicted_of_what_ends_connections_without_deliveries_too() {
        let pool = pool(64);
        for _ in 0..20 {
            pool.clock.advance(Duration::from_secs(1));
            for queue in ["a", "b"] {
                pool.reserve(queue).unwrap().died(&undecodable());
            }
        }
        for _ in 0..10 {
            pool.clock.advance(CONVICTED_AFTER / 2);
            pool.garbled.fetch_add(1, Ordering::SeqCst);
            pool.reserve("a").unwrap().died(&undecodable());
        }
        assert!(pool.reserve("b").is_ok());
        pool.clock.advance(CONVICTED_AFTER);
        pool.reserve("a").unwrap().died(&undecodable());
        assert!(pool.reserve("a").is_err());
    }

    #[test]
    fn however_groups_end_only_the_last_of_the_dead_are_remembered() {
        let pool = pool(64);
        for number in 0..DEAD_MAX * 2 {
            let place = pool.reserve("q").unwrap();
            let ended = Ended::Lost("lost".to_owned());
            pool.lock()
                .lay_out(place.group, (number % 2 == 0).then_some(&ended), Duration::ZERO, 0);
        }
        assert_eq!(pool.lock().dead.len(), DEAD_MAX);
    }

    #[test]
    fn a_plain_loss_makes_no_suspects() {
        let pool = pool(64);
        pool.reserve("q").unwrap().died(&Ended::Lost("reset".to_owned()));
        assert!(!pool.reserve("q").unwrap().suspect);
    }

    #[test]
    fn a_cause_that_becomes_known_later_still_counts() {
        let pool = pool(64);
        let (first, second) = (pool.reserve("a").unwrap(), pool.reserve("b").unwrap());
        first.died(&Ended::Lost("lost".to_owned()));
        drop(first);
        second.died(&undecodable());
        assert!(pool.reserve("a").unwrap().suspect && pool.reserve("b").unwrap().suspect);
    }

    #[test]
    fn a_head_that_cannot_be_decoded_convicts_its_own_queue_alone() {
        let pool = pool(64);
        let (bad, good) = (pool.reserve("bad").unwrap(), pool.reserve("good").unwrap());
        bad.convict("not UTF-8");
        assert!(!good.is_dead());
        drop(bad);
        assert!(pool.reserve("another").is_ok_and(|place| place.group == good.group));
        let told = pool.reserve("bad").unwrap_err();
        assert_eq!(told, NoPlace::Convicted("not UTF-8".to_owned()));
        assert!(pool.reserve("bad").unwrap().suspect, "told once, it is tried alone");
    }

    #[test]
    fn a_group_takes_no_more_than_its_connection() {
        let pool = pool(2);
        let places: Vec<_> = ["a", "b", "c"]
            .iter()
            .map(|queue| pool.reserve(queue).unwrap())
            .collect();
        assert_eq!(places[0].group, places[1].group);
        assert_ne!(places[0].group, places[2].group);
    }

    /// It ended the connection with every queue on it, and did so again at each attempt to go on.
    #[test]
    fn a_broker_that_gives_no_more_channels_is_asked_for_one_more_now_and_then_and_apart() {
        const REFUSED: &str =
            "530 NOT_ALLOWED - number of channels opened for user 'u' has reached the maximum allowed user limit of 12";
        let pool = pool(64);
        let refused = Ended::Lost(REFUSED.to_owned());
        let places: Vec<_> = ["a", "b", "c", "d"]
            .iter()
            .map(|queue| pool.reserve(queue).unwrap())
            .collect();
        places[..2].iter().for_each(Place::opened);
        for place in &places {
            place.died(&refused);
        }
        drop(places);
        let read: Vec<_> = ["a", "c"].iter().map(|queue| pool.reserve(queue).unwrap()).collect();
        read.iter().for_each(Place::opened);
        assert_eq!(pool.reserve("b").unwrap_err(), NoPlace::Full(REFUSED.to_owned()));
        pool.clock.advance(FULL);
        let one_more = pool.reserve("b").unwrap();
        assert!(read.iter().all(|place| place.group != one_more.group));
        assert_eq!(
            pool.reserve("d").unwrap_err(),
            NoPlace::Full(REFUSED.to_owned()),
            "one at a time"
        );
        one_more.died(&refused);
        drop(one_more);
        assert!(read.iter().all(|place| !place.is_dead()));
        assert_eq!(pool.reserve("b").unwrap_err(), NoPlace::Full(REFUSED.to_owned()));
        pool.clock.advance(FULL);
        let one_more = pool.reserve("b").unwrap();
        one_more.opened();
        assert!(pool.reserve("d").is_ok(), "it gives more again");
    }
}
