//! The claim on a dead-letter queue, for whoever needs it for himself for a moment.

use std::time::Duration;

use super::DeadIndex;
use super::look::HOLD;
use crate::ambient;
use crate::domain::id::QueueName;
use crate::engine::EngineError;
use crate::engine::runs::busy;
use crate::store::DeadClaim;

/// A run that goes on for longer than this is not waited for: whoever plans beside it is told of it.
const RUN_PATIENCE: Duration = Duration::from_secs(3);
/// Between two tries of what waits for somebody else's look.
pub(super) const PAUSE: Duration = Duration::from_millis(200);

/// The name of one claim, which says what it is for.
pub(super) fn claimant(what_for: &str) -> String {
    let (process, number) = (std::process::id(), ambient::random() & 0xffff_ffff);
    format!("{what_for}-{process}-{number:08x}")
}

impl DeadIndex {
    /// The claim on a dead-letter queue: nobody looks at it meanwhile. Looks under way are waited for, and runs that
    /// end soon.
    pub(in crate::engine) async fn claim_dead(
        &self,
        queue: &QueueName,
        what_for: &str,
        patience: Duration,
    ) -> Result<i64, EngineError> {
        let who = claimant(what_for);
        let deadline = self.clock.uptime() + patience;
        loop {
            let by = match self.store.dead_claim(queue, &who, None, HOLD).await? {
                DeadClaim::Claimed(generation) => return Ok(generation),
                DeadClaim::Busy(by) => by.claimed_by,
            };
            let run = self.run_reader.run_with_claim(by.as_deref()).await;
            let waits = run
                .as_ref()
                .and_then(|run| run.eta)
                .is_none_or(|eta| eta <= RUN_PATIENCE);
            if !waits || self.clock.uptime() >= deadline {
                return Err(EngineError::Refused {
                    why: busy(queue, by.as_deref(), run.as_ref()),
                });
            }
            ambient::sleep(PAUSE).await;
        }
    }
}
