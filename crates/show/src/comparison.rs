//! Runs compared, as text: one sentence, a table a quantile, and what would resolve the rest.
//!
//! Guarantees: what is shown of an interval is rounded outward; a table that the terminal has no room for loses whole
//! columns, which are named, or stands as lines. Deliberately absent: figures that `--json` has not.

use tickscope_analysis::{ChangeVerdict, Level, LimitedBy, QuantileChange, RunComparison, Shift, StageChange};
use tickscope_tick::{Unit, printable};

use crate::stage_table::{View, within};
use crate::terminal::{Ink, Terminal};
use crate::typesetting::{Side, columns, fold, paragraph};

/// The sentence, the tables, and what is to be known about them.
pub fn comparison_text(compared: &RunComparison, view: &View) -> String {
    let (shown, terminal) = (Shown { compared, unit: unit(compared, view) }, view.terminal);
    let mut lines = vec![terminal.inked(Ink::Bold, &paragraph(&printable(&shown.first_sentence()), terminal.width()))];
    let (tables, is_whole) = shown.tables(terminal);
    lines.extend(tables);
    lines.push(String::new());
    if !is_whole {
        let words =
            "left out here, in a wider terminal and in --json: how much of an interval is statistics, and clocks";
        lines.push(terminal.inked(Ink::Faint, &paragraph(words, terminal.width())));
    }
    let below = shown.known().into_iter().chain(shown.unresolved()).chain(compared.notes.iter().cloned());
    lines.extend(below.map(|line| paragraph(&printable(&line), terminal.width())));
    lines.join("\n") + "\n"
}

/// One that fits the medians, with a digit more where they are below a microsecond: changes are small parts of them.
fn unit(compared: &RunComparison, view: &View) -> Unit {
    let levels = || compared.changes().flat_map(|(_, change)| [change.before, change.after]).flatten();
    let longest = levels().map(|level| level.ticks).max().unwrap_or(0);
    let shortest = levels().map(|level| level.ticks).filter(|&ticks| ticks > 0).min().unwrap_or(i64::MAX);
    let unit = view.scaled(compared.hertz, longest.min(shortest.saturating_mul(10_000)));
    let is_small = unit.near(shortest).digits() < 100;
    if view.scale.is_none() && is_small { unit.with_decimals(unit.decimals() + 1) } else { unit }
}

struct Shown<'a> {
    compared: &'a RunComparison,
    unit: Unit,
}

