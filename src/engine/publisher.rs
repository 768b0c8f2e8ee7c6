//! Publishing and the end mark, from the publisher's side (docs/protocols.md 9 and 10).
//!
//! A publisher publishes first and binds only what did not exist. In one delivery queue one publish
//! is unsettled at a time: a returned or unknown one holds the next ones back, or n+1 would overtake
//! n (`turns.rs` says for how long, and who settles it). Only creating a queue asks the store, and goes on without it; that a queue was seen is recorded
//! there as well as it goes.

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::watch;

use super::core::{Core, over_core};
use super::error::other_settings;
use super::health::Health;
use super::insist::Pause;
use super::rules::{PolicyGuard, Rules};
use super::traces;
use super::turns::{Place, Turns, Wait};
use super::{Ended, EngineError, NewNotification, Receipt};
use crate::ambient::{self, Clock, HashSet};
use crate::broker::{Broker, BrokerError, BrokerHandle, Look, Published};
use crate::delivery::SenderHandle;
use crate::domain::id::{ExecutionId, NotificationId, QueueName};
use crate::domain::message::Message;
use crate::domain::naming::{Naming, QueueType};
use crate::domain::notification::{Notification, each_name_once, end_mark, ignored_headers};
use crate::domain::queue::{Closing, QueueRecord};
use crate::domain::url::EndpointUrl;
use crate::store::{LearnedQueue, Store, StoreHandle};
use crate::telemetry::names;

/// How long a publish that is returned from an existing queue is tried again.
const RETURNED_FOR: Duration = Duration::from_secs(10);
/// After which nobody is about to bind it: it is told that its binding may be gone.
const UNBOUND_AFTER: Duration = Duration::from_secs(1);
/// And as long as its row says that it is being deleted: a busy broker takes its time for that.
const DELETED_FOR: Duration = Duration::from_secs(60);
/// How long a deletion that is under way is waited for.
const DELETION_FOR: Duration = Duration::from_secs(2);
/// Between two looks at it.
const DELETION_PAUSE: Duration = Duration::from_millis(50);
/// Pause between two tries.
const RETURNED_PAUSE: Duration = Duration::from_millis(100);
/// How long an unknown publish is tried again that the broker refuses for a reason that waiting does not mend.
const REFUSED_FOR: Duration = Duration::from_mins(1);
/// Queues remembered, at most.
const REMEMBERED_MAX: usize = 50_000;

/// What a publish is counted as that the broker took.
const CONFIRMED: &str = "confirmed";

/// Publishes, and remembers whose turn it is in each queue, and which queues were recorded.
#[derive(Debug)]
pub(super) struct Publisher {
    core: Arc<Core>,
    sender: SenderHandle,
    rules: Arc<Rules>,
    pub(super) health: Arc<Health>,
    turns: Arc<Turns>,
    recorded: Mutex<HashSet<QueueName>>,
}

over_core!(Publisher);

impl Publisher {
    pub(super) fn new(core: &Arc<Core>, sender: &SenderHandle, policy_guard: &PolicyGuard) -> Self {
        Self {
            core: Arc::clone(core),
            sender: Arc::clone(sender),
            rules: Arc::clone(&policy_guard.rules),
            health: Arc::default(),
            turns: Arc::default(),
            recorded: Mutex::default(),
        }
    }

    /// True the first time for each queue (and again after it was forgotten).
    fn is_new(&self, queue: &QueueName) -> bool {
        let mut recorded = self.recorded.lock().unwrap_or_else(PoisonError::into_inner);
        if recorded.len() >= REMEMBERED_MAX {
            recorded.clear();
        }
        recorded.insert(queue.clone())
    }

