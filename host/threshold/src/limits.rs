//! Every limit of this crate, with its reason.

/// Participants of one key. The same number the public API accepts. The work of one key generation grows with
/// `participants² × threshold`; scaled up from 16 of 16, 64 of 64 costs each participant about a second.
pub const PARTICIPANTS_MAX: usize = 64;

/// Signers a key may require at the least. FROST with one signer is a plain key, and frost-core refuses it.
pub const THRESHOLD_MIN: u16 = 2;

/// Indexes in a derivation path: BIP-32 counts depth in one byte.
pub const PATH_INDEXES_MAX: usize = 255;
