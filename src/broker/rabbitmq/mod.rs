//! RabbitMQ 3.10 to 4.x over AMQP 0-9-1, with the management API beside it where there is one.
//!
//! Connections, each opened when it is first needed and named `NAME ROLE`: one publishes, one is spare
//! (looks and declarations), a pool consumes, one hears nudges and one hears events; a browse, a walk, a
//! rescue and a delete of a quorum queue each have their own and close it. Delivery needs AMQP only.
//!
//! What brokers and clients do is in docs/rabbitmq.md. Left out: every protocol that combines steps, which is the
//! engine's.

mod address;
mod admin;
mod asks;
mod attach;
mod browse;
mod check;
mod client_tls;
mod consumable;
mod dialer;
mod failure;
mod feed;
pub(crate) mod foreign;
mod frames;
mod health;
mod held;
mod identity;
mod intake;
mod listen;
mod management;
mod message;
mod nudges;
mod numbers;
mod pool;
mod prepare;
mod probe;
mod publish;
mod publish_many;
mod rescue;
mod spare;
mod vhost;
mod walk;
mod wire;

use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::join_all;
use tokio::sync::broadcast;

use self::address::Address;
use self::admin::Admin;
pub use self::client_tls::ClientTls;
use self::dialer::Dialer;
use self::frames::ShortString;
use self::listen::Listeners;
use self::management::{Management, PAGES_MAX, Page};
use self::nudges::Nudges;
use self::pool::Pool;
use self::prepare::short;
pub use self::probe::Probe;
use self::publish::Publisher;
use super::{
    AttachOptions, AttachOutcome, Broker, BrokerError, BrokerHandle, BrokerHealth, BrokerPolicies, BrokerPolicy,
    Browsed, Deleted, ExchangeDetail, Health, Intake, IntakeQueue, ListRequest, ListedQueue, Listings, Look, Outgoing,
    Owner, Published, Publishing, QueuePage, QueuePart, Queues, Reading, Rescued, Signal, Standing, Vhost, VhostFound,
    Walk, WalkOptions,
};
use crate::ambient::{self, Clock};
use crate::domain::broker_rules::Version;
use crate::domain::id::{QueueName, StoreId};
use crate::domain::job::Lifetime;
use crate::domain::message::Message;
use crate::domain::naming::{Naming, QueueType};
use crate::domain::numbers::Numbers;
use crate::domain::on_broker::{OnBroker, QueueBinding};

/// How long a close waits for all connections.
const CLOSED: Duration = Duration::from_secs(15);

/// What the driver is told; `Debug` leaves the logins out.
#[derive(Clone)]
pub struct RabbitSettings {
    /// `amqp[s]://user:password@host[:port]`; a path is ignored, the vhost is `naming.vhost`.
    pub amqp_url: String,
    /// `http[s]://[user:password@]host[:port]`; without user information the login of AMQP is used.
    pub management_url: Option<String>,
    /// What is proven to both beside the login.
    pub tls: Option<ClientTls>,
    /// Vhost, prefix and queue type, from which all names come.
    pub naming: Naming,
    /// Whether a missing vhost and missing rights may be made through the management API.
    pub provision: bool,
    /// How long a publisher confirm may take before the publish is *unknown*.
    pub confirm_timeout: Duration,
    /// Queues of one consuming connection: so many are disturbed by a message that kills it.
    pub queues_per_connection: usize,
    /// The first part of the connections' names.
    pub name: String,
}

impl RabbitSettings {
    /// Settings with the defaults: provisioning, confirms within 10 s, 64 queues a connection.
    #[must_use]
    pub fn new(amqp_url: &str, management_url: Option<&str>, naming: Naming) -> Self {
        Self {
            amqp_url: amqp_url.to_owned(),
            management_url: management_url.map(str::to_owned),
            tls: None,
            naming,
            provision: true,
            confirm_timeout: Duration::from_secs(10),
            queues_per_connection: 64,
            name: "redrive".to_owned(),
        }
    }
}

