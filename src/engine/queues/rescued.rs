//! What was taken out of quarantined queues: messages that no client can decode (docs/protocols.md 21).

use crate::domain::id::QueueName;
use crate::engine::EngineError;
use crate::engine::core::Core;
use crate::engine::paging::bounded;
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
    let items = core.store.rescued_list(queue, before, limit).await?;
    let full = items.len() == limit as usize;
    Ok(Page {
        problems: Vec::new(),
        next_cursor: items.last().filter(|_| full).map(|row| row.id.to_string()),
        items,
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
