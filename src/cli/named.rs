//! Which queue a command means: its whole name, the beginning of it that no other one has, or an execution and its URL.

use crate::domain::id::QueueName;
use crate::domain::nearest::nearest;
use crate::domain::text::show;
use crate::engine::query;
use crate::engine::{Command, EngineError, QueuesQuery};
use crate::wire::input;

use super::Session;
use super::delivery_args::Named;
use super::exit::{Exit, Failure};

/// Names that are compared with what was given, at most.
const NAMES_MAX: usize = 20_000;
/// Names that an error shows.
const SHOWN_MAX: usize = 5;
/// Characters of one of them.
const WIDTH_MAX: usize = 200;

/// A queue as it was named.
pub(super) struct NamedQueue {
    pub(super) queue: QueueName,
    /// Whether its whole name was given, or what makes it.
    is_whole: bool,
}

impl NamedQueue {
    const fn whole(queue: QueueName) -> Self {
        Self { queue, is_whole: true }
    }

    /// # Errors
    /// The command needs the whole name where nobody sees its plan (`--yes`), and only the beginning was given.
    pub(super) fn is_enough_for(&self, session: &Session<'_>, command: &Command) -> Result<(), Failure> {
        if self.is_whole || !session.cli.global.yes || !command.needs_whole_name() {
            return Ok(());
        }
        let name = show(self.queue.as_str(), WIDTH_MAX);
        Err(Failure::new(
            Exit::Usage,
            format!("with --yes the whole name is needed: {name}"),
        ))
    }
}

/// The queue that was named.
///
/// # Errors
/// It is no name, or none or several queues begin so.
pub(super) async fn queue(session: &Session<'_>, named: &Named) -> Result<NamedQueue, Failure> {
    if let Some(url) = &named.url {
        let (execution, url) = (input::execution(&named.name)?, input::url(url)?);
        return Ok(NamedQueue::whole(
            session.engine.delivery_queue(&execution, &url).await?,
        ));
    }
    let whole = input::queue(&named.name)?;
    let found = session.engine.query(query::Queue(whole.clone())).await;
    // What else went wrong is told to whoever asks next, with what was asked.
    if !matches!(found, Err(EngineError::NotFound { .. })) {
        return Ok(NamedQueue::whole(whole));
    }
    let names = names(session).await?;
    let begins: Vec<&str> = names
        .iter()
        .map(QueueName::as_str)
        .filter(|name| name.starts_with(whole.as_str()))
        .collect();
    match begins.as_slice() {
        [] => Err(not_found(&whole, &names)),
        [one] => Ok(NamedQueue {
            queue: input::queue(one)?,
            is_whole: false,
        }),
        several => {
            let shown: Vec<String> = several
                .iter()
                .take(SHOWN_MAX)
                .map(|name| show(name, WIDTH_MAX))
                .collect();
            let more = several.len().saturating_sub(SHOWN_MAX);
            let more = if more > 0 {
                format!(" and {more} more")
            } else {
                String::new()
            };
            Err(Failure::new(
                Exit::Usage,
                format!(
                    "{} queues begin with {}: {}{more}; give more of the name",
                    several.len(),
                    show(whole.as_str(), WIDTH_MAX),
                    shown.join(", ")
                ),
            ))
        }
    }
}

fn not_found(whole: &QueueName, names: &[QueueName]) -> Failure {
    let asked = whole.as_str();
    let names = || names.iter().map(QueueName::as_str);
    // A part of a name is more often typed than one with an error in it.
    let near = names()
        .find(|name| name.contains(asked))
        .or_else(|| nearest(asked, names()));
    let hint = match near {
        Some(near) => format!("did you mean {}?", show(near, WIDTH_MAX)),
        None => "`redrive queues` lists those that there are".to_owned(),
    };
    Failure::new(
        Exit::NotFound,
        format!("there is no queue {}: {hint}", show(asked, WIDTH_MAX)),
    )
}

async fn names(session: &Session<'_>) -> Result<Vec<QueueName>, Failure> {
    let (mut names, mut cursor) = (Vec::new(), None);
    loop {
        let query = QueuesQuery {
            filter: None,
            sort: Some("name".to_owned()),
            limit: input::LIMIT_MAX,
            cursor,
        };
        let page = session.engine.query(query::Queues(query)).await?;
        names.extend(page.items.into_iter().map(|view| view.name));
        cursor = page.next_cursor;
        if cursor.is_none() || names.len() >= NAMES_MAX {
            return Ok(names);
        }
    }
}
