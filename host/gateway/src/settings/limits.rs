//! The ranges of settings, each with its reason. A value outside cannot work, or is a mistake.

use gateway_policy::limits::OUTPUT_ITEMS_MAX;
use gateway_service::settings::rules::REQUIRED_APPROVALS_MAX;
use std::ops::RangeInclusive;

/// Longest name of a log, in bytes: the cosignature format of witnesses has one byte for its length.
pub(super) const LOG_ORIGIN_BYTES_MAX: usize = 255;

const _: () = assert!(
    REQUIRED_APPROVALS_MAX as usize == OUTPUT_ITEMS_MAX,
    "an operation that needs more approvals could never proceed"
);

/// Most requests a second: tokens are counted in microseconds.
pub(super) const RATE_MAX: u32 = 1_000_000;

/// Largest burst: at one token a second the quota is full again after twelve days.
pub(super) const BURST_MAX: u32 = 1_000_000;

/// Most recorded previews: they take several hundred gigabytes.
pub(super) const PREVIEW_RECORDS_MAX: u32 = 100_000_000;

/// Longest time for which rows are kept, other than forever: ten years.
pub(super) const KEPT_DAYS_MAX: u32 = 3_650;

/// Days of payments: the longest window of a limit is 30 days, and a clock may be set back.
pub(super) const SPENDING_KEPT_DAYS: RangeInclusive<u32> = 31..=KEPT_DAYS_MAX;

/// Bytes of a body: with less, ordinary requests would not fit; with more, a few hundred clients exhaust the memory.
pub(super) const BODY_BYTES: RangeInclusive<usize> = 1024..=16 * 1024 * 1024;

/// Bytes of a page of an audit export: with less, the largest event would not fit; no page needs more.
pub(super) const AUDIT_BYTES: RangeInclusive<usize> = 16 * 1024..=512 * 1024;
