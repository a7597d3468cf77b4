//! Encoding alone: how fast stamps become a segment, and how small, next to their entropy and to what the disk takes.
//!
//! `encoder FOLDER [--stamps N] [--threads 1,2] [--capture RUN]` prints one line of JSON for each kind of stamps, codec
//! and number of threads. FOLDER says which disk; files made there are removed. Kinds: ids in order, and ids of 20
//! random bits, both at distances in time that are exponential around 250 ticks (10 million a second on a counter of
//! 2.5 GHz); and the stamps of a recorded run, point by point. `entropy_bytes` as of the example `entropy`, of tick
//! and id. `cpu_ns`: processor time of all threads a stamp, from records as they lie in shared memory to the file;
//! `copy_ns` and `scatter_ns`: that of copying the same records, and of copying them into two columns. The disk: the
//! same bytes written at once and synchronised, in MB/s and in stamps of them.

#[path = "shared/estimate.rs"]
mod estimate;

use std::error::Error;
use std::fs::{self, File};
use std::hint::black_box;
use std::io::Write;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::Instant;

use tickscope_store::{
    Codec, Encoding, GROUP_STAMPS, Origin, Run, StampColumns, StampGroup, StampPacker, on_threads, thread_cpu_ns,
    write_segment_groups,
};

/// Segments of each measurement, of which the median counts.
const ROUNDS: usize = 7;
/// Stamps of a segment, as a collector makes them.
const STAMPS: usize = 1 << 20;
/// Mean distance of two stamps.
const TICKS: f64 = 250.0;

/// What is asked for.
struct Words {
    folder: PathBuf,
    stamps: usize,
    threads: Vec<NonZeroUsize>,
    capture: Option<PathBuf>,
}

fn main() -> Result<(), Box<dyn Error>> {
    let words = words()?;
    let place = words.folder.join(format!("encoder-{}.parquet", std::process::id()));
    let mut kinds = vec![("sequential".to_string(), exponential(words.stamps, |id, _| id))];
    kinds.push(("random20".into(), exponential(words.stamps, |_, random| (random >> 44) as i64)));
    if let Some(capture) = &words.capture {
        kinds.extend(recorded(capture, words.stamps)?);
    }
    for (kind, stamps) in &kinds {
        measure(kind, stamps, &words, &place)?;
    }
    Ok(())
}

fn words() -> Result<Words, Box<dyn Error>> {
    let mut all = std::env::args().skip(1);
    let folder = all.next().ok_or("expected a folder, found none")?.into();
    let mut words = Words { folder, stamps: STAMPS, threads: vec![NonZeroUsize::MIN], capture: None };
    while let Some(word) = all.next() {
        let value = all.next().ok_or(format!("expected a value of {word}"))?;
        match word.as_str() {
            "--stamps" => words.stamps = value.parse()?,
            "--threads" => words.threads = value.split(',').map(str::parse).collect::<Result<_, _>>()?,
            "--capture" => words.capture = Some(value.into()),
            other => return Err(format!("expected --stamps, --threads or --capture, found {other}").into()),
        }
    }
    Ok(words)
}

fn measure(kind: &str, stamps: &StampColumns, words: &Words, place: &Path) -> Result<(), Box<dyn Error>> {
    let rows = stamps.len() as f64;
    let records: Vec<Record> = stamps.tick.iter().copied().zip(stamps.id.iter().copied()).collect();
    let [copy_ns, scatter_ns] = floors(&records)?.map(|ns| ns / rows);
    let entropy_bytes = (estimate::bits(&stamps.tick) + estimate::bits(&stamps.id)) / 8.0;
    for codec in Codec::ALL {
        for &encoders in &words.threads {
            let how = Encoding { codec, encoders };
            let (mut bytes, mut cpu_ns) = (0, Vec::new());
            let seconds = median(|| {
                let before = thread_cpu_ns();
                let (written, helpers_ns) = write(place, &records, how)?;
                cpu_ns.push((thread_cpu_ns() - before + helpers_ns) as f64);
                bytes = written;
                Ok(())
            })?;
            let cpu_ns = middle(cpu_ns) / rows;
            let disk_seconds = median(|| write_plainly(place))?;
            println!(
                "{{\"stamps\": \"{kind}\", \"rows\": {rows}, \"codec\": \"{}\", \"threads\": {encoders}, \
                 \"m_stamps_s\": {:.2}, \"cpu_ns\": {cpu_ns:.2}, \"copy_ns\": {copy_ns:.2}, \
                 \"scatter_ns\": {scatter_ns:.2}, \"bytes_a_stamp\": {:.4}, \"entropy_bytes\": {entropy_bytes:.4}, \
                 \"disk_mb_s\": {:.1}, \"disk_m_stamps_s\": {:.2}}}",
                codec.name(),
                rows / seconds / 1e6,
                bytes as f64 / rows,
                bytes as f64 / disk_seconds / 1e6,
                rows / disk_seconds / 1e6,
            );
        }
    }
    fs::remove_file(place)?;
    Ok(())
}

