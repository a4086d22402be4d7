//! A store with rows in every table, written by the whole gateway.

use crate::harness::bundles::{key as signer, release};
use crate::harness::custody::{self, key, made, on_key, refresh, rotate};
use crate::harness::faulty::Faults;
use crate::harness::samples::{admitted, approval, path, payment, published, submitted, with};
use crate::harness::world::World;
use gateway_domain::time::EpochMs;
use gateway_engine::ports::{Activated, Activation, ActivationKind, StorePolicies, StoredBundle};
use serde_json::json;
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, SqliteConnection};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Refusals, previews of which the oldest are dropped, one permitted recipient, and quotas that refill slowly.
const RULES: [(&str, &str); 4] = [
    ("permitted_recipients", "acct-supplier-0042"),
    ("preview_records_max", "2"),
    ("admission_rate", "1"),
    ("admission_burst", "1000"),
];

pub(crate) struct History {
    pub(crate) world: World,
}

impl History {
    /// Payments published, failed, waiting and replayed; keys made, refreshed, rotated; a rotation that failed; refusals,
    /// previews, activations, a write probe.
    pub(crate) async fn written() -> Self {
        let faults = Arc::new(Faults::default());
        let world = World::with_faults(faults.clone(), &RULES).await;
        payments(&world, &faults).await;
        keys(&world, &faults).await;
        policies(&world).await;
        world.store.close().await;
        let history = Self { world };
        // Every page is in use and the write-ahead log is empty, so a copy of the file is the whole database.
        let mut conn = open(&history.database()).await;
        sqlx::raw_sql("PRAGMA journal_mode = DELETE; VACUUM").execute(&mut conn).await.unwrap();
        conn.close().await.unwrap();
        history
    }

    pub(super) fn database(&self) -> PathBuf {
        self.world.folder().join("gateway.db")
    }
}

/// A connection that enforces no foreign keys or checks, only uniqueness.
pub(crate) async fn open(path: &Path) -> SqliteConnection {
    let options = SqliteConnectOptions::new().filename(path).foreign_keys(false).disable_statement_logging();
    let mut conn = options.connect().await.unwrap();
    let free = "PRAGMA ignore_check_constraints = ON; PRAGMA synchronous = OFF";
    sqlx::raw_sql(free).execute(&mut conn).await.unwrap();
    conn
}

/// Runs statements on a database as another program would.
pub(crate) async fn execute(path: &Path, sql: impl Into<String>) {
    let mut conn = open(path).await;
    sqlx::raw_sql(AssertSqlSafe(sql.into())).execute(&mut conn).await.unwrap();
    conn.close().await.unwrap();
}

async fn payments(world: &World, faults: &Faults) {
    let paid = published(world, &payment("paid")).await;
    world.post(&path(&paid, "/approve"), &approval("late")).await.ok();
    let other_body = with(payment("paid"), "/payment/amount_minor", json!(1));
    world.post("/v1/operations/sign", &other_body).await.ok();
    let unknown = json!({ "effect_id": "nobody's", "result_root": "1".repeat(64) });
    world.post(&path(&paid, "/node-recovery"), &unknown).await.ok();
    let failing = admitted(world, &payment("failed")).await;
    faults.refusing.store(true, Ordering::SeqCst);
    world.post_nothing(&path(&failing, "/execute")).await.fails(409, "operation_failed");
    faults.refusing.store(false, Ordering::SeqCst);
    submitted(world, &payment("waiting")).await;
}

async fn keys(world: &World, faults: &Faults) {
    made(world, "vault").await;
    custody::executed(world, &on_key("vault", "/refresh"), &refresh("2")).await;
    let failing = custody::admitted(world, &on_key("vault", "/rotate"), &rotate("vault-2")).await;
    faults.refusing.store(true, Ordering::SeqCst);
    world.post_nothing(&custody::path(&failing, "/execute")).await.fails(409, "operation_failed");
    faults.refusing.store(false, Ordering::SeqCst);
    let again = with(rotate("vault-2"), "/idempotency_key", json!("again"));
    custody::executed(world, &on_key("vault", "/rotate"), &again).await;
    // Left in execution, so that its key is busy.
    let stalled = custody::admitted(world, &on_key("vault-2", "/refresh"), &refresh("r-2")).await;
    faults.stalled.store(true, Ordering::SeqCst);
    world.post_nothing(&custody::path(&stalled, "/execute")).await.fails(503, "runtime_unavailable");
    faults.stalled.store(false, Ordering::SeqCst);
    world.post("/v1/custody/keys", &key("pending")).await.ok();
}

async fn policies(world: &World) {
    for idempotency_key in ["refused-1", "refused-2"] {
        let refused = with(payment(idempotency_key), "/payment/to_account", json!("acct-else"));
        world.post("/v1/operations/sign", &refused).await.fails(403, "policy_rejected");
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
