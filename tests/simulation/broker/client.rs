//! A client: one process with its connections, behind the engine's seam of brokers.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use redrive::internals::ambient;
use redrive::internals::broker::{
    AttachOptions, AttachOutcome, Broker, BrokerError, BrokerHealth, BrokerPolicies, BrokerPolicy, Browsed, Deleted,
    EventExchange, ExchangeDetail, Health, Intake, IntakeQueue, ListRequest, ListedQueue, Listings, Look, Outgoing,
    Owner, Published, Publishing, QueuePage, QueuePart, Queues, Reading, Rescued, Signal, Standing, Vhost, Walk,
    WalkOptions, WhichQueues,
};
use redrive::internals::domain::broker_rules::Version;
use redrive::internals::domain::id::{QueueName, StoreId};
use redrive::internals::domain::job::Lifetime;
use redrive::internals::domain::message::Message;
use redrive::internals::domain::naming::{QueueType, delivery_arguments, queue_arguments};
use redrive::internals::domain::numbers::Numbers;
use redrive::internals::domain::on_broker::QueueBinding;
use redrive::internals::domain::time::Timestamp;
use tokio::sync::broadcast;
use tokio::time::Instant;

use super::consumer::Consumer;
use super::server::Server;
use super::walk::Walking;
use super::{DELETING, Model, Step, way};

/// How long a new connection takes to come after one that was cut.
const RECONNECT: Duration = Duration::from_millis(20);

/// A process that speaks to the broker.
#[derive(Debug)]
pub struct Client {
    model: Model,
    number: u64,
    signals: broadcast::Sender<Signal>,
    line: Arc<Line>,
}

/// The connections of a client, as one.
#[derive(Debug, Default)]
pub(super) struct Line {
    generation: AtomicU64,
    losses: AtomicU64,
    is_dead: AtomicBool,
    closed_until: Mutex<Option<Instant>>,
    /// The next publish is cut: after it is done, or before.
    ambush: Mutex<Option<bool>>,
    /// Consumers that were attached through it, by their number, with their queues.
    consumers: Mutex<BTreeMap<u64, String>>,
}

impl Line {
    pub(super) fn generation(&self) -> u64 {
        self.generation.load(Ordering::SeqCst)
    }

    fn attached(&self, consumer: u64, queue: &str) {
        let mut consumers = self.consumers.lock().unwrap_or_else(PoisonError::into_inner);
        consumers.insert(consumer, queue.to_owned());
    }
}

/// What is not known after an answer that did not come.
fn unknown(operation: &'static str) -> BrokerError {
    BrokerError::Unknown {
        operation,
        detail: "the connection was cut".to_owned(),
    }
}

pub(super) fn unreachable(operation: &'static str) -> BrokerError {
    BrokerError::Unreachable {
        operation,
        detail: "nobody answers".to_owned(),
    }
}

/// What the model has not.
fn absent<T>(operation: &'static str) -> Result<T, BrokerError> {
    Err(BrokerError::Failed {
        operation,
        detail: "the model of the broker cannot".to_owned(),
    })
}

impl Client {
    pub(super) fn new(model: Model) -> Self {
        let (number, signals) = model.server().admit();
        Self {
            model,
            number,
            signals,
            line: Arc::default(),
        }
    }

