//! The broker without a server: ordered, durable queues as tables in the store's SQLite file.
//!
//! Promises what the other driver does, as far as the engine can see: a message is accepted after a
//! commit that survives power loss; whether its queue takes it is decided in that same transaction,
//! so a publisher cannot lose against a deletion; a message leaves its row only by its ack.
//! *Redelivered* is a hint: said of what an attachment of this process left unsettled, and of
//! everything that was in the file when this process opened it; a message that another process had
//! in hand meanwhile is not marked.
//!
//! Left out on purpose: exclusion between processes (the engine's lease does that, this driver only
//! knows its own attachments), broker policies, and rights (the file's mode is the right).

mod attachment;
mod expiry;
mod failure;
mod intake;
mod registry;
mod rescued;
mod shared;
mod signals;
mod tables;
mod walk;

use std::collections::BTreeSet;
use std::sync::{Arc, PoisonError};

use async_trait::async_trait;

use crate::ambient::{self, Clock};
use crate::broker::{
    AttachOptions, AttachOutcome, Broker, BrokerError, BrokerHandle, BrokerHealth, BrokerPolicies, BrokerPolicy,
    Browsed, Deleted, EventExchange, ExchangeDetail, Health, Intake, IntakeQueue, ListRequest, ListedQueue, Listings,
    Look, Outgoing, Owner, Published, Publishing, QueuePage, QueuePart, Queues, Reading, Rescued, Signal, Standing,
    Vhost, Walk, WalkOptions, WhichQueues,
};
use crate::domain::broker_rules::Version;
use crate::domain::id::{QueueName, StoreId};
use crate::domain::job::Lifetime;
use crate::domain::message::Message;
use crate::domain::naming::{Naming, QueueType};
use crate::domain::on_broker::QueueBinding;
use crate::sqlite::{SqliteError, SqliteFile};
use attachment::Attachment;
use rescued::RescuedRow;
use shared::Shared;
use tables::{Binding, Deletion};

/// The queues in one file, as one process uses them.
#[derive(Debug)]
pub struct Embedded(Arc<Shared>);

impl Embedded {
    /// Refuses a file whose tables [`Embedded::open`] would change; writes nothing.
    pub async fn expect(file: &SqliteFile) -> Result<(), SqliteError> {
        file.expect(tables::NAMESPACE, tables::CHANGES).await
    }

    /// Makes the tables, or brings them up to date.
    pub async fn bring(file: &SqliteFile) -> Result<(), SqliteError> {
        file.migrate(tables::NAMESPACE, tables::CHANGES).await
    }

    /// The numbers of the changes that the file lacks; changes nothing.
    pub async fn pending(file: &SqliteFile) -> Result<Vec<i64>, SqliteError> {
        let missing = file.missing(tables::NAMESPACE, tables::CHANGES).await?;
        Ok(missing.iter().map(|(number, _)| *number).collect())
    }

    /// The broker in `file`, with its tables made or brought up to date. The file stays open when the
    /// broker is closed: it is the store's too.
    pub async fn open(file: SqliteFile, naming: Naming, clock: Clock) -> Result<BrokerHandle, BrokerError> {
        Self::bring(&file).await.map_err(failure::write("open"))?;
        let seen = tables::seen(file.readers()).await.map_err(failure::read("open"))?;
        let shared = Arc::new(Shared::new(file, naming, clock, seen.message));
        expiry::look(&shared).await?;
        let elsewhere = shared.file.changed_elsewhere();
        ambient::spawn(
            "embedded broker listener",
            signals::listen(Arc::downgrade(&shared), shared.closed.clone(), seen, elsewhere),
        );
        ambient::spawn("embedded broker lifetimes", expiry::run(Arc::downgrade(&shared)));
        Ok(Arc::new(Self(shared)))
    }
}

#[async_trait]
impl Broker for Embedded {
    fn kind(&self) -> &'static str {
        "embedded"
    }

    fn is_embedded(&self) -> bool {
        true
    }

    async fn version(&self) -> Option<Version> {
        None
    }

    async fn place(&self) -> Option<String> {
        Some("embedded".to_owned())
    }

    fn set_name(&self, name: &str) {
        name.clone_into(&mut self.0.name.lock().unwrap_or_else(PoisonError::into_inner));
    }

    fn signals(&self) -> tokio::sync::broadcast::Receiver<Signal> {
        self.0.signals.subscribe()
    }

    async fn listen(&self) -> Result<(), BrokerError> {
        self.0.signals.begin_telling_of_others();
        Ok(())
    }

    fn losses(&self) -> u64 {
        0
    }

    async fn connections_close(&self, _name: &str) -> Result<u32, BrokerError> {
        Ok(0)
    }

    async fn close(&self) {
        self.0.closed.cancel();
    }
}

