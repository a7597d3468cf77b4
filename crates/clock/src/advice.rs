//! A study in plain words, for someone who has to pick a clock and knows nothing of how it was studied.
//!
//! Every sentence names its figure. "19 of 20" is the share of measurements that a statement is about: the rest were
//! interrupted, and no clock can help that. Nothing here is a bound.

use crate::compensation::Method;
use crate::study::{Across, Cell, ClockStudy, LoadStudy, Study};

impl Study {
    /// What to do on this host, the most important first.
    pub fn advice(&self) -> Vec<String> {
        let all = [self.unoptimised(), Some(self.counter_words()), self.speed_words(), self.pick(), self.shared()];
        let mut advice: Vec<String> = all.into_iter().flatten().collect();
        advice.extend(
            [self.still(), self.crowded(), self.loaded(), self.subtract(), self.no_better()].into_iter().flatten(),
        );
        advice.push(
            "these figures are estimates for the load at hand, good for 19 of 20 measurements, not bounds: what interrupts a \
             section lengthens it whatever the clock. Measure again where the load is another"
                .into(),
        );
        advice
    }

    /// What contradicts what a clock promises.
    pub fn findings(&self) -> Vec<String> {
        let promised = |clock: &&ClockStudy| PROMISE_ORDER.contains(&clock.clock.trim_end_matches(" syscall"));
        let mut findings: Vec<String> = self.clocks.iter().filter(promised).filter_map(ClockStudy::backward).collect();
        if self.counter.trapped {
            let name = &self.counter.name;
            findings.push(format!(
                "expected to read the {name} directly, found readings that are trapped; let the hypervisor pass it through"
            ));
        }
        findings
    }

    fn unoptimised(&self) -> Option<String> {
        let why = "this program was built without optimisation: costs hold its own; build it with --release";
        (!self.optimised).then(|| why.into())
    }

    fn counter_words(&self) -> String {
        let name = &self.counter.name;
        let behind = self.counter.hypervisor.as_deref().unwrap_or("no hypervisor");
        if self.counter.trapped {
            return format!(
                "reading the {name} is trapped (hypervisor: {behind}): every stamp disturbs what it measures; use the host's"
            );
        }
        format!("the {name} is read directly, not trapped (hypervisor: {behind})")
    }

    fn speed_words(&self) -> Option<String> {
        /// Of two processors that differ by more, durations cannot be compared as they are; Cm*'s differed by 4.6 %.
        const NOTABLE_PERCENT: f64 = 1.0;
        let slowest = self.speeds.iter().max_by(|a, b| a.slower_percent.total_cmp(&b.slower_percent))?;
        if slowest.slower_percent < NOTABLE_PERCENT {
            let most = slowest.slower_percent;
            return Some(format!("all {} processors run at one speed, within {most:.1} %", self.speeds.len()));
        }
        let (cpu, percent) = (slowest.cpu, slowest.slower_percent);
        Some(format!(
            "processor {cpu} does the same work {percent:.1} % slower: compare durations on one processor only, or look \
             again when nothing else runs"
        ))
    }

    /// The first of those that tell sections apart about as finely as the finest, under the worst of the loads.
    fn pick(&self) -> Option<String> {
        /// What is finer by less than this factor is not worth another clock.
        const AS_FINE: f64 = 2.0;
        let worst =
            |clock: &ClockStudy| clock.alone().map(|cell| cell.usable_ns.unwrap_or(f64::INFINITY)).fold(0.0, f64::max);
        let pick = |names: &[&str]| {
            let among: Vec<&ClockStudy> = names.iter().filter_map(|name| self.clock(name)).collect();
            let finest = among.iter().map(|clock| worst(clock)).fold(f64::INFINITY, f64::min);
            among.into_iter().find(|clock| worst(clock) <= AS_FINE * finest)
        };
        let say = |clock: &ClockStudy| {
            let cost = duration(clock.median_ns());
            format!(
                "'{}' (a reading costs {cost}, differences from {} on are told apart)",
                clock.clock,
                duration(worst(clock))
            )
        };
        let (counter, kernel) =
            (pick(&["tsc plain", "cntvct plain", "tsc after"])?, pick(&["monotonic", "monotonic-raw"])?);
        Some(format!(
            "within a thread read {}; where another thread's readings are compared, the same counter with orderings before and \
             after; where nanoseconds are needed, {}",
            say(counter),
            say(kernel)
        ))
    }

    fn shared(&self) -> Option<String> {
        let names = self.clocks.iter().filter_map(|clock| clock.backward());
        let list: Vec<String> = names.collect();
        (!list.is_empty()).then(|| {
            format!("not in order across processors: {}. Stamp with ordering 'after' what must be", list.join("; "))
        })
    }

