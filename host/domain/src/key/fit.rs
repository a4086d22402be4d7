//! Checks whether a key can do what an intent requests. The engine checks it before it creates an operation and again
//! before the admission.

use super::transitions::Keys;
use super::{CustodyKey, EPOCHS_MAX, KeyState};
use crate::ids::{EpochName, Hex32, KeyRef};
use crate::intent::{Intent, SigningTerms};
use crate::operation::command::Refusal;
use crate::roster::{ParticipantIndex, Roster, Threshold};

/// The signature profile that supports BIP-32 child keys and Taproot outputs.
pub const BIP32_PROFILE: &str = "frost-secp256k1-sha256-tr";

/// The reason why a key cannot do what an intent requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyError {
    /// A key of this name exists.
    Exists(KeyRef),
    /// No key of this name exists.
    Unknown(KeyRef),
    /// The intent requests something that this key cannot do.
    Invalid {
        /// JSON pointer to the member that is wrong.
        pointer: &'static str,
        /// The allowed values.
        message: String,
    },
    /// The key's state does not permit it.
    Refused(Refusal),
}

impl From<Refusal> for KeyError {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

/// Checks that the intent's keys exist, or that their names are free. With `may_lack_key`, the key of a payment need not
/// exist yet.
pub fn check_keys(
    intent: &Intent,
    key_ref: &KeyRef,
    keys: &Keys,
    may_lack_key: bool,
) -> Result<(), KeyError> {
    let key = keys.subject.as_ref();
    let exists = key.filter(|key| !key.is_name_free());
    match (intent, exists) {
        (Intent::KeyCreate(_), None) => Ok(()),
        (Intent::KeyCreate(_), Some(_)) => Err(KeyError::Exists(key_ref.clone())),
        (Intent::Payment(_), None) if may_lack_key => Ok(()),
        // A rotated key never signs again.
        (Intent::Payment(_), Some(key)) if key.state == KeyState::Rotated => Err(not_active(key)),
        (_, None) => Err(key.map_or_else(|| KeyError::Unknown(key_ref.clone()), not_active)),
        (Intent::Rotate(rotate), Some(key)) => {
            if keys.successor.as_ref().is_some_and(|taken| !taken.is_name_free()) {
                return Err(KeyError::Exists(rotate.new_key_ref.clone()));
            }
            check_key(intent, key)
        }
        (_, Some(key)) => check_key(intent, key),
    }
}

/// Checks that the key, in its present state, can do what the intent requests.
///
/// # Errors
/// [`KeyError`]: `Invalid`, `Refused`.
pub fn check_key(intent: &Intent, key: &CustodyKey) -> Result<(), KeyError> {
    check_epoch(key, intent)?;
    match intent {
        Intent::Payment(payment) => check_terms(&payment.terms, key),
        Intent::AssetAction(action) => check_terms(&action.terms, key),
        Intent::KeyCreate(_) | Intent::Refresh(_) => Ok(()),
        Intent::Reshare(reshare) => check_union("/new_participants", key, &reshare.new_participants),
        Intent::Rotate(rotate) => check_union("/participants", key, &rotate.participants),
        Intent::Recover(recover) => {
            check_helpers(recover.recovering_participant, &recover.helper_participants, key)
        }
    }
}

/// Checks that the key is the one that the intent names. A reshare to nodes without a share and a recovery must name it: those nodes know the
/// key only from what was approved. Not for a submission, whose key may not be generated yet.
pub fn check_named_key(intent: &Intent, key: &CustodyKey) -> Result<(), KeyError> {
    let needs_name = match intent {
        Intent::Reshare(reshare) => !key.participants.contains_all(&reshare.new_participants),
        Intent::Recover(_) => true,
        Intent::Payment(_)
        | Intent::AssetAction(_)
        | Intent::KeyCreate(_)
        | Intent::Refresh(_)
        | Intent::Rotate(_) => false,
    };
    let message = match intent.public_key_artifact_ref() {
        Some(named) if *named == key.public_key_artifact_ref() => return Ok(()),
        Some(_) => format!("must be the key's, `{}`", key.public_key_artifact_ref()),
        None if needs_name => {
            "must name the key, which was not generated yet: submit the operation again".to_owned()
        }
        None => return Ok(()),
    };
    Err(KeyError::Invalid { pointer: "/public_key_artifact_ref", message })
}

/// The code of an operation that failed because its key left the epoch of the fence.
pub const EPOCH_FENCE_MISMATCH: &str = "epoch_fence_mismatch";

/// The code of the failure of an operation on a key that does not sign any more.
pub const KEY_NOT_ACTIVE: &str = "custody_key_not_active";

/// The code of the failure of an operation that was admitted in an epoch which the key has left, or for one that cannot follow.
pub const EPOCH_CONFLICT: &str = "epoch_conflict";

/// Whether the key, whose active epoch has this root, is in the epoch that the intent is fenced to; true for an intent without a
/// fence. A fence that does not hold never will: no epoch comes back, and no one knows the root of one that does not exist yet,
/// which is zero here.
#[must_use]
pub fn fence_holds(intent: &Intent, active_root: Hex32) -> bool {
    let fence = intent.signing_terms().and_then(|terms| terms.epoch_fence_token_hex.as_ref());
    fence.is_none_or(|fence| active_root != Hex32::ZERO && *fence == active_root.to_string())
}

/// The threshold of a signature: the higher one of the terms and the key.
#[must_use]
pub fn signing_threshold(terms: &SigningTerms, key: &CustodyKey) -> Threshold {
    terms.threshold.map_or(key.threshold, |raised| raised.max(key.threshold))
}

/// Checks that the key supports child keys and Taproot, if the terms request one.
fn check_derivation(terms: &SigningTerms, key: &CustodyKey) -> Result<(), KeyError> {
    let requested = [("/bip32", terms.bip32.is_some()), ("/taproot", terms.taproot.is_some())];
    let requested = requested.into_iter().find(|(_, is_requested)| *is_requested);
    let Some((pointer, _)) = requested.filter(|_| key.signature_profile != BIP32_PROFILE) else {
        return Ok(());
    };
    let message = format!(
        "must be left out: the key's profile is `{}`, and only keys of `{BIP32_PROFILE}` have child keys and Taproot outputs",
        key.signature_profile
    );
    Err(KeyError::Invalid { pointer, message })
}

fn not_active(key: &CustodyKey) -> KeyError {
    Refusal::KeyNotActive { state: key.state.as_str() }.into()
}

/// Checks that every signer holds a share, that the threshold is not lowered, and that there are enough signers.
fn check_terms(terms: &SigningTerms, key: &CustodyKey) -> Result<(), KeyError> {
    check_derivation(terms, key)?;
    if !key.participants.contains_all(&terms.requested_participants) {
        return Err(not_holders("/requested_participants", key));
    }
    let threshold = terms.threshold.unwrap_or(key.threshold);
    if threshold < key.threshold {
        let message = format!("must be at least the key's threshold, {}", key.threshold.0);
        return Err(KeyError::Invalid { pointer: "/threshold", message });
    }
    if terms.requested_participants.n_participants() < threshold.count() {
        let message = format!("must name at least {} participants, the threshold", threshold.0);
        return Err(KeyError::Invalid { pointer: "/requested_participants", message });
    }
    Ok(())
}

/// Checks that the present and the new participants, who take part in one operation, together fit one roster.
fn check_union(pointer: &'static str, key: &CustodyKey, new: &Roster) -> Result<(), KeyError> {
    let union = key.participants.union(new);
    union.map(|_| ()).map_err(|why| KeyError::Invalid {
        pointer,
        message: format!("with the key's present participants {why}"),
    })
}

/// Checks that holders of the key, as many as its threshold, help another holder. That the other is no helper is checked where the
/// request is parsed.
pub fn check_helpers(
    recovering: ParticipantIndex,
    helpers: &Roster,
    key: &CustodyKey,
) -> Result<(), KeyError> {
    if !key.participants.as_set().contains(&recovering) {
        return Err(not_holders("/recovering_participant", key));
    }
    if !key.participants.contains_all(helpers) {
        return Err(not_holders("/helper_participants", key));
    }
    if helpers.n_participants() < key.threshold.count() {
        let message = format!("must name at least {} participants, the key's threshold", key.threshold.0);
        return Err(KeyError::Invalid { pointer: "/helper_participants", message });
    }
    Ok(())
}

fn not_holders(pointer: &'static str, key: &CustodyKey) -> KeyError {
    let holders = key.participants.iter().map(|index| index.to_string()).collect::<Vec<_>>().join(", ");
    KeyError::Invalid { pointer, message: format!("must be participants of the key: {holders}") }
}

/// Checks that the key can enter the epoch that an intent names. The name must be new, and a decimal name must be above all
/// earlier decimal names. Does not check the epoch of a rotation, which is the first of another key.
///
/// # Errors
/// [`Refusal::EpochConflict`].
pub fn check_epoch(key: &CustodyKey, intent: &Intent) -> Result<(), Refusal> {
    let requested = match intent {
        Intent::Refresh(refresh) => &refresh.change.target_epoch,
        Intent::Reshare(reshare) => &reshare.change.target_epoch,
        Intent::Recover(recover) => &recover.change.target_epoch,
        Intent::Payment(_) | Intent::AssetAction(_) | Intent::KeyCreate(_) | Intent::Rotate(_) => {
            return Ok(());
        }
    };
    let conflict = |why: String| Err(Refusal::EpochConflict(why));
    if key.past_epochs.len() >= EPOCHS_MAX {
        return conflict(format!(
            "the key has {EPOCHS_MAX} past epochs, the most that are allowed: rotate the key"
        ));
    }
    let used = || key.past_epochs.iter().chain([&key.epoch.name]);
    if used().any(|name| name == requested) {
        return conflict(format!("the key already used the epoch name `{requested}`: use another name"));
    }
    let latest = used().filter_map(|name| decimal(name).map(|value| (value, name))).max();
    match (decimal(requested), latest) {
        (Some(requested_value), Some((value, latest))) if requested_value <= value => conflict(format!(
            "epoch `{requested}` does not come after `{latest}`: decimal epochs must increase"
        )),
        (Some(_) | None, Some(_) | None) => Ok(()),
    }
}

/// The value of a decimal name, in comparable form: its number of digits, and its digits.
fn decimal(name: &EpochName) -> Option<(usize, &str)> {
    let is_decimal = !name.0.is_empty() && name.0.bytes().all(|byte| byte.is_ascii_digit());
    let digits = name.0.trim_start_matches('0');
    is_decimal.then_some((digits.len(), digits))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::intent::PublicationMode;
    use crate::testing::samples::{Kind, intent, key};

    /// Nodes 0, 1 and 2 hold the key; the reshare is to 1, 2, 3 and 4.
    #[test]
    fn key_is_the_one_that_the_intent_names_and_joiners_need_the_name() {
        let key = key();
        let own = key.public_key_artifact_ref();
        for kind in Kind::ALL {
            let named = |name: Option<&str>| {
                let intent = intent(kind, PublicationMode::Manual).naming(name.map(str::to_owned));
                check_named_key(&intent, &key).is_ok()
            };
            assert!(named(Some(&own)), "{kind:?}");
            assert_eq!(named(Some("frost-ed25519-sha512:11")), kind == Kind::KeyCreate, "{kind:?}");
            assert_eq!(named(None), !matches!(kind, Kind::Reshare | Kind::Recover), "{kind:?}");
        }
    }
}
