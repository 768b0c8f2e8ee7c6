//! A patch of JSON (RFC 6902) and a body that it is applied to.
//!
//! A body is read and written anew, so what reading cannot keep is refused instead of changed by the way: a number with
//! more digits than a program's number has, and a key that an object has twice. Space, and the order of the keys of an
//! object, are not kept.

use std::cmp::Ordering;

use json_patch::{PatchErrorKind, PatchOperation};
use serde::de::IgnoredAny;
use serde_json::Value;

use crate::domain::decimal::Decimal;
use crate::domain::text::show;

/// Operations of one patch.
const OPERATIONS_MAX: usize = 1_000;
/// What all copies of one patch come to in memory, about: each may double what there is.
const COPIED_BYTES_MAX: usize = 64 << 20;
/// Cells of what is quoted from outside.
const QUOTED_MAX: usize = 60;

/// Operations on a JSON body, in their order.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(transparent)]
pub struct JsonPatch(json_patch::Patch);

/// Why a patch does not apply to a letter.
#[derive(Debug, PartialEq, Eq)]
pub struct NotPatched {
    /// For people.
    pub why: String,
    /// Whether a test of the patch says that the letter is not meant.
    pub is_test: bool,
}

impl NotPatched {
    pub(in crate::engine) const fn refused(why: String) -> Self {
        Self { why, is_test: false }
    }
}

impl JsonPatch {
    /// Reads the document of a patch: an array of `{"op": …, "path": …, "value": …}`.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &str) -> Result<Self, String> {
        let patch: json_patch::Patch = serde_json::from_str(text).map_err(|error| {
            format!(
                "it is no JSON patch (RFC 6902), for example [{{\"op\": \"replace\", \"path\": \"/currency\", \"value\": \
                 \"EUR\"}}]: {error}"
            )
        })?;
        match patch.0.len() {
            0 => Err("the patch has no operations".to_owned()),
            1..=OPERATIONS_MAX => Ok(Self(patch)),
            many => Err(format!(
                "the patch has {many} operations, and at most {OPERATIONS_MAX} are possible"
            )),
        }
    }

    /// The body as the patch makes it.
    ///
    /// # Errors
    /// Why it does not apply: nothing of it is done then.
    pub fn apply(&self, body: &[u8]) -> Result<Vec<u8>, NotPatched> {
        let no_json = || NotPatched::refused("its body is no JSON".to_owned());
        let text = std::str::from_utf8(body).map_err(|_| no_json())?;
        serde_json::from_str::<IgnoredAny>(text).map_err(|_| no_json())?;
        if let Some(number) = numbers(text).find(|number| !is_kept(number)) {
            let number = show(number, QUOTED_MAX);
            let why = format!("its body has the number {number}, which would not be kept");
            return Err(NotPatched::refused(why));
        }
        let mut value: Value = serde_json::from_str(text).map_err(|_| no_json())?;
        if keys_of(text) != keys_in(&value) {
            let why = "one of its objects has a key twice, of which one would be lost".to_owned();
            return Err(NotPatched::refused(why));
        }
        let mut copied = 0_usize;
        for (number, operation) in (1..).zip(&self.0.0) {
            if let PatchOperation::Copy(copy) = operation {
                copied = copied.saturating_add(value.pointer(copy.from.as_str()).map_or(0, size_of_value));
                if copied > COPIED_BYTES_MAX {
                    let why = format!("with operation {number} its copies come to more than 64 MiB");
                    return Err(NotPatched::refused(why));
                }
            }
            operate(&mut value, operation, number)?;
        }
        serde_json::to_vec(&value).map_err(|error| NotPatched::refused(format!("it cannot be written: {error}")))
    }
}

/// About what a value takes in memory.
fn size_of_value(value: &Value) -> usize {
    let inside = match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(size_of_value).sum(),
        Value::Object(members) => members
            .iter()
            .map(|(key, value)| key.len() + size_of_value(value))
            .sum(),
    };
    size_of::<Value>() + inside
}

