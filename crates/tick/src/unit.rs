//! Ticks as decimals of a unit of time, rounded outward: the only conversion from ticks to what is printed.
//!
//! Idea: ticks over the declared frequency are a fraction, and integers round it to the digits that are shown. A
//! lower end is rounded down, an upper end and an amount to either side up, an estimate to the nearest; the amounts
//! beside a shown estimate are counted from what is shown. Guarantees: whoever reads the digits as a fraction finds
//! every bound at or outside the exact one; [`Unit::float_down`] and [`Unit::float_up`] hold as the double and as the
//! decimal that is written for it. Assumes: ticks of at most 64 bits, or thousandths of such. Deliberately absent:
//! how far the frequency itself is off, an error common to all figures.

use std::fmt;

/// A unit of time with a number of decimals, for ticks of a declared frequency.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Unit {
    hertz: i128,
    name: &'static str,
    per_second: u64,
    decimals: u32,
}

/// A decimal number as it is written, such as `-0.04`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Decimal {
    /// The number without its point.
    digits: i128,
    decimals: u32,
}

/// Where a fraction goes that lies between two decimals.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Toward {
    Down,
    Near,
    Up,
}

/// A double tells all decimals of so many digits apart, and is written as the one it was made of.
const DIGITS_OF_A_DOUBLE: u32 = 15;
/// From this many on, the next larger unit is easier to read.
const MOST_OF_A_UNIT: i128 = 100_000;

impl Unit {
    /// Nanoseconds with so many decimals. A frequency of 0 counts as 1 Hz.
    pub fn nanoseconds(hertz: u64, decimals: u32) -> Self {
        Self::new(hertz, "ns", 1_000_000_000, decimals)
    }

    /// Microseconds, as `µs`.
    pub fn microseconds(hertz: u64, decimals: u32) -> Self {
        Self::new(hertz, "µs", 1_000_000, decimals)
    }

    /// Milliseconds.
    pub fn milliseconds(hertz: u64, decimals: u32) -> Self {
        Self::new(hertz, "ms", 1_000, decimals)
    }

    /// Seconds.
    pub fn seconds(hertz: u64, decimals: u32) -> Self {
        Self::new(hertz, "s", 1, decimals)
    }

    /// The unit in which durations up to `ticks` have at most five digits before the point: microseconds or more.
    pub fn for_durations_up_to(hertz: u64, ticks: i64) -> Self {
        let units = [Self::microseconds(hertz, 2), Self::milliseconds(hertz, 3), Self::seconds(hertz, 4)];
        let fits = |unit: &Self| i128::from(ticks) * i128::from(unit.per_second) < MOST_OF_A_UNIT * unit.hertz;
        units.into_iter().find(fits).unwrap_or(units[2])
    }

    /// The same unit for a counter of parts of a tick, so many to one.
    pub fn of_parts(self, to_a_tick: u32) -> Self {
        Self { hertz: self.hertz * i128::from(to_a_tick.max(1)), ..self }
    }

    /// The same unit with other decimals.
    pub fn with_decimals(self, decimals: u32) -> Self {
        Self { decimals, ..self }
    }

    fn new(hertz: u64, name: &'static str, per_second: u64, decimals: u32) -> Self {
        Self { hertz: hertz.max(1).into(), name, per_second, decimals }
    }

    /// Its symbol.
    pub fn name(self) -> &'static str {
        self.name
    }

    /// How many of it are a second.
    pub fn per_second(self) -> u64 {
        self.per_second
    }

    /// Digits shown after the point.
    pub fn decimals(self) -> u32 {
        self.decimals
    }

    /// An estimate: the nearest decimal.
    pub fn near(self, ticks: impl Into<i128>) -> Decimal {
        self.rounded(ticks.into(), Toward::Near)
    }

    /// A lower end: the next decimal that is not above.
    pub fn down(self, ticks: impl Into<i128>) -> Decimal {
        self.rounded(ticks.into(), Toward::Down)
    }

    /// An upper end, or an amount to either side: the next decimal that is not below.
    pub fn up(self, ticks: impl Into<i128>) -> Decimal {
        self.rounded(ticks.into(), Toward::Up)
    }

    /// An estimate, and how far below and above what is shown of it the interval `[lo, hi]` reaches.
    pub fn around(self, estimate: i64, [lo, hi]: [i64; 2]) -> (Decimal, [Decimal; 2]) {
        let shown = self.near(estimate);
        (shown, [shown.less(self.down(lo)), self.up(hi).less(shown)])
    }

    /// An estimate as a double: the nearest decimal, or fewer digits where it has more than a double can hold.
    pub fn float_near(self, ticks: impl Into<i128>) -> f64 {
        self.float(ticks.into(), Toward::Near)
    }

    /// A lower end as a double: neither it nor the decimal that is written for it lies above.
    pub fn float_down(self, ticks: impl Into<i128>) -> f64 {
        self.float(ticks.into(), Toward::Down)
    }

    /// An upper end, or an amount, as a double: neither it nor the decimal that is written for it lies below.
    pub fn float_up(self, ticks: impl Into<i128>) -> f64 {
        self.float(ticks.into(), Toward::Up)
    }

    fn rounded(self, ticks: i128, toward: Toward) -> Decimal {
        let scaled = ticks * i128::from(self.per_second) * 10i128.pow(self.decimals);
        Decimal { digits: toward.divide(scaled, self.hertz), decimals: self.decimals }
    }

    fn float(self, ticks: i128, toward: Toward) -> f64 {
        let exact = (ticks * i128::from(self.per_second), self.hertz);
        outward(exact, self.decimals, toward)
    }
}

