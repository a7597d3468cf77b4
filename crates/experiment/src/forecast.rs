//! What a run will take of disk and memory, said before it begins.
//!
//! How much a program stamps is not known before: so what is said is what a million stamps take, what the run's own
//! evidence takes an hour, and how many stamps a second fit where the run goes. Bytes are those of this host's runs,
//! rounded up; a stamp takes what its columns cannot be packed into, so programs differ.
//!
//! Guarantees: a window's bound counts what may still lie there beyond it: the segment that is written, and one that is
//! looked at next. Deliberately absent: any look at the program.

use std::fmt::Write;
use std::path::Path;

use tickscope_host::free_space;
use tickscope_tick::counted;

use crate::plan::Plan;
use crate::preflight;

/// Bytes on disk that a stamp takes: regular ones 3, with distant ids and ticks twice as many, of slow points more.
const STAMP_BYTES: (u64, u64) = (3, 10);
/// Bytes on disk that an exchange of a probe takes, its brackets in both directions.
const EXCHANGE_BYTES: u64 = 16;
/// Bytes on disk of the four kernel stamps of an exchange that has them.
const KERNEL_BYTES: u64 = 20;
/// Bytes an hour of what is written however little happens: footers of a pair's files of brackets, one each 5 s.
const FILES_BYTES_HOUR: u64 = 720 * 2_200;
/// Bytes an hour of a node's clock monitor.
const MONITOR_BYTES_HOUR: u64 = 10_000_000;
/// Stamps of a segment that a collector makes, and may keep the memory of for the next.
const STAMPS_IN_MEMORY: u64 = 2 << 20;
/// Bytes in memory of a stamp's tick, id and channel.
const SLIM_BYTES: u64 = 20;
/// Bytes in memory of an encoder's chunk of a column, packed and compressed; 2^18 stamps of 9 bytes at most, twice.
const ENCODER_BYTES: u64 = 5_000_000;
/// Exchanges a second that the kernel stamps, at most.
const KERNEL_HZ: f64 = 100.0;

/// In lines, of the run that would lie in `root`.
pub(crate) fn forecast(plan: &Plan, root: &Path) -> String {
    let mut text = String::new();
    let (nodes, pairs) = (plan.nodes.len() as u64, preflight::probed_pairs(plan));
    let evidence_hour = evidence_hour(plan, nodes, pairs);
    let [least, most] = [STAMP_BYTES.0, STAMP_BYTES.1].map(|bytes| in_units(bytes * 1_000_000));
    let _ = writeln!(
        text,
        "disk: {least} to {most} a million stamps, more where ids have no order; evidence {} an hour ({}, {})",
        in_units(evidence_hour),
        counted(nodes, "node"),
        counted(pairs, "probed pair")
    );
    let pools: Vec<u64> = plan.nodes.iter().map(|node| preflight::pool_of(plan, node)).collect();
    let largest = pools.iter().max().copied().unwrap_or(0);
    let _ = writeln!(
        text,
        "memory: {} of shared memory for each program that stamps, at most; tickscope some 100 MB a node, of it {} for \
         the stamps of a segment, where their programs' pools are no larger, and {} for each thread that encodes it",
        in_units(largest),
        in_units(STAMPS_IN_MEMORY * SLIM_BYTES),
        in_units(ENCODER_BYTES)
    );
    let free = free_bytes(root);
    let _ = match free {
        Some(free) => {
            writeln!(text, "free where the run goes: {}; {}", in_units(free), what_fits(plan, free, evidence_hour))
        }
        None => writeln!(text, "free where the run goes: not known; {}", what_fits(plan, 0, evidence_hour)),
    };
    text
}

/// How many stamps a second fit, all nodes together.
fn what_fits(plan: &Plan, free: u64, evidence_hour: u64) -> String {
    let rate = |free: u64, seconds: f64| (free as f64 / STAMP_BYTES.1 as f64 / seconds) as u64;
    let seconds = plan.run.seconds;
    match plan.run.keep {
        None => {
            let left = free.saturating_sub((evidence_hour as f64 * seconds / 3600.0) as u64);
            format!(
                "over {seconds} s {} stamps a second fit. The run keeps all: --keep WINDOW bounds it",
                thousands(rate(left, seconds))
            )
        }
        Some(keep) => {
            let held = held_seconds(keep.duration().as_secs_f64());
            let hours = plan.run.seconds / 3600.0;
            let left = free.saturating_sub((evidence_hour as f64 * hours) as u64);
            format!(
                "keeping {keep}, stamps take at most the rate times {held:.0} s (the window and what a file spans), \
                 however long it goes on: {} stamps a second fit. Brackets and events all stay",
                thousands(rate(left, held))
            )
        }
    }
}

