//! How wide a clock map is over a run: half-widths sampled at many ticks.

/// Half the widths of intervals, in reference ticks, rounded up.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HalfWidths {
    sorted_ticks: Vec<u64>,
}

impl HalfWidths {
    pub(crate) fn new(mut ticks: Vec<u64>) -> Self {
        ticks.sort_unstable();
        Self { sorted_ticks: ticks }
    }

    /// All of them, smallest first.
    pub fn sorted_ticks(&self) -> &[u64] {
        &self.sorted_ticks
    }

    /// The smallest half-width that at least `numerator / denominator` of the samples do not exceed; `None` without
    /// samples, or where the fraction is not within `[0, 1]`.
    pub fn quantile(&self, numerator: u32, denominator: u32) -> Option<u64> {
        if denominator == 0 || numerator > denominator {
            return None;
        }
        let rank = (self.sorted_ticks.len() as u128 * u128::from(numerator)).div_ceil(u128::from(denominator));
        self.sorted_ticks.get((rank as usize).saturating_sub(1)).copied()
    }

    /// The half-width that half of the samples do not exceed.
    pub fn median(&self) -> Option<u64> {
        self.quantile(1, 2)
    }
}