fn operate(value: &mut Value, operation: &PatchOperation, number: usize) -> Result<(), NotPatched> {
    if let PatchOperation::Test(test) = operation
        && value
            .pointer(test.path.as_str())
            .is_some_and(|found| is_equal(found, &test.value))
    {
        return Ok(());
    }
    json_patch::patch(value, std::slice::from_ref(operation)).map_err(|error| {
        let place = show(error.path.as_str(), QUOTED_MAX);
        let is_test = matches!(error.kind, PatchErrorKind::TestFailed);
        let why = if is_test {
            format!("the test at {place:?} fails")
        } else if matches!(error.kind, PatchErrorKind::InvalidPointer) {
            format!("there is nothing at {place:?}")
        } else {
            format!("operation {number} does not apply at {place:?}")
        };
        NotPatched { why, is_test }
    })
}

/// As RFC 6902 (4.6) has it: numbers are equal by what they are, not by how they are written.
fn is_equal(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => is_same_number(&one.to_string(), &other.to_string()),
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| is_equal(one, other))
        }
        (Value::Object(one), Value::Object(other)) => {
            let is_in = |(key, one): (&String, &Value)| other.get(key).is_some_and(|other| is_equal(one, other));
            one.len() == other.len() && one.iter().all(is_in)
        }
        (one, other) => one == other,
    }
}

fn is_same_number(one: &str, other: &str) -> bool {
    match (Decimal::read(one), Decimal::read(other)) {
        (Some(one), Some(other)) => one.compare(&other) == Ordering::Equal,
        (_, None) | (None, _) => false,
    }
}

/// How many keys the objects of a JSON text have.
fn keys_of(text: &str) -> usize {
    let mut rest = text;
    let mut keys = 0;
    while let Some(behind) = rest.find('"').and_then(|begin| rest.get(begin..)) {
        rest = behind.get(string_end(behind)..).unwrap_or_default();
        keys += usize::from(rest.trim_start().starts_with(':'));
    }
    keys
}

/// How many there are once it was read.
fn keys_in(value: &Value) -> usize {
    match value {
        Value::Array(items) => items.iter().map(keys_in).sum(),
        Value::Object(members) => members.len() + members.values().map(keys_in).sum::<usize>(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
    }
}

/// The numbers of a JSON text, as they are written.
fn numbers(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        loop {
            let begin = rest.find(|c: char| c == '"' || c == '-' || c.is_ascii_digit())?;
            rest = rest.get(begin..)?;
            if rest.starts_with('"') {
                rest = rest.get(string_end(rest)..)?;
                continue;
            }
            let is_of_number = |c: char| matches!(c, '-' | '+' | '.' | 'e' | 'E') || c.is_ascii_digit();
            let end = rest.find(|c| !is_of_number(c)).unwrap_or(rest.len());
            let (number, behind) = rest.split_at(end);
            rest = behind;
            return Some(number);
        }
    })
}

