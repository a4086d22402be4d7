//! The key pairs of a node: one signs its messages and statements, and messages to it are sealed to the other.

use crate::hash::TaggedHash;
use crate::random::Stream;
use crate::text::hex_array;
use ed25519_dalek::{Signature, Signer as _, SigningKey, VerifyingKey};
use hpke::kem::X25519HkdfSha256;
use hpke::{Deserializable as _, Kem as _, Serializable as _};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use zeroize::Zeroizing;

/// The key encapsulation: DHKEM(X25519, HKDF-SHA256), RFC 9180 section 4.1.
pub(crate) type Kem = X25519HkdfSha256;

/// The public key that messages to a node are sealed to.
pub(crate) type SealingKey = <Kem as hpke::Kem>::PublicKey;

/// One node's secret keys. They are wiped when dropped.
pub struct NodeSecret {
    signing: SigningKey,
    sealing: <Kem as hpke::Kem>::PrivateKey,
    identity: NodeIdentity,
}

impl NodeSecret {
    /// Derives both keys from one seed of 32 uniformly random bytes: `H("gateway/seal/node-signing/v1", seed)` is the Ed25519
    /// seed, and `H("gateway/seal/node-sealing/v1", seed)` the input of HPKE's `DeriveKeyPair` (RFC 9180 section 7.1.3).
    #[must_use]
    pub fn from_seed(index: u16, seed: &Zeroizing<[u8; 32]>) -> Self {
        let derive = |tag| Zeroizing::new(TaggedHash::new(tag).bytes(seed.as_slice()).finish());
        let signing = SigningKey::from_bytes(&derive("gateway/seal/node-signing/v1"));
        let (sealing, public) = Kem::derive_keypair(derive("gateway/seal/node-sealing/v1").as_slice());
        let identity = NodeIdentity { index, signing: signing.verifying_key(), sealing: public };
        Self { signing, sealing, identity }
    }

    /// The public half, for other nodes.
    #[must_use]
    pub fn identity(&self) -> &NodeIdentity {
        &self.identity
    }

    /// Signs a statement as DSSE does: over `DSSEv1 SP LEN(type) SP type SP LEN(payload) SP payload`. The signature is not valid
    /// for a message between nodes: there the signed bytes are a digest of 32 bytes, and here they are more with any payload
    /// type in use.
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

/// The public keys of a node. Other nodes trust what these keys sign, so an identity must come from an operator or a signed
/// record, never from the relay.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Written", into = "Written")]
pub struct NodeIdentity {
    index: u16,
    signing: VerifyingKey,
    sealing: SealingKey,
}

/// The nodes that may send or receive messages, by index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identities(BTreeMap<u16, NodeIdentity>);

/// Why an identity, or a set of identities, is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IdentityError {
    /// The Ed25519 key is not a curve point, or is of small order, so that forged signatures verify under it.
    #[error("the signing key of node {0} is not a usable Ed25519 public key")]
    SigningKey(u16),
    /// The X25519 key is of small order, so that anyone could open what is sealed to it.
    #[error("the sealing key of node {0} is not a usable X25519 public key")]
    SealingKey(u16),
    /// Two identities have the same index.
    #[error("node {0} is named twice")]
    Duplicate(u16),
    /// Two nodes have the same key, so that either could act as the other.
    #[error("node {0} has a key of another node")]
    SharedKey(u16),
}

/// An identity in JSON.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    index: u16,
    #[serde(with = "hex_array")]
    signing_key: [u8; 32],
    #[serde(with = "hex_array")]
    sealing_key: [u8; 32],
}

impl NodeIdentity {
    /// An identity from raw public keys.
    ///
    /// # Errors
    /// [`IdentityError::SigningKey`] or [`IdentityError::SealingKey`].
    pub fn new(index: u16, signing_key: &[u8; 32], sealing_key: &[u8; 32]) -> Result<Self, IdentityError> {
        let signing = VerifyingKey::from_bytes(signing_key).ok().filter(|key| !key.is_weak());
        let signing = signing.ok_or(IdentityError::SigningKey(index))?;
        let sealing = SealingKey::from_bytes(sealing_key).map_err(|_| IdentityError::SealingKey(index))?;
        // HPKE rejects a key whose shared secret is zero: found here, and not later in a ceremony.
        Kem::encap_with_rng(&sealing, None, &mut Stream::new(Zeroizing::default()))
            .map_err(|_| IdentityError::SealingKey(index))?;
        Ok(Self { index, signing, sealing })
    }

    /// Index of the node in rosters, from 0.
    #[must_use]
    pub fn index(&self) -> u16 {
        self.index
    }

    /// The Ed25519 public key under which its messages and statements verify.
    #[must_use]
    pub fn signing_key(&self) -> [u8; 32] {
        self.signing.to_bytes()
    }

    /// A hash of index and keys in 64 hexadecimal characters, for people to compare.
    #[must_use]
    pub fn fingerprint(&self) -> String {
        let hash = TaggedHash::new("gateway/seal/node-identity/v1").number(self.index);
        hex::encode(hash.bytes(self.signing.as_bytes()).bytes(&self.sealing.to_bytes()).finish())
    }