impl Shown<'_> {
    fn name(&self, stage: usize) -> &str {
        &self.compared.stages[stage].stage
    }

    /// `+1.20 µs [1.10, 1.30]`.
    fn amount(&self, shift: &Shift) -> String {
        format!("{} {} {}", self.change(shift), self.unit.name(), self.interval(shift))
    }

    fn change(&self, shift: &Shift) -> String {
        let sign = if shift.ticks > 0 { "+" } else { "" };
        format!("{sign}{}", self.unit.near(shift.ticks))
    }

    fn interval(&self, shift: &Shift) -> String {
        let lo = shift.lo_ticks.map_or("?".into(), |lo| self.unit.down(lo).to_string());
        let hi = shift.hi_ticks.map_or("?".into(), |hi| self.unit.up(hi).to_string());
        if shift.lo_ticks.or(shift.hi_ticks).is_none() { "?".into() } else { format!("[{lo}, {hi}]") }
    }

    /// Two runs differ without any change, too.
    fn first_sentence(&self) -> String {
        match self.compared.runs {
            [1, 1] => format!("between these two runs: {}", self.headline()),
            _ => self.headline(),
        }
    }

    fn headline(&self) -> String {
        let Some(most) = self.compared.most_changed() else { return self.nothing_found() };
        let change = &self.compared.stages[most.stage].changes[most.quantile];
        let (Some(shift), Some(before), Some(after)) = (change.shift, change.before, change.after) else {
            return self.nothing_found();
        };
        let [from, to] = [before, after].map(|level| self.unit.near(level.ticks));
        let perhaps: Vec<&str> = most.perhaps.iter().map(|&stage| self.name(stage)).collect();
        let most_of_all = if perhaps.is_empty() { " most" } else { "" };
        let mut words = format!(
            "{} changed{most_of_all}: its {} went from {from} to {to} {}, {}{}",
            self.name(most.stage),
            change.quantile,
            self.unit.name(),
            self.amount(&shift),
            percent(&shift, before.ticks).map_or(String::new(), |percent| format!(", {percent}")),
        );
        if !perhaps.is_empty() {
            words += &format!("; that another changed as much is not excluded: {}", perhaps.join(", "));
        }
        let whole = self.compared.stages.iter().find(|stage| stage.role == "end-to-end");
        let whole = whole.and_then(|stage| Some((stage.changes[most.quantile].shift?, &stage.changes[most.quantile])));
        words += &match whole {
            Some((shift, change)) if change.verdict == ChangeVerdict::Changed => {
                format!(". End to end: {}", self.amount(&shift))
            }
            Some((_, change)) => format!(". End to end: {}", self.verdict(change)),
            None => String::new(),
        };
        words
    }

    fn nothing_found(&self) -> String {
        let changed: Vec<String> = self
            .compared
            .changes()
            .filter(|(_, change)| change.verdict == ChangeVerdict::Changed)
            .filter_map(|(stage, change)| {
                Some(format!("{} {} by {}", stage.stage, change.quantile, self.amount(&change.shift?)))
            })
            .collect();
        let unresolved = self.count(|verdict| matches!(verdict, ChangeVerdict::NotResolved { .. }));
        let all = self.compared.changes().count();
        let mut words = match (changed.is_empty(), unresolved) {
            (false, _) => format!("no stage of the path changed for sure, but {}", changed.join(", ")),
            (true, 0) => {
                let by_more_than = |verdict| match verdict {
                    ChangeVerdict::NotChanged { by_more_than_ticks } => Some(by_more_than_ticks),
                    _ => None,
                };
                let most = self.compared.changes().filter_map(|(_, change)| by_more_than(change.verdict)).max();
                format!("nothing changed by more than {} {}", self.unit.up(most.unwrap_or(0)), self.unit.name())
            }
            (true, _) => "no change was found".into(),
        };
        if unresolved > 0 {
            words += &format!("; {unresolved} of {all} figures are not resolved");
        }
        words
    }

    fn count(&self, is: impl Fn(&ChangeVerdict) -> bool) -> usize {
        self.compared.changes().filter(|(_, change)| is(&change.verdict)).count()
    }

    /// Lines of all tables, with the same columns, and whether they have every one.
    fn tables(&self, terminal: Terminal) -> (Vec<String>, bool) {
        for parts in [true, false] {
            let mut lines = self.set(parts);
            if lines.iter().all(|line| line.chars().count() <= terminal.width()) {
                let heads = lines.iter_mut().filter(|line| line.ends_with("between") || line.ends_with("clocks"));
                heads.for_each(|head| *head = terminal.inked(Ink::Bold, head));
                return (lines, parts);
            }
        }
        (self.stacked(terminal), false)
    }

    fn quantiles(&self) -> usize {
        self.compared.stages.first().map_or(0, |stage| stage.changes.len())
    }

    fn set(&self, parts: bool) -> Vec<String> {
        use Side::{Left, Right};
        let mut sides = vec![Left, Right, Right, Right, Left, Left, Left, Left];
        let mut rows: Vec<Vec<String>> = Vec::new();
        for quantile in 0..self.quantiles() {
            let heads = ["", "before", "after", "change", "between", "statistics", "clocks", ""];
            rows.extend([vec![], heads.map(Into::into).into()]);
            rows.last_mut().into_iter().for_each(|heads| heads[0] = self.head(quantile));
            let mut role = "path";
            for stage in &self.compared.stages {
                if stage.role != role && !matches!(stage.role, "path" | "end-to-end") {
                    rows.extend([vec![], vec![if stage.role == "branch" { "branches" } else { "extra" }.into()]]);
                }
                role = stage.role;
                let mut cells = vec![stage.stage.clone()];
                cells.extend(self.cells(&stage.changes[quantile]));
                rows.push(cells);
            }
        }
        if !parts {
            sides.drain(5..7);
            rows.iter_mut().filter(|row| row.len() == 8).for_each(|row| drop(row.drain(5..7)));
        }
        columns(&sides, &rows)
    }

    /// `p50 µs`.
    fn head(&self, quantile: usize) -> String {
        let name = self.compared.stages.first().map_or("", |stage| &stage.changes[quantile].quantile);
        format!("{name} {}", self.unit.name())
    }

    fn cells(&self, change: &QuantileChange) -> [String; 7] {
        let none = || "-".to_string();
        let level = |level: Option<Level>| level.map_or_else(none, |level| self.unit.near(level.ticks).to_string());
        let parts = change.shift.map_or_else(
            || [none(), none(), none(), none()],
            |shift| {
                let clocks = [self.unit.up(shift.clocks_below_ticks), self.unit.up(shift.clocks_above_ticks)];
                [self.change(&shift), self.interval(&shift), self.statistics(&shift), within(clocks)]
            },
        );
        let [shift, interval, statistics, clocks] = parts;
        [level(change.before), level(change.after), shift, interval, statistics, clocks, self.verdict(change)]
    }

    /// `±0.12`.
    fn statistics(&self, shift: &Shift) -> String {
        let Some((lo, hi)) = shift.statistics_lo_ticks.zip(shift.statistics_hi_ticks) else { return "?".into() };
        within([self.unit.up(lo.abs_diff(shift.ticks)), self.unit.up(hi.abs_diff(shift.ticks))])
    }

    fn verdict(&self, change: &QuantileChange) -> String {
        match (change.verdict, change.shift, change.before) {
            (ChangeVerdict::Changed, Some(shift), Some(before)) => {
                percent(&shift, before.ticks).map_or("changed".into(), |percent| format!("changed {percent}"))
            }
            (ChangeVerdict::Changed, ..) => "changed".into(),
            (ChangeVerdict::NotChanged { by_more_than_ticks }, ..) => {
                format!("not changed by more than {}", self.unit.up(by_more_than_ticks))
            }
            (ChangeVerdict::NotResolved { limited_by, .. }, ..) => format!("not resolved ({})", word(limited_by)),
        }
    }

    /// Where no table fits: each stage's name, and below it its figures.
    fn stacked(&self, terminal: Terminal) -> Vec<String> {
        let mut lines = Vec::new();
        let room = terminal.width().saturating_sub(2);
        for quantile in 0..self.quantiles() {
            lines.extend([String::new(), terminal.inked(Ink::Bold, &self.head(quantile))]);
            for stage in &self.compared.stages {
                match stage.stage.chars().count() > terminal.width() {
                    true => lines.extend(fold(stage.stage.split_inclusive('>'), [terminal.width(); 2])),
                    false => lines.push(stage.stage.clone()),
                }
                let [before, after, shift, interval, _, _, verdict] = self.cells(&stage.changes[quantile]);
                let words = format!("{before} to {after}: {shift} {interval}; {verdict}");
                lines.extend(fold(words.split(' '), [room; 2]).into_iter().map(|line| format!("  {line}")));
            }
        }
        lines
    }

    fn known(&self) -> Vec<String> {
        let RunComparison { runs: [before, after], confidence_per_million, .. } = self.compared;
        let of = match [before, after] {
            [1, 1] => "by the spread of blocks of each run".to_string(),
            _ => format!("by {before} runs before and {after} after, a quantile each"),
        };
        vec![format!(
            "between: every interval of these tables holds with {} % confidence {of} (statistics), and by whatever the \
             clocks of both sides leave open, added to either end (clocks)",
            confidence_per_million / 10_000
        )]
    }

    /// What is in the way of verdicts, and what would help, a line each.
    fn unresolved(&self) -> Vec<String> {
        use LimitedBy::{Both, Clocks, Missing, Runs, Statistics, Traces};
        let line = |limit: LimitedBy| {
            let of = |(stage, change): (&StageChange, &QuantileChange)| match change.verdict {
                ChangeVerdict::NotResolved { limited_by, needs } if limited_by == limit => {
                    Some((format!("{} {}", stage.stage, change.quantile), needs))
                }
                _ => None,
            };
            let (names, needs): (Vec<String>, Vec<Option<u64>>) = self.compared.changes().filter_map(of).unzip();
            let names = (!names.is_empty()).then(|| names.join(", "))?;
            let remedy = self.remedy(limit, &needs) + &self.by_runs(limit);
            Some(format!("not resolved ({}): {names}. {remedy}", word(limit)))
        };
        [Clocks, Statistics, Both, Traces, Runs, Missing].into_iter().filter_map(line).collect()
    }

    /// Where blocks of one run differ by more than chance, no number of traces helps, but runs may.
    fn by_runs(&self, limit: LimitedBy) -> String {
        let is_spread = limit == LimitedBy::Statistics && self.compared.runs == [1, 1];
        let runs = is_spread.then(|| self.compared.enough_runs()).flatten();
        runs.map_or_else(String::new, |runs| {
            format!(". Where durations drift within a run, as while a JVM compiles, give {runs} runs a side or more")
        })
    }

    fn remedy(&self, limit: LimitedBy, needs: &[Option<u64>]) -> String {
        let known = || needs.iter().copied().flatten();
        let more = if self.compared.runs == [1, 1] { "the traces" } else { "the runs" };
        match limit {
            LimitedBy::Clocks => format!(
                "Their part has to be below {} {}: declare a smaller rho if it is so, or probe more",
                self.unit.down(i128::from(known().min().unwrap_or(0))),
                self.unit.name()
            ),
            LimitedBy::Statistics => match (known().min(), known().max()) {
                (Some(least), Some(most)) if known().count() == needs.len() && most <= MOST_TIMES => {
                    let times = if least == most { most.to_string() } else { format!("{least} to {most}") };
                    format!("About {times} times {more} would do")
                }
                _ => format!("It takes many times {more}"),
            },
            LimitedBy::Both => format!("It takes narrower clocks and more of {more}"),
            LimitedBy::Traces => format!("{} traces or more have an interval", known().max().unwrap_or(0)),
            LimitedBy::Windows => format!("{} windows or more have an interval", known().max().unwrap_or(0)),
            LimitedBy::Runs => {
                format!("{} runs of each would do for all these figures together", known().max().unwrap_or(0))
            }
            LimitedBy::Missing => "A run has no trace with both stamps: tickscope show says what is missing".into(),
        }
    }
}

