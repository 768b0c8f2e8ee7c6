//! Which queues an exchange leads to, by its bindings and those of the exchanges that it is bound to.
//!
//! Where a binding cannot be judged from here (headers, plugins, an alternate exchange, a letter whose key nobody
//! knows), its queues are among those that may be reached, and the reason stands beside them: whoever must not guess
//! reads that first.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::DeadTargets;
use crate::broker::{BrokerError, ExchangeBinding, ExchangeDetail};
use crate::domain::run::routes;

/// Exchanges that are asked for their bindings, at most.
const EXCHANGES_MAX: usize = 100;

/// An exchange that letters come through, and with which key, where that is known.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::engine) struct Way {
    pub(in crate::engine) exchange: String,
    pub(in crate::engine) key: Option<String>,
}

/// Where ways lead.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::engine) struct Reached {
    /// The queues, those that are only possible too.
    pub(in crate::engine) queues: BTreeSet<String>,
    /// Why a queue of them may not be reached, or one more may; empty where all of it is certain.
    pub(in crate::engine) doubts: BTreeSet<String>,
}

/// The exchanges that were asked for already; `None` for one that is not there.
pub(in crate::engine) type Exchanges = BTreeMap<String, Option<ExchangeDetail>>;

impl Way {
    /// Whether a letter goes by this binding; `None` where nobody can tell from here.
    fn takes(&self, kind: &str, binding: &ExchangeBinding) -> Option<bool> {
        match &self.key {
            Some(key) => routes(kind, &binding.routing_key, key),
            // Everything bound, whatever the key.
            None => (kind == "fanout").then_some(true),
        }
    }
}

impl DeadTargets {
    /// The queues that these ways lead to, through exchanges that are bound to exchanges too.
    pub(in crate::engine) async fn follow(&self, ways: VecDeque<Way>) -> Result<Reached, BrokerError> {
        self.follow_among(ways, &mut Exchanges::new()).await
    }

    /// The same, with exchanges that are asked once for many questions.
    pub(in crate::engine) async fn follow_among(
        &self,
        mut ways: VecDeque<Way>,
        exchanges: &mut Exchanges,
    ) -> Result<Reached, BrokerError> {
        let (mut reached, mut taken) = (Reached::default(), BTreeSet::new());
        while let Some(way) = ways.pop_front() {
            // Each exchange once for each key that letters come with.
            if !taken.insert(way.clone()) {
                continue;
            }
            if !exchanges.contains_key(&way.exchange) {
                if exchanges.len() >= EXCHANGES_MAX {
                    let doubt = format!("more than {EXCHANGES_MAX} exchanges lead on");
                    reached.doubts.insert(doubt);
                    continue;
                }
                let detail = self.broker.exchange_detail(&way.exchange).await?;
                exchanges.insert(way.exchange.clone(), detail);
            }
            if let Some(Some(detail)) = exchanges.get(&way.exchange) {
                step(&way, detail, &mut reached, &mut ways);
            }
        }
        Ok(reached)
    }
}

/// Where one exchange leads.
fn step(way: &Way, detail: &ExchangeDetail, reached: &mut Reached, ways: &mut VecDeque<Way>) {
    let mut routed = false;
    for binding in &detail.bindings {
        match way.takes(&detail.kind, binding) {
            Some(false) => continue,
            Some(true) => routed = true,
            None => drop(reached.doubts.insert(doubt(way, detail))),
        }
        if binding.to_exchange {
            ways.push_back(Way {
                exchange: binding.destination.clone(),
                key: way.key.clone(),
            });
        } else {
            reached.queues.insert(binding.destination.clone());
        }
    }
    if !routed && let Some(alternate) = &detail.alternate {
        let doubt = format!(
            "exchange {:?} hands what nothing takes to its alternate exchange {alternate:?}",
            way.exchange
        );
        reached.doubts.insert(doubt);
    }
}

fn doubt(way: &Way, detail: &ExchangeDetail) -> String {
    match &way.key {
        Some(_) => format!(
            "exchange {:?} is of type {:?}, which does not route by key alone",
            way.exchange, detail.kind
        ),
        None => format!(
            "the key with which letters come to exchange {:?} is their own",
            way.exchange
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn detail(kind: &str, alternate: Option<&str>) -> ExchangeDetail {
        let binding = |destination: &str, routing_key: &str| ExchangeBinding {
            destination: destination.to_owned(),
            to_exchange: false,
            routing_key: routing_key.to_owned(),
        };
        ExchangeDetail {
            kind: kind.to_owned(),
            policy: None,
            alternate: alternate.map(str::to_owned),
            bindings: vec![binding("q", "k"), binding("z", "y")],
        }
    }

    fn reached(kind: &str, key: Option<&str>, alternate: Option<&str>) -> (Vec<String>, bool) {
        let way = Way {
            exchange: "x".to_owned(),
            key: key.map(str::to_owned),
        };
        let mut reached = Reached::default();
        step(&way, &detail(kind, alternate), &mut reached, &mut VecDeque::new());
        (reached.queues.into_iter().collect(), reached.doubts.is_empty())
    }

    #[test]
    fn what_cannot_be_judged_from_here_is_reached_and_in_doubt() {
        let both = ["q".to_owned(), "z".to_owned()].to_vec();
        assert_eq!(reached("direct", Some("k"), None), (vec!["q".to_owned()], true));
        assert_eq!(reached("direct", Some("none"), None), (Vec::new(), true));
        assert_eq!(reached("direct", Some("none"), Some("other")), (Vec::new(), false));
        assert_eq!(
            reached("direct", Some("k"), Some("other")),
            (vec!["q".to_owned()], true)
        );
        assert_eq!(reached("direct", None, None), (both.clone(), false));
        assert_eq!(reached("fanout", Some("any"), None), (both.clone(), true));
        assert_eq!(reached("headers", Some("any"), None), (both, false));
    }
}
