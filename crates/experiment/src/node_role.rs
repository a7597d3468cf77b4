//! Processes of tickscope that a node has while the run goes on: what the conductor knows of each kind.
//!
//! Guarantees: whatever depends on the kind of a helper alone stands here, so that a new role is told of in one place;
//! the compiler asks for its row. Deliberately absent: starting and ending them.

use std::time::Instant;

use tickscope_store::EventKind;

use crate::agent::TaskId;
use crate::roles::Role;

/// A process of tickscope that a node has while the run goes on.
#[derive(Clone, Debug)]
pub(crate) struct Helper {
    pub role: Role,
    /// Position of the node that it runs on.
    pub at: usize,
    /// `None`: it died, and is to be started again.
    pub task: Option<TaskId>,
    /// How often it died or could not be started.
    pub failures: u32,
    /// When it may be started again.
    pub due: Instant,
}

impl Helper {
    /// One that runs already.
    pub fn running(role: Role, at: usize, task: TaskId) -> Self {
        Self { role, at, task: Some(task), failures: 0, due: Instant::now() }
    }
}

/// The processes of tickscope that a node has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum HelperKind {
    Collector,
    Monitor,
    Probe,
    /// The clock that rivals follow; only on the reference.
    RivalServer,
    /// The rivals that are asked about the node's clock.
    RivalClient,
    /// Answers acknowledgements; only where a path begins.
    ReturnSource,
    /// Acknowledges stamps; only where a path ends.
    ReturnSink,
    /// Records noise; on one node of this host, for all of them.
    Noise,
}

/// The part of a run that a process of tickscope serves.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Service {
    Collector,
    Probe,
    ClockMonitor,
    /// No cost of measuring: it is asked for only to be compared with.
    Rival,
}

/// Properties of a kind of helper.
pub(crate) struct HelperRow {
    /// The part of a run that is charged for it.
    pub service: Service,
    /// The event of its death.
    pub death: EventKind,
    /// Consequence of its death, a sentence.
    pub loss: &'static str,
}

impl HelperKind {
    pub const ALL: [Self; 8] = [
        Self::Collector,
        Self::Monitor,
        Self::Probe,
        Self::RivalServer,
        Self::RivalClient,
        Self::ReturnSource,
        Self::ReturnSink,
        Self::Noise,
    ];

    pub fn row(self) -> HelperRow {
        let (service, death, loss) = match self {
            Self::Collector => (Service::Collector, EventKind::CollectorKilled, "Another took over where it stood"),
            Self::Monitor => (Service::ClockMonitor, EventKind::RoleRestarted, "Nobody watched the clocks in between"),
            Self::Probe => (
                Service::Probe,
                EventKind::RoleRestarted,
                "Its brackets that were not written yet are lost; bounds may be wider",
            ),
            Self::RivalServer | Self::RivalClient => {
                (Service::Rival, EventKind::RoleRestarted, "Rivals start anew, and nobody asked them in between")
            }
            Self::ReturnSource | Self::ReturnSink => {
                (Service::Rival, EventKind::RoleRestarted, "Nothing was acknowledged in between")
            }
            Self::Noise => (Service::Rival, EventKind::RoleRestarted, "No noise was recorded in between"),
        };
        HelperRow { service, death, loss }
    }

    /// The helper of a run that is resumed, by the role it plays; `None`: nothing that goes on in one.
    pub fn resumed(role: &Role) -> Option<Self> {
        match role {
            Role::Collect => Some(Self::Collector),
            Role::ClockMonitor => Some(Self::Monitor),
            Role::Probe(_) => Some(Self::Probe),
            Role::ReturnAnswer(_) => Some(Self::ReturnSource),
            Role::ReturnAcknowledge(_) => Some(Self::ReturnSink),
            Role::Noise(_) => Some(Self::Noise),
            Role::CollectOnce | Role::RivalServe(_) | Role::RivalAsk(_) | Role::StampCost => None,
        }
    }
}
