//! Series of successive readings of a clock: its steps, its cost, and how finely it can be used.
//!
//! **Usable resolution** is the sum of what the clock itself leaves open and of what reading it does. The clock: how
//! wide its readings are (`tickscope_host::step`) if it steps faster than it can be read; if it stands still between
//! readings, the step within which it spends 95 % of its time. Reading: how much longer than the shortest the time
//! between two readings is in 95 of 100 cases. The *cost* of a reading is not part of it: that can be subtracted. The
//! shortest section measurable to x % is the usable resolution divided by x %: so in 19 of 20 measurements. It is a
//! statement about the load at hand, not a bound.
//!
//! Values are the clock's own units. Differences go from one reading to the next within a *stretch* of readings without
//! anything else between them; only the steps of a clock that stands still are looked for between stretches too, as
//! there are few of them.

use serde::Serialize;
use tickscope_stats::{Error, Quantile, Sample};

/// Readings in order of time, in stretches of equal length.
#[derive(Clone, PartialEq, Debug)]
pub struct Series {
    readings: Vec<i64>,
    stretch: usize,
    /// When each stretch began and ended, ticks of the host's counter.
    spans: Vec<Span>,
    /// Length of one tick of the counter in the clock's unit.
    unit_per_tick: f64,
}

/// When a stretch of readings began and ended, ticks of the host's counter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Span {
    /// Before the first reading.
    pub from: i64,
    /// After the last one.
    pub to: i64,
}

/// How a clock steps.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Steps {
    /// Whether the clock stands still between readings: more than 1 in 100 saw no step.
    pub stands_still: bool,
    /// The smallest step seen between two readings, above 0.
    pub finest: Option<i64>,
    /// The step within which the clock spends 95 % of its time; of one that does not stand still, it is the reader that
    /// is away.
    pub most_of_the_time: Option<i64>,
    /// Steps backward.
    pub backward: u64,
    /// Largest step backward.
    pub backward_worst: i64,
}

/// How finely a clock can be used under one load.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Usable {
    /// Uncertainty due to the clock itself.
    pub clock: i64,
    /// Uncertainty due to reading it.
    pub reading: i64,
}

impl Series {
    /// As many readings as `spans` has stretches, each of at least 2 readings.
    pub fn new(readings: Vec<i64>, spans: Vec<Span>, unit_per_tick: f64) -> Self {
        let stretch = readings.len() / spans.len().max(1);
        Self { readings, stretch: stretch.max(2), spans, unit_per_tick }
    }

    /// From each reading to the next.
    pub fn differences(&self) -> Vec<i64> {
        self.readings
            .chunks(self.stretch)
            .flat_map(|stretch| stretch.windows(2).map(|pair| pair[1] - pair[0]))
            .collect()
    }

    /// How the clock stepped.
    pub fn steps(&self) -> Steps {
        let differences = self.differences();
        let stands_still = stands_still(&differences);
        let seldom = self.seldom();
        let within = self.within(stands_still).into_iter().map(|step| (step, seldom));
        let between = self.between().into_iter().filter(|_| stands_still).map(|step| (step, 1.0));
        let mut forward: Vec<(i64, f64)> = within.chain(between).collect();
        forward.sort_unstable_by_key(|&(step, _)| step);
        let backward = differences.iter().filter(|&&step| step < 0);
        Steps {
            stands_still,
            finest: forward.first().map(|&(step, _)| step),
            most_of_the_time: step_most_of_the_time(&forward),
            backward: backward.clone().count() as u64,
            backward_worst: backward.map(|step| -step).max().unwrap_or(0),
        }
    }

