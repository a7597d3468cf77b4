//! A node's part in all its probes: it answers its peers, asks those that it is told to ask, and writes brackets while
//! it goes on.
//!
//! Told while it works: `burst NODE COUNT MILLISECONDS` takes so many exchanges with that peer back to back, for so
//! long at most, and is answered; `steady` begins the low rate, as far as the declared share of a core allows; `quiet`
//! ends that, and is answered.
//!
//! Guarantees: brackets that an earlier probe of the pair wrote stay; each file gets the next free number; a peer
//! without an address, and a kernel that does not stamp, are told and end nothing.

use std::collections::BTreeMap;
use std::io::{BufRead, Read, Write};
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use tickscope_counter::NodeCounter;
use tickscope_probe::datagram::{NodeId, RunId};
use tickscope_probe::driver::{BurstReport, Endpoint, POLL, Prober, ProberReport, Schedule};
use tickscope_probe::exchange::{Exchange, Memory, Parties, Server};
use tickscope_probe::kernel::KernelEndpoint;
use tickscope_probe::pace::Pace;
use tickscope_probe::udp::{self, UdpEndpoint};
use tickscope_probe::{PairKey, Refusals};
use tickscope_store::{BracketColumns, Pair, Paths, next_segment, write_brackets};
use tickscope_tick::Label;

use super::kernel_points::{self, KernelPoints};
use super::{RoleContext, answer, patiently, ready};
use crate::Error;
use crate::interrupt;
use crate::notice;

/// Settings of a node's probe.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ProbeSettings {
    /// The run's id.
    pub run: u64,
    /// Its own number within the run.
    pub id: u32,
    /// Address and port to listen on and to ask from.
    pub listen: (String, u16),
    /// Its own counter.
    pub counter: Label,
    /// Requests a second to each peer during the run, as wished; 0: bursts only.
    pub hertz: f64,
    /// Share of a core that the process may take during the run, bursts apart.
    pub share: f64,
    /// The kernel stamps one exchange in so many; 0: none.
    pub kernel_every: u32,
    /// The nodes that it has exchanges with.
    pub peers: Vec<PeerSettings>,
}

/// A node that a probe has exchanges with.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct PeerSettings {
    /// Its number within the run.
    pub id: u32,
    /// Its counter.
    pub counter: Label,
    /// Address and port of its probe.
    pub address: (String, u16),
    /// The key of the two nodes.
    #[serde(with = "key_text")]
    pub key: PairKey,
    /// True if it is asked; if not, it asks.
    pub asked: bool,
}

/// A key as text, for the pipe that settings are handed out through. No message repeats it.
pub(super) mod key_text {
    use super::*;
    use serde::{Deserializer, Serializer, de};

    pub fn serialize<S: Serializer>(key: &PairKey, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&key.bytes().iter().map(|byte| format!("{byte:02x}")).collect::<String>())
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<PairKey, D::Error> {
        let wrong = || {
            de::Error::custom(format!(
                "expected a key of {} bytes, found another text. Leave this command to `tickscope run`",
                PairKey::LENGTH
            ))
        };
        let text = String::deserialize(from).map_err(|_| wrong())?;
        let byte = |digits: &[u8]| std::str::from_utf8(digits).ok().and_then(|text| u8::from_str_radix(text, 16).ok());
        let bytes: Option<Vec<u8>> = text.as_bytes().chunks(2).map(byte).collect();
        bytes.and_then(|bytes| bytes.try_into().ok()).map(PairKey::new).ok_or_else(wrong)
    }
}

/// Report of a node's probe.
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
    /// Exchanges a second with each peer at the end, where that was less than wished.
    #[serde(default)]
    pub paced_hertz: Option<f64>,
}

/// What a probe is told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Order {
    /// Take a burst of so many exchanges with that node, for so many milliseconds at most.
    Burst(NodeId, u32, u32),
    /// Begin the low rate.
    Steady,
    /// End it.
    Quiet,
}