    /// Its connections are cut: it notices now, the server after `noticed`. What it acked and the server has not yet is
    /// lost where `acks_are_lost`, and comes in time otherwise.
    pub fn cut(&self, noticed: Duration, acks_are_lost: bool) {
        self.line.generation.fetch_add(1, Ordering::SeqCst);
        self.line.losses.fetch_add(1, Ordering::SeqCst);
        *self.line.closed_until.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now() + RECONNECT);
        let consumers = std::mem::take(&mut *self.line.consumers.lock().unwrap_or_else(PoisonError::into_inner));
        {
            let mut server = self.model.server();
            server.forgotten.extend(consumers.keys());
            if acks_are_lost {
                server.cut.extend(consumers.keys());
            }
            server.wake_all();
        }
        let _ = self.signals.send(Signal::Down("the connection was cut".to_owned()));
        let signals = self.signals.clone();
        self.model.later(RECONNECT, move |_| {
            let _ = signals.send(Signal::Up);
        });
        self.model.later(noticed + Duration::from_millis(3), move |model| {
            for (consumer, queue) in consumers {
                model.leave(&queue, consumer);
            }
        });
    }

    /// Its connections are cut in the middle of the next publish: it is done by then where `after_it`.
    pub fn cut_at_publish(&self, after_it: bool) {
        *self.line.ambush.lock().unwrap_or_else(PoisonError::into_inner) = Some(after_it);
    }

    /// Its process is gone.
    pub fn kill(&self, noticed: Duration, acks_are_lost: bool) {
        self.line.is_dead.store(true, Ordering::SeqCst);
        self.model.server().dismiss(self.number);
        self.cut(noticed, acks_are_lost);
    }

    /// One of its channels is closed by the server: what was in hand is back at once.
    pub fn close_channel(&self, which: u64) {
        let chosen = {
            let mut consumers = self.line.consumers.lock().unwrap_or_else(PoisonError::into_inner);
            let count = consumers.len().max(1) as u64;
            let key = consumers
                .keys()
                .nth(usize::try_from(which % count).unwrap_or(0))
                .copied();
            key.and_then(|key| consumers.remove_entry(&key))
        };
        if let Some((consumer, queue)) = chosen {
            self.model.leave(&queue, consumer);
        }
    }

    async fn connected(&self, operation: &'static str) -> Result<u64, BrokerError> {
        way().await;
        if self.line.is_dead.load(Ordering::SeqCst) {
            std::future::pending::<()>().await;
        }
        let closed_until = *self.line.closed_until.lock().unwrap_or_else(PoisonError::into_inner);
        if closed_until.is_some_and(|until| Instant::now() < until) || self.model.server().is_down() {
            return Err(unreachable(operation));
        }
        Ok(self.line.generation())
    }

    /// Done by the server in the middle of a call.
    async fn call<T: Send>(
        &self,
        operation: &'static str,
        work: impl FnOnce(&mut Server) -> T + Send,
    ) -> Result<T, BrokerError> {
        let generation = self.connected(operation).await?;
        way().await;
        if self.line.generation() != generation {
            return Err(unknown(operation));
        }
        let done = work(&mut self.model.server());
        way().await;
        if self.line.generation() != generation {
            return Err(unknown(operation));
        }
        Ok(done)
    }

    /// [`Client::call`] for what may be asked again: no answer is no answer.
    async fn ask<T: Send>(
        &self,
        operation: &'static str,
        work: impl FnOnce(&mut Server) -> T + Send,
    ) -> Result<T, BrokerError> {
        let answer = self.call(operation, work).await;
        answer.map_err(|error| {
            if matches!(error, BrokerError::Unknown { .. }) {
                unreachable(operation)
            } else {
                error
            }
        })
    }

    async fn set_bound(&self, queue: &QueueName, bound: bool) -> Result<Look, BrokerError> {
        self.call("bind", |server| match server.queues.get_mut(queue.as_str()) {
            Some(found) => {
                found.bound = bound;
                found.look()
            }
            None => Look::Missing,
        })
        .await
    }

    /// To a queue by its name: through the exchange only where it is bound.
    async fn publish_to(&self, queue: &str, message: &Message, through: bool) -> Result<Published, BrokerError> {
        let is_dead = !through && queue == self.model.0.naming.dead_letter_queue();
        let step = if is_dead { Step::Dead } else { Step::Stored };
        let alarm = self.model.server().alarm.clone();
        if let Some(detail) = alarm {
            way().await;
            return Err(BrokerError::Blocked { detail });
        }
        let model = &self.model;
        let stored = |server: &mut Server| {
            let returned = server.rules.unroutable_is_returned;
            match server.queues.get_mut(queue).filter(|found| found.bound || !through) {
                Some(found) => {
                    found.store(message);
                    model.note(step, queue, message);
                    Published::Accepted
                }
                None if returned => Published::Returned,
                None => Published::Accepted,
            }
        };
        let ambush = self.line.ambush.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(after_it) = ambush else {
            return self.call("publish", stored).await;
        };
        if after_it {
            self.call("publish", stored).await?;
        } else {
            self.connected("publish").await?;
        }
        self.cut(Duration::ZERO, true);
        Err(unknown("publish"))
    }

    /// Empty and unused: it goes a moment later, with what its binding brings it until then.
    async fn delete_if_unused(&self, queue: &str) -> Result<Deleted, BrokerError> {
        let look = |server: &mut Server| match server.queues.get(queue) {
            None => Deleted::Missing,
            Some(found) if !found.is_unused() => Deleted::InUse,
            Some(_) => Deleted::Deleted,
        };
        let looked = self.call("delete", look).await?;
        if looked != Deleted::Deleted {
            return Ok(looked);
        }
        ambient::sleep(DELETING).await;
        self.delete(queue).await
    }

    async fn delete(&self, queue: &str) -> Result<Deleted, BrokerError> {
        let model = &self.model;
        let gone = |server: &mut Server| {
            let Some(gone) = server.queues.remove(queue) else {
                return Deleted::Missing;
            };
            for stored in &gone.messages {
                model.note(Step::Destroyed, queue, &stored.message);
            }
            gone.changed.notify_waiters();
            if let Ok(queue) = QueueName::parse(queue) {
                server.tell(&Signal::QueueDeleted { queue, by: None });
            }
            Deleted::Deleted
        };
        self.call("delete", gone).await
    }

    fn listed(&self, name: &str, (ready, unacked): (u64, u64)) -> Option<ListedQueue> {
        let naming = &self.model.0.naming;
        let arguments = if naming.is_delivery_queue(name) {
            delivery_arguments(naming.queue_type, &naming.exchange(), &naming.dead_letter_queue())
        } else {
            queue_arguments(naming.queue_type)
        };
        let shown = arguments.iter().map(|(key, value)| ((*key).to_owned(), value.shown()));
        Some(ListedQueue {
            name: QueueName::parse(name).ok()?,
            queue_type: Some(self.model.0.naming.queue_type.as_str().to_owned()),
            ready: Some(ready),
            unacked: Some(unacked),
            bytes: None,
            consumers: None,
            oldest_at: None,
            idle_since: None,
            state: Some("running".to_owned()),
            auto_delete: false,
            arguments: shown.collect(),
            redelivered: None,
            policy: None,
            taken_at: Timestamp::EPOCH,
        })
    }
}

