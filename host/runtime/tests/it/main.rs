//! The fleet over real nodes with real databases: whole lives, absences, crashes, and the same signature again.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests fail by panicking")]

mod absent;
mod crash;
#[cfg(feature = "failpoints")]
mod kill;
mod lifecycle;
mod lives;
mod receipts;
mod refused;
mod support;
mod verify;
