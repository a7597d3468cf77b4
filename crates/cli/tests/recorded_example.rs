//! The example of the Cm* study as a run: `targets/cm-star` between two nodes, and what `tickscope clock example RUN`
//! makes of it.

mod site;

use std::fs;
use std::net::{SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use serde_json::{Value, json};
use site::{Ended, Experiment, Site, c_program, free_port, stage, tickscope, truth};

/// The demo's run file over loopback, with ports of its own and these cells.
fn demo(pairs: &str, words: &str, repetitions: u32) -> String {
    let text = anywhere(pairs, words, repetitions);
    text.replace("kind = \"auto\"", "kind = \"loopback\"")
}

/// The same between network namespaces, where the rights are there.
fn anywhere(pairs: &str, words: &str, repetitions: u32) -> String {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments/cm-star.toml");
    let port = ports();
    let replaced = [
        ("../build/cm-star", cm_star().display().to_string()),
        ("\"7430\"", format!("\"{port}\"")),
        ("ready = 7430", format!("ready = {port}")),
        ("probes_hz = 1000", format!("probes_hz = 500\nprobe_port = {}", free_port())),
        ("\"1,2,3\"", format!("\"{pairs}\"")),
        ("\"0,50,100,150,200\"", format!("\"{words}\"")),
        ("\"512\"", format!("\"{repetitions}\", \"--interval\", \"500\"")),
    ];
    replaced.into_iter().fold(fs::read_to_string(file).unwrap(), |text, (from, to)| {
        assert!(text.contains(from), "the run file lacks {from}");
        text.replace(from, &to)
    })
}

/// The first of three ports that nothing is bound to just now: a pair has one.
fn ports() -> u16 {
    let free = |port: u16| UdpSocket::bind(("0.0.0.0", port)).is_ok();
    loop {
        let port = free_port();
        if port < 60_000 && (1..3).all(|next| free(port + next)) {
            return port;
        }
    }
}

/// The target, compiled once a test program.
fn cm_star() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../targets/cm-star/cm-star.c");
        c_program::compile("cc", &source, &["-D_GNU_SOURCE"], "cm-star")
    })
}

fn example(site: &Site, more: &[&str]) -> Ended {
    Ended::of(tickscope(&["clock", "example", "--json"]).arg(site.run_directory()).args(more))
}

fn numbers(value: &Value) -> [i64; 2] {
    [0, 1].map(|end| value[end].as_i64().unwrap())
}

#[test]
fn e2e_every_cell_of_the_example_is_complete_and_no_stage_breaks_its_bound() {
    let site = Site::new("cm-star");
    let table = Ended::of(&mut site.run_command(&demo("1,3", "0,100,1400", 16))).json(0);
    let (known, inside) = truth(&table);
    assert!(known == inside && known >= 96 * 5, "{inside} of {known}");
    assert_eq!((&table["path_sums"]["mismatches"], &table["findings"]), (&json!(0), &json!([])));
    for stage in table["stages"].as_array().unwrap() {
        assert_eq!(
            (&stage["count"], &stage["impossible"], &stage["refused"]),
            (&json!(96), &json!(0), &json!(0)),
            "{stage}"
        );
    }
    let said: String = site.events("target").into_iter().map(|event| event.text).collect();
    assert!(
        said.contains("\"timed\": 96") && said.contains("\"wrong\": 0") && said.contains("\"abandoned\": 0"),
        "{said}"
    );

    calls_every_cell_in_an_order_of_its_own(&site);

    let found = example(&site, &[]).json(0);
    assert_eq!((&found["plan"]["pairs"], &found["plan"]["words"]), (&json!([1, 3]), &json!([0, 100, 1400])));
    assert_eq!((&found["run"]["incomplete"], &found["run"]["left_out"]), (&json!(0), &json!(0)));
    assert_eq!((&found["version"], &found["run"]["truth"]), (&json!(1), &json!([known, inside])));
    let loads = found["loads"].as_array().unwrap();
    assert_eq!(loads.len(), 2);
    for load in loads {
        // Every repetition has its zero-time test, judged by all five methods.
        assert_eq!((&load["zero"]["trials"], load["zero"]["outcomes"].as_array().unwrap().len()), (&json!(48), 5));
        assert!(load["latency_slope_clock_ns"].as_f64().unwrap() > 0.0 && load["rpc_slope"]["median_ns"].is_f64());
        for cell in load["cells"].as_array().unwrap() {
            let [lo, hi] = numbers(&cell["guaranteed"]["latency_median"]["ticks"]);
            let [call_lo, call_hi] = numbers(&cell["guaranteed"]["rpc_median"]["ticks"]);
            // A call begins and ends on one counter, whose readings alone are open; a message does not.
            assert!(0 < call_hi - call_lo && call_hi - call_lo < hi - lo && lo <= call_hi, "{cell}");
            assert!(cell["latency"]["deviation_ns"].is_f64() && cell["rpc"]["deviation_ns"].is_f64());
        }
    }
}

