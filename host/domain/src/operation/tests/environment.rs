//! The simulated policy, authority and nodes. A request may be lost before it reaches them, or be rejected
//! at random. A ceremony that was performed has one outcome, which each repeat of its effect id gets that is neither.

use super::machine::Random;
use crate::key::{Epoch, PublicKey};
use crate::operation::{Effect, EffectId, EffectStep, Failure, Operation, Outcome, SignatureResult, Staged};
use crate::policy::{self, Decision, Moment};
use crate::receipt::ReceiptKind;
use crate::receipt::tests::receipts;
use crate::roster::{ParticipantIndex, Roster};
use crate::testing::samples;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Default)]
pub(crate) struct Environment {
    /// For each effect id, the nodes of its first request.
    pub(crate) requested_nodes: BTreeMap<EffectId, BTreeSet<ParticipantIndex>>,
    /// The outcomes of ceremonies by effect id, for repeats.
    outcomes: BTreeMap<EffectId, Outcome>,
    pub(crate) staged: BTreeSet<ParticipantIndex>,
    pub(crate) committed: BTreeSet<ParticipantIndex>,
    /// Nodes that released a signature share, by attempt.
    pub(crate) released: BTreeMap<u32, BTreeSet<ParticipantIndex>>,
    /// Attempts that some node has discarded, so that they cannot be completed any more.
    discarded_attempts: BTreeSet<u32>,
    /// Nodes that discarded the operation.
    pub(crate) discarded: BTreeSet<ParticipantIndex>,
    /// An effect id that was requested again with other nodes.
    pub(crate) reused_id: Option<EffectId>,
    /// The signatures that exist, reported or not.
    pub(crate) n_signatures: u32,
    /// Nodes that never acknowledge an admission, a policy receipt, an epoch commit, a publication or a discard. Ceremonies
    /// ignore this set: nodes in it still take part.
    pub(crate) down: BTreeSet<ParticipantIndex>,
    /// Switches off random faults.
    pub(crate) is_reliable: bool,
}

impl Environment {
    /// Performs an effect. `None` if the request is lost: then nothing has happened.
    pub(crate) fn perform(
        &mut self,
        random: &mut Random,
        operation: &Operation,
        effect: &Effect,
    ) -> Option<Outcome> {
        let first = self.requested_nodes.entry(effect.id).or_insert_with(|| effect.nodes.clone());
        if *first != effect.nodes {
            self.reused_id = Some(effect.id);
        }
        if !self.is_reliable && random.one_in(6) {
            return None;
        }
        if let Some(rejected) = self.random_rejection(random) {
            return Some(rejected);
        }
        let nodes = &effect.nodes;
        match effect.id.step {
            EffectStep::Decision => Some(self.decision(random, operation)),
            EffectStep::Admission => Some(self.acks(random, operation, ReceiptKind::Admitted, nodes)),
            EffectStep::PolicyReceipt => {
                let decision = &operation.admission.as_ref().unwrap().decision;
                Some(self.acks(random, operation, ReceiptKind::PolicyReceipt(decision.into()), nodes))
            }
            EffectStep::Execute => Some(self.ceremony(random, operation, effect.id, nodes)),
            EffectStep::CommitEpoch => {
                let epoch_root = operation.staged.as_ref().unwrap().epoch.root;
                let kind = ReceiptKind::Promoted { attempt: operation.executed_attempt(), epoch_root };
                let acks = self.acks(random, operation, kind, nodes);
                if let Outcome::Acked(receipts) = &acks {
                    for receipt in receipts {
                        self.staged.remove(&receipt.participant);
                        self.committed.insert(receipt.participant);
                    }
                }
                Some(acks)
            }
            EffectStep::Publish => {
                let kind = ReceiptKind::Published {
                    attempt: operation.executed_attempt(),
                    operation_type: operation.intent.operation_type(),
                    result_ref: operation.result_ref.unwrap(),
                };
                Some(self.acks(random, operation, kind, nodes))
            }
            EffectStep::Discard => Some(self.discard(random, operation, nodes)),
        }
    }

