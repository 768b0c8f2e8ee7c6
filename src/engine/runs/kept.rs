//! What stands for a hidden value keeps it: a message that was shown masked can be sent again as it was shown.
//!
//! Values of JSON are found by their places; those of a list only while it has as many elements as before. Where the
//! mask stands at a place that the rules hide, and nothing was there, the edit is refused with the place: nobody sends
//! three stars for a password. Anywhere else three stars are text.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde_json::value::RawValue;

use crate::ambient;
use crate::domain::mask::{MASK, MaskRules};
use crate::domain::message::{HeaderValue, Message};
use crate::engine::EngineError;

/// Levels of nesting whose values are looked for.
const DEPTH_MAX: usize = 64;

/// The body to be sent.
pub(super) fn body(rules: &MaskRules, before: &[u8], written: &Bytes) -> Result<Bytes, EngineError> {
    if !has_mask(written) {
        return Ok(written.clone());
    }
    let kept = ambient::beside(|| restored(rules, before, written, ""));
    match kept {
        Ok(kept) => Ok(kept.map_or_else(|| written.clone(), Bytes::from)),
        Err(place) => Err(nothing("body", &format!("body {place}"))),
    }
}

/// What was written over a text that was shown masked, with the values of that text where the masks stand; `None`: it
/// stays as it was written.
#[must_use]
pub fn with_values_of(rules: &MaskRules, before: &[u8], written: &[u8]) -> Option<Bytes> {
    let kept = has_mask(written).then(|| restored(rules, before, written, ""))?;
    kept.ok().flatten().map(Bytes::from)
}

/// The header to be sent; nothing where it stays as it is.
pub(super) fn header(
    rules: &MaskRules,
    before: &Message,
    name: &str,
    written: &str,
) -> Result<Option<HeaderValue>, EngineError> {
    let was = before.header(name);
    if written == MASK && rules.hides_header(name) {
        return match was {
            Some(_) => Ok(None),
            None => Err(nothing("headers", &format!("header {name}"))),
        };
    }
    let (Some(HeaderValue::Text(was)), true) = (was, has_mask(written.as_bytes())) else {
        return of_its_kind(name, was, written).map(Some);
    };
    match restored(rules, was, written.as_bytes(), "") {
        Ok(kept) => Ok(Some(
            kept.map_or_else(|| HeaderValue::text(written), |kept| HeaderValue::Text(kept.into())),
        )),
        Err(place) => Err(nothing("headers", &format!("header {name} {place}"))),
    }
}

/// A header that is there keeps its kind; one that is not becomes a text.
fn of_its_kind(name: &str, was: Option<&HeaderValue>, written: &str) -> Result<HeaderValue, EngineError> {
    let Some(was) = was else {
        return Ok(HeaderValue::text(written));
    };
    was.of_this_kind(written).map_err(|kind| EngineError::Invalid {
        field: format!("headers.{name}"),
        message: format!(
            "header {name} is {kind}: give such a value, or remove the header first and set it as text then"
        ),
    })
}

fn nothing(field: &str, place: &str) -> EngineError {
    let place = place.trim_end();
    EngineError::Invalid {
        field: field.to_owned(),
        message: format!("{place} is {MASK}, which keeps the value of before, and there is none: write the value"),
    }
}

fn has_mask(text: &[u8]) -> bool {
    masks_in(text) > 0
}

fn masks_in(text: &[u8]) -> usize {
    let (mut count, mut rest) = (0, text);
    while let Some(at) = rest.windows(MASK.len()).position(|window| window == MASK.as_bytes()) {
        (count, rest) = (count + 1, &rest[at + MASK.len()..]);
    }
    count
}

