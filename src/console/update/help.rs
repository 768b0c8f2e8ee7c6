//! The help: what is typed looks for it, and the keys that move move what is seen.

use crossterm::event::{KeyCode, KeyModifiers};
use tui_input::InputRequest;

use super::State;
use super::keys::Press;
use crate::console::paint::help_scroll_max;
use crate::console::state::Mode;
use crate::console::state::action::Move;
use crate::console::state::effect::Effect;
use crate::console::table::End;
use crate::console::typing;

/// What is looked for has at most this many bytes.
const WANTED_BYTES_MAX: usize = 200;

/// Opens it.
pub(in crate::console) fn open(state: &mut State) {
    state.input.mode = Mode::Help(Box::default());
}

/// A key while it is open.
pub(super) fn key(state: &mut State, press: Press) -> Vec<Effect> {
    let control = press.key.modifiers.contains(KeyModifiers::CONTROL);
    let is_empty = matches!(&state.input.mode, Mode::Help(help) if help.input.value().is_empty());
    match (press.key.code, control) {
        (KeyCode::Esc | KeyCode::Char('?' | 'q'), false) if is_empty => state.input.mode = Mode::Browse,
        (KeyCode::Char('c'), true) => state.input.mode = Mode::Browse,
        (KeyCode::Esc, _) => state.input.mode = Mode::Help(Box::default()),
        (KeyCode::Up, _) => scroll(state, Move::Rows(-1)),
        (KeyCode::Down | KeyCode::Enter, _) => scroll(state, Move::Rows(1)),
        (KeyCode::PageUp, _) => scroll(state, Move::Pages(-1)),
        (KeyCode::PageDown, _) => scroll(state, Move::Pages(1)),
        (KeyCode::Home, _) => scroll(state, Move::To(End::First)),
        (KeyCode::End, _) => scroll(state, Move::To(End::Last)),
        (code, _) => {
            if let Some(request) = typing::request(code, press.key.modifiers) {
                edit(state, &[request]);
            }
        }
    }
    Vec::new()
}

pub(super) fn paste(state: &mut State, text: &str) {
    edit(state, &typing::pasted(text, WANTED_BYTES_MAX));
}

fn edit(state: &mut State, requests: &[InputRequest]) {
    if let Mode::Help(help) = &mut state.input.mode
        && typing::edit(&mut help.input, requests, WANTED_BYTES_MAX)
    {
        help.scroll = 0;
    }
}

/// Moves what is seen of it.
pub(super) fn scroll(state: &mut State, by: Move) {
    let (page, last) = (state.page(), help_scroll_max(state));
    if let Mode::Help(help) = &mut state.input.mode {
        let moved = match by {
            Move::Rows(by) => help.scroll.saturating_add_signed(by),
            Move::Pages(by) => {
                let lines = by.saturating_mul(isize::try_from(page).unwrap_or(isize::MAX));
                help.scroll.saturating_add_signed(lines)
            }
            Move::To(End::First) => 0,
            Move::To(End::Last) => last,
        };
        help.scroll = moved.min(last);
    }
}
