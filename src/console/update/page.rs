//! Pages that are asked for: when they open, again so long after their last answer, and by `r`.

use crossterm::event::{KeyCode, KeyModifiers};

use super::keys::Press;
use super::{State, health, profiles};
use crate::console::state::Mode;
use crate::console::state::effect::Effect;
use crate::console::state::page::{Page, PageKind};
use crate::domain::time::Timestamp;

/// Opens the page and asks.
pub(super) fn open(state: &mut State, kind: PageKind) -> Vec<Effect> {
    state.input.mode = Mode::Page(Page {
        kind,
        line: 0,
        awaited: 0,
        due_at: None,
    });
    ask(state)
}

/// Asks again when it is time.
pub(super) fn ask_again(state: &mut State) -> Vec<Effect> {
    match due_at(state) {
        Some(at) if at <= state.now => ask(state),
        Some(_) | None => Vec::new(),
    }
}

/// When it is asked again; `None`: no page is open, or answers are to come.
pub(super) const fn due_at(state: &State) -> Option<Timestamp> {
    if let Mode::Page(page) = &state.input.mode {
        page.due_at
    } else {
        None
    }
}

fn ask(state: &mut State) -> Vec<Effect> {
    let Mode::Page(page) = &mut state.input.mode else {
        return Vec::new();
    };
    let (awaited, effect) = match page.kind {
        PageKind::Profiles => profiles::question(&state.session.profiles),
        PageKind::Health => (1, Effect::Check),
    };
    (page.awaited, page.due_at) = (awaited, None);
    vec![effect]
}

/// One of the answers came: after the last it is asked again in a while.
pub(super) fn answered(state: &mut State, kind: PageKind) {
    let again_after = match kind {
        PageKind::Profiles => profiles::AGAIN_AFTER,
        PageKind::Health => health::AGAIN_AFTER,
    };
    if let Mode::Page(page) = &mut state.input.mode
        && page.kind == kind
    {
        page.awaited = page.awaited.saturating_sub(1);
        page.due_at = (page.awaited == 0).then(|| state.now.plus(again_after));
    }
}

/// A key while a page is open; the key that opened it closes it.
pub(super) fn key(state: &mut State, press: Press) -> Vec<Effect> {
    let Mode::Page(page) = &state.input.mode else {
        return Vec::new();
    };
    let kind = page.kind;
    let (opened_by, last) = match kind {
        PageKind::Profiles => ('=', profiles::last(state)),
        PageKind::Health => ('!', health::last(state)),
    };
    let Mode::Page(page) = &mut state.input.mode else {
        return Vec::new();
    };
    let control = press.key.modifiers.contains(KeyModifiers::CONTROL);
    match (press.key.code, control) {
        (KeyCode::Char(typed), false) if typed == opened_by => state.input.mode = Mode::Browse,
        (KeyCode::Esc | KeyCode::Char('q'), false) | (KeyCode::Char('c'), true) => state.input.mode = Mode::Browse,
        (KeyCode::Up | KeyCode::Char('k'), false) => page.line = page.line.saturating_sub(1),
        (KeyCode::Down | KeyCode::Char('j'), false) => page.line = (page.line + 1).min(last),
        (KeyCode::Home, _) => page.line = 0,
        (KeyCode::End, _) => page.line = last,
        (KeyCode::Char('r'), false) => return ask(state),
        (KeyCode::Enter, false) if press.deliberate && kind == PageKind::Profiles => {
            let line = page.line;
            state.input.mode = Mode::Browse;
            return profiles::go(state, line);
        }
        _ => {}
    }
    Vec::new()
}