impl fmt::Debug for RabbitSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RabbitSettings")
            .field("vhost", &self.naming.vhost)
            .field("prefix", &self.naming.prefix)
            .field("queue_type", &self.naming.queue_type)
            .field("provision", &self.provision)
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// The driver.
#[derive(Debug)]
pub struct RabbitMq {
    settings: RabbitSettings,
    clock: Clock,
    dialer: Arc<Dialer>,
    admin: Admin,
    publisher: Arc<Publisher>,
    pool: Arc<Pool>,
    management: Option<Management>,
    times: Times,
    listeners: Listeners,
    nudges: Nudges,
}

/// When (uptime) something was done last, so that it is not done again at once.
#[derive(Debug, Default)]
struct Times {
    /// The vhost or the rights on it were made.
    entered: Mutex<Option<Duration>>,
    /// A queue could be made; `None` where it was refused since.
    made: Mutex<Option<Duration>>,
    /// The user was not allowed to declare the exchange.
    not_declared: Mutex<Option<Duration>>,
}

impl RabbitMq {
    /// Checks the settings; connections are opened when they are needed.
    pub fn connect(settings: RabbitSettings, clock: Clock) -> Result<BrokerHandle, BrokerError> {
        Ok(Arc::new(Self::new(settings, clock)?))
    }

    /// Looks whether a daemon of the store with this identity, or of a new one, could work with these settings, and leaves
    /// nothing on the broker.
    pub async fn probe(settings: RabbitSettings, clock: Clock, store: Option<&StoreId>) -> Result<Probe, BrokerError> {
        Ok(probe::probe(&Self::new(settings, clock)?, store).await)
    }

    fn new(settings: RabbitSettings, clock: Clock) -> Result<Self, BrokerError> {
        // One provider in the process; whoever was first is as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let address = Address::parse(&settings.amqp_url)?;
        let naming = &settings.naming;
        let management = settings.management_url.as_deref();
        let management = management.map(|url| {
            let login = (address.user.as_str(), address.password.as_str());
            Management::new(url, login, &naming.vhost, settings.tls.clone())
        });
        let exchange = short(&naming.exchange())?;
        let dialer = Arc::new(Dialer::new(
            address,
            naming.vhost.clone(),
            settings.tls.clone(),
            settings.name.clone(),
        ));
        let listeners = Listeners::new();
        let publisher = Publisher::new(
            Arc::clone(&dialer),
            exchange.as_str(),
            settings.confirm_timeout,
            listeners.sender(),
        );
        Ok(Self {
            admin: Admin::new(Arc::clone(&dialer), exchange, naming),
            publisher: Arc::new(publisher),
            pool: Arc::new(Pool::new(
                settings.queues_per_connection,
                clock.clone(),
                dialer.garbled_counter(),
            )),
            management: management.transpose()?,
            times: Times::default(),
            listeners,
            nudges: Nudges::default(),
            clock,
            dialer,
            settings,
        })
    }

    /// Refuses a queue of our vhost that is not to be consumed; delivery queues are ours.
    async fn may_consume(
        &self,
        operation: &'static str,
        queue: &QueueName,
    ) -> Result<Option<ListedQueue>, BrokerError> {
        let naming = &self.settings.naming;
        if naming.is_delivery_queue(queue.as_str()) {
            return Ok(None);
        }
        consumable::may_consume(self, operation, &naming.vhost, queue).await
    }

    fn management(&self) -> Result<&Management, BrokerError> {
        self.management.as_ref().ok_or_else(|| BrokerError::Management {
            detail: "broker.management_url is not set".to_owned(),
            mend: "set it to http[s]://[user:password@]host:port".to_owned(),
        })
    }

    /// A listing without the queues that daemons make for a moment.
    fn without_probes(&self, mut page: QueuePage) -> QueuePage {
        let listed = page.queues.len();
        page.queues
            .retain(|queue| !self.settings.naming.is_probe_queue(queue.name.as_str()));
        let left_out = u64::try_from(listed - page.queues.len()).unwrap_or(0);
        page.total = page.total.map(|total| total.saturating_sub(left_out));
        page
    }

