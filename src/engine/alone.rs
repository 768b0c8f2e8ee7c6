//! A process that delivers only while no other one does: a console over an embedded store.
//!
//! Whether others deliver is read from the store every second. One that died without an end is found by
//! the same evidence that a daemon asks for. Two that begin at the same moment see each other, cease, and
//! wait a random time: one of them is first.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::EngineError;
use super::core::Core;
use super::daemon::Daemon;
use super::death::Watched;
use crate::ambient;
use crate::domain::id::IncarnationId;

/// Between two looks at who delivers.
const LOOK: Duration = Duration::from_secs(1);
/// After ceasing, at least this and at most three times as long passes before it may begin again.
const PATIENCE: Duration = Duration::from_secs(1);

impl Core {
    /// Whether somebody else alive delivers. A store that cannot be read says so: then nobody begins.
    pub(super) async fn others_deliver(&self, watched: &mut Watched) -> bool {
        let me = self.fence.incarnation();
        let Ok(all) = self.store.incarnations_living().await else {
            *watched = Watched::default();
            return true;
        };
        let dead = self.find_dead(me, &all, watched).await;
        for one in &dead {
            tracing::warn!(incarnation = one.id.0, name = ?one.name, "an incarnation is dead");
            if let Err(error) = self.broker.connections_close(&one.name).await {
                tracing::debug!(error = ?error, "its connections end by their heartbeat");
            }
        }
        let is_dead = |id: IncarnationId| dead.iter().any(|one| one.id == id);
        all.iter().any(|one| one.delivers && one.id != me && !is_dead(one.id))
    }
}

impl Daemon {
    pub(super) async fn run_when_alone(self: &Arc<Self>, stop: CancellationToken) -> Result<(), EngineError> {
        let mut watched = Watched::default();
        while !stop.is_cancelled() {
            if self.others_deliver(&mut watched).await {
                ambient::wait(&stop, LOOK).await;
                continue;
            }
            let mine = stop.child_token();
            let watching = ambient::spawn("stand-in", Arc::clone(self).cease_for_others(mine.clone()));
            let delivered = self.run(mine.clone()).await;
            mine.cancel();
            let _ = watching.await;
            delivered?;
            ambient::wait(&stop, PATIENCE.mul_f64(1.0 + 2.0 * ambient::roll())).await;
        }
        Ok(())
    }

    /// Ends `mine` when somebody else delivers: seen twice, since an incarnation of our own is in the store
    /// a moment before this process knows its id.
    async fn cease_for_others(self: Arc<Self>, mine: CancellationToken) {
        let mut seen = None;
        while !mine.is_cancelled() {
            let other = self.store.incarnations_living().await.ok().and_then(|all| {
                let me = self.fence.incarnation();
                all.into_iter()
                    .find(|one| one.delivers && one.id != me)
                    .map(|one| one.id)
            });
            if other.is_some() && other == seen {
                tracing::info!("another process delivers: this one stands by");
                mine.cancel();
                return;
            }
            seen = other;
            ambient::wait(&mine, LOOK).await;
        }
    }
}
