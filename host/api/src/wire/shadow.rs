//! What a candidate bundle decides otherwise, as views.

use crate::error::Reason;
use crate::wire::decisions::explained;
use gateway_domain::ids::{Hex32, KeyRef, OperationId, Tenant};
use gateway_domain::intent::{Intent, OperationType, Payment};
use gateway_domain::policy::{Decision, Fault, Missing, Outcome, Statement};
use gateway_domain::redaction::last_four;
use gateway_domain::time::EpochMs;
use gateway_engine::Engine;
use gateway_engine::ports::{ShadowDifference, ShadowDifferences, ShadowResult};
use serde::Serialize;
use utoipa::ToSchema;

/// The latest decisions that the candidate would have made otherwise.
#[derive(Debug, Default, Serialize, ToSchema)]
pub struct ShadowResponse {
    /// SHA-256 of the candidate's canonical manifest; null if no candidate is set.
    #[schema(required = true, value_type = Option<String>)]
    pub candidate: Option<Hex32>,
    /// The time since when the bundle is the candidate, milliseconds since 1970; null without a candidate.
    #[schema(required = true, value_type = Option<u64>)]
    pub since_ms: Option<EpochMs>,
    /// Those of the caller's tenant, newest first: the latest that this process evaluated. Previews are left out first.
    pub differences: Vec<ShadowDifferenceView>,
}

/// A request that the candidate and the active bundle do not answer alike.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ShadowDifference)]
pub struct ShadowDifferenceView {
    /// The time that the policy was given, milliseconds since 1970; null in a preview that assumed no time.
    #[schema(required = true, value_type = Option<u64>)]
    pub at_ms: Option<EpochMs>,
    /// Why the policy was asked: `submit`, `approval`, `admission` or `preview`.
    pub moment: &'static str,
    /// How the outcomes compare.
    pub result: ShadowResult,
    /// The operation; of a refused submission, the one that was not created. Null for a preview.
    #[schema(required = true, value_type = Option<String>)]
    pub operation_id: Option<OperationId>,
    /// The tenant.
    #[schema(value_type = String)]
    pub tenant: Tenant,
    /// The name of the key.
    #[schema(value_type = String)]
    pub key_ref: KeyRef,
    /// The client that submitted the operation.
    pub client_id: String,
    /// Its subject.
    pub subject_id: String,
    /// The type of operation.
    pub operation_type: OperationType,
    /// What is paid; null unless it is a payment.
    #[schema(required = true)]
    pub payment: Option<ShadowPayment>,
    /// What the active bundle decided.
    pub before: ShadowOutcome,
    /// What the candidate decides.
    pub after: ShadowOutcome,
}

/// What a payment pays.
#[derive(Debug, Serialize, ToSchema)]
pub struct ShadowPayment {
    /// Amount in minor units of the currency.
    pub amount_minor: i64,
    /// The currency.
    pub currency: String,
    /// The last four characters of the receiving account, as in audit exports.
    pub recipient: String,
}

/// The outcome of one of the two bundles, before the deployment's minimum of approvals.
#[derive(Debug, Serialize, ToSchema)]
pub struct ShadowOutcome {
    /// `ALLOW` or `DENY`.
    pub decision: Decision,
    /// The reasons.
    pub reasons: Vec<Reason>,
    /// The obligations, in the same form.
    pub obligations: Vec<Reason>,
    /// The subjects whose approvals count.
    pub approvals: Vec<String>,
    /// Who had to approve yet.
    pub missing: Vec<Missing>,
    /// The number of approvals required.
    pub approvals_required: u32,
    /// Why there is no verdict; null if there is one.
    #[schema(required = true)]
    pub fault: Option<Fault>,
    /// SHA-256 of the bundle's canonical manifest.
    #[schema(value_type = String)]
    pub bundle_hash: Hex32,
}

impl ShadowResponse {
    /// The view of the differences; without a candidate, of none.
    #[must_use]
    pub fn new(engine: &Engine, shadow: Option<ShadowDifferences>) -> Self {
        let Some(ShadowDifferences { candidate, since_ms, differences }) = shadow else {
            return Self::default();
        };
        let differences = differences.iter().map(|one| ShadowDifferenceView::new(engine, one)).collect();
        Self { candidate: Some(candidate), since_ms: Some(since_ms), differences }
    }
}

impl ShadowDifferenceView {
    fn new(engine: &Engine, one: &ShadowDifference) -> Self {
        let input = &one.input;
        Self {
            at_ms: one.at_ms,
            moment: input.moment.as_str(),
            result: one.result,
            operation_id: one.operation_id,
            tenant: input.tenant.clone(),
            key_ref: input.key_ref.clone(),
            client_id: input.submitter.client_id.clone(),
            subject_id: input.submitter.subject_id.clone(),
            operation_type: input.intent.operation_type(),
            payment: match &input.intent {
                Intent::Payment(payment) => Some(ShadowPayment::from(payment)),
                Intent::AssetAction(_)
                | Intent::KeyCreate(_)
                | Intent::Refresh(_)
                | Intent::Reshare(_)
                | Intent::Rotate(_)
                | Intent::Recover(_) => None,
            },
            before: ShadowOutcome::new(engine, &one.before),
            after: ShadowOutcome::new(engine, &one.after),
        }
    }
}

impl From<&Payment> for ShadowPayment {
    fn from(payment: &Payment) -> Self {
        Self {
            amount_minor: payment.amount_minor,
            currency: payment.currency.clone(),
            recipient: last_four(&payment.to_account),
        }
    }
}

impl ShadowOutcome {
    fn new(engine: &Engine, outcome: &Outcome) -> Self {
        let explained = |statements: &[Statement]| explained(engine, outcome.bundle_hash, statements);
        Self {
            decision: outcome.decision,
            reasons: explained(&outcome.reasons),
            obligations: explained(&outcome.obligations),
            approvals: outcome.quorum.subjects.clone(),
            missing: outcome.quorum.missing(),
            approvals_required: outcome.quorum.required,
            fault: outcome.fault.clone(),
            bundle_hash: outcome.bundle_hash,
        }
    }
}
