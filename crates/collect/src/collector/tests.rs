use super::*;
use crate::fabricated::{Pool, SLOTS, Slot, full};
use crate::scratch::Scratch;
use proptest::prelude::*;
use tickscope_stamp::block::{BlockState, EntryState, PoolState};
use tickscope_store::{Channel, ChannelState, StampColumns, next_segment, read_channels, read_events};
use tickscope_tick::{Clock, Domain};

mod live;
mod order;
mod policies;
mod runs;
mod tenants;
mod trigger;
mod vanished;
mod window;

/// A stamp directory and a run.
struct Site {
    scratch: Scratch,
}

impl Site {
    fn new() -> Self {
        let scratch = Scratch::new();
        std::fs::create_dir(scratch.path().join("shm")).unwrap();
        Self { scratch }
    }

    fn directory(&self) -> PathBuf {
        self.scratch.path().join("shm")
    }

    fn run(&self) -> PathBuf {
        self.scratch.path().join("run")
    }

    fn settings(&self) -> Settings {
        Settings::new(self.directory(), self.run(), tickscope_tick::NodeName::new("host").unwrap())
    }

    /// Full blocks are stored after 10 s, and open ones not at all before the end.
    fn slow_settings(&self) -> Settings {
        let (age, every) = (Duration::from_secs(10), Duration::from_secs(3600));
        Settings { age, every, least: 0, ..self.settings() }
    }

    fn collect(&self) -> Report {
        Collector::start(self.settings()).unwrap().once().unwrap()
    }

    fn stamps(&self, point: &str) -> StampColumns {
        let folder = Paths::of(&self.run()).stamps(&format!("host.{point}").parse().unwrap());
        let stamps = tickscope_store::PointStamps::open(&folder).unwrap();
        assert!(stamps.refused().is_empty());
        stamps.read_all().unwrap()
    }

    fn channels(&self) -> Vec<Channel> {
        read_channels(&Paths::of(&self.run()).channels("host")).unwrap()
    }

    fn events(&self) -> Vec<Event> {
        let files = tickscope_store::files_in(&Paths::of(&self.run()).events(), "parquet").unwrap();
        files.iter().flat_map(|file| read_events(file).unwrap()).collect()
    }

    fn event(&self, what: &str) -> Event {
        let events: Vec<_> = self.events().into_iter().filter(|event| event.what == what).collect();
        assert_eq!(events.len(), 1, "{what}: {:?}", self.events());
        events[0].clone()
    }
}

#[test]
fn a_full_block_of_a_living_program_is_stored_and_freed_and_a_partial_one_is_stored_and_left() {
    let site = Site::new();
    let pool = Pool::make(&site.directory(), 7, 4).live();
    pool.open_channel(0, "send", 1);
    pool.fill(0, (0, 0), "send", &full(1));
    pool.fill(1, (0, 1), "send", &full(1000)[..5]);
    let report = site.collect();
    assert_eq!((report.stamps, report.blocks, report.segments, report.held), (u64::from(SLOTS) + 5, 1, 1, 1));
    assert_eq!(site.stamps("send").id, (1..=i64::from(SLOTS)).chain(1000..1005).collect::<Vec<_>>());
    assert!(pool.is_zeroed(0) && pool.block_state(1) == BlockState::Leased as u32);
    assert_eq!(site.channels()[0].stored, i64::from(SLOTS) + 5);
    assert_eq!(site.channels()[0].state, ChannelState::Open);
    assert_eq!(site.collect().stamps, 0, "nothing is stored twice");
}

#[test]
fn what_is_committed_later_in_a_block_that_was_open_is_stored_once_and_so_are_its_gaps() {
    let site = Site::new();
    let mut pool = Pool::make(&site.directory(), 7, 4).live();
    pool.open_channel(0, "send", 1);
    let (done, open) = (|id| Slot::Committed { id, tick: id }, Slot::Reserved { id: 0 });
    for (slots, stored) in [
        (vec![done(1), open, done(3)], 2),
        (vec![done(1), open, done(3), done(4), open], 1),
        (vec![done(1), done(2), done(3), done(4), open, open, done(7)], 2),
        (vec![done(1), done(2), done(3), done(4), done(5), open, done(7), open], 1),
    ] {
        pool.fill(0, (0, 0), "send", &slots);
        assert_eq!(site.collect().stamps, stored);
    }
    pool.kill();
    let report = site.collect();
    assert_eq!((report.stamps, report.uncommitted, report.held), (0, 1, 0));
    assert_eq!(site.stamps("send").id, [1, 3, 4, 2, 7, 5]);
    assert_eq!(site.channels()[0].stored, 6);
    assert_eq!(site.event("recovered").value, Some(1));
}

#[test]
fn what_the_growing_segment_holds_is_packed_again_only_once_something_came() {
    let site = Site::new();
    let pool = Pool::make(&site.directory(), 7, 100).live();
    pool.open_channel(0, "send", 1);
    pool.fill(0, (0, 0), "send", &full(1));
    pool.fill(1, (0, 1), "send", &full(1000)[..5]);
    let steps = Steps::meanwhile("stamps are packed", || ()).then("stamps are packed", || panic!("packed again"));
    let mut collector = Collector::start_with(site.settings(), steps).unwrap();
    let start = Instant::now();
    for second in 0..5 {
        collector.look(start + Duration::from_secs(2 * second)).unwrap();
    }
    assert_eq!(site.stamps("send").id.len() as u32, SLOTS + 5);
    collector.steps = Steps::default();
    pool.fill(1, (0, 1), "send", &full(1000)[..6]);
    collector.look(start + Duration::from_secs(20)).unwrap();
    assert_eq!(site.stamps("send").id.len() as u32, SLOTS + 6);
}

