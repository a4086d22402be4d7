//! Evaluates the policy: reads the facts, and raises the quorum of the outcome to the deployment's minimum of approvals.
//!
//! The spending totals of an account are read only for a policy that may read them. Two payments that each stay below
//! a limit may exceed it together. Therefore the admission of a payment is decided under the locks of its account and
//! recipient, from reading their totals until the decision is durable, and the store writes the decision only if the totals
//! are still those that were read: another replica may have decided on a payment in between. A crash in between leaves no
//! decision: the payment is evaluated again.

use crate::engine::Inner;
use crate::error::{Denial, Denied, Dependency, EngineError, Unavailable};
use crate::locks::Locked;
use crate::ports::{Asked, DecisionRecord, Declared, ReadError, SpendingRead};
use crate::rate_limit::{Quota, Token};
use crate::reserved::PROVISIONER;
use gateway_domain::approval::Approval;
use gateway_domain::binding::ClientBinding;
use gateway_domain::ids::{Hex32, KeyId, OperationId, Tenant};
use gateway_domain::intent::Intent;
use gateway_domain::key::CustodyKey;
use gateway_domain::names::ComparedName;
use gateway_domain::operation::Operation;
use gateway_domain::policy::facts::{self, facts_for};
use gateway_domain::policy::paid::{self, Paid, PaidProof};
use gateway_domain::policy::spending::{self, Parties};
use gateway_domain::policy::{self, DecisionId, Missing, Moment, SpendingTotals};
use std::collections::{BTreeMap, BTreeSet};

/// Payments that are looked up if the decisions on the first ones are of authorities whose keys are no longer pinned.
const PAYMENTS_LOOKED_UP_MAX: usize = 64;

/// The facts that the request of a caller adds to those of the deployment.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stated {
    /// The claims of the caller that the policy may read, by name.
    pub(crate) claims: BTreeMap<String, String>,
    /// Facts to assume instead of the deployment's; `None` for one that does not exist.
    pub(crate) assumed: Option<BTreeMap<String, Option<String>>>,
}

impl Stated {
    pub(crate) const fn claims(claims: BTreeMap<String, String>) -> Self {
        Self { claims, assumed: None }
    }
}

/// The locks of a payment's parties.
pub(crate) type PartyLocks = Vec<Locked>;

impl Inner {
    /// One evaluation. `spending` is the result of [`Self::spending`] for the request's intent; `required` is the minimum of
    /// approvals.
    ///
    /// # Errors
    /// [`Unavailable`] when the totals were not read although the policy needed them.
    pub(crate) async fn evaluate(
        &self,
        operation_id: OperationId,
        request: policy::Request<'_>,
        key: Option<&CustodyKey>,
        spending: Option<SpendingRead>,
        required: u32,
    ) -> Result<policy::Outcome, Unavailable> {
        self.evaluate_stated(Some(operation_id), request, key, spending, required, Stated::default()).await
    }

    /// As [`Self::evaluate`], with what the caller's request states, and without an operation for a preview.
    pub(crate) async fn evaluate_stated(
        &self,
        operation_id: Option<OperationId>,
        request: policy::Request<'_>,
        key: Option<&CustodyKey>,
        spending: Option<SpendingRead>,
        required: u32,
        stated: Stated,
    ) -> Result<policy::Outcome, Unavailable> {
        let rules = facts::Rules { required_approvals: required, ..self.rules.policy.clone() };
        let now = spending.as_ref().map_or_else(|| self.ports.clock.now(), |read| read.now);
        let (intent, totals) = (request.intent, spending.map(|read| read.totals));
        let facts = facts_for(&rules, key, intent.signing_terms(), totals.as_ref(), now);
        let proofs = self.paid_proofs(intent, key).await?;
        let facts = Paid::stated(&proofs).into_iter().fold(facts, facts::Facts::with_paid);
        let facts = match self.pending(&request).await? {
            Some(count) => facts.with_pending(count),
            None => facts,
        };
        let Stated { claims, assumed } = stated;
        let claims = claims.into_iter().map(|(name, value)| (name, Some(value))).collect();
        let facts = facts.with_documents(&self.ports.policy.documents(), now).assuming(claims);
        let (facts, proofs) = match assumed {
            Some(assumed) => (facts.assuming(assumed), Vec::new()),
            None => (facts, proofs),
        };
        let outcome = self.ports.policy.evaluate(operation_id, request, &facts).await.proven_by(proofs);
        check_totals_read(intent, totals.as_ref(), &outcome)?;
        Ok(outcome.raise_quorum_to(rules.required_approvals))
    }