/// What was written with the values of before; nothing where it stays as it was written. An error names the place.
fn restored(rules: &MaskRules, before: &[u8], written: &[u8], place: &str) -> Result<Option<Vec<u8>>, String> {
    let shown = rules.body(before);
    let outward = std::str::from_utf8(before).map(|text| rules.outward(text).value);
    let is_as_shown = *shown.value == *written || outward.as_ref().is_ok_and(|text| text.as_bytes() == written);
    if is_as_shown {
        return Ok(Some(before.to_vec()));
    }
    if let (Ok(document), Ok(source)) = (
        serde_json::from_slice::<&RawValue>(written),
        std::str::from_utf8(written),
    ) {
        let was = serde_json::from_slice::<&RawValue>(before).ok();
        let mut kept = Kept {
            rules,
            source,
            values: Vec::new(),
        };
        kept.look(document, was, place, 0)?;
        return Ok(kept.finish());
    }
    let hides = shown.hidden > 0 || outward.is_ok_and(|text| text.as_bytes() != before);
    if hides && masks_in(written) > masks_in(before) {
        return Err(place.to_owned());
    }
    Ok(None)
}

/// The values that take the place of masks in a document.
struct Kept<'a> {
    rules: &'a MaskRules,
    source: &'a str,
    /// From where, to where, and what.
    values: Vec<(usize, usize, String)>,
}

impl<'a> Kept<'a> {
    fn look(&mut self, value: &'a RawValue, was: Option<&RawValue>, place: &str, depth: usize) -> Result<(), String> {
        let text = value.get();
        if depth > DEPTH_MAX || !text.contains(MASK) {
            return Ok(());
        }
        match text.as_bytes().first() {
            Some(b'{') => {
                let written = entries(value);
                let were = was.map(entries).unwrap_or_default();
                for (key, value) in written {
                    let place = format!("{place}/{}", key.replace('~', "~0").replace('/', "~1"));
                    self.look(value, were.get(&key).copied(), &place, depth + 1)?;
                }
                Ok(())
            }
            Some(b'[') => {
                let written = items(value);
                let were = was
                    .map(items)
                    .filter(|were| were.len() == written.len())
                    .unwrap_or_default();
                for (at, value) in written.into_iter().enumerate() {
                    self.look(value, were.get(at).copied(), &format!("{place}/{at}"), depth + 1)?;
                }
                Ok(())
            }
            _ => self.string(value, was, place),
        }
    }

    fn string(&mut self, value: &'a RawValue, was: Option<&RawValue>, place: &str) -> Result<(), String> {
        let Ok(text) = serde_json::from_str::<String>(value.get()) else {
            return Ok(());
        };
        if self.rules.hides_place(place) {
            if text == MASK {
                let was = was.ok_or(place)?;
                self.take(value, was.get().to_owned());
            }
            return Ok(());
        }
        let was = was.and_then(|was| serde_json::from_str::<String>(was.get()).ok());
        let was = was.unwrap_or_default();
        if let Some(kept) = restored(self.rules, was.as_bytes(), text.as_bytes(), place)? {
            let kept = String::from_utf8_lossy(&kept).into_owned();
            self.take(value, serde_json::Value::String(kept).to_string());
        }
        Ok(())
    }

    fn take(&mut self, value: &'a RawValue, kept: String) {
        // It is a part of the source.
        let from = value.get().as_ptr().addr() - self.source.as_ptr().addr();
        self.values.push((from, from + value.get().len(), kept));
    }

    fn finish(mut self) -> Option<Vec<u8>> {
        self.values.sort_by_key(|(from, _, _)| *from);
        let (mut out, mut copied) = (String::new(), 0);
        for (from, to, kept) in &self.values {
            out.push_str(self.source.get(copied..*from)?);
            out.push_str(kept);
            copied = *to;
        }
        out.push_str(self.source.get(copied..)?);
        (!self.values.is_empty()).then(|| out.into_bytes())
    }
}

fn entries(object: &RawValue) -> BTreeMap<String, &RawValue> {
    serde_json::from_str(object.get()).unwrap_or_default()
}

