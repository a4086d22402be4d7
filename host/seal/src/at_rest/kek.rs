//! The key-encryption key (KEK) of a node, from a file or a passphrase.

use super::stretching::{Stretching, StretchingError};
use crate::hash::TaggedHash;
use crate::key_file::{self, KeyFileError};
use std::fmt;
use std::path::Path;
use zeroize::Zeroizing;

/// The key under which a node's rows are sealed. Wiped when dropped.
pub struct Kek {
    key: Zeroizing<[u8; 32]>,
    check_value: [u8; 32],
}

/// Identifies a [`Kek`] in rows and messages: the first 16 bytes of its check value. Not secret.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct KekId(pub(super) [u8; 16]);

/// Why a key-encryption key cannot be loaded.
#[derive(Debug, thiserror::Error)]
pub enum KekError {
    /// The key file is missing, exposed or malformed.
    #[error(transparent)]
    File(#[from] KeyFileError),
    /// The passphrase cannot be stretched.
    #[error(transparent)]
    Passphrase(#[from] StretchingError),
}

impl Kek {
    /// Loads the key from a file: see [`key_file::load`].
    ///
    /// # Errors
    /// [`KekError::File`].
    pub fn from_file(path: &Path) -> Result<Self, KekError> {
        Ok(Self::new(key_file::load(path)?))
    }

    /// Derives the key from a passphrase. With the default parameters this takes about a quarter of a second.
    ///
    /// # Errors
    /// [`KekError::Passphrase`].
    pub fn from_passphrase(passphrase: &str, stretching: &Stretching) -> Result<Self, KekError> {
        Ok(Self::new(stretching.stretch(passphrase)?))
    }

    /// A key from 32 uniformly random bytes.
    #[must_use]
    pub fn new(key: Zeroizing<[u8; 32]>) -> Self {
        let check_value = TaggedHash::new("gateway/seal/kek/v1").bytes(key.as_slice()).finish();
        Self { key, check_value }
    }

    /// A hash of the key, which a node stores beside its rows to recognise the key. It lets an attacker test guesses of a
    /// passphrase, as any sealed row does.
    #[must_use]
    pub fn check_value(&self) -> [u8; 32] {
        self.check_value
    }

    /// The key's identifier.
    #[must_use]
    pub fn id(&self) -> KekId {
        KekId::of(&self.check_value)
    }

    pub(super) fn key(&self) -> &[u8; 32] {
        &self.key
    }
}

impl KekId {
    pub(super) fn of(check_value: &[u8; 32]) -> Self {
        let mut id = [0; 16];
        id.iter_mut().zip(check_value).for_each(|(to, from)| *to = *from);
        Self(id)
    }
}

impl fmt::Debug for Kek {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kek").field("id", &self.id()).finish_non_exhaustive()
    }
}

impl fmt::Display for KekId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}

impl fmt::Debug for KekId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
