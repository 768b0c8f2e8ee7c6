//! Who receives what is redriven: an exchange may lead to more queues than the one that a letter died in, and each
//! of them would get it again.
//!
//! 1. The queue of origin alone is bound for the key: letters go through the exchange, as they came.
//! 2. Anything else, or nobody can tell: they go straight to that queue, and the plan says so.
//! 3. A person decides otherwise with `via`, and the plan says who gets them again.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::RunPlanner;
use super::letters::Letter;
use super::order::{Order, Via};
use crate::broker::BrokerError;
use crate::domain::id::QueueName;
use crate::domain::run::Target;
use crate::engine::EngineError;
use crate::engine::command::Receivers;
use crate::engine::dead::{Exchanges, Way};
use crate::engine::error::chain;
use crate::engine::room::Load;

/// Answers about keys that are kept.
const KEYS_MAX: usize = 10_000;
/// Ways that a plan tells apart.
const TOLD_MAX: usize = 50;
/// Queues that one sentence names.
const NAMED_MAX: usize = 8;

/// Which queues get what is published to an exchange with a key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Bound {
    Known(BTreeSet<String>),
    /// Not known from here, and why.
    Unknown(String),
}

/// Letters that go back alike.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Alike {
    exchange: String,
    died_in: Option<String>,
    bound: Bound,
    via: Via,
}

#[derive(Debug, Default)]
struct Counted {
    key: String,
    keys: BTreeSet<String>,
    sent: Load,
}

/// What was found out while a plan is made.
#[derive(Debug, Default)]
pub(super) struct WaysBack {
    exchanges: Exchanges,
    bound: BTreeMap<(String, String), Bound>,
    told: BTreeMap<Alike, Counted>,
    untold: u64,
}

impl RunPlanner {
    /// By which way a letter goes back that was published to an exchange with a key, or why it goes nowhere.
    pub(super) async fn way_back(
        &self,
        order: &Order,
        letter: &Letter,
        published: (&str, &str),
        ways: &mut WaysBack,
    ) -> Result<Result<Target, String>, EngineError> {
        let (exchange, key) = published;
        let bound = self.bound(exchange, key, ways).await?;
        let via = order.via.unwrap_or_else(|| best(&bound, letter.died_in.as_ref()));
        let target = match (via, &letter.died_in) {
            (Via::Exchange, _) => Ok(Target::Exchange {
                exchange: exchange.to_owned(),
                routing_key: key.to_owned(),
            }),
            (Via::Queue, Some(queue)) => Ok(Target::Queue(queue.clone())),
            (Via::Queue, None) => Err(nowhere(exchange, key, &bound)),
        };
        if target.is_ok() {
            ways.count(exchange, key, letter, bound, via);
        }
        Ok(target)
    }

    async fn bound(&self, exchange: &str, key: &str, ways: &mut WaysBack) -> Result<Bound, EngineError> {
        let asked = (exchange.to_owned(), key.to_owned());
        if let Some(bound) = ways.bound.get(&asked) {
            return Ok(bound.clone());
        }
        let way = Way {
            exchange: exchange.to_owned(),
            key: Some(key.to_owned()),
        };
        let bound = match self
            .dead_targets
            .follow_among(VecDeque::from([way]), &mut ways.exchanges)
            .await
        {
            Ok(reached) => match reached.doubts.into_iter().next() {
                Some(doubt) => Bound::Unknown(doubt),
                None => Bound::Known(reached.queues),
            },
            Err(error @ BrokerError::Unreachable { .. }) => return Err(error.into()),
            Err(error) => Bound::Unknown(format!("bindings could not be read: {}", chain(&error))),
        };
        if ways.bound.len() >= KEYS_MAX {
            ways.bound.clear();
        }
        ways.bound.insert(asked, bound.clone());
        Ok(bound)
    }
}

/// Through the exchange only where it leads to the queue of origin alone. Where that queue is not known, to the only
/// one that there is.
fn best(bound: &Bound, died_in: Option<&QueueName>) -> Via {
    match (bound, died_in) {
        (Bound::Known(queues), Some(queue)) if queues.len() == 1 && queues.contains(queue.as_str()) => Via::Exchange,
        (Bound::Known(queues), None) if queues.len() == 1 => Via::Exchange,
        (Bound::Known(_) | Bound::Unknown(_), _) => Via::Queue,
    }
}

fn nowhere(exchange: &str, key: &str, bound: &Bound) -> String {
    let who = match bound {
        Bound::Known(queues) if queues.is_empty() => "nobody is bound for it".to_owned(),
        Bound::Known(queues) => format!("it leads to {}", list(queues)),
        Bound::Unknown(why) => format!("who is bound for it is not known from here ({why})"),
    };
    format!(
        "it came by exchange {exchange:?} with key {key:?}, and no header says from which queue: {who}; \
         choose --via exchange, or name a queue with --to"
    )
}

