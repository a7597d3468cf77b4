//! A clock map to be seen: its band and estimate over the run, and the brackets that it stands on.
//!
//! Ticks grow by billions a second, the band is some microseconds wide: so a straight line between the ends of the
//! estimate is taken off everything, in whole ticks, the same for all that stands at one tick. What is left keeps every
//! order and every distance between constraint, bound and estimate.

use serde::Serialize;
use tickscope_bracket::{Bracket, ClockMap};
use tickscope_store::Pair;
use tickscope_tick::{Label, Local, Tick};

/// A clock map over the run. Paths along it are ticks of the reference after its first; heights are ticks of the
/// reference above the straight line.
#[derive(Clone, Debug, Serialize)]
pub struct ClockMapCurve {
    /// The domain.
    pub domain: Label,
    /// The reference.
    pub reference: Label,
    /// `[place, lo, estimate, hi]` at even distances, and at the brackets shown that the envelope stands on.
    pub samples: Vec<[i64; 4]>,
    /// Some of the brackets' sides, in the order of their places.
    pub brackets: Vec<ShownBracket>,
    /// Where the evidence came from, by name.
    pub sources: Vec<ShownSource>,
    /// Sides of brackets in all: a bracket has one or two.
    pub sides: usize,
    /// Sides that the envelope stands on.
    pub tight: usize,
    /// How many of those are shown; the others shown are spread evenly over the rest.
    pub tight_shown: usize,
}

/// One side of a bracket. In JSON an array of its fields, in this order: there are many.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(into = "(i64, i64, u8, u8, usize)")]
pub struct ShownBracket {
    /// Where along the run.
    pub place: i64,
    /// How high.
    pub height: i64,
    /// True: `after`, the truth is not above. False: `before`, the truth is not below.
    pub above: bool,
    /// True if the envelope stands on it.
    pub tight: bool,
    /// Index into the sources.
    pub source: usize,
}

/// The brackets of one source of evidence.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct ShownSource {
    /// Its name, such as `probes`.
    pub name: String,
    /// How many brackets.
    pub brackets: usize,
    /// On how many of their sides the envelope stands.
    pub tight: usize,
}

/// At even distances; a page is some thousand pixels wide, and brackets bring their own.
const SAMPLES: i64 = 400;
/// Sides shown that the envelope stands on.
const MOST_TIGHT: usize = 700;
/// Other sides shown.
const MOST_LOOSE: usize = 500;

impl From<ShownBracket> for (i64, i64, u8, u8, usize) {
    fn from(ShownBracket { place, height, above, tight, source }: ShownBracket) -> Self {
        (place, height, above.into(), tight.into(), source)
    }
}

impl ClockMapCurve {
    /// Shows half of the brackets that it showed; after some times none.
    pub fn thin(&mut self) {
        let mut shown = std::mem::take(&mut self.brackets);
        if shown.len() == 1 {
            shown.clear();
        }
        self.brackets = shown.into_iter().step_by(2).collect();
        self.tight_shown = self.brackets.iter().filter(|shown| shown.tight).count();
    }

    /// The curve of `clock_map`, made of this evidence: brackets by the name of their source.
    pub(crate) fn of(pair: &Pair, evidence: &[(&str, &[Bracket])], clock_map: &ClockMap) -> Option<Self> {
        let at = || evidence.iter().flat_map(|(_, brackets)| brackets.iter()).map(|bracket| bracket.at.get());
        let (first, last) = (at().min()?, at().max()?);
        let line = Line::through(clock_map, first, last)?;
        let mut curve = Self {
            domain: pair.domain.clone(),
            reference: pair.reference.clone(),
            samples: Vec::new(),
            brackets: Vec::new(),
            sources: sources(evidence),
            sides: 0,
            tight: 0,
            tight_shown: 0,
        };
        let mut at = curve.stand_on(evidence, clock_map, line);
        at.extend((0..=SAMPLES).map(|step| {
            first + ((i128::from(last) - i128::from(first)) * i128::from(step) / i128::from(SAMPLES)) as i64
        }));
        at.sort_unstable();
        at.dedup();
        curve.samples = at.into_iter().filter_map(|at| line.sample(clock_map, at)).collect();
        Some(curve)
    }

