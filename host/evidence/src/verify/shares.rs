//! New shares: those that were admitted, of the generation that nodes staged, and the result that nodes published is of them.

use super::report::Findings;
use super::story::Story;
use gateway_domain::admission::Target;
use gateway_domain::intent::Intent;
use gateway_domain::key::epoch_root;
use gateway_domain::operation::{Change, Operation, Phase, Staged};

pub(crate) fn check(story: &Story, findings: &mut Findings) {
    let Some(staged) = &story.operation.staged else { return };
    for (index, event) in story.events.iter().enumerate() {
        let at = format!("/events/{index}/event/change");
        match &event.change {
            Change::EpochDecided { .. } if !is_admitted(staged, &story.operation) => {
                findings.add(format!("{at}/staged"), "are not the shares that were admitted");
            }
            Change::Executed { result_ref, signature: None, .. } => {
                let at = format!("{at}/result_ref");
                match staged.result_ref() {
                    Ok(is) => findings.same(&at, "the digest of the new shares", result_ref, &is),
                    Err(error) => findings.add(at, error.to_string()),
                }
            }
            _ => {}
        }
    }
}

/// The public key of the operation's own key, as published with its shares. A rotation makes another key.
pub(crate) fn of_key(operation: &Operation) -> Option<&str> {
    let staged = operation.staged.as_ref().filter(|_| operation.phase == Phase::Published)?;
    let is_another = target(operation).is_some_and(|target| target.key_id != operation.key.key_id);
    (!is_another).then_some(staged.public.public_key_hex.as_str())
}

/// A decision of an earlier release about a key to be made names no target.
fn is_admitted(staged: &Staged, operation: &Operation) -> bool {
    let Some(target) = target(operation) else { return matches!(operation.intent, Intent::KeyCreate(_)) };
    let Staged { epoch, public, participants, threshold } = staged;
    let root = epoch_root(target.key_id, &target.epoch, &public.package_hex);
    (&epoch.name, participants, threshold) == (&target.epoch, &target.participants, &target.threshold)
        && root.is_ok_and(|root| root == epoch.root)
}

fn target(operation: &Operation) -> Option<&Target> {
    operation.admission.as_ref()?.decision.target.as_ref()
}
