//! An expression and what it says about a row. Total: whatever a row answers, there is a result.

use std::cmp::Ordering;
use std::time::Duration;

use regex::Regex;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::super::decimal::Decimal;
use super::super::time::Timestamp;
use super::lexer::Operator;
use super::{Condition, FieldValue, Fields, TooLarge};

/// What was read. Chains are lists, so that its depth is that of the parentheses.
#[derive(Clone, Debug)]
pub(super) enum Expression {
    All(Vec<Expression>),
    Any(Vec<Expression>),
    Not(Box<Expression>),
    Comparison(Comparison),
}

/// One field against one value.
#[derive(Clone, Debug)]
pub(super) struct Comparison {
    pub(super) field: &'static str,
    /// Where in the field, which is a family then.
    pub(super) place: Option<String>,
    pub(super) operator: Operator,
    pub(super) literal: Literal,
}

/// The right side, in the kind of its field.
#[derive(Clone, Debug)]
pub(super) enum Literal {
    Text(String),
    /// To be found anywhere in the text; in lower case.
    Part(String),
    Pattern(Box<Pattern>),
    Number(f64),
    Duration(Duration),
    Bool(bool),
    /// Microseconds since 1970, and the nanoseconds behind them: a person may write more digits than a time has.
    Time(i64, u16),
    Scalar(Box<Scalar>),
}

/// What a place is compared with, of which nobody says what kind it is.
#[derive(Clone, Debug)]
pub(super) struct Scalar {
    pub(super) text: String,
    /// The same, where it is a number.
    pub(super) number: Option<Decimal>,
}

/// A regular expression, with how much of a text it can search in a bounded time.
#[derive(Clone, Debug)]
pub(super) struct Pattern {
    pub(super) regex: Regex,
    /// It takes at most so many.
    pub(super) compiled_bytes: usize,
    pub(super) text_bytes_max: usize,
}

impl Scalar {
    /// How a text stands to it, as numbers where both may be ones.
    fn order(&self, text: &str, as_numbers: bool) -> Option<Ordering> {
        match self.number.as_ref().filter(|_| as_numbers) {
            Some(literal) => Decimal::read(text).map(|number| number.compare(literal)),
            None => Some(text.cmp(self.text.as_str())),
        }
    }
}

impl Pattern {
    fn fits(&self, text: &str) -> Result<bool, TooLarge> {
        if text.len() > self.text_bytes_max {
            return Err(TooLarge {
                bytes: text.len(),
                bytes_max: self.text_bytes_max,
            });
        }
        Ok(self.regex.is_match(text))
    }
}

impl Expression {
    /// What cannot be told of one part matters only where no other part decides.
    pub(super) fn ask(&self, row: &dyn Fields) -> Result<bool, TooLarge> {
        match self {
            Self::All(parts) => joined(parts, row, false),
            Self::Any(parts) => joined(parts, row, true),
            Self::Not(part) => part.ask(row).map(|is_in| !is_in),
            Self::Comparison(comparison) => comparison.ask(&comparison.value(row)),
        }
    }

    pub(super) fn asks_for_places(&self) -> bool {
        match self {
            Self::All(parts) | Self::Any(parts) => parts.iter().any(Self::asks_for_places),
            Self::Not(part) => part.asks_for_places(),
            Self::Comparison(comparison) => comparison.place.is_some(),
        }
    }
}

/// Parts of which one that says `decisive` decides for all.
fn joined(parts: &[Expression], row: &dyn Fields, decisive: bool) -> Result<bool, TooLarge> {
    let mut joined = Ok(!decisive);
    for part in parts {
        match part.ask(row) {
            Ok(is_in) if is_in == decisive => return Ok(decisive),
            Ok(_) => {}
            Err(too_large) => joined = Err(too_large),
        }
    }
    joined
}

impl Expression {
    pub(super) fn conditions(&self) -> Vec<Condition<'_>> {
        match self {
            Self::All(parts) => parts.iter().flat_map(Self::conditions).collect(),
            Self::Comparison(comparison) => comparison.condition().into_iter().collect(),
            Self::Any(parts) => match parts.as_slice() {
                [one] => one.conditions(),
                _ => Vec::new(),
            },
            Self::Not(_) => Vec::new(),
        }
    }
}

