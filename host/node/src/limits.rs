//! Every limit of a node and its reason.

/// Signing sessions with open nonces at one time, one an operation: a few megabytes, and more than a gateway has in
/// flight (threshold.md 7).
pub const SIGNING_SESSIONS_MAX: usize = 10_000;

/// How long nonces wait for their package, in milliseconds: a round trip is milliseconds, and what is forgotten cannot
/// be stolen (threshold.md 7).
pub const NONCES_TTL_MS: u64 = 60_000;

/// Ceremonies that make shares in flight at one time. Each holds up to 64 participants' messages.
pub const CEREMONIES_MAX: usize = 64;

/// How long such a ceremony waits for the others, in milliseconds: 64 participants of 64 compute for seconds.
pub const CEREMONY_TTL_MS: u64 = 600_000;

/// Generations whose public keys are kept decoded: some kilobytes each, and more keys than are in use at one time.
pub(crate) const GENERATIONS_DECODED_MAX: usize = 256;

/// Connections to read with. Nodes of one process share its two or four cores, and reads are short.
pub(crate) const READERS: u32 = 2;

/// Rows checked at one time: of shares some ten milliseconds of a core, and signing waits for no more of them than one.
pub const CHECKED_ROWS: u32 = 64;
