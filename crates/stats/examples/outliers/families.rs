//! Clean samples, and the detours that are added to them: the truth that outlier rules are judged by.
//!
//! 18 families are tuned on, 12 others only judged by. The 12 are drawn from ranges by a seed; ranges and seed are
//! older than every rule in this crate, and stay as they are: whoever moves them has tuned on them.
//!
//! 12 more are contaminated: 2 to 30 % of their samples hold a detour, of a few lengths, of any, or at a fixed period,
//! and their counters advance by 24 or 25, 1, 40 and 1000 ticks. Their ranges and first seed are older than what the
//! rules do about frequent outliers. What is done where the outliers of the last of them begin within its body was
//! changed after they were judged; so they are drawn once more, by a seed that is younger than the rules.

use std::num::NonZeroU64;

use crate::random::Random;

/// Samples of a trace, as in the iPad study.
pub const SAMPLES: usize = 10_000;
/// Ticks of a microsecond at 2.5 GHz.
const TICKS_PER_US: f64 = 2_500.0;
/// A detour lasts from 1 us to 10 ms, log-uniformly.
const DETOUR_TICKS: (f64, f64) = (TICKS_PER_US, 10_000.0 * TICKS_PER_US);

/// The seed of the 12.
const HELD_OUT_SEED: u64 = 1986;
/// Ticks that everything takes at least.
const BASE_TICKS: (f64, f64) = (20.0, 20_000.0);
/// The unit of the shape, as a share of the base.
const SCALE_SHARE: (f64, f64) = (0.02, 1.0);
/// Steps of the counter, in ticks.
const QUANTA: [f64; 4] = [1.0, 2.0, 10.0, 26.0];

/// The seed of the contaminated 12 that the rules were judged by first.
pub const CONTAMINATED_SEED: u64 = 2015;
/// And of others of the same kinds, drawn when the rules were settled.
pub const SETTLED_SEED: u64 = 2020;
/// A detour of fixed length lasts so long.
const LENGTH_TICKS: (f64, f64) = (10.0 * TICKS_PER_US, 1_000.0 * TICKS_PER_US);
/// The unit of a contaminated family's shape, in steps of its counter: of one that resolves the work.
const FINE_STEPS: (f64, f64) = (10.0, 200.0);
/// And of one that hardly does.
const COARSE_STEPS: (f64, f64) = (0.5, 2.0);
/// A 100 MHz counter that is read in ticks of 2.45 GHz: it advances by 24 or 25 of them.
const LATTICE: f64 = 24.5;

/// A distribution of clean samples: `base + scale x shape`, in steps of `quantum`, and the noise that is added.
#[derive(Clone, Debug)]
pub struct Family {
    /// Name in the table.
    pub name: String,
    /// Step of the counter, in ticks; where it is not whole, by the whole numbers on both sides of it.
    quantum: f64,
    base: f64,
    scale: f64,
    shape: Shape,
    noise: Noise,
}

/// Which samples hold a detour, and how long it takes.
#[derive(Clone, Debug)]
enum Noise {
    /// Any, by chance, from 1 us to 10 ms.
    Spread,
    /// Any, by chance; one of these lengths in ticks, each as likely.
    Lengths(Vec<f64>),
    /// At a fixed period, of this length in ticks.
    Periodic(f64),
}

