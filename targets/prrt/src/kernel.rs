//! The kernel's own stamps of packets: two points between `link-send` and `link-receive`.
//!
//! | point | of | stamped |
//! | --- | --- | --- |
//! | `tx` | a packet | before the driver has it |
//! | `rx` | a packet | once the driver gave it to the kernel |
//!
//! They are readings of `CLOCK_REALTIME`, so each stamped send has a bracket of that clock and the counter before it,
//! and each stamped receive one after it. A transmit stamp comes back with its packet, whose end is the datagram,
//! whatever the link put before: it is known by its header, since no two packets of a sender have the same number.
//!
//! Guarantees: never a stamp under another id; every stamp that was asked for is counted as stamped, missing or
//! discarded; memory is bounded. Discarded are those of the first tenth of a second, since the kernel begins late and
//! in silence, and those of receives until the queue was seen empty after that: what was queued before has the time at
//! which it was read. Deliberately absent: stamps of feedback, and of packets that the receiver refuses.

use std::collections::VecDeque;
use std::io;
use std::net::UdpSocket;
use std::time::{Duration, Instant};

use tickscope_probe::datagram::Nonce;
use tickscope_probe::kernel::is_sampled;
use tickscope_probe::stamped_socket::{self, Arrived, Queue};
use tickscope_stamp::{Channel, Clock, Extra, Fields, Ordering};
use tickscope_tick::RealtimeInjection;

use crate::{Datagram, HEADER_BYTES, MOST_DATAGRAM_BYTES, PacketKind};

const WARM_UP: Duration = Duration::from_millis(100);
/// Packets whose stamps have not come: more than any queue of a loaded interface holds of them.
const MOST_AWAITED: usize = 256;
/// Room for the headers of a link, and of its tunnels, before a datagram that comes back.
const ECHO_BYTES: usize = MOST_DATAGRAM_BYTES + 256;

/// Outcome of the stamps that were asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct KernelCounts {
    /// They came, and are stamps of a point.
    pub stamped: u64,
    /// They did not come.
    pub missing: u64,
    /// They came when the kernel had only begun to stamp.
    pub discarded: u64,
}

/// A point whose stamps are the kernel's.
struct KernelPoint {
    every: u64,
    asked: Instant,
    channel: Channel,
    clock: Channel,
    injection: Option<RealtimeInjection>,
    counts: KernelCounts,
}

impl KernelPoint {
    fn open(socket: &UdpSocket, every: u64, point: &str, ordering: Ordering) -> io::Result<Self> {
        stamped_socket::enable(socket)?;
        Ok(Self {
            every,
            asked: Instant::now(),
            channel: Channel::open_clock(point, Clock::Realtime, ordering, Fields::Wide).map_err(io::Error::other)?,
            clock: Channel::open_bracket(Clock::Realtime).map_err(io::Error::other)?,
            injection: RealtimeInjection::from_environment().map_err(io::Error::other)?,
            counts: KernelCounts::default(),
        })
    }

    fn samples(&self, id: i64) -> bool {
        is_sampled(Nonce(id as u64), self.every)
    }

    fn stamps_all(&self) -> bool {
        self.asked.elapsed() > WARM_UP
    }

    fn file(&mut self, id: i64, kind: PacketKind, realtime_ns: Option<i64>, is_trusted: bool) {
        match realtime_ns {
            _ if !is_trusted => self.counts.discarded += 1,
            None => self.counts.missing += 1,
            Some(ns) => {
                let read_ns = self.injection.as_ref().map_or(ns, |map| map.apply(ns));
                self.channel.record_with(id, read_ns, Extra { kind: kind as i32, ..Extra::default() });
                self.counts.stamped += 1;
            }
        }
    }
}

/// Packets that are sent with the wish for a stamp.
pub(crate) struct KernelSends {
    tx: KernelPoint,
    awaited: Awaited,
}

/// Packets whose stamps have not come, the newest last.
#[derive(Default)]
struct Awaited(VecDeque<AwaitedPacket>);

