//! The table of `docs/reliability.md` is made of `docs/reliability.json`, which `tests/reliability/run --publish` writes;
//! what the README says of it is what stands there.

use std::fs;

use serde_json::Value;

use super::page;
use crate::source::{repository_files, root};

#[path = "../../reliability/table.rs"]
mod table;

const PAGE: &str = "docs/reliability.md";
const ROWS: &str = "docs/reliability.json";
const BEGIN: &str = "<!-- rows -->\n";
const END: &str = "<!-- end of rows -->";
const CURVE_BEGIN: &str = "<!-- hours -->\n";
const CURVE_END: &str = "<!-- end of hours -->";
const WRITE_VARIABLE: &str = "REDRIVE_DOCUMENTS";

fn rows() -> Value {
    let text = fs::read_to_string(root().join(ROWS)).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// The page with `table` between two marks.
fn between(text: &str, (begin, end): (&str, &str), table: &str) -> String {
    let (before, rest) = text.split_once(begin).expect("the table's begin");
    let (_, after) = rest.split_once(end).expect("the table's end");
    format!("{before}{begin}{table}{end}{after}")
}

fn with_tables(text: &str) -> String {
    let rows = rows();
    let text = between(text, (BEGIN, END), &table::table(&rows));
    between(&text, (CURVE_BEGIN, CURVE_END), &table::curve(&rows))
}

#[test]
fn the_table_of_reliability_is_what_was_measured() {
    let path = root().join(PAGE);
    let text = fs::read_to_string(&path).unwrap();
    let made = with_tables(&text);
    if std::env::var(WRITE_VARIABLE).is_ok_and(|value| value == "write") {
        fs::write(&path, &made).unwrap();
        return;
    }
    assert!(
        text == made,
        "{PAGE} is not what {ROWS} says: run this test with {WRITE_VARIABLE}=write"
    );
}

#[test]
fn the_readme_says_of_reliability_what_was_measured() {
    let files = repository_files();
    let said = table::in_one_line(&rows());
    assert!(
        page(&files, "README.md").text.contains(&said),
        "README.md does not say: {said}"
    );
}
