//! The same payloads over UDP alone, TCP and QUIC: what PRRT is compared with, by the same points.
//!
//! UDP loses what the path loses. TCP delivers all of it, in order, however late: a payload waits for every one before
//! it. Messages on TCP have their length before them, and are not held back for others (`TCP_NODELAY`); the id of one
//! is where it ends in the stream, which both ends know without a look at what it says.
//!
//! Guarantees: bytes on the wire are those of IPv4 and of the transport's headers as well, retransmissions included.
//! QUIC is there with the feature `quic`.

use std::io::{self, ErrorKind, Read, Write};
use std::mem::{size_of, zeroed};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::time::Duration;

use tickscope_stamp::{Channel, Fields, OpenError, Ordering};

use crate::packet::{LENGTH_BYTES, MOST_DATAGRAM_BYTES};

/// Longest wait of a call before it is looked whether to end.
pub(crate) const LOOK: Duration = Duration::from_millis(100);
/// Bytes before each datagram: IPv4 and UDP.
pub const UDP_HEADERS: u64 = 20 + 8;
/// Bytes before each segment: IPv4, TCP and its time-stamps, which Linux sends.
const TCP_HEADERS: u64 = 20 + 20 + 12;

/// A way for payloads.
pub enum Link {
    /// A datagram each.
    Udp(UdpSocket),
    /// A stream of payloads, each with its length before it.
    Tcp(TcpStream),
    /// A stream each, of one connection.
    #[cfg(feature = "quic")]
    Quic(crate::quic::QuicLink),
}

/// Sends payloads over a rival.
pub struct RivalSender {
    link: Link,
    /// Payloads that were given to the kernel.
    pub submitted: u64,
    /// Payloads that it did not take.
    pub refused_sends: u64,
    /// Bytes of these.
    refused_bytes: u64,
    datagram_bytes: u64,
    send: Channel,
    link_send: Channel,
    link_sent: Channel,
}

impl Link {
    /// A stream to a receiver that listens.
    pub fn tcp(address: (&str, u16)) -> io::Result<Self> {
        let failed = |e| {
            let (host, port) = address;
            io::Error::other(format!("cannot connect to {host}:{port}: {e}. Start the receiver with --over tcp first"))
        };
        let stream = TcpStream::connect(address).map_err(failed)?;
        stream.set_nodelay(true)?;
        Ok(Self::Tcp(stream))
    }

    /// Bytes that were sent on the wire so far.
    fn wire_bytes(&self, datagrams: u64, bytes: u64) -> io::Result<u64> {
        match self {
            Self::Udp(_) => Ok(bytes + datagrams * UDP_HEADERS),
            Self::Tcp(stream) => {
                let info = tcp_info(stream.as_fd())?;
                Ok(info.tcpi_bytes_sent + u64::from(info.tcpi_segs_out) * TCP_HEADERS)
            }
            #[cfg(feature = "quic")]
            Self::Quic(link) => Ok(link.wire_bytes()),
        }
    }
}

fn tcp_info(stream: BorrowedFd<'_>) -> io::Result<libc::tcp_info> {
    let mut length = size_of::<libc::tcp_info>() as u32;
    // SAFETY: all of it are numbers, for which 0 is a value.
    let mut info: libc::tcp_info = unsafe { zeroed() };
    // SAFETY: the kernel writes at most `length` bytes into `info`, which has them.
    let got = unsafe {
        let at = (&raw mut info).cast();
        libc::getsockopt(stream.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_INFO, at, &mut length)
    };
    if got == 0 { Ok(info) } else { Err(io::Error::last_os_error()) }
}

impl RivalSender {
    /// Opens its points on this thread.
    pub fn new(link: Link) -> Result<Self, OpenError> {
        Ok(Self {
            link,
            submitted: 0,
            refused_sends: 0,
            refused_bytes: 0,
            datagram_bytes: 0,
            send: Channel::open("send", Ordering::Before, Fields::Slim)?,
            link_send: Channel::open("link-send", Ordering::Before, Fields::Slim)?,
            link_sent: Channel::open("link-sent", Ordering::Plain, Fields::Slim)?,
        })
    }

