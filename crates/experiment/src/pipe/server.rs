//! The agent's end of a pipe: questions in, answers of a [`LocalAgent`] out.
//!
//! An agent that a run starts on its own machine has one pipe, and ends with it. One elsewhere listens on a socket in
//! its session's folder (`daemon`), so that it outlives any pipe: whoever connects last is its conductor. Without one
//! for as long as its deadline it ends the target, takes what lies in shared memory into its spool, and is gone; the
//! spool stays.
//!
//! While a question is worked on, a frame a second says that the agent lives: a pipe that is silent for longer is
//! broken, whatever the network says of it.

use std::io::{BufReader, BufWriter, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use tickscope_store::Spool;

use super::frame;
use super::protocol::{
    AgentAnswer, AgentSettings, Answered, Asked, BEAT_EVERY, FromAgent, Hello, PIECE_BYTES, PROTOCOL, Polled, Question,
};
use super::session::Folder;
use super::uploads::Uploads;
use crate::agent::{Agent, TaskId, Unread};
use crate::interrupt;
use crate::leftovers;
use crate::local_agent::LocalAgent;
use crate::notice;
use crate::object_store;
use crate::{Error, LocalPlace};

/// What reaches the agent.
pub enum Incoming {
    /// A conductor, by its number.
    Connected(u32, ConductorPipe),
    /// A question of that conductor, with the frame's bytes.
    Asked(u32, Box<Asked>, Vec<u8>),
    /// The pipe of that conductor broke or was closed.
    Gone(u32),
}

/// The pipe to a conductor, which beats and answers share.
#[derive(Clone)]
pub struct ConductorPipe(Arc<Mutex<UnixStream>>);

impl ConductorPipe {
    /// What a conductor that reads no more may hold up.
    const WRITE_WITHIN: Duration = Duration::from_secs(20);

    fn new(pipe: UnixStream, is_here: bool) -> std::io::Result<Self> {
        // One on this machine that was stopped reads on later; one that died closes its end.
        pipe.set_write_timeout((!is_here).then_some(Self::WRITE_WITHIN))?;
        Ok(Self(Arc::new(Mutex::new(pipe))))
    }

    fn write(&self, document: &FromAgent, bytes: &[u8]) -> std::io::Result<()> {
        let pipe = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let written = frame::write(&mut BufWriter::new(&*pipe), document, bytes);
        if written.is_err() {
            let _ = pipe.shutdown(std::net::Shutdown::Both); // half a frame may be out
        }
        written
    }

    fn shut(&self) {
        let pipe = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = pipe.shutdown(std::net::Shutdown::Both); // it may be gone
    }
}

/// A conductor that has asked for nothing for so long is none: it asks how things are many times a second.
const ASKED_WITHIN: Duration = Duration::from_secs(30);
/// How often it is looked whether the deadline has come, or this process is to end.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// How often the spool is held against its limit.
const WATCH_EVERY: Duration = Duration::from_secs(1);

/// A run that is killed closes its pipe and has this process told to end in one moment.
const ONE_MOMENT: Duration = Duration::from_millis(300);

/// Serves one conductor until its pipe closes, or this process is told to end; then everything ends.
pub fn serve_pipe(pipe: UnixStream) -> Result<(), Error> {
    interrupt::catch();
    serve(pipe)
}

fn serve(pipe: UnixStream) -> Result<(), Error> {
    let (send, receive) = channel();
    attend((0, true), pipe, &send).map_err(Error::work)?;
    drop(send);
    AgentServer::new(None).run(&receive);
    Ok(())
}

/// Ends this process at once where its run was killed, whatever it is at. Its processes are told by its end, and nobody
/// hurries them: collectors take what they can, the rest waits for `tickscope finish`.
fn end_with_a_killed_run() {
    let until = Instant::now() + ONE_MOMENT;
    while Instant::now() < until {
        if interrupt::ended() {
            leftovers::end_at_once();
        }
        thread::sleep(Duration::from_millis(1));
    }
}

/// Tells the server of a conductor, and of what it asks from now on: by its number, and whether it is a process of this
/// machine next to its run.
pub fn attend((number, is_here): (u32, bool), pipe: UnixStream, to: &Sender<Incoming>) -> std::io::Result<()> {
    let reading = pipe.try_clone()?;
    let conductor = ConductorPipe::new(pipe, is_here)?;
    let beating = conductor.clone();
    thread::spawn(move || {
        while beating.write(&FromAgent::Beat, &[]).is_ok() {
            thread::sleep(BEAT_EVERY);
        }
    });
    let _ = to.send(Incoming::Connected(number, conductor)); // a server that ended answers nobody
    let to = to.clone();
    thread::spawn(move || {
        let mut reading = BufReader::new(reading);
        while let Ok(Some((asked, bytes))) = frame::read::<Asked>(&mut reading) {
            if asked.question == Question::Hurry {
                interrupt::hurry(); // whoever answers is at another question
                continue;
            }
            if to.send(Incoming::Asked(number, Box::new(asked), bytes)).is_err() {
                return;
            }
        }
        let _ = to.send(Incoming::Gone(number));
        if is_here {
            end_with_a_killed_run();
        }
    });
    Ok(())
}

/// A session's state.
pub struct AgentServer {
    /// `None`: its run is on this machine, and everything ends with the pipe.
    folder: Option<Folder>,
    settings: Option<AgentSettings>,
    agent: Option<LocalAgent>,
    spool: Option<Spool>,
    uploads: Uploads,
    /// The answer that was given last: its question may come again.
    last: Option<(Answered, Vec<u8>)>,
    conductor: Option<(u32, ConductorPipe)>,
    /// When it asked last.
    asked: Instant,
    /// Since when nobody is connected.
    alone: Instant,
    over: bool,
    /// There is a run: it was told so, or an agent before it was.
    has_run: bool,
    /// What it measured is of no run.
    discarded: bool,
    /// That its spool cannot be held to its limit was said.
    told: bool,
    /// When its spool was looked at last.
    watched: Instant,
}

impl AgentServer {
    /// A session in `folder`; `None`: of a run on this machine.
    pub fn new(folder: Option<Folder>) -> Self {
        let (settings, agent, spool, last, conductor) = (None, None, None, None, None);
        let (alone, asked, watched) = (Instant::now(), Instant::now(), Instant::now());
        let has_run = folder.as_ref().is_some_and(Folder::is_of_run);
        Self {
            folder,
            settings,
            agent,
            spool,
            uploads: Uploads::default(),
            last,
            conductor,
            asked,
            alone,
            over: false,
            has_run,
            discarded: false,
            told: false,
            watched,
        }
    }

    /// Answers until the session is over, the deadline has come, or this process is told to end.
    pub fn run(mut self, incoming: &Receiver<Incoming>) {
        while !self.over && !interrupt::ended() {
            match incoming.recv_timeout(LOOK_EVERY) {
                Ok(Incoming::Connected(number, pipe)) => self.greet(number, pipe),
                Ok(Incoming::Asked(number, asked, bytes)) => self.answer(number, *asked, &bytes),
                Ok(Incoming::Gone(number)) => self.let_go(number),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            self.watch_spool();
            if self.is_silent()
                && let Some((_, silent)) = self.conductor.take()
            {
                silent.shut();
                self.alone = self.asked;
            }
            if self.conductor.is_none() && self.alone.elapsed() >= self.deadline() {
                self.give_up();
                return;
            }
        }
        if !self.over {
            self.end_in_order(incoming);
        }
    }

    /// This process was told to end: commands end first, and what takes their stamps after them.
    fn end_in_order(&mut self, incoming: &Receiver<Incoming>) {
        let until = Instant::now() + ONE_MOMENT;
        while self.folder.is_none() && self.conductor.is_some() && Instant::now() < until {
            match incoming.recv_timeout(LOOK_EVERY) {
                Ok(Incoming::Gone(number)) => self.let_go(number),
                Err(RecvTimeoutError::Disconnected) => self.conductor = None,
                Ok(_) | Err(RecvTimeoutError::Timeout) => {}
            }
        }
        // Without its run it ends at once: what its processes hold waits for tickscope finish.
        if self.folder.is_none() && self.conductor.is_none() {
            return;
        }
        if let Some(agent) = &mut self.agent {
            notice::say("this agent is shutting down: the node's processes end");
            let _ = self.spool.as_ref().map(Spool::release); // a collector that ends stores what it has
            agent.end_all();
        }
    }

    /// Returns whether its conductor has asked for nothing for too long. One on this machine may have been stopped, and
    /// goes on when it is let: if it ends, its pipe says so.
    fn is_silent(&self) -> bool {
        self.folder.is_some() && self.asked.elapsed() > ASKED_WITHIN
    }

    /// Holds the spool against its limit, whether or not anybody fetches.
    fn watch_spool(&mut self) {
        if self.watched.elapsed() < WATCH_EVERY {
            return;
        }
        self.watched = Instant::now();
        if let Some(Err(why)) = self.spool.as_mut().map(Spool::watch)
            && !std::mem::replace(&mut self.told, true)
        {
            notice::say(format!("cannot hold the spool to its limit: {why}"));
        }
    }

    /// How long it goes on alone.
    fn deadline(&self) -> Duration {
        /// Until there is a run: whoever started this is about to begin one.
        const UNTOLD: Duration = Duration::from_secs(60);
        match (&self.folder, &self.settings) {
            (None, _) => Duration::ZERO,
            (_, Some(settings)) if self.has_run => Duration::from_secs_f64(settings.deadline_seconds),
            // Its run would be on this machine: whoever was about to begin it has died.
            (_, Some(settings)) if settings.run.is_some() => Duration::ZERO,
            _ => UNTOLD,
        }
    }

    fn greet(&mut self, number: u32, conductor: ConductorPipe) {
        let hello = Hello {
            protocol: PROTOCOL,
            tickscope: env!("CARGO_PKG_VERSION").into(),
            boot: boot(),
            generation: self.settings.as_ref().map_or(0, |settings| settings.generation),
            has_run: self.has_run,
        };
        if conductor.write(&FromAgent::Hello(hello), &[]).is_ok() {
            self.asked = Instant::now();
            if let Some((_, before)) = self.conductor.replace((number, conductor)) {
                before.shut();
            }
        }
    }

    fn let_go(&mut self, number: u32) {
        if self.conductor.as_ref().is_some_and(|(known, _)| *known == number) {
            self.conductor = None;
            self.alone = Instant::now();
        }
    }

    fn answer(&mut self, conductor: u32, asked: Asked, bytes: &[u8]) {
        if self.conductor.as_ref().is_none_or(|(known, _)| *known != conductor) {
            return; // of a pipe that was given up: what is still wanted is asked again, through the one that took over
        }
        let Asked { number, question } = asked;
        if self.last.as_ref().is_none_or(|(last, _)| last.number != number) {
            let (answer, bytes) = match self.work(question, bytes) {
                Ok((answer, bytes)) => (Ok(answer), bytes),
                Err(why) => (Err(why), Vec::new()),
            };
            let answer = answer.and_then(|answer| fits(answer, bytes.len()));
            self.last = Some((Answered { number, answer }, bytes));
        }
        self.asked = Instant::now();
        let (Some((answered, bytes)), Some((_, pipe))) = (&self.last, &self.conductor) else { return };
        if pipe.write(&FromAgent::Answered(answered.clone()), bytes).is_err() {
            self.let_go(conductor);
        }
    }

    fn work(&mut self, question: Question, bytes: &[u8]) -> Result<(AgentAnswer, Vec<u8>), Error> {
        let alone = |answer| (answer, Vec::new());
        let question = match question {
            Question::Begin(settings) => return self.begin(settings).map(|()| alone(AgentAnswer::Done)),
            Question::Bye => {
                self.over = true;
                drop(self.agent.take());
                let stays = !self.discarded && self.spool.as_ref().is_some_and(Spool::keeps_some);
                self.folder.as_ref().filter(|_| !stays).map_or(Ok(()), Folder::remove)?;
                return Ok(alone(AgentAnswer::Done));
            }
            Question::Manifest(text) => {
                let elsewhere = self.settings.as_ref().is_some_and(|settings| settings.run.is_none());
                self.folder.as_ref().filter(|_| elsewhere).map_or(Ok(()), |folder| folder.write_manifest(&text))?;
                self.has_run = true;
                return Ok(alone(AgentAnswer::Done));
            }
            Question::Put { name, executable, offset } => {
                let folder = self.folder.as_ref().ok_or_else(|| of_run("a session with a folder"))?;
                return folder.put(&name, executable, offset, bytes).map(|()| alone(AgentAnswer::Done));
            }
            Question::Pending(most, all) => {
                let Some(spool) = &mut self.spool else { return Ok(alone(AgentAnswer::Pending(Vec::new()))) };
                return Ok(alone(AgentAnswer::Pending(spool.pending(most as usize, all)?)));
            }
            Question::Piece(parcel, offset) => {
                let piece = self.spool()?.piece(&parcel, offset, PIECE_BYTES)?;
                return Ok((AgentAnswer::Done, piece));
            }
            Question::Upload(wanted) => {
                let Self { spool, uploads, .. } = self;
                let spool = spool.as_ref().ok_or_else(|| of_run("a session with a spool"))?;
                return Ok(alone(AgentAnswer::Uploaded(uploads.go_on(spool, wanted))));
            }
            Question::Log(path, offset) => {
                let folder = self.folder.as_ref().ok_or_else(|| of_run("a session with a folder"))?;
                return Ok(match folder.read(&path, offset) {
                    Ok(piece) => (AgentAnswer::Done, piece),
                    Err(why) => (AgentAnswer::Unread(why.to_string()), Vec::new()),
                });
            }
            Question::Stored(parcels) => {
                let spool = self.spool()?;
                parcels.iter().try_for_each(|parcel| spool.acknowledge(parcel))?;
                return Ok(alone(AgentAnswer::Done));
            }
            Question::Refused(parcels) => {
                let spool = self.spool()?;
                parcels.iter().try_for_each(|parcel| spool.set_aside(parcel))?;
                return Ok(alone(AgentAnswer::Done));
            }
            question => question,
        };
        self.discarded |= question == Question::Clear(Unread::Remove);
        if let (Question::End(_) | Question::Perform(..) | Question::EndAll, Some(spool)) = (&question, &self.spool) {
            spool.release()?; // a collector that ends stores what it has
        }
        let agent = self.agent.as_mut();
        let agent = agent.ok_or_else(|| of_run("a session that has begun"))?;
        ask(agent, question).map(alone)
    }

    fn spool(&mut self) -> Result<&mut Spool, Error> {
        self.spool.as_mut().ok_or_else(|| of_run("a session with a spool"))
    }

    fn begin(&mut self, settings: AgentSettings) -> Result<(), Error> {
        expect_usable(&settings)?;
        drop(self.agent.take());
        let (run, folder) = match (&settings.run, &self.folder) {
            (Some(run), _) => (run.clone(), settings.folder.clone().unwrap_or_default()),
            (None, Some(folder)) => (folder.spool(), folder.files()),
            (None, None) => {
                return Err(of_run("the run's directory"));
            }
        };
        if settings.to_storage {
            object_store::expect_curl().map_err(Error::work)?;
        }
        let spool = || Spool::new(&run, settings.nodes.clone(), settings.spool_bytes);
        let of_whole = |spool: Spool| if settings.to_storage { spool.of_whole_segments() } else { spool };
        self.spool = settings.run.is_none().then(|| of_whole(spool()));
        let place = LocalPlace { run, folder };
        self.agent = Some(LocalAgent::new(&settings, place)?);
        self.has_run |= settings.generation > 1; // it takes over from one that measured
        self.settings = Some(settings);
        Ok(())
    }

    /// Nobody came back: the target ends, and what it stamped goes to the spool, where it waits for
    /// `tickscope finish`.
    fn give_up(&mut self) {
        if !self.has_run {
            // Whoever was about to begin one is gone, and nothing was stamped.
            drop(self.agent.take());
            let _ = self.folder.as_ref().map(Folder::remove); // what stays is listed by agent --remove
            return;
        }
        if let Some(agent) = self.agent.as_mut().filter(|_| self.folder.is_some()) {
            notice::say("no conductor came back before the deadline: the node's processes end");
            let _ = self.spool.as_ref().map(Spool::release); // a collector that ends stores what it has
            agent.end_all();
        }
    }
}

/// What only a conductor that does not keep to the protocol meets.
fn of_run(expected: &str) -> Error {
    Error::work(format!("expected {expected}, found none. Leave this command to tickscope run"))
}

/// Refuses an answer that no frame holds: half of one would break the pipe, and with it a run on this machine.
fn fits(answer: AgentAnswer, bytes: usize) -> Result<AgentAnswer, Error> {
    /// Names of the frame around it.
    const AROUND: usize = 1000;
    let length = serde_json::to_vec(&answer).map_or(0, |text| text.len()) + bytes + AROUND;
    if length <= frame::MOST_BYTES {
        return Ok(answer);
    }
    Err(Error::work(format!(
        "expected an answer of at most {} bytes, found one of {length}. Give fewer nodes to one agent, or let programs \
         have fewer channels",
        frame::MOST_BYTES
    )))
}

/// Refuses settings that no plan has.
fn expect_usable(settings: &AgentSettings) -> Result<(), Error> {
    /// Processes of later agents would have numbers of earlier ones.
    const MOST_GENERATIONS: u32 = u32::MAX / TASKS_EACH - 1;
    let deadline = Duration::try_from_secs_f64(settings.deadline_seconds);
    match () {
        () if deadline.is_err() => Err(of_run("a deadline of so many seconds")),
        () if settings.nodes.is_empty() => Err(of_run("a node in the session")),
        () if settings.generation > MOST_GENERATIONS => Err(of_run("an agent that few others came before")),
        () => Ok(()),
    }
}

/// One question of a session that has begun.
fn ask(agent: &mut LocalAgent, question: Question) -> Result<AgentAnswer, Error> {
    Ok(match question {
        Question::Look => AgentAnswer::Look(agent.look()?),
        Question::Prepare(node, counter) => {
            AgentAnswer::Prepared(Box::new(agent.prepare_as(&node, counter.as_deref())?))
        }
        Question::Start(node, task) => AgentAnswer::Started(agent.start(&node, &task)?),
        Question::Poll => AgentAnswer::Polled(poll(agent)?),
        Question::Tell(task, line) => agent.tell(task, &line).map(|()| AgentAnswer::Done)?,
        Question::End(task) => AgentAnswer::Ended(agent.end(task)?),
        Question::Perform(node, role) => AgentAnswer::Ended(agent.perform(&node, &role)?),
        Question::LookAgain => AgentAnswer::LookedAgain(agent.look_again()?),
        Question::Clear(unread) => AgentAnswer::Cleared(agent.clear(unread)?),
        Question::Inventory => AgentAnswer::Inventory(agent.inventory()?),
        Question::EndAll => {
            agent.end_all();
            AgentAnswer::Done
        }
        _ => {
            return Err(of_run("a question to an agent's processes"));
        }
    })
}

/// Bytes of answers after which no more are told at a time: far less than a frame has, however they are escaped.
const ANSWERED_BYTES: usize = 256 << 10;

fn poll(agent: &mut LocalAgent) -> Result<Polled, Error> {
    let mut polled = Polled { said: super::session::said(), ..Polled::default() };
    let mut bytes = 0;
    for (task, _, _) in agent.tasks() {
        if agent.is_running(task)? {
            polled.running.push(task);
        }
        if bytes >= ANSWERED_BYTES {
            continue; // the rest is told the next time
        }
        let answers = agent.answers(task)?;
        bytes += answers.iter().map(String::len).sum::<usize>();
        if !answers.is_empty() {
            polled.answers.insert(task, answers);
        }
    }
    Ok(polled)
}

/// Boot of this machine, as the kernel names it.
pub fn boot() -> String {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id").map_or_else(|_| String::new(), |id| id.trim().into())
}

/// Passes bytes on both ways until either end closes: a pipe and a session's socket.
pub fn pass_on(socket: &UnixStream) -> std::io::Result<()> {
    let (mut to_socket, mut from_socket) = (socket.try_clone()?, socket.try_clone()?);
    thread::spawn(move || {
        let _ = std::io::copy(&mut std::io::stdin().lock(), &mut to_socket); // either end may go at any time
        let _ = to_socket.shutdown(std::net::Shutdown::Both);
    });
    let (mut buffer, mut out) = (vec![0; 1 << 16], std::io::stdout().lock());
    loop {
        match from_socket.read(&mut buffer)? {
            0 => return Ok(()),
            length => out.write_all(&buffer[..length]).and_then(|()| out.flush())?,
        }
    }
}

/// One agent starts fewer processes.
const TASKS_EACH: u32 = 1_000_000;

/// Numbers of processes that an agent of that generation starts.
pub fn first_task(generation: u32) -> TaskId {
    TaskId(generation.saturating_mul(TASKS_EACH))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::{Target, Task};
    use crate::plan::NetworkKind;
    use crate::process::Forward;
    use crate::roles::Role;
    use tickscope_tick::NodeName;

    /// The conductor's end of a pipe to a server in this process.
    struct TestConductor(BufReader<UnixStream>);

    impl TestConductor {
        fn ask(&mut self, number: u64, question: Question) -> Result<AgentAnswer, Error> {
            frame::write(self.0.get_mut(), &Asked { number, question }, &[]).unwrap();
            loop {
                match frame::read(&mut self.0).unwrap().expect("the server goes on").0 {
                    FromAgent::Answered(Answered { number: of, answer }) => {
                        assert_eq!(of, number);
                        return answer;
                    }
                    FromAgent::Hello(_) | FromAgent::Beat => {}
                }
            }
        }
    }

    fn settings(run: &std::path::Path) -> AgentSettings {
        AgentSettings {
            session: 0x7e57_0000_0000_0000 + u64::from(std::process::id()),
            run: Some(run.into()),
            folder: Some("/".into()),
            nodes: vec![NodeName::new("n").unwrap()],
            network: NetworkKind::Loopback,
            link: None,
            deadline_seconds: 0.0,
            spool_bytes: 0,
            to_storage: false,
            generation: 1,
        }
    }

    #[test]
    fn a_question_that_is_asked_again_is_answered_again_and_done_once_and_all_ends_with_the_pipe() {
        let run = std::env::temp_dir().join(format!("tickscope-server-{}", std::process::id()));
        std::fs::create_dir_all(&run).unwrap();
        let (ours, its) = UnixStream::pair().unwrap();
        let server = thread::spawn(move || serve(its));
        let mut conductor = TestConductor(BufReader::new(ours));
        let poll = |conductor: &mut TestConductor, number| match conductor.ask(number, Question::Poll) {
            Ok(AgentAnswer::Polled(polled)) => polled.running,
            other => panic!("{other:?}"),
        };
        assert!(conductor.ask(6, Question::Look).is_err(), "it was not told to begin");
        conductor.ask(7, Question::Begin(settings(&run))).unwrap();
        let (command, environment) = (vec!["sleep".into(), "1000".into()], std::collections::BTreeMap::new());
        let (measured, readiness, forward) = (false, None, Forward::Nowhere);
        let target = Task::Target(Target { command, environment, measured, readiness, forward });
        let start = Question::Start(NodeName::new("n").unwrap(), Box::new(target));
        let first = conductor.ask(8, start.clone()).unwrap();
        assert_eq!(conductor.ask(8, start.clone()).unwrap(), first);
        assert_eq!(poll(&mut conductor, 9), [first_task(1)]);
        assert_ne!(conductor.ask(10, start).unwrap(), first, "another question");
        assert_eq!(poll(&mut conductor, 11).len(), 2);
        let inventory = match conductor.ask(12, Question::Inventory).unwrap() {
            AgentAnswer::Inventory(inventory) => inventory,
            other => panic!("{other:?}"),
        };
        assert_eq!(inventory.tasks.len(), 2);
        drop(conductor);
        server.join().unwrap().unwrap();
        assert!(!crate::leftovers::stamps_of(settings(&run).session).exists());
        std::fs::remove_dir_all(run).unwrap();
    }

    #[test]
    fn a_conductor_of_this_machine_may_be_stopped_for_any_time_and_one_elsewhere_may_not() {
        let long_ago = Instant::now().checked_sub(2 * ASKED_WITHIN).expect("a machine that runs for a minute");
        let here = AgentServer { asked: long_ago, ..AgentServer::new(None) };
        let place = std::env::temp_dir().join(format!("tickscope-silent-{}", std::process::id()));
        let elsewhere = AgentServer { asked: long_ago, ..AgentServer::new(Some(Folder::at(place))) };
        assert!(!here.is_silent() && elsewhere.is_silent());
        assert!(!AgentServer { asked: Instant::now(), ..elsewhere }.is_silent());
    }

    #[test]
    fn an_agent_elsewhere_waits_for_its_deadline_once_there_is_a_run() {
        let place = std::env::temp_dir().join(format!("tickscope-norun-{}", std::process::id()));
        let hours = AgentSettings { deadline_seconds: 36_000.0, run: None, ..settings(&place) };
        let begun = AgentServer { settings: Some(hours), ..AgentServer::new(Some(Folder::at(place))) };
        assert_eq!(begun.deadline(), Duration::from_secs(60), "its conductor died before there was a run");
        assert_eq!(AgentServer { has_run: true, ..begun }.deadline(), Duration::from_secs(36_000));
    }

    #[test]
    fn what_an_agent_before_left_in_the_spool_stays_when_nobody_comes_back() {
        let session = settings("/nowhere".as_ref()).session ^ 1 << 41;
        let folder = Folder::of(session).unwrap();
        AgentServer::new(Some(folder.clone())).give_up();
        assert!(!folder.spool().exists(), "nothing was begun");
        let folder = Folder::of(session).unwrap();
        folder.write_manifest("{}").unwrap();
        AgentServer::new(Some(folder.clone())).give_up(); // whoever was to finish the run was killed at once
        assert!(folder.is_of_run(), "stamps of a run may be there");
        folder.remove().unwrap();
    }

    #[test]
    fn an_agent_next_to_a_run_that_never_was_waits_for_nobody_and_one_that_took_over_does() {
        let place = std::env::temp_dir().join(format!("tickscope-unwritten-{}", std::process::id()));
        let session = settings(&place).session ^ 1 << 42;
        let own = AgentSettings { session, deadline_seconds: 3600.0, ..settings(&place) };
        let mut server = AgentServer::new(Some(Folder::at(place)));
        server.begin(own.clone()).unwrap();
        assert_eq!(server.deadline(), Duration::ZERO);
        server.begin(AgentSettings { generation: 2, ..own }).unwrap();
        assert_eq!(server.deadline(), Duration::from_secs(3600));
    }

    #[test]
    fn whoever_is_no_conductor_any_more_has_nothing_done() {
        let mut server = AgentServer::new(None);
        let ends = [1, 2].map(|number| {
            let (ours, its) = UnixStream::pair().unwrap();
            server.greet(number, ConductorPipe::new(its, true).unwrap());
            ours
        });
        server.answer(1, Asked { number: 7, question: Question::Bye }, &[]);
        assert!(!server.over && server.last.is_none(), "it was asked through a pipe that another took over from");
        server.answer(2, Asked { number: 7, question: Question::Bye }, &[]);
        assert!(server.over);
        drop(ends);
    }

    #[test]
    fn an_answer_that_no_frame_holds_is_refused_in_words() {
        let unread = |bytes: usize| AgentAnswer::Unread("x".repeat(bytes));
        assert!(fits(unread(100), 0).is_ok() && fits(AgentAnswer::Done, PIECE_BYTES).is_ok());
        let why = fits(unread(frame::MOST_BYTES), 0).unwrap_err();
        assert!(why.to_string().contains("expected an answer of at most"), "{why}");
        let mut wire = Vec::new();
        let answered = |answer| FromAgent::Answered(Answered { number: u64::MAX, answer: Ok(answer) });
        let longest = (1..2_000)
            .step_by(333)
            .map(|less| unread(frame::MOST_BYTES - less))
            .find_map(|answer| fits(answer, 0).ok());
        frame::write(&mut wire, &answered(longest.unwrap()), &[]).unwrap();
    }

    #[test]
    fn a_wrong_question_is_refused_and_the_session_goes_on() {
        let run = std::env::temp_dir().join(format!("tickscope-wrong-{}", std::process::id()));
        std::fs::create_dir_all(&run).unwrap();
        let (ours, its) = UnixStream::pair().unwrap();
        let server = thread::spawn(move || serve(its));
        let mut conductor = TestConductor(BufReader::new(ours));
        let usable = AgentSettings { session: settings(&run).session + (1 << 40), ..settings(&run) };
        let unusable = [
            AgentSettings { deadline_seconds: 1e300, ..usable.clone() },
            AgentSettings { deadline_seconds: -1.0, ..usable.clone() },
            AgentSettings { nodes: Vec::new(), ..usable.clone() },
            AgentSettings { generation: u32::MAX, ..usable.clone() },
        ];
        for (number, settings) in (1..).zip(unusable) {
            assert!(conductor.ask(number, Question::Begin(settings)).is_err(), "{number}");
        }
        conductor.ask(20, Question::Begin(usable)).unwrap();
        let [known, stranger] = ["n", "m"].map(|name| NodeName::new(name).unwrap());
        let target = |command: &[&str]| {
            let command = command.iter().map(|word| (*word).to_owned()).collect();
            let (measured, readiness, forward) = (false, None, Forward::Nowhere);
            let environment = Default::default();
            Box::new(Task::Target(Target { command, environment, measured, readiness, forward }))
        };
        let wrong = [
            Question::Start(stranger.clone(), target(&["sleep", "1000"])),
            Question::Start(stranger.clone(), Box::new(Task::Role(Role::Collect))),
            Question::Start(known, target(&[])),
            Question::Perform(stranger.clone(), Role::CollectOnce),
            Question::Perform(stranger, Role::StampCost),
            Question::End(TaskId(7)),
            Question::Tell(TaskId(7), "word".into()),
            Question::Put { name: "file".into(), executable: false, offset: 0 },
            Question::Log("../run/log".into(), 0),
        ];
        for (number, question) in (30..).zip(wrong) {
            assert!(conductor.ask(number, question.clone()).is_err(), "{question:?}");
        }
        assert!(conductor.ask(50, Question::Poll).is_ok());
        drop(conductor);
        server.join().unwrap().unwrap();
        std::fs::remove_dir_all(run).unwrap();
    }
}
