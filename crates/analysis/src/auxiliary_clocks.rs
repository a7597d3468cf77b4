//! Clocks of a node other than its counter: points that were stamped with `CLOCK_REALTIME` or `CLOCK_MONOTONIC`, by
//! the kernel or by a program that reads nothing else.
//!
//! Evidence: brackets of that clock against the node's counter, from the clock monitor (`brackets/`) and from the
//! measured programs themselves (stamps of the point `clock-bracket.NAME`: tick before, reading, tick after). The
//! bound is how far that clock may run off its rate, which is never the counters' rho: a disciplined clock is slewed.
//!
//! Guarantees: a span in which the clock was set, or slewed beyond the bound, is void; no reading is extrapolated.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use tickscope_bracket::{Bracket, ClockMap, Epochs, Model, Ratio, ReadingWidths, Refused, Rho};
use tickscope_store::{Channel, Event, EventKind, Manifest, Node, Pair, Run};
use tickscope_tick::own_points::CLOCK_BRACKET;
use tickscope_tick::{Clock, Interval, Label, NodeName, Place, Reference, Tick};
use tickscope_trace::{Layout, OwnStamps, Quantile, Reconstruction};

use crate::declared_rho::declared_for;
use crate::domains;
use crate::error::Error;
use crate::evidence::{UNORDERED, core_ticks, on_reference, reading_ticks};
use crate::query::Query;

/// Summary of a clock of a node that is not its counter.
#[derive(Debug)]
pub struct AuxiliaryClockSummary {
    /// The domain, `node.clock`.
    pub domain: Label,
    /// The node's counter.
    pub counter: Label,
    /// How far it may run off its rate.
    pub slew: Rho,
    /// Where that bound came from.
    pub slew_origin: String,
    /// How fast its counter is declared to run.
    pub hertz: u64,
    /// How far its rate may lie from what that declares, without evidence.
    pub prior_ppm: u32,
    /// True if the evidence of an epoch leaves the clock's rate as open as the prior does.
    pub rests_on_prior: bool,
    /// How many brackets.
    pub brackets: usize,
    /// Brackets that did not serve, by reason.
    pub unused: Vec<(&'static str, u64)>,
    /// Stretches between two breaks.
    pub epochs: usize,
    /// Where it was set or slewed: ticks of the node's counter, and what the brackets say of the jump, in its own
    /// ticks.
    pub breaks: Vec<BreakSummary>,
    /// How many of the layout's points were stamped with it; 0: it serves as evidence only.
    pub points: u64,
    /// Readings at the layout's points that have an interval.
    pub readings: u64,
    /// Half their intervals' widths, in ticks of the counter, at the median.
    pub half_width_ticks: Option<u64>,
    /// The same at the 99th percentile.
    pub half_width_p99_ticks: Option<u64>,
    /// Readings that linear interpolation, by one line between the run's ends, puts into their intervals.
    pub published_inside: u64,
    /// How far outside it puts the others at most, in ticks of the counter.
    pub published_furthest_ticks: u64,
    /// Epochs whose brackets contradict each other, and how.
    pub contradictions: Vec<String>,
}

/// A span in which a clock is not trusted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BreakSummary {
    /// First and last tick of the node's counter.
    pub span: (i64, i64),
    /// True if the clock monitor reported it; else the brackets show it.
    pub declared: bool,
    /// By how much it jumped, as far as the brackets tell; nanoseconds.
    pub jump_ns: Option<(i64, i64)>,
}

/// How far off a slew's rate may be reported by the clock monitor, on top of a tenth of it; its own tests hold it to
/// 25 ppm.
const TOLD_OFF_PPB: u64 = 30_000;

