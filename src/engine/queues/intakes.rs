//! Intake queues, for people: whether anybody reads them, what waits in them, and what keeps messages from reaching
//! them. One pure answer serves `doctor` and `queue why`.

use super::Queues;
use super::seen::Seen;
use crate::broker::{ExchangeDetail, IntakeQueue, ListedQueue};
use crate::domain::id::QueueName;
use crate::domain::queue::{QueueState, Why};
use crate::engine::death::as_evident;
use crate::engine::error::chain;
use crate::engine::view::{Check, CheckResult};

/// What waits beyond this is said to be much.
const MUCH: u64 = 10_000;

const START: &str = "start `redrive --daemon`: it makes what is missing, binds it and reads it";
const LOOK: &str = "look for \"an intake queue cannot be read\" in a daemon's log (its user needs configure, write and read on queue and exchange), and whether the daemon's configuration has this [[consumer]]";

/// What is known of an intake queue.
#[derive(Clone, Debug)]
pub(in crate::engine) struct Known {
    /// `None`: there is no such queue.
    queue: Option<Listed>,
    routes: Routes,
    /// Living daemons; or why the store does not say.
    daemons: Result<usize, String>,
}

#[derive(Clone, Copy, Debug)]
struct Listed {
    ready: Option<u64>,
    consumers: Option<u64>,
    node_down: bool,
}

/// How messages get there.
#[derive(Clone, Debug)]
enum Routes {
    /// Nothing is configured, or nobody can say.
    Unknown,
    Bound,
    NoExchange(String),
    /// Keys of the configuration that it is not bound with.
    Unbound(String, Vec<String>),
}

/// How it is.
#[derive(Debug, PartialEq, Eq)]
struct Judged {
    result: CheckResult,
    state: QueueState,
    found: String,
    mend: Option<&'static str>,
}

impl Judged {
    fn new(result: CheckResult, state: QueueState, found: String, mend: &'static str) -> Self {
        Self {
            result,
            state,
            found,
            mend: (!mend.is_empty()).then_some(mend),
        }
    }
}

/// 1. Nothing is read without the store, nor from a queue that is not there or not reachable.
/// 2. Somebody has to read it.
/// 3. What is published has to reach it.
/// 4. Then only what waits counts.
fn judge(known: &Known) -> Judged {
    use CheckResult::{Broken, Warning};
    let daemons = match &known.daemons {
        Ok(daemons) => *daemons,
        Err(why) => {
            let found = format!("the store is away ({why}): nothing is acked, what comes waits in the queue");
            let mend = "bring the store back: reading continues by itself";
            return Judged::new(Broken, QueueState::Unowned, found, mend);
        }
    };
    let Some(listed) = known.queue else {
        let (found, mend) = match daemons {
            0 => ("there is no such queue, and no daemon is alive".to_owned(), START),
            alive => (format!("there is no such queue, although {} alive", some(alive)), LOOK),
        };
        return Judged::new(Broken, QueueState::Unowned, found, mend);
    };
    let waits = waits(listed.ready);
    if listed.node_down {
        let found = format!("its node is down: {waits}");
        return Judged::new(Broken, QueueState::Unowned, found, "bring the broker's node back");
    }
    if listed.consumers == Some(0) {
        let (found, mend) = match daemons {
            0 => (format!("{waits}: no daemon is alive"), START),
            alive => (
                format!("{waits}: nobody reads it, although {} alive", some(alive)),
                LOOK,
            ),
        };
        return Judged::new(Warning, QueueState::Unowned, found, mend);
    }
    unreached(known, listed).unwrap_or_else(|| at_work(listed, &waits))
}

