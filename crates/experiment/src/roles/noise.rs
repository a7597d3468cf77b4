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
use tickscope_host::kernel_trace::{Class, Core, Departure, Lasted};
use tickscope_host::trace_instance::{TraceEvents, TraceInstance, sweep};
use tickscope_store::{NoiseClass, NoiseColumns, NoiseRow, Paths, next_segment, write_noise};
use tickscope_tick::Ordering;

use super::{RoleContext, patiently, ready};
use crate::Error;
use crate::interrupt;

/// How often the trace is read: its buffers hold some seconds.
const LOOK_EVERY: Duration = Duration::from_millis(50);
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
    let mut recording = match TraceInstance::begin(events) {
        Ok(instance) => Recording::of(instance, settings.events, place),
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
            let _ = recording.write(); // a full disk may have room at the next attempt
            write_due = Instant::now() + WRITE_EVERY;
        }
        std::thread::sleep(LOOK_EVERY);
    }
    recording.end()
}

struct Recording<'a> {
    place: &'a RoleContext,
    instance: TraceInstance,
    counter: NodeCounter,
    cores: Vec<OfCore>,
    columns: NoiseColumns,
    missing: Vec<String>,
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

impl<'a> Recording<'a> {
    fn of(instance: TraceInstance, events: NoiseEvents, place: &'a RoleContext) -> Self {
        let counter = NodeCounter::true_counter();
        let now = counter.read(Ordering::After);
        let of = |number| OfCore { number: number as i32, core: Core::default(), told: None, read: [now; 2] };
        let cores = instance.cores().map(of).collect();
        let missing = instance.missing().iter();
        let missing = missing.map(|event| format!("this kernel's trace has no {event}, so that noise lacks them"));
        let unasked = "the run file asks for switches alone: interrupts, softirqs and page faults are not \
                       recorded, and whom they disturbed counts as undisturbed";
        let unasked = (events == NoiseEvents::Switches).then(|| unasked.to_string());
        Self {
            place,
            missing: missing.chain(unasked).collect(),
            instance,
            counter,
            cores,
            columns: NoiseColumns::default(),
        }
    }

    /// Reads what was recorded since the last look.
    fn look(&mut self) -> Result<(), Error> {
        let now = self.counter.read(Ordering::Before);
        self.look_until(now)
    }

    /// Reads what was recorded, which is everything before `now`.
    fn look_until(&mut self, now: i64) -> Result<(), Error> {
        for at in 0..self.cores.len() {
            let of = &mut self.cores[at];
            let (number, columns) = (of.number, &mut self.columns);
            let mut sink = |lasted| columns.push(row(number, lasted));
            self.instance.read(at, |line| of.core.take(line, &mut sink)).map_err(Error::work)?;
            let overrun = self.instance.lost(at).map_err(Error::work)?;
            let overrun = (overrun > 0).then(|| format!("{overrun} events that found no room"));
            let lost: Vec<String> = overrun.into_iter().chain(of.core.take_lost()).collect();
            if !lost.is_empty() {
                let after = self.counter.read(Ordering::After);
                of.lose(after, lost.join(", "), &mut self.columns);
            }
            of.read = [now.max(of.read[0]), of.read[0]];
        }
        Ok(())
    }

    /// Tells what is known up to the look before the last: a line may come late.
    fn tell(&mut self) {
        for of in &mut self.cores {
            of.tell(of.read[1], &mut self.columns);
        }
    }

    fn write(&mut self) -> Result<(), Error> {
        if !self.columns.is_empty() {
            let folder = Paths::of(&self.place.run).noise(self.place.node.as_str());
            write_noise(&next_segment(&folder)?, &self.columns)?;
            self.columns = NoiseColumns::default();
        }
        Ok(())
    }

    fn end(mut self) -> Result<NoiseReport, Error> {
        let last = self.counter.read(Ordering::Before);
        self.instance.stop().map_err(Error::work)?;
        self.look_until(last)?;
        for of in &mut self.cores {
            of.tell(last, &mut self.columns);
            let number = of.number;
            of.core.close(last, &mut |lasted| self.columns.push(row(number, lasted)));
        }
        patiently(|| self.write())?;
        Ok(NoiseReport { missing: self.missing })
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
        Class::Lost => NoiseClass::Lost,
    };
    NoiseRow { core, begin, end, class, what, thread, preempted }
}

fn stretch(core: i32, class: NoiseClass, [begin, end]: [i64; 2], what: String) -> NoiseRow {
    NoiseRow { core, begin, end, class, what, thread: 0, preempted: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn switch(tick: i64, next: i32) -> String {
        format!(
            "           first-10468   [001] d..2. {tick}: sched_switch: prev_comm=first prev_pid=10468 prev_prio=120 \
             prev_state=R ==> next_comm=task{next} next_pid={next} next_prio=120"
        )
    }

    fn take(of: &mut OfCore, line: &str, columns: &mut NoiseColumns) {
        of.core.take(line.as_bytes(), &mut |lasted| columns.push(row(1, lasted)));
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

    #[test]
    fn an_overrun_ends_what_is_known_and_it_is_known_again_from_the_next_switch_on() {
        let mut of = OfCore { number: 1, core: Core::default(), told: None, read: [300, 200] };
        let mut columns = NoiseColumns::default();
        take(&mut of, &switch(100, 7), &mut columns);
        of.lose(400, "5 events that found no room".into(), &mut columns);
        of.read = [600, 500];
        of.tell(500, &mut columns);
        take(&mut of, &switch(450, 8), &mut columns);
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
