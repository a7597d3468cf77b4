//! A benchmark in plain words, for someone who has to pick a clock and does not know how it was measured.
//!
//! Every sentence names its figure. "19 of 20" is the share of measurements that a statement is about: the rest were
//! interrupted, and no clock can help that. Nothing here is a bound.
//!
//! Guarantees, tested on studies made at random: no sentence recommends what a table marks as harmful, and none says
//! that something never happened of which nothing was seen.

use crate::benchmark::{Across, Benchmark, Cell, ClockResult, LoadResult};
use crate::compensation::Method;
use crate::correction::Correction;
use crate::factor::Side;
use crate::load::LoadKind;
use crate::measure::Unit;
use crate::tick_choice::TickChoice;

/// The chapter that is the same for every machine: pages hold it, a terminal need not.
pub const ORDERINGS: &str = "Which reading of the counter for what";

/// Sentences under a heading.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Chapter {
    /// The heading.
    pub head: &'static str,
    /// The sentences.
    pub sentences: Vec<String>,
}

impl Benchmark {
    /// Advice for this host, the most important first: what to read and to subtract, for sections of which length it
    /// will do, and what to beware of.
    pub fn advice(&self) -> Vec<String> {
        self.chapters().into_iter().flat_map(|chapter| chapter.sentences).collect()
    }

    /// The same in chapters, none of them empty.
    pub fn chapters(&self) -> Vec<Chapter> {
        let first = [self.unoptimised(), self.over(), self.trapped()].into_iter().flatten().collect();
        let beware = [
            self.speed_words(),
            self.step_words(),
            self.shared(),
            self.still(),
            self.crowded(),
            self.loaded(),
            self.refused(),
            self.assumption(),
            self.tick_words(),
        ];
        let chapters = [
            ("Before all", first),
            ("To time a section of code within one thread", self.corrections()),
            ("How short a section may be, under the worst of these loads", self.lengths()),
            (ORDERINGS, self.ordering_words()),
            ("What to know of this machine's clocks", beware.into_iter().flatten().collect()),
            ("How far to trust this", self.trust()),
        ];
        let chapters = chapters.into_iter().map(|(head, sentences)| Chapter { head, sentences });
        chapters.filter(|chapter| !chapter.sentences.is_empty()).collect()
    }

    /// Contradictions of a clock's promises.
    pub fn findings(&self) -> Vec<String> {
        let promised = |clock: &&ClockResult| clock.promises_order();
        let mut findings: Vec<String> = self.clocks.iter().filter(promised).filter_map(ClockResult::backward).collect();
        if self.counter.trapped {
            let name = &self.counter.name;
            findings.push(format!(
                "expected to read the {name} directly, found readings that are trapped; let the hypervisor pass it \
                 through"
            ));
        }
        findings
    }

    fn unoptimised(&self) -> Option<String> {
        let why = "this program was built without optimisation: costs hold its own; build it with --release";
        (!self.optimised).then(|| why.into())
    }

    fn over(&self) -> Option<String> {
        let (read, all) = (self.clocks.len(), self.clocks.len() + self.absent.len());
        let seconds = self.plan.seconds;
        self.cut_short.then(|| {
            format!("--seconds {seconds} were over before all was read, {read} of {all} clocks were: ask for more")
        })
    }

    fn trapped(&self) -> Option<String> {
        let (name, behind) = (&self.counter.name, self.counter.hypervisor.as_deref().unwrap_or("no hypervisor"));
        self.counter.trapped.then(|| {
            format!(
                "reading the {name} is trapped (hypervisor: {behind}): every stamp disturbs what it measures; let the \
                 hypervisor pass it through, or measure on the host"
            )
        })
    }

    /// The clock to read, the correction and its accuracy: by the counter, and by the kernel's clock.
    fn corrections(&self) -> Vec<String> {
        let mut corrections = Vec::new();
        if let Some(clock) = self.counter_clock().filter(|_| !self.counter.trapped) {
            let (instructions, name) = (instructions(&clock.clock), &clock.clock);
            let ticks = self.counter.hertz as f64 / 1e9;
            let to = format!(
                "read '{name}' ({instructions}) right before the section and again right after it, and take the \
                 difference; {ticks:.3} \
                 ticks are 1 ns"
            );
            corrections.extend(self.correction(clock, &to));
        }
        if let Some(clock) = self.kernel_clock() {
            let name = &clock.clock;
            let to = format!(
                "or by the kernel's clock, where the counter is out of reach: read '{name}' (clock_gettime({})) right \
                 before and right after",
                posix_name(name)
            );
            corrections.extend(self.correction(clock, &to));
        }
        corrections
    }

