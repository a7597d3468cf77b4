//! Method I under loads that work and rest by turns, from long turns to short ones: where it stops helping (the Cm*
//! study, 4.6).
//!
//! Every clock is tested under every length of turn in several rounds: two passes over all of them, so that what else
//! the machine does meanwhile is spread, and each window in pieces one after another. Each round gives a k of its own,
//! and their order tells what k lies between. A single window told little: what one run called 1.42 the next called
//! 0.60.

use std::io;
use std::sync::Arc;

use tickscope_counter as counter;
use tickscope_host::facts::CounterFacts;
use tickscope_host::posix_clock::PosixClock;
use tickscope_host::{Finding, affinity};
use tickscope_stats::{Quantile, Sample};
use tickscope_tick::Ordering;

use super::benchmark::{marked_trials, no_load, unreachable_clock};
use super::clock::{Clock, Unit};
use super::recording::{self, Recorded, Window, read_costs};
use super::running_load::RunningLoad;
use super::service::Service;
use crate::benchmark::{Lag, PulseTest, SectionTest, Sweep};
use crate::compensation::{Halves, Length, Memory, Method, Trial, judge};
use crate::factor::Factor;
use crate::load::{Injection, Load};

/// Passes over all tests; the second as far as the time goes.
const PASSES: usize = 2;
/// Rounds of a window: the fewest of which any two bound the median with 95 %, the least and the greatest. Each holds a
/// turn of the load at least.
const ROUNDS: usize = 6;

/// Clocks whose readings take from nanoseconds to microseconds; readers of the mutex's are felt by each other.
const SWEPT: [Clock; 5] = [
    Clock::Counter(Ordering::After),
    Clock::Mutex,
    Clock::Library(PosixClock::MONOTONIC),
    Clock::SystemCall(PosixClock::MONOTONIC),
    Clock::UdpSocket,
];

/// Tests sections of no length under a load that works and rests by turns, for every pulse and every clock.
pub fn pulses(sweep: &Sweep, facts: &CounterFacts, progress: &mut dyn FnMut(&str)) -> Result<Vec<PulseTest>, Finding> {
    let cpus = affinity::allowed_cpus()?;
    let ticks_per_ns = facts.frequency.hertz as f64 / 1e9;
    let begun = counter::plain();
    let latest = begun + (sweep.seconds * facts.frequency.hertz as f64) as i64;
    let mut rounds: Vec<Vec<Vec<Recorded>>> = vec![Vec::new(); sweep.pulses_ns.len() * SWEPT.len()];
    let mut turns: Vec<Vec<f64>> = vec![Vec::new(); rounds.len()];
    for pass in 0..PASSES {
        for (of, &pulse_ns) in sweep.pulses_ns.iter().enumerate() {
            let load = Load { injected: Some(Injection::by_turns(pulse_ns)), ..sweep.load.clone() };
            for (number, &clock) in SWEPT.iter().enumerate() {
                let place = of * SWEPT.len() + number;
                let left = PASSES * rounds.len() - (pass * rounds.len() + place);
                let time = latest - counter::plain();
                if pass > 0 && time <= 0 {
                    continue;
                }
                progress(&format!("pass {} of {PASSES}: {clock}, pulses of {pulse_ns} ns", pass + 1));
                let service =
                    Service::open(clock, cpus[cpus.len() - 1]).map_err(|error| unreachable_clock(clock, &error))?;
                let service = Arc::new(service);
                let count = sweep.busy_processes;
                let running = RunningLoad::start(&load, count, clock, &service, &cpus, facts.frequency)
                    .map_err(|error| no_load(count, &error))?;
                // Long turns need longer windows; short ones make up for it.
                let least = (2 * ROUNDS) as f64 * f64::from(pulse_ns) * ticks_per_ns;
                let share = time / left as i64;
                let ticks = share.max((least as i64).min(4 * share)).max(1);
                let window = Window { cpus: &cpus, readers: 1, ticks, unit_per_tick: 1.0, latest };
                let trials =
                    recording::trials(&service, window, 0).map_err(|error| unreachable_clock(clock, &error))?;
                rounds[place].extend(trials.chunks(trials.len().div_ceil(ROUNDS)).map(<[Recorded]>::to_vec));
                turns[place].extend(running.turns_per_s());
            }
        }
    }
    let mut found = Vec::new();
    for (place, rounds) in rounds.iter().enumerate() {
        let (pulse_ns, clock) = (sweep.pulses_ns[place / SWEPT.len()], SWEPT[place % SWEPT.len()]);
        let ns = if clock.unit() == Unit::Ticks { facts.frequency.nanoseconds(1.0) } else { 1.0 };
        let tick_ns = facts.frequency.nanoseconds(1.0);
        let turns = &turns[place];
        let turns_per_s = (!turns.is_empty()).then(|| turns.iter().sum::<f64>() / turns.len() as f64);
        let test =
            pulse_test(rounds, ns, tick_ns).map_err(|error| unreachable_clock(clock, &io::Error::other(error)))?;
        found.push(PulseTest { clock: clock.to_string(), pulse_ns, turns_per_s, ..test });
    }
    Ok(found)
}

