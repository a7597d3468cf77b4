//! Everything that a run's figures rest on, each with where it comes from.
//!
//! A bound is a promise under these; a figure that rests on something unsaid promises more than anybody can keep. What
//! holds of several nodes or points alike is one assumption that names them. Deliberately absent: whether they are
//! true. Where the run itself contradicts one, that is a finding.

use std::fmt;

use serde::Serialize;
use tickscope_bracket::{Model, Rho, RhoOrigin};
use tickscope_store::{AssumptionKind, DeclaredFrequency, Manifest, Node, ReadingWidth, Sharing};
use tickscope_tick::{Label, Ordering, Place, Source, counted};

use crate::closure::PairSummary;
use crate::messages::MessagePair;
use crate::{Analysis, domains};

/// Something that a run's figures rest on.
#[derive(Clone, PartialEq, Debug)]
#[allow(missing_docs, reason = "the comment of a variant names its fields")]
pub enum Assumption {
    /// The rate of two counters stays within rho of one value, for each of these pairs.
    Drift { pairs: CounterPairs, rho: Rho },
    /// That rate lies near what their frequencies declare; `carries`: the evidence leaves it as open as that.
    Rate { pairs: CounterPairs, ppm: u32, carries: bool },
    /// A clock runs within its slew bound of one rate against its node's counter.
    Slew { domain: Label, counter: Label, slew: Rho, origin: String },
    /// That rate lies near what the counter's frequency declares.
    SlewRate { domain: Label, counter: Label, ppm: u32, carries: bool },
    /// The meaning of the kernel's stamps.
    KernelStamps,
    /// The same fact about each of these domains, nodes or points.
    Of { names: Vec<String>, fact: Fact },
    /// Ordered stamps stand on the right side of their calls.
    OrderedStamps,
    /// A program's stamps are read from what it says.
    ProgramReading { told: String },
    /// Stages from or to these points are from reading to reading.
    PlainStamps { points: Vec<String> },
    /// How passages are told apart, of so many ids.
    Passages { ids: u64 },
    /// Overlapping passages stay on their threads, of so many ids.
    PassageThreads { ids: u64 },
    /// Policies of these points left out no stamp of an id that has one there.
    PassedOnce { points: Vec<String> },
    /// An id stamped at several of these starts of the layout is one passage, whose parts meet.
    JoiningStarts { starts: Vec<String> },
    /// Two nodes read one counter; no bracket of so many contradicts it.
    OneCounter { domain: Label, reference: Label, brackets: usize },
    /// Every id passes a pair of points once.
    SentOnce { pair: MessagePair, proof: SendProof },
    /// A hypervisor that traps readings shows every reader one steady counter.
    Trapped { domain: Label },
    /// A counter is stable though its node's kernel keeps time by another.
    ForeignClockSource { domain: Label, node: String, source: String },
    /// The ticks that the check of the cores leaves open are in no figure.
    CoresUncounted,
    /// Quantiles are of the traces that have a duration.
    Quantiles,
    /// How fast the reference runs, and who declared it.
    Seconds { reference: Label, hertz: u64, tolerance_ppm: u32, origin: String },
    /// An assumption of `run.json`, as it stands there.
    Recorded { statement: String, origin: String, kind: Option<AssumptionKind> },
}

/// Pairs of counters of which the same is assumed: (domain, reference), in the order in which they are first named.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CounterPairs(pub Vec<(Label, Label)>);

impl fmt::Display for CounterPairs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(pairs) = self;
        let mut domains: Vec<&Label> = Vec::new();
        for domain in pairs.iter().flat_map(|(domain, reference)| [reference, domain]) {
            if !domains.contains(&domain) {
                domains.push(domain);
            }
        }
        let listed = |all: Vec<String>| all.join(", ");
        match pairs.as_slice() {
            [(domain, reference)] => write!(f, "the rate of {domain} against {reference}"),
            // No pair stands here twice, so as many as there can be are all.
            _ if pairs.len() == domains.len() * (domains.len() - 1) / 2 => {
                let names = domains.iter().map(ToString::to_string).collect();
                write!(f, "the rate between every two of {}", listed(names))
            }
            _ => {
                let names = pairs.iter().map(|(domain, reference)| format!("{domain} against {reference}")).collect();
                write!(f, "each rate of {}", listed(names))
            }
        }
    }
}

