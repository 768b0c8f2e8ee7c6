//! Which values of a message are not shown, and the message without them.
//!
//! A rule is a name or a JSON pointer. A *name* stands for every JSON key at any depth, every header, and every
//! name of a form or of a line (`name=value`, `Name: value`) that is called so; upper and lower case, `-` and `_` make
//! no difference, and `*` stands for any characters: `api-key`, `*token`. A *pointer* (RFC 6901) stands for one place
//! of a JSON body, where `*` is any one key or place: `/card/number`, `/people/*/iban`. The value becomes [`MASK`],
//! whatever it was and however long; every other byte stays as it is.
//!
//! A body need not be valid: a value that is cut is hidden to its end, JSON inside a string of JSON is looked into, and
//! so is JSON with anything before it. Not looked into: XML, what is percent-encoded, compressed or binary, and values
//! that are secret by their look alone, such as the number of a card in a sentence.
//!
//! Pure and linear in the length of the body.

mod names;
mod pairs;
mod pointers;
mod rewrite;
#[cfg(test)]
mod tests;

use std::borrow::Cow;

use bytes::Bytes;

use super::message::{HeaderValue, Message};
use super::notification::HEADER_REQUEST;
use super::url::redact_urls;

/// Whether a header holds a hash over its whole message: who knows all of it but a value that is hidden can try values
/// against that.
#[must_use]
pub fn is_hash_of_all(header: &str) -> bool {
    header.eq_ignore_ascii_case("x-redrive-dead-fingerprint")
}

/// What stands in the place of a hidden value.
pub const MASK: &str = "***";
/// Rules, at most.
pub const RULES_MAX: usize = 200;
/// A rule has at most this many bytes.
pub const RULE_BYTES_MAX: usize = 200;
/// What is hidden although nobody said so.
pub const DEFAULT_NAMES: &[&str] = &[
    "authorization",
    "proxy-authorization",
    "cookie",
    "set-cookie",
    "*password*",
    "passwd",
    "passphrase",
    "*secret*",
    "*token",
    "*api-key",
    "*private-key",
    "*access-key",
    "*signature*",
    "credentials",
    "pwd",
    "pin",
    "iban",
    "card*",
    "*card-number*",
    "session*",
    "jwt",
    // Of a message that no client can read: its properties and headers as they came, in which no rule finds anything.
    "header-frame-base64",
];

/// Names or a place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MaskRule {
    written: String,
    what: What,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum What {
    /// A normalised name, in which `*` is a wildcard.
    Name(String),
    Pointer(Vec<Segment>),
}

/// A step of a pointer.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Segment {
    Any,
    Named(String),
}

/// What is wrong with a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MaskRuleError {
    /// It names nothing.
    #[error("is empty; write a name such as \"password\" or a JSON pointer such as \"/card/number\"")]
    Empty,
    /// It is no name of anything.
    #[error("must have at most {RULE_BYTES_MAX} bytes")]
    TooLong,
    /// It is a path of another language.
    #[error("is no JSON pointer; write it as \"/card/number\", with * for any one key or place")]
    NoPointer,
    /// RFC 6901 has `~0` for `~` and `~1` for `/`.
    #[error("has a ~ that is neither ~0 (for ~) nor ~1 (for /)")]
    BadEscape,
}

/// Bytes of the line that a body begins with.
const BEGINS_MAX: usize = 120;
/// The beginning of a larger body is not told: it would have to be read whole.
const BEGINS_OF_MAX: usize = 64 << 10;

/// What is hidden, and what is shown all the same.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MaskRules {
    hidden: Vec<MaskRule>,
    shown: Vec<MaskRule>,
}

/// Something of which values are hidden.
#[derive(Clone, Debug, PartialEq)]
pub struct Masked<T> {
    /// What may be shown.
    pub value: T,
    /// How many values are hidden in it.
    pub hidden: usize,
}

impl MaskRule {
    /// Reads a rule.
    ///
    /// # Errors
    /// Why it is none.
    pub fn parse(text: &str) -> Result<Self, MaskRuleError> {
        if text.len() > RULE_BYTES_MAX {
            return Err(MaskRuleError::TooLong);
        }
        let what = if let Some(pointer) = text.strip_prefix('/') {
            What::Pointer(pointer.split('/').map(segment).collect::<Result<_, _>>()?)
        } else if text.starts_with(['$', '#']) {
            return Err(MaskRuleError::NoPointer);
        } else {
            What::Name(normalised(text))
        };
        if matches!(&what, What::Name(name) if name.is_empty()) {
            return Err(MaskRuleError::Empty);
        }
        Ok(Self {
            written: text.to_owned(),
            what,
        })
    }

