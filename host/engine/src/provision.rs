//! Which key an operation uses, and the development keys made on first use (decisions.md 5).

use crate::draft::Draft;
use crate::engine::Inner;
use crate::error::{Dependency, EngineError, Unavailable, judged};
use crate::fit::WITH_CHILDREN;
use crate::judge::PROVISIONER;
use crate::secret::Secrets;
use crate::submit::Submit;
use gateway_domain::binding::ClientBinding;
use gateway_domain::canonical;
use gateway_domain::ids::{KeyRef, OperationId};
use gateway_domain::intent::{Intent, KeyCreate, KeyUse, OperationType, Payment, SigningTerms};
use gateway_domain::key::{CustodyKey, KeyState};
use gateway_domain::operation::{Action, Failure, Operation, Phase, Refusal, Submission};
use gateway_domain::policy::Moment;
use gateway_domain::roster::Threshold;
use std::future::Future;
use std::pin::Pin;

/// Names of the keys made for operations that name none.
const DEVELOPMENT_PREFIX: &str = "development/";

/// Whether a key's creation goes on without the approvals it waits for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Waiver {
    No,
    IfPolicyAgrees,
}

/// Submission calls provisioning, which submits: the box ends the recursion of types.
type BoxFuture<'a> = Pin<Box<dyn Future<Output = Result<(), EngineError>> + Send + 'a>>;

impl Inner {
    /// Names of keys that callers make are theirs: not those of development keys.
    pub(crate) fn check_new_name(pointer: &'static str, key_ref: &KeyRef) -> Result<(), EngineError> {
        if !key_ref.0.starts_with(DEVELOPMENT_PREFIX) {
            return Ok(());
        }
        let message =
            format!("must not begin with `{DEVELOPMENT_PREFIX}`: the gateway names development keys so");
        Err(EngineError::Invalid { pointer, message })
    }

    /// The key a product operation names, or the development key of its participants.
    pub(crate) fn key_ref_for(&self, intent: &Intent) -> Result<KeyRef, EngineError> {
        let Intent::Payment(payment) = intent else {
            return Err(EngineError::Internal("only payments choose their key".to_owned()));
        };
        match &payment.key_ref {
            Some(key_ref) if key_ref.0.starts_with(DEVELOPMENT_PREFIX) => Err(EngineError::Invalid {
                pointer: "/key_ref",
                message: format!(
                    "must not begin with `{DEVELOPMENT_PREFIX}`: leave it out to use a development key"
                ),
            }),
            Some(key_ref) => Ok(key_ref.clone()),
            None if self.rules.auto_provision_keys => Ok(development_key_ref(&payment.terms)),
            None => Err(EngineError::Invalid {
                pointer: "/key_ref",
                message: "must name a key in this deployment".to_owned(),
            }),
        }
    }

