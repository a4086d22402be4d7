//! The log against everything that is not ours: published vectors, another implementation, the specifications' texts.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests fail by panicking")]

mod ed25519;
mod oracle;
mod texts;
mod vectors;
