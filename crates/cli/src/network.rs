//! Where the nodes of a local run live: on loopback, or in network namespaces joined by a veth pair.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::process::Command;

use crate::experiment::{Experiment, NetworkKind};
use crate::failure::Failure;

/// The nodes' network; taken down when dropped.
#[derive(Debug)]
pub struct Network {
    /// By node: its address.
    pub addresses: BTreeMap<String, String>,
    /// By node: its namespace; empty on loopback.
    namespaces: BTreeMap<String, String>,
}

impl Network {
    /// Sets up what the experiment asks for.
    pub fn set_up(experiment: &Experiment, run: u64) -> Result<Self, Failure> {
        let names: Vec<&str> = experiment.nodes.iter().map(|node| node.name.as_str()).collect();
        let may = may_make_namespaces();
        match (experiment.network, may, names.as_slice()) {
            (NetworkKind::Namespaces, Err(why), _) => Err(Failure::work(format!(
                "expected the right to make network namespaces, found: {why}. Run as root, or set network.kind to loopback"
            ))),
            (NetworkKind::Namespaces | NetworkKind::Auto, Ok(()), &[first, second]) => Self::veth([first, second], run),
            (NetworkKind::Namespaces, ..) => Err(Failure::input(format!(
                "expected two nodes in namespaces, found {}. Set network.kind to loopback",
                names.len()
            ))),
            _ => Ok(Self::loopback(&names)),
        }
    }

    /// Every node has a loopback address of its own.
    fn loopback(names: &[&str]) -> Self {
        let address = |(position, name): (usize, &&str)| (name.to_string(), format!("127.0.0.{}", position + 1));
        Self { addresses: names.iter().enumerate().map(address).collect(), namespaces: BTreeMap::new() }
    }

    fn veth(names: [&str; 2], run: u64) -> Result<Self, Failure> {
        let namespace = |name: &str| format!("tickscope-{:06x}-{name}", run & 0xff_ffff);
        let namespaces: BTreeMap<_, _> = names.iter().map(|name| (name.to_string(), namespace(name))).collect();
        let address = |position: usize| format!("10.231.0.{}", position + 1);
        let addresses = names.iter().enumerate().map(|(at, name)| (name.to_string(), address(at))).collect();
        // From here on a failure takes down, by dropping, what was set up before it.
        let network = Self { addresses, namespaces };
        let spaces = names.map(|name| network.namespaces[name].as_str());
        for space in spaces {
            ip(&["netns", "add", space])?;
        }
        ip(&["link", "add", "veth0", "netns", spaces[0], "type", "veth", "peer", "name", "veth0", "netns", spaces[1]])?;
        for (position, space) in spaces.into_iter().enumerate() {
            ip(&["-n", space, "addr", "add", &format!("{}/24", address(position)), "dev", "veth0"])?;
            ip(&["-n", space, "link", "set", "veth0", "up"])?;
            ip(&["-n", space, "link", "set", "lo", "up"])?;
        }
        Ok(network)
    }

    /// Makes `command` run where the node lives.
    pub fn enter(&self, node: &str, command: &mut Command) -> Result<(), Failure> {
        let Some(namespace) = self.namespaces.get(node) else { return Ok(()) };
        let path = format!("/var/run/netns/{namespace}");
        let file = File::open(&path).map_err(|e| {
            Failure::work(format!("expected the namespace {path}, found: {e}. Did somebody delete it? Run again"))
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

    /// For people: what the network is.
    pub fn describe(&self) -> &'static str {
        if self.namespaces.is_empty() { "loopback" } else { "two network namespaces joined by veth" }
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        for namespace in self.namespaces.values() {
            let _ = Command::new("ip").args(["netns", "del", namespace]).output(); // it may not have been made
        }
    }
}

/// Whether this process may make namespaces, and if not, why.
pub fn may_make_namespaces() -> Result<(), String> {
    // SAFETY: geteuid has no arguments and cannot fail.
    if unsafe { libc::geteuid() } != 0 {
        return Err("not root".into());
    }
    let probe = format!("tickscope-probe-{}", std::process::id());
    ip(&["netns", "add", &probe]).map_err(|e| e.to_string())?;
    ip(&["netns", "del", &probe]).map_err(|e| e.to_string())
}

fn ip(arguments: &[&str]) -> Result<(), Failure> {
    let wrong = |found: String| {
        let command = arguments.join(" ");
        Failure::work(format!("expected 'ip {command}' to work, found: {found}. Install iproute2 and run as root"))
    };
    let output = Command::new("ip").args(arguments).output().map_err(|e| wrong(e.to_string()))?;
    if output.status.success() { Ok(()) } else { Err(wrong(String::from_utf8_lossy(&output.stderr).trim().into())) }
}
