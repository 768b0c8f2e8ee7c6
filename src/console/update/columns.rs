//! The columns of the list in front: which are shown, in which order, and by which of them it is sorted.

use crossterm::event::{KeyCode, KeyModifiers};

use super::keys::Press;
use super::{State, snapshots};
use crate::console::state::Mode;
use crate::console::state::effect::Effect;
use crate::console::table::{Columns, List};

/// Opens the choice at the column that the list is sorted by.
pub(in crate::console) fn open(state: &mut State) {
    let Some(list) = state.list() else { return };
    let columns = list.columns();
    let sorted = columns.iter().position(|column| column.sorted.is_some());
    state.input.mode = Mode::Columns(sorted.unwrap_or(0));
}

/// A key while it is open.
pub(super) fn key(state: &mut State, press: Press) -> Vec<Effect> {
    let Mode::Columns(chosen) = state.input.mode else {
        return Vec::new();
    };
    let columns = state.list().map(Columns::columns).unwrap_or_default();
    let Some(column) = columns.get(chosen) else {
        state.input.mode = Mode::Browse;
        return Vec::new();
    };
    let (last, name) = (columns.len() - 1, column.name);
    let shift = press.key.modifiers.contains(KeyModifiers::SHIFT);
    match (press.key.code, shift) {
        (KeyCode::Esc | KeyCode::Char('q' | 't'), _) => state.input.mode = Mode::Browse,
        (KeyCode::Up, true) | (KeyCode::Char('K' | '<'), _) => return moved(state, chosen, -1),
        (KeyCode::Down, true) | (KeyCode::Char('J' | '>'), _) => return moved(state, chosen, 1),
        (KeyCode::Up | KeyCode::Char('k'), _) => state.input.mode = Mode::Columns(chosen.saturating_sub(1)),
        (KeyCode::Down | KeyCode::Char('j'), _) => state.input.mode = Mode::Columns((chosen + 1).min(last)),
        (KeyCode::Home | KeyCode::Char('g'), _) => state.input.mode = Mode::Columns(0),
        (KeyCode::End | KeyCode::Char('G'), _) => state.input.mode = Mode::Columns(last),
        (KeyCode::Char(' '), _) => change(state, |list| list.column_toggle(chosen)),
        (KeyCode::Char('0'), _) => change(state, |list| list.columns_reset()),
        (KeyCode::Enter | KeyCode::Char('s'), _) => {
            // Again: the other way round.
            let other_way = column.sorted.is_some_and(|first_way| first_way);
            change(state, |list| {
                list.sort_by(name, other_way);
            });
            return snapshots::arrange_front(state);
        }
        _ => {}
    }
    Vec::new()
}

fn change(state: &mut State, change: impl FnOnce(&mut dyn List)) {
    if let Some(list) = state.list_mut() {
        change(list);
    }
}

/// The chosen column goes one place up or down, and stays the chosen one.
fn moved(state: &mut State, chosen: usize, by: isize) -> Vec<Effect> {
    let mut place = chosen;
    change(state, |list| place = list.column_move(chosen, by));
    state.input.mode = Mode::Columns(place);
    Vec::new()
}
