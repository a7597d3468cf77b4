//! Senders, each on a thread of its own.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc;
use std::thread::{self, ScopedJoinHandle};
use std::time::Duration;

use tickscope_counter::NodeCounter;
use tickscope_host::facts::CounterFacts;
use tickscope_load::{DueTicks, LoadPlan, Pacer, Release};
use tickscope_stamp::{Channel, Fields, OpenError, Ordering};

use crate::frames::{Frames, Share, Wrapped};
use crate::kafka::{self, Batches};
use crate::link::{Link, Took};
use crate::replies::{Progress, Reader, ReplyCounts};
use crate::report::{LoadReport, Tally};
use crate::{Error, GeneratorPlan, Law, Replies, Transport, http, zmtp};

/// From the last point that was opened to the first due tick.
const LEAD: Duration = Duration::from_millis(50);
/// A due tick that is farther away is waited for asleep; a timer wakes less than that late, mostly.
const NEAR: Duration = Duration::from_micros(200);
/// The longest sleep in which nobody asks whether to stop.
const LONGEST_SLEEP: Duration = Duration::from_millis(20);
/// Tuples that leave in one call at most.
const MOST_AT_ONCE: u64 = 64;

/// Sends a load to its end, or until `stop` is set. What was sent is told even where the target was lost.
pub fn generate(plan: &GeneratorPlan, stop: &AtomicBool) -> Result<LoadReport, Error> {
    plan.check()?;
    let clock = NodeClock::of_this_host()?;
    let shares = (0..plan.senders).map(|number| Share { number, senders: plan.senders, first_id: plan.first_id });
    let due = due_ticks(plan, clock, 0)?;
    let prepared = shares.map(|share| {
        let count = due.clone().share(share.number, share.senders).left();
        let frames = Frames::new(plan.tuples.all(), |tuple| wrapped(plan, tuple), plan.id, share, count);
        let (link, batches) = Link::connect(plan, share.number, || stop.load(Relaxed))?;
        Ok((share, frames, link, batches))
    });
    let prepared = prepared.collect::<Result<Vec<_>, Error>>()?;
    // The schedule begins once every sender has its points: making the memory that they stamp into takes its time. A
    // sender whose other end of a channel is gone, since not all could start, ends.
    let (tallies, due) = thread::scope(|scope| {
        let (opened, all_opened) = mpsc::channel();
        let senders = prepared.into_iter().map(|(share, frames, link, batches)| {
            let (begin, begun) = mpsc::channel::<(i64, DueTicks)>();
            let opened = opened.clone();
            let sender = scope.spawn(move || {
                let points = Points::open();
                let _ = opened.send(());
                drop(opened);
                let Ok((start, due)) = begun.recv() else { return Ok(None) };
                let due = due.share(share.number, share.senders);
                Sending { plan, clock, share, start, stop }.send(due, (frames, batches), link, points?).map(Some)
            });
            (sender, begin)
        });
        let senders: Vec<_> = senders.collect();
        drop(opened);
        senders.iter().for_each(|_| _ = all_opened.recv());
        let start = clock.now() + clock.ticks(LEAD);
        let due = due_ticks(plan, clock, start)?;
        senders.iter().for_each(|(_, begin)| _ = begin.send((start, due.clone())));
        let tallies = senders.into_iter().map(|(sender, _)| sender.join().expect("a sender does not panic"));
        Ok((tallies.filter_map(Result::transpose).collect::<Result<Vec<Tally>, OpenError>>(), due))
    })?;
    let mut tallies = tallies.map_err(|e| Error::work(format!("cannot open a point: {e}")))?.into_iter();
    let mut all = tallies.next().expect("a load has a sender");
    tallies.for_each(|one| all.merge(one));
    Ok(all.report(due.left(), clock.hertz, plan.late.as_nanos() as u64))
}

/// When the tuples of all senders are due, if the first may be at `start`.
fn due_ticks(plan: &GeneratorPlan, clock: NodeClock, start: i64) -> Result<DueTicks, Error> {
    let until = start.saturating_add(clock.ticks(plan.lasts));
    let load = LoadPlan { rate: plan.rate, hertz: clock.hertz, start, until, burst: 1 };
    let due = match plan.law {
        Law::Constant => DueTicks::constant(&load),
        Law::Poisson(seed) => DueTicks::poisson(&load, seed),
    };
    due.map_err(Error::input)
}

