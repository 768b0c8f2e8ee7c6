//! Finding work (docs/protocols.md, *Finding work*): nudges and created queues as they are told, and a sweep
//! for the rest that never spends more than a twentieth of its time listing.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{broadcast, mpsc};
use tokio_util::sync::CancellationToken;

use super::Event;
use super::endpoints::{REMEMBERED_MAX, Standing};
use super::tell::Tell;
use crate::ambient;
use crate::broker::{ListedQueue, Look, Signal};
use crate::engine::delivery::Delivery;
use crate::engine::health::{Depth, look_at_one, was_deleted, was_made};
use crate::store::QueuesOnly;
use crate::telemetry::names;

/// The shortest time between two sweeps.
const SWEEP_MIN: Duration = Duration::from_millis(100);
/// The longest time between two sweeps, unless listing itself takes more than a twentieth of it.
const SWEEP_MAX: Duration = Duration::from_secs(50);
/// A listing is followed by a pause of so many times as long: the broker asks every queue for it, and publishes wait meanwhile.
const PAUSE: u32 = 19;

impl Delivery {
    /// Tells the dispatcher what the broker tells.
    pub(super) async fn follow_signals(self: Arc<Self>, tell: mpsc::Sender<Tell>, generation: CancellationToken) {
        let mut signals = self.broker.signals();
        let mut listening = false;
        while !generation.is_cancelled() {
            if !listening {
                match self.broker.listen().await {
                    Ok(()) => listening = true,
                    Err(error) => tracing::debug!(error = ?error, "no nudges yet"),
                }
            }
            let signal = tokio::select! {
                biased;
                () = generation.cancelled() => return,
                signal = signals.recv() => signal,
                () = ambient::sleep(Duration::from_secs(1)), if !listening => continue,
            };
            match signal {
                Ok(Signal::Up) => self.broker_is_back(),
                Ok(signal) => {
                    if let Signal::QueueDeleted { queue, .. } = &signal {
                        was_deleted(&self.healing, queue).await;
                    }
                    self.signalled(signal, &tell);
                }
                Err(broadcast::error::RecvError::Lagged(missed)) => {
                    tracing::debug!(missed, "signals missed: the sweep finds what they told");
                }
                Err(broadcast::error::RecvError::Closed) => return,
            }
        }
    }

    fn signalled(&self, signal: Signal, tell: &mpsc::Sender<Tell>) {
        let is_new = matches!(signal, Signal::QueueCreated(_));
        match signal {
            Signal::Nudged(queue) | Signal::QueueCreated(queue) => {
                if self.settings.naming.is_delivery_queue(queue.as_str()) {
                    tracing::debug!(queue = ?queue, "told of a queue");
                    if is_new {
                        was_made(&self.healing, &queue);
                    }
                    if is_new && self.policy_guard.rules.has_odd() {
                        // Whether that policy is for it is asked of the broker.
                        self.policy_guard.look_again();
                    }
                    // A full channel means that there is more than enough to do: the sweep finds this one.
                    let result = if tell.try_send(Tell::Candidate(queue)).is_ok() {
                        "used"
                    } else {
                        "dropped"
                    };
                    metrics::counter!(names::NUDGES, "result" => result).increment(1);
                }
            }
            Signal::QueueDeleted { queue, by } => {
                if self.settings.naming.is_delivery_queue(queue.as_str()) {
                    tracing::debug!(queue = ?queue, by = ?by, "queue deleted");
                    self.publisher.forget(&queue);
                    self.policy_guard.rules.forget(&queue);
                    let _ = tell.try_send(Tell::Gone(queue));
                }
            }
            Signal::PolicyChanged => self.policy_guard.look_again(),
            Signal::Blocked(why) => {
                metrics::gauge!(names::BROKER_BLOCKED).set(1.0);
                tracing::warn!(why = ?why, "the broker takes no publishes");
            }
            Signal::Unblocked => {
                metrics::gauge!(names::BROKER_BLOCKED).set(0.0);
                tracing::info!("the broker takes publishes again");
            }
            Signal::WakeQueueGone => self.healing.health.losses.something_was_gone(),
            Signal::Down(why) => {
                metrics::counter!(names::BROKER_CONNECTIONS_LOST).increment(1);
                tracing::warn!(why = ?why, "broker connection lost");
                self.tell(Event::Connection {
                    part: "broker",
                    up: false,
                });
            }
            // Handled where it can be waited for.
            Signal::Up => {}
        }
    }

    /// What is ours may be gone with the broker's disk: looked at at once, and everything is listed.
    fn broker_is_back(&self) {
        self.healing.health.look_now();
        self.healing.sweep_now.notify_one();
        self.tell(Event::Connection {
            part: "broker",
            up: true,
        });
    }

