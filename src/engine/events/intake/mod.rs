//! Intake queues: messages of others become events.
//!
//! Promises: a message is acked only after the commit that holds its event; one that is no event is kept as a dead
//! letter, byte for byte, and acked; nothing is ever given back by `nack`. One process reads a queue, under a lease
//! that every batch is guarded by, so that a message that comes late overwrites nothing newer. While the store is
//! away the batch is held and its commit tried again; after a while the queue gets it back (docs/protocols.md 25, 26).

mod batch;
mod consumer;
mod mapping;
mod window;
