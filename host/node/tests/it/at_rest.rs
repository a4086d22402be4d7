//! An attacker reads or changes a node's files.

use crate::support::{Group, KEK_BYTE, KEY};
use gateway_node::testing::{SUITES, asset_action, kek};
use gateway_node::{Cursor, Node, NodeError, Scope};
use gateway_seal::at_rest::{SecretId, open_share};
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions, Connection};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

const ALTERED: &str = "a secret of the node was altered, or moved from another row";
const OTHER_KEY: &str = "the node's store is sealed under another key";

async fn column(path: &Path, sql: &'static str) -> Vec<u8> {
    let mut conn = SqliteConnectOptions::new().filename(path).connect().await.unwrap();
    let bytes = sqlx::query_scalar(sql).fetch_one(&mut conn).await.unwrap();
    conn.close().await.unwrap();
    bytes
}

async fn sealed_share(group: &Group, participant: u16) -> Vec<u8> {
    column(&group.path(participant), "SELECT secret FROM share WHERE state = 'active'").await
}

#[track_caller]
fn unavailable<T: std::fmt::Debug>(answer: Result<T, NodeError>) -> String {
    match answer {
        Err(NodeError::Unavailable { detail, .. }) => detail.into_owned(),
        other => panic!("not unavailable: {other:?}"),
    }
}

/// The names of the files that contain these bytes, raw or in hexadecimal.
fn holders(folder: &Path, secret: &[u8]) -> BTreeSet<String> {
    let (digits, capitals) = (hex::encode(secret), hex::encode_upper(secret));
    let needles = [secret, digits.as_bytes(), capitals.as_bytes()];
    let mut found = BTreeSet::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let bytes = std::fs::read(&path).unwrap();
        if needles.iter().any(|needle| bytes.windows(needle.len()).any(|window| window == *needle)) {
            found.insert(path.file_name().unwrap().to_str().unwrap().to_owned());
        }
    }
    found
}

#[tokio::test]
async fn no_file_contains_a_share_or_the_seed_of_an_identity() {
    for suite in SUITES {
        let mut group = Group::with_key(3, 2, suite).await;
        let case = group.case(1, asset_action(&[0, 1, 2], 7));
        group.admit(&case).await;
        group.sign(&case, 1).await;
        let key_id = KEY.to_string();
        let mut secrets = vec![vec![KEK_BYTE; 32]];
        for participant in 0..3 {
            let node = format!("node-{participant}");
            let of_share = SecretId { node: &node, key_id: &key_id, epoch: "1", index: participant };
            let sealed = sealed_share(&group, participant).await;
            // In the log, and soon after in the database file too.
            let own = ["", "-wal"].map(|suffix| format!("node-{participant}.db{suffix}"));
            let found = holders(group.folder(), &sealed);
            assert!(!found.is_empty(), "the search finds bytes that are there");
            assert!(found.is_subset(&BTreeSet::from(own)), "{found:?}");
            let share = open_share(&group.kek, &of_share, &sealed).unwrap();
            // Version, suite, participant and threshold; then the 32 secret bytes.
            secrets.push(share[6..38].to_vec());
            let of_seed = SecretId { key_id: "identity", epoch: "", ..of_share };
            let sealed = column(&group.path(participant), "SELECT identity_seed FROM node").await;
            secrets.push(open_share(&group.kek, &of_seed, &sealed).unwrap().to_vec());
        }
        for round in ["log", "database"] {
            for secret in &secrets {
                assert_eq!(secret.len(), 32);
                assert_eq!(holders(group.folder(), secret), BTreeSet::new(), "{round}");
            }
            for participant in 0..3 {
                group.restart(participant).await;
            }
        }
    }
}

#[tokio::test]
async fn store_opens_only_under_its_own_key() {
    let mut group = Group::with_key(2, 2, SUITES[0]).await;
    let own = Arc::clone(&group.kek);
    group.nodes[0].close().await;
    group.kek = Arc::new(kek(2));
    let error = Node::open(group.config(0)).await.unwrap_err();
    assert!(error.is_wrong_kek());
    assert_eq!(unavailable::<()>(Err(error)), OTHER_KEY);
    group.kek = own;
    group.restart(0).await;
    let case = group.case(1, asset_action(&[0, 1], 7));
    group.admit(&case).await;
    group.sign(&case, 1).await;
}

#[tokio::test]
async fn store_without_its_key_row_is_not_bound_to_another_key() {
    let group = Group::with_key(2, 2, SUITES[0]).await;
    group.nodes[0].close().await;
    group.execute_sql(0, "DELETE FROM node").await;
    let error = Node::open(group.config(0)).await;
    assert_eq!(unavailable(error), "the node's store is damaged: the row with its identity is missing");
}

