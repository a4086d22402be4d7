//! Sample intents, and who submits and approves them: the one set for a node's self-test and the tests of all crates. Each
//! caller changes the members that matter to it.

use crate::approval::Approval;
use crate::binding::ClientBinding;
use crate::ids::{EpochName, Hex32, KeyRef};
use crate::intent::{
    AssetAction, KeyCreate, Lifecycle, Payment, PublicationMode, Recover, Reshare, Rotate, SigningTerms,
};
use crate::roster::{ParticipantIndex, Roster, Threshold};
use crate::time::EpochMs;

/// The client `client-1` with this subject, who may submit.
pub fn submitter(subject: &str) -> ClientBinding {
    ClientBinding {
        client_id: "client-1".to_owned(),
        subject_id: subject.to_owned(),
        roles: vec!["submitter".to_owned()],
        registered: None,
        scopes: vec![],
        cert_sha256: None,
        token_jti: None,
        tenant: None,
    }
}

/// An unsigned approval in the role `approver`.
pub fn approval(subject_id: &str, claimed_at_ms: i64) -> Approval {
    Approval {
        subject_id: subject_id.to_owned(),
        roles: vec!["approver".to_owned()],
        registered: None,
        claimed_at_ms,
        approved_at_ms: EpochMs(u64::try_from(claimed_at_ms).unwrap_or_default()),
        signature: None,
    }
}

/// The terms of a signature by these participants, which is published when someone asks.
pub fn terms(requested_participants: Roster) -> SigningTerms {
    SigningTerms {
        requested_participants,
        threshold: None,
        bip32: None,
        taproot: None,
        epoch_fence_token_hex: None,
        public_key_artifact_ref: None,
        publication_mode: PublicationMode::Manual,
    }
}

/// A payment of 125 euros that names no key.
pub fn payment(terms: SigningTerms) -> Payment {
    Payment {
        key_ref: None,
        from_account: "acct-1".to_owned(),
        to_account: "acct-2".to_owned(),
        amount_minor: 12_500,
        currency: "EUR".to_owned(),
        reference: None,
        terms,
    }
}

/// A custody signature over this digest.
pub fn asset_action(request_digest: Hex32, terms: SigningTerms) -> AssetAction {
    AssetAction {
        asset_id: "btc".to_owned(),
        action: "transfer".to_owned(),
        chain_id: "bitcoin".to_owned(),
        request_digest,
        typed_data_root: Hex32::new([8; 32]),
        public_fields: Default::default(),
        terms,
    }
}

/// The creation of a key.
pub fn key_create(participants: Roster, threshold: u16, signature_profile: &str) -> KeyCreate {
    KeyCreate {
        asset_id: "btc".to_owned(),
        purpose: "cold".to_owned(),
        participants,
        threshold: Threshold(threshold),
        signature_profile: signature_profile.to_owned(),
        requested_signature_profile: None,
        chains: vec![],
    }
}

/// What all changes of a key have in common.
pub fn change(epoch: &str, publication_mode: PublicationMode) -> Lifecycle {
    Lifecycle {
        target_epoch: EpochName(epoch.to_owned()),
        reason: "drill".to_owned(),
        publication_mode,
        metadata: Default::default(),
        public_key_artifact_ref: None,
    }
}

/// New shares for these participants.
pub fn reshare(change: Lifecycle, new_participants: Roster, threshold: u16) -> Reshare {
    Reshare { change, new_participants, threshold: Threshold(threshold) }
}

/// A new key of this name that replaces the present one.
pub fn rotate(change: Lifecycle, new_key_ref: &str, participants: Roster, threshold: u16) -> Rotate {
    let new_key_ref = KeyRef(new_key_ref.to_owned());
    Rotate { change, new_key_ref, participants, threshold: Threshold(threshold) }
}

/// The recovery of one participant's share, without contributions that the helpers made before.
pub fn recover(change: Lifecycle, recovering: u16, helper_participants: Roster) -> Recover {
    Recover {
        change,
        recovery_case_ref: "case-9".to_owned(),
        recovering_participant: ParticipantIndex(recovering),
        helper_participants,
        helper_share_cids: vec![],
        expected_helper_admission_root: None,
    }
}
