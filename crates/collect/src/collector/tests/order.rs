//! Blocks in the order in which a program filled them, whatever it does while they are looked at.

use super::*;

#[test]
fn a_block_that_was_filled_behind_the_collectors_back_comes_before_its_successor() {
    static FILLED: std::sync::OnceLock<Pool> = std::sync::OnceLock::new();
    let site = Site::new();
    let pool = Pool::make(&site.directory(), 7, 4).live();
    pool.open_channel(0, "send", 1);
    // The look passes block 0 while it is partial; then its program fills it, leases block 1 and fills that too.
    pool.fill(0, (0, 0), "send", &full(1)[..5]);
    pool.fill(1, (0, 1), "send", &full(1001));
    assert!(FILLED.set(pool).is_ok());
    let fills = || FILLED.get().unwrap().fill(0, (0, 0), "send", &full(1));
    let steps = Steps::meanwhile("every block was looked at", fills);
    // Full blocks are stored at once and alone.
    let mut collector = Collector::start_with(Settings { age: Duration::ZERO, ..site.slow_settings() }, steps).unwrap();
    collector.look(Instant::now()).unwrap();
    collector.once().unwrap();
    drop(collector);
    let ids = site.stamps("send").id;
    assert_eq!((ids.len(), ids.is_sorted()), (2 * SLOTS as usize, true), "{:?}", &ids[..8]);
}

#[test]
fn a_block_that_was_taken_and_filled_while_the_open_ones_were_looked_at_comes_before_its_successor() {
    static FILLED: std::sync::OnceLock<Pool> = std::sync::OnceLock::new();
    let site = Site::new();
    let pool = Pool::make(&site.directory(), 7, 4).live();
    pool.open_channel(0, "send", 1);
    // The look at open blocks passes block 0 while it is free, and finds block 1; its program filled block 0 before.
    pool.fill(1, (0, 1), "send", &full(1001)[..5]);
    assert!(FILLED.set(pool).is_ok());
    let fills = || FILLED.get().unwrap().fill(0, (0, 0), "send", &full(1));
    let steps = Steps::meanwhile("every open block was looked at", fills);
    Collector::start_with(site.settings(), steps).unwrap().once().unwrap();
    let ids = site.stamps("send").id;
    assert_eq!((ids.len(), ids.is_sorted()), (SLOTS as usize + 5, true), "{:?}", &ids[..5]);
}

#[test]
fn a_free_block_that_was_taken_while_the_open_ones_were_looked_at_does_not_come_before_another() {
    static FILLED: std::sync::OnceLock<Pool> = std::sync::OnceLock::new();
    let site = Site::new();
    let pool = Pool::make(&site.directory(), 7, 4).live();
    pool.open_channel(0, "send", 1);
    pool.fill(1, (0, 1), "send", &full(1)[..5]);
    assert!(FILLED.set(pool).is_ok());
    // Block 2 follows the open one, so it waits; the free one is listed, for its number is 0 until it is taken.
    let goes_on = || {
        let pool = FILLED.get().unwrap();
        pool.fill(1, (0, 1), "send", &full(1));
        pool.fill(2, (0, 2), "send", &full(1001));
    };
    let takes_the_free_one = || FILLED.get().unwrap().fill(0, (0, 3), "send", &full(2001)[..5]);
    let steps = Steps::meanwhile("every open block was looked at", goes_on)
        .then("what precedes an open block was listed", takes_the_free_one);
    Collector::start_with(site.settings(), steps).unwrap().once().unwrap();
    Collector::start(site.settings()).unwrap().once().unwrap();
    let ids = site.stamps("send").id;
    assert_eq!((ids.len(), ids.is_sorted()), (2 * SLOTS as usize + 5, true), "{:?}", &ids[..8]);
}

#[test]
fn a_free_block_that_was_filled_while_ready_ones_were_looked_at_does_not_come_before_another() {
    static FILLED: std::sync::OnceLock<Pool> = std::sync::OnceLock::new();
    let site = Site::new();
    let pool = Pool::make(&site.directory(), 7, 4).live();
    pool.open_channel(0, "send", 1);
    pool.fill(1, (0, 1), "send", &full(1));
    assert!(FILLED.set(pool).is_ok());
    let fills = || {
        let pool = FILLED.get().unwrap();
        pool.fill(2, (0, 2), "send", &full(1001));
        pool.fill(0, (0, 3), "send", &full(2001));
    };
    let steps = Steps::meanwhile("a block that precedes a ready one was found", fills);
    let mut collector = Collector::start_with(Settings { age: Duration::ZERO, ..site.slow_settings() }, steps).unwrap();
    collector.look(Instant::now()).unwrap();
    collector.once().unwrap();
    drop(collector);
    let ids = site.stamps("send").id;
    assert_eq!((ids.len(), ids.is_sorted()), (3 * SLOTS as usize, true), "{:?}", &ids[..8]);
}

#[test]
fn row_groups_are_in_the_order_of_their_blocks_however_many_threads_encode_them() {
    let blocks = 2 * tickscope_store::GROUP_STAMPS as u32 / SLOTS + 3;
    let of_encoders = |encoders: usize| {
        let site = Site::new();
        let pool = Pool::make(&site.directory(), 7, blocks);
        pool.open_channel(0, "send", 1);
        // The last one first: what decides is a block's number, not its place.
        let fill = |number| pool.fill(blocks - 1 - number, (0, number), "send", &full(i64::from(number * SLOTS) + 1));
        (0..blocks).for_each(fill);
        let mut settings = site.settings();
        settings.encoding.encoders = encoders.try_into().unwrap();
        let report = Collector::start(settings).unwrap().once().unwrap();
        assert_eq!((report.stamps, report.segments, report.blocks), (u64::from(blocks * SLOTS), 1, blocks.into()));
        assert_eq!((site.channels()[0].stored, report.pools_ended), (i64::from(blocks * SLOTS), 1), "each is counted");
        assert!(site.stamps("send").id.iter().copied().eq(1..=i64::from(blocks * SLOTS)), "{encoders} encoders");
        assert!((1..report.bytes).contains(&report.encoded_bytes), "{report:?}");
        report.bytes
    };
    assert_eq!(of_encoders(3), of_encoders(1));
}
