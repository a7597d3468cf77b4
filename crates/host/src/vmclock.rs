//! vmclock: the page in which a hypervisor tells its guest how the guest's counter relates to real time.
//!
//! What it is for here: the page's *disruption marker* changes when the counter was disrupted, as by a live migration,
//! which nothing else tells for sure from inside. The layout is `struct vmclock_abi` of Linux's
//! `include/uapi/linux/vmclock-abi.h`, version 1, little-endian; reading `/dev/vmclockN` (Linux 6.13) gives its bytes.
//!
//! Assumes: the hypervisor keeps the page by its seqlock: odd while it changes, another number after it. Guarantees: a
//! page that changed while it was read is read again, and one of another layout is refused, never guessed at.
//! Deliberately absent: any bound made of the page's times: they are the hypervisor's word, and no bracket.

use std::fmt;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::{Finding, Problem};
use tickscope_counter::NodeCounter;
use tickscope_tick::{Clock, Ordering};

/// A vmclock of this machine.
#[derive(Debug)]
pub struct VmClock {
    device: File,
    path: PathBuf,
}

/// What its page says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Page {
    /// The counter that it is about; `None`: of none that this program knows.
    pub counter: Option<Clock>,
    /// Another number after each disruption of the counter.
    pub disruption_marker: u64,
    /// A disruption is expected: within a day, or within an hour.
    pub disruption_within: Option<&'static str>,
    /// How the hypervisor calls the clock's state; `None`: a state of a later version.
    pub status: Option<&'static str>,
    /// The counter when real time was `time_ns`.
    pub counter_value: u64,
    /// Length of a tick in units of 2^-(64 + `period_shift`) seconds; 0: not told.
    pub period: u64,
    /// How far `period` may be off, in its unit; `None`: not told.
    pub period_error: Option<u64>,
    /// See `period`.
    pub period_shift: u8,
    /// Real time at `counter_value`, nanoseconds since the epoch that the hypervisor chose, rounded down.
    pub time_ns: i128,
    /// How far `time_ns` may be off, nanoseconds; `None`: not told.
    pub time_error_ns: Option<u64>,
}

/// A disruption of the counter: after `from`, before `until`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Disruption {
    /// The lesser of the two readings of the counter around it.
    pub from: i64,
    /// The greater.
    pub until: i64,
    /// The markers before and after.
    pub markers: [u64; 2],
}

/// A watch over the marker.
#[derive(Debug)]
pub struct DisruptionWatch {
    clock: VmClock,
    marker: u64,
    /// The counter before the last look that showed `marker`.
    seen: i64,
}

const MAGIC: u32 = u32::from_le_bytes(*b"VCLK");
const VERSION: u16 = 1;
/// Up to the end of `time_maxerror_nanosec`; a later field is none of this module's.
const BYTES: usize = 104;
const SEQUENCE_AT: usize = 12;
const DISRUPTION_SOON: u64 = 1 << 1;
const DISRUPTION_IMMINENT: u64 = 1 << 2;
const PERIOD_MAXERROR_VALID: u64 = 1 << 4;
const TIME_MAXERROR_VALID: u64 = 1 << 6;
/// The hypervisor changes the page for a microsecond, some times a second.
const TRIES: usize = 1000;

impl VmClock {
    /// The clock in `devices`, mostly `/dev`; `None`: it has none.
    pub fn find(devices: &Path) -> Option<PathBuf> {
        let numbered = |path: &PathBuf| {
            let number = path.file_name().and_then(|name| name.to_str()?.strip_prefix("vmclock"));
            number.is_some_and(|number| number.parse::<u32>().is_ok())
        };
        std::fs::read_dir(devices).ok()?.flatten().map(|entry| entry.path()).filter(numbered).min()
    }

    /// Opens the device, or a file with the bytes of a page.
    pub fn open(path: &Path) -> Result<Self, Finding> {
        let device = File::open(path).map_err(|e| failure("open", path, &e))?;
        Ok(Self { device, path: path.into() })
    }

