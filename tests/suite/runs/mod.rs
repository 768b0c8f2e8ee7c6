//! Runs with the built program, on real servers: redrive, discard, restore, and what happens when something breaks
//! in the middle of one. Nothing is lost, and what is said of each message is true.

mod celery;
mod contents;
mod copies;
mod crashes;
mod error_queues;
mod faults;
mod foreign;
mod limited;
mod ours;
mod patch;
mod quorum;
mod receivers;
mod redrive;
mod rights;
pub(crate) mod scene;
mod stopped;
