//! What our own address rules refused, after a start: rules and names may be others by now.
//!
//! A URL that is parked for it is looked up once, and probed where it may be connected to; else it stays parked, and
//! nothing is sent.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::ambient;
use crate::domain::egress::is_mended_by_rules;
use crate::domain::endpoint::{Endpoint, EndpointChange, EndpointState};
use crate::engine::delivery::Delivery;
use crate::store::{Changed, StoreError};

/// Between two tries to read the store.
const RETRY: Duration = Duration::from_secs(1);

impl Delivery {
    /// Looks each of them up once, until `generation` ends.
    pub(super) async fn probe_what_was_refused(self: Arc<Self>, generation: CancellationToken) {
        let parked = loop {
            match self.store.endpoints_not_available().await {
                Ok(endpoints) => break endpoints.into_iter().filter(was_refused),
                Err(error) => tracing::debug!(error = ?error, "what was refused is looked up when the store is there"),
            }
            ambient::wait(&generation, RETRY).await;
            if generation.is_cancelled() {
                return;
            }
        };
        for endpoint in parked {
            if generation.is_cancelled() {
                return;
            }
            if let Err(error) = self.probe_if_allowed(&endpoint).await {
                tracing::warn!(url = ?endpoint.url.redacted(), error = ?error, "a URL stays parked until the next start");
            }
        }
    }

    async fn probe_if_allowed(&self, endpoint: &Endpoint) -> Result<(), StoreError> {
        if !self.sender.is_allowed(&endpoint.url).await {
            return Ok(());
        }
        let change = EndpointChange::Reschedule {
            at: self.store.now().await?,
        };
        let changed = self.store.endpoint_change(&endpoint.url, Some(endpoint.epoch), &change);
        if let Changed::Done { now, .. } = changed.await? {
            tracing::info!(url = ?endpoint.url.redacted(), "our own address rules allow a URL again: it is probed");
            self.endpoint_moved(&now);
        }
        Ok(())
    }
}

fn was_refused(endpoint: &Endpoint) -> bool {
    endpoint.state == EndpointState::Parked && endpoint.last_error.as_deref().is_some_and(is_mended_by_rules)
}
