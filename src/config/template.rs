//! What a configuration may have, for people and for their editors: made from the keys as they are declared.

use std::fmt::Write as _;

use serde::ser::{Serialize, SerializeMap as _, Serializer};

use crate::domain::value::Value;

use super::alerts::AlertKeys;
use super::api::ApiConfig;
use super::delivery::{DeliveryConfig, EndpointConfig};
use super::events::{ConsumerConfig, EventsConfig, HandlerKeys};
use super::keys::{Keys, Row};
use super::kind::{table_schema, table_value, text_value};
use super::operation::{ConsoleKeys, DeadConfig, JanitorConfig, MetricsConfig, ProfileKeys};
use super::print::toml;
use super::storage::{BrokerKeys, StoreKeys};
use super::telemetry::TelemetryConfig;

/// A section of the file.
pub(super) struct Table {
    pub(super) name: &'static str,
    about: &'static str,
    pub(super) rows: fn() -> Vec<Row>,
    many: Many,
    /// What the template says above it.
    note: &'static str,
}

/// How often a section may stand in the file.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Many {
    One,
    /// `[[name]]`.
    List,
    /// `[name.NAME]`.
    Named,
}

/// Every section; the last one is laid over the others.
pub(super) const SECTIONS: [Table; 15] = [
    table::<StoreKeys>("store", Many::One, ""),
    table::<BrokerKeys>("broker", Many::One, ""),
    table::<DeliveryConfig>("delivery", Many::One, ""),
    table::<EndpointConfig>("endpoint", Many::List, "Settings of one URL; once for each."),
    table::<ApiConfig>("api", Many::One, ""),
    table::<EventsConfig>("events", Many::One, ""),
    table::<ConsumerConfig>(
        "consumer",
        Many::List,
        "One queue whose messages become events; once for each.",
    ),
    table::<HandlerKeys>(
        "handler",
        Many::List,
        "What handles the events of a type; once for each.",
    ),
    table::<AlertKeys>(
        "alert",
        Many::List,
        "Who is notified when something turns bad, and when that ends; once for each. One of command, url, slack, teams, discord.",
    ),
    table::<DeadConfig>("dead", Many::One, ""),
    table::<JanitorConfig>("janitor", Many::One, ""),
    table::<MetricsConfig>("metrics", Many::One, ""),
    table::<TelemetryConfig>("telemetry", Many::One, ""),
    table::<ConsoleKeys>("console", Many::One, ""),
    table::<ProfileKeys>(
        "profile",
        Many::Named,
        "Chosen with --profile NAME: any key of the sections above, and its own.",
    ),
];

const fn table<K: Keys>(name: &'static str, many: Many, note: &'static str) -> Table {
    Table {
        name,
        about: K::ABOUT,
        rows: K::rows,
        many,
        note,
    }
}

const TEMPLATE_HEAD: &str = "\
# Configuration of redrive. Everything is optional; a key behind a # shows the default, or an example.
# Without any key, the store and the broker are embedded in one file in the user's data directory.
#
# A secret is written here, or in an environment variable, or in a file:
#   \"…\"   { env = \"NAME\" }   { file = \"PATH\" }
#
";

const TEMPLATE_END: &str = "\
# [profile.production.store]
# url = { env = \"PRODUCTION_STORE_URL\" }
";

/// Every key with its default and what it is for; `redrive config init` writes it.
#[must_use]
pub fn template() -> String {
    let mut text = TEMPLATE_HEAD.to_owned();
    let variables: Vec<&str> = variables().into_iter().map(|(variable, ..)| variable).collect();
    if let [all @ .., last] = variables.as_slice() {
        let all = all.join(", ");
        let _ = writeln!(
            text,
            "# The environment variables {all} and\n# {last} override what is written here."
        );
    }
    for section in &SECTIONS {
        text.push('\n');
        comment(&mut text, section.note);
        let _ = match section.many {
            Many::One => writeln!(text, "[{}]", section.name),
            Many::List => writeln!(text, "# [[{}]]", section.name),
            Many::Named => writeln!(text, "# [{}.production]", section.name),
        };
        let (parts, keys): (Vec<Row>, Vec<Row>) = (section.rows)().into_iter().partition(|row| row.facts.is_part);
        examples(&mut text, &keys);
        for part in parts {
            text.push('\n');
            comment(&mut text, &part.note);
            let _ = writeln!(text, "# [{}.{}]", section.name, part.key);
            examples(&mut text, &part.facts.inner.map_or_else(Vec::new, |rows| rows()));
        }
    }
    text + TEMPLATE_END
}

