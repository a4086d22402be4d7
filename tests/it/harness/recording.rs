//! The real policy, with a record of its evaluations.

use async_trait::async_trait;
use gateway_domain::ids::{Hex32, OperationId};
use gateway_domain::intent::Intent;
use gateway_domain::policy::facts::PENDING_COUNT;
use gateway_domain::policy::spending::Parties;
use gateway_domain::policy::{
    Facts, Moment, Outcome, REJECTIONS_REQUIRED, Request, SignedDocument, Statement,
};
use gateway_engine::ports::{Declared, EvaluatePolicy};
use std::sync::{Arc, Mutex};

/// The reference of payments that two rejections end, besides what the policy says.
pub(crate) const TWO_REJECTIONS: &str = "two rejections";

/// The request and facts of one evaluation.
#[derive(Clone, Debug)]
pub(crate) struct Evaluation {
    pub(crate) moment: Moment,
    pub(crate) tenant: String,
    pub(crate) key_ref: String,
    pub(crate) client_id: String,
    pub(crate) intent: Intent,
    /// Whether the request's `intent_hash` is the hash of its intent.
    pub(crate) is_intent_hash_right: bool,
    pub(crate) approvers: Vec<String>,
    /// Whether the facts contain past spending.
    pub(crate) has_velocity: bool,
    /// How many operations of the submitter waited for approvals, if the facts say it.
    pub(crate) pending: Option<String>,
    /// The claim `department` of the submitter, if the facts have it.
    pub(crate) department: Option<String>,
}

pub(crate) struct RecordingPolicy {
    pub(crate) host: Arc<dyn EvaluatePolicy>,
    pub(crate) evaluations: Arc<Mutex<Vec<Evaluation>>>,
}

#[async_trait]
impl EvaluatePolicy for RecordingPolicy {
    async fn evaluate(
        &self,
        operation_id: Option<OperationId>,
        request: Request<'_>,
        facts: &Facts,
    ) -> Outcome {
        let evaluation = Evaluation {
            moment: request.moment,
            tenant: request.tenant.0.clone(),
            key_ref: request.key_ref.0.clone(),
            client_id: request.submitter.client_id.clone(),
            intent: request.intent.clone(),
            is_intent_hash_right: request.intent.hash().is_ok_and(|hash| hash == request.intent_hash),
            approvers: request.approvals.iter().map(|approval| approval.subject_id.clone()).collect(),
            has_velocity: facts.get("velocity.account.24h.units").is_some(),
            pending: facts.get(PENDING_COUNT).map(str::to_owned),
            department: facts.get("claim.department").map(str::to_owned),
        };
        self.evaluations.lock().unwrap().push(evaluation);
        let takes_two =
            matches!(request.intent, Intent::Payment(it) if it.reference.as_deref() == Some(TWO_REJECTIONS));
        let mut outcome = self.host.evaluate(operation_id, request, facts).await;
        if takes_two {
            outcome.obligations.push(Statement::with_operand(REJECTIONS_REQUIRED, "rejections", "2"));
        }
        outcome
    }

    fn documents(&self) -> Arc<[Arc<SignedDocument>]> {
        self.host.documents()
    }

    fn declared(&self, bundle_hash: Hex32, code: &str) -> Option<Declared> {
        self.host.declared(bundle_hash, code)
    }

    fn may_read_facts(&self, beginning: &str) -> bool {
        beginning == PENDING_COUNT || self.host.may_read_facts(beginning)
    }

    fn read_parties(&self, parties: Parties) -> Option<Parties> {
        self.host.read_parties(parties)
    }
}
