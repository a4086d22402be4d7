//! Whether a key can serve an intent: asked before anything is created, and again before the authority signs.

use crate::error::EngineError;
use gateway_domain::ids::KeyRef;
use gateway_domain::intent::{Intent, Payment, Recover, SigningTerms};
use gateway_domain::key::{CustodyKey, KeyState, Keys};
use gateway_domain::operation::Refusal;
use gateway_domain::roster::Roster;

/// The profile whose keys have child keys by BIP-32.
pub(crate) const WITH_CHILDREN: &str = "frost-secp256k1-sha256-tr";

/// Whether the keys are there, or their names free, as the intent needs it. `provisions`: a payment's key may be made.
pub(crate) fn check_keys(
    intent: &Intent,
    key_ref: &KeyRef,
    keys: &Keys,
    provisions: bool,
) -> Result<(), EngineError> {
    let key = keys.subject.as_ref();
    let exists = key.filter(|key| !key.is_free());
    match (intent, exists) {
        (Intent::KeyCreate(_), None) => Ok(()),
        (Intent::KeyCreate(_), Some(_)) => Err(EngineError::KeyExists(key_ref.0.clone())),
        (Intent::Payment(_), None) if provisions => Ok(()),
        // A payment is not taken for a key that will never sign.
        (Intent::Payment(_), Some(key)) if key.state == KeyState::Rotated => Err(not_active(key)),
        (_, None) => Err(key.map_or_else(|| EngineError::KeyNotFound(key_ref.0.clone()), not_active)),
        (Intent::Rotate(rotate), Some(key)) => {
            if keys.successor.as_ref().is_some_and(|taken| !taken.is_free()) {
                return Err(EngineError::KeyExists(rotate.new_key_ref.0.clone()));
            }
            check_key(intent, key)
        }
        (_, Some(key)) => check_key(intent, key),
    }
}

/// Whether the key as it stands can do what the intent asks.
pub(crate) fn check_key(intent: &Intent, key: &CustodyKey) -> Result<(), EngineError> {
    key.check_epoch(intent)?;
    check_use(intent, key)?;
    match intent {
        Intent::Payment(payment) => {
            check_child(payment, key)?;
            check_terms(&payment.terms, key)
        }
        Intent::AssetAction(action) => check_terms(&action.terms, key),
        Intent::KeyCreate(_) | Intent::Refresh(_) => Ok(()),
        Intent::Reshare(reshare) => check_union("/new_participants", key, &reshare.new_participants),
        Intent::Rotate(rotate) => check_union("/participants", key, &rotate.participants),
        Intent::Recover(recover) => check_recovery(recover, key),
    }
}

/// A key that signed, or was made, for one family signs nothing of the other: a digest that a custody platform sends could be
/// that of a payment which the policy denies.
fn check_use(intent: &Intent, key: &CustodyKey) -> Result<(), EngineError> {
    let other = key.serves.filter(|serves| intent.key_use().is_some_and(|asked| asked != *serves));
    match (other, intent) {
        (None, _) => Ok(()),
        (Some(serves), Intent::Payment(_)) => {
            let message =
                format!("must name a key that serves `payments`; this one serves `{}`", serves.as_str());
            Err(EngineError::Invalid { pointer: "/key_ref", message })
        }
        (Some(serves), _) => Err(Refusal::KeyServesOther { serves }.into()),
    }
}

/// Keys of one profile have children.
fn check_child(payment: &Payment, key: &CustodyKey) -> Result<(), EngineError> {
    if payment.bip32.is_none() || key.signature_profile == WITH_CHILDREN {
        return Ok(());
    }
    let message = format!(
        "must be left out: the key's profile is `{}`, and only keys of `{WITH_CHILDREN}` have child keys",
        key.signature_profile
    );
    Err(EngineError::Invalid { pointer: "/bip32", message })
}

fn not_active(key: &CustodyKey) -> EngineError {
    Refusal::KeyNotActive { state: key.state.as_str() }.into()
}

/// A raised threshold is fine; a lowered one, or a signer without a share, is not.
fn check_terms(terms: &SigningTerms, key: &CustodyKey) -> Result<(), EngineError> {
    if !key.participants.contains_all(&terms.requested_participants) {
        return Err(must_hold("/requested_participants", key));
    }
    let threshold = terms.threshold.unwrap_or(key.threshold);
    if threshold < key.threshold {
        let message = format!("must be at least the key's threshold, {}", key.threshold.0);
        return Err(EngineError::Invalid { pointer: "/threshold", message });
    }
    if terms.requested_participants.n_participants() < threshold.count() {
        let message = format!("must name at least {} participants, the threshold", threshold.0);
        return Err(EngineError::Invalid { pointer: "/requested_participants", message });
    }
    Ok(())
}

/// Who holds shares now and who will take part in one operation, which has room for so many.
fn check_union(pointer: &'static str, key: &CustodyKey, new: &Roster) -> Result<(), EngineError> {
    let union = key.participants.union(new);
    union.map(|_| ()).map_err(|why| EngineError::Invalid {
        pointer,
        message: format!("with the key's present participants {why}"),
    })
}

fn check_recovery(recover: &Recover, key: &CustodyKey) -> Result<(), EngineError> {
    if !key.participants.as_set().contains(&recover.recovering_participant) {
        return Err(must_hold("/recovering_participant", key));
    }
    if !key.participants.contains_all(&recover.helper_participants) {
        return Err(must_hold("/helper_participants", key));
    }
    if recover.helper_participants.n_participants() < key.threshold.count() {
        let message = format!("must name at least {} participants, the key's threshold", key.threshold.0);
        return Err(EngineError::Invalid { pointer: "/helper_participants", message });
    }
    Ok(())
}

fn must_hold(pointer: &'static str, key: &CustodyKey) -> EngineError {
    let holders = key.participants.iter().map(|index| index.to_string()).collect::<Vec<_>>().join(", ");
    EngineError::Invalid { pointer, message: format!("must be participants of the key: {holders}") }
}
