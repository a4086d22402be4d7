//! The checks of an admission. Pure: no store, and the time is an argument.

use crate::admission::approvals::check_approvals;
use crate::call::{AdmitRequest, Owner};
use crate::error::{Code, NodeError, NodeRejection, admission_refused as refused};
use crate::settings::NodeConfig;
use gateway_domain::admission::{self, Admission, AdmissionDecision, DecisionError, Derivation, Target};
use gateway_domain::approval::limits::CLOCK_SKEW_MS;
use gateway_domain::ids::Hex32;
use gateway_domain::intent::{
    Bip32, Intent, KeyCreate, Lifecycle, Recover, Refresh, Reshare, Rotate, SigningTerms, Taproot, key_id,
};
use gateway_domain::key::FIRST_EPOCH;
use gateway_domain::operation::EffectStep;
use gateway_domain::roster::{Roster, Threshold};
use gateway_domain::time::EpochMs;
use gateway_threshold::{PublicKeys, SignatureProfile, ThresholdError, derive};

/// Makes all checks of an admission that do not need this node's keys: when it is admitted, and again before it is executed.
pub(crate) fn verify(
    config: &NodeConfig,
    request: &AdmitRequest,
    now: EpochMs,
) -> Result<Admission, NodeError> {
    let admission = admission::verify(&request.envelope, &config.settings.authorities, now).map_err(
        |error| match error {
            DecisionError::Expired { .. } => NodeRejection::new(Code::AdmissionExpired, error.to_string()),
            DecisionError::Envelope(_)
            | DecisionError::TooManySignatures { .. }
            | DecisionError::TooFewSignatures { .. }
            | DecisionError::NotCanonical => refused(error.to_string()),
        },
    )?;
    let decision = &admission.decision;
    if decision.not_after_ms > now.plus_ms(config.settings.decision_ttl_max_ms).plus_ms(CLOCK_SKEW_MS) {
        return Err(refused("the decision is valid for longer than this node allows").into());
    }
    if request.effect.operation != decision.operation_id || request.effect.step != EffectStep::Admission {
        return Err(refused("the decision is for another operation").into());
    }
    if !decision.participants.as_set().contains(&config.participant) {
        return Err(refused("this node is not among the participants").into());
    }
    check_intent(&request.intent, decision)?;
    check_key(&request.owner, &request.intent, decision)?;
    check_approvals(&config.settings, request, decision, now)?;
    check_terms(&request.intent, decision)?;
    Ok(admission)
}

/// Checks that the decision is for exactly this intent: computes its hashes and compares them with the decision's.
fn check_intent(intent: &Intent, decision: &AdmissionDecision) -> Result<(), NodeError> {
    let fits = intent.hash()? == decision.intent_hash
        && intent.request_digest(decision.operation_id, decision.key_id)? == decision.request_digest
        && intent.operation_type() == decision.operation_type;
    if fits { Ok(()) } else { Err(refused("the decision is for another intent").into()) }
}

/// Checks that the decision's keys are those that the intent names for this tenant.
fn check_key(owner: &Owner, intent: &Intent, decision: &AdmissionDecision) -> Result<(), NodeError> {
    if intent.key_ref().is_some_and(|named| *named != owner.key_ref) {
        return Err(refused("the intent names another key").into());
    }
    if key_id(&owner.tenant, &owner.key_ref)? != decision.key_id {
        return Err(refused("the decision's key is not the key that the tenant gave this name").into());
    }
    if let (Intent::Rotate(rotate), Some(target)) = (intent, &decision.target)
        && key_id(&owner.tenant, &rotate.new_key_ref)? != target.key_id
    {
        return Err(refused("the decision's new key is not the one that the intent names").into());
    }
    Ok(())
}

/// Checks that participants and threshold of the decision are those of the intent.
fn check_terms(intent: &Intent, decision: &AdmissionDecision) -> Result<(), NodeRejection> {
    match intent {
        Intent::Payment(payment) => check_signing(&payment.terms, decision),
        Intent::AssetAction(action) => check_signing(&action.terms, decision),
        Intent::KeyCreate(create) => check_creation(create, decision),
        Intent::Refresh(Refresh { change })
        | Intent::Reshare(Reshare { change, .. })
        | Intent::Rotate(Rotate { change, .. })
        | Intent::Recover(Recover { change, .. }) => check_change(intent, change, decision),
    }
}

/// Checks that the new generation is the one that the intent requests. The present holders are checked against the public
/// keys when the ceremony starts, since a node that joins does not have the keys yet.
fn check_change(
    intent: &Intent,
    change: &Lifecycle,
    decision: &AdmissionDecision,
) -> Result<(), NodeRejection> {
    let mismatch = || refused("the decision makes other shares than the intent requests");
    let (target, holders) = decision.target.as_ref().zip(decision.holders.as_ref()).ok_or_else(mismatch)?;
    let is_same_key = target.key_id == decision.key_id;
    let is_same_group = target.participants == *holders && target.threshold == decision.threshold;
    let target_is = |participants: &Roster, threshold| {
        target.participants == *participants && target.threshold == threshold
    };
    let matches_intent = match intent {
        Intent::Refresh(_) => is_same_key && is_same_group,
        Intent::Reshare(reshare) => is_same_key && target_is(&reshare.new_participants, reshare.threshold),
        Intent::Rotate(rotate) => !is_same_key && target_is(&rotate.participants, rotate.threshold),
        Intent::Recover(recover) => {
            is_same_key && is_same_group && can_repair(recover, holders, decision.threshold)
        }
        Intent::Payment(_) | Intent::AssetAction(_) | Intent::KeyCreate(_) => false,
    };
    let all_nodes = holders.as_set().union(target.participants.as_set());
    let are_participants = all_nodes.eq(decision.participants.as_set());
    // A rotation makes the first epoch of another key, which may have any name.
    let is_new_epoch =
        target.epoch == change.target_epoch && (!is_same_key || target.epoch != decision.epoch);
    if matches_intent && are_participants && is_new_epoch && decision.derivation.is_none() {
        Ok(())
    } else {
        Err(mismatch())
    }
}

