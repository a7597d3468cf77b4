//! Records what the kernel does on the cores of this host while the run goes on.
//!
//! Idea: a trace instance of its own, read several times a second so that its buffers do not overrun; rows are written
//! as they come, with the stretch of each core in which everything was seen. Guarantees: where something was lost, or a
//! line was not understood, the stretch ends and a row says so; nothing that was open is paired across it. Where
//! nothing can be recorded the report says why, and the run goes on. Deliberately absent: whom it disturbed, which is
//! the analysis's.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use tickscope_counter::NodeCounter;
use tickscope_host::kernel_trace::{Class, Core, Departure, Lasted, TraceEvent, UNTOLD_SWITCH};
use tickscope_host::switch_count::{CountReading, Stretch, SwitchCount};
use tickscope_host::trace_instance::{TraceEvents, TraceInstance, sweep};
use tickscope_store::{NoiseClass, NoiseColumns, NoiseRow, Paths, next_segment, write_noise};
use tickscope_tick::Ordering;

use super::{RoleContext, patiently, ready};
use crate::Error;
use crate::interrupt;

/// How often the trace is read: its buffers hold some seconds.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// How long the kernel's count of switches may say nothing until what came meanwhile counts as lost.
const LEFT_OPEN: Duration = Duration::from_secs(10);
/// Share of a run that is not compared with that count, in percent, from which on it is told: its beginning and its end
/// never are.
const TOLD_PERCENT: f64 = 5.0;
/// Reason why what was not compared is lost.
const UNCOMPARED: &str = "the kernel's count of switches was not compared";
/// How often rows are written.
const WRITE_EVERY: Duration = Duration::from_secs(5);

/// Report of a recorder of noise.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct NoiseReport {
    /// Why something was not recorded, a sentence each.
    pub missing: Vec<String>,
}

/// Settings of a recorder of noise.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NoiseSettings {
    /// What is recorded.
    #[serde(default)]
    pub events: NoiseEvents,
}

/// What a recorder of noise records.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NoiseEvents {
    /// Switches of tasks alone.
    Switches,
    /// Interrupts, softirqs and page faults as well.
    #[default]
    All,
}

/// Records until the process is told to end.
pub(super) fn record(settings: NoiseSettings, place: &RoleContext) -> Result<NoiseReport, Error> {
    sweep();
    let events = match settings.events {
        NoiseEvents::Switches => TraceEvents::Switches,
        NoiseEvents::All => TraceEvents::All,
    };
    let counter = NodeCounter::true_counter();
    let begun = counter.read(Ordering::Before);
    let mut recording = match TraceInstance::begin(events) {
        Ok(instance) => Recording::of(Live { instance, counter }, begun, settings.events),
        Err(why) => {
            ready();
            while !interrupt::ended() {
                std::thread::sleep(LOOK_EVERY); // whoever started it would start it again
            }
            return Ok(NoiseReport { missing: vec![format!("noise was not recorded: {why}")] });
        }
    };
    ready();
    let mut write_due = Instant::now() + WRITE_EVERY;
    while !interrupt::ended() {
        recording.look()?;
        if Instant::now() >= write_due {
            recording.tell();
            let _ = recording.write(place); // a full disk may have room at the next attempt
            write_due = Instant::now() + WRITE_EVERY;
        }
        std::thread::sleep(LOOK_EVERY);
    }
    let missing = recording.end()?;
    patiently(|| recording.write(place))?;
    Ok(NoiseReport { missing })
}

