//! Submission: replay → rate → key → policy → open → commit → drive.

use crate::draft::Draft;
use crate::engine::{Engine, Inner};
use crate::error::{EngineError, judged};
use crate::ports::{DecisionRecord, Record};
use crate::secret::Secrets;
use crate::target::until_unraced;
use gateway_domain::binding::ClientBinding;
use gateway_domain::ids::{Hex32, KeyRef, OperationId, Tenant};
use gateway_domain::intent::{self, Intent, OperationType};
use gateway_domain::key::{CustodyKey, Keys};
use gateway_domain::operation::{Ask, KeySlot, Submission, open};
use gateway_domain::policy::{self, Moment};
use gateway_domain::roster::Roster;

/// A parsed request to create an operation.
#[derive(Clone, Debug)]
pub struct Submit {
    /// Whose operation.
    pub tenant: Tenant,
    /// Who submits it, as authenticated.
    pub submitter: ClientBinding,
    /// The request's own name within tenant and family.
    pub idempotency_key: String,
    /// What is to be done.
    pub intent: Intent,
    /// Digest of the request body.
    pub body_digest: Hex32,
    /// Members of the body that the contract does not have.
    pub unknown_fields: Vec<String>,
}

/// What a submission is answered.
#[derive(Clone, Debug)]
pub struct Submitted {
    /// The operation.
    pub record: Record,
    /// Whether it existed already.
    pub replayed: bool,
    /// Whether it was created from another body.
    pub body_differs: bool,
}

impl Engine {
    /// Creates a product operation, or returns the one this idempotency key made.
    ///
    /// # Errors
    /// [`EngineError`]: `PolicyRejected`, `RateLimited`, `Invalid`, `KeyNotFound`, `Unavailable`.
    pub async fn submit(&self, submit: Submit) -> Result<Submitted, EngineError> {
        let engine = self.clone();
        self.run_to_end(
            async move { until_unraced(|| Box::pin(engine.0.submit(submit.clone(), None))).await },
        )
        .await
    }
}

impl Inner {
    /// `key_ref`: the key of the path, for the custody family; a product operation names its own.
    pub(crate) async fn submit(
        &self,
        submit: Submit,
        key_ref: Option<KeyRef>,
    ) -> Result<Submitted, EngineError> {
        let family = submit.intent.family();
        let id = intent::operation_id(&submit.tenant, family, key_ref.as_ref(), &submit.idempotency_key)?;
        let _turn = self.locks.lock(id).await;
        if let Some(record) = self.ports.reads.operation_load(id).await? {
            return self.replay(record, submit.body_digest).await;
        }
        let key_ref = match key_ref {
            Some(key_ref) => key_ref,
            None => {
                self.take_budget(&submit)?;
                self.key_ref_for(&submit.intent)?
            }
        };
        self.check_nodes(&submit.intent)?;
        let slot = KeySlot { key_id: intent::key_id(&submit.tenant, &key_ref)?, key_ref };
        let key = self.ports.reads.key_load(slot.key_id).await?;
        self.check_key(&submit.intent, &slot, key.as_ref())?;
        let (submission, claim) = self.admit_submission(id, submit, slot, key.as_ref()).await?;
        if submission.intent.operation_type() == OperationType::Sign && self.rules.auto_provision_keys {
            self.provision(&submission, key.as_ref()).await?;
        }
        let keys = Keys { subject: key, successor: None };
        let mut draft = Draft::open(open(submission, self.ports.clock.now()), claim, keys)?;
        self.drive(&mut draft, &Secrets::default()).await?;
        Ok(Submitted { record: draft.into_record(), replayed: false, body_differs: false })
    }

    /// Signers must be among the deployment's nodes.
    fn check_nodes(&self, intent: &Intent) -> Result<(), EngineError> {
        let participants = match intent {
            Intent::KeyCreate(create) => Some(&create.participants),
            Intent::Payment(_) | Intent::AssetAction(_) => {
                intent.signing_terms().map(|terms| &terms.requested_participants)
            }
            Intent::Refresh(_) | Intent::Recover(_) => None,
            Intent::Reshare(reshare) => Some(&reshare.new_participants),
            Intent::Rotate(rotate) => Some(&rotate.participants),
        };
        let n_nodes = self.rules.n_nodes;
        match participants.into_iter().flat_map(Roster::iter).find(|participant| participant.0 >= n_nodes) {
            None => Ok(()),
            Some(stranger) => Err(EngineError::Invalid {
                pointer: "/requested_participants",
                message: format!(
                    "names participant `{stranger}`; this deployment has the nodes 0 to {}",
                    n_nodes - 1
                ),
            }),
        }
    }

    fn take_budget(&self, submit: &Submit) -> Result<(), EngineError> {
        let limit = self.budgets.limit();
        let client = format!("{}\n{}", submit.tenant, submit.submitter.client_id);
        let taken = self.budgets.take(&client, self.ports.clock.now());
        taken.map_err(|retry_after_ms| EngineError::RateLimited { retry_after_ms, limit })
    }

    /// Asks the policy; a refusal leaves nothing but its record.
    async fn admit_submission(
        &self,
        id: OperationId,
        submit: Submit,
        key: KeySlot,
        existing: Option<&CustodyKey>,
    ) -> Result<(Submission, String), EngineError> {
        let intent_hash = submit.intent.hash()?;
        let request = policy::Request {
            moment: Moment::Submit,
            intent_hash,
            tenant: &submit.tenant,
            key_ref: &key.key_ref,
            submitter: &submit.submitter,
            intent: &submit.intent,
            approvals: &[],
        };
        let policy = self.judge(request, existing).await;
        if !policy.is_allowed() {
            return Err(self.refuse(id, &submit, intent_hash, policy).await?);
        }
        let Submit { tenant, submitter, idempotency_key, intent, body_digest, unknown_fields } = submit;
        let submission = Submission {
            operation_id: id,
            tenant,
            submitter,
            intent,
            intent_hash,
            key,
            successor: None,
            body_digest,
            unknown_fields,
            policy,
        };
        Ok((submission, idempotency_key))
    }

    async fn refuse(
        &self,
        operation_id: OperationId,
        submit: &Submit,
        intent_hash: Hex32,
        outcome: policy::Outcome,
    ) -> Result<EngineError, EngineError> {
        let answer = match judged(&outcome) {
            Err(fault) => fault.into(),
            Ok(()) => EngineError::PolicyRejected(outcome.reason_texts()),
        };
        let record = DecisionRecord {
            at_ms: self.ports.clock.now(),
            tenant: submit.tenant.clone(),
            operation_id,
            submitter: submit.submitter.clone(),
            intent_hash,
            outcome,
        };
        self.ports.commits.decision_record(record).await?;
        Ok(answer)
    }

    /// The same idempotency key again: the existing operation, whatever the body (decisions.md 3).
    async fn replay(&self, record: Record, body_digest: Hex32) -> Result<Submitted, EngineError> {
        let body_differs = record.operation.body_digest != body_digest;
        if !body_differs {
            return Ok(Submitted { record, replayed: true, body_differs });
        }
        let mut draft = Draft::load(record);
        draft.ask(self.ports.clock.now(), Ask::NoteReplay { body_digest })?;
        draft.commit(self).await?;
        Ok(Submitted { record: draft.into_record(), replayed: true, body_differs })
    }
}
