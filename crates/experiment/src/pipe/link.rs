//! The conductor's end of a pipe to an agent: opened, read with a limit of time, opened again when it breaks.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use tickscope_tick::{counted, printable, quoted};

use super::bootstrap::{self, Program};
use super::ended_sessions::{Unfetched, remove_ended_sessions};
use super::frame;
use super::protocol::{Answered, Asked, FromAgent, Hello, PROTOCOL, Question};
use crate::Error;
use crate::agent::Task;
use crate::interrupt;
use crate::notice;

/// The way to an agent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Connect {
    /// Next to this process, and ended with it.
    Here,
    /// Through a prefix that runs commands where the node is.
    Through {
        /// Its words.
        prefix: Vec<String>,
        /// Path of tickscope there; `None`: this program, copied.
        agent: Option<String>,
        /// Folder that paths among the words start from.
        folder: PathBuf,
    },
}

impl Connect {
    /// The way, in words.
    pub fn words(&self) -> String {
        match self {
            Self::Here => "here".into(),
            Self::Through { prefix, .. } => {
                prefix.iter().map(|word| printable(&quoted(word)).into_owned()).collect::<Vec<_>>().join(" ")
            }
        }
    }
}

/// How long a step of the bootstrap may take.
const STEP_WITHIN: Duration = Duration::from_secs(10);
/// How long a piece of a copy may take, however long the copy takes in all.
const PIECE_WITHIN: Duration = Duration::from_secs(60);
/// How often it is said how far a copy is.
const COPY_TOLD_EVERY: Duration = Duration::from_secs(5);
/// Lines that a machine may say of its sessions.
const LINES_MOST: usize = 10_000;
/// A pipe that is silent for so long is broken: an agent says every second that it lives.
const HEARD_WITHIN: Duration = Duration::from_secs(10);
/// How long the other end may take to close: an agent next to a run that failed ends what it has started.
const CLOSES_WITHIN: Duration = Duration::from_secs(30);
/// Lines of standard error that a message shows, and characters of each.
const SHOWN_LINES: usize = 4;
const SHOWN_CHARACTERS: usize = 200;
/// Bytes of a line before the first frame.
const LINE_BYTES: u64 = 4096;
/// Frames and lines that wait to be looked at; whoever sends more waits: a frame may have 8 MiB.
const WAITING_MOST: usize = 8;
/// Lines with the token that a shell sends until its agent greets, and some more.
const STEPS_MOST: u32 = 16;
/// How long the other end may take none of what is written.
const TAKES_WITHIN: Duration = Duration::from_secs(30);
/// How often it is asked whether an answer is still waited for.
const ASKED_EVERY: Duration = Duration::from_millis(200);

/// What a process that may stand still reads from: writing is an error once it has taken nothing for a while.
struct Inlet(ChildStdin, Duration);

impl Inlet {
    fn new(to: ChildStdin, takes_within: Duration) -> std::io::Result<Self> {
        // SAFETY: plain system calls on a descriptor of ours; this end of the pipe alone does not block.
        let done = unsafe {
            let flags = libc::fcntl(to.as_raw_fd(), libc::F_GETFL);
            libc::fcntl(to.as_raw_fd(), libc::F_SETFL, flags | libc::O_NONBLOCK)
        };
        if done == -1 { Err(std::io::Error::last_os_error()) } else { Ok(Self(to, takes_within)) }
    }
}

impl Write for Inlet {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        loop {
            match self.0.write(bytes) {
                Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => {}
                written => return written,
            }
            let mut ready = libc::pollfd { fd: self.0.as_raw_fd(), events: libc::POLLOUT, revents: 0 };
            // SAFETY: one pollfd, which outlives the call.
            if unsafe { libc::poll(&raw mut ready, 1, self.1.as_millis() as i32) } == 0 {
                let text = format!("it took nothing for {} ms", self.1.as_millis());
                return Err(std::io::Error::new(std::io::ErrorKind::TimedOut, text));
            }
        }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.0.flush()
    }
}

