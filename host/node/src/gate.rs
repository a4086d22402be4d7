//! What a call must be before anything else is looked at, and what must still hold before execution.

use crate::call::Call;
use crate::error::{Code, Rejection, Stop};
use crate::judge::{check_generation, epoch_conflict};
use crate::node::NodeConfig;
use crate::row::{self, Row, Stage, Statement};
use crate::vault::{self, Held};
use gateway_domain::ids::Hex32;
use gateway_domain::intent::OperationType;
use gateway_domain::operation::EffectStep;
use sqlx::SqliteConnection;

/// An admitted operation that a call is about.
#[derive(Debug)]
pub(crate) struct Standing {
    pub(crate) stage: Stage,
    pub(crate) statement: Statement,
}

/// The operation of a call: admitted here by the decision the call names, and not given up.
pub(crate) async fn known(
    conn: &mut SqliteConnection,
    call: &Call,
    step: EffectStep,
) -> Result<Standing, Stop> {
    if call.effect.step != step {
        return Err(out_of_order("the effect is of another step").into());
    }
    let Some(Row { admission_hash, stage, statement }) = row::load(conn, call.effect.operation).await? else {
        return Err(out_of_order("the operation is not admitted here").into());
    };
    if admission_hash != call.admission_hash {
        return Err(Rejection::new(Code::AdmissionConflict, "another decision admitted the operation").into());
    }
    match (stage, statement) {
        (Stage::Discarded, _) | (_, None) => {
            Err(Rejection::new(Code::OperationDiscarded, "the operation was discarded here").into())
        }
        (
            Stage::Admitted | Stage::Receipted | Stage::Executed | Stage::Committed | Stage::Published,
            Some(statement),
        ) => Ok(Standing { stage, statement }),
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

/// What must hold until the nodes have executed: the decision is in force, and the key is as it was admitted.
pub(crate) async fn in_force(
    conn: &mut SqliteConnection,
    config: &NodeConfig,
    statement: &Statement,
) -> Result<Option<Held>, Stop> {
    let (decision, now) = (&statement.decision, (config.clock)());
    if now < decision.not_before_ms || now >= decision.not_after_ms {
        let detail = "the admission decision is not in force now";
        return Err(Rejection::new(Code::AdmissionExpired, detail).into());
    }
    key_fits(conn, statement).await
}

/// The generation a signature is made with; none for a key that is to be made.
pub(crate) async fn key_fits(
    conn: &mut SqliteConnection,
    statement: &Statement,
) -> Result<Option<Held>, Stop> {
    let decision = &statement.decision;
    match decision.operation_type {
        OperationType::KeyCreate => {
            if vault::is_known(conn, decision.key_id).await? {
                return Err(epoch_conflict("the key exists").into());
            }
            Ok(None)
        }
        OperationType::Sign => {
            let held = vault::active(conn, decision.key_id).await?.ok_or(vault::NO_SHARE)?;
            check_generation(&statement.request.intent, decision, &held)?;
            Ok(Some(held))
        }
        OperationType::Refresh | OperationType::Reshare | OperationType::Rotate | OperationType::Recover => {
            Err(Rejection::new(Code::UnsupportedOperation, "this node has no such ceremony").into())
        }
    }
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
