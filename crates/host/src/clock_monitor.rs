//! The clock monitor of a host: compares successive snapshots of its clocks and reports each change once.
//!
//! A sudden change - a step, a suspend, another discipline, a clock that ran backward - happened between the two
//! snapshots that it tells apart. A set that only the kernel tells of may have come before the earlier of them, by as
//! long as the kernel takes to tell: its span begins at the last snapshot that lies further back than that. A slew
//! takes time, and a slow or short one takes a while to be seen: MONOTONIC is held against MONOTONIC_RAW over 1, 2, 4,
//! ... snapshots back, and what it gained must be what the kernel's own account allows. A slew's span reaches as far to
//! both sides of what was seen as one of its rate could have gone unseen.
//!
//! Assumes: the kernel tells of a set within [`ClockMonitor::NOTICE_NS_MAX`]; a slew keeps its rate; snapshots
//! come often against how long it lasts. Guarantees: no event while the clocks do what the kernel says; the span of an
//! event contains the true time of what it tells. Deliberately absent: slews whose whole gain is less than twice what
//! two snapshots leave open; an account that was seen unchanged is believed about those. A suspend that falls among the
//! four readings of one snapshot: it is told, and with it two steps that undo each other.

use std::collections::VecDeque;
use std::fmt;

use crate::host_clocks::{
    Change, ClockEvent, Discipline, Snapshot, SnapshotWidths, Tolerance, open_ns, slewed, stepped, sudden,
};
use tickscope_tick::{Frequency, counted};

/// Something that happened to a host's clocks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Happened {
    /// Between two snapshots.
    Sudden(Box<ClockEvent>),
    /// Over a while.
    Slewed(Slewing),
}

/// MONOTONIC, and REALTIME with it, ran unlike what the kernel's account allows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Slewing {
    /// The counter when it had not begun.
    pub from: i64,
    /// The counter when it was over; `None`: it goes on.
    pub until: Option<i64>,
    /// The rate furthest from the account that was seen, parts per 10^9 beyond it; positive: MONOTONIC ran faster.
    pub rate_ppb: i64,
    /// The account allowed rates no slower and no faster than these, parts per 10^9 against MONOTONIC_RAW.
    pub allowed_ppb: (i64, i64),
}

/// A bound for the rate of REALTIME against the counter, and where it comes from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SlewBound {
    /// Parts per million.
    pub ppm: u32,
    /// In words, with values.
    pub origin: String,
}

/// All that was seen of a host's clocks so far.
#[derive(Clone, Debug)]
pub struct ClockMonitor {
    tolerance: Tolerance,
    /// The first since the clocks last ran backward.
    first: Option<Snapshot>,
    recent: VecDeque<BoundedSnapshot>,
    /// Number of recent snapshots that lie before the last one that showed a slew or its end: they are not compared
    /// again.
    compared: usize,
    /// MONOTONIC_RAW before which a rate set earlier may still be in force.
    settled_ns: i64,
    slewing: Option<Seen>,
    happened: Vec<Happened>,
    account: Account,
    counter: CounterRates,
}

/// A snapshot, and what the account allows MONOTONIC to have gained since the first, in 10^-9 ns.
#[derive(Clone, Copy, Debug)]
struct BoundedSnapshot {
    snapshot: Snapshot,
    least: i128,
    most: i128,
}

/// A slew that goes on: where it stands in what happened, and how well it was seen.
#[derive(Clone, Debug)]
struct Seen {
    position: usize,
    excess: Excess,
    /// Up to the earlier snapshot of the pair that showed it first.
    before: Vec<Snapshot>,
    /// The later snapshot of the pair that showed it last.
    last: Snapshot,
}

/// How far a pair of snapshots is beyond what the account allows and the readings leave open.
#[derive(Clone, Copy, Debug)]
struct Excess {
    /// 10^-9 ns, of this sign; never 0.
    beyond: i128,
    /// Between the snapshots, nanoseconds of MONOTONIC_RAW.
    raw_ns: i64,
    /// How far the account's bounds are apart over the pair, nanoseconds.
    allowance_ns: i64,
    /// Parts per 10^9 off the middle of what the account allows.
    rate_ppb: i64,
}

/// The kernel's account of its discipline, over all snapshots.
#[derive(Clone, Debug, Default)]
struct Account {
    first: Option<Discipline>,
    last: Option<Discipline>,
    looks: u64,
    refused: u64,
    changed: u64,
    most_ppb: i64,
}