#[derive(Clone, Debug)]
enum Shape {
    /// `(share, value)`.
    Steps(&'static [(f64, f64)]),
    /// `(share, centre, deviation)`.
    Modes(Vec<(f64, f64, f64)>),
    Normal,
    Gamma(f64),
    ReflectedGamma(f64),
    LogNormal(f64),
    Weibull(f64),
    Uniform,
    /// Where the peak is, from 0 to 1.
    Triangular(f64),
    InverseGaussian(f64),
    Lomax(f64),
    LogLogistic(f64),
    /// How much longer the right side is than the left.
    Laplace(f64),
    /// The lag-1 correlation of a normal.
    Drift(f64),
    /// Samples in a period of a ramp.
    Ramp(f64),
    /// The share of the trace after which a slow start has fallen to 1/e.
    WarmUp(f64),
}

/// A trace, and which of its samples hold a detour.
pub struct Trace {
    /// Ticks, in order of time.
    pub values: Vec<i64>,
    /// As many.
    pub detour: Vec<bool>,
}

/// The 18 families of the research note: its list names kinds and spreads, the parameters here are chosen to match.
pub fn tuned_on() -> Vec<Family> {
    const EQUAL: &[(f64, f64)] = &[(0.97, 20.0), (0.025, 22.0), (0.005, 18.0)];
    const EVEN: &[(f64, f64)] = &[(0.25, 18.0), (0.5, 20.0), (0.25, 22.0)];
    const TOP: &[(f64, f64)] = &[(0.3, 18.0), (0.7, 20.0)];
    const BOTTOM: &[(f64, f64)] = &[(0.7, 20.0), (0.3, 22.0)];
    let cache = |share: f64| Shape::Modes(vec![(1.0 - share, 200.0, 10.0), (share, 600.0, 40.0)]);
    let mut families = vec![
        family("97 % equal ticks", 0.0, 1.0, Shape::Steps(EQUAL)),
        family("ticks 18/20/22", 0.0, 1.0, Shape::Steps(EVEN)),
        family("ticks, most at the top", 0.0, 1.0, Shape::Steps(TOP)),
        family("ticks, most at the bottom", 0.0, 1.0, Shape::Steps(BOTTOM)),
        family("normal, 1 %", 1000.0, 10.0, Shape::Normal),
        family("normal, 10 %", 1000.0, 100.0, Shape::Normal),
        family("reflected gamma 2", 2000.0, 100.0, Shape::ReflectedGamma(2.0)),
        family("gamma 2", 200.0, 50.0, Shape::Gamma(2.0)),
        family("exponential", 200.0, 100.0, Shape::Gamma(1.0)),
        family("cache 95/5", 0.0, 1.0, cache(0.05)),
        family("cache 70/30", 0.0, 1.0, cache(0.3)),
    ];
    let log_normal = |sigma: f64| family(&format!("log-normal {sigma}"), 200.0, 100.0, Shape::LogNormal(sigma));
    families.extend([0.3, 0.6, 1.0, 1.5, 2.5, 4.0, 7.0].map(log_normal));
    families
}

fn family(name: &str, base: f64, scale: f64, shape: Shape) -> Family {
    Family { name: name.into(), quantum: 2.0, base, scale, shape, noise: Noise::Spread }
}

/// The 12 families that no rule has seen: kinds other than the 18, parameters drawn from the ranges that stand here.
pub fn held_out() -> Vec<Family> {
    let mut random = Random::new(HELD_OUT_SEED);
    let draw = &mut random;
    let shapes = [
        ("Weibull", Shape::Weibull(draw.log_within((0.6, 3.0)))),
        ("uniform", Shape::Uniform),
        ("triangular", Shape::Triangular(draw.within((0.0, 1.0)))),
        ("inverse Gaussian", Shape::InverseGaussian(draw.log_within((0.3, 5.0)))),
        ("Lomax", Shape::Lomax(draw.within((1.2, 6.0)))),
        ("log-logistic", Shape::LogLogistic(draw.within((1.5, 8.0)))),
        ("Laplace", Shape::Laplace(draw.log_within((0.3, 3.0)))),
        ("three modes", three_modes(draw)),
        ("drift", Shape::Drift(draw.within((0.9, 0.999)))),
        ("coarse gamma", Shape::Gamma(draw.within((1.0, 6.0)))),
        ("ramp", Shape::Ramp(draw.log_within((10.0, 2_000.0)))),
        ("warm-up", Shape::WarmUp(draw.log_within((0.01, 0.3)))),
    ];
    shapes.map(|(name, shape)| drawn(name, shape, draw)).to_vec()
}

fn three_modes(draw: &mut Random) -> Shape {
    let (second, third) = (draw.within((0.02, 0.4)), draw.within((0.01, 0.2)));
    let (near, far) = (draw.within((2.0, 6.0)), draw.within((8.0, 20.0)));
    Shape::Modes(vec![(1.0 - second - third, 1.0, 0.2), (second, near, 0.4), (third, far, 0.8)])
}

fn drawn(name: &str, shape: Shape, draw: &mut Random) -> Family {
    let base = draw.log_within(BASE_TICKS);
    let scale = base * draw.log_within(SCALE_SHARE);
    let fine = QUANTA[(draw.unit() * QUANTA.len() as f64) as usize];
    // Coarse: a clock whose step is a good part of the spread.
    let quantum = if name.starts_with("coarse") { (scale * draw.within((0.3, 3.0))).ceil() } else { fine };
    Family { name: name.into(), quantum, base, scale, shape, noise: Noise::Spread }
}

/// The 12 families of frequent outliers: every way of noise on every step of the counter.
pub fn contaminated(seed: u64) -> Vec<Family> {
    let mut random = Random::new(seed);
    let draw = &mut random;
    let fixed_work = Shape::Uniform;
    let near_modes = |far: f64| Shape::Modes(vec![(0.8, 1.0, 0.1), (0.2, far, 0.2)]);
    let bodies = [
        ("24/25, normal, one length", LATTICE, Shape::Normal, 1),
        ("24/25, gamma, spread", LATTICE, Shape::Gamma(draw.within((2.0, 6.0))), SPREAD),
        ("24/25, fixed work, two lengths", LATTICE, fixed_work.clone(), 2),
        ("1, exponential, spread", 1.0, Shape::Gamma(1.0), SPREAD),
        ("1, log-normal, one length", 1.0, Shape::LogNormal(draw.within((0.3, 0.8))), 1),
        ("1, two modes, three lengths", 1.0, near_modes(draw.within((2.0, 4.0))), 3),
        ("1, uniform, periodic", 1.0, Shape::Uniform, PERIODIC),
        ("40, Weibull, two lengths", 40.0, Shape::Weibull(draw.within((1.0, 3.0))), 2),
        ("40, reflected gamma, periodic", 40.0, Shape::ReflectedGamma(draw.within((2.0, 4.0))), PERIODIC),
        ("40, fixed work, spread", 40.0, fixed_work, SPREAD),
        ("1000, drift, three lengths", 1_000.0, Shape::Drift(draw.within((0.9, 0.999))), 3),
        ("1000, log-normal, spread", 1_000.0, Shape::LogNormal(draw.within((0.3, 0.8))), SPREAD),
    ];
    bodies.map(|(name, quantum, shape, lengths)| contaminated_family(name, quantum, shape, lengths, draw)).to_vec()
}

/// In place of a number of lengths.
const SPREAD: usize = 0;
/// In place of a number of lengths.
const PERIODIC: usize = usize::MAX;

fn contaminated_family(name: &str, quantum: f64, shape: Shape, lengths: usize, draw: &mut Random) -> Family {
    let base = draw.log_within(BASE_TICKS);
    let scale = quantum * draw.log_within(if quantum > 1.0 { COARSE_STEPS } else { FINE_STEPS });
    let noise = match lengths {
        SPREAD => Noise::Spread,
        PERIODIC => Noise::Periodic(draw.log_within(LENGTH_TICKS)),
        lengths => Noise::Lengths((0..lengths).map(|_| draw.log_within(LENGTH_TICKS)).collect()),
    };
    Family { name: name.into(), quantum, base, scale, shape, noise }
}

impl Family {
    /// The most that the counter advances by at once, in ticks: what a caller knows of its clock.
    pub fn step(&self) -> NonZeroU64 {
        NonZeroU64::new(self.quantum.ceil() as u64).expect("every counter advances")
    }

