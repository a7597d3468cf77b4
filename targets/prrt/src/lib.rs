//! PRRT, Predictably Reliable Real-time Transport: datagrams that arrive by a deadline or are given up.
//!
//! X-Lap was built to profile PRRT, whose source is not public; this one is written from the papers. Datagrams leave at
//! once. Each `k` of them are a *block*, to which parity packets are computed: some follow the block at once
//! (forward error correction), others where the receiver asks for them (repeat requests), until the deadline makes both
//! pointless. What arrives is handed over in the order in which it arrives or is recovered.
//!
//! [`Sender`] and [`Receiver`] are state machines: they read no clock and open no socket, `now` is an argument in
//! nanoseconds of any clock of their own host. [`udp`] drives them over real sockets and stamps each hand-over.
//!
//! Assumes: clocks of both hosts run at nearly the same rate; their offset is never used. Guarantees: a payload is
//! handed over once at most, and as it was submitted; any `n - k` losses of a block's packets in time are recovered;
//! memory is bounded whatever arrives. Deliberately absent: order, encryption, congestion control, authentication of
//! packets: whoever can write into the path can forge them.

mod block;
pub mod c_api;
mod code;
mod error;
mod estimate;
pub mod filter;
pub mod hand_over;
mod kernel;
mod loss;
mod packet;
#[cfg(feature = "quic")]
pub mod quic;
mod receiver;
pub mod rivals;
mod search;
mod seen;
mod sender;
mod sender_clock;
pub mod udp;

pub use block::{MOST_BLOCKS, MOST_HELD_BYTES};
pub use code::{Code, Coding, MOST_PACKETS};
pub use error::Error;
pub use kernel::KernelCounts;
pub use loss::{LossModel, LossProcess};
pub use packet::{
    BlockState, FEEDBACK_BLOCKS, Feedback, HEADER_BYTES, Header, MOST_DATAGRAM_BYTES, MOST_ID, MOST_PAYLOAD_BYTES,
    Packet, PacketKind, block_id,
};
pub use receiver::{Arrival, Delivery, Receiver, ReceiverCounts, ReceiverPlan};
pub use search::{CodingChoice, Demand, PathState, search};
pub use sender::{Constraints, Datagram, Sender, SenderCounts, SenderPlan};
pub use sender_clock::Punctuality;