    /// A node that completed the last attempt discards only if another one discarded the attempt. If all completed it, the result.
    fn discard(
        &mut self,
        random: &mut Random,
        operation: &Operation,
        nodes: &BTreeSet<ParticipantIndex>,
    ) -> Outcome {
        let attempt = operation.executed_attempt();
        let plan = operation.plan().unwrap();
        let completed = if plan.stages_epoch() {
            self.staged.clone()
        } else {
            self.released.get(&attempt).cloned().unwrap_or_default()
        };
        let mut able: BTreeSet<_> = nodes.difference(&self.down).copied().collect();
        let needed = if plan.stages_epoch() { &plan.receivers } else { &plan.nodes };
        if needed.is_subset(&completed) && operation.attempt > 0 && self.discarded.is_disjoint(needed) {
            let id = EffectId { operation: operation.id, step: EffectStep::Execute, attempt };
            if let Some(result @ (Outcome::Signed { .. } | Outcome::Staged { .. })) = self.outcomes.get(&id) {
                return result.clone();
            }
            if plan.stages_epoch() {
                return self.stage(operation, id);
            }
        }
        if able.intersection(needed).any(|node| !completed.contains(node)) {
            self.discarded_attempts.insert(attempt);
        }
        if !self.discarded_attempts.contains(&attempt) {
            able.retain(|node| !completed.contains(node));
        }
        let acks = self.acks(random, operation, ReceiptKind::Discarded, &able);
        if let Outcome::Acked(receipts) = &acks {
            self.discarded.extend(receipts.iter().map(|receipt| receipt.participant));
            self.staged.retain(|node| !self.discarded.contains(node));
        }
        acks
    }

    /// The authority's decision on the operation with all its approvals. The policy denies at random.
    fn decision(&self, random: &mut Random, operation: &Operation) -> Outcome {
        let request = operation.request(Moment::Admission, &operation.approvals);
        let policy = samples::evaluated(&request, operation.policy.clone());
        if !self.is_reliable && random.one_in(20) {
            let failure = Failure { code: "policy_rejected".into(), detail: String::new(), culprits: vec![] };
            let policy = Some(policy::Outcome { decision: Decision::Deny, ..policy });
            return Outcome::Rejected { failure, policy };
        }
        Outcome::DecisionSigned { policy, admission: Box::new(samples::admission(operation)) }
    }

    fn ceremony(
        &mut self,
        random: &mut Random,
        operation: &Operation,
        id: EffectId,
        nodes: &BTreeSet<ParticipantIndex>,
    ) -> Outcome {
        if let Some(outcome) = self.outcomes.get(&id) {
            return outcome.clone();
        }
        let plan = operation.plan().unwrap();
        let stages = plan.stages_epoch();
        if !self.is_reliable && random.one_in(5) {
            let completed: BTreeSet<_> = if stages {
                // A node begins another attempt only after the one that it completed was discarded, and its share is replaced.
                self.staged = plan.receivers.iter().filter(|_| random.one_in(2)).copied().collect();
                self.staged.clone()
            } else {
                nodes.iter().filter(|_| random.one_in(3)).copied().collect()
            };
            let others: BTreeSet<_> = nodes.difference(&completed).copied().collect();
            // An attempt is lost only by the receipt of a node that did not complete it.
            let outcome = if random.one_in(3) || others.is_empty() {
                rejected()
            } else {
                self.discarded_attempts.insert(id.attempt);
                lost(operation, id.attempt, others)
            };
            if !stages {
                // The released shares may form a signature that no outcome reports.
                self.n_signatures += u32::from(completed == *nodes);
                self.released.insert(id.attempt, completed);
            }
            // A failed attempt stays failed: performing its id again returns the same outcome.
            self.outcomes.insert(id, outcome.clone());
            return outcome;
        }
        let outcome = if stages { self.stage(operation, id) } else { self.sign(operation, id, nodes) };
        self.outcomes.insert(id, outcome.clone());
        outcome
    }

    fn sign(&mut self, operation: &Operation, id: EffectId, nodes: &BTreeSet<ParticipantIndex>) -> Outcome {
        self.n_signatures += 1;
        assert!(self.discarded.is_disjoint(nodes), "a node signed after its discard receipt");
        self.released.insert(id.attempt, nodes.clone());
        let signature = SignatureResult {
            signature_profile: "frost-ed25519-sha512".into(),
            public_key_hex: "00".repeat(32),
            signed_digest: samples::hex32(7),
            signature_hex: format!("{:0128x}", self.n_signatures),
            signers: roster(nodes),
            package_hash: samples::hex32(15),
        };
        let (signed_digest, package_hash) = (signature.signed_digest, signature.package_hash);
        let kind = ReceiptKind::Signed { attempt: id.attempt, signed_digest, package_hash };
        let receipts = receipts(operation, kind, nodes.iter().copied());
        Outcome::Signed { signature: Box::new(signature), receipts }
    }