#[tokio::test]
async fn altered_secret_stops_only_its_own_node() {
    let group = Group::with_key(3, 2, SUITES[1]).await;
    let case = group.case(1, asset_action(&[0, 1, 2], 7));
    group.admit(&case).await;
    let mut sealed = sealed_share(&group, 0).await;
    *sealed.last_mut().unwrap() ^= 1;
    group.execute_sql(0, &format!("UPDATE share SET secret = x'{}'", hex::encode(&sealed))).await;
    // The nonces of the first attempt were made with the policy receipt, of the share as it was.
    let error = group.round_one(&case, 0, 2).await.unwrap_err();
    assert!(!error.is_wrong_kek());
    assert_eq!(unavailable::<()>(Err(error)), ALTERED);
    group.sign_by(&case, &[1, 2], 1).await;
    // The id of the sealing key begins at byte 1.
    sealed[1] ^= 1;
    group.execute_sql(0, &format!("UPDATE share SET secret = x'{}'", hex::encode(&sealed))).await;
    let other = unavailable(group.round_one(&case, 0, 3).await);
    assert_eq!(other, "a secret of the node is sealed under another key");
}

#[tokio::test]
async fn shares_of_two_nodes_cannot_be_swapped() {
    let group = Group::with_key(3, 2, SUITES[0]).await;
    let case = group.case(1, asset_action(&[0, 1, 2], 7));
    group.admit(&case).await;
    let sealed = [sealed_share(&group, 0).await, sealed_share(&group, 1).await];
    for (participant, other) in [(0, 1), (1, 0)] {
        let sql = format!("UPDATE share SET secret = x'{}'", hex::encode(&sealed[other]));
        group.execute_sql(participant, &sql).await;
        assert_eq!(unavailable(group.round_one(&case, participant, 2).await), ALTERED);
    }
}

#[tokio::test]
async fn identity_is_kept_in_its_store_and_not_valid_for_another_node() {
    let mut group = Group::with_key(3, 2, SUITES[0]).await;
    let fingerprints =
        |group: &Group| group.nodes.iter().map(|node| node.identity().fingerprint()).collect::<Vec<_>>();
    let before = fingerprints(&group);
    assert_eq!(before.iter().collect::<BTreeSet<_>>().len(), 3);
    for participant in 0..3 {
        assert_eq!(group.nodes[usize::from(participant)].identity().index(), participant);
        group.restart(participant).await;
    }
    assert_eq!(fingerprints(&group), before);
    assert_ne!(fingerprints(&Group::open(1).await), before[..1]);
    // Replaces a node's whole store by another node's.
    for node in &group.nodes[..2] {
        node.close().await;
    }
    std::fs::copy(group.path(0), group.path(1)).unwrap();
    assert_eq!(unavailable(Node::open(group.config(1)).await), ALTERED);
}

#[tokio::test]
async fn rewrapped_store_opens_only_under_the_new_key() {
    let mut group = Group::with_key(3, 2, SUITES[1]).await;
    let (old, new) = (Arc::clone(&group.kek), Arc::new(kek(2)));
    let identity = group.nodes[0].identity().clone();
    let wrapped = sealed_share(&group, 0).await;
    for node in &group.nodes {
        node.rewrap(Arc::clone(&new)).await.unwrap();
    }
    assert_eq!(
        holders(group.folder(), &wrapped),
        BTreeSet::new(),
        "a file still contains a share sealed under the old key"
    );
    assert_eq!(unavailable(Node::open(group.config(0)).await), OTHER_KEY);
    group.kek = new;
    for participant in 0..3 {
        group.restart(participant).await;
    }
    assert_eq!(*group.nodes[0].identity(), identity);
    let case = group.case(1, asset_action(&[0, 1, 2], 7));
    group.admit(&case).await;
    group.sign(&case, 1).await;
    group.kek = old;
    group.nodes[0].close().await;
    assert_eq!(unavailable(Node::open(group.config(0)).await), OTHER_KEY);
}

#[tokio::test]
async fn rewrap_stops_at_a_secret_that_does_not_open() {
    let group = Group::with_key(3, 2, SUITES[0]).await;
    let moved = hex::encode(sealed_share(&group, 1).await);
    let sql = "INSERT INTO share (key_id, epoch, state, operation_id, attempt, made_at_ms, epoch_root, public_keys, secret) \
               SELECT key_id, '2', 'staged', operation_id, 2, made_at_ms, epoch_root, public_keys, ";
    group.execute_sql(0, &format!("{sql} x'{moved}' FROM share")).await;
    assert_eq!(unavailable(group.nodes[0].rewrap(Arc::new(kek(2))).await), ALTERED);
    let case = group.case(1, asset_action(&[0, 1, 2], 7));
    group.admit(&case).await;
    group.sign(&case, 1).await;
}

#[tokio::test]
async fn check_reads_the_file_and_not_the_page_cache() {
    let group = Group::with_key(3, 2, SUITES[0]).await;
    let (path, sealed) = (group.path(0), sealed_share(&group, 0).await);
    // Closing writes the whole write-ahead log into the file.
    group.nodes[0].close().await;
    let node = Node::open(group.config(0)).await.unwrap();
    for _ in 0..4 {
        assert_eq!(node.check(Cursor::default()).await.unwrap().0, []);
    }
    let mut file = std::fs::read(&path).unwrap();
    let place = file.windows(sealed.len()).position(|window| window == sealed).unwrap();
    file[place + sealed.len() / 2] ^= 1;
    std::fs::write(&path, &file).unwrap();
    for _ in 0..4 {
        let found = node.check(Cursor::default()).await.unwrap().0;
        let found: Vec<_> = found.iter().map(|damage| (damage.scope, damage.what.as_str())).collect();
        assert_eq!(found, [(Scope::Key(KEY), ALTERED)]);
    }
}
