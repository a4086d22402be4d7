//! From an effect to a port call and its outcome. No rules of its own.

use crate::engine::Inner;
use crate::error::{EngineError, judged};
use crate::fit::check_key;
use crate::ports::AdmissionRequest;
use crate::secret::Secrets;
use crate::spending::Turn;
use gateway_domain::admission::Derivation;
use gateway_domain::approval::limits::CLOCK_SKEW_MS;
use gateway_domain::intent::{Intent, OperationType};
use gateway_domain::key::CustodyKey;
use gateway_domain::operation::{Effect, EffectStep, Failure, Operation, Outcome, Refusal};
use gateway_domain::policy::{self, Moment};
use gateway_domain::time::EpochMs;

/// What an effect gave.
pub(crate) struct Performed {
    pub(crate) outcome: Outcome,
    /// To be kept until the outcome is durable: nobody else may decide on what was read for it.
    pub(crate) turn: Option<Turn>,
    /// The key that a decision is about, as it was when the decision was made.
    pub(crate) decided_on: Option<CustodyKey>,
}

impl From<Outcome> for Performed {
    fn from(outcome: Outcome) -> Self {
        Self { outcome, turn: None, decided_on: None }
    }
}

impl Inner {
    pub(crate) async fn perform(
        &self,
        effect: &Effect,
        operation: &Operation,
        _secrets: &Secrets,
    ) -> Result<Performed, EngineError> {
        let key = self.ports.reads.key_load(operation.key.key_id).await?;
        match effect.id.step {
            EffectStep::Decision => self.obtain_decision(operation, key.as_ref()).await,
            EffectStep::Admission
            | EffectStep::PolicyReceipt
            | EffectStep::Execute
            | EffectStep::CommitEpoch
            | EffectStep::Publish
            | EffectStep::Discard => {
                Ok(self.ports.nodes.perform(effect, operation, key.as_ref()).await?.into())
            }
        }
    }

    /// The policy over all approvals once more, then the authority's signature.
    async fn obtain_decision(
        &self,
        operation: &Operation,
        key: Option<&CustodyKey>,
    ) -> Result<Performed, EngineError> {
        let key = match key {
            _ if operation.intent.operation_type() == OperationType::KeyCreate => None,
            Some(key) if key.state.can_sign() => Some(key),
            // It may yet be made: the approvals wait for it, until they expire.
            Some(key) if !key.is_free() => {
                return Err(Refusal::KeyNotActive { state: key.state.as_str() }.into());
            }
            Some(_) | None => {
                return Ok(
                    rejected("custody_key_not_active", "the key does not sign".to_owned(), None).into()
                );
            }
        };
        if let Some(misfit) = key.and_then(|key| misfit(&operation.intent, key)) {
            return Ok(misfit.into());
        }
        let spent_beside = self.spending_asked(&operation.intent);
        let turn = match spent_beside {
            Some(payment) => Some(self.spending_turn(&operation.tenant, payment).await?),
            None => None,
        };
        let policy = self
            .judge_operation(Moment::Admission, operation, &operation.approvals, key, spent_beside)
            .await?;
        let outcome = self.decided(operation, key, policy).await?;
        Ok(Performed { outcome, turn, decided_on: key.cloned() })
    }

    /// The authority's signature, if the policy allows it.
    async fn decided(
        &self,
        operation: &Operation,
        key: Option<&CustodyKey>,
        policy: policy::Outcome,
    ) -> Result<Outcome, EngineError> {
        if let Err(fault) = judged(&policy) {
            let request = operation.request(Moment::Admission, &operation.approvals);
            self.record_decision(operation.id, &request, policy).await?;
            return Err(fault.into());
        }
        if !policy.is_allowed() || !policy.quorum.satisfied {
            return Ok(rejected("policy_rejected", policy.reason_texts().join("; "), Some(policy)));
        }
        let derivation = match self.derivation(operation, key) {
            Ok(derivation) => derivation,
            Err(why) => return Ok(rejected("derivation_impossible", why, None)),
        };
        let now = self.ports.clock.now();
        let request = AdmissionRequest {
            operation,
            policy: &policy,
            key,
            derivation: derivation.as_ref(),
            // A node's clock may be behind.
            not_before_ms: EpochMs(now.0.saturating_sub(CLOCK_SKEW_MS)),
            not_after_ms: now.plus_ms(self.rules.admission_ttl_ms),
        };
        let admission = Box::new(self.ports.authority.sign(request).await?);
        Ok(Outcome::DecisionSigned { policy, admission })
    }

    fn derivation(
        &self,
        operation: &Operation,
        key: Option<&CustodyKey>,
    ) -> Result<Option<Derivation>, String> {
        match (operation.intent.bip32(), key) {
            (Some(bip32), Some(key)) => self.ports.nodes.derive(key, bip32).map(Some),
            (Some(_) | None, _) => Ok(None),
        }
    }
}

/// The key has changed since the submission, so that the intent asks for something impossible now.
fn misfit(intent: &Intent, key: &CustodyKey) -> Option<Outcome> {
    let why = check_key(intent, key).err()?;
    let is_epoch = matches!(why, EngineError::Refused(Refusal::EpochConflict(_)));
    let code = if is_epoch { "epoch_conflict" } else { "key_changed" };
    let detail = match why {
        EngineError::Invalid { pointer, message } => format!("`{pointer}` {message}"),
        other => other.to_string(),
    };
    Some(rejected(code, detail, None))
}

fn rejected(code: &str, detail: String, policy: Option<policy::Outcome>) -> Outcome {
    Outcome::Rejected { failure: Failure { code: code.to_owned(), detail, culprits: Vec::new() }, policy }
}
