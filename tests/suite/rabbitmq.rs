//! What only RabbitMQ does: poison, deep headers, rights, arguments, events.

pub(crate) mod bench;
