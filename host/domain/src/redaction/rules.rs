//! The redaction rule of each member of an event. A member without a rule is sealed for everyone.
//!
//! **A digest of hidden values is hidden too, unless it has a secret in it that no reader of an audit log has**: who knows the rest could try
//! accounts until the digest fits. Digests of the intent, of the policy's input and output, the signed decision, what nodes sign and the
//! threshold signature follow from it, so all of them are for [`Parties`]. ADR 50 lists each digest.
//!
//! These tables are part of the stored form, because the chain hashes the redacted events. Changing a rule needs a new form
//! (`svc/event/v3`); adding a rule for a new member does not. `golden/redacted.json` pins the present form.

use self::Rule::{Each, Masked, Members, Open, Parties, Published, Tagged};

/// The redaction of a value.
#[derive(Debug)]
pub enum Rule {
    /// It appears in clear, with everything in it.
    Open,
    /// A commitment and the last four characters.
    Masked,
    /// A commitment that the operation's evidence opens.
    Parties,
    /// A commitment that the operation's evidence opens when the operation is published.
    Published,
    /// An object with these members.
    Members(&'static Shape),
    /// An object whose open member of this name selects its other members.
    Tagged(&'static str, &'static [(&'static str, &'static Shape)]),
    /// A list with this rule for each item.
    Each(&'static Rule),
}

/// The members of an object, in groups that several objects can share.
pub type Shape = [&'static [(&'static str, Rule)]];

/// An event.
pub const EVENT: &Shape = &[&[
    ("at_ms", Open),
    ("change", Tagged("type", CHANGES)),
    ("asked_by", Members(&[&[("client", Members(CLIENT)), ("unknown_fields", Parties)]])),
    ("settles", Members(&[&[("id", Open), ("result_root", Parties)]])),
]];

/// The changes of events, by their `type`.
pub const CHANGES: &[(&str, &Shape)] = &[
    ("submitted", &[SUBMISSION]),
    ("approval_requested", &[&[("required", Open)]]),
    ("approval_recorded", &[&[("approval", Members(APPROVAL)), ("policy", Members(OUTCOME))]]),
    ("rejection_recorded", &[&[("rejection", Members(REJECTION)), ("policy", Members(OUTCOME))]]),
    ("admission_postponed", &[&[("until_ms", Open), ("policy", Members(OUTCOME))]]),
    ("admission_resumed", &[]),
    ("approvals_lapsed", &[&[("lapsed", Each(&Members(LAPSED))), ("policy", Members(OUTCOME))]]),
    ("approvals_waived", &[&[("policy", Members(OUTCOME))]]),
    ("late_approval_recorded", &[&[("approval", Members(APPROVAL))]]),
    ("quorum_reached", &[]),
    ("decision_signed", &[&[("policy", Members(OUTCOME)), ("admission", Parties)]]),
    ("admission_applied", &[&[("receipts", Parties)]]),
    ("execution_requested", &[&[("requested_at_ms", Open)]]),
    ("receipt_materialized", &[&[("receipts", Parties), ("policy_receipt_id", Open)]]),
    ("ceremony_started", &[&[("attempt", Open)]]),
    ("attempt_lost", &[&[("attempt", Open), ("reason", Open), ("receipts", Parties)]]),
    ("epoch_decided", &[&[("staged", Members(STAGED)), ("receipts", Parties)]]),
    ("epoch_acked", &[&[("receipts", Parties)]]),
    ("executed", &[&[("result_ref", Open), ("signature", Members(SIGNATURE)), ("receipts", Parties)]]),
    ("publication_requested", &[&[("scope", Open), ("requested_at_ms", Open)]]),
    ("published", &[&[("receipts", Parties), ("publication_receipt", Open)]]),
    ("aborted", &[&[("failure", Members(FAILURE))]]),
    ("discard_acked", &[&[("receipts", Parties)]]),
    ("nodes_given_up", &[&[("lost", Open), ("reason", Parties)]]),
    ("failed", &[&[("failure", Members(FAILURE)), ("policy", Members(OUTCOME)), ("receipts", Parties)]]),
    ("replay_noted", &[&[("body_digest", Parties)]]),
    ("recovery_recorded", &[RECOVERY]),
    ("externally_exported", &[EXPORT]),
];

