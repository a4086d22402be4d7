//! A node that completed an attempt begins no other, and does not discard the operation, until another participant has signed that
//! it will not complete the attempt.

use crate::support::{Group, admitted, assert_lost, code, mail};
use gateway_domain::ids::Hex32;
use gateway_domain::operation::EffectStep;
use gateway_domain::receipt::{AttemptReceipt, NodeReceipt, ReceiptKind};
use gateway_domain::roster::ParticipantIndex;
use gateway_node::testing::{Case, SUITES, asset_action, hex32, refresh, reshare, roster};
use gateway_node::{CeremonyAnswer, CeremonyStart, Code, CommitEpoch, Discard};
use gateway_threshold::sign::SigningPackage;

#[tokio::test]
async fn node_that_released_a_share_signs_another_package_only_with_the_receipt_of_another_signer() {
    let (mut group, case) = admitted().await;
    let first = group.package(&case, &[0, 1], 1).await;
    group.round_two(&case, 0, 1, &first).await.unwrap();
    assert_eq!(code(group.discard_attempt(&case, 0, 1).await), Code::StepOutOfOrder, "it completed it");

    let of_another = group.discard_attempt(&case, 2, 1).await.unwrap();
    let of_another_attempt = group.discard_attempt(&case, 1, 2).await.unwrap();
    let kind = ReceiptKind::AttemptDiscarded { attempt: 1 };
    let own = group.nodes[0].sign_anything(&case.chain(0).statement(&kind).unwrap(), 9);
    let forged = NodeReceipt { participant: ParticipantIndex(1), ..of_another.clone() };
    let of_another_operation = {
        let other = group.case(5, asset_action(&[0, 1, 2], 5));
        group.nodes[1].sign_anything(&other.chain(1).statement(&kind).unwrap(), 9)
    };
    let wrong = [of_another, of_another_attempt, own, forged, of_another_operation];
    assert_eq!(code(group.round_one_after(&case, 0, 3, &wrong).await), Code::AttemptNotDiscarded);

    // Node 1 still has its nonces of the first attempt. Its receipt means that it does not use them, even after a restart.
    let receipt = group.discard_attempt(&case, 1, 1).await.unwrap();
    assert_lost(group.round_two(&case, 1, 1, &first).await);
    group.restart(1).await;
    assert_eq!(group.discard_attempt(&case, 1, 1).await.unwrap(), receipt);
    group.round_one_after(&case, 0, 3, &[receipt]).await.unwrap();
    group.sign(&case, 3).await;
}

#[tokio::test]
async fn receipt_of_a_signer_for_another_package_shows_that_a_package_is_not_completed() {
    let (group, case) = admitted().await;
    let first = group.package(&case, &[0, 1], 1).await;
    let second = group.package(&case, &[1, 2], 1).await;
    group.round_two(&case, 0, 1, &first).await.unwrap();
    let receipt = group.round_two(&case, 1, 1, &second).await.unwrap().receipt;
    let of_another = group.round_two(&case, 2, 1, &second).await.unwrap().receipt;
    let of = |receipt: &NodeReceipt, package: &SigningPackage| AttemptReceipt {
        receipt: receipt.clone(),
        package_hash: Some(Hex32::new(package.hash())),
    };
    let kind = ReceiptKind::Signed {
        attempt: 1,
        signed_digest: case.decision.request_digest,
        package_hash: Hex32::new(first.hash()),
    };
    let same_package = group.nodes[1].sign_anything(&case.chain(1).statement(&kind).unwrap(), 9);
    let without_hash = AttemptReceipt::from(receipt.clone());
    let wrong = [of(&receipt, &first), of(&same_package, &first), of(&of_another, &second), without_hash];
    assert_eq!(code(group.round_one_after(&case, 0, 2, &wrong).await), Code::AttemptNotDiscarded);
    group.round_one_after(&case, 0, 2, &[of(&receipt, &second)]).await.unwrap();
}

#[tokio::test]
async fn discarded_attempt_is_not_signed_with_nonces_made_later() {
    let (group, case) = admitted().await;
    group.discard_attempt(&case, 0, 1).await.unwrap();
    let package = group.package(&case, &[0, 1], 1).await;
    assert_eq!(code(group.round_two(&case, 0, 1, &package).await), Code::AttemptSuperseded);
}

#[tokio::test(flavor = "multi_thread")]
async fn node_completes_an_attempt_or_discards_it_but_never_both() {
    let group = Group::with_key(3, 2, SUITES[1]).await;
    let group = &group;
    for id in 1..=24 {
        group.release_beside(id, |case| async move { group.discard_attempt(&case, 0, 1).await }).await;
    }
}

#[tokio::test]
async fn attempt_above_the_limit_is_not_discarded() {
    let (group, case) = admitted().await;
    assert_eq!(code(group.discard_attempt(&case, 0, 1025).await), Code::StepOutOfOrder);
    group.discard_attempt(&case, 0, 1024).await.unwrap();
}