fn unreached(known: &Known, listed: Listed) -> Option<Judged> {
    let found = match &known.routes {
        Routes::Unknown | Routes::Bound => return None,
        Routes::NoExchange(exchange) => format!("there is no exchange {exchange:?}: nothing reaches the queue"),
        Routes::Unbound(exchange, keys) => format!(
            "it is not bound to exchange {exchange:?} with {}: what is published with that does not reach it",
            keys.iter().map(|key| format!("{key:?}")).collect::<Vec<_>>().join(", ")
        ),
    };
    let mend = "a daemon makes and binds what is missing when it begins to read, and once a minute; \"an intake queue cannot be bound again\" in its log says why it could not";
    let state = if listed.ready == Some(0) {
        QueueState::Empty
    } else {
        QueueState::Delivering
    };
    Some(Judged::new(CheckResult::Warning, state, found, mend))
}

fn at_work(listed: Listed, waits: &str) -> Judged {
    match listed.ready {
        Some(0) => Judged::new(
            CheckResult::Fine,
            QueueState::Empty,
            "read; nothing waits".to_owned(),
            "",
        ),
        Some(ready) if ready > MUCH => Judged::new(
            CheckResult::Warning,
            QueueState::Delivering,
            format!("read, and {waits}"),
            "more comes than is committed, or the store is slow: watch redrive_intake_messages_total and the daemon's log (\"a batch waits for the store\")",
        ),
        Some(_) | None => Judged::new(CheckResult::Fine, QueueState::Delivering, format!("read; {waits}"), ""),
    }
}

fn some(daemons: usize) -> String {
    match daemons {
        1 => "a daemon is".to_owned(),
        many => format!("{many} daemons are"),
    }
}

fn waits(ready: Option<u64>) -> String {
    match ready {
        None => "how much waits is not known".to_owned(),
        Some(1) => "1 message waits".to_owned(),
        Some(ready) => format!("{ready} messages wait"),
    }
}

impl Queues {
    /// One check for each configured intake queue on the vhost that is looked at.
    pub(in crate::engine) async fn intake_checks(&self) -> Vec<Check> {
        let mut checks = Vec::new();
        for intake in self.intake_queues() {
            let name = format!("intake: {}", intake.name.as_str());
            let listed = match self.broker.queue_detail(&intake.name).await {
                Ok(listed) => listed,
                Err(error) => {
                    checks.push(Check::unread(&name, &chain(&error)));
                    continue;
                }
            };
            let judged = judge(&self.known_of_intake(&intake, listed.as_ref()).await);
            checks.push(Check {
                name,
                result: judged.result,
                found: judged.found,
                mend: judged.mend.map(str::to_owned),
            });
        }
        checks
    }

    /// Why an intake queue moves or does not; `None`: it is none.
    pub(in crate::engine) async fn why_intake(&self, queue: &QueueName, listed: Option<&ListedQueue>) -> Option<Why> {
        let intake = self.intake_queues().find(|intake| intake.name == *queue)?;
        let judged = judge(&self.known_of_intake(&intake, listed).await);
        Some(Why {
            state: Some(judged.state),
            text: match judged.mend {
                Some(mend) => format!("{}; {mend}", judged.found),
                None => judged.found,
            },
            until: None,
        })
    }

    fn intake_queues(&self) -> impl Iterator<Item = IntakeQueue> {
        let here = self.settings.events.consumers.iter().filter_map(|intake| {
            Some(IntakeQueue {
                vhost: intake.vhost.clone(),
                name: QueueName::parse(&intake.queue).ok()?,
                exchange: intake.exchange.clone(),
                bindings: intake.bindings.clone(),
            })
        });
        here.filter(|intake| self.is_intake(intake.name.as_str()))
    }

    async fn known_of_intake(&self, intake: &IntakeQueue, listed: Option<&ListedQueue>) -> Known {
        let living = match self.store.incarnations_living().await {
            Ok(living) => as_evident(&self.store, living).await,
            Err(error) => Err(error),
        };
        let daemons = match living {
            Ok(all) => Ok(all.iter().filter(|one| one.alive && one.delivers).count()),
            Err(error) => Err(chain(&error)),
        };
        Known {
            queue: listed.map(|listed| Listed {
                ready: listed.ready,
                consumers: listed.consumers,
                node_down: Seen::from(listed.clone()).node_down,
            }),
            routes: self.routes_to(intake).await,
            daemons,
        }
    }

