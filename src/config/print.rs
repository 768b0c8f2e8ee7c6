//! The resolved configuration as TOML, for people: everything that was left out is there, secrets are not.

use std::fmt::Write as _;

use crate::domain::value::Value;

use super::keys::Keys;

/// The text so far.
#[derive(Default)]
pub(super) struct Page(pub(super) String);

impl Page {
    /// A table with what is shown of its keys.
    pub(super) fn table(&mut self, header: &str, keys: &impl Keys) {
        if !self.0.is_empty() {
            self.0.push('\n');
        }
        let _ = writeln!(self.0, "{header}");
        for (key, value) in keys.shown() {
            let _ = writeln!(self.0, "{key} = {}", toml(&value));
        }
    }

    /// As comments, what is already in the sections: a profile.
    pub(super) fn comments(&mut self, name: &str, keys: &impl Keys) {
        let _ = writeln!(self.0, "# profile = {}", quoted(name));
        for (key, value) in keys.shown() {
            let _ = writeln!(self.0, "# {key} = {}", toml(&value));
        }
    }
}

/// A value on one line.
pub(super) fn toml(value: &Value) -> String {
    match value {
        Value::Null => quoted(""),
        Value::Bool(flag) => flag.to_string(),
        Value::Integer(integer) => integer.to_string(),
        Value::Number(number) => format!("{number:?}"),
        Value::Text(text) => quoted(text),
        Value::List(items) => format!("[{}]", items.iter().map(toml).collect::<Vec<_>>().join(", ")),
        Value::Table(entries) if entries.is_empty() => "{}".to_owned(),
        Value::Table(entries) => {
            let entries = entries
                .iter()
                .map(|(key, value)| format!("{} = {}", key_text(key), toml(value)));
            format!("{{ {} }}", entries.collect::<Vec<_>>().join(", "))
        }
    }
}

fn key_text(key: &str) -> String {
    let bare = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
    if !key.is_empty() && key.bytes().all(bare) {
        return key.to_owned();
    }
    quoted(key)
}

/// A text as TOML writes it.
#[must_use]
pub fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for character in text.chars() {
        match character {
            '"' | '\\' => quoted.extend(['\\', character]),
            other if other.is_control() => {
                let _ = write!(quoted, "\\u{:04X}", u32::from(other));
            }
            other => quoted.push(other),
        }
    }
    quoted.push('"');
    quoted
}
