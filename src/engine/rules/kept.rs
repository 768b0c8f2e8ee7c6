//! The policy set that daemons keep in the store, and what a publisher asks it before it makes a queue: no publish
//! calls the broker over HTTP (PROTOCOLS.md 9, 33).

use std::sync::Arc;
use std::time::Duration;

use super::{Rules, compiled};
use crate::ambient::Clock;
use crate::broker::BrokerPolicy;
use crate::domain::broker_rules::{Policies, judge};
use crate::domain::id::QueueName;
use crate::domain::naming::{Naming, delivery_arguments};
use crate::store::{StoreError, StoreHandle};

/// A set that is older says nothing of the policies as they are now.
const GOOD: Duration = Duration::from_secs(15);
/// Between two readings of it.
const READ: Duration = Duration::from_secs(2);
/// How long the store may take; a publisher goes on without it.
const PATIENCE: Duration = Duration::from_secs(2);

/// A policy as it is written: name, pattern, what it applies to, priority, whether it is an operator's, definition.
type Written = (String, String, String, i64, bool, Vec<(String, String)>);

/// When the store was read last (uptime), and what it had: the compiled set with its age then, or why there is none.
pub(super) type LastKept = Option<(Duration, Result<(Duration, Arc<Policies>), String>)>;

/// As it is kept in the store.
pub(super) fn written(policies: &[BrokerPolicy]) -> String {
    let one = |policy: &BrokerPolicy| -> Written {
        let policy = policy.clone();
        let (name, pattern, applies_to) = (policy.name, policy.pattern, policy.applies_to);
        (
            name,
            pattern,
            applies_to,
            policy.priority,
            policy.operator,
            policy.definition,
        )
    };
    let all: Vec<Written> = policies.iter().map(one).collect();
    serde_json::json!(all).to_string()
}

/// As it was kept; an error says that another version of the program wrote it, or nobody of ours.
fn read(document: &str) -> Result<Vec<BrokerPolicy>, serde_json::Error> {
    let all: Vec<Written> = serde_json::from_str(document)?;
    let one = |(name, pattern, applies_to, priority, operator, definition): Written| BrokerPolicy {
        name,
        pattern,
        applies_to,
        priority,
        operator,
        definition,
    };
    Ok(all.into_iter().map(one).collect())
}

impl Rules {
    /// The policies as a daemon read them within the last 15 s, or why they are not known.
    pub(in crate::engine) async fn kept(&self, store: &StoreHandle, clock: &Clock) -> Result<Arc<Policies>, String> {
        let mut last = self.kept.lock().await;
        let now = clock.uptime();
        let read_at = last.as_ref().map(|(at, _)| *at);
        if read_at.is_none_or(|at| now.saturating_sub(at) >= READ) {
            let found = tokio::time::timeout(PATIENCE, kept_now(store)).await;
            let found = found.unwrap_or_else(|_| Err("the store does not answer in time".to_owned()));
            *last = Some((now, found));
        }
        let Some((read_at, found)) = last.as_ref() else {
            return Err("nothing was read".to_owned());
        };
        let (age, policies) = found.as_ref().map_err(Clone::clone)?;
        let age = age.saturating_add(clock.uptime().saturating_sub(*read_at));
        if age > GOOD {
            return Err(format!("no daemon has read them for {} s", age.as_secs()));
        }
        Ok(Arc::clone(policies))
    }

    /// This process is the daemon that keeps them: what it publishes itself is judged by them from now on.
    pub(super) async fn kept_here(&self, now: Duration) {
        *self.kept.lock().await = Some((now, Ok((Duration::ZERO, self.policies()))));
    }

    /// Why a delivery queue that does not exist must not be made: its messages would be destroyed or reordered. What
    /// no daemon knows at present stops nobody, and is said.
    pub(in crate::engine) async fn forbids(
        &self,
        queue: &QueueName,
        naming: &Naming,
        store: &StoreHandle,
        clock: &Clock,
    ) -> Option<String> {
        let policies = match self.kept(store, clock).await {
            Ok(policies) => policies,
            Err(why) => {
                tracing::warn!(queue = ?queue, why = ?why, "a queue is made without a look at the broker's policies");
                return None;
            }
        };
        let arguments: Vec<(String, String)> =
            delivery_arguments(naming.queue_type, &naming.exchange(), &naming.dead_letter_queue())
                .into_iter()
                .map(|(name, value)| (name.to_owned(), value.shown()))
                .collect();
        let judged = judge(queue.as_str(), naming.queue_type, Some(&arguments), &policies);
        judged.destroys.or(judged.breaks_order)
    }
}

async fn kept_now(store: &StoreHandle) -> Result<(Duration, Arc<Policies>), String> {
    let kept = store.broker_policies_kept().await;
    let kept = kept.map_err(|error: StoreError| crate::engine::error::chain(&error))?;
    let kept = kept.ok_or_else(|| "no daemon has read them yet".to_owned())?;
    let policies = read(&kept.document).map_err(|error| format!("they are not understood: {error}"))?;
    Ok((kept.age, Arc::new(compiled(&policies))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        let policies = vec![BrokerPolicy {
            name: "p".to_owned(),
            pattern: "^a\\.".to_owned(),
            applies_to: "queues".to_owned(),
            priority: -3,
            operator: true,
            definition: vec![("expires".to_owned(), "1000".to_owned())],
        }];
        assert_eq!(read(&written(&policies)).unwrap(), policies);
        assert_eq!(read(&written(&[])).unwrap(), []);
        assert!(read("{}").is_err() && read("").is_err());
    }
}
