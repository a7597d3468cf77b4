//! Each stage with and without the traces that something else on the machine disturbed, below the table of stages, in a
//! terminal and on a page.
//!
//! Guarantees: the figures of all traces stand beside those without; how many are disturbed and of how many that is not
//! known is said of each stage; a stage without an undisturbed trace has no figures there; a quantile of so few that it
//! is the longest is named as that. Deliberately absent: judging, which is `tickscope_analysis`'s.

use tickscope_analysis::{Analysis, Neighbour, StageNoise, Tail};
use tickscope_tick::{Unit, counted, printable};
use tickscope_trace::{QuantileBounds, StageRole, StageRow};

use crate::document::{self, Block, Tone, Words};
use crate::few_traces;
use crate::stage_table::{fitting_unit, quantile};
use crate::terminal::{Ink, Terminal};
use crate::typesetting::{Side, columns, paragraph};

/// Neighbours that are named of a stage; the public JSON has more.
const MOST_NAMED: usize = 2;

const MEANING: &str = "undisturbed: between the two stamps no other task had a core on which either one's thread ran, \
                       and nothing that was recorded interrupted these threads; docs/noise.md says what counts, and \
                       what is not seen";

const MEANING_OF_SHARES: &str = "percent: of how long all slow traces lasted there. What ran on the cores of both \
                                 stamps at once counts on each, so that it may be more than all of it";

const MEANING_OF_PAUSES: &str = "undisturbed: between the two stamps no JVM of their nodes paused, by its own log; \
                                 docs/java.md says what counts";

/// What one table compares with: its words, and each stage without it.
struct Without<'a> {
    words: &'static str,
    meaning: &'static str,
    stages: &'a [StageNoise],
}

/// What was recorded beside the run.
fn recorded(analysis: &Analysis) -> impl Iterator<Item = Without<'_>> {
    let noise = Without { words: "ith and without noise", meaning: MEANING, stages: &analysis.noise };
    let words = "ith and without pauses of JVMs";
    let pauses = Without { words, meaning: MEANING_OF_PAUSES, stages: &analysis.pauses };
    [noise, pauses].into_iter().filter(|without| !without.stages.is_empty())
}

/// The lines; none where nothing was recorded.
pub(crate) fn lines(analysis: &Analysis, unit: Unit, terminal: Terminal) -> Vec<String> {
    recorded(analysis).flat_map(|without| lines_of(&without, analysis, unit, terminal)).collect()
}

fn lines_of(without: &Without<'_>, analysis: &Analysis, unit: Unit, terminal: Terminal) -> Vec<String> {
    let name = unit.name();
    let head = [&format!("w{}", without.words), "count", &format!("p50 {name}"), "", "p99", "", "p99.9"];
    let mut cells: Vec<Vec<String>> = vec![head.map(String::from).into()];
    let mut said = Vec::new();
    for (row, stage) in pairs(without, analysis) {
        let all = [row.p50, row.p99, row.p999];
        let undisturbed = [stage.p50, stage.p99, stage.p999];
        cells.push(vec![row.name.clone()]);
        cells.push(figures("  all traces", row.count, all, unit));
        cells.push(figures("  undisturbed", stage.undisturbed, undisturbed, unit));
        said.push(sentence(stage, analysis, unit, None));
    }
    let mut set = columns(
        &[
            Side::Left,
            Side::Right,
            Side::Right,
            Side::LeftClose,
            Side::Right,
            Side::LeftClose,
            Side::Right,
            Side::LeftClose,
        ],
        &cells,
    )
    .into_iter();
    let mut lines: Vec<String> = set.next().map(|head| terminal.inked(Ink::Bold, &head)).into_iter().collect();
    for said in said {
        lines.extend(set.by_ref().take(3));
        lines.push(paragraph(&format!("  {}", printable(&said)), terminal.width()));
    }
    lines.extend(of_few(without, analysis).map(|remark| paragraph(&printable(&remark), terminal.width())));
    lines.push(terminal.inked(Ink::Faint, &paragraph(without.meaning, terminal.width())));
    lines.push(String::new());
    lines
}

