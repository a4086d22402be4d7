//! The node surface over its router, in process: what the document says, and bad input.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests fail by panicking")]

mod conforms;
mod corrupted;
mod selftest;
mod surface;