#[test]
fn a_slow_points_stamps_are_in_the_files_within_a_second_and_the_file_grows() {
    let site = Site::new();
    let pool = Pool::make(&site.directory(), 7, 100).live();
    pool.open_channel(0, "send", 1);
    let mut collector = Collector::start(site.settings()).unwrap();
    let start = Instant::now();
    for second in 1..20u32 {
        pool.fill(0, (0, 0), "send", &full(1)[..5 * second as usize]);
        collector.look(start + Duration::from_millis(1010) * second).unwrap();
        assert_eq!(site.stamps("send").id.len(), 5 * second as usize);
    }
    collector.ledger.write().unwrap();
    assert_eq!((site.channels()[0].stored, collector.report().stamps, collector.report().segments), (95, 95, 1));
    pool.fill(0, (0, 0), "send", &full(1));
    pool.fill(1, (0, 1), "send", &full(1001)[..7]);
    collector.look(start + Duration::from_secs(21)).unwrap();
    assert_eq!(site.stamps("send").id.len(), SLOTS as usize + 7);
    assert_eq!(pool.block_state(0), BlockState::Taken as u32, "it may still be written again");
    drop(collector); // as if killed
    let report = site.collect();
    assert_eq!((report.stamps, site.stamps("send").id.len()), (0, SLOTS as usize + 7));
    assert!(pool.is_zeroed(0));
}

#[test]
fn a_loss_in_a_segment_that_grows_is_told_once_whichever_step_a_kill_follows() {
    for steps in 0..30 {
        let site = Site::new();
        let mut pool = Pool::make(&site.directory(), 7, 8).live();
        pool.open_channel(0, "send", 1);
        let start = Instant::now();
        let collector = Collector::start_with(site.settings(), Steps::ending_after(steps));
        let mut collector = collector.unwrap();
        for round in 0..4u32 {
            pool.fill(round, (0, round), "send", &full(1 + i64::from(round) * 1000));
            pool.lose_before(round, u64::from(round), 5, 6);
            if collector.look(start + Duration::from_millis(1100) * round).is_err() {
                break;
            }
        }
        drop(collector);
        pool.kill();
        site.collect();
        let mut ids = site.stamps("send").id;
        ids.sort_unstable();
        ids.dedup();
        let lost: Vec<_> = site.events().into_iter().filter(|e| e.what == "lost").filter_map(|e| e.value).collect();
        let blocks = ids.len() / SLOTS as usize;
        assert_eq!(ids.len(), site.stamps("send").id.len(), "stored twice after {steps} steps");
        assert_eq!(lost.iter().sum::<i64>(), (0..blocks as i64).sum::<i64>(), "killed after {steps} steps: {lost:?}");
    }
}

#[test]
fn every_channel_has_the_domain_of_its_own_counter_and_so_have_its_losses() {
    let site = Site::new();
    let mut pool = Pool::make(&site.directory(), 7, 4).live();
    pool.open_channel(0, "send", 1);
    pool.open_channel(1, "tx", 1);
    pool.fill(0, (0, 0), "send", &full(1)[..5]);
    pool.fill(1, (1, 0), "tx", &full(1)[..4]);
    pool.set_counter(1, Some(1), Clock::Realtime.number());
    pool.lose_before(1, 6, 11, 22);
    pool.open_channel(2, "rx", 1);
    pool.set_counter(2, None, Clock::Phc.number());
    pool.drop_stamps(2, 3, 3);
    pool.kill();
    assert_eq!(site.collect().stamps, 9);
    let domains: Vec<(String, Clock)> = site
        .channels()
        .into_iter()
        .map(|channel| (channel.point.to_string(), channel.domain.parse::<Domain>().unwrap().counter))
        .collect();
    let expected = [("send", Clock::Tsc), ("tx", Clock::Realtime), ("rx", Clock::Phc)];
    assert_eq!(domains, expected.map(|(point, counter)| (point.to_string(), counter)));
    let mut lost: Vec<_> = site.events().into_iter().filter(|event| event.what == "lost").collect();
    lost.sort_by_key(|event| event.value);
    let labels: Vec<_> = lost.iter().map(|event| event.domain.as_deref()).collect();
    assert_eq!(labels, [Some("host.phc"), Some("host.realtime")]);
}

#[test]
fn a_block_of_a_counter_that_no_version_knows_is_left_alone() {
    let site = Site::new();
    let mut pool = Pool::make(&site.directory(), 7, 4).live();
    pool.open_channel(0, "send", 1);
    pool.fill(0, (0, 0), "send", &full(1));
    pool.set_counter(0, Some(0), 99);
    pool.kill();
    assert_eq!(site.collect().stamps, 0);
    assert!(site.event("block-left-alone").text.contains("a counter of no version"));
}

