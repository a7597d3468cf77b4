//! Advice: which settings of a machine make noise, and what each is worth by a profile.
//!
//! Idea: a setting moves detours of one class, and what these lost is the most that changing it can win. Guarantees: a
//! setting that could not be read says so, and so does a worth that the profile does not tell; nothing is guessed. A
//! worth is an interval. Deliberately absent: changing anything; whether a change would break something else.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};
use tickscope_tick::{fraction_down, fraction_up};

use crate::cause::{CauseClass, CauseSum, NOBODY};
use crate::profile::{CoreProfile, NoiseProfile};

/// Settings that make noise.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Lever {
    /// Cores that the scheduler gives to nobody who does not ask for them.
    IsolatedCores,
    /// Cores without a timer's tick while one task runs.
    TicklessCores,
    /// Cores that devices interrupt.
    InterruptAffinity,
    /// How the kernel chooses frequencies.
    Governor,
    /// Whether memory is given in huge pages.
    HugePages,
    /// What real-time tasks are held to.
    RealTimeLimit,
    /// Time that the hypervisor takes.
    Steal,
}

/// A setting as it was found when a profile was taken.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct MachineSetting {
    /// Which.
    pub lever: Lever,
    /// What it was; `None`: see `unread`.
    pub found: Option<String>,
    /// Why it could not be read.
    pub unread: Option<String>,
}

/// What is said of a setting.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Advice {
    /// The setting.
    #[serde(flatten)]
    pub setting: MachineSetting,
    /// What to change; `None`: nothing, or nobody knows.
    pub change: Option<String>,
    /// The most that it can win; `None`: the profile does not tell.
    pub worth: Option<Worth>,
}

/// What the detours of a setting lost, of all cores that were measured.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Worth {
    /// Detours.
    pub count: u64,
    /// The part of all that was lost, from and to.
    pub of_lost: [f64; 2],
    /// The part of the time, from and to.
    pub of_time: [f64; 2],
}

/// Reads the settings of this machine for some of its cores; `root` is `/`, but for tests.
pub fn settings(root: &Path, cores: &[usize]) -> Vec<MachineSetting> {
    let read = |place: &str| {
        let text = fs::read_to_string(root.join(place));
        text.map(|text| text.trim().to_string()).map_err(|e| format!("cannot read /{place}: {e}"))
    };
    let governors = || {
        let of = |core: &usize| read(&format!("sys/devices/system/cpu/cpu{core}/cpufreq/scaling_governor"));
        let all: BTreeSet<String> = cores.iter().map(of).collect::<Result<_, String>>()?;
        Ok::<_, String>(all.into_iter().collect::<Vec<_>>().join(", "))
    };
    let setting = |lever, found: Result<String, String>| {
        let (found, unread) = found.map_or_else(|why| (None, Some(why)), |found| (Some(found), None));
        MachineSetting { lever, found, unread }
    };
    vec![
        setting(Lever::IsolatedCores, read("sys/devices/system/cpu/isolated")),
        setting(Lever::TicklessCores, read("sys/devices/system/cpu/nohz_full")),
        setting(Lever::InterruptAffinity, interrupts(root, cores)),
        setting(Lever::Governor, governors()),
        setting(Lever::HugePages, read("sys/kernel/mm/transparent_hugepage/enabled")),
        setting(Lever::RealTimeLimit, read("proc/sys/kernel/sched_rt_runtime_us")),
    ]
}

/// Numbers of the interrupts that these cores get.
fn interrupts(root: &Path, cores: &[usize]) -> Result<String, String> {
    let place = root.join("proc/irq");
    let entries = fs::read_dir(&place).map_err(|e| format!("cannot read /proc/irq: {e}"))?;
    let mut found = BTreeSet::new();
    for entry in entries.flatten() {
        let Some(number) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
        let list = fs::read_to_string(entry.path().join("effective_affinity_list"))
            .map_err(|e| format!("cannot read /proc/irq/{number}/effective_affinity_list: {e}"))?;
        if cores.iter().any(|core| holds(&list, *core)) {
            found.insert(number);
        }
    }
    Ok(found.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "))
}

/// Whether a list such as `0-2,5` has a core.
fn holds(list: &str, core: usize) -> bool {
    list.trim().split(',').any(|range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let ends = first.trim().parse::<usize>().ok().zip(last.trim().parse::<usize>().ok());
        ends.is_some_and(|(first, last)| (first..=last).contains(&core))
    })
}

