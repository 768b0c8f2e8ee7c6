//! Messages of an intake queue as one transaction: each key once, the last message of it.

use super::super::IntakeSettings;
use super::mapping::{HEADER_FRAME, event_of, undecodable};
use crate::ambient::HashMap;
use crate::broker::{DeliveryTag, Walked};
use crate::domain::event::EventType;
use crate::domain::text::show;
use crate::domain::time::Timestamp;
use crate::store::{EventBatch, NamedLease};

/// Messages that are logged one by one; the rest of a batch is counted.
const LOGGED: usize = 20;
/// Names of headers that are logged of a message; the rest is counted.
const NAMES_LOGGED: usize = 20;
/// Cells of such a name.
const NAME_WIDTH_MAX: usize = 60;

/// A batch, and what is to be said of it once it is committed.
#[derive(Debug)]
pub(super) struct Batch {
    pub(super) events: EventBatch,
    pub(super) tags: Vec<DeliveryTag>,
    /// Of each message that a later one of this batch replaced, the type.
    pub(super) folded: Vec<EventType>,
}

/// What a number of messages mean.
pub(super) fn batch_of(intake: &IntakeSettings, guard: &NamedLease, taken: &[Walked], now: Timestamp) -> Batch {
    let mut batch = Batch {
        events: EventBatch {
            guard: Some(guard.clone()),
            ..EventBatch::default()
        },
        tags: taken.iter().map(|walked| walked.tag).collect(),
        folded: Vec::new(),
    };
    let mut places = HashMap::default();
    for walked in taken {
        match event_of(intake, walked, now) {
            Ok(event) => {
                let key = (event.event_type.clone(), event.reference.clone(), event.nbf);
                if let Some(place) = places.get(&key).copied() {
                    batch.folded.push(event.event_type.clone());
                    batch.events.events[place] = event;
                } else {
                    places.insert(key, batch.events.events.len());
                    batch.events.events.push(event);
                }
            }
            Err(why) => batch.events.undecodable.push(undecodable(intake, walked, &why)),
        }
    }
    batch
}

impl Batch {
    /// Says in the log what is no event: once, when it is kept.
    pub(super) fn log_undecodable(&self, intake: &IntakeSettings) {
        let undecodable = &self.events.undecodable;
        for message in undecodable.iter().take(LOGGED) {
            tracing::error!(
                queue = ?intake.queue, why = ?message.reason, properties = ?named(&message.properties),
                bytes = message.payload.len(), reference = ?message.reference,
                "a message is no event: kept as a dead letter"
            );
        }
        if undecodable.len() > LOGGED {
            let more = undecodable.len() - LOGGED;
            tracing::error!(queue = ?intake.queue, more, "more messages of the batch are no events");
        }
    }
}

/// Without the values of headers, which may be secrets, and so without the header frame that they stand in.
fn named(properties: &str) -> String {
    let mut properties: serde_json::Value = serde_json::from_str(properties).unwrap_or_default();
    if let Some(headers) = properties["headers"].as_object() {
        let names = headers.keys().take(NAMES_LOGGED);
        let mut names: Vec<String> = names.map(|name| show(name, NAME_WIDTH_MAX)).collect();
        if headers.len() > NAMES_LOGGED {
            names.push(format!("{} more", headers.len() - NAMES_LOGGED));
        }
        properties["headers"] = names.into();
    }
    if let Some(all) = properties.as_object_mut() {
        all.remove(HEADER_FRAME);
    }
    properties.to_string()
}

#[cfg(test)]
mod tests {
    use super::super::mapping::tests::{intake, walked};
    use super::super::mapping::unreadable;
    use super::*;
    use crate::domain::id::Epoch;

    #[test]
    fn of_the_messages_of_a_key_the_last_counts_and_dated_ones_stand_for_themselves() {
        let guard = NamedLease {
            name: "intake".to_owned(),
            epoch: Epoch(1),
        };
        let number = |n: u32, rest: &str| walked(&format!(r#"{{"employee": [{{"number": {n}}}], "v": 1{rest}}}"#));
        let taken = [
            number(1, ""),
            number(2, ""),
            walked("no"),
            number(1, r#", "nbf": 1700000000"#),
            number(1, r#", "nbf": 1800000000"#),
            number(1, r#", "late": true"#),
        ];
        let batch = batch_of(&intake(), &guard, &taken, Timestamp::from_seconds(1_600_000_000));
        assert_eq!(
            (batch.events.events.len(), batch.folded.len(), batch.tags.len()),
            (4, 1, 6)
        );
        let first = batch.events.events[0].payload.clone().unwrap();
        assert!(String::from_utf8_lossy(&first).contains("late"));
        assert_eq!(batch.events.undecodable.len(), 1);
        assert!(named(&batch.events.undecodable[0].properties).contains("\"headers\":[]"));
    }

    #[test]
    fn a_line_of_the_log_has_the_names_of_a_few_headers_and_no_value() {
        let mut walked = walked("no");
        let secret = crate::domain::message::HeaderValue::text("S3CRET");
        let name = |n: u32| format!("{n}{}", "x".repeat(250));
        walked.message.headers = (0..500).map(|n| (name(n), secret.clone())).collect();
        let logged = named(&undecodable(&intake(), &walked, "not JSON").properties);
        assert!(logged.contains("480 more") && !logged.contains("S3CRET"), "{logged}");
        assert!(logged.len() < 2000, "{}", logged.len());
        let frame = b"authorization S3CRET".repeat(5000);
        let logged = named(&unreadable(&intake(), &frame, b"no", "its type is not UTF-8").properties);
        assert_eq!(logged, r#"{"queue":"q_hr"}"#);
    }
}
