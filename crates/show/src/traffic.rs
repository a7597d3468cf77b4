//! Where each point ran, how many stamps it had while the run went on, and how fast the run went from its first stamp
//! to its last.
//!
//! Guarantees: a rate's ends hold the true one; a figure of nothing is a sentence. Deliberately absent: counting
//! (`tickscope_analysis::figures::Traffic`).

use tickscope_analysis::figures::{PointTraffic, Throughput, Traffic, TrafficWindow};
use tickscope_tick::Unit as Ticks;

use crate::drawn_figure::DrawnFigure;
use crate::plot::{Axis, Figure, Ink, Room, Row};
use crate::quantity::{Unit, count, counted};
use crate::x_lap::short_number;

/// Points that are drawn, at most.
const MOST_POINTS: usize = 24;
/// Processes that a row names.
const MOST_PROCESSES: usize = 3;
/// Cores that have room side by side.
const MOST_CORES: i64 = 256;
const ROW: f64 = 30.0;

/// The same with windows of twice the length, for a page, which is to stay small.
pub(crate) fn with_fewer(traffic: &Traffic) -> Traffic {
    let mut fewer = traffic.clone();
    for point in &mut fewer.points {
        let two = |two: &[TrafficWindow]| TrafficWindow {
            ticks: [two[0].ticks[0], two[two.len() - 1].ticks[1]],
            stamps: two.iter().map(|window| window.stamps).sum(),
        };
        point.windows = point.windows.chunks(2).map(two).collect();
    }
    fewer
}

/// What can be drawn, and a sentence for each that cannot.
pub(crate) fn figures(traffic: &Traffic, hertz: u64, room: Room) -> (Vec<DrawnFigure>, Vec<String>) {
    let rates = rates(traffic, hertz, room).ok_or(
        "no stamps over time: no point has stamps in two windows of time on a clock that is related to the reference",
    );
    let rates = rates.map_err(String::from);
    let mut missing = Vec::new();
    let figures = [rates, placement(traffic, room)].into_iter();
    let figures = figures.filter_map(|figure| figure.map_err(|why| missing.push(why)).ok());
    (figures.collect(), missing)
}

fn more(points: usize) -> String {
    if points > MOST_POINTS { format!(" The first {MOST_POINTS} points of {points} are drawn.") } else { String::new() }
}

/// Stamps a second at each point.
fn rates(traffic: &Traffic, hertz: u64, room: Room) -> Option<DrawnFigure> {
    let seconds = |ticks: i64| ticks as f64 / hertz.max(1) as f64;
    let outline = |point: &PointTraffic| {
        let windows = point.windows.iter().filter(|window| window.ticks[0] < window.ticks[1]);
        let rate = windows.map(|window| {
            let ends = window.ticks.map(seconds);
            (ends, window.stamps as f64 / (ends[1] - ends[0]))
        });
        rate.collect::<Vec<_>>()
    };
    let shown: Vec<_> = traffic.points.iter().map(|point| (point, outline(point))).collect();
    let shown: Vec<_> = shown.into_iter().filter(|(_, rates)| rates.len() > 1).collect();
    let all = shown.len();
    let shown = &shown[..all.min(MOST_POINTS)];
    let most = |rates: &[([f64; 2], f64)]| rates.iter().map(|(_, rate)| *rate).fold(0.0, f64::max);
    let names = shown.iter().map(|(point, rates)| {
        format!("{}, n {}, up to {} a second", point.point, count(point.stamps), short_number(most(rates)))
    });
    let ends = shown.iter().flat_map(|(_, rates)| rates.iter().flat_map(|(ends, _)| *ends));
    let (first, last) = ends.fold((f64::INFINITY, f64::NEG_INFINITY), |(lo, hi), at| (lo.min(at), hi.max(at)));
    if first >= last {
        return None;
    }
    let axis = Axis::around([first, last].into_iter(), |at| format!("{} s", short_number(at)));
    let mut figure = Figure::rows(axis.named("since the first stamp"), &names.collect::<Vec<_>>(), ROW, room);
    for (number, (_, rates)) in shown.iter().enumerate() {
        let points = rates.iter().flat_map(|(ends, rate)| ends.map(|at| [at, *rate]));
        let most = Some(most(rates)).filter(|most| *most > 0.0).unwrap_or(1.0);
        figure.profile(&points.collect::<Vec<_>>(), (most, ROW - 4.0), Row { number, shift: 0.0 }, Ink::of(0));
    }
    let caption = format!(
        "Stamps of traces a second, by windows of time, each row up to its own highest; the first and the last \
         window are not whole and left out. What was lost, or what a policy left out, is in none. {}{}",
        throughput(traffic.throughput.as_ref(), hertz),
        more(all)
    );
    Some(DrawnFigure::of("counts", "Stamps over the run".into(), caption, vec![figure]))
}