    /// Makes the key a submission needs, for the participants it asked: a key creation like any other, driven as far as it
    /// gets without anybody. A creation that is under way is taken up; doing it again finds it done.
    pub(crate) fn provision<'a>(
        &'a self,
        submission: &'a Submission,
        key: Option<&'a CustodyKey>,
    ) -> BoxFuture<'a> {
        Box::pin(self.provision_unboxed(submission, key))
    }

    async fn provision_unboxed(
        &self,
        submission: &Submission,
        key: Option<&CustodyKey>,
    ) -> Result<(), EngineError> {
        let creation = match key {
            Some(key) if key.state.can_sign() => return Ok(()),
            Some(key) if key.state == KeyState::Creating => key.created_by,
            Some(_) | None => self.submit_creation(submission, key).await?,
        };
        let draft = self.make_key(creation, Waiver::No).await?;
        match draft.operation.failure {
            // What was approved by then waits for the key, and the key for its own approvals.
            None => Ok(()),
            Some(Failure { detail, .. }) => {
                let why = format!("the key of this operation is not made: {detail}");
                Err(Unavailable::new(Dependency::Runtime, why).into())
            }
        }
    }

    /// What an approved operation is to sign with is made now, in a deployment that makes keys without approvals. Where
    /// nodes want every approval signed, they would refuse.
    pub(crate) async fn make_key_for(&self, operation: &Operation) -> Result<(), EngineError> {
        if !self.rules.auto_provision_keys
            || self.rules.signed_approvals.is_required()
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

    /// Brings a creation as far as it gets by itself.
    async fn make_key(&self, creation: OperationId, waiver: Waiver) -> Result<Draft, EngineError> {
        // A key that a rotation makes is not made for a signature: whoever wants that waits for nothing here.
        if self.load_draft(creation).await?.operation.intent.operation_type() != OperationType::KeyCreate {
            return Err(Refusal::KeyNotActive { state: KeyState::Creating.as_str() }.into());
        }
        let _one_of_few = self.ceremonies.acquire().await;
        let _turn = self.locks.lock(creation).await?;
        let mut draft = self.load_draft(creation).await?;
        self.expire(&mut draft, self.ports.clock.now())?;
        if waiver == Waiver::IfPolicyAgrees && draft.operation.phase == Phase::PendingApproval {
            self.waive_approvals(&mut draft).await?;
        }
        let secrets = Secrets::default();
        self.drive(&mut draft, &secrets).await?;
        if draft.operation.phase == Phase::Admitted {
            draft.ask(self.ports.clock.now(), Action::Execute { requested_at_ms: None, key: None })?;
            self.drive(&mut draft, &secrets).await?;
        }
        Ok(draft)
    }

    async fn load_draft(&self, id: OperationId) -> Result<Draft, EngineError> {
        let record = self.ports.reads.operation_load(id).await?;
        record.map(Draft::load).ok_or(EngineError::OperationNotFound)
    }

    /// The policy over the approvals there are, none being required; what it does not agree to is on record.
    async fn waive_approvals(&self, draft: &mut Draft) -> Result<(), EngineError> {
        let operation = draft.operation.clone();
        let request = operation.request(Moment::Approval, &operation.approvals);
        let policy = self.judge(request, None, None, 0).await?;
        let fault = judged(&policy);
        let ask = Action::WaiveApprovals { policy: policy.clone() };
        if draft.ask(self.ports.clock.now(), ask)? == 0 {
            self.record_decision(operation.id, &request, policy).await?;
        }
        Ok(fault?)
    }

    /// The creation's name follows from what is created and from the creation that failed before, if any.
    async fn submit_creation(
        &self,
        submission: &Submission,
        failed: Option<&CustodyKey>,
    ) -> Result<OperationId, EngineError> {
        let Intent::Payment(payment) = &submission.intent else {
            return Err(EngineError::Internal("only payments get keys made".to_owned()));
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
            unknown_fields: Vec::new(),
        };
        Ok(self.create_once(create, submission.key.clone(), claim).await?.operation.id)
    }
}

fn threshold(terms: &SigningTerms) -> Threshold {
    terms.threshold.unwrap_or_else(|| terms.requested_participants.majority())
}

/// One development key for each set of participants and threshold.
fn development_key_ref(terms: &SigningTerms) -> KeyRef {
    let holders =
        terms.requested_participants.iter().map(|index| index.to_string()).collect::<Vec<_>>().join("-");
    KeyRef(format!("{DEVELOPMENT_PREFIX}{}-of-{holders}", threshold(terms).0))
}

fn key_create(payment: &Payment) -> KeyCreate {
    KeyCreate {
        asset_id: "development".to_owned(),
        purpose: "made on first use".to_owned(),
        participants: payment.terms.requested_participants.clone(),
        threshold: threshold(&payment.terms),
        // So that `bip32` works on them.
        signature_profile: WITH_CHILDREN.to_owned(),
        requested_signature_profile: None,
        chains: Vec::new(),
        serves: Some(KeyUse::Payments),
    }
}

fn provisioner(submission: &Submission) -> ClientBinding {
    ClientBinding {
        client_id: PROVISIONER.to_owned(),
        subject_id: "auto-provision".to_owned(),
        roles: Vec::new(),
        scopes: Vec::new(),
        cert_sha256: None,
        token_jti: None,
        tenant: Some(submission.tenant.clone()),
    }
}