impl WaysBack {
    /// The exchanges that were asked for already.
    pub(super) const fn exchanges(&mut self) -> &mut Exchanges {
        &mut self.exchanges
    }

    fn count(&mut self, exchange: &str, key: &str, letter: &Letter, bound: Bound, via: Via) {
        let alike = Alike {
            exchange: exchange.to_owned(),
            died_in: letter.died_in.as_ref().map(|queue| queue.as_str().to_owned()),
            bound,
            via,
        };
        if self.told.len() >= TOLD_MAX && !self.told.contains_key(&alike) {
            self.untold += 1;
            return;
        }
        let counted = self.told.entry(alike).or_default();
        counted.sent += letter.load();
        if counted.key.is_empty() {
            key.clone_into(&mut counted.key);
        }
        if counted.keys.len() < KEYS_MAX {
            counted.keys.insert(key.to_owned());
        }
    }

    /// What each queue gets through exchanges, as far as that is known.
    pub(super) fn sent(&self) -> BTreeMap<QueueName, Load> {
        let mut sent: BTreeMap<QueueName, Load> = BTreeMap::new();
        let through = self.told.iter().filter(|(alike, _)| alike.via == Via::Exchange);
        for (alike, counted) in through {
            let Bound::Known(queues) = &alike.bound else { continue };
            for queue in queues.iter().filter_map(|queue| QueueName::parse(queue).ok()) {
                *sent.entry(queue).or_default() += counted.sent;
            }
        }
        sent
    }

    /// Who receives, for the plan.
    pub(super) fn receivers(&self) -> Vec<Receivers> {
        let told = self.told.iter().map(|(alike, counted)| Receivers {
            exchange: alike.exchange.clone(),
            routing_key: counted.key.clone(),
            keys: counted.keys.len() as u64,
            messages: counted.sent.messages,
            via: alike.via.as_str(),
            bound: match &alike.bound {
                Bound::Known(queues) => Some(queues.iter().cloned().collect()),
                Bound::Unknown(_) => None,
            },
            get: match (alike.via, &alike.bound, &alike.died_in) {
                (Via::Exchange, Bound::Known(queues), _) => Some(queues.iter().cloned().collect()),
                (Via::Exchange, Bound::Unknown(_), _) => None,
                (Via::Queue, _, died_in) => Some(died_in.iter().cloned().collect()),
            },
            says: says(alike, counted),
        });
        told.collect()
    }

    /// What a person should know before: everything but letters that go the only way that there is.
    pub(super) fn warnings(&self) -> Vec<String> {
        let odd = self.told.iter().filter(|(alike, _)| alike.is_odd());
        let mut warnings: Vec<String> = odd.map(|(alike, counted)| says(alike, counted)).collect();
        if self.untold > 0 {
            warnings.push(format!("{} more go back by further exchanges and keys", self.untold));
        }
        warnings
    }

    /// What is compared when the plan is carried out.
    pub(super) fn frozen(&self) -> Vec<(String, String, Option<BTreeSet<String>>)> {
        let through = self.told.iter().filter(|(alike, _)| alike.via == Via::Exchange);
        let frozen = through.map(|(alike, counted)| {
            let bound = match &alike.bound {
                Bound::Known(queues) => Some(queues.clone()),
                Bound::Unknown(_) => None,
            };
            (alike.exchange.clone(), counted.key.clone(), bound)
        });
        frozen.collect()
    }
}

impl RunPlanner {
    /// Whether other queues than planned would get them by now; says which exchange.
    pub(super) async fn receivers_changed(
        &self,
        planned: &[(String, String, Option<BTreeSet<String>>)],
    ) -> Result<Option<String>, EngineError> {
        let mut ways = WaysBack::default();
        for (exchange, key, before) in planned {
            let now = match self.bound(exchange, key, &mut ways).await? {
                Bound::Known(queues) => Some(queues),
                Bound::Unknown(_) => None,
            };
            if now != *before {
                return Ok(Some(format!(
                    "exchange {exchange:?} with key {key:?} leads to other queues by now"
                )));
            }
        }
        Ok(None)
    }
}

impl Alike {
    /// Whether more, or others, get them than the queue that they died in; or nobody can tell.
    fn is_odd(&self) -> bool {
        match &self.bound {
            Bound::Known(queues) => {
                let only = queues.len() == 1;
                let origin = self.died_in.as_ref().is_none_or(|queue| queues.contains(queue));
                !(only && origin)
            }
            Bound::Unknown(_) => true,
        }
    }
}

