//! The run's companion that records what the kernel does on the cores of this host, where the run file asks for it.
//!
//! Guarantees: whatever becomes of it is an event and ends no run.

use super::*;
use crate::roles::noise::NoiseReport;

impl Conductor<'_> {
    /// One recorder for all nodes of this host, named after the first; of those elsewhere nothing is recorded.
    pub(super) fn start_noise(&mut self) -> Result<(), Error> {
        let Some(settings) = self.plan.noise else { return Ok(()) };
        let here = self.plan.nodes.iter().position(|node| node.is_here());
        let boot = here.map(|at| self.record.run.manifest().nodes[at].boot);
        let elsewhere: Vec<usize> = (0..self.nodes.len())
            .filter(|&at| boot.is_none_or(|boot| self.record.run.manifest().nodes[at].boot != boot))
            .collect();
        for at in elsewhere {
            let why = "noise was not recorded: the node is on another host than the command that runs it, and only \
                       on that is it recorded";
            self.note_at(at, EventKind::NoiseMissing, None, why.into());
        }
        here.map_or(Ok(()), |at| self.start_helper(HelperKind::Noise, at, at, Role::Noise(settings)))
    }

    /// Ends it.
    pub(super) fn stop_noise(&mut self) {
        for of in 0..self.nodes.len() {
            let Some(helper) = self.nodes[of].helper(HelperKind::Noise).take() else { continue };
            let report = match helper.task {
                Some(task) => self.end(helper.at, Service::Rival, task).and_then(|ended| ended.report()),
                None => Err(Error::work("noise was not recorded to the end: its recorder died")),
            };
            let missing = report.map_or_else(|why| vec![why.to_string()], |NoiseReport { missing }| missing);
            missing.into_iter().for_each(|text| self.note_at(of, EventKind::NoiseMissing, None, text));
        }
    }
}
