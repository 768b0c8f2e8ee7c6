//! The names on the broker: delivery queues, exchange, dead-letter queue, companion (docs/contract.md, *A notification
//! on the wire, version 1*).
//!
//! Publisher and worker compute the same name from (execution, url); the URL hides behind a keyed
//! hash. The exchange carries a fingerprint of the settings, so that a publisher with other settings
//! gets an error instead of a second queue (docs/protocols.md 7).

use hmac::{Hmac, Mac};
use md5::Md5;
use sha2::{Digest, Sha256};

use super::id::{ExecutionId, QueueName, StoreId};
use super::queue::QueueRecord;
use super::url::EndpointUrl;

/// Prefix, vhost and name together stay within this many bytes; beyond it the execution id is hashed.
pub const NAME_BYTES_MAX: usize = 200;

/// Hex digits of the hash that the name of a delivery queue ends with.
pub const URL_HASH_LEN: usize = 32;

/// Raised when the serialisation of URLs changes, so that mixed versions refuse to work together.
const URL_SERIALISATION: &str = "whatwg-1";

/// What a queue that is made for a moment is called behind the prefix.
const PROBE: &str = "probe.";

/// What a companion is called behind the name of its queue.
const COMPANION: &str = ".head";

/// What kind of ordered queue delivery queues are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum QueueType {
    /// Durable classic queues: a returned message keeps its place in every case.
    #[default]
    Classic,
    /// Replicated queues; prefetch is exactly 1 and a delivery limit with a dead-letter exchange is set.
    Quorum,
}

impl QueueType {
    /// As in the configuration and in `x-queue-type`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Classic => "classic",
            Self::Quorum => "quorum",
        }
    }
}

/// Deliveries of one message that a quorum queue allows: so many that it is never reached. Absent or
/// −1 it would requeue to the tail and break order; the broker's own default would drop the message.
pub const DELIVERY_LIMIT: i32 = 2_000_000_000;

/// The value of a queue's argument.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Argument {
    /// A long string.
    Text(String),
    /// A signed 32-bit integer.
    Integer(i32),
    /// A signed 64-bit integer.
    Long(i64),
    /// A boolean.
    Flag(bool),
}

impl Argument {
    /// As the broker lists it.
    #[must_use]
    pub fn shown(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Integer(number) => number.to_string(),
            Self::Long(number) => number.to_string(),
            Self::Flag(flag) => flag.to_string(),
        }
    }
}

/// Where any AMQP client publishes for an execution and URL, and how it declares the queue.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Address {
    /// The delivery queue, which is the routing key too.
    pub queue: QueueName,
    /// Where it is.
    pub vhost: String,
    /// What is published to.
    pub exchange: String,
    /// The arguments of the queue.
    pub arguments: Vec<(String, Argument)>,
}

/// The arguments of any queue of ours whose messages are neither dropped nor reordered when they are
/// returned. The type is named because a vhost may have another default.
#[must_use]
pub fn queue_arguments(queue_type: QueueType) -> Vec<(&'static str, Argument)> {
    let mut arguments = vec![("x-queue-type", Argument::Text(queue_type.as_str().to_owned()))];
    if queue_type == QueueType::Quorum {
        arguments.push(("x-delivery-limit", Argument::Integer(DELIVERY_LIMIT)));
    }
    arguments
}

/// The arguments of a delivery queue: fixed for ever, everything tunable is elsewhere. Never
/// `x-expires`, never `x-max-priority`.
#[must_use]
pub fn delivery_arguments(
    queue_type: QueueType,
    exchange: &str,
    dead_letter_queue: &str,
) -> Vec<(&'static str, Argument)> {
    let mut arguments = queue_arguments(queue_type);
    arguments.push(("x-single-active-consumer", Argument::Flag(true)));
    if queue_type == QueueType::Quorum {
        // An overrun of the limit is kept, not dropped.
        arguments.push(("x-dead-letter-exchange", Argument::Text(exchange.to_owned())));
        arguments.push((
            "x-dead-letter-routing-key",
            Argument::Text(dead_letter_queue.to_owned()),
        ));
    }
    arguments
}

