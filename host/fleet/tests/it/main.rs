//! Tests of the fleet with real nodes and databases: whole operations, unavailable nodes, crashes and repeats.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests fail by panicking")]

mod abort;
mod blame;
mod bundles;
mod crash;
mod end_to_end;
#[cfg(feature = "failpoints")]
mod kill;
mod lifecycle;
mod receipts;
mod refused;
mod rollback;
mod support;
mod unavailable;
