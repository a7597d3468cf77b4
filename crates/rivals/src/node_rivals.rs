//! What other methods say of the same clocks at the same time, beside the run's own bounds.
//!
//! chrony and ptp4l were asked while the run went on; the two-point relation of Min-RTT and the return trip are
//! computed from the run's own exchanges and traces. Where nodes are of one host, the truth is known and held against
//! each.
//!
//! Assumes: nothing about the rivals: what they state is shown as stated. Guarantees: half-widths are rounded up, exact
//! integers before that; a bound that its method does not guarantee is never called one of ours; a sample that does not
//! count yet is counted. Deliberately absent: any effect on the run's own bounds.

use serde::Serialize;
use tickscope_analysis::{Error, Truth, reading_ticks};
use tickscope_bracket::{ClockMap, Cone};
use tickscope_store::{Manifest, Node, Pair, RivalSample, Run};
use tickscope_tick::{Label, NodeName, Tick};
use tickscope_trace::Layout;

use crate::acknowledgements::{Acknowledged, Acknowledgements, Value};
use crate::return_trips::{ReturnTrips, Trip};
use crate::round_trips::{Bursts, Exchange, RoundTrips, exchanges, round_trip};

mod bound;
mod files;
mod published;
mod two_point;

pub use bound::RivalBound;
pub use files::KnownBound;
pub(crate) use files::RivalFiles;
pub use published::{PublishedCase, PublishedError, PublishedErrors};
use two_point::TwoPoint;

/// What several methods say of one node's clock against another's.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct NodeRivals {
    /// The node's counter.
    pub domain: Label,
    /// The counter that it is related to: the run's reference, or one more node's.
    pub reference: Label,
    /// Ours, the published two-point relation, what `[rivals]` asked ([the run file](run-file.md#rivals)), return
    /// trips.
    pub methods: Vec<RivalMethod>,
    /// The shortest round trip of the probes before, during and after the run, ns, with the peer's time to answer: what
    /// the published relation is made of.
    pub round_trips_ns: [Option<i64>; 3],
    /// The shortest round trips on the way alone, in both directions.
    pub round_trips: Vec<RoundTrips>,
    /// The counter's frequency by the reference's declared one, from the exchanges before and after the run, Hz: least
    /// and most.
    pub hertz: Option<[i64; 2]>,
    /// What the node declares instead: by the kernel, as a rule.
    pub declared_hertz: u64,
    /// How far the declared frequency may be off, parts per million.
    pub declared_tolerance_ppm: u32,
    /// Where it comes from: `kernel`, as a rule.
    pub declared_by: String,
    /// Cloudprofiler's Table II for the pair's own two exchanges; `None`: it has no two such exchanges.
    pub published: Option<PublishedErrors>,
    /// [Return trips](run-file.md#return-trip) between the two nodes; `None`: nothing was acknowledged.
    pub acknowledged: Option<Acknowledged>,
    /// Comparisons that were refused, a sentence each.
    pub refused: Vec<String>,
    /// The tick of the node that curves begin at.
    #[serde(skip)]
    pub curves_from: i64,
    /// The fastest exchanges of the run's moments: when the reference sent, when the node received, and the round trip
    /// in ns.
    #[serde(skip)]
    pub fastest: Vec<[i64; 3]>,
}

/// One method.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct RivalMethod {
    /// Its name.
    pub name: String,
    /// What its bound is: `guaranteed`, `published`, `corrected`, `stated` or `none`.
    pub bound: RivalBound,
    /// Instants or samples.
    pub samples: usize,
    /// Samples that do not count yet, such as those of a chronyd that has not chosen a source.
    pub not_yet: usize,
    /// Half the interval's width; `None`: it states none.
    pub half_width: Option<RivalWidth>,
    /// How far the value was off at the median and at most, ns; `None`: the truth is not known.
    pub error_ns: Option<[i64; 2]>,
    /// Intervals that the truth lies outside of; `None`: not known, or no intervals.
    pub outside: Option<usize>,
    /// Time since the first exchange and half-width, ns; of a method without a bound, the error. For figures: some
    /// hundreds of instants a method, too many for a table.
    #[serde(skip)]
    pub curve: Vec<[i64; 2]>,
    /// Time since the first exchange and the ends of the interval, signed, as its method has it: around 0, around the
    /// offset that a program states, or from 0 to a round trip. For figures, about a hundred pieces of time, the
    /// outermost ends of each.
    #[serde(skip)]
    pub band: Vec<[i64; 3]>,
    /// The same with the greatest error of each piece.
    #[serde(skip)]
    pub errors: Vec<[i64; 2]>,
}

/// Half-widths, ns.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct RivalWidth {
    /// The least; `None`: not computed.
    pub least_ns: Option<i64>,
    /// At the median.
    pub median_ns: i64,
    /// The most.
    pub most_ns: i64,
}

