//! The checks of an admission's approvals: enough different approvers by this node's own count and, if the settings say so,
//! valid signatures of the approvers over this operation. Pure, like `verify`.

use crate::call::AdmitRequest;
use crate::error::{Code, NodeError, Rejection};
use crate::node::NodeSettings;
use crate::verify::refused;
use gateway_domain::admission::AdmissionDecision;
use gateway_domain::approval::{
    ApprovalError, ApprovalSubject, SigningRule, approvals_root, n_distinct_subjects,
};
use gateway_domain::intent::OperationType;
use gateway_domain::time::EpochMs;

/// When approvals are checked. Their age counts at the admission only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moment {
    Admission,
    Execution,
}

/// Checks that the decision is based on exactly these approvals, and that they are valid and enough.
pub(crate) fn check_approvals(
    settings: &NodeSettings,
    request: &AdmitRequest,
    decision: &AdmissionDecision,
    moment: Moment,
    now: EpochMs,
) -> Result<(), NodeError> {
    if approvals_root(decision.intent_hash, &request.approvals)? != decision.approvals_root {
        return Err(refused("the decision is based on other approvals").into());
    }
    match &settings.signed_approvals {
        SigningRule::Off => {}
        rule @ (SigningRule::Optional(_) | SigningRule::Required(_)) => {
            check_signatures(rule, request, decision, moment, now)?;
        }
    }
    let n_approved = n_distinct_subjects(&request.approvals);
    let required = n_required(settings, decision.operation_type);
    if u32::try_from(n_approved).unwrap_or(u32::MAX) < required {
        return Err(
            refused(format!("the operation has {n_approved} of {required} required approvals")).into()
        );
    }
    Ok(())
}

/// The number of approvers required: 0 for a key creation if the settings exempt it. If approvals must be signed, none is
/// exempt.
fn n_required(settings: &NodeSettings, operation_type: OperationType) -> u32 {
    let is_exempt = settings.keys_without_approvals
        && operation_type == OperationType::KeyCreate
        && !settings.signed_approvals.is_required();
    if is_exempt { 0 } else { settings.required_approvals }
}

/// Checks each approval's signature over this tenant, operation, key and intent, as the rule requires.
fn check_signatures(
    rule: &SigningRule,
    request: &AdmitRequest,
    decision: &AdmissionDecision,
    moment: Moment,
    now: EpochMs,
) -> Result<(), NodeError> {
    let subject = ApprovalSubject {
        tenant: &request.owner.tenant,
        operation_id: decision.operation_id,
        key_id: decision.key_id,
        intent_hash: decision.intent_hash,
    };
    for approval in &request.approvals {
        let checked = match moment {
            Moment::Admission => rule.check(&subject, approval, now),
            Moment::Execution => rule.check_signature(&subject, approval, now),
        };
        checked.map_err(|fault| approval_error(&approval.subject_id, &fault))?;
    }
    Ok(())
}

/// An invalid approval ends the operation. If the registry cannot be read now, the admission can be tried again.
fn approval_error(subject_id: &str, fault: &ApprovalError) -> NodeError {
    if *fault == ApprovalError::NoRegistry {
        return NodeError::unavailable("the node's registry of approvers cannot be read");
    }
    let detail = format!("approval of `{subject_id}`: `{}`: {fault}", fault.as_str());
    Rejection::new(Code::ApprovalRefused, detail).into()
}
