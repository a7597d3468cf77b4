//! How coarsely a log gives its readings, told by the readings themselves.
//!
//! Idea: readings that were rounded or cut lie on a grid: all of them are multiples of its step, or all differ by such
//! multiples. A few readings may do so by chance, so of those only steps that programs round to are believed, powers of
//! ten and of two; more of them tell any step. Times that are all printed floating-point numbers are off by what these
//! lie apart as well.
//!
//! Guarantees: a reading is never believed to be finer than the grid that it was seen on.

use super::form::Time;

/// Readings that lie on a grid by chance with no more than 2^-15.
const ENOUGH: u64 = 16;
/// The coarsest step that few readings are believed to show: a second, in nanoseconds.
const COARSEST: u64 = 1_000_000_000;

/// The readings of one point, so far.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Grid {
    pub readings: u64,
    first: i64,
    of_readings: u64,
    of_differences: u64,
    decimals: bool,
    no_floats: bool,
    float_ticks: i64,
}

impl Grid {
    pub fn add(&mut self, time: Time) {
        if self.readings == 0 {
            self.first = time.ticks;
        }
        self.readings += 1;
        self.of_readings = divisor(self.of_readings, time.ticks.unsigned_abs());
        self.of_differences = divisor(self.of_differences, time.ticks.abs_diff(self.first));
        self.decimals |= time.has_decimals;
        match time.float_ticks {
            Some(ticks) => self.float_ticks = self.float_ticks.max(ticks),
            None => self.no_floats |= time.has_decimals,
        }
    }

    /// Its step, where too few readings may show less than all of the log do.
    pub fn step_within(&self, log: &Self) -> i64 {
        let of_log = if self.readings > 0 && log.readings >= ENOUGH { log.step() } else { 0 };
        self.step().max(of_log)
    }

    /// Its step, in ticks; 0: there are no readings.
    pub fn step(&self) -> i64 {
        if self.readings == 0 {
            return 0;
        }
        let rounded = power(10, self.of_readings).max(power(2, self.of_readings));
        let seen = if self.readings >= ENOUGH { self.of_differences } else { 1 };
        let floats = if self.decimals && !self.no_floats { self.float_ticks } else { 0 };
        // Single ticks are what the clock reads; the distance of two numbers adds to a coarser step.
        let step = i64::try_from(rounded.max(seen)).unwrap_or(i64::MAX);
        if floats > 1 || step > 1 { step.saturating_add(floats) } else { step }
    }
}

/// The largest power of `base`, up to the coarsest step, that divides `number`.
fn power(base: u64, number: u64) -> u64 {
    let powers = std::iter::successors(Some(1), |power| Some(power * base));
    powers.take_while(|power| *power <= COARSEST && number.is_multiple_of(*power)).last().unwrap_or(1)
}

fn divisor(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock_log::form::LogUnit;

    fn step(unit: LogUnit, texts: impl IntoIterator<Item = String>) -> i64 {
        let mut grid = Grid::default();
        texts.into_iter().for_each(|text| grid.add(unit.read(&text).unwrap()));
        grid.step()
    }

    fn of(values: &[i64]) -> i64 {
        step(LogUnit::Ticks, values.iter().map(ToString::to_string))
    }

    #[test]
    fn few_readings_tell_steps_that_programs_round_to() {
        assert_eq!(
            [of(&[]), of(&[0, 7]), of(&[100, 250]), of(&[5000, -3000]), of(&[768, 1024])],
            [0, 1, 10, 1000, 256]
        );
        assert_eq!(of(&[9, 18]), 1, "nobody rounds to nines");
    }

    #[test]
    fn many_readings_tell_any_step_and_one_that_was_moved() {
        let clock = |step: i64, moved: i64| (0..40).map(|k| (k * k + 3) * step + moved).collect::<Vec<_>>();
        assert_eq!(
            [of(&clock(40, 0)), of(&clock(1000, 7)), of(&clock(1, 0)), of(&clock(5_000_000_000, 3))],
            [40, 1000, 1, 5_000_000_000]
        );
    }

    #[test]
    fn printed_floating_point_numbers_are_believed_as_far_as_they_lie_apart() {
        let times = |digits: usize| {
            (0..40).map(move |k| format!("{:.digits$}", 1_763_849_123.0 + 0.001_234_567 * f64::from(k * k)))
        };
        assert_eq!(step(LogUnit::Seconds, times(9)), 1 + 239);
        assert_eq!(step(LogUnit::Seconds, times(6)), 1000 + 239);
        let exact = (0..40).map(|k: i64| format!("1763849123.{:09}", 123_456_789 + k * k * 123_456 + k * 17));
        assert_eq!(step(LogUnit::Seconds, exact), 1);
    }
}
