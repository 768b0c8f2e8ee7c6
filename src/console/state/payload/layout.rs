//! A body as lines of the screen: JSON set out, text as lines, anything else as bytes.
//!
//! JSON is set out by its own text: nothing is sorted or rounded. Where it is nested deeply the indentation stops, so
//! that what is set out is never much larger than what came.

use std::fmt::Write as _;

use unicode_width::UnicodeWidthChar as _;

use super::Paper;
use crate::console::state::detail::PayloadForm;
use crate::domain::text::show;
use crate::wire::set_out::{Quotes, set_out};

/// Bytes on a line.
const HEX_BYTES: usize = 16;
/// JSON that would be longer than this is shown as the text that it is.
const SET_OUT_BYTES_MAX: usize = 4 * 1024 * 1024;

/// What a body turned out to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Nothing.
    Empty,
    /// JSON, set out.
    Json,
    /// UTF-8.
    Text,
    /// Anything else.
    Bytes,
}

impl Kind {
    /// In a word.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Empty => "empty",
            Self::Json => "JSON",
            Self::Text => "text",
            Self::Bytes => "bytes",
        }
    }
}

/// A line of the screen: a part of the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line {
    /// Where it begins.
    pub from: usize,
    /// Where it ends.
    pub to: usize,
    /// Whether it begins inside a string of JSON.
    pub inside: bool,
}

/// A text with its lines.
pub(super) struct LaidOut {
    pub(super) kind: Kind,
    pub(super) text: String,
    pub(super) lines: Vec<Line>,
}

/// Lays a body out; `is_cut`: more of it was there.
pub(super) fn lay_out(body: &[u8], is_cut: bool, paper: Paper) -> LaidOut {
    let mut sheet = Sheet::new(paper);
    let kind = match readable(body, is_cut) {
        _ if body.is_empty() => Kind::Empty,
        Some(text) if paper.form != PayloadForm::Bytes => {
            let is_set_out = paper.form == PayloadForm::SetOut;
            if let Some(json) = is_set_out.then(|| set_out(text, SET_OUT_BYTES_MAX)).flatten() {
                sheet.is_json = true;
                json.lines().for_each(|line| sheet.push(line));
                Kind::Json
            } else {
                text.lines().for_each(|line| sheet.push(line));
                Kind::Text
            }
        }
        Some(_) | None => {
            sheet.wraps = false;
            for (at, bytes) in body.chunks(HEX_BYTES).enumerate() {
                sheet.push(&hex(at, bytes));
            }
            Kind::Bytes
        }
    };
    LaidOut {
        kind,
        text: sheet.text,
        lines: sheet.lines,
    }
}

/// The text that a body is. Cut inside a character, it is text all the same.
fn readable(body: &[u8], is_cut: bool) -> Option<&str> {
    match std::str::from_utf8(body) {
        Ok(text) => Some(text),
        Err(error) if is_cut && error.error_len().is_none() => {
            std::str::from_utf8(body.get(..error.valid_up_to())?).ok()
        }
        Err(_) => None,
    }
}

struct Sheet {
    columns: usize,
    wraps: bool,
    is_json: bool,
    text: String,
    lines: Vec<Line>,
}

impl Sheet {
    const fn new(paper: Paper) -> Self {
        Self {
            columns: if paper.columns == 0 { 1 } else { paper.columns },
            wraps: paper.wrap,
            is_json: false,
            text: String::new(),
            lines: Vec::new(),
        }
    }

    /// A line of the body: one of the screen, or as many as it needs.
    fn push(&mut self, line: &str) {
        let shown = show(line, usize::MAX / 64);
        let start = self.text.len();
        self.text.push_str(&shown);
        let (mut from, mut taken) = (start, 0);
        let mut quotes = Quotes::default();
        let mut inside = false;
        for (at, character) in shown.char_indices() {
            let columns = character.width().unwrap_or(0);
            if self.wraps && taken + columns > self.columns && taken > 0 {
                let to = start + at;
                self.lines.push(Line { from, to, inside });
                (from, taken, inside) = (to, 0, quotes.is_inside() && self.is_json);
            }
            taken += columns;
            quotes.pass(character);
        }
        let to = self.text.len();
        self.lines.push(Line { from, to, inside });
        self.text.push('\n');
    }
}

