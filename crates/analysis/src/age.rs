//! Age of information between any two points of a run: how fresh what arrives at one is, of what the other generates.
//!
//! Idea: each trace with both stamps is an update, generated at the first point and received at the second, of the key
//! that its first stamp names. The age is that of `crates/trace/src/age.rs`, by the delays that the table would give,
//! each with its interval, on the receiver's own time. One window is common to all keys: it begins where every key that
//! counts has been received, and ends with the last reception; integrated from its own first reception to its own
//! last, the age of a key with two updates would be told three times too small. A key that is first received in the
//! second half would take most of the window from the others: it is named, and in no average. Assumes: 120 bytes an
//! update fit in memory. Guarantees: every update is received, lost, refused or without a generation, and counted;
//! what is older than the freshest lowers no age; an update that was received before it was generated is a finding.
//! Where stamps of one of the points are missing no ends are told, and why; where an id is generated again and the
//! layout keeps one passage of each, there is no answer. Deliberately absent: what was never stamped; text for people.

use std::collections::BTreeMap;
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use serde::Serialize;
use tickscope_store::Channel;
use tickscope_tick::{Place, fraction_down, fraction_up};
use tickscope_trace::{
    AgeBounds, Aged, Arrival, Attribute, AxisError, Clocks, Common, Rule, Stage, StageRole, StampAt, Traces, aged,
    aged_without_delay, by_arrival, corners, suggestion,
};

use crate::error::Error;
use crate::in_time::InTime;
use crate::scan::{Piece, Scan, Wanted};

/// Fewer updates of a key make its average a matter of chance.
pub const FEW_UPDATES: u64 = 30;
/// Keys that are listed, those of the most updates.
pub const MOST_AGED_KEYS: usize = 1000;
/// Updates received before they were generated, and keys of few updates, that are named.
pub(crate) const MOST_NAMED: usize = 5;
/// Stretches of a window that a page draws, and corners to either side of the highest.
const STRETCHES: usize = 170;
const NEAR_CORNERS: usize = 20;

/// What is asked for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AgeQuery {
    /// Where an update is generated.
    pub from: Place,
    /// Where it is received.
    pub to: Place,
    /// What tells updates apart; `None`: the value of the stamps at `from` if any has one.
    pub key: Option<AgeKey>,
    /// How much of the time the age is above that, nanoseconds.
    pub limit_ns: Option<u64>,
}

/// What tells updates of one thing from those of another.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum AgeKey {
    /// The number that the program gave with the stamp of the generation.
    Value,
    /// The class of the ids.
    Kind,
    /// Nothing: all updates are of one thing.
    None,
}

impl AgeKey {
    const NAMED: [(&str, Self); 3] = [("value", Self::Value), ("kind", Self::Kind), ("none", Self::None)];

    /// Its word.
    pub fn name(self) -> &'static str {
        Self::NAMED.into_iter().find(|&(_, key)| key == self).map_or("", |(name, _)| name)
    }
}

impl FromStr for AgeKey {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        Self::NAMED.into_iter().find(|(known, _)| *known == name).map(|(_, key)| key).ok_or_else(|| {
            Error::input(format!("expected a key of updates: value, kind or none, found '{name}'. Choose one of them"))
        })
    }
}

/// Ages of a run. Ticks of the reference; within a version keys are added, never removed or renamed.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Age {
    /// Where updates are generated.
    pub from: String,
    /// Where they are received.
    pub to: String,
    /// What their keys are.
    pub key: AgeKey,
    /// The limit that was asked for.
    pub limit_ns: Option<u64>,
    /// Its first and last tick on the receiver's axis: from where every key that counts was received, to the last
    /// reception.
    pub window_ticks: [i64; 2],
    /// The same from the first reception of any key on.
    pub receptions_ticks: [i64; 2],
    /// Part of the time between these in which every key that counts had been received: that of the window.
    pub primed_share: f64,
    /// All updates.
    pub updates: Updates,
    /// How many keys are in the figures.
    pub counted_keys: usize,
    /// Of these, those with fewer than [`FEW_UPDATES`] received in the window.
    pub keys_with_few: usize,
    /// Some of these, those of the fewest updates first.
    pub few: Vec<Option<i64>>,
    /// Mean over the keys that count.
    pub over_keys: Option<Ages>,
    /// Mean excess over the updates received in the window: each key counts as often as it has some.
    pub excess_by_update: Option<AgeSpan>,
    /// Those of the most updates first.
    pub keys: Vec<KeyAge>,
    /// Keys beyond [`MOST_AGED_KEYS`].
    pub keys_left_out: usize,
    /// Why no figure has ends: stamps of one of the points that are missing, or that its policy leaves out.
    pub lacking: Vec<String>,
    /// Updates that were received before they were generated, some of them by name.
    pub findings: Vec<String>,
    /// How it went for the key of the largest excess, of those with few updates only where no other has any.
    #[serde(skip)]
    pub drawn: Option<DrawnAge>,
}

