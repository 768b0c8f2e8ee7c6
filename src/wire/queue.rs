//! Queues, what waits at their head, and messages that were looked at.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;

use crate::domain::findings::Finding;
use crate::domain::message::{HeaderValue, Message};
use crate::domain::naming::{Address, Argument};
use crate::domain::notification::{HEADER_EXECUTION, HEADER_URL};
use crate::domain::on_broker::{OnBroker, QueueBinding, QueueConsumer};
use crate::domain::queue::{Head, Pause, QueueState, Why};
use crate::domain::time::Timestamp;
use crate::domain::url::EndpointUrl;
use crate::engine::dead::QueueStep;
use crate::engine::view::{BrowsedMessage, QueueView};

use super::{Time, Unread, time, unread, words};

/// A queue.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct Queue {
    /// Its name.
    pub name: String,
    /// What it is for.
    #[schemars(with = "words::QueueKind")]
    pub kind: &'static str,
    /// The execution whose notifications it carries.
    pub execution_id: Option<String>,
    /// Where its notifications go.
    pub url: Option<String>,
    /// Messages that wait; null: not known.
    pub ready: Option<u64>,
    /// Messages that are in flight; null: not known.
    pub unacked: Option<u64>,
    /// Whether it moves; null where redrive does not deliver from it, or whether anything waits is not known.
    #[schemars(with = "Option<words::DeliveryState>")]
    pub state: Option<&'static str>,
    /// Why it is in that state.
    pub why: Option<QueueWhy>,
    /// The daemon that delivers from it.
    pub owner: Option<String>,
    /// How old the message at its head is, in seconds.
    pub oldest_age_s: Option<u64>,
    /// When its head is tried next.
    pub next_attempt_at: Option<Time>,
    /// Whether somebody paused it.
    pub paused: bool,
    /// Who paused it.
    pub pause: Option<QueuePause>,
    /// The message at its head, where that failed.
    pub head: Option<QueueHead>,
    /// Messages that were delivered from it.
    pub delivered: Option<u64>,
    /// What to know about it.
    pub warnings: Vec<String>,
    /// What will surprise about it.
    pub findings: Vec<FindingShape>,
    /// The queue as the broker has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub broker: Option<OnBrokerShape>,
    /// When it was read.
    pub taken_at: Option<Time>,
    /// What could not be read, so that something may be missing.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<Unread>,
}

/// What will surprise about a queue.
#[derive(Clone, Debug, JsonSchema, Serialize)]
#[schemars(rename = "Finding")]
pub struct FindingShape {
    /// Names its kind.
    pub code: &'static str,
    /// What it would do.
    pub effect: String,
    /// What to do.
    pub mend: &'static str,
}

impl From<&Finding> for FindingShape {
    fn from(finding: &Finding) -> Self {
        Self {
            code: finding.code,
            effect: finding.effect.clone(),
            mend: finding.mend,
        }
    }
}

impl From<&QueueView> for Queue {
    fn from(view: &QueueView) -> Self {
        Self {
            name: view.name.as_str().to_owned(),
            kind: view.kind.as_str(),
            execution_id: view.execution.as_ref().map(|id| id.as_str().to_owned()),
            url: view.url.as_ref().map(|url| url.as_str().to_owned()),
            ready: view.ready,
            unacked: view.unacked,
            state: view.state.map(QueueState::as_str),
            why: view.why.as_ref().map(QueueWhy::from),
            owner: view.owner.clone(),
            oldest_age_s: view.oldest_age.map(|age| age.as_secs()),
            next_attempt_at: view.next_attempt_at.and_then(time),
            paused: view.paused.is_some(),
            pause: view.paused.as_ref().map(QueuePause::from),
            head: view.head.as_ref().map(QueueHead::from),
            delivered: view.delivered,
            warnings: view.warnings.clone(),
            findings: view.findings.iter().map(FindingShape::from).collect(),
            broker: view.on_broker.as_deref().map(OnBrokerShape::from),
            taken_at: time(view.taken_at),
            problems: unread(&view.problems),
        }
    }
}

