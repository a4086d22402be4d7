//! The log of all events and the hash chains of operations. The tests compute the roots, and verify the proofs with
//! the domain.

use super::Deployment;
use super::samples::{following, golden, id, note, opening_payment, written};
use crate::Store;
use gateway_domain::ids::{Hex32, OperationId};
use gateway_domain::log::{empty_root, leaf_hash, node_hash, verify_consistency, verify_inclusion};
use gateway_domain::operation::replay;
use gateway_domain::time::EpochMs;
use gateway_engine::ports::{EventId, LogHead, ReadLog, ReadOperations, Record};
use std::sync::Arc;

/// MTH(D[n]) of RFC 6962, section 2.1, over event hashes.
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

/// Asserts the root of a log to which these operations were written one after another.
pub(crate) async fn assert_root(store: &Store, in_order: &[OperationId], root: Hex32) {
    let mut hashes = Vec::new();
    for id in in_order {
        hashes.extend(store.operation_events(*id).await.unwrap().into_iter().map(|chained| chained.hash));
    }
    assert_eq!(root, merkle_tree_hash(&hashes));
}

/// The expected log.
#[derive(Default)]
struct Log {
    /// Event hashes in the order of the log.
    hashes: Vec<Hex32>,
    /// The head after each commit.
    heads: Vec<LogHead>,
}

impl Log {
    /// Appends the events of a record after the first `n_before`, and checks the record and its root.
    async fn append(&mut self, store: &Store, record: &Record, n_before: usize) {
        let events = store.operation_events(record.operation.id).await.unwrap();
        self.hashes.extend(events[n_before..].iter().map(|chained| chained.hash));
        assert_eq!(record.ledger_root, merkle_tree_hash(&self.hashes), "{} events", self.hashes.len());
        assert_eq!(store.operation_load(record.operation.id).await.unwrap().as_ref(), Some(record));
        self.heads.push(LogHead { size: self.hashes.len() as u64, root: record.ledger_root });
    }

    /// Creates two operations, then makes `n` commits of one to three events, alternating between the operations.
    async fn grow(&mut self, store: &Store, ids: [u8; 2], n: u8) {
        let mut records = Vec::new();
        for id in ids {
            let record = written(store, opening_payment(id)).await;
            self.append(store, &record, 0).await;
            records.push(record);
        }
        for step in 0..n {
            let record = &mut records[usize::from(step % 2)];
            let n_before = usize::try_from(record.operation.revision).unwrap();
            let changes = (0..=step % 3).map(note).collect();
            *record = written(store, following(record, EpochMs(u64::from(step)), changes)).await;
            self.append(store, record, n_before).await;
        }
    }
}

pub(crate) async fn ledger_roots_follow_rfc_6962(deployment: &impl Deployment) {
    let store = deployment.open().await;
    Log::default().grow(&store, [1, 2], 40).await;
}

pub(crate) async fn ledger_roots_survive_reopening(deployment: &impl Deployment) {
    let mut log = Log::default();
    for round in 0..8 {
        let store = deployment.open().await;
        log.grow(&store, [2 * round, 2 * round + 1], round).await;
        store.close().await;
    }
}

pub(crate) async fn events_chain_to_the_record_root(deployment: &impl Deployment) {
    let store = deployment.open().await;
    let opened = written(&store, opening_payment(1)).await;
    written(&store, opening_payment(2)).await;
    let record = written(&store, following(&opened, EpochMs(2), vec![note(1), note(2)])).await;
    let events = store.operation_events(id(1)).await.unwrap();
    let mut previous = Hex32::ZERO;
    for chained in &events {
        assert!(chained.follows(previous));
        previous = chained.hash;
    }
    assert_eq!(previous, record.record_root);
    let events: Vec<_> = events.into_iter().map(|chained| chained.event).collect();
    assert_eq!(replay(&events).as_ref(), Some(&*record.operation));
}

pub(crate) async fn every_kind_of_change_is_read_back(deployment: &impl Deployment) {
    let store = deployment.open().await;
    let commit = golden();
    let record = written(&store, commit.clone()).await;
    let events = store.operation_events(record.operation.id).await.unwrap();
    assert_eq!(events, commit.events);
    assert_root(&store, &[record.operation.id], record.ledger_root).await;
    assert_eq!(store.operation_load(record.operation.id).await.unwrap(), Some(record));
}

pub(crate) async fn every_event_has_an_inclusion_proof_in_every_log(deployment: &impl Deployment) {
    let store = deployment.open().await;
    assert_eq!(store.log_head().await.unwrap(), LogHead { size: 0, root: empty_root() });
    let mut log = Log::default();
    log.grow(&store, [0, 1], 22).await;
    assert_eq!(store.log_head().await.unwrap(), *log.heads.last().unwrap());
    for head in &log.heads {
        for (index, hash) in (0..head.size).zip(&log.hashes) {
            let proof = store.log_inclusion(index, head.size).await.unwrap().unwrap();
            assert_eq!((proof.index, proof.leaf_hash, proof.head), (index, leaf_hash(*hash), *head));
            let checked = verify_inclusion(leaf_hash(*hash), index, head.size, &proof.hashes, head.root);
            assert_eq!(checked, Ok(()));
        }
    }
    for operation in [id(0), id(1)] {
        for (seq, chained) in (1..).zip(store.operation_events(operation).await.unwrap()) {
            let index = store.log_index(operation, seq).await.unwrap().unwrap();
            assert_eq!(log.hashes[usize::try_from(index).unwrap()], chained.hash);
        }
    }
}

