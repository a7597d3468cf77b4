//! What the kernel did while a window was measured, and what it counts of our threads and of stolen time.
//!
//! Guarantees: where it lost events, or said something that is not understood, all of the window on that core is told
//! as lost. Deliberately absent: what caused what.

use std::fs;

use tickscope_counter::NodeCounter;
use tickscope_host::kernel_trace::{Class, Core, Lasted, UNTOLD_SWITCH};
use tickscope_host::trace_instance::{TraceEvents, TraceInstance, sweep};
use tickscope_tick::Ordering;

use crate::cause::KernelWindow;

/// The kernel's trace of all cores.
pub(crate) struct KernelRecord {
    instance: TraceInstance,
    cores: Vec<(usize, Core)>,
    counter: NodeCounter,
}

impl KernelRecord {
    /// Begins, unless it is left out; in words why not.
    pub(crate) fn begin(is_left_out: bool) -> Result<Self, String> {
        if is_left_out {
            return Err("the kernel's trace was left out, as --no-trace says".into());
        }
        sweep();
        let instance = TraceInstance::begin(TraceEvents::All)?;
        let cores = instance.cores().map(|core| (core as usize, Core::default())).collect();
        Ok(Self { instance, cores, counter: NodeCounter::true_counter() })
    }

    /// Events that this kernel does not have.
    pub(crate) fn missing(&self) -> impl Iterator<Item = String> {
        let missing = self.instance.missing().iter();
        missing.map(|event| format!("this kernel's trace has no {event}: such detours are told as the hypervisor's"))
    }

    /// Everything that was recorded since the last call, as a window that began at `from`.
    pub(crate) fn take(&mut self, from: i64) -> Result<KernelWindow, String> {
        let until = self.counter.read(Ordering::Before);
        let mut events = Vec::new();
        for (at, (number, core)) in self.cores.iter_mut().enumerate() {
            let mut sink = |mut event: Lasted| {
                if event.class == Class::Arrived {
                    // Nobody counts the switches of a window, so that another task may have come and gone before.
                    let what = UNTOLD_SWITCH.into();
                    event = Lasted { class: Class::Lost, what, thread: 0, ..event };
                }
                if event.end >= from {
                    events.push((*number, event));
                }
            };
            self.instance.read(at, |event| {
                core.take(event, &mut sink);
                core.reached() <= until
            })?;
            let overrun = self.instance.lost(at)?;
            let overrun = (overrun > 0).then(|| format!("{overrun} events that found no room"));
            let why: Vec<String> = overrun.into_iter().chain(core.take_lost()).collect();
            let mut lost = |[begin, end]: [i64; 2], what: String| {
                sink(Lasted { class: Class::Lost, begin, end, what, thread: 0, departure: None });
            };
            if !why.is_empty() {
                lost([from, until], why.join(", "));
                core.close(until, &mut |_| {});
            }
            match core.known_since() {
                None => lost([from, until], "nothing is known of the core".into()),
                Some(known) if known > from => lost([from, known], "nothing is known of the core yet".into()),
                Some(_) => core.tell(until, &mut sink),
            }
        }
        Ok(KernelWindow::of(events))
    }
}

/// Time that the hypervisor says it kept a core from this machine since boot, in ticks of the kernel's clock.
pub(crate) fn stolen(core: usize) -> Option<u64> {
    const STEAL: usize = 8;
    let text = fs::read_to_string("/proc/stat").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(&format!("cpu{core} ")).map(str::to_owned))?;
    line.split_whitespace().nth(STEAL - 1)?.parse().ok()
}

/// Ticks a second of that clock.
pub(crate) fn clock_ticks() -> u64 {
    // SAFETY: takes a number and touches no memory of ours.
    u64::try_from(unsafe { libc::sysconf(libc::_SC_CLK_TCK) }).unwrap_or(100).max(1)
}

/// Switches and page faults of the calling thread so far: preempted, waited, faulted.
pub(crate) fn own_counts() -> [i64; 3] {
    // SAFETY: the kernel fills the zeroed struct that it is given, and keeps no pointer to it.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_THREAD, &mut usage);
        usage
    };
    [usage.ru_nivcsw, usage.ru_nvcsw, usage.ru_minflt + usage.ru_majflt]
}
