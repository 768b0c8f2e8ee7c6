//! Integration tests: one binary, one module a feature.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that cannot go on says why by panicking, in helpers too"
)]
#![allow(
    unreachable_pub,
    reason = "what a module offers to the others of this binary is `pub`"
)]

mod broker_contract;
mod rabbitmq;
