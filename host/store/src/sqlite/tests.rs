//! Runs the contract on real files, and tests what is specific to SQLite.

mod damage;
mod log;

use super::sql::STATEMENTS;
use crate::Store;
use crate::contract::Deployment;
use crate::contract::quota::{nth, token};
use crate::contract::samples::{
    decision, decision_signed, failed, following, id, key_create, note, on_key, opening, opening_payment,
    submission, written,
};
use crate::store::lists;
use gateway_domain::key::KeyState;
use gateway_domain::policy::Moment;
use gateway_domain::time::EpochMs;
use gateway_engine::ports::{CommitOperations, Committed, RateLimited, ReadError, ReadOperations};
use gateway_engine::{Dependency, Unavailable};
use sqlx::{AssertSqlSafe, Connection, SqliteConnection};
use tempfile::TempDir;

struct Folder(TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self) -> String {
        self.0.path().join("gateway.db").to_str().unwrap().to_owned()
    }

    /// A connection beside the store's.
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
    fn location(&self) -> String {
        self.path()
    }

    async fn tamper(&self, sql: &str) {
        Self::tamper(self, sql).await;
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
async fn conflicting_commit_changes_no_table_and_not_the_log() {
    let folder = Folder::new();
    let store = folder.open().await;
    let record = written(&store, on_key(opening(submission(1, key_create()), EpochMs(1)), None)).await;
    let before = n_rows(&folder).await;
    assert_eq!(before, [1, 2, 1, 1, 1, 0, 1, 0]);
    let second = on_key(opening(submission(2, key_create()), EpochMs(1)), None);
    assert_eq!(store.commit(second).await.unwrap(), Committed::Conflict);
    let mut claimed = opening_payment(3);
    claimed.operation = on_key(opening(submission(3, key_create()), EpochMs(1)), None).operation;
    claimed.claim = Some(format!("claim-{}", id(1)));
    assert_eq!(store.commit(claimed).await.unwrap(), Committed::Conflict);
    assert_eq!(n_rows(&folder).await, before);
    assert_eq!(store.counters().rollbacks, 0, "a conflict is not a rollback");
    written(&store, following(&record, EpochMs(2), vec![note(1)])).await;
    assert_eq!(n_rows(&folder).await, [1, 3, 1, 1, 1, 0, 1, 0]);
}

#[tokio::test]
async fn conflicting_decision_spends_nothing() {
    let folder = Folder::new();
    let store = folder.open().await;
    let record = written(&store, opening_payment(1)).await;
    let decision = following(&record, EpochMs(2), vec![decision_signed()]);
    written(&store, following(&record, EpochMs(2), vec![note(1)])).await;
    assert_eq!(store.commit(decision).await.unwrap(), Committed::Conflict);
    assert_eq!(folder.n_rows("spending").await, 0);
    let record = store.operation_load(id(1)).await.unwrap().unwrap();
    let decided = written(&store, following(&record, EpochMs(2), vec![decision_signed()])).await;
    let failure = following(&decided, EpochMs(3), vec![failed()]);
    written(&store, following(&decided, EpochMs(3), vec![note(1)])).await;
    assert_eq!(store.commit(failure).await.unwrap(), Committed::Conflict);
    assert_eq!(folder.n_rows("spending").await, 1, "a conflicting failure voids nothing");
}

#[tokio::test]
async fn refusal_is_stored_in_searchable_columns() {
    let folder = Folder::new();
    let store = folder.open().await;
    store.decision_record(decision(1, Moment::Submit)).await.unwrap();
    let sql = "SELECT at_ms, tenant, operation_id, outcome ->> 'decision', submitter ->> 'client_id' FROM policy_decisions";
    let row: (i64, String, Vec<u8>, String, String) =
        sqlx::query_as(sql).fetch_one(&mut folder.connection().await).await.unwrap();
    assert_eq!(row, (7, "default".into(), vec![1; 32], "DENY".into(), "desk".into()));
}

fn assert_names(error: &Unavailable, name: impl std::fmt::Display) {
    assert_eq!(error.dependency, Dependency::Store);
    assert!(error.detail.contains(&name.to_string()), "{error}");
    for word in ["SELECT", "INSERT", "operations", "sqlite"] {
        assert!(!error.detail.contains(word), "{error}");
    }
}

#[tokio::test]
async fn closed_store_is_unavailable() {
    let folder = Folder::new();
    let store = folder.open().await;
    store.close().await;
    assert_names(&store.commit(opening_payment(1)).await.unwrap_err(), id(1));
    let ReadError::Unavailable(why) = store.operation_load(id(1)).await.unwrap_err() else { panic!() };
    assert_names(&why, id(1));
    assert_names(&store.ping().await.unwrap_err(), "database");
}

/// The steps of SQLite's plan for a query.
async fn plan(folder: &Folder, sql: &str) -> Vec<String> {
    let sql = format!("EXPLAIN QUERY PLAN {sql}");
    let rows: Vec<(i64, i64, i64, String)> =
        sqlx::query_as(AssertSqlSafe(sql)).fetch_all(&mut folder.connection().await).await.unwrap();
    rows.into_iter().map(|row| row.3).collect()
}

#[tokio::test]
async fn queries_for_work_use_their_indexes() {
    let folder = Folder::new();
    let store = folder.open().await;
    for (sql, index) in [
        (crate::store::read::PENDING, "operations_awaiting_approvals"),
        (crate::store::read::ADMITTED, "operations_awaiting_execution"),
        (crate::store::read::POSTPONED, "operations_postponed"),
    ] {
        let plan = plan(&folder, sql).await;
        assert!(plan.len() == 1 && plan[0].contains(index), "{plan:?}");
    }
    let owing = plan(&folder, STATEMENTS.owing).await;
    let searches = owing.iter().filter(|step| step.starts_with("SEARCH"));
    let is_indexed =
        |step: &&String| step.contains("COVERING INDEX operations_owing") || step.contains("rowid=?");
    assert_eq!((searches.clone().count(), searches.filter(is_indexed).count()), (4, 4), "{owing:#?}");
    assert!(owing.iter().all(|step| !step.starts_with("SCAN") || step == "SCAN tenants"), "{owing:#?}");
    drop(store);
}

#[tokio::test]
async fn queries_use_their_indexes() {
    let folder = Folder::new();
    let store = folder.open().await;
    let spent = plan(&folder, gateway_spending::TOTALS).await;
    let key = "PRIMARY KEY (tenant=? AND currency=? AND party=? AND name=? AND minute";
    for uses in [format!("SEARCH s USING {key}=?)"), format!("SEARCH t USING {key}<?)")] {
        assert!(spent.contains(&uses), "{uses}: {spent:#?}");
    }
    let paid = plan(&folder, crate::store::read::PAID_TO).await;
    assert!(paid.len() == 1 && paid[0].contains("COVERING INDEX paid_to_recipient"), "{paid:?}");
    let of_kind = lists::of_kind(&STATEMENTS);
    let operations = [
        ("TRUE", "operations_listed (tenant=? AND family=? AND created_at_ms>? AND created_at_ms<?)"),
        (
            "awaits_approvals = 1",
            "operations_undecided (tenant=? AND family=? AND created_at_ms>? AND created_at_ms<?)",
        ),
        (
            "state = $7",
            "operations_in_state (tenant=? AND family=? AND state=? AND created_at_ms>? AND created_at_ms<?)",
        ),
        (&of_kind, "operations_of_kind (tenant=? AND <expr>=? AND created_at_ms>? AND created_at_ms<?)"),
        ("key_id = $9", "operations_on_key (key_id=? AND family=? AND created_at_ms>? AND created_at_ms<?)"),
        ("operation_id = $10", "sqlite_autoindex_operations_1 (operation_id=?)"),
    ];
    let keys = [
        ("TRUE", "custody_keys_listed (tenant=? AND <expr>>? AND <expr><?)"),
        ("key_ref = $7", "sqlite_autoindex_custody_keys_2 (tenant=? AND key_ref=?)"),
    ];
    let operations = operations.map(|(which, search)| (lists::of_operations(&STATEMENTS, which), search));
    let keys = keys.map(|(which, search)| (lists::of_keys(&STATEMENTS, which), search));
    for (sql, search) in operations.iter().chain(&keys) {
        let plan = plan(&folder, sql).await;
        assert!(plan[0].ends_with(*search), "{plan:?}");
        assert!(plan.len() == 1 || search.starts_with("sqlite_"), "sorted: {plan:?}");
    }
    let quorums = plan(&folder, &crate::store::read::key_quorums(&STATEMENTS)).await;
    let of_keys: Vec<_> = quorums.iter().filter(|step| step.contains("custody_keys")).collect();
    assert_eq!(
        of_keys,
        ["SEARCH custody_keys USING COVERING INDEX custody_keys_quorum (<expr>>?)"],
        "{quorums:?}"
    );
    let nodes = plan(&folder, STATEMENTS.log_nodes).await;
    for search in [
        "SEARCH ledger_nodes USING PRIMARY KEY (level=? AND position=?)",
        "SEARCH events USING INTEGER PRIMARY KEY (rowid=?)",
        "SEARCH policy_activations USING INDEX sqlite_autoindex_policy_activations_1 (ledger_index=?)",
    ] {
        assert!(nodes.iter().any(|step| step == search), "{nodes:?}");
    }
    let changes = plan(&folder, STATEMENTS.changes).await;
    for index in ["events_changing_key", "events_making_successor"] {
        let search = format!("SEARCH events USING INDEX {index}");
        assert!(changes.iter().any(|step| step.contains(&search)), "{changes:?}");
    }
    for plan in [nodes, changes] {
        let scans = |step: &String| step.starts_with("SCAN events") || step.starts_with("SCAN operations");
        assert!(!plan.iter().any(scans), "{plan:?}");
    }
    drop(store);
}

#[tokio::test]
async fn quorums_are_listed_only_for_keys_in_states_that_sign() {
    let folder = Folder::new();
    let store = folder.open().await;
    written(&store, on_key(opening(submission(1, key_create()), EpochMs(1)), None)).await;
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
async fn open_error_does_not_reveal_the_password() {
    let refused = Store::open("postgres://user:secret@host/db").await;
    assert!(!refused.unwrap_err().to_string().contains("secret"));
}

#[tokio::test]
async fn rows_of_full_quotas_are_deleted() {
    let folder = Folder::new();
    let store = folder.open().await;
    let submit = async |n: u16, client: &str, now_us| {
        let answer = store.commit_with_token(nth(n), token(client, now_us)).await.unwrap();
        assert!(matches!(answer, RateLimited::Written { .. }), "{answer:?}");
    };
    for n in 0..50 {
        submit(n, &format!("client-{n}"), 1_000_000).await;
    }
    assert_eq!(folder.n_rows("admission_budgets").await, 50);
    // All of them are full again after 100 ms. Each submission deletes more rows than it adds.
    for n in 50..100 {
        submit(n, &format!("later-{n}"), u64::from(n) * 1_000_000).await;
    }
    assert_eq!(folder.n_rows("admission_budgets").await, 1);
    // A refusal deletes full quotas too.
    let answer =
        store.decision_record_with_token(decision(1, Moment::Submit), token("last", 200_000_000)).await;
    assert!(matches!(answer, Ok(RateLimited::Written { .. })));
    assert_eq!(folder.n_rows("admission_budgets").await, 1);
    store.close().await;
}
