//! Datagrams over UDP, IPv4 or IPv6, between real hosts.
//!
//! The socket does not block: the driver looks whether a datagram is there, spins for as long as it is told to, and
//! then sleeps in `ppoll`, which keeps due times where the timeout of a blocking receive is rounded up to the kernel's
//! tick. (Blocking was measured: one way on loopback some 5 % faster on one processor, alike across two. Not worth
//! both.)
//!
//! Spinning cut the median round trip across two processors of a virtual machine from 46 to 4.1 us, and keeps them busy
//! meanwhile. Two ends that spin on *one* processor wait for each other: there it made 5.8 us into 107.
//!
//! The socket of a client with one server is connected, so the kernel keeps strangers' datagrams away and reports a
//! refused connection.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs, UdpSocket};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::null;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use tickscope_counter::NodeCounter;
use tickscope_tick::Ordering;

use crate::datagram::Nonce;
use crate::driver::{self, Asking, ClientReport, Endpoint, Received, ServerReport};
use crate::entropy;
use crate::exchange::{Exchange, Server};

/// Answers requests that reach `socket`, until `stop`; ends within about 50 ms of it. `spin`: how long to look for a
/// datagram before sleeping.
pub fn serve(
    socket: &UdpSocket,
    counter: &NodeCounter,
    server: Server,
    spin: Duration,
    stop: &AtomicBool,
) -> io::Result<ServerReport> {
    driver::serve(&mut UdpEndpoint::unconnected(socket, counter, spin)?, server, stop)
}

/// Takes exchanges with `peer` over `socket`, which it connects, until `stop`; after it, the closing burst is taken.
/// `spin`: how long to look for a reply before sleeping.
pub fn probe(
    socket: &UdpSocket,
    peer: SocketAddr,
    counter: &NodeCounter,
    asking: Asking,
    spin: Duration,
    stop: &AtomicBool,
    on_exchange: impl FnMut(&Exchange),
) -> io::Result<ClientReport> {
    driver::probe(&mut UdpEndpoint::connected(socket, peer, counter, spin)?, peer, asking, stop, on_exchange)
}

/// The first address of a host, numeric or by name, and a port.
pub fn resolve(place: &(String, u16)) -> io::Result<SocketAddr> {
    place.to_socket_addrs()?.next().ok_or_else(|| io::Error::other(format!("{} has no address", place.0)))
}

/// A UDP socket and the counter of its node.
#[derive(Debug)]
pub struct UdpEndpoint<'a> {
    pub(crate) socket: &'a UdpSocket,
    pub(crate) peer: Option<SocketAddr>,
    counter: &'a NodeCounter,
    pub(crate) spin: Duration,
    start: Instant,
    /// Something to read there ends a wait.
    wake: Option<BorrowedFd<'a>>,
    session: u32,
    requests: u32,
}

impl<'a> UdpEndpoint<'a> {
    /// An endpoint that hears anyone.
    pub fn unconnected(socket: &'a UdpSocket, counter: &'a NodeCounter, spin: Duration) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        let (start, session) = (Instant::now(), entropy::number()?);
        Ok(Self { socket, peer: None, counter, spin, start, wake: None, session, requests: 0 })
    }

    /// Lets a wait end when there is something to read at `wake`.
    pub fn woken_by(self, wake: BorrowedFd<'a>) -> Self {
        Self { wake: Some(wake), ..self }
    }

    /// An endpoint that hears `peer` alone.
    pub fn connected(
        socket: &'a UdpSocket,
        peer: SocketAddr,
        counter: &'a NodeCounter,
        spin: Duration,
    ) -> io::Result<Self> {
        socket.connect(peer)?;
        Ok(Self { peer: Some(peer), ..Self::unconnected(socket, counter, spin)? })
    }

    /// Takes the datagram that is there now, if any.
    fn look(&self, buffer: &mut [u8]) -> io::Result<Option<Received<SocketAddr>>> {
        let received = match self.peer {
            // Saves the address, which the kernel has checked already.
            Some(from) => self.socket.recv(buffer).map(|length| Received { length, from }),
            None => self.socket.recv_from(buffer).map(|(length, from)| Received { length, from }),
        };
        match received {
            Ok(received) => Ok(Some(received)),
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Sleeps until something is there, or a signal comes, or for so long. Returns whether there is something to read
    /// where it is woken by.
    pub(crate) fn sleep(&self, at_most: Duration) -> io::Result<bool> {
        let wait = |fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        // The kernel passes over a negative descriptor.
        let mut polled = [wait(self.socket.as_raw_fd()), wait(self.wake.map_or(-1, |wake| wake.as_raw_fd()))];
        let timeout = libc::timespec {
            tv_sec: at_most.as_secs().try_into().unwrap_or(i64::MAX),
            tv_nsec: at_most.subsec_nanos().into(),
        };
        // SAFETY: the kernel reads and writes two pollfds and reads one timespec, all of which live here; no signal
        // mask.
        let result = unsafe { libc::ppoll(polled.as_mut_ptr(), polled.len() as _, &timeout, null()) };
        let error = io::Error::last_os_error();
        if result < 0 && error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
        Ok(result > 0 && polled[1].revents != 0)
    }
}

impl Endpoint for UdpEndpoint<'_> {
    type Address = SocketAddr;

    #[inline]
    fn stamp(&mut self, ordering: Ordering) -> i64 {
        self.counter.read(ordering)
    }

    #[inline]
    fn send(&mut self, bytes: &[u8], to: SocketAddr) -> io::Result<()> {
        match self.peer {
            Some(_) => self.socket.send(bytes).map(drop),
            None => self.socket.send_to(bytes, to).map(drop),
        }
    }

    fn receive(&mut self, buffer: &mut [u8], deadline: Duration) -> io::Result<Option<Received<SocketAddr>>> {
        let sleep_from = self.elapsed() + self.spin;
        loop {
            if let Some(received) = self.look(buffer)? {
                return Ok(Some(received));
            }
            let now = self.elapsed();
            if now >= deadline {
                return Ok(None);
            }
            if now >= sleep_from && self.sleep(deadline - now)? {
                return self.look(buffer);
            }
        }
    }

    fn elapsed(&self) -> Duration {
        self.start.elapsed()
    }

    fn nonce(&mut self) -> io::Result<Nonce> {
        let nonce = Nonce(u64::from(self.session) << 32 | u64::from(self.requests));
        self.requests = self.requests.wrapping_add(1);
        if self.requests == 0 {
            self.session = entropy::number()?;
        }
        Ok(nonce)
    }
}
