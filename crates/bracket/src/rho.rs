//! How far the rate of a pair of clocks may wander: the declared assumption behind every bound.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::str::FromStr;

use crate::Error;

/// Relative wander of the rate, covering both oscillators of a pair, in parts per 10^9, with where it came from.
///
/// Written as a preset (`unknown`, `server-room`, `lab`, `laptop`) or as a number of ppm with at most three decimals
/// (`1`, `0.05`, `50ppm`):
/// ```
/// use tickscope_bracket::Rho;
/// let rho: Rho = "lab".parse()?;
/// assert_eq!((rho.ppb(), rho.key().as_str()), (200, "0.2ppm"));
/// assert_eq!(rho.to_string(), "0.2 ppm, preset 'lab', declared");
/// assert_eq!(Rho::default().to_string(), "50 ppm, preset 'unknown', default");
/// # Ok::<(), tickscope_bracket::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rho {
    ppb: u32,
    origin: RhoOrigin,
}

/// Where a rho came from; printed with every bound.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum RhoOrigin {
    /// Nobody declared anything: preset `unknown`.
    Default,
    /// The user named this preset.
    Preset(&'static str),
    /// The user gave a number.
    Number,
    /// It follows from those of pairs in between ([`Rho::then`]): nothing is assumed that is not assumed of these.
    Follows,
}

const PPB_PER_PPM: u32 = 1000;

impl Rho {
    /// Every preset: name and parts per 10^9.
    pub const PRESETS: [(&'static str, u32); 4] =
        [("unknown", 50_000), ("server-room", 1_000), ("lab", 200), ("laptop", 200_000)];

    /// The largest rho that can be declared, parts per 10^9: 10 %, far beyond any oscillator.
    pub const MOST_PPB: u32 = 100_000_000;

    /// A declared number of parts per 10^9.
    pub fn declared_ppb(ppb: u32) -> Result<Self, Error> {
        if ppb > Self::MOST_PPB {
            return Err(wrong(format!("{ppb} ppb")));
        }
        Ok(Self { ppb, origin: RhoOrigin::Number })
    }

    /// What holds from the first to the last of three counters, where this one holds between the first two, whichever
    /// is the reference, and `next` between the last two; rounded up. An error beyond [`Rho::MOST_PPB`].
    ///
    /// The inverse of a rate within `1 ± x` of a constant lies within `1 ± x` of another, and the product of two within
    /// `1 ± (x + y + x*y)` of one (`docs/proof.md`, Several 5).
    pub fn then(self, next: Rho) -> Result<Self, Error> {
        const BILLION: u64 = 1_000_000_000;
        let (one, other) = (u64::from(self.ppb), u64::from(next.ppb));
        let ppb = one + other + (one * other).div_ceil(BILLION);
        Ok(Self { origin: RhoOrigin::Follows, ..Self::declared_ppb(ppb as u32)? })
    }

    /// Parts per 10^9.
    pub fn ppb(self) -> u32 {
        self.ppb
    }

    /// Where it came from.
    pub fn origin(self) -> RhoOrigin {
        self.origin
    }

    /// The value alone, safe in file names and read back by `FromStr`: `50ppm`, `0.2ppm`.
    pub fn key(self) -> String {
        format!("{}ppm", Ppm(self.ppb))
    }
}

impl Hash for Rho {
    /// The value alone: no bound depends on where it came from.
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.ppb.hash(state);
    }
}

impl Default for Rho {
    fn default() -> Self {
        Self { ppb: Self::PRESETS[0].1, origin: RhoOrigin::Default }
    }
}

impl fmt::Display for Rho {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ppm = Ppm(self.ppb);
        match self.origin {
            RhoOrigin::Default => write!(f, "{ppm} ppm, preset 'unknown', default"),
            RhoOrigin::Preset(name) => write!(f, "{ppm} ppm, preset '{name}', declared"),
            RhoOrigin::Number => write!(f, "{ppm} ppm, declared"),
            RhoOrigin::Follows => write!(f, "{ppm} ppm, from those of the pairs between"),
        }
    }
}

impl FromStr for Rho {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        if let Some(&(name, ppb)) = Self::PRESETS.iter().find(|(name, _)| *name == text) {
            return Ok(Self { ppb, origin: RhoOrigin::Preset(name) });
        }
        let number = text.strip_suffix("ppm").unwrap_or(text).trim_end();
        let ppb = ppb_of(number).ok_or_else(|| wrong(format!("'{text}'")))?;
        Self::declared_ppb(ppb)
    }
}

/// Reads a decimal number of ppm exactly; `None` where it is none, or finer than a part per 10^9.
fn ppb_of(number: &str) -> Option<u32> {
    let (whole, decimals) = number.split_once('.').unwrap_or((number, "0"));
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    if !digits(whole) || !digits(decimals) || decimals.len() > 3 {
        return None;
    }
    let fraction: u32 = format!("{decimals:0<3}").parse().ok()?;
    whole.parse::<u32>().ok()?.checked_mul(PPB_PER_PPM)?.checked_add(fraction)
}

fn wrong(found: String) -> Error {
    Error::Declaration {
        what: "rho",
        expected: "unknown, server-room, lab, laptop, or a number of ppm from 0 to 100000 with at most three decimals, \
                   such as 1, 0.05 or 50ppm",
        found,
    }
}

/// Parts per 10^9 printed as ppm, without trailing zeros.
pub(crate) struct Ppm(pub u32);

impl fmt::Display for Ppm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, fraction) = (self.0 / PPB_PER_PPM, self.0 % PPB_PER_PPM);
        if fraction == 0 {
            return write!(f, "{whole}");
        }
        write!(f, "{whole}.{}", format!("{fraction:03}").trim_end_matches('0'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_of_ppm_is_read_exactly() {
        let read = |text: &str| text.parse::<Rho>().map(Rho::ppb);
        assert_eq!(
            ["1", "0.05", "50ppm", "0.2 ppm", "0", "100000"].map(|t| read(t).unwrap()),
            [1000, 50, 50_000, 200, 0, 100_000_000]
        );
    }

    #[test]
    fn what_is_no_rho_is_refused_with_what_was_found() {
        for text in
            ["", "ppm", "-1", "1e3", "0.0001", "100000.001", "5000000", "99999999999", ".5", "1.", "Lab", "1 ppb"]
        {
            let message = text.parse::<Rho>().unwrap_err().to_string();
            assert!(message.contains("expected unknown, server-room"), "{text}: {message}");
        }
    }

    #[test]
    fn the_key_of_every_preset_is_read_back_to_the_same_value() {
        for (name, ppb) in Rho::PRESETS {
            let rho: Rho = name.parse().unwrap();
            assert_eq!((rho.ppb(), rho.origin()), (ppb, RhoOrigin::Preset(name)));
            assert_eq!(rho.key().parse::<Rho>().unwrap().ppb(), ppb);
        }
        assert_eq!(
            Rho::PRESETS.map(|(name, _)| name.parse::<Rho>().unwrap().key()),
            ["50ppm", "1ppm", "0.2ppm", "200ppm"]
        );
    }

    #[test]
    fn the_largest_rho_is_accepted_and_the_next_refused() {
        assert!(Rho::declared_ppb(Rho::MOST_PPB).is_ok() && Rho::declared_ppb(Rho::MOST_PPB + 1).is_err());
    }
}
