//! Whether a trial's rate was sustained: what was lost, whether unanswered work or delays grew, and the limits given.
//!
//! Idea: an overloaded system that has a queue loses nothing until that is full, so loss alone finds a rate that is too
//! high. What the backlog grows by is counted as loss (MLRsearch, RFC 9971, knows loss alone): by the mean number of
//! traces under way in that fortieth of the trial where it is least, in the second half less in the first: a system
//! that stalls now and then, and catches up between, has its least backlog between. One that falls behind late has not
//! grown between the halves, so the least of the last quarter is also held against that of the quarter before it whose
//! least is largest: a stall as long as one before is no growth. The larger growth counts. Delays that grow by a second
//! in so many are the lag, of the least means in the same way. Both are asked of the ends of the intervals that show
//! the least of it, so that no clock makes a system fail. A system may also lose nothing and answer in time what it
//! takes, but take it too late: a sender that says for how long it was blocked tells of that. A trial that says
//! nothing, because its generator was late, stamps were lost or evidence contradicts itself, is invalid: it counts for
//! neither side.
//!
//! Assumes: the stage begins where work is offered; arrivals are spread evenly over the trial; a system that catches up
//! does so within a quarter of it, or has been behind for as long before. Guarantees: a verdict has its reason;
//! integers alone decide. Deliberately absent: which rate is tried next (`tickscope_experiment`).

use std::path::Path;

use serde::Serialize;
use tickscope_store::{Event, EventKind, ParameterValue, Run, TrialRecord, TrialState};
use tickscope_tick::counted;
use tickscope_trace::Layout;

use crate::error::Error;
use crate::query::Query;
use crate::scan::{Outcome, Part, Piece, Scan, Sink};
use crate::span::Span;
use crate::sweep::{TrialRun, blocked_ppm};

const MILLION: i128 = 1_000_000;
/// Pieces of a trial's time that have a mean delay and a mean backlog each.
const PIECES: usize = 40;
const HALF: usize = PIECES / 2;
const QUARTER: usize = PIECES / 4;

/// What a trial may lose, and by what delays may grow.
#[derive(Clone, PartialEq, Debug)]
pub struct SustainRule {
    /// From where work is offered to where it is done.
    pub stage: String,
    /// Parts per million of what is offered that may be lost, growth of the backlog included.
    pub lost_ppm: u32,
    /// Microseconds that delays may grow by in a second.
    pub lag_ppm: u32,
    /// The share of its time, in a million, for which a sender may be blocked.
    pub blocked_ppm: u32,
    /// Whether growth of the backlog and of delays counts; else loss alone decides, as it is published.
    pub growth: bool,
}

/// What a trial says of its rate, from best to worst.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum SustainVerdict {
    /// Nothing speaks against it.
    Sustained,
    /// A limit of the run file is violated.
    Limit,
    /// Delays grow.
    Latency,
    /// Senders are held up.
    #[serde(rename = "back-pressure")]
    Pressure,
    /// Unanswered work grows.
    Backlog,
    /// Work is lost.
    Dropped,
    /// A program of the trial failed.
    Failed,
    /// It says nothing of the rate.
    Invalid,
}

impl SustainVerdict {
    /// Its word in text and JSON.
    pub fn word(self) -> &'static str {
        match self {
            Self::Sustained => "sustained",
            Self::Limit => "limit",
            Self::Latency => "latency",
            Self::Pressure => "back-pressure",
            Self::Backlog => "backlog",
            Self::Dropped => "dropped",
            Self::Failed => "failed",
            Self::Invalid => "invalid",
        }
    }
}

/// What a search found, of all its trials. Within a version keys are added, never removed or renamed.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Sustained {
    /// What the run file calls it.
    pub name: String,
    /// The parameter that was searched.
    pub parameter: String,
    /// How the next rate is chosen.
    pub method: &'static str,
    /// The least of the searches' lower bounds; `None`: one of them has none.
    pub lower: Option<ParameterValue>,
    /// The largest of their upper bounds; `None`: one of them has none.
    pub upper: Option<ParameterValue>,
    /// Why an end is missing.
    pub why: Option<String>,
    /// Each by itself.
    pub searches: Vec<SustainSearch>,
    /// In the order in which they were made.
    pub trials: Vec<SustainTrial>,
}

