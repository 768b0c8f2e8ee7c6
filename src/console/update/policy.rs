//! The form of a policy: opened, written, and handed to the confirmation.

use crossterm::event::{KeyCode, KeyModifiers};
use tui_input::InputRequest;

use super::keys::Press;
use super::{State, confirm, details, say, scope};
use crate::console::journal::Tone;
use crate::console::state::Mode;
use crate::console::state::action::{Reason, named};
use crate::console::state::detail::{DetailQuery, DetailTab, Extent, Subject};
use crate::console::state::dialog::Asked;
use crate::console::state::effect::Effect;
use crate::console::state::pointed::Pointed;
use crate::console::state::policy_form::PolicyForm;
use crate::console::typing;
use crate::domain::url::EndpointUrl;
use crate::engine::Command;
use crate::engine::policies::{PolicyAct, PolicyEdit};
use crate::engine::query::PolicyScope;

/// Opens the form of the policy in front.
pub(in crate::console) fn open(state: &mut State, _: KeyCode) -> Vec<Effect> {
    match in_front(state) {
        Ok(scope) => open_for(state, scope),
        Err(_) => Vec::new(),
    }
}

/// Opens the form of a policy; what is saved is looked up.
pub(in crate::console) fn open_for(state: &mut State, scope: PolicyScope) -> Vec<Effect> {
    state.input.mode = Mode::Policy(Box::new(PolicyForm::new(scope.clone())));
    vec![Effect::Look(DetailQuery {
        subject: Subject::Policy(scope),
        extent: Extent::Whole,
    })]
}

/// The policy in front, or that of the endpoint in front: what can be written.
pub(in crate::console) fn in_front(state: &State) -> Result<PolicyScope, Reason> {
    let of_url = |url: &EndpointUrl| PolicyScope {
        event_type: None,
        url: Some(url.clone()),
    };
    let scope = match scope::selected(state) {
        Some(Pointed::Policy(row)) => row.scope.clone(),
        Some(Pointed::Subject(Subject::Policy(scope))) => scope.clone(),
        Some(Pointed::Endpoint(row)) => of_url(&row.endpoint.url),
        Some(Pointed::Subject(Subject::Endpoint(url))) => of_url(url),
        Some(Pointed::Queue(_) | Pointed::Opened(..) | Pointed::Retry(_) | Pointed::Run(_) | Pointed::Subject(_))
        | None => {
            return Err("nothing is selected".into());
        }
    };
    if scope == PolicyScope::default() {
        return Err("this one is the configuration's: delivery.retry_policy".into());
    }
    Ok(scope)
}

/// Opens the versions of the policy in front.
pub(in crate::console) fn history(state: &mut State) -> Vec<Effect> {
    match in_front(state) {
        Ok(scope) if state.nav.details.is_empty() => {
            details::open_at(state, Subject::Policy(scope), DetailTab::History)
        }
        Ok(_) => {
            details::show_part(state, DetailTab::History);
            Vec::new()
        }
        Err(_) => Vec::new(),
    }
}

/// A key while the form is open.
pub(super) fn key(state: &mut State, press: Press) -> Vec<Effect> {
    let (code, control) = (press.key.code, press.key.modifiers.contains(KeyModifiers::CONTROL));
    match (code, control) {
        (KeyCode::Esc, _) | (KeyCode::Char('c'), true) => state.input.mode = Mode::Browse,
        (KeyCode::Enter, _) if press.deliberate => return ask(state),
        (KeyCode::Up | KeyCode::BackTab, _) => step(state, -1),
        (KeyCode::Down | KeyCode::Tab, _) => step(state, 1),
        _ => write(state, press),
    }
    Vec::new()
}

/// What fits is typed into the line; the rest is left out.
pub(super) fn paste(state: &mut State, text: &str) {
    let line = text.lines().next().unwrap_or_default().trim();
    for character in line.chars() {
        edit(state, InputRequest::InsertChar(character));
    }
    check(state);
}

fn step(state: &mut State, by: isize) {
    let Mode::Policy(form) = &mut state.input.mode else {
        return;
    };
    let last = form.lines.len().saturating_sub(1);
    form.selected = form.selected.saturating_add_signed(by).min(last);
}

#[expect(clippy::wildcard_enum_match_arm, reason = "every other key is the line's own")]
fn write(state: &mut State, press: Press) {
    let Mode::Policy(form) = &mut state.input.mode else {
        return;
    };
    if !form.loaded {
        return;
    }
    let Some(line) = form.line_mut() else { return };
    match press.key.code {
        KeyCode::Left | KeyCode::Right | KeyCode::Char(' ') if !line.choices.is_empty() => {
            line.turn(press.key.code != KeyCode::Left);
        }
        code => {
            if let Some(request) = typing::request(code, press.key.modifiers) {
                edit(state, request);
            }
        }
    }
    check(state);
}

#[expect(clippy::wildcard_enum_match_arm, reason = "every other request is the input's own")]
fn edit(state: &mut State, request: InputRequest) {
    let Mode::Policy(form) = &mut state.input.mode else {
        return;
    };
    let loaded = form.loaded;
    let Some(line) = form.line_mut().filter(|_| loaded) else {
        return;
    };
    match request {
        InputRequest::InsertChar(character) if !line.takes(character) => {}
        request => {
            line.input.handle(request);
        }
    }
}

fn check(state: &mut State) {
    if let Mode::Policy(form) = &mut state.input.mode {
        form.check();
    }
}

/// Asks for the plan, which says what the policy would do to what waits.
fn ask(state: &mut State) -> Vec<Effect> {
    let Mode::Policy(form) = &state.input.mode else {
        return Vec::new();
    };
    if !form.loaded {
        return Vec::new();
    }
    if let Some(problem) = &form.problem {
        let text = format!("not saved: {problem}");
        say::toast(state, Tone::Warning, &text);
        return Vec::new();
    }
    let edit = PolicyEdit {
        scope: form.scope.clone(),
        act: PolicyAct::Set(form.document()),
        expected: None,
    };
    let Mode::Policy(form) = std::mem::take(&mut state.input.mode) else {
        return Vec::new();
    };
    state.input.behind = Some(Box::new(Mode::Policy(form)));
    let action = state.input.keymap.action(named::EDIT_POLICY);
    confirm::begin(state, action, KeyCode::Enter, Asked::one(Command::Policy(edit)))
}
