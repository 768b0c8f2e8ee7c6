//! A dead letter: a message nobody will try again by itself, with all that it says about its failure.
//!
//! Everything is read from the message: our own delivery's `x-redrive-dead-…` headers, else the broker's
//! death history, else what common frameworks write. AMQP messages have no identity, so theirs is a hash
//! over queue, properties, headers and body, with an ordinal for equals; what looks and returns change is
//! left out of it. Copies of one of our own collapse by their decision and the fingerprint of what died
//! (docs/protocols.md 17 and 31).

mod event;

use std::cmp::Ordering;
use std::fmt;

pub use event::{EVENT_TABLE, of_event};
use sha2::{Digest, Sha256};

use super::death::{self, COUNTING_HEADERS, DeathHistory, NoOrigin};
use super::error_queue::{self, GivenUp};
use super::id::QueueName;
use super::message::{HeaderValue, Message, encode_without};
use super::named::named;
use super::naming::{Naming, hex};
use super::notification::{HEADER_EXECUTION, HEADER_URL, delivered_from};
use super::time::Timestamp;
use super::url::EndpointUrl;

/// What the headers of our own dead letters begin with.
pub const HEADER_DEAD: &str = "x-redrive-dead-";
/// How often a message was redriven: an integer, kept through a later death.
pub const HEADER_REDRIVEN: &str = "x-redrive-redriven";
/// The last run that redrove it.
pub const HEADER_RUN: &str = "x-redrive-run";

/// Characters of an error or reason that are kept beside the message.
const TEXT_MAX: usize = 300;
/// Characters of what a group is named by.
const WHAT_MAX: usize = 100;

/// Where frameworks write the text of an error, and then its kind.
const FOREIGN_ERRORS: [(&str, &str); 4] = [
    ("x-exception-message", "x-exception-type"),
    ("MT-Fault-Message", "MT-Fault-ExceptionType"),
    (
        "NServiceBus.ExceptionInfo.Message",
        "NServiceBus.ExceptionInfo.ExceptionType",
    ),
    ("rbs2-error-details", "rbs2-error-type"),
];

/// Names one dead letter of a queue: 32 hex digits, and `.n` for the n-th of equal ones from the second on.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
pub struct DeadLetterId(String);

impl DeadLetterId {
    /// The id of the `ordinal`-th (from 1) of those that look like this.
    #[must_use]
    pub fn new(likeness: &Likeness, ordinal: u32) -> Self {
        let digest = hex(&likeness.digest);
        Self(if ordinal > 1 && !likeness.collapses {
            format!("{digest}.{ordinal}")
        } else {
            digest
        })
    }

    /// What was written by a person or program; `None` when no dead letter has such an id.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (digest, ordinal) = text.split_once('.').unwrap_or((text, "2"));
        let digest_fits = digest.len() == 32 && digest.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        let ordinal_fits = ordinal.parse::<u32>().is_ok_and(|n| n > 1 && n.to_string() == ordinal);
        (digest_fits && ordinal_fits).then(|| Self(text.to_owned()))
    }

    /// As printed and stored.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for DeadLetterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What makes messages of a queue look alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Likeness {
    /// Hash over all that counts.
    pub digest: [u8; 16],
    /// Whether alike ones are copies of one dead letter, and not several.
    pub collapses: bool,
}

/// What `message` looks like in `queue`.
#[must_use]
pub fn likeness(queue: &str, message: &Message) -> Likeness {
    let mut digest = Sha256::new();
    part(&mut digest, queue.as_bytes());
    let decision = own_text(message, "decision");
    if let Some(decision) = decision {
        part(&mut digest, b"decision");
        part(&mut digest, decision.as_bytes());
        part(&mut digest, own_text(message, "origin").unwrap_or_default().as_bytes());
        part(
            &mut digest,
            message.message_id.as_deref().unwrap_or_default().as_bytes(),
        );
        // Not said by an older program.
        if let Some(fingerprint) = own_text(message, "fingerprint") {
            part(&mut digest, fingerprint.as_bytes());
        }
    } else {
        // Only a part of 4 GiB has no bytes, and no broker takes that.
        part(
            &mut digest,
            &encode_without(message, &COUNTING_HEADERS).unwrap_or_default(),
        );
    }
    let all = digest.finalize();
    let mut short = [0; 16];
    short.copy_from_slice(&all[..16]);
    Likeness {
        digest: short,
        collapses: decision.is_some(),
    }
}

