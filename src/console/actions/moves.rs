//! Actions that move the selection, or what is read.

use crate::console::state::action::{Action, Move};
use crate::console::table::End;
use crate::console::update::{act, preview};

pub(super) const MOVE: &[Action] = &[
    Action::new("up", "up", &["Up", "k"])
        .help("Move up.")
        .moves(Move::Rows(-1)),
    Action::new("down", "down", &["Down", "j"])
        .help("Move down.")
        .moves(Move::Rows(1)),
    Action::new("page_up", "page up", &["PageUp"])
        .help("Move up by a page.")
        .moves(Move::Pages(-1)),
    Action::new("page_down", "page down", &["PageDown"])
        .help("Move down by a page.")
        .moves(Move::Pages(1)),
    Action::new("first", "first", &["Home", "g"])
        .help("Move to the first row.")
        .moves(Move::To(End::First)),
    Action::new("last", "last", &["End", "G"])
        .help("Move to the last row.")
        .moves(Move::To(End::Last)),
    Action::new("left", "left", &["Left"])
        .help("Show columns further to the left; in a detail, the part before.")
        .does(|state| act::sideways(state, -1)),
    Action::new("right", "right", &["Right"])
        .help("Show columns further to the right; in a detail, the next part.")
        .does(|state| act::sideways(state, 1)),
    Action::new("next_row", "next row", &["J"])
        .help("In an open row, open the next one of its list, at the same part.")
        .when(preview::next_row_possible)
        .turns(|state| preview::next_row(state, 1)),
    Action::new("previous_row", "previous row", &["K"])
        .help("In an open row, open the one before in its list.")
        .when(preview::next_row_possible)
        .turns(|state| preview::next_row(state, -1)),
];
