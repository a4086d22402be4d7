//! A key is written in the commit of the operation that changes it, if its stored revision is the one that was read.

use super::Deployment;
use super::samples::{
    assert_conflict, following, hex32, key_create, on_key, on_keys, opening, refresh, rotate, submission,
    written,
};
use crate::Store;
use gateway_domain::ids::{EpochName, KeyId, KeyRef};
use gateway_domain::intent::{Intent, KeyCreate};
use gateway_domain::key::transitions::Keys;
use gateway_domain::key::{CustodyKey, Epoch, KeyState, PublicKey};
use gateway_domain::operation::{Change, KeySlot, Staged};
use gateway_domain::roster::{Roster, Threshold};
use gateway_domain::time::EpochMs;
use gateway_engine::ports::{Commit, CommitOperations, Committed, KeyQuorum, ReadOperations, Record};
use std::sync::Arc;

/// The id of the samples' key.
fn key_id() -> KeyId {
    KeyId(hex32(2))
}

fn requested() -> Change {
    Change::ExecutionRequested { requested_at_ms: None }
}

/// The changes of an operation from its execution on, which change the key three times.
fn executed(epoch: &str) -> Vec<Change> {
    let staged = Staged {
        epoch: Epoch { name: EpochName(epoch.into()), root: hex32(12) },
        public: PublicKey { public_key_hex: "00".repeat(32), package_hex: "01".into() },
        participants: Roster::parse(&[0, 1, 2]).unwrap(),
        threshold: Threshold(2),
    };
    let done = Change::Executed { result_ref: hex32(13), signature: None, receipts: vec![] };
    vec![requested(), Change::EpochDecided { staged: Box::new(staged), receipts: vec![] }, done]
}

/// Loads both keys of the samples' rotation.
async fn keys(store: &Store) -> Keys {
    let subject = store.key_load(key_id()).await.unwrap();
    Keys { subject, successor: store.key_load(KeyId(hex32(14))).await.unwrap() }
}

async fn created(store: &Store) -> (Record, CustodyKey) {
    let record = written(store, on_key(opening(submission(1, key_create()), EpochMs(1)), None)).await;
    (record, store.key_load(key_id()).await.unwrap().unwrap())
}

pub(crate) async fn key_is_created_with_its_operation(deployment: &impl Deployment) {
    let store = deployment.open().await;
    let commit = on_key(opening(submission(1, key_create()), EpochMs(1)), None);
    written(&store, commit.clone()).await;
    assert_eq!(store.key_load(key_id()).await.unwrap().as_ref(), Some(&commit.keys[0].key));
}

pub(crate) async fn one_commit_may_advance_a_key_by_several_revisions(deployment: &impl Deployment) {
    let store = deployment.open().await;
    let (record, key) = created(&store).await;
    let commit = on_key(following(&record, EpochMs(2), executed("1")), Some(&key));
    written(&store, commit.clone()).await;
    let after = store.key_load(key_id()).await.unwrap();
    assert_eq!(after.as_ref(), Some(&commit.keys[0].key));
    assert_eq!(after.map(|key| (key.revision, key.state, key.busy_with)), Some((3, KeyState::Active, None)));
}

pub(crate) async fn stale_key_is_a_conflict_and_writes_nothing(deployment: &impl Deployment) {
    let store = deployment.open().await;
    let (record, key) = created(&store).await;
    let other = written(&store, opening(submission(3, refresh()), EpochMs(2))).await;
    let stale = on_key(following(&other, EpochMs(3), vec![requested()]), Some(&key));
    written(&store, on_key(following(&record, EpochMs(4), executed("1")), Some(&key))).await;
    assert_conflict(&store, stale).await;
    let missing = opening(submission(4, refresh()), EpochMs(2));
    let mut missing = on_key(missing_key(missing), None);
    missing.keys[0].revision_before = Some(0);
    assert_conflict(&store, missing).await;
}

/// The commit, changed to create a key of another name.
fn missing_key(mut commit: Commit) -> Commit {
    let operation = Arc::make_mut(&mut commit.operation);
    operation.key.key_id = KeyId(hex32(99));
    operation.key.key_ref.0 = "elsewhere".into();
    operation.intent = key_create();
    commit
}

pub(crate) async fn key_cannot_be_created_twice(deployment: &impl Deployment) {
    let store = deployment.open().await;
    created(&store).await;
    let second = on_key(opening(submission(3, key_create()), EpochMs(2)), None);
    assert_conflict(&store, second).await;
}

