//! How events are looked for: which way leads to them, once for both drivers.

use bytes::Bytes;

use super::{EventSearch, EventsFound};
use crate::domain::event::{Event, EventState};
use crate::store::within::READ_BYTES;

/// Rows that are looked through at once, newest first, where no index leads.
pub(in crate::store) const AMONG: i64 = 20_000;
/// Rows that are looked through first: most pages are full after a few.
pub(in crate::store) const AMONG_FIRST: i64 = 1_000;
/// Shorter parts are in no index.
const PART_MIN: usize = 3;

/// What leads to the rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::store) enum Way {
    /// The key.
    Reference,
    /// The parts of the texts of failures.
    ErrorParts,
    /// The leases: they are few.
    Leases,
    /// The ids of dead letters.
    DeadLetters,
    /// The ids of what failed before.
    Attempts,
    /// The ids of a type.
    Type,
    /// The ids.
    Everything,
}

/// Which rows of a way are looked through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::store) enum Among {
    /// So many, the newest.
    Newest(i64),
    /// Those from this id on. What is pushed or removed before they are read moves no border.
    From(i64),
}

impl Among {
    /// The newest down to a border that was read before.
    pub(in crate::store) fn down_to(border: Option<i64>) -> Self {
        Self::From(border.unwrap_or(i64::MIN))
    }
}

impl Way {
    /// The one that meets the fewest rows.
    pub(in crate::store) fn of(search: &EventSearch) -> Self {
        if search.reference.is_some() {
            Self::Reference
        } else if search.error_parts.iter().any(|part| part.len() >= PART_MIN) {
            Self::ErrorParts
        } else if search.state == Some(EventState::Leased) {
            Self::Leases
        } else if search.dead_letters || search.state == Some(EventState::Dead) {
            Self::DeadLetters
        } else if search.attempts_min > 0 || !search.error_parts.is_empty() {
            Self::Attempts
        } else if search.event_type.is_some() {
            Self::Type
        } else {
            Self::Everything
        }
    }

    /// Whether all of its rows are looked through at once.
    pub(in crate::store) const fn is_direct(self) -> bool {
        matches!(self, Self::Reference | Self::ErrorParts | Self::Leases)
    }
}

/// The bytes of an event that a read counts.
pub(in crate::store) fn payload_bytes(event: &Event) -> usize {
    event.payload.as_ref().map_or(0, Bytes::len)
}

/// Whether a page ended for its rows or for its bytes, so that more may stand behind its last row.
pub(in crate::store) fn is_full(events: &[Event], search: &EventSearch) -> bool {
    let limit = usize::try_from(search.limit).unwrap_or(usize::MAX);
    events.len() >= limit || events.iter().map(payload_bytes).sum::<usize>() >= READ_BYTES
}

/// A full page goes on behind its last row, another one behind what was looked through.
pub(in crate::store) fn page(events: Vec<Event>, search: &EventSearch, reached: Option<i64>) -> EventsFound {
    let last = events.last().map(|event| event.id);
    let reached = if is_full(&events, search) { last } else { reached };
    EventsFound { events, reached }
}

/// The parts that an index knows.
pub(in crate::store) fn indexed_parts(search: &EventSearch) -> impl Iterator<Item = &str> {
    search
        .error_parts
        .iter()
        .map(String::as_str)
        .filter(|part| part.len() >= PART_MIN)
}
