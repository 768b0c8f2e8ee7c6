//! The death of others (docs/protocols.md 3 and 29): who of the living incarnations is dead, marked so by one of those
//! that watch, and what follows.
//!
//! Promises: nobody is taken for dead who may still start something. What can be true of a process that works (a
//! database session that is gone, a lock file that is missing) counts only when its own fence must have closed and its
//! last attempt must have ended, by the clock of whoever watches.

use std::time::Duration;

use super::core::Core;
use super::fence;
use super::process::{self, Liveness};
use crate::ambient::HashMap;
use crate::domain::id::IncarnationId;
use crate::store::{Evidence, Incarnation, StoreError, StoreHandle};

/// Between two heartbeats of a living one that is busy.
const HEARD: Duration = Duration::from_secs(3);
/// More than the fence of another one needs, for a machine that is busy.
const MARGIN: Duration = Duration::from_secs(2);

/// Counters seen last, and since when (uptime) they stand still.
#[derive(Default)]
pub(super) struct Watched(HashMap<IncarnationId, (i64, Duration)>);

impl Watched {
    /// How long the counter of `one` has stood still now; `None` when it moved since it was seen last.
    fn silence(&mut self, one: &Incarnation, now: Duration) -> Option<Duration> {
        let before = self.0.insert(one.id, (one.counter, now));
        let Some((counter, since)) = before else {
            return Some(Duration::ZERO);
        };
        if counter != one.counter {
            return None;
        }
        self.0.insert(one.id, (counter, since));
        Some(now.saturating_sub(since))
    }
}

/// Whether one whose counter has stood still for `silence` is dead.
///
/// 1. Never while a living process holds the lock on its file.
/// 2. At once when that lock was free, or its process is gone for certain.
/// 3. When nothing tells of it any more: once its own fence must have closed, and its last attempt ended.
/// 4. Else by silence alone, after its take-over time.
fn is_dead(one: &Incarnation, evidence: Evidence, liveness: Liveness, silence: Duration) -> bool {
    match evidence {
        Evidence::Alive => false,
        Evidence::Dead => true,
        Evidence::Connected | Evidence::Missing if liveness == Liveness::Gone => true,
        Evidence::Missing => silence >= quiet_after(one),
        Evidence::Connected => silence >= one.take_over,
    }
}

/// How long after its last heartbeat `one` has nothing in hand any more, whatever it can still reach.
fn quiet_after(one: &Incarnation) -> Duration {
    let Some(deadline) = one.deadline else {
        return one.take_over;
    };
    let last_attempt_ended = fence::span(one.take_over, deadline) + deadline;
    (last_attempt_ended + MARGIN).min(one.take_over)
}

/// For a look: those that are dead by the evidence are not told as alive, though no daemon has marked them so yet.
/// Silence is measured by the store's clock, which heartbeats are written by, and who was heard of just now is not asked
/// for; nothing is marked.
pub(super) async fn as_evident(store: &StoreHandle, mut all: Vec<Incarnation>) -> Result<Vec<Incarnation>, StoreError> {
    let now = store.now().await?;
    for one in all.iter_mut().filter(|one| one.alive && now.since(one.beat_at) > HEARD) {
        let evidence = store.evidence(one.id).await?;
        one.alive = !is_dead(one, evidence, process::liveness(one), now.since(one.beat_at));
    }
    Ok(all)
}

impl Core {
    /// Those of the living that are dead by the evidence, and marked so by this call.
    pub(super) async fn find_dead(
        &self,
        me: IncarnationId,
        living: &[Incarnation],
        seen: &mut Watched,
    ) -> Vec<Incarnation> {
        let now = self.clock.uptime();
        seen.0.retain(|id, _| living.iter().any(|one| one.id == *id));
        let mut dead = Vec::new();
        for one in living.iter().filter(|one| one.id != me) {
            let Some(silence) = seen.silence(one, now) else {
                continue;
            };
            let Ok(evidence) = self.store.evidence(one.id).await else {
                continue;
            };
            if is_dead(one, evidence, process::liveness(one), silence)
                && matches!(self.store.incarnation_mark_dead(one.id, one.counter).await, Ok(true))
            {
                dead.push(one.clone());
            }
        }
        dead
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::time::Timestamp;
    use crate::store::ProcessMark;

    fn incarnation(deadline: Option<u64>) -> Incarnation {
        Incarnation {
            id: IncarnationId(7),
            name: "daemon".to_owned(),
            host: "elsewhere".to_owned(),
            pid: 7,
            process: ProcessMark::default(),
            counter: 3,
            alive: true,
            delivers: true,
            take_over: Duration::from_mins(1),
            deadline: deadline.map(Duration::from_secs),
            started_at: Timestamp::from_seconds(1),
            beat_at: Timestamp::from_seconds(1),
            leases: 0,
        }
    }

    /// Seconds of silence after which it is dead; `None`: never.
    fn dead_after(one: &Incarnation, evidence: Evidence, liveness: Liveness) -> Option<u64> {
        (0..1_000).find(|seconds| is_dead(one, evidence, liveness, Duration::from_secs(*seconds)))
    }

    #[test]
    fn what_is_proven_counts_at_once_and_what_is_not_only_behind_the_fence() {
        // Take-over 60 s, deadline 15 s: the fence closes after 30 s, the last attempt ends 15 s later.
        let daemon = incarnation(Some(15));
        assert_eq!(
            dead_after(&daemon, Evidence::Alive, Liveness::Gone),
            None,
            "a held lock is never overruled"
        );
        assert_eq!(dead_after(&daemon, Evidence::Dead, Liveness::Unknown), Some(0));
        assert_eq!(dead_after(&daemon, Evidence::Missing, Liveness::Gone), Some(0));
        assert_eq!(dead_after(&daemon, Evidence::Connected, Liveness::Gone), Some(0));
        assert_eq!(dead_after(&daemon, Evidence::Missing, Liveness::Unknown), Some(47));
        assert_eq!(dead_after(&daemon, Evidence::Connected, Liveness::Unknown), Some(60));
        let of_before = incarnation(None);
        assert_eq!(
            dead_after(&of_before, Evidence::Missing, Liveness::Unknown),
            Some(60),
            "its fence is unknown"
        );
        let hasty = Incarnation {
            take_over: Duration::from_secs(4),
            ..incarnation(Some(1))
        };
        assert_eq!(
            dead_after(&hasty, Evidence::Missing, Liveness::Unknown),
            Some(4),
            "never later than by silence"
        );
    }

    #[test]
    fn silence_begins_when_the_counter_was_seen_to_move_last() {
        let mut seen = Watched::default();
        let mut one = incarnation(None);
        let at = Duration::from_secs;
        assert_eq!(
            seen.silence(&one, at(100)),
            Some(Duration::ZERO),
            "nothing is known before the first look"
        );
        assert_eq!(seen.silence(&one, at(109)), Some(at(9)));
        one.counter += 1;
        assert_eq!(seen.silence(&one, at(110)), None, "it lives");
        assert_eq!(seen.silence(&one, at(112)), Some(at(2)));
    }
}
