//! Homes of the nodes of a local run: loopback addresses, or network namespaces joined by a veth pair or by a bridge.
//!
//! Two namespaces are joined directly, which is the shortest way between two. More than two have a pair each to a
//! bridge in a namespace of its own, so that nothing of this host's network is touched.

use std::fs::File;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::Error;
use crate::plan::{Link, NetworkKind};

/// How the nodes of a local run are joined.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Arrangement {
    /// Addresses of this host's loopback.
    Loopback,
    /// Two network namespaces and a veth pair.
    Pair,
    /// Any number of network namespaces, and a bridge in one more.
    Bridge,
    /// Whatever network the machine is on.
    Host,
}

/// Namespaces and addresses of a run's nodes.
#[derive(Debug)]
pub struct Network {
    /// In the order of the nodes.
    pub homes: Vec<Home>,
    /// Taken down after the homes that hang on it.
    pub bridge: Option<Namespace>,
}

/// Where one node lives.
#[derive(Debug)]
pub struct Home {
    /// Its address.
    pub address: String,
    /// How it is joined to the others.
    pub arrangement: Arrangement,
    namespace: Option<Namespace>,
}

/// A network namespace of this run; taken down when dropped.
#[derive(Debug)]
pub struct Namespace(String);

/// Most nodes of a run on one host: their addresses are numbered in two bytes, and a bridge has 1023 ports.
pub const MOST_NODES: usize = 1000;

impl Arrangement {
    /// The arrangement of so many nodes where the run file asks for `kind`; a run that can be on loopback alone says
    /// so.
    pub fn of(kind: NetworkKind, nodes: usize) -> Result<Self, Error> {
        if kind == NetworkKind::Host {
            return Ok(Self::Host);
        }
        match (kind, may_make_namespaces(), nodes) {
            (NetworkKind::Namespaces, Err(why), _) => Err(Error::work(format!(
                "cannot make network namespaces: {why}. Run as root, or set network.kind to loopback"
            ))),
            (NetworkKind::Loopback, ..) | (NetworkKind::Auto, Err(_), _) | (NetworkKind::Auto, _, 1) => {
                Ok(Self::Loopback)
            }
            (_, Ok(()), 2) => Ok(Self::Pair),
            _ => Ok(Self::Bridge),
        }
    }

    /// Address of the node at that position.
    pub fn address(self, position: usize) -> String {
        let number = position as u32 + 1;
        let first = match self {
            Self::Host => return own_address(),
            Self::Loopback => Ipv4Addr::new(127, 0, 0, 0),
            Self::Pair | Self::Bridge => Ipv4Addr::new(10, 231, 0, 0),
        };
        Ipv4Addr::from(u32::from(first) + number).to_string()
    }

    /// The network, in words.
    pub fn words(self) -> &'static str {
        match self {
            Self::Loopback => "loopback",
            Self::Pair => "two network namespaces joined by veth",
            Self::Bridge => "network namespaces joined by a bridge",
            Self::Host => "the network of their machines",
        }
    }

    /// The same, and what its links take.
    pub fn told(self, link: Option<Link>) -> String {
        let narrow = |Link { mbit, queue_ms }| format!(", each way {mbit} Mbit/s with a queue of {queue_ms} ms");
        self.words().to_owned() + &link.map_or_else(String::new, narrow)
    }

    /// Only links of this run's own are made narrow.
    pub fn expect_room_for(self, link: Option<Link>) -> Result<(), Error> {
        if link.is_none() || matches!(self, Self::Pair | Self::Bridge) {
            return Ok(());
        }
        Err(Error::input(format!(
            "expected network namespaces for network.link, found {}. Run as root with network.kind = \"namespaces\", \
             or leave link out",
            self.words()
        )))
    }
}

/// The address that others reach this machine by: the one that ssh came in by, or the first that is not loopback's.
fn own_address() -> String {
    let by_ssh = std::env::var("SSH_CONNECTION").ok();
    let by_ssh =
        by_ssh.and_then(|words| words.split(' ').nth(2).map(str::to_owned)).filter(|ip| ip.parse::<IpAddr>().is_ok());
    by_ssh.or_else(first_address).unwrap_or_else(|| Ipv4Addr::LOCALHOST.to_string())
}

fn first_address() -> Option<String> {
    let output = Command::new("ip").args(["-o", "addr", "show", "scope", "global", "up"]).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let address = |line: &str| Some(line.split_whitespace().nth(3)?.split('/').next()?.to_owned());
    text.lines().filter_map(address).find(|ip| ip.parse::<IpAddr>().is_ok())
}

/// Sets up homes for the nodes of these names, in their order.
pub fn network(kind: NetworkKind, link: Option<Link>, names: &[&str], run: u64) -> Result<Network, Error> {
    let arrangement = Arrangement::of(kind, names.len())?;
    arrangement.expect_room_for(link)?;
    let mut network = Network { homes: Vec::new(), bridge: None };
    // From here on a failure takes down, by dropping, what was set up before it.
    for (position, name) in names.iter().enumerate() {
        let namespace = match arrangement {
            Arrangement::Loopback | Arrangement::Host => None,
            Arrangement::Pair | Arrangement::Bridge => Some(Namespace::make(run, name)?),
        };
        network.homes.push(Home { address: arrangement.address(position), arrangement, namespace });
    }
    match arrangement {
        Arrangement::Loopback | Arrangement::Host => {}
        Arrangement::Pair => join_directly(&network)?,
        Arrangement::Bridge => join_by_bridge(&mut network, run)?,
    }
    if let Some(link) = link {
        network.namespaces().try_for_each(|space| narrow(space, link))?;
    }
    Ok(network)
}

