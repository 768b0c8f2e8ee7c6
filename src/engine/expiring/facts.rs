//! What a listing says of the life of a queue.

use std::time::Duration;

use super::{EXPIRES, Lifetimes};
use crate::broker::ListedQueue;
use crate::domain::broker_rules::Policies;
use crate::domain::expiry::{Living, Looked, unused_since};
use crate::domain::naming::QueueType;
use crate::store::LifetimeRecord;

/// The shortest of what arguments and policies say, in milliseconds, as the broker takes it.
pub(super) fn lifetime_ms(listed: &ListedQueue, policies: &Policies) -> Option<u64> {
    let millis = policies.smallest(&listed.declared(), EXPIRES)?;
    u64::try_from(millis).ok()
}

impl Lifetimes {
    /// A queue as it is listed, with what was known of it `before`.
    pub(super) fn record(
        &self,
        listed: ListedQueue,
        policies: &Policies,
        before: Option<&LifetimeRecord>,
    ) -> LifetimeRecord {
        let lifetime_ms = lifetime_ms(&listed, policies);
        let lifetime = lifetime_ms.map(Duration::from_millis);
        let declared = listed.declared();
        let argument = Policies::default().smallest(&declared, EXPIRES);
        let by_operator = policies
            .in_force(declared.name, declared.queue_type)
            .any(|policy| policy.operator && policy.definition.iter().any(|(key, _)| key == EXPIRES));
        let unused_since = unused_since(
            before.and_then(|before| before.unused_since),
            &Looked {
                at: listed.taken_at,
                in_use: listed.consumers.unwrap_or(0) > 0,
                idle_since: listed.idle_since,
                exact: self.tells_exactly(),
                lifetime,
            },
        );
        LifetimeRecord {
            quorum: is_quorum(&listed),
            lifetime_ms,
            argument_ms: argument.and_then(|millis| u64::try_from(millis).ok()),
            by_operator,
            consumers: listed.consumers,
            messages: listed.ready.map(|ready| ready + listed.unacked.unwrap_or(0)),
            bytes: listed.bytes,
            unused_since,
            expires_at: unused_since.zip(lifetime).map(|(since, lifetime)| since.plus(lifetime)),
            seen_at: listed.taken_at,
            name: listed.name,
        }
    }
}

pub(super) fn is_quorum(listed: &ListedQueue) -> bool {
    listed.declared().queue_type == QueueType::Quorum
}

/// What decides whether its time can begin anew.
pub(super) fn living(record: &LifetimeRecord) -> Living {
    Living {
        quorum: record.quorum,
        argument: record.argument_ms.map(Duration::from_millis),
        lifetime: record.lifetime_ms.map(Duration::from_millis),
        by_operator: record.by_operator,
        consumers: record.consumers.unwrap_or(0),
    }
}
