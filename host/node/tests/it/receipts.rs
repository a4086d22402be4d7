//! Receipts: one for each step, over exactly that step, and the same again when the call is repeated.

use crate::support::{Group, KEY, code};
use gateway_domain::operation::EffectStep;
use gateway_domain::receipt::{NodeReceipt, ReceiptKind};
use gateway_domain::roster::ParticipantIndex;
use gateway_node::testing::{Case, SUITES, asset_action, hex32, refresh, reshare, roster};
use gateway_node::{
    CeremonyAnswer, CeremonyStart, Code, CommitEpoch, Publication, Published, RoundOne, read_identity,
};
use std::sync::Arc;

/// Node 0's receipts for every step of a signature, in order.
async fn sign(group: &Group, case: &Case, published: &Publication) -> Vec<NodeReceipt> {
    let node = &group.nodes[0];
    let call = |step| case.call(0, step, 1, 1);
    let RoundOne::Consumed { signed, .. } = group.round_one(case, 0, 1).await.unwrap() else { panic!() };
    vec![
        node.admit(&case.request()).await.unwrap(),
        node.policy_receipt(&call(EffectStep::PolicyReceipt)).await.unwrap().receipt,
        signed.receipt,
        node.publish(&call(EffectStep::Publish), published).await.unwrap(),
    ]
}

#[tokio::test]
async fn every_step_of_a_signature_has_a_receipt_and_repeats_return_it() {
    for suite in SUITES {
        let mut group = Group::with_key(3, 2, suite).await;
        let case = group.case(1, asset_action(&[0, 1, 2], 7));
        group.admit(&case).await;
        let package = group.package(&case, &[0, 1], 1).await;
        let first = group.round_two(&case, 0, 1, &package).await.unwrap();
        let second = group.round_two(&case, 1, 1, &package).await.unwrap();
        let shares = [(0, first.clone()), (1, second)].into();
        let signature = group.result(&case, &package, &shares);
        let (result_ref, package_hash) = (signature.result_ref().unwrap(), signature.package_hash);
        let published = Publication { attempt: 1, result: Published::Signature(signature), promoted: vec![] };
        let receipts = sign(&group, &case, &published).await;
        let signed_digest = case.decision.request_digest;
        let kinds = [
            ReceiptKind::Admitted,
            ReceiptKind::PolicyReceipt((&case.decision()).into()),
            ReceiptKind::Signed { attempt: 1, signed_digest, package_hash },
            ReceiptKind::Published { attempt: 1, operation_type: case.decision.operation_type, result_ref },
        ];
        for (receipt, kind) in receipts.iter().zip(kinds) {
            group.check_receipt(&case, 0, kind, receipt);
        }
        assert_eq!(first.receipt, receipts[2]);
        for _ in 0..2 {
            assert_eq!(sign(&group, &case, &published).await, receipts);
            assert_eq!(group.round_two(&case, 0, 1, &package).await.unwrap(), first);
            group.restart(0).await;
        }
    }
}

#[tokio::test]
async fn every_step_of_new_shares_has_a_receipt_for_the_generation() {
    let mut group = Group::open(3).await;
    let case = Case::key_create(1, KEY, 3, 2, SUITES[1]);
    group.make_key(&case, 1).await;
    let epoch_root = group.epoch().root;
    let commit = group.promotion(&case, 1, epoch_root).await;
    let call = |step| case.call(0, step, 1, 1);
    // Read again with `ceremony_start`, before and after a restart.
    let mut staged = vec![];
    for _ in 0..2 {
        let start = CeremonyStart::default();
        let answer = group.nodes[0].ceremony_start(&call(EffectStep::Execute), &start).await;
        let CeremonyAnswer::Staged { receipt, .. } = answer.unwrap() else { panic!() };
        group.check_receipt(&case, 0, ReceiptKind::Staged { attempt: 1, epoch_root }, &receipt);
        staged.push(receipt);
        group.restart(0).await;
    }
    assert_eq!(staged[0], staged[1]);
    let promoted = group.nodes[0].commit_epoch(&call(EffectStep::CommitEpoch), &commit).await.unwrap();
    group.check_receipt(&case, 0, ReceiptKind::Promoted { attempt: 1, epoch_root }, &promoted);
    for participant in [1, 2] {
        let call = case.call(participant, EffectStep::CommitEpoch, 1, 1);
        group.nodes[usize::from(participant)].commit_epoch(&call, &commit).await.unwrap();
    }
    let body = group.generation(&case).await;
    let published = group.nodes[0].publish(&call(EffectStep::Publish), &body).await.unwrap();
    let (result_ref, operation_type) = (body.result.result_ref().unwrap(), case.decision.operation_type);
    let kind = ReceiptKind::Published { attempt: 1, operation_type, result_ref };
    group.check_receipt(&case, 0, kind, &published);
    group.restart(0).await;
    assert_eq!(group.nodes[0].publish(&call(EffectStep::Publish), &body).await.unwrap(), published);
}

