//! Channels, policies and the shared-memory blocks behind them: what a measured program carries.
//!
//! A program opens a point on a thread ([`Channel::open`]) and stamps ids there; a collector (crate `collect`) takes
//! the blocks that fill up. `docs/block-format.md` is the format, `include/tickscope.h` the same for C.
//!
//! Guarantees: a stamp that returned is kept, also when the process is killed right after; a stamp makes no system call
//! and takes no lock; memory is bounded and claimed at the start; what cannot be kept is counted.
//! Deliberately absent: files other than the pool, encodings, threads.

pub mod block;
#[cfg(not(loom))]
mod channel;
#[cfg(not(loom))]
mod clock;
#[cfg(not(loom))]
mod complaint;
#[cfg(not(loom))]
mod cut_off;
#[cfg(not(loom))]
mod descriptor;
#[cfg(not(loom))]
pub mod directory;
#[cfg(not(loom))]
pub mod entropy;
#[cfg(not(loom))]
mod environment;
pub mod handover;
#[cfg(not(loom))]
pub mod id;
#[cfg(not(loom))]
mod load;
#[cfg(not(loom))]
mod point;
pub mod policies;
pub mod policy;
#[cfg(not(loom))]
pub mod pool;
pub mod primitive;
#[cfg(not(loom))]
mod process;
#[cfg(not(loom))]
mod traceparent;

#[cfg(not(loom))]
pub use block::Fields;
#[cfg(not(loom))]
pub use channel::{Channel, Extra, Reading};
#[cfg(not(loom))]
pub use clock::clock_now;
#[cfg(not(loom))]
pub use environment::expect_settings;
#[cfg(not(loom))]
pub use id::{Ids, id_of};
#[cfg(not(loom))]
pub use load::no_pool_at_load;
#[cfg(not(loom))]
pub use point::{ThreadPoint, open_kept};
#[cfg(not(loom))]
pub use process::{OpenError, dump};
#[cfg(not(loom))]
pub use tickscope_tick::{Clock, Ordering};
#[cfg(not(loom))]
pub use traceparent::{Traceparent, TraceparentError};