#[test]
fn a_partial_block_of_a_killed_program_is_stored_and_its_open_slots_are_counted() {
    let site = Site::new();
    let mut pool = Pool::make(&site.directory(), 7, 4).live();
    pool.open_channel(0, "send", 1);
    let slots = [
        Slot::Committed { id: 1, tick: 10 },
        Slot::Reserved { id: 0 },
        Slot::Committed { id: 3, tick: 30 },
        Slot::Reserved { id: 4 },
    ];
    pool.fill(0, (0, 0), "send", &slots);
    pool.kill();
    let report = site.collect();
    assert_eq!((report.stamps, report.uncommitted, report.pools_ended), (2, 2, 1));
    assert_eq!(site.stamps("send").tick, [10, 30]);
    let channel = &site.channels()[0];
    assert_eq!((channel.stored, channel.uncommitted, channel.state), (2, 2, ChannelState::Recovered));
    let recovered = site.event("recovered");
    assert_eq!(recovered.value, Some(2));
    assert!(recovered.text.contains("process 4242 (echo)"), "{}", recovered.text);
    assert!(!pool.path.exists());
}

#[test]
fn a_program_that_closed_its_pool_leaves_no_recovery() {
    let site = Site::new();
    let pool = Pool::make(&site.directory(), 7, 4);
    pool.open_channel(0, "send", 1);
    pool.set_entry(0, EntryState::Closed);
    pool.fill(0, (0, 0), "send", &full(1)[..3]);
    pool.set_block(0, BlockState::Released);
    pool.set_state(PoolState::Closed);
    assert_eq!(site.collect().stamps, 3);
    assert!(site.events().is_empty() && !pool.path.exists());
    assert_eq!(site.channels()[0].state, ChannelState::Closed);
}

#[test]
fn a_closed_channel_of_a_living_program_gives_its_entry_back_with_its_counts_written() {
    let site = Site::new();
    let pool = Pool::make(&site.directory(), 7, 4).live();
    pool.open_channel(0, "send", 1);
    pool.fill(0, (0, 0), "send", &full(1)[..3]);
    pool.set_block(0, BlockState::Released);
    pool.drop_stamps(0, 9, 4);
    pool.set_entry(0, EntryState::Closed);
    assert_eq!(site.collect().lost, 4);
    assert_eq!(pool.entry_state(0), EntryState::Free as u32);
    let channel = &site.channels()[0];
    assert_eq!((channel.stored, channel.dropped, channel.state), (3, 9, ChannelState::Closed));
    let lost = site.event("lost");
    assert_eq!((lost.channel, lost.tick, lost.until, lost.value), (Some(1), Some(11), Some(22), Some(4)));
}

#[test]
fn an_entry_is_given_back_only_when_its_blocks_are_stored() {
    let site = Site::new();
    let pool = Pool::make(&site.directory(), 7, 100).live();
    pool.open_channel(0, "send", 1);
    pool.fill(0, (0, 0), "send", &full(1)[..3]);
    pool.set_block(0, BlockState::Released);
    pool.set_entry(0, EntryState::Closed);
    let mut collector = Collector::start(site.slow_settings()).unwrap();
    let start = Instant::now();
    collector.look(start).unwrap();
    assert_eq!(pool.entry_state(0), EntryState::Closed as u32);
    collector.look(start + Duration::from_secs(11)).unwrap();
    assert_eq!(pool.entry_state(0), EntryState::Free as u32);
}

#[test]
fn stamps_dropped_between_two_blocks_are_an_event_and_a_count() {
    let site = Site::new();
    let pool = Pool::make(&site.directory(), 7, 4).live();
    pool.open_channel(0, "send", 1);
    pool.drop_stamps(0, 12, 0);
    pool.fill(0, (0, 0), "send", &full(1));
    pool.lose_before(0, 12, 100, 200);
    assert_eq!(site.collect().lost, 12);
    assert_eq!(site.channels()[0].dropped, 12);
    let lost = site.event("lost");
    assert_eq!((lost.tick, lost.until, lost.value), (Some(100), Some(200), Some(12)));
    assert_eq!(lost.domain.as_deref(), Some("host.tsc"));
}

#[test]
fn wide_records_keep_what_rode_along() {
    let site = Site::new();
    let pool = Pool::make(&site.directory(), 7, 4);
    pool.open_channel(0, "send", 2);
    pool.fill_wide(0, 0, "send", &[(1, 10, -5, 2, 3), (2, 20, 6, 0, -1)]);
    site.collect();
    let stamps = site.stamps("send");
    assert_eq!(stamps.kind, [Some(2), Some(0)].into_iter().collect());
    assert_eq!(stamps.cpu, [Some(3), None].into_iter().collect());
    assert_eq!(stamps.value, [Some(-5), Some(6)].into_iter().collect());
}

#[test]
fn full_records_keep_where_they_came_from_and_their_neighbours_have_no_such_columns() {
    let site = Site::new();
    let pool = Pool::make(&site.directory(), 7, 4);
    pool.open_channel(0, "send", 3);
    pool.open_channel(1, "receive", 2);
    pool.fill_full(0, 0, "send", &[(1, 10, 0, 0, 64), (2, 20, 2, 3, 0), (0, 30, i64::MIN, -1, -9)]);
    pool.fill_wide(1, 1, "receive", &[(1, 11, 0, 0, 0)]);
    site.collect();
    let stamps = site.stamps("send");
    assert_eq!(stamps.id, [1, 2, 0]);
    assert_eq!(stamps.parent, [Some(0), None, Some(i64::MIN)].into_iter().collect());
    assert_eq!(stamps.attempt, [Some(0), Some(3), None].into_iter().collect());
    assert_eq!(stamps.batch, [Some(64), None, None].into_iter().collect());
    assert_eq!(stamps.ids, [None, None, Some(9)].into_iter().collect());
    assert_eq!(stamps.kind, [Some(0); 3].into_iter().collect());
    let others = site.stamps("receive");
    assert!(others.parent.is_all_null() && others.attempt.is_all_null() && others.batch.is_all_null());
    assert!(others.ids.is_all_null());
}

