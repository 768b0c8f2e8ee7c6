//! A body as an operator can read it: JSON set out, text as lines, anything else as bytes.
//!
//! ```text
//!  {                                   00000000  89 50 4e 47 0d 0a 1a 0a  .PNG....
//!    "order": 18,
//! ```
//!
//! JSON is set out by its own text, nothing is sorted or rounded. Only the lines that are on the
//! screen are made.

use std::fmt::Write as _;

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
pub(super) fn lines(body: &[u8], columns: usize, first: usize, lines: usize) -> (Form, Vec<String>) {
    let looked_at = body.get(..BYTES_MAX).unwrap_or(body);
    if columns == 0 || looked_at.is_empty() {
        return (Form::Empty, Vec::new());
    }
    match std::str::from_utf8(looked_at) {
        Ok(text) if is_json(text) => (Form::Json, take(set_out(text).lines(), columns, first, lines)),
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
            lines(body, 30, 0, 20),
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
        let (form, shown) = lines("x".repeat(100_000).as_bytes(), 10, 0, 3);
        assert_eq!((form, shown.len()), (Form::Text, 3));
        assert!(shown[2].ends_with('…'));
    }

    #[test]
    fn scrolling_goes_by_lines() {
        let (_, shown) = lines(b"a\nb\nc\nd", 10, 2, 1);
        assert_eq!(shown, ["c"]);
    }

    #[test]
    fn json_of_any_depth_is_no_danger() {
        let deep = "[".repeat(30_000);
        assert_eq!(lines(deep.as_bytes(), 10, 0, 1).0, Form::Text);
    }
}
