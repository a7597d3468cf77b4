//! Homes of the nodes of a local run: loopback addresses, or network namespaces joined by a veth pair.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::process::Command;

use crate::Error;
use crate::plan::NetworkKind;

/// Where one node lives; its namespace is taken down when dropped.
#[derive(Debug)]
pub struct Home {
    /// Its address.
    pub address: String,
    namespace: Option<String>,
}

/// Sets up homes for the nodes of these names, in their order.
pub fn homes(kind: NetworkKind, names: &[&str], run: u64) -> Result<Vec<Home>, Error> {
    match (kind, may_make_namespaces(), names) {
        (NetworkKind::Namespaces, Err(why), _) => Err(Error::work(format!(
            "cannot make network namespaces: {why}. Run as root, or set network.kind to loopback"
        ))),
        (NetworkKind::Namespaces | NetworkKind::Auto, Ok(()), &[first, second]) => veth([first, second], run),
        (NetworkKind::Namespaces, ..) => Err(Error::input(format!(
            "expected two nodes in namespaces, found {}. Set network.kind to loopback",
            names.len()
        ))),
        _ => {
            let home = |position| Home { address: format!("127.0.0.{}", position + 1), namespace: None };
            Ok((0..names.len()).map(home).collect())
        }
    }
}

fn veth(names: [&str; 2], run: u64) -> Result<Vec<Home>, Error> {
    let spaces = names.map(|name| format!("tickscope-{:06x}-{name}", run & 0xff_ffff));
    let mut homes = Vec::new();
    for (position, space) in spaces.iter().enumerate() {
        // From here on a failure takes down, by dropping, what was set up before it.
        homes.push(Home { address: format!("10.231.0.{}", position + 1), namespace: Some(space.clone()) });
        ip(&["netns", "add", space])?;
    }
    ip(&["link", "add", "veth0", "netns", &spaces[0], "type", "veth", "peer", "name", "veth0", "netns", &spaces[1]])?;
    for (space, home) in spaces.iter().zip(&homes) {
        ip(&["-n", space, "addr", "add", &format!("{}/24", home.address), "dev", "veth0"])?;
        ip(&["-n", space, "link", "set", "veth0", "up"])?;
        ip(&["-n", space, "link", "set", "lo", "up"])?;
    }
    Ok(homes)
}

impl Home {
    /// Makes `command` run there.
    pub fn enter(&self, command: &mut Command) -> Result<(), Error> {
        let Some(namespace) = &self.namespace else { return Ok(()) };
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

    /// The network that it is on, in words.
    pub fn network(&self) -> &'static str {
        if self.namespace.is_none() { "loopback" } else { "two network namespaces joined by veth" }
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        if let Some(namespace) = &self.namespace {
            let _ = Command::new("ip").args(["netns", "del", namespace]).output(); // it may not have been made
        }
    }
}

/// Returns whether this process may make namespaces, and if not, why.
pub fn may_make_namespaces() -> Result<(), String> {
    // SAFETY: geteuid has no arguments and cannot fail.
    if unsafe { libc::geteuid() } != 0 {
        return Err("not root".into());
    }
    let probe = format!("tickscope-probe-{}", std::process::id());
    ip(&["netns", "add", &probe]).map_err(|e| e.to_string())?;
    ip(&["netns", "del", &probe]).map_err(|e| e.to_string())
}

fn ip(arguments: &[&str]) -> Result<(), Error> {
    let wrong = |why: String| {
        let command = arguments.join(" ");
        Error::work(format!("'ip {command}' failed: {why}. Install iproute2 and run as root"))
    };
    let output = Command::new("ip").args(arguments).output().map_err(|e| wrong(e.to_string()))?;
    if output.status.success() { Ok(()) } else { Err(wrong(String::from_utf8_lossy(&output.stderr).trim().into())) }
}
