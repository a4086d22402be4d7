//! Steps are made in order, once each, and for the admitted decision only.

use crate::support::{Group, KEY, NOW, code, other_root};
use gateway_domain::intent::Intent;
use gateway_domain::operation::{EffectStep, SignatureResult};
use gateway_domain::receipt::{Chain, NodeReceipt};
use gateway_domain::time::EpochMs;
use gateway_node::testing::{Case, NOT_AFTER, SUITES, asset_action, authority, hex32};
use gateway_node::{Call, Code, CommitEpoch, Discard, Publication, Published};

async fn group() -> (Group, Case) {
    let group = Group::with_key(3, 2, SUITES[0]).await;
    let case = group.case(1, asset_action(&[0, 1, 2], 7));
    (group, case)
}

fn receipt(case: &Case) -> Call {
    case.call(0, EffectStep::PolicyReceipt, 1, 1)
}

fn publication(signature: SignatureResult) -> Publication {
    Publication { attempt: 1, result: Published::Signature(signature), promoted: vec![] }
}

/// The generation of the key, which is not the result of a signature.
async fn generation(group: &Group) -> Publication {
    group.generation(&Case::key_create(100, KEY, 3, 2, SUITES[0])).await
}

#[tokio::test]
async fn steps_before_admission_are_refused() {
    let (group, case) = group().await;
    let node = &group.nodes[0];
    assert_eq!(code(node.policy_receipt(&receipt(&case)).await), Code::StepOutOfOrder);
    assert_eq!(code(group.round_one(&case, 0, 1).await), Code::StepOutOfOrder);
    let publish = case.call(0, EffectStep::Publish, 1, 1);
    assert_eq!(code(node.publish(&publish, &generation(&group).await).await), Code::StepOutOfOrder);
    let commit = case.call(0, EffectStep::CommitEpoch, 1, 1);
    let body = CommitEpoch { attempt: 1, epoch_root: other_root(), staged: vec![] };
    assert_eq!(code(node.commit_epoch(&commit, &body).await), Code::StepOutOfOrder);
}

#[tokio::test]
async fn step_must_follow_the_transition_before_it() {
    let (group, case) = group().await;
    let node = &group.nodes[0];
    node.admit(&case.request()).await.unwrap();
    assert_eq!(
        code(group.round_one(&case, 0, 1).await),
        Code::StepOutOfOrder,
        "the policy receipt is missing"
    );
    let previous = [case.admission_hash(), hex32(0), case.chain(1).after_admission().unwrap()];
    for previous in previous {
        let call = Call { previous, ..receipt(&case) };
        assert_eq!(code(node.policy_receipt(&call).await), Code::StepOutOfOrder);
    }
    let done = node.policy_receipt(&receipt(&case)).await.unwrap();
    assert_eq!(done.receipt.transition_hash, case.chain(0).after_receipt().unwrap());
    assert_eq!(node.policy_receipt(&receipt(&case)).await.unwrap(), done);
    let skipped = case.call(0, EffectStep::Execute, 1, 1);
    let skipped = Call { previous: case.chain(0).after_admission().unwrap(), ..skipped };
    assert_eq!(code(node.signing_commit(&skipped, &[]).await), Code::StepOutOfOrder);
}

#[tokio::test]
async fn effect_id_used_for_another_call_is_a_conflict() {
    let (group, case) = group().await;
    let node = &group.nodes[0];
    node.admit(&case.request()).await.unwrap();
    node.policy_receipt(&receipt(&case)).await.unwrap();
    let other = Call { previous: hex32(1), ..receipt(&case) };
    assert_eq!(code(node.policy_receipt(&other).await), Code::EffectConflict);
    let mixed =
        Call { effect: case.effect(EffectStep::PolicyReceipt, 1), ..case.call(0, EffectStep::Execute, 1, 1) };
    assert_eq!(code(node.signing_commit(&mixed, &[]).await), Code::StepOutOfOrder);
}

#[tokio::test]
async fn step_for_another_decision_is_a_conflict() {
    let (group, case) = group().await;
    group.nodes[0].admit(&case.request()).await.unwrap();
    let other = Call { admission_hash: hex32(1), ..receipt(&case) };
    assert_eq!(code(group.nodes[0].policy_receipt(&other).await), Code::AdmissionConflict);
    let discard = Call { effect: case.effect(EffectStep::Discard, 1), ..other };
    let chain = Chain { admission_hash: hex32(1), ..case.chain(0) };
    let discard = Call { previous: chain.after_admission().unwrap(), ..discard };
    assert_eq!(code(group.nodes[0].discard(&discard, &case.discarding()).await), Code::AdmissionConflict);
}

#[tokio::test]
async fn expired_decision_stops_execution_but_not_publication() {
    let (group, case) = group().await;
    let second = group.case(2, asset_action(&[0, 1, 2], 8));
    group.admit(&case).await;
    group.nodes[0].admit(&second.request()).await.unwrap();
    let signature = group.sign(&case, 1).await;
    group.set_time(NOT_AFTER.0);
    assert_eq!(code(group.nodes[0].policy_receipt(&receipt(&second)).await), Code::AdmissionExpired);
    assert_eq!(code(group.round_one(&case, 2, 1).await), Code::AdmissionExpired);
    // An executed operation is published, however late.
    let publish = case.call(0, EffectStep::Publish, 1, 1);
    group.nodes[0].publish(&publish, &publication(signature)).await.unwrap();
}

