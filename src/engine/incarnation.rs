//! This process among the others: its incarnations, their heartbeats, and wishes about the leases that they hold
//! (docs/protocols.md 1, 2 and 4).

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::core::Core;
use super::death::Watched;
use super::delivery::Delivery;
use super::error::other_settings;
use super::process::Part;
use super::tell::Tell;
use super::{EngineError, process};
use crate::ambient;
use crate::domain::endpoint::EndpointState;
use crate::domain::id::IncarnationId;
use crate::store::{Beat, Begun, NewIncarnation, StoreError};
use crate::telemetry::{LoggedAt, names};

/// An id that no incarnation has.
const NOBODY: IncarnationId = IncarnationId(0);
/// Between two heartbeats.
const BEAT: Duration = Duration::from_secs(1);

/// The version of the program as a number that only grows.
#[must_use]
pub(super) fn version() -> i64 {
    let mut parts = env!("CARGO_PKG_VERSION")
        .split('.')
        .map(|part| part.parse::<i64>().unwrap_or(0));
    let mut part = || parts.next().unwrap_or(0);
    part() * 1_000_000 + part() * 1_000 + part()
}

/// The endpoints are read so often even without a change: what this process knows heals by itself.
const ENDPOINTS_AT_LEAST: Duration = Duration::from_secs(10);
/// Reading them is followed by a pause of so many times as long: where many thousand are unavailable some of them
/// change each second.
const ENDPOINTS_PAUSE: u32 = 9;

/// Endpoints that are paced at once, at most: of more, those beyond it are read when they are met.
const PACED_MAX: u32 = 10_000;

/// What a poll last saw of the endpoints, and when it looks again.
#[derive(Debug, Default)]
struct EndpointsSeen {
    generation: Option<i64>,
    /// Uptime after which they are read without a change.
    again_at: Duration,
    /// Uptime before which they are not read at all.
    again_after: Duration,
}

/// The states of endpoints that are counted.
const NOT_AVAILABLE: [EndpointState; 3] = [
    EndpointState::Unavailable,
    EndpointState::Parked,
    EndpointState::Disabled,
];

impl Core {
    /// Begins an incarnation of this process.
    ///
    /// docs/protocols.md 7: one whose settings differ from those of somebody alive, or of queues that exist, is refused.
    /// One that was disowned because others settled on other settings, or on a newer program, is
    /// refused, and does not put its own in their place.
    pub(super) async fn begin_incarnation(&self, name: &str, part: Part) -> Result<IncarnationId, EngineError> {
        let new = NewIncarnation {
            name: name.to_owned(),
            host: process::host(),
            pid: std::process::id(),
            process: process::own_mark(),
            take_over: self.settings.take_over,
            deadline: self.settings.request_timeout,
            version: version(),
            naming: (part != Part::Manages).then(|| self.settings.naming.clone()),
            replaces_settings: part == Part::Delivers,
        };
        let mut begun = self.store.incarnation_begin(new.clone()).await?;
        if matches!(begun, Begun::OtherSettings { living: Some(_), .. }) && is_somebody_dead(self).await? {
            begun = self.store.incarnation_begin(new).await?;
        }
        match begun {
            Begun::Alive(id) => Ok(id),
            Begun::OtherSettings { found, living, queues } => Err(EngineError::Refused {
                why: other_settings(&found, living, queues, &self.settings.naming.fingerprint()),
            }),
            Begun::TooOld { minimum } => Err(EngineError::Refused {
                why: format!(
                    "the store demands version {minimum} of the program or newer, this is {}",
                    version()
                ),
            }),
        }
    }

    /// The store does not know this incarnation as alive: nothing goes on under it, and the log says so once.
    pub(super) fn disowned(&self, id: IncarnationId) {
        if self.fence.close() {
            tracing::error!(
                incarnation = id.0,
                "disowned: taken for dead, or the store's settings or minimum version changed; restarting"
            );
        }
    }

