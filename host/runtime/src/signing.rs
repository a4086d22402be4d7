//! Coordinating a signature (RFC 9591 section 5): commitments, one package, shares, and the sum verified.
//!
//! After a crash nothing is remembered here. Nodes that signed say what they signed; when all signers of a package did,
//! their shares are the same and so is the signature. When only some did, the attempt is lost: its package can not be
//! completed, because the others' nonces are gone.

use crate::acks::{is_lost, refused_for_good, silent};
use crate::calls::{Calls, unavailable};
use crate::dispatch::rejected;
use crate::fan_out::{Answer, Answers};
use crate::fleet::EmbeddedFleet;
use crate::steps::{Missed, questions};
use gateway_domain::admission::AdmissionDecision;
use gateway_domain::ids::Hex32;
use gateway_domain::key::CustodyKey;
use gateway_domain::operation::{Effect, Failure, Outcome, SignatureResult};
use gateway_domain::receipt::{NodeReceipt, ReceiptKind};
use gateway_domain::roster::{ParticipantIndex, Roster};
use gateway_engine::Unavailable;
use gateway_node::{Call, Node, NodeError, RoundOne, SignedShare};
use gateway_threshold::sign::{SigningPackage, aggregate, verify};
use gateway_threshold::{PublicKeys, ThresholdError, Tweak};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

type Nodes = BTreeSet<ParticipantIndex>;

/// What is to be signed, from the admission and the key.
struct Job<'a> {
    calls: Calls<'a>,
    effect: &'a Effect,
    nodes: &'a Nodes,
    decision: &'a AdmissionDecision,
    keys: Arc<PublicKeys>,
    tweak: Option<Tweak>,
    public_key: Vec<u8>,
}

impl EmbeddedFleet {
    pub(crate) async fn sign(
        &self,
        calls: Calls<'_>,
        effect: &Effect,
        nodes: &Nodes,
        key: Option<&CustodyKey>,
    ) -> Result<Outcome, Unavailable> {
        let job = match Job::new(self, calls, effect, nodes, key)? {
            Ok(job) => job,
            Err(rejection) => return Ok(rejection),
        };
        let answers = self.round_one(&job).await?;
        match consumed_package(&answers) {
            Some(package) => self.reassemble(&job, answers, package).await,
            None => self.sign_afresh(&job, answers).await,
        }
    }

    async fn round_one(&self, job: &Job<'_>) -> Result<Answers<RoundOne>, Unavailable> {
        let ask = |node: Arc<Node>, (call, missed): (Call, Missed)| -> Answer<'_, _> {
            Box::pin(async move { missed.bring(&node, || Box::pin(node.signing_commit(&call))).await })
        };
        let before = Missed::before(&job.calls)?;
        let questions = questions(job.calls, job.effect, job.nodes, |node| before.ceremony(node))?;
        Ok(self.ask(questions, "mid-commitments", ask).await)
    }

    /// Nobody has signed in this attempt: choose signers and have them sign.
    async fn sign_afresh(&self, job: &Job<'_>, answers: Answers<RoundOne>) -> Result<Outcome, Unavailable> {
        let mut commitments = committed(&answers);
        let threshold = job.decision.threshold.count();
        if commitments.len() < threshold {
            return job.too_few(&answers, commitments.len());
        }
        let signers = self.suspects.choose(commitments.keys().copied(), threshold);
        commitments.retain(|node, _| signers.contains(node));
        let package = job.package(commitments);
        let shares = self.round_two(job, &signers, &package).await?;
        self.finish(job, &package, shares)
    }

    /// Somebody has signed in this attempt: complete that package or give the attempt up.
    async fn reassemble(
        &self,
        job: &Job<'_>,
        answers: Answers<RoundOne>,
        package: SigningPackage,
    ) -> Result<Outcome, Unavailable> {
        let signers: Nodes = package.commitments.keys().copied().map(ParticipantIndex).collect();
        let (mut shares, mut owing) = (Answers::new(), Nodes::new());
        for signer in signers {
            let answer = answers.get(&signer);
            match answer {
                Some(Ok(RoundOne::Consumed { package: spent_on, signed })) if *spent_on == package => {
                    shares.insert(signer, Ok(signed.clone()));
                }
                Some(Ok(RoundOne::Committed(open))) if package.commitments.get(&signer.0) == Some(open) => {
                    owing.insert(signer);
                }
                Some(Ok(_) | Err(_)) | None => {
                    return job.attempt_lost(&answers, "only some of its signers signed before a restart");
                }
            }
        }
        shares.extend(self.round_two(job, &owing, &package).await?);
        self.finish(job, &package, shares)
    }

    async fn round_two(
        &self,
        job: &Job<'_>,
        signers: &Nodes,
        package: &SigningPackage,
    ) -> Result<Answers<SignedShare>, Unavailable> {
        let questions = questions(job.calls, job.effect, signers, |_| Ok(()))?;
        let ask = |node: Arc<Node>, (call, ()): (Call, ())| -> Answer<'_, _> {
            Box::pin(async move { node.signing_share(&call, package).await })
        };
        Ok(self.ask(questions, "mid-execute", ask).await)
    }

    /// A share counts with its signer's word for it.
    fn finish(
        &self,
        job: &Job<'_>,
        package: &SigningPackage,
        answers: Answers<SignedShare>,
    ) -> Result<Outcome, Unavailable> {
        let package_hash = Hex32::new(package.hash());
        let (attempt, signed_digest) = (job.effect.id.attempt, job.decision.request_digest);
        let deed = ReceiptKind::Signed { attempt, signed_digest, package_hash };
        let answers = self.attested(&job.calls, &deed, answers, |signed| &signed.receipt);
        let failed: Nodes =
            answers.iter().filter(|(_, answer)| answer.is_err()).map(|(signer, _)| *signer).collect();
        if !failed.is_empty() {
            self.suspects.add(failed);
            return job.spoiled(&answers);
        }
        let signed = answers.into_iter().filter_map(|(signer, answer)| Some((signer, answer.ok()?)));
        let (mut shares, mut receipts) = (BTreeMap::new(), Vec::new());
        for (signer, SignedShare { share, receipt }) in signed {
            shares.insert(signer.0, share);
            receipts.push(receipt);
        }
        match job.signature(package, &shares) {
            Ok(signature) => {
                self.suspects.clear(receipts.iter().map(|receipt| &receipt.participant));
                job.signed(&signature, package_hash, receipts)
            }
            Err(error) => {
                let culprits: Nodes = error.culprits().into_iter().map(ParticipantIndex).collect();
                self.suspects.add(culprits.iter().copied());
                Ok(job.misbehaved(&error, culprits))
            }
        }
    }
}

