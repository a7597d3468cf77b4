//! Due ticks against exact fractions, and Poisson gaps against the distribution that they are drawn from.

use num_bigint::BigInt;
use proptest::prelude::*;
use tickscope_load::{DueTicks, EventRate, LoadPlan, MOST_HELD, SplitMix};

const HERTZ: u64 = 2_500_000_123;

fn plan(rate: EventRate) -> LoadPlan {
    LoadPlan { rate, hertz: HERTZ, start: -77, until: i64::MAX, burst: 1 }
}

/// Where the k-th release of a constant interval is due.
fn exactly(plan: &LoadPlan, number: u64) -> BigInt {
    let ticks = BigInt::from(plan.hertz) * plan.rate.seconds() * plan.burst * number;
    BigInt::from(plan.start) + ticks / plan.rate.events()
}

#[test]
fn a_constant_interval_has_not_drifted_by_a_tick_after_ten_thousand_million_events() {
    for rate in [EventRate::new(3, 1), EventRate::new(4_680_001, 1), EventRate::per_second(1234.567891)] {
        let plan = plan(rate.unwrap());
        let mut due = DueTicks::constant(&plan).unwrap();
        for number in 0..20_000 {
            assert_eq!(due.next().map(BigInt::from), Some(exactly(&plan, number)), "{plan:?} {number}");
        }
        // Then in strides, with some steps after each.
        let mut number = 20_000;
        for stride in [1_u64, 999_999_937, 9_000_000_000, 7] {
            number += stride;
            assert_eq!(due.nth(stride as usize).map(BigInt::from), Some(exactly(&plan, number)));
            for _ in 0..1000 {
                number += 1;
                assert_eq!(due.next().map(BigInt::from), Some(exactly(&plan, number)), "{plan:?} {number}");
            }
            number += 1;
        }
        assert!(number > 10_000_000_000);
    }
}

proptest! {
    #[test]
    fn property_any_constant_schedule_is_its_fraction_until_its_end(
        events in 1_u64..1 << 40, seconds in 1_u64..1_000_000, hertz in 1_u64..1 << 34, start in -1_i64 << 60..1 << 60,
        lasts in 0_i64..1 << 61, burst in 1_u32..100, skipped in 0_usize..1 << 40,
    ) {
        prop_assume!(events <= (seconds << 32));
        let rate = EventRate::new(events, seconds).unwrap();
        let plan = LoadPlan { rate, hertz, start, until: start + lasts, burst };
        let until = BigInt::from(plan.until);
        let exact = |number| Some(exactly(&plan, number)).filter(|due| *due < until);
        let mut due = DueTicks::constant(&plan).unwrap();
        for number in 0..50 {
            prop_assert_eq!(due.peek(), due.clone().next());
            prop_assert_eq!(due.next().map(BigInt::from), exact(number));
        }
        for number in [50 + skipped as u64, 51 + skipped as u64] {
            let skip = if number == 50 + skipped as u64 { skipped } else { 0 };
            prop_assert_eq!(due.nth(skip).map(BigInt::from), exact(number));
        }
    }
}

#[test]
fn nothing_is_due_from_the_end_on() {
    let rate = EventRate::new(1, 1).unwrap();
    let plan = |until| LoadPlan { rate, hertz: 10, start: 5, until, burst: 1 };
    let due = |until| DueTicks::constant(&plan(until)).unwrap().collect::<Vec<_>>();
    assert_eq!((due(26), due(25), due(6), due(5)), (vec![5, 15, 25], vec![5, 15], vec![5], vec![]));
    let skipped = |count| DueTicks::constant(&plan(i64::MAX)).unwrap().nth(count);
    assert_eq!((skipped(1 << 59), skipped(usize::MAX)), (Some((10 << 59) + 5), None));
    assert!(DueTicks::poisson(&plan(2005), 1).unwrap().all(|due| (5..2005).contains(&due)));
    assert_eq!(DueTicks::poisson(&plan(5), 1).unwrap().next(), None);
}

