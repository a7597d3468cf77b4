//! Programs and collectors that are really killed, as processes, at moments that nobody chose.
//!
//! The binary of these tests starts itself again as program or collector: see `site`.

mod site;

use std::io::{BufRead, BufReader};
use std::process::Child;
use std::thread::sleep;
use std::time::Duration;

use site::Site;
use tickscope_store::ChannelState;

/// Kills a program `time` after it said its first word. Returns the last id that it said it had stamped.
fn kill_after(mut program: Child, time: Duration) -> i64 {
    let lines = BufReader::new(program.stdout.take().unwrap()).lines().map_while(Result::ok);
    let mut said = lines.filter_map(|line| line.strip_prefix("stamped ")?.parse().ok());
    let first: i64 = said.next().expect("a program that stamps");
    sleep(time);
    program.kill().unwrap();
    program.wait().unwrap();
    said.last().unwrap_or(first)
}

fn consecutive(ids: &[i64]) -> bool {
    ids.iter().zip(1..).all(|(&id, expected)| id == expected)
}

#[test]
fn a_killed_program_loses_no_stamp_that_returned() {
    let site = Site::new("program");
    for time in [30, 60, 110] {
        let said = kill_after(site.start("program", u64::MAX), Duration::from_millis(time));
        site.collect();
        let ids = site.ids("send");
        assert!(consecutive(&ids) && ids.len() as i64 >= said, "{} stored, {said} said", ids.len());
        assert_eq!(site.counts().2, [ChannelState::Recovered]);
        std::fs::remove_dir_all(site.root.join("run")).unwrap();
    }
}

#[test]
fn a_collector_killed_again_and_again_stores_every_stamp_once() {
    let site = Site::new("collector");
    let mut program = site.start("program", 600_000);
    for round in 0..12 {
        let mut collector = site.start("collector", 0);
        sleep(Duration::from_millis(15 + 9 * round));
        collector.kill().unwrap();
        collector.wait().unwrap();
    }
    assert!(program.wait().unwrap().success());
    site.collect();
    let ids = site.ids("send");
    let (stored, dropped, states) = site.counts();
    assert_eq!((stored + dropped, ids.len() as i64), (600_000, stored));
    assert!(dropped > 0 || consecutive(&ids), "an id is missing or there twice");
    assert!(ids.windows(2).all(|pair| pair[0] < pair[1]), "an id is there twice");
    assert_eq!(states, [ChannelState::Closed]);
    let left: Vec<_> =
        std::fs::read_dir(site.root.join("shm")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left.len(), 2, "the lock and the user's directory are left: {left:?}");
}

#[test]
fn program_and_collector_killed_together_lose_nothing() {
    let site = Site::new("both");
    let (program, mut collector) = (site.start("program", u64::MAX), site.start("collector", 0));
    sleep(Duration::from_millis(120));
    collector.kill().unwrap();
    collector.wait().unwrap();
    let said = kill_after(program, Duration::from_millis(5));
    site.collect();
    let ids = site.ids("send");
    assert!(consecutive(&ids) && ids.len() as i64 >= said, "{} stored, {said} said", ids.len());
}
