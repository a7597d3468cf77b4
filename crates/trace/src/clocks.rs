//! From a raw tick to the reference: every point's chain of clocks.
//!
//! auxiliary clock -> counter of its node -> reference. A reading names a stretch of its counter, from when it came to
//! show that value until it moved on ([`Clocks::with_widths`]). A point that stamps with its node's counter has no
//! clock of its own; a time-stamp of the kernel, or of a program's log, is read from a clock that may have been set or
//! slewed, and comes to the counter through that clock's [`Epochs`]. The counter comes to the reference through a
//! [`ClockMap`], or is the reference.
//!
//! Each stamp is translated once: to an estimate, link by link, and to the interval that the links leave. An estimate
//! is an admissible map's value rounded down to a whole tick of the counter, and from there as any tick of the counter.
//! So a stage's estimate lies in every interval that is computed here:
//!
//! - two stamps of one counter are as far apart as they read, to the width of a reading either way, and so are their
//!   estimates, which are the readings themselves;
//! - two stamps of one other clock are as far apart on the counter as its slopes allow, and so are their estimates
//!   before they are rounded; each is rounded down, so their difference is one of the whole numbers around the exact
//!   one, and the interval, rounded outward, holds both;
//! - any other two lie within every distance of the two stamps' intervals, and so do their estimates;
//! - through the clock map goes each of these distances at each of its slopes, so also that of the estimates.
//!
//! Guarantees: no clamp, and no interval of two stamps of one counter carries the clock map's error. Deliberately
//! absent: evidence.
//!
//! Where a clock map relates two counters directly ([`Clocks::with_pairs`]), a stage between them lies in both ways'
//! intervals, joined with its estimate: clock maps to the reference need not agree with a third one to the last tick,
//! and an interval that is wider than it had to be is still one that holds the truth.

use tickscope_bracket::{ClockMap, Epochs, Held, Placement, ReadingWidths, Refused};
use tickscope_tick::{Interval, Local, Reference, Span, Tick};

use crate::{Error, Layout, Sighting, Stage, StageRole, StampAt};

/// How the ticks of one node's counter become ticks of the reference.
#[derive(Clone, Hash, Debug)]
#[allow(clippy::large_enum_variant, reason = "a run has a handful of clocks, and looks each up once a stamp")]
pub enum Clock {
    /// They are ticks of the reference.
    Reference,
    /// Through a clock map.
    Related(ClockMap),
    /// By its rate alone: through a clock map that is right up to an unknown shift, so that only stamps of this counter
    /// are as far apart as it says.
    Unrelated(ClockMap),
    /// By a rate that the evidence contradicts: no two of its stamps are known to be any time apart. The clock map only
    /// puts them in order.
    Refuted(ClockMap),
}

/// The clocks of every point of a layout. Points of nodes that share one counter share one [`Clock`].
#[derive(Clone, Hash, Debug)]
pub struct Clocks {
    counters: Vec<Clock>,
    /// From one counter to another, neither of them the reference.
    pairs: Vec<CounterPair>,
    own: Vec<Epochs>,
    /// By point.
    chains: Vec<Chain>,
    /// By point: how far its node's counter may stand beyond what it reads, in its own ticks.
    widths: Vec<i64>,
    /// By point: by how much its node's cores may differ, in ticks of the reference; part of the width. Empty: none.
    cores: Vec<u64>,
}

/// A clock map that takes ticks of one counter to ticks of another, by their indices.
#[derive(Clone, Hash, Debug)]
pub struct CounterPair {
    /// The counter whose ticks are mapped.
    pub local: usize,
    /// The counter whose ticks they become.
    pub reference: usize,
    /// From one to the other.
    pub clock_map: ClockMap,
}

/// How stamps that were read from their node's counter become ticks of the reference, for engines that compute by
/// table.
#[derive(Clone, Copy, Debug)]
pub struct CounterWay<'a> {
    /// Index of the counter; points of one counter have the same, all those on the reference 0.
    pub counter: usize,
    /// How far the counter may stand beyond what it reads, in its own ticks.
    pub width: i64,
    /// From the counter to the reference; `None`: it is the reference.
    pub clock_map: Option<&'a ClockMap>,
}

/// A point's way to the reference: indices of its clocks.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Chain {
    own: Option<usize>,
    counter: usize,
    /// By how much its stamps may be off what their auxiliary clock read, either way, in ticks of that clock.
    coarse: i64,
}

