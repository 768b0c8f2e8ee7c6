//! What a queue of others would lose of what is sent to it: a full one drops its oldest messages and tells nobody.

use std::collections::BTreeMap;

use super::RunPlanner;
use super::plan::Gathered;
use crate::broker::{ListedQueue, Look};
use crate::domain::broker_rules::Policies;
use crate::domain::id::QueueName;
use crate::domain::run::Target;
use crate::domain::words::plural;
use crate::engine::EngineError;
use crate::engine::rules::compiled;

/// Queues of one plan that are looked at.
const LOOKED_AT_MAX: usize = 50;

impl RunPlanner {
    /// What a person should know of the room in the queues that messages go to. Refused where some would be lost and
    /// nobody takes any. What the broker does not tell stops nothing.
    pub(super) async fn warn_of_room(&self, gathered: &Gathered) -> Result<Vec<String>, EngineError> {
        let mut warnings = Vec::new();
        let mut policies = None;
        for (queue, sent) in self.sent_to_others(gathered).into_iter().take(LOOKED_AT_MAX) {
            let (Ok(Some(listed)), Ok(Look::Present { ready, consumers })) =
                (self.broker.queue_detail(&queue).await, self.broker.look(&queue).await)
            else {
                continue;
            };
            // As it is at this moment: statistics lag.
            let listed = ListedQueue {
                ready: Some(ready),
                ..listed
            };
            let policies = match &policies {
                Some(read) => read,
                None => policies.insert(compiled(&self.broker.policies().await.unwrap_or_default())),
            };
            let Some(overflow) = overflow(&listed, sent, policies) else {
                continue;
            };
            if overflow.is_loss && consumers == 0 {
                let mend = "raise it, set its overflow to reject-publish, or send fewer";
                return Err(EngineError::Refused {
                    why: format!("{}; {mend}", overflow.says),
                });
            }
            warnings.push(format!("{}, unless its consumers take them sooner", overflow.says));
        }
        Ok(warnings)
    }

    fn sent_to_others(&self, gathered: &Gathered) -> BTreeMap<QueueName, u64> {
        let mut sent: BTreeMap<QueueName, u64> = gathered.ways.sent();
        for target in gathered.targets.keys() {
            if let Target::Queue(queue) = target {
                *sent.entry(queue.clone()).or_default() += gathered.sent_to(target);
            }
        }
        sent.retain(|queue, _| !self.settings.naming.is_delivery_queue(queue.as_str()));
        sent
    }
}

/// What does not fit.
struct Overflow {
    says: String,
    /// It is gone: it does not become a dead letter.
    is_loss: bool,
}

fn overflow(listed: &ListedQueue, sent: u64, policies: &Policies) -> Option<Overflow> {
    let declared = listed.declared();
    let refuses = policies.text(&declared, "overflow");
    if refuses.is_some_and(|overflow| overflow.starts_with("reject-publish")) {
        return None;
    }
    let most = u64::try_from(policies.smallest(&declared, "max-length")?).ok()?;
    let ready = listed.ready?;
    let over = (ready + sent).checked_sub(most).filter(|over| *over > 0)?;
    let is_loss = policies.text(&declared, "dead-letter-exchange").is_none();
    let fate = if is_loss { "be lost" } else { "become dead letters" };
    Some(Overflow {
        says: format!(
            "queue {} keeps {} at most (max-length) and has {ready}: with {sent} more, the oldest {over} would {fate}",
            listed.name.as_str(),
            plural(most, "message", "messages"),
        ),
        is_loss,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::time::Timestamp;

    fn told(arguments: &[(&str, &str)], ready: u64, sent: u64) -> Option<(bool, String)> {
        let queue = ListedQueue {
            ready: Some(ready),
            arguments: arguments
                .iter()
                .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
                .collect(),
            name: QueueName::parse("small").unwrap(),
            queue_type: None,
            unacked: None,
            bytes: None,
            consumers: None,
            oldest_at: None,
            idle_since: None,
            state: None,
            auto_delete: false,
            redelivered: None,
            policy: None,
            taken_at: Timestamp::EPOCH,
        };
        overflow(&queue, sent, &Policies::default()).map(|overflow| (overflow.is_loss, overflow.says))
    }

    #[test]
    fn what_does_not_fit_is_told_with_its_fate() {
        let bound = ("x-max-length", "3");
        assert_eq!(told(&[], 5, 100), None);
        assert_eq!(told(&[bound], 1, 2), None);
        assert_eq!(told(&[bound, ("x-overflow", "reject-publish")], 3, 9), None);
        let (is_loss, says) = told(&[bound], 2, 4).unwrap();
        assert!(
            is_loss && says.ends_with("has 2: with 4 more, the oldest 3 would be lost"),
            "{says}"
        );
        let (is_loss, says) = told(&[bound, ("x-dead-letter-exchange", "")], 2, 4).unwrap();
        assert!(!is_loss && says.ends_with("would become dead letters"), "{says}");
    }
}
