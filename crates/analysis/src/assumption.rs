//! An assumption that a run's figures rest on: its statement, its few words and where it comes from.
//!
//! What holds of several nodes or points alike is one assumption that names them. Deliberately absent: which of them a
//! run has, which is `assumptions.rs`; and whether they are true: where the run itself contradicts one, that is a
//! finding.

use std::fmt;

use serde::Serialize;
use tickscope_bracket::{Model, Rho, RhoOrigin};
use tickscope_store::{AssumptionKind, ReadingWidth};
use tickscope_tick::{Label, Place, counted};

use crate::messages::MessagePair;

/// Something that a run's figures rest on.
#[derive(Clone, PartialEq, Debug)]
#[allow(missing_docs, reason = "the comment of a variant names its fields")]
pub enum Assumption {
    /// The rate of two counters stays within rho of one value, for each of these pairs.
    Drift { pairs: CounterPairs, rho: Rho },
    /// The rate of two counters lies near what their frequencies declare; `carries`: the evidence leaves it as open as
    /// that.
    Rate { pairs: CounterPairs, ppm: u32, carries: bool },
    /// A clock runs within its slew bound of one rate against its node's counter.
    Slew { domain: Label, counter: Label, slew: Rho, origin: String },
    /// The rate of a clock against its node's counter lies near what the counter's frequency declares; `carries`: as
    /// above.
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
            Self::CoresUncounted => "figures do not include what that check of the cores leaves open".into(),
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
