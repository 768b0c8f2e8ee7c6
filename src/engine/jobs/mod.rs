//! The queues of jobs: declared once, followed, published to, removed; never made again by a look.
//!
//! Whether a job is there is asked over the management API, where an AMQP look would renew its lifetime. Nobody
//! who follows or publishes declares anything, so a queue that expired in between stays gone and is named.

mod connection;

use std::time::Duration;

use bytes::Bytes;

use super::expiring::EXPIRES;
use super::queues::Queues;
use super::{Engine, EngineError};
use crate::ambient;
use crate::broker::{
    Acked, AttachOptions, AttachOutcome, Attached, BrokerError, DeliveryTag, ListedQueue, Next, Published, QueuePart,
    WhichQueues,
};
use crate::domain::broker_rules::Policies;
use crate::domain::id::QueueName;
use crate::domain::job::{self, JobId, JobPart, Lifetime};
use crate::domain::message::Message;
use crate::domain::time::Timestamp;

pub use connection::{ConnectOptions, JobConnection, SubmitOptions};

/// How long a result waits for what was said before it and comes over other queues.
const BEFORE_RESULT: Duration = Duration::from_millis(100);
/// How long a publisher waits for a purge that goes on: it looks twice, a second apart, and may find more to do.
const PURGED_FOR: Duration = Duration::from_secs(20);
/// Between two tries.
const PAUSE: Duration = Duration::from_millis(500);

/// A job that exists.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Job {
    /// Its id.
    pub id: JobId,
    /// How long its queues live unused; `None`: not known.
    pub lifetime: Option<Lifetime>,
}

/// A job as the broker lists it.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct JobListed {
    /// The job.
    pub job: Job,
    /// The queues that are there.
    pub queues: Vec<QueueName>,
    /// Messages in them; `None`: not known.
    pub messages: Option<u64>,
    /// Consumers of them.
    pub consumers: u64,
    /// Since when nobody uses them, as the broker says.
    pub idle_since: Option<Timestamp>,
}

/// A message of a job, in hand until it is settled.
#[derive(Clone, Debug)]
pub struct JobMessage {
    /// Which queue it came from.
    pub part: JobPart,
    /// What it is.
    pub message: Message,
    /// Whether somebody may have had it before.
    pub redelivered: bool,
    tag: DeliveryTag,
}

/// What comes from a job that is followed.
#[derive(Debug)]
pub enum JobNext {
    /// A message to settle.
    Message(Box<JobMessage>),
    /// The connection is lost: follow again.
    Lost(String),
}

impl Engine {
    /// Declares the queues of a new job, the result's last.
    pub async fn job_submit(&self, id: JobId, lifetime: Lifetime) -> Result<Job, EngineError> {
        for part in JobPart::ALL {
            let declared = self.0.queues.declare_part(&id, part, lifetime).await;
            match declared {
                // No daemon was on this vhost yet. A vhost that is missing was refused before: a job is no reason to make one.
                Err(EngineError::Broker(BrokerError::NoExchange { .. })) => {
                    self.0.broker.prepare().await?;
                    self.0.queues.declare_part(&id, part, lifetime).await?;
                }
                declared => declared?,
            }
        }
        let lifetime = Some(lifetime);
        Ok(Job { id, lifetime })
    }

    /// Whether a job is there, without using it: it is while its result can come. [`EngineError::Expired`] names the
    /// first queue that is missing. With `lifetime`, refused when its queues have another one.
    pub async fn job_check(&self, id: &JobId, lifetime: Option<Lifetime>) -> Result<Job, EngineError> {
        let (mut missing, mut of_result) = (None, None);
        for part in JobPart::ALL {
            let queue = id.queue(part);
            let listed = self.0.listed(self.0.broker.queue_detail(&queue).await)?;
            of_result = listed.as_ref().map(lifetime_of);
            let Some(has) = of_result else {
                missing.get_or_insert(queue);
                continue;
            };
            if let Some(asked) = lifetime.filter(|asked| *asked != has) {
                return Err(other_lifetime(&queue, has, asked));
            }
        }
        match (missing, of_result) {
            (Some(missing), None) => Err(expired(&missing)),
            // The result's is the last one that was looked at.
            (_, lifetime) => Ok(Job {
                id: id.clone(),
                lifetime,
            }),
        }
    }

