//! Many nodes in one run, each in a network namespace with a counter of its own: every two of them are related, no
//! bound is looser than the direct one, and whoever lies is named.

mod site;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use site::{Ended, Site, c_program, few_or_all, free_port, tickscope};
use tickscope_analysis::{Analysis, PairSummary, Query, analyse};
use tickscope_experiment::may_make_namespaces;
use tickscope_rivals::{NodeRivals, RivalBound, analyse_and_compare};
use tickscope_store::{BracketColumns, BracketRow, Pair, Run};
use tickscope_tick::Label;

/// The largest error bound that Cloudprofiler reports of nine of its ten workers (its section 6.5, figure 16), ns.
const PUBLISHED_NS: f64 = 53_252.0;

/// A run of nodes that pass numbers round; each has a map of its own before its counter, so no two share one.
fn ring(nodes: usize, seconds: f64) -> String {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c/ring.c");
    let program = c_program::compile("cc", &source, &["-D_GNU_SOURCE"], "ring");
    let port = free_port();
    let mut text = format!(
        "run = {{ name = \"ring\", seconds = {seconds:?}, pool_bytes = 4194304 }}\nnetwork.kind = \"namespaces\"\n\
         [clock]\nreference = \"n0\"\nrho = \"lab\"\nsame_boot = \"ignore\"\nprobe_share = 0.02\n\
         probe_port = {}\n[layout]\npath = [",
        free_port()
    );
    (0..nodes).for_each(|node| _ = write!(text, "\"n{node}.at\", "));
    text += "\"n0.back\"]\n";
    for node in 0..nodes {
        let next = (node + 1) % nodes;
        let first = if node == 0 { ", \"{seconds}\"" } else { "" };
        let _ = write!(
            text,
            "[[node]]\nname = \"n{node}\"\ncommand = [\"{}\", \"{{address}}\", \"{port}\", \
             \"{{n{next}.address}}\"{first}]\nends_run = {}\ninject = {{ offset = {}, drift_ppb = {}, wander_ppb = 0, \
             wander_period = 1000000000 }}\n",
            program.display(),
            node == 0,
            node * 1_000_000,
            500 * node
        );
    }
    text
}

/// Every stage's interval holds the truth, every two nodes are related, none worse than by their own exchanges alone.
fn expect_related(run: &Run, nodes: usize) -> Analysis {
    let (analysis, rivals) = analyse_and_compare(run, &Query::default(), false).unwrap();
    assert!(analysis.finding(&[]).is_none(), "{:?}", analysis.finding(&[]));
    let truth = analysis.truth.as_ref().unwrap();
    assert!(truth.known > 0 && truth.inside == truth.known, "{truth:?}");
    let two = |pair: &PairSummary| BTreeSet::from([pair.domain.to_string(), pair.reference.to_string()]);
    let related: BTreeSet<_> = analysis.pairs.iter().map(two).collect();
    assert_eq!((related.len(), analysis.pairs.len()), (nodes * (nodes - 1) / 2, related.len()));
    for pair in &analysis.pairs {
        let closed = pair.closed_half_width_ticks.unwrap();
        assert!(pair.direct_half_width_ticks.is_none_or(|direct| closed <= direct), "{pair:?}");
    }
    expect_compared(&rivals, nodes);
    analysis
}

/// Every two nodes are compared: bounds that guarantee hold the truth, round trips are told both ways, and each
/// counter's frequency is the one that it was given.
fn expect_compared(rivals: &[NodeRivals], nodes: usize) {
    assert_eq!(rivals.len(), nodes * (nodes - 1) / 2);
    for pair in rivals {
        let guaranteed = pair.methods.iter().filter(|method| method.bound == RivalBound::Guaranteed);
        assert!(guaranteed.clone().count() >= 2, "{pair:?}");
        assert!(guaranteed.clone().all(|method| method.outside.is_none_or(|outside| outside == 0)), "{pair:?}");
        let [asked, returned] = &pair.round_trips[..] else { panic!("{pair:?}") };
        assert_eq!([&asked.from, &asked.to], [&returned.to, &returned.from]);
        assert!([asked, returned].iter().all(|trips| trips.shortest_ns[0] > Some(0)), "{pair:?}");
        let number = |label: &Label| label.node.as_str()[1..].parse::<i64>().unwrap();
        let gains = 500 * (number(&pair.domain) - number(&pair.reference));
        let [least, most] = pair.hertz.unwrap().map(|hertz| hertz - pair.declared_hertz as i64);
        let given = (i128::from(pair.declared_hertz) * i128::from(gains) / 1_000_000_000) as i64;
        assert!(least <= given + 1 && given - 1 <= most, "{pair:?}");
    }
}

