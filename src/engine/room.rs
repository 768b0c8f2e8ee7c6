//! What a queue of others would lose of what is sent to it: a full one drops its oldest messages and tells nobody, or
//! refuses new ones and makes dead letters of them all the same, and one with a lifetime for messages drops what nobody
//! takes in time.

use std::collections::BTreeMap;
use std::ops::AddAssign;
use std::time::Duration;

use super::EngineError;
use super::core::Core;
use super::rules::compiled;
use crate::broker::{ListedQueue, Look};
use crate::domain::broker_rules::{Fate, Measure, Policies, Value, bounds, burying_bounds, fate};
use crate::domain::id::QueueName;
use crate::domain::words::{lasts, plural};

/// Queues of one plan that are asked for one by one; where there are more, all queues are listed once.
const ASKED_MAX: usize = 50;

/// What is sent to a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Load {
    pub(super) messages: u64,
    /// Of their bodies.
    pub(super) bytes: u64,
}

impl AddAssign for Load {
    fn add_assign(&mut self, other: Self) {
        self.messages += other.messages;
        self.bytes += other.bytes;
    }
}

/// What a person should know of the room in the queues that messages go to. Refused where some would be lost and
/// nobody takes any. What the broker does not tell stops nothing.
pub(super) async fn warn_of_room(core: &Core, sent: &BTreeMap<QueueName, Load>) -> Result<Vec<String>, EngineError> {
    let mut warnings = Vec::new();
    if sent.is_empty() {
        return Ok(warnings);
    }
    let policies = compiled(&core.broker.policies().await.unwrap_or_default());
    for listed in listed(core, sent).await {
        let Some(sent) = sent.get(&listed.name).filter(|_| limits(&listed, &policies)) else {
            continue;
        };
        let Ok(Look::Present { ready, consumers }) = core.broker.look(&listed.name).await else {
            continue;
        };
        let has = in_queue(&listed, ready, *sent);
        for says in overflows(&listed, has, *sent, &policies) {
            if fate(&listed.declared(), &policies) == Fate::Lost && consumers == 0 {
                let mend = "raise it, set its overflow to reject-publish, or send fewer";
                return Err(EngineError::Refused {
                    why: format!("{says}; {mend}"),
                });
            }
            warnings.push(format!("{says}, unless its consumers take them sooner"));
        }
        for says in refused_and_buried(&listed, has, *sent, &policies) {
            if consumers == 0 {
                let mend = "take messages out of it, raise it, or send fewer";
                return Err(EngineError::Refused {
                    why: format!("{says}; {mend}"),
                });
            }
            warnings.push(format!("{says}, unless its consumers make room sooner"));
        }
        warnings.extend(dies_in(&listed, &policies));
    }
    Ok(warnings)
}

/// What the broker tells of these queues, and of others where they are many; in the order of their names.
async fn listed(core: &Core, sent: &BTreeMap<QueueName, Load>) -> Vec<ListedQueue> {
    if sent.len() > ASKED_MAX {
        let mut all = core
            .broker
            .queues_all()
            .await
            .map_or_else(|_| Vec::new(), |all| all.queues);
        all.sort_by(|a, b| a.name.cmp(&b.name));
        return all;
    }
    let mut listed = Vec::with_capacity(sent.len());
    for queue in sent.keys() {
        if let Ok(Some(one)) = core.broker.queue_detail(queue).await {
            listed.push(one);
        }
    }
    listed
}

/// Whether the queue keeps only so much, or only for so long.
fn limits(listed: &ListedQueue, policies: &Policies) -> bool {
    !bounds(&listed.declared(), policies).is_empty()
        || buries_what_it_refuses(listed, policies)
        || dies_in(listed, policies).is_some()
}

fn buries_what_it_refuses(listed: &ListedQueue, policies: &Policies) -> bool {
    !burying_bounds(&listed.declared(), policies).is_empty()
}

/// Whether a queue that refused a message made a dead letter of it: sent again, it would be one more each time. What
/// the broker does not tell is not so.
pub(super) async fn buries(core: &Core, queue: &QueueName) -> bool {
    let policies = compiled(&core.broker.policies().await.unwrap_or_default());
    let listed = core.broker.queue_detail(queue).await;
    matches!(listed, Ok(Some(listed)) if buries_what_it_refuses(&listed, &policies))
}

