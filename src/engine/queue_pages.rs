//! The rows of queues, a page at a time: never all of them in memory at once.

use super::core::Core;
use crate::domain::queue::QueueRecord;
use crate::store::{QueueQuery, QueuesOnly, StoreError, StoreHandle};

/// Rows of a page.
const ROWS: u32 = 1_000;

/// What is left to read.
pub(super) struct QueuePages<'a> {
    store: &'a StoreHandle,
    /// The next page; `None`: the last one was read.
    query: Option<QueueQuery>,
}

impl Core {
    /// The rows of these queues, by name.
    pub(super) fn queue_pages(&self, only: QueuesOnly) -> QueuePages<'_> {
        QueuePages {
            store: &self.store,
            query: Some(QueueQuery {
                only,
                ..QueueQuery::first(ROWS)
            }),
        }
    }
}

impl QueuePages<'_> {
    /// The next rows; `None` when there are no more. After an error the same page is read again.
    pub(super) async fn next(&mut self) -> Result<Option<Vec<QueueRecord>>, StoreError> {
        let Some(query) = &mut self.query else {
            return Ok(None);
        };
        let rows = self.store.queues_page(query).await?;
        match rows.last() {
            Some(last) if rows.len() == ROWS as usize => query.after = Some(last.name.clone()),
            Some(_) | None => self.query = None,
        }
        Ok(Some(rows).filter(|rows| !rows.is_empty()))
    }
}
