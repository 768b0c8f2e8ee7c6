//! Everything that the index has of a selection, a page at a time.

use super::{DeadLetter, DeadSort};
use crate::domain::id::QueueName;
use crate::engine::core::Core;
use crate::store::{DeadQuery, DeadText, StoreError};

/// Rows of one read.
const READ: u32 = 1_000;

/// Where a reading is.
pub(in crate::engine) struct DeadPages {
    /// What is read next; `None` when that was all.
    next: Option<DeadQuery>,
}

impl DeadPages {
    /// Of this queue, and of this group, where one is named.
    pub(in crate::engine) const fn of(queue: Option<QueueName>, fingerprint: Option<String>, sort: DeadSort) -> Self {
        let first = DeadQuery {
            queue,
            fingerprint,
            exactly: Vec::new(),
            sort,
            after: None,
            limit: READ,
        };
        Self { next: Some(first) }
    }

    /// Only those of which these are exactly that.
    pub(in crate::engine) fn exactly(mut self, texts: Vec<(DeadText, String)>) -> Self {
        if let Some(next) = &mut self.next {
            next.exactly = texts;
        }
        self
    }

    /// The next page; `None` behind the last one.
    pub(in crate::engine) async fn next(&mut self, core: &Core) -> Result<Option<Vec<DeadLetter>>, StoreError> {
        let Some(mut read) = self.next.take() else {
            return Ok(None);
        };
        let rows = core.store.dead_letters(&read).await?;
        if rows.len() == READ as usize {
            read.after = rows.last().map(|row| (read.sort.value(row), row.id.clone()));
            self.next = Some(read);
        }
        Ok(Some(rows))
    }
}
