//! A public key with its one algorithm.

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use jsonwebtoken::DecodingKey;
use jsonwebtoken::crypto::verify;
use serde_json::{Map, Value};
use std::fmt;

/// The accepted signature algorithms of tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// RSASSA-PKCS1-v1_5 with SHA-256.
    Rs256,
    /// RSASSA-PSS with SHA-256.
    Ps256,
    /// ECDSA on P-256 with SHA-256.
    Es256,
    /// ECDSA on P-384 with SHA-384.
    Es384,
    /// Ed25519.
    EdDsa,
}

/// A key that verifies signatures of tokens.
#[derive(Clone)]
pub struct Key {
    algorithm: Algorithm,
    key: DecodingKey,
}

/// Why a JSON Web Key is not used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyFault {
    /// Not of the form that RFC 7517 and RFC 7518 require.
    #[error("the key is malformed")]
    Malformed,
    /// For another use than signatures.
    #[error("the key is not for signatures")]
    Use,
    /// A type, curve or algorithm that is not supported.
    #[error("the type, curve or algorithm of the key is not supported")]
    Kind,
    /// An RSA modulus below 2048 bits, above 8192 or even, or an exponent below 2^16, above 2^64 or even.
    #[error("the modulus or exponent of the key is not supported")]
    Size,
    /// A private key in a public set: every reader of the set could sign with it.
    #[error("the key is private")]
    Private,
}

/// Sizes of an RSA modulus in bits: the range that the cryptographic library supports.
const RSA_BITS: std::ops::RangeInclusive<usize> = 2048..=8192;

impl Algorithm {
    /// The algorithm with this name in a token's header (RFC 7518, section 3.1; RFC 8037; RFC 9864).
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "RS256" => Some(Self::Rs256),
            "PS256" => Some(Self::Ps256),
            "ES256" => Some(Self::Es256),
            "ES384" => Some(Self::Es384),
            // The name in RFC 8037, and the one in RFC 9864.
            "EdDSA" | "Ed25519" => Some(Self::EdDsa),
            _ => None,
        }
    }

    const fn to_library(self) -> jsonwebtoken::Algorithm {
        match self {
            Self::Rs256 => jsonwebtoken::Algorithm::RS256,
            Self::Ps256 => jsonwebtoken::Algorithm::PS256,
            Self::Es256 => jsonwebtoken::Algorithm::ES256,
            Self::Es384 => jsonwebtoken::Algorithm::ES384,
            Self::EdDsa => jsonwebtoken::Algorithm::EdDSA,
        }
    }
}

impl Key {
    /// Reads a JSON Web Key. An RSA key without `alg` is for RS256; every supported curve has one algorithm.
    pub fn parse(jwk: &Map<String, Value>) -> Result<Self, KeyFault> {
        if jwk.contains_key("d") || jwk.contains_key("k") {
            return Err(KeyFault::Private);
        }
        check_use(jwk)?;
        let (algorithm, key) = match text(jwk, "kty")? {
            "RSA" => parse_rsa(jwk)?,
            "EC" => parse_ec(jwk)?,
            "OKP" => parse_okp(jwk)?,
            _ => return Err(KeyFault::Kind),
        };
        Ok(Self { algorithm, key })
    }

    /// The algorithm of the key.
    #[must_use]
    pub const fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// Whether the signature, in base64url, verifies over the message with this key.
    #[must_use]
    pub fn verifies(&self, message: &[u8], signature: &str) -> bool {
        verify(signature, message, &self.key, self.algorithm.to_library()).unwrap_or(false)
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Key").field("algorithm", &self.algorithm).finish_non_exhaustive()
    }
}

fn text<'a>(jwk: &'a Map<String, Value>, name: &str) -> Result<&'a str, KeyFault> {
    jwk.get(name).and_then(Value::as_str).ok_or(KeyFault::Malformed)
}

fn bytes(jwk: &Map<String, Value>, name: &str) -> Result<Vec<u8>, KeyFault> {
    decode_base64url(text(jwk, name)?).ok_or(KeyFault::Malformed)
}