/// How the age of a key went: corners of a line each, tick and age; as estimated, at least, at most.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DrawnAge {
    /// Which key.
    pub key: Option<i64>,
    /// Over the whole window; of many corners the highest and the lowest of each stretch.
    pub whole: [Vec<[i64; 2]>; 3],
    /// All corners around the highest; `None`: the whole has them.
    pub near: Option<[Vec<[i64; 2]>; 3]>,
}

/// How many updates met with what.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Updates {
    /// Received, with a delay.
    pub received: u64,
    /// Received in the window, and fresher than all before it of its key.
    pub effective: u64,
    /// Received in the window, and not fresher.
    pub obsolete: u64,
    /// Of these, generated before one that had been received at an earlier tick: out of order.
    pub out_of_order: u64,
    /// Ids generated once and received again: the reception that counts is that of the trace, the first unless the
    /// layout says otherwise.
    pub doubled: u64,
    /// Generated and not received: lost, or on its way when the run ended.
    pub lost: u64,
    /// Received without the stamp of its generation: in no figure, and the age may be lower by it.
    pub ungenerated: u64,
    /// Stamped at both points without an interval between them: in no figure, and the age may be lower by it.
    pub refused: u64,
    /// Received before it was generated, whatever the clocks were.
    pub impossible: u64,
    /// The clocks leave open whether it was generated, or received, before the one before it. Averages hold either way;
    /// the mean peak of its key is told without ends.
    pub unresolved: u64,
}

/// Ages of one key, or of all.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Ages {
    /// Over time.
    pub average: AgeSpan,
    /// Mean age right before an update lowers it; over keys: of those that have one.
    pub peak: Option<AgeSpan>,
    /// Share of the time above the limit.
    pub above: Option<AgeShare>,
    /// The average if every update that was received had been when it was generated; `None`: nothing had been by then,
    /// whatever the clocks were, when the window begins.
    pub without_delay: Option<AgeSpan>,
    /// How much of the average is beyond that, for the delays.
    pub excess: Option<AgeSpan>,
}

/// An age in ticks, and what it truly lies between; `None`: nothing bounds it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct AgeSpan {
    /// Of the estimates.
    pub estimate_ticks: i64,
    /// It is not below.
    pub lo_ticks: Option<i64>,
    /// It is not above.
    pub hi_ticks: Option<i64>,
}

/// A share of the time, and what it truly lies between.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct AgeShare {
    /// Of the estimates.
    pub estimate: f64,
    /// It is not below.
    pub lo: f64,
    /// It is not above.
    pub hi: f64,
}

/// One key.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct KeyAge {
    /// The value or the kind; `None`: its stamps have none, or nothing tells keys apart.
    pub key: Option<i64>,
    /// Updates of it that were generated; those whose generation has no stamp have no key.
    pub generated: u64,
    /// Received, with a delay.
    pub received: u64,
    /// Generated and not received.
    pub lost: u64,
    /// Received in the window, and fresher than all before it.
    pub effective: u64,
    /// Received in the window, and not fresher.
    pub obsolete: u64,
    /// Of these, generated before the freshest that had been received.
    pub out_of_order: u64,
    /// Its age; `None`: see `why`.
    pub ages: Option<Ages>,
    /// Why it is in no figure.
    pub why: Option<NoAge>,
}

