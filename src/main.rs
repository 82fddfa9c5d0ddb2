//! The `xoff` program.

fn main() {}
