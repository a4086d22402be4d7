//! An invalid receipt does not count; the valid receipts of other nodes do. If the step needs the node, the failure names it.

use crate::support::{World, operation};
use gateway_domain::operation::signed_receipts;
use gateway_domain::operation::{EffectStep, Failure, Operation, Outcome, Phase};
use gateway_domain::receipt::{Chain, NodeReceipt, ReceiptKind, ReceiptStatement, Signature};
use gateway_domain::roster::ParticipantIndex;
use gateway_node::Node;
use gateway_node::testing::{SUITES, asset_action, hex32, kek, key_create, refresh, roster};
use std::collections::BTreeSet;
use std::sync::Arc;

const FAULTY_NODE: u16 = 1;

/// Makes an invalid receipt, given the faulty node, another node, and the statement that should be signed.
type MakeInvalidReceipt = fn(&Node, &Node, &ReceiptStatement) -> NodeReceipt;

const INVALID_RECEIPTS: [(&str, MakeInvalidReceipt); 9] = [
    ("signed over another step", |faulty, _, statement| {
        sign_altered(faulty, statement, |it| it.step = EffectStep::Decision)
    }),
    ("signed over another attempt", |faulty, _, statement| {
        sign_altered(faulty, statement, |it| it.attempt += 1)
    }),
    ("signed over another decision", |faulty, _, statement| {
        sign_altered(faulty, statement, |it| it.admission_hash = hex32(1))
    }),
    ("signed over another subject", |faulty, _, statement| {
        sign_altered(faulty, statement, |it| it.subject = hex32(1))
    }),
    ("for the previous transition", |faulty, _, statement| {
        let chain = Chain {
            admission_hash: statement.admission_hash,
            operation_id: statement.operation_id,
            participant: statement.participant,
        };
        let stale =
            chain.before(EffectStep::Admission, gateway_domain::intent::OperationType::Sign, 1).unwrap();
        faulty.sign_anything(&ReceiptStatement { transition_hash: stale, ..statement.clone() }, 0)
    }),
    ("moved to another position", |faulty, _, statement| NodeReceipt {
        log_index: 1,
        ..faulty.sign_anything(statement, 0)
    }),
    ("signed by another node", |_, other, statement| other.sign_anything(statement, 0)),
    ("of another participant", |_, other, statement| {
        other.sign_anything(&ReceiptStatement { participant: other.participant(), ..statement.clone() }, 0)
    }),
    ("a signature of zeros", |_, _, statement| NodeReceipt {
        participant: statement.participant,
        transition_hash: statement.transition_hash,
        log_index: 0,
        signature: Signature::new([0; 64]),
    }),
];

/// A receipt with the true transition hash, and a signature over an altered statement.
fn sign_altered(
    faulty: &Node,
    statement: &ReceiptStatement,
    change: impl FnOnce(&mut ReceiptStatement),
) -> NodeReceipt {
    let mut altered = statement.clone();
    change(&mut altered);
    NodeReceipt { transition_hash: statement.transition_hash, ..faulty.sign_anything(&altered, 0) }
}

/// Makes the faulty node return invalid receipts for this step, until it is reopened.
async fn begin_invalid_receipts(world: &World, step: EffectStep, replace: MakeInvalidReceipt) {
    let (faulty, other) = (world.node(FAULTY_NODE).await, world.node(0).await);
    let signer = Arc::clone(&faulty);
    faulty.replace_receipts(move |statement| {
        (statement.step == step).then(|| replace(&signer, &other, statement))
    });
}

async fn end_invalid_receipts(world: &World) {
    world.node(FAULTY_NODE).await.replace_receipts(|_| None);
}

/// Performs the pending step. Returns the participants whose receipts count.
async fn acknowledging_nodes(world: &World, operation: &Operation) -> Vec<u16> {
    match world.perform_pending(operation).await.unwrap() {
        Outcome::Acked(receipts) => receipts.iter().map(|receipt| receipt.participant.0).collect(),
        other => panic!("{other:?}"),
    }
}

async fn drive_to_phase(world: &mut World, operation: Operation, phase: &Phase) -> Operation {
    world.drive(operation, |operation| operation.phase == *phase).await.unwrap()
}

