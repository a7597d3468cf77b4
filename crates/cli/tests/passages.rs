//! Ids that pass a point more than once: what is shown is right by the program's own account, or it is refused and
//! counted.

mod site;

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::Path;

use site::{Ended, Site, c_program, count, stage};
use tickscope_analysis::{Analysis, Query, analyse};
use tickscope_store::{KeyedReader, Run};

/// `point, id, tick` and the passages that this stamp belongs to, as bits.
type Account = HashMap<(String, i64, i64), u32>;

/// A run of one of `tests/c`, told its own directory and how many ids, on a single node.
fn text(program: &str, ids: u32, path: &[&str], rule: &str) -> String {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/c/{program}.c"));
    let binary = c_program::compile("cc", &source, &["-D_GNU_SOURCE"], program);
    let points: Vec<String> = path.iter().map(|point| format!("\"app.{point}\"")).collect();
    let rules: Vec<String> = points.iter().map(|point| format!("{point} = \"{rule}\"\n")).collect();
    format!(
        "run = {{ name = \"{program}\", seconds = 1 }}\nnetwork.kind = \"loopback\"\nclock.reference = \"app\"\n\
         [[node]]\nname = \"app\"\nends_run = true\ncommand = [\"{}\", \"{{run}}\", \"{ids}\"]\n\
         [layout]\npath = [{}]\n[layout.rules]\n{}",
        binary.display(),
        points.join(", "),
        rules.concat()
    )
}

fn account(site: &Site) -> Account {
    let text = fs::read_to_string(site.run_directory().join("account.csv")).unwrap();
    let mut account = Account::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split(',').collect();
        let number = |word: &str| word.parse::<i64>().unwrap();
        let stamp = (format!("app.{}", words[0]), number(words[1]), number(words[2]));
        *account.entry(stamp).or_insert(0) |= number(words[3]) as u32;
    }
    account
}

/// The run joined again by another rule at every point.
fn joined_by(run: &mut Run, rule: &str) -> Analysis {
    let mut manifest = run.manifest().clone();
    manifest.layout.rules.iter_mut().for_each(|(_, of)| *of = rule.into());
    run.set_manifest(manifest).unwrap();
    tickscope_analysis::join(run, 1 << 26).unwrap();
    analyse(run, &Query::default(), true).unwrap()
}

/// Every duration that is shown, by stage: id and ticks. Fails where one is not of a passage in the account.
fn right(run: &Run, account: &Account) -> HashMap<String, Vec<(i64, i64)>> {
    let traces = run.traces().unwrap().found.remove(0);
    let (names, traces) = (traces.names().to_vec(), traces.read_all().unwrap());
    let durations = KeyedReader::open(&run.paths().durations(50_000).join("part-00000000.parquet")).unwrap();
    let (stages, durations) = (durations.names().to_vec(), durations.read_all().unwrap());
    let mut shown = HashMap::new();
    for (stage, column) in stages.iter().zip(&durations.columns).filter(|(name, _)| !name.ends_with(['o', 'i'])) {
        let ends = stage.split_once('>').unwrap_or((&names[0], &names[names.len() - 1]));
        let ticks = |name: &str| {
            let column = names.iter().position(|known| known == name).unwrap();
            traces.columns[column].iter().map(Option::<&i64>::copied).collect::<Vec<_>>()
        };
        let (from, to) = (ticks(ends.0), ticks(ends.1));
        let list: &mut Vec<_> = shown.entry(stage.clone()).or_default();
        for (row, duration) in column.iter().enumerate() {
            let (Some(&duration), id) = (duration, traces.id[row]) else { continue };
            let (from, to) = (from[row].unwrap(), to[row].unwrap());
            let passages = |point: &str, tick: i64| account[&(point.to_string(), id, tick)];
            let common = passages(ends.0, from) & passages(ends.1, to);
            assert!(common != 0, "{stage} of id {id}: {from} and {to} are of no passage");
            assert_eq!(duration, to - from);
            list.push((id, duration));
        }
    }
    shown
}

fn row<'a>(analysis: &'a Analysis, name: &str) -> &'a tickscope_trace::StageRow {
    analysis.rows.iter().find(|row| row.name == name).unwrap()
}

#[test]
fn e2e_one_id_on_two_threads_at_once_is_shown_as_each_thread_took_it() {
    const IDS: u64 = 40;
    let site = Site::new("overlap");
    let table = Ended::of(&mut site.run_command(&text("overlap", IDS as u32, &["begin", "end"], "first"))).json(0);
    assert_eq!(count(&table, "app.begin>app.end"), IDS);
    assert_eq!((&table["passages"]["repeated"], &table["passages"]["untold"]), (&IDS.into(), &0.into()));
    assert!(stage(&table, "app.begin>app.end")["p50"]["lo_ns"].as_f64().unwrap() >= 10e6, "what A took: {table:#}");
    assert_eq!(table["passages"]["by_thread"], IDS, "they overlap: {table:#}");
    let said = Ended::of(site::tickscope(&["show"]).arg(site.run_directory()));
    let words = said.out.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("passages: 40 of 40 ids passed a point more than once"), "{words}");
    assert!(
        words.contains("of those that came furthest the one that was there first (rule first at app.begin, app.end)"),
        "{words}"
    );
    assert!(words.contains("refused where nothing tells them apart: durations of 0 ids"), "{words}");
    assert!(words.contains("each stays on its thread"), "an assumption is printed: {words}");
    let (account, mut run) = (account(&site), site.opened());
    let stamp = |point: &str, id: i64, passage: u32| {
        let found = account.iter().find(|(stamp, of)| stamp.0 == point && stamp.1 == id && **of == passage);
        found.map(|(stamp, _)| stamp.2).unwrap()
    };
    let truth = |id: i64| {
        let of = |passage| (stamp("app.begin", id, passage), stamp("app.end", id, passage));
        let mut both = [1, 2].map(of);
        both.sort_unstable();
        both.map(|(begin, end)| (id, end - begin))
    };
    for (rule, taken) in [("first", 0..1), ("last", 1..2), ("all", 0..2)] {
        let analysis = joined_by(&mut run, rule);
        let expected: Vec<_> = (0..IDS as i64).flat_map(|id| truth(id)[taken.clone()].to_vec()).collect();
        assert_eq!(right(&run, &account)["app.begin>app.end"], expected, "{rule}");
        assert_eq!(row(&analysis, "app.begin>app.end").count as usize, expected.len());
    }
}

