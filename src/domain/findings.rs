//! Pre-flight: what a queue's arguments and the broker's policies will do to it in silence.
//!
//! Only what is listed anyway is looked at: arguments, policies, and the exchanges that dead letters go to. Each
//! finding says what it would do and how to mend it.

use std::collections::BTreeMap;
use std::time::Duration;

use super::as_text;
use super::broker_rules::{DELIVERY_LIMIT_MIN, Declared, Fate, Policies, Value, bounds, fate, first_default_limit};
use super::naming::QueueType;
use super::queue::QueueKind;
use super::run;

/// Something that will surprise.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Finding {
    /// Names its kind.
    #[serde(deserialize_with = "as_text::word::deserialize")]
    pub code: as_text::Word,
    /// What it would do, and where it comes from.
    pub effect: String,
    /// What to do.
    #[serde(deserialize_with = "as_text::word::deserialize")]
    pub mend: as_text::Word,
}

/// What an exchange does with dead letters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeadExchange {
    /// There is none of that name.
    Missing,
    /// It is there; the keys that queues or exchanges are bound with.
    Routes {
        /// Its type.
        kind: String,
        /// Keys of its bindings.
        keys: Vec<String>,
    },
}

/// A queue to be looked at.
#[derive(Clone, Copy, Debug)]
pub struct Examined<'a> {
    /// As it was declared.
    pub declared: Declared<'a>,
    /// What it is for.
    pub kind: QueueKind,
    /// The policies of the vhost.
    pub policies: &'a Policies,
    /// Exchanges that dead letters go to, as far as they are known.
    pub exchanges: &'a BTreeMap<String, DeadExchange>,
    /// How long we hold a message at most.
    pub hold: Duration,
}

/// How long a walk over dead letters or a batch of an intake queue may be in hand.
pub const LONG_HOLD: Duration = Duration::from_mins(10);

impl Examined<'_> {
    fn value(&self, key: &str) -> Option<Value> {
        self.policies.value(&self.declared, key)
    }

    fn is_quorum(&self) -> bool {
        self.declared.queue_type == QueueType::Quorum
    }
}

/// Everything that will surprise about a queue.
#[must_use]
pub fn examine(queue: &Examined<'_>) -> Vec<Finding> {
    let mut found = Vec::new();
    match queue.kind {
        QueueKind::Delivery => delivery(queue, &mut found),
        QueueKind::DeadLetter => dead_letters(queue, &mut found),
        QueueKind::Wake | QueueKind::Job => return found,
        QueueKind::Intake | QueueKind::Foreign => {}
    }
    delivery_limit(queue, &mut found);
    dead_letter_exchange(queue, &mut found);
    drops(queue, &mut found);
    consumer_timeout(queue, &mut found);
    found
}

fn delivery(queue: &Examined<'_>, found: &mut Vec<Finding>) {
    if let Some(value) = queue.value("expires") {
        found.push(Finding {
            code: "expires_on_delivery",
            effect: format!(
                "unused for {} ms it is deleted with every notification in it ({})",
                value.text, value.origin
            ),
            mend: "take `expires` off this policy or pattern: delivery queues end by their end mark",
        });
    }
    if let Some(value) = queue.value("message-ttl") {
        found.push(Finding {
            code: "message_ttl_on_delivery",
            effect: format!("what waits longer than {} ms is dropped ({})", value.text, value.origin),
            mend: "take `message-ttl` off this policy or pattern: the retry policy says how long is tried",
        });
    }
    if let Some(value) = queue.value("max-priority") {
        found.push(Finding {
            code: "priority",
            effect: format!(
                "messages overtake each other by priority ({}): order is lost",
                value.origin
            ),
            mend: "declare it again without x-max-priority",
        });
    }
    if let Some(value) = queue
        .value("delayed-retry-type")
        .filter(|value| value.text != "disabled")
    {
        found.push(Finding {
            code: "delayed_retry",
            effect: format!(
                "later messages overtake a returned one ({}): order is lost",
                value.origin
            ),
            mend: "take `delayed-retry-type` off this policy or pattern",
        });
    }
}

fn dead_letters(queue: &Examined<'_>, found: &mut Vec<Finding>) {
    for (key, what) in [
        ("message-ttl", "dead letters older than this many ms are dropped"),
        (
            "expires",
            "unused for this many ms it is deleted with every dead letter in it",
        ),
    ] {
        if let Some(value) = queue.value(key) {
            found.push(Finding {
                code: "dead_letter_lifetime",
                effect: format!("{what}: {} ({})", value.text, value.origin),
                mend: "take the lifetime off this queue, or save its messages in time: nobody is told when evidence goes",
            });
        }
    }
}