    /// Consumes the queues of a job; one of progress or status may have expired alone, as the result's was extended. Nothing
    /// is declared: where no result can come, [`EngineError::Expired`] names the first that is missing.
    pub async fn job_follow(&self, id: &JobId) -> Result<JobFollowed, EngineError> {
        let [progress, status, result] = [
            self.0.queues.follow_part(id, JobPart::Progress).await?,
            self.0.queues.follow_part(id, JobPart::Status).await?,
            self.0.queues.follow_part(id, JobPart::Result).await?,
        ];
        let Some(result) = result else {
            let is_there = [progress.is_some(), status.is_some(), false];
            let missing = JobPart::ALL.iter().zip(is_there).find(|(_, is_there)| !is_there);
            return Err(expired(&id.queue(missing.map_or(JobPart::Result, |(part, _)| *part))));
        };
        Ok(JobFollowed {
            progress,
            status,
            result,
            came: None,
        })
    }

    /// The worker's side: answers when the broker has it.
    pub async fn job_publish(
        &self,
        id: &JobId,
        part: JobPart,
        content_type: Option<String>,
        body: Bytes,
    ) -> Result<(), EngineError> {
        let queue = id.queue(part);
        let message = Message {
            content_type,
            message_id: Some(crate::ambient::new_id()),
            kind: Some(part.as_str().to_owned()),
            timestamp_s: Some(crate::domain::message::timestamp_s(self.0.clock.now())),
            body,
            ..Message::default()
        };
        self.0.queues.publish_to_job(&queue, &message).await
    }

    /// Deletes the queues of a job with whatever is in them; answers how many were there.
    pub async fn job_remove(&self, id: &JobId) -> Result<u32, EngineError> {
        let mut removed = 0;
        // The result's first: a job without it is over.
        for part in JobPart::ALL.into_iter().rev() {
            let deleted = self.0.broker.delete_whole(&id.queue(part)).await?;
            removed += u32::from(deleted == crate::broker::Deleted::Deleted);
        }
        Ok(removed)
    }

    /// How long the queues of a job live when nothing else is said.
    #[must_use]
    pub fn job_lifetime(&self) -> Lifetime {
        Lifetime::of(self.0.settings.job_queue_ttl).unwrap_or(Lifetime::DEFAULT)
    }
}

impl Queues {
    /// A queue that is there and takes nothing is being purged: it is gone in a moment, or bound again.
    async fn publish_to_job(&self, queue: &QueueName, message: &Message) -> Result<(), EngineError> {
        let began = self.clock.uptime();
        loop {
            match self.broker.publish(queue, message).await? {
                Published::Accepted => return Ok(()),
                Published::Refused(why) => return Err(EngineError::TooLarge { why }),
                Published::NotNow(detail) => return Err(BrokerError::Blocked { detail }.into()),
                Published::Returned => {}
            }
            if self.broker.queue_detail(queue).await?.is_none() {
                return Err(expired(queue));
            }
            if self.clock.uptime().saturating_sub(began) > PURGED_FOR {
                return Err(EngineError::Refused {
                    why: format!("queue {:?} is being purged: publish again in a moment", queue.as_str()),
                });
            }
            ambient::sleep(PAUSE).await;
        }
    }

    async fn declare_part(&self, id: &JobId, part: JobPart, lifetime: Lifetime) -> Result<(), EngineError> {
        let queue = id.queue(part);
        let error = match self.broker.declare_expiring(&queue, lifetime).await {
            Ok(()) => return Ok(()),
            Err(error) => error,
        };
        let BrokerError::OtherArguments { .. } = &error else {
            return Err(error.into());
        };
        let has = self.broker.queue_detail(&queue).await.ok().flatten();
        match has.map(|listed| lifetime_of(&listed)) {
            Some(has) if has != lifetime => Err(other_lifetime(&queue, has, lifetime)),
            Some(_) | None => Err(error.into()),
        }
    }

    /// `None` where the queue is missing.
    async fn follow_part(&self, id: &JobId, part: JobPart) -> Result<Option<Box<dyn Attached>>, EngineError> {
        let queue = id.queue(part);
        let options = AttachOptions {
            prefetch: 1,
            bind: false,
            part: QueuePart::Queue,
        };
        match self.broker.attach(&queue, options).await? {
            AttachOutcome::Attached(attached) => Ok(Some(attached)),
            AttachOutcome::Missing => Ok(None),
            AttachOutcome::Poison(reason) => Err(EngineError::Refused {
                why: format!("a message in queue {:?} cannot be read: {reason}", queue.as_str()),
            }),
        }
    }

    /// Every job that has a queue, by id.
    pub(super) async fn jobs(&self) -> Result<Vec<JobListed>, EngineError> {
        let mut jobs = std::collections::BTreeMap::<JobId, JobListed>::new();
        let mut each = |listed: ListedQueue| {
            let Some((id, _)) = job::of_queue(listed.name.as_str()) else {
                return;
            };
            let known = jobs.entry(id.clone()).or_insert_with(|| JobListed {
                job: Job {
                    id,
                    lifetime: Some(lifetime_of(&listed)),
                },
                queues: Vec::new(),
                messages: Some(0),
                consumers: 0,
                idle_since: listed.idle_since,
            });
            known.messages = known.messages.zip(listed.ready).map(|(sum, ready)| sum + ready);
            known.consumers += listed.consumers.unwrap_or(0);
            known.idle_since = known.idle_since.zip(listed.idle_since).map(|(a, b)| a.max(b));
            known.queues.push(listed.name);
        };
        let request = WhichQueues::Containing(job::PREFIX.to_owned()).into();
        let read = self.broker.queues_listed(&request, &mut each).await;
        self.listed(read)?;
        Ok(jobs.into_values().collect())
    }
}

