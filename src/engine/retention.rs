//! Trims what grows: one place, by the table in `src/store/retention.rs`.
//!
//! Promises: a sweep is idempotent and needs nobody else; several daemons may do the same. It goes by pages with a rest
//! after each that is longer than the page took, so that it never has more than a fifth of the store's one writer.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::core::Core;
use crate::ambient;
use crate::domain::retention::Retention;
use crate::domain::time::Timestamp;
use crate::store::{AttemptBounds, RunBounds, StoreError, TYPE_REMEMBERED, Trim};

/// Rows of the attempt log, at most.
const ATTEMPTS_MAX: u64 = 200_000;
/// Runs that are over, at most.
const RUNS_MAX: u64 = 1_000;
/// Plans that nobody executed go after this time.
const PLANNED: Duration = Duration::from_hours(1);
/// Versions of a policy, at most: as many as its history shows.
const VERSIONS_MAX: u64 = 200;
/// A version of a policy is never gone while somebody may look at a plan that was made with it.
const VERSION_MIN: Duration = Duration::from_hours(1);
/// Rows of a page, and where a row is a whole message.
const PAGE: u32 = 1_000;
const PAGE_OF_MESSAGES: u32 = 50;
/// The rest after a page, by the time that the page took, and at least.
const REST: u32 = 4;
const REST_MIN: Duration = Duration::from_millis(5);
/// Between two sweeps of what grows by the minute, and of what grows by the day.
const SOON: Duration = Duration::from_secs(30);
const SELDOM: Duration = Duration::from_hours(1);
/// And at least, however short something is kept.
const LEAST: Duration = Duration::from_secs(1);

/// Something that is trimmed.
#[derive(Debug)]
struct Sweep {
    table: &'static str,
    trim: Trim,
    page: u32,
    /// Between two sweeps.
    every: Duration,
    /// When the next one is (uptime).
    next: Duration,
}

/// Everything that is trimmed. What is kept shorter is looked at more often.
fn sweeps(keep: &Retention, begun: Duration) -> Vec<Sweep> {
    let often = |span: Duration, most: Duration| (span / 10).clamp(LEAST, most);
    let sweep = |table, trim, page, every: Duration| Sweep {
        table,
        trim,
        page,
        every,
        next: begun + every.min(SOON),
    };
    let attempts = AttemptBounds {
        age: keep.attempts,
        rows: ATTEMPTS_MAX,
    };
    let runs = RunBounds {
        age: keep.runs,
        runs: RUNS_MAX,
        planned: PLANNED,
    };
    let policies = Trim::Policies {
        age: keep.audit.max(VERSION_MIN),
        versions: VERSIONS_MAX,
    };
    vec![
        sweep("attempts", Trim::Attempts(attempts), PAGE, often(keep.attempts, SOON)),
        sweep("runs", Trim::Runs(runs), PAGE, often(keep.runs, SOON)),
        sweep("kept_messages", Trim::Kept { edits: keep.runs }, PAGE_OF_MESSAGES, SOON),
        sweep("saves", Trim::Saves, PAGE_OF_MESSAGES, SOON),
        sweep(
            "audit",
            Trim::Audit { age: keep.audit },
            PAGE,
            often(keep.audit, SELDOM),
        ),
        sweep("policies", policies, PAGE, SELDOM),
        sweep(
            "rescued",
            Trim::Rescued { age: keep.rescued },
            PAGE_OF_MESSAGES,
            often(keep.rescued, SELDOM),
        ),
        sweep(
            "event_types",
            Trim::EventTypes {
                unused: keep.types.max(TYPE_REMEMBERED * 2),
            },
            PAGE,
            SELDOM,
        ),
        sweep(
            "endpoints",
            Trim::Endpoints { unused: keep.endpoints },
            PAGE,
            often(keep.endpoints, SELDOM),
        ),
    ]
}

/// That ages do not count since a moment is told once.
async fn tell_ages(core: &Core, told: &mut Option<Timestamp>) -> Result<(), StoreError> {
    let ages = core.store.ages().await?;
    if let (Some(leapt_at), Some(counted_at)) = (ages.leapt_at, ages.counted_at)
        && *told != ages.leapt_at
    {
        tracing::warn!(
            ahead_s = leapt_at.since(counted_at).as_secs(),
            "the store's clock went ahead, or nobody delivered for so long: nothing is removed by its age for a day; set the \
             clock where it is wrong"
        );
    }
    *told = ages.leapt_at;
    Ok(())
}

/// Trims until the generation ends.
pub(super) async fn keep_bounds(core: Arc<Core>, generation: CancellationToken) {
    let mut sweeps = sweeps(&core.settings.retention, core.clock.uptime());
    let mut told = None;
    while !generation.is_cancelled() {
        for sweep in &mut sweeps {
            if core.clock.uptime() < sweep.next {
                continue;
            }
            let trimmed = async {
                trim_whole(&core, sweep, &generation).await?;
                tell_ages(&core, &mut told).await
            };
            if let Err(error) = trimmed.await {
                tracing::debug!(table = sweep.table, error = ?error, "trimming waits for the store");
            }
            sweep.next = core.clock.uptime() + sweep.every;
        }
        let next = sweeps.iter().map(|sweep| sweep.next).min().unwrap_or_default();
        ambient::wait(&generation, next.saturating_sub(core.clock.uptime()).max(REST_MIN)).await;
    }
}

/// Page after page, until one is not full.
async fn trim_whole(core: &Core, sweep: &Sweep, generation: &CancellationToken) -> Result<(), StoreError> {
    let mut rows = 0;
    while !generation.is_cancelled() {
        let began = core.clock.uptime();
        let gone = core.store.trim(&sweep.trim, sweep.page).await?;
        rows += gone;
        if gone < u64::from(sweep.page) {
            break;
        }
        let took = core.clock.uptime().saturating_sub(began);
        ambient::wait(generation, (took * REST).max(REST_MIN)).await;
    }
    if rows > 0 {
        tracing::info!(table = sweep.table, rows, "trimmed what was kept for its time");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_shorter_is_looked_at_more_often_and_nothing_more_than_once_a_second() {
        let keep = Retention {
            attempts: Duration::from_secs(1),
            endpoints: Duration::from_secs(100),
            ..Retention::default()
        };
        let begun = Duration::from_secs(7);
        let every = |table: &str| {
            let sweeps = sweeps(&keep, begun);
            let found = sweeps.iter().find(|sweep| sweep.table == table).unwrap();
            assert_eq!(found.next, begun + found.every.min(SOON), "{table}");
            found.every
        };
        assert_eq!(every("attempts"), Duration::from_secs(1));
        assert_eq!(every("endpoints"), Duration::from_secs(10));
        assert_eq!(every("runs"), SOON);
        assert_eq!(every("audit"), SELDOM);
    }
}
