//! Runs of the real command over loopback, each in a directory of its own, with `udp-echo` as the target.
#![allow(dead_code, reason = "each test file uses its part")]

#[path = "../../../stamp/tests/c_program/mod.rs"]
pub mod c_program;

use std::ffi::CStr;
use std::fmt::Write;
use std::fs;
use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;
use tickscope_host::trace_instance::{TraceEvents, TraceInstance};
use tickscope_store::{Event, Run};

/// `few` of a count that takes long, or `all` of it under `make test-all`, which sets TICKSCOPE_TESTS.
pub fn few_or_all<T>(few: T, all: T) -> T {
    if std::env::var_os("TICKSCOPE_TESTS").is_some() { all } else { few }
}

/// What a process that was killed, or told to end, leaves to the kernel and to others is over by then on any machine.
pub const WITHIN: Duration = Duration::from_secs(60);

/// What comes without anybody's doing, such as the end of what was killed.
#[track_caller]
pub fn within<T>(what: &str, look: impl Fn() -> Option<T>) -> T {
    let until = Instant::now() + WITHIN;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < until, "expected {what} within {WITHIN:?}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// A directory for one experiment and its run; gone at the end.
pub struct Site(PathBuf);

/// What a command printed and how it ended.
#[derive(Debug)]
pub struct Ended {
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

/// A run file for `udp-echo` on two loopback addresses. Nodes are strangers that read one counter: the truth is known.
#[derive(Clone)]
pub struct Experiment {
    pub seconds: f64,
    pub rate_hz: u32,
    pub rho: &'static str,
    pub probes_hz: u32,
    /// By node: `offset, drift_ppb, wander_ppb, wander_period` of its counter.
    pub inject: Option<(&'static str, [i64; 4])>,
    /// Of the server and of the client, this test's alone; `None`: those of the run's network.
    pub addresses: Option<[String; 2]>,
    pub server_port: u16,
    pub client_port: u16,
    pub probe_port: u16,
    pub client: String,
}

impl Experiment {
    /// Where every packet must arrive, 250 a second: the kernel keeps some 270 for a program that stands still, so a
    /// machine may pause for a second.
    pub fn new(seconds: f64, rate_hz: u32) -> Self {
        let server_port = 7400; // below those that a kernel gives to whoever asks for none
        Self {
            seconds,
            rate_hz,
            rho: "unknown",
            probes_hz: 1000,
            inject: None,
            addresses: Some([own_address(), own_address()]),
            server_port,
            client_port: server_port,
            probe_port: 7411,
            client: udp_echo().display().to_string(),
        }
    }

    /// The run file's text.
    pub fn text(&self) -> String {
        let (Self { seconds, rate_hz, rho, probes_hz, .. }, echo) = (self, udp_echo().display());
        let Self { server_port, client_port, probe_port, client, .. } = self;
        let mut text = format!(
            "run = {{ name = \"e2e\", seconds = {seconds:?} }}\nnetwork.kind = \"loopback\"\n\
             [clock]\nreference = \"client\"\nrho = \"{rho}\"\nsame_boot = \"ignore\"\nprobes_hz = {probes_hz}\n\
             probe_port = {probe_port}\n\
             [layout]\npath = [\"client.send\", \"server.received\", \"server.reply\", \"client.response\"]\n\
             branches = [\"client.send > client.sent\"]\n"
        );
        let client_words = format!(
            "\"{client}\", \"client\", \"{{server.address}}\", \"{client_port}\", \"--rate\", \"{rate_hz}\", \
             \"--seconds\", \"{{seconds}}\""
        );
        for (at, (node, words)) in [
            ("server", format!("\"{echo}\", \"server\", \"{{address}}\", \"{server_port}\"")),
            ("client", client_words),
        ]
        .into_iter()
        .enumerate()
        {
            let _ = write!(text, "[[node]]\nname = \"{node}\"\nends_run = {}\n", node == "client");
            let _ = writeln!(text, "command = [{words}]");
            if let Some(addresses) = &self.addresses {
                let _ = writeln!(text, "address = \"{}\"", addresses[at]);
            }
            if node == "server" {
                let _ = writeln!(text, "ready = {server_port}");
            }
            if let Some((_, [offset, drift, wander, period])) = self.inject.filter(|(injected, _)| *injected == node) {
                let _ = writeln!(
                    text,
                    "inject = {{ offset = {offset}, drift_ppb = {drift}, wander_ppb = {wander}, wander_period = {period} }}"
                );
            }
        }
        text
    }
}

impl Site {
    pub fn new(name: &str) -> Self {
        static SERIAL: AtomicU32 = AtomicU32::new(0);
        let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("tickscope-e2e-{name}-{}-{serial}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// The run's directory.
    pub fn run_directory(&self) -> PathBuf {
        self.path("run")
    }

    /// `tickscope run` of this text, not yet started.
    pub fn run_command(&self, text: &str) -> Command {
        let file = self.path("experiment.toml");
        fs::write(&file, text).unwrap();
        let mut command = tickscope(&["run", "--json"]);
        command.arg(&file).arg("--out").arg(self.run_directory());
        command
    }

    pub fn run(&self, experiment: &Experiment) -> Ended {
        Ended::of(&mut self.run_command(&experiment.text()))
    }

    /// `tickscope show --json` of the run, and more arguments.
    pub fn show(&self, more: &[&str]) -> Ended {
        Ended::of(tickscope(&["show", "--json"]).arg(self.run_directory()).args(more))
    }

    /// Processes that name this directory in their command line.
    pub fn processes(&self) -> Vec<(i32, String)> {
        let own = self.path("").display().to_string();
        let listing = fs::read_dir("/proc").unwrap().flatten();
        let pids = listing.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
        let line = |pid: i32| fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default().replace('\0', " ");
        pids.map(|pid| (pid, line(pid))).filter(|(_, words)| words.contains(&own)).collect()
    }

    pub fn opened(&self) -> Run {
        Run::open(&self.run_directory()).unwrap()
    }

    /// Events of the run of that kind.
    pub fn events(&self, what: &str) -> Vec<Event> {
        let listing = self.opened().events().unwrap();
        listing.found.into_iter().filter(|event| event.what == what).collect()
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            let _ = fs::remove_dir_all(&self.0);
            return;
        }
        // A test that failed leaves its files to be looked at, and nothing that goes on beside the tests after it.
        for (pid, _) in self.processes() {
            // SAFETY: only sends a signal, to what this test started.
            unsafe { libc::kill(pid, libc::SIGKILL) };
        }
    }
}

impl Ended {
    pub fn of(command: &mut Command) -> Self {
        Self::from(command.stdin(Stdio::null()).output().unwrap())
    }

    /// What it printed as JSON, if it ended with that exit code.
    pub fn json(&self, code: i32) -> Value {
        assert_eq!(self.code, Some(code), "{self:?}");
        serde_json::from_str(&self.out).unwrap_or_else(|e| panic!("{e}: {self:?}"))
    }

    /// Fails unless it ended with this exit code and said all of these words.
    #[track_caller]
    pub fn said(&self, code: i32, words: &[&str]) {
        assert_eq!(self.code, Some(code), "{self:?}");
        for word in words {
            assert!(self.err.contains(word), "expected '{word}' in: {self:?}");
        }
    }
}

impl From<Output> for Ended {
    fn from(output: Output) -> Self {
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        // What dead runs of others left on this machine is no matter of a test's own run.
        let is_own = |line: &&str| !line.starts_with("tickscope: left by runs that no longer live");
        let err = text(output.stderr).split_inclusive('\n').filter(is_own).collect();
        Self { code: output.status.code(), out: text(output.stdout), err }
    }
}

pub fn tickscope(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tickscope"));
    command.args(words);
    command
}

/// Known and inside, as a table tells.
pub fn truth(table: &Value) -> (u64, u64) {
    let truth = &table["truth"];
    (truth["known"].as_u64().unwrap(), truth["inside"].as_u64().unwrap())
}

/// A stage of a table.
pub fn stage<'a>(table: &'a Value, name: &str) -> &'a Value {
    let stages = table["stages"].as_array().unwrap();
    stages.iter().find(|stage| stage["stage"] == name).unwrap_or_else(|| panic!("no stage {name} in {table:#}"))
}

/// How many values that stage has.
pub fn count(table: &Value, name: &str) -> u64 {
    stage(table, name)["count"].as_u64().unwrap()
}

/// What disturbed a stage of a table.
pub fn noise<'a>(table: &'a Value, stage: &str) -> &'a Value {
    let all = table["noise"].as_array().unwrap();
    all.iter().find(|one| one["stage"] == stage).unwrap_or_else(|| panic!("no {stage} in {all:?}"))
}

