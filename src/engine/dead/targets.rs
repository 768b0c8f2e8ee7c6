//! Which queues of the vhost are dead-letter targets: by argument or policy of any queue, through exchanges
//! and their bindings; and the dead-letter queue of our own family.
//!
//! An argument wins over a policy, as the broker has it. Without a dead-letter routing key a message keeps
//! its own, which nobody knows here: then everything bound is a target.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use regex::Regex;

use crate::broker::{BrokerError, BrokerPolicy, ExchangeBinding, ListedQueue, Look};
use crate::domain::broker_rules::{DELIVERY_LIMIT_MIN, applies};
use crate::domain::id::QueueName;
use crate::domain::naming::QueueType;
use crate::domain::time::Timestamp;
use crate::engine::{EngineError, Inner};

/// How long what was found is good for.
const GOOD: Duration = Duration::from_secs(10);
/// Targets that are told apart, at most.
const TARGETS_MAX: usize = 500;
/// Exchanges that are asked for their bindings, at most.
const EXCHANGES_MAX: usize = 100;

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
    pub(in crate::engine) message_ttl_ms: Option<u64>,
    pub(in crate::engine) expires_at: Option<Timestamp>,
    /// A look by AMQP would count as use, and prolong its life.
    renewed_by_looks: bool,
}

impl Inner {
    /// The targets, found again when what is known is old.
    pub(in crate::engine) async fn dead_targets(&self) -> Result<Arc<Vec<DeadTarget>>, EngineError> {
        let now = self.clock.uptime();
        let known = self.dead.found.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some((at, found)) = known
            && now.saturating_sub(at) < GOOD
            && self.broker.kind() != "embedded"
        {
            return self.recounted(&found).await;
        }
        let found = Arc::new(self.find_targets().await?);
        *self.dead.found.lock().unwrap_or_else(PoisonError::into_inner) = Some((now, Arc::clone(&found)));
        Ok(found)
    }

    /// The same targets with fresh numbers.
    async fn recounted(&self, found: &[DeadTarget]) -> Result<Arc<Vec<DeadTarget>>, EngineError> {
        let mut targets = Vec::with_capacity(found.len());
        for target in found {
            targets.extend(self.counted(target.clone()).await?);
        }
        Ok(Arc::new(targets))
    }

