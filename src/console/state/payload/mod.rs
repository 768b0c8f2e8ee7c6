//! The payload in front: what of it may be shown, laid out when it changes and not with every frame.
//!
//! Values that the rules of the configuration hide ([`MaskRules`]) are hidden here, before anything else sees them:
//! what is painted, found, or written into a picture of the screen is made from a [`Page`] alone. A message that was
//! revealed is a page without hidden values, as long as it stays in front.
//!
//! Of a body the first [`BYTES_MAX`] bytes are looked at, so that one of 50 MB costs no more than that.

mod find;
mod layout;
mod reading;

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

pub use self::find::{Find, MATCHES_MAX, TEXT_BYTES_MAX as FIND_BYTES_MAX};
pub use self::layout::{Kind, Line};
pub use self::reading::Reading;

use crate::console::state::detail::{About, Detail, DetailAnswer, DetailTab, PayloadForm, Subject};
use crate::domain::mask::MaskRules;
use crate::domain::message::{HeaderValue, Message};
use crate::domain::text::show;
use crate::engine::dead::DeadDetail;

/// Bytes of a body that are looked at.
pub const BYTES_MAX: usize = 256 * 1024;
/// Headers that are shown.
pub const HEADERS_MAX: usize = 200;
/// Columns of a header's value that are shown.
const VALUE_MAX: usize = 400;

/// A message whose payload stands in front.
#[derive(Clone, Debug, PartialEq)]
pub struct InFront<'a> {
    /// Which: `dead letter 0c1f…` (from outside).
    pub what: String,
    /// Its body; `None`: there is none.
    pub body: Option<&'a [u8]>,
    /// Its headers.
    pub headers: &'a [(String, HeaderValue)],
}

/// Which message, with which content: what was revealed is that and no other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MessageKey {
    /// Which.
    pub what: String,
    fingerprint: u64,
}

/// How a page is laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Paper {
    /// Set out, as it came, or its bytes.
    pub form: PayloadForm,
    /// Columns of the screen.
    pub columns: usize,
    /// Whether long lines go on under themselves.
    pub wrap: bool,
}

/// A payload as it may be shown.
#[derive(Clone, Debug, PartialEq)]
pub struct Page {
    /// Of which message.
    pub key: MessageKey,
    /// How it is laid out.
    pub paper: Paper,
    /// What the body turned out to be.
    pub kind: Kind,
    /// Bytes of the whole body.
    pub size: usize,
    /// How many of them were looked at, when that is not all.
    pub cut_at: Option<usize>,
    /// Values that the rules hide.
    pub hidden: usize,
    /// They are shown all the same.
    pub revealed: bool,
    /// Headers with their values, safe to show.
    pub headers: Vec<(String, String)>,
    /// The body, safe to show, its lines separated by line feeds.
    pub text: String,
    /// The lines of the screen.
    pub lines: Vec<Line>,
}

impl InFront<'_> {
    /// Which message this is. Of a long body the beginning and the length count.
    #[must_use]
    pub fn key(&self) -> MessageKey {
        let mut hasher = DefaultHasher::new();
        let body = self.body.unwrap_or_default();
        body.len().hash(&mut hasher);
        body.get(..BYTES_MAX).unwrap_or(body).hash(&mut hasher);
        self.headers.len().hash(&mut hasher);
        MessageKey {
            what: self.what.clone(),
            fingerprint: hasher.finish(),
        }
    }
}

/// Which message of a dead letter is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// It has no other.
    Only,
    /// As it died, where it was edited since.
    Original,
    /// What is sent when it is redriven.
    SentInstead,
}

/// The message of a dead letter that is shown: what is sent, unless its original is asked for.
#[must_use]
pub fn of_letter<'a>(letter: &'a DeadDetail, reading: &Reading) -> (Which, &'a Message) {
    match &letter.edited {
        None => (Which::Only, &letter.message),
        Some(_) if reading.original => (Which::Original, &letter.message),
        Some(edited) => (Which::SentInstead, &edited.message),
    }
}

impl Which {
    /// What stands over it.
    #[must_use]
    pub const fn title(self) -> &'static str {
        match self {
            Self::Only => "payload",
            Self::Original => "original payload",
            Self::SentInstead => "sent instead",
        }
    }
}

