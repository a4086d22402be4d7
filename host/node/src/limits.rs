//! The limits of a node, each with its reason.

/// Signing sessions with open nonces at one time, one for an operation: a few megabytes, and more operations than a gateway
/// executes at the same time.
pub const SIGNING_SESSIONS_MAX: usize = 10_000;

/// How long nonces wait for their package, in milliseconds. A round trip takes milliseconds, and nonces that were dropped
/// cannot be stolen.
pub const NONCES_TTL_MS: u64 = 60_000;

/// Ceremonies in progress at one time. Each holds the messages of up to 64 participants.
pub const CEREMONIES_MAX: usize = 64;

/// How long a ceremony counts towards [`CEREMONIES_MAX`], in milliseconds. With 64 participants it computes for seconds.
pub const CEREMONY_TTL_MS: u64 = 600_000;

/// Generations in the cache of decoded public keys: some kilobytes each. A full cache is emptied.
pub(crate) const GENERATIONS_DECODED_MAX: usize = 256;

pub use gateway_policy::limits::SUPERSEDED_BUNDLE_MS;

/// Policy evaluations of one node at one time that are too long for a thread of the async runtime, and bundles that it verifies:
/// each uses a core.
pub(crate) const HEAVY_EVALUATIONS_MAX: usize = 2;

/// Operations that a node missed, up to which it discards another one whose decision no pinned authority signed. An authority's key
/// that was replaced leaves a few.
pub(crate) const MISSED_DISCARDS_MAX: i64 = 1_000;

/// Read connections of a node. Reads are short, and the nodes of one process share its cores.
pub(crate) const READERS: u32 = 2;

/// Entries of the log in one answer: half a megabyte of JSON.
pub const LOG_ENTRIES_MAX: u32 = 1024;

/// Entries that a readmission marks as lost: a busy node's log of a day, written in seconds. A node whose backup is older is
/// replaced.
pub const READMIT_LOST_MAX: u64 = 100_000;

/// Rows checked at one time: some ten milliseconds of a core if they are shares.
pub const CHECKED_ROWS: u32 = 64;
