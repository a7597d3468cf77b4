//! A clock that somebody may set, step or slew, against the counter of its node: one clock map for every epoch of it.
//!
//! `CLOCK_REALTIME` and its like are read between two readings of the counter, which is a bracket with both sides. The
//! brackets, in the order of the counter, are divided where a *break* lies: a span of the counter in which somebody saw
//! a step, a suspend or a slew beyond the bound; or two brackets that no clock within the bound can join. Between two
//! breaks lies an *epoch*, which has a [`ClockMap`] of its own: its own rate and its own offset.
//!
//! A tick of such a clock is a reading: the clock stood in `[y, y + width)`, and so did the counter with its own width
//! ([`crate::ReadingWidths`]). So an interval here holds every instant at which the clock read `y`, and the brackets
//! are taken as raw readings of both.
//!
//! Never extrapolated: a reading has an interval only between two brackets of one epoch. A backward step makes the
//! clock read the same twice, so a reading that may have been read in two epochs, or before a break and after it, is
//! refused as ambiguous: every epoch reaches, at its fastest, to the end of the break that follows and to the beginning
//! of the one before. Of breaks that are told together, so that no bracket certainly lies between them, each bracket
//! among them says what else the clock read meanwhile.
//!
//! Assumes: brackets are true; between two breaks the rate stays within the model's rho of a constant within its prior;
//! a break is one instant within its span, or a stretch in which the clock only ran forward; nothing was stamped before
//! the first bracket or after the last, nor between two breaks without a bracket between them; no bracket holds two
//! breaks of which nothing else tells. Guarantees: what the crate does, epoch by epoch; a contradiction costs the epoch
//! that it lies in. Deliberately absent: what broke the clock, and when to distrust it; whoever watches it declares
//! that.

mod division;
mod readings;

use std::fmt;

use tickscope_tick::{Interval, Local, Reference, Span, Tick};

use crate::epochs::division::{Cut, Division, Group, Looseness, Reading};
use crate::epochs::readings::{Range, Readings};
use crate::{Bracket, ClockMap, Cone, Error, Finding, HalfWidths, Model, NamedBracket};

/// Map from the readings of a clock to the counter of its node. Immutable.
///
/// Build: O(n log n) in the number of brackets; a question: O(log n).
///
/// ```
/// use tickscope_bracket::{Bracket, Epochs, Model, Ratio, Refused, Rho};
/// use tickscope_tick::Tick;
///
/// // A clock in ns and a counter at 2 GHz; 1 ms after its start the clock is stepped back by 0.4 ms.
/// let read = |counter: i64, ns: i64| Bracket::new(Some(counter - 50), ns, Some(counter + 50));
/// let evidence = [read(0, 0), read(2_000_000, 1_000_000), read(2_000_200, 600_100), read(6_000_000, 2_600_000)];
/// let model = Model::new("1".parse::<Rho>()?, Ratio::new(2, 1)?, Tick::new(0));
/// let clock = Epochs::new(&evidence, &[], &Model { prior_ppm: Epochs::KERNEL_PRIOR_PPM, ..model })?;
/// let jump = clock.breaks()[0].jump.unwrap();
/// assert!((-400_060..=-399_940).contains(&jump.lo().get()) && jump.width() < 120);
/// assert!(clock.interval(Tick::new(1_500_000))?.contains(Tick::new(3_800_000)));
/// assert_eq!(clock.interval(Tick::new(700_000)), Err(Refused::Ambiguous));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Hash, Debug)]
pub struct Epochs {
    epochs: Vec<Epoch>,
    breaks: Vec<Break>,
    readings: Readings,
    ends: [Bracket; 2],
    /// How far the clock may stand beyond what it reads, in its own ticks.
    clock_width: i64,
    /// The most that the counter runs meanwhile, rounded up.
    reading_ticks: u64,
}

