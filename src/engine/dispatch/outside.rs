//! What is asked of the store, the broker and tasks, and answered once, under one incarnation.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;

use super::{Tell, micros};
use crate::ambient;
use crate::domain::id::IncarnationId;
use crate::engine::delivery::Delivery;
use crate::engine::worker::Stops;

/// Who asks, and where answers go.
pub(super) struct Outside {
    pub(super) engine: Arc<Delivery>,
    pub(super) incarnation: IncarnationId,
    pub(super) stops: Stops,
    pub(super) tell: mpsc::Sender<Tell>,
}

impl Outside {
    /// In microseconds.
    pub(super) fn uptime(&self) -> u64 {
        micros(self.engine.clock.uptime())
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.stops.drain.is_cancelled() || self.stops.generation.is_cancelled()
    }

    /// Has `task` answer, once. One that breaks off, or says nothing for too long, is answered for, and left to
    /// end by itself: a lease that it may still take is found by the comparison, and what it frees is guarded
    /// by the epoch.
    pub(super) fn have_answered(
        &self,
        name: &'static str,
        within: Duration,
        task: impl Future<Output = Tell> + Send + 'static,
        without: Tell,
    ) {
        let (tell, task) = (self.tell.clone(), ambient::spawn(name, task));
        drop(ambient::spawn("answer", async move {
            let answer = if let Ok(Ok(answer)) = ambient::timeout(within, task).await {
                answer
            } else {
                tracing::error!(question = name, "no answer: going on without");
                without
            };
            let _ = tell.send(answer).await;
        }));
    }
}
