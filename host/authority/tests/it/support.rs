//! Sample operations with enough approvals, and their key.

use gateway_domain::admission::{Admission, Derivation};
use gateway_domain::ids::{EpochName, KeyId, KeyRef, Tenant};
use gateway_domain::intent::{
    self, AssetAction, Intent, KeyCreate, Lifecycle, Payment, PublicationMode, Recover, Refresh, Reshare,
    Rotate, SigningTerms,
};
use gateway_domain::key::{CustodyKey, PublicKey};
use gateway_domain::operation::AdmissionRequest;
use gateway_domain::operation::{KeySlot, Operation, Submission, open, replay};
use gateway_domain::policy::{Outcome, Quorum};
use gateway_domain::roster::{ParticipantIndex, Roster, Threshold};
use gateway_domain::testing::samples;
pub(crate) use gateway_domain::testing::samples::hex32;
use gateway_domain::time::EpochMs;
use policy_authority::{Authority, Refusal};
use zeroize::Zeroizing;

pub(crate) const NOT_BEFORE: EpochMs = EpochMs(1_000);
pub(crate) const NOT_AFTER: EpochMs = EpochMs(2_000);

pub(crate) fn roster(indices: &[u16]) -> Roster {
    Roster::parse(indices).unwrap()
}

pub(crate) fn authority(byte: u8) -> Authority {
    Authority::new(&Zeroizing::new([byte; 32]))
}

/// The id of the key `treasury` of tenant `default`.
pub(crate) fn key_id() -> KeyId {
    intent::key_id(&Tenant("default".into()), &KeyRef("treasury".into())).unwrap()
}

pub(crate) fn payment(key_ref: Option<&str>) -> Intent {
    Intent::Payment(Payment {
        key_ref: key_ref.map(|name| KeyRef(name.into())),
        from_account: "acct-1".into(),
        to_account: "acct-2".into(),
        amount_minor: 12_500,
        currency: "EUR".into(),
        reference: None,
        terms: terms(None),
    })
}

fn terms(threshold: Option<u16>) -> SigningTerms {
    SigningTerms {
        requested_participants: roster(&[0, 1, 2]),
        threshold: threshold.map(Threshold),
        bip32: None,
        taproot: None,
        epoch_fence_token_hex: None,
        public_key_artifact_ref: None,
        publication_mode: PublicationMode::Manual,
    }
}

pub(crate) fn asset_action(threshold: Option<u16>) -> Intent {
    Intent::AssetAction(AssetAction {
        asset_id: "btc".into(),
        action: "transfer".into(),
        chain_id: "bitcoin".into(),
        request_digest: hex32(7),
        typed_data_root: hex32(8),
        public_fields: Default::default(),
        terms: terms(threshold),
    })
}

pub(crate) fn key_create() -> Intent {
    Intent::KeyCreate(KeyCreate {
        asset_id: "btc".into(),
        purpose: "cold".into(),
        participants: roster(&[0, 1, 2, 3, 4]),
        threshold: Threshold(3),
        signature_profile: "frost-ed25519-sha512".into(),
        requested_signature_profile: None,
        chains: vec![],
    })
}

fn change() -> Lifecycle {
    Lifecycle {
        target_epoch: EpochName("2".into()),
        reason: "drill".into(),
        publication_mode: PublicationMode::Manual,
        metadata: Default::default(),
        public_key_artifact_ref: None,
    }
}

pub(crate) fn refresh() -> Intent {
    Intent::Refresh(Refresh { change: change() })
}

pub(crate) fn reshare(new_participants: &[u16]) -> Intent {
    Intent::Reshare(Reshare {
        change: change(),
        new_participants: roster(new_participants),
        threshold: Threshold(3),
    })
}

pub(crate) fn rotate() -> Intent {
    Intent::Rotate(Rotate {
        change: change(),
        new_key_ref: KeyRef("treasury-2".into()),
        participants: roster(&[2, 3, 4]),
        threshold: Threshold(3),
    })
}

pub(crate) fn recover() -> Intent {
    Intent::Recover(Recover {
        change: change(),
        recovery_case_ref: "case-9".into(),
        recovering_participant: ParticipantIndex(2),
        helper_participants: roster(&[0, 1]),
        helper_share_cids: vec![],
        expected_helper_admission_root: None,
    })
}

pub(crate) fn policy(subjects: &[&str], required: u32) -> Outcome {
    let subjects: Vec<_> = subjects.iter().map(ToString::to_string).collect();
    let quorum = Quorum { subjects, required, satisfied: true };
    Outcome { quorum, ..samples::verdict(&[], 0) }
}

pub(crate) fn operation(intent: Intent, approvers: &[&str]) -> Operation {
    let submission = Submission {
        key: KeySlot { key_ref: KeyRef("treasury".into()), key_id: key_id() },
        policy: policy(&[], 2),
        ..samples::submission(intent, 2)
    };
    let mut operation = replay(&open(submission, EpochMs(1))).unwrap();
    operation.approvals = approvers.iter().map(|subject| samples::approval(subject, EpochMs(500))).collect();
    operation
}

pub(crate) fn key() -> CustodyKey {
    // The generator of Ed25519.
    let public_key_hex = format!("58{}", "66".repeat(31));
    let public = PublicKey { public_key_hex, package_hex: "00".into() };
    CustodyKey { key_id: key_id(), public: Some(public), ..samples::key() }
}

pub(crate) fn sign(
    operation: &Operation,
    policy: &Outcome,
    key: Option<&CustodyKey>,
) -> Result<Admission, Refusal> {
    let derivation = key.and_then(|key| derivation(&operation.intent, key));
    authority(1)
        .sign(&AdmissionRequest { derivation: derivation.as_ref(), ..request(operation, policy, key) })
}

/// The derived key of a payment without a child key. The authority does not compare the tweak.
pub(crate) fn derivation(intent: &Intent, key: &CustodyKey) -> Option<Derivation> {
    let Intent::Payment(_) = intent else { return None };
    Some(Derivation {
        payments: true,
        path: None,
        taproot: None,
        tweak: hex32(1),
        public_key_hex: key.payments_public_key_hex(),
    })
}

pub(crate) fn request<'a>(
    operation: &'a Operation,
    policy: &'a Outcome,
    key: Option<&'a CustodyKey>,
) -> AdmissionRequest<'a> {
    AdmissionRequest {
        operation,
        policy,
        key,
        derivation: None,
        not_before_ms: NOT_BEFORE,
        not_after_ms: NOT_AFTER,
    }
}
