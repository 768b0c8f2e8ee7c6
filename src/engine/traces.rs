//! Spans of what happens to a message: its publish, each attempt, its way back out of the dead letters.

use std::time::Duration;

use crate::delivery::Sent;
use crate::domain::attempt::Attempt;
use crate::domain::id::QueueName;
use crate::domain::message::Message;
use crate::domain::notification::{HEADER_REQUEST, Notification};
use crate::domain::outcome::OutcomeClass;
use crate::domain::time::Timestamp;
use crate::domain::trace::TRACEPARENT;
use crate::telemetry::{Fact, Span, SpanKind, record_span, spans_are_told};

const SYSTEM: (&str, Fact<'static>) = ("messaging.system", Fact::Text("rabbitmq"));

/// A publish ended: `failed` says why in a word.
pub(super) fn published(queue: &QueueName, message: &Message, began: Timestamp, took: Duration, failed: Option<&str>) {
    if !spans_are_told() {
        return;
    }
    record_span(&Span {
        name: "publish",
        kind: SpanKind::Producer,
        message: message.message_id.as_deref().unwrap_or_default(),
        parent: parent_of(message),
        began,
        took,
        failed,
        facts: &[
            SYSTEM,
            ("messaging.operation.type", Fact::Text("send")),
            ("messaging.destination.name", Fact::Text(queue.as_str())),
        ],
    });
}

/// A request to a receiver ended.
pub(super) fn attempted(notification: &Notification, attempt: &Attempt, sent: &Sent) {
    if !spans_are_told() {
        return;
    }
    let url = notification.url.redacted();
    let mut facts = vec![
        SYSTEM,
        ("messaging.operation.type", Fact::Text("process")),
        ("messaging.destination.name", Fact::Text(attempt.queue.as_str())),
        ("http.request.method", Fact::Text("POST")),
        ("url.full", Fact::Text(&url)),
        ("redrive.attempt", Fact::Count(attempt.number.into())),
        ("redrive.class", Fact::Text(attempt.class.as_str())),
    ];
    facts.extend(
        attempt
            .status
            .map(|status| ("http.response.status_code", Fact::Count(status.into()))),
    );
    let is_delivered = attempt.class == OutcomeClass::Delivered;
    let mut headers = notification.headers.iter();
    let parent = headers.find(|(name, _)| name.eq_ignore_ascii_case(TRACEPARENT));
    record_span(&Span {
        name: "attempt",
        kind: SpanKind::Client,
        message: notification.id.as_str(),
        parent: parent.map(|(_, value)| value.as_str()),
        began: sent.started_at,
        took: sent.duration,
        failed: (!is_delivered).then(|| attempt.class.as_str()),
        facts: &facts,
    });
}

/// A dead letter is where a run sent it.
pub(super) fn redriven(from: &QueueName, message: &Message, run: &str, at: Timestamp) {
    if !spans_are_told() {
        return;
    }
    record_span(&Span {
        name: "redrive",
        kind: SpanKind::Producer,
        message: message.message_id.as_deref().unwrap_or_default(),
        parent: parent_of(message),
        began: at,
        took: Duration::ZERO,
        failed: None,
        facts: &[
            SYSTEM,
            ("messaging.operation.type", Fact::Text("send")),
            ("redrive.dead_letter_queue", Fact::Text(from.as_str())),
            ("redrive.run", Fact::Text(run)),
        ],
    });
}

/// As it will be, or was, a header of the request; else as instrumented clients write it.
fn parent_of(message: &Message) -> Option<&str> {
    let request = format!("{HEADER_REQUEST}{TRACEPARENT}");
    message
        .header_text(&request)
        .or_else(|| message.header_text(TRACEPARENT))
}
