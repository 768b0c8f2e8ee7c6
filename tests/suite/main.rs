//! Integration tests: one binary, one module a feature.
mod sender;
