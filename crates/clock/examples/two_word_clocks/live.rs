//! Cost of reading a clock of two words while it runs: figures 1 to 3 of the Cm* study (3.2).
//!
//! A reader calls a routine twice in a row; what it takes to read the clock is the difference of the two results.
//! `Varying-Read` returns the low word that it read last where the high word flipped meanwhile, so that difference is
//! longer where the second call saw a flip (a peak) and shorter where the first one did (a trough); `4-Read` and
//! `1-Read` return the first low word always.
//!
//! Pairs are grouped by their *phase*: where in a turn of the low word they began, by the host's counter. A pair that
//! takes long is likelier to see a flip, so grouping by what was seen would make peaks where there are none; when a
//! pair begins does not depend on how long it takes. Assumes that the clock goes with the host's counter.

use tickscope_stats::{Confidence, Error, Quantile, Sample};

use crate::routine::{Routine, Writer};

/// Groups of a turn.
const PHASES: i64 = 64;
/// Of a group with fewer pairs nothing is said.
const PAIRS_MIN: usize = 16;
/// A peak is higher, and a trough lower, than the level of all pairs by so many readings of a word: `Varying-Read` has
/// two more where it peaks and one less in a trough; a branch that was guessed wrong, because it is taken at a flip
/// only, costs less than one.
const NOTABLE_WORDS: f64 = 2.0 / 3.0;

/// Two calls of a routine, in ticks of the clock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pair {
    /// When the first began, since the clock was 0.
    pub at: i64,
    /// From the first result to the second.
    pub elapsed: i64,
    /// Time of both.
    pub took: i64,
}

/// A group of pairs that began at about the same place in a turn.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Phase {
    /// Its middle, since the low word was 0.
    pub at_ns: f64,
    /// The median of what a reading took.
    pub median_ns: f64,
    /// 99.9 % confidence interval of the median of all such pairs.
    pub between_ns: [f64; 2],
    /// How many.
    pub pairs: usize,
}

/// One routine on a running clock.
#[derive(Clone, PartialEq, Debug)]
pub struct LiveTest {
    /// Which.
    pub routine: Routine,
    /// How the clock was written.
    pub writer: Writer,
    /// A turn of the low word.
    pub turn_ns: f64,
    /// Pairs of calls.
    pub pairs: usize,
    /// Of these, during which the high word flipped.
    pub flipped: usize,
    /// Pairs left out, because the thread that writes the clock was not running.
    pub writer_away: usize,
    /// Pairs left out, because a result was off by half a turn or more.
    pub wrong: usize,
    /// Words that one reader read a second.
    pub words_per_s: f64,
    /// The median of what a reading took, over all phases.
    pub level_ns: f64,
    /// Its mean ...
    pub mean_ns: f64,
    /// ... and standard deviation.
    pub deviation_ns: f64,
    /// By phase, where there were enough pairs.
    pub phases: Vec<Phase>,
}

/// Recording of one routine.
#[derive(Clone, Debug)]
pub struct Live {
    /// In order of time.
    pub pairs: Vec<Pair>,
    /// Ticks of a turn of the low word.
    pub turn: i64,
    /// Left out: the clock stood still.
    pub writer_away: usize,
    /// Left out: a result was off by half a turn or more.
    pub wrong: usize,
    /// Words read in a tick.
    pub words_per_tick: f64,
}

impl Live {
    /// Tests the pairs, of a clock whose tick is `ns`. Refused of no pair.
    pub fn test(&self, routine: Routine, writer: Writer, ns: f64) -> Result<LiveTest, Error> {
        let elapsed: Vec<i64> = self.pairs.iter().map(|pair| pair.elapsed).collect();
        let sample = Sample::new(&elapsed)?;
        let moments = sample.moments();
        Ok(LiveTest {
            routine,
            writer,
            turn_ns: self.turn as f64 * ns,
            pairs: self.pairs.len(),
            flipped: self.pairs.iter().filter(|pair| self.flips_in(pair)).count(),
            writer_away: self.writer_away,
            wrong: self.wrong,
            words_per_s: self.words_per_tick * 1e9 / ns,
            level_ns: sample.quantile(Quantile::MEDIAN) as f64 * ns,
            mean_ns: moments.mean * ns,
            deviation_ns: moments.variance.sqrt() * ns,
            phases: self.phases(ns),
        })
    }

    fn flips_in(&self, pair: &Pair) -> bool {
        pair.at.div_euclid(self.turn) != (pair.at + pair.took).div_euclid(self.turn)
    }

    fn phases(&self, ns: f64) -> Vec<Phase> {
        let mut groups = vec![Vec::new(); PHASES as usize];
        for pair in &self.pairs {
            let group = i128::from(pair.at.rem_euclid(self.turn)) * i128::from(PHASES) / i128::from(self.turn);
            groups[group as usize].push(pair.elapsed);
        }
        let confidence = Confidence::per_million(999_000).expect("a chance");
        let phase = |(number, group): (usize, &Vec<i64>)| {
            let sample = Sample::new(group).ok().filter(|sample| sample.count() >= PAIRS_MIN)?;
            let interval = sample.interval(Quantile::MEDIAN, confidence);
            Some(Phase {
                at_ns: (number as f64 + 0.5) / PHASES as f64 * self.turn as f64 * ns,
                median_ns: sample.quantile(Quantile::MEDIAN) as f64 * ns,
                between_ns: [interval.lo? as f64 * ns, interval.hi? as f64 * ns],
                pairs: sample.count(),
            })
        };
        groups.iter().enumerate().filter_map(phase).collect()
    }
}

