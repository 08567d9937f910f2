//! The scrubjay binary.
fn main() {}
