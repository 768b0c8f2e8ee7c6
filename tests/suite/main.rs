//! Integration tests: one binary, one module a feature.
//!
//! `tests/run` brings the servers that they need. A test owns what it uses (virtual host,
//! database, directory, port) and waits on states, never on time.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that cannot go on says why by panicking, in helpers too"
)]
#![allow(
    clippy::wildcard_enum_match_arm,
    reason = "whatever else came fails the test, and is printed"
)]
#![allow(
    clippy::disallowed_methods,
    reason = "a test measures with the machine's clock and spawns as it likes"
)]
#![allow(
    unreachable_pub,
    reason = "what a module offers to the others of this binary is `pub`"
)]

mod access;
mod alerts;
mod api;
mod attached;
mod broker_contract;
mod cli;
mod clients;
mod completion;
mod console;
mod dead;
mod demo;
mod documents;
mod embedded;
mod engine;
mod events;
mod expiring;
mod faults;
mod handover;
#[path = "../incidents/mod.rs"]
mod incidents;
mod jobs;
mod layers;
mod listen;
mod looking;
mod memory;
mod metrics;
mod notification;
mod observe;
#[cfg(feature = "otlp")]
mod otlp;
mod packaging;
mod policies;
mod protocols;
mod rabbitmq;
mod retention;
mod runs;
mod sender;
mod sizes;
mod source;
mod statements;
mod store_contract;
mod support;
mod tail;
mod tidy;
mod unknown;
mod upgrade;
