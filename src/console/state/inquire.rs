//! Questions to the engine.

use crate::engine::error::chain;
use crate::engine::events::{EventAnswer, EventQuestion};
use crate::engine::{Answer, Engine, Query};

/// Rows of one question, at most.
pub(in crate::console) const PAGE_MAX: u32 = 500;

pub(in crate::console) async fn inquire(engine: &Engine, query: Query) -> Result<Answer, String> {
    engine.query(query).await.map_err(|error| chain(&error))
}

/// A query has one kind of answer; another one is shown as what it is, a fault of ours.
pub(in crate::console) fn unexpected() -> String {
    "the engine answered another question".to_owned()
}

/// How many of `limit` are not there yet.
pub(in crate::console) fn left(limit: u32, have: usize) -> u32 {
    limit.saturating_sub(u32::try_from(have).unwrap_or(u32::MAX))
}

/// The next page of so many.
pub(in crate::console) fn page(limit: u32, have: usize) -> u32 {
    left(limit, have).min(PAGE_MAX)
}

/// A question about the event table.
pub(in crate::console) async fn question(engine: &Engine, question: EventQuestion) -> Result<EventAnswer, String> {
    let Answer::Events(answer) = inquire(engine, Query::Events(question)).await? else {
        return Err(unexpected());
    };
    Ok(answer)
}