/// From the first stamp to the last one, in words.
pub(crate) fn throughput(found: Option<&Throughput>, hertz: u64) -> String {
    let Some(Throughput { from, to, arrived, span_ticks }) = found else {
        return "From first to last: not known, since nothing relates the clocks of all starts and ends, or they have \
                no stamp."
            .into();
    };
    let unit = Unit(Ticks::for_durations_up_to(hertz.max(1), span_ticks.hi));
    let rate = |ticks: i64| *arrived as f64 * hertz as f64 / ticks as f64;
    let rates = match span_ticks.lo > 0 {
        true => {
            let [lo, hi] = [(rate(span_ticks.hi) * 10.0).floor() / 10.0, (rate(span_ticks.lo) * 10.0).ceil() / 10.0];
            format!(": {lo:.1} to {hi:.1} a second")
        }
        false => String::new(),
    };
    format!(
        "From the first stamp at {} to the last one at {}: {} arrived in {} {} {}{rates}.",
        names(from),
        names(to),
        count(*arrived),
        unit.near(span_ticks.estimate),
        unit.name(),
        unit.interval(span_ticks.lo, span_ticks.hi)
    )
}

fn names(points: &[String]) -> String {
    match points {
        [one] => one.clone(),
        several => format!("any of {}", counted(several.len(), "point")),
    }
}

/// Which process stamped at each point, and on which cores; in words where no stamp tells its core.
fn placement(traffic: &Traffic, room: Room) -> Result<DrawnFigure, String> {
    let all = traffic.points.iter().filter(|point| !point.processes.is_empty()).count();
    let shown = traffic.points.iter().filter(|point| !point.processes.is_empty()).take(MOST_POINTS);
    let shown: Vec<&PointTraffic> = shown.collect();
    if shown.is_empty() {
        return Err("no figure of where points ran: no channel of the run names its process".into());
    }
    let names: Vec<String> = shown.iter().map(|point| format!("{}: {}", point.point, processes(point))).collect();
    let cores = || shown.iter().flat_map(|point| &point.cores).map(|(core, _)| *core);
    let Some(last) = cores().max() else {
        let more = more(all);
        return Err(format!("no figure of where points ran: no stamp tells its core. {}.{more}", names.join("; ")));
    };
    let last = last.clamp(0, MOST_CORES);
    let axis = Axis::of_cores(last as usize);
    let mut figure = Figure::rows(axis.named("core"), &names, ROW, room);
    for (number, point) in shown.iter().enumerate() {
        let row = Row { number, shift: 0.0 };
        for (core, stamps) in &point.cores {
            let share = *stamps as f64 / point.stamps.max(1) as f64;
            figure.bar([*core as f64 - 0.4, *core as f64 + 0.4], (share * (ROW - 6.0)).max(1.0), row, Ink::of(0));
        }
        if point.cores.is_empty() {
            figure.words(-0.5, row, "no stamp tells its core");
        }
    }
    let beyond = if cores().any(|core| core > MOST_CORES) {
        format!(" Cores above {MOST_CORES} are not drawn.")
    } else {
        String::new()
    };
    let caption = format!(
        "The processes that stamped at each point of each node, and how many of their stamps were read on which core: \
         the higher, the larger the share. Not every stamp tells its core.{beyond}{}",
        more(all)
    );
    Ok(DrawnFigure::of("placement", "Where each point ran".into(), caption, vec![figure]))
}

