//! Assumptions about the two clocks: everything a bound rests on besides the brackets.

use tickscope_tick::{Local, Tick};

use crate::{Error, Ratio, Rho};

/// Model `drift`: at all times the rate lies in `r0 * (1 ± rho)`, and `r0` in `nominal * (1 ± prior)`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Model {
    /// How far the rate may wander from `r0`, relative; covers both oscillators.
    pub rho: Rho,
    /// Reference ticks per local tick, as declared or calibrated; only a starting point.
    pub nominal: Ratio,
    /// How far `r0` may lie from `nominal`, parts per million either way.
    pub prior_ppm: u32,
    /// The local tick around which the slope programme is stated. Clock maps compare exactly only at the same anchor.
    pub anchor: Tick<Local>,
    /// How wide readings of the two clocks are. Only [`crate::Epochs`] takes raw readings and needs it; the brackets of
    /// a [`crate::ClockMap`] are of the continuous clocks behind the readings.
    pub widths: ReadingWidths,
}

/// How far a clock may stand beyond what it reads, in its own ticks: a reading `n` says that it stands in `[n, n +
/// width)`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ReadingWidths {
    /// Width of the local clock's readings.
    pub local_ticks: u64,
    /// Width of the reference's.
    pub reference_ticks: u64,
}

impl Default for ReadingWidths {
    /// Clocks that move by single ticks.
    fn default() -> Self {
        Self { local_ticks: 1, reference_ticks: 1 }
    }
}

impl ReadingWidths {
    /// The most that is taken for a width: a clock that moves once in 2^40 ticks measures nothing.
    pub const MOST_TICKS: u64 = 1 << 40;

    /// Both in whole ticks that sums may take.
    pub(crate) fn checked(self) -> Result<[i64; 2], Error> {
        let widths = [self.local_ticks, self.reference_ticks];
        match widths.into_iter().find(|width| !(1..=Self::MOST_TICKS).contains(width)) {
            None => Ok(widths.map(|width| width as i64)),
            Some(found) => Err(Error::Declaration {
                what: "reading width",
                expected: "1 to 2^40 ticks",
                found: format!("{found} ticks"),
            }),
        }
    }
}

impl Model {
    /// How far an `r0` may lie from a nominal rate when nothing better is known: the pull range of clocks in use.
    pub const DEFAULT_PRIOR_PPM: u32 = 500;

    /// The widest prior that can be asked for: half the nominal rate, so that every slope stays positive.
    pub const MOST_PRIOR_PPM: u32 = 500_000;

    /// A model with the default prior, of clocks that move by single ticks.
    pub fn new(rho: Rho, nominal: Ratio, anchor: Tick<Local>) -> Self {
        Self { rho, nominal, prior_ppm: Self::DEFAULT_PRIOR_PPM, anchor, widths: ReadingWidths::default() }
    }

    /// The ends of the prior, `nominal * (1 ± prior)`, in reference ticks per local tick.
    pub(crate) fn prior(&self) -> Result<(Ratio, Ratio), Error> {
        if self.prior_ppm > Self::MOST_PRIOR_PPM {
            return Err(Error::Declaration {
                what: "prior",
                expected: "at most 500000 ppm, so that every slope stays positive",
                found: format!("{} ppm", self.prior_ppm),
            });
        }
        let million: u128 = 1_000_000;
        let prior = u128::from(self.prior_ppm);
        Ok((self.nominal.times(million - prior, million), self.nominal.times(million + prior, million)))
    }
}
