//! Submission: replay → key → policy → open → commit and charge → drive.

use crate::draft::Draft;
use crate::engine::{Engine, Inner};
use crate::error::{EngineError, judged};
use crate::fit::check_keys;
use crate::judge::PROVISIONER;
use crate::ports::Record;
use crate::rate::{Quota, Token};
use crate::target::until_unraced;
use gateway_domain::binding::ClientBinding;
use gateway_domain::canonical;
use gateway_domain::ids::{Hex32, KeyRef, OperationId, Tenant};
use gateway_domain::intent::{self, Family, Intent};
use gateway_domain::key::CustodyKey;
use gateway_domain::operation::{Action, KeySlot, Submission, open};
use gateway_domain::policy::{self, Moment};

/// A parsed request to create an operation.
#[derive(Clone, Debug)]
pub struct Submit {
    /// Whose operation.
    pub tenant: Tenant,
    /// Who submits it, as authenticated.
    pub submitter: ClientBinding,
    /// The request's own name within tenant and family, and key for a custody operation; without one the body's
    /// digest names it.
    pub idempotency_key: Option<String>,
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
    /// What the client may still submit; none for a replay, which costs nothing, and while the limit is off.
    pub budget: Option<Quota>,
}

/// A submission on its way to become an operation.
pub(crate) struct Creation {
    pub(crate) id: OperationId,
    pub(crate) submit: Submit,
    pub(crate) slot: KeySlot,
    pub(crate) claim: String,
    /// What it costs its client, whether it is created or refused by the policy.
    pub(crate) charge: Option<Token>,
}

impl Engine {
    /// Creates a product operation, or returns the one this idempotency key made.
    ///
    /// # Errors
    /// [`EngineError`]: `PolicyRejected`, `RateLimited`, `Invalid`, `KeyNotFound`, `Unavailable`.
    pub async fn submit(&self, submit: Submit) -> Result<Submitted, EngineError> {
        let engine = self.clone();
        self.run_to_end(async move { until_unraced(|| Box::pin(engine.0.submit(submit.clone()))).await })
            .await
    }

    /// Creates a custody operation on the key of this name, or returns the one this request made.
    ///
    /// # Errors
    /// [`EngineError`]: as [`Self::submit`], and `KeyExists`, `Refused`.
    pub async fn submit_on_key(&self, submit: Submit, key_ref: KeyRef) -> Result<Submitted, EngineError> {
        let engine = self.clone();
        let work = async move {
            until_unraced(|| Box::pin(engine.0.submit_on_key(submit.clone(), key_ref.clone()))).await
        };
        self.run_to_end(work).await
    }
}

impl Inner {
    async fn submit(&self, submit: Submit) -> Result<Submitted, EngineError> {
        let claim = submit.claim();
        let id = intent::operation_id(&submit.tenant, Family::Product, None, &claim)?;
        let _turn = self.locks.lock(id).await?;
        if let Some(record) = self.ports.reads.operation_load(id).await? {
            return self.replay(record, submit.body_digest).await;
        }
        let charge = self.charge(&submit.tenant, &submit.submitter.client_id)?;
        let key_ref = self.key_ref_for(&submit.intent)?;
        let slot = KeySlot { key_id: intent::key_id(&submit.tenant, &key_ref)?, key_ref };
        self.create(Creation { id, submit, slot, claim, charge }).await.map(created)
    }

    async fn submit_on_key(&self, submit: Submit, key_ref: KeyRef) -> Result<Submitted, EngineError> {
        check_names(&submit, &key_ref)?;
        let slot = KeySlot { key_id: intent::key_id(&submit.tenant, &key_ref)?, key_ref };
        let mut claim = submit.claim();
        if matches!(submit.intent, Intent::KeyCreate(_))
            && let Some(key) = self.ports.reads.key_load(slot.key_id).await?
        {
            let creation = self.ports.reads.operation_load(key.created_by).await?;
            let is_same = |record: &Record| record.operation.body_digest == submit.body_digest;
            match creation {
                // What failed left nothing behind: the same request is a new creation.
                _ if key.is_free() => claim = after_failure(&submit, key.created_by)?,
                Some(record) if is_same(&record) => return self.replay(record, submit.body_digest).await,
                Some(_) | None => return Err(EngineError::KeyExists(slot.key_ref.0)),
            }
        }
        let id = intent::operation_id(&submit.tenant, Family::Custody, Some(&slot.key_ref), &claim)?;
        let _turn = self.locks.lock(id).await?;
        if let Some(record) = self.ports.reads.operation_load(id).await? {
            return self.replay(record, submit.body_digest).await;
        }
        let charge = self.charge(&submit.tenant, &submit.submitter.client_id)?;
        self.create(Creation { id, submit, slot, claim, charge }).await.map(created)
    }

    /// The custody operation of this claim, made when it is not there yet: the gateway's own submissions.
    pub(crate) async fn create_once(
        &self,
        submit: Submit,
        slot: KeySlot,
        claim: String,
    ) -> Result<Record, EngineError> {
        let id = intent::operation_id(&submit.tenant, Family::Custody, Some(&slot.key_ref), &claim)?;
        let _turn = self.locks.lock(id).await?;
        match self.ports.reads.operation_load(id).await? {
            Some(record) => Ok(record),
            None => {
                let creation = Creation { id, submit, slot, claim, charge: None };
                self.create(creation).await.map(Draft::into_record)
            }
        }
    }

