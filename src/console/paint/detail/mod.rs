//! The detail of a queue or an endpoint: why, its attempts, the head of the queue.
//!
//! ```text
//!  Queue redrive.order-18.9bbb34aa…                                          read 2 s ago
//!   Why    Attempts 12    Messages      Tab turns
//!
//!  (the part in front)
//! ```

mod attempt_line;
mod attempts;
mod compared;
mod event;
mod event_type;
mod hour;
mod letter;
mod map;
mod messages;
mod policy;
mod run;
mod why;

use std::borrow::Cow;

use ratatui::layout::{Position, Rect};

use super::{payload, policy_form};
use crate::console::state::action::{self, Context};
use crate::console::state::detail::{About, Compared, Detail, DetailAnswer, DetailTab, Subject, are_newest};
use crate::console::state::{Mode, State, View};
use crate::console::theme::Role;
use crate::console::widgets::canvas::{Canvas, behind, below, cells, row};
use crate::console::widgets::words::{ago, span};
use crate::domain::text::width;

/// Paints the innermost detail; answers where the cursor stands when something is looked for in a payload.
pub(super) fn paint(canvas: &mut Canvas<'_>, area: Rect, state: &State, detail: &Detail) -> Option<Position> {
    let area = Rect {
        width: area.width.saturating_sub(2),
        ..behind(area, 1)
    };
    name(canvas, row(area, 0), detail, &crumbs(state));
    tabs(canvas, row(area, 1), detail, "Tab turns");
    read(canvas, area, state, detail)
}

/// Paints the one beside its list, which has the keys or not.
pub(super) fn beside(canvas: &mut Canvas<'_>, area: Rect, state: &State, detail: &Detail) -> Option<Position> {
    let area = Rect {
        width: area.width.saturating_sub(2),
        ..behind(area, 1)
    };
    let hint = if state.is_beside() { "Tab: list" } else { "Tab: here" };
    name(canvas, row(area, 0), detail, "");
    tabs(canvas, row(area, 1), detail, hint);
    if detail.answer.is_none() {
        // What the list has of it is known at once.
        state.nav.view.screen().glance(canvas, below(area, 5), state);
    }
    read(canvas, area, state, detail)
}

/// What was found, below name and tabs.
fn read(canvas: &mut Canvas<'_>, area: Rect, state: &State, detail: &Detail) -> Option<Position> {
    let mut body = below(area, 3);
    let Some(answer) = &detail.answer else {
        let since = detail
            .asked_at
            .map_or_else(String::new, |at| format!(", asked {}", ago(canvas.now, at)));
        canvas.wrapped(body, &format!("Looking it up{since} …"), Role::TextMuted);
        return None;
    };
    let finds = detail.shows_payload() && (detail.reading.find.is_some() || matches!(state.input.mode, Mode::Find(_)));
    let mut cursor = None;
    if finds {
        body.height = body.height.saturating_sub(1);
        let line = below(area, area.height.saturating_sub(1));
        cursor = payload::find_line(canvas, line, state, detail);
    }
    part(canvas, body, state, detail, answer);
    cursor
}

/// The part in front.
fn part(canvas: &mut Canvas<'_>, body: Rect, state: &State, detail: &Detail, answer: &DetailAnswer) {
    match detail.tab {
        DetailTab::Why if matches!(detail.subject, Subject::Letter(_)) => {
            letter::paint(canvas, body, state, detail, answer);
        }
        DetailTab::Why | DetailTab::Payload | DetailTab::Handled if matches!(detail.subject, Subject::Event(_)) => {
            event::paint(canvas, body, state, detail, answer);
        }
        DetailTab::Metadata | DetailTab::Subscriptions | DetailTab::Handled => {
            event_type::paint(canvas, body, detail, answer);
        }
        DetailTab::Why => why::paint(canvas, body, state, detail, answer),
        DetailTab::Different | DetailTab::Alike => compared::paint(canvas, body, detail, answer),
        DetailTab::Payload => letter::paint(canvas, body, state, detail, answer),
        DetailTab::Progress | DetailTab::Items => run::paint(canvas, body, state, detail, answer),
        DetailTab::Attempts => attempts::paint(canvas, body, state, detail, answer),
        DetailTab::Hour => hour::paint(canvas, body, state, detail),
        DetailTab::Map => map::paint(canvas, body, detail, answer),
        DetailTab::Messages => messages::paint(canvas, body, state, detail, answer),
        DetailTab::Schedule | DetailTab::History => policy::paint(canvas, body, detail, answer),
    }
}

