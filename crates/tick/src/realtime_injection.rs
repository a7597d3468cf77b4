//! A known map put before a node's `CLOCK_REALTIME`: drift, wander, steps and slews that tests compare with.
//!
//! `y(x) = base(x) + (steps whose AT <= x) + sum of floor(PPB * (clamp(x, FROM, UNTIL) - FROM) / 10^9)`, with `x` and
//! `y` nanoseconds and `base` an [`Injection`]: exact in integers, the same in `tickscope.h`. A step is what
//! `clock_settime` does; a slew is what `adjtime` does, so the clocks that the kernel slews with REALTIME gain what
//! [`gained`] says.
//!
//! Guarantees: every description that is accepted is written back as it was read. Between two steps the map rises, but
//! each of its terms is rounded down by itself: of readings a few nanoseconds apart the later may be the smaller by as
//! many as there are slews. Deliberately absent: any change of the kernel's clock.
//!
//! [`gained`]: RealtimeInjection::gained

use std::fmt;
use std::str::FromStr;

use crate::simulated::{Slew, Step};
use crate::{Injection, InjectionError, Stairs};

/// A map from what `CLOCK_REALTIME` truly reads to what a node is made to read, in nanoseconds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RealtimeInjection {
    /// Offset, drift and wander.
    pub base: Injection,
    /// Sets of the clock; `at` in true nanoseconds, in any order.
    pub steps: Vec<Step>,
    /// Slews; `from` and `until` in true nanoseconds, in any order; overlapping ones add.
    pub slews: Vec<Slew>,
}

impl From<Injection> for RealtimeInjection {
    fn from(base: Injection) -> Self {
        Self { base, steps: Vec::new(), slews: Vec::new() }
    }
}

impl FromStr for RealtimeInjection {
    type Err = InjectionError;

    fn from_str(text: &str) -> Result<Self, InjectionError> {
        let mut parts = text.split(';');
        let base: Option<Injection> = parts.next().and_then(|base| base.parse().ok());
        let mut map = Self::from(base.ok_or_else(|| wrong(text))?);
        for part in parts {
            map.add(part).ok_or_else(|| wrong(text))?;
        }
        if map.steps.len() + map.slews.len() > Self::CHANGES { Err(wrong(text)) } else { Ok(map) }
    }
}

fn wrong(text: &str) -> InjectionError {
    InjectionError::of(
        RealtimeInjection::VARIABLE,
        "a map as in TICKSCOPE_INJECT, then at most 8 of ;step@AT:NS and \
         ;slew@FROM:UNTIL:PPB with FROM <= UNTIL and |PPB| <= 10^8",
        text,
    )
}

impl fmt::Display for RealtimeInjection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.base)?;
        for Step { at, ticks } in &self.steps {
            write!(f, ";step@{at}:{ticks}")?;
        }
        for Slew { from, until, rate_ppb } in &self.slews {
            write!(f, ";slew@{from}:{until}:{rate_ppb}")?;
        }
        Ok(())
    }
}

impl RealtimeInjection {
    /// The environment variable that `tickscope.h` and this crate read, once a process.
    pub const VARIABLE: &str = "TICKSCOPE_INJECT_REALTIME";
    /// Steps and slews together; what the C header has room for.
    pub const CHANGES: usize = 8;
    /// The steepest slew, either way; eight of them and the steepest base leave a clock that still runs forward.
    pub const STEEPEST_PPB: u64 = 100_000_000;

    /// The map that this process was started with; `None`: its `CLOCK_REALTIME` reads true.
    pub fn from_environment() -> Result<Option<Self>, InjectionError> {
        match std::env::var(Self::VARIABLE) {
            Ok(text) if !text.is_empty() => text.parse().map(Some),
            Err(std::env::VarError::NotUnicode(raw)) => Err(wrong(&raw.to_string_lossy())),
            _ => Ok(None),
        }
    }

    /// Adds `step@AT:NS` or `slew@FROM:UNTIL:PPB`.
    fn add(&mut self, change: &str) -> Option<()> {
        let (kind, fields) = change.split_once('@')?;
        let fields: Vec<i64> = fields.split(':').map(|field| field.parse().ok()).collect::<Option<_>>()?;
        match (kind, fields[..].as_ref()) {
            ("step", &[at, ticks]) => self.steps.push(Step { at, ticks }),
            ("slew", &[from, until, rate_ppb]) if from <= until && rate_ppb.unsigned_abs() <= Self::STEEPEST_PPB => {
                self.slews.push(Slew { from, until, rate_ppb });
            }
            _ => return None,
        }
        Some(())
    }

