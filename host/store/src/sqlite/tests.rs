//! The contract on real files, and what only SQLite has.

use crate::contract::policies::activate;
use crate::contract::quota::{nth, token};
use crate::contract::samples::{
    decision, decision_signed, failed, following, id, key_create, note, on_key, opening, opening_payment,
    preview, submission, written,
};
use crate::contract::{Deployment, evidence::merkle_tree_hash};
use crate::{Counters, Cursor, Decisions, OpenError, Store};
use gateway_domain::ids::{Hex32, KeyId, KeyRef};
use gateway_domain::key::KeyState;
use gateway_domain::operation::KeySlot;
use gateway_domain::policy::Moment;
use gateway_domain::time::EpochMs;
use gateway_engine::ports::{
    CommitOperations, Committed, KeepPolicies, RateLimited, ReadError, ReadLog, ReadOperations, Subject,
};
use gateway_engine::{Dependency, Unavailable};
use sqlx::{AssertSqlSafe, Connection, SqliteConnection};
use std::sync::Arc;
use tempfile::TempDir;

struct Folder(TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self) -> String {
        self.0.path().join("gateway.db").to_str().unwrap().to_owned()
    }

    /// A connection beside the store, for tampering and counting.
    async fn connection(&self) -> SqliteConnection {
        SqliteConnection::connect(&format!("sqlite://{}", self.path())).await.unwrap()
    }

    async fn tamper(&self, sql: &str) {
        let mut conn = self.connection().await;
        sqlx::query(AssertSqlSafe(sql)).execute(&mut conn).await.unwrap();
        conn.close().await.unwrap();
    }

    async fn n_rows(&self, table: &str) -> i64 {
        let sql = format!("SELECT count(*) FROM {table}");
        sqlx::query_scalar(AssertSqlSafe(sql)).fetch_one(&mut self.connection().await).await.unwrap()
    }
}

impl Deployment for Folder {
    type Store = Store;

    async fn open(&self) -> Arc<Store> {
        Arc::new(Store::open(&self.path()).await.unwrap())
    }

    async fn decisions(&self) -> Decisions {
        Decisions::open(&self.path()).await.unwrap()
    }

    async fn close(&self, store: Arc<Store>) {
        store.close().await;
    }
}

crate::contract::contract_cases!(Folder::new());

const TABLES: [&str; 8] = [
    "operations",
    "events",
    "ledger_nodes",
    "idempotency_claims",
    "custody_keys",
    "policy_decisions",
    "key_operations",
    "spending",
];

async fn n_rows(folder: &Folder) -> Vec<i64> {
    let mut counts = Vec::new();
    for table in TABLES {
        counts.push(folder.n_rows(table).await);
    }
    counts
}

#[tokio::test]
async fn a_raced_commit_leaves_every_table_and_the_root_alone() {
    let folder = Folder::new();
    let store = folder.open().await;
    let record = written(&*store, on_key(opening(submission(1, key_create()), EpochMs(1)), None)).await;
    let before = n_rows(&folder).await;
    assert_eq!(before, [1, 2, 1, 1, 1, 0, 1, 0]);
    let twin = on_key(opening(submission(2, key_create()), EpochMs(1)), None);
    assert_eq!(store.commit(twin).await.unwrap(), Committed::Conflict);
    let mut claimed = opening_payment(3);
    claimed.operation = on_key(opening(submission(3, key_create()), EpochMs(1)), None).operation;
    claimed.claim = Some(format!("claim-{}", id(1)));
    assert_eq!(store.commit(claimed).await.unwrap(), Committed::Conflict);
    assert_eq!(n_rows(&folder).await, before);
    assert_eq!(store.counters().rollbacks, 0, "a race is not a rollback");
    written(&*store, following(&record, EpochMs(2), vec![note(1)])).await;
    assert_eq!(n_rows(&folder).await, [1, 3, 1, 1, 1, 0, 1, 0]);
}

