//! What happens, as the stream of the HTTP API tells it while it happens.

use serde_json::{Value, json};

use super::record::Attempt;
use super::time;
use crate::engine::Event;
use crate::engine::event::Gone;

/// The kinds, by which a stream is chosen.
pub const KINDS: [&str; 9] = [
    "attempt",
    "endpoint",
    "dead_letter",
    "queue_ended",
    "queue_refused",
    "queue_gone",
    "incident",
    "turn",
    "connection",
];

/// An event's kind, one of [`KINDS`].
#[must_use]
pub const fn kind(event: &Event) -> &'static str {
    match event {
        Event::Attempted(_) => "attempt",
        Event::EndpointChanged { .. } => "endpoint",
        Event::DeadLettered { .. } => "dead_letter",
        Event::QueueEnded(_) => "queue_ended",
        Event::QueueRefused { .. } => "queue_refused",
        Event::QueueGone { .. } => "queue_gone",
        Event::Incident(_) => "incident",
        Event::Turned(_) => "turn",
        Event::Connection { .. } => "connection",
    }
}

/// Its document.
#[must_use]
pub fn document(event: &Event) -> Value {
    match event {
        Event::Attempted(attempt) => serde_json::to_value(Attempt::from(&**attempt)).unwrap_or_default(),
        Event::EndpointChanged { url, state } => json!({"url": url.as_str(), "state": state.as_str()}),
        Event::DeadLettered { queue, reason } | Event::QueueRefused { queue, reason } => {
            json!({"queue": queue.as_str(), "reason": reason})
        }
        Event::QueueEnded(queue) => json!({"queue": queue.as_str()}),
        Event::QueueGone {
            queue,
            how,
            messages,
            seen_at,
        } => {
            let (how, by) = match how {
                Gone::Expired => ("expired", None),
                Gone::Deleted(user) => ("deleted", Some(user)),
                Gone::Unknown => ("unknown", None),
            };
            json!({
                "queue": queue.as_str(),
                "how": how,
                "by": by,
                "messages": messages,
                "seen_at": time(*seen_at),
            })
        }
        Event::Incident(text) => json!({ "text": text }),
        Event::Turned(turn) => json!({
            "kind": turn.kind.as_str(),
            "subject": turn.subject,
            "text": turn.text,
            "count": turn.count,
            "at": time(turn.at),
        }),
        Event::Connection { part, up } => json!({"part": part, "up": up}),
    }
}