/// What to change on the profile's machine, what is worth most first; then what needs no change.
pub fn advice(profile: &NoiseProfile) -> Vec<Advice> {
    let cores: BTreeSet<usize> = profile.cores.iter().map(|of| of.core).collect();
    let stolen = profile.cores.iter().find_map(|of| of.stolen_ns);
    let steal = MachineSetting {
        lever: Lever::Steal,
        found: stolen.map(|_| stolen_words(profile)),
        unread: stolen.is_none().then(|| "/proc/stat has no steal time here".into()),
    };
    let settings = profile.machine.settings.iter().chain([&steal]);
    let mut all: Vec<Advice> = settings
        .map(|setting| {
            let change = setting.found.as_deref().and_then(|found| setting.lever.change(found, &cores));
            Advice { setting: setting.clone(), change, worth: setting.lever.worth(profile) }
        })
        .collect();
    let most = |advice: &Advice| advice.worth.map_or(0.0, |worth| worth.of_lost[1]);
    all.sort_by(|a, b| a.change.is_none().cmp(&b.change.is_none()).then(most(b).total_cmp(&most(a))));
    all
}

/// Of cores that were measured several times, with memory used in several ways, the first says it.
fn stolen_words(profile: &NoiseProfile) -> String {
    let mut told = BTreeSet::new();
    let first = profile.cores.iter().filter(|of| told.insert(of.core));
    let of = |of: &CoreProfile| match of.stolen_ns {
        Some([lo, hi]) => format!("core {}: {} to {} ms", of.core, lo / 1_000_000, hi / 1_000_000),
        None => format!("core {}: not told", of.core),
    };
    first.map(of).collect::<Vec<_>>().join(", ")
}

impl Lever {
    fn change(self, found: &str, cores: &BTreeSet<usize>) -> Option<String> {
        let outside = |list: &str| {
            let others: Vec<String> = cores.iter().filter(|core| !holds(list, **core)).map(usize::to_string).collect();
            (!others.is_empty()).then(|| others.join(","))
        };
        match self {
            Self::IsolatedCores => outside(found).map(|cores| {
                format!(
                    "keep other tasks off: boot with isolcpus={cores}, or put all others into a cpuset without them"
                )
            }),
            Self::TicklessCores => outside(found).map(|cores| {
                format!("stop the timer's tick while one task runs: boot with nohz_full={cores} rcu_nocbs={cores}")
            }),
            Self::InterruptAffinity => (!found.is_empty()).then(|| {
                "send devices elsewhere: other cores into /proc/irq/NUMBER/smp_affinity_list (and stop irqbalance)"
                    .into()
            }),
            Self::Governor => (found != "performance")
                .then(|| "hold the frequency: performance into each cpufreq/scaling_governor of these cores".into()),
            Self::HugePages => Some(match found.contains("[always]") {
                true => {
                    "let programs ask for huge pages: madvise into transparent_hugepage/enabled; clearing 2 MiB is \
                         one long fault"
                        .into()
                }
                false => {
                    "touch memory before it is measured, or lock it (mlockall): pages fault at their first use".into()
                }
            }),
            Self::RealTimeLimit => (found != "-1").then(|| {
                "only for a program that never spins: -1 into sched_rt_runtime_us; since Linux 6.12 the fair server, \
                 debug/sched/fair_server/cpuN/runtime, does the same"
                    .into()
            }),
            Self::Steal => Some("ask the host for cores of its own (pinned, not shared): no setting here helps".into()),
        }
    }

    /// `None`: no class of causes has it, or causes were not recorded on all cores.
    fn worth(self, profile: &NoiseProfile) -> Option<Worth> {
        let causes: Vec<&CauseSum> = profile
            .cores
            .iter()
            .map(|of| of.causes.as_ref())
            .collect::<Option<Vec<_>>>()?
            .into_iter()
            .flatten()
            .collect();
        if self == Self::Governor || causes.is_empty() {
            return None;
        }
        let sums = |wanted: bool| {
            let own = causes.iter().filter(|sum| self.moves(sum) == wanted);
            own.fold((0, [0_i128; 2]), |(count, lost), sum| {
                (count + sum.count, [0, 1].map(|end| lost[end] + i128::from(sum.lost_ticks[end])))
            })
        };
        let ((count, [lo, hi]), (_, [rest_lo, rest_hi])) = (sums(true), sums(false));
        let measured: i128 = profile.cores.iter().map(|of| i128::from(of.measured_ticks)).sum();
        let part = |[lo, hi]: [i128; 2], of: [i128; 2]| {
            [fraction_down(lo, of[0].max(1)), fraction_up(hi, of[1].max(1)).min(1.0)]
        };
        Some(Worth {
            count,
            of_lost: part([lo, hi], [lo + rest_hi, hi + rest_lo]),
            of_time: part([lo, hi], [measured; 2]),
        })
    }

