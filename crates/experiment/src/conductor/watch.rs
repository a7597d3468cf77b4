//! Processes of tickscope that die while the run goes on are started again.
//!
//! Guarantees: a collector, a probe or a clock monitor that dies is started again at once, each time an event; one that
//! keeps dying is started again after pauses, for as long as the run goes on. Stamps wait in shared memory meanwhile.

use super::*;
use crate::node_role::{Helper, HelperKind, HelperRow};
use crate::roles::probe::Order;

/// Restarts without a pause: what dies so often dies by a cause that lasts.
const AT_ONCE: u32 = 5;
const PAUSE: Duration = Duration::from_secs(1);
/// Each so-many-th of later failures is told.
const TOLD_EVERY: u32 = 10;

impl Conductor<'_> {
    pub(super) fn start_helper(&mut self, kind: HelperKind, of: usize, at: usize, role: Role) -> Result<(), Error> {
        let task = self.start_role(at, role.clone())?;
        *self.nodes[of].helper(kind) = Some(Helper::running(role, at, task));
        Ok(())
    }

    /// Starts again what has died.
    pub(super) fn revive(&mut self) -> Result<(), Error> {
        for of in 0..self.nodes.len() {
            for kind in HelperKind::ALL {
                let Some(mut helper) = self.nodes[of].helper(kind).take() else { continue };
                let outcome = self.revive_one(of, kind, &mut helper);
                *self.nodes[of].helper(kind) = Some(helper);
                outcome?;
            }
        }
        Ok(())
    }

    fn revive_one(&mut self, of: usize, kind: HelperKind, helper: &mut Helper) -> Result<(), Error> {
        if self.agent(helper.at).connection() != Connection::Open {
            return Ok(()); // nobody knows what is dead there
        }
        if let Some(task) = helper.task {
            if self.agent(helper.at).is_running(task)? {
                return Ok(());
            }
            helper.task = None;
            let how = match self.end(helper.at, kind.row().service, task) {
                Ok(ended) => format!("failed with {}", ended.status()),
                Err(why) => why.to_string(),
            };
            self.note_death(of, kind, helper, &how);
        }
        if Instant::now() >= helper.due {
            match self.start_role(helper.at, helper.role.clone()) {
                Ok(task) => {
                    helper.task = Some(task);
                    if kind == HelperKind::Probe && self.probing {
                        // It has its peers and keys again; one that cannot be told has died, and is seen next time.
                        let _ = self.agent(helper.at).tell(task, &Order::Steady.line());
                    }
                }
                Err(why) => self.note_death(of, kind, helper, &format!("cannot be started again: {why}")),
            }
        }
        Ok(())
    }

    fn note_death(&mut self, of: usize, kind: HelperKind, helper: &mut Helper, how: &str) {
        helper.failures += 1;
        let pauses = helper.failures >= AT_ONCE;
        helper.due = Instant::now() + if pauses { PAUSE } else { Duration::ZERO };
        if helper.failures > AT_ONCE && !helper.failures.is_multiple_of(TOLD_EVERY) {
            return;
        }
        let (title, node, failures) = (helper.role.title(), &self.nodes[of].name, helper.failures);
        let again = if pauses {
            format!(" {}, and is started again after a pause", counted(failures, "time"))
        } else {
            String::new()
        };
        let HelperRow { death, loss, .. } = kind.row();
        let text = format!("the {title} {node} {how}{again}. {loss}");
        notice::say(&text);
        self.note_at(of, death, Some(i64::from(failures)), text);
        let _ = self.record.write_events(); // written again at the end, where a failure is told
    }
}
