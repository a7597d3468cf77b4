//! The return trip as its method makes it: a node where a path ends sends an acknowledgement of each stamp there back
//! to the node where the path begins, which stamps its arrival and answers at once.
//!
//! Idea: an acknowledgement and its answer are an exchange as the probes have it, so its four ticks, its key and what
//! is refused are theirs; the datagram's nonce stands for the id, which the end remembers. The end sees stamps in
//! shared memory, by a look a millisecond: so much later does an acknowledgement leave, which its row tells.
//!
//! Assumes: a key for each pair of nodes, from the conductor. Guarantees: nothing of it is in a measured program; at
//! most so many acknowledgements a second; where more are stamped, each id of a share that is told, and no other; to
//! the one address that the settings name; what is not answered is counted. Deliberately absent: evidence. These
//! exchanges are taken while the run keeps the link busy, and are there to be compared with.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::net::{SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use tickscope_collect::{Seen, Spectator};
use tickscope_counter::NodeCounter;
use tickscope_probe::PairKey;
use tickscope_probe::datagram::{NodeId, RunId};
use tickscope_probe::driver::{Endpoint, Prober, Schedule};
use tickscope_probe::exchange::{Exchange, Memory, Parties, Server};
use tickscope_probe::udp::{self, UdpEndpoint};
use tickscope_stamp::block::Policy;
use tickscope_stamp::policies::x_of_y::XOfY;
use tickscope_store::{Paths, ReturnColumns, ReturnRow, next_segment, write_returns};
use tickscope_tick::{NodeName, PointName};

use super::probe::{ROUGH_HERTZ, key_text};
use super::{RoleContext, patiently, ready};
use crate::Error;
use crate::interrupt;
use crate::notice;

/// Settings of a node that answers acknowledgements.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct SourceSettings {
    /// The run's id.
    pub run: u64,
    /// Its own number within the run.
    pub id: u32,
    /// Address and port to listen on.
    pub listen: (String, u16),
    /// The nodes that it answers.
    pub ends: Vec<EndSettings>,
}

/// A node whose acknowledgements are answered.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct EndSettings {
    /// Its number within the run.
    pub id: u32,
    /// The key of the two nodes for this.
    #[serde(with = "key_text")]
    pub key: PairKey,
}

/// Settings of a node that acknowledges.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct SinkSettings {
    /// The run's id.
    pub run: u64,
    /// Its own number within the run.
    pub id: u32,
    /// Address to send from.
    pub address: String,
    /// Points whose stamps are acknowledged.
    pub points: Vec<PointName>,
    /// The node that answers, and its number.
    pub source: (NodeName, u32),
    /// Address and port that it listens on.
    pub to: (String, u16),
    /// The key of the two nodes for this.
    #[serde(with = "key_text")]
    pub key: PairKey,
    /// Acknowledgements a second, at most.
    pub most_hz: u32,
}

/// Report of either.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct ReturnReport {
    /// Stamps that were seen.
    pub seen: u64,
    /// Acknowledgements sent.
    pub sent: u64,
    /// Acknowledgements that were answered and stored.
    pub answered: u64,
    /// Acknowledgements without an answer, and those that the network did not take.
    pub lost: u64,
    /// One of so many ids is acknowledged, at the end.
    pub of_ids: u32,
    /// Stamps that were not acknowledged because more were seen than may be.
    pub left_out: u64,
    /// Datagrams that were refused, by reason.
    pub refused: Vec<(String, u64)>,
}

/// How often stamps are looked for, and how long a wait for an answer lasts before the next look.
const LOOK_EVERY: Duration = Duration::from_millis(1);
/// Acknowledgements are counted against the most that may be within this time.
const WINDOW: Duration = Duration::from_millis(100);
/// How often rows are written.
const WRITE_EVERY: Duration = Duration::from_secs(5);
/// Acknowledgements whose answer is waited for, at most.
const MOST_UNANSWERED: usize = 1024;
/// A larger share of ids than one of so many is always acknowledged.
const LEAST_SHARE: u32 = 1 << 30;

/// Answers until the process is told to end.
pub(super) fn serve(settings: &SourceSettings) -> Result<ReturnReport, Error> {
    let counter = NodeCounter::from_environment().map_err(Error::input)?;
    let socket = bind(&settings.listen)?;
    let ends = settings.ends.iter().map(|end| (NodeId(end.id), end.key.clone()));
    let server = Server::new(RunId(settings.run), NodeId(settings.id), ends);
    ready();
    let report = udp::serve(&socket, &counter, server, Duration::ZERO, &interrupt::ENDED).map_err(Error::work)?;
    let refused = report.counts.refusals.counts();
    let refused = refused.filter(|&(_, count)| count > 0).map(|(name, count)| (name.into(), count)).collect();
    Ok(ReturnReport { answered: report.answered, refused, ..ReturnReport::default() })
}

