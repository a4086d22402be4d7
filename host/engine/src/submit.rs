//! Submission: replay → key → policy → open → commit with a token → drive.

use crate::engine::{Engine, Inner};
use crate::error::EngineError;
use crate::locks::Locked;
use crate::policy::{Stated, check_evaluated};
use crate::ports::{Asked, Record};
use crate::rate_limit::{Quota, Token};
use crate::reserved::{self, PROVISIONER};
use crate::session::{Session, UseCase};
use gateway_domain::binding::ClientBinding;
use gateway_domain::canonical;
use gateway_domain::ids::{Hex32, KeyRef, OperationId, Tenant};
use gateway_domain::intent::{self, Family, Intent};
use gateway_domain::key::CustodyKey;
use gateway_domain::key::fit::{check_keys, fence_holds};
use gateway_domain::key::transitions::Keys;
use gateway_domain::operation::{Action, KeySlot, Submission, open};
use gateway_domain::policy::{self, Missing, Moment};
use std::collections::BTreeMap;

/// A parsed request to create an operation.
#[derive(Clone, Debug)]
pub struct Submit {
    /// The tenant that will own the operation.
    pub tenant: Tenant,
    /// The authenticated caller.
    pub submitter: ClientBinding,
    /// The claims of the caller that the policy may read, as facts by name.
    pub claims: BTreeMap<String, String>,
    /// The idempotency key, unique within the tenant and family, and for a custody operation within its key. Without
    /// one, the digest of the body is used.
    pub idempotency_key: Option<String>,
    /// The requested work.
    pub intent: Intent,
    /// Digest of the request body.
    pub body_digest: Hex32,
    /// Members of the body that the interface does not have.
    pub unknown_fields: Vec<String>,
    /// The request's id.
    pub request_id: Option<String>,
}

/// A request to create a custody operation on the key of this name.
struct SubmitOnKey(Submit, KeyRef);

/// The answer to a submission.
#[derive(Clone, Debug)]
pub struct Submitted {
    /// The operation.
    pub record: Record,
    /// Whether it existed already.
    pub replayed: bool,
    /// Whether it existed and was created by a request with another body.
    pub body_differs: bool,
    /// Whether the epoch fence does not hold, so that execution will fail; false for a replay.
    pub fence_is_stale: bool,
    /// The people whom groups of the policy lack, and whom no one in the registry can be; empty for a replay.
    pub unfillable: Vec<Missing>,
    /// The client's quota. `None` for a replay, which takes no token, and while the limit is off.
    pub quota: Option<Quota>,
}

impl Submitted {
    const fn replay(record: Record, body_differs: bool) -> Self {
        Self {
            record,
            replayed: true,
            body_differs,
            fence_is_stale: false,
            unfillable: Vec::new(),
            quota: None,
        }
    }
}

impl Engine {
    /// Creates a custody operation on the key of this name, or returns the one that this request created.
    ///
    /// # Errors
    /// [`EngineError`]: as [`Self::submit`], and `KeyExists`, `Refused`.
    pub async fn submit_on_key(&self, submit: Submit, key_ref: KeyRef) -> Result<Submitted, EngineError> {
        self.run(SubmitOnKey(submit, key_ref)).await
    }
}

impl UseCase for Submit {
    type Answer = Submitted;

    async fn run(&self, engine: &Inner) -> Result<Submitted, EngineError> {
        match engine.prepare_payment(self, false).await? {
            Prepared::Existing(submitted) => Ok(*submitted),
            Prepared::New(new) => new.create().await,
        }
    }
}

impl UseCase for SubmitOnKey {
    type Answer = Submitted;

    async fn run(&self, engine: &Inner) -> Result<Submitted, EngineError> {
        let SubmitOnKey(submit, key_ref) = self;
        check_names(submit, key_ref)?;
        let mut claim = submit.claim();
        let key_id = intent::key_id(&submit.tenant, key_ref)?;
        if matches!(submit.intent, Intent::KeyCreate(_))
            && let Some(key) = engine.ports.reads.key_load(key_id).await?
        {
            // The creation failed and left nothing behind, so the same request is a new creation.
            if key.is_name_free() {
                claim = claim_after_failure(submit, key.created_by)?;
            } else {
                return engine.replay_creation(key.created_by, submit, key_ref).await;
            }
        }
        let slot = KeySlot { key_id, key_ref: key_ref.clone() };
        match engine.prepare_on_key(submit, slot, claim, Origin::Client).await? {
            Prepared::Existing(submitted) => Ok(*submitted),
            Prepared::New(new) => new.create().await,
        }
    }
}

