//! A payload as an operator can read it, from the page that is laid out: coloured, with what is found in it.
//!
//! ```text
//!  payload: 96 B, JSON · 2 values masked, M reveals them
//!  {
//!    "order": 18,
//!    "card": "***"
//!  /stock                                                      2 of 12, n and p step
//! ```
//!
//! JSON is coloured by what its parts are. Only the lines that are on the screen are looked at.

use std::fmt::Write as _;

use ratatui::layout::{Position, Rect};

use crate::console::state::action::named;
use crate::console::state::detail::Detail;
use crate::console::state::payload::{Find, Kind, Line, MATCHES_MAX, Page};
use crate::console::state::{Mode, State};
use crate::console::theme::Role;
use crate::console::views::list::skip_columns;
use crate::console::widgets::canvas::{Canvas, Piece, behind, cells, fitting, row};
use crate::console::widgets::words::{count, plural_of, size};
use crate::domain::text::width;

/// What a payload is, how large, and what of it is not shown.
pub(super) fn described(state: &State, page: &Page) -> String {
    if page.kind == Kind::Empty {
        return "empty".to_owned();
    }
    let mut text = format!("{}, {}", size(page.size), page.kind.as_str());
    if let Some(shown) = page.cut_at {
        let _ = write!(text, "; the first {} are shown", size(shown));
    }
    text.push_str(&masked(state, page));
    text
}

/// What is masked, and the key that changes it.
pub(super) fn masked(state: &State, page: &Page) -> String {
    let key = state.input.keymap.label(named::REVEAL).unwrap_or_default();
    let values = plural_of(page.hidden, "value", "values");
    match (page.hidden, page.revealed) {
        (0, _) => String::new(),
        (_, true) => format!(" · ! {values} revealed, {key} masks again"),
        // Who may only look reveals nothing.
        (_, false) if state.session.read_only().is_some() => format!(" · {values} masked"),
        (_, false) => format!(" · {values} masked, {key} reveals"),
    }
}

/// Paints lines of the page in front, from `first` on.
pub(super) fn paint(canvas: &mut Canvas<'_>, area: Rect, detail: &Detail, first: usize) {
    let Some(page) = &detail.reading.page else { return };
    let lines = page.lines.get(first.min(page.lines.len())..).unwrap_or_default();
    for (at, line) in (0..area.height).zip(lines) {
        paint_line(canvas, row(area, at), page, *line, detail);
    }
}

fn paint_line(canvas: &mut Canvas<'_>, area: Rect, page: &Page, line: Line, detail: &Detail) {
    let shift = if page.paper.wrap { 0 } else { detail.reading.shift };
    let whole = page.line(line);
    let hidden = if shift == 0 { 0 } else { fitting(whole, shift) };
    let text = whole.get(hidden..).unwrap_or_default();
    // What does not fit need not be coloured.
    let end = fitting(text, usize::from(area.width) + 1);
    let text = text.get(..end).unwrap_or(text);
    if page.kind == Kind::Json {
        let mut inside = line.inside;
        coloured(whole.get(..hidden).unwrap_or_default(), &mut inside);
        canvas.pieces(area, &coloured(text, &mut inside));
    } else {
        canvas.text(area, text, Role::Text);
    }
    let Some(find) = &detail.reading.find else { return };
    let begin = line.from + hidden;
    for (from, to, chosen) in find.within(begin, begin + text.len()) {
        let columns = |from, to| cells(page.text.get(from..to).map_or(0, width));
        let place = behind(area, columns(begin, from));
        let place = Rect {
            width: place.width.min(columns(from, to)),
            ..place
        };
        canvas.lay_over(place, if chosen { Role::MatchSelected } else { Role::Match });
    }
}

