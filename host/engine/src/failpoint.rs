//! Named points at which a test kills the process.
//!
//! With the feature `failpoints` and the environment variable `SVC_FAILPOINT=<name>`, the thread that gets to the
//! point says so on standard error and stops there for ever, so that the test can send SIGKILL at exactly this
//! moment. Without the feature nothing of it is compiled.

/// Stops here when the test asked for it.
#[cfg(feature = "failpoints")]
#[expect(clippy::print_stderr, reason = "the test reads the line; the log may be buffered")]
pub fn failpoint(name: &str) {
    use std::sync::LazyLock;
    static ASKED: LazyLock<Option<String>> = LazyLock::new(|| std::env::var("SVC_FAILPOINT").ok());
    if ASKED.as_deref() == Some(name) {
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
