//! The results of checks: findings, and errors that prevented a check.

use std::{fmt, io};

/// A problem that a check found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    is_error: bool,
    /// `path` or `path:line`; empty without a file.
    place: String,
    text: String,
}

impl Finding {
    pub(crate) fn error(text: impl Into<String>) -> Self {
        Self { is_error: true, place: String::new(), text: text.into() }
    }

    pub(crate) fn warning(text: impl Into<String>) -> Self {
        Self { is_error: false, place: String::new(), text: text.into() }
    }

    pub(crate) fn in_file(self, path: &str) -> Self {
        Self { place: path.to_owned(), ..self }
    }

    /// `line` counts from 1.
    pub(crate) fn at(self, path: &str, line: usize) -> Self {
        Self { place: format!("{path}:{line}"), ..self }
    }

    pub(crate) const fn is_error(&self) -> bool {
        self.is_error
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_error { "error: " } else { "warning: " })?;
        if !self.place.is_empty() {
            write!(f, "{}: ", self.place)?;
        }
        f.write_str(&self.text)
    }
}

/// Why a check could not run.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("cannot run `{command}`: {source}")]
    Run { command: String, source: io::Error },
    #[error("`{command}` failed: {output}")]
    Failed { command: String, output: String },
    #[error("the output of `{command}` is not JSON: {source}")]
    Json { command: String, source: serde_json::Error },
}
