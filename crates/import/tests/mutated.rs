//! Whatever is done to a description or a table: a run or an error that says what helps; never a panic, a hang or much
//! memory, and never a run of a part of the files.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use parquet::basic::{Compression, ZstdLevel};
use parquet::data_type::{ByteArrayType, Int64Type};
use parquet::file::properties::{WriterProperties, WriterVersion};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use tickscope_import::import;

/// A description and its tables, by their names.
type Files = &'static [(&'static str, &'static [u8])];

/// What is mutated besides Parquet: a description, and its tables.
const SAMPLES: [(&str, Files); 8] = [
    (
        "xlap.yml",
        &[
            (
                "xlap.yml",
                b"data_files: {sender: s.csv, receiver: r.csv}\ncycle_reference: {sender: A_C, receiver: C_C}\n\
                 time_reference: {sender: A_T, receiver: C_T}\npacket_types: {Data: 0, Ack: 1}\nstamps:\n\
                 \x20 A_C: {Source: sender, Type: cycle}\n  A_T: {Source: sender, Type: time}\n\
                 \x20 B_C: {Source: sender, Type: cycle}\n  C_C: {Source: receiver, Type: cycle}\n\
                 \x20 C_T: {Source: receiver, Type: time}\n  D_C: {Source: receiver, Type: cycle}\n\
                 durations:\n  AB: {Start: A, Stop: B}\n",
            ),
            ("s.csv", b"SeqNo,Kind,A_C,A_T,B_C,C_C,C_T,D_C\n1,0,1000,10,1500,0,0,0\n2,0,3001000,1010,3001500,0,0,0\n"),
            ("r.csv", b"SeqNo,Kind,A_C,A_T,B_C,C_C,C_T,D_C\n1,0,0,0,0,500,7,900\n2,1,0,0,0,2000500,1007,2000900\n"),
        ],
    ),
    (
        "map.toml",
        &[
            (
                "map.toml",
                b"[[file]]\npath = \"a.csv\"\nnode = \"a\"\nclock = \"realtime\"\nunit = \"s\"\nid = \"id\"\n\
                 kind = \"k\"\nvalue = \"v\"\nzero = \"missing\"\npoints = { send = \"t1\", sent = \"t2\" }\n\
                 [[file]]\npath = \"b.csv\"\nnode = \"b\"\nclock = \"monotonic\"\nunit = \"us\"\nid = \"n\"\n\
                 time = \"at\"\npoint_column = \"where\"\nseparator = \";\"\n\
                 [layout]\npath = [\"a.send\", \"a.sent\", \"b.in\"]\n",
            ),
            ("a.csv", b"id,t1,t2,k,v\n1,1763849123.5,1763849123.7,0,5\n2,1763849124.1,0,,\n"),
            ("b.csv", b"n;where;at\n1;in;17.25\n2;in;\"18.5\"\n"),
        ],
    ),
    (
        "cp.toml",
        &[
            (
                "cp.toml",
                b"[[file]]\npath = \"spout.log\"\nformat = \"cloudprofiler\"\nnode = \"w\"\npoint = \"spout\"\n\
                 hertz = 2200000000\n[[file]]\npath = \"bolt.log\"\nformat = \"cloudprofiler\"\nnode = \"w\"\n\
                 point = \"bolt\"\nhertz = 2200000000\n",
            ),
            ("spout.log", b"1000 1\n2000 2\n3000 3\n"),
            ("bolt.log", b"1500 1\n2500 2\n3500 3\n"),
        ],
    ),
    (
        "events.toml",
        &[
            (
                "events.toml",
                b"[[file]]\npath = \"events.txt\"\nformat = \"perf\"\nnode = \"h\"\nclock = \"monotonic\"\n\
                 unit = \"s\"\nid = \"skb\"\nkind = \"cpu\"\npoints = { in = \"net:in\", out = \"net:out\" }\n",
            ),
            (
                "events.txt",
                b"a b 1/2 [000] 5.000000001:  net:in: skb=0xff len=6\n\tffff f (k)\n\
                 c 3 [001] 5.000002:  net:out: skb=1 x\n",
            ),
        ],
    ),
    (
        "trace.toml",
        &[
            (
                "trace.toml",
                b"[[file]]\npath = \"trace.txt\"\nformat = \"ftrace\"\nnode = \"h\"\nclock = \"monotonic\"\n\
                 unit = \"s\"\nid = \"pid\"\npoints = { wake = \"sched_waking\", on = \"sched_switch\" }\n",
            ),
            (
                "trace.txt",
                b"# tracer: nop\n          <idle>-0     [001] d..2.  1234.567890: sched_switch: prev_comm=a pid=7\n\
                 CPU 1 is empty\n  b c-17    [000] 1234.567891: sched_waking: comm=a pid=8 prio=120\n",
            ),
        ],
    ),
    ("pcap.toml", &[("pcap.toml", PACKETS), ("net.pcap", CAPTURE)]),
    (
        "spans.toml",
        &[
            (
                "spans.toml",
                b"[[file]]\npath = \"spans.pb\"\nformat = \"otlp\"\nnode = \"h\"\nclock = \"realtime\"\n\
                 id = \"trace\"\npoints = { begin = \"a start\", end = \"a end\" }\n",
            ),
            ("spans.pb", SPANS),
        ],
    ),
    // As pyarrow writes them: two batches, a column that is not wanted, and its dictionary.
    (
        "arrow.toml",
        &[
            ("arrow.toml", ARROW),
            ("file.arrow", include_bytes!("rows.file.arrow")),
            ("stream.arrow", include_bytes!("rows.stream.arrow")),
        ],
    ),
];
const ARROW: &[u8] = b"[[file]]\npath = \"file.arrow\"\nformat = \"arrow\"\nnode = \"h\"\nclock = \"monotonic\"\n\
                       unit = \"ns\"\nid = \"id\"\npoint_column = \"where\"\ntime = \"at\"\n[[file]]\n\
                       path = \"stream.arrow\"\nformat = \"arrow\"\nnode = \"h\"\nclock = \"monotonic\"\n\
                       unit = \"ns\"\nid = \"id\"\npoint = \"one\"\ntime = \"at\"\n";
