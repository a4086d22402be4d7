//! Threads of one test that end together.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// Raises its flag when the thread that holds it panics.
///
/// Whoever runs until the flag is up ends then too, and so does the test, with the message of the assertion that failed; a
/// scope would wait for them for ever.
pub(crate) struct Alarm<'a>(pub(crate) &'a AtomicBool);

impl Drop for Alarm<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.store(true, Ordering::SeqCst);
        }
    }
}
