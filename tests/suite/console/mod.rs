//! The console: screens painted from a fixture, and the built program on a real pseudo-terminal.

mod calls;
mod child;
mod end_to_end;
mod first_run;
mod first_run_screens;
mod fixture;
mod ground;
mod hostile;
mod lifecycle;
mod mouse;
mod operate;
mod pictures;
mod profiles;
pub(crate) mod pty;
mod screens;
mod stream;
mod styles;
mod unread;