impl LiveTest {
    /// The phase at which a reading takes longest, if that is a peak for certain; a clock that never flipped has none.
    pub fn peak(&self) -> Option<&Phase> {
        let above = |phase: &&Phase| phase.between_ns[0] > self.level_ns + self.notable_ns();
        self.phases.iter().filter(|_| self.flipped > 0).filter(above).max_by(|a, b| a.median_ns.total_cmp(&b.median_ns))
    }

    /// The phase at which it takes least, if that is a trough for certain.
    pub fn trough(&self) -> Option<&Phase> {
        let below = |phase: &&Phase| phase.between_ns[1] < self.level_ns - self.notable_ns();
        self.phases.iter().filter(|_| self.flipped > 0).filter(below).min_by(|a, b| a.median_ns.total_cmp(&b.median_ns))
    }

    fn notable_ns(&self) -> f64 {
        let words_between = match self.routine {
            Routine::VaryingRead => 3.0,
            Routine::FourRead => 4.0,
            Routine::OneRead => 1.0,
        };
        NOTABLE_WORDS * self.level_ns / words_between
    }

    /// Summary of the test, in a sentence.
    pub fn words(&self) -> String {
        use tickscope_clock::advice::duration;
        let level = duration(self.level_ns);
        let at =
            |what: &str, phase: Option<&Phase>| phase.map(|phase| format!("a {what} of {}", duration(phase.median_ns)));
        let seen: Vec<String> = [at("peak", self.peak()), at("trough", self.trough())].into_iter().flatten().collect();
        let shape = match seen.as_slice() {
            _ if self.flipped == 0 => "the high word never flipped meanwhile, so nothing can be seen".into(),
            [] => "no peak and no trough where the high word flips".into(),
            seen => format!("{} where the high word flips", seen.join(" and ")),
        };
        format!("{}: {level} from one result to the next, {shape}", self.routine)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::routine::{OneRead, Reading, Text, Word, four_read, varying_read};

    /// Ticks that reading a word takes.
    const WORD: i64 = 10;

    /// Pairs of calls by a reader whose every word takes as long, on a clock whose low word has a turn of `turn` ticks;
    /// they begin all over a turn.
    fn simulated(routine: Routine, turn: i64) -> LiveTest {
        let pair = |number: i64| {
            let at = 5 * turn.min(1 << 20) + number * 37;
            let mut now = at;
            let mut read = |word| {
                now += WORD;
                (if word == Word::High { now.div_euclid(turn) } else { now.rem_euclid(turn) }) as u32
            };
            let mut one_read = OneRead::at(Reading { high: (at / turn) as u32, low: (at % turn) as u32 });
            let mut call = |read: &mut dyn FnMut(Word) -> u32| {
                let Reading { high, low } = match routine {
                    Routine::VaryingRead => varying_read(Text::Corrected, read),
                    Routine::FourRead => four_read(Text::Corrected, read),
                    Routine::OneRead => one_read.call(Text::Corrected, read),
                };
                i64::from(high) * turn + i64::from(low)
            };
            let (first, second) = (call(&mut read), call(&mut read));
            Pair { at, elapsed: second - first, took: now - at }
        };
        let pairs: Vec<Pair> = (0..20_000).map(pair).collect();
        Live { pairs, turn, writer_away: 0, wrong: 0, words_per_tick: 0.1 }.test(routine, Writer::Atomic, 1.0).unwrap()
    }

    #[test]
    fn varying_read_peaks_by_two_words_and_dips_by_one_where_the_high_word_flips_and_the_others_do_neither() {
        let varying = simulated(Routine::VaryingRead, 1 << 10);
        let words = |phase: Option<&Phase>| phase.map(|phase| phase.median_ns / WORD as f64);
        // High, low, high; high, low, high, low: from the first low to the last 5 words. High, low, high, low; high,
        // low: 2.
        assert_eq!((varying.level_ns, words(varying.peak()), words(varying.trough())), (30.0, Some(5.0), Some(2.0)));
        for (routine, level) in [(Routine::FourRead, 40.0), (Routine::OneRead, 10.0)] {
            let test = simulated(routine, 1 << 10);
            assert_eq!((test.level_ns, test.peak(), test.trough()), (level, None, None), "{routine}");
            assert!(test.flipped > 0 && test.words().contains("no peak and no trough"), "{}", test.words());
        }
    }

    #[test]
    fn a_clock_too_slow_to_flip_within_a_read_shows_nothing() {
        let test = simulated(Routine::VaryingRead, 1 << 30);
        assert_eq!((test.flipped, test.level_ns, test.peak(), test.trough()), (0, 30.0, None, None));
        assert!(test.words().contains("never flipped"), "{}", test.words());
    }
}
