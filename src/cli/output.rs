//! Standard output for people (aligned columns, no borders) and for programs (one JSON document).
//!
//! Every cell passes through `domain::text`: nothing from outside acts on the terminal. A table shows no value of a
//! URL's query, as the audit: whoever needs it asks for the one thing, or for JSON, which are whole.

use std::cell::LazyCell;
use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write as _};
use std::sync::atomic::{AtomicBool, Ordering};

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::Serialize;
use serde_json::{Value, json};

use crate::domain::text;
use crate::domain::url::redact_urls;
use crate::engine::view::Unread;
use crate::wire::{self, json};

use super::args::{Color, Global};
use super::exit::{Exit, Failure};

/// A cell or a sentence is at most this wide.
const LINE_WIDTH_MAX: usize = 4096;
/// No column of text is made narrower than this to fit the terminal.
const CELL_WIDTH_MIN: usize = 12;
/// Between two columns.
const GAP: usize = 2;

/// Where a command prints.
#[derive(Clone, Copy, Debug)]
pub(super) struct Output<'a> {
    json: bool,
    color: bool,
    headings: bool,
    /// Those that were asked for; all of them when none was.
    columns: &'a [String],
    /// Columns of the terminal; none in a pipe, where nothing has to fit.
    room: Option<usize>,
}

