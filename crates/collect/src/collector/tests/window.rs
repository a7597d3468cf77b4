//! A run that keeps a window of its stamps: what goes, in which order, and what a kill at any step leaves.

use super::*;
use tickscope_store::{PointStamps, RemovedNote};

/// Shorter than any pause of these tests.
const WINDOW: Duration = Duration::from_millis(5);

impl Site {
    fn window(&self, keep: Duration) -> Settings {
        Settings { keep: Some(keep), ..self.slow_settings() }
    }

    fn note(&self) -> RemovedNote {
        RemovedNote::read(&Paths::of(&self.run()).removed("host")).unwrap()
    }

    fn removed(&self) -> i64 {
        self.note().channels().map(|removed| removed.stamps).sum()
    }

    fn parts(&self, point: &str) -> Vec<String> {
        let folder = Paths::of(&self.run()).stamps(&format!("host.{point}").parse().unwrap());
        tickscope_store::files_in(&folder, "parquet").unwrap().iter().map(|path| stem(path)).collect()
    }
}

/// Waits until whatever was written before is older than the window.
fn outlast_the_window() {
    std::thread::sleep(WINDOW * 3);
}

#[test]
fn what_is_older_than_the_window_goes_whole_and_is_counted_and_the_rest_stays() {
    let site = Site::new();
    let pool = Pool::make(&site.directory(), 7, 8).live();
    pool.open_channel(0, "send", 1);
    let mut collector = Collector::start(site.window(WINDOW)).unwrap();
    let start = Instant::now();
    for block in 0..3u32 {
        pool.fill(block, (0, block), "send", &full(i64::from(block) * 1000 + 1));
        collector.look(start + Duration::from_secs(30) * block).unwrap();
        collector.look(start + Duration::from_secs(30) * block + Duration::from_secs(11)).unwrap();
        outlast_the_window();
    }
    collector.look(start + Duration::from_secs(95)).unwrap();
    assert_eq!(site.parts("send"), [""; 0]);
    assert_eq!((site.removed(), site.note().below("send")), (3 * i64::from(SLOTS), 3));
    let newest = full(2001)
        .iter()
        .filter_map(|slot| if let Slot::Committed { tick, .. } = slot { Some(*tick) } else { None })
        .max();
    assert_eq!(site.note().channels().map(|removed| removed.until).max(), newest);
    pool.fill(3, (0, 3), "send", &full(3001));
    let report = collector.once().unwrap();
    assert_eq!(report.stamps, 4 * u64::from(SLOTS));
    assert_eq!(site.parts("send"), ["part-00000003"], "no number is given twice");
    let channel = site.channels().remove(0);
    assert_eq!((channel.stored, channel.removed), (i64::from(SLOTS), Some(3 * i64::from(SLOTS))));
}

#[test]
fn a_segment_that_is_younger_than_the_window_stays_and_so_do_all_after_it() {
    let site = Site::new();
    let pool = Pool::make(&site.directory(), 7, 8).live();
    pool.open_channel(0, "send", 1);
    let mut collector = Collector::start(site.window(Duration::from_secs(3600))).unwrap();
    let start = Instant::now();
    for block in 0..3u32 {
        pool.fill(block, (0, block), "send", &full(i64::from(block) * 1000 + 1));
        for after in [0, 11, 22] {
            // By the ordinary clock of the rounds hours have passed; by that of the segments, none.
            collector.look(start + Duration::from_secs(7200) * block + Duration::from_secs(after)).unwrap();
        }
    }
    assert_eq!((site.parts("send").len(), site.removed()), (3, 0));
}

#[test]
fn a_slow_point_begins_a_new_segment_each_eighth_of_the_window_though_its_block_stays_open() {
    let site = Site::new();
    let mut pool = Pool::make(&site.directory(), 7, 8).live();
    pool.open_channel(0, "send", 1);
    let settings = || Settings { every: Duration::from_secs(1), ..site.window(Duration::from_secs(80)) };
    let mut collector = Collector::start(settings()).unwrap();
    let start = Instant::now();
    for second in 0..35u32 {
        pool.fill(0, (0, 0), "send", &full(1)[..second as usize + 1]);
        collector.look(start + Duration::from_millis(1001) * second).unwrap();
    }
    assert_eq!(site.parts("send").len(), 4, "each holds 10 seconds");
    drop(collector); // as if killed
    let mut collector = Collector::start(settings()).unwrap();
    pool.kill();
    collector.once().unwrap();
    assert_eq!(site.stamps("send").id, (1..=35).collect::<Vec<_>>());
}

