//! A load that runs: busy processes, further readers of the clock that is measured, or pairs of processes that send
//! each other messages, steady or injected at fixed intervals.
//!
//! A member is a process of its own, because the kernel shares processors out among processes and some clocks count
//! their process's time; further readers of a clock that lies in this process's memory (the mutex's, the ticker's) are
//! threads. Those at rest sleep. A reader that rests for less than the kernel can wake it in spins without reading, so
//! that pulses as short as a reading can be made; a busy process never does, as its load is its processor's time. Of a
//! pair the first works and rests as a reader does, an exchange in the place of a reading; the second answers.
//!
//! Guarantees: every member has ended once this is dropped. How often members worked is counted, because a load that is
//! put aside itself works less often than asked.

use std::io;
use std::os::unix::net::UnixDatagram;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use tickscope_counter as counter;
use tickscope_host::affinity;
use tickscope_host::busy_processes::BusyProcesses;
use tickscope_tick::Frequency;

use super::clock::Clock;
use super::service::{Job, Service};
use super::shared_counts::SharedCounts;
use crate::load::{Injection, Load, LoadKind};

/// The members of a load, ended when this is dropped.
pub struct RunningLoad {
    _processes: BusyProcesses,
    _threads: Threads,
    /// Keeps alive the clock that replicas read.
    _service: Arc<Service>,
    work: Arc<Work>,
    count: u32,
    begun_tick: i64,
    frequency: Frequency,
}

/// State shared with all members: their schedule, and their counts.
struct Work {
    injected: Option<Turns>,
    /// The counter when the first turn of all members is due: they work and rest together.
    origin: i64,
    over: AtomicBool,
    /// In memory that processes share: at [`TURNS`] turns begun by all members, at [`READY`] members that came to work.
    begun: SharedCounts,
}

const TURNS: usize = 0;
const READY: usize = 1;
/// How long members may take to come, on a machine that has too little to give.
const PATIENCE: Duration = Duration::from_secs(20);

/// An injection in ticks.
#[derive(Clone, Copy)]
struct Turns {
    length: i64,
    period: i64,
    frequency: Frequency,
    rest: Rest,
}

/// How a member rests.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Rest {
    Asleep,
    /// Spinning, if for less than sleep is good for.
    SpinningIfShort,
}

struct Threads(Vec<JoinHandle<()>>, Arc<Work>);

impl RunningLoad {
    /// Starts `count` members while that clock is read, pinned as the load says, and waits until each is at work;
    /// `cpus` are those allowed.
    pub fn start(
        load: &Load,
        count: u32,
        clock: Clock,
        service: &Arc<Service>,
        cpus: &[usize],
        frequency: Frequency,
    ) -> io::Result<Self> {
        let rest = if load.kind == LoadKind::Spin { Rest::Asleep } else { Rest::SpinningIfShort };
        let turns = |injected: Injection| Turns::of(injected, frequency, rest);
        let work = Arc::new(Work {
            injected: load.injected.map(turns),
            origin: counter::plain(),
            over: AtomicBool::new(false),
            begun: SharedCounts::new()?,
        });
        let mut processes = BusyProcesses::start(0)?;
        let mut threads = Threads(Vec::new(), Arc::clone(&work));
        for number in 0..count as usize {
            let cpu = processor(load, cpus, number);
            match load.kind {
                LoadKind::Spin => processes.add(|| {
                    settle(cpu);
                    Member(&work).run(|| {
                        std::hint::spin_loop();
                        0
                    });
                })?,
                LoadKind::Replica if matches!(clock, Clock::Mutex | Clock::Ticker) => {
                    let (service, work) = (Arc::clone(service), Arc::clone(&work));
                    threads.0.push(thread::Builder::new().spawn(move || {
                        settle(cpu);
                        let reader = service.reader().expect("a clock in memory can always be reached");
                        reader.drive(Member(&work));
                    })?);
                }
                LoadKind::Messages => {
                    let (first, second) = UnixDatagram::pair()?;
                    processes.add(|| {
                        settle(cpu);
                        answer(&second);
                    })?;
                    processes.add(|| {
                        settle(cpu);
                        Member(&work).run(|| exchange(&first));
                    })?;
                }
                LoadKind::Replica => {
                    // Made before the fork: its child may not allocate.
                    let reader = service.reader()?;
                    processes.add(|| {
                        settle(cpu);
                        reader.drive(Member(&work));
                    })?;
                }
            }
        }
        work.await_members(count.into())?;
        let begun_tick = counter::plain();
        Ok(Self {
            _processes: processes,
            _threads: threads,
            _service: Arc::clone(service),
            work,
            count,
            begun_tick,
            frequency,
        })
    }

    /// The counter when the first turn was due.
    pub fn origin(&self) -> i64 {
        self.work.origin
    }