    /// What the node reads when `CLOCK_REALTIME` truly reads `x`.
    pub fn apply(&self, x: i64) -> i64 {
        let stepped = self.steps.iter().filter(|step| step.at <= x).map(|step| i128::from(step.ticks)).sum::<i128>();
        self.base.stairs.shown((i128::from(self.base.behind_stairs(x)) + stepped + self.slewed(x)) as i64)
    }

    /// What a clock that the kernel slews with `CLOCK_REALTIME`, and does not set with it, has gained when that truly
    /// reads `x`: all but offset and steps.
    pub fn gained(&self, x: i64) -> i64 {
        let drifted = i128::from(self.base.behind_stairs(x)) - i128::from(self.base.offset) - i128::from(x);
        (drifted + self.slewed(x)) as i64
    }

    fn slewed(&self, x: i64) -> i128 {
        let gained = |slew: &Slew| (i128::from(slew.elapsed(x)) * i128::from(slew.rate_ppb)).div_euclid(1_000_000_000);
        self.slews.iter().map(gained).sum()
    }

    /// Every true reading that is made to read `y`, as runs (first, last) in rising order: a step back makes it more
    /// than one, a step forward none.
    pub fn invert(&self, y: i64) -> Vec<(i64, i64)> {
        let stairs = self.base.stairs;
        if stairs.shown(y) != y {
            return Vec::new();
        }
        let flat = Self { base: Injection { stairs: Stairs::default(), ..self.base }, ..self.clone() };
        let mut all: Vec<(i64, i64)> = (y..stairs.next(y)).flat_map(|value| flat.invert_flat(value)).collect();
        all.sort_unstable();
        let mut runs: Vec<(i64, i64)> = Vec::new();
        for (first, last) in all {
            match runs.last_mut().filter(|run| run.1 + 1 == first) {
                Some(run) => run.1 = last,
                None => runs.push((first, last)),
            }
        }
        runs
    }

    /// Every true reading that is made to read `y`, where every value is shown.
    fn invert_flat(&self, y: i64) -> Vec<(i64, i64)> {
        let mut cuts: Vec<i64> = self.steps.iter().map(|step| step.at).collect();
        cuts.extend([i64::MIN, i64::MAX]);
        cuts.sort_unstable();
        cuts.windows(2).filter(|cut| cut[0] < cut[1]).flat_map(|cut| self.invert_between(cut[0], cut[1], y)).collect()
    }