/// Traces by the channel that stamped a point, as its stamps say: those whose id and tick there are the trace's.
fn by_channel(run: &Run, place: &str) -> BTreeMap<Option<i32>, u64> {
    let stamps = run.stamps(&place.parse().unwrap()).unwrap().read_all().unwrap();
    let keys = stamps.id.iter().zip(&stamps.tick);
    let channels: HashMap<_, _> = keys.map(|(&id, &tick)| (id, tick)).zip(stamps.channel.iter().copied()).collect();
    let traces = run.traces().unwrap().found.remove(0);
    let column = traces.names().iter().position(|name| name == place).unwrap();
    let rows = traces.read_all().unwrap();
    let mut counts = BTreeMap::new();
    for (&id, tick) in rows.id.iter().zip(rows.columns[column].iter()) {
        *counts.entry(tick.map(|&tick| channels[&(id, tick)])).or_default() += 1;
    }
    counts
}

#[test]
fn e2e_traces_are_shown_by_the_thread_that_stamped_a_point() {
    const WORKERS: usize = 3;
    let path = ["submit", "begin", "end", "batched", "done"];
    let site = Site::new("by-channel");
    Ended::of(&mut site.run_command(&text("pipeline", 400, &path, "all"))).json(3);
    let run = site.opened();
    let shown = |by: &str| Ended::of(site::tickscope(&["show", "--by", by]).arg(site.run_directory()));
    for (by, place) in [("channel", "app.begin"), ("channel:app.end", "app.end")] {
        let ended = shown(by);
        assert_eq!(ended.code, Some(3), "as the run: {ended:?}");
        assert!(ended.out.starts_with(&format!("channels of {place}\n")), "{ended:?}");
        let expected = by_channel(&run, place);
        println!("{by}: {expected:?}");
        let channels = run.channels().unwrap().found;
        let at = |number| channels.iter().find(|of| of.channel == number && of.is_at(&place.parse().unwrap())).unwrap();
        for (number, count) in &expected {
            let name = number.map(at).map_or(format!("no stamp at {place}"), |of| {
                format!("channel {}, thread {} of process {}", of.channel, of.thread, of.pid)
            });
            assert!(ended.out.contains(&format!("{name}: {count} trace")), "{name}, {count}: {}", ended.out);
        }
        assert_eq!(expected.keys().flatten().count(), WORKERS);
        assert_eq!(ended.out.matches("\nchannel ").count() + ended.out.matches("\nno stamp").count(), expected.len());
    }
    shown("channel:app.done").said(2, &["one at most at app.done", "app.begin, app.end"]);
    shown("channel:app.gone").said(2, &["expected a point of the layout, found 'app.gone'"]);
    shown("channel:gone").said(2, &["--by", "gone"]);
}

#[test]
fn e2e_a_pipeline_with_fan_out_batches_and_retries_is_shown_right_or_refused() {
    const IDS: u64 = 400;
    let path = ["submit", "begin", "end", "batched", "done"];
    let site = Site::new("pipeline");
    let ended = Ended::of(&mut site.run_command(&text("pipeline", IDS as u32, &path, "first")));
    ended.said(3, &["time, attempt or thread tells the passages of an id apart", "an id or a kind of its own"]);
    let table = ended.json(3);
    let refused = |name: &str| stage(&table, name)["refused"].as_u64().unwrap();
    assert!(refused("app.end>app.batched") > 0, "several ends before one batch: {table:#}");
    assert_eq!((count(&table, "end-to-end"), refused("end-to-end")), (IDS, 0), "what has one beginning is told");
    let (account, mut run) = (account(&site), site.opened());
    for rule in ["first", "last", "all"] {
        let analysis = joined_by(&mut run, rule);
        let shown = right(&run, &account);
        for (name, list) in &shown {
            let row = row(&analysis, name);
            println!("{rule} {name}: {} shown, {} refused, {} missing", row.count, row.refused, row.missing);
            assert!(row.count <= list.len() as u64 && row.count > IDS / 4, "{rule} {name}: {}", row.count);
        }
        let Analysis { passages, .. } = analysis;
        println!("{rule}: {passages:?}");
        assert_eq!(passages.ids, IDS);
        assert!(passages.by_thread > 0 && passages.untold > 0 && passages.untold < passages.repeated, "{passages:?}");
    }
}
