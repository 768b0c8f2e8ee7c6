//! The holder fences itself (PROTOCOLS.md 4): whether this process may start an attempt now.
//!
//! Purely in memory: the heartbeat moves the limit, workers ask before every attempt. The clock
//! counts suspension, so a process that was frozen finds the fence closed when it wakes.

use std::sync::Mutex;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::ambient::Clock;
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
    /// How long one successful heartbeat keeps the fence open.
    span: Duration,
}

impl Fence {
    /// `take_over` less two request deadlines is how long a heartbeat counts.
    pub(super) fn new(clock: Clock, take_over: Duration, deadline: Duration) -> Self {
        Self {
            clock,
            open_until: AtomicU64::new(0),
            incarnation: AtomicI64::new(0),
            generation: Mutex::new(CancellationToken::new()),
            span: take_over.saturating_sub(deadline * 2),
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

    /// Whether `incarnation` may start an attempt now.
    pub(super) fn permits(&self, incarnation: IncarnationId) -> bool {
        self.incarnation.load(Ordering::SeqCst) == incarnation.0
            && micros(self.clock.uptime()) < self.open_until.load(Ordering::SeqCst)
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
        fence.beat(clock.uptime());
        assert!(fence.permits(me));
        assert!(!fence.permits(IncarnationId(6)), "a former incarnation");
        assert!(fence.close());
        assert!(!fence.permits(me));
        assert!(!fence.close(), "it was closed");
    }
}