#[test]
fn whichever_step_a_kill_follows_each_stamp_is_stored_or_removed_once() {
    let mut killed = 0;
    for steps in 0..60 {
        let site = Site::new();
        let mut pool = Pool::make(&site.directory(), 7, 16).live();
        pool.open_channel(0, "send", 1);
        let start = Instant::now();
        let settings = || Settings { every: Duration::from_secs(1), ..site.window(WINDOW) };
        let mut collector = Collector::start_with(settings(), Steps::ending_after(steps)).unwrap();
        let mut blocks = 0..6u32;
        let mut work = |collector: &mut Collector| {
            for block in blocks.by_ref() {
                pool.fill(2 * block, (0, 2 * block), "send", &full(i64::from(block) * 1000 + 1));
                pool.fill(2 * block + 1, (0, 2 * block + 1), "send", &full(i64::from(block) * 1000 + 501));
                for after in [0, 11, 13] {
                    collector.look(start + Duration::from_secs(30) * block + Duration::from_secs(after))?;
                    outlast_the_window();
                }
            }
            Ok::<_, Error>(())
        };
        killed += u32::from(work(&mut collector).is_err());
        drop(collector);
        let mut collector = Collector::start(settings()).unwrap();
        assert_eq!(site.events(), [], "no part is missed: what went is noted");
        work(&mut collector).unwrap();
        pool.kill();
        collector.once().unwrap();
        let ids = site.stamps("send").id;
        let channel = site.channels().remove(0);
        assert_eq!((channel.stored, channel.removed.unwrap_or(0)), (ids.len() as i64, site.removed()), "{steps}");
        assert_eq!(channel.ever_stored(), 12 * i64::from(SLOTS), "killed after {steps} steps");
        assert!(site.removed() > 0 && ids.windows(2).all(|pair| pair[0] < pair[1]), "{ids:?}");
        let below = site.note().below("send");
        assert!(site.parts("send").iter().all(|part| part[5..].parse::<u64>().unwrap() >= below), "all of it is gone");
    }
    assert!(killed > 20, "{killed}");
}

#[test]
fn what_is_noted_and_not_unlinked_yet_is_read_by_nobody_and_goes_with_the_next_collector() {
    let site = Site::new();
    let pool = Pool::make(&site.directory(), 7, 8).live();
    pool.open_channel(0, "send", 1);
    pool.fill(0, (0, 0), "send", &full(1));
    let start = Instant::now();
    let mut collector = Collector::start(site.window(WINDOW)).unwrap();
    collector.look(start).unwrap();
    collector.look(start + Duration::from_secs(11)).unwrap();
    let folder = Paths::of(&site.run()).stamps(&"host.send".parse().unwrap());
    let copy = site.scratch.path().join("copy.parquet");
    std::fs::copy(folder.join("part-00000000.parquet"), &copy).unwrap();
    outlast_the_window();
    collector.look(start + Duration::from_secs(22)).unwrap();
    drop(collector);
    std::fs::copy(&copy, folder.join("part-00000000.parquet")).unwrap();
    let opened = PointStamps::open(&folder).unwrap();
    assert_eq!((opened.len(), opened.refused().len(), opened.removed_below()), (0, 0, 1));
    let _collector = Collector::start(site.window(WINDOW)).unwrap();
    assert_eq!(site.parts("send"), [""; 0]);
}

#[test]
fn a_part_that_cannot_be_read_is_told_once_and_holds_up_neither_its_point_nor_others() {
    let site = Site::new();
    let pool = Pool::make(&site.directory(), 7, 8).live();
    pool.open_channel(0, "send", 1);
    let mut collector = Collector::start(site.window(WINDOW * 100)).unwrap();
    let start = Instant::now();
    for block in 0..3u32 {
        pool.fill(block, (0, block), "send", &full(i64::from(block) * 1000 + 1));
        collector.look(start + Duration::from_secs(30) * block).unwrap();
        collector.look(start + Duration::from_secs(30) * block + Duration::from_secs(11)).unwrap();
    }
    let folder = Paths::of(&site.run()).stamps(&"host.send".parse().unwrap());
    let parts = tickscope_store::files_in(&folder, "parquet").unwrap();
    std::fs::write(&parts[0], "torn").unwrap();
    std::thread::sleep(WINDOW * 110);
    for round in 0..6 {
        collector.look(start + Duration::from_secs(200 + 30 * round)).unwrap();
    }
    assert!(parts.iter().all(|part| !part.exists()), "{:?}", site.parts("send"));
    assert_eq!(site.note().below("send"), parts.len() as u64);
    let events = tickscope_store::files_in(&Paths::of(&site.run()).events(), "parquet").unwrap();
    let events = events.iter().flat_map(|file| tickscope_store::read_events(file).unwrap());
    let told: Vec<_> = events.filter(|event| event.what == tickscope_store::EventKind::PartsMissing).collect();
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].text.contains("part-00000000") && told[0].text.contains("not known"), "{told:?}");
}
