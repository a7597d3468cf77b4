//! Which samples are not of the kind that was to be measured: rules by name, each with its threshold or why it has
//! none.
//!
//! Noise only ever adds, so what is judged is the upper side; values left of the median are always inliers (the iPad
//! study, "Outlier removal"). The two box plots know a lower fence too, which is given and not used. Fences are
//! computed in integers and rounded so that `value > upper` is exactly what the formula says; only the adjusted box
//! plot and the tail need floating point.
//!
//! No rule is right for every sample: see the table that `bench/README.md` names. A low skewness after removal is no
//! merit: Tukey's rule has it by deleting genuine samples.

use std::fmt;
use std::num::NonZeroU64;

use crate::{Quantile, Sample, tail};

/// A rule for outliers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rule {
    /// `Q3 + 1.5 (Q3 - Q1)` and `Q1 - 1.5 (Q3 - Q1)` (Tukey 1977). For samples near a normal distribution.
    Tukey,
    /// `Q3 + 1.5 (Q3 - Q0)`, Q0 the minimum (the iPad study, equation 3).
    OneSided,
    /// Tukey's box plot, its fences moved by the medcouple (Hubert and Vandervieren 2008). Abstains beyond a medcouple
    /// of +-0.6, which its model was not made for.
    Adjusted,
    /// `q + c (q - Q0)`: beyond a quantile by so many times its distance from the minimum; not below the median.
    Distance {
        /// The quantile q.
        quantile: Quantile,
        /// The factor c, in thousandths.
        factor_thousandths: u32,
    },
    /// The first gap that the tail does not explain, else where the fitted tail expects no more samples. Abstains on
    /// heavy tails, and where more values stand apart than the 2 % that it takes for outliers. The default.
    GapOrTail,
}

/// Threshold of a rule, and what it removes from the sample.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Threshold {
    /// Values above this are outliers.
    pub upper: i64,
    /// Values below this would be, in a sample without a hard lower bound; not used here.
    pub lower: Option<i64>,
    /// Basis of the threshold.
    pub basis: Basis,
    /// Values that it removes.
    pub removal: Removal,
}

/// A threshold before it is held against the sample.
pub(crate) struct Fence {
    pub upper: i64,
    pub lower: Option<i64>,
    pub basis: Basis,
}

/// Basis of a threshold.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Basis {
    /// The formula of the rule.
    Formula,
    /// No sample lies between the threshold and the first one above this.
    Gap {
        /// That one.
        until: i64,
    },
    /// A generalised Pareto distribution fitted to the tail.
    Tail {
        /// Its shape xi: 0 is exponential; the greater, the heavier.
        shape: f64,
        /// How many values of a clean sample of this size are expected above the threshold.
        expected: f64,
    },
}

/// A rule that gives no threshold.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Abstention {
    /// Why.
    pub why: Why,
    /// A rule that has a threshold for this sample, for whoever must have one.
    pub instead: Option<Rule>,
}

/// Why a rule gives no threshold.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Why {
    /// Fewer values than the rule needs to know a tail.
    Few {
        /// How many it needs.
        needed: usize,
        /// How many there are.
        found: usize,
    },
    /// More skewed than the rule was made for: the medcouple, beyond +-0.6.
    Skewed(f64),
    /// The tail reaches so far that genuine samples and outliers look alike: the shape xi of the fit.
    HeavyTail(f64),
    /// More values stand apart than the rule takes for outliers: frequent noise, or another mode of the work.
    Frequent {
        /// They lie above this.
        above: i64,
        /// How many they are.
        count: usize,
        /// Of how many.
        of: usize,
    },
    /// The threshold does not fit 64 bits.
    OutOfRange,
}

/// Values that a threshold removes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Removal {
    /// Samples above it.
    pub count: usize,
    /// Of how many.
    pub of: usize,
    /// By how much these exceed the median, together, in ticks: the time that is called noise.
    pub excess_ticks: i128,
}

impl Rule {
    /// The setting of the iPad study, equation 4: `p95 + 3.0 (p95 - Q0)`.
    pub const IPAD: Self = Self::Distance { quantile: Quantile::P95, factor_thousandths: 3_000 };

