//! Guaranteed, in-order delivery of notifications over RabbitMQ, and the tools to run it.
//!
//! # Bird's eye
//!
//! A service publishes notifications: one HTTP request each, for one (execution, url). Every such pair has an
//! ordered, durable *delivery queue* on the broker. A daemon's worker takes the queue's lease, consumes it, sends
//! one request at a time and acks after the 2xx. What fails is decided by one pure function; a URL that is at fault
//! becomes unavailable for all its queues and is probed with one message. What must be remembered beside the broker
//! is in the store.
//!
//! ```text
//! publish ──▶ broker: one queue per (execution, url) ──▶ worker: fence ▸ POST ▸ verdict ▸ ack ──▶ the URL
//!                 ▲                                          │
//!                 └── nudges, events, sweep ── dispatcher ◀──┴── store: leases, heads, endpoints, attempts
//! ```
//!
//! # Map
//!
//! | layer | module | what it is |
//! |---|---|---|
//! | 0 | `src/domain` | words, rules and decisions: pure |
//! | 1 | `src/store` | the record: SQLite, PostgreSQL |
//! | 1 | `src/broker` | ordered queues: RabbitMQ, embedded |
//! | 1 | `src/delivery` | one HTTP attempt |
//! | 1 | `src/sqlite` | the one writer and the readers of a SQLite file |
//! | 1 | `src/command.rs` | runs a handler's program |
//! | 1 | `src/ambient.rs` | time, randomness, tasks |
//! | 1 | `src/authorities.rs` | whom connections over TLS trust |
//! | 1 | `src/budget.rs` | how many bytes are in memory |
//! | 1 | `src/certificates.rs` | the certificates that this program shows, and when they end |
//! | 1 | `src/files.rs` | new files, private and whole |
//! | 1 | `src/config` | as written → resolved |
//! | 1 | `src/telemetry` | the log and the numbers |
//! | 2 | `src/engine` | the one API: commands, plans, queries, events; and the daemon's work |
//! | 3 | `src/wire` | the JSON shapes that command line and HTTP API share |
//! | 3 | `src/api`, `src/cli` | HTTP and command line |
//! | 3 | `src/jobs.rs` | the library for submitting and following jobs |
//! | 3 | `src/console` | the screen: events in, effects out; its own runtime carries them out |
//! | 3 | `src/listen` | a receiver for development |
//! | 4 | `src/demo` | everything embedded, with its own traffic and endpoints |
//! | 4 | `src/app` | composition |
//!
//! How a notification, a dead letter, an event and a key press pass through it, step by step, is in `docs/architecture.md`.
//! Comments cite the rules of `docs/protocols.md` by their numbers.
//!
//! Reading order: `src/domain/verdict.rs`, `src/engine/worker/mod.rs`, `src/engine/worker/attempt.rs`, `src/engine/dispatch/mod.rs`,
//! `src/engine/publisher.rs`, `src/engine/ending.rs`.
//!
//! # Invariants
//!
//! - In one delivery queue, n+1 is not sent before n is settled: delivered, or dead-lettered by a recorded decision.
//! - Whoever takes messages of a delivery queue holds its lease; every change of its row is guarded by the epoch.
//! - An attempt starts only while the fence permits it; a process that slept finds it closed.
//! - A message is given back in one way: its channel is closed. Nothing is ever requeued.
//! - A failure is in the store before anything follows from it; a success is acked first and recorded after.
//! - Every mutation by a person is a plan first, and needs a `WriteGrant` that read-only access cannot make.
//!
//! # Absent on purpose
//!
//! No broker plugin is needed beyond the management API, no requeue, no shovels, no recovery by the AMQP client, no
//! deduplication at publish, no proxy from the environment, no redirects.
//!
//! # For those who embed it
//!
//! [`Publisher`] publishes, [`jobs::Jobs`] submits and follows jobs, [`Engine`] delivers inside another program; all
//! three are made from the [`Settings`] that the program itself reads. [`transaction`] handles events beside one's own
//! tables. Everything else is the program's own, and changes with it.
//!
//! Threads of the AMQP client need a large stack (a header table nested thousands of levels deep overflows it): set
//! `RUST_MIN_STACK` to 134217728 before the first thread starts, as the program does for itself.
//!
//! The feature `internals` opens the rest to the program's own tests and measurements, without any promise.
// What is `pub` for them is out of reach in every other build.
#![cfg_attr(
    not(feature = "internals"),
    allow(unreachable_pub, unused_imports, reason = "reached with the feature `internals`")
)]

mod ambient;
mod api;
mod app;
mod authorities;
mod broker;
mod budget;
mod certificates;
mod cli;
mod command;
mod config;
mod console;
mod delivery;
mod demo;
mod domain;
mod engine;
mod files;
pub mod jobs;
mod library;
mod listen;
#[cfg(any(test, feature = "internals"))]
mod parsers;
mod remote;
mod sqlite;
mod store;
mod telemetry;
pub mod transaction;
mod wire;

pub use engine::EngineError;
pub use library::{Engine, Notification, OpenError, Publisher, Receipt, Settings};

#[doc(hidden)]
pub use command::watched_programs;

/// The program: reads its arguments, does what they say, and answers its exit code.
#[doc(hidden)]
#[must_use]
pub fn program() -> u8 {
    let exit = match cli::parse() {
        Ok(cli) => app::run(&cli),
        Err(exit) => exit,
    };
    exit.code()
}

#[cfg(feature = "internals")]
#[doc(hidden)]
pub mod internals {
    //! Everything, for the program's own tests and measurements.

    macro_rules! open {
        ($($module:ident),* $(,)?) => {
            $(pub mod $module {
                pub use crate::$module::*;
            })*
        };
    }

    open!(
        ambient,
        api,
        app,
        broker,
        budget,
        certificates,
        cli,
        command,
        config,
        console,
        delivery,
        demo,
        domain,
        engine,
        files,
        listen,
        parsers,
        sqlite,
        store,
        telemetry,
        wire,
    );
}