impl CounterPairs {
    fn in_brief(&self) -> String {
        match self.0.as_slice() {
            [(domain, _)] => format!("the rate of {domain}"),
            several => format!("the rate of each of {} pairs of counters", several.len()),
        }
    }
}

/// A fact that may hold of several domains, nodes or points alike.
#[derive(Clone, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "the comment of a variant names its fields")]
pub enum Fact {
    /// How wide a clock's readings are; `None`: the run did not measure it.
    Reading(Option<ReadingWidth>),
    /// How coarsely a log gives its readings, in ticks.
    LogResolution(u64),
    /// A counter runs at one rate; `vouched`: by the kernel or the processor.
    OneRate { vouched: bool },
    /// The fence of ordered stamps waits; `vouched`: by the processor, if it says anything.
    Fence { vouched: Option<bool> },
    /// How the cores of a node were checked.
    Cores { checked: String, imported: bool },
}

/// Proof that a message was sent once.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SendProof {
    /// The program's own stamp before every send.
    OwnStamp(Place),
    /// Nothing: the kernel alone stamps the sends.
    Nothing,
    /// Its own stamps: ids stamped twice are left out.
    Stamps,
}

/// Where an assumption comes from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Origin {
    /// Its kind, for programs.
    pub kind: OriginKind,
    /// The same for people, more closely.
    pub words: String,
}

/// Kinds of origins, in JSON by their names in lower case.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum OriginKind {
    /// Nobody declared anything else.
    Default,
    /// A preset, by its name.
    Preset,
    /// The run file, or whoever asked for the figures.
    Declared,
    /// Measured on the host.
    Measured,
    /// Checked on the host, or against the evidence.
    Checked,
    /// The kernel, the processor, or who wrote the programs.
    Platform,
    /// How the figures are made.
    Method,
    /// Nothing vouches for it.
    Assumed,
    /// Text of `run.json`.
    Recorded,
}

impl OriginKind {
    fn by(self, words: impl Into<String>) -> Origin {
        Origin { kind: self, words: words.into() }
    }
}

impl Assumption {
    /// Everything that the figures rest on.
    pub fn all(manifest: &Manifest, analysis: &Analysis) -> Vec<Self> {
        let mut all = rates(manifest, analysis);
        all.extend(auxiliary_clocks(analysis));
        all.extend(readings(manifest, analysis));
        all.extend(orderings(manifest, analysis));
        all.extend(analysis.program_readings.iter().cloned().map(|told| Self::ProgramReading { told }));
        all.extend(analysis.passages.assumptions());
        let thinned = Some(analysis.kept.thinned.clone()).filter(|points| !points.is_empty());
        all.extend(thinned.map(|points| Self::PassedOnce { points }));
        all.extend(analysis.one_counter.iter().chain(&analysis.sent_once).cloned());
        all.extend(counters(manifest));
        all.extend(domains::unusual(manifest));
        all.extend(cores(manifest));
        all.push(Self::Quantiles);
        all.extend(seconds(manifest));
        all.extend(recorded(manifest));
        all
    }

    /// Everything that the relations of machines rest on that stamp nothing.
    pub(crate) fn of_machines(manifest: &Manifest, pairs: &[PairSummary], one_counter: Vec<Self>) -> Vec<Self> {
        let mut all = rates_of(pairs.iter().filter(|pair| pair.brackets > 0).map(of_pair));
        all.extend(together(manifest.nodes.iter().map(own_reading)));
        all.extend(one_counter);
        all.extend(counters(manifest));
        all.extend(domains::unusual(manifest));
        all.extend(cores(manifest));
        all.extend(seconds(manifest));
        all.extend(recorded(manifest));
        all
    }

