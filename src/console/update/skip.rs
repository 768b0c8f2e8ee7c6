//! The first message of a queue, where it holds up what stands behind it: whether it can be taken out, and how.

use super::State;
use crate::console::action::Reason;
use crate::domain::id::QueueName;
use crate::domain::queue::{QueueKind, QueueState};
use crate::engine::Command;
use crate::engine::runs::{Order, OrderKind, Selection};
use crate::engine::snapshot::QueueRow;

/// Whether no client can read the first message.
pub(super) fn is_unreadable(row: &QueueRow) -> bool {
    row.state == Some(QueueState::Quarantined)
}

/// The queue, where its first message waits.
pub(super) fn of_queue(row: &QueueRow) -> Result<QueueName, Reason> {
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
pub(super) fn command(state: &State, queue: QueueName) -> Command {
    let to = state
        .snapshot
        .as_ref()
        .and_then(|snapshot| snapshot.dead_letter_queue.clone());
    Command::Run(Order {
        to,
        ..Order::new(OrderKind::Skip, Selection::Head(queue))
    })
}
