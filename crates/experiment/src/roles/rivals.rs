//! Rivals: chrony and ptp4l relate the same clocks as the run does, at the same time, and are asked once a second.
//!
//! The kernel is asked likewise what it states of each node's clock: what NTP-synchronised timestamps stand on.
//!
//! A private chronyd on each node follows one on the reference; ptp4l likewise. All of them run with the option that
//! keeps them from setting a clock (`-x`, `free_running`), in a private folder, and end with this process.
//!
//! Guarantees: a sample lies between two readings of the node's counter. A program that is not there, or ends, is told
//! in the report; the others go on. Deliberately absent: judging what they say, which is the analysis's.

use std::fs::{DirBuilder, File};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use tickscope_counter::NodeCounter;
use tickscope_host::StatedError;
use tickscope_store::{Paths, RivalColumns, RivalSample, next_segment, write_rivals};
use tickscope_tick::Ordering;

use super::{RoleContext, patiently, ready};
use crate::Error;
use crate::interrupt;
use crate::notice::say;
pub use crate::rivals_plan::ChronyVariant;

/// Settings of what the rivals follow.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ServerSettings {
    /// Address of the reference.
    pub address: String,
    /// Port of its chronyd.
    pub port: u16,
    /// True: start a chronyd.
    pub chrony: bool,
    /// True: start a ptp4l.
    pub ptp4l: bool,
}

/// Settings of the rivals on a node.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ClientSettings {
    /// Address of the node.
    pub address: String,
    /// Address and port of the chronyd that is followed.
    pub server: (String, u16),
    /// One chronyd each.
    pub variants: Vec<ChronyVariant>,
    /// True: start a ptp4l.
    pub ptp4l: bool,
    /// True: ask the kernel what it states of this node's clock.
    pub ntp: bool,
}

/// Report of a role of rivals.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct RivalReport {
    /// What could not be compared, a sentence each.
    pub missing: Vec<String>,
    /// Samples stored.
    pub samples: u64,
}

const SAMPLE_EVERY: Duration = Duration::from_secs(1);
const WRITE_EVERY: Duration = Duration::from_secs(5);
/// Time that a chronyd gets to make its socket.
const STARTS_WITHIN: Duration = Duration::from_secs(3);

/// Is followed until the process is told to end.
pub(super) fn serve(server: &ServerSettings) -> Result<RivalReport, Error> {
    let (folder, mut started) = (PrivateFolder::make()?, Started::default());
    if server.chrony {
        let lines = format!(
            "port {}\nbindaddress {}\nallow all\nlocal stratum 1\nbindcmdaddress /\ncmdport 0\npidfile {}\n",
            server.port,
            server.address,
            folder.file("server.pid").display()
        );
        started.add("chronyd of the reference", chronyd(&folder, "server", &lines));
    }
    if server.ptp4l {
        started.add("ptp4l of the reference", ptp4l(&folder, &server.address, false).map(|(child, _)| child));
    }
    ready();
    while !interrupt::ended() {
        std::thread::sleep(Duration::from_millis(50));
        started.look();
    }
    Ok(RivalReport { missing: started.missing.clone(), samples: 0 })
}

/// Asks until the process is told to end.
pub(super) fn ask(client: &ClientSettings, place: &RoleContext) -> Result<RivalReport, Error> {
    let counter = NodeCounter::from_environment().map_err(Error::input)?;
    let (folder, mut started) = (PrivateFolder::make()?, Started::default());
    let mut chronies = Vec::new();
    for variant in &client.variants {
        let socket = start_chrony(variant, &client.server, &folder, &mut started);
        chronies.extend(socket.map(|socket| Asked { variant: variant.name.clone(), socket, silent: None }));
    }
    let lines = if client.ptp4l { start_ptp4l(&client.address, &folder, &mut started) } else { None };
    ready();
    let mut taking = Taking::begin(counter, place, lines);
    taking.kernel = client.ntp.then(Kernel::default);
    while !interrupt::ended() {
        std::thread::sleep(Duration::from_millis(20));
        taking.step(&mut chronies);
        started.look();
    }
    let undisciplined = taking.kernel.as_ref().and_then(Kernel::missing);
    let samples = taking.end()?;
    let silent = chronies.into_iter().filter_map(|asked| asked.silent).chain(undisciplined);
    Ok(RivalReport { missing: started.missing.iter().cloned().chain(silent).collect(), samples })
}

