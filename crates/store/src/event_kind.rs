//! Kinds of events. docs/run-format.md says when each is told and what its value is; a test holds the two together.

use crate::words::words;

words! {
    /// Kinds of events, which tell of the measuring itself.
    pub enum EventKind {
        /// Stamps of a channel found no free block.
        Lost = "lost",
        /// Stamps of a channel were overwritten by later ones because no block was free; value: how many.
        Overwritten = "overwritten",
        /// The host's counter lacks something.
        Counter = "counter",
        /// The check that cores share the counter found something.
        Cores = "cores",
        /// A step, slew or suspend of the host's clocks between start and end.
        Clock = "clock",
        /// A log of another clock was taken in.
        Log = "log",
        /// A log of another clock, or lines of it, were refused.
        LogRefused = "log-refused",
        /// Pauses may be missing in a JVM's log; value: at how many places.
        LogGaps = "log-gaps",
        /// A step of the run's end failed.
        FinishFailed = "finish-failed",
        /// The run file declares a smaller slew than the clock monitor asks for.
        ClockSlewDeclared = "clock-slew-declared",
        /// The kernel does not tell of sets of its clock.
        ClockSetsUntold = "clock-sets-untold",
        /// A point of the layout has no stamps.
        PointUnstamped = "point-unstamped",
        /// Outcome of the kernel's stamps of the probes.
        KernelStamps = "kernel-stamps",
        /// The clock monitor of a node failed.
        ClockUnwatched = "clock-unwatched",
        /// A clock was set; value: nanoseconds, positive: forward.
        ClockStep = "clock-step",
        /// A clock ran unlike what the kernel's account allows; value: parts per 10^9 beyond it, positive: faster.
        ClockSlew = "clock-slew",
        /// The host was suspended; value: nanoseconds.
        ClockSuspend = "clock-suspend",
        /// A clock that cannot run backward did.
        ClockBackward = "clock-backward",
        /// The hypervisor disrupted the counter: it moved the machine, or loaded it from a snapshot.
        CounterDisrupted = "counter-disrupted",
        /// The clock of a host that nodes were declared to share could not be read.
        HostClockMissing = "host-clock-missing",
        /// From here on the kernel corrects the clock with other parameters.
        ClockDiscipline = "clock-discipline",
        /// The cost of a stamp could not be measured.
        StampUntimed = "stamp-untimed",
        /// The last line that a command printed.
        Target = "target" or "subject",
        /// A command failed.
        TargetFailed = "target-failed" or "subject-failed",
        /// A command that does not end the run ended before it was asked to; value: milliseconds that it ran.
        TargetEnded = "target-ended",
        /// Datagrams that are no evidence.
        DatagramsRefused = "datagrams-refused",
        /// An exchange that no honest clock can cause.
        ImpossibleExchange = "impossible-exchange",
        /// Requests without a reply.
        ProbesLost = "probes-lost",
        /// A burst of exchanges that nobody answered.
        ProbesUnanswered = "probes-unanswered",
        /// The probe kept to its share of a core, so it took fewer exchanges than were wished.
        ProbesPaced = "probes-paced",
        /// Datagrams that the network did not take.
        ProbesUndelivered = "probes-undelivered",
        /// A collector ended early and another took over.
        CollectorKilled = "collector-killed",
        /// A probe or a clock monitor ended early and was started again.
        RoleRestarted = "role-restarted",
        /// A program that the run was to be compared with is missing, or did not work.
        RivalMissing = "rival-missing",
        /// Noise was to be recorded, and was not, or not all of it.
        NoiseMissing = "noise-missing",
        /// Acknowledgements of stamps under `return-trip` that nobody answered; value: how many.
        ReturnsLost = "returns-lost",
        /// More stamps under `return-trip` than may be acknowledged in a second; value: of so many ids one is.
        ReturnsThinned = "returns-thinned",
        /// The pipe to a node's agent broke.
        AgentUnreachable = "agent-unreachable",
        /// A node's agent is reached again; value: seconds.
        AgentReached = "agent-reached",
        /// A node's agent was killed, and another took over; value: seconds.
        AgentRestarted = "agent-restarted",
        /// A node was given up; what it measured may still lie there.
        NodeLost = "node-lost",
        /// Nobody watched the node's clocks: one clock monitor had ended, the next had not begun.
        ClockGap = "clock-gap",
        /// The run was cut off, and finished later.
        CutOff = "cut-off",
        /// The run's conductor was killed, and another took over.
        Resumed = "resumed",
        /// Stamps stay in shared memory: a living program holds them, or they could not be taken.
        StampsLeft = "stamps-left",
        /// The disk took nothing for a while, or was gone; value: seconds.
        DiskFull = "disk-full",
        /// Stamps that were stored before are no longer in the run; value: how many.
        PartsMissing = "parts-missing",
        /// Shared memory that programs had stamps in is gone, and nobody had emptied it.
        MemoryLost = "memory-lost",
        /// Stamps of blocks that programs still held lie in the run that was collected before; value: how many.
        StoredElsewhere = "stored-elsewhere",
        /// A program was killed while it overwrote its oldest stamps: what went last is in no count.
        OverwritingCutOff = "overwriting-cut-off",
        /// A file was left out of the join.
        FileRefused = "file-refused",
        /// A file of a node elsewhere is not in the run: it cannot be read there, or may not come in.
        NodeFileRefused = "node-file-refused",
        /// Ids that other points saw.
        IdsMissing = "ids-missing",
        /// Stamps beyond the first of an id.
        IdsRepeated = "ids-repeated",
        /// Ids that overtook one before.
        IdsOutOfOrder = "ids-out-of-order",
        /// Ids whose passages cannot be told apart.
        PassagesUntold = "passages-untold",
        /// Ids of stamps that stand for very many, which nobody else saw and that have no trace.
        IdsUnexpanded = "ids-unexpanded",
        /// Stamps of kinds that the layout is not of.
        KindsLeftOut = "kinds-left-out",
        /// Parts without their whole, or wholes without a part.
        IdsApart = "ids-apart",
        /// Two originals have one id.
        IdsCollided = "ids-collided",
        /// Stamps of an attempt in an order that cannot be; value: of so many ids.
        AttemptsContradicted = "attempts-contradicted",
        /// A program ended without closing its channels.
        Recovered = "recovered",
        /// A program could not make its pool.
        PoolRefused = "pool-refused",
        /// A program waited while its pool was made: it ran already.
        PoolLate = "pool-late",
        /// What a program says that its stamps are read from; value: picoseconds of a reading.
        ProgramReading = "program-reading",
        /// A file in the stamp directory is no pool.
        PoolLeftAlone = "pool-left-alone",
        /// A block of an ended program makes no sense.
        BlockLeftAlone = "block-left-alone",
        /// Channels got another policy while the run went on; value: how many.
        PolicySwitched = "policy-switched",
        /// What channels under the policy `keep` held was stored because somebody asked for it; value: stamps.
        Dumped = "dumped",
        /// A channel under the policy `first-last` ended without its marker.
        MarkerUnseen = "marker-unseen",
        /// Stamps under the policy `all` that its log did not take; value: how many.
        StampsUnwritten = "stamps-unwritten",
        /// Stamps on a channel that was never opened.
        StampsWithoutChannel = "stamps-without-channel",
        /// Stamps on a channel that was closed.
        StampsAfterClose = "stamps-after-close",
        /// Channels that could not be opened.
        ChannelsRefused = "channels-refused",
    }
}

