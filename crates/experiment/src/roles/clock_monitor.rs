//! A node's clock monitor: brackets of REALTIME and MONOTONIC, and the events of its clocks.
//!
//! Every so often, at once when the kernel tells that somebody set the clock, and at both ends of the run: a snapshot
//! of all clocks, then a bracket of each that is related to the counter. So every bracket lies between two snapshots,
//! and what the two show to have happened is known before anyone rests on it. Events are written as they happen:
//! whoever kills this process leaves what it had seen, a slew that went on then without an end, and one that is started
//! again adds to it.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use tickscope_host::clock_monitor::{ClockMonitor, Happened, SlewBound, Slewing};
use tickscope_host::facts::CounterFacts;
use tickscope_host::host_clocks::{Change, ClockEvent, ClockReading, HostClocks, KernelClock, Snapshot};
use tickscope_host::host_realtime::{HostRealtime, around_a_tenth};
use tickscope_host::step_alarm::StepAlarm;
use tickscope_host::vmclock::{DisruptionWatch, VmClock};
use tickscope_store::{
    BracketColumns, BracketSource, Event, EventKind, Manifest, Pair, Paths, files_in, next_segment, read_brackets,
    write_brackets, write_events,
};
use tickscope_tick::{Clock, Label, Ordering};

use super::{RoleContext, patiently, ready};
use crate::Error;
use crate::host::{KnownMaps, snapshot_widths};
use crate::interrupt;
use crate::notice::say;

/// Report of a clock monitor.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct ClockReport {
    /// True if one rate was in force all the while by the kernel's account.
    pub constant: bool,
    /// How far the rate of REALTIME or MONOTONIC against the counter may be off a constant, where no event voids it.
    pub slew_bound_ppm: u32,
    /// Where that bound comes from, in words.
    pub slew_bound_origin: String,
    /// Sets of REALTIME.
    pub steps: u64,
    /// Slews beyond what the kernel's account allows.
    pub slews: u64,
    /// Suspends.
    pub suspends: u64,
    /// Clocks that ran backward.
    pub backward: u64,
    /// True if the kernel would have told of a step that is narrower than the readings.
    pub sets_are_told: bool,
    /// Brackets taken of each clock.
    pub brackets: u64,
}

/// From one look at the clocks to the next.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// How often brackets are written while the run goes on.
const WRITE_EVERY: Duration = Duration::from_secs(5);
const TOLD_WITHIN: Duration = Duration::from_nanos(ClockMonitor::NOTICE_NS_MAX as u64);

/// Watches until the process is told to end.
pub(super) fn monitor(place: &RoleContext) -> Result<ClockReport, Error> {
    let mut watching = Watching::begin(place)?;
    watching.void_what_nobody_watched()?;
    watching.take_up_the_hypervisors()?;
    watching.look(false)?;
    ready();
    let (mut due, mut write_due) = (Instant::now() + LOOK_EVERY, Instant::now() + WRITE_EVERY);
    while !interrupt::ended() {
        let set = watching.wait(due.saturating_duration_since(Instant::now()))?;
        if !set && Instant::now() < due {
            continue; // a signal
        }
        watching.look(set)?;
        due = watching.next_look();
        if Instant::now() >= write_due {
            let _ = watching.write(); // a full disk may have room at the next attempt
            write_due = Instant::now() + WRITE_EVERY;
        }
    }
    watching.end()
}

struct Watching<'a> {
    place: &'a RoleContext,
    /// Its file of events, written anew at each: none that an earlier clock monitor wrote.
    events: PathBuf,
    facts: CounterFacts,
    clocks: HostClocks,
    alarm: Option<StepAlarm>,
    monitor: ClockMonitor,
    /// Events that are none of the kernel's clocks: since an earlier clock monitor's last bracket nobody watched, one
    /// for each clock; what the hypervisor tells.
    noted: Vec<Event>,
    /// True if events wait for a disk that was full.
    untold: bool,
    brackets: u64,
    realtime: BracketColumns,
    monotonic: BracketColumns,
    /// The host's clock, where the run file declares it to be that of other nodes, too.
    host: Option<HostRealtime>,
    of_host: BracketColumns,
    disruptions: Option<DisruptionWatch>,
}

