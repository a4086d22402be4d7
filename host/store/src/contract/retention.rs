//! Rows that no decision needs are deleted, and the check tells them from missing ones.

use super::Deployment;
use super::samples::{
    decision, decision_signed, failed, following, opening, payment, preview, submission, written,
};
use crate::{Expiring, Finding, ROWS_PER_TRANSACTION_MAX, Size, Store};
use gateway_domain::policy::Moment;
use gateway_domain::policy::spending::{HOUR_MS, KEPT_MS, MINUTE_MS};
use gateway_domain::time::{DAY_MS, EpochMs};
use gateway_engine::ports::{CommitOperations, DecisionRecord, Record};

/// The time of the first payment.
const AT: u64 = 60 * DAY_MS;

/// What the check finds, without the claims: samples have invented ids.
async fn findings(deployment: &impl Deployment) -> Vec<Finding> {
    let (mut fsck, mut findings) = (deployment.fsck().await, Vec::new());
    fsck.check(&mut |finding| findings.push(finding)).await.unwrap();
    fsck.close().await;
    findings.retain(|finding| finding.table != "idempotency_claims");
    findings
}

/// A payment that is decided at `at`.
async fn decided(store: &Store, byte: u8, at: u64) -> Record {
    let record = written(store, opening(submission(byte, payment()), EpochMs(1))).await;
    written(store, following(&record, EpochMs(at), vec![decision_signed()])).await
}

async fn dropped(store: &Store, table: Expiring, before: u64) -> u64 {
    store.drop_rows(table, EpochMs(before)).await.unwrap()
}

async fn oldest_spending(store: &Store) -> Option<u64> {
    store.size().await.unwrap().oldest_spending.map(|at| at.0)
}

/// Three payments, of which the row of the first is deleted.
async fn with_dropped_spending(deployment: &impl Deployment) -> [Record; 3] {
    let store = deployment.open().await;
    let records = [
        decided(&store, 1, AT).await,
        decided(&store, 2, AT + DAY_MS).await,
        decided(&store, 3, AT + 3 * KEPT_MS).await,
    ];
    assert_eq!(dropped(&store, Expiring::Spending, AT).await, 0);
    assert_eq!(dropped(&store, Expiring::Spending, AT + MINUTE_MS).await, 1);
    assert_eq!(oldest_spending(&store).await, Some(AT + DAY_MS));
    store.close().await;
    records
}

pub(crate) async fn payment_without_a_row_is_told_from_a_missing_one(deployment: &impl Deployment) {
    with_dropped_spending(deployment).await;
    assert_eq!(findings(deployment).await, []);
    for (damage, named) in [
        // The row of another payment is deleted.
        (
            format!("DELETE FROM spending WHERE at_ms = {}", AT + DAY_MS),
            "missing: its events spend an amount",
        ),
        // The watermark hides a payment that limits need, or names a time at which none was decided.
        (
            format!("DELETE FROM spending; UPDATE rows_dropped SET through = {}", AT + 3 * KEPT_MS),
            "limits may need payments",
        ),
        (
            "UPDATE rows_dropped SET through = through + 60000".to_owned(),
            "no payment without a row was decided then",
        ),
        (
            "UPDATE rows_dropped SET through = through - 60000".to_owned(),
            "missing: its events spend an amount",
        ),
        ("DELETE FROM rows_dropped".to_owned(), "missing: its events spend an amount"),
        (
            "UPDATE rows_dropped SET name = 'policy_decisions'".to_owned(),
            "missing: its events spend an amount",
        ),
    ] {
        let rows = [
            "CREATE TABLE copied AS SELECT * FROM spending",
            "CREATE TABLE marks AS SELECT * FROM rows_dropped",
        ];
        for sql in rows {
            deployment.tamper(sql).await;
        }
        for statement in damage.split("; ") {
            deployment.tamper(statement).await;
        }
        let found = findings(deployment).await;
        assert!(found.iter().any(|finding| finding.to_string().contains(named)), "{damage}: {found:?}");
        for sql in [
            "DELETE FROM spending",
            "DELETE FROM rows_dropped",
            "INSERT INTO spending SELECT * FROM copied",
            "INSERT INTO rows_dropped SELECT * FROM marks",
            "DROP TABLE copied",
            "DROP TABLE marks",
        ] {
            deployment.tamper(sql).await;
        }
        assert_eq!(findings(deployment).await, [], "after {damage}");
    }
}

