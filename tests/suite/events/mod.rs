//! Events from outside: pushed, looked at, changed, claimed and handled, by commands and over HTTP.

mod commands;
mod embedded;
mod faults;
mod hall;
mod intake;
mod intake_faults;
mod many;
mod numbers;
mod processing;
mod routes;
