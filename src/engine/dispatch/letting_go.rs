//! After a worker: what its queue waits for, and its lease freed, in every case.

use std::sync::Arc;
use std::time::Duration;

use super::outside::Outside;
use super::{ANSWER_MAX, ASK_AGAIN, Asked, Dispatcher, REST_STOPPED, REST_WANTED, Tell};
use crate::broker::Look;
use crate::domain::id::Epoch;
use crate::engine::ending::Held;
use crate::engine::holdings::Holding;
use crate::engine::tell::{Claim, End, Ending, Left, WorkerEnd};
use crate::store::HeldLease;
use crate::telemetry::names;

/// What a released queue is looked at for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Release {
    /// It was empty: look once more.
    Look,
    /// Nobody knows what is in it.
    Stray,
    /// It has more.
    More,
    /// It waits for something that is told in another way.
    Wait,
}

impl Dispatcher {
    pub(super) fn worker_ended(&mut self, claim: Claim, end: WorkerEnd) {
        let (queue, epoch) = (end.queue, end.epoch);
        if !self.holdings.turn(&queue, claim, Holding::Closing) {
            return;
        }
        if let Some(bytes) = end.bytes {
            self.rooms.saw(&queue, bytes);
        }
        if let Some(endpoint) = &end.endpoint {
            self.candidates.learn(&queue, &endpoint.url);
        }
        let asked = Asked {
            queue: queue.clone(),
            claim,
        };
        match end.end {
            End::Ended => self.outside.close(asked, epoch),
            End::Idle => self.outside.release(asked, epoch, Release::Look),
            End::Yielded | End::Stopping => self.outside.release(asked, epoch, Release::More),
            End::Waits(delay) | End::Trouble(delay) => {
                if matches!(end.end, End::Waits(_)) {
                    self.candidates.failed(&queue);
                }
                self.later.rest(&queue, delay.min(REST_STOPPED));
                self.later.wake_in(queue, delay);
                self.outside.release(asked, epoch, Release::Wait);
            }
            End::Paced(delay) => {
                self.later.wake_in(queue, delay);
                self.outside.release(asked, epoch, Release::More);
            }
            End::EndpointClosed => {
                self.candidates.failed(&queue);
                self.holdings.look_again(queue);
                self.outside.release(asked, epoch, Release::Wait);
            }
            // Whoever asked for it may be done soon, or a changed policy asks for a new look.
            End::LetGo => {
                self.later.rest(&queue, REST_WANTED);
                self.holdings.take_again(&queue);
                self.later.wake_in(queue, REST_WANTED);
                self.outside.release(asked, epoch, Release::Wait);
            }
            End::Parked | End::Refused => {
                self.later.rest(&queue, REST_STOPPED);
                self.holdings.take_again(&queue);
                self.outside.release(asked, epoch, Release::Wait);
            }
            End::Gone => self.outside.gone(asked, epoch),
            End::Fenced => self.fenced(asked, epoch),
        }
    }

    fn fenced(&mut self, asked: Asked, epoch: Epoch) {
        metrics::counter!(names::LEASES, "event" => "lost").increment(1);
        // The lease alone is lost, or the store failed: freeing it is guarded by the epoch.
        if self.outside.engine.fence.permits(self.outside.incarnation) {
            self.later.wake_in(asked.queue.clone(), ASK_AGAIN);
            self.outside.release(asked, epoch, Release::Wait);
            return;
        }
        // docs/protocols.md 4: nothing goes on under this incarnation, even if the fence opened again.
        self.holdings.end(&asked.queue, asked.claim);
        self.holdings.take_again(&asked.queue);
        if self.outside.engine.fence.close() {
            tracing::error!(
                incarnation = self.outside.incarnation.0,
                "no heartbeat was answered in time: others may have taken over; restarting"
            );
        }
    }

    /// A lease that nothing here knows of is freed: an answer was lost, or a task that held it panicked. The list
    /// may be older than what was released since, which the epoch guards.
    pub(super) fn compare(&mut self, held: Vec<HeldLease>) {
        if self.outside.is_stopping() {
            return;
        }
        for lease in held {
            let Some(claim) = self.holdings.begin(&lease.queue, Holding::Closing) else {
                continue;
            };
            if self.candidates.take(&lease.queue) {
                self.holdings.look_again(lease.queue.clone());
            }
            let asked = Asked {
                queue: lease.queue,
                claim,
            };
            self.outside.release(asked, lease.epoch, Release::Stray);
        }
    }
}

impl Outside {
    /// docs/protocols.md 24: free the lease, *then* read the exact depth once more.
    pub(super) fn release(&self, asked: Asked, epoch: Epoch, release: Release) {
        let engine = Arc::clone(&self.engine);
        let without = Tell::Released {
            asked: asked.clone(),
            left: Left::More,
        };
        let releasing = async move {
            let freed = {
                // Whatever is done under the lease is done before.
                let place = engine.policy_guard.bindings.line_up(&asked.queue);
                let _turn = place.turn().await;
                engine.store.lease_free(&asked.queue, epoch).await
            };
            match freed {
                Ok(true) if release == Release::Stray => {
                    tracing::warn!(queue = ?asked.queue, "a lease without a worker was freed");
                }
                Ok(_) => {}
                Err(error) => {
                    tracing::warn!(queue = ?asked.queue, error = ?error, "lease is freed by the next comparison only");
                }
            }
            let left = match release {
                Release::More => Left::More,
                Release::Wait => Left::Nothing,
                Release::Look | Release::Stray => match engine.broker.look(&asked.queue).await {
                    Ok(Look::Missing | Look::Present { ready: 0, .. }) => Left::Nothing,
                    Ok(Look::Present { .. }) | Err(_) => Left::More,
                },
            };
            Tell::Released { asked, left }
        };
        self.have_answered("release", ANSWER_MAX, releasing, without);
    }

    /// Deletes a queue: that ends with the fence at the latest, and waits for a broker that is away until then.
    pub(super) fn close(&self, asked: Asked, epoch: Epoch) {
        let (engine, incarnation) = (Arc::clone(&self.engine), self.incarnation);
        let without = Tell::Closed {
            asked: asked.clone(),
            ending: Ending::Lost,
        };
        let closing = async move {
            let held = Held {
                queue: asked.queue.clone(),
                epoch,
                incarnation,
            };
            let ending = engine.end_queue(&held).await;
            Tell::Closed { asked, ending }
        };
        self.have_answered("end queue", Duration::MAX, closing, without);
    }

    /// The broker has no such queue: forget its row.
    pub(super) fn gone(&self, asked: Asked, epoch: Epoch) {
        let engine = Arc::clone(&self.engine);
        let answer = Tell::Closed {
            asked: asked.clone(),
            ending: Ending::Deleted,
        };
        let without = Tell::Closed {
            asked: asked.clone(),
            ending: Ending::Lost,
        };
        let forgetting = async move {
            engine.healing.forget_gone(&asked.queue, epoch).await;
            answer
        };
        self.have_answered("forget queue", ANSWER_MAX, forgetting, without);
    }
}