const PACKETS: &[u8] = b"[[file]]\npath = \"net.pcap\"\nformat = \"pcap\"\nnode = \"h\"\nclock = \"realtime\"\n\
                         id = \"payload 0 le16\"\npoints = { in = \"dst 7\" }\n";
/// A packet of four bytes of UDP over raw IPv4, at a second of 2025.
const CAPTURE: &[u8] = b"\xd4\xc3\xb2\xa1\x02\0\x04\0\0\0\0\0\0\0\0\0\0\0\x04\0\x65\0\0\0\
                         \x00\x00\x20\x69\x01\0\0\0\x20\0\0\0\x20\0\0\0\
                         \x45\0\0\x20\0\0\0\0\x40\x11\0\0\x7f\0\0\x01\x7f\0\0\x01\
                         \0\x09\0\x07\0\x0c\0\0\x05\x06\x07\x08";
/// Two spans of one name.
const SPANS: &[u8] = b"\x0a\x5c\x12\x5a\x12\x2b\x0a\x10AAAAAAAABBBBBBBB\x12\x02ss\x2a\x01a\
                       \x39\0\0\0\0\x20\x95\x7a\x18\x41\x01\0\0\0\x20\x95\x7a\x18\
                       \x12\x2b\x0a\x10AAAAAAAABBBBBBBC\x12\x02ss\x2a\x01a\
                       \x39\0\0\0\0\x20\x95\x7a\x18\x41\x01\0\0\0\x20\x95\x7a\x18";

/// A mapping of three tables of Parquet.
const PARQUET: &str = "parquet.toml";
const TABLES: [&str; 3] = ["plain.parquet", "zstd.parquet", "lz4.parquet"];

