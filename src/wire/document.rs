//! JSON that somebody sends: read into its shape, or what is wrong with it, by the field and in the words of JSON.
//!
//! Promises: a list is no object, whatever its places; the field is named wherever the document is JSON at all; no
//! message names a type of this program.

use serde::Deserialize;
use serde::de::IgnoredAny;

use super::problem::Problem;
use crate::domain::text::show;

/// Columns of a value that is repeated in a message.
const VALUE_WIDTH_MAX: usize = 80;

/// Reads an object.
///
/// # Errors
/// The field that is wrong, or that it is no object.
pub fn object<'de, T: Deserialize<'de>>(text: &'de [u8]) -> Result<T, Problem> {
    if text.trim_ascii_start().starts_with(b"[") {
        let why = "the body is a list, and must be an object: write { and } around it, and each value behind its name";
        return Err(Problem::new(400, why));
    }
    any(text)
}

/// Reads a document that may be a list.
///
/// # Errors
/// The field that is wrong.
pub fn any<'de, T: Deserialize<'de>>(text: &'de [u8]) -> Result<T, Problem> {
    let mut reader = serde_json::Deserializer::from_slice(text);
    let read = serde_path_to_error::deserialize(&mut reader).map_err(|error| {
        let path = error.path().to_string();
        (path, error.into_inner())
    });
    let whole = read.and_then(|read| reader.end().map(|()| read).map_err(|error| (String::new(), error)));
    whole.map_err(|(path, error)| {
        if serde_json::from_slice::<IgnoredAny>(text).is_err() {
            return Problem::new(400, format!("the body cannot be read: {error}"));
        }
        wrong(&path, &reason(&error))
    })
}

/// What is wrong at a place of a document or of a query: `.` is the whole of it.
#[must_use]
pub fn wrong(path: &str, reason: &str) -> Problem {
    let path = Some(path).filter(|path| !matches!(*path, "" | "." | "?"));
    if let Some(name) = in_backticks(reason, "missing field `") {
        let field = path.map_or_else(|| name.to_owned(), |path| format!("{path}.{name}"));
        return Problem::field(&field, format!("{field} is missing"));
    }
    let Some(path) = path else {
        return match in_backticks(reason, "duplicate field `") {
            Some(name) => Problem::field(name, format!("{name} is given twice: give it once")),
            None => Problem::new(400, format!("what was sent {}", worded(reason))),
        };
    };
    let field = show(path, VALUE_WIDTH_MAX);
    let detail = if reason.starts_with("unknown field `") {
        format!("there is no such field here: {reason}")
    } else if reason.starts_with("duplicate field `") {
        format!("{field} is given twice: give it once")
    } else {
        format!("{field} {}", worded(reason))
    };
    Problem::field(&field, detail)
}

/// What the reader says, without the place in the text.
#[must_use]
pub fn reason(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.rsplit_once(" at line ")
        .map_or_else(|| text.clone(), |(before, _)| before.to_owned())
}

fn in_backticks<'a>(reason: &'a str, before: &str) -> Option<&'a str> {
    reason.strip_prefix(before)?.split('`').next()
}

/// What is behind the name of a field: what it is, and what it must be.
#[must_use]
pub fn worded(reason: &str) -> String {
    for kind in ["invalid type: ", "invalid value: ", "invalid length "] {
        if let Some((is, must)) = reason
            .strip_prefix(kind)
            .and_then(|rest| rest.rsplit_once(", expected "))
        {
            return format!("is {}, and must be {}", given(is), expected(must));
        }
    }
    if let Some((is, must)) = reason
        .strip_prefix("unknown variant `")
        .and_then(|rest| rest.split_once("`, expected "))
    {
        return format!("is {:?}, and must be {must}", show(is, VALUE_WIDTH_MAX));
    }
    match reason {
        "invalid digit found in string" | "cannot parse integer from empty string" => {
            "must be a whole number".to_owned()
        }
        "number too large to fit in target type" | "number too small to fit in target type" => {
            "is a number that is too large or too small here".to_owned()
        }
        "invalid float literal" | "cannot parse float from empty string" => "must be a number".to_owned(),
        "provided string was not `true` or `false`" => "must be true or false".to_owned(),
        // What a shape says of itself.
        other if other.starts_with("must be ") => other.to_owned(),
        other => format!("cannot be read: {other}"),
    }
}

