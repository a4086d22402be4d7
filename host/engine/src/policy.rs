//! Evaluating the policy: the one place that builds a request, reads the facts and holds the outcome to the deployment's
//! minimum of approvals.
//!
//! What an account has paid lately is read only for a policy that may ask for it. Two payments that each fit a limit may not
//! fit it together, so the admission of a payment is decided under the locks of its account and its recipient, from reading
//! their totals until the decision is durable. A crash in between leaves no decision: the payment is evaluated again.

use crate::development::PROVISIONER;
use crate::engine::Inner;
use crate::error::{Dependency, EngineError, Unavailable};
use crate::locks::Locked;
use crate::ports::DecisionRecord;
use crate::rate_limit::{Quota, Token};
use gateway_domain::approval::Approval;
use gateway_domain::binding::ClientBinding;
use gateway_domain::ids::{OperationId, Tenant};
use gateway_domain::intent::{Intent, Payment};
use gateway_domain::key::CustodyKey;
use gateway_domain::operation::Operation;
use gateway_domain::policy::facts::{self, facts_for};
use gateway_domain::policy::spending::VELOCITY;
use gateway_domain::policy::{self, Moment};

/// The locks of a payment's account and recipient.
pub(crate) struct PartyLocks {
    _account: Locked,
    _recipient: Locked,
}

impl Inner {
    /// One evaluation. `payment` is what [`Self::needs_velocity`] returned for the request's intent; `required` is the
    /// minimum of approvals.
    ///
    /// # Errors
    /// [`Unavailable`]: the totals could not be read, or were not read although the policy asked for them.
    pub(crate) async fn evaluate(
        &self,
        request: policy::Request<'_>,
        key: Option<&CustodyKey>,
        payment: Option<&Payment>,
        required: u32,
    ) -> Result<policy::Outcome, Unavailable> {
        let rules = facts::Rules { required_approvals: required, ..self.rules.policy.clone() };
        let (now, intent) = (self.ports.clock.now(), request.intent);
        let spent = match payment {
            Some(payment) => Some(self.ports.reads.spending_totals(request.tenant, payment, now).await?),
            None => None,
        };
        let facts = facts_for(&rules, key, spent.as_ref(), now);
        let outcome = self.ports.policy.evaluate(request, &facts).await;
        if spent.is_none() {
            check_read(intent, &outcome)?;
        }
        Ok(outcome.raise_quorum_to(rules.required_approvals))
    }

    /// An evaluation of a stored operation over these approvals.
    pub(crate) async fn evaluate_operation(
        &self,
        moment: Moment,
        operation: &Operation,
        approvals: &[Approval],
        key: Option<&CustodyKey>,
        payment: Option<&Payment>,
    ) -> Result<policy::Outcome, Unavailable> {
        let is_waived = self.may_waive_approvals(&operation.intent) && operation.policy.quorum.required == 0;
        let required = if is_waived { 0 } else { self.required(&operation.intent, &operation.submitter) };
        self.evaluate(operation.request(moment, approvals), key, payment, required).await
    }

    /// Keeps a decision that moves no operation; it is answered only once it is durable.
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

    /// Keeps a refusal that a client caused. The record stays for good, so it takes a token from the client while the limit
    /// is on. The client's quota after it.
    pub(crate) async fn record_refusal(
        &self,
        operation_id: OperationId,
        request: &policy::Request<'_>,
        outcome: policy::Outcome,
        token: Option<Token>,
    ) -> Result<Option<Quota>, EngineError> {
        let Some(token) = token else {
            self.record_decision(operation_id, request, outcome).await?;
            return Ok(None);
        };
        let record = self.decision(operation_id, request, outcome);
        let written = self.ports.commits.decision_record_with_token(record, token.clone()).await?;
        let ((), quota) = self.written(&token, written)?;
        Ok(Some(quota))
    }

    /// The token that a request of this client takes.
    ///
    /// # Errors
    /// [`EngineError::RateLimited`] when the client is certain to have none.
    pub(crate) fn token(&self, tenant: &Tenant, client_id: &str) -> Result<Option<Token>, EngineError> {
        let token = self.submissions.token(tenant, client_id, self.ports.clock.now());
        token.map_err(EngineError::submissions_limited)
    }

    /// The minimum of approvals for what this client submits: none for a development key, which holds nothing of value.
    pub(crate) fn required(&self, intent: &Intent, submitter: &ClientBinding) -> u32 {
        let is_development_key = self.may_waive_approvals(intent) && submitter.client_id == PROVISIONER;
        if is_development_key { 0 } else { self.rules.policy.required_approvals }
    }

