//! Facts about this host's stamped counter, and which of them endanger the bounds.
//!
//! Every bound assumes a counter that runs at one rate, in every power state, and that the program reads directly. The
//! facts here are gathered once a run and written next to the results, so that a reader can judge that assumption
//! later.
//!
//! Assumes Linux: `/proc`, `/sys`. Guarantees: what could not be learnt is `None`, never a guess; the frequency says
//! where it came from. Deliberately absent: any proof of the physical rate. With the counter as clocksource the kernel
//! derives its clocks from it, so a calibration against them is a *declaration*, and is called one.
//! Whether the cores share one counter is another question: [`crate::sharing`].

use std::fmt;
use std::fs;
use std::time::Duration;

use crate::{Finding, Problem, affinity};
use tickscope_counter::{after, before};
use tickscope_tick::{BootId, Clock, Frequency};

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(target_arch = "x86_64")]
mod x86_64;

#[cfg(target_arch = "aarch64")]
use aarch64::ask;
#[cfg(target_arch = "x86_64")]
use x86_64::ask;

/// A reading whose median takes longer is trapped or emulated: an ordered one takes 10 to 50 ns, an exit to a
/// hypervisor a microsecond or more.
pub const TRAPPED_NS: u64 = 500;

/// The same in ticks, for a declared frequency that is itself in doubt.
pub const TRAPPED_TICKS: i64 = 1000;

/// Facts about the counter that stamps of this host are read from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CounterFacts {
    /// Which counter stamps read here.
    pub counter: Clock,
    /// The processor's name for itself.
    pub cpu_model: Option<String>,
    /// Release of the running kernel.
    pub kernel_release: Option<String>,
    /// Which boot of which machine.
    pub boot: Option<BootId>,
    /// Processors that are switched on.
    pub cpus_online: Option<usize>,
    /// Processors that this program may run on.
    pub cpus_allowed: Option<usize>,
    /// Whether the processor itself calls the counter invariant (x86: `cpuid` 0x80000007, EDX bit 8).
    pub invariant_by_processor: Option<bool>,
    /// Whether the kernel calls the counter invariant (x86: the flags `constant_tsc` and `nonstop_tsc` of every
    /// processor).
    pub invariant_by_kernel: Option<bool>,
    /// Whether the fence around ordered readings waits for what precedes it (x86: `lfence`); `None`: the processor does
    /// not say, and it rests on the kernel having set it so.
    pub fence_serialises: Option<bool>,
    /// The kernel's clocksource: the counter that `CLOCK_REALTIME` and `CLOCK_MONOTONIC` are derived from.
    pub clocksource: Option<String>,
    /// All clocksources that the kernel offers.
    pub clocksources: Vec<String>,
    /// The hypervisor's name, where the processor tells of one; empty if it has none.
    pub hypervisor: Option<String>,
    /// Cheapest ordered reading of the counter, in ticks.
    pub read_ticks_min: i64,
    /// Median ordered reading of the counter, in ticks.
    pub read_ticks_median: i64,
    /// Declared rate of the counter.
    pub frequency: Frequency,
    /// Origin of that frequency.
    pub frequency_origin: FrequencyOrigin,
    /// The calibration against `CLOCK_MONOTONIC_RAW`, made in any case.
    pub calibration: Calibration,
    /// Nominal base frequency of the processor, MHz. Rounded to whole MHz by the maker and up to 0.2 % against the
    /// counter's rate: for orientation only.
    pub base_megahertz: Option<u32>,
}

/// Origin of a counter's frequency.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FrequencyOrigin {
    /// The processor: `cpuid` 0x15 or `CNTFRQ_EL0`.
    Processor,
    /// A calibration of this program against the kernel's `CLOCK_MONOTONIC_RAW`.
    Calibration,
}

/// A counter's rate against `CLOCK_MONOTONIC_RAW`, as an interval: what the readings allow, no more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Calibration {
    /// Slowest rate that the readings allow, ticks a second of the kernel's clock, rounded down.
    pub hertz_lo: u64,
    /// Fastest, rounded up.
    pub hertz_hi: u64,
}

/// One reading of a clock in nanoseconds between two readings of the counter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct BracketedReading {
    before: i64,
    clock_ns: i64,
    after: i64,
}