/// The kernel, as a recorder asks it.
trait Kernel {
    /// Numbers of the cores that it traces.
    fn cores(&self) -> Vec<i32>;
    /// Events that it does not have.
    fn missing(&self) -> Vec<&'static str>;
    /// Reads the counter.
    fn now(&mut self, ordering: Ordering) -> i64;
    /// Reads its count of switches.
    fn switches(&mut self) -> Result<CountReading, String>;
    /// Events of the core at that position, as [`TraceInstance::read`].
    fn read(&mut self, at: usize, wants_more: &mut dyn FnMut(TraceEvent<'_>) -> bool) -> Result<(), String>;
    /// Events of it that were lost since the last call.
    fn lost(&mut self, at: usize) -> Result<u64, String>;
    /// Traces nothing more.
    fn stop(&mut self) -> Result<(), String>;
}

/// The kernel of this host.
struct Live {
    instance: TraceInstance,
    counter: NodeCounter,
}

impl Kernel for Live {
    fn cores(&self) -> Vec<i32> {
        self.instance.cores().map(|core| core as i32).collect()
    }

    fn missing(&self) -> Vec<&'static str> {
        self.instance.missing().to_vec()
    }

    fn now(&mut self, ordering: Ordering) -> i64 {
        self.counter.read(ordering)
    }

    fn switches(&mut self) -> Result<CountReading, String> {
        CountReading::take(&self.counter)
    }

    fn read(&mut self, at: usize, wants_more: &mut dyn FnMut(TraceEvent<'_>) -> bool) -> Result<(), String> {
        self.instance.read(at, wants_more)
    }

    fn lost(&mut self, at: usize) -> Result<u64, String> {
        self.instance.lost(at)
    }

    fn stop(&mut self) -> Result<(), String> {
        self.instance.stop()
    }
}

struct Recording<K> {
    kernel: K,
    cores: Vec<OfCore>,
    counted: Counted,
    columns: NoiseColumns,
    missing: Vec<String>,
}

/// Comparison of the trace with the kernel's count of switches.
struct Counted {
    /// Numbers of the cores.
    cores: Vec<i32>,
    count: SwitchCount,
    /// The reading before the last look: all that it may have counted was read since.
    reading: Option<CountReading>,
    /// Tasks that came to a core without a switch to them, of which the count has not said yet whether they are all.
    arrived: Vec<NoiseRow>,
    /// Everything before was compared with the count, or never will be.
    until: i64,
    compared: Instant,
    /// Switches that the trace left out.
    left_out: u64,
    /// Ticks of the stretches in which they were.
    left_out_ticks: i64,
    /// Ticks of the stretches for which no reading could be compared.
    uncompared_ticks: i64,
    begun: i64,
    /// Why the count cannot be read.
    unread: Option<String>,
}

/// What is known of one core.
struct OfCore {
    number: i32,
    core: Core,
    /// Everything before is told; `None`: nothing is known since.
    told: Option<i64>,
    /// Everything before was read, at the last look and at the one before.
    read: [i64; 2],
}

impl<K: Kernel> Recording<K> {
    /// One of a kernel that began to trace after `begun`: nothing before was compared.
    fn of(kernel: K, begun: i64, events: NoiseEvents) -> Self {
        let of = |number| OfCore { number, core: Core::keeping_switches(), told: None, read: [begun; 2] };
        let cores: Vec<OfCore> = kernel.cores().into_iter().map(of).collect();
        let counted = Counted::since(begun, kernel.cores());
        let missing = kernel.missing().into_iter();
        let missing = missing.map(|event| format!("this kernel's trace has no {event}, so that noise lacks them"));
        let unasked = "the run file asks for switches alone: interrupts, softirqs and page faults are not \
                       recorded, and whom they disturbed counts as undisturbed";
        let unasked = (events == NoiseEvents::Switches).then(|| unasked.to_string());
        let missing = missing.chain(unasked).collect();
        Self { kernel, cores, counted, columns: NoiseColumns::default(), missing }
    }

    /// Reads what was recorded since the last look, and compares it with the reading that it took then.
    fn look(&mut self) -> Result<(), Error> {
        let now = self.kernel.now(Ordering::Before);
        self.look_until(now)?;
        if let Some(before) = self.counted.reading.take() {
            self.counted.compare(before, &mut self.columns);
        }
        match self.count_switches() {
            Ok(reading) => self.counted.reading = Some(reading),
            Err(why) => {
                self.counted.give_up(now, &mut self.columns);
                self.counted.unread.get_or_insert(why);
            }
        }
        Ok(())
    }

    /// Reads the kernel's count, and keeps the core until the reading has settled: this thread's own switch is none
    /// that may lie within it.
    fn count_switches(&mut self) -> Result<CountReading, String> {
        let reading = self.kernel.switches()?;
        while self.kernel.now(Ordering::Before) <= reading.settles_at() {
            std::hint::spin_loop();
        }
        Ok(reading)
    }

    /// Reads what was recorded before `now`.
    fn look_until(&mut self, now: i64) -> Result<(), Error> {
        // All that the last reading may have counted, too.
        let until = self.counted.reading.map_or(now, |reading| reading.settles_at().max(now));
        let mut is_lost = false;
        for at in 0..self.cores.len() {
            let of = &mut self.cores[at];
            let (number, columns, arrived) = (of.number, &mut self.columns, &mut self.counted.arrived);
            let mut sink = |lasted: Lasted| match lasted.class {
                Class::Arrived => arrived.push(row(number, lasted)),
                _ => columns.push(row(number, lasted)),
            };
            let mut take = |event: TraceEvent<'_>| {
                of.core.take(event, &mut sink);
                of.core.reached() <= until
            };
            self.kernel.read(at, &mut take).map_err(Error::work)?;
            of.core.take_switches().for_each(|ticks| self.counted.count.show(ticks));
            let overrun = self.kernel.lost(at).map_err(Error::work)?;
            let overrun = (overrun > 0).then(|| format!("{overrun} events that found no room"));
            let lost: Vec<String> = overrun.into_iter().chain(of.core.take_lost()).collect();
            if !lost.is_empty() {
                let after = self.kernel.now(Ordering::After);
                of.lose(after, lost.join(", "), &mut self.columns);
                is_lost = true;
            }
            of.read = [now.max(of.read[0]), of.read[0]];
        }
        if is_lost {
            self.counted.give_up(now, &mut self.columns);
        }
        Ok(())
    }

    /// Tells what is known up to the look before the last, as a line may come late, and was compared with the count.
    fn tell(&mut self) {
        for of in &mut self.cores {
            of.tell(of.read[1].min(self.counted.until), &mut self.columns);
        }
    }

    fn write(&mut self, place: &RoleContext) -> Result<(), Error> {
        if !self.columns.is_empty() {
            let folder = Paths::of(&place.run).noise(place.node.as_str());
            write_noise(&next_segment(&folder)?, &self.columns)?;
            self.columns = NoiseColumns::default();
        }
        Ok(())
    }

    /// Tells the rest, and in words what was not recorded.
    fn end(&mut self) -> Result<Vec<String>, Error> {
        /// One within which no switch is suffices.
        const LAST_READINGS: usize = 5;
        let mut readings = Vec::new();
        for _ in 0..LAST_READINGS {
            readings.extend(self.count_switches());
        }
        let last = self.kernel.now(Ordering::Before);
        self.kernel.stop().map_err(Error::work)?;
        self.look_until(last)?;
        for reading in self.counted.reading.take().into_iter().chain(readings) {
            self.counted.compare(reading, &mut self.columns);
        }
        self.counted.give_up(last, &mut self.columns);
        for of in &mut self.cores {
            of.tell(last, &mut self.columns);
            let number = of.number;
            of.core.close(last, &mut |lasted| self.columns.push(row(number, lasted)));
        }
        Ok(self.missing.drain(..).chain(self.counted.missing()).collect())
    }
}

impl Counted {
    fn since(now: i64, cores: Vec<i32>) -> Self {
        Self {
            cores,
            count: SwitchCount::default(),
            reading: None,
            arrived: Vec::new(),
            until: now,
            compared: Instant::now(),
            left_out: 0,
            left_out_ticks: 0,
            uncompared_ticks: 0,
            begun: now,
            unread: None,
        }
    }

