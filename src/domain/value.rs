//! A small tree of plain values: what JSON and TOML have in common.
//!
//! `domain` knows no serialisation format; the edges turn what was written into a `Value` and hand it
//! over, so that a rule about it stands once. It keeps integers and other numbers apart, because `5`
//! and `5.0` are not the same answer to "how many". Dates are left to the edges as text.

/// One plain value.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Nothing.
    Null,
    /// True or false.
    Bool(bool),
    /// A number written without fraction or exponent.
    Integer(i128),
    /// Any other number.
    Number(f64),
    /// A string.
    Text(String),
    /// A list.
    List(Vec<Value>),
    /// Keys and values, in the order written.
    Table(Vec<(String, Value)>),
}

impl Value {
    /// What kind of value this is, with its article, for an error message.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "a boolean",
            Self::Integer(_) => "an integer",
            Self::Number(_) => "a fractional number",
            Self::Text(_) => "a string",
            Self::List(_) => "a list",
            Self::Table(_) => "a table",
        }
    }
}

/// Conversion for tests, as an edge does it.
#[cfg(test)]
pub(crate) fn from_json(json: &serde_json::Value) -> Value {
    match json {
        serde_json::Value::Null => Value::Null,
        serde_json::Value::Bool(flag) => Value::Bool(*flag),
        serde_json::Value::Number(number) => match number.as_i128() {
            Some(integer) => Value::Integer(integer),
            None => Value::Number(number.as_f64().unwrap()),
        },
        serde_json::Value::String(text) => Value::Text(text.clone()),
        serde_json::Value::Array(items) => Value::List(items.iter().map(from_json).collect()),
        serde_json::Value::Object(entries) => Value::Table(
            entries
                .iter()
                .map(|(key, value)| (key.clone(), from_json(value)))
                .collect(),
        ),
    }
}
