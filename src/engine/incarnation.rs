//! This process among the others: heartbeats, wishes about held leases, and the death of others
//! (PROTOCOLS.md 1 to 4).

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::dispatch::Tell;
use super::{EngineError, Inner};
use crate::domain::endpoint::EndpointState;
use crate::domain::id::IncarnationId;
use crate::store::{Beat, Begun, Evidence, Incarnation, NewIncarnation};
use crate::telemetry::names;

/// Between two heartbeats.
const BEAT: Duration = Duration::from_secs(1);
/// Silence that confirms a free lock (PostgreSQL).
const SILENCE: Duration = Duration::from_secs(5);

/// The version of the program as a number that only grows.
#[must_use]
pub(super) fn version() -> i64 {
    let mut parts = env!("CARGO_PKG_VERSION")
        .split('.')
        .map(|part| part.parse::<i64>().unwrap_or(0));
    let mut part = || parts.next().unwrap_or(0);
    part() * 1_000_000 + part() * 1_000 + part()
}

/// What an incarnation is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// The first of a process that takes part in delivery.
    Delivers,
    /// A later one of it.
    DeliversAgain,
    /// Holds leases for a moment, for somebody's command.
    Manages,
}

impl Inner {
    /// Begins an incarnation of this process.
    ///
    /// PROTOCOLS.md 7: one that was disowned because others settled on other settings, or on a newer program, is
    /// refused, and does not put its own in their place.
    pub(super) async fn begin_incarnation(&self, name: &str, part: Part) -> Result<IncarnationId, EngineError> {
        let new = NewIncarnation {
            name: name.to_owned(),
            host: host(),
            pid: std::process::id(),
            take_over: self.settings.take_over,
            version: version(),
            fingerprint: (part != Part::Manages).then(|| self.settings.naming.fingerprint()),
            replaces_settings: part == Part::Delivers,
        };
        match self.store.incarnation_begin(new).await? {
            Begun::Alive(id) => Ok(id),
            Begun::OtherSettings { found, queues } => Err(EngineError::Refused {
                why: other_settings(&found, queues, &self.settings.naming.fingerprint()),
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
                "disowned: taken for dead, or the store's settings or minimum version changed; beginning anew"
            );
        }
    }

    /// Beats until `generation` ends or the incarnation is disowned, which closes the fence.
    pub(super) async fn beat(self: Arc<Self>, id: IncarnationId, generation: CancellationToken) {
        while !generation.is_cancelled() {
            let sent = self.clock.uptime();
            match self.store.heartbeat(id).await {
                Ok(Beat::Alive) => self.fence.beat(sent),
                Ok(Beat::Disowned) => {
                    self.disowned(id);
                    return;
                }
                Err(error) => tracing::warn!(error = ?error, "heartbeat failed"),
            }
            tokio::select! {
                () = tokio::time::sleep(BEAT) => {}
                () = generation.cancelled() => {}
            }
        }
    }

    /// Reads once a second what is held here and what others want of it, what became due, and the endpoints.
    pub(super) async fn poll(
        self: Arc<Self>,
        id: IncarnationId,
        tell: mpsc::Sender<Tell>,
        generation: CancellationToken,
    ) {
        let mut endpoints_seen = None;
        let mut round: u64 = 0;
        while !generation.is_cancelled() {
            if let Err(error) = self.poll_once(id, &tell, &mut endpoints_seen, round).await {
                tracing::debug!(error = ?error, "poll waits for the store");
            }
            round += 1;
            tokio::select! {
                () = tokio::time::sleep(BEAT) => {}
                () = generation.cancelled() => {}
            }
        }
    }

    async fn poll_once(
        &self,
        id: IncarnationId,
        tell: &mpsc::Sender<Tell>,
        endpoints_seen: &mut Option<i64>,
        round: u64,
    ) -> Result<(), crate::store::StoreError> {
        let held = self.store.leases_held(id).await?;
        for one in held.iter().filter(|one| one.paused || one.wanted_by.is_some()) {
            let _ = tell.send(Tell::LetGo(one.queue.clone())).await;
        }
        // PROTOCOLS.md 4: what is held is compared with the living workers.
        let _ = tell.send(Tell::Compare(held)).await;
        for record in self.store.queues_due(500).await? {
            let _ = tell.send(Tell::Due(Box::new(record))).await;
        }
        let generation = self.store.endpoints_generation().await?;
        // Once in ten seconds also without a change: what this process knows heals by itself.
        if *endpoints_seen != Some(generation) || round.is_multiple_of(10) {
            self.read_endpoints().await?;
            if *endpoints_seen != Some(generation) {
                let _ = tell.send(Tell::WakeAll).await;
            }
            *endpoints_seen = Some(generation);
        }
        Ok(())
    }

    /// Reads every endpoint that is not available, and those that were taken for it and are not.
    pub(super) async fn read_endpoints(&self) -> Result<(), crate::store::StoreError> {
        let not_available = self.store.endpoints_not_available().await?;
        for url in self.endpoints.replace(&not_available) {
            if let Some(endpoint) = self.store.endpoint_get(&url).await? {
                self.endpoint_moved(&endpoint);
            }
        }
        for state in [
            EndpointState::Unavailable,
            EndpointState::Parked,
            EndpointState::Disabled,
        ] {
            let count = not_available.iter().filter(|endpoint| endpoint.state == state).count();
            #[expect(clippy::cast_precision_loss, reason = "a number of endpoints")]
            metrics::gauge!(names::ENDPOINTS, "state" => state.as_str()).set(count as f64);
        }
        self.endpoints_moved.notify_one();
        Ok(())
    }

    /// Watches the other incarnations, marks the dead ones, and makes their queues known.
    pub(super) async fn watch_others(
        self: Arc<Self>,
        me: IncarnationId,
        tell: mpsc::Sender<Tell>,
        generation: CancellationToken,
    ) {
        let mut seen = Watched::default();
        while !generation.is_cancelled() {
            match self.store.incarnations().await {
                Ok(all) => {
                    self.endpoints
                        .share(all.iter().filter(|one| one.alive && one.delivers).count());
                    for dead in self.find_dead(me, &all, &mut seen).await {
                        self.bury_incarnation(&dead, &tell).await;
                    }
                }
                // A gap in reading is no silence of others: begin to watch anew.
                Err(_) => seen = Watched::default(),
            }
            tokio::select! {
                () = tokio::time::sleep(BEAT) => {}
                () = generation.cancelled() => {}
            }
        }
    }

    /// Those of `all` that are dead by the evidence, and marked so by this call.
    pub(super) async fn find_dead(
        &self,
        me: IncarnationId,
        all: &[Incarnation],
        seen: &mut Watched,
    ) -> Vec<Incarnation> {
        let now = self.clock.uptime();
        seen.0.retain(|id, _| all.iter().any(|one| one.alive && one.id == *id));
        let mut dead = Vec::new();
        for one in all.iter().filter(|one| one.alive && one.id != me) {
            let entry = seen.0.entry(one.id).or_insert((one.counter, now));
            if entry.0 != one.counter {
                *entry = (one.counter, now);
            }
            let silence = now.saturating_sub(entry.1);
            let evidence = self.store.evidence(one.id).await;
            let is_dead = match (self.store.kind(), evidence) {
                (_, Err(_)) => false,
                // A file lock is freed by death alone; a held one is never overruled.
                ("sqlite", Ok(evidence)) => evidence == Evidence::Free,
                (_, Ok(Evidence::Free)) => silence >= SILENCE,
                (_, Ok(Evidence::Held)) => silence >= one.take_over,
            };
            if is_dead && matches!(self.store.incarnation_mark_dead(one.id, entry.0).await, Ok(true)) {
                dead.push(one.clone());
            }
        }
        dead
    }

    async fn bury_incarnation(&self, dead: &Incarnation, tell: &mpsc::Sender<Tell>) {
        tracing::warn!(incarnation = dead.id.0, name = ?dead.name, leases = dead.leases, "an incarnation is dead: its queues are taken over");
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

/// Counters seen last, and since when (uptime) they stand still.
#[derive(Default)]
pub(super) struct Watched(HashMap<IncarnationId, (i64, Duration)>);

fn other_settings(found: &str, queues: u64, own: &str) -> String {
    let keys = "broker.queue_prefix, broker.url_hash_key and broker.queue_type";
    if queues == 0 {
        return format!(
            "other daemons of this store use other settings now (fingerprint {found}, this configuration has {own}): \
             {keys} must be the same for all of them"
        );
    }
    format!(
        "{queues} delivery queues exist under other settings (fingerprint {found}, this configuration has {own}): \
         {keys} must stay as they are while queues exist"
    )
}

/// The name of this host.
pub(super) fn host() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}
