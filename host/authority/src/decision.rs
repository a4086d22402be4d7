//! Checks an admission request and builds the decision to be signed.

use gateway_domain::admission::{AdmissionDecision, Derivation, Target};
use gateway_domain::approval::{Approval, approvals_root, n_distinct_people};
use gateway_domain::canonical::CanonicalError;
use gateway_domain::ids::{EpochName, Hex32};
use gateway_domain::intent::{Intent, key_id};
use gateway_domain::key::{CustodyKey, Epoch, FIRST_EPOCH, fit};
use gateway_domain::operation::AdmissionRequest;
use gateway_domain::operation::{Operation, target};
use gateway_domain::policy;
use gateway_domain::roster::{Roster, Threshold};

/// Why the authority refuses to sign.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    /// The policy did not allow the operation.
    #[error("the policy outcome is not `ALLOW`")]
    NotAllowed,
    /// The policy's quorum is not satisfied.
    #[error("the quorum is not satisfied: {counted} of {required} approvals count")]
    Quorum {
        /// The approvals that count.
        counted: u32,
        /// The approvals that the policy requires.
        required: u32,
    },
    /// The quorum counts a person who did not approve.
    #[error("the quorum counts `{subject_id}`, who has not approved")]
    NotApproved {
        /// The subject.
        subject_id: String,
    },
    /// The operation's intent hash is not the hash of its intent.
    #[error("the operation's intent hash does not match its intent")]
    IntentHash,
    /// The key has no shares. Only a key creation needs none.
    #[error("the key has no shares yet")]
    NoKey,
    /// The request's key is not the operation's key.
    #[error("the key is not the operation's key")]
    OtherKey,
    /// The derived key is not the one that the intent requests: for a payment, the key for payments or one derived from it.
    #[error("the derived key is not the one that the intent requests")]
    Derivation,
    /// An operation that changes a key has no target, for example a rotation without a successor.
    #[error("the operation names no target epoch")]
    NoTarget,
    /// Old and new participants together are more than a roster can have.
    #[error("the operation has more participants than a decision can name")]
    Roster,
    /// A value has no canonical form.
    #[error("the operation has no canonical form")]
    Canonical(#[from] CanonicalError),
}

/// Checks the request and builds the decision.
pub(crate) fn decide(request: &AdmissionRequest<'_>) -> Result<AdmissionDecision, Refusal> {
    let operation = request.operation;
    check_quorum(operation, request.policy)?;
    if operation.intent.hash()? != operation.intent_hash {
        return Err(Refusal::IntentHash);
    }
    check_key(operation, request.key)?;
    check_derivation(&operation.intent, request.key, request.derivation)?;
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

/// Checks that operation, intent and request have the same key, that its id is the one of the tenant and the key's name, and its public key
/// the one that the intent names.
fn check_key(operation: &Operation, key: Option<&CustodyKey>) -> Result<(), Refusal> {
    let slot = &operation.key;
    let is_same = key_id(&operation.tenant, &slot.key_ref)? == slot.key_id
        && operation.intent.key_ref().is_none_or(|named| *named == slot.key_ref)
        && key.is_none_or(|key| key.key_id == slot.key_id && is_named(&operation.intent, key));
    if is_same { Ok(()) } else { Err(Refusal::OtherKey) }
}

fn is_named(intent: &Intent, key: &CustodyKey) -> bool {
    intent.public_key_artifact_ref().is_none_or(|named| *named == key.public_key_artifact_ref())
}

/// Checks that the derived key is the one that the intent requests. Computes the key for payments; the nodes compute children and output
/// keys too, which need more than the public key.
fn check_derivation(
    intent: &Intent,
    key: Option<&CustodyKey>,
    derivation: Option<&Derivation>,
) -> Result<(), Refusal> {
    let payments = key.map(CustodyKey::payments_public_key_hex).unwrap_or_default();
    if Derivation::is_requested(derivation, intent, &payments) { Ok(()) } else { Err(Refusal::Derivation) }
}

/// Checks that the policy allowed the operation, and its quorum against the approvals.
fn check_quorum(operation: &Operation, policy: &policy::Outcome) -> Result<(), Refusal> {
    if !policy.is_allowed() {
        return Err(Refusal::NotAllowed);
    }
    let quorum = &policy.quorum;
    if let Some(subject) = quorum.subjects.iter().find(|subject| !operation.has_approval_of(subject)) {
        return Err(Refusal::NotApproved { subject_id: subject.clone() });
    }
    let counts = |approval: &&Approval| quorum.counts(&approval.subject_id);
    let counted = n_distinct_people(operation.approvals.iter().filter(counts));
    if !quorum.satisfied || quorum.check().is_err() || counted < quorum.required {
        return Err(Refusal::Quorum { counted, required: quorum.required });
    }
    Ok(())
}

/// The key's active epoch; for a key creation the first epoch, with a root of zeros.
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

/// The nodes that may act on the decision.
struct Actors {
    /// For a signature, the nodes that may sign; for a key creation, the key's participants; for a change of a key, its old and
    /// new participants.
    participants: Roster,
    /// For a change of a key, its present threshold.
    threshold: Threshold,
    /// For a change of a key, its present holders.
    holders: Option<Roster>,
}

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
