//! The kernel's discipline of REALTIME and MONOTONIC, and how far it takes them off their raw rate.
//!
//! The kernel (`kernel/time/ntp.c`) gives both clocks a length for each tick, decided once a second in
//! `second_overflow` from four things that `adjtimex` tells:
//! - `tick` and `freq`, in force until somebody changes them (`ntp_update_frequency`): 1 us more of the 10 000 us of a
//!   tick is 100 ppm, `freq` counts 2^-16 ppm;
//! - `offset`, worked off by 2^-(2 + `constant`) of what is left each second (`ntp_offset_chunk`), whatever the bits
//!   say;
//! - what is left of an `adjtime`, worked off by at most 500 us each second (`MAX_TICKADJ`);
//! - a PPS signal, if the kernel was built for one and the bits say that it follows it.
//!
//! Assumes: the kernel does what it tells. Not in its account, and so deliberately absent: the boot parameter
//! `ntp_tick_adj`; the last second of an `adjtime`, in force while nothing is left of it; and what was set and worked
//! off between two readings. Whoever rests on the account compares the clocks too.

use std::fmt;

/// The kernel's clock discipline by `adjtimex`, read without changing it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Discipline {
    /// The `STA_` bits.
    pub status: i32,
    /// Correction of the rate in units of 2^-16 ppm; positive: the clocks are made to run faster.
    pub frequency_scaled_ppm: i64,
    /// The return value: `TIME_OK` (0) ... `TIME_ERROR` (5, not synchronised).
    pub state: i32,
    /// Length of a tick, microseconds; [`Discipline::NOMINAL_TICK_US`] but where a daemon slews by it.
    pub tick_us: i64,
    /// Offset that is still to be worked off; nanoseconds with `STA_NANO` in the status, else microseconds.
    pub offset: i64,
    /// The larger, the slower the offset is worked off.
    pub time_constant: i64,
    /// Remainder of an `adjtime`, microseconds; `None` where the kernel refuses to tell.
    pub adjtime_us: Option<i64>,
}

impl fmt::Display for Discipline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { status, tick_us, offset, .. } = self;
        let unit = if status & libc::STA_NANO != 0 { "ns" } else { "us" };
        write!(f, "frequency {:.3} ppm, tick {tick_us} us, offset {offset} {unit}, ", self.frequency_ppm())?;
        match self.adjtime_us {
            Some(left) => write!(f, "adjtime {left} us left, status {status:#x}"),
            None => write!(f, "adjtime unknown, status {status:#x}"),
        }
    }
}

/// A rate against another, parts per 10^9: no less than the first, no more than the second.
pub(crate) type RatePpb = (i64, i64);

impl Discipline {
    /// A tick of the 100 a second that user space counts in.
    pub const NOMINAL_TICK_US: i64 = 10_000;
    /// Rate per microsecond of such a tick.
    const PPB_OF_A_TICK_US: i64 = 100_000;
    /// `MAX_TICKADJ`: as fast as an `adjtime` is worked off. Taken for what a PPS signal may do as well.
    const ADJTIME_PPB: i64 = 500_000;
    /// `SHIFT_PLL`: an offset is worked off by 2^-2 a second with a time constant of 0.
    const SHIFT_PLL: u32 = 2;
    /// `MAXTC`.
    const TIME_CONSTANT_MOST: i64 = 10;

    /// Asks the kernel; `None` where it refuses to tell.
    pub fn of_this_host() -> Option<Self> {
        let (state, timex) = ask(0)?;
        Some(Self {
            status: timex.status,
            frequency_scaled_ppm: timex.freq,
            state,
            tick_us: timex.tick,
            offset: timex.offset,
            time_constant: timex.constant,
            adjtime_us: ask(libc::ADJ_OFFSET_SS_READ).map(|(_, timex)| timex.offset),
        })
    }

    /// The correction of the rate in ppm; for display only.
    pub fn frequency_ppm(&self) -> f64 {
        self.frequency_scaled_ppm as f64 / 65536.0
    }

    /// How far the kernel may be running REALTIME and MONOTONIC off their raw rate by this account, parts per 10^9,
    /// rounded up; the module says what is not in the account.
    pub fn most_slew_ppb(&self) -> i64 {
        let (slowest, fastest) = self.steady_ppb();
        slowest.abs().max(fastest.abs()) + self.pending_ppb()
    }

    /// The rate that lasts until somebody changes it.
    pub(crate) fn steady_ppb(&self) -> RatePpb {
        let ticks = (self.tick_us - Self::NOMINAL_TICK_US) * Self::PPB_OF_A_TICK_US;
        let scaled = self.frequency_scaled_ppm * 1000;
        let down = scaled.div_euclid(1 << 16);
        (ticks + down, ticks + down + i64::from(scaled.rem_euclid(1 << 16) != 0))
    }

