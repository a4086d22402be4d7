//! Coordinates a signature (RFC 9591 section 5): collects commitments, makes a package, collects signature shares, and verifies
//! the aggregated signature.
//!
//! The coordinator stores nothing. When an attempt is repeated after a crash, nodes return what they have signed and the
//! commitments that are still open. The package is completed if each of its signers has signed it or still has its nonces;
//! otherwise the attempt is lost.

use crate::acks::{failure_unless, failures, is_lost, permanent_failure, refusal};
use crate::calls::{Calls, Missed, unavailable};
use crate::ceremony::attempts::may_be_completed;
use crate::ceremony::package::{BegunPackage, Signing};
use crate::fan_out::{Answer, Answers, NodeSet};
use crate::fleet::Fleet;
use crate::node::{Nodes, RuntimeNode};
use gateway_domain::ids::Hex32;
use gateway_domain::key::CustodyKey;
use gateway_domain::operation::{Failure, Outcome};
use gateway_domain::receipt::{AttemptReceipt, ReceiptKind};
use gateway_domain::roster::ParticipantIndex;
use gateway_engine::Unavailable;
use gateway_node::{Call, Code, NodeError, RoundOne, SignedShare};
use gateway_threshold::ThresholdError;
use gateway_threshold::sign::SigningPackage;
use std::collections::BTreeMap;
use std::sync::Arc;

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

/// The outcomes of attempts that failed.
impl<N: Nodes> Fleet<N> {
    /// The outcome when no package that nodes have signed can be completed now. Another attempt follows if enough nodes answered for
    /// one, and no package can be completed later: a signer of each discards the attempt, or signed another package. If the signers
    /// that could do so refuse permanently, the operation ends.
    async fn incomplete(
        &self,
        signing: &Signing<'_>,
        answers: &Answers<RoundOne>,
        packages: &[BegunPackage<'_>],
    ) -> Result<Outcome, Unavailable> {
        if let Some(failure) = permanent_failure(answers, signing.threshold()) {
            return Ok(Outcome::Rejected { failure, policy: None });
        }
        let n_able = answers.values().filter(|answer| answer.is_ok() || is_lost(answer)).count();
        if n_able < signing.threshold() {
            return Err(unavailable(&failures(answers)));
        }
        let mut receipts =
            if packages.len() > 1 { self.share_receipts(signing, packages) } else { Vec::new() };
        if !packages.iter().all(|package| package.is_lost(&receipts)) {
            let lacking = packages.iter().flat_map(|package| &package.lacking).copied().collect();
            let attempt = signing.calls.effect.id.attempt;
            receipts.extend(self.discard_attempt(signing.calls, attempt, &lacking).await?);
        }
        let open: Vec<_> = packages.iter().filter(|package| !package.is_lost(&receipts)).collect();
        if open.is_empty() {
            return Ok(Outcome::AttemptLost {
                reason: "no package was signed by all its signers".to_owned(),
                receipts,
            });
        }
        let may_continue = |able: &NodeSet| open.iter().any(|package| !package.lacking.is_disjoint(able));
        match failure_unless(answers, may_continue) {
            Some(failure) => Ok(Outcome::Rejected { failure, policy: None }),
            None => Err(may_be_completed(&failures(answers))),
        }
    }

    /// The valid receipts of the shares that nodes released.
    fn share_receipts(&self, signing: &Signing<'_>, packages: &[BegunPackage<'_>]) -> Vec<AttemptReceipt> {
        let (calls, mut receipts) = (signing.calls, Vec::new());
        for BegunPackage { hash, signed, .. } in packages {
            for (node, share) in signed {
                let of = AttemptReceipt { receipt: share.receipt.clone(), package_hash: Some(*hash) };
                let kind = of.kind(calls.effect.id.attempt, calls.decision().request_digest);
                let is_valid = self.verify_receipt(calls, &kind, *node, &of.receipt).is_ok();
                receipts.extend(is_valid.then_some(of));
            }
        }
        receipts
    }

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
