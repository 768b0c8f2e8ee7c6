//! Guaranteed, in-order delivery of notifications over RabbitMQ, and the tools to run it.

pub mod ambient;
pub mod api;
pub mod app;
pub mod broker;
pub mod cli;
pub mod config;
pub mod delivery;
pub mod domain;
pub mod engine;
pub mod sqlite;
pub mod store;
pub mod telemetry;
pub mod wire;