/// The clocks other than counters that a run's points need.
pub(crate) struct AuxiliaryClocks {
    /// By node and name of the clock.
    known: BTreeMap<(NodeName, &'static str), (Epochs, AuxiliaryClockSummary)>,
    of_point: BTreeMap<Place, AuxiliaryClock>,
}

/// The clock of a point, and by how much its stamps may be off what that read, in its ticks.
struct AuxiliaryClock {
    clock: Clock,
    coarse: u64,
}

/// For a clock that nobody watched: what the kernel itself slews by at most.
const UNWATCHED_SLEW_PPB: u32 = 500_000;

impl AuxiliaryClocks {
    /// The clocks of these points.
    pub(crate) fn of<'a>(
        run: &Run,
        points: impl IntoIterator<Item = &'a Place>,
        channels: &[Channel],
        events: &[Event],
        query: &Query,
    ) -> Result<Self, Error> {
        let mut clocks = Self { known: BTreeMap::new(), of_point: BTreeMap::new() };
        for place in points {
            let Some(clock) = clock_of(run.manifest(), place, channels)? else {
                if coarse(run.manifest(), place) > 0 {
                    return Err(Error::work(format!(
                        "run.json: expected resolution_ticks of points with a clock of their own alone, found it at \
                         {place}, which is stamped with its node's counter. Take it out"
                    )));
                }
                continue;
            };
            let coarse = coarse(run.manifest(), place);
            clocks.of_point.insert(place.clone(), AuxiliaryClock { clock, coarse });
            if let Entry::Vacant(unknown) = clocks.known.entry((place.node.clone(), clock.name())) {
                let domain = Label { node: place.node.clone(), clock };
                unknown.insert(relate(run, domain, channels, events, query)?);
            }
        }
        Ok(clocks)
    }

    /// Returns whether every point was stamped with its node's counter.
    pub(crate) fn is_empty(&self) -> bool {
        self.of_point.is_empty()
    }

    /// The clock that a point was stamped with; `None`: its node's counter.
    pub(crate) fn at(&self, place: &Place) -> Option<&Epochs> {
        let clock = self.of_point.get(place)?.clock;
        self.known.get(&(place.node.clone(), clock.name())).map(|(epochs, _)| epochs)
    }

    /// Between which ticks of its node's counter a stamp of a point was read; `width`: how far that counter may stand
    /// beyond what it reads. `None` where 64 bits do not hold them.
    pub(crate) fn counted(&self, place: &Place, stamp: i64, width: i64) -> Result<Option<(i64, i64)>, Refused> {
        let Some(clock) = self.at(place) else {
            return Ok(stamp.checked_add(width).map(|last| (stamp, last)));
        };
        let coarse = self.of_point.get(place).map_or(0, |clock| clock.coarse);
        let interval = clock.place_within(Tick::new(stamp), i64::try_from(coarse).unwrap_or(i64::MAX))?.interval;
        Ok(Some((interval.lo().get(), interval.hi().get())))
    }

    /// Points whose stamps may be off what their clock read, and by how much, in ticks of the clock.
    pub(crate) fn coarse(&self) -> Vec<(String, u64)> {
        let rounded = self.of_point.iter().filter(|(_, clock)| clock.coarse > 0);
        rounded.map(|(place, clock)| (place.to_string(), clock.coarse)).collect()
    }

    /// The clocks, the points of `layout` with the index of their clock, and a summary of each clock.
    pub(crate) fn into_parts(self, layout: &Layout) -> (Vec<Epochs>, Vec<(String, usize)>, Vec<AuxiliaryClockSummary>) {
        let (keys, related): (Vec<_>, Vec<_>) = self.known.into_iter().unzip();
        let (clocks, mut summaries): (Vec<_>, Vec<AuxiliaryClockSummary>) = related.into_iter().unzip();
        let of_point = layout.points().iter().filter_map(|point| {
            let clock = self.of_point.get(&point.place)?.clock;
            let index = keys.iter().position(|(node, known)| point.place.node == *node && *known == clock.name())?;
            Some((point.place.to_string(), index))
        });
        let of_point: Vec<(String, usize)> = of_point.collect();
        for &(_, clock) in &of_point {
            summaries[clock].points += 1;
        }
        (clocks, of_point, summaries)
    }
}

