//! Damage that `tampered` does not make: rows that belong to nothing, values out of range, dropped triggers, whole operations.

use super::checked;
use super::history::History;

/// The SQL statements, and the table and text of a finding that they must cause.
const DAMAGES: [(&str, &str, &str); 14] = [
    (
        "INSERT INTO spending SELECT operation_id, tenant, 'a', 'b', 's', 'k', 'EUR', 1, 1 FROM operations WHERE family = 'custody' LIMIT 1",
        "spending",
        "its events spend nothing",
    ),
    (
        "INSERT INTO paid SELECT operation_id, key_id, 'b', 1 FROM operations WHERE family = 'custody' LIMIT 1",
        "paid",
        "its events publish no payment",
    ),
    (
        "INSERT INTO custody_keys SELECT zeroblob(32), tenant, 'stray', state, NULL, revision, format, body
         FROM custody_keys LIMIT 1",
        "custody_keys",
        "no events produce it",
    ),
    (
        "DROP TRIGGER policy_activations_are_not_removed; DELETE FROM policy_activations WHERE sequence < 1000",
        "policy_bundles",
        "was never active",
    ),
    (
        "UPDATE events SET operation_id = zeroblob(32)
         WHERE operation_id = (SELECT operation_id FROM events WHERE ledger_index = (SELECT min(ledger_index) FROM events))",
        "events",
        "not the submission of its operation",
    ),
    ("UPDATE events SET ledger_index = -1 WHERE ledger_index = (SELECT min(ledger_index) FROM events)", "events", "`ledger_index` is negative"),
    ("UPDATE events SET seq = 0 WHERE ledger_index = (SELECT min(ledger_index) FROM events)", "events", "`seq` is 0, but 1 or more was expected"),
    ("UPDATE events SET salt = x'00' WHERE ledger_index = (SELECT min(ledger_index) FROM events)", "events", "`salt` is not 32 bytes"),
    ("UPDATE events SET event_hash = x'00' WHERE ledger_index = (SELECT min(ledger_index) FROM events)", "events", "`event_hash` is not 32 bytes"),
    (
        "UPDATE ledger_nodes SET hash = x'00' WHERE level = 1 AND position = 0",
        "ledger_nodes",
        "`hash` is not 32 bytes",
    ),
    (
        "UPDATE events SET ledger_index = 1000000000000 WHERE ledger_index = (SELECT max(ledger_index) FROM events)",
        "ledger_nodes",
        "not checked from leaf",
    ),
    // Deletes an operation and its events, and leaves its idempotency claim.
    (
        "DELETE FROM operations WHERE operation_id = (SELECT operation_id FROM events WHERE ledger_index = (SELECT min(ledger_index) FROM events));
         DELETE FROM events WHERE operation_id = (SELECT operation_id FROM events WHERE ledger_index = (SELECT min(ledger_index) FROM events))",
        "idempotency_claims",
        "its operation does not exist",
    ),
    ("UPDATE policy_decisions SET operation_id = x'00'", "policy_decisions", "cannot be read"),
    ("DELETE FROM policy_previews", "policy_previews", "missing"),
];

#[tokio::test(flavor = "multi_thread")]
async fn rows_that_belong_to_nothing_are_found() {
    let history = History::written().await;
    for (damage, table, what) in DAMAGES {
        history.damage(damage).await;
        let (findings, _) = checked(&history.database()).await.unwrap();
        let is_found =
            findings.iter().any(|finding| finding.table == table && finding.what.starts_with(what));
        assert!(is_found, "{damage}: {findings:#?}");
    }
}

/// The tree above a missing leaf is not reported, since it still has the leaf's hash.
#[tokio::test(flavor = "multi_thread")]
async fn missing_event_is_not_reported_for_the_whole_log() {
    let history = History::written().await;
    let damage = "DELETE FROM events WHERE operation_id = (SELECT operation_id FROM spending) AND seq = 5";
    history.damage(damage).await;
    let (findings, checked) = checked(&history.database()).await.unwrap();
    let rows: Vec<_> =
        findings.iter().map(|finding| (finding.table.as_str(), finding.what.as_str())).collect();
    assert_eq!(
        rows,
        [("events", "missing"); 2],
        "by its number in the operation, and by its index in the log: {findings:#?}"
    );
    assert_eq!(
        checked.head.map(|head| head.n_leaves),
        Some(checked.n_events + checked.n_activations + 1),
        "the head of the log counts the missing event"
    );
}
