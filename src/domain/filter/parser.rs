//! From tokens to an expression that fits the fields: names, kinds and values are checked here, so
//! that evaluation cannot fail.

use regex::RegexBuilder;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::super::decimal::Decimal;
use super::super::nearest::nearest;
use super::super::text::show;
use super::super::time::span;
use super::evaluate::{Comparison, Expression, Literal, Pattern, Scalar};
use super::lexer::{BODY, Lexer, Operator, Token, ValueToken};
use super::{DEPTH_MAX, EXPRESSION_BYTES_MAX, Field, FieldKind, FilterError, PATTERN_BYTES_MAX, PLACE_BYTES_MAX};

/// A compiled regular expression takes at most this many bytes.
const PATTERN_COMPILED_BYTES_MAX: usize = 256 * 1024;
/// The sizes that are told apart, smallest first: the more a search has to follow, the shorter its text may be.
const PATTERN_SIZES: [usize; 4] = [4 * 1024, 16 * 1024, 64 * 1024, PATTERN_COMPILED_BYTES_MAX];
/// All that are in one expression take at most this many bytes.
const COMPILED_BYTES_MAX: usize = 512 * 1024;
/// What a search remembers of its states may take as much as the pattern, and this many bytes.
const STATES_BYTES_MIN: usize = 64 * 1024;
/// What size and text may come to together, so that one search takes about a second at most.
const PATTERN_WORK_MAX: usize = 16 << 30;
/// Text of the user is shown in a message at most this wide.
const SHOWN_WIDTH_MAX: usize = 40;

pub(super) fn parse(source: &str, fields: &[Field]) -> Result<Expression, FilterError> {
    if source.len() > EXPRESSION_BYTES_MAX {
        let message = format!(
            "the expression has {} bytes, and at most {EXPRESSION_BYTES_MAX} are possible",
            source.len()
        );
        return Err(FilterError::at(1, message));
    }
    // No store can look for them, and nobody writes them on purpose.
    let acts = |c: char| c.is_control() && !c.is_whitespace();
    if let Some((column, found)) = (1..).zip(source.chars()).find(|(_, c)| acts(*c)) {
        let message = format!("expected no control character here, found U+{:04X}", u32::from(found));
        return Err(FilterError::at(column, message));
    }
    let mut lexer = Lexer::new(source);
    let next = lexer.token()?;
    let mut parser = Parser {
        lexer,
        next,
        fields,
        compiled_bytes: 0,
    };
    let expression = parser.any(0)?;
    match &parser.next {
        (_, Token::End) => Ok(expression),
        (column, Token::Close) => Err(FilterError::at(*column, "expected no ) here: none is open")),
        (column, found) => Err(FilterError::at(
            *column,
            format!("expected and, or, or the end, found {}", name(found)),
        )),
    }
}

struct Parser<'a> {
    lexer: Lexer<'a>,
    /// The token that is read next, with its column.
    next: (usize, Token),
    fields: &'a [Field],
    /// What the regular expressions take that were read by now.
    compiled_bytes: usize,
}

