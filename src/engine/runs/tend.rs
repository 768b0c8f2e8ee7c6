//! Who works on runs: the daemon on all that nobody works on, and a command on its own while no daemon is alive.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::{RunView, Runs};
use crate::ambient::{self, HashMap};
use crate::domain::run::RunState;
use crate::engine::EngineError;
use crate::engine::death::Watched;

/// Between two looks for runs that nobody works on.
const LOOK: Duration = Duration::from_secs(1);
/// Runs that one process works on at once.
const AT_ONCE: usize = 4;
/// Items of the runs that one process works on at once: those without an outcome are in memory, about 300 bytes each. A
/// run is worked on alone where it has more.
const ITEMS_AT_ONCE: u64 = 1_000_000;
/// Between two looks at a run that is followed.
const FOLLOW: Duration = Duration::from_millis(200);

/// The runs that this process works on.
#[derive(Debug, Default)]
pub(in crate::engine) struct Tending {
    /// By id, with their items.
    here: Mutex<HashMap<String, u64>>,
    /// A run was started or goes on.
    begun: Notify,
}

impl Tending {
    /// False when it is worked on here already, or there is no room for it.
    fn enter(&self, id: &str, items: u64) -> bool {
        let mut here = self.here.lock().unwrap_or_else(PoisonError::into_inner);
        let enters = !here.contains_key(id) && fits(&here, items);
        if enters {
            here.insert(id.to_owned(), items);
        }
        enters
    }

    fn has_room(&self, items: u64) -> bool {
        fits(&self.here.lock().unwrap_or_else(PoisonError::into_inner), items)
    }

    fn leave(&self, id: &str) {
        self.here.lock().unwrap_or_else(PoisonError::into_inner).remove(id);
    }

    fn is_idle(&self) -> bool {
        self.here.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }
}

fn fits(here: &HashMap<String, u64>, items: u64) -> bool {
    let sum: u64 = here.values().sum();
    here.is_empty() || (here.len() < AT_ONCE && sum.saturating_add(items) <= ITEMS_AT_ONCE)
}

impl Runs {
    /// Works on what nobody works on, until `generation` ends; what is in hand is finished then.
    pub(in crate::engine) async fn tend_runs(self: Arc<Self>, generation: CancellationToken) {
        while !generation.is_cancelled() {
            match self.store.runs_open(16).await {
                Ok(open) => {
                    for run in open {
                        // None of those that come later goes first: a large run would wait for ever.
                        if !self.tending.has_room(run.total) {
                            break;
                        }
                        self.begin_run(&run.id, run.total, &generation);
                    }
                }
                Err(error) => tracing::debug!(error = ?error, "runs wait for the store"),
            }
            tokio::select! {
                biased;
                () = generation.cancelled() => {}
                () = self.tending.begun.notified() => {}
                () = ambient::sleep(LOOK) => {}
            }
        }
        while !self.tending.is_idle() {
            ambient::sleep(Duration::from_millis(20)).await;
        }
    }

    fn begin_run(self: &Arc<Self>, id: &str, items: u64, stop: &CancellationToken) {
        if !self.tending.enter(id, items) {
            return;
        }
        let (engine, id, stop) = (Arc::clone(self), id.to_owned(), stop.clone());
        ambient::spawn("run", async move {
            Arc::clone(&engine).drive_run(id.clone(), stop).await;
            engine.tending.leave(&id);
        });
    }

    /// A run is to be worked on now: by this process where it delivers or nobody else does.
    pub(in crate::engine) async fn see_to_run(self: &Arc<Self>, id: &str) {
        if *self.news.delivering.borrow() {
            self.tending.begun.notify_one();
        } else if !self.others_deliver(&mut Watched::default()).await {
            // Nobody delivers here: it is the run of a command.
            self.begin_run(id, 0, &CancellationToken::new());
        }
    }

    /// Follows a run until nothing more happens to it by itself, telling `on` of its progress; takes it over when
    /// whoever worked on it is dead and no daemon is alive.
    pub(in crate::engine) async fn follow_run(
        self: &Arc<Self>,
        id: &str,
        mut on: impl FnMut(&RunView),
    ) -> Result<RunView, EngineError> {
        let mut watched = Watched::default();
        let mut round: u64 = 0;
        loop {
            let view = self.run_reader.run_view(id).await?;
            on(&view);
            if view.state() != RunState::Running && self.is_left(id) {
                return self.run_reader.run_view(id).await;
            }
            if view.state() == RunState::Running
                && view.owner.is_none()
                && round % 5 == 4
                && !self.others_deliver(&mut watched).await
            {
                self.begin_run(id, view.record.total, &CancellationToken::new());
            }
            round += 1;
            ambient::sleep(FOLLOW).await;
        }
    }

    fn is_left(&self, id: &str) -> bool {
        !self
            .tending
            .here
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .contains_key(id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_worked_on_together_while_their_items_have_room() {
        let tending = Tending::default();
        assert!(tending.enter("a", 600_000));
        assert!(!tending.enter("a", 600_000), "it is worked on already");
        assert!(!tending.enter("b", 600_000));
        assert!(!tending.has_room(600_000) && tending.has_room(1));
        assert!(tending.enter("c", 400_000));
        tending.leave("a");
        tending.leave("c");
        assert!(tending.enter("huge", ITEMS_AT_ONCE * 2), "alone");
        assert!(!tending.enter("d", 1));
    }
}
