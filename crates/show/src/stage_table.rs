//! The table of stages as text for people; the figures are those of the public JSON.
//!
//! Idea: what a stranger needs fits on one screen, everything else is asked for ([`View`]). Guarantees: a figure is
//! rounded away from what it bounds; a column that does not fit is left out whole, in a fixed order, and is named; text
//! of the run moves no cursor. Deliberately absent: figures that `--json` has not.

use tickscope_analysis::{Analysis, LimitVerdict, assumptions, cost};
use tickscope_rivals::NodeRivals;
use tickscope_store::{Channel, Event, Run};
use tickscope_tick::{Decimal, Unit, printable};
use tickscope_trace::{Common, Quantile, QuantileBounds, StageRole, StageRow};

use crate::few_traces;
use crate::limits::{self, LimitLine};
use crate::noise;
use crate::preparation;
use crate::remarks::remarks;
use crate::summary;
use crate::terminal::{Ink, Terminal};
use crate::typesetting::{Side, columns, fold, paragraph};

/// What is shown.
#[derive(Clone, Copy, Debug)]
pub struct Shown<'a> {
    /// The run.
    pub run: &'a Run,
    /// What its files say.
    pub analysis: &'a Analysis,
    /// What other methods say of the same clocks; the table has a line of return trips among them.
    pub rivals: &'a [NodeRivals],
    /// What happened to the measuring.
    pub events: &'a [Event],
    /// All channels, with how many stamps each stored, dropped and refused.
    pub channels: &'a [Channel],
}

/// How much of it.
#[derive(Clone, Debug, Default)]
pub struct View {
    /// Where it is shown.
    pub terminal: Terminal,
    /// The unit of durations; `None`: one that fits them.
    pub scale: Option<Scale>,
    /// Every column, and everything that is known of the clocks.
    pub wide: bool,
    /// All assumptions.
    pub assumptions: bool,
    /// All events.
    pub events: bool,
    /// What other methods say of the same clocks.
    pub rivals: bool,
    /// The quantiles that were asked for, by name; they take the place of the usual ones.
    pub quantiles: Vec<(String, Quantile)>,
}

/// A unit of time to show durations in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scale {
    /// Nanoseconds, to a tenth.
    Nanoseconds,
    /// Microseconds, to a hundredth.
    Microseconds,
    /// Milliseconds, to a thousandth.
    Milliseconds,
}

impl Scale {
    pub(crate) fn unit(self, hertz: u64) -> Unit {
        match self {
            Self::Nanoseconds => Unit::nanoseconds(hertz, 1),
            Self::Microseconds => Unit::microseconds(hertz, 2),
            Self::Milliseconds => Unit::milliseconds(hertz, 3),
        }
    }
}

/// The unit that an analysis is shown in, in the terminal and on the page alike: the one that fits its durations.
pub fn fitting_unit(analysis: &Analysis) -> Unit {
    fitting(&analysis.rows, analysis.frequency.hertz)
}

/// Digits enough for the shortest stage come before few digits of the longest: one outage in a run of microseconds
/// makes no stage `0.000 ms`.
fn fitting(rows: &[StageRow], hertz: u64) -> Unit {
    let longest = rows.iter().filter_map(|row| row.p99).map(|p99| p99.estimate).max();
    let medians = rows.iter().filter(|row| row.role == StageRole::Path).filter_map(|row| row.p50);
    let shortest = medians.map(|p50| p50.estimate).filter(|&median| median > 0).min();
    let most = shortest.map_or(i64::MAX, |median| median.saturating_mul(1000));
    Unit::for_durations_up_to(hertz, longest.unwrap_or(0).min(most))
}

impl View {
    pub(crate) fn unit(&self, analysis: &Analysis) -> Unit {
        match self.scale {
            None => fitting_unit(analysis),
            Some(_) => self.scaled(analysis.frequency.hertz, 0),
        }
    }

    pub(crate) fn scaled(&self, hertz: u64, longest: i64) -> Unit {
        self.scale.map_or_else(|| Unit::for_durations_up_to(hertz, longest), |scale| scale.unit(hertz))
    }
}

