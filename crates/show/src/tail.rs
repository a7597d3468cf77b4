//! What makes the slow traces slow: a sentence, a bar of shares, a table.
//!
//! Guarantees: a stage is named as the cause only where the clocks and nearly all draws agree on it; what is not
//! resolved says why and what would resolve it; the table says what each interval holds. Deliberately absent: computing
//! (`tickscope_analysis::Tail`).

use std::fmt::Write;

use tickscope_analysis::{Analysis, FEWEST_SLOW, StageTail, Tail, TailShare, Unresolved};
use tickscope_trace::StageRow;

use crate::document::{self, Block, Words};
use crate::headline::arrow;
use crate::path_bar;
use crate::quantity::{Unit, count};
use crate::stage_table;
use crate::text::Text;

/// Of the draws, those that must agree on the first stage.
const SURE: f64 = 0.95;
/// Stretches of time that say enough of their own spread.
const MANY_STRETCHES: f64 = 30.0;
/// Stages in the bar and in the sentence, at most.
const MOST_NAMED: usize = 3;

/// A run's slow traces, in the unit and the words of its table.
pub struct SlowTraces<'a> {
    tail: &'a Tail,
    rows: &'a [StageRow],
    unit: Unit,
}

impl<'a> SlowTraces<'a> {
    /// Of what was computed together.
    pub fn of(analysis: &'a Analysis, tail: &'a Tail) -> Self {
        Self { tail, rows: &analysis.rows, unit: Unit(stage_table::fitting_unit(analysis)) }
    }

    /// As text for a terminal: the sentence, the table, what they rest on.
    pub fn text(&self) -> String {
        let mut blocks = vec![Block::Paragraph(self.sentence())];
        if !self.tail.stages.is_empty() {
            blocks.extend([Block::paragraph(""), self.table(), Block::paragraph(self.rests_on())]);
        }
        document::text(&blocks)
    }

    /// On a page: the sentence and the bar; the table behind a line.
    pub(crate) fn blocks(&self) -> Vec<Block> {
        let mut blocks = vec![Block::heading("What makes the slow ones slow"), Block::Paragraph(self.sentence())];
        if self.tail.stages.is_empty() {
            return blocks;
        }
        blocks.extend(self.bar().map(Block::Figure));
        let more = vec![self.table(), Block::note(self.rests_on())];
        blocks.push(Block::Folded("The slow traces in numbers".into(), more));
        blocks
    }

    /// Which stage makes the slow ones slow, and how sure that is.
    pub(crate) fn sentence(&self) -> Words {
        let Tail { traces, slow, excess_ticks, bound_ticks, unresolved, stages, .. } = self.tail;
        let open = |why: String| Words::from("What makes the slow ones slow is ").stress("not resolved").say(why);
        match unresolved {
            Some(Unresolved::NoTrace) => open(": no trace has every stage of the path and the whole.".into()),
            Some(Unresolved::FewSlow) => open(format!(
                ": {} of {} traces are slow, too few for an answer, which takes {FEWEST_SLOW}. Measure longer, or ask \
                 for more of them: tickscope tail --slowest 5.",
                count(*slow),
                count(*traces)
            )),
            Some(Unresolved::Clocks) => open(format!(
                ": {} take {} longer than the stages' medians together, and the clocks leave {} open. Narrower clock \
                 maps would resolve it.",
                self.slowest(),
                self.near(*excess_ticks),
                self.unit.reach(Some(*bound_ticks), "all")
            )),
            Some(Unresolved::OutOfRange) => {
                open(": some durations are beyond 2^60 ticks, which none can be. tickscope show says where.".into())
            }
            Some(Unresolved::Chance) => open(format!(
                ": {} come from so few stretches of time that another run might have none. Measure longer.",
                self.slowest()
            )),
            None if self.tail.sure >= SURE => {
                let first = Words::default().stress(self.name(&stages[0])).say(" makes the slow ones slow: ");
                first.stress(told(stages[0].share)).say(format!(
                    " of the {} that {} take longer than the stages' medians.",
                    self.near(*excess_ticks),
                    self.slowest()
                ))
            }
            None => {
                let named = stages.iter().take(MOST_NAMED);
                let named: Vec<String> =
                    named.map(|stage| format!("{} ({})", self.name(stage), told(stage.share))).collect();
                open(format!(
                    ": of the {} that {} take longer than the stages' medians, {} have the largest shares, and their \
                     order is open.",
                    self.near(*excess_ticks),
                    self.slowest(),
                    named.join(", ")
                ))
            }
        }
    }

