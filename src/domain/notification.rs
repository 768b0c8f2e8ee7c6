//! What is delivered: one HTTP request for one (execution, url), or the end mark of its sequence.
//!
//! The form on the wire is docs/contract.md, *A notification on the wire, version 1*; `decode` is lenient
//! in what it reads and exact about what it refuses: a message that is not ours is named as such,
//! never guessed at.

use bytes::Bytes;

use super::id::{ExecutionId, IdError, NotificationId, QueueName};
use super::message::{HeaderValue, Message, timestamp_s};
use super::naming::Naming;
use super::time::Timestamp;
use super::trace::{self, TRACEPARENT, TRACESTATE};
use super::url::{EndpointUrl, UrlError};

/// Where the notification goes.
pub const HEADER_URL: &str = "x-redrive-url";
/// The execution it belongs to.
pub const HEADER_EXECUTION: &str = "x-redrive-execution";
/// Prefix of a request header's name.
pub const HEADER_REQUEST: &str = "x-redrive-header-";
/// Override: seconds between retries.
pub const HEADER_POLLING_TIME: &str = "x-redrive-polling-time";
/// Override: number of retries.
pub const HEADER_RESTART_COUNT: &str = "x-redrive-restart-count";
/// Event type, when an event's subscription made the notification.
pub const HEADER_TYPE: &str = "x-redrive-type";
/// Subscription, when an event's subscription made the notification.
pub const HEADER_SUBSCRIPTION: &str = "x-redrive-subscription";

/// A body of a notification may have this many bytes.
pub const BODY_BYTES_MAX: usize = 16 * 1024 * 1024;
/// All request headers together may have this many bytes.
pub const HEADER_BYTES_MAX: usize = 32 * 1024;
/// The name of a request header may have this many bytes.
const HEADER_NAME_BYTES_MAX: usize = 200;
/// A notification may have this many request headers.
pub const HEADERS_MAX: usize = 100;
/// The longest override delay, in seconds (30 days).
pub const POLLING_TIME_S_MAX: u32 = 2_592_000;
/// The largest override count.
pub const RESTART_COUNT_MAX: u32 = 1_000;

/// Request headers that belong to the connection or to the sender: never taken from a publisher.
pub const HEADERS_RESERVED: &[&str] = &[
    "connection",
    "content-length",
    "expect",
    "host",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "redrive-epoch",
    "redrive-queue",
    "redrive-sequence",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "webhook-id",
    "webhook-signature",
    "webhook-timestamp",
];

/// Why such a header is refused where it is written down.
pub const RESERVED: &str = "belongs to the connection or to the sender; leave it out";

/// One HTTP request to deliver.
#[derive(Clone, Debug, PartialEq)]
pub struct Notification {
    /// Same over all attempts.
    pub id: NotificationId,
    /// The sequence it belongs to.
    pub execution: ExecutionId,
    /// Where it goes.
    pub url: EndpointUrl,
    /// Request headers, in order.
    pub headers: Vec<(String, String)>,
    /// `Content-Type` of the request; `application/octet-stream` when absent.
    pub content_type: Option<String>,
    /// The request's body, byte for byte.
    pub body: Bytes,
    /// Per-message override of the retry policy: seconds between retries.
    pub polling_time_s: Option<u32>,
    /// Per-message override of the retry policy: number of retries.
    pub restart_count: Option<u32>,
    /// When it was published.
    pub created_at: Option<Timestamp>,
    /// The event type it was made from.
    pub event_type: Option<String>,
    /// The subscription it was made for.
    pub subscription: Option<String>,
}

/// What a message on a delivery queue is.
#[derive(Clone, Debug, PartialEq)]
pub enum Decoded {
    /// A request to deliver.
    Notification(Box<Notification>),
    /// The end mark.
    End,
    /// Not ours, or broken: kept and shown, never delivered, never lost.
    Foreign(String),
}