/// The findings, the table, and below it what was asked for: by default what the figures cannot do without.
pub fn text(shown: &Shown<'_>, view: &View) -> String {
    let Shown { run, analysis, .. } = *shown;
    let (unit, terminal) = (view.unit(analysis), view.terminal);
    let mut lines = summary::findings(shown, terminal);
    lines.extend(table(&analysis.rows, &analysis.relative_1ms_ticks, unit, view));
    lines.push(String::new());
    lines.extend(limits(shown, unit, terminal));
    lines.extend(noise::lines(analysis, unit, terminal));
    let below = if view.wide {
        let cost = run.manifest().cost.iter().flat_map(cost::lines);
        remarks(analysis, unit).into_iter().chain(summary::covered(analysis)).chain(cost).collect()
    } else {
        summary::known(shown, unit)
    };
    let below = below.into_iter().chain(summary::late_pools(analysis)).chain(summary::losses(shown));
    lines.extend(below.map(|line| paragraph(&printable(&line), terminal.width())));
    lines.extend(preparation::lines(analysis, shown.events, terminal.width()));
    lines.extend(summary::events(shown, view));
    lines.extend(all_assumptions(shown, view));
    lines.join("\n") + "\n"
}

/// The limits of stages, a line each.
fn limits(Shown { analysis, events, .. }: &Shown<'_>, unit: Unit, terminal: Terminal) -> Vec<String> {
    let line = |line: LimitLine| {
        let text = paragraph(&format!("{}: {}", line.head, line.rest), terminal.width());
        let ink = match line.verdict {
            LimitVerdict::Holds => return text,
            LimitVerdict::Violated => Ink::Red,
            LimitVerdict::NotResolved(_) => Ink::Yellow,
        };
        text.lines().map(|line| terminal.inked(ink, line)).collect::<Vec<_>>().join("\n")
    };
    limits::lines(analysis, events, unit).into_iter().map(line).collect()
}

/// What the figures rest on, a line each.
pub fn assumed(shown: &Shown<'_>, view: &View) -> String {
    all_assumptions(shown, view).iter().map(|line| format!("{line}\n")).collect()
}

fn all_assumptions(shown: &Shown<'_>, view: &View) -> Vec<String> {
    let Shown { run, analysis, .. } = *shown;
    if !view.assumptions {
        return summary::assumed(shown, view.terminal);
    }
    let all = assumptions(run.manifest(), analysis);
    let all = all.iter().map(|(statement, origin)| format!("  - {} [{}]", printable(statement), printable(origin)));
    let all = all.map(|line| paragraph(&line, view.terminal.width()));
    ["".into(), view.terminal.inked(Ink::Bold, "assumptions")].into_iter().chain(all).collect()
}

/// The table of a group of a run's traces, without the bounds that are the run's.
pub fn group_table(rows: &[StageRow], hertz: u64, view: &View) -> String {
    let longest = rows.iter().filter_map(|row| row.p99).map(|p99| p99.estimate).max();
    let unit = view.scaled(hertz, longest.unwrap_or(0));
    table(rows, &vec![0; rows.len()], unit, &View { wide: false, ..view.clone() }).join("\n") + "\n"
}

/// Columns that stand or fall together.
struct Column {
    name: String,
    sides: Vec<Side>,
    /// By row.
    cells: Vec<Vec<String>>,
    /// Columns with a lower rank are left out first where there is no room; `None`: never.
    rank: Option<u8>,
}

