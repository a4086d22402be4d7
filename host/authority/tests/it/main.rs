//! Decisions that the authority signs, requests that it refuses, and altered decisions.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests fail by panicking")]

mod decision;
mod envelope;
mod support;
