//! The socket that a run is asked through while it goes on: which channels there are, other policies, how it stands.
//!
//! A request is a line of JSON, the reply another one. Guarantees: only the run's user and root are answered, whatever
//! the socket's mode; a request takes no more than 64 KiB, a connection no more than five seconds to ask, and no more
//! than a few are served at one time, so nobody who asks can hold up the run. Deliberately absent: what is answered,
//! which is the conductor's.

mod client;

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tickscope_collect::EVERY_POINT;
use tickscope_stamp::policies::Choice;
use tickscope_store::Writing;
use tickscope_tick::NodeName;

use crate::Error;
use crate::leftovers::{self, Claim};
pub use client::ask;

/// What a run is asked.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RunRequest {
    /// Its channels: the open ones, or all.
    Channels {
        /// Those that were closed too.
        all: bool,
    },
    /// Another policy for all channels that match, those opened later too.
    Policy {
        /// The points.
        glob: String,
        /// The policy, as a run file names it.
        policy: String,
        /// The one node whose channels are meant; absent: all nodes.
        node: Option<NodeName>,
    },
    /// What channels under `keep` hold now is to be stored.
    Dump {
        /// The points.
        #[serde(default = "every_point")]
        glob: String,
        /// The one node whose channels are meant; absent: all nodes.
        node: Option<NodeName>,
    },
    /// How its nodes stand.
    Status,
}

impl RunRequest {
    /// Refuses a request that no run can follow.
    pub fn expect_valid(&self) -> Result<(), Error> {
        let glob = match self {
            Self::Policy { glob, .. } | Self::Dump { glob, .. } => glob,
            Self::Channels { .. } | Self::Status => return Ok(()),
        };
        /// As many as a point's name has, twice: a star between any two.
        const MOST_LETTERS: usize = 96;
        let is_known = |letter: char| letter.is_ascii_alphanumeric() || "_-.*?".contains(letter);
        if glob.is_empty() || glob.len() > MOST_LETTERS || !glob.chars().all(is_known) {
            return Err(Error::input(format!(
                "expected the names of points, in which * stands for any letters and ? for one, found '{glob}'. Write \
                 'send*' for example"
            )));
        }
        match self {
            Self::Policy { policy, .. } => policy.parse::<Choice>().map(|_| ()).map_err(Error::input),
            _ => Ok(()),
        }
    }
}

fn every_point() -> String {
    EVERY_POINT.into()
}

/// Name of the socket in the run's folder in shared memory.
pub(crate) const SOCKET: &str = ".control";
/// Name of the file next to it that keeps the live rules for a conductor that takes over.
pub(crate) const RULES: &str = ".policies";
/// Its name while it is written.
pub(crate) const RULES_NEW: &str = ".policies.new";
/// Bytes of a request.
const MOST_BYTES: u64 = 64 << 10;
/// Connections that are served at one time.
const MOST_CONNECTIONS: usize = 4;
/// Time that a connection gets to ask, and to take its reply.
const PATIENCE: Duration = Duration::from_secs(5);
/// Time that the conductor gets to reply.
const REPLY_WITHIN: Duration = Duration::from_secs(15);

/// A request, and who waits for the reply.
pub(crate) struct Asked {
    /// What is asked.
    pub request: RunRequest,
    reply: Sender<Value>,
    /// The run took it, or whoever asked took it back: whichever came first.
    settled: Arc<AtomicBool>,
}

impl Asked {
    /// Replies; whoever asked may have gone.
    pub fn reply(self, what: Result<Value, Error>) {
        let _ = self.reply.send(match what {
            Ok(value) => json!({ "ok": value }),
            Err(why) => refusal(&why),
        });
    }
}

fn refusal(why: &Error) -> Value {
    json!({ "error": why.to_string(), "code": why.code() })
}

/// The socket of a run; gone with the value.
pub(crate) struct Control {
    requests: Receiver<Asked>,
    place: PathBuf,
    ended: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    /// Claim of a run that has no node on this host: its folder is the socket's alone.
    _claim: Option<Claim>,
}

impl Control {
    /// Opens the socket of run number `run`, whose directory is `root`.
    pub fn open(run: u64, root: &Path) -> Result<Self, Error> {
        let folder = leftovers::stamps_of(run);
        // Also of a folder that a conductor left which was killed: nobody else removes it.
        let held = Writing::is_held(&folder.join(".run"))?;
        let claim = (!held).then(|| Claim::take(run, root)).transpose()?;
        let place = folder.join(SOCKET);
        let wrong = |e: std::io::Error| {
            Error::work(format!("cannot make the socket {}: {e}. The run goes on without it", place.display()))
        };
        match fs::remove_file(&place) {
            Err(e) if e.kind() != ErrorKind::NotFound => return Err(wrong(e)), // one of a conductor that was killed
            _ => {}
        }
        let listener = UnixListener::bind(&place).map_err(wrong)?;
        fs::set_permissions(&place, fs::Permissions::from_mode(0o600)).map_err(wrong)?;
        // As many as are served: more are refused before they get here.
        let (send, requests) = sync_channel(MOST_CONNECTIONS);
        let ended = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&ended);
        let thread = thread::spawn(move || accept(&listener, &send, &flag));
        Ok(Self { requests, place, ended, thread: Some(thread), _claim: claim })
    }

    /// The next request that nobody took back.
    pub fn next(&self) -> Option<Asked> {
        std::iter::from_fn(|| self.requests.try_recv().ok()).find(|asked| !asked.settled.swap(true, Ordering::AcqRel))
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        let woken = UnixStream::connect(&self.place).is_ok(); // the thread waits for a connection
        let _ = fs::remove_file(&self.place); // one that stays is found with the folder
        if let Some(thread) = self.thread.take().filter(|_| woken) {
            let _ = thread.join(); // it ends with this process at the latest
        }
    }
}

