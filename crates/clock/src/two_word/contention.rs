//! Time of a reading of a clock of two words while several read it: figures 1 to 3 of the Cm* study (3.2).
//!
//! A reader calls a routine twice in a row; what it takes to read the clock is the difference of the two results.
//! `Varying-Read` returns the low word that it read last where the high word flipped meanwhile, so that difference is
//! longer where the second call saw a flip (a peak) and shorter where the first one did (a trough); `4-Read` and
//! `1-Read` return the first low word always.
//!
//! Over the time since the start it rises and falls as other readers start and stop; flips are far more frequent than a
//! slice of that time is long, so peaks and troughs do not show there. For these, pairs are grouped by their *phase*:
//! where in a turn of the low word they began, by the host's counter. A pair that takes long is likelier to see a flip,
//! so grouping by what was seen would make peaks where there are none; when a pair begins does not depend on how long
//! it takes. Assumes that the clock goes with the host's counter.

use serde::Serialize;
use tickscope_stats::{Confidence, Quantile, Sample};

use super::routine::Routine;
use crate::advice::duration;

/// Slices of the time since the start.
const SLICES: i64 = 48;
/// Groups of a turn.
const PHASES: i64 = 64;
/// Of a group with fewer pairs nothing is reported.
const PAIRS_MIN: usize = 16;
/// A peak is higher, and a trough lower, than the level of all pairs by so many readings of a word: `Varying-Read` has
/// two more where it peaks and one less in a trough; a branch that was guessed wrong, because it is taken at a flip
/// only, costs less than one.
const NOTABLE_WORDS: f64 = 2.0 / 3.0;

/// Two calls of a routine, in ticks of the clock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CallPair {
    /// When the first began, since the clock was 0.
    pub at: i64,
    /// From the first result to the second.
    pub elapsed: i64,
    /// Time of both.
    pub took: i64,
}

/// Recording of one reader, in ticks of the clock, since it was 0.
#[derive(Clone, Debug)]
pub struct Recording {
    /// In order of time.
    pub pairs: Vec<CallPair>,
    /// Ticks of a turn of the low word.
    pub turn: i64,
    /// Pairs left out: a result was off by half a turn or more.
    pub wrong: usize,
    /// Words read in a tick.
    pub words_per_tick: f64,
    /// When each of the other readers started ...
    pub started: Vec<i64>,
    /// ... and stopped.
    pub stopped: Vec<i64>,
}

/// One routine by so many readers.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Contention {
    /// The routine.
    pub routine: Routine,
    /// Threads that read at once, the measured one among them.
    pub readers: usize,
    /// Whether they are more than the processors.
    pub takes_turns: bool,
    /// A turn of the low word.
    pub turn_ns: f64,
    /// Pairs of calls by the measured reader.
    pub pairs: usize,
    /// Pairs left out, because a result was off by half a turn or more.
    pub wrong: usize,
    /// Words that it read a second.
    pub words_per_s: f64,
    /// When each of the others started, since its first pair.
    pub started_ns: Vec<f64>,
    /// When each stopped.
    pub stopped_ns: Vec<f64>,
    /// All of the time, in slices of equal length.
    pub slices: Vec<TimeSlice>,
    /// The time in which all read; `None`: no pair fell into it.
    pub together: Option<Together>,
}

/// What a reading took in a slice of the time.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct TimeSlice {
    /// Its middle, since the first pair.
    pub at_ns: f64,
    /// Pairs that began in it.
    pub pairs: usize,
    /// The median of what a reading took; `None` of no pair.
    pub median_ns: Option<f64>,
}

/// What a reading took while all read.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Together {
    /// Pairs of calls.
    pub pairs: usize,
    /// Of these, during which the high word flipped.
    pub flipped: usize,
    /// The median of what a reading took, over all phases.
    pub level_ns: f64,
    /// Its mean ...
    pub mean_ns: f64,
    /// ... and standard deviation.
    pub deviation_ns: f64,
    /// By phase, where there were enough pairs.
    pub phases: Vec<Phase>,
    /// The phase at which a reading takes longest, if that is a peak for certain; a clock that never flipped has none.
    pub peak: Option<Phase>,
    /// The phase at which it takes least, if that is a trough for certain.
    pub trough: Option<Phase>,
}

/// A group of pairs that began at about the same place in a turn.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Phase {
    /// Its middle, since the low word was 0.
    pub at_ns: f64,
    /// The median of what a reading took.
    pub median_ns: f64,
    /// 99.9 % confidence interval of the median of all such pairs.
    pub between_ns: [f64; 2],
    /// Number of pairs.
    pub pairs: usize,
}

/// Who reads the clock at once.
#[derive(Clone, Copy, Debug)]
pub struct Crowd {
    /// How many readers there are.
    pub readers: usize,
    /// True if they take turns on fewer processors.
    pub takes_turns: bool,
}

