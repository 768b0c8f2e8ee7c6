//! The line behind `:` with what it could mean, the best first.
//!
//! ```text
//! ┌ : ────────────────────────────────────────────────────────┐
//! │ :stock▏                                                    │
//! │ ▌ endpoint  https://stock.example/changed      unavailable │
//! │   queue     redrive.order-18.9bbb34aa…          12 waiting │
//! │   action    redeliver   R                                  │
//! │ Enter runs it  Tab completes  Ctrl+p earlier Esc           │
//! └──────────────────────────────────────────── 1–3 of 12 ─────┘
//! ```

use ratatui::layout::{Position, Rect};

use super::dialog::boxed;
use crate::console::state::State;
use crate::console::state::palette::{Candidate, Choice, Palette};
use crate::console::theme::Role;
use crate::console::widgets::canvas::{Canvas, behind, below, cells, row};
use crate::domain::text::{show, width};

const WIDTH_MAX: u16 = 100;
const ROWS_MAX: u16 = 14;
const KIND: u16 = 10;
/// Columns of a name that are looked at.
const NAME_MAX: usize = 400;

/// Paints it over the upper part; answers where the cursor stands.
pub(super) fn paint(canvas: &mut Canvas<'_>, area: Rect, state: &State, palette: &Palette) -> Option<Position> {
    let wide = WIDTH_MAX.min(area.width);
    let rows = cells(palette.found.len())
        .clamp(1, ROWS_MAX)
        .min(area.height.saturating_sub(4));
    let outer = Rect {
        x: area.x + (area.width - wide) / 2,
        y: area.y,
        width: wide,
        height: (rows + 4).min(area.height),
    };
    let inner = boxed(canvas, outer, "Command or search", false);
    let cursor = line(canvas, row(inner, 0), palette);
    let list = Rect {
        height: rows.min(inner.height.saturating_sub(2)),
        ..below(inner, 1)
    };
    candidates(canvas, list, state, palette);
    said(canvas, row(inner, inner.height.saturating_sub(1)), palette);
    cursor
}

fn line(canvas: &mut Canvas<'_>, area: Rect, palette: &Palette) -> Option<Position> {
    canvas.text(area, ":", Role::DialogKey);
    let field = behind(area, 1);
    canvas.lay_over(field, Role::Input);
    let input = &palette.input;
    let scroll = input.visual_scroll(usize::from(field.width).saturating_sub(1));
    let typed = crate::console::views::list::skip_columns(input.value(), scroll);
    canvas.text(field, &typed, Role::Input);
    canvas.cursor(field.x + cells(input.visual_cursor().saturating_sub(scroll)), field.y)
}

fn candidates(canvas: &mut Canvas<'_>, area: Rect, state: &State, palette: &Palette) {
    let height = usize::from(area.height);
    let first = (palette.selected + 1).saturating_sub(height);
    for (at, (place, candidate)) in (0..area.height).zip(palette.found.iter().enumerate().skip(first)) {
        one(canvas, row(area, at), state, candidate, place == palette.selected);
    }
    if palette.found.is_empty() {
        canvas.text(area, "Nothing is called like that.", Role::TextMuted);
    }
}

fn one(canvas: &mut Canvas<'_>, area: Rect, state: &State, candidate: &Candidate, selected: bool) {
    if selected {
        canvas.text(area, "▌", Role::Mark);
    }
    let kind = Rect {
        width: KIND.saturating_sub(1).min(area.width.saturating_sub(2)),
        ..behind(area, 2)
    };
    canvas.text(kind, candidate.kind, Role::TextMuted);
    let room = behind(area, 2 + KIND);
    let role = if candidate.refused.is_some() {
        Role::HintDisabled
    } else {
        Role::Text
    };
    let name = show(&candidate.name, NAME_MAX);
    let least = room.width / 2;
    let name_width = cells(width(&name)).clamp(least, room.width.saturating_sub(room.width / 4).max(least));
    let place = Rect {
        width: name_width.saturating_sub(1),
        ..room
    };
    canvas.text(place, &name, role);
    let (says, says_role) = match (&candidate.refused, &candidate.choice) {
        (Some(why), _) => (why.as_ref().to_owned(), Role::HintDisabled),
        (None, Choice::Action(action)) => {
            let key = state.input.keymap.label(action.name).unwrap_or_default();
            (format!("{key}  {}", candidate.says), Role::TextMuted)
        }
        (None, _) => (candidate.says.clone(), Role::TextMuted),
    };
    canvas.text(behind(room, name_width), &says, says_role);
    if selected {
        canvas.lay_over(area, Role::Selection);
    }
}

/// Why it was not done; else what the keys do, and where in the list this is.
fn said(canvas: &mut Canvas<'_>, area: Rect, palette: &Palette) {
    if let Some(problem) = &palette.problem {
        canvas.text(area, &format!("! {problem}"), Role::Error);
        return;
    }
    let place = match palette.found.len() {
        0 => String::new(),
        found => format!("{} of {found}", palette.selected + 1),
    };
    canvas.right(area, &place, Role::TextMuted);
    let room = Rect {
        width: area.width.saturating_sub(cells(width(&place)) + 1),
        ..area
    };
    let keys = [
        ("Enter", Role::DialogKey),
        (" runs it  ", Role::TextMuted),
        ("Tab", Role::DialogKey),
        (" completes  ", Role::TextMuted),
        ("Ctrl+p", Role::DialogKey),
        (" earlier  ", Role::TextMuted),
        ("Esc", Role::DialogKey),
        (" back", Role::TextMuted),
    ];
    canvas.pieces(room, &keys);
}