/// Assumed rate of any counter, for the window after which a reply is late; a rough value is enough there.
pub(super) const ROUGH_HERTZ: u64 = 2_500_000_000;
/// How often brackets are written while the run goes on: those of one pair at a time, in turn.
const WRITE_EVERY: Duration = Duration::from_secs(5);
/// How often the share that the process takes is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Works until the process is told to end.
pub(super) fn probe(settings: &ProbeSettings, place: &RoleContext) -> Result<ProbeReport, Error> {
    let counter = NodeCounter::from_environment().map_err(Error::input)?;
    let socket = bind(&settings.listen)?;
    let (woken, wake) = UnixStream::pair().map_err(Error::work)?;
    woken.set_nonblocking(true).map_err(Error::work)?;
    let orders = orders(wake);
    let (send, receive) = channel();
    let folders = folders(settings, place);
    let writer = thread::spawn(move || write_as_they_come(&folders, &receive));
    let work = Work { settings, orders, woken: &woken, send };
    let udp = || {
        let udp = UdpEndpoint::unconnected(&socket, &counter, Duration::ZERO).map_err(Error::work)?;
        Ok::<_, Error>(udp.woken_by(woken.as_fd()))
    };
    let worked = match stamped_by_kernel(udp()?, settings.kernel_every)? {
        Some(Ok(mut endpoint)) => {
            let worked = work.until_the_end(&mut endpoint);
            worked.map(|report| ProbeReport { kernel: Some(kernel_points::summary(&endpoint.counts())), ..report })
        }
        Some(Err(why)) => {
            let kernel = Some((format!("the kernel does not stamp this socket: {why}. User stamps serve alone"), 0));
            work.until_the_end(&mut udp()?).map(|report| ProbeReport { kernel, ..report })
        }
        None => work.until_the_end(&mut udp()?),
    };
    writer.join().map_err(|_| Error::work("the writer of brackets panicked"))??;
    worked
}

/// Folder of each asked peer's brackets.
fn folders(settings: &ProbeSettings, place: &RoleContext) -> BTreeMap<NodeId, PathBuf> {
    let paths = Paths::of(&place.run);
    let folder = |peer: &PeerSettings| {
        let pair = Pair { reference: settings.counter.clone(), domain: peer.counter.clone() };
        (NodeId(peer.id), paths.brackets(&pair))
    };
    settings.peers.iter().filter(|peer| peer.asked).map(folder).collect()
}

/// What a probe works with.
struct Work<'a> {
    settings: &'a ProbeSettings,
    orders: Receiver<Order>,
    /// Readable when an order came.
    woken: &'a UnixStream,
    send: Sender<(NodeId, Exchange)>,
}

impl Work<'_> {
    fn until_the_end<E: Endpoint<Address = SocketAddr>>(self, endpoint: &mut E) -> Result<ProbeReport, Error> {
        let Self { settings, orders, mut woken, send } = self;
        let on_exchange = |node, exchange: &Exchange| {
            let _ = send.send((node, *exchange)); // the writer ends early only by an error that is reported
        };
        let (run, node) = (RunId(settings.run), NodeId(settings.id));
        let keys = settings.peers.iter().filter(|peer| !peer.asked).map(|peer| (NodeId(peer.id), peer.key.clone()));
        let mut prober = Prober::new(endpoint, Server::new(run, node, keys), on_exchange);
        for peer in settings.peers.iter().filter(|peer| peer.asked) {
            let parties = Parties { run, client: node, server: NodeId(peer.id) };
            match udp::resolve(&peer.address) {
                Ok(address) => prober.add(parties, peer.key.clone(), Memory::of_a_second(ROUGH_HERTZ), address),
                Err(why) => {
                    let node = &peer.counter.node;
                    notice::say(format_args!("cannot find {node} to probe it: {why}. Correct its address"));
                }
            }
        }
        ready();
        let (began, mut steady, mut ended) = (Spent::now(), None::<Steady>, None::<Steady>);
        while !interrupt::ended() {
            while woken.read(&mut [0; 64]).is_ok_and(|length| length > 0) {}
            for order in orders.try_iter() {
                match order {
                    Order::Burst(peer, burst, limit_ms) => {
                        let burst_limit = Duration::from_millis(limit_ms.into());
                        let schedule = Schedule { burst, burst_limit, ..Schedule::default() };
                        let burst = prober.burst(peer, &schedule).map_err(Error::work)?;
                        answer(&burst_answer(peer, burst));
                    }
                    Order::Steady => steady = Some(Steady::begin(settings, began, prober.exchanges())),
                    Order::Quiet => {
                        ended = steady.take();
                        answer("quiet");
                    }
                }
                prober.pace(steady.as_ref().and_then(|steady| steady.pace.period()));
            }
            if let Some(pace) = steady.as_mut().and_then(Steady::look) {
                prober.pace(pace.period());
                prober.afford(pace.told());
            }
            prober.turn(POLL).map_err(Error::work)?;
        }
        let paced = steady.or(ended).filter(|steady| steady.pace.told() > 0).and_then(|steady| steady.pace.period());
        let report = prober.finish(Schedule::default().reply_wait).map_err(Error::work)?;
        let paced_hertz = paced.map(|period| 1.0 / period.as_secs_f64());
        Ok(ProbeReport { paced_hertz, ..report_of(&report) })
    }
}