/// Why a stage has no duration, though both stamps are there.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Refusal {
    /// The clock that a stamp was read from has no interval for it.
    AuxiliaryClock(Refused),
    /// A tick is out of its clock map's reach, the evidence contradicts itself, or 64 bits do not hold the duration.
    NoInterval,
    /// The id passed several times, and the two stamps are not known to be of one passage.
    Untold,
    /// Nothing relates the counters of the two stamps' nodes.
    Unrelated,
}

/// What the durations of a stage between two readings of counters come from.
pub(crate) enum Way<'a> {
    /// The distance on the reference.
    Reference,
    /// The distance on another counter, and its clock map.
    Mapped(&'a ClockMap),
    /// Where both stamps lie on the reference.
    Across,
}

/// A stamp, and where it lies.
#[derive(Clone, Copy)]
pub(crate) struct Placed {
    raw: i64,
    /// On its node's counter.
    pub counter: Interval<Tick<Local>>,
    /// Where the chain goes on from, within that.
    pub counter_estimate: Tick<Local>,
    /// On the reference.
    on_reference: Placement,
    /// In the clock map, where there is one.
    held: Option<Held>,
}

/// Where a counter stood.
#[derive(Clone, Copy)]
struct OnCounter {
    counter: usize,
    ticks: Interval<Tick<Local>>,
}

/// The width of a counter's readings where nobody measured it.
const SINGLE_TICK: i64 = 1;
/// A counter that moves once in so many ticks measures nothing.
const WIDTH_MOST: i64 = ReadingWidths::MOST_TICKS as i64;

impl Clocks {
    /// The clocks of the points of `layout`, all stamped with their nodes' counters, which move by single ticks;
    /// `of_node`: each node's name with the index of its counter in `counters`.
    pub fn new(layout: &Layout, counters: Vec<Clock>, of_node: &[(String, usize)]) -> Result<Self, Error> {
        let chain = |node: &str| {
            let known = of_node.iter().find(|(name, _)| name == node);
            let Some(&(_, counter)) = known else {
                let remedy = "take brackets between this node and the reference, or name it as the reference";
                return Err(Error::new("a clock for every node", format!("none for '{node}'"), remedy));
            };
            clock_index(counter, counters.len(), node)?;
            Ok(Chain { own: None, counter, coarse: 0 })
        };
        let chains = layout.points().iter().map(|point| chain(point.place.node.as_str())).collect::<Result<_, _>>()?;
        let widths = vec![SINGLE_TICK; layout.points().len()];
        Ok(Self { counters, pairs: Vec::new(), own: Vec::new(), chains, widths, cores: Vec::new() })
    }

    /// Sets what relates two counters directly, neither of which is the reference.
    pub fn with_pairs(self, pairs: Vec<CounterPair>) -> Result<Self, Error> {
        for pair in &pairs {
            clock_index(pair.local, self.counters.len(), "a pair")?;
            clock_index(pair.reference, self.counters.len(), "a pair")?;
        }
        Ok(Self { pairs, ..self })
    }

    /// Sets how wide the readings of counters are. `of_node`: a node's name with how far its counter may stand beyond
    /// what it reads, in its own ticks. Nodes that are not named keep single ticks.
    pub fn with_widths(self, layout: &Layout, of_node: &[(String, u64)]) -> Result<Self, Error> {
        let mut widths = self.widths;
        for (point, width) in layout.points().iter().zip(&mut widths) {
            let Some((node, ticks)) = of_node.iter().find(|(node, _)| point.place.node == node.as_str()) else {
                continue;
            };
            let known = i64::try_from(*ticks).ok().filter(|ticks| (1..=WIDTH_MOST).contains(ticks));
            let remedy = "measure it again: see tickscope doctor";
            *width = known.ok_or_else(|| {
                Error::new(
                    format!("a reading width of 1 to {WIDTH_MOST} ticks for '{node}'"),
                    format!("{ticks}"),
                    remedy,
                )
            })?;
        }
        Ok(Self { widths, ..self })
    }

