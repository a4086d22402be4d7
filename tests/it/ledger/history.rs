//! A gateway's database with rows in every table.

use crate::harness::bundles::{key as signer, release};
use crate::harness::custody::{self, create_key, key, key_path, refresh, rotate};
use crate::harness::process::SIGN;
use crate::harness::samples::{admit, approval, path, payment, publish, submit, with};
use crate::harness::world::World;
use gateway_domain::ids::{Hex32, OperationId};
use gateway_domain::intent::{self, Family};
use gateway_domain::operation::{Change, Event, replay};
use gateway_domain::testing::samples::chained;
use gateway_domain::time::{DAY_MS, EpochMs};
use gateway_engine::ports::{
    Activated, Activation, ActivationKind, Commit, CommitOperations, Committed, ReadOperations,
    StorePolicies, StoredBundle,
};
use gateway_store::Expiring;
use serde_json::json;
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, SqliteConnection};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// One permitted recipient, so that others are refused; two previews kept; quotas, so that their table has rows.
const RULES: [(&str, &str); 4] = [
    ("permitted_recipients", "acct-supplier-0042"),
    ("preview_records_max", "2"),
    ("admission_rate", "1"),
    ("admission_burst", "1000"),
];

pub(crate) struct History {
    pub(crate) world: World,
    /// The bytes of the database.
    undamaged: Vec<u8>,
}

impl History {
    /// Writes payments in several states, key creations and changes, refusals, previews, bundle activations and a write
    /// probe, and closes the store.
    pub(crate) async fn written() -> Self {
        let world = World::ticking_with(&RULES).await;
        write_payments(&world).await;
        write_keys(&world).await;
        write_policy_records(&world).await;
        world.store.close().await;
        let mut history = Self { world, undamaged: Vec::new() };
        // Every page is in use and the write-ahead log is empty, so a copy of the file is the whole database.
        let mut conn = open(&history.database()).await;
        sqlx::raw_sql("PRAGMA journal_mode = DELETE; VACUUM").execute(&mut conn).await.unwrap();
        conn.close().await.unwrap();
        history.undamaged = std::fs::read(history.database()).unwrap();
        history
    }

    /// Restores the database, and then damages it with these statements.
    pub(super) async fn damage(&self, sql: &str) {
        std::fs::write(self.database(), &self.undamaged).unwrap();
        run_sql(&self.database(), sql).await;
    }

    pub(super) fn database(&self) -> PathBuf {
        self.world.folder().join("gateway.db")
    }
}

/// A connection that does not enforce foreign keys and CHECK constraints.
pub(crate) async fn open(path: &Path) -> SqliteConnection {
    let options = SqliteConnectOptions::new().filename(path).foreign_keys(false).disable_statement_logging();
    let mut conn = options.connect().await.unwrap();
    let free = "PRAGMA ignore_check_constraints = ON; PRAGMA synchronous = OFF";
    sqlx::raw_sql(free).execute(&mut conn).await.unwrap();
    conn
}

/// Runs statements without foreign keys and CHECK constraints, as another program could.
pub(crate) async fn run_sql(path: &Path, sql: impl Into<String>) {
    let mut conn = open(path).await;
    sqlx::raw_sql(AssertSqlSafe(sql.into())).execute(&mut conn).await.unwrap();
    conn.close().await.unwrap();
}

/// Copies a payment 33 days into the past, and deletes the row that it had for limits.
async fn write_old_payment(world: &World, copied: OperationId) {
    let events = world.store.operation_events(copied).await.unwrap().into_iter().map(|chained| chained.event);
    let mut events: Vec<Event> =
        events.map(|event| Event { at_ms: EpochMs(event.at_ms.0 - 33 * DAY_MS), ..event }).collect();
    let Change::Submitted(submission) = &mut events[0].change else { panic!("no submission") };
    let claim = "old".to_owned();
    submission.operation_id =
        intent::operation_id(&submission.tenant, Family::Product, None, &claim).unwrap();
    let (operation, keys) = (Arc::new(replay(&events).unwrap()), Vec::new());
    let (previous_record_root, claim) = (Hex32::ZERO, Some(claim));
    let events = chained(previous_record_root, events);
    let commit = Commit { operation, events, previous_record_root, keys, claim, spending: None };
    assert!(matches!(world.store.commit(commit).await.unwrap(), Committed::Written(_)));
    // The newest event of the log is from now, again.
    submit(world, &payment("newest")).await;
    assert_eq!(world.store.drop_rows(Expiring::Spending, EpochMs(u64::MAX)).await, Ok(1));
}