/// The table's lines.
pub fn table(rows: &[StageRow], relative_1ms_ticks: &[u64], unit: Unit, view: &View) -> Vec<String> {
    let mut all = all_columns(rows, relative_1ms_ticks, unit, view);
    let room = if view.wide && !view.terminal.breaks_lines() { usize::MAX } else { view.terminal.width() };
    let mut left_out = Vec::new();
    while width(&all) > room && !view.wide {
        let ranked = all.iter().enumerate().filter_map(|(at, column)| Some((column.rank?, at)));
        let Some((_, at)) = ranked.min() else { break };
        left_out.push(all.remove(at).name);
    }
    if width(&all) > room {
        let mut lines = stacked(rows, &all_columns(rows, relative_1ms_ticks, unit, view), unit, view.terminal);
        lines.extend(of_few(rows, view, &[]));
        return lines;
    }
    if !view.wide {
        draw_bars(rows, &mut all, room);
    }
    let mut lines = set(rows, &all);
    if let Some(head) = lines.first_mut() {
        *head = view.terminal.inked(Ink::Bold, head);
    }
    lines.extend(of_few(rows, view, &left_out));
    if !left_out.is_empty() {
        let more = format!("left out here: {}; --wide has every column", left_out.join(", "));
        lines.push(view.terminal.inked(Ink::Faint, &paragraph(&more, view.terminal.width())));
    }
    lines
}

/// Which quantiles of the table are the longest of few, but for those of columns that are left out.
fn of_few(rows: &[StageRow], view: &View, left_out: &[String]) -> Option<String> {
    let asked = view.quantiles.iter().map(|(name, quantile)| (name.as_str(), *quantile));
    let mut shown: Vec<(&str, Quantile)> =
        if view.quantiles.is_empty() { few_traces::USUAL.into() } else { asked.collect() };
    shown.retain(|(name, _)| left_out.iter().all(|other| other != name));
    let rows: Vec<(&str, u64)> = rows.iter().map(|row| (row.name.as_str(), row.count)).collect();
    few_traces::remark(&rows, &shown).map(|remark| paragraph(&printable(&remark), view.terminal.width()))
}

/// Every column but the bars.
fn all_columns(rows: &[StageRow], relative_1ms_ticks: &[u64], unit: Unit, view: &View) -> Vec<Column> {
    let one = |name: &str, side: Side, rank: Option<u8>, cells: Vec<String>| Column {
        name: name.into(),
        sides: vec![side],
        cells: cells.into_iter().map(|cell| vec![cell]).collect(),
        rank,
    };
    let figure = |name: &str, rank: Option<u8>, of: &dyn Fn(&StageRow) -> Option<QuantileBounds>| Column {
        name: name.into(),
        sides: vec![Side::Right, Side::LeftClose],
        cells: rows.iter().map(|row| quantile(of(row), unit).into()).collect(),
        rank,
    };
    let mut all = vec![
        one("stage", Side::Left, None, rows.iter().map(|row| row.name.clone()).collect()),
        shares(rows),
        one("count", Side::Right, Some(3), rows.iter().map(|row| row.count.to_string()).collect()),
    ];
    if view.quantiles.is_empty() {
        all.push(figure("p50", None, &|row| row.p50));
        all.push(figure("p99", None, &|row| row.p99));
        all.push(figure("p99.9", Some(1), &|row| row.p999));
        all.push(figure("max", Some(2), &|row| row.max));
    }
    for (at, (name, _)) in view.quantiles.iter().enumerate() {
        all.push(figure(name, None, &|row| row.quantiles.get(at).copied()));
    }
    if view.wide {
        let sided = |of: &dyn Fn(&StageRow) -> Common| rows.iter().map(|row| either_side(of(row), unit)).collect();
        let bound = |ticks: Vec<u64>| ticks.into_iter().map(|ticks| at_most(ticks, unit)).collect();
        all.push(figure("mean", None, &|row| row.mean));
        all.push(one("common", Side::Left, None, sided(&|row| row.common)));
        all.push(one("reading", Side::Left, None, sided(&|row| row.own)));
        all.push(one("rel 1ms", Side::Right, None, bound(relative_1ms_ticks.to_vec())));
        all.push(one("rel run", Side::Right, None, bound(rows.iter().map(|row| row.relative_ticks).collect())));
    }
    let first_figure = view.quantiles.first().map_or("p50", |(name, _)| name);
    if let Some(first) = all.iter_mut().find(|column| column.name == first_figure) {
        first.name = format!("{} {}", first.name, unit.name());
    }
    all
}

