//! Between what every setting has to be, each with its reason. What is outside could not work, or would be something else than
//! was meant.

use gateway_policy::limits::OUTPUT_ITEMS_MAX;
use std::ops::RangeInclusive;

/// Longest name of a log: witnesses that sign in the newer form have one byte for its length.
pub(super) const LOG_ORIGIN_BYTES_MAX: usize = 255;

/// Longest time: ten years. More is a unit mistaken, and in the end an instant that no database and no clock has.
pub(super) const MILLISECONDS_MAX: u64 = 10 * 366 * 24 * 3_600_000;

/// Most approvals: a policy's verdict names no more subjects, so that an operation that needs more waits for ever.
#[expect(clippy::cast_possible_truncation, reason = "128")]
pub(super) const REQUIRED_APPROVALS_MAX: u32 = OUTPUT_ITEMS_MAX as u32;

/// Most a second: budgets are counted in microseconds.
pub(super) const RATE_MAX: u32 = 1_000_000;

/// Most at once: at one a second the budget is full again after twelve days.
pub(super) const BURST_MAX: u32 = 1_000_000;

/// Most previews on record: some hundred gigabytes.
pub(super) const PREVIEW_RECORDS_MAX: u32 = 100_000_000;

/// Bytes of a body: below, no payment fits; above, a few hundred clients take all memory.
pub(super) const BODY_BYTES: RangeInclusive<usize> = 1024..=16 * 1024 * 1024;

/// Bytes of an audit export: below, the largest event does not fit; an export never exceeds the upper end.
pub(super) const AUDIT_BYTES: RangeInclusive<usize> = 16 * 1024..=512 * 1024;

/// Connections at once, of one listener and of one address; the start compares them with the files that the system allows.
pub(super) const CONNECTIONS: RangeInclusive<usize> = 1..=1_000_000;

/// Bytes of request line and headers: below, a token and a path do not fit; the upper end is many times what proxies take.
pub(super) const HEADER_BYTES: RangeInclusive<usize> = 4 * 1024..=1024 * 1024;

/// Headers of a request: below, those of an ordinary client behind a proxy do not fit; room for the upper end is made for each
/// request before it is read.
pub(super) const HEADERS: RangeInclusive<usize> = 16..=1024;