    /// The assumption as a sentence.
    pub fn statement(&self) -> String {
        match self {
            Self::Drift { pairs, .. } => format!("{pairs} stays within rho of one value"),
            Self::Rate { pairs, ppm, .. } => {
                format!("{pairs} lies within {ppm} ppm of what their frequencies declare")
            }
            Self::Slew { domain, counter, slew, .. } => {
                let slew = f64::from(slew.ppb()) / 1000.0;
                format!("{domain} runs within {slew} ppm of one rate against {counter}, between breaks")
            }
            Self::SlewRate { domain, counter, ppm, .. } => {
                format!("that rate of {domain} lies within {ppm} ppm of what the frequency of {counter} declares")
            }
            Self::KernelStamps => KERNEL_STAMPS.into(),
            Self::Of { names, fact } => format!("{}: {}", names.join(", "), fact.statement()),
            Self::OrderedStamps => "stamps stand on the side of the call that their point's ordering says".into(),
            Self::ProgramReading { told } => told.clone(),
            Self::PlainStamps { points } => format!(
                "stages from or to {} are from reading to reading: a plain stamp may be read earlier or later \
                than its line of \
                 code",
                points.join(", ")
            ),
            Self::Passages { .. } => PASSAGES.into(),
            Self::PassageThreads { .. } => {
                "where passages of one id overlap, each stays on its thread between two points".into()
            }
            Self::PassedOnce { points } => format!(
                "an id that has one stamp at most at every point, none of which says that it was a retry, passed once \
                 at {}, whose policies may keep one stamp of an id and leave out another",
                points.join(", ")
            ),
            Self::JoiningStarts { starts } => format!(
                "an id stamped at several of {} is one passage: what began at each of them met the others",
                starts.join(", ")
            ),
            Self::OneCounter { domain, reference, .. } => {
                format!("{domain} and {reference} are one counter, since their nodes have one boot id")
            }
            Self::SentOnce { pair, proof } => format!("every id passes {pair} once; {}", proof.rest(pair)),
            Self::Trapped { domain } => {
                format!("reading {domain} traps into a hypervisor, which shows every reader one steady counter")
            }
            Self::ForeignClockSource { domain, node, source } => {
                format!("{domain} is stable, though the kernel of {node} keeps time by {source} rather than by it")
            }
            Self::CoresUncounted => "what that check leaves open is in no figure".into(),
            Self::Quantiles => {
                "quantiles are of the traces that have a duration; missing and refused ones may be the slow \
                ones, and are counted"
                    .into()
            }
            Self::Seconds { reference, hertz, tolerance_ppm, .. } => {
                format!("seconds: {reference} runs at {hertz} Hz ±{tolerance_ppm} ppm, an error common to all figures")
            }
            Self::Recorded { statement, .. } => statement.clone(),
        }
    }

    /// Returns whether it matters to this run: a figure or a bound would be another if it did not hold, and nobody
    /// measured, checked or declared it, nor does the processor or the kernel vouch for it.
    pub fn matters(&self, manifest: &Manifest, analysis: &Analysis) -> bool {
        match self {
            Self::Drift { rho, .. } => rho.origin() != RhoOrigin::Number,
            Self::Rate { carries, .. } => *carries,
            Self::Slew { domain, .. } => is_stamped(analysis, domain),
            Self::SlewRate { domain, carries, .. } => *carries && is_stamped(analysis, domain),
            Self::Of { fact, .. } => fact.matters(manifest, analysis),
            Self::OrderedStamps => serves(analysis, Source::Messages),
            Self::Passages { .. }
            | Self::PassageThreads { .. }
            | Self::PassedOnce { .. }
            | Self::JoiningStarts { .. } => true,
            Self::OneCounter { brackets, .. } => *brackets == 0,
            Self::SentOnce { proof, .. } => *proof == SendProof::Nothing,
            Self::Trapped { .. } | Self::ForeignClockSource { .. } => true,
            Self::CoresUncounted => manifest.nodes.iter().any(|node| node.counter.sharing.bound_ticks != Some(0)),
            Self::Quantiles => analysis.rows.iter().any(|row| row.missing + row.refused > 0),
            Self::KernelStamps | Self::ProgramReading { .. } | Self::PlainStamps { .. } | Self::Seconds { .. } => false,
            Self::Recorded { kind, .. } => match kind {
                Some(AssumptionKind::Peers) => probes_left_a_host(manifest, analysis),
                Some(AssumptionKind::NeverMoved) => manifest.nodes.iter().any(in_a_guest),
                Some(AssumptionKind::Network | AssumptionKind::Checked | AssumptionKind::CoresProved) => false,
                Some(AssumptionKind::Other) | None => true,
            },
        }
    }

