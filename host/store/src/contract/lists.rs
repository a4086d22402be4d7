//! Lists, newest first.

use super::Deployment;
use super::samples::{
    asset_action, failed, following, hex32, id, key_create, on_key, opening, payment, refresh, submission,
    written,
};
use crate::Store;
use gateway_domain::ids::{Hex32, KeyId, KeyRef, OperationId, Tenant};
use gateway_domain::intent::{self, Family, Intent, OperationType};
use gateway_domain::key::KeyState;
use gateway_domain::operation::{Change, State};
use gateway_domain::time::EpochMs;
use gateway_engine::Visibility;
use gateway_engine::ports::{
    Created, KeyFilter, ListRecords, Listed, OperationFilter, Place, ReadOperations as _,
};

const ALL: OperationFilter = OperationFilter {
    family: Family::Product,
    state: None,
    operation_type: None,
    key_ref: None,
    idempotency_key: None,
    awaits_approvals: false,
    created: Created { after: None, before: None },
};
const NONE: [u8; 0] = [];
const CUSTODY: OperationFilter = OperationFilter { family: Family::Custody, ..ALL };
const KEYS: KeyFilter =
    KeyFilter { state: None, key_ref: None, created: Created { after: None, before: None } };

fn tenant(name: &str) -> Visibility {
    Visibility::Tenant(Tenant(name.into()))
}

fn ids(listed: &Listed) -> Vec<Hex32> {
    listed.places.iter().map(|place| place.id).collect()
}

/// All ids of a list, read in pages of each size.
async fn walk(store: &Store, visibility: &Visibility, filter: &OperationFilter) -> Vec<Hex32> {
    let mut lists = Vec::new();
    for n_max in [1, 2, 3, 200] {
        let (mut found, mut after) = (Vec::new(), None);
        loop {
            let listed = store.operations_listed(visibility, filter, after, n_max).await.unwrap();
            assert!(listed.places.len() <= usize::try_from(n_max).unwrap());
            found.extend(ids(&listed));
            after = listed.next;
            if after.is_none() {
                break;
            }
        }
        lists.push(found);
    }
    lists.dedup();
    assert_eq!(lists.len(), 1, "pages of different sizes have the same list: {lists:?}");
    lists.remove(0)
}

async fn write(store: &Store, byte: u8, intent: Intent, tenant: &str, at: u64) {
    let mut submission = submission(byte, intent);
    submission.tenant = Tenant(tenant.into());
    submission.key.key_ref = KeyRef(format!("key-{}", byte % 2));
    submission.key.key_id = intent::key_id(&submission.tenant, &submission.key.key_ref).unwrap();
    written(store, opening(submission, EpochMs(at))).await;
}

pub(crate) async fn operations_are_listed_newest_first_for_their_tenant(deployment: &impl Deployment) {
    let store = deployment.open().await;
    // The ids do not determine the order, unless times are equal.
    for (byte, tenant, at) in
        [(1, "a", 30), (2, "a", 10), (3, "a", 20), (4, "b", 25), (5, "a", 20), (6, "c", 5)]
    {
        write(&store, byte, payment(), tenant, at).await;
    }
    write(&store, 7, refresh(), "a", 15).await;
    let of = |bytes: &[u8]| bytes.iter().map(|byte| hex32(*byte)).collect::<Vec<_>>();
    assert_eq!(walk(&store, &tenant("a"), &ALL).await, of(&[1, 5, 3, 2]));
    assert_eq!(walk(&store, &tenant("b"), &ALL).await, of(&[4]));
    assert_eq!(walk(&store, &tenant("A"), &ALL).await, []);
    assert_eq!(walk(&store, &Visibility::Everything, &ALL).await, of(&[1, 4, 5, 3, 2, 6]));
    assert_eq!(walk(&store, &Visibility::Everything, &CUSTODY).await, of(&[7]));
    // A place need not be one of a record.
    let after = Place { created_at: EpochMs(20), id: Hex32::new([255; 32]) };
    let listed = store.operations_listed(&tenant("a"), &ALL, Some(after), 10).await.unwrap();
    assert_eq!((ids(&listed), listed.next), (of(&[5, 3, 2]), None));
}

