//! The confirmation: from the key to the plans, and from the answer to the effect.

use std::collections::BTreeSet;

use crossterm::event::{KeyCode, KeyEventKind, KeyModifiers};

use super::keys::Press;
use super::{State, pace, say, undo};
use crate::console::journal::Tone;
use crate::console::state::Mode;
use crate::console::state::action::{Action, Also, Shows, named};
use crate::console::state::dialog::{Asked, Dialog, Friction, Planning, ReasonLine, Report, ScopeKind, Task};
use crate::console::state::effect::Effect;
use crate::console::table::List;
use crate::domain::text::is_hidden;
use crate::engine::{Caution, Confirmation, Plan, confirmation};

/// Accepts where a key is enough. Never a key that opens a confirmation: see `keymap`.
const ACCEPT: char = 'y';
/// A reason is at most this long.
const REASON_BYTES_MAX: usize = 200;
/// Text from the clipboard answers nothing.
pub(super) const NOT_PASTED: &str = "pasted text is not taken here: type it";
/// What is asked for is not longer than a queue's name.
const TYPED_BYTES_MAX: usize = 255;

/// Opens the confirmation of these commands and asks for their plans.
pub(super) fn begin(state: &mut State, action: &'static Action, trigger: KeyCode, asked: Asked) -> Vec<Effect> {
    // A form, or an editor, that was opened within the time for changes may be left after it.
    if let Err(why) = action.permitted(state) {
        let text = format!("{}: {why}", action.title);
        say::toast(state, Tone::Warning, &text);
        return Vec::new();
    }
    let Asked { scope, commands } = asked;
    let request = state.commands.next_request;
    state.commands.next_request += 1;
    // A click is no key: it asks.
    let is_one = commands.len() == 1 && scope.kind == ScopeKind::One && trigger != KeyCode::Null;
    // Nor is a row that took the place of the chosen one a moment ago.
    let has_fallen = state.nav.details.is_empty() && state.list().is_some_and(List::has_fallen);
    let at_once = is_one && !has_fallen && action.has(|also| matches!(also, Also::AtOnce));
    state.commands.tasks.push(Task {
        request,
        action,
        commands: commands.clone(),
        back: Vec::new(),
        reasons: Vec::new(),
        since: state.now,
        at_once,
        ended: None,
        unanswered: BTreeSet::new(),
        report: Report::default(),
    });
    if at_once {
        return vec![Effect::Plan { request, commands }];
    }
    let again = undo::reason(state).filter(|_| action.name == named::UNDO);
    let known = again.or_else(|| state.session.reason()).map(ToOwned::to_owned);
    let reason = ReasonLine::with(known.as_deref(), state.session.profiles.protected);
    state.input.mode = Mode::Dialog(Box::new(Dialog {
        action,
        trigger,
        scope,
        planning: Planning::of(request),
        friction: Friction::Key(ACCEPT),
        typed: String::new(),
        refused: None,
        scroll: 0,
        pace: pace::of(state, &commands),
        reason,
    }));
    vec![Effect::Plan { request, commands }]
}

/// Closes the confirmation; nothing is done.
pub(super) fn close(state: &mut State) {
    if let Mode::Dialog(dialog) = &state.input.mode {
        let request = dialog.planning.request;
        state.commands.tasks.retain(|task| task.request != request);
        state.input.mode = state.input.behind.take().map_or(Mode::Browse, |mode| *mode);
    }
}

/// The plans came, or why there are none. What was closed meanwhile is forgotten.
pub(super) fn planned(state: &mut State, request: u64, result: Result<Vec<Plan>, String>) -> Vec<Effect> {
    let now = state.now;
    let caution = state.session.profiles.caution();
    let mut waiting = state.commands.tasks.iter();
    if waiting.any(|task| task.request == request && task.at_once && task.ended.is_none()) {
        return planned_at_once(state, request, result);
    }
    let Mode::Dialog(dialog) = &mut state.input.mode else {
        return Vec::new();
    };
    if dialog.planning.request != request || !dialog.planning.is_awaited() {
        return Vec::new();
    }
    match of_something(dialog.action, result) {
        Ok(plans) => {
            dialog.friction = friction(&plans, caution);
            dialog.planning.answered(plans, now);
        }
        Err(why) => {
            let text = format!("{}: {why}", dialog.action.title);
            close(state);
            say::toast(state, Tone::Bad, &text);
            say::did(state, Tone::Bad, &text);
        }
    }
    Vec::new()
}

