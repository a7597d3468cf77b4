//! A run's directory that goes while its collector lives, as that of a disk does that is unmounted, and comes back.

use super::*;
use std::cell::RefCell;

thread_local! {
    /// The run's place and the one that it goes to.
    static PLACES: RefCell<[PathBuf; 2]> = RefCell::default();
}

/// Moves the run away.
fn vanish() {
    PLACES.with_borrow(|[run, away]| std::fs::rename(run, away).unwrap());
}

/// Puts something in its place, too, below which nothing can be made.
fn vanish_behind_a_file() {
    vanish();
    PLACES.with_borrow(|[run, _]| std::fs::write(run, b"").unwrap());
}

/// Brings the run back, in place of what lies there since.
fn come_back() {
    PLACES.with_borrow(|[run, away]| {
        let _ = std::fs::remove_dir_all(run).or_else(|_| std::fs::remove_file(run));
        std::fs::rename(away, run).unwrap();
    });
}

impl Site {
    /// A site with a living program that has filled a block.
    fn vanishing() -> (Self, Pool) {
        let site = Self::new();
        PLACES.set([site.run(), site.scratch.path().join("away")]);
        let pool = Pool::make(&site.directory(), 7, 100).live();
        pool.open_channel(0, "send", 1);
        pool.fill(0, (0, 0), "send", &full(1));
        (site, pool)
    }

    fn is_bare(&self) -> bool {
        std::fs::read_dir(self.run()).map_or(true, |mut entries| entries.next().is_none())
    }
}

/// A round at that second that waits for the run.
#[track_caller]
fn wait(collector: &mut Collector, start: Instant, second: u64) {
    let looked = collector.look(start + Duration::from_secs(second));
    let why = looked.as_ref().unwrap_err().to_string();
    assert!(why.contains("expected the run's directory (inode") && why.contains("mount the same disk again"), "{why}");
    assert_eq!(collector.wait_for_room(looked).unwrap(), None);
}

#[test]
fn a_run_that_is_gone_or_another_is_waited_for_and_takes_all_once_it_is_back() {
    let (site, pool) = Site::vanishing();
    let mut collector = Collector::start(site.slow_settings()).unwrap();
    let start = Instant::now();
    vanish();
    for second in [0, 20] {
        wait(&mut collector, start, second);
        assert!(!site.run().exists(), "nothing is made anew");
    }
    std::fs::create_dir(site.run()).unwrap();
    wait(&mut collector, start, 40);
    assert!(site.is_bare() && !pool.is_zeroed(0), "nothing is stored in another directory");
    come_back();
    let looked = [60, 80].map(|second| collector.look(start + Duration::from_secs(second))); // seen, and then due
    assert!(looked.into_iter().all(|looked| collector.wait_for_room(looked).unwrap().is_some()) && pool.is_zeroed(0));
    assert_eq!(site.stamps("send").id.len() as u32, SLOTS);
    let told = site.event("disk-full").text;
    assert!(told.contains("found No such file or directory"), "{told}");
}

#[test]
fn a_run_that_goes_while_a_segment_is_written_has_its_blocks_stored_when_it_is_back() {
    let (site, pool) = Site::vanishing();
    let steps = Steps::meanwhile("losses are written", vanish);
    let mut collector = Collector::start_with(site.slow_settings(), steps).unwrap();
    let start = Instant::now();
    wait(&mut collector, start, 0);
    assert!(site.run().exists() && !pool.is_zeroed(0), "its segment lies where nobody looks");
    come_back();
    collector.look(start + Duration::from_secs(40)).unwrap();
    assert!(pool.is_zeroed(0));
    assert_eq!(site.stamps("send").id, (1..=i64::from(SLOTS)).collect::<Vec<_>>());
}

#[test]
fn a_run_that_goes_so_that_writing_fails_is_waited_for_whatever_the_failure_is() {
    let (site, pool) = Site::vanishing();
    let steps = Steps::meanwhile("losses are written", vanish_behind_a_file);
    let mut collector = Collector::start_with(site.slow_settings(), steps).unwrap();
    let start = Instant::now();
    let looked = collector.look(start);
    assert!(!looked.as_ref().unwrap_err().is_disk_full(), "{looked:?}");
    assert_eq!(collector.wait_for_room(looked).unwrap(), None);
    come_back();
    let looked = collector.look(start + Duration::from_secs(40));
    assert!(collector.wait_for_room(looked).unwrap().is_some() && pool.is_zeroed(0));
    assert_eq!(site.stamps("send").id.len() as u32, SLOTS);
    assert!(site.event("disk-full").text.contains("expected the run's directory"));
}

/// The ids stored where the run goes at that step of a segment that is to replace the one before it.
fn stored_though_it_goes_when(step: &'static str) -> Vec<i64> {
    let site = Site::new();
    PLACES.set([site.run(), site.scratch.path().join("away")]);
    let pool = Pool::make(&site.directory(), 7, 100).live();
    pool.open_channel(0, "send", 1);
    pool.fill(0, (0, 0), "send", &full(1));
    let steps = Steps::meanwhile("the segment has its name", || {}).then(step, vanish);
    let mut collector = Collector::start_with(site.settings(), steps).unwrap();
    let start = Instant::now();
    collector.look(start).unwrap();
    pool.fill(1, (0, 1), "send", &full(1001));
    wait(&mut collector, start, 2);
    come_back();
    // So the segment that grows cannot be replaced: what it does not hold goes into the next.
    pool.lose_before(1, 5, 6, 7);
    collector.look(start + Duration::from_secs(40)).unwrap();
    collector.once().unwrap();
    site.stamps("send").id
}

#[test]
fn a_segment_that_has_its_name_or_not_as_the_disk_goes_is_told_by_its_footer() {
    let ids: Vec<i64> = (1..=i64::from(SLOTS)).chain(1001..=1000 + i64::from(SLOTS)).collect();
    assert_eq!(stored_though_it_goes_when("the segment is written"), ids, "none is stored twice");
    assert_eq!(stored_though_it_goes_when("channels have their numbers"), ids, "none is missing");
}

#[test]
fn neither_a_round_nor_the_end_makes_anything_where_the_run_was_though_no_stamp_waits() {
    let site = Site::new();
    PLACES.set([site.run(), site.scratch.path().join("away")]);
    let pool = Pool::make(&site.directory(), 7, 100).live();
    pool.open_channel(0, "send", 1);
    let mut collector = Collector::start(site.slow_settings()).unwrap();
    vanish();
    wait(&mut collector, Instant::now(), 0);
    assert!(collector.once().unwrap_err().is_disk_full());
    assert!(!site.run().exists(), "its channels are not written below its mount point");
}

#[test]
fn a_collector_that_ends_without_its_run_says_what_is_missing_and_how_many_stamps_wait() {
    let (site, pool) = Site::vanishing();
    let mut collector = Collector::start(site.settings()).unwrap();
    collector.look(Instant::now()).unwrap();
    assert_eq!(site.stamps("send").id.len() as u32, SLOTS);
    pool.fill(1, (0, 1), "send", &full(1000)[..5]);
    pool.open_channel(1, "receive", 1);
    pool.fill(2, (1, 0), "receive", &full(1)[..3]);
    vanish();
    let why = collector.once().unwrap_err();
    assert!(why.is_disk_full() && why.to_string().ends_with("; at least 8 stamps are not stored"), "{why}");
    assert!(!site.run().exists());
    come_back();
    drop(collector);
    site.collect();
    assert_eq!((site.stamps("send").id.len() as u32, site.stamps("receive").id.len()), (SLOTS + 5, 3));
}
