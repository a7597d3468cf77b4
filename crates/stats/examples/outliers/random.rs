//! Random numbers that are the same on every machine: splitmix64, and the few distributions that the families need.

use std::f64::consts::TAU;

/// A generator; the same seed gives the same numbers.
pub struct Random(u64);

impl Random {
    /// One stream a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Splitmix64 (Steele, Lea, Flood 2014).
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Uniform on (0, 1): never an end, so that every logarithm is finite.
    pub fn unit(&mut self) -> f64 {
        ((self.next() >> 12) as f64 + 0.5) / (1u64 << 52) as f64
    }

    /// Uniform on the range.
    pub fn within(&mut self, (from, to): (f64, f64)) -> f64 {
        from + (to - from) * self.unit()
    }

    /// Log-uniform on a range of positive numbers.
    pub fn log_within(&mut self, (from, to): (f64, f64)) -> f64 {
        self.within((from.ln(), to.ln())).exp()
    }

    /// Standard normal (Box and Muller 1958).
    pub fn normal(&mut self) -> f64 {
        (-2.0 * self.unit().ln()).sqrt() * (TAU * self.unit()).cos()
    }

    /// Standard exponential.
    pub fn exponential(&mut self) -> f64 {
        -self.unit().ln()
    }

    /// Gamma of a shape of at least 1 (Marsaglia and Tsang 2000).
    pub fn gamma(&mut self, shape: f64) -> f64 {
        let d = shape - 1.0 / 3.0;
        let c = 1.0 / (9.0 * d).sqrt();
        loop {
            let z = self.normal();
            let v = (1.0 + c * z).powi(3);
            if v > 0.0 && self.unit().ln() < z * z / 2.0 + d - d * v + d * v.ln() {
                return d * v;
            }
        }
    }
}
