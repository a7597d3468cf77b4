//! An instance of the kernel's trace of its own, with ticks of the counter: set up, read core by core, removed.
//!
//! Assumes: tracefs at its place, and the right to make folders there. Guarantees: no setting of anybody else's trace
//! is touched; the instance goes with the value; one whose maker was killed is removed by [`sweep`], one that lives
//! never, since the kernel refuses it while its files are open and its name says who made it.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use tickscope_tick::printable;

use crate::kernel_trace::TraceEvent;
use crate::trace_pages::PageFormat;

const TRACEFS: &str = "/sys/kernel/tracing";
const PREFIX: &str = "tickscope-";
/// Events without which nothing is told.
const NEEDED: [&str; 2] = ["sched/sched_switch", "sched/sched_process_exec"];
/// Events that a kernel may lack.
const WISHED: [&str; 6] = [
    "irq/irq_handler_entry",
    "irq/irq_handler_exit",
    "irq/softirq_entry",
    "irq/softirq_exit",
    "irq_vectors",
    "exceptions/page_fault_user",
];
/// Memory of one core's buffer, KiB: about a second of as many events as cores are seen to make.
const BUFFER_KIB: u32 = 8 << 10;

/// Events that are recorded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TraceEvents {
    /// Switches of tasks alone, which cost least.
    Switches,
    /// Interrupts, softirqs and page faults of programs as well.
    All,
}

/// The trace of all cores that are online.
#[derive(Debug)]
pub struct TraceInstance {
    /// Closed before the folder goes: the kernel keeps an instance whose files are open.
    cores: Vec<CoreTrace>,
    folder: Folder,
    format: PageFormat,
    /// Events that this kernel does not have.
    missing: Vec<&'static str>,
}

/// A trace's folder, which goes with the value.
#[derive(Debug)]
struct Folder(PathBuf);

/// The trace of one core.
#[derive(Debug)]
struct CoreTrace {
    core: u32,
    pipe: File,
    stats: PathBuf,
    lost: u64,
}

impl TraceInstance {
    /// Makes one that records; in words why not.
    pub fn begin(events: TraceEvents) -> Result<Self, String> {
        let (pid, born) = (std::process::id(), birth(std::process::id()).unwrap_or(0));
        let folder = Path::new(TRACEFS).join(format!("instances/{PREFIX}{pid}-{born}"));
        fs::create_dir(&folder).map_err(|e| {
            format!("cannot make {}: {e}. It needs tracefs mounted there, and root's rights", folder.display())
        })?;
        let folder = Folder(folder);
        folder.write("tracing_on", "0")?;
        folder.write("trace_clock", "x86-tsc").map_err(|why| {
            format!("{why}. Its events have to carry ticks of the counter, which other machines lack")
        })?;
        folder.write("buffer_size_kb", &BUFFER_KIB.to_string())?;
        let mut cores = Vec::new();
        for core in online()? {
            let place = |name: &str| folder.0.join(format!("per_cpu/cpu{core}/{name}"));
            let pipe = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(place("trace_pipe_raw"));
            let pipe = pipe.map_err(|e| unreadable(core, &e))?;
            cores.push(CoreTrace { core, pipe, stats: place("stats"), lost: 0 });
        }
        for event in NEEDED {
            folder.write(&format!("events/{event}/enable"), "1")?;
        }
        let is_missing = |event: &&str| folder.write(&format!("events/{event}/enable"), "1").is_err();
        let wished = if events == TraceEvents::All { &WISHED[..] } else { &[] };
        let (missing, there): (Vec<_>, Vec<_>) = wished.iter().copied().partition(is_missing);
        let format = folder.format(NEEDED.into_iter().chain(there))?;
        folder.write("tracing_on", "1")?;
        Ok(Self { cores, folder, format, missing })
    }

    /// Events that this kernel does not have.
    pub fn missing(&self) -> &[&'static str] {
        &self.missing
    }

    /// The cores that it records.
    pub fn cores(&self) -> impl Iterator<Item = u32> {
        self.cores.iter().map(|of| of.core)
    }

    /// Records nothing more; what was recorded can be read.
    pub fn stop(&self) -> Result<(), String> {
        self.folder.write("tracing_on", "0")
    }

    /// Hands the events that the core at that position has recorded to `wants_more`, one by one, until there is none or
    /// it wants no more, and what else lies in the same page: where events come as fast as they are read, reading would
    /// not end.
    pub fn read(&mut self, at: usize, mut wants_more: impl FnMut(TraceEvent<'_>) -> bool) -> Result<(), String> {
        let CoreTrace { core, pipe, .. } = &mut self.cores[at];
        let mut page = vec![0; self.format.page_bytes()];
        loop {
            match pipe.read(&mut page) {
                Ok(0) => return Ok(()),
                Ok(read) => {
                    let mut goes_on = true;
                    self.format.read(&page[..read], &mut |event| goes_on &= wants_more(event));
                    if !goes_on {
                        return Ok(());
                    }
                }
                Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(unreadable(*core, &e)),
            }
        }
    }

    /// Events of the core at that position that were lost since the last call.
    pub fn lost(&mut self, at: usize) -> Result<u64, String> {
        let CoreTrace { stats, lost, .. } = &mut self.cores[at];
        let text = at_once(stats).map_err(|e| format!("cannot read {}: {e}", stats.display()))?;
        let now = lost_events(&text).ok_or_else(|| {
            format!(
                "{}: expected how many events were lost, found '{}'. Noise needs a kernel that says so",
                stats.display(),
                printable(&text)
            )
        })?;
        Ok(now.saturating_sub(std::mem::replace(lost, now)))
    }
}

fn unreadable(core: u32, why: &io::Error) -> String {
    format!("cannot read the trace of core {core}: {why}. It needs tracefs at {TRACEFS}, and root's rights")
}

impl Folder {
    fn write(&self, name: &str, text: &str) -> Result<(), String> {
        let place = self.0.join(name);
        fs::write(&place, text).map_err(|e| format!("cannot write {text} to {}: {e}", place.display()))
    }