    /// Gives a payload to the kernel; waits where a stream has no room. Answers the id of its stamps: its number, of
    /// TCP the offset of its end.
    pub fn submit(&mut self, payload: &[u8]) -> u64 {
        let end = self.datagram_bytes + (LENGTH_BYTES + payload.len()) as u64;
        let id = if matches!(self.link, Link::Tcp(_)) { end } else { self.submitted } as i64;
        self.send.stamp(id);
        let framed;
        let bytes = match &self.link {
            Link::Tcp(_) => {
                framed = [&(payload.len() as u16).to_be_bytes()[..], payload].concat();
                &framed
            }
            _ => payload,
        };
        self.link_send.stamp(id);
        let taken = match &mut self.link {
            Link::Udp(socket) => socket.send(bytes).map(drop),
            Link::Tcp(stream) => stream.write_all(bytes),
            #[cfg(feature = "quic")]
            Link::Quic(link) => link.send(bytes),
        };
        self.link_sent.stamp(id);
        self.submitted += 1;
        if taken.is_err() {
            self.refused_sends += 1;
            self.refused_bytes += bytes.len() as u64;
        }
        self.datagram_bytes += bytes.len() as u64;
        id as u64
    }

    /// Bytes on the wire so far, headers included.
    pub fn wire_bytes(&self) -> io::Result<u64> {
        self.link.wire_bytes(self.submitted - self.refused_sends, self.datagram_bytes - self.refused_bytes)
    }
}

/// Takes datagrams until `is_stopped`; `take` gets each payload once it was received.
pub fn receive_udp(socket: &UdpSocket, is_stopped: impl Fn() -> bool, mut take: impl FnMut(Vec<u8>)) -> io::Result<()> {
    socket.set_nonblocking(false)?;
    socket.set_read_timeout(Some(LOOK))?;
    let mut buffer = [0; MOST_DATAGRAM_BYTES + 1];
    while !is_stopped() {
        match socket.recv(&mut buffer) {
            Ok(length) => take(buffer[..length].to_vec()),
            Err(e) if is_pause(&e) => {}
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

/// Receives the payloads of a stream, with `connected` called on the one connection that is taken; `take` gets the
/// offset at which each ends, too. Answers whether the other end reset the connection.
pub fn receive_tcp(
    listener: &TcpListener,
    is_stopped: impl Fn() -> bool,
    connected: impl FnOnce(BorrowedFd<'_>) -> io::Result<()>,
    mut take: impl FnMut(u64, Vec<u8>),
) -> io::Result<bool> {
    let (mut stream, _) = loop {
        let mut watched = libc::pollfd { fd: listener.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one descriptor of a listener that lives, on the stack.
        let ready = unsafe { libc::poll(&mut watched, 1, LOOK.as_millis() as i32) };
        if is_stopped() {
            return Ok(false);
        }
        if ready > 0 {
            break listener.accept()?;
        }
    };
    connected(stream.as_fd())?;
    stream.set_read_timeout(Some(LOOK))?;
    let (mut held, mut buffer, mut end) = (Vec::new(), [0; 1 << 16], 0);
    while !is_stopped() {
        match stream.read(&mut buffer) {
            Ok(0) => return Ok(false),
            Err(e) if e.kind() == ErrorKind::ConnectionReset => return Ok(true),
            Ok(length) => held.extend(&buffer[..length]),
            Err(e) if is_pause(&e) => {}
            Err(e) => return Err(e),
        }
        while let Some(bytes) = framed(&held) {
            end += bytes as u64;
            take(end, held[LENGTH_BYTES..bytes].to_vec());
            held.drain(..bytes);
        }
    }
    Ok(false)
}

/// Bytes of the message that is there whole, its length included.
fn framed(held: &[u8]) -> Option<usize> {
    let bytes = LENGTH_BYTES + usize::from(u16::from_be_bytes([*held.first()?, *held.get(1)?]));
    (held.len() >= bytes).then_some(bytes)
}

fn is_pause(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted | ErrorKind::ConnectionRefused
    )
}
