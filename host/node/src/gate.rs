//! The checks that every call passes first, and the conditions that must still hold before execution.

use crate::call::Call;
use crate::error::{Code, NodeError, Rejection};
use crate::node::NodeConfig;
use crate::row::{KeyHere, Row, Statement, View};
use crate::vault::{self, Held};
use crate::verify::epoch_conflict;
use gateway_domain::admission::AdmissionDecision;
use gateway_domain::ids::Hex32;
use gateway_domain::intent::Intent;
use gateway_domain::operation::EffectStep;
use gateway_domain::roster::ParticipantIndex;

/// An admitted operation that a call is about.
#[derive(Debug)]
pub(crate) struct Standing {
    pub(crate) last_step: EffectStep,
    pub(crate) head: Hex32,
    pub(crate) statement: Statement,
    pub(crate) key: KeyHere,
}

/// The operation of a call: admitted here by the decision that the call names, and not discarded.
pub(crate) fn known(view: View, call: &Call, step: EffectStep) -> Result<Standing, Rejection> {
    let View { row, key, .. } = view;
    if call.effect.step != step {
        return Err(out_of_order("the effect is for another step"));
    }
    let Some(Row { admission_hash, last_step, head, statement }) = row else {
        return Err(out_of_order("the operation is not admitted here"));
    };
    if admission_hash != call.admission_hash {
        return Err(other_decision());
    }
    match statement {
        Some(statement) if last_step != EffectStep::Discard => {
            Ok(Standing { last_step, head, statement, key })
        }
        Some(_) | None => Err(discarded()),
    }
}

/// The operation's last step is one of these, and the call follows the expected transition.
pub(crate) fn in_order(
    call: &Call,
    standing: &Standing,
    expected: Hex32,
    last_steps: &[EffectStep],
) -> Result<(), Rejection> {
    if !last_steps.contains(&standing.last_step) {
        return Err(after(standing.last_step));
    }
    if call.previous == expected { Ok(()) } else { Err(other_transition()) }
}

/// The head of the node's own chain is the transition that this call follows.
pub(crate) fn builds_on(standing: &Standing, head: Hex32) -> Result<(), Rejection> {
    if standing.head == head { Ok(()) } else { Err(other_transition()) }
}

/// The conditions of every step up to execution: the decision is in force, and the key is as it was admitted. Returns the
/// generation that signs; none for a key that is to be created.
pub(crate) fn in_force<'s>(
    config: &NodeConfig,
    standing: &'s Standing,
) -> Result<Option<&'s Held>, NodeError> {
    let (decision, now) = (&standing.statement.decision, (config.settings.clock)());
    if now < decision.not_before_ms || now >= decision.not_after_ms {
        return Err(expired().into());
    }
    key_fits(&standing.statement, config.participant, &standing.key)
}

/// The key is in the generation that was admitted, or does not exist yet. Returns the generation as this node holds it; none
/// where this node need not hold a share of it.
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
        // A node that joins, or lost its share, may have missed earlier epochs.
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

/// The caller's fence names the key's epoch root. It is checked at the steps of an execution, not at admission: a stale fence
/// refuses the execution.
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

pub(crate) fn other_transition() -> Rejection {
    out_of_order("the step follows another transition")
}

/// The refusal of a step that cannot follow this one.
pub(crate) fn after(last_step: EffectStep) -> Rejection {
    out_of_order(format!("the last step made here is `{}`", last_step.as_str()))
}

pub(crate) fn discarded() -> Rejection {
    Rejection::new(Code::OperationDiscarded, "the operation was discarded here")
}

pub(crate) fn expired() -> Rejection {
    Rejection::new(Code::AdmissionExpired, "the admission decision is not in force now")
}

pub(crate) fn other_decision() -> Rejection {
    Rejection::new(Code::AdmissionConflict, "another decision admitted the operation")
}
