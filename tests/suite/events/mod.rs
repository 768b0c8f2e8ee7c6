//! Events from outside: pushed, looked at, changed, claimed and handled, by commands and over HTTP.

mod commands;
mod faults;
mod hall;
mod intake;
mod intake_faults;
mod processing;
mod routes;
