//! A broker that accepts each consume and closes its channel at once, or loses acks with a connection, over a real one:
//! what a plugin, a race of policies or of deletions does, and no server can be made to do at will.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use async_trait::async_trait;
use redrive::internals::broker::{
    Acked, AttachOptions, AttachOutcome, Attached, Broker, BrokerError, BrokerHandle, BrokerHealth, BrokerPolicies,
    BrokerPolicy, Browsed, Deleted, DeliveryTag, ExchangeDetail, Health, Intake, IntakeQueue, ListRequest, ListedQueue,
    Listings, Look, Lost, Next, Outgoing, Owner, Published, Publishing, QueuePage, Queues, Reading, Rescued, Signal,
    Standing, Vhost, VhostFound, Walk, WalkOptions,
};
use redrive::internals::domain::broker_rules::Version;
use redrive::internals::domain::id::{QueueName, StoreId};
use redrive::internals::domain::job::Lifetime;
use redrive::internals::domain::message::Message;
use redrive::internals::domain::naming::QueueType;
use redrive::internals::domain::on_broker::QueueBinding;
use tokio::sync::broadcast;

/// The broker.
#[derive(Debug)]
pub struct ClosingBroker {
    inner: BrokerHandle,
    closes: AtomicBool,
    attached: Mutex<Vec<Instant>>,
    losing: Arc<Losing>,
}

/// Acks that are lost with the connections that they were sent on.
#[derive(Debug, Default)]
struct Losing {
    to_come: AtomicU64,
    lost: AtomicU64,
}

impl Losing {
    fn takes_one(&self) -> bool {
        let fewer = |left: u64| left.checked_sub(1);
        let takes = self
            .to_come
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, fewer)
            .is_ok();
        self.lost.fetch_add(u64::from(takes), Ordering::SeqCst);
        takes
    }
}

impl ClosingBroker {
    /// Closes each channel until [`ClosingBroker::heal`].
    pub fn over(inner: BrokerHandle) -> Self {
        Self {
            inner,
            closes: AtomicBool::new(true),
            attached: Mutex::default(),
            losing: Arc::default(),
        }
    }

    /// Loses the next acks, after [`ClosingBroker::heal`]: they count as sent, and their messages are not settled.
    pub fn lose_acks(&self, count: u64) {
        self.losing.to_come.store(count, Ordering::SeqCst);
    }

    /// How many acks were lost.
    pub fn lost_acks(&self) -> u64 {
        self.losing.lost.load(Ordering::SeqCst)
    }

    /// From now on consumers are left alone.
    pub fn heal(&self) {
        self.closes.store(false, Ordering::SeqCst);
    }

    /// When each queue was consumed.
    pub fn attached(&self) -> Vec<Instant> {
        self.attached.lock().unwrap().clone()
    }
}

struct Closed(Box<dyn Attached>);

#[async_trait]
impl Attached for Closed {
    async fn next(&mut self) -> Next {
        Next::Lost(Lost::Connection("the channel was closed".to_owned()))
    }

    async fn ack(&mut self, _: DeliveryTag) -> Acked {
        Acked::Lost
    }

    async fn close(self: Box<Self>) {
        self.0.close().await;
    }
}

struct Lossy {
    inner: Box<dyn Attached>,
    losing: Arc<Losing>,
}

#[async_trait]
impl Attached for Lossy {
    async fn next(&mut self) -> Next {
        self.inner.next().await
    }

    async fn next_within(&mut self, room: usize) -> Next {
        self.inner.next_within(room).await
    }

    async fn ack(&mut self, tag: DeliveryTag) -> Acked {
        if self.losing.takes_one() {
            return Acked::Sent;
        }
        self.inner.ack(tag).await
    }

    async fn ack_soon(&mut self, tag: DeliveryTag) -> Acked {
        if self.losing.takes_one() {
            return Acked::Sent;
        }
        self.inner.ack_soon(tag).await
    }

    async fn close(self: Box<Self>) {
        self.inner.close().await;
    }
}

/// Passes every method on.
macro_rules! passed_on {
    ($($seam:ident { $($name:ident($($argument:ident: $kind:ty),*) -> $answer:ty;)+ $(=> { $($rest:tt)* })? })+) => {
        $(#[async_trait]
        impl $seam for ClosingBroker {
            $(async fn $name(&self, $($argument: $kind),*) -> $answer {
                self.inner.$name($($argument),*).await
            })+
            $($($rest)*)?
        })+
    };
}

