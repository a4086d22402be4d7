//! Coordinates a signature (RFC 9591 section 5): collects commitments, makes a package, collects signature shares, and verifies
//! the aggregated signature.
//!
//! The coordinator stores nothing. When an attempt is repeated after a crash, nodes return what they have signed and the
//! commitments that are still open. The package is completed if each of its signers has signed it or still has its nonces;
//! otherwise the attempt is lost.

use crate::acks::{failures, is_lost, permanent_failure, refusal};
use crate::begun::BegunPackage;
use crate::calls::{Calls, Missed, NodeSet, unavailable};
use crate::effects::rejected;
use crate::fan_out::{Answer, Answers};
use crate::fleet::Fleet;
use crate::node::{Nodes, RuntimeNode};
use gateway_domain::ids::Hex32;
use gateway_domain::key::CustodyKey;
use gateway_domain::operation::{Failure, Outcome, Phase, SignatureResult};
use gateway_domain::receipt::{NodeReceipt, ReceiptKind};
use gateway_domain::roster::{ParticipantIndex, Roster};
use gateway_engine::Unavailable;
use gateway_node::{Call, Code, NodeError, RoundOne, SignedShare};
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

impl<N: Nodes> Fleet<N> {
    pub(crate) async fn sign(
        &self,
        calls: &Calls<'_>,
        key: Option<&CustodyKey>,
    ) -> Result<Outcome, Unavailable> {
        let signing = match Signing::new(self, calls, key)? {
            Ok(signing) => signing,
            Err(rejection) => return Ok(rejection),
        };
        if let Some(commitments) = self.commitments_in_hand(&signing) {
            return self.sign_package_of(&signing, commitments).await;
        }
        let answers = self.round_one(calls).await?;
        let begun = BegunPackage::all(&answers);
        if let Some(package) = begun.iter().find(|package| package.can_be_completed()) {
            return self.complete_package(&signing, package).await;
        }
        if begun.is_empty() {
            return self.sign_new_package(&signing, answers).await;
        }
        self.incomplete(&signing, &answers, &begun).await
    }

    /// The commitments that came with the policy receipts, if they are enough. No package was made of them: they are taken once.
    fn commitments_in_hand(&self, signing: &Signing<'_>) -> Option<BTreeMap<ParticipantIndex, Vec<u8>>> {
        let effect = signing.calls.effect;
        let mut commitments =
            self.commitments.take(effect.id.operation).filter(|_| effect.id.attempt == 1)?;
        commitments.retain(|node, _| effect.nodes.contains(node));
        (commitments.len() >= signing.threshold()).then_some(commitments)
    }

    async fn round_one(&self, calls: &Calls<'_>) -> Result<Answers<RoundOne>, Unavailable> {
        let discarded = &calls.operation.discarded_attempts;
        let commit = |node: Arc<N::Node>, (call, missed): (Call, Missed)| -> Answer<'_, _> {
            Box::pin(async move {
                missed.catch_up(self, &node, || Box::pin(node.signing_commit(&call, discarded))).await
            })
        };
        let calls_by_node = calls.with_catch_up(&calls.effect.nodes)?;
        Ok(self.call_all(calls_by_node, "mid-commitments", |_| false, commit).await)
    }

    /// Chooses the signers and makes the package, if no node has signed in this attempt.
    async fn sign_new_package(
        &self,
        signing: &Signing<'_>,
        answers: Answers<RoundOne>,
    ) -> Result<Outcome, Unavailable> {
        let commitments = committed(&answers);
        if commitments.len() < signing.threshold() {
            return self.too_few(signing, &answers, &commitments).await;
        }
        self.sign_package_of(signing, commitments).await
    }

    /// Makes a package of as many commitments as the threshold requires, and collects the shares.
    async fn sign_package_of(
        &self,
        signing: &Signing<'_>,
        mut commitments: BTreeMap<ParticipantIndex, Vec<u8>>,
    ) -> Result<Outcome, Unavailable> {
        let signers = self.suspects.choose(commitments.keys().copied(), signing.threshold());
        commitments.retain(|node, _| signers.contains(node));
        let package = signing.package(commitments);
        let shares = self.round_two(signing, &signers, &package).await?;
        self.finish(signing, &package, shares).await
    }

    /// Collects the remaining shares of a package that some nodes have signed.
    async fn complete_package(
        &self,
        signing: &Signing<'_>,
        begun: &BegunPackage<'_>,
    ) -> Result<Outcome, Unavailable> {
        let signed = begun.signed.iter().map(|(node, signed)| (*node, Ok((*signed).clone())));
        let mut shares: Answers<_> = signed.collect();
        shares.extend(self.round_two(signing, &begun.unsigned, begun.package).await?);
        self.finish(signing, begun.package, shares).await
    }

    async fn round_two(
        &self,
        signing: &Signing<'_>,
        signers: &NodeSet,
        package: &SigningPackage,
    ) -> Result<Answers<SignedShare>, Unavailable> {
        let calls_by_node = signing.calls.to(signers)?;
        let sign = |node: Arc<N::Node>, call: Call| -> Answer<'_, _> {
            Box::pin(async move { node.signing_share(&call, package).await })
        };
        Ok(self.call_all(calls_by_node, "mid-execute", |_| false, sign).await)
    }

    /// The outcome of round two. If all signers returned a share with a valid receipt, aggregates the shares.
    async fn finish(
        &self,
        signing: &Signing<'_>,
        package: &SigningPackage,
        answers: Answers<SignedShare>,
    ) -> Result<Outcome, Unavailable> {
        let package_hash = Hex32::new(package.hash());
        let calls = signing.calls;
        let (attempt, signed_digest) = (calls.effect.id.attempt, calls.decision().request_digest);
        let kind = ReceiptKind::Signed { attempt, signed_digest, package_hash };
        let answers = self.verify_receipts(calls, &kind, answers, |signed| &signed.receipt);
        let failed: NodeSet =
            answers.iter().filter(|(_, answer)| answer.is_err()).map(|(signer, _)| *signer).collect();
        if !failed.is_empty() {
            self.suspects.add(failed);
            return self.signers_failed(signing, &answers).await;
        }
        let signed = answers.into_iter().filter_map(|(signer, answer)| Some((signer, answer.ok()?)));
        let (mut shares, mut receipts) = (BTreeMap::new(), Vec::new());
        for (signer, SignedShare { share, receipt }) in signed {
            shares.insert(signer.0, share);
            receipts.push(receipt);
        }
        match signing.aggregate(package, &shares) {
            Ok(signature) => {
                self.suspects.clear(receipts.iter().map(|receipt| &receipt.participant));
                signing.signed_outcome(&signature, package_hash, receipts)
            }
            Err(error) => {
                let culprits: NodeSet = error.culprits().into_iter().map(ParticipantIndex).collect();
                self.suspects.add(culprits.iter().copied());
                self.invalid_shares(signing, &error, &culprits).await
            }
        }
    }
}