    /// The page, whole.
    pub fn read(&self) -> Result<Page, Finding> {
        let bytes = || {
            let mut bytes = [0; BYTES];
            self.device.read_exact_at(&mut bytes, 0).map(|()| bytes)
        };
        whole(bytes).map_err(|e| failure("read", &self.path, &e)).and_then(|bytes| Page::parse(&bytes, &self.path))
    }
}

/// The bytes of a page that stayed the same while they were read.
fn whole(mut read: impl FnMut() -> io::Result<[u8; BYTES]>) -> io::Result<[u8; BYTES]> {
    let sequence = |bytes: &[u8; BYTES]| number::<4>(bytes, SEQUENCE_AT);
    for _ in 0..TRIES {
        let bytes = read()?;
        if sequence(&bytes) % 2 == 0 && sequence(&read()?) == sequence(&bytes) {
            return Ok(bytes);
        }
    }
    Err(io::Error::new(io::ErrorKind::TimedOut, "the hypervisor did not stop changing it"))
}

/// A little-endian number of `N` bytes.
fn number<const N: usize>(bytes: &[u8; BYTES], at: usize) -> u64 {
    let mut wide = [0; 8];
    wide[..N].copy_from_slice(&bytes[at..at + N]);
    u64::from_le_bytes(wide)
}

impl Page {
    fn parse(bytes: &[u8; BYTES], path: &Path) -> Result<Self, Finding> {
        let (magic, size, version) = (number::<4>(bytes, 0), number::<4>(bytes, 4), number::<2>(bytes, 8));
        if magic != u64::from(MAGIC) || size < BYTES as u64 || version != u64::from(VERSION) {
            return Err(Finding {
                about: "vmclock",
                problem: Problem::Value {
                    expected: format!(
                        "magic {MAGIC:#x}, version {VERSION} and {BYTES} bytes or more in {}",
                        path.display()
                    ),
                    found: format!("magic {magic:#x}, version {version}, {size} bytes"),
                },
                remedy: "this vmclock is not used, and a live migration would pass unseen; use a newer tickscope"
                    .into(),
            });
        }
        let flags = number::<8>(bytes, 24);
        let told = |flag: u64, at| (flags & flag != 0).then(|| number::<8>(bytes, at));
        let fraction_ns = (u128::from(number::<8>(bytes, 80)) * 1_000_000_000) >> 64;
        Ok(Self {
            counter: [(0, Clock::Cntvct), (1, Clock::Tsc)].into_iter().find(|&(id, _)| id == bytes[10]).map(|(_, c)| c),
            disruption_marker: number::<8>(bytes, 16),
            disruption_within: match flags & (DISRUPTION_SOON | DISRUPTION_IMMINENT) {
                0 => None,
                DISRUPTION_SOON => Some("a day"),
                _ => Some("an hour"),
            },
            status: ["unknown", "initializing", "synchronized", "free-running", "unreliable"]
                .get(usize::from(bytes[34]))
                .copied(),
            period_shift: bytes[39],
            counter_value: number::<8>(bytes, 40),
            period: number::<8>(bytes, 48),
            period_error: told(PERIOD_MAXERROR_VALID, 64),
            time_ns: i128::from(number::<8>(bytes, 72)) * 1_000_000_000 + fraction_ns as i128,
            time_error_ns: told(TIME_MAXERROR_VALID, 96),
        })
    }
}

impl fmt::Display for Page {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.counter {
            Some(counter) => write!(f, "vmclock of the {counter}")?,
            None => write!(f, "vmclock of a counter that stamps are not read from")?,
        }
        write!(f, ", {}", self.status.unwrap_or("in a state of a later version"))?;
        if let Some(error_ns) = self.time_error_ns {
            write!(f, ", within {error_ns} ns of real time by its own word")?;
        }
        write!(f, ", disruption marker {:#x}", self.disruption_marker)?;
        self.disruption_within.map_or(Ok(()), |within| write!(f, ", a disruption is expected within {within}"))
    }
}