/// Bytes with their length before them, so that no two lists of parts read alike.
fn part(digest: &mut Sha256, bytes: &[u8]) {
    digest.update(bytes.len().to_be_bytes());
    digest.update(bytes);
}

fn own<'m>(message: &'m Message, name: &str) -> Option<&'m HeaderValue> {
    message.header(&format!("{HEADER_DEAD}{name}"))
}

fn own_text<'m>(message: &'m Message, name: &str) -> Option<&'m str> {
    own(message, name).and_then(HeaderValue::as_text)
}

/// What dead letters that no queue of the broker takes are indexed under.
pub const STORE: &str = "(store)";

/// Which of its homes it lives in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub enum Home {
    /// A dead-letter queue of the broker.
    Broker,
    /// The event table.
    Event,
    /// The store: no queue of the broker takes it.
    Store,
}

named! {
    /// As printed, stored and filtered by.
    Home {
        Self::Broker => "broker",
        Self::Event => "event",
        Self::Store => "store",
    }
}

impl Home {
    /// The home of this word.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Broker, Self::Event, Self::Store]
            .into_iter()
            .find(|home| home.as_str() == name)
    }

    /// The home of messages that are found in this queue.
    #[must_use]
    pub fn of(queue: &QueueName) -> Self {
        if queue.as_str() == STORE {
            Self::Store
        } else {
            Self::Broker
        }
    }
}

/// What makes a queue one of dead letters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
pub enum DeadQueueKind {
    /// It is that of our own delivery queues.
    Own,
    /// Queues of others dead-letter into it.
    DeadLetter,
    /// Applications publish into it what they gave up: its name, the configuration or its first message says so.
    Error,
    /// It is the store, for what no queue of the broker takes.
    Store,
    /// It is the event table.
    Event,
}

named! {
    /// As printed and filtered by.
    DeadQueueKind {
        Self::Own => "own",
        Self::DeadLetter => "dead_letter",
        Self::Error => "error",
        Self::Store => "store",
        Self::Event => "event",
    }
}

/// How many died in the last hour, against the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trend {
    /// More.
    Rising,
    /// As many.
    Steady,
    /// Fewer.
    Falling,
    /// None in both.
    Quiet,
}

named! {
    /// As printed.
    Trend {
        Self::Rising => "rising",
        Self::Steady => "steady",
        Self::Falling => "falling",
        Self::Quiet => "quiet",
    }
}

impl Trend {
    /// Of so many.
    #[must_use]
    pub fn of(last_hour: u64, hour_before: u64) -> Self {
        match last_hour.cmp(&hour_before) {
            Ordering::Greater => Self::Rising,
            Ordering::Equal if last_hour == 0 => Self::Quiet,
            Ordering::Equal => Self::Steady,
            Ordering::Less => Self::Falling,
        }
    }
}

/// A dead letter as it is listed: everything but body and headers.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct DeadLetter {
    /// Its id.
    pub id: DeadLetterId,
    /// Where it lives.
    pub home: Home,
    /// The dead-letter queue (an event type for the event table, [`STORE`] for the store).
    pub queue: QueueName,
    /// 1 for the first of its queue when it was looked at.
    pub position: u64,
    /// The queue that it died in first.
    pub origin: Option<String>,
    /// The id that its publisher gave it.
    pub message_id: Option<String>,
    /// The URL that it should have gone to.
    pub url: Option<String>,
    /// The execution that it belongs to.
    pub execution: Option<String>,
    /// Why it is dead: `refused`, `exhausted`, `undecodable`; `rejected`, `expired`, `maxlen`, `delivery_limit`.
    pub reason: String,
    /// The class of the last attempt's outcome.
    pub class: Option<String>,
    /// The status of the last attempt.
    pub status: Option<u16>,
    /// The error of the last attempt.
    pub error: Option<String>,
    /// How often it was tried, or died.
    pub attempts: Option<u64>,
    /// When it failed first.
    pub first_failed_at: Option<Timestamp>,
    /// When it failed last.
    pub last_failed_at: Option<Timestamp>,
    /// When its own lifetime, or its queue's, drops it.
    pub expires_at: Option<Timestamp>,
    /// How often it was redriven and died again.
    pub redriven: u32,
    /// Groups it with those that failed alike.
    pub fingerprint: String,
    /// The first half of the fingerprint: host and path of the URL, or the origin queue.
    pub place: String,
    /// The other half: exact status, or kind of error, or reason.
    pub what: String,
    /// Bytes of its body.
    pub size_bytes: u64,
    /// The beginning of its body in one line, without what the masks hide; noted by a look.
    pub begins: Option<String>,
    /// Whether the broker says that somebody had it before.
    pub redelivered: bool,
    /// The broker that its store belongs to, by its name; filled in for those who are told of it.
    pub broker: Option<String>,
}