/// A rotation reserves the new key's name at its submission, and both keys when it executes.
pub(crate) async fn rotation_changes_both_keys_in_one_commit(deployment: &impl Deployment) {
    let store = deployment.open().await;
    let (record, key) = created(&store).await;
    written(&store, on_key(following(&record, EpochMs(2), executed("1")), Some(&key))).await;
    let before = keys(&store).await;
    let second = on_keys(opening(submission(4, rotate()), EpochMs(3)), before.clone());
    let opened = written(&store, on_keys(opening(submission(3, rotate()), EpochMs(3)), before)).await;
    assert_conflict(&store, second).await;
    let reserved = keys(&store).await;
    let commit = on_keys(following(&opened, EpochMs(4), vec![requested()]), reserved.clone());
    assert_eq!(commit.keys.len(), 2);
    for stale in 0..2 {
        let mut stale_commit = commit.clone();
        stale_commit.keys[stale].revision_before = Some(77);
        assert_conflict(&store, stale_commit).await;
        assert_eq!(keys(&store).await, reserved, "both keys stay unchanged");
    }
    let both = commit.keys.iter().map(|change| Some(change.key.clone())).collect::<Vec<_>>();
    written(&store, commit).await;
    let after = keys(&store).await;
    assert_eq!(vec![after.subject, after.successor], both);
    store.close().await;
    let store = deployment.open().await;
    assert_eq!(store.key_load(KeyId(hex32(14))).await.unwrap(), both[1]);
}

pub(crate) async fn each_distinct_quorum_of_signing_keys_is_listed_once(deployment: &impl Deployment) {
    let store = deployment.open().await;
    let quorum = |participants: &[u16], threshold: u16| {
        let participants = Roster::parse(participants).unwrap();
        KeyQuorum { threshold: participants.threshold(threshold).unwrap(), participants }
    };
    let (three, five) = (quorum(&[0, 1, 2], 2), quorum(&[2, 3, 4, 10, 11], 4));
    for (byte, needed) in (1_u8..).zip([&three, &five, &three, &three]) {
        let Intent::KeyCreate(create) = key_create() else { panic!("the sample creates a key") };
        let KeyQuorum { participants, threshold } = needed.clone();
        let mut submission =
            submission(byte, Intent::KeyCreate(KeyCreate { participants, threshold, ..create }));
        submission.key = KeySlot { key_ref: KeyRef(format!("key-{byte}")), key_id: KeyId(hex32(byte)) };
        let record = written(&store, on_key(opening(submission, EpochMs(1)), None)).await;
        let signing = store.key_quorums(9).await.unwrap().len();
        assert_eq!(signing, usize::from(byte - 1).min(2), "a key that is being created signs nothing");
        let mut changes = executed("1");
        if let Some(Change::EpochDecided { staged, .. }) = changes.get_mut(1) {
            (staged.participants, staged.threshold) = (needed.participants.clone(), needed.threshold);
        }
        let key = store.key_load(KeyId(hex32(byte))).await.unwrap();
        written(&store, on_key(following(&record, EpochMs(2), changes), key.as_ref())).await;
    }
    assert_eq!(store.key_quorums(9).await.unwrap(), [three.clone(), five]);
    assert_eq!(store.key_quorums(1).await.unwrap(), [three]);
    for (after, n_max, expected) in [(None, 3, &[1, 2, 3][..]), (Some(3), 3, &[4]), (Some(4), 3, &[])] {
        let keys = store.keys_after(after.map(|byte| KeyId(hex32(byte))), n_max).await.unwrap();
        let ids: Vec<_> = keys.into_iter().map(|key| key.key_id).collect();
        assert_eq!(ids, expected.iter().map(|byte| KeyId(hex32(*byte))).collect::<Vec<_>>());
    }
}

pub(crate) async fn one_of_two_operations_on_a_key_executes(deployment: &impl Deployment) {
    let store = deployment.open().await;
    let (record, key) = created(&store).await;
    written(&store, on_key(following(&record, EpochMs(2), executed("1")), Some(&key))).await;
    let key = store.key_load(key_id()).await.unwrap().unwrap();
    let mut commits = Vec::new();
    for byte in [3, 4] {
        let record = written(&store, opening(submission(byte, refresh()), EpochMs(2))).await;
        commits.push(on_key(following(&record, EpochMs(3), vec![requested()]), Some(&key)));
    }
    let operations = commits.iter().map(|commit| Some(commit.operation.id)).collect::<Vec<_>>();
    let [first, second] = commits.try_into().unwrap();
    let (first, second) = tokio::join!(store.commit(first), store.commit(second));
    let is_written = |answer: &_| matches!(answer, Ok(Committed::Written(_)));
    let winner = match (is_written(&first), is_written(&second)) {
        (true, false) => 0,
        (false, true) => 1,
        written => panic!("exactly one must be written: {written:?}"),
    };
    let key = store.key_load(key_id()).await.unwrap().unwrap();
    assert_eq!(key.busy_with, operations[winner]);
}
