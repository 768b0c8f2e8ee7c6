//! How long a demo takes and how fast things happen in it.

use std::net::SocketAddr;
use std::time::Duration;

use crate::domain::policy::{BackoffFunction, OnExhausted, RetryPolicy};

/// What is played.
#[derive(Clone, Debug, PartialEq)]
pub struct DemoPlan {
    /// From the start to the report; `None` runs until it is stopped.
    pub duration: Option<Duration>,
    /// Nothing new is published in the last part of the duration.
    pub settle: Duration,
    /// How much longer than the duration deliveries on their way may take.
    pub patience: Duration,
    /// Between two lines of numbers.
    pub progress: Duration,
    /// Executions that publish.
    pub executions: u32,
    /// Between two notifications of one execution.
    pub step: Duration,
    /// One endpoint refuses connections after this time …
    pub down_after: Duration,
    /// … for this time …
    pub down_for: Duration,
    /// … and again once it was back for this time.
    pub up_for: Duration,
    /// The shortest wait between two attempts, in seconds, 1 and more.
    pub minimum_delay_s: u32,
    /// The longest one, not shorter.
    pub maximum_delay_s: u32,
    /// Sockets of this process that are never delivered to.
    pub own_sockets: Vec<SocketAddr>,
}

impl Default for DemoPlan {
    /// A minute in which everything can be seen.
    fn default() -> Self {
        Self {
            duration: Some(Duration::from_mins(1)),
            settle: Duration::from_secs(6),
            patience: Duration::from_secs(15),
            progress: Duration::from_secs(5),
            executions: 10,
            step: Duration::from_millis(500),
            down_after: Duration::from_secs(4),
            down_for: Duration::from_secs(40),
            up_for: Duration::from_mins(1),
            minimum_delay_s: 2,
            maximum_delay_s: 8,
            own_sockets: Vec::new(),
        }
    }
}

impl DemoPlan {
    /// When nothing new is published any more.
    pub(super) fn quiet_after(&self) -> Option<Duration> {
        self.duration.map(|whole| whole.saturating_sub(self.settle))
    }

    /// For every endpoint but one: patient enough for the one that is down.
    pub(super) fn policy(&self) -> RetryPolicy {
        RetryPolicy {
            retries_with_no_delay: 1,
            minimum_delay_retries: 2,
            minimum_delay_s: self.minimum_delay_s,
            maximum_delay_s: self.maximum_delay_s,
            maximum_delay_retries: 30,
            function: BackoffFunction::Linear,
            backoff_retries: Some(3),
            ..RetryPolicy::default()
        }
    }

    /// For the endpoint that always fails: soon used up, and then a dead letter.
    pub(super) fn short_policy(&self) -> RetryPolicy {
        RetryPolicy {
            minimum_delay_retries: 1,
            maximum_delay_s: self.minimum_delay_s,
            maximum_delay_retries: 0,
            backoff_retries: Some(0),
            on_exhausted: OnExhausted::DeadLetter,
            ..self.policy()
        }
    }
}
