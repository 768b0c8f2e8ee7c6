//! A delivery queue that exists and returns what is published to it, though nothing deletes it and it refuses nothing:
//! its binding was removed by somebody. A worker binds what it attaches to; a queue that nobody attaches to (its URL is
//! not available, it is paused) is bound again here, under a lease of its own (docs/protocols.md 9: never by a
//! publisher).

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use super::bind::{BOUND, to_bind};
use super::missing::look_at_one;
use crate::ambient::{self, HashMap};
use crate::domain::id::QueueName;
use crate::engine::Event;
use crate::engine::health::Healing;

/// One queue is bound again so often at most: nobody who removes its binding on purpose is worked against.
const EVERY: Duration = Duration::from_secs(10);
/// How long the task waits for the next one before it looks whether its engine is still there.
const LOOK: Duration = Duration::from_mins(1);

impl Healing {
    /// Begins the task, once in the life of an engine.
    pub(in crate::engine) fn watch_unbound(self: &Arc<Self>) {
        if !self.health.unbound.begun.swap(true, Ordering::SeqCst) {
            ambient::spawn("bind again", bind_again(Arc::downgrade(self)));
        }
    }

    async fn bind_alone(self: &Arc<Self>, queue: &QueueName) {
        let Ok(Some(row)) = self.store.queue_get(queue).await else {
            return;
        };
        // One that is being deleted or refuses is unbound with a reason, and so is every one for as long as the exchange
        // is new.
        if self.health.binding.load(Ordering::SeqCst) || !to_bind(&row) {
            return;
        }
        look_at_one(self, queue).await;
        let manager = match self.begin_managing("bind").await {
            Ok(manager) => manager,
            Err(error) => return tracing::warn!(queue = ?queue, error = ?error, "binding a queue waits"),
        };
        let outcome = self.bind_held(&manager, queue.clone()).await;
        manager.end().await;
        match outcome {
            Ok(true) => {
                tracing::error!(queue = ?queue, "a delivery queue returned what was published to it and is bound again");
                self.tell(Event::Incident(format!("the binding of {} was gone", queue.as_str())));
                let detail = "it returned what was published to it: its binding was gone, and is made again";
                self.audit_heal(queue.as_str(), BOUND, detail.to_owned()).await;
            }
            Ok(false) => {}
            Err(why) => tracing::warn!(queue = ?queue, why = ?why, "a queue is not bound again yet"),
        }
    }
}

async fn bind_again(weak: Weak<Healing>) {
    let mut bound: HashMap<QueueName, Duration> = HashMap::default();
    loop {
        let Some(engine) = weak.upgrade() else { return };
        let (unbound, over) = (Arc::clone(&engine.health.unbound), engine.health.over.clone());
        let Some(queue) = unbound.next() else {
            drop(engine);
            let told = ambient::timeout(LOOK, unbound.told.notified());
            if over.run_until_cancelled(told).await.is_none() {
                return;
            }
            continue;
        };
        let now = engine.clock.uptime();
        bound.retain(|_, at| now.saturating_sub(*at) < EVERY);
        if !bound.contains_key(&queue) {
            bound.insert(queue.clone(), now);
            engine.bind_alone(&queue).await;
        }
    }
}