/// An open pipe.
pub struct Pipe {
    child: Child,
    to: Box<dyn Write + Send>,
    from: Receiver<Came>,
    errors: Arc<Mutex<VecDeque<String>>>,
    /// What was printed before the first frame and is none of the bootstrap's, such as by login scripts: its first
    /// lines.
    noise: Arc<Mutex<VecDeque<String>>>,
    /// The pipe itself, where it is a socket.
    socket: Option<UnixStream>,
    /// It did not answer in time: whoever is silent is not waited for at the end, either.
    silent: bool,
    /// What the agent said first.
    pub hello: Hello,
}

/// What comes from the other end.
enum Came {
    /// Before the first frame.
    Line(String),
    /// Afterwards.
    Frame(FromAgent, Vec<u8>),
    /// What is no frame.
    Wrong(String),
}

/// What came of an attempt to open a pipe.
#[derive(Debug)]
pub enum Unopened {
    /// It may succeed later.
    Unreachable(String),
    /// It will not: another version, another architecture.
    Unfit(String),
}

impl Unopened {
    /// The reason.
    pub fn text(&self) -> &str {
        match self {
            Self::Unreachable(text) | Self::Unfit(text) => text,
        }
    }
}

impl Pipe {
    /// Opens a pipe to the agent of a session; a prefix is started without those variables of the environment.
    pub fn open(connect: &Connect, session: u64, without: &[&str]) -> Result<Self, Unopened> {
        let pipe = match connect {
            Connect::Here => Self::here(),
            Connect::Through { prefix, agent, folder } => {
                Self::through((prefix, folder), agent.as_deref(), session, without)
            }
        };
        let pipe = pipe?;
        match pipe.hello.protocol {
            PROTOCOL => Ok(pipe),
            other => Err(Unopened::Unfit(format!(
                "expected an agent that speaks protocol {PROTOCOL}, found tickscope {} with {other}. Leave agent \
                 out of the run file, and this version is copied there",
                printable(&pipe.hello.tickscope)
            ))),
        }
    }