    /// `the slowest 1 % of 60 000 traces`.
    fn slowest(&self) -> String {
        let percent = f64::from(1_000_000 - self.tail.quantile_ppm) / 10_000.0;
        format!("the slowest {percent}\u{a0}% of {} traces", count(self.tail.traces))
    }

    fn near(&self, ticks: f64) -> String {
        format!("{}\u{a0}{}", self.unit.near(ticks.round() as i64), self.unit.name())
    }

    fn name(&self, stage: &StageTail) -> String {
        self.row(stage).map_or_else(|| stage.name.clone(), |(_, row)| arrow(row))
    }

    fn row(&self, stage: &StageTail) -> Option<(usize, &StageRow)> {
        self.rows.iter().enumerate().find(|(_, row)| row.name == stage.name)
    }

    fn table(&self) -> Block {
        let (unit, name) = (self.unit, self.unit.name());
        let quantile = format!("{}", f64::from(self.tail.quantile_ppm) / 10_000.0);
        let columns = [
            "stage".to_string(),
            "share".into(),
            "95 %".into(),
            format!("median, {name}"),
            format!("slow mean, {name}"),
            format!("open, {name}"),
            format!("p{quantile} would fall by, {name}"),
            "causes".into(),
            "covariance".into(),
        ];
        let ends = |[lo, hi]: [f64; 2]| format!("[{}, {}]", down(lo), up(hi));
        let rows = self.tail.stages.iter().map(|stage| {
            let of_share = |of: &dyn Fn(TailShare) -> String| stage.share.map_or_else(|| "–".into(), of);
            let what_if = stage.what_if;
            [
                self.name(stage),
                of_share(&|share| format!("{} %", percent(share.estimate))),
                of_share(&|share| ends(share.interval)),
                unit.near(stage.median_ticks),
                unit.near(stage.mean_ticks.round() as i64),
                format!("±{}", unit.up(stage.bound_ticks)),
                format!(
                    "{} ±{}",
                    unit.near(i128::from(what_if.from_ticks) - i128::from(what_if.to_ticks)),
                    unit.up(what_if.bound_ticks)
                ),
                count(stage.among_causes),
                stage.covariance_share.map_or_else(|| "–".into(), |share| format!("{} %", percent(share))),
            ]
            .into_iter()
            .map(Words::from)
            .collect::<Vec<Words>>()
        });
        let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
        Block::table("The stages of slow traces", &columns, rows)
    }

    /// How to read the table.
    fn rests_on(&self) -> String {
        let Tail { threshold_ticks, slow, left_out, blocks, block_traces, stretches, .. } = self.tail;
        let few = if *stretches < MANY_STRETCHES { " (so few that it may hold 80 of 100 times, not 95)" } else { "" };
        let threshold = threshold_ticks.map_or_else(|| "–".into(), |ticks| self.near(ticks as f64));
        format!(
            "Slow: from end to end at least {threshold}, {} traces; {} more lack a stage and are in no figure. Share: \
             of how much longer their means are than the medians of all. 95 %: of 100 draws of {} blocks of {} \
             traces, 95 lie there, with the clocks at their worst, and wider for the {stretches:.0} stretches of time \
             that the slow traces come from{few}; which traces are slow is taken as estimated. Open: \
             how far the clocks may have moved the difference. Would fall by: were the stage never longer than its \
             median. Causes: slow traces of whose excess it is among the fewest stages that make up four fifths. \
             Covariance: its share of the variance of the fastest 95 % of traces.",
            count(*slow),
            count(*left_out),
            count(*blocks),
            count(*block_traces),
        )
    }

