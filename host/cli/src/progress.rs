//! Progress of commands that take long: a line on a terminal, nothing elsewhere.

use gateway_service::output;
use parking_lot::Mutex;
use std::time::{Duration, Instant};

/// A command that is faster shows nothing.
const SILENT_FOR: Duration = Duration::from_secs(2);

/// Least time between two versions of the line.
const EVERY: Duration = Duration::from_millis(100);

/// The progress of one step of a command, on standard error.
pub(crate) struct Progress {
    /// What was done with the parts that are counted.
    done: &'static str,
    line: Mutex<Line>,
}

struct Line {
    /// When the next version is due; `None` without a terminal.
    due: Option<Instant>,
    is_shown: bool,
}

impl Progress {
    pub(crate) fn new(done: &'static str) -> Self {
        let due = output::tells_terminal().then(|| Instant::now() + SILENT_FOR);
        Self { done, line: Mutex::new(Line { due, is_shown: false }) }
    }

    /// Shows how much of all is done. What is done may turn out to be more than was known.
    pub(crate) fn report(&self, n_done: u64, n_all: u64) {
        if let Some(text) = self.next(Instant::now(), n_done, n_all) {
            output::redraw(&text);
        }
    }

    /// Removes the line, for other output.
    pub(crate) fn clear(&self) {
        let mut line = self.line.lock();
        if std::mem::take(&mut line.is_shown) {
            output::redraw("");
        }
    }

    /// The next version of the line, if it is due.
    fn next(&self, now: Instant, n_done: u64, n_all: u64) -> Option<String> {
        let mut line = self.line.lock();
        if line.due.is_none_or(|due| now < due) {
            return None;
        }
        (line.due, line.is_shown) = (Some(now + EVERY), true);
        let percent = n_done.min(n_all).saturating_mul(100).checked_div(n_all).unwrap_or(100);
        Some(format!("{percent:3} % {}", self.done))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_is_shown_after_two_seconds_and_ten_times_a_second() {
        let start = Instant::now();
        let line = Mutex::new(Line { due: Some(start + SILENT_FOR), is_shown: false });
        let progress = Progress { done: "checked", line };
        let at = |ms, n_done| progress.next(start + Duration::from_millis(ms), n_done, 200);
        assert_eq!(at(1_999, 1), None);
        assert_eq!(at(2_000, 1).as_deref(), Some("  0 % checked"));
        assert_eq!(at(2_099, 100), None);
        assert_eq!(at(2_100, 100).as_deref(), Some(" 50 % checked"));
        assert_eq!(at(9_000, 300).as_deref(), Some("100 % checked"));
    }

    #[test]
    fn nothing_is_shown_without_a_terminal() {
        let progress = Progress { done: "", line: Mutex::new(Line { due: None, is_shown: false }) };
        assert_eq!(progress.next(Instant::now() + Duration::from_secs(3600), 1, 2), None);
    }
}