    /// An agent next to this process: input and outputs are this process's own, the pipe is a socket.
    fn here() -> Result<Self, Unopened> {
        let wrong = |e: std::io::Error| Unopened::Unfit(format!("cannot start an agent here: {e}"));
        let (ours, its) = UnixStream::pair().map_err(wrong)?;
        let mut command = crate::process::this_program().map_err(|e| Unopened::Unfit(e.to_string()))?;
        let descriptor = its.as_raw_fd();
        command.args(["agent", "local", "--pipe", &descriptor.to_string()]);
        // SAFETY: plain system calls on a descriptor that is open until the child runs. A group of its own keeps the
        // terminal's Ctrl-C away; the signal on our death ends it in order.
        unsafe {
            command.pre_exec(move || {
                libc::setpgid(0, 0);
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM);
                match libc::fcntl(descriptor, libc::F_SETFD, 0) {
                    0 => Ok(()),
                    _ => Err(std::io::Error::last_os_error()),
                }
            })
        };
        let child = command.spawn().map_err(wrong)?;
        drop(its);
        let reading = ours.try_clone().map_err(wrong)?;
        let (send, from) = sync_channel(WAITING_MOST);
        thread::spawn(move || read_frames(&mut BufReader::new(reading), &send));
        let (errors, noise, socket) = (Arc::default(), Arc::default(), Some(ours.try_clone().map_err(wrong)?));
        ours.set_write_timeout(Some(TAKES_WITHIN)).map_err(wrong)?;
        Self { child, to: Box::new(ours), from, errors, noise, socket, silent: false, hello: Hello::none() }.greeted()
    }

    fn through(way: (&[String], &Path), agent: Option<&str>, session: u64, without: &[&str]) -> Result<Self, Unopened> {
        let program = match agent {
            Some(_) => None,
            None => Some(Program::this().map_err(|e| Unopened::Unfit(e.to_string()))?),
        };
        let token = token().map_err(|e| Unopened::Unfit(e.to_string()))?;
        let script = bootstrap::attaching(&token, session, program.as_ref().ok_or(agent.unwrap_or_default()));
        let mut pipe = Self::shell(way, &token, without)?;
        pipe.send(script.as_bytes())?;
        pipe.expect_machine()?;
        for _ in 0..STEPS_MOST {
            let said = pipe.step()?;
            match (said.split_once(' ').unwrap_or((&said, "")), &program) {
                (("want", _), Some(program)) => {
                    pipe.copy(program, &way.0.join(" "))?;
                }
                (("start", _), _) => {}
                (("attached", _), _) => return pipe.greeted(),
                (("unfit", why), _) => {
                    return Err(Unopened::Unfit(format!(
                        "tickscope does not run there: {}. Build it there, or statically, and name it in the run file: \
                         agent = \"/path/to/tickscope\"",
                        printable(why)
                    )));
                }
                (("failed", why), _) => return Err(Unopened::Unfit(printable(why).into_owned())),
                _ => return Err(pipe.broken(&format!("it said '{}'", printable(&said)))),
            }
        }
        Err(pipe.broken("it says the same again and again"))
    }

    /// Runs `sh` at the end of a prefix.
    fn shell((prefix, folder): (&[String], &Path), token: &str, without: &[&str]) -> Result<Self, Unopened> {
        let mut command = Command::new(&prefix[0]);
        without.iter().for_each(|name| _ = command.env_remove(name));
        if Path::new(&prefix[0]).file_name().is_some_and(|name| name == "ssh") {
            // A question that nobody can answer would be waited for; a path that is gone is to be noticed.
            command.args(["-T", "-o", "BatchMode=yes", "-o", "ServerAliveInterval=5", "-o", "ConnectTimeout=10"]);
        }
        command.args(&prefix[1..]).arg("sh");
        if !folder.as_os_str().is_empty() {
            command.current_dir(folder);
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // SAFETY: plain system calls. A session of its own has no terminal to ask for a password on, and gets no
        // Ctrl-C; it ends with this process.
        unsafe {
            command.pre_exec(|| {
                libc::setsid();
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM);
                Ok(())
            })
        };
        let mut child = command.spawn().map_err(|e| {
            Unopened::Unfit(format!("cannot start '{}': {e}. Correct connect = [...]", printable(&prefix[0])))
        })?;
        let (Some(to), Some(out), Some(err)) = (child.stdin.take(), child.stdout.take(), child.stderr.take()) else {
            return Err(Unopened::Unfit("cannot open pipes to it".into()));
        };
        let (send, from) = sync_channel(WAITING_MOST);
        let attached = format!("{token} attached");
        let token = format!("{token} ");
        let noise: Arc<Mutex<VecDeque<String>>> = Arc::default();
        let heard = Arc::clone(&noise);
        thread::spawn(move || {
            let mut out = BufReader::new(out);
            if read_lines(&mut out, (&token, &attached), &heard, &send) {
                read_frames(&mut out, &send);
            }
        });
        let errors: Arc<Mutex<VecDeque<String>>> = Arc::default();
        let kept = Arc::clone(&errors);
        thread::spawn(move || keep_lines(BufReader::new(err), &kept));
        let to = Inlet::new(to, TAKES_WITHIN).map_err(|e| Unopened::Unfit(format!("cannot write to it: {e}")))?;
        Ok(Self { child, to: Box::new(to), from, errors, noise, socket: None, silent: false, hello: Hello::none() })
    }

    fn send(&mut self, bytes: &[u8]) -> Result<(), Unopened> {
        let sent = self.to.write_all(bytes).and_then(|()| self.to.flush());
        sent.map_err(|e| self.broken(&e.to_string()))
    }

    /// The first line with the token says what machine it is.
    fn expect_machine(&mut self) -> Result<(), Unopened> {
        let said = self.step()?;
        let mut words = said.split_whitespace();
        match (words.next(), words.next(), words.next()) {
            (Some("here"), Some(system), Some(machine)) => {
                bootstrap::expect_machine(&printable(system), &printable(machine)).map_err(Unopened::Unfit)
            }
            _ => Err(self.broken(&format!("it said '{}'", printable(&said)))),
        }
    }

    /// Sends the program, each piece once the one before has arrived. A slow way takes its time: it is given up where
    /// nothing moves, and how far it is, is said.
    fn copy(&mut self, program: &Program, way: &str) -> Result<(), Unopened> {
        let unread = |e: std::io::Error| Unopened::Unfit(format!("cannot read this program to copy it: {e}"));
        let (mut sent, mut said) = (0, Instant::now());
        for piece in bootstrap::pieces(program).map_err(unread)? {
            let piece = piece.map_err(unread)?;
            self.send(&piece)?;
            sent += piece.len() as u64;
            let line = self.step_within(PIECE_WITHIN)?;
            if let Some(why) = line.strip_prefix("failed ") {
                return Err(Unopened::Unfit(printable(why).into_owned()));
            }
            if line != format!("got {sent}") {
                return Err(self.broken(&format!("it said '{}' when it was sent {sent} bytes", printable(&line))));
            }
            if said.elapsed() > COPY_TOLD_EVERY {
                said = Instant::now();
                let [sent, all] = [sent, program.length].map(|bytes| bytes as f64 / 1e6);
                notice::say(format!("copying tickscope through '{way}': {sent:.1} of {all:.1} MB"));
            }
        }
        Ok(())
    }

    /// How long the other end may take to close now.
    fn closes_within(&self) -> Duration {
        let elsewhere = self.socket.is_none(); // one here ends processes meanwhile
        if elsewhere && (self.silent || interrupt::insisted()) { ASKED_EVERY } else { CLOSES_WITHIN }
    }

    /// The next line with the token, without it.
    fn step(&mut self) -> Result<String, Unopened> {
        self.step_within(STEP_WITHIN)
    }

    fn step_within(&mut self, within: Duration) -> Result<String, Unopened> {
        match self.from.recv_timeout(within) {
            Ok(Came::Line(line)) => Ok(line),
            Ok(Came::Wrong(text)) => Err(self.broken(&text)),
            Ok(Came::Frame(..)) => Err(self.broken("it sent a frame too early")),
            Err(RecvTimeoutError::Timeout) => {
                self.silent = true;
                Err(self.broken(&format!("no answer of a shell within {} s", within.as_secs())))
            }
            Err(RecvTimeoutError::Disconnected) => Err(self.broken("")),
        }
    }

    /// Waits for the agent's first frame.
    fn greeted(mut self) -> Result<Self, Unopened> {
        let until = Instant::now() + STEP_WITHIN;
        loop {
            match self.from.recv_timeout(until.saturating_duration_since(Instant::now())) {
                _ if Instant::now() >= until => {
                    self.silent = true;
                    return Err(self.broken("its agent did not say hello in time"));
                }
                Ok(Came::Frame(FromAgent::Hello(hello), _)) => {
                    self.hello = hello;
                    return Ok(self);
                }
                Ok(Came::Frame(FromAgent::Beat, _)) => {}
                Ok(Came::Wrong(text)) => return Err(self.broken(&format!("its agent did not say hello: {text}"))),
                Ok(_) | Err(_) => return Err(self.broken("its agent did not say hello")),
            }
        }
    }

    /// Why it broke: how the command ended, and its last words.
    fn broken(&mut self, what: &str) -> Unopened {
        thread::sleep(Duration::from_millis(50)); // its last words may be under way
        let ended = self.child.try_wait().ok().flatten();
        let how = match (ended, what) {
            (Some(status), _) if !status.success() => format!("it ended with {status}"),
            (Some(_), "") => "it ended without a word".into(),
            (_, what) => what.to_owned(),
        };
        let lines = self.errors.lock().unwrap_or_else(PoisonError::into_inner);
        let last: Vec<_> = lines.iter().map(String::as_str).collect();
        let (said, remedy) = (last.join("; "), remedy(&last));
        let heard = self.noise.lock().unwrap_or_else(PoisonError::into_inner);
        let noise = match (self.hello.protocol, heard.is_empty()) {
            (0, false) => format!("; it printed: {}", Vec::from(heard.clone()).join(" / ")),
            _ => String::new(), // it went by its side all the same
        };
        Unopened::Unreachable(match said.is_empty() {
            true => how + &noise,
            false => format!("{how}: {said}{remedy}{noise}"),
        })
    }

    /// Asks, and waits for the answer as long as something comes and `waits` says so. `Err`: the pipe broke, and nobody
    /// knows whether it was done.
    pub fn ask(
        &mut self,
        asked: &Asked,
        bytes: &[u8],
        waits: &dyn Fn() -> bool,
    ) -> Result<(Answered, Vec<u8>), String> {
        match frame::write(&mut self.to, asked, bytes) {
            // Nothing of it went out: the pipe holds.
            Err(e) if e.kind() == std::io::ErrorKind::InvalidData => {
                return Ok((Answered { number: asked.number, answer: Err(Error::work(e)) }, Vec::new()));
            }
            written => written.map_err(|e| e.to_string())?,
        }
        let mut hurried = !matches!(&asked.question, Question::Start(_, task) if matches!(**task, Task::Target(_)));
        // Counted and not timed: while this process was stopped, the agent was not silent.
        let mut silent = Duration::ZERO;
        loop {
            if interrupt::ended() && !std::mem::replace(&mut hurried, true) {
                let hurry = Asked { number: 0, question: Question::Hurry };
                frame::write(&mut self.to, &hurry, &[]).map_err(|e| e.to_string())?;
            }
            match self.from.recv_timeout(ASKED_EVERY) {
                Ok(Came::Frame(FromAgent::Answered(answered), bytes)) if answered.number == asked.number => {
                    return Ok((answered, bytes));
                }
                _ if !waits() => return Err("its answer was not waited for".into()),
                Ok(Came::Frame(..) | Came::Line(_)) => silent = Duration::ZERO,
                Ok(Came::Wrong(text)) => return Err(text),
                Err(RecvTimeoutError::Timeout) if silent < HEARD_WITHIN => silent += ASKED_EVERY,
                Err(RecvTimeoutError::Timeout) => {
                    self.silent = true;
                    return Err(format!("nothing came for {} s", HEARD_WITHIN.as_secs()));
                }
                Err(RecvTimeoutError::Disconnected) => match self.broken("the pipe was closed") {
                    Unopened::Unreachable(text) | Unopened::Unfit(text) => return Err(text),
                },
            }
        }
    }
}

