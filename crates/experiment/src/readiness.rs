//! When a command is ready for those that are started after it.

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
    /// Waits until the process, at that address, is ready; as long as nobody interrupts the run.
    pub fn wait(&self, process: &mut Process, address: &str) -> Result<(), Error> {
        let started = Instant::now();
        loop {
            if interrupt::hurried() || self.is_fulfilled(process, address) {
                return Ok(());
            }
            if let Some(status) = process.ended() {
                std::thread::sleep(LAST_OUTPUT);
                if self.is_fulfilled(process, address) {
                    return Ok(());
                }
                return Err(self.not_ready(process, &format!("it ended with {status}")));
            }
            if started.elapsed().as_secs_f64() > self.timeout {
                return Err(self.not_ready(process, &format!("none within {} s (ready_timeout)", self.timeout)));
            }
            std::thread::sleep(PAUSE);
        }
    }

    fn is_fulfilled(&self, process: &Process, address: &str) -> bool {
        match &self.ready {
            Ready::Text(_) => process.lines().are_ready(),
            Ready::Port(port) | Ready::Table(ReadyPort { port }) => is_listening(process.pid(), address, *port),
        }
    }

    fn not_ready(&self, process: &Process, found: &str) -> Error {
        let (what, expected, last) = (process.what(), self.ready.words(), process.lines().last());
        Error::work(format!("{what}: expected {expected} before the next command is started, found {found}; {last}"))
    }
}

/// Returns whether a socket in the process's network takes what is sent to that port. Looked up and not tried: a
/// connection would be one more than the target's clients make.
fn is_listening(pid: u32, address: &str, port: u16) -> bool {
    let reaches =
        |at: IpAddr| at.is_unspecified() || at == IpAddr::from(Ipv4Addr::LOCALHOST) || at.to_string() == address;
    ["tcp", "tcp6", "udp", "udp6"].iter().any(|table| {
        let sockets = fs::read_to_string(format!("/proc/{pid}/net/{table}")).unwrap_or_default();
        let listens = |line| {
            socket(line).is_some_and(|(at, number, state)| {
                number == port && reaches(at) && (table.starts_with("udp") || state == TCP_LISTENS)
            })
        };
        sockets.lines().skip(1).any(listens)
    })
}

/// State of a TCP socket that takes connections, as the kernel numbers it.
const TCP_LISTENS: &str = "0A";

/// Local address, port and state of a line of these tables.
fn socket(line: &str) -> Option<(IpAddr, u16, &str)> {
    let mut fields = line.split_whitespace().skip(1);
    let (local, state) = (fields.next()?, fields.nth(1)?);
    let (address, port) = local.split_once(':')?;
    // Each word of an address is printed as a number of this machine.
    let words = address.as_bytes().chunks(8).map(|word| u32::from_str_radix(std::str::from_utf8(word).ok()?, 16).ok());
    let bytes: Vec<u8> = words.collect::<Option<Vec<u32>>>()?.into_iter().flat_map(u32::to_ne_bytes).collect();
    let address = match <[u8; 4]>::try_from(&bytes[..]) {
        Ok(four) => IpAddr::from(four),
        Err(_) => IpAddr::from(Ipv6Addr::from(<[u8; 16]>::try_from(&bytes[..]).ok()?)).to_canonical(),
    };
    Some((address, u16::from_str_radix(port, 16).ok()?, state))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream, UdpSocket};

    #[test]
    fn a_port_is_listened_on_where_a_socket_of_that_network_takes_what_comes() {
        let here = std::process::id();
        let tcp = TcpListener::bind("127.0.0.9:0").unwrap();
        let port = tcp.local_addr().unwrap().port();
        assert!(is_listening(here, "127.0.0.9", port));
        assert!(!is_listening(here, "127.0.0.8", port), "another address of the loopback");
        let connected = TcpStream::connect(("127.0.0.9", port)).unwrap();
        let client_port = connected.local_addr().unwrap().port();
        assert!(!is_listening(here, &connected.local_addr().unwrap().ip().to_string(), client_port), "connected only");
        drop(tcp);
        for address in ["127.0.0.9:0", "0.0.0.0:0", "[::]:0"] {
            let Ok(udp) = UdpSocket::bind(address) else { continue }; // no IPv6 here
            let port = udp.local_addr().unwrap().port();
            assert!(is_listening(here, "127.0.0.9", port), "{address}");
            drop(udp);
            assert!(!is_listening(here, "127.0.0.9", port), "{address}");
        }
    }
}