    /// Evaluates the policy for a stored operation over these approvals.
    pub(crate) async fn evaluate_operation(
        &self,
        moment: Moment,
        operation: &Operation,
        approvals: &[Approval],
        key: Option<&CustodyKey>,
        spending: Option<SpendingRead>,
    ) -> Result<policy::Outcome, Unavailable> {
        let is_waived = self.may_waive_approvals(&operation.intent) && operation.policy.quorum.required == 0;
        let required =
            if is_waived { 0 } else { self.required_approvals(&operation.intent, &operation.submitter) };
        self.evaluate(operation.id, operation.request(moment, approvals), key, spending, required).await
    }

    /// The people whom groups of the outcome would lack even if everyone in the registry approved. Empty if others may approve too, and if the
    /// policy has no answer for so many.
    pub(crate) async fn unfillable(
        &self,
        request: policy::Request<'_>,
        key: Option<&CustodyKey>,
        spending: Option<SpendingRead>,
        required: u32,
        stated: Stated,
        outcome: &policy::Outcome,
    ) -> Result<Vec<Missing>, Unavailable> {
        let now = self.ports.clock.now();
        let everyone = self.rules.signed_approvals.everyone(request.tenant, now);
        let Some(mut everyone) = everyone.filter(|_| !outcome.quorum.groups.is_empty()) else {
            return Ok(Vec::new());
        };
        // A policy may not count a person twice.
        let mut people = BTreeSet::new();
        everyone.retain(|approval| people.insert(ComparedName::of(approval.person())));
        let asked = policy::Request { moment: Moment::Preview, approvals: &everyone, ..request };
        let outcome = self.evaluate_stated(None, asked, key, spending, required, stated).await?;
        let missing = if outcome.fault.is_some() { Vec::new() } else { outcome.quorum.missing() };
        Ok(missing.into_iter().filter(|missing| missing.group.is_some()).collect())
    }

    /// The reasons that the policy declares as reasons to deny; all of them if it declares none of them so.
    pub(crate) fn denied(&self, outcome: &policy::Outcome) -> Denied {
        let bundle_hash = outcome.bundle_hash;
        let explained = outcome.reasons.iter().map(|reason| self.explained(bundle_hash, reason));
        let (denials, others): (Vec<_>, Vec<_>) = explained.partition(|(denies, _)| *denies);
        let shown = if denials.is_empty() { others } else { denials };
        let reasons = shown.into_iter().map(|(_, reason)| reason).collect();
        Denied { reasons, bundle_hash, decision_id: None }
    }

    /// A statement of this bundle with what its manifest says of it, and whether that is a reason to deny. Without the manifest it may be.
    pub(crate) fn explained(&self, bundle_hash: Hex32, statement: &policy::Statement) -> (bool, Denial) {
        let declared = self.ports.policy.declared(bundle_hash, &statement.code);
        let unknown = Declared { text: String::new(), remedy: String::new(), denies: true };
        let Declared { text, remedy, denies } = declared.unwrap_or(unknown);
        (denies, Denial { statement: statement.clone(), text, remedy })
    }

    /// Records a decision that changes no operation. Returns once the record is durable.
    pub(crate) async fn record_decision(
        &self,
        operation_id: OperationId,
        request: &policy::Request<'_>,
        outcome: policy::Outcome,
    ) -> Result<(), Unavailable> {
        self.check_may_write()?;
        let record = self.decision(operation_id, Asked::default(), request, outcome);
        self.ports.commits.decision_record(record).await.map(drop)
    }

    fn decision(
        &self,
        operation_id: OperationId,
        asked: Asked,
        request: &policy::Request<'_>,
        outcome: policy::Outcome,
    ) -> DecisionRecord {
        let (at_ms, input) = (self.ports.clock.now(), request.to_input());
        DecisionRecord { at_ms, operation_id, asked, input, outcome }
    }

