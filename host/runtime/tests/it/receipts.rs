//! A node that returns a false receipt is named, and its answer does not count. The receipts of the others do.

use crate::support::{World, check_signature, operation};
use gateway_domain::operation::signed_receipts;
use gateway_domain::operation::{EffectStep, Failure, Operation, Outcome, Phase, State};
use gateway_domain::receipt::{Chain, NodeReceipt, ReceiptKind, ReceiptStatement, Signature};
use gateway_domain::roster::ParticipantIndex;
use gateway_node::Node;
use gateway_node::testing::{SUITES, asset_action, hex32, kek, key_create, roster};
use std::collections::BTreeSet;
use std::sync::Arc;

const FALSE_NODE: u16 = 1;

/// Makes a false receipt from the node that returns it, another node, and the true statement.
type FalseReceipt = fn(&Node, &Node, &ReceiptStatement) -> NodeReceipt;

const FALSE_RECEIPTS: [(&str, FalseReceipt); 8] = [
    ("another step", |me, _, truth| over(me, truth, |it| it.step = EffectStep::Decision)),
    ("another attempt", |me, _, truth| over(me, truth, |it| it.attempt += 1)),
    ("another decision", |me, _, truth| over(me, truth, |it| it.admission_hash = hex32(1))),
    ("another subject", |me, _, truth| over(me, truth, |it| it.subject = hex32(1))),
    ("a stale transition", |me, _, truth| {
        let chain = Chain {
            admission_hash: truth.admission_hash,
            operation_id: truth.operation_id,
            participant: truth.participant,
        };
        let stale =
            chain.before(EffectStep::Admission, gateway_domain::intent::OperationType::Sign, 1).unwrap();
        me.sign_anything(&ReceiptStatement { transition_hash: stale, ..truth.clone() })
    }),
    ("another node's signature", |_, other, truth| other.sign_anything(truth)),
    ("another node's receipt", |_, other, truth| {
        other.sign_anything(&ReceiptStatement { participant: other.participant(), ..truth.clone() })
    }),
    ("no signature at all", |_, _, truth| NodeReceipt {
        participant: truth.participant,
        transition_hash: truth.transition_hash,
        signature: Signature::new([0; 64]),
    }),
];

/// A receipt with the true transition hash, and a signature over an altered statement.
fn over(me: &Node, truth: &ReceiptStatement, change: impl FnOnce(&mut ReceiptStatement)) -> NodeReceipt {
    let mut altered = truth.clone();
    change(&mut altered);
    NodeReceipt { transition_hash: truth.transition_hash, ..me.sign_anything(&altered) }
}

/// From now on the node returns false receipts for this step.
async fn begin_false_receipts(world: &World, step: EffectStep, replace: FalseReceipt) {
    let (me, other) = (world.node(FALSE_NODE).await, world.node(0).await);
    let signer = Arc::clone(&me);
    me.replace_receipts(move |truth| (truth.step == step).then(|| replace(&signer, &other, truth)));
}

async fn end_false_receipts(world: &World) {
    world.node(FALSE_NODE).await.replace_receipts(|_| None);
}

/// Performs the pending step. Returns the participants whose receipts count.
async fn acknowledged(world: &World, operation: &Operation) -> Vec<u16> {
    match world.owed(operation).await.unwrap() {
        Outcome::Acked(receipts) => receipts.iter().map(|receipt| receipt.participant.0).collect(),
        other => panic!("{other:?}"),
    }
}

async fn until(world: &mut World, operation: Operation, phase: &Phase) -> Operation {
    world.drive(operation, |operation| operation.phase == *phase).await.unwrap()
}

#[tokio::test]
async fn false_receipt_acknowledges_nothing_and_the_others_count() {
    let mut world = World::with_key(3, 2, SUITES[0]).await;
    let mut signing = operation(1, asset_action(&[0, 1, 2], 7));
    let steps = [
        (Phase::Admitting, EffectStep::Admission),
        (Phase::IssuingReceipt, EffectStep::PolicyReceipt),
        (Phase::Publishing, EffectStep::Publish),
    ];
    for (phase, step) in steps {
        signing = until(&mut world, signing, &phase).await;
        for (name, replace) in FALSE_RECEIPTS {
            begin_false_receipts(&world, step, replace).await;
            assert_eq!(acknowledged(&world, &signing).await, [0, 2], "{name} about {step:?}");
        }
        end_false_receipts(&world).await;
        assert_eq!(acknowledged(&world, &signing).await, [0, 1, 2], "{step:?}");
    }
    let published = world.complete(signing).await;
    assert_eq!(published.phase, Phase::Published);
    // A node that returned a false receipt before is chosen last as a signer.
    assert_eq!(published.signature.unwrap().signers, roster(&[0, 2]));
}