/// Removes the programs that were copied to where a prefix leads, and the folders of sessions that are over there; no
/// prefix: on this machine. What was done, a line each.
pub fn remove(prefix: &[String], unfetched: Unfetched) -> Result<Vec<String>, Error> {
    let here = prefix.is_empty();
    let prefix = if here { vec!["env".to_owned()] } else { prefix.to_vec() };
    let wrong = |refused: Unopened| {
        Error::work(format!("cannot remove anything through '{}': {}", prefix.join(" "), refused.text()))
    };
    let mut lines = if here { remove_ended_sessions(unfetched) } else { Vec::new() };
    let token = token()?;
    let mut pipe = Pipe::shell((&prefix, Path::new("")), &token, &[]).map_err(wrong)?;
    pipe.send(bootstrap::removing(&token, unfetched).as_bytes()).map_err(wrong)?;
    pipe.expect_machine().map_err(wrong)?;
    loop {
        let said = pipe.step_within(PIECE_WITHIN).map_err(wrong)?;
        match said.split_once(' ').unwrap_or((&said, "")) {
            ("session", line) => lines.push(printable(line).into_owned()),
            ("removed", rest) => {
                let (number, folder) = rest.split_once(' ').unwrap_or((rest, ""));
                lines.push(format!("removed {} from {}", programs(number), printable(folder)));
                return Ok(lines);
            }
            _ => return Err(wrong(Unopened::Unfit(printable(&said).into_owned()))),
        }
        if lines.len() > LINES_MOST {
            return Err(wrong(Unopened::Unfit("it says the same again and again".into())));
        }
    }
}

