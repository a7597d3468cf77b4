//! Both ends over UDP, each step stamped where one layer hands over to the next.
//!
//! | points | of | stamped |
//! | --- | --- | --- |
//! | `send`, `submitted` | a payload | before and after it is given to the transport |
//! | `link-send`, `link-sent` | a packet | before the system call, and at its return: a branch |
//! | `encode-start`, `encode-end` | a block | around computing its parity |
//! | `link-receive`, `handled` | a packet | after the system call, and once the transport took it |
//! | `decode-start`, `decode-end` | a block | around recovering what it lacks |
//! | `recovered` | a payload | once it was recovered: it never passed `link-receive` |
//! | `hand-over`, `deliver` | a payload | before it is handed to the application, and once that has it |
//! | `feedback-send`, `feedback-receive` | a feedback | before the one system call, after the other |
//! | `tx`, `rx` | a packet | by the kernel (`kernel`), where that is asked for |
//!
//! Stamps of packets say their block as parent. Of packets that the receiver refuses (replays, strangers, what came
//! after it was recovered) there is no stamp, but a count: so every id passes each point once.
//!
//! Guarantees: parity is computed after all waiting payloads left, feedback is written after payloads were handed over.

use std::io::{self, ErrorKind};
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::time::Instant;

use tickscope_counter::NodeCounter;
use tickscope_probe::stamped_socket::Arrived;
use tickscope_stamp::{Channel, Extra, Fields, Ordering};

use crate::hand_over::Application;
use crate::kernel::{KernelCounts, KernelReceives, KernelSends};
use crate::rivals::UDP_HEADERS;
use crate::{Error, LossProcess, MOST_DATAGRAM_BYTES, PacketKind, Receiver, Sender, block_id};

/// Kinds of stamps; a block is of those of its packets.
const BLOCK_KINDS: [PacketKind; 2] = [PacketKind::Source, PacketKind::Parity];

/// Nanoseconds since this was made.
#[derive(Clone, Copy, Debug)]
pub struct Stopwatch(Instant);

impl Stopwatch {
    /// Starts at 0.
    pub fn start() -> Self {
        Self(Instant::now())
    }

    /// Nanoseconds from then.
    pub fn now(&self) -> i64 {
        self.0.elapsed().as_nanos() as i64
    }
}

/// Way in which an end waits for packets and due times.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Waits {
    /// Asleep in `ppoll`.
    Poll,
    /// Looks again at once.
    Busy,
}

fn packet(channel: &Channel, id: i64, kind: PacketKind, block: u64) {
    channel.stamp_with(id, of_block(kind, block));
}

fn of_block(kind: PacketKind, block: u64) -> Extra {
    Extra { kind: kind as i32, parent: Some(block_id(block)), ..Extra::default() }
}

fn block(channel: &Channel, base: u64) {
    for kind in BLOCK_KINDS {
        channel.stamp_with(block_id(base), Extra { kind: kind as i32, ..Extra::default() });
    }
}