/// Beyond it nobody measures so much longer.
const MOST_TIMES: u64 = 1_000;

fn word(limit: LimitedBy) -> &'static str {
    match limit {
        LimitedBy::Clocks => "clocks",
        LimitedBy::Statistics => "statistics",
        LimitedBy::Both => "clocks and statistics",
        LimitedBy::Traces => "too few traces",
        LimitedBy::Windows => "too few windows",
        LimitedBy::Runs => "too few runs",
        LimitedBy::Missing => "no traces",
    }
}

/// `+5.2 %`.
fn percent(shift: &Shift, before: i64) -> Option<String> {
    (before > 0).then(|| format!("{:+.1} %", 100.0 * shift.ticks as f64 / before as f64))
}

#[cfg(test)]
mod tests {
    use num_rational::BigRational;
    use proptest::prelude::*;

    use super::*;
    use crate::any_analysis::{HERTZ, exact, read};

    const NAMES: [&str; 3] = ["client.send>server.received", "server.received>client.response", "end-to-end"];

    fn shift(ticks: i64, [statistics, clocks]: [u64; 2]) -> Shift {
        let statistics_ends = [ticks - statistics as i64, ticks + statistics as i64];
        Shift {
            ticks,
            lo_ticks: Some(statistics_ends[0] - clocks as i64),
            hi_ticks: Some(statistics_ends[1] + clocks as i64),
            statistics_lo_ticks: Some(statistics_ends[0]),
            statistics_hi_ticks: Some(statistics_ends[1]),
            clocks_below_ticks: clocks,
            clocks_above_ticks: clocks,
        }
    }

