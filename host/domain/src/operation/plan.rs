//! What each intent means for the runtime. The only place inside the machine where families differ.

use crate::admission::AdmissionDecision;
use crate::intent::OperationType;
use crate::key::{Epoch, PublicKey};
use crate::roster::{ParticipantIndex, Roster, Threshold};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// Who must do what for one admitted operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The nodes that take part.
    pub nodes: BTreeSet<ParticipantIndex>,
    /// How many of them must confirm each step.
    pub n_acks_required: usize,
    /// Whether the ceremony makes new shares, so that they are staged, decided and promoted.
    pub stages_epoch: bool,
}

/// New shares, staged durably on every planned node and not yet in force.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Staged {
    /// The generation.
    pub epoch: Epoch,
    /// Its public half.
    pub public: PublicKey,
    /// Who holds its shares.
    pub participants: Roster,
    /// How many must sign together.
    pub threshold: Threshold,
}

/// The plan of an admitted operation. Signing needs its threshold; whatever makes shares needs everybody.
#[must_use]
pub fn plan(decision: &AdmissionDecision) -> Plan {
    let nodes = decision.participants.as_set().clone();
    match decision.operation_type {
        OperationType::Sign => {
            Plan { n_acks_required: decision.threshold.count(), nodes, stages_epoch: false }
        }
        OperationType::KeyCreate
        | OperationType::Refresh
        | OperationType::Reshare
        | OperationType::Rotate
        | OperationType::Recover => Plan { n_acks_required: nodes.len(), nodes, stages_epoch: true },
    }
}