fn wrapped(plan: &GeneratorPlan, tuple: &[u8]) -> Wrapped {
    match &plan.transport {
        Transport::Tcp | Transport::Udp => Wrapped { head: Vec::new(), tail: Vec::new() },
        Transport::Http { path } => http::request(&plan.address, path, tuple),
        Transport::Zmq => zmtp::message(tuple),
        Transport::Kafka { .. } => kafka::record(tuple),
    }
}

/// The counter that stamps of this node are read from.
#[derive(Clone, Copy)]
struct NodeClock {
    counter: NodeCounter,
    hertz: u64,
}

impl NodeClock {
    fn of_this_host() -> Result<Self, Error> {
        let counter = NodeCounter::from_environment().map_err(Error::input)?;
        let facts = CounterFacts::of_this_host().map_err(Error::work)?;
        Ok(Self { counter, hertz: facts.frequency.hertz })
    }

    fn now(&self) -> i64 {
        self.counter.read(Ordering::Before)
    }

    fn ticks(&self, duration: Duration) -> i64 {
        (duration.as_nanos() * u128::from(self.hertz) / 1_000_000_000) as i64
    }
}

/// One sender.
#[derive(Clone, Copy)]
struct Sending<'a> {
    plan: &'a GeneratorPlan,
    clock: NodeClock,
    share: Share,
    start: i64,
    stop: &'a AtomicBool,
}

/// A sender's own channels; they belong to its thread.
struct Points {
    is_due: Channel,
    is_sent: Channel,
}

impl Points {
    fn open() -> Result<Self, OpenError> {
        let is_due = Channel::open("due", Ordering::Plain, Fields::Slim)?;
        Ok(Self { is_due, is_sent: Channel::open("send", Ordering::Before, Fields::Slim)? })
    }
}

/// Time in which the socket took nothing, ticks.
#[derive(Clone, Copy, Default)]
struct Blocked {
    all: i64,
    longest: i64,
}

