//! How long a clock's tick should be: as long as the uncertainty of reading it (the Cm* study, 3.3).
//!
//! A shorter tick tells nothing more, and a longer one lets a word of the same width last longer before it wraps. Ticks
//! are those of the host's counter by a power of two, which a program gets by shifting a reading to the right.

/// A counter shifted to the right.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct TickChoice {
    /// By how many bits.
    pub shift: u32,
    /// How long a tick then is, nanoseconds.
    pub tick_ns: f64,
}

impl TickChoice {
    /// The longest tick that is no longer than the uncertainty, of a counter whose own is `counter_tick_ns`; its own
    /// where that is longer already.
    pub fn for_uncertainty(uncertainty_ns: f64, counter_tick_ns: f64) -> Self {
        let shift = (uncertainty_ns / counter_tick_ns).max(1.0).log2().floor().min(62.0) as u32;
        Self { shift, tick_ns: counter_tick_ns * (1_u64 << shift) as f64 }
    }

    /// Bits of a word that does not wrap within `range_s`.
    pub fn bits_for(&self, range_s: f64) -> u32 {
        (range_s * 1e9 / self.tick_ns).max(1.0).log2().ceil() as u32
    }

    /// How long a word of so many bits lasts, seconds.
    pub fn range_s(&self, bits: u32) -> f64 {
        2_f64.powi(bits as i32) * self.tick_ns / 1e9
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_paper_s_clock_of_2_us_lasts_an_eighth_of_a_second_by_its_low_word() {
        // Deviations of 2.3 us under light load (Medusa), a clock that can do 0.5 us: 2 us, as it was set.
        let chosen = TickChoice::for_uncertainty(2_300.0, 500.0);
        assert_eq!((chosen.shift, chosen.tick_ns), (2, 2_000.0));
        assert!((chosen.range_s(16) - 0.131_072).abs() < 1e-9 && (chosen.range_s(32) - 8_589.934_592).abs() < 1e-6);
    }

    #[test]
    fn a_word_of_the_bits_said_holds_the_range_and_one_of_a_bit_less_does_not() {
        for (uncertainty_ns, range_s) in [(0.1, 1e-3), (17.0, 1.0), (350.0, 86_400.0), (1e6, 3.2e7)] {
            let chosen = TickChoice::for_uncertainty(uncertainty_ns, 0.4);
            assert!(chosen.tick_ns <= uncertainty_ns.max(0.4) && 2.0 * chosen.tick_ns > uncertainty_ns);
            let bits = chosen.bits_for(range_s);
            assert!(
                chosen.range_s(bits) >= range_s && chosen.range_s(bits - 1) < range_s,
                "{uncertainty_ns} {range_s}"
            );
        }
    }
}
