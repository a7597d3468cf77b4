//! Blocks of several tenants that are stored while they are open.

use super::*;

/// Ids of each thread's channel, and how many the channel counts.
fn by_thread(site: &Site) -> Vec<(i32, Vec<i64>, i64)> {
    let stamps = site.stamps("send");
    let of = |channel: Channel| {
        let rows = stamps.id.iter().zip(&stamps.channel).filter(|&(_, &number)| number == channel.channel);
        let mut ids: Vec<i64> = rows.map(|(&id, _)| id).collect();
        ids.sort_unstable();
        (channel.thread, ids, channel.stored)
    };
    site.channels().into_iter().map(of).collect()
}

/// A block of thread 77, which thread 88 goes on in: what lies in it after each of four times.
fn succeed_by_and_by(pool: &Pool, time: u32) {
    let (slot, empty) = (|id| Slot::Committed { id, tick: id }, Slot::Reserved { id: 0 });
    let slots = match time {
        0 => vec![slot(1)],
        1 => vec![slot(1), slot(2), empty, empty, slot(3), empty, slot(4)],
        2 => vec![slot(1), slot(2), empty, empty, slot(3), slot(5), slot(4), slot(6)],
        _ => vec![slot(1), slot(2), empty, empty, slot(3), slot(5), slot(4), slot(6), slot(7)],
    };
    pool.fill(0, (0, 0), "send", &slots);
    if time > 0 {
        pool.succeed(0, 12 + 2, 88 << 32 | u64::from(tickscope_stamp::block::SUCCESSOR_MAGIC));
    }
}

#[test]
fn an_open_block_of_two_tenants_is_stored_once_under_their_channels_whichever_step_a_kill_follows() {
    for (steps, grows) in (0..16).flat_map(|steps| [(steps, false), (steps, true)]) {
        for killed in 0..4 {
            let site = Site::new();
            let mut pool = Pool::make(&site.directory(), 7, 100).live();
            pool.open_channel(0, "send", 1);
            let start = |time| {
                let steps = if time == killed { Steps::ending_after(steps) } else { Steps::default() };
                Collector::start_with(site.settings(), steps).unwrap()
            };
            let (mut collector, began) = (start(0), Instant::now());
            for time in 0..4u32 {
                succeed_by_and_by(&pool, time);
                if time == 3 {
                    pool.set_block(0, BlockState::Released);
                }
                let now = began + Duration::from_millis(1100) * time;
                let done = if grows { collector.look(now).map(drop) } else { collector.once().map(drop) };
                if time == killed || time + 1 == killed || done.is_err() {
                    drop(collector);
                    collector = start(time + 1);
                }
                // The collector took it: its program cannot go on in it.
                if time == 2 && pool.block_state(0) != BlockState::Leased as u32 {
                    panic!("taken from its program");
                }
            }
            drop(collector);
            pool.kill();
            let report = site.collect();
            let threads = [(77, vec![1, 2], 2), (88, vec![3, 4, 5, 6, 7], 5)];
            assert_eq!(by_thread(&site), threads, "killed at time {killed} after {steps} steps, {grows}: {report:?}");
            assert!(!pool.path.exists());
        }
    }
}

#[test]
fn a_successor_that_is_described_while_its_block_is_read_is_no_record() {
    let site = Site::new();
    let pool = Pool::make(&site.directory(), 7, 100).live();
    pool.open_channel(0, "send", 1);
    succeed_by_and_by(&pool, 0);
    let mut collector = Collector::start(site.settings()).unwrap();
    collector.list(Instant::now()).unwrap();
    let open = collector.open_blocks().unwrap();
    succeed_by_and_by(&pool, 1);
    let point = "send".parse().unwrap();
    collector.grow(&point, &open[&point]).unwrap();
    assert_eq!(site.stamps("send").id, [1, 2]);
    let open = collector.open_blocks().unwrap();
    succeed_by_and_by(&pool, 2);
    collector.grow(&point, &open[&point]).unwrap();
    collector.ledger.write().unwrap();
    assert_eq!(by_thread(&site), [(77, vec![1, 2], 2), (88, vec![3, 4, 5, 6], 4)]);
}

#[test]
fn a_block_that_its_program_resumed_after_it_was_found_ready_is_not_taken() {
    let site = Site::new();
    let pool = Pool::make(&site.directory(), 7, 4).live();
    pool.open_channel(0, "send", 1);
    pool.fill(0, (0, 0), "send", &[Slot::Committed { id: 1, tick: 1 }]);
    let watched = WatchedPool::open(&pool.path, &Trust::of(&site.directory()).unwrap()).ok().unwrap();
    for (state, taken) in [(BlockState::Leased, false), (BlockState::Released, true), (BlockState::Taken, true)] {
        pool.set_block(0, state);
        assert_eq!(watched.is_taken(&watched.pool().block(0)), taken, "{state:?}");
    }
}