/// A fraction that bounds from below: the next decimal that is not above. The denominator is above 0.
pub fn decimal_down(numerator: i128, denominator: i128, decimals: u32) -> Decimal {
    Decimal { digits: Toward::Down.divide(numerator * 10i128.pow(decimals), denominator), decimals }
}

/// A fraction that bounds from above: the next decimal that is not below. The denominator is above 0.
pub fn decimal_up(numerator: i128, denominator: i128, decimals: u32) -> Decimal {
    Decimal { digits: Toward::Up.divide(numerator * 10i128.pow(decimals), denominator), decimals }
}

/// A fraction that bounds from below, as a double with at most 15 digits.
pub fn fraction_down(numerator: i128, denominator: i128) -> f64 {
    outward((numerator, denominator), DIGITS_OF_A_DOUBLE, Toward::Down)
}

/// A fraction that bounds from above, as a double with at most 15 digits.
pub fn fraction_up(numerator: i128, denominator: i128) -> f64 {
    outward((numerator, denominator), DIGITS_OF_A_DOUBLE, Toward::Up)
}

/// The double of a decimal with at most so many decimals, and of no more digits than a double holds.
fn outward(exact: (i128, i128), decimals: u32, toward: Toward) -> f64 {
    let (numerator, denominator) = (exact.0 * 10i128.pow(decimals), exact.1);
    let one = |zeros: u32| 10i128.pow(zeros);
    let digits = |zeros: u32| toward.divide(numerator, denominator * one(zeros));
    let mut zeros = 0;
    while digits(zeros).unsigned_abs() >= 10u128.pow(DIGITS_OF_A_DOUBLE) {
        zeros += 1;
    }
    let mut digits = digits(zeros);
    loop {
        // Both are whole numbers that doubles hold, so that one rounding is left, to the nearest.
        let double = match zeros.checked_sub(decimals) {
            None => digits as f64 / one(decimals - zeros) as f64,
            Some(zeros) => digits as f64 * one(zeros) as f64,
        };
        match (toward, compare(double, exact)) {
            (Toward::Down, std::cmp::Ordering::Greater) => digits -= 1,
            (Toward::Up, std::cmp::Ordering::Less) => digits += 1,
            _ => return double,
        }
    }
}

/// Compares a double with a fraction close to it, exactly.
fn compare(double: f64, (numerator, denominator): (i128, i128)) -> std::cmp::Ordering {
    if double == 0.0 {
        return 0.cmp(&numerator);
    }
    const FRACTION_BITS: u32 = f64::MANTISSA_DIGITS - 1;
    const EXPONENT_OF_1: i64 = 1023 + FRACTION_BITS as i64;
    let bits = double.abs().to_bits();
    let exponent = (bits >> FRACTION_BITS) as i64 - EXPONENT_OF_1;
    let mantissa = i128::from(bits & ((1 << FRACTION_BITS) - 1) | 1 << FRACTION_BITS);
    let mantissa = if double < 0.0 { -mantissa } else { mantissa };
    if exponent < 0 {
        (mantissa * denominator).cmp(&(numerator << -exponent))
    } else {
        ((mantissa << exponent) * denominator).cmp(&numerator)
    }
}