impl<'a> Output<'a> {
    pub(super) fn new(global: &'a Global) -> Self {
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
            headings: !global.no_headers,
            columns: &global.columns,
            room: room(),
        }
    }

    pub(super) const fn is_json(self) -> bool {
        self.json
    }

    /// A document for programs, or else a table for people.
    pub(super) fn list<T: Serialize + JsonSchema>(
        self,
        items: &[T],
        columns: &[Column],
        row: impl Fn(&T) -> Vec<String>,
    ) -> Result<(), Failure> {
        let chosen = chosen::<T>(columns, self.columns)?;
        if self.json {
            return Ok(document(&items)?);
        }
        let rows: Vec<Vec<String>> = items.iter().map(|item| cells(&chosen, item, &row(item))).collect();
        Ok(print(self.table(&headed(columns, &chosen), &rows).as_bytes())?)
    }

    fn table(self, columns: &[Column], rows: &[Vec<String>]) -> String {
        let shown = |cell: &String| text::show(&redact_urls(cell), LINE_WIDTH_MAX);
        let headings: Vec<String> = columns.iter().map(|column| column.heading().to_owned()).collect();
        let mut all: Vec<Vec<String>> = rows.iter().map(|row| row.iter().map(shown).collect()).collect();
        if self.headings {
            all.insert(0, headings);
        }
        let mut widths = vec![0; columns.len()];
        for row in &all {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(text::width(cell));
            }
        }
        if let Some(room) = self.room {
            fit(columns, &mut widths, room);
        }
        let lines = all.iter().enumerate().map(|(index, row)| {
            let is_heading = self.headings && index == 0;
            lines_of(columns, &widths, row, self.color && !is_heading)
        });
        lines.collect()
    }

    /// A row of a table whose next rows are not known yet, or its headings; what is wider than its column moves the rest.
    pub(super) fn row_by_row<T: Serialize + JsonSchema>(
        self,
        columns: &[Column],
        widths: &[usize],
        row: Option<(&T, &[String])>,
    ) -> Result<(), Failure> {
        let chosen = chosen::<T>(columns, self.columns)?;
        let headed = headed(columns, &chosen);
        let cells = match row {
            Some((item, row)) => cells(&chosen, item, row),
            None if !self.headings => return Ok(()),
            None => headed.iter().map(|column| column.heading().to_owned()).collect(),
        };
        let cells: Vec<String> = cells
            .iter()
            .map(|cell| text::show(&redact_urls(cell), LINE_WIDTH_MAX))
            .collect();
        let width = |choice: &Choice<'_>| match choice {
            Choice::Column(at) => widths.get(*at).copied().unwrap_or(CELL_WIDTH_MIN),
            Choice::Key(key) => text::width(key).max(CELL_WIDTH_MIN),
        };
        let widths: Vec<usize> = chosen.iter().map(width).collect();
        let cells: Vec<&String> = cells.iter().collect();
        let line = line(&headed, &widths, &cells, self.color && row.is_some());
        Ok(print(line.as_bytes())?)
    }

    /// What is to be known of what is printed, on standard error: a document for programs, or else the sentence.
    pub(super) fn tell(self, line: &str) {
        if self.json {
            say(&String::from_utf8_lossy(&json::compact(&json!({ "note": line }))));
        } else {
            say(line);
        }
    }

    /// The same of what is good to know: told unless `--quiet`.
    pub(super) fn note(self, line: &str) {
        if !is_quiet() {
            self.tell(line);
        }
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
pub(super) enum Column<'a> {
    Text(&'a str),
    Number(&'a str),
}

impl<'a> Column<'a> {
    const fn heading(self) -> &'a str {
        match self {
            Self::Text(heading) | Self::Number(heading) => heading,
        }
    }
}

fn room() -> Option<usize> {
    if !io::stdout().is_terminal() {
        return None;
    }
    let (columns, _) = crossterm::terminal::size().ok()?;
    (columns > 0).then_some(usize::from(columns))
}

/// A column that was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Choice<'a> {
    /// One of the table's, by its place.
    Column(usize),
    /// A key of the documents that `--json` prints.
    Key(&'a str),
}

/// The place of the column with this heading.
fn place(columns: &[Column<'_>], name: &str) -> Option<usize> {
    let name = name.trim().replace('_', " ");
    columns
        .iter()
        .position(|column| column.heading().eq_ignore_ascii_case(&name))
}

/// The columns that were asked for: those of the table, and what else documents of this type have.
fn chosen<'a, T: JsonSchema>(columns: &[Column<'_>], wanted: &'a [String]) -> Result<Vec<Choice<'a>>, Failure> {
    if wanted.is_empty() {
        return Ok((0..columns.len()).map(Choice::Column).collect());
    }
    // For a heading no document has to be described, and what is followed asks for each row.
    let keys = LazyCell::new(keys::<T>);
    let choice = |name: &'a String| {
        let key = name.trim();
        let found = place(columns, name).map(Choice::Column);
        let found = found.or_else(|| keys.iter().any(|known| known == key).then_some(Choice::Key(key)));
        found.ok_or_else(|| {
            let headings = columns.iter().map(|column| column.heading());
            let keys = keys
                .iter()
                .map(String::as_str)
                .filter(|key| place(columns, key).is_none());
            let all: Vec<&str> = headings.chain(keys).collect();
            let why = format!("--columns has no {:?} here; there are {}", shown(key), all.join(", "));
            Failure::new(Exit::Usage, why)
        })
    };
    wanted.iter().map(choice).collect()
}

/// The keys of documents of this type, those among them that are left out where there is nothing to say.
fn keys<T: JsonSchema>() -> Vec<String> {
    let generator = SchemaSettings::default().for_serialize().into_generator();
    let described = generator.into_root_schema_for::<T>().to_value();
    let mut schema = &described;
    // What is shown from another type is printed as that one.
    while let Some(name) = schema["$ref"].as_str().and_then(|path| path.rsplit('/').next()) {
        schema = &described["$defs"][name];
    }
    let properties = schema["properties"].as_object();
    properties.into_iter().flat_map(|all| all.keys().cloned()).collect()
}

/// What stands in the chosen columns of an item.
fn cells<T: Serialize>(chosen: &[Choice<'_>], item: &T, row: &[String]) -> Vec<String> {
    let by_key = chosen.iter().any(|choice| matches!(choice, Choice::Key(_)));
    let document = by_key.then(|| serde_json::to_value(item).unwrap_or_default());
    let cell = |choice: &Choice<'_>| match choice {
        Choice::Column(at) => row.get(*at).cloned().unwrap_or_default(),
        Choice::Key(key) => in_cell(document.as_ref().and_then(|document| document.get(key))),
    };
    chosen.iter().map(cell).collect()
}

