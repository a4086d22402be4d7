//! The limits of a node, each with its reason.

/// Signing sessions with open nonces at one time, one for an operation: a few megabytes, and more operations than a gateway
/// has in flight.
pub const SIGNING_SESSIONS_MAX: usize = 10_000;

/// How long nonces wait for their package, in milliseconds. A round trip takes milliseconds, and nonces that are gone cannot
/// be stolen.
pub const NONCES_TTL_MS: u64 = 60_000;

/// Ceremonies in progress at one time. Each holds the messages of up to 64 participants.
pub const CEREMONIES_MAX: usize = 64;

/// How long a ceremony waits for the other participants, in milliseconds: 64 participants compute for seconds.
pub const CEREMONY_TTL_MS: u64 = 600_000;

/// Generations in the cache of decoded public keys: some kilobytes each, and more keys than are in use at one time.
pub(crate) const GENERATIONS_DECODED_MAX: usize = 256;

/// Read connections. Nodes in one process share its two or four cores, and reads are short.
pub(crate) const READERS: u32 = 2;

/// Rows checked at one time. Shares take some ten milliseconds of a core; signing waits for one row at most.
pub const CHECKED_ROWS: u32 = 64;
