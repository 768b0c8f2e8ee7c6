//! The rows of the event table: types by what is dead and what is due, groups by size, events by their due time.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt::Write as _;

use super::event_state;
use crate::console::state::events::{GroupRow, TypeChoice, TypeRow};
use crate::console::table::ColumnWidth::Fixed;
use crate::console::table::{Column, Row, key};
use crate::console::theme::Role;
use crate::console::views::list::{Cell, Listed, OUTSIDE_MAX};
use crate::console::widgets::words::{self, ago, count, plural, span, until};
use crate::domain::event::{Event, EventLease, EventState};
use crate::domain::filter::{Field, FieldKind, FieldValue};
use crate::domain::text::show;
use crate::domain::time::Timestamp;
use crate::engine::events::EVENT_FIELDS;

/// The fields that a filter over types may name. `age` is that of the oldest event.
const TYPE_FIELDS: &[Field] = &[
    Field::new("type", FieldKind::Text),
    Field::new("events", FieldKind::Number),
    Field::new("due", FieldKind::Number),
    Field::new("later", FieldKind::Number),
    Field::new("leased", FieldKind::Number),
    Field::new("dead", FieldKind::Number),
    Field::new("held", FieldKind::Number),
    Field::new("age", FieldKind::Duration),
];

impl Row for TypeRow {
    type Id = TypeChoice;
    const COLUMNS: &'static [Column<Self>] = &[
        Column::new("dead", "Dead", Fixed(9), 0, |row: &Self| {
            key::count(Some(row.in_state(EventState::Dead)))
        })
        .count(),
        Column::new("due", "Due", Fixed(9), 0, |row: &Self| key::count(Some(row.due))).count(),
        Column::new("type", "Type", key::fill(18, 2), 0, |row| {
            key::text(Some(row.choice.name()))
        }),
        Column::new("leased", "In hand", Fixed(9), 1, |row: &Self| {
            key::count(Some(row.in_state(EventState::Leased)))
        })
        .count(),
        Column::new("later", "Later", Fixed(9), 1, |row: &Self| {
            key::count(Some(row.later()))
        })
        .count(),
        Column::new("next", "Next due", Fixed(11), 2, |row: &Self| key::time(row.next_due)).time(),
        Column::new("held", "Held", Fixed(7), 4, |row: &Self| {
            key::count(Some(row.in_state(EventState::Held)))
        })
        .count(),
        Column::new("events", "All", Fixed(10), 3, |row: &Self| {
            key::count(Some(row.total()))
        })
        .count(),
        Column::new("oldest", "Oldest", Fixed(11), 3, |row: &Self| key::time(row.oldest)).time(),
        Column::new("metadata", "Metadata", key::fill(20, 2), 5, |row| {
            key::text(Some(row.document.as_str()).filter(|document| !matches!(*document, "" | "{}")))
        }),
    ];
    const FIELDS: &'static [Field] = TYPE_FIELDS;

    fn is_sum(&self) -> bool {
        self.choice == TypeChoice::Every
    }

    fn id(&self) -> TypeChoice {
        self.choice.clone()
    }

    /// All together first, then what has most to do.
    fn tie(&self, other: &Self) -> Ordering {
        let one = |row: &Self| row.choice.one().is_some();
        one(self)
            .cmp(&one(other))
            .then_with(|| other.due.cmp(&self.due))
            .then_with(|| self.choice.cmp(&other.choice))
    }

    fn field(&self, name: &str, now: Timestamp) -> FieldValue<'_> {
        match name {
            "type" => key::or_missing(Some(self.choice.name())),
            "events" => key::number(self.total()),
            "due" => key::number(self.due),
            "later" => key::number(self.later()),
            "leased" => key::number(self.in_state(EventState::Leased)),
            "dead" => key::number(self.in_state(EventState::Dead)),
            "held" => key::number(self.in_state(EventState::Held)),
            "age" => self
                .oldest
                .map_or(FieldValue::Missing, |at| FieldValue::Duration(now.since(at))),
            _ => FieldValue::Missing,
        }
    }
}

impl Listed for TypeRow {
    const MANY: &'static str = "event types";
    const WHEN_NONE: &'static str =
        "`redrive event push` and intake queues make events; a type is made by its first event.";
    const SAID_BY: &'static str = "";

