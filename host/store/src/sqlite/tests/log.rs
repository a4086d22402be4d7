//! The log of all events on SQLite: its roots, and damaged rows.

use super::{Folder, assert_names};
use crate::contract::Deployment;
use crate::contract::log::merkle_tree_hash;
use crate::contract::policies::activate;
use crate::contract::samples::{following, id, note, opening_payment, written};
use crate::{Counters, OpenError, Store};
use gateway_domain::ids::Hex32;
use gateway_domain::time::EpochMs;
use gateway_engine::ports::{CommitOperations, ReadLog, ReadOperations, StorePolicies};
use std::sync::Arc;

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_commits_return_the_root_after_their_own_events() {
    let folder = Folder::new();
    let store = folder.open().await;
    let at_open = store.counters();
    let mut clients = tokio::task::JoinSet::new();
    for byte in 0..32 {
        let store = Arc::clone(&store);
        clients.spawn(async move {
            let mut record = written(&store, opening_payment(byte)).await;
            let mut roots = vec![record.ledger_root];
            for step in 0..6 {
                record = written(&store, following(&record, EpochMs(step), vec![note(byte)])).await;
                roots.push(record.ledger_root);
            }
            roots
        });
    }
    let mut roots = clients.join_all().await.concat();
    let sql = "SELECT event_hash FROM events ORDER BY ledger_index";
    let rows: Vec<Vec<u8>> = sqlx::query_scalar(sql).fetch_all(&mut folder.connection().await).await.unwrap();
    let hashes: Vec<_> = rows.into_iter().map(|row| Hex32::new(row.try_into().unwrap())).collect();
    assert_eq!(hashes.len(), 32 * 8);
    let mut references: Vec<_> = (1..=hashes.len()).map(|n| merkle_tree_hash(&hashes[..n])).collect();
    references.sort();
    roots.sort();
    roots.dedup();
    assert_eq!(roots.len(), 32 * 7, "two commits returned the same root");
    assert!(roots.iter().all(|root| references.binary_search(root).is_ok()));
    let Counters { jobs, transactions, rollbacks, statements } = store.counters();
    assert_eq!((jobs - at_open.jobs, rollbacks), (32 * 7, 0));
    assert!(transactions <= jobs && statements >= 2 * jobs && statements <= 4 * jobs, "{statements}");
}

#[tokio::test]
async fn failed_commit_leaves_the_log_consistent() {
    let folder = Folder::new();
    let store = folder.open().await;
    let first = written(&store, opening_payment(1)).await;
    // Another connection uses the index of the next leaf, so the commit fails after its first statement.
    folder.tamper("UPDATE events SET ledger_index = 2 WHERE ledger_index = 1").await;
    let next = following(&first, EpochMs(2), vec![note(1)]);
    assert_names(&store.commit(next.clone()).await.unwrap_err(), id(1));
    assert_eq!(store.operation_load(id(1)).await.unwrap().as_ref(), Some(&first));
    folder.tamper("UPDATE events SET ledger_index = 1 WHERE ledger_index = 2").await;
    let record = written(&store, next.clone()).await;
    let events = store.operation_events(id(1)).await.unwrap();
    let last = events.last().unwrap();
    assert_eq!(*last, next.events[0]);
    assert!(last.follows(first.record_root));
    let hashes: Vec<_> = events.iter().map(|chained| chained.hash).collect();
    assert_eq!(record.ledger_root, merkle_tree_hash(&hashes));
}

#[tokio::test]
async fn log_that_ends_with_an_activation_reopens_and_grows() {
    let folder = Folder::new();
    for sequence in 1..=5 {
        let store = folder.open().await;
        activate(&store, sequence, u8::try_from(sequence).unwrap()).await;
        let head = store.log_head().await.unwrap();
        assert_eq!(head.size, sequence * 3 - 2);
        let proof = store.log_inclusion(head.size - 1, head.size).await.unwrap().unwrap();
        assert_eq!(proof.head, head);
        store.close().await;
        let store = folder.open().await;
        assert_eq!(store.log_head().await.unwrap(), head);
        written(&store, opening_payment(u8::try_from(sequence).unwrap())).await;
        store.close().await;
    }
}

async fn assert_does_not_open(folder: &Folder, damage: &str) {
    let refused = Store::open(&folder.path()).await;
    let is_failure = matches!(refused, Err(OpenError::Sqlite(gateway_sqlite::OpenError::Failed { .. })));
    assert!(is_failure, "{damage}: {refused:?}");
}

#[tokio::test]
async fn store_with_a_damaged_log_does_not_open() {
    let damages = [
        "DELETE FROM events WHERE ledger_index = 1",
        "DELETE FROM events WHERE ledger_index = 2",
        "DELETE FROM ledger_nodes WHERE level = 1 AND position = 0",
        "UPDATE ledger_nodes SET hash = zeroblob(32) WHERE level = 1 AND position = 0",
        "UPDATE events SET event_hash = zeroblob(32) WHERE ledger_index = 2",
        "UPDATE operations SET ledger_root = zeroblob(32)",
    ];
    for damage in damages {
        let folder = Folder::new();
        let store = folder.open().await;
        let record = written(&store, opening_payment(1)).await;
        written(&store, following(&record, EpochMs(2), vec![note(1)])).await;
        store.close().await;
        folder.tamper(damage).await;
        assert_does_not_open(&folder, damage).await;
    }
}

