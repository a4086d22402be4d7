//! Lists and lookups.

use super::Deployment;
use super::samples::{
    decision_signed, failed, following, hex32, id, key_create, note, on_key, opening, opening_payment,
    payment, refresh, rotate, submission, written,
};
use crate::Store;
use gateway_domain::ids::{KeyId, KeyRef, OperationId, Tenant};
use gateway_domain::operation::{Change, Submission};
use gateway_domain::time::EpochMs;
use gateway_engine::Visibility;
use gateway_engine::ports::{CommitOperations as _, Deferral, Due, ReadOperations};

pub(crate) async fn owing_operations_are_listed_by_the_time_since_when_they_owe(
    deployment: &impl Deployment,
) {
    let store = deployment.open().await;
    for (byte, at) in [(1, 30), (2, 10), (3, 20)] {
        let record = written(&store, opening_payment(byte)).await;
        written(&store, following(&record, EpochMs(at), vec![Change::QuorumReached])).await;
    }
    written(&store, opening_payment(4)).await;
    assert_eq!(owing(deployment, &store, 10).await, [id(2), id(3), id(1)]);
    assert_eq!(owing(deployment, &store, 2).await, [id(2), id(3)]);
    let ended = store.operation_load(id(3)).await.unwrap().unwrap();
    written(&store, following(&ended, EpochMs(50), vec![failed()])).await;
    assert_eq!(owing(deployment, &store, 10).await, [id(2), id(1)]);
}

/// The operations that owe a step, whatever was given to a replica before.
async fn owing(deployment: &impl Deployment, store: &Store, n_max: u32) -> Vec<OperationId> {
    due(deployment, store, n_max, n_max).await.into_iter().map(|due| due.id).collect()
}

async fn due(deployment: &impl Deployment, store: &Store, of_tenant_max: u32, n_max: u32) -> Vec<Due> {
    deployment.return_work().await;
    store.operations_owing(NOW, of_tenant_max, n_max).await.unwrap()
}

const NOW: EpochMs = EpochMs(1_000_000);

pub(crate) async fn each_tenant_has_its_share_of_the_work(deployment: &impl Deployment) {
    let store = deployment.open().await;
    for (byte, tenant) in [(1, "busy"), (2, "busy"), (3, "busy"), (4, "calm"), (5, "busy"), (6, "zeal")] {
        let submission = Submission { tenant: Tenant(tenant.to_owned()), ..submission(byte, payment()) };
        let record = written(&store, opening(submission, EpochMs(1))).await;
        written(&store, following(&record, EpochMs(u64::from(byte)), vec![Change::QuorumReached])).await;
    }
    let ids = async |of_tenant, n_max| {
        let due = due(deployment, &store, of_tenant, n_max).await;
        due.into_iter().map(|due| due.id).collect::<Vec<_>>()
    };
    assert_eq!(ids(2, 9).await, [id(1), id(2), id(4), id(6)]);
    assert_eq!(ids(9, 27).await, [1, 2, 3, 4, 5, 6].map(id));
    // Those that wait are passed over, and the others of the tenant have their turn.
    let deferrals = [1, 2].map(|byte| Deferral { id: id(byte), wait_ms: 60_000, waited_ms: 60_000 });
    store.defer(&deferrals, NOW).await.unwrap();
    assert_eq!(ids(2, 9).await, [id(3), id(4), id(5), id(6)]);
    // Those that are due for longest.
    assert_eq!(ids(2, 1).await, [id(3)]);
    // One that was given back comes after those that are due for longer, with the wait that it had.
    let back = Deferral { id: id(3), wait_ms: 0, waited_ms: 7_000 };
    store.defer(&[back], NOW).await.unwrap();
    deployment.tamper("UPDATE operations SET due_ms = 9 WHERE waited_ms = 7000").await;
    let due = due(deployment, &store, 2, 9).await;
    let given_back = Due { id: id(3), tenant: Tenant("busy".to_owned()), waited_ms: 7_000 };
    assert_eq!(due.last(), Some(&given_back));
}

pub(crate) async fn wait_ends_with_a_change_or_a_clock_that_was_set_back(deployment: &impl Deployment) {
    let store = deployment.open().await;
    let record = written(&store, opening_payment(1)).await;
    let record = written(&store, following(&record, EpochMs(2), vec![Change::QuorumReached])).await;
    let waited = async || {
        let due = due(deployment, &store, 9, 9).await;
        due.iter().map(|due| due.waited_ms).collect::<Vec<_>>()
    };
    let wait = [Deferral { id: id(1), wait_ms: 60_000, waited_ms: 60_000 }];
    store.defer(&wait, NOW).await.unwrap();
    assert!(waited().await.is_empty());
    deployment.tamper("UPDATE operations SET due_ms = 4000000000000").await;
    assert_eq!(waited().await, [60_000]);
    store.defer(&wait, NOW).await.unwrap();
    written(&store, following(&record, EpochMs(3), vec![note(1)])).await;
    assert_eq!(waited().await, [0]);
    // Nothing else reads a wait.
    store.defer(&wait, NOW).await.unwrap();
    let mut findings = Vec::new();
    deployment.fsck().await.check(&mut |finding| findings.push(finding)).await.unwrap();
    // The sample's claim is not that of its payment.
    assert!(findings.iter().all(|finding| finding.table == "idempotency_claims"), "{findings:?}");
}

