//! A sample operation of each kind, with its key, policy outcome, approvals and admission.

use crate::admission::{Admission, AdmissionDecision};
use crate::approval::Approval;
use crate::binding::ClientBinding;
use crate::dsse::Envelope;
use crate::ids::{EpochName, Hex32, KeyId, KeyRef, OperationId, Tenant};
use crate::intent::{
    AssetAction, Intent, KeyCreate, Lifecycle, OperationType, Payment, PublicationMode, Recover, Refresh,
    Reshare, Rotate, SigningTerms,
};
use crate::key::{CustodyKey, Epoch, KeyState, PublicKey};
use crate::operation::{KeySlot, Operation, Submission, target};
use crate::policy::{Decision, Outcome, Quorum, Request};
use crate::roster::{ParticipantIndex, Roster, Threshold};
use crate::time::EpochMs;

/// The kinds of intents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the variants are those of Intent")]
pub enum Kind {
    Payment,
    AssetAction,
    KeyCreate,
    Refresh,
    Reshare,
    Rotate,
    Recover,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Self; 7] = [
        Self::Payment,
        Self::AssetAction,
        Self::KeyCreate,
        Self::Refresh,
        Self::Reshare,
        Self::Rotate,
        Self::Recover,
    ];
}

/// A Hex32 of 32 equal bytes.
#[must_use]
pub fn hex32(byte: u8) -> Hex32 {
    Hex32::new([byte; 32])
}

fn roster(indices: &[u16]) -> Roster {
    Roster::parse(indices).unwrap()
}

fn terms(publication_mode: PublicationMode) -> SigningTerms {
    SigningTerms {
        requested_participants: roster(&[0, 1, 2]),
        threshold: None,
        bip32: None,
        taproot: None,
        epoch_fence_token_hex: None,
        public_key_artifact_ref: None,
        publication_mode,
    }
}

/// An intent on the key `treasury`, held by nodes 0, 1 and 2 with the threshold 2.
#[must_use]
pub fn intent(kind: Kind, mode: PublicationMode) -> Intent {
    let change = Lifecycle {
        target_epoch: EpochName("2".into()),
        reason: "drill".into(),
        publication_mode: mode,
        metadata: Default::default(),
        public_key_artifact_ref: None,
    };
    match kind {
        Kind::Payment => Intent::Payment(Payment {
            key_ref: Some(KeyRef("treasury".into())),
            from_account: "acct-1".into(),
            to_account: "acct-2".into(),
            amount_minor: 12_500,
            currency: "EUR".into(),
            reference: None,
            terms: terms(mode),
        }),
        Kind::AssetAction => Intent::AssetAction(AssetAction {
            asset_id: "btc".into(),
            action: "transfer".into(),
            chain_id: "bitcoin".into(),
            request_digest: hex32(7),
            typed_data_root: hex32(8),
            public_fields: Default::default(),
            terms: terms(mode),
        }),
        Kind::KeyCreate => Intent::KeyCreate(KeyCreate {
            asset_id: "btc".into(),
            purpose: "cold".into(),
            participants: roster(&[0, 1, 2]),
            threshold: Threshold(2),
            signature_profile: "frost-ed25519-sha512".into(),
            requested_signature_profile: None,
            chains: vec![],
        }),
        Kind::Refresh => Intent::Refresh(Refresh { change }),
        Kind::Reshare => Intent::Reshare(Reshare {
            change,
            new_participants: roster(&[1, 2, 3, 4]),
            threshold: Threshold(3),
        }),
        Kind::Rotate => Intent::Rotate(Rotate {
            change,
            new_key_ref: KeyRef("treasury-2".into()),
            participants: roster(&[2, 3, 4, 5]),
            threshold: Threshold(3),
        }),
        Kind::Recover => Intent::Recover(Recover {
            change,
            recovery_case_ref: "case-9".into(),
            recovering_participant: ParticipantIndex(2),
            helper_participants: roster(&[0, 1]),
            helper_share_cids: vec![],
            expected_helper_admission_root: None,
        }),
    }
}

