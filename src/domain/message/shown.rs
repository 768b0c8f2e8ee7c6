//! A header's value as a line for people: hidden characters escaped, nested ones in the manner of JSON.

use std::fmt::Write;

use super::HeaderValue;
use crate::domain::text::show_bytes;

impl HeaderValue {
    /// At most about `max` characters of it.
    #[must_use]
    pub fn shown(&self, max: usize) -> String {
        let mut text = String::new();
        put(&mut text, self, max);
        if text.len() > max {
            text.truncate(text.floor_char_boundary(max));
            text.push('…');
        }
        text
    }
}

fn put(text: &mut String, value: &HeaderValue, max: usize) {
    if text.len() > max {
        return;
    }
    match value {
        HeaderValue::Text(bytes) | HeaderValue::Bytes(bytes) => text.push_str(&show_bytes(bytes, max)),
        HeaderValue::Other(shown) => text.push_str(&show_bytes(shown.as_bytes(), max)),
        HeaderValue::Bool(flag) => text.push_str(&flag.to_string()),
        HeaderValue::Float(number) => text.push_str(&number.to_string()),
        HeaderValue::Double(number) => text.push_str(&number.to_string()),
        // Writing to a string cannot fail.
        HeaderValue::Decimal { scale, value } => drop(write!(text, "{value}e-{scale}")),
        HeaderValue::Timestamp(seconds) => drop(write!(text, "timestamp {seconds}")),
        HeaderValue::Void => text.push_str("null"),
        HeaderValue::Array(values) => {
            text.push('[');
            for (position, value) in values.iter().enumerate() {
                comma(text, position);
                put(text, value, max);
            }
            text.push(']');
        }
        HeaderValue::Table(entries) => {
            text.push('{');
            for (position, (name, value)) in entries.iter().enumerate() {
                comma(text, position);
                text.push_str(&show_bytes(name.as_bytes(), max));
                text.push_str(": ");
                put(text, value, max);
            }
            text.push('}');
        }
        HeaderValue::Integer(_)
        | HeaderValue::I8(_)
        | HeaderValue::U8(_)
        | HeaderValue::I16(_)
        | HeaderValue::U16(_)
        | HeaderValue::I32(_)
        | HeaderValue::U32(_) => text.push_str(&value.as_integer().unwrap_or_default().to_string()),
    }
}

fn comma(text: &mut String, position: usize) {
    if position > 0 {
        text.push_str(", ");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nested_values_are_one_bounded_line() {
        let value = HeaderValue::Table(vec![
            (
                "a".into(),
                HeaderValue::Array(vec![HeaderValue::U8(1), HeaderValue::Void]),
            ),
            ("b".into(), HeaderValue::text("x\u{1b}[2J")),
        ]);
        let shown = value.shown(200);
        assert!(shown.starts_with("{a: [1, null], b: x"), "{shown}");
        assert!(!shown.contains('\u{1b}'));
        assert!(HeaderValue::Array(vec![HeaderValue::Void; 5000]).shown(100).len() < 110);
    }
}