#[test]
fn a_channel_tells_the_parameter_of_its_policy_and_those_that_take_none_have_none() {
    let site = Site::new();
    let pool = Pool::make(&site.directory(), 7, 4).live();
    pool.open_channel(0, "send", 1);
    pool.open_channel(1, "receive", 1);
    pool.set_policy(0, 700, 3, u64::MAX - 4); // of a later version
    pool.set_policy(0, 700, 2, 100); // the place of another epoch
    pool.set_policy(0, 700, 3, u64::MAX - 4);
    pool.set_policy(1, 0, 1, 9);
    site.collect();
    let told: Vec<_> = site.channels().into_iter().map(|channel| (channel.policy, channel.parameter)).collect();
    assert_eq!(told, [("unknown".into(), Some(-5)), ("null".into(), None)]);
}

#[test]
fn a_pool_of_version_1_is_collected_while_its_program_lives_and_when_it_is_killed() {
    let site = Site::new();
    let mut pool = Pool::of_version_1(&site.directory()).live();
    assert_eq!((site.collect().stamps, site.stamps("work").id), (494, (1..=488).collect::<Vec<_>>()));
    assert!(pool.is_zeroed(0) && pool.is_zeroed(1) && pool.block_state(2) == BlockState::Leased as u32);
    pool.kill();
    let report = site.collect();
    assert_eq!((report.stamps, report.lost, report.left_alone, report.pools_ended), (0, 112, 0, 1));
    let ride = site.stamps("ride");
    assert_eq!((ride.id, ride.kind.iter().flatten().sum::<i32>()), (vec![1, 2, 3, 4, 5], 1 + 2 + 1 + 2));
    assert_eq!(ride.value, (1..=5).map(|id| Some(-id)).collect());
    assert!(ride.cpu.iter().all(|cpu| cpu.is_some()) && ride.parent.is_all_null());
    assert_eq!(site.stamps("wall").tick, [1_700_000_000_000_000_000]);
    let told: Vec<_> = site.channels().iter().map(|c| (c.point.clone(), c.stored, c.dropped, c.parameter)).collect();
    assert_eq!(
        told,
        [("work", 488, 112), ("ride", 5, 0), ("wall", 1, 0)].map(|(p, s, d)| (
            tickscope_tick::PointName::new(p).unwrap(),
            s,
            d,
            None
        ))
    );
    assert!(
        site.channels()[2].domain.ends_with("/realtime/0") && site.channels().iter().all(|c| c.policy == "buffered")
    );
    assert_eq!((site.event("lost").value, site.event("recovered").value), (Some(112), Some(0)));
    assert!(!pool.path.exists());
}

#[test]
fn a_pool_of_version_2_is_collected() {
    let site = Site::new();
    let pool = Pool::of_version_2(&site.directory());
    let report = site.collect();
    assert_eq!((report.stamps, report.lost, report.left_alone, report.pools_ended), (324, 2694, 0, 1));
    let work = site.stamps("work");
    assert_eq!(work.id, (0..324).collect::<Vec<_>>());
    assert_eq!(work.value, (0..324).map(|id| Some(id * 10)).collect());
    assert!(!pool.path.exists());
}

#[test]
fn a_program_killed_while_it_describes_a_successor_leaves_what_was_committed_before() {
    let thread = 88 << 32 | u64::from(tickscope_stamp::block::SUCCESSOR_MAGIC);
    // Behind 2 records and, where the description is whole, before 1 more.
    for (whole, ids) in [(0, vec![1, 2]), (thread, vec![1, 2, 3])] {
        let site = Site::new();
        let pool = Pool::make(&site.directory(), 7, 4);
        pool.open_channel(0, "send", 1);
        let slot = |id| Slot::Committed { id, tick: id };
        let empty = Slot::Reserved { id: 0 };
        let third = if whole == 0 { empty } else { slot(3) };
        pool.fill(0, (0, 0), "send", &[slot(1), slot(2), empty, empty, third]);
        pool.succeed(0, 12 + 2, whole);
        assert_eq!(site.collect().left_alone, 0);
        assert_eq!(site.stamps("send").id, ids);
        let threads: Vec<_> = site.channels().into_iter().map(|channel| (channel.thread, channel.stored)).collect();
        assert_eq!(threads, [(77, 2), (88, 1)][..ids.len() - 1]);
    }
}

#[test]
fn a_channel_that_closed_while_no_collector_lived_is_closed() {
    let site = Site::new();
    let pool = Pool::make(&site.directory(), 7, 4).live();
    pool.open_channel(0, "send", 1);
    pool.fill(0, (0, 0), "send", &full(1));
    site.collect();
    assert_eq!(site.channels()[0].state, ChannelState::Open);
    pool.set_entry(0, EntryState::Free);
    site.collect();
    assert_eq!(site.channels()[0].state, ChannelState::Closed);
}

