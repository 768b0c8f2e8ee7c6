//! Looking for a text in the payload in front: typed live, Enter keeps it, Esc forgets it.

use crossterm::event::{KeyCode, KeyModifiers};
use tui_input::{Input, InputRequest};

use super::State;
use super::keys::Press;
use crate::console::state::Mode;
use crate::console::state::detail::Detail;
use crate::console::state::payload::{FIND_BYTES_MAX, Find};
use crate::console::typing;
use crate::domain::text::width;

/// So many lines are seen below the first one wherever a payload is shown.
const LINES_SEEN: usize = 3;

pub(in crate::console) fn begin(state: &mut State) {
    let text = state.nav.details.last().and_then(|detail| detail.find.as_ref());
    let text = text.map_or_else(String::new, |find| find.text.clone());
    state.input.mode = Mode::Find(Input::new(text));
}

pub(super) fn key(state: &mut State, press: Press) {
    let control = press.key.modifiers.contains(KeyModifiers::CONTROL);
    match (press.key.code, control) {
        (KeyCode::Enter, _) => state.input.mode = Mode::Browse,
        (KeyCode::Esc, _) | (KeyCode::Char('c'), true) => {
            state.input.mode = Mode::Browse;
            if let Some(detail) = state.nav.details.last_mut() {
                detail.find = None;
            }
        }
        (KeyCode::Down, _) | (KeyCode::Char('n'), true) => step(state, 1),
        (KeyCode::Up, _) | (KeyCode::Char('p'), true) => step(state, -1),
        (code, _) => {
            if let Some(request) = typing::request(code, press.key.modifiers) {
                edit(state, &[request]);
            }
        }
    }
}

pub(super) fn paste(state: &mut State, text: &str) {
    edit(state, &typing::pasted(text, FIND_BYTES_MAX));
}

/// The next place, or the one before.
pub(in crate::console) fn step(state: &mut State, by: isize) {
    if let Some(detail) = state.nav.details.last_mut() {
        if let Some(find) = &mut detail.find {
            find.step(by);
        }
        show(detail);
    }
}

fn edit(state: &mut State, requests: &[InputRequest]) {
    let Mode::Find(input) = &mut state.input.mode else {
        return;
    };
    if !typing::edit(input, requests, FIND_BYTES_MAX) {
        return;
    }
    let text = input.value().to_owned();
    let Some(detail) = state.nav.details.last_mut() else {
        return;
    };
    let Some(page) = &detail.page else { return };
    let seen = detail.scroll.saturating_sub(detail.lines_above());
    let from = page.lines.get(seen).map_or(0, |line| line.from);
    detail.find = (!text.is_empty()).then(|| Find::new(&text, page, from));
    show(detail);
}

/// Moves the text so that the place in front is seen.
fn show(detail: &mut Detail) {
    let (Some(page), Some(place)) = (&detail.page, detail.find.as_ref().and_then(Find::place)) else {
        return;
    };
    let above = detail.lines_above();
    let line = page.line_of(place);
    let first = detail.scroll.saturating_sub(above);
    if detail.scroll < above || line < first || line >= first + LINES_SEEN {
        detail.scroll = above + line.saturating_sub(1);
    }
    let before = page.lines.get(line).and_then(|line| page.text.get(line.from..place));
    let column = before.map_or(0, width);
    let columns = page.paper.columns;
    if page.paper.wrap || column + LINES_SEEN < columns {
        detail.shift = 0;
    } else if column < detail.shift || column >= detail.shift + columns / 2 {
        detail.shift = column.saturating_sub(columns / 4);
    }
}
