//! Which queues of the vhost are dead-letter targets: by argument or policy of any queue, through exchanges
//! and their bindings; those that applications fill by themselves, by their names or by what their first message says;
//! and the dead-letter queue of our own family.
//!
//! An argument wins over a policy, as the broker has it. Without a dead-letter routing key a message keeps
//! its own, which nobody knows here: then everything bound is a target.
//!
//! While the broker cannot be asked which queues there are, those found before are known still, and nothing is
//! forgotten: what could not be read is not gone.

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use crate::broker::{BrokerError, ListedQueue, Look};
use crate::domain::broker_rules::{Policies, Version, delivery_limit};
use crate::domain::error_queue::is_error_queue;
use crate::domain::id::QueueName;
use crate::domain::naming::QueueType;
use crate::domain::time::Timestamp;
use crate::engine::EngineError;
use crate::engine::error::chain;
use crate::engine::rules::compiled;
use crate::engine::view::Unread;

use super::DeadTargets;
use super::ways::{Exchanges, Way};

/// How long what was found is good for.
const GOOD: Duration = Duration::from_secs(10);
/// Targets that are told apart, at most.
const TARGETS_MAX: usize = 500;

/// A queue that dead letters end in.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::engine) struct DeadTarget {
    pub(in crate::engine) name: QueueName,
    pub(in crate::engine) ready: Option<u64>,
    pub(in crate::engine) unacked: Option<u64>,
    /// Consumers that somebody has on it; unknown counts as none.
    pub(in crate::engine) consumers: u64,
    pub(in crate::engine) quorum: bool,
    /// Each look counts, and one too many drops the message: how many there may be.
    pub(in crate::engine) delivery_limit: Option<u64>,
    /// How often the broker delivered messages of it again, when it was found.
    pub(in crate::engine) redelivered: Option<u64>,
    pub(in crate::engine) message_ttl_ms: Option<u64>,
    pub(in crate::engine) expires_at: Option<Timestamp>,
    /// A look by AMQP would count as use, and prolong its life.
    pub(super) renewed_by_looks: bool,
    /// Why its numbers could not be read.
    pub(super) unread: Option<String>,
}