    fn cell(&self, column: &'static str, now: Timestamp) -> Cell<'_> {
        match column {
            "dead" => number(self.in_state(EventState::Dead), Role::Bad),
            "due" => number(self.due, Role::Warning),
            "type" if self.choice == TypeChoice::Every => Cell::new("all types", Role::Info),
            "type" => Cell::new(self.choice.name(), Role::Text),
            "leased" => number(self.in_state(EventState::Leased), Role::Good),
            "later" => number(self.later(), Role::Text),
            "next" => Cell::or_none(self.next_due.map(|at| until(now, at)), Role::Text),
            "held" => number(self.in_state(EventState::Held), Role::Critical),
            "events" => number(self.total(), Role::Text),
            "oldest" => Cell::or_none(self.oldest.map(|at| ago(now, at)), Role::TextMuted),
            "metadata" => {
                let written = Some(self.document.as_str()).filter(|document| !matches!(*document, "" | "{}"));
                Cell::or_none(written, Role::TextMuted)
            }
            _ => Cell::new("", Role::Text),
        }
    }

    fn says(&self, now: Timestamp) -> Cow<'_, str> {
        let dead = self.in_state(EventState::Dead);
        let mut text = format!(
            "{}: {}, {} due",
            show(self.choice.name(), OUTSIDE_MAX),
            plural(self.total(), "event", "events"),
            count(self.due)
        );
        if let Some(since) = self.untouched(now) {
            let _ = write!(
                text,
                " for {}, and nobody has one in hand (does a daemon have a [[handler]] for it, or a consumer claim them?)",
                span(since)
            );
        }
        if dead > 0 {
            let _ = write!(text, ", {} dead: R gives the dead ones their budget back", count(dead));
        }
        text.push_str("; Enter shows why they are there");
        if self.choice != TypeChoice::Every {
            text.push_str(", i the type itself");
        }
        Cow::Owned(text)
    }
}

impl Row for GroupRow {
    type Id = Option<String>;
    const COLUMNS: &'static [Column<Self>] = &[
        Column::new("count", "Events", Fixed(9), 0, |row: &Self| key::count(Some(row.count))).count(),
        Column::new("state", "State", Fixed(9), 0, |row| {
            key::text(row.state.map(EventState::as_str))
        }),
        Column::new("what", "Why", key::fill(20, 3), 0, |row| key::text(Some(&row.what))),
        Column::new("next", "Next due", Fixed(11), 1, |row: &Self| key::time(row.next_due)).time(),
        Column::new("oldest", "Oldest", Fixed(11), 2, |row: &Self| key::time(row.oldest)).time(),
        Column::new("failed", "Last failed", Fixed(11), 1, |row: &Self| {
            key::time(row.last_failed_at)
        })
        .time()
        .greatest_first(),
    ];
    const FIELDS: &'static [Field] = EVENT_FIELDS;
    const SEARCHED: &'static [&'static str] = &["reference", "reason"];
    const FILTERED_BEFORE: bool = true;

    fn is_sum(&self) -> bool {
        self.id.is_none()
    }

    fn id(&self) -> Option<String> {
        self.id.clone()
    }

    /// Everything first.
    fn tie(&self, other: &Self) -> Ordering {
        self.id.cmp(&other.id)
    }

    /// The engine filters them.
    fn field(&self, _: &str, _: Timestamp) -> FieldValue<'_> {
        FieldValue::Missing
    }
}

impl Listed for GroupRow {
    const MANY: &'static str = "events";
    const WHEN_NONE: &'static str = "Nothing waits here, and nothing is dead.";
    const SAID_BY: &'static str = "";

    fn cell(&self, column: &'static str, now: Timestamp) -> Cell<'_> {
        match column {
            "count" => Cell::new(count(self.count), Role::Text),
            "state" => match self.state {
                Some(state) => state_cell(state),
                None => Cell::new("all", Role::Info),
            },
            "what" if self.id.is_none() => Cell::new(&*self.what, Role::Info),
            "what" => Cell::new(&*self.what, Role::Text),
            "next" if self.state == Some(EventState::Dead) => Cell::new("never", Role::TextMuted),
            "next" => Cell::or_none(self.next_due.map(|at| until(now, at)), Role::Text),
            "oldest" => Cell::or_none(self.oldest.map(|at| ago(now, at)), Role::TextMuted),
            "failed" => Cell::or_none(self.last_failed_at.map(|at| ago(now, at)), Role::Warning),
            _ => Cell::new("", Role::Text),
        }
    }

    fn says(&self, _: Timestamp) -> Cow<'_, str> {
        let many = plural(self.count, "event", "events");
        let text = match self.state {
            None => format!("{many} in all; Enter lists them"),
            Some(EventState::Dead) => format!(
                "{many} dead: {}; R gives them all of their attempts back, X removes them",
                show(&self.what, OUTSIDE_MAX)
            ),
            Some(state) => format!(
                "{many} {}: {}; R makes them due now, T at another time",
                state.as_str(),
                show(&self.what, OUTSIDE_MAX)
            ),
        };
        Cow::Owned(text)
    }
}