    /// Its exact numbers, where asking for them changes nothing; else those of the statistics, which lag.
    async fn counted(&self, mut target: DeadTarget) -> Result<Option<DeadTarget>, EngineError> {
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

    async fn find_targets(&self) -> Result<Vec<DeadTarget>, EngineError> {
        let listed = match self.broker.queues_all().await {
            Ok(page) => page.queues,
            // Without the API our own is all that is known, by its name.
            Err(error @ BrokerError::Management { .. }) => {
                tracing::warn!(error = ?error, "dead-letter queues of others are not found");
                return self.our_own_alone().await;
            }
            Err(error) => return Err(error.into()),
        };
        let policies = Policies::new(self.broker.policies().await?);
        let names = self.target_names(&listed, &policies).await?;
        let mut targets = Vec::new();
        for queue in listed.into_iter().filter(|queue| names.contains(queue.name.as_str())) {
            if targets.len() >= TARGETS_MAX {
                break;
            }
            // The one answer about all has neither consumers nor times.
            let detail = self.broker.queue_detail(&queue.name).await?;
            let Some(detail) = detail else { continue };
            targets.extend(self.counted(target(&queue, &detail, &policies)).await?);
        }
        targets.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(targets)
    }

    async fn our_own_alone(&self) -> Result<Vec<DeadTarget>, EngineError> {
        let Ok(name) = QueueName::parse(&self.settings.naming.dead_letter_queue()) else {
            return Ok(Vec::new());
        };
        let Look::Present { ready, consumers } = self.broker.look(&name).await? else {
            return Ok(Vec::new());
        };
        Ok(vec![DeadTarget {
            name,
            ready: Some(ready),
            unacked: None,
            consumers,
            quorum: self.settings.naming.queue_type == QueueType::Quorum,
            delivery_limit: None,
            message_ttl_ms: None,
            expires_at: None,
            renewed_by_looks: false,
        }])
    }

    /// The names of all targets, whether they exist or not. Our own delivery queues are none.
    async fn target_names(&self, listed: &[ListedQueue], policies: &Policies) -> Result<BTreeSet<String>, EngineError> {
        let naming = &self.settings.naming;
        let mut names = BTreeSet::from([naming.dead_letter_queue()]);
        // Each exchange once for each key that letters come with.
        let mut ways: VecDeque<Way> = VecDeque::new();
        let mut taken: BTreeSet<Way> = BTreeSet::new();
        for queue in listed {
            let Some(exchange) = policies.effective(queue, "dead-letter-exchange") else {
                continue;
            };
            let key = policies.effective(queue, "dead-letter-routing-key");
            match (exchange.as_str(), key) {
                ("", Some(key)) => drop(names.insert(key)),
                // A queue that dies into itself.
                ("", None) => {}
                (exchange, _) if exchange == naming.exchange() => {}
                (_, key) => ways.push_back(Way { exchange, key }),
            }
        }
        let mut details = BTreeMap::new();
        while let Some(way) = ways.pop_front() {
            if !taken.insert(way.clone()) {
                continue;
            }
            if !details.contains_key(&way.exchange) {
                if details.len() >= EXCHANGES_MAX {
                    continue;
                }
                let detail = self.broker.exchange_detail(&way.exchange).await?;
                details.insert(way.exchange.clone(), detail.unwrap_or_default());
            }
            let Some(detail) = details.get(&way.exchange) else {
                continue;
            };
            for binding in detail.bindings.iter().filter(|one| way.takes(&detail.kind, one)) {
                if binding.to_exchange {
                    ways.push_back(Way {
                        exchange: binding.destination.clone(),
                        key: way.key.clone(),
                    });
                } else {
                    names.insert(binding.destination.clone());
                }
            }
        }
        names.retain(|name| !naming.is_delivery_queue(name) && *name != naming.wake_queue());
        Ok(names)
    }
}

/// An exchange that letters come through, and with which key, where that is known.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Way {
    exchange: String,
    key: Option<String>,
}

impl Way {
    /// Whether a letter may go by this binding.
    fn takes(&self, kind: &str, binding: &ExchangeBinding) -> bool {
        match (kind, &self.key) {
            ("direct", Some(key)) => binding.routing_key == *key,
            ("topic", Some(key)) => {
                let pattern: Vec<&str> = binding.routing_key.split('.').collect();
                let words: Vec<&str> = key.split('.').collect();
                topic(&pattern, &words)
            }
            _ => true,
        }
    }
}

/// Whether a topic pattern takes a key: `*` is one word, `#` any number of them.
fn topic(pattern: &[&str], words: &[&str]) -> bool {
    // Row by row over the words, so that many `#` cost no more than one.
    let mut row = vec![false; words.len() + 1];
    row[0] = true;
    for part in pattern {
        let mut next = vec![false; words.len() + 1];
        for at in 0..=words.len() {
            next[at] = match *part {
                "#" => row[at] || (at > 0 && next[at - 1]),
                "*" => at > 0 && row[at - 1],
                word => at > 0 && row[at - 1] && words[at - 1] == word,
            };
        }
        row = next;
    }
    row[words.len()]
}

