//! The `tickscope` command.

fn main() {}
