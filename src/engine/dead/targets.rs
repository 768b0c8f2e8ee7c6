//! Which queues of the vhost are dead-letter targets: by argument or policy of any queue, through exchanges
//! and their bindings; those that applications fill by themselves, by their names or by what their first message says;
//! and the dead-letter queue of our own family.
//!
//! An argument wins over a policy, as the broker has it. Without a dead-letter routing key a message keeps
//! its own, which nobody knows here: then everything bound is a target.
//!
//! While the broker cannot be asked which queues there are, those found before are known still, and nothing is
//! forgotten: what could not be read is not gone.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use futures_util::stream::{self, StreamExt, TryStreamExt};

use crate::broker::{BrokerError, ListedQueue, Look};
use crate::domain::broker_rules::{Policies, Version, delivery_limit};
use crate::domain::dead_letter::DeadQueueKind;
use crate::domain::error_queue::is_error_queue;
use crate::domain::id::QueueName;
use crate::domain::naming::QueueType;
use crate::domain::time::Timestamp;
use crate::engine::EngineError;
use crate::engine::error::chain;
use crate::engine::rules::compiled;
use crate::engine::view::Unread;

use super::DeadTargets;
use super::loops::{delayed_work, leave_out, waiting_rooms};
use super::ways::{Exchanges, Way};

/// How long what was found is good for.
const GOOD: Duration = Duration::from_secs(10);
/// Targets that are looked at, at most: each is asked for by itself.
const TARGETS_MAX: usize = 500;
/// Targets that are asked for at once.
const ASKED_AT_ONCE: usize = 16;

/// Why a queue with a delayed retry is not looked at.
const DELAYS: &str = "what is given back to it is hidden for a while (delayed-retry-type), and so would be what a look took; \
                      set delayed-retry-type to disabled first";

/// Queues that are named as those that a dead-letter queue has its letters from, at most.
pub(super) const FEEDERS_MAX: usize = 50;

/// A queue whose dead letters end in another one.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Feeder {
    /// Its name (from outside).
    pub queue: String,
    /// The exchange that they come through, empty for the default exchange; `None`: no argument and no policy says it,
    /// the letters do.
    pub exchange: Option<String>,
    /// The key that they come with; `None`: their own.
    pub routing_key: Option<String>,
    /// Whether they surely get there, by the bindings or because some did.
    pub is_certain: bool,
    /// How many of the letters that were seen died in it first.
    pub letters: u64,
}

/// The names of dead-letter queues, whether they are there or not, with the queues that dead-letter into each.
pub(super) type Fed = BTreeMap<String, Vec<Feeder>>;

/// A queue that dead letters end in.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::engine) struct DeadTarget {
    pub(in crate::engine) name: QueueName,
    pub(super) kind: DeadQueueKind,
    /// The queues that dead-letter into it.
    pub(super) fed_by: Arc<Vec<Feeder>>,
    pub(in crate::engine) ready: Option<u64>,
    pub(in crate::engine) unacked: Option<u64>,
    /// Consumers that somebody has on it; unknown counts as none.
    pub(in crate::engine) consumers: u64,
    pub(super) queue_type: QueueType,
    /// Each look counts, and one too many drops the message: how many there may be.
    pub(in crate::engine) delivery_limit: Option<u64>,
    /// How often the broker delivered messages of it again, when it was found.
    pub(in crate::engine) redelivered: Option<u64>,
    pub(in crate::engine) message_ttl_ms: Option<u64>,
    pub(in crate::engine) expires_at: Option<Timestamp>,
    /// A look by AMQP would count as use, and prolong its life.
    pub(super) renewed_by_looks: bool,
    /// Why nothing is taken from it, not even for a look.
    pub(super) not_consumed: Option<&'static str>,
    /// It gets its messages from queues that keep them for a time, and sends dead letters on itself: a queue of work, as
    /// far as anybody can tell.
    pub(in crate::engine) may_be_work: bool,
    /// Why its numbers, or its letters, cannot be read.
    pub(super) unread: Option<String>,
}

impl DeadTarget {
    /// Of which nothing else is known.
    pub(super) fn named(name: QueueName, queue_type: QueueType) -> Self {
        Self {
            name,
            kind: DeadQueueKind::DeadLetter,
            fed_by: Arc::default(),
            ready: None,
            unacked: None,
            consumers: 0,
            queue_type,
            delivery_limit: None,
            redelivered: None,
            message_ttl_ms: None,
            expires_at: None,
            renewed_by_looks: false,
            not_consumed: None,
            may_be_work: false,
            unread: None,
        }
    }