/// The counter's rate against MONOTONIC_RAW, over one second after another.
#[derive(Clone, Copy, Debug)]
struct CounterRates {
    begun: Option<Snapshot>,
    /// In each second it was no less than some lower bound, no more than some upper one; parts per 10^9 of nominal.
    highest_lower: i64,
    lowest_upper: i64,
}

impl ClockMonitor {
    /// Tolerance for the rate of a clock that nobody disciplines anew: its rounding in the kernel, with room.
    pub const STEADY_PPB: i64 = 1_000;
    /// Largest correction by the kernel itself (`MAXFREQ`) and by `adjtime` (`MAX_TICKADJ`).
    pub const UNSTEADY_PPB: i64 = 500_000;
    /// How long the kernel may take from setting the clock to telling of it.
    pub const NOTICE_NS_MAX: i64 = 10_000_000;
    /// A rate is in force until the kernel's next second, which begins up to a tick late.
    const SETTLING_NS: i64 = 1_100_000_000;
    /// Snapshots kept, so that a slow slew is seen over up to this many.
    const SNAPSHOTS_MAX: usize = 128;

    /// Nothing seen yet, of a counter and clocks that move by single ticks.
    pub fn new(frequency: Frequency) -> Self {
        Self::with_widths(frequency, SnapshotWidths::default())
    }

    /// Nothing seen yet, of a counter and clocks whose readings are that wide.
    pub fn with_widths(frequency: Frequency, widths: SnapshotWidths) -> Self {
        Self {
            tolerance: Tolerance { widths, ..Tolerance::of(frequency) },
            first: None,
            recent: VecDeque::new(),
            compared: 0,
            settled_ns: i64::MIN,
            slewing: None,
            happened: Vec::new(),
            account: Account::default(),
            counter: CounterRates { begun: None, highest_lower: i64::MIN, lowest_upper: i64::MAX },
        }
    }

    /// Events so far, in the order in which they were seen.
    pub fn happened(&self) -> &[Happened] {
        &self.happened
    }

    /// The discipline at the first look and the last.
    pub fn disciplines(&self) -> (Option<Discipline>, Option<Discipline>) {
        (self.account.first, self.account.last)
    }

    /// Whether the rate was constant all the while, by the kernel's account.
    pub fn is_constant(&self) -> bool {
        self.account.looks > 0 && self.account.refused == 0 && self.account.changed == 0
    }

    /// The furthest that the kernel may have run REALTIME off its raw rate, by its account, parts per 10^9.
    pub fn most_slew_ppb(&self) -> i64 {
        self.account.most_ppb
    }

    /// Whether a step is to be seen between the latest snapshot and this one.
    pub fn shows_step(&self, now: &Snapshot) -> bool {
        let events = self.recent.back().map(|last| sudden(last.snapshot, *now, &self.tolerance));
        events.is_some_and(|events| events.iter().any(|event| matches!(event.change, Change::Step { .. })))
    }

    /// Takes the next snapshot; returns whether the list of events changed. `set`: the kernel tells that REALTIME
    /// was set since the last one.
    pub fn look(&mut self, now: Snapshot, set: bool) -> bool {
        let Some(&last) = self.recent.back() else {
            self.account.add(None, now.discipline);
            self.begin(now);
            return false;
        };
        let events = self.sudden_since(&last.snapshot, now, set);
        let any = |kind: fn(&Change) -> bool| events.iter().any(|event| kind(&event.change));
        let ran_backward = any(|change| matches!(change, Change::Backward { .. }));
        let suspended = any(|change| matches!(change, Change::Suspend { .. }));
        let changed = !events.is_empty();
        self.happened.extend(events.into_iter().map(|event| Happened::Sudden(Box::new(event))));
        let steady = self.account.add(Some(last.snapshot.discipline), now.discipline);
        if ran_backward {
            self.begin(now);
            return true;
        }
        if suspended {
            self.counter.begun = Some(now); // the counter may have stopped, or gone on, while MONOTONIC_RAW stood
        } else {
            self.counter.add(&now, self.tolerance.frequency);
        }
        let (slowest, fastest) = self.allowed(&last.snapshot, &now, steady);
        let raw_ns = i128::from(now.monotonic_raw_ns - last.snapshot.monotonic_raw_ns);
        let bounded = BoundedSnapshot {
            snapshot: now,
            least: last.least + raw_ns * i128::from(slowest),
            most: last.most + raw_ns * i128::from(fastest),
        };
        let slewed = self.slew(bounded, (slowest, fastest));
        self.push(bounded);
        changed || slewed
    }

