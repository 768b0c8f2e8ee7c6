//! What routes take out of a request; each says the field that is wrong.

use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request};
use axum::http::Uri;
use axum::http::header::CONTENT_LENGTH;
use axum::http::request::Parts;
use bytes::Buf as _;
use http_body_util::BodyExt as _;
use percent_encoding::percent_decode_str;
use serde::de::DeserializeOwned;

use crate::ambient;
use crate::budget::{Share, Use};
use crate::domain::id::{ExecutionId, QueueName};
use crate::domain::words::plural_of;
use crate::wire::problem::Problem;
use crate::wire::{document, input};

use super::Shared;
use super::pace::Pace;

/// A body has this many bytes, at most.
pub(super) const SMALL: usize = 1024 * 1024;
/// The same where messages are: the largest notification in base64, and some.
pub(super) const LARGE: usize = 24 * 1024 * 1024;
/// For how long a body may stand still.
const BODY_GRACE: Duration = Duration::from_secs(10);
/// What some editors write before UTF-8. It is no part of the document (RFC 8259, 8.1).
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";
/// How long a body waits for memory.
const MEMORY_WAIT: Duration = Duration::from_secs(5);

/// Text with line breaks is no mistake in these.
const WRITTEN: [&str; 2] = ["filter", "reason"];

/// Refuses control characters, which are in no name and no id; only a queue may be called anything.
pub(super) fn check_text(uri: &Uri) -> Result<(), Problem> {
    let is_bad = |text: &str, lines: bool| {
        text.chars()
            .any(|c| c.is_control() && !(lines && matches!(c, '\n' | '\r' | '\t')))
    };
    let refused = |field: &str| {
        let field = crate::domain::text::show(field, 40);
        Problem::field(
            &field,
            format!("{field} has a control character in it, such as %00: leave it out"),
        )
    };
    let path = percent_decode_str(uri.path()).decode_utf8_lossy();
    if !path.starts_with("/v1/queues/") && is_bad(&path, false) {
        return Err(refused("path"));
    }
    for (name, value) in url::form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes()) {
        if is_bad(&name, false) || (name != "queue" && is_bad(&value, WRITTEN.contains(&&*name))) {
            return Err(refused(&name));
        }
    }
    Ok(())
}

/// The query of the URL; a key that is not known is an error.
pub(super) struct Params<T>(pub(super) T);

impl<T: DeserializeOwned> FromRequestParts<Arc<Shared>> for Params<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &Arc<Shared>) -> Result<Self, Problem> {
        Query::<T>::try_from_uri(&parts.uri)
            .map(|Query(inner)| Self(inner))
            .map_err(|error| in_query(&error.body_text()))
    }
}

/// What is wrong in a query: the reader says which parameter before the first colon, where it is one.
fn in_query(text: &str) -> Problem {
    let text = text.split_once("query string: ").map_or(text, |(_, rest)| rest);
    match text.split_once(": ") {
        Some((name, reason)) if !name.contains([' ', '`']) => document::wrong(name, reason),
        Some(_) | None => document::wrong("", text),
    }
}

/// The route takes nothing in its query. A client that writes `dry_run=true` to it must not see it done.
pub(super) struct NoParams;

impl FromRequestParts<Arc<Shared>> for NoParams {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &Arc<Shared>) -> Result<Self, Problem> {
        let query = parts.uri.query().unwrap_or_default();
        match url::form_urlencoded::parse(query.as_bytes()).next() {
            None => Ok(Self),
            Some((name, _)) => Err(Problem::field(
                &crate::domain::text::show(&name, 40),
                "this route takes nothing in its query: nothing was done",
            )),
        }
    }
}

/// A queue's name in the path, percent-encoded.
pub(super) struct Name(pub(super) QueueName);

impl FromRequestParts<Arc<Shared>> for Name {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &Arc<Shared>) -> Result<Self, Problem> {
        input::queue(&segment(parts, "queue").await?).map(Self)
    }
}

/// An execution's id in the path, percent-encoded.
pub(super) struct Execution(pub(super) ExecutionId);

impl FromRequestParts<Arc<Shared>> for Execution {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &Arc<Shared>) -> Result<Self, Problem> {
        input::execution(&segment(parts, "execution_id").await?).map(Self)
    }
}

