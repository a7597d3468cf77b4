//! Skewness, kurtosis, and the L-moments that say the same without saturating.

use crate::Sample;

/// Central moments of a sample, as the iPad study reports them.
///
/// Of `n` values the skewness is at most `(n - 2) / sqrt(n - 1)` and the kurtosis about n: one giant outlier reaches
/// both, and two do not tell apart. Give the L-moments or the medcouple with them.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Moments {
    /// In ticks.
    pub mean: f64,
    /// The second central moment: the sum is divided by the number of values, not by one less. In ticks squared.
    pub variance: f64,
    /// `g1 = m3 / m2^(3/2)`, 0 for symmetry; `None` where all values are equal.
    pub skewness: Option<f64>,
    /// `b2 = m4 / m2^2`, Pearson's: 3 for a normal distribution, nothing subtracted; `None` where all values are equal.
    pub kurtosis: Option<f64>,
}

/// Sample L-moments (Hosking 1990): means of differences of order statistics, unbiased.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct LMoments {
    /// The mean, in ticks.
    pub location: f64,
    /// Half of the mean distance of two values (l2), in ticks; `None` of less than 2.
    pub scale: Option<f64>,
    /// t3 = l3 / l2, between -1 and 1; `None` of less than 3 values, or where all are equal.
    pub skewness: Option<f64>,
    /// t4 = l4 / l2, between -1/4 and 1; 0.1226 for a normal distribution; `None` of less than 4, or where all are
    /// equal.
    pub kurtosis: Option<f64>,
}

impl Sample {
    /// Mean, variance, skewness and kurtosis.
    pub fn moments(&self) -> Moments {
        let (count, mean) = (self.count() as f64, self.mean());
        let [m2, m3, m4] = [2, 3, 4].map(|power| deviations(self.values()).map(|d| d.powi(power)).sum::<f64>() / count);
        let ratio = |moment: f64, power: f64| (m2 > 0.0).then(|| moment / m2.powf(power));
        Moments { mean, variance: m2, skewness: ratio(m3, 1.5), kurtosis: ratio(m4, 2.0) }
    }

    /// Location, scale, skewness and kurtosis by L-moments.
    pub fn l_moments(&self) -> LMoments {
        let [b0, b1, b2, b3] = self.weighted_means();
        let above = |fewest: usize, value: f64| (self.count() >= fewest).then_some(value);
        let scale = above(2, 2.0 * b1 - b0);
        let ratio =
            |moment: Option<f64>| moment.zip(scale).filter(|_| self.most() > self.least()).map(|(of, l2)| of / l2);
        LMoments {
            location: self.mean(),
            scale,
            skewness: ratio(above(3, 6.0 * b2 - 6.0 * b1 + b0)),
            kurtosis: ratio(above(4, 20.0 * b3 - 30.0 * b2 + 12.0 * b1 - b0)),
        }
    }

    fn mean(&self) -> f64 {
        let excess: i128 = self.values().iter().map(|&value| i128::from(value - self.least())).sum();
        self.least() as f64 + excess as f64 / self.count() as f64
    }

    /// Hosking's b0 to b3 of the distances from the least value: means in which the j-th of n (from 0) has the weight
    /// `C(j, r) / C(n - 1, r)`.
    fn weighted_means(&self) -> [f64; 4] {
        let (count, last) = (self.count() as f64, self.count() as f64 - 1.0);
        let mut sums = [0.0; 4];
        for (j, &value) in self.values().iter().enumerate() {
            let mut weighted = (value - self.least()) as f64;
            for (r, sum) in sums.iter_mut().enumerate() {
                *sum += weighted;
                // Of less than r values the weight is 0 / 0, and the moment is not asked for.
                weighted *= (j as f64 - r as f64).max(0.0) / (last - r as f64).max(1.0);
            }
        }
        sums.map(|sum| sum / count)
    }
}

/// Each value's distance from the mean, rounded only once: the sum and the multiples are exact.
pub(crate) fn deviations(values: &[i64]) -> impl Iterator<Item = f64> {
    let sum: i128 = values.iter().map(|&value| i128::from(value)).sum();
    let count = values.len() as i128;
    values.iter().map(move |&value| (count * i128::from(value) - sum) as f64 / count as f64)
}
