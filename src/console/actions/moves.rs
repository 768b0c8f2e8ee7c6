//! Actions that move the selection, or what is read.

use crate::console::state::action::{Action, Move};
use crate::console::table::End;
use crate::console::update::act;

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
        .turns(|state| act::sideways(state, -1)),
    Action::new("right", "right", &["Right"])
        .help("Show columns further to the right; in a detail, the next part.")
        .turns(|state| act::sideways(state, 1)),
];