pub(crate) async fn operations_are_found_by_all_that_is_asked_for(deployment: &impl Deployment) {
    let store = deployment.open().await;
    let intents = [payment(), payment(), payment(), asset_action(), asset_action(), key_create(), refresh()];
    for (byte, intent) in (1..).zip(intents) {
        write(&store, byte, intent, "a", u64::from(byte)).await;
        write(&store, byte + 100, payment(), "b", u64::from(byte)).await;
    }
    for byte in [2, 5] {
        let record = store.operation_load(id(byte)).await.unwrap().unwrap();
        written(&store, following(&record, EpochMs(50), vec![failed()])).await;
    }
    let quorum = store.operation_load(id(3)).await.unwrap().unwrap();
    written(&store, following(&quorum, EpochMs(50), vec![Change::QuorumReached])).await;
    let found = async |filter: OperationFilter| {
        let found = walk(&store, &tenant("a"), &filter).await;
        found.iter().map(|id| id.as_bytes()[0]).collect::<Vec<_>>()
    };
    let key = |number: u8| Some(KeyRef(format!("key-{number}")));
    let (failed, sign) = (Some(State::Failed), Some(OperationType::Sign));
    assert_eq!(found(OperationFilter { state: failed, ..ALL }).await, [2]);
    assert_eq!(found(OperationFilter { state: Some(State::PendingApproval), ..ALL }).await, [3, 1]);
    assert_eq!(found(OperationFilter { awaits_approvals: true, ..ALL }).await, [1]);
    assert_eq!(found(OperationFilter { awaits_approvals: true, ..CUSTODY }).await, [7, 6, 4]);
    assert_eq!(found(OperationFilter { operation_type: sign, ..ALL }).await, [3, 2, 1]);
    assert_eq!(found(OperationFilter { operation_type: Some(OperationType::Refresh), ..ALL }).await, NONE);
    assert_eq!(found(OperationFilter { operation_type: sign, ..CUSTODY }).await, [5, 4]);
    assert_eq!(found(OperationFilter { operation_type: Some(OperationType::Refresh), ..CUSTODY }).await, [7]);
    assert_eq!(found(OperationFilter { key_ref: key(1), ..ALL }).await, [3, 1]);
    assert_eq!(found(OperationFilter { key_ref: key(1), ..CUSTODY }).await, [7, 5]);
    assert_eq!(found(OperationFilter { key_ref: key(2), ..CUSTODY }).await, NONE);
    assert_eq!(found(OperationFilter { key_ref: key(1), state: failed, ..CUSTODY }).await, [5]);
    assert_eq!(found(OperationFilter { key_ref: key(1), operation_type: sign, ..CUSTODY }).await, [5]);
    assert_eq!(found(OperationFilter { state: failed, operation_type: sign, ..CUSTODY }).await, [5]);
    assert_eq!(found(OperationFilter { awaits_approvals: true, key_ref: key(0), ..CUSTODY }).await, [6, 4]);
    let created = |after: Option<u64>, before: Option<u64>| Created {
        after: after.map(EpochMs),
        before: before.map(EpochMs),
    };
    assert_eq!(found(OperationFilter { created: created(Some(1), None), ..ALL }).await, [3, 2]);
    assert_eq!(found(OperationFilter { created: created(None, Some(3)), ..ALL }).await, [2, 1]);
    assert_eq!(found(OperationFilter { created: created(Some(1), Some(3)), ..ALL }).await, [2]);
    assert_eq!(found(OperationFilter { created: created(Some(3), Some(1)), ..ALL }).await, NONE);
    assert_eq!(
        found(OperationFilter { created: created(Some(u64::MAX), Some(u64::MAX)), ..ALL }).await,
        NONE
    );
}

pub(crate) async fn operation_is_found_by_its_idempotency_key(deployment: &impl Deployment) {
    let store = deployment.open().await;
    let (acme, name) = (Tenant("a".into()), KeyRef("vault".into()));
    let of = |family| intent::operation_id(&acme, family, Some(&name), "claim").unwrap();
    for (intent, family) in [(payment(), Family::Product), (asset_action(), Family::Custody)] {
        let mut submission = submission(1, intent);
        (submission.tenant, submission.operation_id) = (acme.clone(), of(family));
        submission.key.key_ref = name.clone();
        submission.key.key_id = intent::key_id(&acme, &name).unwrap();
        written(&store, opening(submission, EpochMs(1))).await;
    }
    let claim = |claim: &str| Some(claim.to_owned());
    let named = OperationFilter { idempotency_key: claim("claim"), ..ALL };
    assert_eq!(walk(&store, &tenant("a"), &named).await, [of(Family::Product).0]);
    assert_eq!(walk(&store, &Visibility::Everything, &named).await, [of(Family::Product).0]);
    assert_eq!(walk(&store, &tenant("b"), &named).await, []);
    let other = OperationFilter { idempotency_key: claim("other"), ..ALL };
    assert_eq!(walk(&store, &tenant("a"), &other).await, []);
    let failed = OperationFilter { state: Some(State::Failed), ..named.clone() };
    assert_eq!(walk(&store, &tenant("a"), &failed).await, []);
    let of_other_key = OperationFilter { key_ref: Some(KeyRef("other".into())), ..named };
    assert_eq!(walk(&store, &tenant("a"), &of_other_key).await, []);
    let on_key = OperationFilter { key_ref: Some(name.clone()), idempotency_key: claim("claim"), ..CUSTODY };
    assert_eq!(walk(&store, &tenant("a"), &on_key).await, [of(Family::Custody).0]);
}