/// One search.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct SustainSearch {
    /// From 1.
    pub search: u32,
    /// The highest rate that was judged sustained, below the upper bound (the relevant lower bound).
    pub lower: Option<ParameterValue>,
    /// The lowest rate that was judged not sustained (the relevant upper bound).
    pub upper: Option<ParameterValue>,
    /// What of the lower bound's rate came through (the conditional throughput): the rate less the loss, growth of the
    /// backlog included, that as many of its trials as decide do not exceed.
    pub throughput: Option<f64>,
    /// Why an end is missing.
    pub why: Option<String>,
    /// How many trials it took.
    pub trials: usize,
}

/// One trial and its verdict.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct SustainTrial {
    /// From 1, in the order in which they were made.
    pub number: u32,
    /// Which search asked for it, from 1.
    pub search: u32,
    /// Its rate.
    pub rate: ParameterValue,
    /// Its run, below the search's folder.
    pub folder: Option<String>,
    /// What it says of the rate.
    pub verdict: SustainVerdict,
    /// The reason.
    pub why: String,
    /// Traces that began; `None`: nobody could tell.
    pub offered: Option<u64>,
    /// Those that never reached the end of the stage.
    pub lost: Option<u64>,
    /// What the backlog grew by, at least, in parts per million of what was offered; below 0: it shrank, or the clocks
    /// leave it open.
    pub backlog_ppm: Option<i64>,
    /// Microseconds that the median delay grew by in a second, at least.
    pub lag_ppm: Option<i64>,
    /// The share of its time, in a million, for which a sender was blocked; `None`: none says it.
    pub blocked_ppm: Option<u32>,
    /// The mean delay over the trial's time.
    pub delays: Vec<MeanDelay>,
}

/// The mean delay of the traces that began in a piece of a trial's time, as an interval.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct MeanDelay {
    /// The middle of the piece, seconds after the first trace began.
    pub at_s: f64,
    /// How many ended.
    pub count: u64,
    /// No shorter, nanoseconds.
    pub lo_ns: f64,
    /// No longer, nanoseconds.
    pub hi_ns: f64,
}

impl SustainTrial {
    /// What was lost, growth of the backlog included, in parts per million of what was offered: all, where a program
    /// failed; `None`: the trial says nothing.
    pub fn loss_ppm(&self) -> Option<u32> {
        const ALL: i64 = 1_000_000;
        match (self.verdict, self.lost.zip(self.offered)) {
            (SustainVerdict::Invalid, _) => None,
            (_, Some((lost, offered))) if offered > 0 => {
                let lost = (1_000_000 * u128::from(lost)).div_ceil(u128::from(offered)) as i64;
                Some(lost.saturating_add(self.backlog_ppm.unwrap_or(0).max(0)).min(ALL) as u32)
            }
            _ => Some(ALL as u32),
        }
    }
}

/// Looks at a trial of a search, below the search's folder `root`.
pub fn judged(root: &Path, record: &TrialRecord, rate: ParameterValue, rule: &SustainRule) -> SustainTrial {
    let (verdict, why, load) = match (record.state, &record.folder) {
        (TrialState::Made, Some(folder)) => match judge(&root.join(folder), record.run.as_deref(), rule) {
            Ok((verdict, why, load)) => (verdict, why, Some(load)),
            Err(why) => (SustainVerdict::Invalid, why.to_string(), None),
        },
        (state, _) => {
            // Of evidence that contradicts itself nobody can tell, nor where the tool failed, as for want of room; a
            // program that ended too soon did not sustain it.
            let of_program = || record.folder.as_ref().is_some_and(|folder| a_program_failed(&root.join(folder)));
            let failed = state == TrialState::Failed && !Error::of_code(record.code, "").is_finding() && of_program();
            let verdict = if failed { SustainVerdict::Failed } else { SustainVerdict::Invalid };
            (verdict, record.why.clone().unwrap_or_else(|| "it was not made".into()), None)
        }
    };
    SustainTrial {
        number: record.number,
        search: record.repetition,
        rate,
        folder: record.folder.clone(),
        verdict,
        why,
        offered: load.as_ref().map(|load| load.offered),
        lost: load.as_ref().map(|load| load.lost),
        backlog_ppm: load.as_ref().and_then(Load::backlog_ppm),
        blocked_ppm: load.as_ref().and_then(|load| load.blocked_ppm),
        delays: load.as_ref().map_or_else(Vec::new, Load::delays),
        lag_ppm: load.and_then(|load| load.lag_ppm()),
    }
}

