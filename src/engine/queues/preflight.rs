//! Pre-flight of every queue: what its arguments and the broker's policies will do to it in silence.
//!
//! From one listing, the policies, and the exchanges that dead letters go to: each of those is asked for once, and
//! all of it is good for a while. What cannot be read is not judged.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use super::Queues;
use crate::broker::{ExchangeDetail, ListedQueue};
use crate::domain::broker_rules::Policies;
use crate::domain::findings::{DeadExchange, Examined, Finding, examine};
use crate::domain::id::QueueName;
use crate::domain::queue::QueueKind;
use crate::domain::words::{plural, plural_of};
use crate::engine::EngineError;
use crate::engine::dead::Exchanges;
use crate::engine::error::chain;
use crate::engine::expiring::{ExpiringPage, ExpiringQuery};
use crate::engine::rules::compiled;
use crate::engine::view::Check;

/// How long policies and exchanges are as they were read.
const GOOD: Duration = Duration::from_secs(30);
/// A broker looks for consumers that time out each minute, and shorter times are not supported.
const HOLD_MIN: Duration = Duration::from_mins(1);

/// What queues are judged by.
#[derive(Debug, Default)]
pub(in crate::engine) struct Preflight {
    policies: Policies,
    exchanges: BTreeMap<String, DeadExchange>,
    /// Queues that dead letters end in.
    targets: BTreeSet<String>,
    hold: Duration,
}

impl Preflight {
    /// What a queue is for: one of others that dead letters end in is a dead-letter queue.
    pub(in crate::engine) fn kind(&self, by_name: QueueKind, name: &QueueName) -> QueueKind {
        if by_name == QueueKind::Foreign && self.targets.contains(name.as_str()) {
            QueueKind::DeadLetter
        } else {
            by_name
        }
    }

    /// What will surprise about a queue of this kind.
    pub(in crate::engine) fn findings(&self, kind: QueueKind, listed: &ListedQueue) -> Vec<Finding> {
        examine(&Examined {
            declared: listed.declared(),
            kind,
            policies: &self.policies,
            exchanges: &self.exchanges,
            hold: self.hold,
        })
    }
}

impl Queues {
    /// What the queues of a listing are judged by.
    pub(in crate::engine) async fn preflight(&self, listed: &[ListedQueue]) -> Arc<Preflight> {
        let now = self.clock.uptime();
        if let Some(good) = self.last_preflight.good(now) {
            return good;
        }
        let read = match self.read_preflight(listed).await {
            Ok(read) => Arc::new(read),
            Err(error) => {
                tracing::debug!(error = ?error, "queues are judged by what was read last");
                self.last_preflight.last().unwrap_or_default()
            }
        };
        self.last_preflight.keep(Arc::clone(&read), now + GOOD);
        read
    }

    /// What one queue alone is judged by, as the last listing was where that is not old. Whether dead letters end in a
    /// queue of others is told by all queues of the vhost.
    pub(in crate::engine) async fn preflight_of(&self, listed: &ListedQueue) -> Arc<Preflight> {
        if let Some(good) = self.last_preflight.good(self.clock.uptime()) {
            return good;
        }
        if self.kind_of(&listed.name) == QueueKind::Foreign
            && let Ok(all) = self.broker.queues_all().await
        {
            return self.preflight(&all.queues).await;
        }
        let read = self.read_preflight(std::slice::from_ref(listed)).await;
        read.map_or_else(|_| self.last_preflight.last().unwrap_or_default(), Arc::new)
    }

    /// Queues with a lifetime, each for what the list of queues says that it is.
    pub(in crate::engine) async fn expiring_page(&self, query: &ExpiringQuery) -> Result<ExpiringPage, EngineError> {
        let mut page = self.expiring.lifetimes.list(query).await?;
        if page.items.iter().all(|item| item.kind != QueueKind::Foreign) {
            return Ok(page);
        }
        let preflight = match self.last_preflight.last() {
            Some(known) => known,
            None => match self.broker.queues_all().await {
                Ok(all) => self.preflight(&all.queues).await,
                // The list itself says what could not be read.
                Err(_) => return Ok(page),
            },
        };
        for item in &mut page.items {
            item.kind = preflight.kind(item.kind, &item.name);
        }
        Ok(page)
    }

    async fn read_preflight(&self, listed: &[ListedQueue]) -> Result<Preflight, EngineError> {
        let policies = compiled(&self.broker.policies().await?);
        let mut asked = Exchanges::new();
        let targets = self
            .dead_targets
            .target_names_among(listed, &policies, &mut asked)
            .await?;
        let exchanges = asked.into_iter().map(|(name, detail)| (name, dead_exchange(detail)));
        Ok(Preflight {
            exchanges: exchanges.collect(),
            policies,
            targets,
            hold: (self.settings.request_timeout * 2).max(HOLD_MIN),
        })
    }

    /// One check for each kind of finding, with how many queues have it.
    pub(in crate::engine) async fn preflight_checks(&self) -> Vec<Check> {
        let listed = match self.broker.queues_all().await {
            Ok(page) => self.with_companions(page.queues),
            Err(error) => return vec![Check::unread("queues", &chain(&error))],
        };
        let preflight = self.preflight(&listed).await;
        let mut found: BTreeMap<&'static str, (u64, String, Finding)> = BTreeMap::new();
        for queue in &listed {
            let kind = preflight.kind(self.kind_of(&queue.name), &queue.name);
            for finding in preflight.findings(kind, queue) {
                let name = queue.name.as_str().to_owned();
                found.entry(finding.code).or_insert((0, name, finding)).0 += 1;
            }
        }
        if found.is_empty() {
            return vec![Check::fine(
                "queues",
                format!("{} without findings", plural_of(listed.len(), "queue", "queues")),
            )];
        }
        let check = |(code, (count, name, finding)): (&'static str, (u64, String, Finding))| {
            let queues = plural(count, "queue", "queues");
            let found = format!("{queues}, such as {name:?}: {}", finding.effect);
            Check::warning(&format!("queues: {code}"), found, finding.mend)
        };
        found.into_iter().map(check).collect()
    }
}

fn dead_exchange(detail: Option<ExchangeDetail>) -> DeadExchange {
    match detail {
        None => DeadExchange::Missing,
        Some(detail) => DeadExchange::Routes {
            keys: detail.bindings.into_iter().map(|one| one.routing_key).collect(),
            kind: detail.kind,
        },
    }
}