/// The same on a page; nothing where nothing was recorded.
pub(crate) fn blocks(analysis: &Analysis, unit: Unit) -> Vec<Block> {
    recorded(analysis).flat_map(|without| blocks_of(&without, analysis, unit)).collect()
}

fn blocks_of(without: &Without<'_>, analysis: &Analysis, unit: Unit) -> Vec<Block> {
    let cell = |figure: Option<QuantileBounds>| {
        let [shown, bounds] = quantile(figure, unit);
        Words::from(shown).say(" ").set(Tone::Bounds, bounds)
    };
    let row = |name: &str, traces: &str, count: u64, figures: [Option<QuantileBounds>; 3]| {
        let head = [name.into(), traces.into(), count.to_string()].map(Words::from);
        head.into_iter().chain(figures.map(cell)).collect::<Vec<Words>>()
    };
    let rows = pairs(without, analysis).flat_map(|(all, stage)| {
        let figures = [all.p50, all.p99, all.p999];
        let undisturbed = [stage.p50, stage.p99, stage.p999];
        [row(&all.name, "all", all.count, figures), row("", "undisturbed", stage.undisturbed, undisturbed)]
    });
    let p50 = format!("p50 {}", unit.name());
    let heads = ["stage", "traces", "count", &p50, "p99", "p99.9"];
    let said = pairs(without, analysis)
        .map(|(row, of)| format!("{}: {}", row.name, sentence(of, analysis, unit, None)).into());
    let mut blocks = vec![
        Block::heading(format!("W{}", without.words)),
        Block::table(&format!("Stages w{}", without.words), &heads, rows),
    ];
    blocks.extend(of_few(without, analysis).map(Block::paragraph));
    blocks.extend([Block::List(said.collect()), Block::paragraph(without.meaning)]);
    blocks
}

/// Which quantiles of the table are the longest of few.
fn of_few(without: &Without<'_>, analysis: &Analysis) -> Option<String> {
    let rows = pairs(without, analysis).flat_map(|(row, stage)| {
        [(row.name.clone(), row.count), (format!("undisturbed {}", row.name), stage.undisturbed)]
    });
    let rows: Vec<(String, u64)> = rows.collect();
    let rows: Vec<(&str, u64)> = rows.iter().map(|(name, count)| (name.as_str(), *count)).collect();
    few_traces::remark(&rows, &few_traces::USUAL)
}

/// Rows of the table with what is known of their noise.
fn pairs<'a>(without: &Without<'a>, analysis: &'a Analysis) -> impl Iterator<Item = (&'a StageRow, &'a StageNoise)> {
    let stages = without.stages;
    let of = |row: &StageRow| stages.iter().find(|stage| stage.name == row.name);
    let of = move |row| of(row).map(|stage| (row, stage));
    analysis.rows.iter().filter_map(of)
}

fn figures(name: &str, count: u64, figures: [Option<QuantileBounds>; 3], unit: Unit) -> Vec<String> {
    let figures = figures.into_iter().flat_map(|figure| quantile(figure, unit));
    [name.into(), count.to_string()].into_iter().chain(figures).collect()
}

/// What disturbed the slow traces, a line for the whole and each stage of the path; nothing where nothing was recorded.
pub fn noise_of_slow_text(analysis: &Analysis, tail: &Tail, slow: &[StageNoise]) -> String {
    if slow.is_empty() {
        return String::new();
    }
    let unit = fitting_unit(analysis);
    let of_path = |role: StageRole| matches!(role, StageRole::EndToEnd | StageRole::Path);
    let stages = analysis.rows.iter().filter(|row| of_path(row.role));
    let named = stages.filter_map(|row| Some((row, slow.iter().find(|of| of.name == row.name)?)));
    // The stages of the path make up the whole.
    let is_of = |row: &StageRow, name: &str| row.role == StageRole::EndToEnd || row.name == name;
    let lasted = |row: &StageRow| {
        let stages = tail.stages.iter().filter(|stage| is_of(row, &stage.name));
        stages.map(|stage| stage.mean_ticks).sum::<f64>() * tail.slow as f64
    };
    let lines =
        named.map(|(row, of)| format!("{}: {}", row.name, sentence(of, analysis, unit, Some(lasted(row)))).into());
    let head = Block::paragraph("What else had the cores of the slow traces:");
    document::text(&[
        head,
        Block::List(lines.collect()),
        Block::paragraph(MEANING_OF_SHARES),
        Block::paragraph(MEANING),
    ])
}