impl<'a> Watching<'a> {
    fn begin(place: &'a RoleContext) -> Result<Self, Error> {
        let clocks = HostClocks::from_environment().map_err(Error::input)?;
        let facts = CounterFacts::of_this_host().map_err(Error::work)?;
        let alarm = StepAlarm::arm().inspect_err(|finding| say(finding)).ok();
        let counter = clocks.counter().injection();
        let maps = KnownMaps { counter: counter.as_ref(), realtime: clocks.realtime_injection() };
        let monitor = ClockMonitor::with_widths(facts.frequency, snapshot_widths(maps));
        let (realtime, monotonic, of_host) = Default::default();
        let events = Paths::of(&place.run).next_clock_events(place.node.as_str());
        Ok(Self {
            place,
            events,
            facts,
            clocks,
            alarm,
            monitor,
            noted: Vec::new(),
            untold: false,
            brackets: 0,
            realtime,
            monotonic,
            host: None,
            of_host,
            disruptions: None,
        })
    }

    /// Takes up what the hypervisor lets this node see of time.
    fn take_up_the_hypervisors(&mut self) -> Result<(), Error> {
        if let Some(path) = VmClock::find(Path::new("/dev")) {
            self.watch_for_disruptions(&path);
        }
        let place = Paths::of(&self.place.run).manifest();
        let declared = place.exists() && Manifest::read(&place)?.evidence.common_host.contains(&self.place.node);
        if declared {
            match HostRealtime::find() {
                Some(path) => match HostRealtime::open(&path) {
                    Ok(clock) => self.host = Some(clock),
                    Err(finding) => self.miss_the_hosts_clock(&finding.to_string()),
                },
                None => self.miss_the_hosts_clock(
                    "expected a PTP clock named 'KVM virtual PTP' below /sys/class/ptp, found none; load ptp_kvm in \
                     the \
                     guest, or take the node out of evidence.common_host",
                ),
            }
        }
        Ok(())
    }

    fn miss_the_hosts_clock(&mut self, why: &str) {
        self.note(EventKind::HostClockMissing, &[], None, format!("{why}. Other evidence still relates its clock"));
    }

    /// A page that cannot be read is among the node's facts; here it is no finding, since nothing says that it matters.
    fn watch_for_disruptions(&mut self, path: &Path) {
        let watch = VmClock::open(path).and_then(|clock| DisruptionWatch::begin(clock, self.clocks.counter()));
        self.disruptions = watch.inspect_err(|finding| say(finding)).ok().flatten();
    }

    /// An event of these clocks, one row each, between two ticks; of none: one row.
    fn note(&mut self, what: EventKind, clocks: &[Clock], ticks: Option<(i64, i64)>, text: String) {
        let node = self.place.node.to_string();
        let row = |domain| Event {
            node: node.clone(),
            domain,
            tick: ticks.map(|(from, _)| from),
            until: ticks.map(|(_, until)| until),
            what: what.clone(),
            text: text.clone(),
            ..Event::default()
        };
        let rows: Vec<Event> = match clocks {
            [] => vec![row(None)],
            clocks => clocks.iter().map(|&clock| row(Some(self.label(clock).to_string()))).collect(),
        };
        self.noted.extend(rows);
        self.untold = self.write_events().is_err();
    }

    /// A disrupted counter voids all that was read around it.
    fn look_for_disruptions(&mut self) {
        let Some(watch) = &mut self.disruptions else { return };
        match watch.look(self.clocks.counter()) {
            Ok(None) => {}
            Ok(Some(found)) => {
                let clocks = [self.facts.counter, Clock::Realtime, Clock::Monotonic];
                let ticks = Some((found.from, found.until));
                self.note(EventKind::CounterDisrupted, &clocks, ticks, found.to_string());
            }
            Err(finding) => {
                self.disruptions = None;
                self.note(EventKind::Counter, &[], None, finding.to_string());
            }
        }
    }

