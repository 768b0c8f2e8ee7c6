//! The line of keys, made from the table of actions: a few that apply now to what is selected, the most likely first,
//! then where one can go. What cannot be done is not there; pressed, it says why, and the menu has it.
//!
//! ```text
//!  R redeliver  P pause  T test  Enter open  a actions  / filter                ? help  q quit
//! ```

use ratatui::layout::Rect;

use crate::console::state::action::{self, Hint, named};
use crate::console::state::page::PageKind;
use crate::console::state::{Mode, State};
use crate::console::theme::Role;
use crate::console::widgets::canvas::{Canvas, Target, behind, cells, row};
use crate::domain::text::width;

/// Paints the hint bar.
pub(super) fn paint(canvas: &mut Canvas<'_>, area: Rect, state: &State) {
    canvas.clear(area, Role::Screen);
    match of_line(&state.input.mode).or_else(|| of_box(&state.input.mode)) {
        Some(keys) => fixed(canvas, area, keys),
        None => table(canvas, area, state),
    }
}

/// Keys with what they do.
type Keys = &'static [(&'static str, &'static str)];

/// Where something is typed.
fn of_line(mode: &Mode) -> Option<Keys> {
    let keys: Keys = match mode {
        Mode::Filter(_) => &[
            ("Enter", "keep the filter"),
            ("Tab", "complete"),
            ("↑↓", "filters of before"),
            ("Esc", "as it was before"),
        ],
        Mode::Find(_) => &[("Enter", "keep it"), ("↑↓", "step"), ("Esc", "forget it")],
        Mode::Policy(_) => &[
            ("Enter", "what it would do"),
            ("↑↓", "next key"),
            ("Esc", "leave it as it is"),
        ],
        Mode::Document(_) => &[
            ("Enter", "what it would change"),
            ("↑↓", "next key"),
            ("Esc", "leave it as it is"),
        ],
        Mode::When(_) => &[("Enter", "what it would do"), ("Esc", "cancel")],
        Mode::Palette(_) => &[("Enter", "do it"), ("Tab", "complete"), ("Esc", "back")],
        Mode::Browse
        | Mode::Dialog(_)
        | Mode::Columns(_)
        | Mode::Question(_)
        | Mode::Menu(_)
        | Mode::Page(_)
        | Mode::Help(_) => return None,
    };
    Some(keys)
}

/// Where something lies over the view.
fn of_box(mode: &Mode) -> Option<Keys> {
    let keys: Keys = match mode {
        Mode::Dialog(_) => &[
            ("Esc", "cancel"),
            ("↑↓", "look through the targets"),
            ("Tab", "write a reason"),
        ],
        Mode::Columns(_) => &[
            ("Space", "show or hide"),
            ("Enter", "sort by it, again: the other way"),
            ("J K", "move it"),
            ("0", "as at first"),
            ("Esc", "back"),
        ],
        Mode::Question(_) => &[("Esc", "leave it")],
        Mode::Help(_) => &[("Esc", "back"), ("↑↓", "scroll"), ("type", "to look for something")],
        Mode::Page(page) => match page.kind {
            PageKind::Profiles => &[
                ("Enter", "go there"),
                ("↑↓", "choose"),
                ("r", "look again"),
                ("Esc", "back"),
            ],
            PageKind::Health => &[("↑↓", "scroll"), ("r", "look again"), ("Esc", "back")],
        },
        Mode::Menu(_) => &[
            ("Enter", "do it"),
            ("↑↓", "choose"),
            ("its key", "does it as well"),
            ("Esc", "back"),
        ],
        Mode::Browse
        | Mode::Filter(_)
        | Mode::Find(_)
        | Mode::Policy(_)
        | Mode::Document(_)
        | Mode::When(_)
        | Mode::Palette(_) => return None,
    };
    Some(keys)
}

fn fixed(canvas: &mut Canvas<'_>, area: Rect, keys: &[(&str, &str)]) {
    let mut rest = row(area, 0);
    for (key, what) in keys {
        let text = [
            (" ", Role::Hint),
            (*key, Role::HintKey),
            (" ", Role::Hint),
            (*what, Role::Hint),
            (" ", Role::Hint),
        ];
        let taken = canvas.pieces(rest, &text);
        rest = behind(rest, taken);
    }
}

/// Actions on the selected row, at most: the others are in the menu.
const ACTS_MAX: usize = 5;
/// What always stands there where it is possible: without it nobody finds the rest.
const NEEDED: [&str; 3] = [named::OPEN, named::BACK, named::MENU];

fn table(canvas: &mut Canvas<'_>, area: Rect, state: &State) {
    let hints = action::hints(state);
    let (always, others): (Vec<&Hint>, Vec<&Hint>) = hints.iter().partition(|hint| hint.action.is_in_corner());
    let always_width: u16 = always.iter().map(|hint| width_of(hint)).sum();
    let line = row(area, area.height.saturating_sub(1));
    let mut corner = behind(line, area.width.saturating_sub(always_width));
    for hint in always {
        let taken = one(canvas, corner, hint);
        corner = behind(corner, taken);
    }
    let mut rest = Rect {
        width: area.width.saturating_sub(always_width),
        ..line
    };
    for hint in fitting(&others, rest.width) {
        let taken = one(canvas, rest, hint);
        rest = behind(rest, taken);
    }
}

/// What there is room for, in its order: what leads further first, then what acts, then the rest.
fn fitting<'a>(hints: &[&'a Hint], columns: u16) -> Vec<&'a Hint> {
    let is_needed = |hint: &Hint| NEEDED.contains(&hint.action.name);
    let named = |hint: &&&Hint| !hint.title.is_empty();
    let by_need = hints.iter().filter(named).filter(|hint| is_needed(hint));
    let acts = hints.iter().filter(named).filter(|hint| hint.acts && !is_needed(hint));
    let others = hints.iter().filter(named).filter(|hint| !hint.acts && !is_needed(hint));
    let mut left = columns;
    let mut chosen: Vec<&Hint> = Vec::new();
    for hint in by_need.chain(acts.take(ACTS_MAX)).chain(others) {
        if width_of(hint) <= left {
            left -= width_of(hint);
            chosen.push(hint);
        }
    }
    chosen.sort_by_key(|hint| (!hint.acts, hints.iter().position(|one| one.action == hint.action)));
    chosen
}

fn width_of(hint: &Hint) -> u16 {
    cells(width(&hint.key) + width(hint.title) + 3)
}

fn one(canvas: &mut Canvas<'_>, area: Rect, hint: &Hint) -> u16 {
    let pieces = [
        (" ", Role::Hint),
        (hint.key.as_str(), Role::HintKey),
        (" ", Role::Hint),
        (hint.title, Role::Hint),
        (" ", Role::Hint),
    ];
    let taken = canvas.pieces(area, &pieces);
    canvas.target(Rect { width: taken, ..area }, Target::Action(hint.action.name));
    taken
}
