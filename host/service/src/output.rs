//! Everything that the programs print, on standard output and on standard error. No other file may open either of them (`clippy.toml`).
//!
//! Much of it was written by others: names, reasons, messages of another process, file names. On a terminal, a character that moves the
//! cursor, is invisible or reverses the direction could make another amount appear than the signed one, and a line feed could add a row
//! that is not ours. So only [`Lines`] are printed, and what is added to them is escaped.
//!
//! A failure to write standard output is kept until the end of the program, where `finish` makes it the exit code.
//!
//! Once the log is started, standard error is the log's: all that is told goes through its queue, so that a reader that hangs stops nothing.

#![expect(clippy::disallowed_methods, reason = "the one place that prints")]

use crate::log_queue::{LinesLost, LogQueue};
use gateway_domain::error_chain;
use gateway_domain::names::is_visible;
use serde::Serialize;
use std::error::Error;
use std::fmt::{self, Display, Write as _};
use std::fs::File;
use std::io::{self, IsTerminal as _, Write as _};
use std::os::fd::AsFd as _;
use std::process::{ExitCode, Stdio};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Exit code of a command that failed or has findings, and of a process that did not start.
pub const EXIT_FAILED: u8 = 1;

/// Exit code of invalid settings, of a check that could not be made, and of output that could not be written.
pub const EXIT_UNCHECKED: u8 = 2;

/// Exit code of a command whose output has no reader any more: that of a program which SIGPIPE ends, as a shell shows it.
pub const EXIT_READER_GONE: u8 = 141;

/// Returns to the start of the line and removes it (ECMA-48, EL).
const ERASE: &str = "\r\x1b[K";

/// The program's name, before its errors.
static NAME: OnceLock<&'static str> = OnceLock::new();

/// Why standard output cannot be written. Nothing is written to it afterwards.
static FAILURE: OnceLock<Failure> = OnceLock::new();

/// The lines of standard error, once the log is started.
static LOG: OnceLock<Arc<LogQueue>> = OnceLock::new();

/// How long the end of the process waits for the reader of the log.
const LOG_ENDS_WITHIN: Duration = Duration::from_millis(1_500);

/// An [`io::Error`] that can be returned again.
#[derive(Debug)]
struct Failure {
    kind: io::ErrorKind,
    code: Option<i32>,
}

impl Failure {
    fn error(&self) -> io::Error {
        self.code.map_or_else(|| self.kind.into(), io::Error::from_raw_os_error)
    }
}

/// Escapes what is written to it.
struct Escaped<'a>(&'a mut String);

impl fmt::Write for Escaped<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for character in text.chars() {
            match is_visible(character) {
                true => self.0.push(character),
                false => write!(self.0, "{}", character.escape_unicode())?,
            }
        }
        Ok(())
    }
}

/// The text with each character escaped that a terminal does not show as itself, line feeds too.
#[must_use]
pub fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    let _never = Escaped(&mut escaped).write_str(text);
    escaped
}

/// JSON as serde writes it, with each such character as an escape of JSON. Outside of strings it has only line feeds, which stay.
pub(crate) fn escape_json(json: &str) -> String {
    let mut escaped = String::with_capacity(json.len());
    for character in json.chars() {
        if character == '\n' || is_visible(character) {
            escaped.push(character);
        } else {
            for unit in character.encode_utf16(&mut [0; 2]) {
                let _never = write!(escaped, "\\u{unit:04x}");
            }
        }
    }
    escaped
}

/// Lines of text of which a terminal interprets nothing but the line feeds between them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lines(String);

impl Lines {
    /// No lines.
    #[must_use]
    pub const fn new() -> Self {
        Self(String::new())
    }

    /// Adds a line. A line feed in it is escaped, as everything that is not visible.
    pub fn add(&mut self, line: impl Display) {
        let _never = write!(Escaped(&mut self.0), "{line}");
        self.0.push('\n');
    }

