//! A point that any thread may stamp: each thread's channel is opened at its first use, and closed by its end.

use std::thread::LocalKey;

use tickscope_tick::Ordering;

use crate::block::Fields;
use crate::channel::{Channel, Extra};
use crate::process;

/// One point on whichever thread uses it: what [`point!`](crate::point!) gives. It may be kept across an `await`, for
/// it holds no channel: a stamp goes to that of the thread which runs the future then.
#[derive(Clone, Copy, Debug)]
pub struct ThreadPoint {
    channel: &'static LocalKey<Channel>,
}

impl ThreadPoint {
    /// The point whose channels `channel` holds.
    #[doc(hidden)]
    #[inline(always)]
    pub const fn new(channel: &'static LocalKey<Channel>) -> Self {
        Self { channel }
    }

    /// Stamps `id` now, as [`Channel::stamp`] does. Not from a signal handler, unless this thread has stamped here
    /// before.
    #[inline(always)]
    pub fn stamp(self, id: i64) {
        self.with(|channel| channel.stamp(id));
    }

    /// Stamps `id` with what it carries, as [`Channel::stamp_with`] does.
    #[inline(always)]
    pub fn stamp_with(self, id: i64, extra: Extra) {
        self.with(|channel| channel.stamp_with(id, extra));
    }

    /// Stamps `id` with a tick that was read already, as [`Channel::record`] does.
    #[inline(always)]
    pub fn record(self, id: i64, tick: i64) {
        self.with(|channel| channel.record(id, tick));
    }

    /// The same with what the stamp carries, as [`Channel::record_with`] does.
    #[inline(always)]
    pub fn record_with(self, id: i64, tick: i64, extra: Extra) {
        self.with(|channel| channel.record_with(id, tick, extra));
    }

    /// Stamps consecutive ids by one stamp, as [`Channel::stamp_batch`] does: for a point of full records.
    pub fn stamp_batch(self, id: i64, n: i64) {
        self.with(|channel| channel.stamp_batch(id, n));
    }

    /// The same with what the stamp carries, as [`Channel::stamp_batch_with`] does.
    pub fn stamp_batch_with(self, id: i64, n: i64, extra: Extra) {
        self.with(|channel| channel.stamp_batch_with(id, n, extra));
    }

    #[inline(always)]
    fn with(self, stamp: impl FnOnce(&Channel)) {
        if self.channel.try_with(stamp).is_err() {
            process::count_after_close();
        }
    }
}

/// Opens this thread's channel of a point; where that fails, one line on stderr says why, once a process, and the
/// channel is off.
#[doc(hidden)]
pub fn open_kept(point: &str, ordering: Ordering, fields: Fields) -> Channel {
    Channel::open(point, ordering, fields).unwrap_or_else(|error| {
        process::tell_refusal(&error);
        Channel::off()
    })
}

/// A point that any thread may stamp, also from within an `async fn`: a [`ThreadPoint`](crate::ThreadPoint).
///
/// The first argument is the point's name, the second what its readings are ordered against (`plain`, `before`,
/// `after`), a third what its stamps carry (`slim`, `wide`, `full`). The pool is made when the program is loaded; that
/// of a forked child, or of a process that changed its user or closed all its descriptors, at its first stamp, which
/// takes milliseconds then.
///
/// ```
/// tickscope_stamp::point!("send", before).stamp(7); // off unless TICKSCOPE_DIR is set
/// std::thread::spawn(|| tickscope_stamp::point!("receive", after, wide).stamp(7)).join().unwrap();
/// ```
#[macro_export]
macro_rules! point {
    ($name:expr) => {
        $crate::point!(@ordering none)
    };
    ($name:expr, $ordering:ident) => {
        $crate::point!($name, $ordering, slim)
    };
    ($name:expr, $ordering:ident, $fields:ident) => {{
        ::std::thread_local! {
            static CHANNEL: $crate::Channel =
                $crate::open_kept($name, $crate::point!(@ordering $ordering), $crate::point!(@fields $fields));
        }
        $crate::ThreadPoint::new(&CHANNEL)
    }};
    (@ordering plain) => {
        $crate::Ordering::Plain
    };
    (@ordering before) => {
        $crate::Ordering::Before
    };
    (@ordering after) => {
        $crate::Ordering::After
    };
    (@ordering $other:tt) => {
        ::std::compile_error!("expected the ordering plain, before or after, as in point!(\"send\", before)")
    };
    (@fields slim) => {
        $crate::Fields::Slim
    };
    (@fields wide) => {
        $crate::Fields::Wide
    };
    (@fields full) => {
        $crate::Fields::Full
    };
    (@fields $other:tt) => {
        ::std::compile_error!("expected the fields slim, wide or full, as in point!(\"send\", before, wide)")
    };
}