/// Activations are entries of the log, so a change of the policy's high-water mark is detected.
#[tokio::test]
async fn store_with_a_removed_or_altered_activation_does_not_open() {
    let drop_triggers =
        "DROP TRIGGER policy_activations_are_not_removed; DROP TRIGGER policy_activations_are_not_changed;";
    let damages = [
        "DELETE FROM policy_activations WHERE sequence = 2",
        "DELETE FROM policy_activations WHERE sequence = 1",
        "DELETE FROM policy_activations",
        "DELETE FROM policy_activations WHERE sequence = 2; UPDATE sqlite_sequence SET seq = 1 WHERE name = 'policy_activations'",
        "UPDATE policy_activations SET sequence = 9 WHERE sequence = 1",
        "UPDATE policy_activations SET bundle_hash = (SELECT bundle_hash FROM policy_activations WHERE sequence = 1)",
        "UPDATE policy_activations SET reason = 'x' WHERE sequence = 2",
        "UPDATE policy_activations SET ledger_index = 9 WHERE sequence = 2",
        "UPDATE policy_activations SET row_hash = zeroblob(32) WHERE sequence = 1",
    ];
    for damage in damages {
        let folder = Folder::new();
        let store = folder.open().await;
        activate(&store, 1, 1).await;
        let record = written(&store, opening_payment(1)).await;
        activate(&store, 2, 2).await;
        written(&store, following(&record, EpochMs(2), vec![note(1)])).await;
        store.close().await;
        let reopened = folder.open().await;
        assert_eq!(reopened.activations(9).await.unwrap().len(), 2);
        reopened.close().await;
        folder.tamper(drop_triggers).await;
        folder.tamper(damage).await;
        assert_does_not_open(&folder, damage).await;
    }
}

/// There is no later entry that would show the gap. The counter of the table shows it, or the nodes that the entry
/// completed.
#[tokio::test]
async fn store_whose_last_log_entry_was_removed_does_not_open() {
    let delete =
        "DROP TRIGGER policy_activations_are_not_removed; DELETE FROM policy_activations WHERE sequence = 2";
    let reset_counter = "UPDATE sqlite_sequence SET seq = 1 WHERE name = 'policy_activations'";
    // An entry at an even index completes no node, one at an odd index does.
    for (n_notes, damages) in [(1, vec![delete]), (0, vec![delete]), (0, vec![delete, reset_counter])] {
        let folder = Folder::new();
        let store = folder.open().await;
        activate(&store, 1, 1).await;
        let record = written(&store, opening_payment(1)).await;
        for _ in 0..n_notes {
            written(&store, following(&record, EpochMs(2), vec![note(1)])).await;
        }
        activate(&store, 2, 2).await;
        store.close().await;
        for damage in &damages {
            folder.tamper(damage).await;
        }
        assert_does_not_open(&folder, &format!("{n_notes} {damages:?}")).await;
    }
}

/// Alters or deletes rows of the log one after another, while the store is open. Each answer is right or an error,
/// and each damage causes at least one error.
#[tokio::test]
async fn damaged_log_never_returns_a_wrong_proof() {
    let folder = Folder::new();
    let store = folder.open().await;
    let mut record = written(&store, opening_payment(1)).await;
    for step in 0..9 {
        record = written(&store, following(&record, EpochMs(step), vec![note(1)])).await;
    }
    let size = record.operation.revision;
    let pairs: Vec<_> = (1..=size).flat_map(|size| (0..size).map(move |index| (index, size))).collect();
    let answers = async || {
        let mut answers = vec![store.log_head().await.map(|head| format!("{head:?}"))];
        for (index, size) in &pairs {
            answers.push(store.log_inclusion(*index, *size).await.map(|proof| format!("{proof:?}")));
            answers.push(store.log_consistency(index + 1, *size).await.map(|proof| format!("{proof:?}")));
        }
        answers
    };
    let intact = answers().await;
    assert!(intact.iter().all(Result::is_ok));
    let mut damages = vec!["UPDATE operations SET ledger_root = zeroblob(32)".to_owned()];
    damages.extend(
        (0..size).map(|index| {
            format!("UPDATE events SET event_hash = randomblob(32) WHERE ledger_index = {index}")
        }),
    );
    for (level, n) in [(1, 5), (2, 2), (3, 1)] {
        for index in 0..n {
            let at = format!("WHERE level = {level} AND position = {index}");
            damages.push(format!("UPDATE ledger_nodes SET hash = randomblob(32) {at}"));
            damages.push(format!("UPDATE ledger_nodes SET hash = randomblob(31) {at}"));
            damages.push(format!("DELETE FROM ledger_nodes {at}"));
        }
    }
    folder.tamper("CREATE TABLE saved AS SELECT * FROM ledger_nodes").await;
    folder.tamper("CREATE TABLE saved_events AS SELECT ledger_index, event_hash FROM events").await;
    let root = record.ledger_root;
    for damage in damages {
        folder.tamper(&damage).await;
        let damaged = answers().await;
        let mut n_refused = 0;
        for (before, after) in intact.iter().zip(damaged) {
            match after {
                Ok(after) => assert_eq!(before.as_ref(), Ok(&after), "{damage}"),
                Err(error) => {
                    assert_names(&error, "the log of all events is damaged: ");
                    n_refused += 1;
                }
            }
        }
        assert!(n_refused > 0, "{damage}");
        folder.tamper("DELETE FROM ledger_nodes").await;
        folder.tamper("INSERT INTO ledger_nodes SELECT * FROM saved").await;
        folder.tamper("UPDATE events SET event_hash = (SELECT event_hash FROM saved_events AS saved WHERE saved.ledger_index = events.ledger_index)").await;
        folder.tamper(&format!("UPDATE operations SET ledger_root = x'{root}'")).await;
        assert_eq!(answers().await, intact);
    }
}