impl Recording {
    /// What a reading took, of a clock whose tick is `ns`.
    pub fn contention(&self, routine: Routine, crowd: Crowd, ns: f64) -> Contention {
        let Crowd { readers, takes_turns } = crowd;
        let first = self.pairs.first().map_or(0, |pair| pair.at);
        let since = |instants: &[i64]| instants.iter().map(|at| (at - first) as f64 * ns).collect();
        Contention {
            routine,
            readers,
            takes_turns,
            turn_ns: self.turn as f64 * ns,
            pairs: self.pairs.len(),
            wrong: self.wrong,
            words_per_s: self.words_per_tick * 1e9 / ns,
            started_ns: since(&self.started),
            stopped_ns: since(&self.stopped),
            slices: self.slices(ns),
            together: self.together(routine, ns),
        }
    }

    fn slices(&self, ns: f64) -> Vec<TimeSlice> {
        let Some((first, last)) = self.pairs.first().zip(self.pairs.last()) else { return Vec::new() };
        let all = last.at - first.at + 1;
        let mut slices = vec![Vec::new(); SLICES as usize];
        for pair in &self.pairs {
            slices[group(pair.at - first.at, SLICES, all)].push(pair.elapsed);
        }
        let slice = |(number, mut elapsed): (usize, Vec<i64>)| TimeSlice {
            at_ns: (number as f64 + 0.5) / SLICES as f64 * all as f64 * ns,
            pairs: elapsed.len(),
            median_ns: Quantile::MEDIAN.of(&mut elapsed).map(|ticks| ticks as f64 * ns),
        };
        slices.into_iter().enumerate().map(slice).collect()
    }

    /// Pairs that began and ended while all other readers read.
    fn together(&self, routine: Routine, ns: f64) -> Option<Together> {
        let from = self.started.iter().max().copied().unwrap_or(i64::MIN);
        let to = self.stopped.iter().min().copied().unwrap_or(i64::MAX);
        let within = |pair: &&CallPair| pair.at >= from && pair.at + pair.took <= to;
        let pairs: Vec<&CallPair> = self.pairs.iter().filter(within).collect();
        let sample = Sample::new(&pairs.iter().map(|pair| pair.elapsed).collect::<Vec<i64>>()).ok()?;
        let moments = sample.moments();
        let level_ns = sample.quantile(Quantile::MEDIAN) as f64 * ns;
        let flipped = pairs.iter().filter(|pair| self.flips_in(pair)).count();
        let phases = self.phases(&pairs, ns);
        let notable_ns = NOTABLE_WORDS * level_ns / words_between(routine);
        let by_median = |a: &&Phase, b: &&Phase| a.median_ns.total_cmp(&b.median_ns);
        let seen = || phases.iter().filter(|_| flipped > 0);
        let peak = seen().filter(|phase| phase.between_ns[0] > level_ns + notable_ns).max_by(by_median).copied();
        let trough = seen().filter(|phase| phase.between_ns[1] < level_ns - notable_ns).min_by(by_median).copied();
        Some(Together {
            pairs: pairs.len(),
            flipped,
            level_ns,
            mean_ns: moments.mean * ns,
            deviation_ns: moments.variance.sqrt() * ns,
            phases,
            peak,
            trough,
        })
    }

    fn flips_in(&self, pair: &CallPair) -> bool {
        pair.at.div_euclid(self.turn) != (pair.at + pair.took).div_euclid(self.turn)
    }

