//! The text of a statement: written once, as PostgreSQL understands it, and made into SQLite's by rules.
//!
//! 1. Tables have no schema: `redrive.` goes.
//! 2. The clock is the store's: `redrive.store_now()` is one more value, which the session binds.
//! 3. A URL is its own key: `redrive.url_key(u)` is `(u)`, and the column `url_key` is `url`.
//! 4. A list is a JSON document: `= ANY($1)` is `IN (SELECT value FROM json_each($1))`; a list that is selected,
//!    `= ANY (ARRAY(…))`, is `IN (…)`. `unnest($1, $2) AS m (a, b)` is a document of rows with these columns, bound as
//!    `$1`; but where one of them is bytes, which JSON has not, the rows are `VALUES`, some at a time.
//! 5. There is one writer: row locks (`FOR UPDATE` and its kin) go.
//! 6. Values have no types: casts (`::bigint`) go.
//! 7. Text is compared by its bytes: `COLLATE "C"` goes. So does `OFFSET 0`, which is for PostgreSQL's planner.
//! 8. `GREATEST` is `max` and `LEAST` is `min`, which are NULL where one of the values is; `strpos` is `instr`; `ctid`
//!    is `rowid`. The next value of a sequence is the one that the session drew,
//!    and a random name is made of what SQLite has.
//!
//! Where a rule would not do, both texts stand side by side ([`Statement::apart`]), with the reason.

use std::sync::OnceLock;

/// A statement. It is prepared once for each connection, and its text is made once.
pub(in crate::store) struct Statement {
    text: &'static str,
    /// What SQLite's is made of.
    other: &'static str,
    sqlite: OnceLock<SqliteText>,
}

/// Rows of one statement, where they are `VALUES`: a statement costs more than the rows that it writes.
pub(in crate::store) const ROWS_AT_ONCE: usize = 50;

/// A text of SQLite.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::store) struct SqliteText {
    pub(in crate::store) text: &'static str,
    /// Whether the clock is bound behind the other values.
    pub(in crate::store) asks_clock: bool,
    /// The text for [`ROWS_AT_ONCE`], where `text` is for one row: bound behind the clock, which is then always bound.
    pub(in crate::store) of_rows: Option<&'static str>,
}

impl Statement {
    pub(in crate::store) const fn new(text: &'static str) -> Self {
        Self::apart(text, text)
    }

    /// A statement that the databases are asked in different words.
    pub(in crate::store) const fn apart(postgres: &'static str, sqlite: &'static str) -> Self {
        Self {
            text: postgres,
            other: sqlite,
            sqlite: OnceLock::new(),
        }
    }

    pub(in crate::store) const fn postgres(&self) -> &'static str {
        self.text
    }

    pub(in crate::store) fn sqlite(&self) -> SqliteText {
        *self.sqlite.get_or_init(|| {
            // Statements are few, and as long-lived as the program.
            let made = |rows| &*Box::leak(sqlite_text(self.other, rows).into_boxed_str());
            SqliteText {
                text: made(1),
                asks_clock: self.other.contains(CLOCK),
                of_rows: self.other.contains(BYTES).then(|| made(ROWS_AT_ONCE)),
            }
        })
    }
}

const CLOCK: &str = "redrive.store_now()";
const BYTES: &str = "bytea[]";
const LOCKS: [&str; 4] = [" FOR UPDATE", " FOR SHARE", " FOR KEY SHARE", " SKIP LOCKED"];
const WORDS: [(&str, &str); 11] = [
    ("gen_random_uuid()", "lower(hex(randomblob(16)))"),
    ("nextval('redrive.event_token')", "(SELECT value FROM event_token)"),
    (" OFFSET 0", ""),
    ("redrive.url_key(", "("),
    ("redrive.", ""),
    ("url_key", "url"),
    ("GREATEST(", "max("),
    ("LEAST(", "min("),
    ("strpos(", "instr("),
    ("ctid", "rowid"),
    (" COLLATE \"C\"", ""),
];

/// A text that was made for one call, as SQLite understands it.
pub(super) fn made_for_sqlite(text: &str) -> String {
    sqlite_text(text, 1)
}