/// The largest distance between the distribution of a sample and the one it should have.
fn distance(mut sample: Vec<f64>, distribution: impl Fn(f64) -> f64) -> f64 {
    sample.sort_by(f64::total_cmp);
    let count = sample.len() as f64;
    let off = |(at, value): (usize, &f64)| {
        let expected = distribution(*value);
        (expected - at as f64 / count).max((at + 1) as f64 / count - expected)
    };
    sample.iter().enumerate().map(off).fold(0.0, f64::max)
}

/// What the distance of 10 000 values exceeds in one case of a thousand, exactly (scipy, `kstwo.ppf(0.999, 10000)`).
const CRITICAL: f64 = 0.019_477_48;
const GAPS: usize = 10_000;

#[test]
fn poisson_gaps_are_exponential_and_due_ticks_uniform_by_kolmogorov_and_smirnov() {
    let rate = EventRate::new(1000, 1).unwrap();
    for seed in [0, 1, 2, 3, u64::MAX, 0xdead_beef] {
        let ticks: Vec<i64> =
            DueTicks::poisson(&LoadPlan { until: 30_000_000_000, ..plan(rate) }, seed).unwrap().take(GAPS).collect();
        assert_eq!(ticks.len(), GAPS);
        let mut last = -77;
        let gaps = ticks.iter().map(|due| (due - std::mem::replace(&mut last, *due)) as f64 * 1000.0 / HERTZ as f64);
        let gaps: Vec<f64> = gaps.collect();
        let off = distance(gaps.clone(), |gap| 1.0 - (-gap).exp());
        assert!(off < CRITICAL, "seed {seed}: gaps are {off} off");
        // Whole part and fraction of each gap are drawn apart: so are they told apart.
        let off = distance(gaps.iter().map(|gap| gap.fract()).collect(), |part| {
            (1.0 - (-part).exp()) / (1.0 - (-1.0_f64).exp())
        });
        assert!(off < CRITICAL, "seed {seed}: fractions are {off} off");
        let end = *ticks.last().unwrap() as f64 + 77.0;
        let off = distance(ticks.iter().map(|due| (due + 77) as f64 / end).collect(), |at| at);
        assert!(off < CRITICAL, "seed {seed}: due ticks are {off} off");
        // A gap says nothing of the next.
        let product = |pair: &[f64]| (pair[0] - 1.0) * (pair[1] - 1.0);
        let correlation = gaps.windows(2).map(product).sum::<f64>() / GAPS as f64;
        assert!(correlation.abs() < 3.3 / (GAPS as f64).sqrt(), "seed {seed}: {correlation}");
    }
}

#[test]
fn the_distance_tells_a_wrong_law() {
    let mut random = SplitMix::new(5);
    let mut uniform = || (random.bits() >> 11) as f64 / (1_u64 << 53) as f64;
    assert!(distance((0..GAPS).map(|_| uniform()).collect(), |at| at) < CRITICAL);
    assert!(distance((0..GAPS).map(|_| uniform().powf(1.1)).collect(), |at| at) > CRITICAL);
}

#[test]
fn poisson_due_ticks_are_their_variates_summed_without_a_rounding() {
    let plan = LoadPlan { until: 1 << 40, burst: 3, ..plan(EventRate::new(70_001, 10).unwrap()) };
    let mut random = SplitMix::new(9);
    let mut sum = BigInt::from(0);
    for due in DueTicks::poisson(&plan, 9).unwrap() {
        sum += random.exponential();
        let ticks: BigInt = &sum * plan.hertz * 10 * 3 / (BigInt::from(70_001) << 40);
        assert_eq!(BigInt::from(due), ticks - 77);
    }
    assert!(sum > BigInt::from(1000_u64 << 40));
}

