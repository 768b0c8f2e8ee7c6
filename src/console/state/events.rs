//! The event table on the screen: its types with their counts, why the events of a type are there, the events.
//!
//! Each of the three lists has a first row that stands for everything, so that two times Enter is every event.
//! What is in front is the innermost that was opened; Esc goes back the same way.

use std::sync::Arc;
use std::time::Duration;

use crate::console::state::event_rates::EventRates;
use crate::console::state::feed::{FedList, Listing};
use crate::console::table::List;
use crate::domain::event::{Event, EventState, EventType};
use crate::domain::time::Timestamp;
use crate::engine::events::{EventCount, EventGroups, EventTypeRecord};

/// Which types.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TypeChoice {
    /// Every one.
    Every,
    /// This one.
    One(EventType),
}

impl TypeChoice {
    /// The one type.
    #[must_use]
    pub const fn one(&self) -> Option<&EventType> {
        match self {
            Self::Every => None,
            Self::One(name) => Some(name),
        }
    }

    /// Its name, as it is known to people.
    #[must_use]
    pub fn name(&self) -> &str {
        self.one().map_or("all types", EventType::as_str)
    }
}

/// A type with its events by state; or all of them together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypeRow {
    /// Which.
    pub choice: TypeChoice,
    /// Events by state, in the order of [`EventState::ALL`].
    pub by_state: [u64; EventState::ALL.len()],
    /// Of those that are ready, how many could be handled now.
    pub due: u64,
    /// When the next is due.
    pub next_due: Option<Timestamp>,
    /// The oldest push.
    pub oldest: Option<Timestamp>,
    /// Its metadata, as JSON; empty for all of them together.
    pub document: String,
}

/// What is due for less is about to be taken.
const UNTOUCHED_FROM: Duration = Duration::from_mins(1);

impl TypeRow {
    const fn new(choice: TypeChoice, document: String) -> Self {
        Self {
            choice,
            by_state: [0; EventState::ALL.len()],
            due: 0,
            next_due: None,
            oldest: None,
            document,
        }
    }

    /// How long one is due already while nobody has any in hand.
    #[must_use]
    pub fn untouched(&self, now: Timestamp) -> Option<Duration> {
        let due_for = now.since(self.next_due?);
        let nobody = self.due > 0 && self.in_state(EventState::Leased) == 0;
        (nobody && due_for >= UNTOUCHED_FROM).then_some(due_for)
    }

    /// Events in a state.
    #[must_use]
    pub fn in_state(&self, state: EventState) -> u64 {
        let place = EventState::ALL.iter().position(|one| *one == state);
        place.and_then(|place| self.by_state.get(place)).copied().unwrap_or(0)
    }

    /// Those that wait for their time.
    #[must_use]
    pub fn later(&self) -> u64 {
        self.in_state(EventState::Ready).saturating_sub(self.due)
    }

    /// All of its events.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.by_state.iter().sum()
    }

    fn add(&mut self, count: &EventCount) {
        if let Some(place) = EventState::ALL.iter().position(|state| *state == count.state) {
            self.by_state[place] += count.count;
        }
        self.oldest = Some(self.oldest.map_or(count.oldest, |oldest| oldest.min(count.oldest)));
        if count.state == EventState::Ready {
            self.due += count.due;
            self.next_due = Some(self.next_due.map_or(count.first_nbf, |next| next.min(count.first_nbf)));
        }
    }
}

/// Every type with its counts, and before them all of them together.
#[must_use]
pub fn type_rows(counts: &[EventCount], types: &[EventTypeRecord]) -> Vec<TypeRow> {
    let mut every = TypeRow::new(TypeChoice::Every, String::new());
    let known = types
        .iter()
        .map(|record| TypeRow::new(TypeChoice::One(record.name.clone()), record.document.clone()));
    let mut rows: Vec<TypeRow> = known.collect();
    for count in counts {
        every.add(count);
        let choice = TypeChoice::One(count.event_type.clone());
        if let Some(row) = rows.iter_mut().find(|row| row.choice == choice) {
            row.add(count);
        } else {
            let mut row = TypeRow::new(choice, "{}".to_owned());
            row.add(count);
            rows.push(row);
        }
    }
    if rows.is_empty() {
        return rows;
    }
    rows.insert(0, every);
    rows
}

/// Events that are there for the same reason; or all of them together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupRow {
    /// Its id, as a filter names it; `None`: all of them together.
    pub id: Option<String>,
    /// What they are doing; `None`: not all the same.
    pub state: Option<EventState>,
    /// Why they are there (from outside).
    pub what: String,
    /// How many.
    pub count: u64,
    /// The soonest due time.
    pub next_due: Option<Timestamp>,
    /// The oldest push.
    pub oldest: Option<Timestamp>,
    /// The last failure.
    pub last_failed_at: Option<Timestamp>,
}

