//! Queues that the broker deletes when nobody uses them.

use crate::engine::{Answer, Query};
use crate::wire::expiring::ExpiringShape;

use super::Session;
use super::args::ExpiringCommand;
use super::exit::{Exit, Failure};
use super::output::{Column, number, say};
use super::queues::mismatch;
use super::when::span;

const COLUMNS: &[Column] = &[
    Column::Text("queue"),
    Column::Text("time left"),
    Column::Number("messages"),
    Column::Number("consumers"),
    Column::Text("unused for"),
    Column::Text("lifetime"),
    Column::Text("kind"),
];

pub(super) async fn run(session: &Session<'_>, command: &ExpiringCommand) -> Result<Exit, Failure> {
    match command {
        ExpiringCommand::List { limit } => list(session, *limit).await,
    }
}

async fn list(session: &Session<'_>, limit: u32) -> Result<Exit, Failure> {
    let Answer::Expiring(page) = session.engine.query(Query::Expiring).await? else {
        return Err(mismatch());
    };
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    if page.items.len() > limit {
        say(&format!(
            "there are {} of them, {limit} are shown: raise --limit",
            page.items.len()
        ));
    }
    let queues: Vec<_> = page.items.iter().take(limit).collect();
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
    let shapes: Vec<ExpiringShape> = queues.iter().map(|queue| ExpiringShape::from(*queue)).collect();
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
