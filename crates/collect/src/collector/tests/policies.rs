//! Policies that do not simply store: what a collector takes of them, and when.

use super::*;
use tickscope_stamp::block::WhenFull;
use tickscope_store::{CountRow, read_counts};

fn few(ids: &[i64]) -> Vec<Slot> {
    ids.iter().map(|&id| Slot::Committed { id, tick: id.abs() * 10 + 1 }).collect()
}

fn counts(site: &Site) -> Vec<CountRow> {
    let files = tickscope_store::files_in(&Paths::of(&site.run()).counts("host"), "parquet").unwrap();
    files.iter().flat_map(|file| read_counts(file).unwrap().rows().collect::<Vec<_>>()).collect()
}

/// Returns whether it tells of stamps that are in no file.
fn is_loss(event: &Event) -> bool {
    event.what == "lost" || event.what == "overwritten"
}

#[test]
fn blocks_of_keep_wait_until_somebody_asks_and_go_when_they_are_too_old() {
    let site = Site::new();
    let pool = Pool::make(&site.directory(), 7, 4).live();
    pool.open_channel(0, "send", 1);
    pool.choose(0, "keep 10s");
    for (index, number) in [(0, 0), (1, 1)] {
        pool.fill(index, (0, number), "send", &full(1 + i64::from(number) * 1000));
        pool.under(index, "keep 10s");
    }
    let (mut collector, start) = (Collector::start(site.settings()).unwrap(), Instant::now());
    let after = |seconds| start + Duration::from_secs(seconds);
    for seconds in [0, 3, 9] {
        collector.look(after(seconds)).unwrap();
    }
    assert_eq!(collector.report().stamps, 0, "nobody has asked");
    pool.fill(2, (0, 2), "send", &full(2001));
    pool.fill(3, (0, 3), "send", &few(&[3001, 3002]));
    [2, 3].into_iter().for_each(|index| pool.under(index, "keep 10s"));
    collector.look(after(9)).unwrap();
    collector.look(after(12)).unwrap();
    assert!(pool.is_zeroed(0) && pool.is_zeroed(1), "older than the window");
    assert_eq!((pool.block_state(2), collector.report().stamps), (BlockState::Leased as u32, 0));
    let dumped = collector.dump("*", "a test wants them").unwrap();
    assert_eq!((dumped.stamps, dumped.channels), (u64::from(SLOTS) + 2, 1));
    assert!(pool.is_zeroed(2) && !pool.is_zeroed(3));
    assert_eq!(site.stamps("send").id[..2], [2001, 2002]);
    assert!(site.event("dumped").text.contains("a test wants them"));
    assert_eq!(collector.dump("*", "again").unwrap().stamps, 0, "each stamp is stored once");
}

#[test]
fn a_dump_of_some_points_leaves_what_others_keep() {
    let site = Site::new();
    let pool = Pool::make(&site.directory(), 7, 4).live();
    for (serial, point) in [(0, "send"), (1, "receive")] {
        pool.open_channel(serial, point, 1);
        pool.choose(serial, "keep 10s");
        pool.fill(serial, (serial, 0), point, &few(&[1, 2]));
        pool.under(serial, "keep 10s");
    }
    let mut collector = Collector::start(site.settings()).unwrap();
    collector.look(Instant::now()).unwrap();
    let dumped = |points, collector: &mut Collector| {
        let found = collector.dump(points, "a test wants them").unwrap();
        (found.stamps, found.channels)
    };
    assert_eq!(dumped("sen?", &mut collector), (2, 1));
    assert_eq!((site.stamps("send").id, collector.report().stamps), (vec![1, 2], 2));
    assert_eq!(dumped("other*", &mut collector), (0, 0));
    assert_eq!(dumped("*", &mut collector), (2, 1), "what is left");
    assert_eq!(site.stamps("receive").id, [1, 2]);
}

#[test]
fn a_program_that_asks_has_what_it_keeps_stored() {
    let site = Site::new();
    let pool = Pool::make(&site.directory(), 7, 4).live();
    pool.open_channel(0, "send", 1);
    pool.choose(0, "keep 10s");
    pool.fill(0, (0, 0), "send", &full(1));
    pool.under(0, "keep 10s");
    let mut collector = Collector::start(site.settings()).unwrap();
    collector.look(Instant::now()).unwrap();
    assert_eq!(collector.report().stamps, 0);
    pool.ask(1);
    collector.look(Instant::now()).unwrap();
    assert_eq!((collector.report().stamps, site.event("dumped").value), (u64::from(SLOTS), Some(i64::from(SLOTS))));
}