#[test]
fn pools_of_one_name_in_two_directories_are_collected_once() {
    let site = Site::new();
    let own = std::os::unix::fs::MetadataExt::uid(&std::fs::metadata(site.directory()).unwrap());
    let user = site.directory().join(format!("uid-{own}"));
    std::fs::create_dir(&user).unwrap();
    let pools = [Pool::make(&site.directory(), 7, 4).live(), Pool::make(&user, 7, 4).live()];
    for pool in &pools {
        pool.open_channel(0, "send", 1);
        pool.fill(0, (0, 0), "send", &full(1));
    }
    let mut collector = Collector::start(site.settings()).unwrap();
    for _ in 0..2 {
        collector.once().unwrap();
    }
    assert_eq!((site.stamps("send").id.len(), collector.report().left_alone), (SLOTS as usize, 1));
    assert!(site.event("pool-left-alone").text.contains("a second of its name"));
}

#[test]
fn a_block_whose_successors_make_no_sense_is_left_alone() {
    for (unit, whole) in [(3, 1), (14, 77), (255, 1), (1 << 20, 1)] {
        let site = Site::new();
        let pool = Pool::make(&site.directory(), 7, 4);
        pool.open_channel(0, "send", 1);
        pool.fill(0, (0, 0), "send", &[Slot::Committed { id: 1, tick: 1 }]);
        pool.succeed(0, unit, whole);
        assert_eq!((site.collect().stamps, site.events().len()), (0, 2), "{unit} {whole}");
        assert!(site.event("block-left-alone").text.contains("successor"), "{unit} {whole}");
    }
}

#[test]
fn a_block_that_its_pools_version_does_not_have_is_left_alone() {
    let (shape, version) = (65, 4);
    for (at, bytes) in [(shape, [3, 1]), (version, [2, 0])] {
        let site = Site::new();
        let pool = Pool::of_version_1(&site.directory());
        pool.damage(crate::fabricated::BLOCK_OFFSET + 2 * 4096 + at, &bytes);
        assert_eq!((site.collect().stamps, site.event("block-left-alone").node.as_str()), (489, "host"));
        assert!(pool.path.exists());
    }
}

#[test]
fn a_second_collector_is_refused_by_name() {
    let site = Site::new();
    let first = Collector::start(site.settings()).unwrap();
    let error = Collector::start(site.settings()).err().unwrap();
    assert!(error.is_busy() && error.to_string().contains("collector.lock"), "{error}");
    let elsewhere = Site::new();
    let same_node = Settings { directory: elsewhere.directory(), ..site.settings() };
    assert!(Collector::start(same_node).err().unwrap().is_busy());
    drop(first);
    Collector::start(site.settings()).unwrap();
}

#[test]
fn what_is_no_pool_is_named_in_an_event_and_left_alone() {
    let site = Site::new();
    let foreign = site.directory().join("pool-0000000000000001.ticks");
    std::fs::write(&foreign, "not a pool").unwrap();
    let newer = Pool::make(&site.directory(), 2, 4);
    newer.damage(8, &5u32.to_le_bytes());
    let copy = Pool::make(&site.directory(), 3, 4);
    std::fs::copy(&copy.path, site.directory().join("pool-0000000000000004.ticks")).unwrap();
    let report = site.collect();
    assert_eq!((report.left_alone, report.pools_ended), (3, 1));
    assert!(foreign.exists() && newer.path.exists() && !copy.path.exists());
    let texts: Vec<_> = site.events().into_iter().filter(|e| e.what == "pool-left-alone").map(|e| e.text).collect();
    assert!(texts.iter().any(|text| text.contains("expected version 1 to 4, found 5")), "{texts:?}");
    assert!(texts.iter().any(|text| text.contains("it is a copy")), "{texts:?}");
    assert_eq!(site.collect().left_alone, 3);
    assert_eq!(site.events().iter().filter(|e| e.what == "pool-left-alone").count(), 3, "told once each");
}

#[test]
fn a_program_without_a_pool_becomes_an_event() {
    for (errno, reason) in [(libc::ENOSPC, "No space left"), (libc::EMFILE, "Raise ulimit -n")] {
        let site = Site::new();
        let file = site.directory().join(format!("refused-4242-{errno}"));
        std::fs::write(&file, "").unwrap();
        site.collect();
        let text = site.event("pool-refused").text;
        assert!(!file.exists() && text.contains("process 4242") && text.contains(reason), "{text}");
    }
}

#[test]
fn odd_entries_stop_nobody_and_are_told_once_each() {
    let site = Site::new();
    let pool = Pool::make(&site.directory(), 7, 4);
    pool.open_channel(0, "send", 1);
    pool.fill(0, (0, 0), "send", &full(1)[..5]);
    let at = |name: &str| site.directory().join(name);
    std::fs::create_dir(at("refused-1-2")).unwrap();
    std::fs::create_dir(at("pool-0000000000000001.ticks")).unwrap();
    let long = "x".repeat(240);
    std::fs::write(at(&format!("refused-{long}")), "").unwrap();
    std::fs::write(at(&format!("pool-{long}.ticks")), "").unwrap();
    std::fs::write(at("refused-1-2-\u{1b}[31m"), "").unwrap();
    std::fs::write(at(".hidden"), "").unwrap();
    std::fs::write(at("notes.txt"), "").unwrap();
    std::os::unix::fs::symlink("/etc/passwd", at("refused-7-7")).unwrap();
    std::os::unix::fs::symlink(&pool.path, at("pool-0000000000000009.ticks")).unwrap();
    let pipe = std::ffi::CString::new(at("pool-0000000000000008.ticks").to_str().unwrap()).unwrap();
    // SAFETY: a path that ends with a zero.
    assert_eq!(unsafe { libc::mkfifo(pipe.as_ptr(), 0o600) }, 0);
    let report = site.collect();
    assert_eq!((report.stamps, report.pools_ended, report.left_alone), (5, 1, 8));
    assert_eq!(site.collect().left_alone, 8);
    let told: Vec<_> = site.events().into_iter().filter(|event| event.what == "pool-left-alone").collect();
    assert!(told.len() == 8 && told.iter().all(|event| !event.text.contains(char::is_control)), "{told:?}");
    assert!(at("refused-7-7").exists() && at("refused-1-2").exists());
}

