//! How messages are read: consumed, looked at, walked over, rescued byte for byte, or taken in from the queues of
//! events.
//!
//! Promises: whatever is not settled is back in its place once the reader ends, dropping it included.

use async_trait::async_trait;

use super::{
    Acked, AttachOptions, AttachOutcome, BrokerError, Browsed, DeliveryTag, IntakeQueue, Lost, Next, WalkOptions,
    Walked,
};
use crate::domain::id::QueueName;

/// Reads the messages of queues.
#[async_trait]
pub trait Reading: Send + Sync {
    /// Opens a channel of its own on a consuming connection with room, binds when `options` say so,
    /// sets prefetch and consumes. The caller holds the lease.
    async fn attach(&self, queue: &QueueName, options: AttachOptions) -> Result<AttachOutcome, BrokerError>;

    /// Takes up to `limit` messages into view on a connection of its own and gives them back by closing
    /// it. The caller holds the lease of a delivery queue, or the queue is not one.
    async fn browse(&self, queue: &QueueName, limit: u32) -> Result<Vec<Browsed>, BrokerError>;

    /// Walks a queue from its head on, on a connection of its own, holding everything that is not settled.
    /// `None`: there is no such queue. The caller holds the lease of a delivery queue, or the queue is not
    /// one; nobody else should consume it. The broker marks what was walked over as redelivered.
    async fn walk(&self, queue: &QueueName, options: WalkOptions) -> Result<Option<Box<dyn Walk>>, BrokerError>;

    /// Takes the first message out byte for byte with a reader that survives what the ordinary one does
    /// not; it is only gone after [`Rescued::settle`]. The caller holds the lease.
    async fn rescue(&self, queue: &QueueName) -> Result<Option<Box<dyn Rescued>>, BrokerError>;

    /// Makes an intake queue, its exchange (topic) and its bindings as far as they are missing, and consumes it
    /// with this prefetch, on a connection of its own. What exists is taken as it is.
    async fn intake(&self, queue: &IntakeQueue, prefetch: u16) -> Result<Box<dyn Intake>, BrokerError>;

    /// [`Reading::rescue`] of an intake queue; nobody consumes it meanwhile.
    async fn intake_rescue(&self, queue: &IntakeQueue) -> Result<Option<Box<dyn Rescued>>, BrokerError>;
}

/// A queue that this process consumes. Dropping it closes its channel.
#[async_trait]
pub trait Attached: Send {
    /// The next message, or why there will be none. May be dropped and called again.
    async fn next(&mut self) -> Next;

    /// The next message as [`Attached::next`], but for one that is larger than `room` where that is known before it is
    /// in memory: [`Next::Larger`]. What is read ahead is within `room`, too.
    async fn next_within(&mut self, room: usize) -> Next {
        let _ = room;
        self.next().await
    }

    /// Settles a message. `Lost` means that nothing was sent: do not go on.
    async fn ack(&mut self, tag: DeliveryTag) -> Acked;

    /// Settles a message and does not wait until the socket has it: it goes out before all that is done after
    /// it here, and the next settlement waits for it. `Lost` as with [`Attached::ack`]; what is lost later
    /// comes again, like everything unsettled.
    async fn ack_soon(&mut self, tag: DeliveryTag) -> Acked {
        self.ack(tag).await
    }

    /// Closes the channel and waits until the broker has it: everything not acked is back in its place.
    async fn close(self: Box<Self>);
}

/// An intake queue that this process consumes. Dropping it closes its connection: what is not settled comes again.
#[async_trait]
pub trait Intake: Send {
    /// The next messages, at least one and at most `limit`: waits for the first and takes what is there behind it.
    /// May be dropped and called again. The error says why there will be none.
    async fn next(&mut self, limit: usize) -> Result<Vec<Walked>, Lost>;

    /// Makes again what somebody removed of its exchange and its bindings.
    async fn bind_again(&mut self) -> Result<(), BrokerError>;

    /// Takes nothing more out of the queue: [`Intake::next`] hands out what came already, and then none. What is settled before
    /// the close is not given back, and a broker that counts what is given back has nothing to count.
    async fn cease(&mut self);

    /// Settles messages. `Lost` means that they may come again, and that nothing more comes here.
    async fn settle(&mut self, tags: &[DeliveryTag]) -> Acked;

    /// Ends it and waits until the broker has everything back that is not settled.
    async fn close(self: Box<Self>);
}

/// A walk over a queue. Everything that it passed is in its hand until it is settled or the walk ends;
/// ending (dropping too) puts the rest back in its place. What is in memory is bounded, however long it is.
/// A broker's consumer timeout bounds its time (30 minutes by default).
#[async_trait]
pub trait Walk: Send {
    /// The next messages in order, up to `limit`. Empty: the end, as of now, or [`Walk::is_cut`]; it may be
    /// called again. Never waits long. [`BrokerError::Undecodable`]: the next one cannot be read, and the
    /// walk is over.
    async fn next(&mut self, limit: usize) -> Result<Vec<Walked>, BrokerError>;

    /// Whether the last answer was empty because no more may be held at once: settle some and go on.
    fn is_cut(&self) -> bool;

    /// Takes messages out of the queue for good. It is certain once [`Walk::close`] succeeded; what an
    /// error leaves open comes again.
    async fn settle(&mut self, tags: &[DeliveryTag]) -> Result<(), BrokerError>;

    /// Gives the rest back in its place and waits until the broker has it. Answers how many of its messages were
    /// delivered before, those that the broker sent ahead included: it counts each of them.
    async fn close(self: Box<Self>) -> Result<u64, BrokerError>;
}

/// A message that was taken out byte for byte.
#[async_trait]
pub trait Rescued: Send {
    /// The AMQP content header frame's payload.
    fn header_frame(&self) -> &[u8];
    /// The body.
    fn body(&self) -> &[u8];
    /// Removes it from the queue (after the copy is stored).
    async fn settle(self: Box<Self>) -> Result<(), BrokerError>;
    /// Puts it back in its place.
    async fn release(self: Box<Self>);
}