/// A stretch in which the clock was neither set nor slewed beyond the bound.
#[derive(Clone, Hash, Debug)]
pub struct Epoch {
    /// The smallest reading among its brackets.
    pub first: Tick<Local>,
    /// The largest reading among its brackets.
    pub last: Tick<Local>,
    /// How many brackets it has.
    pub brackets: usize,
    /// The clock map of the brackets; or why they contradict each other, with positions in the evidence that was given:
    /// then no reading of this epoch has an interval.
    pub clock_map: Result<ClockMap, Finding>,
}

/// Where the clock was set, stepped or slewed, or the host suspended.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Break {
    /// Ticks of the counter between which it happened.
    pub span: Interval<Tick<Reference>>,
    /// How many declared spans it is made of; 0: nobody declared it, the brackets show it.
    pub declared: usize,
    /// Pairs of brackets that no clock within the bound can join, earlier and later.
    pub shown: Vec<[NamedBracket; 2]>,
    /// By how many of its ticks the clock jumped, from the brackets around; positive: forward. `None`: there is no
    /// bracket on one side, or 64 bits do not hold it.
    pub jump: Option<Interval<Span<Local>>>,
}

/// Why a reading has no interval.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Refused {
    /// No two brackets of an epoch lie around it: it would have to be extrapolated.
    Outside,
    /// It may have been read while the clock broke, and not between two brackets of an epoch.
    InBreak,
    /// The clock may have read it twice.
    Ambiguous,
    /// The brackets of its epoch contradict each other: see [`Epoch::clock_map`].
    Contradictory,
}

/// Where the counter stood when the clock read a tick.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Placement {
    /// An admissible map's value, rounded down: within one epoch differences of estimates keep to the slopes.
    pub estimate: Tick<Reference>,
    /// Contains every instant at which the clock may have read it; contains the estimate.
    pub interval: Interval<Tick<Reference>>,
}

impl Epochs {
    /// How far the rate of a kernel's clock may lie from what the counter's frequency says, parts per million:
    /// `adjtimex` takes a frequency of up to 500 ppm, `adjtime` slews by 500 more, and a frequency that was not
    /// calibrated by that kernel may be 100 off. A prior for [`Model::prior_ppm`]; where there is evidence it costs
    /// nothing.
    pub const KERNEL_PRIOR_PPM: u32 = Self::kernel_prior_ppm(0);

    /// The same where the counter's frequency may be further off, parts per million.
    pub const fn kernel_prior_ppm(tolerance_ppm: u32) -> u32 {
        const MILLION: u64 = 1_000_000;
        const KERNEL: u64 = 1_000;
        let tolerance = if tolerance_ppm > 100 { tolerance_ppm as u64 } else { 100 };
        // (1 + tolerance)/(1 - kernel) - 1: the counter as fast as it may be, the clock as slow.
        let prior = ((tolerance + KERNEL) * MILLION).div_ceil(MILLION - KERNEL);
        if prior < u32::MAX as u64 { prior as u32 } else { u32::MAX }
    }

