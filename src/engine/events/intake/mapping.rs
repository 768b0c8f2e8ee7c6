//! One message of an intake queue → one event, or why it is none. Pure.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde::Serialize;
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};

use super::super::IntakeSettings;
use crate::ambient::HashMap;
use crate::broker::Walked;
use crate::domain::event::{EventType, NewEvent, Reference, due_time, message_reason};
use crate::domain::message::Message;
use crate::domain::naming::hex;
use crate::domain::routing::topic_matches;
use crate::domain::time::Timestamp;
use crate::domain::trace::{TRACEPARENT, TRACESTATE, TraceContext};
use crate::store::Undecodable;

/// Under this name the header frame of a message is kept that no client can read. The masks hide it.
pub(super) const HEADER_FRAME: &str = "header_frame_base64";
/// Characters of a header's value that are kept with a message that is no event.
const HEADER_SHOWN: usize = 1024;
/// Characters of a value that an error repeats.
const VALUE_SHOWN: usize = 80;

/// The event that a message means.
pub(super) fn event_of(intake: &IntakeSettings, walked: &Walked, now: Timestamp) -> Result<NewEvent, String> {
    let body = &walked.message.body;
    let document: &RawValue = serde_json::from_slice(body).map_err(|error| format!("not JSON: {error}"))?;
    let found = |pointer: &str| find(document, pointer).map_err(|error| format!("{pointer}: {error}"));
    let nbf = match &intake.nbf {
        Some(pointer) => found(pointer)?.map_or(Ok(None), |value| due(pointer, value))?,
        None => None,
    };
    let payload = match &intake.payload {
        Some(pointer) => found(pointer)?.map(|value| Bytes::copy_from_slice(value.get().as_bytes())),
        None => Some(body.clone()),
    };
    let reference = reference(&intake.reference, found(&intake.reference)?)?;
    let event = NewEvent {
        event_type: event_type(intake, &walked.routing_key).clone(),
        reference,
        nbf,
        reason: Some(reason(intake, walked, document)),
        payload,
        lifetime: None,
        trace: TraceContext::of(
            walked.message.header_text(TRACEPARENT),
            walked.message.header_text(TRACESTATE),
        ),
    };
    event.check(now).map_err(|error| error.message)?;
    Ok(event)
}

fn event_type<'a>(intake: &'a IntakeSettings, routing_key: &str) -> &'a EventType {
    let routed = intake.types.iter().find(|(key, _)| topic_matches(key, routing_key));
    routed.map_or(&intake.event_type, |(_, event_type)| event_type)
}

/// With the message's id, or what its body says is one.
fn reason(intake: &IntakeSettings, walked: &Walked, document: &RawValue) -> String {
    let said = || {
        let jti = find(document, "/jti").ok().flatten()?;
        serde_json::from_str::<String>(jti.get()).ok()
    };
    let id = walked.message.message_id.clone().or_else(said);
    let reason = message_reason(&intake.queue, id.as_deref());
    if walked.redelivered {
        format!("{} (came again)", cut(&reason, 4000))
    } else {
        reason
    }
}

/// A string, or a number as it was written.
fn reference(pointer: &str, value: Option<&RawValue>) -> Result<Reference, String> {
    let value = value.ok_or_else(|| format!("{pointer}: there is no such value, and it is the reference"))?;
    let text = match value.get().as_bytes().first() {
        Some(b'"') => serde_json::from_str(value.get()).map_err(|error| format!("{pointer}: {error}"))?,
        Some(b'-' | b'0'..=b'9') => value.get().to_owned(),
        _ => return Err(format!("{pointer}: {} cannot be a reference", shown(value))),
    };
    Reference::parse(&text).map_err(|error| format!("{pointer}: {error}"))
}

/// RFC 3339, or seconds since 1970 as a number or a string; `null` is none.
fn due(pointer: &str, value: &RawValue) -> Result<Option<Timestamp>, String> {
    let wrong = |why: &str| format!("{pointer}: {} is no time: {why}", shown(value));
    let text = match value.get().as_bytes().first() {
        Some(b'n') => return Ok(None),
        Some(b'"') => serde_json::from_str(value.get()).map_err(|error| wrong(&error.to_string()))?,
        _ => value.get().to_owned(),
    };
    due_time(&text).map(Some).map_err(|error| wrong(&error.message))
}