    /// How pages of these events are read; a folder of events stands for all of them.
    fn format<'a>(&self, events: impl Iterator<Item = &'a str>) -> Result<PageFormat, String> {
        let read = |place: &Path| {
            let bytes = fs::read(place).map_err(|e| {
                format!("cannot read {}: {e}. The kernel describes its events there to root", place.display())
            })?;
            Ok::<_, String>(String::from_utf8_lossy(&bytes).into_owned())
        };
        let (all, mut described) = (self.0.join("events"), Vec::new());
        for event in events.map(|event| all.join(event)) {
            let within = fs::read_dir(&event).map_err(|e| {
                format!("cannot list {}: {e}. The kernel has its events there for root", event.display())
            })?;
            let within = within.flatten().map(|entry| entry.path());
            for event in within.chain([event.clone()]).filter(|event| event.join("format").exists()) {
                let name = event.file_name().unwrap_or_default().to_string_lossy().into_owned();
                described.push((name, read(&event.join("format"))?));
            }
        }
        PageFormat::of(&read(&all.join("header_page"))?, &described)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0); // the next run's turn
    }
}

/// A short file that the kernel writes anew for each call that reads it: pieces of several calls fit no other.
fn at_once(file: &Path) -> io::Result<String> {
    let mut bytes = [0; 1 << 12];
    let read = File::open(file)?.read(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes[..read]).into_owned())
}

/// Events that a core's `stats` count as lost; `None`: it lacks a count.
fn lost_events(stats: &str) -> Option<u64> {
    let count = |name: &str| {
        let mut lines = stats.lines().filter_map(|line| line.split_once(": "));
        lines.find(|(found, _)| *found == name)?.1.trim().parse::<u64>().ok()
    };
    Some(count("overrun")? + count("commit overrun")? + count("dropped events")?)
}

/// Instances of tickscope's whose maker is dead.
pub fn left() -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(Path::new(TRACEFS).join("instances")) else { return Vec::new() };
    let left = entries.flatten().filter(|entry| entry.file_name().to_str().is_some_and(is_left));
    left.map(|entry| entry.path()).collect()
}

/// Removes them.
pub fn sweep() {
    left().iter().for_each(|folder| drop(fs::remove_dir(folder))); // another may have done so
}

fn is_left(name: &str) -> bool {
    let maker = name.strip_prefix(PREFIX).and_then(|maker| maker.split_once('-'));
    let maker = maker.and_then(|(pid, born)| Some((pid.parse::<u32>().ok()?, born.parse::<u64>().ok()?)));
    maker.is_some_and(|(pid, born)| birth(pid) != Some(born))
}

/// When a process began, in the kernel's clock ticks since boot; `None`: there is none.
fn birth(pid: u32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // Its name may hold spaces and brackets: the fields after the last bracket count.
    text.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse().ok()
}

fn online() -> Result<Vec<u32>, String> {
    let place = "/sys/devices/system/cpu/online";
    let text = fs::read_to_string(place).map_err(|e| format!("cannot read {place}: {e}"))?;
    cores(text.trim())
        .ok_or_else(|| format!("{place}: expected ranges of cores, found '{}'. Mount sysfs there", printable(&text)))
}

/// `0-3,5`.
fn cores(text: &str) -> Option<Vec<u32>> {
    let range = |range: &str| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        Some(first.parse::<u32>().ok()?..=last.parse::<u32>().ok()?)
    };
    Some(text.split(',').map(range).collect::<Option<Vec<_>>>()?.into_iter().flatten().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_in_which_a_buffer_loses_events_counts_and_a_count_that_is_not_there_is_no_zero() {
        let stats = "entries: 9\noverrun: 1\ncommit overrun: 20\nbytes: 5\nnow ts: 7\ndropped events: 300\n";
        assert_eq!(lost_events(stats), Some(321));
        assert_eq!(lost_events(&stats.replace("dropped events", "droped")), None);
        assert_eq!(lost_events(&stats.replace("\noverrun: 1", "")), None);
    }

    #[test]
    fn ranges_of_cores_are_read() {
        assert_eq!((cores("0-2,5"), cores("0"), cores("x")), (Some(vec![0, 1, 2, 5]), Some(vec![0]), None));
    }

    #[test]
    fn an_instance_is_left_once_its_maker_is_dead_or_another_has_its_number() {
        let (pid, born) = (std::process::id(), birth(std::process::id()).unwrap());
        assert!(!is_left(&format!("{PREFIX}{pid}-{born}")), "it lives");
        assert!(is_left(&format!("{PREFIX}{pid}-{}", born + 1)), "another has its number");
        assert!(!is_left("tickscope-mine") && !is_left("other-1-1"), "it is somebody else's");
    }
}
