//! The pacer on simulated counters: what is due is sent, each at its own tick, whatever the machine takes meanwhile.

use proptest::prelude::*;
use tickscope_load::{DueTicks, EventRate, Fault, Lateness, LoadPlan, Pacer, Release};

const HERTZ: u64 = 1_000_000_000;
/// What a reading of the simulated counters takes, ticks.
const READ: i64 = 20;

fn plan(hertz: u64, until: i64) -> LoadPlan {
    LoadPlan { rate: EventRate::new(hertz, 1).unwrap(), hertz: HERTZ, start: 0, until, burst: 1 }
}

fn sent_by<C: FnMut() -> i64>(pacer: &mut Pacer<C>) -> Vec<Release> {
    std::iter::from_fn(|| pacer.wait()).collect()
}

#[test]
fn a_stall_of_100_ms_is_seen_whole_and_no_due_tick_is_skipped_or_shifted() {
    const STALL: std::ops::Range<i64> = 250_000_010..350_000_010;
    let plan = plan(10_000, 1_000_000_000);
    let mut now = 0;
    let counter = || {
        now += READ;
        now += if STALL.contains(&now) { STALL.end - now } else { 0 };
        now
    };
    let mut pacer = Pacer::new(DueTicks::constant(&plan).unwrap(), counter, 1_000);
    let sent = sent_by(&mut pacer);
    let due: Vec<i64> = sent.iter().map(|release| release.due).collect();
    assert_eq!(due, DueTicks::constant(&plan).unwrap().collect::<Vec<_>>());
    assert!((0..10_000).eq(sent.iter().map(|release| release.first)));
    // Those due within the stall leave back to back after it; each keeps all of its own delay.
    let (caught, in_time): (Vec<Release>, Vec<Release>) = sent.iter().partition(|release| STALL.contains(&release.due));
    assert_eq!(caught.len(), 1000);
    for (at, release) in caught.iter().enumerate() {
        assert_eq!(release.sent, STALL.end + at as i64 * READ);
    }
    assert!(in_time.iter().all(|release| (0..=READ).contains(&(release.sent - release.due))));
    let lateness = pacer.end();
    let worst = (STALL.end - 250_100_000) as u64;
    assert_eq!((lateness.worst_ticks(), lateness.late()), (worst, 1000));
    assert_eq!(lateness.quantile_ticks(1000), Some(worst));
    let faults = lateness.faults();
    assert_eq!(faults, [Fault::Late { late: 1000, sent: 10_000, late_ticks: 1_000, worst_ticks: worst }]);
    assert_eq!(
        faults[0].to_string(),
        "1000 of 10000 events were sent more than 1000 ticks late, the worst 99900010; one in 1000 may be. Lower the \
         rate, or give the generator a core of its own"
    );
}

#[test]
fn a_rate_that_cannot_be_held_is_told_and_everything_is_sent_all_the_same() {
    let mut now = 0;
    let counter = || {
        now += 300; // a reading and a send: 3.3 million a second
        now
    };
    let plan = plan(5_000_000, 10_000_000);
    let mut pacer = Pacer::new(DueTicks::constant(&plan).unwrap(), counter, 10_000);
    assert_eq!(sent_by(&mut pacer).len(), 50_000);
    let lateness = pacer.end();
    assert_eq!(lateness.worst_ticks(), 50_000 * 300 - 49_999 * 200);
    assert!(matches!(lateness.faults()[..], [Fault::Late { sent: 50_000, .. }]), "{:?}", lateness.faults());
}