    /// Adds each line of a text of ours. A text with values of others is not one.
    pub fn add_text(&mut self, text: &str) {
        text.lines().for_each(|line| self.add(line));
    }

    /// Adds a value as JSON on one line.
    pub fn add_json(&mut self, value: &impl Serialize) -> serde_json::Result<()> {
        self.push_json(&serde_json::to_string(value)?);
        Ok(())
    }

    /// Adds a value as JSON on several lines.
    pub fn add_json_pretty(&mut self, value: &impl Serialize) -> serde_json::Result<()> {
        self.push_json(&serde_json::to_string_pretty(value)?);
        Ok(())
    }

    fn push_json(&mut self, json: &str) {
        self.0.push_str(&escape_json(json));
        self.0.push('\n');
    }

    /// Adds other lines.
    pub fn append(&mut self, lines: &Self) {
        self.0.push_str(&lines.0);
    }

    /// The text, which ends with a line feed unless it is empty.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A report of several lines.
pub trait ToLines {
    /// Adds the report.
    fn add_to(&self, lines: &mut Lines);
}

/// Prints lines to standard output, at once.
///
/// # Errors
/// They cannot be written, or earlier ones could not. The program ends with `finish`'s exit code also if this is ignored.
pub fn print(lines: &Lines) -> io::Result<()> {
    if let Some(failure) = FAILURE.get() {
        return Err(failure.error());
    }
    let mut out = io::stdout().lock();
    let written = out.write_all(lines.0.as_bytes()).and_then(|()| out.flush());
    written.inspect_err(|error| {
        let _is_set = FAILURE.set(Failure { kind: error.kind(), code: error.raw_os_error() });
    })
}

/// Prints one line to standard output.
pub fn print_line(line: impl Display) -> io::Result<()> {
    let mut lines = Lines::new();
    lines.add(line);
    print(&lines)
}

/// Prints a value as JSON on one line to standard output.
///
/// # Errors
/// As [`print()`], or the value cannot be JSON.
pub fn print_json(value: &impl Serialize) -> io::Result<()> {
    let mut lines = Lines::new();
    lines.add_json(value)?;
    print(&lines)
}

/// Prints lines to standard error, behind those of the log that wait.
///
/// # Errors
/// They cannot be written. Lines that the log's thread cannot write are counted instead.
pub fn tell(lines: &Lines) -> io::Result<()> {
    match LOG.get() {
        Some(log) => {
            log.add_always(lines.0.clone());
            Ok(())
        }
        None => io::stderr().lock().write_all(lines.0.as_bytes()),
    }
}

/// Prints one line to standard error, where a failure to print it cannot be reported.
pub fn tell_line(line: impl Display) {
    let mut lines = Lines::new();
    lines.add(line);
    let _no_reader = tell(&lines);
}

/// Prints a question to standard error, without a line feed.
///
/// # Errors
/// It cannot be written.
pub fn ask(question: &str) -> io::Result<()> {
    io::stderr().lock().write_all(escape(question).as_bytes())
}

/// Replaces the last line on standard error, which is a terminal, and leaves the cursor in it.
pub fn redraw(line: &str) {
    let _no_reader = io::stderr().lock().write_all(format!("{ERASE}{}", escape(line)).as_bytes());
}

/// Whether standard output is a terminal.
#[must_use]
pub fn is_terminal() -> bool {
    io::stdout().is_terminal()
}

/// Whether standard error is a terminal.
#[must_use]
pub fn tells_terminal() -> bool {
    io::stderr().is_terminal()
}

/// Standard error, as the output of another program that this one runs.
#[must_use]
pub fn for_child() -> Stdio {
    io::stderr().into()
}

/// Starts the log on standard error. A second call returns the same.
///
/// # Errors
/// Standard error is closed, or the thread cannot be started.
pub(crate) fn start_log() -> io::Result<Arc<LogQueue>> {
    if let Some(log) = LOG.get() {
        return Ok(Arc::clone(log));
    }
    // Not by way of its lock, which a write that waits for a reader would hold.
    let log = LogQueue::start(File::from(io::stderr().as_fd().try_clone_to_owned()?))?;
    Ok(Arc::clone(LOG.get_or_init(|| log)))
}

/// The lines of the log that were lost. `None` before it is started.
pub(crate) fn lines_lost() -> Option<LinesLost> {
    LOG.get().map(|log| log.lost())
}

/// Writes the lines of the log that wait when it is dropped: at the end of the process, also if its main thread panics.
#[must_use]
#[derive(Debug)]
pub(crate) struct EndLog;

impl Drop for EndLog {
    fn drop(&mut self) {
        if let Some(log) = LOG.get() {
            log.finish(LOG_ENDS_WITHIN);
        }
    }
}

/// Names the program, once.
pub(crate) fn set_name(name: &'static str) {
    let _already_named = NAME.set(name);
}

/// The program's name.
pub(crate) fn name() -> &'static str {
    NAME.get().copied().unwrap_or_default()
}

