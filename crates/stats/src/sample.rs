//! Values in ascending order: what every question about a distribution is put to.

use crate::{Error, Quantile};

/// Values of one sample lie less than this apart, in ticks: 2^62, so that exact fractions of them fit 128 bits. At
/// 10 GHz it takes 14 years.
pub const LIMIT_TICKS: u64 = 1 << 62;

/// At least one value, in ascending order, all less than [`LIMIT_TICKS`] apart.
///
/// ```
/// use tickscope_stats::{Quantile, Sample};
/// let sample = Sample::new(&[22, 18, 20, 20])?;
/// assert_eq!((sample.quantile(Quantile::MEDIAN), sample.least(), sample.most()), (20, 18, 22));
/// # Ok::<(), tickscope_stats::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sample(Vec<i64>);

impl Sample {
    /// A sorted copy of `values`.
    pub fn new(values: &[i64]) -> Result<Self, Error> {
        let mut sorted = values.to_vec();
        sorted.sort_unstable();
        let (&least, &most) = sorted.first().zip(sorted.last()).ok_or(Error::Empty)?;
        if most.abs_diff(least) < LIMIT_TICKS { Ok(Self(sorted)) } else { Err(Error::Apart(least, most)) }
    }

    /// The same for values in ascending order that a sample held; `None` of none.
    pub(crate) fn of_sorted(values: &[i64]) -> Option<Self> {
        (!values.is_empty()).then(|| Self(values.to_vec()))
    }

    /// The values, in ascending order.
    pub fn values(&self) -> &[i64] {
        &self.0
    }

    /// How many: at least 1.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// The smallest, Q0.
    pub fn least(&self) -> i64 {
        self.0[0]
    }

    /// The largest.
    pub fn most(&self) -> i64 {
        self.0[self.0.len() - 1]
    }

    /// The smallest value that this share of the values does not exceed.
    pub fn quantile(&self, quantile: Quantile) -> i64 {
        let rank = quantile.rank(self.0.len()).expect("a sample holds at least one value");
        self.0[rank - 1]
    }

    /// How many values are greater.
    pub fn above(&self, value: i64) -> usize {
        self.0.len() - self.0.partition_point(|&other| other <= value)
    }
}