#[async_trait]
impl Broker for Client {
    fn kind(&self) -> &'static str {
        "model"
    }

    async fn version(&self) -> Option<Version> {
        Some(Version { major: 3, minor: 10 })
    }

    async fn place(&self) -> Option<String> {
        Some("the model".to_owned())
    }

    fn set_name(&self, _: &str) {}

    fn signals(&self) -> broadcast::Receiver<Signal> {
        self.signals.subscribe()
    }

    async fn listen(&self) -> Result<(), BrokerError> {
        let number = self.number;
        self.ask("listen", |server| server.awake.insert(number)).await.map(drop)
    }

    fn losses(&self) -> u64 {
        self.line.losses.load(Ordering::SeqCst)
    }

    /// The server notices what is dead: nobody waits for its heartbeat any more.
    async fn connections_close(&self, _: &str) -> Result<u32, BrokerError> {
        self.ask("close", |server| {
            let forgotten: Vec<u64> = server.forgotten.iter().copied().collect();
            let names: Vec<String> = server.queues.keys().cloned().collect();
            for consumer in &forgotten {
                for name in &names {
                    let overrun = server.leave(name, *consumer);
                    self.model.bury(server, name, overrun);
                }
            }
            u32::try_from(forgotten.len()).unwrap_or(u32::MAX)
        })
        .await
    }

    async fn close(&self) {}
}

#[async_trait]
impl Vhost for Client {
    async fn prepare(&self) -> Result<(), BrokerError> {
        let dead = self.model.0.naming.dead_letter_queue();
        self.ask("prepare", |server| server.queues.entry(dead).or_default().bound = true)
            .await
    }

    async fn check(&self, _: &StoreId) -> Result<Standing, BrokerError> {
        let is_bound = self.ask("check", |server| server.is_bound).await?;
        Ok(Standing {
            is_bound,
            ..Standing::default()
        })
    }

    async fn mark_bound(&self) -> Result<(), BrokerError> {
        self.call("mark", |server| server.is_bound = true).await
    }

    async fn owner(&self, _: &StoreId) -> Result<Owner, BrokerError> {
        self.ask("owner", |_| Owner::Ours).await
    }