fn hex(at: usize, bytes: &[u8]) -> String {
    let hex: String = bytes.iter().fold(String::new(), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x} ");
        hex
    });
    let shown = |byte: &u8| {
        if (0x20..0x7f).contains(byte) {
            char::from(*byte)
        } else {
            '.'
        }
    };
    let text: String = bytes.iter().map(shown).collect();
    format!("{:08x}  {hex:<48} {text}", at * HEX_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn paper(columns: usize, form: PayloadForm, wrap: bool) -> Paper {
        Paper { form, columns, wrap }
    }

    fn laid(body: &[u8], columns: usize, form: PayloadForm) -> (Kind, Vec<String>) {
        let out = lay_out(body, false, paper(columns, form, true));
        let lines = out.lines.iter().map(|line| out.text[line.from..line.to].to_owned());
        (out.kind, lines.collect())
    }

    #[track_caller]
    fn check(body: &[u8], kind: Kind, expected: &[&str]) {
        let expected: Vec<String> = expected.iter().map(|line| (*line).to_owned()).collect();
        assert_eq!(laid(body, 80, PayloadForm::SetOut), (kind, expected));
    }

    #[test]
    fn json_is_set_out_and_nothing_in_it_is_changed() {
        check(
            br#"{"z":1.50,"a":[1,{}, []],"s":"a, \"{b\": c"}"#,
            Kind::Json,
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
        check(b"", Kind::Empty, &[]);
        check(b"{not json\n\x1b[2J", Kind::Text, &["{not json", "\\x1b[2J"]);
        check(
            b"\xff\x00A",
            Kind::Bytes,
            &["00000000  ff 00 41                                         ..A"],
        );
    }

    #[test]
    fn a_long_line_goes_on_under_itself_to_its_end() {
        let (kind, lines) = laid("漢字x".repeat(20).as_bytes(), 7, PayloadForm::SetOut);
        assert_eq!((kind, lines.concat()), (Kind::Text, "漢字x".repeat(20)));
        assert!(lines.iter().all(|line| crate::domain::text::width(line) <= 7));
        let out = lay_out(
            "x".repeat(1_000).as_bytes(),
            false,
            paper(10, PayloadForm::SetOut, false),
        );
        assert_eq!(out.lines.len(), 1);
    }

    #[test]
    fn json_of_any_depth_is_no_danger() {
        let deep = "[".repeat(30_000);
        assert_eq!(laid(deep.as_bytes(), 10, PayloadForm::SetOut).0, Kind::Text);
        let closed = format!("{deep}{}", "]".repeat(30_000));
        let out = lay_out(closed.as_bytes(), false, paper(80, PayloadForm::SetOut, true));
        assert!(out.text.len() <= 2 * SET_OUT_BYTES_MAX, "{} bytes", out.text.len());
    }

    #[test]
    fn the_text_as_it_came_and_its_bytes_are_shown_when_asked_for() {
        let json = br#"{"a":1}"#;
        assert_eq!(
            laid(json, 30, PayloadForm::AsIs),
            (Kind::Text, vec![r#"{"a":1}"#.to_owned()])
        );
        assert_eq!(laid(json, 80, PayloadForm::Bytes).0, Kind::Bytes);
    }

    #[test]
    fn a_line_knows_that_it_begins_inside_a_string() {
        let out = lay_out(
            br#"["0123456789 \" 0123",1]"#,
            false,
            paper(8, PayloadForm::SetOut, true),
        );
        let inside: Vec<(&str, bool)> = out
            .lines
            .iter()
            .map(|line| (&out.text[line.from..line.to], line.inside))
            .collect();
        assert_eq!(
            inside,
            [
                ("[", false),
                ("  \"01234", false),
                ("56789 \\\"", true),
                (" 0123\",", true),
                ("  1", false),
                ("]", false)
            ]
        );
    }
}
