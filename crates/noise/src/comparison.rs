//! Two profiles beside each other: how much is lost, how often, for how long, and what chance leaves open of each.
//!
//! Idea: every figure is a ratio of sums over windows (lost by measured time, detours by time, detours up to a length
//! by all), so the spread of the windows bounds it ([`BlockRatio`]). Assumes: windows in order of time; the counters'
//! declared frequencies. Guarantees: the confidence is shared among all figures; what passes of the loop and the width
//! of a reading leave open is told apart from chance, and averaged by no number of windows. Deliberately absent: the
//! verdict, which is `analysis`'s; what differs from one profile to the next without any change.

use std::collections::BTreeSet;

use serde::Serialize;
use tickscope_stats::{BlockRatio, Confidence, Quantile, Sample};

use crate::cause::CauseClass;
use crate::profile::{CoreProfile, NoiseProfile};
use crate::window::WindowSum;

/// What all figures together leave to chance, parts per million.
const CHANCE_PER_MILLION: u32 = 50_000;
/// Lengths from which on detours are counted, ns, and their names.
const FROM: [(u64, &str); 5] = [
    (0, "detours"),
    (1_000, "above 1 µs"),
    (10_000, "above 10 µs"),
    (100_000, "above 100 µs"),
    (1_000_000, "above 1 ms"),
];
const QUANTILES: [(Quantile, &str); 2] = [(Quantile::MEDIAN, "length p50"), (Quantile::P99, "length p99")];

/// Profiles compared.
#[derive(Clone, Debug, Serialize)]
pub struct NoiseComparison {
    /// Confidence that every interval holds, parts per million.
    pub confidence_per_million: u32,
    /// Every figure that both sides have.
    pub figures: Vec<FigurePair>,
    /// Cores, uses of memory and figures that one side alone has.
    pub not_compared: Vec<String>,
    /// What to mind, in sentences.
    pub notes: Vec<String>,
}

/// A figure of both sides.
#[derive(Clone, Debug, Serialize)]
pub struct FigurePair {
    /// The core.
    pub core: usize,
    /// How memory was used there.
    pub memory_bytes: Option<u32>,
    /// The figure's name.
    pub figure: String,
    /// Of what it is a count.
    pub unit: FigureUnit,
    /// Before and after.
    pub sides: [NoiseFigure; 2],
}

/// Unit of a figure.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FigureUnit {
    /// Nanoseconds lost in a second.
    NsASecond,
    /// Detours in a million seconds.
    InAMillionSeconds,
    /// Picoseconds.
    Ps,
}

/// A figure of one side.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct NoiseFigure {
    /// Windows that it is of, or sums of several.
    pub windows: usize,
    /// The figure; what passes of the loop and the width of a reading leave open of it.
    pub at: [i64; 3],
    /// What chance leaves open; `None`: too little is known for that end.
    pub low: Option<i64>,
    /// The upper end.
    pub high: Option<i64>,
}

/// What is compared of a core.
#[derive(Clone, Copy)]
enum Kind {
    Lost(Option<CauseClass>),
    Rate(u64),
    ClassRate(CauseClass),
    Length(Quantile),
}

/// Compares profiles of one detector; an error says why there is nothing to compare.
pub fn compare(sides: [&NoiseProfile; 2]) -> Result<NoiseComparison, String> {
    let mut found = compare_among(sides, 1)?;
    let [one, other] = sides.map(|side| side.machine.boot.as_deref().unwrap_or("unknown"));
    if one != other {
        found.notes.push(format!("of different boots: {one}, {other}"));
    }
    Ok(found)
}