impl Sending<'_> {
    fn send(
        self,
        due: DueTicks,
        mut wrapped: (Frames, Option<Batches>),
        mut link: Link,
        points: Points,
    ) -> Result<Tally, OpenError> {
        let progress = Progress::default();
        thread::scope(|scope| {
            let reader = link.reader().ok().filter(|_| self.plan.replies != Replies::None);
            let replies = reader.map(|link| scope.spawn(|| self.read(link, &progress)));
            let tally = self.paced(due, &mut wrapped, &mut link, (points, &progress));
            progress.done.store(true, Relaxed);
            self.linger(&mut link, || replies.as_ref().is_some_and(ScopedJoinHandle::is_finished));
            progress.over.store(true, Relaxed);
            let mut tally = tally;
            if let Some(replies) = replies {
                let (counts, why) = replies.join().expect("a reader does not panic")?;
                tally.replies = Some(counts);
                tally.ended = tally.ended.take().or(why);
            }
            Ok(tally)
        })
    }

    fn read(self, link: Link, progress: &Progress) -> Result<(ReplyCounts, Option<String>), OpenError> {
        let channel = Channel::open("reply", Ordering::After, Fields::Slim)?;
        let (form, id, share) = (self.plan.replies, self.plan.id, self.share);
        let tuple_bytes = self.plan.tuples.all()[0].len();
        let (refusals, echoed) = (None, Vec::new());
        Ok(Reader { link, form, tuple_bytes, id, share, progress, channel, refusals, echoed }.read())
    }

    /// Sends what is due when it is due.
    fn paced(
        self,
        due: DueTicks,
        (frames, batches): &mut (Frames, Option<Batches>),
        link: &mut Link,
        (Points { is_due, is_sent }, progress): (Points, &Progress),
    ) -> Tally {
        let mut pacer = Pacer::new(due, || self.clock.now(), self.clock.ticks(self.plan.late) as u64);
        let (mut blocked, mut number, mut bytes, mut ended) = (Blocked::default(), 0, 0, None);
        let most_at_once = batches.as_ref().map_or(MOST_AT_ONCE, |_| Batches::most(frames.longest()));
        while ended.is_none()
            && let Some(first) = self.next(&mut pacer)
        {
            let most = if link.takes_one_by_one() { 1 } else { most_at_once.min(frames.in_one_piece(number)) };
            let (mut release, from) = (Some(first), number);
            while let Some(due) = release {
                is_due.record(self.share.id(number), due.due);
                is_sent.stamp(self.share.id(number));
                frames.prepare(number);
                number += 1;
                release = if number - from < most { pacer.poll() } else { None };
            }
            progress.sent.store(number, Relaxed);
            let piece = frames.piece(from, number - from);
            let piece = batches.as_mut().map_or(piece, |batches| batches.request(piece, number - from));
            bytes += piece.len() as u64;
            match self.write(link, piece, &mut blocked, |ticks| pacer.held_up(ticks)) {
                Ok(true) => {}
                Ok(false) => break,
                Err(why) => ended = Some(why),
            }
        }
        let pill = self.plan.pill.filter(|_| ended.is_none() && pacer.due().is_none());
        if let Some(pill) = pill {
            let record = frames.with_id(number, pill);
            let frame = batches.as_mut().map_or(&record[..], |batches| batches.request(&record, 1));
            is_sent.stamp(pill);
            bytes += frame.len() as u64;
            ended = self.write(link, frame, &mut blocked, |ticks| pacer.held_up(ticks)).err();
        }
        let lasted_ticks = (self.clock.now() - self.start).max(1) as u64;
        let [blocked_ticks, blocked_longest_ticks] = [blocked.all, blocked.longest].map(i64::unsigned_abs);
        let lateness = pacer.end();
        Tally { lateness, bytes, blocked_ticks, blocked_longest_ticks, lasted_ticks, replies: None, ended }
    }

    /// The next tuple once it is due: asleep while that is far away, for a sender that spins takes a core.
    fn next<C: FnMut() -> i64>(self, pacer: &mut Pacer<C>) -> Option<Release> {
        let near = self.clock.ticks(NEAR);
        while !self.stop.load(Relaxed) {
            let due = pacer.due()?;
            match due - self.clock.now() {
                away if away > near => {
                    let ns = i128::from(away - near) * 1_000_000_000 / i128::from(self.clock.hertz);
                    thread::sleep(Duration::from_nanos(ns as u64).min(LONGEST_SLEEP));
                }
                _ => return pacer.wait(),
            }
        }
        None
    }

    /// Writes all of it; false: the target takes nothing, and time is over; an error is why the load ends here.
    fn write(
        self,
        link: &mut Link,
        mut rest: &[u8],
        blocked: &mut Blocked,
        mut held_up: impl FnMut(i64),
    ) -> Result<bool, String> {
        let ends = self.start + self.clock.ticks(self.plan.lasts) + self.clock.ticks(self.plan.linger);
        while !rest.is_empty() {
            match link.write(rest) {
                Ok(Took::Bytes(bytes)) => rest = &rest[bytes..],
                Ok(Took::Nothing) => {
                    let from = self.clock.now();
                    while !link.wait_writable() && self.clock.now() < ends && !self.stop.load(Relaxed) {}
                    let now = self.clock.now();
                    held_up(now - from);
                    blocked.all += now - from;
                    blocked.longest = blocked.longest.max(now - from);
                    if now >= ends || self.stop.load(Relaxed) {
                        return Ok(false);
                    }
                }
                Err(e) => return Err(format!("the connection to {} was lost: {e}", self.plan.address)),
            }
        }
        Ok(true)
    }

    /// Waits until all has its reply; where none is waited for, says that nothing follows, and waits until the target
    /// ends the connection.
    fn linger(self, link: &mut Link, is_replied: impl Fn() -> bool) {
        let ends = self.clock.now() + self.clock.ticks(self.plan.linger);
        let goes_on = || self.clock.now() < ends && !self.stop.load(Relaxed);
        if self.plan.replies != Replies::None {
            while goes_on() && !is_replied() {
                thread::sleep(Duration::from_millis(1));
            }
            return;
        }
        link.end();
        let mut scrap = [0; 4096];
        while goes_on() && !link.takes_one_by_one() {
            match link.read(&mut scrap) {
                Ok(Took::Nothing) => _ = link.wait_readable(),
                Ok(Took::Bytes(bytes)) if bytes > 0 => {}
                _ => return,
            }
        }
    }
}
