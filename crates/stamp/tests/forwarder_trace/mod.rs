//! The forwarder's trace by another program: which users it has, what primes them, and how long one has to be.

use std::collections::{BTreeMap, BTreeSet};

use super::{Trial, primed};

/// The trace by another program: splitmix64, coin flips, ranks by their sums of 1/rank, users a golden section apart;
/// among its first rows what the first third of it lacks. Each row is a user, and whether it moves.
fn trace(packets: i64, users: i64, cdr: f64, mut state: u64) -> Vec<(i64, bool)> {
    let mut below = |limit: u64| {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((u128::from(z ^ (z >> 31)) * u128::from(limit)) >> 64) as u64
    };
    let parts: Vec<u64> = (1..=users as u64).map(|rank| (1 << 52) / rank).collect();
    let all: u64 = parts.iter().sum();
    let shares_a_factor = |stride: i64| (2..=users).any(|part| stride % part == 0 && users % part == 0);
    let stride = (1.max(users * 618 / 1000)..).find(|stride| !shares_a_factor(*stride)).unwrap();
    let control = (cdr * 1e6).round() as u64;
    let user_of: BTreeMap<i64, i64> = (0..users).map(|user| (user * stride % users, user)).collect();
    let mut rows = Vec::new();
    for _ in 0..packets {
        let is_move = below(control + 1_000_000) < control;
        let (mut rank, mut rest) = (0, below(all));
        while rest >= parts[rank] {
            rest -= parts[rank];
            rank += 1;
        }
        rows.push((user_of[&(rank as i64)], is_move));
    }
    let known: BTreeSet<&(i64, bool)> = rows[..rows.len() / 3].iter().collect();
    let every = |is_move| (0..users).map(move |user| (user, is_move));
    let lacking = every(true).filter(|_| cdr > 0.0).chain(every(false)).filter(|row| !known.contains(row));
    let lacking: Vec<(i64, bool)> = lacking.collect();
    let between = (rows.len() / 3).checked_div(lacking.len()).map_or(0, |between| between.min(9));
    let (early, late) = rows.split_at(between * lacking.len());
    let early = early.chunks(between.max(1)).chain(std::iter::repeat(&[][..]));
    let early = lacking.iter().zip(early).flat_map(|(row, rows)| std::iter::once(row).chain(rows));
    early.chain(late).copied().collect()
}

/// Mean over users of how many moves ago each moved, from where all have, beside the same of moves at random.
fn age_by_closed_form(rows: &[(i64, bool)], users: i64) -> f64 {
    let moves: Vec<i64> = rows.iter().filter(|(_, is_move)| *is_move).map(|(user, _)| *user).collect();
    let mut last = BTreeMap::new();
    let (mut begin, mut sum, mut count) = (None, 0, 0);
    for (at, user) in (0_i64..).zip(moves) {
        last.insert(user, at);
        begin = begin.or((last.len() as i64 == users).then_some(at));
        if begin.is_some() {
            sum += last.values().map(|last| at - last).sum::<i64>();
            count += users;
        }
    }
    let of_all: f64 = (1..=users).map(|rank| 1.0 / rank as f64).sum();
    (sum as f64 / count as f64) / (of_all * (users + 1) as f64 / 2.0)
}

#[test]
fn c_ten_mean_ages_of_moves_tell_their_mean_though_some_users_hardly_move() {
    let near = |moves: i64| {
        let seeds = (1..=5).map(|seed| age_by_closed_form(&trace(2 * moves, 200, 1.0, seed), 200));
        seeds.sum::<f64>() / 5.0
    };
    let of_all: f64 = (1..=200).map(|rank| 1.0 / f64::from(rank)).sum();
    let mean_age = of_all * 100.5;
    assert!((near((10.0 * mean_age) as i64) - 1.0).abs() < 0.05, "{}", near((10.0 * mean_age) as i64));
    assert!(near((2.0 * mean_age) as i64) < 0.9, "a trial of two mean ages is too short");
}

#[test]
fn c_a_seed_gives_its_trace_on_every_machine() {
    for (users, cdr, seed) in [(100, "0.1", "7"), (60, "1", "0"), (1, "0.01", "2147483647")] {
        let options = ["--layout", "single", "--packets", "3000", "--cdr", cdr, "--seed", seed];
        let trial = Trial::of(users, &options);
        let rows = trace(3000, users, cdr.parse().unwrap(), seed.parse().unwrap());
        assert_eq!(primed(&trial.line), rows.len() as i64 - 3000, "{}", trial.line);
        let of = |wanted| {
            let rows = (0..).zip(&rows).filter(|(_, (_, is_move))| *is_move == wanted);
            rows.map(|(row, (user, _))| row * users + user).collect::<Vec<i64>>()
        };
        let ids = |point: &str| {
            assert!(trial.at(point).iter().all(|stamp| stamp.value == stamp.id % users));
            let mut ids: Vec<i64> = trial.at(point).iter().map(|stamp| stamp.id).collect();
            ids.sort_unstable();
            ids
        };
        assert_eq!((ids("generated"), ids("moved")), (of(false), of(true)));
    }
}
