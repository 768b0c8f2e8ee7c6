//! The companion of a queue (PROTOCOLS.md 22): what was put back before its head. It is emptied and deleted before the
//! queue itself is consumed, and filled only under the lease that the worker holds.

use std::time::Duration;

use super::{End, Worker};
use crate::broker::{Deleted, QueuePart};
use crate::domain::id::QueueName;
use crate::store::QueueMark;

/// How long nothing comes from a companion that has nothing.
pub(super) const QUIET: Duration = Duration::from_millis(500);

impl Worker {
    /// What is consumed next.
    pub(super) const fn part(&self) -> QueuePart {
        if self.record.has_companion {
            QueuePart::Companion
        } else {
            QueuePart::Queue
        }
    }

    /// It is empty: it goes, unless something came into it.
    pub(super) async fn end_companion(&mut self) -> Result<(), End> {
        let name = self.engine.settings.naming.companion(&self.queue);
        let Ok(companion) = QueueName::parse(&name) else {
            return Err(End::Refused);
        };
        let deleting = async {
            self.engine.broker.unbind(&companion).await?;
            self.engine.broker.delete_empty(&companion).await
        };
        match deleting.await {
            Ok(Deleted::Deleted | Deleted::Missing) => self.forget_companion().await,
            Ok(Deleted::InUse) => Ok(()),
            Err(error) => {
                tracing::warn!(queue = ?self.queue, error = ?error, "a companion is not deleted yet");
                Err(End::Trouble(Duration::from_secs(1)))
            }
        }
    }

    pub(super) async fn forget_companion(&mut self) -> Result<(), End> {
        self.mark(QueueMark::Companion(false)).await?;
        self.record.has_companion = false;
        Ok(())
    }
}