    /// Whether a cause is what this setting moves.
    fn moves(self, sum: &CauseSum) -> bool {
        let (class, what) = (sum.cause.class, sum.cause.what.as_str());
        let is_device = what.starts_with("irq ");
        match self {
            // Nobody had the core of a thread that a limit or a signal stopped: isolation keeps nobody away there.
            Self::IsolatedCores => class == CauseClass::Switch && sum.cause.waited != Some(true) && what != NOBODY,
            Self::TicklessCores => match class {
                CauseClass::Interrupt => what == "local_timer",
                CauseClass::Softirq => matches!(what, "TIMER" | "SCHED" | "HRTIMER" | "RCU"),
                _ => false,
            },
            Self::InterruptAffinity => match class {
                CauseClass::Interrupt => is_device,
                CauseClass::Softirq => matches!(what, "NET_RX" | "NET_TX" | "BLOCK" | "IRQ_POLL"),
                _ => false,
            },
            Self::Governor => false,
            Self::HugePages => class == CauseClass::Fault,
            Self::RealTimeLimit => class == CauseClass::RealTimeLimit,
            Self::Steal => class == CauseClass::HypervisorOrHardware,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comparison::tests::profile;

    #[test]
    fn a_setting_that_cannot_be_read_says_so_and_is_no_advice() {
        let root = std::env::temp_dir().join(format!("tickscope-advice-{}", std::process::id()));
        for (place, text) in [
            ("sys/devices/system/cpu/isolated", "0\n"),
            ("proc/irq/24/effective_affinity_list", "1\n"),
            ("proc/irq/31/effective_affinity_list", "0\n"),
            ("proc/sys/kernel/sched_rt_runtime_us", "-1\n"),
        ] {
            let place = root.join(place);
            fs::create_dir_all(place.parent().unwrap()).unwrap();
            fs::write(place, text).unwrap();
        }
        let mut of = profile(&[vec![500]], None);
        of.machine.settings = settings(&root, &[0]);
        fs::remove_dir_all(&root).unwrap();
        let all = advice(&of);
        let of = |lever| all.iter().find(|one| one.setting.lever == lever).unwrap();
        assert_eq!(of(Lever::InterruptAffinity).setting.found.as_deref(), Some("31"));
        assert_eq!((&of(Lever::IsolatedCores).change, &of(Lever::RealTimeLimit).change), (&None, &None));
        for unread in [Lever::TicklessCores, Lever::Governor, Lever::HugePages, Lever::Steal] {
            let Advice { setting, change, .. } = of(unread);
            assert!(setting.unread.is_some() && setting.found.is_none() && change.is_none(), "{setting:?}");
        }
        assert!(all.iter().all(|one| one.worth.is_none()), "causes were not recorded: {all:?}");
    }

    #[test]
    fn a_worth_is_what_the_causes_of_its_setting_lost_and_all_of_them_bound_it() {
        let mut of = profile(&[vec![10_000, 30_000]], Some(CauseClass::Switch));
        let mut faults = profile(&[vec![5_000]], Some(CauseClass::Fault)).cores.remove(0);
        faults.core = 1;
        of.cores.push(faults);
        let [switches, faults, tick] =
            [Lever::IsolatedCores, Lever::HugePages, Lever::TicklessCores].map(|lever| lever.worth(&of).unwrap());
        let truth = 40_000.0 / 45_000.0;
        let [lo, hi] = switches.of_lost;
        assert!(lo < truth && truth < hi && hi - lo < 0.01 && switches.count == 2, "{switches:?}");
        assert!(faults.of_lost[0] + lo <= 1.0 && faults.of_lost[1] + hi >= 1.0 && faults.count == 1, "{faults:?}");
        assert_eq!((tick.count, tick.of_lost, tick.of_time), (0, [0.0; 2], [0.0; 2]));
        let named = |class, what: &str| {
            let mut of = profile(&[vec![10_000]], Some(class));
            of.cores[0].causes.as_mut().unwrap()[0].cause.what = what.into();
            [Lever::IsolatedCores, Lever::TicklessCores].map(|lever| lever.worth(&of).unwrap().count)
        };
        assert_eq!(named(CauseClass::Switch, NOBODY), [0, 0], "a quota of its group, or a signal, stopped it");
        assert_eq!(named(CauseClass::Softirq, "TIMER"), [0, 1], "the tick raised it");
        assert_eq!(named(CauseClass::Softirq, "BLOCK"), [0, 0]);
    }
}
