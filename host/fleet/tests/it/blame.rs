//! Who is blamed for a failed ceremony: participants that are proven to have deviated, and no others.

use crate::support::{World, operation};
use gateway_domain::intent::Intent;
use gateway_domain::operation::{Change, Event, Failure, Operation, Phase};
use gateway_domain::roster::ParticipantIndex;
use gateway_node::testing::{SUITES, key_create, recover, refresh, rotate};
use gateway_node::{Code, Envelope, Node, NodeRejection};
use gateway_threshold::Message;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use zeroize::Zeroizing;

/// A message with a changed body.
fn changed(message: &Message, change: impl FnOnce(&mut Vec<u8>)) -> Message {
    let Message { from, to, round, ref body } = *message;
    let mut body = Zeroizing::new(body.to_vec());
    change(&mut body);
    Message { from, to, round, body }
}

/// Changes the last byte; of an Ed25519 scalar, the first one.
fn flip(message: &Message, suite: &str) -> Message {
    let is_little_endian = suite == SUITES[0] && message.to.is_some();
    changed(message, |body| {
        let at = if is_little_endian { 32 } else { body.len() - 1 };
        body[at] ^= 1;
    })
}

fn failure(operation: Operation) -> Failure {
    assert_eq!(operation.phase, Phase::Failed, "{operation:?}");
    operation.failure.unwrap()
}

/// Checks that the participant is blamed, and for what.
#[track_caller]
fn assert_blamed(failure: &Failure, culprit: u16, what: &str) {
    assert_eq!(failure.code, "ceremony_misbehaviour", "{failure:?}");
    assert_eq!(failure.culprits, [ParticipantIndex(culprit)], "{failure:?}");
    assert!(failure.detail.starts_with(&format!("participant {culprit} misbehaved: ")), "{failure:?}");
    assert!(failure.detail.contains(what), "{failure:?}");
}

/// The changes of a key whose ceremonies node 1 takes part in as a dealer or helper, with the rounds of its private messages.
fn ceremonies(suite: &str) -> [(Intent, u8); 5] {
    [
        (key_create(&[0, 1, 2], 2, suite), 2),
        (rotate("2", &[0, 1, 2], 2), 2),
        (refresh("2"), 2),
        (recover("2", 2, &[0, 1]), 2),
        (recover("2", 2, &[0, 1]), 4),
    ]
}

async fn world(intent: &Intent, suite: &str) -> World {
    match intent {
        Intent::KeyCreate(_) => World::new(),
        _ => World::with_key(3, 2, suite).await,
    }
}

/// Runs the operation while node `liar` sends what `lie` makes of its messages.
async fn run_with_liar(
    world: &mut World,
    intent: Intent,
    liar: u16,
    lie: impl Fn(&Message) -> Vec<Message> + Send + 'static,
) -> Operation {
    world.node(liar).await.replace_mail(lie);
    world.complete(operation(1, intent)).await
}

#[tokio::test]
async fn dealer_of_a_wrong_value_is_blamed_by_proof() {
    for suite in SUITES {
        for (intent, wrong_round) in ceremonies(suite) {
            let mut world = world(&intent, suite).await;
            let sent = Arc::new(AtomicU32::new(0));
            let counted = Arc::clone(&sent);
            let lie = move |message: &Message| {
                if message.round == wrong_round && message.to.is_some() {
                    counted.fetch_add(1, Ordering::Relaxed);
                    return vec![flip(message, suite)];
                }
                vec![changed(message, |_| ())]
            };
            let failed = failure(run_with_liar(&mut world, intent, 1, lie).await);
            assert_blamed(&failed, 1, "does not match its commitments");
            assert!(sent.load(Ordering::Relaxed) > 0);
        }
    }
}

#[tokio::test]
async fn sender_of_a_wrong_broadcast_is_blamed_by_the_message_itself() {
    for suite in SUITES {
        for (intent, _) in ceremonies(suite) {
            for (round, what) in [(1, ""), (3, "echoed another transcript than that of the broadcasts")] {
                let mut world = world(&intent, suite).await;
                let lie = move |message: &Message| match message.round {
                    of if of == round => vec![flip(message, suite)],
                    _ => vec![changed(message, |_| ())],
                };
                let failed = failure(run_with_liar(&mut world, intent.clone(), 1, lie).await);
                assert_blamed(&failed, 1, what);
            }
        }
    }
}

