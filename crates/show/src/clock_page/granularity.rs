//! A load in pulses: where compensation stops helping as they get shorter.

use tickscope_clock::advice::duration;
use tickscope_clock::benchmark::{PulseTest, Sweep};
use tickscope_clock::compensation::Method;
use tickscope_clock::granularity::{ByPulse, Effect, by_clock};

use super::{between, rate};
use crate::document::{Block, Document, panel, part};
use crate::plot::{Axis, Figure, Ink, power_of_ten, short};

const TERMS: [(&str, &str); 7] = [
    ("pulse", "our processes are busy for that long, then asleep for as long, over and over"),
    (
        "k",
        "how much less durations scatter after subtracting: their variance before, divided by their variance after. \
         Above 1 subtracting helps, below 1 it adds noise. Found in several rounds: the median, and what it lies \
         between with 95 %. Without the measurements that an interrupt touched, because one would outweigh everything",
    ),
    ("k predicted", "what k should be, from how alike neighbouring readings are, in the same rounds"),
    ("k of all", "the same with the measurements that an interrupt touched"),
    ("method-1", "subtracts from each section the mean of the reading just before it and the one just after it"),
    ("constant, long-term", "subtract one value from every section: the median cost of a reading, or its mean"),
    ("error", "what is left of sections that do nothing, so it should be 0: on average, in the better 19 of 20"),
];

/// What a sweep found.
pub fn sweep_document(sweep: &Sweep, found: &[PulseTest]) -> Document {
    let clocks = by_clock(found);
    let words = clocks.iter().map(ByPulse::words);
    let rule = "Method-1 subtracts from a section what the readings just before and just after it cost. That helps \
                while the load stays the same from one reading to the next; a load that changes within a reading \
                leaves nothing to follow. By clock:";
    let scatter = "A load that comes and goes otherwise than these pulses: by its time profile, method-1 helps while \
                   readings a section apart are still alike";
    Document {
        title: "Loads in pulses".into(),
        about: format!("{}, at work and at rest by turns", sweep.load.words(sweep.busy_processes)),
        lead: [rule.into()].into_iter().chain(words).chain([scatter.into()]).map(Block::paragraph).collect(),
        first: Vec::new(),
        parts: vec![
            part("Does subtracting help?", factors(&clocks)),
            part("The load's time profile", profiles(&clocks)),
            part("What is left", errors(&clocks)),
            part("All figures", [figures_tables(&clocks), vec![Block::terms(&TERMS)]].concat()),
        ],
    }
}

fn pulses(of: &ByPulse) -> Axis {
    Axis::of_durations(of.tests.iter().map(|test| place(test)).chain([of.reading_ns()])).named("length of a pulse")
}

fn place(test: &PulseTest) -> f64 {
    f64::from(test.pulse_ns)
}

/// k against the pulses' length, what helps above 1, and the place where it stops.
fn factors(clocks: &[ByPulse]) -> Vec<Block> {
    let panels = clocks.iter().map(|of| {
        let found = |test: &&PulseTest| Some([place(test), test.k()?.median]);
        let predicted = |test: &&PulseTest| Some([place(test), test.test.k_predicted?.median]);
        let [found, predicted]: [Vec<[f64; 2]>; 2] =
            [of.tests.iter().filter_map(found).collect(), of.tests.iter().filter_map(predicted).collect()];
        // Around 1, which is what is looked for.
        let ends: Vec<(f64, [f64; 2])> =
            of.tests.iter().filter_map(|test| Some((place(test), test.k()?.between?))).collect();
        let values = found.iter().chain(&predicted).map(|point| point[1]).chain([0.5, 2.0]);
        let values = values.chain(ends.iter().flat_map(|(_, ends)| *ends));
        let y = Axis::logarithmic(values, power_of_ten);
        let mut figure = Figure::plane(pulses(of), y.named("k of method-1"));
        figure.band([f64::MIN_POSITIVE, 1.0]);
        figure.mark(of.reading_ns(), true);
        if let Some([last, next]) = of.stops_between() {
            figure.mark((f64::from(last) * f64::from(next)).sqrt(), false);
        }
        for &(at, ends) in &ends {
            figure.upright(at, ends.map(|end| end.min(f64::MAX)), 1.4, Ink::of(0));
        }
        figure.line(&found, Ink::of(0));
        figure.line(&predicted, Ink::of(1));
        let words = format!(
            "k of method-1 by {} against the length of the load's pulses. The table has the numbers.",
            of.clock
        );
        panel(of.clock, vec![figure.block(&words)])
    });
    let note = "k: how much less durations scatter once the readings beside them are subtracted. On the shaded \
                ground, below 1, subtracting makes it worse; the uprights are what k lies between. Pulses get shorter \
                to the left.";
    let keys = Block::keys(&[
        ("line", "k found"),
        ("line second", "k predicted"),
        ("area soft", "does not help"),
        ("line muted", "left of this it stops helping"),
        ("line muted dashed", "as long as a reading"),
    ]);
    vec![Block::note(note), keys, Block::panels(panels.collect())]
}