/// The targets, as far as they could be found.
#[derive(Clone, Debug)]
pub(in crate::engine) struct Targets {
    pub(in crate::engine) queues: Arc<Vec<DeadTarget>>,
    /// Why there may be more of them than these.
    pub(super) unread: Option<Unread>,
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
        if let Some((at, found)) = &known
            && at.is_some_and(|at| now.saturating_sub(at) < GOOD)
            && others == Others::Left
            && !self.broker.is_embedded()
        {
            return self.recounted(found, None).await;
        }
        match self.find_targets(others).await {
            Ok(found) => {
                let queues = Arc::new(found);
                *self.found.lock().unwrap_or_else(PoisonError::into_inner) = Some((Some(now), Arc::clone(&queues)));
                self.is_read(&self.listing_source());
                Ok(Targets { queues, unread: None })
            }
            // Without a connection nothing can be looked at either.
            Err(error) if is_away(&error) => Err(error),
            Err(error) => {
                if let Some((at, _)) = &mut *self.found.lock().unwrap_or_else(PoisonError::into_inner) {
                    *at = None;
                }
                tracing::warn!(error = ?error, "the dead-letter queues of others could not be looked for");
                let before = match known {
                    Some((_, found)) => found,
                    None => Arc::new(self.our_own()),
                };
                let unread = self.unread(self.listing_source(), &error);
                self.recounted(&before, Some(unread)).await
            }
        }
    }

    /// The same targets with fresh numbers.
    async fn recounted(&self, found: &[DeadTarget], unread: Option<Unread>) -> Result<Targets, EngineError> {
        let mut targets = Vec::with_capacity(found.len());
        for target in found {
            targets.extend(self.counted(target.clone()).await?);
        }
        Ok(Targets {
            queues: Arc::new(targets),
            unread,
        })
    }

    /// With its exact numbers, where asking for them changes nothing; else those of the statistics, which lag. Nothing
    /// where the queue is gone. One queue that cannot be read says so, and hides no other.
    async fn counted(&self, target: DeadTarget) -> Result<Option<DeadTarget>, EngineError> {
        match self.numbers_of(target.clone()).await {
            Ok(counted) => Ok(counted),
            Err(error) if matches!(error, BrokerError::Unreachable { .. }) => Err(error.into()),
            Err(error) => Ok(Some(DeadTarget {
                ready: None,
                unacked: None,
                unread: Some(chain(&error)),
                ..target
            })),
        }
    }

    async fn numbers_of(&self, mut target: DeadTarget) -> Result<Option<DeadTarget>, BrokerError> {
        target.unread = None;
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
        self.counted(target(&detail, &detail, &policies, version)).await
    }

    async fn find_targets(&self, others: Others) -> Result<Vec<DeadTarget>, EngineError> {
        let listed = self.broker.queues_all().await?.queues;
        let policies = compiled(&self.broker.policies().await?);
        let version = self.broker.version().await;
        let mut names = self.target_names(&listed, &policies).await?;
        if others == Others::LookedAt {
            self.peek_among(&listed, &policies, &names).await;
            names.extend(self.error_queues_by_headers());
        }
        let mut targets = Vec::new();
        for queue in listed.into_iter().filter(|queue| names.contains(queue.name.as_str())) {
            if targets.len() >= TARGETS_MAX {
                break;
            }
            // The one answer about all has neither consumers nor times.
            let detail = self.broker.queue_detail(&queue.name).await?;
            let Some(detail) = detail else { continue };
            targets.extend(self.counted(target(&queue, &detail, &policies, version)).await?);
        }
        targets.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(targets)
    }

    /// What is known by its name alone.
    fn our_own(&self) -> Vec<DeadTarget> {
        let name = QueueName::parse(&self.settings.naming.dead_letter_queue()).ok();
        let named = name.map(|name| DeadTarget {
            name,
            ready: None,
            unacked: None,
            consumers: 0,
            quorum: self.settings.naming.queue_type == QueueType::Quorum,
            delivery_limit: None,
            redelivered: None,
            message_ttl_ms: None,
            expires_at: None,
            renewed_by_looks: false,
            unread: None,
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
        let naming = &self.settings.naming;
        let mut names = BTreeSet::from([naming.dead_letter_queue()]);
        // Those that applications fill by themselves.
        let added = &self.settings.dead_queues;
        let filled = listed.iter().map(|queue| queue.name.as_str());
        names.extend(filled.filter(|name| is_error_queue(name, added)).map(str::to_owned));
        let mut ways: VecDeque<Way> = VecDeque::new();
        for queue in listed {
            let text = |key: &str| policies.text(&queue.declared(), key).map(str::to_owned);
            let Some(exchange) = text("dead-letter-exchange") else {
                continue;
            };
            match (exchange.as_str(), text("dead-letter-routing-key")) {
                ("", Some(key)) => drop(names.insert(key)),
                // A queue that dies into itself.
                ("", None) => {}
                (exchange, _) if exchange == naming.exchange() => {}
                (_, key) => ways.push_back(Way { exchange, key }),
            }
        }
        names.append(&mut self.follow_among(ways, exchanges).await?.queues);
        names.extend(self.error_queues_by_headers());
        names.retain(|name| !naming.is_delivery_queue(name) && *name != naming.wake_queue());
        Ok(names)
    }
}

fn target(queue: &ListedQueue, detail: &ListedQueue, policies: &Policies, version: Option<Version>) -> DeadTarget {
    let number = |key: &str| policies.smallest(&queue.declared(), key);
    let positive = |key: &str| number(key).and_then(|number| u64::try_from(number).ok());
    let quorum = queue.queue_type.as_deref() == Some("quorum");
    let expires = positive("expires").filter(|_| detail.consumers.unwrap_or(0) == 0);
    DeadTarget {
        name: queue.name.clone(),
        ready: queue.ready.or(detail.ready),
        unacked: queue.unacked.or(detail.unacked),
        consumers: detail.consumers.unwrap_or(0),
        quorum,
        delivery_limit: delivery_limit(&queue.declared(), policies, version),
        redelivered: detail.redelivered,
        message_ttl_ms: positive("message-ttl"),
        renewed_by_looks: !quorum && positive("expires").is_some(),
        expires_at: detail
            .idle_since
            .zip(expires)
            .map(|(idle, ms)| idle.plus(Duration::from_millis(ms))),
        unread: None,
    }
}

fn is_away(error: &EngineError) -> bool {
    matches!(
        error,
        EngineError::Broker(BrokerError::Unreachable { .. } | BrokerError::Vhost { .. }) | EngineError::Store(_)
    )
}
