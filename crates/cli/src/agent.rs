//! `tickscope agent`: the parts of an agent that `run` starts, and taking away what it copied.

use std::os::fd::{FromRawFd, OwnedFd};

use tickscope_experiment::pipe::{self, Unfetched};
use tickscope_host::thread_class::be_called;

use crate::failure::Failure;
use crate::options::{AgentOptions, AgentPart};
use crate::output;

/// Serves a part, or removes copied programs and ended sessions.
pub fn agent(options: &AgentOptions) -> Result<(), Failure> {
    be_called("agent");
    match &options.part {
        None => {
            let lines = pipe::remove(&options.prefix, unfetched(options.unfetched))?;
            lines.iter().try_for_each(output::line)
        }
        Some(AgentPart::Sessions { unfetched: all }) => {
            pipe::remove_ended_sessions(unfetched(*all)).iter().try_for_each(output::line)
        }
        Some(AgentPart::Local { pipe }) => serve(*pipe),
        Some(AgentPart::Attach { session, token }) => pipe::attach(*session, token),
        Some(AgentPart::Daemon { session }) => pipe::daemon(*session),
    }
}

fn unfetched(remove: bool) -> Unfetched {
    if remove { Unfetched::Remove } else { Unfetched::Keep }
}

/// The agent next to a run.
fn serve(descriptor: i32) -> Result<(), Failure> {
    // SAFETY: fcntl looks at a number that may be no descriptor.
    if descriptor < 3 || unsafe { libc::fcntl(descriptor, libc::F_GETFD) } < 0 {
        return Err(Failure::input("expected an open socket. Leave this command to tickscope run"));
    }
    // SAFETY: it is open, and this process was given it to own; none of its children gets it.
    let pipe = unsafe {
        libc::fcntl(descriptor, libc::F_SETFD, libc::FD_CLOEXEC);
        OwnedFd::from_raw_fd(descriptor)
    };
    pipe::serve_pipe(pipe.into())
}
