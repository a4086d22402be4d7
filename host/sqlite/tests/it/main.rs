//! Tests on real database files.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, reason = "tests fail by panicking")]

mod copy;
mod kill;
mod open;
mod read;
mod support;
mod write;