    fn correction(&self, clock: &ClockResult, to: &str) -> Vec<String> {
        let percent = self.plan.percent;
        let (mut words, mut explained): (Vec<String>, _) = (Vec::new(), Vec::new());
        for load in &clock.loads {
            let correction = load.correction(percent);
            let loaded = self.plan.load.phrase(load.busy_processes);
            let subtraction = match explained.contains(&correction.method) && correction.method != Method::None {
                true => format!("subtract {} by '{}' as above", self.number(clock, correction), correction.method),
                false => self.subtraction(clock, load, correction),
            };
            explained.push(correction.method);
            let as_well = self.constant_instead(clock, load).map_or_else(String::new, |instead| format!(". {instead}"));
            let worth = capital(&worth(correction, percent));
            words.push(match words.is_empty() {
                true => format!(
                    "{to}. The difference holds about one reading. {}: {subtraction}. {worth}{as_well}",
                    capital(&loaded)
                ),
                false => format!("'{}' {loaded}: {subtraction}. {worth}{as_well}", clock.clock),
            });
        }
        words
    }

    fn subtraction(&self, clock: &ClockResult, load: &LoadResult, correction: Correction) -> String {
        let (number, method) = (self.number(clock, correction), correction.method);
        match method {
            Method::None => format!("subtract nothing: {}", why_nothing(load, correction)),
            Method::Constant | Method::LongTerm => {
                format!("subtract {number}, the same from every section (method '{method}')")
            }
            Method::NearestPairs => format!(
                "subtract about {number}, found anew for each section: read four times, r1 and r2 in a row right \
                 before it, r3 and r4 right after it. The section took r3 - r2, less the mean of r2 - r1 and r4 - r3, \
                 which is about that number (method '{method}')"
            ),
            Method::Sampler => format!(
                "subtract about {number}, found anew for each section: a thread on another processor keeps reading \
                 twice in a row, \
                 and the mean of its gaps nearest to start and end is subtracted (method '{method}')"
            ),
        }
    }

    /// Says that one number for all sections does as well as one found anew for each, where it does.
    fn constant_instead(&self, clock: &ClockResult, load: &LoadResult) -> Option<String> {
        /// A gain below this is not worth four readings instead of two.
        const AS_WELL_NS: f64 = 1.0;
        let correction = load.correction(self.plan.percent);
        let [anew, constant] = [correction.method, Method::Constant].map(|method| load.zero.outcome(method));
        let (anew, constant) = (anew?, constant?);
        let found_anew = matches!(correction.method, Method::NearestPairs | Method::Sampler);
        // Offered for what the half that was fitted on says, and only where the other half bears it out.
        let promised = constant.error_fitted < anew.error_fitted + AS_WELL_NS && constant.drift_fitted <= AS_WELL_NS;
        let confirmed = constant.error < anew.error + AS_WELL_NS && constant.residual_median.abs() <= AS_WELL_NS;
        let number = || self.number(clock, Correction { subtract_ns: constant.subtracts, ..correction });
        (found_anew && promised && confirmed && !load.harmed_by(Method::Constant))
            .then(|| format!("Always subtracting {} instead is simpler, and here worse by less than 1 ns", number()))
    }

    /// In the clock's own unit too, where that is not a nanosecond.
    fn number(&self, clock: &ClockResult, correction: Correction) -> String {
        let ns = duration(correction.subtract_ns);
        match clock.unit {
            Unit::Nanoseconds => ns,
            Unit::Ticks => format!("{ns} ({:.0} ticks)", correction.subtract_ns * self.counter.hertz as f64 / 1e9),
        }
    }

