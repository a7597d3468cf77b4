//! Residual loss and deadline of a sender that adapts, in windows of a stream, over demands and paths of the
//! literature.

mod network;

use network::{MS, Network, Way};
use tickscope_prrt::{Coding, Constraints, LossModel, ReceiverPlan, SenderPlan};

/// A demand, a path, and the windows of a stream that are looked at, with their payloads.
#[derive(Debug)]
struct Row {
    residual_loss: f64,
    deadline_us: i64,
    loss: f64,
    interval_us: i64,
    rtt_us: i64,
    rate_bps: f64,
    windows: i64,
    window: i64,
}

const fn row(numbers: (f64, i64, f64, i64, i64, f64), windows: i64, window: i64) -> Row {
    let (residual_loss, deadline_us, loss, interval_us, rtt_us, rate_bps) = numbers;
    Row { residual_loss, deadline_us, loss, interval_us, rtt_us, rate_bps, windows, window }
}

const ROWS: [Row; 6] = [
    row((1e-4, 100_000, 0.07, 30_000, 8_000, 3e9), 100, 1_000),
    row((1e-6, 20_000, 0.01, 200, 1_000, 100e6), 100, 2_000),
    row((1e-5, 100_000, 0.03, 1_000, 10_000, 50e6), 100, 2_000),
    row((1e-3, 200_000, 0.1, 5_000, 40_000, 5e6), 50, 10_000),
    row((1e-6, 200_000, 0.05, 500, 20_000, 200e6), 100, 2_000),
    row((1e-4, 50_000, 1.0 / 7.0, 1_000, 10_000, 1e9), 100, 1_000),
];

/// Payloads that were not there by their deadline, by window. The first adaptation comes before the first window.
fn missing(row: &Row, is_feedback_lost: bool) -> Vec<u32> {
    let us = |us: i64| us * MS / 1000;
    let plan = SenderPlan {
        session: 7,
        coding: Coding::new(4, &[4]).unwrap(),
        deadline_ns: us(row.deadline_us),
        flush_ns: us(row.deadline_us / 2),
        pace_ns: 0,
    };
    let reordered_ns = us(row.rtt_us / 10);
    let receiver = ReceiverPlan { feedback_ns: us(row.rtt_us / 2), reordered_ns, vanished_ns: 60_000 * MS };
    let way = Way::clean(us(row.rtt_us / 2));
    let lossy = Way { loss: LossModel::independent(row.loss).unwrap(), ..way.clone() };
    let mut network = Network::new(plan, receiver, (lossy.clone(), if is_feedback_lost { lossy } else { way }), 40);
    let (residual_loss, rate_bps) = (row.residual_loss, row.rate_bps);
    let constraints = Constraints { residual_loss, rate_bps, detection_ns: reordered_ns as f64 };
    let warm_up = 4000;
    let (mut ids, mut begun) = (Vec::new(), 0);
    for at in 0..warm_up + row.windows * row.window {
        network.run_until(us(at * row.interval_us));
        ids.push(network.submit());
        if at % 1000 == 999 {
            let choice = network.sender.adapt(&constraints).expect("feedback came").expect("the demand is feasible");
            assert!(choice.residual_loss <= row.residual_loss, "{choice:?}");
        }
        begun = network.now;
    }
    network.run_until(begun + 3 * us(row.deadline_us));
    let in_time = |id: &u64| {
        let (submitted_ns, _) = network.submitted[id];
        network.trips.get(id).is_some_and(|trip| trip.delivered_ns <= submitted_ns + us(row.deadline_us))
    };
    let windows = ids[warm_up as usize..].chunks(row.window as usize);
    windows.map(|ids| ids.iter().filter(|id| !in_time(id)).count() as u32).collect()
}

#[test]
fn the_share_and_the_deadline_are_kept_in_the_windows_of_a_stream() {
    for (row, is_feedback_lost) in ROWS.iter().flat_map(|row| [(row, false), (row, true)]) {
        let windows = missing(row, is_feedback_lost);
        let all = f64::from(windows.iter().sum::<u32>());
        let most = (row.residual_loss * row.window as f64).max(1.0);
        let kept = windows.iter().filter(|missing| f64::from(**missing) <= most).count() as f64;
        let told = format!("{row:?}, feedback lost too: {is_feedback_lost}: {all} missing, kept in {kept} windows");
        println!("{told}");
        // One lost block of a stream in which none is to be expected is three payloads or fewer.
        let expected = row.residual_loss * (row.windows * row.window) as f64;
        assert!(all <= expected.max(5.0) && kept >= 0.9 * row.windows as f64, "{told}");
        assert!(is_feedback_lost || kept >= 0.99 * row.windows as f64, "{told}");
    }
}

/// Share that is asked of a channel that loses less than all while it is bad.
const SHARE: f64 = 1e-3;
/// Share that one stream may be missing, as docs/prrt.md says: 1.1 thousandths.
const MOST: f64 = 1.15e-3;
/// Streams over each such channel.
const SEEDS: u64 = 2;

/// The share of payloads that were missing since the second choice; feedback told of no more than are.
fn missing_of(loss: LossModel, payloads: i64, seed: u64) -> f64 {
    let plan = SenderPlan {
        session: 7,
        coding: Coding::new(4, &[4]).unwrap(),
        deadline_ns: 200 * MS,
        flush_ns: 100 * MS,
        pace_ns: 0,
    };
    let receiver = ReceiverPlan { feedback_ns: 5 * MS, reordered_ns: MS, vanished_ns: 60_000 * MS };
    let forth = Way { loss, ..Way::clean(MS / 10) };
    let mut network = Network::new(plan, receiver, (forth, Way::clean(MS / 10)), seed);
    let constraints = Constraints { residual_loss: SHARE, rate_bps: f64::INFINITY, detection_ns: 2.0 * MS as f64 };
    let mut ids = Vec::new();
    for at in 0..payloads {
        network.run_until(at * MS);
        ids.push(network.submit());
        if at % 1000 == 999 {
            network.sender.adapt(&constraints).expect("feedback came").expect("it is feasible");
        }
    }
    network.run_until((payloads + 600) * MS);
    let in_time = |id: &&u64| {
        let (submitted_ns, _) = network.submitted[id];
        network.trips.get(id).is_some_and(|trip| trip.delivered_ns <= submitted_ns + 200 * MS)
    };
    let missing = |ids: &[u64]| ids.len() - ids.iter().filter(in_time).count();
    let counts = network.sender.counts();
    let missed = ids.iter().filter(|id| !network.trips.contains_key(*id)).count() as u64;
    assert!(counts.missing <= missed && counts.settled <= payloads as u64, "{counts:?}, {missed}");
    missing(&ids[2000..]) as f64 / (payloads - 2000) as f64
}

#[test]
fn bad_times_that_lose_less_than_all_are_planned_for() {
    for [good_to_bad, bad_to_good, lost_in_bad] in
        [[0.005, 0.05, 0.3], [0.002, 0.02, 0.3], [0.005, 0.05, 0.5], [0.01, 0.2, 0.4]]
    {
        let loss = LossModel { good_to_bad, bad_to_good, lost_in_good: 0.0, lost_in_bad };
        let shares: Vec<f64> = (40..40 + SEEDS).map(|seed| missing_of(loss, 60_000, seed)).collect();
        println!("{loss:?}: {shares:?}");
        assert!(shares.iter().sum::<f64>() <= SHARE * SEEDS as f64, "kept in the mean, {loss:?}: {shares:?}");
        assert!(shares.iter().all(|share| *share < MOST), "{loss:?}: {shares:?}");
    }
}
