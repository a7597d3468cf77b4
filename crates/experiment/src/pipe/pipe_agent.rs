//! An [`Agent`] over a pipe, which may break and be opened again at any time.
//!
//! A thread has the pipe: it asks what the conductor wants to know, and in between how the processes are, so that
//! [`Agent::is_running`] never waits. While the pipe is broken it is opened again and again, with growing pauses; a
//! question waits for that, but not for ever.
//!
//! Guarantees: whatever happens to the other end, no method waits for longer than [`REACHED_WITHIN`] for a broken pipe;
//! an answer of an agent that lives is waited for as long as it takes, or until the user insists. What became of the
//! agent meanwhile is [`News`], each once. Deliberately absent: starting a command again that was ended with its agent.

mod put_files;
mod state;
mod to_storage;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use tickscope_store::{EventKind, Intake, Parcel};
use tickscope_tick::{NodeName, counted, printable};

use self::state::State;
use self::to_storage::ToStorage;
use super::link::{Connect, Pipe, Unopened};
use super::protocol::{AgentAnswer, AgentSettings, Asked, Inventory, Question};
use crate::Error;
use crate::agent::{Agent, Connection, Ended, FinalCheck, Left, Look, News, PreparedNode, Task, TaskId, Unread};
use crate::interrupt;
use crate::node_plan::NodePlan;
use crate::notice;
use crate::object_store::KEYS;
use crate::object_store::RunPlace;
use crate::roles::Role;

/// How long a question waits for a broken pipe.
const REACHED_WITHIN: Duration = Duration::from_secs(60);
/// How often a node next to the run, and one elsewhere, is asked how its processes are.
const ASK_EVERY: [Duration; 2] = [Duration::from_millis(20), Duration::from_millis(100)];
/// How often while somebody waits for answers, and for how long after he asked.
const ASK_EAGERLY: Duration = Duration::from_millis(2);
const EAGER_FOR: Duration = Duration::from_millis(100);
/// How often a node elsewhere is asked for files.
const FETCH_EVERY: Duration = Duration::from_millis(300);
/// The first and the longest pause between two attempts to open a pipe.
const PAUSES: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(5)];
/// Bytes of a log, at most.
const LOG_MOST_BYTES: u64 = 8 << 30;
/// A pipe that held as long is opened again at once when it breaks.
const HELD: Duration = Duration::from_secs(10);
/// How often in a row the pipe may break before one question is answered, or files are fetched.
const MOST_BREAKS: u32 = 12;
/// How often in a row an agent may refuse to take over from one that was killed: what helps was not done meanwhile.
const MOST_REFUSALS: u32 = 12;
/// How long an agent may take for an answer when the user does not want to wait.
const HASTE: Duration = Duration::from_secs(2);
/// Files that may not come into the run: the first so many are named.
const REFUSED_TOLD: u32 = 20;
/// Characters of a path in a message.
const PATH_SHOWN: usize = 200;
/// How long what a process elsewhere wrote takes until its agent has it.
const SAID_WITHIN: Duration = Duration::from_millis(100);
/// Files that are asked for at a time.
const FILES_AT_ONCE: u32 = 16;

/// An agent at the end of a pipe.
pub struct PipeAgent {
    name: String,
    questions: Sender<Request>,
    state: Arc<Mutex<State>>,
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    /// Where paths of the run file start.
    folder: PathBuf,
    /// Its files are not here.
    elsewhere: bool,
    /// Boot of its machine, as its kernel names it.
    boot: String,
    /// It goes on when its pipe is closed.
    outlives: bool,
    /// It does so, and the run that it was begun for has not begun: nobody would come back for it.
    of_no_run: bool,
}

/// What the thread that has the pipe is to do.
struct Request {
    /// `None`: fetch all that its spool holds.
    question: Option<Question>,
    bytes: Vec<u8>,
    answer: Sender<Result<(AgentAnswer, Vec<u8>), Error>>,
    /// Nobody waits for it any more.
    dropped: Arc<AtomicBool>,
}

impl PipeAgent {
    /// Opens the pipe and begins the session. `folder`: where paths of the run file start.
    pub fn begin(connect: Connect, settings: AgentSettings, folder: PathBuf, run: &RunPlace) -> Result<Self, Error> {
        let settings = settings.of(run);
        let (mut agent, _) = Self::open(connect, settings.clone(), folder, run)?;
        let outlives = agent.outlives;
        let begun = agent.done(Question::Begin(settings));
        begun.inspect_err(|_| _ = agent.bye())?;
        agent.of_no_run = outlives;
        Ok(agent)
    }

