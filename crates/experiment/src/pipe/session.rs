//! A session's folder on the machine of an agent: its socket, its spool, the files of its node.
//!
//! ```text
//! sessions/0123456789abcdef/   0700
//!   socket                     where conductors connect
//!   lock                       held by the agent
//!   run/                       the spool: files on their way to the run
//!   files/                     the folder that the node's commands run in
//! ```
//!
//! Guarantees: the folder is the user's own and nobody else can enter it; nothing is written outside it.

use std::collections::VecDeque;
use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Mutex;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use tickscope_stamp::directory::user;
use tickscope_store::make_folders;

use super::protocol::PIECE_BYTES;
use super::server::{AgentServer, attend, pass_on};
use crate::leftovers::own_folder;
use crate::{Error, interrupt};

/// A session's folder.
#[derive(Clone, Debug)]
pub struct Folder(PathBuf);

/// How long until another pipe is taken in after one could not be.
const AFTER_REFUSAL: Duration = Duration::from_millis(100);
/// How long a new agent may take until it listens.
const LISTENS_WITHIN: Duration = Duration::from_secs(8);
/// Bytes of a file that a node is given.
const FILE_MOST_BYTES: u64 = 1 << 30;

impl Folder {
    /// The folder of that session of this user; made where it is not there.
    pub fn of(session: u64) -> Result<Self, Error> {
        let mut refused = Vec::new();
        for home in homes() {
            let place = home.join("sessions").join(format!("{session:016x}"));
            match make_own(&home, &place) {
                Ok(()) => return Ok(Self(place)),
                Err(e) => refused.push(format!("{}: {e}", place.display())),
            }
        }
        Err(Error::work(format!(
            "cannot make a folder for the session: {}. Set XDG_STATE_HOME there to a folder that can be written",
            refused.join("; ")
        )))
    }

    /// A folder that nothing is made in.
    #[cfg(test)]
    pub(super) fn at(place: PathBuf) -> Self {
        Self(place)
    }

    /// Where roles write as if it were the run.
    pub fn spool(&self) -> PathBuf {
        self.0.join("run")
    }

    /// Where the node's commands run.
    pub fn files(&self) -> PathBuf {
        self.0.join("files")
    }

    /// Returns whether an agent was told of a run that it is for: stamps may lie in the spool.
    pub fn is_of_run(&self) -> bool {
        self.spool().join("run.json").exists()
    }

    /// Writes the run's manifest into the spool.
    pub fn write_manifest(&self, text: &str) -> Result<(), Error> {
        Ok(tickscope_store::write_whole(&self.spool().join("run.json"), text.as_bytes())?)
    }

    /// Writes a piece of a file of the node.
    pub fn put(&self, name: &str, executable: bool, offset: u64, piece: &[u8]) -> Result<(), Error> {
        let is_name = !name.is_empty() && !name.starts_with('.') && !name.contains(['/', '\0']);
        let ends = offset.checked_add(piece.len() as u64).filter(|&ends| ends <= FILE_MOST_BYTES);
        if !is_name || ends.is_none() {
            return Err(Error::input(format!(
                "expected a file's name without '/' and at most {FILE_MOST_BYTES} bytes, found '{name}' with a piece \
                 of {} bytes at {offset}. Correct files = [...]",
                piece.len()
            )));
        }
        let place = self.files().join(name);
        let wrong = |e: std::io::Error| Error::work(format!("cannot write {}: {e}. Free some space", place.display()));
        if offset == 0 {
            let _ = fs::remove_file(&place); // one that runs is not written over
        }
        let mode = if executable { 0o700 } else { 0o600 };
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false).mode(mode).custom_flags(libc::O_NOFOLLOW);
        let file = options.open(&place).map_err(wrong)?;
        file.write_all_at(piece, offset).map_err(wrong)
    }

    /// A piece of a log that the node's command wrote.
    pub fn read(&self, path: &str, offset: u64) -> Result<Vec<u8>, Error> {
        let place = self.files().join(path);
        let wrong =
            |e: std::io::Error| Error::work(format!("cannot read the log {}: {e}. Check the path", place.display()));
        let file = tickscope_store::open_regular(&place).map_err(wrong)?;
        let mut piece = vec![0; PIECE_BYTES];
        let read = file.read_at(&mut piece, offset).map_err(wrong)?;
        piece.truncate(read);
        Ok(piece)
    }

    /// Removes it with all that is in it.
    pub fn remove(&self) -> Result<(), Error> {
        let place = self.0.display();
        fs::remove_dir_all(&self.0).map_err(|e| Error::work(format!("cannot remove {place}: {e}. Check its rights")))
    }

    /// A path of the folder that is short enough for a socket; the descriptor keeps it true.
    fn short(&self, name: &str) -> std::io::Result<(File, PathBuf)> {
        let folder = File::open(&self.0)?;
        let path = PathBuf::from(format!("/proc/self/fd/{}/{name}", folder.as_raw_fd()));
        Ok((folder, path))
    }

    fn connect(&self) -> std::io::Result<UnixStream> {
        let (_folder, path) = self.short("socket")?;
        UnixStream::connect(path)
    }
}

