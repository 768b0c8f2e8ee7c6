//! A broker in memory: ordered queues, one consumer at a time, an exchange that bindings lead from. Every call takes a
//! random while of simulated time before it is done and after.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use redrive::internals::ambient;
use redrive::internals::broker::{
    Acked, AttachOptions, AttachOutcome, Attached, Broker, BrokerError, BrokerHealth, BrokerPolicy, Browsed, Deleted,
    Delivery, DeliveryTag, ExchangeDetail, Intake, IntakeQueue, ListedQueue, Look, Lost, Next, Outgoing, Owner,
    PageRequest, Published, QueuePage, QueuePart, Rescued, Signal, Standing, Walk, WalkOptions,
};
use redrive::internals::domain::broker_rules::Version;
use redrive::internals::domain::id::{QueueName, StoreId};
use redrive::internals::domain::job::Lifetime;
use redrive::internals::domain::message::Message;
use redrive::internals::domain::naming::{Naming, QueueType};
use redrive::internals::domain::numbers::Numbers;
use tokio::sync::{Notify, broadcast};

use super::trace::Trace;

/// Signals that may wait for a slow listener.
const SIGNALS: usize = 1024;
/// What a call takes at most, one way.
const WAY_US: u64 = 2_000;

/// The broker.
#[derive(Clone, Debug)]
pub(super) struct SimulatedBroker(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    naming: Naming,
    trace: Trace,
    queues: Mutex<BTreeMap<String, Queue>>,
    numbers: Mutex<Option<Numbers>>,
    signals: broadcast::Sender<Signal>,
}

#[derive(Debug, Default)]
struct Queue {
    bound: bool,
    last_place: u64,
    /// In order; what is in somebody's hand keeps its place.
    messages: VecDeque<Stored>,
    /// Attachments in their order: the first one gets messages.
    consumers: Vec<u64>,
    last_consumer: u64,
    changed: Arc<Notify>,
}

#[derive(Debug)]
struct Stored {
    place: u64,
    message: Message,
    in_hand_of: Option<u64>,
    redelivered: bool,
}

impl Queue {
    fn store(&mut self, message: &Message) {
        self.last_place += 1;
        self.messages.push_back(Stored {
            place: self.last_place,
            message: message.clone(),
            in_hand_of: None,
            redelivered: false,
        });
        self.changed.notify_one();
    }

    fn ready(&self) -> u64 {
        self.messages
            .iter()
            .filter(|stored| stored.in_hand_of.is_none())
            .count() as u64
    }

    fn look(&self) -> Look {
        Look::Present {
            ready: self.ready(),
            consumers: self.consumers.len() as u64,
        }
    }
}

/// The way to the broker or back.
async fn way() {
    ambient::sleep(Duration::from_micros(ambient::random() % WAY_US)).await;
}

/// What the simulated broker has not.
fn absent<T>(operation: &'static str) -> Result<T, BrokerError> {
    Err(BrokerError::Failed {
        operation,
        detail: "the simulated broker cannot".to_owned(),
    })
}

impl SimulatedBroker {
    pub(super) fn new(naming: Naming, trace: Trace) -> Self {
        Self(Arc::new(Shared {
            naming,
            trace,
            queues: Mutex::default(),
            numbers: Mutex::default(),
            signals: broadcast::channel(SIGNALS).0,
        }))
    }

    /// How many messages are in all delivery queues.
    pub(super) fn waiting(&self) -> usize {
        let ours = |name: &str| self.0.naming.is_delivery_queue(name);
        let queues = self.0.queues();
        let filled = queues.iter().filter(|(name, _)| ours(name));
        filled.map(|(_, queue)| queue.messages.len()).sum()
    }

    /// Done by the broker in the middle of a call.
    async fn call<T>(&self, work: impl FnOnce(&mut BTreeMap<String, Queue>) -> T) -> T {
        way().await;
        let done = work(&mut self.0.queues());
        way().await;
        done
    }

    async fn set_bound(&self, queue: &QueueName, bound: bool) -> Look {
        self.call(|queues| match queues.get_mut(queue.as_str()) {
            Some(found) => {
                found.bound = bound;
                found.look()
            }
            None => Look::Missing,
        })
        .await
    }

