//! Who a node is to other nodes: a key it signs messages with, and a key that messages to it are sealed to.

mod identity;

pub use identity::{Identities, IdentityError, NodeIdentity};

use crate::hash::TaggedHash;
use ed25519_dalek::{Signer as _, SigningKey};
use hpke::Kem as _;
use hpke::kem::X25519HkdfSha256;
use std::fmt;
use zeroize::Zeroizing;

/// The key encapsulation: DHKEM(X25519, HKDF-SHA256), RFC 9180 section 4.1.
pub(crate) type Kem = X25519HkdfSha256;

/// Where others find a message for a node.
pub(crate) type SealingKey = <Kem as hpke::Kem>::PublicKey;

/// One node's secret keys. They are wiped when dropped.
pub struct NodeSecret {
    signing: SigningKey,
    sealing: <Kem as hpke::Kem>::PrivateKey,
    identity: NodeIdentity,
}

impl NodeSecret {
    /// Derives both keys from one seed, which should come from [`key_file::load`](crate::key_file::load):
    /// `H("gateway/seal/node-signing/v1", seed)` is the Ed25519 seed, and `H("gateway/seal/node-sealing/v1", seed)` the
    /// input of HPKE's `DeriveKeyPair` (RFC 9180 section 7.1.3).
    #[must_use]
    pub fn from_seed(index: u16, seed: &Zeroizing<[u8; 32]>) -> Self {
        let derive = |tag| Zeroizing::new(TaggedHash::new(tag).bytes(seed.as_slice()).finish());
        let signing = SigningKey::from_bytes(&derive("gateway/seal/node-signing/v1"));
        let (sealing, public) = Kem::derive_keypair(derive("gateway/seal/node-sealing/v1").as_slice());
        let identity = NodeIdentity { index, signing: signing.verifying_key(), sealing: public };
        Self { signing, sealing, identity }
    }

    /// What other nodes know of this one.
    #[must_use]
    pub fn identity(&self) -> &NodeIdentity {
        &self.identity
    }

    /// Signs a statement for those who are no node, as DSSE does: over `DSSEv1 SP LEN(type) SP type SP LEN(payload) SP
    /// payload`. It can not pass for a message between nodes: those are signed as digests of 32 bytes, which is less than
    /// any payload type in use has alone.
    #[must_use]
    pub fn sign_statement(&self, payload_type: &'static str, payload: &[u8]) -> [u8; 64] {
        let head = format!("DSSEv1 {} {payload_type} {} ", payload_type.len(), payload.len());
        self.signing.sign(&[head.as_bytes(), payload].concat()).to_bytes()
    }

    pub(crate) fn sign(&self, digest: &[u8; 32]) -> [u8; 64] {
        self.signing.sign(digest).to_bytes()
    }

    pub(crate) fn sealing(&self) -> &<Kem as hpke::Kem>::PrivateKey {
        &self.sealing
    }
}

impl fmt::Debug for NodeSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NodeSecret").field("index", &self.identity.index).finish_non_exhaustive()
    }
}