#[test]
fn a_pool_that_its_program_cuts_short_is_told_and_ends_nobody() {
    for (alive, length) in [(true, 0), (true, 20_000), (true, 72_000), (false, 72_000), (false, 0)] {
        let site = Site::new();
        let mut cut = Pool::make(&site.directory(), 7, 4).live();
        let other = Pool::make(&site.directory(), 8, 4);
        for pool in [&cut, &other] {
            pool.open_channel(0, "send", 1);
            pool.fill(0, (0, 0), "send", &full(1));
            pool.fill(1, (0, 1), "send", &full(1001));
        }
        let mut collector = Collector::start(site.slow_settings()).unwrap();
        collector.list(Instant::now()).unwrap();
        if !alive {
            cut.kill();
        }
        std::fs::OpenOptions::new().write(true).open(&cut.path).unwrap().set_len(length).unwrap();
        let report = collector.once().unwrap();
        assert!(report.stamps >= 2 * u64::from(SLOTS), "{report:?}");
        cut.kill();
        collector.once().unwrap();
        assert!(site.event("pool-left-alone").text.contains("cut short"), "{:?}", site.events());
        assert!(cut.path.exists() && !other.path.exists());
    }
}

#[test]
fn a_pool_of_holes_is_collected_without_being_filled() {
    use std::os::unix::fs::MetadataExt;
    let site = Site::new();
    let pool = Pool::sparse(&site.directory(), 7, 400_000);
    pool.open_channel(0, "send", 1);
    pool.fill(0, (0, 0), "send", &full(1));
    pool.fill(300_000, (0, 1), "send", &full(1001));
    let before = std::fs::metadata(&pool.path).unwrap().blocks();
    let held = Collector::start(site.settings()).unwrap().once().unwrap();
    assert_eq!((held.stamps, held.pools_ended), (2 * u64::from(SLOTS), 1));
    assert!(before < 4096, "{before}");
    let living = Pool::sparse(&site.directory(), 8, 400_000).live();
    living.open_channel(0, "send", 1);
    living.fill(399_999, (0, 0), "send", &full(1));
    let before = std::fs::metadata(&living.path).unwrap().blocks();
    assert_eq!(site.collect().stamps, u64::from(SLOTS));
    assert!(std::fs::metadata(&living.path).unwrap().blocks() <= before + 64);
}

#[test]
fn a_block_whose_state_was_rewritten_is_told_and_its_stamps_are_stored() {
    for (state, living) in [(BlockState::Zeroing, true), (BlockState::Zeroing, false), (BlockState::Free, false)] {
        let site = Site::new();
        let mut pool = Pool::make(&site.directory(), 7, 4).live();
        pool.open_channel(0, "send", 1);
        pool.fill(0, (0, 0), "send", &full(1));
        pool.set_block(0, state);
        if !living {
            pool.kill();
        }
        assert_eq!(site.collect().stamps, u64::from(SLOTS), "{state:?}");
        assert!(site.event("block-left-alone").text.contains("were recovered"));
        assert_eq!(site.collect().stamps, 0);
    }
}

#[test]
fn a_block_of_another_point_than_its_channel_is_told_at_once_and_kept() {
    let site = Site::new();
    let mut pool = Pool::make(&site.directory(), 7, 4).live();
    pool.open_channel(0, "send", 1);
    pool.open_channel(1, "receive", 1);
    pool.fill(0, (0, 0), "receive", &full(1));
    pool.fill(1, (1, 0), "receive", &full(1));
    assert_eq!(site.collect().stamps, u64::from(SLOTS));
    assert!(site.event("block-left-alone").text.contains("another point"));
    pool.kill();
    assert_eq!(site.collect().stamps, 0);
    assert!(pool.path.exists());
}

#[test]
fn parts_that_somebody_removed_are_told_once() {
    let site = Site::new();
    let pool = Pool::make(&site.directory(), 7, 8).live();
    pool.open_channel(0, "send", 1);
    for number in 0..3 {
        pool.fill(number, (0, number), "send", &full(1 + i64::from(number) * 1000));
        site.collect();
    }
    let folder = Paths::of(&site.run()).stamps(&"host.send".parse().unwrap());
    std::fs::remove_file(folder.join("part-00000001.parquet")).unwrap();
    site.collect();
    site.collect();
    let told = site.event("parts-missing");
    assert_eq!(told.value, Some(i64::from(SLOTS)));
    assert!(told.text.contains(&format!("{} are left", SLOTS * 2)), "{}", told.text);
    assert_eq!(site.channels()[0].stored, i64::from(SLOTS) * 2);
}

