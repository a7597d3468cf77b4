//! The one place where a panic is caught: what the Parquet crate does with bytes that are none of its own making.
//!
//! Of a file that was damaged, the crate asserts here and there where it should return an error (`bit_util.rs`). Such a
//! panic says no more than that the file is damaged, and the other files of the run are readable all the same. Files
//! that tickscope seals never get there; those of earlier versions can.

use std::cell::Cell;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;

thread_local! {
    /// True while a panic of this thread is about to become an error: then the hook's message would say it twice.
    static CAUGHT: Cell<bool> = const { Cell::new(false) };
}

/// Does `read`; a panic in it is an error, in words, and not printed.
pub fn guarded<T>(read: impl FnOnce() -> T) -> Result<T, String> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |panic| {
            if !CAUGHT.get() {
                before(panic);
            }
        }));
    });
    let outer = CAUGHT.replace(true);
    // What `read` leaves half done is the reader of one column, which nobody sees again.
    let done = panic::catch_unwind(AssertUnwindSafe(read));
    CAUGHT.set(outer);
    done.map_err(|panic| {
        let said = panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
        format!("bytes that cannot be decoded: {}", said.unwrap_or("no reason given"))
    })
}