impl<'a> Signing<'a> {
    /// The inner error is the outcome if the key is not in the admitted epoch, which ends the operation.
    fn new<N: Nodes>(
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

    fn package(&self, commitments: BTreeMap<ParticipantIndex, Vec<u8>>) -> SigningPackage {
        SigningPackage {
            message: self.calls.decision().request_digest.as_bytes().to_vec(),
            commitments: commitments.into_iter().map(|(signer, bytes)| (signer.0, bytes)).collect(),
            tweak: self.tweak,
        }
    }

    /// Aggregates the shares, and verifies the signature under the admitted key over the admitted digest.
    fn aggregate(
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

    fn signed_outcome(
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

/// The outcomes of attempts that failed.
impl<N: Nodes> Fleet<N> {
    /// The outcome when fewer nodes committed than must sign, and none has signed. Another attempt follows if enough nodes lost only
    /// their nonces.
    async fn too_few(
        &self,
        signing: &Signing<'_>,
        answers: &Answers<RoundOne>,
        commitments: &BTreeMap<ParticipantIndex, Vec<u8>>,
    ) -> Result<Outcome, Unavailable> {
        let (threshold, n_committed) = (signing.threshold(), commitments.len());
        if let Some(failure) = permanent_failure(answers, threshold) {
            return Ok(Outcome::Rejected { failure, policy: None });
        }
        let lost = answers.iter().filter(|(_, answer)| is_lost(answer)).map(|(node, _)| *node);
        let able: NodeSet = lost.chain(commitments.keys().copied()).collect();
        let why = failures(answers);
        if able.len() >= threshold {
            return self.give_up(signing.calls, &able, why).await;
        }
        Err(unavailable(&format!("{n_committed} of {threshold} required signers are available; {why}")))
    }

    /// The outcome when these signers failed in round two. Another attempt follows, unless too few nodes are left. A signer whose
    /// receipt is not valid may have released its share.
    async fn signers_failed(
        &self,
        signing: &Signing<'_>,
        answers: &Answers<SignedShare>,
    ) -> Result<Outcome, Unavailable> {
        let n_nodes = signing.calls.effect.nodes.len();
        let refuses =
            |answer| refusal(answer).is_some_and(|rejection| rejection.code != Code::ReceiptRefused);
        let n_refusing = answers.values().filter(|answer| refuses(answer)).count();
        if n_nodes.saturating_sub(n_refusing) < signing.threshold()
            && let Some(failure) = permanent_failure(answers, answers.len())
        {
            return Ok(Outcome::Rejected { failure, policy: None });
        }
        let failed = answers.iter().filter(|(_, answer)| answer.is_err()).map(|(node, _)| *node).collect();
        self.give_up(signing.calls, &failed, failures(answers)).await
    }

    /// The outcome when shares do not verify. Another attempt prefers other signers, unless too few nodes are left.
    async fn invalid_shares(
        &self,
        signing: &Signing<'_>,
        error: &ThresholdError,
        culprits: &NodeSet,
    ) -> Result<Outcome, Unavailable> {
        let n_left = signing.calls.effect.nodes.difference(culprits).count();
        if culprits.is_empty() || n_left >= signing.threshold() {
            return self.give_up(signing.calls, culprits, error.to_string()).await;
        }
        let failure = Failure {
            code: "ceremony_misbehaviour".to_owned(),
            detail: error.to_string(),
            culprits: culprits.iter().copied().collect(),
        };
        Ok(Outcome::Rejected { failure, policy: None })
    }
}

fn committed(answers: &Answers<RoundOne>) -> BTreeMap<ParticipantIndex, Vec<u8>> {
    let committed = |(node, answer): (&ParticipantIndex, &Result<RoundOne, NodeError>)| match answer {
        Ok(RoundOne::Committed(bytes)) => Some((*node, bytes.clone())),
        Ok(RoundOne::Consumed { .. }) | Err(_) => None,
    };
    answers.iter().filter_map(committed).collect()
}