impl<'a> Job<'a> {
    /// The inner error is the operation's end: the key is not in the epoch that was admitted.
    fn new(
        fleet: &EmbeddedFleet,
        calls: Calls<'a>,
        effect: &'a Effect,
        nodes: &'a Nodes,
        key: Option<&CustodyKey>,
    ) -> Result<Result<Self, Outcome>, Unavailable> {
        let decision = calls.decision;
        let key = key.ok_or_else(|| unavailable("the key is unknown"))?;
        let is_admitted = key.epoch.name == decision.epoch && key.epoch.root == decision.epoch_root;
        if key.key_id != decision.key_id || !is_admitted {
            let detail = "the key is in another epoch than the admitted one".to_owned();
            return Ok(Err(rejected("epoch_conflict", detail)));
        }
        let keys = fleet.public_keys(key).map_err(|why| unavailable(&why))?;
        let damaged = |_| unavailable("the admitted child key is damaged");
        let (tweak, public_key) = match &decision.derivation {
            None => (None, keys.public_key()),
            Some(child) => (
                Some(
                    Tweak::from_bytes(*child.tweak.as_bytes())
                        .map_err(|_| unavailable("the tweak is damaged"))?,
                ),
                hex::decode(&child.public_key_hex).map_err(damaged)?,
            ),
        };
        Ok(Ok(Self { calls, effect, nodes, decision, keys, tweak, public_key }))
    }

    fn package(&self, commitments: BTreeMap<ParticipantIndex, Vec<u8>>) -> SigningPackage {
        SigningPackage {
            message: self.decision.request_digest.as_bytes().to_vec(),
            commitments: commitments.into_iter().map(|(signer, bytes)| (signer.0, bytes)).collect(),
            tweak: self.tweak,
        }
    }

    /// The signature, verified under the admitted key over the admitted digest whatever the package says.
    fn signature(
        &self,
        package: &SigningPackage,
        shares: &BTreeMap<u16, Vec<u8>>,
    ) -> Result<Vec<u8>, ThresholdError> {
        let signature = aggregate(package, shares, &self.keys)?;
        verify(self.keys.profile(), &self.public_key, self.decision.request_digest.as_bytes(), &signature)?;
        Ok(signature.to_vec())
    }