/// A refresh in which nodes 0 and 1 staged their shares, and the messages that node 2 has not got.
async fn partly_staged() -> (Group, Case, CeremonyStart, Vec<gateway_node::Envelope>) {
    let group = Group::with_key(3, 2, SUITES[0]).await;
    let case = group.key_change(refresh("2"), "2", &[0, 1, 2], 2);
    group.admit(&case).await;
    let dealers = [0, 1].map(ParticipantIndex).into();
    let start = CeremonyStart { dealers, package: group.keys().to_bytes(), discarded: vec![] };
    let mut sent = group.start_with(&case, 1, &start).await;
    loop {
        let mut next = vec![];
        let mut n_staged = 0;
        let last = sent.clone();
        for participant in [0, 1] {
            let call = case.call(participant, EffectStep::Execute, 1, 1);
            let node = &group.nodes[usize::from(participant)];
            match node.ceremony_deliver(&call, &mail(&sent, participant)).await.unwrap() {
                CeremonyAnswer::Send(messages) => next.extend(messages),
                CeremonyAnswer::Staged { .. } => n_staged += 1,
            }
        }
        if n_staged == 2 {
            return (group, case, start, last);
        }
        let call = case.call(2, EffectStep::Execute, 1, 1);
        match group.nodes[2].ceremony_deliver(&call, &mail(&sent, 2)).await.unwrap() {
            CeremonyAnswer::Send(messages) => next.extend(messages),
            CeremonyAnswer::Staged { .. } => panic!("node 2 has staged its share"),
        }
        sent = next;
    }
}

#[tokio::test]
async fn staged_share_is_replaced_or_discarded_only_with_the_receipt_of_another_receiver() {
    let (group, case, mut start, last) = partly_staged().await;
    let discard = |participant| case.call(participant, EffectStep::Discard, 1, 1);
    let alone = case.discarding();
    assert_eq!(code(group.nodes[0].discard(&discard(0), &alone).await), Code::AttemptNotDiscarded);
    let second = |participant| case.call(participant, EffectStep::Execute, 2, 2);
    assert_eq!(code(group.nodes[0].ceremony_start(&second(0), &start).await), Code::AttemptNotDiscarded);
    assert_eq!(code(group.discard_attempt(&case, 1, 1).await), Code::StepOutOfOrder, "it staged its share");

    let receipt = group.discard_attempt(&case, 2, 1).await.unwrap();
    // Node 2 cannot stage its share any more.
    let call = case.call(2, EffectStep::Execute, 1, 1);
    assert_lost(group.nodes[2].ceremony_deliver(&call, &mail(&last, 2)).await);
    start.discarded = vec![receipt.clone().into()];
    group.nodes[0].ceremony_start(&second(0), &start).await.unwrap();
    let discarding = Discard { discarded_attempts: vec![receipt.into()], ..alone };
    for participant in [0, 1] {
        let node = &group.nodes[usize::from(participant)];
        node.discard(&discard(participant), &discarding).await.unwrap();
    }
    // The old shares are still in use.
    let signing = group.case(3, asset_action(&[0, 1, 2], 7));
    group.admit(&signing).await;
    group.sign(&signing, 1).await;
}

/// A receiver that discarded the operation does not stage a share of it either.
#[tokio::test]
async fn staged_share_is_discarded_with_the_receipt_of_a_receiver_that_discarded_the_operation() {
    let (group, case, _, _) = partly_staged().await;
    let discard = |participant| case.call(participant, EffectStep::Discard, 1, 1);
    let receipt = group.nodes[2].discard(&discard(2), &case.discarding()).await.unwrap();
    let of_another = {
        let other = group.case(5, asset_action(&[0, 1, 2], 5));
        group.nodes[2].sign_anything(&other.chain(2).statement(&ReceiptKind::Discarded).unwrap(), 9)
    };
    let own = group.nodes[0].sign_anything(&case.chain(0).statement(&ReceiptKind::Discarded).unwrap(), 9);
    let wrong = Discard { discarded_attempts: vec![of_another.into(), own.into()], ..case.discarding() };
    assert_eq!(code(group.nodes[0].discard(&discard(0), &wrong).await), Code::AttemptNotDiscarded);
    let right = Discard { discarded_attempts: vec![receipt.into()], ..wrong };
    group.nodes[0].discard(&discard(0), &right).await.unwrap();
}

