//! A check that could not be made. What a check finds is a [`crate::finding::Finding`].

use std::io;

/// Why a check could not be made.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("cannot run `{command}`")]
    Run { command: String, source: io::Error },
    #[error("`{command}` failed: {output}")]
    Failed { command: String, output: String },
    #[error("cannot read `{path}`")]
    Read { path: String, source: io::Error },
    #[error("`{path}` is not TOML")]
    Toml { path: String, source: toml::de::Error },
    #[error("the output of `{command}` is not JSON")]
    Json { command: String, source: serde_json::Error },
}

impl Error {
    /// The error and all its sources in one line.
    pub(crate) fn chain(&self) -> String {
        let mut text = self.to_string();
        let mut source = std::error::Error::source(self);
        while let Some(error) = source {
            text = format!("{text}: {error}");
            source = error.source();
        }
        text
    }
}
