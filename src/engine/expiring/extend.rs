//! Beginning the time of a queue anew: by a declare where that counts as use, by a policy where that says its
//! lifetime, and not at all elsewhere, with the reason.

use std::time::Duration;

use super::act::failed;
use super::order::{ExpiringOutcome, ExpiringResult, PlannedQueue};
use super::{EXPIRES, LifetimeRecord, facts};
use crate::broker::{BrokerPolicy, Look};
use crate::domain::expiry::{Extends, POLICY_PREFIX, extends, policy_name};
use crate::domain::id::QueueName;
use crate::domain::naming::QueueType;
use crate::engine::EngineError;
use crate::engine::expiring::Expiring;
use crate::engine::rules::compiled;

/// Policies of queues that are gone which one sweep removes, at most.
const REMOVED_MAX: usize = 50;

impl Expiring {
    pub(super) async fn extend_planned(
        &self,
        queues: &[PlannedQueue],
        lifetime: Option<Duration>,
    ) -> Result<Vec<ExpiringOutcome>, EngineError> {
        let mut outcomes = Vec::with_capacity(queues.len());
        for queue in queues {
            outcomes.push(match self.extend(&queue.name, lifetime).await {
                Ok(outcome) => outcome,
                Err(error) => failed(&queue.name, error)?,
            });
        }
        Ok(outcomes)
    }

    async fn extend(&self, queue: &QueueName, wanted: Option<Duration>) -> Result<ExpiringOutcome, EngineError> {
        let Some(record) = self.lifetimes.lifetime_now(queue).await? else {
            return Ok(ExpiringOutcome::left(queue, "it is gone already"));
        };
        let lifetime = match extends(&facts::living(&record), wanted) {
            Extends::No(why) => return Ok(ExpiringOutcome::left(queue, why)),
            Extends::Redeclare => {
                if self.broker.renew(queue).await? == Look::Missing {
                    return Ok(ExpiringOutcome::left(queue, "it is gone already"));
                }
                record.lifetime_ms.map(Duration::from_millis)
            }
            Extends::Policy => {
                self.keep_alive(&record, wanted.unwrap_or_default()).await?;
                wanted
            }
        };
        // Its time begins now; what was known of its last use does not count any more.
        self.store.lifetime_forget(queue).await?;
        let mut outcome = ExpiringOutcome::of(queue.clone(), ExpiringResult::Extended);
        outcome.messages = record.messages.unwrap_or(0);
        outcome.bytes = record.bytes.unwrap_or(0);
        outcome.expires_at = lifetime.map(|lifetime| self.clock.now().plus(lifetime));
        tracing::info!(queue = ?queue, "the lifetime of a queue was restarted");
        Ok(outcome)
    }

    /// A policy for this queue alone, like the one in force but for the lifetime.
    async fn keep_alive(&self, record: &LifetimeRecord, lifetime: Duration) -> Result<(), EngineError> {
        let queue = &record.name;
        let name = policy_name(queue);
        let mut others = self.broker.policies().await?;
        others.retain(|policy| policy.name != name);
        let others = compiled(&others);
        let queue_type = if record.quorum {
            QueueType::Quorum
        } else {
            QueueType::Classic
        };
        let in_force = others
            .in_force(queue.as_str(), queue_type)
            .find(|policy| !policy.operator);
        let mut definition: Vec<(String, String)> = in_force.map(|one| one.definition.clone()).unwrap_or_default();
        definition.retain(|(key, _)| key != EXPIRES);
        definition.push((EXPIRES.to_owned(), lifetime.as_millis().to_string()));
        let policy = BrokerPolicy {
            name,
            pattern: format!("^{}$", regex::escape(queue.as_str())),
            applies_to: "queues".to_owned(),
            priority: in_force.map_or(0, |one| one.priority).saturating_add(1),
            operator: false,
            definition,
        };
        Ok(self.broker.policy_put(&policy).await?)
    }

    /// Policies for one queue each that is gone are removed.
    pub(super) async fn remove_spent_policies(&self, policies: &[BrokerPolicy]) -> Result<(), EngineError> {
        let ours = policies
            .iter()
            .filter(|policy| !policy.operator)
            .filter_map(|policy| Some((policy, policy.name.strip_prefix(POLICY_PREFIX)?)));
        for (policy, queue) in ours.take(REMOVED_MAX) {
            let Ok(queue) = QueueName::parse(queue) else { continue };
            if self.broker.queue_detail(&queue).await?.is_none() {
                self.broker.policy_remove(&policy.name).await?;
            }
        }
        Ok(())
    }
}
