//! What the authority states, what it refuses to state, and that nobody can change a word of it.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests fail by panicking")]

mod decision;
mod envelope;
mod support;
