//! Sealing one secret for one row.

use super::{Kek, KekId};
use crate::hash::TaggedHash;
use crate::limits::SHARE_BYTES_MAX;
use crate::random::{NoRandomness, draw};
use chacha20poly1305::aead::{Aead as _, Payload};
use chacha20poly1305::{KeyInit as _, XChaCha20Poly1305};
use zeroize::Zeroizing;

/// The rows that this crate makes and reads.
const VERSION: u8 = 1;

/// Bytes of a DEK with its tag.
const WRAPPED_BYTES: usize = 32 + 16;

/// The row that a secret belongs to; it opens nowhere else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place<'a> {
    /// The node that holds it.
    pub node: &'a str,
    /// The key that it is a share of.
    pub key_id: &'a str,
    /// Generation of the key.
    pub epoch: &'a str,
    /// Index of the node among the key's participants.
    pub index: u16,
}

/// Why a secret is not sealed or opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AtRestError {
    /// Not a sealed row, or one cut short.
    #[error("the row is not a sealed share")]
    Malformed,
    /// A row of another version.
    #[error("the sealed share has version {0}")]
    Version(u8),
    /// Sealed under another key. The row says so itself: it may also be altered.
    #[error("sealed under key {sealed}, not under {ours}")]
    OtherKek {
        /// The key that the row or the check value names.
        sealed: KekId,
        /// The key that was tried.
        ours: KekId,
    },
    /// Altered, or another place's: to the cipher these are the same.
    #[error("the sealed share was altered, or moved here from another row")]
    AlteredOrMoved,
    /// More than [`SHARE_BYTES_MAX`].
    #[error("a share of {0} bytes is too large")]
    Oversize(usize),
    /// The operating system gave no randomness.
    #[error(transparent)]
    NoRandomness(#[from] NoRandomness),
}

/// The randomness of one row.
pub(super) struct Fresh {
    pub(super) dek: Zeroizing<[u8; 32]>,
    pub(super) wrapping_nonce: [u8; 24],
    pub(super) share_nonce: [u8; 24],
}

/// A row, taken apart.
struct Row<'a> {
    kek_id: KekId,
    wrapping_nonce: &'a [u8; 24],
    wrapped: &'a [u8; WRAPPED_BYTES],
    share_nonce: &'a [u8; 24],
    ciphertext: &'a [u8],
}

/// Seals a secret for its row. DEK and nonces come from the operating system's randomness.
///
/// # Errors
/// [`AtRestError::Oversize`] or [`AtRestError::NoRandomness`].
pub fn seal_share(kek: &Kek, place: &Place<'_>, share: &[u8]) -> Result<Vec<u8>, AtRestError> {
    let fresh = Fresh { dek: draw()?, wrapping_nonce: *draw()?, share_nonce: *draw()? };
    seal_from(&fresh, kek, place, share)
}

/// The same, with its randomness as an argument: it must never be used twice.
pub(super) fn seal_from(
    fresh: &Fresh,
    kek: &Kek,
    place: &Place<'_>,
    share: &[u8],
) -> Result<Vec<u8>, AtRestError> {
    if share.len() > SHARE_BYTES_MAX {
        return Err(AtRestError::Oversize(share.len()));
    }
    let Fresh { dek, wrapping_nonce, share_nonce } = fresh;
    let payload = Payload { msg: share, aad: &place.aad_of_share() };
    let ciphertext = XChaCha20Poly1305::new(&(**dek).into())
        .encrypt(share_nonce.into(), payload)
        .map_err(|_| AtRestError::Oversize(share.len()))?;
    let wrapped = wrap(kek, place, wrapping_nonce, dek.as_slice())?;
    Ok(row(kek.id(), wrapping_nonce, &wrapped, share_nonce, &ciphertext))
}

/// The secret in a row.
///
/// # Errors
/// [`AtRestError::Malformed`], [`AtRestError::Version`], [`AtRestError::OtherKek`] or [`AtRestError::AlteredOrMoved`].
pub fn open_share(kek: &Kek, place: &Place<'_>, sealed: &[u8]) -> Result<Zeroizing<Vec<u8>>, AtRestError> {
    let row = Row::parse(sealed)?;
    let dek = row.unwrap(kek, place)?;
    row.decrypt(&dek, place)
}

