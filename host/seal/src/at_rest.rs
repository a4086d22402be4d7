//! Encrypted secrets in a database. Without the key a row reveals only the length of its secret and the id of its key; a moved
//! or altered row does not open.
//!
//! Each row has its own data encryption key (DEK), wrapped by the node's key-encryption key (KEK): [`rewrap`] changes the
//! wrapping and keeps the secret's ciphertext. A sealed row is
//! `1 ‖ KEK id (16) ‖ nonce (24) ‖ wrapped DEK (32 + 16) ‖ nonce (24) ‖ ciphertext + 16`, both with XChaCha20-Poly1305.
//! Both are bound to the [`SecretId`], and the wrapping also to the KEK id.
//!
//! **Limits.** An older row with the same id is valid, so this crate does not detect that a whole database was rolled back. An
//! attacker who once had both a row and the KEK keeps the secret: then reshare the key, since rotating the KEK does not help.

mod kek;
mod stretching;
#[cfg(test)]
mod tests;

pub use kek::{Kek, KekError, KekId};
pub use stretching::{Stretching, StretchingError};

use crate::hash::TaggedHash;
use crate::limits::SHARE_BYTES_MAX;
use crate::random::{NoRandomness, draw};
use chacha20poly1305::aead::{Aead as _, Payload};
use chacha20poly1305::{KeyInit as _, XChaCha20Poly1305};
use zeroize::Zeroizing;

/// The version of sealed rows that this crate writes and reads.
const VERSION: u8 = 1;

/// Bytes of a wrapped DEK, with its tag.
const WRAPPED_BYTES: usize = 32 + 16;

/// Identifies a secret. A sealed secret opens only with the id it was sealed with, so it cannot be moved to another row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SecretId<'a> {
    /// The node that holds it.
    pub node: &'a str,
    /// The key that the secret is a share of.
    pub key_id: &'a str,
    /// The epoch of the key.
    pub epoch: &'a str,
    /// Index of the node among the key's participants.
    pub index: u16,
}

/// Why a secret cannot be sealed or opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AtRestError {
    /// The row is not a sealed row, or is truncated.
    #[error("the row is not a sealed share")]
    Malformed,
    /// The row has another version.
    #[error("the sealed share has version {0}")]
    Version(u8),
    /// The row or check value is of another key-encryption key, or the row's key id was altered.
    #[error("the row is sealed under key {sealed}, not under {ours}")]
    WrongKek {
        /// The key that the row or the check value names.
        sealed: KekId,
        /// The key that was given.
        ours: KekId,
    },
    /// The row was altered, or was sealed with another id: the cipher cannot distinguish the two.
    #[error("the sealed share was altered, or moved here from another row")]
    AlteredOrMoved,
    /// The secret is longer than [`SHARE_BYTES_MAX`].
    #[error("a share of {0} bytes is too large")]
    Oversize(usize),
    /// The operating system provided no randomness.
    #[error(transparent)]
    NoRandomness(#[from] NoRandomness),
}

impl Kek {
    /// Checks that this is the key with the stored check value.
    ///
    /// # Errors
    /// [`AtRestError::WrongKek`].
    pub fn verify(&self, check_value: &[u8; 32]) -> Result<(), AtRestError> {
        if *check_value == self.check_value() {
            Ok(())
        } else {
            Err(AtRestError::WrongKek { sealed: KekId::of(check_value), ours: self.id() })
        }
    }
}

/// The random values of one row.
struct Fresh {
    dek: Zeroizing<[u8; 32]>,
    wrapping_nonce: [u8; 24],
    share_nonce: [u8; 24],
}

/// The fields of a row.
struct Row<'a> {
    kek_id: KekId,
    wrapping_nonce: &'a [u8; 24],
    wrapped: &'a [u8; WRAPPED_BYTES],
    share_nonce: &'a [u8; 24],
    ciphertext: &'a [u8],
}

