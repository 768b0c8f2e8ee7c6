//! The console: on a real pseudo-terminal, with the built program.

mod child;
mod end_to_end;
mod lifecycle;
mod pty;
mod stream;