    /// When to look next: a little before a whole tenth of a second of the host's clock, where that is read.
    fn next_look(&self) -> Instant {
        let now_ns = self.host.as_ref().and_then(|clock| clock.read().ok());
        let away_ns = now_ns.map(|ns| HostRealtime::EVERY_NS - ns.rem_euclid(HostRealtime::EVERY_NS));
        let lead = Duration::from_nanos(HostRealtime::LEAD_NS as u64);
        let wait = away_ns.map(|ns| Duration::from_nanos(ns as u64).saturating_sub(lead));
        Instant::now() + wait.unwrap_or(LOOK_EVERY)
    }

    /// Readings of the host's clock; one that fails is told once, and no other is tried.
    fn read_the_hosts_clock(&mut self) {
        let Some(clock) = &self.host else { return };
        match around_a_tenth(self.clocks.counter(), || clock.read()) {
            Ok(readings) => {
                for ClockReading { before, at, after } in readings {
                    self.of_host.push(Some(before), at, Some(after), BracketSource::Watch, ClockReading::ORDERING);
                }
            }
            Err(why) => {
                self.host = None;
                self.miss_the_hosts_clock(&format!("cannot read the host's clock: {why}"));
            }
        }
    }

    /// Clocks may have been set between two clock monitors: evidence across that time is void.
    fn void_what_nobody_watched(&mut self) -> Result<(), Error> {
        for clock in [Clock::Realtime, Clock::Monotonic] {
            let pair = Pair { reference: self.label(self.facts.counter), domain: self.label(clock) };
            let mut last = None;
            for file in files_in(&Paths::of(&self.place.run).brackets(&pair), "parquet")? {
                last = last.max(read_brackets(&file)?.ordered().filter_map(|(_, _, after)| after).max());
            }
            let Some(last) = last else { continue };
            self.compare(false)?; // from here on every change shows
            self.noted.push(Event {
                node: self.place.node.to_string(),
                domain: Some(pair.domain.to_string()),
                tick: Some(last),
                until: Some(self.clocks.counter().read(Ordering::After)),
                what: EventKind::ClockGap,
                text: "nobody watched this clock until another clock monitor began".into(),
                ..Event::default()
            });
        }
        if self.noted.is_empty() { Ok(()) } else { self.write_events() }
    }

    /// Waits for the alarm, a signal or the end of `most`; whether the kernel tells of a set.
    fn wait(&self, most: Duration) -> Result<bool, Error> {
        match &self.alarm {
            Some(alarm) => alarm.wait(most).map_err(Error::work),
            None => {
                std::thread::sleep(most); // at most until the next look: there is no alarm to wait for
                Ok(false)
            }
        }
    }

    /// A snapshot, what it shows, and a bracket of each clock.
    fn look(&mut self, set: bool) -> Result<(), Error> {
        self.read_the_hosts_clock();
        self.look_for_disruptions();
        self.compare(set)?;
        let each = [(KernelClock::Realtime, &mut self.realtime), (KernelClock::Monotonic, &mut self.monotonic)];
        for (clock, taken) in each {
            let ClockReading { before, at, after } = self.clocks.bracketed(clock).map_err(Error::work)?;
            taken.push(Some(before), at, Some(after), BracketSource::Watch, ClockReading::ORDERING);
        }
        self.brackets += 1;
        Ok(())
    }

    fn compare(&mut self, set: bool) -> Result<(), Error> {
        let (taken, set) = self.snapshots(set)?;
        taken.iter().for_each(|snapshot| self.keep_what_shows_a_step(snapshot));
        let Some(&now) = taken.last() else { return Ok(()) };
        if self.monitor.look(now, set) {
            self.untold = self.write_events().is_err();
        }
        Ok(())
    }

