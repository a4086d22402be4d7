//! Statements by the log's operator other than checkpoints. The first line of the signed note is not the origin of a
//! log, so that a statement cannot be taken for a checkpoint.
//!
//! ```text
//! <origin>/<about>
//! <canonical JSON>
//!
//! — <origin> <signature>
//! ```

use super::note::{NoteError, SignedNote, VerifierKey};
use crate::canonical::{self, CanonicalError};
use crate::ed25519::SIGNATURE_BYTES;
use serde::Serialize;
use serde_json::Value;
use std::fmt;
use std::str::FromStr;

/// A statement with signatures that are not verified yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignedStatement(SignedNote);

/// The reason why a statement is not trusted.
#[derive(Debug, thiserror::Error)]
pub enum StatementError {
    /// It is not a signed note, or no trusted key signed it.
    #[error(transparent)]
    Note(#[from] NoteError),
    /// It states something other than expected.
    #[error("the signed statement differs from the expected one")]
    OtherStatement,
    /// The expected value has no canonical form.
    #[error("the expected statement has no canonical form")]
    NotCanonical(#[from] CanonicalError),
}

impl SignedStatement {
    /// Signs a statement with `sign`, which receives the exact bytes.
    ///
    /// # Errors
    /// [`CanonicalError`] for a value with a floating-point number in it.
    pub fn sign<T: Serialize + ?Sized>(
        key: &VerifierKey,
        about: &str,
        value: &T,
        sign: impl FnOnce(&[u8]) -> [u8; SIGNATURE_BYTES],
    ) -> Result<Self, CanonicalError> {
        let text = text(key, about, value)?;
        let signature = sign(text.as_bytes());
        Ok(Self(SignedNote::with_signature(text, key, signature)))
    }

    /// The stated value, without verification. Its integers are strings. `None` when it is not JSON.
    #[must_use]
    pub fn unverified(&self) -> Option<Value> {
        self.0.text().lines().nth(1).and_then(|json| serde_json::from_str(json).ok())
    }

    /// Checks that one of these keys signed exactly this statement. A wrong signature by one of them is an error.
    pub fn verify<T: Serialize + ?Sized>(
        &self,
        keys: &[VerifierKey],
        about: &str,
        value: &T,
    ) -> Result<(), StatementError> {
        let mut of_log = Vec::new();
        for key in keys {
            if text(key, about, value)? == self.0.text() {
                of_log.push(key);
            }
        }
        if of_log.is_empty() {
            return Err(StatementError::OtherStatement);
        }
        Ok(self.0.verify(of_log)?)
    }
}

fn text<T: Serialize + ?Sized>(key: &VerifierKey, about: &str, value: &T) -> Result<String, CanonicalError> {
    let value = canonical::to_bytes(value)?;
    Ok(format!("{}/{about}\n{}\n", key.name(), String::from_utf8_lossy(&value)))
}

impl fmt::Display for SignedStatement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for SignedStatement {
    type Err = NoteError;

    fn from_str(text: &str) -> Result<Self, NoteError> {
        text.parse().map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::SignedCheckpoint;
    use ed25519_dalek::{Signer, SigningKey};
    use serde_json::json;

    fn key(byte: u8) -> (SigningKey, VerifierKey) {
        let key = SigningKey::from_bytes(&[byte; 32]);
        let verifier = VerifierKey::new("example.com/log".parse().unwrap(), key.verifying_key().into());
        (key, verifier)
    }

    #[test]
    fn only_the_signed_statement_verifies() {
        let (signing, verifier) = key(1);
        let value = json!({ "state": "active", "name": "line\nfeed" });
        let signed =
            SignedStatement::sign(&verifier, "key-state", &value, |text| signing.sign(text).to_bytes())
                .unwrap();
        let read: SignedStatement = signed.to_string().parse().unwrap();
        assert_eq!(read, signed);
        let keys = [key(2).1, verifier];
        assert!(read.verify(&keys, "key-state", &value).is_ok());
        for (about, value) in [("key-state", json!({ "state": "active" })), ("other", value.clone())] {
            let error = read.verify(&keys, about, &value).unwrap_err();
            assert!(matches!(error, StatementError::OtherStatement), "{error}");
        }
        let error = read.verify(&keys[..1], "key-state", &value).unwrap_err();
        assert!(matches!(error, StatementError::Note(NoteError::UnknownSigner)), "{error}");
        let checkpoint: Result<SignedCheckpoint, _> = signed.to_string().parse();
        assert!(
            !checkpoint.is_ok_and(|read| read.verify(&keys).is_ok()),
            "a statement was accepted as a checkpoint"
        );
    }
}