    /// As it was written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.written
    }

    /// Whether it is about a place, and not about names.
    #[must_use]
    pub const fn is_pointer(&self) -> bool {
        matches!(self.what, What::Pointer(_))
    }

    fn names(&self, normalised: &str) -> bool {
        match &self.what {
            What::Name(pattern) => fits(pattern, normalised),
            What::Pointer(_) => false,
        }
    }
}

impl MaskRules {
    /// The rules without which nothing was said.
    #[must_use]
    pub fn usual() -> Self {
        Self::new(Vec::new(), Vec::new())
    }

    /// What is hidden beside [`DEFAULT_NAMES`], and the names that are shown all the same.
    #[must_use]
    pub fn new(also_hidden: Vec<MaskRule>, shown: Vec<MaskRule>) -> Self {
        let usual = DEFAULT_NAMES.iter().filter_map(|name| MaskRule::parse(name).ok());
        let mut hidden: Vec<MaskRule> = usual.collect();
        for rule in also_hidden {
            if hidden.iter().all(|known| known.what != rule.what) {
                hidden.push(rule);
            }
        }
        Self { hidden, shown }
    }

    /// What is hidden, in order.
    #[must_use]
    pub fn hidden(&self) -> &[MaskRule] {
        &self.hidden
    }

    /// What is shown although a rule would hide it.
    #[must_use]
    pub fn shown(&self) -> &[MaskRule] {
        &self.shown
    }

    /// Whether what is called so is hidden.
    #[must_use]
    pub fn hides(&self, name: &str) -> bool {
        let name = normalised(name);
        self.hidden.iter().any(|rule| rule.names(&name)) && !self.shown.iter().any(|rule| rule.names(&name))
    }

    /// Whether the value at this JSON pointer, or what it is in, is hidden.
    #[must_use]
    pub fn hides_place(&self, pointer: &str) -> bool {
        let steps = pointer.split('/').skip(1);
        let steps: Vec<String> = steps.map(|step| step.replace("~1", "/").replace("~0", "~")).collect();
        let is_within = |rule: &MaskRule| matches!(&rule.what, What::Pointer(place) if begins(place, &steps));
        steps.iter().any(|name| self.hides(name)) || self.hidden.iter().any(is_within)
    }

    /// The same for a header of a message; those of the request are called by their own names.
    #[must_use]
    pub fn hides_header(&self, name: &str) -> bool {
        let own = name
            .get(..HEADER_REQUEST.len())
            .filter(|begin| begin.eq_ignore_ascii_case(HEADER_REQUEST))
            .and_then(|_| name.get(HEADER_REQUEST.len()..));
        self.hides(own.unwrap_or(name))
    }

