//! Every limit of this crate, with its reason.

use std::time::Duration;

/// Longest token, bytes. Tokens of identity providers with some hundred groups have about 8 KiB; nothing longer is
/// decoded or hashed.
pub const TOKEN_BYTES_MAX: usize = 16 * 1024;

/// How far the identity provider's clock may be from ours, milliseconds (decisions.md 7).
pub const LEEWAY_MS: u64 = 60_000;

/// Longest name, role, scope, tenant or token id, bytes: the limit of every string (decisions.md 1).
pub const TEXT_BYTES_MAX: usize = 1024;

/// Most roles, and most scopes, of a caller (decisions.md 1).
pub const LIST_ENTRIES_MAX: usize = 64;

/// Longest key set of an identity provider, bytes: a hundred keys with their certificates.
pub const KEY_SET_BYTES_MAX: usize = 256 * 1024;

/// Most keys of a set that are looked at: a provider has two or three.
pub const KEY_SET_KEYS_MAX: usize = 128;

/// How long a request to the identity provider may take. Whoever waits for it is a caller whose token can not be
/// judged without it.
pub const PROVIDER_WITHIN: Duration = Duration::from_secs(5);

/// How long making a connection to it may take.
pub const PROVIDER_CONNECT_WITHIN: Duration = Duration::from_secs(2);

/// How often keys are fetched again because of a key id that nobody knows (decisions.md 7): whoever sends such tokens
/// sends them as fast as he likes.
pub const REFETCH_EVERY_MS: u64 = 60_000;

/// How often they are asked for while there are none to judge any token with.
pub const FIRST_FETCH_EVERY_MS: u64 = 5_000;

/// How old keys may get before they are fetched again behind the callers' backs, so that a key that the provider has
/// withdrawn does not live on here.
pub const REFRESH_EVERY_MS: u64 = 300_000;

/// How old keys may get before whoever comes waits until they were fetched again: nobody came for a while, and what the
/// provider has withdrawn meanwhile is not known.
pub const STALE_AFTER_MS: u64 = 2 * REFRESH_EVERY_MS;

/// Longest answer about one token, bytes.
pub const ANSWER_BYTES_MAX: usize = 64 * 1024;

/// How long "active" is believed without asking again (decisions.md 7).
pub const ACTIVE_FOR_MS: u64 = 30_000;

/// Most tokens that are remembered as active.
pub const ACTIVE_TOKENS_MAX: usize = 4_096;

/// Most questions to the identity provider at a time about tokens that were not active lately: it has other customers.
pub const QUESTIONS_MAX: usize = 48;

/// The same about tokens that were: whoever sends tokens that he made up takes none of these turns.
pub const QUESTIONS_AGAIN_MAX: usize = 16;

/// Most questions that wait for their turn, of either kind. A provider that answers within 100 ms answers them in half a second.
pub const QUESTIONS_WAITING_MAX: usize = 256;

/// How often the provider is asked for the readiness probe's sake, which anybody may cause.
pub const PROBE_EVERY_MS: u64 = 5_000;

/// Longest client secret, bytes.
pub const SECRET_BYTES_MAX: usize = 1024;
