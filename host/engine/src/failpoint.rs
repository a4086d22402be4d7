//! Named points at which a test kills the process.
//!
//! With the feature `failpoints` and the environment variable `SVC_FAILPOINT=<name>:<n>`, the thread that reaches the point
//! for the n-th time reports it on standard error and stops, so that the test can send SIGKILL at exactly this moment.
//! Without the feature the points compile to nothing.

#[cfg(feature = "failpoints")]
static REQUESTED: std::sync::LazyLock<Option<(String, u32)>> = std::sync::LazyLock::new(|| {
    let setting = std::env::var("SVC_FAILPOINT").ok()?;
    let (name, nth) = setting.split_once(':')?;
    Some((name.to_owned(), nth.parse().ok()?))
});

/// Whether a test requested a point.
#[cfg(feature = "failpoints")]
#[must_use]
pub fn is_requested() -> bool {
    REQUESTED.is_some()
}

/// Stops the thread here if the test requested it.
#[cfg(feature = "failpoints")]
#[expect(clippy::print_stderr, reason = "the test reads the line; the log may be buffered")]
pub fn failpoint(name: &str) {
    use std::sync::atomic::{AtomicU32, Ordering};
    static PASSED: AtomicU32 = AtomicU32::new(0);
    let Some((requested, nth)) = &*REQUESTED else { return };
    if requested == name && PASSED.fetch_add(1, Ordering::SeqCst) + 1 == *nth {
        eprintln!("failpoint {name}");
        loop {
            std::thread::park();
        }
    }
}

/// Does nothing without the feature `failpoints`.
#[cfg(not(feature = "failpoints"))]
#[inline(always)]
pub const fn failpoint(_name: &str) {}
