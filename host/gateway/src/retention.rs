//! Deletes rows that no decision needs any more, and measures what grows, while the gateway serves.

use crate::settings::Settings;
use gateway_domain::time::EpochMs;
use gateway_engine::Engine;
use gateway_service::rounds::Rounds;
use gateway_service::telemetry::Descriptions;
use gateway_store::{Expiring, ROWS_PER_TRANSACTION_MAX, Store};
use metrics::{counter, gauge};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

/// The counter of this file with its description.
pub(crate) const COUNTERS: Descriptions =
    &[(DELETED, "Old rows that this process deleted from the store, by table")];

/// The gauges of this file with their descriptions.
pub(crate) const GAUGES: Descriptions = &[
    (ROWS, "Rows of numbered tables of the store, by table"),
    (OLDEST_SPENDING, "Age of the oldest payment that is kept for limits over time; 0 without one"),
    (BYTES, "Size of the database in bytes"),
];

const DELETED: &str = "operation_gateway_store_rows_deleted_total";
const ROWS: &str = "operation_gateway_store_rows";
const OLDEST_SPENDING: &str = "operation_gateway_store_oldest_spending_seconds";
const BYTES: &str = "operation_gateway_store_database_bytes";

/// Interval between two rounds.
const RUN_EVERY: Duration = Duration::from_secs(60);

/// How long rows are kept.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Retention {
    spending: Duration,
    /// `None`: forever.
    refusals: Option<Duration>,
}

impl Retention {
    pub(crate) const fn of(settings: &Settings) -> Self {
        let operations = &settings.operations;
        Self { spending: operations.spending_kept, refusals: operations.refusals_kept }
    }

    const fn kept(&self, table: Expiring) -> Option<Duration> {
        match table {
            Expiring::Spending => Some(self.spending),
            Expiring::Refusals => self.refusals,
        }
    }
}

/// Runs until the gateway stops. What fails is tried again in the next round: readiness reports the store. While nothing may be written,
/// nothing is deleted either.
pub(crate) async fn run(
    store: Arc<Store>,
    engine: Engine,
    retention: Retention,
    now: fn() -> EpochMs,
    stopping: watch::Receiver<bool>,
) {
    let mut rounds = Rounds::every(RUN_EVERY, stopping.clone());
    while rounds.next().await.is_some() {
        for table in Expiring::ALL.into_iter().filter(|_| engine.may_write()) {
            drop_rows(&store, table, retention.kept(table), now(), &stopping).await;
        }
        measure(&store, now()).await;
    }
}

/// Deletes the rows of a table that are older than `kept`.
async fn drop_rows(
    store: &Store,
    table: Expiring,
    kept: Option<Duration>,
    now: EpochMs,
    stopping: &watch::Receiver<bool>,
) {
    let deleted = counter!(DELETED, "table" => table.table());
    deleted.increment(0);
    let Some(kept_ms) = kept.and_then(|kept| u64::try_from(kept.as_millis()).ok()) else { return };
    let before = EpochMs(now.0.saturating_sub(kept_ms));
    while !*stopping.borrow() {
        match store.drop_rows(table, before).await {
            Ok(n_rows) => {
                deleted.increment(n_rows);
                if n_rows < ROWS_PER_TRANSACTION_MAX {
                    return;
                }
            }
            Err(error) => {
                tracing::warn!(table = table.table(), error = %error.detail, "old rows could not be deleted");
                return;
            }
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "a gauge is a float; 2^53 bytes are far away")]
async fn measure(store: &Store, now: EpochMs) {
    let Ok(size) = store.size().await else { return };
    gauge!(ROWS, "table" => "policy_decisions").set(size.n_refusals as f64);
    gauge!(ROWS, "table" => "policy_previews").set(size.n_previews as f64);
    let age_ms = size.oldest_spending.map_or(0, |oldest| now.0.saturating_sub(oldest.0));
    gauge!(OLDEST_SPENDING).set(Duration::from_millis(age_ms).as_secs_f64());
    gauge!(BYTES).set(size.database_bytes as f64);
}
