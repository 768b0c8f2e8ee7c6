//! The dead letter of our own delivery: the message as it was, with all that is known of its failure, and without
//! what would lose or multiply it; that stands beside it (docs/protocols.md 32).
//!
//! Everything added is an `x-redrive-…` header, so that looking at it and sending it back need nothing
//! but the message (docs/architecture.md, *Life of a dead letter*).

use super::EngineError;
use super::publisher::Publisher;
use crate::broker::{BrokerError, Published};
use crate::domain::dead_letter::HEADER_DEAD;
use crate::domain::fingerprint::Fingerprint;
use crate::domain::id::QueueName;
use crate::domain::message::{HeaderValue, Message};
use crate::domain::naming::hex;
use crate::domain::queue::{Decision, Head};
use crate::domain::storable::{Storable, storable};
use crate::domain::time::Timestamp;

/// Bytes of an error or response that a dead letter carries, at most.
const SNIPPET_MAX: usize = 2048;

/// What is left out of a letter that does not fit with it.
const TEXTS: [&str; 2] = ["error", "response"];

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
    let Storable {
        message: mut letter,
        taken_off,
    } = storable(original);
    letter.headers.retain(|(name, _)| !name.starts_with(HEADER_DEAD));
    let text = |name: &str, value: &str| (format!("{HEADER_DEAD}{name}"), HeaderValue::text(cut(value)));
    let number = |name: &str, value: i64| (format!("{HEADER_DEAD}{name}"), HeaderValue::Integer(value));
    letter.headers.push(text("origin", origin.as_str()));
    letter.headers.push(text("decision", &decision.id));
    letter
        .headers
        .push(text("fingerprint", &hex(Fingerprint::of(original).as_bytes())));
    letter.headers.push(text("reason", &decision.reason));
    letter.headers.push(number("at", now.seconds()));
    let kept = taken_off
        .into_iter()
        .map(|(name, value)| (format!("{HEADER_DEAD}{}", name.to_lowercase().replace('_', "-")), value));
    letter.headers.extend(kept);
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

impl Publisher {
    /// Puts a dead letter where it stays: in the dead-letter queue, without the texts of its failure where it does not
    /// fit otherwise, or whole in the store (docs/protocols.md 32). An error means that it is nowhere yet, and waits.
    pub(super) async fn bury(&self, letter: &Message) -> Result<(), EngineError> {
        let Some(refusal) = self.publish_letter(letter).await? else {
            return Ok(());
        };
        if let Some(shorter) = without_texts(letter)
            && self.publish_letter(&shorter).await?.is_none()
        {
            return Ok(());
        }
        self.store_letter(letter, &refusal).await
    }

    /// The same for a decision that somebody may have carried out in part: what he stored is not published, too.
    pub(super) async fn bury_again(&self, letter: &Message) -> Result<(), EngineError> {
        if self.is_letter_stored(letter).await? {
            return Ok(());
        }
        self.bury(letter).await
    }

    /// Why the broker will never take it; `None` when it has it.
    async fn publish_letter(&self, letter: &Message) -> Result<Option<String>, EngineError> {
        let not_now = |detail| Err(BrokerError::Blocked { detail }.into());
        match self.broker.publish_dead(letter).await? {
            Published::Accepted => Ok(None),
            Published::Refused(why) => Ok(Some(why)),
            Published::NotNow(why) => not_now(why),
            Published::Returned => not_now("no queue takes dead letters".to_owned()),
        }
    }
}

/// The letter without the largest of what was added, and which that was; `None` where there is none of it.
fn without_texts(letter: &Message) -> Option<Message> {
    let is_text = |name: &str| TEXTS.iter().any(|text| name.strip_prefix(HEADER_DEAD) == Some(*text));
    let (cut, mut kept): (Vec<_>, Vec<_>) = letter.headers.iter().cloned().partition(|(name, _)| is_text(name));
    if cut.is_empty() {
        return None;
    }
    let names: Vec<&str> = cut.iter().map(|(name, _)| name.as_str()).collect();
    kept.push((format!("{HEADER_DEAD}left-out"), HeaderValue::text(&names.join(", "))));
    Some(letter.with_headers(kept))
}

fn cut(text: &str) -> &str {
    let mut end = text.len().min(SNIPPET_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_letter_keeps_what_was_taken_off_and_can_do_without_the_texts_of_its_failure() {
        let keys = HeaderValue::Array(vec![HeaderValue::text("elsewhere")]);
        let original = Message {
            expiration: Some("3000".to_owned()),
            transient: true,
            headers: vec![
                ("CC".to_owned(), keys.clone()),
                ("mine".to_owned(), HeaderValue::Void),
                // Of an earlier death, or somebody's invention.
                ("x-redrive-dead-reason".to_owned(), HeaderValue::text("forged")),
            ],
            ..Message::default()
        };
        let decision = Decision {
            id: "d".to_owned(),
            message: crate::domain::id::NotificationId::unnamed(),
            fingerprint: None,
            reason: "refused".to_owned(),
            epoch: crate::domain::id::Epoch(1),
        };
        let last = LastAttempt {
            status: Some(404),
            error: Some("no such thing".to_owned()),
            response: Some(vec![b'x'; 5_000]),
            ..LastAttempt::default()
        };
        let origin = QueueName::parse("q").unwrap();
        let letter = dead_letter(&original, &origin, &decision, None, &last, Timestamp::from_seconds(1));
        assert_eq!((letter.expiration.as_ref(), letter.transient), (None, false));
        assert_eq!(
            letter.header("x-redrive-dead-expiration"),
            Some(&HeaderValue::text("3000"))
        );
        assert_eq!(
            (letter.header("CC"), letter.header("x-redrive-dead-cc")),
            (None, Some(&keys))
        );
        assert_eq!(letter.header("x-redrive-dead-delivery-mode"), Some(&HeaderValue::U8(1)));
        assert_eq!(letter.header_text("x-redrive-dead-reason"), Some("refused"));
        let response = letter.header("x-redrive-dead-response").and_then(HeaderValue::as_bytes);
        assert_eq!(response.map(bytes::Bytes::len), Some(SNIPPET_MAX));

        let shorter = without_texts(&letter).unwrap();
        for text in TEXTS {
            assert_eq!(shorter.header(&format!("{HEADER_DEAD}{text}")), None);
        }
        assert_eq!(
            shorter.header_text("x-redrive-dead-left-out"),
            Some("x-redrive-dead-error, x-redrive-dead-response")
        );
        assert_eq!(shorter.headers.len(), letter.headers.len() - 1);
        assert_eq!(without_texts(&shorter), None);
    }
}