    /// Why a run cannot take anything out of it.
    pub(in crate::engine) fn not_taken(&self) -> Option<&'static str> {
        self.not_consumed.filter(|why| *why == DELAYS)
    }
}

/// The targets, as far as they could be found.
#[derive(Clone, Debug)]
pub(in crate::engine) struct Targets {
    pub(in crate::engine) queues: Arc<Vec<DeadTarget>>,
    /// Why there are, or may be, more of them than these.
    pub(in crate::engine) unread: Option<Unread>,
}

impl Targets {
    /// Those that get the same dead letters as another one, through an exchange that leads to both.
    pub(in crate::engine) fn doubled(&self) -> BTreeSet<QueueName> {
        let mut through: BTreeMap<(&str, &str), Vec<&QueueName>> = BTreeMap::new();
        for target in self.queues.iter() {
            for feeder in target.fed_by.iter() {
                if let Some(exchange) = &feeder.exchange {
                    through.entry((&feeder.queue, exchange)).or_default().push(&target.name);
                }
            }
        }
        let several = through.into_values().filter(|names| names.len() > 1);
        several.flatten().cloned().collect()
    }
}

/// The targets as they were found last.
#[derive(Clone, Debug)]
pub(super) struct Found {
    /// When (uptime); `None`: they could not be found since.
    at: Option<Duration>,
    queues: Arc<Vec<DeadTarget>>,
    /// How many there are besides these.
    beyond: usize,
}

/// What becomes of queues that only their first message would tell.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Others {
    LookedAt,
    Left,
}

impl DeadTargets {
    /// The targets: the broker's queues, and the store while letters are in it.
    pub(in crate::engine) async fn dead_targets(&self) -> Result<Arc<Vec<DeadTarget>>, EngineError> {
        Ok(self.dead_targets_found().await?.queues)
    }

    /// The same, with what could not be read of them.
    pub(super) async fn dead_targets_found(&self) -> Result<Targets, EngineError> {
        self.targets_with(Others::Left).await
    }

    /// The same, because somebody asks for dead letters: queues that only their first message tells are looked at too.
    pub(in crate::engine) async fn dead_targets_asked_for(&self) -> Result<Targets, EngineError> {
        self.targets_with(Others::LookedAt).await
    }

    async fn targets_with(&self, others: Others) -> Result<Targets, EngineError> {
        let mut found = self.broker_targets(others).await?;
        if let Some(stored) = self.stored_target().await? {
            found.queues = Arc::new(found.queues.iter().cloned().chain([stored]).collect());
        }
        Ok(found)
    }

    /// The queues, found again when what is known is old.
    async fn broker_targets(&self, others: Others) -> Result<Targets, EngineError> {
        let now = self.clock.uptime();
        let known = self.found.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let others = match others {
            Others::LookedAt if self.is_time_to_peek() => Others::LookedAt,
            Others::LookedAt | Others::Left => Others::Left,
        };
        if let Some(found) = &known
            && found.at.is_some_and(|at| now.saturating_sub(at) < GOOD)
            && others == Others::Left
            && !self.broker.is_embedded()
        {
            return self.recounted(&found.queues, self.left_out(found.beyond)).await;
        }
        match self.find_targets(others).await {
            Ok((queues, beyond)) => {
                let queues = Arc::new(queues);
                *self.found.lock().unwrap_or_else(PoisonError::into_inner) = Some(Found {
                    at: Some(now),
                    queues: Arc::clone(&queues),
                    beyond,
                });
                self.is_read(&self.listing_source());
                Ok(Targets {
                    queues,
                    unread: self.left_out(beyond),
                })
            }
            // Without a connection nothing can be looked at either.
            Err(error) if is_away(&error) => Err(error),
            Err(error) => {
                if let Some(found) = &mut *self.found.lock().unwrap_or_else(PoisonError::into_inner) {
                    found.at = None;
                }
                tracing::warn!(error = ?error, "the dead-letter queues of others could not be looked for");
                let before = match known {
                    Some(found) => found.queues,
                    None => Arc::new(self.our_own()),
                };
                let unread = self.unread(self.listing_source(), &error);
                self.recounted(&before, Some(unread)).await
            }
        }
    }

