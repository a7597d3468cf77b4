//! The run directories of schema 1 and 2, kept for ever: whatever later versions write, they still read these. Both
//! hold the same rows.

mod sample;

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};

use parquet::file::reader::{FileReader, SerializedFileReader};
use tickscope_store::{
    BlockRange, BracketColumns, BracketSource, Channel, ChannelCount, ChannelState, Event, EventKind, KeyedRows,
    KeyedWriter, Manifest, Nullable, Origin, Pair, Run, StampColumns, next_segment, write_channels, write_events,
    write_segment,
};
use tickscope_tick::{BootId, Clock, Domain, NodeName, PointName};

const STAMPS: i64 = 200;

fn golden(schema: u32) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/golden/v{schema}"))
}

/// The golden runs with their schema.
fn runs() -> impl Iterator<Item = (u32, Run)> {
    (1..=2).map(|schema| (schema, Run::open(&golden(schema)).unwrap()))
}

fn pair() -> Pair {
    Pair { reference: "client.tsc".parse().unwrap(), domain: "server.tsc".parse().unwrap() }
}

/// Stamps `first..first + 100` of the point at place `place` of the path; the server's counter is 10^9 ahead.
fn stamps(node: &str, place: i64, first: i64) -> StampColumns {
    let ahead = if node == "server" { 1_000_000_000 } else { 0 };
    let id: Vec<i64> = (first..first + 100).collect();
    let tick = id.iter().map(|id| 5_000_000_000 + ahead + id * 2_500_000 + place * 1000 + id % 7).collect();
    StampColumns {
        kind: if place == 1 { id.iter().map(|id| Some((id % 2) as i32)).collect() } else { Nullable::nulls(100) },
        cpu: if place == 2 { id.iter().map(|_| Some(1)).collect() } else { Nullable::nulls(100) },
        value: id.iter().map(|&id| (place == 2 && id % 10 == 0).then_some(id * 3)).collect(),
        ..StampColumns::slim(tick, id.clone(), vec![place as i32 + 1; 100])
    }
}

const POINTS: [(&str, &str, i64); 4] =
    [("client", "send", 0), ("client", "sent", 1), ("server", "receive", 2), ("server", "deliver", 3)];

fn channel((node, point, place): (&str, &str, i64)) -> Channel {
    Channel {
        channel: place as i32 + 1,
        node: NodeName::new(node).unwrap(),
        pid: 4242,
        process_start: 123_456,
        pool: 0xfeed_0000_0000_0000 + place as u64,
        serial: 0,
        thread: 4243,
        point: PointName::new(point).unwrap(),
        ordering: if place == 2 { "after" } else { "before" }.into(),
        domain: Domain { boot: BootId([if node == "client" { 1 } else { 2 }; 16]), counter: Clock::Tsc, epoch: 0 }
            .to_string(),
        policy: "buffered".into(),
        parameter: None,
        stored: STAMPS,
        dropped: place,
        refused: 0,
        uncommitted: 0,
        state: if node == "client" { ChannelState::Closed } else { ChannelState::Recovered },
        removed: None,
        seen: None,
        counted: None,
        overwritten: None,
        kept: None,
    }
}

fn origin(place: i64, part: u32) -> Origin {
    let pool = 0xfeed_0000_0000_0000 + place as u64;
    Origin {
        blocks: vec![BlockRange { pool, serial: 0, first: part, last: part }],
        counts: vec![ChannelCount { channel: place as i32 + 1, stored: 100, ..ChannelCount::default() }],
        ..Origin::default()
    }
}

fn events() -> Vec<Event> {
    let lost = Event {
        node: "server".into(),
        channel: Some(3),
        domain: Some("server.tsc".into()),
        tick: Some(6_000_000_500),
        until: Some(6_000_000_900),
        what: EventKind::Lost,
        value: Some(2),
        text: "2 stamps found no block".into(),
    };
    let recovered = Event { node: "server".into(), what: EventKind::Recovered, ..Event::default() };
    vec![lost, recovered]
}

