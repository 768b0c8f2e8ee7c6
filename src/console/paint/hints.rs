//! The line of keys, made from the table of actions; what is not possible stands there with its reason.
//!
//! ```text
//!  R redeliver  P pause  Enter open  / filter …  D: not in this view        ? help  q quit
//! ```

use ratatui::layout::Rect;

use crate::console::state::action::{self, Hint};
use crate::console::state::{Mode, State};
use crate::console::theme::Role;
use crate::console::widgets::canvas::{Canvas, behind, cells, row};
use crate::domain::text::width;

/// Paints the hint bar.
pub(super) fn paint(canvas: &mut Canvas<'_>, area: Rect, state: &State) {
    canvas.clear(area, Role::Screen);
    match &state.input.mode {
        Mode::Browse => table(canvas, area, state),
        Mode::Filter(_) => fixed(
            canvas,
            area,
            &[
                ("Enter", "keep the filter"),
                ("Tab", "complete"),
                ("Esc", "as it was before"),
            ],
        ),
        Mode::Find(_) => fixed(
            canvas,
            area,
            &[("Enter", "keep it"), ("↑↓", "step"), ("Esc", "forget it")],
        ),
        Mode::Policy(_) => fixed(
            canvas,
            area,
            &[
                ("Enter", "what it would do"),
                ("↑↓", "next key"),
                ("Esc", "leave it as it is"),
            ],
        ),
        Mode::Document(_) => fixed(
            canvas,
            area,
            &[
                ("Enter", "what it would change"),
                ("↑↓", "next key"),
                ("Esc", "leave it as it is"),
            ],
        ),
        Mode::When(_) => fixed(canvas, area, &[("Enter", "what it would do"), ("Esc", "cancel")]),
        Mode::Dialog(_) => fixed(canvas, area, &[("Esc", "cancel"), ("↑↓", "look through the targets")]),
        Mode::Palette(_) => fixed(
            canvas,
            area,
            &[("Enter", "do it"), ("Tab", "complete"), ("Esc", "back")],
        ),
        Mode::Columns(_) => fixed(
            canvas,
            area,
            &[
                ("Space", "show or hide"),
                ("Enter", "sort by it, again: the other way"),
                ("J K", "move it"),
                ("0", "as at first"),
                ("Esc", "back"),
            ],
        ),
        Mode::Question(_) => fixed(canvas, area, &[("Esc", "leave it")]),
        Mode::Help { .. } => fixed(canvas, area, &[("Esc", "back"), ("↑↓", "scroll")]),
    }
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

fn table(canvas: &mut Canvas<'_>, area: Rect, state: &State) {
    let hints = action::hints(state);
    let (always, others): (Vec<&Hint>, Vec<&Hint>) = hints.iter().partition(|hint| hint.action.is_in_corner());
    let always_width: u16 = always.iter().map(|hint| width_of(hint)).sum();
    let mut corner = behind(
        row(area, area.height.saturating_sub(1)),
        area.width.saturating_sub(always_width),
    );
    for hint in always {
        let taken = possible(canvas, corner, hint);
        corner = behind(corner, taken);
    }
    let (mut offered, refused): (Vec<&Hint>, Vec<&Hint>) = others.into_iter().partition(|hint| hint.possible.is_ok());
    offered.retain(|hint| !hint.title.is_empty());
    let needed: u16 = offered.iter().map(|hint| width_of(hint)).sum();
    // What fits on one line stands on the last one.
    let one_line = refused.is_empty() && needed.saturating_add(always_width) <= area.width;
    let mut line = if one_line { area.height.saturating_sub(1) } else { 0 };
    let mut rest = room(area, line, always_width);
    for hint in offered {
        if width_of(hint) > rest.width && line + 1 < area.height {
            line += 1;
            rest = room(area, line, always_width);
        }
        if width_of(hint) > rest.width {
            canvas.text(rest, "…", Role::Hint);
            return;
        }
        let taken = possible(canvas, rest, hint);
        rest = behind(rest, taken);
    }
    for (keys, reason) in by_reason(&refused) {
        let text = format!(" {keys}: {reason} ");
        if cells(width(&text)) > rest.width && line + 1 < area.height {
            line += 1;
            rest = room(area, line, always_width);
        }
        let taken = canvas.text(rest, &text, Role::HintDisabled);
        rest = behind(rest, taken);
    }
}

/// A line of the bar; the last one shares with what is always there.
fn room(area: Rect, line: u16, always: u16) -> Rect {
    let mut area_of_line = row(area, line);
    if line + 1 == area.height {
        area_of_line.width = area_of_line.width.saturating_sub(always);
    }
    area_of_line
}

fn width_of(hint: &Hint) -> u16 {
    cells(width(&hint.key) + width(hint.title) + 3)
}

fn possible(canvas: &mut Canvas<'_>, area: Rect, hint: &Hint) -> u16 {
    let pieces = [
        (" ", Role::Hint),
        (hint.key.as_str(), Role::HintKey),
        (" ", Role::Hint),
        (hint.title, Role::Hint),
        (" ", Role::Hint),
    ];
    canvas.pieces(area, &pieces)
}

/// Keys that are refused for the same reason stand together.
fn by_reason(refused: &[&Hint]) -> Vec<(String, String)> {
    let mut groups: Vec<(String, String)> = Vec::new();
    for hint in refused {
        let Err(reason) = &hint.possible else { continue };
        match groups.iter_mut().find(|(_, known)| known.as_str() == reason.as_ref()) {
            Some((keys, _)) => {
                keys.push(' ');
                keys.push_str(&hint.key);
            }
            None => groups.push((hint.key.clone(), reason.as_ref().to_owned())),
        }
    }
    groups
}
