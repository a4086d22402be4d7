//! Work lists, absence, and decisions without an operation.

use super::Deployment;
use super::samples::{
    decision, following, hex32, id, note, opening, opening_payment, payment, submission, written,
};
use gateway_domain::ids::KeyId;
use gateway_domain::operation::{Change, Failure};
use gateway_domain::time::EpochMs;
use gateway_engine::ports::{CommitOperations, ReadOperations};

pub(crate) async fn owing_operations_longest_untouched_first(deployment: &impl Deployment) {
    let store = deployment.open().await;
    for (byte, at) in [(1, 30), (2, 10), (3, 20)] {
        let record = written(&*store, opening_payment(byte)).await;
        written(&*store, following(&record, EpochMs(at), vec![Change::QuorumReached])).await;
    }
    written(&*store, opening_payment(4)).await;
    assert_eq!(store.operations_owing(10).await.unwrap(), [id(2), id(3), id(1)]);
    assert_eq!(store.operations_owing(2).await.unwrap(), [id(2), id(3)]);
    let touched = store.operation_load(id(2)).await.unwrap().unwrap();
    written(&*store, following(&touched, EpochMs(40), vec![note(1)])).await;
    assert_eq!(store.operations_owing(10).await.unwrap(), [id(3), id(1), id(2)]);
    let ended = store.operation_load(id(3)).await.unwrap().unwrap();
    let failure = Failure { code: "refused".into(), detail: "a test".into(), culprits: vec![] };
    written(&*store, following(&ended, EpochMs(50), vec![Change::Failed { failure, policy: None }])).await;
    assert_eq!(store.operations_owing(10).await.unwrap(), [id(1), id(2)]);
}

pub(crate) async fn pending_operations_submitted_before(deployment: &impl Deployment) {
    let store = deployment.open().await;
    for (byte, at) in [(1, 30), (2, 10), (3, 20)] {
        written(&*store, opening(submission(byte, payment()), EpochMs(at))).await;
    }
    assert_eq!(store.operations_pending_since(EpochMs(30), 10).await.unwrap(), [id(2), id(3)]);
    assert_eq!(store.operations_pending_since(EpochMs(31), 2).await.unwrap(), [id(2), id(3)]);
    // Later events do not make it younger; the quorum ends the wait.
    let record = store.operation_load(id(3)).await.unwrap().unwrap();
    let record = written(&*store, following(&record, EpochMs(99), vec![note(1)])).await;
    assert_eq!(store.operations_pending_since(EpochMs(u64::MAX), 9).await.unwrap(), [id(2), id(3), id(1)]);
    written(&*store, following(&record, EpochMs(99), vec![Change::QuorumReached])).await;
    assert_eq!(store.operations_pending_since(EpochMs(30), 10).await.unwrap(), [id(2)]);
}

pub(crate) async fn what_is_unknown_is_none(deployment: &impl Deployment) {
    let store = deployment.open().await;
    store.ping().await.unwrap();
    assert_eq!(store.operation_load(id(1)).await.unwrap(), None);
    assert_eq!(store.operation_events(id(1)).await.unwrap(), []);
    assert_eq!(store.key_load(KeyId(hex32(1))).await.unwrap(), None);
    assert_eq!(store.operations_owing(10).await.unwrap(), []);
}

pub(crate) async fn decisions_that_moved_nothing_are_kept(deployment: &impl Deployment) {
    let store = deployment.open().await;
    store.decision_record(decision(1)).await.unwrap();
    // One submission may be refused many times, and let in later.
    store.decision_record(decision(1)).await.unwrap();
    written(&*store, opening_payment(1)).await;
    store.decision_record(decision(1)).await.unwrap();
}