/// Instants at which bounds are asked for.
const INSTANTS: i64 = 200;
/// A link is idle where the shortest round trip during half of the run is not a quarter longer than before it, and so
/// much more: a processor that sleeps between two exchanges takes as long to wake up at either end.
const WAKES_NS: i64 = 100_000;
/// Instants whose fastest exchanges are looked at together for that.
const MOMENTS: usize = 10;
/// Pieces of time in a figure.
const PIECES: i128 = 100;
/// chronyc rounds offset, dispersion and half the delay: to a ns each, and one more for rounding half the delay up.
const ROUNDING_NS: i64 = 2;

/// One value with its interval at an instant.
#[derive(Clone, Copy, Debug)]
struct Sample {
    at_ns: i64,
    half_width_ns: Option<i64>,
    /// What the interval lies around where that is not 0.
    around_ns: i64,
    error_ns: Option<i64>,
    outside: Option<bool>,
}

/// A node against another.
fn pair_of([node, reference]: [&Node; 2]) -> Pair {
    Pair { reference: reference.domain(), domain: node.domain() }
}

/// The exchanges of two nodes as the reference asked, also where it was the other one that did.
fn asked_by_either(run: &Run, [node, reference]: [&Node; 2]) -> Result<(Vec<Exchange>, Option<Bursts>), Error> {
    let all = exchanges(&run.brackets(&pair_of([node, reference]))?.found);
    if !all.is_empty() {
        let bursts = Bursts::of(&all);
        return Ok((all, bursts));
    }
    let bursts = Bursts::of(&exchanges(&run.brackets(&pair_of([reference, node]))?.found)).map(|asked| asked.turned());
    Ok((bursts.iter().flat_map(|bursts| bursts.0.concat()).collect(), bursts))
}

/// One node, and what it takes to compare.
struct Comparing<'a> {
    manifest: &'a Manifest,
    /// The node and the reference.
    nodes: [&'a Node; 2],
    map: &'a ClockMap,
    truth: Option<&'a Truth>,
}

