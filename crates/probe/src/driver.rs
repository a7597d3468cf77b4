//! When to send, and where each stamp is read: the part of the exchange that decides whether a bracket is true.
//!
//! Over an [`Endpoint`], which is one node's network and counter. Real ones are sockets ([`crate::udp`]); simulated
//! ones advance a simulated clock during `send` and `receive`, so that a stamp read at the wrong place shows as a false
//! bracket.
//!
//! A node's process answers and asks over one endpoint, one datagram after the other ([`Prober`]).
//!
//! Guarantees: t1 and t3 are read `before` and right ahead of the send, t2 and t4 `after` and right behind the receive;
//! each request has a due time of its own, which a late one does not shift; what the network reports as unreachable is
//! counted and does not end the run. Deliberately absent: estimating anything from the exchanges.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering as Memory};
use std::time::Duration;

use tickscope_tick::{Ordering, Reference, Tick};

use crate::datagram::{Datagram, LENGTH, Message, NodeId, Nonce};
use crate::exchange::{self, Client, ClientCounts, Exchange, Parties, Server, ServerCounts};
use crate::key::PairKey;

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

    /// The number of the next request, which no other request of this node has; asked for right before it is sent.
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

/// Requests that are made good at once after a delay; more are left out.
const MOST_OVERDUE: u32 = 100;

/// One byte more than a datagram, so that a longer one shows.
type Buffer = [u8; LENGTH + 1];

/// Answers requests until `stop`.
pub fn serve(endpoint: &mut impl Endpoint, server: Server, stop: &AtomicBool) -> io::Result<ServerReport> {
    let mut prober = Prober::new(endpoint, server, |_, _: &Exchange| {});
    // Relaxed: the flag guards no other memory.
    while !stop.load(Memory::Relaxed) {
        prober.turn(POLL)?;
    }
    Ok(prober.finish(Duration::ZERO)?.server)
}

/// Takes exchanges with `peer` by the schedule until `stop`: a burst, the stated rate, a burst. Each exchange that
/// became evidence is handed to `on_exchange` when it arrives.
pub fn probe<E: Endpoint>(
    endpoint: &mut E,
    peer: E::Address,
    asking: Asking,
    stop: &AtomicBool,
    mut on_exchange: impl FnMut(&Exchange),
) -> io::Result<ClientReport> {
    let Asking { parties, key, memory, schedule } = asking;
    let nobody = Server::new(parties.run, parties.client, []);
    let mut prober = Prober::new(endpoint, nobody, |_, exchange: &Exchange| on_exchange(exchange));
    prober.add(parties, key, memory, peer);
    prober.burst(parties.server, &schedule)?;
    prober.pace(schedule.period);
    while !stop.load(Memory::Relaxed) {
        prober.turn(POLL)?;
    }
    prober.burst(parties.server, &schedule)?;
    let report = prober.finish(schedule.reply_wait)?;
    let (_, mut asked) = report.asked.into_iter().next().expect("one peer is asked");
    asked.counts.refusals.add(&report.server.counts.refusals);
    Ok(ClientReport { network: report.server.network, ..asked })
}

/// Settings of a client: the run and its two ends, their key, the window of outstanding requests, the schedule.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Asking {
    /// The run and its two nodes.
    pub parties: Parties,
    /// Their key.
    pub key: PairKey,
    /// Its window of outstanding requests.
    pub memory: exchange::Memory,
    /// When it sends.
    pub schedule: Schedule,
}

/// One node's part in all its exchanges: it answers, and asks the peers that it was told to ask.
pub struct Prober<'a, E: Endpoint, F> {
    endpoint: &'a mut E,
    server: Server,
    answered: u64,
    network: NetworkCounts,
    asked: Vec<Asked<E::Address>>,
    on_exchange: F,
}

/// A peer that is asked.
struct Asked<A> {
    node: NodeId,
    address: A,
    client: Client,
    /// Between two requests, as wished; `None`: none is due.
    period: Option<Duration>,
    due: Duration,
    late_sends: u64,
    round_trip_ticks_min: Option<i64>,
}

/// Outcome of a burst.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct BurstReport {
    /// Requests sent.
    pub asked: u64,
    /// Replies that became evidence.
    pub answered: u64,
}

