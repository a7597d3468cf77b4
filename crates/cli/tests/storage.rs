//! Runs whose segments go from their nodes straight to object storage: a server of this test, which refuses, cuts off
//! and is slow, and parts that are killed meanwhile.
//!
//! Each witness counts the stamps that returned; each of them must be in storage once, or in a count of losses.

mod site;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use md5::{Digest, Md5};
use site::c_program::{ReturnedCounts, compile_with};
use site::{Ended, Site, few_or_all, free_port, tickscope, within};
use tickscope_store::{Paths, Run, RunState, read_channels};
use tickscope_tick::base64;

const NODES: [&str; 2] = ["a", "b"];
/// Stamps of each node: some segments of each point, since a quarter of the small pool is one.
const STAMPS: u64 = 12_000;

/// How a server behaves.
#[derive(Clone, Copy, Default)]
struct Faults {
    /// In so many requests to put, one is answered by 503, and one is cut off in the middle; 0: none.
    every: u64,
    /// How long a body takes, ms.
    slow_ms: u64,
    /// Nothing is taken below this folder of the run.
    refused: Option<&'static str>,
    /// So many segments of programs are answered as if they were kept: nothing of them is, or half.
    lies: u64,
}

/// A server of objects, by paths below the bucket `bucket`.
struct Server {
    address: String,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    objects: Mutex<BTreeMap<String, Vec<u8>>>,
    /// Segments of programs, and the contents that each had.
    contents: Mutex<BTreeMap<String, BTreeSet<Vec<u8>>>>,
    faults: Mutex<Faults>,
    puts: AtomicU64,
    failed: AtomicU64,
    lied: AtomicU64,
}

impl Server {
    fn new(faults: Faults) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let state = Arc::new(State { faults: Mutex::new(faults), ..State::default() });
        let of_server = Arc::clone(&state);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let state = Arc::clone(&of_server);
                std::thread::spawn(move || state.answer(stream));
            }
        });
        Self { address, state }
    }

    fn become_sound(&self) {
        *self.state.faults.lock().unwrap() = Faults::default();
    }

    fn paths(&self) -> Vec<String> {
        self.state.objects.lock().unwrap().keys().cloned().collect()
    }

    fn put(&self, path: &str, content: &str) {
        self.state.objects.lock().unwrap().insert(path.into(), content.into());
    }

    /// Copies the run `run` into a folder, as any reader would fetch it.
    fn fetch(&self, folder: &std::path::Path) -> Run {
        for (path, content) in &*self.state.objects.lock().unwrap() {
            let place = folder.join(path.strip_prefix("runs/run/").unwrap());
            fs::create_dir_all(place.parent().unwrap()).unwrap();
            fs::write(place, content).unwrap();
        }
        Run::open(folder).unwrap()
    }
}