fn examples(text: &mut String, rows: &[Row]) {
    for row in rows {
        comment(text, &row.note);
        let default = row.facts.default.as_ref().map(toml).unwrap_or_default();
        let _ = writeln!(text, "# {} = {}", row.key, row.facts.example.unwrap_or(&default));
    }
}

fn comment(text: &mut String, note: &str) {
    for line in note.lines() {
        let _ = writeln!(text, "# {}", line.strip_prefix(' ').unwrap_or(line));
    }
}

/// Each variable that overrides a key, with the key's section and name.
#[must_use]
pub fn variables() -> Vec<(&'static str, &'static str, &'static str)> {
    let of = |section: &Table| {
        let name = section.name;
        let rows = (section.rows)().into_iter();
        rows.filter_map(move |row| Some((row.facts.variable?, name, row.key)))
    };
    SECTIONS.iter().flat_map(of).collect()
}

/// The same as a JSON schema (draft 7), for editors that complete and check TOML; `redrive config schema` prints it.
#[must_use]
pub fn schema() -> String {
    let mut definitions = vec![("secret".to_owned(), secret())];
    for section in &SECTIONS {
        let rows = (section.rows)();
        for row in rows.iter().filter(|row| row.facts.is_part) {
            definitions.push((row.key.to_owned(), described(&row.about, row.facts.schema.clone())));
        }
        let mut schema = table_schema(&rows);
        if section.many == Many::Named {
            for (word, value) in &mut schema {
                if let ("properties", Value::Table(own)) = (*word, value) {
                    own.extend(references(|of| of.many != Many::Named));
                }
            }
        }
        definitions.push((section.name.to_owned(), described(section.about.trim(), schema)));
    }
    let schema = table_value([
        ("$schema", text_value("http://json-schema.org/draft-07/schema#")),
        ("title", text_value("Configuration of redrive")),
        ("type", text_value("object")),
        ("additionalProperties", Value::Bool(false)),
        ("properties", Value::Table(references(|_| true).collect())),
        ("definitions", Value::Table(definitions)),
    ]);
    let text = serde_json::to_string_pretty(&Json(&schema)).unwrap_or_default();
    text + "\n"
}

fn described(about: &str, schema: Vec<(&'static str, Value)>) -> Value {
    let described = [("description", text_value(about))];
    table_value(described.into_iter().chain(schema))
}

fn references(which: impl Fn(&Table) -> bool) -> impl Iterator<Item = (String, Value)> {
    let reference = |section: &Table| {
        let one = [("$ref", text_value(format!("#/definitions/{}", section.name)))];
        let schema = match section.many {
            Many::One => table_value(one),
            Many::List => table_value([("type", text_value("array")), ("items", table_value(one))]),
            Many::Named => table_value([
                ("type", text_value("object")),
                ("additionalProperties", table_value(one)),
            ]),
        };
        (section.name.to_owned(), schema)
    };
    SECTIONS.iter().filter(move |section| which(section)).map(reference)
}

/// A secret in place, or where it is kept.
fn secret() -> Value {
    let text = |about| table_value([("description", text_value(about)), ("type", text_value("string"))]);
    let place = |key, about| {
        table_value([
            ("type", text_value("object")),
            ("additionalProperties", Value::Bool(false)),
            ("properties", table_value([(key, text(about))])),
            ("required", Value::List(vec![text_value(key)])),
        ])
    };
    let ways = vec![
        table_value([("type", text_value("string"))]),
        place("env", "Name of an environment variable."),
        place("file", "Path of a file."),
    ];
    described("In place, or where it is kept.", vec![("anyOf", Value::List(ways))])
}

/// A value as JSON, in its order.
struct Json<'a>(&'a Value);

impl Serialize for Json<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Value::Null => to.serialize_unit(),
            Value::Bool(flag) => to.serialize_bool(*flag),
            Value::Integer(integer) => to.serialize_i128(*integer),
            Value::Number(number) => to.serialize_f64(*number),
            Value::Text(text) => to.serialize_str(text),
            Value::List(items) => to.collect_seq(items.iter().map(Json)),
            Value::Table(entries) => {
                let mut map = to.serialize_map(Some(entries.len()))?;
                for (key, value) in entries {
                    map.serialize_entry(key, &Json(value))?;
                }
                map.end()
            }
        }
    }
}