/// Counts of all that a node did.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ProberReport {
    /// What it answered, and the errors of its network.
    pub server: ServerReport,
    /// What became of its own requests, by the node asked; errors of the network stand above.
    pub asked: Vec<(NodeId, ClientReport)>,
}

impl<'a, E: Endpoint, F: FnMut(NodeId, &Exchange)> Prober<'a, E, F> {
    /// A node that answers as `server` says and asks nobody yet. Each exchange of its own that became evidence is
    /// handed to `on_exchange` when it arrives, with the node that was asked.
    pub fn new(endpoint: &'a mut E, server: Server, on_exchange: F) -> Self {
        let network = NetworkCounts::default();
        Self { endpoint, server, answered: 0, network, asked: Vec::new(), on_exchange }
    }

    /// Makes the server of `parties` a peer that can be asked.
    pub fn add(&mut self, parties: Parties, key: PairKey, memory: exchange::Memory, address: E::Address) {
        let (client, due) = (Client::new(parties, key, memory), self.endpoint.elapsed());
        let (late_sends, round_trip_ticks_min) = (0, None);
        let node = parties.server;
        self.asked.push(Asked { node, address, client, period: None, due, late_sends, round_trip_ticks_min });
    }

    /// Asks each peer once every `period` from now on, or not at all; a peer that affords less is asked less often. The
    /// requests to several peers are spread over the period.
    pub fn pace(&mut self, period: Option<Duration>) {
        let (now, peers) = (self.endpoint.elapsed(), self.asked.len() as u32);
        for (number, asked) in (0..).zip(&mut self.asked) {
            let begins = asked.period.is_none();
            asked.period = period;
            match period {
                Some(period) if begins => asked.due = now + period * number / peers,
                Some(period) => asked.due = asked.due.min(now + period),
                None => {}
            }
        }
    }

    /// How many exchanges a second it affords each peer from now on; 0: any.
    pub fn afford(&mut self, hertz: u16) {
        self.server.set_pace(hertz);
    }

    /// Requests answered, and replies of its own that became evidence.
    pub fn exchanges(&self) -> u64 {
        self.answered + self.asked.iter().map(|asked| asked.client.counts().answered).sum::<u64>()
    }

    /// Exchanges with one peer back to back: each waits for its reply, or for as long as a reply is waited for.
    /// Meanwhile others are answered.
    pub fn burst(&mut self, node: NodeId, schedule: &Schedule) -> io::Result<BurstReport> {
        let Some(peer) = self.asked.iter().position(|asked| asked.node == node) else {
            return Ok(BurstReport::default());
        };
        let before = self.asked[peer].client.counts().clone();
        let end = self.endpoint.elapsed() + schedule.burst_limit;
        for _ in 0..schedule.burst {
            let now = self.endpoint.elapsed();
            if now >= end {
                break;
            }
            self.ask(peer)?;
            self.await_replies(peer, end.min(now + schedule.reply_wait))?;
        }
        let after = self.asked[peer].client.counts();
        Ok(BurstReport { asked: after.asked - before.asked, answered: after.answered - before.answered })
    }

    /// Sends what is due, or takes one datagram if one comes before something is due or `at_most` is over. Overdue
    /// requests are sent at once, and the next is due when it always was.
    pub fn turn(&mut self, at_most: Duration) -> io::Result<()> {
        let now = self.endpoint.elapsed();
        let waiting = self.asked.iter().enumerate().filter(|(_, asked)| asked.period.is_some());
        let Some((peer, due)) = waiting.map(|(peer, asked)| (peer, asked.due)).min_by_key(|&(_, due)| due) else {
            return self.receive(now + at_most);
        };
        if now < due {
            return self.receive(due.min(now + at_most));
        }
        let period = self.asked[peer].spacing();
        self.asked[peer].late_sends += u64::from(now > due + period);
        self.ask(peer)?;
        let due = &mut self.asked[peer].due;
        *due += period;
        if now > *due + period * MOST_OVERDUE {
            *due = now; // a process that stood still for so long makes nothing good by a flood
        }
        if *due <= now {
            // Behind schedule, replies must not wait until it has been caught up with: their t4 would grow.
            self.receive(now)?;
        }
        Ok(())
    }

