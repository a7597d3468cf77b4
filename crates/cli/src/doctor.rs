//! `tickscope doctor`: one look before measuring.

mod policies;

use std::ffi::CString;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use serde::Serialize;
use tickscope_counter::NodeCounter;
use tickscope_experiment::leftovers::{Orphan, orphans};
use tickscope_experiment::{Host, hypervisor_clocks, may_make_namespaces};
use tickscope_host::host_clocks::{Discipline, Snapshot};
use tickscope_host::step::Evidence;
use tickscope_host::trace_instance;
use tickscope_stamp::block::DEFAULT_POOL_BYTES;
use tickscope_tick::{Unit, counted};

use crate::failure::Failure;
use crate::options::DoctorOptions;
use crate::output::{line, print_json};

/// A reading wider than this is reported, because the table's last digit is 10 ns.
const WIDE_NS: u32 = 5;

/// One thing looked at.
#[derive(Debug, Serialize)]
struct Look {
    what: &'static str,
    found: String,
    /// The cost to the result; absent: none.
    costs: Option<String>,
    /// True if durations measured here would be unsound.
    unsound: bool,
}

impl Look {
    /// Something that leaves durations sound.
    fn of(what: &'static str, found: impl Into<String>, costs: Option<String>) -> Self {
        Self { what, found: found.into(), costs, unsound: false }
    }
}

/// Prints what there is; exit code 3 where this machine cannot give sound bounds.
pub fn doctor(options: &DoctorOptions) -> Result<(), Failure> {
    let host = Host::look()?;
    let mut looks = counter(&host);
    looks.push(shared_memory(&options.shared_memory));
    looks.extend(policies::looks(|name| std::env::var_os(name)));
    looks.extend([governor(), disciplined(), rights(), cores(&host)]);
    let orphans = orphans();
    looks.extend(left_over(&orphans));
    let unsound = looks.iter().filter(|look| look.unsound).count();
    if options.json {
        print_json(&looks)?;
    } else {
        for Look { what, found, costs, unsound } in &looks {
            let mark = if *unsound {
                "UNSOUND"
            } else if costs.is_some() {
                "note"
            } else {
                "ok"
            };
            line(format_args!("{what:14} {mark:8} {found}"))?;
            if let Some(costs) = costs {
                line(format_args!("{:24}{costs}", ""))?;
            }
        }
    }
    if options.clean {
        clean(&orphans, options.json)?;
    }
    if unsound == 0 {
        Ok(())
    } else {
        Err(Failure::finding(format!(
            "expected a machine that bounds can be trusted on, found {} against it: bounds are unsound. See \
             above for each and its remedy",
            counted(unsound, "thing")
        )))
    }
}

fn counter(host: &Host) -> Vec<Look> {
    let facts = &host.facts;
    let known = |fact: &Option<String>| fact.clone().filter(|text| !text.is_empty()).unwrap_or_else(|| "none".into());
    let unsound = facts.findings().into_iter().chain(host.sharing.findings());
    let found = format!(
        "{} at {} Hz ±{} ppm ({}), reading it takes {} ticks (median)",
        facts.counter,
        facts.frequency.hertz,
        facts.frequency.tolerance_ppm,
        facts.frequency_origin,
        facts.read_ticks_median
    );
    let processor = format!("{}, hypervisor: {}", known(&facts.cpu_model), known(&facts.hypervisor));
    let virtualised = facts.hypervisor.as_ref().is_some_and(|name| !name.is_empty());
    let moved = "a live migration would change the counter's rate and value unseen: the run assumes there is none";
    let clocks = hypervisor_clocks();
    let mut looks = vec![
        Look::of("counter", found, None),
        Look::of("processor", processor, virtualised.then(|| moved.into())),
        reading(host),
        fence(host),
        Look::of("cores", host.sharing.to_string(), None),
    ];
    if virtualised || !clocks.is_empty() {
        let none = || "none: neither /dev/vmclock* nor a PTP clock of KVM".to_owned();
        looks.push(Look::of("hypervisor", if clocks.is_empty() { none() } else { clocks.join("; ") }, None));
    }
    looks.extend(unsound.map(|finding| Look {
        what: finding.about,
        found: finding.problem.to_string(),
        costs: Some(finding.remedy),
        unsound: true,
    }));
    looks
}

/// How wide a reading of the counter is, and what that leaves open in a duration on one node.
fn reading(host: &Host) -> Look {
    let step = &host.step;
    let unknown = step.evidence == Evidence::Still;
    let unit = Unit::nanoseconds(host.facts.frequency.hertz, 1);
    let costs = (unknown || unit.float_up(step.width_ticks) > WIDE_NS.into()).then(|| {
        let ns = unit.up(step.width_ticks);
        format!("a duration between two readings of the counter is known to ±{ns} ns at best, on one node as well")
    });
    Look { what: "readings", found: format!("{} ticks wide: {step}", step.width_ticks), costs, unsound: unknown }
}