    /// The embedded broker has one exchange, in which everything is bound.
    async fn routes_to(&self, intake: &IntakeQueue) -> Routes {
        let Some(exchange) = intake.exchange.as_ref().filter(|_| !self.broker.is_embedded()) else {
            return Routes::Unknown;
        };
        match self.broker.exchange_detail(exchange).await {
            Err(_) => Routes::Unknown,
            Ok(None) => Routes::NoExchange(exchange.clone()),
            Ok(Some(detail)) => match unbound(intake, &detail) {
                keys if keys.is_empty() => Routes::Bound,
                keys => Routes::Unbound(exchange.clone(), keys),
            },
        }
    }
}

fn unbound(intake: &IntakeQueue, detail: &ExchangeDetail) -> Vec<String> {
    let bound = |key: &&str| {
        let mut bindings = detail.bindings.iter().filter(|one| !one.to_exchange);
        bindings.any(|one| one.destination == intake.name.as_str() && one.routing_key == *key)
    };
    let keys = intake.keys();
    keys.into_iter().filter(|key| !bound(key)).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::broker::ExchangeBinding;

    fn read(ready: u64, consumers: u64) -> Known {
        Known {
            queue: Some(Listed {
                ready: Some(ready),
                consumers: Some(consumers),
                node_down: false,
            }),
            routes: Routes::Bound,
            daemons: Ok(1),
        }
    }

    #[test]
    fn what_keeps_an_intake_queue_from_being_read_is_said_with_its_mend() {
        use QueueState::{Delivering, Empty, Unowned};
        let missing = |daemons| Known {
            queue: None,
            daemons: Ok(daemons),
            ..read(0, 0)
        };
        let unreached = Known {
            routes: Routes::Unbound("people".to_owned(), vec!["person.#".to_owned()]),
            ..read(0, 1)
        };
        for (known, state, said, mended) in [
            (read(0, 1), Empty, "nothing waits", false),
            (read(1, 1), Delivering, "1 message waits", false),
            (read(MUCH + 1, 1), Delivering, "10001 messages wait", true),
            (read(3, 0), Unowned, "nobody reads it, although a daemon is alive", true),
            (missing(0), Unowned, "no daemon is alive", true),
            (missing(2), Unowned, "although 2 daemons are alive", true),
            (
                unreached,
                Empty,
                "not bound to exchange \"people\" with \"person.#\"",
                true,
            ),
            (
                Known {
                    daemons: Err("connection refused".to_owned()),
                    ..read(3, 1)
                },
                Unowned,
                "the store is away (connection refused)",
                true,
            ),
        ] {
            let judged = judge(&known);
            assert_eq!((judged.state, judged.mend.is_some()), (state, mended), "{judged:?}");
            assert_eq!(judged.mend.is_some(), judged.result != CheckResult::Fine, "{judged:?}");
            assert!(judged.found.contains(said), "{judged:?}");
        }
    }

    #[test]
    fn a_key_that_the_queue_is_not_bound_with_is_named() {
        let binding = |destination: &str, key: &str| ExchangeBinding {
            destination: destination.to_owned(),
            to_exchange: false,
            routing_key: key.to_owned(),
        };
        let intake = IntakeQueue {
            vhost: "/".to_owned(),
            name: QueueName::parse("q").unwrap(),
            exchange: Some("e".to_owned()),
            bindings: vec!["a".to_owned(), "b".to_owned()],
        };
        let detail = ExchangeDetail {
            kind: "topic".to_owned(),
            policy: None,
            alternate: None,
            bindings: vec![binding("q", "a"), binding("other", "b")],
        };
        assert_eq!(unbound(&intake, &detail), ["b"]);
    }
}
