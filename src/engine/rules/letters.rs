//! The dead-letter queue is judged like every other: a policy that empties it would lose what was given up as safely
//! kept (docs/protocols.md 33). While one does, nothing more is put into it. So it is while one sends what no queue
//! takes elsewhere: a dead letter would seem to be stored where the queue is missing.

use std::sync::PoisonError;

use super::Rules;
use crate::domain::broker_rules::{Policies, judge, judge_exchange};
use crate::domain::id::QueueName;
use crate::domain::time::Timestamp;
use crate::engine::Event;
use crate::engine::error::chain;
use crate::engine::rules::PolicyGuard;
use crate::engine::view::Check;

impl Rules {
    /// Why dead letters would not last, or not arrive, at present.
    pub(in crate::engine) fn letters_at_risk(&self) -> Option<String> {
        let letters = self.letters.read().unwrap_or_else(PoisonError::into_inner).clone();
        letters.or_else(|| self.exchange_at_risk().map(|(reason, _)| reason))
    }

    /// Why nothing is published through our exchange at present, and since when, as this daemon knows it.
    pub(in crate::engine) fn exchange_at_risk(&self) -> Option<(String, Timestamp)> {
        self.exchange.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// True when that changed.
    fn letters_are(&self, at_risk: Option<&str>) -> bool {
        let mut letters = self.letters.write().unwrap_or_else(PoisonError::into_inner);
        let changed = letters.as_deref() != at_risk;
        *letters = at_risk.map(str::to_owned);
        changed
    }
}

impl PolicyGuard {
    /// Judges the dead-letter queue by the policies as they were read last; what cannot be asked stays as it was.
    pub(super) async fn judge_letters(&self) {
        let Some(queue) = self.letters_queue() else { return };
        let arguments = match self.broker.queue_detail(&queue).await {
            Ok(found) => found.map(|found| found.arguments),
            Err(error) => {
                tracing::debug!(error = ?error, "the dead-letter queue is judged by policies alone");
                None
            }
        };
        let judged = self.judged(&queue, arguments.as_deref());
        if !self.rules.letters_are(judged.destroys.as_deref()) {
            return;
        }
        if let Some(reason) = judged.destroys {
            tracing::error!(queue = ?queue, reason = ?reason, "nothing more is dead-lettered: a broker policy destroys dead letters");
            self.tell(Event::QueueRefused { queue, reason });
        } else {
            tracing::info!(queue = ?queue, "dead letters are kept again");
        }
    }

    fn letters_queue(&self) -> Option<QueueName> {
        QueueName::parse(&self.settings.naming.dead_letter_queue()).ok()
    }

    /// Why dead letters wait, as any process can tell it: by the policies that a daemon keeps.
    pub(in crate::engine) async fn letters_wait(&self) -> Option<String> {
        let policies = self.rules.kept(&self.store, &self.clock).await.ok()?;
        policies.letters(&self.settings.naming)
    }

    /// For `doctor`: dead letters that would not last, and an exchange that gives nothing back.
    pub(in crate::engine) async fn checks(&self) -> Vec<Check> {
        let read = match self.broker.policies().await {
            Ok(read) => read,
            Err(error) => return vec![Check::unread("policies", &chain(&error))],
        };
        let told = self.ask_of_odd(&read).await;
        let policies = super::compiled(&read).with_told(told);
        let exchange = judge_exchange(&self.settings.naming.exchange(), &policies).map(|reason| {
            Check::broken(
                "exchange",
                format!("nothing is published: {reason}"),
                "take it off this exchange: until then publishes are refused, and what would be dead-lettered waits in \
                 its queue",
            )
        });
        exchange
            .into_iter()
            .chain(self.letters_check(&policies).await)
            .collect()
    }

    async fn letters_check(&self, policies: &Policies) -> Option<Check> {
        let queue = self.letters_queue()?;
        let arguments = match self.broker.queue_detail(&queue).await {
            Ok(found) => found.map(|found| found.arguments),
            Err(error) => return Some(Check::unread("dead letters", &chain(&error))),
        };
        let queue_type = self.settings.naming.queue_type;
        let reason = judge(queue.as_str(), queue_type, arguments.as_deref(), policies).destroys?;
        Some(Check::broken(
            "dead letters",
            format!("{:?} does not keep them: {reason}", queue.as_str()),
            "take it off this queue: until then nothing is dead-lettered, and what would be waits in its queue",
        ))
    }
}