    /// Snapshots, of which the last one counts, and whether the kernel told of a set before it: each set belongs to the
    /// snapshot that shows it.
    fn snapshots(&self, mut set: bool) -> Result<(Vec<Snapshot>, bool), Error> {
        let snapshot = || self.clocks.snapshot().map_err(Error::work);
        let first = snapshot()?;
        let mut taken = vec![first];
        let Some(alarm) = &self.alarm else { return Ok((taken, set)) };
        // The clock changes a moment before the kernel tells of it.
        let untold = !set && self.monitor.shows_step(&first);
        let mut told = if untold { alarm.wait(TOLD_WITHIN) } else { alarm.has_gone_off() }.map_err(Error::work)?;
        while told {
            set = true;
            taken.push(snapshot()?);
            told = alarm.has_gone_off().map_err(Error::work)?;
        }
        Ok((taken, set))
    }

    /// What the clocks read behind a step is evidence: by the next bracket they may have been set again.
    fn keep_what_shows_a_step(&mut self, seen: &Snapshot) {
        if !self.monitor.shows_step(seen) {
            return;
        }
        let Snapshot { before, realtime_ns, monotonic_ns, after, .. } = *seen;
        for (at, taken) in [(realtime_ns, &mut self.realtime), (monotonic_ns, &mut self.monotonic)] {
            taken.push(Some(before), at, Some(after), BracketSource::Watch, ClockReading::ORDERING);
        }
        self.brackets += 1;
    }

    fn label(&self, clock: Clock) -> Label {
        Label { node: self.place.node.clone(), clock }
    }

    fn write_events(&self) -> Result<(), Error> {
        let happened = self.monitor.happened().iter().flat_map(|happened| self.rows(happened));
        let events: Vec<Event> = self.noted.iter().cloned().chain(happened).collect();
        Ok(write_events(&self.events, &events)?)
    }

    /// Rows of one change, one for each clock concerned.
    fn rows(&self, happened: &Happened) -> Vec<Event> {
        let Row { what, clocks, from, until, value } = match happened {
            Happened::Sudden(event) => Row::of_event(event, self.facts.counter),
            Happened::Slewed(slewing) => Row::of_slew(slewing),
        };
        let row = |clock: &String| Event {
            node: self.place.node.to_string(),
            channel: None,
            domain: Some(format!("{}.{clock}", self.place.node)), // BOOTTIME, too, which no stamp is of
            tick: Some(from),
            until,
            what: what.clone(),
            value,
            text: happened.to_string(),
        };
        clocks.iter().map(row).collect()
    }

    /// Events that could not be written before, then brackets: none is there whose voids are not.
    fn write(&mut self) -> Result<(), Error> {
        if self.untold {
            self.write_events()?;
            self.untold = false;
        }
        self.write_brackets()
    }

    fn write_brackets(&mut self) -> Result<(), Error> {
        let reference = self.label(self.facts.counter);
        let [realtime, monotonic, of_host] =
            [Clock::Realtime, Clock::Monotonic, Clock::Phc].map(|clock| self.label(clock));
        for (domain, taken) in
            [(realtime, &mut self.realtime), (monotonic, &mut self.monotonic), (of_host, &mut self.of_host)]
        {
            if !taken.is_empty() {
                let pair = Pair { reference: reference.clone(), domain };
                let folder = Paths::of(&self.place.run).brackets(&pair);
                write_brackets(&next_segment(&folder)?, taken)?;
                *taken = BracketColumns::default();
            }
        }
        Ok(())
    }

    /// The closing brackets, a snapshot that tells whether they may be trusted, and the report.
    fn end(mut self) -> Result<ClockReport, Error> {
        self.look(false)?;
        self.compare(false)?;
        patiently(|| self.write())?;
        Ok(self.report())
    }