/// The headings of what was chosen.
fn headed<'a>(columns: &[Column<'a>], chosen: &[Choice<'a>]) -> Vec<Column<'a>> {
    let column = |choice: &Choice<'a>| match *choice {
        Choice::Column(at) => columns.get(at).copied(),
        Choice::Key(key) => Some(Column::Text(key)),
    };
    chosen.iter().filter_map(column).collect()
}

/// A value of a document as a cell.
fn in_cell(value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) => "-".to_owned(),
        Some(Value::String(text)) => text.clone(),
        Some(other @ (Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_))) => other.to_string(),
    }
}

/// Makes the widest columns of text narrower until the table fits, as far as they go.
fn fit(columns: &[Column], widths: &mut [usize], room: usize) {
    let between = GAP * widths.len().saturating_sub(1);
    while widths.iter().sum::<usize>() + between > room {
        let texts = widths
            .iter_mut()
            .zip(columns)
            .filter(|(width, column)| matches!(column, Column::Text(_)) && **width > CELL_WIDTH_MIN);
        let Some((widest, _)) = texts.max_by_key(|(width, _)| **width) else {
            return;
        };
        *widest -= 1;
    }
}

/// A row: cells that are wider than their column go on below, so that nothing is cut.
fn lines_of(columns: &[Column], widths: &[usize], cells: &[String], color: bool) -> String {
    let parts: Vec<Vec<String>> = cells
        .iter()
        .zip(widths)
        .map(|(cell, width)| folded(cell, *width))
        .collect();
    let height = parts.iter().map(Vec::len).max().unwrap_or(0);
    let empty = String::new();
    let line_at = |at: usize| {
        let cells: Vec<&String> = parts.iter().map(|part| part.get(at).unwrap_or(&empty)).collect();
        line(columns, widths, &cells, color)
    };
    (0..height).map(line_at).collect()
}

/// A cell in pieces of at most this width, at spaces where there are some.
fn folded(cell: &str, width: usize) -> Vec<String> {
    let mut pieces = Vec::new();
    let mut rest = cell;
    while text::width(rest) > width {
        let mut end = 0;
        for (at, character) in rest.char_indices() {
            let next = at + character.len_utf8();
            if text::width(rest.get(..next).unwrap_or_default()) > width {
                break;
            }
            end = next;
        }
        let fitting = rest.get(..end).unwrap_or_default();
        let space = fitting.rfind(' ').filter(|at| *at > 0);
        let at = space.unwrap_or_else(|| end.max(rest.chars().next().map_or(1, char::len_utf8)));
        let (piece, behind) = rest.split_at(at);
        pieces.push(piece.to_owned());
        rest = behind.trim_start_matches(' ');
    }
    pieces.push(rest.to_owned());
    pieces
}

