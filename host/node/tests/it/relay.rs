//! A malicious relay cannot open private messages, and changes that it makes are detected.

use crate::support::{Group, KEY, code, mail};
use gateway_domain::operation::EffectStep;
use gateway_node::testing::{Case, SUITES};
use gateway_node::{CeremonyAnswer, Code, Envelope};
use serde_json::Value;

/// A key generation that has begun, and its first messages.
async fn start_ceremony() -> (Group, Case, Vec<Envelope>) {
    let group = Group::open(3).await;
    let case = Case::key_create(1, KEY, 3, 2, SUITES[0]);
    group.admit(&case).await;
    let sent = group.start(&case, 1).await;
    (group, case, sent)
}

async fn deliver(group: &Group, case: &Case, to: u16, sent: &[Envelope]) -> Result<CeremonyAnswer, Code> {
    let call = case.call(to, EffectStep::Execute, 1, 1);
    let answer = group.nodes[usize::from(to)].ceremony_deliver(&call, &mail(sent, to)).await;
    answer.map_err(|error| code::<()>(Err(error)))
}

/// Delivers the messages to all nodes. Returns their next messages.
async fn deliver_to_all(group: &Group, case: &Case, sent: &[Envelope]) -> Vec<Envelope> {
    let mut next = vec![];
    for to in 0..3 {
        match deliver(group, case, to, sent).await.unwrap() {
            CeremonyAnswer::Send(messages) => next.extend(messages),
            CeremonyAnswer::Staged { keys, .. } => panic!("{keys:?}"),
        }
    }
    next
}

fn changed(envelope: &Envelope, change: impl FnOnce(&mut Value)) -> Envelope {
    let mut value = serde_json::to_value(envelope).unwrap();
    change(&mut value);
    serde_json::from_value(value).unwrap()
}

#[tokio::test]
async fn private_message_opens_only_for_its_recipient() {
    let (group, case, sent) = start_ceremony().await;
    assert!(sent.iter().all(|envelope| envelope.header().to.is_none()), "commitments are broadcast");
    let points = deliver_to_all(&group, &case, &sent).await;
    assert_eq!(points.len(), 6);
    // Another node refuses the message and ends its part in the ceremony.
    let mut nodes_left = std::collections::BTreeSet::from([0, 1, 2]);
    for point in &points {
        let to = point.header().to.unwrap();
        assert_ne!(to, point.header().from);
        let other = (0..3).find(|other| *other != to && *other != point.header().from).unwrap();
        if nodes_left.remove(&other) {
            let call = case.call(other, EffectStep::Execute, 1, 1);
            let refused =
                group.nodes[usize::from(other)].ceremony_deliver(&call, std::slice::from_ref(point)).await;
            assert_eq!(code(refused), Code::RelayMisbehaviour);
        }
    }
    assert!(nodes_left.is_empty());
}

#[tokio::test]
async fn altered_message_ends_the_ceremony_and_blames_no_participant() {
    type Change = fn(&mut Value);
    let changes: [(&str, Change); 3] = [
        ("body", |value| flip(&mut value["body"])),
        ("signature", |value| flip(&mut value["signature"])),
        ("round", |value| value["header"]["round"] = 9.into()),
    ];
    for (what, change) in changes {
        let (group, case, mut sent) = start_ceremony().await;
        sent[1] = changed(&sent[1], change);
        assert_eq!(deliver(&group, &case, 0, &sent).await.unwrap_err(), Code::RelayMisbehaviour, "{what}");
        // The attempt is over; another one succeeds.
        let next = group.run_keygen(&case, 2).await;
        assert_eq!(next.verifying_shares().len(), 3);
    }
}

#[tokio::test]
async fn messages_of_another_attempt_or_sender_are_refused() {
    let (group, case, old) = start_ceremony().await;
    let new = group.start(&case, 2).await;
    let call = case.call(0, EffectStep::Execute, 2, 2);
    let replayed = group.nodes[0].ceremony_deliver(&call, &mail(&old, 0)).await;
    assert_eq!(code(replayed), Code::RelayMisbehaviour);
    let (group, case, sent) = start_ceremony().await;
    let forged = changed(&sent[1], |value| value["header"]["from"] = 2.into());
    assert_eq!(deliver(&group, &case, 0, &[forged]).await.unwrap_err(), Code::RelayMisbehaviour);
    drop(new);
}

fn flip(text: &mut Value) {
    let Value::String(hex) = text else { panic!("{text}") };
    let flipped = if hex.starts_with('0') { "1" } else { "0" };
    hex.replace_range(..1, flipped);
}