#[test]
fn what_is_kept_is_stored_when_the_program_ends() {
    let site = Site::new();
    let mut pool = Pool::make(&site.directory(), 7, 4).live();
    pool.open_channel(0, "send", 1);
    pool.fill(0, (0, 5), "send", &full(1));
    pool.under(0, "keep 1h");
    let mut collector = Collector::start(site.settings()).unwrap();
    collector.look(Instant::now()).unwrap();
    pool.kill();
    collector.once().unwrap();
    assert_eq!(site.stamps("send").id.len(), SLOTS as usize);
    assert!(site.events().iter().all(|event| !is_loss(event)), "what a window lets go is no loss");
}

#[test]
fn of_a_first_last_block_two_stamps_are_stored_once_it_has_ended() {
    let site = Site::new();
    let pool = Pool::make(&site.directory(), 7, 4).live();
    pool.open_channel(0, "send", 1);
    pool.choose(0, "first-last -1");
    pool.fill(0, (0, 0), "send", &few(&[1, 70, 69]));
    pool.under(0, "first-last -1");
    let (mut collector, start) = (Collector::start(site.settings()).unwrap(), Instant::now());
    collector.look(start).unwrap();
    collector.look(start + Duration::from_secs(3)).unwrap();
    assert_eq!(collector.report().stamps, 0, "the last stamp is still to come");
    pool.fill(0, (0, 0), "send", &few(&[1, 70, -90]));
    pool.fill(0, (0, 0), "send", &[few(&[1, 70]), vec![Slot::Committed { id: -1, tick: 999 }]].concat());
    pool.end(0, 256);
    collector.once().unwrap();
    let stamps = site.stamps("send");
    assert_eq!((&stamps.id[..], &stamps.tick[..]), (&[1, -1][..], &[11, 999][..]));
    assert!(site.events().iter().all(|event| event.what != "marker-unseen"));
}

#[test]
fn a_stream_that_ends_without_its_marker_is_told() {
    let site = Site::new();
    let mut pool = Pool::make(&site.directory(), 7, 4).live();
    pool.open_channel(0, "send", 1);
    pool.choose(0, "first-last -1");
    pool.fill(0, (0, 0), "send", &few(&[1, 70, 69]));
    pool.under(0, "first-last -1");
    pool.kill();
    site.collect();
    assert_eq!(site.stamps("send").id, [1, 70]);
    assert!(site.event("marker-unseen").text.contains("send ended without the marker -1"));
}

#[test]
fn a_stream_whose_channel_went_on_under_another_policy_has_not_ended_without_its_marker() {
    for now in ["null", "first-last -2", "first-last -1"] {
        let site = Site::new();
        let mut pool = Pool::make(&site.directory(), 7, 4).live();
        pool.open_channel(0, "send", 1);
        pool.choose(0, now);
        pool.fill(0, (0, 0), "send", &few(&[1, 70, 69]));
        pool.under(0, "first-last -1");
        pool.end(0, 256);
        if now == "first-last -1" {
            // It was switched away and back.
            pool.fill(1, (0, 1), "send", &few(&[71, -1]));
            pool.under(1, now);
        }
        pool.kill();
        site.collect();
        assert!(site.stamps("send").id.starts_with(&[1, 70]), "{now}");
        let unseen: Vec<_> = site.events().into_iter().filter(|event| event.what == "marker-unseen").collect();
        assert!(unseen.is_empty(), "{now}: {unseen:?}");
    }
}

#[test]
fn a_block_that_ends_early_is_full_there() {
    let site = Site::new();
    let pool = Pool::make(&site.directory(), 7, 4).live();
    pool.open_channel(0, "send", 1);
    pool.fill(0, (0, 0), "send", &few(&[1, 2, 3]));
    pool.end(0, 12 + 4);
    let mut collector = Collector::start(site.slow_settings()).unwrap();
    collector.look(Instant::now()).unwrap();
    assert_eq!(pool.block_state(0), BlockState::Leased as u32, "a stamp is still to be committed");
    pool.end(0, 12 + 3);
    let start = Instant::now();
    collector.look(start + Duration::from_secs(1)).unwrap();
    collector.look(start + Duration::from_secs(20)).unwrap();
    assert!(pool.is_zeroed(0));
    assert_eq!(site.stamps("send").id, [1, 2, 3]);
    assert_eq!(site.channels()[0].uncommitted, 0);
}

