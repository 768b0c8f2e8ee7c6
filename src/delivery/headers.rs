//! The headers of a request: the publisher's, the endpoint's, ours.
//!
//! Later ones replace earlier ones of the same name, in that order: a publisher can neither frame the
//! request nor speak for the sender, and an endpoint's own header (often a credential) holds against
//! a publisher's.

use hyper::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};

use crate::domain::notification::is_reserved;
use crate::domain::outcome::FailureKind;
use crate::domain::signature::SigningSecret;
use crate::domain::time::Timestamp;

use super::failure::Failed;
use super::{Origin, Request};

/// What a body is when nobody says.
const CONTENT_TYPE_DEFAULT: HeaderValue = HeaderValue::from_static("application/octet-stream");

const WEBHOOK_ID: HeaderName = HeaderName::from_static("webhook-id");
const WEBHOOK_TIMESTAMP: HeaderName = HeaderName::from_static("webhook-timestamp");
const WEBHOOK_SIGNATURE: HeaderName = HeaderName::from_static("webhook-signature");
const REDRIVE_QUEUE: HeaderName = HeaderName::from_static("redrive-queue");
const REDRIVE_EPOCH: HeaderName = HeaderName::from_static("redrive-epoch");
const REDRIVE_SEQUENCE: HeaderName = HeaderName::from_static("redrive-sequence");

/// All headers of `request`, or which of them cannot be sent.
pub(super) fn headers_of(
    request: &Request,
    own: &HeaderMap,
    secrets: &[SigningSecret],
    now: Timestamp,
) -> Result<HeaderMap, Failed> {
    let mut headers = HeaderMap::with_capacity(request.headers.len() + own.len() + 8);
    for (name, value) in request.headers.iter().filter(|(name, _)| !is_reserved(name)) {
        headers.append(header_name(name)?, header_value(name, value)?);
    }
    if let Some(content_type) = &request.content_type {
        headers.insert(CONTENT_TYPE, header_value("content-type", content_type)?);
    } else {
        headers.entry(CONTENT_TYPE).or_insert(CONTENT_TYPE_DEFAULT);
    }
    for (name, value) in own {
        headers.insert(name, value.clone());
    }
    headers.insert(WEBHOOK_ID, header_value("webhook-id", request.id.as_str())?);
    if let Some(origin) = &request.origin {
        insert_origin(&mut headers, origin)?;
    }
    if !secrets.is_empty() {
        insert_signature(&mut headers, request, secrets, now)?;
    }
    Ok(headers)
}

fn insert_origin(headers: &mut HeaderMap, origin: &Origin) -> Result<(), Failed> {
    headers.insert(REDRIVE_QUEUE, header_value("redrive-queue", origin.queue.as_str())?);
    headers.insert(REDRIVE_EPOCH, HeaderValue::from(origin.epoch.0));
    headers.insert(REDRIVE_SEQUENCE, HeaderValue::from(origin.sequence));
    Ok(())
}

/// While secrets are being changed there are several, and the receiver accepts any one of the entries.
fn insert_signature(
    headers: &mut HeaderMap,
    request: &Request,
    secrets: &[SigningSecret],
    now: Timestamp,
) -> Result<(), Failed> {
    let timestamp_s = now.seconds().to_string();
    let entries: Vec<String> = secrets
        .iter()
        .map(|secret| secret.sign(&request.id, &timestamp_s, &request.body))
        .collect();
    headers.insert(WEBHOOK_TIMESTAMP, header_value("webhook-timestamp", &timestamp_s)?);
    headers.insert(
        WEBHOOK_SIGNATURE,
        header_value("webhook-signature", &entries.join(" "))?,
    );
    Ok(())
}

/// A header's name, or why it is none.
pub(super) fn header_name(name: &str) -> Result<HeaderName, Failed> {
    HeaderName::from_bytes(name.as_bytes())
        .map_err(|_| Failed::new(FailureKind::BadRequest, &format!("header name {name:?} cannot be sent")))
}

/// A header's value as its UTF-8 bytes, or the name of the header whose value cannot be sent.
pub(super) fn header_value(name: &str, value: &str) -> Result<HeaderValue, Failed> {
    HeaderValue::from_bytes(value.as_bytes()).map_err(|_| {
        let text =
            format!("the value of header {name:?} has control characters such as line breaks and cannot be sent");
        Failed::new(FailureKind::BadRequest, &text)
    })
}

/// Whether a request can carry this header.
#[cfg(any(test, feature = "internals"))]
pub(crate) fn can_be_sent(name: &str, value: &str) -> bool {
    header_name(name).is_ok() && header_value(name, value).is_ok()
}