/// The groups, and before them all of them together.
#[must_use]
pub fn group_rows(found: EventGroups) -> Vec<GroupRow> {
    let groups = found.groups;
    if groups.is_empty() {
        return Vec::new();
    }
    let all = GroupRow {
        id: None,
        state: None,
        what: "everything".to_owned(),
        count: found.looked,
        // What is dead is never due, whatever time it was for.
        next_due: groups
            .iter()
            .filter(|group| group.state != EventState::Dead)
            .map(|group| group.first_nbf)
            .min(),
        oldest: groups.iter().map(|group| group.oldest).min(),
        last_failed_at: groups.iter().filter_map(|group| group.last_failed_at).max(),
    };
    let one = |group: crate::engine::events::EventGroup| GroupRow {
        id: Some(group.id),
        state: Some(group.state),
        what: group.what,
        count: group.count,
        next_due: Some(group.first_nbf),
        oldest: Some(group.oldest),
        last_failed_at: group.last_failed_at,
    };
    std::iter::once(all).chain(groups.into_iter().map(one)).collect()
}

/// The three lists, and what of them is open.
#[derive(Clone, Debug, Default)]
pub struct EventsView {
    /// The types.
    pub types: FedList<TypeRow>,
    /// The type whose events are looked at; `None`: the types are.
    pub choice: Option<TypeChoice>,
    /// Why its events are there.
    pub groups: FedList<GroupRow>,
    /// The group whose events are looked at; `None`: the groups are.
    pub group: Option<Arc<GroupRow>>,
    /// Its events.
    pub events: FedList<Event>,
    /// How fast they come and go.
    pub rates: EventRates,
}

impl EventsView {
    /// The list in front.
    #[must_use]
    pub fn listing(&self) -> &dyn Listing {
        match (&self.choice, &self.group) {
            (None, _) => &self.types,
            (Some(_), None) => &self.groups,
            (Some(_), Some(_)) => &self.events,
        }
    }

    pub(in crate::console) fn listing_mut(&mut self) -> &mut dyn Listing {
        match (&self.choice, &self.group) {
            (None, _) => &mut self.types,
            (Some(_), None) => &mut self.groups,
            (Some(_), Some(_)) => &mut self.events,
        }
    }

    /// Opens a type.
    pub(in crate::console) fn open(&mut self, choice: TypeChoice, page: usize) {
        self.choice = Some(choice);
        self.group = None;
        self.groups = FedList::default();
        self.groups.table.set_page(page);
    }

    /// Opens a group.
    pub(in crate::console) fn open_group(&mut self, group: Arc<GroupRow>, page: usize) {
        self.group = Some(group);
        self.events = FedList::default();
        self.events.table.set_page(page);
    }

    /// Back to the list before; false at the first.
    pub(in crate::console) fn close(&mut self) -> bool {
        if self.choice.is_some() && self.group.take().is_none() {
            self.choice = None;
            return true;
        }
        self.choice.is_some()
    }

    /// The filter that finds what is in front, with what a row adds to it.
    #[must_use]
    pub fn expression(&self, of_row: Option<String>) -> String {
        let written = match (&self.choice, &self.group) {
            (None, _) => None,
            (Some(_), None) => self.groups.table.filter.applied.as_ref(),
            (Some(_), Some(_)) => self.events.table.filter.applied.as_ref(),
        };
        let choice = self.choice.as_ref().and_then(TypeChoice::one).map(type_filter);
        let group = self.group.as_ref().and_then(|group| group.id.as_deref());
        let group = group.map(group_filter);
        let written = written.map(|filter| filter.as_str().to_owned());
        every([choice, group, of_row, written]).unwrap_or_else(|| EVERY_EVENT.to_owned())
    }
}

/// What every event matches.
const EVERY_EVENT: &str = "id > 0";

/// The events of a type.
#[must_use]
pub fn type_filter(event_type: &EventType) -> String {
    let quoted = event_type.as_str().replace('\\', "\\\\").replace('"', "\\\"");
    format!("type = \"{quoted}\"")
}

/// The events of a group.
#[must_use]
pub fn group_filter(group: &str) -> String {
    format!("group = \"{group}\"")
}

/// All of these conditions.
pub(in crate::console) fn every<const N: usize>(conditions: [Option<String>; N]) -> Option<String> {
    let conditions: Vec<String> = conditions.into_iter().flatten().collect();
    match conditions.as_slice() {
        [] => None,
        [only] => Some(only.clone()),
        many => Some(
            many.iter()
                .map(|condition| format!("({condition})"))
                .collect::<Vec<_>>()
                .join(" and "),
        ),
    }
}