/// A stamp as it lies in shared memory: tick and id.
type Record = (i64, i64);

/// Stamps that are read before they are packed, as a collector does.
const PIECE: usize = 1 << 13;

/// Writes the records as a segment, as a collector does. Returns its bytes, and the processor time of threads other
/// than this one.
fn write(place: &Path, records: &[Record], how: Encoding) -> Result<(u64, u64), Box<dyn Error>> {
    let groups: Vec<&[Record]> = records.chunks(GROUP_STAMPS).collect();
    let (groups, helpers_ns) = on_threads(groups.len(), how.encoders, |at| gathered(groups[at], how));
    let groups = groups.into_iter().collect::<tickscope_store::Result<Vec<_>>>()?;
    Ok((write_segment_groups(place, &groups, &Origin::default(), how)?.bytes, helpers_ns))
}

fn gathered(records: &[Record], how: Encoding) -> tickscope_store::Result<StampGroup> {
    let (mut packer, mut piece) = (StampPacker::default(), StampColumns::default());
    for records in records.chunks(PIECE) {
        piece.tick.extend(records.iter().map(|record| record.0));
        piece.id.extend(records.iter().map(|record| record.1));
        piece.channel.resize(records.len(), 1);
        piece.fill_with_nulls();
        packer.push(&piece);
        piece.clear();
    }
    packer.finish(how)
}

/// Processor time of copying the records as they are, and into two columns: what no encoder can go below.
fn floors(records: &[Record]) -> Result<[f64; 2], Box<dyn Error>> {
    let (mut copy, mut ticks, mut ids) = (records.to_vec(), vec![0; records.len()], vec![0; records.len()]);
    let mut floors = [Vec::new(), Vec::new()];
    for _ in 0..ROUNDS {
        let start = thread_cpu_ns();
        copy.copy_from_slice(black_box(records));
        black_box(&copy);
        let middle = thread_cpu_ns();
        for ((record, tick), id) in black_box(records).iter().zip(&mut ticks).zip(&mut ids) {
            (*tick, *id) = *record;
        }
        black_box((&ticks, &ids));
        floors[0].push((middle - start) as f64);
        floors[1].push((thread_cpu_ns() - middle) as f64);
    }
    Ok(floors.map(middle))
}

/// The bytes of the segment again, in one write that is waited for.
fn write_plainly(segment: &Path) -> Result<(), Box<dyn Error>> {
    let (bytes, place) = (fs::read(segment)?, segment.with_extension("plain"));
    let mut file = File::create(&place)?;
    file.write_all(&bytes)?;
    file.sync_all()?;
    Ok(fs::remove_file(place)?)
}

/// Seconds that `work` takes, the median of some rounds.
fn median(mut work: impl FnMut() -> Result<(), Box<dyn Error>>) -> Result<f64, Box<dyn Error>> {
    let mut seconds = Vec::new();
    for _ in 0..ROUNDS {
        let start = Instant::now();
        work()?;
        seconds.push(start.elapsed().as_secs_f64());
    }
    Ok(middle(seconds))
}

fn middle(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[ROUNDS / 2]
}

/// Stamps of one thread that come at random; `id`: by their number and 64 random bits.
fn exponential(stamps: usize, id: impl Fn(i64, u64) -> i64) -> StampColumns {
    let (mut state, mut now) = (1, 1e12);
    let mut random = || {
        // xorshift64*
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        (state as u64).wrapping_mul(0x2545_f491_4f6c_dd1d)
    };
    let mut columns = StampColumns::default();
    for number in 0..stamps as i64 {
        now -= TICKS * ((random() >> 11) as f64 / (1u64 << 53) as f64).max(1e-12).ln();
        columns.tick.push(now as i64);
        columns.id.push(id(number, random()));
    }
    StampColumns::slim(columns.tick, columns.id, vec![1; stamps])
}

/// The first stamps of each point of a run.
fn recorded(root: &Path, most: usize) -> Result<Vec<(String, StampColumns)>, Box<dyn Error>> {
    let (run, mut points) = (Run::open(root)?, Vec::new());
    for node in run.nodes()? {
        for point in run.points(&node)? {
            let mut stamps = run.stamps(&format!("{node}.{point}").parse()?)?.read_all()?;
            let kept: Vec<bool> = (0..stamps.len()).map(|row| row < most).collect();
            stamps.retain(&kept);
            if !stamps.is_empty() {
                points.push((format!("{node}.{point}"), stamps));
            }
        }
    }
    Ok(points)
}
