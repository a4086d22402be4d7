//! What a call must be before anything else is looked at, and what must still hold before execution.

use crate::call::Call;
use crate::error::{Code, NodeError, Rejection};
use crate::judge::epoch_conflict;
use crate::node::NodeConfig;
use crate::row::{KeyHere, Row, Stage, Statement, View};
use crate::vault::{self, Held};
use gateway_domain::admission::AdmissionDecision;
use gateway_domain::ids::Hex32;
use gateway_domain::intent::Intent;
use gateway_domain::operation::EffectStep;
use gateway_domain::roster::ParticipantIndex;

/// An admitted operation that a call is about.
#[derive(Debug)]
pub(crate) struct Standing {
    pub(crate) stage: Stage,
    pub(crate) head: Hex32,
    pub(crate) statement: Statement,
    pub(crate) key: KeyHere,
}

/// The operation of a call: admitted here by the decision the call names, and not given up.
pub(crate) fn known(view: View, call: &Call, step: EffectStep) -> Result<Standing, Rejection> {
    let View { row, key, .. } = view;
    if call.effect.step != step {
        return Err(out_of_order("the effect is of another step"));
    }
    let Some(Row { admission_hash, stage, head, statement }) = row else {
        return Err(out_of_order("the operation is not admitted here"));
    };
    if admission_hash != call.admission_hash {
        return Err(other_decision());
    }
    match (stage, statement) {
        (Stage::Discarded, _) | (_, None) => {
            Err(Rejection::new(Code::OperationDiscarded, "the operation was discarded here"))
        }
        (
            Stage::Admitted | Stage::Receipted | Stage::Executed | Stage::Committed | Stage::Published,
            Some(statement),
        ) => Ok(Standing { stage, head, statement, key }),
    }
}

/// The call follows the transition it must, and the operation is at one of these stages.
pub(crate) fn in_order(
    call: &Call,
    standing: &Standing,
    expected: Hex32,
    stages: &[Stage],
) -> Result<(), Rejection> {
    if !stages.contains(&standing.stage) {
        return Err(out_of_order(format!("the operation is {} here", standing.stage.as_str())));
    }
    if call.previous != expected {
        return Err(out_of_order("the step follows another transition"));
    }
    Ok(())
}

/// The node's own last step is the one that this call builds on: what it says of the past, it did.
pub(crate) fn builds_on(standing: &Standing, head: Hex32) -> Result<(), Rejection> {
    if standing.head == head { Ok(()) } else { Err(out_of_order("the step follows another transition")) }
}

/// What must hold until the nodes have executed: the decision is in force, and the key is as it was admitted. The
/// generation a signature is made with; none for a key that is to be made.
pub(crate) fn in_force<'s>(
    config: &NodeConfig,
    standing: &'s Standing,
) -> Result<Option<&'s Held>, NodeError> {
    let (decision, now) = (&standing.statement.decision, (config.clock)());
    if now < decision.not_before_ms || now >= decision.not_after_ms {
        return Err(expired().into());
    }
    key_fits(&standing.statement, config.participant, &standing.key)
}

/// The key is in the very generation that was admitted, or there is none yet. The generation as this node holds it;
/// none for one that holds no share of it.
pub(crate) fn key_fits<'h>(
    statement: &Statement,
    me: ParticipantIndex,
    key: &'h KeyHere,
) -> Result<Option<&'h Held>, NodeError> {
    let Statement { request, decision } = statement;
    let must_hold = match &request.intent {
        Intent::KeyCreate(_) if key.is_known => return Err(epoch_conflict("the key exists").into()),
        Intent::KeyCreate(_) => return Ok(None),
        Intent::Payment(_) | Intent::AssetAction(_) => true,
        Intent::Refresh(_) | Intent::Reshare(_) | Intent::Rotate(_) => is_holder(decision, me),
        Intent::Recover(recover) => is_holder(decision, me) && recover.recovering_participant != me,
    };
    match &key.active {
        Some(held) if is_generation(decision, held) => Ok(Some(held)),
        // One that joins, or lost its share, may have slept through earlier epochs.
        Some(_) | None if !must_hold => Ok(None),
        Some(_) | None if key.staged == Some(decision.epoch_root) => {
            Err(NodeError::unavailable("the admitted generation is not in force here yet"))
        }
        None if !key.is_known => Err(vault::NO_SHARE),
        Some(_) | None => Err(epoch_conflict("the key is in another epoch than the admitted one").into()),
    }
}

fn is_generation(decision: &AdmissionDecision, held: &Held) -> bool {
    held.epoch == decision.epoch && held.root == decision.epoch_root
}

fn is_holder(decision: &AdmissionDecision, me: ParticipantIndex) -> bool {
    decision.holders.as_ref().is_some_and(|holders| holders.as_set().contains(&me))
}

/// The caller's fence (decisions.md 4): checked at the steps of an execution, since a stale one refuses the execution
/// and not the operation.
pub(crate) fn check_fence(statement: &Statement) -> Result<(), Rejection> {
    let terms = statement.request.intent.signing_terms();
    let fence = terms.and_then(|terms| terms.epoch_fence_token_hex.as_deref());
    if fence.is_some_and(|fence| fence != statement.decision.epoch_root.to_string()) {
        return Err(epoch_conflict("the caller fenced another epoch"));
    }
    Ok(())
}

pub(crate) fn out_of_order(detail: impl Into<String>) -> Rejection {
    Rejection::new(Code::StepOutOfOrder, detail)
}

pub(crate) fn expired() -> Rejection {
    Rejection::new(Code::AdmissionExpired, "the admission decision is not in force now")
}

pub(crate) fn other_decision() -> Rejection {
    Rejection::new(Code::AdmissionConflict, "another decision admitted the operation")
}
