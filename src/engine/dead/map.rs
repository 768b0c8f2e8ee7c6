//! How messages come into a queue, and where those go that die in it: queue by queue, until nothing dies any further.
//!
//! Of what cannot be told from here (a headers exchange, a letter whose key nobody knows) every queue that may be meant
//! is followed, and the reason stands beside it.

use std::collections::{BTreeSet, VecDeque};

use super::DeadTargets;
use super::ways::{Exchanges, Way};
use crate::domain::broker_rules::Policies;
use crate::domain::id::QueueName;
use crate::domain::on_broker::QueueBinding;
use crate::domain::words::{count, plural};
use crate::engine::EngineError;
use crate::engine::rules::compiled;

/// Queues that are followed, at most.
const STEPS_MAX: usize = 30;
/// Names in a sentence, at most.
const NAMED_MAX: usize = 3;

/// A queue on the way, with what leads into it and out of it.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct QueueStep {
    /// Its name (from outside).
    pub name: String,
    /// Whether it is there: messages that go to one that is not are gone.
    pub is_there: bool,
    /// Messages that wait in it.
    pub ready: Option<u64>,
    /// Messages that are in flight.
    pub unacked: Option<u64>,
    /// How many consume it.
    pub consumers: Option<u64>,
    /// What brings messages, beside the default exchange; at most [`crate::domain::on_broker::NAMED_MAX`].
    pub bindings: Vec<QueueBinding>,
    /// Where messages go that die in it; `None`: they are gone.
    pub dies_to: Option<DiesTo>,
}

/// Where messages go that die in a queue.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct DiesTo {
    /// The exchange, empty for the default one.
    pub exchange: String,
    /// The key that they get; `None`: they keep their own.
    pub routing_key: Option<String>,
    /// The queues that it leads to, those that are only possible too.
    pub queues: Vec<String>,
    /// Why that is not certain.
    pub doubts: Vec<String>,
}

impl QueueStep {
    /// What is in it, in a few words.
    #[must_use]
    pub fn holds(&self) -> String {
        if !self.is_there {
            return "there is no such queue: what goes there is gone".to_owned();
        }
        let number = |number: Option<u64>| number.map_or_else(|| "?".to_owned(), count);
        let consumers = match self.consumers {
            None => "who consumes it is not known".to_owned(),
            Some(0) => "nobody consumes it".to_owned(),
            Some(consumers) => plural(consumers, "consumer", "consumers"),
        };
        format!(
            "{} ready, {} in flight, {consumers}",
            number(self.ready),
            number(self.unacked)
        )
    }

    /// What brings messages into it, in one line.
    #[must_use]
    pub fn comes_by(&self) -> String {
        let by: Vec<String> = self
            .bindings
            .iter()
            .take(NAMED_MAX)
            .map(|binding| through(&binding.exchange, Some(&binding.key)))
            .collect();
        match self.bindings.len().saturating_sub(NAMED_MAX) {
            0 if by.is_empty() => "its name alone (default exchange)".to_owned(),
            0 => by.join(", "),
            more => format!("{}, and {more} more", by.join(", ")),
        }
    }

    /// Where messages go that die in it, in one line.
    #[must_use]
    pub fn dead_letters(&self) -> String {
        let Some(dies_to) = &self.dies_to else {
            return "nowhere: what dies in it is gone".to_owned();
        };
        let way = through(&dies_to.exchange, dies_to.routing_key.as_deref());
        let names = dies_to.queues.iter().take(NAMED_MAX).cloned();
        let mut to = names.collect::<Vec<_>>().join(", ");
        if dies_to.queues.len() > NAMED_MAX {
            to = format!("{to}, and {} more", dies_to.queues.len() - NAMED_MAX);
        }
        let doubt = dies_to.doubts.first().map(|doubt| format!(" ({doubt})"));
        let doubt = doubt.unwrap_or_default();
        if to.is_empty() && doubt.is_empty() {
            return format!("{way}: no queue takes them there, they are gone");
        }
        if to.is_empty() {
            "no queue that is known".clone_into(&mut to);
        }
        format!("{way} to {to}{doubt}")
    }

    /// Whether messages are lost behind it, or may be.
    #[must_use]
    pub fn loses(&self) -> bool {
        let leads_nowhere = |dies_to: &DiesTo| dies_to.queues.is_empty() && dies_to.doubts.is_empty();
        !self.is_there || self.dies_to.as_ref().is_some_and(leads_nowhere)
    }
}

fn through(exchange: &str, key: Option<&str>) -> String {
    let key = key.map_or_else(|| "their own key".to_owned(), |key| format!("key {key:?}"));
    let exchange = if exchange.is_empty() {
        "the default exchange"
    } else {
        exchange
    };
    format!("{exchange} ({key})")
}

