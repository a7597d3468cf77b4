//! A simulated host: a counter, and a clock in nanoseconds that wanders, is slewed and is stepped; every instant's
//! truth is known.
//!
//! Instants are counted in 1/16 of a tick of the counter and the clock in exact fractions of a nanosecond, so what a
//! reading rounds off is part of the simulation.
#![allow(dead_code, reason = "each test file uses another part")]

use proptest::prelude::*;
use tickscope_bracket::{Bracket, Epochs, Model, Ratio, ReadingWidths, Rho};
use tickscope_tick::{Interval, Reference, Stairs, Tick};

pub const PER_TICK: i64 = 16;
const PIECE_MS: i64 = 100;
pub const MS_NS: i64 = 1_000_000;
/// How far the rate swings within an act, parts per 10^9.
const WANDER_PPB: i64 = 1_000;
/// Between two readings of the background.
const BACKGROUND_MS: i64 = 200;

/// A stretch with one slew; it begins with a step.
#[derive(Clone, Copy, Debug)]
pub struct Act {
    pub length_ms: i64,
    pub slew_ppb: i64,
    /// Nanoseconds that the clock jumps by at the beginning.
    pub step_ns: i64,
    /// Whether a clock monitor saw the step, or the change of slew.
    pub declared: bool,
    /// How far the declared span reaches to either side, in microseconds.
    pub seen_us: (i64, i64),
}

/// What is declared of the clock.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Bound {
    /// The wander alone: every change of slew is a break.
    Narrow,
    /// Any slew of a kernel.
    Wide,
}

#[derive(Clone, Debug)]
pub struct Host {
    pub hertz: i64,
    pub bound: Bound,
    pub acts: Vec<Act>,
    /// Which values the clock and the counter show.
    pub stairs: [Stairs; 2],
    seed: u64,
    /// Where each piece begins, where the clock stands there (in 1/(16 hertz) ns), and how fast it runs.
    pieces: Vec<(i64, i128, i64)>,
    /// Where each act begins, and where the last one ends.
    begins: Vec<i64>,
}

/// A reading of the clock, and where the counter truly stood, rounded down.
#[derive(Clone, Copy, Debug)]
pub struct Stamp {
    pub ns: i64,
    pub counter: i64,
    /// The instant.
    pub at: i64,
}

pub struct Random(pub u64);

impl Random {
    /// SplitMix64, scaled: instants lie far beyond 32 bits.
    pub fn below(&mut self, limit: i64) -> i64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((u128::from(mixed ^ (mixed >> 31)) * limit.max(1) as u128) >> 64) as i64
    }
}

impl Host {
    /// A clock that stands somewhere in this century.
    pub fn new(hertz: i64, bound: Bound, base_ppb: i64, acts: Vec<Act>, seed: u64) -> Self {
        Self::standing(1_700_000_000_000_000_000, hertz, bound, base_ppb, acts, seed)
    }

    /// A clock that stands at `ns` when the counter stands at 2^40.
    pub fn standing(ns: i64, hertz: i64, bound: Bound, base_ppb: i64, acts: Vec<Act>, seed: u64) -> Self {
        let mut random = Random(seed);
        let unit = i128::from(hertz) * i128::from(PER_TICK);
        let (mut at, mut stands) = ((1 << 40) * PER_TICK, i128::from(ns) * unit);
        let (mut pieces, mut begins) = (Vec::new(), Vec::new());
        for act in &acts {
            begins.push(at);
            stands += i128::from(act.step_ns) * unit;
            for _ in 0..(act.length_ms / PIECE_MS).max(1) {
                let wander = [WANDER_PPB, -WANDER_PPB, 0, random.below(WANDER_PPB)][random.below(4) as usize];
                let rate = 1_000_000_000 + base_ppb + act.slew_ppb + wander;
                pieces.push((at, stands, rate));
                let length = hertz / 1000 * PIECE_MS * PER_TICK;
                at += length;
                stands += i128::from(length) * i128::from(rate);
            }
        }
        begins.push(at);
        Self { hertz, bound, acts, stairs: [Stairs::default(); 2], seed, pieces, begins }
    }

    /// The same host, whose clock and counter move in steps.
    pub fn stepping(self, stairs: [Stairs; 2]) -> Self {
        Self { stairs, ..self }
    }

