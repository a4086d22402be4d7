//! What a document says besides the operation's events.

use gateway_domain::key::CustodyKey;
use gateway_engine::InclusionEvidence;
use serde_json::{Value, json};

/// That the last event is in the log.
#[must_use]
pub fn log_section(evidence: InclusionEvidence) -> Value {
    json!({
        "index": evidence.index,
        "proof": evidence.tlog_proof.to_string(),
        "consistency": evidence.consistency,
    })
}

/// The key as it is now; its epoch root is the fence token of signatures.
#[must_use]
pub fn key_evidence(key: &CustodyKey) -> Value {
    json!({
        "key_ref": key.key_ref,
        "key_id": key.key_id,
        "state": key.state,
        "public_key_artifact_ref": key.public_key_artifact_ref(),
        "active_epoch": key.epoch.name,
        "active_epoch_root": key.epoch.root,
        "past_epochs": key.past_epochs,
        "replaces": key.replaces,
        "replaced_by": key.replaced_by,
    })
}