/// Why a notification cannot be published.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotificationError {
    /// The id or execution id.
    #[error(transparent)]
    Id(#[from] IdError),
    /// The URL.
    #[error(transparent)]
    Url(#[from] UrlError),
    /// Another field.
    #[error("{field} {problem}")]
    Field {
        /// The field, as the publisher wrote it.
        field: String,
        /// What is wrong and what is possible.
        problem: String,
    },
}

impl NotificationError {
    /// The offending field.
    #[must_use]
    pub fn field(&self) -> &str {
        match self {
            Self::Id(error) => error.field,
            Self::Url(_) => "url",
            Self::Field { field, .. } => field,
        }
    }

    fn of(field: &str, problem: impl Into<String>) -> Self {
        Self::Field {
            field: field.to_owned(),
            problem: problem.into(),
        }
    }
}

impl Notification {
    /// Checks what only a whole notification can be checked for; the parts are valid by their types.
    pub fn validate(&self) -> Result<(), NotificationError> {
        if self.body.len() > BODY_BYTES_MAX {
            return Err(NotificationError::of(
                "body",
                format!("is {} bytes; at most {BODY_BYTES_MAX} are possible", self.body.len()),
            ));
        }
        check_headers(&self.headers)?;
        if let Some(problem) = self.content_type.as_deref().and_then(content_type_problem) {
            return Err(NotificationError::of("content_type", problem));
        }
        within("polling_time", self.polling_time_s, POLLING_TIME_S_MAX)?;
        within("restart_count", self.restart_count, RESTART_COUNT_MAX)
    }

    /// The message that carries it.
    #[must_use]
    pub fn to_message(&self) -> Message {
        let mut headers = vec![
            (HEADER_URL.to_owned(), HeaderValue::text(self.url.as_str())),
            (HEADER_EXECUTION.to_owned(), HeaderValue::text(self.execution.as_str())),
        ];
        for (name, value) in &self.headers {
            headers.push((format!("{HEADER_REQUEST}{name}"), HeaderValue::text(value)));
        }
        for (name, number) in [
            (HEADER_POLLING_TIME, self.polling_time_s),
            (HEADER_RESTART_COUNT, self.restart_count),
        ] {
            headers.extend(number.map(|n| (name.to_owned(), HeaderValue::Integer(i64::from(n)))));
        }
        for (name, text) in [
            (HEADER_TYPE, &self.event_type),
            (HEADER_SUBSCRIPTION, &self.subscription),
        ] {
            headers.extend(text.as_deref().map(|t| (name.to_owned(), HeaderValue::text(t))));
        }
        Message {
            content_type: self.content_type.clone(),
            message_id: Some(self.id.as_str().to_owned()),
            kind: Some("notification".to_owned()),
            timestamp_s: self.created_at.map(timestamp_s),
            headers,
            body: self.body.clone(),
            ..Message::default()
        }
    }
}

/// The message that marks the end of (execution, url).
#[must_use]
pub fn end_mark(id: &NotificationId, execution: &ExecutionId, url: &EndpointUrl, created_at: Timestamp) -> Message {
    Message {
        message_id: Some(id.as_str().to_owned()),
        kind: Some("end".to_owned()),
        timestamp_s: Some(timestamp_s(created_at)),
        headers: vec![
            (HEADER_URL.to_owned(), HeaderValue::text(url.as_str())),
            (HEADER_EXECUTION.to_owned(), HeaderValue::text(execution.as_str())),
        ],
        ..Message::default()
    }
}

/// Reads a message from a delivery queue. `fallback_id` names a message that came without an id:
/// it must be the same at every redelivery of that message.
#[must_use]
pub fn decode(message: &Message, fallback_id: &dyn Fn() -> NotificationId) -> Decoded {
    decode_from(message, None, fallback_id)
}

/// [`decode`] of a message from the queue of `url`, where that is known: the same URL is not parsed again.
#[must_use]
pub fn decode_from(message: &Message, url: Option<&EndpointUrl>, fallback_id: &dyn Fn() -> NotificationId) -> Decoded {
    match message.kind.as_deref() {
        None | Some("notification") => match decode_notification(message, url, fallback_id) {
            Ok(notification) => Decoded::Notification(Box::new(notification)),
            Err(error) => Decoded::Foreign(error.to_string()),
        },
        Some("end") => Decoded::End,
        Some(other) => Decoded::Foreign(format!("type {other:?} is neither `notification` nor `end`")),
    }
}

/// The delivery queue that a notification is delivered from, which its execution and URL name.
///
/// # Errors
/// Why it is delivered from none.
///
/// # Panics
/// Never: a dash is an id.
#[expect(clippy::expect_used, reason = "a dash is visible ASCII")]
pub fn delivered_from(message: &Message, naming: &Naming) -> Result<QueueName, String> {
    let unnamed = || NotificationId::parse("-").expect("visible ASCII");
    match decode(message, &unnamed) {
        Decoded::Notification(notification) => Ok(naming.delivery_queue(&notification.execution, &notification.url)),
        Decoded::End => Err("it is the end mark of a queue".to_owned()),
        Decoded::Foreign(why) => Err(why),
    }
}

fn decode_notification(
    message: &Message,
    known: Option<&EndpointUrl>,
    fallback_id: &dyn Fn() -> NotificationId,
) -> Result<Notification, NotificationError> {
    let url = required(message, HEADER_URL)?;
    let url = match known.filter(|known| known.as_str() == url) {
        Some(known) => known.clone(),
        None => EndpointUrl::parse(url)?,
    };
    let execution = ExecutionId::parse(required(message, HEADER_EXECUTION)?)?;
    let id = match message.message_id.as_deref() {
        Some(text) => NotificationId::parse(text)?,
        None => fallback_id(),
    };
    let notification = Notification {
        id,
        execution,
        url,
        headers: request_headers(message)?,
        content_type: message.content_type.clone(),
        body: message.body.clone(),
        polling_time_s: number(message, HEADER_POLLING_TIME)?,
        restart_count: number(message, HEADER_RESTART_COUNT)?,
        created_at: message.created_at(),
        event_type: message.header_text(HEADER_TYPE).map(ToOwned::to_owned),
        subscription: message.header_text(HEADER_SUBSCRIPTION).map(ToOwned::to_owned),
    };
    notification.validate()?;
    Ok(notification)
}

fn required<'a>(message: &'a Message, name: &str) -> Result<&'a str, NotificationError> {
    match message.header(name) {
        None => Err(NotificationError::of(name, "is missing")),
        Some(value) => value
            .as_text()
            .ok_or_else(|| NotificationError::of(name, "must be UTF-8 text")),
    }
}