    pub fn begin(&self) -> i64 {
        self.begins[0]
    }

    pub fn end(&self) -> i64 {
        self.begins[self.begins.len() - 1]
    }

    /// What the clock reads at an instant.
    pub fn reads(&self, at: i64) -> i64 {
        self.stairs[0].shown(self.stands(at).div_euclid(self.unit()) as i64)
    }

    /// A nanosecond of what [`Host::stands`] counts.
    pub fn unit(&self) -> i128 {
        i128::from(self.hertz) * i128::from(PER_TICK)
    }

    /// Where the clock stands at an instant, exactly.
    pub fn stands(&self, at: i64) -> i128 {
        let piece = self.pieces.partition_point(|&(begin, ..)| begin <= at).saturating_sub(1);
        let (begin, stands, rate) = self.pieces[piece];
        stands + i128::from(at - begin) * i128::from(rate)
    }

    /// The first instant at which a clock that is never set stands at `target` or beyond.
    pub fn when(&self, target: i128) -> i64 {
        let (mut before, mut at) = (self.begin() - 1, self.end() + 200 * (self.end() - self.begin()));
        while at - before > 1 {
            let middle = before + (at - before) / 2;
            if self.stands(middle) < target { before = middle } else { at = middle }
        }
        at
    }

    /// What the counter reads at an instant.
    pub fn counter(&self, at: i64) -> i64 {
        self.stairs[1].shown(at.div_euclid(PER_TICK))
    }

    /// So many nanoseconds of the counter's nominal time.
    pub fn lasting(&self, ns: i64) -> i64 {
        (i128::from(ns) * i128::from(self.hertz) * i128::from(PER_TICK) / 1_000_000_000) as i64
    }

    pub fn stamp(&self, at: i64) -> Stamp {
        Stamp { ns: self.reads(at), counter: at.div_euclid(PER_TICK), at }
    }

    /// The clock read between two readings of the counter.
    pub fn bracket(&self, at: i64, before_ns: i64, after_ns: i64) -> Bracket {
        let (before, after) = (at - self.lasting(before_ns), at + self.lasting(after_ns));
        Bracket::new(Some(self.counter(before)), self.reads(at), Some(self.counter(after)))
    }

    /// Readings at both ends, a few a second between, and several around each of `exchanges` instants with two stamps
    /// between; and stamps at any other instant. One reading of some dozen is interrupted for milliseconds, but none at
    /// the ends.
    pub fn measured(&self, exchanges: usize, anywhere: usize) -> (Vec<Bracket>, Vec<Stamp>) {
        self.measured_amid([29, 31], exchanges, anywhere)
    }

    /// The same on a host that interrupts one reading of `interrupted` before the clock is read, or after.
    pub fn measured_amid(
        &self,
        interrupted: [i64; 2],
        exchanges: usize,
        anywhere: usize,
    ) -> (Vec<Bracket>, Vec<Stamp>) {
        let mut random = Random(self.seed ^ 0x9e37);
        let (mut brackets, mut stamps) = (Vec::new(), Vec::new());
        let mut read = |at: i64, random: &mut Random| {
            let mut delay = |interrupted: bool| 30 + random.below(if interrupted { 10 * MS_NS } else { 150 });
            let amid = (self.begin() + self.lasting(20 * MS_NS)..self.end() - self.lasting(20 * MS_NS)).contains(&at);
            let [before, after] = interrupted.map(|one_of| delay(amid && at % one_of == 0));
            brackets.push(self.bracket(at, before, after));
        };
        let length = self.end() - 1 - self.begin();
        let background = length / self.lasting(BACKGROUND_MS * MS_NS) + 1;
        for number in 0..=background {
            read(self.begin() + (i128::from(length) * i128::from(number) / i128::from(background)) as i64, &mut random);
        }
        for _ in 0..exchanges {
            let mut at = self.begin() + random.below(length - self.lasting(MS_NS));
            for number in 0..6 {
                read(at, &mut random);
                at += self.lasting(500 + random.below(30_000));
                if number == 1 || number == 3 {
                    stamps.push(self.stamp(at));
                    at += self.lasting(200 + random.below(20_000));
                }
            }
        }
        stamps.extend((0..anywhere).map(|_| self.stamp(self.begin() + random.below(length))));
        // No order is promised.
        let turned = random.below(brackets.len() as i64) as usize;
        brackets.rotate_left(turned);
        (brackets, stamps)
    }