    /// Records a refusal that a client's request caused. The record is permanent, so it takes a token from the
    /// client's quota. Returns its id, and the quota after it; `None` while the limit is off.
    pub(crate) async fn record_refusal(
        &self,
        operation_id: OperationId,
        asked: Asked,
        request: &policy::Request<'_>,
        outcome: policy::Outcome,
        token: Option<Token>,
    ) -> Result<(Option<DecisionId>, Option<Quota>), EngineError> {
        self.check_may_write()?;
        let record = self.decision(operation_id, asked, request, outcome);
        let Some(token) = token else {
            let index = self.ports.commits.decision_record(record).await?;
            return Ok((index.map(DecisionId::Refusal), None));
        };
        let written = self.ports.commits.decision_record_with_token(record, token.clone()).await?;
        let (index, quota) = self.check_written(&token, written)?;
        Ok((index.map(DecisionId::Refusal), Some(quota)))
    }

    /// The token that a request of this client will take from the client's quota when it is recorded; `None` while
    /// the limit is off.
    ///
    /// # Errors
    /// [`EngineError::RateLimited`] when this process knows that the quota has no token.
    pub(crate) fn token(&self, tenant: &Tenant, client_id: &str) -> Result<Option<Token>, EngineError> {
        let token = self.submissions.token(tenant, client_id, self.ports.clock.now());
        token.map_err(EngineError::submissions_limited)
    }

    /// The deployment's minimum of approvals: 0 for a development key that the gateway submits itself.
    pub(crate) fn required_approvals(&self, intent: &Intent, submitter: &ClientBinding) -> u32 {
        let is_development_key = self.may_waive_approvals(intent) && submitter.client_id == PROVISIONER;
        if is_development_key { 0 } else { self.rules.policy.required_approvals }
    }

    /// Whether the intent creates a key, in a deployment with `auto_provision_keys`.
    fn may_waive_approvals(&self, intent: &Intent) -> bool {
        self.rules.auto_provision_keys && matches!(intent, Intent::KeyCreate(_))
    }

    /// What these parties of a payment paid, up to now.
    pub(crate) async fn spending(
        &self,
        parties: Option<Parties>,
    ) -> Result<Option<SpendingRead>, Unavailable> {
        let Some(parties) = parties else { return Ok(None) };
        let now = self.ports.clock.now();
        let totals = self.ports.reads.spending_totals(&parties, now).await?;
        Ok(Some(SpendingRead { parties, now, totals }))
    }

    /// The number of operations of the submitter that wait for approvals, when another one is submitted, if the policy may read it. Two that
    /// are submitted at the same time do not count each other.
    async fn pending(&self, request: &policy::Request<'_>) -> Result<Option<u64>, Unavailable> {
        let is_new = matches!(request.moment, Moment::Submit | Moment::Preview);
        if !is_new || !self.ports.policy.may_read_facts(facts::PENDING_COUNT) {
            return Ok(None);
        }
        self.ports.reads.n_pending(request.tenant, request.submitter.person()).await.map(Some)
    }

    /// Proofs of earlier payments from this key to the intent's recipient, if the policy may read the facts that follow from them. If it
    /// becomes able to during the evaluation, it finds a recipient without a history, which is the safe side.
    async fn paid_proofs(
        &self,
        intent: &Intent,
        key: Option<&CustodyKey>,
    ) -> Result<Vec<PaidProof>, Unavailable> {
        let (Intent::Payment(payment), Some(key)) = (intent, key) else { return Ok(Vec::new()) };
        if !self.ports.policy.may_read_facts(paid::PREFIX) {
            return Ok(Vec::new());
        }
        let mut trusted = Vec::new();
        for n_max in [paid::PROOFS_MAX, PAYMENTS_LOOKED_UP_MAX] {
            let found = self.ports.reads.payments_to(key.key_id, &payment.to_account, n_max).await;
            let found = found.map_err(ReadError::into_unavailable)?;
            let n_wanted = found.len().min(paid::PROOFS_MAX);
            let is_trusted = |proof: &PaidProof| self.ports.authority.verify(&proof.decision).is_some();
            trusted = found.into_iter().filter(is_trusted).take(paid::PROOFS_MAX).collect();
            if trusted.len() == n_wanted {
                break;
            }
        }
        Ok(trusted)
    }