/// Facts that the processor declares about itself.
struct Processor {
    invariant: Option<bool>,
    fence_serialises: Option<bool>,
    hypervisor: Option<String>,
    counter_hertz: Option<u64>,
    #[cfg_attr(target_arch = "aarch64", allow(dead_code))]
    base_megahertz: Option<u32>,
}

impl fmt::Display for FrequencyOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            FrequencyOrigin::Processor => "declared by the processor",
            FrequencyOrigin::Calibration => "calibrated against CLOCK_MONOTONIC_RAW",
        })
    }
}

impl CounterFacts {
    /// Gathers the facts of this host; takes about 60 ms, most of it the baseline of the calibration.
    pub fn of_this_host() -> Result<Self, Finding> {
        let processor = ask();
        let cpuinfo = file("/proc/cpuinfo").unwrap_or_default();
        let calibration = Calibration::of_this_host()?;
        let (frequency, frequency_origin) = declared_frequency(processor.counter_hertz, calibration);
        let cost = read_cost();
        Ok(Self {
            counter: Clock::STAMPED,
            cpu_model: cpu_model(&cpuinfo),
            kernel_release: file("/proc/sys/kernel/osrelease"),
            boot: tickscope_counter::boot_id().ok(),
            cpus_online: file("/sys/devices/system/cpu/online").and_then(|text| cpus_listed(&text)),
            cpus_allowed: affinity::allowed_cpus().ok().map(|cpus| cpus.len()),
            invariant_by_processor: processor.invariant,
            invariant_by_kernel: invariant_by_flags(&cpuinfo),
            fence_serialises: processor.fence_serialises,
            clocksource: file(&clocksource_path("current")),
            clocksources: words(file(&clocksource_path("available"))),
            hypervisor: processor.hypervisor,
            read_ticks_min: cost.min,
            read_ticks_median: cost.median,
            frequency,
            frequency_origin,
            calibration,
            base_megahertz: processor.base_megahertz,
        })
    }

    /// Whether the counter runs at one rate in every power state. The kernel decides where it tells: it knows
    /// processors that are invariant without saying so, and clears the flag of those that it found not to be.
    pub fn invariant(&self) -> Option<bool> {
        self.invariant_by_kernel.or(self.invariant_by_processor)
    }

    /// Whether a reading costs so much that something stands between the program and its counter.
    pub fn trapped(&self) -> bool {
        let slow_ns = i128::from(self.read_ticks_median) * 1_000_000_000
            > i128::from(TRAPPED_NS) * i128::from(self.frequency.hertz);
        slow_ns || self.read_ticks_median > TRAPPED_TICKS
    }

    /// Facts that endanger the bounds, each as a finding.
    pub fn findings(&self) -> Vec<Finding> {
        let all = [self.variant_finding(), self.clocksource_finding(), self.trapped_finding(), self.rate_finding()];
        all.into_iter().flatten().collect()
    }

    fn variant_finding(&self) -> Option<Finding> {
        let says = |known: Option<bool>| known.map_or("nothing", |yes| if yes { "yes" } else { "no" });
        (self.invariant() != Some(true)).then(|| Finding {
            about: "counter",
            problem: Problem::Value {
                expected: format!("an invariant {}: one rate in every power state", self.counter),
                found: format!(
                    "{}: the kernel says {}, the processor says {}",
                    self.cpu_model.as_deref().unwrap_or("an unknown processor"),
                    says(self.invariant_by_kernel),
                    says(self.invariant_by_processor)
                ),
            },
            remedy:
                "no bound over this counter holds; measure on a processor with constant_tsc and nonstop_tsc, or let \
                     the hypervisor pass them on"
                    .into(),
        })
    }

    fn clocksource_finding(&self) -> Option<Finding> {
        let expected = if self.counter == Clock::Cntvct { "arch_sys_counter" } else { "tsc" };
        let found = self.clocksource.as_deref().unwrap_or("none that could be read");
        (found != expected).then(|| Finding {
            about: "clocksource",
            problem: Problem::Value {
                expected: format!("'{expected}': the kernel trusts the counter that stamps read"),
                found: format!("'{found}', available: {}", self.clocksources.join(" ")),
            },
            remedy: format!(
                "see `dmesg | grep -i tsc` for why the kernel left it; write '{expected}' to {} if that is mended",
                clocksource_path("current")
            ),
        })
    }