/// Returns whether ordered stamps are ordered.
fn fence(host: &Host) -> Look {
    let known = host.facts.fence_serialises == Some(true);
    let found = if known {
        "waits for what precedes, by the processor's word"
    } else {
        "the processor does not say that it waits"
    };
    let costs = (!known).then(|| {
        "stamps `after` and `before` rest on the kernel having made lfence serialising (Linux does on AMD): see \
         docs/guarantee.md"
            .into()
    });
    Look::of("fence", found, costs)
}

fn shared_memory(directory: &Path) -> Look {
    let what = "shared memory";
    let wrong =
        |found: String| Look::of(what, found, Some("points would be off: name a tmpfs directory with room".into()));
    let Ok(path) = CString::new(directory.as_os_str().as_bytes()) else {
        return wrong("a path with a zero byte".into());
    };
    // SAFETY: statfs writes into the zeroed struct and reads a terminated path.
    let (status, found) = unsafe {
        let mut found: libc::statfs = std::mem::zeroed();
        (libc::statfs(path.as_ptr(), &mut found), found)
    };
    if status != 0 {
        return wrong(format!("{}: {}", directory.display(), std::io::Error::last_os_error()));
    }
    let free = found.f_bavail * found.f_bsize as u64;
    let text = format!("{}: {} MiB free", directory.display(), free >> 20);
    if free < DEFAULT_POOL_BYTES {
        return wrong(format!("{text}, a program needs {} MiB", DEFAULT_POOL_BYTES >> 20));
    }
    // Types of their own in each C library.
    if i128::from(found.f_type) != i128::from(libc::TMPFS_MAGIC) {
        let stalls = "stamps are kept there too, but a program may stand still while the kernel writes them back to a \
                      disk: name a directory on tmpfs";
        return Look::of(what, format!("{text}, not on tmpfs"), Some(stalls.into()));
    }
    Look::of(what, text, None)
}

fn governor() -> Look {
    let found = fs::read_to_string("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor");
    let found = found.map_or_else(|_| "not visible here".into(), |text| text.trim().to_owned());
    let slow = !matches!(found.as_str(), "performance" | "not visible here");
    let costs = slow.then(|| {
        "cores that clock down lengthen what is measured; not the bounds. Set the governor to performance".into()
    });
    Look::of("governor", found, costs)
}

fn disciplined() -> Look {
    let what = "wall clock";
    match Snapshot::of_this_host(&NodeCounter::true_counter()) {
        Err(finding) => Look::of(what, finding.to_string(), Some("steps and slews could not be detected".into())),
        Ok(snapshot) => {
            let found =
                snapshot.discipline.map_or_else(|| "its discipline cannot be read".into(), |found| told(&found));
            Look::of(what, found, None)
        }
    }
}

fn told(discipline: &Discipline) -> String {
    let state = if discipline.status & libc::STA_UNSYNC != 0 { "not disciplined" } else { "disciplined" };
    let correction = discipline.frequency_ppm();
    format!(
        "{state}, rate corrected by {correction:.3} ppm; durations rest on it only where kernel stamps are points or \
         evidence, as tickscope's own \
         probes are: setting it during a run voids those around it"
    )
}

/// What this user's runs that no longer live have left on this host.
fn left_over(orphans: &[Orphan]) -> Vec<Look> {
    let what = "left over";
    let traces = trace_instance::left();
    if orphans.is_empty() && traces.is_empty() {
        return vec![Look::of(what, "nothing by runs of this user that no longer live", None)];
    }
    let look = |orphan: &Orphan| {
        let costs = match orphan.remedy() {
            Some(takes) => format!("it holds stamps that no run has taken: {takes} takes them"),
            None => "it holds no stamps: tickscope doctor --clean removes it".into(),
        };
        Look::of(what, orphan.describe(), Some(costs))
    };
    let costs = "it records for nobody and slows what it records: tickscope doctor --clean removes it";
    let of_trace = |folder: &PathBuf| Look::of(what, format!("trace {}", folder.display()), Some(costs.into()));
    orphans.iter().map(look).chain(traces.iter().map(of_trace)).collect()
}

/// Removes what is left over, but for stamps that no run has taken.
fn clean(orphans: &[Orphan], json: bool) -> Result<(), Failure> {
    trace_instance::sweep();
    for orphan in orphans {
        orphan.clean()?;
        let kept = if orphan.remedy().is_some() { ", but for its stamps" } else { "" };
        if !json {
            line(format_args!("removed: {}{kept}", orphan.describe()))?;
        }
    }
    Ok(())
}

fn rights() -> Look {
    let what = "namespaces";
    match may_make_namespaces() {
        Ok(()) => Look::of(what, "may be made", None),
        Err(why) => Look::of(what, why, Some("runs use loopback instead of a veth pair".into())),
    }
}

fn cores(host: &Host) -> Look {
    let allowed = host.facts.cpus_allowed.unwrap_or(0);
    let costs = (allowed < 4)
        .then(|| "target, probe and collector share cores: medians and tails hold their mutual delays".into());
    Look::of("processors", format!("{allowed} allowed"), costs)
}