#[test]
fn blocks_that_were_overwritten_are_counted_by_their_numbers() {
    let site = Site::new();
    let mut pool = Pool::make(&site.directory(), 7, 4).live();
    pool.set_when_full(WhenFull::Overwrite);
    pool.open_channel(0, "send", 1);
    pool.fill(0, (0, 0), "send", &full(1));
    pool.fill(1, (0, 3), "send", &full(10_001));
    pool.fill(2, (0, 4), "send", &few(&[20_001]));
    pool.kill();
    site.collect();
    let (lost, channel) = (site.event("overwritten"), &site.channels()[0]);
    assert!(site.events().iter().all(|event| event.what != "lost"), "nothing was dropped");
    let gone = 2 * i64::from(SLOTS);
    assert_eq!((lost.value, channel.overwritten, channel.dropped), (Some(gone), Some(gone), 0));
    let last = i64::from(SLOTS) * 10 + 1;
    assert_eq!((lost.tick, lost.until), (Some(last), Some(100_011)), "between the stamps that are there");
    assert_eq!(channel.stored, 2 * i64::from(SLOTS) + 1);
}

#[test]
fn what_a_program_overwrites_at_the_moment_is_counted_and_what_comes_late_is_not_counted_twice() {
    let site = Site::new();
    let mut pool = Pool::make(&site.directory(), 7, 4).live();
    pool.set_when_full(WhenFull::Overwrite);
    pool.open_channel(0, "send", 1);
    pool.fill(0, (0, 5), "send", &full(5001));
    pool.fill(1, (0, 3), "send", &full(3001));
    pool.set_block(1, BlockState::Overwritten);
    pool.fill(2, (0, 4), "send", &few(&[4001]));
    let overwritten = || (site.channels()[0].overwritten, site.events().iter().filter_map(|event| event.value).sum());
    let slots = i64::from(SLOTS);
    let mut collector = Collector::start(site.settings()).unwrap();
    collector.once().unwrap();
    assert_eq!(overwritten(), (Some(4 * slots), 4 * slots), "block 3 is given up, though it stands there still");
    assert_eq!(collector.totals()[3], 4 * slots, "what is asked of it meanwhile counts them as lost");
    // One that a handler overtook: block 5 came first, and all before it were counted with it.
    pool.fill(2, (0, 4), "send", &full(4001));
    collector.once().unwrap();
    assert_eq!(overwritten(), (Some(4 * slots), 4 * slots));
    drop(collector);
    pool.set_block(3, BlockState::Leased); // claimed, and not described yet
    pool.kill();
    site.collect();
    let text = &site.event("overwriting-cut-off").text;
    assert!(text.contains("was killed while it overwrote") && text.contains("at least"), "{text}");
}

#[test]
fn a_damaged_block_is_taken_from_its_program_before_it_is_left_alone() {
    let site = Site::new();
    let pool = Pool::make(&site.directory(), 7, 4).live();
    pool.set_when_full(WhenFull::Overwrite);
    pool.open_channel(0, "send", 1);
    pool.fill(0, (0, 0), "send", &full(1));
    pool.fill(1, (0, 1), "other", &full(1001));
    let mut collector = Collector::start(site.settings()).unwrap();
    collector.once().unwrap();
    assert!(site.event("block-left-alone").text.contains("block 1 holds stamps of another point"));
    assert_eq!(pool.block_state(1), BlockState::Taken as u32, "its program overwrites it no more");
}

