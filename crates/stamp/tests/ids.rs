//! One stamp for many ids, ids that are hashes, and the originals of these: the same from C and from Rust.

mod c_program;

use std::collections::BTreeMap;
use std::io::Write;
use std::process::{Command, Stdio};
use std::sync::atomic::Ordering::Relaxed;

use c_program::{StampDirectory, build, compile_with};
use tickscope_stamp::block::unpadded;
use tickscope_stamp::id::{Original, OriginalPart, assemble};
use tickscope_stamp::pool::{Pool, Record};
use tickscope_stamp::{Channel, Extra, Fields, Ids, Ordering, Traceparent, id_of};

/// What a program leaves: by point its records, and how many stamps were refused.
type Left = BTreeMap<String, (Vec<Record>, u64)>;

fn left(pool: &Pool) -> Left {
    let mut left = Left::new();
    for entry in pool.entries().iter().filter(|entry| entry.point[0] != 0) {
        let point = unpadded(&entry.point).unwrap().to_string();
        left.entry(point).or_default().1 += entry.refused.load(Relaxed);
    }
    for block in (0..pool.block_count()).map(|index| pool.block(index)).filter(|block| block.is_described()) {
        let point = unpadded(&block.header().point).unwrap().to_string();
        let slots = block.tenancies().unwrap().into_iter().flat_map(|tenancy| tenancy.slots);
        left.entry(point).or_default().0.extend(slots.filter_map(|slot| block.record(slot)));
    }
    left
}

/// What the C program and the role of this one leave when they are asked for the same.
fn left_by_both(what: &str) -> [Left; 2] {
    let [c, rust] = ["c", "rust"].map(|language| StampDirectory::new(&format!("ids-{what}-{language}")));
    let _ = c.measure(build("ids", &[]).arg(what)).status().unwrap(); // one ends by a kill
    let mut role = Command::new(std::env::current_exe().unwrap());
    role.args(["role", "--ignored", "--exact"]).env("TICKSCOPE_TEST_ROLE", what).stdout(Stdio::null());
    let _ = rust.measure(&mut role).status().unwrap();
    [c, rust].map(|directory| left(&directory.pools()[0]))
}

#[test]
#[ignore = "the role that this file's tests start"]
fn role() {
    match std::env::var("TICKSCOPE_TEST_ROLE").as_deref() {
        Ok("batches") => stamp_batches(),
        Ok("keep") => keep_originals(),
        other => panic!("{other:?}"),
    }
}

fn stamp_batches() {
    let full = Channel::open("full", Ordering::Before, Fields::Full).unwrap();
    let slim = Channel::open("slim", Ordering::Before, Fields::Slim).unwrap();
    let extra = Extra { kind: 3, value: 9, attempt: 2, batch: 77, parent: None };
    full.stamp_batch(100, 32);
    full.stamp_batch_with(132, 1, extra);
    full.record_batch_with(i64::MAX - i64::from(i32::MAX) + 1, i32::MAX.into(), 5, extra);
    for (id, n) in [(1, 0), (1, -1), (1, i64::from(i32::MAX) + 1), (i64::MAX, 2)] {
        full.stamp_batch(id, n);
    }
    full.record_batch_with(1, i64::MIN, 5, extra);
    full.stamp_with(7, Extra { batch: -32, ..extra });
    full.record_with(8, 6, Extra { batch: -32, ..extra });
    slim.stamp_batch(200, 1);
    slim.stamp_batch(201, 2);
    std::mem::forget((full, slim)); // what is closed has no entry that could be read
}

fn keep_originals() {
    let bytes: Vec<u8> = (0..2000_u32).map(|at| (at * 7) as u8).collect();
    let ids = Ids::open().unwrap();
    for original in [b"", &b"order-7"[..], &bytes[..16], &bytes] {
        assert_eq!(ids.keep(original), id_of(original));
    }
    assert!(Channel::open("id-original", Ordering::Plain, Fields::Slim).unwrap_err().to_string().contains("Ids::open"));
    // SAFETY: a signal to this process alone, which has nothing left to do.
    unsafe { libc::raise(libc::SIGKILL) };
}

