//! The event table: what of it is opened, and the time that events are made due at.

use crossterm::event::{KeyCode, KeyModifiers};
use tui_input::InputRequest;

use super::keys::Press;
use super::{State, confirm, details, say};
use crate::console::journal::Tone;
use crate::console::state::Mode;
use crate::console::state::action::{Reason, named};
use crate::console::state::detail::{DetailTab, Subject};
use crate::console::state::dialog::Asked;
use crate::console::state::effect::Effect;
use crate::console::state::when_form::{self, LENGTH_MAX};
use crate::console::typing;
use crate::domain::event::EventType;
use crate::domain::text::is_hidden;
use crate::engine::Command;
use crate::engine::events::EventCommand;

/// Opens the type that is selected or looked at.
pub(in crate::console) fn open_type(state: &mut State) -> Vec<Effect> {
    match type_in_front(state) {
        Ok(name) => details::open_at(state, Subject::EventType(name), DetailTab::Metadata),
        Err(_) => Vec::new(),
    }
}

/// The one type that is selected or looked at.
pub(in crate::console) fn type_in_front(state: &State) -> Result<EventType, Reason> {
    let every = || Reason::from("this is every type: select one");
    if let Some(detail) = state.nav.details.last() {
        let event = detail.event().map(|found| found.event.event_type.clone());
        return event.ok_or_else(|| "the type is open".into());
    }
    let Some(choice) = &state.lists.events.choice else {
        let row = state
            .lists
            .events
            .types
            .table
            .selected_row()
            .ok_or("nothing is selected")?;
        return row.choice.one().cloned().ok_or_else(every);
    };
    let of_row = state.lists.events.events.table.selected_row();
    let of_row = of_row.filter(|_| state.lists.events.group.is_some());
    let name = choice.one().or(of_row.map(|row| &row.event_type));
    name.cloned().ok_or_else(every)
}

/// A key while the time is written.
pub(super) fn when_key(state: &mut State, press: Press) -> Vec<Effect> {
    let (code, control) = (press.key.code, press.key.modifiers.contains(KeyModifiers::CONTROL));
    match (code, control) {
        (KeyCode::Esc, _) | (KeyCode::Char('c'), true) => state.input.mode = Mode::Browse,
        (KeyCode::Enter, _) if press.deliberate => return when_ends(state),
        (KeyCode::Enter, _) => {}
        _ => {
            if let Some(request) = typing::request(code, press.key.modifiers) {
                when_edit(state, request);
            }
        }
    }
    Vec::new()
}

/// What fits is typed; the rest is left out.
pub(super) fn when_paste(state: &mut State, text: &str) {
    for character in text.lines().next().unwrap_or_default().trim().chars() {
        when_edit(state, InputRequest::InsertChar(character));
    }
}

#[expect(clippy::wildcard_enum_match_arm, reason = "every other request is the input's own")]
fn when_edit(state: &mut State, request: InputRequest) {
    let Mode::When(form) = &mut state.input.mode else {
        return;
    };
    let full = form.input.value().chars().count() >= LENGTH_MAX;
    match request {
        InputRequest::InsertChar(character) if full || is_hidden(character) => {}
        request => {
            form.input.handle(request);
        }
    }
}

fn when_ends(state: &mut State) -> Vec<Effect> {
    let Mode::When(form) = &state.input.mode else {
        return Vec::new();
    };
    let at = match when_form::read(form.input.value(), state.now) {
        Ok(at) => at,
        Err(why) => {
            say::toast(state, Tone::Warning, &format!("not a time: {why}"));
            return Vec::new();
        }
    };
    let mode = std::mem::take(&mut state.input.mode);
    let Mode::When(form) = &mode else {
        return Vec::new();
    };
    let command = |selection| Command::Events(EventCommand::Reschedule(selection, at));
    let asked = Asked {
        scope: form.scope.clone(),
        commands: form.selections.iter().cloned().map(command).collect(),
    };
    state.input.behind = Some(Box::new(mode));
    let action = state.input.keymap.action(named::RESCHEDULE_EVENTS);
    confirm::begin(state, action, KeyCode::Enter, asked)
}
