//! The event table: types with what is dead and due, why the events of one are there, the events.
//!
//! ```text
//!  due        120  ▁▁▂▃▅▆▇█   in hand  8  ▅▅▅▆▅▃▂▂   dead  412  ▁▁▁▁▁▁▁█     over 4m12s
//!      Dead ▼      Due  Type         In hand    Later     Next due    Oldest
//!  ▌      412      120  all types          8   11,890          due  3d02h ago
//!         400       90  hr-import          6   10,000          due  3d02h ago
//!  412 dead of 12,430 events: Enter shows why, R gives the dead ones their budget back
//!  1–2 of 2
//! ```

use std::borrow::Cow;
use std::fmt::Write as _;

use ratatui::layout::{Position, Rect};

use super::super::event_rates::EventSample;
use super::super::events::{GroupRow, TypeChoice, TypeRow};
use super::super::state::State;
use super::super::table::due;
use super::super::theme::Role;
use super::canvas::{Canvas, behind, below, row};
use super::list::{self, Cell, Listed, OUTSIDE_MAX};
use super::words::{self, ago, count, plural, span, until};
use crate::domain::event::{Event, EventState};
use crate::domain::text::{show, width};
use crate::domain::time::Timestamp;

const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// From this height on the sparklines stand above the types.
const ROOM_FOR_RATES: u16 = 12;
/// Cells of the name and number before a sparkline, and of how long they reach.
const LABEL: usize = 18;
const REACH: u16 = 18;

/// Paints the list in front.
pub(super) fn paint(canvas: &mut Canvas<'_>, area: Rect, state: &State) -> Option<Position> {
    let view = &state.events;
    match (&view.choice, &view.group) {
        (None, _) => {
            let used = if area.height >= ROOM_FOR_RATES { 1 } else { 0 };
            if used > 0 {
                rates(canvas, row(area, 0), state);
            }
            list::paint(canvas, below(area, used), state, &view.types.table)
        }
        (Some(choice), None) => {
            crumbs(canvas, row(area, 0), choice, None);
            list::paint(canvas, below(area, 1), state, &view.groups.table)
        }
        (Some(choice), Some(group)) => {
            crumbs(canvas, row(area, 0), choice, Some(group));
            list::paint(canvas, below(area, 1), state, &view.events.table)
        }
    }
}

/// Where this is, and how to go back.
fn crumbs(canvas: &mut Canvas<'_>, area: Rect, choice: &TypeChoice, group: Option<&GroupRow>) {
    let title = format!(" {}", show(choice.name(), OUTSIDE_MAX));
    let of_group = group.map_or_else(
        || "why its events are there".to_owned(),
        |group| {
            let state = group
                .state
                .map_or_else(String::new, |state| format!("{}: ", state.as_str()));
            format!("{state}{}", show(&group.what, OUTSIDE_MAX))
        },
    );
    let back = if group.is_some() {
        " · Esc shows why they are there"
    } else {
        " · Esc shows all types"
    };
    canvas.pieces(
        area,
        &[
            (title.as_str(), Role::Title),
            (" · ", Role::TextMuted),
            (&of_group, Role::Text),
            (back, Role::TextMuted),
        ],
    );
}

