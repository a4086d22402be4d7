//! Requests that come again. Node recovery: a caller asks for the outcome of an effect, by its id; repeating that returns the same
//! answer. Replays: a submission under the idempotency key of another body, whose digest is recorded.

use super::command::Refusal;
use super::event::Change;
use super::event::{Recovery, RecoveryOutcome};
use super::state::Operation;
use crate::ids::Hex32;
use crate::time::EpochMs;

/// The most recoveries recorded for one operation; further ones are answered but not recorded.
const RECOVERIES_MAX: usize = 64;

/// The most digests of other bodies under one idempotency key that are recorded.
const REPLAYS_MAX: usize = 64;

/// The answer to a recovery, and whether it must be recorded: false for one that is recorded already or never will
/// be. Before calling it, the engine drives the operation, unless the effect is settled.
///
/// # Errors
/// [`Refusal::RecoveryConflict`] when the effect, or an earlier recovery of it, has another result root.
pub fn recovery(
    operation: &Operation,
    effect_id: &str,
    result_root: Hex32,
    at: EpochMs,
) -> Result<(Recovery, bool), Refusal> {
    let settled = operation.settled.iter().find(|settled| settled.id.to_string() == effect_id);
    let outcome = if settled.is_some() { RecoveryOutcome::Complete } else { RecoveryOutcome::UnknownEffect };
    let known =
        operation.recoveries.iter().find(|known| known.effect_id == effect_id && known.outcome == outcome);
    let actual = settled.map(|settled| settled.result_root).or(known.map(|known| known.result_root));
    if let Some(actual) = actual.filter(|actual| *actual != result_root) {
        return Err(Refusal::RecoveryConflict { effect_id: effect_id.to_owned(), actual });
    }
    if let Some(known) = known {
        return Ok((known.clone(), false));
    }
    let participants = operation.planned_nodes().into_iter().collect();
    let effect_id = effect_id.to_owned();
    // The operation may still reach an effect of this id, so its absence is not recorded.
    let may_still_happen = settled.is_none() && effect_id.starts_with(&format!("{}.", operation.id));
    let is_new = !may_still_happen && operation.recoveries.len() < RECOVERIES_MAX;
    Ok((Recovery { effect_id, outcome, result_root, recovered_at_ms: at, participants }, is_new))
}

/// The change that records the recovery, if it is to be recorded.
pub(super) fn decide(
    operation: &Operation,
    effect_id: &str,
    result_root: Hex32,
    at: EpochMs,
) -> Result<Vec<Change>, Refusal> {
    let (recovery, is_new) = recovery(operation, effect_id, result_root, at)?;
    Ok(if is_new { vec![Change::RecoveryRecorded(recovery)] } else { Vec::new() })
}

/// Records a digest that is not recorded yet, up to [`REPLAYS_MAX`].
pub(super) fn note_replay(operation: &Operation, body_digest: Hex32) -> Vec<Change> {
    let is_known = operation.body_digest == body_digest || operation.replays.contains(&body_digest);
    if is_known || operation.replays.len() >= REPLAYS_MAX {
        return Vec::new();
    }
    vec![Change::ReplayNoted { body_digest }]
}
