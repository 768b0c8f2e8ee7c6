//! The rows of the table, by what the faults are made to.

mod brokers;
mod cluster;
mod daemons;
mod databases;
mod long;
mod network;
mod receivers;
mod versions;
