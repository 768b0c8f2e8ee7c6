//! How much one answer has, and where the next one goes on.

use super::error::EngineError;

/// Items of one answer, at most.
pub(in crate::engine) const LIMIT_MAX: u32 = 1_000;

pub(super) fn bounded(limit: u32) -> u32 {
    limit.clamp(1, LIMIT_MAX)
}

pub(super) fn offset_of(cursor: Option<&str>) -> Result<usize, EngineError> {
    cursor.map_or(Ok(0), |text| text.parse().map_err(|_| EngineError::unknown_cursor()))
}
