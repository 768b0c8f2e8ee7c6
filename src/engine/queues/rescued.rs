//! What was taken out of quarantined queues: messages that no client can decode (docs/protocols.md 21).

use crate::domain::id::QueueName;
use crate::engine::EngineError;
use crate::engine::core::Core;
use crate::engine::paging::{bounded, cut};
use crate::engine::view::Page;
use crate::store::{RescuedMessage, RescuedRow};

/// The newest first, without their bytes.
pub(in crate::engine) async fn rescued(
    core: &Core,
    queue: Option<&QueueName>,
    before: Option<i64>,
    limit: u32,
) -> Result<Page<RescuedRow>, EngineError> {
    let limit = bounded(limit);
    // One more says that there is another page.
    let rows = core.store.rescued_list(queue, before, limit + 1).await?;
    let (items, next_cursor) = cut(rows, limit, |row| row.id.to_string());
    Ok(Page {
        problems: Vec::new(),
        items,
        next_cursor,
        taken_at: core.clock.now(),
    })
}

/// One, byte for byte.
pub(in crate::engine) async fn rescued_one(core: &Core, id: i64) -> Result<RescuedMessage, EngineError> {
    let found = core.store.rescued_get(id).await?;
    found.ok_or_else(|| EngineError::NotFound {
        what: format!("rescued message {id}"),
    })
}