fn line(columns: &[Column], widths: &[usize], cells: &[&String], color: bool) -> String {
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

/// What `--quiet` said: one for the process, as standard error is.
static QUIET: AtomicBool = AtomicBool::new(false);

pub(super) fn set_quiet(quiet: bool) {
    QUIET.store(quiet, Ordering::Relaxed);
}

/// Whether only errors, warnings, plans and questions are told.
pub(super) fn is_quiet() -> bool {
    QUIET.load(Ordering::Relaxed)
}

/// What is good to know: told unless `--quiet`.
pub(super) fn note(line: &str) {
    if !is_quiet() {
        say(line);
    }
}

/// An error, a warning, a plan or a question on standard error.
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

    const PLAIN: Output = Output {
        json: false,
        color: false,
        headings: true,
        columns: &[],
        room: None,
    };

    fn row(cells: &[&str]) -> Vec<String> {
        cells.iter().map(|cell| (*cell).to_owned()).collect()
    }

    #[test]
    fn columns_are_aligned_by_their_width_on_screen_and_nothing_from_outside_acts() {
        let rows = [row(&["a\u{1b}[2J", "5"]), row(&["日本", "100"])];
        let columns = [Column::Text("name"), Column::Number("ready")];
        let expected = "name      ready\na\\x1b[2J      5\n日本        100\n";
        assert_eq!(PLAIN.table(&columns, &rows), expected);
    }

    #[test]
    fn a_colour_stands_beside_the_word_only_when_wanted() {
        let rows = [row(&["parked"])];
        let columns = [Column::Text("state")];
        let coloured = Output { color: true, ..PLAIN };
        assert!(!PLAIN.table(&columns, &rows).contains('\x1b'));
        assert!(coloured.table(&columns, &rows).contains("\x1b[31mparked\x1b[0m"));
    }

    #[test]
    fn a_table_fits_the_terminal_without_losing_a_word_and_is_as_wide_as_it_likes_in_a_pipe() {
        let mend = "grant it: rabbitmqctl set_permissions --vhost shop ops '' '' '.*'";
        let rows = [row(&["rights", "7", mend])];
        let columns = [Column::Text("check"), Column::Number("of"), Column::Text("mend")];
        let narrow = Output {
            room: Some(40),
            headings: false,
            ..PLAIN
        };
        let table = narrow.table(&columns, &rows);
        assert!(
            table.lines().count() > 2 && table.lines().all(|line| text::width(line) <= 40),
            "{table}"
        );
        let words: Vec<&str> = table
            .split_whitespace()
            .filter(|word| !["rights", "7"].contains(word))
            .collect();
        assert_eq!(words.join(" "), mend);
        assert_eq!(PLAIN.table(&columns, &rows).lines().count(), 2);
        let long = row(&["日".repeat(30).as_str(), "1", "x"]);
        let table = narrow.table(&columns, &[long]);
        assert_eq!(table.matches('日').count(), 30, "{table}");
    }

    #[derive(JsonSchema, Serialize)]
    struct Told {
        name: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        last_failed_at: Option<String>,
    }

    #[derive(JsonSchema, Serialize)]
    #[serde(transparent)]
    struct Shown {
        told: Told,
        #[serde(skip)]
        row: String,
    }

    #[test]
    fn what_is_printed_as_another_type_has_its_keys() {
        let shown = Shown {
            told: Told {
                name: "a".to_owned(),
                last_failed_at: None,
            },
            row: "shown".to_owned(),
        };
        assert_eq!(keys::<Shown>(), ["last_failed_at", "name"]);
        let wanted = row(&["row", "name", "last_failed_at"]);
        let choices = chosen::<Shown>(&[Column::Text("row")], &wanted).unwrap();
        assert_eq!(
            cells(&choices, &shown, std::slice::from_ref(&shown.row)),
            ["shown", "a", "-"]
        );
    }

    #[test]
    fn columns_are_chosen_by_name_and_one_that_there_is_not_is_named_with_those_that_there_are() {
        let columns = [Column::Text("name"), Column::Number("dead letters")];
        let chosen = |names: &[String]| {
            let chosen = chosen::<Told>(&columns, names)?;
            Ok::<Vec<String>, Failure>(chosen.iter().map(|choice| format!("{choice:?}")).collect())
        };
        assert_eq!(
            chosen(&row(&["Dead_Letters", "name"])).unwrap(),
            ["Column(1)", "Column(0)"]
        );
        assert_eq!(chosen(&[]).unwrap(), ["Column(0)", "Column(1)"]);
        let by_key = chosen(&row(&["last_failed_at", "name"])).unwrap();
        assert_eq!(by_key, ["Key(\"last_failed_at\")", "Column(0)"], "as --json calls it");
        let error = chosen(&row(&["nam"])).unwrap_err();
        assert_eq!(error.exit(), Exit::Usage);
        assert!(
            error.causes()[0].contains("\"nam\" here; there are name, dead letters, last_failed_at"),
            "{error:?}"
        );
    }
}
