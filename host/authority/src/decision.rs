//! From a request to the decision that is signed: what is refused, and what each field is.

use gateway_domain::admission::{AdmissionDecision, Target};
use gateway_domain::approval::{approvals_root, n_distinct_subjects};
use gateway_domain::canonical::CanonicalError;
use gateway_domain::ids::{EpochName, Hex32};
use gateway_domain::intent::{Intent, KeyUse, key_id};
use gateway_domain::key::{CustodyKey, Epoch, FIRST_EPOCH, fit};
use gateway_domain::operation::{Operation, target};
use gateway_domain::policy;
use gateway_domain::roster::{Roster, Threshold};
use gateway_engine::ports::AdmissionRequest;

/// Why the authority states nothing.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Refusal {
    /// The policy did not allow it.
    #[error("the policy outcome is not `ALLOW`")]
    NotAllowed,
    /// The policy says that too few count.
    #[error("the quorum is not satisfied: {counted} of {required} approvals count")]
    Quorum { counted: usize, required: u32 },
    /// The quorum names more people than approved.
    #[error("the quorum counts `{subject_id}`, who has not approved")]
    NotApproved { subject_id: String },
    /// The operation's hash is not that of its intent.
    #[error("the operation's intent does not have its intent hash")]
    IntentHash,
    /// Only key creation goes without a key that has shares.
    #[error("the key has no shares yet")]
    NoKey,
    /// The key given is not the operation's.
    #[error("the key is not the one the operation is about")]
    OtherKey,
    /// The key signs for the other family.
    #[error("the key serves the other family")]
    KeyUse,
    /// A change of a key that does not say what the key becomes.
    #[error("the operation names no new generation")]
    NoTarget,
    /// Old and new participants together are more than a decision can name.
    #[error("the operation names more participants than one decision can")]
    Roster,
    /// A value has no canonical form.
    #[error("the operation has no canonical form")]
    Canonical(#[from] CanonicalError),
}

/// What the authority states for this request.
pub(crate) fn decide(request: &AdmissionRequest<'_>) -> Result<AdmissionDecision, Refusal> {
    let operation = request.operation;
    check_quorum(operation, request.policy)?;
    if operation.intent.hash()? != operation.intent_hash {
        return Err(Refusal::IntentHash);
    }
    check_key(operation, request.key)?;
    let epoch = epoch(&operation.intent, request.key)?;
    let target = target(operation, request.key);
    let Actors { participants, threshold, holders } =
        actors(&operation.intent, request.key, target.as_ref())?;
    Ok(AdmissionDecision {
        operation_id: operation.id,
        operation_type: operation.intent.operation_type(),
        intent_hash: operation.intent_hash,
        request_digest: operation.intent.request_digest(operation.id, operation.key.key_id)?,
        key_id: operation.key.key_id,
        serves: serves(&operation.intent, request.key)?,
        epoch: epoch.name,
        epoch_root: epoch.root,
        participants,
        threshold,
        holders,
        target,
        derivation: request.derivation.cloned(),
        bundle_hash: request.policy.bundle_hash,
        policy_input_hash: request.policy.input_hash,
        policy_output_hash: request.policy.output_hash,
        approvals_root: approvals_root(operation.intent_hash, &operation.approvals)?,
        not_before_ms: request.not_before_ms,
        not_after_ms: request.not_after_ms,
    })
}

/// Operation, intent and key name one key, which is the tenant's.
fn check_key(operation: &Operation, key: Option<&CustodyKey>) -> Result<(), Refusal> {
    let slot = &operation.key;
    let is_one = key_id(&operation.tenant, &slot.key_ref)? == slot.key_id
        && operation.intent.key_ref().is_none_or(|named| *named == slot.key_ref)
        && key.is_none_or(|key| key.key_id == slot.key_id);
    if is_one { Ok(()) } else { Err(Refusal::OtherKey) }
}

/// What the key serves, which a signature must be for.
fn serves(intent: &Intent, key: Option<&CustodyKey>) -> Result<Option<KeyUse>, Refusal> {
    let of_key = key.and_then(|key| key.serves);
    match (intent, intent.key_use()) {
        (Intent::KeyCreate(create), _) => Ok(create.serves),
        (_, key_use) if !fit::serves(of_key, key_use) => Err(Refusal::KeyUse),
        (_, Some(key_use)) => Ok(Some(key_use)),
        (_, None) => Ok(of_key),
    }
}

/// The quorum is believed only as far as the approvals bear it out.
fn check_quorum(operation: &Operation, policy: &policy::Outcome) -> Result<(), Refusal> {
    if !policy.is_allowed() {
        return Err(Refusal::NotAllowed);
    }
    let quorum = &policy.quorum;
    let approved = |subject: &&String| operation.approvals.iter().any(|by| by.subject_id == **subject);
    if let Some(subject) = quorum.subjects.iter().find(|subject| !approved(subject)) {
        return Err(Refusal::NotApproved { subject_id: subject.clone() });
    }
    let counted = quorum.subjects.iter().collect::<std::collections::BTreeSet<_>>().len();
    let counted = counted.min(n_distinct_subjects(&operation.approvals));
    if !quorum.satisfied || u32::try_from(counted).unwrap_or(u32::MAX) < quorum.required {
        return Err(Refusal::Quorum { counted, required: quorum.required });
    }
    Ok(())
}

/// The generation of shares that may act; for key creation the one that will be made, without a root yet.
fn epoch(intent: &Intent, key: Option<&CustodyKey>) -> Result<Epoch, Refusal> {
    match intent {
        Intent::KeyCreate(_) => Ok(Epoch { name: EpochName(FIRST_EPOCH.to_owned()), root: Hex32::ZERO }),
        Intent::Payment(_)
        | Intent::AssetAction(_)
        | Intent::Refresh(_)
        | Intent::Reshare(_)
        | Intent::Rotate(_)
        | Intent::Recover(_) => {
            let active = key.filter(|key| key.public.is_some());
            active.map(|key| key.epoch.clone()).ok_or(Refusal::NoKey)
        }
    }
}

/// Who may act.
struct Actors {
    participants: Roster,
    threshold: Threshold,
    holders: Option<Roster>,
}

/// Signers act for a signature, makers for a new key; a change of a key concerns all who hold its shares or will.
fn actors(intent: &Intent, key: Option<&CustodyKey>, target: Option<&Target>) -> Result<Actors, Refusal> {
    let made = |participants: &Roster, threshold| Actors {
        participants: participants.clone(),
        threshold,
        holders: None,
    };
    if let Intent::KeyCreate(create) = intent {
        return Ok(made(&create.participants, create.threshold));
    }
    let key = key.ok_or(Refusal::NoKey)?;
    match (intent.signing_terms(), target) {
        (Some(terms), _) => Ok(made(&terms.requested_participants, fit::signing_threshold(terms, key))),
        (None, None) => Err(Refusal::NoTarget),
        (None, Some(target)) => Ok(Actors {
            participants: key.participants.union(&target.participants).map_err(|_| Refusal::Roster)?,
            threshold: key.threshold,
            holders: Some(key.participants.clone()),
        }),
    }
}
