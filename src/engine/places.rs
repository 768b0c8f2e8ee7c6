//! Places in a message that a filter may name: a header by its name, a value of a JSON body by its pointer.
//!
//! A body is read once for a row, and not at all where it is larger than [`BODY_BYTES_MAX`] or no JSON: its places are
//! missing then, which is neither equal nor greater nor less.

use std::borrow::Cow;
use std::cell::OnceCell;

use serde_json::Value;

use crate::domain::filter::FieldValue;
use crate::domain::message::Message;

/// Bytes of a body that is looked into.
pub(super) const BODY_BYTES_MAX: usize = 1 << 20;
/// Bytes of a value that is an object or a list.
const WHOLE_BYTES_MAX: usize = 4 * 1024;
/// Characters of a header's value that is no text.
const HEADER_MAX: usize = 1_024;

/// The places of a message.
#[derive(Debug)]
pub(super) struct Places<'a> {
    message: Option<&'a Message>,
    body: &'a [u8],
    json: OnceCell<Option<Value>>,
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
        let json = self.json.get_or_init(|| {
            let is_looked_into = self.body.len() <= BODY_BYTES_MAX;
            is_looked_into.then(|| serde_json::from_slice(self.body).ok()).flatten()
        });
        let found = json.as_ref().and_then(|json| json.pointer(pointer));
        match found {
            None => FieldValue::Missing,
            Some(Value::String(text)) => FieldValue::Text(Cow::Borrowed(text)),
            Some(whole) => {
                let mut text = whole.to_string();
                text.truncate(text.floor_char_boundary(WHOLE_BYTES_MAX));
                FieldValue::Text(Cow::Owned(text))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::domain::message::HeaderValue;

    #[test]
    fn headers_and_pointers_are_found_and_what_is_missing_is_missing() {
        let message = Message {
            headers: vec![
                ("Tenant".to_owned(), HeaderValue::text("t1")),
                ("tries".to_owned(), HeaderValue::I32(3)),
            ],
            body: Bytes::from_static(br#"{"order":{"id":9001,"lines":["a","b"],"a/b":true}}"#),
            ..Message::default()
        };
        let places = Places::of(Some(&message));
        let text = |family: &str, place: &str| match places.at(family, place) {
            FieldValue::Text(text) => Some(text.into_owned()),
            FieldValue::Missing
            | FieldValue::Words(_)
            | FieldValue::Number(_)
            | FieldValue::Duration(_)
            | FieldValue::Bool(_) => None,
        };
        assert_eq!(text("header.", "tenant").as_deref(), Some("t1"));
        assert_eq!(text("header.", "tries").as_deref(), Some("3"));
        assert_eq!(text("body.", "/order/id").as_deref(), Some("9001"));
        assert_eq!(text("body.", "/order/lines/1").as_deref(), Some("b"));
        assert_eq!(text("body.", "/order/lines").as_deref(), Some(r#"["a","b"]"#));
        assert_eq!(text("body.", "/order/none"), None);
        assert_eq!(text("header.", "none"), None);
        assert_eq!(Places::of(None).at("body.", "/order"), FieldValue::Missing);
    }
}