/// A queue as the broker has it.
#[derive(Clone, Debug, JsonSchema, Serialize)]
#[schemars(rename = "OnBroker")]
pub struct OnBrokerShape {
    /// `classic`, `quorum` or `stream`.
    #[serde(rename = "type")]
    pub queue_type: Option<String>,
    /// What the broker says of it.
    pub state: Option<String>,
    /// The node that leads it.
    pub node: Option<String>,
    /// How many consume it.
    pub consumers: Option<u64>,
    /// Who consumes it; at most 50 are named.
    pub consumer_list: Vec<Consumer>,
    /// Messages that come in a second.
    pub in_a_second: Option<f64>,
    /// Messages that are sent to consumers in a second.
    pub out_a_second: Option<f64>,
    /// Messages that consumers settle in a second.
    pub settled_a_second: Option<f64>,
    /// Since when nobody has used it.
    pub idle_since: Option<Time>,
    /// The arguments that it was declared with.
    pub arguments: BTreeMap<String, String>,
    /// The policy that applies to it.
    pub policy: Option<String>,
    /// The operator policy that applies to it.
    pub operator_policy: Option<String>,
    /// What arguments and policies come to.
    pub in_force: BTreeMap<String, String>,
    /// What brings messages into it; at most 50 are named.
    pub bindings: Vec<Binding>,
}

impl From<&OnBroker> for OnBrokerShape {
    fn from(queue: &OnBroker) -> Self {
        Self {
            queue_type: queue.queue_type.clone(),
            state: queue.state.clone(),
            node: queue.node.clone(),
            consumers: queue.consumers,
            consumer_list: queue.consumer_list.iter().map(Consumer::from).collect(),
            in_a_second: queue.in_a_second,
            out_a_second: queue.out_a_second,
            settled_a_second: queue.settled_a_second,
            idle_since: queue.idle_since.and_then(time),
            arguments: queue.arguments.iter().cloned().collect(),
            policy: queue.policy.clone(),
            operator_policy: queue.operator_policy.clone(),
            in_force: queue.in_force.iter().cloned().collect(),
            bindings: queue.bindings.iter().map(Binding::from).collect(),
        }
    }
}

/// One that consumes a queue.
#[derive(Clone, Debug, JsonSchema, Serialize)]
#[schemars(rename = "QueueConsumer")]
pub struct Consumer {
    /// Its tag.
    pub tag: String,
    /// Its connection, as the broker calls it.
    pub connection: Option<String>,
    /// Messages that it may have in hand; 0: any number.
    pub prefetch: Option<u64>,
    /// Whether it settles what it takes: `false` means that a message is gone when it is sent.
    pub settles: Option<bool>,
    /// Whether it gets messages: of a queue with a single active consumer, one does.
    pub active: Option<bool>,
}

impl From<&QueueConsumer> for Consumer {
    fn from(consumer: &QueueConsumer) -> Self {
        Self {
            tag: consumer.tag.clone(),
            connection: consumer.connection.clone(),
            prefetch: consumer.prefetch,
            settles: consumer.settles,
            active: consumer.active,
        }
    }
}

/// What brings messages into a queue.
#[derive(Clone, Debug, JsonSchema, Serialize)]
#[schemars(rename = "QueueBinding")]
pub struct Binding {
    /// The exchange.
    pub exchange: String,
    /// The routing key.
    pub key: String,
}

impl From<&QueueBinding> for Binding {
    fn from(binding: &QueueBinding) -> Self {
        Self {
            exchange: binding.exchange.clone(),
            key: binding.key.clone(),
        }
    }
}

