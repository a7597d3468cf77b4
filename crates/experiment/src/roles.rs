//! The processes that hang under an agent: this same program, started again as `role NAME`.
//!
//! A role prints `ready` when the run may go on, works until SIGTERM, and prints its report as one line of JSON.
//! If one dies, the others go on. Settings are plain data, one line of JSON on its standard input, for they may hold
//! keys; the agent adds the node and the run's directory. What it is told while it works comes as further lines there,
//! and it answers in lines of `answer ...`.

pub mod clock_monitor;
pub mod collector;
mod kernel_points;
pub(crate) mod live;
pub mod noise;
pub mod probe;
pub mod returns;
pub mod rivals;
pub mod stamp_cost;

use std::io::{BufRead, Read, Write};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tickscope_host::thread_class::{be_called, let_others_go_first};
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
    /// Has exchanges with the node's peers, and writes brackets.
    Probe(probe::ProbeSettings),
    /// Watches the node's other clocks.
    ClockMonitor,
    /// Is the clock that the rivals on other nodes follow.
    RivalServe(rivals::ServerSettings),
    /// Asks rivals about the node's clock.
    RivalAsk(rivals::ClientSettings),
    /// Answers acknowledgements of stamps where a path ends.
    ReturnAnswer(returns::SourceSettings),
    /// Acknowledges the node's stamps under `return-trip`, and writes what came of it.
    ReturnAcknowledge(returns::SinkSettings),
    /// Records what the kernel does on the host's cores.
    Noise(noise::NoiseSettings),
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

    /// The role of that name, with the settings that standard input begins with.
    pub fn read(name: &str) -> Result<Self, Error> {
        /// More than any role has.
        const MOST_BYTES: u64 = 16 << 20;
        let mut line = String::new();
        let read = std::io::stdin().lock().take(MOST_BYTES).read_line(&mut line);
        read.map_err(|e| Error::input(format!("role {name}: cannot read its settings: {e}")))?;
        Self::parse(name, if line.trim().is_empty() { "null" } else { &line })
    }

    /// The role of that name with these settings, JSON.
    pub fn parse(name: &str, settings: &str) -> Result<Self, Error> {
        let settings: Result<Value, _> = serde_json::from_str(settings);
        let role = settings.and_then(|settings| serde_json::from_value(json!({ name: settings })));
        role.map_err(|e| Error::input(format!("role {name}: {e}. Leave this command to `tickscope run`")))
    }

    /// Whether it loses nothing, and tells nothing else, by waiting for a core for some milliseconds.
    fn can_wait(&self) -> bool {
        matches!(self, Self::Collect | Self::CollectOnce | Self::ClockMonitor | Self::Noise(_))
    }

    /// In words, to be followed by the node's name.
    pub fn title(&self) -> &'static str {
        match self {
            Self::Collect | Self::CollectOnce => "collector of",
            Self::Probe(_) => "probe on",
            Self::ClockMonitor => "clock monitor on",
            Self::RivalServe(_) => "rivals' server on",
            Self::RivalAsk(_) => "rivals on",
            Self::ReturnAnswer(_) => "return trip's source on",
            Self::ReturnAcknowledge(_) => "return trip's end on",
            Self::Noise(_) => "recorder of noise on",
            Self::StampCost => "cost of a stamp on",
        }
    }
}

/// Plays a role in this process.
pub fn play(role: &Role, place: &RoleContext) -> Result<(), Error> {
    crate::interrupt::catch();
    behave_as(role);
    match role {
        Role::Collect => {
            print(&collector::json(&collector::collect(&collector::CollectorSettings::of_role(place, true))?))
        }
        Role::CollectOnce => {
            print(&collector::json(&collector::collect(&collector::CollectorSettings::of_role(place, false))?))
        }
        Role::Probe(settings) => print(&probe::probe(settings, place)?),
        Role::ClockMonitor => print(&clock_monitor::monitor(place)?),
        Role::RivalServe(server) => print(&rivals::serve(server)?),
        Role::RivalAsk(client) => print(&rivals::ask(client, place)?),
        Role::ReturnAnswer(settings) => print(&returns::serve(settings)?),
        Role::ReturnAcknowledge(settings) => print(&returns::acknowledge(settings, place)?),
        Role::Noise(settings) => print(&noise::record(*settings, place)?),
        Role::StampCost => print(&stamp_cost::measure()?),
    }
}

/// Gives this thread, and those that it will start, the name and the class of a role.
fn behave_as(role: &Role) {
    be_called(&role.words().0);
    if role.can_wait() {
        let_others_go_first();
    }
}

/// Tells the process that started this one that it may go on.
fn ready() {
    let mut out = std::io::stdout();
    let _ = out.write_all(b"ready\n").and_then(|()| out.flush()); // nobody may be reading any more
}

/// Answers whoever told the role something.
fn answer(text: &str) {
    let mut out = std::io::stdout();
    let line = format!("{}{text}\n", crate::process::ANSWER);
    let _ = out.write_all(line.as_bytes()).and_then(|()| out.flush()); // nobody may be reading any more
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

    fn probe() -> Role {
        Role::Probe(probe::ProbeSettings {
            run: u64::MAX,
            id: 1,
            listen: ("::1".into(), 7411),
            counter: "a.tsc".parse().unwrap(),
            hertz: 0.1,
            share: 0.02,
            kernel_every: 10,
            peers: Vec::new(),
        })
    }

    #[test]
    fn a_role_has_its_name_in_the_kernels_lists_and_takes_no_core_from_others_where_it_can_wait() {
        for (role, expected, policy) in [
            (Role::Collect, "tickscope-colle", libc::SCHED_BATCH),
            (Role::Noise(noise::NoiseSettings::default()), "tickscope-noise", libc::SCHED_BATCH),
            (Role::ClockMonitor, "tickscope-clock", libc::SCHED_BATCH),
            (probe(), "tickscope-probe", libc::SCHED_OTHER),
        ] {
            let seen = std::thread::spawn(move || {
                behave_as(&role);
                let name = std::fs::read_to_string("/proc/thread-self/comm").unwrap();
                // SAFETY: 0 is the calling thread.
                (name.trim().to_owned(), unsafe { libc::sched_getscheduler(0) })
            });
            assert_eq!(seen.join().unwrap(), (expected.to_owned(), policy));
        }
    }

    #[test]
    fn a_role_reads_back_from_its_words() {
        for role in [Role::Collect, probe(), Role::StampCost] {
            let (name, settings) = role.words();
            assert_eq!(Role::parse(&name, &settings).unwrap(), role);
        }
        for (name, settings) in [("collector", "null"), ("probe", "null"), ("collect", "}")] {
            assert_eq!(Role::parse(name, settings).unwrap_err().code(), 2);
        }
    }
}
