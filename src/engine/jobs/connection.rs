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
            in_hand: None,
            over: false,
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
    /// Given out, and settled when the next is asked for.
    in_hand: Option<JobMessage>,
    /// The result was consumed and the queues are removed.
    over: bool,
    auto_disconnect_on_result: bool,
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
    /// [`EngineError::Expired`].
    pub async fn next(&mut self) -> Result<Option<JobMessage>, EngineError> {
        self.settle().await?;
        let mut pause = Pause::default();
        while !self.over {
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
                    self.in_hand = Some((*message).clone());
                    return Ok(Some(*message));
                }
                JobNext::Lost(why) => {
                    tracing::info!(job = ?self.job.id.as_str(), why = ?why, "a job's connection is lost: following again");
                    self.followed = None;
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
        let Some(message) = self.in_hand.take() else {
            return Ok(());
        };
        let Some(followed) = self.followed.as_mut() else {
            return Ok(());
        };
        if !followed.settle(&message).await {
            // It comes again with the connection.
            self.followed = None;
            return Ok(());
        }
        if message.part == JobPart::Result {
            self.engine.job_remove(&self.job.id).await?;
            self.over = true;
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
