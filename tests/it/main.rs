//! Integration tests: of the router in this process (`harness::world`), and of the real process (`harness::process`).

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests fail by panicking")]

mod access;
mod addresses;
mod approvers;
mod bundle;
mod canaries;
mod cluster;
mod contributions;
mod coverage;
mod crash;
mod crash_custody;
mod crash_velocity;
mod custody;
mod evidence;
mod faults;
mod first_use;
mod flows;
mod fuzzed;
mod harness;
mod hostile;
mod identity;
mod isolation;
mod key_use;
mod keys;
mod ledger;
mod limits;
mod moments;
mod nodes;
mod observability;
mod openapi_examples;
mod origin;
mod policies;
mod providers;
mod race;
mod rate;
mod receipts;
mod records;
mod replicas;
mod routes;
mod signed_approvals;
mod start;
mod tampering;
mod transport;
mod velocity;
mod witnesses;
