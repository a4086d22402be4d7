//! The default policy as a plain Rust function.

use crate::case::Case;
use crate::{Allowed, Runner};
use gateway_policy_sdk as sdk;
use payment_guard::PaymentGuard;
use sdk::Policy as _;

/// The default policy has no data.
pub(crate) struct Native(sdk::testing::TestData);

impl Native {
    pub(crate) fn new() -> Self {
        Self(sdk::testing::data(&[]))
    }
}

impl Runner for Native {
    fn name(&self) -> String {
        "payment-guard, native Rust".into()
    }

    fn evaluate(&self, case: &Case) -> Allowed {
        let verdict = PaymentGuard::evaluate(&request(case)?, &Known(case), &self.0);
        Ok(verdict.decision == sdk::Decision::Allow)
    }
}

struct Known<'a>(&'a Case);

impl sdk::Facts for Known<'_> {
    fn get(&self, name: &str) -> Option<String> {
        self.0.facts.get(name).map(str::to_owned)
    }
}

fn request(case: &Case) -> Result<sdk::Request, &'static str> {
    let (request, payment) = (case.request(), case.payment()?);
    Ok(sdk::Request {
        moment: sdk::Moment::Admission,
        intent_hash: request.intent_hash.to_string(),
        tenant: request.tenant.0.clone(),
        key_ref: request.key_ref.0.clone(),
        submitter: sdk::Submitter {
            client_id: request.submitter.client_id.clone(),
            subject_id: request.submitter.subject_id.clone(),
            roles: request.submitter.roles.clone(),
        },
        intent: sdk::Intent::Payment(sdk::Payment {
            from_account: payment.from_account.clone(),
            to_account: payment.to_account.clone(),
            amount_minor: payment.amount_minor,
            currency: payment.currency.clone(),
            reference: payment.reference.clone(),
        }),
        participants: payment.terms.requested_participants.iter().map(|index| index.0).collect(),
        threshold: None,
        bip32_path: None,
        approvals: request
            .approvals
            .iter()
            .map(|approval| sdk::Approval {
                subject_id: approval.subject_id.clone(),
                roles: approval.roles.clone(),
                approved_at_ms: approval.approved_at_ms.0,
            })
            .collect(),
    })
}