#[tokio::test]
async fn stale_fence_stops_the_execution() {
    let (group, _) = group().await;
    let fenced = |fence: String| {
        let mut intent = asset_action(&[0, 1, 2], 7);
        if let Intent::AssetAction(action) = &mut intent {
            action.terms.epoch_fence_token_hex = Some(fence);
        }
        intent
    };
    let stale = group.case(1, fenced(other_root().to_string()));
    group.nodes[0].admit(&stale.request()).await.unwrap();
    assert_eq!(code(group.nodes[0].policy_receipt(&receipt(&stale)).await), Code::EpochConflict);
    let valid = group.case(2, fenced(group.epoch().root.to_string()));
    group.nodes[0].admit(&valid.request()).await.unwrap();
    group.nodes[0].policy_receipt(&receipt(&valid)).await.unwrap();
}

#[tokio::test]
async fn only_the_signature_of_the_operation_is_published() {
    let (group, case) = group().await;
    let other = group.case(2, asset_action(&[0, 1, 2], 8));
    group.admit(&case).await;
    group.admit(&other).await;
    let (mut signature, other_signature) = (group.sign(&case, 1).await, group.sign(&other, 1).await);
    let publish = case.call(0, EffectStep::Publish, 1, 1);
    let node = &group.nodes[0];
    for wrong in [generation(&group).await, publication(other_signature.clone())] {
        assert_eq!(code(node.publish(&publish, &wrong).await), Code::ResultRefused);
    }
    let valid = signature.clone();
    signature.signature_hex = other_signature.signature_hex;
    assert_eq!(code(node.publish(&publish, &publication(signature.clone())).await), Code::ResultRefused);
    signature.signature_hex = "zz".into();
    assert_eq!(code(node.publish(&publish, &publication(signature)).await), Code::ResultRefused);
    let early = Call { previous: case.chain(0).after_receipt().unwrap(), ..publish };
    assert_eq!(code(node.publish(&early, &publication(valid.clone())).await), Code::StepOutOfOrder);
    let done = node.publish(&publish, &publication(valid.clone())).await.unwrap();
    assert_eq!(node.publish(&publish, &publication(valid.clone())).await.unwrap(), done);
    // A node that was not among the signers accepts the signature.
    let publish = case.call(2, EffectStep::Publish, 1, 1);
    group.nodes[2].publish(&publish, &publication(valid)).await.unwrap();
}

#[tokio::test]
async fn no_attempt_follows_publication() {
    let (group, case) = group().await;
    group.admit(&case).await;
    let open = group.package(&case, &[0, 1, 2], 1).await;
    let signature = {
        let other = group.package(&case, &[0, 1], 2).await;
        let shares = [0, 1].map(|signer| (signer, other.clone()));
        let mut signature_shares = std::collections::BTreeMap::new();
        for (signer, package) in shares {
            signature_shares.insert(signer, group.round_two(&case, signer, 2, &package).await.unwrap());
        }
        group.result(&case, &other, &signature_shares)
    };
    let publish = case.call(2, EffectStep::Publish, 1, 2);
    let body = Publication { attempt: 2, result: Published::Signature(signature), promoted: vec![] };
    group.nodes[2].publish(&publish, &body).await.unwrap();
    // Node 2 still had nonces open in attempt 1.
    crate::support::assert_lost(group.round_two(&case, 2, 1, &open).await);
    assert_eq!(code(group.round_one(&case, 2, 3).await), Code::StepOutOfOrder);
}

#[tokio::test]
async fn discard_is_permanent_and_refused_after_promotion() {
    let mut group = Group::open(3).await;
    let case = Case::key_create(1, KEY, 3, 2, SUITES[0]);
    let discard = |participant| case.call(participant, EffectStep::Discard, 1, 1);
    // Node 0 does not know the operation, and discards it only with the authority's decision on it.
    let other = Case::key_create(9, KEY, 3, 2, SUITES[0]);
    let refused = group.nodes[0].discard(&discard(0), &other.discarding()).await;
    assert_eq!(code(refused), Code::AdmissionConflict, "a decision on another operation");
    group.set_time(NOT_AFTER.0 + 1);
    let unknown = group.nodes[0].discard(&discard(0), &case.discarding()).await.unwrap();
    assert_eq!(unknown.transition_hash, case.chain(0).after_discard().unwrap());
    assert_eq!(group.nodes[0].discard(&discard(0), &case.discarding()).await.unwrap(), unknown);
    group.set_time(NOW);
    assert_eq!(code(group.nodes[0].admit(&case.request()).await), Code::OperationDiscarded);
    group.restart(0).await;
    assert_eq!(code(group.nodes[0].admit(&case.request()).await), Code::OperationDiscarded);
    // Node 1 has admitted it.
    group.nodes[1].admit(&case.request()).await.unwrap();
    group.nodes[1].discard(&discard(1), &case.discarding()).await.unwrap();
    let late = case.call(1, EffectStep::PolicyReceipt, 1, 1);
    assert_eq!(code(group.nodes[1].policy_receipt(&late).await), Code::OperationDiscarded);
    assert_eq!(code(group.nodes[1].admit(&case.request()).await), Code::OperationDiscarded);

    let mut second = Case::key_create(2, KEY, 3, 2, SUITES[0]);
    second.decision.not_after_ms = EpochMs(NOT_AFTER.0);
    group.make_key(&second, 1).await;
    group.commit_epoch(&second, 1).await;
    let too_late = second.call(0, EffectStep::Discard, 1, 1);
    assert_eq!(code(group.nodes[0].discard(&too_late, &second.discarding()).await), Code::StepOutOfOrder);
    group.nodes[0].admit(&group.case(3, asset_action(&[0, 1, 2], 7)).request()).await.unwrap();
}

