//! Ids that passed some point more than once: how their passages were told apart, and what was refused.
//!
//! The join pairs stamps once, when a run ends; what it found is in the traces' marks. It asks the clocks only which of
//! two stamps can have come first, under a rho so large that whoever asks for the durations under a smaller one gets no
//! other pairs.

use std::cell::LazyCell;

use tickscope_bracket::Rho;
use tickscope_store::{Joined, KeyedReader, Run, join_run};
use tickscope_tick::counted;
use tickscope_trace::{Layout, Mark, Rule, Traces};

use crate::Query;
use crate::assumption::Assumption;
use crate::error::Error;
use crate::inputs::Inputs;

/// Rho under which the join compares stamps of different counters: five times the largest preset.
const PAIRING_PPB: u32 = 1_000_000;

/// Ids of a run that passed some point more than once.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PassageSummary {
    /// All ids of the run, told apart by kind.
    pub ids: u64,
    /// Those that passed some point more than once.
    pub repeated: u64,
    /// Ids whose passages overlap and were told apart by thread at some point.
    pub by_thread: u64,
    /// Ids whose attempts were told apart by what their stamps say, at some point.
    pub by_attempt: u64,
    /// Ids with stamps that can be paired in more than one way, or in none: their durations are refused.
    pub untold: u64,
    /// By point of the layout: ids that passed there more than once.
    pub points: Vec<u64>,
    /// True if the run was joined before passages were told apart: then the k-th stamp here was paired with the k-th
    /// there.
    pub by_rank: bool,
    /// Starts of the layout whose ways meet.
    pub joining_starts: Vec<String>,
}

/// Joins the stamps of `run` by its layout, holding about `bytes` at once.
pub fn join(run: &Run, bytes: usize) -> Result<Joined, Error> {
    let clocks = LazyCell::new(|| {
        let query = Query::under(Rho::declared_ppb(PAIRING_PPB).ok());
        // Without evidence between the clocks nothing orders their stamps, and the table will say why there is none.
        Inputs::of(run, &query, None).ok().map(|inputs| inputs.clocks)
    });
    let may_precede = |first, second| clocks.as_ref().is_none_or(|clocks| clocks.may_precede(first, second));
    Ok(join_run(run, &run.manifest().layout.clone(), bytes, &may_precede)?)
}

impl PassageSummary {
    pub(crate) fn none(layout: &Layout, readers: &[KeyedReader]) -> Self {
        let by_rank = readers.iter().any(|reader| !reader.has_passages());
        let joining_starts = layout.joining_starts().iter().map(|start| start.place.to_string()).collect();
        Self { points: vec![0; layout.points().len()], by_rank, joining_starts, ..Self::default() }
    }

    /// The same run's, of no traces.
    pub(crate) fn uncounted(&self) -> Self {
        let (points, joining_starts) = (vec![0; self.points.len()], self.joining_starts.clone());
        Self { points, by_rank: self.by_rank, joining_starts, ..Self::default() }
    }

    pub(crate) fn add(&mut self, traces: &Traces) {
        for row in (0..traces.len()).filter(|&row| traces.occurrences()[row] == 0) {
            self.ids += 1;
            let Some(marks) = traces.marks(row) else { continue };
            let any = |is: fn(&Mark) -> bool| u64::from(marks.points().iter().any(is));
            self.repeated += 1;
            self.by_thread += any(|mark| *mark == Mark::ByThread);
            self.by_attempt += any(|mark| *mark == Mark::ByAttempt);
            self.untold += any(|mark| mark.is_untold());
            self.points.iter_mut().zip(marks.points()).for_each(|(count, mark)| *count += u64::from(mark.is_several()));
        }
    }

    pub(crate) fn merge(&mut self, later: &Self) {
        self.ids += later.ids;
        self.repeated += later.repeated;
        self.by_thread += later.by_thread;
        self.by_attempt += later.by_attempt;
        self.untold += later.untold;
        self.points.iter_mut().zip(&later.points).for_each(|(all, more)| *all += more);
    }

    /// Treatment of those ids, in a line; `None` where there are none.
    pub(crate) fn line(&self, layout: &Layout) -> Option<String> {
        if self.repeated == 0 {
            return None;
        }
        let followed = [
            (Rule::First, "first", "of those that came furthest the one that was there first"),
            (Rule::Last, "last", "of those that came furthest the one that was there last"),
            (Rule::All, "all", "each of them, as a trace of its own"),
        ];
        let followed = followed.into_iter().filter_map(|(rule, name, meaning)| {
            let points =
                layout.points().iter().zip(&self.points).filter(|(point, count)| point.rule == rule && **count > 0);
            let points: Vec<_> = points.map(|(point, _)| point.place.to_string()).collect();
            (!points.is_empty()).then(|| format!("{meaning} (rule {name} at {})", points.join(", ")))
        });
        let attempts = match self.by_attempt {
            0 => String::new(),
            some => format!(", of {} by the attempt that both ends say", counted(some, "id")),
        };
        Some(format!(
            "passages: {} of {} passed a point more than once; where their passages part, a trace follows {}; \
             told apart by time, of {} by thread{attempts}; refused where nothing tells them apart: durations of {}",
            self.repeated,
            counted(self.ids, "id"),
            followed.collect::<Vec<_>>().join(", "),
            counted(self.by_thread, "id"),
            counted(self.untold, "id")
        ))
    }

    /// On what the pairs rest; none where there are none.
    pub(crate) fn assumptions(&self) -> impl Iterator<Item = Assumption> {
        let passages = (self.repeated > 0).then_some(Assumption::Passages { ids: self.repeated });
        let threads = (self.by_thread > 0).then_some(Assumption::PassageThreads { ids: self.by_thread });
        let starts = Some(self.joining_starts.clone()).filter(|starts| !starts.is_empty());
        let starts = starts.map(|starts| Assumption::JoiningStarts { starts });
        passages.into_iter().chain(threads).chain(starts)
    }
}

#[cfg(test)]
mod tests {
    use tickscope_trace::LayoutText;

    use super::*;

    #[test]
    fn what_holds_of_starts_whose_ways_meet_is_an_assumption_of_such_layouts_alone() {
        let told = |edges: &[&str]| {
            let edges = edges.iter().map(ToString::to_string).collect();
            let layout = LayoutText { edges, ..LayoutText::default() }.parse(None).unwrap();
            let summary = PassageSummary::none(&layout, &[]).uncounted();
            summary.assumptions().map(|assumption| assumption.statement()).collect::<Vec<_>>()
        };
        assert!(told(&["a.s > c.m", "c.m > d.n"]).is_empty());
        let joined = "an id stamped at several of a.s, b.z is one passage: what began at each of them met the others";
        assert_eq!(told(&["a.s > c.m", "b.z > c.m"]), [joined]);
    }
}