/// Schema 1 knew no numbers of exchanges.
fn brackets(schema: u32) -> BracketColumns {
    let mut brackets = BracketColumns::default();
    for exchange in 0..50 {
        let sent = 5_000_000_000 + exchange * 10_000_000;
        brackets.push(Some(sent), sent + 1_000_010_000, None, BracketSource::ProbeRequest, "before/after");
        brackets.push(None, sent + 1_000_010_100, Some(sent + 20_000), BracketSource::ProbeReply, "before/after");
    }
    if schema > 1 {
        brackets.exchange = (0..100).map(|bracket| Some(bracket / 2)).collect();
    }
    brackets
}

fn traces() -> KeyedRows {
    let column = |(node, _, place): (&str, &str, i64)| {
        [0, 100].into_iter().flat_map(|first| stamps(node, place, first).tick).map(Some).collect()
    };
    let mut columns: Vec<Nullable<i64>> =
        [POINTS[0], POINTS[2], POINTS[3], POINTS[1]].into_iter().map(column).collect();
    columns[1] = columns[1].iter().enumerate().map(|(id, tick)| tick.copied().filter(|_| id != 13)).collect();
    let passages = Nullable::nulls(200);
    KeyedRows { kind: vec![0; 200], id: (0..STAMPS).collect(), occurrence: vec![0; 200], columns, passages }
}

fn durations() -> KeyedRows {
    let constant = |value: i64| (0..STAMPS).map(|id| (id != 13).then_some(value + id % 3)).collect();
    let columns = [2000, 1900, 2100, 1000, 1000, 1000, 3000, 2900, 3100].map(constant).to_vec();
    let passages = Nullable::nulls(200);
    KeyedRows { kind: vec![0; 200], id: (0..STAMPS).collect(), occurrence: vec![0; 200], columns, passages }
}

fn duration_names() -> Vec<String> {
    let stages = ["client.send>server.receive", "server.receive>server.deliver", "end-to-end"];
    stages.iter().flat_map(|stage| ["", ".lo", ".hi"].map(|end| format!("{stage}{end}"))).collect()
}

const TRACE_NAMES: [&str; 4] = ["client.send", "server.receive", "server.deliver", "client.sent"];

/// Writes the golden run anew. Only for a schema that was never shipped: a shipped one is never written again.
#[test]
#[ignore = "replaces the golden run"]
fn write_the_golden_run() {
    let root = golden(2);
    let _ = std::fs::remove_dir_all(&root);
    let run = Run::create(&root, sample::manifest()).unwrap();
    for (node, point, place) in POINTS {
        for (part, first) in [(0, 0), (1, 100)] {
            let file = next_segment(&run.paths().stamps(&format!("{node}.{point}").parse().unwrap())).unwrap();
            write_segment(&file, &stamps(node, place, first), &origin(place, part)).unwrap();
        }
    }
    for node in ["client", "server"] {
        let channels: Vec<_> = POINTS.into_iter().filter(|point| point.0 == node).map(channel).collect();
        write_channels(&run.paths().channels(node), &channels).unwrap();
    }
    write_events(&run.paths().events().join("server-00000000.parquet"), &events()).unwrap();
    run.add_brackets(&pair(), "probe", &brackets(2)).unwrap();
    let names = TRACE_NAMES.map(String::from);
    let mut writer =
        KeyedWriter::begin_traces(&run.paths().traces().join("part-00000000.parquet"), &names, &[]).unwrap();
    writer.write(traces()).unwrap();
    writer.finish().unwrap();
    let place = run.paths().durations(50_000).join("part-00000000.parquet");
    let mut writer = KeyedWriter::begin(&place, &duration_names(), &[("tickscope.stages", "{}".into())]).unwrap();
    writer.write(durations()).unwrap();
    writer.finish().unwrap();
    run.write_digests().unwrap();
}

#[test]
fn the_manifest_of_every_schema_is_read() {
    for (schema, run) in runs() {
        let mut expected = Manifest { schema, ..sample::manifest() };
        if schema == 1 {
            expected.nodes.iter_mut().for_each(|node| node.counter.reading = None);
        }
        assert_eq!(run.manifest(), &expected);
    }
}