/// A job that is consumed. Dropping it gives back what is not settled.
pub struct JobFollowed {
    progress: Option<Box<dyn Attached>>,
    status: Option<Box<dyn Attached>>,
    result: Box<dyn Attached>,
    /// The result, while what the worker said before it may still be on its way.
    came: Option<Box<JobMessage>>,
}

impl JobFollowed {
    /// The next message. What tells of the way comes before the result where both are there. May be dropped and
    /// called again.
    pub async fn next(&mut self) -> JobNext {
        if self.came.is_none() {
            let (part, next) = tokio::select! {
                biased;
                next = next_of(&mut self.status) => (JobPart::Status, next),
                next = next_of(&mut self.progress) => (JobPart::Progress, next),
                next = self.result.next() => (JobPart::Result, next),
            };
            match (part, in_hand(part, next)) {
                (JobPart::Result, JobNext::Message(result)) => self.came = Some(result),
                (_, next) => return next,
            }
        }
        let before = async {
            tokio::select! {
                biased;
                next = next_of(&mut self.status) => in_hand(JobPart::Status, next),
                next = next_of(&mut self.progress) => in_hand(JobPart::Progress, next),
            }
        };
        match (ambient::timeout(BEFORE_RESULT, before).await, self.came.take()) {
            (Err(_), Some(result)) => JobNext::Message(result),
            (Ok(next), result) => {
                self.came = result;
                next
            }
            (Err(_), None) => JobNext::Lost("the result is gone".to_owned()),
        }
    }

    /// Takes a message out of its queue; false when the connection was lost: then it comes again.
    pub async fn settle(&mut self, message: &JobMessage) -> bool {
        let attached = match message.part {
            JobPart::Progress => self.progress.as_mut(),
            JobPart::Status => self.status.as_mut(),
            JobPart::Result => Some(&mut self.result),
        };
        match attached {
            Some(attached) => attached.ack(message.tag).await == Acked::Sent,
            None => false,
        }
    }

    /// Leaves: everything that is not settled is back in its place.
    pub async fn close(self) {
        for attached in [self.progress, self.status, Some(self.result)].into_iter().flatten() {
            attached.close().await;
        }
    }
}

impl std::fmt::Debug for JobFollowed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("JobFollowed")
    }
}

/// From a queue that is gone nothing comes. May be dropped and called again.
async fn next_of(attached: &mut Option<Box<dyn Attached>>) -> Next {
    match attached {
        Some(attached) => attached.next().await,
        None => std::future::pending().await,
    }
}

fn in_hand(part: JobPart, next: Next) -> JobNext {
    match next {
        Next::Message(delivery) => JobNext::Message(Box::new(JobMessage {
            part,
            message: delivery.message,
            redelivered: delivery.redelivered,
            tag: delivery.tag,
        })),
        Next::Lost(lost) => JobNext::Lost(format!("{lost:?}")),
        // Only where room was asked for.
        Next::Larger(bytes) => JobNext::Lost(format!("a message of {bytes} bytes")),
    }
}

fn expired(queue: &QueueName) -> EngineError {
    EngineError::Expired {
        queue: queue.as_str().to_owned(),
    }
}

/// As its own argument says: job queues have no policy of ours.
fn lifetime_of(listed: &ListedQueue) -> Lifetime {
    let millis = Policies::default().smallest(&listed.declared(), EXPIRES);
    millis
        .and_then(|millis| u64::try_from(millis).ok())
        .map_or(Lifetime::Never, |millis| {
            Lifetime::Unused(std::time::Duration::from_millis(millis))
        })
}

fn other_lifetime(queue: &QueueName, has: Lifetime, asked: Lifetime) -> EngineError {
    let words = |lifetime: Lifetime| match lifetime.millis() {
        Some(millis) => format!("{} s", std::time::Duration::from_millis(millis.into()).as_secs_f64()),
        None => "never".to_owned(),
    };
    EngineError::Invalid {
        field: "ttl".to_owned(),
        message: format!(
            "ttl: queue {:?} was declared with {}, not {}; a lifetime is fixed when a queue is made: give that one, or submit a job with another id",
            queue.as_str(),
            words(has),
            words(asked)
        ),
    }
}
