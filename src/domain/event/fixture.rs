//! An event for tests.

use super::{Event, EventState, EventType, EventUid, Reference, Subtype};
use crate::domain::time::Timestamp;

/// One of type `hr-import` about `4711` that is ready, was never tried, and carries nothing.
pub(crate) fn event(id: i64) -> Event {
    Event {
        id,
        event_type: EventType::parse("hr-import").unwrap(),
        subtype: Subtype::Immediate,
        reference: Reference::parse("4711").unwrap(),
        nbf: Timestamp::EPOCH,
        dated: None,
        created_at: Timestamp::EPOCH,
        first_at: Timestamp::EPOCH,
        attempts: 0,
        reason: None,
        state: EventState::Ready,
        revision: 1,
        merged: 0,
        payload: None,
        properties: None,
        expires_at: None,
        claim_count: 0,
        claim_history: None,
        origin: None,
        first_failed_at: None,
        last_failed_at: None,
        lease: None,
        uid: EventUid::default(),
        trace: None,
    }
}
