//! The signer of the log's checkpoints, with its key in memory. It has another key than the authority.

use async_trait::async_trait;
use ed25519_dalek::{Signer, SigningKey};
use gateway_domain::log::{KeyName, SignedCheckpoint, SignedStatement, VerifierKey};
use gateway_engine::ports::{LogHead, SignCheckpoint};
use gateway_engine::{Dependency, Unavailable};
use serde_json::Value;
use std::convert::Infallible;
use std::fmt;

/// Signs checkpoints of a log, and statements about it, with an Ed25519 key. The key is wiped when this is dropped, and `Debug`
/// does not show it.
pub struct LogSigner {
    key: SigningKey,
    verifier: VerifierKey,
}

impl LogSigner {
    /// A signer for the log `origin` with this Ed25519 seed: 32 random bytes (RFC 8032 section 5.1.5).
    #[must_use]
    pub fn new(origin: KeyName, seed: &[u8; 32]) -> Self {
        let key = SigningKey::from_bytes(seed);
        let verifier = VerifierKey::new(origin, key.verifying_key().into());
        Self { key, verifier }
    }

    /// The public key, 32 bytes.
    #[must_use]
    pub fn public_key(&self) -> [u8; 32] {
        self.key.verifying_key().to_bytes()
    }
}

#[async_trait]
impl SignCheckpoint for LogSigner {
    async fn sign_checkpoint(&self, head: LogHead) -> Result<SignedCheckpoint, Unavailable> {
        let sign = |text: &[u8]| Ok::<_, Infallible>(self.key.sign(text).to_bytes());
        let Ok(signed) = SignedCheckpoint::sign(&self.verifier, head.size, head.root, sign);
        Ok(signed)
    }

    async fn sign_statement(&self, about: &str, value: &Value) -> Result<SignedStatement, Unavailable> {
        let sign = |text: &[u8]| self.key.sign(text).to_bytes();
        SignedStatement::sign(&self.verifier, about, value, sign)
            .map_err(|error| Unavailable::new(Dependency::Authority, error.to_string()))
    }

    fn verifier_key(&self) -> &VerifierKey {
        &self.verifier
    }
}

impl fmt::Debug for LogSigner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LogSigner").field("verifier", &self.verifier.to_string()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gateway_domain::ids::Hex32;

    #[tokio::test]
    async fn checkpoint_verifies_only_under_the_signers_key() {
        let signer = |byte| LogSigner::new("example.com/log".parse().unwrap(), &[byte; 32]);
        let head = LogHead { size: 3, root: Hex32::new([4; 32]) };
        let signed = signer(1).sign_checkpoint(head).await.unwrap();
        let read: SignedCheckpoint = signed.to_string().parse().unwrap();
        let checkpoint = read.verify(&[signer(1).verifier_key().clone()]).unwrap();
        assert_eq!((checkpoint.size(), checkpoint.root()), (head.size, head.root));
        assert!(read.verify(&[signer(2).verifier_key().clone()]).is_err());
        assert!(!format!("{:?}", signer(1)).contains("01010101"));
    }
}
