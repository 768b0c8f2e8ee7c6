//! The `redrive` program: parse, call `app`, map the result to an exit code.

use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode};

use redrive::{app, cli};

/// Stack of every thread: a header table nested thousands of levels deep overflows the usual one.
const STACK_BYTES: u64 = 128 * 1024 * 1024;
const STACK_VARIABLE: &str = "RUST_MIN_STACK";
/// Blocks of this size are the system's, and go back to it when they are freed: bodies would leave holes in the heap
/// that are never given back. Other allocators than glibc's do so anyway.
const LARGE_BLOCK_BYTES: u64 = 1024 * 1024;
const LARGE_BLOCK_VARIABLE: &str = "MALLOC_MMAP_THRESHOLD_";

fn main() -> ExitCode {
    enlarge_stacks();
    let exit = match cli::parse() {
        Ok(cli) => app::run(&cli),
        Err(exit) => exit,
    };
    ExitCode::from(exit.code())
}

/// Starts the program again, once, where the stacks are too small: the variable itself ends the loop.
/// Where that is not possible it goes on with what it has.
fn enlarge_stacks() {
    let bytes = std::env::var(STACK_VARIABLE).ok().and_then(|text| text.parse().ok());
    if bytes.is_some_and(|bytes: u64| bytes >= STACK_BYTES) {
        return;
    }
    let mut arguments = std::env::args_os();
    if let (Some(name), Ok(program)) = (arguments.next(), std::env::current_exe()) {
        let mut again = Command::new(program);
        again
            .arg0(name)
            .args(arguments)
            .env(STACK_VARIABLE, STACK_BYTES.to_string());
        if std::env::var_os(LARGE_BLOCK_VARIABLE).is_none() {
            again.env(LARGE_BLOCK_VARIABLE, LARGE_BLOCK_BYTES.to_string());
        }
        let _ = again.exec();
    }
}