#[test]
fn c_a_stamp_of_several_ids_says_so_and_what_is_no_range_of_ids_is_refused_and_counted() {
    for left in left_by_both("batches") {
        let said = |record: &Record| {
            let rider = record.rider.unwrap();
            let origin = rider.origin.unwrap();
            (record.id, origin.ids, origin.batch, (rider.kind, rider.value, origin.attempt))
        };
        let (full, refused) = &left["full"];
        let (none, carried) = ((0, 0, Some(0)), (3, 9, Some(2)));
        let expected = [
            (100, Some(32), None, none),
            (132, Some(1), None, carried),
            (i64::MAX - i64::from(i32::MAX) + 1, Some(i32::MAX), None, carried),
            (7, None, None, carried),
            (8, None, None, carried),
        ];
        assert_eq!((full.iter().map(said).collect::<Vec<_>>(), *refused), (expected.to_vec(), 5));
        assert_eq!(full[2].tick, 5);
        let (slim, refused) = &left["slim"];
        assert_eq!((slim.iter().map(|record| record.id).collect::<Vec<_>>(), *refused), (vec![200], 1));
    }
}

#[test]
fn c_the_original_of_an_id_outlives_a_kill_and_is_the_same_from_both_languages() {
    let bytes: Vec<u8> = (0..2000_u32).map(|at| (at * 7) as u8).collect();
    let expected: Vec<Original> = [b"", &b"order-7"[..], &bytes[..16], &bytes]
        .map(|original| Original { bytes: original[..original.len().min(1024)].to_vec(), length: original.len() })
        .to_vec();
    for left in left_by_both("keep") {
        let kept = &left["id-original"].0;
        let found = kept.chunk_by(|a, b| (a.id, a.tick) == (b.id, b.tick)).map(|records| {
            let mut parts: Vec<OriginalPart> = records.iter().map(chunk).collect();
            let original = assemble(&mut parts).unwrap();
            assert!(!original.is_whole() || id_of(&original.bytes) == records[0].id);
            original
        });
        assert_eq!(found.collect::<Vec<_>>(), expected);
    }
}

fn chunk(record: &Record) -> OriginalPart {
    let rider = record.rider.unwrap();
    let origin = rider.origin.unwrap();
    let words = [rider.value, origin.parent.unwrap_or(record.id)];
    OriginalPart { number: rider.kind, length: origin.attempt.unwrap(), words }
}

#[test]
fn c_a_hash_is_the_same_in_both_languages_at_every_length() {
    let bytes: Vec<u8> = (0..63).collect();
    let expected: Vec<String> = (0..=63).map(|length| id_of(&bytes[..length]).to_string()).collect();
    let told = build("ids", &[]).arg("hash").output().unwrap().stdout;
    assert_eq!(String::from_utf8(told).unwrap().lines().collect::<Vec<_>>(), expected);
}

#[test]
fn c_a_traceparent_is_read_or_refused_the_same_in_both_languages() {
    let (trace, span) = ("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7");
    let none = "0".repeat(32);
    let lines = [
        format!("00-{trace}-{span}-01"),
        format!("00-{trace}-f0f067aa0ba902b7-ff"),
        format!("cc-{trace}-{span}-00"),
        format!("cc-{trace}-{span}-00-what-comes"),
        String::new(),
        format!("00-{trace}-{span}-0"),
        format!("00-{trace}-{span}_01"),
        format!("00-{}-{span}-01", trace.to_uppercase()),
        format!("00-{trace}-{span}-0g"),
        format!("ff-{trace}-{span}-01"),
        format!("00-{trace}-{span}-01-"),
        format!("cc-{trace}-{span}-01x"),
        format!("00-{none}-{span}-01"),
        format!("00-{trace}-{}-01", &none[..16]),
        format!("00-{trace}-{span}-01 "),
    ];
    let read = |line: &String| match line.parse::<Traceparent>() {
        Ok(parent) => format!("{} {} {}", parent.id(), parent.span, parent.flags),
        Err(why) => why.to_string(),
    };
    let mut program = build("ids", &[]).arg("parse").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    program.stdin.take().unwrap().write_all((lines.join("\n") + "\n").as_bytes()).unwrap();
    let told = String::from_utf8(program.wait_with_output().unwrap().stdout).unwrap();
    assert_eq!(told.lines().count(), lines.len());
    for (number, (line, told)) in lines.iter().zip(told.lines()).enumerate() {
        let read = read(line);
        assert!(
            if number < 4 { read == told } else { read.contains(&format!("with {told}, found")) },
            "{line}: {told}"
        );
        assert_eq!(read.starts_with("expected a traceparent"), number >= 4, "{line}");
    }
    assert_eq!(lines[1].parse::<Traceparent>().unwrap().extra().value, 0xf0f0_67aa_0ba9_02b7_u64 as i64);
}

#[test]
fn c_the_header_of_ids_compiles_without_a_warning_as_c99_and_cpp17() {
    compile_with("cc", "ids", &["-std=c99", "-pedantic", "-xc"], "ids-c99");
    if Command::new("c++").arg("--version").output().is_ok() {
        compile_with("c++", "ids", &["-std=c++17", "-pedantic", "-xc++"], "ids-cpp");
    }
}
