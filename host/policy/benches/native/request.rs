//! Requests in the form that the SDK gives to policies.

use gateway_domain::intent::Intent;
use gateway_domain::people::Registered;
use gateway_domain::policy::{Moment, Request};
use gateway_policy_sdk as sdk;

/// # Errors
/// If it is not a payment.
pub(crate) fn of(request: &Request<'_>) -> Result<sdk::Request, &'static str> {
    let Intent::Payment(payment) = request.intent else { return Err("the intent is not a payment") };
    let submitter = request.submitter;
    Ok(sdk::Request {
        moment: match request.moment {
            Moment::Submit => sdk::Moment::Submit,
            Moment::Approval => sdk::Moment::Approval,
            Moment::Admission => sdk::Moment::Admission,
            Moment::Preview => sdk::Moment::Preview,
        },
        intent_hash: request.intent_hash.to_string(),
        tenant: request.tenant.0.clone(),
        key_ref: request.key_ref.0.clone(),
        client_id: submitter.client_id.clone(),
        submitter: person(&submitter.subject_id, &submitter.roles, submitter.registered.as_deref()),
        intent: sdk::Intent::Payment(sdk::Payment {
            from_account: payment.from_account.clone(),
            to_account: payment.to_account.clone(),
            amount_minor: payment.amount_minor,
            currency: payment.currency.clone(),
            reference: payment.reference.clone(),
        }),
        participants: payment.terms.requested_participants.iter().map(|index| index.0).collect(),
        threshold: payment.terms.threshold.map(|threshold| threshold.0),
        bip32_path: payment.terms.bip32.as_ref().map(|child| child.path.clone()),
        approvals: request
            .approvals
            .iter()
            .map(|approval| sdk::Approval {
                by: person(&approval.subject_id, &approval.roles, approval.registered.as_deref()),
                at_ms: approval.approved_at_ms.0,
            })
            .collect(),
    })
}

fn person(subject: &str, roles: &[String], registered: Option<&Registered>) -> sdk::Person {
    let person = registered.and_then(|registered| registered.person.as_deref());
    let attributes = registered.into_iter().flat_map(|registered| registered.attributes.clone());
    sdk::Person {
        person: person.unwrap_or(subject).to_owned(),
        subject_id: subject.to_owned(),
        roles: roles.to_vec(),
        attributes: attributes.collect(),
    }
}