    /// What the store knew it may not know any more: every queue is recorded again.
    pub(super) fn forget_all(&self) {
        self.recorded.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// The queue was deleted or its record failed: record it again next time.
    pub(super) fn forget(&self, queue: &QueueName) {
        self.recorded
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(queue);
    }

    /// What would be tried in vain until it parks is refused at once.
    pub(super) fn check_url(&self, url: &EndpointUrl) -> Result<(), EngineError> {
        match self.sender.refusal(url) {
            Some(why) => Err(EngineError::RefusedUrl { why }),
            None => Ok(()),
        }
    }

    pub(super) async fn publish(&self, new: NewNotification) -> Result<Receipt, EngineError> {
        let id = match new.id {
            Some(id) => chosen(id)?,
            None => generated_id()?,
        };
        let notification = Notification {
            id: id.clone(),
            execution: new.execution,
            url: new.url,
            headers: each_name_once(new.headers),
            content_type: new.content_type,
            body: new.body,
            polling_time_s: new.polling_time_s,
            restart_count: new.restart_count,
            created_at: Some(self.clock.now()),
            event_type: None,
            subscription: None,
        };
        notification.validate()?;
        let ignored = ignored_headers(&notification.headers);
        let queue = self
            .core
            .settings
            .naming
            .delivery_queue(&notification.execution, &notification.url);
        self.publish_in_turn(&queue, &id, notification.to_message(), Missing::Create)
            .await
            .and_then(Settled::taken)
            .map_err(|error| unconfirmed(&id, error))?;
        self.record_queue(&queue, &notification.execution, &notification.url)
            .await;
        let receipt = self.receipt(id, queue).await;
        let warnings: Vec<String> = ignored.into_iter().chain(receipt.warning).collect();
        Ok(Receipt {
            warning: (!warnings.is_empty()).then(|| warnings.join("; ")),
            ..receipt
        })
    }

    /// docs/protocols.md 33: what was published without a look at the broker's policies says so.
    async fn receipt(&self, id: NotificationId, queue: QueueName) -> Receipt {
        let warning = if self.broker.is_embedded() {
            None
        } else {
            self.rules.unknown(&self.store, &self.clock).await
        };
        Receipt { id, queue, warning }
    }

    /// Publishes the message of a notification as it was stored before, under its own id.
    pub(super) async fn publish_stored(
        &self,
        queue: &QueueName,
        stored: Message,
        notification: &Notification,
    ) -> Result<(), EngineError> {
        let id = &notification.id;
        self.publish_in_turn(queue, id, stored, Missing::Create)
            .await
            .and_then(Settled::taken)
            .map_err(|error| unconfirmed(id, error))?;
        self.record_queue(queue, &notification.execution, &notification.url)
            .await;
        Ok(())
    }

    pub(super) async fn publish_end(&self, execution: ExecutionId, url: EndpointUrl) -> Result<Ended, EngineError> {
        let id = generated_id()?;
        let queue = self.settings.naming.delivery_queue(&execution, &url);
        let message = end_mark(&id, &execution, &url, self.clock.now());
        match self.publish_in_turn(&queue, &id, message, Missing::Ignore).await {
            Ok(Settled::Stored) => Ok(Ended::Marked(self.receipt(id, queue).await)),
            Ok(Settled::NoQueue) => Ok(Ended::NoQueue(queue)),
            Ok(Settled::Refused(why)) => Err(EngineError::TooLarge { why }),
            // Its publisher is told no id, because a later end mark does the same.
            Err(EngineError::Broker(error @ BrokerError::Unknown { .. })) => {
                let why = super::error::chain(&error);
                Err(refused(format!(
                    "the end mark is not confirmed: {why}; end the execution again"
                )))
            }
            Err(error) => Err(error),
        }
    }

    /// Spawned, so that a caller who goes away does not give up a turn in the middle: the next publish
    /// to this queue waits until this one is settled.
    async fn publish_in_turn(
        &self,
        queue: &QueueName,
        id: &NotificationId,
        message: Message,
        missing: Missing,
    ) -> Result<Settled, EngineError> {
        let turns = &self.turns;
        turns.admits(queue, id).map_err(held_back)?;
        let place = turns.line_up(queue);
        let turn = place.turn().await;
        // While this one waited, the one before it may have got no answer.
        turns.admits(queue, id).map_err(held_back)?;
        if turns.was_settled(queue, id, &message) {
            return Ok(Settled::Stored);
        }
        if let Some(error) = place.was_unreached() {
            return Err(error.into());
        }
        let publish = Publish {
            broker: Arc::clone(&self.broker),
            store: Arc::clone(&self.store),
            rules: Arc::clone(&self.rules),
            health: Arc::clone(&self.health),
            delivering: self.news.delivering.subscribe(),
            naming: self.settings.naming.clone(),
            clock: self.clock.clone(),
            queue: queue.clone(),
            message,
            missing,
        };
        let (id, look, published_at) = (id.clone(), self.health.looks(), self.store_time.now());
        let task = ambient::spawn("publish", async move {
            let (at, began) = (publish.clock.now(), publish.clock.uptime());
            let result = publish.settle().await;
            let took = publish.clock.uptime().saturating_sub(began);
            let counted = count_publish(&result, took);
            let failed = (counted != CONFIRMED).then_some(counted);
            traces::published(&publish.queue, &publish.message, at, took, failed);
            if matches!(&result, Err(EngineError::Broker(BrokerError::NoExchange { .. }))) {
                look.notify_one();
            }
            match &result {
                Ok(_) => place.settled(),
                Err(EngineError::Broker(BrokerError::Unknown { .. })) => {
                    if place.unsettled(&id, &publish.message) {
                        ambient::spawn("settle a publish", Unanswered::from(publish).settle(place, id));
                    }
                }
                // These were not sent; one that was sent before is as unsettled as it was.
                Err(EngineError::Broker(error @ BrokerError::Unreachable { .. })) => place.unreached(error),
                Err(_) => {}
            }
            drop(turn);
            result
        });
        match task.await {
            Ok(result) => {
                if self.settings.naming.queue_type == QueueType::Quorum && matches!(&result, Ok(Settled::Stored)) {
                    self.seen.published.note(queue, published_at);
                }
                result
            }
            Err(error) => Err(EngineError::Broker(BrokerError::Unknown {
                operation: "publish",
                detail: error.to_string(),
            })),
        }
    }

    /// Publishes a message that was in our hands before, to its delivery queue: in turn, and creating a queue that
    /// ended meanwhile.
    pub(super) async fn publish_again(&self, queue: &QueueName, message: Message) -> Result<Published, BrokerError> {
        let id = match message.message_id.as_deref().map(NotificationId::parse) {
            Some(Ok(id)) => id,
            Some(Err(_)) | None => generated_id().map_err(as_broker_error)?,
        };
        let known = (
            message.header_text("x-redrive-execution").map(ExecutionId::parse),
            message.header_text("x-redrive-url").map(EndpointUrl::parse),
        );
        match self.publish_in_turn(queue, &id, message, Missing::Create).await {
            Ok(Settled::Refused(why)) => Ok(Published::Refused(why)),
            Ok(Settled::Stored | Settled::NoQueue) => {
                if let (Some(Ok(execution)), Some(Ok(url))) = known {
                    self.record_queue(queue, &execution, &url).await;
                }
                Ok(Published::Accepted)
            }
            Err(error) => Err(as_broker_error(error)),
        }
    }

    async fn record_queue(&self, queue: &QueueName, execution: &ExecutionId, url: &EndpointUrl) {
        if !self.is_new(queue) {
            return;
        }
        let learned = LearnedQueue {
            name: queue.clone(),
            execution: execution.clone(),
            url: url.clone(),
        };
        if let Err(error) = self.store.queues_learn(&[learned]).await {
            self.forget(queue);
            tracing::warn!(error = ?error, queue = ?queue, "a published queue is not recorded yet");
        }
    }
}

/// One publish, until it is settled.
struct Publish {
    broker: BrokerHandle,
    store: StoreHandle,
    rules: Arc<Rules>,
    health: Arc<Health>,
    /// Whether this process is a daemon that delivers.
    delivering: watch::Receiver<bool>,
    naming: Naming,
    clock: Clock,
    queue: QueueName,
    message: Message,
    missing: Missing,
}

impl Publish {
    async fn settle(&self) -> Result<Settled, EngineError> {
        let began = self.clock.uptime();
        loop {
            if let Some(why) = self.refused_by_policy().await {
                return self.refuse(why).await;
            }
            match self.broker.publish(&self.queue, &self.message).await? {
                Published::Accepted => {
                    self.broker.nudge(&self.queue).await;
                    return Ok(Settled::Stored);
                }
                Published::Refused(why) => return Ok(Settled::Refused(why)),
                Published::NotNow(detail) => return Err(refused(detail)),
                Published::Returned => {}
            }
            match (self.broker.look(&self.queue).await?, self.missing) {
                (Look::Missing, Missing::Ignore) => return Ok(Settled::NoQueue),
                (Look::Missing, Missing::Create) => {
                    let open = self.wait_for_deletion().await?;
                    self.may_be_made().await?;
                    let lost = self.lost(open).await;
                    self.broker.create(&self.queue).await?;
                    self.tell_of(lost).await;
                }
                (Look::Present { .. }, _) => {
                    if let Some(why) = self.is_in_vain(began).await {
                        return Err(refused(why));
                    }
                    self.broker.nudge(&self.queue).await;
                    ambient::sleep(RETURNED_PAUSE).await;
                }
            }
        }
    }
}

impl Publish {
    /// docs/protocols.md 33: why what is published now would be destroyed, or lost. The daemons unbind such a queue for
    /// the sake of all publishers, a little later.
    async fn refused_by_policy(&self) -> Option<String> {
        if self.broker.is_embedded() {
            return None;
        }
        let (rules, naming) = (&self.rules, &self.naming);
        rules.refuses(&self.queue, naming, &self.store, &self.clock).await
    }

