//! prrt - a sender of payloads and their receiver over PRRT, stamped at every hand-over between layers.
//!
//! Both end by themselves or at SIGTERM, and print one line of JSON with what they counted.

mod comparison;

use std::io;
use std::net::UdpSocket;
use std::os::fd::AsFd;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::{Args, Parser, Subcommand, ValueEnum};
use serde_json::json;
use tickscope_load::{DueTicks, EventRate, Lateness, LoadPlan, SplitMix};
use tickscope_prrt::filter;
use tickscope_prrt::hand_over::{self, Application};
use tickscope_prrt::udp::{Stopwatch, UdpReceiver, UdpSender, Waits};
use tickscope_prrt::{
    Coding, CodingChoice, Constraints, Delivery, KernelCounts, LossModel, LossProcess, MOST_PAYLOAD_BYTES, Receiver,
    ReceiverPlan, Sender, SenderCounts, SenderPlan,
};
use tickscope_stamp::{Channel, Fields, Ordering as ReadOrdering, entropy};

static STOPPED: AtomicBool = AtomicBool::new(false);
const MILLISECOND_NS: f64 = 1e6;
/// Bytes of a payload's id, which it begins with; the rest is drawn from it.
const ID_BYTES: usize = 8;
/// Place of the time in a payload that has it.
const TIME: std::ops::Range<usize> = ID_BYTES..ID_BYTES + 8;
/// Payloads that wait for the application at most.
const QUEUED: usize = 4096;

#[derive(Parser)]
#[command(name = "prrt", about = "Sends payloads over PRRT by a deadline, stamped by tickscope", version)]
struct Options {
    #[command(subcommand)]
    role: Role,
}

#[derive(Subcommand)]
enum Role {
    /// Sends payloads at a constant rate.
    Sender(SenderOptions),
    /// Takes payloads of one sender at a time.
    Receiver(ReceiverOptions),
}

#[derive(Args)]
struct SenderOptions {
    /// Address of the receiver
    address: String,
    /// Its port
    port: u16,
    /// Protocol that carries the payloads
    #[arg(long, value_enum, default_value = "prrt")]
    over: Over,
    /// Payloads a second
    #[arg(long, default_value_t = 1000.0)]
    rate: f64,
    /// Bytes of a payload
    #[arg(long, default_value_t = 1000)]
    size: usize,
    /// Seconds to send for
    #[arg(long, default_value_t = 10.0)]
    seconds: f64,
    /// Payloads of a block
    #[arg(long, default_value_t = 4)]
    k: u8,
    /// Parity packets: with the block, then for each time that more is asked for
    #[arg(long, value_delimiter = ',', default_value = "1,1,2")]
    parity: Vec<u8>,
    /// Milliseconds after which a payload is of no use
    #[arg(long, default_value_t = 50.0)]
    deadline_ms: f64,
    /// Milliseconds that a block waits for its next payload
    #[arg(long, default_value_t = 10.0)]
    flush_ms: f64,
    /// Microseconds between two packets at least
    #[arg(long, default_value_t = 0.0)]
    pace_us: f64,
    /// Share of payloads that may be missing: then k and parity are chosen again and again by what is known of the path
    #[arg(long)]
    residual_loss: Option<f64>,
    /// Megabits a second that the path takes, if something limits it
    #[arg(long, requires = "residual_loss")]
    link_mbit: Option<f64>,
    /// Milliseconds in which the receiver notices a loss
    #[arg(long, default_value_t = 2.0)]
    detection_ms: f64,
    /// Milliseconds between two choices
    #[arg(long, default_value_t = 500.0)]
    adapt_ms: f64,
    /// Milliseconds that a packet is under way to the receiver at most, instead of half a round trip
    #[arg(long)]
    way_ms: Option<f64>,
    /// Put the time of CLOCK_MONOTONIC into each payload, for a receiver of this kernel with --own-clock
    #[arg(long)]
    own_clock: bool,
    /// Stamps of the kernel: of one packet in this many, PRRT's alone; 0: none
    #[arg(long, default_value_t = 0)]
    kernel: u64,
    #[arg(long, value_enum, default_value = "poll")]
    wait: Wait,
}

