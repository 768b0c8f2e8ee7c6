//! What is asked of the engine for dead letters.

use std::sync::Arc;
use std::time::Duration;

use crate::console::state::feed::{Batch, FedRows, FeedQuery, Progress, Source};
use crate::console::state::inquire::{inquire, page};
use crate::domain::dead_letter::DeadLetter;
use crate::domain::text::show;
use crate::domain::time::Timestamp;
use crate::engine::dead::{DeadGroup, DeadListQuery, DeadQueueView, DeadSelection};
use crate::engine::view::Unread;
use crate::engine::{EngineHandle, query};

/// Groups that are listed, at most.
const GROUPS_MAX: u32 = 1_000;
/// How long looks at queues are waited for; what they find after that comes with the next answer.
const PATIENCE: Duration = Duration::from_millis(300);
/// Cells of a queue's name, and of why it cannot be looked at.
const NAME_MAX: usize = 60;
const WHY_MAX: usize = 200;

/// Where the groups come from.
pub(super) static GROUPS: Source = Source {
    name: "dead_groups",
    every_min: Duration::ZERO,
    ask: |engine, query| Box::pin(async move { groups(&engine, query.filter).await.map(FedRows::from) }),
};

/// Where the letters of a group come from.
pub(super) static LETTERS: Source = Source {
    name: "dead_letters",
    every_min: Duration::ZERO,
    ask: |engine, query| Box::pin(async move { letters(&engine, query).await.map(FedRows::from) }),
};

async fn groups(engine: &EngineHandle, filter: Option<String>) -> Result<Batch<DeadGroup>, String> {
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
        ..Batch::new(rows, more)
    })
}

async fn letters(engine: &EngineHandle, query: FeedQuery) -> Result<Batch<DeadLetter>, String> {
    let limit = query.limit();
    let selection = DeadSelection {
        queue: None,
        group: query.of,
        filter: query.filter,
    };
    let mut rows: Vec<Arc<DeadLetter>> = Vec::new();
    let mut cursor = None;
    loop {
        let query = DeadListQuery {
            selection: selection.clone(),
            sort: None,
            limit: page(limit, rows.len()),
            cursor,
            patience: PATIENCE,
        };
        let found = inquire(engine, query::Dead(query)).await?;
        cursor = found.page.next_cursor;
        rows.extend(found.page.items.into_iter().map(Arc::new));
        if cursor.is_none() || page(limit, rows.len()) == 0 {
            return Ok(Batch {
                progress: progress(&found.queues, found.as_of),
                lacks: lacks(&found.problems),
                ..Batch::new(rows, cursor.is_some())
            });
        }
    }
}

/// What could not be read, with the reason of the first.
fn lacks(problems: &[Unread]) -> Option<String> {
    let first = problems.first()?;
    let more = match problems.len() {
        1 => String::new(),
        many => format!("; and {} more", many - 1),
    };
    Some(format!("{}: {}{more}", first.source.name(), first.reason))
}

/// What is being looked through, else what cannot be.
fn progress(queues: &[DeadQueueView], as_of: Option<Timestamp>) -> Option<Progress> {
    unfinished(queues).map(Progress::Says).or(as_of.map(Progress::AsOf))
}

fn unfinished(queues: &[DeadQueueView]) -> Option<String> {
    let looking = queues.iter().find_map(|queue| Some((queue, queue.looking?)));
    if let Some((queue, (seen, of))) = looking {
        let of = of
            .filter(|of| *of >= seen)
            .map_or_else(String::new, |of| format!(" of {of}"));
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