/// Reserved headers are left out: a publisher cannot frame the request or speak for the sender.
fn request_headers(message: &Message) -> Result<Vec<(String, String)>, NotificationError> {
    let mut headers = Vec::new();
    for (key, value) in &message.headers {
        let Some(name) = key.strip_prefix(HEADER_REQUEST) else {
            continue;
        };
        if is_reserved(name) {
            continue;
        }
        let text = value
            .as_text()
            .ok_or_else(|| NotificationError::of(key, "must be UTF-8 text"))?;
        headers.push((name.to_owned(), text.to_owned()));
    }
    // An instrumented client writes its trace beside them, under the plain names.
    let plain = |name: &str| message.header_text(name);
    let has = |name: &str| headers.iter().any(|(one, _)| one.eq_ignore_ascii_case(name));
    let traced = trace::context(plain(TRACEPARENT), plain(TRACESTATE), has);
    if headers.len() + traced.len() <= HEADERS_MAX {
        headers.extend(traced);
    }
    Ok(headers)
}

fn number(message: &Message, name: &str) -> Result<Option<u32>, NotificationError> {
    let parsed = match message.header(name) {
        None => return Ok(None),
        Some(value) if value.as_integer().is_some() => value.as_integer().and_then(|n| u32::try_from(n).ok()),
        Some(value) => value.as_text().and_then(|text| text.parse().ok()),
    };
    parsed
        .map(Some)
        .ok_or_else(|| NotificationError::of(name, "must be a whole number of 0 or more"))
}

/// Whether a request header of that name is ignored in a message (framing, connection, our own).
#[must_use]
pub fn is_reserved(name: &str) -> bool {
    HEADERS_RESERVED
        .iter()
        .any(|reserved| name.eq_ignore_ascii_case(reserved))
}