/// What is known of the queue that a message was found in.
#[derive(Clone, Copy, Debug)]
pub struct Found<'a> {
    /// Its name.
    pub queue: &'a QueueName,
    /// 1 for the first.
    pub position: u64,
    /// Whether the broker says that somebody had it before.
    pub redelivered: bool,
    /// How long a message may stay in it.
    pub message_ttl_ms: Option<u64>,
    /// When the queue itself goes with all that is in it.
    pub queue_expires_at: Option<Timestamp>,
}

/// Reads a dead letter; `ordinal` counts those that look alike, from 1.
#[must_use]
pub fn read(message: &Message, likeness: &Likeness, ordinal: u32, found: &Found<'_>) -> DeadLetter {
    let history = death::history(message);
    let given_up = error_queue::recognise(found.queue.as_str(), message);
    let error = error(message, given_up.as_ref());
    let status = own(message, "status").and_then(HeaderValue::as_integer);
    let status = status.and_then(|status| u16::try_from(status).ok());
    let failed = given_up.as_ref().map(|_| "failed");
    let reason = own_text(message, "reason").or_else(|| history.reason()).or(failed);
    let reason = cut(reason.unwrap_or("unknown"), TEXT_MAX);
    let said = given_up.as_ref().and_then(|given_up| given_up.died_in.clone());
    let origin = own_text(message, "origin")
        .or(said.as_deref())
        .or_else(|| history.first_queue());
    let url = message.header_text(HEADER_URL).map(str::to_owned);
    let place = place(url.as_deref(), origin, given_up.as_ref(), found.queue);
    let what = what(status, given_up.as_ref(), &error, &reason);
    let given_up = given_up.unwrap_or_default();
    let error = error.text;
    DeadLetter {
        id: DeadLetterId::new(likeness, ordinal),
        home: Home::of(found.queue),
        queue: found.queue.clone(),
        position: found.position,
        origin: origin.map(|origin| cut(origin, 255)),
        message_id: message.message_id.clone().or(given_up.message_id),
        execution: message.header_text(HEADER_EXECUTION).map(str::to_owned),
        class: own_text(message, "class").map(|class| cut(class, TEXT_MAX)),
        status,
        attempts: own_count(message, "attempts")
            .or(given_up.attempts)
            .or_else(|| history.count()),
        first_failed_at: own_moment(message, "first-failed-at")
            .or_else(|| died_first(message, &history))
            .or(given_up.at),
        last_failed_at: own_moment(message, "last-failed-at")
            .or(given_up.at)
            .or_else(|| died_last(message, &history)),
        expires_at: expires_at(message, &history, found),
        redriven: redriven(message),
        fingerprint: fingerprint(&place, &what),
        size_bytes: message.body.len() as u64,
        begins: None,
        redelivered: found.redelivered,
        broker: None,
        error,
        reason,
        url,
        place,
        what,
    }
}

/// How often `message` was redriven before.
#[must_use]
pub fn redriven(message: &Message) -> u32 {
    let count = message.header_integer(HEADER_REDRIVEN).unwrap_or(0);
    u32::try_from(count).unwrap_or(0)
}

/// What groups are made by: a hash of where and what, 16 hex digits.
#[must_use]
pub fn fingerprint(place: &str, what: &str) -> String {
    let mut digest = Sha256::new();
    part(&mut digest, place.as_bytes());
    part(&mut digest, what.as_bytes());
    hex(&digest.finalize()[..8])
}