#[async_trait]
impl Vhost for Embedded {
    async fn prepare(&self) -> Result<(), BrokerError> {
        let (exchange, dead) = (self.0.naming.exchange(), self.0.naming.dead_letter_queue());
        // Looking goes on where the file takes no writes: on a full disk, or read-only.
        let readers = self.0.file.readers();
        let is_there = tables::exchange_exists(readers, &exchange)
            .await
            .map_err(failure::read("prepare"))?
            && tables::queue_find(readers, &dead)
                .await
                .map_err(failure::read("prepare"))?
                .is_some();
        if is_there {
            return Ok(());
        }
        let now = self.0.clock.now();
        self.0
            .file
            .write(move |connection| {
                Box::pin(async move {
                    tables::exchange_declare(connection, &exchange).await?;
                    tables::queue_declare(connection, &dead, now).await.map(|_| ())
                })
            })
            .await
            .map_err(failure::write("prepare"))
    }

    /// Nothing of it goes without the file.
    async fn check(&self, _: &StoreId) -> Result<Standing, BrokerError> {
        self.0.need_exchange("check").await?;
        tables::seen(self.0.file.readers())
            .await
            .map_err(failure::read("check"))?;
        Ok(Standing {
            is_bound: true,
            ..Standing::default()
        })
    }

    async fn mark_bound(&self) -> Result<(), BrokerError> {
        Ok(())
    }

    /// It is in the file of its store.
    async fn owner(&self, _: &StoreId) -> Result<Owner, BrokerError> {
        Ok(Owner::Ours)
    }

    async fn own(&self, _: &StoreId) -> Result<Owner, BrokerError> {
        Ok(Owner::Ours)
    }

    async fn adopt(&self, _: &StoreId) -> Result<(), BrokerError> {
        Ok(())
    }
}

#[async_trait]
impl Publishing for Embedded {
    async fn publish(&self, queue: &QueueName, message: &Message) -> Result<Published, BrokerError> {
        self.0.need_exchange("publish").await?;
        self.0.end_if_over("publish", queue.as_str()).await?;
        let (shared, name, message) = (Arc::clone(&self.0), queue.clone(), message.clone());
        let stored = self.0.file.write(move |connection| {
            Box::pin(async move {
                let now = shared.clock.now();
                let queue = tables::message_insert(connection, name.as_str(), message, now).await?;
                Ok(queue.map(|queue| Arrival { shared, queue }))
            })
        });
        let arrival = stored.await.map_err(failure::write("publish"))?;
        Ok(arrival.map_or(Published::Returned, |_| Published::Accepted))
    }

    async fn publish_many(&self, window: &[Outgoing]) -> Vec<Result<Published, BrokerError>> {
        if window.iter().any(|one| !one.exchange.is_empty()) {
            let each = window.iter().map(|one| async {
                if !one.exchange.is_empty() {
                    return intake::publish(&self.0, one).await;
                }
                match QueueName::parse(&one.routing_key) {
                    Ok(queue) => self.publish(&queue, &one.message).await,
                    Err(_) => Ok(Published::Returned),
                }
            });
            return futures_util::future::join_all(each).await;
        }
        match self.0.publish_in_order(window).await {
            Ok(arrivals) => arrivals
                .into_iter()
                .map(|arrival| Ok(arrival.map_or(Published::Returned, |_| Published::Accepted)))
                .collect(),
            Err(error) => vec![Err(error); window.len()],
        }
    }

    async fn publish_dead(&self, message: &Message) -> Result<Published, BrokerError> {
        let (shared, message) = (Arc::clone(&self.0), message.clone());
        let stored = self.0.file.write(move |connection| {
            Box::pin(async move {
                let (name, now) = (shared.naming.dead_letter_queue(), shared.clock.now());
                tables::queue_declare(connection, &name, now).await?;
                let queue = tables::message_insert(connection, &name, message, now).await?;
                Ok(queue.map(|queue| Arrival { shared, queue }))
            })
        });
        let arrival = stored
            .await
            .map_err(failure::write("publish to the dead-letter queue"))?;
        Ok(arrival.map_or(Published::Returned, |_| Published::Accepted))
    }
}

#[async_trait]
impl Queues for Embedded {
    async fn look(&self, queue: &QueueName) -> Result<Look, BrokerError> {
        self.0.look("look", queue).await
    }

    async fn create(&self, queue: &QueueName) -> Result<(), BrokerError> {
        self.0.need_exchange("create").await?;
        let (name, now) = (queue.clone(), self.0.clock.now());
        let is_new = self
            .0
            .file
            .write(move |connection| {
                Box::pin(async move {
                    let is_new = tables::queue_declare(connection, name.as_str(), now).await?;
                    tables::queue_bind(connection, name.as_str(), Binding::Bound).await?;
                    Ok(is_new)
                })
            })
            .await
            .map_err(failure::write("create"))?;
        if is_new {
            self.0.signals.send(Signal::QueueCreated(queue.clone()));
        }
        Ok(())
    }

