//! The public half of a node, and the nodes that are known.

use super::{Kem, SealingKey};
use crate::hash::TaggedHash;
use crate::random::Stream;
use crate::text::hex_array;
use ed25519_dalek::{Signature, VerifyingKey};
use hpke::{Deserializable as _, Kem as _, Serializable as _};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use zeroize::Zeroizing;

/// One node as others know it. Whoever pins this believes what its keys sign: it must come from an operator, or from a
/// record that is signed, never from the relay.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Written", into = "Written")]
pub struct NodeIdentity {
    pub(super) index: u16,
    pub(super) signing: VerifyingKey,
    pub(super) sealing: SealingKey,
}

/// Every node that may send or receive, by its index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identities(BTreeMap<u16, NodeIdentity>);

/// Why bytes are no identity, or identities no roster.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IdentityError {
    /// The Ed25519 key is no curve point, or one of small order, under which anything verifies.
    #[error("the signing key of node {0} is not a usable Ed25519 public key")]
    SigningKey(u16),
    /// The X25519 key is of small order: everybody would know what is sealed to it.
    #[error("the sealing key of node {0} is not a usable X25519 public key")]
    SealingKey(u16),
    /// Two identities with one index.
    #[error("node {0} is named twice")]
    Duplicate(u16),
    /// Two nodes with one key: a message of one would be a message of the other.
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
    /// An identity of raw keys.
    ///
    /// # Errors
    /// [`IdentityError::SigningKey`] or [`IdentityError::SealingKey`].
    pub fn new(index: u16, signing_key: &[u8; 32], sealing_key: &[u8; 32]) -> Result<Self, IdentityError> {
        let signing = VerifyingKey::from_bytes(signing_key).ok().filter(|key| !key.is_weak());
        let signing = signing.ok_or(IdentityError::SigningKey(index))?;
        let sealing = SealingKey::from_bytes(sealing_key).map_err(|_| IdentityError::SealingKey(index))?;
        // HPKE refuses a key whose shared secret is zero; that is better known now than in a ceremony.
        Kem::encap_with_rng(&sealing, None, &mut Stream::new(Zeroizing::default()))
            .map_err(|_| IdentityError::SealingKey(index))?;
        Ok(Self { index, signing, sealing })
    }

    /// Index of the node in rosters, from 0.
    #[must_use]
    pub fn index(&self) -> u16 {
        self.index
    }

    /// The Ed25519 public key that its messages and its statements verify under.
    #[must_use]
    pub fn signing_key(&self) -> [u8; 32] {
        self.signing.to_bytes()
    }

    /// 64 hexadecimal characters over index and keys, for people to compare.
    #[must_use]
    pub fn fingerprint(&self) -> String {
        let hash = TaggedHash::new("gateway/seal/node-identity/v1").number(self.index);
        hex::encode(hash.bytes(self.signing.as_bytes()).bytes(&self.sealing.to_bytes()).finish())
    }

    /// Strictly: `verify` would take edge cases that anybody can make.
    pub(crate) fn has_signed(&self, digest: &[u8; 32], signature: &[u8; 64]) -> bool {
        self.signing.verify_strict(digest, &Signature::from_bytes(signature)).is_ok()
    }

    pub(crate) fn sealing(&self) -> &SealingKey {
        &self.sealing
    }
}

impl Identities {
    /// The nodes, in any order.
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
    use crate::node_key::NodeSecret;

    fn node(index: u16, seed: u8) -> NodeIdentity {
        NodeSecret::from_seed(index, &Zeroizing::new([seed; 32])).identity().clone()
    }

    #[test]
    fn an_identity_survives_json_and_says_what_it_is() {
        let json = serde_json::to_string(&node(3, 1)).unwrap();
        assert_eq!(serde_json::from_str::<NodeIdentity>(&json).unwrap(), node(3, 1));
        assert_eq!(node(3, 1).fingerprint().len(), 64);
        assert_ne!(node(3, 1).fingerprint(), node(4, 1).fingerprint());
        assert_ne!(node(3, 1).fingerprint(), node(3, 2).fingerprint());
        assert!(serde_json::from_str::<NodeIdentity>(&json.to_uppercase()).is_err());
        assert!(serde_json::from_str::<NodeIdentity>(&json.replace("index", "indexes")).is_err());
    }

    #[test]
    fn keys_that_protect_nothing_are_refused() {
        let good = serde_json::to_value(node(0, 1)).unwrap();
        let key = |name: &str| hex::decode(good[name].as_str().unwrap()).unwrap().try_into().unwrap();
        let (signing, sealing): ([u8; 32], [u8; 32]) = (key("signing_key"), key("sealing_key"));
        assert!(NodeIdentity::new(0, &signing, &sealing).is_ok());
        // The neutral element of each curve; and 2, which is no y of a point.
        let (mut one, mut two) = ([0; 32], [0; 32]);
        (one[0], two[0]) = (1, 2);
        for weak in [one, two] {
            assert_eq!(NodeIdentity::new(0, &weak, &sealing), Err(IdentityError::SigningKey(0)));
        }
        for weak in [[0; 32], one] {
            assert_eq!(NodeIdentity::new(0, &signing, &weak), Err(IdentityError::SealingKey(0)));
        }
    }

    /// A signature whose R is the neutral element: only the key's owner can make it, and verifiers disagree about it.
    #[test]
    fn a_signature_that_only_lax_verifiers_take_is_refused() {
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
    fn nodes_share_neither_index_nor_key() {
        assert!(Identities::new([node(0, 1), node(1, 2)]).is_ok());
        assert_eq!(Identities::new([node(0, 1), node(0, 2)]), Err(IdentityError::Duplicate(0)));
        assert_eq!(Identities::new([node(0, 1), node(1, 1)]), Err(IdentityError::SharedKey(1)));
        let half = NodeIdentity { sealing: node(0, 1).sealing, ..node(1, 2) };
        assert_eq!(Identities::new([node(0, 1), half]), Err(IdentityError::SharedKey(1)));
    }
}