#[test]
fn what_was_due_and_not_sent_at_the_end_is_counted() {
    let now = std::cell::Cell::new(0);
    let counter = || {
        now.set(now.get() + 1);
        now.get()
    };
    let due = DueTicks::constant(&LoadPlan { burst: 10, ..plan(1_000_000, i64::MAX) }).unwrap();
    let mut pacer = Pacer::new(due, &counter, 1_000);
    assert_eq!(pacer.poll(), Some(Release { first: 0, events: 10, due: 0, sent: 1 }));
    assert_eq!(pacer.poll(), None);
    now.set(30_000);
    assert_eq!(pacer.poll(), Some(Release { first: 10, events: 10, due: 10_000, sent: 30_001 }));
    let lateness = pacer.end();
    assert_eq!((lateness.sent(), lateness.unsent()), (20, 20), "those of ticks 20000 and 30000");
    let said: Vec<String> = lateness.faults().iter().map(ToString::to_string).collect();
    assert_eq!(said.len(), 2, "{said:?}");
    assert!(said[0].starts_with("10 of 20 events were sent more than 1000 ticks late"), "{said:?}");
    assert!(said[1].starts_with("20 of 40 events were due and not sent"), "{said:?}");
}

#[test]
fn one_event_in_a_thousand_may_be_late_and_one_more_may_not() {
    let with = |late: u32| {
        let mut lateness = Lateness::new(100);
        lateness.record(0, 100, 2000 - late);
        lateness.record(0, 101, late);
        lateness.faults()
    };
    assert_eq!(with(2), []);
    assert_eq!(with(3), [Fault::Late { late: 3, sent: 2000, late_ticks: 100, worst_ticks: 101 }]);
    let after = |change: fn(&mut Lateness)| {
        let mut lateness = Lateness::new(100);
        lateness.record(0, 0, 999);
        change(&mut lateness);
        lateness.faults()
    };
    assert_eq!((after(|lateness| lateness.miss(1)), after(|lateness| lateness.lose(1))), (vec![], vec![]));
    assert_eq!(after(|lateness| lateness.miss(2)), [Fault::Unsent { unsent: 2, due: 1001 }]);
    assert_eq!(after(|lateness| lateness.lose(2)), [Fault::LostCredit { lost: 2, due: 1001 }]);
    assert_eq!(after(|lateness| lateness.record(7, 6, 1)), [Fault::Early { early: 1 }]);
    assert_eq!(Lateness::new(0).faults(), [Fault::NothingSent]);
    assert_eq!(Lateness::new(0).quantile_ticks(500), None);
}

proptest! {
    #[test]
    fn property_any_counter_gets_every_due_tick_in_order_and_none_early(
        jumps in prop::collection::vec(1_i64..5_000_000, 1..50), hertz in 1_u64..1_000_000, seed: u64,
    ) {
        let plan = plan(hertz, 20_000_000);
        for due in [DueTicks::constant(&plan).unwrap(), DueTicks::poisson(&plan, seed).unwrap()] {
            let (mut now, mut turn) = (0, 0);
            let counter = || {
                turn += 1;
                now += if turn % 97 == 0 { jumps[turn / 97 % jumps.len()] } else { 20_011 };
                now
            };
            let mut pacer = Pacer::new(due.clone(), counter, 0);
            let sent = sent_by(&mut pacer);
            prop_assert!(due.eq(sent.iter().map(|release| release.due)));
            prop_assert!(sent.iter().all(|release| release.sent >= release.due));
            prop_assert!(sent.windows(2).all(|pair| pair[0].sent < pair[1].sent));
            prop_assert_eq!(pacer.end().unsent(), 0);
        }
    }

    #[test]
    fn property_a_quantile_is_the_samples_rounded_up_by_a_sixteenth_at_most(
        late in prop::collection::vec((0_u64..=u64::MAX, 0_u32..64), 1..200), of_1000 in 0_u32..=1000,
    ) {
        let mut late: Vec<u64> = late.into_iter().map(|(ticks, shift)| ticks >> shift >> 1).collect();
        let mut lateness = Lateness::new(u64::MAX);
        late.iter().for_each(|ticks| lateness.record(0, *ticks as i64, 1));
        late.sort_unstable();
        let rank = (late.len() * of_1000 as usize).div_ceil(1000).max(1);
        let (exact, found) = (late[rank - 1], lateness.quantile_ticks(of_1000).unwrap());
        prop_assert!(exact <= found && found - exact <= exact / 16, "{exact}: {found}");
    }
}