/// Takes connections until the run ends.
fn accept(listener: &UnixListener, requests: &SyncSender<Asked>, ended: &AtomicBool) {
    let served = Arc::new(AtomicUsize::new(0));
    for stream in listener.incoming() {
        if ended.load(Ordering::Relaxed) {
            return;
        }
        let Ok(stream) = stream else {
            thread::sleep(Duration::from_millis(100)); // no descriptor is free
            continue;
        };
        if served.fetch_add(1, Ordering::Relaxed) >= MOST_CONNECTIONS {
            served.fetch_sub(1, Ordering::Relaxed);
            let why = Error::work(format!("cannot be answered: {MOST_CONNECTIONS} others are asking. Ask again"));
            let _ = stream.set_nonblocking(true).and_then(|()| tell(&stream, &refusal(&why)));
            continue;
        }
        let (requests, of_thread) = (requests.clone(), Arc::clone(&served));
        let serving = move || {
            let reply = hear(&stream, &requests).unwrap_or_else(|why| refusal(&why));
            let _ = tell(&stream, &reply); // it may have gone
            hang_up(&stream);
            of_thread.fetch_sub(1, Ordering::Relaxed);
        };
        if thread::Builder::new().spawn(serving).is_err() {
            served.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// Reads a request, hands it on and waits for the reply.
fn hear(stream: &UnixStream, requests: &SyncSender<Asked>) -> Result<Value, Error> {
    expect_known(peer_of(stream).map_err(Error::work)?)?;
    let request: RunRequest = serde_json::from_slice(&read_line(stream, MOST_BYTES, PATIENCE)?).map_err(|e| {
        Error::input(format!("expected a request of this tickscope's, found another: {e}. Use its own"))
    })?;
    request.expect_valid()?;
    let (reply, replied) = channel();
    let settled = Arc::new(AtomicBool::new(false));
    let gone = || Error::work("cannot be answered: the run is ending. Look at it once it has ended");
    requests.try_send(Asked { request, reply, settled: Arc::clone(&settled) }).map_err(|_| gone())?;
    match replied.recv_timeout(REPLY_WITHIN) {
        Ok(reply) => Ok(reply),
        Err(RecvTimeoutError::Disconnected) => Err(gone()),
        Err(RecvTimeoutError::Timeout) if settled.swap(true, Ordering::AcqRel) => Err(Error::work(
            "the run has taken the request, and has not answered: it waits for a node. Ask tickscope status what was \
             carried out",
        )),
        Err(RecvTimeoutError::Timeout) => {
            Err(Error::work("cannot be answered: the run waits for a node. The request was taken back; ask again"))
        }
    }
}

/// Refuses a process of another user.
fn expect_known(peer: u32) -> Result<(), Error> {
    let own = tickscope_stamp::directory::user();
    if peer == own || peer == 0 {
        return Ok(());
    }
    Err(Error::work(format!("cannot answer user {peer}: the run belongs to user {own}. Ask as that user, or as root")))
}

/// The user of the process at the other end.
fn peer_of(stream: &UnixStream) -> std::io::Result<u32> {
    let mut peer = libc::ucred { pid: 0, uid: u32::MAX, gid: u32::MAX };
    let mut length = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: the kernel fills a struct of the length given, which outlives the call.
    let asked = unsafe {
        let place = std::ptr::from_mut(&mut peer).cast();
        libc::getsockopt(stream.as_raw_fd(), libc::SOL_SOCKET, libc::SO_PEERCRED, place, &mut length)
    };
    if asked == 0 { Ok(peer.uid) } else { Err(std::io::Error::last_os_error()) }
}

/// Reads up to the end of a line of at most `most` bytes; all of it must have come within `patience`.
fn read_line(mut stream: &UnixStream, most: u64, patience: Duration) -> Result<Vec<u8>, Error> {
    let wrong = |e: std::io::Error| Error::work(format!("cannot read from the socket: {e}. Ask again"));
    let until = Instant::now() + patience;
    let (mut line, mut piece) = (Vec::new(), [0; 4096]);
    loop {
        let left = until.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
        stream.set_read_timeout(Some(left)).map_err(wrong)?;
        let length = stream.read(&mut piece).map_err(wrong)?;
        line.extend_from_slice(&piece[..length]);
        if let Some(end) = line.iter().position(|&byte| byte == b'\n') {
            line.truncate(end);
            return Ok(line);
        }
        if length == 0 || Instant::now() >= until {
            return Err(wrong(ErrorKind::UnexpectedEof.into()));
        }
        if line.len() as u64 > most {
            return Err(Error::input(format!(
                "expected a line of at most {most} bytes, found a longer one. Ask for less"
            )));
        }
    }
}

fn tell(mut stream: &UnixStream, reply: &Value) -> std::io::Result<()> {
    stream.set_write_timeout(Some(PATIENCE))?;
    stream.write_all(format!("{reply}\n").as_bytes())
}

/// Takes what is still being sent, so that whoever was refused in mid-sentence reads the reply and no error.
fn hang_up(mut stream: &UnixStream) {
    let until = Instant::now() + PATIENCE;
    let mut rest = [0; 4096];
    let _ = stream.shutdown(Shutdown::Write);
    let _ = stream.set_read_timeout(Some(PATIENCE));
    while Instant::now() < until && stream.read(&mut rest).is_ok_and(|length| length > 0) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A socket of a run of this test's own, and its folder.
    fn opened() -> (Control, PathBuf) {
        let run = crate::conductor::random().unwrap();
        (Control::open(run, Path::new("/nowhere")).unwrap(), leftovers::stamps_of(run))
    }

    fn asked(folder: &Path, bytes: &[u8]) -> Value {
        let mut stream = UnixStream::connect(folder.join(SOCKET)).unwrap();
        let _ = stream.write_all(bytes); // it may have been refused before
        // A line: after it comes an error where the request was not taken whole.
        serde_json::from_slice(&read_line(&stream, MOST_BYTES, PATIENCE).unwrap()).unwrap()
    }

    /// The same once those before are done with: their threads end a little after their replies.
    fn heard(folder: &Path, bytes: &[u8]) -> Value {
        let until = Instant::now() + Duration::from_secs(60);
        loop {
            let reply = asked(folder, bytes);
            let is_busy = reply["error"].as_str().is_some_and(|error| error.contains("others are asking"));
            if !is_busy || Instant::now() > until {
                return reply;
            }
        }
    }

    #[test]
    fn a_request_is_answered_and_the_socket_is_the_users_alone_and_goes_with_the_run() {
        let (control, folder) = opened();
        let place = folder.join(SOCKET);
        assert_eq!(fs::metadata(&place).unwrap().permissions().mode() & 0o7777, 0o600);
        let client = thread::spawn(move || asked(&folder, b"\"status\"\n"));
        let found = loop {
            if let Some(found) = control.next() {
                break found;
            }
            thread::sleep(Duration::from_millis(1));
        };
        assert_eq!(found.request, RunRequest::Status);
        found.reply(Ok(json!(7)));
        assert_eq!(client.join().unwrap(), json!({ "ok": 7 }));
        drop(control);
        assert!(!place.exists() && !place.parent().unwrap().exists());
    }

    #[test]
    fn what_is_no_request_or_never_ends_is_refused_and_the_next_is_heard() {
        let (control, folder) = opened();
        let glob = |glob: &str| json!({ "policy": { "glob": glob, "policy": "null" } }).to_string() + "\n";
        for wrong in [
            "{}\n".into(),
            "\0\n".into(),
            "x".repeat(1 << 20),
            glob(""),
            glob("a b"),
            glob(&"*".repeat(97)),
            json!({ "policy": { "glob": "a", "policy": "every" } }).to_string() + "\n",
            json!({ "policy": { "glob": "a", "policy": "null", "node": "a.b" } }).to_string() + "\n",
        ] {
            let reply = heard(&folder, wrong.as_bytes());
            assert!(reply["error"].as_str().unwrap().starts_with("expected"), "{reply}");
            assert_eq!(reply["code"], 2);
        }
        let silent: Vec<_> = (0..MOST_CONNECTIONS).map(|_| UnixStream::connect(folder.join(SOCKET)).unwrap()).collect();
        let reply = asked(&folder, b"\"status\"\n");
        assert!(reply["error"].as_str().unwrap().contains("others are asking"), "{reply}");
        drop(silent);
        assert!(control.next().is_none());
    }

    #[test]
    fn another_user_is_refused_whatever_the_mode_of_the_socket() {
        let own = tickscope_stamp::directory::user();
        assert!(expect_known(own).is_ok() && expect_known(0).is_ok());
        let why = expect_known(own + 1).unwrap_err().to_string();
        assert!(why.contains(&format!("cannot answer user {}", own + 1)), "{why}");
        let (mine, _other) = UnixStream::pair().unwrap();
        assert_eq!(peer_of(&mine).unwrap(), own);
    }
}