/// So many copied programs.
fn programs(number: &str) -> String {
    number.parse::<u64>().map_or_else(|_| printable(number).into_owned(), |number| counted(number, "copied program"))
}

impl Drop for Pipe {
    fn drop(&mut self) {
        self.to = Box::new(std::io::sink()); // the other end sees that
        if let Some(socket) = &self.socket {
            let _ = socket.shutdown(std::net::Shutdown::Write); // it may be gone
        }
        let deadline = Instant::now() + self.closes_within();
        while !has_ended(&self.child) && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(2));
        }
        // Before it is waited for, nobody else can have its number: what it started, in its session, goes with it.
        // SAFETY: kill takes numbers alone; the group is the one that `shell` made.
        unsafe { libc::kill(-(self.child.id() as libc::pid_t), libc::SIGTERM) };
        let _ = self.child.kill(); // it may have ended meanwhile
        let _ = self.child.wait();
    }
}

/// Returns whether a child has ended; it stays to be waited for.
fn has_ended(child: &Child) -> bool {
    let flags = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
    // SAFETY: waitid fills the zeroed struct that it is given.
    let (status, found) = unsafe {
        let mut found: libc::siginfo_t = std::mem::zeroed();
        (libc::waitid(libc::P_PID, child.id(), &mut found, flags), found)
    };
    // SAFETY: the field is set by waitid, and was zeroed before.
    status != 0 || unsafe { found.si_pid() } != 0
}

