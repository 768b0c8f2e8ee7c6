//! Standard output for people (aligned columns, no borders) and for programs (one JSON document).
//!
//! Every cell passes through `domain::text`: nothing from outside acts on the terminal. A table shows no value of a
//! URL's query, as the audit: whoever needs it asks for the one thing, or for JSON, which are whole.

use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write as _};

use serde::Serialize;
use serde_json::json;

use crate::domain::text;
use crate::domain::url::redact_urls;
use crate::engine::view::Unread;
use crate::wire::{self, json};

use super::args::{Color, Global};

/// A cell is at most this wide.
const CELL_WIDTH_MAX: usize = 96;
/// A sentence is at most this wide.
const LINE_WIDTH_MAX: usize = 4096;

/// Where a command prints.
#[derive(Clone, Copy, Debug)]
pub(super) struct Output {
    json: bool,
    color: bool,
}

impl Output {
    pub(super) fn new(global: &Global) -> Self {
        let color = match global.color {
            Color::Always => true,
            Color::Never => false,
            Color::Auto => {
                let wanted = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
                wanted && std::env::var_os("TERM").is_none_or(|term| term != "dumb") && io::stdout().is_terminal()
            }
        };
        Self {
            json: global.json,
            color,
        }
    }

    pub(super) const fn is_json(self) -> bool {
        self.json
    }

    /// A document for programs, or else a table for people.
    pub(super) fn list<T: Serialize>(
        self,
        items: &[T],
        columns: &[Column],
        row: impl Fn(&T) -> Vec<String>,
    ) -> io::Result<()> {
        if self.json {
            return document(&items);
        }
        let rows: Vec<Vec<String>> = items.iter().map(row).collect();
        print(table(columns, &rows, self.color).as_bytes())
    }

    /// What an answer lacks, on standard error: a document for programs, or else a sentence each.
    pub(super) fn problems(self, problems: &[Unread]) {
        if problems.is_empty() {
            return;
        }
        if self.json {
            let shapes: Vec<wire::Unread> = problems.iter().map(wire::Unread::from).collect();
            say(&String::from_utf8_lossy(&json::compact(&json!({ "problems": shapes }))));
            return;
        }
        for problem in problems {
            let source = problem.source.name();
            say(&text::show(
                &format!(
                    "{source} could not be read, so rows or numbers may be missing: {}",
                    problem.reason
                ),
                LINE_WIDTH_MAX,
            ));
        }
    }

    /// A document for programs, or else names and values for people; what is not known is left out.
    pub(super) fn facts<T: Serialize>(self, shape: &T, facts: &[(&str, Option<String>)]) -> io::Result<()> {
        if self.json {
            return document(shape);
        }
        let width = facts.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
        let mut lines = String::new();
        for (name, value) in facts {
            if let Some(value) = value {
                let value = paint(&text::show(value, LINE_WIDTH_MAX), self.color);
                let _ = writeln!(lines, "{name:width$}  {value}");
            }
        }
        print(lines.as_bytes())
    }
}

/// Text on standard output that is ours, or was made fit for it.
pub(super) fn print(text: &[u8]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text)?;
    out.flush()
}

/// One JSON document on standard output.
pub(super) fn document(shape: &impl Serialize) -> io::Result<()> {
    let mut text = json::pretty(shape);
    text.push(b'\n');
    print(&text)
}

/// A column: its heading, and whether it holds numbers.
#[derive(Clone, Copy, Debug)]
pub(super) enum Column {
    Text(&'static str),
    Number(&'static str),
}

impl Column {
    const fn heading(self) -> &'static str {
        match self {
            Self::Text(heading) | Self::Number(heading) => heading,
        }
    }
}

fn table(columns: &[Column], rows: &[Vec<String>], color: bool) -> String {
    let mut widths: Vec<usize> = columns.iter().map(|column| column.heading().len()).collect();
    let shown: Vec<Vec<String>> = rows
        .iter()
        .map(|row| {
            row.iter()
                .map(|cell| text::show(&redact_urls(cell), CELL_WIDTH_MAX))
                .collect()
        })
        .collect();
    for row in &shown {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(text::width(cell));
        }
    }
    let headings: Vec<String> = columns.iter().map(|column| column.heading().to_owned()).collect();
    let mut lines = line(columns, &widths, &headings, false);
    for row in &shown {
        lines.push_str(&line(columns, &widths, row, color));
    }
    lines
}

fn line(columns: &[Column], widths: &[usize], cells: &[String], color: bool) -> String {
    let mut line = String::new();
    for ((column, width), cell) in columns.iter().zip(widths).zip(cells) {
        let padding = " ".repeat(width.saturating_sub(text::width(cell)));
        let cell = paint(cell, color);
        match column {
            Column::Text(_) => {
                let _ = write!(line, "{cell}{padding}  ");
            }
            Column::Number(_) => {
                let _ = write!(line, "{padding}{cell}  ");
            }
        }
    }
    line.truncate(line.trim_end().len());
    line.push('\n');
    line
}

/// States carry a colour beside their word, never instead of it.
fn paint(cell: &str, color: bool) -> String {
    let code = match cell {
        "available" | "delivering" | "delivered" | "fine" => "32",
        "waiting_retry" | "unavailable" | "endpoint_unavailable" | "rate_limited" | "paused" | "warning" => "33",
        "parked" | "disabled" | "endpoint_disabled" | "refused" | "quarantined" | "unowned" | "broker_blocked"
        | "broken" | "failed" | "gone" => "31",
        _ => return cell.to_owned(),
    };
    if color {
        format!("\x1b[{code}m{cell}\x1b[0m")
    } else {
        cell.to_owned()
    }
}

/// A message or a prompt on standard error.
pub(super) fn say(line: &str) {
    // Nothing is left to tell it to when standard error is gone.
    let _ = writeln!(io::stderr().lock(), "{line}");
}

/// Text from outside, fit to stand in a message.
pub(super) fn shown(text: &str) -> String {
    text::show(text, LINE_WIDTH_MAX)
}

/// A number, or what stands for an unknown one.
pub(super) fn number<N: std::fmt::Display>(number: Option<N>) -> String {
    number.map_or_else(|| "?".to_owned(), |number| number.to_string())
}

/// Text, or a dash where there is none.
pub(super) fn or_dash(text: Option<&str>) -> String {
    text.unwrap_or("-").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_by_their_width_on_screen_and_nothing_from_outside_acts() {
        let rows = vec![
            vec!["a\u{1b}[2J".to_owned(), "5".to_owned()],
            vec!["日本".to_owned(), "100".to_owned()],
        ];
        let columns = [Column::Text("name"), Column::Number("ready")];
        let expected = "name      ready\na\\x1b[2J      5\n日本        100\n";
        assert_eq!(table(&columns, &rows, false), expected);
    }

    #[test]
    fn a_colour_stands_beside_the_word_only_when_wanted() {
        let rows = vec![vec!["parked".to_owned()]];
        let columns = [Column::Text("state")];
        assert!(!table(&columns, &rows, false).contains('\x1b'));
        assert!(table(&columns, &rows, true).contains("\x1b[31mparked\x1b[0m"));
    }
}
