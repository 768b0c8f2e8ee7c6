//! Numbers never go back (docs/protocols.md 34): a store whose numbers did was restored, or lost its last commits.
//!
//! While a process runs, it compares with what it saw before. A store that was restored while none ran has nobody who
//! remembers, so daemons keep the highest numbers on the broker, and compare when they begin. A daemon that finds lower
//! ones there than it kept itself knows that the broker went back, with what was in its queues.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::heal::{BROKER, IS_OLDER, WENT_BACK};
use super::losses::QUEUES;
use crate::ambient;
use crate::broker::BrokerError;
use crate::domain::id::StoreId;
use crate::domain::numbers::Numbers;
use crate::domain::turn::{Turn, TurnKind};
use crate::engine::Event;
use crate::engine::health::Healing;
use crate::engine::insist::Pause;
use crate::store::StoreError;

/// Between two times that they are kept, where they grew.
const EVERY: Duration = Duration::from_mins(1);
/// How long a start, an end or a command waits for the broker.
const ANSWER: Duration = Duration::from_secs(2);
/// How often the ids of events are raised in a store that is away.
const RAISES_MAX: u32 = 5;

impl Healing {
    /// What of the store only grows, noticed when it does not.
    pub(in crate::engine) async fn look_at_numbers(&self) -> Result<Numbers, StoreError> {
        // Remembered before it is asked: what is seen meanwhile may be newer than the answer.
        let before = self.health.numbers();
        let numbers = self.store.numbers().await?;
        self.compare_numbers(numbers, before).await?;
        self.health.saw(numbers);
        Ok(numbers)
    }

    /// The same with what daemons kept on the broker, before this one takes anything. What cannot be asked is not
    /// compared.
    pub(in crate::engine) async fn compare_with_broker(&self, store: &StoreId) -> Result<(), StoreError> {
        let (broker, of) = (Arc::clone(&self.broker), store.clone());
        let asked = asked("kept numbers", async move { broker.numbers_kept(&of).await }).await;
        let kept = match asked {
            Ok(Some(kept)) => kept,
            Ok(None) => return Ok(()),
            Err(error) => {
                tracing::debug!(error = ?error, "what was kept on the broker of the store is not known");
                return Ok(());
            }
        };
        self.compare_numbers(self.store.numbers().await?, kept).await
    }

    async fn compare_numbers(&self, now: Numbers, before: Numbers) -> Result<(), StoreError> {
        match now.fell_below(before) {
            Some(what) => self.store_went_back(what, before).await,
            None => Ok(()),
        }
    }

    /// A number of the store fell, which only a restored store or a lost tail does. It had given all up to `before`.
    /// What memory learned from it is learned anew.
    pub(in crate::engine) async fn store_went_back(&self, what: &str, before: Numbers) -> Result<(), StoreError> {
        self.health.fell_from(before);
        // Nothing that is drawn from now on was there before, whatever the clock says.
        self.store.numbers_raise(before).await?;
        tracing::error!(
            what,
            "the store went back in time: it was restored, or its last commits are lost"
        );
        self.raise_event_ids().await;
        self.publisher.forget_all();
        self.sweep_now.notify_one();
        self.endpoints.changed.notify_one();
        self.tell(Event::Incident(format!("the store went back in time: {what} fell")));
        let detail = format!("{what} fell: the store was restored, or its last commits are lost");
        self.audit_heal("store", WENT_BACK, detail).await;
        Ok(())
    }

    /// docs/protocols.md 28: ids of events that the store has forgotten are not given again.
    async fn raise_event_ids(&self) {
        let mut pause = Pause::default();
        for _ in 0..RAISES_MAX {
            match self.store.event_ids_raise().await {
                Ok(()) => return,
                Err(error) => tracing::warn!(error = ?error, "ids of events that were given before may be given again"),
            }
            pause.wait().await;
        }
    }

    /// Keeps the numbers on the broker while it delivers.
    pub(in crate::engine) async fn keep_numbers(self: Arc<Self>, generation: CancellationToken) {
        while !generation.is_cancelled() {
            self.keep_numbers_once().await;
            ambient::wait(&generation, EVERY).await;
        }
    }

    pub(in crate::engine) async fn keep_numbers_once(&self) {
        let (Some(store), Ok(numbers)) = (self.health.store(), self.store.numbers().await) else {
            return;
        };
        let (broker, before) = (Arc::clone(&self.broker), self.health.kept());
        let kept = asked("keep numbers", async move {
            let found = broker.numbers_kept(&store).await?;
            broker.numbers_keep(&store, numbers).await?;
            Ok(found)
        })
        .await;
        match kept {
            Ok(found) => {
                self.health.keeps(before.highest(numbers));
                if found.is_some_and(|found| found.fell_below(before).is_some()) {
                    broker_went_back(self).await;
                }
            }
            Err(error) => tracing::debug!(error = ?error, "the numbers of the store are not kept on the broker yet"),
        }
    }
}

/// What daemons kept on the broker is older than what this one kept there: its disk is an older one.
async fn broker_went_back(engine: &Healing) {
    let detail = "it has what was on it some time ago: an older copy of its disk was put back";
    tracing::error!("the broker went back in time: an older copy of its disk was put back");
    engine.tell(Event::Incident(format!("the broker went back in time: {detail}")));
    engine.tell_turn(Turn {
        kind: TurnKind::MessagesLost,
        subject: QUEUES.to_owned(),
        text: format!("the broker went back in time: {detail}; what was published since and waited is lost"),
        count: None,
        at: engine.clock.now(),
    });
    engine.audit_heal(BROKER, IS_OLDER, detail.to_owned()).await;
}

/// The question runs to its end; it is not waited for longer than [`ANSWER`].
pub(super) async fn asked<T: Send + 'static>(
    what: &'static str,
    question: impl Future<Output = Result<T, BrokerError>> + Send + 'static,
) -> Result<T, BrokerError> {
    match ambient::timeout(ANSWER, ambient::spawn(what, question)).await {
        Ok(Ok(answer)) => answer,
        Ok(Err(_)) | Err(_) => Err(BrokerError::Unreachable {
            operation: what,
            detail: format!("no answer within {} s", ANSWER.as_secs()),
        }),
    }
}
