//! Figures 1 to 3 of the Cm* study (3.2), drawn of this host's counter read by halves.

use tickscope_clock::advice::duration;
use tickscope_clock::two_word::contention::{Contention, Together};
use tickscope_clock::two_word::routine::Routine;

use super::rate;
use crate::document::{Block, Document, Panel, panel, part};
use crate::plot::{Axis, Figure, Ink, short};

/// What the study shows in its figures 1 to 3, in which as many of its Cm's read one clock of Medusa's.
const PUBLISHED: [&str; 3] = [
    "8 readers: about 300 us throughout, 53 000 words/s in all; 30 readers: from 300 to over 800 us and back to \
         300 us as they start and stop, 90 000 words/s, with peaks and troughs wherever the low word wraps",
    "8 readers: 64 000 words/s in all; 30 readers: 96 000; no peaks and troughs; 310 us (StarOS) and 320 us \
         (Medusa) at least",
    "8 readers: 23 000 words/s in all; 28 readers: 76 000; the two curves cannot be told apart by eye",
];

const TERMS: [(&str, &str); 5] = [
    ("level", "the median from one result to the next, of pairs of calls made while all readers read"),
    ("peak, trough", "the median of the pairs that began where in a turn it is most or least, where that is certain"),
    ("saw a flip", "pairs during which the low word wrapped, so that the high word flipped"),
    ("wrong", "pairs left out: a result was off by half a turn or more, as after a reader was put aside for a turn"),
    ("words/s", "words that the measured reader read a second, while it read"),
];

/// What a reading takes by each routine, with one reader and with several.
pub fn two_words_document(found: &[Contention], about: String) -> Document {
    Document {
        title: "A clock of two words".into(),
        about,
        lead: found.iter().map(|of| Block::paragraph(of.words())).collect(),
        first: Vec::new(),
        parts: vec![
            part("Cm*, figures 1 to 3: since the start", since_the_start(found)),
            part("Where the low word wraps", in_a_turn(found)),
            part("All figures", figures(found)),
        ],
    }
}

fn legend(found: &[Contention]) -> Block {
    let name = |of: &Contention| {
        let turns = if of.takes_turns { ", taking turns" } else { "" };
        if of.readers == 1 { "one reader".to_owned() } else { format!("{} readers at once{turns}", of.readers) }
    };
    Block::legend(found.iter().filter(|of| of.routine == Routine::VaryingRead).map(name))
}

/// A panel a routine, by the number of its figure in the study.
fn by_routine(
    found: &[Contention],
    title: impl Fn(usize, Routine) -> String,
    draw: impl Fn(&[&Contention], &str) -> Block,
) -> Vec<Panel> {
    let panels = Routine::ALL.iter().enumerate().map(|(at, &routine)| {
        let of: Vec<&Contention> = found.iter().filter(|of| of.routine == routine).collect();
        let title = title(at + 1, routine);
        panel(&title, vec![draw(&of, &title)])
    });
    panels.collect()
}

fn since_the_start(found: &[Contention]) -> Vec<Block> {
    let draw = |of: &[&Contention], title: &str| {
        let line = |of: &Contention| -> Vec<[f64; 2]> {
            of.slices.iter().filter_map(|slice| Some([slice.at_ns, slice.median_ns?])).collect()
        };
        let lines: Vec<Vec<[f64; 2]>> = of.iter().map(|of| line(of)).collect();
        if lines.iter().all(Vec::is_empty) {
            return Block::paragraph("Not drawn: no pair of calls is left; give more --seconds.");
        }
        let at = |axis: usize| lines.iter().flatten().map(move |point| point[axis]);
        let x = Axis::from_0(at(0), short).named("since the start");
        let mut figure = Figure::plane(x, Axis::of_durations_by_spread(at(1)).named("from one result to the next"));
        let most_at = at(0).fold(0.0, f64::max);
        let shown = |at: &&f64| (0.0..=most_at).contains(*at);
        for of in of {
            of.started_ns.iter().filter(shown).for_each(|&at| figure.mark(at, false));
            of.stopped_ns.iter().filter(shown).for_each(|&at| figure.mark(at, true));
        }
        for (number, points) in lines.iter().enumerate() {
            figure.line(points, Ink::of(number));
        }
        figure.block(&format!("{title}: the median from one result to the next in each slice of time."))
    };
    let note = "Two calls of a routine one right after the other, by one reader: from the one result to the other, the \
                median in each slice of the time. The other readers start one after another (solid uprights), read \
                the same clock and stop one after another (dashed). A word is read under a lock that all share, as \
                the study's readers shared a bus.";
    let mut panels = by_routine(found, |number, routine| format!("As figure {number}: {routine}"), draw);
    for (panel, published) in panels.iter_mut().zip(PUBLISHED) {
        panel.blocks.push(Block::note(format!("The study's: {published}.")));
    }
    vec![Block::note(note), legend(found), Block::panels(panels)]
}