/// The line in which a text is typed, or what was found of it; answers where the cursor stands.
pub(super) fn find_line(canvas: &mut Canvas<'_>, area: Rect, state: &State, detail: &Detail) -> Option<Position> {
    canvas.text(area, "/", Role::HintKey);
    let said = said(state, detail);
    let said_width = cells(width(&said)).min(area.width / 2);
    let field = Rect {
        width: area.width.saturating_sub(said_width + 1),
        ..behind(area, 1)
    };
    canvas.text(behind(area, area.width - said_width), &said, Role::TextMuted);
    let Mode::Find(input) = &state.input.mode else {
        let text = detail.reading.find.as_ref().map_or("", |find| find.text.as_str());
        canvas.text(field, text, Role::Info);
        return None;
    };
    canvas.lay_over(field, Role::Input);
    let scroll = input.visual_scroll(usize::from(field.width).saturating_sub(1));
    canvas.text(field, &skip_columns(input.value(), scroll), Role::Input);
    canvas.cursor(field.x + cells(input.visual_cursor().saturating_sub(scroll)), field.y)
}

fn said(state: &State, detail: &Detail) -> String {
    let Some(find) = &detail.reading.find else {
        return " type what is looked for ".to_owned();
    };
    if find.places.is_empty() {
        return " not found ".to_owned();
    }
    let key = |action| state.input.keymap.label(action).unwrap_or_default();
    let steps = if matches!(state.input.mode, Mode::Find(_)) {
        "↑↓ step".to_owned()
    } else {
        format!("{} and {} step", key(named::NEXT_MATCH), key(named::PREVIOUS_MATCH))
    };
    format!(" {} of {}, {steps} ", number(find.chosen + 1), all(find))
}

fn all(find: &Find) -> String {
    let more = if find.places.len() == MATCHES_MAX { "+" } else { "" };
    format!("{}{more}", number(find.places.len()))
}

fn number(number: usize) -> String {
    count(u64::try_from(number).unwrap_or(u64::MAX))
}

/// The parts of a line of JSON. `inside` says whether a string goes on from the line before, and into the next.
fn coloured<'a>(line: &'a str, inside: &mut bool) -> Vec<Piece<'a>> {
    let mut pieces = Vec::new();
    let mut rest = line;
    while !rest.is_empty() {
        let (end, role) = if *inside {
            let end = string_end(rest);
            *inside = end.is_none();
            (end.unwrap_or(rest.len()), Role::TextString)
        } else if let Some(after) = rest.strip_prefix('"') {
            let end = string_end(after).map(|end| end + 1);
            *inside = end.is_none();
            let end = end.unwrap_or(rest.len());
            let names = rest.get(end..).is_some_and(|rest| rest.starts_with(':'));
            (end, if names { Role::TextKey } else { Role::TextString })
        } else if rest.starts_with(is_word) {
            (rest.find(|c| !is_word(c)).unwrap_or(rest.len()), Role::TextNumber)
        } else {
            let end = rest.find(|c: char| c == '"' || is_word(c)).unwrap_or(rest.len());
            (end, Role::TextMuted)
        };
        let (piece, after) = rest.split_at(end);
        pieces.push((piece, role));
        rest = after;
    }
    pieces
}

/// Numbers, `true`, `false` and `null`.
const fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '-' | '+' | '.')
}

/// Behind the quotation mark that ends a string.
fn string_end(text: &str) -> Option<usize> {
    let mut escaped = false;
    for (at, c) in text.char_indices() {
        match c {
            '"' if !escaped => return Some(at + 1),
            '\\' => escaped = !escaped,
            _ => escaped = false,
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_of_json_are_told_apart_also_where_a_string_goes_on_in_the_next_line() {
        let mut inside = false;
        let pieces = coloured(r#"  "k\"": [-1.5e3, true, "s, 2"],"#, &mut inside);
        let of = |role: Role| -> Vec<&str> {
            let pieces = pieces.iter().filter(|(_, at)| *at == role);
            pieces.map(|(text, _)| *text).collect()
        };
        assert_eq!(of(Role::TextKey), ["\"k\\\"\""]);
        assert_eq!(of(Role::TextNumber), ["-1.5e3", "true"]);
        assert_eq!(of(Role::TextString), ["\"s, 2\""]);
        assert!(!inside);
        assert_eq!(coloured("\"a 1", &mut inside), [("\"a 1", Role::TextString)]);
        assert_eq!(
            coloured("b\",", &mut inside),
            [("b\"", Role::TextString), (",", Role::TextMuted)]
        );
    }
}
