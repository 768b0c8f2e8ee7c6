//! The memory of a worker: its share of the budget, and what its messages take of it.
//!
//! A worker begins with a share for what the last message of its queue took. Where a message's size is known before it
//! is in memory, one that does not fit is left where it is. Otherwise it is here before anybody knows; while nothing is
//! known of a queue, a look (`Budget::look`) bounds how many of these come at one time. What does not fit goes back,
//! once: the queue is asked for again when there is a share of that size.

use std::time::Duration;

use super::{End, Worker};
use crate::ambient;
use crate::broker::{Attached, Next};
use crate::budget::{Budget, SMALL_BYTES, Share, Use};

/// How long the first message of a queue that has one is on its way. Whatever comes later is not looked for.
const LOOK: Duration = Duration::from_millis(250);

/// A share and what it is for.
#[derive(Debug)]
pub(super) struct Room {
    memory: Budget,
    share: Option<Share>,
    /// While the first message is on its way.
    look: Option<Share>,
    /// What the last message took; none was seen yet.
    last: Option<usize>,
}

impl Room {
    /// With the share that the queue was asked for with.
    pub(super) fn new(memory: Budget, share: Option<Share>) -> Self {
        let expected = share.as_ref().map(Share::bytes);
        Self {
            memory,
            share,
            look: None,
            last: expected.filter(|bytes| *bytes > SMALL_BYTES),
        }
    }

    /// What the last message took, if one was seen.
    pub(super) const fn last(&self) -> Option<usize> {
        self.last
    }

    /// How large a message may be that is read.
    pub(super) fn bytes(&self) -> usize {
        self.share.as_ref().map_or(0, Share::bytes)
    }

    /// How many messages may be in hand: no more than there is memory for if they are like the last one.
    pub(super) fn prefetch(&self, wished: u16) -> u16 {
        let all = self.last.unwrap_or(0).saturating_mul(usize::from(wished));
        if all <= self.bytes() { wished } else { 1 }
    }

    /// Nothing comes.
    pub(super) fn look_over(&mut self) {
        self.look = None;
    }

    /// Makes room for a message of so many bytes, and for others of `prefetch` like it where that is possible; false
    /// where there is none.
    pub(super) fn fits(&mut self, bytes: usize, prefetch: u16) -> bool {
        self.memory.saw(bytes);
        self.look = None;
        self.last = Some(bytes);
        let all = bytes.saturating_mul(usize::from(prefetch));
        let Some(share) = &mut self.share else {
            self.share = self.memory.try_take(Use::InHand, all.max(SMALL_BYTES));
            return self.share.is_some();
        };
        let fits = share.try_grow(all) || share.try_grow(bytes);
        share.shrink(all.max(SMALL_BYTES));
        fits
    }
}

impl Worker {
    /// Nothing is known of the queue, and its messages come unasked: waits until one of any size may come. Whoever is
    /// before this one waits for the broker alone.
    pub(super) async fn look_out(&mut self) -> Result<(), End> {
        if self.room.last.is_some() || self.hold.engine.broker.is_embedded() {
            return Ok(());
        }
        let memory = self.hold.engine.settings.memory.clone();
        tokio::select! {
            biased;
            () = self.hold.stops.drain.cancelled() => return Err(End::Stopping),
            () = self.hold.stops.generation.cancelled() => return Err(End::Fenced),
            look = memory.look() => self.room.look = Some(look),
        }
        self.hold.may_go_on()
    }

    /// The first message of a queue that was looked out for, if it comes soon.
    pub(super) async fn looked_for(&mut self, attached: &mut dyn Attached) -> Option<Next> {
        self.room.look.as_ref()?;
        let first = ambient::timeout(LOOK, attached.next_within(self.room.bytes())).await;
        self.room.look = self.room.look.take().filter(|_| first.is_ok());
        first.ok()
    }
}