/// Starts a variant's chronyd, unless it runs already; where it is asked.
fn start_chrony(
    variant: &ChronyVariant,
    (host, port): &(String, u16),
    folder: &PrivateFolder,
    started: &mut Started,
) -> Option<Option<PathBuf>> {
    if variant.running {
        return Some(None);
    }
    let ChronyVariant { name, poll, xleave, .. } = variant;
    let socket = folder.file(&format!("{name}.sock"));
    let poll = poll.map_or(String::new(), |poll| format!(" minpoll {poll} maxpoll {poll}"));
    let lines = format!(
        "server {host} port {port} iburst{poll}{}\nport 0\ncmdport 0\nbindcmdaddress {}\npidfile {}\n",
        if *xleave { " xleave" } else { "" },
        socket.display(),
        folder.file(&format!("{name}.pid")).display()
    );
    started.add(&format!("chronyd '{name}'"), chronyd(folder, name, &lines)).then_some(Some(socket))
}

fn start_ptp4l(address: &str, folder: &PrivateFolder, started: &mut Started) -> Option<Receiver<String>> {
    match ptp4l(folder, address, true) {
        Ok((child, lines)) => {
            started.children.push(("ptp4l".into(), child));
            Some(lines)
        }
        Err(why) => {
            started.tell(why);
            None
        }
    }
}

/// A chronyd that is asked.
struct Asked {
    variant: String,
    /// `None`: the one that runs already.
    socket: Option<PathBuf>,
    /// Why it did not answer, the last time.
    silent: Option<String>,
}

/// What the kernel states of the node's clock, while it is asked.
#[derive(Default)]
struct Kernel {
    asked: u64,
    /// How often it called the clock synchronised.
    synchronised: u64,
}

impl Kernel {
    fn count(&mut self, stated: Option<StatedError>) {
        self.asked += 1;
        self.synchronised += u64::from(stated.is_some_and(|stated| stated.synchronised));
    }

    /// Why there is nothing to compare with, if there is nothing.
    fn missing(&self) -> Option<String> {
        (self.asked > 0 && self.synchronised == 0).then(|| {
            "NTP: the kernel calls this node's CLOCK_REALTIME unsynchronised, so its timestamps have no bound. Let \
             chronyd, ntpd or systemd-timesyncd discipline it, or leave rivals.ntp out"
                .into()
        })
    }
}

/// Samples on their way into the run.
struct Taking<'a> {
    counter: NodeCounter,
    place: &'a RoleContext,
    lines: Option<Receiver<String>>,
    /// `None`: the kernel is not asked.
    kernel: Option<Kernel>,
    columns: RivalColumns,
    /// When ptp4l's next line was waited for from.
    waited_from: i64,
    samples: u64,
    due: Instant,
    write_due: Instant,
}

impl<'a> Taking<'a> {
    fn begin(counter: NodeCounter, place: &'a RoleContext, lines: Option<Receiver<String>>) -> Self {
        let (waited_from, due) = (counter.read(Ordering::Before), Instant::now());
        let (columns, write_due) = (RivalColumns::default(), due + WRITE_EVERY);
        Self { counter, place, lines, kernel: None, columns, waited_from, samples: 0, due, write_due }
    }

    fn step(&mut self, chronies: &mut [Asked]) {
        let lines: Vec<String> = self.lines.iter().flat_map(Receiver::try_iter).collect();
        for line in lines {
            let after = self.counter.read(Ordering::After);
            if let Some(sample) = of_ptp4l(&line, [self.waited_from, after]) {
                self.push(sample);
            }
            self.waited_from = after;
        }
        if Instant::now() >= self.due {
            for asked in chronies {
                let before = self.counter.read(Ordering::Before);
                let said = tracking(asked.socket.as_deref());
                let after = self.counter.read(Ordering::After);
                match said.and_then(|line| of_chrony(&line, &asked.variant, [before, after])) {
                    Ok(sample) => {
                        self.push(sample);
                        asked.silent = None;
                    }
                    Err(why) => asked.silent = Some(format!("chronyd '{}': {why}", asked.variant)),
                }
            }
            self.ask_kernel();
            self.due = (self.due + SAMPLE_EVERY).max(Instant::now());
        }
        if Instant::now() >= self.write_due {
            let _ = self.write(); // a full disk may have room at the next attempt
            self.write_due = Instant::now() + WRITE_EVERY;
        }
    }