    /// Whether somebody is known to have messages of a queue in hand: AMQP counts only those that are ready.
    async fn is_in_hand(&self, queue: &QueueName) -> bool {
        let Some(management) = &self.management else {
            return false;
        };
        match management.in_hand(queue, &self.clock).await {
            Ok(count) => count.is_some_and(|count| count > 0),
            Err(error) => {
                tracing::debug!(queue = ?queue, error = ?error, "how much is unacknowledged is not known");
                false
            }
        }
    }
}

impl Drop for RabbitMq {
    fn drop(&mut self) {
        self.listeners.stop();
    }
}

#[async_trait]
impl Broker for RabbitMq {
    fn kind(&self) -> &'static str {
        "rabbitmq"
    }

    async fn version(&self) -> Option<Version> {
        self.management.as_ref()?.version(&self.clock).await
    }

    async fn place(&self) -> Option<String> {
        let overview = self.management.as_ref()?.overview().await.ok()?;
        Some(format!("{}/{}", overview.cluster?, self.settings.naming.vhost))
    }

    fn set_name(&self, name: &str) {
        self.dialer.set_name(name);
    }

    fn signals(&self) -> broadcast::Receiver<Signal> {
        self.listeners.subscribe()
    }

    async fn listen(&self) -> Result<(), BrokerError> {
        self.listeners.begin(&self.dialer, &self.settings.naming)
    }

    fn losses(&self) -> u64 {
        self.dialer.losses()
    }

    async fn connections_close(&self, name: &str) -> Result<u32, BrokerError> {
        self.management()?.connections_close(name).await
    }

    async fn close(&self) {
        self.listeners.stop();
        self.nudges.close().await;
        let feeds = self.pool.feeds();
        let closing = async {
            join_all(feeds.iter().map(|feed| feed.close())).await;
            tokio::join!(self.publisher.close(), self.admin.spare.close());
        };
        // What does not close in order ends with the process.
        if ambient::timeout(CLOSED, closing).await.is_err() {
            tracing::warn!(
                connections = feeds.len(),
                "connections to the broker did not close in order"
            );
        }
    }
}

#[async_trait]
impl Vhost for RabbitMq {
    async fn prepare(&self) -> Result<(), BrokerError> {
        prepare::prepare(self).await
    }

    async fn vhost(&self) -> Result<VhostFound, BrokerError> {
        vhost::find(self).await
    }

    async fn make_vhost(&self) -> Result<(), BrokerError> {
        vhost::make(self).await
    }

    async fn check(&self, store: &StoreId) -> Result<Standing, BrokerError> {
        check::check(self, store).await
    }

    async fn mark_bound(&self) -> Result<(), BrokerError> {
        check::mark_bound(self).await
    }

    async fn owner(&self, store: &StoreId) -> Result<Owner, BrokerError> {
        identity::owner(self, store).await
    }

    async fn own(&self, store: &StoreId) -> Result<Owner, BrokerError> {
        identity::own(self, store).await
    }

    async fn adopt(&self, store: &StoreId) -> Result<(), BrokerError> {
        identity::adopt(self, store).await
    }

    async fn numbers_kept(&self, store: &StoreId) -> Result<Option<Numbers>, BrokerError> {
        numbers::kept(self, store).await
    }

    async fn numbers_keep(&self, store: &StoreId, numbers: Numbers) -> Result<(), BrokerError> {
        numbers::keep(self, store, numbers).await
    }
}

#[async_trait]
impl Publishing for RabbitMq {
    async fn publish(&self, queue: &QueueName, message: &Message) -> Result<Published, BrokerError> {
        self.publisher.publish(queue.as_str(), message).await
    }

    async fn publish_many(&self, window: &[Outgoing]) -> Vec<Result<Published, BrokerError>> {
        self.publisher.publish_many(window).await
    }

