//! When a command is ready for those that are started after it.
//!
//! Guarantees: a socket that listened before the command was started never makes it ready, nor is one ready that has
//! ended with a failure. Assumes: what begins to listen on the port after that is the command's. Deliberately absent: a
//! look at whose the socket is: a daemon has left its parent, and a container's port is held by the engine's proxy.

use std::collections::BTreeSet;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::Error;
use crate::interrupt;
use crate::process::Process;

/// What says that a command is ready.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(untagged, expecting = "expected ready = \"a text that it prints\", or ready = 7400, a port that it listens on")]
pub enum Ready {
    /// A line of its output contains this.
    Text(String),
    /// It listens on this port, over TCP or UDP.
    Port(u16),
    /// The same, in a table.
    Table(ReadyPort),
}

/// A port to listen on.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReadyPort {
    port: u16,
}

/// What is waited for before the next command is started, and for how long.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Readiness {
    /// What says so.
    pub ready: Ready,
    /// Seconds that it may take.
    pub timeout: f64,
}

/// Default of `ready_timeout`: a virtual machine that starts takes a second or two.
pub const TIMEOUT_SECONDS: f64 = 10.0;

/// How often is looked.
const PAUSE: Duration = Duration::from_millis(10);
/// What a process that ended has printed is read within this time.
const LAST_OUTPUT: Duration = Duration::from_millis(100);

impl Ready {
    /// The text to be printed, if it is one.
    pub fn text(&self) -> Option<&str> {
        if let Self::Text(text) = self { Some(text) } else { None }
    }

    fn port(&self) -> Option<u16> {
        match self {
            Self::Text(_) => None,
            Self::Port(port) | Self::Table(ReadyPort { port }) => Some(*port),
        }
    }

    fn words(&self) -> String {
        match self {
            Self::Text(text) => format!("a line that contains '{text}'"),
            Self::Port(port) | Self::Table(ReadyPort { port }) => format!("something that listens on port {port}"),
        }
    }

    /// Refuses what nothing can fulfil.
    pub fn check(&self) -> Result<(), String> {
        let nothing = match self {
            Self::Text(text) => text.is_empty() || text.contains('\n'),
            Self::Port(port) | Self::Table(ReadyPort { port }) => *port == 0,
        };
        if nothing {
            return Err(
                "expected ready = a text within a line, or a port from 1 to 65535, found neither. Correct it".into()
            );
        }
        Ok(())
    }
}

impl Readiness {
    /// Sockets of this process's network that take already, before the command is started, what is to make it ready.
    pub fn strangers(&self, address: &str) -> Strangers {
        Strangers(self.ready.port().map_or_else(BTreeSet::new, |port| listeners("thread-self", address, port)))
    }

    /// Waits until the process, at that address, is ready; as long as nobody interrupts the run.
    pub fn wait(&self, process: &mut Process, address: &str, strangers: &Strangers) -> Result<(), Error> {
        let started = Instant::now();
        loop {
            if interrupt::hurried() {
                return Ok(());
            }
            let status = process.ended();
            let failed = status.is_some_and(|status| !status.success());
            if !failed && self.is_fulfilled(process, address, strangers) {
                return Ok(());
            }
            if let Some(status) = status {
                std::thread::sleep(LAST_OUTPUT);
                if !failed && self.is_fulfilled(process, address, strangers) {
                    return Ok(());
                }
                return Err(self.not_ready(process, &format!("it ended with {status}"), strangers));
            }
            if started.elapsed().as_secs_f64() > self.timeout {
                let found = format!("none within {} s (ready_timeout)", self.timeout);
                return Err(self.not_ready(process, &found, strangers));
            }
            std::thread::sleep(PAUSE);
        }
    }

    fn is_fulfilled(&self, process: &Process, address: &str, Strangers(strangers): &Strangers) -> bool {
        let of = process.pid().to_string();
        self.ready.port().map_or_else(
            || process.lines().are_ready(),
            |port| listeners(&of, address, port).difference(strangers).next().is_some(),
        )
    }