/// Where a redrive sends it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub enum Target {
    /// Back into the delivery queue that it died in.
    Delivery(QueueName),
    /// Back to where it had been published before it died first.
    Exchange {
        /// The exchange; empty for the default exchange.
        exchange: String,
        /// The routing key.
        routing_key: String,
    },
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Delivery(queue) => write!(f, "queue {}", queue.as_str()),
            // The default exchange puts into the queue of that name.
            Self::Exchange { exchange, routing_key } if exchange.is_empty() => write!(f, "queue {routing_key}"),
            Self::Exchange { exchange, routing_key } => write!(f, "exchange {exchange}, key {routing_key}"),
        }
    }
}

/// The target of a redrive of what is in `queue` to its origin. A notification that nothing says the way back of, as one
/// that was moved there, names its delivery queue itself.
///
/// # Errors
/// What is known, when that is not enough.
pub fn target(queue: &str, message: &Message, naming: &Naming) -> Result<Target, NoOrigin> {
    let history = death::history(message);
    let given_up = error_queue::recognise(queue, message);
    let origin = own_text(message, "origin").or_else(|| history.first_queue());
    if let Some(queue) = origin
        .filter(|origin| naming.is_delivery_queue(origin))
        .and_then(|name| QueueName::parse(name).ok())
    {
        return Ok(Target::Delivery(queue));
    }
    if let Some(target) = given_up.as_ref().and_then(way_back) {
        return target;
    }
    match history.origin() {
        Ok(origin) => Ok(Target::Exchange {
            exchange: origin.exchange,
            routing_key: origin.routing_key,
        }),
        Err(unknown) => delivered_from(message, naming).map_or(Err(unknown), |queue| Ok(Target::Delivery(queue))),
    }
}

/// Where a framework says that it goes back: where it was published, else the queue that it came from.
fn way_back(given_up: &GivenUp) -> Option<Result<Target, NoOrigin>> {
    if let Some(why) = given_up.damaged {
        return Some(Err(NoOrigin::Damaged { why }));
    }
    let (exchange, routing_key) = match (&given_up.published, &given_up.died_in) {
        (Some(published), _) if !published.exchange.is_empty() => {
            (published.exchange.clone(), published.routing_key.clone())
        }
        (_, Some(queue)) => (String::new(), queue.clone()),
        (Some(published), None) => (String::new(), published.routing_key.clone()),
        (None, None) => return None,
    };
    Some(Ok(Target::Exchange { exchange, routing_key }))
}

/// The last answer and the policy of one of our own, kept with the message only.
#[must_use]
pub fn response(message: &Message) -> Option<&[u8]> {
    own(message, "response")
        .and_then(HeaderValue::as_bytes)
        .map(AsRef::as_ref)
}

/// The policy that applied, as our delivery noted it.
#[must_use]
pub fn policy(message: &Message) -> Option<&str> {
    own_text(message, "policy")
}

fn own_count(message: &Message, name: &str) -> Option<u64> {
    own(message, name)?
        .as_integer()
        .and_then(|count| u64::try_from(count).ok())
}

fn own_moment(message: &Message, name: &str) -> Option<Timestamp> {
    own(message, name)?.as_integer().map(Timestamp::from_seconds)
}

/// When it died first: by the history, else as our delivery noted it.
fn died_first(message: &Message, history: &DeathHistory) -> Option<Timestamp> {
    history.first_at().or_else(|| own_moment(message, "at"))
}

/// When it died last: as our delivery noted it, else by the history.
fn died_last(message: &Message, history: &DeathHistory) -> Option<Timestamp> {
    own_moment(message, "at").or_else(|| history.last_at())
}

/// What is said of an error.
#[derive(Default)]
struct Failure {
    text: Option<String>,
    kind: Option<String>,
}

fn error(message: &Message, given_up: Option<&GivenUp>) -> Failure {
    if let Some(error) = own_text(message, "error") {
        return Failure {
            text: Some(cut(error, TEXT_MAX)),
            kind: None,
        };
    }
    if let Some(given_up) = given_up {
        return Failure {
            text: given_up.error.as_deref().map(|error| cut(error, TEXT_MAX)),
            kind: given_up.kind.as_deref().map(|kind| cut(kind, WHAT_MAX)),
        };
    }
    for (text, kind) in FOREIGN_ERRORS {
        if let Some(error) = message.header_text(text) {
            return Failure {
                text: Some(cut(error, TEXT_MAX)),
                kind: message.header_text(kind).map(|kind| cut(kind, WHAT_MAX)),
            };
        }
    }
    Failure::default()
}

