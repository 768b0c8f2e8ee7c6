//! A queue that this process consumes: a place up to which it handed messages out, and those it
//! read ahead.
//!
//! A message is handed out by remembering it and settled by deleting its row, so giving everything
//! back is forgetting. What is read ahead is bounded in number and bytes.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::registry::Slot;
use super::shared::Shared;
use super::tables::{self, Read, Stored, Window};
use crate::ambient;
use crate::broker::{Acked, Attached, Delivery, DeliveryTag, Lost, Next};
use async_trait::async_trait;

/// What is read ahead for one attachment: no more than whoever attaches has room for in any case.
const AHEAD: Window = Window {
    messages: 64,
    bytes: 64 * 1024,
};

/// The next one alone.
const ONE: Window = Window {
    messages: 1,
    bytes: i64::MAX,
};

pub(super) struct Attachment {
    shared: Arc<Shared>,
    queue: i64,
    slot: Arc<Slot>,
    prefetch: usize,
    /// Read and not handed out, in order.
    ahead: VecDeque<Stored>,
    /// The place of the last message read.
    read_to: i64,
    /// The place of the last message handed out.
    handed_to: i64,
    /// What an earlier attachment, or process, may have handed out before.
    handed_before: i64,
    unsettled: BTreeSet<i64>,
    lost: Option<Lost>,
}

impl Attachment {
    pub(super) fn new(shared: Arc<Shared>, queue: i64, prefetch: u16) -> Self {
        Self {
            slot: shared.registry.attach(queue),
            queue,
            prefetch: usize::from(prefetch.max(1)),
            ahead: VecDeque::new(),
            read_to: 0,
            handed_to: 0,
            handed_before: 0,
            unsettled: BTreeSet::new(),
            lost: None,
            shared,
        }
    }

    /// Hands out what is due now. Awaits only before it changes anything, so it may be dropped.
    async fn due(&mut self, room: usize) -> Option<Next> {
        self.notice_the_end();
        if let Some(lost) = &self.lost {
            return Some(Next::Lost(lost.clone()));
        }
        if self.unsettled.len() >= self.prefetch || !self.shared.registry.is_active(self.queue, &self.slot) {
            return None;
        }
        if self.ahead.is_empty()
            && let Some(bytes) = self.read_ahead(i64::try_from(room).unwrap_or(i64::MAX)).await
        {
            return Some(Next::Larger(bytes));
        }
        match &self.lost {
            Some(lost) => Some(Next::Lost(lost.clone())),
            None => self.ahead.pop_front().map(|stored| self.hand_out(stored)),
        }
    }

    fn notice_the_end(&mut self) {
        if self.lost.is_some() {
        } else if self.slot.cancelled.load(Ordering::Acquire) {
            self.lost = Some(Lost::Cancelled);
        } else if self.shared.closed.is_cancelled() {
            self.lost = Some(Lost::Connection("closed by this process".to_owned()));
        }
    }

    /// Answers the size of the next one where that is more than `room`: it is not read then.
    async fn read_ahead(&mut self, room: i64) -> Option<usize> {
        let bytes = AHEAD.bytes.min(room);
        let mut read = self.read(Window { bytes, ..AHEAD }, room).await;
        if read.as_ref().is_err_and(tables::is_damage) {
            // What is before the damaged one can be read.
            read = self.read(ONE, room).await;
        }
        match read {
            Ok(Some(Read::Larger(bytes))) => return Some(bytes),
            Ok(Some(Read::Messages(messages))) => {
                self.read_to = messages.last().map_or(self.read_to, |stored| stored.id);
                self.ahead = messages.into();
            }
            Ok(None) => self.lost = Some(Lost::Cancelled),
            Err(error) if tables::is_damage(&error) => {
                // Once what is in hand is settled it is the head.
                if self.unsettled.is_empty() {
                    self.shared.registry.damage(self.queue, error.to_string());
                    self.lost = Some(Lost::Undecodable(error.to_string()));
                }
            }
            Err(error) => self.lost = Some(Lost::Connection(error.to_string())),
        }
        None
    }

    /// What comes next, as far as the window goes; `None` when the queue is gone.
    async fn read(&self, window: Window, room: i64) -> Result<Option<Read>, sqlx::Error> {
        let readers = self.shared.file.readers();
        let read = tables::read(readers, self.queue, self.read_to, window, room).await?;
        let exists = !read.is_empty() || tables::queue_exists(readers, self.queue).await?;
        Ok(exists.then_some(read))
    }

    fn hand_out(&mut self, stored: Stored) -> Next {
        if self.handed_to == 0 {
            // Asked at the first message, when earlier attachments have ended.
            self.handed_before = self.shared.registry.handed_before(self.queue);
        }
        let Stored { id, message, .. } = stored;
        self.handed_to = id;
        self.unsettled.insert(id);
        self.slot.in_hand.store(self.unsettled.len() as u64, Ordering::Release);
        Next::Message(Box::new(Delivery {
            tag: DeliveryTag(id.unsigned_abs()),
            redelivered: id <= self.handed_before,
            // Nothing is copied to further keys here.
            addressed_to: None,
            message,
        }))
    }

    /// Waits until something may be due. The slot keeps a wake-up from before the call.
    async fn changed(&self) {
        tokio::select! {
            () = self.slot.wake.notified() => {}
            () = self.shared.closed.cancelled() => {}
        }
    }
}

#[async_trait]
impl Attached for Attachment {
    async fn next(&mut self) -> Next {
        self.next_within(usize::MAX).await
    }

    async fn next_within(&mut self, room: usize) -> Next {
        loop {
            if let Some(next) = self.due(room).await {
                return next;
            }
            self.changed().await;
        }
    }

    async fn ack(&mut self, tag: DeliveryTag) -> Acked {
        self.notice_the_end();
        let id = i64::try_from(tag.0).unwrap_or(0);
        if self.lost.is_some() || !self.unsettled.remove(&id) {
            return Acked::Lost;
        }
        self.slot.in_hand.store(self.unsettled.len() as u64, Ordering::Release);
        let queue = self.queue;
        let deleted = self
            .shared
            .file
            .write(move |connection| Box::pin(tables::message_delete(connection, queue, id)));
        match deleted.await {
            Ok(true) => return Acked::Sent,
            Ok(false) => self.lost = Some(Lost::Cancelled),
            Err(error) => {
                tracing::warn!(error = ?error, "a message could not be settled");
                self.lost = Some(Lost::Connection(error.to_string()));
            }
        }
        // It may still be in its place, and was handed out.
        self.unsettled.insert(id);
        self.slot.in_hand.store(self.unsettled.len() as u64, Ordering::Release);
        Acked::Lost
    }

    async fn close(self: Box<Self>) {
        let (file, queue, now) = (self.shared.file.clone(), self.queue, self.shared.clock.now());
        drop(self);
        // Only for `idle_since`: nobody waits for it, and a queue that is gone needs none.
        ambient::spawn("embedded broker idle mark", async move {
            let marked = file.write(move |connection| Box::pin(tables::queue_used(connection, queue, now)));
            if let Err(error) = marked.await {
                tracing::debug!(error = ?error, "the last use of a queue was not noted");
            }
        });
    }
}

impl Drop for Attachment {
    fn drop(&mut self) {
        self.shared.registry.detach(self.queue, &self.slot, self.handed_to);
    }
}