#[test]
fn memory_that_is_gone_before_it_was_emptied_is_told_once_and_no_other_is() {
    let site = Site::new();
    let gone = Pool::make(&site.directory(), 7, 8).live();
    let mut ended = Pool::make(&site.directory(), 8, 8).live();
    for pool in [&gone, &ended] {
        pool.open_channel(0, "send", 1);
        pool.fill(0, (0, 0), "send", &full(1));
    }
    site.collect();
    ended.kill();
    site.collect();
    assert!(!ended.path.exists() && gone.path.exists());
    Collector::start(site.settings()).unwrap().tell_lost_memory().unwrap();
    assert_eq!(site.events().into_iter().filter(|event| event.what == "memory-lost").count(), 0);
    std::fs::remove_file(&gone.path).unwrap();
    for _ in 0..2 {
        Collector::start(site.settings()).unwrap().tell_lost_memory().unwrap();
        let told = site.event("memory-lost");
        assert!(told.text.contains("(at send) is gone") && told.node == "host", "{told:?}");
        assert!(site.channels().iter().all(|channel| !channel.is_in_memory()), "{:?}", site.channels());
    }
}

#[test]
fn a_damaged_block_is_left_alone_and_the_others_are_stored() {
    let site = Site::new();
    let pool = Pool::make(&site.directory(), 7, 4);
    pool.open_channel(0, "send", 1);
    pool.fill(0, (0, 0), "send", &full(1));
    pool.fill(1, (0, 1), "send", &full(1000));
    pool.set_block(1, BlockState::Leased);
    let header = crate::fabricated::BLOCK_OFFSET + 4096;
    pool.damage(header + 4, &9u16.to_le_bytes());
    assert_eq!(site.collect().stamps, u64::from(SLOTS));
    assert!(pool.path.exists(), "somebody may still make sense of it");
    assert!(site.event("block-left-alone").text.contains("block 1 holds a header of no version"));
}

#[test]
fn blocks_wait_for_their_age_their_number_or_a_crowded_pool() {
    let site = Site::new();
    let pool = Pool::make(&site.directory(), 7, 100).live();
    pool.open_channel(0, "send", 1);
    let start = Instant::now();
    let settings = Settings { amount: 10 * u64::from(SLOTS), ..site.slow_settings() };
    let mut collector = Collector::start(settings).unwrap();
    let mut after = |number: u32, age: Duration| {
        pool.fill(number, (0, number), "send", &full(1 + i64::from(number) * 1000));
        collector.look(start + age).unwrap();
        collector.report().blocks
    };
    let second = Duration::from_secs(1);
    assert_eq!(after(0, second), 0);
    assert_eq!(after(1, second * 10), 0, "9 s old");
    assert_eq!(after(2, second * 11), 3, "10 s old");
    for number in 3..12 {
        assert_eq!(after(number, second * 12 + Duration::from_millis(500) * number), 3);
    }
    assert_eq!(after(12, second * 20), 13, "ten blocks' worth of stamps");
}

#[test]
fn a_pool_with_a_quarter_of_its_blocks_waiting_is_relieved() {
    let site = Site::new();
    let pool = Pool::make(&site.directory(), 7, 8).live();
    pool.open_channel(0, "send", 1);
    let mut collector = Collector::start(site.settings()).unwrap();
    let start = Instant::now();
    pool.fill(0, (0, 0), "send", &full(1));
    collector.look(start).unwrap();
    assert_eq!(collector.report().blocks, 0);
    pool.fill(1, (0, 1), "send", &full(1000));
    collector.look(start + Duration::from_secs(1)).unwrap();
    assert_eq!(collector.report().blocks, 2);
}

#[test]
fn a_failed_segment_loses_nothing() {
    let site = Site::new();
    let pool = Pool::make(&site.directory(), 7, 4).live();
    pool.open_channel(0, "send", 1);
    pool.fill(0, (0, 0), "send", &full(1));
    let mut collector = Collector::start(site.settings()).unwrap();
    let folder = Paths::of(&site.run()).stamps(&"host.send".parse().unwrap());
    std::fs::write(&folder, "in the way").unwrap();
    assert!(collector.once().is_err());
    std::fs::remove_file(&folder).unwrap();
    assert_eq!(collector.once().unwrap().stamps, u64::from(SLOTS));
}

#[test]
fn a_channel_keeps_its_number_over_restarts_and_no_other_gets_it() {
    let site = Site::new();
    let pool = Pool::make(&site.directory(), 7, 8).live();
    pool.open_channel(0, "send", 1);
    pool.fill(0, (0, 0), "send", &full(1));
    site.collect();
    pool.open_channel(1, "receive", 1);
    pool.fill(1, (1, 0), "receive", &full(1));
    pool.fill(2, (0, 1), "send", &full(1000));
    site.collect();
    assert!(site.stamps("send").channel.iter().all(|&channel| channel == 1));
    assert!(site.stamps("receive").channel.iter().all(|&channel| channel == 2));
    assert_eq!(site.channels().iter().map(|c| c.stored).collect::<Vec<_>>(), [SLOTS as i64 * 2, SLOTS as i64]);
    assert!(
        next_segment(&Paths::of(&site.run()).stamps(&"host.send".parse().unwrap()))
            .unwrap()
            .ends_with("part-00000002.parquet")
    );
}

/// What a program had done: for each channel full blocks, a partial one, and where it stopped within a stamp.
#[derive(Clone, Debug)]
struct History {
    full: u32,
    partial: Vec<bool>,
    lost: u64,
    released: bool,
}

fn history() -> impl Strategy<Value = History> {
    (0u32..3, prop::collection::vec(any::<bool>(), 0..8), 0u64..3, any::<bool>())
        .prop_map(|(full, partial, lost, released)| History { full, partial, lost, released })
}

