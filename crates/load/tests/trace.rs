//! Traces of users, and ids in the bytes of tuples.

use tickscope_load::{SplitMix, TracePlan, TraceRow, Tuples, Zipf, user_trace, write_id};

const ROWS: usize = 1_000_000;

fn study(seed: u64) -> TracePlan {
    TracePlan { users: 1000, control: 1, data: 10, rows: ROWS, seed }
}

#[test]
fn users_come_in_proportion_to_one_over_their_rank_and_updates_by_the_coin() {
    /// What chi-square of 1000 classes exceeds in one case of a thousand (scipy, `chi2.ppf(0.999, 999)`).
    const CRITICAL: f64 = 1142.85;
    let harmonic: f64 = (1..=1000).map(|rank| 1.0 / f64::from(rank)).sum();
    for seed in [1, 2] {
        let rows = user_trace(&study(seed)).unwrap();
        let mut counts = vec![0.0; 1000];
        rows.iter().for_each(|row| counts[row.user() as usize] += 1.0);
        let off = |(at, count): (usize, &f64)| {
            let expected = ROWS as f64 / harmonic / (at + 1) as f64;
            (count - expected).powi(2) / expected
        };
        let chi_square: f64 = counts.iter().enumerate().map(off).sum();
        assert!(chi_square < CRITICAL, "seed {seed}: {chi_square}");
        let control = rows.iter().filter(|row| row.is_control()).count() as f64;
        let share = 1.0 / 11.0;
        let deviation = (ROWS as f64 * share * (1.0 - share)).sqrt();
        assert!((control - ROWS as f64 * share).abs() < 3.3 * deviation, "seed {seed}: {control}");
    }
}

#[test]
fn a_trace_is_its_seeds_and_one_user_without_updates_is_the_baseline() {
    let few = |seed| user_trace(&TracePlan { rows: 100, ..study(seed) }).unwrap();
    assert_eq!(few(7), few(7));
    assert_ne!(few(7), few(8));
    let baseline = user_trace(&TracePlan { users: 1, control: 0, rows: 50, ..study(1) }).unwrap();
    assert!(baseline.iter().all(|row| row.bits() == 0));
    let all_updates = user_trace(&TracePlan { data: 0, rows: 50, ..study(1) }).unwrap();
    assert!(all_updates.iter().all(|row: &TraceRow| row.is_control() && row.bits() == 1 << 31 | row.user()));
}

#[test]
fn a_trace_that_cannot_be_is_refused() {
    let why = |plan| user_trace(&plan).unwrap_err().to_string();
    assert!(why(TracePlan { users: 0, ..study(1) }).contains("1 to 16777216 users, found 0. "));
    assert!(why(TracePlan { users: 1 << 25, ..study(1) }).contains("found 33554432. "));
    assert!(why(TracePlan { control: 0, data: 0, ..study(1) }).contains("found 0 to 0. "));
    let mut random = SplitMix::new(3);
    let last = (0..200_000).map(|_| Zipf::new(2).unwrap().draw(&mut random)).max();
    assert_eq!(last, Some(1));
}

#[test]
fn every_tuple_carries_its_own_id_and_nothing_else_changes() {
    let tuples = Tuples::new(b"head........tail", 4, -3, 5).unwrap();
    for number in 0..5 {
        let mut expected = *b"head........tail";
        expected[4..12].copy_from_slice(&(number as i64 - 3).to_le_bytes());
        assert_eq!(tuples.get(number), Some(&expected[..]));
    }
    assert_eq!((tuples.get(5), tuples.get(usize::MAX)), (None, None));
    let short = Tuples::new(b"short", 0, 0, 3).unwrap_err().to_string();
    assert_eq!(
        short,
        "expected 8 bytes for an id from byte 0 on, found a tuple of 5. Serialise a field of 64 bits there"
    );
    assert!(write_id(&mut [0; 16], 9, 1).is_err() && write_id(&mut [0; 16], usize::MAX, 1).is_err());
    assert!(write_id(&mut [0; 16], 8, 1).is_ok());
}