    /// Compares what was read with a reading: all is known where the trace has as many switches as the kernel counted,
    /// tasks that came to a core without a switch to them included, and elsewhere nothing is known of any core.
    fn compare(&mut self, reading: CountReading, columns: &mut NoiseColumns) {
        let now = reading.ticks[0];
        match self.count.compare(reading) {
            Stretch::Open if self.compared.elapsed() < LEFT_OPEN => return,
            Stretch::Open | Stretch::Begun | Stretch::Unclear(_) => self.lose_uncompared(now, columns),
            Stretch::Complete(_) => self.arrived_until(now).for_each(|row| columns.push(row)),
            Stretch::Incomplete(ticks, left_out) => {
                self.lose(ticks, &format!("{left_out} switches that the kernel counted and did not tell"), columns);
                self.left_out += left_out;
                self.left_out_ticks += ticks[1] - ticks[0];
            }
        }
        (self.until, self.compared) = (self.until.max(now), Instant::now());
    }

    /// Leaves what was read so far without a comparison.
    fn give_up(&mut self, now: i64, columns: &mut NoiseColumns) {
        self.count.restart();
        self.lose_uncompared(now, columns);
        (self.reading, self.until, self.compared) = (None, self.until.max(now), Instant::now());
    }

    fn lose_uncompared(&mut self, now: i64, columns: &mut NoiseColumns) {
        if self.until < now {
            self.uncompared_ticks += now - self.until;
            self.lose([self.until, now], UNCOMPARED, columns);
        }
    }