/// Returns whether a trial's run says that one of its programs failed.
fn a_program_failed(run: &Path) -> bool {
    let events = Run::open(run).and_then(|run| run.events());
    events.is_ok_and(|events| events.found.iter().any(|event| event.what == EventKind::TargetFailed))
}

fn judge(root: &Path, named: Option<&str>, rule: &SustainRule) -> Result<(SustainVerdict, String, Load), Error> {
    let query = Query::default();
    let TrialRun { ready, analysis, events } = TrialRun::of(root, &query, named)?;
    let scan = Scan::of(&ready.run, &query)?;
    let stage = scan.layout().stage_named(&rule.stage).map_err(Error::work)?;
    let mut window = Window { stage, begins: None };
    scan.over(&mut window)?;
    let mut load = Load::of(stage, window.begins.unwrap_or((0, 0)));
    scan.over(&mut load)?;
    load.blocked_ppm = blocked_ppm(&events)?;
    load.twice += came_twice(&events, scan.layout(), stage);
    load.hertz = analysis.frequency.hertz;
    let channels = ready.run.channels()?.found;
    let dropped = channels.iter().map(|channel| channel.dropped.unsigned_abs()).fold(0, u64::saturating_add);
    let limits = analysis.expect_limits(&events);
    let (verdict, mut why) = load.verdict(rule, dropped, limits)?;
    if verdict != SustainVerdict::Sustained {
        let ended = events.iter().filter(|event| event.what == EventKind::TargetEnded);
        ended.for_each(|event| why += &format!("; {}", event.text));
    }
    Ok((verdict, why, load))
}

/// Stamps at either end of the stage of ids that were there before.
fn came_twice(events: &[Event], layout: &Layout, stage: usize) -> u64 {
    let stage = &layout.stages()[stage];
    let places = [stage.from, stage.to].map(|point| Event::ids_repeated_at(&layout.points()[point].place));
    let of = |event: &&Event| {
        event.what == EventKind::IdsRepeated && places.iter().any(|place| event.text.starts_with(place))
    };
    events.iter().filter(of).filter_map(|event| event.value).map(i64::unsigned_abs).sum()
}

/// When the first trace and the last one began: what the pieces are pieces of.
struct Window {
    stage: usize,
    begins: Option<(i64, i64)>,
}

impl Window {
    fn take(&mut self, (first, last): (i64, i64)) {
        let known = self.begins.get_or_insert((first, last));
        *known = (known.0.min(first), known.1.max(last));
    }
}

impl Sink for Window {
    type Part = Self;

    fn part(&self) -> Self {
        Self { stage: self.stage, begins: None }
    }

    fn merge(&mut self, part: Self) -> Result<(), Error> {
        part.begins.into_iter().for_each(|begins| self.take(begins));
        Ok(())
    }
}

impl Part for Window {
    fn add(&mut self, piece: &Piece<'_>) -> Result<(), Error> {
        let from = piece.layout.stages()[self.stage].from;
        let begins = (0..piece.traces.len()).filter_map(|row| piece.instant(from, row));
        begins.for_each(|begins| self.take((begins.estimate, begins.estimate)));
        Ok(())
    }
}

/// A piece of a trial's time.
#[derive(Clone, Copy, Default, Debug)]
struct Moment {
    /// Traces that began there and ended.
    ended: u64,
    /// The least and the most that those took, ticks, summed.
    took: [i128; 2],
    /// Ticks that traces were under way there: at least and at most.
    under_way: [i128; 2],
}

/// What was offered, and what became of it over the trial's time.
#[derive(Clone, Debug)]
pub(crate) struct Load {
    stage: usize,
    first: i64,
    /// Ticks of a piece.
    piece: i64,
    pub offered: u64,
    pub lost: u64,
    /// Ids that were offered or done more than once.
    twice: u64,
    /// Traces with both stamps whose delay nothing bounds.
    unbound: u64,
    moments: [Moment; PIECES],
    /// The share of the time for which a sender was blocked, in a million.
    blocked_ppm: Option<u32>,
    /// Ticks a second.
    hertz: u64,
}

