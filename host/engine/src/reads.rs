//! Reads for callers: operations, keys, the log of all events, the policy's bundles; and the preview of a policy decision.

use crate::approve::may_lapse;
use crate::engine::{Engine, Inner};
use crate::error::{EngineError, Unavailable};
use crate::lists::{PageSize, sound};
use crate::policy::Stated;
use crate::ports::{
    Asked, DerivedKeys, LogConsistency, LogHead, LogInclusion, PolicyHealth, PolicyStatus, PreviewRecord,
    ReadLog, Record, ShadowDifferences, Visibility,
};
use crate::session::Target;
use gateway_domain::approval::{Approval, LapsedApproval, SigningRule};
use gateway_domain::binding::{ClientBinding, TENANT_DEFAULT};
use gateway_domain::contribution::{Contributions, RecoveryCase};
use gateway_domain::evidence::ChainedEvent;
use gateway_domain::ids::{Hex32, KeyRef, OperationId, Tenant};
use gateway_domain::intent::{self, Intent};
use gateway_domain::key::fit::{BIP32_PROFILE, check_helpers, check_key};
use gateway_domain::key::{CustodyKey, KeyState};
use gateway_domain::log::{SignedCheckpoint, SignedStatement, TlogProof, VerifierKey};
use gateway_domain::operation::{Operation, Refusal};
use gateway_domain::policy::{self, Input, Moment};
use gateway_domain::roster::{ParticipantIndex, Roster};
use gateway_domain::time::EpochMs;
use serde_json::Value;
use std::collections::BTreeMap;

/// A parsed request to evaluate the policy without an operation.
#[derive(Clone, Debug)]
pub struct Preview {
    /// The tenant that would own the operation.
    pub tenant: Tenant,
    /// The caller that would submit it.
    pub submitter: ClientBinding,
    /// The claims of the caller that the policy may read, as facts by name.
    pub claims: BTreeMap<String, String>,
    /// The key of a custody operation; `None` for a payment, whose intent or deployment says it.
    pub key_ref: Option<KeyRef>,
    /// The work that the operation would do.
    pub intent: Intent,
    /// The approvals it would have, oldest first.
    pub approvals: Vec<Approval>,
    /// Facts to assume instead of those of the deployment: then the evaluation is not recorded.
    pub assumed: Option<BTreeMap<String, Option<String>>>,
    /// The request's id.
    pub request_id: Option<String>,
}

/// A recovery that a caller considers.
#[derive(Clone, Debug)]
pub struct RequestedRecovery {
    /// The reference of the case that authorises it.
    pub recovery_case_ref: String,
    /// The participant whose share is rebuilt; not a helper.
    pub recovering_participant: ParticipantIndex,
    /// The participants that help.
    pub helper_participants: Roster,
}

/// A key as a caller names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyTarget {
    /// Which operations and keys the caller can see.
    pub visibility: Visibility,
    /// The key's name.
    pub key_ref: KeyRef,
}

/// A page of a key's operations.
#[derive(Clone, Debug)]
pub struct KeyOperations {
    /// The key.
    pub key: CustodyKey,
    /// The operations, newest first, without those whose records are damaged.
    pub records: Vec<Record>,
    /// The `before` of the next page; `None` on the last page.
    pub next: Option<u64>,
}

/// Proof that an event of an operation is in the log, for an offline verifier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InclusionEvidence {
    /// The event's index in the log, from 0.
    pub index: u64,
    /// The inclusion proof, with the signed checkpoint that it leads to.
    pub tlog_proof: TlogProof,
    /// The head of the log right after the event.
    pub after: LogHead,
    /// Proof that the checkpoint's log begins with the log right after the event; empty when they are the same.
    pub consistency: Vec<Hex32>,
}

impl InclusionEvidence {
    /// Proof that the checkpoint's log has the event at `index`; `None` if it has not, or the checkpoint is of another log.
    ///
    /// # Errors
    /// [`Unavailable`] when the log cannot be read.
    pub async fn of(
        log: &dyn ReadLog,
        checkpoint: SignedCheckpoint,
        index: u64,
    ) -> Result<Option<Self>, Unavailable> {
        let head = checkpoint.unverified();
        let Some(inclusion) = log.log_inclusion(index, head.size()).await? else { return Ok(None) };
        let Some(consistency) = log.log_consistency(index.saturating_add(1), head.size()).await? else {
            return Ok(None);
        };
        if inclusion.head.root != head.root() {
            return Ok(None);
        }
        Ok(Some(Self {
            index,
            tlog_proof: TlogProof { extra: Vec::new(), index, hashes: inclusion.hashes, checkpoint },
            after: consistency.first,
            consistency: consistency.hashes,
        }))
    }
}

