//! Roots and chains.

use super::samples::{following, golden, id, note, opening_payment, written};
use super::{Deployment, Ports};
use gateway_domain::ids::{Hex32, OperationId};
use gateway_domain::log::{leaf_hash, node_hash};
use gateway_domain::operation::replay;
use gateway_domain::time::EpochMs;
use gateway_engine::ports::{ReadOperations, Record};

/// MTH(D[n]) as RFC 6962, section 2.1, defines it, over event hashes.
pub(crate) fn merkle_tree_hash(hashes: &[Hex32]) -> Hex32 {
    match hashes {
        [] => panic!("these logs have events"),
        [hash] => leaf_hash(*hash),
        _ => {
            let (left, right) = hashes.split_at(hashes.len().next_power_of_two() / 2);
            node_hash(merkle_tree_hash(left), merkle_tree_hash(right))
        }
    }
}

/// The log's root when these operations were written one after another.
pub(crate) async fn assert_ledger(store: &impl Ports, in_order: &[OperationId], root: Hex32) {
    let mut hashes = Vec::new();
    for id in in_order {
        hashes.extend(store.operation_events(*id).await.unwrap().into_iter().map(|chained| chained.hash));
    }
    assert_eq!(root, merkle_tree_hash(&hashes));
}

/// A log as this test knows it, in ledger order.
#[derive(Default)]
struct Log {
    hashes: Vec<Hex32>,
}

impl Log {
    /// Takes the events that a record has beyond `n_before`, and compares roots.
    async fn take(&mut self, store: &impl Ports, record: &Record, n_before: usize) {
        let events = store.operation_events(record.operation.id).await.unwrap();
        self.hashes.extend(events[n_before..].iter().map(|chained| chained.hash));
        assert_eq!(record.ledger_root, merkle_tree_hash(&self.hashes), "{} events", self.hashes.len());
        assert_eq!(store.operation_load(record.operation.id).await.unwrap().as_ref(), Some(record));
    }

    /// Opens two operations and moves them in turns, `n` times, by one to three events.
    async fn grow(&mut self, store: &impl Ports, ids: [u8; 2], n: u8) {
        let mut records = Vec::new();
        for id in ids {
            let record = written(store, opening_payment(id)).await;
            self.take(store, &record, 0).await;
            records.push(record);
        }
        for step in 0..n {
            let record = &mut records[usize::from(step % 2)];
            let n_before = usize::try_from(record.operation.revision).unwrap();
            let changes = (0..=step % 3).map(note).collect();
            *record = written(store, following(record, EpochMs(u64::from(step)), changes)).await;
            self.take(store, record, n_before).await;
        }
    }
}

pub(crate) async fn ledger_roots_are_rfc_6962(deployment: &impl Deployment) {
    let store = deployment.open().await;
    Log::default().grow(&*store, [1, 2], 40).await;
}

pub(crate) async fn ledger_roots_survive_reopening(deployment: &impl Deployment) {
    let mut log = Log::default();
    for round in 0..8 {
        let store = deployment.open().await;
        log.grow(&*store, [2 * round, 2 * round + 1], round).await;
        deployment.close(store).await;
    }
}

pub(crate) async fn events_chain_to_the_record_root(deployment: &impl Deployment) {
    let store = deployment.open().await;
    let opened = written(&*store, opening_payment(1)).await;
    written(&*store, opening_payment(2)).await;
    let record = written(&*store, following(&opened, EpochMs(2), vec![note(1), note(2)])).await;
    let events = store.operation_events(id(1)).await.unwrap();
    let mut previous = Hex32::ZERO;
    for chained in &events {
        assert!(chained.follows(previous));
        previous = chained.hash;
    }
    assert_eq!(previous, record.record_root);
    let events: Vec<_> = events.into_iter().map(|chained| chained.event).collect();
    assert_eq!(replay(&events), Some(record.operation));
}

pub(crate) async fn every_change_is_read_back(deployment: &impl Deployment) {
    let store = deployment.open().await;
    let commit = golden();
    let record = written(&*store, commit.clone()).await;
    let events = store.operation_events(record.operation.id).await.unwrap();
    assert_eq!(events.iter().map(|chained| chained.event.clone()).collect::<Vec<_>>(), commit.events);
    assert_ledger(&*store, &[record.operation.id], record.ledger_root).await;
    assert_eq!(store.operation_load(record.operation.id).await.unwrap(), Some(record));
}
