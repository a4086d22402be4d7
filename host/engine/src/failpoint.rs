//! Named points at which a test kills the process.
//!
//! With the feature `failpoints` and the environment variable `SVC_FAILPOINT=<name>:<n>`, the thread that gets to the
//! point for the n-th time says so on standard error and stops there for ever, so that the test can send SIGKILL at
//! exactly this moment. Without the feature nothing of it is compiled.

/// Stops here when the test asked for it.
#[cfg(feature = "failpoints")]
#[expect(clippy::print_stderr, reason = "the test reads the line; the log may be buffered")]
pub fn failpoint(name: &str) {
    use std::sync::LazyLock;
    use std::sync::atomic::{AtomicU32, Ordering};
    static ASKED: LazyLock<Option<(String, u32)>> = LazyLock::new(|| {
        let asked = std::env::var("SVC_FAILPOINT").ok()?;
        let (name, nth) = asked.split_once(':')?;
        Some((name.to_owned(), nth.parse().ok()?))
    });
    static PASSED: AtomicU32 = AtomicU32::new(0);
    let Some((asked, nth)) = &*ASKED else { return };
    if asked == name && PASSED.fetch_add(1, Ordering::SeqCst) + 1 == *nth {
        eprintln!("failpoint {name}");
        loop {
            std::thread::park();
        }
    }
}

/// Nothing.
#[cfg(not(feature = "failpoints"))]
#[inline(always)]
pub const fn failpoint(_name: &str) {}