    fn trapped_finding(&self) -> Option<Finding> {
        self.trapped().then(|| Finding {
            about: "counter reading",
            problem: Problem::Value {
                expected: format!("a median of at most {TRAPPED_NS} ns and {TRAPPED_TICKS} ticks"),
                found: format!(
                    "median {} ticks ({:.0} ns), min {} ticks",
                    self.read_ticks_median,
                    self.frequency.nanoseconds(self.read_ticks_median as f64),
                    self.read_ticks_min
                ),
            },
            remedy: "the reading is trapped or emulated, so every stamp disturbs what it measures: let the hypervisor \
                     pass the counter through, or measure on the host"
                .into(),
        })
    }

    /// A processor's declaration that the kernel's clock contradicts: typically a guest whose counter is scaled.
    fn rate_finding(&self) -> Option<Finding> {
        let Calibration { hertz_lo, hertz_hi } = self.calibration;
        let contradicted = self.frequency_origin == FrequencyOrigin::Processor
            && !agree(self.frequency.hertz, self.calibration, self.frequency.tolerance_ppm);
        contradicted.then(|| Finding {
            about: "counter frequency",
            problem: Problem::Value {
                expected: format!("{} Hz ± {} ppm", self.frequency.hertz, self.frequency.tolerance_ppm),
                found: format!("{hertz_lo} to {hertz_hi} Hz against CLOCK_MONOTONIC_RAW"),
            },
            remedy: "figures in seconds may be off by the difference; bounds in ticks are not. Declare the frequency"
                .into(),
        })
    }
}

impl Calibration {
    /// Distance between the two readings: at 100 ticks of width each, about 1 ppm.
    const BASELINE: Duration = Duration::from_millis(60);
    /// Readings tried at each end; the narrowest counts, so one interruption costs nothing.
    const TRIES: usize = 64;

    fn of_this_host() -> Result<Self, Finding> {
        let first = narrowest_reading()?;
        std::thread::sleep(Self::BASELINE);
        Self::between(first, narrowest_reading()?)
    }

    /// All rates that the two readings allow, given that each clock reading was rounded down to whole nanoseconds.
    fn between(first: BracketedReading, second: BracketedReading) -> Result<Self, Finding> {
        let ticks_lo = i128::from(second.before) - i128::from(first.after);
        let ticks_hi = i128::from(second.after) - i128::from(first.before);
        let clock_ns = i128::from(second.clock_ns) - i128::from(first.clock_ns);
        if ticks_lo <= 0 || clock_ns <= 1 {
            return Err(Finding {
                about: "calibration",
                problem: Problem::Value {
                    expected: "a counter and a CLOCK_MONOTONIC_RAW that both advance".into(),
                    found: format!("{first:?}, then {second:?}"),
                },
                remedy: "this host's clocks can't be used; check the clocksource".into(),
            });
        }
        let hertz_lo = ticks_lo * 1_000_000_000 / (clock_ns + 1);
        let hertz_hi = (ticks_hi * 1_000_000_000 + clock_ns - 2) / (clock_ns - 1);
        Ok(Self { hertz_lo: hertz_lo as u64, hertz_hi: hertz_hi as u64 })
    }

    fn middle_hertz(self) -> u64 {
        self.hertz_lo + (self.hertz_hi - self.hertz_lo) / 2
    }

    /// Half the interval in ppm of its middle, rounded up.
    fn half_width_ppm(self) -> u32 {
        let half = u128::from(self.hertz_hi - self.hertz_lo).div_ceil(2);
        let ppm = (half * 1_000_000).div_ceil(u128::from(self.middle_hertz().max(1)));
        u32::try_from(ppm).unwrap_or(u32::MAX)
    }
}

/// The processor's own figure where it tells one, else the calibration, wider by what its readings left open.
fn declared_frequency(processor_hertz: Option<u64>, calibration: Calibration) -> (Frequency, FrequencyOrigin) {
    let default_ppm = Frequency::DEFAULT_TOLERANCE_PPM;
    match processor_hertz {
        Some(hertz) => (Frequency { hertz, tolerance_ppm: default_ppm }, FrequencyOrigin::Processor),
        None => {
            let tolerance_ppm = default_ppm.saturating_add(calibration.half_width_ppm());
            (Frequency { hertz: calibration.middle_hertz(), tolerance_ppm }, FrequencyOrigin::Calibration)
        }
    }
}