    /// Accuracy of one timing of a section, by its length, under the worst of the loads.
    fn lengths(&self) -> Vec<String> {
        const LENGTHS_NS: [f64; 4] = [100.0, 1e3, 1e4, 1e6];
        let percent = self.plan.percent;
        let clock =
            if self.counter.trapped { self.kernel_clock() } else { self.counter_clock().or(self.kernel_clock()) };
        let worst = |clock: &ClockResult| {
            let corrections = clock
                .loads
                .iter()
                .map(|load| load.correction(percent))
                .filter(|correction| correction.good_to_ns.is_some());
            corrections.max_by(|a, b| a.good_to_ns.partial_cmp(&b.good_to_ns).expect("no figure is NaN"))
        };
        let Some((clock, correction)) = clock.and_then(|clock| Some((clock, worst(clock)?))) else { return Vec::new() };
        let (Some(good_to_ns), name) = (correction.good_to_ns, &clock.clock) else { return Vec::new() };
        let off = |length_ns: f64| good_to_ns * 100.0 / length_ns;
        let length = |ns: f64| duration(ns).replace(".0", "");
        let (mut short, mut enough) = (Vec::new(), Vec::new());
        for length_ns in LENGTHS_NS {
            match correction.repeats(length_ns) {
                None => {}
                Some(1) => enough.push(format!("{} of {}", percentage(off(length_ns)), length(length_ns))),
                Some(times) => {
                    let known = match off(length_ns) {
                        off if off < 100.0 => format!("is good to {} only", percentage(off)),
                        _ => "gives no usable figure".into(),
                    };
                    short.push(format!(
                        "a section of {}: one timing by '{name}' {known}. For {}, run it {times} times between the two \
                         readings, subtract \
                         once and divide by {times}: the mean of runs back to back",
                        length(length_ns),
                        asked(percent)
                    ));
                }
            }
        }
        if !enough.is_empty() {
            short.push(format!(
                "longer sections: one timing by '{name}' will do. Where nothing interrupts, it is good to {}",
                enough.join(", ")
            ));
        }
        short
    }

    /// Meaning of the orderings of the counter (`plain`, `before`, `after`), and where to use each.
    fn ordering_words(&self) -> Vec<String> {
        let Some(clock) = self.counter_clock() else { return Vec::new() };
        let name = &self.counter.name;
        vec![
            format!(
                "why '{}': it waits until all that comes before it is done. Read at the start it leaves out what came \
                 before the section, though the section may begin while it is read; read at the end the section is \
                 over. '{name} plain' waits for nothing, and the processor may read it some tens of ns early or late: \
                 only for sections that are much longer. Its figures below do not show that, for in them there is no \
                 code to be moved",
                clock.clock
            ),
            format!(
                "from one thread or process to another: read '{name} before' ({}) right before the message leaves and \
                 '{name} after' right after it was seen, and subtract nothing. The difference is too long by the two \
                 readings and by how late the message was seen; it is never shorter than the truth by more than the \
                 processors' counters disagree, which 'tickscope doctor' bounds",
                instructions(&format!("{name} before"))
            ),
            "a longest duration that is guaranteed, instead of one that is good in 19 of 20: tickscope_section.h (C, \
             C++), tickscope_clock::section (Rust), tickscope.section() (Python)"
                .into(),
        ]
    }

    /// How wide a reading of the counter is.
    fn step_words(&self) -> Option<String> {
        let clock = self.counter_clock()?;
        let (name, step) = (&self.counter.name, &clock.step);
        let width = duration(clock.width_ns?);
        Some(format!("a reading of the {name} is {width} wide, which is part of every ± above: {step}"))
    }

    fn speed_words(&self) -> Option<String> {
        /// Of two processors that differ by more, durations cannot be compared as they are; Cm*'s differed by 4.6 %.
        const NOTABLE_PERCENT: f64 = 1.0;
        let slowest = self.speeds.iter().max_by(|a, b| a.slower_percent.total_cmp(&b.slower_percent))?;
        if slowest.slower_percent < NOTABLE_PERCENT {
            let most = slowest.slower_percent;
            let count = self.speeds.len();
            return Some(format!("all {count} processors compute at one speed, within {}", percentage(most)));
        }
        let (cpu, percent) = (slowest.cpu, slowest.slower_percent);
        Some(format!(
            "processor {cpu} does the same work {percent:.1} % slower: compare durations on one processor only, or \
             look again when nothing else runs"
        ))
    }