    /// Every rule that needs no setting, by name.
    pub const NAMED: [(&'static str, Self); 5] = [
        ("gap-or-tail", Self::GapOrTail),
        ("ipad", Self::IPAD),
        ("tukey", Self::Tukey),
        ("one-sided", Self::OneSided),
        ("adjusted", Self::Adjusted),
    ];

    /// The threshold for this sample, or why there is none. `step`: how wide the readings of its clock are, in ticks;
    /// without it, the step that the values show. Only [`Rule::GapOrTail`] needs it: no distance of one step is a gap.
    ///
    /// ```
    /// use tickscope_stats::{Rule, Sample};
    /// let sample = Sample::new(&[20, 20, 22, 22, 24, 24, 26, 9_000])?;
    /// let threshold = Rule::named("one-sided").unwrap().threshold(&sample, None).unwrap();
    /// assert_eq!(threshold.to_string(), "above 30: 1 of 8 values (12.500 %), by formula");
    /// # Ok::<(), tickscope_stats::Error>(())
    /// ```
    pub fn threshold(self, sample: &Sample, step: Option<NonZeroU64>) -> Result<Threshold, Abstention> {
        match self.fence(sample, step) {
            Ok(Fence { upper, lower, basis }) => Ok(Threshold { upper, lower, basis, removal: sample.removal(upper) }),
            Err(why) => Err(Abstention { why, instead: self.instead(sample, step, why) }),
        }
    }

    fn fence(self, sample: &Sample, step: Option<NonZeroU64>) -> Result<Fence, Why> {
        match self {
            Self::Tukey => tukey(sample),
            Self::OneSided => distance(sample, Quantile::Q3, 1_500),
            Self::Adjusted => adjusted(sample),
            Self::Distance { quantile, factor_thousandths } => distance(sample, quantile, factor_thousandths),
            Self::GapOrTail => tail::fence(sample, step),
        }
    }

    /// The best rule that does not abstain from the sample as well, if any is better than none.
    fn instead(self, sample: &Sample, step: Option<NonZeroU64>, why: Why) -> Option<Self> {
        let answers = |rule: &Self| *rule != self && rule.fence(sample, step).is_ok();
        match why {
            // With fewer values the 95 % quantile is the largest of them.
            Why::Few { found, .. } if found < FEWEST_FOR_IPAD => Some(Self::OneSided).filter(answers),
            Why::Few { .. } | Why::HeavyTail(_) => Some(Self::IPAD).filter(answers),
            Why::Skewed(_) => [Self::GapOrTail, Self::IPAD].into_iter().find(answers),
            Why::Frequent { .. } | Why::OutOfRange => None,
        }
    }

    /// The rule of that name; `None`: see [`Rule::NAMED`] for those there are.
    pub fn named(name: &str) -> Option<Self> {
        Self::NAMED.iter().find(|(known, _)| *known == name).map(|&(_, rule)| rule)
    }
}

/// The fewest values of which one lies above the 95 % quantile.
const FEWEST_FOR_IPAD: usize = 20;

impl Abstention {
    /// The threshold for whoever must have one: that of the rule which is named instead, or from where on frequent
    /// values stand apart, which are noise then. `None`: no answer is better than any.
    pub fn advised(&self, sample: &Sample, step: Option<NonZeroU64>) -> Option<Threshold> {
        match (self.why, self.instead) {
            (Why::Frequent { above, .. }, _) => {
                let removal = sample.removal(above);
                let until = *sample.values().get(removal.of - removal.count)?;
                Some(Threshold { upper: above, lower: None, basis: Basis::Gap { until }, removal })
            }
            (_, Some(rule)) => rule.threshold(sample, step).ok(),
            _ => None,
        }
    }
}

impl Removal {
    /// The part of the values, from 0 to 1.
    pub fn share(&self) -> f64 {
        self.count as f64 / self.of as f64
    }
}

impl Sample {
    /// Values that a threshold of this value removes. Nothing is taken away in silence: give this with every figure
    /// that leaves it out.
    pub fn removal(&self, upper: i64) -> Removal {
        let (count, of) = (self.above(upper), self.count());
        let median = i128::from(self.quantile(Quantile::MEDIAN));
        let excess = |&value: &i64| i128::from(value) - median;
        Removal { count, of, excess_ticks: self.values()[of - count..].iter().map(excess).sum() }
    }

    /// The values that are no outliers; `None`: the threshold lies below all of them, it is another sample's.
    pub fn without(&self, threshold: &Threshold) -> Option<Self> {
        Self::of_sorted(&self.values()[..self.count() - self.above(threshold.upper)])
    }
}

impl Fence {
    /// A formula without a lower fence. A fence beyond 64 bits is refused: it would be no tick.
    fn formula(upper: i128) -> Result<Self, Why> {
        let upper = i64::try_from(upper).map_err(|_| Why::OutOfRange)?;
        Ok(Self { upper, lower: None, basis: Basis::Formula })
    }