    /// The part of the rate that passes by itself, either way.
    fn pending_ppb(&self) -> i64 {
        let adjtime = if self.adjtime_us == Some(0) { 0 } else { Self::ADJTIME_PPB };
        let pps = if self.follows_pps() { Self::ADJTIME_PPB } else { 0 };
        adjtime + pps + self.offset_ppb()
    }

    /// Correction of this second by an offset of n nanoseconds: of what it was before, a part of 2^-k was taken and n
    /// left, so that n / (2^k - 1) are being worked off.
    fn offset_ppb(&self) -> i64 {
        let nanoseconds = if self.status & libc::STA_NANO != 0 {
            self.offset.saturating_abs()
        } else {
            // Told in whole microseconds, rounded toward zero.
            (self.offset.saturating_abs().saturating_add(i64::from(self.offset != 0))).saturating_mul(1000)
        };
        let constant =
            if (0..=Self::TIME_CONSTANT_MOST).contains(&self.time_constant) { self.time_constant } else { 0 };
        let parts = (1u64 << (Self::SHIFT_PLL + constant as u32)) - 1;
        i64::try_from(nanoseconds.unsigned_abs().div_ceil(parts)).unwrap_or(i64::MAX)
    }

    fn follows_pps(&self) -> bool {
        self.status & (libc::STA_PPSFREQ | libc::STA_PPSTIME) != 0 && self.status & libc::STA_PPSSIGNAL != 0
    }

    /// Whether by both accounts one rate was in force all the while: the same, and nothing pending that passes by
    /// itself.
    pub fn is_constant_between(earlier: &Self, later: &Self) -> bool {
        earlier.steady_ppb() == later.steady_ppb() && earlier.pending_ppb() == 0 && later.pending_ppb() == 0
    }

    /// Whether nobody need have done anything for `earlier` to have become this: what was pending has at most shrunk.
    pub fn only_worked_off_since(&self, earlier: &Self) -> bool {
        let shrunk = |before: i64, after: i64| after.signum() * before.signum() >= 0 && after.abs() <= before.abs();
        let adjtime = match (earlier.adjtime_us, self.adjtime_us) {
            (Some(before), Some(after)) => shrunk(before, after),
            (before, after) => before == after,
        };
        let pending = |account: &Self| Self { offset: 0, adjtime_us: None, ..*account };
        adjtime && shrunk(earlier.offset, self.offset) && pending(earlier) == pending(self)
    }
}

/// What the kernel states of how far REALTIME is off, as whoever disciplines it told it last.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StatedError {
    /// False: the kernel calls the clock unsynchronised, and the bound is none.
    pub synchronised: bool,
    /// By how much the clock is ahead of what it follows, ns: what is still to be worked off.
    pub ahead_ns: i64,
    /// The stated bound, ns, rounded up: a daemon's root dispersion and half its root delay, and 500 ppm since then.
    pub most_ns: i64,
}

impl StatedError {
    /// Asks the kernel; `None` where it refuses to tell.
    pub fn of_this_host() -> Option<Self> {
        ask(0).map(|(state, timex)| Self::of(state, &timex))
    }

    fn of(state: i32, timex: &libc::timex) -> Self {
        let unit = if timex.status & libc::STA_NANO != 0 { 1 } else { 1000 };
        Self {
            synchronised: timex.status & libc::STA_UNSYNC == 0 && state != libc::TIME_ERROR,
            // Positive where the clock is behind.
            ahead_ns: timex.offset.saturating_mul(-unit),
            most_ns: timex.maxerror.saturating_add(1).saturating_mul(1000),
        }
    }
}

fn ask(modes: libc::c_uint) -> Option<(i32, libc::timex)> {
    // SAFETY: timex is plain integers, for which zero is a value.
    let mut timex: libc::timex = unsafe { std::mem::zeroed() };
    timex.modes = modes;
    // SAFETY: the kernel reads and writes one timex, and this is one; both modes used here ask and change nothing.
    let state = unsafe { libc::adjtimex(&mut timex) };
    (state >= 0).then_some((state, timex))
}

