//! Decision records: written through the ports, read with [`Decisions`].

use super::Deployment;
use super::samples::{
    decision, following, golden, hex32, id, note, opening_payment, payment, preview, submission, written,
};
use crate::{Cursor, DecisionPosition, Decisions, RecordedDecision};
use gateway_domain::ids::Hex32;
use gateway_domain::operation::{Change, Failure};
use gateway_domain::policy::{Moment, Outcome};
use gateway_domain::testing::samples::approval;
use gateway_domain::time::EpochMs;
use gateway_engine::ports::{CommitOperations, DecisionRecord, EventId, PreviewRecord};

/// All decisions after a cursor, read in pages of `n_max`.
async fn all(decisions: &Decisions, mut cursor: Cursor, n_max: usize) -> Vec<(RecordedDecision, Cursor)> {
    let mut found = Vec::new();
    loop {
        let page = decisions.page(cursor, n_max).await.unwrap();
        if page.is_empty() {
            return found;
        }
        assert!(page.len() <= n_max);
        for decision in page {
            cursor = cursor.after(&decision);
            found.push((decision, cursor));
        }
    }
}

fn positions(found: &[(RecordedDecision, Cursor)]) -> Vec<DecisionPosition> {
    found.iter().map(|(decision, _)| decision.position).collect()
}

pub(crate) async fn every_decision_is_found_once_with_its_input(deployment: &impl Deployment) {
    let store = deployment.open().await;
    written(&store, golden()).await;
    let record = written(&store, opening_payment(2)).await;
    let policy = submission(2, payment()).policy;
    let counted = |subject| Change::ApprovalRecorded {
        approval: approval(subject, EpochMs(2)),
        policy: policy.clone(),
    };
    let failure = Failure { code: "policy_rejected".into(), detail: String::new(), culprits: vec![] };
    let failed = Change::Failed { failure, policy: Some(policy.clone()), receipts: vec![] };
    let changes = vec![counted("alice"), note(1), counted("bob"), Change::QuorumReached, failed];
    written(&store, following(&record, EpochMs(9), changes)).await;
    let refusal = decision(3, Moment::Submit);
    // A submission may be refused more than once.
    for _ in 0..2 {
        store.decision_record(refusal.clone()).await.unwrap();
    }
    let previewed = preview(EpochMs(11));
    store.preview_record(previewed.clone(), 9).await.unwrap();

    // The gateway still has the database open.
    let decisions = deployment.decisions().await;
    let found = all(&decisions, Cursor::default(), 100).await;
    let of_payment: Vec<_> =
        found.iter().map(|(one, _)| one).filter(|one| one.operation_id == Some(id(2))).collect();
    let moments: Vec<_> =
        of_payment.iter().map(|one| (one.input.moment, one.input.approvals.len())).collect();
    use Moment::{Admission, Approval, Submit};
    assert_eq!(moments, [(Submit, 0), (Approval, 1), (Approval, 2), (Admission, 2)]);
    let seqs: Vec<_> = of_payment.iter().map(|one| one.position).collect();
    assert!(
        matches!(
            seqs[..],
            [DecisionPosition::Event { seq: 1, .. }, DecisionPosition::Event { seq: 3, .. }, ..]
        ),
        "{seqs:?}"
    );
    let of_operation = decisions.of_operation(id(2)).await.unwrap();
    assert_eq!(of_operation.iter().collect::<Vec<_>>(), of_payment);
    let DecisionRecord { at_ms, operation_id, input, outcome } = refusal;
    let position = DecisionPosition::Refusal(2);
    let kept = RecordedDecision {
        position,
        operation_id: Some(operation_id),
        at_ms,
        input,
        outcome,
        hash: found[positions(&found).iter().position(|at| *at == position).unwrap()].0.hash,
        is_intact: true,
    };
    assert_ne!(kept.hash, Hex32::ZERO);
    assert_eq!(decisions.refusal(2).await.unwrap().as_ref(), Some(&kept));
    let PreviewRecord { at_ms, input, outcome } = previewed;
    let position = DecisionPosition::Preview(1);
    let hash = found[positions(&found).iter().position(|at| *at == position).unwrap()].0.hash;
    let kept =
        RecordedDecision { position, operation_id: None, at_ms, input, outcome, hash, is_intact: true };
    assert_eq!(decisions.preview(1).await.unwrap().as_ref(), Some(&kept));
    assert_eq!(decisions.refusal(3).await.unwrap(), None);
    assert_eq!(decisions.of_operation(id(9)).await.unwrap(), []);

    let in_order = positions(&found);
    assert!(in_order.is_sorted() && in_order.windows(2).all(|pair| pair[0] != pair[1]), "{in_order:?}");
    // With any page size and from any cursor, each decision is found once.
    for n_max in [1, 2, 3] {
        assert_eq!(positions(&all(&decisions, Cursor::default(), n_max).await), in_order);
    }
    for (n_before, (_, cursor)) in found.iter().enumerate() {
        assert_eq!(positions(&all(&decisions, *cursor, 2).await), in_order[n_before + 1..]);
    }
    decisions.close().await;
}