/// The message whose payload, headers or answer this part of the detail shows.
#[must_use]
pub fn in_front<'a>(detail: &Detail, answer: &'a DetailAnswer) -> Option<InFront<'a>> {
    match (&detail.subject, detail.tab, &answer.about) {
        (_, DetailTab::Attempts, _) => {
            let attempt = answer.attempts.as_ref().ok()?.get(detail.selected)?;
            let (number, message) = (attempt.number, attempt.message_id.as_str());
            Some(InFront {
                what: format!("answer to attempt {number} of message {message}"),
                body: attempt.response.as_deref(),
                headers: &[],
            })
        }
        // What the newest attempt got back.
        (Subject::Queue(_) | Subject::Endpoint(_), DetailTab::Why, _) => {
            let attempt = answer.attempts.as_ref().ok()?.first()?;
            let (number, message) = (attempt.number, attempt.message_id.as_str());
            attempt.response.as_deref().map(|body| InFront {
                what: format!("answer to attempt {number} of message {message}"),
                body: Some(body),
                headers: &[],
            })
        }
        (Subject::Queue(queue), DetailTab::Messages, _) => {
            let browsed = answer.messages.as_ref()?.as_ref().ok()?.get(detail.selected)?;
            let message = match &browsed.message.message_id {
                Some(id) => format!("message {id}"),
                None => format!("message at place {}", browsed.position),
            };
            Some(InFront {
                what: format!("{message} of queue {}", queue.as_str()),
                body: Some(&browsed.message.body),
                headers: &browsed.message.headers,
            })
        }
        (_, DetailTab::Why | DetailTab::Payload, Some(Ok(About::Letter(letter)))) => {
            let (which, message) = of_letter(letter, &detail.reading);
            let before = match which {
                Which::Only => "",
                Which::Original => "the original of ",
                Which::SentInstead => "what is sent instead of ",
            };
            Some(InFront {
                what: format!("{before}dead letter {}", letter.letter.id.as_str()),
                body: Some(&message.body),
                headers: &message.headers,
            })
        }
        (_, DetailTab::Why | DetailTab::Payload, Some(Ok(About::Event(found)))) => {
            let event = &found.event;
            Some(InFront {
                what: format!("event {} of {}", event.id, event.shown_type()),
                body: event.payload.as_deref(),
                headers: &[],
            })
        }
        _ => None,
    }
}

impl Page {
    /// Lays a message out; what the rules hide is shown when it was revealed.
    #[must_use]
    pub fn new(message: &InFront<'_>, rules: &MaskRules, revealed: bool, paper: Paper) -> Self {
        let whole = message.body.unwrap_or_default();
        let body = whole.get(..BYTES_MAX).unwrap_or(whole);
        let masked = rules.body(body);
        let mut hidden = masked.hidden;
        let headers = message.headers.iter().take(HEADERS_MAX).map(|(name, value)| {
            let masked = rules.header(name, value);
            hidden += masked.hidden;
            let value = if revealed { value } else { &masked.value };
            (show(name, VALUE_MAX), value.shown(VALUE_MAX))
        });
        let headers = headers.collect();
        let laid_out = layout::lay_out(
            if revealed { body } else { &masked.value },
            whole.len() > body.len(),
            paper,
        );
        Self {
            key: message.key(),
            paper,
            kind: laid_out.kind,
            size: whole.len(),
            cut_at: (whole.len() > body.len()).then_some(body.len()),
            hidden,
            revealed: revealed && hidden > 0,
            headers,
            text: laid_out.text,
            lines: laid_out.lines,
        }
    }

    /// The text of a line.
    #[must_use]
    pub fn line(&self, line: Line) -> &str {
        self.text.get(line.from..line.to).unwrap_or_default()
    }

    /// The line in which a place of the text is.
    #[must_use]
    pub fn line_of(&self, at: usize) -> usize {
        self.lines
            .partition_point(|line| line.to <= at)
            .min(self.lines.len().saturating_sub(1))
    }
}

impl Detail {
    /// Lays out what is in front, unless that is done. What was revealed and is not in front any more is hidden again.
    pub(in crate::console) fn lay_out(&mut self, rules: &MaskRules, columns: usize) {
        let paper = self.reading.paper(columns);
        if self.reading.is_laid_out(paper) {
            return;
        }
        let message = self.answer.as_ref().and_then(|answer| in_front(self, answer));
        let key = message.as_ref().map(InFront::key);
        let revealed = key.is_some() && self.revealed == key;
        let page = message.map(|message| Page::new(&message, rules, revealed, paper));
        self.revealed = key.filter(|_| revealed);
        self.reading.put(page);
    }

    /// Nothing of it is in front any more.
    pub(in crate::console) fn leave(&mut self) {
        (self.reading.page, self.reading.find) = (None, None);
        (self.revealed, self.revealing) = (None, None);
    }
}