    /// Nothing is known of any core in that stretch, nor of the time in which tasks may have come that showed up by
    /// its end.
    fn lose(&mut self, ticks: [i64; 2], why: &str, columns: &mut NoiseColumns) {
        self.cores.iter().for_each(|core| columns.push(stretch(*core, NoiseClass::Lost, ticks, why.into())));
        self.arrived_until(ticks[1]).for_each(|NoiseRow { core, begin, end, .. }| {
            columns.push(stretch(core, NoiseClass::Lost, [begin, end], UNTOLD_SWITCH.into()));
        });
    }

    /// Takes those that came before.
    fn arrived_until(&mut self, until: i64) -> impl Iterator<Item = NoiseRow> {
        let (before, after) = std::mem::take(&mut self.arrived).into_iter().partition(|row| row.begin < until);
        self.arrived = after;
        Vec::into_iter(before)
    }

    /// Sentences about what the trace lacks.
    fn missing(&self) -> impl Iterator<Item = String> {
        let &Self { left_out, left_out_ticks, uncompared_ticks, begun, until, .. } = self;
        let percent = |ticks: i64| 100.0 * ticks as f64 / (until - begun).max(1) as f64;
        let left_out = (left_out > 0).then(|| {
            format!(
                "the kernel counted {left_out} switches that its trace does not show: traces that overlap the \
                 {:.1} % of the run in which they were are not known",
                percent(left_out_ticks)
            )
        });
        let uncompared = (percent(uncompared_ticks) > TOLD_PERCENT).then(|| {
            format!(
                "for {:.1} % of the run the kernel's trace could not be compared with its count of switches: traces \
                 that overlap that are not known. Cores that switch less often, as of fewer programs, help",
                percent(uncompared_ticks)
            )
        });
        let unread =
            self.unread.as_ref().map(|why| format!("{why}: switches that the kernel's trace left out are not known"));
        left_out.into_iter().chain(uncompared).chain(unread)
    }
}

impl OfCore {
    /// Tells that everything up to `until` was seen.
    fn tell(&mut self, until: i64, columns: &mut NoiseColumns) {
        let number = self.number;
        self.core.tell(until, &mut |lasted| columns.push(row(number, lasted)));
        let Some(from) = self.told.max(self.core.known_since()).filter(|&from| from < until) else { return };
        columns.push(stretch(number, NoiseClass::Recorded, [from, until], String::new()));
        self.told = Some(until);
    }

