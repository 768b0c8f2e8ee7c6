//! What is looked at once a window has its answers: the targets that are gone, and the full ones to which nothing may
//! be sent again.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::drive::Driver;
use super::taken::{Halt, InHand, TakenRun};
use super::window::{Sent, mark};
use crate::broker::{BrokerError, Look, Published};
use crate::domain::id::QueueName;
use crate::domain::run::{ItemState, Target};
use crate::engine::dead::Way;
use crate::engine::error::chain;
use crate::engine::room::buries;

/// What the broker says of targets after the last confirm.
#[derive(Debug, Default)]
pub(super) struct Aftermath {
    /// They are not there any more.
    gone: BTreeSet<Target>,
    /// They are full, and why the same message is not sent to them again.
    full: BTreeMap<Target, String>,
}

impl Aftermath {
    /// What came of one; an error leaves it open.
    pub(super) fn outcome(&self, target: &Target, sent: Sent) -> Result<(ItemState, Option<String>), BrokerError> {
        Ok(match sent? {
            Published::Accepted if self.gone.contains(target) => (
                ItemState::Failed,
                Some(format!("{target} was deleted while it was filled")),
            ),
            Published::Accepted => (ItemState::Published, None),
            Published::Returned => (
                ItemState::Returned,
                Some(format!("nothing takes it at {target}: the broker returned it")),
            ),
            Published::Refused(reason) => (ItemState::Failed, Some(reason)),
            Published::NotNow(reason) => {
                if let Some(why) = self.full.get(target) {
                    return Ok((ItemState::Failed, Some(why.clone())));
                }
                let detail = format!("{target}: {reason}");
                return Err(BrokerError::Blocked { detail });
            }
        })
    }
}

impl TakenRun<'_> {
    /// docs/protocols.md 12: looks once at each target of a window that the look can say something of.
    pub(super) async fn aftermath(&self, window: &[InHand], sent: &[Sent]) -> Result<Aftermath, Halt> {
        let mut after = Aftermath::default();
        let mut looked_at = BTreeSet::new();
        for (hand, sent) in window.iter().zip(sent) {
            let is_full = match sent {
                Ok(Published::Accepted) => false,
                Ok(Published::NotNow(_)) => true,
                Ok(Published::Returned | Published::Refused(_)) | Err(_) => continue,
            };
            // Ours are looked after by the publish path.
            if self.engine.planner.is_ours(&hand.target) || !looked_at.insert((&hand.target, is_full)) {
                continue;
            }
            if is_full {
                let why = self.not_again(&hand.target).await;
                after.full.extend(why.map(|why| (hand.target.clone(), why)));
            } else if !self.still_has(&hand.target).await? {
                after.gone.insert(hand.target.clone());
            }
        }
        Ok(after)
    }

    /// Whether what the target took is still there: an exchange that is deleted takes nothing out of the queues that it
    /// led to when the run was planned.
    async fn still_has(&self, target: &Target) -> Result<bool, Halt> {
        if self.engine.planner.target_exists(target).await? {
            return Ok(true);
        }
        let Target::Exchange { exchange, routing_key } = target else {
            return Ok(false);
        };
        let led_to: Vec<QueueName> = self
            .document
            .receivers
            .iter()
            .filter(|(name, key, _)| (name, key) == (exchange, routing_key))
            .filter_map(|(.., queues)| queues.as_ref())
            .flatten()
            .filter_map(|name| QueueName::parse(name).ok())
            .collect();
        for queue in led_to {
            if self.engine.broker.look(&queue).await? != Look::Missing {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Why what a full target refused is not sent to it again: others would get it once more each time. `None`: it may
    /// be, or the broker does not tell.
    async fn not_again(&self, target: &Target) -> Option<String> {
        let queues: Vec<QueueName> = match target {
            Target::Queue(queue) => vec![queue.clone()],
            Target::Exchange { exchange, routing_key } => {
                let way = Way {
                    exchange: exchange.clone(),
                    key: Some(routing_key.clone()),
                };
                let reached = self.engine.planner.dead_targets.follow(VecDeque::from([way])).await;
                let names = reached.unwrap_or_default().queues;
                names.iter().filter_map(|name| QueueName::parse(name).ok()).collect()
            }
        };
        for queue in &queues {
            if buries(self.engine, queue).await {
                return Some(format!(
                    "queue {} is full, and made one more dead letter of it (overflow reject-publish-dlx)",
                    queue.as_str()
                ));
            }
        }
        (queues.len() > 1).then(|| {
            format!("one of the queues that take it at {target} is full, and those that are not have it: make room, or send it with --via queue")
        })
    }
}

impl Driver<'_> {
    /// Why this target takes nothing at all, so that what is for other targets does not wait behind it; `None` where
    /// the error says something else, or where there is no other target.
    pub(super) fn refusal(&self, target: &Target, error: &BrokerError) -> Option<String> {
        if self.run.engine.planner.is_ours(target) {
            return None;
        }
        if let BrokerError::NoExchange { exchange } = error {
            return Some(format!("there is no exchange {exchange:?} any more"));
        }
        let has_others = self.run.document.targets.len() > 1;
        (has_others && matches!(error, BrokerError::Rights { .. })).then(|| chain(error))
    }

    /// Those whose target may still take something. The others fail without being sent: each would end the channel on
    /// which the rest is sent.
    pub(super) async fn acceptable(&mut self, fresh: Vec<InHand>) -> Result<Vec<InHand>, Halt> {
        let (refused, fresh): (Vec<InHand>, Vec<InHand>) = fresh
            .into_iter()
            .partition(|hand| self.care.refusing.contains_key(&hand.target));
        if refused.is_empty() {
            return Ok(fresh);
        }
        let mut marks = Vec::with_capacity(refused.len());
        for hand in &refused {
            let why = self.care.refusing.get(&hand.target).cloned();
            marks.push(mark(hand.ordinal, ItemState::Failed, why));
            self.journal.counts.count(ItemState::Failed);
        }
        self.journal.record(&self.run, marks).await?;
        Ok(fresh)
    }
}
