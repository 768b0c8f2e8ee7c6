//! What a process that delivers works with: the dispatcher, the workers, and what follows their queues.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use tokio_util::sync::CancellationToken;

use super::EngineError;
use super::core::{Core, over_core};
use super::events::EventTable;
use super::health::Healing;
use super::meters::Meters;
use super::paging::bounded;
use super::publisher::Publisher;
use super::recorder::Recorder;
use super::rules::PolicyGuard;
use super::settled::Resting;
use super::view::{AttemptView, Page};
use crate::delivery::SenderHandle;
use crate::store::AttemptQuery;

#[derive(Debug)]
pub(super) struct Delivery {
    core: Arc<Core>,
    pub(super) sender: SenderHandle,
    pub(super) recorder: Recorder,
    pub(super) meters: Meters,
    /// What was delivered lately, by queue.
    pub(super) settled: Arc<Resting>,
    pub(super) publisher: Arc<Publisher>,
    pub(super) policy_guard: Arc<PolicyGuard>,
    pub(super) healing: Arc<Healing>,
    pub(super) event_table: Arc<EventTable>,
    /// So many requests hang that URLs known for it have to wait.
    pub(super) slow_full: AtomicBool,
}

impl Delivery {
    pub(super) fn new(
        core: &Arc<Core>,
        sender: SenderHandle,
        publisher: &Arc<Publisher>,
        healing: &Arc<Healing>,
        event_table: &Arc<EventTable>,
    ) -> Self {
        Self {
            core: Arc::clone(core),
            sender,
            recorder: Recorder::default(),
            meters: Meters::default(),
            settled: Arc::clone(&healing.settled),
            publisher: Arc::clone(publisher),
            policy_guard: Arc::clone(&healing.policy_guard),
            healing: Arc::clone(healing),
            event_table: Arc::clone(event_table),
            slow_full: AtomicBool::new(false),
        }
    }

    /// Writes what was delivered, until `generation` ends.
    pub(super) async fn record(self: Arc<Self>, generation: CancellationToken) {
        self.recorder.run(Arc::clone(&self.store), generation).await;
    }

    /// Writes what was delivered and is not written yet.
    pub(super) async fn flush(&self) {
        self.recorder.flush(&self.store).await;
    }

    /// The attempt log, with what is not written yet.
    pub(super) async fn attempts(&self, query: AttemptQuery) -> Result<Page<AttemptView>, EngineError> {
        let query = AttemptQuery {
            limit: bounded(query.limit),
            ..query
        };
        self.flush().await;
        Ok(Page {
            problems: Vec::new(),
            items: self.store.attempts(&query).await?,
            next_cursor: None,
            taken_at: self.clock.now(),
        })
    }
}

over_core!(Delivery);
