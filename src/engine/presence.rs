//! Who else may act: the console of an operator is an incarnation for as long as it may change something, so that
//! the others see it beside the processes that deliver.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::command::WriteGrant;
use super::manage::Manager;
use super::{Engine, core::Core};
use crate::ambient;

/// Between two looks at the grant's time, and before another try to be seen.
const LOOK: Duration = Duration::from_secs(1);

impl Engine {
    /// Whoever looks sees the actor of `grant` until `stop`, or until the time of the grant is over. Where the store
    /// does not take that, nobody sees it, and nothing else is different.
    pub async fn attend(&self, grant: WriteGrant, stop: CancellationToken) {
        let engine = &self.0;
        while !stop.is_cancelled() && grant.holds_at(engine.clock.now()) {
            match engine.begin_managing_as(grant.actor()).await {
                Ok(manager) => engine.is_there(manager, &grant, &stop).await,
                Err(error) => tracing::debug!(error = ?error, "nobody sees who is here"),
            }
            ambient::wait(&stop, LOOK).await;
        }
    }
}

impl Core {
    /// Until `stop`, the end of the grant's time, or until others took it for dead.
    async fn is_there(&self, manager: Manager, grant: &WriteGrant, stop: &CancellationToken) {
        while !stop.is_cancelled() && grant.holds_at(self.clock.now()) && !manager.is_disowned() {
            ambient::wait(stop, LOOK).await;
        }
        manager.end().await;
    }
}
