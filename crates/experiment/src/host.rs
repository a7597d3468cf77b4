//! This host's facts, in the words of a run's manifest.

use std::collections::BTreeMap;
use std::path::Path;

use tickscope_counter::NodeCounter;
use tickscope_host::facts::CounterFacts;
use tickscope_host::host_clocks::SnapshotWidths;
use tickscope_host::host_realtime::HostRealtime;
use tickscope_host::posix_clock::PosixClock;
use tickscope_host::sharing::Sharing;
use tickscope_host::step::{CounterStep, Evidence};
use tickscope_host::vmclock::VmClock;
use tickscope_store as store;
use tickscope_tick::{Injection, NodeName, RealtimeInjection};

use crate::Error;

/// A machine's facts before measuring.
pub struct Host {
    /// Its counter.
    pub facts: CounterFacts,
    /// True if its cores share it.
    pub sharing: Sharing,
    /// How its counter moves.
    pub step: CounterStep,
}

/// The known maps that a node's clocks are read through, in tests.
#[derive(Clone, Copy, Default)]
pub struct KnownMaps<'a> {
    pub counter: Option<&'a Injection>,
    pub realtime: Option<&'a RealtimeInjection>,
}

/// The clocks other than the counter whose readings are evidence or stamps.
pub(crate) const STAMPED_CLOCKS: [&str; 3] = ["realtime", "monotonic", "monotonic-raw"];

impl Host {
    /// Looks at this host; takes a few hundred milliseconds.
    pub fn look() -> Result<Self, Error> {
        let facts = CounterFacts::of_this_host().map_err(Error::work)?;
        let sharing = Sharing::of_this_host().map_err(Error::work)?;
        Ok(Self { facts, sharing, step: step_of(None) })
    }

    /// Looks at the counter's step again, and keeps the wider one.
    pub fn look_at_step_again(&mut self) {
        self.step = self.step.clone().widest(step_of(None));
    }

    /// The counter as the manifest has it.
    fn counter(&self) -> store::CounterFacts {
        let facts = &self.facts;
        store::CounterFacts {
            counter: facts.counter,
            invariant: facts.invariant().unwrap_or(false),
            clocksource: facts.clocksource.clone().unwrap_or_else(|| "unknown".into()),
            hypervisor: facts.hypervisor.clone().filter(|name| !name.is_empty()),
            hypervisor_clocks: hypervisor_clocks(),
            trapped: facts.trapped(),
            fence_serialises: facts.fence_serialises,
            frequency: store::DeclaredFrequency {
                hertz: facts.frequency.hertz,
                tolerance_ppm: facts.frequency.tolerance_ppm,
                origin: facts.frequency_origin.to_string(),
            },
            sharing: store::Sharing { bound_ticks: self.sharing.within_ticks(), checked: self.sharing.to_string() },
            reading: reading_width(&self.step),
        }
    }

    /// A node of this host, whose clocks are read through `maps`; its command is left empty.
    pub fn node(&self, name: NodeName, maps: KnownMaps<'_>) -> Result<store::Node, Error> {
        let boot = self
            .facts
            .boot
            .ok_or_else(|| Error::work("cannot read a boot id from /proc/sys/kernel/random/boot_id. Mount /proc"))?;
        let mut counter = self.counter();
        if maps.counter.is_some() {
            counter.reading = reading_width(&step_of(maps.counter));
        }
        Ok(store::Node {
            name,
            boot,
            host: hostname(),
            cpu_model: self.facts.cpu_model.clone().unwrap_or_else(|| "unknown".into()),
            kernel: self.facts.kernel_release.clone().unwrap_or_else(|| "unknown".into()),
            counter,
            command: Vec::new(),
            injected: maps.counter.map(ToString::to_string),
            clocks: clocks(maps.realtime),
        })
    }
}

/// What the hypervisor lets this machine see of time, a sentence a device.
pub fn hypervisor_clocks() -> Vec<String> {
    let vmclock =
        VmClock::find(Path::new("/dev")).map(|path| match VmClock::open(&path).and_then(|clock| clock.read()) {
            Ok(page) => format!("{}: {page}", path.display()),
            Err(finding) => finding.to_string(),
        });
    let realtime = HostRealtime::find().map(|path| match HostRealtime::open(&path) {
        Ok(_) => format!("{}: the host's CLOCK_REALTIME (KVM virtual PTP)", path.display()),
        Err(finding) => finding.to_string(),
    });
    vmclock.into_iter().chain(realtime).collect()
}

/// The name that the kernel has for this machine.
fn hostname() -> Option<String> {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").ok()?;
    Some(name.trim().to_owned()).filter(|name| !name.is_empty())
}

/// How the counter moves, as a node with that map reads it.
fn step_of(map: Option<&Injection>) -> CounterStep {
    CounterStep::of_counter(NodeCounter::new(map.copied()))
}

/// How wide the readings of the other clocks are.
fn clocks(map: Option<&RealtimeInjection>) -> BTreeMap<String, store::ReadingWidth> {
    let width = |clock: PosixClock| {
        let map = map.filter(|_| clock.name() == "realtime");
        // A clock that cannot be read stands still, and is left out.
        let read = || clock.read().map_or(0, |ns| map.map_or(ns, |map| map.apply(ns)));
        Some((clock.name().to_owned(), reading_width(&CounterStep::measure(read))?))
    };
    PosixClock::ALL.into_iter().filter(|clock| STAMPED_CLOCKS.contains(&clock.name())).filter_map(width).collect()
}

/// How wide the readings are that tell a step of a clock: of a counter and clocks that are read through these maps.
pub fn snapshot_widths(maps: KnownMaps<'_>) -> SnapshotWidths {
    SnapshotWidths { counter_ticks: step_of(maps.counter).width_ticks.max(1), ..clock_widths(maps.realtime) }
}

/// Widths of the readings that tell a step of a clock, of a counter that moves by single ticks.
pub fn clock_widths(realtime: Option<&RealtimeInjection>) -> SnapshotWidths {
    let clock_ns = clocks(realtime).values().map(|width| width.width_ticks).max().unwrap_or(1);
    SnapshotWidths { counter_ticks: 1, clock_ns }
}

/// In the manifest's words; `None` of a clock that did not move.
pub fn reading_width(step: &CounterStep) -> Option<store::ReadingWidth> {
    let moved = step.evidence != Evidence::Still;
    moved.then(|| store::ReadingWidth { width_ticks: step.width_ticks, seen: step.to_string() })
}