/// The one clock that all channels of a point read, if it is not the node's counter.
fn clock_of(manifest: &Manifest, place: &Place, channels: &[Channel]) -> Result<Option<Clock>, Error> {
    let of_node = manifest.nodes.iter().find(|known| known.name == place.node);
    let counter = of_node.map(|known| known.counter.counter);
    let of_point = channels.iter().filter(|channel| channel.is_at(place));
    // A domain that is no text of one was refused before (`domains::expect_one_domain_each`).
    let mut clocks = of_point.filter_map(|channel| Some(channel.domain().ok()?.counter));
    let declared = manifest.points.iter().find(|known| known.place() == *place);
    let declared = declared.and_then(|known| known.counter);
    let Some(first) = clocks.next().or(declared) else { return Ok(None) };
    if let Some(other) = clocks.find(|&other| other != first) {
        return Err(Error::work(format!(
            "{place}: expected stamps of one clock, found {first} and {other}. Give each clock a point of its own"
        )));
    }
    Ok((Some(first) != counter).then_some(first))
}

/// How coarsely the stamps of a point were written down, where the run says.
fn coarse(manifest: &Manifest, place: &Place) -> u64 {
    let known = manifest.points.iter().find(|known| known.place() == *place);
    known.and_then(|known| known.resolution_ticks).unwrap_or(0)
}

/// How far a clock of a node, and its counter, may stand beyond what they read; single ticks where the run does not
/// say.
fn widths(manifest: &Manifest, node: &Node, clock: Clock) -> ReadingWidths {
    let width = node.clocks.get(clock.name()).map_or(1, |known| known.width_ticks);
    // A clock of the kernel is computed from the counter of the core that reads it.
    let cores = on_reference(core_ticks(manifest, node), node.counter.frequency.hertz, 1_000_000_000);
    ReadingWidths { local_ticks: width.saturating_add(cores), reference_ticks: reading_ticks(manifest, node) }
}

fn relate(
    run: &Run,
    domain: Label,
    channels: &[Channel],
    events: &[Event],
    query: &Query,
) -> Result<(Epochs, AuxiliaryClockSummary), Error> {
    let manifest = run.manifest();
    let of_node = manifest.nodes.iter().find(|known| known.name == domain.node);
    let of_node = of_node.ok_or_else(|| {
        let node = &domain.node;
        Error::work(format!("run.json: expected the node {node}, found none. Was the run put together from two?"))
    })?;
    let pair = Pair { reference: of_node.domain(), domain };
    let (slew, slew_origin) = slew_of(manifest, &pair, query)?;
    let (brackets, unused) = brackets(run, &pair, channels)?;
    let Pair { reference: counter, domain } = pair;
    if brackets.is_empty() {
        return Err(Error::work(format!(
            "{domain}: expected brackets against {counter}, found none. Let the program call tickscope_bracket, or run it \
             under tickscope run, which watches the clocks"
        )));
    }
    let breaks = breaks(events, &domain.to_string(), slew)?;
    let model = Model::new(slew, nominal(of_node)?, Tick::new(0));
    let prior_ppm = Epochs::kernel_prior_ppm(of_node.counter.frequency.tolerance_ppm);
    let model = Model { prior_ppm, widths: widths(manifest, of_node, domain.clock), ..model };
    let epochs = Epochs::new(&brackets, &breaks, &model).map_err(|e| Error::work(format!("{domain}: {e}")))?;
    let summary = AuxiliaryClockSummary {
        domain,
        counter,
        slew,
        slew_origin,
        rests_on_prior: epochs
            .epochs()
            .iter()
            .any(|epoch| epoch.clock_map.as_ref().is_ok_and(ClockMap::rests_on_prior)),
        hertz: of_node.counter.frequency.hertz,
        prior_ppm,
        brackets: brackets.len(),
        unused: if unused > 0 { vec![(UNORDERED, unused as u64)] } else { Vec::new() },
        epochs: epochs.epochs().len(),
        breaks: epochs
            .breaks()
            .iter()
            .map(|found| BreakSummary {
                span: (found.span.lo().get(), found.span.hi().get()),
                declared: found.declared > 0,
                jump_ns: found.jump.map(|jump| (jump.lo().get(), jump.hi().get())),
            })
            .collect(),
        contradictions: epochs
            .epochs()
            .iter()
            .filter_map(|epoch| epoch.clock_map.as_ref().err())
            .map(ToString::to_string)
            .collect(),
        points: 0,
        readings: 0,
        half_width_ticks: None,
        half_width_p99_ticks: None,
        published_inside: 0,
        published_furthest_ticks: 0,
    };
    Ok((epochs, summary))
}

