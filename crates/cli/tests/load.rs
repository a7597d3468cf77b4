//! `tickscope load`: what reaches real sockets, whose fault lateness is, and what is told where it goes wrong.

mod site;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::{self, JoinHandle};

use serde_json::Value;
use site::{Ended, Site, c_program, own_address, tickscope};

fn load(transport: &str, address: SocketAddr, options: &[&str]) -> Command {
    let mut command = tickscope(&["load", transport]);
    command.arg(address.to_string()).args(options);
    command
}

/// What it printed in its one line, if it ended with that code.
fn report(command: &mut Command, code: i32) -> Value {
    let ended = Ended::of(command);
    assert_eq!(ended.code, Some(code), "{ended:?}");
    assert_eq!(ended.out.lines().count(), 1, "{ended:?}");
    serde_json::from_str(&ended.out).unwrap()
}

/// A listener of this test's own, and a thread for each of so many connections.
fn serve<T: Send + 'static>(
    connections: usize,
    each: impl Fn(TcpStream) -> T + Send + Clone + 'static,
) -> (SocketAddr, JoinHandle<Vec<T>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let all = move || {
        let threads: Vec<_> = (0..connections)
            .map(|_| {
                let (stream, each) = (listener.accept().unwrap().0, each.clone());
                thread::spawn(move || each(stream))
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    };
    (address, thread::spawn(all))
}

fn all_of(mut stream: TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).unwrap();
    bytes
}

#[test]
fn e2e_every_tuple_of_several_senders_comes_over_tcp_once_with_its_own_id() {
    let (address, bytes) = serve(3, all_of);
    let options = ["--rate", "5000", "--seconds", "0.2", "--senders", "3", "--size", "20", "--id-at", "7"];
    let found = report(&mut load("tcp", address, &options), 0);
    assert!(found["sent"] == 1000 && found["unsent"] == 0 && found["bytes"] == 20_000, "{found:#}");
    let bytes = bytes.join().unwrap().concat();
    let id = |tuple: &[u8]| i64::from_le_bytes(tuple[7..15].try_into().unwrap());
    let mut ids: Vec<i64> = bytes.chunks(20).map(id).collect();
    ids.sort_unstable();
    assert!(ids.into_iter().eq(0..1000));
}

#[test]
fn e2e_lines_of_a_file_are_sent_in_turn_with_their_ids_as_digits_and_their_answers_counted() {
    let site = Site::new("load-lines");
    let lines = site.path("lines");
    std::fs::write(&lines, format!("{}a\n{}bb\n", "x".repeat(19), "x".repeat(19))).unwrap();
    let (address, lines_back) = serve(1, |mut stream| {
        let mut text = String::new();
        // It answers each hundredth as Redis answers what it refuses.
        let mut piece = [0; 1000];
        while let Ok(length @ 1..) = stream.read(&mut piece) {
            for byte in &piece[..length] {
                text.push(*byte as char);
                if *byte == b'\n' {
                    let refused = text.lines().count().is_multiple_of(100);
                    stream.write_all(if refused { b"-ERR\r\n" } else { b"+OK\r\n" }).unwrap();
                }
            }
        }
        text
    });
    let options = ["--rate", "1000", "--seconds", "0.3", "--id-text", "--replies", "lines", "--first-id", "7"];
    let found = report(load("tcp", address, &options).args(["--linger", "60"]).arg("--lines").arg(&lines), 0);
    assert!(found["sent"] == 300 && found["replies"] == 300 && found["refused"] == 3, "{found:#}");
    let text = lines_back.join().unwrap().concat();
    let expected = (0..300).map(|at| format!("{:019}{}", at + 7, if at % 2 == 0 { "a" } else { "bb" }));
    assert!(text.lines().eq(expected));
}

#[test]
fn e2e_datagrams_that_come_back_are_told_apart_by_their_ids() {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    thread::spawn(move || {
        let mut bytes = [0; 1000];
        while let Ok((length, from)) = socket.recv_from(&mut bytes) {
            socket.send_to(&bytes[..length], from).unwrap();
        }
    });
    let options = ["--rate", "1000", "--seconds", "0.2", "--senders", "2", "--replies", "echo"];
    let found = report(&mut load("udp", address, &options), 0);
    let replies = found["replies"].as_u64().unwrap();
    assert!(found["sent"] == 200 && (1..=200).contains(&replies) && found["strange"] == 0, "{found:#}");
}

#[test]
fn e2e_an_echo_that_comes_twice_is_strange_and_makes_the_load_invalid() {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    thread::spawn(move || {
        let mut bytes = [0; 1000];
        while let Ok((length, from)) = socket.recv_from(&mut bytes) {
            for _ in 0..2 {
                socket.send_to(&bytes[..length], from).unwrap();
            }
        }
    });
    let options = ["--rate", "500", "--seconds", "0.2", "--senders", "2", "--replies", "echo", "--linger", "60"];
    let found = report(&mut load("udp", address, &options), 0);
    // The last one's second echo may come after all have one.
    assert!(found["replies"] == 100 && found["strange"].as_u64().unwrap() >= 90, "{found:#}");
    assert!(found["valid"] == false && found["why"].to_string().contains("unexpected; replies cannot be"), "{found:#}");
}

#[test]
fn e2e_a_tuple_that_is_refused_is_stamped_as_such_and_has_no_reply() {
    let (address, _) = serve(1, |mut stream| {
        let (mut piece, mut answered) = ([0; 4096], 0_u64);
        while let Ok(length @ 1..) = stream.read(&mut piece) {
            for _ in piece[..length].iter().filter(|&&byte| byte == b'\n') {
                answered += 1;
                stream.write_all(if answered.is_multiple_of(4) { b"-ERR\n" } else { b"+OK\n" }).unwrap();
            }
        }
    });
    let site = Site::new("load-refused");
    let lines = site.path("lines");
    std::fs::write(&lines, "PING\n").unwrap();
    let (tickscope, lines) = (env!("CARGO_BIN_EXE_tickscope"), lines.display());
    let text = format!(
        "run = {{ name = \"refused\", seconds = 0.2 }}\nnetwork.kind = \"loopback\"\nclock.reference = \"load\"\n\
         [layout]\npath = [\"load.send\", \"load.reply\"]\nbranches = [\"load.send > load.refused\"]\n\
         [[node]]\nname = \"load\"\nends_run = true\ncommand = [\"{tickscope}\", \"load\", \"tcp\", \
         \"{address}\", \"--rate\", \"1000\", \"--seconds\", \"0.2\", \"--lines\", \"{lines}\", \"--replies\", \
         \"lines\", \"--linger\", \"60\"]\n"
    );
    let shown = Ended::of(site.run_command(&text).stderr(Stdio::piped())).json(0);
    let count = |name: &str| {
        let stages = shown["stages"].as_array().unwrap();
        stages.iter().find(|stage| stage["stage"] == name).unwrap_or_else(|| panic!("{shown:#}"))["count"].clone()
    };
    assert_eq!((count("load.send>load.reply"), count("load.send>load.refused")), (150.into(), 50.into()));
}

#[test]
fn e2e_a_target_that_answers_nothing_ends_with_1_where_replies_were_asked_for() {
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let options = ["--rate", "100", "--seconds", "0.1", "--linger", "0.1", "--size", "65507"];
    let mut load = load("udp", silent.local_addr().unwrap(), &options);
    assert_eq!(report(&mut load, 0)["sent"], 10, "nobody asked for replies");
    let ended = Ended::of(load.args(["--replies", "echo"]));
    ended.said(1, &["expected replies to 10 tuples, found none", "--replies"]);
    assert_eq!(serde_json::from_str::<Value>(&ended.out).unwrap()["replies"], 0);
}

#[test]
fn e2e_a_response_of_http_that_refuses_is_counted() {
    let (address, requests) = serve(1, |mut stream| {
        let (mut text, mut piece, mut requests) = (Vec::new(), [0; 4096], 0_u64);
        while let Ok(length @ 1..) = stream.read(&mut piece) {
            text.extend_from_slice(&piece[..length]);
            while let Some(end) = text.windows(4).position(|four| four == b"\r\n\r\n") {
                let head = String::from_utf8_lossy(&text[..end]).into_owned();
                assert!(head.starts_with("POST /events HTTP/1.1\r\nHost: 127.0.0.1:"), "{head}");
                assert!(head.contains("\r\nContent-Length: 100"), "{head}");
                if text.len() < end + 104 {
                    break;
                }
                text.drain(..end + 104);
                requests += 1;
                let status = if requests.is_multiple_of(50) { "503 No" } else { "200 OK" };
                write!(stream, "HTTP/1.1 {status}\r\nContent-Length: 2\r\n\r\nhi").unwrap();
            }
        }
        requests
    });
    let options = ["--rate", "1000", "--seconds", "0.2", "--path", "/events", "--linger", "60"];
    let found = report(&mut load("http", address, &options), 0);
    assert!(found["replies"] == 200 && found["refused"] == 4 && found["strange"] == 0, "{found:#}");
    assert_eq!(requests.join().unwrap(), [200]);
}

#[test]
fn e2e_a_socket_that_takes_nothing_is_back_pressure_and_no_fault_of_the_generator() {
    let (go, wait) = std::sync::mpsc::channel::<()>();
    let wait = std::sync::Arc::new(std::sync::Mutex::new(wait));
    let (address, read) = serve(1, move |stream| {
        let _ = wait.lock().unwrap().recv();
        all_of(stream).len()
    });
    // Some 100 MB are more than any socket holds.
    let options = ["--rate", "1000", "--seconds", "1", "--size", "100000", "--linger", "0.1", "--late", "60000"];
    let found = report(&mut load("tcp", address, &options), 0);
    assert!(found["blocked_share"].as_f64().unwrap() > 0.0, "{found:#}");
    assert!(found["unsent"].as_u64().unwrap() > 0 && found["schedule"]["unsent"] == 0, "{found:#}");
    drop(go);
    assert!(read.join().unwrap()[0] as u64 <= found["bytes"].as_u64().unwrap());
}

#[test]
fn e2e_a_target_that_goes_away_in_mid_load_ends_it_with_its_reason() {
    let (address, _) = serve(1, |mut stream| {
        let mut some = [0; 1000];
        stream.read_exact(&mut some).unwrap();
    });
    let mut command = load("tcp", address, &["--rate", "2000", "--seconds", "60", "--size", "100"]);
    let ended = Ended::of(&mut command);
    ended.said(1, &["before its time", "was lost"]);
    let found: Value = serde_json::from_str(&ended.out).unwrap();
    assert!(found["ended"].as_str().unwrap().contains("lost") && found["unsent"].as_u64().unwrap() > 0, "{found:#}");
    assert_eq!(found["bytes"].as_u64().unwrap(), 100 * found["sent"].as_u64().unwrap(), "{found:#}");
}

#[test]
fn e2e_what_cannot_be_sent_is_refused_before_anything_is() {
    let nowhere: SocketAddr = "127.0.0.1:1".parse().unwrap();
    for (transport, options, words) in [
        ("tcp", &["--rate", "0"][..], "--rate"),
        ("tcp", &["--size", "7"], "8 bytes for an id"),
        ("tcp", &["--size", "20", "--id-text", "--id-at", "2"], "19 bytes for an id"),
        ("tcp", &["--senders", "0"], "senders"),
        ("zmq", &["--replies", "lines"], "zmq has none"),
        ("tcp", &["--lines", "/nowhere"], "/nowhere"),
        ("http", &["--path", "a b"], "--path"),
        ("tcp", &["--linger=-1"], "--linger"),
        ("tcp", &["--pill", "7", "--replies", "lines"], "--pill"),
        ("tcp", &["--pill", "7", "--rate", "10", "--seconds", "1"], "a pill whose id no tuple has, found 7"),
        ("kafka", &[], "--topic: expected a name"),
        ("kafka", &["--topic", "a/b"], "--topic: expected a name"),
        ("kafka", &["--topic", "a", "--replies", "echo"], "http and kafka their own"),
        ("udp", &["--replies", "lines"], "expected replies that udp has, found lines"),
        ("udp", &["--size", "65508"], "at most 65507 bytes over udp, found one of 65508"),
    ] {
        Ended::of(&mut load(transport, nowhere, options)).said(2, &[words]);
    }
    Ended::of(tickscope(&["load", "tcp", "nowhere"]).args(["--connect-within", "0"])).said(2, &["HOST:PORT"]);
    Ended::of(&mut load("tcp", nowhere, &["--connect-within", "0"])).said(1, &["cannot connect", "--connect-within"]);
    // What listens there speaks another language.
    let (address, _) = serve(1, |mut stream| stream.write_all(&[b'S'; 64]).unwrap());
    Ended::of(&mut load("zmq", address, &[])).said(1, &["ZMTP"]);
    let (address, _) = serve(1, |mut stream| stream.write_all(&[b'S'; 64]).unwrap());
    Ended::of(&mut load("kafka", address, &["--topic", "a"])).said(1, &["expected Kafka's metadata of 'a'"]);
}

#[test]
fn e2e_a_load_over_zeromq_has_its_due_ticks_in_the_table_of_the_run() {
    let site = Site::new("load-zmq");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../targets/zmq-pull/zmq-pull.c");
    let pull = c_program::compile("cc", &source, &["-std=gnu11"], "zmq-pull");
    let (pull, tickscope, address) = (pull.display(), env!("CARGO_BIN_EXE_tickscope"), own_address());
    let text = format!(
        "run = {{ name = \"zmq\", seconds = 0.3 }}\nnetwork.kind = \"loopback\"\nclock.reference = \"load\"\n\
         [layout]\npath = [\"load.due\", \"load.send\", \"pull.received\", \"pull.served\"]\n\
         [[node]]\nname = \"pull\"\naddress = \"{address}\"\n\
         command = [\"{pull}\", \"{{address}}\", \"7400\"]\nready = 7400\n\
         [[node]]\nname = \"load\"\nends_run = true\ncommand = [\"{tickscope}\", \"load\", \"zmq\", \
         \"{{pull.address}}:7400\", \"--rate\", \"1000\", \"--senders\", \"2\", \"--size\", \"300\", \"--seconds\", \
         \"{{seconds}}\", \"--linger\", \"60\"]\n"
    );
    let shown = Ended::of(site.run_command(&text).stderr(Stdio::piped())).json(0);
    let stages = shown["stages"].as_array().unwrap();
    assert!(stages.iter().all(|stage| stage["count"] == 300), "{shown:#}");
    let names: Vec<_> = stages.iter().map(|stage| stage["stage"].as_str().unwrap()).collect();
    assert_eq!(names, ["load.due>load.send", "load.send>pull.received", "pull.received>pull.served", "end-to-end"]);
    // However long the memory that it stamps into took to make, nothing was due before.
    let due = site.opened().stamps(&"load.due".parse().unwrap()).unwrap().read_all().unwrap().tick;
    let late: Vec<_> = site.events("pool-late").into_iter().filter(|event| event.node == "load").collect();
    assert!(late.iter().all(|event| event.until.is_some_and(|until| due.iter().all(|due| until < *due))), "{late:?}");
}

#[test]
fn e2e_a_pill_ends_the_stream_whose_span_is_told() {
    let site = Site::new("load-pill");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../targets/zmq-pull/zmq-pull.c");
    let pull = c_program::compile("cc", &source, &["-std=gnu11"], "zmq-pull");
    let text = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments/ingestion.toml"));
    let text = text
        .unwrap()
        .replace("../build/zmq-pull", &pull.display().to_string())
        .replace("../target/release/tickscope", env!("CARGO_BIN_EXE_tickscope"))
        .replace("seconds = 5", "seconds = 0.2")
        .replace("\"--size\"", "\"--linger\", \"60\", \"--size\"")
        .replace("name = \"pull\"", &format!("name = \"pull\"\naddress = \"{}\"", own_address()));
    let stream = &Ended::of(&mut site.run_command(&text)).json(0)["stream"];
    assert_eq!((&stream["sinks"], &stream["sinks_ended"]), (&1.into(), &1.into()), "{stream}");
    assert!(stream["lo_ticks"].as_i64().unwrap() > 0 && stream["unseen"].as_array().unwrap().is_empty(), "{stream}");
    let counts = Ended::of(tickscope(&["show", "--counts", "--json"]).arg(site.run_directory())).json(0);
    assert!(counts.to_string().contains("4001"), "messages and a pill: {counts:#}");
}
