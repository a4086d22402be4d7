//! Development only: keys that are created on first use.
//!
//! A payment that names no key gets one for its participants, which is created before the payment ([`WithKey`] around
//! a submission). When an approved signature is executed and its key's creation awaits approvals, the key is created
//! without them, if the policy agrees ([`WithKey`] around an execution). A deployment without `auto_provision_keys`
//! only reserves the names that are used here (`reserved`).

use crate::engine::{Engine, Inner};
use crate::error::{Dependency, EngineError, Unavailable};
use crate::execute::{Execute, is_requested};
use crate::policy::check_evaluated;
use crate::ports::Record;
use crate::reserved::{PROVISIONER, threshold};
use crate::session::{Session, Target, Targeted, UseCase};
use crate::submit::{Origin, Prepared, Submit, Submitted};
use gateway_domain::binding::ClientBinding;
use gateway_domain::canonical;
use gateway_domain::ids::OperationId;
use gateway_domain::intent::{Intent, KeyCreate, OperationType, Payment};
use gateway_domain::key::fit::BIP32_PROFILE;
use gateway_domain::key::{CustodyKey, KeyState};
use gateway_domain::operation::{Action, Failure, Operation, Phase, Refusal, Submission};
use gateway_domain::policy::Moment;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A use case that first creates the key it needs.
pub(crate) struct WithKey<U>(pub(crate) U);

impl Engine {
    /// Creates a product operation, or returns the one that this idempotency key created.
    ///
    /// # Errors
    /// [`EngineError`]: `PolicyRejected`, `RateLimited`, `Invalid`, `KeyNotFound`, `Unavailable`.
    pub async fn submit(&self, submit: Submit) -> Result<Submitted, EngineError> {
        if self.rules().auto_provision_keys {
            self.run(WithKey(submit)).await
        } else {
            self.run(submit).await
        }
    }

    /// Executes an admitted operation. After [`Rules::answer_within`](crate::Rules::answer_within) it returns the
    /// operation in its present state, and the execution continues.
    ///
    /// # Errors
    /// [`EngineError`]: `OperationNotFound`, `Refused`, `Unavailable`.
    pub async fn execute(&self, target: Target, execute: Execute) -> Result<Record, EngineError> {
        let use_case = Targeted(target.clone(), execute);
        if self.rules().auto_provision_keys {
            return self.answer_in_time(target, self.run(WithKey(use_case)), is_requested).await;
        }
        self.answer_in_time(target, self.run(use_case), is_requested).await
    }
}

impl UseCase for WithKey<Submit> {
    type Answer = Submitted;

    async fn run(&self, engine: &Inner) -> Result<Submitted, EngineError> {
        match engine.prepare_payment(&self.0, true).await? {
            Prepared::Existing(submitted) => Ok(*submitted),
            Prepared::New(new) => {
                engine.provision(&new.submission, new.keys.subject.as_ref()).await?;
                new.create().await
            }
        }
    }
}

impl UseCase for WithKey<Targeted<Execute>> {
    type Answer = Record;

    async fn run(&self, engine: &Inner) -> Result<Record, EngineError> {
        let operation = engine.find(&self.0.0).await?.operation;
        if matches!(operation.phase, Phase::Deciding | Phase::Admitting) {
            engine.finish_signing_key(&operation).await?;
        }
        self.0.run(engine).await
    }
}

/// Whether the creation of a key may continue without the approvals that it awaits.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Waiver {
    No,
    IfPolicyAgrees,
}

impl Inner {
    /// Creates the key that a payment needs, with a key creation like any other, driven until it rests. Continues a
    /// creation that has begun. Does nothing if the key can sign.
    async fn provision(&self, submission: &Submission, key: Option<&CustodyKey>) -> Result<(), EngineError> {
        let creation = match key {
            Some(key) if key.state.can_sign() => return Ok(()),
            Some(key) if key.state == KeyState::Creating => key.created_by,
            Some(_) | None => self.submit_creation(submission, key).await?,
        };
        match &self.make_key(creation, Waiver::No).await?.failure {
            // If the creation needs approvals, the payment is created now and waits for its key once it is approved.
            None => Ok(()),
            Some(Failure { detail, .. }) => {
                let why = format!("the key of this operation could not be created: {detail}");
                Err(Unavailable::new(Dependency::Runtime, why).into())
            }
        }
    }

