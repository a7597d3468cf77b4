//! Limits of stages as their user meets them: in a run file, in a file of their own, and by the exit code.

mod site;

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;
use site::{Ended, Site, free_port, tickscope};
use tickscope_analysis::{Query, spans};
use tickscope_stamp::{Channel, Fields, Ordering};
use tickscope_store::Run;

const GOLDEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../store/tests/golden/v2");
/// Set for the process that this test program is started as again.
const WRITER: &str = "TICKSCOPE_LIMITS_WRITER";
const IDS: i64 = 400;
/// What every 20th id is delayed by.
const DELAY: Duration = Duration::from_millis(5);

fn is_delayed(id: i64) -> bool {
    id % 20 == 7
}

/// Stamps two points for each id, and loses time in between for some.
#[test]
fn a_writer_of_the_tests_below() {
    if std::env::var_os(WRITER).is_none() {
        return;
    }
    let begin = Channel::open("begin", Ordering::Before, Fields::Slim).unwrap();
    let end = Channel::open("end", Ordering::After, Fields::Slim).unwrap();
    for id in 0..IDS {
        begin.stamp(id);
        let began = Instant::now();
        while is_delayed(id) && began.elapsed() < DELAY {
            std::hint::spin_loop();
        }
        end.stamp(id);
    }
}

/// The run file of the writer, with a layout and more.
fn run_file(more: &str) -> String {
    let own = std::env::current_exe().unwrap();
    format!(
        "run = {{ name = \"limits\", seconds = 60 }}\nnetwork.kind = \"loopback\"\n[clock]\nreference = \"n\"\n\
         probe_port = {}\n[[node]]\nname = \"n\"\nends_run = true\ncommand = [\"env\", \"{WRITER}=1\", \"{}\", \
         \"--exact\", \"a_writer_of_the_tests_below\"]\n[layout]\npath = [\"n.begin\", \"n.end\"]\n{more}",
        free_port(),
        own.display()
    )
}

fn limit(stage: &str, rest: &str) -> String {
    format!("[[limit]]\nstage = \"{stage}\"\n{rest}\n")
}

fn ran(site: &Site, more: &str) -> Ended {
    Ended::of(&mut site.run_command(&run_file(more)))
}

/// `show` of the run with these limits instead of its own.
fn asked(site: &Site, limits: &str, more: &[&str]) -> Ended {
    let place = site.path("limits.toml");
    fs::write(&place, limits).unwrap();
    Ended::of(tickscope(&["show"]).arg(site.run_directory()).arg("--limits").arg(place).args(more))
}

/// The table of the run by its own limits, without its line breaks, has these words.
#[track_caller]
fn shown_again(site: &Site, code: i32, words: &[&str]) {
    let ended = Ended::of(tickscope(&["show"]).arg(site.run_directory()));
    let text = ended.out.split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(ended.code, Some(code), "{ended:?}");
    words.iter().for_each(|words| assert!(text.contains(words), "{words}: {text}"));
}

fn verdicts(json: &Value) -> Vec<&str> {
    json["limits"].as_array().unwrap().iter().map(|limit| limit["verdict"].as_str().unwrap()).collect()
}

