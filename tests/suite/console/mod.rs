//! The console: screens painted from a fixture, and the built program on a real pseudo-terminal.

mod child;
mod end_to_end;
mod fixture;
mod hostile;
mod lifecycle;
mod operate;
mod pictures;
pub(crate) mod pty;
mod screens;
mod stream;
mod styles;