/// The settings that every process on one vhost must share.
#[derive(Clone, PartialEq, Eq)]
pub struct Naming {
    /// What every queue of ours starts with, for example `redrive.`.
    pub prefix: String,
    /// The vhost (counts towards the length of a name on quorum queues).
    pub vhost: String,
    /// The key of the hash that hides URLs.
    pub url_hash_key: String,
    /// Classic or quorum.
    pub queue_type: QueueType,
}

/// Without the key.
impl std::fmt::Debug for Naming {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Naming")
            .field("prefix", &self.prefix)
            .field("vhost", &self.vhost)
            .field("queue_type", &self.queue_type)
            .finish_non_exhaustive()
    }
}

impl Naming {
    /// The delivery queue of (execution, url).
    ///
    /// # Panics
    /// Never: prefix, execution and hash are bounded by this function.
    #[must_use]
    #[expect(clippy::expect_used, reason = "the construction bounds the length")]
    pub fn delivery_queue(&self, execution: &ExecutionId, url: &EndpointUrl) -> QueueName {
        let hash = self.url_hash(url);
        let fixed = self.prefix.len() + self.vhost.len() + 1 + hash.len();
        let execution = if fixed + execution.as_str().len() > NAME_BYTES_MAX {
            hex(&Sha256::digest(execution.as_str().as_bytes()))
        } else {
            execution.as_str().to_owned()
        };
        QueueName::parse(&format!("{}{execution}.{hash}", self.prefix)).expect("prefix, execution and hash are bounded")
    }

    /// Where any AMQP client publishes for (execution, url).
    #[must_use]
    pub fn address(&self, execution: &ExecutionId, url: &EndpointUrl) -> Address {
        let exchange = self.exchange();
        let arguments = delivery_arguments(self.queue_type, &exchange, &self.dead_letter_queue());
        Address {
            queue: self.delivery_queue(execution, url),
            vhost: self.vhost.clone(),
            arguments: arguments
                .into_iter()
                .map(|(name, value)| (name.to_owned(), value))
                .collect(),
            exchange,
        }
    }

    /// What the names of all delivery queues of a URL end with.
    #[must_use]
    pub fn url_hash(&self, url: &EndpointUrl) -> String {
        hex(&keyed_hash(self.url_hash_key.as_bytes(), url.as_str().as_bytes()))
    }

    /// Why nobody may send messages to a queue, where that is so: what comes into the wake queue is taken for the name of a
    /// queue that has something to do, and is gone.
    #[must_use]
    pub fn keeps_nothing(&self, queue: &QueueName) -> Option<String> {
        (queue.as_str() == self.wake_queue()).then(|| {
            format!(
                "is {:?}, by which daemons wake each other, and keeps no messages: name another queue",
                queue.as_str()
            )
        })
    }

    /// Whether `name` has the form of a delivery queue: our prefix, something, a dot and 32 hex digits.
    #[must_use]
    pub fn is_delivery_queue(&self, name: &str) -> bool {
        let Some((execution, hash)) = name.strip_prefix(&self.prefix).and_then(|rest| rest.rsplit_once('.')) else {
            return false;
        };
        !execution.is_empty()
            && hash.len() == URL_HASH_LEN
            && hash.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
    }

    /// The same as a regular expression of RabbitMQ's management API, which else overlooks case.
    #[must_use]
    pub fn delivery_queue_regex(&self) -> String {
        format!(r"^(?s-i:{}.+\.[0-9a-f]{{32}}\z)", regex::escape(&self.prefix))
    }

    /// The same as a pattern of SQLite's `GLOB`.
    #[must_use]
    pub fn delivery_queue_glob(&self) -> String {
        let mut glob = String::new();
        for one in self.prefix.chars() {
            match one {
                '*' | '?' | '[' => glob.extend(['[', one, ']']),
                _ => glob.push(one),
            }
        }
        glob + "?*." + &"[0-9a-f]".repeat(32)
    }