#[derive(Args)]
struct ReceiverOptions {
    /// Address to listen at
    address: String,
    /// Port to listen at
    port: u16,
    /// Protocol that carries the payloads
    #[arg(long, value_enum, default_value = "prrt")]
    over: Over,
    /// Share of packets that the kernel is to lose on this socket, of any protocol
    #[arg(long)]
    lose: Option<f64>,
    /// Milliseconds between two feedbacks
    #[arg(long, default_value_t = 5.0)]
    feedback_ms: f64,
    /// Milliseconds that a packet may be overtaken before more of its block is asked for
    #[arg(long, default_value_t = 1.0)]
    reordered_ms: f64,
    /// Milliseconds that a packet of the sender is under way at most, instead of half a round trip
    #[arg(long)]
    way_ms: Option<f64>,
    /// Seconds without a packet after which a sender has gone
    #[arg(long, default_value_t = 10.0)]
    vanished_s: f64,
    /// Datagrams to lose: a share, or GOOD-TO-BAD,BAD-TO-GOOD,LOST-IN-GOOD,LOST-IN-BAD
    #[arg(long)]
    drop: Option<String>,
    /// Seed of the losses
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Way of a payload to the application
    #[arg(long, value_enum, default_value = "condvar")]
    hand_over: HandOver,
    /// Print how long payloads took by CLOCK_MONOTONIC, without any point: of a sender of this kernel with --own-clock
    #[arg(long)]
    own_clock: bool,
    /// Stamps of the kernel: of one packet in this many, PRRT's alone; 0: none
    #[arg(long, default_value_t = 0)]
    kernel: u64,
    #[arg(long, value_enum, default_value = "poll")]
    wait: Wait,
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum Over {
    /// PRRT
    Prrt,
    /// UDP alone: what is lost is lost
    Udp,
    /// TCP: all of it, in order
    Tcp,
    /// QUIC, a stream for each payload: all of it, in no order
    Quic,
}

impl Over {
    fn word(self) -> &'static str {
        match self {
            Self::Prrt => "prrt",
            Self::Udp => "udp",
            Self::Tcp => "tcp",
            Self::Quic => "quic",
        }
    }
}

#[derive(Clone, Copy, ValueEnum)]
enum HandOver {
    /// A condition variable, on which its thread sleeps
    Condvar,
    /// A ring, at which its thread looks again and again
    Spin,
    /// A call, on the transport's thread
    Inline,
}

impl HandOver {
    fn word(self) -> &'static str {
        match self {
            Self::Condvar => "condvar",
            Self::Spin => "spin",
            Self::Inline => "inline",
        }
    }
}

#[derive(Clone, Copy, ValueEnum)]
enum Wait {
    /// Asleep until something is due
    Poll,
    /// Looking again at once
    Busy,
}

fn main() -> ExitCode {
    let stop: extern "C" fn(libc::c_int) = stop;
    for signal in [libc::SIGTERM, libc::SIGINT] {
        // SAFETY: the handler stores into an atomic and does nothing else.
        unsafe { libc::signal(signal, stop as libc::sighandler_t) };
    }
    let ended = match Options::parse().role {
        Role::Sender(options) => checked(&options).and_then(|()| match options.over {
            Over::Prrt => send(&options),
            _ => comparison::send(&options),
        }),
        Role::Receiver(options) => kernel_checked(options.over, options.kernel).and_then(|()| match options.over {
            Over::Prrt => receive(&options),
            _ => comparison::receive(&options),
        }),
    };
    match ended {
        Ok(counts) => println!("{counts}"),
        Err(e) => {
            eprintln!("prrt: {e}");
            return ExitCode::from(2);
        }
    }
    ExitCode::SUCCESS
}

extern "C" fn stop(_signal: libc::c_int) {
    STOPPED.store(true, Ordering::Relaxed);
}

fn is_stopped() -> bool {
    STOPPED.load(Ordering::Relaxed)
}

fn waits(wait: Wait) -> Waits {
    match wait {
        Wait::Poll => Waits::Poll,
        Wait::Busy => Waits::Busy,
    }
}

fn refused(expected: &str, found: impl std::fmt::Display) -> io::Error {
    io::Error::other(format!("expected {expected}, found {found}. See prrt --help"))
}

/// A time of an option in nanoseconds; at most a day.
fn ns(name: &str, value: f64, unit_ns: f64) -> io::Result<i64> {
    let ns = value * unit_ns;
    if (0.0..=86_400e9).contains(&ns) { Ok(ns as i64) } else { Err(refused(&format!("{name} of 0 to a day"), value)) }
}

fn socket(address: (&str, u16), connects: bool) -> io::Result<UdpSocket> {
    let failed = |e: io::Error| io::Error::other(format!("cannot use {}:{}: {e}", address.0, address.1));
    let socket = if connects { UdpSocket::bind(("0.0.0.0", 0)) } else { UdpSocket::bind(address) }.map_err(failed)?;
    if connects {
        socket.connect(address).map_err(failed)?;
    }
    socket.set_nonblocking(true)?;
    Ok(socket)
}