    fn sudden_since(&self, last: &Snapshot, now: Snapshot, set: bool) -> Vec<ClockEvent> {
        let mut events = sudden(*last, now, &self.tolerance);
        // A resume moves REALTIME against MONOTONIC too, and the kernel tells of that as well.
        let explained = |event: &ClockEvent| !matches!(event.change, Change::Discipline { .. });
        if set && !events.iter().any(explained) {
            let uncertainty_ns = open_ns(last, &now, &self.tolerance);
            let change = Change::Set { ns: stepped(last, &now) };
            events.push(ClockEvent { change, uncertainty_ns, earlier: *last, later: now });
        }
        if set {
            // What is seen may have hidden a set too small to be seen, too.
            let unset = self.last_unset(last);
            events.iter_mut().filter(|event| explained(event)).for_each(|event| event.earlier = unset);
        }
        events
    }

    /// The latest snapshot that a set of which the kernel had not told by `last` cannot precede; else the first.
    fn last_unset(&self, last: &Snapshot) -> Snapshot {
        let noticed = |bounded: &&BoundedSnapshot| {
            last.monotonic_raw_ns - bounded.snapshot.monotonic_raw_ns >= Self::NOTICE_NS_MAX
        };
        let before = self.recent.iter().rev().find(noticed).map(|bounded| bounded.snapshot);
        before.or(self.first).unwrap_or(*last)
    }

    /// No distance to an earlier snapshot means anything; a slew that went on then has no end that could be told.
    fn begin(&mut self, now: Snapshot) {
        self.first = Some(now);
        self.recent.clear();
        self.compared = 0;
        self.slewing = None;
        self.counter.begun = Some(now);
        self.recent.push_back(BoundedSnapshot { snapshot: now, least: 0, most: 0 });
    }

    /// The rates that the account allows between two snapshots.
    fn allowed(&mut self, last: &Snapshot, now: &Snapshot, steady: bool) -> (i64, i64) {
        if !steady {
            self.settled_ns = now.monotonic_raw_ns.saturating_add(Self::SETTLING_NS);
        }
        match now.discipline {
            Some(discipline) if steady && last.monotonic_raw_ns >= self.settled_ns => {
                let (slowest, fastest) = discipline.steady_ppb();
                (slowest - Self::STEADY_PPB, fastest + Self::STEADY_PPB)
            }
            _ => {
                let most =
                    [last, now].map(|snapshot| snapshot.discipline.map_or(0, |discipline| discipline.most_slew_ppb()));
                let most = most[0].max(most[1]).max(Self::UNSTEADY_PPB);
                (-most, most)
            }
        }
    }

    /// Returns whether a slew was seen, went on, turned or ended.
    fn slew(&mut self, now: BoundedSnapshot, allowed_ppb: (i64, i64)) -> bool {
        let Some((position, excess)) = self.excess_over_some_while(&now) else { return self.end_slew(&now) };
        let turned = self.slewing.as_ref().is_some_and(|seen| seen.excess.beyond.signum() != excess.beyond.signum());
        if turned
            && let Some(Happened::Slewed(slewing)) = self.slewing.take().map(|seen| &mut self.happened[seen.position])
        {
            slewing.until = Some(now.snapshot.after);
        }
        let before = || self.recent.iter().take(position + 1).map(|bounded| bounded.snapshot).collect();
        let mut seen = self.slewing.take().unwrap_or_else(|| {
            let slewing = Slewing { from: 0, until: None, rate_ppb: 0, allowed_ppb };
            self.happened.push(Happened::Slewed(slewing));
            Seen { position: self.happened.len() - 1, excess, before: before(), last: now.snapshot }
        });
        if excess.is_clearer_than(&seen.excess) {
            seen.excess = excess;
        }
        seen.last = now.snapshot;
        let from = self.begun(&seen);
        if let Happened::Slewed(slewing) = &mut self.happened[seen.position] {
            slewing.from = from;
            slewing.rate_ppb = seen.excess.rate_ppb;
        }
        self.slewing = Some(seen);
        self.compared = self.recent.len(); // `now` is added next
        true
    }

    /// The shortest while, ending now, over which MONOTONIC gained what it may not; and its first snapshot's position.
    fn excess_over_some_while(&self, now: &BoundedSnapshot) -> Option<(usize, Excess)> {
        let ages = std::iter::successors(Some(1), |age| Some(age * 2));
        let positions = ages.map_while(|age| self.recent.len().checked_sub(age)).take_while(|&p| p >= self.compared);
        positions.into_iter().find_map(|position| {
            let excess = Excess::between(&self.recent[position], now, &self.tolerance)?;
            Some((position, excess))
        })
    }