    /// keys → policy → open → commit → drive. The caller holds the operation's lock.
    async fn create(&self, creation: Creation) -> Result<Draft, EngineError> {
        let (claim, charge) = (creation.claim.clone(), creation.charge.clone());
        self.check_nodes(&creation.submit.intent)?;
        let successor = successor(&creation.submit)?;
        let keys = self.keys_in(&creation.slot, successor.as_ref()).await?;
        let (intent, key_ref) = (&creation.submit.intent, &creation.slot.key_ref);
        check_keys(intent, key_ref, &keys, self.rules.auto_provision_keys)?;
        let submission = self.admit_submission(creation, successor, keys.subject.as_ref()).await?;
        if submission.intent.family() == Family::Product && self.rules.auto_provision_keys {
            self.provision(&submission, keys.subject.as_ref()).await?;
        }
        let mut draft = Draft::open(open(submission, self.ports.clock.now()), claim, keys, charge)?;
        self.drive_or_wait(&mut draft).await?;
        Ok(draft)
    }

    /// Participants must be among the deployment's nodes.
    pub(crate) fn check_nodes(&self, intent: &Intent) -> Result<(), EngineError> {
        let (pointer, participants) = match intent {
            Intent::Payment(payment) => ("/requested_participants", &payment.terms.requested_participants),
            Intent::AssetAction(action) => ("/requested_participants", &action.terms.requested_participants),
            Intent::KeyCreate(create) => ("/participants", &create.participants),
            Intent::Reshare(reshare) => ("/new_participants", &reshare.new_participants),
            Intent::Rotate(rotate) => ("/participants", &rotate.participants),
            // They name holders of the key, or nobody.
            Intent::Refresh(_) | Intent::Recover(_) => return Ok(()),
        };
        let n_nodes = self.rules.n_nodes;
        match participants.iter().find(|participant| participant.0 >= n_nodes) {
            None => Ok(()),
            Some(stranger) => Err(EngineError::Invalid {
                pointer,
                message: format!(
                    "names participant `{stranger}`; this deployment has the nodes 0 to {}",
                    n_nodes - 1
                ),
            }),
        }
    }

    /// Asks the policy; a refusal leaves nothing but its record.
    async fn admit_submission(
        &self,
        creation: Creation,
        successor: Option<KeySlot>,
        existing: Option<&CustodyKey>,
    ) -> Result<Submission, EngineError> {
        let Creation { id, submit, slot: key, charge, .. } = creation;
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
        let required = self.required(&submit.intent, &submit.submitter);
        let policy = self.judge(request, existing, self.spending_asked(&submit.intent), required).await?;
        if !policy.is_allowed() {
            return Err(self.refuse_submission(id, &request, policy, charge).await?);
        }
        let Submit { tenant, submitter, intent, body_digest, unknown_fields, .. } = submit;
        Ok(Submission {
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
        })
    }

    /// What a refused submission is answered, once that is on record.
    async fn refuse_submission(
        &self,
        id: OperationId,
        request: &policy::Request<'_>,
        policy: policy::Outcome,
        charge: Option<Token>,
    ) -> Result<EngineError, EngineError> {
        let (judged, reasons) = (judged(&policy), policy.reason_texts());
        let budget = self.record_refusal(id, request, policy, charge).await?;
        Ok(match judged {
            Err(fault) => fault.into(),
            Ok(()) => EngineError::PolicyRejected { reasons, budget },
        })
    }

    /// The same idempotency key again: the existing operation, whatever the body (decisions.md 3).
    async fn replay(&self, record: Record, body_digest: Hex32) -> Result<Submitted, EngineError> {
        let body_differs = record.operation.body_digest != body_digest;
        if !body_differs {
            return Ok(Submitted { record, replayed: true, body_differs, budget: None });
        }
        let mut draft = Draft::load(record);
        draft.ask(self.ports.clock.now(), Action::NoteReplay { body_digest })?;
        draft.commit(self).await?;
        Ok(Submitted { record: draft.into_record(), replayed: true, body_differs, budget: None })
    }
}

impl Submit {
    fn claim(&self) -> String {
        self.idempotency_key.clone().unwrap_or_else(|| self.body_digest.to_string())
    }
}

fn created(draft: Draft) -> Submitted {
    let budget = draft.budget();
    Submitted { record: draft.into_record(), replayed: false, body_differs: false, budget }
}

/// Names that are not a caller's to use.
fn check_names(submit: &Submit, key_ref: &KeyRef) -> Result<(), EngineError> {
    if submit.submitter.client_id == PROVISIONER {
        let message = format!("must not be `{PROVISIONER}`: that is the gateway itself");
        return Err(EngineError::Invalid { pointer: "/client/client_id", message });
    }
    match &submit.intent {
        Intent::KeyCreate(_) => Inner::check_new_name("/key_ref", key_ref),
        Intent::Rotate(rotate) if rotate.new_key_ref == *key_ref => {
            let message = "must be another name than the key's".to_owned();
            Err(EngineError::Invalid { pointer: "/new_key_ref", message })
        }
        Intent::Rotate(rotate) => Inner::check_new_name("/new_key_ref", &rotate.new_key_ref),
        Intent::Payment(_)
        | Intent::AssetAction(_)
        | Intent::Refresh(_)
        | Intent::Reshare(_)
        | Intent::Recover(_) => Ok(()),
    }
}

/// The name of the same creation after one that failed.
fn after_failure(submit: &Submit, failed: OperationId) -> Result<String, EngineError> {
    Ok(canonical::digest("svc/key-create/v1", &(submit.body_digest, failed))?.to_string())
}

/// The key that a rotation makes.
fn successor(submit: &Submit) -> Result<Option<KeySlot>, EngineError> {
    let Intent::Rotate(rotate) = &submit.intent else { return Ok(None) };
    let key_ref = rotate.new_key_ref.clone();
    Ok(Some(KeySlot { key_id: intent::key_id(&submit.tenant, &key_ref)?, key_ref }))
}