/// A submission that may be created, or the operation that it created before.
pub(crate) enum Prepared<'e> {
    Existing(Box<Submitted>),
    New(Box<NewOperation<'e>>),
}

impl Prepared<'_> {
    fn existing(record: Record, body_differs: bool) -> Self {
        Self::Existing(Box::new(Submitted::replay(record, body_differs)))
    }
}

/// Who submits: a client has rate limits, and its replays with another body are noted.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    Client,
    Gateway,
}

/// An operation that the policy allows and that does not exist yet. Its id is locked.
pub(crate) struct NewOperation<'e> {
    engine: &'e Inner,
    lock: Locked,
    pub(crate) submission: Submission,
    claim: String,
    pub(crate) keys: Keys,
    token: Option<Token>,
    fence_is_stale: bool,
    unfillable: Vec<Missing>,
}

/// The id, lock and key of an operation that does not exist yet, before the policy is evaluated.
struct Identity {
    id: OperationId,
    lock: Locked,
    slot: KeySlot,
    claim: String,
    /// Taken when the operation is created, and also when the policy refuses it.
    token: Option<Token>,
}

impl Inner {
    /// Finds the operation that this submission created before, or checks that it may be created. With `may_lack_key`
    /// the key need not exist yet. Writes only a replay with another body, or a refusal.
    pub(crate) async fn prepare_payment(
        &self,
        submit: &Submit,
        may_lack_key: bool,
    ) -> Result<Prepared<'_>, EngineError> {
        let claim = submit.claim();
        let id = intent::operation_id(&submit.tenant, Family::Product, None, &claim)?;
        let lock = self.locks.lock(id).await?;
        if let Some(record) = self.ports.reads.operation_load(id).await? {
            return Session::load(self, lock, record).replay(submit.body_digest).await;
        }
        let token = self.token(&submit.tenant, &submit.submitter.client_id)?;
        let key_ref = self.key_ref_for(&submit.intent)?;
        let slot = KeySlot { key_id: intent::key_id(&submit.tenant, &key_ref)?, key_ref };
        self.prepare(submit, Identity { id, lock, slot, claim, token }, may_lack_key).await
    }

    /// As [`Self::prepare_payment`], for a custody submission.
    pub(crate) async fn prepare_on_key(
        &self,
        submit: &Submit,
        slot: KeySlot,
        claim: String,
        origin: Origin,
    ) -> Result<Prepared<'_>, EngineError> {
        let id = intent::operation_id(&submit.tenant, Family::Custody, Some(&slot.key_ref), &claim)?;
        let lock = self.locks.lock(id).await?;
        let existing = self.ports.reads.operation_load(id).await?;
        let token = match (existing, origin) {
            (Some(record), Origin::Client) => {
                return Session::load(self, lock, record).replay(submit.body_digest).await;
            }
            (Some(record), Origin::Gateway) => return Ok(Prepared::existing(record, false)),
            (None, Origin::Client) => self.token(&submit.tenant, &submit.submitter.client_id)?,
            (None, Origin::Gateway) => None,
        };
        self.prepare(submit, Identity { id, lock, slot, claim, token }, false).await
    }

    /// Checks the participants and the keys, then evaluates the policy.
    async fn prepare(
        &self,
        submit: &Submit,
        identity: Identity,
        may_lack_key: bool,
    ) -> Result<Prepared<'_>, EngineError> {
        self.check_participants(&submit.intent)?;
        let Identity { id, lock, slot: key, claim, token } = identity;
        let successor = successor(submit)?;
        let keys = self.keys_in(&key, successor.as_ref()).await?;
        check_keys(&submit.intent, &key.key_ref, &keys, may_lack_key)?;
        let fence_is_stale = self.check_fence(&submit.intent, keys.subject.as_ref())?;
        // Approvers sign which key it is. No refresh or reshare changes it.
        let named = keys.subject.as_ref().and_then(CustodyKey::generated_artifact_ref);
        let intent = submit.intent.clone().naming(named);
        let intent_hash = intent.hash()?;
        let registered = self.registered(&submit.tenant, &submit.submitter.subject_id)?;
        let submitter = ClientBinding { registered, ..submit.submitter.clone() };
        let request = policy::Request {
            moment: Moment::Submit,
            intent_hash,
            tenant: &submit.tenant,
            key_ref: &key.key_ref,
            submitter: &submitter,
            intent: &intent,
            approvals: &[],
        };
        let required = self.required_approvals(&submit.intent, &submit.submitter);
        let parties = self.parties(&submit.tenant, &submitter, key.key_id, &submit.intent);
        let spending = self.spending(parties).await?;
        let (subject, stated) = (keys.subject.as_ref(), Stated::claims(submit.claims.clone()));
        let policy = self
            .evaluate_stated(Some(id), request, subject, spending.clone(), required, stated.clone())
            .await?;
        if !policy.is_allowed() {
            return Err(self.refuse_submission(id, submit.asked(), &request, policy, token).await?);
        }
        let unfillable = self.unfillable(request, subject, spending, required, stated, &policy).await?;
        let Submit { tenant, body_digest, unknown_fields, .. } = submit.clone();
        let submission = Submission {
            operation_id: id,
            tenant,
            submitter,
            intent,
            intent_hash,
            key,
            successor,
            body_digest,
            unknown_fields,
            policy,
        };
        let new =
            NewOperation { engine: self, lock, submission, claim, keys, token, fence_is_stale, unfillable };
        Ok(Prepared::New(Box::new(new)))
    }

    /// Whether the intent is fenced to another epoch than the key's active one, where that is not refused.
    fn check_fence(&self, intent: &Intent, key: Option<&CustodyKey>) -> Result<bool, EngineError> {
        let active_root = key.map_or(Hex32::ZERO, |key| key.epoch.root);
        if fence_holds(intent, active_root) {
            return Ok(false);
        }
        if !self.rules.refuses_stale_fences {
            return Ok(true);
        }
        let message = format!("must be the key's active epoch root, `{active_root}`");
        Err(EngineError::Invalid { pointer: "/epoch_fence_token_hex", message })
    }

    /// Checks that every participant is one of the deployment's nodes.
    pub(crate) fn check_participants(&self, intent: &Intent) -> Result<(), EngineError> {
        let (pointer, participants) = match intent {
            Intent::Payment(payment) => ("/requested_participants", &payment.terms.requested_participants),
            Intent::AssetAction(action) => ("/requested_participants", &action.terms.requested_participants),
            Intent::KeyCreate(create) => ("/participants", &create.participants),
            Intent::Reshare(reshare) => ("/new_participants", &reshare.new_participants),
            Intent::Rotate(rotate) => ("/participants", &rotate.participants),
            // A recovery names holders of the key, which `check_key` checks. A refresh names no participants.
            Intent::Refresh(_) | Intent::Recover(_) => return Ok(()),
        };
        let n_nodes = self.rules.n_nodes;
        match participants.iter().find(|participant| participant.0 >= n_nodes) {
            None => Ok(()),
            Some(unknown) => Err(EngineError::Invalid {
                pointer,
                message: format!(
                    "names participant `{unknown}`; this deployment has the nodes 0 to {}",
                    n_nodes - 1
                ),
            }),
        }
    }

    /// The key that a product operation names, or in development the key of its participants.
    pub(crate) fn key_ref_for(&self, intent: &Intent) -> Result<KeyRef, EngineError> {
        let Intent::Payment(payment) = intent else {
            return Err(EngineError::Internal("only payments choose their key".to_owned()));
        };
        match &payment.key_ref {
            Some(key_ref) => {
                reserved::check_name("/key_ref", key_ref, "leave it out to use a development key")?;
                Ok(key_ref.clone())
            }
            None if self.rules.auto_provision_keys => Ok(reserved::key_ref(&payment.terms)),
            None => Err(EngineError::Invalid {
                pointer: "/key_ref",
                message: "must name a key in this deployment".to_owned(),
            }),
        }
    }

    /// Records a refused submission, and returns the error to answer with.
    async fn refuse_submission(
        &self,
        id: OperationId,
        asked: Asked,
        request: &policy::Request<'_>,
        policy: policy::Outcome,
        token: Option<Token>,
    ) -> Result<EngineError, EngineError> {
        let (evaluated, mut denied) = (check_evaluated(&policy), self.denied(&policy));
        let (decision_id, quota) = self.record_refusal(id, asked, request, policy, token).await?;
        denied.decision_id = decision_id;
        Ok(match evaluated {
            Err(fault) => fault.into(),
            Ok(()) => EngineError::PolicyRejected { creating: None, denied: Box::new(denied), quota },
        })
    }

    /// Answers the creation of a key that exists: with the operation that created it if the body is the same.
    ///
    /// # Errors
    /// [`EngineError::KeyExists`] if the body is another.
    async fn replay_creation(
        &self,
        creation: OperationId,
        submit: &Submit,
        key_ref: &KeyRef,
    ) -> Result<Submitted, EngineError> {
        let session = self.internal_session(creation).await?;
        if session.operation.body_digest != submit.body_digest {
            return Err(EngineError::KeyExists(key_ref.0.clone()));
        }
        Ok(Submitted::replay(session.into_record(), false))
    }
}

