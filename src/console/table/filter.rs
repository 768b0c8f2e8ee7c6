//! The filter line of a list: what is typed, and what the list is filtered by meanwhile.
//!
//! A list is always filtered by the last text that could be read, so a half-typed expression never
//! empties it. A single word that is no expression is looked for in the names of the rows; one that
//! could still become a field's name only when the line is left with Enter. So is a `/regular expression/`,
//! and with a `!` before either the rows are shown that do not have it.

use super::Row;
use crate::domain::filter::{FieldKind, Filter, FilterError};

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
        if let Some(short) = Short::read(text) {
            match short.filter::<R>() {
                Ok(filter) => self.applied = Some(filter),
                Err(error) => self.error = Some(error),
            }
            return;
        }
        match Filter::parse(text, R::FIELDS) {
            Ok(filter) => self.applied = Some(filter),
            Err(_) if is_word(text) && !begins_expression::<R>(text) => self.applied = search::<R>(text),
            Err(error) => self.error = Some(error),
        }
    }

    /// Leaves the line; false when the text cannot be read.
    pub fn settle<R: Row>(&mut self) -> bool {
        let text = self.text.trim();
        if self.error.is_some() && is_word(text) {
            let found = search::<R>(text);
            if found.is_some() {
                self.applied = found;
                self.error = None;
            }
        }
        self.error.is_none()
    }
}

/// `!word`, `/regular expression/` or `!/regular expression/`.
struct Short<'a> {
    without: bool,
    /// As the filter language writes it.
    wanted: Wanted<'a>,
}

enum Wanted<'a> {
    Word(&'a str),
    Pattern(&'a str),
}

impl<'a> Short<'a> {
    /// `None`: it is something else.
    fn read(text: &'a str) -> Option<Self> {
        let (without, rest) = match text.strip_prefix('!') {
            Some(rest) => (true, rest.trim_start()),
            None => (false, text),
        };
        let pattern = rest.strip_prefix('/').and_then(|rest| rest.strip_suffix('/'));
        let wanted = match pattern {
            Some(pattern) if !pattern.is_empty() => Wanted::Pattern(pattern),
            _ if without && is_word(rest) => Wanted::Word(rest),
            _ => return None,
        };
        Some(Self { without, wanted })
    }

    fn filter<R: Row>(&self) -> Result<Filter, FilterError> {
        let wanted = match self.wanted {
            Wanted::Word(word) => format!("\"{}\"", word.replace('\\', "\\\\")),
            Wanted::Pattern(pattern) => format!("/{pattern}/"),
        };
        let found = anywhere::<R>(&wanted);
        let text = if self.without { format!("not ({found})") } else { found };
        Filter::parse(&text, R::FIELDS)
    }
}

/// One word or a piece of a URL, and nothing that only an expression has.
fn is_word(text: &str) -> bool {
    let of_expression = |c: char| c.is_whitespace() || matches!(c, '"' | '(' | ')' | '<' | '>' | '!' | '~');
    !text.is_empty() && !text.contains(of_expression) && (!text.contains('=') || text.contains('/'))
}

fn begins_expression<R: Row>(word: &str) -> bool {
    let word = word.to_lowercase();
    let names = R::FIELDS.iter().map(|field| field.name);
    names.chain(KEYWORDS).any(|name| name.starts_with(&word))
}

fn search<R: Row>(word: &str) -> Option<Filter> {
    let quoted = word.replace('\\', "\\\\");
    Filter::parse(&anywhere::<R>(&format!("\"{quoted}\"")), R::FIELDS).ok()
}

/// An expression: one of the names of a row has that.
fn anywhere<R: Row>(wanted: &str) -> String {
    let is_text = |name: &&&str| {
        R::FIELDS
            .iter()
            .any(|field| field.name == **name && matches!(field.kind, FieldKind::Text | FieldKind::Word(_)))
    };
    let parts: Vec<String> = R::SEARCHED
        .iter()
        .filter(is_text)
        .map(|name| format!("{name} ~ {wanted}"))
        .collect();
    parts.join(" or ")
}