    /// One trace; this share of the samples holds a detour, the same seed gives the same trace.
    pub fn trace(&self, detours: f64, seed: u64) -> Trace {
        let mut random = Random::new(seed);
        let clean = self.shape.samples(&mut random);
        let mut trace = Trace { values: Vec::with_capacity(SAMPLES), detour: Vec::with_capacity(SAMPLES) };
        for (at, unit) in clean.into_iter().enumerate() {
            let detour = self.noise.detour(at as f64, detours, &mut random);
            let exact = self.base + self.scale * unit + detour.unwrap_or(0.0);
            trace.values.push(self.ticks(exact, &mut random));
            trace.detour.push(detour.is_some());
        }
        trace
    }

    fn ticks(&self, exact: f64, random: &mut Random) -> i64 {
        let on_the_lattice = (exact / self.quantum).round() * self.quantum;
        // Both readings that a duration is the difference of are rounded.
        let phase = if self.quantum.fract() > 0.0 { random.unit() } else { 0.0 };
        (on_the_lattice + phase).floor() as i64
    }
}

impl Noise {
    /// The length of the detour that this sample holds, if it does.
    fn detour(&self, at: f64, share: f64, random: &mut Random) -> Option<f64> {
        match self {
            Self::Spread => (random.unit() < share).then(|| random.log_within(DETOUR_TICKS)),
            Self::Lengths(lengths) => {
                (random.unit() < share).then(|| *pick(lengths, |_| 1.0 / lengths.len() as f64, random))
            }
            Self::Periodic(length) => (((at + 1.0) * share).floor() > (at * share).floor()).then_some(*length),
        }
    }
}

impl Shape {
    fn samples(&self, random: &mut Random) -> Vec<f64> {
        let mut state = random.normal();
        (0..SAMPLES).map(|at| self.sample(random, at as f64, &mut state)).collect()
    }

