//! A node's word for every step: over exactly what it did, and the same however often and whenever it is asked.

use crate::support::{Group, KEY, code};
use gateway_domain::operation::EffectStep;
use gateway_domain::receipt::{NodeReceipt, ReceiptKind};
use gateway_domain::roster::ParticipantIndex;
use gateway_node::testing::{Case, SUITES, asset_action, hex32};
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
        node.materialize_receipt(&call(EffectStep::PolicyReceipt)).await.unwrap(),
        signed.receipt,
        node.publish(&call(EffectStep::Publish), published).await.unwrap(),
    ]
}

#[tokio::test]
async fn a_signature_leaves_a_receipt_for_every_step_and_always_the_same() {
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
        let published = Publication { attempt: 1, result: Published::Signature(signature) };
        let receipts = sign(&group, &case, &published).await;
        let signed_digest = case.decision.request_digest;
        let deeds = [
            ReceiptKind::Admitted,
            ReceiptKind::PolicyReceipt((&case.decision).into()),
            ReceiptKind::Signed { attempt: 1, signed_digest, package_hash },
            ReceiptKind::Published { attempt: 1, operation_type: case.decision.operation_type, result_ref },
        ];
        for (receipt, deed) in receipts.iter().zip(deeds) {
            group.check_receipt(&case, 0, deed, receipt);
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
async fn new_shares_leave_receipts_for_the_generation() {
    let mut group = Group::open(3).await;
    let case = Case::key_create(1, KEY, 3, 2, SUITES[1]);
    group.make_key(&case, 1).await;
    let epoch_root = group.epoch().root;
    let commit = CommitEpoch { attempt: 1, epoch_root };
    let call = |step| case.call(0, step, 1, 1);
    // Staged before and after a restart: asked for again, since a ceremony's last word is heard once.
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
    let body = group.generation(&case);
    let published = group.nodes[0].publish(&call(EffectStep::Publish), &body).await.unwrap();
    let (result_ref, operation_type) = (body.result.result_ref().unwrap(), case.decision.operation_type);
    let deed = ReceiptKind::Published { attempt: 1, operation_type, result_ref };
    group.check_receipt(&case, 0, deed, &published);
    group.restart(0).await;
    assert_eq!(group.nodes[0].publish(&call(EffectStep::Publish), &body).await.unwrap(), published);
}

/// The receipt would be for a result that the node does not have.
#[tokio::test]
async fn only_the_generation_in_force_is_published() {
    let mut group = Group::open(3).await;
    let case = Case::key_create(1, KEY, 3, 2, SUITES[0]);
    group.make_key(&case, 1).await;
    let sound = group.generation(&case);
    group.commit_epoch(&case, 1).await;
    let other = Group::with_key(3, 2, SUITES[0]).await;
    let Published::Generation(generation) = &sound.result else { panic!() };
    let changes: [fn(&mut gateway_domain::operation::Staged); 6] = [
        |staged| staged.epoch.root = hex32(1),
        |staged| staged.threshold.0 = 3,
        |staged| staged.participants = gateway_node::testing::roster(&[0, 1]),
        |staged| staged.public.public_key_hex = "00".repeat(32),
        |staged| staged.public.package_hex.push_str("00"),
        |staged| staged.public.package_hex.make_ascii_uppercase(),
    ];
    let altered = changes.map(|change| {
        let mut staged = generation.clone();
        change(&mut staged);
        Publication { attempt: 1, result: Published::Generation(staged) }
    });
    let call = case.call(0, EffectStep::Publish, 1, 1);
    for wrong in altered.into_iter().chain([other.generation(&case)]) {
        assert_eq!(code(group.nodes[0].publish(&call, &wrong).await), Code::ResultRefused, "{wrong:?}");
    }
    group.nodes[0].publish(&call, &sound).await.unwrap();
}

#[tokio::test]
async fn what_was_given_up_leaves_a_receipt_even_where_it_was_never_heard_of() {
    let mut group = Group::open(2).await;
    let case = Case::key_create(1, KEY, 2, 2, SUITES[0]);
    group.nodes[1].admit(&case.request()).await.unwrap();
    for participant in [0, 1] {
        let call = case.call(participant, EffectStep::Discard, 1, 1);
        let node = usize::from(participant);
        let discarded = group.nodes[node].discard(&call).await.unwrap();
        group.check_receipt(&case, participant, ReceiptKind::Discarded, &discarded);
        group.restart(participant).await;
        assert_eq!(group.nodes[node].discard(&call).await.unwrap(), discarded);
    }
}

#[tokio::test]
async fn a_step_that_was_altered_on_disk_is_not_attested() {
    let group = Group::with_key(3, 2, SUITES[0]).await;
    let case = group.case(1, asset_action(&[0, 1, 2], 7));
    group.admit(&case).await;
    let call = case.call(0, EffectStep::PolicyReceipt, 1, 1);
    group.change(0, "UPDATE effect SET transition_hash = content").await;
    let refused = group.nodes[0].materialize_receipt(&call).await.unwrap_err();
    assert!(refused.to_string().contains("a step is not what was recorded of it"), "{refused}");
}

/// Beside the process that serves, and under the node's own key.
#[tokio::test]
async fn an_identity_is_read_beside_its_node() {
    let group = Group::open(2).await;
    for participant in [0, 1] {
        let (path, index) = (group.path(participant), ParticipantIndex(participant));
        let read = read_identity(&path, index, Arc::clone(&group.kek)).await.unwrap();
        assert_eq!(read, *group.nodes[usize::from(participant)].identity());
    }
    let missing = group.path(7);
    assert!(read_identity(&missing, ParticipantIndex(7), Arc::clone(&group.kek)).await.is_err());
    assert!(!missing.exists());
    // Another node's row does not open as one's own.
    assert!(read_identity(&group.path(0), ParticipantIndex(1), Arc::clone(&group.kek)).await.is_err());
}