    /// The counter as a section needs it: at its end not read before the section is over.
    fn counter_clock(&self) -> Option<&ClockResult> {
        self.pick(&["tsc after", "cntvct after"])
    }

    fn kernel_clock(&self) -> Option<&ClockResult> {
        self.pick(&["monotonic", "monotonic-raw"])
    }

    /// The first of those that tell sections apart about as finely as the finest, under the worst of the loads, and
    /// were never seen to go backward.
    fn pick(&self, names: &[&str]) -> Option<&ClockResult> {
        /// A clock that is finer by less than this factor is not preferred to one that stands earlier in the list.
        const AS_FINE: f64 = 2.0;
        let worst =
            |clock: &ClockResult| clock.alone().map(|cell| cell.usable_ns.unwrap_or(f64::INFINITY)).fold(0.0, f64::max);
        let in_order = |clock: &&ClockResult| clock.backward().is_none();
        let among: Vec<&ClockResult> = names.iter().filter_map(|name| self.clock(name)).filter(in_order).collect();
        let finest = among.iter().map(|clock| worst(clock)).fold(f64::INFINITY, f64::min);
        among.into_iter().find(|clock| worst(clock) <= AS_FINE * finest)
    }

    fn shared(&self) -> Option<String> {
        let list: Vec<String> = self.clocks.iter().filter_map(ClockResult::backward).collect();
        let compared =
            |clock: &&ClockResult| matches!(&clock.across_processors, Across::Seen(seen) if seen.passages > 0);
        let instead = match self.counter_clock().filter(compared) {
            Some(_) => ". Stamp with ordering 'after' what must be",
            None => "",
        };
        (!list.is_empty()).then(|| format!("not in order across processors: {}{instead}", list.join("; ")))
    }

    fn still(&self) -> Option<String> {
        let still = |clock: &&ClockResult| clock.alone().any(|cell| cell.stands_still);
        let say = |clock: &ClockResult| {
            let steps = clock.alone().filter_map(|cell| cell.resolution_ns).fold(0.0, f64::max);
            let unseen = clock.alone().any(|cell| cell.resolution_ns.is_none());
            let seen = if steps > 0.0 { format!("'{}' for {}", clock.clock, duration(steps)) } else { String::new() };
            match (unseen, seen.is_empty()) {
                (false, _) => seen,
                (true, true) => format!("'{}' all the time", clock.clock),
                (true, false) => format!("{seen}, under some load all the time"),
            }
        };
        let list: Vec<String> = self.clocks.iter().filter(still).map(say).collect();
        (!list.is_empty()).then(|| {
            format!(
                "these stand still for the time given with each, then jump; for {} a section must last {:.0} \
                 times as long: {}",
                asked(self.plan.percent),
                (100.0 / self.plan.percent).ceil(),
                list.join(", ")
            )
        })
    }

    /// Clocks that several readers slow down.
    fn crowded(&self) -> Option<String> {
        /// Twice: less is the noise of a busy machine.
        const NOTABLE: f64 = 2.0;
        let readers = self.plan.readers.last()?;
        let say = |clock: &ClockResult| {
            let quiet = clock.loads.first()?;
            let (alone, crowd) = (quiet.alone(), quiet.cells.last()?);
            (crowd.cost.p99_ns > NOTABLE * alone.cost.p99_ns && crowd.readers > alone.readers).then(|| {
                let (from, to) = (duration(alone.cost.p99_ns), duration(crowd.cost.p99_ns));
                format!("'{}' {to} (alone {from})", clock.clock)
            })
        };
        let list: Vec<String> = self.clocks.iter().filter_map(say).collect();
        let turns = match quiet_cells(self).any(|cell| cell.takes_turns) {
            true => format!(" (by turns, on {} processors)", self.cpus.len()),
            false => String::new(),
        };
        (!list.is_empty()).then(|| {
            format!(
                "slow when {readers} threads read at once{turns}; one reading in 100 then takes longer than: {}",
                list.join(", ")
            )
        })
    }