    /// The counter when the slew had not begun: so long before it was seen that more of it would have been seen.
    fn begun(&self, seen: &Seen) -> i64 {
        let mut open = 0;
        let shown = seen.before.last();
        let unslewed = seen.before.iter().rev().find(|earlier| {
            open = open.max(open_ns(earlier, earlier, &self.tolerance));
            shown.is_some_and(|shown| {
                i128::from(shown.monotonic_raw_ns - earlier.monotonic_raw_ns) >= seen.excess.unseen_ns(open)
            })
        });
        unslewed.or(self.first.as_ref()).map_or(i64::MIN, |snapshot| snapshot.before)
    }

    /// Ends a slew that is over, and returns whether one was: it was not seen for so long that it would have been.
    fn end_slew(&mut self, now: &BoundedSnapshot) -> bool {
        let Some(seen) = &self.slewing else { return false };
        let since = self.recent.range(self.compared.min(self.recent.len())..).map(|bounded| &bounded.snapshot);
        let open = since.chain([&now.snapshot]).map(|snapshot| open_ns(snapshot, snapshot, &self.tolerance)).max();
        let quiet_ns = i128::from(now.snapshot.monotonic_raw_ns - seen.last.monotonic_raw_ns);
        let over = quiet_ns >= seen.excess.unseen_ns(open.unwrap_or(0));
        if over && let Happened::Slewed(slewing) = &mut self.happened[seen.position] {
            slewing.until = Some(now.snapshot.after);
            self.slewing = None;
            // The end of it may lie behind what was seen last, and is reported by now.
            self.compared = self.recent.len();
        }
        over
    }

    fn push(&mut self, now: BoundedSnapshot) {
        self.recent.push_back(now);
        if self.recent.len() > Self::SNAPSHOTS_MAX {
            self.recent.pop_front();
            self.compared = self.compared.saturating_sub(1);
        }
    }

    /// How far the rate of REALTIME against the counter may be off a constant one, where no event says otherwise.
    pub fn slew_bound(&self) -> SlewBound {
        let (account, counter_ppb) = (&self.account, self.counter.apart_ppb());
        if self.is_constant()
            && counter_ppb <= 2 * Self::STEADY_PPB
            && let Some(discipline) = account.last
        {
            let origin =
                format!("the kernel's discipline was seen unchanged {}: {discipline}", counted(account.looks, "time"));
            return SlewBound { ppm: ppm_rounded_up(Self::STEADY_PPB), origin };
        }
        let most = account.most_ppb.max(Self::UNSTEADY_PPB).max(counter_ppb);
        let origin = if account.refused > 0 || account.looks == 0 {
            "the kernel refuses to tell its discipline; 500 ppm is what it slews by at most unless a daemon sets its \
             tick"
                .into()
        } else if account.changed > 0 {
            let (changed, looks) = (account.changed, account.looks);
            format!("by the kernel's account the rate was not constant at {changed} of {looks} looks")
        } else {
            format!("the counter's rate against CLOCK_MONOTONIC_RAW changed by at least {counter_ppb} ppb")
        };
        SlewBound { ppm: ppm_rounded_up(most), origin }
    }
}

fn ppm_rounded_up(ppb: i64) -> u32 {
    u32::try_from(ppb.unsigned_abs().div_ceil(1000)).unwrap_or(u32::MAX)
}

impl Excess {
    fn between(earlier: &BoundedSnapshot, later: &BoundedSnapshot, tolerance: &Tolerance) -> Option<Self> {
        const BILLION: i128 = 1_000_000_000;
        let (least, most) = (later.least - earlier.least, later.most - earlier.most);
        let gained = i128::from(slewed(&earlier.snapshot, &later.snapshot)) * BILLION;
        let open = i128::from(open_ns(&earlier.snapshot, &later.snapshot, tolerance)) * BILLION;
        let beyond = if gained > most + open {
            gained - most - open
        } else if gained < least - open {
            gained - least + open
        } else {
            return None;
        };
        let raw_ns = (later.snapshot.monotonic_raw_ns - earlier.snapshot.monotonic_raw_ns).max(1);
        let whole = |value: i128| i64::try_from(value).unwrap_or(i64::MAX);
        Some(Self {
            beyond,
            raw_ns,
            allowance_ns: whole((most - least) / BILLION + 1),
            rate_ppb: whole((gained - (least + most) / 2) / i128::from(raw_ns)),
        })
    }

    /// Whether this pair shows a rate that is further from what is allowed.
    fn is_clearer_than(&self, other: &Self) -> bool {
        self.beyond.abs() * i128::from(other.raw_ns) > other.beyond.abs() * i128::from(self.raw_ns)
    }

