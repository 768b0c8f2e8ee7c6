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

mod feed;
mod rows;

use ratatui::layout::{Position, Rect};

use super::command_words;
use super::list::{self, OUTSIDE_MAX};
use crate::console::state::action::Action;
use crate::console::state::detail::Subject;
use crate::console::state::event_rates::EventSample;
use crate::console::state::events::{GroupRow, TypeChoice};
use crate::console::state::feed::{FeedQuery, Listing};
use crate::console::state::lists::Lists;
use crate::console::state::screen::{About, Screen, Selection};
use crate::console::state::{State, View};
use crate::console::theme::Role;
use crate::console::widgets::bars;
use crate::console::widgets::canvas::{Canvas, behind, below, row};
use crate::console::widgets::words::{count, span};
use crate::domain::event::EventState;
use crate::domain::text::{show, width};
use crate::engine::snapshot::Snapshot;

/// From this height on the sparklines stand above the types.
const ROOM_FOR_RATES: u16 = 12;
/// Cells of the name and number before a sparkline, and of how long they reach.
const LABEL: usize = 18;
const REACH: u16 = 18;

/// The view.
pub(super) struct Events;

static ABOUT: About = About {
    title: "Events",
    short_title: "Events",
    reads: &["store"],
    go: Action::new("events", "events", &["0"])
        .help("Go to the event table: types with what is dead and due, why events are there, events.")
        .turns(|state| state.go_to_top(View::Events)),
};

impl Screen for Events {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn listing<'a>(&self, lists: &'a Lists) -> Option<&'a dyn Listing> {
        Some(lists.events.listing())
    }

    fn listing_mut<'a>(&self, lists: &'a mut Lists) -> Option<&'a mut dyn Listing> {
        Some(lists.events.listing_mut())
    }

    fn asks(&self, lists: &Lists) -> Option<FeedQuery> {
        Some(feed::asks(&lists.events))
    }

    fn paint(&self, canvas: &mut Canvas<'_>, area: Rect, state: &State) -> Option<Position> {
        let view = &state.lists.events;
        match (&view.choice, &view.group) {
            (None, _) => {
                let used = u16::from(area.height >= ROOM_FOR_RATES);
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

    fn glance(&self, canvas: &mut Canvas<'_>, area: Rect, state: &State) {
        let view = &state.lists.events;
        if view.group.is_some() {
            list::glance(canvas, area, state, &view.events.table, "");
        } else if view.choice.is_some() {
            list::glance(canvas, area, state, &view.groups.table, "Enter shows the events.");
        } else {
            list::glance(
                canvas,
                area,
                state,
                &view.types.table,
                "Enter shows why they are there, i the type.",
            );
        }
    }

    fn badge(&self, state: &State, _: &Snapshot) -> String {
        let every = state.lists.events.types.table.rows.first();
        match every.map_or(0, |every| every.in_state(EventState::Dead)) {
            0 => String::new(),
            dead => format!(" ×{}", count(dead)),
        }
    }

    fn alarm(&self, badge: &str) -> String {
        badge.trim_start().to_owned()
    }
}

impl Selection for Events {
    fn previewed(&self, state: &State) -> Option<Subject> {
        let view = &state.lists.events;
        let row = view.events.table.selected_row();
        row.filter(|_| view.choice.is_some() && view.group.is_some())
            .map(|row| Subject::Event(row.id))
    }

    fn open(&self, state: &mut State) -> Option<Subject> {
        let page = state.page();
        let view = &mut state.lists.events;
        match (&view.choice, &view.group) {
            (None, _) => {
                let choice = view.types.table.selected_row().map(|row| row.choice.clone())?;
                view.open(choice, page);
                None
            }
            (Some(_), None) => {
                let group = view.groups.table.selected_row().cloned()?;
                view.open_group(group, page);
                None
            }
            (Some(_), Some(_)) => view.events.table.selected_row().map(|row| Subject::Event(row.id)),
        }
    }

    fn is_inside(&self, lists: &Lists) -> bool {
        lists.events.choice.is_some()
    }

    fn close(&self, lists: &mut Lists) {
        lists.events.close();
    }

    fn name(&self, state: &State) -> Option<String> {
        let view = &state.lists.events;
        match (&view.choice, &view.group) {
            (None, _) => {
                let row = view.types.table.selected_row();
                row.map(|row| row.choice.name().to_owned())
            }
            (Some(_), None) => view.groups.table.selected_row().map(|row| row.what.clone()),
            (Some(_), Some(_)) => {
                let row = view.events.table.selected_row();
                row.map(|row| row.reference.as_str().to_owned())
            }
        }
    }

    fn command(&self, state: &State) -> Option<Vec<String>> {
        let choice = state.lists.events.choice.as_ref();
        Some(match choice.map(TypeChoice::one) {
            Some(Some(one)) => [command_words("event list --type"), vec![one.as_str().to_owned()]].concat(),
            Some(None) => command_words("event list"),
            None => command_words("event counts"),
        })
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

/// A number of a sample.
type Number = fn(&EventSample) -> u64;

/// What is due, in hand and dead, as it went since the list was opened.
fn rates(canvas: &mut Canvas<'_>, area: Rect, state: &State) {
    let rates = &state.lists.events.rates;
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
    let series: [(&str, Number, Role); 3] = [
        ("due", |sample| sample.due, Role::Warning),
        ("handled", |sample| sample.leased, Role::Good),
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
        let numbers: Vec<Option<u64>> = rates.samples().map(number).map(Some).collect();
        let recent = numbers.get(numbers.len().saturating_sub(columns)..).unwrap_or_default();
        canvas.text(behind(place, taken), &bars::spark(recent), Role::Chart);
    }
}

/// A state's symbol and role.
pub(in crate::console) const fn event_state(state: EventState) -> (char, Role) {
    match state {
        EventState::Ready => ('…', Role::Text),
        EventState::Leased => ('●', Role::Good),
        EventState::Dead => ('×', Role::Bad),
        EventState::Held => ('!', Role::Critical),
    }
}