/// It may have forgotten that it staged its share, with which the others could promote theirs.
#[tokio::test]
async fn readmitted_node_discards_a_change_of_a_key_only_with_the_receipt_of_another_receiver() {
    let (group, case, _, _) = partly_staged().await;
    let unknown = {
        let target = group.key_change(refresh("3"), "3", &[0, 1, 2], 2).decision.target.unwrap();
        group.case(7, refresh("3")).changing(&roster(&[0, 1, 2]), target)
    };
    group.nodes[2].readmit(0).await.unwrap();
    for case in [case, unknown] {
        let discard = |participant| case.call(participant, EffectStep::Discard, 1, 1);
        let alone = case.discarding();
        let refused = group.nodes[2].discard(&discard(2), &alone).await;
        assert_eq!(code(refused), Code::DecidedBeforeReadmission);
        let signed = |participant: u16, kind: ReceiptKind| {
            group.nodes[usize::from(participant)]
                .sign_anything(&case.chain(participant).statement(&kind).unwrap(), 9)
        };
        let own = signed(2, ReceiptKind::Discarded);
        let of_an_attempt = signed(1, ReceiptKind::AttemptDiscarded { attempt: 1 });
        let wrong = Discard { discarded_attempts: vec![own.into(), of_an_attempt.into()], ..alone.clone() };
        let refused = group.nodes[2].discard(&discard(2), &wrong).await;
        assert_eq!(code(refused), Code::DecidedBeforeReadmission);
        let right = Discard { discarded_attempts: vec![signed(1, ReceiptKind::Discarded).into()], ..alone };
        group.nodes[2].discard(&discard(2), &right).await.unwrap();
    }
}

#[tokio::test]
async fn attempt_discarded_before_it_began_does_not_begin() {
    let group = Group::with_key(3, 2, SUITES[0]).await;
    let case = group.key_change(refresh("2"), "2", &[0, 1, 2], 2);
    group.admit(&case).await;
    group.discard_attempt(&case, 0, 1).await.unwrap();
    let dealers = [0, 1].map(ParticipantIndex).into();
    let start = CeremonyStart { dealers, package: group.keys().to_bytes(), discarded: vec![] };
    let call = case.call(0, EffectStep::Execute, 1, 1);
    assert_eq!(code(group.nodes[0].ceremony_start(&call, &start).await), Code::AttemptSuperseded);
}

/// Its generation can no longer be promoted, so the share is of no use to anyone.
#[tokio::test]
async fn staged_share_is_discarded_without_receipts_once_the_key_is_in_another_generation() {
    let (group, case, _, _) = partly_staged().await;
    let intent = reshare("3", &[1, 2], 2);
    let target = group.key_change(intent.clone(), "3", &[1, 2], 2).decision.target.unwrap();
    let other = group.case(7, intent).changing(&roster(&[0, 1, 2]), target);
    group.nodes[0].admit(&other.request()).await.unwrap();
    group.nodes[0].policy_receipt(&other.call(0, EffectStep::PolicyReceipt, 1, 1)).await.unwrap();
    let epoch_root = hex32(1);
    let staged = group.false_receipts(&other, &ReceiptKind::Staged { attempt: 1, epoch_root });
    let commit = CommitEpoch { attempt: 1, epoch_root, staged };
    group.nodes[0].commit_epoch(&other.call(0, EffectStep::CommitEpoch, 1, 1), &commit).await.unwrap();
    group.nodes[0].discard(&case.call(0, EffectStep::Discard, 1, 1), &case.discarding()).await.unwrap();
}

/// It has no earlier share of the key, and what it staged may be promoted elsewhere.
#[tokio::test]
async fn joining_node_keeps_its_staged_share() {
    let (group, case, _, _) = partly_staged().await;
    assert_eq!(group.execute_sql(1, "DELETE FROM share WHERE state = 'active'").await, 1);
    let discard = case.call(1, EffectStep::Discard, 1, 1);
    let refused = group.nodes[1].discard(&discard, &case.discarding()).await;
    assert_eq!(code(refused), Code::AttemptNotDiscarded);
}

#[tokio::test]
async fn leaving_dealer_retires_its_share_only_for_the_generation_that_it_dealt() {
    let group = Group::with_key(3, 2, SUITES[0]).await;
    let case = group.key_change(reshare("2", &[1, 2], 2), "2", &[1, 2], 2);
    group.admit(&case).await;
    let dealers = [0, 1].map(ParticipantIndex).into();
    let start = CeremonyStart { dealers, package: group.keys().to_bytes(), discarded: vec![] };
    let sent = group.start_with(&case, 1, &start).await;
    group.relay(&case, 1, sent).await.unwrap();
    let call = case.call(0, EffectStep::CommitEpoch, 1, 1);
    let epoch_root = hex32(1);
    let staged = group.false_receipts(&case, &ReceiptKind::Staged { attempt: 1, epoch_root });
    let other = CommitEpoch { attempt: 1, epoch_root, staged };
    assert_eq!(code(group.nodes[0].commit_epoch(&call, &other).await), Code::EpochConflict);
    let signing = group.case(3, asset_action(&[0, 1, 2], 7));
    group.nodes[0].admit(&signing.request()).await.unwrap();
}