    /// How long a slew of at least this rate may go on unseen, where a reading leaves `open` nanoseconds open twice. Of
    /// a slew over a time t some while of t / 2 is looked at, and shows what exceeds twice the readings and the
    /// allowance.
    fn unseen_ns(&self, open: i64) -> i128 {
        let slack = i128::from(open) + i128::from(self.allowance_ns);
        4 * slack * 1_000_000_000 * i128::from(self.raw_ns) / self.beyond.abs() + 1
    }
}

impl Account {
    /// Adds an account; returns whether the rate was constant since `last`, by both accounts; the outer `None`: there
    /// is no last.
    fn add(&mut self, last: Option<Option<Discipline>>, now: Option<Discipline>) -> bool {
        self.looks += 1;
        let Some(discipline) = now else {
            self.refused += 1;
            return false;
        };
        self.first.get_or_insert(discipline);
        self.last = Some(discipline);
        self.most_ppb = self.most_ppb.max(discipline.most_slew_ppb());
        let earlier = last.unwrap_or(now);
        let constant = earlier.is_some_and(|earlier| Discipline::is_constant_between(&earlier, &discipline));
        self.changed += u64::from(!constant);
        constant
    }
}

impl CounterRates {
    /// Long against what two readings leave open, short against how a rate wanders.
    const WHILE_NS: i64 = 1_000_000_000;

    fn add(&mut self, now: &Snapshot, frequency: Frequency) {
        let Some(begun) = self.begun else {
            self.begun = Some(*now);
            return;
        };
        let raw_ns = now.monotonic_raw_ns - begun.monotonic_raw_ns;
        if raw_ns < Self::WHILE_NS {
            return;
        }
        let whole = i128::from(raw_ns) * i128::from(frequency.hertz);
        let rate = |ticks: i64| i128::from(ticks) * 1_000_000_000_000_000_000 / whole.max(1);
        let bound = |value: i128| i64::try_from(value).unwrap_or(i64::MAX);
        self.highest_lower = self.highest_lower.max(bound(rate(now.before - begun.after) - 1));
        self.lowest_upper = self.lowest_upper.min(bound(rate(now.after - begun.before) + 1));
        self.begun = Some(*now);
    }

    /// How far two of the rates were apart at least, parts per 10^9.
    fn apart_ppb(&self) -> i64 {
        self.highest_lower.saturating_sub(self.lowest_upper).max(0)
    }
}

impl fmt::Display for Slewing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { from, until, rate_ppb, allowed_ppb: (slowest, fastest) } = self;
        let until = until.map_or("on".into(), |until| format!("to tick {until}"));
        write!(
            f,
            "from tick {from} {until}: expected CLOCK_MONOTONIC to run {slowest} to {fastest} ppb against \
             CLOCK_MONOTONIC_RAW by the kernel's own account, found it {rate_ppb} ppb off that; evidence in \
             CLOCK_REALTIME and CLOCK_MONOTONIC is void meanwhile"
        )
    }
}

impl fmt::Display for Happened {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Happened::Sudden(event) => event.fmt(f),
            Happened::Slewed(slewing) => slewing.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SECOND: i64 = 1_000_000_000;
    const GIGAHERTZ: Frequency = Frequency { hertz: 1_000_000_000, tolerance_ppm: 0 };
    const STILL: Discipline = Discipline::STILL;

    /// A host whose true clocks all begin at 0 and run alike but for what was done to them; its counter counts
    /// nanoseconds of MONOTONIC_RAW.
    #[derive(Clone, Debug, Default)]
    struct Host {
        /// Rate of MONOTONIC and REALTIME all the time, parts per 10^9.
        rate_ppb: i64,
        /// From, until, parts per 10^9.
        slews: Vec<(i64, i64, i64)>,
        /// At, nanoseconds.
        steps: Vec<(i64, i64)>,
        /// At, nanoseconds that MONOTONIC stood and MONOTONIC_RAW too.
        sleeps: Vec<(i64, i64)>,
        /// From then on, the account.
        accounts: Vec<(i64, Discipline)>,
    }

    impl Host {
        fn monotonic(&self, t: i64) -> i64 {
            let part = |ppb: i64, span: i64| (i128::from(ppb) * i128::from(span) / 1_000_000_000) as i64;
            let slewed = self.slews.iter().map(|&(from, until, ppb)| part(ppb, t.clamp(from, until) - from));
            t + part(self.rate_ppb, t) + slewed.sum::<i64>()
        }

