//! Operations to store. They need not follow the rules of the state machine, which a store does not check.

use crate::Store;
use gateway_domain::ids::{Hex32, OperationId};
use gateway_domain::intent::{Intent, Payment, PublicationMode};
use gateway_domain::key::CustodyKey;
use gateway_domain::key::transitions::{self, Keys};
use gateway_domain::operation::{Change, Event, Failure, Operation, Submission, evolve, open, replay};
use gateway_domain::policy::{Decision, Input, Moment, Outcome};
use gateway_domain::testing::samples::{self, Kind};
use gateway_domain::time::EpochMs;
use gateway_engine::ports::{
    Asked, Commit, CommitOperations, Committed, DecisionRecord, KeyChange, PreviewRecord, ReadOperations,
    Record,
};
use std::sync::Arc;

pub(crate) use gateway_domain::testing::samples::hex32;

pub(crate) fn id(byte: u8) -> OperationId {
    OperationId(hex32(byte))
}

fn intent(kind: Kind) -> Intent {
    samples::intent(kind, PublicationMode::Manual)
}

/// A payment with values that a lossy encoding would change.
pub(crate) fn payment() -> Intent {
    let Intent::Payment(payment) = intent(Kind::Payment) else { panic!("the sample is a payment") };
    let reference = Some("naïve \"quotes\" \u{1F511}".into());
    Intent::Payment(Payment { amount_minor: 9_007_199_254_740_993, reference, ..payment })
}

pub(crate) fn asset_action() -> Intent {
    intent(Kind::AssetAction)
}

pub(crate) fn key_create() -> Intent {
    intent(Kind::KeyCreate)
}

pub(crate) fn refresh() -> Intent {
    intent(Kind::Refresh)
}

/// A rotation to the key with the id `hex32(14)`.
pub(crate) fn rotate() -> Intent {
    intent(Kind::Rotate)
}

pub(crate) fn submission(byte: u8, intent: Intent) -> Submission {
    Submission { operation_id: id(byte), ..samples::submission(intent, 2) }
}

/// The input of the evaluation of a payment, and a denial.
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
    (input, Outcome { decision: Decision::Deny, ..samples::verdict(&[], 0) })
}

/// A denial at this moment.
pub(crate) fn decision(byte: u8, moment: Moment) -> DecisionRecord {
    let (input, outcome) = denied(moment);
    DecisionRecord { at_ms: EpochMs(7), operation_id: id(byte), asked: asked(), input, outcome }
}

pub(crate) fn preview(at: EpochMs) -> PreviewRecord {
    let (input, outcome) = denied(Moment::Preview);
    PreviewRecord { at_ms: at, asked: Asked { idempotency_key: None, ..asked() }, input, outcome }
}

fn asked() -> Asked {
    Asked { request_id: Some("request-1".into()), idempotency_key: Some("key-1".into()) }
}

/// The commit that creates an operation: two events, after which it awaits approvals.
pub(crate) fn opening(submission: Submission, at: EpochMs) -> Commit {
    let events = open(submission, at);
    let operation = Arc::new(replay(&events).unwrap());
    let events = samples::chained(Hex32::ZERO, events);
    let claim = Some(format!("claim-{}", operation.id));
    Commit { operation, events, previous_record_root: Hex32::ZERO, keys: vec![], claim, spending: None }
}

/// One operation with every type of change.
pub(crate) fn golden() -> Commit {
    let events: Vec<Event> =
        serde_json::from_str(include_str!("../../../domain/golden/events.json")).unwrap();
    let operation = Arc::new(replay(&events).unwrap());
    Commit { operation, events: samples::chained(Hex32::ZERO, events), ..opening_payment(1) }
}

/// The golden history's signed decision.
pub(crate) fn decision_signed() -> Change {
    let changes = golden().events.into_iter().map(|chained| chained.event.change);
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
    let operation = Arc::new(events.iter().fold(Operation::clone(&record.operation), evolve));
    Commit {
        operation,
        events: samples::chained(record.record_root, events),
        previous_record_root: record.record_root,
        keys: vec![],
        claim: None,
        spending: None,
    }
}

/// The commit with the change that its events make to the key, of which there must be one.
pub(crate) fn on_key(commit: Commit, before: Option<&CustodyKey>) -> Commit {
    let commit = on_keys(commit, Keys { subject: before.cloned(), successor: None });
    assert_eq!(commit.keys.len(), 1);
    commit
}

/// The commit with the changes that its events make to the operation's keys.
pub(crate) fn on_keys(mut commit: Commit, before: Keys) -> Commit {
    let fold = |keys, event: &Event| transitions::after(keys, &commit.operation, event);
    let after = commit.events.iter().map(|chained| &chained.event).fold(before.clone(), fold);
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

pub(crate) async fn written(store: &Store, commit: Commit) -> Record {
    match store.commit(commit).await.unwrap() {
        Committed::Written(record) => *record,
        Committed::Conflict => panic!("the commit had a version conflict"),
    }
}

pub(crate) async fn assert_conflict(store: &Store, commit: Commit) {
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