/// The text as SQLite understands it, for so many rows where they are `VALUES`.
fn sqlite_text(text: &str, rows: usize) -> String {
    let clock = values_in(text) + 1;
    let mut made = text.replace(CLOCK, &format!("${clock}"));
    for (postgres, sqlite) in WORDS {
        made = made.replace(postgres, sqlite);
    }
    let made = lists(&without_casts(&made));
    let made = if text.contains(BYTES) {
        unnested(&made, |_, columns| row_values(columns, clock + 1, rows))
    } else {
        unnested(&made, document)
    };
    without_locks(&made)
}

/// The greatest number of a value.
fn values_in(text: &str) -> usize {
    let numbers = text.split('$').skip(1).filter_map(|rest| {
        let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        rest[..end].parse().ok()
    });
    numbers.max().unwrap_or(0)
}

fn without_casts(text: &str) -> String {
    let mut parts = text.split("::");
    let mut made = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let rest = part.trim_start_matches(|c: char| c.is_ascii_alphanumeric());
        made.push_str(rest.strip_prefix("[]").unwrap_or(rest));
    }
    made
}

fn without_locks(text: &str) -> String {
    let mut made = text.to_owned();
    for lock in LOCKS {
        while let Some(at) = made.find(lock) {
            let rest = &made[at + lock.len()..];
            // `OF` names the table whose rows are locked.
            let named = rest.strip_prefix(" OF ").map_or(0, |name| {
                let end = name.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(name.len());
                " OF ".len() + end
            });
            made.replace_range(at..at + lock.len() + named, "");
        }
    }
    made
}

fn lists(text: &str) -> String {
    let mut made = text.to_owned();
    for (any, close) in [("= ANY (ARRAY(", "))"), ("= ANY(", ")")] {
        while let Some(at) = made.find(any) {
            let begin = at + any.len();
            let end = begin + closing(&made[begin..]);
            let inside = &made[begin..end];
            let list = if inside.starts_with('$') {
                format!("IN (SELECT value FROM json_each({inside}))")
            } else {
                format!("IN ({inside})")
            };
            made.replace_range(at..end + close.len(), &list);
        }
    }
    made
}

/// What is unnested is made by `rows` of the values and the columns.
fn unnested(text: &str, rows: impl Fn(&[&str], &[&str]) -> String) -> String {
    let mut made = text.to_owned();
    while let Some(at) = made.find("unnest(") {
        let begin = at + "unnest(".len();
        let arrays = &made[begin..begin + closing(&made[begin..])];
        let rest = &made[begin + arrays.len() + 1..];
        let Some((name, rest)) = rest.strip_prefix(" AS ").and_then(|rest| rest.split_once(" (")) else {
            break;
        };
        let columns = &rest[..closing(rest)];
        let end = made.len() - rest.len() + columns.len() + 1;
        let (arrays, columns): (Vec<&str>, Vec<&str>) = (arrays.split(", ").collect(), columns.split(", ").collect());
        let rows = format!("({}) AS {name}", rows(&arrays, &columns));
        made.replace_range(at..end, &rows);
    }
    made
}

/// A JSON document, which is the first value: of rows, or of the values of one column.
fn document(values: &[&str], columns: &[&str]) -> String {
    let value = |place: usize| match values {
        [_] => "value".to_owned(),
        _ => format!("value ->> {place}"),
    };
    let columns = columns.iter().enumerate();
    let columns: Vec<String> = columns
        .map(|(place, column)| format!("{} AS {column}", value(place)))
        .collect();
    // Where it is joined, the document is read once and first (`LIMIT` keeps it apart), and the table is searched.
    let apart = if values.len() > 1 { " LIMIT -1" } else { "" };
    format!("SELECT {} FROM json_each({}){apart}", columns.join(", "), values[0])
}

