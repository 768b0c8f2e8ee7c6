//! The pure heart: words, rules and decisions. No async, no IO, no clock, no randomness, no serde.

pub mod egress;
pub mod filter;
pub mod nearest;
pub mod outcome;
pub mod policy;
pub mod text;
pub mod time;
pub mod url;
pub mod value;
