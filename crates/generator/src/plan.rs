//! What is to be sent, where to, when, and what comes back.

use std::time::Duration;

use tickscope_load::EventRate;

use crate::{Error, IdPlace};

/// Senders of one load at most.
pub const MOST_SENDERS: usize = 256;

/// What a datagram of IPv4 carries.
const MOST_DATAGRAM_BYTES: usize = 65_507;

/// How tuples are carried.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Transport {
    /// One after another in a stream, with nothing between them.
    Tcp,
    /// A datagram each.
    Udp,
    /// A POST each to that path, pipelined on one connection a sender.
    Http {
        /// From its first slash on.
        path: String,
    },
    /// A message of one frame each, from a PUSH socket to a PULL socket that was bound.
    Zmq,
    /// A record each of that topic, what is due together as one batch; the address is of one broker of the cluster.
    Kafka {
        /// Sender n writes to the n-th of its partitions.
        topic: String,
    },
}

impl Transport {
    /// The word for it in a command.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
            Self::Http { .. } => "http",
            Self::Zmq => "zmq",
            Self::Kafka { .. } => "kafka",
        }
    }
}

/// What is sent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TupleSource {
    /// Copies of these bytes.
    Copies(Vec<u8>),
    /// These, one after another, and again from the first.
    InTurn(Vec<Vec<u8>>),
}

impl TupleSource {
    pub(crate) fn all(&self) -> &[Vec<u8>] {
        match self {
            Self::Copies(tuple) => std::slice::from_ref(tuple),
            Self::InTurn(tuples) => tuples,
        }
    }
}

/// What comes back for a tuple.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Replies {
    /// Nothing that is waited for.
    None,
    /// A line each, in the order of the tuples.
    Lines,
    /// The tuple, or another of its length with its id in the same place.
    Echo,
    /// A response of HTTP each, in the order of the tuples.
    Http,
    /// An answer of Kafka's broker for each batch, once all replicas in step have it.
    Acknowledged,
}

impl Replies {
    /// The word for it in a command.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Lines => "lines",
            Self::Echo => "echo",
            Self::Http => "http",
            Self::Acknowledged => "acknowledged",
        }
    }
}

/// When tuples are due.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Law {
    /// At one interval.
    Constant,
    /// As a Poisson process, drawn from this seed.
    Poisson(u64),
}

/// A load. Every sender sends each `senders`-th tuple.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GeneratorPlan {
    /// How.
    pub transport: Transport,
    /// Where to: HOST:PORT.
    pub address: String,
    /// Tuples a second, of all senders.
    pub rate: EventRate,
    /// When each is due.
    pub law: Law,
    /// How long tuples are due for.
    pub lasts: Duration,
    /// Senders, each with a connection and a thread.
    pub senders: usize,
    /// What is sent.
    pub tuples: TupleSource,
    /// Where a tuple has its id; `None`: nowhere.
    pub id: Option<IdPlace>,
    /// The id of the first tuple.
    pub first_id: i64,
    /// The id of a last tuple of each sender, which says that nothing follows; `None`: there is none.
    pub pill: Option<i64>,
    /// What comes back.
    pub replies: Replies,
    /// A tuple that is sent later than that after it was due is late.
    pub late: Duration,
    /// How long, after the last tuple was due, what is unsent is still sent and replies are waited for.
    pub linger: Duration,
    /// How long the target may take until it can be connected to.
    pub connect_within: Duration,
}

impl GeneratorPlan {
    /// Refuses what contradicts itself.
    pub(crate) fn check(&self) -> Result<(), Error> {
        if !(1..=MOST_SENDERS).contains(&self.senders) {
            return Err(Error::input(format!(
                "expected 1 to {MOST_SENDERS} senders, found {}. Each is a thread",
                self.senders
            )));
        }
        let tuples = self.tuples.all();
        if tuples.is_empty() || tuples.iter().any(Vec::is_empty) {
            return Err(Error::input("expected tuples of a byte or more, found one without any. Leave empty ones out"));
        }
        let longest = tuples.iter().map(Vec::len).max().unwrap_or(0);
        if self.transport == Transport::Udp && longest > MOST_DATAGRAM_BYTES {
            return Err(Error::input(format!(
                "expected tuples of at most {MOST_DATAGRAM_BYTES} bytes over udp, found one of {longest}. A tuple is \
                 one datagram: make it smaller, or send it over tcp"
            )));
        }
        if let Some(place) = self.id {
            tuples.iter().try_for_each(|tuple| place.expect_room(tuple))?;
        }
        let fits = match self.replies {
            Replies::Http => matches!(self.transport, Transport::Http { .. }),
            Replies::None => !matches!(self.transport, Transport::Http { .. }),
            Replies::Acknowledged => matches!(self.transport, Transport::Kafka { .. }),
            Replies::Lines => self.transport == Transport::Tcp,
            Replies::Echo => matches!(self.transport, Transport::Tcp | Transport::Udp),
        };
        if !fits {
            return Err(Error::input(format!(
                "expected replies that {} has, found {}. Lines come over tcp, echoes over tcp and udp, zmq has none, \
                 http and kafka their own",
                self.transport.name(),
                self.replies.name()
            )));
        }
        if self.pill.is_some() && self.id.is_none() {
            return Err(Error::input(
                "expected tuples with their ids in them, by which a pill is known. Say where the id is (--id-at)",
            ));
        }
        if self.pill.is_some() && self.replies != Replies::None {
            return Err(Error::input("expected no replies with a pill, found both. Leave --pill or --replies out"));
        }
        // A tuple more for what rounding leaves.
        let hertz = self.rate.events() as f64 / self.rate.seconds() as f64;
        let tuples_sent = (hertz * self.lasts.as_secs_f64()).ceil() as i64 + 1;
        let is_tuple = |pill: i64| (self.first_id..self.first_id.saturating_add(tuples_sent)).contains(&pill);
        if let Some(pill) = self.pill.filter(|&pill| is_tuple(pill)) {
            return Err(Error::input(format!(
                "expected a pill whose id no tuple has, found {pill}, while ids from {} on are sent. Use -1",
                self.first_id
            )));
        }
        let same = tuples.iter().all(|tuple| tuple.len() == tuples[0].len());
        if self.replies == Replies::Echo && (self.id.is_none() || !same) {
            return Err(Error::input(
                "expected tuples of one length with their ids in them, by which echoes are matched. Say where the \
                 id is (--id-at), or leave --replies out",
            ));
        }
        Ok(())
    }
}
