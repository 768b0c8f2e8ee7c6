//! The model of the store that simulated runs have: the same sentences as for both databases are true of it.

#[path = "../../simulation/store/mod.rs"]
#[allow(dead_code, reason = "the troubles of a network are for simulated runs")]
mod store;

pub(super) use store::Database;
