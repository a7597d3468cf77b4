//! One stamp for consecutive ids.
//!
//! The record's batch is their number below 0, so it needs a channel of full records; a batch whose ids are not said
//! has a number above. A policy that chooses by id keeps the ids from the first to the last that it chooses, in one
//! stamp.
//!
//! Guarantees: what is no range of ids, or has no room in the record, is counted as refused wherever a stamp would be
//! kept. Deliberately absent: an inline path; a batch stands for many stamps already.

use super::dispatch::{ready, record_slow, stamp_extra};
use super::{Channel, Extra, Handle};
use crate::block::Fields;
use crate::policies::Action;
use crate::primitive::own_add;

impl Channel {
    /// Stamps the `n` consecutive ids from `id` on now, by one stamp of a channel of full records.
    ///
    /// `n` of 0 or less or above 2^31-1, ids past the end of 64 bits, and several ids on a channel whose records cannot
    /// say so are refused and counted.
    ///
    /// ```
    /// use tickscope_stamp::{Channel, Fields, Ordering};
    /// let polled = Channel::open("polled", Ordering::After, Fields::Full)?; // off unless TICKSCOPE_DIR is set
    /// polled.stamp_batch(4096, 32); // the packets 4096 to 4127
    /// # Ok::<(), tickscope_stamp::OpenError>(())
    /// ```
    pub fn stamp_batch(&self, id: i64, n: i64) {
        stamp_ids(self.handle(), (id, n), &Extra::default());
    }

    /// The same with what the stamp carries; [`Extra::batch`] is not asked.
    pub fn stamp_batch_with(&self, id: i64, n: i64, extra: Extra) {
        stamp_ids(self.handle(), (id, n), &extra);
    }

    /// The same with a tick that was read already, as [`Channel::record_with`] takes it.
    pub fn record_batch_with(&self, id: i64, n: i64, tick: i64, extra: Extra) {
        if let Some((id, extra)) = chosen(self.handle(), (id, n), &extra, tick) {
            record_slow(self.handle(), id, &extra, tick);
        }
    }
}

#[inline(never)]
fn stamp_ids(handle: &Handle, ids: (i64, i64), extra: &Extra) {
    if let Some((id, extra)) = chosen(handle, ids, extra, 0) {
        stamp_extra(handle, id, &extra);
    }
}

/// The first id of the stamp to take, and what it carries; `None`: none is to be taken, and a refused one is counted.
/// `tick`: of the stamp, 0: now.
fn chosen(handle: &Handle, (id, n): (i64, i64), extra: &Extra, tick: i64) -> Option<(i64, Extra)> {
    let is_range = i32::try_from(n).is_ok_and(|n| n > 0) && id.checked_add(n - 1).is_some();
    let has_room = handle.fields == Fields::Full || n == 1;
    let (mut id, mut n) = (id, n);
    if handle.policy_word() != handle.fast_full.get() || !is_range || !has_room {
        let (entry, _) = ready(handle, tick)?;
        if !is_range || !has_room {
            own_add(&entry.refused, 1);
            return None;
        }
        if let Action::XOfY(rule) = handle.rule.get() {
            (id, n) = rule.hull(id, n)?;
        }
    }
    Some((id, Extra { batch: -(n as i32), ..*extra }))
}