/// Whoever kept a seed gets the same load from every later version.
#[test]
fn a_seed_gives_the_ticks_that_it_always_gave() {
    let mut random = SplitMix::new(1_234_567);
    // As published with the reference implementation.
    assert_eq!([random.bits(), random.bits()], [6_457_827_717_110_365_317, 3_203_168_211_198_807_973]);
    let plan = LoadPlan { start: 0, ..plan(EventRate::new(1000, 1).unwrap()) };
    let plan = LoadPlan { until: 100_000_000, ..plan };
    let due: Vec<i64> = DueTicks::poisson(&plan, 42).unwrap().take(4).collect();
    assert_eq!(due, [5_546_013, 6_395_840, 6_908_095, 8_191_585]); // and as Python computes them in fractions
}

#[track_caller]
fn refused<T: std::fmt::Debug>(asked: Result<T, tickscope_load::Error>, says: &str) {
    let why = asked.unwrap_err().to_string();
    assert!(why.starts_with("expected ") && why.contains(says), "{why}");
}

#[test]
fn a_load_that_cannot_be_is_refused_with_what_mends_it() {
    for (rate, says) in [
        (f64::NAN, "found NaN. Give events a second"),
        (0.0, "found 0. "),
        (-1.0, "found -1. "),
        (1e-7, "from 0.000001"),
        (4_294_967_296.1, "to 4294967296 events"),
        (f64::INFINITY, "found inf. "),
    ] {
        refused(EventRate::per_second(rate), says);
    }
    assert_eq!(EventRate::per_second(4_294_967_296.0).unwrap().events(), (1 << 32) * 1_000_000);
    assert_eq!(EventRate::per_second(0.000001), EventRate::new(1, 1_000_000));
    refused(EventRate::new(0, 1), "found 0 in 1 s");
    refused(EventRate::new((1 << 32) + 1, 1), "found 4294967297 in 1 s");
    refused(EventRate::new(1, 0), "found 0 seconds");
    refused(EventRate::new(1, 1_000_001), "found 1000001 seconds");
    let good = plan(EventRate::new(1000, 1).unwrap());
    refused(DueTicks::constant(&LoadPlan { hertz: 0, ..good.clone() }), "found 0. Give the counter's ticks a second");
    refused(DueTicks::constant(&LoadPlan { hertz: (1 << 34) + 1, ..good.clone() }), "1 to 17179869184 Hz");
    refused(DueTicks::constant(&LoadPlan { burst: 0, ..good.clone() }), "found 0. Give 1");
    refused(DueTicks::constant(&LoadPlan { burst: (1 << 16) + 1, ..good.clone() }), "1 to 65536 events");
    let slow = LoadPlan { rate: EventRate::new(1, 1_000_000).unwrap(), hertz: 1 << 34, burst: 1 << 16, ..good.clone() };
    refused(DueTicks::constant(&slow), "at most 2^62 ticks");
    let (most, hertz) = (MOST_HELD as i64, 1000);
    let long = |until| DueTicks::poisson(&LoadPlan { hertz, start: 0, until, ..good.clone() }, 1);
    refused(long(most + 1), "at most 134217728 due ticks");
    refused(long(i64::MAX), "about 9223372036854775807");
}

proptest! {
    #[test]
    fn property_the_shares_of_all_senders_are_the_whole_load(
        events in 1..5_000_u64,
        seconds in 1..50_u64,
        senders in 1..9_usize,
        burst in 1..4_u32,
        seed in any::<Option<u64>>(),
        skipped in 0..20_usize,
    ) {
        let rate = EventRate::new(events, seconds).unwrap();
        let plan = LoadPlan { rate, hertz: 1_000_003, start: -77, until: 2_000_000, burst };
        let mut whole = match seed {
            None => DueTicks::constant(&plan).unwrap(),
            Some(seed) => DueTicks::poisson(&plan, seed).unwrap(),
        };
        (0..skipped).for_each(|_| _ = whole.next());
        let mut shared = Vec::new();
        for number in 0..senders {
            let share = whole.clone().share(number, senders);
            prop_assert_eq!(share.left(), share.clone().count() as u64);
            shared.extend(share);
        }
        shared.sort_unstable();
        prop_assert_eq!(whole.left(), shared.len() as u64);
        prop_assert_eq!(whole.collect::<Vec<_>>(), shared);
    }
}