/// Characters of a line.
fn width(all: &[Column]) -> usize {
    set(&[], all).iter().map(|line| line.chars().count()).max().unwrap_or(0)
}

/// The columns as lines, rows under words of their own where they are no part of the path.
fn set(rows: &[StageRow], all: &[Column]) -> Vec<String> {
    let sides: Vec<Side> = all.iter().flat_map(|column| column.sides.iter().copied()).collect();
    let heads = all.iter().flat_map(|column| {
        std::iter::once(column.name.clone()).chain(std::iter::repeat_n(String::new(), column.sides.len() - 1))
    });
    let mut lines: Vec<Vec<String>> = vec![heads.collect()];
    let mut role = StageRole::Path;
    for at in 0..all.first().map_or(0, |column| column.cells.len()) {
        if let Some(row) = rows.get(at).filter(|row| row.role != role) {
            role = row.role;
            match role {
                StageRole::Branch => lines.extend([vec![], vec!["branches".into()]]),
                StageRole::Extra => lines.extend([vec![], vec!["extra".into()]]),
                StageRole::Path | StageRole::EndToEnd => {}
            }
        }
        lines.push(all.iter().flat_map(|column| column.cells[at].iter().cloned()).collect());
    }
    columns(&sides, &lines)
}

/// Widest bar, in characters.
const WIDEST_BAR: usize = 20;
/// A shorter one says nothing.
const SHORTEST_BAR: usize = 5;

/// Bars to scale, as wide as there is room for; the longest share fills one.
fn draw_bars(rows: &[StageRow], all: &mut Vec<Column>, room: usize) {
    let most = rows.iter().filter_map(part).max().unwrap_or(0);
    let bar_width = room.saturating_sub(width(all) + 2).min(WIDEST_BAR);
    if most <= 0 || bar_width < SHORTEST_BAR {
        return;
    }
    let bars = rows.iter().map(|row| vec![part(row).map_or(String::new(), |share| bar(share, most, bar_width))]);
    let column = Column { name: String::new(), sides: vec![Side::Left], cells: bars.collect(), rank: None };
    all.insert(1, column);
}

/// Share of a stage of the path, parts per million.
fn part(row: &StageRow) -> Option<i64> {
    let share = row.share.filter(|_| row.role == StageRole::Path)?.per_million()?;
    Some(share[0])
}

/// A bar to the eighth of a character.
fn bar(share: i64, most: i64, width: usize) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let eighths = (i128::from(share.max(0)) * 8 * width as i128 / i128::from(most)) as usize;
    "█".repeat(eighths / 8) + EIGHTHS[eighths % 8]
}

/// `43%`, and `±8` where the true share may lie further off than rounding tells; `-` where it is no part of a whole.
fn shares(rows: &[StageRow]) -> Column {
    let cells: Vec<Vec<String>> = rows.iter().map(|row| share(row).into()).collect();
    let reaches = cells.iter().any(|cell| !cell[1].is_empty());
    let sides = if reaches { vec![Side::Right, Side::LeftClose] } else { vec![Side::Right] };
    let cells = cells.into_iter().map(|cell| cell[..sides.len()].to_vec()).collect();
    Column { name: "share".into(), sides, cells, rank: None }
}

fn share(row: &StageRow) -> [String; 2] {
    match row.share.and_then(|share| share.per_million()) {
        None => ["-".into(), String::new()],
        Some(share @ [near, ..]) => [
            format!("{}%", (near + 5_000).div_euclid(10_000)),
            reach_of(row, share).map_or(String::new(), |points| format!("±{points}")),
        ],
    }
}

/// Reach of the share of a stage of the path: the whole is all of itself.
fn reach_of(row: &StageRow, share: [i64; 3]) -> Option<i64> {
    share_reach(share).filter(|_| row.role == StageRole::Path)
}

/// Points of a hundred that the true share may be off what is shown, where that is more than rounding leaves open.
pub(crate) fn share_reach([near, lo, hi]: [i64; 3]) -> Option<i64> {
    let shown = (near + 5_000).div_euclid(10_000) * 10_000;
    let reach = (shown - lo).max(hi - shown);
    (near - lo > 5_000 || hi - near > 5_000).then(|| reach.div_euclid(10_000) + i64::from(reach.rem_euclid(10_000) > 0))
}

