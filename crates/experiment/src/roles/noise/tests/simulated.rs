//! A simulated kernel whose truth is known, compared with what is answered about its noise: events of a trace with
//! switches left out and others overrun, counts of switches that are read now and then, and the recorder and the
//! analysis as they are.

use std::collections::BTreeSet;

use tickscope_analysis::HostNoise;
use tickscope_host::kernel_trace::{TaskName, TraceEdge};
use tickscope_host::switch_count::APART;
use tickscope_load::SplitMix;

use super::super::*;

const CORES: usize = 2;
/// Ticks of a run, of the time between two looks, and of a turn at most.
const RUN: i64 = 40_000_000;
const LOOK: i64 = 2_500_000;
const TURN: i64 = 900_000;
/// Two of ours, then others, by their numbers; one of them gets another number now and then.
const THREADS: [(i32, &str); 5] = [(7, "client"), (9, "server"), (8, "busy"), (11, "other"), (12, "kworker/1:2")];
const OWN: [i32; 2] = [7, 9];

/// Events that a kernel leaves out of its trace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum LeftOut {
    Nothing,
    /// Switches away from certain tasks, as this kernel does.
    OfCertainTasks,
    /// Any switch, now and then.
    Single,
    /// A switch and the one after it on its core, now and then.
    Pairs,
    /// The oldest events of a core, where they were not read in time.
    Overruns,
    /// Whatever the others leave out.
    All,
}

/// Somebody had a core, or interrupted who had it.
#[derive(Clone, Debug)]
struct Had {
    ticks: [i64; 2],
    thread: i32,
    /// `None`: the thread itself.
    interrupted_by: Option<&'static str>,
}

struct Simulated {
    random: SplitMix,
    left_out: LeftOut,
    now: i64,
    /// By core.
    truth: [Vec<Had>; CORES],
    /// By core: when it can be read, and what it is.
    events: [Vec<(i64, TraceEvent<'static>)>; CORES],
    /// By core: how many of these were read or overrun.
    read: [usize; CORES],
    lost: [u64; CORES],
    /// When the kernel counted each switch, in order.
    counted: Vec<i64>,
}

fn name(thread: i32) -> &'static str {
    THREADS.iter().find(|(number, _)| *number == thread % 100).map_or("swapper/0", |(_, name)| name)
}

impl Simulated {
    fn of(seed: u64, left_out: LeftOut) -> Self {
        let mut simulated = Self {
            random: SplitMix::new(seed),
            left_out,
            now: 1_000_000,
            truth: [const { Vec::new() }; CORES],
            events: [const { Vec::new() }; CORES],
            read: [0; CORES],
            lost: [0; CORES],
            counted: Vec::new(),
        };
        simulated.happen();
        simulated
    }

    fn below(&mut self, limit: i64) -> i64 {
        self.random.below(limit as u64) as i64
    }

    fn one_in(&mut self, chances: i64) -> bool {
        self.below(chances) == 0
    }

    fn leaves_out(&self, kind: LeftOut) -> bool {
        [kind, LeftOut::All].contains(&self.left_out)
    }

    /// Everything that happens, and the trace of it.
    fn happen(&mut self) {
        let silent = [0, THREADS[self.below(5) as usize].0].map(|thread| (thread, self.below(CORES as i64) as usize));
        let (mut has, mut since, mut tick) = ([0; CORES], [0; CORES], 0);
        let mut leaves_out_next = [false; CORES];
        let (rare, turn) = (4 << self.below(4), TURN >> self.below(4));
        while tick < RUN {
            tick += 1 + self.below(turn / CORES as i64);
            let core = self.below(CORES as i64) as usize;
            let from = has[core];
            let next = match self.below(5) as usize {
                other if from == 0 || self.one_in(2) => THREADS[other].0,
                _ => 0,
            };
            let runs = |thread: i32| has.iter().any(|has| has % 100 == thread % 100);
            if next == from % 100 || next != 0 && runs(next) {
                self.interrupt(core, from, tick);
                continue;
            }
            self.truth[core].push(Had { ticks: [since[core], tick], thread: from, interrupted_by: None });
            (has[core], since[core]) = (next, tick);
            let counted = tick + self.below(APART) - APART / 2;
            self.counted.push(counted);
            let is_first = std::mem::take(&mut leaves_out_next[core]);
            let pair = !is_first && self.leaves_out(LeftOut::Pairs) && self.one_in(rare);
            leaves_out_next[core] = pair;
            let is_silent = self.leaves_out(LeftOut::OfCertainTasks) && silent.contains(&(from, core));
            if is_first || pair || is_silent || self.leaves_out(LeftOut::Single) && self.one_in(rare) {
                continue;
            }
            let departure = [Departure::Waits, Departure::Preempted][self.below(2) as usize];
            let [from_name, name] = [from, next].map(|thread| TaskName::of(name(thread).as_bytes()));
            self.trace(
                core,
                tick,
                TraceEvent::Switch { tick, from, from_name, next, name, departure: Some(departure) },
            );
            if next > 0 && !OWN.contains(&next) && self.one_in(8) {
                // It runs a program, and has the number of its leader from then on.
                tick += 1 + self.below(2000);
                self.truth[core].push(Had { ticks: [since[core], tick], thread: next, interrupted_by: None });
                (has[core], since[core]) = (next + 100, tick);
                self.trace(core, tick, TraceEvent::Renumbered { tick, from: next, to: next + 100, name });
            }
        }
        for (core, (thread, since)) in has.into_iter().zip(since).enumerate() {
            self.truth[core].push(Had { ticks: [since, RUN + LOOK], thread, interrupted_by: None });
        }
        self.counted.sort_unstable();
    }