#[tokio::test]
async fn invalid_receipt_does_not_count_and_valid_ones_do() {
    let mut world = World::with_key(3, 2, SUITES[0]).await;
    let mut signing = operation(1, asset_action(&[0, 1, 2], 7));
    let steps = [
        (Phase::Admitting, EffectStep::Admission),
        (Phase::IssuingReceipt, EffectStep::PolicyReceipt),
        (Phase::Publishing, EffectStep::Publish),
    ];
    for (phase, step) in steps {
        signing = drive_to_phase(&mut world, signing, &phase).await;
        for (name, replace) in INVALID_RECEIPTS {
            begin_invalid_receipts(&world, step, replace).await;
            assert_eq!(acknowledging_nodes(&world, &signing).await, [0, 2], "{name} about {step:?}");
        }
        end_invalid_receipts(&world).await;
        assert_eq!(acknowledging_nodes(&world, &signing).await, [0, 1, 2], "{step:?}");
    }
    let published = world.complete(signing).await;
    assert_eq!(published.phase, Phase::Published);
    // A node that returned a false receipt before is chosen last as a signer.
    assert_eq!(published.signature.unwrap().signers, roster(&[0, 2]));
}

#[tokio::test]
async fn receipt_issued_by_another_node_is_rejected() {
    let mut world = World::with_key(3, 2, SUITES[0]).await;
    let applying =
        drive_to_phase(&mut world, operation(1, asset_action(&[0, 1, 2], 7)), &Phase::Admitting).await;
    begin_invalid_receipts(&world, EffectStep::Admission, |_, other, statement| {
        let (admission_hash, operation_id) = (statement.admission_hash, statement.operation_id);
        let chain = Chain { admission_hash, operation_id, participant: other.participant() };
        other.sign_anything(&chain.statement(&ReceiptKind::Admitted).unwrap(), 0)
    })
    .await;
    assert_eq!(acknowledging_nodes(&world, &applying).await, [0, 2]);
}

#[tokio::test]
async fn share_without_a_valid_receipt_does_not_count() {
    for (name, replace) in INVALID_RECEIPTS {
        let mut world = World::with_key(3, 2, SUITES[0]).await;
        let signing = world.until_ceremony(operation(1, asset_action(&[0, 1, 2], 7))).await;
        begin_invalid_receipts(&world, EffectStep::Execute, replace).await;
        let why = world.perform_pending(&signing).await.unwrap_err();
        assert!(why.detail.contains("participant 1: receipt_refused: the receipt"), "{name}: {why}");
        // It may have released its share, so no other package is signed.
        end_invalid_receipts(&world).await;
        let signature = world.signed(signing).await;
        assert_eq!(signature.signers, roster(&[0, 1]), "{name}");
    }
}

#[tokio::test]
async fn invalid_receipt_for_a_share_released_before_a_restart_does_not_count() {
    let mut world = World::with_key(3, 2, SUITES[0]).await;
    let signing = world.until_ceremony(operation(1, asset_action(&[0, 1, 2], 7))).await;
    let Outcome::Signed { signature, .. } = world.perform_pending(&signing).await.unwrap() else { panic!() };
    assert_eq!(signature.signers, roster(&[0, 1]));
    world.restart().await;
    begin_invalid_receipts(&world, EffectStep::Execute, INVALID_RECEIPTS[3].1).await;
    assert!(world.perform_pending(&signing).await.is_err());
    end_invalid_receipts(&world).await;
    assert_eq!(world.complete(signing).await.signature.unwrap(), signature);
}

#[tokio::test]
async fn node_with_an_invalid_receipt_is_the_culprit_if_all_nodes_are_required() {
    let mut world = World::with_key(3, 3, SUITES[0]).await;
    let signing =
        drive_to_phase(&mut world, operation(1, asset_action(&[0, 1, 2], 1)), &Phase::Admitting).await;
    begin_invalid_receipts(&world, EffectStep::Admission, INVALID_RECEIPTS[3].1).await;
    let failed = world.complete(signing).await;
    assert_eq!(failed.phase, Phase::Failed);
    let failure = failed.failure.unwrap();
    assert_eq!(failure.code, "receipt_refused");
    assert_eq!(failure.culprits, [ParticipantIndex(FAULTY_NODE)]);
    assert_eq!(
        failure.detail,
        "participant 1 misbehaved: the receipt is not signed by the node over this step and its subject"
    );
}

#[tokio::test]
async fn staged_shares_are_discarded_after_an_invalid_receipt() {
    let mut world = World::new();
    let creating = world.until_ceremony(operation(100, key_create(&[0, 1, 2], 2, SUITES[0]))).await;
    begin_invalid_receipts(&world, EffectStep::Execute, INVALID_RECEIPTS[3].1).await;
    let refused = world.perform_pending(&creating).await.unwrap();
    let discarding = world.record_outcome(creating, refused);
    assert_eq!(discarding.phase, Phase::Discarding);
    begin_invalid_receipts(&world, EffectStep::Discard, INVALID_RECEIPTS[0].1).await;
    assert_eq!(acknowledging_nodes(&world, &discarding).await, [0, 2]);
    end_invalid_receipts(&world).await;
    let failed = world.complete(discarding).await;
    assert_eq!(failed.phase, Phase::Failed);
    assert_eq!(failed.failure.unwrap().culprits, [ParticipantIndex(FAULTY_NODE)]);
}

