//! The attack on real servers: each test of `rows` is a row of the table in `docs/reliability.md`, with the faults that it
//! made, what came of the messages, and how long it took until they flowed again. `tests/reliability/run` runs them and
//! prints the table.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that cannot go on says why by panicking, in helpers too"
)]
#![allow(
    clippy::disallowed_methods,
    reason = "a test measures with the machine's clock and spawns as it likes"
)]
#![allow(
    unreachable_pub,
    dead_code,
    reason = "the instruments are the suite's, which uses all of them"
)]

mod attack;
#[path = "../suite/rabbitmq/raw.rs"]
mod raw;
mod rows;
#[path = "../suite/faults/scene.rs"]
mod scene;
#[path = "../suite/support/mod.rs"]
mod support;
mod table;