    /// Sets the points that are stamped by other clocks than their nodes' counters. `of_point`: each such `node.point`
    /// with the index of its clock in `own`. A clock's reference is the counter of the points' node. Those given before
    /// are forgotten.
    pub fn with_own(self, layout: &Layout, own: Vec<Epochs>, of_point: &[(String, usize)]) -> Result<Self, Error> {
        let names: Vec<String> = layout.points().iter().map(|point| point.place.to_string()).collect();
        let mut chains: Vec<Chain> = self.chains.iter().map(|chain| Chain { own: None, ..*chain }).collect();
        for (name, clock) in of_point {
            clock_index(*clock, own.len(), name)?;
            let place = names.iter().position(|known| known == name);
            let Some(chain) = place.and_then(|point| chains.get_mut(point)) else {
                let remedy = format!("use one of: {}", names.join(", "));
                return Err(Error::new("a clock for a point of the layout", format!("one for '{name}'"), remedy));
            };
            chain.own = Some(*clock);
        }
        for (point, chain) in chains.iter().enumerate().filter(|(_, chain)| chain.own.is_some()) {
            if let Some(other) =
                chains.iter().position(|other| other.own == chain.own && other.counter != chain.counter)
            {
                let found = format!("one clock for '{}' and '{}'", names[other], names[point]);
                let remedy = "give each node's points the clock of that node";
                return Err(Error::new("a clock that is related to one counter", found, remedy));
            }
        }
        Ok(Self { own, chains, ..self })
    }

    /// Sets the points whose stamps of another clock were rounded, as a log rounds what it prints. `of_point`: each
    /// such `node.point` with how far its stamps may be off what the clock read, in ticks of that clock. To be given
    /// after [`Clocks::with_own`].
    pub fn with_coarse(self, layout: &Layout, of_point: &[(String, u64)]) -> Result<Self, Error> {
        let mut chains = self.chains;
        for (point, chain) in layout.points().iter().zip(&mut chains) {
            let Some((name, ticks)) = of_point.iter().find(|(name, _)| *name == point.place.to_string()) else {
                continue;
            };
            let known = i64::try_from(*ticks).ok().filter(|&ticks| ticks <= WIDTH_MOST);
            let remedy = "write the log in finer units";
            chain.coarse = known.ok_or_else(|| {
                Error::new(format!("a resolution of up to {WIDTH_MOST} ticks for '{name}'"), format!("{ticks}"), remedy)
            })?;
        }
        Ok(Self { chains, ..self })
    }

    /// Notes by how much the cores of each node may differ, in ticks of the reference, where the widths of its readings
    /// hold that ([`Clocks::with_widths`]).
    pub fn with_cores(self, layout: &Layout, of_node: &[(String, u64)]) -> Self {
        let ticks = |node: &str| of_node.iter().find(|(name, _)| name == node).map_or(0, |&(_, ticks)| ticks);
        let cores = layout.points().iter().map(|point| ticks(point.place.node.as_str())).collect();
        Self { cores, ..self }
    }

    /// Ticks that `stage` is wider by on either side because its stamps may have come from different cores: of the one
    /// counter that they share, or of both. What the cores of other nodes add, through which the two are related, is
    /// not among them.
    pub fn core_ticks(&self, stage: &Stage) -> u64 {
        let [from, to] = [stage.from, stage.to].map(|point| self.cores.get(point).copied().unwrap_or(0));
        if self.share_a_counter(stage) { from.max(to) } else { from.saturating_add(to) }
    }

    /// Returns whether the first stamp may have been taken before the second, or when it was: readings of one counter
    /// by their order, any others by what is known of their clocks. Nothing known: it may.
    pub fn may_precede(&self, first: StampAt, second: StampAt) -> bool {
        let (from, to) = (first.point, second.point);
        let stage = Stage { name: String::new(), from, to, role: StageRole::Extra };
        let counters = self.own(from).is_none() && self.own(to).is_none();
        if counters && self.core_ticks(&stage) == 0 && self.share_a_counter(&stage) {
            return first.tick <= second.tick;
        }
        let (Ok(earlier), Ok(later)) = (self.place(from, first.tick), self.place(to, second.tick)) else { return true };
        self.bounds(&stage, earlier, later).is_none_or(|apart| apart.hi().get() >= 0)
    }

    /// How far a stamp is behind another in ticks of the reference: as estimated, at least, at most; `None` where
    /// nothing bounds it.
    pub fn distance(&self, first: StampAt, second: StampAt) -> Option<[i64; 3]> {
        let (from, to) = (first.point, second.point);
        let stage = Stage { name: String::new(), from, to, role: StageRole::Extra };
        self.measure(&stage, self.place(from, first.tick).ok()?, self.place(to, second.tick).ok()?)
    }

    /// The counters, the reference's first.
    pub fn counters(&self) -> &[Clock] {
        &self.counters
    }