impl Comparing<'_> {
    fn all(
        &self,
        exchanges: &[Exchange],
        bursts: Option<Bursts>,
        samples: Vec<RivalSample>,
        of_reference: &[RivalSample],
    ) -> Option<NodeRivals> {
        let ticks = || exchanges.iter().map(|exchange| exchange[1]).chain(samples.iter().map(|sample| sample.before));
        let (first, last) = (ticks().min()?, ticks().max()?);
        let [node, reference] = self.nodes;
        let at = (0..=INSTANTS).map(|step| between(first, last, step));
        let at: Vec<i64> = at.collect();
        let mut methods = vec![
            RivalMethod::of(
                "tickscope".into(),
                RivalBound::Guaranteed,
                at.iter().filter_map(|&at| self.ours(at, first)).collect(),
            ),
            RivalMethod::of(
                "tickscope, the other direction".into(),
                RivalBound::Guaranteed,
                at.iter().filter_map(|&at| self.inverse(at, first)).collect(),
            ),
        ];
        let points = bursts.as_ref().and_then(TwoPoint::of);
        if let Some(points) = &points {
            let published = |honest: bool| at.iter().map(|&at| points.sample(self, at, first, honest)).collect();
            methods.push(RivalMethod::of("Min-RTT, two points".into(), RivalBound::Published, published(false)));
            methods.push(RivalMethod::of(
                "the same two points, with rho".into(),
                RivalBound::Guaranteed,
                published(true),
            ));
        }
        let fastest = bursts.as_ref().map_or_else(Vec::new, |bursts| fastest_of_moments(&bursts.0[1]));
        methods.extend((!fastest.is_empty()).then(|| self.alone(&fastest, first)));
        methods.extend(self.programs(samples, of_reference, first));
        let ns = |ticks: i64| ns_up(i128::from(ticks), self.hertz()[1]);
        Some(NodeRivals {
            domain: node.domain(),
            reference: reference.domain(),
            methods,
            round_trips_ns: bursts.as_ref().map_or([None; 3], |bursts| bursts.shortest().map(|ticks| ticks.map(ns))),
            round_trips: bursts.iter().flat_map(|bursts| self.round_trips(bursts)).collect(),
            hertz: points.and_then(|points| points.hertz(self)),
            declared_hertz: node.counter.frequency.hertz,
            declared_tolerance_ppm: node.counter.frequency.tolerance_ppm,
            declared_by: node.counter.frequency.origin.clone(),
            published: None,
            acknowledged: None,
            refused: Vec::new(),
            curves_from: first,
            fastest: fastest.iter().map(|one| [one[0], one[1], ns(round_trip(one))]).collect(),
        })
    }

    /// What one exchange says of its own instant: the busy link's answer where the run keeps it busy.
    fn alone(&self, fastest: &[Exchange], first: i64) -> RivalMethod {
        let sample = |&[t1, t2, _, t4]: &Exchange| {
            // The peer's counter stood up to a reading's width beyond t2, the reference's up to one beyond t4.
            let [local, reference] = self.reading_widths();
            let (lo, hi) = (2 * (i128::from(t1) - local), 2 * (i128::from(t4) + reference));
            self.sample(t2, first, i128::midpoint(lo, hi), [lo, hi])
        };
        let samples = fastest.iter().map(sample).collect();
        RivalMethod::of(
            "one exchange during the run, the fastest of its moment".into(),
            RivalBound::Guaranteed,
            samples,
        )
    }

    fn round_trips(&self, bursts: &Bursts) -> [RoundTrips; 2] {
        let [node, reference] = self.nodes.map(Node::domain);
        let [asked, returned] =
            bursts.on_the_way(&self.map.cone(), self.nodes.map(|node| reading_ticks(self.manifest, node).into()));
        let told = |from: &Label, to: &Label, ticks: [Option<i128>; 3]| RoundTrips {
            from: from.clone(),
            to: to.clone(),
            shortest_ns: ticks.map(|ticks| ticks.map(|ticks| ns_up(ticks, self.hertz()[1]))),
        };
        [told(&reference, &node, asked), told(&node, &reference, returned)]
    }

    /// Frequencies of the node and of the reference.
    fn hertz(&self) -> [u64; 2] {
        self.nodes.map(|node| node.counter.frequency.hertz.max(1))
    }

    fn since(&self, at: i64, first: i64) -> i64 {
        ns_up(i128::from(at) - i128::from(first), self.hertz()[0])
    }

    /// How far readings leave the continuous counters open: the node's in ticks of the reference, and the reference's.
    fn reading_widths(&self) -> [i128; 2] {
        let [local, reference] = self.nodes.map(|node| i128::from(reading_ticks(self.manifest, node)));
        [up(self.map.cone().fastest() * local), reference]
    }

    fn true_ticks(&self, at: i64) -> Option<[i128; 2]> {
        let [node, reference] = self.nodes;
        let (first, last) = self.truth?.read_by(reference.name.as_str(), node.name.as_str(), at)?;
        Some([first.into(), last.into()])
    }

    fn ours(&self, at: i64, first: i64) -> Option<Sample> {
        let interval = self.map.interval(Tick::new(at)).ok()?;
        let estimate = i128::from(self.map.estimate(Tick::new(at)).ok()?.get());
        let (lo, hi) = (i128::from(interval.lo().get()), i128::from(interval.hi().get()));
        Some(self.sample(at, first, estimate * 2, [lo * 2, hi * 2]))
    }

    /// A sample of a value and its ends, all doubled, in ticks of the reference.
    fn sample(&self, at: i64, first: i64, value: i128, [lo, hi]: [i128; 2]) -> Sample {
        let hertz = self.hertz()[1];
        let [local, reference] = self.reading_widths();
        let truth = self.true_ticks(at);
        let off =
            |true_ticks: [i128; 2]| true_ticks.map(|tick| (2 * tick - value).abs()).into_iter().fold(0, i128::max);
        Sample {
            at_ns: self.since(at, first),
            half_width_ns: Some(ns_up((hi - lo + 3) / 4, hertz)),
            around_ns: 0,
            error_ns: truth.map(|truth| ns_up((off(truth) + 1) / 2, hertz)),
            outside: truth.map(|[first, last]| 2 * (last + reference) < lo || 2 * (first - local) > hi),
        }
    }

    fn inverse(&self, at: i64, first: i64) -> Option<Sample> {
        let tick = self.map.estimate(Tick::new(at)).ok()?;
        let interval = self.map.inverse(tick).ok()?;
        let width = i128::from(interval.hi().get()) - i128::from(interval.lo().get());
        let half = Some(ns_up((width + 1) / 2, self.hertz()[0]));
        let at_ns = self.since(at, first);
        Some(Sample { at_ns, half_width_ns: half, around_ns: 0, error_ns: None, outside: None })
    }

    /// What chrony and ptp4l said, by program and variant.
    fn programs(&self, samples: Vec<RivalSample>, of_reference: &[RivalSample], first: i64) -> Vec<RivalMethod> {
        let mut names: Vec<(String, String)> = Vec::new();
        for RivalSample { program, variant, .. } in &samples {
            if !names.iter().any(|(known, of)| known == program && of == variant) {
                names.push((program.clone(), variant.clone()));
            }
        }
        let method = |(program, variant): (String, String)| {
            let of = |sample: &&RivalSample| sample.program == program && sample.variant == variant;
            let mut theirs: Vec<&RivalSample> = of_reference.iter().filter(of).collect();
            theirs.sort_by_key(|sample| sample.before);
            let all: Vec<&RivalSample> = samples.iter().filter(of).collect();
            let count = all.len();
            let counted: Vec<Sample> =
                all.into_iter().filter_map(|sample| self.stated(sample, &theirs, first)).collect();
            let bound = if counted.iter().any(|sample| sample.half_width_ns.is_some()) {
                RivalBound::Stated
            } else {
                RivalBound::None
            };
            let not_yet = count - counted.len();
            RivalMethod { not_yet, ..RivalMethod::of(format!("{program}, {variant}"), bound, counted) }
        };
        names.into_iter().map(method).collect()
    }

    /// What a program stated; `None`: it does not count yet. Where the reference's clock follows another clock itself,
    /// both clocks' offsets and bounds count.
    fn stated(&self, sample: &RivalSample, of_reference: &[&RivalSample], first: i64) -> Option<Sample> {
        let (mut offset, mut half) = stated(sample)?;
        if !of_reference.is_empty() {
            let at = self.map.estimate(Tick::new(sample.before)).ok()?.get();
            let (other_offset, other_half) = stated(nearest(of_reference, at)?)?;
            offset -= other_offset;
            half = half.zip(other_half).map(|(half, other)| half + other);
        }
        let one_clock = self.nodes[0].boot == self.nodes[1].boot;
        Some(Sample {
            at_ns: self.since(sample.before, first),
            half_width_ns: half,
            around_ns: offset,
            error_ns: one_clock.then_some(offset.abs()),
            outside: half.filter(|_| one_clock).map(|half| excludes_0(offset, half)),
        })
    }
}

