//! A move is stamped `written` once another core sees it.

use std::collections::BTreeMap;
use std::process::Command;

use super::c_program::{StampDirectory, compile_with};
use super::stamps;

/// Each move that a second core saw, and when it last began to read it; `None`: there is no second core.
fn read_on_another_core(directory: &StampDirectory) -> Option<(i64, Vec<[i64; 2]>)> {
    let program = compile_with("cc", "fence", &["-D_GNU_SOURCE"], "fence");
    let ended = directory.measure(Command::new(program).args(["20000", "3000000"])).output().unwrap();
    if ended.status.code() == Some(3) {
        eprintln!("LEFT OUT: a move that another core sees late, there is one core alone");
        return None;
    }
    assert!(ended.status.success(), "{ended:?}");
    let text = String::from_utf8(ended.stdout).unwrap();
    let (reads, rest) = text.split_once('\n').unwrap();
    let line = |line: &str| line.split_once(' ').map(|(id, tick)| [id, tick].map(|text| text.parse().unwrap()));
    Some((reads.parse().unwrap(), rest.lines().map(|text| line(text).unwrap()).collect()))
}

#[test]
fn c_no_core_sees_an_old_address_after_the_move_is_stamped_written() {
    let directory = StampDirectory::new("forwarder-fence");
    let Some((reads, last_read)) = read_on_another_core(&directory) else { return };
    let written = &stamps(&directory)["written"];
    let written: BTreeMap<i64, i64> = written.iter().map(|stamp| (stamp.id, stamp.tick)).collect();
    let late = |[id, tick]: &&[i64; 2]| written.get(&(id + 1)).is_some_and(|written| written < tick);
    let late = last_read.iter().filter(late).count();
    assert_eq!(late, 0, "of {reads} reads, which saw {} of {} moves", last_read.len(), written.len());
    let judged = last_read.iter().filter(|[id, _]| written.contains_key(&(id + 1))).count();
    assert!(judged > 10_000 && reads >= 1_000_000, "both cores were busy elsewhere: {judged} of {reads} reads");
}