/// Prints one line for each error to standard error, and returns the exit code. If standard output cannot be written, that is the error.
pub fn report_errors(errors: &[String], code: u8) -> ExitCode {
    if FAILURE.get().is_none() {
        errors.iter().for_each(|error| tell_line(format_args!("{}: {error}", name())));
    }
    ExitCode::from(code)
}

/// [`report_errors`] for one error, with its sources.
pub fn report_error(error: &(dyn Error + 'static), code: u8) -> ExitCode {
    report_errors(&[error_chain(error)], code)
}

/// The exit code of a program that is about to end with `code`: another one if its output could not be written.
#[must_use]
pub(crate) fn finish(code: ExitCode) -> ExitCode {
    match FAILURE.get() {
        None => code,
        // As `head` does. It has read all it wants.
        Some(Failure { kind: io::ErrorKind::BrokenPipe, .. }) => ExitCode::from(EXIT_READER_GONE),
        Some(failure) => {
            tell_line(format_args!("{}: standard output cannot be written: {}", name(), failure.error()));
            ExitCode::from(EXIT_UNCHECKED)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOSTILE: &str =
        "12 €\n\u{9b}2K\u{202e}21\u{feff}\t\r\u{1b}[2J\u{61c}\u{3164}\u{a0}\u{e0041}\u{fe0f}\u{7f}";

    #[test]
    fn control_and_invisible_characters_and_line_feeds_are_escaped() {
        assert_eq!(
            escape(HOSTILE),
            "12 €\\u{a}\\u{9b}2K\\u{202e}21\\u{feff}\\u{9}\\u{d}\\u{1b}[2J\\u{61c}\\u{3164}\\u{a0}\\u{e0041}\\u{fe0f}\\u{7f}"
        );
    }

    #[test]
    fn each_added_value_is_one_line() {
        let mut lines = Lines::new();
        lines.add(format_args!("name  {HOSTILE}"));
        lines.add_json(&HOSTILE).unwrap();
        assert_eq!(lines.as_str().lines().count(), 2);
        assert!(lines.as_str().chars().all(|character| character == '\n' || is_visible(character)));
        lines.add_text("ours\n\nand ours");
        assert!(lines.as_str().ends_with("\nours\n\nand ours\n"));
    }

    #[test]
    fn json_without_invisible_characters_has_the_same_value() {
        let value = serde_json::json!({ HOSTILE: [HOSTILE, "\\n \u{1d159} \u{10ffff}"], "empty": {} });
        let mut lines = Lines::new();
        lines.add_json_pretty(&value).unwrap();
        assert!(
            lines.as_str().chars().all(|character| character == '\n' || is_visible(character)),
            "{lines:?}"
        );
        assert_eq!(serde_json::from_str::<serde_json::Value>(lines.as_str()).unwrap(), value);
    }
}