#[test]
fn what_was_left_out_by_a_policy_before_is_not_told_as_overwritten() {
    let site = Site::new();
    let mut pool = Pool::make(&site.directory(), 7, 4).live();
    pool.set_when_full(WhenFull::Overwrite);
    pool.open_channel(0, "send", 1);
    let put = |index, number, policy: &str, first| {
        pool.fill(index, (0, number), "send", &full(1 + i64::from(number) * 1000));
        pool.under(index, policy);
        pool.since(index, first);
    };
    // Blocks 0 to 4 were under keep, and aged out; of those under buffered 7 was overwritten, of those before, none.
    put(0, 6, "buffered", 5);
    put(1, 8, "buffered", 5);
    put(2, 5, "buffered", 5);
    site.collect();
    assert_eq!((site.event("overwritten").value, site.channels()[0].overwritten), (Some(244), Some(244)));
    put(0, 12, "keep 1h", 9);
    put(1, 20, "buffered", 14);
    pool.kill();
    site.collect();
    let lost: Vec<_> = site.events().into_iter().filter(is_loss).map(|e| e.value).collect();
    assert_eq!(lost, [Some(244), Some(6 * 244)], "what was told before a collector took over is told once");
    assert_eq!(site.channels()[0].overwritten, Some(7 * 244));
}

#[test]
fn what_is_stored_of_an_open_block_is_forgotten_once_its_program_has_overwritten_it() {
    let site = Site::new();
    let pool = Pool::make(&site.directory(), 7, 4).live();
    pool.set_when_full(WhenFull::Overwrite);
    pool.open_channel(0, "send", 1);
    let (mut collector, start) = (Collector::start(site.settings()).unwrap(), Instant::now());
    let parts = |collector: &Collector| {
        collector.ledger.parts().map(|(channel, number, _)| (channel.1, number)).collect::<Vec<_>>()
    };
    for number in 0..3 {
        pool.fill(0, (0, number), "send", &few(&[i64::from(number) * 10 + 1, i64::from(number) * 10 + 2]));
        collector.once().unwrap();
        assert!(parts(&collector).contains(&(0, number)));
    }
    collector.look(start + Duration::from_secs(2)).unwrap();
    assert_eq!(parts(&collector), [(0, 2)]);
    assert_eq!(site.stamps("send").id, [1, 2, 11, 12, 21, 22]);
}

#[test]
fn stamps_that_every_kept_are_counted_apart_from_those_of_the_policy_before() {
    let site = Site::new();
    let mut pool = Pool::make(&site.directory(), 7, 4).live();
    pool.open_channel(0, "send", 1);
    pool.fill(0, (0, 0), "send", &full(1));
    site.collect();
    assert_eq!(site.channels()[0].kept, None);
    pool.set_policy(0, 3, 1, 100);
    pool.see(0, 345);
    pool.fill(1, (0, 1), "send", &few(&[1000, 1100]));
    pool.under(1, "every 100");
    site.collect();
    assert_eq!((site.channels()[0].kept, site.channels()[0].seen), (Some(2), Some(345)));
    pool.fill(1, (0, 1), "send", &few(&[1000, 1100, 1200]));
    pool.under(1, "every 100");
    pool.kill();
    site.collect();
    let channel = site.channels().remove(0);
    assert_eq!((channel.kept, channel.stored), (Some(3), i64::from(SLOTS) + 3));
}

#[test]
fn a_block_that_its_program_overwrites_is_not_taken() {
    let site = Site::new();
    let mut pool = Pool::make(&site.directory(), 7, 4).live();
    pool.open_channel(0, "send", 1);
    pool.fill(0, (0, 0), "send", &full(1));
    pool.set_block(0, BlockState::Overwritten);
    let mut collector = Collector::start(site.settings()).unwrap();
    collector.look(Instant::now()).unwrap();
    assert_eq!(pool.block_state(0), BlockState::Overwritten as u32);
    pool.kill();
    collector.once().unwrap();
    assert_eq!(collector.report().stamps, 0, "its stamps were given up");
}

