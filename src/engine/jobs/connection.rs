//! A job that is followed until its result is there, over lost connections.

use super::{Job, JobFollowed, JobMessage, JobNext};
use crate::domain::job::{JobId, JobPart, Lifetime};
use crate::engine::insist::Pause;
use crate::engine::{Engine, EngineError};

/// How a job is submitted.
#[derive(Clone, Debug, Default)]
pub struct SubmitOptions {
    /// Its id; a new one when absent.
    pub id: Option<JobId>,
    /// How long its queues live unused; the configured default (48 h) when absent.
    pub auto_cleanup_after_ttl: Option<Lifetime>,
    /// Whether the client leaves once it has the result.
    pub auto_disconnect_on_result: bool,
}

/// How a submitted job is connected to.
#[derive(Clone, Debug, Default)]
pub struct ConnectOptions {
    /// The queues exist already; otherwise they are declared as for a new job.
    pub reconnect: bool,
    /// The lifetime that is expected; refused with an explanation when the queues have another one.
    pub auto_cleanup_after_ttl: Option<Lifetime>,
    /// Whether the client leaves once it has the result.
    pub auto_disconnect_on_result: bool,
}

impl Engine {
    /// Declares the queues of a new job and follows them.
    pub async fn submit_job(&self, options: SubmitOptions) -> Result<JobConnection, EngineError> {
        let id = match options.id {
            Some(id) => id,
            None => JobId::parse(&crate::ambient::new_id())?,
        };
        let options = ConnectOptions {
            reconnect: false,
            auto_cleanup_after_ttl: options.auto_cleanup_after_ttl,
            auto_disconnect_on_result: options.auto_disconnect_on_result,
        };
        self.connect_to_submitted_job(id, options).await
    }

    /// Follows a job that was submitted before. It is looked for first, without using its queues.
    pub async fn connect_to_submitted_job(
        &self,
        id: JobId,
        options: ConnectOptions,
    ) -> Result<JobConnection, EngineError> {
        let job = if options.reconnect {
            self.job_check(&id, options.auto_cleanup_after_ttl).await?
        } else {
            let lifetime = options.auto_cleanup_after_ttl.unwrap_or_else(|| self.job_lifetime());
            self.job_submit(id, lifetime).await?
        };
        Ok(JobConnection {
            engine: self.clone(),
            followed: Some(self.job_follow(&job.id).await?),
            job,
            hand: Hand::Empty,
            auto_disconnect_on_result: options.auto_disconnect_on_result,
        })
    }
}

/// A job that is followed.
#[derive(Debug)]
pub struct JobConnection {
    engine: Engine,
    job: Job,
    /// `None` once the client has left.
    followed: Option<JobFollowed>,
    hand: Hand,
    auto_disconnect_on_result: bool,
}

/// How far the message is that was given out last. A caller may drop a call while it waits, so each step is noted
/// before it is begun.
#[derive(Debug)]
enum Hand {
    /// Settled, or there was none.
    Empty,
    /// Given out, and settled when the next is asked for.
    Holds(Box<JobMessage>),
    /// Its ack is on its way.
    Acking(JobPart),
    /// It was the result: the queues are to be removed.
    Removing,
    /// The queues are removed.
    Over,
}

impl JobConnection {
    /// Which job.
    #[must_use]
    pub const fn job(&self) -> &Job {
        &self.job
    }

    /// Whether the client still holds its channels.
    #[must_use]
    pub const fn is_connected(&self) -> bool {
        self.followed.is_some()
    }

    /// The next message; the one before is settled first, so whoever asks has dealt with it. `None` after the
    /// result: the three queues are gone then. A lost connection is made again; a job that expired meanwhile is
    /// [`EngineError::Expired`]. May be dropped and called again, also after an error.
    pub async fn next(&mut self) -> Result<Option<JobMessage>, EngineError> {
        let mut pause = Pause::default();
        loop {
            match self.settle().await {
                Err(error) if error.is_unreachable() => pause.wait().await,
                settled => break settled?,
            }
        }
        while !matches!(self.hand, Hand::Over) {
            let Some(followed) = self.followed.as_mut() else {
                self.followed = match self.engine.job_follow(&self.job.id).await {
                    Ok(followed) => Some(followed),
                    Err(error) if error.is_unreachable() => {
                        pause.wait().await;
                        None
                    }
                    Err(error) => return Err(error),
                };
                continue;
            };
            match followed.next().await {
                JobNext::Message(message) => {
                    self.hand = Hand::Holds(message.clone());
                    return Ok(Some(*message));
                }
                JobNext::Lost(why) => {
                    tracing::info!(job = ?self.job.id.as_str(), why = ?why, "a job's connection is lost: following again");
                    self.followed = None;
                    // What ended it may end the next one at once.
                    pause.wait().await;
                }
            }
        }
        Ok(None)
    }

    /// Settles what is in hand and leaves; without the result the job's queues stay for their lifetime.
    pub async fn close(mut self) -> Result<(), EngineError> {
        self.settle().await?;
        self.leave().await;
        Ok(())
    }

    /// Leaves without settling what is in hand: it comes again to who connects next.
    pub async fn abandon(mut self) {
        self.leave().await;
    }

    async fn settle(&mut self) -> Result<(), EngineError> {
        if let Hand::Holds(message) = &self.hand {
            let message = message.clone();
            self.hand = Hand::Acking(message.part);
            let acked = match self.followed.as_mut() {
                Some(followed) => followed.settle(&message).await,
                None => false,
            };
            if acked {
                self.hand = after_ack(message.part);
            } else {
                // It comes again with the connection.
                self.hand = Hand::Empty;
                self.followed = None;
            }
        }
        if let Hand::Acking(part) = self.hand {
            // The call was dropped half-way, and nobody knows whether the ack went: what was not acked comes again with the
            // next connection, and a result that was dealt with goes with its queue.
            self.followed = None;
            self.hand = after_ack(part);
        }
        if matches!(self.hand, Hand::Removing) {
            self.engine.job_remove(&self.job.id).await?;
            self.hand = Hand::Over;
            if self.auto_disconnect_on_result {
                self.leave().await;
            }
        }
        Ok(())
    }

    async fn leave(&mut self) {
        if let Some(followed) = self.followed.take() {
            followed.close().await;
        }
    }
}

const fn after_ack(part: JobPart) -> Hand {
    match part {
        JobPart::Result => Hand::Removing,
        JobPart::Progress | JobPart::Status => Hand::Empty,
    }
}
