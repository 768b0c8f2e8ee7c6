//! After the canary: a person looks, or the run itself watches for a while whether anything dies again.

use std::time::Duration;

use super::drive::{Driver, Halt};
use crate::domain::dead_letter::DeadLetter;
use crate::domain::run::RunState;
use crate::domain::time::Timestamp;
use crate::engine::EngineError;
use crate::engine::dead::{DeadListQuery, DeadSelection};

/// Looks lag so far behind what dies.
const LAG: Duration = Duration::from_secs(3);
/// Dead letters that are looked through, those first that were redriven most.
const LETTERS: u32 = 1_000;
/// How long a look is waited for.
const PATIENCE: Duration = Duration::from_secs(30);

impl Driver<'_> {
    /// Whether as many are done as are to be done before somebody looks, and more are left.
    pub(super) fn is_canary_done(&self) -> bool {
        self.run.canary.is_some_and(|canary| self.counts.done >= canary) && self.counts.settled() < self.run.total
    }

    /// Nothing when the run goes on by itself; else what a person is told.
    pub(super) async fn after_canary(&mut self) -> Result<Option<String>, Halt> {
        let done = self.counts.done;
        let Some(watch) = self.document.canary_watch_s else {
            return Ok(Some(format!(
                "{done} are done: look at them, then `run resume` or `run cancel`"
            )));
        };
        let until = self.engine.clock.uptime() + Duration::from_secs(watch) + LAG;
        loop {
            match self.died_again().await {
                Ok(0) if self.engine.clock.uptime() >= until => break,
                Ok(0) => {
                    let left = until.saturating_sub(self.engine.clock.uptime()).as_secs();
                    self.wait(format!("{done} are done; it goes on in {left} s when none dies again"))
                        .await?;
                }
                Ok(again) => {
                    return Ok(Some(format!(
                        "{again} died again after {done} were done: look at them, then `run resume` or `run cancel`"
                    )));
                }
                Err(error) => {
                    let halt = Halt::from(error);
                    let Halt::Waits(why) = halt else { return Err(halt) };
                    self.wait(why).await?;
                }
            }
        }
        self.leave_canary().await?;
        Ok(None)
    }

    /// Recorded, so that whoever takes the run over does not watch again.
    async fn leave_canary(&mut self) -> Result<(), Halt> {
        let running = RunState::Running;
        let store = &self.engine.store;
        if !store.run_change(&self.run.id, &[running], running, None).await? {
            return Err(Halt::Lost);
        }
        self.run.canary = None;
        Ok(())
    }

    /// Dead letters that were redriven before and died since this run began.
    async fn died_again(&self) -> Result<usize, EngineError> {
        // A death is told in whole seconds.
        let began = self.run.started_at.unwrap_or(self.run.created_at);
        let began = Timestamp::from_seconds(began.seconds());
        let query = DeadListQuery {
            selection: DeadSelection::default(),
            sort: Some("redriven".to_owned()),
            limit: LETTERS,
            cursor: None,
            patience: PATIENCE,
        };
        let letters = self.engine.dead_list(&query).await?.page.items;
        let again = |letter: &&DeadLetter| letter.redriven > 0 && letter.last_failed_at.is_some_and(|at| at >= began);
        Ok(letters.iter().filter(again).count())
    }
}