/// A value as the reader calls it.
fn given(is: &str) -> String {
    let value = is.split('`').nth(1);
    match is.split(' ').next().unwrap_or_default() {
        "sequence" => "a list".to_owned(),
        "map" => "an object".to_owned(),
        "integer" | "floating" | "boolean" | "number" => value.unwrap_or(is).to_owned(),
        "string" => show(is.trim_start_matches("string "), VALUE_WIDTH_MAX),
        _ => is.to_owned(),
    }
}

/// What the reader expects there.
fn expected(must: &str) -> String {
    match must {
        "u8" => format!("a whole number from 0 to {}", u8::MAX),
        "u16" => format!("a whole number from 0 to {}", u16::MAX),
        "u32" => format!("a whole number from 0 to {}", u32::MAX),
        "u64" | "usize" => "a whole number, 0 or more".to_owned(),
        "i8" | "i16" | "i32" | "i64" | "isize" => "a whole number".to_owned(),
        "f32" | "f64" => "a number".to_owned(),
        "a boolean" => "true or false".to_owned(),
        "a sequence" => "a list".to_owned(),
        "a map" => "an object".to_owned(),
        other if other.starts_with("struct ") => "an object".to_owned(),
        other if other.starts_with("enum ") || other.starts_with("string or map") => {
            "one of the words that are possible here".to_owned()
        }
        other => other.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "only whether it can be read matters")]
    struct Order {
        rate: Option<u32>,
        #[serde(default)]
        ids: Vec<i64>,
        to: Option<Word>,
        #[serde(default)]
        headers: BTreeMap<String, Option<String>>,
        deep: Option<Deep>,
    }

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "only whether it can be read matters")]
    struct Deep {
        at: f64,
    }

    #[derive(Debug, Deserialize)]
    #[serde(rename_all = "snake_case")]
    enum Word {
        Dead,
        Tail,
    }

    #[test]
    fn what_is_wrong_is_named_by_its_field_and_in_words_of_json() {
        for (text, field, says) in [
            (
                r#"{"rate": -1}"#,
                "rate",
                "rate is -1, and must be a whole number from 0 to 4294967295",
            ),
            (
                r#"{"rate": [1]}"#,
                "rate",
                "rate is a list, and must be a whole number from 0 to 4294967295",
            ),
            (r#"{"ids": "x"}"#, "ids", "ids is \"x\", and must be a list"),
            (
                r#"{"ids": [1, "x"]}"#,
                "ids[1]",
                "ids[1] is \"x\", and must be a whole number",
            ),
            (r#"{"to": "zz"}"#, "to", "to is \"zz\", and must be `dead` or `tail`"),
            (
                r#"{"headers": {"a": 1}}"#,
                "headers.a",
                "headers.a is 1, and must be a string",
            ),
            (r#"{"deep": "x"}"#, "deep", "deep is \"x\", and must be an object"),
            (r#"{"deep": {}}"#, "deep.at", "deep.at is missing"),
            (r#"{"rate": 1, "rate": 2}"#, "rate", "rate is given twice: give it once"),
        ] {
            let problem = object::<Order>(text.as_bytes()).unwrap_err();
            assert_eq!(
                (problem.field.as_deref(), &*problem.detail),
                (Some(field), says),
                "{text}"
            );
        }
        let unknown = object::<Order>(br#"{"rat": 1}"#).unwrap_err();
        assert_eq!(unknown.field.as_deref(), Some("rat"));
        assert!(unknown.detail.contains("unknown field `rat`"), "{}", unknown.detail);
        for text in [r#"["rate"]"#, "5", "\"x\"", "{\"rate\": }", "{} {}"] {
            let problem = object::<Order>(text.as_bytes()).unwrap_err();
            assert_eq!((problem.status, problem.field), (400, None), "{text}");
            assert!(!problem.detail.contains("Order"), "{}", problem.detail);
        }
        assert!(object::<Order>(br#"{"rate": 1, "ids": [2], "to": "tail"}"#).is_ok());
    }
}
