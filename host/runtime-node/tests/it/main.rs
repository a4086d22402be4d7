//! The node surface over its router, in process: what the document says, and bad input.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests fail by panicking")]

mod corrupted;
mod document;
mod selftest;
mod surface;

use gateway_service::quota::{QuotaLimits, Quotas};
use std::sync::Arc;

/// Quotas of this many simultaneous requests, without a rate that a test could meet.
fn quotas(requests_max: usize) -> Arc<Quotas> {
    Arc::new(Quotas::new([], QuotaLimits { requests_max, per_second: 1_000_000, burst: 1_000_000 }))
}