    /// Whether the clock breaks at the beginning of an act, under the bound that is declared.
    pub fn breaks_at(&self, act: usize) -> bool {
        let slewed = self.bound == Bound::Narrow && self.acts[act].slew_ppb != self.acts[act - 1].slew_ppb;
        self.acts[act].step_ns != 0 || slewed
    }

    /// The instants of the breaks, with their acts.
    pub fn breaks(&self) -> Vec<(usize, i64)> {
        (1..self.acts.len()).filter(|&act| self.breaks_at(act)).map(|act| (act, self.begins[act])).collect()
    }

    /// What the clock monitor declares.
    pub fn declared(&self) -> Vec<Interval<Tick<Reference>>> {
        let span = |(act, at): (usize, i64)| {
            let Act { declared, seen_us: (before, after), .. } = self.acts[act];
            let [lo, hi] = [at - self.lasting(before * 1000), at + self.lasting(after * 1000)];
            declared.then(|| Interval::new(Tick::new(self.counter(lo)), Tick::new(self.counter(hi))).unwrap())
        };
        self.breaks().into_iter().filter_map(span).collect()
    }

    pub fn model(&self) -> Model {
        let slewed = if self.bound == Bound::Wide { 500_000 } else { 0 };
        // Relative to a clock that may itself run 600 ppm too slow.
        let rho_ppb = (slewed + WANDER_PPB) * 10_007 / 10_000 + 1;
        self.model_of(rho_ppb as u32)
    }

    pub fn model_of(&self, rho_ppb: u32) -> Model {
        let nominal = Ratio::new(self.hertz as u64, 1_000_000_000).unwrap();
        let model = Model::new(Rho::declared_ppb(rho_ppb).unwrap(), nominal, Tick::new(0));
        let [local_ticks, reference_ticks] = self.stairs.map(|stairs| stairs.widest_gap());
        Model { prior_ppm: Epochs::KERNEL_PRIOR_PPM, widths: ReadingWidths { local_ticks, reference_ticks }, ..model }
    }

    /// The stretches between breaks.
    pub fn stretches(&self) -> Vec<(i64, i64)> {
        let inner: Vec<i64> = self.breaks().into_iter().map(|(_, at)| at).collect();
        let begins = [self.begin()].into_iter().chain(inner.iter().copied());
        begins.zip(inner.iter().copied().chain([self.end()])).collect()
    }
}

/// Counters that move by 1, by 24 or 25, by 40, by 1000 and unevenly.
pub fn stairs() -> impl Strategy<Value = Stairs> {
    let some = [(1, 1, 0), (49, 2, 0), (40, 1, 0), (1000, 1, 0), (40, 1, 13), (7, 3, 1)];
    let some = some.map(|(numerator, denominator, uneven)| Stairs::new(numerator, denominator, uneven).unwrap());
    prop::sample::select(some.to_vec())
}

/// Hosts whose bound is honest, and whose steps are declared, or so large that they show.
pub fn hosts() -> impl Strategy<Value = Host> {
    let slew = prop::sample::select(vec![0, 100_000, -100_000, 500_000, -500_000]);
    let step = prop::sample::select(vec![0, 0, MS_NS, -MS_NS, 1000 * MS_NS, -1000 * MS_NS, 50, -50]);
    let seen = (1i64..50_000, 1i64..50_000);
    let act = (500i64..2_500, slew, step, any::<bool>(), seen).prop_map(
        |(length_ms, slew_ppb, step_ns, declared, seen_us)| {
            let shows = step_ns.abs() >= MS_NS;
            Act { length_ms, slew_ppb, step_ns, declared: declared || !shows, seen_us }
        },
    );
    let bound = prop::sample::select(vec![Bound::Narrow, Bound::Wide]);
    let hertz = prop::sample::select(vec![2_100_000_000i64, 2_499_998_000, 1_000_000_000, 25_000_000]);
    let stairs = (stairs(), stairs());
    (hertz, bound, -100_000i64..=100_000, prop::collection::vec(act, 1..5), any::<u64>(), stairs).prop_map(
        |(hertz, bound, base_ppb, acts, seed, (clock, counter))| {
            Host::new(hertz, bound, base_ppb, acts, seed).stepping([clock, counter])
        },
    )
}