    /// Shares as lengths, each with what is left open; `None`: none is told.
    fn bar(&self) -> Option<String> {
        let shares: Vec<(&StageTail, TailShare)> =
            self.tail.stages.iter().filter_map(|stage| Some((stage, stage.share?))).collect();
        let drawn = || shares.iter().filter(|(_, share)| share.estimate > 0.0);
        let whole = drawn().map(|(_, share)| share.estimate).sum::<f64>();
        if whole <= 0.0 {
            return None;
        }
        let numbers = path_bar::numbers(self.rows);
        let (mut segments, mut whiskers, mut from) = (String::new(), String::new(), 0.0);
        let reach = drawn().scan(0.0, |from, (_, share)| {
            let end = *from + share.interval[1];
            *from += share.estimate;
            Some(end)
        });
        let reach = reach.fold(whole, f64::max);
        let place = |share: f64| 100.0 * share / reach;
        for (at, (stage, share)) in drawn().enumerate() {
            let kind = match (at, self.tail.sure >= SURE) {
                (0, true) => " slowest",
                (0, false) => " perhaps",
                _ => "",
            };
            let number = self.row(stage).and_then(|(row, _)| numbers.get(&row)).copied().unwrap_or_default();
            let label = format!("{}: {} of the excess", self.name(stage), told(Some(*share)));
            // Writing to a String cannot fail.
            let _ = write!(
                segments,
                "<span class=\"segment{kind}\" tabindex=\"0\" role=\"img\" aria-label=\"{label}\" \
                 style=\"width:{width:.3}%\"><span class=\"inside\"><b class=\"number\">{number}</b> <span \
                 class=\"name\">{name}</span> <span class=\"figures\"><b>{estimate}\u{a0}%</b></span></span><span \
                 class=\"told\" aria-hidden=\"true\">{label}</span></span>",
                label = Text(&label),
                width = place(share.estimate),
                name = Text(self.name(stage)),
                estimate = percent(share.estimate),
            );
            let [lo, hi] = share.interval;
            let (left, top) = (place((from + lo).max(0.0)), 3 + 7 * (at % 4));
            let width = place(from + hi) - left;
            let _ = write!(whiskers, "<i style=\"left:{left:.3}%;width:{width:.3}%;top:{top}px\"></i>");
            from += share.estimate;
        }
        let height = 7 * drawn().count().min(4) + 3;
        Some(format!(
            "<figure class=\"path\" aria-label=\"What makes the slow ones slow\">\n<div \
             class=\"segments\">{segments}</div>\n<div class=\"whiskers\" aria-hidden=\"true\" \
             style=\"height:{height}px\">{whiskers}</div>\n<figcaption class=\"hint\">A stage is as wide as its share \
             of what the slow traces take longer. Whiskers: where its end may truly lie, for clocks and chance. \
             Numbers are those of the table of stages.</figcaption>\n</figure>\n"
        ))
    }
}

/// `78 % [71, 84]`.
fn told(share: Option<TailShare>) -> String {
    share.map_or_else(
        || "–".into(),
        |TailShare { estimate, interval: [lo, hi], .. }| {
            format!("{}\u{a0}% [{}, {}]", percent(estimate), down(lo), up(hi))
        },
    )
}

fn percent(share: f64) -> String {
    typeset((100.0 * share).round())
}

/// Outward, as all bounds.
fn down(share: f64) -> String {
    typeset((100.0 * share).floor())
}

fn up(share: f64) -> String {
    typeset((100.0 * share).ceil())
}

