//! Connections that are open: how many in all and from one address, and which of them do nothing.
//!
//! Whoever comes when there is no room takes the place of the one that has waited longest without a request in
//! hand, so that those who open many and say nothing keep nobody out.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio_util::sync::CancellationToken;

/// Open connections of one listener.
#[derive(Debug)]
pub(super) struct Connections {
    most: usize,
    /// Without an address: everybody's together.
    most_of_one: Option<usize>,
    open: Mutex<Open>,
}

#[derive(Debug, Default)]
struct Open {
    next: u64,
    all: HashMap<u64, One>,
}

#[derive(Debug)]
struct One {
    from: Option<IpAddr>,
    /// The older, the smaller; none while a request is in hand.
    idle_since: Option<u64>,
    close: CancellationToken,
}

impl Connections {
    pub(super) fn new(most: usize, most_of_one: Option<usize>) -> Arc<Self> {
        Arc::new(Self {
            most,
            most_of_one,
            open: Mutex::default(),
        })
    }

    fn open(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place for a connection `from` an address that is bounded, or from one that is not; none when every one that
    /// could make room has a request in hand.
    pub(super) fn admit(self: &Arc<Self>, from: Option<IpAddr>) -> Option<Place> {
        let mut open = self.open();
        let from_there = open
            .all
            .values()
            .filter(|one| from.is_some() && one.from == from)
            .count();
        let is_one_too_many = self
            .most_of_one
            .is_some_and(|most| from.is_some() && from_there >= most);
        if is_one_too_many || open.all.len() >= self.most {
            let idle = open
                .all
                .iter()
                .filter(|(_, one)| !is_one_too_many || one.from == from)
                .filter_map(|(id, one)| Some((one.idle_since?, *id)))
                .min();
            let (_, id) = idle?;
            // It is gone from here at once: what is left of it is the end of its task.
            if let Some(one) = open.all.remove(&id) {
                one.close.cancel();
            }
        }
        let id = open.tick();
        let close = CancellationToken::new();
        let one = One {
            from,
            idle_since: Some(id),
            close: close.clone(),
        };
        open.all.insert(id, one);
        drop(open);
        Some(Place {
            connections: Arc::clone(self),
            id,
            close,
        })
    }
}

impl Open {
    fn tick(&mut self) -> u64 {
        self.next += 1;
        self.next
    }
}

/// A connection's place, until it is dropped.
#[derive(Debug)]
pub(super) struct Place {
    connections: Arc<Connections>,
    id: u64,
    /// Cancelled when another one needs the place.
    pub(super) close: CancellationToken,
}

impl Place {
    /// A request is in hand until the answer is written.
    pub(super) fn begin(self: &Arc<Self>) -> Busy {
        if let Some(one) = self.connections.open().all.get_mut(&self.id) {
            one.idle_since = None;
        }
        Busy(Arc::clone(self))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.connections.open().all.remove(&self.id);
    }
}

/// A request in hand.
#[derive(Debug)]
pub(super) struct Busy(Arc<Place>);

impl Drop for Busy {
    fn drop(&mut self) {
        let mut open = self.0.connections.open();
        let now = open.tick();
        if let Some(one) = open.all.get_mut(&self.0.id) {
            one.idle_since = Some(now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn admit(connections: &Arc<Connections>, last: u8) -> Option<Arc<Place>> {
        connections.admit(Some(IpAddr::from([127, 0, 0, last]))).map(Arc::new)
    }

    #[test]
    fn who_waits_longest_without_a_request_makes_room() {
        let connections = Connections::new(2, None);
        let first = admit(&connections, 1).unwrap();
        let second = admit(&connections, 2).unwrap();
        drop(first.begin());
        let third = admit(&connections, 3).unwrap();
        assert!(second.close.is_cancelled() && !first.close.is_cancelled());
        let busy = first.begin();
        drop(third);
        let fourth = admit(&connections, 4).unwrap();
        let other = fourth.begin();
        assert!(admit(&connections, 5).is_none(), "both have a request in flight");
        drop((busy, other));
        assert!(admit(&connections, 5).is_some());
    }

    #[test]
    fn one_address_takes_only_its_own_places() {
        let connections = Connections::new(10, Some(2));
        let other = admit(&connections, 2).unwrap();
        let places: Vec<_> = (0..5).map(|_| admit(&connections, 1).unwrap()).collect();
        let open = places.iter().filter(|place| !place.close.is_cancelled()).count();
        assert_eq!((open, other.close.is_cancelled()), (2, false));
        let unbounded: Vec<_> = (0..5).map(|_| connections.admit(None)).collect();
        assert!(unbounded.iter().all(Option::is_some));
        assert!(!other.close.is_cancelled());
    }
}