/// Ticks of the node's counter in a nanosecond.
fn nominal(node: &Node) -> Result<Ratio, Error> {
    Ratio::new(node.counter.frequency.hertz, 1_000_000_000).map_err(Error::work)
}

fn slew_of(manifest: &Manifest, pair: &Pair, query: &Query) -> Result<(Rho, String), Error> {
    if let Some(slew) = query.slew {
        return Ok((slew, "asked".into()));
    }
    match declared_for(manifest, pair)? {
        Some(found) => Ok(found),
        None => {
            let slew = Rho::declared_ppb(UNWATCHED_SLEW_PPB).map_err(Error::work)?;
            Ok((slew, "default: no clock monitor watched it, and the kernel slews by at most 500 ppm".into()))
        }
    }
}

/// From the clock monitor's files and from the stamps of the measured programs; an unreadable file is an error, since
/// what it held might have shown a break.
///
/// Returns them, and how many more were not made of ordered readings.
fn brackets(run: &Run, pair: &Pair, channels: &[Channel]) -> Result<(Vec<Bracket>, usize), Error> {
    let mut listing = run.brackets(pair)?;
    if let Some(refused) = listing.refused.pop() {
        return Err(refused.into());
    }
    let columns = listing.found;
    let mut all: Vec<Bracket> = columns.ordered().map(|(before, at, after)| Bracket::new(before, at, after)).collect();
    let unused = columns.len() - all.len();
    let Label { node, clock } = &pair.domain;
    let place: Place = format!("{node}.{CLOCK_BRACKET}{clock}").parse().map_err(Error::work)?;
    let stamps = run.stamps(&place)?;
    if let Some(refused) = stamps.refused().first() {
        return Err(Error::work(refused));
    }
    domains::expect_one_domain_each(run, [&place], channels)?;
    let of_point = |channel: &&Channel| channel.is_at(&place);
    let known: BTreeMap<i32, bool> =
        channels.iter().filter(of_point).map(|channel| (channel.channel, channel.ordering == "before")).collect();
    let (mut unordered, mut untold) = (0, None);
    stamps.read(i64::MIN..=i64::MAX, |columns| {
        let rows = columns.tick.iter().zip(&columns.id).zip(columns.value.iter()).zip(&columns.channel);
        for (((&before, &at), after), channel) in rows {
            match known.get(channel) {
                Some(true) => all.push(Bracket::new(Some(before), at, after.copied())),
                Some(false) => unordered += 1,
                None => untold = Some(*channel),
            }
        }
    })?;
    if let Some(channel) = untold {
        return Err(Error::work(format!(
            "{}: expected the channel {channel} of {place}, found none: whether its stamps were ordered is not known. \
             Restore the file",
            run.paths().channels(node.as_str()).display()
        )));
    }
    Ok((all, unused + unordered))
}