/// What a JSON pointer (RFC 6901) points to, as it was written; of keys that stand twice the last one.
fn find<'a>(document: &'a RawValue, pointer: &str) -> Result<Option<&'a RawValue>, serde_json::Error> {
    let mut at = document;
    for token in pointer.split('/').skip(1) {
        let token = token.replace("~1", "/").replace("~0", "~");
        let next = match at.get().as_bytes().first() {
            Some(b'{') => serde_json::from_str::<HashMap<String, &'a RawValue>>(at.get())?.remove(&token),
            Some(b'[') => match token.parse::<usize>() {
                Ok(index) if index.to_string() == token => {
                    let items: Vec<&'a RawValue> = serde_json::from_str(at.get())?;
                    items.get(index).copied()
                }
                _ => None,
            },
            _ => None,
        };
        match next {
            Some(next) => at = next,
            None => return Ok(None),
        }
    }
    Ok(Some(at))
}

fn shown(value: &RawValue) -> String {
    cut(value.get(), VALUE_SHOWN).to_owned()
}

fn cut(text: &str, bytes: usize) -> &str {
    text.get(..text.floor_char_boundary(bytes)).unwrap_or(text)
}

/// What is kept of a message that is no event.
pub(super) fn undecodable(intake: &IntakeSettings, walked: &Walked, why: &str) -> Undecodable {
    let message = &walked.message;
    Undecodable {
        event_type: event_type(intake, &walked.routing_key).clone(),
        reference: found_by(message.message_id.as_deref(), &message.body),
        reason: format!(
            "{}: undecodable: {why}",
            message_reason(&intake.queue, message.message_id.as_deref())
        ),
        payload: message.body.clone(),
        properties: serde_json::to_string(&Properties::of(intake, walked)).unwrap_or_default(),
        comes_again: walked.redelivered,
    }
}

/// The same of a message that no client can read: its header frame as it came.
pub(super) fn unreadable(intake: &IntakeSettings, header: &[u8], body: &[u8], why: &str) -> Undecodable {
    let properties = serde_json::json!({"queue": intake.queue, HEADER_FRAME: STANDARD.encode(header)});
    Undecodable {
        event_type: intake.event_type.clone(),
        reference: found_by(None, body),
        reason: format!("{}: undecodable: {why}", message_reason(&intake.queue, None)),
        payload: Bytes::copy_from_slice(body),
        properties: properties.to_string(),
        comes_again: true,
    }
}

/// Its id, or a hash where it has none that can stand as a reference.
fn found_by(id: Option<&str>, body: &[u8]) -> Reference {
    let named = id.and_then(|id| Reference::parse(id).ok());
    let hashed = || Reference::parse(&format!("sha256:{}", hex(&Sha256::digest(body))));
    #[expect(clippy::expect_used, reason = "hex digits are a reference")]
    named.unwrap_or_else(|| hashed().expect("hex digits are a reference"))
}

/// The properties of a message that is no event, for people.
#[derive(Serialize)]
struct Properties<'a> {
    queue: &'a str,
    exchange: &'a str,
    routing_key: &'a str,
    redelivered: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    content_type: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    content_encoding: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    correlation_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reply_to: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    r#type: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    user_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    app_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    timestamp: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    priority: Option<u8>,
    headers: serde_json::Map<String, serde_json::Value>,
}