fn name(canvas: &mut Canvas<'_>, area: Rect, detail: &Detail, before: &str) {
    let (kind, name) = match &detail.subject {
        Subject::Queue(name) => ("Queue ", Cow::Borrowed(name.as_str())),
        Subject::Endpoint(url) => ("Endpoint ", Cow::Owned(url.redacted())),
        Subject::Run(id) => ("Run ", Cow::Borrowed(id.as_str())),
        Subject::Letter(id) => ("Dead letter ", Cow::Borrowed(id.as_str())),
        Subject::Compared(Compared::Letters(ids)) => ("Compared ", Cow::Owned(ids.join(" and "))),
        Subject::Compared(Compared::Group { fingerprint, filter }) => {
            let before = match filter {
                None => "Compared: group ",
                Some(_) => "Compared: what the filter leaves of group ",
            };
            (before, Cow::Borrowed(fingerprint.as_str()))
        }
        Subject::Event(_) => ("Event ", event_name(detail)),
        Subject::EventType(name) => ("Event type ", Cow::Borrowed(name.as_str())),
        Subject::Policy(scope) => ("Retry policy of ", Cow::Owned(policy_form::scope(scope))),
    };
    let age = age(canvas, detail);
    let age_width = cells(width(&age));
    canvas.right(area, &age, Role::TextMuted);
    let room = Rect {
        width: area.width.saturating_sub(age_width + 1),
        ..area
    };
    canvas.pieces(
        room,
        &[(before, Role::TextMuted), (kind, Role::TextMuted), (&name, Role::Title)],
    );
}

/// The way to here: the view, the group, and what stands between.
fn crumbs(state: &State) -> String {
    let mut way = format!("{} › ", state.nav.view.title());
    if state.nav.view == View::Dead && state.lists.dead.open.is_some() {
        way.push_str("group › ");
    }
    let behind = state.nav.details.len().saturating_sub(1);
    for detail in state.nav.details.iter().take(behind) {
        way.push_str(detail.subject.kind());
        way.push_str(" › ");
    }
    way
}

/// By type and key, once that is known; else by its id.
fn event_name(detail: &Detail) -> Cow<'_, str> {
    match (&detail.subject, detail.event()) {
        (_, Some(found)) => Cow::Owned(format!(
            "{} of {}",
            found.event.reference.as_str(),
            found.event.shown_type()
        )),
        (Subject::Event(id), None) => Cow::Owned(id.to_string()),
        (_, None) => Cow::Borrowed(""),
    }
}

fn age(canvas: &Canvas<'_>, detail: &Detail) -> String {
    let asking = if detail.asked_at.is_some() {
        ", looking again …"
    } else {
        ""
    };
    match &detail.answer {
        Some(answer) => format!("read {}{asking}", ago(canvas.now, answer.taken_at)),
        None => "not read yet".to_owned(),
    }
}

fn tabs(canvas: &mut Canvas<'_>, area: Rect, detail: &Detail, hint: &str) {
    let mut rest = area;
    for tab in detail.subject.tabs().iter().copied() {
        let role = if tab == detail.tab {
            Role::TabSelected
        } else {
            Role::TextMuted
        };
        let taken = canvas.text(rest, &format!(" {}{} ", tab.title(), number(detail, tab)), role);
        rest = behind(rest, taken + 1);
    }
    if cells(width(hint)) <= rest.width {
        canvas.text(rest, hint, Role::TextMuted);
    }
}

/// What can be done about it now, by its keys, on one line; answers how many lines that took.
fn next_steps(canvas: &mut Canvas<'_>, area: Rect, state: &State) -> u16 {
    let hints = action::hints(state);
    let can = |hint: &&action::Hint| {
        let of_this = matches!(hint.action.context, Context::Views(_)) && !hint.action.name.ends_with("_shown");
        hint.action.mutates() && of_this
    };
    let steps: Vec<(String, &str)> = hints
        .iter()
        .filter(can)
        .map(|hint| (hint.key.clone(), hint.title))
        .collect();
    if steps.is_empty() || area.height == 0 {
        return 0;
    }
    let mut rest = row(area, 0);
    for (key, title) in &steps {
        let needs = cells(width(key) + width(title) + 3);
        if needs > rest.width {
            break;
        }
        let pieces = [
            (key.as_str(), Role::HintKey),
            (" ", Role::Hint),
            (*title, Role::Hint),
            ("  ", Role::Hint),
        ];
        rest = behind(rest, canvas.pieces(rest, &pieces));
    }
    1
}