    /// Clocks that are less exact under load.
    fn loaded(&self) -> Option<String> {
        const NOTABLE: f64 = 2.0;
        let percent = self.plan.percent;
        let say = |clock: &ClockResult| {
            let good_to = |load: &LoadResult| load.correction(percent).good_to_ns;
            let (quiet, busy) = (good_to(clock.loads.first()?)?, good_to(clock.loads.last()?)?);
            (busy > NOTABLE * quiet)
                .then(|| format!("'{}' ±{} instead of ±{}", clock.clock, duration(busy), duration(quiet)))
        };
        let list: Vec<String> = self.clocks.iter().filter_map(say).collect();
        let busy = self.plan.loads.last()?;
        (!list.is_empty())
            .then(|| format!("one timing is less exact {}: {}", self.plan.load.phrase(*busy), list.join(", ")))
    }

    /// Methods that were chosen and left more than doing nothing.
    fn refused(&self) -> Option<String> {
        let say = |clock: &ClockResult, load: &LoadResult| {
            let refused = load.correction(self.plan.percent).refused?;
            Some(format!("'{}' {} ({refused})", clock.clock, self.plan.load.phrase(load.busy_processes)))
        };
        let list: Vec<String> =
            self.clocks.iter().flat_map(|clock| clock.loads.iter().filter_map(move |load| say(clock, load))).collect();
        (!list.is_empty()).then(|| {
            format!(
                "nothing is subtracted, marked '?': what one half of the trials called for left more error in the \
                 other half, or in longer sections, than nothing did: {}",
                list.join(", ")
            )
        })
    }

    /// Whether Method I's assumption holds: that the cost of a reading is like the one before (the Cm* study, 4.2 and
    /// 6).
    fn assumption(&self) -> Option<String> {
        let (mut above, mut below, mut open) = (0, Vec::new(), 0);
        for clock in &self.clocks {
            let sides = || clock.loads.iter().filter_map(|load| Some(load.zero.rho_1?.side(0.0)));
            match (sides().next(), sides().all(|side| side == Side::Above), sides().all(|side| side == Side::Below)) {
                (None, ..) => {}
                (_, true, _) => above += 1,
                (_, _, true) => below.push(format!("'{}'", clock.clock)),
                _ => open += 1,
            }
        }
        let list = |list: Vec<String>| if list.is_empty() { "none".into() } else { list.join(", ") };
        (above + below.len() + open > 0).then(|| {
            format!(
                "method-1 assumes that what a reading costs is not unlike the one before, a correlation of 0 or more. \
                 Under all these loads that holds for {above} clocks; it is negative for {}; undecided, or another \
                 under another load: {open}",
                list(below)
            )
        })
    }

    /// How long a tick should be, and what a word then lasts (the Cm* study, 3.3).
    fn tick_words(&self) -> Option<String> {
        const DAY_S: f64 = 86_400.0;
        let clock = self.counter_clock().filter(|_| !self.counter.trapped)?;
        let open = |load: &LoadResult| load.correction(self.plan.percent).good_to_ns;
        let worst = clock.loads.iter().filter_map(open).fold(0.0, f64::max);
        let chosen = Some(worst).filter(|&ns| ns > 0.0)?;
        let chosen = TickChoice::for_uncertainty(chosen, 1e9 / self.counter.hertz as f64);
        let bits = |range_s| chosen.bits_for(range_s);
        Some(format!(
            "to keep readings in few bits: ticks of {} (the {} shifted right by {}) are no longer than what one \
             timing by '{}' leaves open under the worst of these loads, so nothing is lost. Then 16 bits last {}, 32 \
             bits {}; a second needs {} bits, a day {}, a year {}",
            duration(chosen.tick_ns),
            self.counter.name,
            chosen.shift,
            clock.clock,
            duration(chosen.range_s(16) * 1e9),
            duration(chosen.range_s(32) * 1e9),
            bits(1.0),
            bits(DAY_S),
            bits(365.25 * DAY_S)
        ))
    }

    fn trust(&self) -> Vec<String> {
        let spinning = match self.plan.load.kind {
            LoadKind::Spin if self.plan.load.injected.is_none() => "; a busy process computes without a pause",
            _ => "",
        };
        let more = self.plan.loads.iter().max().map_or(8, |most| (2 * most).max(8));
        let seen: Vec<String> = self.plan.loads.iter().map(|&count| self.plan.load.phrase(count)).collect();
        vec![
            format!(
                "all this was seen {}{spinning}. Go by the load that is most like yours. \
                 Where more will run, measure that too, for example by 'tickscope clock --load 0,2,{more}'",
                seen.join(", ")
            ),
            "these figures are estimates, not bounds: they held in 19 of 20 timings under the loads named, and \
             what interrupts a section lengthens it whatever the clock. From one benchmark to the next they differ by \
             some ns"
                .into(),
        ]
    }
}

