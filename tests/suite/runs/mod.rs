//! Runs with the built program, on real servers: redrive, discard, restore, and what happens when something breaks
//! in the middle of one. Nothing is lost, and what is said of each message is true.

mod copies;
mod crashes;
mod faults;
mod limited;
mod ours;
mod redrive;
pub(crate) mod scene;
mod stopped;