fn delivery_limit(queue: &Examined<'_>, found: &mut Vec<Finding>) {
    if !queue.is_quorum() {
        return;
    }
    let kept = queue.value("dead-letter-exchange").is_some();
    let delivery = queue.kind == QueueKind::Delivery;
    let limit = queue.value("delivery-limit");
    let effect = match limit.as_ref().map(|value| (value.number(), value)) {
        None if delivery => "without a delivery limit a returned message goes to the tail: order is lost".to_owned(),
        None if !kept => match first_default_limit() {
            Some((from, limit)) => {
                format!("from RabbitMQ {from} on a message is dropped after {limit} returns, looks included")
            }
            None => return,
        },
        Some((Some(limit), value)) if delivery && limit < DELIVERY_LIMIT_MIN => {
            format!(
                "after {limit} returns a message leaves the queue ({}): order is lost",
                value.origin
            )
        }
        Some((Some(limit), value)) if !kept && (0..DELIVERY_LIMIT_MIN).contains(&limit) => {
            format!(
                "after {limit} returns, looks included, a message is dropped ({})",
                value.origin
            )
        }
        None | Some(_) => return,
    };
    let (code, mend) = if limit.is_none() {
        (
            "delivery_limit_absent",
            "declare it with a large positive x-delivery-limit and a dead-letter exchange",
        )
    } else {
        (
            "delivery_limit_small",
            "raise the limit, and give the queue a dead-letter exchange",
        )
    };
    found.push(Finding { code, effect, mend });
}

fn dead_letter_exchange(queue: &Examined<'_>, found: &mut Vec<Finding>) {
    let Some(exchange) = queue
        .value("dead-letter-exchange")
        .filter(|value| !value.text.is_empty())
    else {
        return;
    };
    let key = queue.value("dead-letter-routing-key");
    match queue.exchanges.get(&exchange.text) {
        Some(DeadExchange::Missing) => found.push(Finding {
            code: "dead_letter_exchange_missing",
            effect: format!(
                "its dead letters are dropped: there is no exchange {:?} ({})",
                exchange.text, exchange.origin
            ),
            mend: "declare that exchange and bind a queue to it",
        }),
        Some(DeadExchange::Routes { kind, keys }) if !routes(kind, keys, key.as_ref().map(|key| key.text.as_str())) => {
            found.push(Finding {
                code: "dead_letter_unroutable",
                effect: format!(
                    "its dead letters are dropped: exchange {:?} routes them to no queue ({})",
                    exchange.text, exchange.origin
                ),
                mend: "bind a queue to that exchange, with the dead-letter routing key where there is one",
            });
        }
        Some(DeadExchange::Routes { .. }) | None => {}
    }
}

/// Whether anything bound may take a dead letter; an unknown key may be any.
fn routes(kind: &str, bound: &[String], key: Option<&str>) -> bool {
    match key {
        Some(key) => bound
            .iter()
            .any(|binding| run::routes(kind, binding, key) != Some(false)),
        None => !bound.is_empty(),
    }
}

fn drops(queue: &Examined<'_>, found: &mut Vec<Finding>) {
    let Some((measure, value)) = bounds(&queue.declared, queue.policies).into_iter().next() else {
        return;
    };
    let becomes = match fate(&queue.declared, queue.policies) {
        Fate::DeadLetter => "becomes a dead letter",
        Fate::Lost => "is dropped",
    };
    found.push(Finding {
        code: "drops_head",
        effect: format!(
            "beyond {} {} the oldest message {becomes} ({})",
            measure.key(),
            value.text,
            value.origin
        ),
        mend: "set overflow to reject-publish, so that publishers are told",
    });
}

