//! How long what grows is kept.

use std::time::Duration;

/// How long what grows is kept; what is needed stays longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// Rows of the attempt log, from their beginning.
    pub attempts: Duration,
    /// Lines of the audit, and versions of policies that are not the newest.
    pub audit: Duration,
    /// Runs, from their end.
    pub runs: Duration,
    /// Endpoints, from when they were used last.
    pub endpoints: Duration,
    /// Messages that no client could decode.
    pub rescued: Duration,
    /// Event types of which nothing is there, from when they were used last.
    pub types: Duration,
}

const DAY: Duration = Duration::from_hours(24);

impl Default for Retention {
    fn default() -> Self {
        Self {
            attempts: DAY * 14,
            audit: DAY * 365,
            runs: DAY * 30,
            endpoints: DAY * 90,
            rescued: DAY * 365,
            types: DAY * 90,
        }
    }
}
