//! Operations to store. They need not follow the rules of the state machine, which a store does not check.

use crate::contract::Ports;
use gateway_domain::binding::ClientBinding;
use gateway_domain::ids::{EpochName, Hex32, KeyId, KeyRef, OperationId, Tenant};
use gateway_domain::intent::{
    Intent, KeyCreate, Lifecycle, Payment, PublicationMode, Refresh, Rotate, SigningTerms,
};
use gateway_domain::key::CustodyKey;
use gateway_domain::key::transitions::{self, Keys};
use gateway_domain::operation::{Change, Event, Failure, KeySlot, Submission, evolve, open, replay};
use gateway_domain::policy::{Decision, Input, Moment, Outcome, Quorum};
use gateway_domain::roster::{Roster, Threshold};
use gateway_domain::time::EpochMs;
use gateway_engine::ports::{Commit, Committed, DecisionRecord, KeyChange, PreviewRecord, Record};

pub(crate) fn hex32(byte: u8) -> Hex32 {
    Hex32::new([byte; 32])
}

pub(crate) fn id(byte: u8) -> OperationId {
    OperationId(hex32(byte))
}

pub(crate) fn payment() -> Intent {
    Intent::Payment(Payment {
        key_ref: Some(KeyRef("treasury".into())),
        from_account: "acct-1".into(),
        to_account: "acct-2".into(),
        amount_minor: 9_007_199_254_740_993,
        currency: "EUR".into(),
        reference: Some("naïve \"quotes\" \u{1F511}".into()),
        bip32: None,
        terms: SigningTerms {
            requested_participants: Roster::parse(&[0, 1, 2]).unwrap(),
            threshold: None,
            epoch_fence_token_hex: None,
            publication_mode: PublicationMode::Manual,
        },
    })
}