impl Parser<'_> {
    fn any(&mut self, depth: usize) -> Result<Expression, FilterError> {
        let mut parts = vec![self.all(depth)?];
        while self.next.1 == Token::Or {
            self.take()?;
            parts.push(self.all(depth)?);
        }
        Ok(single_or(parts, Expression::Any))
    }

    fn all(&mut self, depth: usize) -> Result<Expression, FilterError> {
        let mut parts = vec![self.one(depth)?];
        while self.next.1 == Token::And {
            self.take()?;
            parts.push(self.one(depth)?);
        }
        Ok(single_or(parts, Expression::All))
    }

    fn one(&mut self, depth: usize) -> Result<Expression, FilterError> {
        let column = self.next.0;
        if depth > DEPTH_MAX {
            return Err(FilterError::at(
                column,
                format!("parentheses and not stand at most {DEPTH_MAX} deep"),
            ));
        }
        match self.next.1.clone() {
            Token::Not => {
                self.take()?;
                Ok(Expression::Not(Box::new(self.one(depth + 1)?)))
            }
            Token::Open => {
                self.take()?;
                let inner = self.any(depth + 1)?;
                if self.next.1 != Token::Close {
                    let message = format!(
                        "expected and, or, or ) for the ( in column {column}, found {}",
                        name(&self.next.1)
                    );
                    return Err(FilterError::at(self.next.0, message));
                }
                self.take()?;
                Ok(inner)
            }
            Token::Word(word) => self.comparison(column, &word),
            found @ (Token::And | Token::Or | Token::Close | Token::End) => Err(FilterError::at(
                column,
                format!("expected a field, not or (, found {}", name(&found)),
            )),
        }
    }

    /// The field's word is the token in hand; operator and value follow it in the text.
    fn comparison(&mut self, column: usize, word: &str) -> Result<Expression, FilterError> {
        let (field, place) = self.field(column, word)?;
        let (column, operator) = self.lexer.operator();
        let Some(operator) = operator else {
            let hint = if word.contains('~') {
                "; to look for a part, put a space before the ~"
            } else {
                ""
            };
            let message = format!(
                "expected =, !=, <, <=, >, >= or ~ after {}{hint}",
                show(word, SHOWN_WIDTH_MAX)
            );
            return Err(FilterError::at(column, message));
        };
        check_operator(column, field, operator)?;
        let (column, value) = self.lexer.value(operator)?;
        let literal = match place {
            Some(_) => literal_of_place(column, operator, value)?,
            None => literal(column, field, operator, value)?,
        };
        if let Literal::Pattern(pattern) = &literal {
            self.compiled_bytes += pattern.compiled_bytes;
            if self.compiled_bytes > COMPILED_BYTES_MAX {
                let message = "the regular expressions are too large together: make fewer of them, or write plain text";
                return Err(FilterError::at(column, message));
            }
        }
        self.take()?;
        Ok(Expression::Comparison(Comparison {
            field: field.name,
            place,
            operator,
            literal,
        }))
    }

    /// The field, and the place in it where it is a family.
    fn field(&self, column: usize, word: &str) -> Result<(Field, Option<String>), FilterError> {
        let lower = word.to_lowercase();
        let families = self.fields.iter().filter(|field| field.name.ends_with('.'));
        if let Some(family) = families.clone().find(|family| lower.starts_with(family.name)) {
            let place = word.get(family.name.len()..).unwrap_or_default();
            return self::place(column, family.name, place).map(|place| (*family, Some(place)));
        }
        if let Some(field) = self.fields.iter().find(|field| field.name == lower) {
            return Ok((*field, None));
        }
        let names = self.fields.iter().map(|field| field.name);
        let nearest = nearest(word, names.clone());
        let hint = match nearest {
            Some(nearest) => format!("did you mean {nearest}?"),
            None => format!("known are {}", names.collect::<Vec<_>>().join(", ")),
        };
        let message = format!("expected a field, and {} is none; {hint}", show(word, SHOWN_WIDTH_MAX));
        Err(FilterError {
            column,
            message,
            nearest: nearest.map(str::to_owned),
        })
    }

    fn take(&mut self) -> Result<(), FilterError> {
        self.next = self.lexer.token()?;
        Ok(())
    }
}

/// A name behind `header.`, a JSON pointer behind `body.`.
fn place(column: usize, family: &str, place: &str) -> Result<String, FilterError> {
    let column = column + family.chars().count();
    if place.is_empty() {
        let example = if family == BODY {
            "body./order/id"
        } else {
            "header.tenant"
        };
        return Err(FilterError::at(
            column,
            format!("expected a place behind {family}, such as {example}"),
        ));
    }
    if family == BODY && !place.starts_with('/') {
        let message = format!(
            "expected a JSON pointer behind body., such as body./order/id, found {}",
            show(place, SHOWN_WIDTH_MAX)
        );
        return Err(FilterError::at(column, message));
    }
    if place.len() > PLACE_BYTES_MAX {
        let message = format!(
            "the place has {} bytes, and at most {PLACE_BYTES_MAX} are possible",
            place.len()
        );
        return Err(FilterError::at(column, message));
    }
    Ok(place.to_owned())
}

