//! Probes of endpoints that are not available (PROTOCOLS.md 14).

use std::sync::Arc;
use std::time::Duration;

use super::{ANSWER_MAX, Asked, Dispatcher, Tell};
use crate::ambient;
use crate::domain::id::QueueName;
use crate::domain::url::EndpointUrl;
use crate::engine::Inner;
use crate::engine::holdings::{Holding, Probe};
use crate::engine::worker::Worker;
use crate::store::{ProbeNext, ProbeOutcome};

impl Dispatcher {
    /// PROTOCOLS.md 14: claims the probes that are due.
    pub(super) fn probe(&mut self) {
        for (url, queue) in self.engine.endpoints.probes_due(self.engine.clock.now()) {
            if !self.has_room() || self.holdings.is_probing(&url) {
                continue;
            }
            let Some(queue) = queue.or_else(|| self.candidates.first_of(&url).cloned()) else {
                continue;
            };
            let asking = Holding::Asking {
                url: Some(url.clone()),
                probe: Probe::Claiming,
            };
            if let Some(claim) = self.holdings.begin(&queue, asking) {
                self.candidates.take(&queue);
                self.claim(url, Asked { queue, claim });
            }
        }
    }

    fn claim(&self, url: EndpointUrl, asked: Asked) {
        let engine = Arc::clone(&self.engine);
        let without = Tell::Probe {
            url: url.clone(),
            asked: asked.clone(),
            claimed: None,
        };
        let claiming = async move {
            let claimed = claim_probe(&engine, &url, &asked.queue).await;
            Tell::Probe { url, asked, claimed }
        };
        self.have_answered("probe", ANSWER_MAX, claiming, without);
    }

    pub(super) fn probe_claimed(&mut self, url: &EndpointUrl, asked: Asked, claimed: Option<i64>) {
        let Some(token) = claimed else {
            self.give_up(&asked, ProbeNext::Same);
            self.candidate(asked.queue);
            return;
        };
        let asking = Holding::Asking {
            url: Some(url.clone()),
            probe: Probe::Claimed(token),
        };
        if self.holdings.turn(&asked.queue, asked.claim, asking) {
            self.ask(vec![asked]);
        } else {
            self.release_probe(url, token, ProbeNext::AnyQueue);
        }
    }

    pub(super) fn release_probe(&self, url: &EndpointUrl, token: i64, next: ProbeNext) {
        let engine = Arc::clone(&self.engine);
        let live = engine.endpoints.get(url);
        drop(ambient::spawn("probe release", async move {
            Worker::release_probe(&engine, &live, token, next).await;
        }));
    }
}

/// Claims a probe; its token, or `None` when it is not ours.
async fn claim_probe(engine: &Inner, url: &EndpointUrl, queue: &QueueName) -> Option<i64> {
    let hold = engine.settings.request_timeout * 2;
    match engine.store.probe_claim(url, queue, hold).await {
        Ok(ProbeOutcome::Claimed { token, endpoint }) => {
            engine.endpoints.update(&endpoint);
            return Some(token);
        }
        Ok(ProbeOutcome::NotYours(endpoint)) => {
            engine.endpoints.update(&endpoint);
            tokio::time::sleep(Duration::from_millis(250)).await;
        }
        Ok(ProbeOutcome::NotNeeded) => {
            if let Ok(Some(now)) = engine.store.endpoint_get(url).await {
                engine.endpoint_moved(&now);
            }
        }
        Err(error) => {
            tracing::warn!(error = ?error, "a probe waits for the store");
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    }
    None
}