fn typeset(percent: f64) -> String {
    // Nothing is less than 0 by less than it is shown.
    format!("{:.0}", percent + 0.0).replace('-', "\u{2212}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use tickscope_analysis::WhatIf;
    use tickscope_tick::Unit as Scale;

    fn stage(name: &str, share: Option<TailShare>) -> StageTail {
        StageTail {
            name: name.into(),
            median_ticks: 1_000,
            mean_ticks: 8_000.4,
            excess_ticks: 7_000.4,
            bound_ticks: 20,
            share,
            covariance_share: None,
            what_if: WhatIf { from_ticks: 9_000, to_ticks: 2_000, bound_ticks: 30 },
            among_causes: 40,
            leads: 38,
        }
    }

    fn tail(sure: f64, unresolved: Option<Unresolved>) -> Tail {
        let share = |estimate: f64| TailShare {
            estimate,
            clocks: [estimate - 0.01, estimate + 0.01],
            interval: [estimate - 0.1, estimate + 0.1],
        };
        let of = |estimate| unresolved.is_none().then(|| share(estimate));
        Tail {
            traces: 6_000,
            left_out: 3,
            quantile_ppm: 990_000,
            threshold_ticks: Some(9_000),
            slow: 61,
            excess_ticks: 7_000.4,
            bound_ticks: 40,
            blocks: 77,
            block_traces: 78,
            stretches: 40.0,
            unresolved,
            sure,
            stages: vec![stage("a<b", of(0.72)), stage("b>c", of(0.284)), stage("c>d", of(-0.004))],
        }
    }

    fn drawn(tail: &Tail) -> (String, Vec<Block>) {
        let unit = Unit(Scale::for_durations_up_to(1_000_000_000, 9_000));
        let slow = SlowTraces { tail, rows: &[], unit };
        (slow.sentence().plain(), slow.blocks())
    }

    #[test]
    fn a_stage_is_named_where_it_is_sure_and_all_that_may_be_where_not() {
        let (sentence, blocks) = drawn(&tail(0.97, None));
        assert!(
            sentence.starts_with("a<b makes the slow ones slow: 72\u{a0}% [62, 82] of the 7.00\u{a0}µs"),
            "{sentence}"
        );
        assert!(sentence.contains("the slowest 1\u{a0}% of 6\u{202f}000 traces"), "{sentence}");
        let page = document::html(&blocks);
        assert!(page.contains("a&lt;b: 72") && page.contains("segment slowest") && !page.contains("a<b"), "{page}");
        let (sentence, blocks) = drawn(&tail(0.94, None));
        assert!(sentence.contains("not resolved") && sentence.contains("b>c (28\u{a0}% [18, 39])"), "{sentence}");
        assert!(document::html(&blocks).contains("segment perhaps"));
    }

    #[test]
    fn what_is_not_resolved_says_why_and_draws_no_bar() {
        for (why, words) in [
            (Unresolved::NoTrace, "no trace has every stage"),
            (Unresolved::FewSlow, "61 of 6\u{202f}000 traces are slow, too few for an answer, which takes 10"),
            (Unresolved::Clocks, "the clocks leave ±0.04 µs open"),
            (Unresolved::OutOfRange, "beyond 2^60 ticks"),
            (Unresolved::Chance, "another run might have none"),
        ] {
            let (sentence, blocks) = drawn(&tail(0.0, Some(why)));
            assert!(sentence.contains("not resolved") && sentence.contains(words), "{sentence}");
            assert!(!blocks.iter().any(|block| matches!(block, Block::Figure(_))));
        }
    }

    #[test]
    fn ends_are_rounded_outward_and_nothing_is_less_than_0_by_less_than_half_a_percent() {
        assert_eq!([0.9084, -0.0001, 0.0].map(down), ["90", "\u{2212}1", "0"]);
        assert_eq!([0.9084, -0.0001, 0.0].map(up), ["91", "0", "0"]);
        assert_eq!([-0.004, 0.004, -0.006, 1.0].map(percent), ["0", "0", "\u{2212}1", "100"]);
    }
}