    /// The assumption in a few words, for a list in a sentence.
    pub fn in_brief(&self) -> String {
        match self {
            Self::Drift { pairs, rho } => format!("{} stays within rho ({rho})", pairs.in_brief()),
            Self::Rate { pairs, ppm, .. } => format!("{} lies within {ppm} ppm of the declared one", pairs.in_brief()),
            Self::CoresUncounted => "the cores of a node read exactly one counter".into(),
            Self::Quantiles => "the traces that lack a duration are no slower than the others".into(),
            Self::OneCounter { domain, reference, .. } => format!("{domain} and {reference} are one counter"),
            Self::SentOnce { pair, .. } => format!("every id passes {pair} once"),
            Self::Passages { .. } => "passages of an id follow the order of the layout".into(),
            Self::PassedOnce { points } => format!("an id passed once at {}", points.join(", ")),
            Self::Recorded { statement, .. } => match statement.split_once(": ") {
                Some((brief, _)) => brief.into(),
                None => statement.clone(),
            },
            _ => self.statement(),
        }
    }

    /// Returns whether it is one that nobody declared, checked or measured, whatever the run is asked.
    pub(crate) fn is_default(&self) -> bool {
        matches!(self.origin().kind, OriginKind::Default | OriginKind::Assumed)
    }

    /// Where it comes from.
    pub fn origin(&self) -> Origin {
        use OriginKind::{Assumed, Checked, Declared, Default, Measured, Method, Platform, Preset, Recorded};
        match self {
            Self::Drift { rho, .. } => {
                let kind = match rho.origin() {
                    RhoOrigin::Default => Default,
                    RhoOrigin::Preset(_) => Preset,
                    RhoOrigin::Number | RhoOrigin::Follows => Declared,
                };
                kind.by(format!("rho {rho}"))
            }
            Self::Rate { ppm, .. } if *ppm > Model::DEFAULT_PRIOR_PPM => {
                Default.by("what the tolerances of the declared frequencies, or the pairs between the two, leave open")
            }
            Self::Rate { carries: true, .. } | Self::SlewRate { carries: true, .. } => Default
                .by("default prior; it carries a slope here, since the evidence is too short to bound the rate closer"),
            Self::Rate { .. } | Self::SlewRate { .. } => {
                Default.by("default prior; the evidence bounds the rate closer")
            }
            Self::Slew { origin, .. } | Self::Recorded { origin, .. } => Recorded.by(origin),
            Self::KernelStamps => Platform.by("the kernel's interface"),
            Self::Of { fact: Fact::Reading(Some(_)), .. } => {
                Measured.by("measured; steps are taken to be regular where a reading takes longer than one")
            }
            Self::Of { fact: Fact::Reading(None), .. } => Assumed.by("assumed: the run did not measure it"),
            Self::Of { fact: Fact::LogResolution(_), .. } => Declared.by("as the log gives them"),
            Self::Of { fact: Fact::OneRate { vouched: true }, .. } => {
                Platform.by("the kernel or the processor says so")
            }
            Self::Of { fact: Fact::OneRate { vouched: false }, .. } => Assumed.by("NOT: see the finding"),
            Self::Of { fact: Fact::Fence { vouched }, .. } => match vouched {
                Some(true) => Platform.by("the processor says so"),
                Some(false) => Assumed.by("the processor says that it does not"),
                None => Assumed.by("assumed: the processor does not say; Linux sets it so on AMD"),
            },
            Self::Of { fact: Fact::Cores { imported: false, .. }, .. } => Checked.by("checked at the start"),
            Self::Of { fact: Fact::Cores { imported: true, .. }, .. } => {
                Assumed.by("assumed: the files do not say on which core a clock was read")
            }
            Self::OrderedStamps => Platform.by("the programs' authors"),
            Self::ProgramReading { .. } => Platform.by("the program says so"),
            Self::PlainStamps { .. } => Declared.by("the points' orderings"),
            Self::Passages { ids } | Self::PassageThreads { ids } => {
                Method.by(format!("how the passages of {} are told apart", counted(ids, "id")))
            }
            Self::PassedOnce { .. } => Assumed.by("assumed: nobody knows the ids of what a policy left out"),
            Self::JoiningStarts { .. } => Method.by("how a layout of several starts is joined"),
            Self::OneCounter { brackets, .. } => {
                Checked.by(format!("detected by boot id; checked against {}", counted(brackets, "bracket")))
            }
            Self::SentOnce { .. } => Declared.by("declared in the run file"),
            Self::Trapped { .. } => Platform.by("run.json: trapped"),
            Self::ForeignClockSource { source, .. } => Platform.by(format!("run.json: clocksource {source}")),
            Self::CoresUncounted => Default.by("default; cores = \"prove\" in the run file adds it"),
            Self::Quantiles => Method.by("how quantiles are made"),
            Self::Seconds { origin, .. } => Declared.by(format!("declared: {origin}")),
        }
    }
}