impl<'a> Properties<'a> {
    fn of(intake: &'a IntakeSettings, walked: &'a Walked) -> Self {
        let Message {
            content_type,
            content_encoding,
            message_id,
            correlation_id,
            reply_to,
            kind,
            user_id,
            app_id,
            ..
        } = &walked.message;
        let header = |(name, value): &(String, crate::domain::message::HeaderValue)| {
            (name.clone(), value.shown(HEADER_SHOWN).into())
        };
        Self {
            queue: &intake.queue,
            exchange: &walked.exchange,
            routing_key: &walked.routing_key,
            redelivered: walked.redelivered,
            content_type: content_type.as_deref(),
            content_encoding: content_encoding.as_deref(),
            message_id: message_id.as_deref(),
            correlation_id: correlation_id.as_deref(),
            reply_to: reply_to.as_deref(),
            r#type: kind.as_deref(),
            user_id: user_id.as_deref(),
            app_id: app_id.as_deref(),
            timestamp: walked.message.timestamp_s,
            priority: walked.message.priority,
            headers: walked.message.headers.iter().map(header).collect(),
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::broker::DeliveryTag;

    pub(in crate::engine::events::intake) fn intake() -> IntakeSettings {
        let named = |name: &str| EventType::parse(name).unwrap();
        IntakeSettings {
            name: "hr".to_owned(),
            vhost: "/".to_owned(),
            queue: "q_hr".to_owned(),
            exchange: None,
            bindings: Vec::new(),
            event_type: named("hr-import"),
            types: vec![
                ("person.left.#".to_owned(), named("hr-leaver")),
                ("person.#".to_owned(), named("hr-person")),
            ],
            reference: "/employee/0/number".to_owned(),
            nbf: Some("/nbf".to_owned()),
            payload: None,
        }
    }

    pub(in crate::engine::events::intake) fn walked(body: &str) -> Walked {
        Walked {
            tag: DeliveryTag(1),
            position: 1,
            redelivered: false,
            exchange: "people".to_owned(),
            routing_key: "other".to_owned(),
            message: Message {
                body: Bytes::copy_from_slice(body.as_bytes()),
                ..Message::default()
            },
        }
    }

    fn now() -> Timestamp {
        Timestamp::from_seconds(1_600_000_000)
    }

    fn map(body: &str) -> Result<NewEvent, String> {
        event_of(&intake(), &walked(body), now())
    }

    #[test]
    fn a_message_becomes_an_event_with_its_bytes_as_they_came() {
        let body = r#" {"employee": [{"number": 12345678901234567890.50}], "n": 1.0} "#;
        let event = map(body).unwrap();
        assert_eq!(event.reference.as_str(), "12345678901234567890.50");
        assert_eq!(event.payload.as_deref(), Some(body.as_bytes()));
        assert_eq!(event.nbf, None);
        assert_eq!(event.event_type.as_str(), "hr-import");
        assert_eq!(event.reason.as_deref(), Some("message: queue=q_hr"));
    }

    #[test]
    fn the_forms_of_a_date_and_what_is_none() {
        let at = Some(Timestamp::from_seconds(1_583_020_800));
        for (nbf, expected) in [
            ("\"2020-03-01T00:00:00Z\"", Ok(at)),
            ("\"2020-03-01T01:00:00+01:00\"", Ok(at)),
            ("1583020800", Ok(at)),
            ("1583020800.0", Ok(at)),
            ("\"1583020800\"", Ok(at)),
            ("null", Ok(None)),
            ("0", Ok(Some(Timestamp::EPOCH))),
            ("-1", Err("nbf")),
            ("1e300", Err("nbf")),
            ("99999999999", Err("nbf must be within a hundred years")),
            ("\"9999-12-31T23:59:59Z\"", Err("nbf must be within a hundred years")),
            ("1583020800000", Err("seconds since 1970")),
            ("\"tomorrow\"", Err("/nbf: \"tomorrow\" is no time")),
            ("\"\"", Err("is no time")),
            ("true", Err("/nbf: true is no time")),
            ("[1583020800]", Err("is no time")),
        ] {
            let body = format!(r#"{{"employee": [{{"number": "7"}}], "nbf": {nbf}}}"#);
            match (map(&body), expected) {
                (Ok(event), Ok(expected)) => assert_eq!(event.nbf, expected, "{nbf}"),
                (Err(why), Err(part)) => assert!(why.contains(part), "{nbf}: {why}"),
                (result, _) => panic!("{nbf}: {result:?}"),
            }
        }
    }

    #[test]
    fn what_is_no_event_says_why() {
        let long = format!(r#"{{"employee": [{{"number": "{}"}}]}}"#, "7".repeat(1025));
        let large = format!(
            r#"{{"employee": [{{"number": "7"}}], "x": "{}"}}"#,
            "7".repeat(1024 * 1024)
        );
        for (body, part) in [
            ("", "not JSON"),
            ("{", "not JSON"),
            ("{} {}", "not JSON"),
            ("\u{feff}{}", "not JSON"),
            ("{}", "/employee/0/number: there is no such value"),
            ("[]", "there is no such value"),
            ("7", "there is no such value"),
            (r#"{"employee": []}"#, "there is no such value"),
            (r#"{"employee": {"00": 1}}"#, "there is no such value"),
            (r#"{"employee": [{"number": ""}]}"#, "must not be empty"),
            (r#"{"employee": [{"number": null}]}"#, "null cannot be a reference"),
            (r#"{"employee": [{"number": {"a": 1}}]}"#, "cannot be a reference"),
            (r#"{"employee": [{"number": "a\u0007"}]}"#, "control characters"),
            (&long, "at most 1,024 bytes"),
            (&large, "payload must be at most"),
        ] {
            let why = map(body).unwrap_err();
            assert!(why.contains(part), "{body:.60}: {why}");
        }
    }

    #[test]
    fn pointers_name_keys_with_slashes_and_parts_become_the_payload() {
        let settings = IntakeSettings {
            reference: "/a~1b/m~0n".to_owned(),
            payload: Some("/data".to_owned()),
            ..intake()
        };
        let body = r#"{"a/b": {"m~n": "x"}, "data": {"n":  1.10}, "a": 1}"#;
        let event = event_of(&settings, &walked(body), now()).unwrap();
        assert_eq!(
            (event.reference.as_str(), event.payload.as_deref()),
            ("x", Some(&br#"{"n":  1.10}"#[..]))
        );
        let without = event_of(&settings, &walked(r#"{"a/b": {"m~n": "x"}}"#), now()).unwrap();
        assert_eq!(without.payload, None);
        let whole = IntakeSettings {
            reference: String::new(),
            ..intake()
        };
        assert_eq!(event_of(&whole, &walked("42"), now()).unwrap().reference.as_str(), "42");
    }

    #[test]
    fn the_routing_key_says_the_type_and_the_message_its_reason() {
        let of = |key: &str| {
            let walked = Walked {
                routing_key: key.to_owned(),
                redelivered: true,
                ..walked(r#"{"employee": [{"number": 1}], "jti": "d554"}"#)
            };
            event_of(&intake(), &walked, now()).unwrap()
        };
        assert_eq!(of("person.left.now").event_type.as_str(), "hr-leaver");
        assert_eq!(of("person.new").event_type.as_str(), "hr-person");
        assert_eq!(of("").event_type.as_str(), "hr-import");
        assert_eq!(
            of("").reason.as_deref(),
            Some("message: queue=q_hr, jti=d554 (came again)")
        );
    }

    #[test]
    fn what_is_kept_of_a_message_that_is_no_event_has_its_bytes_and_properties() {
        let mut walked = walked("\u{0}");
        walked.message.headers = vec![("x-a".to_owned(), crate::domain::message::HeaderValue::I32(7))];
        walked.message.message_id = Some("m-1".to_owned());
        let kept = undecodable(&intake(), &walked, "not JSON");
        assert_eq!((kept.reference.as_str(), &kept.payload[..]), ("m-1", &b"\0"[..]));
        assert_eq!(kept.reason, "message: queue=q_hr, jti=m-1: undecodable: not JSON");
        let properties: serde_json::Value = serde_json::from_str(&kept.properties).unwrap();
        assert_eq!(
            (&properties["exchange"], &properties["headers"]["x-a"]),
            (&"people".into(), &"7".into())
        );
        walked.message.message_id = Some("bell \u{7}".to_owned());
        assert!(
            undecodable(&intake(), &walked, "")
                .reference
                .as_str()
                .starts_with("sha256:6e34")
        );
    }
}
