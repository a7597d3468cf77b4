//! The quantiles of one run that go into a comparison: what they lie between, by clocks and by the run's own spread.

use tickscope_stats::Confidence;
use tickscope_store::Run;
use tickscope_tick::{BootId, Label};
use tickscope_trace::Quantile;

use super::StageKey;
use crate::counters::reference_node;
use crate::error::Error;
use crate::query::Query;
use crate::scan::{Part, Piece, Scan, Sink};

/// A figure of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RunFigure {
    /// Traces with a duration.
    pub count: u64,
    /// The quantile.
    pub at: Ends,
    /// The least that its population's may be; `None`: no value is low enough.
    pub low: Option<Ends>,
    /// The most that it may be.
    pub high: Option<Ends>,
}

/// One rank of all estimates, of all lower ends and of all upper ends, in ticks of the reference.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ends {
    /// Of the estimates.
    pub ticks: i64,
    /// Of the lower ends.
    pub lo: i64,
    /// Of the upper ends.
    pub hi: i64,
}

impl RunFigure {
    /// Of durations (the tick of the first stamp, estimate, lower and upper end); `None` of none.
    pub(super) fn of(durations: &mut [[i64; 4]], quantile: Quantile, confidence: Confidence) -> Option<Self> {
        durations.sort_unstable();
        let mut columns = [1, 2, 3].map(|at| durations.iter().map(|one| one[at]).collect::<Vec<i64>>());
        let ranks = quantile.series_ranks(&columns[0], confidence);
        let mut ends = |rank: usize| {
            let [ticks, lo, hi] = columns.each_mut().map(|column| *column.select_nth_unstable(rank - 1).1);
            Ends { ticks, lo, hi }
        };
        Some(Self {
            count: durations.len() as u64,
            at: ends(quantile.rank(durations.len())?),
            low: ranks.and_then(|ranks| ranks.lo).map(&mut ends),
            high: ranks.and_then(|ranks| ranks.hi).map(&mut ends),
        })
    }

    /// How far the population's quantile may lie below, as far as the spread goes.
    pub(super) fn down_ticks(&self) -> Option<u64> {
        self.low.map(|low| self.at.ticks.abs_diff(low.ticks))
    }

    /// The same above.
    pub(super) fn up_ticks(&self) -> Option<u64> {
        self.high.map(|high| high.ticks.abs_diff(self.at.ticks))
    }

    /// How far the clocks may have put it too high, there or where the spread ends.
    pub(super) fn clocks_below(&self) -> u64 {
        [Some(self.at), self.low].into_iter().flatten().map(|ends| ends.ticks.abs_diff(ends.lo)).max().unwrap_or(0)
    }

    /// How far the clocks may have put it too low.
    pub(super) fn clocks_above(&self) -> u64 {
        [Some(self.at), self.high].into_iter().flatten().map(|ends| ends.hi.abs_diff(ends.ticks)).max().unwrap_or(0)
    }

    /// The same in ticks of another reference.
    pub(super) fn by(self, scale: &Scale) -> Self {
        let of = |ends: Ends| scale.of(ends);
        Self { at: of(self.at), low: self.low.map(of), high: self.high.map(of), ..self }
    }
}

/// By stage and quantile: the figures of a run; `None` where no trace has the stage.
pub(super) fn figures(
    run: &Run,
    query: &Query,
    stages: &[StageKey],
    quantiles: &[Quantile],
    confidence: Confidence,
) -> Result<Vec<Vec<Option<RunFigure>>>, Error> {
    let scan = Scan::of(run, query)?;
    let own = StageKey::all(scan.layout());
    let places = stages.iter().map(|key| own.iter().position(|other| other.is_stretch(key)));
    let mut found = Timed { stages: places.flatten().collect(), durations: vec![Vec::new(); stages.len()] };
    scan.over(&mut found)?;
    let of = |mut durations: Vec<[i64; 4]>| {
        quantiles.iter().map(|&quantile| RunFigure::of(&mut durations, quantile, confidence)).collect()
    };
    Ok(found.durations.into_iter().map(of).collect())
}