    /// Steps forward within stretches. Of a clock that stands still only where the reader was away for less than half
    /// of the step, as between stretches: one that was starved saw several steps at once.
    fn within(&self, stands_still: bool) -> Vec<i64> {
        let lasted = |span: &Span| span.to - span.from;
        let usual = Sample::new(&self.spans.iter().map(lasted).collect::<Vec<i64>>());
        let usual = usual.map_or(0, |sample| sample.quantile(Quantile::MEDIAN));
        let steps = |(readings, span): (&[i64], &Span)| {
            let away = (lasted(span) - usual) as f64 * self.unit_per_tick;
            let there = move |&step: &i64| step > 0 && (!stands_still || away * 2.0 < step as f64);
            readings.windows(2).map(|pair| pair[1] - pair[0]).filter(there).collect::<Vec<i64>>()
        };
        self.readings.chunks(self.stretch).zip(&self.spans).flat_map(steps).collect()
    }

    /// Steps from the end of one stretch to the start of the next, where the reader was away for less than half of the
    /// step: otherwise it is the reader who missed steps, not the clock that stood still.
    fn between(&self) -> Vec<i64> {
        let stretches: Vec<&[i64]> = self.readings.chunks(self.stretch).collect();
        let step = |(readings, spans): (&[&[i64]], &[Span])| {
            let step = readings[1][0] - readings[0][readings[0].len() - 1];
            let away = (spans[1].to - spans[0].from) as f64 * self.unit_per_tick;
            (step > 0 && away * 2.0 < step as f64).then_some(step)
        };
        stretches.windows(2).zip(self.spans.windows(2)).filter_map(step).collect()
    }

    /// How many times longer the reader was there than within stretches: each step in one stands for so many.
    fn seldom(&self) -> f64 {
        let gaps: Vec<i64> = self.spans.windows(2).map(|pair| pair[1].from - pair[0].from).collect();
        let Ok(sample) = Sample::new(&gaps) else { return 1.0 };
        let median = sample.quantile(Quantile::MEDIAN);
        let there: i64 = gaps.iter().filter(|&&gap| gap <= 4 * median).sum();
        let within: i64 =
            self.spans.iter().map(|span| span.to - span.from).filter(|&within| within <= 4 * median).sum();
        (there as f64 / within.max(1) as f64).max(1.0)
    }

    /// The first stretches of readings, to find a clock's step in.
    pub fn stretches(&self) -> Vec<Vec<i64>> {
        /// So many tell a step, and are looked through at once.
        const ENOUGH: usize = 256;
        self.readings.chunks(self.stretch).take(ENOUGH).map(<[i64]>::to_vec).collect()
    }

    /// How finely it can be used under the load that the series was taken under, by a clock whose readings are so wide;
    /// `None`: it was never seen to step.
    pub fn usable(&self, width: i64) -> Result<Option<Usable>, Error> {
        let steps = self.steps();
        if steps.stands_still {
            // What stands still hides what reading it costs.
            return Ok(steps.most_of_the_time.map(|clock| Usable { clock, reading: 0 }));
        }
        let differences = Sample::new(&self.differences())?;
        let reading = differences.quantile(Quantile::P95) - differences.least();
        Ok(steps.finest.map(|_| Usable { clock: width, reading }))
    }
}

impl Usable {
    /// Two sections that differ by this can be told apart.
    pub fn resolution(self) -> i64 {
        self.clock + self.reading
    }

    /// The shortest section that the resolution is no more than `percent` of, rounded up.
    pub fn shortest_section(self, percent: f64) -> i64 {
        (self.resolution() as f64 * 100.0 / percent).ceil() as i64
    }
}

fn stands_still(differences: &[i64]) -> bool {
    let still = differences.iter().filter(|&&step| step == 0).count();
    still * 100 > differences.len()
}