impl EventKind {
    /// Returns whether a reader of the figures should know: not what every sound run has, nor what cost nothing.
    pub fn is_notable(&self) -> bool {
        !matches!(
            self,
            Self::Log
                | Self::KernelStamps
                | Self::ClockDiscipline
                | Self::ClockSetsUntold
                | Self::StampUntimed
                | Self::Target
                | Self::ProbesLost
                | Self::ProbesPaced
                | Self::IdsOutOfOrder
                | Self::Recovered
                | Self::ReturnsLost
                | Self::ReturnsThinned
                | Self::CollectorKilled
                | Self::Dumped
                | Self::PoolLate
                | Self::ProgramReading
        )
    }

    /// Kinds after which nobody knows how many stamps of the node there are, nor which.
    pub const UNTOLD: [Self; 11] = [
        Self::StampsWithoutChannel,
        Self::StampsAfterClose,
        Self::ChannelsRefused,
        Self::PoolRefused,
        Self::PoolLeftAlone,
        Self::BlockLeftAlone,
        Self::PartsMissing,
        Self::MemoryLost,
        Self::StampsLeft,
        Self::StoredElsewhere,
        Self::OverwritingCutOff,
    ];

    /// Returns whether nobody knows after it how many stamps of the node there are, nor which.
    pub fn leaves_untold(&self) -> bool {
        Self::UNTOLD.contains(self)
    }

    /// Returns whether it counts stamps that no channel counted; refused openings are none.
    pub fn is_of_no_channel(&self) -> bool {
        matches!(self, Self::StampsWithoutChannel | Self::StampsAfterClose)
    }

    /// Returns whether it contradicts figures or an assumption: none is to be believed without a look at why.
    pub fn contradicts(&self) -> bool {
        matches!(self, Self::ImpossibleExchange | Self::IdsCollided | Self::AttemptsContradicted)
    }

    /// Returns whether evidence about the clock concerned is void across it.
    pub fn is_break(&self) -> bool {
        matches!(
            self,
            Self::ClockStep
                | Self::ClockSlew
                | Self::ClockSuspend
                | Self::ClockBackward
                | Self::ClockGap
                | Self::CounterDisrupted
        )
    }
}