/// Waits until something is there to read, or until `until` by the stopwatch; at most a tenth of a second.
fn wait(socket: &UdpSocket, until: Option<i64>, now: i64, waits: Waits) {
    const LONGEST_NS: i64 = 100_000_000;
    let ns = until.map_or(LONGEST_NS, |until| (until - now).clamp(0, LONGEST_NS));
    if waits == Waits::Busy || ns == 0 {
        return std::hint::spin_loop();
    }
    let mut watched = libc::pollfd { fd: socket.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    let timeout = libc::timespec { tv_sec: 0, tv_nsec: ns };
    // SAFETY: one descriptor of a socket that lives, and a timeout, both on the stack; no signal mask. An error or a
    // signal ends the wait early, which does no harm.
    unsafe { libc::ppoll(&mut watched, 1, &timeout, std::ptr::null()) };
}

/// The datagram that is there.
fn receive(socket: &UdpSocket, buffer: &mut [u8]) -> io::Result<Arrived> {
    let (length, from) = socket.recv_from(buffer)?;
    Ok(Arrived { length, from: Some(from), realtime_ns: None })
}

/// Errors that an ICMP message makes of a socket's next call (Linux, `icmp_err_convert` and `icmp_unreach`): any host
/// on the path may send one, or forge it, so that none of them ends a stream.
const PATH_ERRORS: [i32; 9] = [
    libc::ENETUNREACH,
    libc::EHOSTUNREACH,
    libc::ENOPROTOOPT,
    libc::ECONNREFUSED,
    libc::EMSGSIZE,
    libc::EOPNOTSUPP,
    libc::EHOSTDOWN,
    libc::ENONET,
    libc::EPROTO,
];

/// Takes what was received; `None`: nothing is there, or the path said that something did not arrive, which is counted.
fn there(received: io::Result<Arrived>, path_errors: &mut u64) -> io::Result<Option<Arrived>> {
    match received {
        Ok(arrived) => Ok(Some(arrived)),
        Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Ok(None),
        Err(e) if e.raw_os_error().is_some_and(|number| PATH_ERRORS.contains(&number)) => {
            *path_errors += 1;
            Ok(None)
        }
        Err(e) => Err(e),
    }
}

/// Has routers divide what is too large for their next link: all that a payload may be goes over any path.
fn divide_on_path(socket: &UdpSocket) -> io::Result<()> {
    let (off, bytes) = (libc::IP_PMTUDISC_DONT, size_of::<i32>() as u32);
    // SAFETY: the kernel reads one number, which lives until the call returns, by its true length.
    let set = unsafe {
        let off = (&raw const off).cast();
        libc::setsockopt(socket.as_raw_fd(), libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, off, bytes)
    };
    if set == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Returns whether the kernel is to stamp packets: somebody asked for it, and what it stamps would be kept.
fn is_measured(every: u64) -> bool {
    every > 0 && std::env::var_os("TICKSCOPE_DIR").is_some_and(|directory| !directory.is_empty())
}

/// A sender with its socket, which is connected.
pub struct UdpSender {
    /// The state machine.
    pub sender: Sender,
    /// Packets that the kernel did not take.
    pub refused_sends: u64,
    refused_bytes: u64,
    /// Messages of the path that something did not arrive.
    pub path_errors: u64,
    socket: UdpSocket,
    clock: Stopwatch,
    waits: Waits,
    bytes: Vec<u8>,
    counter: NodeCounter,
    send: Channel,
    submitted: Channel,
    link_send: Channel,
    link_sent: Channel,
    encode: [Channel; 2],
    feedback_receive: Channel,
    kernel: Option<KernelSends>,
}

impl UdpSender {
    /// Opens its points on this thread.
    pub fn new(socket: UdpSocket, sender: Sender, clock: Stopwatch, waits: Waits) -> io::Result<Self> {
        let open = |point: &str, ordering, fields| Channel::open(point, ordering, fields).map_err(io::Error::other);
        divide_on_path(&socket)?;
        Ok(Self {
            sender,
            refused_sends: 0,
            refused_bytes: 0,
            path_errors: 0,
            socket,
            clock,
            waits,
            bytes: Vec::with_capacity(MOST_DATAGRAM_BYTES),
            counter: NodeCounter::from_environment().map_err(io::Error::other)?,
            send: open("send", Ordering::Before, Fields::Slim)?,
            submitted: open("submitted", Ordering::Plain, Fields::Slim)?,
            link_send: open("link-send", Ordering::Before, Fields::Full)?,
            link_sent: open("link-sent", Ordering::Plain, Fields::Wide)?,
            encode: [
                open("encode-start", Ordering::Before, Fields::Wide)?,
                open("encode-end", Ordering::After, Fields::Wide)?,
            ],
            feedback_receive: open("feedback-receive", Ordering::After, Fields::Wide)?,
            kernel: None,
        })
    }

    /// Has the kernel stamp one packet in `every`. Not where nothing is measured: then it is asked nothing.
    pub fn stamp_in_kernel(&mut self, every: u64) -> io::Result<()> {
        self.kernel = is_measured(every).then(|| KernelSends::open(&self.socket, every)).transpose()?;
        Ok(())
    }

    /// Outcome of the kernel's stamps; `None`: it was asked for none.
    pub fn kernel_counts(&self) -> Option<KernelCounts> {
        self.kernel.as_ref().map(KernelSends::counts)
    }

    /// Bytes on the wire: of packets that the kernel took, with what IPv4 and UDP put before them.
    pub fn wire_bytes(&self) -> u64 {
        let counts = self.sender.counts();
        let left = counts.sources + counts.parity - self.refused_sends;
        counts.bytes - self.refused_bytes + left * UDP_HEADERS
    }

    /// Gives the payload that `payload_of` makes of its id to the transport, and sends what may be sent. One that is
    /// refused has no stamp: another one gets its id.
    pub fn submit(&mut self, payload_of: impl FnOnce(u64) -> Vec<u8>) -> Result<u64, Error> {
        let now = self.clock.now();
        self.sender.on_time(now); // a block that is cut short now leaves ids out
        let payload = payload_of(self.sender.next_id());
        let tick = self.counter.read(Ordering::Before);
        let id = self.sender.submit(&payload, now)?;
        self.send.record(id as i64, tick);
        self.submitted.stamp(id as i64);
        self.transmit();
        Ok(id)
    }

    /// Does what is due, then waits for feedback or until `until`.
    pub fn run_until(&mut self, until: i64) -> io::Result<()> {
        let now = self.clock.now();
        self.sender.on_time(now);
        self.transmit();
        while self.hear()? {
            self.transmit();
        }
        if let Some(kernel) = &mut self.kernel {
            kernel.collect(&self.socket);
        }
        let next = self.sender.wake_at().map_or(until, |wake| wake.min(until));
        wait(&self.socket, Some(next), self.clock.now(), self.waits);
        Ok(())
    }

    fn transmit(&mut self) {
        loop {
            let now = self.clock.now();
            while let Some(sent) = self.sender.transmit(now, &mut self.bytes) {
                let mut kernel = self.kernel.as_mut().filter(|kernel| kernel.samples(sent.id));
                kernel.iter().for_each(|kernel| kernel.bracket());
                packet(&self.link_send, sent.id, sent.kind, sent.block);
                let taken = match &mut kernel {
                    Some(kernel) => kernel.send(&self.socket, &self.bytes, &sent),
                    None => self.socket.send(&self.bytes).map(drop),
                };
                self.link_sent.stamp_with(sent.id, Extra { kind: sent.kind as i32, ..Extra::default() });
                kernel.iter_mut().for_each(|kernel| kernel.collect(&self.socket));
                if taken.is_err() {
                    self.refused_sends += 1;
                    self.refused_bytes += self.bytes.len() as u64;
                }
            }
            let Some(base) = self.sender.next_to_encode() else { return };
            block(&self.encode[0], base);
            self.sender.encode();
            block(&self.encode[1], base);
        }
    }

    fn hear(&mut self) -> io::Result<bool> {
        let mut buffer = [0; MOST_DATAGRAM_BYTES + 1];
        let Some(Arrived { length, .. }) = there(receive(&self.socket, &mut buffer), &mut self.path_errors)? else {
            return Ok(false);
        };
        if let Some(sequence) = self.sender.handle(&buffer[..length], self.clock.now()) {
            let extra = Extra { kind: PacketKind::Feedback as i32, ..Extra::default() };
            self.feedback_receive.stamp_with(sequence as i64, extra);
        }
        Ok(true)
    }
}

/// A receiver with its socket, which hands payloads to an application.
pub struct UdpReceiver<T> {
    /// The state machine.
    pub receiver: Receiver,
    /// Datagrams that the dropper took.
    pub dropped: u64,
    /// Payloads for which the application's queue had no room.
    pub untaken: u64,
    /// Messages of the path that feedback did not arrive.
    pub path_errors: u64,
    /// Taker of the payloads.
    pub application: Application<T>,
    socket: UdpSocket,
    clock: Stopwatch,
    waits: Waits,
    dropper: Option<LossProcess>,
    peer: Option<SocketAddr>,
    bytes: Vec<u8>,
    counter: NodeCounter,
    link_receive: Channel,
    handled: Channel,
    decode: [Channel; 2],
    recovered: Channel,
    hand_over: Channel,
    feedback_send: Channel,
    kernel: Option<KernelReceives>,
}

impl<T: Default + Send + 'static> UdpReceiver<T> {
    /// Opens its points on this thread. `dropper` loses datagrams as a channel would: before anything sees them.
    pub fn new(
        socket: UdpSocket,
        receiver: Receiver,
        (clock, waits): (Stopwatch, Waits),
        dropper: Option<LossProcess>,
        application: Application<T>,
    ) -> io::Result<Self> {
        let open = |point: &str, ordering, fields| Channel::open(point, ordering, fields).map_err(io::Error::other);
        divide_on_path(&socket)?;
        Ok(Self {
            receiver,
            dropped: 0,
            untaken: 0,
            path_errors: 0,
            application,
            socket,
            clock,
            waits,
            dropper,
            peer: None,
            bytes: Vec::with_capacity(MOST_DATAGRAM_BYTES),
            counter: NodeCounter::from_environment().map_err(io::Error::other)?,
            link_receive: open("link-receive", Ordering::After, Fields::Full)?,
            handled: open("handled", Ordering::Plain, Fields::Wide)?,
            decode: [
                open("decode-start", Ordering::Before, Fields::Wide)?,
                open("decode-end", Ordering::After, Fields::Wide)?,
            ],
            recovered: open("recovered", Ordering::After, Fields::Full)?,
            hand_over: open("hand-over", Ordering::Before, Fields::Slim)?,
            feedback_send: open("feedback-send", Ordering::Before, Fields::Wide)?,
            kernel: None,
        })
    }

    /// Has the kernel stamp what comes, of which one packet in `every` is filed: the same ones as at the sender.
    pub fn stamp_in_kernel(&mut self, every: u64) -> io::Result<()> {
        self.kernel = is_measured(every).then(|| KernelReceives::open(&self.socket, every)).transpose()?;
        Ok(())
    }

    /// Outcome of the kernel's stamps; `None`: it was asked for none.
    pub fn kernel_counts(&self) -> Option<KernelCounts> {
        self.kernel.as_ref().map(KernelReceives::counts)
    }

    /// Takes what came, or waits for it.
    pub fn run(&mut self) -> io::Result<()> {
        while self.take()? {}
        self.receiver.on_time(self.clock.now());
        self.feed_back();
        wait(&self.socket, self.receiver.wake_at(), self.clock.now(), self.waits);
        Ok(())
    }

    fn take(&mut self) -> io::Result<bool> {
        let mut buffer = [0; MOST_DATAGRAM_BYTES + 1];
        let received = match &mut self.kernel {
            Some(kernel) => kernel.receive(&self.socket, &mut buffer),
            None => receive(&self.socket, &mut buffer),
        };
        let Some(Arrived { length, from, realtime_ns }) = there(received, &mut self.path_errors)? else {
            return Ok(false);
        };
        let tick = self.counter.read(Ordering::After);
        if self.dropper.as_mut().is_some_and(LossProcess::loses) {
            self.dropped += 1;
            return Ok(true);
        }
        let Some(arrival) = self.receiver.handle(&buffer[..length], self.clock.now()) else { return Ok(true) };
        self.link_receive.record_with(arrival.id, tick, of_block(arrival.kind, arrival.block));
        self.handled.stamp_with(arrival.id, Extra { kind: arrival.kind as i32, ..Extra::default() });
        if self.peer != from {
            self.receiver.moved(length);
        }
        self.peer = from;
        self.hand_over();
        while let Some(base) = self.receiver.next_to_decode() {
            block(&self.decode[0], base);
            let ids = self.receiver.decode();
            block(&self.decode[1], base);
            ids.iter().for_each(|id| packet(&self.recovered, *id, PacketKind::Source, base));
            self.hand_over();
        }
        self.feed_back();
        if let Some(kernel) = &mut self.kernel {
            kernel.received(arrival.id, arrival.kind, realtime_ns);
        }
        Ok(true)
    }

    /// Waits for no other thread: what an application that is a whole queue behind, or ended, does not take is counted.
    fn hand_over(&mut self) {
        while let Some(delivery) = self.receiver.next_delivery(self.clock.now()) {
            self.hand_over.stamp(delivery.id as i64);
            self.untaken += u64::from(!self.application.hand_over(delivery));
        }
    }

    fn feed_back(&mut self) {
        let Some(peer) = self.peer else { return };
        while let Some(sequence) = self.receiver.feedback(self.clock.now(), &mut self.bytes) {
            let extra = Extra { kind: PacketKind::Feedback as i32, ..Extra::default() };
            self.feedback_send.stamp_with(sequence as i64, extra);
            let _ = self.socket.send_to(&self.bytes, peer); // lost feedback is no error: the next one has all of it
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;
    use crate::hand_over::HandOver;
    use crate::{Coding, ReceiverPlan, SenderPlan};

    #[test]
    fn what_the_path_says_of_a_packet_is_counted_and_ends_no_stream() {
        let mut count = 0;
        let told = [libc::EHOSTUNREACH, libc::EMSGSIZE, libc::ENETUNREACH, libc::ECONNREFUSED, libc::EPROTO];
        for (number, counted) in told.into_iter().zip(1..) {
            assert!(there(Err(io::Error::from_raw_os_error(number)), &mut count).unwrap().is_none(), "{number}");
            assert_eq!(count, counted);
        }
        assert!(there(Err(ErrorKind::WouldBlock.into()), &mut count).unwrap().is_none());
        assert!(there(Err(io::Error::from_raw_os_error(libc::EBADF)), &mut count).is_err(), "no path is at fault");
        assert_eq!(count, told.len() as u64);
    }

    #[test]
    fn what_the_kernel_does_not_take_is_counted_and_on_no_wire() {
        let [socket, other] = [(); 2].map(|()| UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap());
        socket.connect(other.local_addr().unwrap()).unwrap();
        // The other one's port is taken, and closed to all but somebody else: nobody else gets it meanwhile.
        other.connect((Ipv4Addr::LOCALHOST, 1)).unwrap();
        socket.send(b"nobody takes it").unwrap();
        let mut told = libc::pollfd { fd: socket.as_raw_fd(), events: 0, revents: 0 };
        // SAFETY: one descriptor of a socket that lives, on the stack.
        assert_eq!(unsafe { libc::poll(&mut told, 1, 60_000) }, 1, "the path says that nobody was there");
        let coding = Coding::new(1, &[0]).unwrap();
        let plan = SenderPlan { session: 7, coding, deadline_ns: 1 << 35, flush_ns: 1000, pace_ns: 0 };
        let sender = Sender::new(plan).unwrap();
        let mut link = UdpSender::new(socket, sender, Stopwatch::start(), Waits::Poll).unwrap();
        link.submit(|_| vec![0; 100]).unwrap();
        assert_eq!((link.sender.counts().sources, link.refused_sends, link.wire_bytes()), (1, 1, 0));
        link.submit(|_| vec![0; 100]).unwrap();
        assert_eq!((link.refused_sends, link.wire_bytes()), (1, 172), "the message was given, once");
    }

    fn divides(socket: &UdpSocket) -> bool {
        let (mut set, mut bytes) = (-1, size_of::<i32>() as u32);
        // SAFETY: the kernel writes one number into `set`, which has its bytes.
        unsafe {
            let at = (&raw mut set).cast();
            libc::getsockopt(socket.as_raw_fd(), libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, at, &mut bytes);
        }
        set == libc::IP_PMTUDISC_DONT
    }

    #[test]
    fn routers_may_divide_what_either_end_sends() {
        let socket = || UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let (clock, coding) = (Stopwatch::start(), Coding::new(4, &[1]).unwrap());
        let plan = SenderPlan { session: 7, coding, deadline_ns: 1000, flush_ns: 1000, pace_ns: 0 };
        let sender = UdpSender::new(socket(), Sender::new(plan).unwrap(), clock, Waits::Poll).unwrap();
        let application = Application::start(HandOver::Inline, 1, || Ok(|_, _: &mut u8| {})).unwrap();
        let receiver = Receiver::new(ReceiverPlan { feedback_ns: 1000, reordered_ns: 1000, vanished_ns: 1000 });
        let receiver = UdpReceiver::new(socket(), receiver, (clock, Waits::Poll), None, application).unwrap();
        assert!(divides(&sender.socket) && divides(&receiver.socket));
        receiver.application.end().unwrap();
    }
}
