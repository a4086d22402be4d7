//! Commits and their conditions: revision, chain, claim.

use super::Deployment;
use super::samples::{
    assert_conflict, following, hex32, id, key_create, note, on_key, opening, opening_payment, payment,
    submission, written,
};
use gateway_domain::ids::{KeyId, KeyRef, Tenant};
use gateway_domain::operation::Event;
use gateway_domain::testing::samples::chained;
use gateway_domain::time::EpochMs;
use gateway_engine::Dependency;
use gateway_engine::ports::{CommitOperations, Committed, ReadOperations, Record};
use std::sync::Arc;
use tokio::task::JoinSet;

pub(crate) async fn new_operation_is_read_back(deployment: &impl Deployment) {
    let store = deployment.open().await;
    let commit = opening_payment(1);
    let record = written(&store, commit.clone()).await;
    assert_eq!(record.operation, commit.operation);
    assert_eq!(store.operation_load(id(1)).await.unwrap(), Some(record));
    let events = store.operation_events(id(1)).await.unwrap();
    assert_eq!(events, commit.events);
}

pub(crate) async fn commits_build_on_each_other(deployment: &impl Deployment) {
    let store = deployment.open().await;
    let mut record = written(&store, opening_payment(1)).await;
    for byte in 1..=10 {
        let changes = (0..byte % 4 + 1).map(note).collect();
        record = written(&store, following(&record, EpochMs(u64::from(byte)), changes)).await;
        assert_eq!(store.operation_load(id(1)).await.unwrap().as_ref(), Some(&record));
    }
    let n_events = store.operation_events(id(1)).await.unwrap().len();
    assert_eq!(u64::try_from(n_events).unwrap(), record.operation.revision);
}

pub(crate) async fn replayed_claim_is_a_conflict(deployment: &impl Deployment) {
    let store = deployment.open().await;
    let first = opening_payment(1);
    let mut second = opening_payment(2);
    second.claim.clone_from(&first.claim);
    written(&store, first).await;
    assert_conflict(&store, second).await;
}

pub(crate) async fn claims_are_scoped_by_tenant_family_and_custody_key(deployment: &impl Deployment) {
    let store = deployment.open().await;
    let claim = |byte, tenant: &str, key_ref: &str, custody| {
        let mut submission = submission(byte, if custody { key_create() } else { payment() });
        submission.tenant = Tenant(tenant.into());
        submission.key.key_ref = KeyRef(key_ref.into());
        submission.key.key_id = KeyId(hex32(byte));
        let mut commit = opening(submission, EpochMs(1));
        commit.claim = Some("the same".into());
        commit
    };
    written(&store, claim(1, "a", "treasury", false)).await;
    written(&store, claim(2, "b", "treasury", false)).await;
    written(&store, claim(3, "a", "treasury", true)).await;
    written(&store, claim(4, "a", "payroll", true)).await;
    // A product claim covers all keys; a custody claim covers one.
    assert_conflict(&store, claim(5, "a", "payroll", false)).await;
    assert_conflict(&store, claim(6, "a", "payroll", true)).await;
}

pub(crate) async fn stale_revision_is_a_conflict_and_writes_nothing(deployment: &impl Deployment) {
    let store = deployment.open().await;
    let record = written(&store, opening_payment(1)).await;
    let next = written(&store, following(&record, EpochMs(2), vec![note(1)])).await;
    assert_conflict(&store, following(&record, EpochMs(3), vec![note(2)])).await;
    assert_conflict(&store, following(&record, EpochMs(3), vec![note(2), note(3), note(4)])).await;
    let mut ahead = following(&next, EpochMs(4), vec![note(5)]);
    Arc::make_mut(&mut ahead.operation).revision += 1;
    assert_conflict(&store, ahead).await;
    // The conflicts left no trace in the log: the next root follows from the events that were written.
    let last = written(&store, following(&next, EpochMs(5), vec![note(6)])).await;
    super::log::assert_root(&store, &[id(1)], last.ledger_root).await;
}

pub(crate) async fn operation_cannot_be_created_twice(deployment: &impl Deployment) {
    let store = deployment.open().await;
    written(&store, opening_payment(1)).await;
    let mut again = opening_payment(1);
    again.claim = Some("another".into());
    assert_conflict(&store, again).await;
    let mut unclaimed = opening_payment(1);
    unclaimed.claim = None;
    assert_conflict(&store, unclaimed).await;
}

pub(crate) async fn wrong_previous_record_root_is_a_conflict(deployment: &impl Deployment) {
    let store = deployment.open().await;
    let record = written(&store, opening_payment(1)).await;
    let elsewhere = Record { record_root: hex32(9), ..record };
    let commit = following(&elsewhere, EpochMs(2), vec![note(1)]);
    assert_conflict(&store, commit).await;
}

pub(crate) async fn one_of_32_concurrent_commits_wins_each_revision(deployment: &impl Deployment) {
    let store = deployment.open().await;
    let mut record = written(&store, opening_payment(1)).await;
    for round in 0..8_u64 {
        let mut clients = JoinSet::new();
        for byte in 0..32 {
            let commit = following(&record, EpochMs(round), vec![note(byte)]);
            let store = Arc::clone(&store);
            clients.spawn(async move { store.commit(commit).await.unwrap() });
        }
        let answers = clients.join_all().await;
        let mut winners = answers.into_iter().filter_map(|answer| match answer {
            Committed::Written(record) => Some(*record),
            Committed::Conflict => None,
        });
        record = winners.next().expect("no commit was written");
        assert_eq!(winners.next(), None, "two commits of one revision were written");
        assert_eq!(store.operation_load(id(1)).await.unwrap().as_ref(), Some(&record));
    }
    assert_eq!(store.operation_events(id(1)).await.unwrap().len(), 2 + 8);
}

pub(crate) async fn inconsistent_commit_is_an_error(deployment: &impl Deployment) {
    let store = deployment.open().await;
    let mut empty = opening_payment(1);
    empty.events.clear();
    let mut too_many = on_key(opening(submission(2, key_create()), EpochMs(1)), None);
    let (again, last) =
        (Event { change: note(1), ..too_many.events[0].event.clone() }, too_many.events[1].hash);
    too_many.events.extend(chained(last, [again.clone(), again]));
    for commit in [empty, too_many] {
        let id = commit.operation.id;
        let error = store.commit(commit).await.unwrap_err();
        assert_eq!(error.dependency, Dependency::Store);
        assert!(error.detail.contains(&id.to_string()), "{error}");
        assert_eq!(store.operation_load(id).await.unwrap(), None);
    }
}
