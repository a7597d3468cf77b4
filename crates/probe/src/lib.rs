//! The exchange that takes brackets between two hosts: state machines without I/O, and a thin UDP driver.
//!
//! [`exchange`] is the protocol: bytes and stamps in, bytes and brackets out. [`driver`] decides when to send and reads
//! every stamp at its place, over any [`driver::Endpoint`]. [`udp`] is the endpoint that real hosts use, [`kernel`]
//! the same with the kernel's own stamps; simulations have another.
//!
//! Assumes: an honest peer, and a key of the two nodes that nobody else has. Guarantees: a hostile or lossy network can
//! widen the brackets, never falsify them; what it forges or replays is refused and counted. Deliberately absent: what
//! the brackets say about the clocks (crate `bracket`), and how a key comes to a node.

pub mod datagram;
pub mod driver;
mod entropy;
pub mod exchange;
pub mod kernel;
mod key;
pub mod pace;
mod refusal;
mod replay;
pub mod stamped_socket;
pub mod udp;

pub use key::PairKey;
pub use refusal::{Refusal, Refusals};
