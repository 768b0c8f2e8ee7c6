//! Queues that the broker deletes when nobody uses them: listed, saved, purged, restored, extended.

use crate::engine::Command;
use crate::engine::expiring::{ExpiringOrder, ExpiringQuery, Keep, Which};
use crate::engine::query;
use crate::engine::query::SaveQuery;
use crate::wire::expiring::{self, ExpiringShape, SaveShape};
use crate::wire::plan::Asked;

use super::Session;
use super::args::ExpiringCommand;
use super::done::How;
use super::exit::{Exit, Failure};
use super::output::{Column, number};
use super::paged::paged;
use super::when::{tell_age, told_or_dash};
use crate::domain::words::about as span;

const COLUMNS: &[Column] = &[
    Column::Text("queue"),
    Column::Text("time left"),
    Column::Number("messages"),
    Column::Number("consumers"),
    Column::Text("unused for"),
    Column::Text("lifetime"),
    Column::Text("kind"),
];
const SAVES: &[Column] = &[
    Column::Text("save"),
    Column::Text("queue"),
    Column::Text("state"),
    Column::Text("cause"),
    Column::Number("messages"),
    Column::Number("left"),
    Column::Number("bytes"),
    Column::Text("at"),
    Column::Text("until"),
];

pub(super) async fn run(session: &Session<'_>, command: &ExpiringCommand) -> Result<Exit, Failure> {
    let order = match command {
        ExpiringCommand::List { limit } => return list(session, *limit).await,
        ExpiringCommand::Saves(listed) => return saves(session, listed.limit).await,
        ExpiringCommand::Save { queues } => ExpiringOrder::Save(expiring::named(queues)?),
        ExpiringCommand::Purge { queues, drop } => ExpiringOrder::Purge {
            which: if queues.is_empty() {
                Which::Expired
            } else {
                expiring::named(queues)?
            },
            keep: if *drop { Keep::Dropped } else { Keep::Saved },
        },
        ExpiringCommand::Restore { saves, to } => expiring::restore(saves.clone(), to.as_deref())?,
        ExpiringCommand::Extend { queues, ttl } => ExpiringOrder::Extend {
            which: expiring::named(queues)?,
            lifetime: ttl.map(expiring::lifetime).transpose()?,
        },
    };
    session.act(Command::Expiring(order), How::of(Asked::Several)).await
}

async fn saves(session: &Session<'_>, limit: u32) -> Result<Exit, Failure> {
    let page = |limit, before| {
        query::Saves(SaveQuery {
            before,
            queue: None,
            limit,
        })
    };
    let list = paged(session, limit, "saves", "raise --limit", page).await?;
    let shapes: Vec<SaveShape> = list.items.iter().map(SaveShape::from).collect();
    session.output.list(&shapes, SAVES, |save| {
        vec![
            save.id.clone(),
            save.queue.clone(),
            save.state.to_owned(),
            save.cause.to_owned(),
            save.messages.to_string(),
            save.left.to_string(),
            save.bytes.to_string(),
            told_or_dash(save.at.as_deref()),
            told_or_dash(save.until.as_deref()),
        ]
    })?;
    Ok(Exit::Done)
}

async fn list(session: &Session<'_>, limit: u32) -> Result<Exit, Failure> {
    let query = ExpiringQuery { limit, cursor: None };
    let page = session.engine.query(query::Expiring(query)).await?;
    // Where they are many, as the janitor saw them last.
    tell_age(session.output, page.taken_at);
    if page.total > u64::from(limit) {
        session.output.tell(&format!(
            "there are {} of them, {limit} are shown: raise --limit",
            page.total
        ));
    }
    let queues = &page.items;
    let left: std::collections::HashMap<&str, String> = queues
        .iter()
        .map(|queue| {
            let left = queue.expires_at.map(|at| {
                let about = if queue.estimated { "about " } else { "" };
                format!("{about}{}", span(at.since(page.taken_at)))
            });
            (queue.name.as_str(), left.unwrap_or_else(|| "-".to_owned()))
        })
        .collect();
    let shapes: Vec<ExpiringShape> = queues.iter().map(ExpiringShape::from).collect();
    session.output.list(&shapes, COLUMNS, |queue| {
        let seconds = |seconds: f64| span(std::time::Duration::from_secs_f64(seconds.max(0.0)));
        vec![
            queue.name.clone(),
            left.get(queue.name.as_str()).cloned().unwrap_or_default(),
            number(queue.messages),
            number(queue.consumers),
            queue.idle_s.map_or_else(|| "-".to_owned(), seconds),
            queue.ttl_s.map_or_else(|| "never (leftover)".to_owned(), seconds),
            queue.kind.to_owned(),
        ]
    })?;
    Ok(Exit::Done)
}