struct AwaitedPacket {
    header: [u8; HEADER_BYTES],
    bytes: usize,
    id: i64,
    kind: PacketKind,
    is_trusted: bool,
}

impl Awaited {
    /// The packet that came back as the end of `echo`; `None`: nobody's, or several packets'.
    fn take(&mut self, echo: &[u8]) -> Option<AwaitedPacket> {
        let is_end = |packet: &AwaitedPacket| {
            let start = echo.len().checked_sub(packet.bytes);
            start.is_some_and(|start| echo[start..].starts_with(&packet.header))
        };
        let mut fitting = self.0.iter().enumerate().filter(|(_, packet)| is_end(packet)).map(|(at, _)| at);
        let (first, second) = (fitting.next()?, fitting.next());
        if second.is_some() { None } else { self.0.remove(first) }
    }
}

impl KernelSends {
    /// Has the kernel stamp one packet in `every`.
    pub(crate) fn open(socket: &UdpSocket, every: u64) -> io::Result<Self> {
        let tx = KernelPoint::open(socket, every, "tx", Ordering::Before)?;
        Ok(Self { tx, awaited: Awaited::default() })
    }

    /// Returns whether the packet of that id is to be sent by [`send`](Self::send).
    pub(crate) fn samples(&self, id: i64) -> bool {
        self.tx.samples(id)
    }

    /// Relates the kernel's clock to the counter: before the first point of the packet's send.
    pub(crate) fn bracket(&self) {
        self.tx.clock.bracket();
    }

    /// Sends the packet.
    pub(crate) fn send(&mut self, socket: &UdpSocket, bytes: &[u8], sent: &Datagram) -> io::Result<()> {
        let header = *bytes.first_chunk().expect("every packet has a header");
        let is_trusted = self.tx.stamps_all();
        stamped_socket::send(socket, bytes, None)?;
        if self.awaited.0.len() == MOST_AWAITED {
            self.awaited.0.pop_front();
            self.tx.counts.missing += 1;
        }
        let (bytes, id, kind) = (bytes.len(), sent.id, sent.kind);
        self.awaited.0.push_back(AwaitedPacket { header, bytes, id, kind, is_trusted });
        Ok(())
    }

    /// Takes the stamps that have come: after each send, and before the socket is waited for, which they would wake.
    pub(crate) fn collect(&mut self, socket: &UdpSocket) {
        let mut echo = [0; ECHO_BYTES];
        while let Ok(Arrived { length, realtime_ns, .. }) = stamped_socket::receive(socket, &mut echo, Queue::Errors) {
            if let Some(packet) = self.awaited.take(&echo[..length]) {
                self.tx.file(packet.id, packet.kind, realtime_ns, packet.is_trusted);
            }
        }
    }

    /// The counts so far: what has not come is missing.
    pub(crate) fn counts(&self) -> KernelCounts {
        KernelCounts { missing: self.tx.counts.missing + self.awaited.0.len() as u64, ..self.tx.counts }
    }
}

/// Packets that are received with their stamps.
pub(crate) struct KernelReceives {
    rx: KernelPoint,
    is_trusted: bool,
}

impl KernelReceives {
    /// Has the kernel stamp what comes; one packet in `every` is filed, the same ones as at the sender.
    pub(crate) fn open(socket: &UdpSocket, every: u64) -> io::Result<Self> {
        let rx = KernelPoint::open(socket, every, "rx", Ordering::After)?;
        Ok(Self { rx, is_trusted: false })
    }

    /// Receives a datagram that is there.
    pub(crate) fn receive(&mut self, socket: &UdpSocket, buffer: &mut [u8]) -> io::Result<Arrived> {
        let received = stamped_socket::receive(socket, buffer, Queue::Data);
        let is_empty = received.as_ref().is_err_and(|e| e.kind() == io::ErrorKind::WouldBlock);
        self.is_trusted |= is_empty && self.rx.stamps_all();
        received
    }