pub(crate) async fn admitted_operations_are_listed_by_admission(deployment: &impl Deployment) {
    let store = deployment.open().await;
    for (byte, at) in [(1, 30), (2, 10), (3, 20)] {
        let record = written(&store, opening_payment(byte)).await;
        let record = written(&store, following(&record, EpochMs(5), vec![decision_signed()])).await;
        if byte < 3 {
            let admitted = Change::AdmissionApplied { receipts: vec![] };
            written(&store, following(&record, EpochMs(at), vec![admitted])).await;
        }
    }
    let admitted = async |before| {
        let due = store.operations_overdue(EpochMs(0), EpochMs(before), NOW, 9).await.unwrap();
        due.into_iter().map(|due| due.id).collect::<Vec<_>>()
    };
    assert_eq!(admitted(30).await, [id(2)]);
    assert_eq!(admitted(31).await, [id(2), id(1)]);
}

pub(crate) async fn pending_operations_are_listed_by_submission(deployment: &impl Deployment) {
    let store = deployment.open().await;
    for (byte, at) in [(1, 30), (2, 10), (3, 20)] {
        written(&store, opening(submission(byte, payment()), EpochMs(at))).await;
    }
    let pending = async |before, n_max| {
        let due = store.operations_overdue(EpochMs(before), EpochMs(0), NOW, n_max).await.unwrap();
        due.into_iter().map(|due| due.id).collect::<Vec<_>>()
    };
    assert_eq!(pending(30, 10).await, [id(2), id(3)]);
    assert_eq!(pending(31, 2).await, [id(2), id(3)]);
    // Later events do not change the time of submission. An operation with a quorum is no longer listed.
    let record = store.operation_load(id(3)).await.unwrap().unwrap();
    let record = written(&store, following(&record, EpochMs(99), vec![note(1)])).await;
    assert_eq!(pending(u64::MAX, 9).await, [id(2), id(3), id(1)]);
    let wait = format!("UPDATE operations SET due_ms = {} WHERE created_at_ms = 10", NOW.0 + 1);
    deployment.tamper(&wait).await;
    assert_eq!(pending(u64::MAX, 9).await, [id(3), id(1)]);
    written(&store, following(&record, EpochMs(99), vec![Change::QuorumReached])).await;
    assert_eq!(pending(30, 10).await, []);
}

pub(crate) async fn postponed_operations_are_listed_from_their_time_on(deployment: &impl Deployment) {
    let store = deployment.open().await;
    for (byte, until) in [(1, NOW.0), (2, NOW.0 - 1), (3, NOW.0 + 1)] {
        let record = written(&store, opening_payment(byte)).await;
        let postponed = Change::AdmissionPostponed { until_ms: EpochMs(until), policy: None };
        let changes = vec![Change::QuorumReached, postponed];
        written(&store, following(&record, EpochMs(5), changes)).await;
    }
    assert!(due(deployment, &store, 9, 9).await.is_empty(), "they owe nothing");
    let postponed = async |now: u64| {
        let due = store.operations_overdue(EpochMs(0), EpochMs(0), EpochMs(now), 9).await.unwrap();
        due.into_iter().map(|due| due.id).collect::<Vec<_>>()
    };
    assert_eq!(postponed(NOW.0 - 2).await, []);
    assert_eq!(postponed(NOW.0).await, [id(2), id(1)]);
    let record = store.operation_load(id(2)).await.unwrap().unwrap();
    written(&store, following(&record, EpochMs(6), vec![Change::AdmissionResumed])).await;
    assert_eq!(postponed(NOW.0 + 1).await, [id(1), id(3)]);
}