impl NewOperation<'_> {
    /// Creates the operation, and drives it until it rests.
    ///
    /// # Errors
    /// [`EngineError`]: `Conflict`, `RateLimited`, `Unavailable`.
    pub(crate) async fn create(self) -> Result<Submitted, EngineError> {
        let Self { engine, lock, submission, claim, keys, token, fence_is_stale, unfillable } = self;
        let events = open(submission, engine.ports.clock.now());
        let mut session = Session::open(engine, lock, events, claim, keys, token)?;
        session.drive_or_wait().await?;
        let quota = session.quota();
        let record = session.into_record();
        Ok(Submitted { record, replayed: false, body_differs: false, fence_is_stale, unfillable, quota })
    }
}

impl<'e> Session<'e> {
    /// Answers a repeated idempotency key with the existing operation, whatever the body. Records the digest of
    /// another body.
    async fn replay(mut self, body_digest: Hex32) -> Result<Prepared<'e>, EngineError> {
        let body_differs = self.operation.body_digest != body_digest;
        if body_differs {
            self.decide(Action::NoteReplay { body_digest })?;
            self.commit().await?;
        }
        Ok(Prepared::existing(self.into_record(), body_differs))
    }
}

impl Submit {
    /// The idempotency key, or the digest of the body if the request has no key.
    fn claim(&self) -> String {
        self.idempotency_key.clone().unwrap_or_else(|| self.body_digest.to_string())
    }

