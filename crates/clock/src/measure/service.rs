//! Threads and sockets that serve a clock, and reading it in a loop that is compiled for it.

use std::io;
use std::net::{Ipv4Addr, UdpSocket};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering::*};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tickscope_counter as counter;
use tickscope_host::affinity;
use tickscope_host::posix_clock::PosixClock;
use tickscope_tick::Ordering;

use super::clock::Clock;

/// A clock made ready: its thread runs, its socket answers. Ends with it.
pub struct Service {
    clock: Clock,
    state: State,
}

enum State {
    Direct,
    Mutex(Mutex<i64>),
    Ticker(Ticker),
    Unix(Server<SocketAddr>),
    Udp(Server<std::net::SocketAddr>),
}

/// One thread's way to read a clock.
pub enum Reader<'a> {
    Counter(Ordering),
    Library(PosixClock),
    SystemCall(PosixClock),
    Mutex(&'a Mutex<i64>),
    Ticker(&'a AtomicI64),
    Unix(UnixDatagram, &'a AtomicU64),
    Udp(UdpSocket, &'a AtomicU64),
}

/// Something done with a clock, compiled for each kind of reading, so that no indirect call is measured.
pub trait Job {
    /// Result of the job.
    type Output;
    /// Does the job; every call of `read` is one reading.
    fn run(self, read: impl FnMut() -> i64) -> Self::Output;
}

impl Service {
    /// Makes a clock ready, its server or ticker on processor `cpu`; an error says why the host has no such clock.
    pub fn open(clock: Clock, cpu: usize) -> io::Result<Self> {
        let state = match clock {
            Clock::Counter(_) => State::Direct,
            Clock::Library(posix) => posix.read().map(|_| State::Direct)?,
            Clock::SystemCall(posix) => posix.read_by_system_call().map(|_| State::Direct)?,
            Clock::Mutex => State::Mutex(Mutex::new(i64::MIN)),
            Clock::Ticker => State::Ticker(Ticker::start(cpu)),
            Clock::UnixSocket => State::Unix(unix_server(cpu)?),
            Clock::UdpSocket => State::Udp(udp_server(cpu)?),
        };
        Ok(Self { clock, state })
    }

    /// A reader for one thread.
    pub fn reader(&self) -> io::Result<Reader<'_>> {
        Ok(match (&self.state, self.clock) {
            (State::Mutex(last), _) => Reader::Mutex(last),
            (State::Ticker(ticker), _) => Reader::Ticker(&ticker.shared.word),
            (State::Unix(server), _) => Reader::Unix(unix_client(&server.address)?, &server.lost),
            (State::Udp(server), _) => Reader::Udp(udp_client(server.address)?, &server.lost),
            (State::Direct, Clock::Counter(ordering)) => Reader::Counter(ordering),
            (State::Direct, Clock::SystemCall(posix)) => Reader::SystemCall(posix),
            (State::Direct, Clock::Library(posix)) => Reader::Library(posix),
            (State::Direct, other) => unreachable!("{other} has a state of its own"),
        })
    }

    /// Requests that were not answered in time, and made again.
    pub fn lost(&self) -> u64 {
        match &self.state {
            State::Unix(server) => server.lost.load(Relaxed),
            State::Udp(server) => server.lost.load(Relaxed),
            _ => 0,
        }
    }
}

impl Reader<'_> {
    /// Does the job with this clock.
    pub fn drive<J: Job>(&self, job: J) -> J::Output {
        const GONE: &str = "the clock was read when it was opened";
        match self {
            Self::Counter(Ordering::Plain) => job.run(counter::plain),
            Self::Counter(Ordering::Before) => job.run(counter::before),
            Self::Counter(Ordering::After) => job.run(counter::after),
            &Self::Library(clock) => job.run(move || clock.read().expect(GONE)),
            &Self::SystemCall(clock) => job.run(move || clock.read_by_system_call().expect(GONE)),
            Self::Mutex(last) => job.run(|| guarded(last)),
            Self::Ticker(word) => job.run(|| word.load(Acquire)),
            Self::Unix(socket, lost) => {
                job.run(asking(|request| socket.send(request), |answer| socket.recv(answer), lost))
            }
            Self::Udp(socket, lost) => {
                job.run(asking(|request| socket.send(request), |answer| socket.recv(answer), lost))
            }
        }
    }
}

fn guarded(last: &Mutex<i64>) -> i64 {
    let mut last = last.lock().unwrap_or_else(PoisonError::into_inner);
    *last = counter::plain().max(*last);
    *last
}

/// A thread that keeps a word at the counter.
struct Ticker {
    shared: Arc<TickerWord>,
    thread: Option<JoinHandle<()>>,
}

/// Alone in its cache lines, which processors fetch in pairs.
#[repr(align(128))]
struct TickerWord {
    word: AtomicI64,
    over: AtomicBool,
}

impl Ticker {
    fn start(cpu: usize) -> Self {
        let shared = Arc::new(TickerWord { word: AtomicI64::new(counter::plain()), over: AtomicBool::new(false) });
        let ticking = Arc::clone(&shared);
        let thread = thread::spawn(move || {
            // A ticker that may not be pinned ticks all the same.
            let _ = affinity::pin(cpu);
            while !ticking.over.load(Relaxed) {
                ticking.word.store(counter::plain(), Release);
            }
        });
        Self { shared, thread: Some(thread) }
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        self.shared.over.store(true, Relaxed);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// A thread that answers requests with the counter. A request is a number, an answer the same number and the reading.
struct Server<A> {
    address: A,
    thread: Option<JoinHandle<()>>,
    over: Arc<AtomicBool>,
    /// Requests without an answer.
    lost: AtomicU64,
}

const REQUEST: usize = 8;
const ANSWER: usize = 16;
/// After so long without an answer the request or the answer was dropped: both wait in a buffer of this host.
const ANSWER_TIMEOUT: Duration = Duration::from_millis(500);
/// How often a server looks whether it is over.
const LOOK: Duration = Duration::from_millis(20);
/// So many requests in a row without an answer: the server is gone.
const LOST_MAX: u32 = 20;

impl<A> Server<A> {
    /// `answer_one` waits for one request for a while and answers it.
    fn start(address: A, cpu: usize, mut answer_one: impl FnMut() + Send + 'static) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let ended = Arc::clone(&over);
        let thread = thread::spawn(move || {
            // A server that may not be pinned answers all the same.
            let _ = affinity::pin(cpu);
            while !ended.load(Relaxed) {
                answer_one();
            }
        });
        Self { address, thread: Some(thread), over, lost: AtomicU64::new(0) }
    }
}

impl<A> Drop for Server<A> {
    fn drop(&mut self) {
        self.over.store(true, Relaxed);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

fn answered(request: &[u8; REQUEST]) -> [u8; ANSWER] {
    let mut answer = [0; ANSWER];
    answer[..REQUEST].copy_from_slice(request);
    answer[REQUEST..].copy_from_slice(&counter::plain().to_le_bytes());
    answer
}

fn unused_address() -> io::Result<SocketAddr> {
    static SOCKETS: AtomicU64 = AtomicU64::new(0);
    let number = SOCKETS.fetch_add(1, Relaxed);
    SocketAddr::from_abstract_name(format!("tickscope-clock-{}-{number}", std::process::id()))
}

fn unix_server(cpu: usize) -> io::Result<Server<SocketAddr>> {
    let address = unused_address()?;
    let socket = UnixDatagram::bind_addr(&address)?;
    socket.set_read_timeout(Some(LOOK))?;
    Ok(Server::start(address, cpu, move || {
        let mut request = [0; REQUEST];
        if let Ok((REQUEST, from)) = socket.recv_from(&mut request) {
            // A client that left needs no answer.
            let _ = socket.send_to_addr(&answered(&request), &from);
        }
    }))
}

fn unix_client(server: &SocketAddr) -> io::Result<UnixDatagram> {
    let socket = UnixDatagram::bind_addr(&unused_address()?)?;
    socket.connect_addr(server)?;
    socket.set_read_timeout(Some(ANSWER_TIMEOUT))?;
    Ok(socket)
}

fn udp_server(cpu: usize) -> io::Result<Server<std::net::SocketAddr>> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    socket.set_read_timeout(Some(LOOK))?;
    Ok(Server::start(socket.local_addr()?, cpu, move || {
        let mut request = [0; REQUEST];
        if let Ok((REQUEST, from)) = socket.recv_from(&mut request) {
            // A client that left needs no answer.
            let _ = socket.send_to(&answered(&request), from);
        }
    }))
}

fn udp_client(server: std::net::SocketAddr) -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    socket.connect(server)?;
    socket.set_read_timeout(Some(ANSWER_TIMEOUT))?;
    Ok(socket)
}

/// Asks until the answer to the very request comes; a late answer to an earlier one is no reading.
fn asking(
    send: impl Fn(&[u8]) -> io::Result<usize>,
    receive: impl Fn(&mut [u8]) -> io::Result<usize>,
    lost: &AtomicU64,
) -> impl FnMut() -> i64 {
    let mut number = 0_u64;
    move || {
        for _ in 0..LOST_MAX {
            number += 1;
            if send(&number.to_le_bytes()).is_ok() {
                let mut answer = [0; ANSWER];
                while receive(&mut answer).is_ok() {
                    let [request, reading] =
                        [0, REQUEST].map(|at| answer[at..at + REQUEST].try_into().expect("8 bytes"));
                    if u64::from_le_bytes(request) == number {
                        return i64::from_le_bytes(reading);
                    }
                }
            }
            lost.fetch_add(1, Relaxed);
        }
        panic!("cannot read the clock's server: no answer to {LOST_MAX} requests; is loopback up?");
    }
}