/// Where the string that the text begins with ends.
fn string_end(text: &str) -> usize {
    let mut escaped = false;
    for (at, byte) in text.bytes().enumerate().skip(1) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// Whether a number is the same after it was read and written.
fn is_kept(number: &str) -> bool {
    if number.parse::<i64>().is_ok() || number.parse::<u64>().is_ok() {
        return number != "-0";
    }
    let read = number.parse::<f64>().ok().and_then(serde_json::Number::from_f64);
    read.is_some_and(|read| is_same_number(&read.to_string(), number))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn patched(patch: &str, body: &str) -> Result<String, String> {
        let patch = JsonPatch::parse(patch).unwrap();
        let body = patch.apply(body.as_bytes()).map_err(|not| not.why)?;
        Ok(String::from_utf8(body).unwrap())
    }

    #[test]
    fn a_patch_changes_what_it_names_and_nothing_where_it_does_not_apply() {
        let replace = r#"[{"op":"replace","path":"/currency","value":"EUR"}]"#;
        let body = r#"{"order": 7, "currency": "XXX", "total": 12.50}"#;
        assert_eq!(
            patched(replace, body).unwrap(),
            r#"{"currency":"EUR","order":7,"total":12.5}"#
        );
        assert_eq!(patched(replace, "{}").unwrap_err(), "there is nothing at \"/currency\"");
        assert_eq!(patched(replace, "no JSON").unwrap_err(), "its body is no JSON");
        let tested = r#"[{"op":"test","path":"/order","value":8},{"op":"remove","path":"/order"}]"#;
        assert_eq!(patched(tested, body).unwrap_err(), "the test at \"/order\" fails");
    }

    #[test]
    fn copies_that_double_what_there_is_end_before_they_fill_the_memory() {
        let copy = |number: usize| format!(r#"{{"op":"copy","from":"","path":"/k{number}"}}"#);
        let doubling = |times: usize| format!("[{}]", (0..times).map(copy).collect::<Vec<_>>().join(","));
        let body = format!(r#"{{"text":"{}"}}"#, "x".repeat(1_000));
        assert!(patched(&doubling(10), &body).unwrap().len() > 1_000_000);
        let refused = patched(&doubling(40), &body).unwrap_err();
        assert_eq!(refused, "with operation 16 its copies come to more than 64 MiB");
    }

    #[test]
    fn what_is_no_patch_is_refused_with_an_example() {
        for text in [
            "",
            "{}",
            "[]",
            r#"[{"op":"renew","path":"/a"}]"#,
            r#"[{"op":"remove"}]"#,
        ] {
            assert!(JsonPatch::parse(text).is_err(), "{text}");
        }
        assert!(JsonPatch::parse("{}").unwrap_err().contains("\"op\": \"replace\""));
        let many = format!("[{}]", vec![r#"{"op":"remove","path":"/a"}"#; 1_001].join(","));
        assert!(JsonPatch::parse(&many).unwrap_err().contains("1001 operations"));
    }

    #[test]
    fn a_number_that_would_become_another_one_is_refused() {
        let remove = r#"[{"op":"remove","path":"/a"}]"#;
        for (number, kept) in [
            ("18446744073709551615", true),
            ("-9223372036854775808", true),
            ("18446744073709551616", false),
            ("12345678901234567890123", false),
            ("0.1", true),
            ("1.5e10", true),
            ("0.1234567890123456789", false),
            ("1e400", false),
            ("-0", false),
            ("3.141592653589793", true),
            ("1.7976931348623157e308", true),
            ("3.1415926535897931", false),
            ("1e-400", false),
            ("12.50", true),
        ] {
            let body = format!("{{\"a\":\"12345678901234567890123 \\\" 1\",\"n\":{number}}}");
            let patched = patched(remove, &body);
            assert_eq!(patched.is_ok(), kept, "{number}");
            assert!(
                kept || patched.unwrap_err().contains("which would not be kept"),
                "{number}"
            );
        }
    }

    #[test]
    fn a_key_that_an_object_has_twice_is_refused() {
        let remove = r#"[{"op":"remove","path":"/a"}]"#;
        for body in [
            r#"{"a":1,"b":2,"b":3}"#,
            r#"{"a":1,"list":[{"b":2},{"c":{"x" : 1,"\u0078":2}}]}"#,
        ] {
            assert!(patched(remove, body).unwrap_err().contains("a key twice"), "{body}");
        }
        let apart = r#"{"a":1,"b":{"b":"x\": 1"},"c":[{"b":"b"},{"b":":"}]}"#;
        assert_eq!(
            patched(remove, apart).unwrap(),
            r#"{"b":{"b":"x\": 1"},"c":[{"b":"b"},{"b":":"}]}"#
        );
    }

    #[test]
    fn a_test_compares_numbers_by_what_they_are() {
        let body = r#"{"n":1,"list":[1.0,{"x":100}],"big":18446744073709551615}"#;
        let test = |path: &str, value: &str| {
            let patch = format!(r#"[{{"op":"test","path":"{path}","value":{value}}}]"#);
            patched(&patch, body)
        };
        for (path, value) in [
            ("/n", "1.0"),
            ("/n", "1"),
            ("/list", r#"[1,{"x":1e2}]"#),
            ("/big", "18446744073709551615"),
        ] {
            assert!(test(path, value).is_ok(), "{path} {value}");
        }
        for (path, value) in [
            ("/n", "1.5"),
            ("/n", r#""1""#),
            ("/list", r#"[1,{"x":101}]"#),
            ("/list", "[1]"),
            ("/big", "18446744073709551614"),
        ] {
            assert_eq!(
                test(path, value).unwrap_err(),
                format!("the test at {path:?} fails"),
                "{value}"
            );
        }
        assert_eq!(test("/none", "1").unwrap_err(), "there is nothing at \"/none\"");
    }
}