/// Figures of one test from its rounds; the caller fills in the clock, the pulse length and the turns.
fn pulse_test(rounds: &[Vec<Recorded>], ns: f64, tick_ns: f64) -> Result<PulseTest, tickscope_stats::Error> {
    let each: Vec<Vec<Trial>> = rounds.iter().map(|round| marked_trials(round, |_| 0, tick_ns)).collect();
    let all: Vec<Trial> = each.concat();
    let recorded: Vec<Recorded> = rounds.concat();
    let verdict = judge(Halves::of(&all), &read_costs(&recorded[..recorded.len() / 2]), Length::Zero)?;
    let mut test = SectionTest::new(0, all.len(), verdict.in_nanoseconds(ns), Some("not tried".into()));
    // Each round holds a turn of the load at least: their order tells what any round may give.
    let memory = |round: &Vec<Recorded>| Memory::of(&read_costs(round));
    test.rho_1 = Factor::of(rounds.iter().map(|round| Some(memory(round)?.rho_1)));
    test.k_predicted = Factor::of(rounds.iter().map(|round| Some(memory(round)?.predicted_k(Length::Zero))));
    if let Some(pairs) = test.outcomes.iter_mut().find(|outcome| outcome.method == Method::NearestPairs) {
        pairs.k = Factor::of(each.iter().map(|round| k_of_pairs(round, |_| true)));
        pairs.k_untouched = Factor::of(each.iter().map(|round| k_of_pairs(round, |trial| !trial.touched)));
    }
    let cost_ns = Sample::new(&read_costs(&recorded))?.quantile(Quantile::MEDIAN) as f64 * ns;
    let profile = profile(rounds, tick_ns);
    Ok(PulseTest { clock: String::new(), pulse_ns: 0, turns_per_s: None, cost_ns, profile, test })
}

/// `Var(T_m) / Var(T_A)` of Method I, which fits nothing.
fn k_of_pairs(trials: &[Trial], counts: impl Fn(&Trial) -> bool) -> Option<f64> {
    let counted: Vec<&Trial> = trials.iter().filter(|trial| counts(trial)).collect();
    let variance = |of: fn(&Trial) -> i64| {
        let values: Vec<i64> = counted.iter().map(|trial| of(trial)).collect();
        Some(Sample::new(&values).ok()?.moments().variance)
    };
    let before = variance(|trial| 2 * trial.t_m)?;
    let after = variance(|trial| 2 * trial.t_m - trial.t_1 - trial.t_4)?;
    (before > 0.0).then(|| before / after)
}

/// How like one another readings are that are so far apart in time: the load's time profile.
fn profile(rounds: &[Vec<Recorded>], tick_ns: f64) -> Vec<Lag> {
    const LAGS: [usize; 12] = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048];
    let apart = |round: &Vec<Recorded>, lag: usize| {
        let mut apart: Vec<i64> = round.windows(lag + 1).map(|pair| pair[lag].from - pair[0].from).collect();
        Quantile::MEDIAN.of(&mut apart)
    };
    let lag = |lag: usize| {
        // Of fewer pairs a correlation is chance.
        let long: Vec<&Vec<Recorded>> =
            rounds.iter().filter(|round| round.len() >= 4 * lag && round.len() > 64).collect();
        let rho = Factor::of(long.iter().map(|round| {
            let costs: Vec<i64> = round.iter().map(|trial| trial.t_m).collect();
            Memory::at(&costs, lag)
        }))?;
        let apart: Option<Vec<i64>> = long.iter().map(|round| apart(round, lag)).collect();
        Some(Lag { lag_ns: Quantile::MEDIAN.of(&mut apart?)? as f64 * tick_ns, rho })
    };
    LAGS.into_iter().filter_map(lag).collect()
}