/// Otherwise the node would sign a receipt for a generation that it does not have.
#[tokio::test]
async fn only_the_promoted_generation_is_published() {
    let mut group = Group::open(3).await;
    let case = Case::key_create(1, KEY, 3, 2, SUITES[0]);
    group.make_key(&case, 1).await;
    group.commit_epoch(&case, 1).await;
    let valid = group.generation(&case).await;
    let other = Group::with_key(3, 2, SUITES[0]).await;
    let Published::Generation(generation) = &valid.result else { panic!() };
    let changes: [fn(&mut gateway_domain::operation::Staged); 6] = [
        |staged| staged.epoch.root = hex32(1),
        |staged| staged.threshold.0 = 3,
        |staged| staged.participants = roster(&[0, 1]),
        |staged| staged.public.public_key_hex = "00".repeat(32),
        |staged| staged.public.package_hex.push_str("00"),
        |staged| staged.public.package_hex.make_ascii_uppercase(),
    ];
    let altered = changes.map(|change| {
        let mut staged = generation.clone();
        change(&mut staged);
        Publication { result: Published::Generation(staged), ..valid.clone() }
    });
    let call = case.call(0, EffectStep::Publish, 1, 1);
    for wrong in altered.into_iter().chain([other.generation(&case).await]) {
        assert_eq!(code(group.nodes[0].publish(&call, &wrong).await), Code::ResultRefused, "{wrong:?}");
    }
    group.nodes[0].publish(&call, &valid).await.unwrap();
}

#[tokio::test]
async fn discard_returns_a_receipt_even_for_an_unknown_operation() {
    let mut group = Group::open(2).await;
    let case = Case::key_create(1, KEY, 2, 2, SUITES[0]);
    group.nodes[1].admit(&case.request()).await.unwrap();
    for participant in [0, 1] {
        let call = case.call(participant, EffectStep::Discard, 1, 1);
        let node = usize::from(participant);
        let discarded = group.nodes[node].discard(&call, &case.discarding()).await.unwrap();
        group.check_receipt(&case, participant, ReceiptKind::Discarded, &discarded);
        group.restart(participant).await;
        assert_eq!(group.nodes[node].discard(&call, &case.discarding()).await.unwrap(), discarded);
    }
}

#[tokio::test]
async fn step_altered_on_disk_gets_no_receipt() {
    let group = Group::with_key(3, 2, SUITES[0]).await;
    let case = group.case(1, asset_action(&[0, 1, 2], 7));
    group.admit(&case).await;
    let call = case.call(0, EffectStep::PolicyReceipt, 1, 1);
    group.execute_sql(0, "UPDATE effect SET transition_hash = content").await;
    let refused = group.nodes[0].policy_receipt(&call).await.unwrap_err();
    assert!(refused.to_string().contains("the recorded answer does not match the step"), "{refused}");
}

#[tokio::test]
async fn identity_is_readable_while_its_node_runs() {
    let group = Group::open(2).await;
    for participant in [0, 1] {
        let (path, index) = (group.path(participant), ParticipantIndex(participant));
        let read = read_identity(&path, index, Arc::clone(&group.kek)).await.unwrap();
        assert_eq!(read, *group.nodes[usize::from(participant)].identity());
    }
    let missing = group.path(7);
    assert!(read_identity(&missing, ParticipantIndex(7), Arc::clone(&group.kek)).await.is_err());
    assert!(!missing.exists());
    // The identity of another node does not open.
    assert!(read_identity(&group.path(0), ParticipantIndex(1), Arc::clone(&group.kek)).await.is_err());
}

