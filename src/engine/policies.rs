//! Retry policies as saved: JSON text in the store, a checked policy here.

use crate::domain::policy::{PolicyOwner, RetryPolicy};
use crate::domain::value::Value;

/// A saved policy; `None` (with a warning in the log) when it can no longer be read.
pub(super) fn read(document: &str) -> Option<RetryPolicy> {
    let value = match serde_json::from_str::<serde_json::Value>(document) {
        Ok(value) => from_json(&value),
        Err(error) => {
            tracing::error!(error = ?error, "a saved retry policy is not JSON");
            return None;
        }
    };
    match RetryPolicy::from_value(&value, PolicyOwner::Subscription) {
        Ok(policy) => policy,
        Err(error) => {
            tracing::error!(error = ?error, "a saved retry policy is not valid");
            None
        }
    }
}

/// JSON as the tree that the domain validates.
#[must_use]
pub fn from_json(value: &serde_json::Value) -> Value {
    match value {
        serde_json::Value::Null => Value::Null,
        serde_json::Value::Bool(truth) => Value::Bool(*truth),
        serde_json::Value::Number(number) => match (number.as_i64(), number.as_u64()) {
            (Some(n), _) => Value::Integer(i128::from(n)),
            (None, Some(n)) => Value::Integer(i128::from(n)),
            (None, None) => Value::Number(number.as_f64().unwrap_or(f64::NAN)),
        },
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
