//! One HTTP request for one notification, as it is remembered.

use super::id::{Epoch, NotificationId, QueueName};
use super::outcome::OutcomeClass;
use super::time::Timestamp;
use super::url::EndpointUrl;

/// A row of the attempt log.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Attempt {
    /// The notification.
    pub message_id: NotificationId,
    /// The delivery queue it came from.
    pub queue: QueueName,
    /// Where it was sent.
    pub url: EndpointUrl,
    /// 1 for the first attempt of this message, and so on.
    pub number: u32,
    /// The lease under which it was made.
    pub epoch: Epoch,
    /// When it began.
    pub started_at: Timestamp,
    /// How long it took, in milliseconds.
    pub duration_ms: u64,
    /// How it ended.
    pub class: OutcomeClass,
    /// The status of the answer, when there was one.
    pub status: Option<u16>,
    /// Why there was no answer, or what was wrong with it (bounded, from outside).
    pub error: Option<String>,
    /// The beginning of the answer's body (bounded, from outside). Written by the name that says what it is, so that what
    /// hides values in documents looks into it.
    #[serde(rename = "response_base64", with = "super::as_text::maybe_bytes")]
    pub response: Option<Vec<u8>>,
    /// Whether it counts against the schedule: false when it was interrupted, or ended after
    /// somebody else had changed the endpoint's state.
    pub counted: bool,
}
