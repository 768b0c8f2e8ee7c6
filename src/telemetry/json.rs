//! The log for programs: one JSON object a line.
//!
//! Text from outside is logged with `?`, which quotes it for lines that people read. Here JSON quotes, and a value is the
//! text, the number or the list itself.

use std::fmt;

use serde_json::Value;
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

/// Writes `timestamp`, `level`, `message`, the fields and `target`.
pub(super) struct Objects;

impl<S, N> FormatEvent<S, N> for Objects
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'writer> FormatFields<'writer> + 'static,
{
    fn format_event(&self, _: &FmtContext<'_, S, N>, mut writer: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let mut timestamp = String::new();
        SystemTime.format_time(&mut Writer::new(&mut timestamp))?;
        let mut fields = Fields::default();
        fields.add("timestamp", timestamp.into());
        fields.add("level", event.metadata().level().as_str().into());
        event.record(&mut fields);
        fields.add("target", event.metadata().target().into());
        for (at, (name, value)) in fields.0.into_iter().enumerate() {
            let before = if at == 0 { '{' } else { ',' };
            write!(writer, "{before}{}:", Value::from(name))?;
            for c in value.to_string().chars() {
                if is_shown(c) {
                    writer.write_char(c)?;
                } else {
                    for unit in c.encode_utf16(&mut [0; 2]) {
                        write!(writer, "\\u{unit:04x}")?;
                    }
                }
            }
        }
        writeln!(writer, "}}")
    }
}

/// JSON escapes the other control characters.
fn is_shown(c: char) -> bool {
    (c.is_ascii() && c != '\u{7f}') || c.escape_debug().len() == 1
}

#[derive(Default)]
struct Fields(Vec<(&'static str, Value)>);

impl Fields {
    fn add(&mut self, name: &'static str, value: Value) {
        self.0.push((name, value));
    }
}

impl Visit for Fields {
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.add(field.name(), value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.add(field.name(), value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.add(field.name(), value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.add(field.name(), value.into());
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.add(field.name(), value.into());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let text = format!("{value:?}");
        let value = match field.name() {
            "message" => text.into(),
            _ => unquoted(&text),
        };
        self.add(field.name(), value);
    }
}

/// What `{:?}` made of a text, a number, or one that may be missing; the text as it is where it is none of these.
fn unquoted(text: &str) -> Value {
    if text == "None" {
        return Value::Null;
    }
    if let Some(inner) = text.strip_prefix("Some(").and_then(|rest| rest.strip_suffix(')')) {
        return unquoted(inner);
    }
    let quoted = text.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    if let Some(value) = quoted.and_then(unescaped) {
        return value.into();
    }
    match serde_json::from_str(text) {
        Ok(value @ (Value::Number(_) | Value::Bool(_))) => value,
        Ok(_) | Err(_) => text.into(),
    }
}

/// The text that `{:?}` escaped; `None` where it did not.
fn unescaped(text: &str) -> Option<String> {
    let mut made = String::with_capacity(text.len());
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        made.push(match c {
            '"' => return None,
            '\\' => match rest.next()? {
                'n' => '\n',
                'r' => '\r',
                't' => '\t',
                '0' => '\0',
                'u' => {
                    let digits: String = rest.by_ref().skip(1).take_while(|digit| *digit != '}').collect();
                    char::from_u32(u32::from_str_radix(&digits, 16).ok()?)?
                }
                other @ ('"' | '\\' | '\'') => other,
                _ => return None,
            },
            other => other,
        });
    }
    Some(made)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_what_was_logged_and_not_how_it_is_quoted() {
        for text in [
            "a",
            "",
            "q\"uo\\te'd",
            "line\nnext\ttab\r\0",
            "\u{1b}[2J",
            "\u{202e}bidi",
            "äöü 🦀",
            "None",
            "12",
        ] {
            assert_eq!(unquoted(&format!("{text:?}")), Value::from(text));
            assert_eq!(unquoted(&format!("{:?}", Some(text))), Value::from(text));
        }
        assert_eq!(unquoted(&format!("{:?}", None::<u8>)), Value::Null);
        assert_eq!(unquoted(&format!("{:?}", Some(3))), Value::from(3));
        assert_eq!(unquoted("true"), Value::from(true));
        assert_eq!(unquoted("1.5s"), Value::from("1.5s"));
        assert_eq!(unquoted("[\"a\", \"b\"]"), Value::from("[\"a\", \"b\"]"));
        assert_eq!(unquoted("\"a\", \"b\""), Value::from("\"a\", \"b\""));
    }
}
