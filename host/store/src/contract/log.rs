//! The log as others check it: proofs against the roots that commits gave, by the check of the domain.

use super::samples::{following, id, note, opening_payment, written};
use super::{Deployment, Ports};
use gateway_domain::ids::Hex32;
use gateway_domain::log::{empty_root, leaf_hash, verify_consistency, verify_inclusion};
use gateway_domain::time::EpochMs;
use gateway_engine::ports::{LogHead, ReadLog, ReadOperations};
use std::sync::Arc;

/// The log as the commits told it.
#[derive(Default)]
struct Replayed {
    /// Of each event, in the order of the log.
    hashes: Vec<Hex32>,
    /// Sizes and roots after each commit.
    heads: Vec<LogHead>,
}

impl Replayed {
    /// Two operations in turns, by one to three events each time.
    async fn grow(store: &impl Ports, n: u8) -> Self {
        let mut told = Self::default();
        let mut records = Vec::new();
        for step in 0..n {
            let of = usize::from(step % 2);
            let commit = match records.get(of) {
                None => opening_payment(step),
                Some(record) => {
                    following(record, EpochMs(u64::from(step)), (0..=step % 3).map(note).collect())
                }
            };
            let n_events = commit.events.len();
            let record = written(store, commit).await;
            let events = store.operation_events(record.operation.id).await.unwrap();
            told.hashes.extend(events[events.len() - n_events..].iter().map(|chained| chained.hash));
            told.heads.push(LogHead { size: told.hashes.len() as u64, root: record.ledger_root });
            if of < records.len() { records[of] = record } else { records.push(record) }
        }
        told
    }
}

pub(crate) async fn every_event_of_every_log_is_proved(deployment: &impl Deployment) {
    let store = deployment.open().await;
    assert_eq!(store.log_head().await.unwrap(), LogHead { size: 0, root: empty_root() });
    let told = Replayed::grow(&*store, 24).await;
    assert_eq!(store.log_head().await.unwrap(), *told.heads.last().unwrap());
    for head in &told.heads {
        for (index, hash) in (0..head.size).zip(&told.hashes) {
            let proof = store.log_inclusion(index, head.size).await.unwrap().unwrap();
            assert_eq!((proof.index, proof.leaf_hash, proof.head), (index, leaf_hash(*hash), *head));
            let checked = verify_inclusion(leaf_hash(*hash), index, head.size, &proof.hashes, head.root);
            assert_eq!(checked, Ok(()));
        }
    }
    for operation in [id(0), id(1)] {
        for (seq, chained) in (1..).zip(store.operation_events(operation).await.unwrap()) {
            let index = store.log_index(operation, seq).await.unwrap().unwrap();
            assert_eq!(told.hashes[usize::try_from(index).unwrap()], chained.hash);
        }
    }
}

pub(crate) async fn a_log_begins_with_every_log_before(deployment: &impl Deployment) {
    let store = deployment.open().await;
    let told = Replayed::grow(&*store, 20).await;
    let roots: std::collections::BTreeMap<u64, Hex32> =
        told.heads.iter().map(|head| (head.size, head.root)).collect();
    for second in 1..=told.hashes.len() as u64 {
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

pub(crate) async fn what_was_never_there_has_no_proof(deployment: &impl Deployment) {
    let store = deployment.open().await;
    for (a, b) in [(0, 0), (0, 1), (1, 1), (u64::MAX, u64::MAX)] {
        assert_eq!(store.log_inclusion(a, b).await.unwrap(), None);
        assert_eq!(store.log_consistency(a, b).await.unwrap(), None);
    }
    let told = Replayed::grow(&*store, 5).await;
    let size = told.hashes.len() as u64;
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

/// Readers see some log that was, never a mixture, and never a smaller one than before.
pub(crate) async fn proofs_while_the_log_grows_are_of_one_log(deployment: &impl Deployment) {
    let store = deployment.open().await;
    let writer = tokio::spawn({
        let store = Arc::clone(&store);
        async move { Replayed::grow(&*store, 60).await }
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
    let told = writer.await.unwrap();
    for head in seen.iter().filter(|head| head.size > 0) {
        assert!(told.heads.contains(head), "{head:?} was never committed");
    }
}
