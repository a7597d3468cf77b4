//! Durations that have what `keep` holds stored.

use super::*;

fn kept(pool: &Pool, index: u32, (serial, point): (u32, &str), stamps: &[(i64, i64)]) {
    let slots: Vec<Slot> = stamps.iter().map(|&(id, tick)| Slot::Committed { id, tick }).collect();
    pool.fill(index, (serial, 0), point, &slots);
    pool.under(index, "keep 1h");
}

#[test]
fn a_description_of_a_channel_is_no_record_of_a_duration() {
    let site = Site::new();
    let pool = Pool::make(&site.directory(), 7, 4).live();
    for (serial, point) in [(0, "in"), (1, "out")] {
        pool.open_channel(serial, point, 1);
        pool.choose(serial, "keep 1h");
    }
    let (mut collector, start) = (Collector::start(site.settings()).unwrap(), Instant::now());
    let point = |name| PointName::new(name).unwrap();
    collector.set_triggers(vec![Trigger { from: point("in"), to: point("out"), above_ticks: 100 }]);
    kept(&pool, 0, (0, "in"), &[(1, 1000)]);
    kept(&pool, 1, (1, "out"), &[(1, 1010)]);
    // As a record it has the id of both, and as its tick the thread.
    let successor = u64::from(tickscope_stamp::block::SUCCESSOR_MAGIC);
    for (index, thread) in [(0, 7), (1, 8)] {
        pool.succeed(index, 12 + 1, thread << 32 | successor);
    }
    collector.look(start).unwrap();
    assert!(site.events().iter().all(|event| event.what != "dumped"), "{:?}", site.events());
}

#[test]
fn records_of_a_block_that_its_program_overwrites_meanwhile_are_not_read_under_its_old_name() {
    let site = Site::new();
    let pool = Pool::make(&site.directory(), 7, 4).live();
    pool.open_channel(0, "in", 1);
    kept(&pool, 0, (0, "in"), &[(1, 1000), (2, 1010)]);
    let (mut collector, mut looks) = (Collector::start(site.settings()).unwrap(), 0);
    collector.look(Instant::now()).unwrap();
    collector.pools[&7].pool.kept_at(&PointName::new("in").unwrap(), |_, name, records| {
        assert_eq!((name, records(0), records(1)), ((0, 0), vec![(1, 1000), (2, 1010)], vec![(2, 1010)]));
        pool.fill(0, (0, 5), "in", &[Slot::Committed { id: 1, tick: 9000 }]);
        assert_eq!(records(0), [], "it is block 5 by now");
        looks += 1;
    });
    assert_eq!(looks, 1);
}

#[test]
fn a_duration_above_its_limit_has_what_is_kept_stored_at_most_once_a_second() {
    let site = Site::new();
    let pool = Pool::make(&site.directory(), 7, 4).live();
    for (serial, point) in [(0, "in"), (1, "out")] {
        pool.open_channel(serial, point, 1);
        pool.choose(serial, "keep 1h");
    }
    pool.count_channels(2);
    let (mut collector, start) = (Collector::start(site.settings()).unwrap(), Instant::now());
    let point = |name| PointName::new(name).unwrap();
    collector.set_triggers(vec![Trigger { from: point("in"), to: point("out"), above_ticks: 100 }]);
    let dumps = || site.events().into_iter().filter(|event| event.what.name() == "dumped").collect::<Vec<_>>();
    kept(&pool, 0, (0, "in"), &[(1, 1000), (2, 1010), (3, 1020)]);
    kept(&pool, 1, (1, "out"), &[(1, 1100), (9, 5000)]);
    collector.look(start).unwrap();
    assert_eq!(dumps().len(), 0, "as long as the limit, and an id that never began, are none");
    kept(&pool, 1, (1, "out"), &[(1, 1100), (9, 5000), (3, 1121), (2, 1300)]);
    collector.look(start + Duration::from_millis(900)).unwrap();
    assert_eq!(dumps().len(), 0, "not twice in a second");
    collector.look(start + Duration::from_millis(1100)).unwrap();
    let found = dumps();
    assert_eq!((found.len(), found[0].value), (1, Some(7)));
    assert!(found[0].text.contains("id 3 was at in at tick 1020 and at out at tick 1121"), "{}", found[0].text);
    collector.look(start + Duration::from_millis(2200)).unwrap();
    assert_eq!(dumps().len(), 1, "each record is looked at once");
}
