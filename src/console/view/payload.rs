//! A body as an operator can read it: JSON set out, text as lines, anything else as bytes.
//!
//! ```text
//!  {                                   00000000  89 50 4e 47 0d 0a 1a 0a  .PNG....
//!    "order": 18,
//! ```
//!
//! JSON is set out by its own text and coloured by what its parts are, nothing is sorted or rounded. The text as
//! it came, or its bytes, are a key away. Only the lines that are on the screen are made.

use std::fmt::Write as _;

use ratatui::layout::Rect;

use super::super::detail::PayloadForm;
use super::super::theme::Role;
use super::canvas::{Canvas, Piece, row};
use crate::domain::text::show;

/// Larger JSON is shown as the text that it is.
const JSON_BYTES_MAX: usize = 64 * 1024;
/// Bytes of a body that are looked at.
const BYTES_MAX: usize = 256 * 1024;
/// Bytes on a line.
const HEX_BYTES: usize = 16;

/// What a body turned out to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Empty,
    Json,
    Text,
    Bytes,
}

/// The lines of a body from `first` on, at most `lines`, each at most `columns` wide.
pub(super) fn lines(
    body: &[u8],
    columns: usize,
    first: usize,
    lines: usize,
    as_form: PayloadForm,
) -> (Form, Vec<String>) {
    let looked_at = body.get(..BYTES_MAX).unwrap_or(body);
    if columns == 0 || looked_at.is_empty() {
        return (Form::Empty, Vec::new());
    }
    if as_form == PayloadForm::Bytes {
        return (Form::Bytes, bytes(looked_at, columns, first, lines));
    }
    match std::str::from_utf8(looked_at) {
        Ok(text) if as_form == PayloadForm::SetOut && is_json(text) => {
            (Form::Json, take(set_out(text).lines(), columns, first, lines))
        }
        Ok(text) => (Form::Text, take(text.lines(), columns, first, lines)),
        // Cut inside a character, it is text all the same.
        Err(error) if error.error_len().is_none() && looked_at.len() == BYTES_MAX => {
            let text = looked_at
                .get(..error.valid_up_to())
                .and_then(|text| std::str::from_utf8(text).ok())
                .unwrap_or_default();
            (Form::Text, take(text.lines(), columns, first, lines))
        }
        Err(_) => (Form::Bytes, bytes(looked_at, columns, first, lines)),
    }
}

/// Paints lines, JSON with its parts coloured.
pub(super) fn paint(canvas: &mut Canvas<'_>, area: Rect, form: Form, lines: &[String]) {
    let mut inside = false;
    for (at, text) in (0..area.height).zip(lines) {
        if form == Form::Json {
            let pieces = coloured(text, &mut inside);
            canvas.pieces(row(area, at), &pieces);
        } else {
            canvas.text(row(area, at), text, Role::Text);
        }
    }
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

/// How much of the body was looked at, when that is not all of it.
pub(super) const fn cut_at(body: &[u8]) -> Option<usize> {
    if body.len() > BYTES_MAX { Some(BYTES_MAX) } else { None }
}

fn is_json(text: &str) -> bool {
    let begins = text.trim_start().starts_with(['{', '[']);
    begins && text.len() <= JSON_BYTES_MAX && serde_json::from_str::<&serde_json::value::RawValue>(text).is_ok()
}

/// Long lines go on under themselves.
fn take<'a>(text: impl Iterator<Item = &'a str>, columns: usize, first: usize, lines: usize) -> Vec<String> {
    let mut taken: Vec<String> = Vec::new();
    for line in text.skip(first) {
        let room = lines.saturating_sub(taken.len());
        if room == 0 {
            break;
        }
        let shown = show(line, columns.saturating_mul(room));
        let mut rest = shown.as_str();
        loop {
            let (line, after) = rest.split_at(super::canvas::fitting(rest, columns));
            taken.push(line.to_owned());
            rest = after;
            if rest.is_empty() || taken.len() >= lines {
                break;
            }
        }
    }
    taken
}