/// Request headers with each name once, because a message has one value for a name. Several values become one list,
/// which says the same (RFC 9110, 5.3); those of a cookie are separated in their own way (RFC 6265, 4.2.1). More than are
/// possible stay as they are, to be refused.
#[must_use]
pub fn each_name_once(headers: Vec<(String, String)>) -> Vec<(String, String)> {
    if headers.len() > HEADERS_MAX {
        return headers;
    }
    let mut once: Vec<(String, String)> = Vec::with_capacity(headers.len());
    for (name, value) in headers {
        match once.iter_mut().find(|(known, _)| known.eq_ignore_ascii_case(&name)) {
            Some((_, values)) => {
                values.push_str(if name.eq_ignore_ascii_case("cookie") {
                    "; "
                } else {
                    ", "
                });
                values.push_str(&value);
            }
            None => once.push((name, value)),
        }
    }
    once
}

/// In a sentence, which of these request headers are not sent, if any.
#[must_use]
pub fn ignored_headers(headers: &[(String, String)]) -> Option<String> {
    let names = headers.iter().map(|(name, _)| name.as_str());
    let ignored: Vec<&str> = names.filter(|name| is_reserved(name)).collect();
    (!ignored.is_empty()).then(|| {
        format!(
            "headers that belong to the connection or to the sender are not sent: {}",
            ignored.join(", ")
        )
    })
}

/// Whether somebody may write down these request headers for later: none of a name that would be ignored, and all can be sent.
///
/// # Errors
/// The first that may not.
pub fn check_given_headers(headers: &[(String, String)]) -> Result<(), NotificationError> {
    if let Some((name, _)) = headers.iter().find(|(name, _)| is_reserved(name)) {
        return Err(NotificationError::of(&format!("headers.{name}"), RESERVED));
    }
    check_headers(headers)
}

/// Whether request headers can be sent.
///
/// # Errors
/// The first that cannot, or that they are too many or too long.
pub fn check_headers(headers: &[(String, String)]) -> Result<(), NotificationError> {
    if headers.len() > HEADERS_MAX {
        let problem = format!("are {}; at most {HEADERS_MAX} are possible", headers.len());
        return Err(NotificationError::of("headers", problem));
    }
    let bytes: usize = headers.iter().map(|(name, value)| name.len() + value.len()).sum();
    if bytes > HEADER_BYTES_MAX {
        let problem = format!("are {bytes} bytes; at most {HEADER_BYTES_MAX} are possible");
        return Err(NotificationError::of("headers", problem));
    }
    let problem = |(name, value): &(String, String)| header_problem(name, value).map(|problem| (name.clone(), problem));
    match headers.iter().find_map(problem) {
        Some((name, problem)) => Err(NotificationError::of(&format!("headers.{name}"), problem)),
        None => Ok(()),
    }
}

/// Why a request header cannot be sent, if it cannot.
#[must_use]
pub fn header_problem(name: &str, value: &str) -> Option<String> {
    let token = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
    if name.len() > HEADER_NAME_BYTES_MAX {
        let length = name.len();
        return Some(format!(
            "is a name that has {length} bytes; at most {HEADER_NAME_BYTES_MAX} are possible"
        ));
    }
    if name.is_empty() || !name.bytes().all(token) {
        return Some("is not a header name (letters, digits and !#$%&'*+-.^_`|~)".to_owned());
    }
    value_problem(value)
}

/// What is wrong with the content type of a message.
#[must_use]
pub fn content_type_problem(text: &str) -> Option<String> {
    value_problem(text).or_else(|| (text.len() > 255).then(|| "must be at most 255 bytes".to_owned()))
}

fn value_problem(value: &str) -> Option<String> {
    value
        .chars()
        .any(|c| c != '\t' && c.is_control())
        .then(|| "must not contain control characters such as line breaks".to_owned())
}

