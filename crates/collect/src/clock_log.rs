//! A log of a program that read another clock than the counter: lines `id,ns`, taken into the run as stamps of a point.
//!
//! A program that only logs `clock_gettime`, or a virtual machine's `nanoTime`, is measured with no library in it: its
//! readings are ticks of a domain like any other, and brackets of that clock against the node's counter relate them.
//!
//! Assumes: the collector of the node has ended (the node's channels are rewritten). Guarantees: every line that is
//! two whole numbers is a stamp, every other is counted, and the first of them is told with its number; a log of any
//! size is read a segment at a time. Deliberately absent: other layouts of lines; and any claim that a log's readings
//! are ordered against anything: they are `plain` unless the run file says otherwise.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use tickscope_tick::{Domain, Ordering};

use tickscope_store::Run;
use tickscope_store::{Channel, ChannelState, read_channels, write_channels};
use tickscope_store::{ChannelCount, Origin, StampColumns, next_segment, write_segment};
use tickscope_store::{Error, Result};
use tickscope_tick::{NodeName, Place, PointName};

/// Where a log's readings belong.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LogPoint {
    /// The node that the program ran on.
    pub node: NodeName,
    /// The point that its readings are stamps of.
    pub point: PointName,
    /// The clock that it read, of that node's boot.
    pub domain: Domain,
    /// Ordering of each reading, as declared by the program's author.
    pub ordering: Ordering,
}

/// Contents of a log.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct LogRead {
    /// Lines that became stamps.
    pub stamps: u64,
    /// Lines that are no reading; a header `id,ns` is not counted.
    pub refused: u64,
    /// The first of those: its number from 1, and what it says.
    pub first_refused: Option<(usize, String)>,
    /// Resolution of the log's readings: the largest power of ten, up to a second, that all of them are whole multiples
    /// of. 0: it has none.
    pub resolution_ns: i64,
}

/// The coarsest resolution that is looked for in a log.
const COARSEST_NS: i64 = 1_000_000_000;

impl LogRead {
    fn add(&mut self, ns: i64) {
        self.stamps += 1;
        if self.resolution_ns == 0 {
            self.resolution_ns = COARSEST_NS;
        }
        while ns % self.resolution_ns != 0 {
            self.resolution_ns /= 10;
        }
    }
}

/// Stamps of one segment.
const MOST_ROWS: usize = 1 << 20;
/// Bytes of a line: two of the longest numbers, with room. What is longer is no reading.
const MOST_BYTES: u64 = 256;

/// Takes the log at `file` into `run` as stamps of `place`.
pub fn import_log(run: &Run, place: &LogPoint, file: &Path) -> Result<LogRead> {
    let unreadable = |e| Error::io(file, "read the log", e);
    let log = BufReader::new(File::open(file).map_err(unreadable)?);
    store(run, place, log, MOST_ROWS, unreadable)
}

/// All of the log or none: stamps of a channel that no file lists could not be told from those of a damaged run.
fn store(
    run: &Run,
    place: &LogPoint,
    log: impl BufRead,
    most: usize,
    unreadable: impl Fn(io::Error) -> Error,
) -> Result<LogRead> {
    let mut lines = Lines::of(log);
    let channels_file = run.paths().channels(place.node.as_str());
    let mut channels = if channels_file.exists() { read_channels(&channels_file)? } else { Vec::new() };
    let number = channels.iter().map(|channel| channel.channel).max().map_or(0, |last| last + 1);
    let folder = run.paths().stamps(&Place { node: place.node.clone(), point: place.point.clone() });
    let mut segments = Vec::new();
    let mut segment_by_segment = || {
        loop {
            let stamps = lines.stamps(number, most).map_err(&unreadable)?;
            let segment = next_segment(&folder)?;
            segments.push(segment.clone());
            let count = ChannelCount { channel: number, stored: stamps.len() as u64, uncommitted: 0 };
            write_segment(&segment, &stamps, &Origin { blocks: Vec::new(), open: Vec::new(), counts: vec![count] })?;
            if stamps.len() < most {
                break;
            }
        }
        channels.push(channel(place, number, &lines.read));
        write_channels(&channels_file, &channels)
    };
    if let Err(error) = segment_by_segment() {
        for segment in segments {
            let _ = fs::remove_file(segment); // the last may not be there; the error that is told is the first
        }
        return Err(error);
    }
    Ok(lines.read)
}