fn says(alike: &Alike, counted: &Counted) -> String {
    let Alike {
        exchange,
        died_in,
        bound,
        via,
    } = alike;
    let what = match counted.keys.len() {
        0 | 1 => format!("exchange {exchange:?} with key {:?}", counted.key),
        keys => format!("exchange {exchange:?} with {keys} keys ({:?} is one)", counted.key),
    };
    let these = match counted.sent.messages {
        1 => "this one".to_owned(),
        many => format!("these {many}"),
    };
    let goes = if counted.sent.messages == 1 { "goes" } else { "go" };
    let home = died_in.as_deref().unwrap_or("of origin");
    let straight = format!("{these} {goes} straight to queue {home:?}");
    let others = |queues: &BTreeSet<String>| -> BTreeSet<String> {
        let other = |queue: &&String| Some(queue.as_str()) != died_in.as_deref();
        queues.iter().filter(other).cloned().collect()
    };
    match (via, bound) {
        (Via::Queue, Bound::Known(queues)) if queues.is_empty() => {
            format!("nobody is bound to {what}: {straight}")
        }
        (Via::Queue, Bound::Known(queues)) if others(queues).is_empty() => format!("{straight}, not through {what}"),
        (Via::Queue, Bound::Known(queues)) => {
            let is_bound = died_in.as_ref().is_some_and(|queue| queues.contains(queue));
            let also = if is_bound {
                "too"
            } else {
                "and not to the queue that they died in"
            };
            format!(
                "{what} leads to {} {also}: {straight} alone; with --via exchange all of these queues would get {these} again",
                list(&others(queues))
            )
        }
        (Via::Queue, Bound::Unknown(why)) => {
            format!("who is bound to {what} is not known from here ({why}): {straight}")
        }
        (Via::Exchange, Bound::Known(queues)) if queues.is_empty() => {
            format!("nobody is bound to {what}: {these} would come back; --via queue sends {these} to {home:?}")
        }
        (Via::Exchange, Bound::Known(queues)) if queues.len() == 1 => {
            format!("{these} {goes} through {what}: queue {} gets {these}", list(queues))
        }
        (Via::Exchange, Bound::Known(queues)) => format!(
            "{these} {goes} through {what}: {} get {these} again, each of them",
            list(queues)
        ),
        (Via::Exchange, Bound::Unknown(why)) => {
            format!("{these} {goes} through {what}: who gets {these} is not known from here ({why})")
        }
    }
}

fn list(queues: &BTreeSet<String>) -> String {
    let named: Vec<String> = queues
        .iter()
        .take(NAMED_MAX)
        .map(|queue| format!("{queue:?}"))
        .collect();
    let more = queues.len().saturating_sub(NAMED_MAX);
    let named = match named.split_last() {
        Some((last, before)) if more == 0 && !before.is_empty() => format!("{} and {last}", before.join(", ")),
        _ => named.join(", "),
    };
    if more == 0 {
        named
    } else {
        format!("{named} and {more} more")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(queues: &[&str]) -> Bound {
        Bound::Known(queues.iter().map(|queue| (*queue).to_owned()).collect())
    }

    #[test]
    fn through_the_exchange_only_where_the_queue_of_origin_alone_is_bound() {
        let orders = QueueName::parse("orders").ok();
        let cases = [
            (known(&["orders"]), Via::Exchange),
            (known(&["orders", "analytics"]), Via::Queue),
            (known(&["analytics"]), Via::Queue),
            (known(&[]), Via::Queue),
            (Bound::Unknown("headers".to_owned()), Via::Queue),
        ];
        for (bound, via) in cases {
            assert_eq!(best(&bound, orders.as_ref()), via, "{bound:?}");
        }
        assert_eq!(best(&known(&["only"]), None), Via::Exchange);
        assert_eq!(best(&known(&["one", "other"]), None), Via::Queue);
    }

    #[test]
    fn what_is_said_names_each_queue_that_gets_them_again() {
        let alike = |bound, via| Alike {
            exchange: "app".to_owned(),
            died_in: Some("orders".to_owned()),
            bound,
            via,
        };
        let counted = Counted {
            key: "order.created".to_owned(),
            keys: BTreeSet::from(["order.created".to_owned()]),
            sent: Load {
                messages: 800,
                bytes: 0,
            },
        };
        assert_eq!(
            says(&alike(known(&["orders", "analytics"]), Via::Queue), &counted),
            "exchange \"app\" with key \"order.created\" leads to \"analytics\" too: these 800 go straight to queue \
             \"orders\" alone; with --via exchange all of these queues would get these 800 again"
        );
        assert_eq!(
            says(&alike(known(&["orders", "analytics"]), Via::Exchange), &counted),
            "these 800 go through exchange \"app\" with key \"order.created\": \"analytics\" and \"orders\" get these 800 \
             again, each of them"
        );
        assert!(!alike(known(&["orders"]), Via::Exchange).is_odd());
        assert!(alike(known(&[]), Via::Queue).is_odd());
    }
}
