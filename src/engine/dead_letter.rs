//! The dead letter of our own delivery: the message as it was, with all that is known of its failure.
//!
//! Everything added is an `x-redrive-…` header, so that looking at it and sending it back need nothing
//! but the message (DESIGN.md, *Dead letters*).

use crate::domain::dead_letter::HEADER_DEAD;
use crate::domain::id::QueueName;
use crate::domain::message::{HeaderValue, Message};
use crate::domain::queue::{Decision, Head};
use crate::domain::time::Timestamp;

/// Bytes of an error or response that a dead letter carries, at most.
const SNIPPET_MAX: usize = 2048;

/// What is known of the last attempt.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct LastAttempt {
    pub(super) class: Option<&'static str>,
    pub(super) status: Option<u16>,
    pub(super) error: Option<String>,
    pub(super) response: Option<Vec<u8>>,
    pub(super) policy: Option<String>,
}

/// The message to put into the dead-letter queue.
pub(super) fn dead_letter(
    original: &Message,
    origin: &QueueName,
    decision: &Decision,
    head: Option<&Head>,
    last: &LastAttempt,
    now: Timestamp,
) -> Message {
    let mut letter = original.clone();
    letter.headers.retain(|(name, _)| !name.starts_with(HEADER_DEAD));
    let text = |name: &str, value: &str| (format!("{HEADER_DEAD}{name}"), HeaderValue::text(cut(value)));
    let number = |name: &str, value: i64| (format!("{HEADER_DEAD}{name}"), HeaderValue::Integer(value));
    letter.headers.push(text("origin", origin.as_str()));
    letter.headers.push(text("decision", &decision.id));
    letter.headers.push(text("reason", &decision.reason));
    letter.headers.push(number("at", now.seconds()));
    if let Some(head) = head {
        letter.headers.push(number("attempts", i64::from(head.failures)));
        letter
            .headers
            .push(number("first-failed-at", head.first_failed_at.seconds()));
        letter
            .headers
            .push(number("last-failed-at", head.last_failed_at.seconds()));
    }
    letter.headers.extend(last.class.map(|class| text("class", class)));
    letter
        .headers
        .extend(last.status.map(|status| number("status", i64::from(status))));
    letter
        .headers
        .extend(last.error.as_deref().map(|error| text("error", error)));
    letter
        .headers
        .extend(last.policy.as_deref().map(|policy| text("policy", policy)));
    if let Some(response) = &last.response {
        let end = response.len().min(SNIPPET_MAX);
        let bytes = bytes::Bytes::copy_from_slice(&response[..end]);
        letter
            .headers
            .push((format!("{HEADER_DEAD}response"), HeaderValue::Text(bytes)));
    }
    letter
}

fn cut(text: &str) -> &str {
    let mut end = text.len().min(SNIPPET_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}