fn target(queue: &ListedQueue, detail: &ListedQueue, policies: &Policies) -> DeadTarget {
    let number = |key: &str| policies.effective(queue, key).and_then(|text| text.parse::<u64>().ok());
    let quorum = queue.queue_type.as_deref() == Some("quorum");
    let expires = number("expires").filter(|_| detail.consumers.unwrap_or(0) == 0);
    DeadTarget {
        name: queue.name.clone(),
        ready: queue.ready.or(detail.ready),
        unacked: queue.unacked.or(detail.unacked),
        consumers: detail.consumers.unwrap_or(0),
        quorum,
        // Unset means 20 from 4.0 on, and none before: nobody can tell from here, so it counts.
        delivery_limit: quorum
            .then(|| {
                policies
                    .effective(queue, "delivery-limit")
                    .map_or(Some(20), |text| text.parse().ok())
            })
            .flatten()
            .filter(|limit| i64::try_from(*limit).is_ok_and(|limit| limit < DELIVERY_LIMIT_MIN)),
        message_ttl_ms: number("message-ttl"),
        renewed_by_looks: !quorum && number("expires").is_some(),
        expires_at: detail
            .idle_since
            .zip(expires)
            .map(|(idle, ms)| idle.plus(Duration::from_millis(ms))),
    }
}

/// The vhost's policies with their patterns read.
struct Policies(Vec<(BrokerPolicy, Option<Regex>)>);

impl Policies {
    fn new(policies: Vec<BrokerPolicy>) -> Self {
        Self(
            policies
                .into_iter()
                .map(|policy| {
                    let pattern = Regex::new(&policy.pattern).ok();
                    (policy, pattern)
                })
                .collect(),
        )
    }

    /// What is in force for a queue: its argument, else the policy with the highest priority that matches;
    /// an operator policy's number counts where it is smaller.
    fn effective(&self, queue: &ListedQueue, key: &str) -> Option<String> {
        let argument = queue
            .arguments
            .iter()
            .find(|(name, _)| name.strip_prefix("x-") == Some(key))
            .map(|(_, value)| value.clone());
        let own = argument.or_else(|| self.set(queue, key, false));
        let operators = self.set(queue, key, true);
        match (&own, &operators) {
            (Some(own), Some(operator)) => match (own.parse::<i64>(), operator.parse::<i64>()) {
                (Ok(own), Ok(operator)) => Some(own.min(operator).to_string()),
                _ => Some(own.clone()),
            },
            _ => own.or(operators),
        }
    }

    fn set(&self, queue: &ListedQueue, key: &str, operator: bool) -> Option<String> {
        let queue_type = if queue.queue_type.as_deref() == Some("quorum") {
            QueueType::Quorum
        } else {
            QueueType::Classic
        };
        let matching = self.0.iter().filter(|(policy, pattern)| {
            policy.operator == operator
                && applies(&policy.applies_to, queue_type)
                && pattern
                    .as_ref()
                    .is_some_and(|pattern| pattern.is_match(queue.name.as_str()))
        });
        let (winner, _) = matching.max_by_key(|(policy, _)| policy.priority)?;
        let (_, value) = winner.definition.iter().find(|(name, _)| name == key)?;
        Some(value.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn topics_match_as_the_broker_does() {
        for (pattern, key, matches) in [
            ("#", "", true),
            ("#", "a.b", true),
            ("a.*", "a.b", true),
            ("a.*", "a.b.c", false),
            ("a.#", "a", true),
            ("#.c", "a.b.c", true),
            ("a.#.#.d", "a.d", true),
            ("a", "b", false),
            ("*", "", true),
        ] {
            let (pattern_parts, words): (Vec<&str>, Vec<&str>) =
                (pattern.split('.').collect(), key.split('.').collect());
            assert_eq!(topic(&pattern_parts, &words), matches, "{pattern} {key}");
        }
    }

    #[test]
    fn a_direct_exchange_takes_only_its_key_and_an_unknown_key_goes_everywhere() {
        let binding = ExchangeBinding {
            destination: "q".into(),
            to_exchange: false,
            routing_key: "k".into(),
        };
        let way = |key: Option<&str>| Way {
            exchange: "x".into(),
            key: key.map(str::to_owned),
        };
        assert!(way(Some("k")).takes("direct", &binding));
        assert!(!way(Some("z")).takes("direct", &binding));
        assert!(way(None).takes("direct", &binding));
        assert!(way(Some("z")).takes("fanout", &binding));
    }
}