impl State {
    fn answer(&self, stream: TcpStream) {
        let mut reader = BufReader::new(&stream);
        let mut line = String::new();
        if reader.read_line(&mut line).is_err() || line.is_empty() {
            return;
        }
        let mut words = line.split_whitespace();
        let (method, target) = (words.next().unwrap().to_owned(), words.next().unwrap().to_owned());
        let mut headers = BTreeMap::new();
        loop {
            let mut header = String::new();
            reader.read_line(&mut header).unwrap();
            let Some((name, value)) = header.trim().split_once(':') else { break };
            headers.insert(name.to_lowercase(), value.trim().to_owned());
        }
        let (place, query) = target.split_once('?').unwrap_or((&target, ""));
        let path = place.strip_prefix("/bucket/").unwrap_or_default().replace("%3D", "=").replace("%2B", "+");
        let is_signed = query.contains("X-Amz-Credential=key%2F") && query.contains("&X-Amz-Signature=");
        let (code, body) = match method.as_str() {
            _ if !is_signed => ("403 Forbidden", b"<Error><Code>AccessDenied</Code></Error>".to_vec()),
            "PUT" => match self.take(&path, &headers, &mut reader) {
                Some((code, body)) => (code, body.as_bytes().to_vec()),
                None => return, // cut off
            },
            "DELETE" => {
                self.objects.lock().unwrap().remove(&path);
                ("204 No Content", Vec::new())
            }
            _ => match self.objects.lock().unwrap().get(&path) {
                Some(content) => ("200 OK", content.clone()),
                None => ("404 Not Found", b"<Error><Code>NoSuchKey</Code></Error>".to_vec()),
            },
        };
        let head = format!("HTTP/1.1 {code}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
        let body = if method == "HEAD" { Vec::new() } else { body };
        let mut stream = &stream;
        let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&body)); // it may be gone
    }

    /// An object, whole or not at all.
    fn take(
        &self,
        path: &str,
        headers: &BTreeMap<String, String>,
        reader: &mut impl Read,
    ) -> Option<(&'static str, &'static str)> {
        let (number, faults) = (self.puts.fetch_add(1, Ordering::Relaxed), *self.faults.lock().unwrap());
        let length: usize = headers["content-length"].parse().unwrap();
        let mut content = vec![0; length];
        let half = length / 2;
        reader.read_exact(&mut content[..half]).ok()?;
        if faults.every > 0 && number % faults.every == 1 {
            self.failed.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        rest(Duration::from_millis(faults.slow_ms));
        reader.read_exact(&mut content[half..]).ok()?;
        let is_refused = faults.refused.is_some_and(|folder| path.starts_with(&format!("runs/run/{folder}")));
        if is_refused || faults.every > 0 && number % faults.every == 2 {
            self.failed.fetch_add(1, Ordering::Relaxed);
            return Some(("503 Slow Down", "<Error><Code>SlowDown</Code><Message>later</Message></Error>"));
        }
        if headers.get("content-md5") != Some(&base64(&Md5::digest(&content))) {
            return Some(("400 Bad Request", "<Error><Code>BadDigest</Code></Error>"));
        }
        if path.contains("/point=work/") && self.lied.fetch_add(1, Ordering::Relaxed) < faults.lies {
            if number % 2 == 0 {
                content.truncate(half);
                self.objects.lock().unwrap().insert(path.into(), content);
            }
            return Some(("200 OK", ""));
        }
        if path.contains("/point=work/") {
            self.contents.lock().unwrap().entry(path.into()).or_default().insert(content.clone());
        }
        self.objects.lock().unwrap().insert(path.into(), content);
        Some(("200 OK", ""))
    }
}

/// A run of two stampers, each with an agent of its own, that goes to a server.
struct Scene {
    site: Site,
    returned: Vec<ReturnedCounts>,
    text: String,
    server: Server,
}

impl Scene {
    fn new(name: &str, stamps: u64, faults: Faults) -> Self {
        let stamper = compile_with("cc", "stamper", &[], "stamper");
        let returned: Vec<_> = NODES.iter().map(|node| ReturnedCounts::new(&format!("{name}-{node}"))).collect();
        let mut text = format!(
            "run = {{ name = \"stored\", seconds = 1 }}\nstorage.runs = \"s3://bucket/runs\"\n[clock]\n\
             reference = \"a\"\nsame_boot = \"ignore\"\nprobe_port = {}\n[layout]\npath = [\"a.work\", \"b.work\"]\n",
            free_port()
        );
        for (number, (node, returned)) in NODES.iter().zip(&returned).enumerate() {
            text += &format!(
                "[[node]]\nname = \"{node}\"\nconnect = [\"env\", \"MARK={name}-{node}\"]\nends_run = {}\n\
                 agent = \"{}\"\naddress = \"127.0.0.{}\"\nfiles = [\"{}\"]\n\
                 command = [\"./{}\", \"{}\", \"slow\", \"1\", \"{stamps}\"]\n\
                 environment = {{ TICKSCOPE_BLOCK_BYTES = \"4096\", TICKSCOPE_POOL_BYTES = \"131072\" }}\n",
                *node == "b",
                env!("CARGO_BIN_EXE_tickscope"),
                number + 1,
                stamper.display(),
                stamper.file_name().unwrap().to_str().unwrap(),
                returned.0.display()
            );
        }
        Self { site: Site::new(name), returned, text, server: Server::new(faults) }
    }