    /// Nothing is published; an end of what does not exist is one all the same.
    async fn refuse(&self, why: String) -> Result<Settled, EngineError> {
        match (self.broker.look(&self.queue).await?, self.missing) {
            (Look::Missing, Missing::Ignore) => Ok(Settled::NoQueue),
            (Look::Missing, Missing::Create) => Err(refused(format!("the queue is not made: {why}"))),
            (Look::Present { .. }, _) => Err(refused(format!("the queue takes no publishes: {why}"))),
        }
    }

    /// docs/protocols.md 33: a queue whose messages would be destroyed or reordered is not made.
    async fn may_be_made(&self) -> Result<(), EngineError> {
        let forbidden = self.rules.forbids(&self.queue, &self.naming, &self.store, &self.clock);
        match forbidden.await {
            Some(why) => Err(refused(format!("the queue is not made: {why}"))),
            None => Ok(()),
        }
    }

    /// Why a queue that exists and returns what is published will not take it: it is refusing, or has taken nothing
    /// for too long, since `began` (uptime).
    async fn is_in_vain(&self, began: Duration) -> Option<String> {
        let row = self.store.queue_get(&self.queue).await.ok().flatten();
        if let Some(why) = row.as_ref().and_then(|row| row.refusing.as_ref()) {
            return Some(format!("the queue takes no publishes: {why}"));
        }
        let tried = self.clock.uptime().saturating_sub(began);
        if tried >= UNBOUND_AFTER {
            self.health.unbound().tell(&self.queue);
        }
        if tried < RETURNED_FOR {
            return None;
        }
        let in_vain = tried >= DELETED_FOR || row.is_none_or(|row| row.closing == Closing::Open);
        in_vain.then(|| TAKES_NOTHING.to_owned())
    }