    /// The epochs that `brackets`, raw readings in any order, and the declared `breaks` divide a clock into.
    ///
    /// `model`: the clock is local, the counter the reference; rho is how far its rate may wander within an epoch. Its
    /// anchor is not used: each epoch's is the middle of its evidence.
    ///
    /// Errors: no bracket at all, one with an open side, ticks too far apart within one epoch, or a wrong prior.
    pub fn new(brackets: &[Bracket], breaks: &[Interval<Tick<Reference>>], model: &Model) -> Result<Self, Error> {
        let (slow, fast) = model.prior()?;
        let widest = Cone::new(slow, fast, model.rho);
        let [clock_width, counter_width] = model.widths.checked()?;
        let division = Division::new(brackets, breaks, &Looseness { widest, clock_width, counter_width })?;
        let ends = division.ends.map(|reading| brackets[reading.index]);
        let reading_ticks = widest.counted_in(clock_width);
        let mut epochs = Vec::new();
        let mut edges = Vec::new();
        for group in division.groups {
            edges.push([group.readings[0], group.readings[group.readings.len() - 1]]);
            epochs.push(Epoch::new(&group, brackets, model)?);
        }
        let cones: Vec<Cone> = epochs.iter().map(|epoch| epoch.cone(widest)).collect();
        let ranges = epochs.iter().enumerate().map(|(number, epoch)| {
            let (before, after) = (division.cuts[number].as_ref(), division.cuts[number + 1].as_ref());
            Range::of(epoch, edges[number], [before, after], cones[number], clock_width)
        });
        let among = |&(reading, span): &(Reading, [i64; 2])| Range::among(reading, span, widest, clock_width);
        let readings = Readings::new(&ranges.chain(division.among.iter().map(among)).collect::<Vec<_>>());
        let break_at = |(number, cut): (usize, &Option<Cut>)| {
            let around = (number > 0 && number < edges.len()).then(|| {
                let cone = [cones[number - 1], cones[number]];
                jump([edges[number - 1][1], edges[number][0]], cone, clock_width)
            });
            cut.as_ref().map(|cut| cut.as_break(brackets, around.flatten()))
        };
        let breaks = division.cuts.iter().enumerate().filter_map(break_at).collect();
        Ok(Self { epochs, breaks, readings, ends, clock_width, reading_ticks })
    }

    /// Contains every instant of the counter at which the clock may have read `at`; rounded outward.
    #[inline]
    pub fn interval(&self, at: Tick<Local>) -> Result<Interval<Tick<Reference>>, Refused> {
        Ok(self.place(at)?.interval)
    }

    /// An admissible map's value at `at`, rounded down; lies in its interval.
    #[inline]
    pub fn estimate(&self, at: Tick<Local>) -> Result<Tick<Reference>, Refused> {
        Ok(self.place(at)?.estimate)
    }

    /// Estimate and interval at once.
    #[inline]
    pub fn place(&self, at: Tick<Local>) -> Result<Placement, Refused> {
        let clock_map = self.clock_map(self.readings.epoch_of(at.get())?)?;
        clock_map.reading(at, self.clock_width).map_err(|_| Refused::Outside)
    }

    /// The same where the clock may have read up to `off` less or more than `at`, as in a log that rounds. Refused
    /// where one of those readings would be, or where they are not all of one epoch.
    pub fn place_within(&self, at: Tick<Local>, off: i64) -> Result<Placement, Refused> {
        let placed = self.place(at)?;
        if off == 0 {
            return Ok(placed);
        }
        let ends = [at.get().checked_sub(off), at.get().checked_add(off)];
        let [Some(first), Some(last)] = ends else { return Err(Refused::Outside) };
        let [lowest, of_at, highest] = [first, at.get(), last].map(|reading| self.readings.epoch_of(reading));
        if lowest? != of_at? || highest? != of_at? {
            return Err(Refused::Ambiguous);
        }
        let [first, last] = [self.place(Tick::new(first))?.interval, self.place(Tick::new(last))?.interval];
        let interval = Interval::new(first.lo(), last.hi()).map_err(|_| Refused::Outside)?;
        Ok(Placement { interval, ..placed })
    }

    /// Contains the counter's ticks from the instant at which the clock read `from` to the one at which it read `to`,
    /// and the difference of their estimates.
    ///
    /// Within one epoch by its slopes, so that a short distance is known to about two of its readings' widths however
    /// wide the brackets are; across a break the difference of the two intervals.
    pub fn span(&self, from: Tick<Local>, to: Tick<Local>) -> Result<Interval<Span<Reference>>, Refused> {
        self.span_within([from, to], [0; 2])
    }

