//! The width of a reading against simulated counters whose truth is known, and against readings of a processor that
//! never returns a number twice.

use tickscope_host::step::{CounterStep, Evidence, FINEST_WIDTH_TICKS, Series};

/// A counter in steps, as a processor shows it.
#[derive(Clone, Copy, Debug)]
struct Counter {
    /// Thousandths of a tick.
    step: i64,
    /// How many ticks a value may come late, by a hash of its number; 0: the steps are regular.
    uneven: i64,
    /// Whether a second reading within a step shows a tick more.
    never_repeats: bool,
    phase: i64,
}

/// How a series of readings is taken.
#[derive(Clone, Copy, Debug)]
struct Readings {
    /// From reading to reading, in thousandths of a step.
    every: (i64, i64),
    /// Ticks that one reading in so many takes longer.
    pause: Option<(u64, i64)>,
}

struct Random(u64);

impl Random {
    fn next(&mut self, below: i64) -> i64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as i64) % below.max(1)
    }
}

impl Counter {
    fn value(&self, number: i64) -> i64 {
        let mixed = (number as u64 ^ 0x5851_f42d).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let hash = (mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 33;
        let late = if self.uneven == 0 { 0 } else { hash as i64 % (self.uneven + 1) };
        (number * self.step + self.phase).div_euclid(1000) + late
    }

    /// The number of the value that is shown at `now`, in thousandths of a tick.
    fn number_at(&self, now: i64) -> i64 {
        let mut number = (now - self.phase).div_euclid(self.step) + 1;
        while self.value(number) * 1000 > now {
            number -= 1;
        }
        number
    }

    fn series(&self, readings: Readings, count: usize, random: &mut Random) -> Series {
        let mut now = (1 << 40) + random.next(1 << 30);
        let mut last = i64::MIN;
        let mut read = |_| {
            let (from, to) = readings.every;
            now += self.step * (from + random.next(to - from + 1)) / 1000;
            if let Some((one_in, ticks)) = readings.pause
                && random.next(one_in as i64) == 0
            {
                now += ticks * 1000 + random.next(1000 * self.step);
            }
            let value = self.value(self.number_at(now));
            let shown = value + i64::from(self.never_repeats && value == last);
            last = value;
            shown
        };
        (0..count).map(&mut read).collect()
    }

    /// How far the continuous counter of regular steps stands from those readings, from the least to the most, in
    /// thousandths of a tick.
    fn width(&self, series: &[Series]) -> i64 {
        let is_above = |reading: &i64| self.value(self.number_at(reading * 1000)) < *reading;
        let above = self.step >= 2000 && series.iter().flatten().any(is_above);
        self.step + i64::from(above) * 1000 + i64::from(self.step % 1000 != 0) * 1000
    }
}

/// The number of simulated counters: a million under `make test-all`.
fn counters() -> u64 {
    std::env::var("TICKSCOPE_STEPS").map_or(3_000, |count| count.parse().unwrap())
}

#[test]
fn property_no_width_is_narrower_than_a_regular_counter_may_stand_beyond_its_readings_however_they_are_paused() {
    const STEPS: [i64; 8] = [1_000, 2_000, 3_400, 5_000, 24_450, 26_000, 40_000, 1_000_000];
    let mut slowest = std::time::Duration::ZERO;
    for seed in 0..counters() {
        let mut random = Random(seed * 2 + 1);
        let step = STEPS[random.next(STEPS.len() as i64) as usize];
        let (never_repeats, phase) = (random.next(2) == 0, random.next(1_000_000));
        let whole_phase = if step % 1000 == 0 { phase / 1000 * 1000 } else { phase };
        let counter = Counter { step, uneven: 0, never_repeats, phase: whole_phase };
        let from = 700 + random.next(1500);
        let pauses = [None, Some((200, 2_600_000 * (1 + random.next(300)))), Some((17, step / 25))];
        let readings =
            Readings { every: (from, from + random.next(3000 - from)), pause: pauses[random.next(3) as usize] };
        let series: Vec<Series> = (0..3).map(|_| counter.series(readings, 256, &mut random)).collect();
        let begun = std::time::Instant::now();
        let found = CounterStep::of(&series);
        slowest = slowest.max(begun.elapsed());
        let truth = counter.width(&series);
        assert!(found.width_ticks as i64 * 1000 >= truth, "{seed}: {counter:?}, {readings:?}: {truth}, {found:?}");
    }
    println!("{} counters, the slowest in {slowest:?}", counters());
}

#[test]
fn property_an_uneven_counter_whose_readings_repeat_is_never_narrower_than_its_widest_gap() {
    for seed in 0..counters() / 10 {
        let mut random = Random(seed * 2 + 1);
        let step = [24_450, 26_000, 40_000, 1_000_000][random.next(4) as usize];
        let uneven = 3 + random.next(step / 1000 - 4);
        let counter = Counter { step, uneven, never_repeats: random.next(2) == 0, phase: 0 };
        let pauses = [None, Some((200, 2_600_000 * (1 + random.next(300))))];
        let readings = Readings { every: (100, 300), pause: pauses[random.next(2) as usize] };
        let series: Vec<Series> = (0..3).map(|_| counter.series(readings, 4096, &mut random)).collect();
        let found = CounterStep::of(&series);
        // The widest of 3 x 1000 steps or so, where 4096 were looked at for the truth: a few ticks may be missing.
        let seen = series.iter().flat_map(|all| all.windows(2)).map(|pair| pair[1] - pair[0]);
        let widest = seen.filter(|&gap| gap < 3 * step / 1000).max().unwrap() - i64::from(counter.never_repeats);
        assert!(found.width_ticks as i64 >= widest, "{seed}: {counter:?}: {widest}, {found:?}");
        assert!(found.width_ticks as i64 * 1000 <= 30 * step, "{seed}: {counter:?}: {found:?}");
    }
}

/// The series of one kind on both cores.
fn zen5(kind: &str) -> Vec<Series> {
    let series = |line: &str| {
        let mut words = line.splitn(4, "; ");
        let (of, _core) = (words.next()?, words.next()?);
        let mut reading: i64 = words.next()?.parse().ok()?;
        let gaps = words.next()?.split(' ').map(|gap| gap.parse::<i64>().unwrap());
        let rest = gaps.map(|gap| {
            reading += gap;
            reading
        });
        (of == kind).then(|| rest.collect::<Series>())
    };
    include_str!("data/readings-zen5.txt").lines().filter_map(series).collect()
}

#[test]
fn a_processor_that_never_returns_a_number_twice_is_as_wide_as_its_step_and_a_tick_more_where_readings_are_close() {
    for (kind, width, step) in [
        ("plain", 27, 26.0),
        ("lfence;rdtsc", 26, 26.0),
        ("rdtscp;lfence", 26, 26.0),
        ("lfence;rdtsc, paused 30 ms once", 26, 26.0),
    ] {
        let series = zen5(kind);
        assert!(series.len() >= 2, "{kind}");
        let found = CounterStep::of(&series);
        let seen = (found.width_ticks, found.step_ticks, found.evidence);
        assert_eq!(seen, (width, step, Evidence::Lattice), "{kind}: {found}");
    }
    for kind in ["clock_monotonic_raw", "clock_realtime"] {
        let found = CounterStep::of(&zen5(kind));
        assert!((11..=12).contains(&found.width_ticks), "{kind}: {found}");
    }
}

#[test]
fn readings_a_tick_apart_of_a_counter_of_single_ticks_are_no_coarse_steps() {
    let found = CounterStep::of(&[(0..512).collect()]);
    assert_eq!((found.width_ticks, found.evidence), (FINEST_WIDTH_TICKS, Evidence::Fine), "{found}");
}

/// One and the same work between two fenced readings: whatever their difference, all intervals hold one value. Where
/// the counter's steps are finer than the work's own variation, that says nothing of the width.
#[test]
fn intervals_of_work_of_fixed_length_on_this_host_share_a_value() {
    use tickscope_counter::NodeCounter;
    const COARSE_STEP_TICKS: f64 = 10.0;
    const SERIES: usize = 20;
    let found = CounterStep::of_counter(NodeCounter::true_counter());
    if found.step_ticks < COARSE_STEP_TICKS {
        return println!("left out: this counter steps by {} ticks, finer than work varies", found.step_ticks);
    }
    let width = found.width_ticks as i64;
    // Where a neighbour or the host slows the core for a while, the work's length changes with it: the steadiest of
    // some series counts. A width that is too narrow fails in each of them.
    let series = (0..SERIES).filter_map(|_| usual_lengths(width));
    let (least, most) = series.min_by_key(|(least, most)| most - least).unwrap();
    println!("width {width}: from {least} to {most} ticks");
    assert!(most - least < 2 * width, "{least} and {most} are further apart than two widths of {width}");
}

/// The least and the most of the frequent lengths of one and the same work; `None`: no length is frequent.
fn usual_lengths(width: i64) -> Option<(i64, i64)> {
    use tickscope_counter::after;
    let mut took: Vec<i64> = (0..20_000)
        .map(|_| {
            let from = after();
            let mut product = std::hint::black_box(3u64);
            for _ in 0..100 {
                product = std::hint::black_box(product.wrapping_mul(0x9e37_79b9));
            }
            std::hint::black_box(product);
            after() - from
        })
        .collect();
    took.sort_unstable();
    // What was interrupted, or ran before the processor was at its speed, is no work of the same length: the most
    // frequent value and its neighbours on the staircase are.
    let usual = took[took.len() / 2];
    let undisturbed: Vec<i64> = took.into_iter().filter(|ticks| (ticks - usual).abs() <= 2 * width).collect();
    let frequent = |ticks: i64| undisturbed.iter().filter(|&&other| other == ticks).count() * 20 >= undisturbed.len();
    let frequents: Vec<i64> = undisturbed.iter().copied().filter(|&ticks| frequent(ticks)).collect();
    Some((*frequents.first()?, *frequents.last()?))
}
