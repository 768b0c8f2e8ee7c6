//! The readers of bytes that others write, each as a function of bytes: for those who feed them with what nobody would
//! write in earnest (`tests/fuzz`).
//!
//! A function answers whether it understood the bytes, and panics where what it read breaks a rule that holds for any
//! bytes: what is read and written again is the same, what is decoded can be sent, no answer is past its bound. No
//! part of the program; nothing is opened, created or connected to.

use std::borrow::Cow;
use std::time::Duration;

use crate::broker::rabbitmq::foreign;
use crate::config;
use crate::console::runtime::answers;
use crate::console::theme::Sources;
use crate::delivery::{headers, http};
use crate::domain::dead_letter::{self, Found};
use crate::domain::death;
use crate::domain::filter::{Field, FieldKind, FieldValue, Fields, Filter, FilterError};
use crate::domain::id::{NotificationId, QueueName};
use crate::domain::message::{self, Message};
use crate::domain::naming::{Naming, QueueType};
use crate::domain::notification::{self, Decoded};
use crate::domain::outcome::Outcome;
use crate::domain::policy::{PolicyOwner, SCHEDULE_S_MAX};
use crate::domain::time::Timestamp;
use crate::engine::policies;

/// A reader of bytes that others write.
#[derive(Clone, Copy, Debug)]
pub struct Parser {
    /// Its name, for people.
    pub name: &'static str,
    /// Whether it understands the bytes; panics where what it read breaks a rule.
    pub read: fn(&[u8]) -> bool,
    /// Bytes that are worth a try, at most.
    pub bytes_max: usize,
}

/// All of them.
pub const PARSERS: [Parser; 10] = [
    Parser::new("message", message, 64 * 1024),
    Parser::new("frames", foreign::frames_are_understood, 256 * 1024),
    Parser::new("headers", headers, 128 * 1024),
    Parser::new("filter", filter, 8 * 1024),
    Parser::new("policy", policy, 64 * 1024),
    Parser::new("retry_after", retry_after, 256),
    Parser::new("deaths", deaths, 128 * 1024),
    Parser::new("theme", theme, 64 * 1024),
    Parser::new("toml", config::is_understood, 64 * 1024),
    Parser::new("answers", answers::are_understood, 16 * 1024),
];

impl Parser {
    const fn new(name: &'static str, read: fn(&[u8]) -> bool, bytes_max: usize) -> Self {
        Self { name, read, bytes_max }
    }
}

/// What a column or journal of ours holds, where others may have written it.
fn message(bytes: &[u8]) -> bool {
    /// The names and lengths of the two entries that are written always.
    const ADDED_BYTES: usize = 64;
    let headers = message::decode_headers(bytes);
    if let Some(headers) = &headers {
        let again = message::encode_headers(headers);
        let read = again.as_deref().and_then(message::decode_headers);
        let once_more = read.and_then(|headers| message::encode_headers(&headers));
        assert!(
            again.is_some() && again == once_more,
            "headers, written and read, are others"
        );
        shown(headers);
    }
    let _ = message::decode_properties(bytes, &mut Message::default());
    let Some(message) = message::decode(bytes) else {
        return headers.is_some();
    };
    let again = message::encode(&message).unwrap_or_default();
    assert!(
        again.len() <= bytes.len() + ADDED_BYTES,
        "{} bytes were read, and {} are written",
        bytes.len(),
        again.len()
    );
    let once_more = message::decode(&again).and_then(|message| message::encode(&message));
    assert_eq!(Some(again), once_more, "a message, written and read, is another");
    true
}

/// What is said of a value has a bound.
fn shown(headers: &[(String, message::HeaderValue)]) {
    const SHOWN_MAX: usize = 80;
    for (_, value) in headers {
        let shown = value.shown(SHOWN_MAX);
        assert!(
            shown.len() <= SHOWN_MAX + '…'.len_utf8(),
            "{} bytes are shown",
            shown.len()
        );
        let _ = (value.is_whole(), value.as_integer(), value.as_text());
    }
}

/// Properties and headers of a message as they come from the broker, and the notification that they make.
fn headers(bytes: &[u8]) -> bool {
    let Some(message) = foreign::message_of_properties(bytes) else {
        return false;
    };
    shown(&message.headers);
    let Ok(fallback) = NotificationId::parse("fallback") else {
        return true;
    };
    if let Decoded::Notification(notification) = notification::decode(&message, &|| fallback.clone()) {
        let content_type = notification.content_type.iter();
        let content_type = content_type.map(|value| ("content-type", value.as_str()));
        let given = notification.headers.iter();
        for (name, value) in given
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .chain(content_type)
        {
            assert!(headers::can_be_sent(name, value), "{name:?}: {value:?} cannot be sent");
        }
    }
    let written = message::encode(&message).unwrap_or_default();
    assert!(
        message::decode(&written).is_some(),
        "what came cannot be read in a store"
    );
    true
}

/// Fields of every kind; the text of the one row stands behind the filter, behind a NUL.
const FIELDS: [Field; 6] = [
    Field::new("body.", FieldKind::Text),
    Field::new("at", FieldKind::Time),
    Field::new("url", FieldKind::Text),
    Field::new("depth", FieldKind::Number),
    Field::new("age", FieldKind::Duration),
    Field::new("paused", FieldKind::Bool),
];

struct Row<'a>(&'a str);

