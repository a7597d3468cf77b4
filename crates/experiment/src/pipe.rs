//! Agents at the far end of a pipe: any prefix of a command that runs `sh` where a node is.
//!
//! ```text
//! tickscope run                           where the node is
//! PipeAgent ── Pipe ══ ssh host sh ══════ tickscope agent attach ── socket ── tickscope agent daemon
//!                                                                              └ LocalAgent: roles, target
//! ```
//!
//! [`frame`] is what passes, [`protocol`] what it says. The daemon outlives its pipe, which is opened again and goes on
//! where it was. Nodes without `connect` have the same agent, started next to the run: it has no daemon and ends with
//! the run, unless that was detached.
//!
//! Guarantees: nothing is done twice that was asked once, whatever breaks in between; a pipe that says nothing for 10 s
//! is broken. Deliberately absent: authentication and secrecy, which are the prefix's.

pub mod bootstrap;
mod ended_sessions;
pub mod frame;
mod link;
mod pipe_agent;
mod protocol;
mod server;
mod session;
mod uploads;

pub use ended_sessions::{Unfetched, remove_ended_sessions};
pub use link::{Connect, remove};
pub use pipe_agent::PipeAgent;
pub use protocol::{AgentSettings, Inventory};
pub(crate) use server::first_task;
pub use server::serve_pipe;
pub use session::{attach, daemon, session_goes_on};