impl Load {
    fn of(stage: usize, (first, last): (i64, i64)) -> Self {
        let piece = (last.saturating_sub(first) / PIECES as i64).max(1);
        let moments = [Moment::default(); PIECES];
        Self { stage, first, piece, offered: 0, lost: 0, twice: 0, unbound: 0, moments, blocked_ppm: None, hertz: 1 }
    }

    /// Takes a trace that began at that tick; `None`: it never ended.
    fn take(&mut self, begins: i64, delay: Option<Span>) {
        self.offered += 1;
        let Some(delay) = delay else {
            self.lost += 1;
            return;
        };
        let (piece, since) = (i128::from(self.piece), i128::from(begins) - i128::from(self.first));
        let began = &mut self.moments[(since / piece).clamp(0, PIECES as i128 - 1) as usize];
        began.ended += 1;
        for (at, ticks) in [delay.lo, delay.hi].into_iter().enumerate() {
            began.took[at] += i128::from(ticks);
        }
        for (at, ticks) in [delay.lo, delay.hi].into_iter().enumerate() {
            let [from, until] = [since, since + i128::from(ticks)].map(|tick| tick.clamp(0, piece * PIECES as i128));
            let mut tick = from;
            while tick < until {
                let within = tick / piece;
                let end = until.min((within + 1) * piece);
                self.moments[within as usize].under_way[at] += end - tick;
                tick = end;
            }
        }
    }

    fn delays(&self) -> Vec<MeanDelay> {
        let piece_s = self.piece as f64 / self.hertz as f64;
        let ns = |ticks: i128, count: u64| ticks as f64 / count as f64 * 1e9 / self.hertz as f64;
        let moments = self.moments.iter().enumerate().filter(|(_, moment)| moment.ended > 0);
        let mean = |(at, moment): (usize, &Moment)| MeanDelay {
            at_s: (at as f64 + 0.5) * piece_s,
            count: moment.ended,
            lo_ns: ns(moment.took[0], moment.ended),
            hi_ns: ns(moment.took[1], moment.ended),
        };
        moments.map(mean).collect()
    }

    /// Growth of `of` in two comparisons, each with the number of pieces that it took: the least of the second half
    /// less the least of the first; the least of the last quarter less that of the quarter before it whose least is
    /// largest.
    /// `of(moment, 1)` is the upper end of a piece, for the earlier part; `of(moment, 0)` the lower, for the later one.
    fn grown(&self, of: impl Fn(&Moment, usize) -> Option<i128>) -> Option<impl Iterator<Item = (i128, usize)>> {
        let least = |moments: &[Moment], at| moments.iter().filter_map(|moment| of(moment, at)).min();
        let (first, second) = self.moments.split_at(HALF);
        let by_halves = least(second, 0)? - least(first, 1)?;
        let (before, last) = self.moments.split_at(PIECES - QUARTER);
        let before = before.windows(QUARTER).filter_map(|quarter| least(quarter, 1)).max()?;
        let late = least(last, 0).map(|last| (last - before, QUARTER));
        Some([(by_halves, HALF)].into_iter().chain(late))
    }

    /// What the backlog grew by, in parts per million of what was offered meanwhile.
    fn backlog_ppm(&self) -> Option<i64> {
        let grown = self.grown(|moment, at| Some(moment.under_way[at]))?;
        let offered = i128::from(self.offered) * i128::from(self.piece);
        let ppm = |(grown, pieces): (i128, usize)| {
            (MILLION * grown * PIECES as i128).div_euclid(offered * pieces as i128) as i64
        };
        (offered > 0).then(|| grown.map(ppm).max())?
    }