    fn listed(&self, (name, queue): (&String, &Queue)) -> Option<ListedQueue> {
        Some(ListedQueue {
            name: QueueName::parse(name).ok()?,
            queue_type: Some("classic".to_owned()),
            ready: Some(queue.ready()),
            unacked: Some(queue.messages.len() as u64 - queue.ready()),
            bytes: None,
            consumers: Some(queue.consumers.len() as u64),
            oldest_at: None,
            idle_since: None,
            state: Some("running".to_owned()),
            arguments: Vec::new(),
            redelivered: None,
            policy: None,
            taken_at: self.0.trace.now(),
        })
    }
}

impl Shared {
    fn queues(&self) -> MutexGuard<'_, BTreeMap<String, Queue>> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Broker for SimulatedBroker {
    fn kind(&self) -> &'static str {
        "simulated"
    }

    /// Its numbers are exact, and it has no management API.
    fn is_embedded(&self) -> bool {
        true
    }

    async fn prepare(&self) -> Result<(), BrokerError> {
        let dead = self.0.naming.dead_letter_queue();
        self.call(|queues| drop(queues.entry(dead))).await;
        Ok(())
    }

    async fn version(&self) -> Option<Version> {
        None
    }

    async fn check(&self, _: &StoreId) -> Result<Standing, BrokerError> {
        way().await;
        Ok(Standing {
            is_bound: true,
            ..Standing::default()
        })
    }

    async fn mark_bound(&self) -> Result<(), BrokerError> {
        Ok(())
    }

    async fn place(&self) -> Option<String> {
        Some("simulated".to_owned())
    }

    async fn owner(&self, _: &StoreId) -> Result<Owner, BrokerError> {
        Ok(Owner::Ours)
    }

    async fn own(&self, _: &StoreId) -> Result<Owner, BrokerError> {
        Ok(Owner::Ours)
    }

    async fn adopt(&self, _: &StoreId) -> Result<(), BrokerError> {
        Ok(())
    }

    async fn numbers_kept(&self, _: &StoreId) -> Result<Option<Numbers>, BrokerError> {
        Ok(*self.0.numbers.lock().unwrap())
    }

    async fn numbers_keep(&self, _: &StoreId, numbers: Numbers) -> Result<(), BrokerError> {
        *self.0.numbers.lock().unwrap() = Some(numbers);
        Ok(())
    }

    fn set_name(&self, _: &str) {}

    fn losses(&self) -> u64 {
        0
    }

    fn signals(&self) -> broadcast::Receiver<Signal> {
        self.0.signals.subscribe()
    }

    async fn listen(&self) -> Result<(), BrokerError> {
        Ok(())
    }

    async fn publish(&self, queue: &QueueName, message: &Message) -> Result<Published, BrokerError> {
        let trace = self.0.trace.clone();
        self.call(
            |queues| match queues.get_mut(queue.as_str()).filter(|found| found.bound) {
                Some(found) => {
                    found.store(message);
                    trace.note("stored", &message.body);
                    Ok(Published::Accepted)
                }
                None => Ok(Published::Returned),
            },
        )
        .await
    }

    async fn publish_many(&self, window: &[Outgoing]) -> Vec<Result<Published, BrokerError>> {
        let mut answers = Vec::new();
        for one in window {
            let stored = |queues: &mut BTreeMap<String, Queue>| match queues.get_mut(&one.routing_key) {
                Some(found) => {
                    found.store(&one.message);
                    Published::Accepted
                }
                None => Published::Returned,
            };
            answers.push(Ok(self.call(stored).await));
        }
        answers
    }

    async fn publish_dead(&self, message: &Message) -> Result<Published, BrokerError> {
        let (dead, trace) = (self.0.naming.dead_letter_queue(), self.0.trace.clone());
        self.call(|queues| {
            trace.note("dead", &message.body);
            queues.entry(dead).or_default().store(message);
        })
        .await;
        Ok(Published::Accepted)
    }

    async fn look(&self, queue: &QueueName) -> Result<Look, BrokerError> {
        let look = |queues: &mut BTreeMap<String, Queue>| queues.get(queue.as_str()).map_or(Look::Missing, Queue::look);
        Ok(self.call(look).await)
    }

    async fn create(&self, queue: &QueueName) -> Result<(), BrokerError> {
        let is_new = self
            .call(|queues| {
                let is_new = !queues.contains_key(queue.as_str());
                queues.entry(queue.as_str().to_owned()).or_default().bound = true;
                is_new
            })
            .await;
        if is_new {
            let _ = self.0.signals.send(Signal::QueueCreated(queue.clone()));
        }
        Ok(())
    }

    async fn declare_expiring(&self, _: &QueueName, _: Lifetime) -> Result<(), BrokerError> {
        absent("declare")
    }

    async fn declare_again(&self, _: &QueueName, _: &[(String, String)]) -> Result<(), BrokerError> {
        absent("declare")
    }

    async fn renew(&self, queue: &QueueName) -> Result<Look, BrokerError> {
        self.look(queue).await
    }

    async fn unbind(&self, queue: &QueueName) -> Result<(), BrokerError> {
        self.set_bound(queue, false).await;
        Ok(())
    }

    async fn bind(&self, queue: &QueueName) -> Result<Look, BrokerError> {
        Ok(self.set_bound(queue, true).await)
    }

    async fn delete_empty(&self, queue: &QueueName) -> Result<Deleted, BrokerError> {
        let deleted = self
            .call(|queues| match queues.get(queue.as_str()) {
                None => Deleted::Missing,
                Some(found) if found.bound || !found.messages.is_empty() || !found.consumers.is_empty() => {
                    Deleted::InUse
                }
                Some(_) => {
                    queues.remove(queue.as_str());
                    Deleted::Deleted
                }
            })
            .await;
        Ok(deleted)
    }

    async fn delete_unused(&self, _: &QueueName, _: QueueType) -> Result<Deleted, BrokerError> {
        absent("delete")
    }

    async fn delete_whole(&self, _: &QueueName) -> Result<Deleted, BrokerError> {
        absent("delete")
    }

    async fn nudge(&self, queue: &QueueName) {
        let _ = self.0.signals.send(Signal::Nudged(queue.clone()));
    }

    async fn attach(&self, queue: &QueueName, options: AttachOptions) -> Result<AttachOutcome, BrokerError> {
        let name = match options.part {
            QueuePart::Queue => queue.as_str().to_owned(),
            QueuePart::Companion => self.0.naming.companion(queue),
        };
        let attached = self
            .call(|queues| {
                let found = queues.get_mut(&name)?;
                found.bound |= options.bind;
                found.last_consumer += 1;
                found.consumers.push(found.last_consumer);
                Some(Consumer {
                    shared: Arc::clone(&self.0),
                    changed: Arc::clone(&found.changed),
                    queue: name.clone(),
                    id: found.last_consumer,
                    prefetch: usize::from(options.prefetch.max(1)),
                })
            })
            .await;
        Ok(match attached {
            Some(consumer) => AttachOutcome::Attached(Box::new(consumer)),
            None => AttachOutcome::Missing,
        })
    }

    async fn browse(&self, _: &QueueName, _: u32) -> Result<Vec<Browsed>, BrokerError> {
        absent("browse")
    }

    async fn walk(&self, _: &QueueName, _: WalkOptions) -> Result<Option<Box<dyn Walk>>, BrokerError> {
        absent("walk")
    }

    async fn rescue(&self, _: &QueueName) -> Result<Option<Box<dyn Rescued>>, BrokerError> {
        absent("rescue")
    }

    async fn intake(&self, _: &IntakeQueue, _: u16) -> Result<Box<dyn Intake>, BrokerError> {
        absent("intake")
    }

    async fn intake_rescue(&self, _: &IntakeQueue) -> Result<Option<Box<dyn Rescued>>, BrokerError> {
        absent("rescue")
    }

    async fn queues_page(&self, page: &PageRequest) -> Result<QueuePage, BrokerError> {
        let mut all = self.queues_all().await?;
        let (skipped, size) = ((page.page.max(1) - 1) * page.size, page.size as usize);
        if let Some(part) = &page.name_contains {
            all.queues.retain(|queue| queue.name.as_str().contains(part));
        }
        all.queues = all.queues.into_iter().skip(skipped as usize).take(size).collect();
        all.more = all.queues.len() == size;
        Ok(all)
    }

    async fn queues_all(&self) -> Result<QueuePage, BrokerError> {
        let queues: Vec<ListedQueue> = self
            .call(|queues| queues.iter().filter_map(|one| self.listed(one)).collect())
            .await;
        Ok(QueuePage {
            total: Some(queues.len() as u64),
            queues,
            more: false,
            took: Duration::from_millis(1),
        })
    }

    async fn queue_detail(&self, queue: &QueueName) -> Result<Option<ListedQueue>, BrokerError> {
        let found = |queues: &mut BTreeMap<String, Queue>| {
            queues.get_key_value(queue.as_str()).and_then(|one| self.listed(one))
        };
        Ok(self.call(found).await)
    }

    async fn exchange_detail(&self, _: &str) -> Result<Option<ExchangeDetail>, BrokerError> {
        Ok(None)
    }

    async fn policies(&self) -> Result<Vec<BrokerPolicy>, BrokerError> {
        Ok(Vec::new())
    }

    async fn policy_put(&self, _: &BrokerPolicy) -> Result<(), BrokerError> {
        absent("policy")
    }

    async fn policy_remove(&self, _: &str) -> Result<(), BrokerError> {
        absent("policy")
    }

    async fn connections_close(&self, _: &str) -> Result<u32, BrokerError> {
        Ok(0)
    }

    async fn blocked(&self) -> Option<String> {
        None
    }

    async fn health(&self) -> BrokerHealth {
        BrokerHealth {
            reachable: true,
            events: true,
            ..BrokerHealth::default()
        }
    }

    async fn close(&self) {}
}