/// In each repetition.
fn calls_every_cell_in_an_order_of_its_own(site: &Site) {
    let sent = site.opened().stamps(&"client.send".parse().unwrap()).unwrap().read_all().unwrap();
    let cells: Vec<i32> = sent.kind.iter().map(|kind| *kind.unwrap()).collect();
    let orders: Vec<&[i32]> = cells.chunks(6).collect();
    assert!(sent.id.is_sorted() && orders.len() == 16 && orders.iter().any(|order| *order != orders[0]), "{orders:?}");
    for order in orders {
        let mut order = order.to_vec();
        order.sort_unstable();
        assert_eq!(order, [100_000, 100_100, 101_400, 300_000, 300_100, 301_400]);
    }
}

#[test]
fn e2e_the_guarantee_of_a_cell_is_that_of_the_runs_own_table() {
    let site = Site::new("cm-star-cell");
    let table = Ended::of(&mut site.run_command(&anywhere("1", "50", 24))).json(0);
    let found = example(&site, &[]).json(0);
    let guaranteed = &found["loads"][0]["cells"][0]["guaranteed"];
    for (of, name, quantile) in
        [("latency_median", "client.send>server.received", "p50"), ("rpc_median", "end-to-end", "p50")]
    {
        let told = &stage(&table, name)[quantile];
        let told = ["lo_ticks", "hi_ticks"].map(|end| told[end].as_i64().unwrap());
        assert_eq!(numbers(&guaranteed[of]["ticks"]), told, "{of}");
    }
}

#[test]
fn e2e_the_page_of_a_run_has_both_figures_and_its_guarantees() {
    let site = Site::new("cm-star-page");
    assert_eq!(Ended::of(&mut site.run_command(&demo("1,2", "0,100", 8))).code, Some(0));
    let place = site.path("example.html");
    let text = Ended::of(tickscope(&["clock", "example"]).arg(site.run_directory()).arg("--html").arg(&place));
    assert_eq!(text.code, Some(0), "{text:?}");
    for words in [
        "From stamp to stamp, nothing subtracted",
        "what a word costs a message by",
        "known truth",
        "published: StarOS",
    ] {
        assert!(text.out.contains(words), "expected '{words}' in: {}", text.out);
    }
    let html = fs::read_to_string(place).unwrap();
    assert_eq!((html.matches("<svg viewBox").count(), html.matches("<polyline").count()), (2, 4));
    assert!(
        html.contains("what a word costs a message by")
            && html.contains("Guaranteed intervals")
            && html.contains("3.57")
    );
    assert!(html.contains("default-src 'none'") && !html.contains("<script"));

    // As any command that reads a run: traces that are not there are joined, damage comes before figures.
    fs::remove_dir_all(site.path("run/traces")).unwrap();
    let again = example(&site, &[]);
    again.said(1, &["joined now from", "do not trust the figures"]);
    assert_eq!(again.out, example(&site, &[]).out, "whoever joined them");
}

#[test]
fn e2e_a_run_that_contradicts_the_known_truth_ends_with_exit_code_3() {
    let site = Site::new("cm-star-moved");
    let client = "[[node]]\nname = \"client\"";
    let map = "inject = { offset = 1000000000, drift_ppb = 12500, wander_ppb = 0, wander_period = 20000000000 }";
    let text = demo("1", "0,50", 8).replace(client, &format!("{map}\n{client}"));
    let table = Ended::of(&mut site.run_command(&text)).json(0);
    let (known, inside) = truth(&table);
    assert!(known == inside && known >= 16 * 5);
    assert_eq!(example(&site, &[]).json(0)["run"]["truth"], json!([known, inside]));
    // As if the server's counter had been that much further ahead: beyond any interval of this run.
    let mut run = site.opened();
    let mut manifest = run.manifest().clone();
    let injected = manifest.nodes.iter_mut().find_map(|node| node.injected.as_mut()).unwrap();
    assert_eq!(injected.matches(":1000000000:12500:").count(), 1, "{injected}");
    *injected = injected.replace(":1000000000:12500:", ":2000000000:12500:");
    run.set_manifest(manifest).unwrap();
    run.write_digests().unwrap(); // not damaged, but wrong
    let moved = example(&site, &[]);
    moved.said(3, &["outside their intervals", "a false bound"]);
    assert_eq!(moved.json(3)["run"]["truth"][1], inside - 32, "both messages of a call cross between the nodes");
}