/// Durations with the tick of their first stamp: a sink that grows with the run, 32 bytes a duration.
struct Timed {
    /// Indices in the layout.
    stages: Vec<usize>,
    durations: Vec<Vec<[i64; 4]>>,
}

impl Part for Timed {
    fn add(&mut self, piece: &Piece<'_>) -> Result<(), Error> {
        use crate::Outcome::{Impossible, Measured};
        for (&stage, durations) in self.stages.iter().zip(&mut self.durations) {
            let began = &piece.traces.points()[piece.layout.stages()[stage].from];
            durations.extend((0..piece.traces.len()).filter_map(|row| match piece.outcome(stage, row) {
                (Measured | Impossible, Some(span)) => Some([began.get(row)?, span.estimate, span.lo, span.hi]),
                _ => None,
            }));
        }
        Ok(())
    }
}

impl Sink for Timed {
    type Part = Self;

    fn part(&self) -> Self {
        Self { stages: self.stages.clone(), durations: vec![Vec::new(); self.stages.len()] }
    }

    fn merge(&mut self, part: Self) -> Result<(), Error> {
        self.durations.iter_mut().zip(part.durations).for_each(|(all, mut more)| all.append(&mut more));
        Ok(())
    }
}

/// The counter that a run's durations are ticks of.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Reference {
    pub(crate) hertz: u64,
    tolerance_ppm: u32,
    counter: (BootId, Label, Option<String>),
}

impl Reference {
    pub(crate) fn of(run: &Run) -> Result<Self, Error> {
        let node = reference_node(run.manifest())?;
        let frequency = &node.counter.frequency;
        let clock = run.manifest().reference.clone();
        Ok(Self {
            hertz: frequency.hertz.max(1),
            tolerance_ppm: frequency.tolerance_ppm,
            counter: (node.boot, clock, node.injected.clone()),
        })
    }

    /// Whether ticks of both are of one counter, whatever is declared of how many it makes in a second.
    pub(crate) fn is_one_with(&self, other: &Self) -> bool {
        self.counter == other.counter
    }

    /// From its ticks to those of another; `is_one`: all are of one counter.
    pub(crate) fn scale(&self, to: &Self, is_one: bool) -> Scale {
        match is_one {
            true => Scale { from: 1, to: 1, tolerance_ppm: 0 },
            false => Scale { from: self.hertz.into(), to: to.hertz.into(), tolerance_ppm: self.tolerance_ppm.into() },
        }
    }
}

/// From ticks of one counter to those of another.
pub(crate) struct Scale {
    from: i128,
    to: i128,
    tolerance_ppm: i128,
}

impl Scale {
    #[cfg(test)]
    pub(crate) fn between([from, to]: [u64; 2], tolerance_ppm: u32) -> Self {
        Self { from: from.into(), to: to.into(), tolerance_ppm: tolerance_ppm.into() }
    }

    /// Outward, with what the declared frequency leaves open.
    pub(crate) fn of(&self, Ends { ticks, lo, hi }: Ends) -> Ends {
        let whole = |ticks: i64| i128::from(ticks) * self.to;
        // Of two rates off by parts `a` and `b` one is at most `(1 + a) / (1 - b)` of the other: `t / (1 - t)` more,
        // where `t` is their sum.
        let rest = 1_000_000 - self.tolerance_ppm;
        let off = |ticks: i64| (whole(ticks).abs() * self.tolerance_ppm).div_euclid(self.from * rest) + 1;
        let off = |ticks: i64| if self.tolerance_ppm == 0 { 0 } else { off(ticks) };
        let in_64_bits = |ticks: i128| i64::try_from(ticks).unwrap_or(if ticks < 0 { i64::MIN } else { i64::MAX });
        Ends {
            ticks: in_64_bits((2 * whole(ticks) + self.from).div_euclid(2 * self.from)),
            lo: in_64_bits(whole(lo).div_euclid(self.from) - off(lo)),
            hi: in_64_bits(-(-whole(hi)).div_euclid(self.from) + off(hi)),
        }
    }
}
