//! Compares the log with published vectors, another implementation, and the examples of the specifications.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests fail by panicking")]

mod ed25519;
mod oracle;
mod texts;
mod vectors;
mod witness;