    /// Means are rounded: of what was before up, of what came after down.
    fn lag_ppm(&self) -> Option<i64> {
        let mean = |moment: &Moment, at: usize| {
            let ended = i128::from(moment.ended);
            let rounded = |ticks: i128| if at == 0 { ticks.div_euclid(ended) } else { -(-ticks).div_euclid(ended) };
            (ended > 0).then(|| rounded(moment.took[at]))
        };
        let ppm = |(grown, pieces): (i128, usize)| {
            (MILLION * grown).div_euclid(pieces as i128 * i128::from(self.piece)) as i64
        };
        self.grown(mean)?.map(ppm).max()
    }

    /// The worst that is true of it, and why; an error says that it tells nothing.
    fn verdict(
        &self,
        rule: &SustainRule,
        stamps_dropped: u64,
        limits: Result<(), Error>,
    ) -> Result<(SustainVerdict, String), Error> {
        self.expect_told()?;
        let of = |ppm: i64| format!("{} %", ppm as f64 / 1e4);
        let allowed = i64::from(rule.lost_ppm);
        let lost = (1_000_000 * u128::from(self.lost)).div_ceil(u128::from(self.offered)) as i64;
        if lost > allowed && stamps_dropped > 0 {
            return Err(Error::work(format!(
                "{} found no room, so nobody can tell what the system lost. Give the points' channels more room",
                counted(stamps_dropped, "stamp")
            )));
        }
        let (backlog, lag) = match (self.backlog_ppm(), self.lag_ppm()) {
            _ if lost > allowed => {
                return Ok((SustainVerdict::Dropped, format!("lost {}; at most {} may be", of(lost), of(allowed))));
            }
            (Some(backlog), Some(lag)) => (backlog, lag),
            _ if self.blocked_ppm > Some(rule.blocked_ppm) => {
                return Ok((SustainVerdict::Pressure, self.blocked(rule)));
            }
            _ => return Err(Error::work(self.too_few())),
        };
        let told = format!("lost {}, backlog grew by {}, lag {} ms/s", of(lost), of(backlog), lag as f64 / 1e3);
        let (backlog, lag) = if rule.growth { (backlog, lag) } else { (0, 0) };
        let most = format!("at most {} and {} ms/s may be", of(allowed), f64::from(rule.lag_ppm) / 1e3);
        Ok(match limits {
            _ if lost + backlog.max(0) > allowed => (SustainVerdict::Backlog, format!("{told}; {most}")),
            _ if self.blocked_ppm > Some(rule.blocked_ppm) => {
                (SustainVerdict::Pressure, format!("{}; {told}", self.blocked(rule)))
            }
            _ if lag > i64::from(rule.lag_ppm) => (SustainVerdict::Latency, format!("{told}; {most}")),
            Err(why) if why.code() == Error::violated("").code() => (SustainVerdict::Limit, format!("{why}; {told}")),
            Err(why) => return Err(why),
            Ok(()) => (SustainVerdict::Sustained, told),
        })
    }

    fn blocked(&self, rule: &SustainRule) -> String {
        let share = |ppm: u32| f64::from(ppm) / 1e4;
        let blocked = share(self.blocked_ppm.unwrap_or(0));
        format!("a sender was blocked for {blocked} % of the time; at most {} % may be", share(rule.blocked_ppm))
    }

    /// Refuses what leaves open what was lost.
    fn expect_told(&self) -> Result<(), Error> {
        if self.twice > 0 {
            return Err(Error::work(format!(
                "{} came twice: nobody can tell which of them were lost. Give each arrival an id of its own",
                counted(self.twice, "id")
            )));
        }
        if self.unbound > 0 {
            return Err(Error::work(format!(
                "nothing bounds the delays of {}. tickscope show says of each clock what is known of it",
                counted(self.unbound, "trace")
            )));
        }
        if self.offered == 0 { Err(Error::work(self.too_few())) } else { Ok(()) }
    }

    fn too_few(&self) -> String {
        format!(
            "expected traces that began in the first and in the second half of the trial and ended, found {} of which \
             {} ended. Measure for longer",
            counted(self.offered, "trace"),
            self.offered - self.lost
        )
    }
}

impl Sink for Load {
    type Part = Self;

    fn part(&self) -> Self {
        let mut part = Self::of(self.stage, (0, 0));
        (part.first, part.piece) = (self.first, self.piece);
        part
    }