        /// The clocks read at four instants from `t` on, within `width`.
        fn snapshot(&self, t: i64, width: i64, reads: [i64; 4]) -> Snapshot {
            let mut at = reads.map(|share| t + width * share / 1000);
            at.sort_unstable();
            let total = |changes: &[(i64, i64)], t: i64| -> i64 {
                changes.iter().filter(|&&(at, _)| at <= t).map(|&(_, ns)| ns).sum()
            };
            let boottime = |t: i64| self.monotonic(t) + total(&self.sleeps, t);
            let account = self.accounts.iter().rev().find(|&&(from, _)| from <= t).map_or(STILL, |&(_, told)| told);
            Snapshot {
                before: t,
                realtime_ns: 1_700_000_000 * SECOND + boottime(at[0]) + total(&self.steps, at[0]),
                monotonic_ns: self.monotonic(at[1]),
                monotonic_raw_ns: at[2],
                boottime_ns: boottime(at[3]),
                after: t + width,
                discipline: Some(account),
            }
        }

        /// Watched about every 100 ms, for as long as there are widths.
        fn watched(&self, looks: &[(i64, i64, [i64; 4])]) -> ClockMonitor {
            let mut monitor = ClockMonitor::new(GIGAHERTZ);
            for (round, &(late, width, reads)) in (0..).zip(looks) {
                monitor.look(self.snapshot(round * 100_000_000 + late, width, reads), false);
            }
            monitor
        }
    }

    /// Looks at a host for some seconds, each up to 20 ms late, 50 to 1 000 ns wide.
    fn looks(seconds: usize) -> impl Strategy<Value = Vec<(i64, i64, [i64; 4])>> {
        let look = (0i64..20_000_000, 50i64..1_000, prop::array::uniform4(0i64..=1000));
        prop::collection::vec(look, seconds * 10)
    }

    /// Every 100 ms, 400 ns wide.
    fn regular(seconds: usize) -> Vec<(i64, i64, [i64; 4])> {
        vec![(0, 400, [100, 300, 600, 900]); seconds * 10]
    }

    fn only_slewing(monitor: &ClockMonitor) -> Slewing {
        match monitor.happened() {
            [Happened::Slewed(slewing)] => *slewing,
            other => panic!("expected one slew, found {other:?}"),
        }
    }

    #[test]
    fn a_steady_account_allows_1_ppm_and_says_so() {
        let told = Discipline { frequency_scaled_ppm: -30 << 16, ..STILL };
        let host = Host { rate_ppb: -30_000, accounts: vec![(0, told)], ..Host::default() };
        let monitor = host.watched(&regular(20));
        assert_eq!(monitor.happened(), []);
        let bound = monitor.slew_bound();
        assert_eq!(bound.ppm, 1);
        assert!(bound.origin.contains("unchanged 200 times: frequency -30.000 ppm"), "{}", bound.origin);
    }

    #[test]
    fn a_rate_beyond_1_ppm_of_the_account_is_seen_however_slow_and_one_within_is_not() {
        let watched = |rate_ppb| Host { rate_ppb, ..Host::default() }.watched(&regular(20));
        for rate in [900, -900] {
            assert_eq!(watched(rate).happened(), []);
        }
        for rate in [1_500, -1_500] {
            let slewing = only_slewing(&watched(rate));
            assert_eq!((slewing.from, slewing.until, slewing.rate_ppb.signum()), (0, None, rate.signum()));
        }
    }

    #[test]
    fn a_tick_that_a_daemon_sets_widens_the_bound_to_what_it_makes_possible() {
        let slewed = Discipline { tick_us: 10_900, ..STILL };
        let host = Host {
            slews: vec![(5 * SECOND, 7 * SECOND, 90_000_000)],
            accounts: vec![(5 * SECOND - 1, slewed), (7 * SECOND + 1, STILL)],
            ..Host::default()
        };
        let monitor = host.watched(&regular(20));
        let told: Vec<_> = monitor.happened().iter().map(|told| matches!(told, Happened::Sudden(_))).collect();
        assert_eq!(told, [true, true], "both changes of the account, and no slew beyond it: {:?}", monitor.happened());
        let bound = monitor.slew_bound();
        assert_eq!(bound.ppm, 90_000);
        assert!(bound.origin.contains("not constant at 2 of 200 looks"), "{}", bound.origin);
    }