/// A log, and what was found in it so far.
struct Lines<R> {
    log: R,
    number: usize,
    read: LogRead,
}

impl<R: BufRead> Lines<R> {
    fn of(log: R) -> Self {
        Self { log, number: 0, read: LogRead::default() }
    }

    /// The next stamps; fewer than `most`: the log is over.
    fn stamps(&mut self, channel: i32, most: usize) -> io::Result<StampColumns> {
        let mut stamps = StampColumns::default();
        let mut line = Vec::new();
        while stamps.len() < most && self.next(&mut line)? {
            let text = String::from_utf8_lossy(&line);
            let text = text.trim_end_matches(['\r', '\n']);
            let numbers = text.split_once(',').map(|(id, ns)| (id.trim().parse::<i64>(), ns.trim().parse::<i64>()));
            match numbers {
                _ if text.trim().is_empty() => {}
                Some((Ok(id), Ok(ns))) => {
                    stamps.tick.push(ns);
                    stamps.id.push(id);
                    stamps.channel.push(channel);
                    self.read.add(ns);
                }
                _ if self.number == 1 && text.trim() == "id,ns" => {}
                _ => {
                    self.read.refused += 1;
                    self.read.first_refused.get_or_insert_with(|| (self.number, text.chars().take(80).collect()));
                }
            }
        }
        stamps.fill_with_nulls();
        Ok(stamps)
    }

    /// Reads a line, of a long one the beginning and a mark that no number has; whether there was one.
    fn next(&mut self, line: &mut Vec<u8>) -> io::Result<bool> {
        line.clear();
        self.number += 1;
        let bytes = self.log.by_ref().take(MOST_BYTES).read_until(b'\n', line)? as u64;
        if bytes == MOST_BYTES && line.last() != Some(&b'\n') {
            line.extend_from_slice("…".as_bytes());
            self.log.skip_until(b'\n')?;
        }
        Ok(bytes > 0)
    }
}