fn processes(point: &PointTraffic) -> String {
    let one = |process: &tickscope_analysis::figures::PlacedProcess| match process.pid {
        0 => "a log".to_string(),
        pid => format!("pid {pid}, {}", counted(process.threads, "thread")),
    };
    let named: Vec<String> = point.processes.iter().take(MOST_PROCESSES).map(one).collect();
    match point.processes.len().saturating_sub(MOST_PROCESSES) {
        0 => named.join("; "),
        rest => format!("{}; {rest} more", named.join("; ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tickscope_analysis::figures::{Bounded, PlacedProcess};

    fn point(name: &str, cores: Vec<(i64, u64)>, pids: &[i32]) -> PointTraffic {
        let window = |at: i64| TrafficWindow { ticks: [at * 1_000, at * 1_000 + 1_000], stamps: 5 };
        let process = |&pid: &i32| PlacedProcess { pid, threads: 2, stored: 40 };
        PointTraffic {
            point: name.into(),
            stamps: 40,
            processes: pids.iter().map(process).collect(),
            cores,
            no_core: 0,
            windows: (0..3).map(window).collect(),
        }
    }

    fn all(points: Vec<PointTraffic>) -> Traffic {
        let span_ticks = Bounded { estimate: 2_000_000, lo: 1_999_000, hi: 2_001_000 };
        let throughput = Throughput { from: vec!["a.s".into()], to: vec!["b.r".into(); 2], arrived: 40, span_ticks };
        Traffic { points, throughput: Some(throughput) }
    }

    #[test]
    fn a_point_has_its_rate_its_processes_and_its_cores() {
        let (points, pids) = (vec![(0, 30), (7, 10)], [11, 12, 13, 14]);
        let traffic = all(vec![point("a<s", points, &pids), point("b.r", vec![], &[0])]);
        let (figures, missing) = figures(&traffic, 1_000_000_000, Room::Wide);
        let names: Vec<&str> = figures.iter().map(|figure| figure.name).collect();
        assert_eq!((names, missing), (vec!["counts", "placement"], vec![]));
        assert!(figures[0].svg().contains("a&lt;s, n 40, up to 5000000 a second"), "{}", figures[0].svg());
        assert!(
            figures[0].caption.contains("at any of 2\u{a0}points: 40 arrived in 2000.00"),
            "{}",
            figures[0].caption
        );
        assert!(figures[0].caption.contains(": 19990.0 to 20010.1 a second."), "{}", figures[0].caption);
        let fewer = with_fewer(&traffic);
        let windows: Vec<_> = fewer.points[0].windows.iter().map(|window| (window.ticks, window.stamps)).collect();
        assert_eq!(windows, [([0, 2_000], 10), ([2_000, 3_000], 5)]);
        let placement = figures[1].svg();
        for words in ["pid 13, 2\u{a0}threads; 1 more", "b.r: a log", "no stamp tells its core", ">7<"] {
            assert!(placement.contains(words), "{words}: {placement}");
        }
    }

    #[test]
    fn what_is_not_known_is_a_sentence() {
        let (none, missing) = figures(&Traffic::default(), 1, Room::Wide);
        assert!(none.is_empty() && missing.len() == 2, "{missing:?}");
        let traffic = Traffic { throughput: None, ..all(vec![point("a.s", vec![], &[5])]) };
        let (figures, missing) = figures(&traffic, 1, Room::Wide);
        assert!(figures[0].caption.contains("From first to last: not known"), "{}", figures[0].caption);
        assert!(missing[0].contains("no stamp tells its core. a.s: pid 5, 2\u{a0}threads"), "{missing:?}");
    }
}
