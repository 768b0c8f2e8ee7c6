//! JSON text that is safe to print: what could move a cursor, reorder or hide is written as `\u…`.
//!
//! The document is the same to every parser; only its spelling differs from the usual one.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::ser::{CompactFormatter, Formatter, PrettyFormatter};

use crate::domain::text::is_hidden;

/// One line.
pub fn compact(value: &impl Serialize) -> Vec<u8> {
    write(value, CompactFormatter)
}

/// For people too.
pub fn pretty(value: &impl Serialize) -> Vec<u8> {
    write(value, PrettyFormatter::new())
}

#[expect(
    clippy::expect_used,
    reason = "the shapes of this layer have string keys and finite numbers"
)]
fn write(value: &impl Serialize, formatter: impl Formatter) -> Vec<u8> {
    let mut text = Vec::with_capacity(256);
    let mut serializer = serde_json::Serializer::with_formatter(&mut text, Safe(formatter));
    value
        .serialize(&mut serializer)
        .expect("a shape has string keys and is written to memory");
    text
}

/// Another formatter, with hidden characters escaped.
struct Safe<F>(F);

impl<F: Formatter> Formatter for Safe<F> {
    fn write_string_fragment<W: ?Sized + Write>(&mut self, writer: &mut W, fragment: &str) -> io::Result<()> {
        if fragment.is_ascii() && !fragment.contains('\x7f') {
            return writer.write_all(fragment.as_bytes());
        }
        let mut units = [0; 2];
        let mut utf8 = [0; 4];
        for character in fragment.chars() {
            if is_hidden(character) {
                for unit in character.encode_utf16(&mut units) {
                    write!(writer, "\\u{unit:04x}")?;
                }
            } else {
                writer.write_all(character.encode_utf8(&mut utf8).as_bytes())?;
            }
        }
        Ok(())
    }

    fn begin_array<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.begin_array(writer)
    }
    fn end_array<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.end_array(writer)
    }
    fn begin_array_value<W: ?Sized + Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        self.0.begin_array_value(writer, first)
    }
    fn end_array_value<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.end_array_value(writer)
    }
    fn begin_object<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.begin_object(writer)
    }
    fn end_object<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.end_object(writer)
    }
    fn begin_object_key<W: ?Sized + Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        self.0.begin_object_key(writer, first)
    }
    fn begin_object_value<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.begin_object_value(writer)
    }
    fn end_object_value<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.end_object_value(writer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hidden_characters_are_escaped_and_the_document_stays_the_same() {
        let value = serde_json::json!({"name": "a\u{1b}[2J\u{202e}b\u{7f}\u{e0041}é", "list": [1, null]});
        for text in [compact(&value), pretty(&value)] {
            let text = String::from_utf8(text).unwrap();
            assert!(!text.chars().any(|c| c != '\n' && is_hidden(c)), "{text:?}");
            assert!(text.contains('é'));
            assert_eq!(serde_json::from_str::<serde_json::Value>(&text).unwrap(), value);
        }
    }
}
