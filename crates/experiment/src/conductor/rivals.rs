//! The run's part of rivals: programs that are asked about the nodes' clocks while the run goes on.
//!
//! Guarantees: whatever becomes of them is an event and ends no run.

use super::*;
use crate::roles::rivals::{ClientSettings, RivalReport, ServerSettings};

/// How an arrangement of namespaces is named ([`crate::agent::Look`]).
const OWN_NETWORK: &str = "network namespaces";

impl Conductor<'_> {
    /// The server on the reference, then a client on every other node; where a chronyd that runs already is asked, or
    /// the kernel, one on the reference, too: both clocks' bounds count between two nodes.
    pub(super) fn start_rivals(&mut self) -> Result<(), Error> {
        let plan = &self.plan.rivals;
        if plan.chrony.is_empty() && !plan.ptp4l && !plan.ntp {
            return Ok(());
        }
        let (reference, port) = (self.plan.reference_at(), plan.port());
        // ptp4l speaks to a whole network: only to one that is this run's alone.
        let ptp4l = plan.ptp4l && self.network.contains(OWN_NETWORK);
        if plan.ptp4l && !ptp4l {
            let why = "ptp4l was left out: its messages reach every machine of a network, and this one is not the \
                       run's own. network.kind = \"namespaces\" makes one";
            self.note(Event::RUN, EventKind::RivalMissing, None, why.into());
        }
        let ntp = plan.ntp;
        let (running, own): (Vec<_>, Vec<_>) = plan.chrony.iter().cloned().partition(|variant| variant.running);
        let address = self.nodes[reference].address.clone();
        let server = ServerSettings { address: address.clone(), port, chrony: !own.is_empty(), ptp4l };
        if server.chrony || server.ptp4l {
            self.start_helper(HelperKind::RivalServer, reference, reference, Role::RivalServe(server))?;
        }
        for at in 0..self.nodes.len() {
            let variants = if at == reference { running.clone() } else { plan.chrony.clone() };
            let ptp4l = ptp4l && at != reference;
            if variants.is_empty() && !ptp4l && !ntp {
                continue;
            }
            let own = self.nodes[at].address.clone();
            let client = ClientSettings { address: own, server: (address.clone(), port), variants, ptp4l, ntp };
            self.start_helper(HelperKind::RivalClient, at, at, Role::RivalAsk(client))?;
        }
        Ok(())
    }

    /// Ends them, clients first.
    pub(super) fn stop_rivals(&mut self) {
        for kind in [HelperKind::RivalClient, HelperKind::RivalServer] {
            for of in 0..self.nodes.len() {
                let Some(helper) = self.nodes[of].helper(kind).take() else { continue };
                let title = helper.role.title();
                let report = match helper.task {
                    Some(task) => self.end(helper.at, kind.row().service, task).and_then(|ended| ended.report()),
                    None => Err(Error::work(format!("the {title} {} died", self.nodes[of].name))),
                };
                let missing = match report {
                    Ok(RivalReport { missing, .. }) => missing,
                    Err(why) => vec![why.to_string()],
                };
                for text in missing {
                    self.note_at(of, EventKind::RivalMissing, None, text);
                }
            }
        }
    }
}
