//! What a service sends to publish, and what it is answered.
//!
//! The body is never re-encoded: a JSON value is forwarded as the very bytes that stood in the
//! request, whatever its depth, numbers and keys.

use std::collections::BTreeMap;
use std::fmt;

use base64::Engine as _;
use bytes::Bytes;
use schemars::JsonSchema;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::domain::id::ExecutionId;
use crate::domain::notification::{POLLING_TIME_S_MAX, RESTART_COUNT_MAX, content_type_problem};
use crate::domain::text::show;
use crate::engine::{Ended, NewNotification, Receipt};

use super::problem::Problem;
use super::{document, input};

/// A notification that is stored.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct Published {
    /// Its id.
    pub id: String,
    /// Its delivery queue.
    pub queue: String,
    /// What its publisher should know all the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warning: Option<String>,
}

impl From<&Receipt> for Published {
    fn from(receipt: &Receipt) -> Self {
        Self {
            id: receipt.id.as_str().to_owned(),
            queue: receipt.queue.as_str().to_owned(),
            warning: receipt.warning.clone(),
        }
    }
}

/// The answer to an end mark.
#[derive(Clone, Debug, JsonSchema, Serialize)]
#[schemars(rename = "Ended")]
pub struct EndedShape {
    /// The mark's id; null when there was nothing to end.
    pub id: Option<String>,
    /// The delivery queue.
    pub queue: String,
    /// Whether there was a queue to mark.
    pub marked: bool,
    /// What its publisher should know all the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warning: Option<String>,
}

impl From<&Ended> for EndedShape {
    fn from(ended: &Ended) -> Self {
        match ended {
            Ended::Marked(receipt) => Self {
                id: Some(receipt.id.as_str().to_owned()),
                queue: receipt.queue.as_str().to_owned(),
                marked: true,
                warning: receipt.warning.clone(),
            },
            Ended::NoQueue(queue) => Self {
                id: None,
                queue: queue.as_str().to_owned(),
                marked: false,
                warning: None,
            },
        }
    }
}

/// The request as written; each part is read by itself, so that an error can name it.
#[derive(JsonSchema, Deserialize)]
#[serde(deny_unknown_fields)]
#[schemars(
    rename = "NewNotification",
    description = "A notification: it is published to the queue of its execution and URL.",
    extend("required" = ["execution_id", "url"])
)]
pub struct Written<'a> {
    /// The execution that it belongs to: notifications of one execution to one URL arrive in their order.
    #[serde(borrow, default, deserialize_with = "present")]
    #[schemars(with = "String")]
    execution_id: Option<&'a RawValue>,
    /// Where it is delivered to.
    #[serde(borrow, default, deserialize_with = "present")]
    #[schemars(with = "String")]
    url: Option<&'a RawValue>,
    /// Headers of the request; a list gives a name several values.
    #[serde(borrow, default)]
    #[schemars(with = "BTreeMap<String, OneOrMore>")]
    headers: Option<&'a RawValue>,
    /// The body: a string, or any other JSON, which is sent as it is written.
    #[serde(borrow, default, deserialize_with = "present")]
    #[schemars(with = "Option<Value>")]
    body: Option<&'a RawValue>,
    /// Or any bytes, in base64.
    #[serde(borrow, default)]
    #[schemars(with = "String")]
    body_base64: Option<&'a RawValue>,
    /// Seconds between retries of this message, instead of the policy's phases. While the URL is unavailable its policy alone
    /// says when it is probed.
    #[serde(borrow, default)]
    #[schemars(with = "u32", extend("maximum" = POLLING_TIME_S_MAX))]
    polling_time: Option<&'a RawValue>,
    /// Number of retries of this message, instead of the policy's phases.
    #[serde(borrow, default)]
    #[schemars(with = "u32", extend("maximum" = RESTART_COUNT_MAX))]
    restart_count: Option<&'a RawValue>,
    /// Its id, by which a repeated publish is told; without one it is given one.
    #[serde(borrow, default)]
    #[schemars(with = "String")]
    id: Option<&'a RawValue>,
}

/// `null` is a value like any other here.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<&'de RawValue>, D::Error> {
    Deserialize::deserialize(deserializer).map(Some)
}

