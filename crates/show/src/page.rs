//! The page itself: template, style, script and figures in one file, and no larger than promised.

use serde::Serialize;
use tickscope_analysis::figures::{ClockMapCurve, DrawnTrace, FigurePoint, Histogram, KeptTraces, StageBox};
use tickscope_analysis::{Age, Overview};

use crate::age::AgeTable;
use crate::document::{Block, html};
use crate::quantity::{Unit, count};
use crate::tail::SlowTraces;
use crate::text::{Text, inline_json};
use crate::x_lap::XLap;
use crate::{Report, chapters, counts, headline, noise, path_bar, policy, stages};

/// No page is larger: it is to be sent by mail. Most of it is the library that draws.
pub const MOST_BYTES: usize = 2_000_000;

const PLOTLY: &str = include_str!("../vendor/plotly/plotly-cartesian.min.js");
const STYLE: &str = include_str!("../page/page.css");
const SCRIPT: &str = include_str!("../page/page.js");

/// Bytes of what a page says of its worst traces once it has some, at most.
const SAID_OF_THEM: usize = 256;
/// The slowest traces that a page shows where the run has so many, rather than figures that are there as files, too.
const FEWEST_TRACES: usize = 8;
/// In the place of figures for which the page has no room.
const NO_ROOM: &str = "<p>This page has no room for them: tickscope figures draws them as files.</p>";

/// From the first screen to the whole run, and to its worst trace.
const JUMP: &str = "<p class=\"jump\"><a href=\"#over-time\">All traces over time</a> <a href=\"#traces\" \
                    class=\"to-slowest\">The slowest trace</a></p>\n";

/// What the script draws from.
#[derive(Serialize)]
struct Drawn<'a> {
    unit: Shown,
    points: &'a [FigurePoint],
    stages: &'a [StageBox],
    end_to_end: &'a Option<Histogram>,
    overview: &'a Option<Overview>,
    measured: u64,
    typical: &'a Option<DrawnTrace>,
    worst: &'a [DrawnTrace],
    incomplete: &'a [DrawnTrace],
    clock_maps: &'a [ClockMapCurve],
}

/// How the script writes ticks.
#[derive(Serialize)]
struct Shown {
    name: &'static str,
    per_second: u64,
    decimals: u32,
    hertz: u64,
}

/// The page, with as many of the worst traces and brackets as fit. Figures of the X-Lap study, and then brackets,
/// make room for the first traces.
pub(crate) fn page(report: &Report<'_>) -> Result<String, String> {
    let unit = report.unit();
    let x_lap = XLap::of(report.figures, report.analysis.frequency.hertz);
    let mut bytes = 0;
    for x_lap in [html(&x_lap.blocks(true)), html(&x_lap.blocks(false)), NO_ROOM.into()] {
        let mut clock_maps = report.figures.clock_maps.clone();
        loop {
            let bare = fill(report, unit, &clock_maps, &x_lap, 0)?;
            let room = MOST_BYTES.saturating_sub(bare.len()).saturating_sub(SAID_OF_THEM);
            let worst = fitting(&report.figures.traces, room)?;
            let is_thin = clock_maps.iter().all(|curve| curve.brackets.is_empty());
            let is_last = is_thin && x_lap == NO_ROOM;
            let is_enough = is_last || worst >= FEWEST_TRACES.min(report.figures.traces.worst.len());
            bytes = bare.len();
            if bytes <= MOST_BYTES && is_enough {
                return fill(report, unit, &clock_maps, &x_lap, worst);
            }
            if is_thin || bytes <= MOST_BYTES && x_lap != NO_ROOM {
                break;
            }
            clock_maps.iter_mut().for_each(|curve| curve.thin());
        }
    }
    Err(format!(
        "cannot fit the report into {MOST_BYTES} bytes: it has {bytes} without a trace or a bracket. Report a run of \
         fewer nodes and points"
    ))
}

/// The chapter on the age of information.
fn freshness(age: &Age, report: &Report<'_>) -> String {
    let table = AgeTable { age, hertz: report.analysis.frequency.hertz, scale: None };
    let blocks = html(&table.blocks());
    format!(
        "<section id=\"age\" aria-labelledby=\"age-head\">\n<h2 id=\"age-head\">How fresh</h2>\n{blocks}</section>\n\n"
    )
}

/// How many of the worst traces fit into so many bytes.
fn fitting(traces: &KeptTraces, room: usize) -> Result<usize, String> {
    let mut left = room;
    for (number, trace) in traces.worst.iter().enumerate() {
        // With the comma after it, and a digit more where their number is said.
        let bytes = inline_json(trace)?.len() + 2;
        match left.checked_sub(bytes) {
            Some(rest) => left = rest,
            None => return Ok(number),
        }
    }
    Ok(traces.worst.len())
}

fn fill(
    report: &Report<'_>,
    unit: Unit,
    clock_maps: &[ClockMapCurve],
    x_lap: &str,
    worst: usize,
) -> Result<String, String> {
    let figures = report.figures;
    let drawn = Drawn {
        unit: Shown {
            name: unit.name(),
            per_second: unit.0.per_second(),
            decimals: unit.0.decimals(),
            hertz: report.analysis.frequency.hertz.max(1),
        },
        points: &figures.points,
        stages: &figures.stages,
        end_to_end: &figures.end_to_end,
        overview: &figures.overview,
        measured: figures.traces.measured,
        typical: &figures.traces.typical,
        worst: &figures.traces.worst[..worst],
        incomplete: &figures.traces.incomplete,
        clock_maps,
    };
    let doubtful = chapters::is_doubtful(report);
    // A figure that cannot be true is no headline.
    let lead = if doubtful { Vec::new() } else { headline::answer(report) };
    let lead: Vec<Block> = lead.into_iter().map(Block::Paragraph).collect();
    Ok(format!(
        include_str!("../page/page.html"),
        scripts = policy::sources(&[PLOTLY, SCRIPT]),
        title = Text(report.name()),
        about = Text(chapters::about(report)),
        alarms = html(&chapters::alarms(report)),
        lead = html(&lead),
        jump = if worst > 0 { JUMP } else { "" },
        bar = if doubtful { String::new() } else { path_bar::bar(report) },
        slow = if doubtful { String::new() } else { html(&SlowTraces::of(report.analysis, &figures.tail).blocks()) },
        assumptions = html(&chapters::assumptions(report)),
        unit = unit.name(),
        stages = html(&[stages::table(report)]),
        limits = html(
            &[chapters::limits(report), noise::blocks(report.analysis, report.unit().0), chapters::late_pools(report)]
                .concat()
        ),
        prepared = html(&chapters::prepared(report)),
        meanings = html(&[Block::terms(&stages::MEANINGS)]),
        measured = count(figures.traces.measured),
        quantiles = html(&[stages::quantiles(report)]),
        x_lap = x_lap,
        clocks = html(&chapters::clocks(report)),
        age_link = if report.age.is_some() { "<a href=\"#age\">Freshness</a> " } else { "" },
        age = report.age.map_or_else(String::new, |age| freshness(age, report)),
        losses = html(&chapters::losses(report)),
        counts = html(&counts::blocks(report)),
        events = html(&chapters::events(report)),
        ran = html(&chapters::ran(report)),
        version = env!("CARGO_PKG_VERSION"),
        style = STYLE,
        figures = inline_json(&drawn)?,
        plotly = PLOTLY,
        script = SCRIPT,
    ))
}