    /// A look finds a queue missing while the broker still deletes it, and a queue that is declared in
    /// that moment goes with it, with what was confirmed into it (measured: 2 of 600). Its row says that
    /// it is being deleted until the broker has answered, so that is waited for; not for long, because
    /// a crash may have left the row, and not at all where the store does not answer in that time.
    /// Answers the row of one that nothing of ours deletes.
    async fn wait_for_deletion(&self) -> Result<Option<QueueRecord>, EngineError> {
        let waiting = async {
            self.shares_settings().await?;
            loop {
                match self.store.queue_get(&self.queue).await {
                    Ok(Some(row)) if row.closing != Closing::Open => {}
                    Ok(row) => return Ok(row),
                    Err(error) => tracing::debug!(error = ?error, "cannot tell whether the queue is being deleted"),
                }
                ambient::sleep(DELETION_PAUSE).await;
            }
        };
        let waited = ambient::timeout(DELETION_FOR, waiting).await;
        waited.unwrap_or_else(|_| {
            tracing::debug!(queue = ?self.queue, "the queue is created although its row says that it is being deleted");
            Ok(None)
        })
    }

    /// docs/protocols.md 7: a queue under settings that the store's daemons do not have is delivered by nobody. A store
    /// that is away refuses nothing.
    async fn shares_settings(&self) -> Result<(), EngineError> {
        let own = self.naming.fingerprint();
        match self.store.fingerprint().await {
            Ok(Some(found)) if found != own => Err(EngineError::OtherOwner {
                why: format!("the queue is not made: {}", other_settings(&found, None, 0, &own)),
            }),
            Ok(_) | Err(_) => Ok(()),
        }
    }

