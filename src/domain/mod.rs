//! The pure heart: words, rules and decisions. No async, no IO, no clock, no randomness, no serde.

pub mod attempt;
pub mod broker_rules;
pub mod dead_letter;
pub mod death;
pub mod egress;
pub mod endpoint;
pub mod event;
pub mod filter;
pub mod id;
pub mod job;
pub mod message;
pub mod naming;
pub mod nearest;
pub mod notification;
pub mod outcome;
pub mod policy;
pub mod queue;
pub mod routing;
pub mod run;
pub mod signature;
pub mod text;
pub mod time;
pub mod url;
pub mod value;
pub mod verdict;
