//! Decision records: written through the ports, read with [`Decisions`].

use super::Deployment;
use super::samples::{
    decision, following, golden, hex32, id, note, opening, opening_payment, payment, preview, submission,
    written,
};
use crate::{Cursor, DecisionPosition, Decisions, RecordedDecision, Store};
use gateway_domain::ids::{Hex32, OperationId};
use gateway_domain::operation::{Change, Failure};
use gateway_domain::policy::{Decision, DecisionId, Moment, Outcome, Statement};
use gateway_domain::testing::samples::approval;
use gateway_domain::time::EpochMs;
use gateway_engine::Visibility;
use gateway_engine::ports::{
    Asked, CommitOperations, DecisionFilter, DecisionRecord, DecisionSearch, EventId, PreviewRecord,
    ReadDecisions, SearchedFrom,
};

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

/// An operation of each kind, a payment that was approved and failed, a refusal and a preview.
async fn write_all_kinds(store: &Store) -> (DecisionRecord, PreviewRecord) {
    written(store, golden()).await;
    let record = written(store, opening_payment(2)).await;
    let policy = submission(2, payment()).policy;
    let counted = |subject| Change::ApprovalRecorded {
        approval: approval(subject, EpochMs(2)),
        policy: policy.clone(),
    };
    let failure = Failure { code: "policy_rejected".into(), detail: String::new(), culprits: vec![] };
    let failed = Change::Failed { failure, policy: Some(policy.clone()), receipts: vec![] };
    let changes = vec![counted("alice"), note(1), counted("bob"), Change::QuorumReached, failed];
    written(store, following(&record, EpochMs(9), changes)).await;
    let refusal = decision(3, Moment::Submit);
    // A submission may be refused more than once.
    for _ in 0..2 {
        store.decision_record(refusal.clone()).await.unwrap();
    }
    let previewed = preview(EpochMs(11));
    store.preview_record(previewed.clone(), 9).await.unwrap();
    (refusal, previewed)
}

pub(crate) async fn every_decision_is_found_once_with_its_input(deployment: &impl Deployment) {
    let store = deployment.open().await;
    let (refusal, previewed) = write_all_kinds(&store).await;

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
    let hash_at = |position| found.iter().find(|(one, _)| one.position == position).unwrap().0.hash;
    let DecisionRecord { at_ms, operation_id, asked, input, outcome } = refusal;
    let position = DecisionPosition::Refusal(2);
    let kept = RecordedDecision {
        position,
        operation_id: Some(operation_id),
        asked,
        at_ms,
        input,
        outcome,
        hash: hash_at(position),
        is_intact: true,
    };
    assert_ne!(kept.hash, Hex32::ZERO);
    assert_eq!(decisions.refusal(2).await.unwrap().as_ref(), Some(&kept));
    let PreviewRecord { at_ms, asked, input, outcome } = previewed;
    let position = DecisionPosition::Preview(1);
    let refused = kept;
    let kept = RecordedDecision {
        position,
        operation_id: None,
        asked,
        at_ms,
        input,
        outcome,
        hash: hash_at(position),
        ..refused
    };
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

/// The decisions that a search finds in parts of at most `n_max`.
async fn found(
    store: &Store,
    filter: &DecisionFilter,
    operations: &[OperationId],
    n_max: usize,
) -> Vec<RecordedDecision> {
    let (mut found, mut searched) = (Vec::new(), SearchedFrom::default());
    for _ in 0..1_000 {
        let search =
            DecisionSearch { visibility: &Visibility::Everything, filter, operations, searched, n_max };
        let part = store.decisions(search).await.unwrap();
        assert!(part.decisions.len() <= n_max);
        assert_ne!(part.searched, searched, "a part that reads nothing");
        found.extend(part.decisions);
        searched = part.searched;
        if searched.is_end() {
            return found;
        }
    }
    panic!("a search without end: {searched:?}");
}

/// So many decisions in all three lists. Sometimes nothing passes between two, later on the clock is set back sometimes.
async fn write_at_random_times(store: &Store, n_decisions: u8) {
    let mut state = 43_u64;
    let mut random = |n: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) % n
    };
    let mut now = 1_000;
    for byte in 1..=n_decisions {
        now = match random(8) {
            0 => now,
            1 if byte > 15 => now - random(40),
            _ => now + 1 + random(19),
        };
        match random(3) {
            0 => drop(written(store, opening(submission(byte, payment()), EpochMs(now))).await),
            1 => {
                let asked = Asked {
                    request_id: Some(format!("request-{}", byte % 3)),
                    idempotency_key: Some(format!("key-{}", byte % 4)),
                };
                let mut record =
                    DecisionRecord { at_ms: EpochMs(now), asked, ..decision(byte, Moment::Submit) };
                let reason = Statement { code: format!("code_{}", byte % 2), operands: Vec::new() };
                record.outcome.reasons.push(reason);
                assert!(store.decision_record(record).await.unwrap().is_some());
            }
            _ => store.preview_record(preview(EpochMs(now)), 100).await.unwrap(),
        }
    }
}