/// Acknowledges until the process is told to end, and once more what was stamped until then.
pub(super) fn acknowledge(settings: &SinkSettings, place: &RoleContext) -> Result<ReturnReport, Error> {
    let counter = NodeCounter::from_environment().map_err(Error::input)?;
    let directory = PathBuf::from(std::env::var_os("TICKSCOPE_DIR").unwrap_or_default());
    let spectator = Spectator::new(&directory, settings.points.clone(), Policy::ReturnTrip).map_err(Error::work)?;
    let to = udp::resolve(&settings.to).map_err(|why| {
        let (source, (host, _)) = (&settings.source.0, &settings.to);
        Error::work(format!("cannot find {source} at {host} to acknowledge stamps: {why}. Correct its address"))
    })?;
    let socket = bind(&(settings.address.clone(), 0))?;
    let mut endpoint = UdpEndpoint::unconnected(&socket, &counter, Duration::ZERO).map_err(Error::work)?;
    let folder = Paths::of(&place.run).returns(place.node.as_str());
    let (send, receive) = channel();
    let writer = thread::spawn(move || write_as_they_come(&folder, &receive));
    ready();
    let worked = Acknowledging::new(settings, spectator).until_the_end(&mut endpoint, to, send);
    writer.join().map_err(|_| Error::work("the writer of acknowledgements panicked"))??;
    worked
}

fn bind(address: &(String, u16)) -> Result<UdpSocket, Error> {
    UdpSocket::bind(address).map_err(|e| {
        let (host, port) = address;
        Error::work(format!(
            "cannot bind the return trip to {host}, port {port}: {e}. Give the run another return_trip.port, and each \
             node an address of its own"
        ))
    })
}

/// Acknowledging while it goes on.
struct Acknowledging<'a> {
    settings: &'a SinkSettings,
    spectator: Spectator,
    share: Share,
    /// Acknowledgements under way, by t1.
    unanswered: VecDeque<(i64, Seen)>,
    report: ReturnReport,
}

impl<'a> Acknowledging<'a> {
    fn new(settings: &'a SinkSettings, spectator: Spectator) -> Self {
        let share = Share::new(settings.most_hz, Instant::now());
        Self { settings, spectator, share, unanswered: VecDeque::new(), report: ReturnReport::default() }
    }

    fn until_the_end<E: Endpoint<Address = SocketAddr>>(
        mut self,
        endpoint: &mut E,
        to: SocketAddr,
        rows: Sender<ReturnRow>,
    ) -> Result<ReturnReport, Error> {
        let SinkSettings { run, id, source, key, .. } = self.settings;
        let (run, node, source) = (RunId(*run), NodeId(*id), NodeId(source.1));
        let answers = RefCell::new(Vec::new());
        let on_exchange = |_, exchange: &Exchange| answers.borrow_mut().push(*exchange);
        let mut prober = Prober::new(endpoint, Server::new(run, node, []), on_exchange);
        let memory = Memory { outstanding_max: MOST_UNANSWERED, ..Memory::of_a_second(ROUGH_HERTZ) };
        prober.add(Parties { run, client: node, server: source }, key.clone(), memory, to);
        loop {
            let ends = interrupt::ended(); // asked first: what was stamped until then is looked for
            self.acknowledge_new(&mut prober, source)?;
            let due = Instant::now() + LOOK_EVERY;
            while let Some(left) = due.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()) {
                prober.turn(left).map_err(Error::work)?;
            }
            self.take_answers(&mut answers.borrow_mut(), &rows);
            if ends {
                break;
            }
        }
        let report = prober.finish(Schedule::default().reply_wait).map_err(Error::work)?;
        self.take_answers(&mut answers.borrow_mut(), &rows);
        let counts = report.asked.into_iter().next().map(|(_, asked)| asked.counts).unwrap_or_default();
        let mut refusals = counts.refusals.clone();
        refusals.add(&report.server.counts.refusals);
        let refused = refusals.counts().filter(|&(_, count)| count > 0).map(|(name, count)| (name.into(), count));
        let (sent, unsent) = (counts.asked, report.server.network.unsent);
        let (lost, of_ids) = (sent + unsent - self.report.answered, self.share.of_ids);
        Ok(ReturnReport { sent, lost, of_ids, refused: refused.collect(), ..self.report })
    }

    /// Sends an acknowledgement of each new stamp of the share, as far as the rate allows.
    fn acknowledge_new<E: Endpoint<Address = SocketAddr>, F: FnMut(NodeId, &Exchange)>(
        &mut self,
        prober: &mut Prober<'_, E, F>,
        source: NodeId,
    ) -> Result<(), Error> {
        let mut seen = Vec::new();
        // A directory that cannot be listed now may be a moment later; what is not seen is not acknowledged.
        let _ = self.spectator.look(&mut seen);
        self.report.seen += seen.len() as u64;
        for stamp in seen {
            if !self.share.takes(stamp.id, Instant::now()) {
                self.report.left_out += 1;
                continue;
            }
            if let Some(t1) = prober.request(source).map_err(Error::work)? {
                self.unanswered.push_back((t1.get(), stamp));
                if self.unanswered.len() > MOST_UNANSWERED {
                    self.unanswered.pop_front();
                }
            }
        }
        Ok(())
    }

    /// Hands the rows of what was answered to the writer. Of two that left at one tick nobody knows whose answer it
    /// is: neither becomes a row.
    fn take_answers(&mut self, answers: &mut Vec<Exchange>, rows: &Sender<ReturnRow>) {
        for Exchange { t1, t2, t3, t4 } in answers.drain(..) {
            let of = |&(sent, _): &(i64, Seen)| sent == t1.get();
            let Some(at) = self.unanswered.iter().position(of) else { continue };
            if self.unanswered.iter().filter(|one| of(one)).count() > 1 {
                continue;
            }
            let Some((sent, stamp)) = self.unanswered.remove(at) else { continue };
            let row = ReturnRow {
                id: stamp.id,
                end: stamp.tick,
                sent,
                received: t2.get(),
                answered: t3.get(),
                returned: t4.get(),
                source: self.settings.source.0.to_string(),
                point: self.settings.points[stamp.point].to_string(),
            };
            self.report.answered += u64::from(rows.send(row).is_ok()); // the writer ends early only by an error
        }
    }
}

