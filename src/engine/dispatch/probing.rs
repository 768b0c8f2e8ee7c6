//! Probes of endpoints that are not available (docs/protocols.md 14).

use std::sync::Arc;
use std::time::Duration;

use super::outside::Outside;
use super::{ANSWER_MAX, Asked, Dispatcher, Tell};
use crate::ambient;
use crate::budget::{Share, Use};
use crate::domain::id::QueueName;
use crate::domain::url::EndpointUrl;
use crate::engine::delivery::Delivery;
use crate::engine::holdings::{Holding, Place, Probe};
use crate::engine::worker::Hold;
use crate::store::{ProbeNext, ProbeOutcome};

/// Probes looked at in one turn of the dispatcher.
const PROBES_AT_ONCE: usize = 500;
/// Before a probe is looked at again whose queue could not be had.
const AGAIN: Duration = Duration::from_millis(100);
/// How long a probe waits for memory before it is looked whether it is still wanted.
const MEMORY_WAIT: Duration = Duration::from_secs(30);

impl Dispatcher {
    /// docs/protocols.md 14: claims the probes that are due.
    pub(super) fn probe(&mut self) {
        let now = self.outside.engine.store_time.now();
        for _ in 0..PROBES_AT_ONCE {
            let (places, probes) = (self.holdings.places(), self.holdings.probes());
            if !self.bounds.admits_probe(places, probes) {
                return;
            }
            let Some((url, queue)) = self.outside.engine.endpoints.take_due(now) else {
                return;
            };
            if self.holdings.is_probing(&url) {
                continue;
            }
            let Some(queue) = queue.or_else(|| self.candidates.first_of(&url).cloned()) else {
                self.outside.engine.endpoints.probe_waits_for_a_queue(&url);
                continue;
            };
            let asking = Holding::Asking {
                url: Some(url.clone()),
                probe: Probe::Claiming,
                place: Place::Slow,
                share: None,
            };
            if let Some(claim) = self.holdings.begin(&queue, asking) {
                self.candidates.take(&queue);
                let bytes = self.rooms.expected(&queue);
                self.outside.claim(url, Asked { queue, claim }, bytes);
            } else {
                // Its queue is being released, or somebody looks at it.
                self.outside.engine.endpoints.probe_again_at(&url, now.plus(AGAIN));
            }
        }
        self.looks.soon = true;
    }

    pub(super) fn probe_claimed(&mut self, url: &EndpointUrl, asked: Asked, claimed: Option<(i64, Share)>) {
        let Some((token, share)) = claimed else {
            self.give_up(&asked, ProbeNext::Same);
            self.candidate(asked.queue);
            self.outside
                .engine
                .endpoints
                .probe_again_at(url, self.outside.engine.store_time.now());
            return;
        };
        let asking = Holding::Asking {
            url: Some(url.clone()),
            probe: Probe::Claimed(token),
            place: Place::Slow,
            share: Some(share),
        };
        if self.holdings.turn(&asked.queue, asked.claim, asking) {
            self.ask(vec![asked]);
        } else {
            self.outside.release_probe(url, token, ProbeNext::AnyQueue);
        }
    }
}

impl Outside {
    /// Memory for so many bytes is taken first.
    fn claim(&self, url: EndpointUrl, asked: Asked, bytes: usize) {
        let engine = Arc::clone(&self.engine);
        let without = Tell::Probe {
            url: url.clone(),
            asked: asked.clone(),
            claimed: None,
        };
        let claiming = async move {
            // Memory first: a probe that is claimed is due.
            let share = engine.settings.memory.take(Use::InHand, bytes);
            let claimed = match ambient::timeout(MEMORY_WAIT, share).await {
                Ok(share) => claim_probe(&engine, &url, &asked.queue)
                    .await
                    .map(|token| (token, share)),
                Err(_) => None,
            };
            Tell::Probe { url, asked, claimed }
        };
        self.have_answered("probe", ANSWER_MAX, claiming, without);
    }

    pub(super) fn release_probe(&self, url: &EndpointUrl, token: i64, next: ProbeNext) {
        let engine = Arc::clone(&self.engine);
        let live = engine.endpoints.get(url);
        drop(ambient::spawn("probe release", async move {
            Hold::release_probe(&engine, &live, token, next).await;
        }));
    }
}

/// Claims a probe; its token, or `None` when it is not ours.
async fn claim_probe(engine: &Delivery, url: &EndpointUrl, queue: &QueueName) -> Option<i64> {
    let hold = engine.settings.request_timeout * 2;
    let question = engine.endpoints.question();
    match engine.store.probe_claim(url, queue, hold).await {
        Ok(ProbeOutcome::Claimed { token, endpoint }) => {
            engine.endpoints.believe(url, Some(&endpoint), question);
            return Some(token);
        }
        Ok(ProbeOutcome::NotYours(endpoint)) => {
            engine.endpoints.believe(url, Some(&endpoint), question);
            ambient::sleep(Duration::from_millis(250)).await;
        }
        Ok(ProbeOutcome::NotNeeded) => {
            if let Err(error) = engine.look_at_endpoint(url).await {
                tracing::debug!(error = ?error, "an endpoint is read with the next poll");
            }
        }
        Err(error) => {
            tracing::warn!(error = ?error, "a probe waits for the store");
            ambient::sleep(Duration::from_millis(500)).await;
        }
    }
    None
}
