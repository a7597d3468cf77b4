//! When to send, and where each stamp is read: the part of the exchange that decides whether a bracket is true.
//!
//! Over an [`Endpoint`], which is one node's network and counter. Real ones are sockets ([`crate::udp`]); simulated
//! ones advance a simulated clock during `send` and `receive`, so that a stamp read at the wrong place shows as a false
//! bracket.
//!
//! Guarantees: t1 and t3 are read `before` and right ahead of the send, t2 and t4 `after` and right behind the receive;
//! each request has a due time of its own, which a late one does not shift; what the network reports as unreachable is
//! counted and does not end the run. Deliberately absent: estimating anything from the exchanges.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering as Memory};
use std::time::Duration;

use tickscope_tick::{Ordering, Tick};

use crate::datagram::{LENGTH, NodeId, Nonce, RunId};
use crate::exchange::{self, Client, ClientCounts, Exchange, Parties, Server, ServerCounts};

/// The longest that a driver waits without looking at its stop flag.
pub const POLL: Duration = Duration::from_millis(50);

/// One node's network and counter, as a driver uses them.
pub trait Endpoint {
    /// Whom a datagram goes to or comes from, as the transport names it.
    type Address: Clone;

    /// Reads the node's counter.
    fn stamp(&mut self, ordering: Ordering) -> i64;

    /// Sends one datagram.
    fn send(&mut self, bytes: &[u8], to: Self::Address) -> io::Result<()>;

    /// Waits for one datagram until `deadline`, a value of [`Endpoint::elapsed`]; `None`: none came. A deadline that is
    /// past asks for what has already come. A longer datagram than the buffer may be cut off.
    fn receive(&mut self, buffer: &mut [u8], deadline: Duration) -> io::Result<Option<Received<Self::Address>>>;

    /// The datagram that was received last has become part of an exchange. Not called for one that was refused, nor
    /// before its reply was sent.
    fn admitted(&mut self) {}

    /// Time since the endpoint was made; never steps back. For schedules only, never evidence.
    fn elapsed(&self) -> Duration;

    /// A number that nobody can predict.
    fn nonce(&mut self) -> io::Result<Nonce>;
}

/// A datagram that arrived.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Received<A> {
    /// Bytes of the buffer that were filled.
    pub length: usize,
    /// Sender.
    pub from: A,
}

/// When a client asks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Schedule {
    /// Exchanges back to back before the run, and as many after it.
    pub burst: u32,
    /// Between two requests during the run; `None`: bursts only.
    pub period: Option<Duration>,
    /// Time that an exchange of a burst waits for its reply before the next, and the last ones of a run for theirs.
    pub reply_wait: Duration,
    /// Time that a burst may take in all; a peer that does not answer delays the end of a run by that much.
    pub burst_limit: Duration,
}

impl Default for Schedule {
    /// 200 exchanges before and after, 100 a second between.
    fn default() -> Self {
        Self {
            burst: 200,
            period: Some(Duration::from_millis(10)),
            reply_wait: Duration::from_millis(20),
            burst_limit: Duration::from_millis(500),
        }
    }
}

/// Counts of a client's driver.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ClientReport {
    /// Outcomes of the requests.
    pub counts: ClientCounts,
    /// Requests sent more than one period after they were due.
    pub late_sends: u64,
    /// Errors that the network reported.
    pub network: NetworkCounts,
    /// The shortest round trip, in ticks of the client, the server's turnaround included.
    pub round_trip_ticks_min: Option<i64>,
}

/// Counts of a server's driver.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ServerReport {
    /// Outcomes of the requests.
    pub counts: ServerCounts,
    /// Replies handed to the network.
    pub answered: u64,
    /// Errors that the network reported.
    pub network: NetworkCounts,
}

/// Errors of the network that did not end the run.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct NetworkCounts {
    /// Errors of a receive: an earlier datagram could not be delivered.
    pub unreachable: u64,
    /// Datagrams that could not be sent.
    pub unsent: u64,
    /// The last of either, in the system's words.
    pub last: Option<String>,
}

impl NetworkCounts {
    fn unsent(&mut self, error: io::Error) {
        self.unsent += 1;
        self.last = Some(error.to_string());
    }

    /// Counts an error of a receive that concerns some earlier datagram; any other ends the run.
    fn unreachable(&mut self, error: io::Error) -> io::Result<()> {
        use io::ErrorKind::{ConnectionRefused, ConnectionReset, HostUnreachable, NetworkUnreachable};
        if !matches!(error.kind(), ConnectionRefused | ConnectionReset | HostUnreachable | NetworkUnreachable) {
            return Err(error);
        }
        self.unreachable += 1;
        self.last = Some(error.to_string());
        Ok(())
    }
}

/// One byte more than a datagram, so that a longer one shows.
type Buffer = [u8; LENGTH + 1];

