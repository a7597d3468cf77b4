//! Asking a run that goes on.

use super::*;
use tickscope_store::{Paths, Run, RunState};
use tickscope_tick::quoted;

/// Bytes of a reply.
const MOST_REPLY_BYTES: u64 = 64 << 20;

/// Asks the run in `root`; what its conductor replies.
pub fn ask(root: &Path, request: &RunRequest) -> Result<Value, Error> {
    request.expect_valid()?;
    let run = Run::open(root)?;
    let place = leftovers::stamps_of(run.manifest().run).join(SOCKET);
    let stream = match UnixStream::connect(&place) {
        Ok(stream) => stream,
        Err(why) => return Err(unreached(&run, &why)?),
    };
    expect_own(&run, &stream)?;
    let wrong = |e: std::io::Error| Error::work(format!("cannot ask through {}: {e}. Ask again", place.display()));
    stream.set_write_timeout(Some(PATIENCE)).map_err(wrong)?;
    let line = serde_json::to_string(request).map_err(Error::work)? + "\n";
    let _ = (&stream).write_all(line.as_bytes()); // one that was refused is told why
    let reply = read_line(&stream, MOST_REPLY_BYTES, REPLY_WITHIN + PATIENCE)?;
    let reply: Value = serde_json::from_slice(&reply).map_err(Error::work)?;
    match (reply.get("ok"), reply["error"].as_str()) {
        (Some(reply), _) => Ok(reply.clone()),
        (None, why) => {
            let why = format!("{}: {}", root.display(), why.unwrap_or("no reply"));
            Err(if reply["code"] == 2 { Error::input(why) } else { Error::work(why) })
        }
    }
}

/// Refuses a socket that is not of the run's user: anybody may make a folder of that name once the run has ended.
fn expect_own(run: &Run, stream: &UnixStream) -> Result<(), Error> {
    use std::os::unix::fs::MetadataExt;
    let peer = peer_of(stream).map_err(Error::work)?;
    let owner = fs::metadata(Paths::of(run.root()).manifest()).map_err(Error::work)?.uid();
    if [owner, tickscope_stamp::directory::user(), 0].contains(&peer) {
        return Ok(());
    }
    Err(Error::work(format!(
        "cannot ask {}: what answers for it is a process of user {peer}, and the run is of user {owner}. Remove what \
         that user made in shared memory",
        run.root().display()
    )))
}

/// No conductor measures it: programs stamp into a directory, which `tickscope collect` takes.
fn is_collected(run: &Run) -> bool {
    let manifest = run.manifest();
    manifest.seconds.is_none() && manifest.run_file.is_none()
}

/// Why nobody answers for the run, and which command helps.
fn unreached(run: &Run, why: &std::io::Error) -> Result<Error, Error> {
    let (root, shown) = (quoted(run.root().display()), run.root().display());
    Ok(match run.state()? {
        RunState::Ended => Error::work(format!("cannot ask {shown}: it has ended. tickscope show {root}")),
        RunState::CutOff => Error::work(format!(
            "cannot ask {shown}: it was cut off. tickscope resume {root} goes on where nodes did; tickscope finish \
             {root} completes it"
        )),
        RunState::GoingOn if why.kind() == ErrorKind::PermissionDenied => Error::work(format!(
            "cannot ask {shown}: it is another user's, who alone is answered. Ask as that user, or as root"
        )),
        RunState::GoingOn if is_collected(run) => Error::work(format!(
            "cannot ask {shown}: tickscope collect, which writes it, answers nobody; with --follow, it stores what \
             channels under keep hold when it is sent SIGUSR1, and does no more than that. tickscope show {root} has \
             what is stored so far; policies are the TICKSCOPE_POLICY that its programs are started with"
        )),
        RunState::GoingOn => Error::work(format!(
            "cannot ask {shown}: it goes on, and measures not yet or no more, or on another machine ({why}). Ask again \
             once its commands run, where tickscope run was called"
        )),
    })
}