    /// Whether this creates a key, in a deployment that makes keys without approvals: never in production.
    fn may_waive_approvals(&self, intent: &Intent) -> bool {
        self.rules.auto_provision_keys && matches!(intent, Intent::KeyCreate(_))
    }

    /// The payment, if the policy may ask for what its account and recipient moved lately.
    pub(crate) fn needs_velocity<'a>(&self, intent: &'a Intent) -> Option<&'a Payment> {
        match intent {
            Intent::Payment(payment) if self.ports.policy.may_read_facts(VELOCITY) => Some(payment),
            Intent::Payment(_)
            | Intent::AssetAction(_)
            | Intent::KeyCreate(_)
            | Intent::Refresh(_)
            | Intent::Reshare(_)
            | Intent::Rotate(_)
            | Intent::Recover(_) => None,
        }
    }

    /// Locks the payment's account and recipient, always after the operation's own lock and in this order, so that no two
    /// payments wait for each other.
    pub(crate) async fn lock_parties(
        &self,
        tenant: &Tenant,
        payment: &Payment,
    ) -> Result<PartyLocks, Unavailable> {
        let account = self.accounts.lock((tenant.clone(), payment.from_account.clone())).await?;
        let recipient = self.recipients.lock((tenant.clone(), payment.to_account.clone())).await?;
        Ok(PartyLocks { _account: account, _recipient: recipient })
    }
}

/// Refuses the outcome of a bundle that failed: nothing may be decided on its `DENY`.
pub(crate) fn check_evaluated(outcome: &policy::Outcome) -> Result<(), Unavailable> {
    match &outcome.fault {
        None => Ok(()),
        Some(fault) => Err(Unavailable::new(Dependency::Policy, format!("the bundle failed: {fault}"))),
    }
}

/// Refuses the outcome of a bundle that was activated after it was settled which facts to read, and asked for one that was
/// not read. Only payments have such facts.
fn check_read(intent: &Intent, outcome: &policy::Outcome) -> Result<(), Unavailable> {
    let asked = outcome.facts.iter().find(|fact| fact.name.starts_with(VELOCITY));
    match (intent, asked) {
        (Intent::Payment(_), Some(fact)) => {
            let detail = format!("the policy was exchanged and now asks for `{}`; ask again", fact.name);
            Err(Unavailable::new(Dependency::Policy, detail))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gateway_domain::ids::Hex32;
    use gateway_domain::intent::{PublicationMode, Refresh, SigningTerms};
    use gateway_domain::policy::{Decision, FactRead, Outcome, Quorum};
    use gateway_domain::roster::Roster;

    fn payment() -> Intent {
        Intent::Payment(Payment {
            key_ref: None,
            from_account: "a".into(),
            to_account: "b".into(),
            amount_minor: 1,
            currency: "EUR".into(),
            reference: None,
            bip32: None,
            terms: SigningTerms {
                requested_participants: Roster::parse(&[0, 1]).unwrap(),
                threshold: None,
                epoch_fence_token_hex: None,
                publication_mode: PublicationMode::Manual,
            },
        })
    }

    fn refresh() -> Intent {
        Intent::Refresh(Refresh {
            change: gateway_domain::intent::Lifecycle {
                target_epoch: gateway_domain::ids::EpochName("2".into()),
                reason: "drill".into(),
                publication_mode: PublicationMode::Manual,
                metadata: Default::default(),
            },
        })
    }

    fn having_asked(names: &[&str]) -> Outcome {
        Outcome {
            decision: Decision::Allow,
            bundle_id: String::new(),
            bundle_hash: Hex32::ZERO,
            reasons: vec![],
            obligations: vec![],
            facts: names.iter().map(|name| FactRead { name: (*name).into(), value: None }).collect(),
            quorum: Quorum::default(),
            input_hash: Hex32::ZERO,
            output_hash: Hex32::ZERO,
            fuel_used: 1,
            fault: None,
        }
    }

    #[test]
    fn an_outcome_that_asked_for_totals_which_were_not_read_is_refused() {
        let velocity = ["time.now_ms", "velocity.account.day_minor"];
        let refused = check_read(&payment(), &having_asked(&velocity)).unwrap_err();
        assert!(refused.detail.contains("`velocity.account.day_minor`"), "{}", refused.detail);
        assert!(check_read(&payment(), &having_asked(&["time.now_ms"])).is_ok());
        assert!(check_read(&refresh(), &having_asked(&velocity)).is_ok(), "only payments have totals");
    }
}