#[tokio::test]
async fn valid_receipt_of_another_node_acknowledges_nothing() {
    let mut world = World::with_key(3, 2, SUITES[0]).await;
    let applying = until(&mut world, operation(1, asset_action(&[0, 1, 2], 7)), &Phase::Admitting).await;
    begin_false_receipts(&world, EffectStep::Admission, |_, other, truth| {
        let (admission_hash, operation_id) = (truth.admission_hash, truth.operation_id);
        let chain = Chain { admission_hash, operation_id, participant: other.participant() };
        other.sign_anything(&chain.statement(&ReceiptKind::Admitted).unwrap())
    })
    .await;
    assert_eq!(acknowledged(&world, &applying).await, [0, 2]);
}

#[tokio::test]
async fn share_without_a_valid_receipt_does_not_count() {
    for (name, replace) in FALSE_RECEIPTS {
        let mut world = World::with_key(3, 2, SUITES[0]).await;
        let signing = world.until_ceremony(operation(1, asset_action(&[0, 1, 2], 7))).await;
        begin_false_receipts(&world, EffectStep::Execute, replace).await;
        let lost = world.owed(&signing).await.unwrap();
        let Outcome::AttemptLost(why) = &lost else { panic!("{name}: {lost:?}") };
        assert!(why.starts_with("participant 1: receipt_refused: the receipt"), "{name}: {why}");
        let signed = world.complete(signing).await;
        let signature = signed.signature.unwrap();
        check_signature(&signature);
        assert_eq!(signature.signers, roster(&[0, 2]), "{name}");
    }
}

#[tokio::test]
async fn false_receipt_for_an_earlier_share_costs_an_attempt() {
    let mut world = World::with_key(3, 2, SUITES[0]).await;
    let signing = world.until_ceremony(operation(1, asset_action(&[0, 1, 2], 7))).await;
    let Outcome::Signed { signature, .. } = world.owed(&signing).await.unwrap() else { panic!() };
    assert_eq!(signature.signers, roster(&[0, 1]));
    world.restart().await;
    begin_false_receipts(&world, EffectStep::Execute, FALSE_RECEIPTS[3].1).await;
    assert!(matches!(world.owed(&signing).await.unwrap(), Outcome::AttemptLost(_)));
    assert_eq!(world.complete(signing).await.signature.unwrap().signers, roster(&[0, 2]));
}

#[tokio::test]
async fn node_with_a_false_receipt_is_named_when_it_is_needed() {
    let mut world = World::with_key(3, 3, SUITES[0]).await;
    for (id, phase, step) in [
        (1, Phase::Admitting, EffectStep::Admission),
        (2, Phase::Executing { attempt: 1 }, EffectStep::Execute),
    ] {
        end_false_receipts(&world).await;
        let signing = until(&mut world, operation(id, asset_action(&[0, 1, 2], id)), &phase).await;
        begin_false_receipts(&world, step, FALSE_RECEIPTS[3].1).await;
        let ended = if step == EffectStep::Admission {
            let failed = world.complete(signing).await;
            assert_eq!(failed.phase, Phase::Failed);
            failed
        } else {
            // Each node released its share, so a signature may exist.
            let refused = world.owed(&signing).await.unwrap();
            let discarding = world.settle(signing, refused);
            let why = world.owed(&discarding).await.unwrap_err();
            assert!(why.detail.contains("the node has released its signature share"), "{why}");
            assert_eq!((&discarding.phase, discarding.state()), (&Phase::Discarding, State::Executing));
            discarding
        };
        let failure = ended.failure.unwrap();
        assert_eq!(failure.code, "receipt_refused");
        assert_eq!(failure.culprits, [ParticipantIndex(FALSE_NODE)]);
        assert_eq!(
            failure.detail,
            "participant 1 misbehaved: the receipt is not signed by the node over this step and its subject"
        );
    }
}