/// A queue on the way of dead letters, with what leads into it and out of it.
#[derive(Clone, Debug, JsonSchema, Serialize)]
#[schemars(rename = "QueueStep")]
pub struct Step {
    /// Its name.
    pub name: String,
    /// Whether it is there: messages that go to one that is not are gone.
    pub there: bool,
    /// Messages that wait in it; null: not known.
    pub ready: Option<u64>,
    /// Messages that are in flight; null: not known.
    pub unacked: Option<u64>,
    /// How many consume it.
    pub consumers: Option<u64>,
    /// What brings messages, beside the default exchange; at most 50 are named.
    pub bindings: Vec<Binding>,
    /// Where messages go that die in it; null: they are gone.
    pub dies_to: Option<DiesTo>,
}

/// Where messages go that die in a queue.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct DiesTo {
    /// The exchange, empty for the default one.
    pub exchange: String,
    /// The key that they get; null: they keep their own.
    pub routing_key: Option<String>,
    /// The queues that it leads to, those that are only possible too.
    pub queues: Vec<String>,
    /// Why that is not certain.
    pub doubts: Vec<String>,
}

impl From<&QueueStep> for Step {
    fn from(step: &QueueStep) -> Self {
        Self {
            name: step.name.clone(),
            there: step.is_there,
            ready: step.ready,
            unacked: step.unacked,
            consumers: step.consumers,
            bindings: step.bindings.iter().map(Binding::from).collect(),
            dies_to: step.dies_to.as_ref().map(|dies_to| DiesTo {
                exchange: dies_to.exchange.clone(),
                routing_key: dies_to.routing_key.clone(),
                queues: dies_to.queues.clone(),
                doubts: dies_to.doubts.clone(),
            }),
        }
    }
}

/// Why a queue moves or does not.
#[derive(Clone, Debug, JsonSchema, Serialize)]
#[schemars(rename = "Why")]
pub struct QueueWhy {
    /// The state whose reason this is; null where that is not known.
    #[schemars(with = "Option<words::DeliveryState>")]
    pub code: Option<&'static str>,
    /// One sentence.
    pub text: String,
    /// When it ends by itself.
    pub until: Option<Time>,
}

impl From<&Why> for QueueWhy {
    fn from(why: &Why) -> Self {
        Self {
            code: why.state.map(QueueState::as_str),
            text: why.text.clone(),
            until: why.until.and_then(time),
        }
    }
}

/// Who paused a queue.
#[derive(Clone, Debug, JsonSchema, Serialize)]
#[schemars(rename = "Pause")]
pub struct QueuePause {
    /// The actor.
    pub by: String,
    /// Their reason.
    pub reason: Option<String>,
    /// When.
    pub at: Option<Time>,
}

impl From<&Pause> for QueuePause {
    fn from(pause: &Pause) -> Self {
        Self {
            by: pause.by.clone(),
            reason: pause.reason.clone(),
            at: time(pause.at),
        }
    }
}

/// The message at the head, when it failed.
#[derive(Clone, Debug, JsonSchema, Serialize)]
#[schemars(rename = "Head")]
pub struct QueueHead {
    /// Its id.
    pub message_id: String,
    /// Attempts that failed.
    pub attempts: u32,
    /// How many attempts the policy allows.
    pub of: u32,
    /// The phase of the retry policy.
    #[schemars(with = "Option<words::RetryPhase>")]
    pub phase: Option<&'static str>,
    /// When it failed first.
    pub first_failed_at: Option<Time>,
    /// When it failed last.
    pub last_failed_at: Option<Time>,
    /// The HTTP status of the last answer.
    pub status: Option<u16>,
    /// The last error where there was no answer.
    pub error: Option<String>,
    /// When it is tried next.
    pub next_attempt_at: Option<Time>,
    /// Whether it waits for a person.
    pub parked: bool,
}