fn consumer_timeout(queue: &Examined<'_>, found: &mut Vec<Finding>) {
    let Some(value) = queue.value("consumer-timeout") else {
        return;
    };
    let (hold, follows, mend) = match queue.kind {
        QueueKind::Delivery => (
            queue.hold,
            "it may be sent twice",
            "raise the consumer timeout above the request timeout",
        ),
        QueueKind::Intake => (
            LONG_HOLD,
            "a batch that waits for the store is given back sooner",
            "raise the consumer timeout above ten minutes",
        ),
        QueueKind::DeadLetter => (
            LONG_HOLD,
            "a paced run over it begins its walk anew more often, and a long look at it may break off",
            "raise the consumer timeout above ten minutes",
        ),
        QueueKind::Wake | QueueKind::Job | QueueKind::Foreign => return,
    };
    let below = value
        .number()
        .and_then(|millis| u64::try_from(millis).ok())
        .is_some_and(|millis| Duration::from_millis(millis) < hold);
    if below {
        found.push(Finding {
            code: "consumer_timeout",
            effect: format!(
                "the broker takes a message back after {} ms ({}), and it may be in hand for {} s: {follows}",
                value.text,
                value.origin,
                hold.as_secs()
            ),
            mend,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::broker_rules::{Pattern, Policy};

    struct Queue {
        kind: QueueKind,
        of_type: QueueType,
        arguments: Vec<(String, String)>,
        policies: Policies,
        exchanges: BTreeMap<String, DeadExchange>,
    }

    impl Queue {
        fn new(kind: QueueKind, quorum: bool, arguments: &[(&str, &str)]) -> Self {
            Self {
                kind,
                of_type: if quorum { QueueType::Quorum } else { QueueType::Classic },
                arguments: arguments
                    .iter()
                    .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
                    .collect(),
                policies: Policies::default(),
                exchanges: BTreeMap::new(),
            }
        }

        fn codes(&self) -> Vec<&'static str> {
            let found = examine(&Examined {
                declared: Declared {
                    name: "q",
                    queue_type: self.of_type,
                    arguments: &self.arguments,
                },
                kind: self.kind,
                policies: &self.policies,
                exchanges: &self.exchanges,
                hold: Duration::from_secs(60),
            });
            assert!(found.iter().all(|one| !one.effect.is_empty() && !one.mend.is_empty()));
            found.iter().map(|one| one.code).collect()
        }
    }

    const LIMIT: (&str, &str) = ("x-delivery-limit", "10000000");

    #[test]
    fn queues_as_they_should_be_have_no_findings() {
        for (kind, quorum, arguments) in [
            (QueueKind::Delivery, false, &[][..]),
            (QueueKind::Delivery, true, &[LIMIT][..]),
            (QueueKind::DeadLetter, true, &[LIMIT][..]),
            (QueueKind::Job, false, &[("x-expires", "1000")][..]),
            (
                QueueKind::Wake,
                false,
                &[("x-max-length", "10"), ("x-message-ttl", "1")][..],
            ),
            (QueueKind::Foreign, false, &[("x-expires", "1000")][..]),
        ] {
            assert_eq!(
                Queue::new(kind, quorum, arguments).codes(),
                Vec::<&str>::new(),
                "{kind:?}"
            );
        }
    }

    #[test]
    fn every_silent_killer_is_found() {
        use QueueKind::{DeadLetter, Delivery, Foreign, Intake};
        for (kind, quorum, arguments, code) in [
            (Delivery, false, &[("x-expires", "5000")][..], "expires_on_delivery"),
            (
                Delivery,
                false,
                &[("x-message-ttl", "5000")][..],
                "message_ttl_on_delivery",
            ),
            (Delivery, false, &[("x-max-priority", "5")][..], "priority"),
            (
                Delivery,
                true,
                &[LIMIT, ("x-delayed-retry-type", "all")][..],
                "delayed_retry",
            ),
            (Delivery, true, &[][..], "delivery_limit_absent"),
            (
                Delivery,
                true,
                &[("x-delivery-limit", "20")][..],
                "delivery_limit_small",
            ),
            (Foreign, true, &[][..], "delivery_limit_absent"),
            (Foreign, true, &[("x-delivery-limit", "3")][..], "delivery_limit_small"),
            (Foreign, false, &[("x-max-length", "10")][..], "drops_head"),
            (
                DeadLetter,
                false,
                &[("x-message-ttl", "5000")][..],
                "dead_letter_lifetime",
            ),
            (DeadLetter, false, &[("x-expires", "5000")][..], "dead_letter_lifetime"),
            (
                Delivery,
                false,
                &[("x-consumer-timeout", "30000")][..],
                "consumer_timeout",
            ),
            (
                DeadLetter,
                false,
                &[("x-consumer-timeout", "300000")][..],
                "consumer_timeout",
            ),
            (
                Intake,
                false,
                &[("x-consumer-timeout", "300000")][..],
                "consumer_timeout",
            ),
        ] {
            assert_eq!(
                Queue::new(kind, quorum, arguments).codes(),
                [code],
                "{kind:?} {arguments:?}"
            );
        }
    }

    #[test]
    fn dead_letters_need_an_exchange_that_routes_them() {
        let mut queue = Queue::new(
            QueueKind::Foreign,
            false,
            &[("x-dead-letter-exchange", "dlx"), ("x-dead-letter-routing-key", "k")],
        );
        assert_eq!(queue.codes(), Vec::<&str>::new(), "not known: nothing is claimed");
        queue.exchanges.insert("dlx".to_owned(), DeadExchange::Missing);
        assert_eq!(queue.codes(), ["dead_letter_exchange_missing"]);
        let mut bound = |kind: &str, keys: &[&str]| {
            let keys = keys.iter().map(|key| (*key).to_owned()).collect();
            let kind = kind.to_owned();
            queue
                .exchanges
                .insert("dlx".to_owned(), DeadExchange::Routes { kind, keys });
            queue.codes()
        };
        assert_eq!(bound("direct", &[]), ["dead_letter_unroutable"]);
        assert_eq!(bound("direct", &["other"]), ["dead_letter_unroutable"]);
        assert_eq!(bound("direct", &["k"]), Vec::<&str>::new());
        assert_eq!(bound("fanout", &[""]), Vec::<&str>::new());
    }

    #[test]
    fn policies_count_like_arguments_and_the_smallest_number_wins() {
        let mut queue = Queue::new(QueueKind::Delivery, true, &[LIMIT]);
        queue.policies = Policies::new(vec![Policy {
            name: "limits".to_owned(),
            pattern: Pattern::parse("q"),
            matches_unknown: true,
            apply_to: "queues".to_owned(),
            priority: 0,
            operator: false,
            definition: vec![("delivery-limit".to_owned(), "5".to_owned())],
        }]);
        assert_eq!(queue.codes(), ["delivery_limit_small"]);
    }
}
