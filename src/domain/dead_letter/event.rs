//! A dead row of the event table as a dead letter: the same columns, read from the event.

use sha2::{Digest, Sha256};

use super::{DeadLetter, DeadLetterId, Failure, Home, Likeness, TEXT_MAX, cut, fingerprint, part, what};
use crate::domain::event::Event;
use crate::domain::id::QueueName;

/// What all dead rows of the event table are indexed under. Their own queue is their type.
pub const EVENT_TABLE: &str = "(event table)";

/// Reads a dead event; `None` when its type is no name that a queue can have.
#[must_use]
pub fn of_event(event: &Event) -> Option<DeadLetter> {
    let error = event.reason.as_deref().map(|reason| cut(error_of(reason), TEXT_MAX));
    let reason = reason_of(event);
    let origin = event.origin.as_ref().unwrap_or(&event.event_type).as_str();
    let place = cut(origin, TEXT_MAX);
    let what = what(
        None,
        None,
        &Failure {
            text: error.clone(),
            kind: None,
        },
        reason,
    );
    let tried = event.attempts.max(event.claim_count);
    Some(DeadLetter {
        id: id_of(event),
        home: Home::Event,
        queue: QueueName::parse(event.event_type.as_str()).ok()?,
        position: event.id.unsigned_abs(),
        origin: Some(origin.to_owned()),
        message_id: Some(event.id.to_string()),
        url: None,
        execution: Some(format!("{origin}:{}", event.reference.as_str())),
        reason: reason.to_owned(),
        class: None,
        status: None,
        error,
        attempts: Some(tried.into()),
        first_failed_at: event.first_failed_at.or(Some(event.created_at)),
        last_failed_at: event.last_failed_at.or(Some(event.created_at)),
        expires_at: event.expires_at,
        redriven: 0,
        fingerprint: fingerprint(&place, &what),
        place,
        what,
        size_bytes: event.payload.as_ref().map_or(0, |payload| payload.len() as u64),
        begins: None,
        redelivered: false,
        broker: None,
    })
}

/// A row keeps its id as long as it lives, and no other row ever gets it.
fn id_of(event: &Event) -> DeadLetterId {
    let mut digest = Sha256::new();
    part(&mut digest, EVENT_TABLE.as_bytes());
    part(&mut digest, &event.id.to_be_bytes());
    let all = digest.finalize();
    let mut short = [0; 16];
    short.copy_from_slice(&all[..16]);
    let likeness = Likeness {
        digest: short,
        collapses: true,
    };
    DeadLetterId::new(&likeness, 1)
}

const fn reason_of(event: &Event) -> &'static str {
    if event.properties.is_some() {
        "undecodable"
    } else if event.origin.is_some() {
        "claimed too often"
    } else {
        "exhausted"
    }
}

/// Without when it failed, which is different each time.
fn error_of(reason: &str) -> &str {
    let failed = reason.strip_prefix("retry: failed_at=");
    failed
        .and_then(|rest| rest.split_once(" error="))
        .map_or(reason, |(_, error)| error)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::domain::event::{EventState, EventType, fixture, retry_reason};
    use crate::domain::time::Timestamp;

    fn event(id: i64, failed_at: i64) -> Event {
        let at = Timestamp::from_seconds(failed_at);
        Event {
            nbf: at,
            dated: None,
            created_at: Timestamp::from_seconds(1),
            first_at: Timestamp::from_seconds(1),
            attempts: 20,
            reason: Some(retry_reason(at, "exit 1: no employee 4711")),
            state: EventState::Dead,
            payload: Some(Bytes::from_static(b"{}")),
            last_failed_at: Some(at),
            ..fixture::event(id)
        }
    }

    #[test]
    fn events_that_failed_alike_are_one_group_and_each_has_its_own_id() {
        let (a, b) = (of_event(&event(7, 100)).unwrap(), of_event(&event(8, 200)).unwrap());
        assert_eq!(
            (&a.place, &a.what),
            (&"hr-import".to_owned(), &"exit #: no employee #".to_owned())
        );
        assert_eq!(a.fingerprint, b.fingerprint);
        assert_ne!(a.id, b.id);
        assert_eq!(DeadLetterId::parse(a.id.as_str()), Some(a.id.clone()));
        assert_eq!(of_event(&event(7, 900)).unwrap().id, a.id);
        assert_eq!(
            (a.home, a.attempts, a.reason.as_str()),
            (Home::Event, Some(20), "exhausted")
        );
        assert_eq!(a.message_id.as_deref(), Some("7"));
        assert_eq!(a.execution.as_deref(), Some("hr-import:4711"));
        assert_eq!(a.error.as_deref(), Some("exit 1: no employee 4711"));
    }

    #[test]
    fn what_claims_moved_says_where_it_came_from() {
        let mut moved = event(7, 100);
        moved.event_type = EventType::parse("hr-dead").unwrap();
        moved.origin = EventType::parse("hr-import").ok();
        moved.claim_count = 5;
        moved.attempts = 0;
        let letter = of_event(&moved).unwrap();
        assert_eq!(
            (letter.queue.as_str(), letter.origin.as_deref()),
            ("hr-dead", Some("hr-import"))
        );
        assert_eq!(
            (letter.reason.as_str(), letter.attempts),
            ("claimed too often", Some(5))
        );
    }
}