    fn asked(&self) -> Asked {
        Asked { request_id: self.request_id.clone(), idempotency_key: self.idempotency_key.clone() }
    }
}

/// Rejects names that are reserved for the gateway, and a rotation to the key's own name.
fn check_names(submit: &Submit, key_ref: &KeyRef) -> Result<(), EngineError> {
    const WHY: &str = "this prefix is reserved for development keys";
    if submit.submitter.client_id == PROVISIONER {
        let message = format!("must not be `{PROVISIONER}`: this id is reserved for the gateway");
        return Err(EngineError::Invalid { pointer: "/client/client_id", message });
    }
    match &submit.intent {
        Intent::KeyCreate(_) => reserved::check_name("/key_ref", key_ref, WHY),
        Intent::Rotate(rotate) if rotate.new_key_ref == *key_ref => {
            let message = "must be another name than the key's".to_owned();
            Err(EngineError::Invalid { pointer: "/new_key_ref", message })
        }
        Intent::Rotate(rotate) => reserved::check_name("/new_key_ref", &rotate.new_key_ref, WHY),
        Intent::Payment(_)
        | Intent::AssetAction(_)
        | Intent::Refresh(_)
        | Intent::Reshare(_)
        | Intent::Recover(_) => Ok(()),
    }
}

/// The idempotency key of a creation that follows a failed one.
fn claim_after_failure(submit: &Submit, failed: OperationId) -> Result<String, EngineError> {
    Ok(canonical::digest("svc/key-create/v1", &(submit.body_digest, failed))?.to_string())
}

/// The key that a rotation creates.
fn successor(submit: &Submit) -> Result<Option<KeySlot>, EngineError> {
    let Intent::Rotate(rotate) = &submit.intent else { return Ok(None) };
    let key_ref = rotate.new_key_ref.clone();
    Ok(Some(KeySlot { key_id: intent::key_id(&submit.tenant, &key_ref)?, key_ref }))
}