impl From<&Head> for QueueHead {
    fn from(head: &Head) -> Self {
        Self {
            message_id: head.message.as_str().to_owned(),
            attempts: head.failures,
            of: head.attempts_allowed,
            phase: head.phase.map(crate::domain::policy::Phase::as_str),
            first_failed_at: time(head.first_failed_at),
            last_failed_at: time(head.last_failed_at),
            status: head.last_status,
            error: head.last_error.clone(),
            next_attempt_at: head.next_attempt_at.and_then(time),
            parked: head.parked,
        }
    }
}

/// The answer to *why is it not moving?*
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct WhyAnswer {
    /// Its name.
    pub name: String,
    /// Whether the queue moves.
    #[schemars(with = "Option<words::DeliveryState>")]
    pub state: Option<&'static str>,
    /// Why it is in that state.
    pub why: Option<QueueWhy>,
    /// The state whose reason is told.
    #[schemars(with = "Option<words::DeliveryState>")]
    pub code: Option<&'static str>,
    /// The reason as a sentence.
    pub text: Option<String>,
    /// When it ends by itself.
    pub until: Option<Time>,
    /// Where its notifications go.
    pub url: Option<String>,
    /// The daemon that delivers from it.
    pub owner: Option<String>,
    /// When it is tried next.
    pub next_attempt_at: Option<Time>,
    /// The message at its head, where that failed.
    pub head: Option<QueueHead>,
    /// What to know about it.
    pub warnings: Vec<String>,
    /// The queue as the broker has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub broker: Option<OnBrokerShape>,
    /// When it was read.
    pub taken_at: Option<Time>,
    /// What could not be read, so that something may be missing.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<Unread>,
}

impl From<&QueueView> for WhyAnswer {
    fn from(view: &QueueView) -> Self {
        let queue = Queue::from(view);
        Self {
            name: queue.name,
            state: queue.state,
            code: queue.why.as_ref().and_then(|why| why.code),
            text: queue
                .why
                .as_ref()
                .map(|why| why.text.clone())
                .or_else(|| view.not_delivered()),
            until: queue.why.as_ref().and_then(|why| why.until.clone()),
            why: queue.why,
            url: queue.url,
            owner: queue.owner,
            next_attempt_at: queue.next_attempt_at,
            head: queue.head,
            warnings: queue.warnings,
            broker: queue.broker,
            taken_at: queue.taken_at,
            problems: queue.problems,
        }
    }
}

/// Of a body, this much is shown.
const BODY_SHOWN_BYTES_MAX: usize = 64 * 1024;

/// A message that was looked at.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct Browsed {
    /// 1 is the head.
    pub position: u32,
    /// The property `message_id`.
    pub message_id: Option<String>,
    /// The property `type`.
    pub r#type: Option<String>,
    /// The execution that it names.
    pub execution_id: Option<String>,
    /// The URL that it names.
    pub url: Option<String>,
    /// The property `content_type`.
    pub content_type: Option<String>,
    /// The property `timestamp`.
    pub timestamp: Option<Time>,
    /// Its headers in their order.
    pub headers: Vec<Header>,
    /// Bytes of the whole body.
    pub body_bytes: usize,
    /// Whether the body is cut.
    pub body_truncated: bool,
    /// The beginning of the body where that is UTF-8.
    pub body: Option<String>,
    /// The beginning of the body where it is not.
    pub body_base64: Option<String>,
    /// Why it cannot be delivered.
    pub foreign: Option<String>,
    /// Whether it was delivered before.
    pub redelivered: bool,
}

/// A header of a message.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct Header {
    /// Its name.
    pub name: String,
    /// Its value; bytes that are not UTF-8 are replaced.
    pub value: serde_json::Value,
}

