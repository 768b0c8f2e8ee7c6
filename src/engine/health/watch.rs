//! The tasks that ask. None outlives its engine.

use std::sync::{Arc, Weak};
use std::time::Duration;

use super::{PartState, asked, unasked};
use crate::ambient;
use crate::broker::{BrokerError, Standing};
use crate::domain::id::StoreId;
use crate::engine::error::chain;
use crate::engine::health::Healing;

/// Between two questions.
const EVERY: Duration = Duration::from_secs(1);
/// Between two questions to the management API.
const MANAGEMENT_EVERY: Duration = Duration::from_secs(5);
/// What is not answered by then is told as not answered; the question itself goes on.
const ANSWER: Duration = Duration::from_millis(1500);
/// Between two questions of one round, where the answer to the first was none, or about something else.
const AGAIN: Duration = Duration::from_millis(50);

pub(super) fn begin(engine: &Arc<Healing>) {
    let weak = || Arc::downgrade(engine);
    for source in ["broker", "store"] {
        unasked(source);
    }
    ambient::spawn("health of the broker", watch_broker(weak()));
    ambient::spawn("health of the store", watch_store(weak()));
    if !engine.broker.is_embedded() {
        unasked("management");
        ambient::spawn("health of the management api", watch_management(weak()));
    }
}

/// Waits for the next round; false: there is none.
async fn next_round(engine: &Weak<Healing>, pause: Duration) -> bool {
    let Some(health) = engine.upgrade() else { return false };
    tokio::select! {
        biased;
        () = health.health.over.cancelled() => false,
        () = health.health.look_now.notified() => true,
        () = ambient::sleep(pause) => true,
    }
}

async fn watch_broker(weak: Weak<Healing>) {
    loop {
        let Some(engine) = weak.upgrade() else { return };
        if engine.health.over.is_cancelled() {
            return;
        }
        engine.look_at_broker().await;
        drop(engine);
        if !next_round(&weak, EVERY).await {
            return;
        }
    }
}

async fn watch_store(weak: Weak<Healing>) {
    loop {
        let Some(engine) = weak.upgrade() else { return };
        engine.look_at_store().await;
        // What takes longer is told by the next look.
        let _ = ambient::timeout(ANSWER, engine.compare_store()).await;
        let over = engine.health.over.clone();
        drop(engine);
        if over.run_until_cancelled(ambient::sleep(EVERY)).await.is_none() {
            return;
        }
    }
}

async fn watch_management(weak: Weak<Healing>) {
    loop {
        let Some(engine) = weak.upgrade() else { return };
        let problem = engine.broker.management_problem().await;
        let blocked = engine.broker.blocked().await;
        engine.degraded_found(problem, blocked);
        let over = engine.health.over.clone();
        drop(engine);
        if over
            .run_until_cancelled(ambient::sleep(MANAGEMENT_EVERY))
            .await
            .is_none()
        {
            return;
        }
    }
}

impl Healing {
    async fn look_at_broker(self: &Arc<Self>) {
        let store = match self.store_identity().await {
            Ok(store) => store,
            // The store is told of by itself; what the broker is asked for needs its name.
            Err(error) => return tracing::debug!(error = ?error, "the broker is asked when the store answers"),
        };
        let answer = self.ask_broker(store.clone()).await;
        let problem = match &answer {
            Ok(standing) if standing.missing.is_empty() => None,
            Ok(standing) => Some(format!("{} is gone", standing.missing.join(", "))),
            Err(error) => Some(chain(error)),
        };
        self.broker_found(problem);
        if *self.news.delivering.borrow() {
            self.heal(&store, &answer).await;
        }
    }

    fn broker_found(&self, problem: Option<String>) {
        let now = self.clock.now();
        asked("broker", problem.as_deref());
        let mut found = self.health.found();
        // Before delivery begins, whatever is missing is about to be made.
        if let Some(problem) = &problem
            && *self.news.delivering.borrow()
            && found.broker.as_ref().is_none_or(|last| last.problem.is_none())
        {
            tracing::error!(problem = ?problem, "the broker does not let us work");
        }
        found.broker = Some(PartState::follow(found.broker.as_ref(), problem, now));
    }

    fn degraded_found(&self, management: Option<String>, blocked: Option<String>) {
        let now = self.clock.now();
        asked("management", management.as_deref());
        let mut found = self.health.found();
        found.management = Some(PartState::follow(found.management.as_ref(), management, now));
        found.blocked = Some(PartState::follow(found.blocked.as_ref(), blocked, now));
    }

    /// The question runs to its end; meanwhile it is told that there is no answer. One that is answered with nothing
    /// about what was asked is asked again until then.
    async fn ask_broker(self: &Arc<Self>, store: StoreId) -> Result<Standing, BrokerError> {
        let (broker, clock) = (Arc::clone(&self.broker), self.clock.clone());
        let until = clock.uptime() + ANSWER;
        let mut asking = ambient::spawn("check", async move {
            loop {
                let answer = broker.check(&store).await;
                if !matches!(answer, Err(BrokerError::Unknown { .. })) || clock.uptime() >= until {
                    return answer;
                }
                ambient::sleep(AGAIN).await;
            }
        });
        let answered = if let Ok(answered) = ambient::timeout(ANSWER, &mut asking).await {
            answered
        } else {
            self.broker_found(Some(format!("no answer within {} s", ANSWER.as_secs_f32())));
            asking.await
        };
        answered.unwrap_or_else(|error| {
            Err(BrokerError::Failed {
                operation: "check",
                detail: error.to_string(),
            })
        })
    }

    /// The same question for somebody who waits for the answer, though not for long.
    pub(in crate::engine) async fn asked_once(&self, store: StoreId) -> Result<Standing, BrokerError> {
        let broker = Arc::clone(&self.broker);
        super::numbers::asked("check", async move { broker.check(&store).await }).await
    }

    /// As it was when this process began to work with it; asked for once.
    pub(in crate::engine) async fn store_identity(&self) -> Result<StoreId, crate::store::StoreError> {
        if let Some(store) = self.health.store() {
            return Ok(store);
        }
        let store = self.store.identity().await?;
        self.health.set_store(store.clone());
        Ok(store)
    }

    /// A process that beats knows from its beats what is the matter.
    async fn look_at_store(&self) {
        let problem = match ambient::timeout(ANSWER, self.store.now()).await {
            Ok(Ok(_)) => None,
            Ok(Err(error)) => Some(chain(&error)),
            Err(_) => Some(format!("no answer within {} s", ANSWER.as_secs_f32())),
        };
        let now = self.clock.now();
        let mut found = self.health.found();
        if found.beats.last.is_none() {
            asked("store", problem.as_deref());
        }
        found.store = Some(PartState::follow(found.store.as_ref(), problem, now));
    }
}