#[test]
fn e2e_a_delay_that_a_program_makes_breaks_its_limit_by_id_and_a_wide_limit_holds() {
    let site = Site::new("limits");
    let at_most = DELAY.as_nanos() as u64 / 2;
    let ended = ran(&site, &limit("n.begin > n.end", &format!("at_most = \"{at_most}ns\"")));
    let shown = ended.json(4);
    assert!(ended.err.contains("violated, 1 of 1 limit: n.begin>n.end"), "{}", ended.err);
    shown_again(
        &site,
        4,
        &["limit violated: n.begin>n.end at most 2.5 ms: broken by", "of 400 traces, furthest by ids"],
    );
    let found = &shown["limits"][0];
    // Each trace by itself, at the rates that the reference may have.
    let all = spans(&Run::open(&site.run_directory()).unwrap(), &Query::default()).unwrap().traces;
    let (hertz, ppm) = (&shown["frequency"]["hertz"], &shown["frequency"]["tolerance_ppm"]);
    let [hertz, ppm] = [hertz, ppm].map(|number| i128::from(number.as_u64().unwrap()));
    let at = |ticks: i64| i128::from(ticks) * 1_000_000_000 * 1_000_000;
    let limit_at = |rate: i128| i128::from(at_most) * hertz * rate;
    let is_broken = |span: tickscope_analysis::Span| at(span.lo) > limit_at(1_000_000 + ppm);
    let is_kept = |span: tickscope_analysis::Span| at(span.hi) <= limit_at(1_000_000 - ppm);
    let of = |is: &dyn Fn(tickscope_analysis::Span) -> bool| {
        all.iter().filter(|trace| is(trace.stages[0].unwrap())).map(|trace| trace.id).collect::<Vec<_>>()
    };
    let (broken, kept) = (of(&is_broken), of(&is_kept));
    assert_eq!(all.len() as i64, IDS);
    assert!((0..IDS).filter(|&id| is_delayed(id)).all(|id| broken.contains(&id)), "{broken:?}");
    assert_eq!(
        (found["broken"].as_u64(), found["kept"].as_u64()),
        (Some(broken.len() as u64), Some(kept.len() as u64))
    );
    let worst = found["worst"].as_array().unwrap();
    assert!(worst.len() == 10 && worst.iter().all(|trace| broken.contains(&trace["id"].as_i64().unwrap())), "{found}");

    // As long as a day; and as long as the longest was, which its own interval leaves open.
    let wide = limit("end-to-end", "at_most = \"86400s\"");
    let holds = asked(&site, &wide, &[]);
    assert_eq!(holds.code, Some(0), "{holds:?}");
    assert!(holds.out.contains("limit holds: end-to-end at most 86400 s: kept by 400 of 400 traces"), "{}", holds.out);
    let longest = (shown["stages"][0]["max"]["ns"].as_f64().unwrap()) as u64;
    let open = limit("n.begin>n.end", &format!("at_most = \"{longest}ns\""));
    let ended = asked(&site, &format!("{wide}{open}"), &["--json"]);
    assert_eq!(verdicts(&ended.json(5)), ["holds", "not-resolved"]);
    let all = format!("{wide}{open}{}", limit("n.begin > n.end", "at_most = \"1ms\"\nname = \"tight\"\nshare = 0.999"));
    let ended = asked(&site, &all, &["--json"]);
    assert_eq!(verdicts(&ended.json(4)), ["holds", "not-resolved", "violated"]);
    assert!(ended.err.contains("violated, 1 of 3 limits: tight (n.begin>n.end)"), "{}", ended.err);
    let page = Ended::of(tickscope(&["report", "--out", "-"]).arg(site.run_directory()));
    assert_eq!(page.code, Some(4));
    assert!(page.out.contains("<strong class=\"bad\">limit violated</strong>: n.begin"), "on the page");
    asked(&site, &limit("n.begin > n.ende", "at_most = \"1s\""), &[])
        .said(2, &["limits.toml: line 1:", "'n.begin>n.end'"]);
    asked(&site, "[layout]\n", &[]).said(2, &["expected a [[limit]]"]);
    let by = asked(&site, &wide, &["--by", "kind"]);
    assert_eq!(by.code, Some(2), "{}", by.err);
}

#[test]
fn e2e_what_policies_leave_out_is_told_and_points_that_only_count_resolve_no_limit() {
    let site = Site::new("thinned");
    let wide = limit("n.begin > n.end", "at_most = \"86400s\"");
    let policy = |points: &str, policy: &str| format!("[[policy]]\nchannels = \"{points}\"\npolicy = \"{policy}\"\n");
    let ended = ran(&site, &format!("{wide}{}", policy("end", "every 4")));
    let found = &ended.json(0)["limits"][0];
    assert_eq!(found["verdict"], "holds", "{found}");
    let [traces, missing, left_out] = ["traces", "missing", "left_out"].map(|key| found[key].as_i64().unwrap());
    assert_eq!((traces, missing, left_out), (IDS / 4, 0, IDS - IDS / 4), "{found}");
    assert_eq!(found["thinned"][0], "n.end (every 4)");
    shown_again(&site, 0, &["300 more traces lack one where policies leave some out", "keep alone: n.end (every 4)"]);

    let site = Site::new("counted");
    let ended = ran(&site, &format!("{wide}{}", policy("*", "count 10ms")));
    assert_eq!(ended.json(5)["limits"][0]["reason"], "no-trace");
}

#[test]
fn e2e_a_finding_and_damage_come_before_limits_which_they_leave_unresolved() {
    let site = Site::new("doubt");
    assert!(Command::new("cp").arg("-r").args([Path::new(GOLDEN), &site.run_directory()]).status().unwrap().success());
    let wide = limit("client.send > client.sent", "at_most = \"86400s\"");
    assert_eq!(verdicts(&asked(&site, &wide, &["--json"]).json(0)), ["holds"]);
    let place = site.run_directory().join("run.json");
    let kept = fs::read_to_string(&place).unwrap();
    fs::write(&place, format!("{kept} ")).unwrap();
    let json = asked(&site, &wide, &["--json"]);
    assert_eq!(json.code, Some(1), "a file that changed");
    let table: Value = serde_json::from_str(&json.out).unwrap();
    assert_eq!((verdicts(&table)[0], &table["limits"][0]["reason"]), ("not-resolved", &Value::from("finding")));
    fs::write(&place, kept).unwrap();
    assert_eq!(verdicts(&asked(&site, &wide, &["--json"]).json(0)), ["holds"]);
    let mut run = Run::open(&site.run_directory()).unwrap();
    let mut manifest = run.manifest().clone();
    manifest.nodes[0].counter.invariant = false;
    run.set_manifest(manifest).unwrap();
    run.write_digests().unwrap();
    let table = asked(&site, &wide, &["--json"]).json(3);
    assert_eq!((verdicts(&table)[0], &table["limits"][0]["reason"]), ("not-resolved", &Value::from("finding")));
}
