//! Endpoints: what this process knows of them, what waits for them, and what a person does to one.

mod act;
mod list;
mod pace;
mod rates;
pub(super) mod retries;
pub(super) mod table;

use std::sync::Arc;

pub(super) use self::act::{Disable, Redeliver, Test};
use self::list::Waiting;
pub(super) use self::pace::ChangePace;
pub(super) use self::table::{
    Answered, EndpointTable, HELD, InFlight, LiveEndpoint, NEAR, REMEMBERED_MAX, SLOW_AFTER, SLOW_AFTER_UNSEEN,
    Standing,
};
use super::core::{Core, over_core};
use super::kept::Kept;
use super::queues::Queues;
use crate::delivery::SenderHandle;

#[derive(Debug)]
pub(super) struct Endpoints {
    core: Arc<Core>,
    queues: Arc<Queues>,
    sender: SenderHandle,
    /// Of the last listing of them.
    waiting: Kept<Waiting>,
}

over_core!(Endpoints);

impl Endpoints {
    pub(super) fn new(core: &Arc<Core>, queues: &Arc<Queues>, sender: SenderHandle) -> Self {
        Self {
            core: Arc::clone(core),
            queues: Arc::clone(queues),
            sender,
            waiting: Kept::default(),
        }
    }
}