/// Why a key has no age.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum NoAge {
    /// No update of it was received.
    NeverReceived,
    /// It was received first in the second half of the receptions.
    Late,
}

/// What is kept of a row.
#[derive(Clone, Copy)]
struct Seen {
    key: Option<i64>,
    id: i64,
    what: What,
    is_doubled: bool,
}

#[derive(Clone, Copy)]
enum What {
    Received { raws: [i64; 2], delay: [i64; 3] },
    Lost,
    Refused,
    Ungenerated,
}

/// All that is known of one key.
#[derive(Default)]
struct OfKey {
    received: Vec<Arrival>,
    lost: u64,
    refused: u64,
    unresolved: u64,
    /// Raw ticks of the freshest, and of the last, at the two points.
    freshest: Option<(i64, i64)>,
    last: Option<i64>,
}

/// Ages between two points of a run.
pub fn age(scan: &Scan, asked: &AgeQuery) -> Result<Age, Error> {
    let ends = ends_of(scan, asked)?;
    let key = key_of(scan, asked);
    let value = Wanted { point: ends[0], attribute: Attribute::Value };
    let stage = Stage { name: String::new(), from: ends[0], to: ends[1], role: StageRole::Extra };
    let wanted = if key == AgeKey::Value { vec![value] } else { Vec::new() };
    let reused = AtomicU64::new(0);
    let of = |piece: &Piece<'_>, row: usize, found: &mut Vec<(i64, Seen)>| {
        let Some((at, what)) = seen(piece, row, &stage) else { return };
        let key = match key {
            AgeKey::Value => piece.attribute(value, row),
            AgeKey::Kind => Some(piece.traces.kinds()[row].into()),
            AgeKey::None => None,
        };
        let is_doubled = piece.traces.occurrences()[row] == 0 && is_doubled(piece.traces, row, ends);
        let is_kept_once = piece.layout.points()[ends[0]].rule != Rule::All;
        reused.fetch_add(u64::from(is_kept_once && passed_again(piece.traces, row, ends[0])), Relaxed);
        found.push((at, Seen { key, id: piece.traces.ids()[row], what, is_doubled }));
    };
    let mut in_time = InTime::new(wanted, of);
    scan.over(&mut in_time)?;
    expect_once(reused.load(Relaxed), asked)?;
    let clocks = &scan.inputs.clocks;
    let found = Gathered::of(clocks, ends, in_time.ordered()).aged(asked, key, (clocks, scan.hertz()))?;
    let lacking = lacking_at(scan, asked);
    Ok(if lacking.is_empty() { found } else { Age { lacking, ..found.without_ends() } })
}

/// Stamps of either point that are missing, in words.
pub(crate) fn lacking_at(scan: &Scan, asked: &AgeQuery) -> Vec<String> {
    [&asked.from, &asked.to].into_iter().filter_map(|place| lacking(&scan.channels, place)).collect()
}

/// What is missing of a point's stamps; `None`: every one that was taken is there.
fn lacking(channels: &[Channel], place: &Place) -> Option<String> {
    let own = || channels.iter().filter(|channel| channel.is_at(place));
    let missing = own().fold(0_i64, |sum, channel| {
        let lost = [channel.dropped, channel.refused, channel.uncommitted, channel.overwritten.unwrap_or(0)];
        lost.into_iter().fold(sum, i64::saturating_add)
    });
    let thinned = own().find(|channel| !channel.keeps_all()).map(|channel| format!("policy {}", channel.policy));
    let lost = (missing > 0).then(|| format!("{missing} stamps were dropped, refused, overwritten or cut off"));
    let told: Vec<String> = lost.into_iter().chain(thinned).collect();
    (!told.is_empty()).then(|| format!("{place}: {}", told.join("; ")))
}

/// The two points that were named, in the layout.
pub(crate) fn ends_of(scan: &Scan, asked: &AgeQuery) -> Result<[usize; 2], Error> {
    let ends = [point(scan, &asked.from)?, point(scan, &asked.to)?];
    if ends[0] == ends[1] {
        return Err(Error::input(format!("--age: expected two points, found '{}' twice. Name both", asked.from)));
    }
    Ok(ends)
}