/// Seals a secret, with a fresh DEK and nonces from the operating system's randomness.
///
/// # Errors
/// [`AtRestError::Oversize`] or [`AtRestError::NoRandomness`].
pub fn seal_share(kek: &Kek, secret_id: &SecretId<'_>, share: &[u8]) -> Result<Vec<u8>, AtRestError> {
    let fresh = Fresh { dek: draw()?, wrapping_nonce: *draw()?, share_nonce: *draw()? };
    seal_from(&fresh, kek, secret_id, share)
}

/// As [`seal_share`], with the random values as an argument, which must never be used twice.
fn seal_from(
    fresh: &Fresh,
    kek: &Kek,
    secret_id: &SecretId<'_>,
    share: &[u8],
) -> Result<Vec<u8>, AtRestError> {
    if share.len() > SHARE_BYTES_MAX {
        return Err(AtRestError::Oversize(share.len()));
    }
    let Fresh { dek, wrapping_nonce, share_nonce } = fresh;
    let payload = Payload { msg: share, aad: &secret_id.aad_of_share() };
    let ciphertext = XChaCha20Poly1305::new(&(**dek).into())
        .encrypt(share_nonce.into(), payload)
        .map_err(|_| AtRestError::Oversize(share.len()))?;
    let wrapped = wrap(kek, secret_id, wrapping_nonce, dek.as_slice())?;
    Ok(row(kek.id(), wrapping_nonce, &wrapped, share_nonce, &ciphertext))
}

/// Opens a sealed row.
///
/// # Errors
/// [`AtRestError::Malformed`], [`AtRestError::Version`], [`AtRestError::WrongKek`] or [`AtRestError::AlteredOrMoved`].
pub fn open_share(
    kek: &Kek,
    secret_id: &SecretId<'_>,
    sealed: &[u8],
) -> Result<Zeroizing<Vec<u8>>, AtRestError> {
    let row = Row::parse(sealed)?;
    let dek = row.unwrap(kek, secret_id)?;
    row.decrypt(&dek, secret_id)
}

/// Wraps the row's DEK under another KEK and keeps the secret's ciphertext. Decrypts the secret too, so that a damaged row is
/// found while the old KEK still exists.
///
/// # Errors
/// As [`open_share`], and [`AtRestError::NoRandomness`].
pub fn rewrap(old: &Kek, new: &Kek, secret_id: &SecretId<'_>, sealed: &[u8]) -> Result<Vec<u8>, AtRestError> {
    let before = Row::parse(sealed)?;
    let dek = before.unwrap(old, secret_id)?;
    before.decrypt(&dek, secret_id)?;
    let nonce = draw()?;
    let wrapped = wrap(new, secret_id, &nonce, &dek)?;
    Ok(row(new.id(), &nonce, &wrapped, before.share_nonce, before.ciphertext))
}

fn wrap(kek: &Kek, secret_id: &SecretId<'_>, nonce: &[u8; 24], dek: &[u8]) -> Result<Vec<u8>, AtRestError> {
    let payload = Payload { msg: dek, aad: &secret_id.aad_of_wrapping(kek.id()) };
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

    fn unwrap(&self, kek: &Kek, secret_id: &SecretId<'_>) -> Result<Zeroizing<Vec<u8>>, AtRestError> {
        if self.kek_id != kek.id() {
            return Err(AtRestError::WrongKek { sealed: self.kek_id, ours: kek.id() });
        }
        let payload = Payload { msg: self.wrapped, aad: &secret_id.aad_of_wrapping(self.kek_id) };
        let dek = XChaCha20Poly1305::new(kek.key().into()).decrypt(self.wrapping_nonce.into(), payload);
        dek.map(Zeroizing::new).map_err(|_| AtRestError::AlteredOrMoved)
    }

    fn decrypt(&self, dek: &[u8], secret_id: &SecretId<'_>) -> Result<Zeroizing<Vec<u8>>, AtRestError> {
        let cipher = XChaCha20Poly1305::new_from_slice(dek).map_err(|_| AtRestError::Malformed)?;
        let payload = Payload { msg: self.ciphertext, aad: &secret_id.aad_of_share() };
        let share = cipher.decrypt(self.share_nonce.into(), payload);
        share.map(Zeroizing::new).map_err(|_| AtRestError::AlteredOrMoved)
    }
}

impl SecretId<'_> {
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