    /// Reads every endpoint that is not available, and those that were taken for it and are not.
    pub(super) async fn read_endpoints(&self) -> Result<(), StoreError> {
        let question = self.endpoints.question();
        let not_available = self.store.endpoints_not_available().await?;
        let mut special = not_available.clone();
        special.extend(self.store.endpoints_paced(PACED_MAX).await?);
        for url in self.endpoints.replace(&special, question) {
            self.look_at_endpoint(&url).await?;
        }
        for state in NOT_AVAILABLE {
            let count = not_available.iter().filter(|endpoint| endpoint.state == state).count();
            #[expect(clippy::cast_precision_loss, reason = "a number of endpoints")]
            metrics::gauge!(names::ENDPOINTS, "state" => state.as_str()).set(count as f64);
        }
        self.endpoints.changed.notify_one();
        Ok(())
    }
}

impl Delivery {
    /// Beats until `generation` ends or the incarnation is disowned, which closes the fence.
    pub(super) async fn beat(self: Arc<Self>, id: IncarnationId, generation: CancellationToken) {
        let told = LoggedAt::never();
        while !generation.is_cancelled() {
            let sent = self.clock.uptime();
            self.healing.health.beat_sent(sent);
            let beat = self.store.heartbeat(id).await;
            let problem = beat.as_ref().err().map(|error| super::error::chain(error));
            let unwritten = self.seen.unwritten.problem(self.clock.uptime());
            self.healing.health.beat_answered(problem, unwritten, self.clock.now());
            match beat {
                Ok(Beat::Alive) => self.fence.beat(sent),
                Ok(Beat::Disowned) => {
                    self.disowned(id);
                    return;
                }
                Err(error) if told.is_due(self.clock.uptime()) => {
                    tracing::warn!(why = ?super::error::chain(&error), "heartbeat failed");
                }
                Err(_) => {}
            }
            ambient::wait(&generation, BEAT).await;
        }
    }

    /// Reads once a second what is held here and what others want of it, what became due, and the endpoints.
    pub(super) async fn poll(
        self: Arc<Self>,
        id: IncarnationId,
        tell: mpsc::Sender<Tell>,
        generation: CancellationToken,
    ) {
        let mut seen = EndpointsSeen::default();
        while !generation.is_cancelled() {
            if let Err(error) = self.poll_once(id, &tell, &mut seen).await {
                tracing::debug!(error = ?error, "poll waits for the store");
                for state in NOT_AVAILABLE {
                    metrics::gauge!(names::ENDPOINTS, "state" => state.as_str()).set(f64::NAN);
                }
                // They are read at once when it is back: until then nothing is known of them.
                seen.generation = None;
            }
            ambient::wait(&generation, BEAT).await;
        }
    }

    async fn poll_once(
        &self,
        id: IncarnationId,
        tell: &mpsc::Sender<Tell>,
        seen: &mut EndpointsSeen,
    ) -> Result<(), StoreError> {
        let held = self.store.leases_held(id).await?;
        for one in held.iter().filter(|one| one.paused || one.wanted_by.is_some()) {
            let _ = tell.send(Tell::LetGo(one.queue.clone())).await;
        }
        // docs/protocols.md 4: what is held is compared with the living workers.
        let _ = tell.send(Tell::Compare(held)).await;
        for record in self.store.queues_due(500).await? {
            let _ = tell.send(Tell::Due(Box::new(record))).await;
        }
        let asked = self.clock.uptime();
        let stepped_us = self.store_time.heard(asked, self.store.now().await?);
        self.endpoints.stepped(stepped_us);
        let generation = self.healing.look_at_numbers().await?.generation;
        let (moved, began) = (seen.generation != Some(generation), self.clock.uptime());
        if began < seen.again_after || !moved && began < seen.again_at {
            return Ok(());
        }
        self.read_endpoints().await?;
        if moved {
            let _ = tell.send(Tell::WakeAll).await;
        }
        let ended = self.clock.uptime();
        *seen = EndpointsSeen {
            generation: Some(generation),
            again_at: ended + ENDPOINTS_AT_LEAST,
            again_after: ended + ended.saturating_sub(began) * ENDPOINTS_PAUSE,
        };
        Ok(())
    }
}

/// Whether one of those that count as alive is dead by the evidence; it is marked so.
async fn is_somebody_dead(core: &Core) -> Result<bool, StoreError> {
    let living = core.store.incarnations_living().await?;
    let dead = core.find_dead(NOBODY, &living, &mut Watched::default()).await;
    Ok(!dead.is_empty())
}