/// Reads the body of `POST /v1/notifications`.
pub fn notification(request: &[u8]) -> Result<NewNotification, Problem> {
    let written: Written<'_> = document::object(request)?;
    let Headers(mut headers) = read("headers", written.headers)?.unwrap_or_default();
    let content_type = input::take_content_type(&mut headers);
    check_content_type("headers.Content-Type", content_type.as_deref())?;
    let (body, body_type) = body(written.body, written.body_base64)?;
    let id: Option<String> = read("id", written.id)?;
    Ok(NewNotification {
        id: id.as_deref().map(input::id).transpose()?,
        execution: execution(&required("execution_id", written.execution_id)?)?,
        url: input::url(&required("url", written.url)?)?,
        headers,
        content_type: content_type.or_else(|| body_type.map(ToOwned::to_owned)),
        body,
        polling_time_s: number("polling_time", written.polling_time, POLLING_TIME_S_MAX)?,
        restart_count: number("restart_count", written.restart_count, RESTART_COUNT_MAX)?,
    })
}

fn required(field: &'static str, raw: Option<&RawValue>) -> Result<String, Problem> {
    read(field, raw)?.ok_or_else(|| Problem::field(field, format!("{field} is missing")))
}

/// Clients take `/./` and `/../` out of a path: an execution of that name could not be ended.
fn execution(text: &str) -> Result<ExecutionId, Problem> {
    if matches!(text, "." | "..") {
        let why = "execution_id must not be . or .., which no client can ask for in a path";
        return Err(Problem::field("execution_id", why));
    }
    input::execution(text)
}

fn number(field: &'static str, raw: Option<&RawValue>, max: u32) -> Result<Option<u32>, Problem> {
    let Some(raw) = raw else { return Ok(None) };
    match serde_json::from_str(raw.get()) {
        Ok(number) if number <= max => Ok(Some(number)),
        Ok(_) | Err(_) => {
            let given = show(raw.get(), 80);
            let why = format!("{field} is {given}, and must be a whole number from 0 to {max}");
            Err(Problem::field(field, why))
        }
    }
}

/// Refuses a content type that no message can have; `field` is where it was given.
pub(super) fn check_content_type(field: &str, content_type: Option<&str>) -> Result<(), Problem> {
    match content_type.and_then(content_type_problem) {
        Some(problem) => Err(Problem::field(field, format!("{field} {problem}"))),
        None => Ok(()),
    }
}

/// What is wrong is named by its place in the field.
fn read<'a, T: Deserialize<'a>>(field: &'static str, raw: Option<&'a RawValue>) -> Result<Option<T>, Problem> {
    let Some(raw) = raw else { return Ok(None) };
    let mut reader = serde_json::Deserializer::from_str(raw.get());
    serde_path_to_error::deserialize(&mut reader)
        .map(Some)
        .map_err(|error| {
            let field = match error.path().to_string().as_str() {
                "." => field.to_owned(),
                path => format!("{field}.{}", show(path, 80)),
            };
            let why = document::worded(&document::reason(error.inner()));
            Problem::field(&field, format!("{field} {why}"))
        })
}

/// A body and, where it is other JSON than a string, its type.
pub(super) fn body(
    body: Option<&RawValue>,
    base64: Option<&RawValue>,
) -> Result<(Bytes, Option<&'static str>), Problem> {
    match (body, base64) {
        (Some(_), Some(_)) => Err(Problem::field(
            "body_base64",
            "body and body_base64 are both given; give one of them",
        )),
        (None, None) => Ok((Bytes::new(), None)),
        (Some(raw), None) if raw.get().starts_with('"') => {
            let text: Option<String> = read("body", Some(raw))?;
            Ok((Bytes::from(text.unwrap_or_default()), None))
        }
        (Some(raw), None) => Ok((Bytes::copy_from_slice(raw.get().as_bytes()), Some("application/json"))),
        (None, Some(raw)) => {
            let text: Option<String> = read("body_base64", Some(raw))?;
            base64::engine::general_purpose::STANDARD
                .decode(text.unwrap_or_default())
                .map(|bytes| (Bytes::from(bytes), None))
                .map_err(|error| Problem::field("body_base64", format!("body_base64 is not base64: {error}")))
        }
    }
}

/// Request headers in the order written; a list gives a name several values.
#[derive(Default)]
struct Headers(Vec<(String, String)>);

#[derive(JsonSchema, Deserialize)]
#[serde(untagged, expecting = "a header's value is a string or a list of strings")]
#[schemars(inline)]
enum OneOrMore {
    One(String),
    More(Vec<String>),
}