    /// The sample at a place in the trace; `state` is the one before it, for those that remember.
    fn sample(&self, random: &mut Random, at: f64, state: &mut f64) -> f64 {
        match self {
            Self::Steps(steps) => pick(steps, |step| step.0, random).1,
            Self::Modes(modes) => {
                let &(_, centre, deviation) = pick(modes, |mode| mode.0, random);
                centre + deviation * random.normal()
            }
            Self::Normal => random.normal(),
            Self::Gamma(shape) => random.gamma(*shape),
            Self::ReflectedGamma(shape) => -random.gamma(*shape),
            Self::LogNormal(sigma) => (sigma * random.normal()).exp(),
            Self::Weibull(shape) => random.exponential().powf(1.0 / shape),
            Self::Uniform => random.unit(),
            Self::Triangular(peak) => {
                let unit = random.unit();
                let right = || 1.0 - ((1.0 - unit) * (1.0 - peak)).sqrt();
                if unit < *peak { (unit * peak).sqrt() } else { right() }
            }
            Self::InverseGaussian(lambda) => inverse_gaussian(*lambda, random),
            Self::Lomax(alpha) => random.unit().powf(-1.0 / alpha) - 1.0,
            Self::LogLogistic(beta) => (1.0 / random.unit() - 1.0).powf(1.0 / beta),
            Self::Laplace(right) => {
                let side = random.unit() * (1.0 + right);
                if side < 1.0 { -random.exponential() / 20.0 } else { right * random.exponential() / 20.0 }
            }
            Self::Drift(correlation) => {
                *state = correlation * *state + (1.0 - correlation * correlation).sqrt() * random.normal();
                4.0 + *state
            }
            Self::Ramp(period) => (at / period).fract() + 0.05 * random.normal(),
            Self::WarmUp(share) => 5.0 * (-at / (share * SAMPLES as f64)).exp() + random.gamma(4.0) / 4.0,
        }
    }
}

fn pick<'a, T>(parts: &'a [T], share: impl Fn(&T) -> f64, random: &mut Random) -> &'a T {
    let mut left = random.unit();
    for part in &parts[..parts.len() - 1] {
        left -= share(part);
        if left < 0.0 {
            return part;
        }
    }
    &parts[parts.len() - 1]
}

/// Of mean 1 (Michael, Schucany and Haas 1976).
fn inverse_gaussian(lambda: f64, random: &mut Random) -> f64 {
    let y = random.normal().powi(2);
    let x = 1.0 + y / (2.0 * lambda) - (4.0 * lambda * y + y * y).sqrt() / (2.0 * lambda);
    if random.unit() <= 1.0 / (1.0 + x) { x } else { 1.0 / x }
}
