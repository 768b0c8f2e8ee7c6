//! Asks for the rows of the list in front, page by page up to as many as were asked for.

use std::sync::Arc;

use super::{Link, NOT_CONNECTED};
use crate::ambient::Clock;
use crate::console::feed::{Batch, Fed, FedRows, FeedQuery};
use crate::engine::error::chain;
use crate::engine::policies::PolicyView;
use crate::engine::query::{AuditEntry, PolicyScope};
use crate::engine::{Answer, Engine, Query};

/// Rows of one question to the engine, at most.
const PAGE_MAX: u32 = 500;

/// The answer to `query`.
pub(super) async fn ask(link: Option<Link>, query: FeedQuery, clock: &Clock) -> Fed {
    let taken_at = clock.now();
    let rows = match link {
        Some(link) => rows(&link.engine, &query).await,
        None => Err(NOT_CONNECTED.to_owned()),
    };
    Fed { query, taken_at, rows }
}

async fn rows(engine: &Engine, query: &FeedQuery) -> Result<FedRows, String> {
    match query {
        FeedQuery::Audit { limit } => audit(engine, *limit).await.map(FedRows::Audit),
        FeedQuery::Policies => policies(engine).await.map(FedRows::Policies),
    }
}

async fn policies(engine: &Engine) -> Result<Batch<PolicyView>, String> {
    let Answer::Policy(configured) = up(engine, Query::Policy(PolicyScope::default())).await? else {
        return Err(unexpected());
    };
    let Answer::Policies(page) = up(engine, Query::Policies).await? else {
        return Err(unexpected());
    };
    let rows = std::iter::once(*configured).chain(page.items).map(Arc::new);
    Ok(batch(rows.collect(), page.next_cursor.is_some()))
}

async fn audit(engine: &Engine, limit: u32) -> Result<Batch<AuditEntry>, String> {
    let mut rows = Vec::new();
    let mut before = None;
    loop {
        let next = Query::Audit {
            before,
            limit: left(limit, rows.len()).min(PAGE_MAX),
        };
        let Answer::Audit(page) = up(engine, next).await? else {
            return Err(unexpected());
        };
        before = page.items.last().map(|entry| entry.id);
        let more = page.next_cursor.is_some() && before.is_some();
        rows.extend(page.items.into_iter().map(Arc::new));
        if !more || left(limit, rows.len()) == 0 {
            return Ok(batch(rows, more));
        }
    }
}

fn batch<R>(rows: Vec<Arc<R>>, more: bool) -> Batch<R> {
    Batch {
        rows: Arc::new(rows),
        more,
        progress: None,
    }
}

/// How many of `limit` are not there yet.
fn left(limit: u32, have: usize) -> u32 {
    limit.saturating_sub(u32::try_from(have).unwrap_or(u32::MAX))
}

async fn up(engine: &Engine, query: Query) -> Result<Answer, String> {
    engine.query(query).await.map_err(|error| chain(&error))
}

/// A query has one kind of answer; another one is shown as what it is, a fault of ours.
fn unexpected() -> String {
    "the engine answered another question".to_owned()
}