    /// The parties of the intent's payment of which the policy may read what they paid; `None` without any.
    pub(crate) fn parties(
        &self,
        tenant: &Tenant,
        submitter: &ClientBinding,
        key: KeyId,
        intent: &Intent,
    ) -> Option<Parties> {
        match intent {
            Intent::Payment(payment) => {
                self.ports.policy.read_parties(Parties::of(tenant, submitter, key, payment))
            }
            Intent::AssetAction(_)
            | Intent::KeyCreate(_)
            | Intent::Refresh(_)
            | Intent::Reshare(_)
            | Intent::Rotate(_)
            | Intent::Recover(_) => None,
        }
    }

    /// The parties of a stored operation.
    pub(crate) fn parties_of(&self, operation: &Operation) -> Option<Parties> {
        let Operation { tenant, submitter, key, intent, .. } = operation;
        self.parties(tenant, submitter, key.key_id, intent)
    }

    /// Locks the parties, of which every payment has the same kinds in the same order, so that there is no deadlock. The operation is
    /// already locked.
    pub(crate) async fn lock_parties(&self, parties: &Parties) -> Result<PartyLocks, Unavailable> {
        let mut locks = Vec::new();
        for (party, name) in parties.iter() {
            locks.push(self.parties.lock((party, parties.tenant.clone(), name.to_owned())).await?);
        }
        Ok(locks)
    }
}

/// Refuses the outcome of an evaluation that the host could not do: its `DENY` is no decision. A fault of the policy is one: the same
/// request gives the same again.
pub(crate) fn check_evaluated(outcome: &policy::Outcome) -> Result<(), Unavailable> {
    match outcome.host_fault() {
        None => Ok(()),
        Some(fault) => Err(Unavailable::new(Dependency::Policy, format!("no evaluation: {fault}"))),
    }
}

/// Refuses the outcome for a payment if the policy tried to read a total that was not read for it. This happens when another bundle is
/// activated between the choice of the facts and the evaluation.
fn check_totals_read(
    intent: &Intent,
    totals: Option<&SpendingTotals>,
    outcome: &policy::Outcome,
) -> Result<(), Unavailable> {
    let is_missing =
        |name: &str| spending::is_fact(name) && totals.is_none_or(|totals| totals.get(name).is_none());
    match (intent, outcome.facts.iter().find(|fact| is_missing(&fact.name))) {
        (Intent::Payment(_), Some(fact)) => {
            let detail = format!(
                "another policy became active during the request and reads `{}`: send the request again",
                fact.name
            );
            Err(Unavailable::new(Dependency::Policy, detail))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gateway_domain::intent::PublicationMode;
    use gateway_domain::policy::spending::Party;
    use gateway_domain::policy::{FactRead, Outcome};
    use gateway_domain::testing::samples::{Kind, intent, verdict};

    fn outcome_that_read(names: &[&str]) -> Outcome {
        let facts = names.iter().map(|name| FactRead { name: (*name).into(), value: None }).collect();
        Outcome { facts, ..verdict(&[], 0) }
    }

    #[test]
    fn outcome_that_needs_totals_which_were_not_read_is_refused() {
        let payment = intent(Kind::Payment, PublicationMode::Manual);
        let velocity = ["time.now_ms", "velocity.account.24h.units"];
        let mut totals = SpendingTotals::default();
        totals.insert(Party::Recipient, Default::default());
        for read in [None, Some(&totals)] {
            let refused = check_totals_read(&payment, read, &outcome_that_read(&velocity)).unwrap_err();
            assert!(refused.detail.contains("`velocity.account.24h.units`"), "{}", refused.detail);
        }
        totals.insert(Party::Account, Default::default());
        assert!(check_totals_read(&payment, Some(&totals), &outcome_that_read(&velocity)).is_ok());
        assert!(check_totals_read(&payment, None, &outcome_that_read(&["time.now_ms"])).is_ok());
        let refresh = intent(Kind::Refresh, PublicationMode::Manual);
        let checked = check_totals_read(&refresh, None, &outcome_that_read(&velocity));
        assert!(checked.is_ok(), "only payments have totals");
    }
}