/// How many were disturbed, and by whom most; of how long all of them `lasted`, where that is known, its share.
fn sentence(stage: &StageNoise, analysis: &Analysis, unit: Unit, lasted: Option<f64>) -> String {
    let StageNoise { disturbed, unknown, neighbours, .. } = stage;
    let unknown = match unknown {
        0 => String::new(),
        unknown => format!("; not known of {unknown}"),
    };
    let named = neighbours.iter().take(MOST_NAMED).map(|neighbour| {
        let Neighbour { class, name, disturbed, ticks, held_up, held_up_ticks } = neighbour;
        // Ticks are of the host's counter: those of the reference are as long, but for its rate's error.
        let told = |ticks: i64| match Unit::for_durations_up_to(analysis.frequency.hertz, ticks) {
            _ if ticks == 0 => format!("0 {}", unit.name()),
            unit => format!("{} {}", unit.near(ticks), unit.name()),
        };
        let took = match *class {
            // Its ends are known to the width of its log.
            "pause" => format!("{} to {}", told(*held_up_ticks), told(*ticks)),
            _ => told(*ticks),
        };
        let held_up = match held_up {
            // What is no task is there only where it interrupted.
            // Of a pause only that it lay there is known, not how much of it was waited for.
            _ if *class != "task" => String::new(),
            0 => " (nobody is known to have waited for it)".into(),
            held_up => format!(" ({held_up} certainly waited for it)"),
        };
        let share = lasted
            .filter(|&lasted| lasted > 0.0 && *class != "pause")
            .map_or_else(String::new, |lasted| format!(" (some {:.0} %)", 100.0 * *ticks as f64 / lasted));
        format!("{class} {name} took {took}{share} of {}{held_up}", counted(*disturbed, "trace"))
    });
    let named: Vec<String> = named.collect();
    let by = if named.is_empty() { String::new() } else { format!("; most: {}", named.join(", ")) };
    format!("disturbed {disturbed}{unknown}{by}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::any_analysis::{HERTZ, with_everything};

    #[test]
    fn a_quantile_of_so_few_undisturbed_traces_that_it_is_the_longest_is_named_below_the_table() {
        let mut analysis = with_everything();
        analysis.rows.truncate(1);
        let row = analysis.rows[0].clone();
        let said = |analysis: &mut Analysis, of: [u64; 2]| {
            analysis.rows[0].count = of[0];
            let stage = StageNoise {
                name: row.name.clone(),
                undisturbed: of[1],
                disturbed: of[0] - of[1],
                unknown: 0,
                p50: row.p50,
                p99: row.p99,
                p999: row.p999,
                neighbours: Vec::new(),
            };
            analysis.noise = vec![stage];
            analysis.pauses = Vec::new();
            let unit = Unit::microseconds(HERTZ, 2);
            let found = |line: &String| line.contains("longest of");
            let in_a_terminal = lines(analysis, unit, Terminal::of_width(140)).into_iter().find(found);
            let page = document::text(&blocks(analysis, unit));
            let on_a_page = page.lines().map(String::from).find(found);
            assert_eq!(in_a_terminal, on_a_page);
            on_a_page
        };
        let few = format!("p50, p99, p99.9 = longest of 1 in undisturbed {}", row.name);
        assert_eq!(said(&mut analysis, [3000, 1]), Some(few));
        let few = format!("p99 = longest of 41 in undisturbed {}; p99.9 = longest of 41 to 900", row.name);
        assert_eq!(said(&mut analysis, [900, 41]), Some(few));
        assert_eq!(said(&mut analysis, [3000, 3000]), None);
        assert_eq!(said(&mut analysis, [3000, 0]), None, "no undisturbed trace has no figures");
    }
}