    /// The queue that a worker empties before `queue` itself (docs/protocols.md 22).
    #[must_use]
    pub fn companion(&self, queue: &QueueName) -> String {
        format!("{}{COMPANION}", queue.as_str())
    }

    /// The queue whose companion `name` is; `None`: it is none.
    #[must_use]
    pub fn companion_of(&self, name: &QueueName) -> Option<QueueName> {
        let queue = name.as_str().strip_suffix(COMPANION)?;
        let queue = self.is_delivery_queue(queue).then(|| QueueName::parse(queue).ok());
        queue.flatten()
    }

    /// The direct exchange through which notifications are published.
    #[must_use]
    pub fn exchange(&self) -> String {
        format!("{}{}", self.prefix, self.fingerprint())
    }

    /// The exchange that is there while every queue of the store is bound to [`Naming::exchange`].
    #[must_use]
    pub fn bound_exchange(&self) -> String {
        format!("{}.bound", self.exchange())
    }

    /// The exchange that says whose this broker is: which store its queues are delivered by. Nothing is ever routed
    /// through it.
    #[must_use]
    pub fn identity_exchange(&self) -> String {
        format!("{}identity", self.prefix)
    }

    /// The exchange that is there only while the broker is the store's: a look at it is an answer without its
    /// arguments, which AMQP shows to nobody.
    #[must_use]
    pub fn owner_exchange(&self, store: &StoreId) -> String {
        format!("{}identity.{}", self.prefix, store.as_str())
    }

    /// The dead-letter queue of this family of delivery queues.
    #[must_use]
    pub fn dead_letter_queue(&self) -> String {
        format!("{}dead", self.prefix)
    }

    /// A queue that a daemon makes for a moment, to see whether it may make one; no two have the same number.
    #[must_use]
    pub fn probe_queue(&self, number: u64) -> String {
        format!("{}{PROBE}{number:016x}", self.prefix)
    }

    /// Whether `name` is that of such a queue: it is nobody's, and gone at once.
    #[must_use]
    pub fn is_probe_queue(&self, name: &str) -> bool {
        let number = name
            .strip_prefix(&self.prefix)
            .and_then(|rest| rest.strip_prefix(PROBE));
        number.is_some_and(|number| number.len() == 16 && number.bytes().all(|b| b.is_ascii_hexdigit()))
    }

    /// The small lossy queue through which publishers say that a queue has something.
    #[must_use]
    pub fn wake_queue(&self) -> String {
        format!("{}wake", self.prefix)
    }

    /// Whether these settings give the queue of `record` its name.
    #[must_use]
    pub fn names(&self, record: &QueueRecord) -> bool {
        let known = record.execution.as_ref().zip(record.url.as_ref());
        known.is_some_and(|(execution, url)| self.delivery_queue(execution, url) == record.name)
    }

    /// Whether settings with `fingerprint` give every queue the name that these give it: no more than its type differs.
    #[must_use]
    pub fn names_as(&self, fingerprint: &str) -> bool {
        [QueueType::Classic, QueueType::Quorum].into_iter().any(|queue_type| {
            let alike = Self {
                queue_type,
                ..self.clone()
            };
            alike.fingerprint() == fingerprint
        })
    }

    /// Eight hex digits over prefix, key, queue type and URL serialisation.
    #[must_use]
    pub fn fingerprint(&self) -> String {
        let mut digest = Sha256::new();
        for part in [
            self.prefix.as_str(),
            &hex(&Sha256::digest(self.url_hash_key.as_bytes())),
            self.queue_type.as_str(),
            URL_SERIALISATION,
        ] {
            digest.update(part.len().to_be_bytes());
            digest.update(part.as_bytes());
        }
        hex(&digest.finalize()[..4])
    }
}

fn keyed_hash(key: &[u8], text: &[u8]) -> [u8; 16] {
    #[expect(clippy::expect_used, reason = "HMAC takes keys of any length")]
    let mut mac = Hmac::<Md5>::new_from_slice(key).expect("HMAC takes keys of any length");
    mac.update(text);
    mac.finalize().into_bytes().into()
}