    fn box_plot(upper: i128, lower: i128) -> Result<Self, Why> {
        let lower = i64::try_from(lower).map_err(|_| Why::OutOfRange)?;
        Ok(Self { lower: Some(lower), ..Self::formula(upper)? })
    }
}

fn tukey(sample: &Sample) -> Result<Fence, Why> {
    let [q1, q3] = quartiles(sample);
    let range = q3 - q1;
    // Down, and up: a whole value is beyond the rounded fence just where it is beyond the exact one.
    Fence::box_plot(q3 + 3 * range / 2, q1 - 3 * range / 2)
}

fn distance(sample: &Sample, quantile: Quantile, factor_thousandths: u32) -> Result<Fence, Why> {
    let [q, q0, median] =
        [sample.quantile(quantile), sample.least(), sample.quantile(Quantile::MEDIAN)].map(i128::from);
    Fence::formula((q + (q - q0) * i128::from(factor_thousandths) / 1_000).max(median))
}

/// Equations 5 of Hubert and Vandervieren (2008): the fences lie `1.5 e^(3 MC)` and `1.5 e^(-4 MC)` interquartile
/// ranges away, the wide one on the side of the long tail.
fn adjusted(sample: &Sample) -> Result<Fence, Why> {
    let medcouple = sample.medcouple();
    let (skew, of) = (medcouple.numerator().abs(), medcouple.denominator());
    // 3/5 of the denominator, rounded down, without leaving 128 bits.
    if skew > of / 5 * 3 + of % 5 * 3 / 5 {
        return Err(Why::Skewed(medcouple.value()));
    }
    let [q1, q3] = quartiles(sample);
    let skew = medcouple.value();
    let (up, down) = if skew >= 0.0 { (3.0 * skew, -4.0 * skew) } else { (4.0 * skew, -3.0 * skew) };
    let reach = |power: f64| 1.5 * power.exp() * (q3 - q1) as f64;
    Fence::box_plot(q3 + reach(up).floor() as i128, q1 - reach(down).floor() as i128)
}

fn quartiles(sample: &Sample) -> [i128; 2] {
    [Quantile::Q1, Quantile::Q3].map(|quantile| sample.quantile(quantile).into())
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some((name, _)) = Self::NAMED.iter().find(|(_, rule)| rule == self) {
            return f.write_str(name);
        }
        let Self::Distance { quantile, factor_thousandths } = self else { return write!(f, "{self:?}") };
        let [share, factor] = [f64::from(quantile.share()) / 1e6, f64::from(*factor_thousandths) / 1e3];
        write!(f, "q + {factor} (q - Q0), q at {share}")
    }
}

impl fmt::Display for Threshold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "above {}: {}, ", self.upper, self.removal)?;
        match self.basis {
            Basis::Formula => f.write_str("by formula"),
            Basis::Gap { until } => write!(f, "beyond a gap up to {until}"),
            Basis::Tail { shape, expected } => {
                write!(f, "beyond a fitted tail of shape {shape:.2}; {expected} expected of clean values alone")
            }
        }
    }
}

impl fmt::Display for Removal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} values ({:.3} %)", self.count, self.of, self.share() * 100.0)
    }
}

impl fmt::Display for Abstention {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.why)?;
        self.instead.map_or(Ok(()), |rule| write!(f, "; where an answer must be had, take {rule}"))
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Few { needed, found } => {
                write!(f, "expected at least {needed} values to know their tail, found {found}; measure longer")
            }
            Self::Skewed(medcouple) => write!(
                f,
                "expected a medcouple within +-0.6, found {medcouple:.3}; the adjusted box plot was not made for it"
            ),
            Self::HeavyTail(shape) => write!(
                f,
                "expected a tail that ends before outliers begin, found one of shape {shape:.2}; only a cause (kernel \
                 events) tells noise from work here"
            ),
            Self::Frequent { above, count, of } => write!(
                f,
                "expected at most 2 % of the values to stand apart, found {count} of {of} ({:.1} %) above {above}; \
                 values alone don't tell frequent noise from another mode of the work: judge those above {above} apart \
                 from the others if they are work, take {above} as the threshold if they are noise, give the counter's \
                 step if they are its next one",
                *count as f64 / *of as f64 * 100.0
            ),
            Self::OutOfRange => {
                f.write_str("expected a threshold within 64 bits, found one beyond; is this a sample of durations?")
            }
        }
    }
}