/// Whether some rate within `tolerance_ppm` of `hertz` lies in the calibration's interval.
fn agree(hertz: u64, calibration: Calibration, tolerance_ppm: u32) -> bool {
    let scaled = |hertz: u64| u128::from(hertz) * 1_000_000;
    let slack = u128::from(hertz) * u128::from(tolerance_ppm);
    scaled(calibration.hertz_lo) <= scaled(hertz) + slack && scaled(hertz) <= scaled(calibration.hertz_hi) + slack
}

fn narrowest_reading() -> Result<BracketedReading, Finding> {
    let mut narrowest: Option<BracketedReading> = None;
    for _ in 0..Calibration::TRIES {
        let before = before();
        let clock_ns = crate::host_clocks::nanoseconds(libc::CLOCK_MONOTONIC_RAW)?;
        let reading = BracketedReading { before, clock_ns, after: after() };
        let width = |reading: &BracketedReading| reading.after - reading.before;
        if narrowest.is_none_or(|best| width(&reading) < width(&best)) {
            narrowest = Some(reading);
        }
    }
    Ok(narrowest.expect("at least one reading was tried"))
}

struct ReadCost {
    min: i64,
    median: i64,
}

/// The distance between successive ordered readings, in ticks.
fn read_cost() -> ReadCost {
    const READINGS: usize = 1001;
    let readings: Vec<i64> = (0..=READINGS).map(|_| after()).collect();
    let mut ticks: Vec<i64> = readings.windows(2).map(|pair| pair[1] - pair[0]).collect();
    ticks.sort_unstable();
    ReadCost { min: ticks[0], median: ticks[READINGS / 2] }
}

fn file(path: &str) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

fn clocksource_path(which: &str) -> String {
    format!("/sys/devices/system/clocksource/clocksource0/{which}_clocksource")
}

fn words(text: Option<String>) -> Vec<String> {
    text.unwrap_or_default().split_whitespace().map(str::to_owned).collect()
}

/// Every value that `/proc/cpuinfo` gives under `key`, one a processor.
fn values<'a>(cpuinfo: &'a str, key: &'a str) -> impl Iterator<Item = &'a str> {
    let fields = cpuinfo.lines().filter_map(|line| line.split_once(':'));
    fields.filter(move |(name, _)| name.trim() == key).map(|(_, value)| value.trim())
}

/// The processor's name; on aarch64, which has none there, its implementer and part numbers.
fn cpu_model(cpuinfo: &str) -> Option<String> {
    let named = values(cpuinfo, "model name").next().map(str::to_owned);
    named.or_else(|| {
        let implementer = values(cpuinfo, "CPU implementer").next()?;
        let part = values(cpuinfo, "CPU part").next()?;
        Some(format!("aarch64 implementer {implementer} part {part}"))
    })
}

/// Whether every processor has the flags of an invariant counter; `None` where the file has no x86 flags.
fn invariant_by_flags(cpuinfo: &str) -> Option<bool> {
    let mut processors = values(cpuinfo, "flags").peekable();
    processors.peek()?;
    let has = |flags: &str, flag: &str| flags.split_whitespace().any(|word| word == flag);
    Some(processors.all(|flags| has(flags, "constant_tsc") && has(flags, "nonstop_tsc")))
}