    #[test]
    fn the_last_second_of_an_adjtime_is_allowed_though_nothing_is_left_of_it() {
        let left = |us| Discipline { adjtime_us: Some(us), ..STILL };
        let host = Host {
            slews: vec![(3 * SECOND, 5 * SECOND, 400_000)],
            accounts: vec![(2 * SECOND + 5, left(800)), (3 * SECOND, left(400)), (4 * SECOND, left(0))],
            ..Host::default()
        };
        let monitor = host.watched(&regular(10));
        assert!(monitor.happened().iter().all(|told| matches!(told, Happened::Sudden(_))), "{:?}", monitor.happened());
        assert_eq!(monitor.slew_bound().ppm, 500);
    }

    /// The slew goes on for 3 ms after the last look that shows it. The next one is too wide to tell; the one after it
    /// could.
    #[test]
    fn the_end_of_a_slew_is_not_told_as_another_slew() {
        let (from, until) = (5 * SECOND + 3, 8 * SECOND + 3_000_000);
        let mut looks = vec![(0, 50, [100, 300, 600, 900]); 200];
        looks[81].1 = 3_000;
        let slewing = only_slewing(&Host { slews: vec![(from, until, 300_000)], ..Host::default() }.watched(&looks));
        assert!(slewing.from <= from && until <= slewing.until.unwrap(), "{slewing}");
    }

    #[test]
    fn an_account_that_is_refused_is_not_believed() {
        let mut monitor = ClockMonitor::new(GIGAHERTZ);
        for (round, &(_, width, reads)) in (0..).zip(&regular(3)) {
            let snapshot = Host::default().snapshot(round * 100_000_000, width, reads);
            monitor.look(Snapshot { discipline: None, ..snapshot }, false);
        }
        assert_eq!((monitor.slew_bound().ppm, monitor.is_constant()), (500, false));
    }

    #[test]
    fn a_set_that_the_kernel_tells_of_is_an_event_however_small_and_a_step_seen_is_not_told_twice() {
        let steps = vec![(SECOND + 50, SECOND)];
        let host = Host { steps, ..Host::default() };
        let mut monitor = ClockMonitor::new(GIGAHERTZ);
        for round in 0..30 {
            let now = host.snapshot(round * 100_000_000, 400, [0, 0, 0, 0]);
            assert_eq!(monitor.shows_step(&now), round == 11);
            monitor.look(now, round == 5 || round == 11);
        }
        let changes: Vec<_> = monitor.happened().iter().map(ToString::to_string).collect();
        assert!(changes.len() == 2 && changes[0].contains("tells of a set, of 0 ns"), "{changes:?}");
        assert!(changes[1].contains("a step of 1000000000 ns"), "{changes:?}");
    }

    #[test]
    fn a_counter_that_runs_unlike_the_clocks_widens_the_bound() {
        let mut monitor = ClockMonitor::new(GIGAHERTZ);
        for round in 0..60 {
            let now = Host::default().snapshot(round * 100_000_000, 400, [0, 0, 0, 0]);
            let gained = if round < 30 { 0 } else { (round - 30) * 500 }; // 5 ppm
            monitor.look(Snapshot { before: now.before + gained, after: now.after + gained, ..now }, false);
        }
        let bound = monitor.slew_bound();
        assert_eq!(bound.ppm, 500);
        assert!(bound.origin.contains("counter's rate"), "{}", bound.origin);
    }

    #[test]
    fn a_clock_that_ran_backward_begins_the_watch_anew() {
        let mut monitor = ClockMonitor::new(GIGAHERTZ);
        for round in (50..80).chain(0..30) {
            monitor.look(Host::default().snapshot(round * 100_000_000, 400, [0, 0, 0, 0]), false);
        }
        let [Happened::Sudden(event)] = monitor.happened() else { panic!("{:?}", monitor.happened()) };
        assert_eq!(event.change, Change::Backward { clock: "the counter" });
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]

        #[test]
        fn property_clocks_that_do_what_the_account_says_give_no_events(looks in looks(20), ppm in -400i64..400) {
            let told = Discipline { frequency_scaled_ppm: ppm << 16, ..STILL };
            let host = Host { rate_ppb: ppm * 1000, accounts: vec![(0, told)], ..Host::default() };
            let monitor = host.watched(&looks);
            prop_assert_eq!(monitor.happened(), &[]);
        }