    /// What relates two counters directly, neither of which is the reference.
    pub fn pairs(&self) -> &[CounterPair] {
        &self.pairs
    }

    /// For how many points.
    pub(crate) fn points(&self) -> usize {
        self.chains.len()
    }

    /// How far the counter of a point's node may stand beyond what it reads, in its own ticks.
    pub(crate) fn width(&self, point: usize) -> u64 {
        self.widths.get(point).map_or(0, |width| width.unsigned_abs())
    }

    /// By how much a point's stamps may be off what their auxiliary clock read, either way, in its ticks.
    pub(crate) fn coarse(&self, point: usize) -> i64 {
        self.chains.get(point).map_or(0, |chain| chain.coarse)
    }

    /// The clock map that a point's counter goes through; `None` on the reference.
    pub(crate) fn clock_map(&self, point: usize) -> Option<&ClockMap> {
        match self.counter(point)? {
            Clock::Reference => None,
            Clock::Related(clock_map) | Clock::Unrelated(clock_map) | Clock::Refuted(clock_map) => Some(clock_map),
        }
    }

    /// The clock that a point was stamped by, where that is not its node's counter.
    pub(crate) fn own(&self, point: usize) -> Option<&Epochs> {
        self.own.get(self.chains.get(point)?.own?)
    }