fn in_a_turn(found: &[Contention]) -> Vec<Block> {
    let draw = |of: &[&Contention], title: &str| {
        let together: Vec<(usize, &Together)> =
            of.iter().enumerate().filter_map(|(number, of)| Some((number, of.together.as_ref()?))).collect();
        let phases = || together.iter().flat_map(|(_, of)| &of.phases);
        if phases().next().is_none() {
            return Block::paragraph("Not drawn: too few pairs began while all read; give more --seconds.");
        }
        let x = Axis::from_0(of.iter().map(|of| of.turn_ns), short).named("since the low word was 0");
        let ends = phases().flat_map(|phase| phase.between_ns).collect::<Vec<f64>>();
        let y = Axis::of_durations_by_spread(ends.iter().copied());
        let mut figure = Figure::plane(x, y.named("from one result to the next"));
        for &(number, of) in &together {
            for phase in &of.phases {
                figure.upright(phase.at_ns, phase.between_ns, 1.0, Ink::of(number));
            }
            let points: Vec<[f64; 2]> = of.phases.iter().map(|phase| [phase.at_ns, phase.median_ns]).collect();
            figure.line(&points, Ink::of(number));
        }
        figure.block(&format!("{title}: the median from one result to the next by where in a turn a pair began."))
    };
    let note = "The same while all read, by where in a turn of the low word the first call began; uprights: what the \
                median lies between with 99.9 %. varying-read peaks where its second call sees the high word flip, \
                and dips where its first one does; the other two return the low word that they read first, always.";
    let panels = by_routine(found, |_, routine| format!("{routine} by turn"), draw);
    vec![Block::note(note), legend(found), Block::panels(panels)]
}

fn figures(found: &[Contention]) -> Vec<Block> {
    let row = |of: &Contention| {
        let together = of.together.as_ref();
        let ns = |value: Option<f64>| value.map_or_else(|| "–".into(), duration);
        let phase = |phase: fn(&Together) -> Option<f64>| ns(together.and_then(phase));
        vec![
            of.routine.to_string(),
            format!("{}{}", of.readers, if of.takes_turns { " taking turns" } else { "" }),
            phase(|of| Some(of.level_ns)),
            phase(|of| Some(of.mean_ns)),
            phase(|of| Some(of.deviation_ns)),
            phase(|of| Some(of.peak?.median_ns)),
            phase(|of| Some(of.trough?.median_ns)),
            together.map_or(0, |of| of.pairs).to_string(),
            together.map_or(0, |of| of.flipped).to_string(),
            of.wrong.to_string(),
            rate(of.words_per_s),
        ]
    };
    let columns = [
        "routine",
        "readers",
        "level",
        "mean",
        "deviation",
        "peak",
        "trough",
        "pairs",
        "saw a flip",
        "wrong",
        "words/s",
    ];
    vec![Block::table("A clock of two words", &columns, found.iter().map(row)), Block::terms(&TERMS)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use tickscope_clock::two_word::contention::{CallPair, Crowd, Recording};

    fn contention(routine: Routine, readers: usize, pairs: i64) -> Contention {
        let pairs = (0..pairs).map(|at| CallPair { at: 100 * at, elapsed: 40, took: 80 }).collect();
        let others = vec![5_000; readers - 1];
        let recording =
            Recording { pairs, turn: 1 << 10, wrong: 2, words_per_tick: 0.1, started: others, stopped: vec![] };
        recording.contention(routine, Crowd { readers, takes_turns: true }, 1.0)
    }

    #[test]
    fn every_routine_has_both_figures_or_the_reason_and_what_the_study_shows() {
        let of = |pairs| Routine::ALL.map(|routine| [1, 3].map(|readers| contention(routine, readers, pairs)));
        let html = two_words_document(&of(20_000).concat(), "here".into()).html();
        let titles =
            ["As figure", "", "varying-read by turn"].map(|title| html.matches(&format!("<h3>{title}")).count());
        assert_eq!((titles, html.matches("Not drawn").count()), ([3, 6, 1], 0));
        assert!(html.contains("from 300 to over 800") && html.contains("3 readers at once, taking turns"));
        let empty = two_words_document(&of(0).concat(), "here".into());
        assert_eq!(empty.html().matches("Not drawn").count(), 6);
        assert!(empty.text().contains("no pair of calls fell into the time"), "{}", empty.text());
    }
}