/// The earlier of its own end and its queue's. It came into its queue when it died last.
fn expires_at(message: &Message, history: &DeathHistory, found: &Found<'_>) -> Option<Timestamp> {
    // When its publisher says that it was made is not when it came here.
    let came = died_last(message, history);
    let own_ms = message.expiration.as_deref().and_then(|text| text.parse::<u64>().ok());
    let ttl_ms = own_ms.into_iter().chain(found.message_ttl_ms).min();
    let message_ends = came.zip(ttl_ms);
    let message_ends = message_ends.map(|(came, ms)| came.plus(std::time::Duration::from_millis(ms)));
    message_ends.into_iter().chain(found.queue_expires_at).min()
}

fn place(url: Option<&str>, origin: Option<&str>, given_up: Option<&GivenUp>, queue: &QueueName) -> String {
    let place = match url.map(|url| (url, EndpointUrl::parse(url))) {
        Some((_, Ok(url))) => place_of(&url),
        Some((url, Err(_))) => url.to_owned(),
        None => match (origin, given_up.and_then(|given_up| given_up.published.as_ref())) {
            (Some(origin), _) => origin.to_owned(),
            (None, Some(published)) => format!("{}/{}", published.exchange, published.routing_key),
            (None, None) => queue.as_str().to_owned(),
        },
    };
    cut(&place, TEXT_MAX)
}

/// The place of what should have gone to a URL: its host and path.
#[must_use]
pub fn place_of(url: &EndpointUrl) -> String {
    let text = url.as_str();
    let text = text.split_once("://").map_or(text, |(_, rest)| rest);
    cut(text.split_once('?').map_or(text, |(before, _)| before), TEXT_MAX)
}

fn what(status: Option<u16>, given_up: Option<&GivenUp>, error: &Failure, reason: &str) -> String {
    let Failure { text, kind } = error;
    match (status, text, kind) {
        (Some(status), _, _) => format!("status {status}"),
        (None, Some(text), Some(kind)) if text != kind => with_frame(&format!("{kind}: {}", kind_of(text)), given_up),
        (None, Some(error), _) | (None, None, Some(error)) => {
            let what = with_frame(&kind_of(error), given_up);
            // A task has no error of its own.
            if text.is_none() {
                format!("{reason}: {what}")
            } else {
                what
            }
        }
        (None, None, None) => reason.to_owned(),
    }
}

/// With where it was thrown, which tells two errors of one kind apart.
fn with_frame(what: &str, given_up: Option<&GivenUp>) -> String {
    match given_up.and_then(|given_up| given_up.frame.as_deref()) {
        Some(frame) => format!("{} at {frame}", cut(what, WHAT_MAX)),
        None => cut(what, 2 * WHAT_MAX),
    }
}

/// An error without what is different each time: numbers, long ids and what stands in quotation marks become `#`.
#[must_use]
pub fn kind_of(error: &str) -> String {
    let line = unquoted(error.lines().next().unwrap_or_default());
    let is_id = |word: &str| {
        word.bytes().any(|b| b.is_ascii_digit()) && word.bytes().all(|b| b.is_ascii_hexdigit() || b == b'-')
    };
    let mut kind = String::new();
    for piece in line.split_inclusive(|c: char| !(c.is_alphanumeric() || c == '-')) {
        let word = piece.trim_end_matches(|c: char| !(c.is_alphanumeric() || c == '-'));
        kind.push_str(if is_id(word) { "#" } else { word });
        kind.push_str(&piece[word.len()..]);
        if kind.len() > WHAT_MAX {
            break;
        }
    }
    cut(&kind, WHAT_MAX)
}

