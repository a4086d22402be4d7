//! Asking the policy: the one place that puts a request together and holds the answer to the deployment's minimum.

use crate::engine::Inner;
use crate::error::{EngineError, Unavailable};
use crate::ports::DecisionRecord;
use crate::rate::{Quota, Token};
use crate::spending::check_read;
use gateway_domain::approval::Approval;
use gateway_domain::binding::ClientBinding;
use gateway_domain::ids::{OperationId, Tenant};
use gateway_domain::intent::{Intent, Payment};
use gateway_domain::key::CustodyKey;
use gateway_domain::operation::Operation;
use gateway_domain::policy::facts::{self, facts_for};
use gateway_domain::policy::{self, Moment};

/// The client that submits development keys; nobody else's submissions begin without approvals.
pub(crate) const PROVISIONER: &str = "operation-gateway";

impl Inner {
    /// One evaluation. `spent_beside` is what [`Self::spending_asked`] said of the request's intent; `required` the least number
    /// of approvals.
    ///
    /// # Errors
    /// [`Unavailable`]: what was spent could not be read, or was not although the policy asked for it.
    pub(crate) async fn judge(
        &self,
        request: policy::Request<'_>,
        key: Option<&CustodyKey>,
        spent_beside: Option<&Payment>,
        required: u32,
    ) -> Result<policy::Outcome, Unavailable> {
        let rules = facts::Rules { required_approvals: required, ..self.rules.policy.clone() };
        let (now, intent) = (self.ports.clock.now(), request.intent);
        let spent = match spent_beside {
            Some(payment) => Some(self.ports.reads.spent(request.tenant, payment, now).await?),
            None => None,
        };
        let facts = facts_for(&rules, key, spent.as_ref(), now);
        let outcome = self.ports.policy.evaluate(request, &facts).await;
        if spent.is_none() {
            check_read(intent, &outcome)?;
        }
        Ok(outcome.held_to(rules.required_approvals))
    }

    /// An evaluation of a stored operation over some approvals.
    pub(crate) async fn judge_operation(
        &self,
        moment: Moment,
        operation: &Operation,
        approvals: &[Approval],
        key: Option<&CustodyKey>,
        spent_beside: Option<&Payment>,
    ) -> Result<policy::Outcome, Unavailable> {
        let is_waived = self.makes_keys_unasked(&operation.intent) && operation.policy.quorum.required == 0;
        let required = if is_waived { 0 } else { self.required(&operation.intent, &operation.submitter) };
        self.judge(operation.request(moment, approvals), key, spent_beside, required).await
    }

    /// Keeps a decision that moves nothing. Until that is durable it is not answered either.
    pub(crate) async fn record_decision(
        &self,
        operation_id: OperationId,
        request: &policy::Request<'_>,
        outcome: policy::Outcome,
    ) -> Result<(), Unavailable> {
        self.ports.commits.decision_record(self.decision(operation_id, request, outcome)).await
    }

    fn decision(
        &self,
        operation_id: OperationId,
        request: &policy::Request<'_>,
        outcome: policy::Outcome,
    ) -> DecisionRecord {
        DecisionRecord { at_ms: self.ports.clock.now(), operation_id, input: request.to_input(), outcome }
    }

    /// Keeps a refusal that somebody asked for, and charges it to him while the limit is on: what stays is not free. What is
    /// left of his budget.
    pub(crate) async fn record_refusal(
        &self,
        operation_id: OperationId,
        request: &policy::Request<'_>,
        outcome: policy::Outcome,
        charge: Option<Token>,
    ) -> Result<Option<Quota>, EngineError> {
        let Some(charge) = charge else {
            self.record_decision(operation_id, request, outcome).await?;
            return Ok(None);
        };
        let record = self.decision(operation_id, request, outcome);
        let charged = self.ports.commits.decision_record_with_token(record, charge.clone()).await?;
        let ((), budget) = self.budgets.settle(&charge, charged)?;
        Ok(Some(budget))
    }

    /// What a request costs this client, unless it is certain that nothing is left.
    pub(crate) fn charge(&self, tenant: &Tenant, client_id: &str) -> Result<Option<Token>, EngineError> {
        let charge = self.budgets.charge(tenant, client_id, self.ports.clock.now());
        charge.map_err(EngineError::submissions_limited)
    }

    /// The least number of approvals for what this client submits: none for a development key, which holds nothing.
    pub(crate) fn required(&self, intent: &Intent, submitter: &ClientBinding) -> u32 {
        let is_development_key = self.makes_keys_unasked(intent) && submitter.client_id == PROVISIONER;
        if is_development_key { 0 } else { self.rules.policy.required_approvals }
    }

    /// Whether this is a key, and the deployment makes those without approvals where they are needed: not in production.
    fn makes_keys_unasked(&self, intent: &Intent) -> bool {
        self.rules.auto_provision_keys && matches!(intent, Intent::KeyCreate(_))
    }
}