    async fn own(&self, store: &StoreId) -> Result<Owner, BrokerError> {
        self.owner(store).await
    }

    async fn adopt(&self, _: &StoreId) -> Result<(), BrokerError> {
        Ok(())
    }

    async fn numbers_kept(&self, _: &StoreId) -> Result<Option<Numbers>, BrokerError> {
        self.ask("numbers", |server| server.numbers).await
    }

    async fn numbers_keep(&self, _: &StoreId, numbers: Numbers) -> Result<(), BrokerError> {
        self.call("numbers", |server| {
            let kept = server.numbers.get_or_insert(numbers);
            kept.epoch = kept.epoch.max(numbers.epoch);
            kept.generation = kept.generation.max(numbers.generation);
        })
        .await
    }
}

#[async_trait]
impl Publishing for Client {
    async fn publish(&self, queue: &QueueName, message: &Message) -> Result<Published, BrokerError> {
        self.publish_to(queue.as_str(), message, true).await
    }

    async fn publish_many(&self, window: &[Outgoing]) -> Vec<Result<Published, BrokerError>> {
        let mut answers = Vec::new();
        let mut is_cut = false;
        for one in window {
            // They are on their way on one channel: what comes behind a cut is lost with it.
            if is_cut {
                answers.push(Err(unknown("publish")));
                continue;
            }
            let through = !one.exchange.is_empty();
            let answer = self.publish_to(&one.routing_key, &one.message, through).await;
            is_cut = matches!(
                answer,
                Err(BrokerError::Unknown { .. } | BrokerError::Unreachable { .. })
            );
            answers.push(answer);
        }
        answers
    }

    async fn publish_dead(&self, message: &Message) -> Result<Published, BrokerError> {
        let dead = self.model.0.naming.dead_letter_queue();
        self.publish_to(&dead, message, false).await
    }
}

#[async_trait]
impl Queues for Client {
    async fn look(&self, queue: &QueueName) -> Result<Look, BrokerError> {
        let look = |server: &mut Server| {
            server
                .queues
                .get(queue.as_str())
                .map_or(Look::Missing, super::server::Queue::look)
        };
        self.ask("look", look).await
    }

    async fn create(&self, queue: &QueueName) -> Result<(), BrokerError> {
        self.call("create", |server| {
            let is_new = !server.queues.contains_key(queue.as_str());
            server.queues.entry(queue.as_str().to_owned()).or_default().bound = true;
            if is_new {
                server.tell(&Signal::QueueCreated(queue.clone()));
            }
        })
        .await
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
        self.set_bound(queue, false).await.map(drop)
    }

    async fn bind(&self, queue: &QueueName) -> Result<Look, BrokerError> {
        self.set_bound(queue, true).await
    }

    async fn delete_empty(&self, queue: &QueueName) -> Result<Deleted, BrokerError> {
        self.delete_if_unused(queue.as_str()).await
    }

    async fn delete_unused(&self, queue: &QueueName, _: QueueType) -> Result<Deleted, BrokerError> {
        self.delete_if_unused(queue.as_str()).await
    }

    async fn delete_whole(&self, queue: &QueueName) -> Result<Deleted, BrokerError> {
        self.delete(queue.as_str()).await
    }

    /// Lossy: one in eight does not come.
    async fn nudge(&self, queue: &QueueName) {
        if !ambient::random().is_multiple_of(8) {
            self.model.server().nudge(Signal::Nudged(queue.clone()));
        }
    }
}

#[async_trait]
impl Reading for Client {
    async fn attach(&self, queue: &QueueName, options: AttachOptions) -> Result<AttachOutcome, BrokerError> {
        let name = match options.part {
            QueuePart::Queue => queue.as_str().to_owned(),
            QueuePart::Companion => self.model.0.naming.companion(queue),
        };
        let prefetch = usize::from(match self.model.0.naming.queue_type {
            QueueType::Classic => options.prefetch.max(1),
            QueueType::Quorum => 1,
        });
        let generation = self.line.generation();
        let line = Arc::clone(&self.line);
        let attached = self.ask("attach", |server| {
            if let Some(found) = server.queues.get_mut(&name) {
                found.bound |= options.bind;
            }
            let at = server.consume(&name, prefetch, false)?;
            line.attached(at.id, &name);
            Some(at)
        });
        let Some(at) = attached.await? else {
            return Ok(AttachOutcome::Missing);
        };
        let line = Arc::clone(&self.line);
        let consumer = Consumer::new(self.model.clone(), line, generation, name, at);
        Ok(AttachOutcome::Attached(Box::new(consumer)))
    }

