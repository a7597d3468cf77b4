//! Probes that the kernel stamps as well: its own time-stamps of the same datagrams, ten times closer to the wire.
//!
//! One exchange in n (both ends agree by its nonce) is stamped by the kernel when the driver takes it for
//! transmission and when it is received (`SO_TIMESTAMPING`, software). Those readings are of `CLOCK_REALTIME`, so the
//! counter is bracketed with that clock right before the send and right after the receive. What the user space reads
//! stays as it is, for all exchanges: collecting a transmit stamp slows its sender, which is why only a sample pays for
//! it.
//!
//! A transmit stamp comes back on the error queue with the datagram it belongs to (no `OPT_TSONLY`), so it is matched
//! by the nonce inside, never by counting sends. Where the kernel keeps the data from an unprivileged program
//! (`net.core.tstamp_allow_data` = 0) none comes, and that is counted as missing.
//!
//! Assumes: `skb_tx_timestamp` precedes the hand-over to the device, the receive stamp follows it: so the first is
//! `before` the datagram could leave, the second `after` it came. Guarantees: the first tenth of a second after
//! enabling is discarded and counted, since the kernel enables stamping late and then fills in the time of reading;
//! nothing is matched by guessing; a datagram that the exchange refuses leaves no stamp, so that strangers' packets
//! fill nobody's disk. Deliberately absent: hardware stamps; relating the clocks.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tickscope_tick::Ordering;

use crate::datagram::{Datagram, LENGTH, Message, NodeId, Nonce};
use crate::driver::{Endpoint, Received};
use crate::stamped_socket::{self, Arrived, Queue};
use crate::udp::UdpEndpoint;

/// Which passage of which datagram the kernel stamped.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Passage {
    /// A request on its way out.
    RequestSent,
    /// A request that came.
    RequestReceived,
    /// A reply on its way out.
    ReplySent,
    /// A reply that came.
    ReplyReceived,
}

/// An exchange, as its kernel stamps are told apart.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ExchangeId {
    /// The node that asks.
    pub client: NodeId,
    /// The node that answers.
    pub server: NodeId,
    /// Which of their exchanges.
    pub nonce: Nonce,
}

/// Where the kernel's stamps go.
pub trait KernelStamps {
    /// The kernel stamped `passage` of that exchange at `realtime_ns`, true `CLOCK_REALTIME`.
    fn stamped(&mut self, passage: Passage, exchange: ExchangeId, realtime_ns: i64);

    /// Relates the counter to `CLOCK_REALTIME`, now.
    fn bracket(&mut self);
}

/// Counts of the kernel's stamps, by their outcome.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct KernelCounts {
    /// Datagrams sent with the wish for a stamp.
    pub asked: u64,
    /// Transmit stamps that came.
    pub transmitted: u64,
    /// Receive stamps that came.
    pub received: u64,
    /// Datagrams of the sample that came without a stamp.
    pub unstamped: u64,
    /// Transmit stamps of the first tenth of a second, discarded.
    pub transmitted_early: u64,
    /// Datagrams of the sample that came in the first tenth of a second, their stamps discarded.
    pub received_early: u64,
}

/// Returns whether an exchange is one of the sample, which has one in `every`: by a mixture of the nonce's bits, since
/// its count goes round the peers.
pub fn is_sampled(nonce: Nonce, every: u64) -> bool {
    const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
    (nonce.0.wrapping_mul(ODD) >> 32).is_multiple_of(every)
}

/// A UDP endpoint whose kernel stamps one exchange in n.
#[derive(Debug)]
pub struct KernelEndpoint<'a, S> {
    udp: UdpEndpoint<'a>,
    stamps: S,
    every: u64,
    /// Since when the endpoint's stamps are trusted, a value of its `elapsed`.
    trusted_from: Duration,
    counts: KernelCounts,
    /// The datagram of the sample that came last, until it is admitted or the next one comes.
    arrival: Option<Arrival>,
    /// A sampled exchange has passed since the clocks were bracketed.
    bracket_due: bool,
}

/// A datagram of the sample that came.
#[derive(Clone, Copy, Debug)]
struct Arrival {
    passage: Passage,
    exchange: ExchangeId,
    realtime_ns: Option<i64>,
    /// It came before stamps are trusted.
    early: bool,
}

/// Until when after enabling no stamp is trusted: what enables them in the kernel runs later, on a work queue.
const WARM_UP: Duration = Duration::from_millis(100);
/// Room for the kernel's headers before a datagram that it echoes.
const ECHO_BYTES: usize = LENGTH + 256;

impl<'a, S: KernelStamps> KernelEndpoint<'a, S> {
    /// Asks the kernel for stamps on the endpoint's socket; `every`: one exchange in so many, at least 1.
    pub fn new(udp: UdpEndpoint<'a>, stamps: S, every: u64) -> io::Result<Self> {
        stamped_socket::enable(udp.socket)?;
        let trusted_from = udp.elapsed() + WARM_UP;
        let counts = KernelCounts::default();
        Ok(Self { udp, stamps, every: every.max(1), trusted_from, counts, arrival: None, bracket_due: true })
    }

    /// The counts so far.
    pub fn counts(&self) -> KernelCounts {
        self.counts
    }

    fn samples(&self, nonce: Nonce) -> bool {
        is_sampled(nonce, self.every)
    }