    /// The same where the clock may have read up to `off` less or more than each of the two, as in
    /// [`Epochs::place_within`].
    pub fn span_within(
        &self,
        [from, to]: [Tick<Local>; 2],
        off: [i64; 2],
    ) -> Result<Interval<Span<Reference>>, Refused> {
        let [start, end] = [from, to].map(|at| self.readings.epoch_of(at.get()));
        let (start, end) = (start?, end?);
        if start == end {
            let clock_map = self.clock_map(start)?;
            let stood = |at: Tick<Local>, off: i64| {
                let (first, last) =
                    (at.get().checked_sub(off), at.get().checked_add(off)?.checked_add(self.clock_width));
                Interval::new(Tick::new(first?), Tick::new(last?)).ok()
            };
            let ends = stood(from, off[0]).zip(stood(to, off[1])).ok_or(Refused::Outside)?;
            let read = i128::from(to.get()) - i128::from(from.get());
            let loose = i128::from(self.clock_width) + i128::from(off[0]) + i128::from(off[1]);
            let apart = [read - loose, read + loose].map(|ticks| i64::try_from(ticks).map(Span::new));
            let [Ok(least), Ok(most)] = apart else { return Err(Refused::Outside) };
            let distance = Interval::new(least, most).map_err(|_| Refused::Outside)?;
            return clock_map.span_within(ends.0, ends.1, distance).map_err(|_| Refused::Outside);
        }
        let (earlier, later) = (self.place_within(from, off[0])?.interval, self.place_within(to, off[1])?.interval);
        let fits = later.lo().get().checked_sub(earlier.hi().get()).is_some()
            && later.hi().get().checked_sub(earlier.lo().get()).is_some();
        if fits { Ok(later.since(earlier)) } else { Err(Refused::Outside) }
    }

    /// How much the error of an estimate may differ between two readings whose estimates lie that far apart: cone width
    /// times the distance, what a reading and the estimate's rounding leave open; `u64::MAX` where there are several
    /// epochs. Not capped: the caller caps it by the intervals.
    pub fn relative_bound(&self, apart: Span<Reference>) -> u64 {
        let [Epoch { clock_map: Ok(clock_map), .. }] = self.epochs.as_slice() else { return u64::MAX };
        let local = clock_map.cone().local_at_most(i128::from(apart.get().unsigned_abs()) + 1);
        let Ok(local) = i64::try_from(local) else { return u64::MAX };
        let rounding = 1;
        clock_map.relative_bound(Span::new(local)).saturating_add(self.reading_ticks).saturating_add(rounding)
    }

    /// Half the intervals' widths at those of these ticks that have one, in ticks of the counter.
    pub fn half_widths(&self, at: impl IntoIterator<Item = Tick<Local>>) -> HalfWidths {
        let half_width = |tick| self.interval(tick).ok().map(Interval::half_width);
        HalfWidths::new(at.into_iter().filter_map(half_width).collect())
    }

    /// The epochs, in the order of the counter.
    pub fn epochs(&self) -> &[Epoch] {
        &self.epochs
    }

    /// The breaks, in the order of the counter: those declared and those that the brackets show.
    pub fn breaks(&self) -> &[Break] {
        &self.breaks
    }

    /// Linear interpolation, for comparison: X-Lap reconstructs time-stamps on the line between a packet's first and
    /// last reading on a host; here the line is the run's, through the middles of the first and the last bracket. No
    /// guarantee; `None` where there is no such line, or
    /// 64 bits do not hold its value.
    pub fn published(&self, at: Tick<Local>) -> Option<Tick<Reference>> {
        let doubled_middle = |end: &Bracket| Some(i128::from(end.before?.get()) + i128::from(end.after?.get()));
        let [first, last] = &self.ends;
        let (base, rise) = (doubled_middle(first)?, doubled_middle(last)? - doubled_middle(first)?);
        let [run, along] = [last.at, at].map(|at| i128::from(at.get()) - i128::from(first.at.get()));
        let doubled = base + rise.checked_mul(along)?.checked_div_euclid(run)?;
        i64::try_from(doubled >> 1).ok().map(Tick::new)
    }

    fn clock_map(&self, epoch: usize) -> Result<&ClockMap, Refused> {
        self.epochs[epoch].clock_map.as_ref().map_err(|_| Refused::Contradictory)
    }
}