/// Carries datagrams between the client and the server at `port`, but not the 8th timed request, and the 12th timed
/// answer twice; the very first answer only with the second, when the client has given it up and asked again.
struct Carrier {
    port: u16,
    over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Carrier {
    fn to(port: u16) -> Self {
        let front = Arc::new(socket());
        let back = Arc::new(socket());
        back.connect(("127.0.0.1", port)).unwrap();
        let (over, client) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(None)));
        let carrier = front.local_addr().unwrap().port();
        let (requests, answers) = ((front.clone(), back.clone()), (front, back));
        let (asked, answered) = ((over.clone(), client.clone()), (over.clone(), client));
        let there = thread::spawn(move || {
            let mut timed = 0;
            carry(&asked.0, &requests.0, |bytes, from| {
                *asked.1.lock().unwrap() = Some(from);
                timed += u32::from(is_timed(bytes));
                if !(is_timed(bytes) && timed == 8) {
                    let _ = requests.1.send(bytes); // the server may not be there yet: then the client asks again
                }
            });
        });
        let back_again = thread::spawn(move || {
            let (mut timed, mut held) = (0, None);
            carry(&answered.0, &answers.1, |bytes, _| {
                timed += u32::from(is_timed(bytes));
                let Some(first) = &mut held else {
                    held = Some(bytes.to_vec());
                    return;
                };
                let client = answered.1.lock().unwrap().expect("an answer follows a request");
                if !first.is_empty() {
                    answers.0.send_to(&std::mem::take(first), client).unwrap();
                }
                for _ in 0..if is_timed(bytes) && timed == 12 { 2 } else { 1 } {
                    answers.0.send_to(bytes, client).unwrap();
                }
            });
        });
        Self { port: carrier, over, threads: vec![there, back_again] }
    }

    fn end(self) {
        self.over.store(true, Relaxed);
        self.threads.into_iter().for_each(|thread| thread.join().unwrap());
    }
}

fn socket() -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
    socket
}

fn carry(over: &AtomicBool, socket: &UdpSocket, mut each: impl FnMut(&[u8], SocketAddr)) {
    let mut bytes = [0; 4096];
    while !over.load(Relaxed) {
        if let Ok((length, from)) = socket.recv_from(&mut bytes) {
            each(&bytes[..length], from);
        }
    }
}

/// By the cell in a message's head: `targets/cm-star/messages.h`.
fn is_timed(bytes: &[u8]) -> bool {
    bytes[24..28] != [0; 4]
}

#[test]
fn e2e_a_lost_answer_costs_its_repetition_and_an_answer_that_comes_twice_nothing() {
    let site = Site::new("cm-star-lost");
    let port = ports();
    let carrier = Carrier::to(port);
    let text = demo("1", "0,50,100,150,200", 8);
    // The server where it is, the client by way of the carrier.
    let (server, client) = text.split_once("[[node]]\nname = \"client\"").unwrap();
    let at = |text: &str, address: &str, port: u16| {
        let (before, after) = text.split_once(&format!("\"{address}\", \"")).unwrap();
        let (_, after) = after.split_once('"').unwrap();
        format!("{before}\"127.0.0.1\", \"{port}\"{after}")
    };
    let (words, _) = server.split_once("ready = ").unwrap();
    let server = format!("{}ready = {port}\n", at(words, "{address}", port));
    let client = at(client, "{server.address}", carrier.port);
    let table = Ended::of(&mut site.run_command(&format!("{server}[[node]]\nname = \"client\"{client}"))).json(0);
    carrier.end();
    assert_eq!(table["path_sums"]["mismatches"], 0);
    let said: String = site.events("target").into_iter().map(|event| event.text).collect();
    assert!(said.contains("\"abandoned\": 1") && said.contains("\"strangers\": 1"), "{said}");
    let found = example(&site, &[]).json(0);
    // The second repetition was at its third call.
    let run = &found["run"];
    assert_eq!((&run["abandoned"], &run["incomplete"], &run["left_out"]), (&json!(1), &json!(1), &json!(2)));
    assert_eq!((&found["plan"]["repetitions"], &found["loads"][0]["zero"]["trials"]), (&json!(8), &json!(40)));
}

#[test]
fn e2e_only_a_run_of_the_example_has_its_figures() {
    let site = Site::new("no-cm-star");
    assert_eq!(site.run(&Experiment::new(0.5, 200)).code, Some(0));
    example(&site, &[]).said(2, &["expected a run of targets/cm-star", "experiments/cm-star.toml"]);
}