/// Cells of all clocks with the most readers, under the first load.
fn quiet_cells(benchmark: &Benchmark) -> impl Iterator<Item = &Cell> {
    benchmark.clocks.iter().filter_map(|clock| clock.loads.first()?.cells.last())
}

fn capital(sentence: &str) -> String {
    let first: String = sentence.chars().take(1).flat_map(char::to_uppercase).collect();
    first + &sentence.chars().skip(1).collect::<String>()
}

/// Reason for subtracting nothing.
fn why_nothing(load: &LoadResult, correction: Correction) -> String {
    let left = load.zero.outcome(Method::None).map_or(0.0, |outcome| outcome.residual_median);
    match correction.refused {
        Some(refused) => {
            format!("'{refused}', which one half of the trials called for, left more error than that in the other")
        }
        None if left.abs() <= load.alone().resolution_ns.unwrap_or(0.0) => {
            "what a reading takes is no more than a step of the clock".into()
        }
        None => format!(
            "no method left less in every stretch of the trials; the difference is too long by about {}",
            duration(left)
        ),
    }
}

/// Accuracy of one timing, in words.
fn worth(correction: Correction, percent: f64) -> String {
    match correction.good_to_ns.zip(correction.from_ns) {
        None => "one timing gives no usable figure: the clock stood still".into(),
        Some((good_to, from)) => format!(
            "one timing is good to ±{} in 19 of 20, and to {} for sections of {} or more",
            duration(good_to),
            asked(percent),
            duration(from)
        ),
    }
}

/// Instructions that read the counter in that order.
fn instructions(clock: &str) -> &'static str {
    match clock {
        "tsc before" => "rdtsc; lfence",
        "tsc after" => "lfence; rdtsc",
        "cntvct before" => "mrs cntvct_el0; isb",
        _ => "dsb ld; isb; mrs cntvct_el0",
    }
}

/// The kernel's name of a clock of the C library.
fn posix_name(clock: &str) -> String {
    format!("CLOCK_{}", clock.to_uppercase().replace('-', "_"))
}

fn asked(percent: f64) -> String {
    format!("{percent} %")
}

/// Below a tenth not in figures: the counter's own rate is hardly known better, and an interruption is seldom shorter.
fn percentage(percent: f64) -> String {
    match percent {
        percent if percent >= 10.0 || percent.fract() == 0.0 => format!("{percent:.0} %"),
        percent if percent >= 0.1 => format!("{percent:.1} %"),
        _ => "less than 0.1 %".into(),
    }
}

impl ClockResult {
    /// With one reader: by how much two durations must differ to be told apart, and how long a section must be to be
    /// measured to the plan's percentage.
    pub fn words(&self) -> String {
        let say = |load: &LoadResult| {
            let (Cell { usable_ns, shortest_section_ns, .. }, busy) = (load.alone(), load.busy_processes);
            match usable_ns.zip(*shortest_section_ns) {
                None => format!("of no use with {busy} busy processes running, where it stood still"),
                Some((usable, shortest)) => {
                    format!(
                        "by {} and {} long with {busy} busy processes running",
                        duration(usable),
                        duration(shortest)
                    )
                }
            }
        };
        self.loads.iter().map(say).collect::<Vec<String>>().join("; ")
    }

    fn alone(&self) -> impl Iterator<Item = &Cell> {
        self.loads.iter().map(LoadResult::alone)
    }
}

/// A duration with the unit that fits it.
pub fn duration(ns: f64) -> String {
    if ns < 0.0 {
        return format!("-{}", duration(-ns));
    }
    let (value, unit) = match ns {
        ns if ns.is_infinite() => return "unknown".into(),
        ns if ns < 1e3 => (ns, "ns"),
        ns if ns < 1e6 => (ns / 1e3, "us"),
        ns if ns < 1e9 => (ns / 1e6, "ms"),
        ns => (ns / 1e9, "s"),
    };
    let digits = if value < 99.95 { 1 } else { 0 };
    format!("{value:.digits$} {unit}")
}
