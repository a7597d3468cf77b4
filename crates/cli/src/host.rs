//! This host's facts, in the words of a run's manifest.

use tickscope_store as store;
use tickscope_tick::facts::CounterFacts;
use tickscope_tick::sharing::Sharing;

use crate::failure::Failure;

/// What is known of the machine before measuring.
pub struct Host {
    pub facts: CounterFacts,
    pub sharing: Sharing,
}

impl Host {
    /// Looks at this host; takes a few hundred milliseconds.
    pub fn look() -> Result<Self, Failure> {
        let facts = CounterFacts::of_this_host().map_err(Failure::work)?;
        let sharing = Sharing::of_this_host().map_err(Failure::work)?;
        Ok(Self { facts, sharing })
    }

    /// The counter as the manifest has it.
    pub fn counter(&self) -> store::CounterFacts {
        let facts = &self.facts;
        store::CounterFacts {
            counter: facts.counter,
            invariant: facts.invariant().unwrap_or(false),
            clocksource: facts.clocksource.clone().unwrap_or_else(|| "unknown".into()),
            hypervisor: facts.hypervisor.clone().filter(|name| !name.is_empty()),
            trapped: facts.trapped(),
            frequency: store::DeclaredFrequency {
                hertz: facts.frequency.hertz,
                tolerance_ppm: facts.frequency.tolerance_ppm,
                origin: facts.frequency_origin.to_string(),
            },
            sharing: store::Sharing { bound_ticks: self.sharing.within_ticks(), checked: self.sharing.to_string() },
        }
    }

    /// A node of this host.
    pub fn node(&self, name: store::Name, command: Vec<String>) -> Result<store::Node, Failure> {
        let boot = self.facts.boot.ok_or_else(|| {
            Failure::work("expected a boot id in /proc/sys/kernel/random/boot_id, found none. Mount /proc")
        })?;
        Ok(store::Node {
            name,
            boot,
            cpu_model: self.facts.cpu_model.clone().unwrap_or_else(|| "unknown".into()),
            kernel: self.facts.kernel_release.clone().unwrap_or_else(|| "unknown".into()),
            counter: self.counter(),
            command,
            injected: None,
        })
    }
}