/// What was selected may have been done by somebody meanwhile: then there is nothing to confirm.
fn of_something(action: &Action, result: Result<Vec<Plan>, String>) -> Result<Vec<Plan>, String> {
    let plans = result?;
    let is_empty = |plan: &Plan| plan.lines.is_empty() && plan.run.is_none();
    if action.confirm.shows == Shows::Events && plans.iter().all(is_empty) {
        return Err("there is nothing to do: what was selected is not there any more".to_owned());
    }
    Ok(plans)
}

/// Done without a further key, as far as nothing has to be typed for it.
fn planned_at_once(state: &mut State, request: u64, result: Result<Vec<Plan>, String>) -> Vec<Effect> {
    let caution = state.session.profiles.caution();
    let refused = match result {
        Ok(plans) if confirmation(&plans, caution) == Confirmation::Yes => {
            let reason = state.session.reason().map(ToOwned::to_owned);
            return execute(state, request, plans, reason);
        }
        Ok(_) => "it needs a confirmation: mark the row, and it asks for one".to_owned(),
        Err(why) => why,
    };
    let title = state.commands.tasks.iter().find(|task| task.request == request);
    let title = title.map(|task| task.action.title).unwrap_or_default();
    let text = format!("{title}: {refused}");
    state.commands.tasks.retain(|task| task.request != request);
    say::toast(state, Tone::Bad, &text);
    say::did(state, Tone::Bad, &text);
    Vec::new()
}

/// A key while the confirmation is open.
pub(super) fn key(state: &mut State, press: Press) -> Vec<Effect> {
    let page = state.page();
    let Mode::Dialog(dialog) = &mut state.input.mode else {
        return Vec::new();
    };
    dialog.refused = None;
    if dialog.pace.as_ref().is_some_and(|pace| pace.typing.is_some()) {
        return pace::key(state, press);
    }
    if dialog.reason.is_open {
        write_reason(dialog, press);
        return Vec::new();
    }
    let last = dialog.planning.targets().saturating_sub(1);
    match (press.key.code, press.key.modifiers.contains(KeyModifiers::CONTROL)) {
        (KeyCode::Esc, _) | (KeyCode::Char('c'), true) => close(state),
        (KeyCode::Up, _) => dialog.scroll = dialog.scroll.saturating_sub(1),
        (KeyCode::Down, _) => dialog.scroll = (dialog.scroll + 1).min(last),
        (KeyCode::PageUp, _) => dialog.scroll = dialog.scroll.saturating_sub(page),
        (KeyCode::PageDown, _) => dialog.scroll = (dialog.scroll + page).min(last),
        (KeyCode::Tab, _) => dialog.reason.is_open = true,
        (KeyCode::Char(key), false) if pace::begins(dialog, key) => return pace::begin(state, key),
        (code, false) => match &dialog.friction {
            Friction::Key(accept) => {
                let accept = *accept;
                return by_key(state, accept, code, press);
            }
            Friction::Type { .. } => return by_word(state, code, press),
        },
        (_, true) => {}
    }
    Vec::new()
}

/// Enter and Tab go back to the answers; Esc forgets what was written.
fn write_reason(dialog: &mut Dialog, press: Press) {
    let reason = &mut dialog.reason;
    let control = press.key.modifiers.contains(KeyModifiers::CONTROL);
    match (press.key.code, control) {
        (KeyCode::Enter | KeyCode::Tab | KeyCode::BackTab, _) => reason.is_open = false,
        (KeyCode::Esc, _) | (KeyCode::Char('c' | 'u'), true) => {
            reason.is_open = matches!(press.key.code, KeyCode::Char('u'));
            reason.text.clear();
        }
        (KeyCode::Backspace, _) | (KeyCode::Char('h'), true) => {
            reason.text.pop();
        }
        (KeyCode::Char(c), false) => add_to_reason(reason, c),
        _ => {}
    }
}

