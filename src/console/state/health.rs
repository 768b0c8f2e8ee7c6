//! What doctor finds, on one page: the broker and each of its nodes, the store, clocks, daemons, and what to mend.

use crate::domain::time::Timestamp;
use crate::engine::view::Check;

/// What was found last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checked {
    /// When.
    pub at: Timestamp,
    /// What is broken first, or why it is not known (safe to show).
    pub result: Result<Vec<Check>, String>,
}

impl Checked {
    /// The place of the last check.
    #[must_use]
    pub fn last(&self) -> usize {
        self.result.as_ref().map_or(0, |checks| checks.len().saturating_sub(1))
    }
}