/// The same as one of so many comparisons, which share the confidence.
pub fn compare_among(sides: [&NoiseProfile; 2], comparisons: usize) -> Result<NoiseComparison, String> {
    let [before, after] = sides;
    if before.detector != after.detector {
        return Err(format!(
            "expected profiles of one detector, found {} and {}. Measure both by one",
            before.detector.name(),
            after.detector.name()
        ));
    }
    let pairs: Vec<[&CoreProfile; 2]> = before.cores.iter().filter_map(|of| Some([of, after.like(of)?])).collect();
    let wanted: Vec<([&CoreProfile; 2], Kind)> =
        pairs.iter().flat_map(|&pair| kinds(pair).into_iter().map(move |kind| (pair, kind))).collect();
    if wanted.is_empty() {
        return Err("expected profiles with windows of a core in common, found none. Measure the same cores".into());
    }
    let intervals = u32::try_from(comparisons * wanted.len()).unwrap_or(u32::MAX);
    let chance = (CHANCE_PER_MILLION / intervals).max(1);
    let confidence = Confidence::per_million(1_000_000 - chance).map_err(|why| why.to_string())?;
    let figure = |([before_core, after_core], kind): ([&CoreProfile; 2], Kind)| {
        let of = |core: &CoreProfile, hertz| kind.figure(core, hertz, confidence);
        let found = [of(before_core, before.hertz), of(after_core, after.hertz)];
        let [Some(before_figure), Some(after_figure)] = found else {
            return Err(format!("{} {}: a side has no detour", before_core.name(), kind.name()));
        };
        Ok(FigurePair {
            core: before_core.core,
            memory_bytes: before_core.memory_bytes,
            figure: kind.name(),
            unit: kind.unit(),
            sides: [before_figure, after_figure],
        })
    };
    let of_one_side = before.without(after).map(|core| format!("before: {core}"));
    let mut not_compared: Vec<String> =
        of_one_side.chain(after.without(before).map(|core| format!("after: {core}"))).collect();
    let mut figures = Vec::new();
    for found in wanted.into_iter().map(figure) {
        match found {
            Ok(pair) => figures.push(pair),
            Err(why) => not_compared.push(why),
        }
    }
    // So many intervals may take more than was to be left to chance: none is left less than one in a million.
    let left_to_chance = chance.saturating_mul(intervals).clamp(CHANCE_PER_MILLION, 1_000_000);
    let confidence_per_million = 1_000_000 - left_to_chance;
    Ok(NoiseComparison { confidence_per_million, figures, not_compared, notes: notes(sides) })
}

impl NoiseProfile {
    fn like(&self, other: &CoreProfile) -> Option<&CoreProfile> {
        self.cores.iter().find(|of| (of.core, of.memory_bytes) == (other.core, other.memory_bytes))
    }

    fn without<'a>(&'a self, other: &'a Self) -> impl Iterator<Item = String> + 'a {
        self.cores.iter().filter(|of| other.like(of).is_none()).map(CoreProfile::name)
    }
}

/// What both sides can be asked; of causes, where both recorded them.
fn kinds(pair: [&CoreProfile; 2]) -> Vec<Kind> {
    if pair.iter().any(|of| of.sums.is_empty()) {
        return Vec::new();
    }
    let have_causes = pair.iter().all(|of| of.causes.is_some());
    let classes: BTreeSet<CauseClass> =
        pair.iter().flat_map(|of| of.sums.iter().flat_map(|sum| sum.classes.keys().copied())).collect();
    let classes = classes.into_iter().filter(|_| have_causes);
    let by_class = classes.flat_map(|class| [Kind::Lost(Some(class)), Kind::ClassRate(class)]);
    let lengths = QUANTILES.map(|(quantile, _)| Kind::Length(quantile));
    let rates = FROM.map(|(from_ns, _)| Kind::Rate(from_ns));
    [Kind::Lost(None)].into_iter().chain(rates).chain(lengths).chain(by_class).collect()
}

impl Kind {
    fn name(self) -> String {
        match self {
            Self::Lost(None) => "lost".into(),
            Self::Lost(Some(class)) => format!("lost: {}", class.name()),
            Self::ClassRate(class) => format!("detours: {}", class.name()),
            Self::Rate(from_ns) => FROM.iter().find(|(ns, _)| *ns == from_ns).map_or("", |(_, name)| name).into(),
            Self::Length(quantile) => {
                QUANTILES.iter().find(|(of, _)| *of == quantile).map_or("", |(_, name)| name).into()
            }
        }
    }

    fn unit(self) -> FigureUnit {
        match self {
            Self::Lost(_) => FigureUnit::NsASecond,
            Self::Rate(_) | Self::ClassRate(_) => FigureUnit::InAMillionSeconds,
            Self::Length(_) => FigureUnit::Ps,
        }
    }

    fn figure(self, of: &CoreProfile, hertz: u64, confidence: Confidence) -> Option<NoiseFigure> {
        let class = |sum: &WindowSum, class: CauseClass| sum.classes.get(&class).copied().unwrap_or_default();
        match self {
            Self::Length(quantile) => length(of, hertz, quantile, confidence),
            Self::Lost(which) => {
                let lost = |sum: &WindowSum| which.map_or(sum.lost_ticks, |which| class(sum, which).lost_ticks);
                ratio(of, 1e9, |sum| lost(sum).map(|ticks| ticks as f64), confidence)
            }
            Self::ClassRate(which) => rate(of, hertz, |sum| class(sum, which).count, confidence),
            Self::Rate(from_ns) => {
                let first = of.detours.bands.partition_point(|band| band.from_ns < from_ns);
                rate(of, hertz, |sum| sum.bands.iter().skip(first).sum(), confidence)
            }
        }
    }
}