/// Folders that sessions may lie in, the best one first.
pub fn homes() -> Vec<PathBuf> {
    let set = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let user = user();
    let temporary = set("TMPDIR").unwrap_or_else(|| "/tmp".into()).join(format!("tickscope-{user}"));
    let state = set("XDG_STATE_HOME").or_else(|| set("HOME").map(|home| home.join(".local/state")));
    state.map(|state| state.join("tickscope")).into_iter().chain([temporary]).collect()
}

fn make_own(home: &Path, place: &Path) -> std::io::Result<()> {
    if let Some(parent) = home.parent() {
        make_folders(parent).map_err(std::io::Error::other)?;
    }
    for folder in [home, &home.join("sessions"), place, &place.join("run"), &place.join("files")] {
        own_folder(folder)?;
        private(folder)?;
    }
    Ok(())
}

fn private(folder: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(folder, fs::Permissions::from_mode(0o700))
}

/// Returns whether an agent of that session goes on here.
pub fn session_goes_on(session: u64) -> bool {
    let name = format!("{session:016x}");
    homes().iter().any(|home| Folder(home.join("sessions").join(&name)).connect().is_ok())
}

/// Connects standard input and output to the agent of that session, which is started where none lives. `token`: what
/// is printed once that has succeeded.
pub fn attach(session: u64, token: &str) -> Result<(), Error> {
    let folder = Folder::of(session)?;
    let socket = match folder.connect() {
        Ok(socket) => socket,
        Err(_) => start(&folder, session)?,
    };
    let mut out = std::io::stdout();
    let greeted = out.write_all(format!("\n{token} attached\n").as_bytes()).and_then(|()| out.flush());
    greeted.and_then(|()| pass_on(&socket)).map_err(|e| Error::work(format!("the pipe broke: {e}")))
}