/// Checks `use` and `key_ops` (RFC 7517, sections 4.2 and 4.3).
fn check_use(jwk: &Map<String, Value>) -> Result<(), KeyFault> {
    let is_for_signatures = jwk.get("use").is_none_or(|purpose| purpose == "sig");
    let verifies = jwk.get("key_ops").is_none_or(|operations| {
        operations.as_array().is_some_and(|operations| operations.iter().any(|one| one == "verify"))
    });
    if is_for_signatures && verifies { Ok(()) } else { Err(KeyFault::Use) }
}

/// The key's `alg`, if it has one.
fn algorithm_name(jwk: &Map<String, Value>) -> Result<Option<&str>, KeyFault> {
    jwk.get("alg").map(|name| name.as_str().ok_or(KeyFault::Malformed)).transpose()
}

fn parse_rsa(jwk: &Map<String, Value>) -> Result<(Algorithm, DecodingKey), KeyFault> {
    let algorithm = match algorithm_name(jwk)? {
        None | Some("RS256") => Algorithm::Rs256,
        Some("PS256") => Algorithm::Ps256,
        Some(_) => return Err(KeyFault::Kind),
    };
    let (modulus, exponent) = (bytes(jwk, "n")?, bytes(jwk, "e")?);
    let (modulus, exponent) = (trim_leading_zeros(&modulus), trim_leading_zeros(&exponent));
    let modulus_bits = modulus.first().map_or(0, |first| {
        let leading = usize::try_from(first.leading_zeros()).unwrap_or_default();
        modulus.len().saturating_mul(8).saturating_sub(leading)
    });
    let is_odd = |number: &[u8]| number.last().is_some_and(|last| last % 2 == 1);
    // 2^16 < e, so at least three bytes, and odd (FIPS 186-5).
    let is_exponent_supported = (3..=8).contains(&exponent.len()) && is_odd(exponent);
    if !RSA_BITS.contains(&modulus_bits) || !is_odd(modulus) || !is_exponent_supported {
        return Err(KeyFault::Size);
    }
    Ok((algorithm, DecodingKey::from_rsa_raw_components(modulus, exponent)))
}

fn trim_leading_zeros(number: &[u8]) -> &[u8] {
    let first = number.iter().position(|byte| *byte != 0).unwrap_or(number.len());
    number.get(first..).unwrap_or_default()
}

fn parse_ec(jwk: &Map<String, Value>) -> Result<(Algorithm, DecodingKey), KeyFault> {
    let (algorithm, name, coordinate_bytes) = match text(jwk, "crv")? {
        "P-256" => (Algorithm::Es256, "ES256", 32),
        "P-384" => (Algorithm::Es384, "ES384", 48),
        _ => return Err(KeyFault::Kind),
    };
    if algorithm_name(jwk)?.is_some_and(|given| given != name) {
        return Err(KeyFault::Kind);
    }
    // Leading zeros are part of a coordinate (RFC 7518, section 6.2.1.2). The library checks that the point is on the curve.
    let coordinates = [bytes(jwk, "x")?, bytes(jwk, "y")?];
    if coordinates.iter().any(|coordinate| coordinate.len() != coordinate_bytes) {
        return Err(KeyFault::Malformed);
    }
    let key = DecodingKey::from_ec_components(text(jwk, "x")?, text(jwk, "y")?);
    Ok((algorithm, key.map_err(|_| KeyFault::Malformed)?))
}

fn parse_okp(jwk: &Map<String, Value>) -> Result<(Algorithm, DecodingKey), KeyFault> {
    // `EdDSA` is the name in RFC 8037, `Ed25519` that in RFC 9864.
    let is_known = algorithm_name(jwk)?.is_none_or(|given| given == "EdDSA" || given == "Ed25519");
    if text(jwk, "crv")? != "Ed25519" || !is_known {
        return Err(KeyFault::Kind);
    }
    let public = bytes(jwk, "x")?;
    if public.len() != 32 {
        return Err(KeyFault::Malformed);
    }
    Ok((Algorithm::EdDsa, DecodingKey::from_ed_der(&public)))
}

/// Decodes canonical base64url without padding (RFC 7515, section 2).
pub(crate) fn decode_base64url(text: &str) -> Option<Vec<u8>> {
    BASE64_URL_SAFE_NO_PAD.decode(text).ok()
}