// ---- the sender ----

/// The payload of an id: the receiver knows it too.
fn payload(id: u64, bytes: usize) -> Vec<u8> {
    let mut random = SplitMix::new(id);
    let mut payload = id.to_be_bytes().to_vec();
    while payload.len() < bytes {
        payload.extend(random.bits().to_be_bytes());
    }
    payload.truncate(bytes);
    payload
}

/// A payload as it is sent: with the time in it, where that was asked for.
fn sent_payload(id: u64, options: &SenderOptions) -> Vec<u8> {
    let mut payload = payload(id, options.size);
    if options.own_clock {
        payload[TIME].copy_from_slice(&monotonic_ns().to_be_bytes());
    }
    payload
}

/// The clock that all programs of a kernel share.
fn monotonic_ns() -> i64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes into `now`; the clock is always there.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut now) };
    now.tv_sec * 1_000_000_000 + now.tv_nsec
}

fn checked(options: &SenderOptions) -> io::Result<()> {
    let least = if options.own_clock { TIME.end } else { ID_BYTES };
    if !(least..=MOST_PAYLOAD_BYTES).contains(&options.size) {
        return Err(refused(&format!("--size of {least} to {MOST_PAYLOAD_BYTES} bytes"), options.size));
    }
    kernel_checked(options.over, options.kernel)
}

/// Rivals have no stamps of the kernel.
fn kernel_checked(over: Over, kernel: u64) -> io::Result<()> {
    let is_refused = kernel > 0 && over != Over::Prrt;
    if is_refused { Err(refused("--kernel of --over prrt", format!("--over {}", over.word()))) } else { Ok(()) }
}

fn by_kernel(counts: Option<KernelCounts>) -> serde_json::Value {
    let Some(KernelCounts { stamped, missing, discarded }) = counts else { return serde_json::Value::Null };
    json!({"stamped": stamped, "missing": missing, "discarded": discarded})
}

fn way_ns(way_ms: Option<f64>) -> io::Result<Option<i64>> {
    way_ms.map(|way_ms| ns("--way-ms", way_ms, MILLISECOND_NS)).transpose()
}

/// Schedule of the payloads, from now on.
fn due_ticks(options: &SenderOptions, clock: &Stopwatch) -> io::Result<DueTicks> {
    let (start, seconds_ns) = (clock.now(), ns("--seconds", options.seconds, 1e9)?);
    let rate = EventRate::per_second(options.rate).map_err(io::Error::other)?;
    let load = LoadPlan { rate, hertz: 1_000_000_000, start, until: start + seconds_ns, burst: 1 };
    DueTicks::constant(&load).map_err(io::Error::other)
}

fn send(options: &SenderOptions) -> io::Result<serde_json::Value> {
    let plan = SenderPlan {
        session: entropy::number()? as u32,
        coding: Coding::new(options.k, &options.parity).map_err(io::Error::other)?,
        deadline_ns: ns("--deadline-ms", options.deadline_ms, MILLISECOND_NS)?,
        flush_ns: ns("--flush-ms", options.flush_ms, MILLISECOND_NS)?,
        pace_ns: ns("--pace-us", options.pace_us, 1e3)?,
    };
    let deadline_ns = plan.deadline_ns;
    let mut sender = Sender::new(plan).map_err(io::Error::other)?;
    sender.set_way(way_ns(options.way_ms)?);
    let (clock, link) = (Stopwatch::start(), socket((&options.address, options.port), true)?);
    let mut link = UdpSender::new(link, sender, clock, waits(options.wait))?;
    link.stamp_in_kernel(options.kernel)?;
    let start = clock.now();
    let mut due = due_ticks(options, &clock)?;
    let mut lateness = Lateness::new(1_000_000);
    let mut unsubmitted = 0_u64;
    let mut adaptation = Adaptation::of(options)?;
    while let Some(next) = due.peek().filter(|_| !is_stopped()) {
        if clock.now() < next {
            link.run_until(next)?;
            continue;
        }
        due.next();
        adaptation.adapt(&mut link.sender, next - start);
        lateness.record(next, clock.now(), 1);
        unsubmitted += u64::from(link.submit(|id| sent_payload(id, options)).is_err());
    }
    link.sender.flush();
    let until = clock.now() + deadline_ns;
    while clock.now() < until && !is_stopped() {
        link.run_until(until)?;
    }
    let mut counts = sent(&link, &lateness, unsubmitted);
    let of = link.sender.counts();
    let wire_bytes = link.wire_bytes();
    counts["wire_bytes"] = wire_bytes.into();
    counts["overhead"] = (wire_bytes as f64 / (of.submitted * options.size as u64) as f64 - 1.0).into();
    counts["adaptation"] = adaptation.counts(&of);
    counts["kernel"] = by_kernel(link.kernel_counts());
    Ok(counts)
}

