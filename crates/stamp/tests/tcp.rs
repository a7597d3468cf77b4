//! Messages on real TCP connections, over loopback: the same id at both ends, and the kernel's stamps under the id of
//! their own message.
//!
//! What is compared with: the clock read by the program around each send and each read, and its own list of messages.

mod c_program;

use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

use c_program::{StampDirectory, compile_with};
use tickscope_stamp::block::unpadded;
use tickscope_stamp::handover::Block;

/// What the program said: an id, and `CLOCK_REALTIME` before and after.
type Window = (i64, [i64; 2]);

struct Told {
    sent: Vec<Window>,
    received: Vec<Window>,
    pieces: i64,
    refused: Vec<i32>,
    /// Stamped and missing of sched, tx, acked; merged, partial, failed, unmatched, foreign; and of rx, and merged.
    counts: Vec<usize>,
}

/// Places in `Told::counts`.
const SCHED: usize = 0;
const MERGED: usize = 6;
const PARTIAL: usize = 7;
const UNMATCHED: usize = 9;
const RX: usize = 11;
const RX_MERGED: usize = 13;

fn run(directory: Option<&StampDirectory>, arguments: [&str; 4]) -> Told {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    let mut command = Command::new(PROGRAM.get_or_init(|| compile_with("cc", "tcp", &[], "tcp")));
    command.args(arguments);
    let output = match directory {
        Some(directory) => directory.measure(&mut command).output().unwrap(),
        None => command.output().unwrap(),
    };
    let (text, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{:?}\n{text}{errors}", output.status);
    let mut told = Told { sent: vec![], received: vec![], pieces: 0, refused: vec![], counts: vec![] };
    for line in text.lines() {
        let mut words = line.split(' ');
        let word = words.next().unwrap();
        let numbers: Vec<i64> = words.map(|number| number.parse().unwrap()).collect();
        match word {
            "sent" => told.sent.push((numbers[0], [numbers[1], numbers[2]])),
            "received" => told.received.push((numbers[0], [numbers[1], numbers[2]])),
            "pieces" => told.pieces = numbers[0],
            "refused" => told.refused.push(numbers[0] as i32),
            "counts" => told.counts = numbers.into_iter().map(|number| number as usize).collect(),
            "id" => assert_eq!(numbers[0], 0, "a refused connection has ids of 0, or goes on with its own"),
            _ => panic!("{line}"),
        }
    }
    told
}

/// The stamps of a point, in the order in which they were written.
fn stamps(directory: &StampDirectory, point: &str) -> Vec<(i64, i64)> {
    let mut found = Vec::new();
    for pool in directory.pools() {
        for block in (0..pool.block_count()).map(|index| pool.block(index)).filter(|block| block.is_described()) {
            if unpadded(&block.header().point).is_some_and(|found| found == point) {
                let records = (0..block.capacity()).filter_map(|slot| block.record(slot));
                found.extend(records.map(|record| (record.id, record.tick)));
            }
        }
    }
    found
}

/// Holds what was received against what was sent, and the kernel's stamps of both ends against the windows around the
/// calls of their own message; returns the ids that have them.
fn check(directory: &StampDirectory, told: &Told) -> Vec<i64> {
    let ids = |windows: &[Window]| windows.iter().map(|(id, _)| *id).collect::<Vec<_>>();
    assert_eq!(ids(&told.sent), ids(&told.received), "an id is the same at both ends");
    let [sched, tx, acked, rx] = ["sched", "tx", "acked", "rx"].map(|point| stamps(directory, point));
    let stamped: Vec<i64> = rx.iter().map(|(id, _)| *id).collect();
    for kind in 0..3 {
        assert_eq!(told.counts[SCHED + 2 * kind..][..2], [sched.len(), 0], "stamped and missing, of kind {kind}");
    }
    assert_eq!(told.counts[RX..][..2], [rx.len(), 0]);
    assert_eq!([&sched, &tx, &acked].map(|point| point.len()), [rx.len(); 3]);
    let window = |windows: &[Window], id: i64| windows.iter().find(|window| window.0 == id).unwrap().1;
    let of = |point: &[(i64, i64)], id: i64| point.iter().find(|stamp| stamp.0 == id).unwrap().1;
    for &(id, received) in &rx {
        let ([before, _], [_, after]) = (window(&told.sent, id), window(&told.received, id));
        let [sched, tx, acked] = [&sched, &tx, &acked].map(|point| of(point, id));
        assert!(before <= sched && sched <= tx, "id {id}: sent from {before}, {sched}, {tx}");
        assert!(tx <= received && received <= after, "id {id}: {tx}, {received}, read until {after}");
        assert!(tx <= acked, "id {id}: {tx}, {acked}");
    }
    stamped
}

#[test]
fn c_every_message_has_one_id_at_both_ends_and_the_kernel_s_stamps_under_it() {
    for address in ["127.0.0.1", "::1", "mapped"] {
        let directory = StampDirectory::new("tcp-exchange");
        let told = run(Some(&directory), ["exchange", address, "1", "-"]);
        let stamped = check(&directory, &told);
        assert_eq!((told.sent.len(), stamped.len()), (300, 300), "{address}");
        assert_eq!(told.counts[MERGED..RX], [0; 5], "{address}");
        let mut lengths = told.sent.windows(2).zip(1..);
        let length = |number: i64| 1 + number * 7919 % 20000;
        assert!(lengths.all(|(pair, number)| pair[1].0 - pair[0].0 == length(number)), "an id is the place of the end");
        let brackets = stamps(&directory, "clock-bracket.realtime").len();
        assert!(brackets >= 600, "{brackets} brackets: one before each send, one after each receive");
    }
}

#[test]
fn c_messages_of_one_send_and_one_read_have_their_ids_and_the_last_one_the_kernel_s_stamps() {
    let directory = StampDirectory::new("tcp-batch");
    let told = run(Some(&directory), ["exchange", "127.0.0.1", "1", "b"]);
    let last: Vec<i64> = told.sent.iter().skip(2).step_by(3).map(|(id, _)| *id).collect();
    assert_eq!(check(&directory, &told), last);
    assert_eq!((told.counts[MERGED], told.counts[RX_MERGED]), (200, 200), "and the others are counted");
}

#[test]
fn c_both_ends_stamp_the_same_part_of_the_messages_whatever_their_lengths() {
    for lengths in ["-", "e"] {
        let directory = StampDirectory::new("tcp-sampled");
        let told = run(Some(&directory), ["exchange", "127.0.0.1", "4", lengths]);
        let stamped = check(&directory, &told).len();
        assert!((30..=130).contains(&stamped), "{stamped} of 300, one in 4");
    }
}

#[test]
fn c_a_message_that_takes_several_sends_is_stamped_with_its_last_piece() {
    let directory = StampDirectory::new("tcp-pieces");
    let told = run(Some(&directory), ["pieces", "127.0.0.1", "1", "-"]);
    assert!(told.pieces > 1);
    assert_eq!(check(&directory, &told).len(), 301);
    assert_eq!(told.counts[PARTIAL] as i64, told.pieces - 1);
    let stray = told.counts[UNMATCHED];
    assert!(stray > 0 && stray <= 3 * told.counts[PARTIAL], "{stray} stamps of pieces are nobody's");
}

#[test]
fn c_a_message_that_its_program_sends_in_two_is_stamped_with_the_second() {
    let directory = StampDirectory::new("tcp-halves");
    let told = run(Some(&directory), ["exchange", "127.0.0.1", "1", "h"]);
    assert_eq!(check(&directory, &told).len(), 300);
    assert_eq!(told.counts[MERGED..RX], [0; 5], "nothing was asked of the first");
}

#[test]
fn c_bytes_before_the_attachment_and_by_other_calls_count_where_they_are_said() {
    let directory = StampDirectory::new("tcp-offsets");
    let told = run(Some(&directory), ["offsets", "127.0.0.1", "1", "-"]);
    assert_eq!(check(&directory, &told).len(), 300);
}

#[test]
fn c_a_connection_that_both_ends_number_has_the_ids_of_that_number() {
    let [one, other] = [0, 1].map(|_| {
        let directory = StampDirectory::new("tcp-number");
        let told = run(Some(&directory), ["exchange", "127.0.0.1", "1", "c"]);
        assert_eq!(check(&directory, &told).len(), 300);
        told.sent[0].0
    });
    assert_eq!(one, other, "whichever ports it had");
}

#[test]
fn c_what_is_no_tcp_connection_is_refused_and_so_are_two_that_send() {
    let directory = StampDirectory::new("tcp-refused");
    let told = run(Some(&directory), ["refused", "127.0.0.1", "1", "-"]);
    assert_eq!(told.refused, [libc::EINVAL, libc::ENOTCONN, 0, libc::EBUSY]);
}

#[test]
fn c_without_a_stamp_directory_ids_are_the_same_and_nothing_is_asked_of_the_kernel() {
    let directory = StampDirectory::new("tcp-off");
    let [on, off] = [Some(&directory), None].map(|place| run(place, ["exchange", "127.0.0.1", "1", "c"]));
    assert_eq!(off.counts, [0; 14]);
    let ids = |told: &Told| told.received.iter().map(|(id, _)| *id).collect::<Vec<_>>();
    assert_eq!(ids(&off), ids(&on));
}

#[test]
fn c_the_header_of_tcp_is_one_of_c_and_of_cpp_and_reads_nothing_beyond_what_it_has() {
    for (compiler, flags) in [("cc", ["-std=gnu99", "-O2"]), ("c++", ["-std=c++11", "-xc++"])] {
        compile_with(compiler, "tcp", &[&flags[..], &["-Wall", "-Wextra", "-Werror"]].concat(), "tcp-strict");
    }
    let checked = ["-g", "-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-static-libasan"];
    let program = compile_with("cc", "tcp", &checked, "tcp-checked");
    for arguments in [["exchange", "::1", "2", "b"], ["pieces", "127.0.0.1", "1", "-"]] {
        let directory = StampDirectory::new("tcp-checked");
        let output = directory.measure(Command::new(&program).args(arguments)).output().unwrap();
        assert!(output.status.success(), "{output:?}");
    }
}