#[tokio::test]
async fn generation_with_a_false_receipt_is_discarded() {
    let mut world = World::new();
    let creating = world.until_ceremony(operation(100, key_create(&[0, 1, 2], 2, SUITES[0]))).await;
    begin_false_receipts(&world, EffectStep::Execute, FALSE_RECEIPTS[3].1).await;
    let refused = world.owed(&creating).await.unwrap();
    let discarding = world.settle(creating, refused);
    assert_eq!(discarding.phase, Phase::Discarding);
    begin_false_receipts(&world, EffectStep::Discard, FALSE_RECEIPTS[0].1).await;
    assert_eq!(acknowledged(&world, &discarding).await, [0, 2]);
    end_false_receipts(&world).await;
    let failed = world.complete(discarding).await;
    assert_eq!(failed.phase, Phase::Failed);
    assert_eq!(failed.failure.unwrap().culprits, [ParticipantIndex(FALSE_NODE)]);
}

#[tokio::test]
async fn promotion_waits_for_a_valid_receipt() {
    let mut world = World::new();
    let creating = operation(100, key_create(&[0, 1, 2], 2, SUITES[0]));
    let is_committing = |operation: &Operation| matches!(operation.phase, Phase::CommittingEpoch { .. });
    let committing = world.drive(creating, is_committing).await.unwrap();
    begin_false_receipts(&world, EffectStep::CommitEpoch, FALSE_RECEIPTS[3].1).await;
    let acked = world.owed(&committing).await.unwrap();
    let waiting = world.settle(committing, acked);
    assert_eq!(
        waiting.phase,
        Phase::CommittingEpoch { attempt: 2, unacked: BTreeSet::from([ParticipantIndex(FALSE_NODE)]) }
    );
    let why = world.owed(&waiting).await.unwrap_err();
    assert!(why.detail.starts_with("participant 1: receipt_refused: "), "{why}");
    end_false_receipts(&world).await;
    assert_eq!(world.complete(waiting).await.phase, Phase::Published);
}

/// Verifies every recorded receipt with the events and the identities from the nodes' files alone. Returns the steps that have
/// receipts.
async fn steps_on_record(world: &World) -> BTreeSet<EffectStep> {
    let pinned = gateway_runtime::identities(&world.folder, &Arc::new(kek(1))).await.unwrap();
    let mut steps = BTreeSet::new();
    for (before, event) in &world.events {
        let Some((kind, receipts)) = signed_receipts(before, event) else { continue };
        for receipt in receipts {
            let statement = before.receipt_chain(receipt.participant).unwrap().statement(&kind).unwrap();
            receipt.verify(&statement, &pinned[&receipt.participant].signing_key()).unwrap();
        }
        steps.insert(kind.step());
    }
    steps
}

#[tokio::test]
async fn every_recorded_receipt_verifies_from_the_events_alone() {
    use EffectStep::{Admission, CommitEpoch, Discard, Execute, PolicyReceipt, Publish};
    let mut world = World::new();
    for submitted in crate::crash::all_kinds() {
        assert_eq!(world.complete(submitted).await.phase, Phase::Published);
    }
    let all = [Admission, PolicyReceipt, Execute, CommitEpoch, Publish];
    assert_eq!(steps_on_record(&world).await, BTreeSet::from(all));

    let mut world = World::new();
    let creating = world.until_ceremony(operation(100, key_create(&[0, 1, 2], 2, SUITES[0]))).await;
    let failure = Failure { code: "drill".into(), detail: "given up".into(), culprits: vec![] };
    let discarding = world.settle(creating, Outcome::Rejected { failure, policy: None });
    assert_eq!(world.complete(discarding).await.phase, Phase::Failed);
    assert_eq!(steps_on_record(&world).await, BTreeSet::from([Admission, PolicyReceipt, Discard]));
}

#[tokio::test]
async fn identities_are_read_only_under_the_nodes_key() {
    let world = World::with_key(3, 2, SUITES[0]).await;
    let pinned = gateway_runtime::identities(&world.folder, &Arc::new(kek(1))).await.unwrap();
    for (participant, identity) in &pinned {
        assert_eq!(identity, world.node(participant.0).await.identity());
    }
    assert_eq!(pinned.len(), 3);
    let other = gateway_runtime::identities(&world.folder, &Arc::new(kek(2))).await.unwrap_err();
    assert!(other.participant == ParticipantIndex(0) && other.source.is_wrong_kek(), "{other}");
}