fn point(scan: &Scan, named: &Place) -> Result<usize, Error> {
    let places: Vec<&Place> = scan.layout().points().iter().map(|point| &point.place).collect();
    places.iter().position(|place| *place == named).ok_or_else(|| {
        let known: Vec<String> = places.iter().map(ToString::to_string).collect();
        let helps = suggestion(&named.to_string(), &known);
        Error::input(format!("--age: expected a point of the layout, found '{named}'; {helps}"))
    })
}

/// Attribute that tells updates apart; if none is asked for, the value where stamps have one.
pub(crate) fn key_of(scan: &Scan, asked: &AgeQuery) -> AgeKey {
    let place = asked.from.to_string();
    let has_values = scan.readers.iter().any(|reader| reader.has_attribute(&place, Attribute::Value));
    asked.key.unwrap_or(if has_values { AgeKey::Value } else { AgeKey::None })
}

/// What a row says of an update, with where that stands in time; `None`: nothing, or nothing new.
fn seen(piece: &Piece<'_>, row: usize, stage: &Stage) -> Option<(i64, What)> {
    let Piece { layout, clocks, traces, .. } = piece;
    if traces.repeats(row, [stage.from, stage.to]) {
        return None;
    }
    let raw = |point: usize| traces.points()[point].get(row);
    let is_again = || traces.occurrences()[row] > 0 && is_doubled(traces, row, [stage.from, stage.to]);
    let (from, to) = match (raw(stage.from), raw(stage.to)) {
        (None, None) => return None,
        (None, Some(_)) if is_again() => return None,
        (Some(_), None) => return Some((i64::MAX, What::Lost)),
        (None, Some(_)) => return Some((i64::MAX, What::Ungenerated)),
        (Some(from), Some(to)) => (from, to),
    };
    let [first, second] = [(stage.from, from), (stage.to, to)].map(|(point, tick)| StampAt { point, tick });
    let delay = clocks.distance(first, second).filter(|_| traces.together(layout, stage, row));
    let received = clocks.on_axis(stage.to, to).zip(delay);
    Some(match received {
        Some((at, delay)) => (at, What::Received { raws: [from, to], delay }),
        None => (i64::MAX, What::Refused),
    })
}

/// Returns whether the id of a row passed a point more than once.
fn passed_again(traces: &Traces, row: usize, point: usize) -> bool {
    traces.marks(row).is_some_and(|marks| marks.points()[point].is_several())
}

/// Updates of an id that was generated again are in no trace where one passage of each id is kept.
fn expect_once(reused: u64, asked: &AgeQuery) -> Result<(), Error> {
    let from = &asked.from;
    match reused {
        0 => Ok(()),
        _ => Err(Error::input(format!(
            "--age: expected ids that pass {from} once, found {reused} that passed it again, whose other updates are \
             in no trace. Ask by a layout with the rule 'all' for {from}: --layout, or [layout.rules] in the run file"
        ))),
    }
}

/// Returns whether the id of a row was generated once, and received more than once.
fn is_doubled(traces: &Traces, row: usize, ends: [usize; 2]) -> bool {
    let marks = traces.marks(row).map(|marks| ends.map(|end| marks.points()[end].is_several()));
    marks == Some([false, true])
}

/// Updates by key.
struct Gathered {
    keys: BTreeMap<Option<i64>, OfKey>,
    /// The point where updates are received.
    to: usize,
    /// How far a reading there reaches, at most.
    reach: Common,
    updates: Updates,
    named: Vec<String>,
}