    /// Ticks from one turn to the next; `None`: the load does not work in turns.
    pub fn period(&self) -> Option<i64> {
        self.work.injected.map(|turns| turns.period)
    }

    /// Turns that each member began, a second, since the start; `None`: there are none to begin.
    pub fn turns_per_s(&self) -> Option<f64> {
        self.work.injected.filter(|_| self.count > 0)?;
        let seconds = (counter::plain() - self.begun_tick) as f64 / self.frequency.hertz as f64;
        Some(self.work.begun.all()[TURNS].load(Relaxed) as f64 / f64::from(self.count) / seconds)
    }
}

impl Work {
    fn await_members(&self, count: u64) -> io::Result<()> {
        let until = Instant::now() + PATIENCE;
        let ready = || self.begun.all()[READY].load(Relaxed);
        while ready() < count {
            if Instant::now() > until {
                let (seconds, ready) = (PATIENCE.as_secs(), ready());
                return Err(io::Error::other(format!("within {seconds} s only {ready} members began to work")));
            }
            thread::sleep(Duration::from_micros(100));
        }
        Ok(())
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.1.over.store(true, Relaxed);
        for thread in self.0.drain(..) {
            let _ = thread.join();
        }
    }
}

/// Where a member is pinned; `None`: nowhere.
fn processor(load: &Load, cpus: &[usize], number: usize) -> Option<usize> {
    match (load.cpus.as_slice(), load.kind) {
        ([], LoadKind::Spin | LoadKind::Messages) => None,
        // The measured reader has the first.
        ([], LoadKind::Replica) => Some(cpus[(number + 1) % cpus.len()]),
        (asked, _) => Some(asked[number % asked.len()]),
    }
}

/// Where pinning is refused the scheduler places it.
fn settle(cpu: Option<usize>) {
    if let Some(cpu) = cpu {
        let _ = affinity::pin(cpu);
    }
    // SAFETY: takes numbers; sleeps of this thread then end within a nanosecond's slack, not 50 us late.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1_u64) };
}

/// Bytes of a message of a pair.
const MESSAGE: usize = 64;

/// Sends a message and waits for its answer, by system calls alone: the answer's length, 0 of none.
fn exchange(socket: &UnixDatagram) -> i64 {
    let mut message = [0; MESSAGE];
    let answered = socket.send(&message).and_then(|_| socket.recv(&mut message));
    answered.map_or(0, |bytes| bytes as i64)
}

/// Answers every message until this process is ended.
fn answer(socket: &UnixDatagram) {
    let mut message = [0; MESSAGE];
    while let Ok(bytes @ 1..) = socket.recv(&mut message) {
        let _ = socket.send(&message[..bytes]);
    }
}

/// The job of one member: works and rests until the load is ended.
struct Member<'a>(&'a Work);

impl Job for Member<'_> {
    type Output = ();

    fn run(self, mut read: impl FnMut() -> i64) {
        let Work { injected, origin, over, begun } = self.0;
        let Some(turns) = injected else {
            begun.all()[READY].fetch_add(1, Relaxed);
            while !over.load(Relaxed) {
                std::hint::black_box(read());
            }
            return;
        };
        // Who comes late joins the turn that is going on.
        let mut due = origin + (counter::plain() - origin).max(0) / turns.period * turns.period;
        for turn in 0_u64.. {
            if over.load(Relaxed) {
                return;
            }
            begun.all()[TURNS].fetch_add(1, Relaxed);
            if turn == 0 {
                begun.all()[READY].fetch_add(1, Relaxed);
            }
            let until = due + turns.length;
            while counter::plain() < until {
                std::hint::black_box(read());
            }
            // A turn that was missed is not made up for: the next one begins when it is due.
            let missed = (counter::plain() - due).max(0) / turns.period;
            due += turns.period * (missed + 1);
            turns.rest_until(due, over);
        }
    }
}

impl Turns {
    fn of(injected: Injection, frequency: Frequency, rest: Rest) -> Self {
        let ticks = |ns: u32| (f64::from(ns) / frequency.nanoseconds(1.0)) as i64;
        Self { length: ticks(injected.length_ns), period: ticks(injected.period_ns).max(1), frequency, rest }
    }

