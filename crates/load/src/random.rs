//! Numbers drawn from a seed, the same on every machine and in every language.
//!
//! SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014), because any seed
//! is a good one and ten lines are the same in any language. Exponential variates by comparing alone (von Neumann,
//! "Various techniques used in connection with random digits", 1951; Knuth, The Art of Computer Programming 2, 3.4.1,
//! algorithm S is its descendant): a logarithm's last digit differs from one library to the next, and with it a tick.

/// A generator of 64 random bits at a time.
#[derive(Clone, Debug)]
pub struct SplitMix(u64);

/// Bits behind the point of an exponential variate.
pub const FRACTION_BITS: u32 = 40;

impl SplitMix {
    /// The generator of a seed; any is as good as any other.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    /// A number below `limit`, each as likely as the others to one part in 2^64 / `limit`.
    pub fn below(&mut self, limit: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(limit)) >> 64) as u64
    }

    /// An exponential variate of mean 1, in units of 2^-[`FRACTION_BITS`], rounded down.
    ///
    /// A first number is followed by others while they descend. The run is odd with probability e^-x, where x is that
    /// first number: then it is the fraction. Each run that is even adds 1.
    pub fn exponential(&mut self) -> u64 {
        let mut whole = 0;
        loop {
            let first = self.bits();
            let (mut last, mut odd) = (first, true);
            let mut next = self.bits();
            while next < last {
                (last, odd) = (next, !odd);
                next = self.bits();
            }
            if odd {
                return (whole << FRACTION_BITS) + (first >> (u64::BITS - FRACTION_BITS));
            }
            whole += 1;
        }
    }
}
