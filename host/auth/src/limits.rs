//! The limits of this crate, with their reasons.

use std::time::Duration;

/// Longest token, bytes. A token with a few hundred groups has about 8 KiB.
pub const TOKEN_BYTES_MAX: usize = 16 * 1024;

/// Tolerated difference between the identity provider's clock and ours, milliseconds.
pub const LEEWAY_MS: u64 = 60_000;

/// Longest name, role, scope, tenant or token id, bytes: as long as a string in a request body may be.
pub const TEXT_BYTES_MAX: usize = 1024;

/// Most roles, and most scopes, of a caller. Identity providers put all groups of a person in a token, of which the gateway needs a few.
pub const LIST_ENTRIES_MAX: usize = 256;

/// Largest key set of an identity provider, bytes: enough for a hundred keys with their certificates.
pub const KEY_SET_BYTES_MAX: usize = 256 * 1024;

/// Most keys of a set: a provider has two or three.
pub const KEY_SET_KEYS_MAX: usize = 128;

/// Deadline of a request to the identity provider: callers wait for it.
pub const PROVIDER_TIMEOUT: Duration = Duration::from_secs(5);

/// Deadline for connecting to it.
pub const PROVIDER_CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// Least time between fetches of keys, so that a flood of invented key ids does not reach the provider.
pub const REFETCH_EVERY_MS: u64 = 60_000;

/// Least time between fetches while there are no keys at all.
pub const FIRST_FETCH_EVERY_MS: u64 = 5_000;

/// Age at which keys are fetched again in the background, so that a revoked key does not stay in use.
pub const REFRESH_EVERY_MS: u64 = 300_000;

/// Age at which callers wait for a new fetch: without requests for that long, a revocation may have been missed.
pub const STALE_AFTER_MS: u64 = 2 * REFRESH_EVERY_MS;

/// Largest introspection answer, bytes.
pub const ANSWER_BYTES_MAX: usize = 64 * 1024;

/// How long the answer "active" is cached.
pub const ACTIVE_FOR_MS: u64 = 30_000;

/// Most active tokens in the cache.
pub const ACTIVE_TOKENS_MAX: usize = 4_096;

/// Most concurrent introspection requests for tokens that were not recently active: the provider has other clients.
pub const REQUESTS_MAX: usize = 48;

/// The same for tokens that were recently active, so that a flood of invented tokens does not stop these.
pub const REQUESTS_KNOWN_MAX: usize = 16;

/// Most waiting requests of either kind. A provider that answers within 100 ms serves them in half a second (new tokens) or in
/// two seconds (tokens that were recently active).
pub const REQUESTS_WAITING_MAX: usize = 256;

/// Least time between requests that the readiness probe causes, since anyone may call it.
pub const PROBE_EVERY_MS: u64 = 5_000;

/// Longest client secret, bytes.
pub const SECRET_BYTES_MAX: usize = 1024;
