//! A custody signature over a digest that the custody platform computed.

use super::SigningTerms;
use crate::ids::Hex32;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The contract's `CustodySignRequest`, minus client and idempotency key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AssetAction {
    /// The asset moved.
    pub asset_id: String,
    /// Kind of action, for example `transfer`.
    pub action: String,
    /// The chain it happens on.
    pub chain_id: String,
    /// The 32 bytes that are signed.
    pub request_digest: Hex32,
    /// Root of the typed data the digest was computed from.
    pub typed_data_root: Hex32,
    /// What the caller wants seen beside the digest.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
    pub public_fields: BTreeMap<String, String>,
    /// Signers, threshold, fence, publication.
    #[serde(flatten)]
    pub terms: SigningTerms,
}