impl Toward {
    /// `denominator` is positive.
    fn divide(self, numerator: i128, denominator: i128) -> i128 {
        match self {
            Self::Down => numerator.div_euclid(denominator),
            Self::Near => (2 * numerator + denominator).div_euclid(2 * denominator),
            Self::Up => -(-numerator).div_euclid(denominator),
        }
    }
}

impl Decimal {
    /// The number without its point: `-4` of `-0.04`.
    pub fn digits(self) -> i128 {
        self.digits
    }

    /// The difference to a decimal of as many decimals.
    fn less(self, other: Self) -> Self {
        debug_assert_eq!(self.decimals, other.decimals);
        Self { digits: self.digits - other.digits, decimals: self.decimals }
    }
}

impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let one = 10u128.pow(self.decimals);
        let (whole, part) = (self.digits.unsigned_abs() / one, self.digits.unsigned_abs() % one);
        let sign = if self.digits < 0 { "-" } else { "" };
        match self.decimals {
            0 => write!(f, "{sign}{whole}"),
            width => write!(f, "{sign}{whole}.{part:0width$}", width = width as usize),
        }
    }
}

#[cfg(test)]
mod tests {
    use num_bigint::BigInt;
    use num_rational::BigRational;
    use num_traits::One;
    use proptest::prelude::*;

    use super::*;

    fn fraction(numerator: impl Into<BigInt>, denominator: impl Into<BigInt>) -> BigRational {
        BigRational::new(numerator.into(), denominator.into())
    }

    /// Read as a person would, digit by digit; `1.5e-7` too, which is how a double may be written.
    fn read(text: &str) -> BigRational {
        let (number, exponent) = text.split_once('e').unwrap_or((text, "0"));
        let (whole, part) = number.split_once('.').unwrap_or((number, ""));
        let digits: BigInt = format!("{whole}{part}").parse().unwrap();
        let exponent = exponent.parse::<i32>().unwrap() - part.len() as i32;
        let power = BigRational::from(BigInt::from(10)).pow(exponent);
        BigRational::from(digits) * power
    }

    fn exact(ticks: impl Into<i128>, hertz: u64, per_second: u64) -> BigRational {
        fraction(ticks.into() * i128::from(per_second), hertz)
    }

    /// What a double is, and what it is written as.
    fn both(double: f64) -> [BigRational; 2] {
        [BigRational::from_float(double).unwrap(), read(&format!("{double:?}"))]
    }

    fn any_hertz() -> impl Strategy<Value = u64> {
        let odd = [1, 3, 999_999_999, 1_000_000_000, 2_299_998_035, 2_449_995_997, 4_294_967_291, 10_000_000_000];
        prop_oneof![prop::sample::select(odd.to_vec()), 1..=10_000_000_000_u64, Just(u64::MAX)]
    }

    fn any_ticks() -> impl Strategy<Value = i64> {
        let ends = [i64::MIN, i64::MIN + 1, -1, 0, 1, i64::MAX - 1, i64::MAX];
        prop_oneof![prop::sample::select(ends.to_vec()), -100_000..100_000_i64, any::<i64>()]
    }

