//! The OS-noise study's tables and scatter plots, of a profile's traces.
//!
//! Guarantees: raw and cleaned stand side by side, with what was removed and what was published. Deliberately absent:
//! computing.

use std::collections::BTreeSet;

use tickscope_noise::NoiseProfile;
use tickscope_noise::shape::{PUBLISHED, Shape};
use tickscope_noise::study::{Exemplar, Study, TunedRule};

use crate::document::{Block, Document, Words, part};
use crate::drawn_figure::DrawnFigure;
use crate::noise_survey::{RULE_HEADS, rule_cells};
use crate::plot::{Axis, Figure, Ink, short};

/// The study as a document.
pub fn noise_study_document(profile: &NoiseProfile, study: &Study) -> Document {
    let TunedRule { quantile_per_million, factor_thousandths, f1_exemplars, f1_all, .. } = &study.tuned;
    let (q, c) = (f64::from(*quantile_per_million) / 1e4, f64::from(*factor_thousandths) / 1e3);
    let tuned = format!(
        "Tuned: p{q} + {c} (p{q} - Q0); F1 against detours above the threshold: {f1_exemplars:.3} on its exemplars, \
         {f1_all:.3} on all traces that it was tuned on. The study's own: p95 + 3 (p95 - Q0), the rule ipad"
    );
    let by = |name: &str| study.all.iter().find(|shape| shape.rule == name);
    let figure = |figure: Option<f64>| figure.map_or_else(|| "–".into(), |figure| format!("{figure:.2}"));
    let [[raw_skewness, raw_kurtosis], [skewness, kurtosis]] = PUBLISHED.map(|row| row.map(|of| format!("{of:.2}")));
    let row = |what: &str, of: fn(&Shape) -> Option<f64>, published: [String; 2]| {
        let own = ["raw", "ipad", "tuned", "gap-or-tail", "as advised"].map(|rule| figure(by(rule).and_then(of)));
        [what.to_string()].into_iter().chain(own).chain(published).map(Words::from).collect()
    };
    let rows = [
        row("mean skewness", |shape| shape.skewness, [raw_skewness, skewness]),
        row("mean kurtosis", |shape| shape.kurtosis, [raw_kurtosis, kurtosis]),
    ];
    let heads = ["", "raw", "ipad", "tuned", "gap-or-tail", "as advised", "published raw", "published cleaned"];
    let all = study.all.iter().map(|shape| rule_cells("all traces".into(), shape));
    let parts = study.parts.iter().flat_map(|of| of.shapes.iter().map(|shape| rule_cells(of.name.clone(), shape)));
    let exemplar = |Exemplar { name, trace, medcouple, f1, .. }: &Exemplar| {
        [name.clone(), trace.to_string(), format!("{medcouple:.3}"), format!("{f1:.3}")].map(Words::from).to_vec()
    };
    let exemplars = study.exemplars.iter().map(exemplar);
    let removed = "a small skewness is no merit: Tukey's rule has it by deleting genuine values. A rule that abstained \
                   from a trace is in no mean of it; as advised: the default rule, and what its abstentions advise";
    Document {
        title: "The OS-noise study's tables, of this profile".into(),
        about: format!("{}; the counter at {} Hz, {}", profile.detector, profile.hertz, profile.step),
        lead: vec![Block::paragraph(tuned)],
        first: Vec::new(),
        parts: vec![
            part(
                "Table 1",
                vec![Block::table("Table 1", &heads, rows.into_iter()), Block::List(vec![Words::from(removed)])],
            ),
            part("Before and after, by use of memory", vec![Block::table("Rules", &RULE_HEADS, all.chain(parts))]),
            part("Exemplars", vec![Block::table("Exemplars", &["", "trace", "medcouple", "F1"], exemplars)]),
        ],
    }
}

/// Scatter plots of the exemplars: raw, and what the tuned rule leaves.
pub fn noise_study_figure(profile: &NoiseProfile, study: &Study) -> Option<DrawnFigure> {
    let ns = 1e9 / profile.hertz as f64;
    let mut drawings = Vec::new();
    for exemplar in &study.exemplars {
        let core = profile.cores.iter().find(|of| of.name() == exemplar.name);
        let Some(ticks) = core.and_then(|of| of.traces.get(exemplar.trace)) else { continue };
        for most in [i64::MAX, exemplar.threshold_ticks.unwrap_or(i64::MAX)] {
            let kept = || ticks.iter().enumerate().filter(move |(_, of)| **of <= most);
            let label = if most == i64::MAX { "raw" } else { "cleaned" };
            let numbers = Axis::from_0([ticks.len() as f64].into_iter(), |at| format!("{at:.0}"));
            let lengths = Axis::from_0(kept().map(|(_, &of)| of as f64 * ns), short);
            let highest = kept().map(|(_, &of)| of).max().unwrap_or(1).max(1);
            let name = format!("{}, {label}", exemplar.name);
            let mut figure = Figure::plane(numbers.named("difference number"), lengths.named(&name));
            // One dot for all that would lie on one another.
            let dot = |(at, &of): (usize, &i64)| (at * PLACES / ticks.len(), of * PLACES as i64 / highest, at, of);
            let mut seen = BTreeSet::new();
            let dots = kept().map(dot).filter(|&(x, y, ..)| seen.insert((x, y)));
            let dots: Vec<[f64; 2]> = dots.map(|(.., at, of)| [at as f64, of as f64 * ns]).collect();
            figure.dots(&dots, Ink::of(usize::from(most != i64::MAX)));
            drawings.push(figure);
        }
    }
    let caption = "Every difference of neighbouring readings in its order; of those that would lie on one another one \
                   is drawn. Left raw, right without what the tuned rule removes: mind the scales. From the least to \
                   the greatest medcouple.";
    let title = "Traces before and after the tuned rule".to_string();
    (!drawings.is_empty()).then(|| DrawnFigure::of("noise-traces", title, caption.into(), drawings))
}

/// Places along an axis that dots are told apart on.
const PLACES: usize = 240;