/// Where no table fits: each stage's name, and below it its figures.
fn stacked(rows: &[StageRow], all: &[Column], unit: Unit, terminal: Terminal) -> Vec<String> {
    let mut lines = vec![terminal.inked(Ink::Bold, &format!("stages; durations in {}", unit.name()))];
    let room = terminal.width().saturating_sub(2);
    for (at, row) in rows.iter().enumerate() {
        lines.extend(fold(row.name.split_inclusive('>'), [terminal.width(); 2]));
        let figures = all.iter().skip(1).map(|column| {
            let name = column.name.strip_suffix(unit.name()).unwrap_or(&column.name).trim_end();
            let cells: Vec<&str> =
                column.cells[at].iter().map(String::as_str).filter(|cell| !cell.is_empty()).collect();
            format!("{name} {}", cells.join(" "))
        });
        let figures: Vec<String> = figures.collect();
        lines.extend(fold(figures.iter().map(String::as_str), [room; 2]).into_iter().map(|line| format!("  {line}")));
    }
    lines
}

/// A quantile and how far the true one may lie from what is shown.
pub(crate) fn quantile(bounds: Option<QuantileBounds>, unit: Unit) -> [String; 2] {
    let Some(QuantileBounds { estimate, lo, hi }) = bounds else { return ["-".into(), String::new()] };
    let (shown, reach) = unit.around(estimate, [lo, hi]);
    [shown.to_string(), within(reach)]
}

/// How far something reaches to both sides.
fn either_side(bound: Common, unit: Unit) -> String {
    within([unit.up(bound.below_ticks), unit.up(bound.above_ticks)])
}

/// A bound.
fn at_most(ticks: u64, unit: Unit) -> String {
    if ticks == 0 { "0".into() } else { unit.up(ticks).to_string() }
}

/// One figure, the wider one, unless the other side is narrower by a third or more: then one for each.
pub(crate) fn within([below, above]: [Decimal; 2]) -> String {
    let (narrow, wide) = (below.min(above), below.max(above));
    let alike = 2 * wide.digits() <= 3 * narrow.digits() + 4;
    match alike {
        _ if wide.digits() == 0 => "0".into(),
        true => format!("±{wide}"),
        false => format!("-{below} +{above}"),
    }
}

#[cfg(test)]
mod tests {
    use num_bigint::BigInt;
    use num_rational::BigRational;
    use proptest::prelude::*;

    use super::*;
    use crate::any_analysis::{HERTZ, any_analysis, exact, read, with_everything};

    /// Where a table is made of a run's manifest too.
    const GOLDEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../store/tests/golden/v1");

