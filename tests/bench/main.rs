//! Benchmarks, run with `cargo bench`.

fn main() {}