    fn ask_kernel(&mut self) {
        let Some(kernel) = &mut self.kernel else { return };
        let before = self.counter.read(Ordering::Before);
        let stated = StatedError::of_this_host();
        let after = self.counter.read(Ordering::After);
        kernel.count(stated);
        if let Some(stated) = stated {
            self.push(of_kernel(stated, [before, after]));
        }
    }

    fn push(&mut self, sample: RivalSample) {
        self.columns.push(sample);
        self.samples += 1;
    }

    fn write(&mut self) -> Result<(), Error> {
        if !self.columns.is_empty() {
            let folder = Paths::of(&self.place.run).rivals(self.place.node.as_str());
            write_rivals(&next_segment(&folder)?, &self.columns)?;
            self.columns = RivalColumns::default();
        }
        Ok(())
    }

    fn end(mut self) -> Result<u64, Error> {
        patiently(|| self.write())?;
        Ok(self.samples)
    }
}

/// A line of `chronyc -c tracking`.
fn tracking(socket: Option<&Path>) -> Result<String, String> {
    let mut command = Command::new(program("chronyc")?);
    command.args(["-n", "-c"]);
    if let Some(socket) = socket {
        command.arg("-h").arg(socket);
    }
    let output = command.arg("tracking").stdin(Stdio::null()).stderr(Stdio::null()).output();
    let output = output.map_err(|e| format!("cannot start chronyc: {e}"))?;
    let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    if output.status.success() { Ok(text) } else { Err(format!("does not answer: {text}")) }
}

/// A sample from chronyc's values: reference id, name, stratum, time of the last update, offset, last offset, rms
/// offset, frequency, residual frequency, skew, root delay, root dispersion, update interval, leap status.
fn of_chrony(line: &str, variant: &str, [before, after]: [i64; 2]) -> Result<RivalSample, String> {
    let fields: Vec<&str> = line.split(',').collect();
    let odd = || format!("expected 14 values of chronyc -c tracking, found '{line}'. Is it chrony 4?");
    let value = |at: usize, digits: u32| fields.get(at).and_then(|text| decimal(text, digits)).ok_or_else(odd);
    let state = match *fields.get(13).ok_or_else(odd)? {
        "Not synchronised" => "not synchronised".into(),
        "Normal" | "Insert second" | "Delete second" => RivalSample::NORMAL.to_owned(),
        other => other.to_lowercase(),
    };
    Ok(RivalSample {
        program: "chrony".into(),
        variant: variant.into(),
        before,
        after,
        state,
        // chronyc counts what is to be added to the clock: positive, the clock is slow.
        offset_ns: -value(4, 9)?,
        delay_ns: Some(value(10, 9)?),
        dispersion_ns: Some(value(11, 9)?),
        frequency_ppb: Some(value(7, 3)?),
        residual_ppb: Some(value(8, 3)?),
        skew_ppb: Some(value(9, 3)?),
    })
}

/// A sample from what the kernel states: its bound holds root dispersion and half the root delay already.
fn of_kernel(StatedError { synchronised, ahead_ns, most_ns }: StatedError, [before, after]: [i64; 2]) -> RivalSample {
    RivalSample {
        program: "NTP".into(),
        variant: "synchronised timestamps".into(),
        before,
        after,
        state: if synchronised { RivalSample::NORMAL } else { "not synchronised" }.into(),
        offset_ns: ahead_ns,
        delay_ns: Some(0),
        dispersion_ns: Some(most_ns),
        frequency_ppb: None,
        residual_ppb: None,
        skew_ppb: None,
    }
}

/// A sample from a line such as `ptp4l[72.123]: master offset  -32 s0 freq  +0 path delay  1521`; `None`: another line.
fn of_ptp4l(line: &str, [before, after]: [i64; 2]) -> Option<RivalSample> {
    let (_, rest) = line.split_once(" offset ")?;
    let words: Vec<&str> = rest.split_whitespace().collect();
    let after_word = |word: &str| words.iter().position(|found| *found == word).and_then(|at| words.get(at + 1));
    Some(RivalSample {
        program: "ptp4l".into(),
        variant: "software stamps".into(),
        before,
        after,
        state: RivalSample::NORMAL.into(),
        offset_ns: words.first()?.parse().ok()?,
        delay_ns: after_word("delay").and_then(|ns| ns.parse().ok()),
        dispersion_ns: None,
        frequency_ppb: after_word("freq").and_then(|ppb| ppb.parse().ok()),
        residual_ppb: None,
        skew_ppb: None,
    })
}