/// Answers requests until `stop`.
pub fn serve(endpoint: &mut impl Endpoint, run: RunId, node: NodeId, stop: &AtomicBool) -> io::Result<ServerReport> {
    let mut server = Server::new(run, node);
    let mut report = ServerReport::default();
    let mut buffer: Buffer = [0; LENGTH + 1];
    // Relaxed: the flag guards no other memory.
    while !stop.load(Memory::Relaxed) {
        let deadline = endpoint.elapsed() + POLL;
        let received = endpoint.receive(&mut buffer, deadline);
        let t2 = endpoint.stamp(Ordering::After);
        match received {
            Ok(Some(received)) => {
                if let Ok(pending) = server.request(&buffer[..received.length], Tick::new(t2)) {
                    let t3 = endpoint.stamp(Ordering::Before);
                    match endpoint.send(&pending.at(Tick::new(t3)), received.from) {
                        Ok(()) => report.answered += 1,
                        Err(error) => report.network.unsent(error),
                    }
                    endpoint.admitted();
                }
            }
            Ok(None) => {}
            Err(error) => report.network.unreachable(error)?,
        }
    }
    report.counts = server.counts().clone();
    Ok(report)
}

/// Takes exchanges with `peer` by the schedule until `stop`: a burst, the stated rate, a burst. Each exchange that
/// became evidence is handed to `on_exchange` when it arrives.
pub fn probe<E: Endpoint>(
    endpoint: &mut E,
    peer: E::Address,
    asking: Asking,
    stop: &AtomicBool,
    on_exchange: impl FnMut(&Exchange),
) -> io::Result<ClientReport> {
    let client = Client::new(asking.parties, asking.memory);
    let mut probe = Probe { endpoint, peer, client, report: ClientReport::default(), on_exchange };
    probe.burst(&asking.schedule)?;
    probe.steady(asking.schedule.period, stop)?;
    probe.burst(&asking.schedule)?;
    probe.finish(asking.schedule.reply_wait)
}

/// Settings of a client: the run and its two ends, the window of outstanding requests, the schedule.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Asking {
    /// The run and its two nodes.
    pub parties: Parties,
    /// Its window of outstanding requests.
    pub memory: exchange::Memory,
    /// When it sends.
    pub schedule: Schedule,
}

struct Probe<'a, E: Endpoint, F> {
    endpoint: &'a mut E,
    peer: E::Address,
    client: Client,
    report: ClientReport,
    on_exchange: F,
}

impl<E: Endpoint, F: FnMut(&Exchange)> Probe<'_, E, F> {
    /// Exchanges back to back: each waits for its reply, or for as long as a reply is waited for.
    fn burst(&mut self, schedule: &Schedule) -> io::Result<()> {
        let end = self.endpoint.elapsed() + schedule.burst_limit;
        for _ in 0..schedule.burst {
            let now = self.endpoint.elapsed();
            if now >= end {
                break;
            }
            self.ask()?;
            self.await_replies(end.min(now + schedule.reply_wait))?;
        }
        Ok(())
    }

    /// Requests at their due times until `stop`. Overdue ones are sent at once, and the next is due when it always was.
    fn steady(&mut self, period: Option<Duration>, stop: &AtomicBool) -> io::Result<()> {
        let mut due = self.endpoint.elapsed();
        while !stop.load(Memory::Relaxed) {
            let now = self.endpoint.elapsed();
            let Some(period) = period else {
                self.receive(now + POLL)?;
                continue;
            };
            if now < due {
                self.receive(due.min(now + POLL))?;
                continue;
            }
            self.report.late_sends += u64::from(now > due + period);
            self.ask()?;
            due += period;
            if due <= now {
                // Behind schedule, replies must not wait until it has been caught up with: their t4 would grow.
                self.receive(now)?;
            }
        }
        Ok(())
    }

    fn finish(mut self, reply_wait: Duration) -> io::Result<ClientReport> {
        let deadline = self.endpoint.elapsed() + reply_wait;
        self.await_replies(deadline)?;
        self.client.give_up();
        self.report.counts = self.client.counts().clone();
        Ok(self.report)
    }

    fn ask(&mut self) -> io::Result<()> {
        let nonce = self.endpoint.nonce()?;
        let request = self.client.request(nonce).map_err(io::Error::other)?;
        let peer = self.peer.clone();
        let t1 = self.endpoint.stamp(Ordering::Before);
        let sent = self.endpoint.send(&request.bytes, peer);
        match sent {
            Ok(()) => self.client.sent(nonce, Tick::new(t1)),
            Err(error) => {
                self.client.withdraw(nonce);
                self.report.network.unsent(error);
            }
        }
        Ok(())
    }

    /// Receives until nothing is outstanding, or the deadline.
    fn await_replies(&mut self, deadline: Duration) -> io::Result<()> {
        while self.client.outstanding() > 0 && self.endpoint.elapsed() < deadline {
            self.receive(deadline)?;
        }
        Ok(())
    }

    /// Takes one datagram, if one comes by the deadline.
    fn receive(&mut self, deadline: Duration) -> io::Result<()> {
        let mut buffer: Buffer = [0; LENGTH + 1];
        let received = self.endpoint.receive(&mut buffer, deadline);
        let t4 = self.endpoint.stamp(Ordering::After);
        match received {
            // A refusal is counted by the client.
            Ok(Some(received)) => {
                if let Ok(exchange) = self.client.reply(&buffer[..received.length], Tick::new(t4)) {
                    self.endpoint.admitted();
                    self.keep(&exchange);
                }
            }
            Ok(None) => {}
            Err(error) => self.report.network.unreachable(error)?,
        }
        Ok(())
    }

    fn keep(&mut self, exchange: &Exchange) {
        let ticks = exchange.round_trip_ticks();
        let min = &mut self.report.round_trip_ticks_min;
        *min = Some(min.map_or(ticks, |least| least.min(ticks)));
        (self.on_exchange)(exchange);
    }
}
