//! Questions to the engine.

use crate::engine::error::chain;
use crate::engine::{EngineHandle, Query};

/// Rows of one question, at most.
pub(in crate::console) const PAGE_MAX: u32 = 500;

pub(in crate::console) async fn inquire<Q: Query>(engine: &EngineHandle, query: Q) -> Result<Q::Answer, String> {
    engine.query(query).await.map_err(|error| chain(&error))
}

/// How many of `limit` are not there yet.
pub(in crate::console) fn left(limit: u32, have: usize) -> u32 {
    limit.saturating_sub(u32::try_from(have).unwrap_or(u32::MAX))
}

/// The next page of so many.
pub(in crate::console) fn page(limit: u32, have: usize) -> u32 {
    left(limit, have).min(PAGE_MAX)
}
