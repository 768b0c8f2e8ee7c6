//! The first message of a queue, where it holds up what stands behind it: whether it can be taken out, and how.

use crate::console::state::State;
use crate::console::state::action::Reason;
use crate::console::state::dialog::Task;
use crate::console::state::pointed::{Pointed, Reach};
use crate::console::update::answers::target_of;
use crate::console::update::scope::Aim;
use crate::domain::id::QueueName;
use crate::domain::queue::{QueueKind, QueueState};
use crate::engine::Command;
use crate::engine::runs::{Order, OrderKind, Selection};
use crate::engine::snapshot::QueueRow;
use crate::engine::view::Retry;

pub(super) const SKIP: Aim<Head> = Aim::new(Reach::OneRow, head, |state, heads| {
    heads.into_iter().map(|head| command(state, head)).collect()
});

/// The first message of a queue.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) enum Head {
    Readable(QueueName),
    /// No client can read it.
    Quarantined(QueueName),
}

/// Where the message that was taken out is.
pub(super) fn skipped(task: &Task) -> String {
    let command = task.commands.first();
    let queue = command.map(target_of).unwrap_or_default();
    let place = if matches!(command, Some(Command::RescueQueue(_))) {
        "is in the store"
    } else {
        "goes to the dead letters"
    };
    format!("the first message of {queue} {place}")
}

/// A queue whose first message holds it up.
fn head(row: Pointed<'_>) -> Result<Head, Reason> {
    match row {
        Pointed::Queue(row) | Pointed::Opened(row, _) if is_unreadable(row) => Ok(Head::Quarantined(row.name.clone())),
        Pointed::Queue(row) | Pointed::Opened(row, _) => of_queue(row).map(Head::Readable),
        Pointed::Retry(Retry { queue: Some(name), .. }) => Ok(Head::Readable(name.clone())),
        Pointed::Retry(_) => Err("its queue is not known".into()),
        Pointed::Endpoint(_) | Pointed::Policy(_) | Pointed::Run(_) | Pointed::Subject(_) => {
            Err("only a queue on the list has a first message".into())
        }
    }
}

/// Whether no client can read the first message.
fn is_unreadable(row: &QueueRow) -> bool {
    row.state == Some(QueueState::Quarantined)
}

/// The queue, where its first message waits.
fn of_queue(row: &QueueRow) -> Result<QueueName, Reason> {
    if row.kind != QueueKind::Delivery {
        return Err("this is not a delivery queue".into());
    }
    if row.depth() == Some(0) {
        return Err("this queue is empty".into());
    }
    match row.state {
        Some(
            QueueState::Parked
            | QueueState::WaitingRetry
            | QueueState::EndpointUnavailable
            | QueueState::EndpointDisabled
            | QueueState::Paused
            | QueueState::Refused,
        ) => Ok(row.name.clone()),
        Some(_) | None => Err("its first message holds nothing up".into()),
    }
}

/// To the dead letters, where it can be looked at, mended and redriven.
fn command(state: &State, head: Head) -> Command {
    let queue = match head {
        Head::Readable(queue) => queue,
        Head::Quarantined(queue) => return Command::RescueQueue(queue),
    };
    let to = state
        .data
        .snapshot
        .as_ref()
        .and_then(|snapshot| snapshot.dead_letter_queue.clone());
    Command::Run(Order {
        to,
        ..Order::new(OrderKind::Skip, Selection::Head(queue))
    })
}