impl DisruptionWatch {
    /// Begins to watch a counter; `None`: the page is about another one.
    pub fn begin(clock: VmClock, counter: &NodeCounter) -> Result<Option<Self>, Finding> {
        let seen = counter.read(Ordering::Before);
        let page = clock.read()?;
        Ok((page.counter == Some(Clock::STAMPED)).then(|| Self { clock, marker: page.disruption_marker, seen }))
    }

    /// Looks again: was the counter disrupted since the last look?
    pub fn look(&mut self, counter: &NodeCounter) -> Result<Option<Disruption>, Finding> {
        let before = counter.read(Ordering::Before);
        let marker = self.clock.read()?.disruption_marker;
        let after = counter.read(Ordering::After);
        let earlier = std::mem::replace(&mut self.seen, before);
        let from = std::mem::replace(&mut self.marker, marker);
        // A disrupted counter may stand anywhere, before where it stood too.
        let disruption = Disruption { from: earlier.min(after), until: earlier.max(after), markers: [from, marker] };
        Ok((from != marker).then_some(disruption))
    }
}

impl fmt::Display for Disruption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { from, until, markers: [before, after] } = self;
        write!(
            f,
            "expected one disruption marker in the vmclock all the while, found {before:#x}, then {after:#x}, between \
             the counter's readings {from} and {until}: the hypervisor moved this machine or loaded it from a \
             snapshot, \
             so no clock map holds across it. Measure again"
        )
    }
}

