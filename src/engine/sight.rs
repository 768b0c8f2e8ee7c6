//! How much whoever asks may see: it goes with his question through the whole engine, so that no answer can forget it.
//!
//! Promises: where what the masks name is hidden, a filter compares what is shown and not what is there, and a plan is
//! planned as everybody's and told without it. Left out on purpose: the answers themselves, which whoever lets them
//! out masks as finished documents.

use std::future::Future;

tokio::task_local! {
    static SIGHT: Sight;
}

/// How much somebody sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sight {
    /// All that is there.
    Whole,
    /// What the masks leave.
    Masked,
}

impl Sight {
    /// Does `work` for somebody who sees so much.
    pub async fn during<F: Future>(self, work: F) -> F::Output {
        SIGHT.scope(self, work).await
    }

    /// Of whom this is done for; the program itself sees all.
    pub(super) fn present() -> Self {
        SIGHT.try_with(|sight| *sight).unwrap_or(Self::Whole)
    }
}
