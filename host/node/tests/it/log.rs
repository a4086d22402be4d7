//! The node's log: one entry for each receipt, at the receipt's position, under a signed head.

use crate::support::{Group, KEY, NOW, admitted, code};
use gateway_domain::ids::Hex32;
use gateway_domain::log::{Frontier, verify_consistency, verify_inclusion};
use gateway_domain::node_log::LogEntry;
use gateway_domain::operation::EffectStep;
use gateway_domain::receipt::NodeReceipt;
use gateway_domain::roster::ParticipantIndex;
use gateway_domain::time::EpochMs;
use gateway_node::limits::LOG_ENTRIES_MAX;
use gateway_node::testing::{Case, SUITES, asset_action, hex32, kek};
use gateway_node::{Code, Node, NodeError, NodeFile, Publication, Published};
use std::sync::Arc;

/// The root of each prefix of a log, by size.
fn roots(leaves: &[Hex32]) -> Vec<Hex32> {
    let mut frontier = Frontier::default();
    let mut roots = vec![frontier.root()];
    for leaf in leaves {
        frontier.append(*leaf);
        roots.push(frontier.root());
    }
    roots
}

async fn entries(node: &Node) -> Vec<LogEntry> {
    node.log_entries(0, LOG_ENTRIES_MAX).await.unwrap()
}

/// Every step of a signature on node 0, and its receipts.
async fn sign(group: &Group, case: &Case) -> Vec<NodeReceipt> {
    let node = &group.nodes[0];
    let mut receipts = vec![node.admit(&case.request()).await.unwrap()];
    let call = case.call(0, EffectStep::PolicyReceipt, 1, 1);
    receipts.push(node.policy_receipt(&call).await.unwrap().receipt);
    for other in [1, 2] {
        let node = &group.nodes[usize::from(other)];
        node.admit(&case.request()).await.unwrap();
        node.policy_receipt(&case.call(other, EffectStep::PolicyReceipt, 1, 1)).await.unwrap();
    }
    let package = group.package(case, &[0, 1], 1).await;
    let mut shares = std::collections::BTreeMap::new();
    for signer in [0, 1] {
        shares.insert(signer, group.round_two(case, signer, 1, &package).await.unwrap());
    }
    receipts.push(shares[&0].receipt.clone());
    let result = Published::Signature(group.result(case, &package, &shares));
    let publication = Publication { attempt: 1, result, promoted: vec![] };
    receipts.push(node.publish(&case.call(0, EffectStep::Publish, 1, 1), &publication).await.unwrap());
    receipts
}

#[tokio::test]
async fn every_receipt_is_the_entry_at_its_position_under_the_signed_head() {
    let mut group = Group::with_key(3, 2, SUITES[0]).await;
    let before = group.nodes[0].log_size();
    let case = group.case(1, asset_action(&[0, 1, 2], 7));
    let receipts = sign(&group, &case).await;
    let logged = entries(&group.nodes[0]).await;
    assert!((0..).zip(&logged).all(|(index, entry)| entry.log_index() == index));
    let key = group.nodes[0].identity().signing_key();
    for (index, receipt) in (before..).zip(&receipts) {
        assert_eq!(receipt.log_index, index);
        let LogEntry::Receipt { statement, share, .. } = &logged[usize::try_from(index).unwrap()] else {
            panic!()
        };
        receipt.verify(statement, &key).unwrap();
        assert_eq!(statement.transition_hash, receipt.transition_hash);
        assert_eq!(share.is_some(), statement.step == EffectStep::Execute, "{statement:?}");
        if let Some(share) = share {
            assert_eq!((share.key_id, share.signed_digest), (KEY, case.decision.request_digest));
        }
    }
    assert_eq!(group.nodes[0].log_entries_of(case.decision.operation_id).await.unwrap(), logged[5..]);
    let leaves: Vec<_> = logged.iter().map(|entry| entry.leaf().unwrap()).collect();
    for _ in 0..2 {
        let head = group.nodes[0].log_head().await.unwrap();
        assert!(head.is_signed_by(&key));
        assert_eq!((head.head.size, head.head.at_ms.0), (9, NOW));
        assert_eq!(head.head.root, roots(&leaves)[9]);
        // Repeated calls, also after a restart, append nothing.
        let again = group.nodes[0].admit(&case.request()).await.unwrap();
        assert_eq!(again, receipts[0]);
        group.restart(0).await;
    }
    assert_eq!(group.nodes[0].log_size(), 9);
}

