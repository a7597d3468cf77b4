use std::collections::BTreeSet;

use tickscope_store::ParameterValue;

use super::*;

const TEXT: &str = "run = { name = \"t\", seconds = \"{length}\" }\nclock.reference = \"a\"\n\
                    [layout]\npath = [\"a.x\", \"a.y\"]\n\
                    [[node]]\nname = \"a\"\nends_run = true\ncommand = [\"true\", \"--rate={rate}\", \"{length}\"]\n\
                    environment = { RATE = \"{rate}\" }\n\
                    [[sweep.parameter]]\nname = \"rate\"\nvalues = [10, 20.5, \"all\"]\n\
                    [[sweep.parameter]]\nname = \"length\"\nvalues = [1, 2]\n\
                    [sweep]\nrepetitions = 3\n";

fn file(text: &str) -> RunText {
    RunText { name: "t.toml".into(), place: None, text: text.into(), folder: "/".into() }
}

fn plan(text: &str) -> Result<SweepPlan, String> {
    SweepPlan::of(&file(text)).map(Option::unwrap).map_err(|why| why.to_string())
}

fn values(parameter: &str) -> Result<Vec<String>, String> {
    let plan = plan(&TEXT.replace("values = [1, 2]", parameter))?;
    Ok(plan.parameters[1].values.iter().map(ToString::to_string).collect())
}

#[test]
fn a_value_takes_the_place_of_its_name_as_a_number_or_as_a_word() {
    let sweep = plan(TEXT).unwrap();
    let plan = crate::plan::Plan::parse(&sweep.text(&[1, 1], 1)).unwrap();
    assert_eq!((plan.run.seconds, plan.nodes[0].command[1..].join(" ").as_str()), (2.0, "--rate=20.5 2"));
    assert_eq!(plan.nodes[0].environment["RATE"], "20.5");
    assert!(sweep.text(&[2, 0], 1).contains("# A trial of a sweep: rate = all, length = 1\n"));
    assert!(SweepPlan::of(&file("[run]\nname = \"no sweep\"\n")).unwrap().is_none());
}

#[test]
fn each_repetition_may_have_a_seed_of_its_own() {
    let seeded = plan(&TEXT.replace("\"{length}\"]", "\"--seed={repetition}\"]")).unwrap();
    let word = |repetition| {
        let plan = crate::plan::Plan::parse(&seeded.text(&[0, 0], repetition)).unwrap();
        plan.nodes[0].command.last().unwrap().clone()
    };
    assert_eq!([word(1), word(3)], ["--seed=1", "--seed=3"]);
    let why = plan(&TEXT.replace("name = \"rate\"", "name = \"repetition\"")).unwrap_err();
    assert!(
        why.contains("expected another name than address, seconds, run, repetition, which every trial has"),
        "{why}"
    );
}

#[test]
fn each_trial_stands_once_in_an_order_that_its_seed_gives_and_repetitions_follow_one_another() {
    let sweep = plan(TEXT).unwrap();
    let order = |seed| sweep.ordered(seed).into_iter().map(|trial| (trial.repetition, trial.point)).collect::<Vec<_>>();
    let (one, other) = (order(1), order(2));
    assert_eq!((one.len(), one.iter().collect::<BTreeSet<_>>().len()), (18, 18));
    assert!(one == order(1) && one != other, "{one:?}");
    assert!(one.is_sorted_by_key(|(repetition, _)| *repetition));
    let points = |repetition: usize| one[6 * repetition..][..6].iter().map(|(_, point)| point).collect::<Vec<_>>();
    assert!(points(0) != points(1) || points(1) != points(2), "each repetition has an order of its own");
    let given = plan(&TEXT.replace("repetitions = 3", "order = \"given\"")).unwrap().ordered(1);
    let given: Vec<_> = given.iter().map(|trial| trial.point.clone()).collect();
    assert_eq!(given, [[0, 0], [0, 1], [1, 0], [1, 1], [2, 0], [2, 1]]);
    assert!(sweep.ordered(1).iter().map(|trial| trial.number).eq(1..=18));
}

#[test]
fn values_between_two_ends_have_both_and_stay_whole_where_both_are() {
    let between = |more: &str| values(&format!("from = 1000\nto = 64000\n{more}")).unwrap().join(" ");
    assert_eq!(between("steps = 7\nscale = \"logarithmic\""), "1000 2000 4000 8000 16000 32000 64000");
    assert_eq!(between("steps = 4"), "1000 22000 43000 64000");
    assert_eq!(values("from = 1.0\nto = 2\nsteps = 3").unwrap().join(" "), "1 1.5 2");
    let kept = plan(&TEXT.replace("values = [1, 2]", "from = 1\nto = 3\nsteps = 3")).unwrap();
    assert_eq!(kept.parameters[1].values[1], ParameterValue::Integer(2));
}