/// Mutations in `make test`, for each of the samples together, and in `make test-all`.
const FEW: u64 = 9_000;
const ALL: u64 = 1_000_000;
/// Where they begin.
const SEED: u64 = 0x2545_f491_4f6c_dd1d;
/// A file of some hundred bytes that takes longer hangs.
const MOST_WAIT: Duration = Duration::from_secs(60);
/// Memory that the process may ever have had, and address space, most of which is what the allocator reserves for
/// threads.
const MOST_RESIDENT_KIB: u64 = 1 << 18;
const MOST_SPACE_KIB: u64 = 1 << 22;

/// A sample in memory: the name of its description, and all of its files.
struct Sample {
    description: &'static str,
    files: Vec<(&'static str, Vec<u8>)>,
    tried: u64,
    imported: u64,
}

fn samples() -> Vec<Sample> {
    let sample = |description, files| Sample { description, files, tried: 0, imported: 0 };
    let owned = |files: Files| files.iter().map(|&(name, bytes)| (name, bytes.to_vec())).collect();
    let mut all: Vec<_> = SAMPLES.iter().map(|&(description, files)| sample(description, owned(files))).collect();
    let mapping = TABLES.map(|table| {
        format!(
            "[[file]]\npath = \"{table}\"\nformat = \"parquet\"\nnode = \"h\"\nclock = \"monotonic\"\n\
             unit = \"ns\"\nid = \"id\"\npoint_column = \"where\"\ntime = \"at\"\n"
        )
    });
    let zstd = Compression::ZSTD(ZstdLevel::default());
    let tables = [
        parquet_table(Compression::UNCOMPRESSED, WriterVersion::PARQUET_1_0),
        parquet_table(zstd, WriterVersion::PARQUET_2_0),
        parquet_table(Compression::LZ4_RAW, WriterVersion::PARQUET_1_0),
    ];
    let mut files = vec![(PARQUET, mapping.concat().into_bytes())];
    files.extend(TABLES.into_iter().zip(tables));
    all.push(sample(PARQUET, files));
    all
}

/// Three rows of Parquet, their texts by a dictionary.
fn parquet_table(compression: Compression, version: WriterVersion) -> Vec<u8> {
    let schema = "message m { required int64 id; optional int64 at; optional binary where (UTF8); }";
    let properties = WriterProperties::builder().set_compression(compression).set_writer_version(version).build();
    let mut bytes = Vec::new();
    let schema = Arc::new(parse_message_type(schema).unwrap());
    let mut writer = SerializedFileWriter::new(&mut bytes, schema, Arc::new(properties)).unwrap();
    let mut group = writer.next_row_group().unwrap();
    for values in [Some([1, 2, 3]), Some([1000, 2000, 2500]), None] {
        let mut column = group.next_column().unwrap().unwrap();
        let levels = &[1, 1, 1];
        match values {
            Some(values) => column.typed::<Int64Type>().write_batch(&values, Some(levels), None).unwrap(),
            None => {
                let texts = ["in", "out", "in"].map(|text| text.into());
                column.typed::<ByteArrayType>().write_batch(&texts, Some(levels), None).unwrap()
            }
        };
        column.close().unwrap();
    }
    group.close().unwrap();
    writer.close().unwrap();
    bytes
}

/// A generator of Marsaglia's, from a seed.
struct Chance(u64);

impl Chance {
    fn below(&mut self, most: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % most.max(1) as u64) as usize
    }

    /// Changes some bytes: flips, cuts, doubles, and what breaks readers.
    fn mutate(&mut self, bytes: &mut Vec<u8>) {
        const PIECES: [&[u8]; 16] = [
            b"\n",
            b",",
            b"\"",
            b"-",
            b"0",
            b"\0",
            b"\xff\xfe",
            b"\xef\xbb\xbf",
            b"9999999999999999999",
            b"{",
            b"}",
            b":",
            b"\t",
            b" ",
            b"1e9",
            b"\xc3",
        ];
        for _ in 0..=self.below(3) {
            let at = self.below(bytes.len() + 1);
            match self.below(6) {
                0 => bytes.truncate(at),
                1 => bytes.splice(at..at, PIECES[self.below(PIECES.len())].iter().copied()).for_each(drop),
                2 if at < bytes.len() => bytes[at] ^= 1 << self.below(8),
                3 if at < bytes.len() => drop(bytes.remove(at)),
                4 => {
                    let again = bytes[at..].to_vec();
                    bytes.extend(again);
                }
                _ => {
                    let piece = PIECES[self.below(PIECES.len())].repeat(1 + self.below(80));
                    bytes.splice(at..at, piece).for_each(drop);
                }
            }
        }
    }
}