/// A decimal number times 10^`digits`, exactly; what has more digits than that is none.
fn decimal(text: &str, digits: u32) -> Option<i64> {
    let (sign, plain) = match text.strip_prefix('-') {
        Some(plain) => (-1, plain),
        None => (1, text),
    };
    let (whole, fraction) = plain.split_once('.').unwrap_or((plain, ""));
    let all_digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || fraction.len() > digits as usize || !all_digits(whole) || !all_digits(fraction) {
        return None;
    }
    let padded = format!("{whole}{fraction:0<width$}", width = digits as usize);
    padded.parse::<i64>().ok().map(|number| sign * number)
}

/// Programs that were started; ended when dropped.
#[derive(Default)]
struct Started {
    children: Vec<(String, Child)>,
    missing: Vec<String>,
}

impl Started {
    /// Keeps what was started; returns whether it was.
    fn add(&mut self, what: &str, child: Result<Child, String>) -> bool {
        match child {
            Ok(child) => self.children.push((what.into(), child)),
            Err(why) => {
                self.tell(why);
                return false;
            }
        }
        true
    }

    fn tell(&mut self, why: String) {
        say(&why);
        self.missing.push(why);
    }

    /// Tells of those that ended.
    fn look(&mut self) {
        if interrupt::ended() {
            return; // whoever ends this process may end them at once
        }
        let mut ended = Vec::new();
        self.children.retain_mut(|(what, child)| match child.try_wait() {
            Ok(Some(status)) => {
                ended.push(format!("{what} ended early with {status}; it may lack a right, or its port is taken"));
                false
            }
            _ => true,
        });
        ended.into_iter().for_each(|why| self.tell(why));
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        for (_, child) in &mut self.children {
            let _ = child.kill(); // one that ended already needs no signal
            let _ = child.wait();
        }
    }
}

/// A folder that only this user may enter, removed at the end.
struct PrivateFolder(PathBuf);

impl PrivateFolder {
    fn make() -> Result<Self, Error> {
        // Short, whatever the run's directory is called: a socket's path has at most 107 bytes.
        let place = std::env::temp_dir().join(format!("tickscope-rivals-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&place); // of a process that had this number before
        DirBuilder::new().mode(0o700).create(&place).map_err(|e| {
            Error::work(format!("cannot make {}: {e}. Make room there, or name another in TMPDIR", place.display()))
        })?;
        Ok(Self(place))
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for PrivateFolder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0); // what stays lies in the system's folder for such
    }
}

/// The program of that name; daemons lie where an ordinary user's PATH does not look.
fn program(name: &str) -> Result<PathBuf, String> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(["/usr/sbin", "/sbin", "/usr/bin"].map(PathBuf::from));
    folders.map(|folder| folder.join(name)).find(|place| place.is_file()).ok_or_else(|| {
        let package = if name == "ptp4l" { "linuxptp" } else { "chrony" };
        format!("cannot compare with {name}: it is not installed. On Debian the package is {package}")
    })
}

