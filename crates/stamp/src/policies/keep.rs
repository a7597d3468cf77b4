//! `keep d`: a flight recorder. Every stamp goes to a block; blocks older than d go, unless somebody asks for them.
//!
//! For the program it is `buffered`, at the same cost, but that a channel that finds no free block takes its own oldest
//! one. The collector leaves full blocks where they are until they are asked for, and frees those that are too old.

/// Nanoseconds of the window that a channel's entry names.
pub fn window_ns(parameter: u64) -> u64 {
    parameter
}