    /// Files the stamp of a packet that was taken, once nothing else of it is to be timed.
    pub(crate) fn received(&mut self, id: i64, kind: PacketKind, realtime_ns: Option<i64>) {
        if self.rx.samples(id) {
            self.rx.file(id, kind, realtime_ns, self.is_trusted);
            self.rx.clock.bracket();
        }
    }

    /// The counts so far.
    pub(crate) fn counts(&self) -> KernelCounts {
        self.rx.counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Header;

    fn packet(sequence: u64, payload: &[u8]) -> Vec<u8> {
        let (kind, base, mut bytes) = (PacketKind::Source, sequence, Vec::new());
        let [index, filled] = [0; 2];
        let (k, n, session, left_us, sent_ns, rtt_us) = (1, 2, 7, 1000, 5, 0);
        let header = Header { kind, index, k, n, filled, session, left_us, base, sequence, sent_ns, rtt_us };
        header.write(payload, &mut bytes);
        bytes
    }

    fn awaited(packets: &[Vec<u8>]) -> Awaited {
        let of = |at: usize| {
            let bytes = &packets[at];
            let (header, id, kind) = (*bytes.first_chunk().unwrap(), at as i64, PacketKind::Source);
            AwaitedPacket { header, bytes: bytes.len(), id, kind, is_trusted: true }
        };
        Awaited((0..packets.len()).map(of).collect())
    }

    #[test]
    fn a_packet_that_comes_back_is_known_by_its_header_whatever_is_before_it() {
        let packets = [packet(0, b"one"), packet(1, b"another"), packet(2, b"one")];
        for link in [0, 14, 42, 128] {
            let mut awaited = awaited(&packets);
            for (at, bytes) in packets.iter().enumerate().rev() {
                let echo = [vec![0xaa; link], bytes.clone()].concat();
                assert_eq!(awaited.take(&echo).map(|packet| packet.id), Some(at as i64), "{link}");
                assert!(awaited.take(&echo).is_none(), "its stamp came already");
            }
        }
    }

    #[test]
    fn what_is_no_packets_end_or_that_of_two_is_nobodys() {
        let inner = packet(0, b"inside");
        let outer = packet(1, &inner);
        let mut awaited = awaited(&[inner.clone(), outer.clone()]);
        assert!(awaited.take(&outer).is_none(), "it ends with the other one");
        assert!(awaited.take(&[&inner[..], b"!"].concat()).is_none());
        assert!(awaited.take(&inner[1..]).is_none() && awaited.take(&[]).is_none());
        assert_eq!((awaited.take(&inner).unwrap().id, awaited.take(&outer).unwrap().id), (0, 1));
    }

    #[test]
    fn a_receive_is_trusted_once_the_queue_was_seen_empty_after_the_kernel_began() {
        let [here, there] = [0, 1].map(|_| UdpSocket::bind("127.0.0.1:0").unwrap());
        here.set_nonblocking(true).unwrap();
        let mut receives = KernelReceives::open(&here, 1).unwrap();
        let take = |receives: &mut KernelReceives| {
            there.send_to(b"packet", here.local_addr().unwrap()).unwrap(); // it is in the queue at the return
            let arrived = receives.receive(&here, &mut [0; 16]).unwrap();
            receives.received(7, PacketKind::Source, arrived.realtime_ns);
            let counts = receives.counts();
            let is_empty = receives.receive(&here, &mut [0; 16]).unwrap_err().kind() == io::ErrorKind::WouldBlock;
            (counts.stamped + counts.missing, counts.discarded, is_empty)
        };
        receives.rx.asked = Instant::now() + Duration::from_secs(1000);
        assert_eq!(take(&mut receives), (0, 1, true), "the kernel has just been asked");
        receives.rx.asked = Instant::now() - WARM_UP - Duration::from_millis(1);
        assert_eq!(take(&mut receives), (0, 2, true), "it was queued when the queue had not been seen empty");
        assert_eq!(take(&mut receives), (1, 2, true));
    }
}
