//! How many bytes of messages and bodies this process has in memory at one time.
//!
//! Promises: whoever has bytes has a [`Share`] for them, which is given back when it is dropped; those who wait get
//! theirs in the order in which they asked; what is larger than its whole part passes alone, so that nothing waits for
//! ever; a part is kept for what is small, so that a few large messages do not hold up the many.
//!
//! What comes in (request bodies), what is in hand (messages that are delivered, and those that are exported) and what
//! leaves (answers) have parts of their own: receivers that hang keep neither publishers nor operators out, and slow
//! publishers and readers hold no delivery up. Left
//! out on purpose: what the allocator, the database and connections take beside it. The whole is a quarter of what the
//! process may use, which leaves room for them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// What has no more bytes than this is small.
pub const SMALL_BYTES: usize = 64 * 1024;
/// The least that a budget can be.
pub const BYTES_MIN: usize = 32 * 1024 * 1024;

const KIB: usize = 1024;
/// What a message that is on its way is taken for while its size is not known and all lately were smaller.
const LOOK_BYTES: usize = 1024 * 1024;
/// And after one that was larger: the largest that is delivered.
const LOOK_BYTES_WARY: usize = 16 * 1024 * 1024;
/// So many messages of unknown size are taken for large ones after one that was.
const WARY_FOR: usize = 1_000;

/// The budget of a process; cheap to clone.
#[derive(Clone, Debug)]
pub struct Budget(Arc<Parts>);

#[derive(Debug)]
struct Parts {
    bytes: usize,
    /// Kept for what is small, an eighth.
    small: Part,
    /// For messages whose size is known only when they are here, until they are: an eighth.
    looks: Part,
    /// A quarter.
    incoming: Part,
    /// An eighth.
    answers: Part,
    /// Three eighths.
    in_hand: Part,
    /// Messages of unknown size that are still taken for large ones.
    wary: AtomicUsize,
}

/// What bytes are in memory for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// They come in: bodies of requests.
    Incoming,
    /// They are delivered or moved.
    InHand,
    /// They leave: answers to requests.
    Answer,
}

impl Budget {
    /// A budget of so many bytes, and no less than [`BYTES_MIN`].
    #[must_use]
    pub fn new(bytes: usize) -> Self {
        let bytes = bytes.max(BYTES_MIN);
        Self(Arc::new(Parts {
            bytes,
            small: Part::new(bytes / 8),
            looks: Part::new(bytes / 8),
            incoming: Part::new(bytes / 4),
            answers: Part::new(bytes / 8),
            in_hand: Part::new(bytes / 8 * 3),
            wary: AtomicUsize::new(0),
        }))
    }

    /// All of it, in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.0.bytes
    }

    /// A share of so many bytes, once there is one.
    pub async fn take(&self, of: Use, bytes: usize) -> Share {
        if let Some(share) = self.try_take(of, bytes) {
            return share;
        }
        let home = self.home(of);
        if bytes > SMALL_BYTES {
            return self.share(of, Place::Home, bytes, home.take(bytes).await);
        }
        tokio::select! {
            permit = self.0.small.take(bytes) => self.share(of, Place::Small, bytes, permit),
            permit = home.take(bytes) => self.share(of, Place::Home, bytes, permit),
        }
    }

    /// A share of so many bytes, if there is one at present and nobody waits for it.
    #[must_use]
    pub fn try_take(&self, of: Use, bytes: usize) -> Option<Share> {
        if bytes <= SMALL_BYTES
            && let Some(permit) = self.0.small.try_take(bytes)
        {
            return Some(self.share(of, Place::Small, bytes, Some(permit)));
        }
        let permit = self.home(of).try_take(bytes)?;
        Some(self.share(of, Place::Home, bytes, Some(permit)))
    }

    /// A share for a message that comes whether it is wanted or not, and whose size is known only then. To be held
    /// for that moment alone.
    pub async fn look(&self) -> Share {
        let wary = self
            .0
            .wary
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
        let bytes = if wary.is_ok() { LOOK_BYTES_WARY } else { LOOK_BYTES };
        let permit = self.0.looks.take(bytes).await;
        self.share(Use::InHand, Place::Looks, bytes, permit)
    }

    /// A message of so many bytes came: those of unknown size are taken for as large for a while.
    pub fn saw(&self, bytes: usize) {
        if bytes > LOOK_BYTES {
            self.0.wary.store(WARY_FOR, Ordering::Relaxed);
        }
    }

    fn share(&self, of: Use, place: Place, bytes: usize, permit: Option<OwnedSemaphorePermit>) -> Share {
        Share {
            budget: self.clone(),
            of,
            place,
            bytes,
            permit,
        }
    }

    fn home(&self, of: Use) -> &Part {
        match of {
            Use::Incoming => &self.0.incoming,
            Use::InHand => &self.0.in_hand,
            Use::Answer => &self.0.answers,
        }
    }
}