#[test]
fn a_real_counter_is_spun_on() {
    let plan = LoadPlan { start: tickscope_counter::before(), ..plan(1_000_000, i64::MAX) };
    let mut pacer = Pacer::new(DueTicks::constant(&plan).unwrap(), tickscope_counter::before, u64::MAX);
    let due: Vec<i64> = (0..100).map(|_| pacer.wait().unwrap()).map(|release| release.due).collect();
    assert!(due.iter().copied().eq((0..100).map(|number| plan.start + number * 1000)));
    assert!(pacer.end().sent() == 100);
}

#[test]
fn what_is_late_because_the_target_took_nothing_is_no_fault_of_the_generator() {
    // A send takes 20 ticks of the counter; at tick 100 000 the target takes nothing for a million.
    const HELD: i64 = 1_000_000;
    let now = std::cell::Cell::new(0);
    let counter = || {
        now.set(now.get() + READ);
        now.get()
    };
    let mut pacer = Pacer::new(DueTicks::constant(&plan(1_000_000, 10_000_000)).unwrap(), &counter, 10_000);
    let mut sent = 0_u64;
    while let Some(release) = pacer.wait() {
        sent += 1;
        if release.first == 100 {
            now.set(now.get() + HELD);
            pacer.held_up(HELD);
        }
    }
    let lateness = pacer.end();
    assert_eq!((sent, lateness.sent(), lateness.late()), (10_000, 10_000, 0));
    // 1000 were due meanwhile; they leave 50 at a time while 1 more is due, until the last is less than the limit late.
    assert!((1_000..1_030).contains(&lateness.held_up()), "{}", lateness.held_up());
    assert!(lateness.worst_ticks() >= 999_000 && lateness.faults().is_empty());
}

#[test]
fn a_generator_that_is_slow_itself_is_late_although_its_target_held_it_up_once() {
    let now = std::cell::Cell::new(0);
    let counter = || {
        now.set(now.get() + 1_500); // of 1000 between two due ticks
        now.get()
    };
    let mut pacer = Pacer::new(DueTicks::constant(&plan(1_000_000, 10_000_000)).unwrap(), &counter, 10_000);
    pacer.held_up(100_000);
    now.set(100_000);
    while pacer.wait().is_some() {}
    let lateness = pacer.end();
    // Behind by 100 000 and then by 500 a send: after 20 sends more than the limit is its own.
    assert!((15..=25).contains(&lateness.held_up()), "{}", lateness.held_up());
    assert_eq!(lateness.held_up() + lateness.late(), lateness.sent());
    assert!(matches!(lateness.faults()[..], [Fault::Late { .. }]), "{:?}", lateness.faults());
}

#[test]
fn what_a_target_that_takes_nothing_leaves_unsent_is_held_up() {
    let now = std::cell::Cell::new(0);
    let counter = || now.get();
    let due = || DueTicks::constant(&plan(1_000_000, 10_000_000)).unwrap();
    let mut pacer = Pacer::new(due(), &counter, 10_000);
    assert!(pacer.wait().is_some());
    now.set(10_000_000);
    pacer.held_up(10_000_000);
    let lateness = pacer.end();
    assert_eq!((lateness.held_up(), lateness.unsent()), (9_999, 0));
    let mut pacer = Pacer::new(due(), &counter, 10_000);
    pacer.poll();
    let lateness = pacer.end();
    assert_eq!((lateness.held_up(), lateness.unsent()), (0, 9_999));
}

#[test]
fn senders_of_one_load_are_judged_together() {
    let mut one = Lateness::new(10);
    one.record(0, 5, 3);
    let mut other = Lateness::new(10);
    other.record(0, 500, 2);
    other.record_held(0, 600, 600, 1);
    one.merge(&other);
    assert_eq!((one.sent(), one.late(), one.held_up(), one.worst_ticks()), (6, 2, 1, 600));
    assert_eq!(one.quantile_ticks(500), Some(5));
}