impl Gathered {
    fn of(clocks: &Clocks, [from, to]: [usize; 2], ordered: impl Iterator<Item = (i64, Seen)>) -> Self {
        let mut all = Self {
            keys: BTreeMap::new(),
            to,
            reach: Common { below_ticks: 0, above_ticks: 0 },
            updates: Updates::default(),
            named: Vec::new(),
        };
        for (at, Seen { key, id, what, is_doubled }) in ordered {
            all.updates.doubled += u64::from(is_doubled);
            let (raws, delay) = match what {
                What::Received { raws, delay } => (raws, delay),
                What::Lost => {
                    all.keys.entry(key).or_default().lost += 1;
                    all.updates.lost += 1;
                    continue;
                }
                What::Refused => {
                    all.keys.entry(key).or_default().refused += 1;
                    all.updates.refused += 1;
                    continue;
                }
                What::Ungenerated => {
                    all.updates.ungenerated += 1;
                    continue;
                }
            };
            all.updates.received += 1;
            if delay[2] < 0 {
                all.updates.impossible += 1;
                if all.named.len() < MOST_NAMED {
                    let [generated, received] = raws;
                    let most = delay[2];
                    all.named.push(format!(
                        "id {id}, generated at {generated}, received at {received}, at most {most} ticks later"
                    ));
                }
            }
            all.reach = all.reach.widest(clocks.reading_reach(to, raws[1]).unwrap_or(all.reach));
            let key = all.keys.entry(key).or_default();
            key.received.push(Arrival { at, delay });
            all.updates.unresolved += u64::from(key.follows(clocks, [from, to], (raws, at - delay[0])));
        }
        all.keys.values_mut().for_each(|key| by_arrival(&mut key.received));
        all
    }
}

impl OfKey {
    /// Notes the next update; returns whether the clocks leave its place among those before it open.
    fn follows(&mut self, clocks: &Clocks, [from, to]: [usize; 2], (raws, generated): ([i64; 2], i64)) -> bool {
        let open = |point: usize, before: i64, tick: i64| {
            let [before, tick] = [before, tick].map(|tick| StampAt { point, tick });
            clocks.may_precede(before, tick) && clocks.may_precede(tick, before)
        };
        // One stamp for several generations says that they are as old; one reading at the receiver says no order.
        let is_open = self.freshest.is_some_and(|(_, before)| before != raws[0] && open(from, before, raws[0]))
            || self.last.is_some_and(|before| open(to, before, raws[1]));
        self.last = Some(raws[1]);
        if self.freshest.is_none_or(|(freshest, _)| generated > freshest) {
            self.freshest = Some((generated, raws[0]));
        }
        self.unresolved += u64::from(is_open);
        is_open
    }
}

/// Ticks between which something is told.
struct Windows {
    /// The last at which a key that counts may have been received first.
    half: i64,
    /// All keys that count have been received.
    primed: [i64; 2],
    /// All receptions.
    full: [i64; 2],
}

impl Gathered {
    fn aged(self, asked: &AgeQuery, key: AgeKey, (clocks, hertz): (&Clocks, u64)) -> Result<Age, Error> {
        let error = clocks.axis_error(self.to, self.reach);
        let Windows { half, primed: window, full } = self.windows(error).ok_or_else(|| self.none(asked))?;
        let is_late = |of: &OfKey| of.received.first().is_none_or(|update| update.at > half);
        let counted = || self.keys.values().filter(|of| !is_late(of));
        let limit = asked.limit_ns.map(|ns| limit_ticks(ns, hertz));
        let (mut all, length) = (Vec::new(), i128::from(window[1]) - i128::from(window[0]));
        let wide = || Error::work("expected ages that 128 bits hold, found stamps too far apart. Show fewer of them");
        let mut age = Age {
            from: asked.from.to_string(),
            to: asked.to.to_string(),
            key,
            limit_ns: asked.limit_ns,
            window_ticks: window,
            receptions_ticks: full,
            primed_share: length as f64 / (i128::from(full[1]) - i128::from(full[0])) as f64,
            updates: self.updates,
            counted_keys: counted().count(),
            keys_with_few: 0,
            few: Vec::new(),
            over_keys: None,
            excess_by_update: None,
            keys: Vec::new(),
            keys_left_out: 0,
            lacking: Vec::new(),
            findings: self.findings(asked),
            drawn: None,
        };
        let mut most = None;
        for (&key, of) in &self.keys {
            let why = match of.received.is_empty() {
                true => Some(NoAge::NeverReceived),
                false => is_late(of).then_some(NoAge::Late),
            };
            let found = match why {
                None => Some(Found::of(&of.received, window, limit, error).ok_or_else(wide)?),
                Some(_) => None,
            };
            let excess = found.as_ref().and_then(|found| Some((!found.has_few(), found.excess?.estimate)));
            if excess > most {
                (most, age.drawn) = (excess, DrawnAge::of(key, &of.received, window, error));
            }
            let row = of.row(key, found.as_ref(), why, length);
            all.extend(found);
            age.updates.effective += row.effective;
            age.updates.obsolete += row.obsolete;
            age.updates.out_of_order += row.out_of_order;
            age.keys.push(row);
        }
        (age.keys_with_few, age.few) = few(&age.keys);
        age.excess_by_update = over_updates(&all);
        age.over_keys = over_keys(&all, counted().any(|of| of.unresolved > 0), length);
        age.keys.sort_by_key(|row| std::cmp::Reverse(row.received));
        age.keys_left_out = age.keys.len().saturating_sub(MOST_AGED_KEYS);
        age.keys.truncate(MOST_AGED_KEYS);
        Ok(age)
    }

