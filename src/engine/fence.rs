//! The holder fences itself (docs/protocols.md 4): whether this process may start an attempt, or settle what it holds,
//! now.
//!
//! Purely in memory: the heartbeat moves the limit, workers ask before every attempt. The clock
//! counts suspension, so a process that was frozen finds the fence closed when it wakes.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::ambient::{Clock, HashMap};
use crate::domain::id::IncarnationId;

/// The fence of this process, over all its incarnations.
#[derive(Debug)]
pub(super) struct Fence {
    clock: Clock,
    /// Uptime in microseconds until which attempts may start; 0: closed.
    open_until: AtomicU64,
    incarnation: AtomicI64,
    /// Cancelled when the present incarnation ends, and replaced by the next.
    generation: Mutex<CancellationToken>,
    /// Incarnations that only manage queues, and until when (uptime) each may.
    managing: Mutex<HashMap<IncarnationId, Duration>>,
    /// How long one successful heartbeat keeps the fence open.
    span: Duration,
    /// From then until others may take the process for dead.
    rest: Duration,
}

impl Fence {
    /// `take_over` less two request deadlines is how long a heartbeat counts.
    pub(super) fn new(clock: Clock, take_over: Duration, deadline: Duration) -> Self {
        Self {
            clock,
            open_until: AtomicU64::new(0),
            incarnation: AtomicI64::new(0),
            generation: Mutex::new(CancellationToken::new()),
            managing: Mutex::default(),
            span: span(take_over, deadline),
            rest: take_over.min(deadline * 2),
        }
    }

    /// A new incarnation whose first heartbeat was sent at `sent` (uptime).
    pub(super) fn begin(&self, id: IncarnationId, sent: Duration) -> CancellationToken {
        let token = CancellationToken::new();
        if let Ok(mut generation) = self.generation.lock() {
            *generation = token.clone();
        }
        self.incarnation.store(id.0, Ordering::SeqCst);
        self.beat(sent);
        token
    }

    /// A heartbeat that was sent at `sent` (uptime) succeeded.
    pub(super) fn beat(&self, sent: Duration) {
        self.open_until.store(micros(sent + self.span), Ordering::SeqCst);
    }

    /// No attempt starts any more under the present incarnation; whether that is new.
    pub(super) fn close(&self) -> bool {
        self.open_until.store(0, Ordering::SeqCst);
        let Ok(generation) = self.generation.lock() else {
            return false;
        };
        let is_new = !generation.is_cancelled();
        generation.cancel();
        is_new
    }

    /// An incarnation beside the one that delivers, whose first heartbeat was sent at `sent` (uptime).
    pub(super) fn managing_begin(&self, id: IncarnationId, sent: Duration) {
        self.managing().insert(id, sent + self.span);
    }

    /// Its heartbeat that was sent at `sent` (uptime) succeeded.
    pub(super) fn managing_beat(&self, id: IncarnationId, sent: Duration) {
        if let Some(until) = self.managing().get_mut(&id) {
            *until = sent + self.span;
        }
    }

    /// It ended, or was disowned.
    pub(super) fn managing_end(&self, id: IncarnationId) {
        self.managing().remove(&id);
    }

    fn managing(&self) -> MutexGuard<'_, HashMap<IncarnationId, Duration>> {
        self.managing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether `incarnation` may start an attempt, or settle what it holds, now.
    pub(super) fn permits(&self, incarnation: IncarnationId) -> bool {
        self.clock.uptime() < self.open_until(incarnation)
    }

    /// Until when (uptime) nobody can have taken `incarnation` for dead.
    pub(super) fn lives_until(&self, incarnation: IncarnationId) -> Duration {
        self.open_until(incarnation) + self.rest
    }

    fn open_until(&self, incarnation: IncarnationId) -> Duration {
        if self.incarnation.load(Ordering::SeqCst) == incarnation.0 {
            return Duration::from_micros(self.open_until.load(Ordering::SeqCst));
        }
        self.managing().get(&incarnation).copied().unwrap_or_default()
    }

    /// The present incarnation; 0 before the first.
    pub(super) fn incarnation(&self) -> IncarnationId {
        IncarnationId(self.incarnation.load(Ordering::SeqCst))
    }

    /// Whether the fence is open at all.
    pub(super) fn is_open(&self) -> bool {
        self.permits(self.incarnation())
    }
}

/// How long after a heartbeat was sent something may start under it: the take-over time less two deadlines, so that
/// what starts last has ended, with one deadline to spare, before anybody takes over.
pub(super) fn span(take_over: Duration, deadline: Duration) -> Duration {
    take_over.saturating_sub(deadline * 2)
}

fn micros(span: Duration) -> u64 {
    u64::try_from(span.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::time::Timestamp;

    #[test]
    fn a_frozen_process_finds_its_fence_closed() {
        let clock = Clock::manual(Timestamp::from_seconds(1_000));
        let fence = Fence::new(clock.clone(), Duration::from_secs(60), Duration::from_secs(15));
        let me = IncarnationId(7);
        assert!(!fence.permits(me), "before the first heartbeat");
        let _token = fence.begin(me, clock.uptime());
        clock.advance(Duration::from_secs(29));
        assert!(fence.permits(me));
        clock.advance(Duration::from_secs(1));
        assert!(!fence.permits(me), "take-over time less two deadlines is over");
        assert_eq!(fence.lives_until(me), clock.uptime() + Duration::from_secs(30));
        fence.beat(clock.uptime());
        assert!(fence.permits(me));
        assert!(!fence.permits(IncarnationId(6)), "a former incarnation");
        assert!(fence.close());
        assert!(!fence.permits(me));
        assert!(!fence.close(), "it was closed");
    }

    #[test]
    fn what_only_manages_has_a_fence_of_its_own() {
        let clock = Clock::manual(Timestamp::from_seconds(1_000));
        let fence = Fence::new(clock.clone(), Duration::from_secs(60), Duration::from_secs(15));
        let (daemon, command) = (IncarnationId(7), IncarnationId(8));
        let _token = fence.begin(daemon, clock.uptime());
        assert!(!fence.permits(command), "before its first heartbeat");
        fence.managing_begin(command, clock.uptime());
        clock.advance(Duration::from_secs(29));
        assert!(fence.permits(command));
        fence.beat(clock.uptime());
        clock.advance(Duration::from_secs(1));
        assert!(
            fence.permits(daemon) && !fence.permits(command),
            "the daemon's heartbeat is not its own"
        );
        fence.managing_beat(command, clock.uptime());
        assert!(fence.permits(command));
        fence.managing_end(command);
        fence.managing_beat(command, clock.uptime());
        assert!(!fence.permits(command), "a heartbeat that was on its way opens nothing");
    }
}