/// Nobody says of what kind it is: the row does.
fn literal_of_place(column: usize, operator: Operator, value: ValueToken) -> Result<Literal, FilterError> {
    let text = match value {
        ValueToken::Pattern(text) => return pattern(column, &text),
        ValueToken::Quoted(text) | ValueToken::Word(text) => text,
    };
    Ok(match operator {
        // What an anchor says is meant as one: `~ "^9"`.
        Operator::Contains if text.starts_with('^') || text.ends_with('$') => pattern(column, &text)?,
        Operator::Contains => Literal::Part(text.to_lowercase()),
        Operator::Equal
        | Operator::NotEqual
        | Operator::Less
        | Operator::LessOrEqual
        | Operator::Greater
        | Operator::GreaterOrEqual => {
            let number = Decimal::read(numeral(&text).as_ref().unwrap_or(&text));
            Literal::Scalar(Box::new(Scalar { text, number }))
        }
    })
}

fn single_or(mut parts: Vec<Expression>, join: fn(Vec<Expression>) -> Expression) -> Expression {
    match (parts.len(), parts.pop()) {
        (1, Some(part)) => part,
        (_, last) => {
            parts.extend(last);
            join(parts)
        }
    }
}

fn check_operator(column: usize, field: Field, operator: Operator) -> Result<(), FilterError> {
    let allowed = match field.kind {
        FieldKind::Text | FieldKind::Word(_) | FieldKind::Time => return Ok(()),
        FieldKind::Number | FieldKind::Duration => operator != Operator::Contains,
        FieldKind::Bool => matches!(operator, Operator::Equal | Operator::NotEqual),
    };
    if allowed {
        return Ok(());
    }
    let (what, expected) = match field.kind {
        FieldKind::Bool => ("true or false", "= or !="),
        FieldKind::Text | FieldKind::Word(_) | FieldKind::Number | FieldKind::Time => {
            ("a number", "=, !=, <, <=, > or >=")
        }
        FieldKind::Duration => ("a duration", "=, !=, <, <=, > or >="),
    };
    Err(FilterError::at(
        column,
        format!("expected {expected}, because {} is {what}", field.name),
    ))
}

fn literal(column: usize, field: Field, operator: Operator, value: ValueToken) -> Result<Literal, FilterError> {
    let expected = |what: &str, found: &str| {
        FilterError::at(
            column,
            format!(
                "expected {what} for {}, found {}",
                field.name,
                show(found, SHOWN_WIDTH_MAX)
            ),
        )
    };
    let text = match value {
        ValueToken::Pattern(pattern) => return self::pattern(column, &pattern),
        ValueToken::Quoted(text) | ValueToken::Word(text) => text,
    };
    match field.kind {
        FieldKind::Text | FieldKind::Word(_) | FieldKind::Time if operator == Operator::Contains => {
            Ok(Literal::Part(text.to_lowercase()))
        }
        FieldKind::Word(words) if matches!(operator, Operator::Equal | Operator::NotEqual) => {
            known_word(column, field, words, text)
        }
        FieldKind::Text | FieldKind::Word(_) => Ok(Literal::Text(text)),
        FieldKind::Number => number(&text)
            .map(Literal::Number)
            .ok_or_else(|| expected("a number such as 100, 1.5 or 10k", &text)),
        FieldKind::Duration => span(&text)
            .map(Literal::Duration)
            .ok_or_else(|| expected("a duration such as 30s, 5m, 2h or 3d", &text)),
        FieldKind::Bool if text.eq_ignore_ascii_case("true") => Ok(Literal::Bool(true)),
        FieldKind::Bool if text.eq_ignore_ascii_case("false") => Ok(Literal::Bool(false)),
        FieldKind::Bool => Err(expected("true or false", &text)),
        FieldKind::Time => moment(&text)
            .map(|(micros, nanos)| Literal::Time(micros, nanos))
            .ok_or_else(|| expected("a time such as 2026-12-01T08:30:00Z or 2026-12-01", &text)),
    }
}

/// No row ever has another word, and an empty answer would say that there is nothing.
fn known_word(column: usize, field: Field, words: &[&str], text: String) -> Result<Literal, FilterError> {
    if words.contains(&text.as_str()) {
        return Ok(Literal::Text(text));
    }
    let nearest = nearest(&text, words.iter().copied());
    let hint = match nearest {
        Some(nearest) => format!("did you mean {nearest}?"),
        None => format!("it is one of {}", words.join(", ")),
    };
    Err(FilterError {
        column,
        message: format!("{} is never {}; {hint}", field.name, show(&text, SHOWN_WIDTH_MAX)),
        nearest: nearest.map(str::to_owned),
    })
}

