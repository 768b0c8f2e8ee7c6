//! One HTTP attempt: a request in, an outcome out. Never retries, never decides. A connection that was closed while
//! it was idle makes no attempt: the request goes over a new one.
//!
//! Promises: one deadline over connect, send, headers and body; no redirects, no proxy from the
//! environment; the address rules hold for literals, for the resolver's answers and for the address
//! actually connected to; at most a snippet of the answer is read.

mod body;
mod connector;
mod failure;
mod guard;
pub(crate) mod headers;
pub mod http;
mod lookups;
mod resolver;
mod target;

pub use http::{EndpointSettings, HttpSender, SenderError, SenderSettings};

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;

use crate::domain::id::{Epoch, NotificationId, QueueName};
use crate::domain::outcome::Outcome;
use crate::domain::signature::SigningSecret;
use crate::domain::time::Timestamp;
use crate::domain::url::EndpointUrl;

/// A handle that is cheap to clone.
pub type SenderHandle = Arc<dyn Sender>;

/// What is sent.
#[derive(Clone, Debug)]
pub struct Request {
    /// Where.
    pub url: EndpointUrl,
    /// The notification's headers; the endpoint's own are added by the sender.
    pub headers: Vec<(String, String)>,
    /// Content type of the body.
    pub content_type: Option<String>,
    /// The body, byte for byte.
    pub body: Bytes,
    /// `webhook-id`.
    pub id: NotificationId,
    /// `Redrive-Queue`, `Redrive-Epoch`, `Redrive-Sequence`; absent for a test.
    pub origin: Option<Origin>,
    /// What signs it in the place of the endpoint's own secrets; none: those do.
    pub secrets: Vec<SigningSecret>,
    /// How.
    pub method: Method,
}

/// Lets a receiver fence a sender that woke up late.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The delivery queue.
    pub queue: QueueName,
    /// The lease's epoch.
    pub epoch: Epoch,
    /// Counts attempts inside the epoch.
    pub sequence: u64,
}

/// The request's method.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Method {
    /// Deliveries.
    #[default]
    Post,
    /// A test, by default.
    Head,
    /// A test with another method.
    Other(String),
}

/// What came of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Sent {
    /// How it ended.
    pub outcome: Outcome,
    /// The `Retry-After` header as it came, bounded.
    pub retry_after: Option<String>,
    /// Why there is no status, or what was wrong after it (bounded, from outside).
    pub error: Option<String>,
    /// The beginning of the answer's body.
    pub response: Option<Vec<u8>>,
    /// When it began.
    pub started_at: Timestamp,
    /// How long it took.
    pub duration: Duration,
}

/// Makes attempts.
#[async_trait]
pub trait Sender: Send + Sync + std::fmt::Debug {
    /// One attempt. Dropping the future abandons the request; that is the caller's *interrupted*.
    async fn send(&self, request: Request) -> Sent;

    /// Why nothing is ever sent to `url`, as far as it can be said without a look at anything but the URL.
    fn refusal(&self, url: &EndpointUrl) -> Option<String>;

    /// Whether the address rules let `url` be sent to, by a look at what its name leads to now.
    async fn is_allowed(&self, url: &EndpointUrl) -> bool;
}