/// Operations and the policy.
impl Engine {
    /// The operation, for this caller.
    ///
    /// # Errors
    /// [`EngineError`]: `OperationNotFound`, `Unavailable`.
    pub async fn operation(&self, target: &Target) -> Result<Record, EngineError> {
        self.0.find(target).await
    }

    /// The time at which the operation fails if it is not decided by then. `None` once it is, and after a failure.
    #[must_use]
    pub fn approvals_expire_at(&self, operation: &Operation) -> Option<EpochMs> {
        operation.approvals_expire_at(self.0.rules.approval_ttl_ms)
    }

    /// The approvals that counted and no longer do, though perhaps that is not recorded yet.
    #[must_use]
    pub fn lapsed_approvals(&self, operation: &Operation) -> Vec<LapsedApproval> {
        let lapsed = match may_lapse(operation) {
            // Without a registry none can be told; an approval is then refused anyway.
            true => self.0.lapsed(operation).unwrap_or_default(),
            false => Vec::new(),
        };
        // The newer reason follows below.
        let approves_again = |one: &&LapsedApproval| operation.has_approval_of(&one.subject_id);
        let recorded = operation.lapsed_approvals.iter().filter(|one| !approves_again(one)).cloned();
        recorded.chain(lapsed).collect()
    }

    /// The operation and its chained events, oldest first.
    ///
    /// # Errors
    /// [`EngineError`]: `OperationNotFound`, `Unavailable`.
    pub async fn history(&self, target: &Target) -> Result<(Record, Vec<ChainedEvent>), EngineError> {
        let record = self.0.find(target).await?;
        let mut events = self.0.ports.reads.operation_events(target.id).await?;
        // Events committed between the two reads belong to a later record.
        events.truncate(usize::try_from(record.operation.revision).unwrap_or(usize::MAX));
        Ok((record, events))
    }

    /// Evaluates the policy for an operation that is not created. If the deployment records previews, returns once
    /// the record is durable.
    ///
    /// # Errors
    /// [`EngineError`]: `RateLimited`, `Invalid`, `KeyNotFound`, `Refused`, `Damaged`, `Unavailable`.
    pub async fn preview(&self, preview: Preview) -> Result<policy::Outcome, EngineError> {
        let Preview { tenant, mut submitter, claims, key_ref, intent, mut approvals, assumed, request_id } =
            preview;
        let taken = self.0.previews.take(&tenant, &submitter.client_id, self.now());
        taken.map_err(EngineError::previews_limited)?;
        self.0.check_participants(&intent)?;
        let key_ref = key_ref.map_or_else(|| self.0.key_ref_for(&intent), Ok)?;
        let key = self.0.ports.reads.key_load(intent::key_id(&tenant, &key_ref)?).await?;
        match (&key, &intent) {
            (Some(key), _) if key.is_name_free() => {}
            (Some(key), _) => check_key(&intent, key)?,
            (None, Intent::Payment(_) | Intent::KeyCreate(_)) => {}
            (
                None,
                Intent::AssetAction(_)
                | Intent::Refresh(_)
                | Intent::Reshare(_)
                | Intent::Rotate(_)
                | Intent::Recover(_),
            ) => return Err(EngineError::KeyNotFound(key_ref.0)),
        }
        submitter.registered = self.0.registered(&tenant, &submitter.subject_id)?;
        for approval in &mut approvals {
            approval.registered = self.0.registered(&tenant, &approval.subject_id)?;
        }
        let input = Input {
            moment: Moment::Preview,
            intent_hash: intent.hash()?,
            tenant,
            key_ref,
            submitter,
            intent,
            approvals,
        };
        let key_id = intent::key_id(&input.tenant, &input.key_ref)?;
        let parties = self.0.parties(&input.tenant, &input.submitter, key_id, &input.intent);
        let spending = self.0.spending(parties).await?;
        let required = self.0.required_approvals(&input.intent, &input.submitter);
        let assumes = assumed.is_some();
        let stated = Stated { claims, assumed };
        let outcome =
            self.0.evaluate_stated(None, input.request(), key.as_ref(), spending, required, stated).await?;
        let n_kept = self.0.rules.preview_records_max;
        if n_kept > 0 && !assumes {
            let asked = Asked { request_id, idempotency_key: None };
            let record = PreviewRecord { at_ms: self.now(), asked, input, outcome: outcome.clone() };
            self.0.ports.commits.preview_record(record, n_kept).await?;
        }
        Ok(outcome)
    }

    /// The state of the policy's bundles, from memory.
    #[must_use]
    pub fn policy_health(&self) -> PolicyHealth {
        self.0.ports.policies.health()
    }

    /// The policy's bundles, with at most `n_max` activations.
    pub async fn policies(&self, n_max: u32) -> Result<PolicyStatus, EngineError> {
        Ok(self.0.ports.policies.status(n_max).await?)
    }

