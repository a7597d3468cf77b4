//! A sender's socket: written without waiting, and where it takes nothing, waited for by the clock.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream, ToSocketAddrs, UdpSocket};
use std::os::fd::{AsRawFd, RawFd};
use std::thread;
use std::time::{Duration, Instant};

use crate::kafka::{self, Batches};
use crate::{Error, GeneratorPlan, Replies, Transport, zmtp};

/// The longest that a wait goes on without looking whether it is to end.
const LONGEST_WAIT_MS: i32 = 20;
/// Between two tries to connect.
const RETRY: Duration = Duration::from_millis(20);
/// A handshake that takes longer has no other end.
const HANDSHAKE: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub(crate) enum Link {
    Stream(TcpStream),
    Datagrams(UdpSocket),
}

/// What a socket took of what it was offered.
pub(crate) enum Took {
    /// So many bytes.
    Bytes(usize),
    /// Nothing now.
    Nothing,
}

impl Link {
    /// Connects the sender of that number, as soon as the target lets it; with what its records are to be wrapped in.
    pub fn connect(
        plan: &GeneratorPlan,
        number: usize,
        is_stopped: impl Fn() -> bool,
    ) -> Result<(Self, Option<Batches>), Error> {
        let until = Instant::now() + plan.connect_within;
        let address = &plan.address;
        loop {
            let alone = |link: Self| (link, None);
            let connected = match &plan.transport {
                Transport::Udp => Self::datagrams(address).map(alone),
                Transport::Zmq => Self::shaken(address, zmtp::shake_hands).map(|(link, ())| (link, None)),
                Transport::Kafka { topic } => {
                    let asked = (number, plan.replies != Replies::None);
                    Self::shaken(address, |stream| kafka::route(stream, topic, asked))
                        .and_then(|(_, (leader, batches))| Ok((Self::stream(&leader)?, Some(batches))))
                }
                Transport::Tcp | Transport::Http { .. } => Self::stream(address).map(alone),
            };
            match connected {
                Ok(link) => return Ok(link),
                Err(e) if e.kind() == ErrorKind::InvalidInput => {
                    return Err(Error::input(format!("expected an address HOST:PORT, found '{address}': {e}")));
                }
                Err(e) if Instant::now() >= until || is_stopped() || e.kind() == ErrorKind::InvalidData => {
                    return Err(Error::work(format!(
                        "cannot connect to {address}: {e}; start what listens there, or give it longer \
                         (--connect-within)"
                    )));
                }
                Err(_) => thread::sleep(RETRY),
            }
        }
    }

    fn stream(address: &str) -> io::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        Ok(Self::Stream(stream))
    }

    /// A stream that is waited for while the two ends agree.
    fn shaken<T>(address: &str, agree: impl FnOnce(&mut TcpStream) -> io::Result<T>) -> io::Result<(Self, T)> {
        let mut stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(HANDSHAKE))?;
        let agreed = agree(&mut stream)?;
        stream.set_nonblocking(true)?;
        Ok((Self::Stream(stream), agreed))
    }

    fn datagrams(address: &str) -> io::Result<Self> {
        let ours = match address.to_socket_addrs()?.next() {
            Some(theirs) if theirs.is_ipv6() => "[::]:0",
            _ => "0.0.0.0:0",
        };
        let socket = UdpSocket::bind(ours)?;
        socket.connect(address)?;
        socket.set_nonblocking(true)?;
        Ok(Self::Datagrams(socket))
    }

    /// Another handle of the same socket.
    pub fn reader(&self) -> io::Result<Self> {
        Ok(match self {
            Self::Stream(stream) => Self::Stream(stream.try_clone()?),
            Self::Datagrams(socket) => Self::Datagrams(socket.try_clone()?),
        })
    }

    /// Whether what is written together stays apart.
    pub fn takes_one_by_one(&self) -> bool {
        matches!(self, Self::Datagrams(_))
    }

    /// Writes what the socket takes now. A datagram that nobody listens for is lost, as any may be.
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<Took> {
        let wrote = match self {
            Self::Stream(stream) => stream.write(bytes),
            Self::Datagrams(socket) => socket.send(bytes),
        };
        match wrote {
            Ok(bytes) => Ok(Took::Bytes(bytes)),
            Err(e) if e.kind() == ErrorKind::ConnectionRefused && self.takes_one_by_one() => {
                Ok(Took::Bytes(bytes.len()))
            }
            Err(e) => nothing_yet(e),
        }
    }

    /// Reads what is there; no bytes of a stream: it has ended.
    pub fn read(&mut self, buffer: &mut [u8]) -> io::Result<Took> {
        let read = match self {
            Self::Stream(stream) => stream.read(buffer),
            Self::Datagrams(socket) => socket.recv(buffer),
        };
        match read {
            Ok(bytes) => Ok(Took::Bytes(bytes)),
            Err(e) if e.kind() == ErrorKind::ConnectionRefused && self.takes_one_by_one() => Ok(Took::Nothing),
            Err(e) => nothing_yet(e),
        }
    }

    /// Waits until it takes bytes again, or a moment; whether it may take some.
    pub fn wait_writable(&self) -> bool {
        wait(self.descriptor(), libc::POLLOUT)
    }

    /// Waits until there is something to read, or a moment; whether there may be.
    pub fn wait_readable(&self) -> bool {
        wait(self.descriptor(), libc::POLLIN)
    }

    /// Says that nothing more follows.
    pub fn end(&self) {
        if let Self::Stream(stream) = self {
            // Who has gone already need not be told.
            let _ = stream.shutdown(Shutdown::Write);
        }
    }

    fn descriptor(&self) -> RawFd {
        match self {
            Self::Stream(stream) => stream.as_raw_fd(),
            Self::Datagrams(socket) => socket.as_raw_fd(),
        }
    }
}

fn nothing_yet(e: io::Error) -> io::Result<Took> {
    match e.kind() {
        ErrorKind::WouldBlock | ErrorKind::Interrupted => Ok(Took::Nothing),
        // A network card's queue is full: as good as a socket that is.
        _ if e.raw_os_error() == Some(libc::ENOBUFS) => Ok(Took::Nothing),
        _ => Err(e),
    }
}

/// Whether it came to something, be it an error, which whoever writes or reads then gets.
fn wait(descriptor: RawFd, events: libc::c_short) -> bool {
    let mut watched = libc::pollfd { fd: descriptor, events, revents: 0 };
    // SAFETY: one descriptor of a socket that lives, on the stack. An error or a signal ends the wait early, which does
    // no harm: whoever waits looks again.
    unsafe { libc::poll(&mut watched, 1, LONGEST_WAIT_MS) > 0 }
}
