//! Asks for the rows of the list in front, page by page up to as many as were asked for.

use std::sync::Arc;
use std::time::Duration;

use super::{Link, NOT_CONNECTED, events, inquire};
use crate::ambient::Clock;
use crate::console::feed::{Batch, Fed, FedRows, FeedQuery, Progress};
use crate::domain::dead_letter::DeadLetter;
use crate::domain::text::show;
use crate::domain::time::Timestamp;
use crate::engine::Engine;
use crate::engine::dead::{DeadGroup, DeadListQuery, DeadQueueView, DeadSelection};
use crate::engine::expiring::{ExpiringQuery, ExpiringQueue, SaveRecord};
use crate::engine::policies::PolicyView;
use crate::engine::query;
use crate::engine::query::{AuditEntry, PolicyScope, SaveQuery};
use crate::engine::runs::RunView;
use crate::engine::view::Unread;

/// Groups that are listed, at most.
const GROUPS_MAX: u32 = 1_000;
/// How long looks at queues are waited for; what they find after that comes with the next answer.
const PATIENCE: Duration = Duration::from_millis(300);
/// Cells of a queue's name, and of why it cannot be looked at.
const NAME_MAX: usize = 60;
const WHY_MAX: usize = 200;
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
        FeedQuery::Runs { limit } => runs(engine, *limit).await.map(FedRows::Runs),
        FeedQuery::DeadGroups { filter } => dead_groups(engine, filter.clone()).await.map(FedRows::DeadGroups),
        FeedQuery::DeadLetters { group, filter, limit } => {
            let selection = DeadSelection {
                queue: None,
                group: Some(group.clone()),
                filter: filter.clone(),
            };
            dead_letters(engine, selection, *limit).await.map(FedRows::DeadLetters)
        }
        FeedQuery::EventTypes => events::types(engine).await.map(FedRows::EventTypes),
        FeedQuery::EventGroups { event_type, filter } => events::groups(engine, event_type.clone(), filter.clone())
            .await
            .map(FedRows::EventGroups),
        FeedQuery::Events {
            event_type,
            filter,
            limit,
        } => events::events(engine, event_type.clone(), filter.clone(), *limit)
            .await
            .map(FedRows::Events),
        FeedQuery::Expiring => expiring(engine).await.map(FedRows::Expiring),
        FeedQuery::Saves { limit } => saves(engine, *limit).await.map(FedRows::Saves),
    }
}

async fn expiring(engine: &Engine) -> Result<Batch<ExpiringQueue>, String> {
    let page = inquire(engine, query::Expiring(ExpiringQuery::default())).await?;
    let more = page.next_cursor.is_some();
    Ok(batch(page.items.into_iter().map(Arc::new).collect(), more))
}

async fn saves(engine: &Engine, limit: u32) -> Result<Batch<SaveRecord>, String> {
    let mut rows: Vec<Arc<SaveRecord>> = Vec::new();
    loop {
        let next = SaveQuery {
            before: rows.last().map(|save| save.id.clone()),
            queue: None,
            limit: left(limit, rows.len()).min(PAGE_MAX),
        };
        let page = inquire(engine, query::Saves(next)).await?;
        let more = page.next_cursor.is_some() && !page.items.is_empty();
        rows.extend(page.items.into_iter().map(Arc::new));
        if !more || left(limit, rows.len()) == 0 {
            return Ok(batch(rows, more));
        }
    }
}

async fn runs(engine: &Engine, limit: u32) -> Result<Batch<RunView>, String> {
    let mut rows: Vec<Arc<RunView>> = Vec::new();
    loop {
        let next = query::Runs {
            before: rows.last().map(|run| run.record.id.clone()),
            limit: left(limit, rows.len()).min(PAGE_MAX),
        };
        let page = inquire(engine, next).await?;
        let more = page.next_cursor.is_some() && !page.items.is_empty();
        rows.extend(page.items.into_iter().map(Arc::new));
        if !more || left(limit, rows.len()) == 0 {
            return Ok(batch(rows, more));
        }
    }
}