    fn any_unit() -> impl Strategy<Value = (fn(u64, u32) -> Unit, u64)> {
        type Made = fn(u64, u32) -> Unit;
        let units: [(Made, u64); 3] =
            [(Unit::nanoseconds, 1_000_000_000), (Unit::microseconds, 1_000_000), (Unit::seconds, 1)];
        prop::sample::select(units.to_vec())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4000))]
        #[test]
        fn property_no_printed_bound_lies_inside_the_exact_one(
            ticks in any_ticks(), hertz in any_hertz(), (unit, per_second) in any_unit(), decimals in 0..=4_u32,
        ) {
            let (unit, exact) = (unit(hertz, decimals), exact(ticks, hertz, per_second));
            let step = BigRational::one() / BigRational::from(BigInt::from(10).pow(decimals));
            let [down, near, up] = [unit.down(ticks), unit.near(ticks), unit.up(ticks)].map(|shown| read(&shown.to_string()));
            prop_assert!(down <= exact && &exact - &down < step, "{down} of {exact}");
            prop_assert!(up >= exact && &up - &exact < step, "{up} of {exact}");
            let off = if near < exact { &exact - &near } else { &near - &exact };
            prop_assert!(off.clone() + off <= step && down <= near && near <= up);
        }

        #[test]
        fn property_no_double_of_a_bound_lies_inside_the_exact_one_however_it_is_read(
            ticks in any_ticks(), hertz in any_hertz(),
        ) {
            let (unit, exact) = (Unit::nanoseconds(hertz, 3), exact(ticks, hertz, 1_000_000_000));
            let (down, near, up) = (unit.float_down(ticks), unit.float_near(ticks), unit.float_up(ticks));
            prop_assert!(both(down).iter().all(|read| *read <= exact), "{down} of {exact}");
            prop_assert!(both(up).iter().all(|read| *read >= exact), "{up} of {exact}");
            prop_assert!(down <= near && near <= up);
            // No wider than two steps of a thousandth, or of the last of 15 digits.
            let size = if exact < fraction(0, 1) { -exact.clone() } else { exact.clone() };
            let step = fraction(1, 1000).max(size * fraction(1, 100_000_000_000_000_i64));
            let two = step.clone() + step;
            prop_assert!(both(down)[1].clone() + &two >= exact && both(up)[1].clone() - &two <= exact);
        }

        #[test]
        fn property_what_is_shown_around_an_estimate_holds_the_interval(
            mut ends in prop::array::uniform3(any_ticks()), hertz in any_hertz(), decimals in 0..=3_u32,
        ) {
            ends.sort_unstable();
            let [lo, estimate, hi] = ends;
            let (shown, [below, above]) = Unit::microseconds(hertz, decimals).around(estimate, [lo, hi]);
            let [shown, below, above] = [shown, below, above].map(|part| read(&part.to_string()));
            prop_assert!(&shown - &below <= exact(lo, hertz, 1_000_000));
            prop_assert!(&shown + &above >= exact(hi, hertz, 1_000_000));
        }

        #[test]
        fn property_an_amount_beyond_63_bits_is_rounded_up_too(ticks in i64::MAX as u64.., hertz in any_hertz()) {
            let unit = Unit::nanoseconds(hertz, 3);
            let exact = exact(ticks, hertz, 1_000_000_000);
            prop_assert!(read(&unit.up(ticks).to_string()) >= exact);
            prop_assert!(both(unit.float_up(ticks)).iter().all(|read| *read >= exact));
        }

        #[test]
        fn property_a_fraction_is_rounded_outward(numerator in -(1_i128 << 66)..1 << 66) {
            let exact = fraction(numerator, 1_i128 << 62);
            let (down, up) = (fraction_down(numerator, 1 << 62), fraction_up(numerator, 1 << 62));
            prop_assert!(both(down).iter().all(|read| *read <= exact) && both(up).iter().all(|read| *read >= exact));
        }
    }

    #[test]
    fn a_bound_is_rounded_outward_to_the_digit_shown() {
        let unit = Unit::for_durations_up_to(3_000_000_000, 3_000_000);
        let shown = |ticks: i64| [unit.near(ticks), unit.down(ticks), unit.up(ticks)].map(|shown| shown.to_string());
        assert_eq!(shown(1), ["0.00", "0.00", "0.01"]);
        assert_eq!(shown(-1), ["0.00", "-0.01", "0.00"]);
        assert_eq!(shown(3_000), ["1.00"; 3]);
        assert_eq!(shown(-120), ["-0.04"; 3]);
        assert_eq!(Unit::nanoseconds(3_000_000_000, 0).up(u64::MAX).to_string(), "6148914691236517205");
    }

    /// A tenth is no double: the nearest one is above it.
    #[test]
    fn a_double_that_would_be_inside_goes_one_digit_further() {
        let unit = Unit::nanoseconds(10_000_000_000, 3);
        assert_eq!((unit.float_down(1), unit.float_near(1), unit.float_up(1)), (0.099, 0.1, 0.1));
        assert_eq!((unit.float_down(3), unit.float_up(3)), (0.3, 0.301));
        assert_eq!((unit.float_down(-1), unit.float_up(-1)), (-0.1, -0.099));
        assert_eq!((unit.float_down(5), unit.float_up(5)), (0.5, 0.5));
    }

    #[test]
    fn parts_of_a_tick_are_as_much_shorter() {
        let unit = Unit::nanoseconds(1_000_000_000, 3).of_parts(1000);
        assert_eq!(unit.up(1_001).to_string(), "1.001");
    }

    #[test]
    fn the_unit_grows_with_the_durations() {
        let name = |ticks| Unit::for_durations_up_to(1_000_000_000, ticks).name();
        assert_eq!(name(99_999_999), "µs");
        assert_eq!(name(100_000_000), "ms");
        assert_eq!((name(99_999_999_999), name(100_000_000_000)), ("ms", "s"));
    }
}