/// A search over many rows that do not fit ends after some of them, and goes on from there.
pub(crate) async fn search_over_many_rows_is_continued(deployment: &impl Deployment) {
    let store = deployment.open().await;
    let nth = |n: u16| {
        let mut submission = submission(1, payment());
        let key_ref = KeyRef("vault".into());
        submission.key.key_id = intent::key_id(&submission.tenant, &key_ref).unwrap();
        submission.key.key_ref = key_ref;
        let mut id = [0; 32];
        id[..2].copy_from_slice(&n.to_be_bytes());
        submission.operation_id = OperationId(Hex32::new(id));
        opening(submission, EpochMs(u64::from(n)))
    };
    let writes: Vec<_> = (1..2_100)
        .map(|n| {
            let (store, commit) = (store.clone(), nth(n));
            tokio::spawn(async move { written(&store, commit).await })
        })
        .collect();
    for write in writes {
        write.await.unwrap();
    }
    let oldest = written(&store, nth(0)).await;
    let oldest = written(&store, following(&oldest, EpochMs(9), vec![failed()])).await.operation;
    let key_ref = Some(oldest.key.key_ref.clone());
    let filter = OperationFilter { key_ref, state: Some(State::Failed), ..ALL };
    let visibility = Visibility::Tenant(oldest.tenant.clone());
    let first = store.operations_listed(&visibility, &filter, None, 10).await.unwrap();
    assert_eq!(first.places, []);
    assert!(first.next.is_some());
    let rest = store.operations_listed(&visibility, &filter, first.next, 10).await.unwrap();
    assert_eq!((ids(&rest), rest.next), (vec![oldest.id.0], None));
}

pub(crate) async fn keys_are_listed_newest_first(deployment: &impl Deployment) {
    let store = deployment.open().await;
    for (byte, tenant, at) in [(5, "a", 10), (4, "b", 30), (6, "a", 40), (7, "a", 20)] {
        let mut submission = submission(byte, key_create());
        submission.tenant = Tenant(tenant.into());
        submission.key.key_ref = KeyRef(format!("key-{byte}"));
        submission.key.key_id = KeyId(hex32(byte));
        written(&store, on_key(opening(submission, EpochMs(at)), None)).await;
    }
    let found = async |visibility: &Visibility, filter: &KeyFilter| {
        let (mut found, mut after) = (Vec::new(), None);
        loop {
            let listed = store.keys_listed(visibility, filter, after, 2).await.unwrap();
            found.extend(listed.places.iter().map(|place| place.id.as_bytes()[0]));
            after = listed.next;
            if after.is_none() {
                return found;
            }
        }
    };
    assert_eq!(found(&tenant("a"), &KEYS).await, [6, 7, 5]);
    assert_eq!(found(&Visibility::Everything, &KEYS).await, [6, 4, 7, 5]);
    let named = KeyFilter { key_ref: Some(KeyRef("key-7".into())), ..KEYS };
    assert_eq!(found(&tenant("a"), &named).await, [7]);
    assert!(found(&tenant("b"), &named).await.is_empty());
    let creating = KeyFilter { state: Some(KeyState::Creating), ..KEYS };
    assert_eq!(found(&tenant("a"), &creating).await, [6, 7, 5]);
    assert!(found(&tenant("a"), &KeyFilter { state: Some(KeyState::Active), ..KEYS }).await.is_empty());
    let created = Created { after: Some(EpochMs(10)), before: Some(EpochMs(40)) };
    assert_eq!(found(&tenant("a"), &KeyFilter { created, ..KEYS }).await, [7]);
}