#[tokio::test]
async fn sender_of_two_different_broadcasts_is_blamed() {
    let suite = SUITES[1];
    let mut world = World::with_key(3, 2, suite).await;
    let lie = move |message: &Message| match message.round {
        1 => vec![changed(message, |_| ()), flip(message, suite)],
        _ => vec![changed(message, |_| ())],
    };
    let failed = failure(run_with_liar(&mut world, refresh("2"), 1, lie).await);
    assert_blamed(&failed, 1, "two different messages in round 1");
}

fn accusation(culprit: u16) -> NodeRejection {
    let detail = format!("the secret value from participant {culprit} does not match its commitments");
    let culprits = vec![ParticipantIndex(culprit)];
    NodeRejection { code: Code::CeremonyMisbehaviour, detail, culprits, complaint: None }
}

/// An accusation with a complaint about the private message that the node got from this participant, which is right.
fn accusation_with_right_value(node: &Node, mail: &[Envelope], accused: u16) -> Option<NodeRejection> {
    let is_private = |it: &&Envelope| it.header().from == accused && it.header().to.is_some();
    let complaint = node.complain_about(mail.iter().find(is_private)?)?;
    Some(NodeRejection { complaint: Some(Box::new(complaint)), ..accusation(accused) })
}

/// Every receiver is needed, so that the attempts are used up; the accused is not blamed.
#[tokio::test]
async fn lying_receiver_cannot_have_a_dealer_blamed() {
    type Accuse = fn(&Node, &[Envelope]) -> Option<NodeRejection>;
    let accusations: [Accuse; 2] =
        [|_, _| Some(accusation(0)), |node, mail| accusation_with_right_value(node, mail, 0)];
    let suite = SUITES[0];
    for accuse in accusations {
        for intent in [key_create(&[0, 1, 2], 2, suite), recover("2", 1, &[0, 2])] {
            let mut world = world(&intent, suite).await;
            world.node(2).await.accuse(accuse);
            let failed = failure(world.complete(operation(1, intent)).await);
            assert_eq!(failed.code, "attempts_exhausted");
            assert!(failed.culprits.is_empty(), "{failed:?}");
            let lost = lost_attempts(&world);
            let says =
                |reason: &String| reason.contains("participant 2: it accuses participant 0 without proof");
            assert!(!lost.is_empty() && lost.iter().all(says), "{lost:?}");
        }
    }
}

/// The attempts that were lost, with their reasons.
fn lost_attempts(world: &World) -> Vec<String> {
    let reason = |(_, event): &(Operation, Event)| match &event.change {
        Change::AttemptLost { reason, .. } => Some(reason.clone()),
        _ => None,
    };
    world.events.iter().filter_map(reason).collect()
}

#[tokio::test]
async fn accused_dealer_is_replaced_and_the_change_completes() {
    let mut world = World::with_key(3, 2, SUITES[0]).await;
    // As long as 0 deals.
    let is_dealt = |it: &Envelope| it.header().from == 0 && it.header().to.is_some();
    world.node(2).await.accuse(move |_, mail| mail.iter().any(is_dealt).then(|| accusation(0)));
    let refreshed = world.complete(operation(1, refresh("2"))).await;
    assert_eq!(refreshed.phase, Phase::Published, "{:?}", refreshed.failure);
    let lost = lost_attempts(&world);
    assert_eq!(lost.len(), 1);
    assert!(lost[0].contains("participant 2: it accuses participant 0 without proof"), "{lost:?}");
}

/// A dealer that withholds a value from one receiver: the receiver cannot prove it, but the relay knows.
#[tokio::test]
async fn dealer_that_withholds_a_value_is_named_and_chosen_last() {
    let mut world = World::with_key(3, 2, SUITES[0]).await;
    let lie = |message: &Message| match message.to {
        Some(2) => vec![],
        _ => vec![changed(message, |_| ())],
    };
    let refreshed = run_with_liar(&mut world, refresh("2"), 0, lie).await;
    assert_eq!(refreshed.phase, Phase::Published, "{:?}", refreshed.failure);
    assert_eq!(lost_attempts(&world), ["messages of participant 0 are missing"]);
}