pub(crate) fn key_create() -> Intent {
    Intent::KeyCreate(KeyCreate {
        asset_id: "btc".into(),
        purpose: "cold".into(),
        participants: Roster::parse(&[0, 1, 2]).unwrap(),
        threshold: Threshold(2),
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

/// To the key `treasury-2`, whose id is `hex32(22)`.
pub(crate) fn rotate() -> Intent {
    Intent::Rotate(Rotate {
        change: change(),
        new_key_ref: KeyRef("treasury-2".into()),
        participants: Roster::parse(&[0, 1, 2]).unwrap(),
        threshold: Threshold(2),
    })
}

pub(crate) fn verdict(required: u32) -> Outcome {
    Outcome {
        decision: Decision::Allow,
        bundle_id: "payment-guard".into(),
        bundle_hash: hex32(3),
        reasons: vec![],
        obligations: vec![],
        facts: vec![],
        quorum: Quorum { subjects: vec![], required, satisfied: required == 0 },
        input_hash: hex32(4),
        output_hash: hex32(5),
        fuel_used: 1,
        fault: None,
    }
}

pub(crate) fn submission(byte: u8, intent: Intent) -> Submission {
    let successor = matches!(intent, Intent::Rotate(_))
        .then(|| KeySlot { key_ref: KeyRef("treasury-2".into()), key_id: KeyId(hex32(22)) });
    Submission {
        operation_id: id(byte),
        tenant: Tenant("default".into()),
        submitter: submitter(),
        intent_hash: intent.hash().unwrap(),
        intent,
        key: KeySlot { key_ref: KeyRef("treasury".into()), key_id: KeyId(hex32(2)) },
        successor,
        body_digest: hex32(6),
        unknown_fields: vec![],
        policy: verdict(2),
    }
}

fn submitter() -> ClientBinding {
    ClientBinding {
        client_id: "desk".into(),
        subject_id: "carol".into(),
        roles: vec![],
        scopes: vec![],
        cert_sha256: None,
        token_jti: None,
        tenant: None,
    }
}

/// The input of an evaluation of a payment, and a denial.
fn denied(moment: Moment) -> (Input, Outcome) {
    let submission = submission(1, payment());
    let input = Input {
        moment,
        intent_hash: submission.intent_hash,
        tenant: submission.tenant,
        key_ref: submission.key.key_ref,
        submitter: submission.submitter,
        intent: submission.intent,
        approvals: vec![],
    };
    (input, Outcome { decision: Decision::Deny, ..verdict(0) })
}

/// A denial: of a submission, which its client may repeat, or of an admission, which the gateway repeats by itself.
pub(crate) fn decision(byte: u8, moment: Moment) -> DecisionRecord {
    let (input, outcome) = denied(moment);
    DecisionRecord { at_ms: EpochMs(7), operation_id: id(byte), input, outcome }
}

pub(crate) fn preview(at: EpochMs) -> PreviewRecord {
    let (input, outcome) = denied(Moment::Preview);
    PreviewRecord { at_ms: at, input, outcome }
}

/// The commit that opens an operation: two events, awaiting approvals.
pub(crate) fn opening(submission: Submission, at: EpochMs) -> Commit {
    let events = open(submission, at);
    let operation = replay(&events).unwrap();
    let claim = Some(format!("claim-{}", operation.id));
    Commit { operation, events, previous_record_root: Hex32::ZERO, keys: vec![], claim }
}

/// One operation with every kind of change.
pub(crate) fn golden() -> Commit {
    let events: Vec<Event> =
        serde_json::from_str(include_str!("../../../domain/golden/events.json")).unwrap();
    let operation = replay(&events).unwrap();
    Commit { operation, events, ..opening_payment(1) }
}

/// The golden history's signed decision.
pub(crate) fn decision_signed() -> Change {
    let changes = golden().events.into_iter().map(|event| event.change);
    changes.into_iter().find(|change| matches!(change, Change::DecisionSigned { .. })).unwrap()
}

pub(crate) fn failure() -> Failure {
    Failure { code: "refused".into(), detail: "a test".into(), culprits: vec![] }
}

pub(crate) fn failed() -> Change {
    Change::Failed { failure: failure(), policy: None, receipts: vec![] }
}

/// The [`opening`] of a payment at 1,000 ms.
pub(crate) fn opening_payment(byte: u8) -> Commit {
    opening(submission(byte, payment()), EpochMs(1_000))
}

/// A commit that adds these changes to a record.
pub(crate) fn following(record: &Record, at: EpochMs, changes: Vec<Change>) -> Commit {
    let event = |change| Event { at_ms: at, change, requested_by: None, settles: None };
    let events: Vec<_> = changes.into_iter().map(event).collect();
    let operation = events.iter().fold(record.operation.clone(), evolve);
    Commit { operation, events, previous_record_root: record.record_root, keys: vec![], claim: None }
}

/// The commit with the key as its events change it. Panics if they do not.
pub(crate) fn on_key(commit: Commit, before: Option<&CustodyKey>) -> Commit {
    let commit = on_keys(commit, Keys { subject: before.cloned(), successor: None });
    assert_eq!(commit.keys.len(), 1);
    commit
}

/// The commit with the operation's keys as its events change them.
pub(crate) fn on_keys(mut commit: Commit, before: Keys) -> Commit {
    let fold = |keys, event: &Event| transitions::after(keys, &commit.operation, &event.change);
    let after = commit.events.iter().fold(before.clone(), fold);
    let pairs = [(before.subject, after.subject), (before.successor, after.successor)];
    let changed = pairs.into_iter().filter(|(before, after)| before != after);
    let change = |(before, after): (Option<CustodyKey>, Option<CustodyKey>)| KeyChange {
        key: after.unwrap(),
        revision_before: before.map(|key| key.revision),
    };
    commit.keys = changed.map(change).collect();
    commit
}

pub(crate) fn note(byte: u8) -> Change {
    Change::ReplayNoted { body_digest: hex32(byte) }
}

pub(crate) async fn written(store: &impl Ports, commit: Commit) -> Record {
    match store.commit(commit).await.unwrap() {
        Committed::Written(record) => *record,
        Committed::Conflict => panic!("the commit met a conflict"),
    }
}

pub(crate) async fn assert_conflict(store: &impl Ports, commit: Commit) {
    let id = commit.operation.id;
    let before = (store.operation_load(id).await.unwrap(), store.operation_events(id).await.unwrap());
    let key_before = store.key_load(commit.operation.key.key_id).await.unwrap();
    let key_id = commit.operation.key.key_id;
    assert_eq!(store.commit(commit).await.unwrap(), Committed::Conflict);
    let after = (store.operation_load(id).await.unwrap(), store.operation_events(id).await.unwrap());
    assert_eq!(after, before, "a conflicting commit must write nothing");
    assert_eq!(
        store.key_load(key_id).await.unwrap(),
        key_before,
        "a conflicting commit must not change the key"
    );
}