    /// Waits for replies to what is outstanding, and counts the rest as lost.
    pub fn finish(mut self, reply_wait: Duration) -> io::Result<ProberReport> {
        let deadline = self.endpoint.elapsed() + reply_wait;
        for peer in 0..self.asked.len() {
            self.await_replies(peer, deadline)?;
        }
        let Self { server, answered, network, asked, .. } = self;
        let asked = asked.into_iter().map(Asked::report).collect();
        Ok(ProberReport { server: ServerReport { counts: server.counts().clone(), answered, network }, asked })
    }

    /// Sends one request to that peer now, and returns t1; `None`: it is nobody's, or could not be sent. Its reply is
    /// taken in a later [`Prober::turn`].
    pub fn request(&mut self, node: NodeId) -> io::Result<Option<Tick<Reference>>> {
        match self.asked.iter().position(|asked| asked.node == node) {
            Some(peer) => self.ask(peer),
            None => Ok(None),
        }
    }

    fn ask(&mut self, peer: usize) -> io::Result<Option<Tick<Reference>>> {
        let nonce = self.endpoint.nonce()?;
        let Asked { client, address, .. } = &mut self.asked[peer];
        let request = client.request(nonce).map_err(io::Error::other)?;
        let address = address.clone();
        let t1 = self.endpoint.stamp(Ordering::Before);
        let sent = self.endpoint.send(&request.bytes, address);
        match sent {
            Ok(()) => {
                client.sent(nonce, Tick::new(t1));
                Ok(Some(Tick::new(t1)))
            }
            Err(error) => {
                client.withdraw(nonce);
                self.network.unsent(error);
                Ok(None)
            }
        }
    }

    /// Receives until nothing is outstanding with that peer, or the deadline.
    fn await_replies(&mut self, peer: usize, deadline: Duration) -> io::Result<()> {
        while self.asked[peer].client.outstanding() > 0 && self.endpoint.elapsed() < deadline {
            self.receive(deadline)?;
        }
        Ok(())
    }

    /// Takes one datagram, if one comes by the deadline: t2 of a request, t4 of a reply.
    fn receive(&mut self, deadline: Duration) -> io::Result<()> {
        let mut buffer: Buffer = [0; LENGTH + 1];
        let received = self.endpoint.receive(&mut buffer, deadline);
        let seen = self.endpoint.stamp(Ordering::After);
        match received {
            Ok(Some(Received { length, from })) => self.take(&buffer[..length], from, seen),
            Ok(None) => {}
            Err(error) => self.network.unreachable(error)?,
        }
        Ok(())
    }

    /// Refusals are counted by who would have taken it: the client of a peer's reply, else the server.
    fn take(&mut self, bytes: &[u8], from: E::Address, seen: i64) {
        let peer = match (Datagram::decode(bytes), &self.asked[..]) {
            (Ok(Datagram { message: Message::Reply { .. }, from, .. }), asked) => {
                asked.iter().position(|asked| asked.node == from)
            }
            _ => None,
        };
        if let Some(peer) = peer {
            return self.take_reply(peer, bytes, seen);
        }
        if let Ok(pending) = self.server.request(bytes, Tick::new(seen)) {
            let t3 = self.endpoint.stamp(Ordering::Before);
            match self.endpoint.send(&pending.at(Tick::new(t3)), from) {
                Ok(()) => self.answered += 1,
                Err(error) => self.network.unsent(error),
            }
            self.endpoint.admitted();
        }
    }

    fn take_reply(&mut self, peer: usize, bytes: &[u8], seen: i64) {
        let Asked { node, client, round_trip_ticks_min: min, .. } = &mut self.asked[peer];
        if let Ok(exchange) = client.reply(bytes, Tick::new(seen)) {
            self.endpoint.admitted();
            let ticks = exchange.round_trip_ticks();
            *min = Some(min.map_or(ticks, |least| least.min(ticks)));
            (self.on_exchange)(*node, &exchange);
        }
    }
}

impl<A> Asked<A> {
    /// Between two requests: as wished, or as the peer affords.
    fn spacing(&self) -> Duration {
        let afforded = match self.client.pace() {
            0 => Duration::ZERO,
            hertz => Duration::from_secs(1) / u32::from(hertz),
        };
        self.period.unwrap_or_default().max(afforded)
    }

    fn report(mut self) -> (NodeId, ClientReport) {
        self.client.give_up();
        let (counts, network) = (self.client.counts().clone(), NetworkCounts::default());
        let Self { late_sends, round_trip_ticks_min, .. } = self;
        (self.node, ClientReport { counts, late_sends, network, round_trip_ticks_min })
    }
}