pub(crate) async fn key_operations_are_listed_newest_first(deployment: &impl Deployment) {
    let store = deployment.open().await;
    // Neither the clock nor the ids determine the order. Payments belong to the product family.
    for (byte, intent) in [(9, key_create()), (2, refresh()), (3, payment()), (1, rotate()), (4, refresh())] {
        let record = written(&store, opening(submission(byte, intent), EpochMs(u64::from(byte)))).await;
        written(&store, following(&record, EpochMs(9), vec![note(1)])).await;
    }
    let ids =
        async |key: u8, before, n_max| store.key_operations(KeyId(hex32(key)), before, n_max).await.unwrap();
    let names = |page: &[(u64, OperationId)]| page.iter().map(|(_, id)| *id).collect::<Vec<_>>();
    let all = ids(2, None, 10).await;
    assert_eq!(names(&all), [id(4), id(1), id(2), id(9)]);
    assert_eq!(names(&ids(14, None, 10).await), [id(1)], "a rotation is in both lists");
    assert_eq!(ids(2, None, 2).await, all[..2]);
    assert_eq!(ids(2, Some(all[1].0), 10).await, all[2..]);
    assert_eq!(ids(2, Some(0), 10).await, []);
    assert_eq!(ids(2, Some(u64::MAX), 10).await, all);
    assert_eq!(ids(3, None, 10).await, []);
}

pub(crate) async fn keys_are_found_by_name_across_tenants(deployment: &impl Deployment) {
    let store = deployment.open().await;
    for (byte, tenant) in [(5, "acme"), (4, "other")] {
        let mut submission = submission(byte, key_create());
        submission.tenant = Tenant(tenant.into());
        submission.key.key_id = KeyId(hex32(byte));
        written(&store, on_key(opening(submission, EpochMs(1)), None)).await;
    }
    let named = async |name: &str, n_max| store.keys_named(&KeyRef(name.into()), n_max).await.unwrap();
    assert_eq!(named("treasury", 10).await, [KeyId(hex32(4)), KeyId(hex32(5))]);
    assert_eq!(named("treasury", 1).await.len(), 1);
    assert_eq!(named("treasur_", 10).await, []);
}

/// Another tenant's operation is not found, whether it is cached or not.
pub(crate) async fn operation_is_found_only_by_its_tenant(deployment: &impl Deployment) {
    let store = deployment.open().await;
    let mut submission = submission(1, payment());
    submission.tenant = Tenant("acme".into());
    let record = written(&store, opening(submission, EpochMs(1))).await;
    let found = async |store: &dyn ReadOperations, byte: u8, tenant: Option<&str>| {
        let tenant = tenant.map(|name| Visibility::Tenant(Tenant(name.into())));
        store.operation_find(id(byte), &tenant.unwrap_or(Visibility::Everything)).await.unwrap()
    };
    let check = async |store: &dyn ReadOperations| {
        for other in ["other", "default", "", "ACME", "acme ", "acm", "acme%", "acme' OR '1'='1"] {
            assert_eq!(found(store, 1, Some(other)).await, None, "{other}");
        }
        assert_eq!(found(store, 1, Some("acme")).await.as_ref(), Some(&record));
        assert_eq!(found(store, 1, None).await.as_ref(), Some(&record));
        assert_eq!(found(store, 2, Some("acme")).await, None);
    };
    check(&*store).await;
    store.close().await;
    // The first lookups here find an empty cache, the second ones a filled one.
    let store = deployment.open().await;
    check(&*store).await;
    check(&*store).await;
}

/// A database that cannot be read tells where an answer came from: from memory there is one.
pub(crate) async fn another_tenants_operation_takes_the_reads_of_an_unknown_one(
    deployment: &impl Deployment,
) {
    let store = deployment.open().await;
    let mut submission = submission(1, payment());
    submission.tenant = Tenant("acme".into());
    written(&store, opening(submission, EpochMs(1))).await;
    let acme = Visibility::Tenant(Tenant("acme".into()));
    assert!(store.operation_find(id(1), &acme).await.unwrap().is_some(), "it is cached now");
    deployment.tamper("ALTER TABLE operations RENAME TO operations_elsewhere").await;
    let other = Visibility::Tenant(Tenant("other".into()));
    for byte in [1, 2] {
        assert!(store.operation_find(id(byte), &other).await.is_err(), "no read for operation {byte}");
    }
    deployment.tamper("ALTER TABLE operations_elsewhere RENAME TO operations").await;
    for byte in [1, 2] {
        assert_eq!(store.operation_find(id(byte), &other).await.unwrap(), None);
    }
    assert!(store.operation_find(id(1), &acme).await.unwrap().is_some());
}

pub(crate) async fn unknown_records_are_none(deployment: &impl Deployment) {
    let store = deployment.open().await;
    store.ping().await.unwrap();
    assert_eq!(store.operation_load(id(1)).await.unwrap(), None);
    assert_eq!(store.operation_events(id(1)).await.unwrap(), []);
    assert_eq!(store.key_load(KeyId(hex32(1))).await.unwrap(), None);
    assert_eq!(store.operations_owing(NOW, 10, 10).await.unwrap(), []);
}