impl Default for Budget {
    /// For a program that says nothing: 256 MiB.
    fn default() -> Self {
        Self::new(256 * 1024 * 1024)
    }
}

/// One part of the budget, in KiB.
#[derive(Debug)]
struct Part {
    permits: Arc<Semaphore>,
    kib: u32,
}

impl Part {
    fn new(bytes: usize) -> Self {
        let kib = u32::try_from(bytes / KIB).unwrap_or(u32::MAX);
        Self {
            permits: Arc::new(Semaphore::new(kib as usize)),
            kib,
        }
    }

    /// As much as it can give: what is larger passes alone.
    fn cut(&self, bytes: usize) -> u32 {
        u32::try_from(bytes.div_ceil(KIB)).unwrap_or(u32::MAX).min(self.kib)
    }

    fn try_take(&self, bytes: usize) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.permits).try_acquire_many_owned(self.cut(bytes)).ok()
    }

    /// `None` never comes: nobody closes it.
    async fn take(&self, bytes: usize) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.permits).acquire_many_owned(self.cut(bytes)).await.ok()
    }
}

/// Which part a share is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Small,
    Looks,
    Home,
}

/// A share of the budget, given back when it is dropped.
#[derive(Debug)]
pub struct Share {
    budget: Budget,
    of: Use,
    place: Place,
    bytes: usize,
    permit: Option<OwnedSemaphorePermit>,
}

impl Share {
    /// For how many bytes it is.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Makes it one of at least `bytes`; false where there are not so many at present.
    pub fn try_grow(&mut self, bytes: usize) -> bool {
        if bytes <= self.bytes {
            return true;
        }
        if self.place == Place::Home {
            let missing = self.missing(bytes);
            let home = Arc::clone(&self.budget.home(self.of).permits);
            let Ok(more) = home.try_acquire_many_owned(missing) else {
                return false;
            };
            self.merge(bytes, Some(more));
            return true;
        }
        match self.budget.try_take(self.of, bytes) {
            Some(larger) => *self = larger,
            None => return false,
        }
        true
    }

    /// Makes it one of at least `bytes`, once there are so many. Those who each hold some and wait for more can wait
    /// for each other: the caller has a bound of time.
    pub async fn grow(&mut self, bytes: usize) {
        if self.try_grow(bytes) {
            return;
        }
        if self.place == Place::Home {
            let home = Arc::clone(&self.budget.home(self.of).permits);
            let more = home.acquire_many_owned(self.missing(bytes)).await.ok();
            self.merge(bytes, more);
        } else {
            *self = self.budget.take(self.of, bytes).await;
        }
    }

    /// Gives back what is more than `bytes`.
    pub fn shrink(&mut self, bytes: usize) {
        if bytes >= self.bytes {
            return;
        }
        let part = match self.place {
            Place::Small => &self.budget.0.small,
            Place::Looks => &self.budget.0.looks,
            Place::Home => self.budget.home(self.of),
        };
        let needed = part.cut(bytes) as usize;
        if let Some(permit) = &mut self.permit {
            let more = permit.num_permits().saturating_sub(needed);
            drop(permit.split(more));
        }
        self.bytes = bytes;
    }

    fn missing(&self, bytes: usize) -> u32 {
        let has = self.permit.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
        let has = u32::try_from(has).unwrap_or(u32::MAX);
        self.budget.home(self.of).cut(bytes).saturating_sub(has)
    }