/// A folder in memory, where there is one.
fn folder() -> PathBuf {
    let memory = Path::new("/dev/shm");
    let above = if memory.is_dir() { memory.into() } else { std::env::temp_dir() };
    let folder = above.join(format!("tickscope-import-mutated-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    folder
}

/// The most memory and address space that this process had so far.
fn peaks_kib() -> [u64; 2] {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let of = |key| status.lines().find_map(|line| line.strip_prefix(key)?.strip_suffix("kB")?.trim().parse().ok());
    ["VmHWM:", "VmPeak:"].map(|key| of(key).unwrap())
}

/// Imports mutated samples, and tells of each that it is done.
fn import_mutated(mutations: u64, done: &mpsc::Sender<Instant>) {
    let (folder, mut chance, mut samples) = (folder(), Chance(SEED), samples());
    let out = folder.join("run");
    for (name, text) in samples.iter().flat_map(|sample| &sample.files) {
        fs::write(folder.join(name), text).unwrap();
    }
    for sample in &samples {
        import(&folder.join(sample.description), &out).unwrap_or_else(|why| panic!("{why}"));
        fs::remove_dir_all(&out).unwrap();
    }
    for number in 0..mutations {
        let of = chance.below(samples.len());
        let sample = &mut samples[of];
        let (name, text) = &sample.files[chance.below(sample.files.len())];
        let mut bytes = text.clone();
        chance.mutate(&mut bytes);
        fs::write(folder.join(name), bytes).unwrap();
        let imported = import(&folder.join(sample.description), &out);
        sample.tried += 1;
        let at = || format!("mutation {number}, {}", folder.join(name).display());
        let [resident, space] = peaks_kib();
        assert!(resident < MOST_RESIDENT_KIB && space < MOST_SPACE_KIB, "{}: {resident}, {space} KiB", at());
        match imported {
            Ok(_) => {
                sample.imported += 1;
                fs::remove_dir_all(&out).unwrap();
            }
            Err(why) => {
                let why = why.to_string();
                assert!(why.len() < 4096 && !why.is_empty(), "{}: {why}", at());
                assert!(!out.exists() && !folder.join(".run.part").exists(), "{}: {why}", at());
            }
        }
        fs::write(folder.join(name), text).unwrap();
        done.send(Instant::now()).unwrap();
    }
    fs::remove_dir_all(&folder).unwrap();
    for Sample { description, tried, imported, .. } in samples {
        println!("{description}: {imported} of {tried} imported");
        assert!(0 < imported && imported < tried, "{description}: {imported} of {tried} imported");
    }
}

#[test]
fn no_mutated_description_or_table_makes_the_import_panic_hang_or_leave_a_part() {
    let mutations = if std::env::var_os("TICKSCOPE_TESTS").is_some() { ALL } else { FEW };
    let (sender, done) = mpsc::channel();
    let mut last = Instant::now();
    let worker = thread::spawn(move || import_mutated(mutations, &sender));
    let mut longest = Duration::ZERO;
    let ended = loop {
        match done.recv_timeout(MOST_WAIT) {
            Ok(now) => longest = longest.max(now - std::mem::replace(&mut last, now)),
            Err(ended) => break ended,
        }
    };
    assert_eq!(ended, mpsc::RecvTimeoutError::Disconnected, "an import takes longer than {MOST_WAIT:?}");
    worker.join().unwrap_or_else(|why| std::panic::resume_unwind(why));
    println!("{mutations} mutations, the longest {longest:?}, at most {:?} KiB resident and of addresses", peaks_kib());
}
