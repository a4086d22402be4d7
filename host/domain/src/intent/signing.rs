//! Intents that sign: product payments, and custody signatures over a digest.

use super::lifecycle::PublicationMode;
use crate::ids::{Hex32, KeyRef};
use crate::roster::{Roster, Threshold};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::str::FromStr;

/// Indices from 2^31 on are hardened in BIP-32 and cannot be derived from a threshold key's public key.
pub const BIP32_INDEX_MAX: u32 = (1 << 31) - 1;

/// The terms of a signature, for both signing intents.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SigningTerms {
    /// The requested signers.
    pub requested_participants: Roster,
    /// The requested number of signers, at least the key's threshold; `None` for the key's threshold.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub threshold: Option<Threshold>,
    /// The child key that signs: of the key, or for a payment of the key for payments.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub bip32: Option<Bip32>,
    /// The Taproot output that is spent: its output key signs.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub taproot: Option<Taproot>,
    /// Root of the epoch that the caller expects, hexadecimal; execution in another epoch is refused.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub epoch_fence_token_hex: Option<String>,
    /// The public key of the operation's key, as `<profile>:<public key hex>`; `None` if the key was not generated yet when the operation was
    /// submitted. No caller states it: the gateway fills it in, approvers sign it, and each node compares it with the key.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub public_key_artifact_ref: Option<String>,
    /// Who starts the publication.
    pub publication_mode: PublicationMode,
}

impl SigningTerms {
    /// Whether a BIP-32 child or a Taproot output key signs.
    #[must_use]
    pub const fn has_derived_key(&self) -> bool {
        self.bip32.is_some() || self.taproot.is_some()
    }
}

/// A payment, and the terms of its signature.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Payment {
    /// The key that the caller named, if any.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub key_ref: Option<KeyRef>,
    /// The account that pays.
    pub from_account: String,
    /// The account that is paid.
    pub to_account: String,
    /// The amount in minor units of `currency`. May be zero or negative: it is for the policy to deny that.
    pub amount_minor: i64,
    /// The currency, as the caller wrote it.
    pub currency: String,
    /// Free text of the caller.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub reference: Option<String>,
    /// Signers, threshold, child key, fence, publication.
    #[serde(flatten)]
    pub terms: SigningTerms,
}

/// The contract's `CustodySignRequest`, without client and idempotency key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AssetAction {
    /// The asset that is moved.
    pub asset_id: String,
    /// The kind of action, for example `transfer`.
    pub action: String,
    /// The chain of the action.
    pub chain_id: String,
    /// The 32 bytes that are signed.
    pub request_digest: Hex32,
    /// Root of the typed data that the digest was computed from.
    pub typed_data_root: Hex32,
    /// The caller's fields that accompany the digest.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
    pub public_fields: BTreeMap<String, String>,
    /// Signers, threshold, child key, fence, publication.
    #[serde(flatten)]
    pub terms: SigningTerms,
}

/// A non-hardened child key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bip32 {
    /// The network's name; it is signed with the request and not interpreted.
    pub network: String,
    /// The path, as `digits/digits` without leading zeros, so that each child has one path. [`Bip32::indices`] parses it.
    pub path: String,
}

/// A Taproot output (BIP-341), whose output key signs in place of the key, child key or key for payments, which is its internal key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Taproot {
    /// The root of the output's script tree; without one only the key can spend the output, as in BIP-86.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub merkle_root: Option<Hex32>,
}

/// The path is not `digits/digits` with both below 2^31.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "must be two non-hardened indices as `digits/digits` without leading zeros, each at most {BIP32_INDEX_MAX}"
)]
pub struct InvalidBip32Path;

impl Bip32 {
    /// The two indices of the path.
    ///
    /// # Errors
    /// [`InvalidBip32Path`] when it has another form.
    pub fn indices(&self) -> Result<[u32; 2], InvalidBip32Path> {
        Self::parse_path(&self.path)
    }

    /// As [`Self::indices`], of a path alone.
    ///
    /// # Errors
    /// As [`Self::indices`].
    pub fn parse_path(path: &str) -> Result<[u32; 2], InvalidBip32Path> {
        let (first, second) = path.split_once('/').ok_or(InvalidBip32Path)?;
        Ok([index(first)?, index(second)?])
    }
}

fn index(digits: &str) -> Result<u32, InvalidBip32Path> {
    let is_padded = digits.len() > 1 && digits.starts_with('0');
    if digits.is_empty()
        || is_padded
        || digits.len() > 10
        || !digits.bytes().all(|byte| byte.is_ascii_digit())
    {
        return Err(InvalidBip32Path);
    }
    u32::from_str(digits).ok().filter(|index| *index <= BIP32_INDEX_MAX).ok_or(InvalidBip32Path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_is_two_decimal_indices_below_2_to_the_31() {
        let path = |path: &str| Bip32 { network: "bitcoin".into(), path: path.into() }.indices();
        assert_eq!(path("0/2147483647"), Ok([0, BIP32_INDEX_MAX]));
        for wrong in [
            "",
            "1",
            "1/2/3",
            "m/1/2",
            "1'/2",
            "01/2",
            "0/00",
            "1/2147483648",
            "-1/2",
            "+1/2",
            " 1/2",
            "1/",
            "99999999999/1",
        ] {
            assert_eq!(path(wrong), Err(InvalidBip32Path), "{wrong}");
        }
    }
}
