//! Packages that some nodes have signed in an attempt: whether one of them can be completed, and the end of the attempt if none can.

use crate::acks::{failure_unless, failures, is_lost, permanent_failure};
use crate::attempts::may_be_completed;
use crate::calls::{NodeSet, unavailable};
use crate::fan_out::Answers;
use crate::fleet::Fleet;
use crate::node::Nodes;
use crate::signing::Signing;
use gateway_domain::ids::Hex32;
use gateway_domain::operation::Outcome;
use gateway_domain::receipt::AttemptReceipt;
use gateway_domain::roster::ParticipantIndex;
use gateway_engine::Unavailable;
use gateway_node::{RoundOne, SignedShare};
use gateway_threshold::sign::SigningPackage;
use std::collections::BTreeMap;

/// A package that some nodes have signed.
pub(crate) struct BegunPackage<'a> {
    pub(crate) package: &'a SigningPackage,
    hash: Hex32,
    /// The signers that signed it.
    pub(crate) signed: BTreeMap<ParticipantIndex, &'a SignedShare>,
    /// The signers that still have their nonces.
    pub(crate) unsigned: NodeSet,
    /// The signers without which it cannot be completed now.
    lacking: NodeSet,
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
    fn is_lost(&self, receipts: &[AttemptReceipt]) -> bool {
        let mut others = receipts.iter().filter(|of| of.package_hash != Some(self.hash));
        others.any(|of| self.package.commitments.contains_key(&of.receipt.participant.0))
    }
}

impl<N: Nodes> Fleet<N> {
    /// The outcome when no package that nodes have signed can be completed now. Another attempt follows if enough nodes answered for
    /// one, and no package can be completed later: a signer of each discards the attempt, or signed another package. If the signers
    /// that could do so refuse permanently, the operation ends.
    pub(crate) async fn incomplete(
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
}
