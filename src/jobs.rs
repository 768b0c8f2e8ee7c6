//! The library for submitting and following jobs: three queues per job, cleaned up by the broker when
//! nobody wants them any more, and never silently made again.
//!
//! ```no_run
//! # async fn example(engine: redrive::engine::Engine) -> Result<(), redrive::engine::EngineError> {
//! use redrive::jobs::{Jobs, SubmitOptions};
//! let jobs = Jobs::new(engine);
//! let mut connection = jobs.submit_job(SubmitOptions::default()).await?;
//! while let Some(message) = connection.next().await? {
//!     println!("{:?}: {} bytes", message.part, message.message.body.len());
//! }
//! # Ok(()) }
//! ```
//!
//! Promises: a message is in its queue until the next one is asked for; a lost connection is made again, and what
//! was not settled comes again; consuming the result removes the three queues; a job whose queues are gone is
//! [`EngineError::Expired`] with the queue's name, and nothing is declared for it.

use bytes::Bytes;

use crate::domain::job::JobPart;
pub use crate::domain::job::{JobId, Lifetime};
pub use crate::engine::jobs::{ConnectOptions, Job, JobConnection, JobListed, JobMessage, SubmitOptions};
use crate::engine::{Engine, EngineError};

/// Submits and follows jobs.
#[derive(Clone, Debug)]
pub struct Jobs {
    engine: Engine,
}

impl Jobs {
    /// Over an engine.
    #[must_use]
    pub const fn new(engine: Engine) -> Self {
        Self { engine }
    }

    /// Declares the queues of a new job and follows them.
    pub async fn submit_job(&self, options: SubmitOptions) -> Result<JobConnection, EngineError> {
        self.engine.submit_job(options).await
    }

    /// Follows a job that was submitted before. It is looked for first, without using its queues.
    pub async fn connect_to_submitted_job(
        &self,
        id: JobId,
        options: ConnectOptions,
    ) -> Result<JobConnection, EngineError> {
        self.engine.connect_to_submitted_job(id, options).await
    }

    /// Whether a job is there; its queues live no longer for it.
    pub async fn check(&self, id: &JobId, lifetime: Option<Lifetime>) -> Result<Job, EngineError> {
        self.engine.job_check(id, lifetime).await
    }

    /// The worker's side: how far it is. Answers when the broker has it.
    pub async fn publish_progress(&self, id: &JobId, body: Bytes) -> Result<(), EngineError> {
        self.engine.job_publish(id, JobPart::Progress, None, body).await
    }

    /// The worker's side: what state the job is in.
    pub async fn publish_status(&self, id: &JobId, body: Bytes) -> Result<(), EngineError> {
        self.engine.job_publish(id, JobPart::Status, None, body).await
    }

    /// The worker's side: what came of it.
    pub async fn publish_result(&self, id: &JobId, body: Bytes) -> Result<(), EngineError> {
        self.engine.job_publish(id, JobPart::Result, None, body).await
    }
}
