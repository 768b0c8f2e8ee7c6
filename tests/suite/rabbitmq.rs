//! What only RabbitMQ does: poison, deep headers, rights, arguments, events.

pub(crate) mod bench;
mod connections;
mod events;
mod management;
mod outages;
mod poison;
mod publishes;
pub(crate) mod raw;
mod rights;
mod walks;