/// An attachment: what is in its hand goes back to its place when it is dropped.
struct Consumer {
    shared: Arc<Shared>,
    changed: Arc<Notify>,
    queue: String,
    id: u64,
    prefetch: usize,
}

impl Consumer {
    /// What is due now; `None`: nothing.
    fn due(&self) -> Option<Next> {
        let mut queues = self.shared.queues();
        let Some(queue) = queues.get_mut(&self.queue) else {
            return Some(Next::Lost(Lost::Cancelled));
        };
        let in_hand = queue
            .messages
            .iter()
            .filter(|one| one.in_hand_of == Some(self.id))
            .count();
        if queue.consumers.first() != Some(&self.id) || in_hand >= self.prefetch {
            return None;
        }
        let next = queue.messages.iter_mut().find(|one| one.in_hand_of.is_none())?;
        next.in_hand_of = Some(self.id);
        Some(Next::Message(Box::new(Delivery {
            tag: DeliveryTag(next.place),
            redelivered: next.redelivered,
            addressed_to: None,
            message: next.message.clone(),
        })))
    }
}

#[async_trait]
impl Attached for Consumer {
    async fn next(&mut self) -> Next {
        way().await;
        loop {
            if let Some(next) = self.due() {
                return next;
            }
            self.changed.notified().await;
        }
    }

    async fn ack(&mut self, tag: DeliveryTag) -> Acked {
        way().await;
        let acked = {
            let mut queues = self.shared.queues();
            let messages = queues.get_mut(&self.queue).map(|queue| &mut queue.messages);
            let place = messages.as_ref().and_then(|messages| {
                let own = |one: &Stored| one.place == tag.0 && one.in_hand_of == Some(self.id);
                messages.iter().position(own)
            });
            messages.zip(place).and_then(|(messages, place)| messages.remove(place))
        };
        let Some(settled) = acked else {
            return Acked::Lost;
        };
        self.shared.trace.note("settled", &settled.message.body);
        Acked::Sent
    }

    async fn close(self: Box<Self>) {
        drop(self);
        way().await;
    }
}

impl Drop for Consumer {
    fn drop(&mut self) {
        let mut queues = self.shared.queues();
        if let Some(queue) = queues.get_mut(&self.queue) {
            queue.consumers.retain(|id| *id != self.id);
            for stored in queue.messages.iter_mut().filter(|one| one.in_hand_of == Some(self.id)) {
                stored.in_hand_of = None;
                stored.redelivered = true;
            }
            queue.changed.notify_one();
        }
    }
}