    fn own(&self, command: &mut Command) {
        command.env("XDG_STATE_HOME", self.site.path("state")).env("XDG_CACHE_HOME", self.site.path("cache"));
        command.env("AWS_ACCESS_KEY_ID", "key").env("AWS_SECRET_ACCESS_KEY", "secret");
        command.env("AWS_ENDPOINT_URL", &self.server.address).env("no_proxy", "*");
        command.env_remove("AWS_SESSION_TOKEN").env_remove("AWS_REGION").env_remove("AWS_ENDPOINT_URL_S3");
    }

    fn start(&self) -> Child {
        let mut command = self.site.run_command(&self.text);
        self.own(&mut command);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    fn command(&self, words: &[&str]) -> Ended {
        let mut command = tickscope(words);
        self.own(&mut command);
        Ended::of(command.arg(self.site.run_directory()))
    }

    fn until_all_stamp(&self, run: &mut Child) {
        while self.returned.iter().any(|returned| returned.word(0) == 0) {
            assert!(run.try_wait().unwrap().is_none(), "the run ended before its nodes stamped");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Numbers of the nodes' agents.
    fn agents(&self) -> Vec<i32> {
        let sessions: Vec<String> = self.site.opened().manifest().sessions.values().cloned().collect();
        let marks: Vec<String> = sessions.iter().map(|session| format!("agent daemon --session {session}")).collect();
        processes(|line| marks.iter().any(|mark| line.contains(mark)))
    }

    /// Fails unless storage has a whole run, in which each stamp whose call returned is stored once, or counted as
    /// dropped; and unless each segment of the programs ever had one content there. Returns how many are stored.
    fn expect_whole(&self) -> i64 {
        let folder = self.site.path("fetched");
        let _ = fs::remove_dir_all(&folder);
        let run = self.server.fetch(&folder);
        assert_eq!(run.check().unwrap(), []);
        let mut stored = 0;
        for (node, returned) in NODES.iter().zip(&self.returned) {
            let counted = returned.word(0);
            let channels = read_channels(&Paths::of(&folder).channels(node)).unwrap();
            let of_target = channels.iter().filter(|channel| channel.point.as_str() == "work");
            let found: i64 = of_target.clone().map(|channel| channel.stored + channel.dropped).sum();
            assert!((counted..=counted + 1).contains(&(found as u64)), "{node}: {counted} returned, {found} found");
            let stamps = run.stamps(&format!("{node}.work").parse().unwrap()).unwrap();
            let (mut ids, counts) = (Vec::new(), of_target.map(|channel| channel.stored).sum::<i64>());
            stamps.read(i64::MIN..=i64::MAX, |columns| ids.extend_from_slice(&columns.id)).unwrap();
            assert_eq!(ids.len() as i64, counts, "{node}: the rows of its segments, and its channels' count");
            ids.sort_unstable();
            ids.dedup();
            assert_eq!(ids.len() as i64, counts, "{node}: no id is stored twice");
            stored += counts;
        }
        let contents = self.server.state.contents.lock().unwrap();
        assert!(contents.len() > 2 && contents.values().all(|contents| contents.len() == 1), "{:?}", contents.keys());
        stored
    }

    /// Segments of the programs that lie in the run's directory.
    fn segments_here(&self) -> usize {
        let points = NODES.map(|node| self.site.run_directory().join(format!("stamps/node={node}/point=work")));
        points.iter().flat_map(fs::read_dir).flatten().count()
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        let own = self.site.path("").display().to_string();
        let marks: Vec<String> = self.returned.iter().map(|returned| returned.0.display().to_string()).collect();
        processes(|line| line.contains(&own) || marks.iter().any(|mark| line.contains(mark)))
            .into_iter()
            .for_each(kill);
    }
}

fn kill(pid: i32) {
    // SAFETY: a process of the run that this test started; it may have ended.
    unsafe { libc::kill(pid, libc::SIGKILL) };
}

/// Living processes whose command line is like that.
fn processes(is_wanted: impl Fn(&str) -> bool) -> Vec<i32> {
    let listing = fs::read_dir("/proc").unwrap().flatten();
    let wanted = listing.filter_map(|entry| {
        let pid = entry.file_name().to_str()?.parse().ok()?;
        let bytes = fs::read(entry.path().join("cmdline")).ok()?;
        is_wanted(&String::from_utf8_lossy(&bytes).replace('\0', " ")).then_some(pid)
    });
    wanted.collect()
}

/// Lets others go on for so long.
fn rest(long: Duration) {
    let until = Instant::now() + long;
    while Instant::now() < until {
        std::thread::sleep(Duration::from_micros(100));
    }
}

/// A number that nobody chose, below `below`.
fn any(below: u64) -> u64 {
    let mut bytes = [0; 8];
    fs::File::open("/dev/urandom").unwrap().read_exact(&mut bytes).unwrap();
    u64::from_ne_bytes(bytes) % below
}

fn ended(run: Child) -> (Option<i32>, String, String) {
    let output = run.wait_with_output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

#[test]
fn e2e_segments_go_from_their_nodes_to_storage_and_the_run_is_whole_there() {
    let scene = Scene::new("stored", STAMPS, Faults { every: 5, slow_ms: 5, lies: 4, ..Faults::default() });
    let mut run = scene.start();
    scene.until_all_stamp(&mut run);
    let agents = scene.agents();
    assert_eq!(agents.len(), 2);
    for agent in agents {
        let variables = String::from_utf8_lossy(&fs::read(format!("/proc/{agent}/environ")).unwrap()).into_owned();
        assert!(variables.contains("MARK=") && !variables.contains("AWS_SECRET_ACCESS_KEY"), "{variables}");
    }
    let (code, out, said) = ended(run);
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(out.trim(), r#"{"stored":"s3://bucket/runs/run"}"#);
    assert!(scene.expect_whole() > STAMPS as i64);
    assert!(scene.server.state.failed.load(Ordering::Relaxed) > 2);
    assert!(said.contains(" at s3://bucket/runs/run failed before others went well, the last: "), "{said}");
    assert!(scene.segments_here() <= 2, "the last one of each point alone came here: {}", scene.segments_here());
    let (here, there) = (scene.site.run_directory(), scene.site.path("fetched"));
    for file in ["digests.json", "run.json"] {
        assert_eq!(fs::read(here.join(file)).unwrap(), fs::read(there.join(file)).unwrap());
    }
    for word in ["show", "check"] {
        let refused = scene.command(&[word]);
        let says = "that they lie in s3://bucket/runs/run; once the run has ended";
        assert!(refused.code == Some(1) && refused.err.contains(says), "{word} {refused:?}");
    }
    let again = scene.command(&["finish"]);
    assert!(again.code == Some(0) && again.out.contains("there is nothing to do"), "{again:?}");
    let manifest = fs::read_to_string(here.join("run.json")).unwrap();
    assert!(!said.contains("secret") && !manifest.contains("secret") && !manifest.contains("X-Amz"), "{said}");
}

#[test]
fn e2e_agents_killed_in_mid_upload_lose_no_stamp_and_send_none_twice() {
    let mut rounds = 0;
    for round in 0..few_or_all(3, 30) {
        let faults = Faults { every: 7, slow_ms: 20 + 20 * (round % 3), ..Faults::default() };
        let scene = Scene::new(&format!("stored-{round}"), STAMPS, faults);
        let mut run = scene.start();
        scene.until_all_stamp(&mut run);
        let agents = scene.agents();
        let before = scene.server.state.puts.load(Ordering::Relaxed);
        // An upload is under way from here on, and for a time that nobody chose.
        while scene.server.state.puts.load(Ordering::Relaxed) == before && run.try_wait().unwrap().is_none() {
            std::thread::sleep(Duration::from_millis(1));
        }
        rest(Duration::from_micros(any(60_000)));
        agents.into_iter().take(1 + round as usize % 2).for_each(kill);
        let (code, _, said) = ended(run);
        if code != Some(0) {
            // What the killed agent's programs had in hand is told; all else is there.
            let finished = scene.command(&["finish"]);
            assert!(scene.site.opened().has_digests(), "{said} {finished:?}");
        }
        scene.expect_whole();
        rounds += 1;
    }
    println!("{rounds} agents killed in mid-upload");
}

#[test]
fn e2e_a_run_that_storage_does_not_take_is_none_there_and_waits_on_its_nodes_for_finish() {
    let scene =
        Scene::new("refused", STAMPS, Faults { refused: Some("stamps/node=a/point=work/"), ..Faults::default() });
    let (code, out, said) = ended(scene.start());
    assert_eq!((code, out.as_str()), (Some(1), ""), "{said}");
    assert!(said.contains("cannot put stamps/node=") && said.contains("503, SlowDown: later"), "{said}");
    assert!(said.contains("tickscope finish"), "{said}");
    let of_b = |path: &String| path.starts_with("runs/run/stamps/node=b/point=work/part-");
    let (of_b, others): (Vec<_>, Vec<_>) = scene.server.paths().into_iter().partition(of_b);
    assert!(of_b.len() > 2 && others == ["runs/run/run.json"], "{others:?} {said}");
    assert!(!scene.site.opened().has_digests());
    scene.server.become_sound();
    let finished = scene.command(&["finish", "--json"]);
    assert_eq!(finished.code, Some(0), "{finished:?}");
    assert_eq!(finished.out.trim(), r#"{"stored":"s3://bucket/runs/run"}"#);
    assert!(scene.expect_whole() > STAMPS as i64);
}

#[test]
fn e2e_a_conductor_killed_in_mid_upload_is_followed_by_one_that_finishes() {
    for round in 0..few_or_all(2, 20) {
        let faults = Faults { every: 0, slow_ms: 30, ..Faults::default() };
        let scene = Scene::new(&format!("orphaned-{round}"), STAMPS, faults);
        let mut run = scene.start();
        scene.until_all_stamp(&mut run);
        rest(Duration::from_micros(any(1_500_000)));
        run.kill().unwrap();
        run.wait().unwrap();
        let goes_on = || scene.site.opened().state().unwrap() == RunState::GoingOn;
        within("that nobody writes the run that was killed", || (!goes_on()).then_some(()));
        assert!(!scene.server.paths().iter().any(|path| path.ends_with("digests.json")));
        let command = ["finish", "resume"][round % 2];
        let finished = scene.command(&[command]);
        assert_eq!(finished.code, Some(0), "{command} {finished:?}");
        scene.expect_whole();
    }
}

#[test]
fn e2e_a_place_where_another_run_lies_and_keys_that_are_missing_are_refused_before_anything_is_measured() {
    let scene = Scene::new("occupied", 10, Faults::default());
    scene.server.put("runs/run/run.json", "{\"run\": \"00000000000000aa\"}");
    let (code, _, said) = ended(scene.start());
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("no other run at s3://bucket/runs/run, found run 00000000000000aa"), "{said}");
    assert!(!scene.site.run_directory().exists());
    let mut command = scene.site.run_command(&scene.text);
    scene.own(&mut command);
    let refused = Ended::of(command.env_remove("AWS_SECRET_ACCESS_KEY"));
    assert!(
        refused.code == Some(2) && refused.err.contains("a key in AWS_SECRET_ACCESS_KEY, found none"),
        "{refused:?}"
    );
    let text = scene.text.replace("seconds = 1 }", "seconds = 1, keep = \"5s\" }");
    let mut command = scene.site.run_command(&text);
    scene.own(&mut command);
    let refused = Ended::of(&mut command);
    assert!(refused.code == Some(2) && refused.err.contains("found a window. Leave out keep"), "{refused:?}");
    let text = scene.text.replace("s3://bucket/runs", "file:///runs");
    let mut command = scene.site.run_command(&text);
    scene.own(&mut command);
    let refused = Ended::of(&mut command);
    assert!(refused.code == Some(2) && refused.err.contains("such as s3://BUCKET/RUNS"), "{refused:?}");
}