fn within(field: &str, number: Option<u32>, max: u32) -> Result<(), NotificationError> {
    match number {
        Some(n) if n > max => Err(NotificationError::of(
            field,
            format!("is {n}; at most {max} is possible"),
        )),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Notification {
        Notification {
            id: NotificationId::parse("n-1").unwrap(),
            execution: ExecutionId::parse("run-1").unwrap(),
            url: EndpointUrl::parse("http://example.com/hook").unwrap(),
            headers: vec![("X-Team".into(), "a".into())],
            content_type: Some("application/json".into()),
            body: Bytes::from_static(b"{\"a\": 1.0000000000000001}"),
            polling_time_s: Some(3),
            restart_count: Some(0),
            created_at: Some(Timestamp::from_seconds(1_700_000_000)),
            event_type: None,
            subscription: None,
        }
    }

    fn no_fallback() -> NotificationId {
        NotificationId::parse("fallback").unwrap()
    }

    fn foreign(change: impl FnOnce(&mut Message)) -> String {
        let mut message = sample().to_message();
        change(&mut message);
        let Decoded::Foreign(why) = decode(&message, &no_fallback) else {
            panic!("expected a foreign message");
        };
        why
    }

    #[test]
    fn several_values_of_a_header_are_one_list_in_their_order() {
        let header = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let given = [
            header("X-List", "a"),
            header("Cookie", "k=1"),
            header("X-Team", "a"),
            header("x-list", "b, c"),
            header("cookie", "l=2"),
            header("X-List", ""),
        ];
        let once = [
            header("X-List", "a, b, c, "),
            header("Cookie", "k=1; l=2"),
            header("X-Team", "a"),
        ];
        assert_eq!(each_name_once(given.to_vec()), once);
    }

    #[test]
    fn a_header_that_is_ignored_is_told_by_its_name() {
        let header = |name: &str| (name.to_owned(), "v".to_owned());
        let told = ignored_headers(&[header("Host"), header("X-Host"), header("webhook-id")]).unwrap();
        assert!(told.ends_with("are not sent: Host, webhook-id"), "{told}");
        assert_eq!(ignored_headers(&[header("X-Host")]), None);
    }

    #[test]
    fn a_header_that_would_be_ignored_is_refused_by_its_name() {
        let given = |name: &str| check_given_headers(&[("X-Team".into(), "a".into()), (name.into(), "b".into())]);
        for name in ["Host", "content-length", "Webhook-Id", "Redrive-Queue"] {
            let error = given(name).unwrap_err();
            assert_eq!(error.field(), format!("headers.{name}"));
        }
        assert_eq!(given("X-Host"), Ok(()));
        assert_eq!(given("a b").unwrap_err().field(), "headers.a b");
        let long = "x".repeat(201);
        let told = given(&long).unwrap_err().to_string();
        assert!(told.contains("has 201 bytes; at most 200 are possible"), "{told}");
    }

    #[test]
    fn what_is_written_is_read_back_unchanged() {
        let notification = sample();
        assert_eq!(
            decode(&notification.to_message(), &no_fallback),
            Decoded::Notification(Box::new(notification))
        );
    }

    #[test]
    fn a_message_that_is_not_ours_says_what_is_missing() {
        assert!(foreign(|m| m.headers.clear()).contains(HEADER_URL));
        assert!(foreign(|m| m.kind = Some("celery".into())).contains("celery"));
        assert!(foreign(|m| m.headers[0].1 = HeaderValue::Text(Bytes::from_static(b"\xff"))).contains("UTF-8"));
        assert!(
            foreign(|m| m
                .headers
                .push(("x-redrive-header-A".into(), HeaderValue::text("b\r\nc: d"))))
            .contains("headers.A")
        );
        let negative = foreign(|m| {
            m.headers.retain(|(name, _)| name != HEADER_RESTART_COUNT);
            m.headers.push((HEADER_RESTART_COUNT.into(), HeaderValue::Integer(-1)));
        });
        assert!(negative.contains(HEADER_RESTART_COUNT), "{negative}");
    }

    #[test]
    fn a_reserved_request_header_is_left_out() {
        let mut message = sample().to_message();
        message
            .headers
            .push(("x-redrive-header-Content-Length".into(), HeaderValue::text("99")));
        let Decoded::Notification(read) = decode(&message, &no_fallback) else {
            panic!("not a notification")
        };
        assert_eq!(read.headers, sample().headers);
    }

    #[test]
    fn a_message_without_an_id_takes_the_fallback() {
        let mut message = sample().to_message();
        message.message_id = None;
        let Decoded::Notification(read) = decode(&message, &no_fallback) else {
            panic!("not a notification")
        };
        assert_eq!(read.id.as_str(), "fallback");
    }
}