/// Choices of the coding, as often as was asked for.
struct Adaptation {
    constraints: Option<Constraints>,
    every_ns: i64,
    next_ns: i64,
    choices: u64,
    infeasible: u64,
    last: Option<Result<CodingChoice, String>>,
    /// Counts of the sender when the first choice was made.
    before: SenderCounts,
}

impl Adaptation {
    fn of(options: &SenderOptions) -> io::Result<Self> {
        let rate_bps = options.link_mbit.map_or(f64::INFINITY, |mbit| mbit * 1e6);
        let detection_ns = ns("--detection-ms", options.detection_ms, MILLISECOND_NS)? as f64;
        let constraints = match options.residual_loss {
            Some(share) if !(0.0..1.0).contains(&share) => return Err(refused("--residual-loss of 0 to 1", share)),
            _ if rate_bps.is_nan() || rate_bps <= 0.0 => return Err(refused("--link-mbit above 0", rate_bps / 1e6)),
            share => share.map(|residual_loss| Constraints { residual_loss, rate_bps, detection_ns }),
        };
        let every_ns = ns("--adapt-ms", options.adapt_ms, MILLISECOND_NS)?.max(1);
        Ok(Self {
            constraints,
            every_ns,
            next_ns: every_ns,
            choices: 0,
            infeasible: 0,
            last: None,
            before: SenderCounts::default(),
        })
    }

    fn adapt(&mut self, sender: &mut Sender, since_ns: i64) {
        let Some(constraints) = self.constraints.filter(|_| since_ns >= self.next_ns) else { return };
        self.next_ns = since_ns + self.every_ns;
        let Some(choice) = sender.adapt(&constraints) else { return };
        if self.choices == 0 {
            self.before = sender.counts();
        }
        self.choices += 1;
        self.infeasible += u64::from(choice.is_err());
        self.last = Some(choice.map_err(|e| e.to_string()));
    }

    fn counts(&self, of: &SenderCounts) -> serde_json::Value {
        let missing_share = missing_share(of, &self.before);
        let mut counts = match &self.last {
            None => return serde_json::Value::Null,
            Some(Err(constraint)) => json!({"violated": constraint}),
            Some(Ok(choice)) => json!({
                "k": choice.coding.k(), "schedule": choice.coding.schedule(), "residual_loss": choice.residual_loss,
                "redundancy": choice.redundancy,
            }),
        };
        counts["choices"] = self.choices.into();
        counts["infeasible"] = self.infeasible.into();
        counts["missing_share"] = missing_share.into();
        counts
    }
}

/// The share of payloads that were missing since then, of blocks that are over, as feedback told.
fn missing_share(of: &SenderCounts, since: &SenderCounts) -> Option<f64> {
    let settled = of.settled - since.settled;
    (settled > 0).then(|| (of.missing - since.missing) as f64 / settled as f64)
}

fn sent(link: &UdpSender, lateness: &Lateness, unsubmitted: u64) -> serde_json::Value {
    let counts = link.sender.counts();
    let faults: Vec<String> = lateness.faults().iter().map(ToString::to_string).collect();
    json!({
        "role": "sender", "over": "prrt", "submitted": counts.submitted, "unsubmitted": unsubmitted,
        "sources": counts.sources,
        "parity": counts.parity, "bytes": counts.bytes, "expired": counts.expired, "blocks": counts.blocks,
        "cut_short": counts.cut_short, "feedback": counts.feedback, "asked": counts.asked,
        "refused_asks": counts.refused_asks, "malformed": counts.malformed, "strangers": counts.strangers,
        "stale": counts.stale, "contradicting": counts.contradicting,
        "restarts": counts.restarts, "settled": counts.settled, "missing": counts.missing,
        "missing_share": missing_share(&counts, &SenderCounts::default()), "refused_sends": link.refused_sends,
        "path_errors": link.path_errors, "rtt_min_ns": link.sender.rtt_ns_min(),
        "late_sends_p50_ns": lateness.quantile_ticks(500),
        "schedule_faults": faults,
    })
}

// ---- the receiver ----

#[derive(Default)]
struct Taken {
    delivered: u64,
    recovered: u64,
    corrupt: u64,
    /// Payloads with a time in them that nobody asked for here, or without one that was.
    one_sided_clock: u64,
    /// Delays by the application's own clock, where that was asked for.
    delays_ns: Vec<i64>,
}