/// An `ALLOW` that counts these subjects and requires `required` of them.
#[must_use]
pub fn verdict(subjects: &[String], required: u32) -> Outcome {
    let satisfied = u32::try_from(subjects.len()).unwrap() >= required;
    Outcome {
        decision: Decision::Allow,
        bundle_id: "payment-guard".into(),
        bundle_hash: hex32(3),
        reasons: vec![],
        obligations: vec![],
        facts: vec![],
        quorum: Quorum { subjects: subjects.to_vec(), required, satisfied },
        input_hash: hex32(4),
        output_hash: hex32(5),
        fuel_used: 1,
        fault: None,
    }
}

/// The outcome with the digest of its request, as the policy host returns it.
#[must_use]
pub fn evaluated(request: &Request<'_>, verdict: Outcome) -> Outcome {
    Outcome { input_hash: request.digest().unwrap(), ..verdict }
}

/// The submission of an intent, whose policy requires `required` approvals.
#[must_use]
pub fn submission(intent: Intent, required: u32) -> Submission {
    let successor = matches!(intent, Intent::Rotate(_))
        .then(|| KeySlot { key_ref: KeyRef("treasury-2".into()), key_id: KeyId(hex32(14)) });
    Submission {
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
        intent,
        key: KeySlot { key_ref: KeyRef("treasury".into()), key_id: KeyId(hex32(2)) },
        successor,
        body_digest: hex32(6),
        unknown_fields: vec![],
        policy: verdict(&[], required),
    }
}

/// An unsigned approval.
#[must_use]
pub fn approval(subject: &str, at: EpochMs) -> Approval {
    Approval { approved_at_ms: at, ..super::approvers::approval(subject, 0) }
}

/// The key of the samples, in the epoch that their decisions admit.
#[must_use]
pub fn key() -> CustodyKey {
    CustodyKey {
        key_id: KeyId(hex32(2)),
        key_ref: KeyRef("treasury".into()),
        tenant: Tenant("default".into()),
        asset_id: "btc".into(),
        purpose: "cold".into(),
        signature_profile: "frost-ed25519-sha512".into(),
        state: KeyState::Active,
        threshold: Threshold(2),
        participants: roster(&[0, 1, 2]),
        epoch: Epoch { name: EpochName("1".into()), root: hex32(9) },
        epoch_since_ms: Some(EpochMs(2)),
        past_epochs: vec![],
        public: Some(PublicKey { public_key_hex: "00".repeat(32), package_hex: String::new() }),
        replaces: None,
        replaced_by: None,
        created_by: OperationId(Hex32::ZERO),
        created_at_ms: EpochMs(1),
        busy_with: None,
        revision: 3,
    }
}

/// The admission of an operation, without a valid signature.
#[must_use]
pub fn admission(operation: &Operation) -> Admission {
    let key = key();
    let target = target(operation, Some(&key));
    let operation_type = operation.intent.operation_type();
    let creates = operation_type == OperationType::KeyCreate;
    let participants = match &target {
        Some(target) if !creates => key.participants.union(&target.participants).unwrap(),
        Some(_) | None => roster(&[0, 1, 2]),
    };
    let decision = AdmissionDecision {
        operation_id: operation.id,
        operation_type,
        intent_hash: operation.intent_hash,
        request_digest: hex32(7),
        key_id: operation.key.key_id,
        epoch: key.epoch.name,
        epoch_root: if creates { Hex32::ZERO } else { key.epoch.root },
        participants,
        threshold: Threshold(2),
        holders: (target.is_some() && !creates).then_some(key.participants),
        target,
        derivation: None,
        bundle_hash: hex32(3),
        policy_input_hash: hex32(4),
        policy_output_hash: hex32(5),
        approvals_root: hex32(10),
        not_before_ms: EpochMs(0),
        not_after_ms: EpochMs(u64::MAX),
    };
    Admission { decision, envelope: Envelope::seal("test", b"", &[]), admission_hash: hex32(11) }
}
