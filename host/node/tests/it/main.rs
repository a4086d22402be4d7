//! Tests of a node's calls: refusals, repeats and restarts, on real databases.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests fail by panicking")]

mod admission;
mod approvals;
mod at_rest;
mod attempts;
mod documents;
mod keygen;
mod log;
mod misbehaviour;
mod order;
mod paid;
mod policy;
mod policy_bundles;
mod receipts;
mod relay;
mod rollback;
mod signing;
mod support;
mod times;