impl Taken {
    fn delay_ns(&self, percent: usize) -> Option<i64> {
        let mut sorted = self.delays_ns.clone();
        sorted.sort_unstable();
        sorted.get((sorted.len() * percent).div_ceil(100).saturating_sub(1)).copied()
    }
}

/// The application: looks at what it gets.
fn application(options: &ReceiverOptions) -> io::Result<Application<Taken>> {
    let (own_clock, over) = (options.own_clock, options.over);
    let hand_over = match options.hand_over {
        HandOver::Condvar => hand_over::HandOver::Condvar,
        HandOver::Spin => hand_over::HandOver::Spin,
        HandOver::Inline => hand_over::HandOver::Inline,
    };
    Application::start(hand_over, QUEUED, move || {
        let deliver = Channel::open("deliver", ReadOrdering::After, Fields::Slim).map_err(io::Error::other)?;
        Ok(move |delivery: Delivery, taken: &mut Taken| {
            deliver.stamp(delivery.id as i64);
            let came_ns = own_clock.then(monotonic_ns);
            taken.delivered += 1;
            taken.recovered += u64::from(delivery.recovered);
            let mut bytes = delivery.payload;
            // Of TCP the id is where the payload ends in the stream: its number stands in it alone.
            let number = bytes.first_chunk().filter(|_| over == Over::Tcp).map(|number| u64::from_be_bytes(*number));
            let expected = payload(number.unwrap_or(delivery.id), bytes.len());
            let time = bytes.get(TIME).filter(|time| Some(*time) != expected.get(TIME));
            let sent_ns = time.and_then(|time| time.first_chunk()).map(|time| i64::from_be_bytes(*time));
            match (sent_ns, came_ns) {
                (Some(sent_ns), Some(came_ns)) => taken.delays_ns.push(came_ns - sent_ns),
                (None, None) => {}
                _ => taken.one_sided_clock += 1,
            }
            if sent_ns.is_some() {
                bytes[TIME].copy_from_slice(&expected[TIME]);
            }
            taken.corrupt += u64::from(bytes != expected);
        })
    })
}

fn receive(options: &ReceiverOptions) -> io::Result<serde_json::Value> {
    let plan = ReceiverPlan {
        feedback_ns: ns("--feedback-ms", options.feedback_ms, MILLISECOND_NS)?,
        reordered_ns: ns("--reordered-ms", options.reordered_ms, MILLISECOND_NS)?,
        vanished_ns: ns("--vanished-s", options.vanished_s, 1e9)?,
    };
    let model = options.drop.as_deref().map(LossModel::parse).transpose().map_err(io::Error::other)?;
    let dropper = model.map(|model| LossProcess::new(model, options.seed));
    let socket = socket((&options.address, options.port), false)?;
    options.lose.map_or(Ok(()), |share| filter::lose(socket.as_fd(), share))?;
    let at = (Stopwatch::start(), waits(options.wait));
    let mut receiver = Receiver::new(plan);
    receiver.set_way(way_ns(options.way_ms)?);
    let mut link = UdpReceiver::new(socket, receiver, at, dropper, application(options)?)?;
    link.stamp_in_kernel(options.kernel)?;
    while !is_stopped() {
        link.run()?;
    }
    let (counts, dropped, untaken) = (link.receiver.counts(), link.dropped, link.untaken);
    let path_errors = link.path_errors;
    let kernel = by_kernel(link.kernel_counts());
    let taken = link.application.end()?;
    Ok(json!({
        "role": "receiver", "over": "prrt", "hand_over": options.hand_over.word(), "delivered": taken.delivered,
        "delivered_recovered": taken.recovered, "delay_p50_ns": taken.delay_ns(50), "delay_p99_ns": taken.delay_ns(99),
        "corrupt": taken.corrupt, "one_sided_clock": taken.one_sided_clock, "dropped": dropped,
        "untaken": untaken, "sources": counts.sources,
        "parity": counts.parity, "recovered": counts.recovered, "late": counts.late, "undecided": counts.undecided,
        "feedback": counts.feedback, "asked": counts.asked, "hopeless": counts.hopeless, "given_up": counts.given_up,
        "evicted": counts.evicted,
        "malformed": counts.malformed, "strangers": counts.strangers, "replayed": counts.replayed,
        "stale": counts.stale, "leaps": counts.leaps, "contradicting": counts.contradicting,
        "superseded": counts.superseded, "too_late": counts.too_late, "undecodable": counts.undecodable,
        "vanished": counts.vanished,
        "path_errors": path_errors, "kernel": kernel,
    }))
}