    /// A timer or a page fault within a turn.
    fn interrupt(&mut self, core: usize, thread: i32, tick: i64) {
        let edge = |class, tick, what: &'static str| TraceEdge { class, tick, what: what.into(), thread };
        if thread > 0 && self.one_in(2) {
            self.truth[core].push(Had { ticks: [tick; 2], thread, interrupted_by: Some("page fault") });
            return self.trace(core, tick, TraceEvent::Fault(edge(Class::Fault, tick, "page fault")));
        }
        let timer = |tick| edge(Class::Interrupt, tick, "local_timer");
        self.truth[core].push(Had { ticks: [tick, tick + 1], thread, interrupted_by: Some("local_timer") });
        self.trace(core, tick, TraceEvent::Entry(timer(tick)));
        self.trace(core, tick + 1, TraceEvent::Exit(timer(tick + 1)));
    }

    fn trace(&mut self, core: usize, tick: i64, event: TraceEvent<'static>) {
        let readable = tick + self.below(20_000);
        self.events[core].push((readable, event));
    }

    /// What truly disturbed two threads between two ticks: what certainly did, and what may be said to have.
    fn disturbed(&self, ends: [(i64, i32); 2]) -> [BTreeSet<&'static str>; 2] {
        let [lo, hi] = [ends[0].0.min(ends[1].0), ends[0].0.max(ends[1].0)];
        let is_asked = |thread: i32| ends.iter().any(|(_, of)| *of == thread);
        let touches = |had: &&Had| had.ticks[0] <= hi && had.ticks[1] >= lo;
        let overlaps = |had: &&Had| had.ticks[0] < hi && had.ticks[1] > lo;
        let disturbs = |had: &&Had| match had.interrupted_by {
            Some(_) => is_asked(had.thread),
            None => had.thread > 0 && !OWN.contains(&had.thread),
        };
        let name = |had: &Had| had.interrupted_by.unwrap_or(name(had.thread));
        let of = |is_there: &dyn Fn(&&Had) -> bool| {
            let cores = self.truth.iter().filter(|core| core.iter().filter(is_there).any(|had| is_asked(had.thread)));
            cores.flat_map(|core| core.iter().filter(is_there).filter(disturbs).map(name)).collect()
        };
        [of(&overlaps), of(&touches)]
    }

    /// A tick at which a thread had a core, near another.
    fn stamp(&mut self, thread: i32, near: i64) -> Option<(i64, i32)> {
        let tick = near + self.below(LOOK) - LOOK / 2;
        let has = |had: &Had| had.thread == thread && had.ticks[0] < tick && tick < had.ticks[1];
        self.truth.iter().flatten().any(has).then_some((tick, thread))
    }
}

impl Kernel for Simulated {
    fn cores(&self) -> Vec<i32> {
        (0..CORES as i32).collect()
    }

    fn missing(&self) -> Vec<&'static str> {
        Vec::new()
    }

    fn now(&mut self, _: Ordering) -> i64 {
        self.now += 1 + self.below(1000);
        self.now
    }

