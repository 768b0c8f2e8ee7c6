//! A policy as written: JSON text from outside, in the store, and back.
//!
//! A key that is given twice is kept twice, so that the policy's own check can refuse it: the usual reader of
//! JSON would take the last one and say nothing.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};

use crate::domain::policy::{PolicyError, PolicyOwner, RetryPolicy};
use crate::domain::value::Value;

/// Bytes of a policy, at most: far more than all keys need.
const BYTES_MAX: usize = 64 * 1024;

/// The policy that is written; none for `null`.
///
/// # Errors
/// The first thing that is wrong, with its field.
pub fn read(text: &str, owner: PolicyOwner) -> Result<Option<RetryPolicy>, PolicyError> {
    RetryPolicy::from_value(&value(text)?, owner)
}

/// A valid policy with exactly the keys that were written, as it is saved; none for `null`.
///
/// # Errors
/// As [`read`].
pub fn canonical(text: &str, owner: PolicyOwner) -> Result<Option<String>, PolicyError> {
    let value = value(text)?;
    Ok(RetryPolicy::from_value(&value, owner)?.map(|_| self::text(&value)))
}

/// JSON as the tree that the domain validates, in the order written.
///
/// # Errors
/// What is not JSON, or too long.
pub fn value(text: &str) -> Result<Value, PolicyError> {
    let whole = |message: String| PolicyError {
        field: None,
        nearest: None,
        message,
    };
    if text.len() > BYTES_MAX {
        return Err(whole(format!(
            "a retry policy is at most {BYTES_MAX} bytes, not {}",
            text.len()
        )));
    }
    let read: Result<Tree, _> = serde_json::from_str(text);
    read.map(|Tree(value)| value)
        .map_err(|error| whole(format!("not JSON: {error}")))
}

/// The tree as JSON text.
pub(super) fn text(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(flag) => flag.to_string(),
        Value::Integer(integer) => integer.to_string(),
        Value::Number(number) => serde_json::json!(number).to_string(),
        Value::Text(text) => serde_json::json!(text).to_string(),
        Value::List(items) => format!("[{}]", joined(items.iter().map(self::text))),
        Value::Table(entries) => {
            let entry = |(key, value): &(String, Value)| format!("{}:{}", serde_json::json!(key), self::text(value));
            format!("{{{}}}", joined(entries.iter().map(entry)))
        }
    }
}

fn joined(parts: impl Iterator<Item = String>) -> String {
    parts.collect::<Vec<_>>().join(",")
}

/// What is read.
struct Tree(Value);

impl<'de> Deserialize<'de> for Tree {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Reader).map(Self)
    }
}

struct Reader;

impl<'de> Visitor<'de> for Reader {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value of JSON")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, flag: bool) -> Result<Value, E> {
        Ok(Value::Bool(flag))
    }

    fn visit_i64<E>(self, integer: i64) -> Result<Value, E> {
        Ok(Value::Integer(i128::from(integer)))
    }

    fn visit_u64<E>(self, integer: u64) -> Result<Value, E> {
        Ok(Value::Integer(i128::from(integer)))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Value, E> {
        Ok(Value::Number(number))
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(Value::Text(text.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(Tree(item)) = items.next_element()? {
            list.push(item);
        }
        Ok(Value::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut table = Vec::new();
        while let Some((key, Tree(value))) = entries.next_entry()? {
            table.push((key, value));
        }
        Ok(Value::Table(table))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_policy_of_the_vectors_is_read_and_saved_as_it_was_written() {
        let text = include_str!("../../../tests/vectors/policy_validation.json");
        let cases: Vec<serde_json::Value> = serde_json::from_str(text).unwrap();
        for case in &cases {
            let result = canonical(&case["policy"].to_string(), PolicyOwner::Queue);
            assert_eq!(result.is_ok(), case["valid"].as_bool().unwrap(), "{case}: {result:?}");
            match result {
                Ok(None) => assert!(case["policy"].is_null()),
                Ok(Some(saved)) => {
                    let read: serde_json::Value = serde_json::from_str(&saved).unwrap();
                    assert_eq!(read, case["policy"]);
                }
                Err(error) => {
                    assert_eq!(error.field.as_deref(), case["names"].as_str(), "{case}");
                    assert_eq!(error.nearest.as_deref(), case["nearest"].as_str(), "{case}");
                }
            }
        }
    }

    #[test]
    fn a_saved_number_is_the_written_one_to_its_last_digit() {
        let written = read(r#"{"jitter": 0.10475222036650434375}"#, PolicyOwner::Queue).unwrap();
        let saved = canonical(r#"{"jitter": 0.10475222036650434375}"#, PolicyOwner::Queue).unwrap();
        assert_eq!(read(&saved.unwrap(), PolicyOwner::Queue).unwrap(), written);
    }

    #[test]
    fn a_key_given_twice_and_what_is_not_json_are_refused() {
        let twice = read(r#"{"jitter": 0, "jitter": 1}"#, PolicyOwner::Default).unwrap_err();
        assert_eq!(twice.field.as_deref(), Some("jitter"));
        for text in [
            "",
            "{",
            "{} {}",
            &"[".repeat(5000),
            &format!("\"{}\"", "x".repeat(BYTES_MAX)),
        ] {
            assert_eq!(read(text, PolicyOwner::Default).unwrap_err().field, None);
        }
        let long = read(
            r#"{"maximum_delay": 123456789012345678901234567890}"#,
            PolicyOwner::Default,
        );
        assert!(long.unwrap_err().message.contains("2592000"));
    }
}