/// The same secret in a row under another key. It is opened first, so that a damaged row is noticed while the old key
/// is still there, and leaves this function only as the ciphertext that it was.
///
/// # Errors
/// As [`open_share`], and [`AtRestError::NoRandomness`].
pub fn rewrap(old: &Kek, new: &Kek, place: &Place<'_>, sealed: &[u8]) -> Result<Vec<u8>, AtRestError> {
    let before = Row::parse(sealed)?;
    let dek = before.unwrap(old, place)?;
    before.decrypt(&dek, place)?;
    let nonce = draw()?;
    let wrapped = wrap(new, place, &nonce, &dek)?;
    Ok(row(new.id(), &nonce, &wrapped, before.share_nonce, before.ciphertext))
}

fn wrap(kek: &Kek, place: &Place<'_>, nonce: &[u8; 24], dek: &[u8]) -> Result<Vec<u8>, AtRestError> {
    let payload = Payload { msg: dek, aad: &place.aad_of_wrapping(kek.id()) };
    let cipher = XChaCha20Poly1305::new(kek.key().into());
    cipher.encrypt(nonce.into(), payload).map_err(|_| AtRestError::Oversize(dek.len()))
}

fn row(id: KekId, wrapping: &[u8; 24], wrapped: &[u8], nonce: &[u8; 24], ciphertext: &[u8]) -> Vec<u8> {
    [&[VERSION], id.0.as_slice(), wrapping, wrapped, nonce, ciphertext].concat()
}

impl<'a> Row<'a> {
    fn parse(sealed: &'a [u8]) -> Result<Self, AtRestError> {
        let (version, rest) = sealed.split_first().ok_or(AtRestError::Malformed)?;
        if *version != VERSION {
            return Err(AtRestError::Version(*version));
        }
        let (kek_id, rest) = rest.split_first_chunk().ok_or(AtRestError::Malformed)?;
        let (wrapping_nonce, rest) = rest.split_first_chunk().ok_or(AtRestError::Malformed)?;
        let (wrapped, rest) = rest.split_first_chunk().ok_or(AtRestError::Malformed)?;
        let (share_nonce, ciphertext) = rest.split_first_chunk().ok_or(AtRestError::Malformed)?;
        Ok(Self { kek_id: KekId(*kek_id), wrapping_nonce, wrapped, share_nonce, ciphertext })
    }

    fn unwrap(&self, kek: &Kek, place: &Place<'_>) -> Result<Zeroizing<Vec<u8>>, AtRestError> {
        if self.kek_id != kek.id() {
            return Err(AtRestError::OtherKek { sealed: self.kek_id, ours: kek.id() });
        }
        let payload = Payload { msg: self.wrapped, aad: &place.aad_of_wrapping(self.kek_id) };
        let dek = XChaCha20Poly1305::new(kek.key().into()).decrypt(self.wrapping_nonce.into(), payload);
        dek.map(Zeroizing::new).map_err(|_| AtRestError::AlteredOrMoved)
    }

    fn decrypt(&self, dek: &[u8], place: &Place<'_>) -> Result<Zeroizing<Vec<u8>>, AtRestError> {
        let cipher = XChaCha20Poly1305::new_from_slice(dek).map_err(|_| AtRestError::Malformed)?;
        let payload = Payload { msg: self.ciphertext, aad: &place.aad_of_share() };
        let share = cipher.decrypt(self.share_nonce.into(), payload);
        share.map(Zeroizing::new).map_err(|_| AtRestError::AlteredOrMoved)
    }
}

impl Place<'_> {
    fn hash(&self, tag: &'static str) -> TaggedHash {
        let hash = TaggedHash::new(tag).bytes(self.node.as_bytes()).bytes(self.key_id.as_bytes());
        hash.bytes(self.epoch.as_bytes()).number(self.index).number(VERSION)
    }

    fn aad_of_share(&self) -> [u8; 32] {
        self.hash("gateway/seal/share/v1").finish()
    }

    fn aad_of_wrapping(&self, kek_id: KekId) -> [u8; 32] {
        self.hash("gateway/seal/wrapping/v1").bytes(&kek_id.0).finish()
    }
}