    fn phases(&self, pairs: &[&CallPair], ns: f64) -> Vec<Phase> {
        let mut groups = vec![Vec::new(); PHASES as usize];
        for pair in pairs {
            groups[group(pair.at.rem_euclid(self.turn), PHASES, self.turn)].push(pair.elapsed);
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

/// Which of `groups` equal parts of `all` holds `at`.
fn group(at: i64, groups: i64, all: i64) -> usize {
    (i128::from(at) * i128::from(groups) / i128::from(all)) as usize
}

/// Words that are read from the low word of one call to that of the next, where no flip is seen.
fn words_between(routine: Routine) -> f64 {
    match routine {
        Routine::VaryingRead => 3.0,
        Routine::FourRead => 4.0,
        Routine::OneRead => 1.0,
    }
}

impl Contention {
    /// What was seen while all read, in a sentence.
    pub fn words(&self) -> String {
        let by = if self.readers == 1 { "one reader".to_owned() } else { format!("{} readers", self.readers) };
        let Some(together) = &self.together else {
            return format!("{}, {by}: no pair of calls fell into the time in which all read", self.routine);
        };
        let level = duration(together.level_ns);
        let at = |what: &str, phase: Option<Phase>| Some(format!("a {what} of {}", duration(phase?.median_ns)));
        let seen: Vec<String> =
            [at("peak", together.peak), at("trough", together.trough)].into_iter().flatten().collect();
        let shape = match seen.as_slice() {
            _ if together.flipped == 0 => "the high word never flipped meanwhile, so nothing can be seen".into(),
            [] => "no peak and no trough where the high word flips".into(),
            seen => format!("{} where the high word flips", seen.join(" and ")),
        };
        format!("{}, {by}: {level} from one result to the next, {shape}", self.routine)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::two_word::routine::{OneRead, RoutineText, Word, WordPair, four_read, varying_read};

    /// Ticks that reading a word takes.
    const WORD: i64 = 10;
    const PAIRS: i64 = 20_000;
    /// Ticks from the start of one pair to the next.
    const APART: i64 = 37;

    /// Pairs of calls by a reader whose every word takes `word(at)` ticks, on a clock whose low word has a turn of
    /// `turn` ticks; they begin all over a turn.
    fn recorded(routine: Routine, turn: i64, word: fn(i64) -> i64) -> Recording {
        let pair = |number: i64| {
            let at = 5 * turn.min(1 << 20) + number * APART;
            let mut now = at;
            let mut read = |which| {
                now += word(number);
                (if which == Word::High { now.div_euclid(turn) } else { now.rem_euclid(turn) }) as u32
            };
            let mut one_read = OneRead::at(WordPair { high: (at / turn) as u32, low: (at % turn) as u32 });
            let mut call = |read: &mut dyn FnMut(Word) -> u32| {
                let WordPair { high, low } = match routine {
                    Routine::VaryingRead => varying_read(RoutineText::Corrected, read),
                    Routine::FourRead => four_read(RoutineText::Corrected, read),
                    Routine::OneRead => one_read.call(RoutineText::Corrected, read),
                };
                i64::from(high) * turn + i64::from(low)
            };
            let (first, second) = (call(&mut read), call(&mut read));
            CallPair { at, elapsed: second - first, took: now - at }
        };
        let pairs: Vec<CallPair> = (0..PAIRS).map(pair).collect();
        Recording { pairs, turn, wrong: 0, words_per_tick: 0.1, started: vec![], stopped: vec![] }
    }

    fn simulated(routine: Routine, turn: i64) -> Contention {
        recorded(routine, turn, |_| WORD).contention(routine, Crowd { readers: 1, takes_turns: false }, 1.0)
    }

    #[test]
    fn varying_read_peaks_by_two_words_and_dips_by_one_where_the_high_word_flips_and_the_others_do_neither() {
        let varying = simulated(Routine::VaryingRead, 1 << 10).together.unwrap();
        let words = |phase: Option<Phase>| phase.map(|phase| phase.median_ns / WORD as f64);
        // High, low, high; high, low, high, low: from the first low to the last 5 words. High, low, high, low; high,
        // low: 2.
        assert_eq!((varying.level_ns, words(varying.peak), words(varying.trough)), (30.0, Some(5.0), Some(2.0)));
        for (routine, level) in [(Routine::FourRead, 40.0), (Routine::OneRead, 10.0)] {
            let found = simulated(routine, 1 << 10);
            let together = found.together.as_ref().unwrap();
            assert_eq!((together.level_ns, together.peak, together.trough), (level, None, None), "{routine}");
            assert!(together.flipped > 0 && found.words().contains("no peak and no trough"), "{}", found.words());
        }
    }

    #[test]
    fn a_clock_too_slow_to_flip_within_a_read_shows_nothing() {
        let found = simulated(Routine::VaryingRead, 1 << 30);
        assert!(found.words().contains("never flipped"), "{}", found.words());
        let together = found.together.unwrap();
        assert_eq!((together.flipped, together.level_ns, together.peak, together.trough), (0, 30.0, None, None));
    }

    #[test]
    fn the_level_is_that_of_the_time_in_which_all_read_and_slices_tell_the_rise_and_the_fall() {
        // Others read from the 5000th pair to the 15 000th: a word takes three times as long.
        let crowded = |number| if (5_000..15_000).contains(&number) { 3 * WORD } else { WORD };
        let mut recording = recorded(Routine::FourRead, 1 << 12, crowded);
        let first = recording.pairs[0].at;
        recording.started = vec![first + 3_000 * APART, first + 5_000 * APART];
        recording.stopped = vec![first + 15_000 * APART, first + 17_000 * APART];
        let found = recording.contention(Routine::FourRead, Crowd { readers: 3, takes_turns: true }, 2.0);
        let together = found.together.as_ref().unwrap();
        assert_eq!((together.level_ns, together.mean_ns, together.deviation_ns), (240.0, 240.0, 0.0));
        assert_eq!(found.started_ns, [222_000.0, 370_000.0]);
        let medians: Vec<f64> = found.slices.iter().map(|slice| slice.median_ns.unwrap()).collect();
        assert_eq!((medians.len(), medians[0], medians[24], medians[47]), (48, 80.0, 240.0, 80.0));
        assert_eq!(found.slices.iter().map(|slice| slice.pairs).sum::<usize>(), PAIRS as usize);
        recording.started.push(i64::MAX);
        let found = recording.contention(Routine::FourRead, Crowd { readers: 4, takes_turns: true }, 2.0);
        assert!(found.together.is_none() && found.words().contains("no pair of calls"), "{}", found.words());
    }
}
