//! A sample operation of each kind, with its key, policy outcome, approvals and admission.

use crate::admission::{Admission, AdmissionDecision};
use crate::approval::Approval;
use crate::binding::ClientBinding;
use crate::dsse::Envelope;
use crate::evidence::ChainedEvent;
use crate::ids::{EpochName, Hex32, KeyId, KeyRef, OperationId, Tenant};
use crate::intent::{Intent, OperationType, Payment, PublicationMode, Refresh, SigningTerms};
use crate::key::{CustodyKey, Epoch, KeyState, PublicKey};
use crate::operation::{Event, KeySlot, Operation, Submission, target};
use crate::policy::{Decision, Outcome, Quorum, Request};
use crate::redaction::Salt;
use crate::roster::{Roster, Threshold};
use crate::samples;
use crate::time::EpochMs;

/// The events in the chain of one operation, after the event with the hash `previous`. They have the same salt.
pub fn chained(mut previous: Hex32, events: impl IntoIterator<Item = Event>) -> Vec<ChainedEvent> {
    let chain = |event| {
        let chained = ChainedEvent::after(previous, event, Salt::new([7; 32])).unwrap();
        previous = chained.hash;
        chained
    };
    events.into_iter().map(chain).collect()
}

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
pub fn hex32(byte: u8) -> Hex32 {
    Hex32::new([byte; 32])
}

/// A roster of these participants.
pub fn roster(indices: &[u16]) -> Roster {
    Roster::parse(indices).unwrap()
}

/// An intent on the key `treasury`, held by nodes 0, 1 and 2 with the threshold 2.
pub fn intent(kind: Kind, mode: PublicationMode) -> Intent {
    let terms = || SigningTerms { publication_mode: mode, ..samples::terms(roster(&[0, 1, 2])) };
    let change = samples::change("2", mode);
    match kind {
        Kind::Payment => {
            Intent::Payment(Payment { key_ref: Some(KeyRef("treasury".into())), ..samples::payment(terms()) })
        }
        Kind::AssetAction => Intent::AssetAction(samples::asset_action(hex32(7), terms())),
        Kind::KeyCreate => {
            Intent::KeyCreate(samples::key_create(roster(&[0, 1, 2]), 2, "frost-ed25519-sha512"))
        }
        Kind::Refresh => Intent::Refresh(Refresh { change }),
        Kind::Reshare => Intent::Reshare(samples::reshare(change, roster(&[1, 2, 3, 4]), 3)),
        Kind::Rotate => Intent::Rotate(samples::rotate(change, "treasury-2", roster(&[2, 3, 4, 5]), 3)),
        Kind::Recover => Intent::Recover(samples::recover(change, 2, roster(&[0, 1]))),
    }
}

/// An `ALLOW` that counts these subjects and requires `required` of them.
pub fn verdict(subjects: &[String], required: u32) -> Outcome {
    let satisfied = u32::try_from(subjects.len()).unwrap() >= required;
    Outcome {
        decision: Decision::Allow,
        bundle_id: "payment-guard".into(),
        bundle_hash: hex32(3),
        reasons: vec![],
        obligations: vec![],
        facts: vec![],
        proven_by: vec![],
        documents: vec![],
        quorum: Quorum { subjects: subjects.to_vec(), required, satisfied, groups: vec![] },
        input_hash: hex32(4),
        output_hash: hex32(5),
        fuel_used: 1,
        fault: None,
    }
}

/// The outcome with the digest of its request, as the policy host returns it.
pub fn evaluated(request: &Request<'_>, verdict: Outcome) -> Outcome {
    Outcome { input_hash: request.digest().unwrap(), ..verdict }
}

/// The submission of an intent, whose policy requires `required` approvals.
pub fn submission(intent: Intent, required: u32) -> Submission {
    let successor = matches!(intent, Intent::Rotate(_))
        .then(|| KeySlot { key_ref: KeyRef("treasury-2".into()), key_id: KeyId(hex32(14)) });
    Submission {
        operation_id: OperationId(hex32(1)),
        tenant: Tenant("default".into()),
        submitter: ClientBinding { client_id: "desk".into(), roles: vec![], ..samples::submitter("carol") },
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
pub fn approval(subject: &str, at: EpochMs) -> Approval {
    Approval { approved_at_ms: at, ..samples::approval(subject, 0) }
}

/// The key of the samples, in the epoch that their decisions admit.
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