    fn signed(
        &self,
        signature: &[u8],
        package_hash: Hex32,
        receipts: Vec<NodeReceipt>,
    ) -> Result<Outcome, Unavailable> {
        let signers: Vec<u16> = receipts.iter().map(|receipt| receipt.participant.0).collect();
        let signature = Box::new(SignatureResult {
            signature_profile: self.keys.profile().to_string(),
            public_key_hex: hex::encode(&self.public_key),
            signed_digest: self.decision.request_digest,
            signature_hex: hex::encode(signature),
            signers: Roster::parse(&signers).map_err(|error| unavailable(&error.to_string()))?,
            package_hash,
        });
        Ok(Outcome::Signed { signature, receipts })
    }

    /// Fewer committed than must sign.
    fn too_few(&self, answers: &Answers<RoundOne>, n_committed: usize) -> Result<Outcome, Unavailable> {
        let threshold = self.decision.threshold.count();
        if let Some(failure) = refused_for_good(answers, threshold) {
            return Ok(Outcome::Rejected { failure, policy: None });
        }
        let n_lost = answers.values().filter(|answer| is_lost(answer)).count();
        let why = silent(answers);
        if n_committed + n_lost >= threshold {
            return Ok(Outcome::AttemptLost(why));
        }
        let detail = format!("{n_committed} of {threshold} signers are there; {why}");
        Err(unavailable(&detail))
    }

    /// The attempt is lost if those who answered are enough for another one.
    fn attempt_lost(&self, answers: &Answers<RoundOne>, why: &str) -> Result<Outcome, Unavailable> {
        let n_able = answers.values().filter(|answer| answer.is_ok() || is_lost(answer)).count();
        if let Some(failure) = refused_for_good(answers, self.decision.threshold.count()) {
            // Those who signed under the decision did so while it was in force; the others refuse for good.
            return Ok(Outcome::Rejected { failure, policy: None });
        }
        if n_able >= self.decision.threshold.count() {
            return Ok(Outcome::AttemptLost(why.to_owned()));
        }
        Err(unavailable(&silent(answers)))
    }

    /// Signers failed between the rounds: another attempt, unless too few are left.
    fn spoiled(&self, answers: &Answers<SignedShare>) -> Result<Outcome, Unavailable> {
        let n_refusing = answers.len() - answers.values().filter(|answer| !is_final(answer)).count();
        let n_left = self.nodes.len().saturating_sub(n_refusing);
        if n_left < self.decision.threshold.count()
            && let Some(failure) = refused_for_good(answers, answers.len())
        {
            return Ok(Outcome::Rejected { failure, policy: None });
        }
        // A node that cannot write now may later: as long as too few can, the attempt waits.
        let n_down =
            answers.values().filter(|answer| matches!(answer, Err(NodeError::Unavailable { .. }))).count();
        if self.nodes.len().saturating_sub(n_down) < self.decision.threshold.count() {
            return Err(unavailable(&silent(answers)));
        }
        Ok(Outcome::AttemptLost(silent(answers)))
    }

    /// Shares that do not verify: another attempt without their owners, unless too few are left.
    fn misbehaved(&self, error: &ThresholdError, culprits: Nodes) -> Outcome {
        let n_left = self.nodes.difference(&culprits).count();
        if culprits.is_empty() || n_left >= self.decision.threshold.count() {
            return Outcome::AttemptLost(error.to_string());
        }
        let failure = Failure {
            code: "ceremony_misbehaviour".to_owned(),
            detail: error.to_string(),
            culprits: culprits.into_iter().collect(),
        };
        Outcome::Rejected { failure, policy: None }
    }
}

fn is_final(answer: &Result<SignedShare, NodeError>) -> bool {
    matches!(answer, Err(NodeError::Rejected(rejection)) if !rejection.code.ends_only_the_attempt())
}

fn committed(answers: &Answers<RoundOne>) -> BTreeMap<ParticipantIndex, Vec<u8>> {
    let committed = |(node, answer): (&ParticipantIndex, &Result<RoundOne, NodeError>)| match answer {
        Ok(RoundOne::Committed(bytes)) => Some((*node, bytes.clone())),
        Ok(RoundOne::Consumed { .. }) | Err(_) => None,
    };
    answers.iter().filter_map(committed).collect()
}

/// What was signed in this attempt. A coordinator makes one package an attempt, so the first is the one.
fn consumed_package(answers: &Answers<RoundOne>) -> Option<SigningPackage> {
    answers.values().find_map(|answer| match answer {
        Ok(RoundOne::Consumed { package, .. }) => Some(package.clone()),
        Ok(RoundOne::Committed(_)) | Err(_) => None,
    })
}