    /// Something was lost since the look before the last, and until `after`.
    fn lose(&mut self, after: i64, why: String, columns: &mut NoiseColumns) {
        let (number, from) = (self.number, self.read[1]);
        self.tell(from, columns);
        self.core.close(after, &mut |lasted| columns.push(row(number, lasted)));
        columns.push(stretch(number, NoiseClass::Lost, [from, after], why));
        self.told = None;
    }
}

fn row(core: i32, lasted: Lasted) -> NoiseRow {
    let Lasted { class, begin, end, what, thread, departure } = lasted;
    let preempted = departure.map(|departure| i32::from(departure != Departure::Waits));
    let class = match class {
        Class::Task => NoiseClass::Task,
        Class::Interrupt => NoiseClass::Interrupt,
        Class::Softirq => NoiseClass::Softirq,
        Class::Fault => NoiseClass::Fault,
        Class::Arrived => NoiseClass::Arrived,
        Class::Lost => NoiseClass::Lost,
    };
    NoiseRow { core, begin, end, class, what, thread, preempted }
}

fn stretch(core: i32, class: NoiseClass, [begin, end]: [i64; 2], what: String) -> NoiseRow {
    NoiseRow { core, begin, end, class, what, thread: 0, preempted: None }
}

#[cfg(test)]
mod tests {
    mod simulated;

    use tickscope_host::kernel_trace::TaskName;

    use super::*;

    fn switch(tick: i64, [from, next]: [i32; 2]) -> TraceEvent<'static> {
        let name = |thread: i32| TaskName::of(format!("task{thread}").as_bytes());
        let (from_name, name, departure) = (name(from), name(next), Some(Departure::Preempted));
        TraceEvent::Switch { tick, from, from_name, next, name, departure }
    }

    fn take(of: &mut OfCore, event: TraceEvent<'_>, columns: &mut NoiseColumns) {
        of.core.take(event, &mut |lasted| columns.push(row(1, lasted)));
    }

    fn stretches(columns: NoiseColumns) -> Vec<(NoiseClass, [i64; 2])> {
        let is_stretch = |row: &NoiseRow| matches!(row.class, NoiseClass::Recorded | NoiseClass::Lost);
        columns.rows().filter(is_stretch).map(|row| (row.class, [row.begin, row.end])).collect()
    }