    /// The row of a queue that had messages, and that somebody deleted by hand (docs/protocols.md 36). It is open before
    /// and after a look that finds no queue, under one epoch: others may have made the queue meanwhile, or ended it.
    async fn lost(&self, open: Option<QueueRecord>) -> Option<QueueRecord> {
        let before = open.filter(|row| row.url.is_some())?;
        let looking = async {
            match self.broker.look(&self.queue).await {
                Ok(Look::Missing) => self.store.queue_get(&self.queue).await.ok().flatten(),
                Ok(Look::Present { .. }) | Err(_) => None,
            }
        };
        let now = ambient::timeout(DELETION_FOR, looking).await.ok().flatten()?;
        (now.closing == Closing::Open && now.epoch == before.epoch).then_some(now)
    }

    /// A queue that is there again hides that another one is gone, with what was in it: whoever makes it tells that.
    async fn tell_of(&self, lost: Option<QueueRecord>) {
        let Some(row) = lost else { return };
        if *self.delivering.borrow() {
            self.health.losses.note(&row);
        } else {
            self.health.losses.tell(&self.store, &row, self.clock.now()).await;
        }
    }
}

/// A publish whose confirm never came. It keeps neither broker nor store: a process that ends does not wait for it.
struct Unanswered {
    broker: Weak<dyn Broker>,
    store: Weak<dyn Store>,
    rules: (Arc<Rules>, Arc<Health>, Naming),
    delivering: watch::Receiver<bool>,
    publish: (Clock, QueueName, Message, Missing),
}

impl From<Publish> for Unanswered {
    fn from(publish: Publish) -> Self {
        Self {
            broker: Arc::downgrade(&publish.broker),
            store: Arc::downgrade(&publish.store),
            rules: (publish.rules, publish.health, publish.naming),
            delivering: publish.delivering,
            publish: (publish.clock, publish.queue, publish.message, publish.missing),
        }
    }
}

impl Unanswered {
    /// Publishes it again under its id until the broker answers, or its caller did the same.
    async fn settle(self, place: Place, id: NotificationId) {
        let began = self.publish.0.uptime();
        let mut pause = Pause::default();
        loop {
            pause.wait().await;
            let Some(_permit) = place.settling().await else { return };
            let _turn = place.turn().await;
            let Some(publish) = self.again().filter(|_| place.is_unsettled(&id)) else {
                return;
            };
            match publish.settle().await {
                Ok(_) => return place.settled_alone(),
                Err(error) if is_away(&error) => tracing::debug!(error = ?error, "a publish is not settled yet"),
                Err(error) if publish.clock.uptime().saturating_sub(began) >= REFUSED_FOR => {
                    tracing::warn!(error = ?error, id = ?id, queue = ?publish.queue, "a publish whose confirm never came is given up: the broker refuses it");
                    return place.settled();
                }
                Err(error) => tracing::debug!(error = ?error, "a publish is refused and tried again"),
            }
        }
    }

