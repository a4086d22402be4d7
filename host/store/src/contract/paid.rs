//! Published payments, by key and recipient.

use super::Deployment;
use super::samples::{following, golden, id, opening, submission, written};
use crate::Store;
use gateway_domain::ids::{Hex32, KeyId};
use gateway_domain::intent::{Intent, Payment};
use gateway_domain::operation::Change;
use gateway_domain::testing::samples::hex32;
use gateway_domain::time::EpochMs;
use gateway_engine::ports::{ReadOperations, Record};

const KEY: KeyId = KeyId(Hex32::new([5; 32]));

/// The golden history's first change for which this holds.
fn change(is_it: fn(&Change) -> bool) -> Change {
    golden().events.into_iter().map(|chained| chained.event.change).find(is_it).unwrap()
}

/// A payment from this key, whose signature exists.
async fn executed(store: &Store, byte: u8, key_id: KeyId, recipient: &str, not_before_ms: u64) -> Record {
    let Intent::Payment(payment) = super::samples::payment() else { panic!("the sample is a payment") };
    let payment = Payment { to_account: recipient.into(), ..payment };
    let mut submission = submission(byte, Intent::Payment(payment));
    submission.key.key_id = key_id;
    let record = written(store, opening(submission, EpochMs(1))).await;
    let mut decided = super::samples::decision_signed();
    if let Change::DecisionSigned { admission, .. } = &mut decided {
        admission.decision.not_before_ms = EpochMs(not_before_ms);
    }
    let executed = change(|it| matches!(it, Change::Executed { signature: Some(_), .. }));
    written(store, following(&record, EpochMs(2), vec![decided, executed])).await
}

async fn publish(store: &Store, record: &Record) -> Record {
    let published = change(|it| matches!(it, Change::Published { .. }));
    written(store, following(record, EpochMs(3), vec![published])).await
}

async fn n_proved(store: &Store, key_id: KeyId, recipient: &str, n_max: usize) -> usize {
    store.payments_to(key_id, recipient, n_max).await.unwrap().len()
}

pub(crate) async fn payment_is_proved_from_its_publication_on(deployment: &impl Deployment) {
    let store = deployment.open().await;
    let record = executed(&store, 1, KEY, "x", 30).await;
    assert_eq!(n_proved(&store, KEY, "x", 4).await, 0, "its signature is disclosed to no one");
    let record = publish(&store, &record).await;
    let proofs = store.payments_to(KEY, "x", 4).await.unwrap();
    assert_eq!(proofs, [record.operation.paid_proof().unwrap()]);
    for (key_id, recipient) in [(KEY, "y"), (KEY, "X"), (KeyId(hex32(6)), "x")] {
        assert_eq!(n_proved(&store, key_id, recipient, 4).await, 0, "{recipient}");
    }
    store.close().await;
    let store = deployment.open().await;
    assert_eq!(n_proved(&store, KEY, "x", 4).await, 1);
}

pub(crate) async fn oldest_payments_come_first(deployment: &impl Deployment) {
    let store = deployment.open().await;
    for (byte, not_before_ms) in [(1, 30), (2, 10), (3, 20)] {
        let record = executed(&store, byte, KEY, "x", not_before_ms).await;
        publish(&store, &record).await;
    }
    let rows = store.payments_to(KEY, "x", 2).await.unwrap();
    let expected = [2, 3].map(id);
    let mut proofs = Vec::new();
    for id in expected {
        let record = store.operation_load(id).await.unwrap().unwrap();
        proofs.push(record.operation.paid_proof().unwrap());
    }
    assert_eq!(rows, proofs);
}

pub(crate) async fn altered_row_of_a_paid_recipient_is_found(deployment: &impl Deployment) {
    let store = deployment.open().await;
    let first = executed(&store, 1, KEY, "x", 30).await;
    publish(&store, &first).await;
    executed(&store, 2, KEY, "x", 30).await;
    store.close().await;
    for (sql, what) in [
        ("UPDATE paid SET recipient = 'y'", "recipient"),
        ("UPDATE paid SET recipient = 'x', at_ms = 29", "at_ms"),
        (
            "UPDATE paid SET at_ms = 30, operation_id = (SELECT operation_id FROM operations ORDER BY operation_id DESC LIMIT 1)",
            "publish",
        ),
        ("DELETE FROM paid", "missing: its events publish a payment"),
    ] {
        deployment.tamper(sql).await;
        let (mut fsck, mut findings) = (deployment.fsck().await, Vec::new());
        fsck.check(&mut |finding| findings.push(finding)).await.unwrap();
        fsck.close().await;
        let found = |finding: &crate::Finding| finding.table == "paid" && finding.what.contains(what);
        assert!(findings.iter().any(found), "{sql}: {findings:?}");
    }
}