    fn table(of: &[(Shift, ChangeVerdict)]) -> RunComparison {
        let stage = |(name, &(shift, verdict)): (&str, &(Shift, ChangeVerdict))| {
            let level = |ticks| Some(Level { ticks, lo_ticks: ticks, hi_ticks: ticks, count: 5000 });
            let change = |quantile: &str| QuantileChange {
                quantile: quantile.into(),
                before: level(50_000),
                after: level(50_000 + shift.ticks),
                shift: Some(shift),
                verdict,
            };
            let role = if name == NAMES[2] { "end-to-end" } else { "path" };
            let (stage, from, to) = (name.to_string(), String::new(), String::new());
            StageChange { stage, from, to, role, changes: vec![change("p50"), change("p99")] }
        };
        RunComparison {
            runs: [1, 1],
            hertz: HERTZ,
            confidence_per_million: 950_000,
            stages: NAMES.into_iter().zip(of).map(stage).collect(),
            not_compared: Default::default(),
            notes: vec!["a note \u{1b}[2J".into()],
        }
    }

    const UNCHANGED: ChangeVerdict = ChangeVerdict::NotChanged { by_more_than_ticks: 400 };

    fn headline(of: &[(Shift, ChangeVerdict)]) -> String {
        comparison_text(&table(of), &View::default()).lines().next().unwrap().into()
    }

