//! The limits of this crate, with their reasons.

/// Largest message body, in bytes. The largest of the threshold crate, with 64 participants, has about 4 KiB.
pub const BODY_BYTES_MAX: usize = 64 * 1024;

/// Largest secret at rest, in bytes. A key share has about a hundred.
pub const SHARE_BYTES_MAX: usize = 64 * 1024;

/// Largest key file, in bytes: 64 digits and an end of line (`\n` or `\r\n`).
pub const KEY_FILE_BYTES_MAX: u64 = 66;

/// Shortest passphrase, in bytes: key stretching does not make up for a short one.
pub const PASSPHRASE_BYTES_MIN: usize = 12;

/// Longest passphrase, in bytes.
pub const PASSPHRASE_BYTES_MAX: usize = 1024;

/// Largest passphrase file, in bytes: the longest passphrase and an end of line.
pub const PASSPHRASE_FILE_BYTES_MAX: u64 = 1024 + 2;

/// Least Argon2id memory in KiB, and the default. Less would make guesses cheaper.
pub const MEMORY_KIB_MIN: u32 = 64 * 1024;

/// Most Argon2id memory in KiB: stored parameters must not be able to exhaust the node's memory.
pub const MEMORY_KIB_MAX: u32 = 1024 * 1024;

/// Fewest Argon2id passes, and the default.
pub const PASSES_MIN: u32 = 3;

/// Most Argon2id passes: with the default memory they take a few seconds.
pub const PASSES_MAX: u32 = 32;