impl<'de> Deserialize<'de> for Headers {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Object;
        impl<'de> Visitor<'de> for Object {
            type Value = Headers;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of header names and values")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Headers, A::Error> {
                let mut headers = Vec::new();
                while let Some((name, value)) = map.next_entry::<String, OneOrMore>()? {
                    match value {
                        OneOrMore::One(value) => headers.push((name, value)),
                        OneOrMore::More(values) => {
                            headers.extend(values.into_iter().map(|value| (name.clone(), value)));
                        }
                    }
                }
                Ok(Headers(headers))
            }
        }
        deserializer.deserialize_map(Object)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(rest: &str) -> Result<NewNotification, Problem> {
        notification(format!(r#"{{"execution_id":"run","url":"http://example.com"{rest}}}"#).as_bytes())
    }

    #[test]
    fn a_string_is_sent_as_its_text_and_any_other_json_as_its_exact_bytes() {
        let cases = [
            ("", "", None),
            (r#","body":"a\n\u00e9""#, "a\né", None),
            (r#","body":"""#, "", None),
            (r#","body": null"#, "null", Some("application/json")),
            (
                r#","body": {"a" : 1.0000000000000001,"a":1e400,  "b":[]}  "#,
                r#"{"a" : 1.0000000000000001,"a":1e400,  "b":[]}"#,
                Some("application/json"),
            ),
            (r#","body_base64":"/wA=""#, "\u{0}", None),
        ];
        for (rest, body, content_type) in cases {
            let read = with(rest).unwrap();
            assert_eq!(read.content_type.as_deref(), content_type, "{rest}");
            if rest.contains("base64") {
                assert_eq!(&read.body[..], [0xff, 0]);
            } else {
                assert_eq!(&read.body[..], body.as_bytes(), "{rest}");
            }
        }
    }

    #[test]
    fn what_is_wrong_is_named_where_it_stands() {
        let long = format!(r#","headers":{{"Content-Type":"{}"}}"#, "x".repeat(300));
        for (rest, field, why) in [
            (r#","headers":{"a":"x","b":null}"#, "headers.b", "is a string or a list"),
            (r#","headers":7"#, "headers", "an object of header names"),
            (&long, "headers.Content-Type", "at most 255 bytes"),
            (
                r#","polling_time":-1"#,
                "polling_time",
                "is -1, and must be a whole number from 0 to 2592000",
            ),
            (r#","polling_time":2592001"#, "polling_time", "from 0 to 2592000"),
            (r#","restart_count":"5""#, "restart_count", "from 0 to 1000"),
        ] {
            let problem = with(rest).unwrap_err();
            assert_eq!(problem.field.as_deref(), Some(field), "{problem:?}");
            assert!(problem.detail.contains(why), "{problem:?}");
        }
        for name in [".", ".."] {
            let request = format!(r#"{{"execution_id":"{name}","url":"http://example.com"}}"#);
            let problem = notification(request.as_bytes()).unwrap_err();
            assert_eq!(problem.field.as_deref(), Some("execution_id"));
        }
    }

    #[test]
    fn a_body_of_any_depth_is_forwarded() {
        let deep = "[".repeat(100_000) + &"]".repeat(100_000);
        assert_eq!(with(&format!(r#","body":{deep}"#)).unwrap().body.len(), 200_000);
    }

    #[test]
    fn headers_keep_their_order_and_the_content_type_is_the_bodys() {
        let read = with(r#","body":{},"headers":{"X-B":"1","content-type":"text/x","X-A":["2","3"]}"#).unwrap();
        assert_eq!(read.content_type.as_deref(), Some("text/x"));
        let headers: Vec<String> = read
            .headers
            .iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        assert_eq!(headers, ["X-B=1", "X-A=2", "X-A=3"]);
    }

    #[test]
    fn what_is_wrong_is_named_by_its_field() {
        let cases = [
            (r#","body":1,"body_base64":"""#, Some("body_base64")),
            (r#","body_base64":"%""#, Some("body_base64")),
            (r#","polling_time":-1"#, Some("polling_time")),
            (r#","restart_count":"3""#, Some("restart_count")),
            (r#","headers":{"a":1}"#, Some("headers.a")),
            (r#","id":"a b""#, Some("id")),
            (r#","body":"\ud800""#, Some("body")),
            (r#","bodie":1"#, Some("bodie")),
            (r#","url":"x""#, Some("url")),
            (r#","body":}"#, None),
        ];
        for (rest, field) in cases {
            let problem = with(rest).unwrap_err();
            assert_eq!(
                (problem.status, problem.field.as_deref()),
                (400, field),
                "{rest}: {}",
                problem.detail
            );
        }
        let missing = notification(br#"{"execution_id":"run"}"#).unwrap_err();
        assert_eq!(missing.field.as_deref(), Some("url"));
        let wrong = notification(br#"{"execution_id":null,"url":"http://example.com"}"#).unwrap_err();
        assert_eq!(wrong.field.as_deref(), Some("execution_id"));
    }
}
