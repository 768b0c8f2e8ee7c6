//! From characters to tokens, on demand: the parser says whether it expects a value, because there a
//! word may contain what is an operator elsewhere (`url = http://example.com/?a=b`).

use std::cmp::Ordering;

use super::super::text::show;
use super::FilterError;

/// The family of places in a JSON body.
pub(super) const BODY: &str = "body.";

/// A comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operator {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Contains,
}

impl Operator {
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Equal => "=",
            Self::NotEqual => "!=",
            Self::Less => "<",
            Self::LessOrEqual => "<=",
            Self::Greater => ">",
            Self::GreaterOrEqual => ">=",
            Self::Contains => "~",
        }
    }

    /// Whether it asks which of two is greater.
    pub(super) const fn orders(self) -> bool {
        matches!(
            self,
            Self::Less | Self::LessOrEqual | Self::Greater | Self::GreaterOrEqual
        )
    }

    /// Whether a value fits that stands so to the one behind the operator; none: it is not known.
    pub(super) fn fits(self, order: Option<Ordering>) -> bool {
        match self {
            Self::Equal | Self::Contains => order == Some(Ordering::Equal),
            Self::NotEqual => order != Some(Ordering::Equal),
            Self::Less => order == Some(Ordering::Less),
            Self::LessOrEqual => order.is_some_and(Ordering::is_le),
            Self::Greater => order == Some(Ordering::Greater),
            Self::GreaterOrEqual => order.is_some_and(Ordering::is_ge),
        }
    }
}

/// What stands before or behind a comparison, or begins one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Token {
    And,
    Or,
    Not,
    Open,
    Close,
    Word(String),
    End,
}

/// The right side of a comparison.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ValueToken {
    Word(String),
    Quoted(String),
    Pattern(String),
}

/// Reads one token after the other.
pub(super) struct Lexer<'a> {
    rest: &'a str,
    column: usize,
}

impl<'a> Lexer<'a> {
    pub(super) const fn new(source: &'a str) -> Self {
        Self {
            rest: source,
            column: 1,
        }
    }

    /// The next token outside of a value, with its column.
    pub(super) fn token(&mut self) -> Result<(usize, Token), FilterError> {
        self.skip_blanks();
        let column = self.column;
        let Some(first) = self.rest.chars().next() else {
            return Ok((column, Token::End));
        };
        let token = match first {
            '(' => {
                self.advance();
                Token::Open
            }
            ')' => {
                self.advance();
                Token::Close
            }
            '"' | '=' | '!' | '<' | '>' | '~' => {
                return Err(FilterError::at(column, format!("expected a field, found {first}")));
            }
            _ => keyword_or_word(self.word()),
        };
        Ok((column, token))
    }

    /// In a JSON pointer `~0` and `~1` belong to the word: there they are no operator.
    fn word(&mut self) -> &'a str {
        let belongs = |character| !is_blank(character) && !"()\"=!<>~".contains(character);
        let start = self.rest;
        let mut length = self.take_while(belongs).len();
        let is_pointer = start
            .get(..BODY.len())
            .is_some_and(|family| family.eq_ignore_ascii_case(BODY));
        while is_pointer && (self.rest.starts_with("~0") || self.rest.starts_with("~1")) {
            self.advance();
            length += 1 + self.take_while(belongs).len();
        }
        start.get(..length).unwrap_or_default()
    }

    /// The operator behind a field; none when something else stands there.
    pub(super) fn operator(&mut self) -> (usize, Option<Operator>) {
        self.skip_blanks();
        let column = self.column;
        // Longer ones first: `<=` is not `<`.
        let operators = [
            Operator::NotEqual,
            Operator::LessOrEqual,
            Operator::GreaterOrEqual,
            Operator::Equal,
            Operator::Less,
            Operator::Greater,
            Operator::Contains,
        ];
        let found = operators
            .into_iter()
            .find(|operator| self.rest.starts_with(operator.as_str()));
        for _ in 0..found.map_or(0, |operator| operator.as_str().len()) {
            self.advance();
        }
        (column, found)
    }

    /// The value behind an operator. A slash begins a regular expression only behind `~`.
    pub(super) fn value(&mut self, operator: Operator) -> Result<(usize, ValueToken), FilterError> {
        self.skip_blanks();
        let column = self.column;
        let value = match self.rest.chars().next() {
            None | Some('(' | ')') => {
                return Err(FilterError::at(
                    column,
                    format!("expected a value after {}", operator.as_str()),
                ));
            }
            Some('"') => ValueToken::Quoted(self.delimited('"', column)?),
            Some('/') if operator == Operator::Contains => ValueToken::Pattern(self.delimited('/', column)?),
            Some('=' | '!' | '<' | '>' | '~') => {
                return Err(FilterError::at(
                    column,
                    "expected a value; put it into double quotes if it begins like this",
                ));
            }
            Some(_) => ValueToken::Word(
                self.take_while(|character| !is_blank(character) && !"()\"".contains(character))
                    .to_owned(),
            ),
        };
        match self.rest.chars().next() {
            Some(next) if !is_blank(next) && next != ')' => {
                let message = format!(
                    "expected a space or the end after a value, found {}",
                    show(&next.to_string(), 12)
                );
                Err(FilterError::at(
                    self.column,
                    format!("{message}; put a value with such characters into double quotes"),
                ))
            }
            _ => Ok((column, value)),
        }
    }

    /// What stands between two delimiters. Inside, a backslash takes a delimiter's meaning away; in
    /// quotes also its own, in a regular expression it stays what it is there.
    fn delimited(&mut self, delimiter: char, column: usize) -> Result<String, FilterError> {
        self.advance();
        let mut content = String::new();
        while let Some(character) = self.advance() {
            if character == delimiter {
                return Ok(content);
            }
            if character != '\\' {
                content.push(character);
                continue;
            }
            match self.advance() {
                Some(next) if next == delimiter || (next == '\\' && delimiter == '"') => content.push(next),
                Some(next) => content.extend(['\\', next]),
                None => break,
            }
        }
        Err(FilterError::at(
            column,
            format!("expected a closing {delimiter} for the one here"),
        ))
    }

    fn take_while(&mut self, belongs: impl Fn(char) -> bool) -> &'a str {
        let end = self
            .rest
            .find(|character| !belongs(character))
            .unwrap_or(self.rest.len());
        let (taken, rest) = self.rest.split_at(end);
        self.rest = rest;
        self.column += taken.chars().count();
        taken
    }

    fn advance(&mut self) -> Option<char> {
        let mut characters = self.rest.chars();
        let first = characters.next()?;
        self.rest = characters.as_str();
        self.column += 1;
        Some(first)
    }

    fn skip_blanks(&mut self) {
        self.take_while(is_blank);
    }
}

fn is_blank(character: char) -> bool {
    character.is_whitespace()
}

fn keyword_or_word(word: &str) -> Token {
    match word.to_ascii_lowercase().as_str() {
        "and" => Token::And,
        "or" => Token::Or,
        "not" => Token::Not,
        _ => Token::Word(word.to_owned()),
    }
}