const KERNEL_STAMPS: &str = "the kernel's stamps and clock_gettime read one clock; a kernel stamp of sending \
                            precedes the packet \
                             (its driver takes it before it hands the packet on), one of receiving follows it; \
                             the kernel \
                             tells within 10 ms that a clock was set, and of one that is set twice before \
                             anybody looks, nothing is stamped between";
const PASSAGES: &str = "a passage of an id that passed more than once has one stamp at each point up to where \
                       it ended, in the \
                        order of the layout and of the ticks; where an id has one stamp, all its later ones \
                        come from that";

impl Fact {
    fn statement(&self) -> String {
        match self {
            Self::Reading(Some(ReadingWidth { width_ticks, seen })) => {
                format!("a reading leaves {width_ticks} ticks open ({seen})")
            }
            Self::Reading(None) => "moves by single ticks".into(),
            Self::LogResolution(ticks) => {
                format!("readings in its log may be off by {ticks} ticks of its clock either way")
            }
            Self::OneRate { .. } => "runs at one rate in every power state".into(),
            Self::Fence { .. } => "the fence of ordered stamps waits for what precedes it".into(),
            Self::Cores { checked, .. } => format!("cores read one counter: {checked}"),
        }
    }
}

impl Fact {
    /// See [`Assumption::matters`].
    fn matters(&self, manifest: &Manifest, analysis: &Analysis) -> bool {
        match self {
            Self::Reading(width) => width.is_none(),
            Self::OneRate { vouched } => !vouched,
            Self::Fence { vouched } => {
                let ordered = orderings(manifest, analysis).contains(&Assumption::OrderedStamps);
                *vouched != Some(true) && (ordered || !analysis.clock_maps.is_empty())
            }
            Self::LogResolution(_) | Self::Cores { .. } => false,
        }
    }
}

/// Returns whether a shown stage has stamps of that clock.
fn is_stamped(analysis: &Analysis, domain: &Label) -> bool {
    analysis.auxiliary_clocks.iter().any(|clock| clock.domain == *domain && clock.points > 0)
}

/// Returns whether some clock map rests on evidence of that source.
fn serves(analysis: &Analysis, source: Source) -> bool {
    let mut sources = analysis.clock_maps.iter().flat_map(|clock_map| &clock_map.sources);
    sources.any(|found| found.name == source.name() && found.brackets > 0)
}

/// Returns whether probes that serve crossed more than the kernel of one host.
fn probes_left_a_host(manifest: &Manifest, analysis: &Analysis) -> bool {
    let mut boots = manifest.nodes.iter().map(|node| node.boot);
    let first = boots.next();
    boots.any(|boot| Some(boot) != first)
        && [Source::Probes, Source::KernelProbes].iter().any(|&source| serves(analysis, source))
}

fn in_a_guest(node: &Node) -> bool {
    node.counter.hypervisor.as_ref().is_some_and(|name| !name.is_empty())
}

impl SendProof {
    fn rest(&self, pair: &MessagePair) -> String {
        match self {
            Self::OwnStamp(send) => {
                format!("ids that {send}, stamped before every send, does not show to be sent once are left out")
            }
            Self::Nothing => format!(
                "ids stamped twice are left out, but no copy is known whose own stamp of {} is missing: no \
                point where the \
                 program itself stamps its sends stands before it in the layout",
                pair.from
            ),
            Self::Stamps => "ids stamped twice are left out".into(),
        }
    }
}