/// Whether the helpers are holders and as many as the threshold, and the recovering participant is another holder.
fn can_repair(recover: &Recover, holders: &Roster, threshold: Threshold) -> bool {
    let helpers = &recover.helper_participants;
    holders.contains_all(helpers)
        && holders.as_set().contains(&recover.recovering_participant)
        && !helpers.as_set().contains(&recover.recovering_participant)
        && helpers.n_participants() >= threshold.count()
}

fn check_signing(terms: &SigningTerms, decision: &AdmissionDecision) -> Result<(), NodeRejection> {
    let matches_intent = decision.participants == terms.requested_participants
        && terms.threshold.is_none_or(|requested| decision.threshold >= requested)
        && decision.threshold.count() <= decision.participants.n_participants()
        && decision.holders.is_none()
        && decision.target.is_none();
    if matches_intent { Ok(()) } else { Err(refused("the decision has other signers than the intent")) }
}

fn check_creation(create: &KeyCreate, decision: &AdmissionDecision) -> Result<(), NodeRejection> {
    create.signature_profile.parse::<SignatureProfile>().map_err(|error| refused(error.to_string()))?;
    let matches_intent = decision.participants == create.participants
        && decision.threshold == create.threshold
        && decision.epoch.0 == FIRST_EPOCH
        && decision.epoch_root == Hex32::ZERO
        && decision.derivation.is_none()
        && decision.holders.is_none()
        && decision.target.as_ref().is_some_and(|target| is_requested_key(create, decision, target));
    if matches_intent { Ok(()) } else { Err(refused("the decision makes another key than the intent")) }
}

fn is_requested_key(create: &KeyCreate, decision: &AdmissionDecision, target: &Target) -> bool {
    target.key_id == decision.key_id
        && target.epoch.0 == FIRST_EPOCH
        && target.participants == create.participants
        && target.threshold == create.threshold
}

/// Checks that the signers hold shares of the generation, that the decision does not lower the threshold, and that its derived
/// key is the one that this node derives. Called at admission only: later steps check that the generation is still the same.
pub(crate) fn check_generation(
    intent: &Intent,
    decision: &AdmissionDecision,
    keys: &PublicKeys,
    payments: impl FnOnce() -> Result<derive::Derivation, ThresholdError>,
) -> Result<(), NodeError> {
    let holders = keys.verifying_shares();
    if decision.participants.iter().any(|signer| !holders.contains_key(&signer.0)) {
        return Err(refused("the decision names signers that hold no share").into());
    }
    if decision.threshold.0 < keys.threshold() {
        return Err(refused("the decision lowers the key's threshold").into());
    }
    if decision.derivation != derivation(intent, keys, payments).map_err(refused)? {
        return Err(refused("the decision is for another derived key than the intent").into());
    }
    Ok(())
}

/// The derived key that signs, which every payment has; `None` if the key itself does, and for an operation that signs nothing. A node
/// derives it from its own copy of the public keys. `payments` returns the key for payments.
///
/// # Errors
/// The reason, for people: the path is malformed, or the key's profile has no child keys or no output keys.
pub fn derivation(
    intent: &Intent,
    keys: &PublicKeys,
    payments: impl FnOnce() -> Result<derive::Derivation, ThresholdError>,
) -> Result<Option<Derivation>, String> {
    let Some(terms) = intent.signing_terms() else { return Ok(None) };
    let is_payment = matches!(intent, Intent::Payment(_));
    if !is_payment && !terms.has_derived_key() {
        return Ok(None);
    }
    let (bip32, taproot) = (&terms.bip32, terms.taproot);
    let path = bip32.as_ref().map(Bip32::indices).transpose().map_err(|error| error.to_string())?;
    let derive = || {
        let mut key = if is_payment { payments()? } else { derive::Derivation::of(keys)? };
        if let Some(path) = path {
            key = key.child(&path)?;
        }
        if let Some(Taproot { merkle_root }) = taproot {
            key = key.taproot(merkle_root.as_ref().map(Hex32::as_bytes))?;
        }
        Ok(key)
    };
    let key = derive().map_err(|error: ThresholdError| error.to_string())?;
    Ok(Some(Derivation {
        payments: is_payment,
        path: bip32.as_ref().map(|bip32| bip32.path.clone()),
        taproot,
        tweak: Hex32::new(*key.tweak.as_bytes()),
        public_key_hex: hex::encode(key.public_key),
    }))
}

/// Checks that the key is the one that approvers signed, if the intent names one.
pub(crate) fn check_named_key(intent: &Intent, keys: &PublicKeys) -> Result<(), NodeRejection> {
    let own = || format!("{}:{}", keys.profile(), hex::encode(keys.public_key()));
    match intent.public_key_artifact_ref() {
        Some(named) if *named != own() => Err(refused("the intent names another public key than the key's")),
        Some(_) | None => Ok(()),
    }
}