fn pattern(column: usize, pattern: &str) -> Result<Literal, FilterError> {
    if pattern.len() > PATTERN_BYTES_MAX {
        let message = format!(
            "the regular expression has {} bytes, and at most {PATTERN_BYTES_MAX} are possible",
            pattern.len()
        );
        return Err(FilterError::at(column, message));
    }
    let build = |size: usize| {
        let mut builder = RegexBuilder::new(pattern);
        builder.size_limit(size).dfa_size_limit(size.max(STATES_BYTES_MIN));
        builder.build().map(|regex| (regex, size))
    };
    let (first, larger) = (build(PATTERN_SIZES[0]), &PATTERN_SIZES[1..]);
    let built = larger.iter().fold(first, |built, size| match built {
        Err(regex::Error::CompiledTooBig(_)) => build(*size),
        built => built,
    });
    let (regex, compiled_bytes) = built.map_err(|error| {
        // The parser's message draws the pattern over several lines; its last line is the reason.
        let text = error.to_string();
        let reason = text.lines().last().unwrap_or_default().trim_start_matches("error: ");
        FilterError::at(column, format!("expected a regular expression: {}", show(reason, 200)))
    })?;
    Ok(Literal::Pattern(Box::new(Pattern {
        regex,
        compiled_bytes,
        text_bytes_max: PATTERN_WORK_MAX / places_of(pattern),
    })))
}

/// About how many bytes its places take, of which a search may have to follow all at every byte of a text. Letters of
/// all alphabets make a class large and its search no slower: they are not counted.
fn places_of(pattern: &str) -> usize {
    let is_within = |size: &usize| {
        let mut builder = regex::bytes::RegexBuilder::new(pattern);
        builder.unicode(false).size_limit(*size).build().is_ok()
    };
    PATTERN_SIZES
        .into_iter()
        .find(is_within)
        .unwrap_or(PATTERN_COMPILED_BYTES_MAX)
}

/// Digits with an optional fraction, and a power of thousand behind them.
fn number(text: &str) -> Option<f64> {
    numeral(text)?.parse().ok().filter(|number: &f64| number.is_finite())
}

/// The same as everybody writes it: `1.5k` is `1.5e3`.
fn numeral(text: &str) -> Option<String> {
    let (digits, power) = match text.char_indices().next_back()? {
        (at, 'k' | 'K') => (text.get(..at)?, 3),
        (at, 'M') => (text.get(..at)?, 6),
        (at, 'G') => (text.get(..at)?, 9),
        _ => (text, 0),
    };
    let plain = digits.strip_prefix('-').unwrap_or(digits);
    let well_formed = plain.starts_with(|first: char| first.is_ascii_digit())
        && plain.ends_with(|last: char| last.is_ascii_digit())
        && plain.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    well_formed.then(|| format!("{digits}e{power}"))
}

/// A time as RFC 3339, or the beginning of one in UTC: microseconds since 1970, and nanoseconds behind them.
fn moment(text: &str) -> Option<(i64, u16)> {
    let rests = [
        "",
        "Z",
        ":00Z",
        ":00:00Z",
        "T00:00:00Z",
        "-01T00:00:00Z",
        "-01-01T00:00:00Z",
    ];
    let read = |rest: &str| OffsetDateTime::parse(&format!("{text}{rest}"), &Rfc3339).ok();
    let nanos = rests.into_iter().find_map(read)?.unix_timestamp_nanos();
    let micros = i64::try_from(nanos.div_euclid(1_000)).ok()?;
    Some((micros, u16::try_from(nanos.rem_euclid(1_000)).ok()?))
}

fn name(token: &Token) -> String {
    match token {
        Token::And => "and".to_owned(),
        Token::Or => "or".to_owned(),
        Token::Not => "not".to_owned(),
        Token::Open => "(".to_owned(),
        Token::Close => ")".to_owned(),
        Token::Word(word) => show(word, SHOWN_WIDTH_MAX),
        Token::End => "the end".to_owned(),
    }
}
