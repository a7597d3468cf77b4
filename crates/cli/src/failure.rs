//! What ends a command early, and with which exit code: an experiment's error, also of the commands that run none.

pub use tickscope_experiment::Error as Failure;