/// How like readings are that are so far apart.
fn profiles(clocks: &[ByPulse]) -> Vec<Block> {
    let panels = clocks.iter().map(|of| {
        let lags = of.tests.iter().flat_map(|test| &test.profile);
        let x = Axis::of_durations(lags.clone().map(|lag| lag.lag_ns)).named("from one reading to another");
        let y = Axis::around(lags.map(|lag| lag.rho.median).chain([-0.2, 1.0]), |at| format!("{at:.1}"));
        let mut figure = Figure::plane(x, y.named("correlation of their costs"));
        for (number, test) in of.tests.iter().enumerate() {
            for lag in &test.profile {
                if let Some(ends) = lag.rho.between {
                    figure.upright(lag.lag_ns, ends, 1.0, Ink::of(number));
                }
            }
            let points: Vec<[f64; 2]> = test.profile.iter().map(|lag| [lag.lag_ns, lag.rho.median]).collect();
            figure.line(&points, Ink::of(number));
        }
        let words =
            format!("How like one another readings of {} are by how far apart they are, one line a pulse.", of.clock);
        panel(of.clock, vec![figure.block(&words)])
    });
    let pulses =
        clocks.first().into_iter().flat_map(|of| &of.tests).map(|test| format!("pulses of {}", short(place(test))));
    let note = "The correlation of what two readings cost that are so far apart: 1, one cost predicts the other; 0, it \
                predicts nothing. Found in several rounds; uprights: what it lies between.";
    vec![Block::note(note), Block::legend(pulses), Block::panels(panels.collect())]
}

/// What each method leaves of sections that do nothing.
fn errors(clocks: &[ByPulse]) -> Vec<Block> {
    let methods: Vec<Method> = Method::ALL.into_iter().filter(|&method| tried(clocks, method)).collect();
    let error = |test: &PulseTest, method| test.test.outcome(method).map(|outcome| outcome.error);
    let panels = clocks.iter().map(|of| {
        let all = of.tests.iter().flat_map(|test| methods.iter().filter_map(|&method| error(test, method)));
        let mut figure = Figure::plane(pulses(of), Axis::of_durations(all).named("error"));
        for (number, &method) in methods.iter().enumerate() {
            // Nothing left at all has no place among powers of ten.
            let point = |test: &&PulseTest| Some([place(test), error(test, method).filter(|&error| error > 0.0)?]);
            figure.line(&of.tests.iter().filter_map(point).collect::<Vec<_>>(), Ink::of(number));
        }
        let words = format!(
            "What methods leave by {} against the length of the load's pulses. The table has the numbers.",
            of.clock
        );
        panel(of.clock, vec![figure.block(&words)])
    });
    let note = "Sections that do nothing, measured: what each method leaves of them on average, in the better 19 of \
                20. Lower is better; where a method left nothing at all, it has no dot.";
    vec![Block::note(note), Block::legend(methods.iter().map(ToString::to_string)), Block::panels(panels.collect())]
}