impl Row for Event {
    type Id = i64;
    const COLUMNS: &'static [Column<Self>] = &[
        Column::new("due", "Due", Fixed(11), 0, |row: &Self| key::time(due(row))).time(),
        Column::new("state", "State", Fixed(9), 0, |row| key::text(Some(row.shown_state()))),
        Column::new("reference", "Reference", key::fill(18, 3), 0, |row| {
            key::text(Some(row.reference.as_str()))
        }),
        Column::new("type", "Type", key::fill(12, 1), 3, |row| {
            key::text(Some(row.event_type.as_str()))
        }),
        Column::new("attempts", "Tried", Fixed(6), 2, |row: &Self| {
            key::count(Some(row.attempts.into()))
        })
        .count(),
        Column::new("reason", "Reason", key::fill(18, 4), 1, |row| {
            key::text(row.reason.as_deref())
        }),
        Column::new("age", "Pushed", Fixed(11), 4, |row: &Self| {
            key::time(Some(row.created_at))
        })
        .time(),
        Column::new("merged", "Merged", Fixed(7), 5, |row: &Self| {
            key::count(Some(row.merged))
        })
        .count(),
        Column::new("id", "Id", Fixed(10), 6, |row: &Self| {
            key::count(u64::try_from(row.id).ok())
        })
        .count(),
    ];
    const FIELDS: &'static [Field] = EVENT_FIELDS;
    const SEARCHED: &'static [&'static str] = &["reference", "reason"];
    const FILTERED_BEFORE: bool = true;

    fn id(&self) -> i64 {
        self.id
    }

    fn tie(&self, other: &Self) -> Ordering {
        other.id.cmp(&self.id)
    }

    /// The engine filters them.
    fn field(&self, _: &str, _: Timestamp) -> FieldValue<'_> {
        FieldValue::Missing
    }
}

impl Listed for Event {
    const MANY: &'static str = "events";
    const WHEN_NONE: &'static str = "They were handled, or somebody changed them.";
    const SAID_BY: &'static str = "reason";

    fn cell(&self, column: &'static str, now: Timestamp) -> Cell<'_> {
        match column {
            "due" => match due(self) {
                Some(at) => Cell::new(until(now, at), Role::Text),
                None => Cell::new("never", Role::TextMuted),
            },
            "state" if self.lease.as_ref().is_some_and(EventLease::is_cancelled) => {
                Cell::new(self.shown_state(), Role::TextMuted)
            }
            "state" => state_cell(self.state),
            "reference" => Cell::new(self.reference.as_str(), Role::Text),
            "type" => Cell::new(self.event_type.as_str(), Role::TextMuted),
            "attempts" => number(self.attempts.into(), Role::Warning),
            "reason" => Cell::or_none(self.reason.as_deref().map(short_reason), Role::Text),
            "age" => Cell::new(ago(now, self.created_at), Role::TextMuted),
            "merged" => number(self.merged, Role::TextMuted),
            "id" => Cell::new(self.id.to_string(), Role::TextMuted),
            _ => Cell::new("", Role::Text),
        }
    }

    fn says(&self, _: Timestamp) -> Cow<'_, str> {
        let reason = self.reason.as_deref().unwrap_or(words::NONE);
        Cow::Owned(show(reason, OUTSIDE_MAX))
    }
}

/// When it is tried by itself: never, once it is dead.
fn due(event: &Event) -> Option<Timestamp> {
    matches!(event.state, EventState::Ready | EventState::Leased).then_some(event.nbf)
}

/// A reason without what stands in other columns: when it failed last.
fn short_reason(reason: &str) -> &str {
    let failed = reason.strip_prefix("retry: failed_at=");
    failed
        .and_then(|rest| rest.split_once("error="))
        .map_or(reason, |(_, error)| error)
}

fn state_cell(state: EventState) -> Cell<'static> {
    let (symbol, role) = event_state(state);
    Cell::new(format!("{symbol} {}", state.as_str()), role)
}

/// A number that matters when there is one.
fn number(number: u64, role: Role) -> Cell<'static> {
    Cell::new(count(number), if number == 0 { Role::TextMuted } else { role })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::domain::event::EventType;

    const AT: Timestamp = Timestamp::from_seconds(1_700_000_000);

    fn type_row(due: u64, leased: u64) -> TypeRow {
        TypeRow {
            choice: TypeChoice::One(EventType::parse("hr").unwrap()),
            by_state: EventState::ALL.map(|state| match state {
                EventState::Ready => 2,
                EventState::Leased => leased,
                EventState::Dead | EventState::Held => 0,
            }),
            due,
            next_due: Some(AT),
            oldest: Some(AT),
            document: "{}".to_owned(),
        }
    }

    #[test]
    fn a_type_says_for_how_long_nobody_has_taken_what_is_due() {
        let later = AT.plus(Duration::from_mins(26));
        let row = type_row(2, 0);
        let says = row.says(later);
        assert!(says.contains("2 due for 26m00s, and nobody has one in hand"), "{says}");
        let is_silent = |row: &TypeRow, now| !row.says(now).contains("nobody");
        assert!(is_silent(&row, AT.plus(Duration::from_secs(9))), "its turn comes");
        assert!(is_silent(&type_row(2, 1), later), "one is in hand");
        assert!(is_silent(&type_row(0, 0), later), "none is due");
    }
}