    /// Reads what the store remembers: which URLs gave a 2xx, whatever became of their queues, so that what is new for
    /// them does not wait for those that nobody has tried; and the names and URLs of every known queue, so that the
    /// first sweep asks no leases for them.
    pub(super) async fn learn_known(&self, tell: &mpsc::Sender<Tell>) -> Result<(), crate::store::StoreError> {
        for url in self.store.endpoints_answered(REMEMBERED_MAX).await? {
            self.endpoints.get(&url).recall(Standing::Remembered);
        }
        let mut pages = self.queue_pages(QueuesOnly::All);
        while let Some(rows) = pages.next().await? {
            let known: Vec<_> = rows
                .iter()
                .filter_map(|row| Some((row.name.clone(), row.url.clone()?)))
                .collect();
            for (queue, _) in &known {
                self.seen.series.of(queue);
            }
            let _ = tell.send(Tell::Learned(known)).await;
        }
        Ok(())
    }

    /// Sweeps until the generation ends.
    pub(super) async fn sweep(self: Arc<Self>, tell: mpsc::Sender<Tell>, generation: CancellationToken) {
        while !generation.is_cancelled() {
            let began = self.clock.uptime();
            let listing = match self.list(&tell).await {
                Ok(took) => took,
                Err(error) => {
                    tracing::debug!(error = ?error, "queues cannot be listed: looking at the known ones");
                    self.look_at_known(&tell, &generation).await.max(SWEEP_MIN)
                }
            };
            metrics::histogram!(names::LISTING_DURATION).record(listing.as_secs_f64());
            let spent = self.clock.uptime().saturating_sub(began);
            let pause = (listing * PAUSE)
                .saturating_sub(spent.saturating_sub(listing))
                .clamp(SWEEP_MIN, SWEEP_MAX.max(listing * PAUSE));
            let whole = spent.saturating_add(pause).as_secs_f64().max(f64::EPSILON);
            metrics::gauge!(names::LISTING_SHARE).set(listing.as_secs_f64() / whole);
            tokio::select! {
                biased;
                () = self.healing.sweep_now.notified() => {}
                () = ambient::wait(&generation, pause) => {}
            }
        }
    }

    /// Without the management API: an exact look at every queue that the store knows. Answers how long
    /// the broker took.
    async fn look_at_known(&self, tell: &mpsc::Sender<Tell>, generation: &CancellationToken) -> Duration {
        let began = self.clock.uptime();
        let mut pages = self.queue_pages(QueuesOnly::All);
        while let Ok(Some(rows)) = pages.next().await {
            for row in rows.iter().filter(|row| row.owner.is_none()) {
                if generation.is_cancelled() {
                    return Duration::ZERO;
                }
                match self.broker.look(&row.name).await {
                    Ok(Look::Present { ready, .. }) if ready > 0 => {
                        let _ = tell.send(Tell::Listed(row.name.clone())).await;
                    }
                    Ok(_) => {}
                    // The broker itself is away: its return is signalled.
                    Err(_) => return self.clock.uptime().saturating_sub(began),
                }
            }
        }
        self.clock.uptime().saturating_sub(began)
    }

    /// Answers how long the broker took.
    async fn list(&self, tell: &mpsc::Sender<Tell>) -> Result<Duration, crate::broker::BrokerError> {
        let naming = &self.settings.naming;
        let listed = self.broker.queues_all().await?;
        tracing::debug!(queues = listed.queues.len(), took = ?listed.took, "listed");
        let ours = |queue: &&ListedQueue| naming.is_delivery_queue(queue.name.as_str());
        let mut told = Vec::new();
        for queue in listed.queues.iter().filter(ours) {
            if self.policy_guard.rules.learn(&queue.name, &queue.arguments) {
                look_at_one(&self.healing, &queue.name).await;
            }
            // A missing count means: look.
            if queue.ready != Some(0) {
                told.push(queue.name.clone());
            }
        }
        let queues = self.with_companions(listed.queues);
        let waiting = |queue: &ListedQueue| Some(queue.ready? + queue.unacked.unwrap_or(0));
        let depth = |queue: &ListedQueue| {
            let depth = Depth {
                messages: waiting(queue)?,
                // Who consumes a queue that is not empty has something of it in hand.
                is_unused: queue.consumers.unwrap_or(0) == 0 && queue.unacked == Some(0),
            };
            Some((queue.name.clone(), depth))
        };
        self.healing.health.losses.listed(
            queues.iter().filter_map(depth),
            self.store_time.now().minus(listed.took),
        );
        let ours = queues.iter().filter(ours);
        self.seen.series.listed(ours.map(|queue| (&queue.name, waiting(queue))));
        for queue in told {
            let _ = tell.send(Tell::Listed(queue)).await;
        }
        Ok(listed.took)
    }
}