    fn merge(&mut self, part: Self) -> Result<(), Error> {
        self.offered += part.offered;
        self.lost += part.lost;
        self.twice += part.twice;
        self.unbound += part.unbound;
        for (moment, part) in self.moments.iter_mut().zip(part.moments) {
            moment.ended += part.ended;
            for at in 0..2 {
                moment.took[at] += part.took[at];
                moment.under_way[at] += part.under_way[at];
            }
        }
        Ok(())
    }
}

impl Part for Load {
    fn add(&mut self, piece: &Piece<'_>) -> Result<(), Error> {
        let from = piece.layout.stages()[self.stage].from;
        for row in 0..piece.traces.len() {
            let Some(begins) = piece.instant(from, row) else { continue };
            self.twice += u64::from(piece.traces.occurrences()[row] > 0);
            match piece.outcome(self.stage, row) {
                (Outcome::Repeated, _) => {}
                (Outcome::Refused, _) => self.unbound += 1,
                (_, delay) => self.take(begins.estimate, delay),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULE: SustainRule =
        SustainRule { stage: String::new(), lost_ppm: 5_000, lag_ppm: 5_000, blocked_ppm: 5_000, growth: true };

    /// Arrivals at every tick of a thousand to a server that takes `service` millionths of a tick for each and has room
    /// for so many; a clock leaves `open` ticks of each delay open.
    fn queue(service: i64, room: i64, open: i64) -> Load {
        const TICKS: i64 = 1_000; // of a microsecond, between two arrivals
        const ARRIVALS: i64 = 10_000;
        let mut load = Load::of(0, (0, (ARRIVALS - 1) * TICKS));
        let mut free = 0;
        for begins in (0..ARRIVALS).map(|at| at * TICKS) {
            let ends = free.max(begins) + service * TICKS / 1_000_000;
            if ends - begins > room * TICKS {
                load.take(begins, None);
                continue;
            }
            free = ends;
            let estimate = ends - begins;
            load.take(begins, Some(Span { estimate, lo: estimate - open, hi: estimate + open }));
        }
        load
    }

    fn of(load: &mut Load) -> SustainVerdict {
        load.verdict(&RULE, 0, Ok(())).unwrap().0
    }

    #[test]
    fn growth_of_the_backlog_is_a_loss_before_anything_is_lost() {
        let (mut under, mut over, mut far) =
            (queue(990_000, 1 << 40, 0), queue(1_010_000, 1 << 40, 0), queue(1_100_000, 100, 0));
        assert_eq!(
            [&mut under, &mut over, &mut far].map(of),
            [SustainVerdict::Sustained, SustainVerdict::Backlog, SustainVerdict::Dropped]
        );
        // It serves 100 of 101 that arrive: the backlog grows by 0.99 % of them, and delays by 10 ms in a second.
        let (backlog, lag) = (over.backlog_ppm().unwrap(), over.lag_ppm().unwrap());
        assert!(over.lost == 0 && (9_800..=10_000).contains(&backlog), "{backlog}");
        assert!((9_900..=10_100).contains(&lag), "{lag}");
        assert!(far.lost > 0);
    }

    /// It stalls for a tenth of each fifth of the trial and has caught up before the next, or has not; and one that
    /// stalls once in each half takes more than a quarter to catch up.
    #[test]
    fn a_system_that_catches_up_after_each_stall_sustains_its_load_wherever_the_stalls_are() {
        const TICKS: i64 = 1_000; // between two arrivals
        for (every, service, verdict) in [
            (2_000, 850, SustainVerdict::Sustained),
            (2_000, 920, SustainVerdict::Backlog),
            (5_000, 870, SustainVerdict::Sustained),
        ] {
            for ahead in (0..every).step_by(50) {
                let (mut load, mut free) = (Load::of(0, (0, 9_999 * TICKS)), 0);
                for arrival in 0..10_000 {
                    let begins = arrival * TICKS;
                    if (arrival + ahead) % every == 0 {
                        free = free.max(begins) + every / 10 * TICKS;
                    }
                    free = free.max(begins) + service;
                    load.take(begins, Some(Span { estimate: free - begins, lo: free - begins, hi: free - begins }));
                }
                assert_eq!(of(&mut load), verdict, "{service}, {ahead} ahead of {every}: {:?}", load.backlog_ppm());
            }
        }
    }

    /// From some moment on it serves less than arrives; a clock leaves 300 ticks of each delay open.
    #[test]
    fn a_system_that_falls_behind_late_does_not_sustain_its_load() {
        let late = |from: i64, service: i64| {
            let (mut load, mut free) = (Load::of(0, (0, 9_999_000)), 0);
            for begins in (0..10_000).map(|arrival| arrival * 1_000) {
                free = free.max(begins) + if begins < from { 900 } else { service };
                let estimate = free - begins;
                load.take(begins, Some(Span { estimate, lo: estimate - 300, hi: estimate + 300 }));
            }
            let verdict = of(&mut load);
            (verdict, load.backlog_ppm().unwrap(), load.lag_ppm().unwrap())
        };
        // A hundredth of what arrives stays unanswered, less 1 % of that: all of it where the overload began half-way
        // or before; 57 % of it where it began at 62 %, within the quarter that the last one is compared with.
        for (from, backlog) in [(2_500_000, 9_900), (5_000_000, 9_900), (6_200_000, 5_643)] {
            let (verdict, grown, lag) = late(from, 1_010);
            assert_eq!(verdict, SustainVerdict::Backlog, "from {from}: {grown}");
            assert!(
                (backlog - 350..=backlog).contains(&grown) && (grown - lag).abs() < 400,
                "from {from}: {grown} {lag}"
            );
        }
        assert_eq!(late(5_000_000, 1_000).0, SustainVerdict::Sustained);
    }

    #[test]
    fn what_failed_without_a_program_that_did_says_nothing_of_the_rate() {
        let root = std::env::temp_dir().join(format!("tickscope-sustain-{}", std::process::id()));
        let (_, writing) = Run::begin(&root.join("trial"), crate::sample::manifest()).unwrap();
        drop(writing);
        let record = TrialRecord {
            state: TrialState::Failed,
            folder: Some("trial".into()),
            code: 1,
            why: Some("no space left".into()),
            ..TrialRecord::missing(1, 1, vec![0])
        };
        let judged = || judged(&root, &record, ParameterValue::Integer(1), &RULE).verdict;
        assert_eq!(judged(), SustainVerdict::Invalid);
        let failed = Event { what: EventKind::TargetFailed, node: Event::RUN.into(), ..Event::default() };
        let run = Run::open(&root.join("trial")).unwrap();
        tickscope_store::write_events(&run.paths().events().join("a.parquet"), &[failed]).unwrap();
        assert_eq!(judged(), SustainVerdict::Failed);
        std::fs::remove_dir_all(&root).unwrap();
    }

    #[test]
    fn ids_that_came_twice_at_either_end_are_counted_by_their_events() {
        let path = ["a.x", "b.y", "b.z"].map(String::from).into();
        let layout = tickscope_trace::LayoutText { path, ..Default::default() }.parse(None).unwrap();
        let event = |what, place: &str| Event {
            what,
            value: Some(3),
            text: format!("{}; 9 ids", Event::ids_repeated_at(&place.parse().unwrap())),
            ..Event::default()
        };
        let of = |events: &[Event]| came_twice(events, &layout, layout.stage_named("a.x>b.y").unwrap());
        assert_eq!(
            of(&[
                event(EventKind::IdsRepeated, "a.x"),
                event(EventKind::IdsRepeated, "b.y"),
                event(EventKind::IdsRepeated, "b.z")
            ]),
            6
        );
        assert_eq!(of(&[event(EventKind::IdsOutOfOrder, "a.x"), event(EventKind::IdsRepeated, "a.xx")]), 0);
    }

    #[test]
    fn as_published_loss_alone_decides() {
        let published = SustainRule { lost_ppm: 0, growth: false, ..RULE };
        let verdict = |load: Load| load.verdict(&published, 0, Ok(())).unwrap().0;
        assert_eq!(verdict(queue(1_100_000, 1 << 40, 0)), SustainVerdict::Sustained);
        assert_eq!(verdict(queue(1_100_000, 100, 0)), SustainVerdict::Dropped);
    }

    #[test]
    fn growth_that_the_clocks_leave_open_is_none() {
        let mut open = queue(1_010_000, 1 << 40, 40_000);
        assert_eq!(of(&mut open), SustainVerdict::Sustained);
        let mut known = queue(1_010_000, 1 << 40, 10_000);
        assert_eq!(of(&mut known), SustainVerdict::Backlog);
    }

    #[test]
    fn a_sender_that_is_blocked_tells_of_a_system_that_takes_what_it_answers_in_time() {
        let blocked = |blocked_ppm, mut load: Load| {
            load.blocked_ppm = blocked_ppm;
            load.verdict(&RULE, 0, Ok(())).map(|(verdict, why)| (verdict, why.contains("blocked for 0.5001 %")))
        };
        let under = || queue(990_000, 1 << 40, 0);
        assert_eq!(blocked(None, under()).unwrap(), (SustainVerdict::Sustained, false));
        assert_eq!(blocked(Some(5_000), under()).unwrap(), (SustainVerdict::Sustained, false));
        assert_eq!(blocked(Some(5_001), under()).unwrap(), (SustainVerdict::Pressure, true));
        // What is worse is told, and what nothing else is known of, too.
        assert_eq!(blocked(Some(5_001), queue(1_010_000, 1 << 40, 0)).unwrap().0, SustainVerdict::Backlog);
        let mut early = Load::of(0, (0, 4_000));
        early.take(0, Some(Span { estimate: 1, lo: 1, hi: 1 }));
        assert!(blocked(None, early.clone()).is_err());
        assert_eq!(blocked(Some(5_001), early).unwrap(), (SustainVerdict::Pressure, true));
    }

    #[test]
    fn mean_delays_over_time_rise_where_a_queue_grows_and_hold_the_clocks_bounds() {
        let mut load = queue(1_010_000, 1 << 40, 300);
        load.hertz = 1_000_000; // a tick is a microsecond, an arrival a millisecond
        let delays = load.delays();
        assert_eq!(delays.iter().map(|piece| piece.count).sum::<u64>(), 10_000);
        assert!(delays.len() == PIECES && delays.iter().all(|piece| (piece.hi_ns - piece.lo_ns - 6e5).abs() < 1.0));
        for pair in delays.windows(2) {
            // Each waits 10 us longer than the one before: 1 % of the time between.
            let rise = (pair[1].lo_ns - pair[0].lo_ns) / (1e9 * (pair[1].at_s - pair[0].at_s));
            assert!((rise - 0.01).abs() < 1e-4, "{rise}");
        }
    }

    #[test]
    fn what_may_be_lost_is_sustained_and_one_more_is_not() {
        for (lost, verdict) in [(50, SustainVerdict::Sustained), (51, SustainVerdict::Dropped)] {
            let mut load = queue(500_000, 100, 0);
            (load.offered, load.lost) = (10_000, lost);
            assert_eq!(of(&mut load), verdict, "{lost} of 10 000");
        }
    }

    #[test]
    fn delays_that_grow_a_limit_and_the_tools_own_losses_are_told_apart() {
        let mut grows = queue(500_000, 100, 0);
        let longer = |load: &mut Load, ppm: i64| {
            let more = i128::from(ppm * HALF as i64 * load.piece / 1_000_000);
            for moment in &mut load.moments[HALF..] {
                moment.took = moment.took.map(|took| took + more * i128::from(moment.ended));
            }
        };
        longer(&mut grows, 6_000);
        assert_eq!(of(&mut grows), SustainVerdict::Latency);
        longer(&mut grows, -1_000);
        assert_eq!(of(&mut grows), SustainVerdict::Sustained);
        let (verdict, why) = grows.verdict(&RULE, 0, Err(Error::violated("p99"))).unwrap();
        assert!(verdict == SustainVerdict::Limit && why.contains("p99"), "{why}");
        assert!(grows.verdict(&RULE, 0, Err(Error::unresolved("open"))).is_err());
        grows.lost = 1_000;
        assert!(grows.verdict(&RULE, 1, Ok(())).unwrap_err().to_string().contains("no room"));
        grows.twice = 1;
        assert!(grows.verdict(&RULE, 0, Ok(())).unwrap_err().to_string().contains("came twice"));
        assert!(Load::of(0, (0, 0)).verdict(&RULE, 0, Ok(())).is_err());
    }
}
