//! What a check found.

use std::fmt;

/// One thing that is wrong, or that somebody should look at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    is_error: bool,
    /// `path` or `path:line`; empty when it is about no file.
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

    /// The same, about a file.
    pub(crate) fn in_file(mut self, path: &str) -> Self {
        path.clone_into(&mut self.place);
        self
    }

    /// The same, about a line, counted from 1.
    pub(crate) fn at(mut self, path: &str, line: usize) -> Self {
        self.place = format!("{path}:{line}");
        self
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