/// Lower-case hex.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes
        .iter()
        .fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn naming() -> Naming {
        Naming {
            prefix: "redrive.".into(),
            vhost: "redrive".into(),
            url_hash_key: "k".into(),
            queue_type: QueueType::Classic,
        }
    }

    #[test]
    fn a_name_is_the_prefix_the_execution_and_the_keyed_hash_of_the_url() {
        let url = EndpointUrl::parse("http://example.com").unwrap();
        let name = naming().delivery_queue(&ExecutionId::parse("run-1").unwrap(), &url);
        // HMAC-MD5("k", "http://example.com/"), computed with another implementation.
        assert_eq!(name.as_str(), "redrive.run-1.30bf361a13f9509face00fedbedd065c");
        assert!(naming().is_delivery_queue(name.as_str()));
        assert!(!naming().is_probe_queue(name.as_str()));
        let probe = naming().probe_queue(7);
        assert!(naming().is_probe_queue(&probe) && !naming().is_delivery_queue(&probe));
    }

    #[test]
    fn a_long_execution_id_is_hashed_and_the_name_stays_in_its_bounds() {
        let url = EndpointUrl::parse("http://example.com").unwrap();
        let name = naming().delivery_queue(&ExecutionId::parse(&"x".repeat(500)).unwrap(), &url);
        assert!(name.as_str().len() + "redrive".len() <= NAME_BYTES_MAX, "{name:?}");
        assert!(naming().is_delivery_queue(name.as_str()));
    }

    #[test]
    fn other_settings_have_another_exchange() {
        let other = Naming {
            url_hash_key: "other".into(),
            ..naming()
        };
        assert_ne!(naming().exchange(), other.exchange());
        assert_eq!(naming().exchange().len(), "redrive.".len() + 8);
    }

    #[test]
    fn our_other_queues_are_not_delivery_queues() {
        let naming = naming();
        for name in [
            naming.dead_letter_queue(),
            naming.wake_queue(),
            "other.q".to_owned(),
            "redrive..".to_owned(),
        ] {
            assert!(!naming.is_delivery_queue(&name), "{name}");
        }
        let queue = QueueName::parse(&format!("redrive.a.{}", "0".repeat(32))).unwrap();
        assert!(!naming.is_delivery_queue(&naming.companion(&queue)));
    }

    #[test]
    fn a_companion_is_known_by_its_name_and_no_other_queue_is_one() {
        let naming = naming();
        let queue = QueueName::parse(&format!("redrive.a.{}", "0".repeat(32))).unwrap();
        let companion = QueueName::parse(&naming.companion(&queue)).unwrap();
        assert_eq!(naming.companion_of(&companion), Some(queue.clone()));
        for other in [queue.as_str(), "redrive.a.head", "other.head", ".head"] {
            assert_eq!(naming.companion_of(&QueueName::parse(other).unwrap()), None, "{other}");
        }
    }

    #[test]
    fn the_regular_expression_of_their_form_finds_delivery_queues_and_no_others() {
        let naming = Naming {
            prefix: "a.b+(c)-".into(),
            ..naming()
        };
        // As the management API looks for it.
        let regex = regex::Regex::new(&format!("(?i){}", naming.delivery_queue_regex())).unwrap();
        let hash = "0123456789abcdef".repeat(2);
        for (name, is_one) in [
            (format!("a.b+(c)-run-1.{hash}"), true),
            (format!("a.b+(c)-r\nu.n.{hash}"), true),
            (format!("a.b+(c)-.{hash}"), false),
            (format!("a.b+(c)-run.{hash}\n"), false),
            (format!("a.b+(c)-run.{hash}.head"), false),
            (format!("a.b+(c)-run.{}", hash.to_uppercase()), false),
            (format!("A.B+(C)-run.{hash}"), false),
            (format!("axb+(c)-run.{hash}"), false),
            (format!("x.a.b+(c)-run.{hash}"), false),
            (naming.dead_letter_queue(), false),
        ] {
            assert_eq!(naming.is_delivery_queue(&name), is_one, "{name}");
            assert_eq!(regex.is_match(&name), is_one, "{name}");
        }
    }
}