    /// What a list lacks where there are more targets than are looked at.
    fn left_out(&self, beyond: usize) -> Option<Unread> {
        (beyond > 0).then(|| Unread {
            source: self.listing_source(),
            reason: format!(
                "{beyond} more dead-letter queues are not looked at, only the {TARGETS_MAX} with the most messages; \
                 --queue NAME looks at any other"
            ),
            since: self.clock.now(),
        })
    }

    /// The same targets with fresh numbers.
    async fn recounted(&self, found: &[DeadTarget], unread: Option<Unread>) -> Result<Targets, EngineError> {
        let counting = found.iter().map(|target| self.counted(target.clone()).boxed());
        Ok(Targets {
            queues: Arc::new(those_there(counting.collect()).await?),
            unread,
        })
    }

    /// With its exact numbers, where asking for them changes nothing; else those of the statistics, which lag. Nothing
    /// where the queue is gone. One queue that cannot be read says so, and hides no other.
    pub(super) async fn counted(&self, target: DeadTarget) -> Result<Option<DeadTarget>, EngineError> {
        match self.numbers_of(target.clone()).await {
            Ok(counted) => Ok(counted),
            Err(error @ BrokerError::Unreachable { .. }) => Err(error.into()),
            // What is asked without the management API has the login of all there is to read.
            Err(error @ BrokerError::Login { .. }) if !target.renewed_by_looks => Err(error.into()),
            Err(error) => Ok(Some(DeadTarget {
                ready: None,
                unacked: None,
                unread: Some(chain(&error)),
                ..target
            })),
        }
    }

    async fn numbers_of(&self, mut target: DeadTarget) -> Result<Option<DeadTarget>, BrokerError> {
        target.unread = target.not_consumed.map(str::to_owned);
        if target.renewed_by_looks {
            let Some(listed) = self.broker.queue_detail(&target.name).await? else {
                return Ok(None);
            };
            (target.ready, target.unacked) = (listed.ready, listed.unacked);
            target.consumers = listed.consumers.unwrap_or(0);
            return Ok(Some(target));
        }
        let Look::Present { ready, consumers } = self.broker.look(&target.name).await? else {
            return Ok(None);
        };
        (target.ready, target.consumers) = (Some(ready), consumers);
        Ok(Some(target))
    }

    /// A queue that somebody names, whatever it is; none of our delivery queues.
    pub(super) async fn named_target(&self, name: &QueueName) -> Result<Option<DeadTarget>, EngineError> {
        if self.settings.naming.is_delivery_queue(name.as_str()) {
            return Ok(None);
        }
        let Some(detail) = self.broker.queue_detail(name).await? else {
            return Ok(None);
        };
        let policies = compiled(&self.broker.policies().await?);
        let version = self.broker.version().await;
        let target = self.target(&detail, &detail, Vec::new(), &policies, version);
        self.counted(target).await
    }

    /// The targets in order of their names, and how many there are besides these.
    async fn find_targets(&self, others: Others) -> Result<(Vec<DeadTarget>, usize), EngineError> {
        let mut listed = self.broker.queues_all().await?.queues;
        let policies = compiled(&self.broker.policies().await?);
        let version = self.broker.version().await;
        let mut fed = self.fed_among(&listed, &policies, &mut Exchanges::new()).await?;
        if others == Others::LookedAt {
            self.peek_among(&listed, &policies, &fed.keys().cloned().collect())
                .await;
            let named = self.error_queues_by_headers().into_iter();
            fed.extend(
                named
                    .map(|name| (name, Vec::new()))
                    .filter(|(name, _)| !fed.contains_key(name))
                    .collect::<Fed>(),
            );
        }
        let work = self.possible_work(&listed, &policies, &fed);
        listed.retain(|queue| fed.contains_key(queue.name.as_str()));
        let beyond = listed.len().saturating_sub(TARGETS_MAX);
        if beyond > 0 {
            let ours = self.settings.naming.dead_letter_queue();
            listed.sort_by_key(|queue| (queue.name.as_str() != ours, Reverse(queue.ready)));
            listed.truncate(TARGETS_MAX);
        }
        let asking = listed.iter().map(|queue| {
            let feeders = fed.remove(queue.name.as_str()).unwrap_or_default();
            self.asked_for(queue, feeders, &policies, version).boxed()
        });
        let mut targets = those_there(asking.collect()).await?;
        targets.sort_by(|a, b| a.name.cmp(&b.name));
        for target in &mut targets {
            target.may_be_work = work.contains(target.name.as_str());
        }
        Ok((targets, beyond))
    }

