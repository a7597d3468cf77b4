//! What differs between two profiles of noise: a row a figure, with what its change lies between and the verdict.
//!
//! Guarantees: ends are rounded outward. Deliberately absent: computing, and the verdict.

use serde::{Serialize, Serializer};
use tickscope_analysis::{ChangeVerdict, LimitedBy, Shift};
use tickscope_noise::NoiseProfile;
use tickscope_noise::comparison::{FigurePair, FigureUnit, NoiseComparison};
use tickscope_tick::{Unit, counted};

use crate::document::{Block, Document, Words, part};

/// A figure of two profiles.
#[derive(Clone, Debug)]
pub struct NoiseChange {
    /// Both sides.
    pub pair: FigurePair,
    /// From the one to the other, in the figure's unit.
    pub shift: Shift,
    /// What can be said of it.
    pub verdict: ChangeVerdict,
}

#[derive(Serialize)]
struct ChangeJson<'a> {
    #[serde(flatten)]
    pair: &'a FigurePair,
    change: i64,
    lo: Option<i64>,
    hi: Option<i64>,
    verdict: &'static str,
    by_more_than: Option<u64>,
    limited_by: Option<LimitedBy>,
    needs: Option<u64>,
}

impl Serialize for NoiseChange {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (verdict, by_more_than, (limited_by, needs)) = match self.verdict {
            ChangeVerdict::Changed => ("changed", None, (None, None)),
            ChangeVerdict::NotChanged { by_more_than_ticks } => ("not-changed", Some(by_more_than_ticks), (None, None)),
            ChangeVerdict::NotResolved { limited_by, needs } => ("not-resolved", None, (Some(limited_by), needs)),
        };
        let Shift { ticks: change, lo_ticks: lo, hi_ticks: hi, .. } = self.shift;
        let pair = &self.pair;
        ChangeJson { pair, change, lo, hi, verdict, by_more_than, limited_by, needs }.serialize(serializer)
    }
}

impl NoiseChange {
    /// The core and the figure.
    pub fn name(&self) -> String {
        format!("{} {}", self.place(), self.pair.figure)
    }

    fn place(&self) -> String {
        let memory = self.pair.memory_bytes.map_or(String::new(), |bytes| format!(", blocks of {bytes} bytes"));
        format!("core {}{memory}", self.pair.core)
    }

    fn row(&self) -> Vec<Words> {
        let scale = Scale::of(self.pair.unit, self.pair.sides.iter().map(|side| side.at[0].abs()).max().unwrap_or(0));
        let [before, after] = self.pair.sides.map(|side| scale.0.near(side.at[0]).to_string());
        let sign = if self.shift.ticks > 0 { "+" } else { "" };
        let change = format!("{sign}{} {}", scale.0.near(self.shift.ticks), scale.1);
        let end = |end: Option<String>| end.unwrap_or_else(|| "?".into());
        let lo = end(self.shift.lo_ticks.map(|lo| scale.0.down(lo).to_string()));
        let hi = end(self.shift.hi_ticks.map(|hi| scale.0.up(hi).to_string()));
        let verdict = match self.verdict {
            ChangeVerdict::Changed => "changed".into(),
            ChangeVerdict::NotChanged { by_more_than_ticks } => {
                format!("not changed by more than {} {}", scale.0.up(by_more_than_ticks), scale.1)
            }
            ChangeVerdict::NotResolved { limited_by, needs } => unresolved(limited_by, needs),
        };
        [self.place(), self.pair.figure.clone(), before, after, change, format!("[{lo}, {hi}]"), verdict]
            .map(Words::from)
            .into()
    }
}

fn unresolved(limited_by: LimitedBy, needs: Option<u64>) -> String {
    match (limited_by, needs) {
        (LimitedBy::Windows, Some(needs)) => format!("not resolved: it takes {needs} windows, measure longer"),
        (LimitedBy::Clocks, _) => "not resolved: what a pass of the loop took is not known better".into(),
        (_, Some(needs)) if needs < 1_000 => {
            format!("not resolved: about {} the time would do", counted(needs, "time"))
        }
        _ => "not resolved".into(),
    }
}

/// Decimals of a figure's unit, and the unit's name.
struct Scale(Unit, String);

impl Scale {
    /// For values up to `most`.
    fn of(unit: FigureUnit, most: i64) -> Self {
        match unit {
            FigureUnit::NsASecond => {
                let unit = Unit::for_durations_up_to(1_000_000_000, most);
                Self(unit, format!("{}/s", unit.name()))
            }
            FigureUnit::InAMillionSeconds => Self(Unit::seconds(1_000_000, 3), "/s".into()),
            FigureUnit::Ps => {
                let unit = Unit::for_durations_up_to(1_000_000_000_000, most);
                Self(unit, unit.name().into())
            }
        }
    }
}

/// The comparison as a document.
pub fn noise_comparison_document(
    [before, after]: [&NoiseProfile; 2],
    changes: &[NoiseChange],
    found: &NoiseComparison,
) -> Document {
    let sentence = |(what, wanted): (&str, fn(&ChangeVerdict) -> bool)| {
        let names: Vec<String> = changes.iter().filter(|of| wanted(&of.verdict)).map(NoiseChange::name).collect();
        (!names.is_empty()).then(|| Block::paragraph(format!("{what}: {}", names.join("; "))))
    };
    let changed: (&str, fn(&ChangeVerdict) -> bool) = ("changed", |verdict| *verdict == ChangeVerdict::Changed);
    let lead = sentence(changed).unwrap_or_else(|| Block::paragraph("no change was found"));
    let open = changes.iter().filter(|of| matches!(of.verdict, ChangeVerdict::NotResolved { .. })).count();
    let open = (open > 0).then(|| Block::paragraph(format!("{open} of {} figures are not resolved", changes.len())));
    let columns = ["", "figure", "before", "after", "change", "between", ""];
    let table = Block::table_ending_in_words("Figures", &columns, changes.iter().map(NoiseChange::row));
    let between = format!(
        "between: all intervals hold together with {} % confidence by how the windows of each side differ, and by \
         whatever passes of the loop and the width of readings leave open, added to either end",
        found.confidence_per_million / 10_000
    );
    let notes = found.notes.iter().cloned();
    let lacking = found.not_compared.iter().map(|name| format!("not compared: {name}"));
    let notes = std::iter::once(between).chain(notes).chain(lacking).map(Words::from);
    Document {
        title: "Noise before and after".into(),
        about: format!("{}; {} and {} Hz as declared", before.detector, before.hertz, after.hertz),
        lead: [Some(lead), open].into_iter().flatten().collect(),
        first: Vec::new(),
        parts: vec![part("Figures", vec![table, Block::List(notes.collect())])],
    }
}