/// What is due, in hand and dead, as it went since the list was opened.
fn rates(canvas: &mut Canvas<'_>, area: Rect, state: &State) {
    let rates = &state.events.rates;
    let Some(last) = rates.samples().next_back() else {
        return;
    };
    let over = format!("over {} ", span(rates.span()));
    canvas.right(area, &over, Role::TextMuted);
    let room = Rect {
        width: area.width.saturating_sub(REACH),
        ..behind(area, 1)
    };
    let each = room.width / 3;
    type Number = fn(&EventSample) -> u64;
    let series: [(&str, Number, Role); 3] = [
        ("due", |sample| sample.due, Role::Warning),
        ("in hand", |sample| sample.leased, Role::Good),
        ("dead", |sample| sample.dead, Role::Bad),
    ];
    for ((name, number, role), at) in series.into_iter().zip(0..) {
        let place = Rect {
            width: each.saturating_sub(2),
            ..behind(room, each * at)
        };
        let number_of_last = number(last);
        let role = if number_of_last == 0 { Role::TextMuted } else { role };
        let label = format!("{name} {} ", count(number_of_last));
        let columns = usize::from(place.width).saturating_sub(LABEL.max(width(&label)));
        let taken = canvas.text(place, &label, role);
        let numbers: Vec<u64> = rates.samples().map(number).collect();
        let recent = numbers.get(numbers.len().saturating_sub(columns)..).unwrap_or_default();
        canvas.text(behind(place, taken), &sparkline(recent), Role::Chart);
    }
}

fn sparkline(numbers: &[u64]) -> String {
    let most = numbers.iter().copied().max().unwrap_or(0).max(1);
    let bar = |number: &u64| {
        let eighth = usize::try_from(number.saturating_mul(7).div_ceil(most)).unwrap_or(7);
        BARS.get(eighth).copied().unwrap_or('█')
    };
    numbers.iter().map(bar).collect()
}

/// A reason without what stands in other columns: when it failed last.
fn short_reason(reason: &str) -> &str {
    let failed = reason.strip_prefix("retry: failed_at=");
    failed
        .and_then(|rest| rest.split_once("error="))
        .map_or(reason, |(_, error)| error)
}

/// A state's symbol and role.
pub(super) const fn event_state(state: EventState) -> (char, Role) {
    match state {
        EventState::Ready => ('…', Role::Text),
        EventState::Leased => ('●', Role::Good),
        EventState::Dead => ('×', Role::Bad),
        EventState::Held => ('!', Role::Critical),
    }
}

fn state_cell(state: EventState) -> Cell<'static> {
    let (symbol, role) = event_state(state);
    Cell::new(format!("{symbol} {}", state.as_str()), role)
}

/// A number that matters when there is one.
fn number(number: u64, role: Role) -> Cell<'static> {
    Cell::new(count(number), if number == 0 { Role::TextMuted } else { role })
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

    fn says(&self) -> Cow<'_, str> {
        let dead = self.in_state(EventState::Dead);
        let mut text = format!(
            "{}: {}, {} due",
            show(self.choice.name(), OUTSIDE_MAX),
            plural(self.total(), "event", "events"),
            count(self.due)
        );
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

    fn says(&self) -> Cow<'_, str> {
        let many = plural(self.count, "event", "events");
        let text = match self.state {
            None => format!("{many} in all; Enter lists them"),
            Some(EventState::Dead) => format!(
                "{many} dead: {}; R gives them their whole budget back, X removes them",
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
            "state" => state_cell(self.state),
            "reference" => Cell::new(self.reference.as_str(), Role::Text),
            "type" => Cell::new(self.shown_type(), Role::TextMuted),
            "attempts" => number(self.attempts.into(), Role::Warning),
            "reason" => Cell::or_none(self.reason.as_deref().map(short_reason), Role::Text),
            "age" => Cell::new(ago(now, self.created_at), Role::TextMuted),
            "merged" => number(self.merged, Role::TextMuted),
            "id" => Cell::new(self.id.to_string(), Role::TextMuted),
            _ => Cell::new("", Role::Text),
        }
    }

    fn says(&self) -> Cow<'_, str> {
        let reason = self.reason.as_deref().unwrap_or(words::NONE);
        Cow::Owned(show(reason, OUTSIDE_MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sparkline_shows_anything_that_is_not_nothing() {
        assert_eq!(sparkline(&[0, 1, 50, 100]), "▁▂▅█");
        assert_eq!(sparkline(&[0, 0]), "▁▁");
        assert_eq!(sparkline(&[]), "");
    }
}
