//! The checks of an admission's approvals: enough different approvers by this node's own count, in the roles that it requires,
//! without the submitter if the duties are separated and, if the settings say so, with valid signatures of the approvers over this
//! operation. Pure, like `verify`.

use crate::call::AdmitRequest;
use crate::error::{Code, NodeError, NodeRejection, admission_refused as refused};
use crate::settings::NodeSettings;
use crate::store::operation::AdmittedRequest;
use gateway_domain::admission::AdmissionDecision;
use gateway_domain::approval::{
    Approval, ApprovalError, ApprovalSubject, SigningRule, approvals_root, n_distinct_people,
};
use gateway_domain::intent::OperationType;
use gateway_domain::policy::Outcome;
use gateway_domain::time::EpochMs;

/// Checks that the decision is based on exactly these approvals, and that they are valid and enough. [`check_ages`] checks their age.
pub(crate) fn check_approvals(
    settings: &NodeSettings,
    request: &AdmitRequest,
    decision: &AdmissionDecision,
    now: EpochMs,
) -> Result<(), NodeError> {
    if approvals_root(decision.intent_hash, &request.approvals)? != decision.approvals_root {
        return Err(refused("the decision is based on other approvals").into());
    }
    match &settings.signed_approvals {
        SigningRule::Off => {}
        rule @ (SigningRule::Optional(_) | SigningRule::Required(_)) => {
            check_signatures(rule, request, decision, now)?;
        }
    }
    let required = n_required(settings, decision.operation_type);
    let n_approved = n_distinct_people(approvers(settings, request));
    if n_approved < required {
        return Err(
            refused(format!("the operation has {n_approved} of {required} required approvals")).into()
        );
    }
    // A creation that is exempt from approvals is exempt from roles too.
    let roles = settings.approver_roles.iter().filter(|_| !is_exempt(settings, decision.operation_type));
    for (role, required) in roles {
        let in_role = approvers(settings, request).filter(|approval| {
            let is_verified = approval.signature.is_some() || !settings.signed_approvals.verifies();
            is_verified && approval.roles.contains(role)
        });
        let n_approved = n_distinct_people(in_role);
        if n_approved < *required {
            let detail = format!(
                "the operation has {n_approved} of {required} required approvals in the role `{role}`"
            );
            return Err(refused(detail).into());
        }
    }
    Ok(())
}

/// The approvals that count for this node.
fn approvers<'a>(
    settings: &'a NodeSettings,
    request: &'a AdmitRequest,
) -> impl Iterator<Item = &'a Approval> {
    settings.rules.counted(&request.approvals, &request.submitter)
}

/// The number of approvers required: 0 for a key creation if the settings exempt it. If approvals must be signed, none is
/// exempt.
pub(crate) fn n_required(settings: &NodeSettings, operation_type: OperationType) -> u32 {
    if is_exempt(settings, operation_type) { 0 } else { settings.rules.required_approvals }
}

fn is_exempt(settings: &NodeSettings, operation_type: OperationType) -> bool {
    settings.keys_without_approvals
        && operation_type == OperationType::KeyCreate
        && !settings.signed_approvals.is_required()
}

/// Checks that the request says the same of its submitter and approvers as this node's registry. Called at the admission only.
pub(crate) fn check_registered(rule: &SigningRule, request: &AdmitRequest) -> Result<(), NodeError> {
    let AdmitRequest { submitter, approvals, owner, .. } = request;
    let approvers = approvals.iter().map(|one| (&one.subject_id, &one.registered));
    for (subject_id, recorded) in
        std::iter::once((&submitter.subject_id, &submitter.registered)).chain(approvers)
    {
        rule.check_registered(&owner.tenant, subject_id, recorded.as_deref())
            .map_err(|fault| approval_error(subject_id, &fault))?;
    }
    Ok(())
}

/// Checks each approval's signature over this tenant, operation, key, intent and submitter, as the rule requires.
fn check_signatures(
    rule: &SigningRule,
    request: &AdmitRequest,
    decision: &AdmissionDecision,
    now: EpochMs,
) -> Result<(), NodeError> {
    let subject = subject(request, decision);
    for approval in &request.approvals {
        let (statement, signature) = (subject.statement(approval), approval.signature.as_deref());
        let checked = rule.check_signature(&statement, signature, now);
        let checked = checked.and_then(|()| approval.check_received());
        checked.map_err(|fault| approval_error(&approval.subject_id, &fault))?;
    }
    Ok(())
}

/// Checks the age of signed approvals, of which the time for which this outcome postpones the admission does not count. Called at the
/// admission only.
pub(crate) fn check_ages(
    settings: &NodeSettings,
    AdmittedRequest { request, decision }: &AdmittedRequest,
    outcome: &Outcome,
    now: EpochMs,
) -> Result<(), NodeError> {
    let (rule, subject) = (&settings.signed_approvals, subject(request, decision));
    let wait_ms = outcome.time_limits().wait_ms(&request.approvals);
    for approval in &request.approvals {
        let (statement, signature) = (subject.statement(approval), approval.signature.as_deref());
        if let Err(fault) = rule.check_age(&statement, signature, now, wait_ms) {
            return Err(approval_error(&approval.subject_id, &fault));
        }
    }
    Ok(())
}

fn subject<'a>(request: &'a AdmitRequest, decision: &AdmissionDecision) -> ApprovalSubject<'a> {
    ApprovalSubject {
        tenant: &request.owner.tenant,
        operation_id: decision.operation_id,
        key_id: decision.key_id,
        intent_hash: decision.intent_hash,
        submitter: &request.submitter.subject_id,
    }
}

/// An invalid approval ends the operation. If the registry cannot be read now, the admission can be tried again.
fn approval_error(subject_id: &str, fault: &ApprovalError) -> NodeError {
    if *fault == ApprovalError::NoRegistry {
        return NodeError::unavailable("the node's registry of approvers cannot be read");
    }
    let of = if *fault == ApprovalError::OtherRegistered { "" } else { "approval of " };
    let detail = format!("{of}`{subject_id}`: `{}`: {fault}", fault.as_str());
    NodeRejection::new(Code::ApprovalRefused, detail).into()
}