    fn report(&self) -> ClockReport {
        let SlewBound { ppm, origin } = self.bound();
        let count = |what: EventKind| {
            let events = self.monitor.happened().iter().filter_map(|happened| self.rows(happened).pop());
            events.filter(|event| event.what == what).count() as u64
        };
        ClockReport {
            constant: self.monitor.is_constant(),
            slew_bound_ppm: ppm,
            slew_bound_origin: origin,
            steps: count(EventKind::ClockStep),
            slews: count(EventKind::ClockSlew),
            suspends: count(EventKind::ClockSuspend),
            backward: count(EventKind::ClockBackward),
            sets_are_told: self.alarm.is_some(),
            brackets: self.brackets,
        }
    }

    /// A kernel that keeps its clocks by another counter says nothing about their rate against this one.
    fn bound(&self) -> SlewBound {
        let bound = self.monitor.slew_bound();
        let unsteady = (ClockMonitor::UNSTEADY_PPB / 1000) as u32;
        match self.facts.findings().into_iter().find(|finding| finding.about == "clocksource") {
            Some(finding) if bound.ppm < unsteady => SlewBound { ppm: unsteady, origin: finding.to_string() },
            _ => bound,
        }
    }
}

/// The common part of the rows of one change.
struct Row {
    what: EventKind,
    /// The clocks concerned, by the part of the label after the node.
    clocks: Vec<String>,
    from: i64,
    until: Option<i64>,
    value: Option<i64>,
}

impl Row {
    fn of_event(event: &ClockEvent, counter: Clock) -> Self {
        let both = || vec![Clock::Realtime.to_string(), Clock::Monotonic.to_string()];
        let (what, clocks, value) = match event.change {
            Change::Step { ns } | Change::Set { ns } => {
                (EventKind::ClockStep, vec![Clock::Realtime.to_string()], Some(ns))
            }
            Change::Slew { .. } => (EventKind::ClockSlew, both(), None), // a rate is what a clock monitor tells
            Change::Suspend { ns } => (EventKind::ClockSuspend, both(), Some(ns)),
            Change::Discipline { to, .. } => (EventKind::ClockDiscipline, both(), Some(to.most_slew_ppb())),
            Change::Backward { clock } => (EventKind::ClockBackward, backward(clock, counter), None),
        };
        // Where the counter itself ran backward, all that it read around it is void.
        let (earlier, later) = (&event.earlier, &event.later);
        let ticks = [earlier.before, earlier.after, later.before, later.after];
        let (from, until) = ticks.iter().fold((i64::MAX, i64::MIN), |(lo, hi), &tick| (lo.min(tick), hi.max(tick)));
        Self { what, clocks, from, until: Some(until), value }
    }

    fn of_slew(slewing: &Slewing) -> Self {
        let Slewing { from, until, rate_ppb, .. } = *slewing;
        let clocks = vec![Clock::Realtime.to_string(), Clock::Monotonic.to_string()];
        Self { what: EventKind::ClockSlew, clocks, from, until, value: Some(rate_ppb) }
    }
}

/// The clock that ran backward, and those that are related to the counter: no clock map holds across it.
fn backward(clock: &str, counter: Clock) -> Vec<String> {
    let mut clocks = vec![Clock::Realtime.to_string(), Clock::Monotonic.to_string()];
    let own = match clock {
        "the counter" => counter.to_string(),
        "CLOCK_MONOTONIC_RAW" => Clock::MonotonicRaw.to_string(),
        "CLOCK_BOOTTIME" => "boottime".into(),
        _ => return clocks,
    };
    clocks.insert(0, own);
    clocks
}

#[cfg(test)]
mod tests {
    use super::*;
    use tickscope_counter::NodeCounter;
    use tickscope_store::read_events;
    use tickscope_tick::{NodeName, RealtimeInjection};

