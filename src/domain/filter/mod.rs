//! The filter expressions of console, commands and routes: `depth > 100 and state = unavailable`.
//!
//! ```text
//! expression  = all ("or" all)*
//! all         = one ("and" one)*
//! one         = "not" one | "(" expression ")" | comparison
//! comparison  = field operator value
//! operator    = "=" | "!=" | "<" | "<=" | ">" | ">=" | "~"
//! value       = "text in \"quotes\"" | word | after "~" also /regular expression/
//! ```
//!
//! A field has a kind, and its value is read by it: `depth > 10k`, `age > 2h`, `paused = true`, `nbf < 2026-12-01`. Text is
//! compared exactly (`<` and `>` by its characters), `~` finds a
//! part of it in any letter case. A field whose name ends in a full stop is a family, and what is behind it a place in
//! it: `header.tenant = t1`, `body./order/id ~ "^9"` (a JSON pointer, with `~0` and `~1` for `~` and `/` in a name). What is
//! not known is neither equal nor greater nor less: a number that is missing is never zero, and only `!=` fits it. An error
//! says where, and what was expected there.
//!
//! Length, depth and the size of the regular expressions are bounded; the source of the values is the
//! caller's ([`Fields`]). Of a text that is too large to be searched no answer is made up ([`TooLarge`]).

mod evaluate;
mod lexer;
mod parser;

use std::borrow::Cow;
use std::time::Duration;

use evaluate::Expression;

use super::time::Timestamp;

/// An expression has at most this many bytes.
pub const EXPRESSION_BYTES_MAX: usize = 4096;
/// Parentheses and `not` stand at most this deep inside each other.
pub const DEPTH_MAX: usize = 64;
/// The place in a family of fields has at most this many bytes.
pub const PLACE_BYTES_MAX: usize = 256;
/// A regular expression has at most this many bytes.
pub const PATTERN_BYTES_MAX: usize = 1024;

/// A name that an expression may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// The name, in lower case.
    pub name: &'static str,
    /// What its values are.
    pub kind: FieldKind,
}

impl Field {
    /// A field of this name and kind.
    #[must_use]
    pub const fn new(name: &'static str, kind: FieldKind) -> Self {
        Self { name, kind }
    }
}

/// What the values of a field are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldKind {
    /// Text.
    Text,
    /// One of these words; another one is refused where it is compared as a whole.
    Word(&'static [&'static str]),
    /// A number: `100`, `1.5`, `10k`, `2M`, `1G`.
    Number,
    /// A span of time: `30s`, `5m`, `2h`, `3d`.
    Duration,
    /// `true` or `false`.
    Bool,
    /// A point in time: `2026-12-01T08:30:00Z`, or the beginning of one, in UTC: `2026-12-01`.
    Time,
}

/// The value of a field of one row.
#[derive(Clone, Debug, PartialEq)]
pub enum FieldValue<'a> {
    /// It has none, or it is not known.
    Missing,
    /// Text.
    Text(Cow<'a, str>),
    /// A word with others that mean the same, the one that is printed first.
    Words(&'static [&'static str]),
    /// A number.
    Number(f64),
    /// A span of time.
    Duration(Duration),
    /// True or false.
    Bool(bool),
    /// A number as JSON writes it, in all its digits.
    Numeral(Cow<'a, str>),
    /// A point in time.
    Time(Timestamp),
    /// It cannot be told: what it stands in has more bytes than are looked at.
    TooLarge(TooLarge),
}

/// A text that is too large for what a filter asks of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a text of {bytes} bytes; at most {bytes_max} can be looked at")]
pub struct TooLarge {
    /// Its bytes.
    pub bytes: usize,
    /// As many could be looked at.
    pub bytes_max: usize,
}

/// A row that can be filtered.
pub trait Fields {
    /// The value of this field, of the kind that was announced for it; anything else counts as missing.
    fn field(&self, name: &str) -> FieldValue<'_>;

    /// The value at this place of a family of fields (`header.`, `body.`), as text.
    fn at(&self, _family: &str, _place: &str) -> FieldValue<'_> {
        FieldValue::Missing
    }
}

/// An expression that was read.
#[derive(Clone, Debug)]
pub struct Filter {
    source: String,
    expression: Expression,
}

impl Filter {
    /// Reads an expression over these fields.
    ///
    /// # Errors
    /// The first place that is wrong.
    pub fn parse(source: &str, fields: &[Field]) -> Result<Self, FilterError> {
        let expression = parser::parse(source, fields)?;
        Ok(Self {
            source: source.to_owned(),
            expression,
        })
    }

    /// Whether a row is in.
    ///
    /// # Errors
    /// It depends on a text that is too large: neither the filter nor its opposite has the row.
    pub fn ask(&self, row: &dyn Fields) -> Result<bool, TooLarge> {
        self.expression.ask(row)
    }

    /// Whether a row is in, where nothing is so large that this cannot be told.
    #[must_use]
    pub fn matches(&self, row: &dyn Fields) -> bool {
        self.ask(row).unwrap_or(false)
    }

    /// What must hold of every row that is in, as far as it is plain: for a store that can look it up.
    #[must_use]
    pub fn conditions(&self) -> Vec<Condition<'_>> {
        self.expression.conditions()
    }

    /// Whether it asks for a place of a family, which only the whole row has.
    #[must_use]
    pub fn asks_for_places(&self) -> bool {
        self.expression.asks_for_places()
    }

    /// The expression as it was written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.source
    }
}

/// A plain condition of a filter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Condition<'a> {
    /// A text field is exactly this.
    Is(&'static str, &'a str),
    /// A text field has this part, in any letter case; in lower case.
    Contains(&'static str, &'a str),
    /// A truth value is true.
    Holds(&'static str),
    /// A number is this or more.
    AtLeast(&'static str, f64),
    /// A span is this or longer.
    Longer(&'static str, Duration),
}

/// Two filters are the same when they were written alike.
impl PartialEq for Filter {
    fn eq(&self, other: &Self) -> bool {
        self.source == other.source
    }
}

impl Eq for Filter {}

/// Where an expression is wrong, and what was expected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("column {column}: {message}")]
pub struct FilterError {
    /// The place, in characters from 1.
    pub column: usize,
    /// What was expected there and what was found; safe to show.
    pub message: String,
    /// For an unknown field or word: the known one that was probably meant.
    pub nearest: Option<String>,
}

impl FilterError {
    fn at(column: usize, message: impl Into<String>) -> Self {
        Self {
            column,
            message: message.into(),
            nearest: None,
        }
    }
}

#[cfg(test)]
mod tests;
