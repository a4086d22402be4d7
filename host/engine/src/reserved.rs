//! Names that are reserved for the gateway, and the names of the keys that it creates on first use (`development`).

use crate::error::EngineError;
use gateway_domain::ids::KeyRef;
use gateway_domain::intent::SigningTerms;
use gateway_domain::roster::Threshold;

/// The client that submits the creation of development keys; only its submissions need no approvals.
pub(crate) const PROVISIONER: &str = "operation-gateway";

/// Prefix of the names of development keys.
const PREFIX: &str = "development/";

/// Rejects a key name that a caller gives if it has the prefix of development keys. `why` ends the message.
pub(crate) fn check_name(pointer: &'static str, key_ref: &KeyRef, why: &str) -> Result<(), EngineError> {
    if !key_ref.0.starts_with(PREFIX) {
        return Ok(());
    }
    Err(EngineError::Invalid { pointer, message: format!("must not begin with `{PREFIX}`: {why}") })
}

/// The name of the development key for these terms: one key for each set of participants and threshold.
pub(crate) fn key_ref(terms: &SigningTerms) -> KeyRef {
    let holders =
        terms.requested_participants.iter().map(|index| index.to_string()).collect::<Vec<_>>().join("-");
    KeyRef(format!("{PREFIX}{}-of-{holders}", threshold(terms).0))
}

/// The threshold of the development key for these terms.
pub(crate) fn threshold(terms: &SigningTerms) -> Threshold {
    terms.threshold.unwrap_or_else(|| terms.requested_participants.majority())
}