    async fn declare_expiring(&self, queue: &QueueName, lifetime: Lifetime) -> Result<(), BrokerError> {
        expiry::declare(&self.0, queue, lifetime).await
    }

    async fn declare_again(&self, queue: &QueueName, arguments: &[(String, String)]) -> Result<(), BrokerError> {
        expiry::declare(&self.0, queue, expiry::lifetime_in(arguments)).await
    }

    async fn renew(&self, queue: &QueueName) -> Result<Look, BrokerError> {
        if let Some(listed) = self.queue_detail(queue).await? {
            self.declare_again(queue, &listed.arguments).await?;
        }
        self.look(queue).await
    }

    async fn unbind(&self, queue: &QueueName) -> Result<(), BrokerError> {
        self.0.set_binding("unbind", queue, Binding::Unbound).await.map(|_| ())
    }

    async fn bind(&self, queue: &QueueName) -> Result<Look, BrokerError> {
        self.0.need_exchange("bind").await?;
        if self.0.set_binding("bind", queue, Binding::Bound).await? {
            self.0.look("bind", queue).await
        } else {
            Ok(Look::Missing)
        }
    }

    async fn delete_empty(&self, queue: &QueueName) -> Result<Deleted, BrokerError> {
        let Some((id, _)) = self.0.find("delete", queue.as_str()).await? else {
            return Ok(Deleted::Missing);
        };
        if self.0.registry.usage(id).consumers > 0 {
            return Ok(Deleted::InUse);
        }
        self.0.delete(queue, Deletion::OnlyUnused).await
    }

    async fn delete_unused(&self, queue: &QueueName, _: QueueType) -> Result<Deleted, BrokerError> {
        // Only what nobody can publish to is deleted.
        self.unbind(queue).await?;
        let deleted = self.delete_empty(queue).await?;
        if deleted == Deleted::InUse {
            self.bind(queue).await?;
        }
        Ok(deleted)
    }

    async fn delete_whole(&self, queue: &QueueName) -> Result<Deleted, BrokerError> {
        self.0.delete(queue, Deletion::Whole).await
    }

    async fn nudge(&self, queue: &QueueName) {
        self.0.signals.nudge(queue, self.0.clock.uptime());
    }
}

#[async_trait]
impl Reading for Embedded {
    async fn attach(&self, queue: &QueueName, options: AttachOptions) -> Result<AttachOutcome, BrokerError> {
        self.0.need_exchange("attach").await?;
        let name = match options.part {
            QueuePart::Queue => queue.as_str().to_owned(),
            QueuePart::Companion => self.0.naming.companion(queue),
        };
        let Some((id, bound)) = self.0.find("attach", &name).await? else {
            return Ok(AttachOutcome::Missing);
        };
        if let Some(why) = self.0.registry.damaged(id) {
            return Ok(AttachOutcome::Poison(why));
        }
        // Reading is cheap and the queue is bound already, but for one that is being deleted.
        if options.bind && !bound {
            let part = QueueName::parse(&name).map_err(|error| BrokerError::Failed {
                operation: "attach",
                detail: error.to_string(),
            })?;
            if !self.0.set_binding("attach", &part, Binding::Bound).await? {
                return Ok(AttachOutcome::Missing);
            }
        }
        let attachment = Attachment::new(Arc::clone(&self.0), id, options.prefetch);
        // A use, if it is a queue with a lifetime; delivery queues have none.
        if !self.0.naming.is_delivery_queue(&name) {
            self.0.lifetimes.tell_of_new();
        }
        Ok(AttachOutcome::Attached(Box::new(attachment)))
    }

    async fn browse(&self, queue: &QueueName, limit: u32) -> Result<Vec<Browsed>, BrokerError> {
        let (id, stored) = self.0.first_messages("browse", queue, limit).await?;
        let handed_before = self.0.registry.handed_before(id);
        Ok((1..)
            .zip(stored)
            .map(|(position, stored)| Browsed {
                position,
                redelivered: stored.id <= handed_before,
                message: stored.message,
            })
            .collect())
    }

    async fn walk(&self, queue: &QueueName, options: WalkOptions) -> Result<Option<Box<dyn Walk>>, BrokerError> {
        let found = self.0.find("walk", queue.as_str()).await?;
        Ok(found.map(|(id, _)| -> Box<dyn Walk> { Box::new(walk::Rows::new(Arc::clone(&self.0), id, options)) }))
    }

    async fn rescue(&self, queue: &QueueName) -> Result<Option<Box<dyn Rescued>>, BrokerError> {
        let (id, first) = self.0.first_for_rescue(queue).await?;
        Ok(first.map(|stored| -> Box<dyn Rescued> { Box::new(RescuedRow::new(self.0.file.clone(), id, stored)) }))
    }