    /// `None`: no two receptions are apart.
    fn windows(&self, error: AxisError) -> Option<Windows> {
        let firsts = || self.keys.values().filter_map(|of| of.received.first()).map(|update| update.at);
        let first = firsts().min()?;
        let last = self.keys.values().filter_map(|of| of.received.last()).map(|update| update.at).max()?;
        let half = first + (last - first) / 2;
        let [begin, first] = [firsts().filter(|&at| at <= half).max()?, first];
        let [begin, first] = [begin.checked_add_unsigned(error.reading)?, first.checked_add_unsigned(error.reading)?];
        (begin < last).then_some(Windows { half, primed: [begin, last], full: [first, last] })
    }

    fn none(&self, asked: &AgeQuery) -> Error {
        let Updates { received, lost, ungenerated, refused, .. } = self.updates;
        Error::work(format!(
            "expected updates from {} to {} at two instants or more, found {received} received, {lost} not received, \
             {ungenerated} without a generation, {refused} without an interval. Name two points that one id passes, on \
             nodes that evidence relates; measure longer",
            asked.from, asked.to
        ))
    }

    fn findings(&self, asked: &AgeQuery) -> Vec<String> {
        let impossible = self.updates.impossible;
        if impossible == 0 {
            return Vec::new();
        }
        vec![format!(
            "{impossible} updates were received at {} before they were generated at {}, whatever the clocks were: {}. \
             The two points are the other way round, name different things by the same id, or rho is too small",
            asked.to,
            asked.from,
            self.named.join("; ")
        )]
    }
}

impl OfKey {
    fn row(&self, key: Option<i64>, found: Option<&Found>, why: Option<NoAge>, length: i128) -> KeyAge {
        let received = self.received.len() as u64;
        let ends = |peak| if self.unresolved > 0 { AgeSpan::open(peak) } else { AgeSpan::of(peak) };
        let ages = found.map(|found| Ages {
            average: AgeSpan::of(found.aged.average),
            peak: found.aged.peak.map(ends),
            above: found.aged.above.map(|above| AgeShare::of(above, length)),
            without_delay: found.without_delay.map(AgeSpan::of),
            excess: found.excess.map(AgeSpan::of),
        });
        KeyAge {
            key,
            generated: received + self.lost + self.refused,
            received,
            lost: self.lost,
            effective: found.map_or(0, |found| found.aged.effective),
            obsolete: found.map_or(0, |found| found.aged.obsolete),
            out_of_order: found.map_or(0, |found| found.aged.overtaken),
            ages,
            why,
        }
    }
}

impl Age {
    /// Keys that are in no figure for that reason, of those that are listed.
    pub fn keys_without(&self, why: NoAge) -> impl Iterator<Item = Option<i64>> {
        self.keys.iter().filter(move |key| key.why == Some(why)).map(|key| key.key)
    }