#[test]
fn losses_are_told_once_whichever_step_a_kill_follows() {
    for steps in 0..20 {
        let site = Site::new();
        let pool = Pool::make(&site.directory(), 7, 4);
        let history = History { full: 2, partial: vec![true, false], lost: 3, released: false };
        enact(&pool, &[history]);
        let _ = Collector::start_with(site.settings(), Steps::ending_after(steps)).unwrap().once();
        site.collect();
        let lost = site.event("lost");
        assert_eq!((lost.tick, lost.until, lost.value), (Some(5), Some(6), Some(3)), "killed after {steps} steps");
        assert_eq!(site.event("recovered").value, Some(1));
    }
}

const POINTS: [&str; 2] = ["send", "receive"];

/// Fills a pool by the histories; returns the stamps committed at each point, in order, and the stamps lost.
fn enact(pool: &Pool, histories: &[History]) -> ([Vec<i64>; 2], u64) {
    let (mut committed, mut lost, mut index) = ([Vec::new(), Vec::new()], 0, 0);
    for (serial, history) in histories.iter().enumerate() {
        let (serial, point) = (serial as u32, serial % 2);
        pool.open_channel(serial, POINTS[point], 1);
        let first = i64::from(serial) * 100_000 + 1;
        for number in 0..history.full {
            let slots = full(first + i64::from(number) * 1000);
            pool.fill(index, (serial, number), POINTS[point], &slots);
            if number == 0 && history.lost > 0 {
                pool.lose_before(index, history.lost, 5, 6);
                lost += history.lost;
            }
            committed[point].extend(slots.iter().map(|slot| id(slot).unwrap()));
            index += 1;
        }
        let slots: Vec<_> = history.partial.iter().zip(first + 50_000..).map(|(&done, id)| partial(done, id)).collect();
        if !slots.is_empty() {
            pool.fill(index, (serial, history.full), POINTS[point], &slots);
            if history.released {
                pool.set_block(index, BlockState::Released);
            }
            committed[point].extend(slots.iter().filter_map(id));
            index += 1;
        }
    }
    (committed, lost)
}

fn partial(done: bool, id: i64) -> Slot {
    if done { Slot::Committed { id, tick: id } } else { Slot::Reserved { id } }
}

fn id(slot: &Slot) -> Option<i64> {
    match *slot {
        Slot::Committed { id, .. } => Some(id),
        Slot::Reserved { .. } => None,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    #[test]
    fn property_a_collector_killed_after_any_steps_stores_every_committed_stamp_once(
        histories in prop::collection::vec(history(), 1..4), kills in prop::collection::vec(0u32..30, 0..6),
    ) {
        let site = Site::new();
        let pool = Pool::make(&site.directory(), 7, 16);
        let (committed, lost) = enact(&pool, &histories);
        for steps in kills {
            let _ = Collector::start_with(site.settings(), Steps::ending_after(steps)).unwrap().once();
        }
        site.collect();
        for (point, committed) in POINTS.iter().zip(&committed) {
            let mut stored = site.stamps(point).id;
            stored.sort_unstable();
            prop_assert_eq!(&stored, committed);
        }
        let open = histories.iter().flat_map(|history| &history.partial).filter(|&&done| !done).count() as i64;
        let channels = site.channels();
        prop_assert_eq!(channels.iter().map(|channel| channel.stored).sum::<i64>() as usize, committed.concat().len());
        prop_assert_eq!(channels.iter().map(|channel| channel.uncommitted).sum::<i64>(), open);
        let told: i64 = site.events().iter().filter(|e| e.what == "lost").filter_map(|event| event.value).sum();
        prop_assert_eq!(told as u64, lost);
        prop_assert_eq!(site.event("recovered").value, Some(open));
        prop_assert!(!pool.path.exists());
    }

    #[test]
    fn property_a_living_programs_stamps_are_stored_once_however_often_the_collector_is_killed(
        rounds in prop::collection::vec((1u32..4, prop::option::of(0u32..10)), 1..6),
    ) {
        let site = Site::new();
        let mut pool = Pool::make(&site.directory(), 7, 8).live();
        pool.open_channel(0, "send", 1);
        let mut number = 0;
        for (blocks, kill) in rounds {
            for index in 0..8 {
                if pool.block_state(index) == BlockState::Free as u32 && pool.is_zeroed(index) && index < blocks {
                    pool.fill(index, (0, number), "send", &full(1 + i64::from(number * SLOTS)));
                    number += 1;
                }
            }
            let steps = kill.map_or_else(Steps::default, Steps::ending_after);
            let _ = Collector::start_with(site.settings(), steps).unwrap().once();
        }
        pool.kill();
        site.collect();
        let mut stored = site.stamps("send").id;
        stored.sort_unstable();
        prop_assert_eq!(stored, (1..=i64::from(number * SLOTS)).collect::<Vec<_>>());
    }

    #[test]
    fn property_a_pool_of_random_bytes_never_ends_the_collector(
        damage in prop::collection::vec((0u64..86_016, any::<[u8; 4]>()), 1..30),
    ) {
        let site = Site::new();
        let pool = Pool::make(&site.directory(), 7, 4);
        pool.open_channel(0, "send", 1);
        pool.fill(0, (0, 0), "send", &full(1));
        damage.iter().for_each(|(at, bytes)| pool.damage(*at, bytes));
        prop_assert!(Collector::start(site.settings()).unwrap().once().is_ok());
    }
}
