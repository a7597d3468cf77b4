//! A log of a program that read another clock than the counter: lines `id,ns`, taken into the run as stamps of a point.
//!
//! A program that only logs `clock_gettime`, or a virtual machine's `nanoTime`, is measured with no library in it: its
//! readings are ticks of a domain like any other, and brackets of that clock against the node's counter relate them.
//!
//! Assumes: the collector of the node has ended (the node's channels are rewritten). Guarantees: every line that is two
//! whole numbers is a stamp, every other is counted, and the first of them is told with its number. Deliberately absent:
//! other layouts of lines; and any claim that a log's readings are ordered against anything: they are `plain` unless the
//! run file says otherwise.

use std::fs;
use std::path::Path;

use tickscope_tick::{Domain, Ordering};

use crate::Sparse;
use crate::channels::{Channel, ChannelState, read_channels, write_channels};
use crate::error::{Error, Result};
use crate::manifest::Name;
use crate::run::Run;
use crate::stamps::{ChannelCount, Origin, StampColumns, next_segment, write_segment};

/// Where a log's readings belong.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LogPoint {
    /// The node that the program ran on.
    pub node: Name,
    /// The point that its readings are stamps of.
    pub point: Name,
    /// The clock that it read, of that node's boot.
    pub domain: Domain,
    /// What each reading is ordered against, by the word of whoever wrote the program.
    pub ordering: Ordering,
}

/// What was found in a log.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct LogRead {
    /// Lines that became stamps.
    pub stamps: u64,
    /// Lines that are no reading; a header `id,ns` is not counted.
    pub refused: u64,
    /// The first of those: its number from 1, and what it says.
    pub first_refused: Option<(usize, String)>,
}

/// Takes the log at `file` into `run` as stamps of `place`.
pub fn import_log(run: &Run, place: &LogPoint, file: &Path) -> Result<LogRead> {
    let text = fs::read_to_string(file).map_err(|e| Error::io(file, "a log of lines id,ns", e))?;
    let channels_file = run.places().channels(place.node.as_str());
    let mut channels = if channels_file.exists() { read_channels(&channels_file)? } else { Vec::new() };
    let number = channels.iter().map(|channel| channel.channel).max().map_or(0, |last| last + 1);
    let (stamps, read) = parse(&text, number);
    let segment = next_segment(&run.places().stamps(place.node.as_str(), place.point.as_str()))?;
    let count = ChannelCount { channel: number, stored: read.stamps, uncommitted: 0 };
    write_segment(&segment, &stamps, &Origin { blocks: Vec::new(), counts: vec![count] })?;
    channels.push(channel(place, number, &read));
    write_channels(&channels_file, &channels)?;
    Ok(read)
}

fn parse(text: &str, channel: i32) -> (StampColumns, LogRead) {
    let (mut stamps, mut read) = (StampColumns::default(), LogRead::default());
    for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let numbers = line.split_once(',').map(|(id, ns)| (id.trim().parse::<i64>(), ns.trim().parse::<i64>()));
        match numbers {
            Some((Ok(id), Ok(ns))) => {
                stamps.tick.push(ns);
                stamps.id.push(id);
                stamps.channel.push(channel);
                read.stamps += 1;
            }
            _ if number == 0 && line.trim() == "id,ns" => {}
            _ => {
                read.refused += 1;
                read.first_refused.get_or_insert_with(|| (number + 1, line.chars().take(80).collect()));
            }
        }
    }
    let rows = stamps.len();
    (stamps.kind, stamps.cpu, stamps.value) = (Sparse::nulls(rows), Sparse::nulls(rows), Sparse::nulls(rows));
    (stamps, read)
}

fn channel(place: &LogPoint, number: i32, read: &LogRead) -> Channel {
    let Domain { boot, counter, epoch } = place.domain;
    Channel {
        channel: number,
        node: place.node.to_string(),
        pid: 0,
        process_start: 0,
        pool: 0,
        serial: 0,
        thread: 0,
        point: place.point.to_string(),
        ordering: place.ordering.to_string(),
        domain: format!("{boot}/{counter}/{epoch}"),
        policy: "log".into(),
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
    use tickscope_tick::{BootId, Counter};

    #[test]
    fn every_line_of_two_numbers_is_a_stamp_and_every_other_is_told() {
        let (stamps, read) = parse("id,ns\n1,100\n\n 2 , 200\nthree,300\n4,4x\n-5,500", 7);
        assert_eq!((stamps.id, stamps.tick, stamps.channel), (vec![1, 2, -5], vec![100, 200, 500], vec![7, 7, 7]));
        assert_eq!(read, LogRead { stamps: 3, refused: 2, first_refused: Some((5, "three,300".into())) });
    }

    #[test]
    fn a_log_becomes_stamps_of_its_own_clock_beside_what_was_collected() {
        let scratch = Scratch::new();
        let run = Run::create(scratch.path(), manifest()).unwrap();
        let node = Name::new("client").unwrap();
        let domain = Domain { boot: BootId([7; 16]), counter: Counter::Monotonic, epoch: 0 };
        let mut place =
            LogPoint { node: node.clone(), point: Name::new("first").unwrap(), domain, ordering: Ordering::After };
        let file = scratch.path().join("a.csv");
        fs::write(&file, "1,100\n2,200\n").unwrap();
        import_log(&run, &place, &file).unwrap();
        place.point = Name::new("second").unwrap();
        import_log(&run, &place, &file).unwrap();
        let channels = run.channels().unwrap().found;
        let seen: Vec<_> = channels.iter().map(|c| (c.channel, c.point.as_str(), c.ordering.as_str())).collect();
        assert_eq!(seen, [(0, "first", "after"), (1, "second", "after")]);
        assert!(channels[0].domain.ends_with("/monotonic/0"), "{}", channels[0].domain);
        assert_eq!(run.stamps("client", "second").unwrap().read_all().unwrap().tick, [100, 200]);
        let missing = import_log(&run, &place, &scratch.path().join("none.csv")).unwrap_err().to_string();
        assert!(missing.contains("a log of lines id,ns") && missing.contains("none.csv"), "{missing}");
    }
}