    fn again(&self) -> Option<Publish> {
        let (clock, queue, message, missing) = &self.publish;
        let (rules, health, naming) = &self.rules;
        Some(Publish {
            broker: self.broker.upgrade()?,
            store: self.store.upgrade()?,
            rules: Arc::clone(rules),
            health: Arc::clone(health),
            delivering: self.delivering.clone(),
            naming: naming.clone(),
            clock: clock.clone(),
            queue: queue.clone(),
            message: message.clone(),
            missing: *missing,
        })
    }
}

/// Whether waiting may mend it.
fn is_away(error: &EngineError) -> bool {
    matches!(
        error,
        EngineError::Broker(
            BrokerError::Unknown { .. } | BrokerError::Unreachable { .. } | BrokerError::Blocked { .. }
        )
    )
}

fn held_back(wait: Wait) -> EngineError {
    let detail = match wait {
        Wait::Behind(other) => format!(
            "notification {other:?} to this queue is not confirmed: it is published again until it is, and this one can be published then"
        ),
        Wait::Full(count) => {
            format!("{count} notifications are not confirmed: nothing new is published until some are")
        }
    };
    EngineError::Broker(BrokerError::Blocked { detail })
}

const TAKES_NOTHING: &str = "the queue exists but takes nothing: it is being deleted, or a broker policy destroys what waits (see `redrive queue why`)";

fn refused(detail: String) -> EngineError {
    EngineError::Broker(BrokerError::Blocked { detail })
}

/// What a publisher does about a queue that does not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Missing {
    Create,
    Ignore,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Settled {
    Stored,
    NoQueue,
    /// The broker takes no such message, and says why.
    Refused(String),
}

impl Settled {
    /// An error where it was refused.
    fn taken(self) -> Result<(), EngineError> {
        match self {
            Self::Stored | Self::NoQueue => Ok(()),
            Self::Refused(why) => Err(EngineError::TooLarge { why }),
        }
    }
}

/// A publisher's own id.
fn chosen(id: NotificationId) -> Result<NotificationId, EngineError> {
    if id.is_reserved() {
        return Err(EngineError::Invalid {
            field: "id".to_owned(),
            message: "id must not begin with event- or test-: such ids are made here alone".to_owned(),
        });
    }
    Ok(id)
}

fn generated_id() -> Result<NotificationId, EngineError> {
    NotificationId::parse(&ambient::new_id()).map_err(|error| EngineError::Invalid {
        field: error.field.to_owned(),
        message: error.to_string(),
    })
}

/// Answers what it was counted as.
fn count_publish(result: &Result<Settled, EngineError>, took: Duration) -> &'static str {
    let word = match result {
        Ok(Settled::Stored | Settled::NoQueue) => CONFIRMED,
        Err(EngineError::Broker(BrokerError::Unknown { .. })) => "unknown",
        Ok(Settled::Refused(_)) | Err(_) => "refused",
    };
    metrics::counter!(names::PUBLISHES, "result" => word).increment(1);
    metrics::histogram!(names::PUBLISH_DURATION).record(took.as_secs_f64());
    word
}

/// As the broker would say it.
pub(super) fn as_broker_error(error: EngineError) -> BrokerError {
    if let EngineError::Broker(error) = error {
        return error;
    }
    BrokerError::Unknown {
        operation: "publish",
        detail: super::error::chain(&error),
    }
}

/// What may have happened is told with the id, so that the caller repeats with the same one.
fn unconfirmed(id: &NotificationId, error: EngineError) -> EngineError {
    if !matches!(error, EngineError::Broker(BrokerError::Unknown { .. })) {
        return error;
    }
    EngineError::Unconfirmed {
        id: id.as_str().to_owned(),
        why: super::error::chain(&error),
    }
}