    fn rest_until(self, due: i64, over: &AtomicBool) {
        /// Below this a sleep may end as late as it is long.
        const SLEEPABLE_NS: f64 = 200_000.0;
        /// So that a member that is to end does so before long.
        const SLEEP_NS_MAX: f64 = 50_000_000.0;
        loop {
            let left_ns = self.frequency.nanoseconds((due - counter::plain()) as f64);
            if left_ns <= 0.0 || over.load(Relaxed) {
                return;
            }
            if self.rest == Rest::SpinningIfShort && left_ns < SLEEPABLE_NS {
                std::hint::spin_loop();
                continue;
            }
            let pause = libc::timespec { tv_sec: 0, tv_nsec: left_ns.min(SLEEP_NS_MAX) as libc::c_long };
            // SAFETY: the kernel reads `pause`; a null pointer asks for nothing back.
            unsafe { libc::nanosleep(&pause, std::ptr::null_mut()) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FREQUENCY: Frequency = Frequency { hertz: 2_000_000_000, tolerance_ppm: 0 };

    fn started(load: &Load, count: u32, clock: Clock) -> RunningLoad {
        let cpus = affinity::allowed_cpus().unwrap();
        let service = Arc::new(Service::open(clock, cpus[0]).unwrap());
        RunningLoad::start(load, count, clock, &service, &cpus, FREQUENCY).unwrap()
    }

    /// Waits until the load was seen to work often.
    fn works(load: &RunningLoad) {
        while load.work.begun.all()[0].load(Relaxed) < 3 * u64::from(load.count) {
            thread::yield_now();
        }
    }

    #[test]
    fn every_kind_of_load_works_in_turns_and_ends_with_its_members() {
        let injected = Some(Injection { length_ns: 50_000, period_ns: 1_000_000 });
        for (kind, clock, threads) in [
            (LoadKind::Spin, Clock::Mutex, 0),
            (LoadKind::Messages, Clock::Mutex, 0),
            (LoadKind::Replica, Clock::UdpSocket, 0),
            (LoadKind::Replica, Clock::Mutex, 2),
            (LoadKind::Replica, Clock::Ticker, 2),
        ] {
            let load = started(&Load { kind, cpus: Vec::new(), injected }, 2, clock);
            assert_eq!(load._threads.0.len(), threads, "{kind:?} {clock}");
            works(&load);
            assert!(load.turns_per_s().is_some_and(|turns| turns > 0.0));
            let work = Arc::clone(&load.work);
            drop(load);
            // Nobody is left to count.
            let begun = work.begun.all()[0].load(Relaxed);
            thread::sleep(std::time::Duration::from_millis(20));
            assert_eq!(work.begun.all()[0].load(Relaxed), begun, "{kind:?} {clock}");
        }
    }

    #[test]
    fn every_message_of_a_pair_is_answered_whole_until_one_of_them_ends() {
        let (first, second) = UnixDatagram::pair().unwrap();
        let ends = second.try_clone().unwrap();
        let answering = thread::spawn(move || answer(&second));
        for _ in 0..100 {
            assert_eq!(exchange(&first), MESSAGE as i64);
        }
        ends.shutdown(std::net::Shutdown::Both).unwrap();
        answering.join().unwrap();
        assert_eq!(exchange(&first), 0);
    }

    #[test]
    fn a_member_rests_from_the_end_of_a_turn_until_the_next_one_is_due() {
        let turns = |length, period| Turns { length, period, frequency: FREQUENCY, rest: Rest::SpinningIfShort };
        // 200 turns of 10 us every 1 ms, by this test's frequency: the last begins 199 periods after the first at the
        // earliest.
        let work = Work {
            injected: Some(turns(20_000, 2_000_000)),
            origin: counter::plain(),
            over: AtomicBool::new(false),
            begun: SharedCounts::new().unwrap(),
        };
        let from = counter::plain();
        let mut last = from;
        Member(&work).run(|| {
            last = counter::plain();
            if work.begun.all()[0].load(Relaxed) >= 200 {
                work.over.store(true, Relaxed);
            }
            0
        });
        assert!(last - from >= 199 * 2_000_000 - 20_000, "{} ticks", last - from);
    }

    #[test]
    fn every_member_is_at_work_when_the_load_has_started() {
        for kind in [LoadKind::Spin, LoadKind::Replica, LoadKind::Messages] {
            let load = started(&Load { kind, ..Load::SPINNING }, 3, Clock::Mutex);
            assert_eq!(load.work.begun.all()[READY].load(Relaxed), 3, "{kind:?}");
        }
    }

    #[test]
    fn a_steady_load_begins_no_turns_and_none_is_told_of() {
        assert_eq!(started(&Load::SPINNING, 1, Clock::Mutex).turns_per_s(), None);
        let nobody = Load { injected: Some(Injection::by_turns(1_000)), ..Load::SPINNING };
        assert_eq!(started(&nobody, 0, Clock::Mutex).turns_per_s(), None);
    }

    #[test]
    fn members_are_pinned_in_turn_and_replicas_not_to_the_measured_readers_processor_first() {
        let at = |load: &Load| [0, 1, 2].map(|number| processor(load, &[4, 6], number));
        assert_eq!(at(&Load::SPINNING), [None; 3]);
        assert_eq!(at(&Load { kind: LoadKind::Messages, ..Load::SPINNING }), [None; 3]);
        assert_eq!(at(&Load { kind: LoadKind::Replica, ..Load::SPINNING }), [Some(6), Some(4), Some(6)]);
        assert_eq!(at(&Load { cpus: vec![6], ..Load::SPINNING }), [Some(6); 3]);
    }
}