    #[test]
    fn all_is_recorded_unless_switches_alone_are_asked_for() {
        let read = |text: &str| serde_json::from_str::<NoiseSettings>(text).map(|settings| settings.events);
        assert_eq!(read("{}").unwrap(), NoiseEvents::All);
        assert_eq!(read(r#"{"events": "switches"}"#).unwrap(), NoiseEvents::Switches);
        assert!(read(r#"{"events": "some"}"#).unwrap_err().to_string().contains("`switches` or `all`"));
    }

    /// Nobody has core 1 up to 1 000 000; then thread 8 shows up, and is known to have come between these two ticks.
    fn unseen_arrival() -> (Counted, NoiseRow) {
        let mut of = OfCore { number: 1, core: Core::keeping_switches(), told: None, read: [0; 2] };
        let mut counted = Counted::since(190_000, vec![0, 1]);
        let mut arrived = Vec::new();
        for event in [switch(400_000, [1, 0]), switch(1_000_000, [8, 9])] {
            of.core.take(event, &mut |lasted| arrived.push(row(1, lasted)));
        }
        let (arrived, _) = arrived.into_iter().partition::<Vec<_>, _>(|row| row.class == NoiseClass::Arrived);
        counted.arrived = arrived.clone();
        of.core.take_switches().for_each(|ticks| counted.count.show(ticks));
        let expected = NoiseRow { core: 1, begin: 400_000, end: 1_000_000, thread: 8, ..arrived[0].clone() };
        assert_eq!(arrived, std::slice::from_ref(&expected));
        (counted, expected)
    }

    fn compared(counted: &mut Counted, [tick, switches]: [i64; 2]) -> Vec<NoiseRow> {
        let mut columns = NoiseColumns::default();
        let reading = CountReading { ticks: [tick, tick + 1000], switches: switches as u64 };
        counted.compare(reading, &mut columns);
        columns.rows().collect()
    }

    /// Nothing is known of both cores between these ticks, and of core 1 while thread 8 may have come.
    fn lost(ticks: [i64; 2], why: &str) -> Vec<NoiseRow> {
        let both = [0, 1].map(|core| stretch(core, NoiseClass::Lost, ticks, why.into()));
        both.into_iter().chain([stretch(1, NoiseClass::Lost, [400_000, 1_000_000], UNTOLD_SWITCH.into())]).collect()
    }

    /// The same with a first reading behind it.
    fn begun() -> (Counted, NoiseRow) {
        let (mut counted, arrived) = unseen_arrival();
        assert_eq!(compared(&mut counted, [200_000, 70]), lost([190_000, 200_000], UNCOMPARED)[..2]);
        (counted, arrived)
    }

    #[test]
    fn a_task_that_came_unseen_is_known_once_the_kernel_has_counted_no_other_switch() {
        let (mut counted, arrived) = begun();
        assert_eq!(compared(&mut counted, [700_000, 72]), [], "it may have come within that reading");
        assert_eq!(counted.until, 200_000, "nothing is told up to there yet");
        assert_eq!((compared(&mut counted, [2_000_000, 73]), counted.until), (vec![arrived], 2_000_000));
        assert_eq!((counted.arrived.len(), counted.missing().count()), (0, 0), "as beginnings are");
    }

    #[test]
    fn nothing_is_known_of_any_core_while_the_kernel_counted_switches_that_nobody_saw() {
        let (mut counted, _) = begun();
        let why = "2 switches that the kernel counted and did not tell";
        assert_eq!(compared(&mut counted, [2_000_000, 75]), lost([200_000, 2_001_000], why));
        assert_eq!(counted.arrived, []);
        let missing: Vec<_> = counted.missing().collect();
        assert!(missing.len() == 1 && missing[0].contains("counted 2 switches"), "{missing:?}");
    }

    #[test]
    fn nothing_is_known_of_any_core_where_the_counts_are_not_compared() {
        let (mut counted, _) = unseen_arrival();
        let before = lost([190_000, 2_000_000], UNCOMPARED);
        assert_eq!(compared(&mut counted, [2_000_000, 70]), before, "there is no reading before it");
        let (mut counted, _) = begun();
        let since = lost([200_000, 2_000_000], UNCOMPARED);
        assert_eq!(compared(&mut counted, [2_000_000, 72]), since, "the kernel counted too few");
        let (mut counted, _) = begun();
        counted.compared -= LEFT_OPEN;
        let open = lost([200_000, 700_000], UNCOMPARED);
        assert_eq!(compared(&mut counted, [700_000, 72]), open, "nothing could be compared for so long");
        let missing: Vec<_> = counted.missing().collect();
        assert!(missing.len() == 1 && missing[0].starts_with("for 100.0 % of the run"), "{missing:?}");
        let (mut counted, _) = begun();
        let mut columns = NoiseColumns::default();
        counted.give_up(3_000_000, &mut columns);
        let given_up = lost([200_000, 3_000_000], UNCOMPARED);
        assert_eq!((columns.rows().collect::<Vec<_>>(), counted.until), (given_up, 3_000_000));
        let again = lost([3_000_000, 4_000_000], UNCOMPARED);
        assert_eq!(compared(&mut counted, [4_000_000, 90]), again[..2], "the first one since");
    }

    #[test]
    fn an_overrun_ends_what_is_known_and_it_is_known_again_from_the_next_switch_on() {
        let mut of = OfCore { number: 1, core: Core::default(), told: None, read: [300, 200] };
        let mut columns = NoiseColumns::default();
        take(&mut of, switch(100, [1, 7]), &mut columns);
        of.lose(400, "5 events that found no room".into(), &mut columns);
        of.read = [600, 500];
        of.tell(500, &mut columns);
        take(&mut of, switch(450, [7, 8]), &mut columns);
        of.tell(500, &mut columns);
        of.tell(700, &mut columns);
        let expected = [
            (NoiseClass::Recorded, [100, 200]),
            (NoiseClass::Lost, [200, 400]),
            (NoiseClass::Recorded, [450, 500]),
            (NoiseClass::Recorded, [500, 700]),
        ];
        assert_eq!(stretches(columns), expected);
    }
}
