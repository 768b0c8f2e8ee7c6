//! What became of one notification.

use schemars::JsonSchema;
use serde::Serialize;

use crate::engine::notification::NotificationView;

use super::dead::DeadLetter;
use super::queue::{QueueHead, QueueWhy};
use super::record::Attempt;
use super::{Time, Unread, time, unread, words};

/// What became of a notification.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct Notification {
    /// Its id.
    pub id: String,
    /// Where it stands.
    #[schemars(with = "words::NotificationState")]
    pub state: &'static str,
    /// The same as a sentence.
    pub text: String,
    /// Its delivery queue, as far as anything on record names it.
    pub queue: Option<String>,
    /// Where it goes.
    pub url: Option<String>,
    /// When its receiver had it; null where it is not delivered.
    pub delivered_at: Option<Time>,
    /// The number of its last attempt.
    pub attempts: Option<u32>,
    /// That attempt.
    pub last_attempt: Option<Attempt>,
    /// It as the head of its queue, where it failed and waits there.
    pub head: Option<QueueHead>,
    /// When the head of that queue is tried next.
    pub next_attempt_at: Option<Time>,
    /// Why that queue moves or does not.
    pub why: Option<QueueWhy>,
    /// The dead letters that it is; at most 10.
    pub dead: Vec<DeadLetter>,
    /// When it was read.
    pub taken_at: Option<Time>,
    /// What could not be read, so that something may be missing.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<Unread>,
}

impl From<&NotificationView> for Notification {
    fn from(view: &NotificationView) -> Self {
        let queue = view.queue.as_deref();
        let last = view.attempts.first();
        let is_head = |message: &str| message == view.id.as_str();
        let head = queue.and_then(|queue| queue.head.as_ref());
        let died = || view.letters.first().and_then(|letter| letter.url.clone());
        let of_queue = || queue.and_then(|queue| queue.url.as_ref().map(|url| url.as_str().to_owned()));
        Self {
            id: view.id.as_str().to_owned(),
            state: view.state.as_str(),
            text: view.text.clone(),
            queue: view.queue_name().map(ToOwned::to_owned),
            url: last
                .map(|attempt| attempt.url.as_str().to_owned())
                .or_else(of_queue)
                .or_else(died),
            delivered_at: view.delivered_at().and_then(time),
            attempts: last.map(|attempt| attempt.number),
            last_attempt: last.map(Attempt::from),
            head: head.filter(|head| is_head(head.message.as_str())).map(QueueHead::from),
            next_attempt_at: queue.and_then(|queue| queue.next_attempt_at).and_then(time),
            why: queue.and_then(|queue| queue.why.as_ref()).map(QueueWhy::from),
            dead: view.letters.iter().map(DeadLetter::from).collect(),
            taken_at: time(view.taken_at),
            problems: unread(&view.problems),
        }
    }
}