pub(crate) async fn every_log_is_consistent_with_every_earlier_log(deployment: &impl Deployment) {
    let store = deployment.open().await;
    let mut log = Log::default();
    log.grow(&store, [0, 1], 18).await;
    let roots: std::collections::BTreeMap<u64, Hex32> =
        log.heads.iter().map(|head| (head.size, head.root)).collect();
    for second in 1..=log.hashes.len() as u64 {
        for first in 1..=second {
            let proof = store.log_consistency(first, second).await.unwrap().unwrap();
            let (old, new) = (proof.first, proof.second);
            assert_eq!((old.size, new.size), (first, second));
            assert_eq!(verify_consistency(first, second, &proof.hashes, old.root, new.root), Ok(()));
            for head in [old, new] {
                assert_eq!(*roots.get(&head.size).unwrap_or(&head.root), head.root);
            }
        }
    }
}

pub(crate) async fn events_are_named_by_their_place_and_hash(deployment: &impl Deployment) {
    let store = deployment.open().await;
    assert_eq!(store.last_event().await.unwrap(), None);
    assert_eq!(store.events_from(0, 10).await.unwrap(), []);
    let mut log = Log::default();
    log.grow(&store, [0, 1], 3).await;
    let events = store.events_from(0, 100).await.unwrap();
    let hashes: Vec<_> = events.iter().map(|event| event.hash.unwrap()).collect();
    assert_eq!(hashes, log.hashes);
    assert_eq!(store.last_event().await.unwrap(), events.last().copied());
    for (index, event) in (0..).zip(&events) {
        let id = event.id().unwrap();
        assert_eq!(id, EventId::new(index, event.hash.unwrap()));
        assert_eq!(store.events_from(index, 1).await.unwrap(), [*event]);
        assert_eq!(id.to_string().parse(), Ok(id));
        assert!(event.hash.unwrap().to_string().starts_with(id.to_string().split_once('-').unwrap().1));
    }
    let past = log.hashes.len() as u64;
    for beyond in [past, past + 1, u64::MAX] {
        assert_eq!(store.events_from(beyond, 1).await.unwrap(), [], "{beyond}");
    }
    for wrong in [
        "",
        "-",
        "1",
        "1-",
        "01-0123456789abcdef",
        "+1-0123456789abcdef",
        "1-0123456789abcde",
        "1-0123456789ABCDEF",
    ] {
        assert!(wrong.parse::<EventId>().is_err(), "{wrong}");
    }
}

pub(crate) async fn nonexistent_entries_and_sizes_have_no_proof(deployment: &impl Deployment) {
    let store = deployment.open().await;
    for (a, b) in [(0, 0), (0, 1), (1, 1), (u64::MAX, u64::MAX)] {
        assert_eq!(store.log_inclusion(a, b).await.unwrap(), None);
        assert_eq!(store.log_consistency(a, b).await.unwrap(), None);
    }
    let mut log = Log::default();
    log.grow(&store, [0, 1], 3).await;
    let size = log.hashes.len() as u64;
    for (index, size) in [(0, 0), (size, size), (0, size + 1), (u64::MAX, u64::MAX), (0, u64::MAX), (3, 2)] {
        assert_eq!(store.log_inclusion(index, size).await.unwrap(), None, "{index} of {size}");
    }
    for (first, second) in [(0, size), (3, 2), (1, size + 1), (1, u64::MAX), (u64::MAX, u64::MAX)] {
        assert_eq!(store.log_consistency(first, second).await.unwrap(), None, "{first} to {second}");
    }
    for (operation, seq) in [(id(9), 1), (id(0), 0), (id(0), 100), (id(0), u64::MAX)] {
        assert_eq!(store.log_index(operation, seq).await.unwrap(), None, "{seq}");
    }
}

/// A reader sees only logs that were committed, and none that is smaller than one it saw before.
pub(crate) async fn proofs_are_consistent_while_the_log_grows(deployment: &impl Deployment) {
    let store = deployment.open().await;
    let writer = tokio::spawn({
        let store = Arc::clone(&store);
        async move {
            let mut log = Log::default();
            log.grow(&store, [0, 1], 58).await;
            log
        }
    });
    let mut seen = Vec::new();
    while !writer.is_finished() {
        let head = store.log_head().await.unwrap();
        if let Some(before) = seen.last().copied().filter(|before: &LogHead| before.size > 0) {
            let proof = store.log_consistency(before.size, head.size).await.unwrap().unwrap();
            assert_eq!((proof.first, proof.second), (before, head));
        }
        seen.push(head);
    }
    let log = writer.await.unwrap();
    for head in seen.iter().filter(|head| head.size > 0) {
        assert!(log.heads.contains(head), "{head:?} was never committed");
    }
}
