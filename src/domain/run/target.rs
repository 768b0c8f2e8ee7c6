//! Where a run sends a message: into a queue, or through the exchange that it had been published to first.

use std::fmt;

use crate::domain::id::QueueName;
use crate::domain::routing::topic_matches;

/// Where to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
pub enum Target {
    /// Straight into a queue.
    Queue(QueueName),
    /// Through an exchange of somebody else's: to wherever it routes.
    Exchange {
        /// Its name, never empty.
        exchange: String,
        /// The routing key.
        routing_key: String,
    },
}

impl Target {
    /// By exchange and key: the default exchange is a queue by its name.
    #[must_use]
    pub fn of(exchange: String, routing_key: String) -> Option<Self> {
        if !exchange.is_empty() {
            return Some(Self::Exchange { exchange, routing_key });
        }
        QueueName::parse(&routing_key).ok().map(Self::Queue)
    }

    /// The exchange and the key to publish with.
    #[must_use]
    pub fn into_address(self) -> (String, String) {
        match self {
            Self::Queue(queue) => (String::new(), queue.as_str().to_owned()),
            Self::Exchange { exchange, routing_key } => (exchange, routing_key),
        }
    }

    /// As stored.
    #[must_use]
    pub fn encode(&self) -> String {
        match self {
            Self::Queue(queue) => format!("queue:{}", queue.as_str()),
            Self::Exchange { exchange, routing_key } => {
                format!("exchange:{}:{exchange}{routing_key}", exchange.len())
            }
        }
    }

    /// What [`Target::encode`] wrote.
    #[must_use]
    pub fn decode(text: &str) -> Option<Self> {
        if let Some(queue) = text.strip_prefix("queue:") {
            return QueueName::parse(queue).ok().map(Self::Queue);
        }
        let (length, names) = text.strip_prefix("exchange:")?.split_once(':')?;
        let (exchange, routing_key) = names.split_at_checked(length.parse().ok()?)?;
        Some(Self::Exchange {
            exchange: exchange.to_owned(),
            routing_key: routing_key.to_owned(),
        })
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Queue(queue) => f.write_str(queue.as_str()),
            Self::Exchange { exchange, routing_key } => {
                write!(f, "exchange {exchange:?} with key {routing_key:?}")
            }
        }
    }
}

/// Whether a binding's key takes a routing key, by the kind of its exchange; `None` where that is not by the key.
#[must_use]
pub fn routes(kind: &str, binding: &str, routing_key: &str) -> Option<bool> {
    match kind {
        "fanout" => Some(true),
        "direct" => Some(binding == routing_key),
        "topic" => Some(topic_matches(binding, routing_key)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_read_as_they_are_written() {
        for (exchange, key) in [("", "queue:x"), ("e:1", "a.b"), ("é", ""), ("x", "5:y")] {
            let target = Target::of(exchange.to_owned(), key.to_owned()).unwrap();
            assert_eq!(Target::decode(&target.encode()), Some(target.clone()));
            assert_eq!(target.into_address(), (exchange.to_owned(), key.to_owned()));
        }
        assert_eq!(Target::of(String::new(), String::new()), None);
        assert_eq!(Target::decode("exchange:9:x"), None);
        assert_eq!(Target::decode("other"), None);
    }

    #[test]
    fn keys_are_routed_as_the_broker_does() {
        let cases = [
            ("direct", "a", "a", Some(true)),
            ("direct", "a", "b", Some(false)),
            ("fanout", "", "b", Some(true)),
            ("topic", "a.*", "a.b", Some(true)),
            ("topic", "a.*", "a.b.c", Some(false)),
            ("topic", "a.#", "a", Some(true)),
            ("topic", "#.c", "a.b.c", Some(true)),
            ("topic", "a.#.c", "a.b", Some(false)),
            ("topic", "#", "", Some(true)),
            ("topic", "*", "", Some(false)),
            ("headers", "", "", None),
        ];
        for (kind, binding, key, expected) in cases {
            assert_eq!(routes(kind, binding, key), expected, "{kind} {binding} {key}");
        }
    }
}