/// The nearest of samples in the order of time.
fn nearest<'a>(samples: &[&'a RivalSample], at: i64) -> Option<&'a RivalSample> {
    let after = samples.partition_point(|sample| sample.before < at);
    let around = &samples[after.saturating_sub(1)..samples.len().min(after + 1)];
    around.iter().copied().min_by_key(|sample| (i128::from(sample.before) - i128::from(at)).abs())
}

/// The offset that a program stated and half the width of its interval, ns: `offset ± (dispersion + delay / 2)` with
/// the root's values; `None`: it does not count yet.
fn stated(sample: &RivalSample) -> Option<(i64, Option<i64>)> {
    let RivalSample { state, offset_ns, delay_ns, dispersion_ns, .. } = sample;
    if state != RivalSample::NORMAL {
        return None;
    }
    let half = delay_ns.zip(*dispersion_ns).map(|(delay, dispersion)| {
        dispersion.saturating_add(delay.div_euclid(2) + delay.rem_euclid(2)).saturating_add(ROUNDING_NS)
    });
    Some((*offset_ns, half))
}

/// True if the interval around this offset excludes 0, which is the truth between two readings of one clock.
fn excludes_0(offset: i64, half: i64) -> bool {
    let [lo, hi] = [i128::from(offset) - i128::from(half), i128::from(offset) + i128::from(half)];
    lo > 0 || hi < 0
}

impl RivalMethod {
    fn of(name: String, bound: RivalBound, samples: Vec<Sample>) -> Self {
        let sorted = |of: fn(&Sample) -> Option<i64>| {
            let mut all: Vec<i64> = samples.iter().filter_map(of).collect();
            all.sort_unstable();
            all
        };
        let (widths, errors) = (sorted(|sample| sample.half_width_ns), sorted(|sample| sample.error_ns));
        let half_width = widths.last().map(|&most_ns| RivalWidth {
            least_ns: widths.first().copied(),
            median_ns: widths[widths.len() / 2],
            most_ns,
        });
        let known: Vec<bool> = samples.iter().filter_map(|sample| sample.outside).collect();
        let height = |sample: &Sample| Some([sample.at_ns, sample.half_width_ns.or(sample.error_ns)?]);
        let every = samples.len().div_ceil(INSTANTS as usize + 1).max(1);
        Self {
            name,
            bound,
            samples: samples.len(),
            not_yet: 0,
            half_width,
            error_ns: errors.last().map(|&most| [errors[errors.len() / 2], most]),
            outside: (!known.is_empty()).then(|| known.iter().filter(|outside| **outside).count()),
            curve: samples.iter().step_by(every).filter_map(height).collect(),
            band: pieces(&samples, Sample::ends),
            errors: pieces(&samples, |sample| Some([0, sample.error_ns?]))
                .into_iter()
                .map(|[at, _, most]| [at, most])
                .collect(),
        }
    }
}

impl Sample {
    /// The interval as its method has it.
    fn ends(&self) -> Option<[i64; 2]> {
        let half = self.half_width_ns?;
        Some([self.around_ns.saturating_sub(half), self.around_ns.saturating_add(half)])
    }
}

/// The outermost ends within each piece of time, with when the piece begins.
fn pieces(samples: &[Sample], ends: impl Fn(&Sample) -> Option<[i64; 2]>) -> Vec<[i64; 3]> {
    let mut all: Vec<[i64; 3]> =
        samples.iter().filter_map(|one| ends(one).map(|[lo, hi]| [one.at_ns, lo, hi])).collect();
    all.sort_unstable();
    let (Some(&[first, ..]), Some(&[last, ..])) = (all.first(), all.last()) else { return Vec::new() };
    let length = (i128::from(last) - i128::from(first)) / PIECES + 1;
    let piece = |one: &[i64; 3]| (i128::from(one[0]) - i128::from(first)) / length;
    let outermost =
        |of: &[[i64; 3]]| of.iter().copied().reduce(|one, next| [one[0], one[1].min(next[1]), one[2].max(next[2])]);
    all.chunk_by(|one, next| piece(one) == piece(next)).filter_map(outermost).collect()
}