/// The low rate while it goes on.
struct Steady {
    pace: Pace,
    spent: Spent,
}

impl Steady {
    /// Starts at what the exchanges of the bursts cost.
    fn begin(settings: &ProbeSettings, began: Spent, exchanges: u64) -> Self {
        let spent = Spent::now();
        let each = (spent.processor - began.processor).checked_div(exchanges as u32).unwrap_or_default();
        Self { pace: Pace::new(settings.share, settings.hertz, settings.peers.len(), each), spent }
    }

    /// The pace, where it is time to change it.
    fn look(&mut self) -> Option<&Pace> {
        let spent = Spent::now_if(self.spent.wall + LOOK_EVERY)?;
        self.pace.look(spent.processor - self.spent.processor, spent.wall - self.spent.wall);
        self.spent = spent;
        Some(&self.pace)
    }
}

/// Time that this process has had.
#[derive(Clone, Copy)]
struct Spent {
    wall: Instant,
    /// Time of processors.
    processor: Duration,
}

impl Spent {
    fn now() -> Self {
        // SAFETY: all-zero is a valid value, and the kernel fills it.
        let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
        // SAFETY: the place outlives the call, which cannot fail for this process.
        unsafe { libc::getrusage(libc::RUSAGE_SELF, &mut usage) };
        let time = |time: libc::timeval| Duration::new(time.tv_sec as u64, time.tv_usec as u32 * 1000);
        Self { wall: Instant::now(), processor: time(usage.ru_utime) + time(usage.ru_stime) }
    }

    /// The same, once `due` has come.
    fn now_if(due: Instant) -> Option<Self> {
        (Instant::now() >= due).then(Self::now)
    }
}

/// Orders from standard input, which a thread of its own reads; each wakes whoever waits for datagrams.
fn orders(mut wake: UnixStream) -> Receiver<Order> {
    let (send, receive) = channel();
    thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            let Some(order) = Order::parse(&line) else { continue };
            if send.send(order).is_err() || wake.write_all(&[1]).is_err() {
                return;
            }
        }
    });
    receive
}

impl Order {
    /// The line that tells it.
    pub fn line(self) -> String {
        match self {
            Self::Burst(NodeId(node), count, limit_ms) => format!("burst {node} {count} {limit_ms}"),
            Self::Steady => "steady".into(),
            Self::Quiet => "quiet".into(),
        }
    }

    fn parse(line: &str) -> Option<Self> {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["burst", node, count, limit_ms] => {
                Some(Self::Burst(NodeId(node.parse().ok()?), count.parse().ok()?, limit_ms.parse().ok()?))
            }
            ["steady"] => Some(Self::Steady),
            ["quiet"] => Some(Self::Quiet),
            _ => None,
        }
    }
}

fn burst_answer(NodeId(node): NodeId, BurstReport { asked, answered }: BurstReport) -> String {
    format!("burst {node} {asked} {answered}")
}

/// The node of a burst that is over, and what came of it.
pub fn burst_of(answer: &str) -> Option<(NodeId, BurstReport)> {
    let mut words = answer.strip_prefix("burst ")?.split(' ').map(str::parse::<u64>);
    let mut number = || words.next()?.ok();
    let (node, asked, answered) = (number()?, number()?, number()?);
    Some((NodeId(u32::try_from(node).ok()?), BurstReport { asked, answered }))
}

/// An endpoint whose kernel stamps; `None`: none is wanted.
fn stamped_by_kernel(
    udp: UdpEndpoint<'_>,
    every: u32,
) -> Result<Option<std::io::Result<KernelEndpoint<'_, KernelPoints>>>, Error> {
    if every == 0 {
        return Ok(None);
    }
    Ok(Some(KernelEndpoint::new(udp, KernelPoints::open()?, every.into())))
}

fn bind(address: &(String, u16)) -> Result<UdpSocket, Error> {
    UdpSocket::bind(address).map_err(|e| {
        let (host, port) = address;
        let remedy = "Has another run this port? Give this one another clock.probe_port. Has another node this \
                      address? Give each its own";
        Error::work(format!("cannot bind the probe to {host}, port {port}: {e}. {remedy}"))
    })
}

fn report_of(report: &ProberReport) -> ProbeReport {
    let ProberReport { server, asked } = report;
    let mut refusals = Refusals::default();
    refusals.add(&server.counts.refusals);
    asked.iter().for_each(|(_, asked)| refusals.add(&asked.counts.refusals));
    ProbeReport {
        lost: asked.iter().map(|(_, asked)| asked.counts.lost).sum(),
        refused: refusals.counts().filter(|&(_, count)| count > 0).map(|(name, count)| (name.into(), count)).collect(),
        impossible: refusals.impossible().iter().map(ToString::to_string).collect(),
        undelivered: server.network.unreachable + server.network.unsent,
        ..ProbeReport::default()
    }
}