#[test]
fn what_cannot_be_swept_is_refused_with_what_was_expected() {
    for (parameter, said) in [
        ("values = []", "found none"),
        ("values = [1, 1]", "found '1' twice"),
        ("values = [1, inf]", "found inf"),
        ("values = [nan]", "expected finite numbers"),
        ("values = [1]\nsteps = 2", "values = [...], or from, to and steps"),
        ("from = 1\nto = 2", "from, to and steps"),
        ("from = \"a\"\nto = 2\nsteps = 2", "numbers in from and to"),
        ("from = 0\nto = 2\nsteps = 2\nscale = \"logarithmic\"", "above 0"),
        ("from = 1\nto = 2\nsteps = 1", "steps from 2"),
        ("from = 1\nto = 2\nsteps = 5", "twice"),
        ("from = 9007199254740992\nto = 9007199254740993\nsteps = 2", "up to 9007199254740992"),
        ("values = [-1]", "with rate = 10, length = -1: expected run.seconds from 0.1"),
        ("values = [1, 0]", "with rate = 10, length = 0: expected run.seconds"),
        (
            "from = 1\nto = 10000\nsteps = 10000",
            "found 90000: 3 x 10000 points, 3 of each, which measure for 25 h 0 min",
        ),
    ] {
        let why = values(parameter).unwrap_err();
        assert!(why.contains(said) && why.contains("t.toml"), "{parameter}: {why}");
    }
    for (right, wrong, said) in [
        ("--rate={rate}", "--rate={rte}", "{rte}"),
        ("RATE = \"{rate}\"", "RATE = \"{rate} {rto}\"", "name of a parameter (rate, length)"),
        ("seconds = \"{length}\"", "seconds = 1", "found it nowhere"),
        ("name = \"rate\"", "name = \"seconds\"", "another name"),
        ("name = \"rate\"", "name = \"a b\"", "letters, digits"),
        ("name = \"rate\"", "name = \"length\"", "found 'length' twice"),
        ("repetitions = 3", "repetitions = 0", "sweep.repetitions from 1"),
        ("repetitions = 3", "repetition = 3", "unknown field `repetition`"),
        ("repetitions = 3", "measure = [{ stage = \"a.x > a.z\" }]", "did you mean"),
        ("repetitions = 3", "measure = [{ stage = \"end-to-end\", quantile = 99 }]", "quantile of sweep.measure"),
        ("repetitions = 3", "measure = [{ age = [\"a.x\", \"b.y\"] }]", "found 'b.y'"),
        ("repetitions = 3", "measure = [{ age = [\"a.x\", \"a.y\"], quantile = 0.5 }]", "Write one of the three"),
        ("repetitions = 3", "measure = [{ age = [\"a.x\", \"a.y\"], of = \"mean\" }]", "mean"),
        ("repetitions = 3", "measure = [{ age = [\"a.x\", \"a.z\"] }]", "stand in the [layout], found 'a.z'"),
        ("repetitions = 3", "measure = [{ field = \"n\", node = \"b\" }]", "expected a node (a), found 'b'"),
        ("repetitions = 3", "measure = [{ field = \"\" }]", "of 1 to 100 letters"),
        ("repetitions = 3", "measure = [{ field = \"n\", unit = \"\\u001b\" }]", "that can be printed"),
        ("repetitions = 3", "measure = [{ field = \"n\", quantile = 0.5 }]", "Write one of the three"),
        ("repetitions = 3", "measure = [{ stage = \"a.x > a.y\", key = 1 }]", "Write one of the three"),
    ] {
        let text = TEXT.replacen(right, wrong, 1);
        let text = if said == "found it nowhere" { text.replace(", \"{length}\"]", "]") } else { text };
        let why = plan(&text).unwrap_err();
        assert!(why.contains(said), "{right} -> {wrong}: {why}");
    }
}

#[test]
fn as_many_trials_as_a_sweep_may_have_are_taken_and_one_more_is_not() {
    let with = |repetitions: u64| {
        let text = TEXT.replace("[10, 20.5, \"all\"]", "[10]").replace("values = [1, 2]", "values = [1]");
        plan(&text.replace("repetitions = 3", &format!("repetitions = {repetitions}"))).map(|plan| plan.trials())
    };
    assert_eq!(with(parameters::MOST_TRIALS), Ok(parameters::MOST_TRIALS));
    assert!(with(parameters::MOST_TRIALS + 1).is_err());
}

#[test]
fn a_stage_without_a_quantile_is_measured_at_the_median_and_p99_and_so_is_the_whole_where_nothing_is_asked_for() {
    let told = |text: &str| plan(text).unwrap().measures.iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(told(TEXT), ["p50 end-to-end", "p99 end-to-end"]);
    let asked = "measure = [{ age = [\"a.x\", \"a.y\"] }, { stage = \"a.x > a.y\", quantile = 0.999 }]";
    assert_eq!(told(&TEXT.replace("repetitions = 3", asked)), ["age a.x a.y, average", "p99.9 a.x > a.y"]);
    let numbers = "measure = [{ field = \"n\", node = \"a\", unit = \"packets\" }, { field = \"drops.data\" }]";
    let numbers = plan(&TEXT.replace("repetitions = 3", numbers)).unwrap();
    let fields: Vec<_> = numbers.fields.iter().map(ToString::to_string).collect();
    assert_eq!((numbers.measures.len(), fields), (0, vec!["n of a".to_owned(), "drops.data".into()]));
}

#[test]
fn the_first_line_that_differs_is_told() {
    assert_eq!(first_difference("a\nb\n", "a\nb\n"), None);
    assert_eq!(first_difference("a\nb\n", "a\nc\n").unwrap(), "line 2 was 'b', and is 'c'");
    assert_eq!(first_difference("a\n", "a\nc\n").unwrap(), "line 2 was nothing, and is 'c'");
    assert_eq!(first_difference("a\n", "a").unwrap(), "its lines end differently");
}
