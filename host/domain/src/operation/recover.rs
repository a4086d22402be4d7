//! Node recovery: idempotent by effect id (decisions.md 6).

use super::event::{Recovery, RecoveryOutcome};
use super::{Change, Operation, Refusal};
use crate::ids::Hex32;
use crate::time::EpochMs;

/// Recoveries kept for one operation; an operation has fewer effects than this.
const RECOVERIES_MAX: usize = 64;

/// The engine drives what is owed before it asks this, so an effect that is still not settled is unknown.
pub(super) fn decide(
    operation: &Operation,
    effect_id: &str,
    result_root: Hex32,
    at: EpochMs,
) -> Result<Vec<Change>, Refusal> {
    let conflict = |actual| Refusal::RecoveryConflict { effect_id: effect_id.to_owned(), actual };
    let settled = operation.settled.iter().find(|settled| settled.id.to_string() == effect_id);
    if let Some(settled) = settled.filter(|settled| settled.result_root != result_root) {
        return Err(conflict(settled.result_root));
    }
    if let Some(earlier) = operation.recoveries.iter().find(|earlier| earlier.effect_id == effect_id) {
        return if earlier.result_root == result_root {
            Ok(Vec::new())
        } else {
            Err(conflict(earlier.result_root))
        };
    }
    if operation.recoveries.len() >= RECOVERIES_MAX {
        return Ok(Vec::new());
    }
    let outcome = if settled.is_some() { RecoveryOutcome::Complete } else { RecoveryOutcome::UnknownEffect };
    let participants = operation.plan().map(|plan| plan.nodes.into_iter().collect()).unwrap_or_default();
    let effect_id = effect_id.to_owned();
    Ok(vec![Change::RecoveryRecorded(Recovery {
        effect_id,
        outcome,
        result_root,
        recovered_at_ms: at,
        participants,
    })])
}
