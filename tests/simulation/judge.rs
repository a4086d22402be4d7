//! Judges each step: what the gateway wrote, and what the nodes logged.

use crate::gaps::Gap;
use crate::orders::Order;
use crate::parts::N_APPROVALS;
use gateway_domain::evidence::ChainedEvent;
use gateway_domain::ids::{Hex32, KeyId, OperationId};
use gateway_domain::intent::OperationType;
use gateway_domain::key::CustodyKey;
use gateway_domain::node_log::{LogEntry, ReleasedShare};
use gateway_domain::operation::{Change, EffectStep, Operation, Phase, evolve, replay};
use gateway_domain::receipt::ReceiptStatement;
use gateway_domain::roster::ParticipantIndex;
use gateway_engine::ports::Commit;
use std::collections::{BTreeMap, BTreeSet};

/// An operation as the events that were written make it.
pub(crate) struct Tracked {
    pub(crate) operation: Operation,
    /// The attempts that its events report as lost or aborted.
    lost_attempts: BTreeSet<u32>,
    /// The nodes that made each step of an operation on shares, by the node's log.
    staged: BTreeSet<ParticipantIndex>,
    promoted: BTreeSet<ParticipantIndex>,
    /// The nodes that released a share, by package, with the attempt.
    released: BTreeMap<Hex32, BTreeMap<ParticipantIndex, u32>>,
    /// The packages of which a node has forgotten its share, in a rollback that could not be noticed.
    forgotten: BTreeSet<(Hex32, ParticipantIndex)>,
}

impl Tracked {
    /// Whether the operation is final.
    pub(crate) const fn is_at_rest(&self) -> bool {
        matches!(self.operation.phase, Phase::Published | Phase::Failed)
    }
}

/// The violations are the only result.
#[derive(Default)]
pub(crate) struct Judge {
    pub(crate) operations: BTreeMap<OperationId, Tracked>,
    pub(crate) keys: BTreeMap<KeyId, CustodyKey>,
    /// The generation that a node signs with, by its log; `None` if it holds none any longer.
    active: BTreeMap<(ParticipantIndex, KeyId), Option<Hex32>>,
    /// The package that each commitment was used for.
    nonces: BTreeMap<(u16, Vec<u8>), Hex32>,
    pub(crate) n_shares: u64,
    /// The kind and the details of each violation.
    pub(crate) violations: Vec<(&'static str, String)>,
    /// The same for what is known and not fixed yet: [`crate::gaps`].
    pub(crate) gaps: Vec<(Gap, String)>,
}

impl Judge {
    pub(crate) fn violation(&mut self, kind: &'static str, details: String) {
        self.violations.push((kind, details));
    }

    /// The store wrote this. The operation must be the fold of its events.
    pub(crate) fn committed(&mut self, commit: &Commit) {
        let id = commit.operation.id;
        let mut folded = self.operations.get(&id).map(|known| known.operation.clone());
        let mut lost = Vec::new();
        for ChainedEvent { event, .. } in &commit.events {
            // As for the evidence verifier.
            let ends_attempt = match &event.change {
                Change::AttemptLost { receipts, .. } => !receipts.is_empty(),
                change => matches!(change, Change::Aborted { .. }),
            };
            if ends_attempt && let Some(before) = folded.as_ref().filter(|before| before.attempt > 0) {
                lost.push(before.attempt);
            }
            folded = match folded {
                Some(before) => Some(evolve(before, event)),
                None => replay(std::slice::from_ref(event)),
            };
        }
        if folded.as_ref() != Some(&*commit.operation) {
            self.violation("fold", format!("operation {id} is not the fold of its events"));
        }
        let known = self.operations.entry(id).or_insert_with(|| Tracked {
            operation: Operation::clone(&commit.operation),
            lost_attempts: BTreeSet::new(),
            staged: BTreeSet::new(),
            promoted: BTreeSet::new(),
            released: BTreeMap::new(),
            forgotten: BTreeSet::new(),
        });
        known.operation = Operation::clone(&commit.operation);
        known.lost_attempts.extend(lost);
        self.keys.extend(commit.keys.iter().map(|change| (change.key.key_id, change.key.clone())));
    }

    /// A node returned a share of this package, made with the nonces of these commitments.
    pub(crate) fn returned_share(
        &mut self,
        node: u16,
        id: OperationId,
        commitments: Vec<u8>,
        package_hash: Hex32,
    ) {
        let signers = self.operations.get(&id).and_then(|known| known.released.get(&package_hash));
        if signers.is_none_or(|signers| !signers.contains_key(&ParticipantIndex(node))) {
            self.violation(
                "unlogged-share",
                format!("node {node} returned a share that its log does not have"),
            );
        }
        let known = *self.nonces.entry((node, commitments)).or_insert(package_hash);
        if known != package_hash {
            self.violation("nonce-reuse", format!("node {node} used nonces for two packages"));
        }
    }

    /// A rollback that could not be noticed took these entries from a node.
    pub(crate) fn forgot(&mut self, entries: &[LogEntry]) {
        for entry in entries {
            let LogEntry::Receipt { statement, share: Some(share), .. } = entry else { continue };
            if let Some(known) = self.operations.get_mut(&statement.operation_id) {
                known.forgotten.insert((share.package_hash, statement.participant));
            }
        }
    }

