//! The kaas broker.
fn main() {}