    /// A body without what is hidden.
    #[must_use]
    pub fn body<'a>(&self, body: &'a [u8]) -> Masked<Cow<'a, [u8]>> {
        let mut masked = Masked {
            value: Cow::Borrowed(body),
            hidden: 0,
        };
        if self.hidden.iter().any(MaskRule::is_pointer) {
            masked = masked.then(|body| pointers::hide(self, body));
        }
        masked
            .then(|body| names::hide(self, body))
            .then(|body| pairs::hide(self, body))
    }

    /// A text without what is hidden.
    #[must_use]
    pub fn text<'a>(&self, text: &'a str) -> Masked<Cow<'a, str>> {
        let Masked { value, hidden } = self.body(text.as_bytes());
        let value = match value {
            Cow::Borrowed(_) => Cow::Borrowed(text),
            // What is replaced begins and ends at ASCII characters.
            Cow::Owned(bytes) => Cow::Owned(String::from_utf8_lossy(&bytes).into_owned()),
        };
        Masked { value, hidden }
    }

    /// A text as it leaves for who may only look: without the values in the queries of its URLs, too. Those are not
    /// counted.
    #[must_use]
    pub fn outward<'a>(&self, text: &'a str) -> Masked<Cow<'a, str>> {
        let Masked { value, hidden } = self.text(text);
        let redacted = match redact_urls(&value) {
            Cow::Owned(redacted) => Some(redacted),
            Cow::Borrowed(_) => None,
        };
        Masked {
            value: redacted.map_or(value, Cow::Owned),
            hidden,
        }
    }

    /// A message without what is hidden in its headers and its body.
    #[must_use]
    pub fn message(&self, message: &Message) -> Message {
        let header = |(name, value): &(String, HeaderValue)| (name.clone(), self.header(name, value).value);
        Message {
            body: self.body(&message.body).value.into_owned().into(),
            headers: message.headers.iter().map(header).collect(),
            ..message.clone()
        }
    }

    /// The beginning of a body in one line, as it leaves for who may only look; `None` of one that is no text, or large.
    #[must_use]
    pub fn begins(&self, body: &[u8]) -> Option<String> {
        let text = std::str::from_utf8(body).ok().filter(|_| body.len() <= BEGINS_OF_MAX)?;
        let hidden = self.outward(text).value;
        let mut line = String::new();
        for word in hidden.split_whitespace() {
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
            if line.len() > BEGINS_MAX {
                line.truncate(line.floor_char_boundary(BEGINS_MAX));
                line.push('…');
                break;
            }
        }
        Some(line).filter(|line| !line.is_empty())
    }

    /// A header's value without what is hidden.
    #[must_use]
    pub fn header(&self, name: &str, value: &HeaderValue) -> Masked<HeaderValue> {
        if self.hides_header(name) {
            return Masked {
                value: HeaderValue::text(MASK),
                hidden: 1,
            };
        }
        let mut hidden = 0;
        let mut inside = |name: &str, value: &HeaderValue| {
            let masked = self.header(name, value);
            hidden += masked.hidden;
            masked.value
        };
        let value = match value {
            HeaderValue::Array(values) => HeaderValue::Array(values.iter().map(|one| inside("", one)).collect()),
            HeaderValue::Table(entries) => {
                let entries = entries.iter().map(|(name, value)| (name.clone(), inside(name, value)));
                HeaderValue::Table(entries.collect())
            }
            HeaderValue::Text(bytes) => {
                let masked = self.body(bytes);
                hidden = masked.hidden;
                HeaderValue::Text(Bytes::from(masked.value.into_owned()))
            }
            HeaderValue::Bytes(bytes) => {
                let masked = self.body(bytes);
                hidden = masked.hidden;
                HeaderValue::Bytes(Bytes::from(masked.value.into_owned()))
            }
            HeaderValue::Other(text) => {
                let masked = self.text(text);
                hidden = masked.hidden;
                HeaderValue::Other(masked.value.into_owned())
            }
            plain @ (HeaderValue::Integer(_)
            | HeaderValue::I8(_)
            | HeaderValue::U8(_)
            | HeaderValue::I16(_)
            | HeaderValue::U16(_)
            | HeaderValue::I32(_)
            | HeaderValue::U32(_)
            | HeaderValue::Bool(_)
            | HeaderValue::Float(_)
            | HeaderValue::Double(_)
            | HeaderValue::Decimal { .. }
            | HeaderValue::Timestamp(_)
            | HeaderValue::Void) => plain.clone(),
        };
        Masked { value, hidden }
    }
}

impl Masked<Cow<'_, [u8]>> {
    /// One more pass over what is left.
    fn then(self, pass: impl FnOnce(&[u8]) -> Option<Masked<Vec<u8>>>) -> Self {
        match pass(&self.value) {
            Some(masked) => Self {
                value: Cow::Owned(masked.value),
                hidden: self.hidden + masked.hidden,
            },
            None => self,
        }
    }
}

/// Whether the steps lead through the place of a rule.
fn begins(place: &[Segment], steps: &[String]) -> bool {
    let fits = |(place, step): (&Segment, &String)| match place {
        Segment::Any => true,
        Segment::Named(name) => name == step,
    };
    place.len() <= steps.len() && place.iter().zip(steps).all(fits)
}

fn segment(written: &str) -> Result<Segment, MaskRuleError> {
    if written == "*" {
        return Ok(Segment::Any);
    }
    let mut rest = written.split('~');
    let mut name = rest.next().unwrap_or_default().to_owned();
    for piece in rest {
        let (character, after) = match piece.as_bytes().first() {
            Some(b'0') => ('~', &piece[1..]),
            Some(b'1') => ('/', &piece[1..]),
            Some(_) | None => return Err(MaskRuleError::BadEscape),
        };
        name.push(character);
        name.push_str(after);
    }
    Ok(Segment::Named(name))
}

/// Upper and lower case, `-`, `_` and spaces make no difference.
fn normalised(name: &str) -> String {
    let counts = name.chars().filter(|character| !matches!(character, '-' | '_' | ' '));
    counts.flat_map(char::to_lowercase).collect()
}

/// Whether a name is one of the pattern's, in which `*` stands for any characters.
pub(in crate::domain) fn fits(pattern: &str, name: &str) -> bool {
    let Some((begin, rest)) = pattern.split_once('*') else {
        return pattern == name;
    };
    let Some(mut left) = name.strip_prefix(begin) else {
        return false;
    };
    let (middle, end) = rest.rsplit_once('*').unwrap_or(("", rest));
    for part in middle.split('*').filter(|part| !part.is_empty()) {
        match left.find(part) {
            Some(at) => left = &left[at + part.len()..],
            None => return false,
        }
    }
    left.ends_with(end)
}
