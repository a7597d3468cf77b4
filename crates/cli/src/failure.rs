//! The error that ends a command early, with its exit code: an experiment's, also of the commands that run none.

pub use tickscope_experiment::Error as Failure;
