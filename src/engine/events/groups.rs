//! Events in groups of those that are there for the same reason: what an operator looks at before single events.
//!
//! A group is a state and a kind of reason; what is different each time (numbers, ids, times) makes no other
//! group. Only so many of the newest events are looked at, and the answer says how many: a group's events
//! themselves are found by the field `group` of a filter, which compares every event.

use std::time::Duration;

use super::EventOperations;
use super::EventsQuery;
use super::fields::error_of;
use crate::ambient::HashMap;
use crate::domain::dead_letter::{fingerprint, kind_of};
use crate::domain::event::{Event, EventState};
use crate::domain::time::Timestamp;
use crate::engine::EngineError;
use crate::engine::view::Page;

/// Events that are looked at, at most.
const LOOKED_MAX: usize = 5_000;
/// Events of one page: payloads come with them.
const PAGE: u32 = 250;
/// How long is looked, at most.
const LOOK: Duration = Duration::from_millis(600);

/// Events that are there for the same reason.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct EventGroup {
    /// As a filter names it: `group = "…"`.
    pub id: String,
    /// What they are doing.
    pub state: EventState,
    /// Why they are there (from outside).
    pub what: String,
    /// How many were seen.
    pub count: u64,
    /// The soonest due time.
    pub first_nbf: Timestamp,
    /// The oldest push.
    pub oldest: Timestamp,
    /// The last failure.
    pub last_failed_at: Option<Timestamp>,
}

/// The groups of what was looked at, the largest first.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct EventGroups {
    /// The groups.
    pub groups: Vec<EventGroup>,
    /// How many events were looked at, the newest first.
    pub looked: u64,
    /// Whether there are older ones that were not looked at.
    pub more: bool,
    /// When.
    pub taken_at: Timestamp,
}

impl EventOperations {
    /// The groups of the events of a query; its limit and cursor do not count.
    pub(in crate::engine) async fn event_groups(&self, query: &EventsQuery) -> Result<EventGroups, EngineError> {
        let mut asked = EventsQuery {
            limit: PAGE,
            cursor: None,
            ..query.clone()
        };
        let started = self.clock.uptime();
        let mut grouped = Grouped::default();
        loop {
            let page = self.events_list(&asked).await?;
            page.items.iter().for_each(|event| grouped.add(event));
            let enough = grouped.looked >= LOOKED_MAX || self.clock.uptime().saturating_sub(started) > LOOK;
            if page.next_cursor.is_none() || enough {
                return Ok(grouped.finish(&page));
            }
            asked.cursor = page.next_cursor;
        }
    }
}

#[derive(Default)]
struct Grouped {
    by_id: HashMap<String, EventGroup>,
    looked: usize,
}

impl Grouped {
    fn add(&mut self, event: &Event) {
        self.looked += 1;
        let what = what(event);
        let id = fingerprint(event.state.as_str(), &what);
        let group = self.by_id.entry(id).or_insert_with_key(|id| EventGroup {
            id: id.clone(),
            state: event.state,
            what,
            count: 0,
            first_nbf: event.nbf,
            oldest: event.created_at,
            last_failed_at: None,
        });
        group.count += 1;
        group.first_nbf = group.first_nbf.min(event.nbf);
        group.oldest = group.oldest.min(event.created_at);
        group.last_failed_at = group.last_failed_at.max(event.last_failed_at);
    }

    /// `last` is the page that was looked at last.
    fn finish(self, last: &Page<Event>) -> EventGroups {
        let mut groups: Vec<EventGroup> = self.by_id.into_values().collect();
        groups.sort_by(|one, other| other.count.cmp(&one.count).then_with(|| one.id.cmp(&other.id)));
        EventGroups {
            groups,
            looked: self.looked as u64,
            more: last.next_cursor.is_some(),
            taken_at: last.taken_at,
        }
    }
}

/// The group of an event, as a filter names it.
pub(super) fn group_of(event: &Event) -> String {
    fingerprint(event.state.as_str(), &what(event))
}

/// Why it is there, without what is different each time.
fn what(event: &Event) -> String {
    let Some(reason) = event.reason.as_deref() else {
        return "pushed without a reason".to_owned();
    };
    if let Some(error) = error_of(reason) {
        return kind_of(error);
    }
    if let Some(message) = reason.strip_prefix("message: ") {
        let queue = message.split(", jti=").next().unwrap_or(message);
        return format!("message: {queue}");
    }
    if let Some(change) = reason.strip_prefix("next-change: ") {
        let field = change.split('=').next().unwrap_or(change);
        return format!("next-change: {}", kind_of(field));
    }
    kind_of(reason)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::event::fixture;

    fn event(state: EventState, reason: Option<&str>) -> Event {
        Event {
            reason: reason.map(str::to_owned),
            state,
            ..fixture::event(1)
        }
    }

    #[test]
    fn what_is_different_each_time_makes_no_other_group() {
        let alike = |one: &str, other: &str| {
            let of = |reason| what(&event(EventState::Ready, Some(reason)));
            assert_eq!(of(one), of(other));
        };
        alike(
            "retry: failed_at=2026-01-01T00:00:00Z error=order 4711 has no price",
            "retry: failed_at=2026-02-03T04:05:06Z error=order 12 has no price",
        );
        alike("message: queue=q_hr, jti=1", "message: queue=q_hr, jti=2");
        alike("next-change: end_date=2026-01-01", "next-change: end_date=2027-01-01");
    }

    #[test]
    fn a_group_is_a_state_and_a_reason() {
        let mut grouped = Grouped::default();
        let failed = Some("retry: failed_at=2026-01-01T00:00:00Z error=timeout");
        for event in [
            event(EventState::Dead, failed),
            event(EventState::Ready, failed),
            event(EventState::Dead, failed),
            event(EventState::Ready, None),
        ] {
            grouped.add(&event);
        }
        let found = grouped.finish(&Page {
            items: Vec::new(),
            next_cursor: None,
            taken_at: Timestamp::EPOCH,
            problems: Vec::new(),
        });
        let counts: Vec<(EventState, u64)> = found.groups.iter().map(|group| (group.state, group.count)).collect();
        assert_eq!(counts[0], (EventState::Dead, 2));
        assert_eq!((counts.len(), found.looked), (3, 4));
        assert_eq!(found.groups[0].id, group_of(&event(EventState::Dead, failed)));
    }
}
