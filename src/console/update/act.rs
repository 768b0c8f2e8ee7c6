//! What an action does where the operator is.

use std::time::Duration;

use crossterm::event::KeyCode;

use super::say::{self, counted};
use super::{State, confirm, details, preview, snapshots};
use crate::console::journal::Tone;
use crate::console::state::action::{Action, Also, Begin, Context, Move};
use crate::console::state::effect::Effect;
use crate::console::state::{View, relatives};
use crate::console::table::{End, List};
use crate::domain::text::show;
use crate::domain::url::redact_urls;

/// Asked again within this, the console is left although something runs.
const LEAVE_AGAIN_WITHIN: Duration = Duration::from_secs(5);
/// A name on the clipboard is at most this wide.
const COPIED_WIDTH_MAX: usize = 8_192;

/// Begins an action. What changes something is frozen and planned before it is confirmed.
pub(super) fn perform(state: &mut State, action: &'static Action, trigger: KeyCode) -> Vec<Effect> {
    match action.begin {
        Begin::Move(by) => move_by(state, by),
        Begin::Turn(turn) => turn(state),
        Begin::Do(does) => return does(state),
        Begin::Form(open) => return open(state, trigger),
        Begin::Plan(freeze) => match freeze(state) {
            Ok(asked) => return confirm::begin(state, action, trigger, asked),
            Err(why) => say::toast(state, Tone::Warning, &format!("{}: {why}", action.title)),
        },
    }
    Vec::new()
}

/// An action on rows keeps the row that it was pressed on selected: the next key is meant for the same one, wherever
/// the list puts it meanwhile.
pub(super) fn fix_selection(state: &mut State, action: &'static Action) {
    let is_on_rows = match action.begin {
        Begin::Plan(_) | Begin::Form(_) => true,
        Begin::Move(_) | Begin::Turn(_) | Begin::Do(_) => {
            action.context == Context::Marking || action.has(|also| matches!(also, Also::OfRow))
        }
    };
    if is_on_rows && state.nav.details.is_empty() {
        state.fix_selection();
    }
}

/// Moves the selection, or what is read.
pub(super) fn move_by(state: &mut State, by: Move) {
    match by {
        Move::Rows(by) => step(state, by),
        Move::Pages(by) => page(state, by),
        Move::To(end) => jump(state, end),
    }
}

/// The preview beside the list and back; else the next view, or the next part of the detail in front.
pub(in crate::console) fn turn(state: &mut State, by: isize) -> Vec<Effect> {
    if state.is_beside() {
        preview::give_keys_back(state);
        return Vec::new();
    }
    if !state.nav.details.is_empty() {
        return details::turn(state, by);
    }
    if by > 0 && preview::take_keys(state) {
        return Vec::new();
    }
    let place = View::ALL.iter().position(|view| *view == state.nav.view).unwrap_or(0);
    let next = (place + View::ALL.len()).saturating_add_signed(by) % View::ALL.len();
    state.go(View::ALL[next]);
    Vec::new()
}

fn step(state: &mut State, by: isize) {
    if !state.nav.details.is_empty() {
        details::step(state, by);
    } else if let Some(list) = state.list_mut() {
        list.step(by);
    } else {
        state.nav.view.screen().step(state, by);
    }
}

fn page(state: &mut State, by: isize) {
    let rows = isize::try_from(state.page()).unwrap_or(isize::MAX);
    if state.nav.details.is_empty() {
        step(state, by.saturating_mul(rows));
    } else {
        details::scroll(state, by.saturating_mul(rows));
    }
}

fn jump(state: &mut State, to: End) {
    if !state.nav.details.is_empty() {
        details::jump(state, to);
    } else if let Some(list) = state.list_mut() {
        list.jump(to);
    } else {
        state.nav.view.screen().jump(state, to);
    }
}

pub(in crate::console) fn sideways(state: &mut State, by: isize) -> Vec<Effect> {
    if details::shift(state, by) {
        return Vec::new();
    }
    if !state.nav.details.is_empty() {
        return details::turn(state, by);
    }
    if let Some(list) = state.list_mut() {
        list.shift(by);
    }
    Vec::new()
}

pub(in crate::console) fn sort(state: &mut State, change: impl FnOnce(&mut dyn List)) -> Vec<Effect> {
    if let Some(list) = state.list_mut() {
        change(list);
    }
    snapshots::arrange_front(state)
}

/// The innermost first: detail, filter, marks.
pub(in crate::console) fn back(state: &mut State) -> Vec<Effect> {
    if !state.nav.details.is_empty() {
        return details::close(state);
    }
    let Some(list) = state.list_mut() else {
        return Vec::new();
    };
    if list.filter().text.is_empty() {
        let marked = list.is_marked();
        list.unmark();
        if !marked {
            state.nav.view.screen().close(&mut state.lists);
        }
        return Vec::new();
    }
    list.filter_write("");
    snapshots::arrange_front(state)
}

/// The name or URL of what is in front: of the detail, or of the selected row.
pub(in crate::console) fn name_in_front(state: &State) -> Option<String> {
    match state.nav.details.last() {
        Some(detail) => relatives::name_of_subject(&detail.subject),
        None => state.nav.view.screen().name(state),
    }
}

pub(in crate::console) fn copy(state: &mut State) -> Vec<Effect> {
    let Some(text) = name_in_front(state) else {
        return Vec::new();
    };
    say::toast(state, Tone::Note, &format!("copied {}", say::name(&redact_urls(&text))));
    vec![Effect::Copy(show(&text, COPIED_WIDTH_MAX))]
}

/// Leaving breaks off what runs, so that is said first.
pub(in crate::console) fn quit(state: &mut State) -> Vec<Effect> {
    let running = state.commands.tasks.iter().filter(|task| task.is_running()).count();
    let asked = state.commands.leaving_until.is_some_and(|until| state.now < until);
    if running == 0 || asked {
        return vec![Effect::Quit];
    }
    state.commands.leaving_until = Some(state.now.plus(LEAVE_AGAIN_WITHIN));
    let (verb, running) = (
        if running == 1 { "runs" } else { "run" },
        counted(u64::try_from(running).unwrap_or(u64::MAX), "action"),
    );
    let text = format!("{running} still {verb}: again to leave now; what has not begun is then not done");
    say::toast(state, Tone::Warning, &text);
    Vec::new()
}
