//! A list as a document for other programs: JSON, or CSV with the same columns.
//!
//! What is exported is what is shown: the rows that the filter leaves, in their order, without the values in the
//! queries of URLs. A cell of the CSV that a spreadsheet would take for a formula begins with an apostrophe.

use std::fmt::Debug;
use std::sync::Arc;

use serde_json::{Map, Value};

use crate::console::table::Row;
use crate::domain::filter::FieldValue;
use crate::domain::text::csv_field;
use crate::domain::time::Timestamp;
use crate::domain::url::redact_urls;
use crate::wire;

/// What somebody wrote; what is secret in it was hidden by the masks, where nobody revealed it.
const WRITTEN: [&str; 3] = ["body", "payload", "response"];

/// How it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// An array of objects.
    Json,
    /// A line of names, then a line each.
    Csv,
}

impl Form {
    /// What the name of a file ends with.
    #[must_use]
    pub const fn suffix(self) -> &'static str {
        match self {
            Self::Json => "json",
            Self::Csv => "csv",
        }
    }
}

/// One thing: its names and values, in order.
pub type Record = Map<String, Value>;

/// Things that can be written.
pub trait Records: Debug + Send + Sync {
    /// Each of them.
    fn records(&self) -> Vec<Record>;
}

/// The rows of a list as they are shown.
#[derive(Debug)]
pub struct Shown<R: Row> {
    /// The rows.
    pub rows: Arc<Vec<Arc<R>>>,
    /// Which, in order.
    pub order: Arc<Vec<u32>>,
    /// The time for ages.
    pub now: Timestamp,
}

impl<R: Row> Records for Shown<R> {
    fn records(&self) -> Vec<Record> {
        let rows = self
            .order
            .iter()
            .filter_map(|index| self.rows.get(usize::try_from(*index).ok()?));
        rows.filter(|row| !row.is_sum())
            .map(|row| row.record(self.now))
            .collect()
    }
}

/// One thing alone.
#[derive(Debug)]
pub struct One(pub Record);

impl Records for One {
    fn records(&self) -> Vec<Record> {
        vec![self.0.clone()]
    }
}

/// What the fields of a row say, under their names.
#[must_use]
pub fn by_fields<R: Row>(row: &R, now: Timestamp) -> Record {
    let value = |name: &str| match row.field(name, now) {
        FieldValue::Missing | FieldValue::TooLarge(_) => Value::Null,
        FieldValue::Text(text) | FieldValue::Numeral(text) => Value::from(text.into_owned()),
        FieldValue::Words(words) => words.first().map_or(Value::Null, |word| Value::from(*word)),
        FieldValue::Number(number) => number_of(number),
        FieldValue::Duration(span) => Value::from(span.as_secs()),
        FieldValue::Bool(flag) => Value::from(flag),
        FieldValue::Time(at) => wire::time(at).as_deref().map_or(Value::Null, Value::from),
    };
    let fields = R::FIELDS.iter();
    fields.map(|field| (field.name.to_owned(), value(field.name))).collect()
}

/// What serialises to an object.
#[must_use]
pub fn of(shape: &impl serde::Serialize) -> Record {
    match serde_json::to_value(shape) {
        Ok(Value::Object(record)) => record,
        Ok(_) | Err(_) => Record::new(),
    }
}

#[expect(clippy::cast_possible_truncation, reason = "a whole number of that size is exact")]
fn number_of(number: f64) -> Value {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    if number.fract() == 0.0 && number.abs() <= EXACT {
        Value::from(number as i64)
    } else {
        Value::from(number)
    }
}

/// The document.
#[must_use]
pub fn write(records: &dyn Records, form: Form) -> String {
    let mut records = records.records();
    records.iter_mut().for_each(without_queries);
    match form {
        Form::Json => {
            let mut text = serde_json::to_string_pretty(&records).unwrap_or_default();
            text.push('\n');
            text
        }
        Form::Csv => csv(&records),
    }
}

/// Hides each value in the query of a URL, as the screen does.
fn without_queries(record: &mut Record) {
    let others = record.iter_mut().filter(|(name, _)| !WRITTEN.contains(&name.as_str()));
    others.for_each(|(_, value)| hide_queries(value));
}

fn hide_queries(value: &mut Value) {
    match value {
        Value::String(text) => *text = redact_urls(text).into_owned(),
        Value::Array(items) => items.iter_mut().for_each(hide_queries),
        Value::Object(record) => without_queries(record),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn csv(records: &[Record]) -> String {
    let mut names: Vec<&String> = Vec::new();
    for name in records.iter().flat_map(Map::keys) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let mut text = line(names.iter().map(|name| csv_field(name)));
    for record in records {
        text.push_str(&line(names.iter().map(|name| cell(record.get(*name)))));
    }
    text
}

fn line(cells: impl Iterator<Item = String>) -> String {
    let quoted: Vec<String> = cells.collect();
    format!("{}\r\n", quoted.join(","))
}

fn cell(value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) => String::new(),
        // A number is none, also where it is negative.
        Some(Value::Number(number)) => number.to_string(),
        Some(Value::String(text)) => csv_field(text),
        Some(other) => csv_field(&other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn record(value: Value) -> Record {
        let Value::Object(record) = value else {
            panic!("{value}")
        };
        record
    }

    #[derive(Debug)]
    struct Some2(Vec<Record>);

    impl Records for Some2 {
        fn records(&self) -> Vec<Record> {
            self.0.clone()
        }
    }

    #[test]
    fn csv_has_every_name_once_and_quotes_what_would_break_it() {
        let records = Some2(vec![
            record(json!({"name": "a,b", "depth": 3, "why": null})),
            record(json!({"name": "say \"hi\"\nnow", "extra": [1]})),
        ]);
        assert_eq!(
            write(&records, Form::Csv),
            "depth,name,why,extra\r\n3,\"a,b\",,\r\n,\"say \"\"hi\"\"\nnow\",,[1]\r\n"
        );
    }

    #[test]
    fn a_spreadsheet_takes_no_cell_for_a_formula() {
        let records = One(record(json!({"error": "=HYPERLINK(\"x\")", "depth": -1})));
        assert_eq!(
            write(&records, Form::Csv),
            "depth,error\r\n-1,\"'=HYPERLINK(\"\"x\"\")\"\r\n"
        );
    }

    #[test]
    fn no_value_of_a_query_is_written_but_what_somebody_wrote_is_written_as_it_is() {
        let url = "https://a.example/hook?key=S3CRET";
        let records = One(record(json!({
            "url": url,
            "error": format!("POST {url} failed"),
            "attempts_made": [{"url": url, "response": "see https://b.example/?page=2"}],
            "body": "see https://b.example/?page=2",
        })));
        for form in [Form::Json, Form::Csv] {
            let text = write(&records, form);
            assert!(!text.contains("S3CRET") && text.contains("hook?key=***"), "{text}");
            assert_eq!(text.matches("?page=2").count(), 2, "{text}");
        }
    }

    #[test]
    fn json_is_one_array() {
        let text = write(&One(record(json!({"depth": 3}))), Form::Json);
        assert_eq!(text, "[\n  {\n    \"depth\": 3\n  }\n]\n");
    }
}
