//! Processes of a run, with all that they started: where their node lives, ended with it, never outliving it.

use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use crate::failure::Failure;

/// A process that is asked to end, and then made to, when dropped.
#[derive(Debug)]
pub struct Process {
    what: String,
    child: Child,
    first: Receiver<String>,
    last: Receiver<Option<String>>,
}

/// How long the output of an ended process may stay open: something it started may hold it.
const OUTPUT_END: Duration = Duration::from_secs(2);
/// How long a process may take to end once it was asked to.
const PATIENCE: Duration = Duration::from_secs(20);

impl Process {
    /// Starts `command`; what it prints can be read by [`Process::line`].
    pub fn start(what: &str, command: &mut Command) -> Result<Self, Failure> {
        // SAFETY: both calls are plain system calls. A group of its own keeps the terminal's Ctrl-C away: this process
        // decides the order of the end. The signal on our death keeps the child from outliving a killed run.
        unsafe {
            command.pre_exec(|| {
                libc::setpgid(0, 0);
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM);
                Ok(())
            })
        };
        let name = command.get_program().to_string_lossy().into_owned();
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().map_err(|e| {
            Failure::work(format!(
                "{what}: expected to start '{name}', found: {e}. Is it built, and the path right from here?"
            ))
        })?;
        let (send_first, first) = channel();
        let (send_last, last) = channel();
        if let Some(output) = child.stdout.take() {
            std::thread::spawn(move || drain(output, &send_first, &send_last));
        }
        Ok(Self { what: what.into(), child, first, last })
    }

    /// Waits for the line that says it is ready.
    pub fn ready(&mut self) -> Result<(), Failure> {
        match self.first.recv() {
            Ok(line) if line == "ready" => Ok(()),
            _ => Err(Failure::work(format!(
                "{}: expected it to become ready, found its end. See its message above",
                self.what
            ))),
        }
    }

    /// How it ended; `None`: it goes on.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// Asks it to end and waits; returns its last line and how it ended. `Err`: it had to be killed.
    pub fn end(mut self) -> Result<(Option<String>, ExitStatus), Failure> {
        self.ask();
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            if let Some(status) = self.ended() {
                self.signal_group(libc::SIGTERM);
                let last = self.last.recv_timeout(OUTPUT_END).ok().flatten();
                return Ok((last, status));
            }
            // Polled: the wait needs a deadline, which waitpid lacks.
            std::thread::sleep(Duration::from_millis(2));
        }
        let what = self.what.clone();
        Err(Failure::work(format!(
            "{what}: expected it to end within {} s of SIGTERM, found it running. It was killed",
            PATIENCE.as_secs()
        )))
    }

    fn ask(&mut self) {
        if self.ended().is_none() {
            self.signal_group(libc::SIGTERM);
        }
    }

    /// A command may have started others, and whoever of them goes on would keep its output open.
    fn signal_group(&self, signal: libc::c_int) {
        // SAFETY: the group that the child made of itself before it ran; while a process is in it, its number is not
        // given to another, and when none is, there is nobody to signal.
        unsafe { libc::kill(-(self.child.id() as libc::pid_t), signal) };
    }
}

/// Reads all that a process prints, so that it never waits for a reader; keeps the first line and the last.
fn drain(output: ChildStdout, first: &Sender<String>, last: &Sender<Option<String>>) {
    let (mut reader, mut line, mut latest) = (BufReader::new(output), Vec::new(), None);
    while reader.read_until(b'\n', &mut line).is_ok_and(|bytes| bytes > 0) {
        let text = String::from_utf8_lossy(&line).trim_end().to_owned();
        if latest.is_none() {
            let _ = first.send(text.clone()); // nobody waits for it but `ready`
        }
        latest = Some(text);
        line.clear();
    }
    let _ = last.send(latest); // nobody waits for it but `end`
}

impl Drop for Process {
    fn drop(&mut self) {
        if self.ended().is_none() {
            self.ask();
            // What it still has to write, it may: this is the way out after a failure, where nobody waits for its report.
            std::thread::sleep(Duration::from_millis(200));
            self.signal_group(libc::SIGKILL); // it may have ended meanwhile
            let _ = self.child.wait();
        }
    }
}
