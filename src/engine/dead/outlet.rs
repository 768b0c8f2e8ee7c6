//! Where the letters of an export are handed out.
//!
//! While one waits for its reader, the messages of its queue are held, and nobody else sees them. So an export has a
//! bound of time: what is out by then stays out, and the last that is said names the queue where it ended.

use std::time::Duration;

use tokio::sync::mpsc;

use super::Exported;
use crate::ambient::{self, Clock};
use crate::domain::id::QueueName;
use crate::domain::words;
use crate::engine::EngineError;
use crate::engine::view::{Source, Unread};

/// How long an export may take: a million letters take two minutes.
pub const EXPORT_TIME: Duration = Duration::from_mins(15);

/// The reader of an export, and how long he may take.
#[derive(Debug)]
pub(super) struct Outlet {
    sender: mpsc::Sender<Exported>,
    clock: Clock,
    time: Duration,
    /// Of the clock's uptime.
    until: Duration,
}

impl Outlet {
    pub(super) fn of(sender: mpsc::Sender<Exported>, clock: &Clock, time: Duration) -> Self {
        Self {
            sender,
            time,
            until: clock.uptime() + time,
            clock: clock.clone(),
        }
    }

    /// False when nobody listens any more, or did not in time.
    pub(super) async fn put(&self, exported: Exported) -> bool {
        let left = self.until.saturating_sub(self.clock.uptime());
        matches!(ambient::timeout(left, self.sender.send(exported)).await, Ok(Ok(())))
    }

    /// Says the last of it, however long that takes: nothing is held any more.
    pub(super) async fn end(self, error: EngineError) {
        // Nobody listens any more, or hears of it.
        let _ = self.sender.send(Err(error)).await;
    }

    /// Whether its time is over.
    pub(super) fn is_over(&self) -> bool {
        self.clock.uptime() >= self.until
    }

    /// Whether nothing more is to be read: its time is over, or its reader gone.
    pub(super) fn has_ended(&self) -> bool {
        self.sender.is_closed() || self.is_over()
    }

    /// Why nothing more was read of this queue: its time is over, and nothing is wrong where the reader has gone.
    pub(super) fn ended(&self, queue: &QueueName) -> Result<(), EngineError> {
        if self.sender.is_closed() {
            return Ok(());
        }
        Err(EngineError::Unread(Box::new(Unread {
            source: Source::Queue(queue.clone()),
            reason: format!(
                "an export takes {} at most and this one ended here: export less at once, by queue, group or filter",
                words::lasts(self.time)
            ),
            since: self.clock.now(),
        })))
    }
}
