//! Who works on runs: the daemon on all that nobody works on, and a command on its own while no daemon is alive.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::RunView;
use crate::ambient;
use crate::domain::run::RunState;
use crate::engine::incarnation::Watched;
use crate::engine::{EngineError, Inner};
use crate::store::RunBounds;

/// Between two looks for runs that nobody works on.
const LOOK: Duration = Duration::from_secs(1);
/// Runs that one process works on at once.
const AT_ONCE: usize = 4;
/// Between two looks at a run that is followed.
const FOLLOW: Duration = Duration::from_millis(200);
/// The bounds of the history.
pub(in crate::engine) const BOUNDS: RunBounds = RunBounds {
    age: Duration::from_hours(30 * 24),
    runs: 1_000,
    planned: Duration::from_hours(1),
};

/// The runs that this process works on.
#[derive(Debug, Default)]
pub(in crate::engine) struct Tending {
    here: Mutex<HashSet<String>>,
    /// A run was started or goes on.
    begun: Notify,
}

impl Tending {
    /// False when it is worked on here already, or too many are.
    fn enter(&self, id: &str) -> bool {
        let mut here = self.here.lock().unwrap_or_else(PoisonError::into_inner);
        here.len() < AT_ONCE && here.insert(id.to_owned())
    }

    fn leave(&self, id: &str) {
        self.here.lock().unwrap_or_else(PoisonError::into_inner).remove(id);
    }

    fn is_idle(&self) -> bool {
        self.here.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }
}

impl Inner {
    /// Works on what nobody works on, until `generation` ends; what is in hand is finished then.
    pub(in crate::engine) async fn tend_runs(self: Arc<Self>, generation: CancellationToken) {
        while !generation.is_cancelled() {
            match self.store.runs_open(16).await {
                Ok(open) => {
                    for run in open {
                        self.begin_run(&run.id, &generation);
                    }
                }
                Err(error) => tracing::debug!(error = ?error, "runs wait for the store"),
            }
            tokio::select! {
                () = tokio::time::sleep(LOOK) => {}
                () = self.tending.begun.notified() => {}
                () = generation.cancelled() => {}
            }
        }
        while !self.tending.is_idle() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    fn begin_run(self: &Arc<Self>, id: &str, stop: &CancellationToken) {
        if !self.tending.enter(id) {
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
        if *self.delivering.borrow() {
            self.tending.begun.notify_one();
        } else if !self.others_deliver(&mut Watched::default()).await {
            self.begin_run(id, &CancellationToken::new());
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
            let view = self.run_view(id).await?;
            on(&view);
            if view.state() != RunState::Running && self.is_left(id) {
                return self.run_view(id).await;
            }
            if view.state() == RunState::Running
                && view.owner.is_none()
                && round % 5 == 4
                && !self.others_deliver(&mut watched).await
            {
                self.begin_run(id, &CancellationToken::new());
            }
            round += 1;
            tokio::time::sleep(FOLLOW).await;
        }
    }

    fn is_left(&self, id: &str) -> bool {
        !self
            .tending
            .here
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .contains(id)
    }
}