/// Every assumption behind the figures as text: statement, and origin.
pub fn assumptions(manifest: &Manifest, analysis: &Analysis) -> Vec<(String, String)> {
    Assumption::all(manifest, analysis).iter().map(|one| (one.statement(), one.origin().words)).collect()
}

/// One sentence on the assumptions that matter to this run ([`Assumption::matters`]).
pub fn what_matters(manifest: &Manifest, analysis: &Analysis) -> String {
    let all = Assumption::all(manifest, analysis);
    let matter: Vec<String> =
        all.iter().filter(|one| one.matters(manifest, analysis)).map(Assumption::in_brief).collect();
    match matter.len() {
        0 => "These figures rest on nothing that was not checked, measured, declared or vouched for.".into(),
        1 => format!("Nobody checked one assumption that these figures rest on: {}.", matter[0]),
        several => format!("Nobody checked {several} assumptions that these figures rest on: {}.", matter.join("; ")),
    }
}

/// Rho and prior of every pair of counters whose evidence any figure rests on, and the rho that somebody declared for a
/// pair without; what follows from other pairs' is no assumption.
fn rates(manifest: &Manifest, analysis: &Analysis) -> Vec<Assumption> {
    let several = |pair: (&Label, &Label)| analysis.pairs.iter().any(|told| pair == (&told.domain, &told.reference));
    let one_by_one = analysis.clock_maps.iter().filter(|told| !several((&told.domain, &manifest.reference)));
    let one_by_one = one_by_one.map(|told| {
        let ends = (told.domain.clone(), manifest.reference.clone());
        (ends, told.rho, told.prior_ppm, told.rests_on_prior)
    });
    // Within a node that nothing relates, durations rest on its declared frequency.
    let alone = analysis
        .alone
        .iter()
        .map(|one| ((one.domain.clone(), manifest.reference.clone()), one.rho, one.prior_ppm, true));
    let all = analysis.pairs.iter().filter(|pair| pair.rho.origin() != RhoOrigin::Follows || pair.brackets > 0);
    rates_of(one_by_one.chain(alone).chain(all.map(of_pair)))
}

/// A pair of counters, its rho, its prior in parts per million, and whether that carries a slope.
type RateOf = ((Label, Label), Rho, u32, bool);

fn of_pair(pair: &PairSummary) -> RateOf {
    ((pair.domain.clone(), pair.reference.clone()), pair.rho, pair.prior_ppm, pair.rests_on_prior)
}

/// Rho and prior of pairs, alike ones together.
fn rates_of(all: impl Iterator<Item = RateOf>) -> Vec<Assumption> {
    let (drifts, rates): (Vec<_>, Vec<_>) =
        all.map(|(ends, rho, ppm, carries)| ((ends.clone(), rho), (ends, (ppm, carries)))).unzip();
    let assumed = drifts.into_iter().filter(|(_, rho): &(_, Rho)| rho.origin() != RhoOrigin::Follows);
    let drifts = alike(assumed).map(|(rho, pairs)| Assumption::Drift { pairs: CounterPairs(pairs), rho });
    let rates =
        alike(rates).map(|((ppm, carries), pairs)| Assumption::Rate { pairs: CounterPairs(pairs), ppm, carries });
    drifts.chain(rates).collect()
}

/// Slew, prior and stamps of the clocks other than the counters.
fn auxiliary_clocks(analysis: &Analysis) -> Vec<Assumption> {
    let mut all = Vec::new();
    for clock in &analysis.auxiliary_clocks {
        let (domain, counter) = (clock.domain.clone(), clock.counter.clone());
        let (slew, origin) = (clock.slew, clock.slew_origin.clone());
        let (ppm, carries) = (clock.prior_ppm, clock.rests_on_prior);
        all.push(Assumption::Slew { domain: domain.clone(), counter: counter.clone(), slew, origin });
        all.push(Assumption::SlewRate { domain, counter, ppm, carries });
    }
    all.extend((!all.is_empty()).then_some(Assumption::KernelStamps));
    all
}