    /// Opens the pipe to a session that was begun before. One whose agent is gone is begun again, on what that left.
    pub fn rejoin(connect: Connect, settings: AgentSettings, folder: PathBuf, run: &RunPlace) -> Result<Self, Error> {
        /// No agent of a run's conductor comes that far.
        const LATER: u32 = 1000;
        let settings = settings.of(run);
        let (mut agent, generation) =
            Self::open(connect, AgentSettings { generation: LATER, ..settings.clone() }, folder, run)?;
        if generation == 0 {
            agent.done(Question::Begin(AgentSettings { generation: LATER, ..settings }))?;
        }
        Ok(agent)
    }

    /// Boot of its machine when the pipe was opened for the first time.
    pub fn boot(&self) -> &str {
        &self.boot
    }

    /// What the agent has prepared and started.
    pub fn inventory(&mut self) -> Result<Inventory, Error> {
        match self.ask(Question::Inventory)? {
            AgentAnswer::Inventory(inventory) => {
                self.state().running.extend(inventory.tasks.iter().map(|(task, _, _)| *task));
                Ok(inventory)
            }
            other => Err(self.unexpected(&other)),
        }
    }

    /// [`Agent::prepare`] with the known map of its counter that an agent before this one had.
    pub fn prepare_as(&mut self, node: &NodePlan, counter: Option<String>) -> Result<PreparedNode, Error> {
        match self.ask(Question::Prepare(Box::new(node.clone()), counter))? {
            AgentAnswer::Prepared(prepared) => Ok(*prepared),
            other => Err(self.unexpected(&other)),
        }
    }

    /// Notes a node that the agent prepared for a conductor before this one.
    pub fn recall(&mut self, node: &NodePlan, counter: Option<String>) {
        self.state().prepared.push((node.clone(), counter));
    }

    /// Ends all processes, and takes what lies in shared memory.
    pub fn end_all(&mut self) -> Result<(), Error> {
        self.done(Question::EndAll)
    }

