//! A runtime that remembers what was asked of it, loses answers, and is idempotent by effect id.

use super::machine::Random;
use super::samples;
use crate::key::{Epoch, PublicKey};
use crate::operation::{
    Action, Effect, EffectId, Failure, NodeReceipt, Operation, Outcome, SignatureResult, Staged,
};
use crate::policy::{self, Decision, Moment};
use crate::roster::{ParticipantIndex, Roster};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Default)]
pub(crate) struct World {
    /// What each effect id was first asked to do.
    pub(crate) actions: BTreeMap<EffectId, Action>,
    /// What ceremonies answered, by effect id: a repeat is answered from here.
    answers: BTreeMap<EffectId, Outcome>,
    pub(crate) staged: BTreeSet<ParticipantIndex>,
    pub(crate) committed: BTreeSet<ParticipantIndex>,
    /// An effect id that was asked to do two different things.
    pub(crate) confused: Option<EffectId>,
    pub(crate) n_signatures: u32,
    /// Nodes that never answer, and that the operation can do without.
    pub(crate) absent: BTreeSet<ParticipantIndex>,
    /// No more faults: everybody else answers.
    pub(crate) calm: bool,
}

impl World {
    /// None: unreachable.
    pub(crate) fn perform(
        &mut self,
        random: &mut Random,
        operation: &Operation,
        effect: &Effect,
    ) -> Option<Outcome> {
        let first = self.actions.entry(effect.id).or_insert_with(|| effect.action.clone());
        if *first != effect.action {
            self.confused = Some(effect.id);
        }
        if !self.calm && random.one_in(6) {
            return None;
        }
        if let Some(rejected) = self.maybe_rejected(random) {
            return Some(rejected);
        }
        match &effect.action {
            Action::ObtainDecision => Some(self.decision(random, operation)),
            Action::ApplyAdmission(nodes) | Action::MaterializeReceipt(nodes) => {
                Some(self.acks(random, nodes))
            }
            Action::RunCeremony(nodes) => Some(self.ceremony(random, operation, effect.id, nodes)),
            Action::CommitEpoch(nodes) => {
                let acks = self.acks(random, nodes);
                if let Outcome::Acked(receipts) = &acks {
                    for receipt in receipts {
                        self.staged.remove(&receipt.participant);
                        self.committed.insert(receipt.participant);
                    }
                }
                Some(acks)
            }
            Action::Publish(nodes) => Some(self.acks(random, nodes)),
            Action::Discard(nodes) => {
                let acks = self.acks(random, nodes);
                if let Outcome::Acked(receipts) = &acks {
                    self.staged.retain(|node| !receipts.iter().any(|receipt| receipt.participant == *node));
                }
                Some(acks)
            }
        }
    }

    /// The policy over all approvals, which now and then denies what it allowed before.
    fn decision(&self, random: &mut Random, operation: &Operation) -> Outcome {
        let request = operation.request(Moment::Admission, &operation.approvals);
        let policy = samples::asked(&request, operation.policy.clone());
        if !self.calm && random.one_in(20) {
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
        if let Some(answer) = self.answers.get(&id) {
            return answer.clone();
        }
        let plan = operation.plan().unwrap();
        let stages = plan.stages_epoch();
        if !self.calm && random.one_in(5) {
            if stages {
                self.staged.extend(plan.receivers.iter().filter(|_| random.one_in(2)));
            }
            let lost = Outcome::AttemptLost("a node restarted".into());
            let answer = if random.one_in(3) { rejected() } else { lost };
            // What was lost stays lost: asking for the same attempt again gets the same answer.
            self.answers.insert(id, answer.clone());
            return answer;
        }
        let answer = if stages { self.stage(operation) } else { self.sign(nodes) };
        self.answers.insert(id, answer.clone());
        answer
    }

    fn sign(&mut self, nodes: &BTreeSet<ParticipantIndex>) -> Outcome {
        self.n_signatures += 1;
        Outcome::Signed(SignatureResult {
            signature_profile: "frost-ed25519-sha512".into(),
            public_key_hex: "00".repeat(32),
            signed_digest: samples::hex32(7),
            signature_hex: format!("{:0128x}", self.n_signatures),
            signers: roster(nodes),
        })
    }

    fn stage(&mut self, operation: &Operation) -> Outcome {
        let target = operation.admission.clone().unwrap().decision.target.unwrap();
        self.staged.extend(target.participants.iter());
        Outcome::Staged(Box::new(Staged {
            epoch: Epoch { name: target.epoch, root: samples::hex32(12) },
            public: PublicKey { public_key_hex: "00".repeat(32), package_hex: String::new() },
            threshold: target.threshold,
            participants: target.participants,
        }))
    }

    /// Some of the nodes, all that are there when calm.
    fn acks(&self, random: &mut Random, nodes: &BTreeSet<ParticipantIndex>) -> Outcome {
        let receipt = |participant: &ParticipantIndex| NodeReceipt {
            participant: *participant,
            transition_hash: samples::hex32(13),
        };
        let present = nodes.iter().filter(|node| !self.absent.contains(node));
        Outcome::Acked(present.filter(|_| self.calm || !random.one_in(4)).map(receipt).collect())
    }

    /// At any step, also where the core has no use for it.
    fn maybe_rejected(&self, random: &mut Random) -> Option<Outcome> {
        (!self.calm && random.one_in(40)).then(rejected)
    }

    /// How many ceremonies gave a result.
    pub(crate) fn n_results(&self) -> usize {
        let is_result = |answer: &&Outcome| matches!(answer, Outcome::Signed(_) | Outcome::Staged(_));
        self.answers.values().filter(is_result).count()
    }
}

fn roster(nodes: &BTreeSet<ParticipantIndex>) -> Roster {
    Roster::parse(&nodes.iter().map(|node| node.0).collect::<Vec<_>>()).unwrap()
}

fn rejected() -> Outcome {
    let failure = Failure { code: "refused".into(), detail: "a node refused".into(), culprits: vec![] };
    Outcome::Rejected { failure, policy: None }
}
