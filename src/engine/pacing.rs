//! Paced endpoints, while they go: a canary that was watched passes, and what nothing waits for any more is released.
//!
//! Each daemon looks, and the first that finds something says so in the store; what is said is guarded by the revision
//! of the pace that was looked at. A look at the backlog is exact and ends at the first queue that is not empty; what
//! cannot be looked at is not empty (docs/protocols.md 39).

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::delivery::Delivery;
use super::endpoints::LiveEndpoint;
use crate::ambient::{self, HashMap};
use crate::broker::Look;
use crate::domain::id::QueueName;
use crate::domain::pace::{Pace, PaceChange};
use crate::domain::url::EndpointUrl;
use crate::store::{PaceChanged, QueuesOnly, StoreError};

/// Between two rounds.
const ROUND: Duration = Duration::from_secs(1);
/// Looking at the backlogs is followed by a pause of so many times as long.
const PAUSE: u32 = 9;

/// What the last look at the backlog of each endpoint found not to be empty: where the next one begins.
type Filled = HashMap<EndpointUrl, QueueName>;

impl Delivery {
    /// Tends paced endpoints until the generation ends.
    pub(super) async fn tend_paces(self: Arc<Self>, generation: CancellationToken) {
        let (mut filled, mut look_at) = (Filled::default(), Duration::ZERO);
        while !generation.is_cancelled() {
            ambient::wait(&generation, ROUND).await;
            self.seen.series.roll(self.clock.uptime());
            let paced = self.endpoints.paced();
            filled.retain(|url, _| paced.iter().any(|live| live.url == *url));
            let began = self.clock.uptime();
            let mut look = (began >= look_at).then_some(&mut filled);
            for live in paced.iter().filter(|live| live.is_available()) {
                if generation.is_cancelled() {
                    return;
                }
                if let Err(error) = self.tend_pace(live, look.as_deref_mut()).await {
                    tracing::debug!(error = ?error, "a paced endpoint is tended when the store answers");
                }
            }
            if look.is_some() {
                let ended = self.clock.uptime();
                look_at = ended + ended.saturating_sub(began) * PAUSE;
            }
        }
    }

    /// `look`: what the last look at the backlogs found, where it is time for another.
    async fn tend_pace(&self, live: &LiveEndpoint, look: Option<&mut Filled>) -> Result<(), StoreError> {
        let Some(pace) = live.throttle.pace().filter(|pace| pace.brake.is_none()) else {
            return Ok(());
        };
        let now = live.throttle.pace_time(self.store_time.now());
        if pace.may_pass(now) {
            return self.change_pace(live, &pace, &PaceChange::Passed).await;
        }
        if pace.order.ends_at_rate && pace.is_at_rate(now) {
            return self.change_pace(live, &pace, &PaceChange::Release).await;
        }
        if let Some(filled) = look
            && live.throttle.waiting() == 0
            && self.nothing_waits(live, filled).await?
        {
            return self.change_pace(live, &pace, &PaceChange::Release).await;
        }
        Ok(())
    }

    async fn change_pace(&self, live: &LiveEndpoint, pace: &Pace, change: &PaceChange) -> Result<(), StoreError> {
        let changed = self.store.endpoint_pace(&live.url, Some(pace.revision), change);
        match changed.await? {
            PaceChanged::Done(now) => {
                tracing::info!(url = ?live.url, change = ?change, "the pace of an endpoint changed");
                self.endpoint_moved(&now);
            }
            PaceChanged::Refused(_, now) => self.endpoint_moved(&now),
            PaceChanged::Unknown => {}
        }
        Ok(())
    }

    /// Whether every queue of the endpoint is empty.
    async fn nothing_waits(&self, live: &LiveEndpoint, filled: &mut Filled) -> Result<bool, StoreError> {
        if let Some(queue) = filled.get(&live.url)
            && self.has_something(queue).await
        {
            return Ok(false);
        }
        let mut pages = self.queue_pages(QueuesOnly::OfUrl(live.url.clone()));
        while let Some(rows) = pages.next().await? {
            for row in rows {
                if !matches!(
                    self.look_at_parts(&row).await,
                    Ok(Look::Missing | Look::Present { ready: 0, .. })
                ) {
                    filled.insert(live.url.clone(), row.name);
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    async fn has_something(&self, queue: &QueueName) -> bool {
        !matches!(
            self.broker.look(queue).await,
            Ok(Look::Missing | Look::Present { ready: 0, .. })
        )
    }
}