#[test]
fn totals_are_read_once_a_period_and_add_up_and_periods_without_stamps_have_rows() {
    let site = Site::new();
    let mut pool = Pool::make(&site.directory(), 7, 4).live();
    for (serial, point) in [(0, "send"), (1, "receive")] {
        pool.open_channel(serial, point, 1);
        pool.choose(serial, "count 20ms");
    }
    let mut collector = Collector::start(site.settings()).unwrap();
    let mut total = 0;
    for step in 0..40u64 {
        total += if step < 20 { 5 } else { 0 };
        pool.count(0, total);
        pool.count(1, 1);
        collector.look(Instant::now() + Duration::from_secs(step * 2)).unwrap();
        std::thread::sleep(Duration::from_millis(10)); // periods pass, and the sampler reads
    }
    pool.count(0, total + 3);
    pool.kill();
    collector.look(Instant::now() + Duration::from_secs(100)).unwrap();
    assert!(!pool.path.exists());
    collector.once().unwrap();
    let rows = counts(&site);
    let of = |channel: i32| rows.iter().filter(move |row| row.channel == channel).cloned().collect::<Vec<_>>();
    let (send, receive) = (of(1), of(2));
    assert_eq!(send.iter().map(|row| row.count).sum::<i64>(), total as i64 + 3);
    assert!(send.iter().filter(|row| row.count == 0).count() > 2, "{send:?}");
    assert!(send[0].periods == 0 && send[1..send.len() - 1].iter().all(|row| row.periods > 0), "{send:?}");
    // Of no whole period, unless the sampler came between the last count and the kill.
    let rest = send.last().unwrap();
    assert!(rest.periods <= 1 && rest.total == total as i64 + 3, "the rest: {rest:?}");
    assert!(send.windows(2).all(|pair| pair[0].after <= pair[1].before && pair[0].total <= pair[1].total));
    assert!(rows.iter().all(|row| row.period_ns == 20_000_000 && row.before <= row.after));
    let together: Vec<_> = receive.iter().map(|row| (row.before, row.after)).collect();
    assert!(send[1..send.len() - 1].iter().all(|row| together.contains(&(row.before, row.after))), "in lockstep");
    assert_eq!(site.channels()[0].counted, Some(total as i64 + 3));
}

#[test]
fn before_the_first_total_of_a_channel_comes_its_opening_once_also_of_one_that_was_closed_before_it_was_read() {
    let site = Site::new();
    let mut pool = Pool::make(&site.directory(), 7, 4).live();
    for (serial, period) in [(0, "count 20ms"), (1, "count 1h")] {
        pool.open_channel(serial, "send", 1);
        pool.choose(serial, period);
        pool.set_opened(serial, 500 + i64::from(serial));
        pool.count(serial, 9);
    }
    let mut collector = Collector::start(site.settings()).unwrap();
    for step in 0..20u64 {
        collector.look(Instant::now() + Duration::from_secs(step * 2)).unwrap();
        std::thread::sleep(Duration::from_millis(10)); // periods pass, and the sampler reads
    }
    pool.open_channel(2, "send", 1);
    pool.choose(2, "count 1h");
    pool.set_opened(2, 502);
    pool.count(2, 4);
    pool.kill();
    collector.once().unwrap();
    let rows = counts(&site);
    for (opened, total) in [(500, 9), (501, 9), (502, 4)] {
        let beginning = rows.iter().find(|row| row.before == opened).unwrap();
        let of: Vec<_> = rows.iter().filter(|row| row.channel == beginning.channel).collect();
        assert_eq!((beginning.after, beginning.total, beginning.count, beginning.periods), (opened, 0, 0, 0));
        assert!(of[0] == beginning && of[1..].iter().all(|row| row.before > opened && row.total > 0), "{of:?}");
        assert_eq!(of.iter().map(|row| row.count).sum::<i64>(), total);
    }
}

#[test]
fn a_collector_that_takes_over_counts_on_from_what_is_stored() {
    let site = Site::new();
    let mut pool = Pool::make(&site.directory(), 7, 4).live();
    pool.open_channel(0, "send", 1);
    pool.choose(0, "count 1h");
    pool.count(0, 10);
    site.collect();
    pool.count(0, 25);
    pool.kill();
    site.collect();
    let rows: Vec<_> = counts(&site).into_iter().map(|row| (row.total, row.count)).collect();
    assert_eq!(rows, [(10, 10), (25, 15)]);
}

#[test]
fn a_channel_that_was_closed_before_anybody_saw_it_open_has_the_policy_of_its_blocks() {
    for (policy, name, parameter, keeps_all) in
        [("own", "own", None, false), ("2 of 8", "x-of-y", Some(2 << 32 | 8), false), ("all", "all", None, true)]
    {
        let site = Site::new();
        let mut pool = Pool::make(&site.directory(), 7, 4).live();
        pool.fill(0, (0, 0), "send", &full(1));
        pool.under(0, policy);
        pool.kill();
        Collector::start(site.settings()).unwrap().once().unwrap();
        let channels = site.channels();
        let [told] = &channels[..] else { panic!("{channels:?}") };
        assert_eq!((told.policy.as_str(), told.parameter, told.keeps_all()), (name, parameter, keeps_all));
    }
}