/// How many processors a list such as `0-3,8` names; `None` if it is no such list.
fn cpus_listed(text: &str) -> Option<usize> {
    text.trim().split(',').try_fold(0, |count, range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
        Some(count + last.checked_sub(first)? + 1)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const INTEL: &str = "processor\t: 0\nmodel name\t: Intel(R) Xeon(R) Processor\nflags\t\t: fpu tsc constant_tsc \
                         rep_good nopl nonstop_tsc cpuid\n\nprocessor\t: 1\nmodel name\t: Intel(R) Xeon(R) \
                         Processor\nflags\t\t: \
                         fpu tsc constant_tsc rep_good nopl nonstop_tsc cpuid\n";
    const AMD: &str = "processor\t: 0\nvendor_id\t: AuthenticAMD\nmodel name\t: AMD EPYC 7763 64-Core \
                       Processor\nflags\t\t: \
                       fpu vme tsc constant_tsc nonstop_tsc extd_apicid svm\npower management: ts ttp tm hwpstate cpb \
                       eff_freq_ro [13] [14]\n";
    const OLD: &str =
        "processor\t: 0\nmodel name\t: Intel(R) Pentium(R) 4 CPU 2.80GHz\nflags\t\t: fpu tsc constant_tsc up\n";
    const AARCH64: &str = "processor\t: 0\nBogoMIPS\t: 243.75\nFeatures\t: fp asimd evtstrm aes\nCPU implementer\t: \
                           0x41\n\
                           CPU architecture: 8\nCPU part\t: 0xd0c\n";

    fn healthy() -> CounterFacts {
        CounterFacts {
            counter: Clock::Tsc,
            cpu_model: cpu_model(INTEL),
            kernel_release: Some("6.1.0".into()),
            boot: None,
            cpus_online: Some(2),
            cpus_allowed: Some(2),
            invariant_by_processor: Some(true),
            invariant_by_kernel: Some(true),
            fence_serialises: Some(true),
            clocksource: Some("tsc".into()),
            clocksources: vec!["tsc".into(), "hpet".into()],
            hypervisor: None,
            read_ticks_min: 40,
            read_ticks_median: 50,
            frequency: Frequency { hertz: 2_500_000_000, tolerance_ppm: 100 },
            frequency_origin: FrequencyOrigin::Processor,
            calibration: Calibration { hertz_lo: 2_499_999_000, hertz_hi: 2_500_001_000 },
            base_megahertz: Some(2500),
        }
    }

    fn subjects(facts: &CounterFacts) -> Vec<&'static str> {
        facts.findings().iter().map(|finding| finding.about).collect()
    }

    #[test]
    fn flags_decide_only_where_every_x86_processor_has_both() {
        assert_eq!(invariant_by_flags(INTEL), Some(true));
        assert_eq!(invariant_by_flags(AMD), Some(true));
        assert_eq!(invariant_by_flags(OLD), Some(false), "constant_tsc alone stops in deep sleep");
        assert_eq!(invariant_by_flags(&(INTEL.to_owned() + OLD)), Some(false), "one processor of three lacks it");
        assert_eq!(invariant_by_flags(AARCH64), None);
        assert_eq!(invariant_by_flags(""), None);
    }

    #[test]
    fn a_processor_is_named_on_both_architectures() {
        assert_eq!(cpu_model(AMD).unwrap(), "AMD EPYC 7763 64-Core Processor");
        assert_eq!(cpu_model(AARCH64).unwrap(), "aarch64 implementer 0x41 part 0xd0c");
        assert_eq!(cpu_model(""), None);
    }

    #[test]
    fn lists_of_processors_are_counted_and_nonsense_is_not() {
        assert_eq!(["0", "0-1", "0-3,8", "0-3,8-11\n"].map(cpus_listed), [Some(1), Some(2), Some(5), Some(8)]);
        assert_eq!(["", "a", "3-1", "0,,1"].map(cpus_listed), [None; 4]);
    }

    #[test]
    fn a_healthy_host_has_no_findings() {
        assert_eq!(subjects(&healthy()), [""; 0]);
    }

    #[test]
    fn a_counter_that_nobody_calls_invariant_is_found_and_named() {
        let facts = CounterFacts { invariant_by_kernel: Some(false), ..healthy() };
        assert_eq!(subjects(&facts), ["counter"], "the kernel's word counts above the processor's");
        assert!(facts.findings()[0].to_string().contains("Xeon"));
        let unknown = CounterFacts { invariant_by_kernel: None, invariant_by_processor: None, ..healthy() };
        assert_eq!(subjects(&unknown), ["counter"]);
        assert_eq!(subjects(&CounterFacts { invariant_by_kernel: None, ..healthy() }), [""; 0]);
    }

    #[test]
    fn a_kernel_that_left_the_counter_is_found() {
        let facts = CounterFacts { clocksource: Some("hpet".into()), ..healthy() };
        assert_eq!(subjects(&facts), ["clocksource"]);
        let arm = |clocksource: &str| CounterFacts {
            counter: Clock::Cntvct,
            clocksource: Some(clocksource.into()),
            ..healthy()
        };
        assert_eq!(subjects(&arm("arch_sys_counter")), [""; 0]);
        assert_eq!(subjects(&arm("tsc")), ["clocksource"]);
    }

    #[test]
    fn a_reading_is_trapped_beyond_500_ns_or_1000_ticks_and_not_at_them() {
        let costs = |read_ticks_median, hertz| {
            let frequency = Frequency { hertz, tolerance_ppm: 100 };
            CounterFacts { read_ticks_median, frequency, ..healthy() }.trapped()
        };
        assert!(!costs(500, 1_000_000_000) && costs(501, 1_000_000_000));
        assert!(!costs(12, 24_000_000) && costs(13, 24_000_000), "41.7 ns a tick");
        assert!(!costs(1000, 4_000_000_000) && costs(1001, 4_000_000_000));
    }

    #[test]
    fn a_declared_rate_that_the_kernels_clock_contradicts_is_found_beyond_its_tolerance() {
        let against = |hertz_lo, hertz_hi| {
            subjects(&CounterFacts { calibration: Calibration { hertz_lo, hertz_hi }, ..healthy() }).len()
        };
        assert_eq!(against(2_500_250_000, 2_500_250_100), 0, "at 100 ppm");
        assert_eq!(against(2_500_250_001, 2_500_250_100), 1, "one hertz beyond");
        assert_eq!(against(2_499_000_000, 2_499_750_000), 0);
        assert_eq!(against(2_499_000_000, 2_499_749_999), 1);
    }

    #[test]
    fn a_calibration_is_declared_wider_by_what_its_readings_left_open() {
        let calibration = Calibration { hertz_lo: 999_990_000, hertz_hi: 1_000_010_000 };
        let (frequency, origin) = declared_frequency(None, calibration);
        assert_eq!((frequency.hertz, frequency.tolerance_ppm), (1_000_000_000, 110));
        assert_eq!(origin, FrequencyOrigin::Calibration);
        assert_eq!(declared_frequency(Some(7), calibration).0, Frequency { hertz: 7, tolerance_ppm: 100 });
    }

    #[test]
    fn clocks_that_stand_still_can_not_be_calibrated() {
        let reading = |before, clock_ns| BracketedReading { before, clock_ns, after: before + 10 };
        assert!(Calibration::between(reading(0, 0), reading(10, 1_000)).is_err());
        assert!(Calibration::between(reading(0, 0), reading(1_000, 1)).is_err());
        assert!(Calibration::between(reading(0, 0), reading(11, 2)).is_ok());
    }

    #[test]
    fn the_facts_of_this_host_are_gathered() {
        let facts = CounterFacts::of_this_host().unwrap();
        assert!(facts.cpus_allowed >= Some(1) && facts.read_ticks_min >= 0);
        assert!(facts.calibration.hertz_lo <= facts.calibration.hertz_hi);
    }

    proptest! {
        #[test]
        fn property_a_calibration_contains_the_true_rate(
            hertz in 20_000_000i64..6_000_000_000, start_ns in 0i64..1 << 50, length_ns in 1_000_000i64..1_000_000_000,
            early in 0i64..5000, late in 0i64..5000, fraction in 0i64..1000,
        ) {
            let ticks = |picoseconds: i128| (picoseconds * i128::from(hertz)).div_euclid(1_000_000_000_000) as i64;
            let reading = |ns: i64, ps: i64| BracketedReading {
                before: ticks(i128::from(ns - early) * 1000),
                clock_ns: (i128::from(ns) * 1000 + i128::from(ps)).div_euclid(1000) as i64,
                after: ticks(i128::from(ns + 1 + late) * 1000) + 1,
            };
            let end = reading(start_ns + length_ns, 999 - fraction);
            let found = Calibration::between(reading(start_ns, fraction), end).unwrap();
            prop_assert!(found.hertz_lo <= hertz as u64 && hertz as u64 <= found.hertz_hi, "{found:?}");
        }
    }
}