impl Comparison {
    fn value<'r>(&self, row: &'r dyn Fields) -> FieldValue<'r> {
        match &self.place {
            Some(place) => row.at(self.field, place),
            None => row.field(self.field),
        }
    }

    fn condition(&self) -> Option<Condition<'_>> {
        if self.place.is_some() {
            return None;
        }
        match (self.operator, &self.literal) {
            (Operator::Equal, Literal::Text(text)) => Some(Condition::Is(self.field, text)),
            (Operator::Contains, Literal::Part(part)) => Some(Condition::Contains(self.field, part)),
            (Operator::Equal, Literal::Bool(true)) => Some(Condition::Holds(self.field)),
            (Operator::Equal | Operator::Greater | Operator::GreaterOrEqual, Literal::Number(number)) => {
                Some(Condition::AtLeast(self.field, *number))
            }
            (Operator::Greater | Operator::GreaterOrEqual, Literal::Duration(span)) => {
                Some(Condition::Longer(self.field, *span))
            }
            _ => None,
        }
    }

    fn ask(&self, value: &FieldValue<'_>) -> Result<bool, TooLarge> {
        if let FieldValue::TooLarge(too_large) = value {
            return Err(*too_large);
        }
        match &self.literal {
            Literal::Part(part) => Ok(texts(value, |text| text.to_lowercase().contains(part.as_str()))),
            Literal::Pattern(pattern) => {
                let mut found = Ok(false);
                texts(value, |text| {
                    found = pattern.fits(text);
                    found != Ok(false)
                });
                found
            }
            Literal::Text(_)
            | Literal::Number(_)
            | Literal::Duration(_)
            | Literal::Bool(_)
            | Literal::Time(..)
            | Literal::Scalar(_) => Ok(self.operator.fits(self.order(value))),
        }
    }

    fn order(&self, value: &FieldValue<'_>) -> Option<Ordering> {
        match (value, &self.literal) {
            (FieldValue::Words(words), Literal::Text(literal)) => compare(words, literal),
            (FieldValue::Text(text), Literal::Text(literal)) => Some(text.as_ref().cmp(literal.as_str())),
            (FieldValue::Number(number), Literal::Number(literal)) => number.partial_cmp(literal),
            (FieldValue::Duration(span), Literal::Duration(literal)) => Some(span.cmp(literal)),
            (FieldValue::Bool(flag), Literal::Bool(literal)) => Some(flag.cmp(literal)),
            (FieldValue::Time(at), Literal::Time(micros, nanos)) => Some((at.micros(), 0).cmp(&(*micros, *nanos))),
            (FieldValue::Numeral(text), Literal::Scalar(literal)) => literal.order(text, true),
            // What is text in a body or a header may be the digits of an order, where 007 is not 7.
            (FieldValue::Text(text), Literal::Scalar(literal)) => literal.order(text, self.operator.orders()),
            // Missing, or not of the kind that was announced.
            _ => None,
        }
    }
}

/// Whether one of the texts of a value fits.
fn texts(value: &FieldValue<'_>, mut fits: impl FnMut(&str) -> bool) -> bool {
    match value {
        FieldValue::Text(text) | FieldValue::Numeral(text) => fits(text),
        FieldValue::Words(words) => words.iter().any(|word| fits(word)),
        FieldValue::Time(at) => shown(*at).is_some_and(|text| fits(&text)),
        FieldValue::Missing
        | FieldValue::Number(_)
        | FieldValue::Duration(_)
        | FieldValue::Bool(_)
        | FieldValue::TooLarge(_) => false,
    }
}

/// A point in time as documents show it.
fn shown(at: Timestamp) -> Option<String> {
    let at = OffsetDateTime::from_unix_timestamp_nanos(i128::from(at.micros()) * 1_000).ok()?;
    at.format(&Rfc3339).ok()
}

/// Equal to any of the words; else by the one that is printed.
fn compare(words: &[&str], literal: &str) -> Option<Ordering> {
    if words.contains(&literal) {
        return Some(Ordering::Equal);
    }
    words.first().map(|word| (*word).cmp(literal))
}
