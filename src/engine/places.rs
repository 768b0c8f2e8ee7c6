//! Places in a message that a filter may name: a header by its name, a value of a JSON body by its pointer.
//!
//! A body that is no JSON has no places. Of one that is larger than [`BODY_BYTES_MAX`] nobody can tell: a filter that
//! depends on it is an error, because neither it nor its opposite may select such a message.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::collections::BTreeMap;

use serde_json::Value;
use serde_json::value::RawValue;

use crate::domain::filter::{FieldValue, TooLarge};
use crate::domain::message::Message;

/// Bytes of a body that is looked into.
pub(super) const BODY_BYTES_MAX: usize = 1 << 20;
/// Characters of a header's value that is no text: more than a header can have.
const HEADER_MAX: usize = 1 << 20;

/// The places of a message.
#[derive(Debug)]
pub(super) struct Places<'a> {
    message: Option<&'a Message>,
    body: &'a [u8],
    json: OnceCell<Option<&'a RawValue>>,
}

impl<'a> Places<'a> {
    /// Of this message, where it is at hand.
    pub(super) fn of(message: Option<&'a Message>) -> Self {
        Self {
            message,
            body: message.map_or(&[], |message| &message.body),
            json: OnceCell::new(),
        }
    }

    /// Of a body alone.
    pub(super) const fn of_body(body: &'a [u8]) -> Self {
        Self {
            message: None,
            body,
            json: OnceCell::new(),
        }
    }

    /// The value at a place of a family, as text.
    pub(super) fn at(&self, family: &str, place: &str) -> FieldValue<'_> {
        match family {
            "header." => self.header(place),
            "body." => self.body(place),
            _ => FieldValue::Missing,
        }
    }

    /// By its exact name, else in any letter case.
    fn header(&self, name: &str) -> FieldValue<'_> {
        let Some(message) = self.message else {
            return FieldValue::Missing;
        };
        let any_case = || {
            message
                .headers
                .iter()
                .find(|(other, _)| other.eq_ignore_ascii_case(name))
        };
        let found = message.header(name).or_else(|| any_case().map(|(_, value)| value));
        found.map_or(FieldValue::Missing, |value| {
            FieldValue::Text(match value.as_text() {
                Some(text) => Cow::Borrowed(text),
                None => Cow::Owned(value.shown(HEADER_MAX)),
            })
        })
    }

    fn body(&self, pointer: &str) -> FieldValue<'_> {
        if self.body.len() > BODY_BYTES_MAX {
            return FieldValue::TooLarge(TooLarge {
                bytes: self.body.len(),
                bytes_max: BODY_BYTES_MAX,
            });
        }
        let json = self.json.get_or_init(|| serde_json::from_slice(self.body).ok());
        json.and_then(|json| at_pointer(json, pointer))
            .map_or(FieldValue::Missing, value)
    }
}

/// As it is written there: a number that was read and written again is rounded.
fn at_pointer<'j>(mut json: &'j RawValue, pointer: &str) -> Option<&'j RawValue> {
    for step in pointer.split('/').skip(1) {
        let text = json.get();
        json = if text.starts_with('{') {
            let name = step.replace("~1", "/").replace("~0", "~");
            let mut members: BTreeMap<String, &RawValue> = serde_json::from_str(text).ok()?;
            members.remove(&name)?
        } else if text.starts_with('[') {
            let is_plain = step == "0" || !step.starts_with(['0', '+']);
            let place: usize = step.parse().ok().filter(|_| is_plain)?;
            let members: Vec<&RawValue> = serde_json::from_str(text).ok()?;
            members.into_iter().nth(place)?
        } else {
            return None;
        };
    }
    Some(json)
}