/// The values of rows, the first of which is the one with the number `first`.
fn row_values(columns: &[&str], first: usize, rows: usize) -> String {
    let row = |row: usize| {
        let begin = first + row * columns.len();
        let values: Vec<String> = (begin..begin + columns.len())
            .map(|number| format!("${number}"))
            .collect();
        format!("({})", values.join(", "))
    };
    let rows: Vec<String> = (0..rows).map(row).collect();
    let named = columns
        .iter()
        .zip(1..)
        .map(|(column, number)| format!("column{number} AS {column}"));
    format!(
        "SELECT {} FROM (VALUES {})",
        named.collect::<Vec<_>>().join(", "),
        rows.join(", ")
    )
}

/// Where the bracket is closed that is open before `text`.
fn closing(text: &str) -> usize {
    let mut open = 1;
    for (at, c) in text.char_indices() {
        match c {
            '(' => open += 1,
            ')' => open -= 1,
            _ => {}
        }
        if open == 0 {
            return at;
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(text: &'static str) -> &'static str {
        Statement::new(text).sqlite().text
    }

    #[test]
    fn the_clock_is_bound_behind_the_other_values() {
        let text = "UPDATE redrive.runs SET at = redrive.store_now(), until = redrive.store_now() + $2 WHERE id = $1";
        let expected = "UPDATE runs SET at = $3, until = $3 + $2 WHERE id = $1";
        let found = Statement::new(text).sqlite();
        assert_eq!((found.text, found.asks_clock), (expected, true));
        assert!(
            !Statement::new("SELECT 1 FROM redrive.runs WHERE id = $1")
                .sqlite()
                .asks_clock
        );
    }

    #[test]
    fn urls_are_their_own_keys() {
        let text = "SELECT 1 FROM redrive.endpoints e WHERE e.url_key = redrive.url_key($1)";
        assert_eq!(made(text), "SELECT 1 FROM endpoints e WHERE e.url = ($1)");
    }

    #[test]
    fn lists_are_documents_or_selections() {
        assert_eq!(
            made("DELETE FROM redrive.saves WHERE id = ANY($12) AND place = ANY($2::bigint[])"),
            "DELETE FROM saves WHERE id IN (SELECT value FROM json_each($12)) \
             AND place IN (SELECT value FROM json_each($2))"
        );
        assert_eq!(
            made("DELETE FROM redrive.saves WHERE id = ANY (ARRAY(SELECT max(id) FROM redrive.saves)) AND TRUE"),
            "DELETE FROM saves WHERE id IN (SELECT max(id) FROM saves) AND TRUE"
        );
    }

    #[test]
    fn arrays_are_a_document_of_rows() {
        assert_eq!(
            made("SELECT a, b FROM unnest($1::bigint[], $2::text[]) AS m (a, b) WHERE a > $3"),
            "SELECT a, b FROM (SELECT value ->> 0 AS a, value ->> 1 AS b FROM json_each($1) LIMIT -1) AS m WHERE a > $3"
        );
        assert_eq!(
            made("SELECT url FROM unnest($1::text[]) AS asked (url), redrive.numbers"),
            "SELECT url FROM (SELECT value AS url FROM json_each($1)) AS asked, numbers"
        );
    }

    #[test]
    fn rows_with_bytes_are_values() {
        let text = "INSERT INTO redrive.saves SELECT $1, a, b FROM unnest($2::bigint[], $3::bytea[]) AS m (a, b)";
        let found = Statement::new(text).sqlite();
        assert_eq!(
            found.text,
            "INSERT INTO saves SELECT $1, a, b FROM (SELECT column1 AS a, column2 AS b FROM (VALUES ($5, $6))) AS m"
        );
        assert!(
            found
                .of_rows
                .is_some_and(|text| text.contains("(VALUES ($5, $6), ($7, $8), "))
        );
    }

    #[test]
    fn locks_and_casts_go() {
        assert_eq!(
            made("SELECT 1 FROM redrive.events AS e WHERE $1::text IS NULL LIMIT 1 FOR UPDATE OF e SKIP LOCKED"),
            "SELECT 1 FROM events AS e WHERE $1 IS NULL LIMIT 1"
        );
        assert_eq!(
            made("(SELECT sum(x)::bigint FROM redrive.saves FOR KEY SHARE)"),
            "(SELECT sum(x) FROM saves)"
        );
    }
}