impl Hello {
    fn none() -> Self {
        Self { protocol: 0, tickscope: String::new(), boot: String::new(), generation: 0, has_run: true }
    }
}

/// What helps, by what ssh and the like say.
fn remedy(lines: &[&str]) -> &'static str {
    let says = |text: &str| lines.iter().any(|line| line.contains(text));
    if says("IDENTIFICATION HAS CHANGED") || says("Host key verification failed") {
        ". Its host key is unknown or has changed: connect by hand once, or remove the old one with ssh-keygen -R"
    } else if says("Permission denied") || says("a password is required") || says("terminal is required") {
        ". Nobody can type a password here: set up a key that needs none (ssh-copy-id, ssh-agent)"
    } else if says("ould not resolve") {
        ". Correct the host's name"
    } else {
        ""
    }
}

/// Sends the lines that begin with the token, without it; true once it was attached, false at the end.
fn read_lines(
    out: &mut impl BufRead,
    (token, attached): (&str, &str),
    noise: &Mutex<VecDeque<String>>,
    to: &SyncSender<Came>,
) -> bool {
    loop {
        let mut line = Vec::new();
        if !out.by_ref().take(LINE_BYTES).read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
            return false;
        }
        let line = String::from_utf8_lossy(&line);
        let Some(said) = line.trim_end().strip_prefix(token) else {
            let text: String = printable(line.trim_end()).chars().take(SHOWN_CHARACTERS).collect();
            let mut noise = noise.lock().unwrap_or_else(PoisonError::into_inner);
            if !text.is_empty() && noise.len() < SHOWN_LINES {
                noise.push_back(text);
            }
            continue;
        };
        if to.send(Came::Line(said.into())).is_err() {
            return false;
        }
        if line.trim_end() == attached {
            return true;
        }
    }
}

fn read_frames(out: &mut impl Read, to: &SyncSender<Came>) {
    loop {
        let came = match frame::read(out) {
            Ok(Some((document, bytes))) => Came::Frame(document, bytes),
            Ok(None) => return,
            Err(e) => Came::Wrong(e.to_string()),
        };
        let ends = matches!(came, Came::Wrong(_));
        if to.send(came).is_err() || ends {
            return;
        }
    }
}

fn keep_lines(mut from: impl BufRead, lines: &Mutex<VecDeque<String>>) {
    let mut line = Vec::new();
    while from.by_ref().take(LINE_BYTES).read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
        let text: String =
            printable(String::from_utf8_lossy(&line).trim_end()).chars().take(SHOWN_CHARACTERS).collect();
        line.clear();
        let mut lines = lines.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.len() == SHOWN_LINES {
            lines.pop_front();
        }
        if !text.is_empty() {
            lines.push_back(text);
        }
    }
}