    /// Chooses the brackets to show; returns the ticks of those that the envelope stands on.
    fn stand_on(&mut self, evidence: &[(&str, &[Bracket])], clock_map: &ClockMap, line: Line) -> Vec<i64> {
        let (mut tight, mut loose) = (Vec::new(), Vec::new());
        let named = evidence.iter().flat_map(|&(name, brackets)| brackets.iter().map(move |bracket| (name, bracket)));
        for (name, bracket) in named {
            let at = bracket.at.get();
            let Ok(interval) = clock_map.interval(bracket.at) else { continue };
            let Some(source) = self.sources.iter().position(|source| source.name == name) else { continue };
            let sides = [(bracket.before, interval.lo(), false), (bracket.after, interval.hi(), true)];
            for (side, bound, above) in sides {
                let Some(side) = side else { continue };
                let shown = ShownBracket {
                    place: line.place(at),
                    height: line.height(at, side.get()),
                    above,
                    tight: side == bound,
                    source,
                };
                self.sources[source].tight += usize::from(shown.tight);
                if shown.tight { tight.push((at, shown)) } else { loose.push((at, shown)) }
            }
        }
        self.sides = tight.len() + loose.len();
        self.tight = tight.len();
        let (tight, loose) = (thinned(tight, MOST_TIGHT), thinned(loose, MOST_LOOSE));
        self.tight_shown = tight.len();
        self.brackets = tight.iter().chain(&loose).map(|&(_, shown)| shown).collect();
        self.brackets.sort_by_key(ShownBracket::order);
        tight.into_iter().map(|(at, _)| at).collect()
    }
}

impl ShownBracket {
    fn order(&self) -> (i64, bool, i64) {
        (self.place, self.above, self.height)
    }
}

/// At most `most` of them, evenly by their places: the same ones every time.
fn thinned(mut all: Vec<(i64, ShownBracket)>, most: usize) -> Vec<(i64, ShownBracket)> {
    all.sort_by_key(|(_, shown)| shown.order());
    let every = all.len().div_ceil(most).max(1);
    all.into_iter().step_by(every).collect()
}

fn sources(evidence: &[(&str, &[Bracket])]) -> Vec<ShownSource> {
    let mut found: Vec<ShownSource> = Vec::new();
    for (name, brackets) in evidence {
        match found.iter_mut().find(|source| source.name == *name) {
            Some(source) => source.brackets += brackets.len(),
            None => found.push(ShownSource { name: (*name).into(), brackets: brackets.len(), tight: 0 }),
        }
    }
    found
}

/// A straight line from the estimate at the first tick of the evidence to the one at the last.
#[derive(Clone, Copy)]
struct Line {
    local: i64,
    reference: i64,
    rise: i128,
    run: i128,
}

impl Line {
    fn through(clock_map: &ClockMap, first: i64, last: i64) -> Option<Self> {
        let estimate = |at: i64| clock_map.estimate(Tick::<Local>::new(at)).ok().map(Tick::get);
        let (low, high) = (estimate(first)?, estimate(last)?);
        let (rise, run) = (i128::from(high) - i128::from(low), i128::from(last) - i128::from(first));
        Some(Self { local: first, reference: low, rise, run: run.max(1) })
    }

    /// Where the clock map stands at a local tick.
    fn sample(self, clock_map: &ClockMap, at: i64) -> Option<[i64; 4]> {
        let interval = clock_map.interval(Tick::new(at)).ok()?;
        let estimate = clock_map.estimate(Tick::new(at)).ok()?;
        let [lo, estimate, hi] = [interval.lo(), estimate, interval.hi()].map(|tick| self.height(at, tick.get()));
        Some([self.place(at), lo, estimate, hi])
    }

