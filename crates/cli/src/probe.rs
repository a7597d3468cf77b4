//! The two ends of a probe as processes of a run: one answers, one asks and writes brackets while it goes on.

use std::io::Write;
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
use tickscope_probe::udp::UdpEndpoint;
use tickscope_store::{BracketColumns, write_brackets};

use crate::failure::Failure;
use crate::interrupt;
use crate::kernel_probe::{self, KernelPoints};
use crate::options::{ProbeAskOptions, ProbeServeOptions};

/// What a probe's end did, as one line of JSON for the process that started it.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct ProbeReport {
    /// Requests sent (asking) or replies sent (answering).
    pub sent: u64,
    /// Exchanges that became evidence.
    pub answered: u64,
    /// Requests without a reply.
    pub lost: u64,
    /// Requests sent more than a period late.
    pub late: u64,
    /// Datagrams that did not become evidence, by reason.
    pub refused: Vec<(String, u64)>,
    /// Refusals that no honest clock can cause, with both stamps.
    pub impossible: Vec<String>,
    /// Datagrams that the network did not take or deliver.
    pub undelivered: u64,
    /// What became of the kernel's stamps, and how many are missing.
    #[serde(default)]
    pub kernel: Option<(String, u64)>,
    /// Shortest round trip in ticks of the asking node, the peer's turnaround taken off.
    pub round_trip_ticks_min: Option<i64>,
}

/// A counter's rate is not needed to the ppm for the window after which a reply is late.
const ROUGH_HERTZ: u64 = 2_500_000_000;
/// How often brackets are written while the run goes on.
const WRITE_EVERY: Duration = Duration::from_secs(5);

/// Answers until the process is told to end.
pub fn serve(options: &ProbeServeOptions) -> Result<(), Failure> {
    interrupt::catch();
    let counter = NodeCounter::from_environment().map_err(Failure::input)?;
    let socket = bind(options.listen)?;
    let (run, node) = (RunId(options.run_id), NodeId(options.node_id));
    let udp = UdpEndpoint::unconnected(&socket, &counter, Duration::ZERO).map_err(Failure::work)?;
    let mut kernel = None;
    let report = if options.kernel_every > 0 {
        let points = KernelPoints::open()?;
        let mut endpoint = KernelEndpoint::new(udp, points, options.kernel_every.into()).map_err(Failure::work)?;
        ready();
        let report = driver::serve(&mut endpoint, run, node, &interrupt::ENDED);
        kernel = Some(kernel_probe::told(&endpoint.counts()));
        report
    } else {
        let mut endpoint = udp;
        ready();
        driver::serve(&mut endpoint, run, node, &interrupt::ENDED)
    };
    let report = report.map_err(Failure::work)?;
    let counts = report.counts;
    print(&ProbeReport { sent: report.answered, kernel, ..told(&counts.refusals, &report.network) })
}

/// Asks until the process is told to end, then once more in a burst.
pub fn ask(options: &ProbeAskOptions) -> Result<(), Failure> {
    interrupt::catch();
    let counter = NodeCounter::from_environment().map_err(Failure::input)?;
    let socket = bind(options.bind)?;
    let (send, receive) = channel();
    let folder = options.brackets.clone();
    let writer = thread::spawn(move || write_as_they_come(&folder, &receive));
    let parties =
        Parties { run: RunId(options.run_id), client: NodeId(options.node_id), server: NodeId(options.peer_id) };
    let period = (options.hertz > 0.0).then(|| Duration::from_secs_f64(1.0 / options.hertz));
    let asking = Asking {
        parties,
        memory: Memory::of_a_second(ROUGH_HERTZ),
        schedule: Schedule { period, ..Schedule::default() },
    };
    let mut shortest: Option<i64> = None;
    let on_exchange = |exchange: &Exchange| {
        let away = (exchange.t4 - exchange.t1).get() - (exchange.t3 - exchange.t2).get();
        shortest = Some(shortest.map_or(away, |known| known.min(away)));
        let _ = send.send(*exchange); // the writer ends early only by an error that is reported below
    };
    let mut udp = UdpEndpoint::connected(&socket, options.peer, &counter, Duration::ZERO).map_err(Failure::work)?;
    let mut kernel = None;
    let asked = if options.kernel_every > 0 {
        let points = KernelPoints::open()?;
        let mut endpoint = KernelEndpoint::new(udp, points, options.kernel_every.into()).map_err(Failure::work)?;
        ready();
        let asked = driver::probe(&mut endpoint, options.peer, asking, &interrupt::ENDED, on_exchange);
        kernel = Some(kernel_probe::told(&endpoint.counts()));
        asked
    } else {
        ready();
        driver::probe(&mut udp, options.peer, asking, &interrupt::ENDED, on_exchange)
    };
    drop(send);
    writer.join().map_err(|_| Failure::work("the writer of brackets panicked"))??;
    let report = asked.map_err(Failure::work)?;
    let counts = report.counts;
    print(&ProbeReport {
        sent: counts.asked,
        answered: counts.answered,
        lost: counts.lost,
        late: report.late_sends,
        round_trip_ticks_min: shortest,
        kernel,
        ..told(&counts.refusals, &report.network)
    })
}

fn bind(address: std::net::SocketAddr) -> Result<UdpSocket, Failure> {
    UdpSocket::bind(address).map_err(|e| {
        let remedy = "Is another run going on? Give this one another clock.probe_port";
        Failure::work(format!("expected to bind the probe to {address}, found: {e}. {remedy}"))
    })
}

/// Tells the process that started this one that it may go on.
pub fn ready() {
    println!("ready");
    let _ = std::io::stdout().flush();
}

fn told(refusals: &Refusals, network: &NetworkCounts) -> ProbeReport {
    ProbeReport {
        refused: refusals.counts().filter(|&(_, count)| count > 0).map(|(name, count)| (name.into(), count)).collect(),
        impossible: refusals.impossible().iter().map(ToString::to_string).collect(),
        undelivered: network.unreachable + network.unsent,
        ..ProbeReport::default()
    }
}

/// Tells it what was done.
pub fn print(report: &impl Serialize) -> Result<(), Failure> {
    println!("{}", serde_json::to_string(report).map_err(Failure::work)?);
    Ok(())
}

/// A new file every few seconds, so that the run can be read while it goes on.
fn write_as_they_come(folder: &Path, exchanges: &Receiver<Exchange>) -> Result<(), Failure> {
    let (mut columns, mut part, mut due) = (BracketColumns::default(), 0, Instant::now() + WRITE_EVERY);
    let mut number = 0;
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
        if !columns.is_empty() {
            write_brackets(&folder.join(format!("part-{part:08}.parquet")), &std::mem::take(&mut columns))?;
            part += 1;
        }
        due = Instant::now() + WRITE_EVERY;
        if next == Err(RecvTimeoutError::Disconnected) {
            return Ok(());
        }
    }
}
