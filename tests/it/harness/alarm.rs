//! Stops the threads of a test when one of them panics.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// Sets its flag when the thread that owns it panics.
///
/// The other threads of a scope run until the flag is set. Without it, the scope would wait for them without end, and the failed
/// assertion would not be shown.
pub(crate) struct Alarm<'a>(pub(crate) &'a AtomicBool);

impl Drop for Alarm<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.store(true, Ordering::SeqCst);
        }
    }
}