/// As after the restoration of an older copy.
pub(crate) async fn cursor_of_another_history_is_unknown(deployment: &impl Deployment) {
    let store = deployment.open().await;
    for byte in [1, 2] {
        written(&store, super::samples::opening(submission(byte, payment()), EpochMs(1))).await;
        store.decision_record(decision(byte, Moment::Submit)).await.unwrap();
        store.preview_record(preview(EpochMs(byte.into())), 2).await.unwrap();
    }
    let decisions = deployment.decisions().await;
    let found = all(&decisions, Cursor::default(), 100).await;
    assert_eq!(decisions.unknown(Cursor::default()).await.unwrap(), None);
    for (_, cursor) in &found {
        assert_eq!(decisions.unknown(*cursor).await.unwrap(), None, "{cursor}");
    }
    let last = found.last().unwrap().1;
    let other = |id: Option<EventId>| Some(EventId::new(id.unwrap().index, hex32(77)));
    let beyond = |id: Option<EventId>| Some(EventId::new(id.unwrap().index + 10, hex32(77)));
    for wrong in [
        Cursor { event: other(last.event), ..last },
        Cursor { event: beyond(last.event), ..last },
        Cursor { refusal: other(last.refusal), ..last },
        Cursor { refusal: beyond(last.refusal), ..last },
        Cursor { preview: other(last.preview), ..last },
        Cursor { preview: beyond(last.preview), ..last },
    ] {
        assert!(decisions.unknown(wrong).await.unwrap().is_some(), "{wrong}");
    }
    // Of a preview that was dropped nothing can be said.
    for at in 3..9 {
        store.preview_record(preview(EpochMs(at)), 2).await.unwrap();
    }
    assert_eq!(decisions.unknown(last).await.unwrap(), None);
    decisions.close().await;
}

pub(crate) async fn repeated_admission_decision_is_stored_once(deployment: &impl Deployment) {
    let store = deployment.open().await;
    let fault = decision(1, Moment::Admission);
    let more_fuel = Outcome { fuel_used: 2, ..fault.outcome.clone() };
    let other_output = Outcome { output_hash: hex32(99), ..fault.outcome.clone() };
    let other_bundle = Outcome { bundle_hash: hex32(98), ..fault.outcome.clone() };
    for outcome in [fault.outcome.clone(), more_fuel, other_output, other_bundle, fault.outcome.clone()] {
        store.decision_record(DecisionRecord { outcome, ..fault.clone() }).await.unwrap();
    }
    store.decision_record(decision(2, Moment::Admission)).await.unwrap();
    let decisions = deployment.decisions().await;
    let found = all(&decisions, Cursor::default(), 100).await;
    let operations: Vec<_> = found.iter().map(|(one, _)| one.operation_id).collect();
    assert_eq!(operations, [Some(id(1)), Some(id(1)), Some(id(1)), Some(id(2))]);
}

pub(crate) async fn only_the_newest_previews_are_kept(deployment: &impl Deployment) {
    let store = deployment.open().await;
    let mut clients = tokio::task::JoinSet::new();
    for at in 0..40 {
        let store = store.clone();
        clients.spawn(async move { store.preview_record(preview(EpochMs(at)), 10).await });
    }
    assert!(clients.join_all().await.iter().all(Result::is_ok));
    let newest: Vec<_> = (31..=40).map(DecisionPosition::Preview).collect();
    let decisions = deployment.decisions().await;
    assert_eq!(positions(&all(&decisions, Cursor::default(), 3).await), newest);
    // Indexes are not reused, even after a restart.
    store.close().await;
    let store = deployment.open().await;
    store.preview_record(preview(EpochMs(41)), 1).await.unwrap();
    assert_eq!(positions(&all(&decisions, Cursor::default(), 3).await), [DecisionPosition::Preview(41)]);
    assert_eq!(decisions.preview(40).await.unwrap(), None);
}

pub(crate) async fn latest_decisions_are_merged_from_all_lists(deployment: &impl Deployment) {
    let store = deployment.open().await;
    for (byte, at) in [(1, 10), (2, 40)] {
        written(&store, super::samples::opening(submission(byte, payment()), EpochMs(at))).await;
    }
    for at in [20, 50] {
        store
            .decision_record(DecisionRecord { at_ms: EpochMs(at), ..decision(9, Moment::Submit) })
            .await
            .unwrap();
    }
    for at in [30, 60] {
        store.preview_record(preview(EpochMs(at)), 9).await.unwrap();
    }
    let decisions = deployment.decisions().await;
    for n_max in 0..8 {
        let latest = decisions.latest(n_max).await.unwrap();
        let instants: Vec<_> = latest.iter().map(|one| one.at_ms.0).collect();
        assert_eq!(instants, [10, 20, 30, 40, 50, 60][6_usize.saturating_sub(n_max)..]);
    }
}