fn items(list: &RawValue) -> Vec<&RawValue> {
    serde_json::from_str(list.get()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::mask::MaskRule;

    fn rules() -> MaskRules {
        MaskRules::new(vec![MaskRule::parse("/account/number").unwrap()], Vec::new())
    }

    fn kept(before: &str, written: &str) -> Result<String, String> {
        match body(&rules(), before.as_bytes(), &Bytes::copy_from_slice(written.as_bytes())) {
            Ok(body) => Ok(String::from_utf8(body.to_vec()).unwrap()),
            Err(EngineError::Invalid { message, .. }) => Err(message),
            Err(other) => panic!("{other:?}"),
        }
    }

    const BEFORE: &str = r#"{"a": 1.50, "password": ["x", "y"], "account": {"number": 4111}, "people": [{"token": "1"}, {"token": "2"}], "url": "https://a/?k=v", "inner": "{\"pin\":\"7\",\"b\":1}"}"#;

    #[test]
    fn a_document_that_was_shown_comes_back_whole_with_what_was_written_beside() {
        for shown in [
            rules().text(BEFORE).value.into_owned(),
            rules().outward(BEFORE).value.into_owned(),
        ] {
            assert!(shown.contains(MASK) && !shown.contains("4111"), "{shown}");
            assert_eq!(kept(BEFORE, &shown).unwrap(), BEFORE);
            let changed = shown.replace("1.50", "2.5");
            assert_eq!(kept(BEFORE, &changed).unwrap(), BEFORE.replace("1.50", "2.5"));
        }
    }

    #[test]
    fn where_nothing_was_nothing_is_kept() {
        for (written, place) in [
            (r#"{"secret": "***"}"#, "body /secret"),
            (
                r#"{"account": {"x": 1, "number": "***"}, "new": {"a/b": {"token": "***"}}}"#,
                "body /new/a~1b/token",
            ),
            (r#"{"people": [{"token": "***"}]}"#, "body /people/0/token"),
            (
                r#"{"inner": "{\"password\":\"***\",\"pin\":\"***\"}"}"#,
                "body /inner/password",
            ),
            (r#"{"url": "https://b/?k=***"}"#, "body /url"),
            ("password: ***", "body"),
        ] {
            let why = kept(BEFORE, written).unwrap_err();
            assert!(why.starts_with(&format!("{place} is ***")), "{written}: {why}");
        }
    }

    #[test]
    fn stars_where_nothing_is_hidden_are_text() {
        for written in [r#"{"a": "***", "note": "a *** b"}"#, "***", r#"{"a": 1}"#] {
            assert_eq!(kept(r#"{"a": 1}"#, written).unwrap(), written);
        }
        assert_eq!(
            kept("user=a&password=b", "user=a&password=***").unwrap(),
            "user=a&password=b"
        );
    }

    #[test]
    fn depth_is_no_danger() {
        let deep = format!("{}\"***\"{}", "[".repeat(100_000), "]".repeat(100_000));
        assert_eq!(kept(&deep, &deep).unwrap(), deep);
        let deep = format!("{}\"***\"{}", "{\"token\":".repeat(100_000), "}".repeat(100_000));
        let _ = kept("{}", &deep);
    }

    #[test]
    fn a_header_keeps_its_value_whatever_its_kind() {
        let before = Message {
            headers: vec![
                ("x-token".to_owned(), HeaderValue::I32(7)),
                ("x-note".to_owned(), HeaderValue::text("a=1&password=b")),
            ],
            ..Message::default()
        };
        let header = |name: &str, value: &str| header(&rules(), &before, name, value);
        assert_eq!(header("x-token", "***").unwrap(), None);
        assert_eq!(header("x-token", "8").unwrap(), Some(HeaderValue::I32(8)));
        assert!(header("x-token", "eight").is_err());
        assert_eq!(header("x-new", "8").unwrap(), Some(HeaderValue::text("8")));
        let note = header("x-note", "a=1&password=***").unwrap();
        assert_eq!(note, Some(HeaderValue::text("a=1&password=b")));
        assert!(header("authorization", "***").is_err() && header("x-note", "a=2&password=***").is_err());
    }
}
