//! JSON Web Signatures (RFC 7515) under public keys that are JSON Web Keys (RFC 7517), as far as bearer tokens need
//! them: the compact form, five algorithms, and each key with the one algorithm it is for.
//!
//! A token does not choose how it is verified: its `alg` must be the key's, and the keys and certificates that its header
//! can carry (`jwk`, `jku`, `x5c`, `x5u`) are never read.

mod key;
mod key_set;

pub(crate) use key::decode_base64url;
pub use key::{Algorithm, Key, KeyFault};
pub use key_set::{KeySet, KeySetFault};

use crate::TokenFault;
use crate::limits::{TEXT_BYTES_MAX, TOKEN_BYTES_MAX};
use gateway_domain::json::{self, Floats};
use serde_json::{Map, Value};

/// A parsed token in compact form, `header.payload.signature`. Its content is not verified yet.
#[derive(Debug)]
pub struct Compact<'a> {
    /// The header's `alg`.
    pub algorithm: Algorithm,
    /// The header's `kid`.
    pub key_id: Option<String>,
    /// `header.payload`, which the signature is over.
    signing_input: &'a str,
    payload: &'a str,
    signature: &'a str,
}

impl<'a> Compact<'a> {
    /// Parses a token.
    ///
    /// # Errors
    /// [`TokenFault`]: `TooLarge`, `Malformed`, `Algorithm`, `Type`, `Critical`.
    pub fn parse(token: &'a str) -> Result<Self, TokenFault> {
        if token.len() > TOKEN_BYTES_MAX {
            return Err(TokenFault::TooLarge);
        }
        let (signing_input, signature) = token.rsplit_once('.').ok_or(TokenFault::Malformed)?;
        let (header, payload) = signing_input.split_once('.').ok_or(TokenFault::Malformed)?;
        // An unencoded payload (RFC 7797) could have more dots; it is not supported.
        if payload.contains('.') || [header, payload, signature].iter().any(|part| part.is_empty()) {
            return Err(TokenFault::Malformed);
        }
        let header = decode_object(header)?;
        // `crit` names extensions that a verifier must support (RFC 7515, section 4.1.11). None is supported.
        if header.contains_key("crit") {
            return Err(TokenFault::Critical);
        }
        check_type(header.get("typ"))?;
        let key_id = match header.get("kid") {
            None => None,
            Some(Value::String(id)) if id.len() <= TEXT_BYTES_MAX => Some(id.clone()),
            Some(_) => return Err(TokenFault::Malformed),
        };
        let algorithm = header.get("alg").and_then(Value::as_str).and_then(Algorithm::from_name);
        let algorithm = algorithm.ok_or(TokenFault::Algorithm)?;
        Ok(Self { algorithm, key_id, signing_input, payload, signature })
    }

    /// Verifies the signature with the key, and returns the bytes of the payload.
    ///
    /// # Errors
    /// [`TokenFault`]: `Algorithm`, `Signature`, `Malformed`.
    pub fn verified_payload(&self, key: &Key) -> Result<Vec<u8>, TokenFault> {
        if self.algorithm != key.algorithm() {
            return Err(TokenFault::Algorithm);
        }
        if !key.verifies(self.signing_input.as_bytes(), self.signature) {
            return Err(TokenFault::Signature);
        }
        decode_base64url(self.payload).ok_or(TokenFault::Malformed)
    }

    /// Verifies the signature with the key, and returns the claims.
    pub fn verified_claims(&self, key: &Key) -> Result<Map<String, Value>, TokenFault> {
        match json::parse(&self.verified_payload(key)?, Floats::Allowed).ok() {
            Some(Value::Object(claims)) => Ok(claims),
            Some(_) | None => Err(TokenFault::Malformed),
        }
    }
}

fn decode_object(part: &str) -> Result<Map<String, Value>, TokenFault> {
    match decode_base64url(part).and_then(|bytes| json::parse(&bytes, Floats::Allowed).ok()) {
        Some(Value::Object(object)) => Ok(object),
        Some(_) | None => Err(TokenFault::Malformed),
    }
}