/// The share of ids that is acknowledged: all at first, half as many after each window in which there were too many.
/// It never grows again, so that from some tick on it is the same ids until the end.
struct Share {
    /// One of so many ids is taken.
    of_ids: u32,
    rule: XOfY,
    /// Stamps taken within a window, at most.
    most: u32,
    taken: u32,
    exceeded: bool,
    until: Instant,
}

impl Share {
    fn new(most_hz: u32, now: Instant) -> Self {
        let most = (most_hz / (1000 / WINDOW.as_millis() as u32)).max(1);
        Self { of_ids: 1, rule: XOfY::of(1 << 32 | 1), most, taken: 0, exceeded: false, until: now + WINDOW }
    }

    fn takes(&mut self, id: i64, now: Instant) -> bool {
        if now >= self.until {
            if self.exceeded && self.of_ids < LEAST_SHARE {
                self.of_ids *= 2;
                self.rule = XOfY::of(1 << 32 | u64::from(self.of_ids));
            }
            (self.taken, self.exceeded, self.until) = (0, false, now + WINDOW);
        }
        if !self.rule.keeps(id) {
            return false;
        }
        self.exceeded |= self.taken >= self.most;
        let takes = self.taken < self.most;
        self.taken += u32::from(takes);
        takes
    }
}

/// A new file every few seconds, so that the run can be read while it goes on.
fn write_as_they_come(folder: &Path, rows: &Receiver<ReturnRow>) -> Result<(), Error> {
    let (mut unwritten, mut due) = (ReturnColumns::default(), Instant::now() + WRITE_EVERY);
    loop {
        let next = rows.recv_timeout(due.saturating_duration_since(Instant::now()));
        let ended = matches!(next, Err(RecvTimeoutError::Disconnected));
        if let Ok(row) = next {
            unwritten.push(row);
            if Instant::now() < due {
                continue;
            }
        }
        due = Instant::now() + WRITE_EVERY;
        if ended {
            return patiently(|| write(folder, &mut unwritten));
        }
        if let Err(why) = write(folder, &mut unwritten) {
            notice::say(format_args!("{why}. It is tried again")); // a full disk may have room again
        }
    }
}

fn write(folder: &Path, unwritten: &mut ReturnColumns) -> Result<(), Error> {
    if !unwritten.is_empty() {
        write_returns(&next_segment(folder)?, unwritten)?;
        *unwritten = ReturnColumns::default();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_are_taken_in_a_window_than_may_be_and_the_share_of_ids_halves_until_they_fit() {
        let mut now = Instant::now();
        let mut share = Share::new(100, now); // 10 a window
        let mut shares = Vec::new();
        for window in 0..6 {
            let ids = window * 64..(window + 1) * 64;
            let taken: Vec<i64> = ids.filter(|&id| share.takes(id, now)).collect();
            assert!(taken.len() <= 10, "{taken:?}");
            assert!(taken.iter().all(|id| id % i64::from(share.of_ids) == 0), "{taken:?}");
            shares.push((share.of_ids, taken.len()));
            now += WINDOW;
        }
        assert_eq!(shares, [(1, 10), (2, 10), (4, 10), (8, 8), (8, 8), (8, 8)]);
    }

    #[test]
    fn settings_travel_as_text_with_their_key() {
        let settings = SinkSettings {
            run: u64::MAX,
            id: 1,
            address: "127.0.0.1".into(),
            points: vec![PointName::new("received").unwrap()],
            source: (NodeName::new("client").unwrap(), 0),
            to: ("127.0.0.2".into(), 7413),
            key: PairKey::new([0xc7; 32]),
            most_hz: 1000,
        };
        let text = serde_json::to_string(&settings).unwrap();
        assert!(text.contains(&"c7".repeat(32)));
        assert_eq!(serde_json::from_str::<SinkSettings>(&text).unwrap(), settings);
        assert!(!format!("{settings:?}").contains("c7c7") && !format!("{settings:?}").contains("199"));
    }
}