    /// Those of the targets whose messages the broker itself may send on, or whose consumers may only be away.
    pub(super) fn possible_work(&self, listed: &[ListedQueue], policies: &Policies, fed: &Fed) -> BTreeSet<String> {
        let named = |name: &str| is_error_queue(name, &self.settings.dead_queues);
        let of = |key: &str| -> BTreeSet<&str> {
            let has = |queue: &&ListedQueue| policies.value(&queue.declared(), key).is_some();
            listed.iter().filter(has).map(|queue| queue.name.as_str()).collect()
        };
        let (expiring, dying) = (of("message-ttl"), of("dead-letter-exchange"));
        let mut work = delayed_work(fed, |name| expiring.contains(name), |name| dying.contains(name));
        work.retain(|name| !named(name));
        work
    }

    /// What is known of it by itself: the one answer about all queues has neither consumers nor times.
    async fn asked_for(
        &self,
        queue: &ListedQueue,
        feeders: Vec<Feeder>,
        policies: &Policies,
        version: Option<Version>,
    ) -> Result<Option<DeadTarget>, EngineError> {
        match self.broker.queue_detail(&queue.name).await {
            Ok(Some(detail)) => {
                let target = self.target(queue, &detail, feeders, policies, version);
                self.counted(target).await
            }
            Ok(None) => Ok(None),
            Err(error @ BrokerError::Unreachable { .. }) => Err(error.into()),
            // What is wrong with one queue hides no other.
            Err(error) => Ok(Some(DeadTarget {
                unread: Some(chain(&error)),
                ..self.target(queue, queue, feeders, policies, version)
            })),
        }
    }

    /// What is known by its name alone.
    fn our_own(&self) -> Vec<DeadTarget> {
        let name = QueueName::parse(&self.settings.naming.dead_letter_queue()).ok();
        let named = name.map(|name| DeadTarget {
            kind: DeadQueueKind::Own,
            ..DeadTarget::named(name, self.settings.naming.queue_type)
        });
        named.into_iter().collect()
    }

    /// The names of all targets, whether they exist or not. Our own delivery queues are none.
    pub(in crate::engine) async fn target_names(
        &self,
        listed: &[ListedQueue],
        policies: &Policies,
    ) -> Result<BTreeSet<String>, EngineError> {
        self.target_names_among(listed, policies, &mut Exchanges::new()).await
    }

    /// The same, with what was asked of exchanges on the way.
    pub(in crate::engine) async fn target_names_among(
        &self,
        listed: &[ListedQueue],
        policies: &Policies,
        exchanges: &mut Exchanges,
    ) -> Result<BTreeSet<String>, EngineError> {
        let fed = self.fed_among(listed, policies, exchanges).await?;
        Ok(fed.into_keys().collect())
    }

    /// The same, each with the queues that dead-letter into it.
    pub(super) async fn fed_among(
        &self,
        listed: &[ListedQueue],
        policies: &Policies,
        exchanges: &mut Exchanges,
    ) -> Result<Fed, EngineError> {
        let naming = &self.settings.naming;
        let mut fed = Fed::from([(naming.dead_letter_queue(), Vec::new())]);
        // Those that applications fill by themselves.
        let added = &self.settings.dead_queues;
        let filled = listed.iter().map(|queue| queue.name.as_str());
        let filled = filled.filter(|name| is_error_queue(name, added)).map(str::to_owned);
        for name in filled.chain(self.error_queues_by_headers()) {
            fed.entry(name).or_default();
        }
        let named: BTreeSet<String> = fed.keys().cloned().collect();
        let mut ways: BTreeMap<Way, Vec<&QueueName>> = BTreeMap::new();
        for queue in listed {
            let text = |key: &str| policies.text(&queue.declared(), key).map(str::to_owned);
            let Some(exchange) = text("dead-letter-exchange") else {
                continue;
            };
            match (exchange.as_str(), text("dead-letter-routing-key")) {
                ("", Some(key)) => {
                    let way = Way {
                        exchange,
                        key: Some(key.clone()),
                    };
                    feed(&mut fed, key, &way, &[&queue.name], &BTreeSet::new());
                }
                // A queue that dies into itself.
                ("", None) => {}
                (exchange, _) if exchange == naming.exchange() => {}
                (_, key) => ways.entry(Way { exchange, key }).or_default().push(&queue.name),
            }
        }
        for (way, from) in ways {
            let reached = self.follow_among(VecDeque::from([way.clone()]), exchanges).await?;
            for name in reached.queues {
                feed(&mut fed, name, &way, &from, &reached.doubts);
            }
        }
        let expiring: BTreeSet<&str> = listed
            .iter()
            .filter(|queue| policies.smallest(&queue.declared(), "message-ttl").is_some())
            .map(|queue| queue.name.as_str())
            .collect();
        let rooms = waiting_rooms(&fed, |name| expiring.contains(name));
        leave_out(&mut fed, &rooms, &named);
        fed.retain(|name, _| !naming.is_delivery_queue(name) && *name != naming.wake_queue());
        Ok(fed)
    }