fn failure(action: &str, path: &Path, e: &io::Error) -> Finding {
    Finding {
        about: "vmclock",
        problem: Problem::Failure { action: format!("{action} {}", path.display()), reason: e.to_string() },
        remedy: "let this user read it, or a live migration passes unseen".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A page as the kernel's header lays it out, field by field.
    fn page(marker: u64, flags: u64) -> [u8; BYTES] {
        let mut bytes = Vec::new();
        bytes.extend(b"VCLK");
        bytes.extend(4096u32.to_le_bytes());
        bytes.extend(1u16.to_le_bytes());
        bytes.extend([1, 1]); // the TSC, TAI
        bytes.extend(6u32.to_le_bytes()); // seq_count
        bytes.extend(marker.to_le_bytes());
        bytes.extend(flags.to_le_bytes());
        bytes.extend([0, 0, 2, 0]); // pad, synchronized, no smearing
        bytes.extend(37i16.to_le_bytes());
        bytes.extend([0, 3]); // leap, shift
        for field in [11u64, 12, 13, 14, 1_700_000_000, 1 << 63, 15, 16] {
            bytes.extend(field.to_le_bytes());
        }
        bytes.try_into().unwrap()
    }

    fn parsed(bytes: &[u8; BYTES]) -> Result<Page, Finding> {
        Page::parse(bytes, Path::new("vmclock0"))
    }

    #[test]
    fn every_field_is_read_where_the_kernels_header_has_it() {
        let all = PERIOD_MAXERROR_VALID | TIME_MAXERROR_VALID;
        let expected = Page {
            counter: Some(Clock::Tsc),
            disruption_marker: 0x0123_4567_89ab_cdef,
            disruption_within: None,
            status: Some("synchronized"),
            counter_value: 11,
            period: 12,
            period_error: Some(14),
            period_shift: 3,
            time_ns: 1_700_000_000_500_000_000,
            time_error_ns: Some(16),
        };
        assert_eq!(parsed(&page(0x0123_4567_89ab_cdef, all)), Ok(expected));
        let untold = parsed(&page(7, 0)).unwrap();
        assert_eq!((untold.period_error, untold.time_error_ns), (None, None), "a field without its flag is no figure");
        let within = |flags| parsed(&page(7, flags)).unwrap().disruption_within;
        assert_eq!([2, 4, 6].map(within), [Some("a day"), Some("an hour"), Some("an hour")]);
    }

    #[test]
    fn another_magic_version_or_size_is_refused_and_another_counter_is_named_none() {
        let changed = |at: usize, byte| {
            let mut bytes = page(7, 0);
            bytes[at] = byte;
            parsed(&bytes)
        };
        for (at, byte, found) in
            [(0, b'X', "magic 0x4b4c4358"), (8, 2, "version 2"), (9, 1, "version 257"), (5, 0, "0 bytes")]
        {
            let refused = changed(at, byte).unwrap_err().to_string();
            assert!(refused.contains(found) && refused.contains("vmclock0"), "{refused}");
        }
        assert_eq!(
            [0, 1, 2, 255].map(|id| changed(10, id).unwrap().counter).map(|c| c.is_some()),
            [true, true, false, false]
        );
        assert_eq!(changed(34, 9).unwrap().status, None);
    }

    #[test]
    fn a_page_that_changes_while_it_is_read_is_read_again() {
        let of = |sequence: u32, marker| {
            let mut bytes = page(marker, 0);
            bytes[SEQUENCE_AT..SEQUENCE_AT + 4].copy_from_slice(&sequence.to_le_bytes());
            bytes
        };
        let read = |pages: &[[u8; BYTES]]| {
            let mut pages = pages.iter();
            whole(|| pages.next().copied().ok_or(io::ErrorKind::UnexpectedEof.into()))
        };
        let marker = |bytes: io::Result<[u8; BYTES]>| number::<8>(&bytes.unwrap(), 16);
        assert_eq!(marker(read(&[of(6, 1), of(6, 1)])), 1);
        assert_eq!(marker(read(&[of(6, 1), of(8, 2), of(8, 2), of(8, 2)])), 2, "it changed in between");
        assert_eq!(marker(read(&[of(7, 1), of(8, 2), of(8, 2)])), 2, "it was changing");
        assert!(read(&[of(7, 1), of(7, 1), of(7, 1)]).is_err());
        let mut reads = 0;
        let never = whole(|| {
            reads += 1;
            Ok(of(2 * reads, 1))
        });
        assert_eq!(never.unwrap_err().kind(), io::ErrorKind::TimedOut, "it ends");
    }

    #[test]
    fn a_disruption_is_told_once_between_the_readings_of_the_counter_around_it() {
        let path = std::env::temp_dir().join(format!("tickscope-vmclock-{}", std::process::id()));
        let counter = NodeCounter::default();
        let now = || counter.read(Ordering::After);
        std::fs::write(&path, page(1, 0)).unwrap();
        let watch = || DisruptionWatch::begin(VmClock::open(&path).unwrap(), &counter).unwrap();
        let mut watching = watch().expect("a page of the counter that stamps read");
        assert_eq!(watching.look(&counter), Ok(None));
        let before = now();
        std::fs::write(&path, page(2, 0)).unwrap();
        let after = now();
        let found = watching.look(&counter).unwrap().expect("another marker");
        assert!(found.from <= before && after <= found.until, "{found:?}");
        assert_eq!((found.markers, watching.look(&counter)), ([1, 2], Ok(None)));
        std::fs::write(&path, &page(2, 0)[..50]).unwrap();
        assert!(watching.look(&counter).unwrap_err().to_string().contains("cannot read"), "a page cut short");
        let mut other = page(1, 0);
        other[10] = 255;
        std::fs::write(&path, other).unwrap();
        assert!(watch().is_none(), "a page of another counter says nothing of this one");
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn the_device_of_the_lowest_number_is_found_and_nothing_else_of_its_name() {
        let folder = std::env::temp_dir().join(format!("tickscope-vmclocks-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        for name in ["vmclock", "vmclocks", "vmclock-x"] {
            std::fs::write(folder.join(name), "").unwrap();
        }
        assert_eq!(VmClock::find(&folder), None);
        for name in ["vmclock1", "vmclock0"] {
            std::fs::write(folder.join(name), "").unwrap();
        }
        assert_eq!(VmClock::find(&folder), Some(folder.join("vmclock0")));
        std::fs::remove_dir_all(folder).unwrap();
    }
}