    /// The way of a point's stamps whose durations that way alone decides. `None`: they were read from another clock,
    /// nothing relates their counter to the reference, or clock maps between other counters narrow durations, too.
    pub fn counter_way(&self, point: usize) -> Option<CounterWay<'_>> {
        let chain = self.chains.get(point)?;
        if chain.own.is_some() || self.is_unrelated(point) || !self.pairs.is_empty() {
            return None;
        }
        let (clock_map, width) = (self.clock_map(point), *self.widths.get(point)?);
        let counter = clock_map.map_or(0, |_| chain.counter + 1);
        Some(CounterWay { counter, width, clock_map })
    }

    /// Returns whether something relates the counters of a stage's two points, and nothing contradicts either.
    pub fn relates(&self, stage: &Stage) -> bool {
        let ends = [stage.from, stage.to];
        let is_refuted = |point: usize| matches!(self.counter(point), Some(Clock::Refuted(_)));
        let related = self.share_a_counter(stage) || !ends.into_iter().any(|point| self.is_unrelated(point));
        related && !ends.into_iter().any(is_refuted)
    }

    /// Returns whether both points of a stage were stamped with one counter.
    pub fn on_one_counter(&self, stage: &Stage) -> bool {
        self.share_a_counter(stage) && self.own(stage.from).is_none() && self.own(stage.to).is_none()
    }

    fn is_unrelated(&self, point: usize) -> bool {
        matches!(self.counter(point), Some(Clock::Unrelated(_) | Clock::Refuted(_)))
    }

    fn counter(&self, point: usize) -> Option<&Clock> {
        self.counters.get(self.chains.get(point)?.counter)
    }

    /// Where a stamp of a point lies, for comparing it with others; `None` where its clock has no interval for it.
    pub fn sighting(&self, point: usize, raw: i64) -> Option<Sighting> {
        let chain = self.chains.get(point)?;
        let placed = self.place(point, raw).ok()?;
        let (counter, interval) = (placed.counter, placed.on_reference.interval);
        let reference = (!self.is_unrelated(point)).then(|| (interval.lo().get(), interval.hi().get()));
        // What another clock read is known to an interval, also on the counter.
        let counter = (chain.counter, counter.lo().get(), counter.hi().get());
        let counter = if chain.own.is_none() { (chain.counter, raw, raw) } else { counter };
        Some(Sighting { point, counter, reference })
    }

    /// How durations of a stage are computed whose stamps were both read from counters; `None`: stamp by stamp, as
    /// [`Clocks::measure`] does.
    pub(crate) fn way(&self, stage: &Stage) -> Option<Way<'_>> {
        let ends = [stage.from, stage.to];
        let is_other = ends.into_iter().any(|point| self.own(point).is_some());
        if stage.from == stage.to || is_other || !self.relates(stage) {
            return None;
        }
        if !self.share_a_counter(stage) {
            return self.pairs.is_empty().then_some(Way::Across);
        }
        Some(self.clock_map(stage.from).map_or(Way::Reference, Way::Mapped))
    }

    fn share_a_counter(&self, stage: &Stage) -> bool {
        let both_reference = self.clock_map(stage.from).is_none() && self.clock_map(stage.to).is_none();
        let counter = |point: usize| self.chains.get(point).map(|chain| chain.counter);
        both_reference || counter(stage.from) == counter(stage.to)
    }

    /// When a stamp of a point was taken, in ticks of the reference: estimate, lower and upper end; `None`: nothing
    /// bounds it. Bounds of a duration are not the difference of two of these: what both share is smaller.
    pub fn instant(&self, point: usize, raw: i64) -> Option<[i64; 3]> {
        if self.is_unrelated(point) {
            return None;
        }
        let Placement { estimate, interval } = self.place(point, raw).ok()?.on_reference;
        Some([estimate.get(), interval.lo().get(), interval.hi().get()])
    }

    /// Where a stamp stands among others of its point, in ticks of the reference as estimated, also where nothing
    /// relates its counter to the reference; `None`: nothing bounds it.
    pub fn on_axis(&self, point: usize, raw: i64) -> Option<i64> {
        Some(self.place(point, raw).ok()?.on_reference.estimate.get())
    }

    /// Where a stamp lies, link by link.
    pub(crate) fn place(&self, point: usize, raw: i64) -> Result<Placed, Refusal> {
        let (counter_estimate, counter) = match self.own(point) {
            None => (Tick::new(raw), self.while_read(point, raw).ok_or(Refusal::NoInterval)?),
            Some(own) => {
                let Placement { estimate, interval } =
                    own.place_within(Tick::new(raw), self.coarse(point)).map_err(Refusal::AuxiliaryClock)?;
                (counter_tick(estimate), counter_ticks(interval))
            }
        };
        let on_reference = self.on_reference(point, counter_estimate, counter);
        let (on_reference, held) = on_reference.ok_or(Refusal::NoInterval)?;
        Ok(Placed { raw, counter, counter_estimate, on_reference, held })
    }

    /// Where the counter of a point's node stood when it read `raw`.
    pub(crate) fn while_read(&self, point: usize, raw: i64) -> Option<Interval<Tick<Local>>> {
        let last = raw.checked_add(*self.widths.get(point)?)?;
        Interval::new(Tick::new(raw), Tick::new(last)).ok()
    }

    /// The estimate of a tick of the counter, and what holds every tick of an interval of it.
    fn on_reference(
        &self,
        point: usize,
        estimate: Tick<Local>,
        counter: Interval<Tick<Local>>,
    ) -> Option<(Placement, Option<Held>)> {
        let Some(clock_map) = self.clock_map(point) else {
            let [lo, hi] = [counter.lo(), counter.hi()].map(|tick| Tick::new(tick.get()));
            let interval = Interval::new(lo, hi).ok()?;
            return Some((Placement { estimate: Tick::new(estimate.get()), interval }, None));
        };
        let held = clock_map.hold(counter).ok()?;
        let placed = clock_map.placed(&held)?;
        let estimate = if estimate == counter.lo() { placed.estimate } else { clock_map.estimate(estimate).ok()? };
        Some((Placement { estimate, ..placed }, Some(held)))
    }

    /// How far two stamps are apart on the counter that they share.
    fn apart(&self, stage: &Stage, from: Placed, to: Placed) -> Option<Interval<Span<Local>>> {
        let own = |point: usize| self.chains.get(point).and_then(|chain| chain.own);
        match self.own(stage.from).filter(|_| own(stage.from) == own(stage.to)) {
            None => difference(to.counter, from.counter),
            Some(clock) => {
                let coarse = [stage.from, stage.to].map(|point| self.coarse(point));
                let apart = clock.span_within([from.raw, to.raw].map(Tick::new), coarse).ok()?;
                Interval::new(Span::new(apart.lo().get()), Span::new(apart.hi().get())).ok()
            }
        }
    }

    /// The guaranteed interval of one duration; `None` where there is none.
    fn bounds(&self, stage: &Stage, from: Placed, to: Placed) -> Option<Interval<Span<Reference>>> {
        if stage.from == stage.to && from.raw == to.raw {
            return Some(Interval::exactly(Span::new(0))); // one stamp: no time passes from it to itself
        }
        if !self.relates(stage) {
            return None;
        }
        if !self.share_a_counter(stage) {
            let apart = difference(to.on_reference.interval, from.on_reference.interval)?;
            return self.through_pairs(stage, from, to, apart);
        }
        let apart = self.apart(stage, from, to)?;
        match self.clock_map(stage.from).zip(from.held).zip(to.held) {
            None => Interval::new(Span::new(apart.lo().get()), Span::new(apart.hi().get())).ok(),
            Some(((clock_map, from), to)) => clock_map.span_between(&from, &to, apart),
        }
    }

    /// What the direct clock maps of a stage's two counters leave of an interval of its duration, joined with its
    /// estimate; `None` where they leave nothing.
    fn through_pairs(
        &self,
        stage: &Stage,
        from: Placed,
        to: Placed,
        apart: Interval<Span<Reference>>,
    ) -> Option<Interval<Span<Reference>>> {
        let Some([first, last]) = self.counters_of(stage).filter(|_| !self.pairs.is_empty()) else {
            return Some(apart);
        };
        let mut narrowed = apart;
        for pair in &self.pairs {
            let way = match (pair.local, pair.reference) {
                ends if ends == (last, first) => self.onto(pair, to, from, first).map(|(there, from)| (from, there)),
                ends if ends == (first, last) => self.onto(pair, from, to, last),
                _ => continue,
            };
            let Some(Some(way)) = way.map(|(from, to)| self.on_one(from, to)) else { continue };
            narrowed = narrowed.intersect(way).ok()?;
        }
        let estimate = to.on_reference.estimate.get().checked_sub(from.on_reference.estimate.get())?;
        let estimate = Some(Span::new(estimate)).filter(|&estimate| apart.contains(estimate))?;
        Interval::new(narrowed.lo().min(estimate), narrowed.hi().max(estimate)).ok()
    }

    fn counters_of(&self, stage: &Stage) -> Option<[usize; 2]> {
        let counter = |point: usize| self.chains.get(point).map(|chain| chain.counter);
        Some([counter(stage.from)?, counter(stage.to)?])
    }

    /// A stamp on the other stamp's counter, and that other stamp: both ends on the counter `counter`. `None` where the
    /// pair's clock map has no interval for it.
    fn onto(&self, pair: &CounterPair, moved: Placed, kept: Placed, counter: usize) -> Option<(OnCounter, OnCounter)> {
        let held = pair.clock_map.hold(moved.counter).ok()?;
        let there = counter_ticks(pair.clock_map.placed(&held)?.interval);
        Some((OnCounter { counter, ticks: there }, OnCounter { counter, ticks: kept.counter }))
    }

    /// How long it took from one stretch of a counter to another, in ticks of the reference.
    fn on_one(&self, from: OnCounter, to: OnCounter) -> Option<Interval<Span<Reference>>> {
        let Clock::Related(clock_map) = self.counters.get(from.counter)? else { return None };
        let apart = difference(to.ticks, from.ticks)?;
        clock_map.span_within(from.ticks, to.ticks, apart).ok()
    }

    /// Estimate, lo and hi of one duration; `None` where the evidence contradicts itself, or 64 bits do not hold it.
    pub(crate) fn measure(&self, stage: &Stage, from: Placed, to: Placed) -> Option<[i64; 3]> {
        let estimate = to.on_reference.estimate.get().checked_sub(from.on_reference.estimate.get())?;
        let bounds = self.bounds(stage, from, to)?;
        if !bounds.contains(Span::new(estimate)) {
            return None;
        }
        Some([estimate, bounds.lo().get(), bounds.hi().get()])
    }
}

fn clock_index(index: usize, clocks: usize, of: &str) -> Result<(), Error> {
    if index < clocks {
        return Ok(());
    }
    let found = format!("clock {index} of {clocks} for '{of}'");
    Err(Error::new("the index of a clock", found, "count the clocks from 0"))
}

/// The counter is the reference of a clock of its node, and local to the reference of the run.
fn counter_tick(tick: Tick<Reference>) -> Tick<Local> {
    Tick::new(tick.get())
}

fn counter_ticks(interval: Interval<Tick<Reference>>) -> Interval<Tick<Local>> {
    let [lo, hi] = [interval.lo(), interval.hi()].map(counter_tick);
    Interval::new(lo, hi).unwrap_or(Interval::exactly(lo))
}

/// All distances from a tick of `earlier` to a tick of `later`; `None` where 64 bits do not hold them.
fn difference<D>(later: Interval<Tick<D>>, earlier: Interval<Tick<D>>) -> Option<Interval<Span<D>>> {
    later.lo().get().checked_sub(earlier.hi().get())?;
    later.hi().get().checked_sub(earlier.lo().get())?;
    Some(later.since(earlier))
}