/// A sum by the time that was measured, `scale` times.
fn ratio(
    of: &CoreProfile,
    scale: f64,
    sum: impl Fn(&WindowSum) -> [f64; 2],
    confidence: Confidence,
) -> Option<NoiseFigure> {
    let parts = |weigh: &dyn Fn([f64; 2]) -> f64| {
        let parts = of.sums.iter().map(|window| [weigh(sum(window)), window.measured_ticks as f64]);
        BlockRatio::of(&parts.collect::<Vec<_>>(), confidence)
    };
    let middle = parts(&|[lo, hi]| f64::midpoint(lo, hi))?;
    let [lo, hi] = [parts(&|[lo, _]| lo)?.ratio, parts(&|[_, hi]| hi)?.ratio];
    let end = |half: f64| middle.half.map(|by| ((middle.ratio + half * by) * scale).round() as i64);
    let [low, high] = if hi > 0.0 { [end(-1.0), end(1.0)] } else { [middle.half.map(|_| 0), None] };
    Some(NoiseFigure {
        windows: of.sums.len(),
        at: [(middle.ratio * scale).round() as i64, (lo * scale).floor() as i64, (hi * scale).ceil() as i64],
        low,
        high,
    })
}

/// The same of counted detours. Of none at all, windows that are all alike say nothing of how they vary: the rate is
/// below one that would leave all of the time without any by chance, if they come independently of each other.
fn rate(
    of: &CoreProfile,
    hertz: u64,
    count: impl Fn(&WindowSum) -> u64,
    confidence: Confidence,
) -> Option<NoiseFigure> {
    let scale = 1e6 * hertz as f64;
    let found = ratio(of, scale, |sum| [count(sum) as f64; 2], confidence)?;
    let is_none = found.at[2] == 0 && found.low.is_some();
    let ticks: f64 = of.sums.iter().map(|sum| sum.measured_ticks as f64).sum();
    let most = is_none.then(|| (-confidence.tail().ln() / ticks * scale).ceil() as i64);
    Some(NoiseFigure { high: found.high.or(most), ..found })
}

/// How far readings of detours are apart.
fn length(of: &CoreProfile, hertz: u64, quantile: Quantile, confidence: Confidence) -> Option<NoiseFigure> {
    let windows: Vec<&[i64]> = of.sums.iter().map(|sum| sum.lengths_ticks.as_slice()).collect();
    let sample = Sample::new(&windows.concat()).ok()?;
    let ps = |ticks: i64| (i128::from(ticks) * 1_000_000_000_000 / i128::from(hertz)) as i64;
    let [at, low, high] = sample.quantile_of_blocks(quantile, &windows, confidence).map(|ticks| ticks.map(ps));
    let (at, width) = (at?, ps(of.limit.width_ticks - 1) + 1);
    Some(NoiseFigure { windows: windows.len(), at: [at, at - width, at + width], low, high })
}

fn notes([before, after]: [&NoiseProfile; 2]) -> Vec<String> {
    let mut notes = vec![
        "how much a profile differs from the next without any change is in no interval: take several of each, in turn"
            .to_string(),
    ];
    let (one, other) = (&before.machine, &after.machine);
    let differ = [
        ("kernels", &one.kernel, &other.kernel),
        ("processors", &one.processor, &other.processor),
        ("hypervisors", &one.hypervisor, &other.hypervisor),
    ];
    let differ = differ.into_iter().filter(|(_, one, other)| one != other);
    notes.extend(differ.map(|(what, one, other)| {
        let [one, other] = [one, other].map(|of| of.as_deref().unwrap_or("unknown"));
        format!("of different {what}: {one}, {other}")
    }));
    if one.real_time_priority != other.real_time_priority {
        notes.push(format!(
            "the detectors had the real-time priorities {} and {}: what preempts them is not the same",
            one.real_time_priority, other.real_time_priority
        ));
    }
    let lacking = [before, after].map(|side| side.cores.iter().any(|of| of.causes.is_none()));
    if lacking.contains(&true) {
        notes.push("causes are not compared where one side did not record them".into());
    }
    notes
}

#[cfg(test)]
pub(crate) mod tests;