fn channel(place: &LogPoint, number: i32, read: &LogRead) -> Channel {
    let Domain { boot, counter, epoch } = place.domain;
    Channel {
        channel: number,
        node: place.node.clone(),
        pid: 0,
        process_start: 0,
        pool: 0,
        serial: 0,
        thread: 0,
        point: place.point.clone(),
        ordering: place.ordering.to_string(),
        domain: format!("{boot}/{counter}/{epoch}"),
        policy: Channel::LOG_POLICY.into(),
        parameter: None,
        stored: read.stamps as i64,
        dropped: 0,
        refused: read.refused as i64,
        uncommitted: 0,
        state: ChannelState::Closed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::sample::manifest;
    use crate::scratch::Scratch;
    use tickscope_tick::{BootId, Clock};

    #[test]
    fn every_line_of_two_numbers_is_a_stamp_and_every_other_is_told() {
        let mut lines = Lines::of("id,ns\r\n1,100\n\n 2 , 200\r\nthree,300\n4,4x\n-5,500".as_bytes());
        let (stamps, read) = (lines.stamps(7, 100).unwrap(), lines.read);
        assert_eq!((stamps.id, stamps.tick, stamps.channel), (vec![1, 2, -5], vec![100, 200, 500], vec![7, 7, 7]));
        assert_eq!(
            read,
            LogRead { stamps: 3, refused: 2, first_refused: Some((5, "three,300".into())), resolution_ns: 100 }
        );
    }

    #[test]
    fn a_log_is_read_a_segment_at_a_time_and_a_line_without_end_is_no_reading() {
        let long = "7,".to_owned() + &"1".repeat(5_000_000);
        let log = [b"1,100\n2,200\n\xff\n" as &[u8], long.as_bytes(), b"\n3,300\n4,400\n5,500"].concat();
        let mut lines = Lines::of(log.as_slice());
        let mut segment = || lines.stamps(0, 2).unwrap().id;
        assert_eq!([segment(), segment(), segment(), segment()], [vec![1, 2], vec![3, 4], vec![5], vec![]]);
        assert_eq!((lines.read.stamps, lines.read.refused), (5, 2));
        let padded = format!("1,2{}\n3,4\n", " ".repeat(MOST_BYTES as usize)); // a number whose end is not read is none
        let mut lines = Lines::of(padded.as_bytes());
        assert_eq!(lines.stamps(0, 9).unwrap().id, [3]);
        assert_eq!(lines.read.refused, 1);
    }

    struct Unreadable;

    impl Read for Unreadable {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::Error::other("torn"))
        }
    }

    #[test]
    fn a_log_that_cannot_be_read_to_its_end_leaves_no_stamps_and_what_was_there_before() {
        let scratch = Scratch::new();
        let run = Run::create(scratch.path(), manifest()).unwrap();
        let domain = Domain { boot: BootId([7; 16]), counter: Clock::Monotonic, epoch: 0 };
        let (node, point) = (NodeName::new("client").unwrap(), PointName::new("first").unwrap());
        let place = LogPoint { node, point, domain, ordering: Ordering::After };
        let stored = |log: &mut dyn Read| {
            store(&run, &place, BufReader::new(log), 2, |e| Error::io(scratch.path(), "read the log", e))
        };
        stored(&mut "1,100\n2,200\n3,300\n".as_bytes()).unwrap();
        let error = stored(&mut "4,400\n5,500\n".as_bytes().chain(Unreadable)).unwrap_err().to_string();
        assert!(error.contains("torn"), "{error}");
        assert_eq!(run.stamps(&"client.first".parse().unwrap()).unwrap().read_all().unwrap().tick, [100, 200, 300]);
        assert_eq!(run.channels().unwrap().found.len(), 1);
    }

    #[test]
    fn a_log_becomes_stamps_of_its_auxiliary_clock_beside_what_was_collected() {
        let scratch = Scratch::new();
        let run = Run::create(scratch.path(), manifest()).unwrap();
        let node = NodeName::new("client").unwrap();
        let domain = Domain { boot: BootId([7; 16]), counter: Clock::Monotonic, epoch: 0 };
        let mut place =
            LogPoint { node: node.clone(), point: PointName::new("first").unwrap(), domain, ordering: Ordering::After };
        let file = scratch.path().join("a.csv");
        fs::write(&file, "1,100\n2,200\n").unwrap();
        import_log(&run, &place, &file).unwrap();
        place.point = PointName::new("second").unwrap();
        import_log(&run, &place, &file).unwrap();
        let channels = run.channels().unwrap().found;
        let seen: Vec<_> = channels.iter().map(|c| (c.channel, c.point.as_str(), c.ordering.as_str())).collect();
        assert_eq!(seen, [(0, "first", "after"), (1, "second", "after")]);
        assert!(channels[0].domain.ends_with("/monotonic/0"), "{}", channels[0].domain);
        assert_eq!(run.stamps(&"client.second".parse().unwrap()).unwrap().read_all().unwrap().tick, [100, 200]);
        for (log, resolution_ns) in [("1,100\n2,250\n", 10), ("1,5000\n2,-3000\n", 1000), ("1,0\n2,7\n", 1), ("", 0)] {
            fs::write(&file, log).unwrap();
            place.point = PointName::new(format!("resolution-{resolution_ns}")).unwrap();
            assert_eq!(import_log(&run, &place, &file).unwrap().resolution_ns, resolution_ns, "{log}");
        }
        let missing = import_log(&run, &place, &scratch.path().join("none.csv")).unwrap_err().to_string();
        assert!(missing.contains("read the log") && missing.contains("none.csv"), "{missing}");
    }
}