    #[test]
    fn what_a_clock_read_behind_a_step_is_evidence_though_it_may_be_set_again_before_the_next_bracket() {
        let run = std::env::temp_dir().join(format!("tickscope-steps-{}", std::process::id()));
        let place = RoleContext { node: NodeName::new("a").unwrap(), run: run.clone() };
        let mut watching = Watching::begin(&place).unwrap();
        watching.look(false).unwrap();
        let forward: RealtimeInjection = "0:700000000:0:0:2".parse().unwrap();
        watching.clocks = HostClocks::new(NodeCounter::default(), Some(forward));
        watching.compare(false).unwrap();
        watching.clocks = HostClocks::new(NodeCounter::default(), None);
        watching.look(false).unwrap();
        let read = &watching.realtime.at;
        assert_eq!((read.len(), watching.monotonic.at.len()), (4, 4), "one of each look, one behind each step");
        assert!(read[1] - read[0] > 600_000_000 && read[2] - read[1] < -600_000_000, "{read:?}");
        std::fs::remove_dir_all(run).unwrap();
    }

    #[test]
    fn what_lies_between_two_clock_monitors_is_void_for_both_clocks_and_nothing_before_the_first() {
        let run = std::env::temp_dir().join(format!("tickscope-gap-{}", std::process::id()));
        let place = RoleContext { node: NodeName::new("a").unwrap(), run: run.clone() };
        let mut first = Watching::begin(&place).unwrap();
        first.void_what_nobody_watched().unwrap();
        assert_eq!(first.noted, []);
        first.look(false).unwrap();
        first.write().unwrap(); // and then it is killed
        let mut second = Watching::begin(&place).unwrap();
        second.void_what_nobody_watched().unwrap();
        second.look(false).unwrap();
        let events = read_events(&second.events).unwrap();
        let domains: Vec<_> = events.iter().map(|event| event.domain.as_deref().unwrap()).collect();
        assert_eq!(domains, ["a.realtime", "a.monotonic"]);
        for event in &events {
            assert!(event.what.is_break() && event.tick < event.until, "{event:?}");
            let before = first.realtime.before.iter().chain(second.realtime.before.iter()).flatten().copied();
            assert!(before.min() >= event.until, "what is evidence again was taken after it");
        }
        std::fs::remove_dir_all(run).unwrap();
    }

    #[test]
    fn a_disruption_voids_the_counter_and_both_clocks_and_a_page_that_is_gone_is_told_once() {
        let run = std::env::temp_dir().join(format!("tickscope-disrupted-{}", std::process::id()));
        let page = run.join("page");
        let write = |marker: u8| {
            let mut bytes = [0u8; 104];
            bytes[..4].copy_from_slice(b"VCLK");
            (bytes[5], bytes[8], bytes[10], bytes[16]) = (16, 1, u8::from(cfg!(target_arch = "x86_64")), marker);
            std::fs::write(&page, bytes).unwrap();
        };
        std::fs::create_dir_all(&run).unwrap();
        let place = RoleContext { node: NodeName::new("a").unwrap(), run: run.clone() };
        let mut watching = Watching::begin(&place).unwrap();
        write(1);
        watching.watch_for_disruptions(&page);
        watching.look(false).unwrap();
        assert_eq!(watching.noted, []);
        write(2);
        watching.look(false).unwrap();
        watching.look(false).unwrap();
        let told = |what: EventKind| {
            let events = read_events(&watching.events).unwrap();
            events.into_iter().filter(|event| event.what == what).map(|event| event.domain).collect::<Vec<_>>()
        };
        let domains = [Clock::STAMPED, Clock::Realtime, Clock::Monotonic].map(|clock| Some(format!("a.{clock}")));
        assert_eq!(told(EventKind::CounterDisrupted), domains);
        assert_eq!(told(EventKind::Counter), []);
        std::fs::write(&page, "").unwrap();
        (0..2).for_each(|_| watching.look_for_disruptions());
        let events = read_events(&watching.events).unwrap();
        assert_eq!(events.iter().filter(|event| event.what == EventKind::Counter).count(), 1, "{events:?}");
        std::fs::remove_dir_all(run).unwrap();
    }
}