/// What waits in a queue at this moment. Statistics lag behind: what they do not count yet is taken to be as large as
/// what is sent, on average.
fn in_queue(listed: &ListedQueue, ready: u64, sent: Load) -> Load {
    let counted = listed.ready.unwrap_or(0);
    let bytes = listed.bytes.unwrap_or(0);
    let bytes = match ready.checked_sub(counted) {
        Some(more) => bytes.saturating_add(more.saturating_mul(sent.bytes / sent.messages.max(1))),
        None => bytes.saturating_mul(ready) / counted,
    };
    Load { messages: ready, bytes }
}

/// What does not fit, by each bound of the queue.
fn overflows(listed: &ListedQueue, has: Load, sent: Load, policies: &Policies) -> Vec<String> {
    if listed.is_stream() {
        return Vec::new();
    }
    let declared = listed.declared();
    let becomes = match fate(&declared, policies) {
        Fate::Lost => "be lost",
        Fate::DeadLetter => "become dead letters",
    };
    let overflow = |bound| {
        let (says, over) = beyond(listed, bound, has, sent)?;
        Some(format!("{says}, the oldest {over} would {becomes}"))
    };
    bounds(&declared, policies).into_iter().filter_map(overflow).collect()
}

/// What does not fit into a queue that makes dead letters of what it refuses, by each bound of it.
fn refused_and_buried(listed: &ListedQueue, has: Load, sent: Load, policies: &Policies) -> Vec<String> {
    let overflow = |bound| {
        let (says, over) = beyond(listed, bound, has, sent)?;
        Some(format!(
            "{says}, it would refuse {over} and make one more dead letter of each (overflow reject-publish-dlx)"
        ))
    };
    let bounds = burying_bounds(&listed.declared(), policies);
    bounds.into_iter().filter_map(overflow).collect()
}

/// How far what is sent goes over a bound, with the beginning of the sentence about it; `None` where it fits.
fn beyond(listed: &ListedQueue, bound: (Measure, Value), has: Load, sent: Load) -> Option<(String, u64)> {
    let (measure, bound) = bound;
    let (has, sent, [one, many]) = match measure {
        Measure::Messages => (has.messages, sent.messages, ["message", "messages"]),
        Measure::Bytes => (has.bytes, sent.bytes, ["byte", "bytes"]),
    };
    let most = u64::try_from(bound.number()?).ok()?;
    let over = has.saturating_add(sent).checked_sub(most).filter(|over| *over > 0)?;
    let says = format!(
        "queue {} keeps {} at most ({} by {}) and has {has}: with {sent} more",
        listed.name.as_str(),
        plural(most, one, many),
        measure.key(),
        bound.origin,
    );
    Some((says, over))
}

