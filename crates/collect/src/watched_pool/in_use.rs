//! Blocks that a living program is filling.

use std::collections::BTreeMap;

use tickscope_stamp::block::BlockState;
use tickscope_stamp::handover;

use super::{Finding, ReadyBlock, WatchedPool, kept};
use crate::ledger::Ledger;
use crate::steps::Steps;

impl WatchedPool {
    /// Blocks of a living program that are not ready: some of their stamps may be committed.
    ///
    /// Its threads go on while the blocks are looked at, so here too whatever precedes a block that is in use is looked
    /// at once more: else a block that was taken and filled meanwhile would come after its successor.
    pub(crate) fn open_blocks(
        &self,
        ledger: &mut Ledger,
        steps: &mut Steps,
    ) -> tickscope_store::Result<Vec<ReadyBlock>> {
        let in_use = |index: &u32, ledger: &Ledger| self.is_to_be_examined(*index) && self.is_in_use(*index, ledger);
        let mut open: Vec<u32> = (0..self.pool.block_count()).filter(|index| in_use(index, ledger)).collect();
        steps.reached("every open block was looked at")?;
        let name = |index: u32| (self.pool.block(index).header().serial, self.pool.block(index).header().number);
        let mut latest: BTreeMap<u32, u32> = BTreeMap::new();
        for (serial, number) in open.iter().copied().map(name) {
            let last = latest.entry(serial).or_default();
            *last = number.max(*last);
        }
        let precedes = |index: u32| latest.get(&name(index).0).is_some_and(|&last| name(index).1 < last);
        let missed = |&index: &u32| self.is_to_be_examined(index) && precedes(index) && !open.contains(&index);
        let missed: Vec<u32> = (0..self.pool.block_count()).filter(missed).collect();
        steps.reached("what precedes an open block was listed")?;
        // One that was free has been taken since, behind blocks that are not among these.
        let still = |index: &u32| in_use(index, ledger) && precedes(*index);
        let missed: Vec<u32> = missed.into_iter().filter(still).collect();
        open.extend(missed);
        Ok(open.into_iter().filter_map(|index| self.describe(index, ledger)).collect())
    }

    fn is_in_use(&self, index: u32, ledger: &Ledger) -> bool {
        let block = self.pool.block(index);
        let state = handover::state(&block);
        matches!(state, Some(BlockState::Leased | BlockState::Released))
            && self.is_whole(&block)
            && kept::first_last(&block).is_none()
            && matches!(self.examine_taken(&block, BlockState::Released, ledger), Finding::Ready)
    }
}