    /// The kernel may not have begun to stamp.
    fn early(&self) -> bool {
        self.udp.elapsed() < self.trusted_from
    }

    fn stamped(&mut self, passage: Passage, exchange: ExchangeId, realtime_ns: i64, early: bool) {
        *match passage {
            Passage::RequestSent | Passage::ReplySent if early => &mut self.counts.transmitted_early,
            Passage::RequestSent | Passage::ReplySent => &mut self.counts.transmitted,
            Passage::RequestReceived | Passage::ReplyReceived if early => &mut self.counts.received_early,
            Passage::RequestReceived | Passage::ReplyReceived => &mut self.counts.received,
        } += 1;
        if !early {
            self.stamps.stamped(passage, exchange, realtime_ns);
        }
    }

    /// Takes every transmit stamp that is there.
    fn collect(&mut self) {
        let mut echo = [0; ECHO_BYTES];
        while let Ok(Arrived { length, realtime_ns, .. }) =
            stamped_socket::receive(self.udp.socket, &mut echo, Queue::Errors)
        {
            let Some(start) = length.checked_sub(LENGTH) else { continue };
            let (Ok(datagram), Some(ns)) = (Datagram::decode(&echo[start..length]), realtime_ns) else { continue };
            self.stamped(Passage::sent(datagram.message), ExchangeId::of(&datagram), ns, self.early());
        }
    }

    /// Keeps what came until the exchange says whether it is part of it.
    fn arrived(&mut self, bytes: &[u8], realtime_ns: Option<i64>) {
        let datagram = Datagram::decode(bytes).ok().filter(|datagram| self.samples(datagram.nonce));
        let early = self.early();
        self.arrival = datagram.map(|datagram| Arrival {
            passage: Passage::received(datagram.message),
            exchange: ExchangeId::of(&datagram),
            realtime_ns,
            early,
        });
    }

    fn look(&mut self, buffer: &mut [u8]) -> io::Result<Option<Received<SocketAddr>>> {
        match stamped_socket::receive(self.udp.socket, buffer, Queue::Data) {
            Ok(Arrived { length, from, realtime_ns }) => {
                self.arrived(&buffer[..length], realtime_ns);
                Ok(self.udp.peer.or(from).map(|from| Received { length, from }))
            }
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn bracket_if_due(&mut self) {
        if std::mem::take(&mut self.bracket_due) {
            self.stamps.bracket();
        }
    }
}

impl KernelCounts {
    /// Transmit stamps that were asked for and never came.
    pub fn missing(&self) -> u64 {
        self.asked.saturating_sub(self.transmitted + self.transmitted_early)
    }
}

impl ExchangeId {
    fn of(datagram: &Datagram) -> Self {
        let Datagram { from, to, nonce, message, .. } = *datagram;
        let (client, server) = if message == Message::Request { (from, to) } else { (to, from) };
        Self { client, server, nonce }
    }
}

impl Passage {
    fn sent(message: Message) -> Self {
        if message == Message::Request { Self::RequestSent } else { Self::ReplySent }
    }

    fn received(message: Message) -> Self {
        if message == Message::Request { Self::RequestReceived } else { Self::ReplyReceived }
    }
}

impl<S: KernelStamps> Endpoint for KernelEndpoint<'_, S> {
    type Address = SocketAddr;

    #[inline]
    fn stamp(&mut self, ordering: Ordering) -> i64 {
        self.udp.stamp(ordering)
    }

    fn send(&mut self, bytes: &[u8], to: SocketAddr) -> io::Result<()> {
        if !Datagram::decode(bytes).is_ok_and(|datagram| self.samples(datagram.nonce)) {
            return self.udp.send(bytes, to);
        }
        self.counts.asked += 1;
        let address = self.udp.peer.is_none().then_some(to);
        let sent = stamped_socket::send(self.udp.socket, bytes, address);
        self.collect();
        sent
    }

    fn receive(&mut self, buffer: &mut [u8], deadline: Duration) -> io::Result<Option<Received<SocketAddr>>> {
        // What came of the last exchange was stamped by its driver before it called again.
        self.bracket_if_due();
        let sleep_from = self.elapsed() + self.udp.spin;
        loop {
            if let Some(received) = self.look(buffer)? {
                return Ok(Some(received));
            }
            // A transmit stamp that comes later wakes the sleep below, and would wake it for ever if it stayed.
            self.collect();
            let now = self.elapsed();
            if now >= deadline {
                return Ok(None);
            }
            if now >= sleep_from && self.udp.sleep(deadline - now)? {
                return self.look(buffer);
            }
        }
    }

    fn admitted(&mut self) {
        let Some(Arrival { passage, exchange, realtime_ns, early }) = self.arrival.take() else { return };
        self.bracket_due = true;
        match realtime_ns {
            Some(ns) => self.stamped(passage, exchange, ns, early),
            None if early => self.counts.received_early += 1,
            None => self.counts.unstamped += 1,
        }
    }

    fn elapsed(&self) -> Duration {
        self.udp.elapsed()
    }

    /// Asked for right before a request is stamped and sent, which makes it the place to bracket the clocks.
    fn nonce(&mut self) -> io::Result<Nonce> {
        let nonce = self.udp.nonce()?;
        self.bracket_due |= self.samples(nonce);
        self.bracket_if_due();
        Ok(nonce)
    }
}