    async fn browse(&self, queue: &QueueName, limit: u32) -> Result<Vec<Browsed>, BrokerError> {
        self.ask("browse", |server| {
            let Some(found) = server.queues.get_mut(queue.as_str()) else {
                return Vec::new();
            };
            let ready = found.messages.iter_mut().filter(|stored| stored.holder.is_none());
            let looked = (1..).zip(ready.take(limit as usize)).map(|(position, stored)| {
                let redelivered = std::mem::replace(&mut stored.redelivered, true);
                Browsed {
                    position,
                    redelivered,
                    message: stored.message.clone(),
                }
            });
            looked.collect()
        })
        .await
    }

    async fn walk(&self, queue: &QueueName, _: WalkOptions) -> Result<Option<Box<dyn Walk>>, BrokerError> {
        let (generation, line) = (self.line.generation(), Arc::clone(&self.line));
        let name = queue.as_str();
        let at = self.ask("walk", |server| {
            let at = server.consume(name, usize::MAX, true)?;
            line.attached(at.id, name);
            Some(at)
        });
        let Some(at) = at.await? else { return Ok(None) };
        let line = Arc::clone(&self.line);
        let walking = Walking::new(self.model.clone(), line, generation, name.to_owned(), at);
        Ok(Some(Box::new(walking)))
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
}

#[async_trait]
impl Listings for Client {
    async fn queues_listed(
        &self,
        request: &ListRequest,
        each: &mut (dyn FnMut(ListedQueue) + Send),
    ) -> Result<(), BrokerError> {
        let all = self.queues_all().await?.queues.into_iter();
        let wanted = all.filter(|queue| match &request.which {
            WhichQueues::All => true,
            WhichQueues::Containing(part) => queue.name.as_str().contains(part),
            WhichQueues::ButDelivery => !self.model.0.naming.is_delivery_queue(queue.name.as_str()),
        });
        wanted.for_each(each);
        Ok(())
    }

    async fn queues_all(&self) -> Result<QueuePage, BrokerError> {
        let listed = self.ask("list", Server::listed).await?;
        let queues: Vec<ListedQueue> = listed
            .iter()
            .filter_map(|(name, counts)| self.listed(name, *counts))
            .collect();
        Ok(QueuePage {
            total: Some(queues.len() as u64),
            queues,
            more: false,
            took: Duration::from_millis(100),
        })
    }

    async fn queue_detail(&self, queue: &QueueName) -> Result<Option<ListedQueue>, BrokerError> {
        let counts = |server: &mut Server| server.queues.get(queue.as_str()).map(super::server::Queue::counts);
        let counts = self.ask("detail", counts).await?;
        Ok(counts.and_then(|counts| self.listed(queue.as_str(), counts)))
    }

    async fn queue_bindings(&self, _: &QueueName) -> Result<Vec<QueueBinding>, BrokerError> {
        Ok(Vec::new())
    }

    async fn exchange_detail(&self, _: &str) -> Result<Option<ExchangeDetail>, BrokerError> {
        Ok(None)
    }
}

#[async_trait]
impl BrokerPolicies for Client {
    async fn policies(&self) -> Result<Vec<BrokerPolicy>, BrokerError> {
        self.ask("policies", |_| Vec::new()).await
    }

    async fn policy_put(&self, _: &BrokerPolicy) -> Result<(), BrokerError> {
        absent("policy")
    }

    async fn policy_remove(&self, _: &str) -> Result<(), BrokerError> {
        absent("policy")
    }
}

#[async_trait]
impl Health for Client {
    async fn blocked(&self) -> Option<String> {
        self.model.server().alarm.clone()
    }

    async fn health(&self) -> BrokerHealth {
        BrokerHealth {
            reachable: !self.model.server().is_down(),
            events: EventExchange::There,
            ..BrokerHealth::default()
        }
    }
}