/// Spans that void the clock: every change that the clock monitor saw, but for a slew that the bound covers.
fn breaks(events: &[Event], domain: &str, slew: Rho) -> Result<Vec<Interval<Tick<Reference>>>, Error> {
    // The rate that the clock monitor tells is a mean between two looks, and off by as much as they leave open.
    let at_most = |told_ppb: i64| told_ppb.unsigned_abs().saturating_add(told_ppb.unsigned_abs() / 10 + TOLD_OFF_PPB);
    let covered = |event: &Event| {
        event.what == EventKind::ClockSlew && event.value.is_some_and(|ppb| at_most(ppb) <= u64::from(slew.ppb()))
    };
    let voiding: Vec<Event> = events.iter().filter(|event| !covered(event)).cloned().collect();
    tickscope_store::breaks(&voiding, domain).map_err(|wrong| Error::work(format!("events of {domain}: {wrong}")))
}

/// How wide the intervals of a clock's readings are: by half-width, how many; grows trace by trace.
#[derive(Clone, Debug, Default)]
pub(crate) struct Widths(BTreeMap<u64, u64>);

impl Widths {
    /// Adds the readings of one point.
    pub(crate) fn add(&mut self, stamps: &OwnStamps) {
        let rows = (0..stamps.lo.len()).filter_map(|row| stamps.lo.get(row).zip(stamps.hi.get(row)));
        for (lo, hi) in rows {
            *self.0.entry(hi.abs_diff(lo).div_ceil(2)).or_default() += 1;
        }
    }

    pub(crate) fn merge(&mut self, later: &Self) {
        later.0.iter().for_each(|(&width, &count)| *self.0.entry(width).or_default() += count);
    }

    fn quantile(&self, quantile: Quantile) -> Option<u64> {
        let rank = quantile.rank(usize::try_from(self.0.values().sum::<u64>()).ok()?)? as u64;
        let mut below = 0;
        self.0.iter().find_map(|(&width, &count)| {
            below += count;
            (below >= rank).then_some(width)
        })
    }
}

impl AuxiliaryClockSummary {
    /// Findings about its brackets: epochs in which no clock within the slew bound fits them.
    pub(crate) fn findings(&self) -> impl Iterator<Item = String> {
        self.contradictions.iter().map(|why| {
            format!(
                "{}: the evidence of one epoch contradicts itself under a slew of at most {} ppm ({}): {why}. Its readings \
                 there have no interval. If the clock was slewed faster, ask under a larger --slew",
                self.domain,
                f64::from(self.slew.ppb()) / 1000.0,
                self.slew_origin
            )
        })
    }

    /// Takes in what was found at one or more points.
    pub(crate) fn tell(&mut self, widths: &Widths, published: &[Reconstruction]) {
        self.readings = widths.0.values().sum();
        self.half_width_ticks = widths.quantile(Quantile::MEDIAN);
        self.half_width_p99_ticks = widths.quantile(Quantile::P99);
        self.published_inside = published.iter().map(|point| point.inside).sum();
        self.published_furthest_ticks = published.iter().map(|point| point.largest_ticks).max().unwrap_or(0);
    }
}

/// Why a reading had no interval, in words.
pub(crate) fn reason(refused: Refused) -> &'static str {
    match refused {
        Refused::Outside => "kernel or log readings outside all brackets of their clock",
        Refused::InBreak => "readings while their clock was being set",
        Refused::Ambiguous => "readings that their clock may have shown twice",
        Refused::Contradictory => "readings of a clock whose brackets contradict each other",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slew_is_covered_only_where_all_that_it_may_have_been_is() {
        let reported = |ppb: i64| Event {
            node: "n".into(),
            domain: Some("n.realtime".into()),
            tick: Some(10),
            until: Some(20),
            what: EventKind::ClockSlew,
            value: Some(ppb),
            ..Event::default()
        };
        let breaks_of = |ppb, slew| {
            let slew = Rho::declared_ppb(slew).unwrap();
            breaks(&[reported(ppb)], "n.realtime", slew).unwrap().len()
        };
        for sign in [1, -1] {
            assert_eq!(breaks_of(sign * 98_000, 100_000), 1, "98 ppm reported may be 110");
            assert_eq!(breaks_of(sign * 100_000, 139_999), 1);
            assert_eq!(breaks_of(sign * 100_000, 140_000), 0);
        }
    }
}
