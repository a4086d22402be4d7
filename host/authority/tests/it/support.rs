//! An operation whose quorum is reached, and its key.

use gateway_authority::EmbeddedAuthority;
use gateway_domain::admission::Admission;
use gateway_domain::approval::Approval;
use gateway_domain::binding::ClientBinding;
use gateway_domain::ids::{EpochName, Hex32, KeyId, KeyRef, OperationId, Tenant};
use gateway_domain::intent::{
    self, AssetAction, Intent, KeyCreate, Lifecycle, Payment, PublicationMode, Recover, Refresh, Reshare,
    Rotate, SigningTerms,
};
use gateway_domain::key::{CustodyKey, Epoch, KeyState, PublicKey};
use gateway_domain::operation::{KeySlot, Operation, Submission, open, replay};
use gateway_domain::policy::{Decision, Outcome, Quorum};
use gateway_domain::roster::{ParticipantIndex, Roster, Threshold};
use gateway_domain::time::EpochMs;
use gateway_engine::Unavailable;
use gateway_engine::ports::{AdmissionRequest, SignAdmission};
use zeroize::Zeroizing;

pub(crate) const NOT_BEFORE: EpochMs = EpochMs(1_000);
pub(crate) const NOT_AFTER: EpochMs = EpochMs(2_000);

pub(crate) fn hex32(byte: u8) -> Hex32 {
    Hex32::new([byte; 32])
}

pub(crate) fn roster(indices: &[u16]) -> Roster {
    Roster::parse(indices).unwrap()
}

pub(crate) fn authority(byte: u8) -> EmbeddedAuthority {
    EmbeddedAuthority::new(&Zeroizing::new([byte; 32]))
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
        bip32: None,
        terms: terms(None),
    })
}

fn terms(threshold: Option<u16>) -> SigningTerms {
    SigningTerms {
        requested_participants: roster(&[0, 1, 2]),
        threshold: threshold.map(Threshold),
        epoch_fence_token_hex: None,
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
        serves: None,
    })
}

fn change() -> Lifecycle {
    Lifecycle {
        target_epoch: EpochName("2".into()),
        reason: "drill".into(),
        publication_mode: PublicationMode::Manual,
        metadata: Default::default(),
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
    let quorum =
        Quorum { subjects: subjects.iter().map(ToString::to_string).collect(), required, satisfied: true };
    Outcome {
        decision: Decision::Allow,
        bundle_id: "payment-guard".into(),
        bundle_hash: hex32(3),
        reasons: vec![],
        obligations: vec![],
        facts: vec![],
        quorum,
        input_hash: hex32(4),
        output_hash: hex32(5),
        fuel_used: 1,
        fault: None,
    }
}

pub(crate) fn operation(intent: Intent, approvers: &[&str]) -> Operation {
    let submission = Submission {
        operation_id: OperationId(hex32(1)),
        tenant: Tenant("default".into()),
        submitter: ClientBinding {
            client_id: "desk".into(),
            subject_id: "carol".into(),
            roles: vec![],
            scopes: vec![],
            cert_sha256: None,
            token_jti: None,
            tenant: None,
        },
        intent_hash: intent.hash().unwrap(),
        key: KeySlot { key_ref: KeyRef("treasury".into()), key_id: key_id() },
        successor: matches!(intent, Intent::Rotate(_))
            .then(|| KeySlot { key_ref: KeyRef("treasury-2".into()), key_id: KeyId(hex32(14)) }),
        body_digest: hex32(6),
        unknown_fields: vec![],
        policy: policy(&[], 2),
        intent,
    };
    let mut operation = replay(&open(submission, EpochMs(1))).unwrap();
    operation.approvals = approvers.iter().map(|subject| approval(subject)).collect();
    operation
}

fn approval(subject: &str) -> Approval {
    Approval {
        subject_id: subject.into(),
        roles: vec!["approver".into()],
        claimed_at_ms: 0,
        approved_at_ms: EpochMs(500),
        signature: None,
    }
}

pub(crate) fn key() -> CustodyKey {
    CustodyKey {
        key_id: key_id(),
        key_ref: KeyRef("treasury".into()),
        tenant: Tenant("default".into()),
        asset_id: "btc".into(),
        purpose: "cold".into(),
        signature_profile: "frost-ed25519-sha512".into(),
        serves: None,
        serves_since: None,
        state: KeyState::Active,
        threshold: Threshold(2),
        participants: roster(&[0, 1, 2]),
        epoch: Epoch { name: EpochName("1".into()), root: hex32(9) },
        past_epochs: vec![],
        replaces: None,
        replaced_by: None,
        public: Some(PublicKey { public_key_hex: hex32(10).to_string(), package_hex: "00".into() }),
        created_by: gateway_domain::ids::OperationId(gateway_domain::ids::Hex32::ZERO),
        busy_with: None,
        revision: 3,
    }
}

pub(crate) async fn sign(
    operation: &Operation,
    policy: &Outcome,
    key: Option<&CustodyKey>,
) -> Result<Admission, Unavailable> {
    let request = AdmissionRequest {
        operation,
        policy,
        key,
        derivation: None,
        not_before_ms: NOT_BEFORE,
        not_after_ms: NOT_AFTER,
    };
    authority(1).sign(request).await
}
