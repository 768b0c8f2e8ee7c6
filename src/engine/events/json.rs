//! JSON documents as the tree that the domain validates.

use crate::domain::value::Value;

/// The same values; an object keeps its keys.
pub(super) fn from_json(json: &serde_json::Value) -> Value {
    match json {
        serde_json::Value::Null => Value::Null,
        serde_json::Value::Bool(truth) => Value::Bool(*truth),
        serde_json::Value::Number(number) => number
            .as_i128()
            .map_or_else(|| Value::Number(number.as_f64().unwrap_or(f64::NAN)), Value::Integer),
        serde_json::Value::String(text) => Value::Text(text.clone()),
        serde_json::Value::Array(items) => Value::List(items.iter().map(from_json).collect()),
        serde_json::Value::Object(table) => Value::Table(
            table
                .iter()
                .map(|(key, value)| (key.clone(), from_json(value)))
                .collect(),
        ),
    }
}
