//! Every limit of this crate, with its reason.

/// Participants of one key. The same number the public API accepts; the work of one key generation grows with
/// `participants² × threshold`, and 64 of 64 is still seconds.
pub const PARTICIPANTS_MAX: usize = 64;

/// Signers a key may require at the least. FROST with one signer is a plain key, and frost-core refuses it.
pub const THRESHOLD_MIN: u16 = 2;

/// Indexes in a derivation path: BIP-32 counts depth in one byte.
pub const PATH_INDEXES_MAX: usize = 255;