/// As after the rotation of the authority's key, and as often as an attacker likes.
#[tokio::test]
async fn operations_without_a_valid_decision_are_discarded_up_to_a_limit() {
    let group = Group::open(3).await;
    group
        .execute_sql(
            0,
            "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 999) \
             INSERT INTO operation (operation_id, admission_hash, stage, head) \
             SELECT printf('%064x', i), printf('%064x', i), 'discarded', printf('%064x', i) FROM n",
        )
        .await;
    let foreign = |id| Case { authority: authority(9), ..Case::key_create(id, KEY, 3, 2, SUITES[0]) };
    for (id, expected) in [(1, None), (2, Some(Code::AdmissionRefused))] {
        let case = foreign(id);
        let discarded =
            group.nodes[0].discard(&case.call(0, EffectStep::Discard, 1, 1), &case.discarding()).await;
        assert_eq!(discarded.err().map(|error| code::<()>(Err(error))), expected, "{id}");
    }
    let valid = Case::key_create(3, KEY, 3, 2, SUITES[0]);
    group.nodes[0].discard(&valid.call(0, EffectStep::Discard, 1, 1), &valid.discarding()).await.unwrap();
}

#[tokio::test]
async fn node_that_released_a_share_discards_only_after_another_signer_discarded_the_attempt() {
    let mut group = Group::with_key(3, 2, SUITES[1]).await;
    let case = group.case(1, asset_action(&[0, 1, 2], 7));
    group.admit(&case).await;
    let package = group.package(&case, &[0, 1], 1).await;
    let share = group.round_two(&case, 0, 1, &package).await.unwrap();
    let discard = |participant| case.call(participant, EffectStep::Discard, 1, 1);
    let alone = case.discarding();
    assert_eq!(code(group.nodes[0].discard(&discard(0), &alone).await), Code::AttemptNotDiscarded);
    assert_eq!(group.round_two(&case, 0, 1, &package).await.unwrap(), share);
    group.restart(0).await;
    assert_eq!(code(group.nodes[0].discard(&discard(0), &alone).await), Code::AttemptNotDiscarded);
    // Node 1 has open nonces for the package; node 2 has none.
    for participant in [1_u16, 2] {
        group.nodes[usize::from(participant)]
            .discard(&discard(participant), &case.discarding())
            .await
            .unwrap();
    }
    assert!(group.round_two(&case, 1, 1, &package).await.is_err());
    for participant in [1, 2] {
        group.restart(participant).await;
        for attempt in [1, 2] {
            let answer = group.round_one(&case, participant, attempt).await;
            assert_eq!(code(answer), Code::OperationDiscarded, "{participant}");
        }
        let node = &group.nodes[usize::from(participant)];
        assert_eq!(code(node.admit(&case.request()).await), Code::OperationDiscarded);
    }
    // A node that has discarded the operation still discards the attempt for the others.
    let receipt = |participant: u16| {
        let node = &group.nodes[usize::from(participant)];
        let call = case.call(participant, EffectStep::Execute, 1, 1);
        async move { node.discard_attempt(&call).await.unwrap() }
    };
    let (of_signer, of_another) = (receipt(1).await, receipt(2).await);
    let discarding =
        |receipt: NodeReceipt| Discard { discarded_attempts: vec![receipt.into()], ..case.discarding() };
    let refused = group.nodes[0].discard(&discard(0), &discarding(of_another)).await;
    assert_eq!(code(refused), Code::AttemptNotDiscarded, "node 2 is not a signer of the package");
    group.nodes[0].discard(&discard(0), &discarding(of_signer)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_sign_and_discard_exclude_each_other() {
    let group = Group::with_key(3, 2, SUITES[1]).await;
    let node = &group.nodes[0];
    let (mut n_shares, mut n_discarded) = (0, 0);
    for id in 1..=24 {
        let discard = |case: Case| async move {
            node.discard(&case.call(0, EffectStep::Discard, 1, 1), &case.discarding()).await
        };
        let (is_released, is_discarded) = group.release_beside(id, discard).await;
        n_shares += u32::from(is_released);
        n_discarded += u32::from(is_discarded);
    }
    assert_eq!(n_shares + n_discarded, 24);
}
