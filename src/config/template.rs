//! The commented template that `redrive config init` writes; a test reads it and misses no key.

/// Every key with its default and what it is for.
pub const TEMPLATE: &str = include_str!("../../assets/redrive.toml");
