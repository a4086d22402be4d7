//! Every limit of this crate, with its reason.

/// Bytes of a message's body. The largest that the threshold crate makes, for 64 participants, has about 4 KiB.
pub const BODY_BYTES_MAX: usize = 64 * 1024;

/// Bytes of a secret at rest. A key share has some hundred; what is longer is not one.
pub const SHARE_BYTES_MAX: usize = 64 * 1024;

/// More than a key file ever has: 64 digits and an end of line, in any convention.
pub const KEY_FILE_BYTES_MAX: u64 = 66;

/// Bytes of a passphrase, at the least: stretching makes a guess dear, not a short passphrase long.
pub const PASSPHRASE_BYTES_MIN: usize = 12;

/// Bytes of a passphrase, at the most: whoever wants more has a key file.
pub const PASSPHRASE_BYTES_MAX: usize = 1024;

/// More than a passphrase file ever has: the longest passphrase and an end of line.
pub const PASSPHRASE_FILE_BYTES_MAX: u64 = 1024 + 2;

/// Argon2id memory in KiB, at the least and by default. Below it a guess is cheap: a weaker row is refused.
pub const MEMORY_KIB_MIN: u32 = 64 * 1024;

/// Argon2id memory in KiB, at the most: a row must not be able to take the node's whole memory.
pub const MEMORY_KIB_MAX: u32 = 1024 * 1024;

/// Argon2id passes, at the least and by default.
pub const PASSES_MIN: u32 = 3;

/// Argon2id passes, at the most: some seconds at the default memory.
pub const PASSES_MAX: u32 = 32;
