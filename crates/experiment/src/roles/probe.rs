//! The two ends of a probe: one answers, one asks and writes brackets while it goes on.
//!
//! Guarantees: brackets that an earlier probe of the pair wrote stay; each file gets the next free number.

use std::net::UdpSocket;
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use tickscope_counter::NodeCounter;
use tickscope_probe::Refusals;
use tickscope_probe::datagram::{NodeId, RunId};
use tickscope_probe::driver::{self, Asking, NetworkCounts, Schedule};
use tickscope_probe::exchange::{Exchange, Memory, Parties};
use tickscope_probe::kernel::KernelEndpoint;
use tickscope_probe::udp::{self, UdpEndpoint};
use tickscope_store::{BracketColumns, Pair, Paths, next_segment, write_brackets};
use tickscope_tick::Label;

use super::kernel_points::{self, KernelPoints};
use super::{RoleContext, patiently, ready};
use crate::Error;
use crate::interrupt;

/// Settings of the end that answers.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ServerSettings {
    /// The run's id.
    pub run: u64,
    /// Its own number within the run.
    pub id: u32,
    /// Address and port to listen on.
    pub listen: (String, u16),
    /// The kernel stamps one exchange in so many; 0: none.
    pub kernel_every: u32,
}

/// Settings of the end that asks.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ClientSettings {
    /// The run's id.
    pub run: u64,
    /// Its own number within the run.
    pub id: u32,
    /// The server's number.
    pub server_id: u32,
    /// Its own address.
    pub bind: String,
    /// The server's address and port.
    pub server: (String, u16),
    /// Requests a second during the run; 0: bursts only.
    pub hertz: f64,
    /// The kernel stamps one exchange in so many; 0: none.
    pub kernel_every: u32,
    /// The counter that asks, and that answers.
    pub counters: (Label, Label),
}

/// Report of a probe's end.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct ProbeReport {
    /// Requests without a reply.
    pub lost: u64,
    /// Datagrams that did not become evidence, by reason.
    pub refused: Vec<(String, u64)>,
    /// Refusals that no honest clock can cause, with both stamps.
    pub impossible: Vec<String>,
    /// Datagrams that the network did not take or deliver.
    pub undelivered: u64,
    /// Outcome of the kernel's stamps in words, and how many are missing.
    pub kernel: Option<(String, u64)>,
}

/// Assumed rate of any counter, for the window after which a reply is late; a rough value is enough there.
const ROUGH_HERTZ: u64 = 2_500_000_000;
/// How often brackets are written while the run goes on.
const WRITE_EVERY: Duration = Duration::from_secs(5);

/// Answers until the process is told to end.
pub(super) fn serve(server: &ServerSettings) -> Result<ProbeReport, Error> {
    let counter = NodeCounter::from_environment().map_err(Error::input)?;
    let socket = bind(&server.listen)?;
    let (run, node) = (RunId(server.run), NodeId(server.id));
    let mut udp = UdpEndpoint::unconnected(&socket, &counter, Duration::ZERO).map_err(Error::work)?;
    let mut kernel = None;
    let report = if server.kernel_every > 0 {
        let mut endpoint = stamped_by_kernel(udp, server.kernel_every)?;
        ready();
        let report = driver::serve(&mut endpoint, run, node, &interrupt::ENDED);
        kernel = Some(kernel_points::summary(&endpoint.counts()));
        report
    } else {
        ready();
        driver::serve(&mut udp, run, node, &interrupt::ENDED)
    };
    let report = report.map_err(Error::work)?;
    Ok(ProbeReport { kernel, ..refusals(&report.counts.refusals, &report.network) })
}

