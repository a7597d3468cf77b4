//! Facts about a host's counter, clocks and processors.
//!
//! [`facts`]: is the counter fit to measure with? [`sharing`]: do the host's processors read one counter? [`step`]: how
//! it moves, so how wide a reading is. [`host_clocks`]: has somebody stepped, slewed or suspended its clocks meanwhile?
//! [`clock_monitor`], [`step_alarm`] and [`posix_clock`] serve that; they alone hold nanoseconds, because the kernel's
//! clocks count them. [`affinity`], [`thread_class`]: on which processor this thread runs, and as what;
//! [`busy_processes`]: a background load; [`kernel_trace`], [`trace_instance`]: what the kernel says that it did on
//! each core, [`switch_count`]: whether it left out a switch; [`host_realtime`], [`vmclock`]: what the hypervisor lets
//! a guest see of time.
//!
//! Guarantees: what a host lacks is a [`Finding`] with what was expected and found, never a smaller promise in silence.
//! Deliberately absent: anything that a measured program needs; that is crates `counter` and `stamp`.

pub mod affinity;
pub mod busy_processes;
pub mod clock_monitor;
mod discipline;
pub mod facts;
mod finding;
pub mod free_space;
pub mod host_clocks;
pub mod host_realtime;
pub mod kernel_trace;
pub mod posix_clock;
pub mod sharing;
pub mod step;
pub mod step_alarm;
pub mod switch_count;
pub mod thread_class;
pub mod trace_instance;
mod trace_pages;
pub mod vmclock;

pub use discipline::StatedError;
pub use finding::{Finding, Problem};