/// How wide the readings of every counter and clock are.
fn readings(manifest: &Manifest, analysis: &Analysis) -> Vec<Assumption> {
    let of_node = |node: &'_ Node| {
        let used =
            analysis.auxiliary_clocks.iter().map(|clock| &clock.domain).filter(|domain| domain.node == node.name);
        let used = used.map(|domain| (domain.clone(), node.clocks.get(domain.clock.name()).cloned()));
        used.map(|(domain, width)| (domain.to_string(), Fact::Reading(width))).collect::<Vec<_>>()
    };
    let widths = manifest.nodes.iter().flat_map(|node| std::iter::once(own_reading(node)).chain(of_node(node)));
    let coarse = manifest
        .points
        .iter()
        .filter_map(|point| Some((point.place().to_string(), Fact::LogResolution(point.resolution_ticks?))));
    together(widths.chain(coarse))
}

/// How wide a reading of a node's counter is.
fn own_reading(node: &Node) -> (String, Fact) {
    (node.domain().to_string(), Fact::Reading(node.counter.reading.clone()))
}

/// The assumptions that `run.json` records in words.
fn recorded(manifest: &Manifest) -> impl Iterator<Item = Assumption> {
    manifest.assumptions.iter().map(|recorded| {
        let (statement, origin) = (recorded.statement.clone(), recorded.origin.clone());
        Assumption::Recorded { statement, origin, kind: recorded.kind() }
    })
}

/// Which side of the program's acts the stamps are on.
fn orderings(manifest: &Manifest, analysis: &Analysis) -> Vec<Assumption> {
    let of_layout = |name: &String| analysis.rows.iter().any(|row| row.from == *name || row.to == *name);
    let points = manifest.points.iter().map(|point| (point.place().to_string(), point.ordering));
    let (plain, ordered): (Vec<_>, Vec<_>) =
        points.filter(|(name, _)| of_layout(name)).partition(|&(_, ordering)| ordering == Ordering::Plain);
    let mut all = Vec::new();
    if !ordered.is_empty() {
        all.push(Assumption::OrderedStamps);
    }
    if !plain.is_empty() {
        all.push(Assumption::PlainStamps { points: plain.into_iter().map(|(name, _)| name).collect() });
    }
    all
}

/// Rate and fence of every counter: both make it fit to measure with.
fn counters(manifest: &Manifest) -> Vec<Assumption> {
    let fence = |node: &Node| Fact::Fence { vouched: node.counter.fence_serialises };
    let rate = |node: &Node| Fact::OneRate { vouched: node.counter.invariant };
    let all =
        manifest.nodes.iter().flat_map(|node| [rate(node), fence(node)].map(|fact| (node.domain().to_string(), fact)));
    together(all)
}

/// How far the cores of a node are known to read one counter, and where that is part of a figure.
fn cores(manifest: &Manifest) -> Vec<Assumption> {
    let checked = |node: &Node| {
        let checked = &node.counter.sharing.checked;
        Fact::Cores { checked: checked.clone(), imported: checked == Sharing::IMPORTED }
    };
    let mut all = together(manifest.nodes.iter().map(|node| (node.name.to_string(), checked(node))));
    all.extend((!manifest.cores_proved()).then_some(Assumption::CoresUncounted));
    all
}

/// How fast the reference is taken to run.
fn seconds(manifest: &Manifest) -> Option<Assumption> {
    let node = manifest.nodes.iter().find(|node| node.domain() == manifest.reference)?;
    let DeclaredFrequency { hertz, tolerance_ppm, origin } = node.counter.frequency.clone();
    Some(Assumption::Seconds { reference: manifest.reference.clone(), hertz, tolerance_ppm, origin })
}

/// One assumption for all of which the same fact holds, in the order in which it is first named.
fn together(all: impl Iterator<Item = (String, Fact)>) -> Vec<Assumption> {
    alike(all).map(|(fact, names)| Assumption::Of { names, fact }).collect()
}

/// Each fact once, with all of which it holds, in the order in which it is first named.
fn alike<T, F: PartialEq>(all: impl IntoIterator<Item = (T, F)>) -> impl Iterator<Item = (F, Vec<T>)> {
    let mut order: Vec<(F, Vec<T>)> = Vec::new();
    for (name, fact) in all {
        match order.iter_mut().find(|(known, _)| *known == fact) {
            Some((_, names)) => names.push(name),
            None => order.push((fact, vec![name])),
        }
    }
    order.into_iter()
}