impl NodeRivals {
    /// Adds the return trip of ids that start on one of the two nodes and turn at the other; refused where the link was
    /// idle.
    pub(crate) fn add_return_trip(&mut self, layout: &Layout, trips: Option<&ReturnTrips>, manifest: &Manifest) {
        let nodes = trips.map(|trips| (trips, trips.nodes(layout)));
        let ends = [&self.domain.node, &self.reference.node];
        let Some((trips, [start, turn])) = nodes.filter(|(_, nodes)| nodes.iter().all(|node| ends.contains(node)))
        else {
            return self.refused.push(format!(
                "return trip: no id goes from {} to {} or the other way and comes back to the node that it started on",
                self.domain.node, self.reference.node
            ));
        };
        if let Some(refused) = self.idle(trips.span(), usize::from(*start == self.domain.node)) {
            return self.refused.push(refused);
        }
        let found = |name: &NodeName| manifest.nodes.iter().find(|node| node.name == *name);
        let (Some(start), Some(turn)) = (found(start), found(turn)) else { return };
        let by_domain = usize::from(turn.domain() == self.domain);
        let returning = Returning { manifest, nodes: [start, turn], truth: Truth::of(manifest) };
        let sample = |trip: Trip| Sample { at_ns: self.since(trip[by_domain]), ..returning.sample(trip) };
        let samples: Vec<Sample> = trips.longest().map(sample).collect();
        if !samples.is_empty() {
            self.methods.push(RivalMethod::of(
                "return trip, the longest of each moment".into(),
                RivalBound::OfOneNode,
                samples,
            ));
        }
    }

    /// Adds the return trip of stamps that one of the two nodes acknowledged to the other.
    pub(crate) fn add_acknowledged(&mut self, layout: &Layout, found: &Acknowledgements, manifest: &Manifest) {
        let ends = [&self.domain.node, &self.reference.node];
        let Some((acknowledged, values)) = found.between(layout, manifest, ends) else { return };
        // The curve's time is the node's: the tick of the start where ids start there, else of the end.
        let own = usize::from(!found.begin_at(layout, &self.domain.node));
        let sample = |value: &Value| Sample {
            at_ns: self.since(value.ticks[own]),
            half_width_ns: Some(value.round_trip_ns / 2 + value.round_trip_ns % 2),
            around_ns: 0,
            error_ns: value.error_ns,
            outside: value.outside,
        };
        // As published the time until the return is the duration, too long by up to the acknowledgement's round trip:
        // the band is of one side, the size of error is all of it.
        let whole = |value: &Value| Sample {
            around_ns: value.round_trip_ns / 2,
            error_ns: value.until_return.error_ns,
            outside: value.until_return.outside,
            ..sample(value)
        };
        let (corrected, published) = (values.iter().map(sample).collect(), values.iter().map(whole).collect());
        let named = |name: &str, bound, samples| RivalMethod::of(name.into(), bound, samples);
        let [least, median_ns, most_ns] = acknowledged.round_trip_ns;
        let half_width = Some(RivalWidth { least_ns: Some(least), median_ns, most_ns });
        let published = named("return trip, T3 - T1", RivalBound::Published, published);
        self.methods.push(RivalMethod { half_width, ..published });
        self.methods.push(named("return trip, less half of it", RivalBound::Corrected, corrected));
        self.acknowledged = Some(acknowledged);
    }

    fn since(&self, at: i64) -> i64 {
        ns_up(i128::from(at) - i128::from(self.curves_from), self.declared_hertz.max(1))
    }

    /// Why the link is taken to have been idle while ids were under way, from the first of `span` to the last, in ticks
    /// of the reference (0) or of the node (1).
    fn idle(&self, span: Option<(i64, i64)>, counter: usize) -> Option<String> {
        let before = self.round_trips_ns[0]?.max(self.round_trips_ns[2]?);
        let within = |[at, _]: &[i64; 2]| span.is_none_or(|(first, last)| (first..=last).contains(at));
        let told = self.fastest.iter().map(|fastest| [fastest[counter], fastest[2]]);
        let during: Vec<i64> = told.filter(within).map(|[_, ns]| ns).collect();
        // A moment holds few exchanges, the fastest of which may have waited for a processor.
        let mut moments: Vec<i64> = during.chunks(MOMENTS).filter_map(|some| some.iter().min().copied()).collect();
        moments.sort_unstable();
        let during = *moments.get(moments.len() / 2)?;
        let idle = 4 * (i128::from(during) - i128::from(WAKES_NS)) < 5 * i128::from(before);
        idle.then(|| {
            format!(
                "return trip: the link was idle: during half of the run its shortest round trip was at most {during} \
                 ns, which is not a quarter and {WAKES_NS} ns more than the longer of those before and after the run, \
                 {before} ns; on an idle link the return trip equals the shortest round trip"
            )
        })
    }
}

/// Return trips between two nodes: where they start, and where they turn.
struct Returning<'a> {
    manifest: &'a Manifest,
    nodes: [&'a Node; 2],
    truth: Option<Truth>,
}