async fn write_payments(world: &World) {
    let paid = publish(world, &payment("paid")).await;
    world.post(&path(&paid, "/approve"), &approval("late")).await.ok();
    let other_body = with(payment("paid"), "/payment/amount_minor", json!(1));
    world.post(SIGN, &other_body).await.ok();
    let unknown = json!({ "effect_id": "unknown", "result_root": "1".repeat(64) });
    world.post(&path(&paid, "/node-recovery"), &unknown).await.ok();
    let failing = admit(world, &payment("failed")).await;
    world.faults.set_rejecting(true);
    world.post_nothing(&path(&failing, "/execute")).await.fails(409, "operation_failed");
    world.faults.set_rejecting(false);
    submit(world, &payment("waiting")).await;
    write_old_payment(world, OperationId(paid["operation_id"].as_str().unwrap().parse().unwrap())).await;
}

async fn write_keys(world: &World) {
    create_key(world, "vault").await;
    custody::execute(world, &key_path("vault", "/refresh"), &refresh("2")).await;
    let failing = custody::admit(world, &key_path("vault", "/rotate"), &rotate("vault-2")).await;
    world.faults.set_rejecting(true);
    world.post_nothing(&custody::path(&failing, "/execute")).await.fails(409, "operation_failed");
    world.faults.set_rejecting(false);
    let again = with(rotate("vault-2"), "/idempotency_key", json!("again"));
    custody::execute(world, &key_path("vault", "/rotate"), &again).await;
    // Left in execution, so that its key is busy.
    let stalled = custody::admit(world, &key_path("vault-2", "/refresh"), &refresh("r-2")).await;
    world.faults.set_unavailable(true);
    world.post_nothing(&custody::path(&stalled, "/execute")).await.fails(503, "runtime_unavailable");
    world.faults.set_unavailable(false);
    world.post("/v1/custody/keys", &key("pending")).await.ok();
}

async fn write_policy_records(world: &World) {
    for idempotency_key in ["refused-0", "refused-1", "refused-2"] {
        let refused = with(payment(idempotency_key), "/payment/to_account", json!("acct-else"));
        world.post(SIGN, &refused).await.fails(403, "policy_rejected");
        if idempotency_key == "refused-0" {
            assert_eq!(world.store.drop_rows(Expiring::Refusals, EpochMs(u64::MAX)).await, Ok(1));
        }
    }
    for n in 0..4 {
        let preview = json!({ "intent": payment(&format!("preview-{n}")) });
        world.post("/v1/policy/preview", &preview).await.ok();
    }
    for (sequence, kind) in [(1_000_001, ActivationKind::Activate), (1_000_002, ActivationKind::Rollback)] {
        let files = release(1_000_001, &signer(1));
        let bundle = StoredBundle {
            bundle_hash: files.bundle_hash().unwrap(),
            bundle_id: "payment-guard".into(),
            files: files.iter().map(|(name, bytes)| (name.to_owned(), bytes.to_owned())).collect(),
        };
        let activation = Activation {
            at_ms: EpochMs(sequence),
            sequence,
            bundle_hash: bundle.bundle_hash,
            kind,
            signers: vec!["alice".into(), "bob".into()],
            reason: "a test".into(),
        };
        let recorded = world.store.activation_append(activation, bundle).await.unwrap();
        assert_eq!(recorded, Activated::Recorded);
    }
    world.get("/readyz").await.ok();
}
