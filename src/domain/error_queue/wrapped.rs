//! Frameworks that wrap what they give up into a JSON document of their own: `EasyNetQ` and Sneakers.
//!
//! Such a document is read only where the message, or its queue, says that it is one, and not when it is larger than
//! [`WRAPPER_BYTES_MAX`].

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde_json::Value;

use super::trace::{first_own_frame, first_own_line, root_of_trace};
use super::{GivenUp, PublishedTo, bounded, header_of, moment};
use crate::domain::death::COUNTING_HEADERS;
use crate::domain::message::Message;

/// A wrapper that is larger is not read.
const WRAPPER_BYTES_MAX: usize = 16 << 20;
/// What AMQP's `type` of an error of `EasyNetQ` begins with; its assembly follows.
const EASY_NET_Q: &str = "EasyNetQ.SystemMessages.Error";
/// How Sneakers calls its error queues.
const SNEAKERS: &str = "-error";
/// What is said where a body was text on its way that was none.
const DAMAGED: &str = "EasyNetQ wrapped its body as text, and it was none: what it was is lost; discard it, or send it again from its origin";

/// What a wrapper holds; the message itself where it is in none.
#[must_use]
pub fn unwrapped(queue: &str, message: &Message) -> Option<Message> {
    if let Some(document) = easy_net_q_document(message) {
        return inside_easy_net_q(&document);
    }
    let document = sneakers_document(queue, message)?;
    let body = payload(&document)?;
    Some(Message {
        body: Bytes::from(body),
        ..Message::default()
    })
}

pub(super) fn easy_net_q(message: &Message) -> Option<GivenUp> {
    let document = easy_net_q_document(message)?;
    let text = |name: &str| document.get(name).and_then(Value::as_str);
    let exception = text("Exception").unwrap_or_default();
    let root = root_of_trace(exception);
    let inside = text("Message").unwrap_or_default();
    let properties = document.get("BasicProperties");
    let id = properties.and_then(|all| all.get("MessageId")).and_then(Value::as_str);
    Some(GivenUp {
        framework: "EasyNetQ",
        died_in: text("Queue").filter(|queue| !queue.is_empty()).map(bounded),
        published: Some(PublishedTo {
            exchange: bounded(text("Exchange").unwrap_or_default()),
            routing_key: bounded(text("RoutingKey").unwrap_or_default()),
        }),
        error: Some(root.map_or(exception, |root| root.message))
            .filter(|text| !text.is_empty())
            .map(bounded),
        kind: root.map(|root| bounded(root.kind)),
        frame: first_own_frame(exception),
        at: text("DateTime").and_then(moment),
        message_id: id.filter(|id| !id.is_empty()).map(bounded),
        damaged: inside.contains('\u{fffd}').then_some(DAMAGED),
        ..GivenUp::default()
    })
}

fn easy_net_q_document(message: &Message) -> Option<Value> {
    let kind = message.kind.as_deref()?;
    let named = kind
        .strip_prefix(EASY_NET_Q)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with([',', ':']));
    let document = named.then(|| json(message)).flatten()?;
    document
        .get("Message")
        .is_some_and(Value::is_string)
        .then_some(document)
}

/// The message that it wraps, with the properties that it kept.
fn inside_easy_net_q(document: &Value) -> Option<Message> {
    let body = document.get("Message").and_then(Value::as_str)?;
    let properties = document.get("BasicProperties");
    let property = |name: &str| properties.and_then(|all| all.get(name));
    let text = |name: &str| {
        property(name)
            .and_then(Value::as_str)
            .filter(|text| !text.is_empty())
            .map(str::to_owned)
    };
    let headers = property("Headers").and_then(Value::as_object);
    let headers = headers.into_iter().flatten();
    Some(Message {
        content_type: text("ContentType"),
        content_encoding: text("ContentEncoding"),
        correlation_id: text("CorrelationId"),
        reply_to: text("ReplyTo"),
        message_id: text("MessageId"),
        kind: text("Type"),
        app_id: text("AppId"),
        timestamp_s: property("Timestamp")
            .and_then(Value::as_u64)
            .filter(|seconds| *seconds > 0),
        headers: headers
            .filter_map(|(name, value)| Some((name.clone(), header_of(value)?)))
            .collect(),
        body: Bytes::copy_from_slice(body.as_bytes()),
        ..Message::default()
    })
}

pub(super) fn sneakers(queue: &str, message: &Message) -> Option<GivenUp> {
    let document = sneakers_document(queue, message)?;
    let text = |name: &str| document.get(name).and_then(Value::as_str);
    Some(GivenUp {
        framework: "Sneakers",
        died_in: queue.strip_suffix(SNEAKERS).map(str::to_owned),
        error: text("error_message").or_else(|| text("error")).map(bounded),
        kind: text("error_class").map(bounded),
        frame: text("backtrace").and_then(first_own_line),
        attempts: document.get("num_attempts").and_then(Value::as_u64),
        at: text("failed_at").and_then(moment),
        ..GivenUp::default()
    })
}

fn sneakers_document(queue: &str, message: &Message) -> Option<Value> {
    // It writes no header at all; a quorum queue does, once somebody has looked.
    let mut names = message.headers.iter().map(|(name, _)| name.as_str());
    let is_bare = names.all(|name| COUNTING_HEADERS.contains(&name));
    let may_be = queue.ends_with(SNEAKERS) && is_bare;
    let document = may_be.then(|| json(message)).flatten()?;
    let is_one = document.get("num_attempts").is_some_and(Value::is_u64)
        && document.get("failed_at").is_some_and(Value::is_string)
        && payload(&document).is_some();
    is_one.then_some(document)
}

/// Base 64 with a line feed behind each 60 characters.
fn payload(document: &Value) -> Option<Vec<u8>> {
    let text = document.get("payload").and_then(Value::as_str)?;
    let text: String = text.chars().filter(|c| !c.is_ascii_whitespace()).collect();
    STANDARD.decode(text).ok()
}

fn json(message: &Message) -> Option<Value> {
    let begins = message.body.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'{');
    if !begins || message.body.len() > WRAPPER_BYTES_MAX {
        return None;
    }
    serde_json::from_slice(&message.body).ok()
}
