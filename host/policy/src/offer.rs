//! A bundle that another party offers, and its form on the wire.

use crate::BundleFiles;
use crate::limits::OFFER_BYTES_MAX;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Largest body of an offered bundle, bytes: its files in Base64.
pub const OFFER_BODY_BYTES_MAX: usize = OFFER_BYTES_MAX / 3 * 4 + 1024 * 1024;

/// The code of the error with which a verifier asks for a policy bundle. The message is the bundle's hash.
pub const BUNDLE_UNKNOWN: &str = "bundle_unknown";

/// The code of the error when the bundle is older than one that admitted operations.
pub const BUNDLE_SUPERSEDED: &str = "bundle_superseded";

/// A policy bundle that a caller offers.
#[derive(Clone, Debug)]
pub struct BundleOffer {
    /// Its files, signatures included.
    pub files: BundleFiles,
    /// The signed activation record that names the bundle, if there is one.
    pub activation: Option<Vec<u8>>,
}

/// A policy bundle that the caller offers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct OfferBundleRequest {
    /// Its files by name, signatures included, in Base64.
    pub files: BTreeMap<String, String>,
    /// The signed activation record that names the bundle, in Base64.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub activation: Option<String>,
}

/// Why a request is not an offer: a JSON pointer to the member, and the rule that it breaks.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{pointer}` {message}")]
pub struct OfferFault {
    /// JSON pointer to the member.
    pub pointer: &'static str,
    /// The rule that it breaks.
    pub message: String,
}

impl OfferFault {
    fn not_base64(pointer: &'static str) -> Self {
        Self { pointer, message: "must be Base64".to_owned() }
    }
}

impl From<&BundleOffer> for OfferBundleRequest {
    fn from(offer: &BundleOffer) -> Self {
        let files = offer.files.iter().map(|(name, bytes)| (name.to_owned(), STANDARD.encode(bytes)));
        Self {
            files: files.collect(),
            activation: offer.activation.as_ref().map(|bytes| STANDARD.encode(bytes)),
        }
    }
}

impl OfferBundleRequest {
    /// The bundle, not verified yet.
    pub fn parse(self) -> Result<BundleOffer, OfferFault> {
        let decode = |text: String| STANDARD.decode(text).ok();
        let files = self.files.into_iter().map(|(name, text)| Some((name, decode(text)?)));
        let files: Option<Vec<_>> = files.collect();
        let files = files.ok_or_else(|| OfferFault::not_base64("/files"))?;
        let files = BundleFiles::new(files)
            .map_err(|error| OfferFault { pointer: "/files", message: error.to_string() })?;
        let activation = match self.activation.map(decode) {
            Some(None) => return Err(OfferFault::not_base64("/activation")),
            Some(Some(bytes)) => Some(bytes),
            None => None,
        };
        Ok(BundleOffer { files, activation })
    }
}