    async fn publish_dead(&self, message: &Message) -> Result<Published, BrokerError> {
        let dead = self.settings.naming.dead_letter_queue();
        let published = self.publisher.publish(&dead, message).await?;
        if published != Published::Returned {
            return Ok(published);
        }
        prepare::dead_letter_queue(self).await?;
        self.publisher.publish(&dead, message).await
    }
}

#[async_trait]
impl Queues for RabbitMq {
    async fn look(&self, queue: &QueueName) -> Result<Look, BrokerError> {
        self.admin.look(&short(queue.as_str())?).await
    }

    async fn create(&self, queue: &QueueName) -> Result<(), BrokerError> {
        prepare::create(self, &short(queue.as_str())?).await
    }

    async fn declare_expiring(&self, queue: &QueueName, lifetime: Lifetime) -> Result<(), BrokerError> {
        prepare::expiring(self, &short(queue.as_str())?, lifetime).await
    }

    async fn declare_again(&self, queue: &QueueName, arguments: &[(String, String)]) -> Result<(), BrokerError> {
        prepare::again(self, &short(queue.as_str())?, arguments).await
    }

    async fn renew(&self, queue: &QueueName) -> Result<Look, BrokerError> {
        // A passive declare counts as use, whatever the arguments are.
        self.look(queue).await
    }

    async fn unbind(&self, queue: &QueueName) -> Result<(), BrokerError> {
        self.admin.unbind(&short(queue.as_str())?).await
    }

    async fn unbind_all(&self, queues: &[QueueName]) -> Result<(), BrokerError> {
        let queues: Vec<ShortString> = queues
            .iter()
            .map(|queue| short(queue.as_str()))
            .collect::<Result<_, _>>()?;
        self.admin.unbind_all(&queues).await
    }

    async fn bind(&self, queue: &QueueName) -> Result<Look, BrokerError> {
        self.admin.bind(&short(queue.as_str())?).await
    }

    async fn delete_empty(&self, queue: &QueueName) -> Result<Deleted, BrokerError> {
        self.delete_unused(queue, self.settings.naming.queue_type).await
    }

    async fn delete_unused(&self, queue: &QueueName, queue_type: QueueType) -> Result<Deleted, BrokerError> {
        if queue_type == QueueType::Quorum && self.is_in_hand(queue).await {
            return Ok(Deleted::InUse);
        }
        self.admin.delete_empty(&short(queue.as_str())?, queue_type).await
    }

    async fn delete_whole(&self, queue: &QueueName) -> Result<Deleted, BrokerError> {
        self.admin.delete_whole(&short(queue.as_str())?).await
    }

    async fn nudge(&self, queue: &QueueName) {
        self.nudges.send(&self.publisher, queue, self.clock.uptime());
    }
}

#[async_trait]
impl Reading for RabbitMq {
    async fn attach(&self, queue: &QueueName, options: AttachOptions) -> Result<AttachOutcome, BrokerError> {
        let naming = &self.settings.naming;
        let name = match options.part {
            QueuePart::Queue => queue.as_str().to_owned(),
            QueuePart::Companion => naming.companion(queue),
        };
        let wanted = attach::Wanted {
            queue: short(&name)?,
            // Returned messages of a quorum queue line up behind each other (docs/rabbitmq.md, *Prefetch*).
            prefetch: if naming.queue_type == QueueType::Quorum {
                1
            } else {
                options.prefetch.max(1)
            },
            bind: options.bind.then(|| self.admin.exchange().clone()),
        };
        attach::attach(&self.dialer, &self.pool, &wanted).await
    }

    async fn browse(&self, queue: &QueueName, limit: u32) -> Result<Vec<Browsed>, BrokerError> {
        let others = self.may_consume("browse", queue).await?;
        let name = short(queue.as_str())?;
        if let Some(listed) = others.filter(|listed| listed.declared().queue_type == QueueType::Quorum) {
            return browse::browse_quorum(&self.dialer, &name, limit, &listed).await;
        }
        let listed = async { self.queue_detail(queue).await.ok().flatten() };
        browse::browse(&self.dialer, &name, limit, listed).await
    }