    /// The latest visible decisions that the candidate would have made otherwise; `None` without a candidate.
    #[must_use]
    pub fn shadow_differences(&self, visibility: &Visibility) -> Option<ShadowDifferences> {
        let mut shadow = self.0.ports.policies.shadow_differences()?;
        shadow.differences.retain(|one| visibility.includes(&one.input.tenant));
        Some(shadow)
    }
}

/// Keys.
impl Engine {
    /// The key, and the latest custody operation on it.
    ///
    /// # Errors
    /// [`EngineError`]: `KeyNotFound`, `KeyAmbiguous`, `Damaged`, `Unavailable`.
    pub async fn key(&self, target: &KeyTarget) -> Result<(CustodyKey, OperationId), EngineError> {
        let key = self.0.find_key(target).await?;
        let latest = self.0.latest_operation(&key).await?;
        Ok((key, latest))
    }

    /// The public forms of the key, or of its child at a path.
    ///
    /// # Errors
    /// [`EngineError`]: `KeyNotFound`, `KeyAmbiguous`, `NoChild`, `Damaged`, `Unavailable`; `Refused` for a key that is not
    /// generated yet. `None` for a key that has no children, without a path.
    pub async fn derived_keys(
        &self,
        target: &KeyTarget,
        path: &[u32],
    ) -> Result<(CustodyKey, Option<DerivedKeys>), EngineError> {
        let key = self.0.find_key(target).await?;
        if key.public.is_none() {
            return Err(Refusal::KeyNotActive { state: key.state.as_str() }.into());
        }
        if path.is_empty() && key.signature_profile != BIP32_PROFILE {
            return Ok((key, None));
        }
        let derived = self.0.ports.nodes.derived_keys(&key, path).map_err(EngineError::NoChild)?;
        Ok((key, Some(derived)))
    }

    /// What helpers would contribute to the recovery of a participant's share, asked of their nodes.
    ///
    /// # Errors
    /// [`EngineError`]: `KeyNotFound`, `KeyAmbiguous`, `Damaged`, `Invalid`; `Refused` for a key that is not active; `Unavailable`
    /// when a helper's node does not answer.
    pub async fn contributions(
        &self,
        target: &KeyTarget,
        requested: RequestedRecovery,
    ) -> Result<Contributions, EngineError> {
        let RequestedRecovery { recovery_case_ref, recovering_participant, helper_participants } = requested;
        let key = self.0.find_key(target).await?;
        if key.state != KeyState::Active {
            return Err(Refusal::KeyNotActive { state: key.state.as_str() }.into());
        }
        check_helpers(recovering_participant, &helper_participants, &key)?;
        let (key_id, epoch_root) = (key.key_id, key.epoch.root);
        let case = RecoveryCase {
            key_id,
            epoch_root,
            recovery_case_ref,
            recovering_participant,
            helper_participants,
        };
        Ok(self.0.ports.nodes.contributions(&key, case).await?)
    }

    /// At most `n_max` custody operations on the key, newest first. With `before`, only those before this position.
    ///
    /// # Errors
    /// [`EngineError`]: `KeyNotFound`, `KeyAmbiguous`, `Unavailable`.
    pub async fn key_operations(
        &self,
        target: &KeyTarget,
        before: Option<u64>,
        n_max: u32,
    ) -> Result<KeyOperations, EngineError> {
        let key = self.0.find_key(target).await?;
        let mut found =
            self.0.ports.reads.key_operations(key.key_id, before, n_max.saturating_add(1)).await?;
        let n_max = usize::try_from(n_max).unwrap_or(usize::MAX);
        let has_more = found.len() > n_max;
        found.truncate(n_max);
        let last = found.last().map(|(position, _)| *position);
        let (mut records, mut size) = (Vec::with_capacity(found.len()), PageSize::default());
        for (position, id) in found {
            if let Some(record) = sound(self.0.ports.reads.operation_find(id, &target.visibility).await)? {
                size.add(&record.operation);
                records.push(record);
            }
            if size.is_full() && Some(position) != last {
                return Ok(KeyOperations { key, records, next: Some(position) });
            }
        }
        Ok(KeyOperations { key, records, next: last.filter(|_| has_more) })
    }

    /// The tenant that owns the key. Operations on the key belong to the same tenant.
    ///
    /// # Errors
    /// [`EngineError`]: `KeyNotFound`, `KeyAmbiguous`, `Unavailable`.
    pub async fn key_owner(&self, target: &KeyTarget) -> Result<Tenant, EngineError> {
        self.0.find_key(target).await.map(|key| key.tenant)
    }

    /// The key of an operation; `None` if it does not exist.
    pub async fn key_of(&self, operation: &Operation) -> Result<Option<CustodyKey>, EngineError> {
        Ok(self.0.ports.reads.key_load(operation.key.key_id).await?)
    }
}