    async fn intake(&self, queue: &IntakeQueue, prefetch: u16) -> Result<Box<dyn Intake>, BrokerError> {
        intake::open(&self.0, queue, prefetch).await
    }

    async fn intake_rescue(&self, queue: &IntakeQueue) -> Result<Option<Box<dyn Rescued>>, BrokerError> {
        self.rescue(&queue.name).await
    }
}

#[async_trait]
impl Listings for Embedded {
    async fn queues_listed(
        &self,
        request: &ListRequest,
        each: &mut (dyn FnMut(ListedQueue) + Send),
    ) -> Result<(), BrokerError> {
        let (readers, naming) = (self.0.file.readers(), &self.0.naming);
        let each = |counted: &tables::Counted| self.0.listed(counted).into_iter().for_each(&mut *each);
        tables::queues_listed(readers, naming, request, each)
            .await
            .map_err(failure::read("list queues"))
    }

    async fn queues_all(&self) -> Result<QueuePage, BrokerError> {
        let start = self.0.clock.uptime();
        let mut queues = Vec::new();
        self.queues_listed(&WhichQueues::All.into(), &mut |queue| queues.push(queue))
            .await?;
        Ok(QueuePage {
            total: Some(queues.len() as u64),
            queues,
            more: false,
            took: self.0.clock.uptime().saturating_sub(start),
        })
    }

    async fn queue_detail(&self, queue: &QueueName) -> Result<Option<ListedQueue>, BrokerError> {
        self.0.end_if_over("show a queue", queue.as_str()).await?;
        let counted = tables::queue_counts(self.0.file.readers(), queue.as_str())
            .await
            .map_err(failure::read("show a queue"))?;
        Ok(counted.and_then(|counted| self.0.listed(&counted)))
    }

    /// It has no exchange but its own.
    async fn queue_bindings(&self, _: &QueueName) -> Result<Vec<QueueBinding>, BrokerError> {
        Ok(Vec::new())
    }

    async fn exchange_detail(&self, _exchange: &str) -> Result<Option<ExchangeDetail>, BrokerError> {
        Ok(None)
    }
}

#[async_trait]
impl BrokerPolicies for Embedded {
    async fn policies(&self) -> Result<Vec<BrokerPolicy>, BrokerError> {
        Ok(Vec::new())
    }

    async fn policy_put(&self, _: &BrokerPolicy) -> Result<(), BrokerError> {
        Err(BrokerError::Failed {
            operation: "set policy",
            detail: "the embedded broker has no policies".to_owned(),
        })
    }

    async fn policy_remove(&self, _: &str) -> Result<(), BrokerError> {
        Ok(())
    }
}

#[async_trait]
impl Health for Embedded {
    async fn blocked(&self) -> Option<String> {
        None
    }

    async fn health(&self) -> BrokerHealth {
        let problem = match tables::seen(self.0.file.readers()).await {
            _ if self.0.closed.is_cancelled() => Some("closed by this process".to_owned()),
            Ok(_) => None,
            Err(error) => Some(error.to_string()),
        };
        BrokerHealth {
            reachable: problem.is_none(),
            problem,
            version: Some("embedded".to_owned()),
            management: true,
            events: EventExchange::There,
            ..BrokerHealth::default()
        }
    }
}

impl Shared {
    /// A window in one commit: side by side its messages would overtake each other.
    async fn publish_in_order(self: &Arc<Self>, window: &[Outgoing]) -> Result<Vec<Option<Arrival>>, BrokerError> {
        self.need_exchange("publish").await?;
        let names: BTreeSet<&str> = window.iter().map(|one| one.routing_key.as_str()).collect();
        for name in names {
            self.end_if_over("publish", name).await?;
        }
        let (shared, window) = (Arc::clone(self), window.to_vec());
        let stored = self.file.write(move |connection| {
            Box::pin(async move {
                let mut arrivals = Vec::with_capacity(window.len());
                for one in window {
                    let now = shared.clock.now();
                    let queue = tables::message_insert(connection, &one.routing_key, one.message, now).await?;
                    let shared = Arc::clone(&shared);
                    arrivals.push(queue.map(|queue| Arrival { shared, queue }));
                }
                Ok(arrivals)
            })
        });
        stored.await.map_err(failure::write("publish"))
    }
}

/// A stored message that its queue's attachments have not heard of. Its end wakes them: the commit is
/// over by then, whether the publisher still waits for the answer or has gone away.
struct Arrival {
    shared: Arc<Shared>,
    queue: i64,
}

impl Drop for Arrival {
    fn drop(&mut self) {
        self.shared.registry.wake(self.queue);
    }
}