/// The beginning of the message or the answer that the detail has in front, in what room there is.
fn begin_of_payload(canvas: &mut Canvas<'_>, area: Rect, state: &State, detail: &Detail, what: &str) {
    let Some(page) = detail.reading.page.as_ref().filter(|_| area.height > 1) else {
        return;
    };
    let title = format!("{what}: {}", payload::described(state, page));
    canvas.text(row(area, 0), &title, Role::Title);
    payload::paint(canvas, below(area, 1), detail, 0);
}

fn number(detail: &Detail, tab: DetailTab) -> String {
    let number = match (tab, &detail.answer) {
        (
            DetailTab::Attempts,
            Some(DetailAnswer {
                attempts: Ok(attempts), ..
            }),
        ) if are_newest(attempts.len()) => return format!(": newest {}", attempts.len()),
        (
            DetailTab::Attempts,
            Some(DetailAnswer {
                attempts: Ok(attempts), ..
            }),
        ) => attempts.len(),
        (
            DetailTab::Messages,
            Some(DetailAnswer {
                messages: Some(Ok(messages)),
                ..
            }),
        ) => messages.len(),
        (DetailTab::History, _) => match detail.about() {
            Some(About::Policy { history, .. }) => history.len(),
            Some(_) | None => return String::new(),
        },
        (DetailTab::Handled, Some(_)) => detail.handled().len(),
        (DetailTab::Subscriptions, Some(_)) => detail.event_type().map_or(0, |found| found.subscriptions.len()),
        (DetailTab::Items, _) => match detail.run() {
            Some(run) => return format!(" {}", run.run.record.total),
            None => return String::new(),
        },
        _ => return String::new(),
    };
    format!(" {number}")
}

/// A name and what is known under it.
pub(super) struct Fact {
    pub(super) label: &'static str,
    pub(super) text: String,
    pub(super) role: Role,
}

impl Fact {
    pub(super) fn new(label: &'static str, text: impl Into<String>) -> Self {
        Self {
            label,
            text: text.into(),
            role: Role::Text,
        }
    }

    pub(super) const fn with(mut self, role: Role) -> Self {
        self.role = role;
        self
    }
}

/// Cells for the names of facts, and where there are not many of them: an id has room behind them.
const LABEL: u16 = 18;
const LABEL_NARROW: u16 = 15;
const NARROW: u16 = 60;

/// Paints facts one under the other; answers how many lines they took.
pub(super) fn facts(canvas: &mut Canvas<'_>, area: Rect, facts: &[Fact]) -> u16 {
    let mut line = 0;
    let label = if area.width < NARROW { LABEL_NARROW } else { LABEL };
    for (at, fact) in facts.iter().enumerate() {
        let place = row(area, line);
        if area.height > 1 && line + 1 == area.height && at + 1 < facts.len() {
            let more = format!("▼ {} more, Down shows them", facts.len() - at);
            canvas.text(place, &more, Role::Info);
            return area.height;
        }
        canvas.text(
            Rect {
                width: place.width.min(label - 1),
                ..place
            },
            fact.label,
            Role::TextMuted,
        );
        let room = Rect {
            height: area.height.saturating_sub(line).min(3),
            ..behind(place, label)
        };
        line += canvas.wrapped(room, &fact.text, fact.role).max(1);
    }
    line
}

/// `4m12s ago (03:12:09 UTC)`.
pub(super) fn when(canvas: &Canvas<'_>, at: crate::domain::time::Timestamp) -> String {
    format!(
        "{} ({} UTC)",
        ago(canvas.now, at),
        crate::console::widgets::words::clock(at)
    )
}

/// How long something lasts already.
pub(super) fn lasting(canvas: &Canvas<'_>, since: crate::domain::time::Timestamp) -> String {
    format!(
        "{}, since {} UTC",
        span(canvas.now.since(since)),
        crate::console::widgets::words::clock(since)
    )
}