    fn stage(&mut self, operation: &Operation, id: EffectId) -> Outcome {
        let target = operation.admission.clone().unwrap().decision.target.unwrap();
        self.staged.extend(target.participants.iter());
        let epoch = Epoch { name: target.epoch, root: samples::hex32(12) };
        let kind = ReceiptKind::Staged { attempt: id.attempt, epoch_root: epoch.root };
        let receipts = receipts(operation, kind, target.participants.iter());
        let staged = Box::new(Staged {
            epoch,
            public: PublicKey { public_key_hex: "00".repeat(32), package_hex: String::new() },
            threshold: target.threshold,
            participants: target.participants,
        });
        Outcome::Staged { staged, receipts }
    }

    /// Receipts of a random subset of the nodes that are not `down`; of all of these if `is_reliable`.
    fn acks(
        &self,
        random: &mut Random,
        operation: &Operation,
        kind: ReceiptKind,
        nodes: &BTreeSet<ParticipantIndex>,
    ) -> Outcome {
        let available = nodes.iter().filter(|node| !self.down.contains(node));
        let acked = available.filter(|_| self.is_reliable || !random.one_in(4)).copied();
        Outcome::Acked(receipts(operation, kind, acked))
    }

    /// A random rejection, also at steps where the operation must ignore it.
    fn random_rejection(&self, random: &mut Random) -> Option<Outcome> {
        (!self.is_reliable && random.one_in(40)).then(rejected)
    }

    /// Whether a signature may exist: whether enough holders have released a share in the last attempt, or are down and have not
    /// discarded.
    pub(crate) fn may_be_signed(&self, operation: &Operation) -> bool {
        let Some(plan) = operation.plan().filter(|plan| !plan.stages_epoch()) else { return false };
        let attempt = operation.executed_attempt();
        let released = self.released.get(&attempt).cloned().unwrap_or_default();
        let can_be_discarded = self.discarded_attempts.contains(&attempt)
            || plan.holders.iter().any(|node| !self.down.contains(node) && !released.contains(node));
        let not_discarding = plan.holders.iter().filter(|node| {
            (released.contains(node) && !can_be_discarded)
                || (self.down.contains(node) && !self.discarded.contains(node))
        });
        not_discarding.count() >= plan.n_holders_required
    }

    /// Whether all receivers of new shares that answer have staged them: none discards until the lost one says whether it has.
    pub(crate) fn waits_for_lost_receiver(&self, operation: &Operation) -> bool {
        let Some(plan) = operation.plan().filter(|plan| plan.stages_epoch()) else { return false };
        let mut answering = plan.receivers.difference(&self.down);
        !plan.receivers.is_disjoint(&self.down)
            && !self.discarded_attempts.contains(&operation.executed_attempt())
            && answering.all(|node| self.staged.contains(node))
    }

    /// The number of ceremonies that produced a result.
    pub(crate) fn n_results(&self) -> usize {
        let is_result =
            |outcome: &&Outcome| matches!(outcome, Outcome::Signed { .. } | Outcome::Staged { .. });
        self.outcomes.values().filter(is_result).count()
    }
}

fn roster(nodes: &BTreeSet<ParticipantIndex>) -> Roster {
    Roster::parse(&nodes.iter().map(|node| node.0).collect::<Vec<_>>()).unwrap()
}

/// A lost attempt, which these nodes discarded.
pub(crate) fn lost(operation: &Operation, attempt: u32, by: BTreeSet<ParticipantIndex>) -> Outcome {
    let receipts = receipts(operation, ReceiptKind::AttemptDiscarded { attempt }, by.into_iter());
    let receipts = receipts.into_iter().map(Into::into).collect();
    Outcome::AttemptLost { reason: "a node restarted".into(), receipts }
}

fn rejected() -> Outcome {
    let failure = Failure { code: "refused".into(), detail: "a node refused".into(), culprits: vec![] };
    Outcome::Rejected { failure, policy: None }
}