    /// The same figures, none of which has an end.
    fn without_ends(mut self) -> Self {
        let of = |ages: Ages| {
            let open = |span: AgeSpan| AgeSpan { lo_ticks: None, hi_ticks: None, ..span };
            Ages {
                average: open(ages.average),
                peak: ages.peak.map(open),
                above: ages.above.map(|above| AgeShare { lo: 0.0, hi: 1.0, ..above }),
                without_delay: ages.without_delay.map(open),
                excess: ages.excess.map(open),
            }
        };
        self.over_keys = self.over_keys.map(of);
        self.keys.iter_mut().for_each(|key| key.ages = key.ages.take().map(of));
        self.excess_by_update = self.excess_by_update.map(|span| AgeSpan { lo_ticks: None, hi_ticks: None, ..span });
        self
    }
}

impl AgeSpan {
    fn of(AgeBounds { estimate, lo, hi }: AgeBounds) -> Self {
        Self { estimate_ticks: estimate, lo_ticks: Some(lo), hi_ticks: Some(hi) }
    }

    fn open(AgeBounds { estimate, .. }: AgeBounds) -> Self {
        Self { estimate_ticks: estimate, lo_ticks: None, hi_ticks: None }
    }
}

/// Ages of one key.
struct Found {
    aged: Aged,
    without_delay: Option<AgeBounds>,
    excess: Option<AgeBounds>,
}

impl Found {
    fn of(updates: &[Arrival], window: [i64; 2], limit: Option<[i64; 2]>, error: AxisError) -> Option<Self> {
        let aged = aged(updates, window, limit, error)?;
        let without_delay = aged_without_delay(updates, window, error).map(|found| found.average);
        let excess = without_delay.and_then(|without_delay| aged.average.beyond(without_delay));
        Some(Self { aged, without_delay, excess })
    }

    fn has_few(&self) -> bool {
        self.aged.effective + self.aged.obsolete < FEW_UPDATES
    }
}

impl AgeShare {
    fn of(AgeBounds { estimate, lo, hi }: AgeBounds, length: i128) -> Self {
        let [lo, hi] = [fraction_down(lo.into(), length), fraction_up(hi.into(), length)];
        Self { estimate: estimate as f64 / length as f64, lo, hi }
    }
}

/// The mean over all keys that count; `open`: the clocks leave open what the peaks of some are.
fn over_keys(keys: &[Found], open: bool, length: i128) -> Option<Ages> {
    let mean = |of: &dyn Fn(&Found) -> Option<AgeBounds>| {
        let all: Vec<AgeBounds> = keys.iter().filter_map(of).collect();
        let count = i128::try_from(all.len()).ok().filter(|&count| count > 0)?;
        let sum = |of: &dyn Fn(&AgeBounds) -> i64| all.iter().map(|one| i128::from(of(one))).sum::<i128>();
        let ticks = |ticks: i128| i64::try_from(ticks).ok();
        Some(AgeBounds {
            estimate: ticks((2 * sum(&|one| one.estimate) + count).div_euclid(2 * count))?,
            lo: ticks(sum(&|one| one.lo).div_euclid(count))?,
            hi: ticks(-(-sum(&|one| one.hi)).div_euclid(count))?,
        })
    };
    let average = AgeSpan::of(mean(&|key| Some(key.aged.average))?);
    let peak = mean(&|key| key.aged.peak).map(|peak| if open { AgeSpan::open(peak) } else { AgeSpan::of(peak) });
    let all_have = keys.iter().all(|key| key.without_delay.is_some());
    let of_all = |of: &dyn Fn(&Found) -> Option<AgeBounds>| mean(of).filter(|_| all_have).map(AgeSpan::of);
    Some(Ages {
        average,
        peak,
        above: mean(&|key| key.aged.above).map(|above| AgeShare::of(above, length)),
        without_delay: of_all(&|key| key.without_delay),
        excess: of_all(&|key| key.excess),
    })
}

impl DrawnAge {
    /// `None`: there is no age.
    fn of(key: Option<i64>, updates: &[Arrival], window: [i64; 2], error: AxisError) -> Option<Self> {
        let all = corners(updates, window, error)?;
        let highest = all[0].iter().max_by_key(|corner| corner[1])?[0];
        let place = all[0].iter().position(|corner| corner[0] == highest)?;
        let last = all[0].len() - 1;
        let ends = [place.saturating_sub(NEAR_CORNERS), (place + NEAR_CORNERS).min(last)].map(|at| all[0][at][0]);
        let is_part = last > 2 * NEAR_CORNERS && ends[0] < ends[1];
        let near = if is_part { corners(updates, ends, error) } else { None };
        Some(Self { key, whole: all.map(|line| thinned(&line)), near })
    }
}