        #[test]
        fn property_a_slew_is_told_once_in_a_span_that_holds_all_of_it(
            looks in looks(30), from in 5 * SECOND..8 * SECOND, length in SECOND / 2..10 * SECOND,
            ppm in 20i64..600, forward in any::<bool>(), rate_ppb in -900i64..900,
        ) {
            let ppb = if forward { ppm * 1000 } else { ppm * -1000 };
            let host = Host { rate_ppb, slews: vec![(from, from + length, ppb)], ..Host::default() };
            let slewing = only_slewing(&host.watched(&looks));
            let until = slewing.until.unwrap();
            prop_assert!(slewing.from <= from && from + length <= until, "{slewing} but {from} to {}", from + length);
            // Not much more than all of it either: else voiding the span would void the run.
            prop_assert!(from - slewing.from < 3 * SECOND && until - from - length < 3 * SECOND, "{slewing}");
            prop_assert!((slewing.rate_ppb - ppb - rate_ppb).abs() <= 25_000, "{slewing} but {ppb}");
        }

        #[test]
        fn property_a_slew_too_slow_for_one_look_is_told_once_in_a_span_that_holds_all_of_it(
            looks in looks(60), from in 14 * SECOND..16 * SECOND, length in 6 * SECOND..12 * SECOND,
            ppb in 4_000i64..15_000, forward in any::<bool>(),
        ) {
            let slews = vec![(from, from + length, if forward { ppb } else { -ppb })];
            let slewing = only_slewing(&Host { slews, ..Host::default() }.watched(&looks));
            let until = slewing.until.unwrap_or(i64::MAX);
            prop_assert!(slewing.from <= from && from + length <= until, "{slewing} but {from} to {}", from + length);
        }

        #[test]
        fn property_a_set_too_small_to_be_seen_lies_in_the_span_that_is_told_however_late_the_kernel_tells(
            looks in looks(10), at in SECOND..8 * SECOND, ns in -30i64..30, late in 0i64..=ClockMonitor::NOTICE_NS_MAX,
            just_before in prop::option::of(0i64..300), step in prop::option::weighted(0.3, 5_000i64..SECOND),
        ) {
            // Mostly just before a look, whose snapshot then does not tell the clock from one that nobody set.
            let begin = |round: usize| round as i64 * 100_000_000 + looks[round].0;
            let at = just_before.map_or(at, |before| begin((at / 100_000_000) as usize) - before);
            let mut steps = vec![(at, ns)];
            steps.extend(step.map(|ns| (at + 60_000_000, ns))); // another, which is seen
            let told_at = |(set, _): (i64, i64)| set + late;
            let host = Host { steps: steps.clone(), ..Host::default() };
            let mut monitor = ClockMonitor::new(GIGAHERTZ);
            let mut told = 0;
            for (round, &(_, width, reads)) in looks.iter().enumerate() {
                let set = steps.iter().filter(|&&step| told_at(step) <= begin(round)).count();
                monitor.look(host.snapshot(begin(round), width, reads), set > told);
                told = set;
            }
            let spans: Vec<_> = monitor.happened().iter().map(|happened| match happened {
                Happened::Sudden(event) => (event.earlier.before, event.later.after),
                Happened::Slewed(slewing) => panic!("{slewing}"),
            }).collect();
            for (at, ns) in steps {
                let spanned = spans.iter().any(|&(from, until)| from <= at && at <= until);
                prop_assert!(spanned, "{ns} ns at {at}: {spans:?}");
            }
        }

        #[test]
        fn property_a_step_and_a_suspend_are_told_once_each_in_spans_that_hold_them(
            looks in looks(10), at in SECOND..8 * SECOND, ns in 5_000i64..2 * SECOND, forward in any::<bool>(),
            asleep_at in SECOND..8 * SECOND, asleep in 5_000i64..1000 * SECOND,
        ) {
            let steps = vec![(at, if forward { ns } else { -ns })];
            let host = Host { steps, sleeps: vec![(asleep_at, asleep)], ..Host::default() };
            let amid = |(round, &(late, width, _)): (i64, &(i64, i64, _))| {
                let begin = round * 100_000_000 + late;
                begin <= asleep_at && asleep_at <= begin + width
            };
            prop_assume!(!(0..).zip(&looks).any(amid));
            let mut told = Vec::new();
            for happened in host.watched(&looks).happened() {
                let Happened::Sudden(event) = happened else { panic!("{happened}") };
                told.push((event.earlier.before, event.change, event.later.after));
            }
            prop_assert_eq!(told.len(), 2);
            for (from, change, until) in told {
                let truly = match change {
                    Change::Step { ns: read } => {
                        prop_assert!((read.abs() - ns).abs() <= 4_000 && (read > 0) == forward);
                        at
                    }
                    Change::Suspend { ns: read } => {
                        prop_assert!((read - asleep).abs() <= 4_000);
                        asleep_at
                    }
                    other => panic!("{other:?}"),
                };
                prop_assert!(from <= truly && truly <= until, "{change:?} in {from} to {until}, truly {truly}");
            }
        }
    }
}
