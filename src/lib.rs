//! Guaranteed, in-order delivery of notifications over RabbitMQ, and the tools to run it.

pub mod domain;
