//! A product payment.

use super::SigningTerms;
use crate::ids::KeyRef;
use serde::{Deserialize, Serialize};
use std::str::FromStr;

/// Indices from 2^31 on are hardened in BIP-32 and cannot be derived from a threshold key's public key.
pub const BIP32_INDEX_MAX: u32 = (1 << 31) - 1;

/// A payment, and how its signature is to be made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Payment {
    /// The key the caller named, if any.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub key_ref: Option<KeyRef>,
    /// The account that pays.
    pub from_account: String,
    /// The account that is paid: what a recipient policy looks at.
    pub to_account: String,
    /// Minor units of `currency`; the policy denies what is not positive.
    pub amount_minor: i64,
    /// As the caller wrote it.
    pub currency: String,
    /// Free text of the caller.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub reference: Option<String>,
    /// The child key to sign with, if not the key itself.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub bip32: Option<Bip32>,
    /// Signers, threshold, fence, publication.
    #[serde(flatten)]
    pub terms: SigningTerms,
}

/// A non-hardened child of the key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bip32 {
    /// Recorded and bound, not interpreted.
    pub network: String,
    /// Exactly `digits/digits`, checked by [`Bip32::indices`].
    pub path: String,
}

/// The path is not `digits/digits` with both below 2^31.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be two non-hardened indices as `digits/digits`, each at most {BIP32_INDEX_MAX}")]
pub struct InvalidBip32Path;

impl Bip32 {
    /// The two indices of the path.
    ///
    /// # Errors
    /// [`InvalidBip32Path`] when it has another form.
    pub fn indices(&self) -> Result<[u32; 2], InvalidBip32Path> {
        let (first, second) = self.path.split_once('/').ok_or(InvalidBip32Path)?;
        Ok([index(first)?, index(second)?])
    }
}

fn index(digits: &str) -> Result<u32, InvalidBip32Path> {
    if digits.is_empty() || digits.len() > 10 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(InvalidBip32Path);
    }
    u32::from_str(digits).ok().filter(|index| *index <= BIP32_INDEX_MAX).ok_or(InvalidBip32Path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_two_plain_indices() {
        let path = |path: &str| Bip32 { network: "bitcoin".into(), path: path.into() }.indices();
        assert_eq!(path("0/2147483647"), Ok([0, BIP32_INDEX_MAX]));
        for wrong in
            ["", "1", "1/2/3", "m/1/2", "1'/2", "1/2147483648", "-1/2", "+1/2", " 1/2", "1/", "99999999999/1"]
        {
            assert_eq!(path(wrong), Err(InvalidBip32Path), "{wrong}");
        }
    }
}
