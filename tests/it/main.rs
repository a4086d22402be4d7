//! Tests at two borders: the router in process, and the real process. (The third, the pure core, tests itself.)

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests fail by panicking")]

mod bundle;
mod canaries;
mod coverage;
mod crash;
mod crash_custody;
mod crash_velocity;
mod custody;
mod evidence;
mod flows;
mod harness;
mod hostile;
mod ledger;
mod moments;
mod policies;
mod providers;
mod race;
mod receipts;
mod records;
mod routes;
mod start;
mod velocity;
