//! Intents that sign: product payments, and custody signatures over a digest.

use super::lifecycle::PublicationMode;
use crate::ids::{Hex32, KeyRef};
use crate::roster::{Roster, Threshold};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::str::FromStr;

/// Indices from 2^31 on are hardened in BIP-32 and cannot be derived from a threshold key's public key.
pub const BIP32_INDEX_MAX: u32 = (1 << 31) - 1;

/// The members of every signature.
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = SigningIntent))]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SigningTerms {
    /// The requested signers, by index, ascending.
    pub requested_participants: Roster,
    /// The requested number of signers; absent for the key's threshold.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub threshold: Option<Threshold>,
    /// The child key that signs, of a payment below the key's child for payments; absent for the key itself, or that child.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub bip32: Option<Bip32>,
    /// The Taproot output whose output key signs; absent if none does.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub taproot: Option<Taproot>,
    /// The root of the epoch that the key must be in; absent for any.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[cfg_attr(feature = "openapi", schema(pattern = "^[0-9a-f]{1,128}$"))]
    pub epoch_fence_token_hex: Option<String>,
    /// The key's public key at submission, `<profile>:<public key hex>`; absent if the key was not generated yet.
    // No caller states it: the gateway fills it in, approvers sign it, and each node compares it with the key.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub public_key_artifact_ref: Option<String>,
    /// The party that publishes.
    pub publication_mode: PublicationMode,
}

impl SigningTerms {
    /// Whether a BIP-32 child or a Taproot output key signs.
    #[must_use]
    pub const fn has_derived_key(&self) -> bool {
        self.bip32.is_some() || self.taproot.is_some()
    }
}

/// A payment.
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = PaymentTerms))]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Payment {
    /// The key that the caller named, if any.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[cfg_attr(feature = "openapi", schema(ignore))]
    pub key_ref: Option<KeyRef>,
    /// The paying account.
    pub from_account: String,
    /// The receiving account.
    pub to_account: String,
    /// Amount in minor units of the currency, a signed 64-bit integer.
    // It may be zero or negative: it is for the policy to deny that.
    pub amount_minor: i64,
    /// The currency.
    pub currency: String,
    /// Free text.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub reference: Option<String>,
    /// The members of every signature.
    #[serde(flatten)]
    pub terms: SigningTerms,
}

/// A signature over a digest.
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = AssetActionIntent))]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AssetAction {
    /// The asset that moves.
    pub asset_id: String,
    /// Kind of asset action.
    pub action: String,
    /// The chain of the action.
    pub chain_id: String,
    /// The 32 bytes to sign.
    pub request_digest: Hex32,
    /// Root of the typed data from which the caller computed the digest; not verified.
    pub typed_data_root: Hex32,
    /// The caller's fields that accompany the digest.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
    pub public_fields: BTreeMap<String, String>,
    /// The members of every signature.
    #[serde(flatten)]
    pub terms: SigningTerms,
}

/// A non-hardened child key (BIP 32).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Bip32 {
    /// The network: part of the approved intent, and not interpreted.
    #[cfg_attr(feature = "openapi", schema(min_length = 1))]
    pub network: String,
    /// Two decimal indices below 2^31 without leading zeros, separated by `/`.
    // Each child has one path. `Bip32::indices` parses it.
    #[cfg_attr(feature = "openapi", schema(pattern = "^(0|[1-9][0-9]{0,9})/(0|[1-9][0-9]{0,9})$"))]
    pub path: String,
}

/// A Taproot output (BIP 341). Its output key signs; the internal key is the key, or the child key that `bip32` names.
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Taproot {
    /// The root of the output's script tree. Without it only the key can spend the output (BIP 86).
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