/// An id in the path, percent-encoded.
pub(super) struct Segment(pub(super) String);

impl FromRequestParts<Arc<Shared>> for Segment {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &Arc<Shared>) -> Result<Self, Problem> {
        segment(parts, "id").await.map(Self)
    }
}

async fn segment(parts: &mut Parts, field: &str) -> Result<String, Problem> {
    let path: Result<Path<String>, _> = Path::from_request_parts(parts, &()).await;
    path.map(|Path(text)| text)
        .map_err(|error| Problem::field(field, error.body_text()))
}

/// The body's bytes, `MOST` at most, with the share of memory that they take. `T` describes what is in them.
pub(super) struct RawBody<T, const MOST: usize = SMALL> {
    pub(super) bytes: Bytes,
    pub(super) memory: Share,
    described: PhantomData<fn() -> T>,
}

impl<T, const MOST: usize> FromRequest<Arc<Shared>> for RawBody<T, MOST> {
    type Rejection = Problem;

    async fn from_request(request: Request, shared: &Arc<Shared>) -> Result<Self, Problem> {
        let (bytes, memory) = read_body(request, shared, MOST).await?;
        Ok(Self {
            bytes,
            memory,
            described: PhantomData,
        })
    }
}

async fn read_body(request: Request, shared: &Shared, most: usize) -> Result<(Bytes, Share), Problem> {
    let announced = request
        .headers()
        .get(CONTENT_LENGTH)
        .and_then(|value| value.to_str().ok())
        .and_then(|text| text.parse::<usize>().ok());
    if announced.is_some_and(|bytes| bytes > most) {
        return Err(too_large(most));
    }
    let mut body = request.into_body();
    // Room is touched, and counted, only as bytes come.
    let (mut read, mut pace) = (Vec::with_capacity(announced.unwrap_or(0)), Pace::new(BODY_GRACE));
    let mut memory = in_time(shared.settings.memory.take(Use::Incoming, 1024)).await?;
    loop {
        let begun = shared.clock.uptime();
        let frame = ambient::timeout(pace.left(), body.frame())
            .await
            .map_err(|_| too_slow())?;
        let waited = shared.clock.uptime().saturating_sub(begun);
        let Some(frame) = frame else { break };
        let frame = frame.map_err(|error| Problem::new(400, format!("the body broke off: {error}; send it again")))?;
        let data = frame.into_data().unwrap_or_default();
        if !pace.moved(data.len(), waited) {
            return Err(too_slow());
        }
        if read.len() + data.len() > most {
            return Err(too_large(most));
        }
        // What is held grows with what is there, not with what was announced.
        in_time(memory.grow(read.len() + data.len())).await?;
        read.extend_from_slice(&data);
    }
    let mut read = Bytes::from(read);
    if read.starts_with(BYTE_ORDER_MARK) {
        read.advance(BYTE_ORDER_MARK.len());
    }
    Ok((read, memory))
}

/// A share of the memory for bodies and answers; those who wait for each other's are sent away after a while.
pub(super) async fn in_time<T>(share: impl Future<Output = T>) -> Result<T, Problem> {
    let waiting = ambient::timeout(MEMORY_WAIT, share).await;
    waiting.map_err(|_| Problem::unavailable("too many bodies and answers are in memory: repeat after a moment"))
}

fn too_large(most: usize) -> Problem {
    Problem::new(
        413,
        format!(
            "the body has more than {}: send less at once",
            plural_of(most, "byte", "bytes")
        ),
    )
}

fn too_slow() -> Problem {
    Problem::new(408, "the body comes too slowly: send it again over a faster connection")
}

/// A JSON document; an empty body counts as `{}`.
pub(super) struct Input<T, const MOST: usize = SMALL>(pub(super) T);

impl<T: DeserializeOwned, const MOST: usize> FromRequest<Arc<Shared>> for Input<T, MOST> {
    type Rejection = Problem;

    async fn from_request(request: Request, shared: &Arc<Shared>) -> Result<Self, Problem> {
        let body = RawBody::<T, MOST>::from_request(request, shared).await?;
        let text: &[u8] = if body.bytes.trim_ascii().is_empty() {
            b"{}"
        } else {
            &body.bytes
        };
        document::object(text).map(Self)
    }
}