    /// Those from `first` on and before `past`, where no step lies between.
    fn invert_between(&self, first: i64, past: i64, y: i64) -> Vec<(i64, i64)> {
        // As if the steps in force in this stretch had always been.
        let stepped: i64 = self.steps.iter().filter(|step| step.at <= first).map(|step| step.ticks).sum();
        let smooth = Self { steps: Vec::new(), ..self.clone() };
        let wanted = y - stepped;
        // The rate is at least 1 - 0.1 - 8 * 0.1, so a tenth of any distance is made good; each term is rounded down by
        // itself, by less than one nanosecond.
        let rounding = 10 * (2 + self.slews.len() as i64);
        let guess = wanted - self.base.offset;
        let reach = 10 * (smooth.apply(guess) - wanted).abs() + rounding;
        let (mut below, mut reached) = (guess - reach, guess + reach);
        while reached - below > 1 {
            let middle = below + (reached - below) / 2;
            if smooth.apply(middle) >= wanted { reached = middle } else { below = middle }
        }
        let mut runs: Vec<(i64, i64)> = Vec::new();
        for x in (reached - rounding).max(first)..(reached + rounding).min(past) {
            if smooth.apply(x) != wanted {
                continue;
            }
            match runs.last_mut() {
                Some(run) if run.1 + 1 == x => run.1 = x,
                _ => runs.push((x, x)),
            }
        }
        runs
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const BILLION: i128 = 1_000_000_000;

    /// The same map by adding up what each nanosecond brings, in exact fractions.
    fn added_up(map: &RealtimeInjection, x: i64) -> i128 {
        let Injection { anchor, offset, drift_ppb, wander_ppb, wander_period, stairs } = map.base;
        let (unit, period) = (BILLION * i128::from(wander_period), i128::from(wander_period));
        // The rate is linear over a nanosecond, so its mean there is its value at the middle.
        let brings = |d: i64| {
            let phase = i128::from(d.rem_euclid(wander_period));
            let (sign, p) = if 2 * phase < period { (1, phase) } else { (-1, phase - period / 2) };
            i128::from(drift_ppb) * period + sign * i128::from(wander_ppb) * (period - 4 * p - 2)
        };
        let drifted: i128 =
            if x >= anchor { (0..x - anchor).map(brings).sum() } else { -(x - anchor..0).map(brings).sum::<i128>() };
        let mut y = i128::from(x) + i128::from(offset) + drifted.div_euclid(unit);
        for slew in &map.slews {
            let inside = (slew.from..slew.until).filter(|&moment| moment < x).count() as i128;
            y += (inside * i128::from(slew.rate_ppb)).div_euclid(BILLION);
        }
        y += map.steps.iter().filter(|step| x >= step.at).map(|step| i128::from(step.ticks)).sum::<i128>();
        stairs.shown(y as i64).into()
    }

    fn maps() -> impl Strategy<Value = RealtimeInjection> {
        let steep = -49_999_999i64..49_999_999;
        let base = (-300i64..300, -5000i64..5000, steep.clone(), steep, 1i64..200, 1i64..90).prop_map(
            |(anchor, offset, drift_ppb, wander_ppb, half, step)| Injection {
                anchor,
                offset,
                drift_ppb,
                wander_ppb,
                wander_period: 2 * half,
                stairs: Stairs::new(step, 2, step / 7).unwrap_or_default(),
            },
        );
        let step = (-400i64..400, -500i64..500).prop_map(|(at, ticks)| Step { at, ticks });
        let slew = (-400i64..400, 0i64..500, -100_000_000i64..=100_000_000).prop_map(|(from, length, rate_ppb)| Slew {
            from,
            until: from + length,
            rate_ppb,
        });
        (base, prop::collection::vec(step, 0..4), prop::collection::vec(slew, 0..5))
            .prop_map(|(base, steps, slews)| RealtimeInjection { base, steps, slews })
    }

    #[test]
    fn a_description_that_breaks_a_limit_is_refused_with_what_was_found() {
        let at_the_limit = format!("0:0:0:0:2{}", ";step@1:2".repeat(8));
        assert!(at_the_limit.parse::<RealtimeInjection>().is_ok());
        assert!("0:0:0:0:2;slew@5:5:100000000;slew@5:5:-100000000".parse::<RealtimeInjection>().is_ok());
        for text in [
            "",
            "0:0:0:0:3",
            "0:0:0:0:2;",
            "0:0:0:0:2;step@1",
            "0:0:0:0:2;step@1:2:3",
            "0:0:0:0:2;slew@1:2",
            "0:0:0:0:2;slew@2:1:5",
            "0:0:0:0:2;slew@1:2:100000001",
            "0:0:0:0:2;slew@1:2:-100000001",
            "0:0:0:0:2;jump@1:2",
            &format!("{at_the_limit};slew@1:2:3"),
        ] {
            let refused = text.parse::<RealtimeInjection>().unwrap_err().to_string();
            assert!(
                refused.contains(&format!("'{text}'")) && refused.contains("TICKSCOPE_INJECT_REALTIME"),
                "{refused}"
            );
        }
    }

    #[test]
    fn a_map_around_the_present_is_exact() {
        let now = 1_766_000_000_123_456_789;
        let map: RealtimeInjection =
            format!("{now}:5:12500:0:2;step@{}:-1000000;slew@{now}:{}:-500000", now + 7, now + 10).parse().unwrap();
        assert_eq!(map.apply(now + 6) - now, 5 + 6 - 1);
        assert_eq!(map.apply(now + 7) - now, 5 + 7 - 1 - 1_000_000);
        let hour = 3_600_000_000_000;
        assert_eq!(map.apply(now + hour) - now, 5 + hour + 45_000_000 - 1 - 1_000_000);
        assert_eq!(map.gained(now + hour), 45_000_000 - 1);
    }

    proptest! {
        #[test]
        fn property_the_map_is_what_its_nanoseconds_add_up_to(map in maps(), x in -1000i64..1000) {
            prop_assert_eq!(i128::from(map.apply(x)), added_up(&map, x));
        }

        #[test]
        fn property_a_map_survives_being_written_and_read(map in maps()) {
            prop_assert_eq!(map.to_string().parse(), Ok(map));
        }

        #[test]
        fn property_what_is_gained_is_all_but_offset_and_steps(map in maps(), x in -1000i64..1000) {
            let offset = Injection { offset: 0, stairs: Stairs::default(), ..map.base };
            let still = RealtimeInjection { base: offset, steps: Vec::new(), ..map.clone() };
            prop_assert_eq!(still.gained(x), still.apply(x) - x);
            prop_assert_eq!(map.gained(x), still.gained(x));
        }

        #[test]
        fn property_inversion_finds_exactly_the_true_readings(map in maps(), y in -7000i64..7000) {
            // The base runs at nine tenths at least, and slews and steps take 2 000 at most, stairs 60.
            let all: Vec<i64> = (-20_000..20_000).filter(|&x| map.apply(x) == y).collect();
            let found: Vec<i64> = map.invert(y).into_iter().flat_map(|(first, last)| first..=last).collect();
            prop_assert_eq!(found, all);
        }
    }
}
