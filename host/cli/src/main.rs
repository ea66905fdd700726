//! The `chandlery` binary.
fn main() {}
