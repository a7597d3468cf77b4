//! One experiment: a run file becomes a [`Plan`], a [`Conductor`] works it off through the agents of its nodes, and a
//! run directory is left.
//!
//! The conductor never touches a machine: it asks the [`Agent`] that a node lives with to start and end processes and
//! to look at its host, in plain data. [`LocalAgent`] is this host, on loopback or in network namespaces. Under an
//! agent hang the [`roles`]: collector, probe's server and client, clock monitor, cost of a stamp, each a process of
//! its own, so that what dies takes nothing else with it.
//!
//! Assumes: the program that uses this crate plays a role when it is started with `role NAME ...` ([`roles::play`]).
//! Guarantees: whatever ends a run early, what was measured is kept. Deliberately absent: analysis beyond the join, and
//! any printing of results.
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod agent;
mod conductor;
pub mod control;
mod declaration;
mod environment;
mod finish;
mod forecast;
mod host;
pub mod interrupt;
pub mod leftovers;
mod limits;
mod local_agent;
mod logs;
mod network;
mod node_plan;
mod node_role;
mod node_run;
mod notice;
mod object_store;
mod original;
mod outputs;
mod overhead;
pub mod pipe;
mod plan;
mod preflight;
mod process;
mod readiness;
mod record;
mod resume;
mod return_trip_plan;
mod revision;
mod rivals_plan;
pub mod roles;
mod run_file;
mod sample;
mod sites;
mod storage_plan;
mod sweep;
mod window;

pub use agent::{Agent, Ended, FinalCheck, Look, PreparedNode, Target, Task, TaskId};
pub use conductor::{Conductor, RunSettings, RunSource, check, run};
pub use finish::{Finished, awaits_stamps, finish};
pub use host::{Host, hypervisor_clocks};
pub use limits::LimitFile;
pub use local_agent::{LocalAgent, LocalPlace};
pub use network::may_make_namespaces;
pub use node_plan::NodePlan;
pub use plan::Plan;
pub use process::Forward;
pub use readiness::{Readiness, Ready};
pub use resume::resume;
pub use run_file::{RunText, layout_of};
pub use sample::run_file_to_start_from;
pub use sweep::search;
pub use sweep::{
    SustainMethod, SustainPlan, SustainSettings, SweepPlan, SweepSettings, check_sustain, check_sweep, continue_sweep,
    sustain, sweep,
};
pub use tickscope_analysis::Error;
pub use window::Keep;

/// Milliseconds since the epoch of Unix, by an ordinary clock: a label, no measurement.
fn unix_ms() -> i64 {
    (unix_ns() / 1_000_000) as i64
}

/// Now, by a clock that nobody sets and that runs while the machine is suspended.
fn since_boot() -> Option<tickscope_store::SinceBoot> {
    let boot = tickscope_counter::boot_id().ok()?;
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: clock_gettime fills the struct that it is given.
    let status = unsafe { libc::clock_gettime(libc::CLOCK_BOOTTIME, &mut now) };
    (status == 0)
        .then(|| tickscope_store::SinceBoot { boot, ms: now.tv_sec as u64 * 1000 + now.tv_nsec as u64 / 1_000_000 })
}

fn unix_ns() -> u128 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |since| since.as_nanos())
}