/// Where tracefs is not mounted, this thread and its children get mounts of their own, with it. Without the right to do
/// so nothing changes.
fn mount_tracefs() {
    const TRACING: &CStr = c"/sys/kernel/tracing";
    if fs::read_dir("/sys/kernel/tracing").is_ok_and(|mut entries| entries.next().is_some()) {
        return;
    }
    let none = std::ptr::null();
    // SAFETY: three system calls on constant strings; the null pointers stand for what they do not need.
    unsafe {
        if libc::unshare(libc::CLONE_NEWNS) == 0 {
            libc::mount(none, c"/".as_ptr(), none, libc::MS_REC | libc::MS_PRIVATE, none.cast());
            libc::mount(c"nodev".as_ptr(), TRACING.as_ptr(), c"tracefs".as_ptr(), 0, none.cast());
        }
    }
}

/// Whether `[noise]` records nothing here; why, is said.
pub fn cannot_record_noise() -> bool {
    mount_tracefs();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let why = match TraceInstance::begin(TraceEvents::All) {
        Err(why) => why,
        Ok(_) if cores < 2 => "it takes two cores".into(),
        Ok(_) => return false,
    };
    println!("not tried: {why}");
    true
}

/// The target, compiled once a test program.
pub fn udp_echo() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../targets/udp-echo/udp-echo.c");
        c_program::compile("cc", &source, &["-D_GNU_SOURCE"], "udp-echo")
    })
}

/// An address of loopback that no other living test has: by this process and a serial number.
pub fn own_address() -> String {
    static SERIAL: AtomicU32 = AtomicU32::new(0);
    const SERIALS: u32 = 1 << 10;
    const PROCESSES: u32 = (1 << 13) - 1; // fewer than live at a time, and 127.0.0.0 to 127.0.3.255 are left to runs
    let serial = SERIAL.fetch_add(1, Ordering::Relaxed) % SERIALS;
    let number = (1 + std::process::id() % PROCESSES) * SERIALS + serial;
    std::net::Ipv4Addr::from((127 << 24) + number).to_string()
}

/// A port that nothing is bound to on any loopback address just now.
pub fn free_port() -> u16 {
    UdpSocket::bind("0.0.0.0:0").unwrap().local_addr().unwrap().port()
}