    /// Opens the pipe; and the generation of the agent that was found.
    fn open(connect: Connect, settings: AgentSettings, folder: PathBuf, run: &RunPlace) -> Result<(Self, u32), Error> {
        let elsewhere = settings.run.is_none();
        let intake = settings.run.is_none().then(|| Intake::new(&run.root, settings.nodes.clone()));
        let to_storage = run.store.clone().filter(|_| settings.to_storage);
        let to_storage = to_storage.map(|store| ToStorage::new(&run.root, settings.nodes.clone(), store));
        let names: Vec<&str> = settings.nodes.iter().map(NodeName::as_str).collect();
        let name = if connect == Connect::Here { "host".into() } else { names.join(", ") };
        let (running, answers, news) = (BTreeSet::new(), BTreeMap::new(), Vec::new());
        let (since, eager) = (Instant::now(), Instant::now());
        let (connection, prepared) = (Connection::Open, Vec::new());
        let state = State { connection, since, running, answers, eager, news, prepared };
        let state = Arc::new(Mutex::new(state));
        let (outlives, of_no_run) = (connect != Connect::Here, false);
        let (questions, orders) = channel();
        let number = crate::conductor::random()? >> 1;
        let ends = Arc::new(AtomicBool::new(false));
        let mut keeper = Keeper {
            name: name.clone(),
            connect: connect.clone(),
            settings,
            pipe: None,
            boot: String::new(),
            number,
            refusals: 0,
            manifest: None,
            state: Arc::clone(&state),
            ends: Arc::clone(&ends),
            due: Instant::now(),
            since: Instant::now(),
            answered: true,
            broken: Instant::now(),
            pause: PAUSES[0],
            intake,
            to_storage,
            fetches: Instant::now(),
            told: false,
            refused: 0,
        };
        let (send_opened, opened) = channel();
        // What it starts ends with the thread that started it, so that thread is the one that has the pipe.
        let thread = thread::spawn(move || {
            let opened = keeper.open().map(|generation| (generation, keeper.boot.clone()));
            let goes_on = opened.is_ok();
            let _ = send_opened.send(opened); // it is waited for below
            if goes_on {
                keeper.keep(&orders);
            }
        });
        let opened = opened.recv().unwrap_or_else(|_| Err(Unopened::Unfit("the thread that tried panicked".into())));
        let (generation, boot) = opened.map_err(|refused| {
            let why = refused.text();
            Error::work(format!("cannot reach node {name} through '{}': {why}", connect.words()))
        })?;
        let thread = Some(thread);
        let agent = Self { name, questions, state, ends, thread, folder, elsewhere, boot, outlives, of_no_run };
        Ok((agent, generation))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ask(&mut self, question: Question) -> Result<AgentAnswer, Error> {
        self.ask_with(question, Vec::new()).map(|(answer, _)| answer)
    }

    fn ask_with(&mut self, question: Question, bytes: Vec<u8>) -> Result<(AgentAnswer, Vec<u8>), Error> {
        self.order(Some(question), bytes)
    }

    fn order(&mut self, question: Option<Question>, bytes: Vec<u8>) -> Result<(AgentAnswer, Vec<u8>), Error> {
        let (answer, answered) = channel();
        let dropped = Arc::new(AtomicBool::new(false));
        let gone = || Error::work(format!("the agent of {} is gone", self.name));
        self.questions.send(Request { question, bytes, answer, dropped: Arc::clone(&dropped) }).map_err(|_| gone())?;
        let asked = Instant::now();
        loop {
            match answered.recv_timeout(Duration::from_millis(100)) {
                Ok(answer) => return answer,
                Err(RecvTimeoutError::Disconnected) => return Err(gone()),
                Err(RecvTimeoutError::Timeout) => {}
            }
            let (connection, since) = {
                let state = self.state();
                (state.connection, state.since)
            };
            let is_broken = connection == Connection::Broken;
            let why = if is_broken && since.elapsed() > REACHED_WITHIN {
                format!("{} has not been reached for {} s", self.name, since.elapsed().as_secs())
            } else if interrupt::insisted() && (is_broken || asked.elapsed() > HASTE) {
                format!("{} was not waited for any longer", self.name)
            } else {
                continue;
            };
            dropped.store(true, Ordering::Relaxed);
            return Err(stays_there(&why));
        }
    }

    fn done(&mut self, question: Question) -> Result<(), Error> {
        match self.ask(question)? {
            AgentAnswer::Done => Ok(()),
            other => Err(self.unexpected(&other)),
        }
    }

    fn unexpected(&self, answer: &AgentAnswer) -> Error {
        let found = serde_json::to_string(answer).unwrap_or_default().chars().take(40).collect::<String>();
        Error::work(format!(
            "the agent of {}: expected an answer to what it was asked, found {found}. Leave agent out of the \
             run file, and this version is copied there",
            self.name
        ))
    }
}

/// An error, and what becomes of the node's stamps.
fn stays_there(why: &str) -> Error {
    Error::work(format!("{why}. What it has measured stays there; tickscope finish fetches it later"))
}

/// Whether the answer to what is asked now is waited for: until the agent's owner drops it, or the user insists.
fn waits(ends: &AtomicBool) -> impl Fn() -> bool {
    let asked = Instant::now();
    move || !(ends.load(Ordering::Relaxed) || interrupt::insisted() && asked.elapsed() > HASTE)
}

/// The thread that has the pipe.
struct Keeper {
    name: String,
    connect: Connect,
    settings: AgentSettings,
    pipe: Option<Pipe>,
    /// Boot of the node's machine.
    boot: String,
    /// Number of the question that was asked last.
    number: u64,
    /// How often in a row an agent that was to take over refused.
    refusals: u32,
    /// For an agent that takes over.
    manifest: Option<String>,
    state: Arc<Mutex<State>>,
    ends: Arc<AtomicBool>,
    /// When the next attempt to open the pipe is due.
    due: Instant,
    pause: Duration,
    /// When it was opened last.
    since: Instant,
    /// Whether it answered since; when it broke first after it had.
    answered: bool,
    broken: Instant,
    /// Where its files go; `None`: its run is on its machine.
    intake: Option<Intake>,
    /// Where segments of its programs go; `None`: with the others.
    to_storage: Option<ToStorage>,
    /// When it is next asked for files.
    fetches: Instant,
    /// A failure to store them was told.
    told: bool,
    /// Files that may not come into the run.
    refused: u32,
}

/// Why a question was not answered.
enum Unanswered {
    /// By the pipe, which may open again.
    Broken,
    /// By the agent, which died while it was at it.
    Died,
}

impl Keeper {
    /// The keys of object storage stay here: whatever a prefix starts on this machine has none of them.
    fn pipe(&self) -> Result<Pipe, Unopened> {
        let without: &[&str] = if self.to_storage.is_some() { &KEYS } else { &[] };
        Pipe::open(&self.connect, self.settings.session, without)
    }

