//! The `redrive` program: parse, call `app`, map the result to an exit code.

use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode};

/// Stack of every thread: a header table nested thousands of levels deep overflows the usual one.
const STACK_BYTES: u64 = 128 * 1024 * 1024;
const STACK_VARIABLE: &str = "RUST_MIN_STACK";
/// For glibc, which reads them before the program starts: other allocators do so anyway.
const ALLOCATOR_VARIABLES: [(&str, &str); 2] = [
    // Blocks from 1 MiB on are the system's and go back to it when they are freed: bodies would leave holes in the
    // heap that are never given back.
    ("MALLOC_MMAP_THRESHOLD_", "1048576"),
    // By default threads share eight heaps a processor, and each keeps holes that the others could have used.
    ("MALLOC_ARENA_MAX", "2"),
];

fn main() -> ExitCode {
    if redrive::watched_programs() {
        return ExitCode::SUCCESS;
    }
    start_again_where_untold();
    ExitCode::from(redrive::program())
}

/// Starts the program again, once, where the stacks are too small or the allocator was told nothing: the variables
/// themselves end the loop. Where that is not possible it goes on with what it has.
fn start_again_where_untold() {
    let stack = std::env::var(STACK_VARIABLE).ok().and_then(|text| text.parse().ok());
    let has_stack = stack.is_some_and(|bytes: u64| bytes >= STACK_BYTES);
    let untold = ALLOCATOR_VARIABLES
        .iter()
        .filter(|(name, _)| std::env::var_os(name).is_none());
    let untold: Vec<_> = untold.collect();
    if has_stack && untold.is_empty() {
        return;
    }
    let mut arguments = std::env::args_os();
    if let (Some(name), Ok(program)) = (arguments.next(), std::env::current_exe()) {
        let mut again = Command::new(program);
        again.arg0(name).args(arguments);
        if !has_stack {
            again.env(STACK_VARIABLE, STACK_BYTES.to_string());
        }
        for (name, value) in untold {
            again.env(name, value);
        }
        let _ = again.exec();
    }
}