/// Asks until the process is told to end, then once more in a burst.
pub(super) fn ask(client: &ClientSettings, place: &RoleContext) -> Result<ProbeReport, Error> {
    let counter = NodeCounter::from_environment().map_err(Error::input)?;
    let socket = bind(&(client.bind.clone(), 0))?;
    let (send, receive) = channel();
    let (reference, domain) = client.counters.clone();
    let folder = Paths::of(&place.run).brackets(&Pair { reference, domain });
    let writer = thread::spawn(move || write_as_they_come(&folder, &receive));
    let parties = Parties { run: RunId(client.run), client: NodeId(client.id), server: NodeId(client.server_id) };
    let period = (client.hertz > 0.0).then(|| Duration::from_secs_f64(1.0 / client.hertz));
    let schedule = Schedule { period, ..Schedule::default() };
    let asking = Asking { parties, memory: Memory::of_a_second(ROUGH_HERTZ), schedule };
    let on_exchange = |exchange: &Exchange| {
        let _ = send.send(*exchange); // the writer ends early only by an error that is reported below
    };
    let server = udp::resolve(&client.server).map_err(Error::work)?;
    let mut udp = UdpEndpoint::connected(&socket, server, &counter, Duration::ZERO).map_err(Error::work)?;
    let mut kernel = None;
    let asked = if client.kernel_every > 0 {
        let mut endpoint = stamped_by_kernel(udp, client.kernel_every)?;
        ready();
        let asked = driver::probe(&mut endpoint, server, asking, &interrupt::ENDED, on_exchange);
        kernel = Some(kernel_points::summary(&endpoint.counts()));
        asked
    } else {
        ready();
        driver::probe(&mut udp, server, asking, &interrupt::ENDED, on_exchange)
    };
    drop(send);
    writer.join().map_err(|_| Error::work("the writer of brackets panicked"))??;
    let report = asked.map_err(Error::work)?;
    let counts = report.counts;
    Ok(ProbeReport { lost: counts.lost, kernel, ..refusals(&counts.refusals, &report.network) })
}

fn stamped_by_kernel(udp: UdpEndpoint<'_>, every: u32) -> Result<KernelEndpoint<'_, KernelPoints>, Error> {
    KernelEndpoint::new(udp, KernelPoints::open()?, every.into()).map_err(Error::work)
}

fn bind(address: &(String, u16)) -> Result<UdpSocket, Error> {
    UdpSocket::bind(address).map_err(|e| {
        let (host, port) = address;
        let remedy = "Is another run going on? Give this one another clock.probe_port";
        Error::work(format!("cannot bind the probe to {host}, port {port}: {e}. {remedy}"))
    })
}

fn refusals(refusals: &Refusals, network: &NetworkCounts) -> ProbeReport {
    ProbeReport {
        refused: refusals.counts().filter(|&(_, count)| count > 0).map(|(name, count)| (name.into(), count)).collect(),
        impossible: refusals.impossible().iter().map(ToString::to_string).collect(),
        undelivered: network.unreachable + network.unsent,
        ..ProbeReport::default()
    }
}

/// A new file every few seconds, so that the run can be read while it goes on.
fn write_as_they_come(folder: &Path, exchanges: &Receiver<Exchange>) -> Result<(), Error> {
    let (mut columns, mut number, mut due) = (BracketColumns::default(), 0, Instant::now() + WRITE_EVERY);
    loop {
        let next = exchanges.recv_timeout(due.saturating_duration_since(Instant::now()));
        if let Ok(exchange) = next {
            let Exchange { t1, t2, t3, t4 } = exchange;
            columns.push_exchange(number, [t1.get(), t2.get(), t3.get(), t4.get()], Exchange::ORDERING);
            number += 1;
            if Instant::now() < due {
                continue;
            }
        }
        let ends = next == Err(RecvTimeoutError::Disconnected);
        let write = || write_brackets(&next_segment(folder)?, &columns);
        // A full disk may have room again: what could not be written is written with what comes next.
        let written = if columns.is_empty() {
            Ok(())
        } else if ends {
            patiently(write)
        } else {
            write()
        };
        if written.is_ok() {
            columns = BracketColumns::default();
        }
        due = Instant::now() + WRITE_EVERY;
        if ends {
            return Ok(written?);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tickscope_store::read_brackets;
    use tickscope_tick::Tick;

    #[test]
    fn a_probe_that_is_started_again_keeps_the_brackets_of_the_first() {
        let folder = std::env::temp_dir().join(format!("tickscope-probe-again-{}", std::process::id()));
        for round in 0..2 {
            let (send, receive) = channel();
            let [t1, t4] = [10, 40].map(|tick| Tick::new(tick + 100 * round));
            let [t2, t3] = [20, 30].map(|tick| Tick::new(tick + 100 * round));
            send.send(Exchange { t1, t2, t3, t4 }).unwrap();
            drop(send);
            write_as_they_come(&folder, &receive).unwrap();
        }
        let ticks = |name| read_brackets(&folder.join(name)).unwrap().at;
        assert_eq!((ticks("part-00000000.parquet"), ticks("part-00000001.parquet")), (vec![20, 30], vec![120, 130]));
        std::fs::remove_dir_all(folder).unwrap();
    }
}
