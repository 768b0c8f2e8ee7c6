//! Jobs: their queues, and what comes from them.

use bytes::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::domain::job::{JobId, JobPart, Lifetime};
use crate::domain::message::Message;
use crate::domain::time::Timestamp;
use crate::engine::jobs::{Job, JobListed};

use super::problem::Problem;
use super::{document, publish, words};

/// A job.
#[derive(Clone, Debug, JsonSchema, Serialize)]
#[schemars(rename = "Job")]
pub struct JobShape {
    /// Its id.
    pub id: String,
    /// The names of its queues.
    pub queues: JobQueues,
    /// How long they live unused; `null`: for ever.
    pub ttl_s: Option<f64>,
}

/// The names of a job's queues.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct JobQueues {
    /// What came of it.
    pub result: String,
    /// How far it is.
    pub progress: String,
    /// What state it is in.
    pub status: String,
}

/// A job with what waits in its queues.
#[derive(Clone, Debug, JsonSchema, Serialize)]
#[schemars(rename = "JobListed")]
pub struct JobListedShape {
    /// The job.
    #[serde(flatten)]
    pub job: JobShape,
    /// Messages in its queues.
    pub messages: Option<u64>,
    /// Consumers of its queues.
    pub consumers: u64,
    /// For how long nobody has used them.
    pub idle_s: Option<f64>,
    /// Which of its queues are there.
    pub parts: Vec<String>,
}

/// What came from a job until its result.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct JobOutcome {
    /// Its id.
    pub id: String,
    /// The result.
    pub result: Option<Content>,
    /// The last messages about its progress, oldest first.
    pub progress: Vec<Content>,
    /// The last messages about its state, oldest first.
    pub status: Vec<Content>,
}

/// A message's content.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct Content {
    /// MIME type.
    pub content_type: Option<String>,
    /// The body, where it is UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body: Option<String>,
    /// The body, where it is not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body_base64: Option<String>,
}

impl JobShape {
    /// Of a job of this id and lifetime.
    #[must_use]
    pub fn new(id: &JobId, lifetime: Option<Lifetime>) -> Self {
        let name = |part| id.queue(part).as_str().to_owned();
        Self {
            id: id.as_str().to_owned(),
            queues: JobQueues {
                result: name(JobPart::Result),
                progress: name(JobPart::Progress),
                status: name(JobPart::Status),
            },
            ttl_s: lifetime
                .and_then(Lifetime::millis)
                .map(|millis| f64::from(millis) / 1_000.0),
        }
    }
}

impl From<&Job> for JobShape {
    fn from(job: &Job) -> Self {
        Self::new(&job.id, job.lifetime)
    }
}

impl JobListedShape {
    /// As it is at `now`.
    #[must_use]
    pub fn new(listed: &JobListed, now: Timestamp) -> Self {
        Self {
            job: JobShape::from(&listed.job),
            messages: listed.messages,
            consumers: listed.consumers,
            idle_s: listed.idle_since.map(|since| now.since(since).as_secs_f64()),
            parts: listed.queues.iter().map(|queue| queue.as_str().to_owned()).collect(),
        }
    }
}

impl From<&Message> for Content {
    fn from(message: &Message) -> Self {
        let (body, body_base64) = super::text_or_base64(&message.body);
        Self {
            content_type: message.content_type.clone(),
            body,
            body_base64,
        }
    }
}

/// What a worker says.
#[derive(Clone, Debug)]
pub struct JobMessageInput {
    /// Which of the job's queues it goes to.
    pub part: JobPart,
    /// Its content type.
    pub content_type: Option<String>,
    /// Its body.
    pub body: Bytes,
}

/// A message as it is written.
#[derive(JsonSchema, Deserialize)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "JobMessage")]
pub struct WrittenMessage<'a> {
    /// Which of the job's queues it goes to.
    #[schemars(with = "words::JobQueue")]
    part: String,
    /// The MIME type of the body.
    content_type: Option<String>,
    /// The body: a string, or any other JSON, which is sent as it is written.
    #[serde(borrow)]
    #[schemars(with = "Option<serde_json::Value>")]
    body: Option<&'a RawValue>,
    /// Or any bytes, in base64.
    #[serde(borrow)]
    #[schemars(with = "Option<String>")]
    body_base64: Option<&'a RawValue>,
}

/// A message that the broker confirmed.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct JobMessageSent {
    /// The job's id.
    pub id: String,
    /// The queue that it is in.
    pub queue: String,
}

/// Reads the body of `POST /v1/jobs/{id}/messages`.
///
/// # Errors
/// The field that is wrong.
pub fn message(request: &[u8]) -> Result<JobMessageInput, Problem> {
    let written: WrittenMessage<'_> = document::object(request)?;
    publish::check_content_type("content_type", written.content_type.as_deref())?;
    let (body, body_type) = publish::body(written.body, written.body_base64)?;
    Ok(JobMessageInput {
        part: part(&written.part)?,
        content_type: written.content_type.or_else(|| body_type.map(ToOwned::to_owned)),
        body,
    })
}

/// One of the three.
///
/// # Errors
/// It is another word.
pub fn part(text: &str) -> Result<JobPart, Problem> {
    JobPart::parse(text).ok_or_else(|| {
        Problem::field(
            "part",
            format!("part is {text:?}; possible are progress, status and result"),
        )
    })
}