    /// Opens the pipe for the first time; returns the agent's generation.
    fn open(&mut self) -> Result<u32, Unopened> {
        let pipe = self.pipe()?;
        self.boot.clone_from(&pipe.hello.boot);
        let generation = pipe.hello.generation;
        if generation > 0 {
            self.settings.generation = generation;
        }
        self.pipe = Some(pipe);
        Ok(generation)
    }

    fn keep(&mut self, orders: &Receiver<Request>) {
        let every = ASK_EVERY[usize::from(self.connect != Connect::Here)];
        loop {
            let eager = self.state().eager > Instant::now();
            let every = if eager { ASK_EAGERLY } else { every };
            match orders.recv_timeout(every) {
                Ok(order) => {
                    self.work(order);
                    if self.ends.load(Ordering::Relaxed) {
                        return; // the session is over
                    }
                }
                Err(RecvTimeoutError::Timeout) => {
                    if self.is_open() {
                        let _ = self.poll(); // what breaks here is opened again
                    }
                    if self.manifest.is_some() && Instant::now() >= self.fetches {
                        self.fetch_in_passing();
                    }
                }
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&mut self, order: Request) {
        let Request { question, bytes, answer, dropped } = order;
        let Some(question) = question else { return self.flush(&answer, &dropped) };
        let is_over = question == Question::Bye;
        let number = self.next();
        let (asked, mut breaks) = (Asked { number, question }, 0);
        let mut asked_of: Option<u32> = None;
        while !dropped.load(Ordering::Relaxed) && !self.ends.load(Ordering::Relaxed) {
            if !self.is_open() {
                if self.state().connection == Connection::Lost {
                    let _ = answer.send(Err(Error::work(format!("node {} is lost", self.name))));
                    return;
                }
                thread::sleep(Duration::from_millis(20));
                continue;
            }
            // What another agent was asked before it may have done: it is done once, or not at all.
            if *asked_of.get_or_insert(self.settings.generation) != self.settings.generation {
                let _ = answer.send(Err(self.was_killed()));
                return;
            }
            match self.ask(&asked, &bytes) {
                Ok(answered) => {
                    if is_over {
                        self.ends.store(true, Ordering::Relaxed);
                    }
                    self.remember(&asked.question, &answered);
                    if answered.is_err() && self.connect != Connect::Here {
                        // What its process wrote says why: it is shown before the error, which refers to it.
                        thread::sleep(SAID_WITHIN);
                        let _ = self.poll();
                    }
                    let _ = answer.send(answered); // it may have given up
                    return;
                }
                Err(Unanswered::Broken) if is_over => {
                    // Whether it heard that, nobody knows: opened again, a pipe would begin the session anew.
                    self.ends.store(true, Ordering::Relaxed);
                    return;
                }
                Err(Unanswered::Broken) if breaks == MOST_BREAKS => {
                    let _ = answer.send(Err(self.breaks_again_and_again()));
                    return;
                }
                Err(Unanswered::Broken) => breaks += 1,
                Err(Unanswered::Died) => {
                    let _ = answer.send(Err(self.was_killed()));
                    return;
                }
            }
        }
    }

    fn was_killed(&self) -> Error {
        Error::work(format!("the agent of {} was killed while it was asked", self.name))
    }

    fn breaks_again_and_again(&self) -> Error {
        stays_there(&format!("the pipe to {} breaks again and again", self.name))
    }

    fn next(&mut self) -> u64 {
        self.number += 1;
        self.number
    }

    /// What an agent that takes over will have to be told.
    fn remember(&mut self, question: &Question, answered: &Result<(AgentAnswer, Vec<u8>), Error>) {
        match (question, answered) {
            (Question::Prepare(node, _), Ok((AgentAnswer::Prepared(prepared), _))) => {
                self.state().prepared.push((node.as_ref().clone(), prepared.facts.injected.clone()));
            }
            (Question::Manifest(text), Ok(_)) => self.manifest = Some(text.clone()),
            (Question::Start(..), Ok((AgentAnswer::Started(task), _))) => {
                self.state().running.insert(*task);
            }
            _ => {}
        }
    }

    /// Asks over an open pipe.
    fn ask(&mut self, asked: &Asked, bytes: &[u8]) -> Result<Result<(AgentAnswer, Vec<u8>), Error>, Unanswered> {
        let Some(pipe) = &mut self.pipe else { return Err(Unanswered::Broken) };
        let answered = pipe.ask(asked, bytes, &waits(&self.ends));
        match answered {
            Ok((answered, bytes)) => {
                self.answered = true;
                Ok(answered.answer.map(|answer| (answer, bytes)))
            }
            Err(why) => {
                let before = self.settings.generation;
                self.broke(&why);
                // Where it was opened again at once, by another agent than before, nobody knows of the question.
                let died = self.is_open() && self.settings.generation != before;
                Err(if died { Unanswered::Died } else { Unanswered::Broken })
            }
        }
    }

    fn broke(&mut self, why: &str) {
        self.pipe = None;
        if self.ends.load(Ordering::Relaxed) {
            return;
        }
        let text = format!("the pipe to node {} broke: {why}", self.name);
        notice::say(&text);
        if std::mem::take(&mut self.answered) {
            self.broken = Instant::now();
        }
        let mut state = self.state();
        // A pipe that opens and breaks again without an answer was broken all the time.
        (state.connection, state.since) = (Connection::Broken, self.broken);
        state.news.push(News { what: EventKind::AgentUnreachable, value: None, text });
        drop(state);
        if self.since.elapsed() > HELD {
            (self.due, self.pause) = (Instant::now(), PAUSES[0]);
        } else {
            self.put_off();
        }
    }

    /// Returns whether the pipe is open; tries to open it where that is due.
    fn is_open(&mut self) -> bool {
        if self.pipe.is_some() {
            return true;
        }
        if self.state().connection == Connection::Lost || Instant::now() < self.due {
            return false;
        }
        match self.pipe() {
            Ok(pipe) => {
                self.pipe = Some(pipe);
                self.since = Instant::now();
                self.opened();
            }
            Err(Unopened::Unfit(why)) => self.lose(&why),
            Err(Unopened::Unreachable(why)) => {
                let away = self.state().since.elapsed();
                if away.as_secs_f64() > self.settings.deadline_seconds {
                    self.lose(&format!("not reached for {} s: {why}", away.as_secs()));
                }
                self.put_off();
            }
        }
        self.pipe.is_some()
    }

    /// The next attempt is due after a pause, and the one after that after a longer one.
    fn put_off(&mut self) {
        self.due = Instant::now() + self.pause;
        self.pause = (self.pause * 2).min(PAUSES[1]);
    }

    fn lose(&mut self, why: &str) {
        let text = format!("node {} is lost to this run: {}", self.name, printable(why));
        notice::say(&text);
        let mut state = self.state();
        state.set(Connection::Lost);
        state.running.clear();
        state.news.push(News { what: EventKind::NodeLost, value: None, text });
    }

    /// Goes on with the agent of before, or sets up one that took over.
    fn opened(&mut self) {
        let Some(pipe) = &self.pipe else { return };
        let (hello, away) = (pipe.hello.clone(), self.state().since.elapsed());
        if hello.boot != self.boot {
            self.pipe = None;
            self.lose("its machine was started anew; what it stamps now would be of another counter");
            return;
        }
        let seconds = counted(away.as_secs() as u32, "second");
        let (what, text) = if hello.generation == self.settings.generation {
            (EventKind::AgentReached, format!("node {} is reached again after {seconds}", self.name))
        } else {
            match self.take_over() {
                Ok(()) => {}
                Err(Unanswered::Broken | Unanswered::Died) => return,
            }
            let text = format!(
                "the agent of {} was killed, and its processes ended with it; another took over after {seconds}. \
                 It takes the stamps that still lie in shared memory; of memory that is gone, memory-lost tells",
                self.name
            );
            (EventKind::AgentRestarted, text)
        };
        notice::say(&text);
        let mut state = self.state();
        state.set(Connection::Open);
        let is_another = what == EventKind::AgentRestarted;
        state.news.push(News { what, value: Some(away.as_secs() as i64), text });
        if is_another && self.manifest.is_some() && !hello.has_run {
            let text = format!(
                "the files that the agent of {} had are gone too (was its container replaced?): what was stamped there \
                 and not fetched is in no count, so how many stamps were lost is not known",
                self.name
            );
            state.news.push(News { what: EventKind::MemoryLost, value: None, text });
        }
    }

    /// Tells a new agent what the one before it knew.
    fn take_over(&mut self) -> Result<(), Unanswered> {
        self.settings.generation += 1;
        let mut questions = vec![Question::Begin(self.settings.clone())];
        let prepared = self.state().prepared.clone();
        questions.extend(prepared.into_iter().map(|(node, map)| Question::Prepare(Box::new(node), map)));
        questions.extend(self.manifest.clone().map(Question::Manifest));
        for question in questions {
            let asked = Asked { number: self.next(), question };
            let Some(pipe) = &mut self.pipe else { return Err(Unanswered::Broken) };
            let (outcome, refused) = match pipe.ask(&asked, &[], &waits(&self.ends)) {
                Ok((answered, _)) => (answered.answer.map(|_| ()), true),
                Err(why) => (Err(Error::work(why)), false),
            };
            let Err(why) = outcome else { continue };
            self.pipe = None;
            self.settings.generation -= 1; // the next attempt does all of it again
            self.refusals += u32::from(refused);
            if self.refusals == MOST_REFUSALS {
                self.lose(&format!("another agent cannot take over: {why}"));
                return Err(Unanswered::Broken);
            }
            notice::say(format!("node {}: another agent cannot take over yet: {why}", self.name));
            self.put_off();
            return Err(Unanswered::Broken);
        }
        self.refusals = 0;
        self.state().running.clear();
        Ok(())
    }

    /// Fetches what is new while the run goes on.
    fn fetch_in_passing(&mut self) {
        self.fetches = Instant::now() + FETCH_EVERY;
        if self.pipe.is_none() {
            return;
        }
        match self.fetch(false) {
            Ok(Ok(true)) => self.fetches = Instant::now(), // there may be more
            // A full disk here may have room later; its spool holds them so long.
            Ok(Err(why)) if !self.told => {
                self.told = true;
                notice::say(format!("files of node {} cannot be stored here, and wait there: {why}", self.name));
            }
            Ok(Ok(false)) => self.told = false,
            Ok(Err(_)) | Err(Unanswered::Broken | Unanswered::Died) => {}
        }
    }

    /// Fetches all that the spool holds.
    fn flush(&mut self, answer: &Sender<Result<(AgentAnswer, Vec<u8>), Error>>, dropped: &AtomicBool) {
        let mut breaks = 0;
        while !dropped.load(Ordering::Relaxed) && !self.ends.load(Ordering::Relaxed) {
            if !self.is_open() {
                if self.state().connection == Connection::Lost {
                    let _ = answer.send(Err(Error::work(format!("node {} is lost", self.name))));
                    return;
                }
                thread::sleep(Duration::from_millis(20));
                continue;
            }
            match self.fetch(true) {
                Ok(Ok(true)) => breaks = 0,
                Ok(Ok(false)) => {
                    let _ = answer.send(Ok((AgentAnswer::Done, Vec::new()))); // it may have given up
                    return;
                }
                Ok(Err(why)) => {
                    let _ = answer.send(Err(why));
                    return;
                }
                Err(Unanswered::Broken | Unanswered::Died) if breaks == MOST_BREAKS => {
                    let _ = answer.send(Err(self.breaks_again_and_again()));
                    return;
                }
                Err(Unanswered::Broken | Unanswered::Died) => breaks += 1,
            }
        }
    }

    /// Fetches some of the files that are new in the spool; whether there were any. `all`: also those that grow.
    fn fetch(&mut self, all: bool) -> Result<Result<bool, Error>, Unanswered> {
        let Some(intake) = self.intake.clone() else { return Ok(Ok(false)) };
        let parcels = match self.ask_now(Question::Pending(FILES_AT_ONCE, all))? {
            Ok((AgentAnswer::Pending(parcels), _)) => parcels,
            Ok(_) => return Ok(Ok(false)),
            Err(why) => return Ok(Err(why)),
        };
        let (mut stored, mut refused) = (Vec::new(), Vec::new());
        let (to_storage, to_fetch): (Vec<_>, Vec<_>) = parcels
            .iter()
            .partition(|parcel| self.to_storage.as_ref().is_some_and(|to_storage| to_storage.takes(parcel)));
        for parcel in to_fetch {
            match self.receive(&intake, parcel)? {
                Ok(true) => stored.push(parcel.clone()),
                Ok(false) => {}
                Err(why) if why.is_of_the_file() => {
                    self.tell_refused(parcel, &why);
                    refused.push(parcel.clone());
                }
                Err(why) => return Ok(Err(why.into())),
            }
        }
        let uploaded = self.upload(&to_storage, all)?.map(|mut arrived| stored.append(&mut arrived));
        for (question, of) in [(Question::Stored as fn(_) -> _, stored), (Question::Refused, refused)] {
            if !of.is_empty()
                && let Err(why) = self.ask_now(question(of))?
            {
                return Ok(Err(why));
            }
        }
        Ok(uploaded.map(|()| !parcels.is_empty()))
    }

    /// Has the node put some of its segments to storage; returns those that it has now. `all`: the run is at its end.
    fn upload(&mut self, parcels: &[&Parcel], all: bool) -> Result<Result<Vec<Parcel>, Error>, Unanswered> {
        let Some(signed) = self.to_storage.as_mut().and_then(|to_storage| to_storage.signed(parcels)) else {
            return Ok(Ok(Vec::new()));
        };
        let answer = self.ask_now(Question::Upload(signed))?;
        let taken = match (answer, &mut self.to_storage) {
            (Ok((AgentAnswer::Uploaded(uploaded), _)), Some(to_storage)) => to_storage.take(parcels, uploaded, all),
            (answer, _) => answer.map(|_| Vec::new()),
        };
        Ok(taken.map_err(|why| stays_there(&why.to_string())))
    }

    /// Tells of a file that does not come into the run; of very many, that there are more.
    fn tell_refused(&mut self, parcel: &Parcel, why: &tickscope_store::Error) {
        self.refused += 1;
        let path = printable(&parcel.path).chars().take(PATH_SHOWN).collect::<String>();
        let text = match self.refused {
            1..REFUSED_TOLD => {
                format!("{path} of node {} is not in the run: {}", self.name, printable(&why.to_string()))
            }
            REFUSED_TOLD => {
                format!("more files of node {} are not in the run; these are not named any more", self.name)
            }
            _ => return,
        };
        notice::say(&text);
        self.state().news.push(News { what: EventKind::NodeFileRefused, value: None, text });
    }

    /// Stores one file in the run; `false`: it was replaced meanwhile, and is listed again.
    fn receive(
        &mut self,
        intake: &Intake,
        parcel: &Parcel,
    ) -> Result<Result<bool, tickscope_store::Error>, Unanswered> {
        if parcel.is_gone() {
            return Ok(intake.remove(parcel).map(|()| true));
        }
        let mut receiving = match intake.begin(parcel) {
            Ok(receiving) => receiving,
            Err(why) => return Ok(Err(why)),
        };
        while let Some(offset) = receiving.next() {
            let Ok((_, piece)) = self.ask_now(Question::Piece(parcel.clone(), offset))? else { return Ok(Ok(false)) };
            if let Err(why) = receiving.piece(&piece) {
                return Ok(Err(why));
            }
        }
        Ok(receiving.finish().map(|()| true))
    }

    /// Asks a question of its own.
    fn ask_now(&mut self, question: Question) -> Result<Result<(AgentAnswer, Vec<u8>), Error>, Unanswered> {
        let asked = Asked { number: self.next(), question };
        self.ask(&asked, &[])
    }

    /// Asks how the processes are.
    fn poll(&mut self) -> Result<(), Unanswered> {
        let Ok((AgentAnswer::Polled(polled), _)) = self.ask_now(Question::Poll)? else { return Ok(()) };
        for line in &polled.said {
            let line = line.strip_prefix("tickscope: ").unwrap_or(line);
            notice::say(format!("node {}: {line}", self.name));
        }
        let mut state = self.state();
        state.running = polled.running.into_iter().collect();
        for (task, answers) in polled.answers {
            state.answers.entry(task).or_default().extend(answers);
        }
        Ok(())
    }
}

impl Drop for PipeAgent {
    fn drop(&mut self) {
        if self.of_no_run {
            let _ = self.bye(); // one that cannot be told ends at its deadline
        }
        self.ends.store(true, Ordering::Relaxed);
        let (questions, _) = channel();
        self.questions = questions; // the thread sees that nobody asks any more, and closes the pipe
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

impl Agent for PipeAgent {
    fn look(&mut self) -> Result<Look, Error> {
        match self.ask(Question::Look)? {
            AgentAnswer::Look(look) => Ok(look),
            other => Err(self.unexpected(&other)),
        }
    }

    fn prepare(&mut self, node: &NodePlan) -> Result<PreparedNode, Error> {
        self.put_files(node)?;
        self.prepare_as(node, None)
    }

    fn begun(&mut self, manifest: &str) -> Result<(), Error> {
        self.of_no_run = false;
        self.done(Question::Manifest(manifest.into()))
    }

    fn start(&mut self, node: &NodeName, task: &Task) -> Result<TaskId, Error> {
        match self.ask(Question::Start(node.clone(), Box::new(task.clone())))? {
            AgentAnswer::Started(task) => Ok(task),
            other => Err(self.unexpected(&other)),
        }
    }

    fn is_running(&mut self, task: TaskId) -> Result<bool, Error> {
        Ok(self.state().running.contains(&task))
    }

    fn tell(&mut self, task: TaskId, line: &str) -> Result<(), Error> {
        self.done(Question::Tell(task, line.into()))
    }

    fn post(&mut self, task: TaskId, line: &str) -> Result<(), Error> {
        let (answer, _) = channel();
        let (question, dropped) = (Some(Question::Tell(task, line.into())), Arc::new(AtomicBool::new(false)));
        let sent = self.questions.send(Request { question, bytes: Vec::new(), answer, dropped });
        sent.map_err(|_| Error::work(format!("the agent of {} is gone", self.name)))
    }

    fn answers(&mut self, task: TaskId) -> Result<Vec<String>, Error> {
        let mut state = self.state();
        state.eager = Instant::now() + EAGER_FOR;
        Ok(state.answers.remove(&task).unwrap_or_default())
    }

    fn end(&mut self, task: TaskId) -> Result<Ended, Error> {
        match self.ask(Question::End(task))? {
            AgentAnswer::Ended(ended) => Ok(ended),
            other => Err(self.unexpected(&other)),
        }
    }

    fn perform(&mut self, node: &NodeName, role: &Role) -> Result<Ended, Error> {
        match self.ask(Question::Perform(node.clone(), role.clone()))? {
            AgentAnswer::Ended(ended) => Ok(ended),
            other => Err(self.unexpected(&other)),
        }
    }

    fn look_again(&mut self) -> Result<FinalCheck, Error> {
        match self.ask(Question::LookAgain)? {
            AgentAnswer::LookedAgain(check) => Ok(check),
            other => Err(self.unexpected(&other)),
        }
    }

    fn clear(&mut self, unread: Unread) -> Result<Vec<Left>, Error> {
        match self.ask(Question::Clear(unread))? {
            AgentAnswer::Cleared(left) => Ok(left),
            other => Err(self.unexpected(&other)),
        }
    }

    fn flush(&mut self) -> Result<(), Error> {
        self.order(None, Vec::new()).map(drop)
    }

    fn copy_log(&mut self, path: &str, to: &Path) -> Result<bool, Error> {
        if !self.elsewhere {
            return Ok(false);
        }
        let wrong = |e: std::io::Error| Error::work(format!("cannot write {}: {e}. Free some space", to.display()));
        let _ = std::fs::remove_file(to); // what a conductor that was killed had copied of it
        let (file, mut offset) = (File::create_new(to).map_err(wrong)?, 0);
        loop {
            let (answer, piece) = self.ask_with(Question::Log(path.into(), offset), Vec::new())?;
            if let AgentAnswer::Unread(why) = answer {
                notice::say(printable(&why)); // it is told as refused, too, where it is imported
                return Ok(false);
            }
            if piece.is_empty() {
                return Ok(true);
            }
            if offset > LOG_MOST_BYTES {
                let (name, most) = (&self.name, LOG_MOST_BYTES >> 30);
                let why = format!("cannot take more than {most} GiB of the log {path} of node {name}");
                return Err(stays_there(&why));
            }
            file.write_all_at(&piece, offset).map_err(wrong)?;
            offset += piece.len() as u64;
        }
    }

    fn connection(&self) -> Connection {
        self.state().connection
    }

    fn news(&mut self) -> Vec<News> {
        std::mem::take(&mut self.state().news)
    }

    fn bye(&mut self) -> Result<(), Error> {
        self.of_no_run = false;
        self.done(Question::Bye)
    }
}
