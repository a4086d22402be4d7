//! Stops the threads of one test together.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// Raises its flag when the thread that holds it panics.
///
/// The other threads run until the flag is up, so the test ends with the message of the failed assertion; otherwise the scope
/// would wait for them without end.
pub(crate) struct Alarm<'a>(pub(crate) &'a AtomicBool);

impl Drop for Alarm<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.store(true, Ordering::SeqCst);
        }
    }
}