fn print(analysis: &Analysis) {
    let ns = |ticks: u64| ticks as f64 * 1e9 / analysis.frequency.hertz as f64;
    let all = || analysis.pairs.iter();
    let worst = |of: fn(&PairSummary) -> Option<u64>| ns(all().filter_map(of).max().unwrap());
    let closed = worst(|pair| pair.closed_half_width_ticks);
    let narrowed = all().filter(|pair| pair.is_narrowed()).count();
    let gains: f64 = all()
        .filter_map(|pair| Some(1.0 - pair.closed_half_width_ticks? as f64 / pair.direct_half_width_ticks? as f64))
        .sum();
    println!(
        "{} pairs; the widest is known to {closed:.0} ns, by its own exchanges alone {:.0}; published: \
         {PUBLISHED_NS:.0}, {:.1} times as much. {narrowed} are narrower by way of others, by {:.1} % on average over \
         all",
        analysis.pairs.len(),
        worst(|pair| pair.direct_half_width_ticks),
        PUBLISHED_NS / closed,
        100.0 * gains / analysis.pairs.len() as f64
    );
}

/// What a bracket's ticks of one node become, where the other is `peer`.
type Lie<'a> = &'a dyn Fn(usize, i64) -> i64;

/// Makes node `liar` have told its peers something else.
fn falsify(run: &Run, liar: usize, lie: Lie<'_>) {
    let name = format!("n{liar}");
    let number = |node: &str| node[1..].parse::<usize>().unwrap();
    for pair in run.pairs().unwrap().found {
        let [of_reference, of_domain] = [&pair.reference, &pair.domain].map(|label| label.node.as_str());
        if of_reference == of_domain || of_reference != name && of_domain != name {
            continue;
        }
        let old = run.brackets(&pair).unwrap().found;
        let mut new = BracketColumns::default();
        let sides = old.before.iter().zip(old.after.iter());
        for (row, ((before, after), exchange)) in sides.zip(old.exchange.iter()).enumerate() {
            let (mut before, mut at, mut after) = (before.copied(), old.at[row], after.copied());
            if of_domain == name {
                at = lie(number(of_reference), at);
            } else {
                let told = |tick: i64| lie(number(of_domain), tick);
                (before, after) = (before.map(told), after.map(told));
            }
            let (source, ordering) = (old.source[row].clone(), old.ordering[row].clone());
            new.push_row(BracketRow { before, at, after, source, ordering, exchange: exchange.copied() });
        }
        replace(run, &pair, &new);
    }
}

fn replace(run: &Run, pair: &Pair, brackets: &BracketColumns) {
    let folder = run.paths().brackets(pair);
    for file in fs::read_dir(&folder).unwrap() {
        fs::remove_file(file.unwrap().path()).unwrap();
    }
    run.add_brackets(pair, "falsified", brackets).unwrap();
}

fn copied(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().flatten() {
        let place = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copied(&entry.path(), &place),
            false => _ = fs::copy(entry.path(), place).unwrap(),
        }
    }
}

/// What the run would have said, had that node lied.
fn expect_named(site: &Site, liar: usize, how: &str, lie: Lie<'_>) {
    let place = site.path(how);
    copied(&site.run_directory(), &place);
    let run = Run::open(&place).unwrap();
    falsify(&run, liar, lie);
    let finding = match analyse(&run, &Query::default(), false) {
        Ok(analysis) => analysis.finding(&[]).unwrap_or_default(),
        Err(why) => why.to_string(),
    };
    println!("{how}: {finding}");
    assert!(finding.contains(&format!("without n{liar}.tsc all others agree")), "{how}: {finding}");
}

#[test]
fn e2e_all_pairs_of_many_nodes_are_related_and_who_lies_is_named() {
    if let Err(why) = may_make_namespaces() {
        return println!("not tried: namespaces need rights: {why}");
    }
    let (nodes, seconds) = few_or_all((5, 1.5), (30, 6.0));
    let site = Site::new("ring");
    let ended = Ended::of(&mut site.run_command(&ring(nodes, seconds)));
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let run = site.opened();
    let analysis = expect_related(&run, nodes);
    print(&analysis);
    // Below what the exchanges leave open no evidence contradicts a lie: a ring of three pairs does not contradict one
    // of three times the widest, and a lie is contradicted by a ring wherever it is told.
    let direct = analysis.pairs.iter().filter_map(|pair| pair.direct_half_width_ticks).max().unwrap() as i64;
    let least = |us: i64| (us * analysis.frequency.hertz as i64 / 1_000_000).max(10 * direct);
    // It tells every second peer another time: with each of them alone it agrees.
    let lie = least(20);
    expect_named(&site, 3, "lies", &|peer, tick| tick + if peer % 2 == 0 { lie } else { 0 });
    let domain = run.manifest().nodes.iter().find(|node| node.name == "n2").unwrap().domain();
    let of_domain = run.pairs().unwrap().found.into_iter().find(|pair| pair.domain == domain).unwrap();
    let ticks = run.brackets(&of_domain).unwrap().found.at;
    let (first, last) = (*ticks.iter().min().unwrap(), *ticks.iter().max().unwrap());
    let (middle, gains) = (first + (last - first) / 2, i128::from(least(150)));
    let gained = |tick: i64| (i128::from((tick - middle).max(0)) * gains / i128::from(last - middle)) as i64;
    expect_named(&site, 2, "steps", &|_, tick| tick + gained(tick));
    let shown = Ended::of(tickscope(&["show"]).arg(site.run_directory()));
    assert_eq!(shown.code, Some(0), "{shown:?}");
    println!("{}", shown.out);
}