/// A reason is taken from the clipboard as well: it answers nothing.
pub(super) fn paste(state: &mut State, text: &str) {
    let Mode::Dialog(dialog) = &mut state.input.mode else {
        return;
    };
    if !dialog.reason.is_open {
        dialog.refused = Some(NOT_PASTED.to_owned());
        return;
    }
    for c in text.chars().take(REASON_BYTES_MAX) {
        add_to_reason(&mut dialog.reason, if c.is_whitespace() { ' ' } else { c });
    }
}

fn add_to_reason(reason: &mut ReasonLine, c: char) {
    if !is_hidden(c) && reason.text.len() + c.len_utf8() <= REASON_BYTES_MAX {
        reason.text.push(c);
    }
}

/// Cancel is in front: Enter does that.
fn by_key(state: &mut State, accept: char, code: KeyCode, press: Press) -> Vec<Effect> {
    if matches!(code, KeyCode::Enter | KeyCode::Char('n' | 'q')) {
        close(state);
    } else if code == KeyCode::Char(accept) && is_free_to_answer(state, press) {
        return go_on(state);
    }
    Vec::new()
}

fn by_word(state: &mut State, code: KeyCode, press: Press) -> Vec<Effect> {
    let free = is_free_to_answer(state, press);
    let repeats = press.key.kind == KeyEventKind::Repeat;
    let Mode::Dialog(dialog) = &mut state.input.mode else {
        return Vec::new();
    };
    let Friction::Type { what, word } = &dialog.friction else {
        return Vec::new();
    };
    if code == KeyCode::Enter {
        if free && dialog.typed == *word {
            return go_on(state);
        }
        if dialog.typed.is_empty() {
            close(state);
        } else {
            dialog.refused = Some(format!("this is not the {what}; Esc leaves everything as it is"));
        }
    } else if code == KeyCode::Backspace {
        dialog.typed.pop();
    } else if let KeyCode::Char(c) = code {
        if free && dialog.typed.len() < TYPED_BYTES_MAX {
            dialog.typed.push(c);
        } else if !press.deliberate && !repeats {
            // Nobody types that fast: it is pasted by a terminal that does not say so.
            dialog.typed.clear();
        }
    }
    Vec::new()
}

/// Armed, pressed by a person, and not the key that opened it.
fn is_free_to_answer(state: &State, press: Press) -> bool {
    let Mode::Dialog(dialog) = &state.input.mode else {
        return false;
    };
    let plain = !press
        .key
        .modifiers
        .intersects(KeyModifiers::CONTROL | KeyModifiers::ALT);
    let accepts_by_key = matches!(dialog.friction, Friction::Key(_));
    plain
        && press.deliberate
        && dialog.planning.is_armed(state.now)
        && !(accepts_by_key && press.key.code == dialog.trigger)
}

/// As the engine says of these plans.
fn friction(plans: &[Plan], caution: Caution) -> Friction {
    match confirmation(plans, caution) {
        Confirmation::Yes => Friction::Key(ACCEPT),
        Confirmation::Word { what, word } => Friction::Type { what, word },
    }
}

/// It was confirmed. The marks have done their work.
fn go_on(state: &mut State) -> Vec<Effect> {
    if let Mode::Dialog(dialog) = &mut state.input.mode
        && dialog.reason.is_missing()
    {
        dialog.reason.is_open = true;
        dialog.refused = Some("this profile is protected: write why; it goes into the audit".to_owned());
        return Vec::new();
    }
    let Mode::Dialog(dialog) = std::mem::take(&mut state.input.mode) else {
        return Vec::new();
    };
    state.input.behind = None;
    let Some(plans) = dialog.planning.plans else {
        return Vec::new();
    };
    if dialog.scope.kind == ScopeKind::Marked
        && let Some(list) = state.list_mut()
    {
        list.unmark();
    }
    execute(state, dialog.planning.request, plans, dialog.reason.written())
}

fn execute(state: &mut State, request: u64, plans: Vec<Plan>, reason: Option<String>) -> Vec<Effect> {
    let now = state.now;
    if let Some(task) = state.commands.tasks.iter_mut().find(|task| task.request == request) {
        task.ended = Some((0, 0));
        task.unanswered = (0..plans.len()).collect();
        task.commands = plans.iter().map(|plan| plan.command.clone()).collect();
        task.back = plans.iter().map(Plan::undo).collect();
        task.reasons = plans.iter().map(|plan| plan.ends_reason.clone()).collect();
        task.since = now;
    }
    vec![Effect::Execute { request, plans, reason }]
}
