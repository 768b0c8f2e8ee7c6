//! What only RabbitMQ does: poison, deep headers, rights, arguments, events.

pub(crate) mod bench;
mod connections;
mod events;
mod poison;
mod raw;
mod rights;
