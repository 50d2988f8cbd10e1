//! The side-by-side benchmark.
fn main() {}