    async fn walk(&self, queue: &QueueName, options: WalkOptions) -> Result<Option<Box<dyn Walk>>, BrokerError> {
        self.may_consume("walk", queue).await?;
        walk::walk(&self.dialer, &short(queue.as_str())?, options).await
    }

    async fn rescue(&self, queue: &QueueName) -> Result<Option<Box<dyn Rescued>>, BrokerError> {
        rescue::rescue(&self.dialer, &short(queue.as_str())?).await
    }

    async fn intake(&self, queue: &IntakeQueue, prefetch: u16) -> Result<Box<dyn Intake>, BrokerError> {
        let naming = &self.settings.naming;
        consumable::may_consume(self, "intake", &queue.vhost, &queue.name).await?;
        intake::intake(&self.dialer, naming.queue_type, queue, prefetch).await
    }

    async fn intake_rescue(&self, queue: &IntakeQueue) -> Result<Option<Box<dyn Rescued>>, BrokerError> {
        rescue::rescue(&self.dialer.to(&queue.vhost), &short(queue.name.as_str())?).await
    }
}

#[async_trait]
impl Listings for RabbitMq {
    async fn queues_listed(
        &self,
        request: &ListRequest,
        each: &mut (dyn FnMut(ListedQueue) + Send),
    ) -> Result<(), BrokerError> {
        let (management, naming) = (self.management()?, &self.settings.naming);
        let mut page = Page::first(&request.which, naming);
        while page.number <= PAGES_MAX {
            let answer = vhost::named(self, management.queues_page(&page, &self.clock).await).await?;
            let queues = answer.queues.into_iter();
            queues
                .filter(|queue| !naming.is_probe_queue(queue.name.as_str()))
                .for_each(&mut *each);
            if !answer.more {
                break;
            }
            page.number += 1;
        }
        Ok(())
    }

    async fn queues_all(&self) -> Result<QueuePage, BrokerError> {
        let all = vhost::named(self, self.management()?.queues_all(&self.clock).await).await?;
        Ok(self.without_probes(all))
    }

    async fn queue_detail(&self, queue: &QueueName) -> Result<Option<ListedQueue>, BrokerError> {
        let found = vhost::named(
            self,
            self.management()?
                .queue(&self.settings.naming.vhost, queue, &self.clock)
                .await,
        )
        .await?;
        if found.is_none() {
            vhost::exists(self).await?;
        }
        Ok(found)
    }

    async fn queue_on_broker(&self, queue: &QueueName) -> Result<Option<OnBroker>, BrokerError> {
        self.management()?.queue_on_broker(queue).await
    }

    async fn queue_bindings(&self, queue: &QueueName) -> Result<Vec<QueueBinding>, BrokerError> {
        self.management()?.queue_bindings(queue).await
    }

    async fn exchange_detail(&self, exchange: &str) -> Result<Option<ExchangeDetail>, BrokerError> {
        self.management()?.exchange(exchange).await
    }
}

#[async_trait]
impl BrokerPolicies for RabbitMq {
    async fn policies(&self) -> Result<Vec<BrokerPolicy>, BrokerError> {
        vhost::named(self, self.management()?.policies().await).await
    }

    async fn policy_put(&self, policy: &BrokerPolicy) -> Result<(), BrokerError> {
        self.management()?.policy_put(policy).await
    }

    async fn policy_remove(&self, name: &str) -> Result<(), BrokerError> {
        self.management()?.policy_remove(name).await
    }
}

#[async_trait]
impl Health for RabbitMq {
    async fn blocked(&self) -> Option<String> {
        if let Some(reason) = self.publisher.alarm_reason() {
            return Some(reason);
        }
        self.management.as_ref()?.alarms().await.ok().flatten()
    }

    async fn management_problem(&self) -> Option<String> {
        let asked = self.management().ok()?.overview().await;
        asked.err().map(|error| error.to_string())
    }

    async fn health(&self) -> BrokerHealth {
        health::health(self).await
    }
}
