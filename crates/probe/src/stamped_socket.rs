//! Sockets whose kernel stamps what passes: `SO_TIMESTAMPING`, in as few system calls as it takes.
//!
//! One of the two places in this tree that speak the kernel's control messages; the other is `tickscope_kernel.h`, for
//! measured programs. Deliberately absent: what a stamp means.

use std::io;
use std::mem::{size_of, zeroed};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6, UdpSocket};
use std::os::fd::AsRawFd;

/// Where to receive from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Queue {
    /// Datagrams.
    Data,
    /// Echoes of what was sent, with their transmit stamps.
    Errors,
}

/// A received datagram.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Arrived {
    /// Bytes of the buffer that were filled.
    pub length: usize,
    /// Sender, where the socket is not connected.
    pub from: Option<SocketAddr>,
    /// The kernel's software stamp, `CLOCK_REALTIME` in nanoseconds.
    pub realtime_ns: Option<i64>,
}

/// Room for a stamp, an extended error with its address, and one more.
#[repr(C, align(8))]
struct Control([u8; 256]);

/// Lets the kernel stamp what is received, and report the stamps of what is sent with [`send`].
pub fn enable(socket: &UdpSocket) -> io::Result<()> {
    let fd = socket.as_raw_fd();
    let (mut merging, mut length): (libc::c_int, _) = (0, size_of::<libc::c_int>() as libc::socklen_t);
    // SAFETY: the kernel writes at most `length` bytes into `merging`, which has them.
    let asked = unsafe { libc::getsockopt(fd, libc::SOL_UDP, libc::UDP_GRO, (&raw mut merging).cast(), &mut length) };
    if asked == 0 && merging != 0 {
        // A merged datagram carries the first one's stamp: early for the others, so unsound.
        return Err(io::Error::other("expected a socket without UDP_GRO, found it switched on. Switch it off"));
    }
    let flags = (libc::SOF_TIMESTAMPING_SOFTWARE | libc::SOF_TIMESTAMPING_RX_SOFTWARE) as libc::c_int;
    // SAFETY: the kernel reads one integer, which `flags` is.
    let set = unsafe {
        let length = size_of::<libc::c_int>() as libc::socklen_t;
        libc::setsockopt(fd, libc::SOL_SOCKET, libc::SO_TIMESTAMPING, (&raw const flags).cast(), length)
    };
    if set == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Sends one datagram with the wish for a transmit stamp; `to`: where the socket is not connected.
pub fn send(socket: &UdpSocket, bytes: &[u8], to: Option<SocketAddr>) -> io::Result<()> {
    let mut address = to.map(RawAddress::from);
    let mut part = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    let mut control = Control([0; 256]);
    // SAFETY: a msghdr is pointers and integers, for which zero is a value.
    let mut message: libc::msghdr = unsafe { zeroed() };
    if let Some(address) = &mut address {
        (message.msg_name, message.msg_namelen) = ((&raw mut address.storage).cast(), address.length);
    }
    (message.msg_iov, message.msg_iovlen) = (&raw mut part, 1);
    let wish = size_of::<u32>() as u32;
    // SAFETY: CMSG_SPACE is arithmetic.
    let space = unsafe { libc::CMSG_SPACE(wish) } as usize;
    (message.msg_control, message.msg_controllen) = (control.0.as_mut_ptr().cast(), space as _);
    // SAFETY: the first header lies in `control`, which has `space` bytes and more, aligned; its data takes a u32.
    unsafe {
        let header = libc::CMSG_FIRSTHDR(&message);
        (*header).cmsg_level = libc::SOL_SOCKET;
        (*header).cmsg_type = libc::SO_TIMESTAMPING;
        (*header).cmsg_len = libc::CMSG_LEN(wish) as _;
        libc::CMSG_DATA(header).cast::<u32>().write_unaligned(libc::SOF_TIMESTAMPING_TX_SOFTWARE);
    }
    // SAFETY: every pointer of the message leads to memory that outlives the call.
    let sent = unsafe { libc::sendmsg(socket.as_raw_fd(), &message, 0) };
    if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Receives one datagram, or echo, that is there.
pub fn receive(socket: &UdpSocket, buffer: &mut [u8], queue: Queue) -> io::Result<Arrived> {
    let mut part = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    let mut control = Control([0; 256]);
    // SAFETY: a sockaddr_storage is integers, for which zero is a value.
    let mut address = RawAddress { storage: unsafe { zeroed() }, length: size_of::<libc::sockaddr_storage>() as _ };
    // SAFETY: a msghdr is pointers and integers, for which zero is a value.
    let mut message: libc::msghdr = unsafe { zeroed() };
    (message.msg_name, message.msg_namelen) = ((&raw mut address.storage).cast(), address.length);
    (message.msg_iov, message.msg_iovlen) = (&raw mut part, 1);
    (message.msg_control, message.msg_controllen) = (control.0.as_mut_ptr().cast(), control.0.len() as _);
    let flags = libc::MSG_DONTWAIT | if queue == Queue::Errors { libc::MSG_ERRQUEUE } else { 0 };
    // SAFETY: every pointer of the message leads to memory that outlives the call, of the lengths given.
    let length = unsafe { libc::recvmsg(socket.as_raw_fd(), &mut message, flags) };
    let length = usize::try_from(length).map_err(|_| io::Error::last_os_error())?;
    address.length = message.msg_namelen;
    Ok(Arrived { length, from: address.get(), realtime_ns: software_stamp(&message) })
}

/// The software stamp among the control messages that the kernel filled in.
fn software_stamp(message: &libc::msghdr) -> Option<i64> {
    // SAFETY: the kernel filled the control buffer and set its length; the walk stays within it.
    unsafe {
        let mut header = libc::CMSG_FIRSTHDR(message);
        while let Some(found) = header.as_ref() {
            if (found.cmsg_level, found.cmsg_type) == (libc::SOL_SOCKET, libc::SO_TIMESTAMPING) {
                // Three stamps: software, deprecated, hardware.
                let stamp = libc::CMSG_DATA(header).cast::<libc::timespec>().read_unaligned();
                let ns = stamp.tv_sec * 1_000_000_000 + stamp.tv_nsec;
                return (ns != 0).then_some(ns);
            }
            header = libc::CMSG_NXTHDR(message, header);
        }
    }
    None
}

/// An address as the kernel has it.
struct RawAddress {
    storage: libc::sockaddr_storage,
    length: libc::socklen_t,
}

impl From<SocketAddr> for RawAddress {
    fn from(address: SocketAddr) -> Self {
        // SAFETY: integers, for which zero is a value.
        let mut raw = Self { storage: unsafe { zeroed() }, length: 0 };
        match address {
            SocketAddr::V4(address) => {
                let of = libc::sockaddr_in {
                    sin_family: libc::AF_INET as _,
                    sin_port: address.port().to_be(),
                    sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes(address.ip().octets()) },
                    sin_zero: [0; 8],
                };
                // SAFETY: a sockaddr_storage has room and alignment for every address.
                unsafe { (&raw mut raw.storage).cast::<libc::sockaddr_in>().write(of) };
                raw.length = size_of::<libc::sockaddr_in>() as _;
            }
            SocketAddr::V6(address) => {
                let of = libc::sockaddr_in6 {
                    sin6_family: libc::AF_INET6 as _,
                    sin6_port: address.port().to_be(),
                    sin6_flowinfo: address.flowinfo(),
                    sin6_addr: libc::in6_addr { s6_addr: address.ip().octets() },
                    sin6_scope_id: address.scope_id(),
                };
                // SAFETY: as above.
                unsafe { (&raw mut raw.storage).cast::<libc::sockaddr_in6>().write(of) };
                raw.length = size_of::<libc::sockaddr_in6>() as _;
            }
        }
        raw
    }
}

impl RawAddress {
    fn get(&self) -> Option<SocketAddr> {
        if self.length == 0 {
            return None;
        }
        let storage = &raw const self.storage;
        match libc::c_int::from(self.storage.ss_family) {
            libc::AF_INET => {
                // SAFETY: the family says that this is what the storage holds.
                let of = unsafe { storage.cast::<libc::sockaddr_in>().read() };
                let ip = Ipv4Addr::from(of.sin_addr.s_addr.to_ne_bytes());
                Some(SocketAddrV4::new(ip, u16::from_be(of.sin_port)).into())
            }
            libc::AF_INET6 => {
                // SAFETY: as above.
                let of = unsafe { storage.cast::<libc::sockaddr_in6>().read() };
                let ip = Ipv6Addr::from(of.sin6_addr.s6_addr);
                let port = u16::from_be(of.sin6_port);
                Some(SocketAddrV6::new(ip, port, of.sin6_flowinfo, of.sin6_scope_id).into())
            }
            _ => None,
        }
    }
}