    fn merge(&mut self, bytes: usize, more: Option<OwnedSemaphorePermit>) {
        match (&mut self.permit, more) {
            (Some(permit), Some(more)) => permit.merge(more),
            (permit @ None, more) => *permit = more,
            (Some(_), None) => {}
        }
        self.bytes = bytes;
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    const MIB: usize = 1024 * 1024;

    /// 12 MiB in hand, 8 MiB incoming, 4 MiB small and as much for answers.
    fn budget() -> Budget {
        Budget::new(BYTES_MIN)
    }

    #[test]
    fn what_is_taken_comes_back_when_it_is_dropped() {
        let budget = budget();
        let first = budget.try_take(Use::InHand, 10 * MIB).unwrap();
        assert!(budget.try_take(Use::InHand, 10 * MIB).is_none());
        drop(first);
        assert!(budget.try_take(Use::InHand, 10 * MIB).is_some());
    }

    #[test]
    fn one_that_is_larger_than_all_passes_alone() {
        let budget = budget();
        let small = budget.try_take(Use::InHand, MIB).unwrap();
        assert!(budget.try_take(Use::InHand, 500 * MIB).is_none(), "not beside another");
        drop(small);
        let alone = budget.try_take(Use::InHand, 500 * MIB).unwrap();
        assert_eq!(alone.bytes(), 500 * MIB);
        assert!(budget.try_take(Use::InHand, MIB).is_none());
    }

    #[test]
    fn small_ones_go_on_while_large_ones_have_everything() {
        let budget = budget();
        let _all = budget.try_take(Use::InHand, 12 * MIB).unwrap();
        let small: Vec<Share> = std::iter::from_fn(|| budget.try_take(Use::InHand, SMALL_BYTES)).collect();
        assert_eq!(small.len(), 64);
    }

    #[test]
    fn what_comes_in_and_what_is_in_hand_do_not_hold_each_other_up() {
        let budget = budget();
        let _in_hand = budget.try_take(Use::InHand, 12 * MIB).unwrap();
        let _incoming = budget.try_take(Use::Incoming, 8 * MIB).unwrap();
        assert!(budget.try_take(Use::Incoming, MIB).is_none());
    }

    #[tokio::test]
    async fn a_large_one_that_waits_is_not_passed_by_others() {
        let budget = budget();
        let shares: Vec<Share> = (0..12).map(|_| budget.try_take(Use::InHand, MIB).unwrap()).collect();
        let mut large = Box::pin(budget.take(Use::InHand, 9 * MIB));
        assert!(large.as_mut().now_or_never().is_none());
        for share in shares {
            drop(share);
            // Whoever comes later does not take what came back while it waits.
            if large.as_mut().now_or_never().is_some() {
                return;
            }
            assert!(budget.try_take(Use::InHand, MIB).is_none());
        }
        panic!("the large one got nothing");
    }

    #[tokio::test]
    async fn a_small_one_takes_what_is_free_first() {
        let budget = budget();
        let all = budget.try_take(Use::InHand, 12 * MIB).unwrap();
        let mut small: Vec<Share> = std::iter::from_fn(|| budget.try_take(Use::InHand, SMALL_BYTES)).collect();
        let mut waiting = Box::pin(budget.take(Use::InHand, SMALL_BYTES));
        assert!(waiting.as_mut().now_or_never().is_none());
        small.pop();
        assert!(
            waiting.as_mut().now_or_never().is_some(),
            "of those kept for small ones"
        );
        let mut waiting = Box::pin(budget.take(Use::InHand, SMALL_BYTES));
        // The one before was dropped with its future.
        assert!(waiting.as_mut().now_or_never().is_some());
        drop(all);
    }

    #[tokio::test]
    async fn a_share_grows_and_shrinks_with_its_message() {
        let budget = budget();
        let mut share = budget.try_take(Use::InHand, SMALL_BYTES).unwrap();
        assert!(share.try_grow(7 * MIB));
        assert!(share.try_grow(8 * MIB));
        assert!(!budget.try_take(Use::InHand, MIB).unwrap().try_grow(8 * MIB));
        share.shrink(2 * MIB);
        assert_eq!(share.bytes(), 2 * MIB);
        let mut other = budget.try_take(Use::InHand, 10 * MIB).unwrap();
        assert!(!share.try_grow(3 * MIB));
        other.shrink(9 * MIB);
        share.grow(3 * MIB).await;
        assert!(budget.try_take(Use::InHand, 100 * KIB).is_none());
    }

    #[tokio::test]
    async fn messages_of_unknown_size_come_one_by_one_after_a_large_one() {
        let budget = budget();
        let before: Vec<Share> = std::iter::from_fn(|| budget.look().now_or_never()).collect();
        assert_eq!(before.len(), 4, "one MiB each");
        drop(before);
        budget.saw(2 * MIB);
        let _first = budget.look().await;
        assert!(budget.look().now_or_never().is_none());
    }
}