/// Sets JSON out by its own text: what is inside strings stays as it is.
fn set_out(json: &str) -> String {
    let mut out = String::with_capacity(json.len() * 2);
    let (mut depth, mut inside, mut escaped) = (0_usize, false, false);
    let mut characters = json.chars().peekable();
    let indent = |out: &mut String, depth: usize| {
        out.push('\n');
        out.extend(std::iter::repeat_n("  ", depth));
    };
    while let Some(character) = characters.next() {
        if inside {
            out.push(character);
            inside = escaped || character != '"';
            escaped = !escaped && character == '\\';
            continue;
        }
        match character {
            '"' => {
                inside = true;
                out.push('"');
            }
            '{' | '[' => {
                out.push(character);
                while characters.next_if(char::is_ascii_whitespace).is_some() {}
                if let Some(close) = characters.next_if(|next| matches!(next, '}' | ']')) {
                    out.push(close);
                } else {
                    depth += 1;
                    indent(&mut out, depth);
                }
            }
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                indent(&mut out, depth);
                out.push(character);
            }
            ',' => {
                out.push(',');
                indent(&mut out, depth);
            }
            ':' => out.push_str(": "),
            space if space.is_ascii_whitespace() => {}
            other => out.push(other),
        }
    }
    out
}

fn bytes(body: &[u8], columns: usize, first: usize, lines: usize) -> Vec<String> {
    let chunks = body.chunks(HEX_BYTES).enumerate().skip(first).take(lines);
    let line = chunks.map(|(at, chunk)| {
        let hex: String = chunk.iter().fold(String::new(), |mut hex, byte| {
            let _ = write!(hex, "{byte:02x} ");
            hex
        });
        let text: String = chunk
            .iter()
            .map(|byte| {
                if (0x20..0x7f).contains(byte) {
                    char::from(*byte)
                } else {
                    '.'
                }
            })
            .collect();
        show(&format!("{:08x}  {hex:<48} {text}", at * HEX_BYTES), columns)
    });
    line.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(body: &[u8], form: Form, expected: &[&str]) {
        assert_eq!(
            lines(body, 30, 0, 20, PayloadForm::SetOut),
            (form, expected.iter().map(|line| (*line).to_owned()).collect())
        );
    }

    #[test]
    fn json_is_set_out_and_nothing_in_it_is_changed() {
        check(
            br#"{"z":1.50,"a":[1,{}, []],"s":"a, \"{b\": c"}"#,
            Form::Json,
            &[
                "{",
                "  \"z\": 1.50,",
                "  \"a\": [",
                "    1,",
                "    {},",
                "    []",
                "  ],",
                "  \"s\": \"a, \\\"{b\\\": c\"",
                "}",
            ],
        );
    }

    #[test]
    fn what_is_no_json_is_text_or_bytes() {
        check(b"", Form::Empty, &[]);
        check(b"{not json\n\x1b[2J", Form::Text, &["{not json", "\\x1b[2J"]);
        check(b"\xff\x00A", Form::Bytes, &["00000000  ff 00 41           …"]);
    }

    #[test]
    fn a_long_line_goes_on_under_itself_and_costs_only_what_is_shown() {
        let (form, shown) = lines("x".repeat(100_000).as_bytes(), 10, 0, 3, PayloadForm::SetOut);
        assert_eq!((form, shown.len()), (Form::Text, 3));
        assert!(shown[2].ends_with('…'));
    }

    #[test]
    fn scrolling_goes_by_lines() {
        let (_, shown) = lines(b"a\nb\nc\nd", 10, 2, 1, PayloadForm::SetOut);
        assert_eq!(shown, ["c"]);
    }

    #[test]
    fn json_of_any_depth_is_no_danger() {
        let deep = "[".repeat(30_000);
        assert_eq!(lines(deep.as_bytes(), 10, 0, 1, PayloadForm::SetOut).0, Form::Text);
    }

    #[test]
    fn the_text_as_it_came_and_its_bytes_are_shown_when_asked_for() {
        let json = br#"{"a":1}"#;
        assert_eq!(
            lines(json, 30, 0, 9, PayloadForm::AsIs),
            (Form::Text, vec![r#"{"a":1}"#.to_owned()])
        );
        assert_eq!(lines(json, 80, 0, 9, PayloadForm::Bytes).0, Form::Bytes);
    }

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