    /// A node's log has this new entry.
    pub(crate) fn logged(&mut self, entry: &LogEntry, orders: &BTreeMap<OperationId, Order>) {
        let LogEntry::Receipt { statement, share, .. } = entry else { return };
        let (id, node) = (statement.operation_id, statement.participant);
        if let Some(share) = share {
            self.released_share(statement, share, orders);
        }
        let Some(known) = self.operations.get_mut(&id) else {
            return self.violation("unknown", format!("node {node} logged a step of unknown operation {id}"));
        };
        if known.operation.intent.operation_type() == OperationType::Sign {
            return;
        }
        let receivers = known.operation.plan().map(|plan| plan.receivers).unwrap_or_default();
        let faulty = match statement.step {
            EffectStep::Execute => {
                known.staged.insert(node);
                None
            }
            EffectStep::CommitEpoch => {
                known.promoted.insert(node);
                let staged = known.staged.clone();
                self.promote(id, node);
                (!receivers.is_subset(&staged)).then_some("promoted before all receivers had staged")
            }
            EffectStep::Publish => (!receivers.is_subset(&known.promoted))
                .then_some("erased the old share before all receivers had promoted"),
            EffectStep::Decision
            | EffectStep::Admission
            | EffectStep::PolicyReceipt
            | EffectStep::Discard => None,
        };
        if let Some(what) = faulty {
            self.violation("early-erasure", format!("operation {id}: node {node} {what}"));
        }
    }

    /// The node signs with the operation's generation from now on, or with none of the key if it left the roster.
    fn promote(&mut self, id: OperationId, node: ParticipantIndex) {
        let Some(known) = self.operations.get(&id) else { return };
        let target = known.operation.admission.as_ref().and_then(|by| by.decision.target.clone());
        let Some((target, staged)) = target.zip(known.operation.staged.as_deref()) else { return };
        let root = target.participants.as_set().contains(&node).then_some(staged.epoch.root);
        self.active.insert((node, target.key_id), root);
    }

    fn released_share(
        &mut self,
        statement: &ReceiptStatement,
        share: &ReleasedShare,
        orders: &BTreeMap<OperationId, Order>,
    ) {
        self.n_shares += 1;
        let (id, node) = (statement.operation_id, statement.participant);
        let number = orders.get(&id).map_or(0, |order| order.number);
        let n_approved = orders.get(&id).filter(|order| order.is_allowed).map(|order| order.approved.len());
        let approved = n_approved.is_some_and(|n| u32::try_from(n).unwrap() >= N_APPROVALS);
        let decided = self.operations.get(&id).and_then(|known| known.operation.admission.as_deref());
        let Some((decision, true)) = decided.map(|by| (by.decision.clone(), approved)) else {
            return self.violation("unapproved", format!("node {node} signed op{number} without approvals"));
        };
        if self.active.get(&(node, share.key_id)) != Some(&Some(decision.epoch_root)) {
            self.violation("retired-epoch", format!("node {node} signed op{number} under a retired epoch"));
        }
        let Some(known) = self.operations.get_mut(&id) else { return };
        let package = share.package_hash;
        let is_second = known
            .released
            .iter()
            .any(|(other, signers)| *other != package && signers.get(&node) == Some(&statement.attempt));
        if is_second {
            let details =
                format!("node {node} signed two packages of attempt {} of op{number}", statement.attempt);
            self.violations.push(("second-share", details));
        }
        let signers = known.released.entry(package).or_default();
        signers.insert(node, statement.attempt);
        if signers.len() != decision.threshold.count() {
            return;
        }
        let (signers, others) =
            (signers.clone(), known.released.iter().filter(|(other, _)| **other != package));
        for (package, other) in others.filter(|(_, other)| other.len() >= decision.threshold.count()) {
            let attempts: BTreeSet<u32> = signers.values().chain(other.values()).copied().collect();
            let details = format!("op{number} was signed twice, in the attempts {attempts:?}");
            let mut of_both = signers.keys().filter(|signer| other.contains_key(signer)).peekable();
            if of_both.peek().is_none() {
                self.gaps.push((Gap::DisjointSigners, details));
            } else if of_both.all(|signer| known.forgotten.contains(&(*package, *signer))) {
                self.gaps.push((Gap::UnnoticedRollback, details));
            } else {
                self.violations.push(("second-signature", details));
            }
        }
    }

    /// Every share that left a node is in the gateway's events: of the published signature, of an attempt that is recorded as lost, or
    /// of another package of the signature's attempt; and those packages make no signature. An operation that did not come to rest
    /// was reported as such.
    pub(crate) fn check_no_hidden_shares(&mut self, orders: &BTreeMap<OperationId, Order>) {
        let (mut hidden, mut forgotten) = (Vec::new(), Vec::new());
        for (id, known) in self.operations.iter().filter(|(_, known)| known.is_at_rest()) {
            let signature = known.operation.signature.as_deref();
            let threshold = known.operation.admission.as_ref().map_or(0, |by| by.decision.threshold.count());
            for (package, signers) in &known.released {
                if signature.is_some_and(|signature| signature.package_hash == *package) {
                    continue;
                }
                let is_explained = |attempt: &u32| {
                    let is_beside = signature.is_some() && *attempt == known.operation.executed_attempt();
                    is_beside || known.lost_attempts.contains(attempt)
                };
                // Signatures by two sets of signers without a common node are counted when they are made.
                let is_second = signature.is_none_or(|signature| {
                    signers.keys().any(|node| signature.signers.as_set().contains(node))
                });
                let is_whole = signers.len() >= threshold && is_second;
                if is_whole || !signers.values().all(is_explained) {
                    let number = orders.get(id).map_or(0, |order| order.number);
                    let phase = known.operation.state().as_str();
                    let details = format!("op{number} ({phase}): shares of nodes and attempts {signers:?}");
                    let is_forgotten = |node: &ParticipantIndex| known.forgotten.contains(&(*package, *node));
                    match signers.keys().any(is_forgotten) {
                        true => forgotten.push((Gap::UnnoticedRollback, details)),
                        false => hidden.push(details),
                    }
                }
            }
        }
        for details in hidden {
            self.violation("hidden-share", details);
        }
        self.gaps.extend(forgotten);
    }
}