/// The smallest step such that steps no longer make up 95 % of the time that all made: what is likely to surround an
/// instant picked without regard to them. Steps ascend, each with how many it stands for.
fn step_most_of_the_time(ascending: &[(i64, f64)]) -> Option<i64> {
    let time = |&(step, stands_for): &(i64, f64)| step as f64 * stands_for;
    let all: f64 = ascending.iter().map(time).sum();
    let mut passed = 0.0;
    let reaches = |of: &&(i64, f64)| {
        passed += time(of);
        passed * 100.0 >= all * 95.0
    };
    ascending.iter().find(reaches).map(|&(step, _)| step)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(readings: &[i64]) -> Series {
        Series::new(readings.to_vec(), vec![Span { from: 0, to: 1 }], 1.0)
    }

    #[test]
    fn the_finest_step_is_the_least_between_two_readings() {
        let steps = series(&[0, 18, 38, 60, 78]).steps();
        assert_eq!((steps.finest, steps.stands_still), (Some(18), false));
    }

    #[test]
    fn a_clock_that_stands_still_is_as_fine_as_the_steps_it_spends_its_time_in() {
        // 90 steps of 10 and one of 100: the long one is a tenth of the time, so more than 95 % needs it.
        let mut readings = vec![0];
        for _ in 0..90 {
            let last = readings[readings.len() - 1];
            readings.extend([last, last + 10]);
        }
        let last = readings[readings.len() - 1];
        readings.extend([last, last + 100]);
        assert_eq!(series(&readings).usable(3).unwrap().unwrap(), Usable { clock: 100, reading: 0 });
        readings.truncate(181);
        assert_eq!(series(&readings).usable(3).unwrap().unwrap(), Usable { clock: 10, reading: 0 });
    }

    #[test]
    fn a_constant_cost_leaves_the_width_of_a_reading_open_and_a_varying_one_its_spread_too() {
        let usable = |readings: &[i64]| series(readings).usable(7).unwrap().unwrap();
        assert_eq!(usable(&[0, 20, 40, 60]), Usable { clock: 7, reading: 0 });
        assert_eq!(usable(&[0, 20, 44, 64]), Usable { clock: 7, reading: 4 });
    }

    #[test]
    fn a_clock_that_was_never_seen_to_step_is_not_called_fine() {
        assert_eq!(series(&[7, 7, 7, 7]).usable(3), Ok(None));
    }

    #[test]
    fn the_steps_of_a_clock_that_stands_still_are_looked_for_between_stretches_too_unless_the_reader_was_away() {
        let spans =
            |away: i64| [(0, 10), (20, 30), (40 + away, 50 + away)].map(|(from, to)| Span { from, to }).to_vec();
        let readings = vec![0, 0, 400, 400, 8_400, 8_400];
        let there = Series::new(readings.clone(), spans(0), 1.0).steps();
        assert_eq!((there.stands_still, there.finest, there.most_of_the_time), (true, Some(400), Some(8_000)));
        let away = Series::new(readings, spans(4_000), 1.0).steps();
        assert_eq!((away.stands_still, away.finest, away.most_of_the_time), (true, Some(400), Some(400)));
    }

    #[test]
    fn a_starved_reader_does_not_make_a_clock_coarse_that_stands_still() {
        // Steps of 4000, and one of 20000 in a stretch that the reader was away from for 17000.
        let readings = vec![0, 0, 4_000, 4_000, 4_000, 24_000, 24_000, 28_000, 28_000, 28_000];
        let spans = [(0, 10), (3_990, 4_000), (7_990, 25_000), (27_990, 28_000), (28_010, 28_020)];
        let spans = spans.map(|(from, to)| Span { from, to }).to_vec();
        let starved = Series::new(readings, spans, 1.0);
        assert_eq!(starved.usable(3), Ok(Some(Usable { clock: 4_000, reading: 0 })));
    }

    #[test]
    fn a_step_backward_is_counted_with_its_size() {
        let steps = series(&[0, 20, 13, 30]).steps();
        assert_eq!((steps.backward, steps.backward_worst), (1, 7));
    }

    #[test]
    fn no_difference_spans_two_stretches() {
        let spans = vec![Span { from: 0, to: 1 }, Span { from: 999, to: 1002 }];
        assert_eq!(Series::new(vec![0, 1, 1000, 1001], spans, 1.0).differences(), [1, 1]);
    }

    #[test]
    fn the_shortest_section_is_rounded_up() {
        let usable = Usable { clock: 1, reading: 2 };
        assert_eq!((usable.shortest_section(1.0), usable.shortest_section(7.0)), (300, 43));
    }
}