/// Otherwise a caller could have old shares retired, or erased, while the new ones are not safe.
#[tokio::test]
async fn new_shares_are_promoted_and_published_only_with_receipts_of_all_receivers() {
    let mut group = Group::open(3).await;
    let case = Case::key_create(1, KEY, 3, 2, SUITES[0]);
    group.make_key(&case, 1).await;
    let (commit, publish) =
        (case.call(0, EffectStep::CommitEpoch, 1, 1), case.call(0, EffectStep::Publish, 1, 1));
    let valid = group.promotion(&case, 1, group.epoch().root).await;
    let forgeries = |receipts: &[NodeReceipt], wrong: ReceiptKind, other: &Case| {
        let mut repeated = receipts.to_vec();
        repeated[2] = receipts[1].clone();
        let mut renamed = receipts.to_vec();
        renamed[2] = NodeReceipt { participant: ParticipantIndex(2), ..receipts[1].clone() };
        [
            vec![],
            receipts[..2].to_vec(),
            repeated,
            renamed,
            group.false_receipts(&case, &wrong),
            group.false_receipts(other, &wrong),
        ]
    };
    let other = Case::key_create(2, KEY, 3, 2, SUITES[0]);
    let other_root = ReceiptKind::Staged { attempt: 1, epoch_root: hex32(1) };
    for staged in forgeries(&valid.staged, other_root, &other) {
        let forged = CommitEpoch { staged, ..valid.clone() };
        assert_eq!(code(group.nodes[0].commit_epoch(&commit, &forged).await), Code::ReceiptRefused);
    }
    group.commit_epoch(&case, 1).await;
    let body = group.generation(&case).await;
    // The receipts for the promotion itself, which prove no promotion.
    let staged = ReceiptKind::Staged { attempt: 1, epoch_root: group.epoch().root };
    let mut renamed = vec![body.promoted[0].clone(); 2];
    renamed[1].participant = ParticipantIndex(2);
    let of_others = [group.false_receipts(&case, &staged), group.false_receipts(&other, &staged)];
    for promoted in [vec![], body.promoted[..1].to_vec(), vec![body.promoted[0].clone(); 3], renamed]
        .into_iter()
        .chain(of_others)
    {
        let forged = Publication { promoted, ..body.clone() };
        assert_eq!(code(group.nodes[0].publish(&publish, &forged).await), Code::ReceiptRefused);
    }
    group.nodes[0].publish(&publish, &body).await.unwrap();
}

/// A receiver that is lost must not prevent the publication, but until its share is made again, no share is erased.
#[tokio::test]
async fn replaced_shares_are_erased_only_when_all_receivers_have_promoted_theirs() {
    let mut group = Group::with_key(3, 2, SUITES[0]).await;
    let retired = "UPDATE share SET state = state WHERE state = 'retired' AND secret IS NOT NULL";
    for (id, epoch, n_promoted, n_retired) in [(1, "2", 2, 1), (2, "3", 3, 0)] {
        let target = group.key_change(refresh(epoch), epoch, &[0, 1, 2], 2).decision.target.unwrap();
        let case = group.case(id, refresh(epoch)).changing(&roster(&[0, 1, 2]), target);
        group.refresh(&case).await;
        let mut body = group.generation(&case).await;
        body.promoted.truncate(n_promoted);
        group.nodes[0].publish(&case.call(0, EffectStep::Publish, 1, 1), &body).await.unwrap();
        assert_eq!(group.execute_sql(0, retired).await, n_retired, "epoch {epoch}");
    }
}

#[tokio::test]
async fn leaving_node_keeps_its_share_until_all_receivers_have_theirs() {
    let group = Group::with_key(3, 2, SUITES[0]).await;
    let case = group.key_change(reshare("2", &[1, 2], 2), "2", &[1, 2], 2);
    group.admit(&case).await;
    let epoch_root = hex32(1);
    let staged = group.false_receipts(&case, &ReceiptKind::Staged { attempt: 1, epoch_root });
    let valid = CommitEpoch { attempt: 1, epoch_root, staged };
    let call = case.call(0, EffectStep::CommitEpoch, 1, 1);
    let partial = CommitEpoch { staged: valid.staged[..1].to_vec(), ..valid.clone() };
    assert_eq!(code(group.nodes[0].commit_epoch(&call, &partial).await), Code::ReceiptRefused);
    let signing = group.case(3, asset_action(&[0, 1, 2], 7));
    group.nodes[0].admit(&signing.request()).await.unwrap();
    group.nodes[0].commit_epoch(&call, &valid).await.unwrap();
    let signing = group.case(4, asset_action(&[0, 1, 2], 8));
    assert_eq!(code(group.nodes[0].admit(&signing.request()).await), Code::EpochConflict);
}