#[test]
fn the_stamps_and_channels_of_every_schema_are_read() {
    for (_, run) in runs() {
        assert_eq!(run.nodes().unwrap(), ["client", "server"]);
        assert_eq!(run.points("server").unwrap(), ["deliver", "receive"]);
        for (node, point, place) in POINTS {
            let found = run.stamps(&format!("{node}.{point}").parse().unwrap()).unwrap();
            assert!(found.refused().is_empty());
            assert_eq!(found.segments()[1].origin().unwrap(), origin(place, 1));
            let mut parts = Vec::new();
            found.read(i64::MIN..=i64::MAX, |part| parts.push(part)).unwrap();
            assert_eq!(parts, [stamps(node, place, 0), stamps(node, place, 100)], "{node}.{point}");
        }
        let channels = run.channels().unwrap();
        assert_eq!(channels.found, POINTS.map(channel));
        assert!(channels.refused.is_empty());
    }
}

#[test]
fn the_events_and_brackets_of_every_schema_are_read() {
    for (schema, run) in runs() {
        assert_eq!(run.events().unwrap().found, events());
        assert_eq!(run.pairs().unwrap().found, [pair()]);
        assert_eq!(run.brackets(&pair()).unwrap().found, brackets(schema));
    }
}

#[test]
fn the_traces_and_durations_of_every_schema_are_read() {
    for (schema, run) in runs() {
        let read = &run.traces().unwrap().found[0];
        assert_eq!(read.names(), TRACE_NAMES);
        assert_eq!(read.has_passages(), schema > 1, "passages were not told apart in the golden run of schema 1");
        assert_eq!(read.read_all().unwrap(), traces());
        let read = &run.durations(50_000).unwrap().found[0];
        assert_eq!(read.names(), duration_names());
        assert_eq!(read.key("tickscope.stages"), Some("{}"));
        assert_eq!(read.read_all().unwrap(), durations());
    }
}

#[test]
fn the_golden_run_of_schema_2_is_as_its_digests_say_and_that_of_schema_1_has_none() {
    for (schema, run) in runs() {
        let found: Vec<_> = run.check().unwrap().iter().map(ToString::to_string).collect();
        let expected = "digests.json: expected digests, since schema 2, found a run of schema 1: it has none";
        assert_eq!(found, if schema == 1 { vec![expected.to_string()] } else { vec![] });
    }
}

/// Of every file and every column that schema 1 had.
#[test]
fn a_stamp_takes_no_more_bytes_than_in_schema_1() {
    let bytes = |file: &Path| -> BTreeMap<String, i64> {
        let reader = SerializedFileReader::new(File::open(file).unwrap()).unwrap();
        let columns = reader.metadata().row_group(0).columns().iter();
        columns.map(|column| (column.column_path().string(), column.compressed_size())).collect()
    };
    for (node, point, _) in POINTS {
        for part in ["part-00000000.parquet", "part-00000001.parquet"] {
            let file = |schema| golden(schema).join(format!("stamps/node={node}/point={point}/{part}"));
            let (before, now) = (bytes(&file(1)), bytes(&file(2)));
            for (column, before) in before {
                assert!(
                    now[&column] <= before,
                    "{node}.{point} {column}: {} bytes, {before} in schema 1",
                    now[&column]
                );
            }
        }
    }
}

/// The golden runs were written before files had seals: what is decoded of them must be guarded.
#[test]
fn every_flipped_bit_of_a_table_without_a_seal_is_an_error_or_read_and_never_a_panic() {
    let root = std::env::temp_dir().join(format!("tickscope-golden-{}", std::process::id()));
    std::fs::create_dir_all(&root).unwrap();
    let tables =
        ["channels/node=client", "events/server-00000000", "brackets/reference=client.tsc/domain=server.tsc/probe"];
    let every = if std::env::var_os("TICKSCOPE_TESTS").is_some_and(|which| which == "all") { 1 } else { 5 };
    for table in tables {
        let whole = std::fs::read(golden(2).join(format!("{table}.parquet"))).unwrap();
        let place = root.join("x.parquet");
        for bit in (0..whole.len() * 8).step_by(every) {
            let mut damaged = whole.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            std::fs::write(&place, &damaged).unwrap();
            let _ = match &table[..8] {
                "channels" => tickscope_store::read_channels(&place).map(|_| ()),
                "brackets" => tickscope_store::read_brackets(&place).map(|_| ()),
                _ => tickscope_store::read_events(&place).map(|_| ()),
            };
        }
    }
    std::fs::remove_dir_all(&root).unwrap();
}