    /// What is read off `±0.05`, `-0.05 +0.75` or `0`: below and above.
    fn reach<'a>(words: &mut std::iter::Peekable<impl Iterator<Item = &'a str>>) -> [BigRational; 2] {
        let first = words.next().unwrap();
        match (first.strip_prefix('±'), first.strip_prefix('-')) {
            (Some(both), _) => [read(both), read(both)],
            (_, Some(below)) => [read(below), read(words.next().unwrap().strip_prefix('+').unwrap())],
            _ => [read(first), read(first)],
        }
    }

    /// The amount after `±` in what follows `words` in a line.
    fn after(line: &str, words: &str) -> BigRational {
        let rest = &line[line.find(words).unwrap_or_else(|| panic!("'{words}' in '{line}'")) + words.len()..];
        read(rest.trim_start_matches([' ', '±']).split([' ', ';']).next().unwrap())
    }

    #[test]
    fn one_long_outage_makes_no_stage_of_microseconds_nothing() {
        let mut rows = with_everything().rows;
        let at = |ticks: u64| Some(QuantileBounds { estimate: ticks as i64, lo: ticks as i64, hi: ticks as i64 });
        rows[0].p99 = at(HERTZ);
        for (median, unit) in [(HERTZ / 100_000, "µs"), (HERTZ / 100, "ms"), (HERTZ, "ms")] {
            rows[0].p50 = at(median);
            assert_eq!(fitting(&rows, HERTZ).name(), unit, "{median}");
        }
    }

    proptest! {
        #[test]
        fn property_no_bound_in_the_text_lies_inside_the_exact_one(analysis in any_analysis()) {
            let run = Run::open(GOLDEN.as_ref()).unwrap();
            let shown = Shown { run: &run, analysis: &analysis, rivals: &[], events: &[], channels: &[] };
            let view = View { wide: true, scale: Some(Scale::Microseconds), ..View::default() };
            let text = text(&shown, &view);
            let hertz = analysis.frequency.hertz;
            let us = |ticks: BigInt| exact(ticks, hertz, 1_000_000);
            let row = &analysis.rows[0];
            let line = text.lines().find(|line| line.starts_with("a.x>b.y ")).unwrap();
            let mut words = line.split_whitespace().skip(2).peekable();
            words.next_if(|word| word.starts_with('±')); // of the share
            words.next(); // the count
            for QuantileBounds { lo, hi, .. } in [row.p50, row.p99, row.p999, row.max, row.mean].into_iter().flatten() {
                let shown = read(words.next().unwrap());
                let [below, above] = reach(&mut words);
                prop_assert!(&shown - below <= us(lo.into()) && shown + above >= us(hi.into()), "{line}");
            }
            for bound in [row.common, row.own] {
                let [below, above] = reach(&mut words);
                prop_assert!(below >= us(bound.below_ticks.into()) && above >= us(bound.above_ticks.into()), "{line}");
            }
            for ticks in [analysis.relative_1ms_ticks[0], row.relative_ticks] {
                prop_assert!(read(words.next().unwrap()) >= us(ticks.into()), "{line}");
            }
        }

        #[test]
        fn property_no_bound_below_the_table_lies_inside_the_exact_one(analysis in any_analysis()) {
            let unit = Unit::microseconds(analysis.frequency.hertz, 2);
            let lines = remarks(&analysis, unit);
            let line = |start: &str| lines.iter().find(|line| line.trim_start().starts_with(start)).unwrap().as_str();
            let us = |ticks: Option<u64>| exact(ticks.unwrap(), analysis.frequency.hertz, 1_000_000);
            let (clock_map, clock) = (&analysis.clock_maps[0], &analysis.auxiliary_clocks[0]);
            prop_assert!(after(line("b.tsc:"), "known to") >= us(clock_map.half_width_ticks));
            prop_assert!(after(line("b.tsc:"), ";") >= us(clock_map.other_rho[0].1));
            prop_assert!(after(line("evidence"), "alone") >= us(clock_map.sources[0].alone_ticks));
            prop_assert!(after(line("evidence"), "all others") >= us(clock_map.sources[0].without_ticks));
            let ns = |ticks: u64| exact(ticks, clock.hertz, 1_000_000_000);
            prop_assert!(after(line("b.realtime:"), "known to") >= ns(clock.half_width_ticks.unwrap()));
            prop_assert!(after(line("b.realtime:"), "(median),") >= ns(clock.half_width_p99_ticks.unwrap()));
            prop_assert!(after(line("by one line"), "outside, by") >= ns(clock.published_furthest_ticks));
        }
    }

    /// A table of a path of two stages and its whole, in a terminal of so many columns.
    fn table_in(columns: usize) -> String {
        let mut analysis = with_everything();
        let mut row = analysis.rows.remove(0);
        row.name = "client.send>server.received".into();
        row.share = row.share.map(|share| tickscope_trace::Share { of: share.part, ..share });
        let other = StageRow { name: "server.received>client.response".into(), ..row.clone() };
        let whole = StageRow { name: "end-to-end".into(), role: StageRole::EndToEnd, ..row.clone() };
        let rows = [row, other, whole];
        let view = View { terminal: Terminal::of_width(columns), ..View::default() };
        table(&rows, &[1; 3], view.unit(&analysis), &view).join("\n")
    }

    #[test]
    fn a_table_fits_the_terminal_and_names_the_columns_that_it_leaves_out() {
        for columns in [40, 60, 70, 80, 100, 120, 200] {
            let shown = table_in(columns);
            assert!(shown.lines().all(|line| line.chars().count() <= columns), "{columns}:\n{shown}");
            for part in ["client.send>", "end-to-end", "p50", "p99", "±"] {
                assert!(shown.contains(part), "{columns}, {part}:\n{shown}");
            }
            for name in ["count", "max", "p99.9"] {
                assert!(shown.contains(name), "shown, or named as left out: {columns}, {name}:\n{shown}");
            }
        }
        assert!(table_in(120).contains('█') && !table_in(60).contains('█'));
    }

    #[test]
    fn a_quantile_of_so_few_traces_that_it_is_the_longest_is_named_below_the_table() {
        let mut rows = with_everything().rows;
        rows.truncate(1);
        rows.push(StageRow { name: "b.y>c.z".into(), ..rows[0].clone() });
        let unit = Unit::microseconds(HERTZ, 2);
        let asked = Quantile::per_million(999_900).unwrap();
        let mut said = |counts: [u64; 2], quantiles: &[(String, Quantile)]| {
            rows.iter_mut().zip(counts).for_each(|(row, count)| row.count = count);
            let terminal = Terminal::of_width(140);
            let lines =
                table(&rows, &[0; 2], unit, &View { terminal, quantiles: quantiles.to_vec(), ..View::default() });
            lines.into_iter().find(|line| line.contains("longest of"))
        };
        assert_eq!(said([50, 50], &[]).as_deref(), Some("p99, p99.9 = longest of 50"));
        assert_eq!(said([500, 400], &[]).as_deref(), Some("p99.9 = longest of 400 to 500"));
        assert_eq!(said([5000, 400], &[]).as_deref(), Some("p99.9 = longest of 400 in b.y>c.z"));
        assert_eq!(said([1000, 0], &[]), None);
        let asked = [("p99.99".to_string(), asked), ("p100".into(), Quantile::MAXIMUM)];
        assert_eq!(said([5000, 5000], &asked).as_deref(), Some("p99.99 = longest of 5000"));
    }

    #[test]
    fn text_of_the_run_moves_no_cursor_and_colours_come_on_a_terminal_alone() {
        let run = Run::open(GOLDEN.as_ref()).unwrap();
        let mut analysis = with_everything();
        analysis.suspicions = vec!["bad \u{1b}[2J\nfinding: none".into()];
        let text_of = "done\u{7}\u{202e}\0\n\u{1b}]0;x".to_string();
        let event = Event {
            node: "run".into(),
            what: tickscope_store::EventKind::TargetFailed,
            text: text_of,
            ..Event::default()
        };
        let shown = Shown { run: &run, analysis: &analysis, rivals: &[], events: &[event], channels: &[] };
        for events in [false, true] {
            let plain = text(&shown, &View { events, assumptions: events, wide: events, ..View::default() });
            assert!(!plain.chars().any(|letter| letter != '\n' && tickscope_tick::acts(letter)), "{plain:?}");
            assert!(plain.starts_with("finding: bad \\u{1b}[2J\\nfinding: none"), "{plain}");
            assert!(plain.contains("done\\u{7}\\u{202e}"), "{plain}");
        }
        let terminal = Terminal::default().with_colours(true);
        assert!(text(&shown, &View { terminal, ..View::default() }).starts_with("\u{1b}[31mfinding"));
    }

    #[test]
    fn a_bound_is_one_figure_unless_its_sides_differ() {
        let unit = Unit::microseconds(HERTZ, 2);
        let shown = [(0, 0), (2299, 2299), (2300, 2760), (0, 2300)]
            .map(|(below_ticks, above_ticks)| either_side(Common { below_ticks, above_ticks }, unit));
        assert_eq!(shown, ["0", "±1.00", "±1.21", "-0.00 +1.01"]);
        assert_eq!([0, 1].map(|ticks| at_most(ticks, unit)), ["0", "0.01"]);
    }
}
