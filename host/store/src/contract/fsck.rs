//! Checks more rows than one page has. `tests/it/ledger` tests the findings in altered rows.

use crate::Head;
use crate::contract::Deployment;
use crate::contract::samples::{
    decision, decision_signed, following, key_create, note, on_key, opening, payment, preview, submission,
    written,
};
use gateway_domain::ids::{Hex32, KeyRef};
use gateway_domain::intent::{self, Family, Intent};
use gateway_domain::operation::KeySlot;
use gateway_domain::policy::Moment;
use gateway_domain::time::EpochMs;
use gateway_engine::ports::{Commit, CommitOperations};

const N_OPERATIONS: u64 = 2 * crate::fsck::PAGE.unsigned_abs() + 7;

/// The n-th operation, with the id that its claim determines.
fn nth(n: u64, intent: Intent) -> Commit {
    let (claim, key_ref) = (format!("claim-{n}"), KeyRef(format!("key-{n}")));
    let family = intent.family();
    let mut submission = submission(0, intent);
    submission.key = KeySlot { key_id: intent::key_id(&submission.tenant, &key_ref).unwrap(), key_ref };
    let key_ref = (family == Family::Custody).then_some(&submission.key.key_ref);
    submission.operation_id = intent::operation_id(&submission.tenant, family, key_ref, &claim).unwrap();
    Commit { claim: Some(claim), ..opening(submission, EpochMs(n)) }
}

pub(crate) async fn store_larger_than_a_page_has_no_findings(deployment: &impl Deployment) {
    let store = deployment.open().await;
    let (mut root, mut n_events) = (Hex32::ZERO, 0);
    for n in 0..N_OPERATIONS {
        let key = written(&store, on_key(nth(n, key_create()), None)).await;
        let payment = written(&store, nth(N_OPERATIONS + n, payment())).await;
        written(&store, following(&key, EpochMs(n), vec![note(1)])).await;
        root = written(&store, following(&payment, EpochMs(n), vec![decision_signed(), note(1)]))
            .await
            .ledger_root;
        n_events += 2 + 2 + 1 + 2;
        store.decision_record(decision(7, Moment::Submit)).await.unwrap();
        store.preview_record(preview(EpochMs(n)), u32::MAX).await.unwrap();
    }
    let mut fsck = deployment.fsck().await;
    let mut findings = Vec::new();
    let checked = fsck.check(&mut |finding| findings.push(finding)).await.unwrap();
    assert_eq!(findings, []);
    assert_eq!(checked.head, Some(Head { n_leaves: n_events, root }));
    let counted =
        (checked.n_events, checked.n_operations, checked.n_keys, checked.n_decisions, checked.n_previews);
    assert_eq!(counted, (n_events, 2 * N_OPERATIONS, N_OPERATIONS, N_OPERATIONS, N_OPERATIONS));
}
