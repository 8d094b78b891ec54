//! The `zagg-stream` program.

fn main() {}
