//! The `redrive` program: parse, call `app`, map the result to an exit code.

fn main() {}
