//! The host's `CLOCK_REALTIME`, as a guest of KVM reads it from `/dev/ptpN` ("KVM virtual PTP").
//!
//! Each reading is a call of the hypervisor, which reads its clock within it; so the guest's counter, read before and
//! after, brackets it. Guests of one host read one clock so, and a clock that is never set back shows a lesser value
//! earlier: that alone orders what two guests read. It tells most where both read at nearly the same time; so each
//! reads around the whole tenths of a second of the clock itself.
//!
//! `clock_gettime` on the device is used, and no ioctl: `ptp_kvm` answers it by the same hypercall, has no
//! `PTP_SYS_OFFSET_EXTENDED`, and what `PTP_SYS_OFFSET_PRECISE` gives besides is the guest's own clocks, where the
//! counter is wanted. Deliberately absent: whether two guests are of one host, which nothing here can tell.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use crate::host_clocks::ClockReading;
use crate::{Finding, Problem};
use tickscope_counter::NodeCounter;
use tickscope_tick::Ordering;

/// The name that the kernel gives such a clock (`drivers/ptp/ptp_kvm_common.c`).
const NAME: &str = "KVM virtual PTP";
/// Where the kernel lists its PTP clocks.
const CLASS: &str = "/sys/class/ptp";

/// The host's clock, opened.
#[derive(Debug)]
pub struct HostRealtime {
    device: File,
}

impl HostRealtime {
    /// It is read around each whole multiple of this, nanoseconds.
    pub const EVERY_NS: i64 = 100_000_000;
    /// Readings begin no earlier before that: more than a thread oversleeps, mostly.
    pub const LEAD_NS: i64 = 1_000_000;
    /// Readings are kept that are as near to it as this, to either side.
    const NEAR_NS: i64 = 20_000;
    /// Most readings of a clock that never gets there.
    const READINGS_MOST: usize = 20_000;

    /// The device of this machine; `None`: it has none.
    pub fn find() -> Option<PathBuf> {
        Self::find_in(Path::new(CLASS), Path::new("/dev"))
    }

    fn find_in(class: &Path, devices: &Path) -> Option<PathBuf> {
        let is_of_kvm =
            |folder: &PathBuf| std::fs::read_to_string(folder.join("clock_name")).is_ok_and(|name| name.trim() == NAME);
        let folders = std::fs::read_dir(class).ok()?.flatten().map(|entry| entry.path());
        folders.filter(is_of_kvm).min().and_then(|folder| Some(devices.join(folder.file_name()?)))
    }

    /// Opens it, and reads it once.
    pub fn open(path: &Path) -> Result<Self, Finding> {
        let opened = File::open(path).map(|device| Self { device });
        opened.and_then(|clock| clock.read().map(|_| clock)).map_err(|e| Finding {
            about: "host's clock",
            problem: Problem::Failure { action: format!("read {}", path.display()), reason: e.to_string() },
            remedy: "let this user read it, and see that it is a PTP clock".into(),
        })
    }

