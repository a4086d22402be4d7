//! Recorded policy decisions, as views.

use crate::error::Reason;
use crate::extract::list::Placed;
use crate::extract::query::digits;
use gateway_domain::ids::{Hex32, KeyRef, OperationId, Tenant};
use gateway_domain::policy::facts::classes;
use gateway_domain::policy::{Decision, DecisionId, FactRead, Fault, Missing, Statement};
use gateway_domain::time::EpochMs;
use gateway_engine::Engine;
use gateway_engine::ports::{Asked, RecordedDecision, SearchedFrom};
use serde::Serialize;
use utoipa::ToSchema;

/// A recorded decision of the policy. It has neither accounts nor free texts of the request, except in operands of reasons and in facts.
#[derive(Debug, Serialize, ToSchema)]
pub struct DecisionView {
    /// The decision's name: `refusal-N`, `preview-N`, or an operation's id, `-` and the number of its event.
    #[schema(value_type = String)]
    pub decision_id: DecisionId,
    /// The time of the evaluation, milliseconds since 1970.
    #[schema(value_type = u64)]
    pub at_ms: EpochMs,
    /// Why the policy was asked: `submit`, `approval`, `admission` or `preview`.
    pub moment: &'static str,
    /// `ALLOW` or `DENY`.
    pub decision: Decision,
    /// The operation; of a refused submission, the one that was not created. Null for a preview.
    #[schema(required = true, value_type = Option<String>)]
    pub operation_id: Option<OperationId>,
    /// The request's `x-request-id`. Null for a decision that moved an operation, and for what the gateway does by itself.
    #[schema(required = true)]
    pub request_id: Option<String>,
    /// The idempotency key of a refused submission.
    #[schema(required = true)]
    pub idempotency_key: Option<String>,
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
    /// Hash of the canonical intent.
    #[schema(value_type = String)]
    pub intent_hash: Hex32,
    /// The reasons; text and remedy are empty unless the bundle is the active one or the candidate.
    pub reasons: Vec<Reason>,
    /// The obligations, in the same form.
    pub obligations: Vec<Reason>,
    /// The facts that the policy read, in order.
    pub facts: Vec<FactView>,
    /// The subjects whose approvals count.
    pub approvals: Vec<String>,
    /// Who had to approve yet.
    pub missing: Vec<Missing>,
    /// The number of approvals required.
    pub approvals_required: u32,
    /// Why there is no verdict; null if there is one.
    #[schema(required = true)]
    pub fault: Option<Fault>,
    /// The bundle's id.
    pub bundle_id: String,
    /// SHA-256 of the bundle's canonical manifest.
    #[schema(value_type = String)]
    pub bundle_hash: Hex32,
    /// Wasm fuel that the evaluation used.
    pub fuel_used: u64,
    /// Whether the record matches the hash that it was written with.
    pub intact: bool,
}

/// A fact that the policy read.
#[derive(Debug, Serialize, ToSchema)]
pub struct FactView {
    /// The fact's name.
    pub name: String,
    /// The value that the policy was given; null if the deployment has no such fact.
    #[schema(required)]
    pub value: Option<String>,
    /// How much of it nodes and authority know for themselves: `own` if each computes it, `bounded` if each knows a bound on the dangerous
    /// side, `proven` if it comes with signed statements that each verifies,
    /// `claimed` if it is the gateway's word, which is not stated at an admission. Null for a name that no deployment offers.
    #[schema(required)]
    pub class: Option<&'static str>,
}

impl From<&FactRead> for FactView {
    fn from(FactRead { name, value }: &FactRead) -> Self {
        let class = classes(name).first().map(|class| class.as_str());
        Self { name: name.clone(), value: value.clone(), class }
    }
}

/// A part of the decisions that are searched for.
#[derive(Debug, Serialize, ToSchema)]
pub struct DecisionsResponse {
    /// Newest first. There may be fewer than `limit`, even none, although more follow.
    pub decisions: Vec<DecisionView>,
    /// The `cursor` of the next page; absent at the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

/// Statements of a bundle, with what its manifest says of them.
pub(super) fn explained(engine: &Engine, bundle_hash: Hex32, statements: &[Statement]) -> Vec<Reason> {
    statements.iter().map(|statement| engine.explained(bundle_hash, statement).into()).collect()
}

impl DecisionView {
    /// The view of a decision.
    #[must_use]
    pub fn new(engine: &Engine, recorded: &RecordedDecision) -> Self {
        let (input, outcome) = (&recorded.input, &recorded.outcome);
        let explained = |statements: &[Statement]| explained(engine, outcome.bundle_hash, statements);
        let Asked { request_id, idempotency_key } = recorded.asked.clone();
        Self {
            decision_id: recorded.id(),
            at_ms: recorded.at_ms,
            moment: input.moment.as_str(),
            decision: outcome.decision,
            operation_id: recorded.operation_id,
            request_id,
            idempotency_key,
            tenant: input.tenant.clone(),
            key_ref: input.key_ref.clone(),
            client_id: input.submitter.client_id.clone(),
            subject_id: input.submitter.subject_id.clone(),
            intent_hash: input.intent_hash,
            reasons: explained(&outcome.reasons),
            obligations: explained(&outcome.obligations),
            facts: outcome.facts.iter().map(FactView::from).collect(),
            approvals: outcome.quorum.subjects.clone(),
            missing: outcome.quorum.missing(),
            approvals_required: outcome.quorum.required,
            fault: outcome.fault.clone(),
            bundle_id: outcome.bundle_id.clone(),
            bundle_hash: outcome.bundle_hash,
            fuel_used: outcome.fuel_used,
            intact: recorded.is_intact,
        }
    }
}

impl Placed for SearchedFrom {
    fn parts(self) -> Vec<String> {
        [self.event, self.refusal, self.preview].map(|index| index.to_string()).into()
    }

    fn of(parts: &[&str]) -> Option<Self> {
        let [event, refusal, preview] = parts else { return None };
        Some(Self { event: digits(event)?, refusal: digits(refusal)?, preview: digits(preview)? })
    }
}