impl From<&BrowsedMessage> for Browsed {
    fn from(browsed: &BrowsedMessage) -> Self {
        let message = &browsed.message;
        let (shown, truncated) = beginning(&message.body);
        let (body, body_base64) = super::text_or_base64(shown);
        Self {
            position: browsed.position,
            message_id: message.message_id.clone(),
            r#type: message.kind.clone(),
            execution_id: message.header_text(HEADER_EXECUTION).map(ToOwned::to_owned),
            url: message.header_text(HEADER_URL).map(ToOwned::to_owned),
            content_type: message.content_type.clone(),
            timestamp: message.created_at().and_then(time),
            headers: headers(message),
            body_bytes: message.body.len(),
            body_truncated: truncated,
            body,
            body_base64,
            foreign: browsed.foreign.clone(),
            redelivered: browsed.redelivered,
        }
    }
}

/// The beginning of a body, cut between two characters where it is text.
fn beginning(body: &[u8]) -> (&[u8], bool) {
    let Some(cut) = body.get(..BODY_SHOWN_BYTES_MAX).filter(|cut| cut.len() < body.len()) else {
        return (body, false);
    };
    match std::str::from_utf8(cut) {
        Err(error) if error.error_len().is_none() => (cut.get(..error.valid_up_to()).unwrap_or(cut), true),
        Ok(_) | Err(_) => (cut, true),
    }
}

pub(super) fn headers(message: &Message) -> Vec<Header> {
    let header = |(name, value): &(String, HeaderValue)| Header {
        name: name.clone(),
        value: shown(value),
    };
    message.headers.iter().map(header).collect()
}