    fn switches(&mut self) -> Result<CountReading, String> {
        let [from, at, until] = [1, 2000, 2000].map(|most| {
            self.now += self.below(most);
            self.now
        });
        let switches = 1000 + self.counted.partition_point(|counted| *counted <= at) as u64;
        Ok(CountReading { ticks: [from, until], switches })
    }

    fn read(&mut self, at: usize, wants_more: &mut dyn FnMut(TraceEvent<'_>) -> bool) -> Result<(), String> {
        if self.leaves_out(LeftOut::Overruns) && self.one_in(12) {
            let unread = &self.events[at][self.read[at]..];
            let most = unread.iter().take_while(|(readable, _)| *readable <= self.now).count();
            let lost = self.below(most as i64 + 1) as usize;
            self.read[at] += lost;
            self.lost[at] += lost as u64;
        }
        loop {
            self.now += self.below(300);
            let mut wants = true;
            for _ in 0..1 + self.random.below(40) {
                // One that cannot be read yet holds back those behind it.
                let Some((_, event)) = self.events[at].get(self.read[at]).filter(|(readable, _)| *readable <= self.now)
                else {
                    return Ok(());
                };
                self.read[at] += 1;
                wants &= wants_more(event.clone());
            }
            if !wants {
                return Ok(());
            }
        }
    }

    fn lost(&mut self, at: usize) -> Result<u64, String> {
        Ok(std::mem::take(&mut self.lost[at]))
    }

    fn stop(&mut self) -> Result<(), String> {
        Ok(())
    }
}

/// Answers to questions about some runs.
#[derive(Debug, Default)]
struct Answers {
    asked: u64,
    undisturbed: u64,
    disturbed: u64,
    wrong: Vec<String>,
}

fn ask(seed: u64, left_out: LeftOut, answers: &mut Answers) {
    let mut recording = Recording::of(Simulated::of(seed, left_out), 0, NoiseEvents::All);
    // Every other recorder is killed in mid-run, and what it told until then is asked.
    let is_killed = recording.kernel.one_in(2);
    let until = if is_killed { recording.kernel.below(RUN) } else { RUN };
    while recording.kernel.now < until {
        recording.look().unwrap();
        if recording.kernel.one_in(4) {
            recording.tell();
        }
        recording.kernel.now += LOOK / 2 + recording.kernel.below(LOOK);
    }
    if !is_killed {
        recording.end().unwrap();
    }
    let host = HostNoise::of(recording.columns.rows());
    let mut kernel = recording.kernel;
    for _ in 0..60 {
        let near = kernel.below(RUN + LOOK);
        let threads = [(); 2].map(|()| OWN[kernel.below(2) as usize]);
        let [Some(one), Some(other)] = threads.map(|thread| kernel.stamp(thread, near)) else { continue };
        answers.asked += 1;
        let Some(found) = host.between([one, other], &OWN) else { continue };
        let found: BTreeSet<_> = found.into_iter().map(|(_, what)| what.as_str()).collect();
        let [certain, possible] = kernel.disturbed([one, other]);
        // Of a task that came unseen no event may have said its name.
        let is_true = |what: &&str| possible.contains(what) || *what == "<...>" && !possible.is_empty();
        if found.is_empty() && !certain.is_empty() || !found.iter().all(is_true) {
            let told = format!("seed {seed}, {one:?}, {other:?}: it answers {found:?}, and the truth is {certain:?}");
            answers.wrong.push(told);
        }
        *if found.is_empty() { &mut answers.undisturbed } else { &mut answers.disturbed } += 1;
    }
}

#[test]
fn property_whatever_the_trace_lacks_no_answer_is_false() {
    use LeftOut::{All, Nothing, OfCertainTasks, Overruns, Pairs, Single};
    let seeds = if std::env::var_os("TICKSCOPE_TESTS").is_some() { 2000 } else { 150 };
    for left_out in [Nothing, OfCertainTasks, Single, Pairs, Overruns, All] {
        let mut answers = Answers::default();
        (0..seeds).for_each(|seed| ask(seed, left_out, &mut answers));
        let Answers { asked, undisturbed, disturbed, wrong } = answers;
        assert!(wrong.is_empty(), "{left_out:?}: {} of {asked}: {wrong:#?}", wrong.len());
        let few = if left_out == All { 0 } else { asked / 100 };
        assert!(undisturbed > few && disturbed > few, "{left_out:?}: {undisturbed}, {disturbed} of {asked}");
    }
}
