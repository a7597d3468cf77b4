//! `targets/harness/load.h` gives the same numbers as this crate, tick for tick and word for word.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use tickscope_load::{
    BucketPlan, DueTicks, Error, EventRate, Fault, Lateness, LoadPlan, SplitMix, TokenBucket, TracePlan, user_trace,
};

const SEEDS: [u64; 6] = [0, 1, 42, 0xdead_beef, u64::MAX, 1 << 63];

/// The program, compiled under that name.
fn compiled(standard: &str, name: &str) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c/face.c");
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
    let flags = ["-Wall", "-Wextra", "-Wconversion", "-Wsign-conversion", "-Werror", "-pedantic", "-O2"];
    let output =
        Command::new("cc").arg(format!("-std={standard}")).args(flags).arg("-o").arg(&program).arg(source).output();
    let output = output.unwrap();
    assert!(output.status.success(), "{standard}: {}", String::from_utf8_lossy(&output.stderr));
    program
}

/// What the C face prints of these arguments.
fn c(arguments: &[&dyn std::fmt::Display]) -> Vec<String> {
    static FACE: OnceLock<PathBuf> = OnceLock::new();
    let arguments = arguments.iter().map(ToString::to_string);
    let output = Command::new(FACE.get_or_init(|| compiled("gnu11", "face"))).args(arguments).output().unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

/// Rust's numbers, or what it expected.
fn lines<T: ToString>(numbers: Result<Vec<T>, Error>) -> Vec<String> {
    match numbers {
        Ok(numbers) => numbers.iter().map(ToString::to_string).collect(),
        Err(why) => {
            let why = why.to_string();
            let expected = why.strip_prefix("expected ").unwrap().split_once(", found ").unwrap().0;
            vec![expected.to_owned()]
        }
    }
}

/// Due ticks, then how many events were due within five ticks after them.
fn due_in_rust(plan: &LoadPlan, seed: Option<u64>, count: usize) -> Result<Vec<i64>, Error> {
    let mut due = match seed {
        Some(seed) => DueTicks::poisson(plan, seed)?,
        None => DueTicks::constant(plan)?,
    };
    let mut numbers: Vec<i64> = due.by_ref().take(count).collect();
    let until = due.peek().map(|next| next.saturating_add(5));
    let unsent = due.take_while(|due| until.is_some_and(|until| *due <= until)).count() as i64;
    numbers.push(unsent * i64::from(plan.burst));
    Ok(numbers)
}

fn due_in_c(plan: &LoadPlan, seed: Option<u64>, count: usize) -> Vec<String> {
    let LoadPlan { rate, hertz, start, until, burst } = plan;
    let (events, seconds) = (rate.events(), rate.seconds());
    match seed {
        Some(seed) => c(&[&"due", &events, &seconds, hertz, start, until, burst, &count, &seed]),
        None => c(&[&"due", &events, &seconds, hertz, start, until, burst, &count]),
    }
}

#[test]
fn c_due_ticks_are_the_same_for_every_frequency_rate_and_seed() {
    let plan = |events, seconds, hertz, start, until, burst| {
        let rate = EventRate::new(events, seconds).unwrap();
        LoadPlan { rate, hertz, start, until, burst }
    };
    for plan in [
        plan(1000, 1, 2_500_000_123, -77, 50_000_000_000, 1),
        plan(4_680_001, 1, 1_000_000_000, 0, 10_000_000, 32),
        plan(4_999_999_999_999, 1_000_000, 24_000_000, i64::MAX - 48_000, i64::MAX, 1),
        plan(1 << 32, 1, 1, i64::MIN, i64::MIN + 3, 1 << 16),
        plan(1, 1_000_000, 1 << 34, -1 << 62, i64::MAX, 200),
        plan(7, 3, 1 << 34, i64::MIN, i64::MAX, 1),
        plan(1, 1, 10, 5, 5, 1),
    ] {
        assert_eq!(due_in_c(&plan, None, 20_000), lines(due_in_rust(&plan, None, 20_000)), "{plan:?}");
        for seed in SEEDS {
            let seed = Some(seed);
            assert_eq!(due_in_c(&plan, seed, 5_000), lines(due_in_rust(&plan, seed, 5_000)), "{plan:?} {seed:?}");
        }
    }
}

#[test]
fn c_what_cannot_be_is_refused_in_the_same_words() {
    for hertz in
        ["nan", "0", "-1", "1e-7", "4294967296.1", "inf", "0.0000004", "0.000001", "1e9", "4294967296", "333.3333335"]
    {
        let rate = EventRate::per_second(hertz.parse().unwrap());
        assert_eq!(c(&[&"rate", &hertz]), lines(rate.map(|rate| vec![rate.events(), rate.seconds()])), "{hertz}");
    }
    let refused = [(0, 1), ((1 << 32) + 1, 1), (1, 0), (1, 1_000_001)];
    for (events, seconds) in refused {
        let expected = lines(EventRate::new(events, seconds).map(|_| vec![0]));
        assert_eq!(c(&[&"due", &events, &seconds, &1000, &0, &1000, &1, &10]), expected);
    }
    let good = LoadPlan { rate: EventRate::new(1, 1).unwrap(), hertz: 1000, start: 0, until: 1000, burst: 1 };
    let slow = EventRate::new(1, 1_000_000).unwrap();
    for wrong in [
        LoadPlan { hertz: 0, ..good.clone() },
        LoadPlan { hertz: (1 << 34) + 1, ..good.clone() },
        LoadPlan { burst: 0, ..good.clone() },
        LoadPlan { burst: (1 << 16) + 1, ..good.clone() },
        LoadPlan { rate: slow, hertz: 1 << 34, burst: 1 << 16, ..good.clone() },
        LoadPlan { until: i64::MAX, ..good.clone() },
    ] {
        assert_eq!(due_in_c(&wrong, Some(1), 10), lines(due_in_rust(&wrong, Some(1), 10)), "{wrong:?}");
    }
}

#[test]
fn c_the_bucket_offers_pays_and_loses_the_same() {
    for capped in [false, true] {
        for seed in SEEDS {
            let plan = BucketPlan {
                rate: EventRate::new(70_001, 3).unwrap(),
                hertz: 987_654_321,
                most: 32,
                capped,
                start: -9,
            };
            let mut random = SplitMix::new(seed);
            let mut bucket = TokenBucket::new(plan.clone()).unwrap();
            let (mut now, mut numbers) = (plan.start, Vec::new());
            for _ in 0..5_000 {
                let longest = if random.below(2) > 0 { 1000 } else { 1_000_000 };
                now += random.below(longest) as i64;
                let offer = bucket.offer(now).unwrap();
                numbers.extend([i64::from(offer), bucket.due().unwrap_or(i64::MAX)]);
                bucket.pay(random.below(u64::from(offer) + 1) as u32).unwrap();
            }
            numbers.push(bucket.lost() as i64);
            let (events, seconds) = (plan.rate.events(), plan.rate.seconds());
            let (hertz, capped) = (plan.hertz, i32::from(capped));
            let found = c(&[&"bucket", &events, &seconds, &hertz, &plan.start, &plan.most, &capped, &5_000, &seed]);
            assert_eq!(found, lines(Ok(numbers)), "{plan:?} {seed}");
        }
    }
    assert_eq!(c(&[&"bucket", &1, &1, &1, &0, &0, &0, &1, &1]), ["an offer of 1 packet or more"]);
}

#[test]
fn c_traces_are_the_same_row_for_row() {
    let in_rust = |plan: &TracePlan| lines(user_trace(plan).map(|rows| rows.iter().map(|row| row.bits()).collect()));
    for (users, control, data) in
        [(1000, 1, 10), (1, 0, 1), (7, u32::MAX, u32::MAX), (0, 1, 1), (1 << 25, 1, 1), (5, 0, 0)]
    {
        for seed in SEEDS {
            let plan = TracePlan { users, control, data, rows: 3_000, seed };
            assert_eq!(c(&[&"trace", &users, &control, &data, &3_000, &seed]), in_rust(&plan), "{plan:?}");
        }
    }
}

fn word(faults: &[Fault]) -> &'static str {
    match faults {
        [] => "held",
        [Fault::NothingSent, ..] => "nothing-sent",
        [Fault::Early { .. }, ..] => "early",
        [Fault::Late { .. }, ..] => "late",
        [Fault::Unsent { .. }, ..] => "unsent",
        [Fault::LostCredit { .. }, ..] => "lost-credit",
    }
}

#[test]
fn c_lateness_has_the_same_quantiles_and_faults() {
    for (limit, events) in [(1 << 40, 2_000), (u64::MAX, 2_000), (u64::MAX, 0)] {
        for seed in SEEDS {
            let mut random = SplitMix::new(seed);
            let mut lateness = Lateness::new(limit);
            for _ in 0..events {
                let due = (random.bits() >> 2) as i64 - (1 << 61);
                let late = random.bits();
                let late = (late >> (2 + random.below(62))) as i64;
                lateness.record(due, due + late, 1 + random.below(3) as u32);
            }
            let mut numbers: Vec<u64> =
                (0..=1000).step_by(125).map(|share| lateness.quantile_ticks(share).unwrap_or(0)).collect();
            numbers.extend([lateness.sent(), lateness.late(), lateness.worst_ticks()]);
            let mut expected = lines(Ok(numbers));
            expected.push(word(&lateness.faults()).into());
            assert_eq!(c(&[&"lateness", &limit, &events, &seed]), expected, "{limit} {seed}");
        }
    }
}

#[test]
fn c_the_header_compiles_without_a_warning_as_c99_and_c11() {
    compiled("c99", "face-c99");
    compiled("gnu11", "face-gnu11");
}