fn tried(clocks: &[ByPulse], method: Method) -> bool {
    clocks.iter().flat_map(|of| &of.tests).any(|test| test.test.outcome(method).is_some())
}

fn figures_tables(clocks: &[ByPulse]) -> Vec<Block> {
    let methods: Vec<Method> = Method::ALL.into_iter().filter(|&method| tried(clocks, method)).collect();
    let name = |test: &PulseTest| format!("{}, {}", test.clock, short(place(test)));
    let tests = || clocks.iter().flat_map(|of| of.tests.iter().copied());
    let helps = |test: &PulseTest| {
        let effect = match test.effect() {
            Effect::Helps => "helps",
            Effect::Fails => "does not help",
            Effect::Undecided => "undecided",
        };
        let all = test.nearest_pairs().and_then(|of| of.k);
        let [rho, predicted, k, all] = [test.test.rho_1, test.test.k_predicted, test.k(), all].map(between);
        vec![name(test), effect.into(), rho, predicted, k, all]
    };
    let left = |test: &PulseTest| {
        let error = |&method: &Method| test.test.outcome(method).map_or_else(|| "–".into(), |of| duration(of.error));
        let turns = test.turns_per_s.map_or_else(|| "–".into(), rate);
        let first = [name(test), turns, duration(test.cost_ns)];
        first.into_iter().chain(methods.iter().map(error)).chain([test.test.trials.to_string()]).collect()
    };
    let errors: Vec<String> = methods.iter().map(|method| format!("error, {method}")).collect();
    let errors = errors.iter().map(String::as_str);
    let columns: Vec<&str> =
        ["clock, pulse", "turns/s", "cost"].into_iter().chain(errors).chain(["sections"]).collect();
    let factors = ["clock, pulse", "method-1", "rho_1", "k predicted", "k", "k of all"];
    vec![
        Block::table("Every clock under every pulse", &factors, tests().map(helps)),
        Block::heading("Costs and errors"),
        Block::table("Costs and errors", &columns, tests().map(left)),
    ]
}

#[cfg(test)]
mod tests {
    use tickscope_clock::benchmark::SectionTest;
    use tickscope_clock::compensation::Outcome;
    use tickscope_clock::factor::Factor;
    use tickscope_clock::load::Load;

    use super::*;

    fn test(pulse_ns: u32, k: f64) -> PulseTest {
        let k = Some(Factor { median: k, between: Some([0.9 * k, 1.1 * k]), stretches: 9 });
        let outcome = Outcome { method: Method::NearestPairs, k, k_untouched: k, ..Outcome::default() };
        let test = SectionTest {
            outcomes: vec![outcome],
            chosen: Method::NearestPairs,
            k_predicted: k,
            ..SectionTest::default()
        };
        let (clock, profile) = ("<img src=x>".into(), Vec::new());
        PulseTest { clock, pulse_ns, turns_per_s: Some(1.0), cost_ns: 1.0, profile, test }
    }

    fn page_of(found: &[PulseTest]) -> String {
        sweep_document(&Sweep { seconds: 1.0, busy_processes: 1, load: Load::SPINNING, pulses_ns: vec![] }, found)
            .html()
    }

    #[test]
    fn the_place_where_it_stops_helping_is_marked_and_said() {
        let solid = |page: &str| page.matches("style=\"stroke:var(--muted)\" stroke-width=\"1.3\"").count();
        let stops = page_of(&[test(100_000, 2.0), test(1_000, 0.5)]);
        assert!(stops.contains("helps with pulses of 100 µs or longer, and no longer at 1.0 µs") && solid(&stops) == 1);
        let never = page_of(&[test(100_000, 2.0), test(1_000, 1.5)]);
        assert!(never.contains("helps however short the pulses") && solid(&never) == 0);
    }

    #[test]
    fn no_name_of_a_clock_becomes_markup() {
        let page = page_of(&[test(1_000, 2.0)]);
        assert!(page.contains("&lt;img src=x&gt;") && !page.contains("<img"));
    }
}