    #[test]
    fn the_first_sentence_names_the_stage_and_leaves_no_doubt_out() {
        let slower = (shift(5_000, [300, 100]), ChangeVerdict::Changed);
        let same = (shift(0, [300, 100]), UNCHANGED);
        let wide =
            (shift(0, [300, 9_000]), ChangeVerdict::NotResolved { limited_by: LimitedBy::Clocks, needs: Some(9) });
        let said = headline(&[same, slower, slower]);
        assert!(said.contains("two runs: server.received>client.response changed most: its p50 went from"), "{said}");
        let said = headline(&[wide, slower, slower]);
        assert!(said.contains("two runs: server.received>client.response changed: its p50"), "{said}");
        let said = headline(&[same, same, same]);
        assert!(said.contains(": nothing changed by more than 0.1"), "{said}");
        let mut of_runs = table(&[same, wide, wide]);
        of_runs.runs = [6, 6];
        let said = comparison_text(&of_runs, &View::default());
        assert!(said.starts_with("no change was found; 4 of 6 figures are not resolved\n"), "{said}");
        let said = headline(&[same, same, slower]);
        assert!(said.contains(": no stage of the path changed for sure, but end-to-end p50 by +2."), "{said}");
    }

    #[test]
    fn a_comparison_fits_the_terminal_and_says_what_would_resolve_the_rest() {
        let needs = |limited_by, needs| ChangeVerdict::NotResolved { limited_by, needs };
        let of = [
            (shift(0, [300, 9_000]), needs(LimitedBy::Clocks, Some(2_200))),
            (shift(9, [4_000, 1]), needs(LimitedBy::Statistics, Some(12))),
            (shift(0, [300, 100]), UNCHANGED),
        ];
        for columns in [40, 60, 80, 100, 120, 200] {
            let view = View { terminal: Terminal::of_width(columns), ..View::default() };
            let text = comparison_text(&table(&of), &view);
            assert!(text.lines().all(|line| line.chars().count() <= columns), "{columns}:\n{text}");
            assert!(!text.chars().any(|letter| letter != '\n' && tickscope_tick::acts(letter)), "{text:?}");
            let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
            for said in [
                "not resolved (clocks)",
                "not changed by more than",
                "About 12 times the traces would do. Where durations drift",
                "give 5 runs a side",
                "a note",
            ] {
                assert!(words.contains(said), "{columns}, {said}:\n{text}");
            }
            assert_eq!(words.contains("left out here"), !words.contains("statistics clocks"), "{columns}:\n{text}");
        }
    }

    proptest! {
        #[test]
        fn property_no_interval_that_is_shown_lies_inside_the_exact_one(
            ticks in -100_000..100_000_i64, parts in prop::array::uniform2(0..50_000_u64),
        ) {
            let shift = shift(ticks, parts);
            let text = comparison_text(&table(&[(shift, ChangeVerdict::Changed)]), &View::default());
            let is_row = |line: &&str| line.starts_with(&format!("{} ", NAMES[0])) && line.contains("±");
            let line = text.lines().find(is_row).unwrap();
            let (lo, hi) = line[line.find('[').unwrap() + 1..line.find(']').unwrap()].split_once(", ").unwrap();
            let us = |ticks: i64| exact(ticks, HERTZ, 1_000_000);
            prop_assert!(read(lo) <= us(shift.lo_ticks.unwrap()) && read(hi) >= us(shift.hi_ticks.unwrap()), "{line}");
            let sides: Vec<BigRational> =
                line.split_whitespace().filter_map(|word| word.strip_prefix('±')).map(read).collect();
            prop_assert!(sides[0] >= us(parts[0] as i64) && sides.last().unwrap() >= &us(parts[1] as i64), "{line}");
        }
    }
}
