//! The contract on real files, and what only SQLite has.

use super::Sqlite;
use crate::contract::budgets::{charge, nth};
use crate::contract::samples::{
    decision, decision_signed, failed, following, id, key_create, note, on_key, opening, opening_payment,
    preview, submission, written,
};
use crate::contract::{Deployment, evidence::merkle_tree_hash};
use crate::{Counters, Cursor, Decisions, OpenError, Store};
use gateway_domain::ids::Hex32;
use gateway_domain::key::KeyState;
use gateway_domain::policy::Moment;
use gateway_domain::time::EpochMs;
use gateway_engine::ports::{Charged, CommitOperations, Committed, ReadLog, ReadOperations};
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
    assert_eq!(store.commit(twin).await.unwrap(), Committed::Raced);
    let mut claimed = opening_payment(3);
    claimed.operation = on_key(opening(submission(3, key_create()), EpochMs(1)), None).operation;
    claimed.claim = Some(format!("claim-{}", id(1)));
    assert_eq!(store.commit(claimed).await.unwrap(), Committed::Raced);
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
    assert_eq!(store.commit(decision).await.unwrap(), Committed::Raced);
    assert_eq!(folder.n_rows("spending").await, 0);
    let record = store.operation_load(id(1)).await.unwrap().unwrap();
    let decided = written(&*store, following(&record, EpochMs(2), vec![decision_signed()])).await;
    let failure = following(&decided, EpochMs(3), vec![failed()]);
    written(&*store, following(&decided, EpochMs(3), vec![note(1)])).await;
    assert_eq!(store.commit(failure).await.unwrap(), Committed::Raced);
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

#[tokio::test]
async fn rows_that_can_not_be_read_are_named() {
    let folder = Folder::new();
    let store = folder.open().await;
    let record = written(&*store, on_key(opening(submission(1, key_create()), EpochMs(1)), None)).await;
    let key_id = record.operation.key.key_id;
    // What was written lately is remembered: only a store that starts anew reads the rows.
    store.close().await;
    let store = folder.open().await;
    for table in ["operations", "events", "custody_keys"] {
        folder.tamper(&format!("UPDATE {table} SET format = 2")).await;
    }
    assert_names(&store.operation_load(id(1)).await.unwrap_err(), id(1));
    assert_names(&store.operation_events(id(1)).await.unwrap_err(), id(1));
    assert_names(&store.key_load(key_id).await.unwrap_err(), key_id);
    for table in ["operations", "events", "custody_keys"] {
        folder.tamper(&format!("UPDATE {table} SET format = 1, body = '{{}}'")).await;
    }
    assert_names(&store.operation_load(id(1)).await.unwrap_err(), id(1));
    assert_names(&store.operation_events(id(1)).await.unwrap_err(), id(1));
    assert_names(&store.key_load(key_id).await.unwrap_err(), key_id);
    folder.tamper("UPDATE events SET event_hash = x'00'").await;
    assert_names(&store.operation_events(id(1)).await.unwrap_err(), id(1));
}

#[tokio::test]
async fn a_closed_store_is_unavailable() {
    let folder = Folder::new();
    let store = folder.open().await;
    store.close().await;
    assert_names(&store.commit(opening_payment(1)).await.unwrap_err(), id(1));
    assert_names(&store.operation_load(id(1)).await.unwrap_err(), id(1));
    assert_names(&store.ping().await.unwrap_err(), "database");
}

#[tokio::test]
async fn a_damaged_log_is_not_opened() {
    let damages = [
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

#[tokio::test]
async fn another_database_is_refused() {
    let refused = Sqlite::open("postgres://user:secret@host/db").await;
    assert!(!refused.unwrap_err().to_string().contains("secret"));
}

/// Clients that were here once leave nothing behind; those whose budget is not full stay.
#[tokio::test]
async fn budgets_that_are_full_are_dropped_by_and_by() {
    let folder = Folder::new();
    let store = folder.open().await;
    let pay = async |n: u16, client: &str, now_us| {
        let charged = store.commit_charged(nth(n), charge(client, now_us)).await.unwrap();
        assert!(matches!(charged, Charged::Written { .. }), "{charged:?}");
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
    let charged =
        store.decision_record_charged(decision(1, Moment::Submit), charge("last", 200_000_000)).await;
    assert!(matches!(charged, Ok(Charged::Written { .. })));
    assert_eq!(folder.n_rows("admission_budgets").await, 1);
    store.close().await;
}