#[tokio::test]
async fn a_raced_decision_spends_nothing() {
    let folder = Folder::new();
    let store = folder.open().await;
    let record = written(&*store, opening_payment(1)).await;
    let decision = following(&record, EpochMs(2), vec![decision_signed()]);
    written(&*store, following(&record, EpochMs(2), vec![note(1)])).await;
    assert_eq!(store.commit(decision).await.unwrap(), Committed::Conflict);
    assert_eq!(folder.n_rows("spending").await, 0);
    let record = store.operation_load(id(1)).await.unwrap().unwrap();
    let decided = written(&*store, following(&record, EpochMs(2), vec![decision_signed()])).await;
    let failure = following(&decided, EpochMs(3), vec![failed()]);
    written(&*store, following(&decided, EpochMs(3), vec![note(1)])).await;
    assert_eq!(store.commit(failure).await.unwrap(), Committed::Conflict);
    assert_eq!(folder.n_rows("spending").await, 1, "a raced failure voids nothing");
}

#[tokio::test]
async fn what_was_decided_before_the_table_was_is_in_it() {
    let folder = Folder::new();
    let store = folder.open().await;
    for byte in 1..=3 {
        let record = written(&*store, opening_payment(byte)).await;
        if byte > 1 {
            let decided = written(&*store, following(&record, EpochMs(5), vec![decision_signed()])).await;
            if byte > 2 {
                written(&*store, following(&decided, EpochMs(6), vec![failed()])).await;
            }
        }
    }
    type Row = (Vec<u8>, String, String, String, String, i64, i64);
    let rows = async || -> Vec<Row> {
        sqlx::query_as("SELECT * FROM spending").fetch_all(&mut folder.connection().await).await.unwrap()
    };
    let written = rows().await;
    assert_eq!(written.len(), 1);
    store.close().await;
    folder.tamper("DROP TABLE spending").await;
    folder.tamper("DELETE FROM _sqlx_migrations WHERE version = 4").await;
    let store = folder.open().await;
    assert_eq!(rows().await, written);
    drop(store);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_concurrent_commit_has_the_root_of_its_place_in_the_log() {
    let folder = Folder::new();
    let store = folder.open().await;
    let mut clients = tokio::task::JoinSet::new();
    for byte in 0..32 {
        let store = Arc::clone(&store);
        clients.spawn(async move {
            let mut record = written(&*store, opening_payment(byte)).await;
            let mut roots = vec![record.ledger_root];
            for step in 0..6 {
                record = written(&*store, following(&record, EpochMs(step), vec![note(byte)])).await;
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
    assert_eq!(roots.len(), 32 * 7, "no two commits end at one place");
    assert!(roots.iter().all(|root| references.binary_search(root).is_ok()));
    let Counters { jobs, transactions, rollbacks, statements } = store.counters();
    assert_eq!((jobs, rollbacks), (32 * 7, 0));
    assert!(transactions <= jobs && statements >= 2 * jobs && statements <= 4 * jobs, "{statements}");
}

#[tokio::test]
async fn decisions_are_rows() {
    let folder = Folder::new();
    let store = folder.open().await;
    store.decision_record(decision(1, Moment::Submit)).await.unwrap();
    let sql = "SELECT at_ms, tenant, operation_id, outcome ->> 'decision', submitter ->> 'client_id' FROM policy_decisions";
    let row: (i64, String, Vec<u8>, String, String) =
        sqlx::query_as(sql).fetch_one(&mut folder.connection().await).await.unwrap();
    assert_eq!(row, (7, "default".into(), vec![1; 32], "DENY".into(), "desk".into()));
}

#[tokio::test]
async fn damaged_decision_records_are_told() {
    let damages = [
        ("events", "body = replace(body, 'payment-guard', 'payment-board')", (false, true, true)),
        ("events", "body = replace(body, '\"fuel_used\":1', '\"fuel_used\":2')", (false, true, true)),
        ("policy_decisions", "input = replace(input, 'acct-2', 'acct-3')", (true, false, true)),
        ("policy_decisions", "outcome = replace(outcome, 'DENY', 'ALLOW')", (true, false, true)),
        ("policy_decisions", "at_ms = at_ms + 1", (true, false, true)),
        ("policy_decisions", "operation_id = zeroblob(32)", (true, false, true)),
        (
            "policy_previews",
            "outcome = replace(outcome, '\"fuel_used\":1', '\"fuel_used\":2')",
            (true, true, false),
        ),
    ];
    for (table, damage, expected) in damages {
        let folder = Folder::new();
        let store = folder.open().await;
        written(&*store, opening_payment(1)).await;
        store.decision_record(decision(2, Moment::Submit)).await.unwrap();
        store.preview_record(preview(EpochMs(3)), 9).await.unwrap();
        folder.tamper(&format!("UPDATE {table} SET {damage}")).await;
        let decisions = folder.decisions().await;
        let intact: Vec<_> = decisions.latest(9).await.unwrap().iter().map(|one| one.is_intact).collect();
        let mut intact_by_place = decisions.page(Cursor::default(), 9).await.unwrap();
        intact_by_place.sort_by_key(|one| one.place);
        let intact_by_place: Vec<_> = intact_by_place.iter().map(|one| one.is_intact).collect();
        assert_eq!(intact_by_place, [expected.0, expected.1, expected.2], "{table} {damage}");
        assert_eq!(intact.iter().filter(|intact| !**intact).count(), 1, "{table} {damage}");
        folder.tamper(&format!("UPDATE {table} SET format = 2")).await;
        assert!(decisions.page(Cursor::default(), 9).await.is_err());
    }
}

fn assert_names(error: &Unavailable, name: impl std::fmt::Display) {
    assert_eq!(error.dependency, Dependency::Store);
    assert!(error.detail.contains(&name.to_string()), "{error}");
    for word in ["SELECT", "INSERT", "operations", "sqlite"] {
        assert!(!error.detail.contains(word), "{error}");
    }
}

/// What is read back after a restart, once each of these was done to the stopped store's database.
async fn assert_frozen(begin: impl AsyncFn(&Store), sound: &[Subject], damages: &[(&str, Subject)]) {
    let read = async |store: &Store, subject| match subject {
        Subject::Operation(id) => store.operation_load(id).await.map(|found| found.is_some()),
        Subject::Key(id) => store.key_load(id).await.map(|found| found.is_some()),
    };
    for (damage, subject) in damages {
        let folder = Folder::new();
        let store = folder.open().await;
        begin(&store).await;
        store.close().await;
        // What was written lately is remembered: only a store that starts anew reads the rows.
        let store = folder.open().await;
        assert_eq!(read(&store, *subject).await, Ok(true), "{subject} before {damage}");
        store.close().await;
        folder.tamper(damage).await;
        let store = folder.open().await;
        let refused = read(&store, *subject).await.unwrap_err();
        let ReadError::Damaged(found) = refused else { panic!("{damage}: {refused:?}") };
        assert_eq!(found.subject, *subject, "{damage}");
        assert_eq!(store.damage(), std::slice::from_ref(&found), "{damage}");
        for other in sound.iter().filter(|other| *other != subject) {
            assert_eq!(read(&store, *other).await, Ok(true), "{other} after {damage}");
        }
        assert_eq!(store.damage(), [found], "{damage}");
        store.close().await;
    }
}

/// The attack that worked: the row alone was changed, and the gateway went on from it.
#[tokio::test]
async fn an_operation_whose_row_or_events_were_changed_is_not_handed_out() {
    let begin = async |store: &Store| {
        let record = written(store, opening_payment(1)).await;
        written(store, following(&record, EpochMs(2), vec![note(1)])).await;
        written(store, opening_payment(2)).await;
    };
    let one = Subject::Operation(id(1));
    let of_one = |sql: &str| format!("{sql} WHERE operation_id = x'{}'", id(1));
    let damages = [
        of_one(
            "UPDATE operations SET body = json_set(body, '$.approvals', json('[]'), '$.phase', 'deciding')",
        ),
        of_one("UPDATE operations SET body = replace(body, '9007199254740993', '9007199254740994')"),
        of_one("UPDATE operations SET body = 'x'"),
        of_one("UPDATE operations SET owes = 1 - owes"),
        of_one("UPDATE operations SET state = 'admitted'"),
        of_one("UPDATE operations SET revision = revision + 1"),
        of_one("UPDATE operations SET record_root = zeroblob(32)"),
        of_one("UPDATE operations SET format = 2"),
        of_one("UPDATE events SET body = replace(body, '9007199254740993', '9007199254740994')"),
        of_one("UPDATE events SET body = '{}'"),
        of_one("UPDATE events SET format = 2"),
        of_one("UPDATE events SET salt = zeroblob(31)"),
        format!("UPDATE events SET seq = 9 WHERE seq = 3 AND operation_id = x'{}'", id(1)),
        format!("UPDATE events SET operation_id = x'{}', seq = 3 WHERE seq = 3", id(2)),
    ];
    let damages: Vec<_> = damages.iter().map(|sql| (sql.as_str(), one)).collect();
    let (last, others) = damages.split_last().unwrap();
    assert_frozen(begin, &[one, Subject::Operation(id(2))], others).await;
    // Moved to the other operation: neither is what its events make it.
    assert_frozen(begin, &[], &[*last, (last.0, Subject::Operation(id(2)))]).await;
}

#[tokio::test]
async fn a_key_that_its_operations_do_not_make_is_not_handed_out() {
    let begin = async |store: &Store| {
        written(store, on_key(opening(submission(1, key_create()), EpochMs(1)), None)).await;
        written(store, opening_payment(2)).await;
    };
    let key = Subject::Key(submission(1, key_create()).key.key_id);
    let damages = [
        "UPDATE custody_keys SET body = json_set(body, '$.state', 'active')",
        "UPDATE custody_keys SET body = json_set(body, '$.serves', 'payments')",
        "UPDATE custody_keys SET body = json_set(body, '$.serves', 'payments', '$.serves_since', '00')",
        "UPDATE custody_keys SET body = json_set(body, '$.public', json('{\"public_key_hex\":\"aa\",\"package_hex\":\"\"}'))",
        "UPDATE custody_keys SET body = 'x'",
        "UPDATE custody_keys SET state = 'active'",
        "UPDATE custody_keys SET tenant = 'other'",
        "UPDATE custody_keys SET revision = revision + 1",
        "UPDATE custody_keys SET format = 2",
        "DELETE FROM custody_keys",
    ];
    let damages: Vec<_> = damages.iter().map(|sql| (*sql, key)).collect();
    assert_frozen(begin, &[Subject::Operation(id(2)), Subject::Operation(id(1))], &damages).await;
    // Its creation is gone from under it, in the row or in the events.
    let of_creation =
        format!("UPDATE operations SET record_root = zeroblob(32) WHERE operation_id = x'{}'", id(1));
    let altered =
        format!("UPDATE events SET body = replace(body, 'cold', 'warm') WHERE operation_id = x'{}'", id(1));
    assert_frozen(begin, &[Subject::Operation(id(2))], &[(&of_creation, key), (&altered, key)]).await;
}

#[tokio::test]
async fn a_record_that_is_put_right_is_handed_out_again() {
    let folder = Folder::new();
    let store = folder.open().await;
    written(&*store, opening_payment(1)).await;
    store.close().await;
    let store = folder.open().await;
    folder.tamper("UPDATE operations SET state = 'admitted'").await;
    assert!(matches!(store.operation_load(id(1)).await, Err(ReadError::Damaged(_))));
    folder.tamper("UPDATE operations SET state = 'pending_approval'").await;
    assert!(store.operation_load(id(1)).await.unwrap().is_some());
    assert_eq!(store.damage(), []);
}

#[tokio::test]
async fn events_that_can_not_be_read_are_named() {
    let folder = Folder::new();
    let store = folder.open().await;
    written(&*store, opening_payment(1)).await;
    for damage in ["format = 2", "format = 1, body = '{}'", "event_hash = x'00'"] {
        folder.tamper(&format!("UPDATE events SET {damage}")).await;
        assert_names(&store.operation_events(id(1)).await.unwrap_err(), id(1));
    }
}

#[tokio::test]
async fn a_closed_store_is_unavailable() {
    let folder = Folder::new();
    let store = folder.open().await;
    store.close().await;
    assert_names(&store.commit(opening_payment(1)).await.unwrap_err(), id(1));
    let ReadError::Unavailable(why) = store.operation_load(id(1)).await.unwrap_err() else { panic!() };
    assert_names(&why, id(1));
    assert_names(&store.ping().await.unwrap_err(), "database");
}

#[tokio::test]
async fn a_damaged_log_is_not_opened() {
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
        let record = written(&*store, opening_payment(1)).await;
        written(&*store, following(&record, EpochMs(2), vec![note(1)])).await;
        store.close().await;
        folder.tamper(damage).await;
        let refused = Store::open(&folder.path()).await;
        assert!(
            matches!(refused, Err(OpenError::Sqlite(gateway_sqlite::OpenError::Failed { .. }))),
            "{damage}"
        );
    }
}

/// The policy's high-water mark is the log's: no row of it can be taken away or altered while the gateway is stopped.
#[tokio::test]
async fn a_database_without_one_of_its_activations_is_not_opened() {
    let free =
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
        activate(&*store, 1, 1).await;
        let record = written(&*store, opening_payment(1)).await;
        activate(&*store, 2, 2).await;
        written(&*store, following(&record, EpochMs(2), vec![note(1)])).await;
        store.close().await;
        let reopened = folder.open().await;
        assert_eq!(reopened.activations(9).await.unwrap().len(), 2);
        reopened.close().await;
        folder.tamper(free).await;
        folder.tamper(damage).await;
        let refused = Store::open(&folder.path()).await;
        assert!(
            matches!(refused, Err(OpenError::Sqlite(gateway_sqlite::OpenError::Failed { .. }))),
            "{damage}: {refused:?}"
        );
    }
}

/// Nothing comes after it that would leave a gap: its counter tells, or the nodes that it completed.
#[tokio::test]
async fn a_log_without_its_last_entry_an_activation_is_not_opened() {
    let delete =
        "DROP TRIGGER policy_activations_are_not_removed; DELETE FROM policy_activations WHERE sequence = 2";
    let uncount = "UPDATE sqlite_sequence SET seq = 1 WHERE name = 'policy_activations'";
    // At an even place an entry completes no node, at an odd one it does.
    for (n_notes, damages) in [(1, vec![delete]), (0, vec![delete]), (0, vec![delete, uncount])] {
        let folder = Folder::new();
        let store = folder.open().await;
        activate(&*store, 1, 1).await;
        let record = written(&*store, opening_payment(1)).await;
        for _ in 0..n_notes {
            written(&*store, following(&record, EpochMs(2), vec![note(1)])).await;
        }
        activate(&*store, 2, 2).await;
        store.close().await;
        for damage in &damages {
            folder.tamper(damage).await;
        }
        let refused = Store::open(&folder.path()).await;
        assert!(
            matches!(refused, Err(OpenError::Sqlite(gateway_sqlite::OpenError::Failed { .. }))),
            "{n_notes} {damages:?}: {refused:?}"
        );
    }
}

#[tokio::test]
async fn a_log_that_ends_with_an_activation_is_followed() {
    let folder = Folder::new();
    for sequence in 1..=5 {
        let store = folder.open().await;
        activate(&*store, sequence, u8::try_from(sequence).unwrap()).await;
        let head = store.log_head().await.unwrap();
        assert_eq!(head.size, sequence * 3 - 2);
        let proof = store.log_inclusion(head.size - 1, head.size).await.unwrap().unwrap();
        assert_eq!(proof.head, head);
        store.close().await;
        let store = folder.open().await;
        assert_eq!(store.log_head().await.unwrap(), head);
        written(&*store, opening_payment(u8::try_from(sequence).unwrap())).await;
        store.close().await;
    }
}

/// Every row of the log altered or gone in turn, under an open store: no proof is ever another than it was, and each
/// damage is noticed by somebody.
#[tokio::test]
async fn a_damaged_log_gives_no_proof_but_the_right_one() {
    let folder = Folder::new();
    let store = folder.open().await;
    let mut record = written(&*store, opening_payment(1)).await;
    for step in 0..9 {
        record = written(&*store, following(&record, EpochMs(step), vec![note(1)])).await;
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

#[tokio::test]
async fn a_job_that_fails_leaves_the_log_in_step() {
    let folder = Folder::new();
    let store = folder.open().await;
    let first = written(&*store, opening_payment(1)).await;
    // The next leaf's place is taken behind the writer's back: the commit fails after its first statement.
    folder.tamper("UPDATE events SET ledger_index = 2 WHERE ledger_index = 1").await;
    let next = following(&first, EpochMs(2), vec![note(1)]);
    assert_names(&store.commit(next.clone()).await.unwrap_err(), id(1));
    assert_eq!(store.operation_load(id(1)).await.unwrap().as_ref(), Some(&first));
    folder.tamper("UPDATE events SET ledger_index = 1 WHERE ledger_index = 2").await;
    let record = written(&*store, next.clone()).await;
    let events = store.operation_events(id(1)).await.unwrap();
    let last = events.last().unwrap();
    assert_eq!(last.event, next.events[0]);
    assert!(last.follows(first.record_root));
    let hashes: Vec<_> = events.iter().map(|chained| chained.hash).collect();
    assert_eq!(record.ledger_root, merkle_tree_hash(&hashes));
}

#[tokio::test]
async fn searches_use_their_indexes() {
    let folder = Folder::new();
    let store = folder.open().await;
    let plans =
        [(super::read::OWING, "operations_owing"), (super::read::PENDING, "operations_awaiting_approvals")];
    for (sql, index) in plans {
        let sql = format!("EXPLAIN QUERY PLAN {sql}");
        let rows: Vec<(i64, i64, i64, String)> =
            sqlx::query_as(AssertSqlSafe(sql)).fetch_all(&mut folder.connection().await).await.unwrap();
        let plan: Vec<_> = rows.into_iter().map(|row| row.3).collect();
        assert!(plan.len() == 1 && plan[0].contains(index), "{plan:?}");
    }
    let sql = format!("EXPLAIN QUERY PLAN {}", super::spending::SPENT);
    let rows: Vec<(i64, i64, i64, String)> =
        sqlx::query_as(AssertSqlSafe(sql)).fetch_all(&mut folder.connection().await).await.unwrap();
    for index in ["spending_of_account", "spending_to_recipient"] {
        let uses = |row: &(i64, i64, i64, String)| {
            row.3.contains(&format!("USING COVERING INDEX {index} (tenant=? AND"))
                && row.3.contains("at_ms>?")
        };
        assert!(rows.iter().any(uses), "{rows:?}");
    }
    let sql = format!("EXPLAIN QUERY PLAN {}", super::read::KEY_QUORUMS);
    let rows: Vec<(i64, i64, i64, String)> =
        sqlx::query_as(AssertSqlSafe(sql)).fetch_all(&mut folder.connection().await).await.unwrap();
    let of_keys: Vec<_> = rows.iter().filter(|row| row.3.contains("custody_keys")).collect();
    let seeks = |row: &&(i64, i64, i64, String)| {
        row.3 == "SEARCH custody_keys USING COVERING INDEX custody_keys_quorum (<expr>>?)"
    };
    assert!(of_keys.len() == 1 && of_keys.iter().all(seeks), "{rows:?}");
    let sql = format!("EXPLAIN QUERY PLAN {}", super::log::NODES);
    let rows: Vec<(i64, i64, i64, String)> =
        sqlx::query_as(AssertSqlSafe(sql)).fetch_all(&mut folder.connection().await).await.unwrap();
    let plan: Vec<_> = rows.into_iter().map(|row| row.3).collect();
    for search in [
        "SEARCH ledger_nodes USING PRIMARY KEY (level=? AND position=?)",
        "SEARCH events USING INTEGER PRIMARY KEY (rowid=?)",
    ] {
        assert!(plan.iter().any(|step| step == search), "{plan:?}");
    }
    let sql = format!("EXPLAIN QUERY PLAN {}", super::checked::CHANGES);
    let rows: Vec<(i64, i64, i64, String)> =
        sqlx::query_as(AssertSqlSafe(sql)).fetch_all(&mut folder.connection().await).await.unwrap();
    let plan: Vec<_> = rows.into_iter().map(|row| row.3).collect();
    for index in ["events_changing_key", "events_making_successor"] {
        assert!(
            plan.iter().any(|step| step.contains(&format!("SEARCH events USING INDEX {index}"))),
            "{plan:?}"
        );
    }
    assert!(
        !plan.iter().any(|step| step.starts_with("SCAN events") || step.starts_with("SCAN operations")),
        "{plan:?}"
    );
    drop(store);
}

#[tokio::test]
async fn a_key_needs_nodes_exactly_while_it_signs() {
    let folder = Folder::new();
    let store = folder.open().await;
    written(&*store, on_key(opening(submission(1, key_create()), EpochMs(1)), None)).await;
    for state in [
        KeyState::Creating,
        KeyState::Active,
        KeyState::Refreshing,
        KeyState::Resharing,
        KeyState::Recovering,
        KeyState::Rotating,
        KeyState::Rotated,
        KeyState::Failed,
    ] {
        folder.tamper(&format!("UPDATE custody_keys SET state = '{}'", state.as_str())).await;
        let n_quorums = store.key_quorums(2).await.unwrap().len();
        assert_eq!(n_quorums, usize::from(state.can_sign()), "{state:?}");
    }
}

/// A round over the keys must not end at it: every later one would go unseen.
#[tokio::test]
async fn a_key_row_that_cannot_be_read_does_not_end_a_page() {
    let folder = Folder::new();
    let store = folder.open().await;
    for byte in 1..=4 {
        let mut submission = submission(byte, key_create());
        let key_id = KeyId(Hex32::new([byte; 32]));
        submission.key = KeySlot { key_ref: KeyRef(format!("key-{byte}")), key_id };
        written(&*store, on_key(opening(submission, EpochMs(1)), None)).await;
    }
    let all = store.keys_after(None, 9).await.unwrap();
    assert_eq!(all.len(), 4);
    folder.tamper(&format!("UPDATE custody_keys SET body = 'x' WHERE key_id = x'{}'", all[1].key_id)).await;
    assert_eq!(store.keys_after(None, 2).await.unwrap(), [all[0].clone(), all[2].clone()]);
    assert_eq!(store.keys_after(None, 9).await.unwrap().len(), 3);
}

#[tokio::test]
async fn another_database_is_refused() {
    let refused = Store::open("postgres://user:secret@host/db").await;
    assert!(!refused.unwrap_err().to_string().contains("secret"));
}

/// Clients that were here once leave nothing behind; those whose budget is not full stay.
#[tokio::test]
async fn budgets_that_are_full_are_dropped_by_and_by() {
    let folder = Folder::new();
    let store = folder.open().await;
    let pay = async |n: u16, client: &str, now_us| {
        let answer = store.commit_with_token(nth(n), token(client, now_us)).await.unwrap();
        assert!(matches!(answer, RateLimited::Written { .. }), "{answer:?}");
    };
    for n in 0..50 {
        pay(n, &format!("client-{n}"), 1_000_000).await;
    }
    assert_eq!(folder.n_rows("admission_budgets").await, 50);
    // All of them are full again after a tenth of a second; each charge drops more than it adds.
    for n in 50..100 {
        pay(n, &format!("later-{n}"), u64::from(n) * 1_000_000).await;
    }
    assert_eq!(folder.n_rows("admission_budgets").await, 1);
    // A refusal drops them too.
    let answer =
        store.decision_record_with_token(decision(1, Moment::Submit), token("last", 200_000_000)).await;
    assert!(matches!(answer, Ok(RateLimited::Written { .. })));
    assert_eq!(folder.n_rows("admission_budgets").await, 1);
    store.close().await;
}