pub(crate) async fn rows_that_a_limit_may_need_stay(deployment: &impl Deployment) {
    let store = deployment.open().await;
    // An empty store has no rows to delete.
    assert_eq!(dropped(&store, Expiring::Spending, u64::MAX).await, 0);
    decided(&store, 1, AT).await;
    assert_eq!(dropped(&store, Expiring::Spending, u64::MAX).await, 0, "it is the newest event");
    decided(&store, 2, AT + KEPT_MS + HOUR_MS).await;
    assert_eq!(dropped(&store, Expiring::Spending, u64::MAX).await, 0);
    // A wrong clock of the process that deletes changes nothing.
    decided(&store, 3, AT + KEPT_MS + HOUR_MS + MINUTE_MS).await;
    assert_eq!(dropped(&store, Expiring::Spending, u64::MAX).await, 1);
    assert_eq!(oldest_spending(&store).await, Some(AT + KEPT_MS + HOUR_MS));
    assert_eq!(findings(deployment).await, []);
}

pub(crate) async fn payment_may_fail_after_its_row_was_deleted(deployment: &impl Deployment) {
    let [first, ..] = with_dropped_spending(deployment).await;
    let store = deployment.open().await;
    written(&store, following(&first, EpochMs(AT + 4 * KEPT_MS), vec![failed()])).await;
    assert_eq!(findings(deployment).await, []);
    // Decided after the clock was set back: the row counts, and is deleted in its turn.
    decided(&store, 4, AT - DAY_MS).await;
    decided(&store, 5, AT + 5 * KEPT_MS).await;
    assert_eq!(findings(deployment).await, []);
    assert_eq!(dropped(&store, Expiring::Spending, AT + DAY_MS + MINUTE_MS).await, 2);
    assert_eq!(findings(deployment).await, []);
}

pub(crate) async fn old_refusals_are_deleted_in_small_transactions(deployment: &impl Deployment) {
    let store = deployment.open().await;
    let n_old = ROWS_PER_TRANSACTION_MAX + 5;
    let refusal = |at| DecisionRecord { at_ms: EpochMs(at), ..decision(7, Moment::Submit) };
    let mut clients = tokio::task::JoinSet::new();
    for _ in 0..n_old {
        let store = store.clone();
        clients.spawn(async move { store.decision_record(refusal(5)).await });
    }
    assert!(clients.join_all().await.iter().all(Result::is_ok));
    // Older than the one before it: the clock was set back. It is deleted after that one.
    for at in [9, 5] {
        store.decision_record(refusal(at)).await.unwrap();
    }
    for n_dropped in [ROWS_PER_TRANSACTION_MAX, 5, 0] {
        assert_eq!(dropped(&store, Expiring::Refusals, 6).await, n_dropped);
        assert_eq!(findings(deployment).await, []);
    }
    assert_eq!(store.size().await.unwrap().n_refusals, 2);
    assert_eq!(dropped(&store, Expiring::Refusals, 10).await, 2);
    // Indexes are not reused, even after a restart.
    store.close().await;
    let store = deployment.open().await;
    store.decision_record(refusal(11)).await.unwrap();
    let decisions = deployment.decisions().await;
    let last = n_old + 3;
    assert!(decisions.refusal(last).await.unwrap().is_some());
    assert!(decisions.refusal(last - 1).await.unwrap().is_none());
    assert_eq!(findings(deployment).await, []);
    for (damage, named) in [
        (format!("UPDATE rows_dropped SET through = {last}"), "were deleted"),
        (format!("UPDATE rows_dropped SET through = {}", last - 2), "missing"),
        (format!("UPDATE rows_dropped SET through = {}", last + 1), "counts only to"),
    ] {
        deployment.tamper(&damage).await;
        let found = findings(deployment).await;
        assert!(found.iter().any(|finding| finding.to_string().contains(named)), "{damage}: {found:?}");
    }
}

pub(crate) async fn size_counts_rows_without_those_that_were_deleted(deployment: &impl Deployment) {
    let store = deployment.open().await;
    let Size { database_bytes, n_refusals, n_previews, oldest_spending } = store.size().await.unwrap();
    assert_eq!((n_refusals, n_previews, oldest_spending), (0, 0, None));
    for at in 0..4 {
        store
            .decision_record(DecisionRecord { at_ms: EpochMs(at), ..decision(7, Moment::Submit) })
            .await
            .unwrap();
        store.preview_record(preview(EpochMs(at)), 3).await.unwrap();
    }
    for byte in 1..60 {
        decided(&store, byte, AT + u64::from(byte)).await;
    }
    dropped(&store, Expiring::Refusals, 2).await;
    let size = store.size().await.unwrap();
    assert_eq!((size.n_refusals, size.n_previews, size.oldest_spending), (2, 3, Some(EpochMs(AT + 1))));
    assert!(size.database_bytes > database_bytes && database_bytes > 10_000, "{size:?}");
}
