//! Processes of a run, with all that they started: where their node lives, ended with it, never outliving it.

mod output;

use std::io::Write;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use tickscope_tick::printable;

use crate::Error;
use crate::agent::Ended;
pub use output::{ANSWER, Forward};
use output::{Lines, drain, drain_errors};

/// A process that is asked to end, and then made to, when dropped.
#[derive(Debug)]
pub struct Process {
    what: String,
    child: Child,
    /// Where one of tickscope's own is told what to do.
    input: Option<ChildStdin>,
    lines: Arc<Lines>,
    first: Receiver<String>,
    last: Receiver<Option<String>>,
    started: Instant,
    ended: Option<(ExitStatus, Duration)>,
    cpu_ns: Option<u64>,
}

/// How long the output of an ended process may stay open: something it started may hold it.
const OUTPUT_END: Duration = Duration::from_secs(2);
/// How long a process may take to end once it was asked to.
const PATIENCE: Duration = Duration::from_secs(20);

impl Process {
    /// Starts one of tickscope's own, which reads `settings` as its first line; its report is the last line that it
    /// prints.
    pub fn start(what: &str, command: &mut Command, settings: &str) -> Result<Self, Error> {
        command.stdin(Stdio::piped());
        let mut process = Self::spawn(what, command, Forward::Nowhere, Lines::of_own())?;
        let _ = process.tell(settings); // one that ended already says why below
        Ok(process)
    }

    /// Tells one of tickscope's own a line.
    pub fn tell(&mut self, line: &str) -> Result<(), Error> {
        let wrong =
            |e: std::io::Error| Error::work(format!("{}: cannot send '{line}': {e}. It may have ended", self.what));
        let input = self.input.as_mut().ok_or_else(|| wrong(std::io::ErrorKind::BrokenPipe.into()))?;
        input.write_all(format!("{line}\n").as_bytes()).and_then(|()| input.flush()).map_err(wrong)
    }

    /// Starts `command`, whose standard output goes on to `forward`. `ready_text`: a line of either output that
    /// contains it says that it is ready.
    pub fn start_printing(
        what: &str,
        command: &mut Command,
        forward: Forward,
        ready_text: Option<&str>,
    ) -> Result<Self, Error> {
        if ready_text.is_some() {
            command.stderr(Stdio::piped());
        }
        Self::spawn(what, command, forward, Lines::awaiting(ready_text))
    }