type Fits<'a> = Box<dyn Fn(&RecordedDecision) -> bool + 'a>;

/// Filters, each with what fits. `claimed`: the operations that a search by idempotency key is given.
fn cases(operation_id: Option<OperationId>, claimed: &[OperationId]) -> Vec<(DecisionFilter, Fits<'_>)> {
    let is_claimed = move |one: &RecordedDecision| {
        one.asked.idempotency_key.as_deref() == Some("key-1")
            || (matches!(one.position, DecisionPosition::Event { .. })
                && one.operation_id.is_some_and(|id| claimed.contains(&id)))
    };
    let any = DecisionFilter::default;
    let some = |text: &str| Some(text.to_owned());
    vec![
        (any(), Box::new(|_| true)),
        (
            DecisionFilter { decision: Some(Decision::Deny), ..any() },
            Box::new(|one| one.outcome.decision == Decision::Deny),
        ),
        (
            DecisionFilter { request_id: some("request-1"), ..any() },
            Box::new(|one| one.asked.request_id.as_deref() == Some("request-1")),
        ),
        (DecisionFilter { idempotency_key: some("key-1"), ..any() }, Box::new(is_claimed)),
        (DecisionFilter { operation_id, ..any() }, Box::new(move |one| one.operation_id == operation_id)),
        (
            DecisionFilter { code: some("code_1"), ..any() },
            Box::new(|one| one.outcome.reasons.iter().any(|it| it.code == "code_1")),
        ),
        (DecisionFilter { subject_id: some("eve"), ..any() }, Box::new(|_| false)),
        (DecisionFilter { after: Some(EpochMs(1_080)), ..any() }, Box::new(|one| one.at_ms > EpochMs(1_080))),
        (
            DecisionFilter { before: Some(EpochMs(1_080)), ..any() },
            Box::new(|one| one.at_ms < EpochMs(1_080)),
        ),
    ]
}

/// Whatever the times are, parts have every decision that fits once; newest first, if no clock was set back.
pub(crate) async fn search_finds_what_fits_in_all_lists(deployment: &impl Deployment) {
    let store = deployment.open().await;
    write_at_random_times(&store, 30).await;
    let decisions = deployment.decisions().await;
    let all: Vec<_> = all(&decisions, Cursor::default(), 100).await.into_iter().map(|(one, _)| one).collect();
    assert_eq!(all.len(), 30);
    let operations: Vec<_> =
        all.iter().filter(|one| matches!(one.position, DecisionPosition::Event { .. })).collect();
    let claimed: Vec<_> = operations.iter().filter_map(|one| one.operation_id).take(2).collect();
    let cases = cases(operations[0].operation_id, &claimed);
    for (filter, fits) in &cases {
        let mut expected: Vec<_> = all.iter().filter(|one| fits(one)).cloned().collect();
        expected.sort_by_key(|one| one.position);
        for n_max in [1, 2, 7, 100] {
            let mut found = found(&store, filter, &claimed, n_max).await;
            found.sort_by_key(|one| one.position);
            assert_eq!(found, expected, "{filter:?} by {n_max}");
        }
    }
    let early = DecisionFilter { before: Some(EpochMs(1_100)), ..DecisionFilter::default() };
    let times: Vec<_> = found(&store, &early, &[], 3).await.iter().map(|one| one.at_ms).collect();
    assert!(times.is_sorted_by(|one, next| one >= next), "{times:?}");
    for one in &all {
        assert_eq!(store.decision(one.id()).await.unwrap().as_ref(), Some(one));
    }
    assert_eq!(store.decision(DecisionId::Refusal(99)).await.unwrap(), None);
    decisions.close().await;
}