passed_on! {
    Broker {
        version() -> Option<Version>;
        place() -> Option<String>;
        listen() -> Result<(), BrokerError>;
        connections_close(name: &str) -> Result<u32, BrokerError>;
        close() -> ();
        => {
            fn kind(&self) -> &'static str {
                self.inner.kind()
            }

            fn is_embedded(&self) -> bool {
                self.inner.is_embedded()
            }

            fn set_name(&self, name: &str) {
                self.inner.set_name(name);
            }

            fn losses(&self) -> u64 {
                self.inner.losses() + self.lost_acks()
            }

            fn signals(&self) -> broadcast::Receiver<Signal> {
                self.inner.signals()
            }
        }
    }
    Vhost {
        prepare() -> Result<(), BrokerError>;
        vhost() -> Result<VhostFound, BrokerError>;
        make_vhost() -> Result<(), BrokerError>;
        check(store: &StoreId) -> Result<Standing, BrokerError>;
        mark_bound() -> Result<(), BrokerError>;
        owner(store: &StoreId) -> Result<Owner, BrokerError>;
        own(store: &StoreId) -> Result<Owner, BrokerError>;
        adopt(store: &StoreId) -> Result<(), BrokerError>;
    }
    Publishing {
        publish(queue: &QueueName, message: &Message) -> Result<Published, BrokerError>;
        publish_many(window: &[Outgoing]) -> Vec<Result<Published, BrokerError>>;
        publish_dead(message: &Message) -> Result<Published, BrokerError>;
    }
    Queues {
        look(queue: &QueueName) -> Result<Look, BrokerError>;
        create(queue: &QueueName) -> Result<(), BrokerError>;
        declare_expiring(queue: &QueueName, lifetime: Lifetime) -> Result<(), BrokerError>;
        declare_again(queue: &QueueName, arguments: &[(String, String)]) -> Result<(), BrokerError>;
        renew(queue: &QueueName) -> Result<Look, BrokerError>;
        unbind(queue: &QueueName) -> Result<(), BrokerError>;
        unbind_all(queues: &[QueueName]) -> Result<(), BrokerError>;
        bind(queue: &QueueName) -> Result<Look, BrokerError>;
        delete_empty(queue: &QueueName) -> Result<Deleted, BrokerError>;
        delete_unused(queue: &QueueName, queue_type: QueueType) -> Result<Deleted, BrokerError>;
        delete_whole(queue: &QueueName) -> Result<Deleted, BrokerError>;
        nudge(queue: &QueueName) -> ();
    }
    Reading {
        browse(queue: &QueueName, limit: u32) -> Result<Vec<Browsed>, BrokerError>;
        walk(queue: &QueueName, options: WalkOptions) -> Result<Option<Box<dyn Walk>>, BrokerError>;
        rescue(queue: &QueueName) -> Result<Option<Box<dyn Rescued>>, BrokerError>;
        intake(queue: &IntakeQueue, prefetch: u16) -> Result<Box<dyn Intake>, BrokerError>;
        intake_rescue(queue: &IntakeQueue) -> Result<Option<Box<dyn Rescued>>, BrokerError>;
        => {
            async fn attach(&self, queue: &QueueName, options: AttachOptions) -> Result<AttachOutcome, BrokerError> {
                let outcome = self.inner.attach(queue, options).await?;
                self.attached.lock().unwrap().push(Instant::now());
                Ok(match outcome {
                    AttachOutcome::Attached(attached) if self.closes.load(Ordering::SeqCst) => {
                        AttachOutcome::Attached(Box::new(Closed(attached)))
                    }
                    AttachOutcome::Attached(inner) => AttachOutcome::Attached(Box::new(Lossy {
                        inner,
                        losing: Arc::clone(&self.losing),
                    })),
                    other => other,
                })
            }
        }
    }
    Listings {
        queues_listed(request: &ListRequest, each: &mut (dyn FnMut(ListedQueue) + Send)) -> Result<(), BrokerError>;
        queues_all() -> Result<QueuePage, BrokerError>;
        queue_detail(queue: &QueueName) -> Result<Option<ListedQueue>, BrokerError>;
        queue_bindings(queue: &QueueName) -> Result<Vec<QueueBinding>, BrokerError>;
        exchange_detail(exchange: &str) -> Result<Option<ExchangeDetail>, BrokerError>;
    }
    BrokerPolicies {
        policies() -> Result<Vec<BrokerPolicy>, BrokerError>;
        policy_put(policy: &BrokerPolicy) -> Result<(), BrokerError>;
        policy_remove(name: &str) -> Result<(), BrokerError>;
    }
    Health {
        blocked() -> Option<String>;
        management_problem() -> Option<String>;
        health() -> BrokerHealth;
    }
}
