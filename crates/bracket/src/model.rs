//! What is assumed of the two clocks: everything a bound rests on besides the brackets.

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
    /// The local tick around which the slope programme is stated. Relations compare exactly only at the same anchor.
    pub anchor: Tick<Local>,
}

impl Model {
    /// How far an `r0` may lie from a nominal rate when nothing better is known: the pull range of clocks in use.
    pub const DEFAULT_PRIOR_PPM: u32 = 500;

    /// The widest prior that can be asked for: half the nominal rate, so that every slope stays positive.
    pub const MOST_PRIOR_PPM: u32 = 500_000;

    /// A model with the default prior.
    pub fn new(rho: Rho, nominal: Ratio, anchor: Tick<Local>) -> Self {
        Self { rho, nominal, prior_ppm: Self::DEFAULT_PRIOR_PPM, anchor }
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
