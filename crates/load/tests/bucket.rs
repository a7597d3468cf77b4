//! The token bucket against its equations in exact fractions.

use num_bigint::BigInt;
use num_rational::BigRational;
use num_traits::{ToPrimitive, Zero};
use tickscope_load::{BucketPlan, EventRate, SplitMix, TokenBucket};

/// All 100 000 take exact fractions some seconds.
fn steps() -> usize {
    if std::env::var_os("TICKSCOPE_TESTS").is_some() { 100_000 } else { 10_000 }
}

fn plan(rate: EventRate, capped: bool) -> BucketPlan {
    BucketPlan { rate, hertz: 2_500_000_123, most: 32, capped, start: -5 }
}

fn whole(number: impl Into<BigInt>) -> BigRational {
    BigRational::from_integer(number.into())
}

/// `N_0 = 0`, `K_i = min(B, N_i)`, `N_(i+1) = N_i - L_i + (t_(i+1) - t_i) R`; capped: no `N` above B.
fn follows_its_equations(plan: &BucketPlan, seed: u64) {
    let mut bucket = TokenBucket::new(plan.clone()).unwrap();
    let mut random = SplitMix::new(seed);
    let (most, second) = (whole(plan.most), whole(plan.hertz));
    let rate = BigRational::new(plan.rate.events().into(), plan.rate.seconds().into());
    let (mut now, mut credit, mut lost) = (plan.start, BigRational::zero(), BigRational::zero());
    let mut paid = 0_u64;
    for step in 0..steps() {
        let longest = 1 << (4 + random.below(14));
        let ticks = random.below(longest) + if random.below(5000) == 0 { 300_000_000 } else { 0 };
        now += ticks as i64;
        credit += whole(ticks) * &rate / &second;
        if plan.capped && credit > most {
            lost += &credit - &most;
            credit = most.clone();
        }
        let offer = credit.clone().min(most.clone()).floor().to_integer().to_u32().unwrap();
        assert_eq!(bucket.offer(now), Ok(offer), "step {step}");
        // The packet that was earned first: the earliest tick with credit for it.
        let since = (&credit - whole(1)) * &second / &rate;
        let due = (credit >= whole(1)).then(|| (whole(now) - since).ceil().to_integer().to_i64().unwrap());
        assert_eq!(bucket.due(), due, "step {step}");
        let sent = random.below(u64::from(offer) + 1) as u32;
        bucket.pay(sent).unwrap();
        assert!(bucket.pay(offer - sent + 1).is_err(), "step {step}");
        credit -= whole(sent);
        paid += u64::from(sent);
    }
    assert_eq!(whole(bucket.lost()), lost.ceil());
    assert!(paid > 1_000, "{paid}");
}

#[test]
fn the_bucket_is_its_equations_step_by_step() {
    follows_its_equations(&plan(EventRate::new(4_680_001, 1).unwrap(), false), 1);
}

#[test]
fn the_capped_bucket_loses_exactly_what_exceeds_its_cap() {
    follows_its_equations(&plan(EventRate::new(7_000_003, 9).unwrap(), true), 2);
}

#[test]
fn after_a_stall_the_published_bucket_sends_all_that_was_missed_and_the_capped_one_its_cap() {
    let rate = EventRate::new(1_000_000, 1).unwrap();
    let sent = |capped| {
        let plan = BucketPlan { rate, hertz: 1_000_000_000, most: 32, capped, start: 0 };
        let mut bucket = TokenBucket::new(plan).unwrap();
        let mut batches = Vec::new();
        for now in [999, 1_000, 100_001_500, 100_001_501, 100_001_502, 100_002_000] {
            batches.push(bucket.offer(now).unwrap());
            bucket.pay(batches[batches.len() - 1]).unwrap();
        }
        (batches, bucket.lost())
    };
    assert_eq!(sent(false), (vec![0, 1, 32, 32, 32, 32], 0));
    assert_eq!(sent(true), (vec![0, 1, 32, 0, 0, 0], 99_969), "100 000.5 were earned, 32 kept, 99 968.5 lost");
}

#[test]
fn a_bucket_that_cannot_be_is_refused() {
    let good = plan(EventRate::new(1, 1).unwrap(), false);
    let why = |plan| TokenBucket::new(plan).unwrap_err().to_string();
    assert!(why(BucketPlan { hertz: 0, ..good.clone() }).contains("a counter of 1 to 17179869184 Hz, found 0. "));
    assert!(why(BucketPlan { most: 0, ..good.clone() }).contains("an offer of 1 packet or more, found 0. "));
    let mut bucket = TokenBucket::new(good).unwrap();
    assert_eq!(
        bucket.pay(1).unwrap_err().to_string(),
        "expected at most 0 packets, found 1. Send no more than `offer` returned"
    );
    bucket.offer(5).unwrap();
    let back = bucket.offer(4).unwrap_err().to_string();
    assert!(back.starts_with("expected a tick from 5 on, found 4. Read one counter"), "{back}");
}