/// How long the queue keeps what is sent to it, where it does not keep it until somebody takes it.
fn dies_in(listed: &ListedQueue, policies: &Policies) -> Option<String> {
    let declared = listed.declared();
    let lifetime = policies.value(&declared, "message-ttl")?;
    let span = match u64::try_from(lifetime.number()?).ok()? {
        millis @ 0..1_000 => format!("{millis} ms"),
        millis => lasts(Duration::from_millis(millis)),
    };
    let becomes = match fate(&declared, policies) {
        Fate::Lost => "is lost",
        Fate::DeadLetter => "becomes a dead letter",
    };
    Some(format!(
        "queue {} keeps a message for {span} (message-ttl by {}): what nobody takes by then {becomes}",
        listed.name.as_str(),
        lifetime.origin,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::time::Timestamp;

    const SENT: Load = Load {
        messages: 4,
        bytes: 400,
    };

    fn queue(arguments: &[(&str, &str)], ready: u64, bytes: u64) -> ListedQueue {
        ListedQueue {
            ready: Some(ready),
            arguments: arguments
                .iter()
                .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
                .collect(),
            name: QueueName::parse("small").unwrap(),
            queue_type: None,
            unacked: None,
            bytes: Some(bytes),
            consumers: None,
            oldest_at: None,
            idle_since: None,
            state: None,
            auto_delete: false,
            redelivered: None,
            policy: None,
            taken_at: Timestamp::EPOCH,
        }
    }

    fn told(arguments: &[(&str, &str)], messages: u64, bytes: u64) -> Vec<String> {
        let has = Load { messages, bytes };
        overflows(&queue(arguments, messages, bytes), has, SENT, &Policies::default())
    }

    #[test]
    fn what_does_not_fit_is_told_with_its_fate() {
        let bound = ("x-max-length", "3");
        assert_eq!(told(&[], 5, 100), [""; 0]);
        assert_eq!(told(&[("x-max-length", "6")], 2, 2), [""; 0]);
        assert_eq!(told(&[bound, ("x-overflow", "reject-publish")], 3, 9), [""; 0]);
        assert_eq!(
            told(&[bound], 2, 4),
            [
                "queue small keeps 3 messages at most (max-length by argument x-max-length) and has 2: with 4 more, the \
              oldest 3 would be lost"
            ]
        );
        let [says] = &told(&[bound, ("x-dead-letter-exchange", "")], 2, 4)[..] else {
            panic!("one bound");
        };
        assert!(says.ends_with("would become dead letters"), "{says}");
    }

    #[test]
    fn a_queue_that_makes_dead_letters_of_what_it_refuses_is_told_of_too() {
        let dlx = [
            ("x-max-length", "3"),
            ("x-overflow", "reject-publish-dlx"),
            ("x-dead-letter-exchange", ""),
        ];
        let has = |messages| Load { messages, bytes: 4 };
        let queue = queue(&dlx, 2, 4);
        assert_eq!(overflows(&queue, has(2), SENT, &Policies::default()), [""; 0]);
        assert_eq!(
            refused_and_buried(&queue, has(2), SENT, &Policies::default()),
            [
                "queue small keeps 3 messages at most (max-length by argument x-max-length) and has 2: with 4 more, it \
                 would refuse 3 and make one more dead letter of each (overflow reject-publish-dlx)"
            ]
        );
        let one = Load { messages: 1, bytes: 1 };
        assert_eq!(refused_and_buried(&queue, has(2), one, &Policies::default()), [""; 0]);
    }

    #[test]
    fn a_bound_of_bytes_is_told_as_well() {
        let bytes = ("x-max-length-bytes", "450");
        assert_eq!(told(&[bytes], 1, 50), [""; 0]);
        let says = told(&[bytes], 1, 100);
        assert!(
            says[0].contains("keeps 450 bytes at most")
                && says[0].ends_with("has 100: with 400 more, the oldest 50 would be lost"),
            "{says:?}"
        );
        assert_eq!(told(&[("x-max-length", "1"), bytes], 1, 100).len(), 2);
    }

    #[test]
    fn what_the_statistics_do_not_count_yet_has_bytes_too() {
        let in_queue = |counted, bytes, ready| in_queue(&queue(&[], counted, bytes), ready, SENT).bytes;
        assert_eq!(in_queue(2, 30, 2), 30);
        assert_eq!(in_queue(0, 0, 2), 200);
        assert_eq!(in_queue(2, 30, 3), 130);
        assert_eq!(in_queue(2, 30, 1), 15);
        assert_eq!(in_queue(2, 30, 0), 0);
    }

    #[test]
    fn a_lifetime_of_messages_is_told_with_what_becomes_of_them() {
        let told = |arguments: &[(&str, &str)]| dies_in(&queue(arguments, 0, 0), &Policies::default());
        assert_eq!(told(&[("x-expires", "1")]), None);
        assert_eq!(
            told(&[("x-message-ttl", "1")]).unwrap(),
            "queue small keeps a message for 1 ms (message-ttl by argument x-message-ttl): what nobody takes by then is lost"
        );
        let both = [("x-message-ttl", "90000"), ("x-dead-letter-exchange", "")];
        let says = told(&both).unwrap();
        assert!(
            says.contains("for 1 min 30 s") && says.ends_with("becomes a dead letter"),
            "{says}"
        );
    }
}
