//! The nodes that each type of operation needs.

use super::state::Operation;
use crate::admission::{AdmissionDecision, Target};
use crate::ids::EpochName;
use crate::intent::{Intent, OperationType};
use crate::key::{CustodyKey, FIRST_EPOCH};
use crate::roster::ParticipantIndex;
use std::collections::BTreeSet;

/// The nodes that an admitted operation needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// All nodes that take part.
    pub nodes: BTreeSet<ParticipantIndex>,
    /// The nodes whose present shares are used: the requested signers, or the holders of a key that is changed. Empty
    /// when the operation creates a key.
    pub holders: BTreeSet<ParticipantIndex>,
    /// The number of holders that must confirm the admission and the policy receipt.
    pub n_holders_required: usize,
    /// The nodes that get new shares; all of them must confirm every step. Empty for a signature.
    pub receivers: BTreeSet<ParticipantIndex>,
}

impl Plan {
    /// Whether these nodes are enough to confirm the admission or the policy receipt: all receivers, and the required
    /// number of holders.
    #[must_use]
    pub fn is_enough(&self, confirmed: &BTreeSet<ParticipantIndex>) -> bool {
        self.is_received(confirmed) && self.holders.intersection(confirmed).count() >= self.n_holders_required
    }

    /// Whether these nodes are enough to confirm the publication: all receivers of new shares, or for a signature, which proves
    /// itself, one node. Others may have forgotten the operation in a rollback.
    #[must_use]
    pub fn is_published(&self, confirmed: &BTreeSet<ParticipantIndex>) -> bool {
        if self.stages_epoch() { self.is_received(confirmed) } else { !self.nodes.is_disjoint(confirmed) }
    }

    /// Whether all receivers are among these nodes.
    #[must_use]
    pub fn is_received(&self, confirmed: &BTreeSet<ParticipantIndex>) -> bool {
        self.receivers.is_subset(confirmed)
    }

    /// Whether the operation is failed once these nodes have discarded it: all receivers, or for a signature so many
    /// holders that fewer than the threshold remain.
    #[must_use]
    pub fn is_discarded(&self, confirmed: &BTreeSet<ParticipantIndex>) -> bool {
        let n_left = self.holders.difference(confirmed).count();
        self.is_received(confirmed) && (self.stages_epoch() || n_left < self.n_holders_required)
    }

    /// Whether the result may exist when these nodes have completed the ceremony: all receivers, or the threshold of signers.
    #[must_use]
    pub fn is_completed(&self, by: &BTreeSet<ParticipantIndex>) -> bool {
        if self.stages_epoch() { self.is_received(by) } else { self.is_enough(by) }
    }

    /// Whether the ceremony makes new shares, which are staged first and then promoted.
    #[must_use]
    pub fn stages_epoch(&self) -> bool {
        !self.receivers.is_empty()
    }
}

/// The plan of an admitted operation. A signature needs the threshold of its signers. New shares need all receivers and,
/// unless the key is new, the threshold of the present holders, so a node that leaves the key may be down.
#[must_use]
pub fn plan(decision: &AdmissionDecision) -> Plan {
    let nodes = decision.participants.as_set().clone();
    let held = decision.holders.as_ref().map(|holders| holders.as_set().clone()).unwrap_or_default();
    // Decisions of early releases have no `target`. Among those, only key creations made shares, for all participants.
    let receivers =
        decision.target.as_ref().map_or_else(|| nodes.clone(), |target| target.participants.as_set().clone());
    let (holders, n_holders_required, receivers) = match decision.operation_type {
        OperationType::Sign => (nodes.clone(), decision.threshold.count(), BTreeSet::new()),
        OperationType::KeyCreate | OperationType::Rotate => (BTreeSet::new(), 0, receivers),
        OperationType::Refresh | OperationType::Reshare | OperationType::Recover => {
            (held, decision.threshold.count(), receivers)
        }
    };
    Plan { nodes, holders, n_holders_required, receivers }
}

/// The generation of shares that an operation makes. `None` for a signature. Also `None` when the key of a refresh or
/// recovery, or the successor of a rotation, is missing.
#[must_use]
pub fn target(operation: &Operation, key: Option<&CustodyKey>) -> Option<Target> {
    let (key_id, new_key_id) = (operation.key.key_id, operation.successor.as_ref().map(|slot| slot.key_id));
    let same_holders = |epoch: &EpochName| {
        let CustodyKey { participants, threshold, .. } = key?;
        Some((key_id, epoch.clone(), participants.clone(), *threshold))
    };
    let (key_id, epoch, participants, threshold) = match &operation.intent {
        Intent::Payment(_) | Intent::AssetAction(_) => None,
        Intent::KeyCreate(create) => {
            let first = EpochName(FIRST_EPOCH.to_owned());
            Some((key_id, first, create.participants.clone(), create.threshold))
        }
        Intent::Refresh(refresh) => same_holders(&refresh.change.target_epoch),
        Intent::Recover(recover) => same_holders(&recover.change.target_epoch),
        Intent::Reshare(reshare) => {
            let epoch = reshare.change.target_epoch.clone();
            Some((key_id, epoch, reshare.new_participants.clone(), reshare.threshold))
        }
        Intent::Rotate(rotate) => {
            let epoch = rotate.change.target_epoch.clone();
            Some((new_key_id?, epoch, rotate.participants.clone(), rotate.threshold))
        }
    }?;
    Some(Target { key_id, epoch, participants, threshold })
}