/// A text without its quotes, an object or a list without blanks.
fn value(json: &RawValue) -> FieldValue<'_> {
    let text = json.get();
    let whole = || serde_json::from_str::<Value>(text).ok().map(|whole| whole.to_string());
    let read = match text.as_bytes().first() {
        Some(b'-' | b'0'..=b'9') => return FieldValue::Numeral(Cow::Borrowed(text)),
        Some(b'"') => serde_json::from_str(text).ok(),
        Some(b'{' | b'[') => whole(),
        Some(_) | None => None,
    };
    FieldValue::Text(read.map_or(Cow::Borrowed(text), Cow::Owned))
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::domain::filter::{Field, FieldKind, Fields, Filter};
    use crate::domain::message::HeaderValue;
    use crate::engine::fields::count;

    #[test]
    fn headers_and_pointers_are_found_and_what_is_missing_is_missing() {
        let message = Message {
            headers: vec![
                ("Tenant".to_owned(), HeaderValue::text("t1")),
                ("tries".to_owned(), HeaderValue::I32(3)),
            ],
            body: Bytes::from_static(
                br#"{"order":{"id":9001,"lines":["a", "b"],"a/b":true,"m~n":"\u00e9","exact":9007199254740993.50}}"#,
            ),
            ..Message::default()
        };
        let places = Places::of(Some(&message));
        let text = |family: &str, place: &str| match places.at(family, place) {
            FieldValue::Text(text) | FieldValue::Numeral(text) => Some(text.into_owned()),
            FieldValue::Missing
            | FieldValue::Words(_)
            | FieldValue::Number(_)
            | FieldValue::Duration(_)
            | FieldValue::Bool(_)
            | FieldValue::Time(_)
            | FieldValue::TooLarge(_) => None,
        };
        assert_eq!(text("header.", "tenant").as_deref(), Some("t1"));
        assert_eq!(text("header.", "tries").as_deref(), Some("3"));
        assert_eq!(text("body.", "/order/id").as_deref(), Some("9001"));
        assert_eq!(text("body.", "/order/lines/1").as_deref(), Some("b"));
        assert_eq!(text("body.", "/order/lines").as_deref(), Some(r#"["a","b"]"#));
        assert_eq!(text("body.", "/order/a~1b").as_deref(), Some("true"));
        assert_eq!(text("body.", "/order/m~0n").as_deref(), Some("é"));
        assert_eq!(text("body.", "/order/exact").as_deref(), Some("9007199254740993.50"));
        for none in ["/order/none", "/order/lines/2", "/order/lines/01", "/order/id/0"] {
            assert_eq!(text("body.", none), None, "{none}");
        }
        assert_eq!(text("header.", "none"), None);
        assert_eq!(Places::of(None).at("body.", "/order"), FieldValue::Missing);
    }

    struct Row<'a>(Places<'a>);

    const ROW_FIELDS: &[Field] = &[
        Field::new("size", FieldKind::Number),
        Field::new("body.", FieldKind::Text),
    ];

    impl Fields for Row<'_> {
        fn field(&self, _: &str) -> FieldValue<'_> {
            count(u64::try_from(self.0.body.len()).ok())
        }

        fn at(&self, family: &str, place: &str) -> FieldValue<'_> {
            self.0.at(family, place)
        }
    }

    #[test]
    fn a_list_is_searched_whole_and_of_a_body_that_is_too_large_nothing_is_told() {
        let asked = |source: &str, length: usize| {
            let body = format!(r#"{{"list":["{}needle"],"id":1}}"#, "x".repeat(length));
            let row = Row(Places::of_body(body.as_bytes()));
            Filter::parse(source, ROW_FIELDS).unwrap().ask(&row)
        };
        for length in [10, 5_000, 100_000] {
            for found in [
                "body./list ~ needle",
                "body./list ~ /needle/",
                "body./list/0 ~ /needle$/",
            ] {
                assert_eq!(asked(found, length), Ok(true), "{found} in {length}");
                assert_eq!(
                    asked(&format!("not {found}"), length),
                    Ok(false),
                    "not {found} in {length}"
                );
            }
        }
        for depends in ["body./id = 1", "not body./id = 1", "body./id != 1"] {
            let refused = asked(depends, BODY_BYTES_MAX).unwrap_err();
            assert_eq!(refused.bytes_max, BODY_BYTES_MAX, "{depends}");
        }
        // Where something else decides, it does not matter.
        assert_eq!(asked("body./id = 1 and size < 1M", BODY_BYTES_MAX), Ok(false));
        assert_eq!(asked("body./id = 1 or not size < 1M", BODY_BYTES_MAX), Ok(true));
    }
}