/// Seconds of stamps that may lie on disk where a window is kept: a file spans an eighth of it, a minute at most, and
/// is looked at each half of that.
fn held_seconds(keep: f64) -> f64 {
    let segment = (keep / 8.0).clamp(1.0, 60.0);
    keep + 2.0 * segment
}

/// Bytes an hour of brackets, kernel stamps and clock monitors.
fn evidence_hour(plan: &Plan, nodes: u64, pairs: u64) -> u64 {
    let hertz = plan.clock.probes_hz;
    let kernel = if plan.evidence.kernel_probes { hertz.min(KERNEL_HZ) } else { 0.0 };
    let second = hertz * EXCHANGE_BYTES as f64 + kernel * KERNEL_BYTES as f64;
    nodes * MONITOR_BYTES_HOUR + pairs * ((second * 3600.0) as u64 + FILES_BYTES_HOUR)
}

/// Bytes that may still be written where `root` is or will be; `None`: nobody says.
pub(crate) fn free_bytes(root: &Path) -> Option<u64> {
    let absolute = std::path::absolute(root).ok()?;
    let there = absolute.ancestors().find(|place| place.exists())?;
    free_space::free_bytes(there)
}

/// `3.4 GB`, rounded to two digits and more.
fn in_units(bytes: u64) -> String {
    let steps = [(1_000_000_000_000, "TB"), (1_000_000_000, "GB"), (1_000_000, "MB"), (1_000, "kB")];
    match steps.into_iter().find(|(unit, _)| bytes >= *unit) {
        Some((unit, name)) if bytes < 10 * unit => format!("{:.1} {name}", bytes as f64 / unit as f64),
        Some((unit, name)) => format!("{} {name}", bytes / unit),
        None => format!("{bytes} bytes"),
    }
}

/// `1 234 567`.
fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let groups: Vec<&str> =
        digits.as_bytes().rchunks(3).rev().filter_map(|group| std::str::from_utf8(group).ok()).collect();
    groups.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "run = { name = \"t\", seconds = 3600 }\nclock.reference = \"a\"\nclock.same_boot = \"ignore\"\n\
                        [[node]]\nname = \"a\"\ncommand = [\"true\"]\nends_run = true\n";

    #[test]
    fn a_window_is_told_with_what_a_file_spans_and_without_one_the_whole_time_counts() {
        let all = Plan::parse(TEXT).unwrap();
        let kept = Plan::parse(&TEXT.replace("seconds = 3600", "seconds = 3600, keep = \"30m\"")).unwrap();
        let fits = |plan| what_fits(plan, 36_000_000_000, 0);
        assert!(fits(&all).starts_with("over 3600 s 1 000 000 stamps a second fit"), "{}", fits(&all));
        let told = fits(&kept);
        assert!(told.contains("rate times 1920 s") && told.contains("1 875 000 stamps a second fit"), "{told}");
    }

    #[test]
    fn evidence_is_told_for_each_pair_that_is_probed() {
        let one = evidence_hour(&Plan::parse(TEXT).unwrap(), 2, 1);
        let three = evidence_hour(&Plan::parse(TEXT).unwrap(), 2, 3);
        assert!(three - one == 2 * (one - 2 * MONITOR_BYTES_HOUR) && one > 20_000_000, "{one} {three}");
    }

    #[test]
    fn bytes_and_numbers_are_told_as_people_read_them() {
        assert_eq!([999, 1_500, 20_000_000, 7_340_000_000].map(in_units), ["999 bytes", "1.5 kB", "20 MB", "7.3 GB"]);
        assert_eq!([0, 999, 1_000, 1_234_567].map(thousands), ["0", "999", "1 000", "1 234 567"]);
    }
}