impl Fields for Row<'_> {
    fn field(&self, name: &str) -> FieldValue<'_> {
        match name {
            "url" => FieldValue::Text(Cow::Borrowed(self.0)),
            "depth" => FieldValue::Number(f64::from(u16::try_from(self.0.len()).unwrap_or(u16::MAX))),
            "age" => FieldValue::Duration(Duration::from_secs(90)),
            "paused" => FieldValue::Bool(true),
            "at" => FieldValue::Time(Timestamp::from_seconds(1_800_000_000)),
            _ => FieldValue::Missing,
        }
    }

    fn at(&self, _: &str, place: &str) -> FieldValue<'_> {
        if place.len().is_multiple_of(2) {
            FieldValue::Numeral(Cow::Borrowed(self.0))
        } else {
            FieldValue::Text(Cow::Borrowed(self.0))
        }
    }
}

fn filter(bytes: &[u8]) -> bool {
    const MESSAGE_BYTES_MAX: usize = 1024;
    let text = String::from_utf8_lossy(bytes);
    let (source, row) = text.split_once('\0').unwrap_or((&text, "https://a.example/b?c=d"));
    match Filter::parse(source, &FIELDS) {
        Ok(filter) => {
            let _ = filter.conditions();
            let again = Filter::parse(filter.as_str(), &FIELDS);
            let again = again.map(|again| again.matches(&Row(row)));
            assert_eq!(again, Ok(filter.matches(&Row(row))), "read again, it is another filter");
            true
        }
        Err(FilterError { column, message, .. }) => {
            assert!(column <= source.chars().count() + 1, "column {column} of {source:?}");
            assert!(message.len() <= MESSAGE_BYTES_MAX, "{} bytes say why", message.len());
            assert!(!message.chars().any(char::is_control), "{message:?} is for a screen");
            false
        }
    }
}

/// A policy as a publisher, an operator or a subscriber writes it.
fn policy(bytes: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return false;
    };
    let mut understood = false;
    for owner in [PolicyOwner::Queue, PolicyOwner::Subscription, PolicyOwner::Default] {
        let Ok(Some(policy)) = policies::read(text, owner) else {
            continue;
        };
        understood = true;
        let again = crate::domain::policy::RetryPolicy::from_value(&policy.to_value(owner), owner);
        assert_eq!(
            again,
            Ok(Some(policy.clone())),
            "written and read, it is another policy"
        );
        let canonical = policies::canonical(text, owner).ok().flatten();
        let canonical = canonical.map(|text| policies::read(&text, owner));
        assert_eq!(canonical, Some(Ok(Some(policy.clone()))), "saved, it is another policy");
        let total_s: u64 = policy.schedule().delays_s().map(u64::from).sum();
        assert!(total_s <= SCHEDULE_S_MAX, "the schedule takes {total_s} s");
    }
    understood
}

/// The header of a receiver's answer.
fn retry_after(bytes: &[u8]) -> bool {
    const CAP_S: u64 = 3_600;
    let now = Timestamp::from_seconds(1_800_000_000);
    let kept = http::kept_retry_after(bytes);
    let asked = Outcome::Status(503).hint_s(Some(&kept), now, CAP_S);
    assert!(asked.is_none_or(|seconds| seconds <= CAP_S), "{asked:?} seconds");
    asked.is_some()
}

/// What a broker, or whoever publishes to one, says of a message's past: as it comes, or as a store of ours keeps it.
fn deaths(bytes: &[u8]) -> bool {
    /// The bounds of a history and of the keys of an entry.
    const DEATHS_MAX: usize = 100;
    const KEYS_MAX: usize = 32;
    let kept = message::decode_headers(bytes).map(|headers| Message::default().with_headers(headers));
    let Some(message) = kept.or_else(|| foreign::message_of_properties(bytes)) else {
        return false;
    };
    let history = death::history(&message);
    assert!(history.deaths.len() <= DEATHS_MAX, "{} deaths", history.deaths.len());
    for death in &history.deaths {
        assert!(
            death.routing_keys.len() <= KEYS_MAX,
            "{} keys",
            death.routing_keys.len()
        );
    }
    if let Ok(origin) = history.origin() {
        assert!(!origin.queue.is_empty() || history.first_queue() == Some(""));
    }
    let _ = (history.count(), history.first_at(), history.last_at(), history.reason());
    if let Ok(queue) = QueueName::parse("orders.dlq") {
        let likeness = dead_letter::likeness(queue.as_str(), &message);
        let found = Found {
            queue: &queue,
            position: 1,
            redelivered: false,
            message_ttl_ms: Some(1_000),
            queue_expires_at: None,
        };
        let _ = dead_letter::read(&message, &likeness, 1, &found);
        let naming = Naming {
            prefix: "q".to_owned(),
            vhost: "/".to_owned(),
            url_hash_key: "k".to_owned(),
            queue_type: QueueType::Classic,
        };
        let _ = dead_letter::target("q-error", &message, &naming);
    }
    !history.is_empty()
}

/// A theme that somebody wrote for others.
fn theme(bytes: &[u8]) -> bool {
    const MESSAGE_BYTES_MAX: usize = 4 * 1024;
    let Ok(text) = std::str::from_utf8(bytes) else {
        return false;
    };
    let mut sources = Sources::builtin();
    sources.add("mine", "mine.toml", Ok(text.to_owned()));
    match sources.find("mine") {
        Ok(theme) => {
            assert_eq!(theme.name(), "mine");
            true
        }
        Err(error) => {
            let message = error.to_string();
            assert!(message.len() <= MESSAGE_BYTES_MAX, "{} bytes say why", message.len());
            assert!(!message.chars().any(char::is_control), "{message:?} is for a screen");
            false
        }
    }
}