/// A word that nothing else prints.
fn token() -> Result<String, Error> {
    Ok(format!("tickscope-{:016x}", crate::conductor::random()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    /// A process that reads nothing and lives until it is killed.
    fn standing_still() -> Child {
        Command::new("sleep").arg("1000000").stdin(Stdio::piped()).spawn().unwrap()
    }

    #[test]
    fn what_stands_still_and_takes_nothing_is_an_error_once_its_pipe_is_full() {
        let mut child = standing_still();
        let mut inlet = Inlet::new(child.stdin.take().unwrap(), Duration::from_millis(20)).unwrap();
        let refused = inlet.write_all(&vec![0; 4 << 20]).unwrap_err();
        assert!(refused.to_string().contains("it took nothing for 20 ms"), "{refused}");
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(inlet.write(b"more").unwrap_err().kind(), std::io::ErrorKind::BrokenPipe);
    }

    #[test]
    fn a_question_that_no_frame_holds_is_an_error_and_the_pipe_holds() {
        let ((_send, from), errors, noise) = (sync_channel(1), Arc::default(), Arc::default());
        let (child, to, hello) = (standing_still(), Box::new(std::io::sink()), Hello::none());
        let mut pipe = Pipe { child, to, from, errors, noise, socket: None, silent: false, hello };
        let asked = Asked { number: 1, question: Question::Look };
        let (answered, _) = pipe.ask(&asked, &vec![0; frame::MOST_BYTES], &|| true).unwrap();
        let why = answered.answer.unwrap_err().to_string();
        assert!(why.contains("expected a frame of at most"), "{why}");
        pipe.child.kill().unwrap();
    }

    #[test]
    fn what_did_not_answer_in_time_is_not_waited_for_once_more_at_the_end() {
        let ((_send, from), errors, noise) = (sync_channel(1), Arc::default(), Arc::default());
        let (child, to, hello) = (standing_still(), Box::new(std::io::sink()), Hello::none());
        let mut pipe = Pipe { child, to, from, errors, noise, socket: None, silent: false, hello };
        assert_eq!(pipe.closes_within(), CLOSES_WITHIN, "whoever answers may have to end what it started");
        let refused = pipe.step_within(Duration::from_millis(20)).unwrap_err();
        assert!(refused.text().contains("no answer of a shell"), "{refused:?}");
        assert_eq!(pipe.closes_within(), ASKED_EVERY);
        drop(pipe);
    }

    #[test]
    fn an_answer_of_an_agent_that_lives_is_waited_for_as_long_as_somebody_wants_it() {
        let (send, from) = sync_channel(1);
        let (child, errors) = (standing_still(), Arc::default());
        let (to, noise, hello) = (Box::new(std::io::sink()), Arc::default(), Hello::none());
        let mut pipe = Pipe { child, to, from, errors, noise, socket: None, silent: false, hello };
        let beats = thread::spawn(move || while send.send(Came::Frame(FromAgent::Beat, Vec::new())).is_ok() {});
        let asked = Asked { number: 1, question: Question::Look };
        let times = Cell::new(0);
        let waits = || times.replace(times.get() + 1) < 1000;
        assert_eq!(pipe.ask(&asked, b"", &waits).unwrap_err(), "its answer was not waited for");
        assert_eq!(times.get(), 1001, "each beat keeps it");
        pipe.child.kill().unwrap();
        drop(pipe);
        beats.join().unwrap();
    }

    #[test]
    fn a_copy_waits_for_each_piece_to_arrive_and_for_nothing_else() {
        let path = std::env::temp_dir().join(format!("tickscope-copied-{}", std::process::id()));
        std::fs::write(&path, vec![7; 600_000]).unwrap();
        let program = Program { path: path.clone(), length: 600_000, digest: String::new() };
        let copied = |lines: &[&str]| {
            let (send, from) = sync_channel(lines.len());
            lines.iter().for_each(|line| send.send(Came::Line((*line).into())).unwrap());
            drop(send);
            let (mut child, errors) = (standing_still(), Arc::default());
            child.kill().unwrap();
            let to = Box::new(std::io::sink());
            let (noise, hello) = (Arc::default(), Hello::none());
            let mut pipe = Pipe { child, to, from, errors, noise, socket: None, silent: false, hello };
            pipe.copy(&program, "ssh host2").map_err(|refused| refused.text().to_owned())
        };
        assert_eq!(copied(&["got 262144", "got 524288", "got 600000"]), Ok(()));
        for wrong in [
            &["got 262144", "got 524288"][..],
            &["got 5", "got 524288", "got 600000"],
            &["got 262144", "got 262144", "got 600000"],
            &["failed no room"],
        ] {
            assert!(copied(wrong).is_err(), "{wrong:?}");
        }
        std::fs::remove_file(path).unwrap();
    }
}