    pub(super) fn target(
        &self,
        queue: &ListedQueue,
        detail: &ListedQueue,
        feeders: Vec<Feeder>,
        policies: &Policies,
        version: Option<Version>,
    ) -> DeadTarget {
        let number = |key: &str| policies.smallest(&queue.declared(), key);
        let positive = |key: &str| number(key).and_then(|number| u64::try_from(number).ok());
        let queue_type = queue.declared().queue_type;
        let delays = delays_returns(queue, policies);
        let expires = positive("expires").filter(|_| detail.consumers.unwrap_or(0) == 0);
        let kind = if queue.name.as_str() == self.settings.naming.dead_letter_queue() {
            DeadQueueKind::Own
        } else if feeders.is_empty() {
            DeadQueueKind::Error
        } else {
            DeadQueueKind::DeadLetter
        };
        DeadTarget {
            name: queue.name.clone(),
            kind,
            fed_by: Arc::new(feeders),
            ready: queue.ready.or(detail.ready),
            unacked: queue.unacked.or(detail.unacked),
            consumers: detail.consumers.unwrap_or(0),
            queue_type,
            delivery_limit: delivery_limit(&queue.declared(), policies, version),
            redelivered: detail.redelivered,
            message_ttl_ms: positive("message-ttl"),
            renewed_by_looks: queue_type == QueueType::Classic && positive("expires").is_some(),
            expires_at: detail
                .idle_since
                .zip(expires)
                .map(|(idle, ms)| idle.plus(Duration::from_millis(ms))),
            not_consumed: detail.not_consumed().or(delays.then_some(DELAYS)),
            may_be_work: false,
            unread: None,
        }
    }
}

/// A queue that is asked for; `None` where it is gone.
type Asking<'a> = BoxFuture<'a, Result<Option<DeadTarget>, EngineError>>;

/// The answers in the order of the questions, without the queues that are gone.
async fn those_there(asking: Vec<Asking<'_>>) -> Result<Vec<DeadTarget>, EngineError> {
    let answers: Vec<_> = stream::iter(asking).buffered(ASKED_AT_ONCE).try_collect().await?;
    Ok(answers.into_iter().flatten().collect())
}

/// Notes that dead letters of these queues end in the queue of this name; `doubts` are why they may not.
fn feed(fed: &mut Fed, name: String, way: &Way, from: &[&QueueName], doubts: &BTreeSet<String>) {
    let feeders = fed.entry(name).or_default();
    let room = FEEDERS_MAX.saturating_sub(feeders.len());
    feeders.extend(from.iter().take(room).map(|queue| Feeder {
        queue: queue.as_str().to_owned(),
        exchange: Some(way.exchange.clone()),
        routing_key: way.key.clone(),
        is_certain: doubts.is_empty(),
        letters: 0,
    }));
}

/// Whether a message that is given back to the queue is kept from everybody for a while.
pub(super) fn delays_returns(queue: &ListedQueue, policies: &Policies) -> bool {
    let declared = queue.declared();
    let kind = policies.text(&declared, "delayed-retry-type");
    declared.queue_type == QueueType::Quorum && kind.is_some_and(|kind| kind != "disabled")
}

fn is_away(error: &EngineError) -> bool {
    matches!(
        error,
        EngineError::Broker(BrokerError::Unreachable { .. } | BrokerError::Vhost { .. }) | EngineError::Store(_)
    )
}