/// Brackets of one pair that are not written yet.
#[derive(Default)]
struct Unwritten {
    columns: BracketColumns,
    number: i64,
}

/// A new file every few seconds, so that the run can be read while it goes on; however many pairs there are, no more
/// files than that.
fn write_as_they_come(
    folders: &BTreeMap<NodeId, PathBuf>,
    exchanges: &Receiver<(NodeId, Exchange)>,
) -> Result<(), Error> {
    let mut unwritten: BTreeMap<NodeId, Unwritten> = BTreeMap::new();
    let (mut last, mut due) = (None, Instant::now() + WRITE_EVERY);
    loop {
        let next = exchanges.recv_timeout(due.saturating_duration_since(Instant::now()));
        if let Ok((node, Exchange { t1, t2, t3, t4 })) = next {
            let Unwritten { columns, number } = unwritten.entry(node).or_default();
            columns.push_exchange(*number, [t1.get(), t2.get(), t3.get(), t4.get()], Exchange::ORDERING);
            *number += 1;
            if Instant::now() < due {
                continue;
            }
        }
        due = Instant::now() + WRITE_EVERY;
        if next == Err(RecvTimeoutError::Disconnected) {
            // One pair's folder that cannot be written must not take the others' brackets with it.
            let mut failed = None;
            for (node, of) in &mut unwritten {
                failed = failed.or(patiently(|| write(&folders[node], of)).err());
            }
            return failed.map_or(Ok(()), Err);
        }
        let waits = |(_, of): &(&NodeId, &mut Unwritten)| !of.columns.is_empty();
        let mut waiting: Vec<_> = unwritten.iter_mut().filter(waits).collect();
        let at = waiting.iter().position(|(node, _)| Some(**node) > last).unwrap_or(0);
        if let Some((node, of)) = waiting.get_mut(at) {
            // A full disk may have room again: what could not be written is written with what comes next.
            let _ = write(&folders[*node], of);
            last = Some(**node);
        }
    }
}

fn write(folder: &Path, of: &mut Unwritten) -> Result<(), Error> {
    if !of.columns.is_empty() {
        write_brackets(&next_segment(folder)?, &of.columns)?;
        of.columns = BracketColumns::default();
    }
    Ok(())
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
            send.send((NodeId(1), Exchange { t1, t2, t3, t4 })).unwrap();
            drop(send);
            write_as_they_come(&[(NodeId(1), folder.clone())].into(), &receive).unwrap();
        }
        let ticks = |name| read_brackets(&folder.join(name)).unwrap().at;
        assert_eq!((ticks("part-00000000.parquet"), ticks("part-00000001.parquet")), (vec![20, 30], vec![120, 130]));
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn what_a_probe_is_told_reads_back_and_nothing_else_is_an_order() {
        for order in [Order::Burst(NodeId(0), 1, 2), Order::Burst(NodeId(999), 200, 500), Order::Steady, Order::Quiet] {
            assert_eq!(Order::parse(&order.line()), Some(order));
        }
        for line in ["", "burst", "burst 1", "burst 1 2", "burst -1 2 3", "burst 1 x 3", "steady 1", "end"] {
            assert_eq!(Order::parse(line), None, "{line}");
        }
        let report = BurstReport { asked: 200, answered: 199 };
        assert_eq!(burst_of(&burst_answer(NodeId(7), report)), Some((NodeId(7), report)));
        assert_eq!((burst_of("quiet"), burst_of("burst 7 200"), burst_of("burst 7 x 1")), (None, None, None));
    }

    #[test]
    fn a_key_travels_as_text_and_is_in_no_message() {
        let peer = PeerSettings {
            id: 1,
            counter: "b.tsc".parse().unwrap(),
            address: ("::1".into(), 7411),
            key: PairKey::new([0xc7; 32]),
            asked: true,
        };
        let text = serde_json::to_string(&peer).unwrap();
        assert!(text.contains(&"c7".repeat(32)));
        assert_eq!(serde_json::from_str::<PeerSettings>(&text).unwrap(), peer);
        assert!(!format!("{peer:?}").contains("c7c7") && !format!("{peer:?}").contains("199"), "{peer:?}");
        for wrong in [text.replace("c7c7", "c7c"), text.replace("c7\"", "cg\""), text.replace("c7\"", "\"")] {
            let why = serde_json::from_str::<PeerSettings>(&wrong).unwrap_err().to_string();
            assert!(why.contains("expected a key of 32 bytes") && !why.contains("c7c7"), "{why}");
        }
    }
}