    /// How far the line has risen at a local tick.
    fn place(self, at: i64) -> i64 {
        ((i128::from(at) - i128::from(self.local)) * self.rise).div_euclid(self.run) as i64
    }

    /// How far a tick of the reference lies above the line at a local tick.
    fn height(self, at: i64, tick: i64) -> i64 {
        (i128::from(tick) - i128::from(self.reference) - i128::from(self.place(at))) as i64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tickscope_bracket::{Model, Ratio, Rho};

    /// Exchanges every million ticks; those of `quick` are narrow, the others wide.
    fn curve(count: i64, quick: impl Fn(i64) -> bool) -> ClockMapCurve {
        let (mut quicks, mut slows) = (Vec::new(), Vec::new());
        for n in 0..count {
            let (at, half) = (n * 1_000_000, if quick(n) { 100 } else { 90_000 });
            let ends = [(Some(at + 5_000 - half), None), (None, Some(at + 5_000 + half))];
            let brackets = ends.map(|(before, after)| Bracket::new(before, at, after));
            if quick(n) { quicks.extend(brackets) } else { slows.extend(brackets) }
        }
        let brackets: Vec<Bracket> = quicks.iter().chain(&slows).copied().collect();
        let model = Model::new("1".parse::<Rho>().unwrap(), Ratio::new(1, 1).unwrap(), Tick::new(count * 500_000));
        let clock_map = ClockMap::new(&brackets, &model).unwrap();
        let pair = Pair { reference: "a.tsc".parse().unwrap(), domain: "b.tsc".parse().unwrap() };
        ClockMapCurve::of(&pair, &[("quick", &quicks), ("slow", &slows)], &clock_map).unwrap()
    }

    #[test]
    fn what_the_envelope_stands_on_is_kept_and_the_rest_thinned() {
        let curve = curve(5_000, |n| n % 50 == 0);
        assert_eq!((curve.sides, curve.tight_shown), (10_000, curve.tight));
        assert!(curve.tight >= 150 && curve.tight <= 200, "{}", curve.tight);
        let loose = curve.brackets.len() - curve.tight_shown;
        assert!(loose > 0 && loose <= MOST_LOOSE);
        assert_eq!(curve.brackets.iter().filter(|shown| shown.tight).count(), curve.tight);
        let tight: Vec<_> = curve.sources.iter().map(|source| (source.name.as_str(), source.brackets)).collect();
        assert_eq!(tight, [("quick", 200), ("slow", 9_800)], "a bracket here has one side");
        assert_eq!((curve.sources[0].tight, curve.sources[1].tight), (curve.tight, 0));
    }

    #[test]
    fn no_constraint_lies_inside_the_band_and_no_estimate_outside() {
        let curve = curve(300, |n| n % 7 == 3);
        assert!(curve.samples.iter().all(|[_, lo, estimate, hi]| lo <= estimate && estimate <= hi));
        let band = |place: i64| curve.samples.iter().min_by_key(|sample| sample[0].abs_diff(place)).unwrap();
        for tight in curve.brackets.iter().filter(|shown| shown.tight) {
            let [place, lo, _, hi] = band(tight.place);
            assert_eq!(
                (*place, tight.height),
                (tight.place, if tight.above { *hi } else { *lo }),
                "the band touches it"
            );
        }
        for shown in &curve.brackets {
            // A sample up to half a step away, where the cone has opened by less than its width a step.
            let [_, lo, _, hi] = band(shown.place);
            let slack = 10;
            assert!(if shown.above { shown.height >= hi - slack } else { shown.height <= lo + slack }, "{shown:?}");
        }
    }

    #[test]
    fn thinning_gives_the_same_brackets_every_time() {
        let (one, other) = (curve(4_000, |n| n % 2 == 0), curve(4_000, |n| n % 2 == 0));
        assert_eq!(one.brackets, other.brackets);
        assert!(one.tight > MOST_TIGHT && one.tight_shown <= MOST_TIGHT && one.tight_shown > MOST_TIGHT / 2);
    }
}