fn join_directly(network: &Network) -> Result<(), Error> {
    let spaces: Vec<&str> = network.namespaces().collect();
    ip(&["link", "add", "veth0", "netns", spaces[0], "type", "veth", "peer", "name", "veth0", "netns", spaces[1]])?;
    network.homes.iter().zip(spaces).try_for_each(|(home, space)| bring_up(space, &home.address, 24))
}

fn join_by_bridge(network: &mut Network, run: u64) -> Result<(), Error> {
    // No node has a dot in its name.
    let bridge = network.bridge.insert(Namespace::make(run, ".bridge")?).0.clone();
    // Ports forward at once: there is no loop that a spanning tree would have to find.
    ip(&["-n", &bridge, "link", "add", "bridge0", "type", "bridge", "stp_state", "0", "forward_delay", "0"])?;
    ip(&["-n", &bridge, "link", "set", "bridge0", "up"])?;
    for (position, (home, space)) in network.homes.iter().zip(network.namespaces()).enumerate() {
        let port = format!("port{position}");
        ip(&["link", "add", &port, "netns", &bridge, "type", "veth", "peer", "name", "veth0", "netns", space])?;
        ip(&["-n", &bridge, "link", "set", &port, "master", "bridge0", "up"])?;
        bring_up(space, &home.address, 16)?;
    }
    Ok(())
}

fn bring_up(space: &str, address: &str, prefix: u32) -> Result<(), Error> {
    ip(&["-n", space, "addr", "add", &format!("{address}/{prefix}"), "dev", "veth0"])?;
    ip(&["-n", space, "link", "set", "veth0", "up"])?;
    ip(&["-n", space, "link", "set", "lo", "up"])
}

/// Lets so much leave a node, and no more.
fn narrow(space: &str, Link { mbit, queue_ms }: Link) -> Result<(), Error> {
    /// The kernel refills the bucket at each tick of its timer, of which there are 100 a second at least.
    const REFILLS_HZ: u32 = 100;
    /// Less than a few packets would never fill a link.
    const LEAST_BURST: u32 = 5_000;
    let burst = mbit.saturating_mul(1_000_000 / 8 / REFILLS_HZ).max(LEAST_BURST);
    let waiting = mbit.saturating_mul(1_000_000 / 8 / 1000).saturating_mul(queue_ms).max(LEAST_BURST);
    let words = [format!("{mbit}mbit"), burst.to_string(), waiting.to_string()];
    let [rate, burst, waiting] = words.each_ref().map(String::as_str);
    let bucket = ["root", "tbf", "rate", rate, "burst", burst, "limit", waiting];
    iproute("tc", &[&["-n", space, "qdisc", "add", "dev", "veth0"], &bucket[..]].concat())
}

impl Network {
    fn namespaces(&self) -> impl Iterator<Item = &str> {
        self.homes.iter().filter_map(|home| home.namespace.as_ref()).map(|namespace| namespace.0.as_str())
    }
}

impl Home {
    /// Whether it is a network namespace of the run's own.
    pub fn is_apart(&self) -> bool {
        self.namespace.is_some()
    }

    /// Makes `command` run there.
    pub fn enter(&self, command: &mut Command) -> Result<(), Error> {
        let Some(Namespace(namespace)) = &self.namespace else { return Ok(()) };
        let path = format!("/var/run/netns/{namespace}");
        let file = File::open(&path).map_err(|e| {
            Error::work(format!("cannot open network namespace {path}: {e}. It may have been deleted; run again"))
        })?;
        // SAFETY: setns is a system call on a descriptor that the closure owns; it allocates nothing.
        unsafe {
            command.pre_exec(move || match libc::setns(file.as_raw_fd(), libc::CLONE_NEWNET) {
                0 => Ok(()),
                _ => Err(std::io::Error::last_os_error()),
            });
        }
        Ok(())
    }
}

impl Namespace {
    fn make(run: u64, name: &str) -> Result<Self, Error> {
        let namespace = Self(format!("tickscope-{:06x}-{name}", run & 0xff_ffff));
        ip(&["netns", "add", &namespace.0])?;
        Ok(namespace)
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = Command::new("ip").args(["netns", "del", &self.0]).output(); // somebody may have deleted it
    }
}

/// Returns whether this process may make namespaces, and if not, why.
pub fn may_make_namespaces() -> Result<(), String> {
    if tickscope_stamp::directory::user() != 0 {
        return Err("not root".into());
    }
    static ASKED: AtomicU32 = AtomicU32::new(0); // several threads may ask at once
    let probe = format!("tickscope-probe-{}-{}", std::process::id(), ASKED.fetch_add(1, Ordering::Relaxed));
    ip(&["netns", "add", &probe]).map_err(|e| e.to_string())?;
    ip(&["netns", "del", &probe]).map_err(|e| e.to_string())
}

fn ip(arguments: &[&str]) -> Result<(), Error> {
    iproute("ip", arguments)
}

fn iproute(program: &str, arguments: &[&str]) -> Result<(), Error> {
    let wrong = |why: String| {
        let command = arguments.join(" ");
        Error::work(format!("'{program} {command}' failed: {why}. Install iproute2 and run as root"))
    };
    let output = Command::new(program).args(arguments).output().map_err(|e| wrong(e.to_string()))?;
    if output.status.success() { Ok(()) } else { Err(wrong(String::from_utf8_lossy(&output.stderr).trim().into())) }
}