#[tokio::test]
async fn proofs_of_the_log_verify_and_only_for_sizes_that_it_has() {
    let group = Group::with_key(3, 2, SUITES[0]).await;
    for id in 1..4 {
        sign(&group, &group.case(id, asset_action(&[0, 1, 2], id))).await;
    }
    let node = &group.nodes[0];
    let leaves: Vec<_> = entries(node).await.iter().map(|entry| entry.leaf().unwrap()).collect();
    let roots = roots(&leaves);
    let n = leaves.len();
    assert_eq!(n, 17);
    let number = |n: usize| u64::try_from(n).unwrap();
    for size in 1..=n {
        for (index, leaf) in leaves.iter().enumerate().take(size) {
            let proof = node.log_inclusion(number(index), number(size)).await.unwrap().unwrap();
            verify_inclusion(*leaf, number(index), number(size), &proof, roots[size]).unwrap();
            let first = index + 1;
            let proof = node.log_consistency(number(first), number(size)).await.unwrap().unwrap();
            verify_consistency(number(first), number(size), &proof, roots[first], roots[size]).unwrap();
        }
    }
    assert_eq!(node.log_inclusion(0, 18).await.unwrap(), None);
    assert_eq!(node.log_inclusion(17, 17).await.unwrap(), None);
    assert_eq!(node.log_consistency(3, 18).await.unwrap(), None);
    assert_eq!(node.log_consistency(0, 4).await.unwrap(), None);
    assert_eq!(node.log_inclusion(u64::MAX, u64::MAX).await.unwrap(), None);
}

#[tokio::test]
async fn entries_are_returned_in_limited_pages() {
    let group = Group::with_key(3, 2, SUITES[0]).await;
    let node = &group.nodes[0];
    assert_eq!(node.log_entries(1, 2).await.unwrap(), entries(node).await[1..3]);
    assert_eq!(node.log_entries(5, 2).await.unwrap(), []);
    assert_eq!(node.log_entries(u64::MAX, 2).await.unwrap(), []);
    let lost = u64::from(LOG_ENTRIES_MAX) + 10;
    node.readmit(lost).await.unwrap();
    let n_max = usize::try_from(LOG_ENTRIES_MAX).unwrap();
    assert_eq!(node.log_entries(0, u32::MAX).await.unwrap().len(), n_max);
    assert_eq!(node.log_entries(lost, u32::MAX).await.unwrap().len(), 1);
}

#[tokio::test]
async fn refused_calls_append_nothing() {
    let (group, case) = admitted().await;
    let before = group.nodes[0].log_head().await.unwrap();
    let other = case.clone().approved_by(&["alice", "alice"]);
    assert_eq!(code(group.nodes[0].admit(&other.request()).await), Code::AdmissionRefused);
    let publish = case.call(0, EffectStep::Publish, 1, 1);
    let body = group.generation(&Case::key_create(100, KEY, 3, 2, SUITES[1])).await;
    assert_eq!(code(group.nodes[0].publish(&publish, &body).await), Code::ResultRefused);
    assert_eq!(group.nodes[0].log_head().await.unwrap(), before);
    // The next receipt has the next position.
    let next = group.case(2, asset_action(&[0, 1, 2], 8));
    assert_eq!(group.nodes[0].admit(&next.request()).await.unwrap().log_index, before.head.size);
}

/// Otherwise a share could leave the node that its log does not show.
#[tokio::test]
async fn share_does_not_leave_unless_its_entry_is_durable() {
    let (group, case) = admitted().await;
    let size = group.nodes[0].log_size();
    let package = group.package(&case, &[0, 1], 1).await;
    let sql = "CREATE TRIGGER full BEFORE INSERT ON log_entry BEGIN SELECT RAISE(ABORT, 'disk full'); END";
    group.execute_sql(0, sql).await;
    let refused = group.round_two(&case, 0, 1, &package).await;
    assert!(matches!(refused, Err(NodeError::Unavailable { .. })), "{refused:?}");
    assert_eq!(group.execute_sql(0, "DROP TRIGGER full; DELETE FROM consumed").await, 0, "none was recorded");
    assert_eq!(group.nodes[0].log_head().await.unwrap().head.size, size);
    group.sign(&case, 2).await;
}

/// Otherwise the node would sign two statements for one position.
#[tokio::test]
async fn receipt_is_not_issued_again_if_the_log_has_another_statement() {
    let (group, case) = admitted().await;
    let other = hex32(9);
    let sql = format!(
        "DROP TRIGGER log_entry_is_not_changed;\
         UPDATE log_entry SET body = json_set(body, '$.statement.subject', '{other}')"
    );
    group.execute_sql(0, &sql).await;
    let expected = "the node's store is damaged: its log has no receipt for the recorded step";
    for refused in [
        group.nodes[0].admit(&case.request()).await.unwrap_err(),
        group.nodes[0].policy_receipt(&case.call(0, EffectStep::PolicyReceipt, 1, 1)).await.unwrap_err(),
    ] {
        assert_eq!(refused.to_string(), expected);
    }
}

/// What the check of the node's own file reports.
async fn findings(group: &Group) -> Vec<String> {
    let file = NodeFile::open(&group.path(0), ParticipantIndex(0), Arc::clone(&group.kek)).await.unwrap();
    let found = file.check().await.unwrap();
    file.close().await;
    found.iter().map(ToString::to_string).collect()
}