async fn dead_groups(engine: &Engine, filter: Option<String>) -> Result<Batch<DeadGroup>, String> {
    let query = DeadListQuery {
        selection: DeadSelection {
            filter,
            ..DeadSelection::default()
        },
        sort: None,
        limit: GROUPS_MAX,
        cursor: None,
        patience: PATIENCE,
    };
    let found = inquire(engine, query::DeadGroups(query)).await?;
    let rows: Vec<Arc<DeadGroup>> = found.page.items.into_iter().map(Arc::new).collect();
    let more = rows.len() >= GROUPS_MAX as usize;
    Ok(Batch {
        progress: progress(&found.queues, found.as_of),
        lacks: lacks(&found.problems),
        ..batch(rows, more)
    })
}

async fn dead_letters(engine: &Engine, selection: DeadSelection, limit: u32) -> Result<Batch<DeadLetter>, String> {
    let mut rows: Vec<Arc<DeadLetter>> = Vec::new();
    let mut cursor = None;
    loop {
        let query = DeadListQuery {
            selection: selection.clone(),
            sort: None,
            limit: left(limit, rows.len()).min(PAGE_MAX),
            cursor,
            patience: PATIENCE,
        };
        let found = inquire(engine, query::Dead(query)).await?;
        cursor = found.page.next_cursor;
        rows.extend(found.page.items.into_iter().map(Arc::new));
        if cursor.is_none() || left(limit, rows.len()) == 0 {
            return Ok(Batch {
                progress: progress(&found.queues, found.as_of),
                lacks: lacks(&found.problems),
                ..batch(rows, cursor.is_some())
            });
        }
    }
}

/// What could not be read, with the reason of the first.
fn lacks(problems: &[Unread]) -> Option<Arc<String>> {
    let first = problems.first()?;
    let more = match problems.len() {
        1 => String::new(),
        many => format!("; and {} more", many - 1),
    };
    Some(Arc::new(format!("{}: {}{more}", first.source.name(), first.reason)))
}

/// What is being looked through, else what cannot be.
fn progress(queues: &[DeadQueueView], as_of: Option<Timestamp>) -> Option<Progress> {
    unfinished(queues).map(Progress::Says).or(as_of.map(Progress::AsOf))
}

fn unfinished(queues: &[DeadQueueView]) -> Option<String> {
    let looking = queues.iter().find_map(|queue| Some((queue, queue.looking?)));
    if let Some((queue, (seen, of))) = looking {
        let of = of.map_or_else(String::new, |of| format!(" of {of}"));
        return Some(format!(
            "looking through {}: {seen}{of}",
            show(queue.name.as_str(), NAME_MAX)
        ));
    }
    let mut problems = queues
        .iter()
        .filter_map(|queue| Some((queue, queue.problem.as_deref()?)));
    let (queue, why) = problems.next()?;
    let more = match problems.count() {
        0 => String::new(),
        more => format!("; and {more} more"),
    };
    Some(format!(
        "! {}: {}{more}",
        show(queue.name.as_str(), NAME_MAX),
        show(why, WHY_MAX)
    ))
}

async fn policies(engine: &Engine) -> Result<Batch<PolicyView>, String> {
    let configured = inquire(engine, query::Policy(PolicyScope::default())).await?;
    let page = inquire(engine, query::Policies()).await?;
    let rows = std::iter::once(configured).chain(page.items).map(Arc::new);
    Ok(batch(rows.collect(), page.next_cursor.is_some()))
}

async fn audit(engine: &Engine, limit: u32) -> Result<Batch<AuditEntry>, String> {
    let mut rows = Vec::new();
    let mut before = None;
    loop {
        let next = query::Audit {
            before,
            limit: left(limit, rows.len()).min(PAGE_MAX),
        };
        let page = inquire(engine, next).await?;
        before = page.items.last().map(|entry| entry.id);
        let more = page.next_cursor.is_some() && before.is_some();
        rows.extend(page.items.into_iter().map(Arc::new));
        if !more || left(limit, rows.len()) == 0 {
            return Ok(batch(rows, more));
        }
    }
}

pub(super) fn batch<R>(rows: Vec<Arc<R>>, more: bool) -> Batch<R> {
    Batch {
        rows: Arc::new(rows),
        more,
        progress: None,
        lacks: None,
    }
}

/// How many of `limit` are not there yet.
pub(super) fn left(limit: u32, have: usize) -> u32 {
    limit.saturating_sub(u32::try_from(have).unwrap_or(u32::MAX))
}