/// They are safe everywhere, and a node that staged its share does not discard it while another one may promote its own.
#[tokio::test]
async fn staged_shares_of_a_key_in_use_wait_for_a_valid_receipt() {
    let mut world = World::with_key(3, 2, SUITES[0]).await;
    let refreshing = world.until_ceremony(operation(1, refresh("2"))).await;
    begin_invalid_receipts(&world, EffectStep::Execute, INVALID_RECEIPTS[3].1).await;
    let why = world.perform_pending(&refreshing).await.unwrap_err();
    assert!(why.detail.starts_with("participant 1 misbehaved"), "{why}");
    end_invalid_receipts(&world).await;
    assert_eq!(world.complete(refreshing).await.phase, Phase::Published);
}

#[tokio::test]
async fn epoch_change_waits_for_a_valid_receipt_of_each_node() {
    let mut world = World::new();
    let creating = operation(100, key_create(&[0, 1, 2], 2, SUITES[0]));
    let is_committing = |operation: &Operation| matches!(operation.phase, Phase::CommittingEpoch { .. });
    let committing = world.drive(creating, is_committing).await.unwrap();
    begin_invalid_receipts(&world, EffectStep::CommitEpoch, INVALID_RECEIPTS[3].1).await;
    let acked = world.perform_pending(&committing).await.unwrap();
    let waiting = world.record_outcome(committing, acked);
    assert_eq!(
        waiting.phase,
        Phase::CommittingEpoch { attempt: 2, unacked: BTreeSet::from([ParticipantIndex(FAULTY_NODE)]) }
    );
    let why = world.perform_pending(&waiting).await.unwrap_err();
    assert!(why.detail.starts_with("participant 1: receipt_refused: "), "{why}");
    end_invalid_receipts(&world).await;
    assert_eq!(world.complete(waiting).await.phase, Phase::Published);
}

/// Verifies every recorded receipt with only the events and the identities in the nodes' files. Returns the steps that have
/// receipts.
async fn verify_recorded_receipts(world: &World) -> BTreeSet<EffectStep> {
    let pinned = gateway_fleet::identities(&world.folder, &Arc::new(kek(1))).await.unwrap();
    let mut steps = BTreeSet::new();
    for (before, event) in &world.events {
        for (kind, receipt) in signed_receipts(before, event) {
            let statement = before.receipt_chain(receipt.participant).unwrap().statement(&kind).unwrap();
            receipt.verify(&statement, &pinned[&receipt.participant].signing_key()).unwrap();
            steps.insert(kind.step());
        }
    }
    steps
}

#[tokio::test]
async fn every_recorded_receipt_verifies_offline() {
    use EffectStep::{Admission, CommitEpoch, Discard, Execute, PolicyReceipt, Publish};
    let mut world = World::new();
    for submitted in crate::crash::all_kinds() {
        assert_eq!(world.complete(submitted).await.phase, Phase::Published);
    }
    let all = [Admission, PolicyReceipt, Execute, CommitEpoch, Publish];
    assert_eq!(verify_recorded_receipts(&world).await, BTreeSet::from(all));

    let mut world = World::new();
    let creating = world.until_ceremony(operation(100, key_create(&[0, 1, 2], 2, SUITES[0]))).await;
    let failure = Failure { code: "drill".into(), detail: "given up".into(), culprits: vec![] };
    let discarding = world.record_outcome(creating, Outcome::Rejected { failure, policy: None });
    assert_eq!(world.complete(discarding).await.phase, Phase::Failed);
    assert_eq!(verify_recorded_receipts(&world).await, BTreeSet::from([Admission, PolicyReceipt, Discard]));
}

#[tokio::test]
async fn reading_identities_requires_the_key_encryption_key() {
    let world = World::with_key(3, 2, SUITES[0]).await;
    let pinned = gateway_fleet::identities(&world.folder, &Arc::new(kek(1))).await.unwrap();
    for (participant, identity) in &pinned {
        assert_eq!(identity, world.node(participant.0).await.identity());
    }
    assert_eq!(pinned.len(), 3);
    let other = gateway_fleet::identities(&world.folder, &Arc::new(kek(2))).await.unwrap_err();
    assert!(other.participant == ParticipantIndex(0) && other.source.is_wrong_kek(), "{other}");
}
