//! An expression and what it says about a row. Total: whatever a row answers, there is a result.

use std::cmp::Ordering;
use std::time::Duration;

use regex::Regex;

use super::lexer::Operator;
use super::{Condition, FieldValue, Fields};

/// A regular expression looks at the beginning of a text, at most this many bytes of it.
const SCANNED_BYTES_MAX: usize = 4 * 1024;

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
    Pattern(Regex),
    Number(f64),
    Duration(Duration),
    Bool(bool),
}

impl Expression {
    pub(super) fn matches(&self, row: &dyn Fields) -> bool {
        match self {
            Self::All(parts) => parts.iter().all(|part| part.matches(row)),
            Self::Any(parts) => parts.iter().any(|part| part.matches(row)),
            Self::Not(part) => !part.matches(row),
            Self::Comparison(comparison) => comparison.matches(&comparison.value(row)),
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

    fn matches(&self, value: &FieldValue<'_>) -> bool {
        let order = match (value, &self.literal) {
            (FieldValue::Words(words), Literal::Part(part)) => {
                return words.iter().any(|word| word.contains(part.as_str()));
            }
            (FieldValue::Words(words), Literal::Pattern(pattern)) => {
                return words.iter().any(|word| pattern.is_match(word));
            }
            (FieldValue::Words(words), Literal::Text(literal)) => compare(words, literal),
            (FieldValue::Text(text), Literal::Part(part)) => return text.to_lowercase().contains(part.as_str()),
            (FieldValue::Text(text), Literal::Pattern(pattern)) => return pattern.is_match(beginning(text)),
            (FieldValue::Text(text), Literal::Text(literal)) => Some(text.as_ref().cmp(literal.as_str())),
            (FieldValue::Number(number), Literal::Number(literal)) => number.partial_cmp(literal),
            (FieldValue::Text(text), Literal::Number(literal)) => {
                text.parse().ok().and_then(|number: f64| number.partial_cmp(literal))
            }
            (FieldValue::Duration(span), Literal::Duration(literal)) => Some(span.cmp(literal)),
            (FieldValue::Bool(flag), Literal::Bool(literal)) => Some(flag.cmp(literal)),
            // Missing, or not of the kind that was announced.
            _ => None,
        };
        match self.operator {
            Operator::Equal | Operator::Contains => order == Some(Ordering::Equal),
            Operator::NotEqual => order != Some(Ordering::Equal),
            Operator::Less => order == Some(Ordering::Less),
            Operator::LessOrEqual => order.is_some_and(Ordering::is_le),
            Operator::Greater => order == Some(Ordering::Greater),
            Operator::GreaterOrEqual => order.is_some_and(Ordering::is_ge),
        }
    }
}

/// Equal to any of the words; else by the one that is printed.
fn compare(words: &[&str], literal: &str) -> Option<Ordering> {
    if words.contains(&literal) {
        return Some(Ordering::Equal);
    }
    words.first().map(|word| (*word).cmp(literal))
}

fn beginning(text: &str) -> &str {
    text.get(..text.floor_char_boundary(SCANNED_BYTES_MAX)).unwrap_or(text)
}
