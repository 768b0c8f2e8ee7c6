//! The library for submitting and following jobs: three queues per job, cleaned up by the broker when
//! nobody wants them any more, and never silently made again.
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let directory = tempfile::tempdir()?;
//! # let text = format!("[store]\nurl = \"sqlite:{}\"", directory.path().join("redrive.db").display());
//! # tokio::runtime::Runtime::new()?.block_on(async {
//! use redrive::Settings;
//! use redrive::jobs::{Jobs, SubmitOptions};
//!
//! let jobs = Jobs::connect(&Settings::from_toml(&text)?).await?;
//! let mut connection = jobs.submit_job(SubmitOptions::default()).await?;
//! let id = connection.job().id.clone();
//! // Elsewhere, the one who works on it:
//! jobs.publish_progress(&id, "half".into()).await?;
//! jobs.publish_result(&id, "42".into()).await?;
//! // The result is the last one: its queues are gone then.
//! let mut bodies = Vec::new();
//! while let Some(message) = connection.next().await? {
//!     bodies.push(message.message.body);
//! }
//! assert!(bodies.contains(&"42".into()));
//! jobs.close().await;
//! # Ok(()) })
//! # }
//! ```
//!
//! Promises: a message is in its queue until the next one is asked for; a lost connection is made again, and what
//! was not settled comes again; consuming the result removes the three queues; a job whose queues are gone is
//! [`EngineError::Expired`] with the queue's name, and nothing is declared for it.

use bytes::Bytes;

pub use crate::domain::job::{JobId, JobPart, Lifetime};
pub use crate::engine::jobs::{ConnectOptions, Job, JobConnection, JobListed, JobMessage, SubmitOptions};
use crate::engine::{Engine, EngineError};
use crate::library::{self, OpenError, Settings};

/// Submits and follows jobs.
#[derive(Clone, Debug)]
pub struct Jobs {
    engine: Engine,
}

impl Jobs {
    /// Opens store and broker, and makes what is missing of them.
    ///
    /// # Errors
    /// Store or broker cannot be reached, or are not what the settings say.
    pub async fn connect(settings: &Settings) -> Result<Self, OpenError> {
        Ok(Self::new(library::open(settings).await?))
    }

    /// Over an engine.
    #[doc(hidden)]
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

    /// Closes the connections in order.
    pub async fn close(&self) {
        self.engine.close().await;
    }
}