/// Starts the agent of a session in a terminal session of its own, and waits until it listens.
fn start(folder: &Folder, session: u64) -> Result<UnixStream, Error> {
    let wrong = |what: &str, e: &dyn std::fmt::Display| {
        Error::work(format!("cannot {what} an agent here: {e}. See tickscope doctor"))
    };
    let mut command = crate::process::this_program()?;
    command.args(["agent", "daemon", "--session", &format!("{session:016x}")]).current_dir("/");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    // SAFETY: a plain system call without arguments.
    unsafe {
        command.pre_exec(|| {
            libc::setsid();
            Ok(())
        })
    };
    let mut child = command.spawn().map_err(|e| wrong("start", &e))?;
    let deadline = Instant::now() + LISTENS_WITHIN;
    loop {
        let ended = child.try_wait().ok().flatten();
        match folder.connect() {
            Ok(socket) => return Ok(socket),
            Err(e) if Instant::now() >= deadline => return Err(wrong("reach", &e)),
            Err(e) => {
                if let Some(status) = ended.filter(|status| !status.success()) {
                    return Err(wrong("start", &format!("it ended with {status}; {e}")));
                }
            }
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The agent of a session: listens until the session is over.
pub fn daemon(session: u64) -> Result<(), Error> {
    interrupt::catch();
    // SAFETY: sets the mask of this process, which has one thread yet.
    unsafe { libc::umask(0o077) };
    let folder = Folder::of(session)?;
    let wrong = |e: std::io::Error| Error::work(format!("cannot listen in {}: {e}", folder.0.display()));
    let lock =
        OpenOptions::new().write(true).create(true).truncate(false).open(folder.0.join("lock")).map_err(wrong)?;
    // SAFETY: a system call on a descriptor that outlives it.
    if unsafe { libc::flock(lock.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } != 0 {
        return Ok(()); // another was faster
    }
    keep_what_is_said().map_err(wrong)?;
    let (_open, path) = folder.short("socket").map_err(wrong)?;
    let _ = fs::remove_file(&path); // of an agent that was killed
    let listener = UnixListener::bind(&path).map_err(wrong)?;
    let (send, receive) = channel();
    std::thread::spawn(move || {
        for (number, pipe) in (1..).zip(listener.incoming()) {
            let Ok(pipe) = pipe else {
                std::thread::sleep(AFTER_REFUSAL); // such as of too many descriptors: they may be fewer later
                continue;
            };
            if !is_ours(&pipe) || attend((number, false), pipe, &send).is_err() {
                continue; // a stranger's, or one that is gone already
            }
        }
    });
    AgentServer::new(Some(folder)).run(&receive);
    Ok(())
}

/// Returns whether a process of this user, or of root, is at the other end.
fn is_ours(pipe: &UnixStream) -> bool {
    let mut peer = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut length = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes into `peer`, which has them.
    unsafe {
        let fd = pipe.as_raw_fd();
        let got = libc::getsockopt(fd, libc::SOL_SOCKET, libc::SO_PEERCRED, (&raw mut peer).cast(), &mut length);
        got == 0 && (peer.uid == user() || peer.uid == 0)
    }
}

/// What this agent and its processes wrote to standard error, and nobody has been told yet.
static SAID: Mutex<VecDeque<String>> = Mutex::new(VecDeque::new());
/// Lines that are kept until a conductor asks, and bytes of each.
const SAID_LINES: usize = 1000;
const SAID_BYTES: u64 = 2000;

/// From here on standard error of this process, and of all that it starts, is kept for the conductor.
fn keep_what_is_said() -> std::io::Result<()> {
    let mut ends = [0; 2];
    // SAFETY: pipe2 fills two descriptors, which are owned below; dup2 makes one of them standard error.
    let (reading, writing) = unsafe {
        if libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) != 0 {
            return Err(std::io::Error::last_os_error());
        }
        let [reading, writing] = ends.map(|end| OwnedFd::from_raw_fd(end));
        if libc::dup2(writing.as_raw_fd(), 2) < 0 {
            return Err(std::io::Error::last_os_error());
        }
        (reading, writing)
    };
    drop(writing);
    std::thread::spawn(move || {
        let mut lines = BufReader::new(File::from(reading));
        let mut line = Vec::new();
        // A longer line becomes several.
        while lines.by_ref().take(SAID_BYTES).read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
            let text = String::from_utf8_lossy(&line).trim_end().to_owned();
            line.clear();
            let Ok(mut said) = SAID.lock() else { return };
            match said.len() {
                length if length < SAID_LINES => said.push_back(text),
                SAID_LINES => said.push_back("... more lines, which are not kept".into()),
                _ => {}
            }
        }
    });
    Ok(())
}

/// Takes the lines of standard error that nobody has been told yet.
pub fn said() -> Vec<String> {
    /// The rest is told the next time: an answer has an end, however its text is escaped.
    const AT_ONCE: usize = 100;
    let take = |said: &mut VecDeque<String>| said.drain(..said.len().min(AT_ONCE)).collect();
    SAID.lock().map(|mut said| take(&mut said)).unwrap_or_default()
}
