//! Watches the other processes: marks the dead ones, and makes their queues known to the dispatcher.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::death::Watched;
use super::delivery::Delivery;
use super::tell::Tell;
use crate::ambient;
use crate::domain::id::IncarnationId;
use crate::domain::turn::{Turn, TurnKind};
use crate::domain::words::plural;
use crate::store::{Incarnation, StoreError};

/// Between two looks.
const LOOK: Duration = Duration::from_secs(1);

impl Delivery {
    /// Watches the other incarnations, marks the dead ones, and makes their queues known.
    pub(super) async fn watch_others(
        self: Arc<Self>,
        me: IncarnationId,
        tell: mpsc::Sender<Tell>,
        generation: CancellationToken,
    ) {
        let (mut seen, mut beats) = (Watched::default(), 0);
        while !generation.is_cancelled() {
            match self.store.incarnations_living().await {
                Ok(living) => {
                    let counted = living.iter().find(|one| one.id == me).map_or(beats, |one| one.counter);
                    // Where that fails it is done again after the next look.
                    if counted >= beats || self.heartbeats_fell().await.is_ok() {
                        beats = counted;
                    }
                    self.endpoints.share(living.iter().filter(|one| one.delivers).count());
                    for dead in self.find_dead(me, &living, &mut seen).await {
                        self.bury_incarnation(&dead, &tell).await;
                    }
                }
                // A gap in reading is no silence of others: begin to watch anew.
                Err(_) => seen = Watched::default(),
            }
            ambient::wait(&generation, LOOK).await;
        }
    }

    /// The store may have every lease of this process again, also those that it gave to others meanwhile.
    async fn heartbeats_fell(&self) -> Result<(), StoreError> {
        let (healing, before) = (&self.healing, self.healing.health.numbers());
        healing.store_went_back("the heartbeats of this process", before).await
    }

    async fn bury_incarnation(&self, dead: &Incarnation, tell: &mpsc::Sender<Tell>) {
        tracing::warn!(incarnation = dead.id.0, name = ?dead.name, leases = dead.leases, "an incarnation is dead: its queues are taken over");
        if dead.delivers {
            self.tell_turn(Turn {
                kind: TurnKind::DaemonDead,
                subject: format!("{} on {}", dead.name, dead.host),
                text: format!(
                    "daemon {} on {} is dead: {} taken over",
                    dead.name,
                    dead.host,
                    plural(dead.leases, "queue is", "queues are")
                ),
                count: None,
                at: self.clock.now(),
            });
        }
        match self.store.leases_held(dead.id).await {
            Ok(held) => {
                for lease in held {
                    let _ = tell.send(Tell::Candidate(lease.queue)).await;
                }
            }
            Err(error) => tracing::warn!(error = ?error, "its queues are found by the sweep"),
        }
        if let Err(error) = self.broker.connections_close(&dead.name).await {
            tracing::debug!(error = ?error, "its connections end by their heartbeat");
        }
    }
}