type Group = [(&'static str, Rule)];

const SUBMISSION: &Group = &[
    ("operation_id", Open),
    ("tenant", Open),
    ("submitter", Members(CLIENT)),
    ("intent", Tagged("kind", INTENTS)),
    ("intent_hash", Parties),
    ("key", Members(KEY)),
    ("successor", Members(KEY)),
    ("body_digest", Parties),
    ("unknown_fields", Parties),
    ("policy", Members(OUTCOME)),
];

const KEY: &Shape = &[&[("key_ref", Open), ("key_id", Open)]];

/// All open: credentials are already salted digests.
const CLIENT: &Shape = &[&[
    ("client_id", Open),
    ("subject_id", Open),
    ("roles", Open),
    ("registered", Open),
    ("scopes", Open),
    ("tenant", Open),
    ("cert_sha256", Members(CREDENTIAL)),
    ("token_jti", Members(CREDENTIAL)),
]];

const CREDENTIAL: &Shape = &[&[("salt", Open), ("sha256", Open)]];

/// The signature is hidden, because it names the approver's key or credential.
const APPROVAL: &Shape = &[&[
    ("subject_id", Open),
    ("roles", Open),
    ("registered", Open),
    ("claimed_at_ms", Open),
    ("approved_at_ms", Open),
    ("signature", Parties),
]];

const LAPSED: &Shape = &[&[("subject_id", Open), ("reason", Open)]];

const REJECTION: &Shape = &[&[
    ("subject_id", Open),
    ("roles", Open),
    ("registered", Open),
    ("reason", Parties),
    ("lost", Open),
    ("claimed_at_ms", Open),
    ("rejected_at_ms", Open),
    ("signature", Parties),
]];

const INTENTS: &[(&str, &Shape)] = &[
    ("payment", &[PAYMENT, SIGNING_TERMS]),
    ("asset_action", &[ASSET_ACTION, SIGNING_TERMS]),
    ("key_create", &[KEY_CREATE]),
    ("refresh", &[LIFECYCLE]),
    ("reshare", &[LIFECYCLE, &[("new_participants", Open), ("threshold", Open)]]),
    ("rotate", &[LIFECYCLE, &[("new_key_ref", Open), ("participants", Open), ("threshold", Open)]]),
    ("recover", &[LIFECYCLE, RECOVER]),
];

const PAYMENT: &Group = &[
    ("key_ref", Open),
    ("from_account", Masked),
    ("to_account", Masked),
    ("amount_minor", Open),
    ("currency", Open),
    ("reference", Parties),
];

const SIGNING_TERMS: &Group = &[
    ("requested_participants", Open),
    ("threshold", Open),
    ("bip32", Members(&[&[("network", Open), ("path", Open)]])),
    ("taproot", Members(&[&[("merkle_root", Open)]])),
    ("epoch_fence_token_hex", Open),
    ("public_key_artifact_ref", Open),
    ("publication_mode", Open),
];

const ASSET_ACTION: &Group = &[
    ("asset_id", Open),
    ("action", Open),
    ("chain_id", Open),
    ("request_digest", Open),
    ("typed_data_root", Open),
    ("public_fields", Parties),
];

const KEY_CREATE: &Group = &[
    ("asset_id", Open),
    ("purpose", Open),
    ("participants", Open),
    ("threshold", Open),
    ("signature_profile", Open),
    ("requested_signature_profile", Open),
    ("chains", Open),
];

const LIFECYCLE: &Group = &[
    ("target_epoch", Open),
    ("publication_mode", Open),
    ("reason", Parties),
    ("metadata", Parties),
    ("public_key_artifact_ref", Open),
];

const RECOVER: &Group = &[
    ("recovery_case_ref", Open),
    ("recovering_participant", Open),
    ("helper_participants", Open),
    ("helper_share_cids", Parties),
    ("expected_helper_admission_root", Parties),
];

/// Codes and names are open; values are hidden.
const OUTCOME: &Shape = &[&[
    ("decision", Open),
    ("bundle_id", Open),
    ("bundle_hash", Open),
    ("reasons", Each(&Members(STATEMENT))),
    ("obligations", Each(&Members(STATEMENT))),
    ("facts", Each(&Members(&[&[("name", Open), ("value", Parties)]]))),
    ("proven_by", Parties),
    ("documents", Parties),
    ("quorum", Members(&[&[("subjects", Open), ("required", Open), ("satisfied", Open), ("groups", Open)]])),
    ("input_hash", Parties),
    ("output_hash", Parties),
    ("fuel_used", Parties),
    ("fault", Members(&[&[("kind", Open), ("detail", Parties)]])),
]];

/// The operands are hidden as one value.
const STATEMENT: &Shape = &[&[("code", Open), ("operands", Parties)]];

const STAGED: &Shape = &[&[("epoch", Open), ("participants", Open), ("threshold", Open), ("public", Open)]];

const SIGNATURE: &Shape = &[&[
    ("signature_profile", Open),
    ("public_key_hex", Open),
    ("signed_digest", Parties),
    ("signature_hex", Published),
    ("signers", Open),
    ("package_hash", Open),
]];

const FAILURE: &Shape = &[&[("code", Open), ("detail", Parties), ("culprits", Open)]];

const RECOVERY: &Group = &[
    ("effect_id", Open),
    ("outcome", Open),
    ("result_root", Parties),
    ("recovered_at_ms", Open),
    ("participants", Open),
];

const EXPORT: &Group = &[
    ("rail", Open),
    ("export_ref", Open),
    ("state", Open),
    ("external_id", Masked),
    ("exported_at_ms", Open),
];