/// Values in quotation marks become `#`. A mark that is not closed, or an apostrophe, is none.
fn unquoted(line: &str) -> String {
    let (mut plain, mut rest) = (String::new(), line);
    while let Some(at) = rest.find(['"', '\'', '`']) {
        let (before, quoted) = rest.split_at(at);
        let mark = &quoted[..1];
        let opens = before.chars().next_back().is_none_or(|c| !c.is_alphanumeric());
        let end = opens.then(|| quoted[1..].find(mark)).flatten();
        plain.push_str(before);
        if let Some(end) = end {
            plain.push_str(mark);
            plain.push('#');
            plain.push_str(mark);
            rest = &quoted[end + 2..];
        } else {
            plain.push_str(mark);
            rest = &quoted[1..];
        }
    }
    plain.push_str(rest);
    plain
}

fn cut(text: &str, max: usize) -> String {
    text[..text.floor_char_boundary(max)].to_owned()
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::domain::id::ExecutionId;
    use crate::domain::naming::QueueType;

    const ORIGIN: &str = "redrive.order-1.0cc175b9c0f1b6a831c399e269772661";

    fn naming() -> Naming {
        Naming {
            prefix: "redrive.".to_owned(),
            vhost: "redrive".to_owned(),
            url_hash_key: "k".to_owned(),
            queue_type: QueueType::Classic,
        }
    }

    fn queue() -> QueueName {
        QueueName::parse("dlq").unwrap()
    }

    fn found(queue: &QueueName) -> Found<'_> {
        Found {
            queue,
            position: 1,
            redelivered: false,
            message_ttl_ms: None,
            queue_expires_at: None,
        }
    }

    fn read_one(message: &Message) -> DeadLetter {
        let queue = queue();
        read(message, &likeness("dlq", message), 1, &found(&queue))
    }

    fn ours(status: i64) -> Message {
        Message {
            message_id: Some("m1".into()),
            headers: vec![
                (
                    HEADER_URL.into(),
                    HeaderValue::text("https://shop.example:8443/hook?token=s3cr3t"),
                ),
                (HEADER_EXECUTION.into(), HeaderValue::text("order-1")),
                ("x-redrive-dead-origin".into(), HeaderValue::text(ORIGIN)),
                ("x-redrive-dead-decision".into(), HeaderValue::text("d1")),
                ("x-redrive-dead-reason".into(), HeaderValue::text("refused")),
                ("x-redrive-dead-class".into(), HeaderValue::text("refused")),
                ("x-redrive-dead-status".into(), HeaderValue::Integer(status)),
                ("x-redrive-dead-attempts".into(), HeaderValue::Integer(3)),
                ("x-redrive-dead-first-failed-at".into(), HeaderValue::Integer(100)),
                ("x-redrive-dead-last-failed-at".into(), HeaderValue::Integer(200)),
            ],
            body: Bytes::from_static(b"body"),
            ..Message::default()
        }
    }

    #[test]
    fn our_own_tells_everything() {
        let letter = read_one(&ours(404));
        assert_eq!(
            (letter.reason.as_str(), letter.class.as_deref()),
            ("refused", Some("refused"))
        );
        assert_eq!((letter.status, letter.attempts), (Some(404), Some(3)));
        assert_eq!(letter.place, "shop.example:8443/hook");
        assert_eq!(letter.what, "status 404");
        assert_eq!(letter.first_failed_at, Some(Timestamp::from_seconds(100)));
        assert_eq!(letter.execution.as_deref(), Some("order-1"));
        assert_eq!(
            target("dlq", &ours(404), &naming()),
            Ok(Target::Delivery(QueueName::parse(ORIGIN).unwrap()))
        );
    }

    #[test]
    fn those_that_failed_alike_share_a_fingerprint() {
        let (one, other) = (read_one(&ours(404)), read_one(&ours(500)));
        assert_ne!(one.fingerprint, other.fingerprint);
        let mut elsewhere = ours(404);
        elsewhere.headers[0].1 = HeaderValue::text("https://shop.example:8443/hook?token=other");
        assert_eq!(read_one(&elsewhere).fingerprint, one.fingerprint);
        assert_eq!(
            kind_of("order 4711 of 0192f3aa-77: timeout after 30 s"),
            "order # of #: timeout after # s"
        );
        assert_eq!(kind_of("dead beef"), "dead beef");
        assert_eq!(
            kind_of("column \"name\" of 'Ann' isn't there"),
            "column \"#\" of '#' isn't there"
        );
    }

    #[test]
    fn copies_of_one_decision_are_one_and_equals_are_several() {
        let mut copy = ours(404);
        copy.headers.push(("x-redrive-dead-at".into(), HeaderValue::Integer(7)));
        assert_eq!(likeness("dlq", &copy), likeness("dlq", &ours(404)));
        assert_eq!(
            DeadLetterId::new(&likeness("dlq", &copy), 2),
            DeadLetterId::new(&likeness("dlq", &copy), 1)
        );
        let foreign = Message::default();
        let like = likeness("dlq", &foreign);
        assert_ne!(DeadLetterId::new(&like, 2), DeadLetterId::new(&like, 1));
        assert_ne!(like, likeness("other", &foreign));
    }

    #[test]
    fn letters_of_one_decision_about_different_messages_are_several() {
        let of = |fingerprint: &str| {
            let mut letter = ours(404);
            let said = ("x-redrive-dead-fingerprint".into(), HeaderValue::text(fingerprint));
            letter.headers.push(said);
            likeness("dlq", &letter)
        };
        assert_eq!(of("one"), of("one"));
        assert_ne!(of("one"), of("other"));
        assert!(of("one").collapses);
    }

    #[test]
    fn looks_do_not_change_an_id() {
        let mut looked = Message::default();
        looked
            .headers
            .push(("x-delivery-count".into(), HeaderValue::Integer(3)));
        assert_eq!(likeness("dlq", &looked), likeness("dlq", &Message::default()));
        looked.priority = Some(1);
        assert_ne!(likeness("dlq", &looked), likeness("dlq", &Message::default()));
    }

    #[test]
    fn ids_are_read_as_they_are_written() {
        let like = likeness("dlq", &Message::default());
        for ordinal in [1, 2, 10] {
            let id = DeadLetterId::new(&like, ordinal);
            assert_eq!(DeadLetterId::parse(id.as_str()), Some(id));
        }
        let digest = hex(&like.digest);
        for odd in [
            "",
            "x",
            &digest[1..],
            &format!("{digest}.1"),
            &format!("{digest}.02"),
            &format!("{digest}."),
        ] {
            assert_eq!(DeadLetterId::parse(odd), None, "{odd}");
        }
    }

    #[test]
    fn the_nearer_end_counts() {
        let queue = queue();
        let mut message = ours(404);
        message.expiration = Some("5000".into());
        message.timestamp_s = Some(1);
        let read = |found: &Found<'_>| read(&message, &likeness("dlq", &message), 1, found).expires_at;
        let mut message_at = found(&queue);
        assert_eq!(read(&message_at), None, "when it came is not known");
        message
            .headers
            .push(("x-redrive-dead-at".into(), HeaderValue::Integer(300)));
        let read = |found: &Found<'_>| super::read(&message, &likeness("dlq", &message), 1, found).expires_at;
        assert_eq!(read(&message_at), Some(Timestamp::from_seconds(305)));
        message_at.message_ttl_ms = Some(1000);
        assert_eq!(read(&message_at), Some(Timestamp::from_seconds(301)));
        message_at.queue_expires_at = Some(Timestamp::from_seconds(2));
        assert_eq!(read(&message_at), Some(Timestamp::from_seconds(2)));
    }

    #[test]
    fn a_message_that_says_nothing_is_listed_all_the_same() {
        let letter = read_one(&Message::default());
        assert_eq!(
            (letter.reason.as_str(), letter.place.as_str(), letter.what.as_str()),
            ("unknown", "dlq", "unknown")
        );
        assert_eq!(
            (letter.attempts, letter.first_failed_at, letter.redriven),
            (None, None, 0)
        );
        target("dlq", &Message::default(), &naming()).unwrap_err();
    }

    /// As one that was moved there by hand.
    #[test]
    fn a_notification_without_a_history_goes_back_to_the_queue_that_it_names() {
        let header = |name: &str, text: &str| (name.to_owned(), HeaderValue::text(text));
        let url = EndpointUrl::parse("https://shop.example/hook").unwrap();
        let message = Message {
            headers: vec![header(HEADER_URL, url.as_str()), header(HEADER_EXECUTION, "order-1")],
            ..Message::default()
        };
        let own = naming().delivery_queue(&ExecutionId::parse("order-1").unwrap(), &url);
        assert_eq!(target("dlq", &message, &naming()), Ok(Target::Delivery(own)));
    }
}
