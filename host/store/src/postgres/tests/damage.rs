//! Rows that another program changed are reported and not returned.

use super::{Scratch, findings};
use crate::Store;
use crate::contract::Deployment;
use crate::contract::samples::{
    decision, following, id, key_create, note, on_key, opening, opening_payment, preview, submission, written,
};
use gateway_domain::policy::Moment;
use gateway_domain::time::EpochMs;
use gateway_engine::ports::{CommitOperations, ReadError, ReadOperations, Subject};

async fn filled(scratch: &Scratch) {
    let store = scratch.open().await;
    let key = written(&store, on_key(opening(submission(1, key_create()), EpochMs(1)), None)).await;
    written(&store, opening_payment(2)).await;
    written(&store, following(&key, EpochMs(2), vec![note(1)])).await;
    store.decision_record(decision(3, Moment::Submit)).await.unwrap();
    store.preview_record(preview(EpochMs(3)), 9).await.unwrap();
    store.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn record_that_differs_from_its_events_is_not_returned() {
    let key_id = submission(1, key_create()).key.key_id;
    let (operation, key) = (Subject::Operation(id(2)), Subject::Key(key_id));
    let damages = [
        (
            "UPDATE operations SET state = 'published' WHERE operation_id = decode(repeat('02', 32), 'hex')",
            operation,
        ),
        ("UPDATE operations SET body = replace(body, '9007199254740993', '9007199254740994')", operation),
        ("UPDATE events SET body = replace(body, '9007199254740993', '9007199254740994')", operation),
        ("UPDATE custody_keys SET state = 'active'", key),
        ("UPDATE custody_keys SET body = replace(body, 'creating', 'active')", key),
        ("DELETE FROM custody_keys", key),
    ];
    for (damage, subject) in damages {
        let scratch = Scratch::new();
        filled(&scratch).await;
        scratch.tamper(damage).await;
        let store = Store::open(&scratch.url()).await.unwrap();
        let refused = match subject {
            Subject::Operation(id) => store.operation_load(id).await.map(drop),
            Subject::Key(id) => store.key_load(id).await.map(drop),
        };
        let Err(ReadError::Damaged(found)) = refused else { panic!("{damage}: {refused:?}") };
        assert_eq!((found.subject, store.damage()), (subject, vec![found]), "{damage}");
        assert!(!findings(&scratch).await.is_empty(), "{damage}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn changed_schema_and_rows_are_named_by_fsck() {
    let damages = [
        ("DROP TRIGGER policy_activations_rise ON policy_activations", "trigger policy_activations_rise"),
        (
            "ALTER TABLE policy_activations DISABLE TRIGGER policy_activations_rise",
            "trigger policy_activations_rise",
        ),
        ("ALTER TABLE events DROP CONSTRAINT events_operation_id_seq_key", "events_operation_id_seq_key"),
        ("ALTER TABLE events DISABLE TRIGGER ALL", "disabled constraint of events"),
        ("DROP INDEX operations_owing", "index operations_owing"),
        ("ALTER TABLE operations ALTER COLUMN tenant DROP NOT NULL", "table operations, column tenant"),
        ("CREATE RULE silent AS ON INSERT TO spending DO INSTEAD NOTHING", "rule silent"),
        ("CREATE TABLE stray (a BIGINT)", "table stray, column a"),
        ("CREATE TABLE more () INHERITS (spending)", "child of spending"),
        ("ALTER TABLE spending SET UNLOGGED", "table spending"),
        ("ALTER TABLE spending ENABLE ROW LEVEL SECURITY", "table spending"),
        (
            "ALTER FUNCTION policy_activations_only_rise() SET search_path = evil",
            "function policy_activations_only_rise",
        ),
        (
            "CREATE OR REPLACE FUNCTION policy_activations_only_rise() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NEW; END $$",
            "function policy_activations_only_rise",
        ),
        ("UPDATE policy_decisions SET at_ms = 8", "policy_decisions, decision_index 1"),
        (
            "UPDATE policy_previews SET outcome = replace(outcome, 'DENY', 'ALLOW')",
            "policy_previews, preview_index 1",
        ),
        ("DELETE FROM policy_previews", "policy_previews, preview_index 1: missing"),
        ("INSERT INTO row_counters VALUES ('events', 7)", "row_counters, name"),
        ("UPDATE ledger_nodes SET hash = decode(repeat('00', 32), 'hex')", "ledger_nodes, level 1"),
        (
            "UPDATE events SET ledger_index = 9223372036854775807 WHERE ledger_index = 4",
            "events, ledger_index",
        ),
        ("UPDATE ledger_head SET n_leaves = 4", "ledger_head"),
        ("UPDATE ledger_head SET root = decode(repeat('00', 32), 'hex')", "ledger_head"),
        ("UPDATE _sqlx_migrations SET description = 'x'", "_sqlx_migrations, version 1"),
    ];
    for (damage, named) in damages {
        let scratch = Scratch::new();
        filled(&scratch).await;
        assert_eq!(findings(&scratch).await, [], "before {damage}");
        scratch.tamper(damage).await;
        let found = findings(&scratch).await;
        assert!(found.iter().any(|finding| finding.to_string().contains(named)), "{damage}: {found:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn log_that_lacks_an_entry_is_not_opened() {
    for damage in [
        "UPDATE ledger_head SET n_leaves = 4",
        "UPDATE ledger_nodes SET hash = decode(repeat('00', 32), 'hex') WHERE level = 2",
        "DELETE FROM events WHERE ledger_index = 4",
    ] {
        let scratch = Scratch::new();
        filled(&scratch).await;
        scratch.tamper(damage).await;
        let refused = Store::open(&scratch.url()).await.unwrap_err().to_string();
        assert!(refused.contains("is damaged"), "{damage}: {refused}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn activations_cannot_be_lowered_changed_or_removed_by_other_programs() {
    let scratch = Scratch::new();
    let store = scratch.open().await;
    crate::contract::policies::activate(&store, 2, 1).await;
    for change in [
        "UPDATE policy_activations SET sequence = 9",
        "DELETE FROM policy_activations",
        "TRUNCATE policy_activations",
        "INSERT INTO policy_activations SELECT 1, at_ms, bundle_hash, kind, signers, reason, row_hash, 99, ledger_root
            FROM policy_activations",
    ] {
        let mut conn = scratch.connection().await;
        let refused = sqlx::query(change).execute(&mut conn).await.unwrap_err().to_string();
        assert!(refused.contains("activations"), "{change}: {refused}");
    }
}