/// A chronyd that sets no clock (`-x`), with this configuration.
fn chronyd(folder: &PrivateFolder, name: &str, lines: &str) -> Result<Child, String> {
    let place = folder.file(&format!("{name}.conf"));
    std::fs::write(&place, lines).map_err(|e| format!("cannot write {}: {e}", place.display()))?;
    let mut command = Command::new(program("chronyd")?);
    command.args(["-x", "-U", "-d", "-f"]).arg(&place);
    if tickscope_stamp::directory::user() == 0 {
        command.args(["-u", "root"]); // its folder is this user's
    }
    let log = folder.file(&format!("{name}.log"));
    let log = File::create(&log).map_err(|e| format!("cannot make {}: {e}", log.display()))?;
    let mut child =
        attached(command.stdout(Stdio::null()).stderr(log)).map_err(|e| format!("cannot start chronyd: {e}"))?;
    let (pid, begun) = (folder.file(&format!("{name}.pid")), Instant::now());
    while !pid.exists() && begun.elapsed() < STARTS_WITHIN {
        if let Ok(Some(status)) = child.try_wait() {
            let said = std::fs::read_to_string(folder.file(&format!("{name}.log"))).unwrap_or_default();
            let said = said.lines().last().unwrap_or_default();
            return Err(format!("chronyd '{name}' ended at once with {status}: {said}"));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(child)
}

/// A ptp4l that leaves the clock alone, on the interface that has this address, and the lines that it prints.
fn ptp4l(folder: &PrivateFolder, address: &str, follows: bool) -> Result<(Child, Receiver<String>), String> {
    let interface = interface_of(address)?;
    let program = program("ptp4l")?;
    let mut command = Command::new(&program);
    command.args(["-S", "-4", "-E", "-m", "-q", "--free_running=1", "--freq_est_interval=0", "-i", &interface]);
    command.arg(format!("--uds_address={}", folder.file("ptp.sock").display()));
    // From version 4 on it has a second socket; before, it refuses to hear of one.
    let version = Command::new(&program).arg("-v").output().map(|output| output.stdout).unwrap_or_default();
    if version.first().is_some_and(|digit| (b'4'..=b'9').contains(digit)) {
        command.arg(format!("--uds_ro_address={}", folder.file("ptp-read.sock").display()));
    }
    if follows {
        command.arg("-s");
    }
    let mut child = attached(command.stdout(Stdio::piped()).stderr(Stdio::null()))
        .map_err(|e| format!("cannot start ptp4l: {e}"))?;
    let (send, lines) = channel();
    if let Some(output) = child.stdout.take() {
        std::thread::spawn(move || {
            // Read to the end, also where nobody listens: a full pipe would stop the program.
            let lines = BufReader::new(output).lines().map_while(Result::ok);
            lines.for_each(|line| drop(send.send(line)));
        });
    }
    Ok((child, lines))
}

/// Starts a program that ends when this process does.
fn attached(command: &mut Command) -> std::io::Result<Child> {
    // SAFETY: a plain system call.
    unsafe {
        command.pre_exec(|| {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM);
            Ok(())
        })
    };
    command.stdin(Stdio::null()).spawn()
}

/// The interface that has this address.
fn interface_of(address: &str) -> Result<String, String> {
    let output = Command::new("ip").args(["-o", "addr", "show"]).output();
    let output =
        output.map_err(|e| format!("ptp4l was left out: cannot ask ip for the interface of {address}: {e}"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let has = |line: &&str| line.split_whitespace().any(|word| word.split('/').next() == Some(address));
    let found = text.lines().find(has).and_then(|line| line.split_whitespace().nth(1));
    match found {
        Some("lo") | None => {
            Err(format!("ptp4l was left out: no interface but the loopback has the address {address}"))
        }
        Some(name) => Ok(name.split('@').next().unwrap_or(name).into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_chrony_is_a_sample_with_every_digit() {
        let line = "0A4D0001,10.77.0.1,2,1795413600.123456789,0.000001234,-0.000000045,0.000000100,-1.234,0.005,0.040,\
                    0.000001100,0.000000300,0.1,Normal";
        let sample = of_chrony(line, "fast", [1, 2]).unwrap();
        assert_eq!((sample.offset_ns, sample.delay_ns, sample.dispersion_ns), (-1234, Some(1100), Some(300)));
        assert_eq!((sample.frequency_ppb, sample.residual_ppb, sample.skew_ppb), (Some(-1234), Some(5), Some(40)));
        assert_eq!((sample.state.as_str(), sample.before, sample.after), ("normal", 1, 2));
        let not_yet = of_chrony(&line.replace("Normal", "Not synchronised"), "fast", [1, 2]).unwrap();
        assert_eq!(not_yet.state, "not synchronised");
        for torn in ["", "506 Cannot talk to daemon", &line.replace("1.234", "1.2345"), &line.replace(",Normal", "")] {
            assert!(of_chrony(torn, "fast", [1, 2]).unwrap_err().contains("expected 14 values"), "{torn}");
        }
    }

    #[test]
    fn what_the_kernel_states_counts_while_it_calls_the_clock_synchronised() {
        let stated = StatedError { synchronised: true, ahead_ns: -40, most_ns: 92_000 };
        let sample = of_kernel(stated, [3, 4]);
        assert_eq!((sample.offset_ns, sample.delay_ns, sample.dispersion_ns), (-40, Some(0), Some(92_000)));
        assert_eq!((sample.state.as_str(), sample.before, sample.after), (RivalSample::NORMAL, 3, 4));
        let adrift = StatedError { synchronised: false, ..stated };
        assert_ne!(of_kernel(adrift, [3, 4]).state, RivalSample::NORMAL);
        let mut kernel = Kernel::default();
        assert_eq!(kernel.missing(), None, "nobody asked");
        kernel.count(Some(adrift));
        assert!(kernel.missing().unwrap().contains("unsynchronised"));
        kernel.count(Some(stated));
        assert_eq!(kernel.missing(), None);
    }

    #[test]
    fn a_line_of_ptp4l_is_a_sample_and_its_other_lines_are_none() {
        let line = "ptp4l[72054.123]: master offset        -32 s0 freq      +7 path delay      1521";
        let sample = of_ptp4l(line, [5, 9]).unwrap();
        assert_eq!((sample.offset_ns, sample.delay_ns, sample.dispersion_ns), (-32, Some(1521), None));
        assert_eq!((sample.frequency_ppb, sample.before, sample.after), (Some(7), 5, 9));
        let other = "ptp4l[72049.001]: port 1 (eth0): UNCALIBRATED to SLAVE on MASTER_CLOCK_SELECTED";
        assert!(of_ptp4l(other, [5, 9]).is_none());
    }

    #[test]
    fn a_decimal_number_is_read_exactly_or_not_at_all() {
        for (text, number) in [("0.000000001", 1), ("-0.5", -500_000_000), ("12", 12_000_000_000), ("-0.000000000", 0)]
        {
            assert_eq!(decimal(text, 9), Some(number), "{text}");
        }
        for text in ["", ".5", "-", "1e3", "0.0000000001", "1.-2", "99999999999999999999"] {
            assert_eq!(decimal(text, 9), None, "{text}");
        }
    }

    /// The time of this host, and so many ns more, as NTP writes it.
    fn ntp_time(ahead_ns: u64) -> [u8; 8] {
        /// From 1900 to 1970.
        const SECONDS: u64 = 2_208_988_800;
        let ns = crate::unix_ns() as u64 + ahead_ns;
        let fraction = (u128::from(ns % 1_000_000_000) << 32) / 1_000_000_000;
        (((ns / 1_000_000_000 + SECONDS) << 32) | fraction as u64).to_be_bytes()
    }

    /// Answers as an NTP server of stratum 1 whose clock is ahead, until the socket has been silent for a while.
    fn answer_ahead(socket: &std::net::UdpSocket, ahead_ns: u64) {
        let mut request = [0; 48];
        while let Ok((48, from)) = socket.recv_from(&mut request) {
            let mut reply = [0; 48];
            reply[..4].copy_from_slice(&[0x24, 1, request[2], 0xe8]); // version 4, server; precision 2^-24
            reply[12..16].copy_from_slice(b"TEST");
            let now = ntp_time(ahead_ns);
            reply[16..24].copy_from_slice(&now);
            reply[24..32].copy_from_slice(&request[40..]);
            reply[32..40].copy_from_slice(&now);
            reply[40..].copy_from_slice(&ntp_time(ahead_ns));
            let _ = socket.send_to(&reply, from);
        }
    }

    #[test]
    #[allow(clippy::print_stdout, reason = "what is not tried is said")]
    fn e2e_a_clock_that_is_behind_the_one_it_follows_has_a_negative_offset() {
        const AHEAD_NS: u64 = 50_000_000;
        if let Err(why) = program("chronyd").and_then(|_| program("chronyc")) {
            println!("not tried: {why}");
            return;
        }
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let port = socket.local_addr().unwrap().port();
        socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        std::thread::spawn(move || answer_ahead(&socket, AHEAD_NS));
        let (folder, mut started) = (PrivateFolder::make().unwrap(), Started::default());
        let variant = ChronyVariant { name: "ahead".into(), poll: Some(-2), xleave: false, running: false };
        let asked = start_chrony(&variant, &("127.0.0.1".into(), port), &folder, &mut started).unwrap().unwrap();
        let sample = (0..300).find_map(|_| {
            std::thread::sleep(Duration::from_millis(100));
            let sample = of_chrony(&tracking(Some(&asked)).ok()?, "ahead", [1, 2]).ok()?;
            (sample.state == RivalSample::NORMAL).then_some(sample)
        });
        let RivalSample { offset_ns, delay_ns, .. } = sample.expect("chronyd takes a source within 30 s");
        let behind = -(AHEAD_NS as i64);
        assert!((offset_ns - behind).abs() < AHEAD_NS as i64 / 2, "{offset_ns} ns; delay {delay_ns:?} ns");
    }
}