    /// Finishes the creation of the key that an approved operation signs with, waiving its approvals if the policy agrees.
    /// Does nothing where approvals must be signed: the nodes would refuse a creation without signed approvals.
    async fn finish_signing_key(&self, operation: &Operation) -> Result<(), EngineError> {
        if self.rules.signed_approvals.is_required()
            || operation.intent.operation_type() != OperationType::Sign
        {
            return Ok(());
        }
        match self.ports.reads.key_load(operation.key.key_id).await? {
            Some(key) if key.state == KeyState::Creating => {
                self.make_key(key.created_by, Waiver::IfPolicyAgrees).await.map(drop)
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Drives the creation of a key until it rests, and executes it once it is admitted.
    async fn make_key(&self, creation: OperationId, waiver: Waiver) -> Result<Arc<Operation>, EngineError> {
        let record =
            self.ports.reads.operation_load(creation).await?.ok_or(EngineError::OperationNotFound)?;
        // The key is being created by a rotation, which needs its own requests.
        if record.operation.intent.operation_type() != OperationType::KeyCreate {
            return Err(Refusal::KeyNotActive { state: KeyState::Creating.as_str() }.into());
        }
        let _permit = self.development_keys.acquire().await;
        let mut session = self.internal_session(creation).await?;
        session.expire()?;
        if waiver == Waiver::IfPolicyAgrees && session.operation.phase == Phase::PendingApproval {
            session.waive_approvals().await?;
        }
        session.drive().await?;
        if session.operation.phase == Phase::Admitted {
            session.decide(Action::Execute { requested_at_ms: None, key: None })?;
            session.drive().await?;
        }
        Ok(session.into_record().operation)
    }

    /// Submits the key creation. Its idempotency key is derived from its intent and from the creation that failed
    /// before it, if any, so that all payments that need this key find the same operation.
    async fn submit_creation(
        &self,
        submission: &Submission,
        failed: Option<&CustodyKey>,
    ) -> Result<OperationId, EngineError> {
        let Intent::Payment(payment) = &submission.intent else {
            return Err(EngineError::Internal(
                "only the key of a payment is created on first use".to_owned(),
            ));
        };
        let intent = Intent::KeyCreate(key_create(payment));
        let before = failed.map(|key| key.created_by);
        let claim = canonical::digest("svc/key-create/v1", &(&intent, before))?.to_string();
        let create = Submit {
            tenant: submission.tenant.clone(),
            submitter: provisioner(submission),
            idempotency_key: None,
            intent,
            body_digest: submission.body_digest,
            claims: BTreeMap::new(),
            unknown_fields: Vec::new(),
            request_id: None,
        };
        let slot = submission.key.clone();
        let prepared = self.prepare_on_key(&create, slot, claim, Origin::Gateway).await;
        let prepared = prepared.map_err(|error| match error {
            EngineError::PolicyRejected { denied, quota, .. } => {
                EngineError::PolicyRejected { creating: Some(submission.key.key_ref.clone()), denied, quota }
            }
            // It did not exist when it was looked up: another replica has created it since.
            EngineError::KeyExists(_) => EngineError::Conflict,
            other => other,
        });
        let submitted = match prepared? {
            Prepared::Existing(submitted) => *submitted,
            Prepared::New(new) => new.create().await?,
        };
        Ok(submitted.record.operation.id)
    }
}

impl Session<'_> {
    /// Waives the approvals that are missing, if the policy allows the creation without any. Otherwise records the policy's
    /// decision.
    async fn waive_approvals(&mut self) -> Result<(), EngineError> {
        let operation = Arc::clone(&self.operation);
        let request = operation.request(Moment::Approval, &operation.approvals);
        let policy = self.engine.evaluate(operation.id, request, None, None, 0).await?;
        let evaluated = check_evaluated(&policy);
        if self.decide(Action::WaiveApprovals { policy: policy.clone() })? == 0 {
            self.engine.record_decision(operation.id, &request, policy).await?;
        }
        Ok(evaluated?)
    }
}

fn key_create(payment: &Payment) -> KeyCreate {
    KeyCreate {
        asset_id: "development".to_owned(),
        purpose: "made on first use".to_owned(),
        participants: payment.terms.requested_participants.clone(),
        threshold: threshold(&payment.terms),
        // The profile that supports `bip32`.
        signature_profile: BIP32_PROFILE.to_owned(),
        requested_signature_profile: None,
        chains: Vec::new(),
    }
}

/// The gateway itself as the client that submits a key creation.
fn provisioner(submission: &Submission) -> ClientBinding {
    ClientBinding {
        client_id: PROVISIONER.to_owned(),
        subject_id: "auto-provision".to_owned(),
        roles: Vec::new(),
        registered: None,
        scopes: Vec::new(),
        cert_sha256: None,
        token_jti: None,
        tenant: Some(submission.tenant.clone()),
    }
}