#[cfg(test)]
impl Discipline {
    /// A clock that runs free, for tests.
    pub(crate) const STILL: Self = Self {
        status: libc::STA_UNSYNC,
        frequency_scaled_ppm: 0,
        state: 5,
        tick_us: 10_000,
        offset: 0,
        time_constant: 2,
        adjtime_us: Some(0),
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    const STILL: Discipline = Discipline::STILL;

    #[test]
    fn what_is_stated_is_in_nanoseconds_rounded_up_and_none_of_an_unsynchronised_clock() {
        // SAFETY: timex is plain integers, for which zero is a value.
        let zero: libc::timex = unsafe { std::mem::zeroed() };
        let of =
            |state, status, offset| StatedError::of(state, &libc::timex { status, offset, maxerror: 1234, ..zero });
        let in_us = StatedError { synchronised: true, ahead_ns: -7000, most_ns: 1_235_000 };
        assert_eq!(of(0, libc::STA_PLL, 7), in_us);
        assert_eq!(of(0, libc::STA_PLL | libc::STA_NANO, -7), StatedError { ahead_ns: 7, ..in_us });
        assert!(!of(0, libc::STA_UNSYNC, 0).synchronised && !of(libc::TIME_ERROR, 0, 0).synchronised);
    }

    #[test]
    fn an_undisciplined_clock_runs_at_its_raw_rate() {
        assert_eq!(STILL.most_slew_ppb(), 0);
        assert!(Discipline::is_constant_between(&STILL, &STILL));
    }

    #[test]
    fn a_frequency_is_rounded_up_either_way_and_a_constant_one_is_constant() {
        let at = |frequency_scaled_ppm| Discipline { frequency_scaled_ppm, ..STILL };
        assert_eq!([65_536, 65_537, -65_536, -65_537].map(|f| at(f).most_slew_ppb()), [1000, 1001, 1000, 1001]);
        assert!(Discipline::is_constant_between(&at(-65_537), &at(-65_537)));
        assert!(!Discipline::is_constant_between(&at(65_536), &at(65_600)));
    }

    #[test]
    fn a_microsecond_of_a_tick_is_100_ppm() {
        let at = |tick_us| Discipline { tick_us, ..STILL };
        assert_eq!([10_001, 9_999, 11_000].map(|tick| at(tick).most_slew_ppb()), [100_000, 100_000, 100_000_000]);
        assert!(!Discipline::is_constant_between(&STILL, &at(10_001)));
        // Chrony may slow a tick and raise the frequency: together they are what counts.
        let both = Discipline { frequency_scaled_ppm: 100 << 16, ..at(9_999) };
        assert_eq!(both.most_slew_ppb(), 0);
    }

    #[test]
    fn an_offset_is_worked_off_by_what_its_time_constant_says() {
        let pending = |offset, time_constant, status| Discipline { offset, time_constant, status, ..STILL };
        // Of 4 000 a quarter was taken: 3 000 are left while 1 000 ns a second are in force.
        assert_eq!(pending(3_000, 0, libc::STA_PLL | libc::STA_NANO).most_slew_ppb(), 1_000);
        assert_eq!(pending(-3_001, 0, libc::STA_PLL | libc::STA_NANO).most_slew_ppb(), 1_001);
        assert_eq!(pending(63_000, 4, libc::STA_NANO).most_slew_ppb(), 1_000, "worked off without the PLL bit too");
        assert_eq!(pending(3, 0, libc::STA_PLL).most_slew_ppb(), 1_334, "3 us told may be all but 4");
        assert_eq!(pending(3_000, 99, libc::STA_NANO).most_slew_ppb(), 1_000, "an unknown constant is the fastest");
        let still = pending(3_000, 0, libc::STA_NANO);
        assert!(!Discipline::is_constant_between(&still, &still));
    }

    #[test]
    fn an_adjtime_that_is_left_or_unknown_may_run_at_500_ppm() {
        for adjtime_us in [Some(1), Some(-9_000), None] {
            let left = Discipline { adjtime_us, ..STILL };
            assert_eq!(left.most_slew_ppb(), 500_000);
            assert!(!Discipline::is_constant_between(&left, &left));
        }
    }

    #[test]
    fn a_clock_that_follows_pps_is_never_called_constant() {
        let status = libc::STA_PPSFREQ | libc::STA_PPSSIGNAL;
        let followed = Discipline { status, ..STILL };
        assert!(!Discipline::is_constant_between(&followed, &followed));
        let lost = Discipline { status: libc::STA_PPSFREQ, ..STILL };
        assert!(Discipline::is_constant_between(&lost, &lost));
    }

    #[test]
    fn what_passes_by_itself_is_told_from_what_somebody_did() {
        let pending = |offset, adjtime| Discipline { offset, adjtime_us: Some(adjtime), ..STILL };
        let before = pending(-800, 700);
        assert!(pending(-600, 200).only_worked_off_since(&before) && pending(0, 0).only_worked_off_since(&before));
        for touched in [
            pending(-801, 200),
            pending(5, 200),
            pending(-600, 701),
            pending(-600, -1),
            Discipline { frequency_scaled_ppm: 1, ..before },
            Discipline { tick_us: 10_001, ..before },
            Discipline { status: 0, ..before },
            Discipline { adjtime_us: None, ..before },
        ] {
            assert!(!touched.only_worked_off_since(&before), "{touched:?}");
        }
    }
}