impl Operation {
    /// The operation's plan, without receivers that were given up; `None` before the decision.
    #[must_use]
    pub fn plan(&self) -> Option<Plan> {
        let mut plan = plan(&self.admission.as_ref()?.decision);
        plan.receivers.retain(|node| !self.given_up.contains(node));
        Some(plan)
    }

    /// Whether so many receivers of the new shares are left without these that the key can sign.
    #[must_use]
    pub fn can_sign_without(&self, lost: &BTreeSet<ParticipantIndex>) -> bool {
        let target = self.admission.as_ref().and_then(|admission| admission.decision.target.as_ref());
        let receivers = self.plan().map(|plan| plan.receivers).unwrap_or_default();
        target.is_some_and(|target| receivers.difference(lost).count() >= target.threshold.count())
    }

    /// The nodes that take part; empty before the decision.
    #[must_use]
    pub fn planned_nodes(&self) -> BTreeSet<ParticipantIndex> {
        self.plan().map(|plan| plan.nodes).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::super::{open, replay};
    use super::*;
    use crate::intent::PublicationMode;
    use crate::roster::Roster;
    use crate::testing::samples::{Kind, admission, intent, key, submission};
    use crate::time::EpochMs;

    fn operation(kind: Kind) -> Operation {
        replay(&open(submission(intent(kind, PublicationMode::Manual), 1), EpochMs(1))).unwrap()
    }

    fn set(nodes: &[u16]) -> BTreeSet<ParticipantIndex> {
        nodes.iter().map(|node| ParticipantIndex(*node)).collect()
    }

    type Nodes<'a> = &'a [&'a [u16]];

    /// Nodes 0, 1 and 2 hold the key; its threshold is 2.
    #[test]
    fn step_needs_all_receivers_and_a_threshold_of_holders() {
        let cases: [(Kind, Nodes<'_>, Nodes<'_>); 6] = [
            (Kind::Payment, &[&[0, 1], &[1, 2]], &[&[0], &[0, 7]]),
            (Kind::KeyCreate, &[&[0, 1, 2]], &[&[0, 1], &[]]),
            (Kind::Refresh, &[&[0, 1, 2]], &[&[0, 1]]),
            (Kind::Recover, &[&[0, 1, 2]], &[&[0, 1]]),
            (Kind::Reshare, &[&[1, 2, 3, 4]], &[&[0, 1, 2, 3], &[0, 1, 3, 4], &[3, 4]]),
            (Kind::Rotate, &[&[2, 3, 4, 5]], &[&[0, 1, 2, 3, 4], &[]]),
        ];
        for (kind, enough, too_few) in cases {
            let plan = plan(&admission(&operation(kind)).decision);
            assert!(enough.iter().all(|nodes| plan.is_enough(&set(nodes))), "{kind:?} {plan:?}");
            assert!(!too_few.iter().any(|nodes| plan.is_enough(&set(nodes))), "{kind:?} {plan:?}");
            assert!(plan.nodes.is_superset(&plan.receivers) && plan.nodes.is_superset(&plan.holders));
        }
        let mut disjoint = admission(&operation(Kind::Reshare)).decision;
        disjoint.target.as_mut().unwrap().participants = Roster::parse(&[3, 4]).unwrap();
        assert!(
            !plan(&disjoint).is_enough(&set(&[0, 3, 4])) && plan(&disjoint).is_enough(&set(&[0, 2, 3, 4]))
        );
    }

    #[test]
    fn key_creation_without_target_gives_shares_to_all_participants() {
        let mut decision = admission(&operation(Kind::KeyCreate)).decision;
        let current = plan(&decision);
        decision.target = None;
        assert_eq!(plan(&decision), current);
    }

    #[test]
    fn target_is_the_generation_that_the_intent_requests() {
        let key = key();
        let target_of = |kind| {
            let operation = operation(kind);
            let target = target(&operation, Some(&key))?;
            let indices: Vec<_> = target.participants.iter().map(|index| index.0).collect();
            Some((target.key_id == operation.key.key_id, target.epoch.0, indices, target.threshold.0))
        };
        let of_key = |epoch: &str, indices: &[u16], threshold| {
            Some((true, epoch.to_owned(), indices.to_vec(), threshold))
        };
        assert_eq!(target_of(Kind::Payment), None);
        assert_eq!(target_of(Kind::AssetAction), None);
        assert_eq!(target_of(Kind::KeyCreate), of_key("1", &[0, 1, 2], 2));
        assert_eq!(target_of(Kind::Refresh), of_key("2", &[0, 1, 2], 2));
        assert_eq!(target_of(Kind::Recover), of_key("2", &[0, 1, 2], 2));
        assert_eq!(target_of(Kind::Reshare), of_key("2", &[1, 2, 3, 4], 3));
        assert_eq!(target_of(Kind::Rotate), Some((false, "2".to_owned(), vec![2, 3, 4, 5], 3)));
        assert_eq!(target(&operation(Kind::Refresh), None), None);
    }
}