impl Returning<'_> {
    /// What happened at the other node happened between the two stamps of this one: the middle, half the trip either
    /// way.
    fn sample(&self, [start, turn, end]: Trip) -> Sample {
        let [from, to] = self.nodes.map(|node| i128::from(reading_ticks(self.manifest, node)));
        let hertz = self.nodes[0].counter.frequency.hertz.max(1);
        let (start, end) = (i128::from(start), i128::from(end));
        let read = |truth: &Truth| truth.read_by(self.nodes[0].name.as_str(), self.nodes[1].name.as_str(), turn);
        let truth = self.truth.as_ref().and_then(read).map(|(first, last)| [i128::from(first), i128::from(last)]);
        let off = |truth: [i128; 2]| truth.map(|tick| (2 * tick - start - end).abs()).into_iter().fold(0, i128::max);
        Sample {
            at_ns: 0,
            half_width_ns: Some(ns_up((end - start + from + 1).div_euclid(2), hertz)),
            around_ns: 0,
            error_ns: truth.map(|truth| ns_up((off(truth) + 1) / 2, hertz)),
            outside: truth.map(|[first, last]| last + from < start || first - from - to > end),
        }
    }
}

/// The exchange with the shortest round trip of each of as many moments as there are instants.
fn fastest_of_moments(during: &[Exchange]) -> Vec<Exchange> {
    let (Some(first), Some(last)) = (during.first(), during.last()) else { return Vec::new() };
    let length = (i128::from(last[0]) - i128::from(first[0])) / i128::from(INSTANTS) + 1;
    let moment = |exchange: &Exchange| (i128::from(exchange[0]) - i128::from(first[0])) / length;
    let moments = during.chunk_by(|one, next| moment(one) == moment(next));
    moments.filter_map(|of| of.iter().min_by_key(|exchange| round_trip(exchange)).copied()).collect()
}

/// The instant at that step of the way.
fn between(first: i64, last: i64, step: i64) -> i64 {
    first + ((i128::from(last) - i128::from(first)) * i128::from(step) / i128::from(INSTANTS)) as i64
}

/// Ticks at a frequency in ns, rounded up.
fn ns_up(ticks: i128, hertz: u64) -> i64 {
    i64::try_from(ceil(ticks * 1_000_000_000, hertz.into())).unwrap_or(i64::MAX)
}

fn ceil(number: i128, by: i128) -> i128 {
    -(-number).div_euclid(by)
}