/// Checks that the type is that of an access token: `at+jwt` (RFC 9068), `JWT`, or absent. Tokens of other types, such as logout
/// tokens, are rejected (RFC 8725, section 3.11).
fn check_type(given: Option<&Value>) -> Result<(), TokenFault> {
    let Some(given) = given else { return Ok(()) };
    let given = given.as_str().ok_or(TokenFault::Type)?.to_ascii_lowercase();
    let given = given.strip_prefix("application/").unwrap_or(&given);
    if matches!(given, "jwt" | "at+jwt") { Ok(()) } else { Err(TokenFault::Type) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::Engine;
    use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE, BASE64_URL_SAFE_NO_PAD};

    fn token(header: &str) -> String {
        format!("{}.e30.AAAA", BASE64_URL_SAFE_NO_PAD.encode(header))
    }

    fn fault(token: &str) -> TokenFault {
        Compact::parse(token).unwrap_err()
    }

    #[test]
    fn headers_of_access_tokens_are_accepted() {
        for header in [
            r#"{"alg":"ES256","kid":"a"}"#,
            r#"{"alg":"ES256","typ":"JWT"}"#,
            r#"{"alg":"ES256","typ":"at+jwt"}"#,
            r#"{"alg":"ES256","typ":"application/AT+JWT","jku":"https://evil.example","jwk":{},"x5c":[]}"#,
        ] {
            assert_eq!(Compact::parse(&token(header)).unwrap().algorithm, Algorithm::Es256, "{header}");
        }
    }

    #[test]
    fn headers_of_other_tokens_are_rejected() {
        for (header, expected) in [
            (r#"{"alg":"none"}"#, TokenFault::Algorithm),
            (r#"{"alg":"None"}"#, TokenFault::Algorithm),
            (r#"{"alg":""}"#, TokenFault::Algorithm),
            (r#"{"alg":null}"#, TokenFault::Algorithm),
            (r#"{"alg":["ES256"]}"#, TokenFault::Algorithm),
            (r#"{"alg":"es256"}"#, TokenFault::Algorithm),
            (r#"{"alg":"HS256"}"#, TokenFault::Algorithm),
            (r#"{"alg":"RS512"}"#, TokenFault::Algorithm),
            (r#"{"alg":"ES256K"}"#, TokenFault::Algorithm),
            ("{}", TokenFault::Algorithm),
            (r#"{"alg":"ES256","alg":"none"}"#, TokenFault::Malformed),
            (r#"{"alg":"ES256","kid":7}"#, TokenFault::Malformed),
            (r#"["ES256"]"#, TokenFault::Malformed),
            ("", TokenFault::Malformed),
            (r#"{"alg":"ES256","crit":["exp"]}"#, TokenFault::Critical),
            (r#"{"alg":"ES256","crit":[]}"#, TokenFault::Critical),
            (r#"{"alg":"ES256","b64":false,"crit":["b64"]}"#, TokenFault::Critical),
            (r#"{"alg":"ES256","typ":"logout+jwt"}"#, TokenFault::Type),
            (r#"{"alg":"ES256","typ":"dpop+jwt"}"#, TokenFault::Type),
            (r#"{"alg":"ES256","typ":["JWT"]}"#, TokenFault::Type),
        ] {
            assert_eq!(fault(&token(header)), expected, "{header}");
        }
        let long = format!(r#"{{"alg":"ES256","kid":"{}"}}"#, "k".repeat(1025));
        assert_eq!(fault(&token(&long)), TokenFault::Malformed);
    }

    #[test]
    fn a_token_of_another_form_is_malformed() {
        let good = r#"{"alg":"ES256","kid":"ab"}"#;
        let header = BASE64_URL_SAFE_NO_PAD.encode(good);
        assert!(Compact::parse(&format!("{header}.e30.AAAA")).is_ok());
        for wrong in [
            String::new(),
            ".".into(),
            "..".into(),
            format!("{header}.e30"),
            format!("{header}.e30."),
            format!("{header}..AAAA"),
            format!(".{header}.AAAA"),
            format!("{header}.e30.AAAA."),
            format!("{header}.e30.AAAA.AAAA"),
            format!("{header}.a.b.c.AAAA"),
            format!(" {header}.e30.AAAA"),
            format!("{}.e30.AAAA", BASE64_URL_SAFE.encode(good)),
            format!("{}.e30.AAAA", BASE64_STANDARD.encode(r#"{"alg":"ES256","k":"???>>>~"}"#)),
            format!("{header}\n.e30.AAAA"),
        ] {
            assert_eq!(fault(&wrong), TokenFault::Malformed, "{wrong}");
        }
        let long = format!("{header}.{}.AAAA", "A".repeat(TOKEN_BYTES_MAX));
        assert_eq!(fault(&long), TokenFault::TooLarge);
    }
}
