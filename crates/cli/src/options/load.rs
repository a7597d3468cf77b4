//! Options of `tickscope load`.

use std::path::PathBuf;

use clap::{Args, ValueEnum, ValueHint};

use super::seconds;

#[derive(Debug, Args)]
pub struct GeneratorOptions {
    /// How tuples are carried
    pub transport: TransportOption,
    /// Where to: HOST:PORT
    #[arg(value_hint = ValueHint::Other)]
    pub address: String,
    /// Tuples a second, of all senders together
    #[arg(long, default_value_t = 1000.0, value_name = "HZ")]
    pub rate: f64,
    /// Seconds that tuples are due for
    #[arg(long, default_value = "10", value_parser = seconds)]
    pub seconds: f64,
    /// Senders, each with a connection and a thread
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub senders: usize,
    /// Draw the gaps as of a Poisson process, from this seed [default: one interval]
    #[arg(long, value_name = "SEED")]
    pub poisson: Option<u64>,
    /// Bytes of a tuple, zeros besides its id [default: 100]
    #[arg(long, value_name = "BYTES", conflicts_with_all = ["tuple", "lines"])]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1 << 24))]
    pub size: Option<u32>,
    /// File whose bytes are one tuple
    #[arg(long, value_name = "FILE", conflicts_with = "lines")]
    pub tuple: Option<PathBuf>,
    /// File of which each line, with its end, is a tuple; they are sent in turn
    #[arg(long, value_name = "FILE")]
    pub lines: Option<PathBuf>,
    /// Byte of a tuple that its id begins at, from 0 [default: 0 where --size makes the tuples, else nowhere]
    #[arg(long, value_name = "BYTE")]
    pub id_at: Option<usize>,
    /// Write the id as 19 digits, instead of 64 bits with the lowest byte first
    #[arg(long)]
    pub id_text: bool,
    /// Id of the first tuple
    #[arg(long, default_value_t = 0, value_name = "ID", value_parser = clap::value_parser!(i64).range(0..=1 << 62))]
    pub first_id: i64,
    /// Send a tuple with this id last, from each sender: the marker of the policy first-last
    #[arg(long, value_name = "ID", value_parser = clap::value_parser!(i64).range(0..))]
    pub pill: Option<i64>,
    /// What comes back for each tuple, stamped as reply [default: their own for http and kafka, else none]
    #[arg(long)]
    pub replies: Option<RepliesOption>,
    /// Path that http posts to
    #[arg(long, default_value = "/", value_name = "PATH", value_hint = ValueHint::Other)]
    pub path: String,
    /// Topic of kafka; sender n writes to its n-th partition
    #[arg(long, value_name = "NAME", value_hint = ValueHint::Other)]
    pub topic: Option<String>,
    /// Milliseconds after which a tuple is late; the trial is invalid if more than 1 in 1000 are
    #[arg(long, default_value_t = 10.0, value_name = "MS")]
    pub late: f64,
    /// Seconds, after the last tuple was due, for what is unsent and for replies
    #[arg(long, default_value_t = 1.0, value_name = "SECONDS")]
    pub linger: f64,
    /// Seconds that the target may take until it can be connected to
    #[arg(long, default_value_t = 10.0, value_name = "SECONDS")]
    pub connect_within: f64,
    /// Print JSON, the only output there is
    #[arg(long)]
    pub json: bool,
}

/// How tuples are carried.
#[derive(Clone, Copy, PartialEq, Debug, ValueEnum)]
pub enum TransportOption {
    /// One after another in a stream, with nothing between them
    Tcp,
    /// A datagram each
    Udp,
    /// A POST of HTTP/1.1 each
    Http,
    /// A message each, to a PULL socket of ZeroMQ
    Zmq,
    /// A record each, what is due together as one batch; HOST:PORT of one broker
    Kafka,
}

/// What comes back for a tuple.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum RepliesOption {
    /// No reply is waited for (Kafka: acks=0)
    None,
    /// A line each, in order
    Lines,
    /// The tuple itself, with its id
    Echo,
}