impl Epoch {
    fn new(group: &Group, brackets: &[Bracket], model: &Model) -> Result<Self, Error> {
        let ats = group.readings.iter().map(|reading| reading.at);
        let (first, last) = ats.fold((i64::MAX, i64::MIN), |(least, most), at| (least.min(at), most.max(at)));
        let middle = (i128::from(first) + i128::from(last)) >> 1;
        let model = Model { anchor: Tick::new(middle as i64), ..*model };
        let named = |reading: &Reading| NamedBracket { index: reading.index, bracket: brackets[reading.index] };
        let clock_map = match group.readings.iter().find(|reading| reading.is_reversed()) {
            Some(reversed) => Err(Finding::Reversed(named(reversed))),
            None => {
                let sides = |reading: &Reading| brackets[reading.index].behind_readings(model.widths, reading.index);
                let sides = group.readings.iter().map(sides).collect::<Result<Vec<_>, Error>>()?;
                let admitted: Vec<Bracket> = sides.into_iter().flatten().flatten().collect();
                let renamed = |finding: Finding| finding.renamed(|other| named(&group.readings[other.index / 2]));
                ClockMap::or_finding(&admitted, &model)?.map_err(renamed)
            }
        };
        Ok(Self { first: Tick::new(first), last: Tick::new(last), brackets: group.readings.len(), clock_map })
    }

    fn cone(&self, widest: Cone) -> Cone {
        self.clock_map.as_ref().map_or(widest, ClockMap::cone)
    }
}

impl Cut {
    fn as_break(&self, brackets: &[Bracket], jump: Option<Interval<Span<Local>>>) -> Break {
        let named = |index: usize| NamedBracket { index, bracket: brackets[index] };
        let span = Interval::new(Tick::new(self.first), Tick::new(self.last));
        let span = span.unwrap_or_else(|_| Interval::exactly(Tick::new(self.first)));
        Break { span, declared: self.declared, shown: self.shown.iter().map(|pair| pair.map(named)).collect(), jump }
    }
}

/// By how much more or less than it ran the clock's readings changed between two brackets: either cone may have held at
/// any instant between them.
fn jump([earlier, later]: [Reading; 2], cones: [Cone; 2], clock_width: i64) -> Option<Interval<Span<Local>>> {
    let least = i128::from(later.before) - i128::from(earlier.after) - 1;
    let most = i128::from(later.after) + 1 - i128::from(earlier.before);
    let ran_least = cones.iter().map(|cone| cone.local_at_least(least.max(0))).min()?;
    let ran_most = cones.iter().map(|cone| cone.local_at_most(most.max(0))).max()?;
    let read = i128::from(later.at) - i128::from(earlier.at);
    let span = |ticks: i128| i64::try_from(ticks).ok().map(Span::new);
    let width = i128::from(clock_width);
    Interval::new(span(read - width - ran_most)?, span(read + width - ran_least)?).ok()
}

impl fmt::Display for Break {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { span, declared, shown, jump } = self;
        write!(f, "expected a clock that is neither set nor slewed beyond its bound, found a break between ticks ")?;
        write!(f, "{} and {} of the counter", span.lo(), span.hi())?;
        match declared {
            0 => f.write_str(", declared by nobody")?,
            1 => f.write_str(", as declared")?,
            several => write!(f, ", declared {several} times without a bracket between")?,
        }
        for [earlier, later] in shown {
            write!(f, "; no clock within the bound joins {earlier} and {later}")?;
        }
        match jump {
            Some(jump) => write!(f, "; it jumped by {} to {} of its ticks", jump.lo(), jump.hi()),
            None => f.write_str("; by how much is not known"),
        }
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Refused::Outside => "no brackets of one epoch around it",
            Refused::InBreak => "read while the clock was set, stepped or slewed",
            Refused::Ambiguous => "the clock may have read it twice",
            Refused::Contradictory => "the brackets of its epoch contradict each other",
        })
    }
}

impl std::error::Error for Refused {}