    fn still(&self) -> Option<String> {
        let still = |clock: &&ClockStudy| clock.alone().any(|cell| cell.stands_still);
        let say = |clock: &ClockStudy| {
            let steps = clock.alone().map(|cell| cell.resolution_ns.unwrap_or(f64::INFINITY));
            format!("'{}' for {}", clock.clock, duration(steps.fold(0.0, f64::max)))
        };
        let list: Vec<String> = self.clocks.iter().filter(still).map(say).collect();
        (!list.is_empty()).then(|| {
            format!(
                "these stand still between steps, so use them for nothing shorter than a hundred steps: {}",
                list.join(", ")
            )
        })
    }

    /// Clocks that several readers slow down.
    fn crowded(&self) -> Option<String> {
        /// Twice: less is the noise of a busy machine.
        const NOTABLE: f64 = 2.0;
        let say = |clock: &ClockStudy| {
            let quiet = clock.loads.first()?;
            let (alone, crowd) = (quiet.alone(), quiet.cells.last()?);
            (crowd.cost.p99_ns > NOTABLE * alone.cost.p99_ns && crowd.readers > alone.readers).then(|| {
                let (from, to) = (duration(alone.cost.p99_ns), duration(crowd.cost.p99_ns));
                format!("'{}' {from} to {to} with {} readers", clock.clock, crowd.readers)
            })
        };
        let list: Vec<String> = self.clocks.iter().filter_map(say).collect();
        (!list.is_empty())
            .then(|| format!("dear when several threads read at once (99 of 100 readings): {}", list.join(", ")))
    }

    /// Clocks that are less fine under load.
    fn loaded(&self) -> Option<String> {
        const NOTABLE: f64 = 2.0;
        let say = |clock: &ClockStudy| {
            let (first, last) = (clock.loads.first()?, clock.loads.last()?);
            let (quiet, busy) = (first.alone().usable_ns?, last.alone().usable_ns?);
            (busy > NOTABLE * quiet).then(|| format!("'{}' {} to {}", clock.clock, duration(quiet), duration(busy)))
        };
        let list: Vec<String> = self.clocks.iter().filter_map(say).collect();
        let busy = self.plan.loads.last()?;
        (!list.is_empty())
            .then(|| format!("usable resolution suffers under {busy} busy processes: {}", list.join(", ")))
    }

    fn subtract(&self) -> Option<String> {
        let most_used = Method::ALL.into_iter().max_by_key(|&method| {
            self.clocks.iter().flat_map(|clock| &clock.loads).filter(|load| load.zero.chosen == method).count()
        })?;
        Some(match most_used {
            Method::None => "the cost of a reading need not be subtracted from a section here".into(),
            method => format!(
                "a section's duration holds one reading of its clock: subtract it by method '{method}', best for most clocks here; the \
                 column 'use' has each clock's own"
            ),
        })
    }

    /// Where the method chosen left more than doing nothing.
    fn no_better(&self) -> Option<String> {
        let say = |clock: &ClockStudy, load: &LoadStudy| {
            let tests = [&load.zero, &load.section].into_iter().filter(|test| !test.no_worse_than_none);
            tests
                .map(|test| {
                    format!("'{}' under {}, sections of {} ns", clock.clock, load.busy_processes, test.section_ns)
                })
                .collect::<Vec<String>>()
        };
        let list: Vec<String> =
            self.clocks.iter().flat_map(|clock| clock.loads.iter().flat_map(move |load| say(clock, load))).collect();
        (!list.is_empty()).then(|| {
            format!(
                "what was chosen on one half of the trials left more than nothing subtracted on the other: {}",
                list.join("; ")
            )
        })
    }
}

/// Clocks that promise to go on from one thread's reading to another's.
const PROMISE_ORDER: [&str; 7] =
    ["tsc after", "cntvct after", "monotonic", "monotonic-raw", "monotonic-coarse", "boottime", "mutex"];

impl ClockStudy {
    /// With one reader: by how much two durations must differ to be told apart, and how long a section must be to be measured
    /// to the plan's percentage.
    pub fn words(&self) -> String {
        let say = |load: &LoadStudy| {
            let (Cell { usable_ns, shortest_section_ns, .. }, beside) = (load.alone(), load.busy_processes);
            match usable_ns.zip(*shortest_section_ns) {
                None => format!("of no use with {beside} busy processes beside, where it stood still"),
                Some((usable, shortest)) => {
                    format!(
                        "by {} and {} long with {beside} busy processes beside",
                        duration(usable),
                        duration(shortest)
                    )
                }
            }
        };
        self.loads.iter().map(say).collect::<Vec<String>>().join("; ")
    }

    fn alone(&self) -> impl Iterator<Item = &Cell> {
        self.loads.iter().map(LoadStudy::alone)
    }

    fn median_ns(&self) -> f64 {
        self.alone().map(|cell| cell.cost.median_ns).fold(0.0, f64::max)
    }

    fn backward(&self) -> Option<String> {
        let within: u64 = self.loads.iter().flat_map(|load| &load.cells).map(|cell| cell.backward).sum();
        let across = match &self.across_processors {
            Across::Seen(seen) => seen.backward,
            Across::NotLooked(_) => 0,
        };
        (within + across > 0).then(|| {
            format!("'{}' went backward {within} times within a thread and {across} times between two", self.clock)
        })
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