impl DeadTargets {
    /// The queue and those that its dead letters get to, in the order of the way; the first is the queue itself.
    pub(in crate::engine) async fn map(&self, name: &QueueName) -> Result<Vec<QueueStep>, EngineError> {
        let policies = compiled(&self.listed(self.broker.policies().await)?);
        let (mut exchanges, mut seen) = (Exchanges::new(), BTreeSet::from([name.as_str().to_owned()]));
        let (mut steps, mut next) = (Vec::new(), VecDeque::from([name.as_str().to_owned()]));
        while let Some(name) = next.pop_front() {
            let step = self.step_of(name, &policies, &mut exchanges).await?;
            let behind = step.dies_to.iter().flat_map(|dies_to| &dies_to.queues);
            for queue in behind {
                if seen.len() < STEPS_MAX && seen.insert(queue.clone()) {
                    next.push_back(queue.clone());
                }
            }
            steps.push(step);
        }
        match steps.first() {
            Some(first) if !first.is_there => Err(EngineError::NotFound {
                what: format!("queue {:?}", name.as_str()),
            }),
            Some(_) | None => Ok(steps),
        }
    }

    async fn step_of(
        &self,
        name: String,
        policies: &Policies,
        exchanges: &mut Exchanges,
    ) -> Result<QueueStep, EngineError> {
        let nothing = QueueStep {
            name,
            is_there: false,
            ready: None,
            unacked: None,
            consumers: None,
            bindings: Vec::new(),
            dies_to: None,
        };
        let Ok(queue) = QueueName::parse(&nothing.name) else {
            return Ok(nothing);
        };
        let Some(listed) = self.listed(self.broker.queue_detail(&queue).await)? else {
            return Ok(nothing);
        };
        let bindings = self.listed(self.broker.queue_bindings(&queue).await)?;
        let text = |key: &str| policies.text(&listed.declared(), key).map(str::to_owned);
        let way = match text("dead-letter-exchange") {
            Some(exchange) => Some((exchange, text("dead-letter-routing-key"))),
            // What dies of a delivery queue is published to ours before it is acked, wherever the broker would put it.
            None => (self.settings.naming.is_delivery_queue(queue.as_str()))
                .then(|| (String::new(), Some(self.settings.naming.dead_letter_queue()))),
        };
        let dies_to = match way {
            None => None,
            Some((exchange, key)) => Some(self.dies_to(&queue, exchange, key, exchanges).await?),
        };
        Ok(QueueStep {
            is_there: true,
            ready: listed.ready,
            unacked: listed.unacked,
            consumers: listed.consumers,
            bindings,
            dies_to,
            ..nothing
        })
    }

    async fn dies_to(
        &self,
        queue: &QueueName,
        exchange: String,
        routing_key: Option<String>,
        exchanges: &mut Exchanges,
    ) -> Result<DiesTo, EngineError> {
        if exchange.is_empty() {
            // Without a key of its own a letter has the name of the queue that it came to by the same exchange.
            let to = routing_key.clone().unwrap_or_else(|| queue.as_str().to_owned());
            return Ok(DiesTo {
                exchange,
                routing_key,
                queues: vec![to],
                doubts: Vec::new(),
            });
        }
        let way = Way {
            exchange: exchange.clone(),
            key: routing_key.clone(),
        };
        let reached = self.listed(self.follow_among(VecDeque::from([way]), exchanges).await)?;
        Ok(DiesTo {
            exchange,
            routing_key,
            queues: reached.queues.into_iter().collect(),
            doubts: reached.doubts.into_iter().collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(dies_to: Option<DiesTo>) -> QueueStep {
        QueueStep {
            name: "orders".to_owned(),
            is_there: true,
            ready: Some(1_200),
            unacked: Some(3),
            consumers: Some(0),
            bindings: vec![QueueBinding {
                exchange: "events".to_owned(),
                key: "order.#".to_owned(),
            }],
            dies_to,
        }
    }

    fn to(queues: &[&str], doubts: &[&str]) -> DiesTo {
        let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        DiesTo {
            exchange: "dlx".to_owned(),
            routing_key: Some("dead".to_owned()),
            queues: owned(queues),
            doubts: owned(doubts),
        }
    }

    #[test]
    fn each_step_says_what_is_in_it_and_where_its_dead_letters_go() {
        assert_eq!(step(None).holds(), "1,200 ready, 3 in flight, nobody consumes it");
        assert_eq!(step(None).comes_by(), "events (key \"order.#\")");
        assert_eq!(step(None).dead_letters(), "nowhere: what dies in it is gone");
        let certain = step(Some(to(&["a", "b", "c", "d"], &[])));
        assert_eq!(certain.dead_letters(), "dlx (key \"dead\") to a, b, c, and 1 more");
        let nowhere = step(Some(to(&[], &[])));
        assert_eq!(
            nowhere.dead_letters(),
            "dlx (key \"dead\"): no queue takes them there, they are gone"
        );
        assert!(nowhere.loses() && !certain.loses() && !step(None).loses());
        let doubted = step(Some(to(&[], &["it is of type \"headers\""])));
        assert_eq!(
            doubted.dead_letters(),
            "dlx (key \"dead\") to no queue that is known (it is of type \"headers\")"
        );
        assert!(!doubted.loses());
    }
}