    fn not_ready(&self, process: &Process, found: &str, Strangers(strangers): &Strangers) -> Error {
        let (what, expected, last) = (process.what(), self.ready.words(), process.lines().last());
        let whose = if strangers.is_empty() { "" } else { OF_STRANGERS };
        Error::work(format!(
            "{what}: expected {expected} before the next command is started, found {found}{whose}; {last}"
        ))
    }
}

/// Sockets that listened where a command is to listen before it was started, by inode.
#[derive(Default, Debug)]
pub struct Strangers(BTreeSet<u64>);

const OF_STRANGERS: &str = ". Something else has listened there since before it was started: end that, or take another \
                            port (ss -lntup tells whose it is)";

/// Inodes of the sockets in the process's network that take what is sent to that port. Looked up and not tried: a
/// connection would be one more than the target's clients make.
fn listeners(process: &str, address: &str, port: u16) -> BTreeSet<u64> {
    let reaches =
        |at: IpAddr| at.is_unspecified() || at == IpAddr::from(Ipv4Addr::LOCALHOST) || at.to_string() == address;
    let of_table = |table: &&str| {
        let sockets = fs::read_to_string(format!("/proc/{process}/net/{table}")).unwrap_or_default();
        let listener = |line| {
            let (at, number, state, inode) = socket(line)?;
            let listens = number == port && reaches(at) && (table.starts_with("udp") || state == TCP_LISTENS);
            listens.then_some(inode)
        };
        sockets.lines().skip(1).filter_map(listener).collect::<Vec<u64>>()
    };
    ["tcp", "tcp6", "udp", "udp6"].iter().flat_map(of_table).collect()
}

/// State of a TCP socket that takes connections, as the kernel numbers it.
const TCP_LISTENS: &str = "0A";

/// Local address, port, state and inode of a line of these tables.
fn socket(line: &str) -> Option<(IpAddr, u16, &str, u64)> {
    let mut fields = line.split_whitespace().skip(1);
    let (local, state, inode) = (fields.next()?, fields.nth(1)?, fields.nth(5)?.parse().ok()?);
    let (address, port) = local.split_once(':')?;
    // Each word of an address is printed as a number of this machine.
    let words = address.as_bytes().chunks(8).map(|word| u32::from_str_radix(std::str::from_utf8(word).ok()?, 16).ok());
    let bytes: Vec<u8> = words.collect::<Option<Vec<u32>>>()?.into_iter().flat_map(u32::to_ne_bytes).collect();
    let address = match <[u8; 4]>::try_from(&bytes[..]) {
        Ok(four) => IpAddr::from(four),
        Err(_) => IpAddr::from(Ipv6Addr::from(<[u8; 16]>::try_from(&bytes[..]).ok()?)).to_canonical(),
    };
    Some((address, u16::from_str_radix(port, 16).ok()?, state, inode))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream, UdpSocket};

    #[test]
    fn a_port_is_listened_on_where_a_socket_of_that_network_takes_what_comes() {
        let is_listening = |address: &str, port| !listeners("self", address, port).is_empty();
        let tcp = TcpListener::bind("127.0.0.9:0").unwrap();
        let port = tcp.local_addr().unwrap().port();
        assert!(is_listening("127.0.0.9", port));
        assert!(!is_listening("127.0.0.8", port), "another address of the loopback");
        let connected = TcpStream::connect(("127.0.0.9", port)).unwrap();
        let client_port = connected.local_addr().unwrap().port();
        assert!(!is_listening(&connected.local_addr().unwrap().ip().to_string(), client_port), "connected only");
        drop(tcp);
        for address in ["127.0.0.9:0", "0.0.0.0:0", "[::]:0"] {
            let Ok(udp) = UdpSocket::bind(address) else { continue }; // no IPv6 here
            let port = udp.local_addr().unwrap().port();
            assert!(is_listening("127.0.0.9", port), "{address}");
            drop(udp);
            assert!(!is_listening("127.0.0.9", port), "{address}");
        }
    }
}