    /// Nanoseconds since the epoch of Unix, by the host's clock.
    pub fn read(&self) -> io::Result<i64> {
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: the kernel writes one timespec, and `time` is one.
        match unsafe { libc::clock_gettime(clock_of(self.device.as_raw_fd()), &mut time) } {
            0 => Ok(time.tv_sec * 1_000_000_000 + time.tv_nsec),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

/// The clock of an open device (`clock_gettime(2)`, `FD_TO_CLOCKID`).
fn clock_of(descriptor: i32) -> libc::clockid_t {
    (!descriptor << 3) | 3
}

/// Readings of a host's clock around its next whole tenth of a second, between readings of the counter; a single one
/// where that is further away than the lead.
pub fn around_a_tenth(
    counter: &NodeCounter,
    mut read: impl FnMut() -> io::Result<i64>,
) -> io::Result<Vec<ClockReading>> {
    const NEAR_NS: i64 = HostRealtime::NEAR_NS;
    let mut reading = || {
        let before = counter.read(Ordering::Before);
        let at = read()?;
        io::Result::Ok(ClockReading { before, at, after: counter.read(Ordering::After) })
    };
    let first = reading()?;
    let away_ns = HostRealtime::EVERY_NS - (first.at - NEAR_NS).rem_euclid(HostRealtime::EVERY_NS) - NEAR_NS;
    if away_ns > HostRealtime::LEAD_NS {
        return Ok(vec![first]);
    }
    let tenth = first.at.saturating_add(away_ns);
    let (mut kept, mut last) = (Vec::new(), first);
    for _ in 0..HostRealtime::READINGS_MOST {
        if last.at >= tenth - NEAR_NS {
            kept.push(last);
        }
        if last.at > tenth + NEAR_NS {
            break;
        }
        last = reading()?;
    }
    Ok(if kept.is_empty() { vec![first] } else { kept })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TENTH: i64 = 17 * HostRealtime::EVERY_NS;

    /// Values of a clock that each reading moves on by `step_ns`.
    fn kept(from: i64, step_ns: i64) -> Vec<i64> {
        let mut now = from - step_ns;
        let read = || {
            now += step_ns;
            Ok(now)
        };
        around_a_tenth(&NodeCounter::default(), read).unwrap().iter().map(|reading| reading.at).collect()
    }

    #[test]
    fn readings_stand_close_on_both_sides_of_a_whole_tenth_of_the_clock() {
        let of = kept(TENTH - 250_000, 3_000);
        assert_eq!((of.first(), of.last()), (Some(&(TENTH - 19_000)), Some(&(TENTH + 23_000))));
        assert_eq!(of.len(), 15);
        assert_eq!(kept(TENTH + 10_000, 3_000).len(), 5, "late, but within reach");
    }

    #[test]
    fn one_reading_is_taken_where_the_tenth_is_far_or_never_comes() {
        assert_eq!(kept(TENTH - HostRealtime::LEAD_NS - 1, 3_000).len(), 1);
        assert!(kept(TENTH - HostRealtime::LEAD_NS, 3_000).len() > 1);
        assert_eq!(kept(TENTH + HostRealtime::NEAR_NS + 1, 3_000), [TENTH + HostRealtime::NEAR_NS + 1]);
        assert_eq!(kept(TENTH - 100_000, 0), [TENTH - 100_000]);
        assert!(around_a_tenth(&NodeCounter::default(), || Err(io::ErrorKind::Other.into())).is_err());
    }

    #[test]
    fn the_counter_is_read_before_and_after_the_clock() {
        let counter = NodeCounter::default();
        let mut inside = Vec::new();
        let read = || {
            inside.push(counter.read(Ordering::After));
            Ok(TENTH - 2_000_000)
        };
        let reading = around_a_tenth(&counter, read).unwrap()[0];
        assert!(reading.before <= inside[0] && inside[0] <= reading.after, "{reading:?} and {inside:?}");
    }

    #[test]
    fn only_a_clock_of_that_name_is_the_hosts_and_what_is_none_is_refused() {
        let folder = std::env::temp_dir().join(format!("tickscope-ptp-{}", std::process::id()));
        for (device, name) in [("ptp0", "igb\n"), ("ptp1", "KVM virtual PTP\n"), ("ptp2", "KVM virtual PTP 2\n")] {
            std::fs::create_dir_all(folder.join(device)).unwrap();
            std::fs::write(folder.join(device).join("clock_name"), name).unwrap();
        }
        assert_eq!(HostRealtime::find_in(&folder, Path::new("/dev")), Some("/dev/ptp1".into()));
        std::fs::remove_dir_all(folder.join("ptp1")).unwrap();
        assert_eq!(HostRealtime::find_in(&folder, Path::new("/dev")), None);
        assert_eq!(HostRealtime::find_in(&folder.join("none"), Path::new("/dev")), None);
        let refused = HostRealtime::open(&folder.join("ptp0/clock_name")).unwrap_err().to_string();
        assert!(refused.contains("cannot read") && refused.contains("ptp0"), "{refused}");
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn the_clock_of_a_descriptor_is_as_the_manual_has_it() {
        assert_eq!([0, 3, 7].map(clock_of), [-5, -29, -61]);
    }
}
