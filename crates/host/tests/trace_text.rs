//! The kernel's trace read as pages says what the kernel's own text of the same trace says, event by event.

use std::collections::BTreeSet;
use std::ffi::CStr;
use std::fs;
use std::path::Path;

use tickscope_host::kernel_trace::{Departure, TaskName, TraceEvent};
use tickscope_host::trace_instance::{TraceEvents, TraceInstance};

/// In a view of its own, where this machine has none.
fn mount_tracefs() {
    const TRACING: &CStr = c"/sys/kernel/tracing";
    if fs::read_dir("/sys/kernel/tracing").is_ok_and(|mut entries| entries.next().is_some()) {
        return;
    }
    let none = std::ptr::null();
    // SAFETY: three system calls on constant strings; the null pointers stand for what they do not need.
    unsafe {
        if libc::unshare(libc::CLONE_NEWNS) == 0 {
            libc::mount(none, c"/".as_ptr(), none, libc::MS_REC | libc::MS_PRIVATE, none.cast());
            libc::mount(c"nodev".as_ptr(), TRACING.as_ptr(), c"tracefs".as_ptr(), 0, none.cast());
        }
    }
}

/// What an event and a line of text both say: event, tick, thread, and the rest in words.
type Said = (&'static str, i64, i32, String);

fn said(event: &TraceEvent<'_>) -> Said {
    let plain = |name: &TaskName| format!("{name:?}");
    match event {
        TraceEvent::Switch { tick, from, from_name, next, name, departure } => {
            let names = [from_name, name].map(plain).join(" to ");
            ("switch", *tick, *from, format!("{next} {names} {departure:?}"))
        }
        TraceEvent::Renumbered { tick, from, to, name } => ("exec", *tick, *to, format!("{from} {}", plain(name))),
        TraceEvent::Entry(edge) => ("entry", edge.tick, edge.thread, edge.what.to_string()),
        TraceEvent::Exit(edge) => ("exit", edge.tick, edge.thread, edge.what.to_string()),
        TraceEvent::Fault(edge) => ("fault", edge.tick, edge.thread, edge.what.to_string()),
        TraceEvent::Lost(what) => panic!("nothing is lost here, and {what} is said"),
    }
}

/// Of a line such as `   rustc-10468   [001] d..2. 1000: sched_switch: prev_comm=...`; `None`: of no event of ours.
fn said_by(line: &str) -> Option<Said> {
    const NAME_BYTES: usize = 16;
    let (thread, rest) = line.get(NAME_BYTES..)?.strip_prefix('-')?.split_once(' ')?;
    let (tick, rest) = rest.split_once("] ")?.1.trim_start().split_once(' ')?.1.trim_start().split_once(": ")?;
    let (tick, thread) = (tick.parse().ok()?, thread.parse().ok()?);
    let (event, fields) = rest.split_once(": ")?;
    let between = |from: &str, until: &str| {
        let rest = &fields[fields.find(from)? + from.len()..];
        Some(&rest[..rest.find(until).unwrap_or(rest.len())])
    };
    let name = |name: &str| format!("{:?}", TaskName::of(name.as_bytes()));
    Some(match event {
        "sched_switch" => {
            let [from, next] = [between("prev_comm=", " prev_pid=")?, between("next_comm=", " next_pid=")?].map(name);
            let priority = |of: &str| between(of, " ")?.parse::<i32>().ok();
            let (own, comes) = (priority("prev_prio=")?, priority("next_prio=")?);
            let departure = match between("prev_state=", " ")?.starts_with('R') {
                true if own < 100 && comes > own => Departure::Limited,
                true => Departure::Preempted,
                false => Departure::Waits,
            };
            let words = format!("{} {from} to {next} {:?}", between("next_pid=", " ")?, Some(departure));
            ("switch", tick, thread, words)
        }
        "sched_process_exec" => {
            let file = between("filename=", " ")?.rsplit('/').next()?;
            ("exec", tick, thread, format!("{} {}", between("old_pid=", " ")?, name(file)))
        }
        "irq_handler_entry" => ("entry", tick, thread, format!("irq {}", between("name=", "\n")?)),
        "irq_handler_exit" => ("exit", tick, thread, "irq".into()),
        "softirq_entry" => ("entry", tick, thread, between("[action=", "]")?.into()),
        "softirq_exit" => ("exit", tick, thread, between("[action=", "]")?.into()),
        "page_fault_user" => ("fault", tick, thread, "page fault".into()),
        _ => match (event.strip_suffix("_entry"), event.strip_suffix("_exit")) {
            (Some(name), _) => ("entry", tick, thread, name.into()),
            (_, Some(name)) => ("exit", tick, thread, name.into()),
            _ => return None,
        },
    })
}

#[test]
fn pages_of_the_kernels_trace_say_what_its_text_says() {
    mount_tracefs();
    let mut instance = match TraceInstance::begin(TraceEvents::All) {
        Ok(instance) => instance,
        Err(why) => return println!("not tried: {why}"),
    };
    let own = format!("tickscope-{}-", std::process::id());
    let mut folders = fs::read_dir("/sys/kernel/tracing/instances").unwrap().flatten();
    let folder = folders.find(|entry| entry.file_name().to_string_lossy().starts_with(&own)).unwrap().path();
    let mut kinds = BTreeSet::new();
    // Pages are read while they fill. Switches, faults, programs that run, and a pause longer than the difference that
    // an event has room for.
    for seconds in ["0"; 30].into_iter().chain(["0.2", "0"]) {
        fs::write(folder.join("tracing_on"), "1").unwrap();
        assert!(std::process::Command::new("sleep").arg(seconds).status().unwrap().success());
        instance.stop().unwrap();
        compare(&mut instance, &folder, &mut kinds);
    }
    assert!(["switch", "exec", "fault"].iter().all(|event| kinds.contains(event)), "{kinds:?}");
}

/// Takes what was traced, and compares it.
fn compare(instance: &mut TraceInstance, folder: &Path, kinds: &mut BTreeSet<&'static str>) {
    let cores: Vec<u32> = instance.cores().collect();
    for (at, core) in cores.into_iter().enumerate() {
        let text = fs::read(folder.join(format!("per_cpu/cpu{core}/trace"))).unwrap();
        let text = String::from_utf8_lossy(&text);
        let expected: Vec<Said> = text.lines().filter_map(said_by).collect();
        let mut found = Vec::new();
        instance
            .read(at, |event| {
                found.push(said(&event));
                true
            })
            .unwrap();
        let differ = expected.iter().zip(&found).find(|(text, page)| text != page);
        assert_eq!(differ, None, "core {core}");
        assert_eq!(expected.len(), found.len(), "core {core}");
        kinds.extend(found.into_iter().map(|(event, ..)| event));
    }
}
