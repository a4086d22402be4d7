//! Gauges of the store, read at intervals while the gateway serves.

use gateway_domain::time::EpochMs;
use gateway_engine::ports::ReadLog as _;
use gateway_service::rounds::Rounds;
use gateway_service::telemetry::Descriptions;
use gateway_store::{Store, Unfinished};
use metrics::{counter, gauge};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

/// The counters of this file with their descriptions.
pub(crate) const COUNTERS: Descriptions = &[
    (JOBS, "Changes written to the store; divided by the transactions, the size of a batch"),
    (TRANSACTIONS, "Transactions committed by the store"),
    (ROLLBACKS, "Transactions rolled back by the store"),
];

/// The gauges of this file with their descriptions.
pub(crate) const GAUGES: Descriptions = &[
    (UNFINISHED, "Operations that owe a step"),
    (
        OLDEST,
        "Time since the last change of the operation that owes a step and is unchanged for longest; 0 without one",
    ),
    (LOG_ENTRIES, "Entries of the log of all events"),
    (READERS, "Connections to a PostgreSQL server that read, by state: busy or idle"),
];

const JOBS: &str = "operation_gateway_store_jobs_total";
const TRANSACTIONS: &str = "operation_gateway_store_transactions_total";
const ROLLBACKS: &str = "operation_gateway_store_rollbacks_total";
const UNFINISHED: &str = "operation_gateway_unfinished_operations";
const OLDEST: &str = "operation_gateway_oldest_unfinished_operation_seconds";
const LOG_ENTRIES: &str = "operation_gateway_log_entries";
const READERS: &str = "operation_gateway_database_readers";

/// Interval between two readings.
const READ_EVERY: Duration = Duration::from_secs(5);

/// Reads the store until the gateway stops. Readings that fail leave the last values: readiness reports the store.
pub(crate) async fn watch(store: Arc<Store>, now: fn() -> EpochMs, stopping: watch::Receiver<bool>) {
    let mut rounds = Rounds::every(READ_EVERY, stopping);
    while rounds.next().await.is_some() {
        read(&store, now()).await;
    }
}

#[expect(clippy::cast_precision_loss, reason = "a gauge is a float; 2^53 entries are far away")]
async fn read(store: &Store, now: EpochMs) {
    let written = store.counters();
    counter!(JOBS).absolute(written.jobs);
    counter!(TRANSACTIONS).absolute(written.transactions);
    counter!(ROLLBACKS).absolute(written.rollbacks);
    if let Some((n_open, n_idle)) = store.readers() {
        gauge!(READERS, "state" => "busy").set(n_open - n_idle);
        gauge!(READERS, "state" => "idle").set(n_idle);
    }
    if let Ok(Unfinished { n_operations, unchanged_since }) = store.unfinished().await {
        let age_ms = unchanged_since.map_or(0, |since| now.0.saturating_sub(since.0));
        gauge!(UNFINISHED).set(n_operations as f64);
        gauge!(OLDEST).set(Duration::from_millis(age_ms).as_secs_f64());
    }
    if let Ok(head) = store.log_head().await {
        gauge!(LOG_ENTRIES).set(head.size as f64);
    }
}
