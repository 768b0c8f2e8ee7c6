//! The filter line of a list: what is typed, and what the list is filtered by meanwhile.
//!
//! A list is always filtered by the last text that could be read, so a half-typed expression never
//! empties it. Words that are no expression are looked for in all texts of the rows, and a row has to have each of them; a
//! word that could still become a field's name is looked for only when the line is left with Enter. So is a
//! `/regular expression/`, and with a `!` before either the rows are shown that do not have it.

use super::Row;
use crate::domain::filter::{Field, FieldKind, Filter, FilterError};

const KEYWORDS: [&str; 3] = ["not", "and", "or"];

/// The filter of a list while it is typed and after.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ListFilter {
    /// As typed.
    pub text: String,
    /// The last text that could be read; what the list is filtered by.
    pub applied: Option<Filter>,
    /// Why the text cannot be read, with the place.
    pub error: Option<FilterError>,
}

impl ListFilter {
    /// What it says, once it was read.
    #[must_use]
    pub fn written(&self) -> Option<String> {
        self.applied.as_ref().map(|filter| filter.as_str().to_owned())
    }

    /// Takes the text as it is typed.
    pub fn write<R: Row>(&mut self, text: &str) {
        text.clone_into(&mut self.text);
        self.error = None;
        let text = text.trim();
        if text.is_empty() {
            self.applied = None;
            return;
        }
        match Filter::parse(text, R::FIELDS) {
            Ok(filter) => self.applied = Some(filter),
            Err(error) => match Wanted::read(text) {
                Some(wanted) if !begins_expression::<R>(text) => self.look_for::<R>(&wanted),
                _ => self.error = Some(in_quotes(error, text)),
            },
        }
    }

    fn look_for<R: Row>(&mut self, wanted: &[Wanted<'_>]) {
        let parts: Vec<String> = wanted
            .iter()
            .map(|wanted| format!("({})", wanted.expression::<R>()))
            .collect();
        match Filter::parse(&parts.join(" and "), R::FIELDS) {
            Ok(filter) => {
                self.applied = Some(filter);
                self.error = None;
            }
            Err(error) => self.error = Some(error),
        }
    }

    /// Leaves the line; false when the text cannot be read.
    pub fn settle<R: Row>(&mut self) -> bool {
        let text = self.text.trim().to_owned();
        if self.error.is_some()
            && let Some(wanted) = Wanted::read(&text)
        {
            self.look_for::<R>(&wanted);
        }
        self.error.is_none()
    }
}

/// A piece of a message as it is shown has quotes, and is no expression.
fn in_quotes(error: FilterError, text: &str) -> FilterError {
    if !text.contains('"') || text.contains(['=', '~', '<', '>']) {
        return error;
    }
    // In front: what there is may be a long list.
    let message = format!("to look for words, leave the \" out: {}", error.message);
    FilterError { message, ..error }
}

/// One of the words: `word`, `!word`, `/regular expression/` or `!/regular expression/`.
struct Wanted<'a> {
    without: bool,
    what: What<'a>,
}

enum What<'a> {
    Word(&'a str),
    Pattern(&'a str),
}

impl<'a> Wanted<'a> {
    /// `None`: something else stands there.
    fn read(text: &'a str) -> Option<Vec<Self>> {
        // A pattern may have spaces in it, where it is all there is.
        if let Some(one) = Self::one(text).filter(|one| matches!(one.what, What::Pattern(_))) {
            return Some(vec![one]);
        }
        let is_keyword = |word: &&str| KEYWORDS.iter().any(|keyword| keyword.eq_ignore_ascii_case(word));
        let words: Vec<&str> = text.split_whitespace().collect();
        let several = words.len() > 1;
        if several && words.iter().any(is_keyword) {
            return None;
        }
        words.into_iter().map(Self::one).collect()
    }

    fn one(text: &'a str) -> Option<Self> {
        let (without, rest) = match text.strip_prefix('!') {
            Some(rest) => (true, rest.trim_start()),
            None => (false, text),
        };
        let pattern = rest.strip_prefix('/').and_then(|rest| rest.strip_suffix('/'));
        let what = match pattern {
            Some(pattern) if !pattern.is_empty() => What::Pattern(pattern),
            _ if is_word(rest) => What::Word(rest),
            _ => return None,
        };
        Some(Self { without, what })
    }

    /// As the filter language writes it.
    fn expression<R: Row>(&self) -> String {
        let wanted = match self.what {
            What::Word(word) => format!("\"{}\"", word.replace('\\', "\\\\")),
            What::Pattern(pattern) => format!("/{pattern}/"),
        };
        let found = anywhere::<R>(&wanted);
        if self.without { format!("not ({found})") } else { found }
    }
}

/// One word or a piece of a URL, and nothing that only an expression has.
fn is_word(text: &str) -> bool {
    let of_expression = |c: char| c.is_whitespace() || matches!(c, '"' | '(' | ')' | '<' | '>' | '!' | '~');
    !text.is_empty() && !text.contains(of_expression) && (!text.contains('=') || text.contains('/'))
}

/// Whether the first word could be the beginning of an expression: the only one, while it is typed, or a field's name.
fn begins_expression<R: Row>(text: &str) -> bool {
    let mut words = text.split_whitespace();
    let first = words.next().unwrap_or_default().to_lowercase();
    let is_alone = words.next().is_none();
    let names = R::FIELDS.iter().map(|field| field.name);
    let begins = |name: &str| {
        if is_alone {
            name.starts_with(&first)
        } else {
            name == first
        }
    };
    names.chain(KEYWORDS).any(begins)
}

/// An expression: one of the texts of a row has that.
fn anywhere<R: Row>(wanted: &str) -> String {
    let is_text = |field: &&Field| {
        let reads = matches!(field.kind, FieldKind::Text | FieldKind::Word(_));
        // A family has no text of its own, only places.
        reads && !field.name.ends_with('.') && (!R::FILTERED_BEFORE || R::SEARCHED.contains(&field.name))
    };
    let parts: Vec<String> = R::FIELDS
        .iter()
        .filter(is_text)
        .map(|field| format!("{} ~ {wanted}", field.name))
        .collect();
    parts.join(" or ")
}
