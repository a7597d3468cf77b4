//! The processes that hang under an agent: this same program, started again as `role NAME`.
//!
//! A role prints `ready` when the run may go on, works until SIGTERM, and prints its report as one line of JSON.
//! If one dies, the others go on. Settings are plain data; the agent adds the node and the run's directory.

pub mod clock_monitor;
pub mod collector;
mod kernel_points;
pub mod probe;
pub mod stamp_cost;

use std::io::Write;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tickscope_tick::NodeName;

use crate::Error;

/// A role and its settings.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// Takes the node's stamps into the run until it is told to end.
    Collect,
    /// Takes what lies in the node's stamp directory, once.
    CollectOnce,
    /// Answers a probe.
    ProbeServe(probe::ServerSettings),
    /// Asks a probe's server, and writes brackets.
    ProbeAsk(probe::ClientSettings),
    /// Watches the node's other clocks.
    ClockMonitor,
    /// Times stamps.
    StampCost,
}

/// Where a role is played.
#[derive(Clone, Debug)]
pub struct RoleContext {
    /// The node that it belongs to.
    pub node: NodeName,
    /// The run's directory.
    pub run: PathBuf,
}

impl Role {
    /// Name and settings, as [`Role::parse`] takes them.
    pub fn words(&self) -> (String, String) {
        match json!(self) {
            Value::Object(fields) => fields.into_iter().next().map(|(name, value)| (name, value.to_string())),
            name => name.as_str().map(|name| (name.to_owned(), Value::Null.to_string())),
        }
        .expect("an enum is a name, or an object of one field")
    }

    /// The role of that name with these settings, JSON.
    pub fn parse(name: &str, settings: &str) -> Result<Self, Error> {
        let settings: Result<Value, _> = serde_json::from_str(settings);
        let role = settings.and_then(|settings| serde_json::from_value(json!({ name: settings })));
        role.map_err(|e| Error::input(format!("role {name}: {e}. Leave this command to `tickscope run`")))
    }

    /// In words, to be followed by the node's name.
    pub fn title(&self) -> &'static str {
        match self {
            Self::Collect | Self::CollectOnce => "collector of",
            Self::ProbeServe(_) => "probe's server on",
            Self::ProbeAsk(_) => "probe on",
            Self::ClockMonitor => "clock monitor on",
            Self::StampCost => "cost of a stamp on",
        }
    }
}

/// Plays a role in this process.
pub fn play(role: &Role, place: &RoleContext) -> Result<(), Error> {
    crate::interrupt::catch();
    match role {
        Role::Collect => {
            print(&collector::json(&collector::collect(&collector::CollectorSettings::of_role(place, true))?))
        }
        Role::CollectOnce => {
            print(&collector::json(&collector::collect(&collector::CollectorSettings::of_role(place, false))?))
        }
        Role::ProbeServe(server) => print(&probe::serve(server)?),
        Role::ProbeAsk(client) => print(&probe::ask(client, place)?),
        Role::ClockMonitor => print(&clock_monitor::monitor(place)?),
        Role::StampCost => print(&stamp_cost::measure()?),
    }
}

/// Tells the process that started this one that it may go on.
fn ready() {
    let mut out = std::io::stdout();
    let _ = out.write_all(b"ready\n").and_then(|()| out.flush()); // nobody may be reading any more
}

/// How long a role that ends waits for room on a full disk: less than whoever ends it waits for it.
const ROOM_WITHIN: Duration = Duration::from_secs(8);

/// Writes what a role still holds, again and again while it fails and there is time.
fn patiently<E>(mut write: impl FnMut() -> Result<(), E>) -> Result<(), E> {
    let deadline = Instant::now() + ROOM_WITHIN;
    loop {
        match write() {
            Err(_) if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(200)),
            written => return written,
        }
    }
}

/// Prints the report for the process that started this one.
fn print(report: &impl Serialize) -> Result<(), Error> {
    let line = serde_json::to_string(report).map_err(Error::work)? + "\n";
    let mut out = std::io::stdout();
    let _ = out.write_all(line.as_bytes()).and_then(|()| out.flush()); // whoever started it may have been killed
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_role_reads_back_from_its_words() {
        let server = probe::ServerSettings { run: u64::MAX, id: 1, listen: ("::1".into(), 7411), kernel_every: 10 };
        for role in [Role::Collect, Role::ProbeServe(server), Role::StampCost] {
            let (name, settings) = role.words();
            assert_eq!(Role::parse(&name, &settings).unwrap(), role);
        }
        for (name, settings) in [("collector", "null"), ("probe-serve", "null"), ("collect", "}")] {
            assert_eq!(Role::parse(name, settings).unwrap_err().code(), 2);
        }
    }
}
