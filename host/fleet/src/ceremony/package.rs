//! A signature to make, and the packages of it that some nodes have signed: whether one of them can be completed.

use crate::acks::rejected;
use crate::calls::{Calls, unavailable};
use crate::fan_out::{Answers, NodeSet};
use crate::fleet::Fleet;
use crate::node::Nodes;
use gateway_domain::ids::Hex32;
use gateway_domain::key::CustodyKey;
use gateway_domain::operation::{Outcome, Phase, SignatureResult};
use gateway_domain::receipt::{AttemptReceipt, NodeReceipt};
use gateway_domain::roster::{ParticipantIndex, Roster};
use gateway_engine::Unavailable;
use gateway_node::{RoundOne, SignedShare};
use gateway_threshold::sign::{SigningPackage, aggregate, aggregate_of_former_epoch, verify};
use gateway_threshold::{PublicKeys, ThresholdError, Tweak};
use std::collections::BTreeMap;
use std::sync::Arc;

/// One attempt at a signature.
pub(crate) struct Signing<'a> {
    pub(crate) calls: &'a Calls<'a>,
    keys: Arc<PublicKeys>,
    /// Whether the key is still in the admitted epoch. Otherwise `keys` are those of a later epoch, with the same group key.
    is_admitted_epoch: bool,
    /// The tweak of the derived key, if the decision names one.
    tweak: Option<Tweak>,
    /// The public key under which the signature must verify: the derived key's, if the decision names one.
    public_key: Vec<u8>,
}

impl<'a> Signing<'a> {
    /// The inner error is the outcome if the key is not in the admitted epoch, which ends the operation.
    pub(crate) fn new<N: Nodes>(
        fleet: &Fleet<N>,
        calls: &'a Calls<'a>,
        key: Option<&CustodyKey>,
    ) -> Result<Result<Self, Outcome>, Unavailable> {
        let decision = calls.decision();
        let key = key.ok_or_else(|| unavailable("the key is unknown"))?;
        let is_admitted_epoch = key.epoch.name == decision.epoch && key.epoch.root == decision.epoch_root;
        // The shares of an operation that was given up may have been released before the key changed its epoch.
        let is_given_up = calls.operation.phase == Phase::Discarding;
        if key.key_id != decision.key_id || !(is_admitted_epoch || is_given_up) {
            let detail = "the key is in another epoch than the admitted one".to_owned();
            return Ok(Err(rejected("epoch_conflict", detail)));
        }
        let keys = fleet.public_keys(key).map_err(|why| unavailable(&why))?;
        let (tweak, public_key) = match &decision.derivation {
            None => (None, keys.public_key()),
            Some(child) => {
                let public_key = hex::decode(&child.public_key_hex);
                let public_key =
                    public_key.map_err(|_| unavailable("the admitted derived key is damaged"))?;
                (Some(Tweak::new(*child.tweak.as_bytes())), public_key)
            }
        };
        Ok(Ok(Self { calls, keys, is_admitted_epoch, tweak, public_key }))
    }

    pub(crate) fn threshold(&self) -> usize {
        self.calls.decision().threshold.count()
    }

    pub(crate) fn package(&self, commitments: BTreeMap<ParticipantIndex, Vec<u8>>) -> SigningPackage {
        SigningPackage {
            message: self.calls.decision().request_digest.as_bytes().to_vec(),
            commitments: commitments.into_iter().map(|(signer, bytes)| (signer.0, bytes)).collect(),
            tweak: self.tweak,
        }
    }

    /// Aggregates the shares, and verifies the signature under the admitted key over the admitted digest.
    pub(crate) fn aggregate(
        &self,
        package: &SigningPackage,
        shares: &BTreeMap<u16, Vec<u8>>,
    ) -> Result<Vec<u8>, ThresholdError> {
        let aggregate = if self.is_admitted_epoch { aggregate } else { aggregate_of_former_epoch };
        let signature = aggregate(package, shares, &self.keys)?;
        let digest = self.calls.decision().request_digest;
        verify(self.keys.profile(), &self.public_key, digest.as_bytes(), &signature)?;
        Ok(signature.to_vec())
    }

    pub(crate) fn signed_outcome(
        &self,
        signature: &[u8],
        package_hash: Hex32,
        receipts: Vec<NodeReceipt>,
    ) -> Result<Outcome, Unavailable> {
        let signers: Vec<u16> = receipts.iter().map(|receipt| receipt.participant.0).collect();
        let signature = Box::new(SignatureResult {
            signature_profile: self.keys.profile().to_string(),
            public_key_hex: hex::encode(&self.public_key),
            signed_digest: self.calls.decision().request_digest,
            signature_hex: hex::encode(signature),
            signers: Roster::parse(&signers).map_err(|error| unavailable(&error.to_string()))?,
            package_hash,
        });
        Ok(Outcome::Signed { signature, receipts })
    }
}

/// A package that some nodes have signed.
pub(crate) struct BegunPackage<'a> {
    pub(crate) package: &'a SigningPackage,
    pub(crate) hash: Hex32,
    /// The signers that signed it.
    pub(crate) signed: BTreeMap<ParticipantIndex, &'a SignedShare>,
    /// The signers that still have their nonces.
    pub(crate) unsigned: NodeSet,
    /// The signers without which it cannot be completed now.
    pub(crate) lacking: NodeSet,
}

impl<'a> BegunPackage<'a> {
    /// The packages that nodes have signed in this attempt. Several, if replicas of the gateway performed it at the same time.
    pub(crate) fn all(answers: &'a Answers<RoundOne>) -> Vec<Self> {
        let mut begun: Vec<Self> = Vec::new();
        for answer in answers.values() {
            if let Ok(RoundOne::Consumed { package, .. }) = answer
                && !begun.iter().any(|begun| begun.package == package)
            {
                begun.push(Self::new(package, answers));
            }
        }
        begun
    }

    fn new(package: &'a SigningPackage, answers: &'a Answers<RoundOne>) -> Self {
        let (mut signed, mut unsigned, mut lacking) = (BTreeMap::new(), NodeSet::new(), NodeSet::new());
        for (signer, commitments) in &package.commitments {
            let signer = ParticipantIndex(*signer);
            match answers.get(&signer) {
                Some(Ok(RoundOne::Consumed { package: used_for, signed: share })) if used_for == package => {
                    signed.insert(signer, share);
                }
                Some(Ok(RoundOne::Committed(open))) if open == commitments => {
                    unsigned.insert(signer);
                }
                Some(Ok(_) | Err(_)) | None => {
                    lacking.insert(signer);
                }
            }
        }
        Self { package, hash: Hex32::new(package.hash()), signed, unsigned, lacking }
    }

    /// Whether each of its signers has signed it or still has its nonces.
    pub(crate) fn can_be_completed(&self) -> bool {
        self.lacking.is_empty()
    }

    /// Whether one of these receipts is that of a signer, that it will not sign the package.
    pub(crate) fn is_lost(&self, receipts: &[AttemptReceipt]) -> bool {
        let mut others = receipts.iter().filter(|of| of.package_hash != Some(self.hash));
        others.any(|of| self.package.commitments.contains_key(&of.receipt.participant.0))
    }
}
