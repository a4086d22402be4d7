//! The signing package: the message, and the commitments of its signers.

use std::collections::{BTreeMap, BTreeSet};

use frost_core::round1::{NonceCommitment, SigningCommitments};

use crate::encoding::Reader;
use crate::hash::TaggedHash;
use crate::suite::{Suite, decode_point, identifier};
use crate::{PublicKeys, ThresholdError, Tweak};

/// The coordinator's request in round two. All signers of a signature must get the same package.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SigningPackage {
    /// The message to sign. The signature schemes hash it, so pass what their standard calls the message: for Ed25519 the full
    /// message, for Bitcoin the 32 bytes of the signature hash.
    pub message: Vec<u8>,
    /// The commitments of exactly the signers, by 0-based index.
    pub commitments: BTreeMap<u16, Vec<u8>>,
    /// The tweak of a derived key's [`Derivation`](crate::derive::Derivation); `None` to sign with the key itself.
    pub tweak: Option<Tweak>,
}

impl SigningPackage {
    /// A hash of the message, the signers with their commitments, and the tweak. A node's receipt for its signature share
    /// contains it.
    #[must_use]
    pub fn hash(&self) -> [u8; 32] {
        let signers = u64::try_from(self.commitments.len()).unwrap_or(u64::MAX);
        let hash = TaggedHash::new("svc/signing-package/v1").bytes(&self.message).number(signers);
        let hash =
            self.commitments.iter().fold(hash, |hash, (signer, bytes)| hash.number(*signer).bytes(bytes));
        match &self.tweak {
            None => hash.number(0_u64),
            Some(tweak) => hash.number(1_u64).bytes(tweak.as_bytes()),
        }
        .finish()
    }

    /// Step 2.2, made by signer and coordinator: checks that the key has these signers, and that they are enough.
    pub(super) fn check_signers(&self, keys: &PublicKeys) -> Result<(), ThresholdError> {
        let signers = self.commitments.len();
        let threshold = keys.threshold();
        if signers < usize::from(threshold) {
            return Err(ThresholdError::TooFewSigners { signers, threshold });
        }
        let unknown = self.commitments.keys().filter(|signer| !keys.verifying_shares().contains_key(signer));
        ThresholdError::unless_empty(unknown.copied().collect(), |signers| ThresholdError::UnknownSigners {
            signers,
        })
    }

    /// Step 2.2: checks the commitments and converts the package to frost-core's type.
    pub(super) fn decode<C: Suite>(&self) -> Result<frost_core::SigningPackage<C>, ThresholdError> {
        let mut commitments = BTreeMap::new();
        let mut malformed = BTreeSet::new();
        for (signer, bytes) in &self.commitments {
            match decode_commitments::<C>(bytes) {
                Some(decoded) => _ = commitments.insert(identifier(*signer)?, decoded),
                None => _ = malformed.insert(*signer),
            }
        }
        ThresholdError::unless_empty(malformed, |signers| ThresholdError::MalformedCommitments { signers })?;
        Ok(frost_core::SigningPackage::new(commitments, &self.message))
    }
}

/// `D ‖ E`: the commitments to the hiding and the binding nonce.
pub(super) fn encode<C: Suite>(commitments: &SigningCommitments<C>) -> Result<Vec<u8>, frost_core::Error<C>> {
    Ok([commitments.hiding().serialize()?, commitments.binding().serialize()?].concat())
}

/// The inverse of [`encode`]; rejects the identity, which has no encoding.
fn decode_commitments<C: Suite>(bytes: &[u8]) -> Option<SigningCommitments<C>> {
    let mut reader = Reader::new(bytes);
    let hiding = reader.bytes(C::POINT_BYTES)?;
    let binding = reader.bytes(C::POINT_BYTES)?;
    reader.end()?;
    let point = |bytes| decode_point::<C, _, _>(bytes, NonceCommitment::<C>::deserialize);
    Some(SigningCommitments::new(point(hiding)?, point(binding)?))
}