/// Whole ticks from units of 2^-60, rounded up.
fn up(fixed: i128) -> i128 {
    ceil(fixed, 1 << Cone::FRACTION_BITS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use num_bigint::BigInt;
    use num_rational::BigRational;
    use proptest::prelude::*;
    use tickscope_bracket::{Bracket, Model, Ratio, Rho};

    fn sample(offset_ns: i64, delay_ns: i64, dispersion_ns: i64) -> RivalSample {
        RivalSample {
            program: "chrony".into(),
            variant: "default".into(),
            before: 0,
            after: 1,
            state: RivalSample::NORMAL.into(),
            offset_ns,
            delay_ns: Some(delay_ns),
            dispersion_ns: Some(dispersion_ns),
            frequency_ppb: None,
            residual_ppb: None,
            skew_ppb: None,
        }
    }

    fn whole(number: impl Into<BigInt>) -> BigRational {
        BigRational::from_integer(number.into())
    }

    fn size(number: BigRational) -> BigRational {
        if number < whole(0) { -number } else { number }
    }

    fn two_points(at: [i64; 2], middles: [i64; 2], round_trips: [i64; 2]) -> TwoPoint {
        TwoPoint { at: at.map(i128::from), middles: middles.map(i128::from), round_trips: round_trips.map(i128::from) }
    }

    /// A cone of this rho from evidence that pins the mean rate to 1.
    fn cone(rho: &str) -> Cone {
        let exact = |at: i64| Bracket::new(Some(at), at, Some(at));
        let rho: Rho = rho.parse().unwrap();
        let model = Model::new(rho, Ratio::new(1, 1).unwrap(), Tick::new(0));
        ClockMap::new(&[exact(0), exact(1 << 40)], &model).unwrap().cone()
    }

    #[test]
    fn a_chronyd_that_has_no_source_yet_states_nothing() {
        let not_yet = RivalSample { state: "not synchronised".into(), ..sample(0, 10, 10) };
        assert_eq!(stated(&not_yet), None);
        assert_eq!(stated(&RivalSample { dispersion_ns: None, ..sample(-7, 10, 10) }), Some((-7, None)));
    }

    #[test]
    fn the_nearest_of_several_samples_is_before_or_after() {
        let all = [10, 20, 40].map(|before| RivalSample { before, ..sample(0, 0, 0) });
        let all: Vec<&RivalSample> = all.iter().collect();
        let found = [0, 14, 16, 20, 31, 99].map(|at| nearest(&all, at).map(|sample| sample.before));
        assert_eq!(found, [10, 10, 20, 20, 40, 40].map(Some));
        assert!(nearest(&[], 5).is_none());
    }

    #[test]
    fn the_published_bound_is_half_the_longer_round_trip_between_the_points_and_grows_beyond() {
        let line = two_points([0, 1000], [0, 2000], [10, 30]);
        assert_eq!([0, 500, 1000].map(|at| line.published(at)), [30; 3], "doubled");
        assert_eq!([-1000, 2000].map(|at| line.published(at)), [90; 2], "|1 - x| + |x| = 3");
        assert_eq!([0, 500, 1000, 2000].map(|at| line.value(at)), [0, 1000, 2000, 4000]);
    }

    #[test]
    fn the_honest_bound_holds_for_the_fastest_then_slowest_clock_where_the_published_one_fails() {
        let (rho, length) = (1_000_000_i128, 1_i128 << 40); // 1 ppm: parts of 10^12
        let cone = cone("1");
        // Faster by rho up to the middle, slower after: in the middle it is rho * length / 2 off its chord.
        let truth = 2 * (length / 2 + length / 2 * rho / 1_000_000_000_000);
        let line = two_points([0, 1 << 40], [0, 2 << 40], [10, 10]);
        let off = (truth - line.value(length / 2)).abs();
        assert!(off > line.published(length / 2), "published, and false");
        assert!(off <= line.honest(length / 2, &cone, 0));
    }

    #[test]
    fn a_figure_has_the_outermost_ends_of_each_piece_of_time() {
        let at = |at_ns: i64, half: i64, around_ns: i64| Sample {
            at_ns,
            half_width_ns: Some(half),
            around_ns,
            error_ns: Some(half / 2),
            outside: None,
        };
        // 200 instants to 100 pieces: every second one is ten times as wide, and the last is the only one off 0.
        let mut samples: Vec<Sample> =
            (0..200).map(|step| at(step * 10, if step % 2 == 0 { 4 } else { 40 }, 0)).collect();
        samples.push(at(1995, 5, 100));
        let method = RivalMethod::of("any".into(), RivalBound::Stated, samples);
        assert_eq!((method.band.len(), method.band[0], method.band[99]), (100, [0, -40, 40], [1980, -40, 105]));
        assert_eq!((method.errors.len(), method.errors[7]), (100, [140, 20]));
        assert!(RivalMethod::of("none".into(), RivalBound::None, Vec::new()).band.is_empty());
    }

    /// A node that is compared, without any method.
    fn compared(before_ns: i64, fastest: Vec<[i64; 3]>) -> NodeRivals {
        NodeRivals {
            domain: "b.tsc".parse().unwrap(),
            reference: "a.tsc".parse().unwrap(),
            methods: Vec::new(),
            round_trips_ns: [Some(before_ns), Some(before_ns), Some(before_ns - 1)],
            round_trips: Vec::new(),
            hertz: None,
            declared_hertz: 1_000_000_000,
            declared_tolerance_ppm: 0,
            declared_by: "made up".into(),
            published: None,
            acknowledged: None,
            refused: Vec::new(),
            curves_from: 0,
            fastest,
        }
    }

    #[test]
    fn the_return_trip_is_refused_where_the_link_was_idle_while_ids_were_under_way() {
        // Busy from 1000 to 2000 alone, by the reference's ticks; the node's are 5000 ahead.
        let ns = |at: i64| if (1000..2000).contains(&at) { 1_350_000 } else { 1_000_000 };
        let node = compared(1_000_000, (0..3000).step_by(10).map(|at| [at, at + 5000, ns(at)]).collect());
        assert_eq!(node.idle(Some((1000, 2000)), 0), None);
        assert_eq!(node.idle(Some((6000, 7000)), 1), None);
        assert!(node.idle(Some((0, 900)), 0).unwrap().contains("a quarter and 100000 ns more"));
        assert!(node.idle(Some((0, 2999)), 0).is_some(), "busy for a third of the time");
        assert_eq!(compared(1_000_001, node.fastest).idle(Some((1000, 2000)), 0).map(|_| ()), Some(()), "1 ns short");
        assert_eq!(compared(1_000_000, Vec::new()).idle(None, 0), None, "no probe came through");
    }

    proptest! {
        #[test]
        fn property_what_happened_at_the_other_node_lies_within_half_the_return_trip(
            start in -1_000_000_i64..1_000_000,
            ways in [0_i64..1_000_000, 0_i64..1_000_000],
        ) {
            let mut manifest = crate::sample::manifest();
            manifest.same_boot = tickscope_store::SameBoot::Ignore;
            let boot = manifest.nodes[0].boot;
            manifest.nodes.iter_mut().for_each(|node| node.boot = boot);
            let nodes = [&manifest.nodes[0], &manifest.nodes[1]];
            let returning = Returning { manifest: &manifest, nodes, truth: Truth::of(&manifest) };
            let (turn, end) = (start + ways[0], start + ways[0] + ways[1]);
            let sample = returning.sample([start, turn, end]);
            let hertz = nodes[0].counter.frequency.hertz;
            let off = ns_up((i128::from(ways[0] - ways[1]).abs() + 1) / 2, hertz);
            prop_assert_eq!((sample.error_ns, sample.outside), (Some(off), Some(false)));
            prop_assert!(sample.half_width_ns >= sample.error_ns);
            // A turn that is later than the return, or earlier than the start, by more than readings leave open.
            let late = returning.sample([start, end + 100, end]);
            prop_assert_eq!(late.outside, Some(true));
        }

        #[test]
        fn property_what_chrony_states_is_its_offset_give_or_take_dispersion_and_half_the_delay(
            offset in -1_000_000_000_i64..1_000_000_000,
            delay in 0_i64..1_000_000_000,
            dispersion in 0_i64..1_000_000_000,
        ) {
            let (value, half) = stated(&sample(offset, delay, dispersion)).unwrap();
            let half = half.unwrap();
            let exact = whole(dispersion) + whole(delay) / whole(2);
            prop_assert_eq!(value, offset);
            prop_assert!(whole(half) >= exact && whole(half) <= exact + whole(3));
            // The interval of RFC 5905, signed: it excludes 0 exactly where |offset| is beyond the root distance.
            prop_assert_eq!(excludes_0(offset, half), size(whole(offset)) > whole(half));
            prop_assert_eq!(excludes_0(offset, half), excludes_0(-offset, half));
        }

        #[test]
        fn property_the_published_bound_is_the_published_formula_rounded_up(
            first in -1_000_000_i64..1_000_000,
            length in 1_i64..1_000_000_000,
            at in -2_000_000_000_i64..2_000_000_000,
            trips in [1_i64..1_000_000, 1_i64..1_000_000],
        ) {
            let line = two_points([first, first + length], [0, 2 * length], trips);
            let x = BigRational::new((at - first).into(), length.into());
            let e = whole(trips[0].max(trips[1])) / whole(2);
            let exact = whole(2) * (size(whole(1) - x.clone()) + size(x)) * e;
            let found = whole(line.published(at.into()));
            prop_assert!(found >= exact && found.clone() - exact < whole(1), "{}", found);
        }

        #[test]
        fn property_the_true_frequency_lies_between_its_bounds_which_are_no_wider_than_the_round_trips(
            gains_ppb in -100_000_i64..100_000,
            ways in [[1_i64..100_000, 1_i64..100_000], [1_i64..100_000, 1_i64..100_000]],
            length in 10_000_000_i64..1_000_000_000_000,
        ) {
            const HERTZ: i64 = 1_000_000_000;
            // The node reads `at * (1 + gains)` in whole ticks; exchanges are sent at the reference's 0 and `length`.
            let read = |at: i64| at + (i128::from(at) * i128::from(gains_ppb)).div_euclid(i128::from(HERTZ)) as i64;
            let points = [(0, ways[0]), (length, ways[1])].map(|(sent, [there, back])| {
                (read(sent + there), 2 * sent + there + back, there + back)
            });
            let of = |part: fn((i64, i64, i64)) -> i64| points.map(part);
            let line = two_points(of(|point| point.0), of(|point| point.1), of(|point| point.2));
            let [least, most] = line.rate_at(HERTZ.into(), [1, 1]).unwrap();
            let truth = HERTZ + gains_ppb;
            prop_assert!(least <= truth && truth <= most, "{} {}", least, most);
            let apart = i128::from(ways[0][0] + ways[0][1] + ways[1][0] + ways[1][1] + 8) * i128::from(HERTZ);
            let widest = 3 * apart / i128::from(length - 200_000) + 4;
            prop_assert!(i128::from(most - least) <= widest, "{} {}", least, most);
        }

        #[test]
        fn property_the_honest_bound_holds_whatever_the_rate_does_within_rho(
            length in 1_000_000_i64..1_000_000_000_000,
            share in 0_u32..=1000,
            trips in [1_i64..100_000, 1_i64..100_000],
            errors in [-1000_i64..=1000, -1000_i64..=1000],
            fast_first in any::<bool>(),
        ) {
            let cone = cone("1");
            let at = i128::from(length) * i128::from(share) / 1000;
            // The clock that strays furthest from its chord: one extreme rate up to here, the other after.
            let extremes = if fast_first { [cone.fastest(), cone.slowest()] } else { [cone.slowest(), cone.fastest()] };
            let rate = |fixed: i128| BigRational::new(fixed.into(), (1_i128 << Cone::FRACTION_BITS).into());
            let here = rate(extremes[0]) * whole(at);
            let last = here.clone() + rate(extremes[1]) * whole(i128::from(length) - at);
            // Each point's middle is off by up to half its round trip.
            let off = |number: usize| whole(trips[number] * errors[number]) / whole(2000);
            let doubled = |value: BigRational| (whole(2) * value).round().to_integer();
            let middles = [doubled(off(0)), doubled(last + off(1))].map(|middle| i64::try_from(middle).unwrap());
            let line = two_points([0, length], middles, trips);
            let apart = size(whole(2) * here - whole(line.value(at)));
            // Two doubled ticks for the rounded middles and for the rounded line.
            prop_assert!(apart <= whole(line.honest(at, &cone, 1)), "{}", apart);
        }
    }
}