    /// Whether this node signed the digest. Strict: plain `verify` accepts some signatures that other libraries reject.
    pub(crate) fn has_signed(&self, digest: &[u8; 32], signature: &[u8; 64]) -> bool {
        self.signing.verify_strict(digest, &Signature::from_bytes(signature)).is_ok()
    }

    pub(crate) fn sealing(&self) -> &SealingKey {
        &self.sealing
    }
}

impl Identities {
    /// A set of nodes, given in any order.
    ///
    /// # Errors
    /// [`IdentityError::Duplicate`] or [`IdentityError::SharedKey`].
    pub fn new(nodes: impl IntoIterator<Item = NodeIdentity>) -> Result<Self, IdentityError> {
        let (mut known, mut keys) = (BTreeMap::new(), BTreeSet::new());
        for node in nodes {
            let index = node.index;
            let fresh = keys.insert(node.signing.to_bytes()) & keys.insert(node.sealing.to_bytes().into());
            if known.insert(index, node).is_some() {
                return Err(IdentityError::Duplicate(index));
            }
            if !fresh {
                return Err(IdentityError::SharedKey(index));
            }
        }
        Ok(Self(known))
    }

    /// The node of this index.
    #[must_use]
    pub fn get(&self, index: u16) -> Option<&NodeIdentity> {
        self.0.get(&index)
    }
}

impl TryFrom<Written> for NodeIdentity {
    type Error = IdentityError;

    fn try_from(written: Written) -> Result<Self, IdentityError> {
        Self::new(written.index, &written.signing_key, &written.sealing_key)
    }
}

impl From<NodeIdentity> for Written {
    fn from(node: NodeIdentity) -> Self {
        Self {
            index: node.index,
            signing_key: node.signing.to_bytes(),
            sealing_key: node.sealing.to_bytes().into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(index: u16, seed: u8) -> NodeIdentity {
        NodeSecret::from_seed(index, &Zeroizing::new([seed; 32])).identity().clone()
    }

    #[test]
    fn identity_round_trips_through_json_and_has_its_own_fingerprint() {
        let json = serde_json::to_string(&node(3, 1)).unwrap();
        assert_eq!(serde_json::from_str::<NodeIdentity>(&json).unwrap(), node(3, 1));
        assert_eq!(node(3, 1).fingerprint().len(), 64);
        assert_ne!(node(3, 1).fingerprint(), node(4, 1).fingerprint());
        assert_ne!(node(3, 1).fingerprint(), node(3, 2).fingerprint());
        assert!(serde_json::from_str::<NodeIdentity>(&json.to_uppercase()).is_err());
        assert!(serde_json::from_str::<NodeIdentity>(&json.replace("index", "indexes")).is_err());
    }

    #[test]
    fn keys_of_small_order_are_rejected() {
        let good = serde_json::to_value(node(0, 1)).unwrap();
        let key = |name: &str| hex::decode(good[name].as_str().unwrap()).unwrap().try_into().unwrap();
        let (signing, sealing): ([u8; 32], [u8; 32]) = (key("signing_key"), key("sealing_key"));
        assert!(NodeIdentity::new(0, &signing, &sealing).is_ok());
        // The neutral element of each curve; and 2, which is not the y of any point.
        let (mut one, mut two) = ([0; 32], [0; 32]);
        (one[0], two[0]) = (1, 2);
        for weak in [one, two] {
            assert_eq!(NodeIdentity::new(0, &weak, &sealing), Err(IdentityError::SigningKey(0)));
        }
        for weak in [[0; 32], one] {
            assert_eq!(NodeIdentity::new(0, &signing, &weak), Err(IdentityError::SealingKey(0)));
        }
    }

    /// A signature whose R is the neutral element: only the key's owner can make it, and not all libraries accept it.
    #[test]
    fn signature_that_only_lax_verifiers_accept_is_rejected() {
        use curve25519_dalek::Scalar;
        use sha2::{Digest, Sha512};
        let key = ed25519_dalek::SigningKey::from_bytes(&[1; 32]);
        let sealing = node(0, 1).sealing.to_bytes().into();
        let node = NodeIdentity::new(0, key.verifying_key().as_bytes(), &sealing).unwrap();
        let (digest, mut signature) = ([7; 32], [0; 64]);
        signature[0] = 1;
        let hash = Sha512::new().chain_update(&signature[..32]).chain_update(key.verifying_key());
        let k = Scalar::from_bytes_mod_order_wide(&hash.chain_update(digest).finalize().into());
        signature[32..].copy_from_slice((k * key.to_scalar()).as_bytes());
        use ed25519_dalek::Verifier as _;
        assert!(node.signing.verify(&digest, &Signature::from_bytes(&signature)).is_ok());
        assert!(!node.has_signed(&digest, &signature));
    }

    #[test]
    fn nodes_with_the_same_index_or_key_are_rejected() {
        assert!(Identities::new([node(0, 1), node(1, 2)]).is_ok());
        assert_eq!(Identities::new([node(0, 1), node(0, 2)]), Err(IdentityError::Duplicate(0)));
        assert_eq!(Identities::new([node(0, 1), node(1, 1)]), Err(IdentityError::SharedKey(1)));
        let half = NodeIdentity { sealing: node(0, 1).sealing, ..node(1, 2) };
        assert_eq!(Identities::new([node(0, 1), half]), Err(IdentityError::SharedKey(1)));
    }
}
