//! What a processor has in hand: the leases that are to be prolonged, the handlers at work, and how they ended.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{Semaphore, mpsc};
use tokio_util::sync::CancellationToken;

use super::meters::TypeMeters;
use super::processor::Processed;
use crate::ambient::{self, HashMap};
use crate::domain::event::{Event, LeaseKey};
use crate::store::{Finish, Finished};

/// A lease in hand.
struct Lease {
    /// Ends when it is lost.
    lost: CancellationToken,
    /// When its handler is to be given up unless it is prolonged (uptime).
    until: Duration,
}

/// What is in hand.
pub(super) struct Hands {
    leases: Mutex<HashMap<LeaseKey, Lease>>,
    tally: [AtomicU64; Finished::ALL.len()],
    pub(super) meters: Arc<TypeMeters>,
    /// How long a handler takes, in microseconds, the last ones counting most; zero when nobody knows.
    handling: AtomicU64,
}

impl Hands {
    pub(super) fn new(meters: Arc<TypeMeters>) -> Self {
        Self {
            leases: Mutex::default(),
            tally: Default::default(),
            meters,
            handling: AtomicU64::new(0),
        }
    }

    /// A handler took so long.
    pub(super) fn took(&self, span: Duration) {
        let span = u64::try_from(span.as_micros()).unwrap_or(u64::MAX).max(1);
        let before = self.handling.load(Ordering::Relaxed);
        let average = if before == 0 {
            span
        } else {
            (before.saturating_mul(7).saturating_add(span) / 8).max(1)
        };
        self.handling.store(average, Ordering::Relaxed);
    }

    /// How many events `workers` handle in `span`; none when nobody knows.
    pub(super) fn ahead(&self, span: Duration, workers: usize) -> usize {
        let each = u128::from(self.handling.load(Ordering::Relaxed));
        if each == 0 {
            return 0;
        }
        usize::try_from(span.as_micros() / each)
            .unwrap_or(usize::MAX)
            .saturating_mul(workers)
    }

    /// It is prolonged from now on; the token ends when it is lost, with `abandon`, or when it was not prolonged `until`
    /// then.
    pub(super) fn take(&self, key: LeaseKey, until: Duration, abandon: &CancellationToken) -> CancellationToken {
        let lost = abandon.child_token();
        let lease = Lease {
            lost: lost.clone(),
            until,
        };
        self.locked().insert(key, lease);
        lost
    }

    pub(super) fn put_down(&self, key: LeaseKey) {
        self.locked().remove(&key);
    }

    pub(super) fn held(&self) -> Vec<LeaseKey> {
        self.locked().keys().copied().collect()
    }

    /// Those that are `held` still are prolonged `until` then; those that somebody else has now, or nobody, are given up.
    pub(super) fn prolonged(&self, asked: &[LeaseKey], held: &[LeaseKey], until: Duration) {
        let mut leases = self.locked();
        for key in asked {
            match leases.get_mut(key) {
                Some(lease) if held.contains(key) => lease.until = until,
                Some(lease) => lease.lost.cancel(),
                None => {}
            }
        }
    }

    /// Those that others may have soon, by their own time or because they may take this process for dead, are given up
    /// while there is time to end their handlers; how many there are.
    pub(super) fn give_up(&self, now: Duration, lives_until: Duration) -> usize {
        let leases = self.locked();
        let over = leases
            .values()
            .filter(|lease| !lease.lost.is_cancelled() && lease.until.min(lives_until) <= now);
        over.map(|lease| lease.lost.cancel()).count()
    }

    pub(super) fn count(&self, how: Finished) {
        self.meters.ended(how);
        for (known, count) in Finished::ALL.iter().zip(&self.tally) {
            if *known == how {
                count.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    pub(super) fn processed(&self) -> Processed {
        let counts = Finished::ALL.iter().zip(&self.tally);
        let counts = counts.map(|(how, count)| (*how, count.load(Ordering::Relaxed)));
        Processed {
            ended: counts.filter(|(_, count)| *count > 0).collect(),
        }
    }

    fn locked(&self) -> std::sync::MutexGuard<'_, HashMap<LeaseKey, Lease>> {
        self.leases.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An event that was taken.
pub(super) struct Held {
    pub(super) event: Event,
    pub(super) lease: LeaseKey,
    /// Ends when the lease is lost, or all stops.
    pub(super) lost: CancellationToken,
}

/// Handlers finished and not yet written, at most; as many in one call of the store.
pub(super) const FINISHES: usize = 500;

/// The handlers at work, and where they report.
pub(super) struct Workers {
    pub(super) hands: Arc<Hands>,
    /// One for each handler that may work at once.
    pub(super) places: Arc<Semaphore>,
    count: u32,
    pub(super) finished: mpsc::Sender<Finish>,
}

impl Workers {
    pub(super) fn new(count: usize, hands: Arc<Hands>, finished: mpsc::Sender<Finish>) -> Self {
        Self {
            hands,
            places: Arc::new(Semaphore::new(count)),
            count: u32::try_from(count).unwrap_or(u32::MAX),
            finished,
        }
    }

    /// Until no handler is at work.
    pub(super) async fn all_free(&self) {
        let _ = self.places.acquire_many(self.count).await;
    }

    /// Whether nothing is in hand. Else it waits for it: what ends may have made something due.
    pub(super) async fn is_clear(&self) -> bool {
        let is_clear = self.places.available_permits() >= self.count as usize && self.finished.capacity() == FINISHES;
        if !is_clear {
            self.all_free().await;
            ambient::sleep(Duration::from_millis(5)).await;
        }
        is_clear
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::event::EventType;
    use crate::engine::events::meters::EventMeters;

    #[test]
    fn a_lease_that_is_lost_is_given_up_also_where_its_event_is_in_hand_again() {
        let hands = Hands::new(EventMeters::default().of(&EventType::parse("t").unwrap()));
        let key = |token| LeaseKey {
            id: 7,
            token,
            revision: 1,
        };
        let (all, until) = (CancellationToken::new(), Duration::from_secs(50));
        let [first, second] = [key(1), key(2)].map(|key| hands.take(key, until, &all));
        hands.prolonged(&hands.held(), &[key(2)], until);
        assert!(first.is_cancelled() && !second.is_cancelled());
    }

    #[test]
    fn a_lease_that_was_not_prolonged_is_given_up_before_others_have_its_event() {
        let hands = Hands::new(EventMeters::default().of(&EventType::parse("t").unwrap()));
        let key = LeaseKey {
            id: 7,
            token: 1,
            revision: 1,
        };
        let at = Duration::from_secs;
        let lost = hands.take(key, at(50), &CancellationToken::new());
        assert_eq!(hands.give_up(at(49), at(100)), 0);
        hands.prolonged(&[key], &[key], at(65));
        assert_eq!(hands.give_up(at(64), at(100)), 0);
        assert_eq!(hands.give_up(at(64), at(64)), 1, "this process may be taken for dead");
        assert!(lost.is_cancelled());
        assert_eq!(hands.give_up(at(65), at(100)), 0, "it is told once");
    }
}