    fn spawn(what: &str, command: &mut Command, forward: Forward, lines: Lines) -> Result<Self, Error> {
        // SAFETY: both calls are plain system calls. A group of its own keeps the terminal's Ctrl-C away: this process
        // decides the order of the end. The signal on our death keeps the child from outliving a killed run.
        unsafe {
            command.pre_exec(|| {
                libc::setpgid(0, 0);
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM);
                Ok(())
            })
        };
        let mut child = command.stdout(Stdio::piped()).spawn().map_err(|e| {
            let name = command.get_program().to_string_lossy();
            let folder = command.get_current_dir().map(|folder| format!(" in {}", folder.display()));
            let folder = folder.unwrap_or_default();
            Error::work(format!(
                "{what}: cannot start '{name}'{folder}: {e}. Is it built, and the path right from there?"
            ))
        })?;
        let (send_first, first) = channel();
        let (send_last, last) = channel();
        let lines = Arc::new(lines);
        if let Some(output) = child.stdout.take() {
            let lines = Arc::clone(&lines);
            std::thread::spawn(move || drain(output, forward, &lines, &send_first, &send_last));
        }
        if let Some(errors) = child.stderr.take() {
            let lines = Arc::clone(&lines);
            std::thread::spawn(move || drain_errors(errors, &lines));
        }
        let (started, ended, cpu_ns, input) = (Instant::now(), None, None, child.stdin.take());
        Ok(Self { what: what.into(), child, input, lines, first, last, started, ended, cpu_ns })
    }

    /// The process, in words.
    pub fn what(&self) -> &str {
        &self.what
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The lines that it printed.
    pub fn lines(&self) -> &Lines {
        &self.lines
    }

    /// Waits for the line that says it is ready.
    pub fn ready(&mut self) -> Result<(), Error> {
        match self.first.recv() {
            Ok(line) if line == "ready" => Ok(()),
            Ok(line) => Err(Error::work(format!(
                "{}: expected the line 'ready' first, found '{}'. Start the same tickscope there",
                self.what,
                printable(&line)
            ))),
            Err(_) => Err(Error::work(format!("{}: it ended before it was ready. {}", self.what, crate::agent::SAID))),
        }
    }

    /// Its exit code or signal; `None`: it goes on.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        if self.ended.is_none() {
            let (may_be_over, cpu_ns) = account(self.child.id());
            if may_be_over {
                self.cpu_ns = cpu_ns;
                let status = self.child.try_wait().ok().flatten()?;
                self.ended = Some((status, self.started.elapsed()));
            }
        }
        self.ended.map(|(status, _)| status)
    }

    /// Asks it to end and waits. `Err`: it had to be killed.
    pub fn end(mut self) -> Result<Ended, Error> {
        let asked = self.ask();
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            if let Some(ended) = self.look(asked) {
                return Ok(ended);
            }
        }
        let (what, seconds) = (&self.what, PATIENCE.as_secs());
        Err(Error::work(format!("{what}: it did not end within {seconds} s of SIGTERM and was killed")))
    }

    /// Waits for a process that ends by itself, however long it takes.
    pub fn complete(mut self) -> Ended {
        loop {
            if let Some(ended) = self.look(false) {
                return ended;
            }
        }
    }

    /// How it ended; `None`: it goes on. Takes a moment: the wait needs a deadline, which waitpid lacks.
    fn look(&mut self, asked: bool) -> Option<Ended> {
        let Some(status) = self.ended() else {
            std::thread::sleep(Duration::from_millis(2));
            return None;
        };
        self.signal_group(libc::SIGTERM);
        let last = self.last.recv_timeout(OUTPUT_END).ok().flatten();
        let ran_ns = self.ended.map_or(0, |(_, ran)| ran.as_nanos() as u64);
        let (what, pid, wait_status) = (self.what.clone(), self.child.id(), status.into_raw());
        Some(Ended { what, pid, last, wait_status, asked, ran_ns, cpu_ns: self.cpu_ns })
    }

    /// Asks it to end; whether it was running.
    fn ask(&mut self) -> bool {
        let runs = self.ended().is_none();
        if runs {
            self.signal_group(libc::SIGTERM);
        }
        runs
    }

    /// A command may have started others, and whoever of them goes on would keep its output open.
    fn signal_group(&self, signal: libc::c_int) {
        // SAFETY: the group that the child made of itself before it ran; while a process is in it, its number is not
        // given to another, and when none is, there is nobody to signal.
        unsafe { libc::kill(-(self.child.id() as libc::pid_t), signal) };
    }
}

/// This same program, also where its file was replaced by a newer one meanwhile.
pub fn this_program() -> Result<Command, Error> {
    let name = std::env::current_exe().map_err(|e| {
        Error::work(format!("cannot find this program again: {e}. Mount /proc, and leave the program where it is"))
    })?;
    let mut command = Command::new("/proc/self/exe");
    command.arg0(name);
    Ok(command)
}

/// Returns whether a child may have ended, and the processor time that it took; looked at before it is reaped, when
/// that is still known.
fn account(pid: u32) -> (bool, Option<u64>) {
    // SAFETY: all-zero is a valid value of both.
    let (mut info, mut usage): (libc::siginfo_t, libc::rusage) = unsafe { (std::mem::zeroed(), std::mem::zeroed()) };
    let how = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
    // SAFETY: the system call has a fifth argument, which the C library's function hides; both places outlive it.
    let found = unsafe { libc::syscall(libc::SYS_waitid, libc::P_PID, pid, &mut info, how, &mut usage) };
    if found != 0 {
        return (true, None); // the ordinary wait says whether it ended
    }
    // SAFETY: waitid filled it, or left it zero: no child ended.
    let over = unsafe { info.si_pid() } != 0;
    let ns = |time: libc::timeval| time.tv_sec as u64 * 1_000_000_000 + time.tv_usec as u64 * 1000;
    (over, over.then(|| ns(usage.ru_utime) + ns(usage.ru_stime)))
}

impl Drop for Process {
    fn drop(&mut self) {
        if self.ended().is_none() {
            self.ask();
            // What it still has to write, it may: this is the way out after a failure, where nobody waits for its
            // report.
            std::thread::sleep(Duration::from_millis(200));
            self.signal_group(libc::SIGKILL); // it may have ended meanwhile
            let _ = self.child.wait();
        }
    }
}
