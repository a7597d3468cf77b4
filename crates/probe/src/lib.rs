//! The exchange that takes brackets between two hosts: state machines without I/O, and a thin UDP driver.
//!
//! [`exchange`] is the protocol: bytes and stamps in, bytes and brackets out. [`driver`] decides when to send and reads
//! every stamp at its place, over any [`driver::Endpoint`]. [`udp`] is the endpoint that real hosts use, [`kernel`]
//! the same with the kernel's own stamps; simulations have another.
//!
//! Assumes: an honest peer. Guarantees: a hostile or lossy network can widen the brackets, and what it forges without
//! reading the requests is refused and counted. Deliberately absent: what the brackets say about the clocks (crate
//! `bracket`), and authentication ([`datagram`] has room for it).

pub mod datagram;
pub mod driver;
mod entropy;
pub mod exchange;
pub mod kernel;
mod refusal;
mod stamped_socket;
pub mod udp;

pub use refusal::{Refusal, Refusals};