impl Inner {
    /// The latest custody operation on the key.
    pub(crate) async fn latest_operation(&self, key: &CustodyKey) -> Result<OperationId, EngineError> {
        let latest = self.ports.reads.key_operations(key.key_id, None, 1).await?;
        Ok(latest.first().map_or(key.created_by, |(_, id)| *id))
    }

    /// The key; [`EngineError::KeyNotFound`] if it is unknown or this caller cannot see it. For a caller that sees
    /// all tenants, the key of the default tenant, else the only key of this name.
    async fn find_key(&self, target: &KeyTarget) -> Result<CustodyKey, EngineError> {
        let KeyTarget { visibility, key_ref } = target;
        let unknown = || EngineError::KeyNotFound(key_ref.0.clone());
        let default = Tenant(TENANT_DEFAULT.to_owned());
        let tenant = match visibility {
            Visibility::Tenant(tenant) => tenant,
            Visibility::Everything => &default,
        };
        let of_tenant = self.ports.reads.key_load(intent::key_id(tenant, key_ref)?).await?;
        match (of_tenant, visibility) {
            (Some(key), _) => Ok(key),
            (None, Visibility::Tenant(_)) => Err(unknown()),
            (None, Visibility::Everything) => match *self.ports.reads.keys_named(key_ref, 2).await? {
                [] => Err(unknown()),
                [only] => self.ports.reads.key_load(only).await?.ok_or_else(unknown),
                [..] => Err(EngineError::KeyAmbiguous(key_ref.0.clone())),
            },
        }
    }
}

/// The log of all events.
impl Engine {
    /// The signed head of the log.
    pub async fn checkpoint(&self) -> Result<SignedCheckpoint, EngineError> {
        let head = self.0.ports.log.log_head().await?;
        Ok(self.0.ports.checkpoints.sign_checkpoint(head).await?)
    }

    /// Signs a statement with the log's key.
    pub async fn sign_statement(&self, about: &str, value: &Value) -> Result<SignedStatement, EngineError> {
        Ok(self.0.ports.checkpoints.sign_statement(about, value).await?)
    }

    /// Whether approvals are signed, with the registry of approvers.
    #[must_use]
    pub fn signing_rule(&self) -> &SigningRule {
        &self.0.rules.signed_approvals
    }

    /// The key that verifies checkpoints. A verifier must get it from the operator, not from the gateway that it checks.
    #[must_use]
    pub fn log_key(&self) -> &VerifierKey {
        self.0.ports.checkpoints.verifier_key()
    }

    /// Proof that the log of `size` events has the one at `index`. `None` when the log is smaller than `size`, or
    /// `index` is not below it.
    pub async fn log_inclusion(&self, index: u64, size: u64) -> Result<Option<LogInclusion>, EngineError> {
        Ok(self.0.ports.log.log_inclusion(index, size).await?)
    }

    /// Proof that the log of `second` events begins with the log of `first`. `None` when the log is smaller than
    /// `second`, or when `first` is zero or above `second`.
    pub async fn log_consistency(
        &self,
        first: u64,
        second: u64,
    ) -> Result<Option<LogConsistency>, EngineError> {
        Ok(self.0.ports.log.log_consistency(first, second).await?)
    }

    /// Proof that an event of an operation, numbered from 1, is in the log. `None` when there is no such event.
    ///
    /// # Errors
    /// [`EngineError`]: `OperationNotFound`, `Unavailable`.
    pub async fn tlog_proof(
        &self,
        visibility: &Visibility,
        id: OperationId,
        seq: u64,
    ) -> Result<Option<TlogProof>, EngineError> {
        let found = self.0.ports.reads.operation_find(id, visibility).await?;
        if found.is_none() {
            return Err(EngineError::OperationNotFound);
        }
        Ok(self.inclusion_evidence(id, seq).await?.map(|evidence| evidence.tlog_proof))
    }

    /// Proof that an event of an operation, numbered from 1, is in the log. `None` when there is no such event. The checkpoint is the
    /// witnessed one if it has the event, or else signed now. Does not check that the caller can see the operation.
    pub async fn inclusion_evidence(
        &self,
        id: OperationId,
        seq: u64,
    ) -> Result<Option<InclusionEvidence>, EngineError> {
        let log = &*self.0.ports.log;
        let Some(index) = log.log_index(id, seq).await? else { return Ok(None) };
        if let Some(witnessed) = self.witnessed_checkpoint()
            && let Some(evidence) = InclusionEvidence::of(log, witnessed, index).await?
        {
            return Ok(Some(evidence));
        }
        let evidence = InclusionEvidence::of(log, self.checkpoint().await?, index).await?;
        evidence.map(Some).ok_or_else(|| EngineError::Internal(format!("event {index} is not in the log")))
    }
}
