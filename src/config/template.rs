//! What a configuration may have, for people and for their editors; tests read both and miss no key.

/// Every key with its default and what it is for; `redrive config init` writes it.
pub const TEMPLATE: &str = include_str!("../../assets/redrive.toml");

/// The same as a JSON schema (draft 7), for editors that complete and check TOML; `redrive config schema` prints it.
pub const SCHEMA: &str = include_str!("../../assets/redrive.schema.json");
