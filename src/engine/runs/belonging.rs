//! Whether a message would be delivered from the delivery queue that it is sent to: its execution and URL name one
//! queue, and from any other it would become a dead letter.

use std::collections::BTreeSet;

use super::order::{Order, OrderKind, Selection};
use crate::domain::dead_letter::DeadLetter;
use crate::domain::id::QueueName;
use crate::domain::message::Message;
use crate::domain::naming::Naming;
use crate::domain::notification::delivered_from;
use crate::domain::run::Target;
use crate::domain::verdict::DeadReason;

/// Where an order sends messages, as far as it says so.
#[derive(Clone)]
pub(super) struct Bound {
    pub(super) naming: Naming,
    to: Option<QueueName>,
    /// Queues that get dead letters which others get as well.
    pub(super) doubled: BTreeSet<QueueName>,
    /// What died again after a redrive is left out.
    pub(super) without_redriven: bool,
}

impl Bound {
    pub(super) fn of(order: &Order, naming: &Naming) -> Self {
        let is_sent = matches!(order.kind, OrderKind::Redrive | OrderKind::Move);
        Self {
            naming: naming.clone(),
            to: order.to.clone().filter(|_| is_sent),
            doubled: BTreeSet::new(),
            without_redriven: order.without_redriven || order.selection == Selection::All,
        }
    }

    /// Why a letter would not be delivered from where it goes. Where it goes back to, it was delivered from once, unless it
    /// is dead because it could not be read there.
    pub(super) fn misplaced(&self, letter: &DeadLetter, target: Option<&Target>, message: &Message) -> Option<String> {
        let is_unread = letter.reason == DeadReason::Undecodable.as_str();
        match (&self.to, target) {
            (Some(to), _) => misplaced(&self.naming, to, message),
            (None, Some(Target::Queue(queue))) if is_unread => misplaced(&self.naming, queue, message),
            (None, _) => None,
        }
    }
}

/// Why a message would not be delivered from `queue`; `None` where it would, or where that is no delivery queue.
pub(super) fn misplaced(naming: &Naming, queue: &QueueName, message: &Message) -> Option<String> {
    if !naming.is_delivery_queue(queue.as_str()) {
        return None;
    }
    let why = match delivered_from(message, naming) {
        Ok(own) if own == *queue => return None,
        Ok(own) => format!("its execution and URL belong to queue {:?}", own.as_str()),
        Err(why) => why,
    };
    Some(format!(
        "{why}: from queue {:?} it would become a dead letter",
        queue.as_str()
    ))
}