#[tokio::test]
async fn entries_altered_on_disk_are_found_and_named() {
    let group = Group::with_key(3, 2, SUITES[0]).await;
    let case = group.case(1, asset_action(&[0, 1, 2], 7));
    sign(&group, &case).await;
    group.nodes[0].close().await;
    assert_eq!(findings(&group).await, [""; 0]);
    let pristine = std::fs::read(group.path(0)).unwrap();
    let unlock = "DROP TRIGGER log_entry_is_not_changed; DROP TRIGGER log_entry_is_not_deleted;";
    let lock = "CREATE TRIGGER log_entry_is_not_changed BEFORE UPDATE ON log_entry\n\
                BEGIN SELECT RAISE(ABORT, 'an entry of the log is not changed'); END;\
                CREATE TRIGGER log_entry_is_not_deleted BEFORE DELETE ON log_entry\n\
                BEGIN SELECT RAISE(ABORT, 'an entry of the log is not deleted'); END;";
    let other = hex32(9);
    let cases = [
        // The entry of the share: another digest.
        (
            format!(
                "UPDATE log_entry SET body = json_set(body, '$.share.signed_digest', '{other}') WHERE log_index = 7"
            ),
            "log_entry, log_index 7: `nodes` do not match `body` and the entries before it",
        ),
        (
            "DELETE FROM log_entry WHERE log_index = 7".to_owned(),
            "log_entry, log_index 8: the entry at log_index 7 is missing",
        ),
        (
            "DELETE FROM log_entry WHERE log_index = 6".to_owned(),
            "log_entry, log_index 7: the entry at log_index 6 is missing",
        ),
        // A log that was cut off.
        ("DELETE FROM log_entry WHERE log_index = 8".to_owned(), "the log has no entry for its last step"),
        (
            "UPDATE log_entry SET nodes = substr(nodes, 1, 32) WHERE log_index = 7".to_owned(),
            "log_entry, log_index 7: `nodes` do not match",
        ),
        (
            "UPDATE log_entry SET nodes = CAST(nodes || zeroblob(32) AS BLOB) WHERE log_index = 6".to_owned(),
            "log_entry, log_index 6: `nodes` has more nodes than the entry completes",
        ),
        (
            "DELETE FROM consumed".to_owned(),
            "log_entry, log_index 7: the record of the nonces that signed is missing",
        ),
    ];
    for (sql, expected) in cases {
        std::fs::write(group.path(0), &pristine).unwrap();
        group.execute_sql(0, &format!("{unlock}{sql};{lock}")).await;
        let found = findings(&group).await;
        assert!(found.iter().any(|found| found.contains(expected)), "{sql}: {found:?}");
    }
    // Two entries that change places.
    std::fs::write(group.path(0), &pristine).unwrap();
    let swap = "UPDATE log_entry SET log_index = 100 WHERE log_index = 6;\
                UPDATE log_entry SET log_index = 6 WHERE log_index = 7;\
                UPDATE log_entry SET log_index = 7 WHERE log_index = 100;";
    group.execute_sql(0, &format!("{unlock}{swap}{lock}")).await;
    let found = findings(&group).await;
    for index in [6, 7] {
        let expected = format!("log_entry, log_index {index}: `log_index` is not the position in `body`");
        assert!(found.contains(&expected), "{found:?}");
    }
}

#[tokio::test]
async fn entries_cannot_be_changed_or_deleted_by_the_node() {
    let group = Group::with_key(3, 2, SUITES[0]).await;
    for sql in ["UPDATE log_entry SET log_index = log_index + 1", "DELETE FROM log_entry"] {
        let options = sqlx::sqlite::SqliteConnectOptions::new().filename(group.path(0));
        let mut conn = sqlx::ConnectOptions::connect(&options).await.unwrap();
        let refused = sqlx::query(sql).execute(&mut conn).await.unwrap_err();
        assert!(refused.to_string().contains("an entry of the log is not"), "{refused}");
    }
}

#[tokio::test]
async fn log_of_a_closed_node_is_readable_from_its_file_with_its_key_only() {
    let group = Group::with_key(3, 2, SUITES[0]).await;
    let me = ParticipantIndex(0);
    let (head, all) = (group.nodes[0].log_head().await.unwrap(), entries(&group.nodes[0]).await);
    let now = EpochMs(NOW);
    let file = NodeFile::open(&group.path(0), me, Arc::clone(&group.kek)).await.unwrap();
    assert_eq!(file.log_head(now).await.unwrap(), head);
    assert_eq!(file.log_entries(0, 100).await.unwrap(), all);
    file.close().await;
    let file = NodeFile::open(&group.path(0), me, Arc::new(kek(2))).await.unwrap();
    assert!(file.log_head(now).await.unwrap_err().is_wrong_kek());
    file.close().await;
}