/// The value in JSON's types. Its depth was bounded when it was read.
fn shown(value: &HeaderValue) -> serde_json::Value {
    match value {
        HeaderValue::Text(bytes) | HeaderValue::Bytes(bytes) => String::from_utf8_lossy(bytes).into_owned().into(),
        HeaderValue::Integer(number) => (*number).into(),
        HeaderValue::I8(number) => (*number).into(),
        HeaderValue::U8(number) => (*number).into(),
        HeaderValue::I16(number) => (*number).into(),
        HeaderValue::U16(number) => (*number).into(),
        HeaderValue::I32(number) => (*number).into(),
        HeaderValue::U32(number) => (*number).into(),
        HeaderValue::Bool(flag) => (*flag).into(),
        HeaderValue::Float(number) => (*number).into(),
        HeaderValue::Double(number) => (*number).into(),
        HeaderValue::Decimal { scale, value } => format!("{value}e-{scale}").into(),
        HeaderValue::Timestamp(seconds) => i64::try_from(*seconds)
            .ok()
            .and_then(|seconds| time(Timestamp::from_seconds(seconds)))
            .map_or_else(|| (*seconds).into(), |at| String::from(at).into()),
        HeaderValue::Array(values) => values.iter().map(shown).collect::<Vec<_>>().into(),
        HeaderValue::Table(entries) => {
            let entries = entries.iter().map(|(name, value)| (name.clone(), shown(value)));
            serde_json::Value::Object(entries.collect())
        }
        HeaderValue::Void => serde_json::Value::Null,
        HeaderValue::Other(text) => text.clone().into(),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::domain::id::{ExecutionId, QueueName};
    use crate::domain::queue::QueueKind;
    use crate::domain::time::Timestamp;
    use crate::domain::url::EndpointUrl;

    fn view() -> QueueView {
        QueueView {
            name: QueueName::parse("redrive.run.00").unwrap(),
            kind: QueueKind::Delivery,
            execution: Some(ExecutionId::parse("run").unwrap()),
            url: Some(EndpointUrl::parse("http://example.com/#x").unwrap()),
            ready: None,
            unacked: Some(1),
            state: Some(QueueState::Paused),
            why: Some(Why {
                state: Some(QueueState::Paused),
                text: "paused by eve".to_owned(),
                until: None,
            }),
            owner: None,
            oldest_age: Some(Duration::from_millis(61_900)),
            next_attempt_at: None,
            paused: Some(Pause {
                by: "eve".to_owned(),
                reason: None,
                at: Timestamp::from_seconds(0),
            }),
            head: None,
            delivered: Some(3),
            warnings: Vec::new(),
            findings: Vec::new(),
            on_broker: None,
            taken_at: Timestamp::from_seconds(0),
            problems: Vec::new(),
        }
    }

    #[test]
    fn a_queue_has_the_keys_of_the_contract_and_null_for_the_unknown() {
        let json = serde_json::to_value(Queue::from(&view())).unwrap();
        for key in [
            "name",
            "kind",
            "execution_id",
            "url",
            "ready",
            "unacked",
            "state",
            "why",
            "owner",
            "oldest_age_s",
            "next_attempt_at",
            "paused",
            "warnings",
            "taken_at",
        ] {
            assert!(json.get(key).is_some(), "{key} is missing");
        }
        assert!(json["ready"].is_null());
        assert_eq!(json["oldest_age_s"], 61);
        assert_eq!(json["url"], "http://example.com/");
        assert_eq!(json["paused"], true);
        assert_eq!(
            json["why"],
            serde_json::json!({"code": "paused", "text": "paused by eve", "until": null})
        );
    }

    #[test]
    fn a_body_is_shown_as_text_where_it_is_text_and_cut_between_characters() {
        let show = |body: Vec<u8>| {
            Browsed::from(&BrowsedMessage {
                position: 1,
                message: Message {
                    body: body.into(),
                    ..Message::default()
                },
                foreign: None,
                redelivered: false,
            })
        };
        assert_eq!(show(b"abc".to_vec()).body.as_deref(), Some("abc"));
        assert_eq!(show(vec![0xff, 0]).body_base64.as_deref(), Some("/wA="));
        let long = show("é".repeat(BODY_SHOWN_BYTES_MAX).into_bytes());
        assert!(long.body_truncated && long.body.is_some());
        let odd = show(format!("a{}", "é".repeat(BODY_SHOWN_BYTES_MAX)).into_bytes());
        assert_eq!(odd.body.unwrap().len(), BODY_SHOWN_BYTES_MAX - 1);
    }
}

/// The routing key of nudges.
pub const WAKE_KEY: &str = "wake";

/// How any AMQP client publishes to a delivery queue.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct Addressed {
    /// Its name.
    pub queue: String,
    /// The URL as it counts.
    pub url: String,
    /// Where it is.
    pub vhost: String,
    /// What is published to.
    pub exchange: String,
    /// With this key.
    pub routing_key: String,
    /// The key of an empty message with the queue's name as its body, by which a publisher is noticed at once.
    pub wake_key: &'static str,
    /// How a queue that is not there is declared.
    pub declare: Declare,
    /// With these arguments.
    pub arguments: serde_json::Value,
}

/// The flags of a declare.
#[derive(Clone, Copy, Debug, JsonSchema, Serialize)]
pub struct Declare {
    /// Always true: it outlives the broker.
    durable: bool,
    /// Always false: any connection may use it.
    exclusive: bool,
    /// Always false: it stays when nobody consumes it.
    auto_delete: bool,
}

impl Addressed {
    /// Of the queue of a URL.
    #[must_use]
    pub fn new(address: Address, url: &EndpointUrl) -> Self {
        let arguments = address.arguments.into_iter().map(|(name, value)| {
            let value = match value {
                Argument::Text(text) => json!(text),
                Argument::Integer(number) => json!(number),
                Argument::Long(number) => json!(number),
                Argument::Flag(flag) => json!(flag),
            };
            (name, value)
        });
        Self {
            queue: address.queue.as_str().to_owned(),
            url: url.as_str().to_owned(),
            vhost: address.vhost,
            exchange: address.exchange,
            routing_key: address.queue.as_str().to_owned(),
            wake_key: WAKE_KEY,
            declare: Declare {
                durable: true,
                exclusive: false,
                auto_delete: false,
            },
            arguments: arguments.collect::<serde_json::Map<_, _>>().into(),
        }
    }
}