/// The highest and the lowest corner of each of so many stretches, in their order; all where these are few.
fn thinned(line: &[[i64; 2]]) -> Vec<[i64; 2]> {
    if line.len() <= 4 * STRETCHES {
        return line.to_vec();
    }
    let ends = |stretch: &[[i64; 2]]| {
        let of = |sign: i64| stretch.iter().enumerate().max_by_key(|(_, corner)| sign.saturating_mul(corner[1]));
        let places: Vec<usize> = [1, -1].into_iter().filter_map(|sign| Some(of(sign)?.0)).collect();
        let mut ends: Vec<(usize, [i64; 2])> = places.into_iter().map(|at| (at, stretch[at])).collect();
        ends.sort_unstable();
        ends.dedup();
        ends
    };
    let stretches = line.chunks(line.len().div_ceil(STRETCHES));
    let inner = stretches.flat_map(|stretch| ends(stretch).into_iter().map(|(_, corner)| corner));
    line.first().copied().into_iter().chain(inner).chain(line.last().copied()).collect()
}

/// The mean excess, by the updates of each key in the window; `None`: there are none, or one of them has no excess.
fn over_updates(keys: &[Found]) -> Option<AgeSpan> {
    let weighted = |of: &dyn Fn(&AgeBounds) -> i64| {
        keys.iter().try_fold((0_i128, 0_i128), |(sum, count), key| {
            let updates = i128::from(key.aged.effective + key.aged.obsolete);
            Some((sum + updates * i128::from(of(&key.excess?)), count + updates))
        })
    };
    let mean = |of: &dyn Fn(&AgeBounds) -> i64, round: &dyn Fn(i128, i128) -> i128| {
        let (sum, count) = weighted(of).filter(|&(_, count)| count > 0)?;
        i64::try_from(round(sum, count)).ok()
    };
    Some(AgeSpan::of(AgeBounds {
        estimate: mean(&|one| one.estimate, &|sum, count| (2 * sum + count).div_euclid(2 * count))?,
        lo: mean(&|one| one.lo, &i128::div_euclid)?,
        hi: mean(&|one| one.hi, &|sum, count| -(-sum).div_euclid(count))?,
    }))
}

/// How many keys that count have few updates in the window, and those of the fewest.
fn few(keys: &[KeyAge]) -> (usize, Vec<Option<i64>>) {
    let updates = |row: &KeyAge| row.effective + row.obsolete;
    let mut few: Vec<&KeyAge> = keys.iter().filter(|row| row.why.is_none() && updates(row) < FEW_UPDATES).collect();
    few.sort_by_key(|row| updates(row));
    (few.len(), few.iter().take(MOST_NAMED).map(|row| row.key).collect())
}

/// The limit in ticks, rounded down and up.
pub(crate) fn limit_ticks(ns: u64, hertz: u64) -> [i64; 2] {
    let (exact, second) = (u128::from(ns) * u128::from(hertz), 1_000_000_000);
    [exact / second, exact.div_ceil(second)].map(|ticks| i64::try_from(ticks).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thinned_line_keeps_its_ends_and_the_highest_and_lowest_corners() {
        let corner = |at: i64| {
            [
                at,
                if at == 4321 {
                    900
                } else if at == 8765 {
                    -7
                } else {
                    at % 100
                },
            ]
        };
        let line: Vec<[i64; 2]> = (0..10_000).map(corner).collect();
        let thin = thinned(&line);
        assert!(thin.len() <= 2 * STRETCHES + 4, "{}", thin.len());
        assert!([0, 4321, 8765, 9_999].iter().all(|&at| thin.contains(&corner(at))));
        assert!(thin.windows(2).all(|pair| pair[0][0] <= pair[1][0]), "in order of time");
        assert_eq!(thinned(&line[..100]), line[..100]);
    }
}
